// Strait: "Strait: Perceiving Priority and Interference in ML Inference Serving", section 3. Batches of two priorities
// share devices. Strait launches the largest batch that is expected to end in time (meet) and that delays no request of
// the same or a higher priority beyond its deadline (violate). It selects the device on which the batch is expected to
// end first. Expected times come from host/predict, which learns from every ended batch.
//
// The publication leaves the following points open. A running batch that would be late even without a new launch does
// not prevent the launch. The cap on the resource use of low priority does not apply to the only batch of low priority
// on a device: otherwise a batch that alone exceeds the cap would never run. A request of high priority that is given
// up counts as a violation (as in section 5.1), and therefore reduces the cap. A lane is served when it has a full
// batch, or when its oldest request has waited Form times the time from its arrival to its deadline.

package sched

import (
	"cmp"

	"github.com/sluice-npu/sluice/host/predict"
)

// Constants of the cap on the resource use of low priority (AIMD, section 3.3 and appendix A.1).
const (
	CapLow    = 0.75
	CapHigh   = 1
	CapStep   = 0.0025
	CapPeriod = Time(100_000_000)
)

// Cap returns C_low, which rises from low with the time since a request of high priority was last late. A value of low
// above CapHigh means no cap.
func Cap(since Time, low float64) float64 {
	return min(max(CapHigh, low), low+CapStep*float64(since/CapPeriod))
}

// Finished describes an ended batch, as recorded by Strait.
type Finished struct {
	Network  string
	Priority int
	Device   int
	Batch    int
	Others   predict.Use // resource use of the other batches, as an average over time
	AtLaunch predict.Use // resource use on the device at the launch
	Own      predict.Use
	// Predicted is the slowdown that the model, which has not yet learned from this batch, predicts from Others. Actual
	// is the measured slowdown.
	Predicted, Actual float64
	Alone             Time // time of the batch's kernels if they run alone
	// Latency is the measured time from the oldest request's arrival to the batch's end. Expected is the value that was
	// predicted at the launch. Explained is the value for the actual start and the slowdown Predicted.
	Expected, Explained, Latency Time
}

// Strait is the policy of the paper "Strait". It learns, so each run needs its own Strait.
type Strait struct {
	BMax   int     // largest batch; 0: the limit of the device and its table
	Places int     // number of batches on a device at once; 0: the number of places of the device
	Form   float64 // wait for a full batch, as a share of the time until a request's deadline; 0: no wait
	Low    float64 // initial cap; 0: CapLow
	Beside float64 // share of the device's current work that is expected to run beside a new batch; 0: one half
	// Model predicts the slowdown of batches; nil: a new model. If Frozen is true, the model does not learn.
	Model  *predict.Model
	Frozen bool
	// Exits selects how Strait predicts the size of a batch. If true, it expects the shares of requests that left at
	// each exit so far, and the batch ends with its last request. If false, a batch does not shrink.
	Exits bool

	// The fields below switch off parts of the policy for the ablation (appendix A.3).
	NoPriority bool // lanes are served in order of arrival, regardless of priority
	NoStream   bool // launches have no priority on the device
	NoMeet     bool // a batch may be launched even if it is not expected to end in time
	NoViolate  bool // other requests are not protected, and there is no cap

	Ended func(*Finished) // if set, called for every ended batch

	ledger ledger
	links  []predict.Link
	missed Time // time at which high priority was last late
	lanes  lanes
}

// Name implements Policy.
func (*Strait) Name() string { return "strait" }

func (p *Strait) init(devices int) {
	if p.Model == nil {
		p.Model = predict.NewModel()
	}
	for len(p.links) < devices {
		p.links = append(p.links, predict.Link{})
	}
}

// Decide implements algorithm 1 of the paper "Strait".
func (p *Strait) Decide(now Time, s *State, ev *Event, buf []Action) []Action {
	p.init(len(s.Devices))
	p.learn(now, s, ev)
	order := p.lanes.sort(&s.Queue, p.NoPriority, func(r *Request) bool {
		alone := p.soonest(s, r.Network)
		if alone < 0 || now+alone <= r.Deadline {
			return true
		}
		buf = append(buf, Action{Kind: Drop, Request: r.ID})
		if r.Priority > 0 {
			p.missed = now
		}
		return false
	})
	wait := Time(-1)
	later := func(t Time) {
		if t > now && (wait < 0 || t < wait) {
			wait = t
		}
	}
	for _, l := range order {
		for len(l.ids) > 0 {
			most := p.most(s, l.network)
			ready, until := l.full(now, most, p.Form)
			if !ready {
				later(until)
				break
			}
			d, n := p.choose(now, s, l, min(most, len(l.ids)))
			if n == 0 {
				later(now + recheck)
				break
			}
			buf = p.launch(now, s, l, d, n, buf)
		}
	}
	if wait > 0 {
		buf = append(buf, Action{Kind: Wait, Until: wait})
	}
	return buf
}

// recheck is the time, in ns, after which a postponed batch is tried again if no event occurs. After this time the
// running batches are closer to their end, so a new batch delays them less.
const recheck = Time(500_000)

// learn updates the policy from the event.
func (p *Strait) learn(now Time, s *State, ev *Event) {
	c := p.ledger.follow(now, s, ev)
	for _, t := range p.ledger.sent {
		if t.profiled > 0 {
			p.links[t.device].Sent(t.asked, t.profiled, t.expected, t.at)
		}
	}
	if c.late && c.batch.priority > 0 {
		p.missed = now
	}
	if !c.ended || c.batch.alone <= 0 {
		return
	}
	b := &c.batch
	f := Finished{
		Network: b.network, Priority: b.priority, Device: b.device, Batch: b.batch, Own: b.use, AtLaunch: b.beside,
		Others: b.seen.Mean(now), Actual: float64(b.took) / float64(b.alone), Alone: b.alone,
		Expected: b.expected - b.arrived, Latency: now - b.arrived,
	}
	f.Predicted = p.Model.Interference(f.Others, f.Own, b.priority)
	f.Explained = b.began - b.arrived + Time(f.Predicted*float64(b.alone))
	if p.Ended != nil {
		p.Ended(&f)
	}
	if !p.Frozen {
		p.Model.Update(f.Others, f.Own, b.priority, f.Actual)
	}
}

// most returns the largest batch size of a network, over all devices.
func (p *Strait) most(s *State, network string) (n int) {
	for i := range s.Devices {
		if d := &s.Devices[i]; !d.Down {
			if t := d.Table(network); t != nil {
				n = max(n, bMax(p.BMax, d, t))
			}
		}
	}
	return max(1, n)
}

// alone returns the time of the segments from first to the last, for a batch of size n that runs alone on the device.
func (p *Strait) alone(s *State, network string, t *Table, first, n int) Time {
	last := t.Segments() - 1
	if first > last {
		return 0
	}
	n = min(max(1, n), t.MaxBatch())
	if !p.Exits || first == last {
		return t.P95(first, last, n)
	}
	sum, left := Time(0), float64(n)
	for i := range s.Traffic {
		if tr := &s.Traffic[i]; tr.Network == network {
			for seg := first; seg <= last; seg++ {
				sum += Time(min(1, left) * float64(t.P95(seg, seg, min(n, max(1, int(left+0.5))))))
				if seg < len(tr.Passed) && tr.Passed[seg] > 0 {
					left *= 1 - float64(tr.Left[seg])/float64(tr.Passed[seg])
				}
			}
			return sum
		}
	}
	return t.P95(first, last, n)
}

// copies returns the transfer time of a batch's inputs if there is no other transfer.
func copies(t *Table, n int) Time {
	if len(t.Copies) == 0 {
		return 0
	}
	return t.Copies[min(n, len(t.Copies))-1]
}

// use returns the resource use of a batch, as the time-weighted average over its segments.
func use(t *Table, n int) (u predict.Use) {
	all := 0.0
	for i, s := range t.Use {
		if len(s) == 0 {
			continue
		}
		w := float64(t.At(i, i, min(n, t.MaxBatch())))
		u = u.Plus(s[min(n, len(s))-1].Times(w))
		all += w
	}
	if all > 0 {
		u = u.Times(1 / all)
	}
	return u
}

// soonest returns the time of one request alone on the fastest available device, including the transfer of its input.
// It returns -1 if no device serves the network.
func (p *Strait) soonest(s *State, network string) Time {
	best := Time(-1)
	for i := range s.Devices {
		d := &s.Devices[i]
		if t := d.Table(network); t != nil && !d.Down {
			if a := copies(t, 1) + p.alone(s, network, t, 0, 1); best < 0 || a < best {
				best = a
			}
		}
	}
	return best
}

// choose searches for the largest batch that can be launched, by binary search. It also returns the device on which the
// batch is expected to end first. n is 0 if no batch can be launched.
func (p *Strait) choose(now Time, s *State, l *lane, most int) (dev, n int) {
	for low, high := 1, most; low <= high; {
		k := (low + high + 1) / 2
		at, end := -1, Time(0)
		for i := range s.Devices {
			if e, ok := p.fits(now, s, i, l, k); ok && (at < 0 || e < end) {
				at, end = i, e
			}
		}
		if at >= 0 {
			dev, n, low = at, k, k+1
		} else {
			high = k - 1
		}
	}
	return dev, n
}

// fits reports whether a device can launch k requests of a lane, and returns the expected end of this batch.
func (p *Strait) fits(now Time, s *State, dev int, l *lane, k int) (Time, bool) {
	d := &s.Devices[dev]
	t := d.Table(l.network)
	places := d.Places
	if p.Places > 0 {
		places = min(places, p.Places)
	}
	if t == nil || d.Down || k > bMax(p.BMax, d, t) || p.ledger.on(dev) >= places || d.Used+p.coming(dev)+k > d.Slots {
		return 0, false
	}
	own := use(t, k)
	if !p.NoViolate && p.Violate(now, s, dev, l.priority, own) {
		return 0, false
	}
	end := p.end(now, s, dev, t, l, k, own)
	return end, p.NoMeet || end <= l.deadline[k-1]
}

// coming returns the number of requests in batches that are not yet in the engine's State.
func (p *Strait) coming(dev int) (n int) {
	for i := range p.ledger.all {
		if r := &p.ledger.all[i]; r.id == 0 && r.device == dev {
			n += r.n
		}
	}
	return n
}

// end returns the expected end of a batch that is launched now (equation 1). It assumes that the other batches use
// Beside times their current resource use. The condition "meet" compares this end with the deadline.
func (p *Strait) end(now Time, s *State, dev int, t *Table, l *lane, k int, own predict.Use) Time {
	link := &p.links[dev]
	slow := p.Model.Interference(p.ledger.pressure(dev, -1, -1).Times(cmp.Or(p.Beside, 0.5)), own, l.priority)
	return now + link.Delay(now) + link.Takes(copies(t, k)) + Time(slow*float64(p.alone(s, l.network, t, 0, k)))
}

// Violate reports whether a batch of the given priority and resource use must not be launched on a device. There are two
// reasons: low priority would exceed the cap, or a request of the same or a higher priority would become late.
func (p *Strait) Violate(now Time, s *State, dev, priority int, own predict.Use) bool {
	if priority == 0 {
		if low := p.ledger.pressure(dev, -1, 0); low != (predict.Use{}) && low.Plus(own).Peak() > p.cap(now) {
			return true
		}
	}
	for i := range p.ledger.all {
		r := &p.ledger.all[i]
		if r.device != dev || r.priority < priority {
			continue
		}
		others := p.ledger.pressure(dev, i, -1)
		if p.ends(now, s, r, others) <= r.deadline && p.ends(now, s, r, others.Plus(own)) > r.deadline {
			return true
		}
	}
	return false
}

func (p *Strait) cap(now Time) float64 {
	low := p.Low
	if low == 0 {
		low = CapLow
	}
	return Cap(now-p.missed, low)
}

// ends returns the expected end of a running batch. The argument others is the resource use of the other batches from
// now on. The progress of the batch follows from the elapsed time and from their past resource use.
func (p *Strait) ends(now Time, s *State, r *underway, others predict.Use) Time {
	t := s.Devices[r.device].Table(r.network)
	if t == nil {
		return now
	}
	slow := p.Model.Interference(others, r.use, r.priority)
	left := float64(p.alone(s, r.network, t, r.segment, r.n))
	if !r.begun {
		return max(now, r.copied) + Time(slow*left)
	}
	past := p.Model.Interference(r.seen.Mean(now), r.use, r.priority)
	return now + Time(slow*max(0, left-float64(now-r.since)/past))
}

// launch starts a batch of the first n requests of a lane.
func (p *Strait) launch(now Time, s *State, l *lane, dev, n int, buf []Action) []Action {
	t := s.Devices[dev].Table(l.network)
	r := underway{
		device: dev, network: l.network, priority: l.priority, deadline: l.deadline[n-1], sent: now, copies: copies(t, n),
		use: use(t, n), beside: p.ledger.pressure(dev, -1, -1), arrived: l.came[0],
	}
	r.expected = p.end(now, s, dev, t, l, n, r.use)
	r.copied = p.links[dev].Send(now, r.copies)
	p.ledger.add(&r, l.ids[:n])
	a := Action{Kind: Launch, Device: dev, Network: l.network, Last: t.Segments() - 1, Requests: l.ids[:n:n], Priority: l.priority}
	if p.NoStream {
		a.Priority = 0
	}
	l.skip(n)
	return append(buf, a)
}

var _ Policy = (*Strait)(nil)
