// The ledger records the running batches for policies that check deadlines on shared devices. It combines the engine's
// view of a launch (LaunchView) with the policy's predictions for it.

package sched

import (
	"cmp"
	"slices"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/predict"
)

// underway is a launched batch that has not yet ended.
type underway struct {
	id       device.LaunchID // 0: the launch is not yet in the engine's State
	device   int
	network  string
	priority int
	ids      []device.RequestID
	n        int  // number of requests still in the batch
	deadline Time // earliest deadline of these requests

	sent, copied Time // time of the launch; expected end of the transfer of the batch's inputs
	copies       Time // duration of this transfer if there is no other transfer
	begun        bool
	began        Time // start of the batch's kernels
	segment      int  // segment that runs, or that will run first
	since        Time // start of this segment
	took, alone  Time // duration of the ended segments: as measured, and as expected alone on the device

	use      predict.Use
	seen     predict.Exposure
	beside   predict.Use // resource use of the batches that ran on the device at the launch
	expected Time        // expected end, computed at the launch
	arrived  Time        // arrival of the batch's oldest request
	batch    int         // batch size at the launch
}

// ledger lists batches in the order of launching.
type ledger struct {
	all   []underway
	fresh []int // indices of batches that began since the last event, in order
	sent  []transfer
	there []bool
}

// transfer describes a transfer of a batch's inputs. The transfer ended since the last event.
type transfer struct {
	device                        int
	asked, profiled, expected, at Time
}

// change is the effect of an event on a batch of the ledger.
type change struct {
	passed bool // the batch has passed a segment
	ended  bool // the batch has ended completely
	late   bool // the event came after the earliest deadline in the batch
	batch  underway
}

// on returns the number of batches on a device.
func (l *ledger) on(device int) (n int) {
	for i := range l.all {
		if l.all[i].device == device {
			n++
		}
	}
	return n
}

// add records a batch that is being launched.
func (l *ledger) add(r *underway, ids []device.RequestID) {
	was := l.spare()
	l.all = append(l.all, *r)
	e := &l.all[len(l.all)-1]
	e.ids = append(was, ids...)
	e.n, e.batch = len(ids), len(ids)
}

// spare returns the memory of an ended batch. remove has stored this memory after the end of the list.
func (l *ledger) spare() []device.RequestID {
	if n := len(l.all); n < cap(l.all) {
		return l.all[:n+1][n].ids[:0]
	}
	return nil
}

// remove removes a batch. It stores the batch's memory after the end of the list for spare.
func (l *ledger) remove(i int) {
	gone := l.all[i]
	copy(l.all[i:], l.all[i+1:])
	l.all[len(l.all)-1] = gone
	l.all = l.all[:len(l.all)-1]
}

// find returns the index of the batch that belongs to a launch, or -1.
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

// follow updates the ledger from the engine's State, and returns the changes of this event.
func (l *ledger) follow(now Time, s *State, ev *Event) (c change) {
	l.look(s)
	at := -1
	if ev.Kind == SegmentDone {
		at = l.named(ev)
	}
	if at >= 0 && !l.all[at].begun { // the batch began and ended a segment between two events
		r := &l.all[at]
		r.begun, r.began, r.since = true, now-ev.Took, now-ev.Took
		l.fresh = append(l.fresh, at)
	}
	slices.SortStableFunc(l.fresh, func(i, j int) int { return cmp.Compare(l.all[i].began, l.all[j].began) })
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
		if i < at {
			at--
		}
	}
	if c.passed && !c.ended {
		c.batch = l.all[at]
	}
	l.shrink(now, s)
	return c
}

// look finds the batches that are in the engine's State, and the batches that have begun.
func (l *ledger) look(s *State) {
	l.there = slices.Grow(l.there[:0], len(l.all))[:len(l.all)]
	clear(l.there)
	l.fresh, l.sent = l.fresh[:0], l.sent[:0]
	for d := range s.Devices {
		for _, v := range s.Devices[d].Launches {
			i := l.find(v)
			if i < 0 {
				continue // launched by another policy
			}
			l.there[i] = true
			if r := &l.all[i]; !r.begun && v.Phase == Running && v.Reached < v.First && (v.Since > r.sent || r.copies == 0) {
				r.begun, r.began, r.since = true, v.Since, v.Since
				l.fresh = append(l.fresh, i)
			}
		}
	}
}

// shrink updates the size and the earliest deadline of batches that requests have left.
func (l *ledger) shrink(now Time, s *State) {
	for d := range s.Devices {
		for _, v := range s.Devices[d].Launches {
			if i := l.find(v); i >= 0 && len(v.Requests) != 0 && len(v.Requests) <= l.all[i].n {
				l.all[i].deadline, l.all[i].n = now+v.Slack(now), len(v.Requests)
			}
		}
	}
}

// named returns the batch with the segment that has ended. It finds the batch by launch id. If no batch has this id, it
// returns the only batch on the device that is not in the State: at most one launch ends between two events.
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

// join records that a batch has begun. From now on it runs beside the other batches on its device.
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

// leave records that a batch has ended.
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

// pressure returns the sum of the resource use of a device's batches. A batch counts even while its inputs are being
// transferred. Batch number "but" does not count; -1: all count. If priority >= 0, only batches of this priority count.
func (l *ledger) pressure(device, but, priority int) (u predict.Use) {
	for i := range l.all {
		if r := &l.all[i]; i != but && r.device == device && (priority < 0 || r.priority == priority) {
			u = u.Plus(r.use)
		}
	}
	return u
}
