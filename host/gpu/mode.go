package gpu

import (
	"fmt"
	"slices"

	"github.com/sluice-npu/sluice/host/device"
)

// Mode says how the launching thread treats priority (real-time) launches beside best-effort launches. Every published
// scheme is a combination of these options. No scheme has code of its own.
type Mode struct {
	Name     string
	Priority bool // real-time streams have the GPU's stream priority
	// Hold: while a real-time launch is in progress, no best-effort kernel is launched alone. A real-time launch starts
	// when no best-effort kernel is on the device.
	Hold  bool
	Evict bool // queued best-effort kernels are removed at once; otherwise they are awaited
	// Together: real-time launches start at once and run concurrently. Otherwise they run one after another, and the
	// first waits until no best-effort kernel is on the device.
	Together bool
	// Ahead: a real-time launch does not wait until best-effort kernels have left. The priority of its stream puts it
	// before queued kernels. Real-time launches still run one after another.
	Ahead   bool
	Kill    bool // running blocks are stopped too
	Reclaim bool // a host queue is cleared one kernel at a time, and the host waits for it
	Fence   bool // copies and memsets enter only an empty device queue, so that they run only once (REEF, section 4.6)
	Queue   int  // capacity of a device queue in kernels; 0: the GPU's own
	// Pad: best-effort kernels run inside a real-time kernel's launch, on SMs that it does not use.
	Pad      bool
	Versions int // number of versions of a kernel to choose from; 0: 1
	// Beside: a best-effort kernel is launched beside real-time kernels if it is short and small and their profiles
	// differ (after Orion, EuroSys 2024). One such kernel runs at a time, even without real-time launches. With a queue
	// of one, real-time kernels also run one at a time, as REEF's section 6.6 says.
	Beside bool
	// Deliberate faults, for tests that show why a mechanism is needed.
	Boolean bool // queued kernels read a boolean in place of an epoch
	Alone   bool // every kernel is repeated by itself, even if that is wrong
}

// Standing is the state of a launch at the time when the launching thread decides about it.
type Standing struct {
	RealTime   bool // it has priority
	First      bool // no earlier priority launch is waiting
	Others     int  // priority launches on the device, including this one
	Preempting bool // best-effort work that was told to leave is still on the device
}

// Turn is a decision about a launch.
type Turn uint8

const (
	Waits   Turn = iota
	Submits      // launch its kernels, without kernels that pad them
	Pads         // launch its kernels, each with kernels that pad it
	Besides      // launch one of its kernels, if the real-time kernels allow it
)

// Turn decides about a launch by the mode's rule. Real and simulated devices both use it.
func (m *Mode) Turn(s Standing) Turn {
	switch {
	case s.RealTime && m.Hold && !m.Together && (s.Preempting && !m.Ahead || !s.First):
		// best-effort work is still on the device, or an earlier priority launch is waiting
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
	Kernel int      // index in the network; for TakenUp the kernel at which it resumes
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
	TakenUp // reported only if the launch has kernels left; otherwise the host notices the exit later
)

// modes returns the modes of the publications.
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

// ModeOf returns the mode with a name.
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
