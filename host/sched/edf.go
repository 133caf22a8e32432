// Earliest deadline first: Liu and Layland, "Scheduling Algorithms for Multiprogramming in a Hard-Real-Time
// Environment", JACM 20(1), 1973, section 7, extended by batches. An idle device takes up to B_max waiting requests
// with the earliest deadlines. It runs one batch at a time through the whole network, without preemption, and drops
// nothing. If all requests have the same SLO, it is batching without a timeout.

package sched

// EDF has the parameter B_max. It keeps a buffer between calls, so each run needs its own EDF.
type EDF struct {
	BMax int // largest batch; 0: whatever the device and its table allow

	pick picks
}

func (*EDF) Name() string { return "edf" }

func (e *EDF) Largest() int { return e.BMax }

// Decide serves every idle device. It costs O(B_max) per device if deadlines are in the order of arrival, else
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
