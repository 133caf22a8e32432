// These measures compute Strait's claims (claims.yaml) and rows.

package strait

import (
	"errors"
	"math"
	"slices"

	"github.com/sluice-npu/sluice/host/experiments/frame"
	"github.com/sluice-npu/sluice/host/predict"
	"github.com/sluice-npu/sluice/host/sched"
)

// quiet returns frame.ErrQuiet if all requests of this priority were on time in a run.
func quiet(c *Class) error {
	if c.Requests > c.OnTime {
		return nil
	}
	return frame.ErrQuiet
}

// classed returns a measure of one priority in a run. Its arguments are load, system and priority. The measure returns
// ErrQuiet if there was no violation.
func classed(number func(c *Class) float64) func(*lab, frame.Args) (float64, error) {
	return func(l *lab, of frame.Args) (float64, error) {
		o, err := l.served(of[:2])
		if err != nil {
			return 0, err
		}
		c := &o.Class[of.Int(2)]
		return number(c), quiet(c)
	}
}

// odds returns the share of misses. Half a miss is added, so that the ratio of two shares is always defined.
func odds(c *Class) float64 {
	return (float64(c.Requests-c.OnTime) + 0.5) / (float64(c.Requests) + 1)
}

// learning runs the warmed-up predictor in another setting. It returns by how many points further training reduces an
// error quantile.
func (l *lab) learning(where string, q float64) (float64, error) {
	o, err := l.moved(where)
	if err != nil {
		return 0, err
	}
	m, err := l.warmed()
	if err != nil {
		return 0, err
	}
	return quantile(relativeErrors(o.Finished, still(m)), q) - quantile(relativeErrors(o.Finished, adaptive), q), nil
}

// linearOn returns the p95 error of the static linear model under other conditions, minus its p95 error on the
// validation set, in points.
func (l *lab) linearOn(where string) (float64, error) {
	m, validation, err := l.fit()
	if err != nil {
		return 0, err
	}
	gpu, high, models := "l4", 1.0, set1()
	switch where {
	case "rates":
		high = 3
	case "models":
		models = Twice(pick("vgg19", "yolov8n", "roberta"))
	case "gpu":
		gpu = "rtx3090"
	}
	o, err := l.run("fig2 "+where, gpu, Run{System: "strait", Models: models, Load: Load{Name: "fig2 " + where, Work: l.work(Intense), High: high}})
	if err != nil {
		return 0, err
	}
	return quantile(relativeErrors(o.Finished, linear(m)), 0.95) - quantile(relativeErrors(validation, linear(m)), 0.95), nil
}

// bias returns the median signed relative error, in per cent, of the batches with an overhead between "least" and
// "most".
func (l *lab) bias(least, most float64) (float64, error) {
	f, err := l.all()
	f = slices.DeleteFunc(f, func(f sched.Finished) bool { return f.Actual-1 < least || f.Actual-1 >= most })
	return quantile(ordered(f, signed), 0.5), err
}

// underestimated returns the median underestimate, in per cent, of the batches with an overhead above a quantile.
func (l *lab) underestimated(q float64) (float64, error) {
	v, err := overhead(l)
	if err != nil {
		return 0, err
	}
	b, err := l.bias(quantile(v, q)/100, math.Inf(1))
	return -b, err
}

// drift returns the change of the p99 error, in points, if the profile has random errors (appendix A.2).
func (l *lab) drift(system string) (float64, error) {
	var p99 [2]float64
	for i, s := range []string{"strait", system} {
		o, err := l.main(1, s, "evolving")
		if err != nil {
			return 0, err
		}
		p99[i] = quantile(relativeErrors(settled(o), adaptive), 0.99)
	}
	return math.Abs(p99[0] - p99[1]), nil
}

// wander returns the largest absolute median error, in per cent, of several windows of the settled batches.
func wander(o *Outcome) float64 {
	f := settled(o)
	const windows = 5
	most := 0.0
	for i := range windows {
		most = max(most, math.Abs(quantile(ordered(f[len(f)*i/windows:len(f)*(i+1)/windows], signed), 0.5)))
	}
	return most
}

// overhead returns the slowdown of kernels by sharing, in per cent of their time alone.
var overhead = overAll(func(f *sched.Finished) float64 { return 100 * (f.Actual - 1) })

// predictions return the errors of the predictors under the loads of section 5.2, and the slowdowns of kernels by
// sharing. All results are in per cent, in ascending order.
var predictions = map[string]func(*lab) ([]float64, error){
	"kernel/adaptive":                   func(l *lab) ([]float64, error) { f, err := l.all(); return relativeErrors(f, adaptive), err },
	"kernel/static-linear-equal-inputs": by(halves(predict.Fit), weighted),
	"kernel/equation-fitted-and-frozen": by(halves(predict.FitModel), still),
	"kernel/static-linear-as-published": by(published, linear),
	"latency/at-launch":                 latency(func(f *sched.Finished) int64 { return f.Expected }),
	"latency/explained":                 latency(func(f *sched.Finished) int64 { return f.Explained }),
	"overhead":                          overhead,
}

// metrics of a run; rows contain the first eight, and claims use all
var metrics = []frame.Metric[*Outcome]{
	{Name: "high_violation_rate", Of: func(o *Outcome) float64 { return o.Class[1].Violations() }},
	{Name: "low_violation_rate", Of: func(o *Outcome) float64 { return o.Class[0].Violations() }},
	{Name: "high_dropped", Of: func(o *Outcome) float64 { return float64(o.Class[1].Dropped) / float64(o.Class[1].Requests) }},
	{Name: "low_dropped", Of: func(o *Outcome) float64 { return float64(o.Class[0].Dropped) / float64(o.Class[0].Requests) }},
	{Name: "high_p50_ns", Of: func(o *Outcome) float64 { return o.Class[1].Latency(0.5) }},
	{Name: "high_p99_ns", Of: func(o *Outcome) float64 { return o.Class[1].Latency(0.99) }},
	{Name: "low_p50_ns", Of: func(o *Outcome) float64 { return o.Class[0].Latency(0.5) }},
	{Name: "low_p99_ns", Of: func(o *Outcome) float64 { return o.Class[0].Latency(0.99) }},
	{Name: "spread_ms", Of: func(o *Outcome) float64 { return (o.Class[1].Latency(0.95) - o.Class[1].Latency(0.05)) / 1e6 }},
	{Name: "low_dropped_early", Of: func(o *Outcome) float64 { // share of the violations
		return float64(o.Class[0].Dropped) / float64(o.Class[0].Requests-o.Class[0].OnTime)
	}},
	{Name: "wander", Of: wander},
}

// measures returns the measures of the claims and rows.
func measures() frame.Measures[*lab] {
	out := frame.Measures[*lab]{
		"missed LOAD SYSTEM priority": classed(func(c *Class) float64 { return 100 * c.Violations() }), // per cent
		"odds LOAD SYSTEM priority":   classed(odds),
		"learning WHERE quantile":     func(l *lab, of frame.Args) (float64, error) { return l.learning(of[0], of.Float(1)) },
		"linear WHERE":                func(l *lab, of frame.Args) (float64, error) { return l.linearOn(of[0]) },
		"bias least most":             func(l *lab, of frame.Args) (float64, error) { return l.bias(of.Float(0), of.Float(1)) },
		"underestimated quantile":     func(l *lab, of frame.Args) (float64, error) { return l.underestimated(of.Float(0)) },
		"drift share":                 func(l *lab, of frame.Args) (float64, error) { return l.drift("strait:drift=" + of[0]) },
		"error PREDICTION quantile": func(l *lab, of frame.Args) (float64, error) {
			v, err := predictions[of[0]](l)
			return quantile(v, of.Float(1)), err
		},
		"slowdown BESIDE NETWORK": func(l *lab, of frame.Args) (float64, error) { // p99
			o, err := l.pair(of[0])
			if err != nil {
				return 0, err
			}
			return quantile(slices.Sorted(slices.Values(o.Slow[of[1]])), 0.99), nil
		},
	}
	frame.AddMetrics(out, "LOAD SYSTEM", (*lab).served, metrics)
	for usage, measure := range out {
		out[usage] = func(l *lab, of frame.Args) (float64, error) {
			x, err := measure(l, of)
			if errors.Is(err, predict.ErrFit) { // the run is too short for a fit
				return math.NaN(), nil
			}
			return x, err
		}
	}
	return out
}

// numbers returns rows of every system under every load, and of the predictors' errors.
func numbers() (out []frame.Number) {
	var names []string
	for _, m := range metrics[:8] {
		names = append(names, m.Name)
	}
	for _, load := range []string{"high", "low", "uniform", "trace", "evolving"} {
		systems := []string{"temporal", "static", "reactive", "strait", "strait-null", "one-low", "no-cap"}
		if load == "evolving" {
			systems = []string{"strait", "strait-null", "one-low", "no-cap", "no-priority", "no-stream", "no-meet", "no-violate"}
		}
		for _, s := range systems {
			out = append(out, frame.Numbers("", frame.Row{Bench: "strait", Setting: "l4/" + load, Policy: s}, "1/"+load+", "+s, names...)...)
		}
	}
	for i, q := range []struct{ name, at string }{{"p50", "0.5"}, {"p95", "0.95"}, {"p99", "0.99"}} {
		for _, p := range []struct {
			policy    string
			published [3]float64 // 0: none
		}{
			{"kernel/adaptive", [3]float64{0, 0.296, 0.466}},
			{"kernel/static-linear-equal-inputs", [3]float64{}},
			{"kernel/equation-fitted-and-frozen", [3]float64{}},
			{"kernel/static-linear-as-published", [3]float64{}},
			{"latency/at-launch", [3]float64{0, 0.1895, 0.279}},
			{"latency/explained", [3]float64{0, 0.1895, 0.279}},
			{"overhead", [3]float64{}},
		} {
			r := frame.Row{Bench: "strait", Setting: "l4/prediction", Policy: p.policy, Metric: "error_" + q.name}
			if x := p.published[i]; x > 0 {
				r.Published = &x
			}
			out = append(out, frame.Number{Row: r, Ours: "over(error(" + p.policy + ", " + q.at + "), 100)"})
		}
	}
	return out
}
