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
	begin(l *launch, job device.Launch)
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
	inFlight bool // cancelled while its segment runs: its slot is freed afterwards
}

type task struct {
	sched.Task
	left  int
	worst Ending
	reqs  []*request
}

type launch struct {
	sched.LaunchView
	reqs     []*request
	began    Time
	doomed   bool // its device failed while it ran; its requests are elsewhere
	part     uint64
	priority int
}

type dev struct {
	device.Device
	info  device.Info
	slots int
	dead  bool
}

type core struct {
	ctx   context.Context // lives as long as the run
	cfg   *Config
	drv   driver
	now   Time
	st    sched.State
	devs  []dev
	reqs  map[device.RequestID]*request // not ended, or still in a running segment
	tasks map[uint64]*task
	live  map[device.LaunchID]*launch
	next  device.LaunchID
	buf   []sched.Action
	again bool // something ended outside an event: ask the policy once more
	ended int
	res   Result
}

func newCore(ctx context.Context, cfg *Config) (*core, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	c := &core{
		ctx: ctx, cfg: cfg,
		reqs: map[device.RequestID]*request{}, tasks: map[uint64]*task{}, live: map[device.LaunchID]*launch{},
	}
	c.res.Policy = cfg.Policy.Name()
	c.res.Busy = make([]Time, len(cfg.Devices))
	segments := 0
	for i, d := range cfg.Devices {
		info := d.Info()
		c.devs = append(c.devs, dev{Device: d, info: info})
		v := sched.DeviceView{MaxBatch: info.MaxBatch, Places: info.Launches}
		for _, n := range cfg.Networks {
			if t := n.Tables[i]; t != nil {
				v.Hosted = append(v.Hosted, sched.Hosted{Network: n.Name, Table: t})
				segments = max(segments, t.Segments())
			}
		}
		c.st.Devices = append(c.st.Devices, v)
	}
	c.res.Samples = make([]int64, segments)
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
	return c.tell(sched.Event{Kind: sched.Timer})
}

func (c *core) arrive(in *sched.Task) error {
	t := &task{Task: *in}
	t.Arrived = c.now
	if t.Samples == 0 {
		t.Samples = 1
	}
	switch {
	case t.ID == 0 || c.tasks[t.ID] != nil:
		return fmt.Errorf("%w: task id %d is zero or taken", ErrSource, t.ID)
	case t.Samples < 0 || t.Samples > maxSamples:
		return fmt.Errorf("%w: task %d has %d samples", ErrSource, t.ID, t.Samples)
	case !slices.ContainsFunc(c.cfg.Networks, func(n Network) bool { return n.Name == t.Network }):
		return fmt.Errorf("%w: task %d is for network %q, which is not served", ErrSource, t.ID, t.Network)
	}
	t.left = t.Samples
	c.tasks[t.ID] = t
	admitted := c.cfg.Admission == nil || c.cfg.Admission(c.now, &c.st, &t.Task)
	for s := range t.Samples {
		r := &request{task: t, dev: -1, Request: sched.Request{
			ID: device.RequestID(len(c.res.Records) + 1), Task: t.ID, Sample: s, Network: t.Network,
			Arrived: c.now, Deadline: t.Deadline, Priority: t.Priority, Theta: t.Theta, Thetas: t.Thetas,
		}}
		c.res.Records = append(c.res.Records, Record{
			ID: r.ID, Task: t.ID, Sample: s, Arrived: c.now, Deadline: t.Deadline, Started: -1, Exit: -1, Class: -1,
		})
		c.reqs[r.ID] = r
		t.reqs = append(t.reqs, r)
	}
	reqs := t.reqs // the last ending forgets the task
	for _, r := range reqs {
		switch {
		case !admitted:
			c.end(r, Refused, "")
		case c.allDead():
			c.end(r, Errored, "no device is left")
		default:
			c.st.Queue.Push(r.Request)
		}
	}
	if !admitted || c.allDead() {
		return nil
	}
	return c.tell(sched.Event{Kind: sched.Arrival, Request: reqs[len(reqs)-1].ID})
}

func (c *core) cancel(id uint64) error {
	t := c.tasks[id]
	if t == nil {
		return nil // it has ended: too late to take back
	}
	var last device.RequestID
	for _, r := range t.reqs {
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
					c.begin(c.live[v.ID])
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
	for d := range c.st.Devices {
		v := &c.st.Devices[d]
		v.Launches = slices.DeleteFunc(v.Launches, func(l *sched.LaunchView) bool {
			gone := len(l.Requests) == 0 && l.Phase != sched.Running
			if gone {
				delete(c.live, l.ID)
			}
			return gone
		})
	}
}

func (c *core) do(a *sched.Action) error {
	switch a.Kind {
	case sched.Launch:
		return c.launch(a)
	case sched.Preempt:
		l := c.live[a.Launch]
		if l == nil || l.Phase != sched.AtExit || l.Reached < 0 {
			return fmt.Errorf("%w: launch %d is at no exit", ErrPolicy, a.Launch)
		}
		if c.devs[l.Device].info.Preempt == device.PreemptNever {
			return fmt.Errorf("%w: device %d cannot be preempted", ErrPolicy, l.Device)
		}
		l.Phase = sched.Halted
		c.res.Preemptions++
		c.step(Step{Kind: a.Kind.String(), Device: l.Device, Launch: l.ID, First: l.Reached, Last: l.Reached}, l.reqs)
		return nil
	case sched.Merge:
		return c.merge(a)
	case sched.Resume:
		return c.resume(a)
	case sched.Drop:
		r := c.reqs[a.Request]
		if r == nil || r.launch != nil || r.ended {
			return fmt.Errorf("%w: request %d is not in the queue", ErrPolicy, a.Request)
		}
		c.st.Queue.Remove(r.ID)
		c.step(Step{Kind: a.Kind.String(), Device: -1}, []*request{r})
		c.end(r, Dropped, "")
		return nil
	case sched.Wait:
		if a.Until <= c.now {
			return fmt.Errorf("%w: the time to wait for, %d ns, has passed", ErrPolicy, a.Until)
		}
		c.drv.schedule(Item{At: a.Until})
		return nil
	case sched.LoadNetwork, sched.Unload:
		return c.host(a)
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
	if running >= c.devs[i].info.Launches {
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
	l := &launch{
		LaunchView: sched.LaunchView{
			ID: c.next, Device: a.Device, Network: a.Network, Last: a.Last, Reached: -1, Phase: sched.AtExit,
		},
		part: a.Partition, priority: a.Priority,
	}
	for i := range n {
		var q sched.Request
		ok := true
		if a.Requests != nil {
			q, ok = c.st.Queue.Remove(a.Requests[i])
		} else {
			q, ok = c.st.Queue.Pop()
		}
		if !ok || q.Network != a.Network {
			return fmt.Errorf("%w: request %d of the launch is not waiting for %q", ErrPolicy, i, a.Network)
		}
		r := c.reqs[q.ID]
		if err := c.admit(a.Device, r); err != nil {
			c.end(r, Errored, err.Error())
			continue
		}
		if rec := c.record(r); rec.Started < 0 {
			rec.Started = c.now
		}
		r.launch = l
		l.reqs = append(l.reqs, r)
		l.Requests = append(l.Requests, r.Request)
	}
	if len(l.reqs) == 0 {
		c.again = true
		return nil
	}
	c.live[l.ID] = l
	v.Launches = append(v.Launches, &l.LaunchView)
	c.res.Launches++
	c.step(Step{Kind: a.Kind.String(), Device: a.Device, Launch: l.ID, First: a.First, Last: a.Last}, l.reqs)
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
	from, into := c.live[a.Launch], c.live[a.Into]
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
	c.forget(from)
	c.res.Merges++
	c.step(Step{Kind: a.Kind.String(), Device: into.Device, Launch: from.ID, Into: into.ID, First: into.Reached, Last: into.Reached}, into.reqs)
	return nil
}

func (c *core) resume(a *sched.Action) error {
	l := c.live[a.Launch]
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
	v.Launches = slices.DeleteFunc(v.Launches, func(o *sched.LaunchView) bool { return o == &l.LaunchView })
	v.Launches = append(v.Launches, &l.LaunchView)
	c.step(Step{Kind: a.Kind.String(), Device: l.Device, Launch: l.ID, First: l.Reached + 1, Last: l.Last}, l.reqs)
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
	job := device.Launch{
		ID: l.ID, Device: l.Device, Network: l.Network, First: s, Last: s, Partition: l.part, Priority: l.priority,
		Requests: make([]device.RequestID, len(l.reqs)), Theta: make([]float32, len(l.reqs)),
	}
	for i, r := range l.reqs {
		job.Requests[i], job.Theta[i] = r.ID, r.ThetaAt(s)
	}
	c.drv.begin(l, job)
}

// segmentDone takes in the end of the segment that a launch ran.
func (c *core) segmentDone(l *launch, rep device.Report, err error) error {
	s := l.Reached + 1
	took := c.now - l.began
	c.res.Busy[l.Device] += took
	if err == nil {
		err = c.contract(l, s, rep)
	}
	c.span(Span{Device: l.Device, Launch: l.ID, Segment: s, Start: l.began, End: c.now, Failed: err != nil}, l.reqs)
	c.res.Segments++
	c.res.Samples[s] += int64(len(l.reqs))
	if l.doomed {
		return nil
	}
	if err != nil {
		return c.fault(l, err)
	}
	c.res.Cycles += rep.Cycles
	c.res.Stats = add(c.res.Stats, rep.Stats)

	l.Reached, l.Phase = s, sched.AtExit
	before := len(l.reqs)
	for i, r := range slices.Clone(l.reqs) {
		taken := rep.Results[i].Taken
		if !r.inFlight && taken < 0 {
			continue
		}
		c.leave(l, r)
		c.release(r)
		if r.inFlight {
			delete(c.reqs, r.ID)
			continue
		}
		c.finish(r, taken, rep.Results[i].Exits)
	}
	return c.tell(sched.Event{
		Kind: sched.SegmentDone, Device: l.Device, Launch: l.ID, Segment: s, Exited: before - len(l.reqs),
	})
}

// contract checks a report against what was asked for.
func (c *core) contract(l *launch, s int, rep device.Report) error {
	name := c.devs[l.Device].info.Name
	if len(rep.Results) != len(l.reqs) {
		return fmt.Errorf("%w: %s reports %d results for a batch of %d", ErrDevice, name, len(rep.Results), len(l.reqs))
	}
	last := s == c.st.Devices[l.Device].Table(l.Network).Segments()-1
	for i, res := range rep.Results {
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

func (c *core) finish(r *request, exit int, exits []device.ExitResult) {
	e, rec := exitResult(exits, exit), c.record(r)
	rec.Exit, rec.Class, rec.Confidence, rec.Logits = exit, e.Class, e.Confidence, HashLogits(e.Raw)
	how := OnTime
	if c.now > r.Deadline {
		how = Late
	}
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
// to survive a reset (device.Device), so halted requests start again too.
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
		o := c.live[view.ID]
		for _, r := range o.reqs {
			r.launch = nil
			c.release(r)
			switch {
			case r.inFlight:
				delete(c.reqs, r.ID)
			case !r.retried && ready+v.Table(r.Network).Alone() <= r.Deadline:
				r.retried = true
				c.record(r).Retried = true
				c.res.Retries++
				c.st.Queue.Insert(r.Request)
			default:
				c.end(r, Errored, cause.Error())
			}
		}
		o.reqs, o.doomed = nil, o != l && o.Phase == sched.Running
		c.forget(o)
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
	return !slices.ContainsFunc(c.devs, func(d dev) bool { return !d.dead })
}

func (c *core) drain(why string) {
	for {
		q, ok := c.st.Queue.Pop()
		if !ok {
			return
		}
		c.end(c.reqs[q.ID], Errored, why)
	}
}

// close ends a run that has no event left.
func (c *core) close() error {
	if c.st.Queue.Len() > 0 && slices.ContainsFunc(c.devs, func(d dev) bool { return d.dead }) {
		c.drain("no device is left that serves the network")
	}
	if n := len(c.reqs); n > 0 {
		return fmt.Errorf("%w: %s, %d of %d", ErrStuck, c.res.Policy, n, len(c.res.Records))
	}
	return nil
}

// end gives a request its ending.
func (c *core) end(r *request, how Ending, why string) {
	rec := c.record(r)
	rec.Ending, rec.Ended, rec.Why = how, c.now, why
	c.res.End = max(c.res.End, c.now)
	r.ended = true
	if !r.inFlight {
		delete(c.reqs, r.ID)
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
	delete(c.tasks, t.ID)
	for _, it := range c.cfg.Source.Ended(c.now, &t.Task, t.worst) {
		it.At = max(it.At, c.now)
		c.drv.schedule(it)
	}
}

func (c *core) record(r *request) *Record { return &c.res.Records[r.ID-1] }

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

func (c *core) forget(l *launch) {
	v := &c.st.Devices[l.Device]
	v.Launches = slices.DeleteFunc(v.Launches, func(o *sched.LaunchView) bool { return o == &l.LaunchView })
	delete(c.live, l.ID)
}

func ids(reqs []*request) []device.RequestID {
	out := make([]device.RequestID, len(reqs))
	for i, r := range reqs {
		out[i] = r.ID
	}
	return out
}

func (c *core) step(s Step, reqs []*request) {
	if c.cfg.NoTrace {
		return
	}
	s.At, s.Requests = c.now, ids(reqs)
	c.res.Steps = append(c.res.Steps, s)
}

func (c *core) span(s Span, reqs []*request) {
	if c.cfg.NoTrace {
		return
	}
	s.Requests = ids(reqs)
	c.res.Spans = append(c.res.Spans, s)
}

func add(a, b device.Stats) device.Stats {
	return device.Stats{
		Cycles: a.Cycles + b.Cycles, MACCycles: a.MACCycles + b.MACCycles, MACs: a.MACs + b.MACs,
		BytesRead: a.BytesRead + b.BytesRead, BytesWritten: a.BytesWritten + b.BytesWritten, Starts: a.Starts + b.Starts,
	}
}
