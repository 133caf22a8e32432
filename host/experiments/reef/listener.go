package reef

import (
	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/gpu"
	"github.com/sluice-npu/sluice/host/gpu/kernel"
	"github.com/sluice-npu/sluice/host/sched"
)

// listener counts the events for REEF's figures.
type listener struct {
	device *gpu.Device
	pads   bool       // the mode pads, so kernels have profiles
	window sched.Time // end of the workload; 0: the workload has ended

	progress map[class]float64 // by class: sum of the finished shares of launches in flight at the window's end
	usage    float64           // mean share of multiprocessors that run a block, until the window's end

	took   map[device.WorkID][]sched.Time // by best-effort launch and kernel: time of the kernel's last run, summed over its parts
	killed map[device.WorkID]sched.Time   // by launch: run time of the killed kernel until the kill
	redone []float64                      // by resumed launch: time of the repeated work in us

	// padable is the number of real-time kernels that can be padded (figure 27 of REEF). Of these, notSlowed ran as
	// fast as without padding, and below9 less than 9 us slower.
	padable, notSlowed, below9 int
}

// class identifies the launches of one network with one priority.
type class struct {
	network  string
	realTime bool
}

func newListener(d *gpu.Device, m gpu.Mode, window sched.Time) *listener {
	return &listener{
		device: d, pads: m.Pad, window: window, progress: map[class]float64{},
		took: map[device.WorkID][]sched.Time{}, killed: map[device.WorkID]sched.Time{},
	}
}

// Advancing implements gpu.Probe.
func (l *listener) Advancing(until sched.Time) {
	if l.window == 0 || until <= l.window {
		return
	}
	l.window, l.usage = 0, l.device.Usage()
	for _, f := range l.device.Progress() {
		l.progress[class{f.Network, f.RealTime}] += f.Share
	}
}

// Ended implements gpu.Probe.
func (l *listener) Ended(e gpu.KernelEnd) {
	if !e.RealTime {
		took := l.took[e.Launch]
		for len(took) <= e.Index {
			took = append(took, 0)
		}
		if e.From == 0 {
			took[e.Index] = 0
		}
		took[e.Index] += e.Took
		l.took[e.Launch] = took
		return
	}
	if !l.pads || e.Kernel.Kind != kernel.Compute {
		return
	}
	l.padable++
	more := e.Took - e.Alone
	if more <= 1 { // tolerates rounding
		l.notSlowed++
	}
	if more < 9000 {
		l.below9++
	}
}

// Killed implements gpu.Probe.
func (l *listener) Killed(launch device.WorkID, after sched.Time) { l.killed[launch] = after }

// Resumed implements gpu.Probe.
func (l *listener) Resumed(launch device.WorkID, from, ended int) {
	redone, took := l.killed[launch], l.took[launch]
	for k := from; k < min(ended, len(took)); k++ {
		redone += took[k]
	}
	l.redone = append(l.redone, float64(redone)/1e3)
}

// part returns the finished share of a client's requests that were in flight at the end. Clients with the same network
// and priority cannot be distinguished, so each client receives an equal part of their sum.
func (l *listener) part(all []Client, c *Client) float64 {
	like := 0
	for i := range all {
		if all[i].Network == c.Network && all[i].RealTime() == c.RealTime() {
			like++
		}
	}
	return l.progress[class{c.Network, c.RealTime()}] / float64(like)
}

// report adds the counts to the outcome.
func (l *listener) report(o *Outcome) {
	o.Usage = l.usage
	o.Redone, _ = meanP99(l.redone)
	if n := float64(l.padable); n > 0 {
		o.NotSlowed, o.Below9us = float64(l.notSlowed)/n, float64(l.below9)/n
	}
}
