// Run works in virtual time. Each device reports when its next event is due, and the engine handles the earliest event.

package engine

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/sched"
)

// event is an item of the source, or an internal event. The struct is small, since the heap moves events.
type event struct {
	at     Time
	seq    uint64
	task   *sched.Task
	cancel uint64
	x      *extra
	dev    int32
	fresh  bool // the item came from Source.Next; the next item is requested after it
}

// extra has the fields that only few events need.
type extra struct {
	job   *job // a job that ended when it began, with error err
	err   error
	again *outage // the failed part of a device; its reset is tried again
	plan  any
	is    bool // the event is the end of a plan; plan is its result
}

func (e *event) item() Item { return Item{At: e.at, Task: e.task, Cancel: e.cancel} }

// events is a binary heap ordered by (time, sequence). Of two events at the same time, the event that was requested
// first is handled first.
type events struct {
	heap []event
	seq  uint64
}

func (e *event) before(o *event) bool { return e.at < o.at || e.at == o.at && e.seq < o.seq }

func (h *events) less(i, j int) bool { return h.heap[i].before(&h.heap[j]) }

// push adds an event at a time and returns a pointer to it. The caller sets its fields before the next push or pop. A
// parameter with a complete event would be copied twice.
func (h *events) push(at Time) *event {
	h.seq++
	i := len(h.heap)
	h.heap = append(h.heap, event{})
	for i > 0 && at < h.heap[(i-1)/2].at { // at equal times the older event stays first
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

// pop removes and returns the first event, which is valid until the next push.
func (h *events) pop() *event {
	last := len(h.heap) - 1
	if last < 0 {
		return nil
	}
	top := &h.heap[last]
	if last > 0 {
		*top, h.heap[0] = h.heap[0], *top
	}
	h.heap = h.heap[:last] // the slot after the end is not cleared, since launches and tasks are reused
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
	// The next item of the source is stored outside the heap, so about a third of all events bypass the heap.
	fresh event
	due   bool
	ahead [2]sched.Task // copies of two tasks from the source: the one being accepted, and the next
	turn  int
}

// Run serves until the source has no tasks left and every request has ended. Its result depends only on the
// configuration. If ctx ends first, the remaining requests end as errors, and the error of Run wraps the error of ctx.
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
		if n%64 == 0 || c.res.Faults > 0 { // after a fault, check at every event, since devices fail when ctx ends
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

// first returns the time "at" of the next event, and the device "from" that has this event or hangs. If "from" is nil,
// the method soonest returns the event. If there is no event, "at" is never.
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

// soonest returns the earliest event of the heap and the source; nil if there are no events.
func (v *virtual) soonest() *event {
	switch heap := v.c.heap; {
	case v.due && (len(heap) == 0 || v.fresh.before(&heap[0])):
		return &v.fresh
	case len(heap) > 0:
		return &heap[0]
	}
	return nil
}

// take handles the next event of a device, or the time limit of its work.
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

// found returns the result of a plan; nil if the plan panics.
func (c *core) found(ctx context.Context, p sched.Plan) (found any) {
	var err error
	defer func() { c.cfg.logPanic("a plan of "+c.res.Policy, err) }()
	defer device.Recover(&err)
	return p.Find(ctx)
}

// over returns the error of a run whose context has ended.
func (c *core) over() error {
	return fmt.Errorf("run of %s, %d requests ended: %w", c.res.Policy, c.ended, c.ctx.Err())
}

// maxIdle is how many times in succession a device may announce a due event without delivering the event.
const maxIdle = 1000

// nothing records that an event was due but the device had none.
func (d *dev) nothing(now Time) error {
	if next, ok := d.v.Next(); !ok || next > now {
		d.idle = 0 // the device's state changed without an event
		return nil
	}
	if d.idle++; d.idle > maxIdle {
		return fmt.Errorf("%w: %s has something due at %d ns, but nothing to tell", ErrDevice, d.info.Name, d.next)
	}
	return nil
}

// look computes the time at which the device must be examined next.
func (d *dev) look() {
	d.stale = false
	due, ok := d.v.Next()
	if d.hangs = !ok || due > d.watch; d.hangs {
		due = d.watch
	}
	d.next = due
}

// outside handles an event of the source, or an internal event.
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

// land waits in virtual time for the ends of the devices' work. These events free slots.
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
	if it.Task != nil { // the source can reuse the memory of its task
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

// checkItem returns an error if an item is empty, or if its time is earlier than the given time.
func checkItem(it Item, after Time) error {
	if it.At < after || it.Task == nil && it.Cancel == 0 {
		return fmt.Errorf("%w: an item at %d ns, after %d ns, or an empty one", ErrSource, it.At, after)
	}
	return nil
}
