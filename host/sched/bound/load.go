// Bounds for loads of any length, computed from the table and the exit rates only.

package bound

import "github.com/sluice-npu/sluice/host/sched"

// Capacity is an upper bound on the rate, in requests per ns, that any policy can sustain. It assumes that every
// segment runs at the batch size with the least time per request, and only for the requests that reach it. Since
// requests leave a batch, it cannot stay that full, and no policy reaches the bound.
func Capacity(t *sched.Table, bMax int, rates []float64) float64 {
	if bMax <= 0 || bMax > t.MaxBatch() {
		bMax = t.MaxBatch()
	}
	time, stay := 0.0, 1.0
	for s := range t.Segments() {
		least := float64(t.At(s, s, 1))
		for b := 2; b <= bMax; b++ {
			least = min(least, float64(t.At(s, s, b))/float64(b))
		}
		time += stay * least
		stay -= rates[s]
	}
	return 1 / time
}

// Overload bounds the results of a policy that serves all of n requests at a rate above the capacity: the least
// average latency and the least share of late results. The k-th result comes no earlier than k/capacity, and the k-th
// request at about k/rate.
func Overload(capacity, rate float64, n int, slo sched.Time) (average, late float64) {
	if rate <= capacity {
		return 0, 0
	}
	average = float64(n+1) / 2 * (1/capacity - 1/rate)
	// Results can be on time until one SLO after the last arrival.
	end := float64(n)/rate + float64(slo)
	return average, max(0, 1-capacity*end/float64(n))
}
