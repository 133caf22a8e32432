package gpu

import (
	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/gpu/kernel"
	"github.com/sluice-npu/sluice/host/gpu/sim"
)

// Probe observes a device for figures that the device itself does not need. The device calls its methods while it
// works; they may call Progress and Usage only.
type Probe interface {
	// Advancing is called before time passes: Progress and Usage are constant until then.
	Advancing(until sim.Time)
	// Ended is called when a kernel, or a part of its blocks, has ended.
	Ended(e KernelEnd)
	// Killed is called when a kernel was stopped, with the time since it began.
	Killed(launch device.WorkID, after sim.Time)
	// Resumed is called when a launch resumes after a kill at kernel from; ended kernels had ended.
	Resumed(launch device.WorkID, from, ended int)
}

// KernelEnd is the end of a kernel, or of a part of its blocks.
type KernelEnd struct {
	Launch   device.WorkID
	RealTime bool
	Index    int // in its program
	Kernel   *kernel.Kernel
	From     int      // its first block
	First    sim.Time // when its first block was placed
	Took     sim.Time
	Alone    sim.Time // its profiled time; 0: not profiled
}

// Progress is the progress of a launch.
type Progress struct {
	Network  string
	RealTime bool
	Share    float64 // share of ended kernels in its time alone
}

// Progress returns the launches in progress, in the order of their start.
func (d *Device) Progress() []Progress {
	all := make([]Progress, len(d.flows))
	for i, f := range d.flows {
		all[i] = Progress{f.work.Launch.Network, f.rt, f.prog.part(f.done, &d.p)}
	}
	return all
}

// Usage is the average share of SMs with a block on them, since the start.
func (d *Device) Usage() float64 { return d.gpu.Usage() }
