// The events of a device.

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

// Kinds of events. A Run has a Passed event at each exit. It ends with the last of these, or with Aborted or Failed. Other
// work ends with Done or Failed.
const (
	Passed  EventKind = iota // the launch has passed the exit of Segment, with a Report
	Done                     // the copy, load, unload or reset has ended
	Aborted                  // the launch was stopped, and continues at Resume
	Failed                   // the work failed with Err
)

// String names an event.
func (k EventKind) String() string {
	if k > Failed {
		return "unknown"
	}
	return [...]string{"passed", "done", "aborted", "failed"}[k]
}

// Event is something that happened to work.
type Event struct {
	Kind    EventKind
	Work    WorkID
	Over    bool        // the work's last event
	Segment int         // Passed
	Report  *Report     // Passed: the results and counts since the previous event, for the requests that were in the batch
	Resume  ResumePoint // Aborted
	Took    Time        // duration in ns, as measured by the device; 0: unknown
	Err     error       // Failed: a Failure says what is lost; after any other error the device is lost
}

// ResumePoint is where an aborted launch resumes. The device computes everything from there on again, as later data may be
// incomplete.
type ResumePoint struct {
	Segment int // the first segment whose exit has not been passed
	Kernel  int // the first kernel of this segment that must run again, at the start of an idempotent group
}

// ExitResult is a request's result at an exit.
type ExitResult struct {
	Exit       int
	Class      int       // -1: the exit does not classify
	Confidence float32   // bundle.ConfidenceAt
	Logits     []float32 // if the exit classifies
	Raw        []int16   // logits as the hardware computes them, on devices that compute in int16
	Tensors    []Tensor  // further outputs, or all outputs if the exit does not classify
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
	Exits   []ExitResult // the exits passed, in order
	Taken   int          // exit at which it left; -1: it is still in the batch
}

// Stats are hardware counts of one launch; zero if a device has none.
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

// Panic is a panic as an error. It occurred in code that was called for a request (an input, a driver, a plan).
type Panic struct {
	Value any
	Stack []byte
}

func (p *Panic) Error() string { return fmt.Sprintf("panic: %v", p.Value) }

// Recover turns a panic of the deferring function into an error.
func Recover(err *error) {
	if v := recover(); v != nil {
		*err = &Panic{Value: v, Stack: debug.Stack()}
	}
}

// Scope is how much is lost with a failure.
type Scope uint8

const (
	LoseDevice    Scope = iota // all that runs or is stored on the device, except for inputs; the device must be reset
	LosePartition              // all that runs on the launch's units, which must be reset
	LoseLaunch                 // only the launch; no reset is needed
)

// String names a scope.
func (s Scope) String() string {
	if s > LoseLaunch {
		return "unknown"
	}
	return [...]string{"device", "partition", "launch"}[s]
}

// Failure is an error that also says how much is lost.
type Failure struct {
	Scope Scope
	Err   error
}

func (f *Failure) Error() string { return fmt.Sprintf("%v (lost: %s)", f.Err, f.Scope) }

// Unwrap gives the error.
func (f *Failure) Unwrap() error { return f.Err }

// ScopeOf returns how much is lost with an error.
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
