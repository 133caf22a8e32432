// How good a schedule could have been: the minimum cost of a small instance whose arrivals and exits are known
// beforehand, the least that another order alone leaves late, and the highest rate. A policy does not know the future
// and cannot do better, so the difference is an upper limit for further improvement.

package sched_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"testing"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/drawn"
	"github.com/sluice-npu/sluice/host/engine"
	"github.com/sluice-npu/sluice/host/engine/enginetest"
	"github.com/sluice-npu/sluice/host/load"
	"github.com/sluice-npu/sluice/host/sched"
)

// maxKnown limits an instance: the search tries every subset of the waiting requests.
const maxKnown = 7

// errInstance is the error of an instance that cannot be searched.
var errInstance = errors.New("instance")

// knownRequest is one request, including the exit at which it leaves, which no policy knows.
type knownRequest struct {
	Arrived, Deadline sched.Time
	Exit              int
}

// boundCost is the cost of a request that ends at a given time; it must not decrease with time.
type boundCost func(r knownRequest, end sched.Time) float64

// sumLatency is the time from arrival to end: the least sum gives the least average.
func sumLatency(r knownRequest, end sched.Time) float64 { return float64(end - r.Arrived) }

// countMissed is 1 for a missed deadline, else 0.
func countMissed(r knownRequest, end sched.Time) float64 {
	if end > r.Deadline {
		return 1
	}
	return 0
}

type requestSet = uint8 // of requests

type boundState struct {
	at          sched.Time
	ended, base requestSet
	exit        int8 // exit at which the base is halted; -1: there is no base
}

type exactSearch struct {
	table *sched.Table
	bMax  int
	reqs  []knownRequest
	cost  boundCost
	known map[boundState]float64
}

// exactLeast considers every schedule that may start any waiting requests as a batch, halt a batch at any exit, run
// others from the start to that exit (these cannot be halted), merge, and idle until the next arrival, also at an exit.
// The search is exact: dynamic programming over the time, the set of ended requests, the set in the halted batch, and
// its exit.
//
// It returns the minimum sum of costs of all requests in batches of at most bMax (0: the table's maximum).
func exactLeast(t *sched.Table, bMax int, reqs []knownRequest, cost boundCost) (float64, error) {
	if bMax <= 0 || bMax > t.MaxBatch() {
		bMax = t.MaxBatch()
	}
	if len(reqs) > maxKnown {
		return 0, fmt.Errorf("%w: %d requests, expected at most %d", errInstance, len(reqs), maxKnown)
	}
	for i, r := range reqs {
		if r.Arrived < 0 || r.Exit < 0 || r.Exit >= t.Segments() {
			return 0, fmt.Errorf("%w: request %d arrives at %d ns and leaves at exit %d of %d", errInstance, i, r.Arrived, r.Exit, t.Segments())
		}
	}
	s := &exactSearch{table: t, bMax: bMax, reqs: reqs, cost: cost, known: map[boundState]float64{}}
	return s.least(boundState{exit: -1}), nil
}

// least is the minimum cost of all requests that have not ended.
func (s *exactSearch) least(st boundState) float64 {
	if st.ended == 1<<len(s.reqs)-1 {
		return 0
	}
	if v, ok := s.known[st]; ok {
		return v
	}
	best := math.Inf(1)
	waiting, next := requestSet(0), sched.Time(math.MaxInt64)
	for i, r := range s.reqs {
		switch bit := requestSet(1) << i; {
		case (st.ended|st.base)&bit != 0:
		case r.Arrived <= st.at:
			waiting |= bit
		default:
			next = min(next, r.Arrived)
		}
	}
	if next != math.MaxInt64 { // be idle until the next arrival
		st := st
		st.at = next
		best = s.least(st)
	}
	room := s.bMax - bits.OnesCount8(st.base)
	for some := waiting; some != 0; some = (some - 1) & waiting {
		if bits.OnesCount8(some) <= room {
			best = min(best, s.start(st, some))
		}
	}
	if st.exit >= 0 {
		best = min(best, s.on(st))
	}
	s.known[st] = best
	return best
}

// start runs a new batch from the start: to the base's exit, or to the first exit if there is no base.
func (s *exactSearch) start(st boundState, batch requestSet) float64 {
	to := max(st.exit, 0)
	cost := 0.0
	for i := range to + 1 {
		if batch == 0 {
			break
		}
		cost += s.segment(&st, &batch, int(i))
	}
	st.base |= batch
	st.exit = to
	if st.base == 0 {
		st.exit = -1
	}
	return cost + s.least(st)
}

// on runs the base's next segment.
func (s *exactSearch) on(st boundState) float64 {
	st.exit++
	base := st.base
	cost := s.segment(&st, &base, int(st.exit))
	st.base = base
	if st.base == 0 {
		st.exit = -1
	}
	return cost + s.least(st)
}

// segment runs one segment for a batch and returns the cost of the requests that leave at its exit.
func (s *exactSearch) segment(st *boundState, batch *requestSet, segment int) float64 {
	st.at += s.table.At(segment, segment, bits.OnesCount8(*batch))
	cost := 0.0
	for i, r := range s.reqs {
		if bit := requestSet(1) << i; *batch&bit != 0 && r.Exit == segment {
			*batch &^= bit
			st.ended |= bit
			cost += s.cost(r, st.at)
		}
	}
	return cost
}

func fakeTable(t testing.TB, segments, batch int, fixed, each int64) *sched.Table {
	t.Helper()
	tab, err := sched.NewTable(enginetest.Linear(segments, batch, fixed, each), enginetest.Network)
	if err != nil {
		t.Fatal(err)
	}
	return tab
}

func TestWorkedExamples(t *testing.T) {
	half, steep := fakeTable(t, 2, 8, 10, 10), fakeTable(t, 2, 8, 100, 1)
	for _, c := range []struct {
		name  string
		table *sched.Table
		bMax  int
		reqs  []knownRequest
		cost  boundCost
		want  float64
	}{
		{"nobody", half, 0, nil, sumLatency, 0},
		{"one alone", half, 0, []knownRequest{{Arrived: 5, Exit: 1}}, sumLatency, 40},
		// One after the other: 40 + 80. Together: 60 + 60.
		{"two, equally good together", half, 0, []knownRequest{{Exit: 1}, {Exit: 1}}, sumLatency, 120},
		// The one that leaves first goes first: 20, then 60.
		{"the shorter first", half, 0, []knownRequest{{Exit: 1}, {Exit: 0}}, sumLatency, 80},
		{"together where it pays", steep, 0, []knownRequest{{Exit: 1}, {Exit: 1}}, sumLatency, 2 * 204},
		{"not more than B_max", steep, 1, []knownRequest{{Exit: 1}, {Exit: 1}}, sumLatency, 202 + 404},
		// The first runs to exit 0 (101), the others, which have arrived by then, catch up (203), and all go on
		// (306).
		{"halt, fill, merge", steep, 0, []knownRequest{{Exit: 1}, {Arrived: 101, Exit: 1}, {Arrived: 101, Exit: 1}}, sumLatency, 306 + 2*205},
		// Waiting for the second request is the best choice: 1 + 204 for one, 204 for the other.
		{"idle for a companion", steep, 0, []knownRequest{{Exit: 1}, {Arrived: 1, Exit: 1}}, sumLatency, 205 + 204},
		{"deadlines", half, 0, []knownRequest{{Exit: 1, Deadline: 40}, {Exit: 1, Deadline: 60}}, countMissed, 1},
		{"a companion would be late", half, 0, []knownRequest{{Exit: 1, Deadline: 60}, {Exit: 1, Deadline: 60}}, countMissed, 0},
	} {
		if got, err := exactLeast(c.table, c.bMax, c.reqs, c.cost); err != nil || got != c.want {
			t.Errorf("%s: %g, %v; want %g", c.name, got, err, c.want)
		}
	}
	for name, reqs := range map[string][]knownRequest{
		"too many": make([]knownRequest, maxKnown+1), "before the start": {{Arrived: -1}}, "an exit too far": {{Exit: 2}}, "no exit": {{Exit: -1}},
	} {
		if _, err := exactLeast(half, 0, reqs, sumLatency); !errors.Is(err, errInstance) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

const warm = 300 // requests before an instance begins, from which a policy can learn

// serveBurst runs a policy on an instance, after requests from which it can learn the load.
func serveBurst(t testing.TB, tab *sched.Table, name string, before, reqs []knownRequest) (latency, missed float64) {
	t.Helper()
	p, err := sched.New(name, sched.Options{})
	if err != nil {
		t.Fatal(err)
	}
	start := before[len(before)-1].Arrived + 100*tab.Alone()
	all := append([]knownRequest(nil), before...)
	for _, r := range reqs {
		r.Arrived, r.Deadline = r.Arrived+start, r.Deadline+start
		all = append(all, r)
	}
	times := make([]int64, len(all))
	for i, r := range all {
		times[i] = r.Arrived
	}
	res, err := engine.Run(context.Background(), engine.Config{
		Devices:  []device.Device{device.Adapt(&enginetest.Fake{T: tab})},
		Networks: []engine.Network{{Name: enginetest.Network, Tables: []*sched.Table{tab}}},
		Policy:   p,
		Source: &load.Open{Times: times, Task: func(i int, _ int64) sched.Task {
			return sched.Task{Network: enginetest.Network, Deadline: all[i].Deadline, Theta: 0.8}
		}},
		Inputs: engine.WordInputs(func(r *sched.Request) ([]int16, error) { return []int16{int16(all[r.ID-1].Exit), 0}, nil }),
		Keep:   engine.Records,
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range res.Records[len(before):] {
		r := &res.Records[len(before)+i]
		latency += float64(r.Latency())
		if r.Ending != engine.OnTime {
			missed++
		}
	}
	return latency, missed
}

// instance is n requests, one every gap ns in the mean.
func instance(rng *rand.Rand, tab *sched.Table, n int, gap float64) []knownRequest {
	reqs := make([]knownRequest, n)
	at := int64(0)
	for i := range reqs {
		at += int64(rng.ExpFloat64() * gap)
		reqs[i] = knownRequest{Arrived: at, Deadline: at + 5*tab.Alone()/2, Exit: rng.IntN(tab.Segments())}
	}
	return reqs
}

// No policy is better than the bound; -v prints the distance of each.
func TestNobodyBeatsTheBound(t *testing.T) {
	const n, instances = 6, 50
	for name, tab := range map[string]*sched.Table{"half": fakeTable(t, 3, 8, 500, 500), "steep": fakeTable(t, 3, 8, 900, 100), "flat": fakeTable(t, 3, 8, 100, 900)} {
		rng := rand.New(rand.NewPCG(3, 3))
		sum, least := map[string][2]float64{}, [2]float64{}
		before := instance(rng, tab, warm, float64(tab.Alone()))
		for range instances {
			// Requests come faster than one at a time can serve them, as in the busy periods that determine the tail.
			reqs := instance(rng, tab, n, 0.5*float64(tab.Alone()))
			latency, err := exactLeast(tab, 0, reqs, sumLatency)
			if err != nil {
				t.Fatal(err)
			}
			missed, err := exactLeast(tab, 0, reqs, countMissed)
			if err != nil {
				t.Fatal(err)
			}
			least[0], least[1] = least[0]+latency, least[1]+missed
			for _, policy := range sched.Names() {
				l, m := serveBurst(t, tab, policy, before, reqs)
				if drops := policy == "clockwork" || policy == "fluid+refuse"; !drops && l < latency-0.5 || m < missed {
					t.Fatalf("%s: latencies of %g ns, %g missed; the bounds are %g and %g for %+v", policy, l, m, latency, missed, reqs)
				}
				v := sum[policy]
				sum[policy] = [2]float64{v[0] + l, v[1] + m}
			}
		}
		t.Logf("%s: %d bursts of %d; all known beforehand: average %.0f ns, %.1f %% missed", name, instances, n, least[0]/instances/n, 100*least[1]/instances/n)
		for _, policy := range sched.Names() {
			v := sum[policy]
			t.Logf("%s: %-14s average %+6.1f %%, %.1f %% missed", name, policy, 100*(v[0]/least[0]-1), 100*v[1]/instances/n)
		}
	}
}

func BenchmarkExact(b *testing.B) {
	tab := fakeTable(b, 3, 8, 500, 500)
	reqs := instance(rand.New(rand.NewPCG(1, 1)), tab, 6, 1500)
	for b.Loop() {
		if _, err := exactLeast(tab, 0, reqs, sumLatency); err != nil {
			b.Fatal(err)
		}
	}
}

// maxRate is an upper bound on the rate, in requests per ns, that any policy can sustain. It assumes that every
// segment runs at the batch size with the least time per request, and only for the requests that reach it. Since
// requests leave a batch, it cannot stay that full, and no policy reaches the bound.
func maxRate(t *sched.Table, bMax int, rates []float64) float64 {
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

// overloadBounds bounds the results of a policy that serves all of n requests at a rate above the capacity: the least
// average latency and the least share of late results. The k-th result comes no earlier than k/capacity, and the k-th
// request at about k/rate.
func overloadBounds(capacity, rate float64, n int, slo sched.Time) (average, late float64) {
	if rate <= capacity {
		return 0, 0
	}
	average = float64(n+1) / 2 * (1/capacity - 1/rate)
	// Results can be on time until one SLO after the last arrival.
	end := float64(n)/rate + float64(slo)
	return average, max(0, 1-capacity*end/float64(n))
}

func TestCapacity(t *testing.T) {
	tab := fakeTable(t, 2, 4, 10, 10) // 20 for one alone, 12.5 for each of four
	for _, c := range []struct {
		bMax  int
		rates []float64
		want  float64
	}{{0, []float64{0, 1}, 1.0 / 25}, {0, []float64{0.6, 0.4}, 1 / (12.5 + 0.4*12.5)}, {1, []float64{0, 1}, 1.0 / 40}, {2, []float64{0, 1}, 1.0 / 30}} {
		if got := maxRate(tab, c.bMax, c.rates); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("B_max %d, rates %v: %g, want %g", c.bMax, c.rates, got, c.want)
		}
	}
	// Ten requests, one every 10 ns, and one is served every 20 ns: latencies exceed the interval by 10, 20 ... 100;
	// until 100 + 60 there are 8 results.
	if avg, late := overloadBounds(0.05, 0.1, 10, 60); math.Abs(avg-55) > 1e-9 || math.Abs(late-0.2) > 1e-9 {
		t.Errorf("average %g, late %g", avg, late)
	}
	if avg, late := overloadBounds(0.05, 0.04, 10, 60); avg != 0 || late != 0 {
		t.Errorf("below capacity: average %g, late %g", avg, late)
	}
}

// No policy is faster than the capacity, or earlier or with fewer late results than the bounds for overload.
func TestNobodyBeatsTheCapacity(t *testing.T) {
	const n = 5000
	rates := []float64{0.1, 0.3, 0.6}
	for name, tab := range map[string]*sched.Table{"half": fakeTable(t, 3, 8, 500, 500), "steep": fakeTable(t, 3, 8, 900, 100)} {
		capacity := maxRate(tab, 0, rates)
		slo := 4 * tab.Alone()
		average, late := overloadBounds(capacity, 1.3*capacity, n, slo)
		times, err := load.Poisson(1.3*capacity*1e9, n, 1)
		if err != nil {
			t.Fatal(err)
		}
		for _, policy := range sched.Names() {
			p, err := sched.New(policy, sched.Options{})
			if err != nil {
				t.Fatal(err)
			}
			d, err := drawn.New(tab, rates, 1, 0)
			if err != nil {
				t.Fatal(err)
			}
			res, err := engine.Run(context.Background(), engine.Config{
				Devices: []device.Device{d}, Networks: []engine.Network{{Name: enginetest.Network, Tables: []*sched.Table{tab}}}, Policy: p,
				Source: &load.Open{Times: times, Task: func(_ int, at int64) sched.Task {
					return sched.Task{Network: enginetest.Network, Deadline: at + slo, Theta: 0.8}
				}},
				Inputs: engine.NoInputs, Keep: engine.Records,
			})
			if err != nil {
				t.Fatal(err)
			}
			s := res.Summary()
			// Arrivals and exits are drawn: the mean of 5000 is off by one or two percent.
			if rate := float64(s.OnTime+s.Late) / float64(res.End); rate > 1.02*capacity {
				t.Errorf("%s, %s: %g requests per ns, the capacity is %g", name, policy, rate, capacity)
			}
			got := float64(s.Violations) / n
			if got < late-0.02 || s.Dropped == 0 && float64(s.Latency.Avg) < 0.9*average {
				t.Errorf("%s, %s: average %d, %.3f late; the bounds are %.0f and %.3f", name, policy, s.Latency.Avg, got, average, late)
			}
			t.Logf("%s: %-14s average %8d (%8.0f), late %.3f (%.3f)", name, policy, s.Latency.Avg, average, got, late)
		}
	}
}
