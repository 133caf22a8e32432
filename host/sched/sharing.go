// Sharing models servers that do not consider interference. The baselines of Strait (section 5.1) are settings of its
// fields: temporal sharing (Limit 1), static sharing (Limit 3), reactive sharing (Limit 4, Reactive), and the server
// behind a kernel interceptor such as XSched (BMax 1, Instances 1, Keep; there the device handles priorities).

package sched

// Constants of reactive sharing.
const (
	reactiveHigh   = 3 // batches of one priority on a device, unless reduced
	reactiveLow    = 1
	reactivePeriod = Time(200_000_000)
)

// Sharing launches the largest waiting batch, of the highest priority and the oldest first, on the device with the
// fewest batches. It keeps buffers, so each run needs its own Sharing.
type Sharing struct {
	Label     string
	BMax      int     // largest batch; 0: whatever the device and its table allow
	Limit     int     // batches on a device at once; 0: as many as the device has places
	Lows      int     // limit for batches of low priority among these; 0: none
	Instances int     // batches of one network on a device at once; 0: no limit
	Reactive  bool    // if high priority is late, low priority may have one batch less for the rest of 200 ms
	Form      float64 // share of the time to its deadline that a request may wait for its batch to fill; 0: it does not wait
	Keep      bool    // no request is given up

	ledger  ledger
	lanes   lanes
	allowed int  // number of batches of low priority that a device may have now
	reset   Time // when allowed is set to its initial value again
}

// Name implements Policy.
func (p *Sharing) Name() string { return p.Label }

// Decide serves every lane as far as devices have free places for it.
func (p *Sharing) Decide(now Time, s *State, ev *Event, buf []Action) []Action {
	if now >= p.reset || p.allowed == 0 {
		p.allowed, p.reset = reactiveHigh, now/reactivePeriod*reactivePeriod+reactivePeriod
	}
	if c := p.ledger.follow(now, s, ev); c.late && c.batch.priority > 0 {
		p.oneLess()
	}
	order := p.lanes.sort(&s.Queue, false, func(r *Request) bool {
		if p.Keep {
			return true
		}
		alone := quickest(s, r.Network)
		if alone < 0 || now+alone <= r.Deadline {
			return true
		}
		buf = append(buf, Action{Kind: Drop, Request: r.ID})
		if r.Priority > 0 {
			p.oneLess()
		}
		return false
	})
	wait := never
	for _, l := range order {
		var until Time
		buf, until = p.serve(now, s, l, buf)
		wait = min(wait, until)
	}
	if s.Queue.Len() > 0 && p.Reactive {
		wait = min(wait, p.reset)
	}
	if wait > now && wait < never {
		buf = append(buf, Action{Kind: Wait, Until: wait})
	}
	return buf
}

// oneLess reduces the number of batches that low priority may have by one.
func (p *Sharing) oneLess() { p.allowed = max(reactiveLow, p.allowed-1) }

// serve launches batches of a lane while a device may take one. It also returns the time at which the lane's next batch need
// not wait to fill any more.
func (p *Sharing) serve(now Time, s *State, l *lane, buf []Action) ([]Action, Time) {
	for len(l.ids) > 0 {
		dev, most := p.place(s, l)
		if dev < 0 {
			break
		}
		if ready, until := l.full(now, most, p.Form); !ready {
			return buf, until
		}
		n := min(most, len(l.ids))
		t := s.Devices[dev].Table(l.network)
		p.ledger.add(&underway{device: dev, network: l.network, priority: l.priority, deadline: l.deadline[n-1], sent: now, copies: copies(t, n)}, l.ids[:n])
		buf = append(buf, Action{Kind: Launch, Device: dev, Network: l.network, Last: t.Segments() - 1, Requests: l.ids[:n:n], Priority: l.priority})
		l.skip(n)
	}
	return buf, never
}

// place returns the device with the fewest batches among those that may take a batch of the lane; -1: none.
func (p *Sharing) place(s *State, l *lane) (dev, most int) {
	dev, least := -1, 0
	for i := range s.Devices {
		d := &s.Devices[i]
		t := d.Table(l.network)
		if t == nil || d.Down {
			continue
		}
		n, room := p.room(i, d, l)
		if b := bMax(p.BMax, d, t); room && d.Used+b <= d.Slots && (dev < 0 || n < least) {
			dev, least, most = i, n, b
		}
	}
	return dev, most
}

// room returns the number of batches on a device, and whether it may have one more of the lane.
func (p *Sharing) room(i int, d *DeviceView, l *lane) (n int, room bool) {
	same, instances := 0, 0
	for j := range p.ledger.all {
		r := &p.ledger.all[j]
		if r.device != i {
			continue
		}
		n++
		if r.priority == l.priority {
			same++
		}
		if r.network == l.network {
			instances++
		}
	}
	limit := d.Places
	if p.Limit > 0 {
		limit = min(limit, p.Limit)
	}
	allowed := limit
	switch {
	case p.Reactive && l.priority == 0:
		allowed = p.allowed
	case p.Reactive:
		allowed = reactiveHigh
	}
	if p.Lows > 0 && l.priority == 0 {
		allowed = min(allowed, p.Lows)
	}
	return n, n < limit && same < allowed && (p.Instances == 0 || instances < p.Instances)
}

var _ Policy = (*Sharing)(nil)
