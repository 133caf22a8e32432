package gpu

import (
	"fmt"
	"slices"
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
