// What quantiles of so many runs say, and how sure they are.

package bench

import (
	"math"
	"math/rand/v2"
	"slices"
)

const (
	beyond  = 10    // runs beyond a percentile, without which it is the one or other outlier
	outside = 0.025 // of an interval, on either side
	quarter = 4     // runs without which there are no quartiles
)

// Interval is where a quantile is in 95 of 100 cases, by the order of runs that are taken to be independent.
type Interval [2]float64

// median is the middle one of sorted runs, or midway between both.
func median(v []float64) float64 { return (v[(len(v)-1)/2] + v[len(v)/2]) / 2 }

// quantile is the run that a share of sorted runs does not exceed.
func quantile(v []float64, p float64) float64 { return v[min(len(v)-1, int(p*float64(len(v))))] }

// percentile is one far out, where there are runs enough beyond it.
func percentile(v []float64, p float64) *float64 {
	if (1-p)*float64(len(v)) < beyond-1e-9 {
		return nil
	}
	q := quantile(v, p)
	return &q
}

// interval is a quantile's, where there are runs enough on both sides of it.
func interval(v []float64, p float64) *Interval {
	low, high := ranks(len(v), p)
	if low < 1 || high > len(v) {
		return nil
	}
	return &Interval{v[low-1], v[high-1]}
}

// ranks are the narrowest, counted from 1, between which the quantile is: with n runs as many as a binomial number
// lie below it. Below 1 and above n there are none.
func ranks(n int, p float64) (low, high int) {
	mean, wide := p*float64(n), 10*math.Sqrt(p*(1-p)*float64(n))+1 // beyond which there is next to nothing
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

// binomial is how likely k of n are.
func binomial(n, k int, p float64) float64 {
	log := func(x int) float64 { v, _ := math.Lgamma(float64(x) + 1); return v }
	return math.Exp(log(n) - log(k) - log(n-k) + float64(k)*math.Log(p) + float64(n-k)*math.Log(1-p))
}

// row makes a figure of runs.
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

// ratio makes a figure of runs over the median of others. Its interval is of both medians; of how sure its p99 is
// nothing is said.
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

// draws are those by which a ratio's interval is told.
const draws = 1000

// ratioIn is where the ratio of two medians is in 95 of 100 cases, by drawing as many runs of each again and again, from
// the same seed each time. Of fewer runs than a median's interval takes there is none.
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

// drawn is the median of as many runs as there are, drawn from sorted ones; times counts how often each came.
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
