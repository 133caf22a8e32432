// EDF, earliest deadline first: Liu and Layland, "Scheduling Algorithms for Multiprogramming in a Hard-Real-Time
// Environment", JACM 20(1), 1973, section 7, extended by batches. An idle device serves up to B_max waiting requests
// with the earliest deadlines. The device runs one batch at a time through the whole network, without preemption. No
// request is dropped. If all requests have the same SLO, EDF is the same as batching without a timeout.

package sched

// EDF serves the requests with the earliest deadlines first. Its parameter is B_max. It reuses a buffer in all calls, so each run needs its own EDF.
type EDF struct {
	BMax int // largest batch; 0: the limit of the device and its table

	pick picks
}

func (*EDF) Name() string { return "edf" }

func (e *EDF) Largest() int { return e.BMax }

// Decide serves every idle device. The cost per device is O(B_max) if deadlines are in the order of arrival, otherwise
// O(N_Q).
func (e *EDF) Decide(_ Time, s *State, _ *Event, buf []Action) []Action {
	e.pick.reset(&s.Queue)
	for i := range s.Devices {
		d := &s.Devices[i]
		if !d.idle() {
			continue
		}
		at, r, ok := e.pick.next(0)
		if !ok {
			break
		}
		network := r.Network
		t := d.Table(network)
		if t == nil {
			continue
		}
		limit := bMax(e.BMax, d, t)
		from := len(e.pick.ids)
		for ; ok && len(e.pick.ids)-from < limit && r.Network == network; at, r, ok = e.pick.next(at + 1) {
			e.pick.take(at)
		}
		buf = chosen(buf, i, network, t.Segments()-1, e.pick.ids[from:])
	}
	return buf
}
