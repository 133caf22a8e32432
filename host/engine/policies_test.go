package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/drawn"
	"github.com/sluice-npu/sluice/host/engine"
	"github.com/sluice-npu/sluice/host/engine/enginetest"
	"github.com/sluice-npu/sluice/host/load"
	"github.com/sluice-npu/sluice/host/sched"
)

// watched forwards a policy's answers and checks them against the state that it saw.
type watched struct {
	sched.Policy
	look func(now int64, s *sched.State, a []sched.Action)
}

func (w watched) Decide(now int64, s *sched.State, ev *sched.Event, buf []sched.Action) []sched.Action {
	buf = w.Policy.Decide(now, s, ev, buf)
	w.look(now, s, buf)
	return buf
}

// randomTable has any positive times: neither sums nor monotony can be relied on.
func randomTable(t *rapid.T) *sched.Table {
	segments, batch := rapid.IntRange(1, 6).Draw(t, "segments"), rapid.IntRange(1, 10).Draw(t, "batch")
	var out []bundle.LatencyEntry
	for first := range segments {
		for last := first; last < segments; last++ {
			for b := 1; b <= batch; b++ {
				out = append(out, bundle.LatencyEntry{
					Network: enginetest.Network, First: first, Last: last, Batch: b, P50: rapid.Int64Range(1, 1000).Draw(t, "ns"),
				})
			}
		}
	}
	return table(t, out)
}

// For every policy, over any table, exit rates and arrivals: requests are conserved, none waits for ever (the run
// ends with ErrStuck otherwise), no batch exceeds B_max, every accepted request is served unless the policy drops,
// and fluid preempts only if equation 4 allows it.
func TestPoliciesKeepTheRules(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tab := randomTable(t)
		name := rapid.SampledFrom(sched.Names()).Draw(t, "policy")
		bMax := rapid.IntRange(0, 10).Draw(t, "B_max")
		limit := tab.MaxBatch()
		if bMax > 0 {
			limit = min(limit, bMax)
		}
		n := rapid.IntRange(1, 200).Draw(t, "n")
		slo := rapid.Int64Range(1, 20_000).Draw(t, "slo")
		times := make([]int64, n)
		at := int64(0)
		for i := range times {
			at += rapid.SampledFrom([]int64{0, 1, 50, 300, 1000, 20_000}).Draw(t, "gap")
			times[i] = at
		}
		p, err := sched.New(name, sched.Options{BMax: bMax})
		if err != nil {
			t.Fatal(err)
		}
		rates := make([]float64, tab.Segments())
		sum := 0.0
		for i := range rates {
			rates[i] = rapid.Float64Range(0, 1).Draw(t, "rate")
			sum += rates[i]
		}
		if sum == 0 {
			rates[len(rates)-1], sum = 1, 1
		}
		for i := range rates {
			rates[i] /= sum
		}
		d, err := drawn.New(tab, rates, rapid.Uint64().Draw(t, "seed"), 0)
		if err != nil {
			t.Fatal(err)
		}
		deadlines := rapid.SampledFrom([]string{"one SLO", "any"}).Draw(t, "deadlines")
		cfg := engine.Config{
			Devices: []device.Device{d}, Networks: []engine.Network{{Name: enginetest.Network, Tables: []*sched.Table{tab}}},
			Source: &load.Open{Times: times, Task: func(i int, at int64) sched.Task {
				given := slo
				if deadlines == "any" {
					given = 1 + (slo*int64(i*i+7))%(3*slo)
				}
				return sched.Task{Network: enginetest.Network, Deadline: at + given}
			}},
			Inputs: engine.NoInputs,
		}
		cfg.Policy = watched{p, func(now int64, s *sched.State, actions []sched.Action) {
			if name == "fluid" {
				equation4(t, tab, now, s, actions)
			}
		}}
		res, err := engine.Run(context.Background(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		if err := res.Check(); err != nil {
			t.Fatal(err)
		}
		s := res.Summary()
		if s.Requests != int64(n) || s.OnTime+s.Late+s.Dropped != int64(n) {
			t.Fatalf("%d requests came: %+v", n, s)
		}
		if s.Dropped > 0 && name != "clockwork" && name != "fluid+refuse" {
			t.Fatalf("%s dropped %d", name, s.Dropped)
		}
		for _, step := range res.Steps {
			if len(step.Requests) > limit && step.Kind != "drop" {
				t.Fatalf("a batch of %d, B_max being %d: %+v", len(step.Requests), limit, step)
			}
		}
		for _, span := range res.Spans {
			if len(span.Requests) > limit {
				t.Fatalf("a segment of a batch of %d, B_max being %d", len(span.Requests), limit)
			}
		}
		for i := range res.Records {
			if r := &res.Records[i]; r.Exit >= 0 && r.Exit != d.Exit(r.ID) {
				t.Fatalf("request %d left at exit %d, drawn was %d", r.ID, r.Exit, d.Exit(r.ID))
			}
		}
	})
}

// Patience ends: under fluid+ no later request overtakes one that has waited for more than twenty times its allowed
// time and longer than 99 of 100 would in the order of arrival. For fluid+last only the first condition holds.
func TestNobodyStandsBackForEver(t *testing.T) {
	tab := table(t, enginetest.Linear(4, 8, 5_000_000, 10_000_000))
	for _, name := range []string{"fluid+", "fluid+last", "fluid+theta"} {
		passed := 0
		for _, slo := range []int64{70_000_000, 400_000_000} {
			for _, load := range []float64{0.9, 1.15, 1.6} {
				cfg := draws(t, tab, nil, resnetRates, load, slo, 4000, 7)
				cfg.Policy = watched{policy(t, name), func(now int64, s *sched.State, actions []sched.Action) {
					taken, last := map[device.RequestID]bool{}, device.RequestID(0)
					for i := range actions {
						for _, id := range actions[i].Requests {
							taken[id], last = true, max(last, id)
						}
					}
					for i := range s.Queue.Len() {
						r := s.Queue.At(i)
						if r.ID > last {
							return // those are younger
						}
						if taken[r.ID] {
							continue
						}
						passed++
						waited := now - r.Arrived
						if waited/20 >= r.Deadline-r.Arrived && (name == "fluid+last" || float64(waited) > s.Traffic[0].Tail) {
							t.Fatalf("%s: request %d, which was given %d ns, has waited for %d and is passed over", name, r.ID, r.Deadline-r.Arrived, waited)
						}
					}
				}}
				if s := run(t, cfg).Summary(); s.OnTime+s.Late != 4000 {
					t.Fatalf("%s: %+v", name, s)
				}
			}
		}
		if passed < 300 {
			t.Errorf("%s: only %d times was anybody passed over", name, passed)
		}
	}
}

// equation4 checks every launch that fills up a halted batch: T[0..i][B_incr] + T[i+1..last][B_rem +
// B_incr] is below the slack of the batch's oldest member.
func equation4(t *rapid.T, tab *sched.Table, now int64, s *sched.State, actions []sched.Action) {
	launches := s.Devices[0].Launches
	if len(launches) == 0 {
		return
	}
	for _, a := range actions {
		if a.Kind != sched.Launch {
			continue
		}
		rem, earliest := 0, int64(math.MaxInt64)
		for _, l := range launches {
			rem += len(l.Requests)
			for i := range l.Requests {
				earliest = min(earliest, l.Requests[i].Deadline)
			}
		}
		i, last := a.Last, tab.Segments()-1
		if overhead := tab.At(0, i, a.Count) + tab.At(i+1, last, rem+a.Count); overhead >= earliest-now {
			t.Fatalf("preempted at exit %d for %d beside %d: overhead %d, slack %d", i, a.Count, rem, overhead, earliest-now)
		}
	}
}

// serial agrees with Pollaczek-Khinchine: with arrivals at rate lambda and service times S, the mean
// wait is lambda E[S^2] / (2 (1 - rho)). Exits make S vary.
func TestSerialAgreesWithPollaczekKhinchineWithin1Percent(t *testing.T) {
	const alone = 1_000_000 // ns a segment
	tab := table(t, enginetest.Linear(4, 8, alone/2, alone/2))
	rates := []float64{0.4, 0.1, 0.1, 0.4}
	var first, second float64 // moments of S
	for i, r := range rates {
		s := float64(i+1) * alone
		first, second = first+r*s, second+r*s*s
	}
	for _, rho := range []float64{0.1, 0.3, 0.5, 0.7, 0.8} {
		var got float64
		const seeds = 4
		n := int(rho * 600_000) // the fuller, the longer busy periods last
		for seed := range uint64(seeds) {
			cfg := draws(t, tab, policy(t, "serial"), rates, rho, 1e12, n, 10+seed)
			got += float64(run(t, cfg).Summary().Latency.Avg) / seeds
		}
		want := first + rho/first*second/(2*(1-rho))
		if math.Abs(got/want-1) > 0.01 {
			t.Errorf("rho %g: mean latency %.0f ns, want %.0f (%+.2f %%)", rho, got, want, 100*(got/want-1))
		}
	}
}

// The running counts agree with the records.
func TestStreamAgreesWithRecords(t *testing.T) {
	tab := table(t, enginetest.Linear(4, 8, 5_000_000, 10_000_000))
	for _, name := range sched.Names() {
		var s [2]engine.Summary
		for i := range s {
			cfg := draws(t, tab, policy(t, name), resnetRates, 0.9, 400_000_000, 5000, 3)
			if i == 1 {
				cfg.Keep = engine.Counts
			} else {
				cfg.Keep = engine.Everything
			}
			res := run(t, cfg)
			if (len(res.Records) == 0) != (i == 1) || i == 1 && len(res.Steps)+len(res.Spans) > 0 {
				t.Fatalf("keep %d: %d records, %d steps", cfg.Keep, len(res.Records), len(res.Steps))
			}
			s[i] = res.Summary()
		}
		for _, q := range []struct{ exact, bound int64 }{{s[0].Latency.P50, s[1].Latency.P50}, {s[0].Latency.P99, s[1].Latency.P99}} {
			if q.bound < q.exact || float64(q.bound) > 1.001*float64(q.exact) {
				t.Errorf("%s: a quantile of %d ns by records, %d by the histogram", name, q.exact, q.bound)
			}
		}
		s[1].Latency.P50, s[1].Latency.P99 = s[0].Latency.P50, s[0].Latency.P99
		if fmt.Sprintf("%+v", s[0]) != fmt.Sprintf("%+v", s[1]) {
			t.Errorf("%s:\nrecords %+v\nstream  %+v", name, s[0], s[1])
		}
	}
}

func TestHistogram(t *testing.T) {
	var h engine.Histogram
	if h.Quantile(0.5) != -1 {
		t.Error("nothing has no median")
	}
	rapid.Check(t, func(t *rapid.T) {
		var h engine.Histogram
		values := rapid.SliceOfN(rapid.Int64Range(-1, 1<<62), 1, 100).Draw(t, "values")
		for i := range values {
			values[i] = max(0, values[i]>>rapid.IntRange(0, 62).Draw(t, "shift"))
			h.Add(values[i])
		}
		slices.Sort(values)
		for _, q := range []float64{0, 0.01, 0.5, 0.99, 1} {
			exact, got := engine.Quantile(values, q), h.Quantile(q)
			if got < exact || float64(got) > 1.001*float64(exact) {
				t.Fatalf("quantile %g of %v is %d, got %d", q, values, exact, got)
			}
		}
	})
}

// Memory does not grow with a run, and a warmed-up run allocates nothing.
func TestMemoryIsFlat(t *testing.T) {
	tab := table(t, enginetest.Linear(4, 8, 5_000_000, 10_000_000))
	for _, name := range sched.Names() {
		allocated := func(n int) uint64 {
			cfg := draws(t, tab, policy(t, name), resnetRates, 0.7, 400_000_000, n, 1)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			if _, err := engine.Run(context.Background(), cfg); err != nil {
				t.Fatal(err)
			}
			runtime.ReadMemStats(&after)
			return after.Mallocs - before.Mallocs
		}
		short, long := allocated(20_000), allocated(200_000)
		if long > short+500 { // the longest queue seen may grow a little
			t.Errorf("%s: %d allocations in 20,000 requests, %d in 200,000", name, short, long)
		}
	}
}

// A billion requests per second, all requests at once, and times of zero are normal loads, or clear errors.
func TestAbsurdLoads(t *testing.T) {
	tab := table(t, enginetest.Linear(4, 8, 5_000, 10_000))
	for _, name := range sched.Names() {
		for _, perSecond := range []float64{1e9, 1e15} {
			cfg := draws(t, tab, policy(t, name), resnetRates, 1, 400_000, 3000, 1)
			cfg.Source = newStream(perSecond, 400_000, 3000, 1)
			if s := run(t, cfg).Summary(); s.OnTime+s.Late+s.Dropped != 3000 || s.OnTime == 0 {
				t.Errorf("%s at %g/s: %+v", name, perSecond, s)
			}
		}
	}
	for name, task := range map[string]sched.Item{
		"before the start":   {At: -1, Task: &sched.Task{ID: 1, Network: enginetest.Network, Deadline: 4}},
		"no task, no cancel": {At: 5},
	} {
		for how, serve := range map[string]func(context.Context, engine.Config) (*engine.Result, error){"run": engine.Run, "serve": engine.Serve} {
			cfg := config(tab, sched.Serial{}, nil, 0, func(int) int { return 1 })
			cfg.Source = &once{item: task}
			if _, err := serve(context.Background(), cfg); !errors.Is(err, engine.ErrSource) {
				t.Errorf("%s, %s: %v", how, name, err)
			}
		}
	}
}

type once struct {
	item sched.Item
	sent bool
}

func (o *once) Next() (sched.Item, bool) {
	if o.sent {
		return sched.Item{}, false
	}
	o.sent = true
	return o.item, true
}

func (*once) Ended(int64, *sched.Task, sched.Ending) []sched.Item { return nil }

// The tail that policies see counts each request once, even if it is cancelled, rejected or retried. Under serial,
// which begins in the order of arrival, as many requests are beyond it as would be in that order.
func TestTailCountsEachRequestOnce(t *testing.T) {
	tab := table(t, enginetest.Linear(3, 8, 10, 1))
	times, err := load.Poisson(1e9/36, 3000, 2)
	if err != nil {
		t.Fatal(err)
	}
	var traffic sched.Traffic
	cfg := config(tab, watched{sched.Serial{}, func(_ int64, s *sched.State, _ []sched.Action) { traffic = s.Traffic[0] }}, nil, 1e6, func(i int) int { return i % 3 })
	cancel := map[int]int64{}
	for i := 0; i < len(times); i += 5 {
		cancel[i] = times[i] + int64(i%200) // some wait, some run, some have ended
	}
	cfg.Source = &load.Open{Times: times, Cancel: cancel, Task: func(i int, at int64) sched.Task {
		return sched.Task{Network: enginetest.Network, Deadline: at + 1e6, Theta: 0.8}
	}}
	cfg.Admission = func(_ int64, s *sched.State, task *sched.Task) bool { return task.ID%11 > 0 }
	cfg.Devices = adapt(&enginetest.Faulty{Blocking: driver(cfg), Fail: func(n int) bool { return n%100 == 99 }})
	cfg.ResetCost = 100
	s := run(t, cfg).Summary()
	if s.Cancelled < 100 || s.Refused < 100 || s.Retries < 20 {
		t.Fatalf("too few are cancelled, refused or tried again: %+v", s)
	}
	if traffic.Beyond < 20 || traffic.Beyond != traffic.InOrder {
		t.Errorf("%d are beyond the tail, in order %d would be", traffic.Beyond, traffic.InOrder)
	}
}

// The state tells how many places a batch has taken, also after merging and leaving.
func TestBeganCountsPlaces(t *testing.T) {
	tab := table(t, enginetest.Linear(3, 8, 20, 5))
	var most int
	exits := []int{2, 0, 2, 0, 2}
	p := watched{sched.Fluid{}, func(_ int64, s *sched.State, _ []sched.Action) {
		for _, l := range s.Devices[0].Launches {
			if l.Began < len(l.Requests) {
				t.Errorf("%d began, %d are left", l.Began, len(l.Requests))
			}
			most = max(most, l.Began)
		}
	}}
	// Two start; one leaves at exit 0, three fill up, one of these leaves there: five have had places.
	cfg := config(tab, p, nil, 1000, func(i int) int { return exits[i] })
	cfg.Source = &load.Open{Times: []int64{0, 1}, Task: func(i int, at int64) sched.Task {
		return sched.Task{Network: enginetest.Network, Deadline: at + 1000, Theta: 0.8, Samples: 2 + i}
	}}
	run(t, cfg)
	if most != 5 {
		t.Errorf("at most %d places were taken, want 5", most)
	}
}

// Every policy performs the same actions in the same order on devices that have only their exits in common: by the
// table's clock, and by the measured one if the device's times are the table's.
func TestSchedulesAgreeAcrossDevices(t *testing.T) {
	tab := table(t, enginetest.Linear(4, 8, 5_000_000, 10_000_000))
	for _, name := range sched.Names() {
		times, err := load.Poisson(14, 2000, 9)
		if err != nil {
			t.Fatal(err)
		}
		d, err := drawn.New(tab, resnetRates, 4, 0)
		if err != nil {
			t.Fatal(err)
		}
		steps := func(dev device.Device, clock engine.Clock) *engine.Result {
			cfg := config(tab, policy(t, name), times, 300_000_000, func(i int) int { return d.Exit(device.RequestID(i + 1)) })
			cfg.Devices, cfg.Clock = []device.Device{dev}, clock
			return run(t, cfg)
		}
		want := steps(device.Adapt(&enginetest.Fake{T: tab}), engine.Table)
		if want.Summary().OnTime < 1000 && name[len(name)-1] != 'l' {
			t.Fatalf("%s: %+v", name, want.Summary())
		}
		for _, clock := range []engine.Clock{engine.Table, engine.Measured} {
			if n := engine.DiffSteps(want.Steps, steps(d, clock).Steps); n != 0 {
				t.Errorf("%s, clock %s: %d actions differ", name, clock, n)
			}
		}
	}
}

// Every policy serves in real time.
func TestEveryPolicyServes(t *testing.T) {
	tab := table(t, enginetest.Linear(3, 8, 20_000, 2_000))
	for _, name := range sched.Names() {
		times, err := load.Poisson(20_000, 100, 3)
		if err != nil {
			t.Fatal(err)
		}
		cfg := config(tab, policy(t, name), times, 10e9, func(i int) int { return i % 3 })
		if p, err := sched.New(name, sched.Options{SLO: 20_000_000}); err != nil { // 1 to 19 ms to fill a batch
			t.Fatal(err)
		} else {
			cfg.Policy = p
		}
		cfg.Watchdog.Least = 60e9 // a delay by a loaded machine is not a hang
		cfg.Devices = adapt(&enginetest.Fake{T: tab, Delay: func(ctx context.Context, ns int64) error {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(time.Duration(ns)):
				return nil
			}
		}})
		res, err := engine.Serve(context.Background(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		if err := res.Check(); err != nil {
			t.Fatal(err)
		}
		if s := res.Summary(); s.OnTime+s.Late+s.Dropped != 100 || s.Errors > 0 {
			t.Errorf("%s: %+v", name, s)
		}
	}
}
