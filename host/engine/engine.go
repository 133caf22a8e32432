// Package engine carries out what a policy decides: it queues requests, begins launches, copies and
// loads on devices, handles what they answer, and records all of it. The books move on events alone
// (what a device answers, what a client asks for, what a timer says), by one code in both kinds of time.
//
// Run is a discrete-event run in virtual time: events are taken in the order of (time, sequence),
// so equal configurations give byte-identical results on any machine. Server takes tasks from any
// goroutine in real time; Serve is a Server fed by a load source.
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

// Clock says where a segment's duration comes from in virtual time.
type Clock int

// Clocks.
const (
	Table    Clock = iota // the bundle's latency table: T[segment][segment][batch]
	Measured              // what the device reports: Report.Ns, or its cycles on its clock
)

// String names a clock.
func (c Clock) String() string {
	if c == Measured {
		return "measured"
	}
	return "table"
}

// Errors.
var (
	ErrConfig = errors.New("engine configuration")
	ErrSLO    = errors.New("the SLO is shorter than one request alone")
	ErrPolicy = errors.New("the policy asked for something impossible")
	ErrStuck  = errors.New("the policy left requests waiting for ever")
	ErrSource = errors.New("load source")
	ErrDevice = device.ErrContract
)

// Why a task is refused. Nothing else is: the task ends alone, and so does the error.
var (
	ErrNetwork  = errors.New("the network is not served")
	ErrTaken    = errors.New("the task's id is zero or taken")
	ErrExpired  = errors.New("the deadline has passed")
	ErrSamples  = errors.New("impossible number of samples")
	ErrAdmitted = errors.New("not admitted")
	ErrLate     = fmt.Errorf("%w: the deadline cannot be met", ErrAdmitted)
	ErrClosed   = errors.New("no more tasks are taken")
	// ErrInside is of a call that would wait for its own caller.
	ErrInside = errors.New("called by whom the server waits for: use a goroutine, or what Source.Ended returns")
)

// Network is something to serve.
type Network struct {
	Name string // name, or name@version
	// Family, where set, is what tasks may name in place of the network: the same question answered by
	// larger and smaller members, of which a launch or an assignment says one.
	Family string
	Tables []*sched.Table // by device; nil where a device cannot serve it
	// Artefacts, by device, are what LoadNetwork loads; Load is how long that takes in virtual time.
	// Cold: it is on no device at the start, and must be loaded.
	Artefacts []device.Artefact
	Load      []Time
	Cold      bool
}

// Watchdog says when work counts as hung, on the device's own clock.
type Watchdog struct {
	Times int64 // limit of a launch as a multiple of its time in the table; 0: 10
	Least Time  // added to that, in ns; 0: 50 ms
	Fixed Time  // replaces both, if positive
	// Other is what a copy, a load or a reset may take beside its Expect; 0: 10 s.
	Other Time
}

// Limit is how long work may take that is expected to take that long.
func (w *Watchdog) Limit(expect Time) Time {
	if w.Fixed > 0 {
		return w.Fixed
	}
	times, least := w.Times, w.Least
	times = cmp.Or(times, 10)
	least = cmp.Or(least, 50_000_000)
	if expect|times|least >= 1<<30 { // the product may be beyond an int64; a division at every segment is slow
		if hi, lo := bits.Mul64(uint64(times), uint64(expect)); hi != 0 || lo > 1<<61 || least > 1<<61 {
			return 1 << 62
		}
	}
	return times*expect + least
}

// Config is a run.
type Config struct {
	Devices  []device.Device // every network that is not Cold is loaded already where it has a table
	Networks []Network
	Policy   sched.Policy
	Source   Source // may be nil for a Server
	// Inputs gives a request's input. It is called when the input is copied: in real time on a goroutine
	// of the device, so it may take its time. It may return the same tensors again.
	Inputs func(r *sched.Request) ([]device.Tensor, error)

	Clock Clock // of Run; Serve always takes the time that passes
	// SLO, where positive, is checked at the start against one request alone (ErrSLO).
	SLO Time
	// Admission, where set, is asked for every arriving task; a task it turns away is refused.
	Admission func(now Time, s *sched.State, t *sched.Task) bool

	// ByTable is admission by the latency tables: tasks whose deadline cannot be met are refused (ErrLate), and
	// requests that cannot meet theirs any more are dropped in the queue or at the next exit.
	ByTable bool

	// Now, where set, is what a Server takes for time in place of this machine's: ns on a clock that does
	// not go back, an NPU's count of cycles for one. Any goroutine calls it. A device that runs by this
	// machine's clock (device.Pace, which all that know virtual time alone are given) is refused beside it.
	Now func() Time

	Watchdog Watchdog
	// ResetCost is what a reset takes in virtual time, in ns; zero: 1 ms. Resets is how many in a row
	// may fail, each next one after twice the time, before a device is given up; zero: 6.
	ResetCost Time
	Resets    int
	// Grace is how long Serve waits, at its end, for devices that do not let go; zero: 5 s.
	Grace time.Duration

	// Log gets panics, with their stack, of functions that are called for a request: they end that request alone.
	// nil: slog.Default.
	Log      *slog.Logger
	Observer Observer // is told of everything; nil: none
	Keep     Keep     // what Result keeps
}

// Item and Source are sched's: load sources need not know the engine.
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

// checkNetworks refuses names that are not unique, and networks that nobody can serve.
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

// checkNetwork refuses a network that nobody can serve.
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

// logPanic writes the stack of an error that was a panic.
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

// other is what work without a table may take.
func (c *Config) other() Time { return cmp.Or(c.Watchdog.Other, 10_000_000_000) }

// WordInputs are inputs of one tensor of int16 each.
func WordInputs(of func(r *sched.Request) ([]int16, error)) func(*sched.Request) ([]device.Tensor, error) {
	return func(r *sched.Request) ([]device.Tensor, error) {
		v, err := of(r)
		if err != nil {
			return nil, err
		}
		return device.InWords(v), nil
	}
}

// NoInputs is for devices that do not look at inputs.
func NoInputs(*sched.Request) ([]device.Tensor, error) { return nil, nil }
