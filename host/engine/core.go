// The books of a run: who waits, what runs where, what the policy sees of it. Run and Server share
// them; they differ in where events come from and in what time is.

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

// never is later than all else.
const never = sched.Never

type request struct {
	sched.Request
	task     *task
	launch   *launch
	seen     *sched.Traffic // of what its task named
	dev      int            // where it has a slot or is to have one, or -1
	home     *family        // the family that its task named; nil if it named a network
	waits    bool           // in the queue of its device, to which it was assigned
	copying  bool           // its input is under way
	retried  bool
	ended    bool
	shown    int  // exits that its ticket has been given
	inFlight bool // has ended while its segment or its copy runs: its slot is freed afterwards
	rec      Record

	input func() ([]device.Tensor, error)
}

// family is one that requests wait for, and not for one of its members.
type family struct{ name string }

type task struct {
	sched.Task
	left   int
	flying int // requests that have ended in a running segment
	worst  Ending
	over   bool // its samples end together
	reqs   []*request
	ticket *Ticket // of the caller that opened it; nil: nobody waits

	older, newer *task // those that came before and after it and have not ended
}

type launch struct {
	sched.LaunchView
	reqs   []*request
	table  *sched.Table
	seen   *sched.Traffic // of its network
	on     *dev
	width  int         // units to which it is confined
	began  Time        // the segment that runs
	work   device.Work // its slices are used again
	busy   bool        // work is under way
	holds  bool        // a place
	doomed error       // what it runs on has failed: its requests start again when it has ended
	limit  Time        // when the watchdog looks at it
	second bool        // it has looked once at this limit, in real time
	seenAt uint64      // its progress when it looked last
	killed bool
	lost   bool // given up: it is not used again
	listed bool // work.Launch says who is in it, and with what thresholds
}

type dev struct {
	device.Device
	v         device.Virtual // in virtual time
	info      device.Info
	undivided bool // one launch at a time uses all of it
	at        int  // its number
	slots     int
	held      int    // places
	running   int    // pieces of work of launches
	since     Time   // when the first of them began
	freed     Time   // when the last of them ended
	seq       uint64 // of what was begun last
	watch     Time   // when the first of them may hang
	stale     bool   // what follows is to be found anew
	hangs     bool   // next is the watchdog's
	next      Time   // when it is to be looked at: at its next event, or when something hangs
	dead      bool
	idle      int // times in a row that something was due and nothing came
	outages   []*outage
}

// begin begins work on a device, which may change when its next event is due.
func (d *dev) begin(ctx context.Context, now Time, w *device.Work) (bool, error) {
	d.stale = true
	return d.Begin(ctx, now, w)
}

func (d *dev) abort(now Time, id device.WorkID, kill bool) {
	d.stale = true
	d.Abort(now, id, kill)
}

// outage is a part of a device that has failed: all of it, where no units are named.
type outage struct {
	units     device.Units
	tries     int
	resetting bool
	began     Time
}

// job is work that is no launch's.
type job struct {
	work  device.Work
	dev   int
	req   *request // Copy
	net   *Network // Load, Unload
	out   *outage  // Reset
	of    *change  // Load, Unload: whose end is waited for
	cut   bool     // Load, Unload: the device has failed meanwhile
	began Time
	limit Time
	seen  bool // the watchdog has looked once at this limit, in real time
}

// core is a run's books. What it knows is in parts, each with a concern of its own.
type core struct {
	ctx  context.Context // of the devices' work
	cfg  *Config
	real bool               // time passes by itself
	plan func(p sched.Plan) // begins a plan; its answer comes back through planned
	st   sched.State
	nets []*Network // Config.Networks, and those that have come since

	clocks
	tasks
	launches
	health
	asking
	results
	admission   admission
	changes     []*change
	families    map[string]*family
	interrupted bool // the run's context ended during a copy
	shut        bool // nobody is asked any more
	drained     bool // the source is not asked any more
}

// clocks are the time, and what is to come.
type clocks struct {
	now   Time
	waits []Time // timers that a policy has asked for and that have not come
	events
}

// tasks are those that have not ended, and their requests.
type tasks struct {
	reqs       index[request] // not ended, or still in a running segment
	byID       index[task]
	oldest     *task // they are a list too, in the order in which they came
	newest     *task
	last       device.RequestID
	given      uint64 // ids that tickets were given
	spareReqs  pool[request]
	spareTasks pool[task]
	spoiled    []spoiled // under admission by the tables, those that are to be ended
}

// spoiled is a task of which one sample has ended without a result.
type spoiled struct {
	task uint64
	how  Ending
	why  string
}

// launches are those that have requests or run.
type launches struct {
	live   []*launch // a few at most
	doom   []*launch // that run on and are in nobody's view
	next   device.LaunchID
	left   bool    // a launch may have nobody left in it
	atExit *launch // has just come to an exit, with somebody left: one at most, since the policy is asked after each
	spare  pool[launch]
}

// health is the devices with their work, which may fail or hang.
type health struct {
	devs      []dev
	jobs      []*job
	works     device.WorkID
	fails     []failed
	spareJobs pool[job]
	gone      atomic.Bool // every device is given up
}

// asking is how the policy is asked.
type asking struct {
	ev       sched.Event // that it is told
	buf      []sched.Action
	again    bool // something ended outside an event: ask it once more
	planning int  // plans that are being made
}

// results are what a run returns, and what its observer was told last.
type results struct {
	res    Result
	keep   recorder
	ended  int
	traced bool // steps and spans are listened to
	latest reported
}

// failed is a launch whose work was refused.
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
		if p, ok := cfg.Policy.(sched.Limited); ok && p.Largest() > 0 { // admission counts with no larger ones
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

// hosted is the network as a device's view lists it.
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

// tell asks the policy and carries out its answer.
func (c *core) tell(ev sched.Event) error {
	c.ev = ev
	return c.ask()
}

// ask is tell with the event in c.ev, which the policy reads in place.
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
		if l := c.atExit; l != nil { // and was not preempted: its next segment
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

// refused records that a launch's work was refused.
func (c *core) refused() error {
	f := c.fails[0]
	c.fails = slices.Delete(c.fails, 0, 1)
	return c.fault(f.l, f.err)
}

// planned hands over what a plan has found.
func (c *core) planned(found any) error {
	c.planning--
	c.st.Found = found
	err := c.tell(sched.Event{Kind: sched.Planned})
	c.st.Found = nil
	return err
}

// retire forgets launches that nobody is in any more.
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

// find is the launch with this id, nil where there is none.
func (c *launches) find(id device.LaunchID) *launch {
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
	if c.atExit == l {
		c.atExit = nil
	}
}

// leave takes a request out of a launch.
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

// idle tells whether no device works and nothing is to come by itself. Timers and cancels are for the tasks
// that are there; where none is, they keep nothing open.
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

// stopSource asks the source no more, and drops what it has brought and is not due yet.
func (c *core) stopSource() {
	c.drained = true
	c.heap = slices.DeleteFunc(c.heap, func(e event) bool { return e.fresh || e.task != nil })
	slices.SortFunc(c.heap, func(a, b event) int { // what is in order is a heap
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.seq, b.seq))
	})
}

// close ends a run that has no event left.
func (c *core) close() error {
	if slices.ContainsFunc(c.devs, func(d dev) bool { return d.dead }) {
		c.drain("no device is left that serves the network")
	}
	if n := c.reqs.n; n > 0 {
		return fmt.Errorf("%w: %s, %d of %d", ErrStuck, c.res.Policy, n, c.last)
	}
	return nil
}

// stop ends everything that has not ended: a run that comes to nothing else. Devices are told to let
// go; what they still answer frees their slots.
func (c *core) stop(why error) {
	c.shut = true
	c.st.Queue = sched.Queue{} // at once: hundreds of thousands may wait, and nobody is asked any more
	for i := range c.st.Devices {
		c.st.Devices[i].Queue = sched.Queue{}
	}
	c.reqs, c.byID = index[request]{}, index[task]{} // nobody looks anything up
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

// flying tells whether devices still hold work.
func (c *core) flying() bool {
	if len(c.jobs) > 0 || len(c.doom) > 0 {
		return true
	}
	return slices.ContainsFunc(c.devs, func(d dev) bool { return d.running > 0 })
}
