// Package device says what a device is to the runtime. Work begins on it (a launch, a copy, a load,
// a reset), and events come back: an exit passed, with its results; copied; loaded; aborted; failed.
// The package knows no backend and no clock; backends implement Device, or the one blocking call of
// Blocking and let Adapt make a device of it; the engine drives them.
package device

import "context"

// Time is ns since the run began, on the engine's clock.
type Time = int64

// RequestID names a request for its whole life.
type RequestID uint64

// LaunchID names a launch for its whole life: all the work that is begun for it.
type LaunchID uint64

// WorkID names one piece of work, from Begin to its last event. It is never used again.
type WorkID uint64

// Granularity is where a running launch lets go when it is aborted.
type Granularity int

// Where a device lets go.
const (
	PreemptNever  Granularity = iota
	PreemptExit               // between segments: NPU. Nothing running can be aborted
	PreemptKernel             // between kernels, inside a segment: GPU
	PreemptBlock              // between the thread blocks of a kernel
)

// Info describes a device. Capabilities are data, not type switches, and do not change.
type Info struct {
	Name     string // "soft", "cosim:run" ...
	Label    string // simulated | synthesised | measured | estimated
	MaxBatch int
	Slots    int // samples it can hold at the same time
	Places   int // launches it runs at the same time (an NPU: 1)
	// Units is what a launch can be confined to (TPCs, CUs), 0: launches have the whole device.
	// A set of units is legal where it is made of whole groups of UnitAlign (0: 1) neighbours.
	Units, UnitAlign int
	// Neighbours: the units of a launch must lie beside each other.
	Neighbours bool
	Priorities int // levels of priority, the highest number first; 0: none
	Preempt    Granularity
	// Through: a launch runs on through its exits by itself, each of them an event. Else a launch is
	// begun segment by segment, so that the policy is asked in between.
	Through bool
	// InOrder: copies and unloads are done one after the other, in the order in which they were begun, so
	// the time that one may take counts from the end of the one before it.
	InOrder bool
	ClockHz int64
}

// Device does work. Its calls come from one goroutine, return at once and do not wait: not for the
// hardware, not for a lock that is held while waiting.
//
// A device is Virtual, Real or both, and is driven in one of the two ways for its whole life.
type Device interface {
	Info() Info
	// Begin begins work. An error refuses it (see Failure for what is lost): then nothing has begun
	// and no event follows. done: it took no time and is over, no event follows either; only a Copy,
	// Load or Unload may end so. Else the work's events follow, the last of them with Over set.
	// The work is the device's to read until then. What a device computes inside Begin (in virtual time
	// a simulator may) it gives up when ctx ends, which is the run's.
	Begin(ctx context.Context, now Time, w *Work) (done bool, err error)
	// Abort asks for the end of a launch's work that runs, at the next place where the device lets
	// go; with kill, at once, where what ran since the last such place is lost. It ends with Aborted,
	// or, where it was faster, with what it ends with otherwise. Other work, and work that is over, is
	// left alone.
	Abort(now Time, id WorkID, kill bool)
	// Release frees a request's slot, which no work uses any more. A request without one is left alone.
	Release(id RequestID)
	Close() error
}

// Virtual is a device in virtual time.
type Virtual interface {
	Device
	// Next is when the next event is due if nothing is begun or aborted on the device until then: a
	// device may answer otherwise after each Begin and Abort (interference, preemption inside a
	// segment, a bus that is shared). It may be early, where something inside the device is due that is no
	// event: then Take has nothing, and Next has moved on. false: none is due, ever; where work is under
	// way it hangs.
	Next() (Time, bool)
	// Take is the next event that is due by now, in the order of their times, nil where there is none.
	// It and all it points to are the device's again at the next call of any of its methods.
	Take(now Time) *Event
}

// Real is a device in real time.
type Real interface {
	Device
	// Attach is called once, before any work. The device posts its events from goroutines of its own, or when it is asked
	// (Poster), until ctx ends; then it gives up what is under way, and closes the channel when its goroutines have ended.
	// post never waits. What an event points to is the engine's.
	Attach(ctx context.Context, post func(Event)) <-chan struct{}
}

// Preparer is a Virtual device that has something to do before a copy or a load which takes a while and is not its
// device's time. Pace has it done beside the engine.
type Preparer interface {
	// Prepare finds what the work needs; in is the input of a copy. A load it does, so that it is not begun any more.
	Prepare(ctx context.Context, w *Work, in []Tensor) error
}

// Progressive is a device that can tell how far work has come. Where launches share units a table
// says little of when one ends, so a watchdog asks whether this number grows.
type Progressive interface {
	Progress(id WorkID) uint64
}

// Poster is a Real device that does not post all of its events by itself: Post posts those that are due.
type Poster interface {
	// Next is when an event is due that only Post posts; false: none is. Where it becomes another one by itself, and not by
	// a call of the engine's, the device posts an event of no work.
	Next() (Time, bool)
	Post(now Time)
}

// Advised is a device that wants to be told what the engine makes of its clients (Advise), for
// instance to prepare for another input shape.
type Advised interface {
	Advise(network string, batch int)
}
