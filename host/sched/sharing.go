// Sharing: servers that know of no interference. The baselines of Strait (section 5.1) are choices of
// its fields: temporal (Limit 1), static (Limit 3) and reactive sharing (Limit 4, Reactive), and what an
// interceptor of kernels such as XSched leaves to the server (BMax 1, Instances 1, Keep; priorities are
// the device's business then).

package sched

// The constants of reactive sharing.
const (
	reactiveHigh   = 3 // batches of one priority on a device, unless taken back
	reactiveLow    = 1
	reactivePeriod = Time(200_000_000)
)

// Sharing launches the largest batch that waits, of the highest priority, the oldest first, on the
// device with the fewest batches. It keeps buffers, so each run needs one of its own.
type Sharing struct {
	Label     string
	BMax      int     // largest batch; 0: whatever the device and its table allow
	Limit     int     // batches on a device at the same time; 0: its places
	Lows      int     // of which of low priority; 0: no limit
	Instances int     // batches of one network on a device at the same time; 0: no limit
	Reactive  bool    // low priority gives a place up when high priority is late, for the rest of 200 ms
	Form      float64 // share of its time that a request may wait for its batch to fill; 0: none
	Keep      bool    // nobody is given up

	ledger  ledger
	lanes   lanes
	allowed int  // batches of low priority on a device
	reset   Time // when that is taken back
}

// Name implements Policy.
func (p *Sharing) Name() string { return p.Label }

// Mapping is the mapping that it wants.
func (*Sharing) Mapping() string { return MappingR }

type sharingState struct {
	ledger  ledger
	allowed int
	reset   Time
}

// Snapshot implements Keeper.
func (p *Sharing) Snapshot() any { return sharingState{p.ledger.clone(), p.allowed, p.reset} }

// Restore implements Keeper.
func (p *Sharing) Restore(snapshot any) {
	s := snapshot.(sharingState)
	p.ledger, p.allowed, p.reset = s.ledger.clone(), s.allowed, s.reset
}

// Decide serves every lane as far as devices have places for it.
func (p *Sharing) Decide(now Time, s *State, ev *Event, buf []Action) []Action {
	if now >= p.reset || p.allowed == 0 {
		p.allowed, p.reset = reactiveHigh, now/reactivePeriod*reactivePeriod+reactivePeriod
	}
	if c := p.ledger.follow(now, s, ev); c.late && c.batch.priority > 0 {
		p.allowed = max(reactiveLow, p.allowed-1)
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
			p.allowed = max(reactiveLow, p.allowed-1)
		}
		return false
	})
	wait := Time(-1)
	for _, l := range order {
		for len(l.ids) > 0 {
			dev, most := p.place(s, l)
			if dev < 0 {
				break
			}
			if ready, until := l.full(now, most, p.Form); !ready {
				if wait < 0 || until < wait {
					wait = until
				}
				break
			}
			n := min(most, len(l.ids))
			t := s.Devices[dev].Table(l.network)
			p.ledger.add(&underway{device: dev, network: l.network, priority: l.priority, deadline: l.deadline[n-1], sent: now, copies: copies(t, n)}, l.ids[:n])
			buf = append(buf, Action{Kind: Launch, Device: dev, Network: l.network, Last: t.Segments() - 1, Requests: l.ids[:n:n], Priority: l.priority})
			l.skip(n)
		}
	}
	if s.Queue.Len() > 0 && p.Reactive && (wait < 0 || p.reset < wait) {
		wait = p.reset
	}
	if wait > now {
		buf = append(buf, Action{Kind: Wait, Until: wait})
	}
	return buf
}

// place is the device with the fewest batches of those that may take one of the lane's; -1: none.
func (p *Sharing) place(s *State, l *lane) (dev, most int) {
	dev, least := -1, 0
	for i := range s.Devices {
		d := &s.Devices[i]
		t := d.Table(l.network)
		if t == nil || d.Down {
			continue
		}
		limit := d.Places
		if p.Limit > 0 {
			limit = min(limit, p.Limit)
		}
		n, same, instances := 0, 0, 0
		for j := range p.ledger.all {
			if r := &p.ledger.all[j]; r.device == i {
				n++
				if r.priority == l.priority {
					same++
				}
				if r.network == l.network {
					instances++
				}
			}
		}
		allowed := limit
		if p.Reactive {
			if allowed = reactiveHigh; l.priority == 0 {
				allowed = p.allowed
			}
		}
		if n >= limit || same >= allowed || p.Instances > 0 && instances >= p.Instances {
			continue
		}
		if p.Lows > 0 && l.priority == 0 && same >= p.Lows {
			continue
		}
		if b := bMax(p.BMax, d, t); d.Used+b <= d.Slots && (dev < 0 || n < least) {
			dev, least, most = i, n, b
		}
	}
	return dev, most
}

var _ Keeper = (*Sharing)(nil)
