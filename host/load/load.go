// Package load makes arrival times: at random (Process), from a file, from a published trace, or after an earlier
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

// Errors about arrivals. All wrap ErrLoad.
var (
	ErrLoad     = errors.New("arrivals")
	ErrUnsorted = errors.New("not in order of time")
	ErrNegative = errors.New("a time before 0")
	ErrRate     = errors.New("a rate out of range")
	ErrSLO      = errors.New("impossible SLO")
)

// burst is the number of consecutive arrivals that Check compares with MaxRate. A few arrivals at one time are a burst. A
// thousand in less than burst/MaxRate mean that the unit of time is wrong.
const burst = 1000

// CheckRate rejects a rate, in arrivals per second, that is not positive, and one above MaxRate.
func CheckRate(rate float64) error {
	if !(rate > 0 && rate <= MaxRate) {
		return fmt.Errorf("%w: %w: %g arrivals per second, expected more than 0 and at most %g", ErrLoad, ErrRate, rate, MaxRate)
	}
	return nil
}

// CheckSLO rejects an SLO, in ns, that is not positive or above MaxTime.
func CheckSLO(slo Time) error {
	if slo <= 0 || slo > MaxTime {
		return fmt.Errorf("%w: %d ns, expected 1..%d", ErrSLO, slo, MaxTime)
	}
	return nil
}

// stream separates the random sequences that are drawn from one seed: arrivals use this one, other numbers use others.
const stream = 0x736c756963650001

// Poisson returns n arrival times of a Poisson process with rate arrivals per second. Gaps are exponential with mean
// 1/rate, from rand.New(rand.NewPCG(seed, 0x736c756963650001)). Models with another unit than ns may use rates above
// MaxRate; for rates from outside use CheckRate, as Process.Times does.
func Poisson(rate float64, n int, seed uint64) ([]Time, error) {
	if !(rate > 0) || math.IsInf(rate, 0) {
		return nil, fmt.Errorf("%w: %w: %g arrivals per second", ErrLoad, ErrRate, rate)
	}
	return Process{Kind: KindPoisson}.draw(rate, n, seed)
}

// Check rejects times that are negative, too large or not in order.
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

// order rejects times that are negative, above MaxTime or not in order.
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

// next rejects a time that cannot follow the previous one.
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

// Open is an open loop: a task at every time, independent of earlier ones. Task i has id i+1.
type Open struct {
	Times  []Time
	Task   func(i int, at Time) sched.Task // ID is set by Open
	Cancel map[int]Time                    // by index: time at which the client cancels the task, at or after its arrival

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

// Closed is a closed loop: each client sends its next task Think ns after its previous one has ended.
type Closed struct {
	Clients int
	Tasks   int  // total
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

// Next implements sched.Source: it returns every client's first task, at time 0.
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
