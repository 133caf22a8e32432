package bound_test

import (
	"context"
	"math"
	"testing"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/drawn"
	"github.com/sluice-npu/sluice/host/engine"
	"github.com/sluice-npu/sluice/host/engine/enginetest"
	"github.com/sluice-npu/sluice/host/load"
	"github.com/sluice-npu/sluice/host/sched"
	"github.com/sluice-npu/sluice/host/sched/bound"
)

func TestCapacity(t *testing.T) {
	tab := table(t, 2, 4, 10, 10) // 20 for one alone, 12.5 for each of four
	for _, c := range []struct {
		bMax  int
		rates []float64
		want  float64
	}{{0, []float64{0, 1}, 1.0 / 25}, {0, []float64{0.6, 0.4}, 1 / (12.5 + 0.4*12.5)}, {1, []float64{0, 1}, 1.0 / 40}, {2, []float64{0, 1}, 1.0 / 30}} {
		if got := bound.Capacity(tab, c.bMax, c.rates); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("B_max %d, rates %v: %g, want %g", c.bMax, c.rates, got, c.want)
		}
	}
	// Ten requests, one every 10 ns, and one is served every 20 ns: latencies exceed the interval by 10, 20 ... 100;
	// until 100 + 60 there are 8 results.
	if avg, late := bound.Overload(0.05, 0.1, 10, 60); math.Abs(avg-55) > 1e-9 || math.Abs(late-0.2) > 1e-9 {
		t.Errorf("average %g, late %g", avg, late)
	}
	if avg, late := bound.Overload(0.05, 0.04, 10, 60); avg != 0 || late != 0 {
		t.Errorf("below capacity: average %g, late %g", avg, late)
	}
}

// No policy is faster than the capacity, or earlier or with fewer late results than the bounds for overload.
func TestNobodyBeatsTheCapacity(t *testing.T) {
	const n = 5000
	rates := []float64{0.1, 0.3, 0.6}
	for name, tab := range map[string]*sched.Table{"half": table(t, 3, 8, 500, 500), "steep": table(t, 3, 8, 900, 100)} {
		capacity := bound.Capacity(tab, 0, rates)
		slo := 4 * tab.Alone()
		average, late := bound.Overload(capacity, 1.3*capacity, n, slo)
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
