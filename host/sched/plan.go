// A plan is the model that fluid+ has of one network on one device. It has the expected times with exits, and the cost
// of letting requests wait.
//
// The queue is modelled as a semi-Markov decision process. In state j (j requests wait, the device is free) a batch of
// size k <= min(j, B_max) runs for the time rest(k) without being filled up. The cost is the time that all requests
// spend in the system. During a batch, a Poisson number A of requests arrives. V is the relative value function of the
// process, and g is its average cost:
//
//	V(j) = min over k of  held(k) + (j - k) rest(k) + lambda rest(k)^2 / 2 - g rest(k) + E V(j - k + A)
//	V(0) = 0 = V(1) - g / lambda
//
// (Puterman, "Markov Decision Processes", chapter 11). V starts with the values of a birth-death chain that serves the
// best batch size in every state. Every decision improves V for two states. So V follows slow changes of the rates, and
// decisions need not wait for its computation. Results must be equal on every machine. Therefore products are rounded
// before they are added (no fused operations), and the exponential function is implemented here.

package sched

import (
	"math"
)

const (
	states      = 48  // number of states of the process; for larger numbers of requests, V is continued as a parabola
	warmUp      = 40  // rounds of value iteration over all states at the start
	stepG       = 0.2 // step of the average cost towards lambda V(1), per round
	fullLoad    = 0.97
	ratesWeight = 100 // weight of an initial exit rate (Plus.Rates), in requests
	unseen      = 4   // number of requests that are assumed to have passed each exit without leaving
)

// mul returns a product that is rounded before its next use.
func mul(a, b float64) float64 { return float64(a * b) }

type plan struct {
	network string
	table   *Table
	b       int // B_max

	arrived            int64   // number of requests so far
	letGo              int64   // number of requests that were let go with this plan
	tail               float64 // value of Traffic.Tail
	back               float64 // time for which a request that will be late stands back, in ns
	over               float64 // requests that began beyond the tail, minus the allowed number; 0 to overLimit
	inOrder, beyond    int64   // values of Traffic.InOrder and Traffic.Beyond that are already included in over
	weight             float64 // W in ns
	nextRates, restart int64   // numbers of arrivals at which the rates are next updated and V is restarted

	// Tables, indexed by cell(number of segments that have run, batch size):
	rest, held     []float64 // from this segment to the end: duration, and sum of the durations of all members
	fill, fillHeld []float64 // the same values from the start to this segment
	stay           []float64 // by number of segments run: share of requests that are left

	pace       float64 // ns per request with the best batch size, if batches are not filled up
	lambda     float64 // requests per ns, at most fullLoad of the rate that pace allows
	p0, lo, hi []float64
	v          [states + 1]float64
	g          float64
	state      int // the next state to improve
}

func newPlan(network string, t *Table, b int) *plan {
	n := t.Segments() + 1
	cells := func() []float64 { return make([]float64, n*(b+1)) }
	return &plan{
		network: network, table: t, b: b, rest: cells(), held: cells(), fill: cells(), fillHeld: cells(), stay: make([]float64, n),
		p0: make([]float64, b+1), lo: make([]float64, b+1), hi: make([]float64, b+1),
	}
}

func (q *plan) cell(segment, batch int) int { return segment*(q.b+1) + batch }

// follow updates the plan from the statistics of the engine.
func (q *plan) follow(seen *Traffic, prior []float64) {
	q.arrived = seen.Arrived
	q.hold(seen)
	if seen.Arrived >= q.nextRates {
		q.nextRates = seen.Arrived + 1 + min(seen.Arrived/8, 64)
		q.learn(seen, prior)
		if seen.Arrived >= q.restart || q.g == 0 {
			q.restart = 2 + 4*seen.Arrived
			if seen.Arrived > 1000 {
				q.restart = math.MaxInt64 // from now on V is only improved step by step
			}
			q.begin()
		}
	}
	q.weight = mul(missWeight, float64(q.table.Alone()))
	q.improve()
	q.improve()
}

// at returns the time of a segment for an expected batch size, which may be a fraction.
func (q *plan) at(s int, b float64) float64 {
	i := min(int(b), q.b-1)
	if i < 1 {
		return mul(float64(q.table.At(s, s, 1)), b)
	}
	lo := float64(q.table.At(s, s, i))
	return lo + mul(b-float64(i), float64(q.table.At(s, s, i+1))-lo)
}

// learn updates the exit rates and the arrival rate.
func (q *plan) learn(seen *Traffic, prior []float64) {
	n := q.table.Segments()
	q.stay[0] = 1
	left := 1.0 // share of requests left after the exits so far, by the prior rates
	for i := range n {
		passed, leave := float64(seen.Passed[i]+unseen), float64(seen.Left[i])
		if len(prior) == n && left > 0 {
			passed, leave = passed-unseen+ratesWeight, leave+mul(ratesWeight, min(1, prior[i]/left))
			left -= prior[i]
		}
		q.stay[i+1] = mul(q.stay[i], 1-leave/passed)
	}
	for s := range n {
		for b := 0; b <= q.b; b++ {
			q.ahead(s, b)
			q.before(s+1, b)
		}
	}
	best := 0.0
	for k := 1; k <= q.b; k++ {
		best = max(best, float64(k)/q.rest[q.cell(0, k)])
	}
	q.pace = 1 / best
	q.lambda = 0
	if seen.Gap > 0 {
		q.lambda = min(1/seen.Gap, mul(fullLoad, best))
	}
	q.arrivals()
}

// ahead computes rest and held for a batch of size b that has run s segments.
func (q *plan) ahead(s, b int) {
	time, held := 0.0, 0.0
	for i := s; i < q.table.Segments() && b > 0; i++ {
		share := 0.0
		if q.stay[s] > 0 {
			share = q.stay[i] / q.stay[s]
		}
		alive := mul(float64(b), share)
		t := q.at(i, alive)
		if alive < 1 { // if all requests have left, the segment does not run
			none := 1.0
			for range b {
				none = mul(none, 1-share)
			}
			t = mul(float64(q.table.At(i, i, 1)), 1-none)
		}
		time += t
		held += mul(t, alive)
	}
	q.rest[q.cell(s, b)], q.held[q.cell(s, b)] = time, held
}

// before computes fill and fillHeld for a batch of size b that runs its first s segments.
func (q *plan) before(s, b int) {
	time, held := 0.0, 0.0
	for i := range s {
		alive := mul(float64(b), q.stay[i])
		t := q.at(i, alive)
		time += t
		held += mul(t, alive)
	}
	q.fill[q.cell(s, b)], q.fillHeld[q.cell(s, b)] = time, held
}

// between interpolates rest and held for an expected batch size.
func (q *plan) between(s int, b float64) (rest, held float64) {
	i := min(int(b), q.b-1)
	f, c := b-float64(i), q.cell(s, i)
	return q.rest[c] + mul(f, q.rest[c+1]-q.rest[c]), q.held[c] + mul(f, q.held[c+1]-q.held[c])
}

// begin initialises V and g from the birth-death chain, and improves them by rounds of value iteration.
func (q *plan) begin() {
	var rate [states + 1]float64
	for j := 1; j <= states; j++ {
		k := min(j, q.b)
		rate[j] = max(rate[j-1], float64(k)/q.rest[q.cell(0, k)])
	}
	p, sum, mean := 1.0, 1.0, 0.0
	for j := 1; j <= states; j++ {
		p = mul(p, q.lambda/rate[j])
		sum += p
		mean += mul(p, float64(j))
	}
	tail := q.lambda / rate[states] // above the last state the probabilities are a geometric series
	sum += mul(p, tail/(1-tail))
	mean += mul(p, mul(states, tail/(1-tail))+tail/mul(1-tail, 1-tail))
	q.g = mean / sum

	drain := rate[states] - q.lambda
	step := (states-q.g)/drain + q.lambda/mul(drain, drain)
	var steps [states + 1]float64 // V(j) - V(j-1)
	for j := states; j >= 1; j-- {
		if j < states {
			step = (float64(j) - q.g + mul(q.lambda, step)) / rate[j]
		}
		steps[j] = step
	}
	q.v[0] = 0
	for j := 1; j <= states; j++ {
		q.v[j] = q.v[j-1] + steps[j]
	}
	for range warmUp * states {
		q.improve()
	}
}

// arrivals models the number of arrivals while a batch of size k runs. It is zero with probability p0, otherwise lo or
// hi. If requests arrive, lo and hi have the mean and the variance of the Poisson number.
func (q *plan) arrivals() {
	for k := 1; k <= q.b; k++ {
		a := mul(q.lambda, q.rest[q.cell(0, k)])
		q.p0[k] = expNeg(a)
		q.lo[k], q.hi[k] = 1, 1
		if some := 1 - q.p0[k]; some > 1e-9 {
			mean := a / some
			sd := math.Sqrt(max(0, (a+mul(a, a))/some-mul(mean, mean)))
			q.lo[k], q.hi[k] = mean-sd, mean+sd
		}
	}
}

// improve does one step of value iteration for one state.
func (q *plan) improve() {
	if q.lambda == 0 {
		return
	}
	if q.state--; q.state < 1 {
		q.v[states] = 2*q.v[states-1] - q.v[states-2] + q.bend()
		q.g += mul(stepG, mul(q.lambda, q.v[1])-q.g)
		q.state = states - 1
	}
	j := q.state
	best := math.Inf(1)
	for k := 1; k <= min(j, q.b); k++ {
		c, left := q.cell(0, k), float64(j-k)
		time := q.rest[c]
		cost := q.held[c] + mul(left+mul(q.lambda, time)/2-q.g, time) + mul(q.p0[k], q.v[j-k]) +
			mul((1-q.p0[k])/2, q.value(left+q.lo[k])+q.value(left+q.hi[k]))
		best = min(best, cost)
	}
	q.v[j] = best
}

// bend returns the second difference of V for states in which every batch is full.
func (q *plan) bend() float64 { return 1 / (1/q.pace - q.lambda) }

// value returns V for an expected number of requests, which may be a fraction.
func (q *plan) value(m float64) float64 {
	i := int(m)
	if i >= states {
		x := m - states
		return q.v[states] + mul(x, q.v[states]-q.v[states-1]) + mul(mul(x, x)/2, q.bend())
	}
	return q.v[i] + mul(m-float64(i), q.v[i+1]-q.v[i])
}

// behind returns the cost if a number of requests ("left") wait for a time. It consists of their waiting time, the
// waiting time of requests that arrive meanwhile, and the value of the state when the device is free again.
func (q *plan) behind(left, time float64) float64 {
	come := mul(q.lambda, time)
	m := left + come
	cost := mul(left+come/2-q.g, time) + q.value(m)
	if i := int(m); i+2 <= states { // a correction, since V is convex and the number of arrivals is only an expectation
		cost += mul(come/2, max(0, q.v[i+2]-2*q.v[i+1]+q.v[i]))
	}
	return cost
}

// expNeg returns e^-x for x >= 0, accurate to about 1e-14. x is halved until the series is short, and then the result
// is squared as often as x was halved.
func expNeg(x float64) float64 {
	if x > 700 {
		return 0
	}
	n := 0
	for ; x > 0.5; n++ {
		x /= 2
	}
	sum := 1.0
	for i := 14; i >= 1; i-- {
		sum = 1 - mul(x, sum)/float64(i)
	}
	for ; n > 0; n-- {
		sum = mul(sum, sum)
	}
	return sum
}
