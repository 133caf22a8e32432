// Serial: first come, first served, B = 1. It is the baseline SERIAL of Kouris et al., "Fluid Batching", section IV.

package sched

// Serial runs one request at a time through the whole network. With Poisson arrivals it is an M/G/1 queue.
type Serial struct{}

func (Serial) Name() string { return "serial" }

func (Serial) Largest() int { return 1 }

// Decide launches the oldest waiting request on every idle device.
func (Serial) Decide(_ Time, s *State, _ *Event, buf []Action) []Action {
	taken := 0
	for i := range s.Devices {
		d := &s.Devices[i]
		if taken == s.Queue.Len() {
			break
		}
		if d.Down || len(d.Launches) > 0 {
			continue
		}
		// Only the request at the head is launched, so a device waits if it cannot serve the network of this request.
		r := s.Queue.At(taken)
		t := d.Table(r.Network)
		if t == nil {
			continue
		}
		buf = whole(buf, i, r.Network, t, 1)
		taken++
	}
	return buf
}
