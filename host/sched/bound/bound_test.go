package bound_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/engine"
	"github.com/sluice-npu/sluice/host/engine/enginetest"
	"github.com/sluice-npu/sluice/host/load"
	"github.com/sluice-npu/sluice/host/sched"
	"github.com/sluice-npu/sluice/host/sched/bound"
)

func table(t testing.TB, segments, batch int, fixed, each int64) *sched.Table {
	t.Helper()
	tab, err := sched.NewTable(enginetest.Linear(segments, batch, fixed, each), enginetest.Network)
	if err != nil {
		t.Fatal(err)
	}
	return tab
}

func TestWorkedExamples(t *testing.T) {
	half, steep := table(t, 2, 8, 10, 10), table(t, 2, 8, 100, 1)
	for _, c := range []struct {
		name  string
		table *sched.Table
		bMax  int
		reqs  []bound.Request
		cost  bound.Cost
		want  float64
	}{
		{"nobody", half, 0, nil, bound.Latency, 0},
		{"one alone", half, 0, []bound.Request{{Arrived: 5, Exit: 1}}, bound.Latency, 40},
		// One after the other: 40 + 80. Together: 60 + 60.
		{"two, equally good together", half, 0, []bound.Request{{Exit: 1}, {Exit: 1}}, bound.Latency, 120},
		// The one that leaves first goes first: 20, then 60.
		{"the shorter first", half, 0, []bound.Request{{Exit: 1}, {Exit: 0}}, bound.Latency, 80},
		{"together where it pays", steep, 0, []bound.Request{{Exit: 1}, {Exit: 1}}, bound.Latency, 2 * 204},
		{"not more than B_max", steep, 1, []bound.Request{{Exit: 1}, {Exit: 1}}, bound.Latency, 202 + 404},
		// The first runs to exit 0 (101), the others, which have arrived by then, catch up (203), and all go on
		// (306).
		{"halt, fill, merge", steep, 0, []bound.Request{{Exit: 1}, {Arrived: 101, Exit: 1}, {Arrived: 101, Exit: 1}}, bound.Latency, 306 + 2*205},
		// Waiting for the second request is the best choice: 1 + 204 for one, 204 for the other.
		{"idle for a companion", steep, 0, []bound.Request{{Exit: 1}, {Arrived: 1, Exit: 1}}, bound.Latency, 205 + 204},
		{"deadlines", half, 0, []bound.Request{{Exit: 1, Deadline: 40}, {Exit: 1, Deadline: 60}}, bound.Missed, 1},
		{"a companion would be late", half, 0, []bound.Request{{Exit: 1, Deadline: 60}, {Exit: 1, Deadline: 60}}, bound.Missed, 0},
	} {
		if got, err := bound.Exact(c.table, c.bMax, c.reqs, c.cost); err != nil || got != c.want {
			t.Errorf("%s: %g, %v; want %g", c.name, got, err, c.want)
		}
	}
	for name, reqs := range map[string][]bound.Request{
		"too many": make([]bound.Request, bound.MaxRequests+1), "before the start": {{Arrived: -1}}, "an exit too far": {{Exit: 2}}, "no exit": {{Exit: -1}},
	} {
		if _, err := bound.Exact(half, 0, reqs, bound.Latency); !errors.Is(err, bound.ErrInstance) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

const warm = 300 // requests before an instance begins, from which a policy can learn

// serve runs a policy on an instance, after requests from which it can learn the load.
func serve(t testing.TB, tab *sched.Table, name string, before, reqs []bound.Request) (latency, missed float64) {
	t.Helper()
	p, err := sched.New(name, sched.Options{})
	if err != nil {
		t.Fatal(err)
	}
	start := before[len(before)-1].Arrived + 100*tab.Alone()
	all := append([]bound.Request(nil), before...)
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
func instance(rng *rand.Rand, tab *sched.Table, n int, gap float64) []bound.Request {
	reqs := make([]bound.Request, n)
	at := int64(0)
	for i := range reqs {
		at += int64(rng.ExpFloat64() * gap)
		reqs[i] = bound.Request{Arrived: at, Deadline: at + 5*tab.Alone()/2, Exit: rng.IntN(tab.Segments())}
	}
	return reqs
}

// No policy is better than the bound. -v prints the distance of each.
func TestNobodyBeatsTheBound(t *testing.T) {
	const n, instances = 6, 50
	for name, tab := range map[string]*sched.Table{"half": table(t, 3, 8, 500, 500), "steep": table(t, 3, 8, 900, 100), "flat": table(t, 3, 8, 100, 900)} {
		rng := rand.New(rand.NewPCG(3, 3))
		sum, least := map[string][2]float64{}, [2]float64{}
		before := instance(rng, tab, warm, float64(tab.Alone()))
		for range instances {
			// Requests come faster than one at a time can serve them, as in the busy periods that determine the tail.
			reqs := instance(rng, tab, n, 0.5*float64(tab.Alone()))
			latency, err := bound.Exact(tab, 0, reqs, bound.Latency)
			if err != nil {
				t.Fatal(err)
			}
			missed, err := bound.Exact(tab, 0, reqs, bound.Missed)
			if err != nil {
				t.Fatal(err)
			}
			least[0], least[1] = least[0]+latency, least[1]+missed
			for _, policy := range sched.Names() {
				l, m := serve(t, tab, policy, before, reqs)
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
	tab := table(b, 3, 8, 500, 500)
	reqs := instance(rand.New(rand.NewPCG(1, 1)), tab, 6, 1500)
	for b.Loop() {
		if _, err := bound.Exact(tab, 0, reqs, bound.Latency); err != nil {
			b.Fatal(err)
		}
	}
}
