package gpu

import (
	"fmt"
	"slices"

	"github.com/sluice-npu/sluice/host/device"
)

// Mode describes how the launching thread shares the GPU between priority (real-time) and best-effort launches. Every
// published scheme is a combination of these options, without code of its own.
type Mode struct {
	Name     string
	Priority bool // real-time streams use the GPU's stream priority
	// With Hold, no best-effort kernel is launched alone while a real-time launch is in progress. A real-time launch
	// starts when no best-effort kernel is on the device.
	Hold  bool
	Evict bool // queued best-effort kernels are removed at once; otherwise the real-time launch waits for their end
	// With Together, real-time launches start at once and run concurrently. Otherwise they run one after another, and
	// the first of them waits until no best-effort kernel is on the device.
	Together bool
	// With Ahead, a real-time launch does not wait until best-effort kernels have left. Because of its stream's
	// priority, it overtakes queued kernels. Real-time launches still run one after another.
	Ahead   bool
	Kill    bool // running blocks are also stopped
	Reclaim bool // the host removes one kernel at a time from a host queue, and waits until it is removed
	Fence   bool // copies and memsets enter only an empty device queue, so that they run only once (REEF, section 4.6)
	Queue   int  // capacity of a device queue in kernels; 0: the capacity of the GPU's queues
	// With Pad, best-effort kernels run inside a real-time kernel's launch, on SMs that this kernel does not use.
	Pad      bool
	Versions int // number of versions of a kernel from which padding chooses; 0: 1
	// With Beside, a best-effort kernel runs at the same time as real-time kernels if it is short and small and if their
	// profiles differ (Orion's rule, EuroSys 2024). Only one best-effort kernel runs at a time, even without real-time
	// launches. If Queue is 1, real-time kernels also run one at a time, as described in REEF's section 6.6.
	Beside bool
	// Deliberate faults: tests use them to show why a mechanism is needed.
	Boolean bool // a boolean instead of an epoch tells queued kernels to leave
	Alone   bool // every kernel is repeated without its group, even if the result is wrong
}

// Standing is the state of a launch when the launching thread makes a decision about it.
type Standing struct {
	RealTime   bool // the launch has priority
	First      bool // no earlier priority launch is waiting
	Others     int  // number of priority launches on the device, including this launch
	Preempting bool // best-effort work that must leave is still on the device
}

// Turn is a decision about the next kernels of a launch.
type Turn uint8

const (
	Waits   Turn = iota
	Submits      // launch its kernels, without padding
	Pads         // launch each of its kernels together with kernels that pad it
	Besides      // launch one of its kernels, if the real-time kernels allow it
)

// Turn returns the decision that the mode's rule makes for a launch. Real and simulated devices both use this function.
func (m *Mode) Turn(s Standing) Turn {
	switch {
	case s.RealTime && m.Hold && !m.Together && (s.Preempting && !m.Ahead || !s.First):
		// Best-effort work is still on the device, or an earlier priority launch is waiting.
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

// Order is an action of the launching thread.
type Order struct {
	Did    Did
	Launch device.LaunchID
	Kernel int      // index in the network; for TakenUp: the kernel at which the launch resumes
	Beside []Beside // kernels that pad it
}

// Beside is a best-effort kernel in a priority launch.
type Beside struct {
	Launch device.LaunchID
	Kernel int
	SMs    int // SMs assigned to it
}

// Did is the kind of an Order.
type Did uint8

// Actions of a launching thread.
const (
	Launched Did = iota
	PutAside
	TakenUp // resumed after it was put aside; reported only if the launch has kernels left
)

// modes returns one mode for each published scheme.
func modes() []Mode {
	return []Mode{
		{Name: "streams"},
		{Name: "priority", Priority: true},
		{Name: "wait", Hold: true, Evict: true, Reclaim: true},
		{Name: "drain", Hold: true},
		{Name: "xsched1", Hold: true, Queue: 8},
		{Name: "xsched", Priority: true, Hold: true, Queue: 8, Together: true},
		{Name: "orion", Priority: true, Beside: true, Queue: 1},
		{Name: "reset", Hold: true, Evict: true, Kill: true, Fence: true, Queue: 4},
		{Name: "reset-ahead", Priority: true, Hold: true, Evict: true, Kill: true, Fence: true, Queue: 4, Ahead: true},
		{Name: "reset-async", Hold: true, Evict: true, Kill: true, Fence: true},
		{Name: "reset-plain", Hold: true, Evict: true, Kill: true, Fence: true, Reclaim: true},
		{Name: "reef", Hold: true, Evict: true, Kill: true, Fence: true, Queue: 4, Pad: true, Versions: 10},
		{Name: "reef-dkp", Hold: true, Evict: true, Kill: true, Fence: true, Queue: 4, Pad: true},
	}
}

// ModeOf returns the mode with the given name.
func ModeOf(name string) (Mode, error) {
	all := modes()
	i := slices.IndexFunc(all, func(m Mode) bool { return m.Name == name })
	if i < 0 {
		return Mode{}, fmt.Errorf("no mode %q; there are %v", name, ModeNames())
	}
	return all[i], nil
}

// ModeNames returns the names of all modes.
func ModeNames() (names []string) {
	for _, m := range modes() {
		names = append(names, m.Name)
	}
	return names
}
