// The effect of the order alone: the times of results are kept, but are assigned to other requests.

package sched_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sluice-npu/sluice/host/sched"
)

// bestOrder returns the minimum number of late results if the times of results are given and only their order is free:
// each request may get any result that comes late enough after its arrival to have run alone. No latency may exceed
// tail, except those of exempt requests. Everything is known in advance. Arrivals and results must be sorted and
// equal in number. It returns -1 if the tail cannot be kept.
//
// Each result goes to the oldest request that is in time, unless too few results would remain for requests whose tail
// ends before that request's tail; then it goes to the oldest of these. Without exemptions no other order has fewer
// late results (order_test.go compares with all orders). Exempt requests end last. Exemptions are used first to make
// the tail possible at all. The remaining ones go to the first requests that would take a result from a request in
// time, which is not always the best use.
func bestOrder(arrivals, results []sched.Time, alone, slo, tail sched.Time, exempt int) int {
	o := order{arrivals: arrivals, results: results, alone: alone, slo: slo, tail: tail}
	need := o.run(0)
	if need > exempt {
		return -1
	}
	if need < exempt {
		o.run(exempt - need)
	}
	return o.late
}

type order struct {
	arrivals, results []sched.Time
	alone, slo, tail  sched.Time
	// spare[m] is the number of results up to m that are not needed by the requests that must have one of them. The
	// results already used are subtracted.
	spare []int
	late  int
}

// last is the last result that keeps a request within its tail.
func (o *order) last(k int) int {
	i, _ := slices.BinarySearch(o.results, o.arrivals[k]+o.tail+1)
	return i - 1
}

// free releases the result that was reserved for request k.
func (o *order) free(k int) {
	for m := max(o.last(k), 0); m < len(o.spare); m++ {
		o.spare[m]++
	}
}

// run counts the late requests if there are left exemptions beyond those that the tail needs; it returns the number
// that the tail needs.
func (o *order) run(left int) (need int) {
	n := len(o.results)
	o.late, o.spare = 0, make([]int, n)
	for m := range o.spare {
		o.spare[m] = m + 1
	}
	claims := make([]int, n)
	for k := range o.arrivals {
		claims[max(o.last(k), 0)]++
	}
	sum := 0
	for m, c := range claims {
		sum += c
		o.spare[m] -= sum
	}
	var waiting []int // by arrival
	next := 0
	for i, at := range o.results {
		for ; next < n && o.arrivals[next]+o.alone <= at; next++ {
			waiting = append(waiting, next)
		}
		for len(waiting) > 0 { // if empty, an exempt request gets it
			pick := max(0, slices.IndexFunc(waiting, func(k int) bool { return o.arrivals[k]+o.slo >= at }))
			oldest, least := waiting[0], o.least(i, o.last(waiting[pick]))
			if least < 0 || o.arrivals[oldest]+o.tail < at || least == 0 && left > 0 {
				if least < 0 || o.arrivals[oldest]+o.tail < at {
					need++
				} else {
					left--
				}
				o.late++
				o.free(oldest)
				waiting = waiting[1:]
				continue
			}
			if least == 0 {
				pick = 0
			}
			k := waiting[pick]
			if o.arrivals[k]+o.slo < at {
				o.late++
			}
			o.free(k)
			waiting = slices.Delete(waiting, pick, pick+1)
			break
		}
	}
	return need
}

// least is the minimum number of spare results over the results from i up to, but not including, end.
func (o *order) least(i, end int) int {
	least := 1
	for m := i; m < min(end, len(o.spare)); m++ {
		least = min(least, o.spare[m]-i)
	}
	return least
}

// everyOrder tries all orders.
func everyOrder(arrivals, results []int64, alone, slo, tail int64) int {
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
		got, want := bestOrder(arrivals, results, 2, slo, tail, 0), everyOrder(arrivals, results, 2, slo, tail)
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
		if got := bestOrder(arrivals, results, 5, 20, c.tail, c.exempt); got != c.want {
			t.Errorf("tail %d, %d exempt: %d late, want %d", c.tail, c.exempt, got, c.want)
		}
	}
}
