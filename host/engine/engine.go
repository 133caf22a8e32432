// Package engine carries out what a policy decides: it queues requests, runs launches segment by
// segment on devices, takes exits, endings, faults and cancels into account, and records all of it.
//
// Run is a discrete-event run in virtual time: events are taken in the order of (time, sequence),
// so equal configurations give byte-identical results on any machine. Serve runs the same books and
// the same policy code in real time, a goroutine a device. Devices compute in both; only where the
// durations come from differs.
package engine

import (
	"context"
	"errors"
	"fmt"
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
	ErrDevice = errors.New("device broke its contract")
)

// Network is something to serve: its name and its latency table on each device, nil where a device
// cannot serve it.
type Network struct {
	Name   string
	Tables []*sched.Table
}

// Loader makes a network servable on a device, or frees it, and says how long that took.
type Loader interface {
	Load(ctx context.Context, dev int, network string) (Time, error)
	Unload(ctx context.Context, dev int, network string) error
}

// Config is a run.
type Config struct {
	Devices  []device.Blocking // every network of Networks that has a table there is loaded already
	Networks []Network
	Policy   sched.Policy
	Source   Source
	// Inputs gives a request's input as device.Admit takes it. It may return the same slice again.
	Inputs func(r *sched.Request) ([]int16, error)

	Clock Clock // of Run; Serve always takes the time that passes
	// SLO, where positive, is checked at the start against one request alone (ErrSLO).
	SLO Time
	// Admission, where set, is asked for every arriving task; a task it turns away is refused.
	Admission func(now Time, s *sched.State, t *sched.Task) bool
	Loader    Loader // for LoadNetwork and Unload; nil: those are errors

	// HangAfter is the wall time after which a device's Run is given up. Zero: 60 s.
	HangAfter time.Duration
	// HangCost is what a hang takes in virtual time; zero: four times the longest segment.
	HangCost Time
	// ResetCost is what a reset takes in virtual time, in ns; zero: 1 ms.
	ResetCost Time

	// Progress, where set, is told after every ending how many requests have ended.
	Progress func(ended int)
	// NoTrace leaves out Steps and Spans, for long sweeps.
	NoTrace bool
	// Stream keeps no record of any request, but counts and a histogram (Result.Stream): memory
	// does not grow with the run's length. It implies NoTrace.
	Stream bool
}

func (c *Config) silent() bool { return c.NoTrace || c.Stream }

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
	case c.Source == nil:
		return fail("no load source")
	case c.Inputs == nil:
		return fail("no inputs")
	case c.SLO < 0 || c.HangCost < 0 || c.ResetCost < 0 || c.HangAfter < 0:
		return fail("a negative time")
	}
	for i, d := range c.Devices {
		info := d.Info()
		if info.MaxBatch < 1 || info.Places < 1 || info.Slots < info.MaxBatch {
			return fail("device %d (%s) has B_max %d, %d launches, %d slots", i, info.Name, info.MaxBatch, info.Places, info.Slots)
		}
	}
	seen := map[string]bool{}
	for _, n := range c.Networks {
		if seen[n.Name] {
			return fail("network %q stands there twice", n.Name)
		}
		seen[n.Name] = true
		if len(n.Tables) != len(c.Devices) {
			return fail("network %q has %d latency tables for %d devices", n.Name, len(n.Tables), len(c.Devices))
		}
		segments, alone := 0, Time(0)
		for i, t := range n.Tables {
			if t == nil {
				continue
			}
			if segments != 0 && t.Segments() != segments {
				return fail("network %q has %d segments on one device and %d on device %d", n.Name, segments, t.Segments(), i)
			}
			if segments == 0 || t.Alone() < alone {
				alone = t.Alone()
			}
			segments = t.Segments()
		}
		if segments == 0 {
			return fail("network %q is servable on no device", n.Name)
		}
		if c.SLO > 0 && c.SLO < alone {
			return fmt.Errorf("%w: %d ns, and %s alone takes %d ns", ErrSLO, c.SLO, n.Name, alone)
		}
	}
	return nil
}

func (c *Config) hangAfter() time.Duration {
	if c.HangAfter == 0 {
		return time.Minute
	}
	return c.HangAfter
}

func (c *Config) resetCost() Time {
	if c.ResetCost == 0 {
		return int64(time.Millisecond)
	}
	return c.ResetCost
}

func (c *Config) hangCost() Time {
	if c.HangCost != 0 {
		return c.HangCost
	}
	var longest Time
	for _, n := range c.Networks {
		for _, t := range n.Tables {
			if t == nil {
				continue
			}
			for s := range t.Segments() {
				longest = max(longest, t.At(s, s, t.MaxBatch()))
			}
		}
	}
	return 4 * longest
}
