// This file carries out the actions of a policy, and rejects impossible actions.

package engine

import (
	"fmt"
	"slices"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/sched"
)

func (c *core) do(a *sched.Action) error {
	switch a.Kind {
	case sched.Launch:
		return c.launch(a)
	case sched.Preempt, sched.Abort:
		return c.preempt(a)
	case sched.Merge:
		return c.merge(a)
	case sched.Resume:
		return c.resume(a)
	case sched.Assign:
		return c.assign(a)
	case sched.Drop:
		return c.drop(a)
	case sched.Wait:
		return c.wait(a.Until)
	case sched.LoadNetwork, sched.Unload:
		return c.host(a, nil)
	case sched.SetTheta:
		return c.setTheta(a)
	case sched.MakePlan:
		if a.Plan == nil {
			return fmt.Errorf("%w: there is no plan to make", ErrPolicy)
		}
		c.planning++
		c.plan(a.Plan)
		return nil
	case sched.Advise:
		return c.advise(a)
	}
	return fmt.Errorf("%w: action %d is unknown", ErrPolicy, a.Kind)
}

func (c *core) drop(a *sched.Action) error {
	r := c.reqs.get(uint64(a.Request))
	if r == nil || r.launch != nil || r.ended {
		return fmt.Errorf("%w: request %d is not in the queue", ErrPolicy, a.Request)
	}
	if c.traced {
		c.step(Step{Kind: a.Kind.String(), Device: -1}, []*request{r})
	}
	c.giveUpOne(r, "")
	return nil
}

func (c *core) wait(until Time) error {
	if until <= c.now {
		return fmt.Errorf("%w: the time to wait for, %d ns, has passed", ErrPolicy, until)
	}
	if !slices.Contains(c.waits, until) { // the policy may request the same time in several answers
		c.waits = append(c.waits, until)
		c.schedule(Item{At: until})
	}
	return nil
}

func (c *core) setTheta(a *sched.Action) error {
	t := c.traffic(a.Network)
	if t == nil || a.Thetas != nil && len(a.Thetas) < len(t.Passed) {
		return fmt.Errorf("%w: %d thresholds for network %q", ErrPolicy, len(a.Thetas), a.Network)
	}
	t.Thetas = a.Thetas
	c.step(Step{Kind: a.Kind.String(), Device: -1}, nil)
	return nil
}

func (c *core) advise(a *sched.Action) error {
	if a.Advice == nil {
		return fmt.Errorf("%w: there is no advice", ErrPolicy)
	}
	if c.cfg.Observer != nil {
		c.cfg.Observer.Advised(c.now, a.Advice)
	}
	if s, ok := c.cfg.Source.(sched.Advisee); ok {
		s.Advised(c.now, a.Advice)
	}
	return nil
}

// place returns an error if the device has no free place, or if confines returns an error for the units.
func (c *core) place(i int, on *device.Units, exclusive bool) error {
	if i < 0 || i >= len(c.devs) {
		return fmt.Errorf("%w: there is no device %d", ErrPolicy, i)
	}
	d, v := &c.devs[i], &c.st.Devices[i]
	switch {
	case v.Down:
		return fmt.Errorf("%w: device %d is down", ErrPolicy, i)
	case d.held >= d.info.Places:
		return fmt.Errorf("%w: device %d runs %d launches already, of %d", ErrPolicy, i, d.held, d.info.Places)
	case d.info.Units == 0 && len(d.outages) == 0 && !exclusive && !some(on):
		return nil
	}
	return c.confines(i, on, exclusive)
}

// confines returns an error if units do not exist or have failed, or if exclusive use prevents sharing.
func (c *core) confines(i int, on *device.Units, exclusive bool) error {
	d, u := &c.devs[i], *on
	if !d.info.Legal(u) {
		return fmt.Errorf("%w: device %d has %d units in groups of %d, no set %s", ErrPolicy, i, d.info.Units, max(1, d.info.UnitAlign), u)
	}
	for _, o := range d.outages {
		if u.Meets(o.units) {
			return fmt.Errorf("%w: %s of device %d are being reset", ErrPolicy, units(o.units), i)
		}
	}
	for _, list := range [2][]*launch{c.live, c.doom} {
		for _, l := range list {
			if l.holds && l.Device == i && (exclusive || l.Exclusive) && u.Meets(l.Units) {
				return fmt.Errorf("%w: %s of device %d, launch %d holds %s", ErrPolicy, units(u), i, l.ID, units(l.Units))
			}
		}
	}
	return nil
}

// units formats a set of units for an error message.
func units(u device.Units) string {
	if u.Empty() {
		return "all units"
	}
	return "units " + u.String()
}

// some reports whether a set of units is not empty. It does not copy the set.
func some(u *device.Units) bool {
	return u[0]|u[1]|u[2]|u[3]|u[4] != 0
}

// confine sets the units of a launch.
func (l *launch) confine(a *sched.Action) {
	j := &l.work.Launch
	l.Exclusive, l.Priority, j.Exclusive, j.Priority = a.Exclusive, a.Priority, a.Exclusive, a.Priority
	if l.width > 0 || some(&a.Units) { // usually both sets are empty
		l.Units, j.Units, l.width = a.Units, a.Units, a.Units.Count()
	}
}

// launch starts a launch of waiting requests.
func (c *core) launch(a *sched.Action) error {
	h, n, err := c.mayLaunch(a)
	if err != nil {
		return err
	}
	l := c.newLaunch(a, h)
	for i := range n {
		r := c.waiting(a, i)
		if r == nil || !r.isFor(h) {
			return fmt.Errorf("%w: request %d of the launch is not waiting for %q", ErrPolicy, i, a.Network)
		}
		c.join(l, r, a.Assigned)
	}
	if len(l.reqs) == 0 {
		c.again = true
		return nil
	}
	l.Began = len(l.reqs)
	c.admission.batch = max(c.admission.batch, l.Began)
	c.live = append(c.live, l)
	v := &c.st.Devices[a.Device]
	v.Launches = append(v.Launches, &l.LaunchView)
	c.res.Launches++
	if c.traced {
		c.step(Step{Kind: a.Kind.String(), Device: a.Device, Launch: l.ID, First: a.First, Last: a.Last, Network: l.Network}, l.reqs)
	}
	if l.Copying > 0 {
		l.Phase = sched.Running
		l.hold()
		return nil
	}
	c.begin(l)
	return nil
}

// source returns the queue that has the requests of a launch: the device's own queue or the common queue.
func (c *core) source(a *sched.Action) *sched.Queue {
	if a.Assigned {
		return &c.st.Devices[a.Device].Queue
	}
	return &c.st.Queue
}

// mayLaunch returns the network and the number of requests of a launch, or an error if the launch is impossible.
func (c *core) mayLaunch(a *sched.Action) (h *sched.Hosted, n int, err error) {
	if err := c.place(a.Device, &a.Units, a.Exclusive); err != nil {
		return nil, 0, err
	}
	d := &c.devs[a.Device]
	h = c.st.Devices[a.Device].Member(a.Network)
	if n = a.Count; a.Requests != nil {
		n = len(a.Requests)
	}
	switch waiting := c.source(a).Len(); {
	case h == nil:
		err = fmt.Errorf("%w: device %d does not serve %q", ErrPolicy, a.Device, a.Network)
	case a.First != 0 || a.Last < 0 || a.Last >= h.Table.Segments():
		err = fmt.Errorf("%w: segments %d..%d for requests from the queue, of %d", ErrPolicy, a.First, a.Last, h.Table.Segments())
	case n < 1 || n > min(d.info.MaxBatch, h.Table.MaxBatch()) || n > waiting:
		err = fmt.Errorf("%w: a batch of %d, B_max being %d and %d requests waiting", ErrPolicy, n, d.info.MaxBatch, waiting)
	case !a.Assigned && d.slots+n > d.info.Slots:
		err = fmt.Errorf("%w: %d more samples, %d of %d slots of device %d being taken", ErrPolicy, n, d.slots, d.info.Slots, a.Device)
	}
	return h, n, err
}

// newLaunch creates a launch without requests.
func (c *core) newLaunch(a *sched.Action, h *sched.Hosted) *launch {
	c.next++
	l := c.spare.take()
	l.ID, l.Device, l.Network, l.First, l.Last = c.next, a.Device, h.Network, 0, a.Last
	l.Reached, l.Kernel, l.Phase, l.Since, l.Requests = -1, 0, sched.AtExit, c.now, l.Requests[:0]
	l.on, l.table, l.seen, l.reqs = &c.devs[a.Device], h.Table, nil, l.reqs[:0]
	l.busy, l.holds, l.Copying, l.doomed, l.killed, l.lost, l.listed = false, false, 0, nil, false, false, false
	j := &l.work.Launch
	j.ID, j.Device, j.Network = c.next, a.Device, h.Network
	l.confine(a)
	return l
}

// waiting removes a request from the queue for a launch: a.Requests[i], or the request at the head if a.Requests is
// nil. It returns nil if there is no such request, for example because a.Requests has one id twice.
func (c *core) waiting(a *sched.Action, i int) *request {
	q := c.source(a)
	if q.Len() == 0 {
		return nil
	}
	r := c.reqs.get(uint64(q.At(0).ID))
	if a.Requests == nil || a.Requests[i] == r.ID {
		q.Skip()
		return r
	}
	one, ok := q.Remove(a.Requests[i])
	if !ok {
		return nil
	}
	return c.reqs.get(uint64(one.ID))
}

// join puts a request into a launch, after the request has left its queue. It begins to copy the request's input, unless the
// request was assigned. If the device rejects the copy, the request ends.
func (c *core) join(l *launch, r *request, assigned bool) {
	if assigned {
		r.waits = false
		if !r.copying { // during the copy the network must not change; copied sets it afterwards
			r.Network = l.Network
		}
	} else if err := c.copy(l.Device, r, l.Network); err != nil {
		c.end(r, Errored, err.Error(), nil)
		return
	}
	if l.seen == nil {
		if l.seen = r.seen; r.home != nil {
			l.seen = c.traffic(l.Network)
		}
	}
	if r.rec.Started < 0 {
		r.rec.Started = c.now
		if r.home == nil || assigned {
			l.seen.Begin(c.now, r.Arrived)
		}
		if r.home != nil {
			r.seen.Begin(c.now, r.Arrived)
		}
	}
	r.launch = l
	l.reqs = append(l.reqs, r)
	l.Requests = append(l.Requests, r.Request)
	if r.copying {
		l.Copying++
		l.Requests[len(l.Requests)-1].Network = l.Network
	}
}

// hold marks a place of the device as used by the launch.
func (l *launch) hold() {
	if !l.holds {
		l.holds = true
		l.on.held++
	}
}

func (l *launch) unhold() {
	if l.holds {
		l.holds = false
		l.on.held--
	}
}

// stops reports whether a launch can be stopped: while it runs, and with kill also while it is already stopping.
func (l *launch) stops(kill bool) bool {
	return l.Phase == sched.Running || l.Phase == sched.Stopping && kill
}

// refused reports whether the device rejected a launch's work.
func (l *launch) refused() bool { return l.Phase == sched.Running && !l.busy && l.Copying == 0 }

// preempt halts a launch at the exit that it has reached. It stops a running launch if the device allows this.
func (c *core) preempt(a *sched.Action) error {
	l := c.find(a.Launch)
	if l == nil {
		return fmt.Errorf("%w: there is no launch %d", ErrPolicy, a.Launch)
	}
	d, kill := &c.devs[l.Device], a.Kind == sched.Abort
	switch inside := d.info.Preempt >= device.PreemptKernel && l.stops(kill); {
	case l.Phase == sched.AtExit && l.Reached >= 0 && !kill:
		if d.info.Preempt == device.PreemptNever {
			return fmt.Errorf("%w: device %d cannot be preempted", ErrPolicy, l.Device)
		}
		l.Phase, l.Since = sched.Halted, c.now
	case inside && l.busy:
		l.Phase = sched.Stopping
		d.abort(c.now, l.work.ID, kill)
	case inside && l.Copying > 0:
		l.Phase = sched.Stopping // the launch halts after its inputs have been copied
	case l.refused():
		return nil // the next event reports the rejected work
	default:
		return fmt.Errorf("%w: launch %d is at no exit", ErrPolicy, a.Launch)
	}
	c.res.Preemptions++
	if c.traced {
		c.step(Step{Kind: a.Kind.String(), Device: l.Device, Launch: l.ID, First: l.Reached, Last: l.Reached}, l.reqs)
	}
	return nil
}

func (c *core) merge(a *sched.Action) error {
	from, into := c.find(a.Launch), c.find(a.Into)
	if from == nil || into == nil || from == into {
		return fmt.Errorf("%w: launches %d and %d", ErrPolicy, a.Launch, a.Into)
	}
	if err := c.mayMerge(from, into); err != nil {
		return err
	}
	for _, r := range from.reqs {
		r.launch = into
	}
	into.reqs = append(into.reqs, from.reqs...)
	into.Requests = append(into.Requests, from.Requests...)
	into.listed = false
	into.Began += from.Began
	c.forget(from)
	c.spare.give(from) // the fields of "from" stay valid until the next launch uses this memory
	c.res.Merges++
	if c.traced {
		c.step(Step{Kind: a.Kind.String(), Device: into.Device, Launch: from.ID, Into: into.ID, First: into.Reached, Last: into.Reached}, into.reqs)
	}
	return nil
}

// mayMerge returns an error if the launches are not at the same exit or are together too large.
func (c *core) mayMerge(from, into *launch) error {
	switch {
	case into.Phase != sched.Halted || from.Phase != sched.AtExit && from.Phase != sched.Halted:
		return fmt.Errorf("%w: launch %d is not halted, or %d still runs", ErrPolicy, into.ID, from.ID)
	case from.Device != into.Device || from.Network != into.Network || from.Reached != into.Reached || from.Kernel != into.Kernel || from.Kernel > 0:
		return fmt.Errorf("%w: launches %d and %d are not at the same exit", ErrPolicy, from.ID, into.ID)
	case len(from.reqs)+len(into.reqs) > min(c.devs[into.Device].info.MaxBatch, into.table.MaxBatch()):
		return fmt.Errorf("%w: merging gives a batch of %d", ErrPolicy, len(from.reqs)+len(into.reqs))
	}
	return nil
}

func (c *core) resume(a *sched.Action) error {
	l := c.find(a.Launch)
	if l == nil || l.Phase == sched.Running || l.Phase == sched.Stopping {
		return fmt.Errorf("%w: launch %d is not halted", ErrPolicy, a.Launch)
	}
	if some(&a.Units) { // the launch may resume on other units of the same device
		l.confine(a)
	}
	if err := c.place(l.Device, &l.Units, l.Exclusive); err != nil {
		return err
	}
	if a.Last <= l.Reached || a.Last >= l.table.Segments() {
		return fmt.Errorf("%w: resume launch %d from exit %d to %d", ErrPolicy, l.ID, l.Reached, a.Last)
	}
	l.Last = a.Last
	c.unlist(l)
	v := &c.st.Devices[l.Device]
	v.Launches = append(v.Launches, &l.LaunchView)
	if c.traced {
		c.step(Step{Kind: a.Kind.String(), Device: l.Device, Launch: l.ID, First: l.Reached + 1, Last: l.Last}, l.reqs)
	}
	c.begin(l)
	return nil
}

// assign moves waiting requests to the queue of a device that serves their network or a network of their family.
func (c *core) assign(a *sched.Action) error {
	if a.Device < 0 || a.Device >= len(c.devs) {
		return fmt.Errorf("%w: there is no device %d", ErrPolicy, a.Device)
	}
	d := &c.devs[a.Device]
	h := c.st.Devices[a.Device].Member(a.Network)
	switch {
	case h == nil || d.dead:
		return fmt.Errorf("%w: device %d does not serve %q", ErrPolicy, a.Device, a.Network)
	case d.slots+len(a.Requests) > d.info.Slots:
		return fmt.Errorf("%w: %d more samples, %d of %d slots of device %d being taken", ErrPolicy, len(a.Requests), d.slots, d.info.Slots, a.Device)
	}
	for _, id := range a.Requests {
		r := c.reqs.get(uint64(id))
		if r == nil || r.ended || r.launch != nil || r.waits || !r.isFor(h) {
			return fmt.Errorf("%w: request %d is not waiting for %q", ErrPolicy, id, a.Network)
		}
		c.assignOne(a, r, h.Network)
		c.again = true // ask the policy again, since it may launch from the device's queue now
	}
	return nil
}

// isFor reports whether a request is for a network or its family.
func (r *request) isFor(h *sched.Hosted) bool {
	return r.Network == h.Network || r.home != nil && r.home.name == h.Family
}

// assignOne moves a request to a device's queue. If the device rejects the copy, the request ends.
func (c *core) assignOne(a *sched.Action, r *request, network string) {
	c.st.Queue.Remove(r.ID)
	if err := c.copy(a.Device, r, network); err != nil {
		c.end(r, Errored, err.Error(), nil)
		return
	}
	if r.home != nil {
		t := c.traffic(network)
		t.Arrive(max(r.Arrived, t.Latest), 1)
	}
	r.waits = true
	c.st.Devices[a.Device].Queue.Push(&r.Request)
	if c.traced {
		c.step(Step{Kind: a.Kind.String(), Device: a.Device}, []*request{r})
	}
}

// copy begins to copy a request's input to a device, for a network of that device. From now on the device's goroutine
// may read the request to make its input.
func (c *core) copy(i int, r *request, network string) error {
	d := &c.devs[i]
	j := c.spareJobs.take()
	c.works++
	w := &j.work
	w.ID, w.Kind, w.Request, w.Network, w.Input, w.Expect, w.Limit = c.works, device.Copy, r.ID, network, r.input, 0, 0
	was := r.Network
	if r.home != nil {
		r.Network = network
	}
	done, err := d.begin(c.ctx, c.now, w)
	ill := err != nil && c.ill(err)
	if err != nil && !ill {
		c.spareJobs.give(j)
		r.Network = was
		c.logCopy(err)
		c.interrupted = c.interrupted || c.cut(err)
		return err
	}
	r.dev, r.copying = i, !done
	d.slots++
	c.st.Devices[i].Used++
	if done {
		c.spareJobs.give(j)
		return nil
	}
	j.req = r
	c.enter(j, i)
	if ill { // a failure of the device is reported after this answer has been carried out
		c.push(c.now).x = &extra{job: j, err: err}
		return nil
	}
	c.seq++
	d.seq = c.seq
	return nil
}

// enter adds a job to the jobs in progress.
func (c *core) enter(j *job, dev int) {
	j.dev, j.began, j.limit, j.seen = dev, c.now, c.now+c.cfg.other()+j.work.Expect, false
	c.jobs = append(c.jobs, j)
	d := &c.devs[dev]
	if d.info.InOrder && j.queues() && slices.ContainsFunc(c.jobs[:len(c.jobs)-1], func(o *job) bool { return o.dev == dev && o.queues() }) {
		j.limit = never // no limit until the jobs before it have ended
	}
	d.watch, d.stale = min(d.watch, j.limit), true
}

// queues reports whether a device with Info.InOrder runs this job only after earlier jobs.
func (j *job) queues() bool { return j.work.Kind == device.Copy || j.work.Kind == device.Unload }

// leaveJob removes the i-th job. Then the time limit of the next waiting job on the same device begins. If the removed
// job hung, the limits of all waiting jobs begin, since these jobs may hang too.
func (c *core) leaveJob(i int, hung bool) {
	was := c.jobs[i]
	c.jobs = slices.Delete(c.jobs, i, i+1)
	if !c.devs[was.dev].info.InOrder || !was.queues() {
		return
	}
	for _, j := range c.jobs {
		if j.dev == was.dev && j.queues() {
			if j.limit == never {
				j.limit = c.now + c.cfg.other() + j.work.Expect
			}
			if !hung {
				break
			}
		}
	}
	c.rewatch(was.dev)
}

// host begins to load or unload a network: for the change "of", or for the policy if "of" is nil.
func (c *core) host(a *sched.Action, of *change) error {
	if a.Device < 0 || a.Device >= len(c.devs) {
		return fmt.Errorf("%w: there is no device %d", ErrPolicy, a.Device)
	}
	i := slices.IndexFunc(c.nets, func(n *Network) bool { return n.Name == a.Network })
	if i < 0 || c.nets[i].Tables[a.Device] == nil {
		return fmt.Errorf("%w: network %q cannot be loaded or unloaded on device %d", ErrPolicy, a.Network, a.Device)
	}
	n, v := c.nets[i], &c.st.Devices[a.Device]
	if v.Down {
		return fmt.Errorf("%w: device %d is down", ErrPolicy, a.Device)
	}
	if slices.ContainsFunc(c.jobs, func(j *job) bool { return j.dev == a.Device && j.net == n }) {
		return fmt.Errorf("%w: network %q is being loaded or unloaded on device %d", ErrPolicy, a.Network, a.Device)
	}
	j := &job{net: n, of: of}
	w := &j.work
	c.works++
	w.ID, w.Network, w.Kind = c.works, n.Name, device.Load
	if a.Kind == sched.Unload {
		if err := mayUnload(v, a); err != nil {
			return err
		}
		w.Kind = device.Unload
		v.Hosted = slices.DeleteFunc(v.Hosted, func(h sched.Hosted) bool { return h.Network == n.Name })
	} else {
		if n.Artefacts != nil {
			w.Artefact = n.Artefacts[a.Device]
		}
		if n.Load != nil {
			w.Expect = n.Load[a.Device]
		}
	}
	c.step(Step{Kind: a.Kind.String(), Device: a.Device}, nil)
	d := &c.devs[a.Device]
	if of != nil {
		of.left++
	}
	done, err := d.begin(c.ctx, c.now, w)
	c.enter(j, a.Device)
	if done || err != nil { // the end is reported after this answer has been carried out
		e := c.push(c.now)
		e.x = &extra{job: j, err: err}
		return nil
	}
	c.seq++
	d.seq = c.seq
	return nil
}

// mayUnload returns an error if a network is not loaded or is in use.
func mayUnload(v *sched.DeviceView, a *sched.Action) error {
	if !v.Hosts(a.Network) {
		return fmt.Errorf("%w: network %q is not on device %d", ErrPolicy, a.Network, a.Device)
	}
	for _, l := range v.Launches {
		if l.Network == a.Network {
			return fmt.Errorf("%w: unload %q while launch %d uses it", ErrPolicy, a.Network, l.ID)
		}
	}
	for i := range v.Queue.Len() {
		if r := v.Queue.At(i); r.Network == a.Network {
			return fmt.Errorf("%w: unload %q while request %d waits for it", ErrPolicy, a.Network, r.ID)
		}
	}
	return nil
}
