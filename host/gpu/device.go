// Package gpu is a simulated GPU as a device: it holds several launches, confines them to units, stops
// them between kernels or at once, and takes them up again. A launching thread decides, as kernels end,
// which are launched next and what pads them (Mode); it is the only part that knows of priorities. What
// the hardware then makes of it is package sim.
//
//	Begin ─▶ flow ─kernels─▶ launching thread ─▶ streams ─▶ sim ─▶ events: Passed, Aborted, Done
//	        a launch,         Mode: hold, evict,            SMs, DRAM, link
//	        segment by segment pad, beside
package gpu

import (
	"context"
	"fmt"
	"slices"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/gpu/kernel"
	"github.com/sluice-npu/sluice/host/gpu/sim"
	"github.com/sluice-npu/sluice/host/sched"
)

// Config is a device.
type Config struct {
	Name     string
	Params   sim.Params
	Mode     Mode
	MaxBatch int // 0: 32
	Places   int // 0: 16
	Slots    int // 0: 4 MaxBatch Places
	SyncNs   int64
	// Neighbours: partitions are of units beside each other, as a driver gives them.
	Neighbours bool
}

// Preemption is one time that best-effort work was put aside for a real-time launch.
type Preemption struct {
	At, Gone sim.Time // asked for; nothing of it was on the device any more
	Streams  int      // best-effort launches that were put aside
	Host     sim.Time // of it, until the host queues were empty: the longest of those launches
}

// Device is a simulated GPU. It implements device.Virtual.
type Device struct {
	cfg      Config
	p        sim.Params
	gpu      *sim.GPU
	info     device.Info
	networks map[string]*loaded
	slots    map[device.RequestID]bool
	halted   map[device.LaunchID]*held

	flows    []*flow // launches, in the order in which they began
	streams  []int   // free ones
	copies   int     // the stream of inputs
	jobs     []*job
	idleJobs []*job
	copying  map[*job]*device.Work

	out    []outcome // events that are due, in order
	given  outcome
	events []sim.Event
	pads   []sched.Padding
	heads  [][]sched.Version
	rest   []sched.Version // of kernels with blocks done
	owners []*flow
	since  sim.Time // of the preemption under way; -1: none
	aside  int
	host   sim.Time

	// Preemptions are all so far.
	Preemptions []Preemption
	// Padded counts best-effort kernels whose last block ran beside a real-time one; Ran all of them.
	Padded, Ran int
	// Again counts kernels that were run again after a kill, Kills those that were stopped.
	Again, Kills int
	// Redone is how long, of each launch that was taken up again after a kill, had gone by in kernels that
	// are run again: the one that was stopped, and those before it in its group.
	Redone []sim.Time
	// Of real-time kernels that might have been padded (Beside), Unhurt took no longer than when they were
	// profiled, and Hurt9 less than 9 us longer (figure 27 of REEF).
	Beside, Unhurt, Hurt9 int
	// Window is when Halfway is to be noted (0: never): of each launch under way then, by network and
	// whether it is a real-time one, the share of its time alone that the kernels that have ended are.
	Window  sim.Time
	Halfway map[Class]float64
	// Usage is the share of multiprocessors with a block on them, until Window.
	Usage float64
	// Sums, where it is not nil, takes the checksum of a launch's memory when it ends.
	Sums map[device.LaunchID]uint64
	// Heard, where it is set, hears of every order of the launching thread.
	Heard func(Order)
}

// Class is launches of a network, real-time ones or not.
type Class struct {
	Network  string
	RealTime bool
}

type outcome struct {
	at    sim.Time
	event device.Event
}

// held is what of a launch that was stopped stays on the device.
type held struct {
	mem *sim.Memory
	n   int // batch that it was made for
}

// flow is a launch under way.
type flow struct {
	work   *device.Work
	net    *loaded
	stream int
	rt     bool
	sms    sim.Set // of its units
	mem    *sim.Memory
	first  int // batch at the beginning
	reqs   []device.RequestID
	at     []int // places of reqs in the launch
	prog   *batched
	seg    int
	next   int        // kernel to be launched
	done   int        // kernels that have ended
	inGPU  int        // kernels launched and not ended
	begun  partial    // of kernel next: the blocks that were launched beside real-time kernels
	ended  partial    // of kernel done: those that have ended
	took   []sim.Time // of each kernel, when it last ran
	lostNs sim.Time   // in the kernel that was stopped

	syncAt   sim.Time // when the host knows what the segment gave; 0: it is under way
	killed   bool     // a kernel of it was stopped
	evicting bool     // its stream is being emptied
	lost     bool     // a real-time kernel that it padded did not end: it waits until none of its kernels is on the device
	aside    bool     // put aside for a real-time launch
	again    bool     // with kernels on the device: it has to be taken up again
	stopping bool     // Abort was asked for
	gone     bool     // its last event is out
	ready    sim.Time // not before this
	began    sim.Time // its segment
}

// partial is the first blocks of a kernel in one of its versions, which the other blocks have to keep to.
type partial struct {
	blocks  int
	version int
}

// partial is a part of a kernel and those before it, which end in front of a block.
func (b *batched) partial(p *sim.Part, upTo int) partial {
	v := 0
	for p.As != &b.as[p.Kernel][v] {
		v++
	}
	return partial{upTo, v}
}

// job is an item on the GPU and whose kernels are in it.
type job struct {
	sim.Item
	flows []*flow
	index int
}

// New is an idle device.
func New(cfg Config) (*Device, error) {
	if cfg.MaxBatch == 0 {
		cfg.MaxBatch = 32
	}
	if cfg.Places == 0 {
		cfg.Places = 16
	}
	if cfg.Slots == 0 {
		cfg.Slots = 4 * cfg.MaxBatch * cfg.Places
	}
	if cfg.Mode.Queue > 0 {
		cfg.Params.Queue = cfg.Mode.Queue
	}
	g, err := sim.New(cfg.Params)
	if err != nil {
		return nil, err
	}
	d := &Device{
		cfg: cfg, p: cfg.Params, gpu: g, networks: map[string]*loaded{}, slots: map[device.RequestID]bool{},
		halted: map[device.LaunchID]*held{}, copying: map[*job]*device.Work{}, since: -1,
		info: device.Info{
			Name: cfg.Name, Label: "simulated", MaxBatch: cfg.MaxBatch, Slots: cfg.Slots, Places: cfg.Places,
			Units: (cfg.Params.SMs + cfg.Params.Unit - 1) / cfg.Params.Unit, Priorities: 2,
			Neighbours: cfg.Neighbours, Preempt: device.PreemptKernel, Through: true, ClockHz: 1e9, Loads: ArtefactModule,
		},
	}
	if cfg.Params.KillNs > 0 {
		d.info.Preempt = device.PreemptBlock
	}
	d.copies = g.CopyStream()
	for range cfg.Places {
		d.streams = append(d.streams, g.Stream(0))
	}
	return d, nil
}

// Info implements device.Device.
func (d *Device) Info() device.Info { return d.info }

// Release implements device.Device.
func (d *Device) Release(id device.RequestID) { delete(d.slots, id) }

// Close implements device.Device.
func (d *Device) Close() error { return nil }

// Begin implements device.Device.
func (d *Device) Begin(_ context.Context, now sim.Time, w *device.Work) (done bool, err error) {
	d.advance(now)
	switch w.Kind {
	case device.Run:
		return false, d.run(now, w)
	case device.Copy:
		return d.copy(w)
	case device.Load:
		n, ok := w.Artefact.Data.(*Network)
		if !ok || w.Artefact.Kind != ArtefactModule {
			return false, fmt.Errorf("load %s on %s: %w: it is a %q, expected a %s", w.Artefact.Network, d.info.Name, device.ErrMismatch, w.Artefact.Kind, ArtefactModule)
		}
		l, err := load(n, d.info.MaxBatch, &d.cfg.Mode, &d.p)
		if err != nil {
			return false, err
		}
		d.networks[w.Artefact.Network] = l
		return true, nil
	case device.Unload:
		if slices.ContainsFunc(d.flows, func(f *flow) bool { return f.work.Launch.Network == w.Network }) {
			return false, &device.Failure{Scope: device.LoseLaunch, Err: fmt.Errorf("%w: %s is running", device.ErrRequest, w.Network)}
		}
		delete(d.networks, w.Network)
		return true, nil
	case device.Reset:
		return d.reset(now, w)
	}
	return false, fmt.Errorf("%w: %s cannot %s", device.ErrRequest, d.info.Name, w.Kind)
}

// refuse is a failure of one launch alone.
func refuse(format string, a ...any) error {
	return &device.Failure{Scope: device.LoseLaunch, Err: fmt.Errorf("%w: %s", device.ErrRequest, fmt.Sprintf(format, a...))}
}

func (d *Device) run(now sim.Time, w *device.Work) error {
	l := &w.Launch
	net := d.networks[l.Network]
	switch {
	case net == nil:
		return refuse("%s is not loaded on %s", l.Network, d.info.Name)
	case len(d.streams) == 0:
		return refuse("all %d places of %s are taken", d.info.Places, d.info.Name)
	case len(l.Requests) == 0 || len(l.Requests) > d.info.MaxBatch:
		return refuse("a batch of %d, 1 to %d are expected", len(l.Requests), d.info.MaxBatch)
	case !d.info.Legal(l.Units):
		return refuse("units %s of %d", l.Units, d.info.Units)
	case l.First < 0 || l.Last < l.First || l.Last >= len(net.batches[0].Exits):
		return refuse("segments %d to %d of %d", l.First, l.Last, len(net.batches[0].Exits))
	}
	for _, f := range d.flows {
		if o := &f.work.Launch; (l.Exclusive || o.Exclusive) && l.Units.Meets(o.Units) {
			return refuse("units %s are held exclusively by launch %d", o.Units, o.ID)
		}
	}
	for _, id := range l.Requests {
		if !d.slots[id] {
			return refuse("request %d was not copied", id)
		}
	}
	prog, err := net.batch(len(l.Requests), &d.p)
	if err != nil {
		return err
	}
	from := 0
	if l.First > 0 {
		from = net.batches[0].Exits[l.First-1] + 1
	}
	if l.Kernel < 0 || from+l.Kernel > net.batches[0].Exits[l.First] {
		return refuse("kernel %d of segment %d", l.Kernel, l.First)
	}
	f := &flow{
		work: w, net: net, rt: l.Priority > 0, sms: d.sms(l.Units), first: len(l.Requests), prog: prog, seg: l.First,
		next: from + l.Kernel, done: from + l.Kernel, ready: now, began: now,
	}
	f.stream, d.streams = d.streams[len(d.streams)-1], d.streams[:len(d.streams)-1]
	if h := d.halted[l.ID]; h != nil && len(l.Requests) <= h.n {
		f.mem, f.first = h.mem, h.n
		delete(d.halted, l.ID)
	} else {
		f.mem = prog.Memory(uint64(l.Requests[0]))
	}
	if d.cfg.Mode.Kill && !f.rt {
		f.took = make([]sim.Time, len(prog.Kernels))
	}
	for i, id := range l.Requests {
		f.reqs, f.at = append(f.reqs, id), append(f.at, i)
	}
	d.gpu.Mask(f.stream, f.sms)
	priority := 0
	if f.rt && d.cfg.Mode.Priority {
		priority = 1
	}
	d.gpu.Prioritise(f.stream, priority)
	d.flows = append(d.flows, f)
	if f.rt {
		d.putAside(now)
	} else {
		if f.aside = d.cfg.Mode.Hold && d.realTime() > 0; f.aside {
			d.hear(Order{Did: PutAside, Launch: l.ID})
		}
	}
	d.launch(now)
	return nil
}

// realTime is how many real-time launches are under way.
func (d *Device) realTime() (n int) {
	for _, f := range d.flows {
		if f.rt {
			n++
		}
	}
	return n
}

// putAside makes way for a real-time launch.
func (d *Device) putAside(now sim.Time) {
	m := &d.cfg.Mode
	if !m.Hold {
		return
	}
	for _, f := range d.flows {
		if f.rt || f.aside {
			continue
		}
		f.aside = true
		d.hear(Order{Did: PutAside, Launch: f.work.Launch.ID})
		if f.inGPU == 0 {
			continue
		}
		f.again = true
		if d.since < 0 {
			d.since, d.aside, d.host = now, 0, 0
		}
		d.aside++
		if m.Evict {
			d.evict(f)
		} else {
			d.gpu.Pause(f.stream, true)
		}
	}
	d.settle(now)
}

// evict empties a launch's stream.
func (d *Device) evict(f *flow) {
	if f.evicting {
		return
	}
	f.evicting = true
	cost := d.p.ResetNs
	if queued, _ := d.gpu.Queued(f.stream); d.cfg.Mode.Reclaim {
		cost += d.p.ReclaimNs * sim.Time(queued)
	}
	d.host = max(d.host, cost)
	kill := (d.cfg.Mode.Kill || f.stopping) && f.net.restorable(f.done)
	d.events = d.gpu.Evict(f.stream, sim.Eviction{Kill: kill, Reclaim: d.cfg.Mode.Reclaim, Forgive: d.cfg.Mode.Boolean}, d.events)
	d.take()
}

// away is whether nothing of the launch is on the device.
func (d *Device) away(f *flow) bool {
	if d.cfg.Mode.Evict || f.stopping {
		return !f.evicting
	}
	return f.inGPU == 0 || d.gpu.Drained(f.stream)
}

// settle notes when all that was put aside is off the device.
func (d *Device) settle(now sim.Time) {
	if d.since < 0 {
		return
	}
	for _, f := range d.flows {
		if f.aside && !d.away(f) {
			return
		}
	}
	d.Preemptions = append(d.Preemptions, Preemption{d.since, now, d.aside, d.host})
	d.since = -1
}

// launch gives the GPU what may go there now.
func (d *Device) launch(now sim.Time) {
	m := &d.cfg.Mode
	rt := d.realTime()
	if m.Hold && rt == 0 {
		for _, f := range d.flows {
			if f.aside {
				f.aside = false
				if f.next <= f.prog.Exits[f.work.Launch.Last] {
					d.hear(Order{Did: TakenUp, Launch: f.work.Launch.ID, Kernel: f.next})
				}
				d.gpu.Pause(f.stream, false)
				if f.again {
					f.again, f.ready = false, max(f.ready, now+d.p.RestartNs)
				}
			}
		}
	}
	ahead := false // a real-time launch stands before
	for _, f := range d.flows {
		first := !ahead
		ahead = ahead || f.rt
		if f.evicting || f.lost || f.stopping || f.syncAt > 0 || f.aside || f.ready > now {
			continue
		}
		switch m.Turn(Standing{RealTime: f.rt, First: first, Others: rt, Preempting: d.since >= 0}) {
		case Pads:
			for f.next < f.end() && f.inGPU < max(1, d.p.Queue) {
				d.pad(f)
			}
		case Submits:
			for f.next < f.end() {
				d.submit(f)
			}
		case Besides:
			if f.next < f.end() && f.inGPU == 0 && d.beside(f) {
				d.submit(f)
			}
		}
	}
}

// end is behind the last kernel of the flow's segment.
func (f *flow) end() int { return f.prog.Exits[f.seg] + 1 }

// part is the flow's next kernel, all of it.
func (f *flow) part() sim.Part {
	k := f.next
	f.next++
	f.inGPU++
	f.begun = partial{}
	return sim.Part{Program: f.prog.Program, Kernel: k, Memory: f.mem, As: &f.prog.Kernels[k]}
}

func (d *Device) job() *job {
	if n := len(d.idleJobs); n > 0 {
		j := d.idleJobs[n-1]
		d.idleJobs = d.idleJobs[:n-1]
		j.Parts, j.flows = j.Parts[:0], j.flows[:0]
		return j
	}
	j := &job{index: len(d.jobs)}
	j.Tag = uint64(j.index)
	d.jobs = append(d.jobs, j)
	return j
}

// submit launches the flow's next kernel.
func (d *Device) submit(f *flow) {
	j := d.job()
	d.hear(Order{Launch: f.work.Launch.ID, Kernel: f.next})
	begun := f.begun
	p := f.part()
	if p.From = begun.blocks; p.From > 0 {
		p.As = &f.prog.as[p.Kernel][begun.version]
	}
	j.Parts, j.flows = append(j.Parts, p), append(j.flows, f)
	d.gpu.Launch(f.stream, &j.Item)
}

// hear tells of an order.
func (d *Device) hear(o Order) {
	if d.Heard != nil {
		d.Heard(o)
	}
}

// pad launches a real-time kernel with what may run beside it.
func (d *Device) pad(f *flow) {
	j := d.job()
	rt := &f.prog.heads[f.next]
	kind := f.prog.Kernels[f.next].Kind
	order := Order{Launch: f.work.Launch.ID, Kernel: f.next}
	j.Parts, j.flows = append(j.Parts, f.part()), append(j.flows, f)
	if kind == kernel.Compute {
		d.heads, d.owners, d.rest = d.heads[:0], d.owners[:0], d.rest[:0]
		for _, be := range d.flows {
			if !be.rt && be.aside && !be.evicting && !be.lost && !be.stopping && be.syncAt == 0 &&
				be.next < be.end() && be.prog.Kernels[be.next].Kind == kernel.Compute &&
				be.net.restorable(be.next) && f.sms.Without(be.sms) == (sim.Set{}) {
				d.heads = append(d.heads, d.head(be))
				d.owners = append(d.owners, be)
			}
		}
		n := f.sms.Len()
		d.pads = sched.Pad(rt, n, d.heads, d.pads[:0])
		free := f.sms
		if len(d.pads) > 0 {
			j.Parts[0].On = free.First(rt.Reserve(n))
			free = free.Without(j.Parts[0].On)
		}
		for _, pad := range d.pads {
			be := d.owners[pad.Queue]
			k, version := be.next, pad.Version
			if be.begun.blocks > 0 {
				version = be.begun.version
			}
			if d.Heard != nil {
				order.Beside = append(order.Beside, Beside{be.work.Launch.ID, k, pad.Units})
			}
			p := be.part()
			p.As, p.From, p.Blocks = &be.prog.as[k][version], pad.From, pad.Blocks
			p.On = free.First(pad.Units)
			free = free.Without(p.On)
			j.Parts, j.flows = append(j.Parts, p), append(j.flows, be)
			if upTo := pad.From + pad.Blocks; upTo < p.As.Blocks {
				be.next, be.begun = k, partial{upTo, version}
			} else {
				d.Padded++
			}
		}
	}
	d.hear(order)
	d.gpu.Launch(f.stream, &j.Item)
}

// head is what a best-effort launch offers to pad with: the versions of its next kernel, or the one that has
// blocks done already.
func (d *Device) head(f *flow) []sched.Version {
	all := f.prog.all[f.next]
	if b := f.begun; b.blocks > 0 {
		d.rest = append(d.rest, all[b.version])
		one := d.rest[len(d.rest)-1:]
		one[0].Done = b.blocks
		return one
	}
	return all[:min(len(all), max(1, d.cfg.Mode.Versions))]
}

// beside is Orion's rule: a best-effort kernel may run next to the real-time kernel on the device where
// one of the two is bound by the memory and the other is not, it takes less time, and fewer SMs than
// there are. What is no kernel takes none, and goes.
func (d *Device) beside(f *flow) bool {
	k := &f.prog.Kernels[f.next]
	if k.Kind != kernel.Compute {
		return true
	}
	v := &f.prog.heads[f.next]
	for _, rt := range d.flows {
		if !rt.rt || rt.done >= rt.end() {
			continue
		}
		r, rv := &rt.prog.Kernels[rt.done], &rt.prog.heads[rt.done]
		if d.bound(k) == d.bound(r) || v.KernelNs > rv.KernelNs || v.Units(v.Occupancy) >= d.p.SMs {
			return false
		}
	}
	return true
}

// bound is whether a kernel asks for more than half of the DRAM's bandwidth when it runs alone.
func (d *Device) bound(k *kernel.Kernel) bool {
	waves := float64((k.Blocks + d.p.SMs - 1) / d.p.SMs)
	return float64(k.Bytes) > 0.5*d.p.Bandwidth*k.BlockNs*max(1, waves*k.Issue)
}

func (d *Device) copy(w *device.Work) (bool, error) {
	net := d.networks[w.Network]
	switch {
	case net == nil:
		return false, refuse("%s is not loaded on %s", w.Network, d.info.Name)
	case d.slots[w.Request]:
		return false, refuse("request %d lies on %s already", w.Request, d.info.Name)
	case len(d.slots) >= d.info.Slots:
		return false, &device.Failure{Scope: device.LoseLaunch, Err: fmt.Errorf("%w: all %d slots are taken", device.ErrMemory, d.info.Slots)}
	}
	d.slots[w.Request] = true
	if net.Input == 0 {
		return true, nil
	}
	one, err := sim.Load(&kernel.Program{Kernels: []kernel.Kernel{{Name: "input", Kind: kernel.Upload, Bytes: net.Input}}, Exits: []int{0}})
	if err != nil {
		return false, err
	}
	j := d.job()
	j.Parts = append(j.Parts, sim.Part{Program: one, Memory: one.Memory(0)})
	d.copying[j] = w
	d.gpu.Launch(d.copies, &j.Item)
	return false, nil
}

// reset ends what runs on the units.
func (d *Device) reset(now sim.Time, w *device.Work) (bool, error) {
	for _, f := range slices.Clone(d.flows) {
		if w.Units.Meets(f.work.Launch.Units) {
			f.stopping, f.gone = true, true // nothing more is told of it, however its last kernel ends
			d.events = d.gpu.Evict(f.stream, sim.Eviction{Kill: true}, d.events)
			d.take()
			d.remove(f)
		}
	}
	d.push(now+max(1, d.p.ResetNs), device.Event{Kind: device.Done, Work: w.ID, Over: true})
	return false, nil
}

// Abort implements device.Device.
func (d *Device) Abort(now sim.Time, id device.WorkID, kill bool) {
	d.advance(now)
	i := slices.IndexFunc(d.flows, func(f *flow) bool { return f.work.ID == id })
	if i < 0 || d.flows[i].stopping {
		return
	}
	f := d.flows[i]
	f.stopping = true
	_ = kill // a GPU always lets go between kernels, and at once where it can
	if f.inGPU > 0 && !f.evicting {
		d.evict(f)
	}
	d.stopped(now, f)
}

// stopped ends a launch that was asked to stop and has left the device.
func (d *Device) stopped(now sim.Time, f *flow) {
	if f.gone || !f.stopping || f.evicting || f.inGPU > 0 || f.syncAt > 0 {
		return
	}
	if f.ended.blocks > 0 {
		d.back(f)
	}
	l := &f.work.Launch
	from := 0
	if f.seg > 0 {
		from = f.prog.Exits[f.seg-1] + 1
	}
	seg, k := f.seg, f.next-from
	for k < 0 { // the idempotent group began before this segment's first kernel
		seg--
		from = 0
		if seg > 0 {
			from = f.prog.Exits[seg-1] + 1
		}
		k = f.next - from
	}
	d.halted[l.ID] = &held{f.mem, f.first}
	f.gone = true
	d.push(now, device.Event{
		Kind: device.Aborted, Work: f.work.ID, Over: true,
		Resume: device.ResumePoint{Segment: seg, Kernel: k},
	})
	d.remove(f)
}

// remove forgets a flow and gives its stream back.
func (d *Device) remove(f *flow) {
	d.flows = slices.DeleteFunc(d.flows, func(g *flow) bool { return g == f })
	d.gpu.Pause(f.stream, false) // it may have ended while it was put aside
	d.streams = append(d.streams, f.stream)
	d.launch(d.gpu.Now())
}

func (d *Device) push(at sim.Time, ev device.Event) {
	i := len(d.out)
	for i > 0 && d.out[i-1].at > at {
		i--
	}
	d.out = slices.Insert(d.out, i, outcome{at: at, event: ev})
}

// Next implements device.Virtual.
func (d *Device) Next() (sim.Time, bool) {
	t := d.due()
	if len(d.out) > 0 {
		t = min(t, d.out[0].at)
	}
	return t, t != sim.Never
}

// due is when something happens inside.
func (d *Device) due() sim.Time {
	t := d.gpu.Next()
	for _, f := range d.flows {
		if f.syncAt > 0 {
			t = min(t, f.syncAt)
		} else if f.ready > d.gpu.Now() {
			t = min(t, f.ready)
		}
	}
	return t
}

// Take implements device.Virtual.
func (d *Device) Take(now sim.Time) *device.Event {
	for {
		if len(d.out) > 0 && d.out[0].at <= min(now, d.due()) {
			d.given = d.out[0]
			d.out = slices.Delete(d.out, 0, 1)
			return &d.given.event
		}
		if t := d.due(); t > now {
			d.advance(now)
			return nil
		}
		d.step(d.due())
	}
}

// advance takes everything in until now.
func (d *Device) advance(now sim.Time) {
	for t := d.due(); t <= now; t = d.due() {
		d.step(t)
	}
	for d.gpu.Now() < now {
		d.events = d.gpu.Advance(now, d.events)
		d.take()
	}
}

// step goes to the next instant at which something happens.
func (d *Device) step(t sim.Time) {
	if d.Window > 0 && t > d.Window {
		d.Window, d.Halfway, d.Usage = 0, map[Class]float64{}, d.gpu.Usage()
		for _, f := range d.flows {
			d.Halfway[Class{f.work.Launch.Network, f.rt}] += f.prog.part(f.done, &d.p)
		}
	}
	d.events = d.gpu.Advance(t, d.events)
	d.take()
	now := d.gpu.Now()
	for i := 0; i < len(d.flows); i++ {
		f := d.flows[i]
		if f.syncAt > 0 && f.syncAt <= now {
			d.passed(now, f)
			i = -1
		}
	}
	d.settle(now)
	d.launch(now)
}

// take reads the GPU's events.
func (d *Device) take() {
	for i := 0; i < len(d.events); i++ {
		e := d.events[i]
		if e.Kind == sim.Evicted {
			for _, f := range d.flows {
				if f.stream == e.Stream && f.evicting {
					d.evicted(e.At, f)
					break
				}
			}
			continue
		}
		j := d.jobs[e.Item.Tag]
		if w := d.copying[j]; w != nil {
			delete(d.copying, j)
			d.push(e.At, device.Event{Kind: device.Done, Work: w.ID, Over: true})
		}
		for p, f := range j.flows {
			f.inGPU--
			switch e.Kind {
			case sim.Done:
				part := &j.Parts[p]
				d.timed(f, part, e.At-e.Item.Began)
				if upTo, last := part.UpTo(); !last {
					f.ended = f.prog.partial(part, upTo)
				} else {
					d.Ran++
					f.done, f.ended = max(f.done, part.Kernel+1), partial{}
				}
				if f.done == f.end() && f.inGPU == 0 {
					f.syncAt = max(1, e.At+d.cfg.SyncNs)
				} else if f.stopping && f.inGPU == 0 && !f.evicting {
					f.next = f.done
					d.stopped(e.At, f)
				}
			case sim.Killed:
				f.killed, f.lostNs = true, e.At-e.Item.Began
				d.Kills++
			}
			// Its own stream's eviction knows nothing of kernels that padded another's.
			f.lost = f.lost || p > 0 && e.Kind != sim.Done
			if f.lost && f.inGPU == 0 && !f.evicting {
				f.lost = false
				d.back(f)
				d.stopped(e.At, f)
			}
		}
		d.idleJobs = append(d.idleJobs, j)
	}
	d.events = d.events[:0]
}

// timed notes how long a kernel took.
func (d *Device) timed(f *flow, p *sim.Part, ns sim.Time) {
	k := p.Kernel
	if f.rt && d.cfg.Mode.Pad && f.prog.Kernels[k].Kind == kernel.Compute {
		d.Beside++
		more := ns - f.prog.heads[k].KernelNs
		if more <= 1 { // rounding
			d.Unhurt++
		}
		if more < 9000 {
			d.Hurt9++
		}
	}
	if k < len(f.took) {
		if p.From == 0 {
			f.took[k] = 0
		}
		f.took[k] += ns
	}
}

// evicted: the flow's stream is empty.
func (d *Device) evicted(now sim.Time, f *flow) {
	f.evicting = false
	if f.inGPU == 0 || d.cfg.Mode.Boolean { // else some pad another's kernels, which ends them; a boolean believes all gone
		f.lost = false
		d.back(f)
	}
	d.settle(now)
	d.stopped(now, f)
}

// back: nothing of the flow is on the device any more; from where on it goes is known.
func (d *Device) back(f *flow) {
	from := f.done
	// Whoever stops for good leaves no kernel with a part of its blocks done.
	f.killed = f.killed || f.stopping && f.ended.blocks > 0
	if f.killed && from < len(f.net.entries) && f.net.restorable(from) && !d.cfg.Mode.Alone {
		from = f.net.entries[from]
		d.Again += f.done - from + 1
		redone := f.lostNs
		for k := from; k < min(f.done, len(f.took)); k++ {
			redone += f.took[k]
		}
		d.Redone = append(d.Redone, redone)
	}
	if f.killed {
		f.ended = partial{}
	}
	f.killed = false
	if f.syncAt == 0 {
		f.next, f.done, f.begun = from, from, f.ended
	}
}

// passed ends a segment: who is sure enough leaves.
func (d *Device) passed(now sim.Time, f *flow) {
	f.syncAt = 0
	l := &f.work.Launch
	last := f.seg == len(f.prog.Exits)-1
	report := &device.Report{Ns: now - f.began}
	keep := 0
	for i, id := range f.reqs {
		x := f.net.Exit(id, f.seg)
		x.Exit = f.seg
		taken := -1
		if last || x.Confidence >= l.ThetaAt(f.at[i], f.seg) {
			taken = f.seg
		} else {
			f.reqs[keep], f.at[keep] = id, f.at[i]
			keep++
		}
		report.Results = append(report.Results, device.Result{Request: id, Exits: []device.ExitResult{x}, Taken: taken})
	}
	f.reqs, f.at = f.reqs[:keep], f.at[:keep]
	over := keep == 0 || f.seg == l.Last
	if d.Sums != nil && over {
		d.Sums[l.ID] = f.mem.Sum()
	}
	d.push(now, device.Event{Kind: device.Passed, Work: f.work.ID, Over: over, Segment: f.seg, Report: report})
	if over {
		if keep > 0 {
			d.halted[l.ID] = &held{f.mem, f.first}
		}
		d.remove(f)
		return
	}
	prog, err := f.net.batch(keep, &d.p)
	if err != nil {
		d.push(now, device.Event{Kind: device.Failed, Work: f.work.ID, Over: true, Err: &device.Failure{Scope: device.LoseLaunch, Err: err}})
		d.remove(f)
		return
	}
	f.prog, f.seg, f.ready, f.began = prog, f.seg+1, now, now
	f.next = f.done
	d.stopped(now, f)
}

// Segments is how many segments a network that is loaded has.
func (d *Device) Segments(network string) (int, error) {
	net := d.networks[network]
	if net == nil {
		return 0, refuse("%s is not loaded on %s", network, d.info.Name)
	}
	return len(net.batches[0].Exits), nil
}
