// Package load says when requests arrive: at random (Poisson), from a file, or when an earlier one
// has ended (closed loop). Everything random comes from a PCG of math/rand/v2 with the seed given,
// so equal seeds give equal arrivals on any machine.
package load

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/sluice-npu/sluice/host/sched"
)

// Time is ns since the run began.
type Time = sched.Time

// Bounds of what is accepted.
const (
	MaxArrivals = 10_000_000
	MaxTime     = Time(400 * 24 * 3600 * 1e9) // 400 days, in ns
)

// ErrLoad is wrapped by every error about impossible arrivals.
var ErrLoad = errors.New("arrivals")

// stream tells the sequences of one seed apart: arrivals here, other uses take other numbers.
const stream = 0x736c756963650001

// Poisson gives n arrival times of a Poisson process of rate arrivals per second: the gaps are
// exponential with mean 1/rate, drawn from rand.New(rand.NewPCG(seed, 0x736c756963650001)).
func Poisson(rate float64, n int, seed uint64) ([]Time, error) {
	if !(rate > 0) || math.IsInf(rate, 0) || n < 0 || n > MaxArrivals {
		return nil, fmt.Errorf("%w: %d arrivals at %g per second", ErrLoad, n, rate)
	}
	rng := rand.New(rand.NewPCG(seed, stream))
	out := make([]Time, n)
	at := 0.0
	for i := range out {
		at += float64(rng.ExpFloat64() / rate * 1e9) // the conversion forbids a fused multiply-add: equal on every machine
		if at > float64(MaxTime) {
			return nil, fmt.Errorf("%w: arrival %d of %d at %g per second lies beyond %d ns", ErrLoad, i, n, rate, MaxTime)
		}
		out[i] = Time(at)
	}
	return out, nil
}

// Check refuses times that are negative, absurd or not in order.
func Check(times []Time) error {
	for i, t := range times {
		switch {
		case t < 0 || t > MaxTime:
			return fmt.Errorf("%w: arrival %d at %d ns; expected 0..%d", ErrLoad, i, t, MaxTime)
		case i > 0 && t < times[i-1]:
			return fmt.Errorf("%w: arrival %d at %d ns comes before arrival %d at %d ns", ErrLoad, i, t, i-1, times[i-1])
		}
	}
	return nil
}

// Open is an open loop: a task at every time, whatever became of those before. Task i has id i+1.
type Open struct {
	Times  []Time
	Task   func(i int, at Time) sched.Task // ID is set by Open
	Cancel map[int]Time                    // by index: when the client takes the task back, at or after its arrival

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

// Closed is a closed loop: each client sends its next task Think ns after its last one has ended.
type Closed struct {
	Clients int
	Tasks   int  // in all
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

// Next implements sched.Source: every client's first task, at time 0.
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
