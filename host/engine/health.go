// This file handles failures, hangs and resets: lost work, requests that start again, and the time of a reset.

package engine

import (
	"errors"
	"fmt"
	"slices"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/sched"
)

// countFault counts a fault and reports it to the observer.
func (c *core) countFault(f *Fault) {
	c.res.Faults++
	c.cfg.logPanic("a device", f.Err)
	if f.Hang = device.IsHang(f.Err); f.Hang {
		c.res.Hangs++
	}
	if c.cfg.Observer != nil {
		c.cfg.Observer.Fault(f)
	}
}

// fault records that a launch has failed, and what is lost: only the launch, a partition, or the whole device. A lost
// partition or device must be reset, so its other launches are stopped. After they have ended, their requests start
// again, and then the reset begins. A reset preserves only inputs, so the requests of halted launches start again too.
func (c *core) fault(l *launch, cause error) error {
	if c.cut(cause) && !c.shut { // the run's context has ended; the device has not failed
		c.halt(l)
		return c.over()
	}
	d, v := l.Device, &c.st.Devices[l.Device]
	scope := device.ScopeOf(cause)
	c.countFault(&Fault{At: c.now, Device: d, Launch: l.ID, Scope: scope, Err: cause})
	c.halt(l)
	if scope == device.LoseLaunch {
		c.endLaunch(l, v, c.now, cause)
		return c.tell(sched.Event{Kind: sched.Fault, Device: d, Launch: l.ID})
	}
	var units device.Units
	if scope == device.LosePartition {
		units = l.Units
	}
	c.lose(d, units, l, cause)
	return c.tell(sched.Event{Kind: sched.Fault, Device: d, Launch: l.ID})
}

// endLaunch ends a launch without work in progress.
func (c *core) endLaunch(l *launch, v *sched.DeviceView, ready Time, cause error) {
	for _, r := range l.reqs {
		if r.copying { // the request ends now, and its slot is freed after the copy
			r.launch = nil
			if !r.inFlight {
				r.inFlight = true
				r.task.flying++
				c.end(r, Errored, cause.Error(), nil)
			}
			continue
		}
		c.giveBack(r, v, ready, cause)
	}
	l.reqs, l.Requests = l.reqs[:0], l.Requests[:0]
	l.unhold()
	c.forget(l)
	c.fails = slices.DeleteFunc(c.fails, func(f failed) bool { return f.l == l }) // the memory of l will be reused
	if !l.lost {
		c.spare.give(l)
	}
}

// lose marks units of a device as unusable until a reset. An empty set means the whole device.
func (c *core) lose(d int, units device.Units, first *launch, cause error) {
	v := &c.st.Devices[d]
	if units.Empty() {
		v.Down = true
		for _, j := range c.jobs {
			j.cut = j.cut || j.dev == d
		}
	}
	ready := c.now + c.cfg.resetCost()
	for _, view := range slices.Clone(v.Launches) {
		o := c.find(view.ID) // nil: the launch is marked already, and is in doom
		if o == nil {
			continue
		}
		if !units.Empty() && o != first && !units.Meets(o.Units) {
			continue
		}
		if !o.busy && o.Copying == 0 {
			c.endLaunch(o, v, ready, cause)
			continue
		}
		o.doomed, o.Phase = cause, sched.Stopping // the launch stays visible until it has ended
		c.live = without(c.live, slices.Index(c.live, o))
		c.doom = append(c.doom, o)
		if o.busy {
			c.devs[d].abort(c.now, o.work.ID, true)
		}
	}
	dev := &c.devs[d]
	dev.outages = slices.DeleteFunc(dev.outages, func(o *outage) bool { return units.Empty() && !o.resetting }) // the whole device includes its parts
	dev.outages = append(dev.outages, &outage{units: units})
	v.Lost = v.Lost.Union(units)
	c.recover(d)
}

// landLaunch handles the end of a launch whose device or partition had failed.
func (c *core) landLaunch(l *launch) error {
	d := l.Device
	i := slices.Index(c.doom, l)
	c.doom = slices.Delete(c.doom, i, i+1)
	c.endLaunch(l, &c.st.Devices[d], c.now+c.cfg.resetCost(), l.doomed)
	c.recover(d)
	return c.tell(sched.Event{Kind: sched.Fault, Device: d, Launch: l.ID})
}

// recover begins a reset of each failed part of a device if no launch runs on this part any more.
func (c *core) recover(d int) {
	dev := &c.devs[d]
	if c.shut { // the run ends, so the device is not used any more
		return
	}
	for _, o := range dev.outages {
		if o.resetting || dev.dead {
			continue
		}
		if slices.ContainsFunc(c.doom, func(l *launch) bool { return l.Device == d && l.busy && o.units.Meets(l.Units) }) {
			continue
		}
		if slices.ContainsFunc(dev.outages, func(x *outage) bool { return x != o && x.resetting && x.units.Meets(o.units) }) {
			continue
		}
		o.resetting, o.began = true, c.now
		c.res.Resets++
		j := &job{out: o}
		c.works++
		j.work.ID, j.work.Kind, j.work.Units, j.work.Expect = c.works, device.Reset, o.units, c.cfg.resetCost()
		done, err := dev.begin(c.ctx, c.now, &j.work)
		c.enter(j, d)
		if done && err == nil {
			err = fmt.Errorf("%w: a reset of %s took no time", ErrDevice, dev.info.Name)
		}
		if err != nil {
			e := c.push(c.now + c.cfg.resetCost())
			e.x = &extra{job: j, err: err}
			continue
		}
		c.seq++
		dev.seq = c.seq
	}
}

// recovered handles the end of a reset. A failed reset is tried again after an interval, which doubles each time. If no
// reset succeeds, the device is given up.
func (c *core) recovered(d int, o *outage, err error) error {
	dev, v := &c.devs[d], &c.st.Devices[d]
	o.resetting = false
	if err == nil {
		dev.outages = slices.DeleteFunc(dev.outages, func(x *outage) bool { return x == o })
		v.Down = dev.dead || slices.ContainsFunc(dev.outages, func(x *outage) bool { return x.units.Empty() })
		v.Lost = device.Units{}
		for _, x := range dev.outages {
			v.Lost = v.Lost.Union(x.units)
		}
		c.recover(d) // a reset of another part may have waited for this one
		return c.tell(sched.Event{Kind: sched.Loaded, Device: d})
	}
	if o.tries++; o.tries < c.cfg.resets() && !c.shut {
		o.resetting = true // recover must not begin the same reset
		e := c.push(c.now + c.cfg.resetCost()<<o.tries)
		e.x = &extra{again: o}
		e.dev = int32(d)
		return nil
	}
	dev.dead, v.Down = true, true
	for v.Queue.Len() > 0 { // other devices may serve these requests
		q, _ := v.Queue.Pop()
		r := c.reqs.get(uint64(q.ID))
		r.waits = false
		if r.copying {
			r.inFlight = true
			r.task.flying++
			c.end(r, Errored, err.Error(), nil)
			continue
		}
		c.release(r)
		c.requeue(r)
	}
	if c.allDead() {
		c.gone.Store(true)
		c.drain(fmt.Sprintf("no device is left: reset %s: %v", dev.info.Name, err))
		return nil
	}
	return c.tell(sched.Event{Kind: sched.Fault, Device: d})
}

// nextWatch is the time of the watchdog's next check.
func (c *health) nextWatch() Time {
	t := never
	for i := range c.devs {
		t = min(t, c.devs[i].watch)
	}
	return t
}

// watch handles work that has reached its time limit. First, in real time, it makes the device post pending events,
// because one of them may be the end of the work. It also extends the limit once, by the time since the last check
// (away), because this machine may have been suspended. Second, if a launch may share units and has made progress since
// the last check, its time limit starts again. Third, a launch is stopped if the device supports this. Work that still
// runs at its limit after these steps hangs, and its device is lost.
func (c *core) watch(away Time) error {
	for _, l := range slices.Concat(c.live, c.doom) {
		if l.busy && l.limit <= c.now && c.overdue(l, away) {
			c.devs[l.Device].abort(c.now, l.work.ID, true)
			return c.hung(l, c.late(l))
		}
	}
	for i, j := range c.jobs {
		if j.limit > c.now || c.looksAgain(&c.devs[j.dev], &j.seen, &j.limit, away, c.cfg.other()+j.work.Expect) {
			continue
		}
		d := &c.devs[j.dev]
		d.abort(c.now, j.work.ID, true)
		c.leaveJob(i, true)
		err := fmt.Errorf("%w: %s, a %s for %d ns", device.ErrHang, d.info.Name, j.work.Kind, c.now-j.began)
		if j.work.Kind == device.Copy {
			return c.lostCopy(j, err)
		}
		return c.jobDone(j, err, 0)
	}
	for i := range c.devs {
		c.rewatch(i)
	}
	return nil
}

// overdue reports whether a launch at its limit hangs. Otherwise it sets a new limit.
func (c *core) overdue(l *launch, away Time) bool {
	d := &c.devs[l.Device]
	defer c.rewatch(l.Device)
	if c.looksAgain(d, &l.second, &l.limit, away, l.work.Limit) {
		return false
	}
	l.second = false
	if p, ok := d.Device.(device.Progressive); ok && !l.Exclusive {
		if at := p.Progress(l.work.ID); at > l.seenAt {
			l.seenAt, l.limit = at, c.now+l.work.Limit
			return false
		}
	}
	if l.doomed == nil && !l.killed && d.info.Preempt >= device.PreemptKernel {
		l.killed, l.limit = true, c.now+l.work.Limit
		l.Phase = sched.Stopping
		d.abort(c.now, l.work.ID, true)
		return false
	}
	return true
}

// looksAgain does the first step of watch, which is only for real time. It makes the device post pending events, and
// extends a limit that was reached for the first time. It reports whether it extended the limit.
func (c *core) looksAgain(d *dev, looked *bool, limit *Time, away, most Time) bool {
	if !c.real || *looked {
		return false
	}
	if p, ok := d.Device.(device.Poster); ok {
		p.Post(c.now)
	}
	*looked, *limit = true, c.now+min(max(aTurn, away), most)
	return true
}

// late is the error of a launch that hangs.
func (c *core) late(l *launch) error {
	return fmt.Errorf("%w: %s, launch %d of %s, segments %d..%d, for %d ns, where the table says %d", device.ErrHang,
		c.devs[l.Device].info.Name, l.ID, l.Network, l.work.Launch.First, l.work.Launch.Last, c.now-l.began, l.work.Expect)
}

// killed returns the error of a launch that the watchdog has stopped. If err is nil, the device stopped correctly, and
// only the launch is lost. Otherwise err determines what is lost.
func (c *core) killed(l *launch, err error) error {
	if err == nil {
		return &device.Failure{Scope: device.LoseLaunch, Err: c.late(l)}
	}
	return fmt.Errorf("%w: %w", c.late(l), err)
}

// ill reports whether the error of a copy means that its device has failed. An error of the input function is not a
// failure of the device.
func (c *core) ill(err error) bool {
	if _, bad := errors.AsType[*inputError](err); bad || c.shut || c.cut(err) {
		return false
	}
	_, says := errors.AsType[*device.Failure](err)
	return says || device.IsHang(err) || errors.Is(err, device.ErrReset)
}

// cut reports whether the only reason for an error is that the run's context has ended.
func (c *core) cut(err error) bool {
	return c.ctx.Err() != nil && errors.Is(err, c.ctx.Err()) && !errors.Is(err, device.ErrHang)
}

// illCopy records that a copy and its device failed. The request starts again once.
func (c *core) illCopy(r *request, cause error) error {
	l, d, scope := r.launch, r.dev, device.ScopeOf(cause)
	v, ready := &c.st.Devices[d], c.now
	f := Fault{At: c.now, Device: d, Scope: scope, Err: cause}
	var units device.Units // the units of the request's launch; empty: the whole device
	switch {
	case l != nil:
		f.Launch = l.ID
		if scope == device.LosePartition {
			units = l.Units
		}
		c.leave(l, r)
		l.Copying--
	case r.waits:
		c.unqueue(r)
	}
	loses := scope != device.LoseLaunch
	if loses {
		ready += c.cfg.resetCost()
	}
	c.countFault(&f)
	c.giveBack(r, v, ready, cause)
	doomed, copied := l != nil && l.doomed != nil, l != nil && l.Copying == 0
	switch {
	case doomed && copied:
		return c.landLaunch(l)
	case copied && !loses:
		return c.ready(l)
	case loses && !doomed && !v.Down:
		c.lose(d, units, l, cause)
	}
	return c.tell(sched.Event{Kind: sched.Fault, Device: d, Launch: f.Launch})
}

// lostCopy abandons a copy that does not end, and its device. The device may still read the memory of the job and the
// request, so this memory is not reused.
func (c *core) lostCopy(j *job, cause error) error {
	r, d := j.req, j.dev
	r.task.flying++ // never decremented, so the task's memory is not reused
	if !r.inFlight {
		r.inFlight = true
		if r.waits {
			c.unqueue(r)
		}
		c.end(r, Errored, cause.Error(), nil)
	}
	c.dropRequest(r)
	r.copying = false
	l := r.launch
	if l != nil {
		c.leave(l, r)
		l.Copying--
	}
	c.release(r)
	c.countFault(&Fault{At: c.now, Device: d, Scope: device.LoseDevice, Err: cause})
	if l != nil && l.doomed != nil {
		if l.Copying == 0 {
			return c.landLaunch(l)
		}
	} else if !c.st.Devices[d].Down {
		c.lose(d, device.Units{}, nil, cause)
	}
	return c.tell(sched.Event{Kind: sched.Fault, Device: d})
}

// hung abandons a launch whose work does not end.
func (c *core) hung(l *launch, cause error) error {
	c.halt(l)
	c.ran(l, l.Reached+1, inFailure)
	l.lost = true // the device may still read the launch's memory, so this memory is not reused
	if l.doomed != nil {
		return c.landLaunch(l)
	}
	return c.fault(l, cause)
}

// rewatch computes the earliest limit of the work on a device again.
func (c *core) rewatch(dev int) {
	d := &c.devs[dev]
	d.watch, d.stale = never, true
	for _, list := range [2][]*launch{c.live, c.doom} {
		for _, o := range list {
			if o.busy && o.Device == dev {
				d.watch = min(d.watch, o.limit)
			}
		}
	}
	for _, j := range c.jobs {
		if j.dev == dev {
			d.watch = min(d.watch, j.limit)
		}
	}
}
