// The probes of Strait's claims (claims.yaml). Differences are percentage points, ours paired by seed.

package strait

import (
	"errors"
	"math"
	"slices"

	"github.com/sluice-npu/sluice/host/experiments/frame"
	"github.com/sluice-npu/sluice/host/predict"
	"github.com/sluice-npu/sluice/host/sched"
)

type value = frame.Probe[*lab]

// violations of a priority, in per cent.
func violations(o *Outcome, priority int) float64 { return 100 * o.Class[priority].Violations() }

// runs are the runs of a load by system.
type runs func(system string) func(*lab) (*Outcome, error)

// on is the runs of a load on a number of GPUs.
func on(gpus int, name string) runs {
	return func(system string) func(*lab) (*Outcome, error) {
		return func(l *lab) (*Outcome, error) { return l.main(gpus, system, name) }
	}
}

func baselines() []string { return []string{"temporal", "static", "reactive"} }

// less is the number of points by which a system has fewer violations than another; quiet if neither has any.
func less(r runs, system, than string, priority int) value {
	return frame.OfTwo(r(system), r(than), func(a, b *Outcome) (float64, error) {
		return violations(b, priority) - violations(a, priority), quiet(priority, a, b)
	})
}

// quiet is frame.ErrQuiet where no run has a violation of a priority.
func quiet(priority int, all ...*Outcome) error {
	for _, o := range all {
		if c := &o.Class[priority]; c.Requests > c.OnTime {
			return nil
		}
	}
	return frame.ErrQuiet
}

// than is less against each baseline.
func than(r runs, system string, priority int, others ...string) (out []value) {
	for _, b := range others {
		out = append(out, less(r, system, b, priority))
	}
	return out
}

// odds is the share of misses with a half added, so that a ratio is defined if one side has none.
func odds(o *Outcome, priority int) float64 {
	c := &o.Class[priority]
	return (float64(c.Requests-c.OnTime) + 0.5) / (float64(c.Requests) + 1)
}

// removed is the ratio of violations without a mechanism to those with it, in the evolving workload.
func removed(without, before string, priority int) value {
	return frame.OfTwo(on(1, "evolving")(without), on(1, "evolving")(before), func(a, b *Outcome) (float64, error) {
		return odds(a, priority) / odds(b, priority), quiet(priority, a, b)
	})
}

// gain is the number of points by which learning reduces a quantile of the error after the warmed predictor moved.
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
		return quantile(relativeErrors(o.Finished, still(m)), q) - quantile(relativeErrors(o.Finished, adaptive), q), nil
	}
}

// linearOn is the number of points by which the static linear model's p95 error exceeds its validation error.
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
		return quantile(relativeErrors(o.Finished, linear(m)), 0.95) - quantile(relativeErrors(validation, linear(m)), 0.95), nil
	}
}

func elsewhere(key, gpu string, models func() []Model, high float64) func(*lab) (*Outcome, error) {
	return func(l *lab) (*Outcome, error) {
		return l.run(key, gpu, Run{System: "strait", Models: models(), Load: Load{Name: key, Work: Intense * l.work, High: high}})
	}
}

func set1() []Model { return Twice(pick("resnet50", "vit-b", "convnext-b")) }
func set2() []Model { return Twice(pick("vgg19", "yolov8n", "roberta")) }

// predicted is a quantile of the predictor's errors over section 5.2's loads.
func predicted(q float64) value {
	return frame.Of((*lab).all, func(f []sched.Finished) float64 { return quantile(relativeErrors(f, adaptive), q) })
}

// straight is the difference of a quantile of the errors between the linear model with equal inputs and the adaptive one.
func straight(q float64) value { return worse(by((*lab).even, weighted), q) }

// worse is the difference of a quantile of the errors between a model and the adaptive one.
func worse(of func(*lab) ([]float64, error), q float64) value {
	return frame.Minus(frame.Of(of, func(v []float64) float64 { return quantile(v, q) }), predicted(q))
}

func overhead(q float64) value {
	return frame.Of((*lab).overhead, func(v []float64) float64 { return quantile(v, q) })
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

// beside is the number of points by which more of ResNet-50's requests are on time with one network on the GPU than with
// another (figure 1).
func beside(network, other string) value { return less(pair, network, other, 1) }

// pair runs ResNet-50 and another network.
func pair(network string) func(*lab) (*Outcome, error) {
	return func(l *lab) (*Outcome, error) { return l.pair(network) }
}

// tail is the p99 of a network's slowdown in such a pair.
func tail(network, of string) value {
	return frame.Of(pair(network), func(o *Outcome) float64 {
		v := slices.Clone(o.Slow[of])
		slices.Sort(v)
		return quantile(v, 0.99)
	})
}

// dropped is the share of Strait's violations of low priority that were dropped before their start.
func dropped(name string) value {
	return frame.Of(on(1, name)("strait"), func(o *Outcome) float64 {
		c := &o.Class[0]
		return float64(c.Dropped) / float64(c.Requests-c.OnTime)
	})
}

func spread(r runs, system string) value {
	return frame.Of(r(system), func(o *Outcome) float64 { return (o.Class[1].Latency(0.95) - o.Class[1].Latency(0.05)) / 1e6 })
}

// drift is the change of the p99 error in points if the profile is wrong by up to 15 % (appendix A.2).
func drift(l *lab) (float64, error) {
	p99 := func(o *Outcome) float64 { return quantile(relativeErrors(settled(o), adaptive), 0.99) }
	x, err := frame.Minus(frame.Of(on(1, "evolving")("strait"), p99), frame.Of(evolved("drift", Run{Drift: 0.15}), p99))(l)
	return math.Abs(x), err
}

// evolved is Strait in the evolving workload, with something else.
func evolved(key string, r Run) func(*lab) (*Outcome, error) {
	return func(l *lab) (o *Outcome, err error) {
		r := r
		r.System, r.Models = "strait", Twice(Table1())
		if r.Load, err = l.load("evolving"); err != nil {
			return nil, err
		}
		return l.run(key, "l4", r)
	}
}

// capped is the number of points that a lower initial cap adds to the violations of low priority.
func capped(low float64) value {
	return frame.OfTwo(evolved("cap", Run{Low: low}), on(1, "evolving")("strait"), func(a, b *Outcome) (float64, error) {
		return violations(a, 0) - violations(b, 0), quiet(0, a, b)
	})
}

// wander is the largest absolute median error of a window of the trace's run, in per cent.
func wander(o *Outcome) float64 {
	f := settled(o)
	const windows = 5
	most := 0.0
	for i := range windows {
		var v []float64
		for k := len(f) * i / windows; k < len(f)*(i+1)/windows; k++ {
			v = append(v, 100*(f[k].Predicted/f[k].Actual-1))
		}
		slices.Sort(v)
		most = max(most, math.Abs(quantile(v, 0.5)))
	}
	return most
}

func pressure(high float64) runs {
	return func(system string) func(*lab) (*Outcome, error) {
		return func(l *lab) (*Outcome, error) { return l.xsched(system, high) }
	}
}

// probes returns the probe of each claim.
func probes() map[string]frame.Sampler[*lab] {
	minus, least := frame.Minus[*lab], frame.Lowest[*lab]
	out := map[string]frame.Sampler[*lab]{"trace/high": least(than(on(1, "trace"), "strait", 1, baselines()...)...)}
	for _, name := range []string{"high", "low", "uniform"} {
		for fig, r := range map[string]runs{"fig5/": on(1, name), "fig5/node/": on(4, name)} {
			id := fig + name + "/"
			out[id+"high"] = least(than(r, "strait", 1, baselines()...)...)
			out[id+"high-most"] = frame.Highest(than(r, "strait", 1, baselines()...)...)
			out[id+"low"] = least(than(r, "strait", 0, baselines()...)...)
			out[id+"temporal-low"] = least(less(r, "static", "temporal", 0), less(r, "reactive", "temporal", 0), less(r, "strait", "temporal", 0))
			out[id+"static-low"] = least(less(r, "static", "reactive", 0), less(r, "static", "strait", 0))
			out[id+"reactive-low"] = least(less(r, "static", "reactive", 0), less(r, "strait", "reactive", 0))
			out[id+"temporal-spread"] = minus(spread(r, "static"), spread(r, "temporal"))
			out[id+"strait-spread"] = minus(spread(r, "static"), spread(r, "strait"))
		}
		out["5.2/"+name+"/dropped"] = dropped(name)
	}
	out["fig5/reactive-gain"] = minus(less(on(1, "low"), "reactive", "static", 1), less(on(1, "high"), "reactive", "static", 1))
	out["fig7c/median"] = frame.Of(on(1, "trace")("strait"), wander)

	for _, x := range []struct{ suffix, xsched string }{{"", "xsched"}, {"/4", "xsched-4"}} {
		out["fig6a/high"+x.suffix], out["fig6a/low"+x.suffix] = less(pressure(6), "strait-now", x.xsched, 1), less(pressure(6), "strait-now", x.xsched, 0)
		out["fig6b/high"+x.suffix], out["fig6b/low"+x.suffix] = less(pressure(0.2), x.xsched, "strait-now", 1), less(pressure(0.2), "strait-now", x.xsched, 0)
	}

	for q, at := range map[string]float64{"p95": 0.95, "p99": 0.99} {
		out["fig7a/kernel-"+q] = predicted(at)
		out["fig7a/latency-"+q] = latencyError(at, func(f *sched.Finished) int64 { return f.Expected })
		out["fig7a/explained-"+q] = latencyError(at, func(f *sched.Finished) int64 { return f.Explained })
		out["fig2/linear/equal-inputs/"+q] = straight(at)
	}
	out["fig7a/overhead-p99"], out["fig7a/overhead-most"] = overhead(0.99), overhead(1)
	out["5.4/small"] = bias(0.05, 0.6)
	out["5.4/long-tail"] = value(func(l *lab) (float64, error) {
		at, err := overhead(0.95)(l)
		if err != nil {
			return 0, err
		}
		b, err := bias(at/100, math.Inf(1))(l)
		return -b, err
	})
	out["fig2/linear/as-published"] = worse(by(published, linear), 0.95)
	models, gpu := linearOn(elsewhere("fig2 models", "l4", set2, 1)), linearOn(elsewhere("fig2 gpu", "rtx3090", set1, 1))
	out["fig2/rates"], out["fig2/models"] = linearOn(elsewhere("fig2 rates", "l4", set1, 3)), models
	out["fig2/gpu"], out["fig2/gpu-most"] = gpu, minus(gpu, models)
	out["fig7b/bursts"], out["fig7b/models"] = gain("bursts", 0.99), gain("models", 0.95)
	out["fig7b/ampere"], out["fig7b/hopper"] = gain("ampere", 0.99), gain("hopper", 0.99)
	out["fig9/drift"], out["fig8/50"] = value(drift), capped(0.5)
	out["fig1/vgg"], out["fig1/roberta"] = beside("yolov8n", "vgg19"), beside("vgg19", "roberta")
	out["fig1/tail"], out["fig1/worse-than-low"] = tail("roberta", "resnet50"), minus(tail("roberta", "resnet50"), tail("roberta", "roberta"))

	priority, stream := removed("no-priority", "strait", 1), removed("no-stream", "no-priority", 1)
	meet, violate := removed("no-meet", "no-stream", 1), removed("no-violate", "no-meet", 1)
	out["fig10/priority/high"], out["fig10/stream/high"], out["fig10/meet/high"], out["fig10/violate/high"] = priority, stream, meet, violate
	out["fig10/meet/low"], out["fig10/violate/low"] = removed("no-meet", "no-stream", 0), removed("no-violate", "no-meet", 0)
	out["fig10/most"] = frame.Ratio(violate, frame.Highest(meet, stream, priority))
	for id, s := range out {
		of, one := s.(value)
		if !one {
			continue
		}
		out[id] = value(func(l *lab) (float64, error) {
			x, err := of(l)
			if errors.Is(err, predict.ErrFit) { // too short a run to fit a line to
				return math.NaN(), nil
			}
			return x, err
		})
	}
	return out
}

func latencyError(q float64, of func(*sched.Finished) int64) value {
	return frame.Of(func(l *lab) ([]float64, error) { return l.latency(of) }, func(v []float64) float64 { return quantile(v, q) })
}
