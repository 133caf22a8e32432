// Package device defines the interface between devices and the runtime. The engine begins work on a device: a launch, a
// copy, a load or a reset. The device reports events: an exit was passed, or the work is done, aborted or failed.
// Backends implement Device, or the blocking calls of Blocking. Adapt creates a Device from a Blocking. The package
// depends on no backend and reads no clock.
package device

import "context"

// Time is ns since the run began, on the engine's clock.
type Time = int64

// RequestID identifies a request for its whole life.
type RequestID uint64

// LaunchID identifies a launch in all of its work.
type LaunchID uint64

// WorkID identifies work from Begin to its last event. It is never reused.
type WorkID uint64

// Granularity determines where an aborted launch can stop.
type Granularity int

// Points at which a device can stop.
const (
	PreemptNever  Granularity = iota
	PreemptExit               // only between segments (NPU): running work cannot be aborted
	PreemptKernel             // between the kernels of a segment (GPU)
	PreemptBlock              // between the thread blocks of a kernel
)

// Info describes a device. The capabilities of a device are data in Info, not further interfaces. They never change.
type Info struct {
	Name     string // "soft", "cosim:run" ...
	Label    string // simulated | synthesised | measured | estimated
	MaxBatch int
	Slots    int // maximum number of samples on the device at the same time
	Places   int // maximum number of launches that run at the same time (an NPU: 1)
	// Units is the number of units (TPCs, CUs) to which launches can be confined; 0: launches always use the whole
	// device. A set of units must consist of whole groups of UnitAlign neighbours (0: 1 unit).
	Units, UnitAlign int
	// Neighbours: the units of a launch must be adjacent.
	Neighbours bool
	Priorities int // number of priority levels; the highest number goes first; 0: no levels
	Preempt    Granularity
	// Through: a launch continues past its exits by itself, with an event at each exit. If Through is false, the engine
	// begins every segment separately, and the policy decides between segments.
	Through bool
	// InOrder: copies and unloads run one after another, in the order in which they were begun. The time limit of each
	// copy or unload counts from the end of the previous one.
	InOrder bool
	ClockHz int64
}

// Device runs work. All calls come from one goroutine. They return at once: they wait neither for hardware nor for a
// lock that is held during a wait. A device is Virtual, Real or both, but is used in only one of these ways.
type Device interface {
	Info() Info
	// Begin begins work. After an error no work has begun, and no event follows; a Failure contains the scope of the
	// loss. If done is true, a Copy, Load or Unload took no time and has ended without an event. Otherwise events
	// follow, and the last event has Over set. The device may read the work until this event. In virtual time a
	// simulator may compute inside Begin. The simulator stops when ctx, the run's context, ends.
	Begin(ctx context.Context, now Time, w *Work) (done bool, err error)
	// Abort stops a launch's work at the next point where the device can stop. If kill is true, the work stops at once,
	// and the results since the last such point are lost. The work ends with Aborted, or normally if it ended earlier.
	// Abort ignores all work except launches, and work that has ended.
	Abort(now Time, id WorkID, kill bool)
	// Release frees the slot of a request, after all work with the slot has ended. It ignores a request without a slot.
	Release(id RequestID)
	Close() error
}

// Virtual is a device in virtual time.
type Virtual interface {
	Device
	// Next returns the time of the next event, if the engine begins and aborts no work before. After each Begin and
	// Abort the result may change. If the device changes without an event, this time may be too early. Then Take
	// returns nil, and Next returns a later time. If no event follows, Next returns false; if work is in progress, the
	// device hangs.
	Next() (Time, bool)
	// Take returns the next event that is due at "now", in order of time, or nil. The event and the data that it points
	// to are valid until the next call of any method.
	Take(now Time) *Event
}

// Real is a device in real time.
type Real interface {
	Device
	// Attach is called once, before any work. Until ctx ends, the device posts its events from its own goroutines, or
	// from Post (Poster). When ctx ends, the device abandons its work. It closes the returned channel when its
	// goroutines have ended. post never blocks. The data that an event points to belongs to the engine.
	Attach(ctx context.Context, post func(Event)) <-chan struct{}
}

// Preparer is a Virtual device that prepares copies or loads slowly. This real time is not part of the device's time.
// Pace runs these preparations concurrently with the engine.
type Preparer interface {
	// Prepare prepares work. "in" is the input of a copy. For a load, it does the whole work, so Begin is not called.
	Prepare(ctx context.Context, w *Work, in []Tensor) error
}

// Progressive is a device that reports the progress of work. If launches share units, the end of a launch cannot be
// predicted from the table. So a watchdog checks whether the result of Progress increases.
type Progressive interface {
	Progress(id WorkID) uint64
}

// Poster is a Real device that does not post all events by itself. Post posts the events that are due.
type Poster interface {
	// Next returns the time of the next event that only Post posts; false: no such event. If this time changes without
	// a call from the engine, the device posts an event without work.
	Next() (Time, bool)
	Post(now Time)
}

// Advised is a device that receives the engine's advice to clients (Advise), for example to prepare for inputs of another
// shape.
type Advised interface {
	Advise(network string, batch int)
}
