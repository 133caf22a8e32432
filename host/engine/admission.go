// Admission by the latency tables: who cannot meet a deadline any more is refused as it comes, given up in the
// queue, or stopped at its next exit, so that the devices' time goes to those who can. Requests without a
// deadline are left alone.

package engine

import (
	"fmt"

	"github.com/sluice-npu/sluice/host/sched"
)

// tooLate is why a request is given up.
const tooLate = "the deadline cannot be met, by the latency table"

// byTable is the state of admission by the table.
type byTable struct {
	on bool
	// look is before when no waiting request can be too late: the queue need not be searched until then.
	look Time
}

// service is what the table says that a request for a network takes from its launch in a batch of b to its result, as
// exits have been taken so far, on the device that is fastest; and what a sample takes of all devices together where
// batches are as large as they can be. never: nobody serves it now.
func (c *core) service(network string, b int) (takes, share Time) {
	takes = never
	rate := 0.0
	seen := c.traffic(network)
	for i := range c.st.Devices {
		v := &c.st.Devices[i]
		h := v.Member(network)
		if v.Down || h == nil {
			continue
		}
		most := min(v.MaxBatch, h.Table.MaxBatch())
		alone, full := Time(0), Time(0)
		for s := range h.Table.Segments() {
			reach := 1.0
			if s > 0 && seen.Passed[0] > 0 {
				reach = float64(seen.Passed[s]) / float64(seen.Passed[0])
			}
			at := func(n int) Time { return h.Table.At(s, s, max(1, min(n, int(float64(n)*reach+0.5)))) }
			alone += at(min(b, most))
			full += Time(float64(at(most)) * min(1, float64(most)*reach)) // nobody runs what nobody reaches
		}
		takes = min(takes, alone)
		rate += float64(most) / float64(max(1, full))
	}
	if rate > 0 {
		share = Time(1 / rate)
	}
	return takes, share
}

// hopeless says why a task is refused whose deadline cannot be met behind those who wait.
func (c *core) hopeless(in *sched.Task) error {
	if !c.byTable.on || in.Deadline == 0 {
		return nil
	}
	n := c.st.Queue.Len()
	takes, share := c.service(in.Network, n+1)
	c.byTable.look = min(c.byTable.look, in.Deadline-takes+1)
	if takes == never { // a device may come back
		return nil
	}
	if ready := c.now + Time(n)*share + takes; ready > in.Deadline {
		return fmt.Errorf("task %d: %w: %d wait, its result is to be had at %d ns, its deadline is %d ns", in.ID, ErrLate, n, ready, in.Deadline)
	}
	return nil
}

// giveUp ends those who wait and cannot meet their deadline any more.
func (c *core) giveUp() {
	a := &c.byTable
	if !a.on || c.now < a.look {
		return
	}
	a.look = never
	c.giveUpIn(&c.st.Queue)
	for i := range c.st.Devices {
		c.giveUpIn(&c.st.Devices[i].Queue)
	}
}

func (c *core) giveUpIn(q *sched.Queue) {
	network, takes := "", Time(0)
	for i := 0; i < q.Len(); {
		r := q.At(i)
		if r.Deadline == never {
			i++
			continue
		}
		if r.Network != network {
			network = r.Network
			takes, _ = c.service(network, q.Len())
		}
		switch {
		case takes == never:
			i++
		case r.Deadline-takes >= c.now:
			c.byTable.look = min(c.byTable.look, r.Deadline-takes+1)
			if q.Ordered() {
				return
			}
			i++
		default:
			if q.Len() <= 1 { // takes is of a smaller batch from here on
				network = ""
			}
			c.giveUpOne(c.reqs.get(uint64(r.ID)), tooLate)
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

// stopLate ends those of a launch at an exit that cannot pass the next one in time.
func (c *core) stopLate(l *launch) (left int) {
	s := l.Reached + 1
	if !c.byTable.on || s >= l.table.Segments() {
		return len(l.reqs)
	}
	takes := l.table.At(s, s, len(l.reqs))
	kept := 0
	for i, r := range l.reqs {
		if r.inFlight || r.Deadline == never || c.now+takes <= r.Deadline {
			l.reqs[kept], l.Requests[kept] = r, l.Requests[i]
			kept++
			continue
		}
		r.launch = nil
		c.release(r)
		c.end(r, Dropped, tooLate, nil)
	}
	if kept < len(l.reqs) {
		l.reqs, l.Requests, l.listed = l.reqs[:kept], l.Requests[:kept], false
	}
	return kept
}
