// Dispatch imitates servers without a scheduler. A request is launched as soon as the device has a free place, as with
// GPU streams. If the field One is true, it is launched as soon as no other launch runs on the device.

package sched

import "github.com/sluice-npu/sluice/host/device"

// Dispatch launches every waiting request separately, through the whole network, as soon as a device has a free place.
// Higher priorities go first. Requests of the same priority are launched in the order of arrival.
type Dispatch struct {
	// One: no request is launched while a launch runs on the device. This is sequential execution, as in Clockwork and
	// in REEF's SEQ.
	One bool
	ids []device.RequestID
}

func (p *Dispatch) Name() string {
	if p.One {
		return "seq"
	}
	return "dispatch"
}

// Decide fills the free places of every device.
func (p *Dispatch) Decide(_ Time, s *State, _ *Event, buf []Action) []Action {
	q := &s.Queue
	p.ids = p.ids[:0]
	for i := range q.Len() {
		p.ids = append(p.ids, q.At(i).ID)
	}
	taken := uint64(0) // bit i is set if this answer has launched request i of the queue, i < 64
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
			first := 0 // the first request that the device can serve and that this answer has not launched
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
