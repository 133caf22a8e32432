// Run: virtual time. Devices compute at the instant their segment begins; its end is an event.

package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/sluice-npu/sluice/host/sched"
)

// event is the end of a segment (launch set) or of a reset (up), or what an Item says. It is small,
// since a heap moves it about.
type event struct {
	at     Time
	seq    uint64
	launch *launch // what came of its segment stands in it
	task   *sched.Task
	cancel uint64
	dev    int32
	fresh  bool // the item came from Source.Next: the next one is due
	up     bool
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
	events
	// What the source brings next stands beside the heap: one in three events or so need not go
	// through it.
	fresh event
	due   bool
	ahead [2]sched.Task // tasks that came from the source: the one taken in now, and the next
	turn  int
}

// next takes the first event, the heap's or the source's; nil where there is none left. It is the
// caller's until the next push, or until the source is asked.
func (v *virtual) next() *event {
	if v.due && (len(v.heap) == 0 || v.fresh.before(&v.heap[0])) {
		v.due = false
		return &v.fresh
	}
	return v.pop()
}

// Run serves until the source has no task left and every request has ended. Its result depends on
// the configuration alone. It ends early, with an error that wraps ctx's, when ctx does.
func Run(ctx context.Context, cfg Config) (*Result, error) {
	c, err := newCore(ctx, &cfg)
	if err != nil {
		return nil, err
	}
	v := &virtual{c: c}
	c.drv = v
	if err := v.pull(); err != nil {
		return nil, err
	}
	stopped := func() error {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("run of %s, %d requests ended: %w", c.res.Policy, c.ended, err)
		}
		return nil
	}
	for n := 0; ; n++ {
		if n%64 == 0 || c.res.Faults > 0 { // a context that has ended makes devices fail
			if err := stopped(); err != nil {
				return nil, err
			}
		}
		e := v.next()
		if e == nil {
			break
		}
		c.now = e.at
		switch {
		case e.launch != nil:
			err = c.segmentDone(e.launch)
		case e.up:
			err = c.deviceUp(int(e.dev), c.devs[e.dev].reset)
		default:
			it := e.item()
			if e.fresh {
				if err := v.pull(); err != nil {
					return nil, err
				}
			}
			err = c.item(it)
		}
		if err != nil {
			return nil, err
		}
	}
	if err := stopped(); err != nil {
		return nil, err
	}
	if err := c.close(); err != nil {
		return nil, err
	}
	return &c.res, nil
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
	v.seq++
	e := &v.fresh
	e.at, e.seq, e.task, e.cancel, e.fresh = it.At, v.seq, it.Task, it.Cancel, true
	v.due = true
	return nil
}

// checkItem refuses what no load can bring after a time.
func checkItem(it Item, after Time) error {
	switch {
	case it.At < after || it.Task == nil && it.Cancel == 0:
		return fmt.Errorf("%w: an item at %d ns, after %d ns, or an empty one", ErrSource, it.At, after)
	case it.Task != nil && it.Task.Deadline <= it.At:
		return fmt.Errorf("%w: task %d comes at %d ns and is due at %d ns", ErrSource, it.Task.ID, it.At, it.Task.Deadline)
	}
	return nil
}

func (v *virtual) begin(l *launch) {
	c := v.c
	d := &c.devs[l.Device]
	if d.info.Instant {
		l.rep, l.err = d.Run(c.ctx, &l.job)
	} else {
		ctx, cancel := context.WithTimeout(c.ctx, c.cfg.hangAfter())
		l.rep, l.err = d.Run(ctx, &l.job)
		cancel()
	}
	took := l.table.At(l.job.First, l.job.Last, len(l.job.Requests))
	switch {
	case l.err == nil && (c.cfg.Clock == Table || l.rep == nil): // segmentDone refuses the latter
	case errors.Is(l.err, context.DeadlineExceeded):
		took = c.cfg.hangCost()
	case l.err == nil:
		took = l.rep.Ns
		if hz := d.info.ClockHz; took <= 0 && hz > 0 {
			took = int64(float64(l.rep.Cycles) * 1e9 / float64(hz))
		}
		if took <= 0 {
			took, l.err = 1, fmt.Errorf("%w: %s reports a segment of %d ns, %d cycles", ErrDevice, d.info.Name, l.rep.Ns, l.rep.Cycles)
		}
	}
	v.push(c.now + took).launch = l
}

func (v *virtual) reset(dev int) {
	err := v.c.devs[dev].Reset(v.c.ctx)
	v.c.devs[dev].reset = err
	e := v.push(v.c.now + v.c.cfg.resetCost())
	e.up, e.dev = true, int32(dev)
	v.c.span(Span{Device: dev, Segment: -1, Start: v.c.now, End: v.c.now + v.c.cfg.resetCost(), Failed: err != nil}, nil)
}
