package gpu

import (
	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/gpu/kernel"
	"github.com/sluice-npu/sluice/host/gpu/sim"
)

// Probe listens to a device, for figures that the device itself has no use for. Its methods are called while
// the device works: they may ask Progress and Usage, and nothing else.
type Probe interface {
	// Advancing is called before time passes: what Progress and Usage say holds until then.
	Advancing(until sim.Time)
	// Ended is called when a kernel, or a part of its blocks, has run to its end.
	Ended(e KernelEnd)
	// Killed is called when a kernel of a launch was stopped, so long after it began.
	Killed(launch device.WorkID, after sim.Time)
	// Resumed is called when a launch goes on after a kill: from kernel from, where ended had ended.
	Resumed(launch device.WorkID, from, ended int)
}

// KernelEnd is a kernel, or a part of its blocks, that has run to its end.
type KernelEnd struct {
	Launch   device.WorkID
	RealTime bool
	Index    int // in its program
	Kernel   *kernel.Kernel
	From     int // its first block
	Took     sim.Time
	Alone    sim.Time // when it was profiled; 0: it was not
}

// Progress is how far a launch under way has come.
type Progress struct {
	Network  string
	RealTime bool
	Share    float64 // of its time alone, that of the kernels that have ended
}

// Progress tells of the launches under way, in the order in which they began.
func (d *Device) Progress() []Progress {
	all := make([]Progress, len(d.flows))
	for i, f := range d.flows {
		all[i] = Progress{f.work.Launch.Network, f.rt, f.prog.part(f.done, &d.p)}
	}
	return all
}

// Usage is the share of multiprocessors with a block on them, from the start until now.
func (d *Device) Usage() float64 { return d.gpu.Usage() }
