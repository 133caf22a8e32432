// This file has the events of devices.

package device

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
)

// EventKind is the kind of an event.
type EventKind uint8

// Kinds of events. A Run has a Passed event at each exit. Its last event is a Passed, an Aborted or a Failed event.
// Other work ends with Done or Failed.
const (
	Passed  EventKind = iota // the launch has passed the exit of Segment, with a Report
	Done                     // the copy, load, unload or reset has ended
	Aborted                  // the launch was stopped; Resume is the point at which it continues
	Failed                   // the work failed with Err
)

// String returns the name of a kind.
func (k EventKind) String() string {
	if k > Failed {
		return "unknown"
	}
	return [...]string{"passed", "done", "aborted", "failed"}[k]
}

// Event reports a change in the state of work.
type Event struct {
	Kind    EventKind
	Work    WorkID
	Over    bool        // this is the last event of the work
	Segment int         // Passed
	Report  *Report     // Passed: results and counts since the previous event, for the requests of the batch
	Resume  ResumePoint // Aborted
	Took    Time        // duration in ns, as measured by the device; 0: unknown
	Err     error       // Failed: a Failure contains the scope of the loss; after other errors the device is lost
}

// ResumePoint is the point at which an aborted launch resumes. The device computes the rest of the launch again from
// this point, since later data may be incomplete.
type ResumePoint struct {
	Segment int // the first segment whose exit has not been passed
	Kernel  int // the first kernel of this segment that must run again; it starts an idempotent group
}

// ExitResult is a request's result at an exit.
type ExitResult struct {
	Exit       int
	Class      int       // -1: the exit has no class
	Confidence float32   // bundle.ConfidenceAt
	Logits     []float32 // logits, if the exit has a class
	Raw        []int16   // logits as the hardware computes them, on devices that compute in int16
	Tensors    []Tensor  // other outputs, or all outputs if the exit has no class
}

// Outputs returns the exit's results as tensors.
func (e *ExitResult) Outputs() []Tensor {
	out := e.Tensors
	switch {
	case e.Logits != nil:
		out = append([]Tensor{Floats("logits", e.Logits, len(e.Logits))}, out...)
	case e.Raw != nil:
		out = append([]Tensor{Words("logits", e.Raw, len(e.Raw))}, out...)
	}
	return out
}

// Clone returns a copy that shares only tensors with the device. Tensors never change.
func (e *ExitResult) Clone() ExitResult {
	c := *e
	c.Logits, c.Raw, c.Tensors = slices.Clone(e.Logits), slices.Clone(e.Raw), slices.Clone(e.Tensors)
	return c
}

// Result is the outcome of a request in a launch.
type Result struct {
	Request RequestID
	Exits   []ExitResult // the exits that the request passed, in order
	Taken   int          // exit at which the request left; -1: the request is still in the batch
}

// Stats are hardware counts of one launch. They are zero if a device has no counters.
type Stats struct {
	Cycles, MACCycles, MACs, BytesRead, BytesWritten, Starts uint64
}

// Report has the results of a launch.
type Report struct {
	Results []Result // in the order of requests
	Cycles  uint64   // number of cycles of the device's clock
	Ns      int64    // the same time in ns
	Stats   Stats
}

// Errors that the engine handles. Backends wrap them.
var (
	ErrHang     = errors.New("the device hangs")
	ErrMismatch = errors.New("the artefact is for another design or ABI")
	ErrRequest  = errors.New("impossible request")
	ErrMemory   = errors.New("not enough device memory")
	ErrReset    = errors.New("the device must be reset first")
	ErrGone     = errors.New("the device is gone") // closed or unplugged; a reset cannot help
	ErrBusy     = errors.New("another process uses it, or this one still does")
	ErrContract = errors.New("device broke its contract")
)

// Panic is an error that represents a panic in code that was called for a request (an input, a driver, a plan).
type Panic struct {
	Value any
	Stack []byte
}

func (p *Panic) Error() string { return fmt.Sprintf("panic: %v", p.Value) }

// Recover converts a panic of the function that defers it into an error.
func Recover(err *error) {
	if v := recover(); v != nil {
		*err = &Panic{Value: v, Stack: debug.Stack()}
	}
}

// Scope is the extent of the loss after a failure.
type Scope uint8

const (
	LoseDevice    Scope = iota // all work and data on the device, except for inputs; the device must be reset
	LosePartition              // all running work on the launch's units, which must be reset
	LoseLaunch                 // only the launch; no reset is needed
)

// String returns the name of a scope.
func (s Scope) String() string {
	if s > LoseLaunch {
		return "unknown"
	}
	return [...]string{"device", "partition", "launch"}[s]
}

// Failure is an error with a Scope.
type Failure struct {
	Scope Scope
	Err   error
}

func (f *Failure) Error() string { return fmt.Sprintf("%v (lost: %s)", f.Err, f.Scope) }

// Unwrap returns the error.
func (f *Failure) Unwrap() error { return f.Err }

// ScopeOf returns the scope of an error.
func ScopeOf(err error) Scope {
	if f, ok := errors.AsType[*Failure](err); ok {
		return f.Scope
	}
	return LoseDevice
}

// IsHang reports whether an error means that a device hangs.
func IsHang(err error) bool {
	return errors.Is(err, ErrHang) || errors.Is(err, context.DeadlineExceeded)
}
