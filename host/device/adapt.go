// Adapt creates a Device from a driver with blocking calls.

package device

import (
	"context"
	"fmt"
	"sync"
)

// Adapter is a Device that uses a Blocking. In virtual time Begin calls the driver. The event for the end of the call
// follows after Work.Expect (if Work.Fixed is true), or after the time in the driver's report. In real time one
// goroutine runs copies, unloads and releases in order, and each launch, load and reset has its own goroutine.
//
// A launch is one segment and stops at its exit, so Abort has no effect, except that kill cancels the context. A reset
// resets the whole driver while no launch runs. So a failure that loses a partition loses the whole device.
type Adapter struct {
	b    Blocking
	info Info

	// In virtual time: the ends of calls that have been made, in order of time.
	ends []end
	ev   Event

	// The fields below are used by the goroutines.
	ctx   context.Context
	post  func(Event)
	all   sync.WaitGroup // running launches
	mu    sync.Mutex
	runs  int        // number of launches in progress
	reset bool       // a reset is running
	calm  *sync.Cond // uses mu; signals that a launch or reset has returned, or that a context has ended
	kills map[WorkID]context.CancelFunc
	slots []slotWork // copies, unloads and releases, in order
	turn  chan struct{}
}

// slotWork is a copy, an unload or a release. ctx can cancel a copy or unload; a release has no context.
type slotWork struct {
	ctx     context.Context
	work    *Work
	release RequestID
}

type end struct {
	due  Time
	kind EventKind
	work *Work
	rep  *Report
	err  error
}

// Adapt creates a device from a driver. From now on only the Adapter uses the driver.
func Adapt(b Blocking) *Adapter {
	a := &Adapter{b: b, info: b.Info(), kills: map[WorkID]context.CancelFunc{}}
	a.info.InOrder = true
	a.calm = sync.NewCond(&a.mu)
	return a
}

// Blocking returns the driver.
func (a *Adapter) Blocking() Blocking { return a.b }

// Estimates reports whether the driver is an Estimator. In real time such a driver must be paced (Pace).
func (a *Adapter) Estimates() bool {
	_, ok := a.b.(Estimator)
	return ok
}

// Prepare implements Preparer.
func (a *Adapter) Prepare(ctx context.Context, w *Work, in []Tensor) (err error) {
	defer Recover(&err)
	if w.Kind == Load {
		return a.do(ctx, w)
	}
	e, ok := a.b.(Estimator)
	if !ok {
		return nil
	}
	if err = e.Prepare(ctx, w.Network, w.Request, in); err != nil {
		return fmt.Errorf("prepare request %d for %s: %w", w.Request, a.info.Name, err)
	}
	return nil
}

// Info implements Device.
func (a *Adapter) Info() Info { return a.info }

// Release implements Device.
func (a *Adapter) Release(id RequestID) {
	if a.post == nil {
		a.b.Release(id)
		return
	}
	a.queue(slotWork{release: id})
}

// Close implements Device.
func (a *Adapter) Close() error { return a.b.Close() }

// Begin implements Device.
func (a *Adapter) Begin(ctx context.Context, now Time, w *Work) (bool, error) {
	switch {
	case a.post != nil && (w.Kind == Copy || w.Kind == Unload):
		a.queue(slotWork{ctx: a.killable(w.ID), work: w})
		return false, nil
	case a.post != nil:
		a.start(w)
		return false, nil
	}
	switch w.Kind {
	case Run:
		rep, err := a.run(ctx, w)
		took := w.Expect
		if err == nil {
			took, err = a.took(w, rep)
		} else if w.Limit > 0 && IsHang(err) {
			took = w.Limit
		}
		kind := Passed
		if err != nil {
			kind = Failed
		}
		a.ends = insert(a.ends, now+max(1, took), kind, w, rep, err)
		return false, nil
	case Reset:
		err := a.resetDriver(ctx)
		kind := Done
		if err != nil {
			kind = Failed
		}
		a.ends = insert(a.ends, now+max(1, w.Expect), kind, w, nil, err)
		return false, nil
	}
	if err := a.do(ctx, w); err != nil {
		return false, err
	}
	if w.Expect == 0 {
		return true, nil
	}
	a.ends = insert(a.ends, now+w.Expect, Done, w, nil, nil)
	return false, nil
}

// run calls Run of the driver. If launches can run concurrently, it returns a copy of the report, since the next Run
// may overwrite the report before the engine reads it.
func (a *Adapter) run(ctx context.Context, w *Work) (rep *Report, err error) {
	defer Recover(&err)
	rep, err = a.b.Run(ctx, &w.Launch)
	if err != nil && ScopeOf(err) == LosePartition {
		err = &Failure{Scope: LoseDevice, Err: err}
	}
	if rep != nil && a.info.Places > 1 {
		rep = rep.clone()
	}
	return rep, err
}

// took returns the time of a successful launch.
func (a *Adapter) took(w *Work, rep *Report) (Time, error) {
	if rep == nil {
		return w.Expect, fmt.Errorf("%w: %s gives neither a report nor an error", ErrContract, a.info.Name)
	}
	if w.Fixed {
		return w.Expect, nil
	}
	ns := rep.Ns
	if ns <= 0 && a.info.ClockHz > 0 {
		ns = int64(float64(rep.Cycles) * 1e9 / float64(a.info.ClockHz))
	}
	if ns <= 0 {
		return 1, fmt.Errorf("%w: %s reports a segment of %d ns, %d cycles", ErrContract, a.info.Name, rep.Ns, rep.Cycles)
	}
	return ns, nil
}

// do calls the driver for all work except launches and resets.
func (a *Adapter) do(ctx context.Context, w *Work) (err error) {
	defer Recover(&err)
	switch w.Kind {
	case Copy:
		in, err := w.Input()
		if err != nil {
			return err
		}
		if err := a.b.Admit(ctx, w.Network, w.Request, in); err != nil {
			return fmt.Errorf("admit request %d on %s: %w", w.Request, a.info.Name, err)
		}
		return nil
	case Load:
		return a.b.Load(ctx, As(w.Network, w.Artefact))
	case Unload:
		if u, ok := a.b.(Unloader); ok {
			return u.Unload(ctx, w.Network)
		}
		return nil // the network remains loaded, but is not used any more
	}
	return fmt.Errorf("%w: %s cannot %s", ErrRequest, a.info.Name, w.Kind)
}

// insert adds the end of a call to a list in order of time. If two ends have the same time, the call that began first
// comes first.
func insert(ends []end, due Time, kind EventKind, w *Work, rep *Report, err error) []end {
	n := len(ends)
	if n < cap(ends) {
		ends = ends[:n+1]
	} else {
		ends = append(ends, end{})
	}
	e := &ends[n] // field by field, since a literal would be built elsewhere and then copied
	e.due, e.kind, e.work, e.rep, e.err = due, kind, w, rep, err
	for i := n; i > 0 && ends[i].due < ends[i-1].due; i-- {
		ends[i], ends[i-1] = ends[i-1], ends[i]
	}
	return ends
}

// Next implements Virtual.
func (a *Adapter) Next() (Time, bool) {
	if len(a.ends) == 0 {
		return 0, false
	}
	return a.ends[0].due, true
}

// Take implements Virtual.
func (a *Adapter) Take(now Time) *Event {
	if len(a.ends) == 0 || a.ends[0].due > now {
		return nil
	}
	e := &a.ends[0]
	a.ev.Kind, a.ev.Work, a.ev.Over, a.ev.Report, a.ev.Err = e.kind, e.work.ID, true, e.rep, e.err
	if e.work.Kind == Run {
		a.ev.Segment = e.work.Launch.Last
	}
	if len(a.ends) == 1 {
		a.ends = a.ends[:0]
	} else {
		a.ends = a.ends[:copy(a.ends, a.ends[1:])]
	}
	return &a.ev
}

// Abort implements Device.
func (a *Adapter) Abort(_ Time, id WorkID, kill bool) {
	if a.post == nil || !kill {
		return
	}
	a.mu.Lock()
	cancel := a.kills[id]
	a.mu.Unlock()
	if cancel != nil {
		cancel()
	}
}

// Attach implements Real.
func (a *Adapter) Attach(ctx context.Context, post func(Event)) <-chan struct{} {
	a.ctx, a.post = ctx, post
	a.turn = make(chan struct{}, 1)
	gone := make(chan struct{})
	a.all.Go(a.memory)
	go func() {
		<-ctx.Done()
		a.all.Wait()
		close(gone)
	}()
	return gone
}

// queue queues a copy, an unload or a release.
func (a *Adapter) queue(s slotWork) {
	a.mu.Lock()
	a.slots = append(a.slots, s)
	a.mu.Unlock()
	select {
	case a.turn <- struct{}{}:
	default:
	}
}

// memory makes the queued calls in order until the context ends. After that it makes only the remaining releases.
func (a *Adapter) memory() {
	var list []slotWork
	for over := false; !over; {
		select {
		case <-a.turn:
		case <-a.ctx.Done():
			over = true
		}
		a.mu.Lock()
		list, a.slots = a.slots, list[:0]
		a.mu.Unlock()
		for _, s := range list {
			if s.work == nil {
				a.b.Release(s.release)
				continue
			}
			ev := Event{Kind: Done, Work: s.work.ID, Over: true}
			if ev.Err = s.ctx.Err(); ev.Err == nil {
				ev.Err = a.do(s.ctx, s.work)
			}
			a.tell(ev)
		}
	}
}

// start runs work on its own goroutine.
func (a *Adapter) start(w *Work) {
	ctx := a.killable(w.ID)
	ev := Event{Kind: Done, Work: w.ID, Over: true}
	if w.Kind == Run {
		a.mu.Lock()
		a.runs++
		a.mu.Unlock()
	}
	a.all.Go(func() {
		switch w.Kind {
		case Run:
			ev.Kind, ev.Segment = Passed, w.Launch.Last
			ev.Report, ev.Err = a.run(ctx, w)
			if ev.Err == nil && ev.Report == nil {
				_, ev.Err = a.took(w, nil)
			}
			a.mu.Lock()
			a.runs--
			a.mu.Unlock()
			a.calm.Broadcast()
		case Reset:
			ev.Err = a.recover(ctx)
		default:
			ev.Err = a.do(ctx, w)
		}
		a.tell(ev)
	})
}

// killable returns a context for work that Abort may cancel.
func (a *Adapter) killable(id WorkID) context.Context {
	ctx, cancel := context.WithCancel(a.ctx)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.kills[id] = cancel
	return ctx
}

// tell posts the end of work. After this no goroutine may read the work.
func (a *Adapter) tell(ev Event) {
	if ev.Err != nil {
		ev.Kind = Failed
	}
	a.mu.Lock()
	cancel := a.kills[ev.Work]
	delete(a.kills, ev.Work)
	a.mu.Unlock()
	cancel()
	a.post(ev)
}

// recover resets the driver. It first waits until abandoned launches and an abandoned reset have returned.
func (a *Adapter) recover(ctx context.Context) error {
	defer context.AfterFunc(ctx, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.calm.Broadcast()
	})()
	a.mu.Lock()
	defer a.mu.Unlock()
	for (a.runs > 0 || a.reset) && ctx.Err() == nil {
		a.calm.Wait()
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("reset %s: %w", a.info.Name, err)
	}
	a.reset = true
	a.mu.Unlock()
	err := a.resetDriver(ctx)
	a.mu.Lock()
	a.reset = false
	a.calm.Broadcast()
	return err
}

func (a *Adapter) resetDriver(ctx context.Context) (err error) {
	defer Recover(&err)
	return a.b.Reset(ctx)
}
