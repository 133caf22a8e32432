// This file has the work of devices.

package device

import (
	"context"
	"fmt"
	"reflect"
)

// Kind is the kind of work.
type Kind uint8

// Kinds of work.
const (
	Run    Kind = iota // run the segments of Launch
	Copy               // copy the input of Request into a slot
	Load               // load Artefact, so that the device can serve the network of Artefact
	Unload             // unload Network
	Reset              // reset the device, or the partition Units; samples keep their slots and inputs
)

// String returns the name of a kind.
func (k Kind) String() string {
	if k > Reset {
		return "unknown"
	}
	return [...]string{"run", "copy", "load", "unload", "reset"}[k]
}

// Work is one task of a device. Only the fields for its kind are set.
type Work struct {
	ID   WorkID
	Kind Kind

	Launch Launch // Run

	Request RequestID                // Copy
	Network string                   // Copy, Load, Unload: the name under which the network is served
	Input   func() ([]Tensor, error) // Copy: called at most once, on any goroutine; may be slow

	Artefact Artefact // Load: nil if the device needs no artefact. Network, if set, replaces its name (As)
	Units    Units    // Reset: the failed partition; zero: the whole device

	Expect Time // the expected time in ns, according to a table; 0: unknown
	Fixed  bool // in virtual time the work takes exactly Expect, as in a run with the table's clock
	// Limit is the time, in ns on the device's own clock, after which the work counts as hung (ErrHang); 0: no limit.
	// Devices that cannot detect a hang ignore it. The real time of a simulator's computation does not count.
	Limit Time
}

// Launch runs segments First..Last for a batch. A request whose confidence reaches its threshold at an exit leaves
// the batch there.
type Launch struct {
	ID          LaunchID
	Device      int
	Network     string // the network, as name or name@version; for a family, the selected member
	First, Last int
	Kernel      int // the first kernel of segment First that must run (ResumePoint.Kernel)
	Requests    []RequestID
	// Theta has one threshold per request, or one threshold per request and segment. Thresholds per segment are ordered
	// by request, then by segment First..Last.
	Theta     []float32
	Units     Units // allowed units; zero: the whole device
	Exclusive bool  // no other launch may use these units at the same time
	Priority  int   // above 0: real-time; otherwise best effort; the order in DISB's files is the reverse
	Limit     Time  // Work.Limit, for devices that receive only the launch
}

// ThetaAt returns the threshold of the i-th request at the exit of segment s.
func (l *Launch) ThetaAt(i, s int) float32 {
	if len(l.Theta) == len(l.Requests) {
		return l.Theta[i]
	}
	return l.Theta[i*(l.Last-l.First+1)+s-l.First]
}

// Artefact is the data that a device loads to serve a network. Any package may define an artefact.
type Artefact interface {
	NetworkName() string // name under which the network is served: its own name, name@version, or another name (As)
	Kind() string        // "bundle" (for an NPU), "module" (for a GPU), "table" (only times) ...
}

// As returns an artefact under another name; "" keeps the name. ArtefactOf returns the original artefact.
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

// isNil reports whether an artefact is nil or a nil pointer.
func isNil(a Artefact) bool {
	v := reflect.ValueOf(a)
	return a == nil || v.Kind() == reflect.Pointer && v.IsNil()
}

// ArtefactOf returns an artefact as the type T, or an error. "on" is the device's name for the error. The method Kind
// of T must work on T's zero value.
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

// Blocking is a device with blocking calls, such as an NPU. Adapt creates a Device from a Blocking. If Info.Places is
// above one, Run may be called concurrently, and concurrent calls must not share reports. Admit, Release and Load may
// be called during launches. Reset may not be called during launches.
type Blocking interface {
	Info() Info
	// Load loads a network, which is then served under the artefact's NetworkName. It returns ErrMismatch for an
	// artefact of another kind or for another device.
	Load(ctx context.Context, a Artefact) error
	// Admit assigns a slot to the request and uploads its input.
	Admit(ctx context.Context, network string, id RequestID, in []Tensor) error
	// Run blocks until the launch has ended. It must not change the launch or store a reference to it. The report is
	// valid until the next Run. The report is nil only after an error. After an error all samples are still admitted
	// with their inputs, so that the launch can be repeated after Reset. A Failure contains the scope of the loss.
	Run(ctx context.Context, l *Launch) (*Report, error)
	// Release frees the request's slot.
	Release(id RequestID)
	// Reset recovers the device after a failed Run.
	Reset(ctx context.Context) error
	Close() error
}

// Estimator is a Blocking that computes the results of hardware. Its reports contain the time on the hardware; the
// duration of its calls has no meaning. In real time Pace delays its events by the expected or the reported time.
type Estimator interface {
	Blocking
	// Prepare computes the results of Run for a request in advance. It is called before Admit and concurrently with all
	// other calls, since Run blocks the engine. Release deletes the results.
	Prepare(ctx context.Context, network string, id RequestID, in []Tensor) error
}

// Unloader is a Blocking that can unload a network. Unload fails while requests for the network are admitted.
type Unloader interface {
	Unload(ctx context.Context, network string) error
}
