// What has been seen of a network's requests: policies that learn read it here and so stay pure
// functions of state.

package sched

import "slices"

// Traffic is what the engine has seen of the requests for one network.
type Traffic struct {
	Network string
	Arrived int64   // requests so far
	Latest  Time    // when the last one came
	Gap     float64 // mean time between requests lately, in ns: a moving average over about gapMemory of them; 0 before the second
	Passed  []int64 // by exit: requests that came to it
	Left    []int64 // by exit: requests that left there
	Ended   int64   // results
	// Tail is the 99th percentile, lately, of how long requests would have waited in ns before they
	// were begun if they had been begun when they were, but in the order of arrival. InOrder counts
	// those that would have waited for longer than it was by then, Beyond those that did.
	Tail            float64
	InOrder, Beyond int64
	// Thetas are what segments that begin now ask for at most, by exit; nil: what the requests
	// brought (SetTheta).
	Thetas []float32

	// came[head:] are when those arrived that would not have been begun yet in that order.
	came []Time
	head int
}

// Tail goes up by tailStep where a time is above it and down by a 99th of that where it is not, so 1 in
// 100 are above it in the mean: a jam that is longer than any before takes it along in some dozen
// requests, and half of that is forgotten after 7,000. No time is above eight times of it, so that it
// begins somewhere.
const (
	tailStep  = 0.01
	tailShare = 0.01
)

// Begin takes in that a request is begun for the first time.
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

// Gone takes in that a request ended without being begun: it needs no place in the order any more. Its
// own may have been given away; then it is the first one's.
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

// pop gives the first place away. What is behind it moves to the front when that costs no more than
// has been taken from there.
func (t *Traffic) pop() {
	if t.head++; 2*t.head >= len(t.came) {
		n := copy(t.came, t.came[t.head:])
		t.came, t.head = t.came[:n], 0
	}
}

// gapMemory is over how many requests the arrival rate is averaged: enough for the noise of Poisson
// arrivals to be a tenth, few enough to follow a burst.
const gapMemory = 1000

// Arrive takes n requests in that came at the same time.
func (t *Traffic) Arrive(now Time, n int) {
	if t.Arrived > 0 {
		// The first gaps are averaged plainly, else the first one would count for long.
		weight := 1 / float64(min(t.Arrived, gapMemory))
		t.Gap += (float64(now-t.Latest)/float64(n) - t.Gap) * weight * float64(min(n, gapMemory)) / (1 + weight*float64(min(n, gapMemory)-1))
	}
	t.Arrived += int64(n)
	t.Latest = now
	for range n {
		t.came = append(t.came, now)
	}
}

// Pass takes in that a request came to an exit, and whether it left there.
func (t *Traffic) Pass(exit int, left bool) {
	t.Passed[exit]++
	if left {
		t.Left[exit]++
	}
}
