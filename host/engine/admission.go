// This file implements admission by the latency tables. A request that can no longer meet its deadline is rejected on
// arrival, dropped from the queue, or stopped at its next exit. So device time is spent on requests that can meet their
// deadline. Requests without a deadline are not affected.

package engine

import (
	"fmt"
	"math"
	"slices"
	"sort"
	"time"

	"github.com/sluice-npu/sluice/host/sched"
)

// tooLate is the reason in the record of a dropped or stopped request.
const tooLate = "the deadline cannot be met, by the latency table"

// admission computes expected times from the tables and the policies' State. It does not end requests itself.
type admission struct {
	on       bool
	st       *sched.State
	preempts bool // the policy preempts launches for requests of higher levels
	// look is the earliest time at which a waiting request can become too late. The queue is not searched earlier.
	look Time
	// batch is the largest batch that the policy has launched.
	batch int
	// pace is the recent ratio of measured segment times to times in the table, at least 1.
	pace float64
	// copy is how long devices recently waited for a sample's input, in ns; 0 if copies run while launches run.
	copy  float64
	ahead []aheadOf // buffer of waitFirst
}

// service returns the expected time of a batch of at most b samples, from its launch to its last result, on the fastest
// device. The time follows from the tables, recent copy times, and the exits taken so far. If the batch takes longer
// than "limit", a smaller batch is tried. "batch" is the size that was used. "devices" is how many devices can serve
// the network now. If no device can, the time is never.
func (a *admission) service(network string, b int, limit Time) (takes Time, batch, devices int) {
	takes = never
	seen := trafficOf(a.st, network)
	for i := range a.st.Devices {
		v := &a.st.Devices[i]
		h := v.Member(network)
		if v.Down || h == nil {
			continue
		}
		devices++
		for n := min(b, v.MaxBatch, h.Table.MaxBatch()); n >= 1; n-- {
			t := Time(0)
			for s := range h.Table.Segments() {
				t += h.Table.At(s, s, remain(seen, 0, s, n))
			}
			t += Time(float64(n) * a.copy)
			if t > limit && n > 1 {
				continue
			}
			if t < takes || n > batch && t <= limit {
				takes, batch = t, n
			}
			break
		}
	}
	return takes, batch, devices
}

// last returns the expected time from the launch of a number of samples to their last result. The samples run in
// successive batches. Samples of other tasks fill up the last batch; "most" is the time if it has the largest size.
func (a *admission) last(network string, samples, queued, batch int) (takes, most Time) {
	full, batch, devices := a.service(network, batch, never)
	if full == never {
		return never, never
	}
	before := (samples - 1) / devices / batch
	takes, _, _ = a.service(network, min(batch, max(1, queued-before*batch*devices)), never)
	most, _, _ = a.service(network, math.MaxInt, never)
	return takes + Time(before)*full, most + Time(before)*full
}

// room returns the additional time that a task of several samples needs beyond the tables' times. It has three reasons:
// samples of other tasks fill up its batches, exits make its batches smaller, and a single late sample wastes the work
// on all samples. "first" is the number of requests before the task. Admission uses 1.5 times the result, so that few
// accepted tasks are dropped later.
func (a *admission) room(network string, samples, first int) Time {
	idle := func(v sched.DeviceView) bool { return !v.Down && len(v.Launches) == 0 && v.Member(network) != nil }
	if samples == 1 || first == 0 && slices.ContainsFunc(a.st.Devices, idle) {
		return 0
	}
	full, _, _ := a.service(network, math.MaxInt, never)
	return full
}

// remain returns the expected number of samples left in segment s, at least 1, if n samples begin segment first.
func remain(seen *sched.Traffic, first, s, n int) int {
	if s == first || seen.Passed[first] == 0 {
		return n
	}
	return max(1, int(float64(n)*float64(seen.Passed[s])/float64(seen.Passed[first])+0.5))
}

// paced multiplies a time from the table by the current pace.
func (a *admission) paced(t Time) Time {
	if t == never {
		return never
	}
	return Time(float64(t) * a.pace)
}

// ran records the measured time of a segment and its time in the table.
func (a *admission) ran(took, table Time) {
	if table > 0 {
		a.pace = max(1, a.pace+(min(8, float64(took)/float64(table))-a.pace)/32)
	}
}

// copied records in the average a.copy that a device waited for the inputs of n samples, waited/n ns for each sample.
func (a *admission) copied(waited Time, n int) {
	a.copy += (float64(waited) - a.copy*float64(n)) / float64(n+31)
}

// busyFor is the time, by the table, until the first device becomes free for a task. If the policy preempts, a launch
// of a lower level counts only up to its next exit.
func (a *admission) busyFor(now Time, in *sched.Task) Time {
	first := never
	for i := range a.st.Devices {
		v := &a.st.Devices[i]
		if v.Down || v.Member(in.Network) == nil {
			continue
		}
		left := Time(0)
		for _, l := range v.Launches {
			h := v.Member(l.Network)
			if h == nil || len(l.Requests) == 0 {
				continue
			}
			from, last, took := l.Reached+1, l.Last, Time(0)
			switch {
			case l.Copying > 0:
				left += Time(float64(l.Copying) * a.copy)
			case l.Phase == sched.Running:
				took = now - l.Since
			}
			if a.preempts && l.Level() < in.Priority { // the task preempts this launch at its next exit
				if last = from; l.Phase == sched.Halted {
					continue
				}
			}
			t := h.Table
			for s := from; s <= min(last, l.Last); s++ { // if the launch waits to be merged, no segment is left
				n := min(remain(trafficOf(a.st, l.Network), from, s, len(l.Requests)), t.MaxBatch())
				left += t.At(s, s, n)
			}
			left = max(0, left-took)
		}
		first = min(first, left)
	}
	if first == never {
		return 0
	}
	return first
}

// aheadOf is the number of requests of a network that go before a task.
type aheadOf struct {
	network string
	n       int
}

// waitFirst counts, by network, the requests that go before a task: those of higher priority, and those of the same
// priority with an earlier or equal deadline. The count may be too low, since a policy that serves in order of arrival
// serves later deadlines first too. A task that is accepted by mistake is dropped from the queue later and costs no
// device time. Requests for another network do not count if a working device serves only the task's network.
func (a *admission) waitFirst(in *sched.Task) (list []aheadOf, n int) {
	q := &a.st.Queue
	a.ahead = a.ahead[:0]
	if len(a.st.Traffic) == 1 && q.Ordered() { // in an ordered queue the position of the task is the count
		for n < q.Len() && q.At(n).Priority > in.Priority {
			n = q.Level(n)
		}
		if first := n; n < q.Len() && q.At(n).Priority == in.Priority {
			n += sort.Search(q.Level(n)-n, func(k int) bool { return q.At(first+k).Deadline > in.Deadline })
		}
		a.ahead = append(a.ahead, aheadOf{in.Network, n})
		return a.ahead, n
	}
	for i := range q.Len() {
		r := q.At(i)
		if r.Priority < in.Priority { // all requests that follow have a lower priority too
			break
		}
		if r.Priority == in.Priority && r.Deadline > in.Deadline {
			if q.Ordered() { // all other requests of this level have later deadlines too
				break
			}
			continue
		}
		k := slices.IndexFunc(a.ahead, func(w aheadOf) bool { return w.network == r.Network })
		if k < 0 {
			k = len(a.ahead)
			a.ahead = append(a.ahead, aheadOf{network: r.Network})
		}
		a.ahead[k].n++
	}
	a.ahead = slices.DeleteFunc(a.ahead, func(w aheadOf) bool {
		return w.network != in.Network && slices.ContainsFunc(a.st.Devices, func(v sched.DeviceView) bool {
			return !v.Down && v.Member(in.Network) != nil && v.Member(w.network) == nil
		})
	})
	for _, w := range a.ahead {
		n += w.n
	}
	return a.ahead, n
}

// hopeless returns the reason to reject a task, or nil. A task is rejected if it cannot meet its deadline after the
// requests that go first, even in batches as large as the deadline allows.
func (a *admission) hopeless(now Time, in *sched.Task) error {
	if !a.on || in.Deadline == 0 {
		return nil
	}
	samples, limit := max(1, in.Samples), in.Deadline-now
	if limit <= 0 {
		return fmt.Errorf("task %d: %w: %v ago", in.ID, ErrExpired, time.Duration(-limit))
	}
	if _, _, devices := a.service(in.Network, 1, never); devices == 0 { // accept the task, since a device may recover
		return nil
	}
	if a.idle(in.Network) { // on an idle device the task delays no request, and its measured times update pace and copy
		of := *a
		of.copy = 0
		if takes, _ := of.last(in.Network, samples, samples, samples); takes <= limit {
			return nil
		}
	}
	list, n := a.waitFirst(in)
	before := samples - 1 // number of samples before the last sample of the task
	ready := now + a.busyFor(now, in)
	for _, w := range list {
		if w.network == in.Network {
			before += w.n
			continue
		}
		full, batch, devices := a.service(w.network, w.n, limit)
		ready += Time((w.n+batch*devices-1)/(batch*devices)) * full
	}
	full, batch, devices := a.service(in.Network, before+1, limit)
	before /= devices
	takes, _, _ := a.service(in.Network, before%batch+1, never)
	most, _, _ := a.service(in.Network, math.MaxInt, never)
	a.look = min(a.look, in.Deadline-a.paced(most)+1)
	ready += Time(before/batch)*full + takes
	ready += a.room(in.Network, samples, n) * 3 / 2
	if ready = now + a.paced(ready-now); ready > in.Deadline {
		return fmt.Errorf("task %d: %w: %d go first, its result is expected in %v, its deadline is in %v", in.ID, ErrLate, n, time.Duration(ready-now), time.Duration(in.Deadline-now))
	}
	return nil
}

// idle reports whether a device that serves the network is idle and no request waits.
func (a *admission) idle(network string) bool {
	return a.st.Queue.Len() == 0 && slices.ContainsFunc(a.st.Devices, func(v sched.DeviceView) bool {
		return !v.Down && len(v.Launches) == 0 && v.Queue.Len() == 0 && v.Member(network) != nil
	})
}

// giveUp drops waiting requests that can no longer meet their deadline.
func (c *core) giveUp() {
	a := &c.admission
	if !a.on {
		return
	}
	for _, o := range c.spoiled {
		if t := c.byID.get(o.task); t != nil {
			c.takeBack(t, o.how, o.why)
		}
	}
	c.spoiled = c.spoiled[:0]
	for _, l := range c.live {
		if !l.busy && l.Copying == 0 {
			c.stopLate(l)
			c.left = c.left || len(l.reqs) == 0
		}
	}
	if c.now < a.look {
		return
	}
	a.look = never
	c.giveUpIn(&c.st.Queue)
	for i := range c.st.Devices {
		c.giveUpIn(&c.st.Devices[i].Queue)
	}
}

// giveUpIn drops tasks from a queue if not all of their samples can meet the deadline. All samples of such a task end,
// since part of a task's results is useless.
func (c *core) giveUpIn(q *sched.Queue) {
	a := &c.admission
	type question struct {
		network    string
		n, waiting int
	}
	var known question // arguments of the last call of service
	var takes, most Time
	for i := 0; i < q.Len(); {
		r := q.At(i)
		n := 1 // samples of the request's task
		for i+n < q.Len() && q.At(i+n).Task == r.Task {
			n++
		}
		if r.Deadline == never {
			i += n
			continue
		}
		if asked := (question{r.Network, n, q.Len()}); asked != known {
			known = asked
			takes, most = a.last(r.Network, n, q.Len(), max(n, a.batch)) // larger batches than so far are possible
			takes, most = a.paced(takes), a.paced(most)
		}
		room := Time(0)
		if takes < never && n == c.reqs.get(uint64(r.ID)).task.Samples { // none of its samples has begun
			room = a.paced(a.room(r.Network, n, i))
		}
		switch {
		case takes == never:
			i += n
		case r.Deadline-takes-room >= c.now:
			a.look = min(a.look, r.Deadline-most-room+1)
			if i += n; q.Ordered() && n == 1 { // all other requests of this level have later deadlines
				i = q.Level(i - 1)
			}
		default:
			left := q.Len() - n
			c.takeBack(c.reqs.get(uint64(r.ID)).task, Dropped, tooLate)
			if q.Len() < left { // samples of the task elsewhere in the queue are removed too; search the rest next time
				a.look = 0
			}
		}
	}
}

// giveUpOne drops a waiting request.
func (c *core) giveUpOne(r *request, why string) {
	c.unqueue(r)
	if r.copying { // the slot is freed at the end of the copy
		r.inFlight = true
		r.task.flying++
	} else {
		c.release(r)
	}
	c.end(r, Dropped, why, nil)
}

// stopLate ends tasks of a launch at an exit if they cannot pass the next exit in time. Every removal makes the launch
// faster. So the task with the earliest deadline is examined first, and the others after each removal.
func (c *core) stopLate(l *launch) (left int) {
	s := l.Reached + 1
	if !c.admission.on || s >= l.table.Segments() {
		return len(l.reqs)
	}
	for {
		first := -1
		for i, r := range l.reqs {
			if !r.inFlight && r.Deadline != never && (first < 0 || r.Deadline < l.reqs[first].Deadline) {
				first = i
			}
		}
		if first < 0 || c.now+c.admission.paced(l.table.At(s, s, len(l.reqs))) <= l.reqs[first].Deadline {
			return len(l.reqs)
		}
		c.takeBack(l.reqs[first].task, Dropped, tooLate)
	}
}
