// What a device answers.

package device

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
)

// EventKind is what happened to a piece of work.
type EventKind uint8

// Events. A Run passes exits and ends with the last of them, Aborted or Failed; other work ends with
// Done or Failed.
const (
	Passed  EventKind = iota // the launch has passed the exit of Segment: Report
	Done                     // copied, loaded, unloaded, recovered
	Aborted                  // the launch has been stopped: Resume
	Failed                   // Err
)

// String names an event.
func (k EventKind) String() string {
	if k > Failed {
		return "unknown"
	}
	return [...]string{"passed", "done", "aborted", "failed"}[k]
}

// Event is what came of work, or of a part of it.
type Event struct {
	Kind    EventKind
	Work    WorkID
	Over    bool        // nothing more comes of this work
	Segment int         // Passed
	Report  *Report     // Passed: of what ran since the event before, for the requests in the batch then
	Resume  ResumePoint // Aborted
	Took    Time        // ns that the device itself measured; 0: not known
	Err     error       // Failed; a Failure says what is lost, any other error loses the device
}

// ResumePoint is where an aborted launch goes on. What has been written beyond may be partial: all
// from there on is computed again.
type ResumePoint struct {
	Segment int // the first that has not passed its exit
	Kernel  int // the first kernel of it that has to run: of an idempotent group
}

// ExitResult is what one request showed at one exit.
type ExitResult struct {
	Exit       int
	Class      int       // -1: the exit is no classifier
	Confidence float32   // bundle.ConfidenceAt
	Logits     []float32 // where the exit is a classifier's
	Raw        []int16   // logits as the hardware left them, where it works in int16
	Tensors    []Tensor  // what else the exit gives, or all of it where it is no classifier's
}

// Outputs are the exit's results as tensors.
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

// Clone is a result that shares nothing with the device but tensors, which nobody changes.
func (e *ExitResult) Clone() ExitResult {
	c := *e
	c.Logits, c.Raw, c.Tensors = slices.Clone(e.Logits), slices.Clone(e.Raw), slices.Clone(e.Tensors)
	return c
}

// Result is what became of one request of a launch.
type Result struct {
	Request RequestID
	Exits   []ExitResult // the exits passed, in order
	Taken   int          // exit taken, or -1: still in the batch
}

// Stats are hardware counts of one launch; zero where a device has none.
type Stats struct {
	Cycles, MACCycles, MACs, BytesRead, BytesWritten, Starts uint64
}

// Report is the answer to a launch.
type Report struct {
	Results []Result // in the order of the requests
	Cycles  uint64   // on the device's clock
	Ns      int64    // the same as time
	Stats   Stats
}

// Errors that an engine acts on, whichever backend they come from. Backends wrap them.
var (
	ErrHang     = errors.New("the device hangs")
	ErrMismatch = errors.New("the artefact is for another design or ABI")
	ErrRequest  = errors.New("impossible request")
	ErrMemory   = errors.New("not enough device memory")
	ErrReset    = errors.New("the device must be reset first")
	ErrGone     = errors.New("the device is gone") // closed, unplugged: no reset helps
	ErrBusy     = errors.New("another process uses it, or this one still does")
	ErrContract = errors.New("device broke its contract")
)

// Panic is a panic of code that is called for a request (an input, a driver, a plan), as an error.
type Panic struct {
	Value any
	Stack []byte
}

// Error is what the code panicked with.
func (p *Panic) Error() string { return fmt.Sprintf("panic: %v", p.Value) }

// Recover makes an error of a panic of the function that defers it.
func Recover(err *error) {
	if v := recover(); v != nil {
		*err = &Panic{Value: v, Stack: debug.Stack()}
	}
}

// Scope is how much is lost by a failure.
type Scope uint8

// Scopes.
const (
	LoseDevice    Scope = iota // all that runs and all that lies on the device but inputs; it must be reset
	LosePartition              // what runs on the units of the launch; they must be reset
	LoseLaunch                 // the launch alone; nothing needs a reset
)

// String names a scope.
func (s Scope) String() string {
	if s > LoseLaunch {
		return "unknown"
	}
	return [...]string{"device", "partition", "launch"}[s]
}

// Failure is an error that says how much is lost.
type Failure struct {
	Scope Scope
	Err   error
}

// Error is the error's text with the scope.
func (f *Failure) Error() string { return fmt.Sprintf("%v (lost: %s)", f.Err, f.Scope) }

// Unwrap gives the error.
func (f *Failure) Unwrap() error { return f.Err }

// ScopeOf is what an error loses.
func ScopeOf(err error) Scope {
	if f, ok := errors.AsType[*Failure](err); ok {
		return f.Scope
	}
	return LoseDevice
}

// IsHang tells whether an error says that a device hangs.
func IsHang(err error) bool {
	return errors.Is(err, ErrHang) || errors.Is(err, context.DeadlineExceeded)
}
