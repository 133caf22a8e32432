// What has been seen of a network's requests: policies that learn read it here and so stay pure
// functions of state.

package sched

// Traffic is what the engine has seen of the requests for one network.
type Traffic struct {
	Network string
	Arrived int64   // requests so far
	Latest  Time    // when the last one came
	Gap     float64 // mean time between requests lately, in ns: a moving average over about gapMemory of them; 0 before the second
	Passed  []int64 // by exit: requests that came to it
	Left    []int64 // by exit: requests that left there
	Late    float64 // share of results that came late, lately: a moving average over about lateMemory of them
	Ended   int64   // results
	// Thetas are what segments that begin now ask for at most, by exit; nil: what the requests
	// brought (SetTheta).
	Thetas []float32
}

// lateMemory is over how many results lateness is averaged: shares of a few percent must show.
const lateMemory = 1000

// End takes a result in.
func (t *Traffic) End(late bool) {
	t.Ended++
	x := 0.0
	if late {
		x = 1
	}
	t.Late += (x - t.Late) / float64(min(t.Ended, lateMemory))
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
}

// Pass takes in that a request came to an exit, and whether it left there.
func (t *Traffic) Pass(exit int, left bool) {
	t.Passed[exit]++
	if left {
		t.Left[exit]++
	}
}
