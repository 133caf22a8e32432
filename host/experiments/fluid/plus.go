// plus compares our policies with fluid over every setting at which a suite ran both.

package fluid

import (
	"math"

	"github.com/sluice-npu/sluice/host/experiments/frame"
)

// someLate is the lowest violation rate for which a relative change is meaningful.
const someLate = 0.005

// plus compares a policy with fluid, separately for settings that are and are not held out. It returns the geometric
// means of the relative changes of Avg and P99. For the violation rate, it returns the mean relative change over the
// settings at which fluid's rate is at least someLate. It also counts the settings at which a metric is worse: the 95 %
// interval of its paired differences is above zero.
func (s *Suite) plus(policy string) (rows []frame.Row) {
	fluid, ours := Variant{Policy: "fluid"}, Variant{Policy: policy}
	metrics := []func(*Metrics) float64{
		func(m *Metrics) float64 { return m.Avg }, func(m *Metrics) float64 { return m.P99 }, func(m *Metrics) float64 { return m.Violations },
	}
	type tally struct {
		settings, worse, late float64
		change                [3]float64
	}
	totals := map[bool]*tally{}
	seen := map[Setting]bool{}
	for i := range s.Benches {
		for _, set := range s.Benches[i].Settings {
			var was, is [3]float64
			ok, worse := !seen[set], false
			for k, of := range metrics {
				a, _, ok1 := s.Mean(set, fluid, of)
				b, _, ok2 := s.Mean(set, ours, of)
				was[k], is[k], ok = a, b, ok && ok1 && ok2 && (k == 2 || a > 0 && b > 0)
				d, half, _ := s.Mean(set, ours, of, fluid)
				worse = worse || d > 0 && (half == nil || d > *half)
			}
			if !ok {
				continue
			}
			seen[set] = true
			held := HeldOut(set, policy)
			t := totals[held]
			if t == nil {
				t = &tally{}
				totals[held] = t
			}
			t.settings++
			t.change[0] += math.Log(is[0] / was[0])
			t.change[1] += math.Log(is[1] / was[1])
			if was[2] >= someLate {
				t.change[2] += is[2]/was[2] - 1
				t.late++
			}
			if worse {
				t.worse++
			}
		}
	}
	for _, held := range []bool{false, true} {
		t, name := totals[held], map[bool]string{false: "developed", true: "held-out"}[held]
		if t == nil {
			continue
		}
		for _, m := range []struct {
			metric string
			value  float64
		}{
			{"settings", t.settings},
			{"worse", t.worse},
			{"avg_change", math.Exp(t.change[0]/t.settings) - 1},
			{"p99_change", math.Exp(t.change[1]/t.settings) - 1},
			{"violations_change", t.change[2] / max(1, t.late)},
		} {
			rows = append(rows, frame.Row{Bench: policy, Setting: name, Policy: policy, Metric: m.metric, Ours: m.value, HeldOut: held})
		}
	}
	return rows
}
