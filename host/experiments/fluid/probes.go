// The probes of the publication's claims (claims.yaml), each for one seed.

package fluid

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math"

	"github.com/sluice-npu/sluice/host/experiments/frame"
)

//go:embed claims.yaml
var book []byte

// lab is a suite's runs of one seed.
type lab struct {
	ctx  context.Context
	s    *Suite
	seed uint64
}

type (
	probe    = frame.Probe[*lab]
	samplers = map[string]frame.Sampler[*lab]
)

// errNotRun is the error of a claim about a run that the suite does not have.
var errNotRun = errors.New("not run")

// at is a metric of a run. A mapping that is not the policy's own follows its name in brackets.
func at(set Setting, policy, metric string) probe {
	v := variantOf(policy)
	return func(l *lab) (float64, error) {
		m := l.s.of(set, v, l.seed)
		if m == nil {
			return 0, fmt.Errorf("%s under %s: %w", set, policy, errNotRun)
		}
		for _, n := range numbers {
			if n.Name == metric {
				return n.Of(m), nil
			}
		}
		return 0, fmt.Errorf("there is no metric %q", metric)
	}
}

// each makes a probe for each setting.
func each(sets []Setting, of func(Setting) probe) (out []probe) {
	for _, s := range sets {
		out = append(out, of(s))
	}
	return out
}

// rising are the ratios of a metric from one policy to the next. If the least is above one, every policy exceeds the one before.
func rising(set Setting, metric string, policies ...string) (out []probe) {
	for i := range policies[1:] {
		out = append(out, frame.Over(at(set, policies[i+1], metric), at(set, policies[i], metric)))
	}
	return out
}

func one(*lab) (float64, error) { return 1, nil }

func scaled(of probe, by float64) probe {
	return func(l *lab) (float64, error) { x, err := of(l); return x * by, err }
}

// ofModel is a number that follows from a model without a run.
func ofModel(k ModelKey, of func(*Model) float64) probe {
	return func(l *lab) (float64, error) {
		m, err := l.s.models.Model(l.ctx, k)
		if err != nil {
			return 0, err
		}
		return of(m), nil
	}
}

// probes returns the probe of each claim.
func probes() samplers {
	out := samplers{}
	table2(out)
	for _, f := range []struct {
		id, board string
		base      Setting
		rates     []float64
		from, to  float64
		slos      []Setting
	}{{"fig7", "zc706", fig7Base, fig7Rates, 5, 18, fig9Left}, {"fig8", "zcu104", fig8Base, fig8Rates, 25, 35, fig9Right}} {
		traffic(out, f.id+"/", along(f.base, f.rates...))
		var middle []float64
		for _, r := range f.rates {
			if r >= f.from && r <= f.to {
				middle = append(middle, r)
			}
		}
		utilisation(out, f.id+"/utilisation/", along(f.base, middle...))
		slosOf(out, "fig9/"+f.board+"/", f.slos)
	}
	calls(out)
	tables(out)
	// The abstract's two numbers under one reading: geometric mean over the settings of figures 7 and 8, and all
	// that is late over the settings of figure 9, against LazyBatching.
	sweep := append(along(fig7Base, fig7Rates...), along(fig8Base, fig8Rates...)...)
	log := func(p probe) probe { return func(l *lab) (float64, error) { x, err := p(l); return math.Log(x), err } }
	mean := frame.Mean(each(sweep, func(s Setting) probe { return log(frame.Over(at(s, Baseline, "avg_ns"), at(s, "fluid", "avg_ns"))) })...)
	out["abstract/latency"] = probe(func(l *lab) (float64, error) { x, err := mean(l); return math.Exp(x), err })
	late := func(policy string) probe {
		return frame.Mean(each(append(fig9Left[:len(fig9Left):len(fig9Left)], fig9Right...), func(s Setting) probe { return at(s, policy, "violation_rate") })...)
	}
	out["abstract/violations"] = frame.Over(late(Baseline), late("fluid"))
	return out
}

func table2(out samplers) {
	for _, set := range stringent {
		id := "table2/" + set.String() + "/"
		for _, p := range append([]string{"fluid"}, lazies...) {
			out[id+p+"/avg_ms"], out[id+p+"/violations"] = scaled(at(set, p, "avg_ns"), 1e-6), at(set, p, "violation_rate")
		}
		for _, lazy := range lazies {
			ratio := frame.Over(at(set, lazy, "avg_ns"), at(set, "fluid", "avg_ns"))
			points := frame.Minus(at(set, lazy, "violation_rate"), at(set, "fluid", "violation_rate"))
			out[id+"ratio/"+lazy], out[id+"points/"+lazy] = ratio, points
			out[id+"own/"+lazy] = frame.Over(at(set, lazy+"["+MappingROwn+"]", "avg_ns"), at(set, "fluid", "avg_ns"))
			out[id+"order/"+lazy] = frame.Lowest(points, frame.Minus(ratio, one))
		}
		// The hardware under LazyBatching's scheduler, then the scheduler on equal hardware.
		equal := Baseline + "[" + MappingFluid + "]"
		out[id+"hardware"] = frame.Over(at(set, Baseline, "avg_ns"), at(set, equal, "avg_ns"))
		out[id+"scheduler"] = frame.Over(at(set, equal, "avg_ns"), at(set, "fluid", "avg_ns"))
	}
	for _, gbs := range []float64{ServingBandwidth("zcu104"), NominalBandwidth("zcu104")} {
		out[fmt.Sprintf("batch16/%gGBps", gbs)] = ofModel(ModelKey{Network: "resnet50", Board: "zcu104", Mapping: MappingFluid, Bandwidth: gbs}, func(m *Model) float64 {
			if m.Double == 0 {
				return math.NaN()
			}
			return float64(m.Double) / 1e6
		})
	}
}

// traffic adds the claims about low and high arrival rates.
func traffic(out samplers, id string, sets []Setting) {
	low, high := sets[0], sets[len(sets)-1]
	out[id+"rate"] = frame.Highest(each(sets, func(s Setting) probe { return at(s, "fluid", "rate") })...)
	out[id+"low/similar"] = frame.Over(at(low, "fluid", "avg_ns"), at(low, "serial", "avg_ns"))
	for _, f := range []string{"fc", "r"} {
		s, m, l := f+"-adaptb-s", f+"-adaptb-m", f+"-adaptb-l"
		out[id+"low/"+f] = frame.Lowest(rising(low, "avg_ns", "serial", s, m, l)...)
		best := func(on string) frame.Sampler[*lab] {
			return frame.Lowest(at(high, s+on, "avg_ns"), at(high, m+on, "avg_ns"), at(high, l+on, "avg_ns"))
		}
		itself, equal := best("["+f+own+"]"), best("["+MappingFluid+"]")
		fluid, id := at(high, "fluid", "avg_ns"), id+"high/"+f
		out[id], out[id+"/own"] = frame.Ratio(best(""), fluid), frame.Ratio(itself, fluid)
		out[id+"/hardware"], out[id+"/scheduler"] = frame.Ratio(itself, equal), frame.Ratio(equal, fluid)
	}
	out[id+"high/plateau"] = frame.Lowest(rising(high, "rate", "fc-adaptb-l", "r-adaptb-l", "fluid")...)
	var gains []probe
	for _, s := range sets {
		if s.Rate > 0.6*high.Rate { // above 15 of 25 requests a second
			gains = append(gains, rising(s, "avg_ns", "fluid", "serial")[0], rising(s, "p99_ns", "fluid", "serial")[0])
		}
	}
	out[id+"high/serial"] = frame.Lowest(gains...)
	out[id+"high/busy"], out[id+"high/mac-util"] = at(high, "fluid", "busy"), at(high, "fluid", "mac_util")
}

// utilisation is the mean gain over serial, for each meaning of the word.
func utilisation(out samplers, id string, sets []Setting) {
	for name, m := range map[string]struct {
		base, metric string
		relative     bool
	}{
		"serial/mac-util/relative":    {"serial", "mac_util", true},
		"serial[r]/mac-util/relative": {"serial[r]", "mac_util", true},
		"serial/mac-util/points":      {"serial", "mac_util", false},
		"serial[r]/mac-util/points":   {"serial[r]", "mac_util", false},
		"serial/busy/points":          {"serial", "busy", false},
		"serial/peak-share/relative":  {"serial", "peak_share", true},
	} {
		out[id+name] = frame.Mean(each(sets, func(s Setting) probe {
			a, b := at(s, m.base, m.metric), at(s, "fluid", m.metric)
			if !m.relative {
				return frame.Minus(b, a)
			}
			return frame.Over(frame.Minus(b, a), a)
		})...)
	}
}

// slosOf adds the claims about figure 9.
func slosOf(out samplers, id string, sets []Setting) {
	relaxed := sets[len(sets)-1]
	out[id+"serial"] = frame.Highest(each(sets, func(s Setting) probe {
		return frame.Minus(at(s, "fluid", "violation_rate"), at(s, "serial", "violation_rate"))
	})...)
	out[id+"none"] = at(relaxed, "fluid", "violation_rate")
	var adapt []probe
	for _, f := range []string{"fc", "r"} {
		for _, size := range []string{"s", "m", "l"} {
			adapt = append(adapt, at(relaxed, f+"-adaptb-"+size, "violation_rate"))
		}
	}
	out[id+"adaptb"] = frame.Lowest(adapt...)
}

// calls adds the number of scheduler calls relative to one call per layer.
func calls(out samplers) {
	out["fig7/calls/boundaries"] = ofModel(ModelKey{Network: "resnet50", Board: "zc706", Mapping: MappingFluid, Bandwidth: ServingBandwidth("zc706")}, func(m *Model) float64 {
		exits, layers := 0.0, 0.0
		for seg, n := range m.Layers {
			p := m.share(publishedRates["resnet50"], seg)
			layers += p * float64(n)
			exits += p
		}
		return layers / exits
	})
	for _, set := range along(fig7Base, 5, 15, 25) {
		for _, lazy := range lazies {
			out[fmt.Sprintf("fig7/calls/%gps/%s", set.Rate, lazy)] = frame.Over(at(set, lazy, "calls"), at(set, "fluid", "calls"))
		}
	}
}

// tables are figures 1 and 10.
func tables(out samplers) {
	for i := 0; i < len(fig1); i += 2 { // without exits, with exits
		gain := func(s Setting) probe { return frame.Over(at(s, "r-adaptb-l", "mac_util"), at(s, "serial", "mac_util")) }
		out["fig1a/"+fig1[i].Board+"/batching"] = gain(fig1[i])
		out["fig1a/"+fig1[i].Board+"/exits"] = frame.Over(frame.Minus(gain(fig1[i+1]), one), frame.Minus(gain(fig1[i]), one))
	}
	// At the bandwidth of all other claims, and at that which explains the published throughput.
	for at, gbs := range map[string]float64{"": ServingBandwidth("zc706"), fmt.Sprintf("/%gGBps", ThroughputBandwidth("zc706")): ThroughputBandwidth("zc706")} {
		out["fig1b"+at] = probe(func(l *lab) (float64, error) { // how many ways of batching are the best of some quarter
			best := map[string]bool{}
			for s := range 4 {
				most, name := 0.0, ""
				for _, mapping := range []string{MappingFC, MappingR, MappingP} {
					m, err := l.s.models.Model(l.ctx, ModelKey{Network: "resnet50", Board: "zc706", Mapping: mapping, Bandwidth: gbs})
					if err != nil {
						return 0, err
					}
					// On a tie the simpler mapping, which comes first, wins.
					if g := gops(m.MACs[s], 8, m.Table.At(s, s, 8)); g > most*1.001 {
						most, name = g, mapping
					}
				}
				best[name] = true
			}
			return float64(len(best)), nil
		})
		share := func(mapping string, b int) probe {
			return ofModel(ModelKey{Network: "resnet50", Board: "zc706", Mapping: mapping, Bandwidth: gbs, Backbone: true}, func(m *Model) float64 {
				total := int64(0)
				for _, v := range m.MACs {
					total += v
				}
				return gops(total, b, m.Table.At(0, m.Table.Segments()-1, b)) / (2 * m.PeakMACs / 1e9)
			})
		}
		var peak []probe
		for b := 4; b <= 8; b++ {
			peak = append(peak, share(MappingFluid, b))
		}
		out["fig10/peak"+at] = frame.Lowest(peak...)
		stack := func(b int) probe { return frame.Over(share(MappingFluid, b), share(MappingNoStack, b)) }
		out["fig10/stack"+at] = frame.Over(stack(1), stack(8))
		out["fig10/best"+at] = frame.Ratio(share(MappingFluid, 8), frame.Highest(share(MappingR, 8), share(MappingFC, 8)))
	}
}

// Statements judges the claims whose id begins with only.
func (s *Suite) Statements(ctx context.Context, only string) ([]frame.Statement, error) {
	study := frame.Study[*lab]{Book: book, Probes: probes(), Labs: func(string, *frame.Change) (out []*lab, err error) {
		for _, seed := range s.Seeds {
			out = append(out, &lab{ctx, s, seed})
		}
		return out, nil
	}}
	r, err := study.Run(ctx, &frame.Config{Seeds: s.Seeds, Ns: 1, Only: only})
	if err != nil {
		return nil, err
	}
	return r.Statements, nil
}
