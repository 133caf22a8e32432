// Simulate creates a device in virtual time from a model of running launches.

package device

import (
	"context"
	"fmt"
)

// Simulator models how launches run on a device. Simulate creates a Device from a Simulator.
type Simulator interface {
	Info() Info
	// Start begins the work of a launch. The simulator may read the work until End.
	Start(now Time, w *Work)
	// Next returns the time at which a launch ends or passes an exit, if no other launch starts before; false: never.
	Next() (Time, bool)
	// End is called at the time that Next returned. It returns the event of this time. Work.Passed creates the event
	// for a launch that has ended.
	End(now Time) *Event
}

// Resetter is a Simulator that supports resets. If a launch takes too long, the launch is abandoned and its later
// events are ignored. After a reset the lost launches start again. A Simulator without Reset never ends an abandoned
// launch, so it is only suitable for runs without hangs.
type Resetter interface {
	Simulator
	// Reset resets units (empty: all units) at "now". Launches on these units end without a call of End.
	Reset(now Time, units Units)
}

// Simulated is a Device that uses a Simulator. Copies, loads, unloads and resets take their expected time (0 if it is
// unknown). During a reset, launches on other units continue. A launch stops only at exits, so Abort has no
// effect.
type Simulated struct {
	s    Simulator
	info Info
	ends []end // ends of all work except launches, in order of time
	ev   Event
}

// Simulate creates a device from a simulator.
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

// Passed creates the event of a launch that has passed its last exit. "show" returns a request's result; Passed sets
// the result's Exit. A request leaves if its confidence reaches its threshold. If last is true, all requests leave.
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
