// This file has the state of a run: waiting requests, launches, devices, and the part that the policy sees. Run and
// Server share this state. They differ in the source of events and in the meaning of time.

package engine

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/sched"
)

// never is later than any time.
const never = sched.Never

type request struct {
	sched.Request
	task     *task
	launch   *launch
	seen     *sched.Traffic // traffic of the network that the request's task named
	dev      int            // the device with a slot for the request, also during the copy; -1: none
	home     *family        // the family that the task named; nil if the task named a network
	waits    bool           // the request is in the queue of its device
	copying  bool           // the request's input is being copied
	retried  bool
	ended    bool
	shown    int  // number of exits that its ticket has received
	inFlight bool // the request has ended, but its segment or copy still runs and uses its slot
	rec      Record

	input func() ([]device.Tensor, error)
}

// family is a family of networks, which a request's task has named.
type family struct{ name string }

type task struct {
	sched.Task
	left   int
	flying int // number of ended requests whose segment or copy still runs
	worst  Ending
	over   bool // all samples of the task are being ended together
	reqs   []*request
	ticket *Ticket // ticket that reports to the task's caller; nil: none

	older, newer *task // neighbours in the list of tasks that have not ended
}

type launch struct {
	sched.LaunchView
	reqs   []*request
	table  *sched.Table
	seen   *sched.Traffic // traffic of the launch's network
	on     *dev
	width  int         // number of units in Units; 0: the whole device
	began  Time        // start of the running segment
	work   device.Work // the memory of its slices is reused for the next work
	busy   bool        // the launch has work in progress
	holds  bool        // the launch uses a place of its device
	doomed error       // error of its device or partition; nil: no failure. The requests start again later
	limit  Time        // time of the watchdog's next check of the launch
	second bool        // in real time: the watchdog has already checked the launch once at this limit
	seenAt uint64      // progress of the launch at the last check
	killed bool
	lost   bool // abandoned: the device may still read its memory, which is not reused
	listed bool // work.Launch lists its requests and thresholds
}

type dev struct {
	device.Device
	v         device.Virtual // the device's interface in virtual time
	info      device.Info
	undivided bool // every launch uses the whole device
	at        int  // index of the device
	slots     int
	held      int    // number of places in use
	running   int    // number of launches with work in progress
	since     Time   // when the first of the running launches began
	freed     Time   // when the last running launch ended
	seq       uint64 // sequence number of the work begun last
	watch     Time   // earliest time limit of the work on the device
	stale     bool   // the fields below must be computed again
	hangs     bool   // next is a limit of the watchdog
	next      Time   // time of the device's next event, or of the watchdog's check
	dead      bool
	idle      int // number of consecutive times that an event was due but none came
	outages   []*outage
}

// begin begins work on a device. This may change the time of the device's next event.
func (d *dev) begin(ctx context.Context, now Time, w *device.Work) (bool, error) {
	d.stale = true
	return d.Begin(ctx, now, w)
}

func (d *dev) abort(now Time, id device.WorkID, kill bool) {
	d.stale = true
	d.Abort(now, id, kill)
}

// outage is a failed part of a device: its units, or the whole device if units is empty.
type outage struct {
	units     device.Units
	tries     int
	resetting bool
	began     Time
}

// job is a copy, load, unload or reset.
type job struct {
	work  device.Work
	dev   int
	req   *request // Copy
	net   *Network // Load, Unload
	out   *outage  // Reset
	of    *change  // Load, Unload: the change that waits for the end of this job
	cut   bool     // Load, Unload: the device has failed since the job began
	began Time
	limit Time
	seen  bool // in real time: the watchdog has already checked the job once at this limit
}

// core is the state of a run. Each embedded part has one purpose.
type core struct {
	ctx  context.Context // context for the work of devices
	cfg  *Config
	real bool               // in real time
	plan func(p sched.Plan) // starts a plan; planned receives its result
	st   sched.State
	nets []*Network // Config.Networks, and the networks added since

	clocks
	tasks
	launches
	health
	asking
	results
	admission   admission
	changes     []*change
	families    map[string]*family
	interrupted bool // the run's context ended while a copy began
	shut        bool // the policy is not asked any more
	drained     bool // the source is not asked any more
}

// clocks has the time and the future events.
type clocks struct {
	now   Time
	waits []Time // times at which the policy requested to be called
	events
}

// tasks represents the tasks that have not ended, with their requests.
type tasks struct {
	reqs       index[request] // requests that have not ended or are still in a running segment
	byID       index[task]
	oldest     *task // first of the list of tasks, which is in order of arrival
	newest     *task
	last       device.RequestID
	given      uint64 // number of ids assigned to tickets
	spareReqs  pool[request]
	spareTasks pool[task]
	spoiled    []spoiled // with admission by the tables: tasks that must end
}

// spoiled is a task with a sample that has ended without a result.
type spoiled struct {
	task uint64
	how  Ending
	why  string
}

// launches has all launches that have requests or work in progress.
type launches struct {
	live   []*launch // visible to the policy; a short list
	doom   []*launch // no longer visible to the policy, but with work in progress
	next   device.LaunchID
	left   bool    // a launch may have no requests left
	atExit *launch // the launch that has just reached an exit with requests left
	spare  pool[launch]
}

// health has the devices and their work, which may fail or hang.
type health struct {
	devs      []dev
	jobs      []*job
	works     device.WorkID
	fails     []failed
	spareJobs pool[job]
	gone      atomic.Bool // every device has been given up
}

// asking has the data for a call of the policy.
type asking struct {
	ev       sched.Event // the event that the policy receives
	buf      []sched.Action
	again    bool // something has ended without an event, so the policy is asked once more
	planning int  // plans in progress
}

// results has the run's result and the observer's last arguments.
type results struct {
	res    Result
	keep   recorder
	ended  int
	traced bool // steps and spans are recorded or passed to an observer
	latest reported
}

// failed is a launch whose work the device rejected.
type failed struct {
	l   *launch
	err error
}

func newCore(cfg *Config) (*core, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	if cfg.Keep == AsUsual {
		cfg.Keep = Everything
	}
	c := &core{cfg: cfg, families: map[string]*family{}}
	c.keep, c.traced = recorder{&c.res, cfg.Keep}, cfg.Keep == Everything || cfg.Observer != nil
	_, preempts := cfg.Policy.(sched.Interrupting)
	c.admission, c.st.ByTable = admission{on: cfg.ByTable, st: &c.st, preempts: preempts, pace: 1}, cfg.ByTable
	c.res.Policy = cfg.Policy.Name()
	c.res.Busy = make([]Time, len(cfg.Devices))
	segments := 0
	for i, d := range cfg.Devices {
		info := d.Info()
		c.devs = append(c.devs, dev{Device: d, info: info, at: i, undivided: info.Units == 0 && info.Places == 1, watch: never})
		most := info.MaxBatch
		if p, ok := cfg.Policy.(sched.Limited); ok && p.Largest() > 0 { // the policy launches no larger batches
			most = min(most, p.Largest())
		}
		v := sched.DeviceView{
			MaxBatch: most, Places: info.Places, Slots: info.Slots,
			Units: info.Units, UnitAlign: max(1, info.UnitAlign), Neighbours: info.Neighbours, Priorities: info.Priorities,
		}
		for k := range cfg.Networks {
			n := &cfg.Networks[k]
			t := n.Tables[i]
			if t == nil {
				continue
			}
			segments = max(segments, t.Segments())
			if !n.Cold {
				v.Hosted = append(v.Hosted, n.hosted(i))
			}
		}
		c.st.Devices = append(c.st.Devices, v)
	}
	c.res.Samples = make([]int64, segments)
	c.res.Stream.Exits = make([]int64, segments)
	for i := range cfg.Networks {
		n := &cfg.Networks[i]
		c.nets = append(c.nets, n)
		c.see(n.Name, segments)
		if n.Family != "" && c.families[n.Family] == nil {
			c.families[n.Family] = &family{n.Family}
			c.see(n.Family, segments)
		}
	}
	return c, nil
}

func (c *core) see(name string, segments int) {
	c.st.Traffic = append(c.st.Traffic, sched.Traffic{
		Network: name, Passed: make([]int64, segments), Left: make([]int64, segments),
	})
}

// hosted is the network as listed in a device's view.
func (n *Network) hosted(dev int) sched.Hosted {
	h := sched.Hosted{Network: n.Name, Family: n.Family, Table: n.Tables[dev]}
	h.Family = cmp.Or(h.Family, n.Name)
	return h
}

func (c *core) traffic(network string) *sched.Traffic { return trafficOf(&c.st, network) }

func trafficOf(s *sched.State, network string) *sched.Traffic {
	for i := range s.Traffic {
		if s.Traffic[i].Network == network {
			return &s.Traffic[i]
		}
	}
	return nil
}

// tell asks the policy about an event and carries out its answer.
func (c *core) tell(ev sched.Event) error {
	c.ev = ev
	return c.ask()
}

// ask does the same as tell, for the event in c.ev. The policy reads this event in place.
func (c *core) ask() error {
	for !c.shut {
		c.giveUp()
		if c.left {
			c.retire()
		}
		c.buf = c.cfg.Policy.Decide(c.now, &c.st, &c.ev, c.buf[:0])
		c.res.Calls++
		for i := range c.buf {
			if err := c.do(&c.buf[i]); err != nil {
				return fmt.Errorf("policy %s, %s at %d ns: %w", c.res.Policy, c.buf[i].Kind, c.now, err)
			}
		}
		if l := c.atExit; l != nil { // the policy did not preempt the launch, so its next segment begins
			c.atExit = nil
			if l.Phase == sched.AtExit && l.Reached < l.Last && len(l.reqs) > 0 {
				if err := c.goOn(l); err != nil {
					return err
				}
			}
		}
		if len(c.fails) > 0 {
			return c.refused()
		}
		if !c.again {
			return nil
		}
		c.again = false
		c.ev = sched.Event{Kind: sched.Fault}
	}
	return nil
}

// goOn begins the next segment of a launch.
func (c *core) goOn(l *launch) error {
	if !l.on.undivided || l.on.held > 0 || c.st.Devices[l.Device].Down {
		if err := c.place(l.Device, &l.Units, l.Exclusive); err != nil {
			return fmt.Errorf("policy %s, at %d ns: launch %d goes on: %w", c.res.Policy, c.now, l.ID, err)
		}
	}
	c.begin(l)
	return nil
}

// refused handles launches whose work the device rejected.
func (c *core) refused() error {
	f := c.fails[0]
	c.fails = slices.Delete(c.fails, 0, 1)
	return c.fault(f.l, f.err)
}

// planned tells the policy the result of a plan.
func (c *core) planned(found any) error {
	c.planning--
	c.st.Found = found
	err := c.tell(sched.Event{Kind: sched.Planned})
	c.st.Found = nil
	return err
}

// retire removes launches that have no requests left.
func (c *core) retire() {
	c.left = false
	for i := 0; i < len(c.live); {
		l := c.live[i]
		if len(l.Requests) > 0 || l.Phase == sched.Running || l.Phase == sched.Stopping {
			i++
			continue
		}
		c.unlist(l)
		c.live = without(c.live, i)
		c.spare.give(l)
	}
}

// find returns the launch with this id; nil if there is none.
func (c *launches) find(id device.LaunchID) *launch {
	for _, l := range c.live {
		if l.ID == id {
			return l
		}
	}
	return nil
}

// unlist removes a launch from its device's view.
func (c *core) unlist(l *launch) {
	v := &c.st.Devices[l.Device]
	if i := slices.Index(v.Launches, &l.LaunchView); i >= 0 {
		v.Launches = without(v.Launches, i)
	}
}

// forget removes a launch that has no work in progress.
func (c *core) forget(l *launch) {
	c.unlist(l)
	if i := slices.Index(c.live, l); i >= 0 {
		c.live = without(c.live, i)
	}
	if c.atExit == l {
		c.atExit = nil
	}
}

// leave removes a request from a launch.
func (c *core) leave(l *launch, r *request) {
	i := slices.Index(l.reqs, r)
	c.left = c.left || len(l.reqs) == 1
	l.reqs = slices.Delete(l.reqs, i, i+1)
	l.Requests = slices.Delete(l.Requests, i, i+1)
	l.listed = false
	r.launch = nil
}

// release frees a request's slot.
func (c *core) release(r *request) {
	if r.dev >= 0 {
		c.devs[r.dev].Release(r.ID)
		c.devs[r.dev].slots--
		c.st.Devices[r.dev].Used--
		r.dev = -1
	}
}

func (c *health) allDead() bool {
	for i := range c.devs {
		if !c.devs[i].dead {
			return false
		}
	}
	return true
}

// idle reports whether no device works and no event is scheduled. Timers and cancels do not count if there are no
// tasks, since they have no effect then.
func (c *core) idle() bool {
	if c.planning > 0 || len(c.jobs) > 0 || len(c.doom) > 0 {
		return false
	}
	for i := range c.heap {
		if e := &c.heap[i]; c.byID.n > 0 || e.fresh || e.task != nil || e.x != nil {
			return false
		}
	}
	for i := range c.devs {
		if c.devs[i].held > 0 {
			return false
		}
	}
	return true
}

// stopSource stops asking the source, and drops the source's items that are not due yet.
func (c *core) stopSource() {
	c.drained = true
	c.heap = slices.DeleteFunc(c.heap, func(e event) bool { return e.fresh || e.task != nil })
	slices.SortFunc(c.heap, func(a, b event) int { // a sorted list is a heap
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.seq, b.seq))
	})
}

// close ends a run in which no event is left.
func (c *core) close() error {
	if slices.ContainsFunc(c.devs, func(d dev) bool { return d.dead }) {
		c.drain("no device is left that serves the network")
	}
	if n := c.reqs.n; n > 0 {
		return fmt.Errorf("%w: %s, %d of %d", ErrStuck, c.res.Policy, n, c.last)
	}
	return nil
}

// stop ends all remaining requests when a run cannot continue. It tells the devices to stop. The remaining events of
// the devices free the slots.
func (c *core) stop(why error) {
	c.shut = true
	c.st.Queue = sched.Queue{} // remove all requests at once, since there may be hundreds of thousands
	for i := range c.st.Devices {
		c.st.Devices[i].Queue = sched.Queue{}
	}
	c.reqs, c.byID = index[request]{}, index[task]{} // nothing is looked up any more
	for c.oldest != nil {
		c.takeBack(c.oldest, Errored, why.Error())
	}
	for _, l := range slices.Concat(c.live, c.doom) {
		if l.busy {
			c.devs[l.Device].abort(c.now, l.work.ID, true)
		}
	}
	for _, j := range c.jobs {
		c.devs[j.dev].abort(c.now, j.work.ID, true)
	}
}

// flying reports whether devices still have work.
func (c *core) flying() bool {
	if len(c.jobs) > 0 || len(c.doom) > 0 {
		return true
	}
	return slices.ContainsFunc(c.devs, func(d dev) bool { return d.running > 0 })
}
