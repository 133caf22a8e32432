// The books of a run: requests, launches, devices, endings. Run and Serve share them; they differ
// in how a segment is begun, how a device is reset and how time passes (the driver).

package engine

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/sched"
)

// maxSamples bounds the samples of one task.
const maxSamples = 1 << 20

// driver is what Run and Serve do differently.
type driver interface {
	// begin runs one segment; its end comes back through core.segmentDone.
	begin(l *launch)
	// reset resets a device; its end comes back through core.deviceUp.
	reset(dev int)
	// schedule asks for the item (or, where it.Task is nil and it.Cancel is 0, a Timer) at it.At.
	schedule(it Item)
}

type request struct {
	sched.Request
	task     *task
	launch   *launch
	dev      int // where it has a slot, or -1
	retried  bool
	ended    bool
	inFlight bool   // cancelled while its segment runs: its slot is freed afterwards
	rec      Record // where records are not kept
}

type task struct {
	sched.Task
	left   int
	flying int // requests that have ended in a running segment
	worst  Ending
	reqs   []*request
}

type launch struct {
	sched.LaunchView
	reqs   []*request
	table  *sched.Table
	seen   *sched.Traffic // of its network
	began  Time
	doomed bool // its device failed while it ran; its requests are elsewhere

	job device.Launch  // what the device is given; its slices are used again
	rep *device.Report // of the segment that ran last, as is err
	err error
}

type dev struct {
	device.Blocking
	info  device.Info
	slots int
	dead  bool
	reset error // how the last reset ended, in virtual time
}

type core struct {
	ctx   context.Context // lives as long as the run
	cfg   *Config
	drv   driver
	now   Time
	st    sched.State
	devs  []dev
	reqs  index[request] // not ended, or still in a running segment
	tasks index[task]
	live  []*launch // a few at most
	last  device.RequestID
	next  device.LaunchID
	buf   []sched.Action
	waits []Time // timers that a policy has asked for and that have not come
	again bool   // something ended outside an event: ask the policy once more
	ended int
	res   Result

	spareReqs     pool[request]
	spareTasks    pool[task]
	spareLaunches pool[launch]
}

func newCore(ctx context.Context, cfg *Config) (*core, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	c := &core{ctx: ctx, cfg: cfg}
	if cfg.Stream {
		c.res.Stream = new(Stream)
	}
	c.res.Policy = cfg.Policy.Name()
	c.res.Busy = make([]Time, len(cfg.Devices))
	segments := 0
	for i, d := range cfg.Devices {
		info := d.Info()
		c.devs = append(c.devs, dev{Blocking: d, info: info})
		v := sched.DeviceView{MaxBatch: info.MaxBatch, Places: info.Places}
		for _, n := range cfg.Networks {
			if t := n.Tables[i]; t != nil {
				v.Hosted = append(v.Hosted, sched.Hosted{Network: n.Name, Table: t})
				segments = max(segments, t.Segments())
			}
		}
		c.st.Devices = append(c.st.Devices, v)
	}
	c.res.Samples = make([]int64, segments)
	if c.res.Stream != nil {
		c.res.Stream.Exits = make([]int, segments)
	}
	for _, n := range cfg.Networks {
		c.st.Traffic = append(c.st.Traffic, sched.Traffic{
			Network: n.Name, Passed: make([]int64, segments), Left: make([]int64, segments),
		})
	}
	return c, nil
}

// item takes in what a source brought.
func (c *core) item(it Item) error {
	switch {
	case it.Task != nil:
		return c.arrive(it.Task)
	case it.Cancel != 0:
		return c.cancel(it.Cancel)
	}
	c.waits = slices.DeleteFunc(c.waits, func(t Time) bool { return t <= c.now })
	return c.tell(sched.Event{Kind: sched.Timer})
}

func (c *core) arrive(in *sched.Task) error {
	samples := max(1, in.Samples)
	switch {
	case in.ID == 0 || c.tasks.get(in.ID) != nil:
		return fmt.Errorf("%w: task id %d is zero or taken", ErrSource, in.ID)
	case in.Samples < 0 || in.Samples > maxSamples:
		return fmt.Errorf("%w: task %d has %d samples", ErrSource, in.ID, in.Samples)
	}
	seen := c.traffic(in.Network)
	if seen == nil {
		return fmt.Errorf("%w: task %d is for network %q, which is not served", ErrSource, in.ID, in.Network)
	}
	seen.Arrive(c.now, samples)
	t := c.spareTasks.take()
	// Field by field, here and below: a literal is put together on the stack and then copied, and a
	// processor stalls where it copies what it has written a moment ago in other pieces.
	t.Task = *in
	t.Arrived, t.Samples = c.now, samples
	t.left, t.flying, t.worst, t.reqs = samples, 0, Pending, t.reqs[:0]
	c.tasks.put(t.ID, t)
	admitted := c.cfg.Admission == nil || c.cfg.Admission(c.now, &c.st, &t.Task)
	for s := range samples {
		c.last++
		r := c.spareReqs.take()
		r.task, r.launch, r.dev, r.retried, r.ended, r.inFlight = t, nil, -1, false, false, false
		r.ID, r.Task, r.Sample, r.Network = c.last, t.ID, s, t.Network
		r.Arrived, r.Deadline, r.Priority, r.Theta, r.Thetas = c.now, t.Deadline, t.Priority, t.Theta, t.Thetas
		rec := &r.rec
		if c.res.Stream == nil {
			c.res.Records = append(c.res.Records, Record{})
			rec = &c.res.Records[len(c.res.Records)-1]
		}
		*rec = Record{}
		rec.ID, rec.Task, rec.Sample, rec.Arrived, rec.Deadline = r.ID, t.ID, s, c.now, t.Deadline
		rec.Started, rec.Exit, rec.Class = -1, -1, -1
		c.reqs.put(uint64(r.ID), r)
		t.reqs = append(t.reqs, r)
	}
	reqs := t.reqs // the last ending forgets the task
	queued := admitted && !c.allDead()
	for _, r := range reqs {
		switch {
		case !admitted:
			c.end(r, Refused, "")
		case !queued:
			c.end(r, Errored, "no device is left")
		default:
			c.st.Queue.Push(&r.Request)
		}
	}
	if !queued {
		return nil
	}
	return c.tell(sched.Event{Kind: sched.Arrival, Request: reqs[len(reqs)-1].ID})
}

func (c *core) traffic(network string) *sched.Traffic {
	for i := range c.st.Traffic {
		if c.st.Traffic[i].Network == network {
			return &c.st.Traffic[i]
		}
	}
	return nil
}

func (c *core) cancel(id uint64) error {
	t := c.tasks.get(id)
	if t == nil {
		return nil // it has ended: too late to take back
	}
	var last device.RequestID
	reqs := t.reqs // the last ending forgets the task
	for _, r := range reqs {
		if r.ended {
			continue
		}
		last = r.ID
		switch l := r.launch; {
		case l == nil:
			c.st.Queue.Remove(r.ID)
			c.end(r, Cancelled, "")
		case l.Phase == sched.Running:
			r.inFlight = true
			t.flying++
			c.end(r, Cancelled, "")
		default:
			c.leave(l, r)
			c.release(r)
			c.end(r, Cancelled, "")
		}
	}
	return c.tell(sched.Event{Kind: sched.Cancel, Request: last})
}

// tell asks the policy and carries out its answer.
func (c *core) tell(ev sched.Event) error {
	for {
		c.retire()
		c.buf = c.cfg.Policy.Decide(c.now, &c.st, ev, c.buf[:0])
		c.res.Calls++
		for i := range c.buf {
			if err := c.do(&c.buf[i]); err != nil {
				return fmt.Errorf("policy %s, %s at %d ns: %w", c.res.Policy, c.buf[i].Kind, c.now, err)
			}
		}
		for d := range c.st.Devices {
			// begin may not touch the list of launches, so ranging over it is safe.
			for _, v := range c.st.Devices[d].Launches {
				if v.Phase == sched.AtExit && v.Reached < v.Last {
					c.begin(c.find(v.ID))
				}
			}
		}
		if !c.again {
			return nil
		}
		c.again = false
		ev = sched.Event{Kind: sched.Fault}
	}
}

// retire forgets launches that nobody is in any more.
func (c *core) retire() {
	for i := 0; i < len(c.live); {
		l := c.live[i]
		if len(l.Requests) > 0 || l.Phase == sched.Running {
			i++
			continue
		}
		c.unlist(l)
		c.live = without(c.live, i)
		c.spareLaunches.give(l)
	}
}

// find is the launch with this id, nil where there is none.
func (c *core) find(id device.LaunchID) *launch {
	for _, l := range c.live {
		if l.ID == id {
			return l
		}
	}
	return nil
}

// unlist takes a launch from its device's view.
func (c *core) unlist(l *launch) {
	v := &c.st.Devices[l.Device]
	if i := slices.Index(v.Launches, &l.LaunchView); i >= 0 {
		v.Launches = without(v.Launches, i)
	}
}

// forget ends a launch that no segment runs for.
func (c *core) forget(l *launch) {
	c.unlist(l)
	if i := slices.Index(c.live, l); i >= 0 {
		c.live = without(c.live, i)
	}
}

func (c *core) do(a *sched.Action) error {
	switch a.Kind {
	case sched.Launch:
		return c.launch(a)
	case sched.Preempt:
		l := c.find(a.Launch)
		if l == nil || l.Phase != sched.AtExit || l.Reached < 0 {
			return fmt.Errorf("%w: launch %d is at no exit", ErrPolicy, a.Launch)
		}
		if c.devs[l.Device].info.Preempt == device.PreemptNever {
			return fmt.Errorf("%w: device %d cannot be preempted", ErrPolicy, l.Device)
		}
		l.Phase = sched.Halted
		c.res.Preemptions++
		if !c.cfg.silent() {
			c.step(Step{Kind: a.Kind.String(), Device: l.Device, Launch: l.ID, First: l.Reached, Last: l.Reached}, l.reqs)
		}
		return nil
	case sched.Merge:
		return c.merge(a)
	case sched.Resume:
		return c.resume(a)
	case sched.Drop:
		r := c.reqs.get(uint64(a.Request))
		if r == nil || r.launch != nil || r.ended {
			return fmt.Errorf("%w: request %d is not in the queue", ErrPolicy, a.Request)
		}
		c.st.Queue.Remove(r.ID)
		if !c.cfg.silent() {
			c.step(Step{Kind: a.Kind.String(), Device: -1}, []*request{r})
		}
		c.end(r, Dropped, "")
		return nil
	case sched.Wait:
		if a.Until <= c.now {
			return fmt.Errorf("%w: the time to wait for, %d ns, has passed", ErrPolicy, a.Until)
		}
		if !slices.Contains(c.waits, a.Until) { // a policy may say the same at every call
			c.waits = append(c.waits, a.Until)
			c.drv.schedule(Item{At: a.Until})
		}
		return nil
	case sched.LoadNetwork, sched.Unload:
		return c.host(a)
	case sched.SetTheta:
		t := c.traffic(a.Network)
		if t == nil || a.Thetas != nil && len(a.Thetas) < len(t.Passed) {
			return fmt.Errorf("%w: %d thresholds for network %q", ErrPolicy, len(a.Thetas), a.Network)
		}
		t.Thetas = a.Thetas
		c.step(Step{Kind: a.Kind.String(), Device: -1}, nil)
		return nil
	}
	return fmt.Errorf("%w: action %d is unknown", ErrPolicy, a.Kind)
}

func (c *core) place(i int) error {
	switch {
	case i < 0 || i >= len(c.devs):
		return fmt.Errorf("%w: there is no device %d", ErrPolicy, i)
	case c.st.Devices[i].Down:
		return fmt.Errorf("%w: device %d is down", ErrPolicy, i)
	}
	running := 0
	for _, v := range c.st.Devices[i].Launches {
		if v.Phase == sched.Running {
			running++
		}
	}
	if running >= c.devs[i].info.Places {
		return fmt.Errorf("%w: device %d runs %d launches already", ErrPolicy, i, running)
	}
	return nil
}

func (c *core) launch(a *sched.Action) error {
	if err := c.place(a.Device); err != nil {
		return err
	}
	v, d := &c.st.Devices[a.Device], &c.devs[a.Device]
	t := v.Table(a.Network)
	n := a.Count
	if a.Requests != nil {
		n = len(a.Requests)
	}
	switch {
	case t == nil:
		return fmt.Errorf("%w: device %d does not serve %q", ErrPolicy, a.Device, a.Network)
	case a.First != 0 || a.Last < 0 || a.Last >= t.Segments():
		return fmt.Errorf("%w: segments %d..%d for requests from the queue, of %d", ErrPolicy, a.First, a.Last, t.Segments())
	case n < 1 || n > min(d.info.MaxBatch, t.MaxBatch()) || n > c.st.Queue.Len():
		return fmt.Errorf("%w: a batch of %d, B_max being %d and %d requests waiting", ErrPolicy, n, d.info.MaxBatch, c.st.Queue.Len())
	case d.slots+n > d.info.Slots:
		return fmt.Errorf("%w: %d more samples, %d of %d slots of device %d being taken", ErrPolicy, n, d.slots, d.info.Slots, a.Device)
	}
	c.next++
	l := c.spareLaunches.take()
	// Every field but rep and err, which the next segment writes.
	l.ID, l.Device, l.Network, l.First, l.Last = c.next, a.Device, a.Network, 0, a.Last
	l.Reached, l.Phase, l.Requests = -1, sched.AtExit, l.Requests[:0]
	l.table, l.seen, l.reqs, l.doomed = t, c.traffic(a.Network), l.reqs[:0], false
	j := &l.job
	j.ID, j.Device, j.Network, j.Units, j.Exclusive, j.Priority = c.next, a.Device, a.Network, a.Units, a.Exclusive, a.Priority
	var r *request
	for i := range n {
		head := c.st.Queue.Len() > 0 // else somebody was named twice
		if head {
			r = c.reqs.get(uint64(c.st.Queue.At(0).ID))
		}
		switch {
		case head && (a.Requests == nil || a.Requests[i] == r.ID):
			c.st.Queue.Skip()
		case head:
			var q sched.Request
			if q, head = c.st.Queue.Remove(a.Requests[i]); head {
				r = c.reqs.get(uint64(q.ID))
			}
		}
		if !head || r.Network != a.Network {
			return fmt.Errorf("%w: request %d of the launch is not waiting for %q", ErrPolicy, i, a.Network)
		}
		if err := c.admit(a.Device, r); err != nil {
			c.end(r, Errored, err.Error())
			continue
		}
		if rec := c.record(r); rec.Started < 0 {
			rec.Started = c.now
			l.seen.Begin(c.now, r.Arrived)
		}
		r.launch = l
		l.reqs = append(l.reqs, r)
		l.Requests = append(l.Requests, r.Request)
	}
	if len(l.reqs) == 0 {
		c.again = true
		return nil
	}
	l.Began = len(l.reqs)
	c.live = append(c.live, l)
	v.Launches = append(v.Launches, &l.LaunchView)
	c.res.Launches++
	if !c.cfg.silent() {
		c.step(Step{Kind: a.Kind.String(), Device: a.Device, Launch: l.ID, First: a.First, Last: a.Last}, l.reqs)
	}
	c.begin(l)
	return nil
}

func (c *core) admit(i int, r *request) error {
	in, err := c.cfg.Inputs(&r.Request)
	if err != nil {
		return fmt.Errorf("input of request %d: %w", r.ID, err)
	}
	if err := c.devs[i].Admit(c.ctx, r.Network, r.ID, in); err != nil {
		return fmt.Errorf("admit request %d on %s: %w", r.ID, c.devs[i].info.Name, err)
	}
	r.dev = i
	c.devs[i].slots++
	return nil
}

func (c *core) merge(a *sched.Action) error {
	from, into := c.find(a.Launch), c.find(a.Into)
	switch {
	case from == nil || into == nil || from == into:
		return fmt.Errorf("%w: launches %d and %d", ErrPolicy, a.Launch, a.Into)
	case into.Phase != sched.Halted || from.Phase == sched.Running:
		return fmt.Errorf("%w: launch %d is not halted, or %d still runs", ErrPolicy, a.Into, a.Launch)
	case from.Device != into.Device || from.Network != into.Network || from.Reached != into.Reached:
		return fmt.Errorf("%w: launches %d and %d are not at the same exit", ErrPolicy, a.Launch, a.Into)
	case len(from.reqs)+len(into.reqs) > c.devs[into.Device].info.MaxBatch:
		return fmt.Errorf("%w: merging gives a batch of %d", ErrPolicy, len(from.reqs)+len(into.reqs))
	}
	for _, r := range from.reqs {
		r.launch = into
	}
	into.reqs = append(into.reqs, from.reqs...)
	into.Requests = append(into.Requests, from.Requests...)
	into.Began += from.Began
	c.forget(from)
	c.spareLaunches.give(from) // its fields stay until the next launch
	c.res.Merges++
	if !c.cfg.silent() {
		c.step(Step{Kind: a.Kind.String(), Device: into.Device, Launch: from.ID, Into: into.ID, First: into.Reached, Last: into.Reached}, into.reqs)
	}
	return nil
}

func (c *core) resume(a *sched.Action) error {
	l := c.find(a.Launch)
	if l == nil || l.Phase == sched.Running {
		return fmt.Errorf("%w: launch %d is not halted", ErrPolicy, a.Launch)
	}
	if err := c.place(l.Device); err != nil {
		return err
	}
	v := &c.st.Devices[l.Device]
	if t := v.Table(l.Network); t == nil || a.Last <= l.Reached || a.Last >= t.Segments() {
		return fmt.Errorf("%w: resume launch %d from exit %d to %d", ErrPolicy, l.ID, l.Reached, a.Last)
	}
	l.Last = a.Last
	c.unlist(l)
	v.Launches = append(v.Launches, &l.LaunchView)
	if !c.cfg.silent() {
		c.step(Step{Kind: a.Kind.String(), Device: l.Device, Launch: l.ID, First: l.Reached + 1, Last: l.Last}, l.reqs)
	}
	c.begin(l)
	return nil
}

func (c *core) host(a *sched.Action) error {
	if a.Device < 0 || a.Device >= len(c.devs) {
		return fmt.Errorf("%w: there is no device %d", ErrPolicy, a.Device)
	}
	i := slices.IndexFunc(c.cfg.Networks, func(n Network) bool { return n.Name == a.Network })
	if c.cfg.Loader == nil || i < 0 || c.cfg.Networks[i].Tables[a.Device] == nil {
		return fmt.Errorf("%w: network %q cannot be loaded or unloaded on device %d", ErrPolicy, a.Network, a.Device)
	}
	v := &c.st.Devices[a.Device]
	c.step(Step{Kind: a.Kind.String(), Device: a.Device}, nil)
	if a.Kind == sched.Unload {
		for _, l := range v.Launches {
			if l.Network == a.Network {
				return fmt.Errorf("%w: unload %q while launch %d uses it", ErrPolicy, a.Network, l.ID)
			}
		}
		v.Hosted = slices.DeleteFunc(v.Hosted, func(h sched.Hosted) bool { return h.Network == a.Network })
		return c.cfg.Loader.Unload(c.ctx, a.Device, a.Network)
	}
	cost, err := c.cfg.Loader.Load(c.ctx, a.Device, a.Network)
	if err != nil {
		return fmt.Errorf("load %q on device %d: %w", a.Network, a.Device, err)
	}
	if v.Table(a.Network) == nil {
		v.Hosted = append(v.Hosted, sched.Hosted{Network: a.Network, Table: c.cfg.Networks[i].Tables[a.Device]})
	}
	c.drv.schedule(Item{At: c.now + max(cost, 0)})
	return nil
}

// begin runs the segment after the exit reached.
func (c *core) begin(l *launch) {
	s := l.Reached + 1
	l.Phase, l.began = sched.Running, c.now
	j := &l.job
	j.First, j.Last = s, s
	j.Requests, j.Theta = j.Requests[:0], j.Theta[:0]
	for _, r := range l.reqs {
		j.Requests, j.Theta = append(j.Requests, r.ID), append(j.Theta, r.ThetaAt(s))
	}
	if most := l.seen.Thetas; most != nil {
		for i := range j.Theta {
			j.Theta[i] = min(j.Theta[i], most[s])
		}
	}
	c.drv.begin(l)
}

// segmentDone takes in the end of the segment that a launch ran.
func (c *core) segmentDone(l *launch) error {
	s, rep, err := l.Reached+1, l.rep, l.err
	took := c.now - l.began
	c.res.Busy[l.Device] += took
	if err == nil {
		err = c.contract(l, s, rep)
	}
	if !c.cfg.silent() {
		c.span(Span{Device: l.Device, Launch: l.ID, Segment: s, Start: l.began, End: c.now, Failed: err != nil}, l.reqs)
	}
	c.res.Segments++
	c.res.Samples[s] += int64(len(l.reqs))
	if l.doomed {
		c.spareLaunches.give(l)
		return nil
	}
	if err != nil {
		return c.fault(l, err)
	}
	c.res.Cycles += rep.Cycles
	add(&c.res.Stats, &rep.Stats)

	l.Reached, l.Phase = s, sched.AtExit
	before, kept := len(l.reqs), 0
	for i, r := range l.reqs {
		taken := rep.Results[i].Taken
		if !r.inFlight {
			l.seen.Pass(s, taken >= 0)
			if taken < 0 {
				if kept < i { // a request is large, and mostly nobody in front of it has left
					l.reqs[kept], l.Requests[kept] = r, l.Requests[i]
				}
				kept++
				continue
			}
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
	return c.tell(sched.Event{
		Kind: sched.SegmentDone, Device: l.Device, Launch: l.ID, Segment: s, Exited: before - len(l.reqs),
	})
}

// contract checks a report against what was asked for.
func (c *core) contract(l *launch, s int, rep *device.Report) error {
	name := c.devs[l.Device].info.Name
	if rep == nil {
		return fmt.Errorf("%w: %s gives neither a report nor an error", ErrDevice, name)
	}
	if len(rep.Results) != len(l.reqs) {
		return fmt.Errorf("%w: %s reports %d results for a batch of %d", ErrDevice, name, len(rep.Results), len(l.reqs))
	}
	last := s == l.table.Segments()-1
	for i := range rep.Results {
		res := &rep.Results[i]
		switch {
		case res.Request != l.reqs[i].ID:
			return fmt.Errorf("%w: %s reports request %d in place of %d", ErrDevice, name, res.Request, l.reqs[i].ID)
		case last && res.Taken < 0:
			return fmt.Errorf("%w: %s leaves request %d in the batch after the last exit", ErrDevice, name, res.Request)
		case res.Taken >= 0 && (res.Taken != s || exitResult(res.Exits, s) == nil):
			return fmt.Errorf("%w: %s lets request %d take exit %d in segment %d", ErrDevice, name, res.Request, res.Taken, s)
		}
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

func (c *core) finish(l *launch, r *request, exit int, exits []device.ExitResult) {
	e, rec := exitResult(exits, exit), c.record(r)
	rec.Exit, rec.Class, rec.Confidence = exit, e.Class, e.Confidence
	if c.res.Stream == nil {
		rec.Logits = HashLogits(e.Raw)
	}
	how := OnTime
	if c.now > r.Deadline {
		how = Late
	}
	l.seen.Ended++
	c.end(r, how, "")
}

// HashLogits is the SHA-256, in hexadecimal, of raw logits as little-endian int16.
func HashLogits(raw []int16) string {
	b := make([]byte, 0, 2*len(raw))
	for _, v := range raw {
		b = binary.LittleEndian.AppendUint16(b, uint16(v))
	}
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:])
}

// fault takes a device out of service for a reset. All its launches end: only the inputs are known
// to survive a reset (device.Blocking), so halted requests start again too.
func (c *core) fault(l *launch, cause error) error {
	d := l.Device
	c.res.Faults++
	if errors.Is(cause, context.DeadlineExceeded) {
		c.res.Hangs++
	}
	v := &c.st.Devices[d]
	v.Down = true
	ready := c.now + c.cfg.resetCost()
	for _, view := range slices.Clone(v.Launches) {
		o := c.find(view.ID)
		for _, r := range o.reqs {
			r.launch = nil
			c.release(r)
			switch {
			case r.inFlight:
				c.landed(r)
			case !r.retried && ready+v.Table(r.Network).Alone() <= r.Deadline:
				r.retried = true
				c.record(r).Retried = true
				c.res.Retries++
				c.st.Queue.Insert(&r.Request)
			default:
				c.end(r, Errored, cause.Error())
			}
		}
		o.reqs, o.doomed = o.reqs[:0], o != l && o.Phase == sched.Running
		c.forget(o)
		if !o.doomed { // else its segment's end comes first
			c.spareLaunches.give(o)
		}
	}
	c.res.Resets++
	c.drv.reset(d)
	return c.tell(sched.Event{Kind: sched.Fault, Device: d, Launch: l.ID})
}

// deviceUp takes in the end of a reset.
func (c *core) deviceUp(d int, err error) error {
	if err != nil {
		c.devs[d].dead = true
		if c.allDead() {
			c.drain(fmt.Sprintf("no device is left: reset %s: %v", c.devs[d].info.Name, err))
		}
		return nil
	}
	c.st.Devices[d].Down = false
	return c.tell(sched.Event{Kind: sched.Loaded, Device: d})
}

func (c *core) allDead() bool {
	for i := range c.devs {
		if !c.devs[i].dead {
			return false
		}
	}
	return true
}

func (c *core) drain(why string) {
	for {
		q, ok := c.st.Queue.Pop()
		if !ok {
			return
		}
		c.end(c.reqs.get(uint64(q.ID)), Errored, why)
	}
}

// close ends a run that has no event left.
func (c *core) close() error {
	if c.st.Queue.Len() > 0 && slices.ContainsFunc(c.devs, func(d dev) bool { return d.dead }) {
		c.drain("no device is left that serves the network")
	}
	if n := c.reqs.n; n > 0 {
		return fmt.Errorf("%w: %s, %d of %d", ErrStuck, c.res.Policy, n, c.last)
	}
	return nil
}

// end gives a request its ending.
func (c *core) end(r *request, how Ending, why string) {
	rec := c.record(r)
	rec.Ending, rec.Ended, rec.Why = how, c.now, why
	c.res.End = max(c.res.End, c.now)
	r.ended = true
	if rec.Started < 0 {
		c.traffic(r.Network).Gone(r.Arrived)
	}
	if c.res.Stream != nil {
		c.res.Stream.take(rec)
	}
	if !r.inFlight {
		c.reqs.drop(uint64(r.ID))
	}
	c.ended++
	if c.cfg.Progress != nil {
		c.cfg.Progress(c.ended)
	}
	t := r.task
	t.worst = max(t.worst, how)
	if t.left--; t.left > 0 {
		return
	}
	c.tasks.drop(t.ID)
	for _, it := range c.cfg.Source.Ended(c.now, &t.Task, t.worst) {
		it.At = max(it.At, c.now)
		c.drv.schedule(it)
	}
	c.recycle(t)
}

// landed forgets a request that ended while its segment ran, now that the segment has ended.
func (c *core) landed(r *request) {
	c.reqs.drop(uint64(r.ID))
	r.task.flying--
	c.recycle(r.task)
}

// recycle keeps a task and its requests for later ones when nobody can see them any more: the
// fields stay as they are until the next arrival, which is another event.
func (c *core) recycle(t *task) {
	if t.left > 0 || t.flying > 0 {
		return
	}
	for _, r := range t.reqs {
		c.spareReqs.give(r)
	}
	c.spareTasks.give(t)
}

func (c *core) record(r *request) *Record {
	if c.res.Stream != nil {
		return &r.rec
	}
	return &c.res.Records[r.ID-1]
}

func (c *core) leave(l *launch, r *request) {
	i := slices.Index(l.reqs, r)
	l.reqs = slices.Delete(l.reqs, i, i+1)
	l.Requests = slices.Delete(l.Requests, i, i+1)
	r.launch = nil
}

func (c *core) release(r *request) {
	if r.dev >= 0 {
		c.devs[r.dev].Release(r.ID)
		c.devs[r.dev].slots--
		r.dev = -1
	}
}

func ids(reqs []*request) []device.RequestID {
	out := make([]device.RequestID, len(reqs))
	for i, r := range reqs {
		out[i] = r.ID
	}
	return out
}

func (c *core) step(s Step, reqs []*request) {
	if c.cfg.silent() {
		return
	}
	s.At, s.Requests = c.now, ids(reqs)
	c.res.Steps = append(c.res.Steps, s)
}

func (c *core) span(s Span, reqs []*request) {
	if c.cfg.silent() {
		return
	}
	s.Requests = ids(reqs)
	c.res.Spans = append(c.res.Spans, s)
}

func add(a, b *device.Stats) {
	a.Cycles, a.MACCycles, a.MACs = a.Cycles+b.Cycles, a.MACCycles+b.MACCycles, a.MACs+b.MACs
	a.BytesRead, a.BytesWritten, a.Starts = a.BytesRead+b.BytesRead, a.BytesWritten+b.BytesWritten, a.Starts+b.Starts
}
