package gpu

import (
	"slices"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/gpu/sim"
)

type outcome struct {
	at    sim.Time
	event device.Event
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

// due returns the time of the next internal event.
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

// advance processes all events up to the time now.
func (d *Device) advance(now sim.Time) {
	for t := d.due(); t <= now; t = d.due() {
		d.step(t)
	}
	for d.gpu.Now() < now {
		d.events = d.gpu.Advance(now, d.events)
		d.take()
	}
}

// step advances to the time t, or to the GPU's next event if that is earlier, and processes the events at that time.
func (d *Device) step(t sim.Time) {
	if d.Probe != nil {
		d.Probe.Advancing(t)
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

// take processes the events that the GPU has reported.
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
				d.ended(f, part, e.Item, e.At)
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
				f.killed = true
				d.Kills++
				if d.Probe != nil {
					d.Probe.Killed(f.work.ID, e.At-e.Item.Began)
				}
			}
			// If the flow's own stream is evicted, its kernels that run in other streams as padding are not stopped.
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

// ended reports the end of a kernel to the probe.
func (d *Device) ended(f *flow, part *sim.Part, item *sim.Item, at sim.Time) {
	if d.Probe == nil {
		return
	}
	k := part.Kernel
	end := KernelEnd{Launch: f.work.ID, RealTime: f.rt, Index: k, Kernel: &f.prog.Kernels[k], From: part.From, First: item.First, Took: at - item.Began}
	if f.prog.heads != nil {
		end.Alone = f.prog.heads[k].KernelNs
	}
	d.Probe.Ended(end)
}

// evicted is called when all kernels of a flow have been removed from its stream.
func (d *Device) evicted(now sim.Time, f *flow) {
	f.evicting = false
	// If inGPU > 0, some of its kernels still pad other kernels. In a mode with Boolean, the host wrongly assumes that all
	// kernels have left.
	if f.inGPU == 0 || d.cfg.Mode.Boolean {
		f.lost = false
		d.back(f)
	}
	d.settle(now)
	d.stopped(now, f)
}

// back is called when no kernel of the flow is on the device. It sets the kernel at which the flow continues.
func (d *Device) back(f *flow) {
	from := f.done
	// An aborted launch cannot resume inside a kernel, so a kernel that is partly done is repeated as after a kill.
	f.killed = f.killed || f.stopping && f.ended.blocks > 0
	if f.killed && from < len(f.net.entries) && f.net.restorable(from) && !d.cfg.Mode.Alone {
		from = f.net.entries[from]
		d.Again += f.done - from + 1
		if d.Probe != nil {
			d.Probe.Resumed(f.work.ID, from, f.done)
		}
	}
	if f.killed {
		f.ended = partial{}
	}
	f.killed = false
	if f.syncAt == 0 {
		f.next, f.done, f.begun = from, from, f.ended
	}
}

// passed ends a segment. Confident requests leave at its exit.
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
