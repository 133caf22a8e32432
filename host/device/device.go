// Package device says what a device is to the runtime: it holds samples, runs launches of segments
// for a batch, and tells what became of each request. It knows no backend, no clock, no I/O;
// backends (soft, npu, gpu) implement Device, the engine drives it.
package device

import (
	"context"

	"github.com/sluice-npu/sluice/dse/bundle"
)

// RequestID names a request for its whole life.
type RequestID uint64

// LaunchID names a launch.
type LaunchID uint64

// Granularity is where a running launch can be preempted.
type Granularity int

// Where a device lets go.
const (
	PreemptNever  Granularity = iota
	PreemptExit               // between segments: NPU
	PreemptKernel             // inside a segment: GPU
)

// Info describes a device. Capabilities are data, not type switches.
type Info struct {
	Name       string // "soft", "cosim:run" ...
	Label      string // simulated | synthesised | measured | estimated
	MaxBatch   int
	Slots      int // samples it can hold at the same time
	Launches   int // launches it can hold at the same time (an NPU: 1)
	Partitions int // 0 where it cannot be partitioned
	Preempt    Granularity
	ClockHz    int64
	Instant    bool // Run answers at once, whatever happens: nobody need watch it for a hang
}

// Launch is segments First..Last for a batch. Theta is per request: at an exit whose confidence
// reaches it, the request leaves the batch.
type Launch struct {
	ID          LaunchID
	Device      int
	Network     string
	First, Last int
	Requests    []RequestID
	Theta       []float32 // by request
	Partition   uint64
	Priority    int
}

// ExitResult is what one request showed at one exit.
type ExitResult struct {
	Exit       int
	Class      int
	Confidence float32 // softmax top-1
	Logits     []float32
	Raw        []int16 // logits as the hardware left them
}

// Result is what became of one request of a launch.
type Result struct {
	Request RequestID
	Exits   []ExitResult // the exits passed, in order
	Taken   int          // exit taken, or -1: still in the batch after Last
}

// Stats are hardware counts of one launch; zero where a device has none.
type Stats struct {
	Cycles, MACCycles, MACs, BytesRead, BytesWritten, Starts uint64
}

// Report is the answer to a launch.
type Report struct {
	Results []Result // in the order of Launch.Requests
	Cycles  uint64   // on the device's clock
	Ns      int64    // the same as time
	Stats   Stats
}

// Device runs launches. Run blocks until the launch has ended; where Info.Launches is above one it
// may be called concurrently, and then each call has a report of its own. The launch is the caller's:
// a device changes nothing in it, and knows nothing of it when Run has returned. The report is the
// device's again at its next Run; there is one unless there is an error. A failed Run leaves every
// sample admitted and its input intact, so it can be retried after Reset.
type Device interface {
	Info() Info
	// Load makes a network servable; it refuses a bundle built for another design or ABI.
	Load(ctx context.Context, b *bundle.Bundle) error
	// Admit gives the request a slot and uploads its input (NHWC int16 at the network's InFrac).
	Admit(ctx context.Context, network string, id RequestID, input []int16) error
	Run(ctx context.Context, l *Launch) (*Report, error)
	// Release frees the request's slot.
	Release(id RequestID)
	// Reset recovers the device after a failed Run.
	Reset(ctx context.Context) error
	Close() error
}
