// Statistics of a network's requests. Policies that learn read them here, so they stay pure functions of the state.

package sched

import "slices"

// Traffic holds the engine's statistics of the requests for one network.
type Traffic struct {
	Network string
	Arrived int64   // requests so far
	Latest  Time    // arrival of the last request
	Gap     float64 // recent mean time between requests, in ns: a moving average over about gapMemory of them; 0 before the second
	Passed  []int64 // by exit: requests that came to it
	Left    []int64 // by exit: requests that left there
	Ended   int64   // results
	// Tail is the recent 99th percentile, in ns, of the time that requests wait before they begin. It holds for an order of
	// arrival: requests begin at the same times, but the oldest first. InOrder counts requests that would have waited longer
	// than the Tail of that moment in that order; Beyond counts those that really did.
	Tail            float64
	InOrder, Beyond int64
	// Thetas are upper limits for the thresholds of segments that begin now, by exit; nil: those of the requests
	// (SetTheta).
	Thetas []float32

	// came[head:] are arrival times. If requests began in the order of arrival, these requests would still wait.
	came []Time
	head int
}

// Tail rises by tailStep at a waiting time above it, and otherwise falls by a 99th of that step. On average, 1 % of the
// waiting times are then above Tail. It follows a jam that is longer than any before within some dozen requests, and
// forgets half of such a rise after 7,000. It is at least an eighth of every waiting time, which gives it a start value.
const (
	tailStep  = 0.01
	tailShare = 0.01
)

// Begin records that a request begins for the first time.
func (t *Traffic) Begin(now, arrived Time) {
	if float64(now-arrived) > t.Tail {
		t.Beyond++
	}
	if t.head == len(t.came) {
		return
	}
	if w := float64(now - t.came[t.head]); w > t.Tail {
		t.InOrder++
		t.Tail = max(mul(t.Tail, 1+tailStep*(1-tailShare)), w/8)
	} else {
		t.Tail = mul(t.Tail, 1-tailStep*tailShare)
	}
	t.pop()
}

// Gone records that a request ended without having begun. One place in the order of arrival is then not needed any more:
// the request's own, or the first one if another request has already taken its own.
func (t *Traffic) Gone(arrived Time) {
	if t.head == len(t.came) {
		return
	}
	i, _ := slices.BinarySearch(t.came[t.head:], arrived)
	i = min(t.head+i, len(t.came)-1)
	if t.came[i] > arrived {
		i = t.head
	}
	if i-t.head < len(t.came)-i {
		copy(t.came[t.head+1:i+1], t.came[t.head:i])
		t.pop()
	} else {
		t.came = slices.Delete(t.came, i, i+1)
	}
}

// pop removes the first place. It moves the rest to the front only when at least as many places have been removed.
func (t *Traffic) pop() {
	if t.head++; 2*t.head >= len(t.came) {
		n := copy(t.came, t.came[t.head:])
		t.came, t.head = t.came[:n], 0
	}
}

// gapMemory is the number of requests over which the arrival rate is averaged: with so many, the noise of Poisson
// arrivals is small, and the rate still follows a burst.
const gapMemory = 1000

// Arrive records n requests that came at the same time.
func (t *Traffic) Arrive(now Time, n int) {
	if t.Arrived > 0 {
		// The first gaps get equal weights; otherwise the first one would dominate for long.
		weight := 1 / float64(min(t.Arrived, gapMemory))
		t.Gap += (float64(now-t.Latest)/float64(n) - t.Gap) * weight * float64(min(n, gapMemory)) / (1 + weight*float64(min(n, gapMemory)-1))
	}
	t.Arrived += int64(n)
	t.Latest = now
	for range n {
		t.came = append(t.came, now)
	}
}

// Pass records that a request came to an exit, and whether it left there.
func (t *Traffic) Pass(exit int, left bool) {
	t.Passed[exit]++
	if left {
		t.Left[exit]++
	}
}
