// Run: virtual time. Devices say when their next event is due; whatever is first happens first.

package engine

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/sched"
)

// event is what an Item says, or something of the engine's own. It is small, since a heap moves it
// about.
type event struct {
	at     Time
	seq    uint64
	task   *sched.Task
	cancel uint64
	x      *extra
	dev    int32
	fresh  bool // the item came from Source.Next: the next one is due
}

// extra is what else there is to come.
type extra struct {
	job   *job // that ended as it began, with err
	err   error
	again *outage // a reset that is due again
	plan  any
	is    bool // plan is what a plan has found
}

func (e *event) item() Item { return Item{At: e.at, Task: e.task, Cancel: e.cancel} }

// events is a binary heap by (time, sequence): what is asked for first happens first at equal times.
type events struct {
	heap []event
	seq  uint64
}

func (e *event) before(o *event) bool { return e.at < o.at || e.at == o.at && e.seq < o.seq }

func (h *events) less(i, j int) bool { return h.heap[i].before(&h.heap[j]) }

// push makes an event at that time. What happens then is the caller's to fill in, before the next
// push or pop: an event that is handed over whole is copied twice.
func (h *events) push(at Time) *event {
	h.seq++
	i := len(h.heap)
	h.heap = append(h.heap, event{})
	for i > 0 && at < h.heap[(i-1)/2].at { // at equal times the older one goes first
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

// pop takes the first event out; it is the caller's until the next push.
func (h *events) pop() *event {
	last := len(h.heap) - 1
	if last < 0 {
		return nil
	}
	top := &h.heap[last]
	if last > 0 {
		*top, h.heap[0] = h.heap[0], *top
	}
	h.heap = h.heap[:last] // what stands behind it keeps little alive: launches and tasks are used again
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
	// What the source brings next stands beside the heap: one in three events or so need not go
	// through it.
	fresh event
	due   bool
	ahead [2]sched.Task // tasks that came from the source: the one taken in now, and the next
	turn  int
}

// Run serves until the source has no task left and every request has ended. Its result depends on
// the configuration alone. It ends early, with an error that wraps ctx's, when ctx does: then what
// has not ended by itself has ended as an error too, and the result says so.
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
		if n%64 == 0 || c.res.Faults > 0 { // a context that has ended makes devices fail
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

// first is when something happens next, and the device that has an event then or hangs; nil: it is soonest's. never:
// nothing does.
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

// soonest is what comes next of the heap and of the source, nil where nothing does.
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

// found is what a plan finds: nothing where it panics.
func (c *core) found(ctx context.Context, p sched.Plan) (found any) {
	var err error
	defer func() { c.cfg.logPanic("a plan of "+c.res.Policy, err) }()
	defer device.Recover(&err)
	return p.Find(ctx)
}

// over is the end of a run by its context.
func (c *core) over() error {
	return fmt.Errorf("run of %s, %d requests ended: %w", c.res.Policy, c.ended, c.ctx.Err())
}

// maxIdle is how often in a row a device may say that something is due now and then have nothing.
const maxIdle = 1000

// nothing records that a device had nothing to tell when something was due.
func (d *dev) nothing(now Time) error {
	if next, ok := d.v.Next(); !ok || next > now {
		d.idle = 0 // something has happened inside it that is nobody's business
		return nil
	}
	if d.idle++; d.idle > maxIdle {
		return fmt.Errorf("%w: %s has something due at %d ns, but nothing to tell", ErrDevice, d.info.Name, d.next)
	}
	return nil
}

// look finds when a device is to be looked at next.
func (d *dev) look() {
	d.stale = false
	due, ok := d.v.Next()
	if d.hangs = !ok || due > d.watch; d.hangs {
		due = d.watch
	}
	d.next = due
}

// outside handles what came from the source or is the engine's own.
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

// own handles an event of the engine's own.
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

// land lets devices end what they do, so that slots are freed.
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
	if it.Task != nil { // copied, so that a source may use one task again and again
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

// checkItem refuses what no source can bring after a time.
func checkItem(it Item, after Time) error {
	if it.At < after || it.Task == nil && it.Cancel == 0 {
		return fmt.Errorf("%w: an item at %d ns, after %d ns, or an empty one", ErrSource, it.At, after)
	}
	return nil
}
