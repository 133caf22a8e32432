// Package bound computes how good a schedule could have been. It finds the minimum cost over everything that the
// mechanism of Fluid Batching can do with a few requests whose arrivals and exits are known in advance. A policy does
// not know them and cannot do better, so the difference is an upper limit for further improvement.
//
// A schedule may start any waiting requests as a batch, halt a batch at any exit, run others from the start to that
// exit (these cannot be halted), merge, and let the device idle until the next arrival, also at an exit. The search
// is exact: dynamic programming over the time, the set of ended requests, the set in the halted batch, and its exit.
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

// MaxRequests limits an instance: the search tries every subset of the waiting requests.
const MaxRequests = 7

// ErrInstance is the error of an instance that cannot be searched.
var ErrInstance = errors.New("instance")

// Request is one request, including the exit at which it leaves, which no policy knows.
type Request struct {
	Arrived, Deadline Time
	Exit              int
}

// Cost is the cost of a request that ends at a given time; it must not decrease with time.
type Cost func(r Request, end Time) float64

// Latency is the time from arrival to end: the least sum gives the least average.
func Latency(r Request, end Time) float64 { return float64(end - r.Arrived) }

// Missed is 1 for a missed deadline, else 0.
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
	exit        int8 // exit at which the base is halted; -1: there is no base
}

type search struct {
	table *sched.Table
	bMax  int
	reqs  []Request
	cost  Cost
	known map[state]float64
}

// Exact returns the minimum sum of costs of all requests in batches of at most bMax (0: the table's maximum).
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

// least is the minimum cost of all requests that have not ended.
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
	if next != math.MaxInt64 { // be idle until the next arrival
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

// start runs a new batch from the start: to the base's exit, or to the first exit if there is no base.
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

// segment runs one segment for a batch and returns the cost of the requests that leave at its exit.
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
