// Adaptive batching (AdaptB): Crankshaw et al., "Clipper: A Low-Latency Online Prediction Serving System", NSDI 2017,
// section 4.3, in the form <B_max, T_timeout> of Kouris et al., "Fluid Batching", II-A. A full batch is dispatched at
// once. An incomplete batch is dispatched when its oldest request has waited for T_timeout. A batch runs through the
// whole network without preemption; places that become free at exits stay empty. The variants S, M and L wait for 5, 45
// and 95 % of the SLO (section IV, "Baselines"). Variants FC and R differ only in mapping and latency table.

package sched

// AdaptB waits for a full batch or a timeout (AdaptB-S, -M, -L of the Fluid Batching paper). Its parameters are <B_max,
// T_timeout>.
type AdaptB struct {
	BMax    int    // largest batch; 0: the limit of the device and its table
	SLO     Time   // 0: the time of each request from arrival to deadline
	Percent int64  // T_timeout in percent of the SLO
	Label   string // name of the policy
}

func (a AdaptB) Name() string { return a.Label }

func (a AdaptB) Largest() int { return a.BMax }

// Decide dispatches to every idle device, or requests a later call with Wait.
func (a AdaptB) Decide(now Time, s *State, _ *Event, buf []Action) []Action {
	taken := 0
	for i := range s.Devices {
		d := &s.Devices[i]
		if taken == s.Queue.Len() {
			break
		}
		if !d.idle() {
			continue
		}
		oldest := s.Queue.At(taken)
		t := d.Table(oldest.Network)
		if t == nil {
			continue
		}
		limit := bMax(a.BMax, d, t)
		n := Head(&s.Queue, oldest.Network, taken, limit)
		if due := a.due(&s.Queue, taken, n, t.At(0, t.Segments()-1, limit)); n < limit && now < due {
			return append(buf, Action{Kind: Wait, Until: due}) // other devices would wait for the same request
		}
		buf = whole(buf, i, oldest.Network, t, n)
		taken += n
	}
	return buf
}

// patientBatches limits a timeout that is computed from a request's own deadline to this many durations of a full
// batch. A device should not stay idle until a distant deadline: in that time it could serve a hundred full batches,
// but waiting saves less than one full batch. The publication's timeouts are far below this limit (its SLO is about
// five times the latency of one request). A timeout from the field SLO is not limited.
const patientBatches = 100

// due returns the time at which the first T_timeout ends. Of the n requests from index `from` on, it considers only the
// oldest request of each level.
func (a AdaptB) due(q *Queue, from, n int, full Time) Time {
	due := Never
	for i := from; i < from+n; i = q.Level(i) {
		due = min(due, q.At(i).Arrived+a.timeout(q.At(i), full))
	}
	return due
}

// timeout returns T_timeout of a request. full is the duration of a full batch.
func (a AdaptB) timeout(r *Request, full Time) Time {
	slo, most := a.SLO, Never
	if slo == 0 {
		if !r.HasDeadline() { // without a deadline there is no SLO, so the request does not wait
			return 0
		}
		slo = max(0, r.Deadline-r.Arrived)
		if full < Never/patientBatches {
			most = patientBatches * full
		}
	}
	return min(slo/100*a.Percent+slo%100*a.Percent/100, most) // this cannot overflow for any SLO
}
