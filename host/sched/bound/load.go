// Bounds for loads of any length, from the table and the exit rates alone.

package bound

import "github.com/sluice-npu/sluice/host/sched"

// Capacity is the highest rate, in requests per ns, that any policy can keep up: every segment is run
// at the batch that takes least time a request, by as many as come to it. No batch stays that full
// when requests leave it, so no policy quite reaches it.
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

// Overload bounds what a policy that serves everybody can do with n requests at a rate beyond the
// capacity: the least average latency, and the least share of late results. The k-th result comes no
// sooner than k/capacity, and the k-th request at about k/rate.
func Overload(capacity, rate float64, n int, slo sched.Time) (average, late float64) {
	if rate <= capacity {
		return 0, 0
	}
	average = float64(n+1) / 2 * (1/capacity - 1/rate)
	// Results on time come until the SLO behind the last arrival.
	end := float64(n)/rate + float64(slo)
	return average, max(0, 1-capacity*end/float64(n))
}
