// Package device defines what a device is to the runtime. The engine begins work on it (a launch, a copy, a load, a
// reset), and the device answers with events: an exit passed with its results, done, aborted, or failed. Backends
// implement Device, or the blocking calls of Blocking, from which Adapt makes a device. The package knows neither
// backends nor clocks.
package device

import "context"

// Time is ns since the run began, on the engine's clock.
type Time = int64

// RequestID identifies a request for its whole life.
type RequestID uint64

// LaunchID identifies a launch for its whole life, in all work for it.
type LaunchID uint64

// WorkID identifies a piece of work, from Begin to its last event. It is never reused.
type WorkID uint64

// Granularity says where a running launch can stop when it is aborted.
type Granularity int

// Places where a device can stop.
const (
	PreemptNever  Granularity = iota
	PreemptExit               // between segments only (NPU): running work cannot be aborted
	PreemptKernel             // between the kernels of a segment (GPU)
	PreemptBlock              // between the thread blocks of a kernel
)

// Info describes a device. Capabilities are data, not type switches, and never change.
type Info struct {
	Name     string // "soft", "cosim:run" ...
	Label    string // simulated | synthesised | measured | estimated
	MaxBatch int
	Slots    int // samples it can hold at the same time
	Places   int // launches it runs at the same time (an NPU: 1)
	// Units is the number of units (TPCs, CUs) to which launches can be confined; 0: launches always have the whole
	// device. A set of units must consist of whole groups of UnitAlign (0: 1) neighbours.
	Units, UnitAlign int
	// the units of a launch must be adjacent
	Neighbours bool
	Priorities int // number of priority levels; the highest number goes first; 0: no levels
	Preempt    Granularity
	// Through: a launch continues past its exits by itself, with an event at each exit. Otherwise the engine begins every
	// segment separately, and the policy decides between segments.
	Through bool
	// InOrder: copies and unloads run one after another, in the order in which they were begun. The time limit of each counts
	// from the end of the previous one.
	InOrder bool
	ClockHz int64
}

// Device does work. All calls come from one goroutine. They return at once: they wait neither for hardware nor for a lock
// that is held during a wait. A device is Virtual, Real or both, and is used in one of the two ways for its whole life.
type Device interface {
	Info() Info
	// Begin begins work. After an error nothing has begun, and no event follows; a Failure says what is lost. done means that
	// the work took no time and has ended without an event. Only a Copy, Load or Unload may do this. Otherwise events follow,
	// the last of them with Over set. The device may read the work until then. A simulator may compute inside Begin in
	// virtual time; it stops when ctx, the run's context, ends.
	Begin(ctx context.Context, now Time, w *Work) (done bool, err error)
	// Abort asks the running work of a launch to stop at the next place where the device can stop. With kill it stops at
	// once, and what ran since the last such place is lost. The work ends with Aborted, or as usual if it ended earlier.
	// Abort ignores work of other kinds, and work that has ended.
	Abort(now Time, id WorkID, kill bool)
	// Release frees the slot of a request, when no work uses it any more. It ignores a request without a slot.
	Release(id RequestID)
	Close() error
}

// Virtual is a device in virtual time.
type Virtual interface {
	Device
	// Next is the time of the next event, if the engine begins and aborts nothing before. After each Begin and Abort the
	// answer may change. The time may be too early, if something happens inside the device without an event. Then Take
	// returns nil, and Next returns a later time. false: there will be no event. If work is in progress, the device hangs.
	Next() (Time, bool)
	// Take returns the next event that is due by now, in order of time, or nil. The event and everything that it points to
	// are valid until the next call of any method.
	Take(now Time) *Event
}

// Real is a device in real time.
type Real interface {
	Device
	// Attach is called once, before any work. Until ctx ends, the device posts its events from its own goroutines, or from
	// Post (Poster). When ctx ends, it abandons its work, and closes the channel when its goroutines have ended. post never
	// blocks. What an event points to belongs to the engine.
	Attach(ctx context.Context, post func(Event)) <-chan struct{}
}

// Preparer is a Virtual device that prepares copies or loads slowly, in time that is not the device's. Pace makes these
// preparations concurrently with the engine.
type Preparer interface {
	// Prepare prepares work; in is the input of a copy. For a load it does everything, so Begin is not called.
	Prepare(ctx context.Context, w *Work, in []Tensor) error
}

// Progressive is a device that reports the progress of work. If launches share units, the table says little about when a
// launch ends. So a watchdog checks whether this number grows.
type Progressive interface {
	Progress(id WorkID) uint64
}

// Poster is a Real device that does not post all events by itself. Post posts those that are due.
type Poster interface {
	// Next is the time of the next event that only Post posts; false: none. If that time changes without a call from the
	// engine, the device posts an event without work.
	Next() (Time, bool)
	Post(now Time)
}

// Advised is a device that receives the engine's advice to clients (Advise), for example to prepare for inputs of another
// shape.
type Advised interface {
	Advise(network string, batch int)
}
