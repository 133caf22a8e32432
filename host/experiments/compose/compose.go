// Package compose combines pairs of the publications' systems, and compares each combination with its parts. It uses
// only existing policies, devices and runs. Everything is simulated.
package compose

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/sluice-npu/sluice/host/experiments/frame"
	"github.com/sluice-npu/sluice/host/experiments/strait"
	"github.com/sluice-npu/sluice/host/gpu/params"
)

// Config selects the runs.
type Config struct {
	Seeds []uint64
	Ns    int64 // virtual time in ns of a run on a GPU
	Tell  func(what string)
}

// part is one system of a composition: its name and the metrics of a run.
type part struct {
	name string
	run  func(ctx context.Context, seed uint64) (map[string]float64, error)
}

// composition is a comparison of several systems in one setting.
type composition struct {
	setting string
	parts   []part
}

// Run returns a row for every metric of every part.
func Run(ctx context.Context, c Config) ([]frame.Row, error) {
	if len(c.Seeds) == 0 || c.Ns < 1e6 {
		return nil, errors.New("compositions need seeds, and a millisecond at least")
	}
	var rows []frame.Row
	var all []composition
	for _, of := range []func(ns int64) ([]composition, error){straitExits, thresholds, boards} {
		more, err := of(c.Ns)
		if err != nil {
			return nil, err
		}
		all = append(all, more...)
	}
	for _, k := range all {
		for _, p := range k.parts {
			if c.Tell != nil {
				c.Tell(k.setting + " " + p.name)
			}
			var runs []map[string]float64
			var metrics []frame.Metric[map[string]float64]
			for _, seed := range c.Seeds {
				m, err := p.run(ctx, seed)
				if err != nil {
					return nil, fmt.Errorf("%s under %s: %w", k.setting, p.name, err)
				}
				runs = append(runs, m)
			}
			for _, name := range slices.Sorted(maps.Keys(runs[0])) {
				metrics = append(metrics, frame.Metric[map[string]float64]{Name: name, Of: func(m map[string]float64) float64 {
					if x, is := m[name]; is {
						return x
					}
					return math.NaN()
				}})
			}
			rows = append(rows, frame.Rows(frame.Row{Bench: "compose", Setting: k.setting, Policy: p.name}, runs, metrics)...)
		}
	}
	return rows, nil
}

// exitsOf is the number of exits of a network. With threshold theta, a fifth of the requests leaves at each exit except
// the last. The confidences are synthetic (package strait).
const (
	exitsOf = 4
	theta   = 0.8
	// the load if no request leaves early, as a share of one GPU's time
	overload = 1.4
)

// straitExits compares Strait alone, early exits alone, and Strait with early exits. With early exits, it compares two
// predictors: one expects that batches remain whole, the other expects that batches become smaller at the exits.
func straitExits(ns int64) ([]composition, error) {
	f, err := params.Of("l4")
	if err != nil {
		return nil, err
	}
	bed := strait.NewBed(f)
	models := strait.Twice(strait.Table1())
	for i := range models {
		models[i].Exits = exitsOf
	}
	run := func(system string, theta float32) func(context.Context, uint64) (map[string]float64, error) {
		return func(ctx context.Context, seed uint64) (map[string]float64, error) {
			o, err := bed.Run(ctx, strait.Run{
				System: system, Models: models, Theta: theta, Ns: ns, Seed: seed,
				Load: strait.Load{Name: "overload", Work: overload, High: 1},
			})
			if err != nil {
				return nil, err
			}
			m := map[string]float64{
				"high_violation_rate": o.Class[1].Violations(), "low_violation_rate": o.Class[0].Violations(),
				"high_p99_ns": o.Class[1].Latency(0.99), "low_p99_ns": o.Class[0].Latency(0.99),
			}
			left, all := int64(0), int64(0)
			for i, n := range o.Exits {
				all += n
				if i < len(o.Exits)-1 {
					left += n
				}
			}
			m["left_early"] = float64(left) / float64(max(1, all))
			var wrong []float64
			for _, f := range o.Finished[len(o.Finished)/2:] {
				wrong = append(wrong, math.Abs(float64(f.Expected-f.Latency))/float64(f.Latency))
			}
			if slices.Sort(wrong); len(wrong) > 0 {
				m["expected_error_p95"] = wrong[len(wrong)*95/100]
			}
			return m, nil
		}
	}
	return []composition{{"strait+exits/l4", []part{
		{"static", run("static", 0)},
		{"strait", run("strait", 0)},
		{"static, exits", run("static", theta)},
		{"strait, exits it does not expect", run("strait-deep", theta)},
		{"strait, exits", run("strait", theta)},
	}}}, nil
}
