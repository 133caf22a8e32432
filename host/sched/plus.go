// Fluid+ is our policy. It has the mechanism of Fluid Batching (fluid.go), but another criterion. At every dispatch and
// every exit it computes a cost for each possible number c of new requests:
//
//	cost(c) = requests in the system x time until the batch has ended     (their latencies)
//	        + V(requests that are then expected to wait) - g x time       (waiting requests)
//	        + W x requests that are expected to miss their deadline       (violations)
//
// It selects the c with the least cost. V and g come from a model of the queue, a semi-Markov decision process
// (plan.go). Value iteration solves the model step by step while requests are served. The engine measures the exit
// rates, the arrival rate and the waiting times (Traffic). In addition:
//
//   - Guard: if more than 2 B_max requests wait, the decision process is not used, since it is unstable under overload.
//     c is then the number that serves most requests per time.
//   - Patience (patience.go): a request that can no longer meet its deadline stands back, or is let go and
//     served when no other request waits. This is limited, so that the 99th percentile is the same as in the
//     order of arrival. Under fluid+last all late requests stand back. Then fewer requests are late, but
//     these requests are later.
//
// A decision compares at most B_max + 1 numbers. At every 64th arrival (more often at first) the plan updates the rates
// in O(segments^2 B_max). A few times in a run the plan restarts V. Neither updates nor restarts allocate memory.
//
// The constants below are the same for all networks, boards and SLOs.

package sched

import (
	"math"
	"slices"

	"github.com/sluice-npu/sluice/host/device"
)

const (
	guardBatches = 2     // limit of N_Q for the guard, in B_max
	letGo        = 0.008 // share of a network's requests that may be let go
	endurance    = 20    // a late request waits at most this multiple of the time from its arrival to its deadline
	tailKept     = 0.7   // allowed ratio of requests that begin beyond the tail to those in the order of arrival
	overLimit    = 30    // if the allowed number is exceeded by this many requests, no request stands back
	missWeight   = 3.0   // W as a multiple of the time of one request alone through the whole network
	lateUpTo     = 0.9   // a deadline before this multiple of the expected time counts as missed
	lateFrom     = 1.2   // a deadline after this multiple of the expected time counts as met
)

// Plus is fluid+: it fills the batch up where the expected latency and violations decrease. Its parameters are <B_max,
// T_SLO>; T_SLO is contained in each request's deadline. It stores plans, buffers and
// the list of requests that were let go, so each run needs its own Plus.
type Plus struct {
	BMax  int       // largest batch; 0: the limit of the device and its table
	Rates []float64 // initial exit rates; nil: assume that no request leaves until the first requests have left
	// Refuse gives up requests that can no longer meet their deadline, instead of serving them late. This changes the
	// admission rule, so the policy has another name.
	Refuse bool
	// Last makes requests that can no longer meet their deadline stand back until canWait is false (patience.go).
	// There are fewer violations, but the tail is longer.
	Last bool
	// Theta selects fluid+theta (theta.go). Levels are exit thresholds that may be used while many requests wait. Loss
	// is the allowed loss of accuracy, as an average over all results. Without levels the policy is the same as fluid+.
	Theta  bool
	Levels []Level
	Loss   float64

	eased []easing
	plans []*plan
	wait  patience
	given []device.RequestID // requests that this answer has used, on all devices
	due   []Time             // deadline of each given or considered request; never if missed in any case
	// soonest is the earliest deadline of the requests that the last call of pick considered.
	soonest Time
}

func (p *Plus) Name() string {
	switch {
	case p.Refuse:
		return "fluid+refuse"
	case p.Last:
		return "fluid+last"
	case p.Theta:
		return "fluid+theta"
	}
	return "fluid+"
}

func (p *Plus) Largest() int { return p.BMax }

// Decide handles the devices one after the other.
func (p *Plus) Decide(now Time, s *State, ev *Event, buf []Action) []Action {
	if ev.Kind == Loaded {
		p.forget(s)
	}
	p.given, p.due = p.given[:0], p.due[:0]
	buf = p.ease(s, buf)
	for i := range s.Devices {
		d := &s.Devices[i]
		switch {
		case d.Down:
		case len(d.Launches) == 0:
			buf, _ = p.dispatch(now, s, i, d.MaxBatch, anyLevel, buf)
		default:
			buf = p.atExit(now, s, i, buf)
		}
	}
	return buf
}

// dispatch launches the requests to be served next through the whole network: at most "limit" requests, of level
// "least" or higher. It also reports whether it launched any requests.
func (p *Plus) dispatch(now Time, s *State, dev, limit, least int, buf []Action) ([]Action, bool) {
	d := &s.Devices[dev]
	r := p.next(now, s)
	if r == nil || r.Priority < least {
		return buf, false
	}
	network := r.Network
	t := d.Table(network)
	if t == nil {
		return buf, false
	}
	q := p.plan(s, d, network, t)
	before := len(p.given)
	buf, from := p.pick(now, s, q, 2*q.b, least, buf)
	m := len(p.given) - from
	switch {
	case m == 0 && from > before: // all requests picked were given up, but others may wait
		return p.dispatch(now, s, dev, limit, least, buf)
	case m == 0:
		return buf, false
	}
	wait := float64(s.Queue.Len() - from)
	guard := wait > float64(guardBatches*q.b)
	best, n := math.Inf(1), 1
	for c := min(m, q.b, limit); c >= 1; c-- { // from the largest batch, which is chosen if costs are equal
		time, left := q.rest[q.cell(0, c)], wait-float64(c)
		cost := time - mul(float64(c), q.pace)
		if !guard {
			cost = q.held[q.cell(0, c)] + q.behind(left, time) + mul(q.weight, p.late(now, q, from, c, time))
		}
		if cost < best {
			best, n = cost, c
		}
	}
	p.keep(from + n)
	return chosen(buf, dev, network, t.Segments()-1, p.given[from:]), true
}

func (p *Plus) atExit(now Time, s *State, dev int, buf []Action) []Action {
	d := &s.Devices[dev]
	top := d.Launches[len(d.Launches)-1]
	t := d.Table(top.Network)
	if top.Phase == Running || t == nil {
		return buf
	}
	last := t.Segments() - 1
	base, rem, level := top, len(top.Requests), top.Level()
	if len(d.Launches) > 1 && top.Last < last { // top has new requests for the batch below
		if top.Reached < top.Last { // no nested preemption, except for a higher level
			return p.interrupt(now, s, dev, top, level, top.Last, buf)
		}
		if below := d.Launches[len(d.Launches)-2]; fills(top, below, bMax(p.BMax, d, t)) {
			base = below
			rem += len(base.Requests)
			level = max(level, base.Level())
			buf = merge(buf, top.ID, base.ID)
		}
	}
	from := len(p.given)
	if base.Reached >= 0 && base.Reached < last && rem > 0 {
		q := p.plan(s, d, base.Network, t)
		if rem < q.b {
			buf, from = p.pick(now, s, q, 2*q.b, level, buf)
			p.keep(from + p.incr(now, s, q, base, top, rem, min(q.b-rem, d.free()), from))
		}
	}
	if len(p.given) > from {
		if base.Phase != Halted {
			buf = preempt(buf, base.ID)
		}
		return chosen(buf, dev, base.Network, base.Reached, p.given[from:])
	}
	return p.interrupt(now, s, dev, base, level, last, buf)
}

// interrupt launches requests of a higher level instead of the launch l, or resumes l.
func (p *Plus) interrupt(now Time, s *State, dev int, l *LaunchView, level, last int, buf []Action) []Action {
	d := &s.Devices[dev]
	halted := l.Phase == Halted
	if r := p.next(now, s); r != nil && r.Priority > level && d.free() > 0 && d.Table(r.Network) != nil {
		if !halted {
			buf, halted = preempt(buf, l.ID), true
		}
		var served bool
		if buf, served = p.dispatch(now, s, dev, d.free(), level+1, buf); served {
			return buf
		}
	}
	if halted || l.Reached == l.Last {
		buf = resume(buf, l.ID, last)
	}
	return buf
}

// incr returns B_incr: the number of requests in p.given[from:] that should run to the exit that the launch "base" has
// reached. It returns 0 if the batch should continue unchanged.
func (p *Plus) incr(now Time, s *State, q *plan, base, top *LaunchView, rem, room, from int) int {
	i := base.Reached + 1
	wait := float64(s.Queue.Len() - from)
	guard := wait > float64(guardBatches*q.b)
	best, n := math.Inf(1), 0
	for c := 0; c <= min(len(p.given)-from, room); c++ {
		fill := q.fill[q.cell(i, c)]
		merged := float64(rem) + mul(float64(c), q.stay[i])
		rest, held := q.between(i, merged)
		time := fill + rest
		cost := time - mul(float64(c), q.pace)
		if !guard {
			late := p.late(now, q, from, c, time) + missed(base, now, time)
			if top != base {
				late += missed(top, now, time)
			}
			cost = q.fillHeld[q.cell(i, c)] + mul(float64(rem), fill) + held + q.behind(wait-float64(c), time) + mul(q.weight, late)
		}
		if s.ByTable && c > 0 && time > float64(min(base.Slack(now), top.Slack(now))) {
			break // equation 4 fails: the engine would give up requests at an exit, and their work would be lost
		}
		if cost < best {
			best, n = cost, c
		}
	}
	return n
}

// late returns the expected number of requests in p.given[from:] that miss their deadline. The first c requests end
// after the given time. The remaining requests follow at the rate of one batch.
func (p *Plus) late(now Time, q *plan, from, c int, time float64) float64 {
	n := 0.0
	others := p.due[from+c:]
	b := min(q.b, max(len(others), 1))
	step := q.rest[q.cell(0, b)] / float64(b)
	one := q.rest[q.cell(0, 1)]
	if p.soonest-now >= Time(mul(lateFrom, time+one+mul(step, float64(len(others))))) {
		return 0 // usually no deadline is near
	}
	for _, due := range p.due[from : from+c] {
		n += misses(due-now, time)
	}
	for j, due := range others {
		n += misses(due-now, time+one+mul(step, float64(j)))
	}
	return n
}

// misses returns the probability that a duration exceeds the slack. The exits are not known in advance, so only the
// expected duration is known. Between two limits the probability is a linear function of slack / time.
func misses(slack Time, time float64) float64 {
	x := float64(slack)
	switch {
	case x >= mul(lateFrom, time):
		return 0
	case x <= mul(lateUpTo, time):
		return 1
	}
	return (mul(lateFrom, time) - x) / mul(lateFrom-lateUpTo, time)
}

// missed returns the expected number of requests of a launch that miss their deadline if the launch takes time ns.
func missed(l *LaunchView, now Time, time float64) float64 {
	n := 0.0
	for j := range l.Requests {
		if due := l.Requests[j].Deadline; due >= now {
			n += misses(due-now, time)
		}
	}
	return n
}

// keep truncates p.given and p.due to the first n requests. The removed requests were only considered.
func (p *Plus) keep(n int) { p.given, p.due = p.given[:n], p.due[:n] }

// plan returns the plan for a network on a device. Devices with the same table and the same B_max share one plan. If
// there is no plan yet, a new plan is created.
func (p *Plus) plan(s *State, d *DeviceView, network string, t *Table) *plan {
	var q *plan
	b := bMax(p.BMax, d, t)
	for _, o := range p.plans {
		if o.table == t && o.network == network && o.b == b {
			q = o
			break
		}
	}
	if q == nil {
		q = newPlan(network, t, b)
		p.plans = append(p.plans, q)
	}
	for i := range s.Traffic {
		if s.Traffic[i].Network == network {
			q.follow(&s.Traffic[i], p.Rates)
		}
	}
	return q
}

// forget deletes the plans of networks that were removed. A network that returns has a new plan.
func (p *Plus) forget(s *State) {
	gone := func(network string) bool {
		return !slices.ContainsFunc(s.Traffic, func(t Traffic) bool { return t.Network == network })
	}
	p.plans = slices.DeleteFunc(p.plans, func(q *plan) bool { return gone(q.network) })
	p.eased = slices.DeleteFunc(p.eased, func(e easing) bool { return gone(e.network) })
}

// known returns the plan for a network; nil if there is none yet.
func (p *Plus) known(network string) *plan {
	for _, q := range p.plans {
		if q.network == network {
			return q
		}
	}
	return nil
}
