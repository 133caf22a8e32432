package gpu

import (
	"fmt"
	"slices"

	"github.com/sluice-npu/sluice/host/device"
)

// Mode is what the launching thread does about launches of priority (real-time ones) beside others
// (best-effort ones). Every scheme is a choice of these; none has code of its own.
type Mode struct {
	Name     string
	Priority bool // real-time streams have the GPU's stream priority
	// Hold: no best-effort kernel is launched by itself while a real-time launch is there; a real-time
	// one begins when the best-effort streams are off the device.
	Hold  bool
	Evict bool // to that end queued kernels end themselves and host queues are emptied; else they are awaited
	// Together: real-time launches run beside one another, and at once; else one after the other, when the
	// device is free of best-effort ones.
	Together bool
	Kill     bool // and running blocks are stopped
	Reclaim  bool // host queues are emptied one kernel at a time
	Queue    int  // kernels a device queue holds; 0: the GPU's own
	// Pad: best-effort kernels run beside real-time ones, in one launch, on the SMs that those leave.
	Pad      bool
	Versions int // versions of a kernel to choose from; 0: 1
	// Beside: a best-effort kernel is launched next to real-time ones where the profiles differ and it
	// is short and small, one at a time (after Orion, EuroSys 2024).
	Beside bool
	// Naive breaks, for tests that show what a mechanism is for.
	Boolean bool // the mark that queued kernels look at is a boolean, not an epoch
	Alone   bool // every kernel is run again alone, idempotent or not
}

// Standing is what a launching thread knows of a launch when it asks what may be launched of it.
type Standing struct {
	RealTime   bool // it has priority
	First      bool // no launch of priority stands before it
	Others     int  // launches of priority on the device, itself among them
	Preempting bool // best-effort work is on its way off the device
}

// Turn is what a launching thread does with a launch.
type Turn uint8

// Turns.
const (
	Waits   Turn = iota
	Submits      // its kernels, by themselves
	Pads         // its kernels, each with what may run beside it
	Besides      // one of its kernels, where the one of priority bears it
)

// Turn is the mode's rule, for every device alike.
func (m *Mode) Turn(s Standing) Turn {
	switch {
	case s.RealTime && m.Hold && !m.Together && (s.Preempting || !s.First):
		// the device is not free of the others yet, or one of its own kind is there: one at a time
		return Waits
	case s.RealTime && m.Pad:
		return Pads
	case s.RealTime || !m.Beside && (s.Others == 0 || !m.Hold):
		return Submits
	case m.Beside:
		return Besides
	}
	return Waits
}

// Order is what a launching thread did.
type Order struct {
	Did    Did
	Launch device.LaunchID
	Kernel int      // launched, counted from the network's first; or from which on it goes on
	Beside []Beside // what pads it
}

// Beside is a best-effort kernel in a launch of priority.
type Beside struct {
	Launch device.LaunchID
	Kernel int
	SMs    int // that it was given
}

// Did is what.
type Did uint8

// What a launching thread does.
const (
	Launched Did = iota
	PutAside
	TakenUp // where kernels of it are left: whether the host has seen the exit of one that has run to its end is no order
)

// Modes of the publications.
func modes() []Mode {
	return []Mode{
		{Name: "streams"},
		{Name: "priority", Priority: true},
		{Name: "wait", Hold: true, Evict: true, Reclaim: true},
		{Name: "drain", Hold: true},
		{Name: "xsched1", Hold: true, Queue: 8},
		{Name: "xsched", Priority: true, Hold: true, Queue: 8, Together: true},
		{Name: "orion", Priority: true, Beside: true},
		{Name: "reset", Hold: true, Evict: true, Kill: true, Queue: 4},
		{Name: "reset-async", Hold: true, Evict: true, Kill: true},
		{Name: "reset-plain", Hold: true, Evict: true, Kill: true, Reclaim: true},
		{Name: "reef", Hold: true, Evict: true, Kill: true, Queue: 4, Pad: true, Versions: 10},
		{Name: "reef-dkp", Hold: true, Evict: true, Kill: true, Queue: 4, Pad: true},
	}
}

// ModeOf finds a mode by name.
func ModeOf(name string) (Mode, error) {
	all := modes()
	i := slices.IndexFunc(all, func(m Mode) bool { return m.Name == name })
	if i < 0 {
		return Mode{}, fmt.Errorf("no mode %q; there are %v", name, ModeNames())
	}
	return all[i], nil
}

// ModeNames lists the modes.
func ModeNames() (names []string) {
	for _, m := range modes() {
		names = append(names, m.Name)
	}
	return names
}
