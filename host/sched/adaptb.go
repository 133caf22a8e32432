// Adaptive batching (AdaptB): Crankshaw et al., "Clipper: A Low-Latency Online Prediction Serving System", NSDI 2017,
// section 4.3, in the form <B_max, T_timeout> of Kouris et al., "Fluid Batching", II-A. A full batch is dispatched at
// once, an incomplete one when its oldest request has waited for T_timeout. A batch runs through the whole network
// without preemption; places that become free at exits stay empty. The variants S, M and L wait for 5, 45 and 95 % of
// the SLO (section IV, "Baselines"). FC and R differ only in the mapping, and so in the table.

package sched

// AdaptB has the parameters <B_max, T_timeout>.
type AdaptB struct {
	BMax    int    // largest batch; 0: whatever the device and its table allow
	SLO     Time   // 0: each request's own, from arrival to deadline
	Percent int64  // T_timeout in percent of the SLO
	Label   string // its name
}

func (a AdaptB) Name() string { return a.Label }

func (a AdaptB) Largest() int { return a.BMax }

// Decide dispatches to every idle device, or says when to ask again.
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
			return append(buf, Action{Kind: Wait, Until: due}) // further devices would wait for the same request
		}
		buf = whole(buf, i, oldest.Network, t, n)
		taken += n
	}
	return buf
}

// patientBatches limits how long a request waits for others when its own deadline sets the timeout: at most this many times
// the duration of a full batch. A far deadline means that there is no hurry. It does not mean that a device should be idle
// until then: in that time it could serve a hundred full batches, while waiting saves less than one. The settings of the
// publication (an SLO of about five times one request alone) are far below this limit. An explicit timeout (SLO) is not
// limited.
const patientBatches = 100

// due returns the time at which the first T_timeout ends. It examines the n requests from the given place on, and of these
// the oldest of each level.
func (a AdaptB) due(q *Queue, from, n int, full Time) Time {
	due := Never
	for i := from; i < from+n; i = q.Level(i) {
		due = min(due, q.At(i).Arrived+a.timeout(q.At(i), full))
	}
	return due
}

// timeout returns T_timeout of a request, if a full batch takes the given time.
func (a AdaptB) timeout(r *Request, full Time) Time {
	slo, most := a.SLO, Never
	if slo == 0 {
		if !r.HasDeadline() { // without a deadline there is no SLO: do not wait
			return 0
		}
		slo = max(0, r.Deadline-r.Arrived)
		if full < Never/patientBatches {
			most = patientBatches * full
		}
	}
	return min(slo/100*a.Percent+slo%100*a.Percent/100, most) // cannot overflow for any SLO
}
