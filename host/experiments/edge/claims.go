// What the publication says in its text, and what the simulation says of it. Its curves cannot be read:
// what stands in them alone has no statement.

package edge

import (
	"fmt"
	"math"
	"slices"

	"github.com/sluice-npu/sluice/host/experiments/verdict"
)

// claim is a statement before it is looked at.
type claim struct {
	verdict.Claim
	of func(*lab) float64 // for one seed
}

func near(id, text string, published float64, of func(*lab) float64, why string) claim {
	return because(verdict.Near(id, text, published), of, why)
}

func atMost(id, text string, published float64, of func(*lab) float64, why string) claim {
	return because(verdict.AtMost(id, text, published), of, why)
}

func atLeast(id, text string, published float64, of func(*lab) float64, why string) claim {
	return because(verdict.AtLeast(id, text, published), of, why)
}

func because(c verdict.Claim, of func(*lab) float64, why string) claim {
	c.Why = why
	return claim{c, of}
}

func ours(c claim) claim { c.Claim = c.Ours(); return c }

// over is something of each point, as a whole.
func over(points []Point, whole func([]float64) float64, of func(*lab, Point) float64) func(*lab) float64 {
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

// some is the mean of what there is; NaN where there is nothing.
func some(v []float64) float64 { return mean(slices.DeleteFunc(v, math.IsNaN)) }

// truth counts as one.
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

// but are the points without those that a condition holds for.
func but(points []Point, not func(Point) bool) []Point {
	return slices.DeleteFunc(slices.Clone(points), not)
}

// overloaded is the one setting that the publication leaves out: 8 clients, 25 frames a second, 75 ms.
func overloaded(p Point) bool { return p.Clients == 8 && p.Rate == 25 && p.SLO == 75*ms }

func number(v float64) *float64 { return &v }

func at(trace string, clients, rate int, slo int64) Point {
	return Point{Trace: trace, Workers: 2, Clients: clients, Rate: rate, SLO: slo * ms}
}

func one(p Point, of func(*lab, Point) float64) func(*lab) float64 {
	return func(l *lab) float64 { return of(l, p) }
}

// hits is the share of changes of networks that found them loaded, over all of a trace's settings.
func hits(loaded int, system string) func(*lab) float64 {
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

// claims are the publication's statements.
func claims() []claim {
	const (
		profile  = "the zoo's latencies between the four that are given are ours, by rule"
		clockw   = "our workers serve as soon as they are free and drop only what is too late, and our links have no jitter below a second"
		noisy    = "its testbed has jitter that a simulation of the stated links lacks"
		drawn    = "the traces' own changes from second to second are assumed"
		upscales = "rests on what upscaling loses, which is assumed"
	)
	steps, wifi, lte := eighteen("steps"), eighteen("wifi"), eighteen("lte")
	bySLO := func(slo int64) []Point { return but(steps, func(p Point) bool { return p.SLO != slo*ms }) }
	var out []claim
	out = append(out,
		atMost("fig8/miss", "steps: miss rates of all settings but the overloaded one are at most 1.153 %", 0.01153,
			over(but(steps, overloaded), slices.Max, miss("jellyfish")), clockw),
		near("fig8/overloaded", "8 clients at 25 frames a second, 75 ms: 15.427 % are missed, one client being unmapped", 0.15427,
			one(at("steps", 8, 25, 75), miss("jellyfish")),
			"by our rule the smallest network takes 29 ms at batch 3, 103 frames a second and so four clients; one stays unmapped only where it takes more than 30 ms"),
		near("fig8/8x15/100ms", "8 clients at 15 frames a second, 100 ms: 1.153 % are missed", 0.01153,
			one(at("steps", 8, 15, 100), miss("jellyfish")), noisy),
		ours(atMost("fig8/150ms", "the miss rate at 150 ms is the lowest: what it has more than the lower of the others' means", 0,
			func(l *lab) float64 {
				m := func(slo int64) float64 { return over(bySLO(slo), mean, miss("jellyfish"))(l) }
				if m(75) == 0 && m(100) == 0 && m(150) == 0 {
					return math.NaN() // nothing was missed anywhere
				}
				return m(150) - min(m(75), m(100))
			}, "")),
		ours(atLeast("fig8/accuracy", "the accuracy at 150 ms is higher than at 100 and 75 ms for all settings: the least difference", 0,
			over(bySLO(150), slices.Min, func(l *lab, p Point) float64 {
				q, r := p, p
				q.SLO, r.SLO = 75*ms, 100*ms
				of := accuracy("jellyfish")
				return of(l, p) - max(of(l, q), of(l, r))
			}), "")),
		ours(atLeast("fig8/smallest", "the accuracy is much higher than the smallest network's in all settings: at least 1.1 times", 1.1,
			over(but(steps, overloaded), slices.Min, func(l *lab, p Point) float64 { return accuracy("jellyfish")(l, p) / accuracy("b-l")(l, p) }), profile)),
		near("fig8/busy", "the workers' utilisation grows up to 75 %", 0.75,
			over(steps, slices.Max, func(l *lab, p Point) float64 { return l.of(p, "jellyfish").Busy }), clockw),
		near("fig9/100ms", "median latency of 2 clients, 15 frames a second, 100 ms: 53.77 ms", 53.77e6,
			one(at("steps", 2, 15, 100), func(l *lab, p Point) float64 { return float64(l.of(p, "jellyfish").P50) }), profile),
		near("fig9/150ms", "median latency of 2 clients, 15 frames a second, 150 ms: 84.62 ms", 84.62e6,
			one(at("steps", 2, 15, 150), func(l *lab, p Point) float64 { return float64(l.of(p, "jellyfish").P50) }), profile),
		ours(atLeast("fig9/p99", "p99 is close to the SLO with many clients: of the SLO, 8 clients, in the mean", 0.85,
			over(but(steps, func(p Point) bool { return p.Clients < 8 }), mean, func(l *lab, p Point) float64 { return float64(l.of(p, "jellyfish").P99) / float64(p.SLO) }), "")),
		atMost("fig11/wifi", "WiFi: miss rates below 1 % in all settings but the overloaded one", 0.01, over(but(wifi, overloaded), slices.Max, miss("jellyfish")), clockw),
		atMost("fig11/lte", "LTE: miss rates below 1.5 % in all settings but the overloaded one", 0.015, over(but(lte, overloaded), slices.Max, miss("jellyfish")), clockw))
	for _, t := range []struct {
		name   string
		points []Point
	}{{"steps", steps}, {"wifi", wifi}, {"lte", lte}} {
		out = append(out,
			ours(atMost("fig11/"+t.name+"/b-l", "B_L misses next to nothing: 0.5 % at most in any setting", 0.005, over(t.points, slices.Max, miss("b-l")), "")),
			ours(atLeast("fig11/"+t.name+"/b-l-accuracy", "and is the least accurate: share of the settings", 1, over(t.points, mean, func(l *lab, p Point) float64 {
				a := accuracy("b-l")(l, p)
				return truth(a <= accuracy("jellyfish")(l, p) && (a <= accuracy("b-m")(l, p) || l.of(p, "b-m").OnTime == 0) && (a <= accuracy("b-h")(l, p) || l.of(p, "b-h").OnTime == 0))
			}), "")),
			ours(atLeast("fig11/"+t.name+"/b-h", "B_H misses the most in almost all settings: share of those in which anybody misses anything", 0.9, over(t.points, some, func(l *lab, p Point) float64 {
				h, most := miss("b-h")(l, p), max(miss("b-m")(l, p), miss("b-l")(l, p), miss("jellyfish")(l, p))
				if h == 0 && most == 0 {
					return math.NaN()
				}
				return truth(h >= most)
			}), "")),
			ours(atLeast("fig11/"+t.name+"/consistent", "Jellyfish misses no more than B_M and B_H, by 0.1 points at most (our tolerance): share of the settings", 1, over(t.points, mean, func(l *lab, p Point) float64 {
				j := miss("jellyfish")(l, p)
				return truth(j <= miss("b-m")(l, p)+0.001 && j <= miss("b-h")(l, p)+0.001)
			}), clockw)))
	}
	low := but(steps, func(p Point) bool { return p.SLO != 75*ms || p.Rate != 15 })
	high := but(steps, func(p Point) bool { return p.Clients == 2 || p.SLO == 150*ms })
	out = append(out,
		near("fig11/b-m-low", "B_M at low SLOs and rates (75 ms, 15 frames a second): around 40 % are missed", 0.4, over(low, mean, miss("b-m")), profile),
		ours(atLeast("fig11/b-m-many", "B_M has high miss rates for 4 and 8 clients below 150 ms: 5 % in the mean", 0.05, over(high, mean, miss("b-m")), clockw)),
		ours(atLeast("fig11/wifi/b-h-accuracy", "WiFi, 150 ms, 2 clients at 15 frames a second: as accurate as B_H", 0.97,
			one(at("wifi", 2, 15, 150), func(l *lab, p Point) float64 { return accuracy("jellyfish")(l, p) / accuracy("b-h")(l, p) }), "")))
	for _, m := range []struct {
		clients    int
		ours, base float64
	}{{4, 0.0095, 0.1178}, {8, 0.0162, 0.3194}} {
		p := Point{Trace: "lte", Workers: 2, Clients: m.clients}
		id := map[int]string{4: "mixed/4/", 8: "mixed/8/"}[m.clients]
		out = append(out,
			atMost(id+"jellyfish", "clients of mixed rates and SLOs over LTE: misses of Jellyfish, no more", m.ours, one(p, miss("jellyfish")), clockw),
			near(id+"b-m", "and of B_M", m.base, one(p, miss("b-m")), "who the clients are is drawn, and not given"))
	}
	tight := but(steps, func(p Point) bool { return p.SLO == 150*ms })
	half := but(steps, func(p Point) bool { return p.SLO == 75*ms })
	out = append(out,
		ours(atLeast("fig12/off", "without data adaptation the miss rates are extremely high in almost all settings: share of them above 10 %", 0.8,
			over(steps, mean, func(l *lab, p Point) float64 { return truth(miss("da-off")(l, p) > 0.1) }), profile)),
		ours(atLeast("fig12/bw-50/75ms", "half of 75 ms for computing: no network is selected, all are missed", 1,
			over(bySLO(75), slices.Min, miss("da-bw-50")), "")),
		ours(atLeast("fig12/bw", "adaptation to the bandwidth alone misses more than Jellyfish at 75 and 100 ms: share of the settings, both budgets", 0.9,
			func(l *lab) float64 {
				of := func(s string) float64 {
					return over(tight, mean, func(l *lab, p Point) float64 { return truth(miss(s)(l, p) > miss("jellyfish")(l, p)) })(l)
				}
				return (of("da-bw-50") + of("da-bw-75")) / 2
			}, "")),
		ours(atMost("fig12/slo-50/miss", "adaptation to the SLO, half of it for computing, misses about as much as Jellyfish: more, at 100 and 150 ms", 0.02,
			over(half, mean, func(l *lab, p Point) float64 { return miss("da-slo-50")(l, p) - miss("jellyfish")(l, p) }),
			"in 50 ms only the smallest network fits, at batch 1: two workers serve 86 frames a second, and whoever sends more is unmapped")),
		ours(atMost("fig12/slo-50/accuracy", "and is significantly less accurate: of Jellyfish's accuracy", 0.97,
			over(half, mean, func(l *lab, p Point) float64 { return accuracy("da-slo-50")(l, p) / accuracy("jellyfish")(l, p) }), upscales)),
		because(
			verdict.Claim{ID: "fig12/slo-75/accuracy", Text: "with three quarters it is on par: of Jellyfish's accuracy", Least: 0.97, Most: 1.03},
			over(but(steps, overloaded), mean, func(l *lab, p Point) float64 {
				return accuracy("da-slo-75")(l, p) / accuracy("jellyfish")(l, p)
			}), upscales,
		),
		atMost("fig13/150ms", "8 workers, up to 32 clients over LTE: less than 1.73 % are missed at 150 ms", 0.0173,
			over(but(large(), func(p Point) bool { return p.SLO != 150*ms }), slices.Max, miss("jellyfish")), clockw),
		atMost("fig13/100ms", "and less than 3 % at 100 ms", 0.03,
			over(but(large(), func(p Point) bool { return p.SLO != 100*ms }), slices.Max, miss("jellyfish")), "how much slower those GPUs are is assumed"),
		because(verdict.Claim{ID: "prefetch/5", Text: "five networks loaded, WiFi and LTE: 92.37 % of the changes find theirs, within a tenth", Published: number(0.9237), Least: 0.9 * 0.9237, Most: 1}, hits(5, "jellyfish"), drawn),
		because(verdict.Claim{ID: "prefetch/3", Text: "three: 83.61 %, within a tenth", Published: number(0.8361), Least: 0.9 * 0.8361, Most: 1.1 * 0.8361}, hits(3, "jellyfish"), drawn))
	return out
}

// state looks at all claims, and at those about random instances.
func state(labs []*lab, ratios []Ratio) (out []verdict.Statement) {
	for _, c := range claims() {
		var v []float64
		for _, l := range labs {
			v = append(v, c.of(l))
		}
		out = append(out, *c.Judge(v))
	}
	for _, r := range ratios {
		c := verdict.Claim{
			ID:    fmt.Sprintf("fig14a/%dx%d", r.Workers, r.Clients),
			Text:  "the annealing is near-optimal: at least 95 % of the best (our threshold; of an upper bound where the best was not found), over the instances of this size",
			Least: 0.95, Most: math.Inf(1), Why: "ratios to a bound are lower than those to the best",
		}
		s := c.Judge(r.Of[0].Each)
		if s.Verdict == verdict.Fails && r.Proved < r.Instances { // a ratio to a bound refutes nothing
			s.Verdict = verdict.Undecided
		}
		out = append(out, *s)
	}
	return out
}
