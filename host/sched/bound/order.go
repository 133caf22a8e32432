// What the order alone can do: results come when they came, but to whom is chosen afresh.

package bound

import "slices"

// Order is the least number of late results when the times at which results come are given and only
// their order is free: each request may have any of them, from alone behind its arrival on. No
// latency but those of exempt requests may exceed tail. Everything is known beforehand. Arrivals and
// results must be sorted and equally many. It answers -1 where the tail cannot be kept.
//
// At every result the oldest request that is in time takes it, unless that leaves too few results to
// those whose tail ends before its own; then the oldest of those takes it. Without exemptions no other
// order has fewer late (order_test.go holds it against all of them). Exemptions, whose requests end
// last, first make the tail possible at all; those that are left go to the first that would take a
// result from somebody in time, which need not be the best use of them.
func Order(arrivals, results []Time, alone, slo, tail Time, exempt int) int {
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
	arrivals, results []Time
	alone, slo, tail  Time
	// spare[m] less those that have come: how many of the results up to m are left over by those who
	// must have one of them.
	spare []int
	late  int
}

// last is the last result within a request's tail.
func (o *order) last(k int) int {
	i, _ := slices.BinarySearch(o.results, o.arrivals[k]+o.tail+1)
	return i - 1
}

// free: nobody claims a result for k any more.
func (o *order) free(k int) {
	for m := max(o.last(k), 0); m < len(o.spare); m++ {
		o.spare[m]++
	}
}

// run counts who is late, with so many exemptions beyond those that the tail needs, whose number it
// answers.
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
		for len(waiting) > 0 { // else it goes to one that was exempted
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

// least is how many of the results from i on, up to any before end, are left over at least.
func (o *order) least(i, end int) int {
	least := 1
	for m := i; m < min(end, len(o.spare)); m++ {
		least = min(least, o.spare[m]-i)
	}
	return least
}
