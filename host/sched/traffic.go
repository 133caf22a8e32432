// Statistics of a network's requests. A policy reads the statistics from State, so it need not store what it learns.

package sched

import "slices"

// Traffic is the engine's statistics of the requests for one network.
type Traffic struct {
	Network string
	Arrived int64   // number of requests so far
	Latest  Time    // arrival of the last request
	Gap     float64 // mean time between requests, in ns: a moving average over about gapMemory requests; 0: unknown
	Passed  []int64 // by exit: number of requests that reached the exit
	Left    []int64 // by exit: number of requests that left there
	Ended   int64   // number of results
	// Tail is the recent 99th percentile, in ns, of the times that requests would wait if each start took the oldest
	// request. InOrder counts the requests that would then have waited longer than Tail. Beyond counts the requests
	// that actually waited longer than Tail.
	Tail            float64
	InOrder, Beyond int64
	// Thetas are upper limits, by exit, for the thresholds of segments that begin now (SetTheta). If nil, the requests'
	// thresholds have no limit.
	Thetas []float32

	// came[head:] are the arrival times of the requests that would still wait if each start took the oldest request.
	came []Time
	head int
}

// A waiting time above Tail raises Tail by about tailStep, and to at least an eighth of this time. Other waiting times
// lower Tail by a 99th of that step. So on average 1 % of the waiting times are above Tail. When waiting times become
// much longer, Tail follows within a few dozen requests. After this, it falls by half in 7,000 requests.
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

// Gone records that a request ended without having begun. It removes the request's arrival time from t.came. If the
// start of another request has already removed this time, Gone removes the first element.
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

// pop removes the first element of t.came. If at least half of t.came is then unused, the remaining elements move up.
func (t *Traffic) pop() {
	if t.head++; 2*t.head >= len(t.came) {
		n := copy(t.came, t.came[t.head:])
		t.came, t.head = t.came[:n], 0
	}
}

// gapMemory is the number of requests over which Gap is averaged: large enough that the noise of Poisson arrivals is
// small, and small enough that Gap follows a burst.
const gapMemory = 1000

// Arrive records n requests that came at the same time.
func (t *Traffic) Arrive(now Time, n int) {
	if t.Arrived > 0 {
		// The first gaps have equal weights. Otherwise the first gap would dominate the average for a long time.
		weight := 1 / float64(min(t.Arrived, gapMemory))
		t.Gap += (float64(now-t.Latest)/float64(n) - t.Gap) * weight * float64(min(n, gapMemory)) / (1 + weight*float64(min(n, gapMemory)-1))
	}
	t.Arrived += int64(n)
	t.Latest = now
	for range n {
		t.came = append(t.came, now)
	}
}

// Pass records that a request reached an exit, and whether the request left there.
func (t *Traffic) Pass(exit int, left bool) {
	t.Passed[exit]++
	if left {
		t.Left[exit]++
	}
}
