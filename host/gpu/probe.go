package gpu

import (
	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/gpu/kernel"
	"github.com/sluice-npu/sluice/host/gpu/sim"
)

// Probe observes a device. It serves for figures that the device itself does not need. Its methods are called while the
// device works, and may only call Progress and Usage.
type Probe interface {
	// Advancing is called before time advances to until. Progress and Usage still return the state before that.
	Advancing(until sim.Time)
	// Ended is called at the end of a kernel, or of a part of its blocks.
	Ended(e KernelEnd)
	// Killed is called when a kernel is stopped, with the time since its start.
	Killed(launch device.WorkID, after sim.Time)
	// Resumed is called when a launch resumes after a kill. It resumes at the kernel from; ended is the number of
	// kernels that had ended.
	Resumed(launch device.WorkID, from, ended int)
}

// KernelEnd is the end of a kernel, or of a part of its blocks.
type KernelEnd struct {
	Launch   device.WorkID
	RealTime bool
	Index    int // in its program
	Kernel   *kernel.Kernel
	From     int      // first block of the part
	First    sim.Time // when its first block was placed
	Took     sim.Time
	Alone    sim.Time // profiled time alone; 0: not profiled
}

// Progress is the progress of a launch.
type Progress struct {
	Network  string
	RealTime bool
	Share    float64 // time of the ended kernels alone, as a share of the whole launch's time alone
}

// Progress returns the launches in progress, in the order of their start.
func (d *Device) Progress() []Progress {
	all := make([]Progress, len(d.flows))
	for i, f := range d.flows {
		all[i] = Progress{f.work.Launch.Network, f.rt, f.prog.part(f.done, &d.p)}
	}
	return all
}

// Usage returns the average share of SMs with a block on them since the start.
func (d *Device) Usage() float64 { return d.gpu.Usage() }
