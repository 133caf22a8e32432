package cuda

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/gpu"
	"github.com/sluice-npu/sluice/host/gpu/cuda/driver"
	"github.com/sluice-npu/sluice/host/gpu/cuda/kernels"
	"github.com/sluice-npu/sluice/host/gpu/idem"
	"github.com/sluice-npu/sluice/host/sched"
)

// launcher is the thread that holds the context, and all that it knows.
type launcher struct {
	*Device
	dev    driver.Device
	main   driver.Context
	module driver.Module
	layer  driver.Function
	padded driver.Function
	// Proxies are the kernel of several roles under limits of registers, the most first; resident is how many
	// blocks of the kernel of one layer an SM holds.
	proxies  []proxy
	limited  []driver.Module
	resident int
	least    int // priorities of streams
	most     int
	parts    *partitions

	copies  driver.Stream // inputs, weights
	signals driver.Stream // of greatest priority: epochs of what is stopped
	copied  error         // why they are copied to the GPU; nil: the driver writes words in a stream's order
	staged  []staged      // copies under way
	lanes   map[laneKey][]*lane
	made    int // lanes that there are, those in use too
	flows   []*flow
	nets    map[string]*network
	samples map[device.RequestID]*sample
	lost    error // the context is of no use until a reset
	stuck   bool  // a stream could not be destroyed: partitions go with the context
	counts  Counts
	since   time.Time // of the preemption under way; zero: none is
	meet    *meeting  // that
	met     []*meeting
	tickets uint64
	marks   int       // that were taken back (Boolean)
	start   time.Time // from which anchors count
	anchor  anchor
	heads   [][]sched.Version
	owners  []*flow
	pads    []sched.Padding
	beds    []pad
}

// sample is an admitted request.
type sample struct {
	net   *network
	slot  int
	input []byte // as it lies in the slot, to be copied again after a reset
	in    bool   // it is there
}

// page is pinned memory for an input, and the event of its copy. Both are made with the network: to take pinned
// memory, or to give it back, stands in the way of all streams.
type page struct {
	host  []byte
	event driver.Event
}

// staged is a copy under way, from a page.
type staged struct {
	work   *device.Work
	sample *sample
	page
}

type laneKey struct {
	units device.Units
	high  bool
}

// lane is a stream with what a launch needs beside it. One launch uses it at a time.
type lane struct {
	key     laneKey
	stream  driver.Stream
	control driver.Ptr
	dirty   bool // control could not be cleaned
	settled bool // control is known to be clean: epochs may be written, and other streams' kernels may look at it
	epoch   uint32
	used    uint64 // ticket of when it was given back
	ring    []driver.Event
	given   int   // launches so far; the one of ring[i] is given-1 or so many before it as there are in fly
	fly     []fly // launches under way, in order
	args    driver.Args
	layer   *kernels.Layer // what args point to
	padded  driver.Args
	roles   *kernels.Roles // what padded point to
	host    []byte         // pinned: a Control, the epoch on its way where it is copied, then logits
	over    driver.Event   // of what has been copied into host
	signal  driver.Event   // of the epoch on its way to control
}

// fly is a launch under way: the kernel of one flow, with those of others.
type fly struct {
	event  driver.Event
	ticket uint64                  // of launches, in the order in which they were given to the driver
	flows  [kernels.MaxRoles]*flow // all but the first pad
	at     [kernels.MaxRoles]int   // its kernel
}

// state of a flow.
type state uint8

const (
	running    state = iota
	collecting       // its logits are on the way
	leaving          // what is in its stream is to end
	asking           // its Control is on the way
)

// flow is a launch under way.
type flow struct {
	work   *device.Work
	net    *network
	lane   *lane
	reqs   []*sample
	seg    int
	next   int   // layer to be launched
	oldest int   // layer whose event is awaited, of those in flight oldest..next-1
	in     *lane // where those are
	state  state
	killed bool
	came   time.Time // to Begin: the launcher may have been busy since
	began  time.Time // of its segment: when it was taken up, or passed the exit before
	places []int     // of reqs in the launch

	rt       bool
	aside    bool      // put aside for a launch of priority
	aborting bool      // somebody asked for its end
	cleaning bool      // its Control is being made that of its epoch
	patience time.Time // from when its limit counts: when it moved last, or what is in its way
	moves    *atomic.Uint64
	ticket   uint64   // as a fly's, of what was given to its stream last
	met      *meeting // others were on the GPU when it came
	fled     *meeting // for which it leaves
}

// last is the segment's last kernel.
func (f *flow) last() int { return f.net.b.Network.Exits[f.seg].Last }

// launcher opens the GPU, says whether that went well, and works until it is closed.
func (d *Device) launcher(opened chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	l := &launcher{Device: d, nets: map[string]*network{}, samples: map[device.RequestID]*sample{}}
	err := l.open()
	if err == nil {
		err = l.furnish()
	}
	if err != nil {
		_ = l.close()
		opened <- err
		return
	}
	l.info.Units, l.info.Neighbours = l.parts.units, l.parts.neighbours // for good: nobody reads it yet
	if l.copied != nil {
		l.name += fmt.Sprintf(", where epochs are copied (%v)", l.copied)
	}
	opened <- nil
	ending := false
	idle := 0
	for {
		select {
		case <-d.stop:
			l.failAll(fmt.Errorf("%w: closed", device.ErrGone))
			err := l.close()
			if !ending {
				close(d.gone)
			}
			d.closed <- err
			return
		default:
		}
		d.mu.Lock()
		orders := d.orders
		d.orders = nil
		d.mu.Unlock()
		for i := range orders {
			o := &orders[i]
			switch {
			case o.ask != nil:
				o.ask(l)
			case o.work == nil && o.abort == 0 && o.release == 0: // the run is over
				l.quiet()
				if !ending {
					ending = true
					close(d.gone)
				}
			default:
				l.obey(o)
			}
		}
		if l.step() || len(orders) > 0 {
			idle = 0
			continue
		}
		if len(l.flows)+len(l.staged) == 0 {
			select {
			case <-d.wake:
			case <-d.stop:
			}
			continue
		}
		if idle++; idle > 100 && !d.cfg.Spin {
			time.Sleep(nap)
		}
	}
}

// open finds the GPU and takes its context.
func (l *launcher) open() error {
	n, err := l.lib.Count()
	if err != nil {
		return err
	}
	if l.cfg.GPU < 0 || l.cfg.GPU >= n {
		return fmt.Errorf("%w: GPU %d: %d found, counted from 0", device.ErrRequest, l.cfg.GPU, n)
	}
	if l.dev, err = l.lib.Device(l.cfg.GPU); err != nil {
		return err
	}
	if l.name, err = title(l.lib, l.dev); err != nil {
		return err
	}
	khz, err := l.lib.Attribute(l.dev, driver.ClockKHz)
	if err != nil {
		return err
	}
	if l.main, err = l.lib.Retain(l.dev); err != nil {
		return err
	}
	l.info = device.Info{
		Name: l.lib.API().Name, Label: "measured", MaxBatch: kernels.MaxBatch, Slots: l.cfg.Slots, Places: l.cfg.Places,
		Priorities: 2, Preempt: device.PreemptBlock, Through: l.cfg.Through, ClockHz: int64(khz) * 1000, Loads: device.ArtefactBundle,
	}
	if l.lib.Fake() {
		l.info.Label = "simulated"
	}
	if l.cfg.Drain {
		l.info.Preempt = device.PreemptKernel
	}
	return nil
}

// furnish makes what goes with the context.
func (l *launcher) furnish() error {
	if err := l.lib.SetCurrent(l.main); err != nil {
		return err
	}
	var err error
	if l.least, l.most, err = l.lib.Priorities(); err != nil {
		return err
	}
	if l.module, err = l.lib.Load(l.cfg.Kernels, 0); driver.CodeOf(err) == driver.UnsupportedPTX {
		return fmt.Errorf("the kernels' PTX is of version %s, and the driver of %s is too old for it: CUDA %s or later is expected: %w", kernels.Version(), l.name, kernels.CUDA(), err)
	} else if err != nil {
		return err
	}
	if l.layer, err = l.lib.Function(l.module, kernels.EntryLayer); err != nil {
		return err
	}
	if l.padded, err = l.lib.Function(l.module, kernels.EntryPadded); err != nil {
		return err
	}
	if l.copies, err = l.lib.NewStream(l.least); err != nil {
		return err
	}
	if l.signals, err = l.lib.NewStream(l.most); err != nil {
		return err
	}
	if err = l.trySignals(); err != nil {
		return err
	}
	if l.parts, err = newPartitions(l.lib, l.dev, l.main, l.cfg.Masks, l.runsOn); err != nil {
		return err
	}
	l.lanes = map[laneKey][]*lane{}
	if err = l.warm(); err != nil {
		return err
	}
	if l.cfg.Mode.Hold { // the first launch of priority is not to wait for a stream, nor for its Control
		n, err := l.lane(laneKey{high: true})
		if err != nil {
			return err
		}
		l.giveBack(n) // before anything can fail: who closes waits for its stream, or leaves its memory to the context
		if err := l.lib.Wait(n.stream); err != nil {
			return err
		}
		n.settled = true
	}
	if !l.cfg.Timed {
		return nil
	}
	l.start, l.met = time.Now(), nil // what began before is on no clock any more
	if l.counts.Clock.Step, err = l.timerStep(); err != nil {
		return err
	}
	l.anchor, err = l.anchored()
	return err
}

// close gives back all there is; the first error counts.
func (l *launcher) close() (first error) {
	note := func(err error) {
		if first == nil && err != nil && l.lost == nil {
			first = err
		}
	}
	l.quiet()
	if l.lost == nil && l.parts != nil {
		note(l.parts.back())
	}
	for _, lanes := range l.lanes {
		for _, n := range lanes {
			note(l.freeLane(n))
		}
	}
	streams := []driver.Stream{l.copies, l.signals}
	for _, s := range streams {
		if s != 0 && l.lost == nil { // kernels that warm or measure may be under way, where an error broke that off
			note(l.lib.Wait(s))
		}
	}
	for _, n := range l.nets {
		if first != nil || l.lost != nil { // a stream that nobody waited for may still use them: they go with the context
			break
		}
		for _, at := range []driver.Ptr{n.weights, n.slots} {
			if at != 0 {
				note(l.lib.Free(at))
			}
		}
		note(l.freePages(n))
	}
	for _, s := range streams {
		if s != 0 {
			note(l.lib.FreeStream(s))
		}
	}
	if l.parts != nil && !l.stuck {
		note(l.parts.close())
	}
	for _, m := range append(l.limited, l.module) {
		if m != 0 && first == nil && l.lost == nil { // else a kernel of it may be under way: it goes with the context
			note(l.lib.Unload(m))
		}
	}
	if l.main != 0 {
		if first != nil || l.lost != nil {
			_ = l.lib.Reset(l.dev) // what could not be given back piece by piece; where others hold it, it goes with them
		}
		note(l.lib.SetCurrent(0))
		if err := l.lib.Release(l.dev); err != nil {
			note(err)
			_ = l.lib.Reset(l.dev) // then at least what is in it
		}
	}
	return first
}

// quiet waits for what is under way, and forgets it: nobody is there to be told.
func (l *launcher) quiet() {
	for _, f := range l.flows {
		if l.lost == nil {
			f.lane.dirty = l.halt(f.lane, f.in.stream) != nil
		}
		f.lane.fly = f.lane.fly[:0]
		l.giveBack(f.lane)
		l.progress.Delete(f.work.ID)
	}
	l.flows, l.since, l.meet = nil, time.Time{}, nil
	for _, s := range l.staged {
		l.giveUp(&s)
		l.drop(&s)
	}
	l.staged = nil
}

// failAll ends all work under way with an error.
func (l *launcher) failAll(err error) {
	flows, staged := l.flows, l.staged
	l.quiet()
	for _, f := range flows {
		l.answer(f.work, err)
	}
	for _, s := range staged {
		if s.work != nil { // else a reset's own
			l.answer(s.work, err)
		}
	}
}

func (l *launcher) tell(ev device.Event) {
	if l.post != nil && l.ctx.Err() == nil {
		l.post(ev)
	}
}

// answer ends work that has nothing to show.
func (l *launcher) answer(w *device.Work, err error) {
	ev := device.Event{Kind: device.Done, Work: w.ID, Over: true}
	if err != nil {
		ev.Kind, ev.Err = device.Failed, err
	}
	l.tell(ev)
}

func (l *launcher) obey(o *order) {
	switch {
	case o.release != 0:
		l.free(o.release)
		return
	case o.abort != 0:
		if i := slices.IndexFunc(l.flows, func(f *flow) bool { return f.work.ID == o.abort }); i >= 0 {
			f := l.flows[i]
			f.aborting = true
			l.leave(f, o.kill)
		}
		return
	}
	w := o.work
	if l.lost != nil && w.Kind != device.Reset {
		l.answer(w, &device.Failure{Scope: device.LoseDevice, Err: fmt.Errorf("%w: %w", device.ErrReset, l.lost)})
		return
	}
	var err error
	switch w.Kind {
	case device.Load:
		if err = o.err; err == nil {
			err = l.load(w.Artefact.Network, o.net)
		}
		l.answer(w, l.check(err))
	case device.Unload:
		l.answer(w, l.check(l.unload(w.Network)))
	case device.Reset:
		l.answer(w, l.reset())
	case device.Copy:
		if err = o.err; err == nil {
			err = l.admit(w, o.input)
		}
		if err != nil {
			l.answer(w, l.check(fmt.Errorf("admit request %d: %w", w.Request, err)))
		}
	case device.Run:
		if err = l.begin(w, o.came); err != nil {
			l.answer(w, l.check(fmt.Errorf("launch %d, segments %d..%d: %w", w.Launch.ID, w.Launch.First, w.Launch.Last, err)))
		}
	}
}

// check notes an error after which the context is of no use, and gives it its scope. Everything else
// that runs ends with it.
func (l *launcher) check(err error) error {
	if (driver.Lost(err) || errors.Is(err, errAway)) && l.lost == nil {
		l.lost = err
		l.failAll(scope(err))
	}
	return scope(err)
}

// load makes a network servable.
func (l *launcher) load(name string, n *network) error {
	if l.nets[name] != nil {
		return fmt.Errorf("load %s: %w: it is loaded", name, device.ErrRequest)
	}
	for i := l.cfg.Slots - 1; i >= 0; i-- {
		n.free = append(n.free, i)
	}
	if err := l.install(n); err != nil {
		return fmt.Errorf("load %s: %w", name, err)
	}
	l.nets[name] = n
	return nil
}

// install puts a network's weights on the GPU, takes its slots and makes its pages, one a slot.
func (l *launcher) install(n *network) (err error) {
	var weights, slots driver.Ptr
	var host []byte
	defer func() {
		rest := l.lost == nil && (host == nil || l.lib.Wait(l.copies) == nil)
		if host != nil && rest {
			_ = l.lib.FreeHost(host)
		}
		if err == nil || !rest { // under a copy it stays until the context goes
			return
		}
		_ = l.freePages(n)
		if weights != 0 {
			_ = l.lib.Free(weights)
		}
		if slots != 0 {
			_ = l.lib.Free(slots)
		}
	}()
	if weights, err = l.lib.Alloc(len(n.blob)); err != nil {
		return err
	}
	if slots, err = l.lib.Alloc(l.cfg.Slots * int(n.b.Slot.Stride)); err != nil {
		return err
	}
	if host, err = l.lib.AllocHost(len(n.blob)); err != nil {
		return err
	}
	copy(host, n.blob)
	if err = l.lib.CopyIn(weights, host, l.copies); err != nil {
		return err
	}
	if err = l.lib.Wait(l.copies); err != nil {
		return err
	}
	for len(n.pages) < l.cfg.Slots {
		p, err := l.newPage(n)
		if err != nil {
			return err
		}
		n.pages = append(n.pages, p)
	}
	n.place(weights, slots)
	return nil
}

func (l *launcher) newPage(n *network) (p page, err error) {
	if p.host, err = l.lib.AllocHost(n.imageBytes()); err != nil {
		return p, err
	}
	if p.event, err = l.lib.NewEvent(false); err != nil {
		_ = l.lib.FreeHost(p.host)
	}
	return p, err
}

// freePages gives a network's back, all of which are at rest.
func (l *launcher) freePages(n *network) (first error) {
	for _, p := range n.pages {
		if l.lost != nil { // they go with the context
			break
		}
		if err := l.lib.FreeEvent(p.event); first == nil {
			first = err
		}
		if err := l.lib.FreeHost(p.host); first == nil {
			first = err
		}
	}
	n.pages = nil
	return first
}

func (l *launcher) unload(name string) error {
	n := l.nets[name]
	if n == nil {
		return refuse("unload %s: it is not loaded", name)
	}
	for id, s := range l.samples {
		if s.net == n {
			return refuse("unload %s: request %d has a slot", name, id)
		}
	}
	for i := range l.staged { // of a request whose slot was given back
		if l.staged[i].sample.net == n {
			return refuse("unload %s: an input is on its way", name)
		}
	}
	delete(l.nets, name)
	err := l.freePages(n)
	for _, at := range []driver.Ptr{n.weights, n.slots} {
		if e := l.lib.Free(at); err == nil {
			err = e
		}
	}
	return err
}

// admit gives a request a slot and begins the copy of its input.
func (l *launcher) admit(w *device.Work, input []int16) error {
	n := l.nets[w.Network]
	switch {
	case n == nil:
		return refuse("network %q is not loaded", w.Network)
	case l.samples[w.Request] != nil:
		return refuse("it has a slot already")
	case len(n.free) == 0:
		return refuse("all %d slots are taken", l.cfg.Slots)
	}
	image, err := n.image(input)
	if err != nil {
		return refuse("%w", err)
	}
	s := &sample{net: n, slot: n.free[len(n.free)-1], input: image}
	if err := l.stage(w, s); err != nil {
		return err
	}
	n.free = n.free[:len(n.free)-1]
	l.samples[w.Request] = s
	return nil
}

// stage begins the copy of a sample's input.
func (l *launcher) stage(w *device.Work, s *sample) (err error) {
	c := staged{work: w, sample: s}
	defer func() {
		if err != nil && c.event != 0 {
			l.giveUp(&c)
		}
	}()
	if free := s.net.pages; len(free) > 0 {
		c.page, s.net.pages = free[len(free)-1], free[:len(free)-1]
	} else if c.page, err = l.newPage(s.net); err != nil { // a slot was given back while its input was on its way
		return err
	}
	copy(c.host, s.input)
	at := s.net.slots + driver.Ptr(int64(s.slot)*s.net.b.Slot.Stride+int64(s.net.b.Network.InOffset))
	if err = l.lib.CopyIn(at, c.host, l.copies); err != nil {
		return err
	}
	if err = l.lib.Record(c.event, l.copies); err != nil {
		return err
	}
	l.staged = append(l.staged, c)
	return nil
}

// unstage makes the page of a copy free again, which has ended.
func (l *launcher) unstage(c *staged) {
	if l.lost == nil { // else it goes with the context
		c.sample.net.pages = append(c.sample.net.pages, c.page)
	}
}

// giveUp is unstage for a copy that may be under way: it is awaited. What cannot be awaited stays until the
// context goes.
func (l *launcher) giveUp(c *staged) {
	if l.lost == nil && l.lib.Wait(l.copies) == nil {
		l.unstage(c)
	}
}

// free takes a request's slot back, where it has one.
func (l *launcher) free(id device.RequestID) {
	if s := l.samples[id]; s != nil {
		s.net.free = append(s.net.free, s.slot)
		delete(l.samples, id)
	}
}

// drop takes a request's slot back whose input never came.
func (l *launcher) drop(c *staged) {
	if c.work != nil && l.samples[c.work.Request] == c.sample {
		l.free(c.work.Request)
	}
}

// giveBack makes a lane free again.
func (l *launcher) giveBack(n *lane) {
	n.used = l.ticket()
	l.lanes[n.key] = append(l.lanes[n.key], n)
}

// lane is a free one on units.
func (l *launcher) lane(key laneKey) (*lane, error) {
	if free := l.lanes[key]; len(free) > 0 {
		n := free[len(free)-1]
		if n.dirty {
			if err := l.halt(n); err != nil {
				return nil, err
			}
			n.dirty = false
		}
		l.lanes[key] = free[:len(free)-1]
		return n, nil
	}
	n, err := l.room()
	if err == nil && n == nil {
		n, err = l.newLane()
	}
	if err != nil {
		return nil, err
	}
	n.key, n.dirty = key, false
	priority := l.least
	if key.high && l.cfg.Mode.Priority {
		priority = l.most
	}
	if n.stream, err = l.parts.stream(key.units, priority); err == nil {
		err = l.clean(n)
	}
	if err != nil {
		_ = l.freeLane(n)
		return nil, err
	}
	return n, nil
}

// newLane is one without a stream.
func (l *launcher) newLane() (*lane, error) {
	n := &lane{layer: new(kernels.Layer), roles: new(kernels.Roles), epoch: 1}
	l.made++
	n.args.Set(0, unsafe.Pointer(n.layer))
	n.padded.Set(0, unsafe.Pointer(n.roles))
	var err error
	for range l.cfg.Capacity {
		e, fails := l.lib.NewEvent(false)
		if fails != nil {
			err = fails
			break
		}
		n.ring = append(n.ring, e)
	}
	if err == nil {
		n.over, err = l.lib.NewEvent(false)
	}
	if err == nil {
		n.signal, err = l.lib.NewEvent(false)
	}
	if err == nil {
		n.control, err = l.lib.Alloc(controlBytes)
	}
	if err == nil {
		n.host, err = l.lib.AllocHost(laneBytes)
	}
	if err != nil {
		_ = l.freeLane(n)
		return nil, err
	}
	return n, nil
}

// clean makes a lane's Control that of its epoch, in its stream's order.
func (l *launcher) clean(n *lane) error {
	n.settled = false
	if err := l.lib.Fill(n.control, n.epoch, 1, n.stream); err != nil {
		return err
	}
	if err := l.lib.Fill(n.control+4, kernels.NotStopped, 3, n.stream); err != nil { // NotBegan too
		return err
	}
	return l.lib.Fill(n.control+16, 0, 2, n.stream)
}

// loseStream destroys a lane's stream, with nothing in it; all else of the lane stays. Where it cannot be known that
// nothing is in it, that else is left to the context, which it goes with.
func (l *launcher) loseStream(n *lane) (first error) {
	if n.stream == 0 {
		return nil
	}
	first = l.lib.Wait(n.stream) // nobody promises that destroying it does
	if err := l.lib.Wait(l.signals); first == nil {
		first = err
	}
	if first != nil {
		n.host, n.ring, n.over, n.signal, n.control = nil, nil, 0, 0, 0
	}
	if err := l.lib.FreeStream(n.stream); err != nil {
		l.stuck = true
		if first == nil {
			first = err
		}
	}
	n.stream = 0
	return first
}

func (l *launcher) freeLane(n *lane) (first error) {
	note := func(err error) {
		if first == nil {
			first = err
		}
	}
	l.made--
	n.args.Free()
	n.padded.Free()
	if l.lost != nil { // all of it goes with the context; copies may still be under way
		if n.stream != 0 {
			l.stuck = l.lib.FreeStream(n.stream) != nil || l.stuck // before its partition
		}
		return nil
	}
	note(l.loseStream(n))
	if n.host != nil {
		note(l.lib.FreeHost(n.host))
	}
	for _, e := range n.ring {
		note(l.lib.FreeEvent(e))
	}
	for _, e := range []driver.Event{n.over, n.signal} {
		if e != 0 {
			note(l.lib.FreeEvent(e))
		}
	}
	if n.control != 0 {
		note(l.lib.Free(n.control))
	}
	return first
}

// begin begins a launch, which came some time ago.
func (l *launcher) begin(w *device.Work, came time.Time) error {
	q := &w.Launch
	n := l.nets[q.Network]
	segs := 0
	if n != nil {
		segs = len(n.b.Network.Exits)
	}
	switch {
	case n == nil:
		return refuse("network %q is not loaded", q.Network)
	case q.First < 0 || q.Last < q.First || q.Last >= segs:
		return refuse("there are %d segments", segs)
	case q.First != q.Last && !l.cfg.Through:
		return refuse("segments one by one are expected")
	case len(q.Requests) < 1 || len(q.Requests) > kernels.MaxBatch ||
		len(q.Theta) != len(q.Requests) && len(q.Theta) != len(q.Requests)*(q.Last-q.First+1):
		return refuse("a batch of %d with %d thresholds", len(q.Requests), len(q.Theta))
	case len(l.flows) >= l.cfg.Places:
		return refuse("all %d places are taken", l.cfg.Places)
	}
	e := &n.b.Network.Exits[q.First]
	if q.Kernel < 0 || e.First+q.Kernel > e.Last {
		return refuse("kernel %d of %d", q.Kernel, e.Last-e.First+1)
	}
	f := &flow{work: w, net: n, seg: q.First, next: e.First + q.Kernel, came: came, began: time.Now(), rt: q.Priority > 0}
	f.oldest, f.patience = f.next, f.began
	for i, id := range q.Requests {
		s := l.samples[id]
		if s == nil || s.net != n || !s.in {
			return refuse("request %d has no slot", id)
		}
		f.reqs, f.places = append(f.reqs, s), append(f.places, i)
	}
	ln, err := l.lane(laneKey{q.Units, q.Priority > 0})
	if err != nil {
		return err
	}
	f.lane, f.in = ln, ln
	// Nothing orders the writing of its Control and an epoch that another stream writes there: one that came first
	// would be lost. And where others pad, their kernels look at it.
	if !ln.settled {
		if err := l.lib.Record(ln.over, ln.stream); err != nil {
			l.giveBack(ln)
			return err
		}
		f.cleaning, f.ticket = true, l.ticket()
	}
	f.moves = new(atomic.Uint64)
	l.progress.Store(w.ID, f.moves)
	l.flows = append(l.flows, f)
	if f.rt {
		l.putAside(f)
	} else if l.cfg.Mode.Hold && l.realTime() > 0 {
		f.aside = true
		l.hear(gpu.Order{Did: gpu.PutAside, Launch: q.ID})
	}
	return nil
}

// leave has a launch leave: at once, where its kernels may be killed or it has none on the GPU.
func (l *launcher) leave(f *flow, kill bool) {
	if f.state == running && f.oldest == f.next && f.aborting {
		if err := l.away(f, f.next); err != nil {
			l.fail(f, err)
		}
		return
	}
	if f.state == asking || f.killed || f.state == collecting && (!kill || f.oldest == f.next) {
		return // it ends as soon by itself
	}
	if !kill {
		f.state = leaving
		return
	}
	for i := f.oldest; i < f.next; i++ {
		if f.net.entries[i] == idem.Never {
			if f.state == running {
				f.state = leaving // nothing leads back from there: it is awaited
			}
			return
		}
	}
	f.state, f.killed, f.ticket = leaving, true, l.ticket()
	f.lane.epoch++
	if f.aside && l.meet != nil {
		if f.fled = l.meet; f.fled.flagged.IsZero() {
			f.fled.flagged = time.Now()
		}
	}
	if err := l.signal(f.lane); err != nil {
		l.fail(f, err)
		return
	}
	// Nothing orders the two streams: nobody touches control before this has happened.
	if err := l.lib.Record(f.lane.signal, l.signals); err != nil {
		l.fail(f, err)
		return
	}
	if l.cfg.Boolean {
		// The kernel that runs is to see it, and those behind it not: how long that is is the GPU's to say.
		for up, began := 10*nap>>(l.marks%8), time.Now(); time.Since(began) < up; {
		}
		l.marks++
		f.lane.epoch--
		if err := l.signal(f.lane); err != nil {
			l.fail(f, err)
		}
	}
}

// dismiss has all kernels leave that still look, so that a reset meets none but those that hang.
func (l *launcher) dismiss() {
	for _, f := range l.flows {
		f.lane.epoch++
		if l.signal(f.lane) != nil {
			return
		}
	}
	time.Sleep(time.Millisecond)
}

// halt has all of a lane's blocks leave, and waits for the streams that they are in: its own, and that of the launch that it
// pads.
func (l *launcher) halt(n *lane, in ...driver.Stream) error {
	n.epoch++
	if err := l.signal(n); err != nil {
		return err
	}
	for _, s := range append([]driver.Stream{l.signals, n.stream}, in...) {
		if err := l.lib.Wait(s); err != nil {
			return err
		}
	}
	return l.clean(n)
}

// fail ends a launch with an error of the driver's.
func (l *launcher) fail(f *flow, err error) {
	err = fmt.Errorf("launch %d, segment %d: %w", f.work.Launch.ID, f.seg, err)
	if driver.Lost(err) {
		_ = l.check(err)
		return
	}
	l.end(f, device.Event{Kind: device.Failed, Err: scope(err)})
}

// end ends a launch. What is in its stream is awaited, so that its slots are at rest.
func (l *launcher) end(f *flow, ev device.Event) {
	if f.in != f.lane && f.oldest < f.next { // it pads another launch
		if err := l.lib.Wait(f.in.stream); err != nil {
			ev = device.Event{Kind: device.Failed, Err: scope(err)}
			l.lost = err
			defer l.failAll(scope(err))
		} else {
			l.land(f.in)
		}
	}
	switch {
	case ev.Kind == device.Failed:
		if err := l.halt(f.lane); err != nil {
			ev.Err = &device.Failure{Scope: device.LoseDevice, Err: fmt.Errorf("%w: %w; its stream cannot be stopped: %w", device.ErrReset, ev.Err, err)}
			l.lost = ev.Err
			defer l.failAll(ev.Err) // the others
		}
	case f.killed:
		f.lane.dirty = l.clean(f.lane) != nil // then whoever has it next is told
	}
	l.land(f.lane) // what is in the stream has ended, or leaves by itself
	i := slices.Index(l.flows, f)
	l.flows = slices.Delete(l.flows, i, i+1)
	l.giveBack(f.lane)
	l.progress.Delete(f.work.ID)
	ev.Work, ev.Over, ev.Took = f.work.ID, true, time.Since(f.began).Nanoseconds()
	if f.met != nil && ev.Kind == device.Passed {
		f.met.over = time.Now()
	}
	l.tell(ev)
}

// step looks once at all that is under way, and says whether anything moved.
func (l *launcher) step() (moved bool) {
	l.settle()
	for i := 0; i < len(l.staged); i++ {
		c := &l.staged[i]
		ok, err := l.lib.Happened(c.event)
		if err == nil && !ok {
			break // in order
		}
		one := *c
		l.staged = slices.Delete(l.staged, i, i+1)
		i--
		moved = true
		if err == nil {
			l.unstage(&one)
		} else {
			l.giveUp(&one)
			l.drop(&one)
		}
		one.sample.in = err == nil
		err = l.check(err)
		if one.work != nil {
			l.answer(one.work, err)
		} else if err != nil && l.lost == nil { // a reset's own: an input is missing
			l.lost = err
		}
		if l.lost != nil {
			return true
		}
	}
	for i := 0; i < len(l.flows); i++ {
		f := l.flows[i]
		did, err := l.advance(f)
		if err != nil {
			l.fail(f, err)
			return true
		}
		moved = moved || did
		if i < len(l.flows) && l.flows[i] != f {
			i--
		}
	}
	return moved
}

// advance takes one launch as far as it goes now.
func (l *launcher) advance(f *flow) (moved bool, err error) {
	n := f.lane
	late := l.late(f) // before a look at the events
	defer func() {
		if late && !moved && err == nil && slices.Contains(l.flows, f) {
			l.dismiss()
			l.lost = fmt.Errorf("%w: launch %d, %v", device.ErrHang, f.work.Launch.ID, time.Duration(f.work.Limit))
			l.failAll(&device.Failure{Scope: device.LoseDevice, Err: l.lost})
			moved = true
		}
	}()
	if moved, err = l.look(n); err != nil {
		return moved, err
	}
	if f.cleaning {
		ok, err := l.lib.Happened(n.over)
		if err != nil {
			return moved, err
		}
		if ok {
			f.cleaning, n.settled, moved = false, true, true
		}
	}
	switch f.state {
	case running:
		before := f.next
		if err := l.push(f); err != nil {
			return true, err
		}
		moved = moved || f.next != before
		if f.next > f.last() && !f.cleaning && (f.oldest == f.next || f.in == n) {
			return true, l.collect(f)
		}
	case collecting:
		if ok, err := l.lib.Happened(n.over); err != nil || !ok {
			return moved, err
		}
		return true, l.pass(f)
	case leaving:
		if f.oldest < f.next {
			return moved, nil
		}
		if !f.killed {
			return true, l.away(f, f.next)
		}
		if ok, err := l.lib.Happened(n.signal); err != nil || !ok {
			return moved, err
		}
		f.state, f.ticket = asking, l.ticket()
		if err := l.lib.CopyOut(n.host[:controlBytes], n.control, n.stream); err != nil {
			return true, err
		}
		return true, l.lib.Record(n.over, n.stream)
	case asking:
		if ok, err := l.lib.Happened(n.over); err != nil || !ok {
			return moved, err
		}
		at := f.next
		if f.fled != nil { // else it was told before, by another flag
			f.fled.gone, f.fled = max(f.fled.gone, binary.LittleEndian.Uint64(n.host[16:])), nil
		}
		if stopped := binary.LittleEndian.Uint32(n.host[4:]); stopped != kernels.NotStopped {
			first := f.net.b.Network.Exits[f.seg].First
			l.counts.Kills++
			l.counts.Stopped = int(stopped)
			if int(stopped) < first || int(stopped) >= f.next {
				return true, &device.Failure{Scope: device.LoseDevice, Err: fmt.Errorf("%w: kernel %d is said to have been stopped, of %d to %d", device.ErrReset, stopped, first, f.next-1)}
			}
			if at = f.net.entries[stopped]; l.cfg.Short && at < int(stopped) {
				at++
			}
			l.counts.Ran -= f.next - int(stopped) // they left
			l.counts.Again += f.next - at
		}
		return true, l.away(f, at)
	}
	return moved, nil
}

// collect has the logits of the segment's exit copied.
func (l *launcher) collect(f *flow) error {
	e, n := &f.net.b.Network.Exits[f.seg], f.lane
	each := 2 * e.Classes
	if need := logitsAt + each*len(f.reqs); need > len(n.host) {
		host, err := l.lib.AllocHost(need)
		if err != nil {
			return err
		}
		if err := l.lib.FreeHost(n.host); err != nil {
			return err
		}
		n.host = host
	}
	for i, s := range f.reqs {
		from := f.net.slots + driver.Ptr(int64(s.slot)*f.net.b.Slot.Stride+int64(e.Offset))
		if err := l.lib.CopyOut(n.host[logitsAt+i*each:][:each], from, n.stream); err != nil {
			return err
		}
	}
	if f.timed() {
		if err := l.lib.CopyOut(n.host[:controlBytes], n.control, n.stream); err != nil {
			return err
		}
	}
	f.state, f.ticket = collecting, l.ticket()
	return l.lib.Record(n.over, n.stream)
}

// pass decides at an exit who leaves, and goes on with the others.
func (l *launcher) pass(f *flow) error {
	e, q := &f.net.b.Network.Exits[f.seg], &f.work.Launch
	final := len(f.net.b.Network.Exits) - 1
	rep := &device.Report{Ns: time.Since(f.began).Nanoseconds()}
	rep.Stats.Starts++
	keep := 0
	for i, s := range f.reqs {
		raw := make([]int16, e.Classes)
		for c := range raw {
			raw[c] = int16(binary.LittleEndian.Uint16(f.lane.host[logitsAt+2*(i*e.Classes+c):]))
		}
		class, conf := device.Confidence(raw, e.Frac)
		r := device.Result{Request: q.Requests[f.places[i]], Taken: -1}
		r.Exits = append(r.Exits, device.ExitResult{Exit: f.seg, Class: class, Confidence: conf, Logits: device.Logits(raw, e.Frac), Raw: raw})
		if conf >= q.ThetaAt(f.places[i], f.seg) || f.seg == final {
			r.Taken = f.seg
		} else {
			f.reqs[keep], f.places[keep] = s, f.places[i]
			keep++
		}
		rep.Results = append(rep.Results, r)
	}
	l.land(f.lane) // the copy came behind them
	f.lane.settled = true
	if f.timed() {
		f.met.began = binary.LittleEndian.Uint64(f.lane.host[8:])
		f.lane.dirty = l.lib.Fill(f.lane.control+8, kernels.NotStopped, 2, f.lane.stream) != nil // for the next one
	}
	ev := device.Event{Kind: device.Passed, Segment: f.seg, Report: rep}
	if f.seg == q.Last || keep == 0 {
		l.end(f, ev)
		return nil
	}
	ev.Work = f.work.ID
	l.tell(ev)
	f.reqs, f.places = f.reqs[:keep], f.places[:keep]
	f.seg++
	f.state, f.began = running, time.Now()
	f.patience = f.began
	if f.aborting { // the exit was faster than the abort
		return l.away(f, f.next)
	}
	return nil
}

// reset destroys all that is in the context and makes it anew. Samples stay, with their inputs.
func (l *launcher) reset() error {
	gone := fmt.Errorf("%w: reset", device.ErrReset)
	if l.lost == nil {
		l.lost = gone
	}
	l.failAll(&device.Failure{Scope: device.LoseDevice, Err: gone})
	for _, lanes := range l.lanes {
		for _, n := range lanes {
			_ = l.freeLane(n) // pinned memory; the rest goes with the context
		}
	}
	l.lanes = nil
	if l.parts != nil && !l.stuck {
		_ = l.parts.close() // each holds the context
	}
	err := l.lib.Reset(l.dev)
	if err == nil { // no handle of before means anything
		l.parts, l.module, l.copies, l.signals, l.stuck = nil, 0, 0, 0, false
		l.limited, l.proxies = nil, nil
		for _, n := range l.nets {
			n.weights, n.slots, n.pages = 0, 0, nil
		}
		// The primary context keeps its place, its handle may not.
		if l.main != 0 {
			err = l.lib.Release(l.dev)
		}
	}
	if err == nil {
		l.main = 0
		l.main, err = l.lib.Retain(l.dev)
	}
	if err == nil {
		l.lost = nil
	}
	if err == nil {
		err = l.furnish()
	}
	for _, n := range l.nets {
		if err == nil {
			err = l.install(n)
		}
	}
	for _, s := range l.samples {
		s.in = false
		if err == nil {
			err = l.stage(nil, s)
		}
	}
	if err == nil {
		err = l.lib.Wait(l.copies)
	}
	for err == nil && l.lost == nil && len(l.staged) > 0 {
		l.step()
	}
	if err == nil { // a copy may have shown it
		err = l.lost
	}
	if err != nil {
		if l.lost == nil {
			l.lost = err
		}
		return &device.Failure{Scope: device.LoseDevice, Err: fmt.Errorf("%w: reset %s: %w", device.ErrReset, l.info.Name, err)}
	}
	return nil
}
