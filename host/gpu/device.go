// Package gpu implements a simulated GPU as a device. The device runs several launches at a time and can confine each
// launch to units. It can stop a launch, between kernels or at once, and resume it. Whenever a kernel ends, a launching
// thread decides which kernels are launched next and which kernels pad them (Mode). Only this thread distinguishes
// priorities. Package sim simulates the hardware.
//
//	Begin ─▶ flow ─kernels─▶ launching thread ─▶ streams ─▶ sim ─▶ events: Passed, Aborted, Done
//	         a launch,       Mode: hold, evict,             SMs, DRAM, link
//	         segment by segment    pad, beside
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

// Config describes a device.
type Config struct {
	Name     string
	Params   sim.Params
	Mode     Mode
	MaxBatch int // 0 means 32
	Places   int // 0 means 16
	Slots    int // maximum number of requests with data on the device; 0 means 4 * MaxBatch * Places
	SyncNs   int64
	// If Neighbours is set, a partition must consist of neighbouring units, as with real drivers.
	Neighbours bool
	// Slow returns the factor by which a launch's kernel times are multiplied. Its argument is the launch's first request;
	// nil: factor 1.
	Slow func(first device.RequestID) float64
}

// Preemption is an interruption of best-effort work for a real-time launch.
type Preemption struct {
	At, Gone sim.Time // arrival of the real-time launch, and end of the best-effort work on the device
	Streams  int      // number of best-effort launches that were put aside
	Host     sim.Time // time until the host queues were empty: the maximum over the launches that were put aside
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

	flows    []*flow // launches in progress in the order of their start
	streams  []int   // unused streams
	copies   int     // stream for inputs
	jobs     []*job
	idleJobs []*job
	copying  map[*job]*device.Work

	out    []outcome // pending events, in order of time
	given  outcome
	events []sim.Event
	pads   []sched.Padding
	heads  [][]sched.Version
	rest   []sched.Version // versions of kernels that are partly done
	owners []*flow
	since  sim.Time // start of the preemption in progress; -1: none
	aside  int
	host   sim.Time

	// Preemptions lists all preemptions so far.
	Preemptions []Preemption
	// Padded counts best-effort kernels whose last block ran in a real-time kernel's launch. Ran counts ended kernels.
	Padded, Ran int
	// Again counts the kernels that were repeated after a kill. Kills counts the kernels that were stopped.
	Again, Kills int
	// If Sums is not nil, the checksum of a launch's memory is stored in Sums when the launch ends.
	Sums map[device.LaunchID]uint64
	// If Heard is set, it is called with every order of the launching thread.
	Heard func(Order)
	// If Probe is set, it observes the device.
	Probe Probe
}

// flow is a launch in progress.
type flow struct {
	work   *device.Work
	net    *loaded
	stream int
	rt     bool
	sms    sim.Set // the SMs of its units
	mem    *sim.Memory
	first  int // batch at the start
	reqs   []device.RequestID
	at     []int // by request: its position in the launch
	prog   *batched
	slow   float64 // factor on its kernels' times; 0: 1
	seg    int
	next   int     // next kernel to launch
	done   int     // index of the first kernel that has not ended
	inGPU  int     // number of kernels that were launched and have not ended
	begun  partial // blocks of the kernel at index `next` that were launched as padding of real-time kernels
	ended  partial // blocks of the kernel at index `done` that have already ended

	syncAt   sim.Time // time at which the host has the segment's result; 0: the segment has not ended
	killed   bool     // one of its kernels was stopped
	evicting bool     // its stream is being evicted
	lost     bool     // a real-time kernel that it padded was stopped, so it waits until all its kernels have left
	aside    bool     // put aside for a real-time launch
	again    bool     // it had kernels on the device when it was put aside, so it must be resumed
	stopping bool     // an abort was requested
	gone     bool     // its last event was sent
	ready    sim.Time // earliest time for the next kernel
	began    sim.Time // start of its segment
}

// partial contains how many blocks of a kernel are done, and in which version. The remaining blocks must use it too.
type partial struct {
	blocks  int
	version int
}

// partial returns how far a kernel is done after its part p. upTo is the index of the part's last block plus one.
func (b *batched) partial(p *sim.Part, upTo int) partial {
	v := 0
	for p.As != &b.as[p.Kernel][v] {
		v++
	}
	return partial{upTo, v}
}

// job is one launch in a GPU stream, with the flow to which each of its kernels belongs.
type job struct {
	sim.Item
	flows []*flow
	index int
}

// New returns an idle device.
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
	cfg.Params.Fence = cfg.Params.Fence || cfg.Mode.Fence
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
			Neighbours: cfg.Neighbours, Preempt: device.PreemptKernel, Through: true, ClockHz: 1e9,
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
		n, err := device.ArtefactOf[*Network](w.Artefact, d.info.Name)
		if err != nil {
			return false, err
		}
		l, err := load(n, d.info.MaxBatch, &d.cfg.Mode, &d.p)
		if err != nil {
			return false, err
		}
		d.networks[device.As(w.Network, w.Artefact).NetworkName()] = l
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
	for i, id := range l.Requests {
		f.reqs, f.at = append(f.reqs, id), append(f.at, i)
	}
	if d.cfg.Slow != nil {
		f.slow = d.cfg.Slow(l.Requests[0])
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

// realTime returns the number of real-time launches in progress.
func (d *Device) realTime() (n int) {
	for _, f := range d.flows {
		if f.rt {
			n++
		}
	}
	return n
}

// putAside puts all best-effort launches aside for a real-time launch.
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

// evict removes all kernels of a launch from its stream.
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

// away reports whether no kernel of the launch is on the device.
func (d *Device) away(f *flow) bool {
	if d.cfg.Mode.Evict || f.stopping {
		return !f.evicting
	}
	return f.inGPU == 0 || d.gpu.Drained(f.stream)
}

// settle stores a preemption when all launches that were put aside have left the device.
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

// launch launches kernels of all flows whose turn it is.
func (d *Device) launch(now sim.Time) {
	m := &d.cfg.Mode
	rt := d.realTime()
	// The kernel at which an evicted launch resumes is known only after the launch has left.
	if m.Hold && rt == 0 && (d.since < 0 || !m.Evict) {
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
	ahead := false // an earlier flow in the list is a real-time launch
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

// end returns the index after the last kernel of the flow's segment.
func (f *flow) end() int { return f.prog.Exits[f.seg] + 1 }

// part returns the flow's next kernel as one part.
func (f *flow) part() sim.Part {
	k := f.next
	f.next++
	f.inGPU++
	f.begun = partial{}
	return sim.Part{Program: f.prog.Program, Kernel: k, Memory: f.mem, As: &f.prog.Kernels[k], Slow: f.slow}
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

// hear reports an order to Heard.
func (d *Device) hear(o Order) {
	if d.Heard != nil {
		d.Heard(o)
	}
}

// pad launches a real-time kernel together with best-effort kernels that pad it.
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

// head returns the versions of a best-effort launch's next kernel. Padding can use them. If some blocks of this kernel
// are done, head returns only the version of these blocks.
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

// beside reports whether a flow's next kernel may run beside the real-time kernels, by Orion's rule. It compares the
// flow's kernel with each real-time kernel: exactly one of the two must be memory-bound, and the flow's kernel must not
// be longer and must not use all SMs. Copies are always allowed, because they use no SM.
func (d *Device) beside(f *flow) bool {
	k := &f.prog.Kernels[f.next]
	if k.Kind != kernel.Compute {
		return true
	}
	v := &f.prog.heads[f.next]
	for _, rt := range d.flows {
		if !rt.rt && rt.inGPU > 0 {
			return false
		}
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

// bound reports whether a kernel is memory-bound: if it runs alone, it uses more than half of the DRAM bandwidth.
func (d *Device) bound(k *kernel.Kernel) bool {
	waves := float64((k.Blocks + d.p.SMs - 1) / d.p.SMs)
	return float64(k.Bytes) > 0.5*d.p.Bandwidth*k.BlockNs*max(1, waves*k.Issue)
}
