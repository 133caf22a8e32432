// Package engine carries out a policy's decisions. It queues requests, begins launches, copies and loads on devices,
// handles their events, and records everything. Its state changes only at events of devices, clients and timers. The
// code is the same for virtual and real time. Run is a discrete-event simulation in virtual time. Run handles events in
// the order of (time, sequence), so equal configurations give byte-identical results on any machine. Server runs in
// real time and accepts tasks from any goroutine. Serve runs a Server with a load source.
package engine

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"math/bits"
	"time"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/sched"
)

// Time is ns since the run began.
type Time = sched.Time

// Clock selects the source of the durations of segments in virtual time.
type Clock int

const (
	Table    Clock = iota // the bundle's latency table: T[segment][segment][batch]
	Measured              // the device's reports: Report.Ns, or Report.Cycles at the device's clock
)

// String names a clock.
func (c Clock) String() string {
	if c == Measured {
		return "measured"
	}
	return "table"
}

// Errors of a run. They wrap what went wrong.
var (
	ErrConfig = errors.New("engine configuration")
	ErrSLO    = errors.New("the SLO is shorter than one request alone")
	ErrPolicy = errors.New("the policy asked for something impossible")
	ErrStuck  = errors.New("the policy left requests waiting for ever")
	ErrSource = errors.New("load source")
	ErrDevice = device.ErrContract
)

// Reasons for rejecting a task. Only that task ends, and its caller receives the error.
var (
	ErrNetwork  = errors.New("the network is not served")
	ErrTaken    = errors.New("the task's id is zero or taken")
	ErrExpired  = errors.New("the deadline has passed")
	ErrSamples  = errors.New("impossible number of samples")
	ErrAdmitted = errors.New("not admitted")
	ErrLate     = fmt.Errorf("%w: the deadline cannot be met", ErrAdmitted)
	ErrClosed   = errors.New("no more tasks are taken")
	// ErrInside is returned by a call that waits for the server but runs on the server's own goroutine.
	ErrInside = errors.New("the server waits for the caller of this: call it from another goroutine, or return tasks from Source.Ended")
)

// Network is a network to serve.
type Network struct {
	Name string // name, or name@version
	// Family, if set, is a name that tasks may use instead of the network's name. The members of a family do the same
	// job with larger and smaller networks. A launch or an assignment chooses the member.
	Family string
	Tables []*sched.Table // by device; nil for a device that cannot serve the network
	// Artefacts, by device, are the data for LoadNetwork. Load is the duration of loading in virtual time, by device. A
	// Cold network is on no device at the start, and must be loaded.
	Artefacts []device.Artefact
	Load      []Time
	Cold      bool
}

// Watchdog defines how long work may take, on the device's own clock, before it counts as hung.
type Watchdog struct {
	Times int64 // limit of a launch as a multiple of its time in the table; 0: 10
	Least Time  // added to this multiple, in ns; 0: 50 ms
	Fixed Time  // replaces Times and Least, if positive
	// Other plus the field Expect of the work is the time limit of a copy, load or reset; 0: 10 s.
	Other Time
}

// Limit returns the time, in ns, after which work counts as hung. expect is the expected time of the work.
func (w *Watchdog) Limit(expect Time) Time {
	if w.Fixed > 0 {
		return w.Fixed
	}
	times, least := w.Times, w.Least
	times = cmp.Or(times, 10)
	least = cmp.Or(least, 50_000_000)
	if expect|times|least >= 1<<30 { // the product may overflow; a division for every segment would be slow
		if hi, lo := bits.Mul64(uint64(times), uint64(expect)); hi != 0 || lo > 1<<61 || least > 1<<61 {
			return 1 << 62
		}
	}
	return times*expect + least
}

// Config is the configuration of a run.
type Config struct {
	Devices  []device.Device // networks that are not Cold are already loaded on all devices with a table for them
	Networks []Network
	Policy   sched.Policy
	Source   Source // nil only for a Server
	// Inputs returns a request's input. It is called before the input is copied. In real time the call runs on a
	// goroutine of the device, so the function may be slow. It may return the same tensors for several requests.
	Inputs func(r *sched.Request) ([]device.Tensor, error)

	Clock Clock // for Run; Serve uses real durations
	// SLO, if positive, is checked at the start: one request alone must meet it (ErrSLO).
	SLO Time
	// Admission, if set, decides about every arriving task. If it returns false, the task is rejected.
	Admission func(now Time, s *sched.State, t *sched.Task) bool

	// ByTable enables admission by the latency tables. Tasks that cannot meet their deadline are rejected (ErrLate).
	// Requests that can no longer meet it are dropped from the queue or at their next exit.
	ByTable bool

	// Now, if set, is a Server's clock instead of this machine's clock. It returns a time in ns that never decreases,
	// for example from an NPU's cycle counter. Any goroutine may call it. Devices that use this machine's clock are
	// rejected. Virtual devices are rejected too, since NewServer runs them with device.Pace, which uses this clock.
	Now func() Time

	Watchdog Watchdog
	// ResetCost is the virtual time of a reset in ns; 0: 1 ms. Resets is the number of failed resets in succession
	// after which a device is given up; 0: 6. The interval between resets doubles each time.
	ResetCost Time
	Resets    int
	// Grace is how long Serve waits at its end for devices that do not stop; 0: 5 s.
	Grace time.Duration

	// Log receives the panics, with their stack, of functions that run for one request. Such a panic ends only that
	// request. nil: slog.Default.
	Log      *slog.Logger
	Observer Observer // nil: none
	Keep     Keep     // the data that Result stores
}

// Item and Source are defined in sched, so that load sources do not depend on the engine.
type (
	Item   = sched.Item
	Source = sched.Source
)

func (c *Config) check() error {
	fail := func(format string, a ...any) error {
		return fmt.Errorf("%w: %s", ErrConfig, fmt.Sprintf(format, a...))
	}
	switch {
	case len(c.Devices) == 0:
		return fail("no device")
	case len(c.Networks) == 0:
		return fail("no network")
	case c.Policy == nil:
		return fail("no policy")
	case c.Inputs == nil:
		return fail("no inputs")
	case min(c.SLO, c.ResetCost, int64(c.Resets), int64(c.Grace), c.Watchdog.Times, c.Watchdog.Least, c.Watchdog.Fixed, c.Watchdog.Other) < 0:
		return fail("a negative time")
	}
	for i, d := range c.Devices {
		info := d.Info()
		if min(info.MaxBatch, info.Places, info.Units+1) < 1 || info.Slots < info.MaxBatch || info.Units > device.MaxUnits {
			return fail("device %d (%s) has B_max %d, %d places, %d slots, %d units", i, info.Name, info.MaxBatch, info.Places, info.Slots, info.Units)
		}
	}
	return c.checkNetworks()
}

// checkNetworks returns an error for duplicate names, and for networks that no device can serve.
func (c *Config) checkNetworks() error {
	members := map[string]bool{}
	for i := range c.Networks {
		n := &c.Networks[i]
		if members[n.Name] {
			return fmt.Errorf("%w: network %q is there twice", ErrConfig, n.Name)
		}
		members[n.Name] = true
		if err := c.checkNetwork(n); err != nil {
			return err
		}
	}
	for i := range c.Networks {
		if f := c.Networks[i].Family; f != "" && members[f] {
			return fmt.Errorf("%w: %q is a family and a network", ErrConfig, f)
		}
	}
	return nil
}

// checkNetwork returns an error if no device can serve the network.
func (c *Config) checkNetwork(n *Network) error {
	if len(n.Tables) != len(c.Devices) || n.Load != nil && len(n.Load) != len(c.Devices) || n.Artefacts != nil && len(n.Artefacts) != len(c.Devices) {
		return fmt.Errorf("%w: network %q has %d latency tables, %d artefacts, %d loading times for %d devices", ErrConfig, n.Name, len(n.Tables), len(n.Artefacts), len(n.Load), len(c.Devices))
	}
	alone := Time(-1)
	for _, t := range n.Tables {
		if t != nil && (alone < 0 || t.Alone() < alone) {
			alone = t.Alone()
		}
	}
	if alone < 0 {
		return fmt.Errorf("%w: network %q is servable on no device", ErrConfig, n.Name)
	}
	if c.SLO > 0 && c.SLO < alone {
		return fmt.Errorf("%w: %d ns, and %s alone takes %d ns", ErrSLO, c.SLO, n.Name, alone)
	}
	return nil
}

func (c *Config) resetCost() Time { return cmp.Or(c.ResetCost, int64(time.Millisecond)) }

func (c *Config) resets() int { return cmp.Or(c.Resets, 6) }

func (c *Config) grace() time.Duration { return cmp.Or(c.Grace, 5*time.Second) }

// logPanic logs the stack if an error was a panic.
func (c *Config) logPanic(what string, err error) {
	p, ok := errors.AsType[*device.Panic](err)
	if !ok {
		return
	}
	log := c.Log
	if log == nil {
		log = slog.Default()
	}
	log.Error("panic", "in", what, "value", p.Value, "stack", string(p.Stack))
}

// other returns the time limit, in ns, of work without a time in a table.
func (c *Config) other() Time { return cmp.Or(c.Watchdog.Other, 10_000_000_000) }

// WordInputs makes a function for Config.Inputs from a function that returns one int16 tensor.
func WordInputs(of func(r *sched.Request) ([]int16, error)) func(*sched.Request) ([]device.Tensor, error) {
	return func(r *sched.Request) ([]device.Tensor, error) {
		v, err := of(r)
		if err != nil {
			return nil, err
		}
		return device.InWords(v), nil
	}
}

// NoInputs is an Inputs function for devices that ignore inputs.
func NoInputs(*sched.Request) ([]device.Tensor, error) { return nil, nil }
