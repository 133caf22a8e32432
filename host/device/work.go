// What a device is asked to do.

package device

import (
	"context"
	"fmt"
	"reflect"
)

// Kind of work.
type Kind uint8

// Work.
const (
	Run    Kind = iota // Launch: its segments
	Copy               // Request: a slot, and its input into it
	Load               // Artefact: a network becomes servable
	Unload             // Network: what it takes is free again
	Reset              // the device, or the partition Units of it, is recovered; samples stay admitted, their inputs intact
)

// String names a kind.
func (k Kind) String() string {
	if k > Reset {
		return "unknown"
	}
	return [...]string{"run", "copy", "load", "unload", "reset"}[k]
}

// Work is one thing to be done. The fields of its kind are set.
type Work struct {
	ID   WorkID
	Kind Kind

	Launch Launch // Run

	Request RequestID                // Copy
	Network string                   // Copy, Load, Unload: the name it is served by
	Input   func() ([]Tensor, error) // Copy; called once at most, on any goroutine; it may take its time

	Artefact Artefact // Load; nil for a device that needs none. It is served by Network, where that is set (As)
	Units    Units    // Reset: the partition that has failed; zero: the device

	// Expect is what a table says it takes, in ns; 0: nothing is known. Fixed: a device that has no
	// time of its own, or is asked to run by the table's clock, takes just that in virtual time.
	Expect Time
	Fixed  bool
	// Limit is the time in ns, on the device's own clock, after which the work counts as hung (ErrHang), if the
	// device can tell; 0: no limit. Real time passes while a simulator computes, and is no hang.
	Limit Time
}

// Launch is segments First..Last for a batch. At an exit whose confidence reaches a request's
// threshold, the request leaves the batch.
type Launch struct {
	ID          LaunchID
	Device      int
	Network     string // the member of a family that runs, name or name@version
	First, Last int
	Kernel      int // the first kernel of segment First that has not run (ResumePoint.Kernel)
	Requests    []RequestID
	// Theta is one threshold a request, or one a request and segment: request by request, First..Last.
	Theta     []float32
	Units     Units // to which it is confined; zero: the whole device
	Exclusive bool  // nobody else runs on these units meanwhile
	Priority  int   // above 0: of priority (real-time); 0 or below: best effort. DISB's files count the other way
	Limit     Time  // of Work, for a device that is called with the launch alone
}

// ThetaAt is the threshold of the i-th request at the exit of segment s.
func (l *Launch) ThetaAt(i, s int) float32 {
	if len(l.Theta) == len(l.Requests) {
		return l.Theta[i]
	}
	return l.Theta[i*(l.Last-l.First+1)+s-l.First]
}

// Artefact is what makes a network servable on a device. A type of any package may be one.
type Artefact interface {
	NetworkName() string // what a device serves it by: its own name, or name@version, or another one (As)
	Kind() string        // "bundle" (an NPU's), "module" (a GPU's), "table" (nothing but times) ...
}

// As is an artefact by another name; "": by its own. ArtefactOf finds what it is.
func As(network string, a Artefact) Artefact {
	if network == "" || isNil(a) || a.NetworkName() == network {
		return a
	}
	return renamed{a, network}
}

type renamed struct {
	Artefact
	network string
}

func (r renamed) NetworkName() string { return r.network }

// isNil tells whether there is no artefact, or a pointer to none.
func isNil(a Artefact) bool {
	v := reflect.ValueOf(a)
	return a == nil || v.Kind() == reflect.Pointer && v.IsNil()
}

// ArtefactOf is an artefact as the type that the named device loads, whose Kind needs no value; any other is refused.
func ArtefactOf[T Artefact](a Artefact, on string) (T, error) {
	if r, ok := a.(renamed); ok {
		a = r.Artefact
	}
	t, ok := a.(T)
	switch {
	case isNil(a):
		return t, fmt.Errorf("load on %s: %w: there is no artefact, expected a %s", on, ErrMismatch, t.Kind())
	case !ok:
		return t, fmt.Errorf("load %s on %s: %w: it is a %q, expected a %s", a.NetworkName(), on, ErrMismatch, a.Kind(), t.Kind())
	}
	return t, nil
}

// Blocking is the device of an author who has one blocking call (an NPU): Adapt makes a Device of it.
// Where Info.Places is above one, Run may be called concurrently, and calls that overlap share no
// report. Admit, Release and Load may be
// called while launches run; Reset may not.
type Blocking interface {
	Info() Info
	// Load makes a network servable by the artefact's NetworkName; it refuses an artefact of another kind, or for
	// another device (ErrMismatch).
	Load(ctx context.Context, a Artefact) error
	// Admit gives the request a slot and uploads its input.
	Admit(ctx context.Context, network string, id RequestID, in []Tensor) error
	// Run blocks until the launch has ended. The launch is the caller's: a device changes nothing in
	// it, and knows nothing of it when Run has returned. The report is the device's again at its next
	// Run; there is one unless there is an error. A failed Run leaves every sample admitted and its
	// input intact, so it can be retried after Reset; an error that is a Failure says what is lost.
	Run(ctx context.Context, l *Launch) (*Report, error)
	// Release frees the request's slot.
	Release(id RequestID)
	// Reset recovers the device after a failed Run.
	Reset(ctx context.Context) error
	Close() error
}

// Estimator is a Blocking that computes what hardware would do: its reports say how long that takes, and how long its
// own calls take means nothing. In real time it is paced by what the work is expected to take, or by its reports.
type Estimator interface {
	Blocking
	// Prepare finds, before Admit and beside all else, what Run is to answer for this request: Run is called while
	// everybody waits. Release forgets it.
	Prepare(ctx context.Context, network string, id RequestID, in []Tensor) error
}

// Unloader is a Blocking that can free what a network takes; it refuses while samples are admitted.
type Unloader interface {
	Unload(ctx context.Context, network string) error
}
