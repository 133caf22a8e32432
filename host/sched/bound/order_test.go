package bound_test

import (
	"math/rand/v2"
	"testing"

	"github.com/sluice-npu/sluice/host/sched/bound"
)

// every tries all orders.
func every(arrivals, results []int64, alone, slo, tail int64) int {
	best := -1
	used := make([]bool, len(arrivals))
	var try func(i, late int)
	try = func(i, late int) {
		if i == len(results) {
			if best < 0 || late < best {
				best = late
			}
			return
		}
		for k, a := range arrivals {
			if used[k] || a+alone > results[i] || a+tail < results[i] {
				continue
			}
			used[k] = true
			more := 0
			if a+slo < results[i] {
				more = 1
			}
			try(i+1, late+more)
			used[k] = false
		}
	}
	try(0, 0)
	return best
}

func TestOrderIsTheLeast(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	kept, some := 0, 0
	for range 20_000 {
		n := 1 + rng.IntN(7)
		arrivals, results := make([]int64, n), make([]int64, n)
		at, end := int64(0), int64(0)
		for i := range n {
			at += rng.Int64N(8)
			end = max(end, at+2) + rng.Int64N(9)
			arrivals[i], results[i] = at, end
		}
		slo := 2 + rng.Int64N(12)
		tail := slo + rng.Int64N(20)
		got, want := bound.Order(arrivals, results, 2, slo, tail, 0), every(arrivals, results, 2, slo, tail)
		if got != want {
			t.Fatalf("arrivals %v, results %v, SLO %d, tail %d: %d are late, %d at least", arrivals, results, slo, tail, got, want)
		}
		if want >= 0 {
			kept++
		}
		if want > 0 {
			some++
		}
	}
	if kept < 5000 || some < 2000 {
		t.Errorf("of 20000 instances %d can keep the tail, %d of them not without late results", kept, some)
	}
}

func TestOrderExempts(t *testing.T) {
	// One result every 10, the first after 30: in order all requests are 30 late. If one of them is moved to the end,
	// or exempt, no other is late.
	arrivals := []int64{0, 10, 20, 30, 40, 50}
	results := []int64{30, 40, 50, 60, 70, 80}
	for _, c := range []struct {
		tail   int64
		exempt int
		want   int
	}{{30, 0, 6}, {29, 0, -1}, {29, 1, 1}, {30, 1, 1}, {30, 2, 1}, {80, 0, 1}, {40, 0, 3}} {
		if got := bound.Order(arrivals, results, 5, 20, c.tail, c.exempt); got != c.want {
			t.Errorf("tail %d, %d exempt: %d late, want %d", c.tail, c.exempt, got, c.want)
		}
	}
}
