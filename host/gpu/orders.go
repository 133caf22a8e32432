package gpu

import (
	"fmt"
	"slices"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/gpu/kernel"
	"github.com/sluice-npu/sluice/host/gpu/sim"
)

// refuse returns an error that ends one launch and no other work.
func refuse(format string, a ...any) error {
	return &device.Failure{Scope: device.LoseLaunch, Err: fmt.Errorf("%w: %s", device.ErrRequest, fmt.Sprintf(format, a...))}
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

// reset ends everything that runs on the given units.
func (d *Device) reset(now sim.Time, w *device.Work) (bool, error) {
	for _, f := range slices.Clone(d.flows) {
		if w.Units.Meets(f.work.Launch.Units) {
			f.stopping, f.gone = true, true // the end of its last kernel must cause no event
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
	_ = kill // the GPU's abilities decide: it stops at once if it can, otherwise between kernels
	if f.inGPU > 0 && !f.evicting {
		d.evict(f)
	}
	d.stopped(now, f)
}

// stopped ends an aborted launch if the launch has left the device.
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
	for k < 0 { // the repeatable group began in an earlier segment
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

// remove removes a flow from the list and frees its stream.
func (d *Device) remove(f *flow) {
	d.flows = slices.DeleteFunc(d.flows, func(g *flow) bool { return g == f })
	d.gpu.Pause(f.stream, false) // the flow may have been aside when it ended
	d.streams = append(d.streams, f.stream)
	d.launch(d.gpu.Now())
}

// held is the state of a launch that has ended and may resume later. It is stored on the device until then.
type held struct {
	mem *sim.Memory
	n   int // batch of the launch for which mem was created
}

// Segments returns the number of segments of a loaded network.
func (d *Device) Segments(network string) (int, error) {
	net := d.networks[network]
	if net == nil {
		return 0, refuse("%s is not loaded on %s", network, d.info.Name)
	}
	return len(net.batches[0].Exits), nil
}
