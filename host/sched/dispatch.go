// Dispatch is what a server does that leaves the order to the device: GPU streams, or one at a time.

package sched

import "github.com/sluice-npu/sluice/host/device"

// Dispatch launches every waiting request as a launch of its own, through the whole network, as soon as
// a device has a place for it: those of higher priority first, each priority in order of arrival.
type Dispatch struct {
	// One: nothing is launched while something runs on the device (sequential execution, as in
	// Clockwork and in REEF's SEQ).
	One bool
	ids []device.RequestID
}

// Name is the policy's name on the command line.
func (p *Dispatch) Name() string {
	if p.One {
		return "seq"
	}
	return "dispatch"
}

// Mapping is the mapping that it wants.
func (*Dispatch) Mapping() string { return MappingR }

// Decide fills the places that are free.
func (p *Dispatch) Decide(_ Time, s *State, _ *Event, buf []Action) []Action {
	q := &s.Queue
	p.ids = p.ids[:0]
	for i := range q.Len() {
		p.ids = append(p.ids, q.At(i).ID)
	}
	taken := uint64(0) // the first 64 of the queue
	for i := range s.Devices {
		d := &s.Devices[i]
		if d.Down {
			continue
		}
		free := d.Places - len(d.Launches)
		if p.One {
			free = min(free, 1)
			if len(d.Launches) > 0 {
				free = 0
			}
		}
		for ; free > 0; free-- {
			first := 0 // that has not been taken and that the device serves
			for first < min(q.Len(), 64) && (taken>>first&1 != 0 || d.Table(q.At(first).Network) == nil) {
				first++
			}
			if first == min(q.Len(), 64) {
				break
			}
			taken |= 1 << first
			r := q.At(first)
			buf = append(buf, Action{
				Kind: Launch, Device: i, Network: r.Network, Last: d.Table(r.Network).Segments() - 1,
				Requests: p.ids[first : first+1], Priority: r.Priority,
			})
		}
	}
	return buf
}
