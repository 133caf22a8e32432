// This file begins work on devices and handles the events of devices.

package engine

import (
	"errors"
	"fmt"
	"slices"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/sched"
)

// begin runs the segment after the exit reached. A device that continues past exits by itself (Info.Through) runs all
// segments up to Last.
func (c *core) begin(l *launch) {
	d := l.on
	s := l.Reached + 1
	if s == l.First && l.Phase != sched.Halted {
		waited := Time(0)
		if l.Phase == sched.Running && d.running == 0 { // the device was idle while the inputs were copied
			waited = c.now - max(l.Since, d.freed)
		}
		c.admission.copied(waited, len(l.reqs))
	}
	l.Phase, l.began, l.Since = sched.Running, c.now, c.now
	c.works++
	w := &l.work
	w.ID, w.Kind = c.works, device.Run
	j := &w.Launch
	j.First, j.Last, j.Kernel = s, s, l.Kernel
	if d.info.Through {
		j.Last = l.Last
	}
	l.Kernel = 0
	if !l.listed || l.seen.Thetas != nil {
		l.list()
	}
	t := l.table
	if l.width > 0 {
		t = t.On(l.width)
	}
	w.Expect, w.Fixed = t.At(s, j.Last, len(l.reqs)), c.cfg.Clock == Table
	w.Limit = c.cfg.Watchdog.Limit(w.Expect)
	j.Limit = w.Limit
	l.hold()
	if _, err := d.begin(c.ctx, c.now, w); err != nil {
		c.fails = append(c.fails, failed{l, err})
		return
	}
	c.seq++
	d.seq = c.seq
	if d.running == 0 {
		d.since = c.now
	}
	d.running++
	l.busy, l.killed, l.second, l.seenAt = true, false, false, 0
	l.limit = c.now + w.Limit
	d.watch = min(d.watch, l.limit)
}

// list writes the requests of a launch and their thresholds into its work. If no threshold depends on the exit, the
// list stays valid for further segments until a request joins or leaves.
func (l *launch) list() {
	j, most := &l.work.Launch, l.seen.Thetas
	j.Requests, j.Theta = j.Requests[:0], j.Theta[:0]
	l.listed = j.First == j.Last && most == nil
	for _, r := range l.reqs {
		j.Requests = append(j.Requests, r.ID)
		l.listed = l.listed && r.Thetas == nil
		for k := j.First; k <= j.Last; k++ {
			theta := r.ThetaAt(k)
			if most != nil {
				theta = min(theta, most[k])
			}
			j.Theta = append(j.Theta, theta)
		}
	}
}

// halt records that the work of a launch has ended.
func (c *core) halt(l *launch) {
	if !l.busy {
		l.unhold()
		return
	}
	d := l.on
	l.busy = false
	l.unhold()
	d.stale = true // the limit of this work is not valid any more
	if d.running--; d.running == 0 {
		d.watch = never
		if len(c.jobs) > 0 {
			c.rewatch(l.Device)
		}
		c.res.Busy[l.Device] += c.now - d.since
		d.freed = c.now
		return
	}
	c.rewatch(l.Device)
}

// answer handles an event of a device. It ignores events of abandoned work.
func (c *core) answer(d *dev, ev *device.Event) error {
	for _, list := range [2][]*launch{c.live, c.doom} {
		for _, l := range list {
			if l.busy && l.work.ID == ev.Work && l.on == d {
				return c.progress(l, ev)
			}
		}
	}
	for i, j := range c.jobs {
		if j.work.ID == ev.Work && j.dev == d.at {
			c.leaveJob(i, false)
			var err error
			switch {
			case ev.Kind == device.Failed && ev.Err != nil:
				err = ev.Err
			case ev.Kind != device.Done:
				err = fmt.Errorf("%w: %s answers a %s with %s", ErrDevice, d.info.Name, j.work.Kind, ev.Kind)
			}
			return c.jobDone(j, err, ev.Took)
		}
	}
	return nil
}

// progress handles an event of the work of a launch.
func (c *core) progress(l *launch, ev *device.Event) error {
	s := l.Reached + 1
	if ev.Kind != device.Passed {
		return c.stopped(l, ev, s)
	}
	if err := c.contract(l, ev, s); err != nil {
		return c.failed(l, ev, s, err)
	}
	took := c.now - l.began
	if ev.Over {
		c.halt(l)
	}
	c.ran(l, s, toExit)
	l.began = c.now // start of the next segment, if the launch continues
	switch {
	case l.doomed == nil:
	case ev.Over:
		return c.landLaunch(l)
	default:
		return nil // the results are lost in any case
	}
	c.admission.ran(took, l.table.At(s, s, len(l.reqs)))
	c.res.Cycles += ev.Report.Cycles
	add(&c.res.Stats, &ev.Report.Stats)

	l.Reached, l.Since = s, c.now
	switch {
	case !ev.Over: // the launch continues
	case l.Phase == sched.Stopping:
		l.Phase = sched.Halted
	default:
		l.Phase = sched.AtExit
	}
	before := len(l.reqs)
	kept := c.passed(l, ev, s)
	exited := before - kept
	if ev.Over && kept > 0 {
		kept = c.stopLate(l)
	}
	if kept == 0 {
		c.left = true
	} else if ev.Over {
		c.atExit = l
	}
	e := &c.ev
	e.Kind, e.Device, e.Request, e.Launch, e.Segment, e.Exited, e.Took = sched.SegmentDone, l.Device, 0, l.ID, s, exited, took
	return c.ask()
}

// passed handles a launch at the exit of segment s, and returns the number of requests that stay in the launch.
func (c *core) passed(l *launch, ev *device.Event, s int) (kept int) {
	for i, r := range l.reqs {
		res := &ev.Report.Results[i]
		if !r.inFlight {
			c.pass(l, r, s, res.Taken >= 0)
			if k := r.task.ticket; k != nil {
				k.passed(r, s, res.Exits, c.now)
			}
		}
		if res.Taken < 0 && (!r.inFlight || !ev.Over) { // the slot of an ended request is in use until the work ends
			if kept < i { // requests are large, so they are moved only if an earlier request has left
				l.reqs[kept], l.Requests[kept] = r, l.Requests[i]
			}
			kept++
			continue
		}
		r.launch = nil
		c.release(r)
		if r.inFlight {
			c.landed(r)
			continue
		}
		c.finish(l, r, res.Taken, res.Exits)
	}
	if kept < len(l.reqs) {
		l.reqs, l.Requests, l.listed = l.reqs[:kept], l.Requests[:kept], false
	}
	return kept
}

// fate is the way in which a segment ends.
type fate uint8

const (
	toExit fate = iota
	inFailure
	inAbort
)

// ran records that a launch has run segment s.
func (c *core) ran(l *launch, s int, how fate) {
	if c.traced {
		c.trace(l, s, how)
	}
	c.res.Segments++
	c.res.Samples[s] += int64(len(l.reqs))
}

func (c *core) trace(l *launch, s int, how fate) {
	c.span(Span{Device: l.Device, Launch: l.ID, Network: l.Network, Segment: s, Start: l.began, End: c.now, Failed: how == inFailure, Aborted: how == inAbort}, l.reqs)
}

// stopped records that the work of a launch ended before the next exit.
func (c *core) stopped(l *launch, ev *device.Event, s int) error {
	err := ev.Err
	switch {
	case ev.Kind == device.Aborted:
		err = nil
		if r := ev.Resume; r.Segment != s || r.Kernel < 0 || l.Phase != sched.Stopping && l.doomed == nil && !c.shut {
			err = fmt.Errorf("%w: %s stops launch %d at segment %d, kernel %d, where segment %d runs", ErrDevice, c.devs[l.Device].info.Name, l.ID, r.Segment, r.Kernel, s)
		}
	case err == nil:
		err = fmt.Errorf("%w: %s answers a launch with %s", ErrDevice, c.devs[l.Device].info.Name, ev.Kind)
	}
	if l.killed { // only the watchdog sets killed
		err = c.killed(l, err)
	}
	if err != nil {
		return c.failed(l, ev, s, err)
	}
	c.halt(l)
	c.ran(l, s, inAbort)
	if l.doomed != nil {
		return c.landLaunch(l)
	}
	return c.aborted(l, ev)
}

// failed records that a launch has failed in segment s.
func (c *core) failed(l *launch, ev *device.Event, s int, err error) error {
	c.halt(l)
	c.ran(l, s, inFailure)
	switch {
	case l.doomed != nil:
		return c.landLaunch(l)
	case ev.Kind == device.Passed && !ev.Over: // the work still runs, but its results are useless
		c.devs[l.Device].abort(c.now, l.work.ID, true)
	}
	return c.fault(l, err)
}

// pass counts a request that reached an exit. "left" reports whether the request left the launch there.
func (c *core) pass(l *launch, r *request, exit int, left bool) {
	l.seen.Pass(exit, left)
	if r.home != nil {
		r.seen.Pass(exit, left)
	}
}

// aborted records that a launch was stopped inside a segment.
func (c *core) aborted(l *launch, ev *device.Event) error {
	l.Phase, l.Since, l.Kernel = sched.Halted, c.now, ev.Resume.Kernel
	c.freeFlown(l)
	return c.tell(sched.Event{Kind: sched.Aborted, Device: l.Device, Launch: l.ID, Took: ev.Took})
}

// freeFlown frees the requests in a launch if the requests ended while the launch ran.
func (c *core) freeFlown(l *launch) {
	kept := 0
	for i, r := range l.reqs {
		if r.inFlight && !r.copying {
			r.launch = nil
			c.release(r)
			c.landed(r)
			continue
		}
		l.reqs[kept], l.Requests[kept] = r, l.Requests[i]
		kept++
	}
	l.reqs, l.Requests, l.listed = l.reqs[:kept], l.Requests[:kept], false
	c.left = c.left || kept == 0
}

// contract returns an error if a device's report does not fit the launch.
func (c *core) contract(l *launch, ev *device.Event, s int) error {
	rep := ev.Report
	if rep == nil {
		return fmt.Errorf("%w: %s gives neither a report nor an error", ErrDevice, l.on.info.Name)
	}
	if ev.Segment != s || s > l.work.Launch.Last {
		return fmt.Errorf("%w: %s passes exit %d in segment %d", ErrDevice, l.on.info.Name, ev.Segment, s)
	}
	if len(rep.Results) != len(l.reqs) {
		return fmt.Errorf("%w: %s reports %d results for a batch of %d", ErrDevice, l.on.info.Name, len(rep.Results), len(l.reqs))
	}
	last, stay := s == l.table.Segments()-1, false
	for i, r := range l.reqs {
		res := &rep.Results[i]
		switch {
		case res.Request != r.ID:
			return fmt.Errorf("%w: %s reports request %d in place of %d", ErrDevice, l.on.info.Name, res.Request, r.ID)
		case res.Taken < 0 && last:
			return fmt.Errorf("%w: %s leaves request %d in the batch after the last exit", ErrDevice, l.on.info.Name, res.Request)
		case res.Taken < 0:
			stay = true
		case res.Taken != s || exitResult(res.Exits, s) == nil:
			return fmt.Errorf("%w: %s lets request %d take exit %d in segment %d", ErrDevice, l.on.info.Name, res.Request, res.Taken, s)
		}
	}
	if !ev.Over && (s == l.work.Launch.Last || !stay) {
		return fmt.Errorf("%w: %s continues after exit %d without requests, or past its last segment", ErrDevice, l.on.info.Name, s)
	}
	return nil
}

func exitResult(exits []device.ExitResult, exit int) *device.ExitResult {
	for i := range exits {
		if exits[i].Exit == exit {
			return &exits[i]
		}
	}
	return nil
}

// jobDone handles the end of a copy, a load or a reset.
func (c *core) jobDone(j *job, err error, took Time) error {
	switch j.work.Kind {
	case device.Copy:
		r := j.req
		c.span(Span{Device: j.dev, Segment: -1, What: "copy", Start: j.began, End: c.now, Failed: err != nil}, []*request{r})
		j.req = nil
		c.spareJobs.give(j)
		return c.copied(r, err, took)
	case device.Reset:
		c.span(Span{Device: j.dev, Segment: -1, Start: j.began, End: c.now, Failed: err != nil}, nil)
		return c.recovered(j.dev, j.out, err)
	}
	v := &c.st.Devices[j.dev]
	if j.of != nil {
		c.carried(j, err)
	}
	c.span(Span{Device: j.dev, Segment: -1, What: j.work.Kind.String(), Start: j.began, End: c.now, Failed: err != nil}, nil)
	if err != nil {
		if j.work.Kind == device.Unload { // the network is still loaded
			v.Hosted = append(v.Hosted, j.net.hosted(j.dev))
		}
		c.countFault(&Fault{At: c.now, Device: j.dev, Scope: device.LoseLaunch, Err: err})
		return c.tell(sched.Event{Kind: sched.Fault, Device: j.dev})
	}
	if j.work.Kind == device.Load {
		v.Hosted = slices.DeleteFunc(v.Hosted, func(h sched.Hosted) bool { return h.Network == j.net.Name })
		v.Hosted = append(v.Hosted, j.net.hosted(j.dev))
	}
	return c.tell(sched.Event{Kind: sched.Loaded, Device: j.dev, Took: c.now - j.began})
}

// copied records that a request's input is on its device, or that the copy failed.
func (c *core) copied(r *request, err error, took Time) error {
	l := r.launch
	r.copying = false
	c.logCopy(err)
	if l != nil {
		r.Network = l.Network
	}
	switch {
	case err != nil && c.ill(err):
		return c.illCopy(r, err)
	case r.inFlight:
		if l != nil {
			c.leave(l, r)
		}
		c.release(r)
		c.landed(r)
	case err != nil:
		if l != nil {
			c.leave(l, r)
		} else {
			c.unqueue(r)
		}
		c.release(r)
		c.end(r, Errored, err.Error(), nil)
	case l == nil:
		return c.tell(sched.Event{Kind: sched.Copied, Device: r.dev, Request: r.ID, Took: took})
	}
	if l == nil {
		return c.tell(sched.Event{Kind: sched.Fault})
	}
	if l.Copying--; l.Copying > 0 {
		return nil
	}
	if l.doomed != nil {
		return c.landLaunch(l)
	}
	return c.ready(l)
}

// logCopy logs the panic of a driver. The panic of an input function was logged before.
func (c *core) logCopy(err error) {
	if _, bad := errors.AsType[*inputError](err); !bad {
		c.cfg.logPanic("a copy", err)
	}
}

// ready begins a launch whose inputs have been copied.
func (c *core) ready(l *launch) error {
	switch {
	case len(l.reqs) == 0:
		l.unhold()
		l.Phase, c.left = sched.AtExit, true
		return c.tell(sched.Event{Kind: sched.Fault, Device: l.Device})
	case l.Phase == sched.Stopping: // preempted before it began to run
		l.unhold()
		l.Phase, l.Since = sched.Halted, c.now
		return c.tell(sched.Event{Kind: sched.Aborted, Device: l.Device, Launch: l.ID})
	}
	c.begin(l)
	if len(c.fails) > 0 {
		return c.refused()
	}
	return nil
}

func add(a, b *device.Stats) {
	a.Cycles, a.MACCycles, a.MACs = a.Cycles+b.Cycles, a.MACCycles+b.MACCycles, a.MACs+b.MACs
	a.BytesRead, a.BytesWritten, a.Starts = a.BytesRead+b.BytesRead, a.BytesWritten+b.BytesWritten, a.Starts+b.Starts
}
