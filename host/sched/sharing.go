// Sharing models servers that do not consider interference. Its fields select one of Strait's baselines (section 5.1):
// temporal sharing (Limit 1), static sharing (Limit 3), reactive sharing (Limit 4, Reactive), or a server behind a
// kernel interceptor such as XSched (BMax 1, Instances 1, Keep), where the device handles priorities.

package sched

// Constants of reactive sharing.
const (
	reactiveHigh   = 3 // number of batches of high priority on a device, and initial value of Sharing.allowed
	reactiveLow    = 1 // minimum of Sharing.allowed
	reactivePeriod = Time(200_000_000)
)

// Sharing launches the largest waiting batch on the device with the fewest batches. The highest priority goes first,
// and within a priority the oldest request. Sharing stores buffers, so each run needs its own Sharing.
type Sharing struct {
	Label     string
	BMax      int     // largest batch; 0: the limit of the device and its table
	Limit     int     // number of batches on a device at once; 0: the number of places of the device
	Lows      int     // maximum number of these batches with low priority; 0: no limit
	Instances int     // number of batches of one network on a device at once; 0: no limit
	Reactive  bool    // if high priority is late, low priority has one batch less in this period
	Form      float64 // wait for a full batch, as a share of the time until a request's deadline; 0: no wait
	Keep      bool    // no request is given up

	ledger  ledger
	lanes   lanes
	allowed int  // number of batches of low priority that are allowed on a device now
	reset   Time // time at which allowed is set to its initial value again
}

// Name implements Policy.
func (p *Sharing) Name() string { return p.Label }

// Decide serves each lane while a device has a free place for it.
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

// oneLess reduces the allowed number of batches of low priority by one.
func (p *Sharing) oneLess() { p.allowed = max(reactiveLow, p.allowed-1) }

// serve launches batches of a lane as long as a device accepts them. It also returns the time until which the lane's
// next batch may wait for more requests.
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

// place returns the device with the fewest batches, among the devices that may run another batch of the lane; -1: none.
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

// room returns the number of batches on a device. It also reports whether the device may run another batch of the lane.
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
