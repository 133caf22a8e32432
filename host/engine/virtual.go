// Run in virtual time: devices say when their next event is due, and the earliest event is handled next.

package engine

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/sched"
)

// event is an item of the source, or an internal event. It is small, since the heap moves it.
type event struct {
	at     Time
	seq    uint64
	task   *sched.Task
	cancel uint64
	x      *extra
	dev    int32
	fresh  bool // an item from Source.Next, after which the next one is requested
}

// extra has the rarer contents of events.
type extra struct {
	job   *job // a job that ended as it began, with err
	err   error
	again *outage // a reset to be tried again
	plan  any
	is    bool // is: result is that of a plan
}

func (e *event) item() Item { return Item{At: e.at, Task: e.task, Cancel: e.cancel} }

// events is a binary heap ordered by (time, sequence): at equal times, the event that was requested first is handled
// first.
type events struct {
	heap []event
	seq  uint64
}

func (e *event) before(o *event) bool { return e.at < o.at || e.at == o.at && e.seq < o.seq }

func (h *events) less(i, j int) bool { return h.heap[i].before(&h.heap[j]) }

// push makes an event at a time. The caller fills it in before the next push or pop; passing a complete event would
// copy it twice.
func (h *events) push(at Time) *event {
	h.seq++
	i := len(h.heap)
	h.heap = append(h.heap, event{})
	for i > 0 && at < h.heap[(i-1)/2].at { // at equal times the older one stays first
		h.heap[i] = h.heap[(i-1)/2]
		i = (i - 1) / 2
	}
	e := &h.heap[i]
	*e = event{}
	e.at, e.seq = at, h.seq
	return e
}

func (h *events) schedule(it Item) {
	e := h.push(it.At)
	e.task, e.cancel = it.Task, it.Cancel
}

// pop removes the first event, which is valid until the next push.
func (h *events) pop() *event {
	last := len(h.heap) - 1
	if last < 0 {
		return nil
	}
	top := &h.heap[last]
	if last > 0 {
		*top, h.heap[0] = h.heap[0], *top
	}
	h.heap = h.heap[:last] // the slot behind the end keeps little alive, as launches and tasks are reused
	for i := 0; last > 1; {
		down := 2*i + 1
		if down >= last {
			break
		}
		if down+1 < last && h.less(down+1, down) {
			down++
		}
		if !h.less(down, i) {
			break
		}
		h.heap[i], h.heap[down] = h.heap[down], h.heap[i]
		i = down
	}
	return top
}

type virtual struct {
	c *core
	// The source's next item is kept beside the heap, so about a third of all events bypass it.
	fresh event
	due   bool
	ahead [2]sched.Task // tasks from the source: the one being accepted, and the next
	turn  int
}

// Run serves until the source has no tasks left and every request has ended. Its result depends only on the
// configuration. If ctx ends first, the remaining requests end as errors, which the result shows, and the error wraps
// ctx's.
func Run(ctx context.Context, cfg Config) (*Result, error) {
	c, err := newCore(&cfg)
	if err != nil {
		return nil, err
	}
	c.ctx = ctx
	if cfg.Source == nil {
		return nil, fmt.Errorf("%w: no load source", ErrConfig)
	}
	if cfg.Inputs == nil {
		return nil, fmt.Errorf("%w: no inputs", ErrConfig)
	}
	for i := range c.devs {
		d := &c.devs[i]
		v, ok := d.Device.(device.Virtual)
		if !ok {
			return nil, fmt.Errorf("%w: device %d (%s) knows no virtual time", ErrConfig, i, d.info.Name)
		}
		d.v = v
	}
	v := &virtual{c: c}
	c.plan = func(p sched.Plan) {
		found := c.found(ctx, p)
		c.push(c.now + max(0, p.Cost())).x = &extra{plan: found, is: true}
	}
	if err := v.pull(); err != nil {
		return nil, err
	}
	if err := v.run(ctx); err != nil {
		c.stop(err)
		v.land()
		return &c.res, err
	}
	return &c.res, nil
}

func (v *virtual) run(ctx context.Context) error {
	c := v.c
	for n := uint(0); ; n++ {
		if n%64 == 0 || c.res.Faults > 0 { // with faults at every event, since devices fail when the context ends
			if ctx.Err() != nil {
				return c.over()
			}
		}
		var err error
		switch at, from := v.first(); {
		case from != nil:
			err = c.take(from, at)
		case at < never:
			err = v.outside(at)
		case c.interrupted:
			return c.over()
		default:
			return c.close()
		}
		if err != nil {
			return err
		}
	}
}

// first is the time of the next event, and the device that has it or hangs; nil: soonest has it. never: there is
// none.
func (v *virtual) first() (at Time, from *dev) {
	at, seq := never, uint64(math.MaxUint64)
	if e := v.soonest(); e != nil {
		at, seq = e.at, e.seq
	}
	for i := range v.c.devs {
		d := &v.c.devs[i]
		if d.stale {
			d.look()
		}
		if d.next < at || d.next == at && d.seq < seq && !d.hangs {
			at, seq, from = d.next, d.seq, d
			if d.hangs {
				seq = math.MaxUint64
			}
		}
	}
	return at, from
}

// soonest is the next event of the heap and the source; nil if there is none.
func (v *virtual) soonest() *event {
	switch heap := v.c.heap; {
	case v.due && (len(heap) == 0 || v.fresh.before(&heap[0])):
		return &v.fresh
	case len(heap) > 0:
		return &heap[0]
	}
	return nil
}

// take handles a device's next event, or its hang.
func (c *core) take(d *dev, at Time) error {
	if d.hangs {
		c.now = at
		return c.watch(0)
	}
	c.now = max(c.now, at)
	d.stale = true
	if ev := d.v.Take(c.now); ev != nil {
		d.idle = 0
		return c.answer(d, ev)
	}
	return d.nothing(c.now)
}

// found returns the result of a plan; nil if it panics.
func (c *core) found(ctx context.Context, p sched.Plan) (found any) {
	var err error
	defer func() { c.cfg.logPanic("a plan of "+c.res.Policy, err) }()
	defer device.Recover(&err)
	return p.Find(ctx)
}

// over ends a run whose context has ended.
func (c *core) over() error {
	return fmt.Errorf("run of %s, %d requests ended: %w", c.res.Policy, c.ended, c.ctx.Err())
}

// maxIdle is how often in a row a device may announce an event for the current time and then have none.
const maxIdle = 1000

// nothing records that a device had no event when one was due.
func (d *dev) nothing(now Time) error {
	if next, ok := d.v.Next(); !ok || next > now {
		d.idle = 0 // something happened inside the device without an event
		return nil
	}
	if d.idle++; d.idle > maxIdle {
		return fmt.Errorf("%w: %s has something due at %d ns, but nothing to tell", ErrDevice, d.info.Name, d.next)
	}
	return nil
}

// look computes when a device must be examined next.
func (d *dev) look() {
	d.stale = false
	due, ok := d.v.Next()
	if d.hangs = !ok || due > d.watch; d.hangs {
		due = d.watch
	}
	d.next = due
}

// outside handles an event of the source, or an internal one.
func (v *virtual) outside(at Time) error {
	c := v.c
	c.now = at
	e := v.soonest()
	if e == &v.fresh {
		v.due = false
	} else {
		e = c.pop()
	}
	if e.x != nil {
		return c.own(e)
	}
	it := e.item()
	if e.fresh {
		if err := v.pull(); err != nil {
			return err
		}
	}
	if it.Task == nil {
		return c.item(it)
	}
	_, err := c.arrive(it.Task, at, nil)
	return err
}

// own handles an internal event.
func (c *core) own(e *event) error {
	x := e.x
	switch {
	case x.is:
		return c.planned(x.plan)
	case x.again != nil:
		x.again.resetting = false
		c.recover(int(e.dev))
		return nil
	}
	if i := slices.Index(c.jobs, x.job); i >= 0 {
		c.leaveJob(i, false)
	}
	return c.jobDone(x.job, x.err, 0)
}

// land lets devices end their work, which frees slots.
func (v *virtual) land() {
	c := v.c
	for c.flying() {
		at, from := never, (*dev)(nil)
		for i := range c.devs {
			if due, ok := c.devs[i].v.Next(); ok && due < at {
				at, from = due, &c.devs[i]
			}
		}
		if from == nil {
			return
		}
		c.now = max(c.now, at)
		ev := from.v.Take(c.now)
		if ev == nil || c.answer(from, ev) != nil {
			return
		}
	}
}

func (v *virtual) pull() error {
	it, ok := v.c.cfg.Source.Next()
	if !ok {
		return nil
	}
	if err := checkItem(it, v.c.now); err != nil {
		return err
	}
	if it.Task != nil { // copied, so that a source can reuse a task
		v.turn ^= 1
		v.ahead[v.turn] = *it.Task
		it.Task = &v.ahead[v.turn]
	}
	v.c.seq++
	e := &v.fresh
	e.at, e.seq, e.task, e.cancel, e.fresh = it.At, v.c.seq, it.Task, it.Cancel, true
	v.due = true
	return nil
}

// checkItem rejects items that a source must not return after a time.
func checkItem(it Item, after Time) error {
	if it.At < after || it.Task == nil && it.Cancel == 0 {
		return fmt.Errorf("%w: an item at %d ns, after %d ns, or an empty one", ErrSource, it.At, after)
	}
	return nil
}
