// The effect of the order alone: the times of results are kept, but are assigned to other requests.

package bound

import "slices"

// Order returns the minimum number of late results if the times of results are given and only their order is free:
// each request may get any result that comes late enough after its arrival to have run alone. No latency may exceed
// tail, except those of exempt requests. Everything is known in advance. Arrivals and results must be sorted and
// equal in number. It returns -1 if the tail cannot be kept.
//
// Each result goes to the oldest request that is in time, unless too few results would remain for requests whose tail
// ends before that request's tail; then it goes to the oldest of these. Without exemptions no other order has fewer
// late results (order_test.go compares with all orders). Exempt requests end last. Exemptions are used first to make
// the tail possible at all. The remaining ones go to the first requests that would take a result from a request in
// time, which is not always the best use.
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
