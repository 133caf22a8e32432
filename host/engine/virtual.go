// Run: virtual time. Devices compute at the instant their segment begins; its end is an event.

package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/sluice-npu/sluice/host/device"
)

// event is an item, the end of a segment (launch set) or the end of a reset (up).
type event struct {
	at     Time
	seq    uint64
	item   Item
	fresh  bool // the item came from Source.Next: the next one is due
	launch *launch
	rep    device.Report
	up     bool
	dev    int
	err    error
}

// events is a binary heap by (time, sequence): what is asked for first happens first at equal times.
type events struct {
	heap []event
	seq  uint64
}

func (h *events) less(i, j int) bool {
	a, b := &h.heap[i], &h.heap[j]
	return a.at < b.at || a.at == b.at && a.seq < b.seq
}

func (h *events) push(e event) {
	h.seq++
	e.seq = h.seq
	h.heap = append(h.heap, e)
	for i := len(h.heap) - 1; i > 0; {
		up := (i - 1) / 2
		if !h.less(i, up) {
			break
		}
		h.heap[i], h.heap[up] = h.heap[up], h.heap[i]
		i = up
	}
}

func (h *events) pop() (event, bool) {
	if len(h.heap) == 0 {
		return event{}, false
	}
	top, last := h.heap[0], len(h.heap)-1
	h.heap[0], h.heap[last] = h.heap[last], event{}
	h.heap = h.heap[:last]
	for i := 0; ; {
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
	return top, true
}

type virtual struct {
	c *core
	events
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
	for {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("run of %s, %d requests ended: %w", c.res.Policy, c.ended, err)
		}
		e, ok := v.pop()
		if !ok {
			break
		}
		c.now = e.at
		switch {
		case e.launch != nil:
			err = c.segmentDone(e.launch, e.rep, e.err)
		case e.up:
			err = c.deviceUp(e.dev, e.err)
		default:
			if e.fresh {
				if err := v.pull(); err != nil {
					return nil, err
				}
			}
			err = c.item(e.item)
		}
		if err != nil {
			return nil, err
		}
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
	if it.At < v.c.now || it.Task == nil && it.Cancel == 0 {
		return fmt.Errorf("%w: an item at %d ns, after %d ns, or an empty one", ErrSource, it.At, v.c.now)
	}
	v.push(event{at: it.At, item: it, fresh: true})
	return nil
}

func (v *virtual) begin(l *launch, job device.Launch) {
	c := v.c
	ctx, cancel := context.WithTimeout(c.ctx, c.cfg.hangAfter())
	rep, err := c.devs[l.Device].Run(ctx, job)
	cancel()
	took := c.st.Devices[l.Device].Table(l.Network).At(job.First, job.Last, len(job.Requests))
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		took = c.cfg.hangCost()
	case err == nil && c.cfg.Clock == Measured:
		took = rep.Ns
		if hz := c.devs[l.Device].info.ClockHz; took <= 0 && hz > 0 {
			took = int64(float64(rep.Cycles) * 1e9 / float64(hz))
		}
		if took <= 0 {
			took, err = 1, fmt.Errorf("%w: %s reports a segment of %d ns, %d cycles", ErrDevice, c.devs[l.Device].info.Name, rep.Ns, rep.Cycles)
		}
	}
	v.push(event{at: c.now + took, launch: l, rep: rep, err: err})
}

func (v *virtual) reset(dev int) {
	err := v.c.devs[dev].Reset(v.c.ctx)
	v.push(event{at: v.c.now + v.c.cfg.resetCost(), up: true, dev: dev, err: err})
	v.c.span(Span{Device: dev, Segment: -1, Start: v.c.now, End: v.c.now + v.c.cfg.resetCost(), Failed: err != nil}, nil)
}

func (v *virtual) schedule(it Item) { v.push(event{at: it.At, item: it}) }
