// Clockwork: Gujarati et al., "Serving DNNs like Clockwork: Performance Predictability from the Bottom Up", OSDI 2020,
// section 5.3, on one accelerator that runs one batch at a time. Each batch size has a queue, sorted by the latest
// start (deadline minus the batch's time). Sizes are tried from the largest to the smallest. A request that has missed
// its latest start for a size leaves the queue of that size. A request that has missed its latest start for size 1 is
// given up. A size is skipped if its queue is shorter than the size.
//
// A batch must include a request of the highest waiting level. Sizes without such a request are skipped.
//
// For one size, sorting by latest start is the same as sorting by deadline. So one sorted list represents all queues.
// The queue of size b is the part of the list with deadline >= now + T(b).

package sched

// Clockwork is the policy of Gujarati et al., "Serving DNNs like Clockwork". Its parameter is B_max. It reuses a buffer in all calls, so each run needs its own Clockwork.
type Clockwork struct {
	BMax int // largest batch; 0: the limit of the device and its table

	pick picks
	fit  []int // requests of a batch, as indices into the order of deadlines
}

func (*Clockwork) Name() string { return "clockwork" }

func (p *Clockwork) Largest() int { return p.BMax }

// Decide serves every idle device. It gives up requests that no device can serve in time. The cost per device is
// O(B_max^2 + dropped), plus O(N_Q) if deadlines are not in the order of arrival.
func (p *Clockwork) Decide(now Time, s *State, _ *Event, buf []Action) []Action {
	p.pick.reset(&s.Queue)
	for i := range s.Devices {
		d := &s.Devices[i]
		if !d.idle() {
			continue
		}
		first, r, ok := p.pick.next(0)
		for ; ok; first, r, ok = p.pick.next(first + 1) {
			if alone := quickest(s, r.Network); alone < 0 || now+alone <= r.Deadline {
				break
			}
			p.pick.take(first)
			buf = append(buf, Action{Kind: Drop, Request: r.ID})
		}
		if !ok {
			break
		}
		if t := d.Table(r.Network); t != nil {
			buf = p.dispatch(now, i, d, r, t, first, buf)
		}
	}
	return buf
}

func (p *Clockwork) dispatch(now Time, dev int, d *DeviceView, head *Request, t *Table, first int, buf []Action) []Action {
	from := len(p.pick.ids)
	for b := bMax(p.BMax, d, t); b >= 1; b-- {
		end := now + t.At(0, t.Segments()-1, b)
		p.fit = p.fit[:0]
		for i, r, ok := p.pick.next(first); ok && len(p.fit) < b && (len(p.fit) > 0 || r.Priority == head.Priority); i, r, ok = p.pick.next(i + 1) {
			if r.Network == head.Network && end <= r.Deadline {
				p.fit = append(p.fit, i)
			}
		}
		if len(p.fit) == b {
			for _, i := range p.fit {
				p.pick.take(i)
			}
			return chosen(buf, dev, head.Network, t.Segments()-1, p.pick.ids[from:])
		}
	}
	return buf
}

// quickest returns the time of one request alone on the fastest available device; -1 if no device serves the network.
func quickest(s *State, network string) Time {
	best := Time(-1)
	for i := range s.Devices {
		if t := s.Devices[i].Table(network); t != nil && !s.Devices[i].Down && (best < 0 || t.Alone() < best) {
			best = t.Alone()
		}
	}
	return best
}
