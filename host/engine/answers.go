// What devices answer, and how work on them begins.

package engine

import (
	"fmt"
	"slices"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/sched"
)

// begin runs the segment after the exit reached; on a device that goes through its exits by itself,
// all up to Last.
func (c *core) begin(l *launch) {
	d := l.on
	s := l.Reached + 1
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
	j.Requests, j.Theta = j.Requests[:0], j.Theta[:0]
	most := l.seen.Thetas
	for _, r := range l.reqs {
		j.Requests = append(j.Requests, r.ID)
		for k := s; k <= j.Last; k++ {
			theta := r.ThetaAt(k)
			if most != nil {
				theta = min(theta, most[k])
			}
			j.Theta = append(j.Theta, theta)
		}
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
	l.busy, l.killed, l.seenAt = true, false, 0
	l.limit = c.now + w.Limit
	d.watch = min(d.watch, l.limit)
}

// halt takes in that a launch's work is over.
func (c *core) halt(l *launch) {
	if !l.busy {
		l.unhold()
		return
	}
	d := l.on
	l.busy = false
	l.unhold()
	d.stale = true // its limit is gone
	if d.running--; d.running == 0 {
		d.watch = never
		if len(c.jobs) > 0 {
			c.rewatch(l.Device)
		}
		c.res.Busy[l.Device] += c.now - d.since
		return
	}
	c.rewatch(l.Device)
}

// answer takes in what a device says of work. Of work that has been given up it may say what it likes.
func (c *core) answer(dev int, ev *device.Event) error {
	for _, l := range c.live {
		if l.busy && l.work.ID == ev.Work && l.Device == dev {
			return c.progress(l, ev)
		}
	}
	for _, l := range c.doom {
		if l.busy && l.work.ID == ev.Work && l.Device == dev {
			return c.progress(l, ev)
		}
	}
	for i, j := range c.jobs {
		if j.work.ID == ev.Work && j.dev == dev {
			c.leaveJob(i, false)
			var err error
			switch {
			case ev.Kind == device.Failed && ev.Err != nil:
				err = ev.Err
			case ev.Kind != device.Done:
				err = fmt.Errorf("%w: %s answers a %s with %s", ErrDevice, c.devs[dev].info.Name, j.work.Kind, ev.Kind)
			}
			return c.jobDone(j, err, ev.Took)
		}
	}
	return nil
}

// progress takes in what has come of a launch's work.
func (c *core) progress(l *launch, ev *device.Event) error {
	s, rep, err, gone := l.Reached+1, ev.Report, error(nil), 0
	over := ev.Over || ev.Kind != device.Passed
	e := &c.ev // filled in early: what is copied right after it was written is copied slowly
	e.Kind, e.Device, e.Request, e.Launch, e.Segment, e.Took = sched.SegmentDone, l.Device, 0, l.ID, s, c.now-l.began
	switch ev.Kind {
	case device.Passed:
		gone, err = c.contract(l, ev, s)
		e.Exited = gone
	case device.Aborted:
		if r := ev.Resume; r.Segment != s || r.Kernel < 0 || l.Phase != sched.Stopping && l.doomed == nil && !c.shut {
			err = fmt.Errorf("%w: %s stops launch %d at segment %d, kernel %d, where segment %d runs", ErrDevice, c.devs[l.Device].info.Name, l.ID, r.Segment, r.Kernel, s)
		}
	default:
		if err = ev.Err; err == nil {
			err = fmt.Errorf("%w: %s answers a launch with %s", ErrDevice, c.devs[l.Device].info.Name, ev.Kind)
		}
	}
	began := l.began
	if l.killed && ev.Kind != device.Passed { // by the watchdog alone
		err = c.killed(l, err)
	}
	l.began = c.now
	if over || err != nil {
		c.halt(l)
	}
	if c.traces() {
		c.span(Span{Device: l.Device, Launch: l.ID, Segment: s, Start: began, End: c.now, Failed: err != nil, Aborted: err == nil && ev.Kind == device.Aborted}, l.reqs)
	}
	c.res.Segments++
	c.res.Samples[s] += int64(len(l.reqs))
	switch {
	case l.doomed != nil:
		if over || err != nil {
			return c.landLaunch(l)
		}
		return nil // its results are lost anyway
	case err != nil:
		if !over && ev.Kind == device.Passed { // it runs on, for nobody
			c.devs[l.Device].abort(c.now, l.work.ID, true)
		}
		return c.fault(l, err)
	case ev.Kind == device.Aborted:
		return c.aborted(l, ev)
	}
	c.res.Cycles += rep.Cycles
	add(&c.res.Stats, &rep.Stats)

	l.Reached, l.Since = s, c.now
	switch {
	case !over: // it runs on
	case l.Phase == sched.Stopping:
		l.Phase = sched.Halted
	default:
		l.Phase = sched.AtExit
	}
	before, kept := len(l.reqs), 0
	for i, r := range l.reqs {
		taken := rep.Results[i].Taken
		if !r.inFlight {
			c.pass(l, r, s, taken >= 0)
			if taken < 0 {
				if kept < i { // a request is large, and mostly nobody in front of it has left
					l.reqs[kept], l.Requests[kept] = r, l.Requests[i]
				}
				kept++
				continue
			}
		}
		if r.inFlight && !over && taken < 0 { // its slot is in use
			if kept < i {
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
		c.finish(l, r, taken, rep.Results[i].Exits)
	}
	l.reqs, l.Requests = l.reqs[:kept], l.Requests[:kept]
	c.left = c.left || kept == 0
	if before-kept != gone { // some had ended before
		e.Exited = before - kept
	}
	return c.ask()
}

// pass counts that a request has come to an exit.
func (c *core) pass(l *launch, r *request, exit int, left bool) {
	l.seen.Pass(exit, left)
	if r.home != nil {
		c.traffic(r.home.name).Pass(exit, left)
	}
}

// aborted takes in that a launch has been stopped inside a segment.
func (c *core) aborted(l *launch, ev *device.Event) error {
	l.Phase, l.Since, l.Kernel = sched.Halted, c.now, ev.Resume.Kernel
	c.freeFlown(l)
	return c.tell(sched.Event{Kind: sched.Aborted, Device: l.Device, Launch: l.ID, Took: ev.Took})
}

// freeFlown frees those of a launch that have ended meanwhile.
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
	l.reqs, l.Requests = l.reqs[:kept], l.Requests[:kept]
	c.left = c.left || kept == 0
}

// contract checks a report against what was asked for, and counts who leaves.
func (c *core) contract(l *launch, ev *device.Event, s int) (left int, err error) {
	name, rep := l.on.info.Name, ev.Report
	if rep == nil {
		return 0, fmt.Errorf("%w: %s gives neither a report nor an error", ErrDevice, name)
	}
	if ev.Segment != s || ev.Segment > l.work.Launch.Last {
		return 0, fmt.Errorf("%w: %s passes exit %d in segment %d", ErrDevice, name, ev.Segment, s)
	}
	if len(rep.Results) != len(l.reqs) {
		return 0, fmt.Errorf("%w: %s reports %d results for a batch of %d", ErrDevice, name, len(rep.Results), len(l.reqs))
	}
	last := s == l.table.Segments()-1
	for i := range rep.Results {
		res := &rep.Results[i]
		switch {
		case res.Request != l.reqs[i].ID:
			return 0, fmt.Errorf("%w: %s reports request %d in place of %d", ErrDevice, name, res.Request, l.reqs[i].ID)
		case last && res.Taken < 0:
			return 0, fmt.Errorf("%w: %s leaves request %d in the batch after the last exit", ErrDevice, name, res.Request)
		case res.Taken >= 0 && (res.Taken != s || exitResult(res.Exits, s) == nil):
			return 0, fmt.Errorf("%w: %s lets request %d take exit %d in segment %d", ErrDevice, name, res.Request, res.Taken, s)
		case res.Taken >= 0:
			left++
		}
	}
	if !ev.Over && (s == l.work.Launch.Last || left == len(rep.Results)) {
		return 0, fmt.Errorf("%w: %s runs on behind exit %d with nobody left, or nothing", ErrDevice, name, s)
	}
	return left, nil
}

func exitResult(exits []device.ExitResult, exit int) *device.ExitResult {
	for i := range exits {
		if exits[i].Exit == exit {
			return &exits[i]
		}
	}
	return nil
}

// jobDone takes in the end of a copy, a load or a reset.
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
	c.span(Span{Device: j.dev, Segment: -1, What: j.work.Kind.String(), Start: j.began, End: c.now, Failed: err != nil}, nil)
	if err != nil {
		if j.work.Kind == device.Unload { // it is where it was
			v.Hosted = append(v.Hosted, j.net.hosted(j.dev))
		}
		c.heard(&Fault{At: c.now, Device: j.dev, Scope: device.LoseLaunch, Err: err})
		return c.tell(sched.Event{Kind: sched.Fault, Device: j.dev})
	}
	if j.work.Kind == device.Load {
		v.Hosted = slices.DeleteFunc(v.Hosted, func(h sched.Hosted) bool { return h.Network == j.net.Name })
		v.Hosted = append(v.Hosted, j.net.hosted(j.dev))
	}
	return c.tell(sched.Event{Kind: sched.Loaded, Device: j.dev, Took: c.now - j.began})
}

// copied takes in that a request's input is on its device, or could not be put there.
func (c *core) copied(r *request, err error, took Time) error {
	l := r.launch
	r.copying = false
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
	if l.copies--; l.copies > 0 {
		return nil
	}
	if l.doomed != nil {
		return c.landLaunch(l)
	}
	return c.ready(l)
}

// ready begins a launch whose inputs are there.
func (c *core) ready(l *launch) error {
	switch {
	case len(l.reqs) == 0:
		l.unhold()
		l.Phase, c.left = sched.AtExit, true
		return c.tell(sched.Event{Kind: sched.Fault, Device: l.Device})
	case l.Phase == sched.Stopping: // before anything of it ran
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
