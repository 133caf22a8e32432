// The probes of the publication's claims (claims.yaml). Its curves cannot be read, so values that are only in them are
// not claims.

package jellyfish

import (
	"fmt"
	"math"
	"slices"

	"github.com/sluice-npu/sluice/host/experiments/frame"
)

// value is a number of one seed.
type value = func(*lab) float64

// probe is a value, which has no error.
func probe(of value) frame.Probe[*lab] {
	return func(l *lab) (float64, error) {
		x := of(l)
		return x, l.err
	}
}

// each is a number at each of several points, for what is claimed of all of them.
func each(points []Point, of func(*lab, Point) float64) (all []frame.Probe[*lab]) {
	for _, p := range points {
		all = append(all, probe(one(p, of)))
	}
	return all
}

func over(points []Point, whole func([]float64) float64, of func(*lab, Point) float64) value {
	return func(l *lab) float64 {
		var v []float64
		for _, p := range points {
			v = append(v, of(l, p))
		}
		return whole(v)
	}
}

func mean(v []float64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	return sum / float64(len(v))
}

// some is the mean without NaNs; NaN if no value is left.
func some(v []float64) float64 { return mean(slices.DeleteFunc(v, math.IsNaN)) }

// truth is 1 for true, 0 for false.
func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func miss(system string) func(*lab, Point) float64 {
	return func(l *lab, p Point) float64 { return l.of(p, system).Miss }
}

func accuracy(system string) func(*lab, Point) float64 {
	return func(l *lab, p Point) float64 { return l.of(p, system).Accuracy }
}

// but returns the points for which a condition does not hold.
func but(points []Point, not func(Point) bool) []Point {
	return slices.DeleteFunc(slices.Clone(points), not)
}

// overloaded is the one setting that the publication leaves out: 8 clients, 25 frames a second, 75 ms.
func overloaded(p Point) bool { return p.Clients == 8 && p.Rate == 25 && p.SLO == 75*ms }

func at(trace string, clients, rate int, slo int64) Point {
	return Point{Trace: trace, Workers: 2, Clients: clients, Rate: rate, SLO: slo * ms}
}

func one(p Point, of func(*lab, Point) float64) value {
	return func(l *lab) float64 { return of(l, p) }
}

// hits is the share of changes of networks that found them loaded, over all of a trace's settings.
func hits(loaded int, system string) value {
	return func(l *lab) float64 {
		hits, changes := 0, 0
		for _, t := range []string{"wifi", "lte"} {
			for _, p := range eighteen(t) {
				if loaded != 5 {
					p.Loaded = loaded
				}
				c := l.of(p, system).Counts
				hits, changes = hits+c.Hits, changes+c.Changes
			}
		}
		return float64(hits) / float64(changes)
	}
}

// probes returns the probe of each claim, except those about random instances.
func probes() map[string]frame.Sampler[*lab] {
	steps, wifi, lte := eighteen("steps"), eighteen("wifi"), eighteen("lte")
	bySLO := func(slo int64) []Point { return but(steps, func(p Point) bool { return p.SLO != slo*ms }) }
	p50 := func(l *lab, p Point) float64 { return float64(l.of(p, "jellyfish").P50) }
	of := map[string]value{
		"fig8/overloaded": one(at("steps", 8, 25, 75), miss("jellyfish")),
		"fig8/8x15/100ms": one(at("steps", 8, 15, 100), miss("jellyfish")),
		"fig9/100ms":      one(at("steps", 2, 15, 100), p50),
		"fig9/150ms":      one(at("steps", 2, 15, 150), p50),
		"fig9/p99": over(but(steps, func(p Point) bool { return p.Clients < 8 }), mean, func(l *lab, p Point) float64 {
			return float64(l.of(p, "jellyfish").P99) / float64(p.SLO)
		}),
		"fig11/wifi/b-h-accuracy": one(at("wifi", 2, 15, 150), func(l *lab, p Point) float64 {
			return accuracy("jellyfish")(l, p) / accuracy("b-h")(l, p)
		}),
		"fig11/b-m-low":  over(but(steps, func(p Point) bool { return p.SLO != 75*ms || p.Rate != 15 }), mean, miss("b-m")),
		"fig11/b-m-many": over(but(steps, func(p Point) bool { return p.Clients == 2 || p.SLO == 150*ms }), mean, miss("b-m")),
		"prefetch/5":     hits(5, "jellyfish"),
		"prefetch/3":     hits(3, "jellyfish"),
	}
	for _, n := range []int{4, 8} {
		p := Point{Trace: "lte", Workers: 2, Clients: n}
		of[fmt.Sprintf("mixed/%d/jellyfish", n)], of[fmt.Sprintf("mixed/%d/b-m", n)] = one(p, miss("jellyfish")), one(p, miss("b-m"))
	}
	dataProbes(of, steps)
	out := map[string]frame.Sampler[*lab]{}
	for name, points := range map[string][]Point{"steps": steps, "wifi": wifi, "lte": lte} {
		baselines(of, "fig11/"+name+"/", points)
		out["fig11/"+name+"/b-l"] = frame.Highest(each(points, miss("b-l"))...)
	}
	for id, v := range of {
		out[id] = probe(v)
	}
	for id, points := range map[string][]Point{
		"fig8/miss": but(steps, overloaded), "fig11/wifi": but(wifi, overloaded), "fig11/lte": but(lte, overloaded),
		"fig13/150ms": but(large(), func(p Point) bool { return p.SLO != 150*ms }), "fig13/100ms": but(large(), func(p Point) bool { return p.SLO != 100*ms }),
	} {
		out[id] = frame.Highest(each(points, miss("jellyfish"))...)
	}
	out["fig8/busy"] = frame.Highest(each(steps, func(l *lab, p Point) float64 { return l.of(p, "jellyfish").Busy })...)
	out["fig8/smallest"] = frame.Lowest(each(but(steps, overloaded), func(l *lab, p Point) float64 { return accuracy("jellyfish")(l, p) / accuracy("b-l")(l, p) })...)
	out["fig12/bw-50/75ms"] = frame.Lowest(each(bySLO(75), miss("da-bw-50"))...)
	var accuracies, misses []frame.Probe[*lab]
	for _, shorter := range []int64{75, 100} {
		accuracies = append(accuracies, each(bySLO(150), func(l *lab, p Point) float64 {
			q := p
			q.SLO = shorter * ms
			return accuracy("jellyfish")(l, p) - accuracy("jellyfish")(l, q)
		})...)
		misses = append(misses, func(l *lab) (float64, error) {
			m := func(slo int64) float64 { return over(bySLO(slo), mean, miss("jellyfish"))(l) }
			if m(shorter) == 0 && m(150) == 0 {
				return 0, frame.ErrQuiet // no deadline was missed
			}
			return m(150) - m(shorter), l.err
		})
	}
	out["fig8/accuracy"], out["fig8/150ms"] = frame.Lowest(accuracies...), frame.Highest(misses...)
	return out
}

// baselines adds the claims of figure 11 about one kind of link.
func baselines(of map[string]value, id string, points []Point) {
	of[id+"b-l-accuracy"] = over(points, mean, func(l *lab, p Point) float64 {
		a := accuracy("b-l")(l, p)
		return truth(a <= accuracy("jellyfish")(l, p) && (a <= accuracy("b-m")(l, p) || l.of(p, "b-m").OnTime == 0) && (a <= accuracy("b-h")(l, p) || l.of(p, "b-h").OnTime == 0))
	})
	of[id+"b-h"] = over(points, some, func(l *lab, p Point) float64 {
		h, most := miss("b-h")(l, p), max(miss("b-m")(l, p), miss("b-l")(l, p), miss("jellyfish")(l, p))
		if h == 0 && most == 0 {
			return math.NaN()
		}
		return truth(h >= most)
	})
	of[id+"consistent"] = over(points, mean, func(l *lab, p Point) float64 {
		j := miss("jellyfish")(l, p)
		return truth(j <= miss("b-m")(l, p)+0.001 && j <= miss("b-h")(l, p)+0.001)
	})
}

// dataProbes adds the claims of figure 12 about adapting data in place of networks.
func dataProbes(of map[string]value, steps []Point) {
	tight, half := but(steps, func(p Point) bool { return p.SLO == 150*ms }), but(steps, func(p Point) bool { return p.SLO == 75*ms })
	of["fig12/off"] = over(steps, mean, func(l *lab, p Point) float64 { return truth(miss("da-off")(l, p) > 0.1) })
	of["fig12/bw"] = func(l *lab) float64 {
		more := func(s string) float64 {
			return over(tight, mean, func(l *lab, p Point) float64 { return truth(miss(s)(l, p) > miss("jellyfish")(l, p)) })(l)
		}
		return (more("da-bw-50") + more("da-bw-75")) / 2
	}
	of["fig12/slo-50/miss"] = over(half, mean, func(l *lab, p Point) float64 { return miss("da-slo-50")(l, p) - miss("jellyfish")(l, p) })
	ratio := func(system string) func(*lab, Point) float64 {
		return func(l *lab, p Point) float64 { return accuracy(system)(l, p) / accuracy("jellyfish")(l, p) }
	}
	of["fig12/slo-50/accuracy"], of["fig12/slo-75/accuracy"] = over(half, mean, ratio("da-slo-50")), over(but(steps, overloaded), mean, ratio("da-slo-75"))
}

// bounded corrects the verdict on a statement about random instances. If the best of an instance was not found, its ratio
// is to an upper bound and so too low. The statement fails only if it also fails with a ratio of one for those instances.
func bounded(ratios []Ratio) func(*frame.Statement) {
	return func(s *frame.Statement) {
		for i := range ratios {
			if r := &ratios[i]; s.ID == r.claim() && s.Verdict == frame.Fails && r.Proved < r.Instances {
				if mean, half := frame.Interval(r.Of[0].AtMost); half == nil || mean+*half >= *s.Least {
					s.Verdict = frame.Undecided
				}
			}
		}
	}
}
