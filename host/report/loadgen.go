// This file judges a run by the rules of MLPerf LoadGen's server scenario.

package report

import (
	"cmp"
	"fmt"
	"math"

	"gonum.org/v1/gonum/mathext"
)

// ServerRules are the rules of LoadGen's server scenario (mlcommons/inference, mlperf.conf and the rules' section on
// early stopping). A zero field selects MLPerf's value: percentile 0.99, 600 s, confidence 0.99.
type ServerRules struct {
	Target      int64   // latency bound in ns
	Percentile  float64 // share of queries that must meet the target
	MinDuration int64   // minimum time in ns from the first arrival to the last end
	Confidence  float64 // confidence of early stopping
}

// LoadGen is the verdict on a run, with the numbers on which it is based.
type LoadGen struct {
	Valid        bool   `json:"valid"`
	Queries      int    `json:"queries"`
	Overlatency  int    `json:"overlatency"`   // number of queries that missed the target or had no result
	MinQueries   int    `json:"min_queries"`   // minimum number of queries for early stopping with this Overlatency; 0: no number is sufficient
	LatencyMet   bool   `json:"latency_met"`   // the latency at the percentile meets the target
	DurationMet  bool   `json:"duration_met"`  // the run was long enough
	EarlyStopMet bool   `json:"early_stop_ok"` // the number of queries is sufficient for the confidence
	Why          string `json:"why,omitempty"` // reason for a failure
}

// MinPassing returns the number of queries that early stopping needs if t queries miss the target. Assume that each
// query misses the target with probability 1-p. The result is the smallest n for which at most t of n queries miss the
// target with probability 1-c or less. MLPerf's minima for t = 1 are 662 (p = 0.99) and 64 (p = 0.9).
func MinPassing(t int, p, c float64) int {
	ok := func(n int) bool {
		// P(Binomial(n, 1-p) <= t) = I_p(n-t, t+1)
		return mathext.RegIncBeta(float64(n-t), float64(t+1), p) <= 1-c
	}
	lo, hi := t, t+1
	for !ok(hi) {
		lo, hi = hi, 2*hi
		if hi > math.MaxInt32 {
			return 0
		}
	}
	for hi-lo > 1 {
		if mid := lo + (hi-lo)/2; ok(mid) {
			hi = mid
		} else {
			lo = mid
		}
	}
	return hi
}

// Server judges a run. latencies are the latencies of queries with a result. queries is the number of all queries.
// duration is the run's duration. Times are in ns.
func Server(r ServerRules, latencies []int64, queries int, duration int64) LoadGen {
	r.Percentile = cmp.Or(r.Percentile, 0.99)
	r.Confidence = cmp.Or(r.Confidence, 0.99)
	r.MinDuration = cmp.Or(r.MinDuration, 600e9)
	over := queries - len(latencies)
	for _, l := range latencies {
		if l > r.Target {
			over++
		}
	}
	v := LoadGen{Queries: queries, Overlatency: over, DurationMet: duration >= r.MinDuration}
	v.LatencyMet = queries > 0 && float64(queries-over) >= r.Percentile*float64(queries)
	v.MinQueries = MinPassing(over, r.Percentile, r.Confidence)
	v.EarlyStopMet = v.MinQueries > 0 && queries >= v.MinQueries
	v.Valid = v.LatencyMet && v.DurationMet && v.EarlyStopMet
	switch {
	case !v.LatencyMet:
		v.Why = fmt.Sprintf("%d of %d queries miss the target", over, queries)
	case !v.EarlyStopMet:
		v.Why = fmt.Sprintf("%d misses ask for %d queries, there are %d", over, v.MinQueries, queries)
	case !v.DurationMet:
		v.Why = fmt.Sprintf("%s, expected %s", Ns(duration), Ns(r.MinDuration))
	}
	return v
}
