// What is launched when: the rules of gpu.Mode, which the simulated GPU follows too, and padding by
// sched.Pad.

package cuda

import (
	"time"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/gpu"
	"github.com/sluice-npu/sluice/host/gpu/cuda/kernels"
	"github.com/sluice-npu/sluice/host/sched"
)

// Counts are what the launcher did.
type Counts struct {
	Ran    int // kernels that have ended
	Padded int // of them: beside one of priority, in its launch
	Kills  int // launches stopped inside a kernel
	Again  int // kernels run again after that
	// Preemptions are the times from a launch of priority to no kernel of others on the GPU.
	Preemptions []time.Duration
}

// Counts are those so far. The device must be at rest.
func (d *Device) Counts() (c Counts, err error) {
	err = d.ask(func(l *launcher) error {
		c = l.counts
		return nil
	})
	return c, err
}

func (l *launcher) hear(o gpu.Order) {
	if l.cfg.Heard != nil {
		l.cfg.Heard(o)
	}
}

// realTime is how many launches of priority are under way.
func (l *launcher) realTime() (n int) {
	for _, f := range l.flows {
		if f.rt {
			n++
		}
	}
	return n
}

// putAside makes way for a launch of priority.
func (l *launcher) putAside() {
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
		if f.oldest == f.next {
			continue
		}
		if l.since.IsZero() {
			l.since = time.Now()
		}
		if m.Kill && !l.cfg.Drain {
			if l.leave(f, true); i < len(l.flows) && l.flows[i] != f { // it has failed
				i--
			}
		}
	}
}

// settle notes when nothing that was put aside is on the GPU any more, and takes it up when no launch of
// priority is left.
func (l *launcher) settle() {
	if !l.since.IsZero() {
		away := true
		for _, f := range l.flows {
			away = away && (!f.aside || f.oldest == f.next && f.state != leaving && f.state != asking)
		}
		if away {
			l.counts.Preemptions = append(l.counts.Preemptions, time.Since(l.since))
			l.since = time.Time{}
		}
	}
	if !l.cfg.Mode.Hold || l.realTime() > 0 {
		return
	}
	for _, f := range l.flows {
		if f.aside {
			f.aside, f.patience = false, time.Now()
			l.hear(gpu.Order{Did: gpu.TakenUp, Launch: f.work.Launch.ID, Kernel: f.next})
		}
	}
}

// away is called when nothing of a launch that was to leave is on the GPU: it ends, where somebody asked for
// that, or goes on at a kernel when it is its turn.
func (l *launcher) away(f *flow, at int) error {
	e := &f.net.b.Network.Exits[f.seg]
	if f.aborting && at <= e.Last {
		l.end(f, device.Event{Kind: device.Aborted, Resume: device.ResumePoint{Segment: f.seg, Kernel: at - e.First}})
		return nil
	}
	// Beyond the last kernel all has run: it passes.
	f.state, f.next, f.oldest = running, at, at
	if !f.killed {
		return nil
	}
	f.killed, f.cleaning = false, true
	if err := l.clean(f.lane); err != nil {
		return err
	}
	return l.lib.Record(f.lane.over, f.lane.stream)
}

// look takes in which launches of a lane have ended.
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

// land takes in that all launches of a lane have ended.
func (l *launcher) land(n *lane) {
	for len(n.fly) > 0 {
		l.landed(n)
	}
}

func (l *launcher) landed(n *lane) {
	for i, f := range n.fly[0].flows {
		if f == nil {
			continue
		}
		f.oldest = n.fly[0].at[i] + 1
		f.ended++
		l.counts.Ran++
		l.progress.Store(f.work.ID, f.ended)
	}
	copy(n.fly, n.fly[1:])
	n.fly = n.fly[:len(n.fly)-1]
}

// push launches what is a flow's turn.
func (l *launcher) push(f *flow) error {
	if f.aside || f.cleaning || f.next > f.last() || f.oldest < f.next && f.in != f.lane {
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
	for f.next <= f.last() && len(f.lane.fly) < len(f.lane.ring) {
		var beside *flow
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

// args makes a layer that of a flow's next kernel.
func (f *flow) args(k *kernels.Layer) {
	*k = f.net.layers[f.next]
	k.Control, k.Epoch = uint64(f.lane.control), f.lane.epoch
	for i, s := range f.reqs {
		k.Sample[i] = uint32(s.slot)
	}
	k.Grid(len(f.reqs))
}

// launch gives a flow's stream its next kernel, with the next one of another flow beside it or without.
func (l *launcher) launch(f, beside *flow) error {
	n := f.lane
	f.args(n.layer)
	fn, blocks := l.layer, n.layer.Blocks
	one := fly{event: n.ring[n.given%len(n.ring)], flows: [2]*flow{f}, at: [2]int{f.next}}
	order := gpu.Order{Launch: f.work.Launch.ID, Kernel: f.next}
	if beside != nil {
		beside.args(n.beside)
		fn, blocks = l.padded, blocks+n.beside.Blocks
		one.flows[1], one.at[1] = beside, beside.next
		if l.cfg.Heard != nil {
			order.Beside = []gpu.Beside{{Launch: beside.work.Launch.ID, Kernel: beside.next, SMs: l.pads[0].Units}}
		}
	}
	if err := l.lib.Launch(fn, int(blocks), kernels.Threads, n.stream, &n.args); err != nil {
		return err
	}
	// From here on it is under way, whatever else fails.
	n.given++
	n.fly = append(n.fly, one)
	f.next++
	if beside != nil {
		beside.in = n
		beside.next++
		l.counts.Padded++
	} else {
		f.in = n
	}
	l.hear(order)
	return l.lib.Record(one.event, n.stream)
}

// beside selects what pads a flow's next kernel: the first best-effort launch whose next kernel may.
// A launch holds two kernels, so there is no second.
func (l *launcher) beside(f *flow) (*flow, error) {
	rt, err := l.version(f)
	if err != nil {
		return nil, err
	}
	l.heads, l.owners = l.heads[:0], l.owners[:0]
	for _, b := range l.flows {
		if b.rt || !b.aside || b.aborting || b.cleaning || b.state != running || b.next > b.last() ||
			b.lane.key.units != f.lane.key.units || b.oldest < b.next && b.in != f.lane {
			continue
		}
		v, err := l.version(b)
		if err != nil {
			return nil, err
		}
		l.heads, l.owners = append(l.heads, v), append(l.owners, b)
	}
	if l.pads = sched.Pad(&rt[0], l.parts.sms(f.lane.key.units), l.heads, l.pads[:0]); len(l.pads) == 0 {
		return nil, nil
	}
	return l.owners[l.pads[0].Queue], nil
}

// version is what padding is told of a flow's next kernel.
func (l *launcher) version(f *flow) ([]sched.Version, error) {
	n, batch := f.net, len(f.reqs)
	if n.versions == nil {
		n.versions = map[int][]sched.Version{}
	}
	all := n.versions[batch]
	if all == nil {
		p, err := Program(n.b, batch, l.cfg.Params)
		if err != nil {
			return nil, err
		}
		for i := range p.Kernels {
			all = append(all, gpu.Profile(&p.Kernels[i], l.cfg.Params))
		}
		n.versions[batch] = all
	}
	return all[f.next : f.next+1], nil
}
