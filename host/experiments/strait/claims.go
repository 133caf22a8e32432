// What the publication says, each as a number that the simulation gives too. Where it has one, a
// statement of a size holds within a quarter of it; one of a bound or of an order on its side of it.
// Differences are percentage points, ours paired by seed.

package strait

import (
	"fmt"
	"math"
	"slices"

	"github.com/sluice-npu/sluice/host/experiments/verdict"
	"github.com/sluice-npu/sluice/host/sched"
)

type value func(*lab) (float64, error)

// claim is a statement before it is looked at.
type claim struct {
	verdict.Claim
	of     value
	traced bool // it is about the load `trace`
}

// order is in place of a published number where there is none: an order, or a bound of ours.
var order = math.NaN()

func number(v float64) *float64 {
	if math.IsNaN(v) {
		return nil
	}
	return &v
}

func near(id, text string, published float64, of value) claim {
	return claim{Claim: verdict.Near(id, text, published), of: of}
}

func atMost(id, text string, published, most float64, of value) claim {
	return claim{Claim: verdict.Claim{ID: id, Text: text, Published: number(published), Least: math.Inf(-1), Most: most}, of: of}
}

func atLeast(id, text string, published, least float64, of value) claim {
	return claim{Claim: verdict.Claim{ID: id, Text: text, Published: number(published), Least: least, Most: math.Inf(1)}, of: of}
}

// more is an order: it holds where ours is on the right side of zero, whatever its size.
func more(id, text string, published float64, of value) claim {
	return atLeast(id, text, published, 1e-9, of)
}

func because(c claim, why string) claim { c.Why = why; return c }

func traced(c claim) claim { c.traced = true; return c }

// violations of a priority, in per cent.
func violations(o *Outcome, priority int) float64 { return 100 * o.Class[priority].Violations() }

type runs func(l *lab, system string) (*Outcome, error)

func main12(name string) runs {
	return func(l *lab, system string) (*Outcome, error) { return l.main(system, name) }
}

func node(name string) runs {
	return func(l *lab, system string) (*Outcome, error) { return l.node(system, name) }
}

func baselines() []string { return []string{"temporal", "static", "reactive"} }

// less is how many points fewer violations a system has than another; nothing where neither has any: what
// was never under pressure shows no difference.
func less(r runs, system, than string, priority int) value {
	return func(l *lab) (float64, error) {
		a, err := r(l, system)
		if err != nil {
			return 0, err
		}
		b, err := r(l, than)
		if err != nil {
			return 0, err
		}
		if quiet(priority, a, b) {
			return math.NaN(), nil
		}
		return violations(b, priority) - violations(a, priority), nil
	}
}

// quiet is whether no run has a violation of a priority.
func quiet(priority int, all ...*Outcome) bool {
	for _, o := range all {
		if c := &o.Class[priority]; c.Requests > c.OnTime {
			return false
		}
	}
	return true
}

// best is the least of several values, worst the largest.
func best(of ...value) value { return pickOf(math.Min, of) }

func worst(of ...value) value { return pickOf(math.Max, of) }

func pickOf(f func(a, b float64) float64, of []value) value {
	return func(l *lab) (float64, error) {
		out := math.NaN()
		for i, v := range of {
			x, err := v(l)
			if err != nil {
				return 0, err
			}
			if i == 0 {
				out = x
			} else {
				out = f(out, x)
			}
		}
		return out, nil
	}
}

// than is less against each baseline.
func than(r runs, system string, priority int, others ...string) (out []value) {
	for _, b := range others {
		out = append(out, less(r, system, b, priority))
	}
	return out
}

// odds is misses over all, with a half added, so that a ratio has a value where one side has none.
func odds(o *Outcome, priority int) float64 {
	c := &o.Class[priority]
	return (float64(c.Requests-c.OnTime) + 0.5) / (float64(c.Requests) + 1)
}

// removed is violations without a mechanism over those before it was removed, in the evolving workload.
func removed(without, before string, priority int) value {
	return func(l *lab) (float64, error) {
		a, err := l.main(without, "evolving")
		if err != nil {
			return 0, err
		}
		b, err := l.main(before, "evolving")
		if err != nil {
			return 0, err
		}
		if quiet(priority, a, b) {
			return math.NaN(), nil
		}
		return odds(a, priority) / odds(b, priority), nil
	}
}

// gain is how many points the error's quantile falls by learning where the warmed predictor was moved.
func gain(where string, q float64) value {
	return func(l *lab) (float64, error) {
		o, err := l.moved(where)
		if err != nil {
			return 0, err
		}
		m, err := l.warmed()
		if err != nil {
			return 0, err
		}
		return quantile(wrong(o.Finished, still(m)), q) - quantile(wrong(o.Finished, adaptive), q), nil
	}
}

// linearOn is how much the static linear model's p95 error exceeds that of its validation, in points.
func linearOn(of func(*lab) (*Outcome, error)) value {
	return func(l *lab) (float64, error) {
		m, validation, err := l.fit()
		if err != nil {
			return 0, err
		}
		o, err := of(l)
		if err != nil {
			return 0, err
		}
		return quantile(wrong(o.Finished, linear(m)), 0.95) - quantile(wrong(validation, linear(m)), 0.95), nil
	}
}

func elsewhere(key, gpu string, models func() []Model, high float64) func(*lab) (*Outcome, error) {
	return func(l *lab) (*Outcome, error) {
		return l.run(key, gpu, Run{System: "strait", Models: models(), Load: Load{Name: key, Work: Intense * l.work, High: high}})
	}
}

func set1() []Model { return Twice(pick("resnet50", "vit-b", "convnext-b")) }
func set2() []Model { return Twice(pick("vgg19", "yolov8n", "roberta")) }

func minus(a, b value) value {
	return func(l *lab) (float64, error) {
		x, err := a(l)
		if err != nil {
			return 0, err
		}
		y, err := b(l)
		return x - y, err
	}
}

// predicted is a quantile of the predictor's errors over section 5.2's loads.
func predicted(q float64) value {
	return func(l *lab) (float64, error) {
		f, err := l.all()
		return quantile(wrong(f, adaptive), q), err
	}
}

// straight is by how much a quantile of the errors of the linear model with equal inputs exceeds that of
// the adaptive one.
func straight(q float64) value {
	return func(l *lab) (float64, error) {
		m, err := l.even()
		if err != nil {
			return 0, err
		}
		f, err := l.all()
		return quantile(wrong(f, weighted(m)), q) - quantile(wrong(f, adaptive), q), err
	}
}

func overhead(q float64) value {
	return func(l *lab) (float64, error) {
		v, err := l.overhead()
		return quantile(v, q), err
	}
}

// bias is the median of signed relative errors, in per cent, of the batches with an overhead in a range.
func bias(least, most float64) value {
	return func(l *lab) (float64, error) {
		f, err := l.all()
		var v []float64
		for i := range f {
			if o := f[i].Actual - 1; o >= least && o < most {
				v = append(v, 100*(f[i].Predicted/f[i].Actual-1))
			}
		}
		slices.Sort(v)
		return quantile(v, 0.5), err
	}
}

// beside is by how many points more of ResNet-50's requests are on time beside one network than beside
// another (figure 1).
func beside(network, other string) value {
	return less(func(l *lab, network string) (*Outcome, error) { return l.pair(network) }, network, other, 1)
}

// tail is the p99 of a network's slowdown there.
func tail(network, of string) value {
	return func(l *lab) (float64, error) {
		o, err := l.pair(network)
		if err != nil {
			return 0, err
		}
		v := slices.Clone(o.Slow[of])
		slices.Sort(v)
		return quantile(v, 0.99), nil
	}
}

// dropped is the share of the violations of low priority under Strait that were given up early.
func dropped(name string) value {
	return func(l *lab) (float64, error) {
		o, err := l.main("strait", name)
		if err != nil {
			return 0, err
		}
		c := &o.Class[0]
		return float64(c.Dropped) / float64(c.Requests-c.OnTime), nil
	}
}

func spread(system, name string) value {
	return func(l *lab) (float64, error) {
		o, err := l.main(system, name)
		if err != nil {
			return 0, err
		}
		return (o.Class[1].Latency(0.95) - o.Class[1].Latency(0.05)) / 1e6, nil
	}
}

// drift is by how many points the p99 error changes when the profile is off by up to 15 % (appendix A.2).
func drift(l *lab) (float64, error) {
	x, err := l.load("evolving")
	if err != nil {
		return 0, err
	}
	at := func(by float64) (float64, error) {
		o, err := l.run(fmt.Sprint("drift ", by), "l4", Run{System: "strait", Models: Twice(Table1()), Load: x, Drift: by})
		if err != nil {
			return 0, err
		}
		return quantile(wrong(settled(o), adaptive), 0.99), nil
	}
	a, err := at(0)
	if err != nil {
		return 0, err
	}
	b, err := at(0.15)
	return math.Abs(a - b), err
}

// capped is how many points more violations of low priority a cap makes that begins lower than another.
func capped(low, than float64) value {
	return func(l *lab) (float64, error) {
		x, err := l.load("evolving")
		if err != nil {
			return 0, err
		}
		var o [2]*Outcome
		for i, at := range []float64{than, low} {
			if o[i], err = l.run(fmt.Sprint("cap ", at), "l4", Run{System: "strait", Models: Twice(Table1()), Load: x, Low: at}); err != nil {
				return 0, err
			}
		}
		if quiet(0, o[:]...) {
			return math.NaN(), nil
		}
		return violations(o[1], 0) - violations(o[0], 0), nil
	}
}

// wander is the largest median error of a window of the trace's run, of either sign, in per cent.
func wander(l *lab) (float64, error) {
	o, err := l.main("strait", "trace")
	if err != nil {
		return 0, err
	}
	f := settled(o)
	const windows = 5
	out := math.NaN()
	for i := range windows {
		var v []float64
		for k := len(f) * i / windows; k < len(f)*(i+1)/windows; k++ {
			v = append(v, 100*(f[k].Predicted/f[k].Actual-1))
		}
		slices.Sort(v)
		if m := math.Abs(quantile(v, 0.5)); i == 0 || m > out {
			out = m
		}
	}
	return out, nil
}

func pressure(high float64) runs {
	return func(l *lab, system string) (*Outcome, error) { return l.xsched(system, high) }
}

// claims are Strait's statements.
func claims() []claim {
	const (
		caps   = "two batches of low priority use more than the cap of some resource here (synthetic kernels in float32, no caches: each alone takes 50 to 80 % of the DRAM or of the multiply-add pipes), so that they hardly ever share a GPU"
		ranges = "on one GPU; the publication's range is over its loads and baselines"
		queue  = "the simulated GPU places blocks of high priority first, also of a kernel under way"
	)
	var out []claim
	for _, name := range []string{"high", "low", "uniform"} {
		r := main12(name)
		out = append(out,
			atLeast("fig5/"+name+"/high", "fewer violations of high priority than every baseline, by 1.02 to 11.18 points", 1.02, 1.02, best(than(r, "strait", 1, baselines()...)...)),
			because(atMost("fig5/"+name+"/high-most", "and by 11.18 at most", 11.18, 11.18, worst(than(r, "strait", 1, baselines()...)...)), ranges),
			because(atLeast("fig5/"+name+"/low", "0.61 points more violations of low priority than the best baseline at worst", -0.61, -0.61, best(than(r, "strait", 0, baselines()...)...)), caps),
			more("fig5/"+name+"/temporal-low", "temporal sharing has the most violations of low priority", order, best(than(r, "static", 0, "temporal")[0], than(r, "reactive", 0, "temporal")[0], than(r, "strait", 0, "temporal")[0])),
			more("fig5/"+name+"/temporal-spread", "but latencies of high priority within a narrower range than static sharing, ms between the 5th and 95th percentile", order, minus(spread("static", name), spread("temporal", name))),
			more("fig5/"+name+"/strait-spread", "Strait's too", order, minus(spread("static", name), spread("strait", name))),
			atLeast("fig5/"+name+"/static-low", "static sharing has no more violations of low priority than reactive sharing and Strait", order, 0, best(less(r, "static", "reactive", 0), less(r, "static", "strait", 0))),
			because(more("fig5/"+name+"/reactive-low", "reactive sharing has the most violations of low priority of all that share space", order, best(less(r, "static", "reactive", 0), less(r, "strait", "reactive", 0))), caps),
			near("5.2/"+name+"/dropped", "two thirds of Strait's violations of low priority were dropped early", 0.667, dropped(name)))
	}
	out = append(out,
		more("fig5/reactive-gain", "reactive sharing gains over static sharing when low priority dominates (up to 10.02 points), more than when high priority does (0.4)", 9.62, minus(less(main12("low"), "reactive", "static", 1), less(main12("high"), "reactive", "static", 1))),
		atLeast("fig5/node/high", "four GPUs: fewer violations of high priority than every baseline", 1.02, 1.02, best(than(node("low"), "strait", 1, baselines()...)...)),
		traced(more("trace/high", "under a production trace: fewer violations of high priority than every baseline", 1.02, best(than(main12("trace"), "strait", 1, baselines()...)...))),
		traced(atMost("fig7c/median", "and the median error stays near 0 %", 0, 5, wander)))

	out = append(out,
		more("fig6a/high", "pressure of high priority: fewer violations of high priority than XSched (2.07 - 1.43 points)", 0.64, less(pressure(6), "strait-now", "xsched", 1)),
		more("fig6a/low", "and of low priority (29.89 - 1.20)", 28.69, less(pressure(6), "strait-now", "xsched", 0)),
		because(more("fig6b/high", "pressure of low priority: XSched has fewer violations of high priority (0.69 - 0.043)", 0.647, less(pressure(0.2), "xsched", "strait-now", 1)), queue),
		more("fig6b/low", "but more of low priority (11.41 - 4.27)", 7.14, less(pressure(0.2), "strait-now", "xsched", 0)),
		more("fig6a/high/4", "XSched with four streams for each network: fewer violations of high priority than it", 0.64, less(pressure(6), "strait-now", "xsched-4", 1)),
		more("fig6a/low/4", "and of low priority", 28.69, less(pressure(6), "strait-now", "xsched-4", 0)),
		because(more("fig6b/high/4", "pressure of low priority: XSched has fewer violations of high priority", 0.647, less(pressure(0.2), "xsched-4", "strait-now", 1)), queue),
		more("fig6b/low/4", "but more of low priority", 7.14, less(pressure(0.2), "strait-now", "xsched-4", 0)))

	out = append(out,
		atMost("fig7a/kernel-p95", "error of predicted kernel times, p95, per cent", 29.6, 29.6, predicted(0.95)),
		atMost("fig7a/kernel-p99", "p99", 46.6, 46.6, predicted(0.99)),
		atMost("fig7a/latency-p95", "error of predicted latencies as expected at the launch, p95, per cent", 18.95, 18.95, func(l *lab) (float64, error) {
			v, err := l.latency(func(f *sched.Finished) int64 { return f.Expected })
			return quantile(v, 0.95), err
		}),
		atMost("fig7a/latency-p99", "p99", 27.9, 27.9, func(l *lab) (float64, error) {
			v, err := l.latency(func(f *sched.Finished) int64 { return f.Expected })
			return quantile(v, 0.99), err
		}),
		atMost("fig7a/explained-p95", "error of latencies as explained at the end by what ran beside, p95, per cent", 18.95, 18.95, func(l *lab) (float64, error) {
			v, err := l.latency(func(f *sched.Finished) int64 { return f.Explained })
			return quantile(v, 0.95), err
		}),
		atMost("fig7a/explained-p99", "p99", 27.9, 27.9, func(l *lab) (float64, error) {
			v, err := l.latency(func(f *sched.Finished) int64 { return f.Explained })
			return quantile(v, 0.99), err
		}),
		near("fig7a/overhead-p99", "what sharing adds to kernel times, p99, per cent", 245, overhead(0.99)),
		near("fig7a/overhead-most", "and at most", 682, overhead(1)),
		more("5.4/small", "interference below 60 % is overestimated (median of signed errors, per cent)", order, bias(0.05, 0.6)),
		more("5.4/long-tail", "the largest interference is underestimated (p95 of it and more)", order, func(l *lab) (float64, error) {
			at, err := overhead(0.95)(l)
			if err != nil {
				return 0, err
			}
			b, err := bias(at/100, math.Inf(1))(l)
			return -b, err
		}),
		more("fig2/linear/as-published", "a static linear model (as published: of three of the six models, by what ran at the launch) is worse than the adaptive one, p95 points", order, func(l *lab) (float64, error) {
			m, _, err := l.fit()
			if err != nil {
				return 0, err
			}
			f, err := l.all()
			return quantile(wrong(f, linear(m)), 0.95) - quantile(wrong(f, adaptive), 0.95), err
		}),
		more("fig2/linear/equal-inputs/p95", "and so with equal inputs (of all models, first half of the runs, time-weighted), p95 points", order, straight(0.95)),
		more("fig2/linear/equal-inputs/p99", "p99", order, straight(0.99)),
		atMost("fig2/rates", "the static linear model at other rates: as in its validation, p95 within 5 points", order, 5, linearOn(elsewhere("fig2 rates", "l4", set1, 3))),
		more("fig2/models", "worse on other models", order, linearOn(elsewhere("fig2 models", "l4", set2, 1))),
		more("fig2/gpu", "and on another GPU (RTX 3090 for A10G)", order, linearOn(elsewhere("fig2 gpu", "rtx3090", set1, 1))),
		more("fig2/gpu-most", "there worst of all", order, minus(linearOn(elsewhere("fig2 gpu", "rtx3090", set1, 1)), linearOn(elsewhere("fig2 models", "l4", set2, 1)))),
		more("fig7b/bursts", "learning gains under bursts, p99 points", 3, gain("bursts", 0.99)),
		more("fig7b/models", "on other models, p95 points", 7, gain("models", 0.95)),
		more("fig7b/ampere", "on an Ampere GPU, p99 points (RTX 3090 for A10G)", 7.2, gain("ampere", 0.99)),
		more("fig7b/hopper", "on a Hopper GPU, p99 points (H200 for H100)", 8, gain("hopper", 0.99)),
		atMost("fig9/drift", "a profile that is off by 15 % changes the p99 error by less than 2 points", 2, 2, drift))

	out = append(out,
		more("fig1/vgg", "ResNet-50 meets fewer deadlines beside VGG-19 at two thirds of the rate than beside YOLOv8n, points", order, beside("yolov8n", "vgg19")),
		more("fig1/roberta", "and fewer beside RoBERTa at a third than beside VGG-19", order, beside("vgg19", "roberta")),
		atLeast("fig1/tail", "kernels beside one other batch slow down 3.45 times and more (p99, beside RoBERTa)", 3.45, 3.45, tail("roberta", "resnet50")),
		more("fig1/worse-than-low", "ResNet-50's p99 slowdown exceeds that of RoBERTa of low priority", order, minus(tail("roberta", "resnet50"), tail("roberta", "roberta"))),
		because(more("fig8/50", "a cap that begins at 50 % penalises low priority, points", order, capped(0.5, 0.75)), caps))

	return append(out,
		claim{Claim: verdict.Claim{ID: "fig10/priority/high", Text: "ablation, each without those before: no priority in scheduling: high priority, times", Published: number(1), Least: 0.8, Most: 1.25}, of: removed("no-priority", "strait", 1)},
		because(near("fig10/stream/high", "no stream priority: high priority, times", 2.68, removed("no-stream", "no-priority", 1)), queue),
		near("fig10/meet/high", "no check that the batch ends in time: high priority, times", 1.35, removed("no-meet", "no-stream", 1)),
		near("fig10/meet/low", "low priority, times", 1.42, removed("no-meet", "no-stream", 0)),
		near("fig10/violate/high", "nobody looked after, no cap: high priority, times", 18.3, removed("no-violate", "no-meet", 1)),
		atMost("fig10/violate/low", "low priority gains, times", order, 1, removed("no-violate", "no-meet", 0)),
		atLeast("fig10/most", "which is the most critical part for high priority", order, 1, func(l *lab) (float64, error) {
			a, err := removed("no-violate", "no-meet", 1)(l)
			if err != nil {
				return 0, err
			}
			b, err := worst(removed("no-meet", "no-stream", 1), removed("no-stream", "no-priority", 1), removed("no-priority", "strait", 1))(l)
			return a / b, err
		}))
}
