// Simulate: a device of an author who knows how launches run, in virtual time.

package device

import (
	"context"
	"fmt"
)

// Simulator is how launches run on a device, and nothing else: Simulate makes a Device of it.
type Simulator interface {
	Info() Info
	// Start begins a launch's work. It is the simulator's to read until End.
	Start(now Time, w *Work)
	// Next is when a launch ends, or passes an exit, if none is started until then; false: never.
	Next() (Time, bool)
	// End is what happens at the time that Next has told; it is called then alone. Passed makes the event
	// of a launch that has come to its end.
	End(now Time) *Event
}

// Resetter is a Simulator that is told of resets. A launch that took too long is given up: what the
// simulator still reports of it is ignored, and what its device has lost begins again after a reset. A Simulator
// without Reset keeps running such launches, and is only for runs in which nothing hangs.
type Resetter interface {
	Simulator
	// Reset begins now: what still runs on these units (none: on the device) is gone, and has no End.
	Reset(now Time, units Units)
}

// Simulated is a Simulator as a Device. Copies, loads and unloads take what is expected of them, nothing
// where that is not known; a reset takes what is expected, and beside it goes on what runs elsewhere. It
// lets go at exits alone: Abort ends nothing.
type Simulated struct {
	s    Simulator
	info Info
	ends []end // of what is no launch, in order
	ev   Event
}

// Simulate makes a device.
func Simulate(s Simulator) *Simulated { return &Simulated{s: s, info: s.Info()} }

// Info implements Device.
func (d *Simulated) Info() Info { return d.info }

// Begin implements Device.
func (d *Simulated) Begin(_ context.Context, now Time, w *Work) (bool, error) {
	switch {
	case w.Kind == Run:
		d.s.Start(now, w)
	case w.Kind > Reset:
		return false, fmt.Errorf("%w: %s cannot %s", ErrRequest, d.info.Name, w.Kind)
	case w.Kind != Reset && w.Expect == 0:
		return true, nil
	default:
		if r, ok := d.s.(Resetter); ok && w.Kind == Reset {
			r.Reset(now, w.Units)
		}
		d.ends = insert(d.ends, now+max(1, w.Expect), Done, w, nil, nil)
	}
	return false, nil
}

// Next implements Virtual.
func (d *Simulated) Next() (Time, bool) {
	due, ok := d.s.Next()
	if len(d.ends) > 0 && (!ok || d.ends[0].due < due) {
		return d.ends[0].due, true
	}
	return due, ok
}

// Take implements Virtual.
func (d *Simulated) Take(now Time) *Event {
	due, ok := d.Next()
	switch {
	case !ok || due > now:
		return nil
	case len(d.ends) > 0 && d.ends[0].due == due:
		d.ev = Event{Kind: Done, Work: d.ends[0].work.ID, Over: true}
		d.ends = d.ends[:copy(d.ends, d.ends[1:])]
		return &d.ev
	}
	return d.s.End(due)
}

// Abort, Release and Close implement Device.
func (*Simulated) Abort(Time, WorkID, bool) {}
func (*Simulated) Release(RequestID)        {}
func (*Simulated) Close() error             { return nil }

// Passed is the event of a launch that has passed the exit of its last segment. Each of its requests
// shows what show says (Exit is filled in), and leaves where its confidence reaches its threshold, or
// where the exit is the network's last.
func (w *Work) Passed(last bool, show func(id RequestID) ExitResult) *Event {
	l := &w.Launch
	rep := &Report{Results: make([]Result, len(l.Requests))}
	for i, id := range l.Requests {
		e := show(id)
		e.Exit = l.Last
		rep.Results[i] = Result{Request: id, Exits: []ExitResult{e}, Taken: -1}
		if last || e.Confidence >= l.ThetaAt(i, l.Last) {
			rep.Results[i].Taken = l.Last
		}
	}
	return &Event{Kind: Passed, Work: w.ID, Over: true, Segment: l.Last, Report: rep}
}
