// Earliest deadline first: Liu and Layland, "Scheduling Algorithms for Multiprogramming in a
// Hard-Real-Time Environment", JACM 20(1), 1973, section 7, with batches: an idle device takes the
// (up to) B_max waiting requests with the earliest deadlines. One batch at a time, the whole network,
// no preemption; nothing is dropped. With one SLO for all it is batching without a timeout.

package sched

// EDF has the parameter B_max. It keeps a buffer for its answers, so each run needs one of its own.
type EDF struct {
	BMax int // largest batch; 0: whatever the device and its table allow

	pick picks
}

// Name is the policy's name on the command line.
func (*EDF) Name() string { return "edf" }

// Mapping is R: what a system without Fluid Batching runs on.
func (*EDF) Mapping() string { return MappingR }

// Decide serves every idle device. It costs O(B_max) a device where deadlines are in the order of
// arrival, else O(N_Q).
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
