package gpu

import (
	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/gpu/kernel"
	"github.com/sluice-npu/sluice/host/gpu/sim"
)

// Probe observes a device, for statistics that the device itself does not need. Its methods are called while the device
// works, and may call only Progress and Usage of the device.
type Probe interface {
	// Advancing is called before the time advances to the time `until`. Progress and Usage still return the old state.
	Advancing(until sim.Time)
	// Ended is called at the end of a kernel, or of a part of its blocks.
	Ended(e KernelEnd)
	// Killed is called when a kernel is stopped. The argument `after` is the time since the kernel's start.
	Killed(launch device.WorkID, after sim.Time)
	// Resumed is called when a launch resumes after a kill. The argument `from` is the index of the kernel at which the
	// launch resumes, and `ended` is the number of kernels that had ended.
	Resumed(launch device.WorkID, from, ended int)
}

// KernelEnd is the end of a kernel, or of a part of its blocks.
type KernelEnd struct {
	Launch   device.WorkID
	RealTime bool
	Index    int // index of the kernel in its program
	Kernel   *kernel.Kernel
	From     int      // first block of the part
	First    sim.Time // time at which its first block was placed
	Took     sim.Time
	Alone    sim.Time // profiled time of the kernel if it runs alone; 0: not profiled
}

// Progress is the progress of a launch.
type Progress struct {
	Network  string
	RealTime bool
	Share    float64 // time of its ended kernels as a share of the time of all its kernels, both without other launches
}

// Progress returns the launches in progress, in the order of their start.
func (d *Device) Progress() []Progress {
	all := make([]Progress, len(d.flows))
	for i, f := range d.flows {
		all[i] = Progress{f.work.Launch.Network, f.rt, f.prog.part(f.done, &d.p)}
	}
	return all
}

// Usage returns the share of SMs that have a block, averaged over the time since the start.
func (d *Device) Usage() float64 { return d.gpu.Usage() }
