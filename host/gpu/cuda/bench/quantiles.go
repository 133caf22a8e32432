// This file computes quantiles with confidence intervals.

package bench

import (
	"math"
	"math/rand/v2"
	"slices"
)

const (
	beyond  = 10    // smallest number of runs beyond a percentile; with fewer runs it would depend on an outlier
	outside = 0.025 // probability outside an interval, on each side
	quarter = 4     // smallest number of runs for quartiles
)

// Interval is the 95 % confidence interval of a quantile, from order statistics of runs that are assumed independent.
type Interval [2]float64

// median returns the middle of sorted runs, or the mean of the two middle runs.
func median(v []float64) float64 { return (v[(len(v)-1)/2] + v[len(v)/2]) / 2 }

// quantile returns the quantile p of sorted runs: the smallest run x such that more than a share p of runs is at most
// x.
func quantile(v []float64, p float64) float64 { return v[min(len(v)-1, int(p*float64(len(v))))] }

// percentile returns a high quantile, such as p99. It is nil if too few runs are beyond the quantile.
func percentile(v []float64, p float64) *float64 {
	if (1-p)*float64(len(v)) < beyond-1e-9 {
		return nil
	}
	q := quantile(v, p)
	return &q
}

// interval returns the interval of a quantile. It is nil if there are too few runs on one side.
func interval(v []float64, p float64) *Interval {
	low, high := ranks(len(v), p)
	if low < 1 || high > len(v) {
		return nil
	}
	return &Interval{v[low-1], v[high-1]}
}

// ranks returns the narrowest pair of ranks that contains the quantile with a probability of 95 %. Ranks count from 1.
// The number of runs below the quantile is binomial. A rank below 1 or above n means too few runs.
func ranks(n int, p float64) (low, high int) {
	mean, wide := p*float64(n), 10*math.Sqrt(p*(1-p)*float64(n))+1 // more distant terms are negligible
	below := 0.0
	high = n + 1
	for k := max(0, int(mean-wide)); k <= n; k++ {
		if below += binomial(n, k, p); below <= outside {
			low = k + 1
		}
		if below >= 1-outside {
			high = k + 1
			break
		}
	}
	return low, high
}

// binomial returns the probability of k successes in n trials.
func binomial(n, k int, p float64) float64 {
	log := func(x int) float64 { v, _ := math.Lgamma(float64(x) + 1); return v }
	return math.Exp(log(n) - log(k) - log(n-k) + float64(k)*math.Log(p) + float64(n-k)*math.Log(1-p))
}

// row computes a figure from runs.
func row(part, key, unit string, v []float64) Row {
	v = slices.Sorted(slices.Values(v))
	r := Row{Part: part, Key: key, Unit: unit, N: len(v)}
	if len(v) == 0 {
		return r
	}
	r.Median, r.Least, r.Most = median(v), v[0], v[len(v)-1]
	r.MedianIn, r.P95, r.P99 = interval(v, 0.5), percentile(v, 0.95), percentile(v, 0.99)
	if r.P99 != nil {
		r.P99In = interval(v, 0.99)
	}
	if len(v) >= quarter && r.Median != 0 {
		s := (quantile(v, 0.75) - quantile(v, 0.25)) / r.Median
		r.Spread = &s
	}
	return r
}

// ratio divides each value in v by the median of the list `of`, and computes a figure from the quotients. The interval
// of the median covers the errors of both lists. The p99 has no interval.
func ratio(part, key string, v, of []float64) Row {
	base := row("", "", "", of).Median
	shares := make([]float64, len(v))
	for i := range v {
		shares[i] = v[i] / base
	}
	r := row(part, key, "share", shares)
	r.MedianIn, r.P99In = ratioIn(v, of), nil
	return r
}

// draws is the number of bootstrap samples for a ratio's interval.
const draws = 1000

// ratioIn returns the 95 % interval of the ratio of two medians. It uses a bootstrap with a fixed seed. The interval is
// nil if one of the lists has too few runs for an interval of its median.
func ratioIn(v, of []float64) *Interval {
	v, of = slices.Sorted(slices.Values(v)), slices.Sorted(slices.Values(of))
	if interval(v, 0.5) == nil || interval(of, 0.5) == nil || of[0] <= 0 {
		return nil
	}
	rng := rand.New(rand.NewPCG(uint64(len(v)), uint64(len(of))))
	times := make([]int, max(len(v), len(of)))
	all := make([]float64, draws)
	for i := range all {
		all[i] = drawn(rng, v, times) / drawn(rng, of, times)
	}
	slices.Sort(all)
	cut := int(outside * draws)
	return &Interval{all[cut], all[draws-1-cut]}
}

// drawn returns the median of a bootstrap sample of sorted runs. times is a buffer for the number of draws of each run.
func drawn(rng *rand.Rand, v []float64, times []int) float64 {
	times = times[:len(v)]
	clear(times)
	for range v {
		times[rng.IntN(len(v))]++
	}
	at := func(rank int) float64 {
		i := 0
		for seen := times[0]; seen <= rank; seen += times[i] {
			i++
		}
		return v[i]
	}
	return (at((len(v)-1)/2) + at(len(v)/2)) / 2
}
