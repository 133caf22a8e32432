package strait

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/sluice-npu/sluice/host/load"
)

// Intense is the load of the comparisons (Load.Work). The publication's load is high enough to cause violations, but
// its value is not stated. This value was chosen once, so that 15 to 23 % of the high-priority requests are late under
// static sharing.
const Intense = 0.85

// Loads returns the loads of section 5.2, and two loads with changing rates. In the first, named "trace", the rates
// follow a trace, or random bursts if trace is nil. In the second, named "evolving", the rate of each model is a sine.
func Loads(seed uint64, trace *load.Trace) []Load {
	all := []Load{
		{Name: "high", Work: Intense, High: 3},
		{Name: "low", Work: Intense, High: 1. / 3},
		{Name: "uniform", Work: Intense, High: 1, Even: true},
		{Name: "trace", Work: Intense, High: 1, Shape: Bursts(seed)},
		{Name: "evolving", Work: Intense, High: 1, Shape: evolving},
	}
	if trace != nil {
		all[3].Shape = OfTrace(trace)
	}
	return all
}

// evolving returns the factor on a task's rate. The time "at" is a share of the run. The factor rises for half of the
// tasks while it falls for the other half. Appendix A.3 mentions such a workload without details.
func evolving(task int, at float64) float64 {
	return 1 + 0.6*math.Sin(2*math.Pi*(2*at+0.5*float64(task%2)))
}

const steps = 60

// Bursts returns rates that replace a serverless trace. A run has sixty parts. In each part, the rate of each task is
// drawn from a log-normal distribution (sigma 0.6), scaled to mean 1 over the run.
func Bursts(seed uint64) func(int, float64) float64 {
	return func(task int, at float64) float64 {
		rng := rand.New(rand.NewPCG(seed, 1000+uint64(task)))
		var all [steps]float64
		sum := 0.0
		for i := range all {
			all[i] = math.Exp(0.6 * rng.NormFloat64())
			sum += all[i]
		}
		return all[min(steps-1, int(at*steps))] / sum * steps
	}
}

// OfTrace returns the rates of the six most frequent functions in a trace (section 5.4), scaled to the length of the
// run. Both copies of a model use the rates of the same function.
func OfTrace(t *load.Trace) func(int, float64) float64 {
	streams := slices.Clone(t.Streams)
	slices.SortStableFunc(streams, func(a, b load.Stream) int { return len(b.Times) - len(a.Times) })
	streams = streams[:min(6, len(streams))]
	last := int64(1)
	for _, s := range streams {
		if n := len(s.Times); n > 0 {
			last = max(last, s.Times[n-1]+1)
		}
	}
	rates := make([][steps]float64, len(streams))
	for i, s := range streams {
		for _, at := range s.Times {
			rates[i][min(steps-1, int(float64(at)/float64(last)*steps))] += steps / float64(len(s.Times))
		}
	}
	return func(task int, at float64) float64 {
		return rates[task/2%len(rates)][min(steps-1, int(at*steps))]
	}
}

// checkTrace returns an error if a trace contains no arrivals.
func checkTrace(t *load.Trace) error {
	if !slices.ContainsFunc(t.Streams, func(s load.Stream) bool { return len(s.Times) > 0 }) {
		return fmt.Errorf("trace: no stream of %d has an arrival", len(t.Streams))
	}
	return nil
}
