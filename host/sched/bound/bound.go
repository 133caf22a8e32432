// Package bound says how good a schedule could have been: the least cost over everything that the
// mechanism of Fluid Batching can do with a handful of requests whose arrivals and exits are known
// beforehand. No policy that must decide without knowing them does better, so the difference is what
// is left to gain at most.
//
// A schedule may start any of the requests that wait as a batch, halt a batch at any exit, run any
// others from the start to that exit (without halting those in turn), merge, and let the device idle
// until the next arrival, at an exit too. The search is exact: dynamic programming over (time, who
// has ended, who is in the halted batch, at which exit).
package bound

import (
	"errors"
	"fmt"
	"math"
	"math/bits"

	"github.com/sluice-npu/sluice/host/sched"
)

// Time is ns.
type Time = sched.Time

// MaxRequests bounds an instance: the search takes every subset of those that wait.
const MaxRequests = 7

// ErrInstance is the error of an instance that cannot be searched.
var ErrInstance = errors.New("instance")

// Request is one request, with what no policy knows: where it leaves.
type Request struct {
	Arrived, Deadline Time
	Exit              int
}

// Cost is what it costs that a request ends then; it must not fall with time.
type Cost func(r Request, end Time) float64

// Latency is the time from arrival to end: the least sum is the least average.
func Latency(r Request, end Time) float64 { return float64(end - r.Arrived) }

// Missed is 1 for a deadline that is missed.
func Missed(r Request, end Time) float64 {
	if end > r.Deadline {
		return 1
	}
	return 0
}

type set = uint8 // of requests

type state struct {
	at          Time
	ended, base set
	exit        int8 // where the base stands; -1: there is none
}

type search struct {
	table *sched.Table
	bMax  int
	reqs  []Request
	cost  Cost
	known map[state]float64
}

// Exact is the least sum of costs of all requests, in batches of at most bMax (0: the table's).
func Exact(t *sched.Table, bMax int, reqs []Request, cost Cost) (float64, error) {
	if bMax <= 0 || bMax > t.MaxBatch() {
		bMax = t.MaxBatch()
	}
	if len(reqs) > MaxRequests {
		return 0, fmt.Errorf("%w: %d requests, expected at most %d", ErrInstance, len(reqs), MaxRequests)
	}
	for i, r := range reqs {
		if r.Arrived < 0 || r.Exit < 0 || r.Exit >= t.Segments() {
			return 0, fmt.Errorf("%w: request %d arrives at %d ns and leaves at exit %d of %d", ErrInstance, i, r.Arrived, r.Exit, t.Segments())
		}
	}
	s := &search{table: t, bMax: bMax, reqs: reqs, cost: cost, known: map[state]float64{}}
	return s.least(state{exit: -1}), nil
}

// least is the least cost of all that has not ended.
func (s *search) least(st state) float64 {
	if st.ended == 1<<len(s.reqs)-1 {
		return 0
	}
	if v, ok := s.known[st]; ok {
		return v
	}
	best := math.Inf(1)
	waiting, next := set(0), Time(math.MaxInt64)
	for i, r := range s.reqs {
		switch bit := set(1) << i; {
		case (st.ended|st.base)&bit != 0:
		case r.Arrived <= st.at:
			waiting |= bit
		default:
			next = min(next, r.Arrived)
		}
	}
	if next != math.MaxInt64 { // idle
		st := st
		st.at = next
		best = s.least(st)
	}
	room := s.bMax - bits.OnesCount8(st.base)
	for some := waiting; some != 0; some = (some - 1) & waiting {
		if bits.OnesCount8(some) <= room {
			best = min(best, s.start(st, some))
		}
	}
	if st.exit >= 0 {
		best = min(best, s.on(st))
	}
	s.known[st] = best
	return best
}

// start runs a batch from the start: to the base's exit, or to the first where there is none.
func (s *search) start(st state, batch set) float64 {
	to := max(st.exit, 0)
	cost := 0.0
	for i := range to + 1 {
		if batch == 0 {
			break
		}
		cost += s.segment(&st, &batch, int(i))
	}
	st.base |= batch
	st.exit = to
	if st.base == 0 {
		st.exit = -1
	}
	return cost + s.least(st)
}

// on runs the base's next segment.
func (s *search) on(st state) float64 {
	st.exit++
	base := st.base
	cost := s.segment(&st, &base, int(st.exit))
	st.base = base
	if st.base == 0 {
		st.exit = -1
	}
	return cost + s.least(st)
}

// segment runs one segment for a batch, and answers what those cost that leave at its exit.
func (s *search) segment(st *state, batch *set, segment int) float64 {
	st.at += s.table.At(segment, segment, bits.OnesCount8(*batch))
	cost := 0.0
	for i, r := range s.reqs {
		if bit := set(1) << i; *batch&bit != 0 && r.Exit == segment {
			*batch &^= bit
			st.ended |= bit
			cost += s.cost(r, st.at)
		}
	}
	return cost
}
