// The ledger: batches under way, as policies remember them that look after deadlines on shared devices.
// What the engine shows of a launch (LaunchView) is found again here with what was expected of it.

package sched

import (
	"slices"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/predict"
)

// underway is a batch under way.
type underway struct {
	id       device.LaunchID // 0: the engine has not shown it yet
	device   int
	network  string
	priority int
	ids      []device.RequestID
	n        int  // still in it
	deadline Time // the earliest of theirs

	sent, copied Time // when it was launched, when its inputs were expected to be there
	copies       Time // what their transfer takes alone
	begun        bool
	began        Time // its kernels
	segment      int  // that runs, or is to run first
	since        Time // when that began
	took, alone  Time // the segments behind it: as they were, and alone on the device

	use      predict.Use
	seen     predict.Exposure
	beside   predict.Use // what ran on the device when it was launched
	expected Time        // when it was expected to end
	arrived  Time        // its oldest request
	batch    int         // when it was launched
}

// ledger is in the order of launching.
type ledger struct {
	all   []underway
	fresh []int // that began since the last event, in the order of their beginning
	sent  []transfer
	there []bool
}

// transfer is inputs that have come since the last event.
type transfer struct {
	device                        int
	asked, profiled, expected, at Time
}

// change is what an event did to a batch of the ledger.
type change struct {
	passed bool // it is behind a segment
	ended  bool // and nothing is left of it
	late   bool // somebody of it was late by then
	batch  underway
}

// on counts the batches of a device.
func (l *ledger) on(device int) (n int) {
	for i := range l.all {
		if l.all[i].device == device {
			n++
		}
	}
	return n
}

// add takes in a batch that is being launched.
func (l *ledger) add(r *underway, ids []device.RequestID) {
	was := l.spare()
	l.all = append(l.all, *r)
	e := &l.all[len(l.all)-1]
	e.ids = append(was, ids...)
	e.n, e.batch = len(ids), len(ids)
}

// spare is memory of a batch that has ended: what lies behind the list's end.
func (l *ledger) spare() []device.RequestID {
	if n := len(l.all); n < cap(l.all) {
		return l.all[:n+1][n].ids[:0]
	}
	return nil
}

// remove takes a batch out; its memory stays behind the list's end.
func (l *ledger) remove(i int) {
	gone := l.all[i]
	copy(l.all[i:], l.all[i+1:])
	l.all[len(l.all)-1] = gone
	l.all = l.all[:len(l.all)-1]
}

// find is the batch that a launch is, or -1.
func (l *ledger) find(v *LaunchView) int {
	for i := range l.all {
		r := &l.all[i]
		switch {
		case r.id == v.ID:
			return i
		case r.id == 0 && r.device == v.Device && len(v.Requests) > 0 && slices.Contains(r.ids, v.Requests[0].ID):
			r.id = v.ID
			return i
		}
	}
	return -1
}

// follow brings the ledger up to date with what the engine shows, and says what the event did.
func (l *ledger) follow(now Time, s *State, ev *Event) (c change) {
	l.there = slices.Grow(l.there[:0], len(l.all))[:len(l.all)]
	clear(l.there)
	l.fresh, l.sent = l.fresh[:0], l.sent[:0]
	for d := range s.Devices {
		for _, v := range s.Devices[d].Launches {
			i := l.find(v)
			if i < 0 {
				continue // of somebody else
			}
			l.there[i] = true
			if r := &l.all[i]; !r.begun && v.Phase == Running && v.Reached < v.First && (v.Since > r.sent || r.copies == 0) {
				r.begun, r.began, r.since = true, v.Since, v.Since
				l.fresh = append(l.fresh, i)
			}
		}
	}
	at := -1
	if ev.Kind == SegmentDone {
		at = l.named(ev)
	}
	if at >= 0 && !l.all[at].begun { // it began and ended a segment between two events
		r := &l.all[at]
		r.begun, r.began, r.since = true, now-ev.Took, now-ev.Took
		l.fresh = append(l.fresh, at)
	}
	for i := 1; i < len(l.fresh); i++ {
		for j := i; j > 0 && l.all[l.fresh[j]].began < l.all[l.fresh[j-1]].began; j-- {
			l.fresh[j], l.fresh[j-1] = l.fresh[j-1], l.fresh[j]
		}
	}
	for _, i := range l.fresh {
		l.join(i)
		r := &l.all[i]
		l.sent = append(l.sent, transfer{r.device, r.sent, r.copies, r.copied, r.began})
	}
	if at >= 0 {
		r := &l.all[at]
		if t := s.Devices[r.device].Table(r.network); t != nil {
			r.alone += t.P95(ev.Segment, ev.Segment, min(r.n, t.MaxBatch()))
		}
		r.took += ev.Took
		r.n -= ev.Exited
		r.segment, r.since = ev.Segment+1, now
		c.passed, c.late, c.ended = true, now > r.deadline, !l.there[at]
	}
	for i := len(l.all) - 1; i >= 0; i-- {
		if l.there[i] {
			continue
		}
		l.leave(now, i)
		if i == at {
			c.batch = l.all[i]
		}
		l.remove(i)
	}
	if c.passed && !c.ended {
		c.batch = l.all[at]
	}
	for d := range s.Devices { // whoever has left is not waited for
		for _, v := range s.Devices[d].Launches {
			if i := l.find(v); i >= 0 && len(v.Requests) != 0 && len(v.Requests) <= l.all[i].n {
				l.all[i].deadline, l.all[i].n = now+v.Slack(now), len(v.Requests)
			}
		}
	}
	return c
}

// named is the batch whose segment has ended: by its id, or the one on the device that the engine never
// showed; between two events one launch ends at most.
func (l *ledger) named(ev *Event) int {
	for i := range l.all {
		if l.all[i].id == ev.Launch {
			return i
		}
	}
	for i := range l.all {
		if r := &l.all[i]; r.id == 0 && r.device == ev.Device && !l.there[i] {
			r.id = ev.Launch
			return i
		}
	}
	return -1
}

// join: a batch has begun, and the others on its device run beside it from then on.
func (l *ledger) join(i int) {
	b := &l.all[i]
	var others predict.Use
	for j := range l.all {
		if o := &l.all[j]; j != i && o.begun && o.device == b.device && !(slices.Contains(l.fresh, j) && o.began > b.began) {
			others = others.Plus(o.use)
			o.seen.Change(b.began, o.seen.Now().Plus(b.use))
		}
	}
	b.seen.Begin(b.began, others)
}

// leave: a batch has gone.
func (l *ledger) leave(now Time, i int) {
	b := &l.all[i]
	if !b.begun {
		return
	}
	for j := range l.all {
		if o := &l.all[j]; j != i && o.begun && o.device == b.device {
			o.seen.Change(now, o.seen.Now().Minus(b.use))
		}
	}
}

// pressure is what the batches of a device use together, those on their way there included, one left
// out (-1: none) and of one priority alone (-1: of all).
func (l *ledger) pressure(device, but, priority int) (u predict.Use) {
	for i := range l.all {
		if r := &l.all[i]; i != but && r.device == device && (priority < 0 || r.priority == priority) {
			u = u.Plus(r.use)
		}
	}
	return u
}

func (l *ledger) clone() ledger {
	c := ledger{all: slices.Clone(l.all)}
	for i := range c.all {
		c.all[i].ids = slices.Clone(c.all[i].ids)
	}
	return c
}
