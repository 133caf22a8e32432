// This file orders launches by gpu.Mode's rules, as the simulated GPU does. sched.Pad selects padding kernels.

package cuda

import (
	"maps"
	"slices"
	"time"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/gpu"
	"github.com/sluice-npu/sluice/host/gpu/cuda/kernels"
	"github.com/sluice-npu/sluice/host/gpu/idem"
	"github.com/sluice-npu/sluice/host/sched"
)

// Counts are counts of the launcher's work.
type Counts struct {
	Ran    int // number of kernels that have ended
	Padded int // number of these kernels whose last tiles ran in a priority kernel's launch
	Parts  int // number of parts of kernels that ran as padding, but were not the last parts of their kernels
	Roles  int // largest number of kernels in one launch
	Learnt int // number of calls of Learn, if the mode pads
	// Proxies counts the launches of several kernels. The key is the kernel variant's number of registers per thread.
	Proxies map[int]int
	Kills   int // number of launches that were stopped inside a kernel
	Stopped int // index of the kernel in which the last of these launches was stopped
	Again   int // number of kernels that were repeated after a kill
	// Preemptions lists priority launches that found other launches on the GPU.
	Preemptions []Preemption
	// Clock is the accuracy of spans that are measured with the GPU's clock, on Timed devices.
	Clock  Clock
	Pauses Pauses
}

// Counts returns the counts so far. The device must be idle.
func (d *Device) Counts() (c Counts, err error) {
	err = d.ask(func(l *launcher) error {
		if err := l.spans(); err != nil {
			return err
		}
		c = l.counts
		c.Proxies, c.Preemptions = maps.Clone(c.Proxies), slices.Clone(c.Preemptions)
		return nil
	})
	return c, err
}

func (l *launcher) hear(o gpu.Order) {
	if l.cfg.Heard != nil {
		l.cfg.Heard(o)
	}
}

// realTime returns the number of priority launches in progress.
func (l *launcher) realTime() (n int) {
	for _, f := range l.flows {
		if f.rt {
			n++
		}
	}
	return n
}

// putAside puts best-effort launches aside for a priority launch. In modes with Kill, it also stops them.
func (l *launcher) putAside(rt *flow) {
	m := &l.cfg.Mode
	if !m.Hold {
		return
	}
	for i := 0; i < len(l.flows); i++ {
		f := l.flows[i]
		if f.rt || f.aside {
			continue
		}
		f.aside = true
		l.hear(gpu.Order{Did: gpu.PutAside, Launch: f.work.Launch.ID})
		if f.flying == 0 {
			continue
		}
		if l.since.IsZero() {
			l.since = time.Now()
			l.meet = &meeting{arrived: rt.came, kernel: rt.next, timed: l.cfg.Timed, ahead: m.Ahead}
			if len(l.met) >= 1<<16 { // limits the list if no caller reads it
				l.met = slices.Delete(l.met, 0, 1<<15)
			}
			rt.met, l.met = l.meet, append(l.met, l.meet)
		}
		switch {
		case !m.Kill || l.cfg.Drain:
		case m.Ahead:
			l.inWay = append(l.inWay, f)
		default:
			if l.leave(f, true); i < len(l.flows) && l.flows[i] != f { // leave failed and removed the flow
				i--
			}
		}
	}
}

// dispel orders best-effort launches to leave in modes with Ahead. If possible, the priority launch's first kernel is
// queued before this order, because leaving takes less time than queueing.
func (l *launcher) dispel() {
	all := l.inWay
	l.inWay = l.inWay[:0]
	for _, f := range all {
		if slices.Contains(l.flows, f) {
			l.leave(f, true)
		}
	}
}

// settle stores the time at which no launch that was put aside is on the GPU any more. When no priority launch is left,
// it resumes the launches that were put aside.
func (l *launcher) settle() {
	if !l.since.IsZero() {
		away := true
		for _, f := range l.flows {
			away = away && (!f.aside || f.flying == 0 && f.state != leaving && f.state != asking)
		}
		if away {
			l.meet.away = time.Now()
			l.since, l.meet = time.Time{}, nil
		}
	}
	// The kernel at which an evicted launch resumes is known only after the launch has left.
	if m := &l.cfg.Mode; !m.Hold || l.realTime() > 0 || m.Evict && !l.since.IsZero() {
		return
	}
	for _, f := range l.flows {
		if f.aside {
			f.aside, f.patience = false, time.Now()
			if f.next <= f.net.b.Network.Exits[f.work.Launch.Last].Last {
				l.hear(gpu.Order{Did: gpu.TakenUp, Launch: f.work.Launch.ID, Kernel: f.next})
			}
		}
	}
}

// away is called when a stopped launch has no more kernel on the GPU. An aborted launch ends. Any other launch resumes
// when its turn comes, at the kernel with index `at`.
func (l *launcher) away(f *flow, at int) error {
	e := &f.net.b.Network.Exits[f.seg]
	if f.aborting && at <= e.Last {
		if f.begun > 0 { // the engine cannot resume inside a kernel
			at = f.net.entries[at]
		}
		l.end(f, device.Event{Kind: device.Aborted, Resume: device.ResumePoint{Segment: f.seg, Kernel: at - e.First}})
		return nil
	}
	// An aborted launch also continues here if all its kernels have run. It then passes its exit.
	f.state, f.next, f.oldest = running, at, at
	if !f.killed {
		return nil
	}
	f.killed, f.cleaning, f.ticket = false, true, l.ticket()
	if err := l.clean(f.lane); err != nil {
		return err
	}
	return l.lib.Record(f.lane.over, f.lane.stream)
}

// look polls the kernels of a lane and removes those that have ended.
func (l *launcher) look(n *lane) (moved bool, err error) {
	for len(n.fly) > 0 {
		ok, err := l.lib.Happened(n.fly[0].event)
		if err != nil || !ok {
			return moved, err
		}
		l.landed(n)
		moved = true
	}
	return moved, nil
}

// land updates the flows of a lane whose kernels have all ended.
func (l *launcher) land(n *lane) {
	for len(n.fly) > 0 {
		l.landed(n)
	}
}

func (l *launcher) landed(n *lane) {
	one, now := &n.fly[0], time.Now()
	for _, o := range l.flows { // before the update below, because inTheWay reads the kernels in flight
		for _, f := range one.flows {
			if f != nil && (f == o || l.inTheWay(f, o)) {
				o.patience = now
				o.moves.Add(1)
				break
			}
		}
	}
	for i, f := range one.flows {
		if f == nil {
			continue
		}
		l.counts.Ran += one.upTo[i] - f.oldest
		f.oldest = one.upTo[i]
		f.flying--
	}
	copy(n.fly, n.fly[1:])
	n.fly = n.fly[:len(n.fly)-1]
}

// push launches kernels of a flow, if it is the flow's turn.
func (l *launcher) push(f *flow) error {
	if f.aside || f.cleaning || f.next > f.last() || f.flying > 0 && f.in != f.lane {
		return nil
	}
	s := gpu.Standing{RealTime: f.rt, First: true, Others: l.realTime(), Preempting: !l.since.IsZero()}
	for _, o := range l.flows {
		if o == f {
			break
		}
		s.First = s.First && !o.rt
	}
	turn := l.cfg.Mode.Turn(s)
	if turn != gpu.Submits && turn != gpu.Pads {
		return nil
	}
	for first := true; f.next <= f.last() && len(f.lane.fly) < len(f.lane.ring); first = false {
		if !first && !f.rt && l.called() { // a waiting order may be a priority launch, so other kernels wait
			break
		}
		var beside []pad
		if turn == gpu.Pads {
			var err error
			if beside, err = l.beside(f); err != nil {
				return err
			}
		}
		if err := l.launch(f, beside); err != nil {
			return err
		}
	}
	return nil
}

// args sets the arguments of a flow's next kernel. tiles (0: all remaining tiles) and blocks are upper limits.
func (f *flow) args(k *kernels.Layer, tiles, blocks int) {
	*k = f.net.layers[f.next]
	k.Control, k.Epoch = uint64(f.lane.control), f.lane.epoch
	for i, s := range f.reqs {
		k.Sample[i] = uint32(s.slot)
	}
	k.Grid(len(f.reqs))
	if k.From = uint32(f.begun); tiles > 0 {
		k.To = min(k.To, k.From+uint32(tiles))
	}
	k.Blocks = min(k.To-k.From, uint32(blocks))
}

// pad is a part of a kernel that runs in the launch of a priority kernel.
type pad struct {
	flow  *flow
	tiles int
	sms   int // number of SMs assigned to the part
}

// add adds a flow's part to a launch. The part's arguments must have been set by args.
func (one *fly) add(role int, f *flow, k *kernels.Layer) {
	whole := k.To == k.TilesP*k.TilesC*uint32(len(f.reqs))
	one.flows[role], one.upTo[role], one.begun[role] = f, f.next, int(k.To)
	if whole {
		one.upTo[role], one.begun[role] = f.next+1, 0
	}
}

// launch queues a flow's next kernel and the kernels of `beside`, which pad it, as one launch.
func (l *launcher) launch(f *flow, beside []pad) error {
	n := f.lane
	one := fly{event: n.ring[n.given%len(n.ring)], ticket: l.ticket()}
	order := gpu.Order{Launch: f.work.Launch.ID, Kernel: f.next}
	fn, role, args := l.layer, n.layer, &n.args
	if len(beside) > 0 {
		role, args = &n.roles[0], &n.padded
	}
	f.args(role, 0, l.full(l.parts.sms(n.key.units)))
	one.add(0, f, role)
	if f.met != nil && f.met.timed && f.next == f.met.kernel {
		role.Timed = 1
	}
	blocks := role.Blocks
	for i, p := range beside {
		// The part has one block per assigned SM. Each block computes one tile after another.
		p.flow.args(&n.roles[i+1], p.tiles, p.sms)
		one.add(i+1, p.flow, &n.roles[i+1])
		blocks += n.roles[i+1].Blocks
		if l.cfg.Heard != nil {
			order.Beside = append(order.Beside, gpu.Beside{Launch: p.flow.work.Launch.ID, Kernel: p.flow.next, SMs: p.sms})
		}
	}
	if len(beside) > 0 {
		for i := len(beside) + 1; i < len(n.roles); i++ {
			n.roles[i] = kernels.Layer{}
		}
		x := l.proxy(int(blocks), l.parts.sms(f.lane.key.units))
		fn = x.function
		l.counts.Proxies[x.registers]++
	}
	if err := l.lib.Launch(fn, int(blocks), kernels.Threads, n.stream, args); err != nil {
		return err
	}
	// The kernel counts as in flight even if a later call fails.
	n.given++
	n.fly = append(n.fly, one)
	for i, f := range one.flows[:1+len(beside)] {
		switch {
		case i > 0 && one.begun[i] > 0:
			l.counts.Parts++
		case i > 0:
			l.counts.Padded++
		}
		f.next, f.begun, f.in = one.upTo[i], one.begun[i], n
		f.flying++
	}
	l.counts.Roles = max(l.counts.Roles, 1+len(beside))
	l.hear(order)
	l.dispel()
	return l.lib.Record(one.event, n.stream)
}

// beside selects best-effort kernels to pad a flow's next kernel. It tries them in the order of launching.
func (l *launcher) beside(f *flow) ([]pad, error) {
	rt, err := f.net.profile(len(f.reqs), l.cfg.Params)
	if err != nil {
		return nil, err
	}
	l.heads, l.owners, l.beds, l.rest = l.heads[:0], l.owners[:0], l.beds[:0], l.rest[:0]
	for _, b := range l.flows {
		if b.rt || !b.aside || b.aborting || b.cleaning || b.state != running || b.next > b.last() ||
			b.lane.key.units != f.lane.key.units || b.flying > 0 && b.in != f.lane || b.net.entries[b.next] == idem.Never {
			continue
		}
		v, err := b.net.profile(len(b.reqs), l.cfg.Params)
		if err != nil {
			return nil, err
		}
		l.rest = append(l.rest, v[b.next])
		one := l.rest[len(l.rest)-1:]
		one[0].Done = b.begun
		l.heads, l.owners = append(l.heads, one), append(l.owners, b)
	}
	l.pads = sched.Pad(&rt[f.next], l.parts.sms(f.lane.key.units), l.heads, l.pads[:0])
	for _, p := range l.pads[:min(len(l.pads), kernels.MaxRoles-1)] {
		l.beds = append(l.beds, pad{l.owners[p.Queue], p.Blocks, p.Units})
	}
	return l.beds, nil
}
