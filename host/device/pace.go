// Pace: a device that knows virtual time alone, in real time.

package device

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Paced runs a virtual device by the clock: its events come when they are due.
type Paced struct {
	v Virtual

	mu    sync.Mutex
	start time.Time // when the run's clock stood at 0
	wake  chan struct{}
}

// Pace makes a real device of a virtual one.
func Pace(v Virtual) *Paced { return &Paced{v: v, wake: make(chan struct{}, 1)} }

// Info implements Device.
func (p *Paced) Info() Info { return p.v.Info() }

// Begin implements Device.
func (p *Paced) Begin(ctx context.Context, now Time, w *Work) (bool, error) {
	defer p.changed()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.set(now)
	return p.v.Begin(ctx, now, w)
}

// Abort implements Device.
func (p *Paced) Abort(now Time, id WorkID, kill bool) {
	defer p.changed()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.set(now)
	p.v.Abort(now, id, kill)
}

// Release implements Device.
func (p *Paced) Release(id RequestID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.v.Release(id)
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

// set learns the run's clock.
func (p *Paced) set(now Time) {
	if p.start.IsZero() {
		p.start = time.Now().Add(-time.Duration(now))
	}
}

// changed lets the next event be asked for anew.
func (p *Paced) changed() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// Attach implements Real.
func (p *Paced) Attach(ctx context.Context, post func(Event)) <-chan struct{} {
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		timer := time.NewTimer(time.Hour)
		defer timer.Stop()
		for {
			wait := p.turn(post)
			timer.Reset(wait)
			select {
			case <-ctx.Done():
				return
			case <-p.wake:
			case <-timer.C:
			}
		}
	}()
	return gone
}

// turn posts what is due and says how long to wait for more.
func (p *Paced) turn(post func(Event)) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		due, ok := p.v.Next()
		if !ok {
			return time.Hour
		}
		if wait := time.Duration(due) - time.Since(p.start); wait > 0 {
			return wait
		}
		// By its own clock: a device that is asked late must not take that for time it had.
		for e := p.v.Take(due); e != nil; e = p.v.Take(due) {
			post(e.clone())
		}
	}
}

// clone is an event that shares nothing with the device.
func (e *Event) clone() Event {
	c := *e
	if e.Report != nil {
		r := *e.Report
		r.Results = slices.Clone(r.Results)
		for i := range r.Results {
			r.Results[i].Exits = slices.Clone(r.Results[i].Exits)
		}
		c.Report = &r
	}
	return c
}
