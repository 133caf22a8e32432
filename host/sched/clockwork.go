// Clockwork: Gujarati et al., "Serving DNNs like Clockwork: Performance Predictability from the
// Bottom Up", OSDI 2020, section 5.3, on one accelerator: one batch at a time, a queue for every
// batch size keyed by the latest start (deadline minus the batch's time), tried from the largest
// size to the smallest; a request that has missed its latest start at a size is out of that size's
// queue, and one that has missed it at size 1 is given up. A size whose queue holds fewer requests
// than it needs is passed over.
//
// For one size the latest start and the deadline order requests alike, so one order serves all
// queues: size b's queue is what of it has deadline >= now + T(b).

package sched

// Clockwork has the parameter B_max. It keeps a buffer for its answers, so each run needs one of
// its own.
type Clockwork struct {
	BMax int // largest batch; 0: whatever the device and its table allow

	pick picks
}

// Name is the policy's name on the command line.
func (*Clockwork) Name() string { return "clockwork" }

// Mapping is R: what a system without Fluid Batching runs on.
func (*Clockwork) Mapping() string { return MappingR }

// Decide serves every idle device, and gives up what no device can serve in time. Where deadlines
// are in the order of arrival it costs O(B_max^2 + dropped) a device.
func (p *Clockwork) Decide(now Time, s *State, _ *Event, buf []Action) []Action {
	p.pick.reset()
	for i := range s.Devices {
		d := &s.Devices[i]
		if !d.idle() {
			continue
		}
		first, ok := p.pick.next(&s.Queue, none)
		for ; ok; first, ok = p.pick.next(&s.Queue, first) {
			r := s.Queue.At(first.at)
			if alone := quickest(s, r.Network); alone < 0 || now+alone <= r.Deadline {
				break
			}
			p.pick.take(&s.Queue, first)
			buf = append(buf, Action{Kind: Drop, Request: r.ID})
		}
		if !ok {
			break
		}
		network := s.Queue.At(first.at).Network
		if t := d.Table(network); t != nil {
			buf = p.dispatch(now, s, i, network, t, first, buf)
		}
	}
	return buf
}

func (p *Clockwork) dispatch(now Time, s *State, dev int, network string, t *Table, first place, buf []Action) []Action {
	from := len(p.pick.ids)
	for b := bMax(p.BMax, &s.Devices[dev], t); b >= 1; b-- {
		end := now + t.At(0, t.Segments()-1, b)
		for c, ok := first, true; ok && len(p.pick.ids)-from < b; c, ok = p.pick.next(&s.Queue, c) {
			if r := s.Queue.At(c.at); r.Network == network && end <= r.Deadline {
				p.pick.take(&s.Queue, c)
			}
		}
		if len(p.pick.ids)-from == b {
			return chosen(buf, dev, network, t.Segments()-1, p.pick.ids[from:])
		}
		p.pick.ids = p.pick.ids[:from]
	}
	return buf
}

// quickest is the time of one request alone on the fastest device that is up, or -1 where none is.
func quickest(s *State, network string) Time {
	best := Time(-1)
	for i := range s.Devices {
		if t := s.Devices[i].Table(network); t != nil && !s.Devices[i].Down && (best < 0 || t.Alone() < best) {
			best = t.Alone()
		}
	}
	return best
}
