// Admission by the latency tables: who cannot meet a deadline any more is refused as it comes, given up in the
// queue, or stopped at its next exit, so that the devices' time goes to those who can. Requests without a
// deadline are left alone.

package engine

import (
	"fmt"
	"math"
	"slices"
	"sort"
	"time"

	"github.com/sluice-npu/sluice/host/sched"
)

// tooLate is why a request is given up.
const tooLate = "the deadline cannot be met, by the latency table"

// admission is that by the tables, of what a policy sees. Who ends for it the books say.
type admission struct {
	on       bool
	st       *sched.State
	preempts bool // the policy does, for higher levels
	// look is before when no waiting request can be too late: the queue need not be searched until then.
	look Time
	// batch is the largest that the policy has launched.
	batch int
	// pace is how much longer than by the table segments have taken of late: 1 at least.
	pace float64
	// copy is how long a device has waited for a sample's input of late: nothing where copies run beside launches.
	copy  float64
	ahead []aheadOf // storage of waitFirst
}

// service is what a batch of b for a network takes from its launch to its last result, by the tables and what inputs have taken
// of late, as exits have been taken so far, on the device that is fastest, and how many devices serve it now. The batch is made smaller
// until it takes no longer than limit. never: nobody serves it.
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

// last is what the tables say it takes from a launch to the result of the last of so many samples, which go one behind the
// other in batches of at most that many, the last filled up by those of others; and what its largest batch takes.
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

// room is what a task of several samples is to have left beyond what the tables say where so many go first, or others run:
// its batches are filled up by others and cut at exits, and one sample that is late costs the work on all. At arrival it is
// half as much again, so that few of those who are taken in are given up before they begin.
func (a *admission) room(network string, samples, first int) Time {
	idle := func(v sched.DeviceView) bool { return !v.Down && len(v.Launches) == 0 && v.Member(network) != nil }
	if samples == 1 || first == 0 && slices.ContainsFunc(a.st.Devices, idle) {
		return 0
	}
	full, _, _ := a.service(network, math.MaxInt, never)
	return full
}

// remain is how many of n that begin segment first are expected to be left in segment s; one at least.
func remain(seen *sched.Traffic, first, s, n int) int {
	if s == first || seen.Passed[first] == 0 {
		return n
	}
	return max(1, int(float64(n)*float64(seen.Passed[s])/float64(seen.Passed[first])+0.5))
}

// paced is what something takes today that takes so long by the table.
func (a *admission) paced(t Time) Time {
	if t == never {
		return never
	}
	return Time(float64(t) * a.pace)
}

// ran records how long a segment took that the table has as some time.
func (a *admission) ran(took, table Time) {
	if table > 0 {
		a.pace = max(1, a.pace+(min(8, float64(took)/float64(table))-a.pace)/32)
	}
}

// copied records how long a device has waited for the inputs of n samples, which count as so many times.
func (a *admission) copied(waited Time, n int) {
	a.copy += (float64(waited) - a.copy*float64(n)) / float64(n+31)
}

// busyFor is how long that device of a task's network which is free for it first still runs what has been launched, by
// the table: where the policy preempts for it, that of the same and of higher levels.
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
			if a.preempts && l.Level() < in.Priority { // it is halted at its next exit
				if last = from; l.Phase == sched.Halted {
					continue
				}
			}
			t := h.Table
			for s := from; s <= min(last, l.Last); s++ { // none where it waits to be merged
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

// aheadOf is how many requests for a network go before a task.
type aheadOf struct {
	network string
	n       int
}

// waitFirst counts the requests that go before a task, by network: those of higher priority, and those of the same
// priority with an earlier or equal deadline. A policy that serves in order of arrival lets others go first too. A task
// that misses its deadline for that reason is dropped from the queue, at no cost for a device. A network does not count
// if a device that can serve the task does not have it.
func (a *admission) waitFirst(in *sched.Task) (list []aheadOf, n int) {
	q := &a.st.Queue
	a.ahead = a.ahead[:0]
	if len(a.st.Traffic) == 1 && q.Ordered() { // the place is the number, and need not be walked to
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
		if r.Priority < in.Priority { // and so has everybody behind it
			break
		}
		if r.Priority == in.Priority && r.Deadline > in.Deadline {
			if q.Ordered() { // and so have all others of this level
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

// hopeless says why a task is refused whose deadline cannot be met behind those who go first, in batches as large as the
// deadline allows.
func (a *admission) hopeless(now Time, in *sched.Task) error {
	if !a.on || in.Deadline == 0 {
		return nil
	}
	samples, limit := max(1, in.Samples), in.Deadline-now
	if limit <= 0 {
		return fmt.Errorf("task %d: %w: %v ago", in.ID, ErrExpired, time.Duration(-limit))
	}
	if _, _, devices := a.service(in.Network, 1, never); devices == 0 { // one may come back
		return nil
	}
	if a.idle(in.Network) { // it holds up nobody, and tells what launches and inputs take today
		of := *a
		of.copy = 0
		if takes, _ := of.last(in.Network, samples, samples, samples); takes <= limit {
			return nil
		}
	}
	list, n := a.waitFirst(in)
	before := samples - 1 // of its own network
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

// idle tells whether a device of a network has nothing to do, and nobody waits.
func (a *admission) idle(network string) bool {
	return a.st.Queue.Len() == 0 && slices.ContainsFunc(a.st.Devices, func(v sched.DeviceView) bool {
		return !v.Down && len(v.Launches) == 0 && v.Queue.Len() == 0 && v.Member(network) != nil
	})
}

// giveUp ends those who wait and cannot meet their deadline any more.
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

// giveUpIn ends the tasks whose samples in a queue cannot all meet their deadline any more, with every sample they have:
// what is left of the others' results is of use to nobody.
func (c *core) giveUpIn(q *sched.Queue) {
	a := &c.admission
	type question struct {
		network    string
		n, waiting int
	}
	var known question // the question that takes and most are the answer to, without room
	var takes, most Time
	for i := 0; i < q.Len(); {
		r := q.At(i)
		n := 1 // samples of its task
		for i+n < q.Len() && q.At(i+n).Task == r.Task {
			n++
		}
		if r.Deadline == never {
			i += n
			continue
		}
		if asked := (question{r.Network, n, q.Len()}); asked != known {
			known = asked
			takes, most = a.last(r.Network, n, q.Len(), max(n, a.batch)) // a policy that has seen one at a time may take more
			takes, most = a.paced(takes), a.paced(most)
		}
		room := Time(0)
		if takes < never && n == c.reqs.get(uint64(r.ID)).task.Samples { // none of them has begun
			room = a.paced(a.room(r.Network, n, i))
		}
		switch {
		case takes == never:
			i += n
		case r.Deadline-takes-room >= c.now:
			a.look = min(a.look, r.Deadline-most-room+1)
			if i += n; q.Ordered() && n == 1 { // all others of this level have later deadlines
				i = q.Level(i - 1)
			}
		default:
			left := q.Len() - n
			c.takeBack(c.reqs.get(uint64(r.ID)).task, Dropped, tooLate)
			if q.Len() < left { // some stood elsewhere: what has moved is looked at next time
				a.look = 0
			}
		}
	}
}

// giveUpOne ends a request that waits.
func (c *core) giveUpOne(r *request, why string) {
	c.unqueue(r)
	if r.copying { // its slot is freed when the copy has ended
		r.inFlight = true
		r.task.flying++
	} else {
		c.release(r)
	}
	c.end(r, Dropped, why, nil)
}

// stopLate ends the tasks of those in a launch at an exit that cannot pass the next one in time. Without them it is
// faster, so the one with the earliest deadline is looked at first, and the others anew when it has gone.
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
