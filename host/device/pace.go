// Pace runs a virtual device in real time.

package device

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Paced is a virtual device in real time. The engine asks when the next event is due, and then calls Post (Poster).
// Inputs and loads can be slow, so a goroutine handles them in order. A copy begins on the device when its input is
// ready and prepared (Preparer). The engine waits while the device computes in Begin and Take. So a driver with slow
// calls must not use Pace; it implements Blocking and uses Adapt.
type Paced struct {
	v    Virtual
	ctx  context.Context
	post func(Event)
	more chan struct{} // wakes the goroutine for copies

	mu     sync.Mutex
	start  time.Time  // real time at which the run's clock is 0
	at     Time       // latest time that was passed to the device
	copies []*pending // copies and loads that have not begun on the device, in order
}

// pending is a load, or a copy that has not begun on the device.
type pending struct {
	work     Work // the copy or load; it includes a copy's input when the input is ready
	ended    bool // Abort was called
	released bool // the engine has released the slot, so begin frees the slot
}

// Pace creates a real-time device from a virtual device.
func Pace(v Virtual) *Paced {
	return &Paced{v: v, more: make(chan struct{}, 1)}
}

// Info implements Device.
func (p *Paced) Info() Info {
	i := p.v.Info()
	i.InOrder = true
	return i
}

// Begin implements Device.
func (p *Paced) Begin(ctx context.Context, now Time, w *Work) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now = p.catchUp(now)
	_, prepares := p.v.(Preparer)
	if w.Kind != Copy && (w.Kind != Load || !prepares) {
		return p.v.Begin(ctx, now, w)
	}
	p.copies = append(p.copies, &pending{work: *w})
	select {
	case p.more <- struct{}{}:
	default:
	}
	return false, nil
}

// Abort implements Device.
func (p *Paced) Abort(now Time, id WorkID, kill bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now = p.catchUp(now)
	for _, c := range p.copies {
		if c.work.ID == id {
			c.ended = c.ended || kill
			return
		}
	}
	p.v.Abort(now, id, kill)
}

// Release implements Device.
func (p *Paced) Release(id RequestID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.copies {
		if c.work.Kind == Copy && c.work.Request == id {
			c.released = true
			return
		}
	}
	p.v.Release(id)
}

// inputs prepares copies in order and begins them on the device, until the context ends. It also does the loads.
func (p *Paced) inputs() {
	for {
		select {
		case <-p.more:
		case <-p.ctx.Done():
			return
		}
		for p.ctx.Err() == nil {
			p.mu.Lock()
			var c *pending
			if len(p.copies) > 0 {
				c = p.copies[0]
			}
			if c != nil && c.ended {
				p.begin(c, context.Canceled)
				p.mu.Unlock()
				continue
			}
			p.mu.Unlock()
			if c == nil {
				break
			}
			in, err := p.prepare(&c.work)
			c.work.Input = func() ([]Tensor, error) { return in, nil }
			p.mu.Lock()
			p.begin(c, err)
			p.mu.Unlock()
		}
	}
}

// prepare does the slow part of a copy, or a whole load.
func (p *Paced) prepare(w *Work) (in []Tensor, err error) {
	if w.Kind == Copy {
		in, err = w.Input()
	}
	if v, ok := p.v.(Preparer); ok && err == nil {
		err = v.Prepare(p.ctx, w, in)
	}
	return in, err
}

// begin begins the first copy of the list on the device, or reports its error. If the first entry is a load, the load
// has already ended with its preparation.
func (p *Paced) begin(c *pending, err error) {
	p.copies = p.copies[1:]
	if err == nil && c.ended {
		err = context.Canceled
	}
	done := c.work.Kind == Load
	if err == nil && !done {
		done, err = p.v.Begin(p.ctx, p.catchUp(time.Since(p.start).Nanoseconds()), &c.work)
	}
	if c.released { // even if the copy did not begin, since the device may have prepared the copy
		p.v.Release(c.work.Request)
	}
	switch {
	case err != nil:
		p.post(Event{Kind: Failed, Work: c.work.ID, Over: true, Err: err})
	case done:
		p.post(Event{Kind: Done, Work: c.work.ID, Over: true})
	default:
		p.post(Event{}) // tells the engine that the next event may have changed
	}
}

// Next implements Poster.
func (p *Paced) Next() (Time, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.v.Next()
}

// Post implements Poster.
func (p *Paced) Post(now Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.catchUp(now)
}

// Progress implements Progressive.
func (p *Paced) Progress(id WorkID) uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if g, ok := p.v.(Progressive); ok {
		return g.Progress(id)
	}
	return 0
}

// Close implements Device.
func (p *Paced) Close() error { return p.v.Close() }

// catchUp posts all events up to now. It returns the latest time that was passed to the device.
func (p *Paced) catchUp(now Time) Time {
	if at := time.Now().Add(-time.Duration(now)); p.start.IsZero() || at.Before(p.start) { // the caller may have read the clock earlier
		p.start = at
	}
	p.drain(now)
	p.at = max(p.at, now)
	return p.at
}

// drain posts all events that are due by now.
func (p *Paced) drain(now Time) {
	for {
		due, ok := p.v.Next()
		if !ok || due > now {
			return
		}
		p.at = max(p.at, due) // use the time of the event, so that a late call gives the device no extra time
		for e := p.v.Take(p.at); e != nil; e = p.v.Take(p.at) {
			p.post(e.clone())
		}
	}
}

// Attach implements Real.
func (p *Paced) Attach(ctx context.Context, post func(Event)) <-chan struct{} {
	p.ctx, p.post = ctx, post
	gone := make(chan struct{})
	go func() {
		p.inputs()
		close(gone)
	}()
	return gone
}

// clone returns a copy that shares nothing with the device.
func (e *Event) clone() Event {
	c := *e
	if e.Report != nil {
		c.Report = e.Report.clone()
	}
	return c
}

// clone returns a copy that shares only tensors with the device. Tensors never change.
func (r *Report) clone() *Report {
	c := *r
	c.Results = slices.Clone(r.Results)
	for i := range c.Results {
		exits := slices.Clone(c.Results[i].Exits)
		for k := range exits {
			exits[k] = exits[k].Clone()
		}
		c.Results[i].Exits = exits
	}
	return &c
}
