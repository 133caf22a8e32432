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
	v    Virtual
	post func(Event)
	wake chan struct{}

	mu    sync.Mutex
	start time.Time // when the run's clock stood at 0
	at    Time      // the latest that the device was told
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
	return p.v.Begin(ctx, p.catchUp(now), w)
}

// Abort implements Device.
func (p *Paced) Abort(now Time, id WorkID, kill bool) {
	defer p.changed()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.v.Abort(p.catchUp(now), id, kill)
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

// catchUp posts what was due before now, and is the time at which the device stands then.
func (p *Paced) catchUp(now Time) Time {
	if p.start.IsZero() {
		p.start = time.Now().Add(-time.Duration(now))
	}
	p.drain(now)
	p.at = max(p.at, now)
	return p.at
}

// drain posts what is due by now.
func (p *Paced) drain(now Time) {
	for {
		due, ok := p.v.Next()
		if !ok || due > now {
			return
		}
		p.at = max(p.at, due) // by its own clock: one that is asked late must not take that for time it had
		for e := p.v.Take(p.at); e != nil; e = p.v.Take(p.at) {
			p.post(e.clone())
		}
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
	p.post = post
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		timer := time.NewTimer(time.Hour)
		defer timer.Stop()
		for {
			timer.Reset(p.turn())
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
func (p *Paced) turn() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.start.IsZero() {
		return time.Hour
	}
	p.drain(time.Since(p.start).Nanoseconds())
	due, ok := p.v.Next()
	if !ok {
		return time.Hour
	}
	return time.Duration(due) - time.Since(p.start)
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
