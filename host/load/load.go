// Package load generates arrival times: at random (Process), from a file, from a published trace, or after an earlier
// request has ended (closed loop). Random numbers come from a PCG of math/rand/v2 with a given seed, so equal seeds
// give equal arrivals on any machine.
package load

import (
	"errors"
	"fmt"
	"math"

	"github.com/sluice-npu/sluice/host/sched"
)

// Time is ns since the start of the run.
type Time = sched.Time

const (
	MaxArrivals = 10_000_000
	MaxTime     = Time(400 * 24 * 3600 * 1e9) // 400 days, in ns
	MaxRate     = 1e8                         // arrivals per second
)

// Errors about arrivals. All except ErrSLO are wrapped together with ErrLoad.
var (
	ErrLoad     = errors.New("arrivals")
	ErrUnsorted = errors.New("not in order of time")
	ErrNegative = errors.New("a time before 0")
	ErrRate     = errors.New("a rate out of range")
	ErrSLO      = errors.New("impossible SLO")
)

// burst is the number of consecutive arrivals that Check compares with MaxRate. A few arrivals at the same time are
// allowed as a burst. But if this many arrivals come in less than burst/MaxRate, the unit of time must be wrong.
const burst = 1000

// CheckRate returns an error for a rate, in arrivals per second, that is not positive or is above MaxRate.
func CheckRate(rate float64) error {
	if !(rate > 0 && rate <= MaxRate) {
		return fmt.Errorf("%w: %w: %g arrivals per second, expected more than 0 and at most %g", ErrLoad, ErrRate, rate, MaxRate)
	}
	return nil
}

// CheckSLO returns an error for an SLO, in ns, that is not positive or is above MaxTime.
func CheckSLO(slo Time) error {
	if slo <= 0 || slo > MaxTime {
		return fmt.Errorf("%w: %d ns, expected 1..%d", ErrSLO, slo, MaxTime)
	}
	return nil
}

// stream separates the random sequences of one seed. Arrivals use this stream; other purposes have other streams.
const stream = 0x736c756963650001

// Poisson returns n arrival times of a Poisson process; rate is in arrivals per second. Gaps are exponential with mean
// 1/rate, from rand.New(rand.NewPCG(seed, 0x736c756963650001)). Models whose unit of time is not ns may use rates above
// MaxRate. Rates from user input must be checked with CheckRate, as in Process.Times.
func Poisson(rate float64, n int, seed uint64) ([]Time, error) {
	if !(rate > 0) || math.IsInf(rate, 0) {
		return nil, fmt.Errorf("%w: %w: %g arrivals per second", ErrLoad, ErrRate, rate)
	}
	return Process{Kind: KindPoisson}.draw(rate, n, seed)
}

// Check returns an error if times are negative, too large or too close together, or not in order.
func Check(times []Time) error {
	if err := order(times); err != nil {
		return fmt.Errorf("%w: %w", ErrLoad, err)
	}
	for i := burst; i < len(times); i++ {
		if d := times[i] - times[i-burst]; float64(d) < burst/MaxRate*1e9 {
			return fmt.Errorf("%w: %w: %d arrivals in %d ns, up to arrival %d; expected at most %g per second", ErrLoad, ErrRate, burst, d, i, MaxRate)
		}
	}
	return nil
}

// order returns an error if times are negative, above MaxTime or not in order.
func order(times []Time) error {
	last := Time(0)
	for i, t := range times {
		if err := next(last, t); err != nil {
			return fmt.Errorf("arrival %d: %w", i, err)
		}
		last = t
	}
	return nil
}

// next returns an error if a time cannot follow the previous time.
func next(last, t Time) error {
	switch {
	case t < 0:
		return fmt.Errorf("%d ns is out of range, 0..%d: %w", t, MaxTime, ErrNegative)
	case t > MaxTime:
		return fmt.Errorf("%d ns is out of range, 0..%d", t, MaxTime)
	case t < last:
		return fmt.Errorf("%d ns comes before the arrival in front of it, at %d ns: %w", t, last, ErrUnsorted)
	}
	return nil
}

// Open is an open loop. It has a task at every time, independent of earlier tasks. Task i has the id i+1.
type Open struct {
	Times  []Time
	Task   func(i int, at Time) sched.Task // ID is set by Open
	Cancel map[int]Time                    // by index: time of a task's cancellation, not before its arrival

	next    int
	pending []sched.Item
}

// Next implements sched.Source.
func (o *Open) Next() (sched.Item, bool) {
	best := -1
	for i := range o.pending {
		if best < 0 || o.pending[i].At < o.pending[best].At {
			best = i
		}
	}
	if best >= 0 && (o.next >= len(o.Times) || o.pending[best].At < o.Times[o.next]) {
		it := o.pending[best]
		o.pending = append(o.pending[:best], o.pending[best+1:]...)
		return it, true
	}
	if o.next >= len(o.Times) {
		return sched.Item{}, false
	}
	i, at := o.next, o.Times[o.next]
	o.next++
	t := o.Task(i, at)
	t.ID = uint64(i) + 1
	if c, ok := o.Cancel[i]; ok {
		o.pending = append(o.pending, sched.Item{At: max(c, at), Cancel: t.ID})
	}
	return sched.Item{At: at, Task: &t}, true
}

// Ended implements sched.Source.
func (*Open) Ended(Time, *sched.Task, sched.Ending) []sched.Item { return nil }

// Closed is a closed loop. Each client sends its next task Think ns after its previous task has ended.
type Closed struct {
	Clients int
	Tasks   int  // total number of tasks
	Think   Time // ns
	Task    func(i, client int, at Time) sched.Task

	sent int
}

func (c *Closed) item(client int, at Time) sched.Item {
	t := c.Task(c.sent, client, at)
	c.sent++
	t.ID, t.Client = uint64(c.sent), client
	return sched.Item{At: at, Task: &t}
}

// Next implements sched.Source. It returns the first task of every client, at time 0.
func (c *Closed) Next() (sched.Item, bool) {
	if c.sent >= c.Clients || c.sent >= c.Tasks {
		return sched.Item{}, false
	}
	return c.item(c.sent, 0), true
}

// Ended implements sched.Source.
func (c *Closed) Ended(now Time, t *sched.Task, _ sched.Ending) []sched.Item {
	if c.sent < c.Clients || c.sent >= c.Tasks {
		return nil
	}
	return []sched.Item{c.item(t.Client, now+c.Think)}
}
