package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-npu/sluice/boards"
	"github.com/sluice-npu/sluice/dse/compile"
	"github.com/sluice-npu/sluice/dse/cost"
	"github.com/sluice-npu/sluice/dse/counted"
	"github.com/sluice-npu/sluice/dse/mapping"
	"github.com/sluice-npu/sluice/dse/quant"
	"github.com/sluice-npu/sluice/dse/resource"
	"github.com/sluice-npu/sluice/dse/search"
	"github.com/sluice-npu/sluice/dse/zoo"
	"github.com/sluice-npu/sluice/host/capacity"
	"github.com/sluice-npu/sluice/host/cli"
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
)

// every returns all <T_R, T_P, T_C> of the test's grid.
var every = func() (out [][3]int) {
	for _, tr := range []int{64, 128} {
		for _, tp := range []int{3, 4, 5} {
			for _, tc := range []int{8, 12, 16, 20, 24} {
				out = append(out, [3]int{tr, tp, tc})
			}
		}
	}
	return out
}()

// quantised holds the networks that cyclesOf has compiled, by name.
var quantised = map[string]*quant.Network{}

// cyclesOf returns the cycles of a design for compiled bundles, without the search.
func cyclesOf(t *testing.T, w *search.Workload, d configs.Design) search.Cycles {
	t.Helper()
	var out search.Cycles
	for _, p := range w.Parts {
		q := quantised[p.Name]
		if q == nil {
			g, err := zoo.Load(p.Name, 1)
			if err != nil {
				t.Fatal(err)
			}
			image := make([]float32, g.Tensors[g.Input].Elems())
			if q, err = quant.Quantise(g, [][]float32{image}, quant.Options{}); err != nil {
				t.Fatal(err)
			}
			quantised[p.Name] = q
		}
		b, err := compile.Compile(q, d, compile.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range b.Network.Exits {
			for i := range out {
				c, err := cost.Segment(d, b.Layers, b.FBCB, x.First, x.Last, i+1)
				if err != nil {
					t.Fatal(err)
				}
				out[i] = append(out[i], c)
			}
		}
	}
	return out
}

// summed adds up the law layer by layer, each at its fastest entry, with all tensors in DRAM.
func summed(t *testing.T, w *search.Workload, d configs.Design) search.Cycles {
	t.Helper()
	layers, err := w.Lower(d)
	if err != nil {
		t.Fatal(err)
	}
	var out search.Cycles
	for b := range out {
		out[b] = make([]int64, w.Segments)
		for i := range out[b] {
			out[b][i] = cost.Start(d)
		}
		for _, l := range layers {
			_, time, err := mapping.Choose(d, l.Geom, b+1, mapping.RTL())
			if err != nil {
				t.Fatal(err)
			}
			out[b][l.Segment] += time.Total
		}
	}
	return out
}

// Summed layers rank designs differently than compiled networks do: a search that ignores tensors kept on chip would
// find another design. Sweep and compare must agree with compiled networks.
func TestSweepRanksWhatIsCompiled(t *testing.T) {
	w, err := (&target{Network: "fashion", Seed: 1}).workload()
	if err != nil {
		t.Fatal(err)
	}
	b, err := boards.Load("zc706")
	if err != nil {
		t.Fatal(err)
	}
	g, err := (&place{}).grid(b)
	if err != nil {
		t.Fatal(err)
	}
	most, err := g.At(64, 6, 36)
	if err != nil {
		t.Fatal(err)
	}
	dsp := resource.Of(b, most).DSP
	code, stdout, stderr := call("sweep", "--network", "fashion", "--board", "zc706", "--json", "--tp", "6..6", "--tc", "32..36", "--tr", "64..64",
		"--objective", "latency", "--max-dsp", fmt.Sprint(dsp))
	if code != cli.OK {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	var doc struct {
		Best struct {
			Point search.Point `json:"point"`
		} `json:"best"`
		Within []search.Point `json:"within"`
	}
	if err := json.Unmarshal([]byte(stdout), &doc); err != nil {
		t.Fatal(err)
	}
	compiled, alone := map[[2]int]int64{}, map[[2]int]int64{} // by T_P and T_C
	for _, at := range [][3]int{{64, 6, 32}, {64, 6, 36}} {
		d, err := g.At(at[0], at[1], at[2])
		if err != nil {
			t.Fatal(err)
		}
		key := [2]int{at[1], at[2]}
		compiled[key], alone[key] = cyclesOf(t, w, d).Sum(1), summed(t, w, d).Sum(1)
		if compiled[key] > alone[key] {
			t.Errorf("%v: %d cycles compiled, layers one by one %d", at, compiled[key], alone[key])
		}
	}
	fewest := func(m map[[2]int]int64) (best [2]int) {
		for k, c := range m {
			if m[best] == 0 || c < m[best] {
				best = k
			}
		}
		return best
	}
	best, other := fewest(compiled), fewest(alone)
	if best == other {
		t.Errorf("%v is best either way: the test shows nothing", best)
	}
	if p := doc.Best.Point; p.Cycles.Sum(1) != compiled[best] || [2]int{p.TP, p.TC} != best {
		t.Errorf("the sweep answers <%d, %d, %d> with %d cycles, compiled %v has %d", p.TR, p.TP, p.TC, p.Cycles.Sum(1), best, compiled[best])
	}
	for _, p := range doc.Within {
		if want := compiled[[2]int{p.TP, p.TC}]; p.Cycles.Sum(1) != want {
			t.Errorf("<%d, %d, %d> is named with %d cycles, compiled it has %d", p.TR, p.TP, p.TC, p.Cycles.Sum(1), want)
		}
	}
	if len(doc.Within) < 2 {
		t.Errorf("%d designs are as good", len(doc.Within))
	}
	// compare and explain agree about a design
	var cmp struct {
		A struct {
			Cycles int64 `json:"cycles"`
		} `json:"a"`
		Cycles int64 `json:"cycles"`
	}
	for _, args := range [][]string{{"compare", "--network", "fashion", "--a", "run", "--b", "v7", "--batch", "2"}, {"explain", "--network", "fashion", "--config", "run", "--batch", "2"}} {
		code, stdout, stderr := call(append(args, "--json")...)
		if err := json.Unmarshal([]byte(stdout), &cmp); code != cli.OK || err != nil {
			t.Fatalf("%v: exit code %d, %v: %s", args, code, err, stderr)
		}
	}
	run, err := configs.Load("run")
	if err != nil {
		t.Fatal(err)
	}
	if c := cyclesOf(t, w, run).Sum(2); cmp.A.Cycles != c || cmp.Cycles != c {
		t.Errorf("compare says %d cycles, explain %d, the bundle %d", cmp.A.Cycles, cmp.Cycles, c)
	}
}

// For each objective, the best design is the one found by trying all; excluded designs are not chosen.
func TestObjectivesByBruteForce(t *testing.T) {
	whole := []string{"--tp", "3..5", "--tc", "8..24", "--tr", "64..128"}
	small := []string{"--tp", "4..5", "--tc", "12..20", "--tr", "64"} // for cases in which a design is expensive
	load := []string{"--slo", "0.3", "--n", "120", "--seeds", "3,4", "--exit-rate", "0.6,0.4", "--max-violations", "0.05"}
	ns := func(d configs.Design, cycles float64) float64 { return cycles / d.ClockMHz * 1000 }
	type found struct {
		d      configs.Design
		c      search.Cycles
		est    resource.Estimate
		served search.Served
	}
	nsOf := func(f *found) search.Cycles {
		p := search.Point{Design: f.d, Cycles: f.c}
		return p.Nanoseconds()
	}
	network := func(name string) *search.Workload {
		w, err := (&target{Network: name, Seed: 1}).workload()
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	tiny := network("tiny")
	tinyMACs := tiny.MACs
	both, err := search.Mix([]*search.Workload{tiny, network("fashion")}, []float64{1, 3}) // segments 0, 1 and 2 to 5
	if err != nil {
		t.Fatal(err)
	}
	part := func(f *found, b, from, to int) (sum float64) {
		for _, c := range f.c[b-1][from:to] {
			sum += float64(c)
		}
		return sum
	}
	mixed := []string{"--with", "fashion=3"}
	exits := []float64{1, 0.4} // shares of requests that run each segment
	mean := func(f *found, b int) float64 {
		return exits[0]*float64(f.c[b-1][0]) + exits[1]*float64(f.c[b-1][1])
	}
	type known struct {
		w *search.Workload
		d configs.Design
	}
	asked := map[known]search.Cycles{} // many cases use the same designs
	cycles := func(w *search.Workload, d configs.Design) search.Cycles {
		key := known{w, d}
		key.d.Name = ""
		c, ok := asked[key]
		if !ok {
			c = cyclesOf(t, w, d)
			asked[key] = c
		}
		return c
	}
	alone := func(f *found) float64 { return ns(f.d, float64(f.c[0][0]+f.c[0][1])) }
	for _, c := range []struct {
		name  string
		flags []string
		// value of a design, higher is better; NaN: it must not be chosen
		value func(f *found, s *capacity.Service) float64
		axes  func(g *search.Grid) []search.Grid
		small bool   // fewer designs
		board string // zc706 if empty
	}{
		{
			name:  "latency by exits",
			flags: []string{"--objective", "latency", "--exit-rate", "0.6,0.4"},
			value: func(f *found, _ *capacity.Service) float64 { return -math.Ceil(ns(f.d, math.Ceil(mean(f, 1)))) },
		},
		{
			name:  "throughput by exits",
			flags: []string{"--objective", "throughput", "--exit-rate", "0.6,0.4", "--weights", "1,0,0,2,0,0,0,1"},
			value: func(f *found, _ *capacity.Service) float64 {
				at := func(b int) float64 { return float64(b) / ns(f.d, mean(f, b)) * 1e9 }
				return (at(1) + 2*at(4) + at(8)) / 4
			},
		},
		{
			name:  "latency within limits",
			flags: []string{"--objective", "latency", "--max-dsp", "70", "--max-lut", "41000", "--margin", "0.1"},
			value: func(f *found, _ *capacity.Service) float64 {
				if f.est.DSP > 70 || f.est.LUT.Value > 41000 || f.est.BRAM36 > 490 {
					return math.NaN()
				}
				return -math.Ceil(alone(f))
			},
			axes: func(g *search.Grid) []search.Grid {
				within := *g
				within.Budget = search.Budget{DSP: 70, LUT: 41000, Margin: 0.1}
				return []search.Grid{within}
			},
		},
		{
			name:  "GOP/s a DSP with a latency of at most 0.048 ms",
			flags: []string{"--objective", "gops-per-dsp", "--max-latency", "0.048"},
			value: func(f *found, s *capacity.Service) float64 {
				if alone(f) > 0.048e6 {
					return math.NaN()
				}
				sum := 0.0
				for b := 1; b <= abi.BMax; b++ {
					sum += 2 * float64(b) * float64(tinyMACs) / ns(f.d, float64(f.c.Sum(b))) / abi.BMax
				}
				return sum / float64(f.est.DSP)
			},
		},
		{
			name: "latency over loaders, rings, ports and clocks", small: true,
			flags: []string{"--objective", "latency", "--w-load", "2,4", "--ring", "512,2048", "--ports", "1,4", "--clock", "100,150"},
			value: func(f *found, _ *capacity.Service) float64 { return -math.Ceil(alone(f)) },
			axes: func(g *search.Grid) (all []search.Grid) {
				for _, load := range []int{2, 4} {
					for _, ring := range []int{512, 2048} {
						for _, ports := range []int{1, 4} {
							for _, clock := range []float64{100, 150} {
								x := *g
								d := &x.Template
								d.WLoad, d.WRingBeats, d.NAXI, d.ClockMHz = load, ring, ports, clock
								d.DRAM = configs.DRAM{BytesPerCycle: 15.3 * (150 / clock), LatencyCycles: int(math.Ceil(100 * clock / 150))}
								all = append(all, x)
							}
						}
					}
				}
				return all
			},
		},
		{
			name: "rate", flags: append([]string{"--objective", "rate", "--rate-step", "0.1"}, load...),
			value: func(f *found, s *capacity.Service) float64 {
				for k := 150; k > 0; k-- { // 1.1^150 is about 1.6 million
					r := math.Pow(1.1, float64(k))
					if r > 1e5 {
						continue
					}
					v, err := s.At(context.Background(), r, nsOf(f))
					if err != nil {
						t.Fatal(err)
					}
					if v.Holds {
						f.served = v
						return r
					}
				}
				return math.NaN()
			},
		},
		{
			name:  "goodput",
			flags: []string{"--objective", "goodput", "--rate", "26000", "--slo", "0.3", "--n", "120", "--seeds", "3,4", "--exit-rate", "0.6,0.4"},
			value: func(f *found, s *capacity.Service) float64 {
				v, err := s.At(context.Background(), 26000, nsOf(f))
				if err != nil {
					t.Fatal(err)
				}
				return v.Goodput
			},
		},
		{
			name: "latency of two networks", flags: append([]string{"--objective", "latency"}, mixed...), small: true,
			value: func(f *found, _ *capacity.Service) float64 {
				return -math.Ceil(ns(f.d, math.Ceil(part(f, 1, 0, 2)/4+part(f, 1, 2, 6)*3/4)))
			},
		},
		{
			name: "throughput of two networks", flags: append([]string{"--objective", "throughput", "--weights", "0,1,0,0,0,0,0,0"}, mixed...), small: true,
			value: func(f *found, _ *capacity.Service) float64 {
				return 2e9 / ns(f.d, part(f, 2, 0, 2)/4+part(f, 2, 2, 6)*3/4)
			},
		},
		{
			name: "goodput of two networks", small: true,
			flags: append([]string{"--objective", "goodput", "--rate", "3000", "--slo", "1.5", "--n", "120", "--seeds", "3,4", "--exit-rate", "0.6,0.4,0.1,0.2,0.3,0.4"}, mixed...),
			value: func(f *found, s *capacity.Service) float64 {
				v, err := s.At(context.Background(), 3000, nsOf(f))
				if err != nil {
					t.Fatal(err)
				}
				return v.Goodput
			},
		},
		{
			name: "throughput over bandwidths, widths of ports, drains and a slower clock", small: true, board: "zcu104",
			flags: []string{"--objective", "throughput", "--bandwidth", "12,30", "--port-bytes", "8,16", "--drain", "4,8", "--clock", "160,200", "--clock-margin", "0.1"},
			value: func(f *found, _ *capacity.Service) float64 {
				sum := 0.0
				for b := 1; b <= abi.BMax; b++ {
					sum += float64(b) / ns(f.d, float64(f.c.Sum(b))) * 1e9 / abi.BMax
				}
				return sum
			},
			axes: func(g *search.Grid) (all []search.Grid) {
				for _, bytes := range []float64{12, 30} {
					for _, width := range []int{8, 16} {
						for _, drain := range []int{4, 8} {
							for _, clock := range []float64{144, 180} {
								x := *g
								d := &x.Template
								was := d.DRAM.LatencyCycles
								d.AXIBytes, d.Drain, d.ClockMHz = width, drain, clock
								d.DRAM = configs.DRAM{BytesPerCycle: bytes * (200 / clock), LatencyCycles: int(math.Ceil(float64(was) * clock / 200))}
								all = append(all, x)
							}
						}
					}
				}
				return all
			},
		},
		{name: "cheapest by dsp", flags: append([]string{"--objective", "cheapest", "--cost", "dsp", "--rate", "20000"}, load...), value: func(f *found, s *capacity.Service) float64 {
			return holding(t, s, &f.served, nsOf(f), float64(f.est.DSP))
		}},
		{name: "cheapest by lut", flags: append([]string{"--objective", "cheapest", "--cost", "lut", "--rate", "20000"}, load...), value: func(f *found, s *capacity.Service) float64 {
			return holding(t, s, &f.served, nsOf(f), float64(f.est.LUT.Value))
		}},
		{
			name: "cheapest by bram", flags: append([]string{"--objective", "cheapest", "--cost", "bram", "--rate", "20000", "--abuf", "1024,4096,0"}, load...),
			value: func(f *found, s *capacity.Service) float64 { return holding(t, s, &f.served, nsOf(f), f.est.BRAM36) },
			axes: func(g *search.Grid) (all []search.Grid) {
				for _, words := range []int{1024, 4096, 0} {
					x := *g
					x.Axes.ABufWords = []int{words}
					all = append(all, x)
				}
				return all
			},
		},
		{name: "cheapest by energy", flags: append([]string{"--objective", "cheapest", "--cost", "energy", "--rate", "20000"}, load...), value: func(f *found, s *capacity.Service) float64 {
			pj, err := search.Horowitz().Of(tiny, f.d, mapping.RTL(), search.Uniform(), exits)
			if err != nil {
				t.Fatal(err)
			}
			return holding(t, s, &f.served, nsOf(f), pj)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, rates, space, board := tiny, []float64{0.6, 0.4}, whole, cmp.Or(c.board, "zc706")
			if slices.Contains(c.flags, "--with") {
				w, rates = both, []float64{0.6, 0.4, 0.1, 0.2, 0.3, 0.4}
			}
			if c.small {
				space = small
			}
			code, stdout, stderr := call(slices.Concat([]string{"sweep", "--network", "tiny", "--board", board, "--json"}, space, c.flags)...)
			if code != cli.OK {
				t.Fatalf("exit code %d: %s", code, stderr)
			}
			var doc struct {
				Best struct {
					Value float64       `json:"value"`
					Point *search.Point `json:"point"`
				} `json:"best"`
				Within []search.Point `json:"within"`
			}
			if err := json.Unmarshal([]byte(stdout), &doc); err != nil {
				t.Fatal(err)
			}
			b, err := boards.Load(board)
			if err != nil {
				t.Fatal(err)
			}
			g, err := (&place{}).grid(b)
			if err != nil {
				t.Fatal(err)
			}
			var s *capacity.Service
			if slices.Contains(c.flags, "--slo") {
				f := capacity.Flags{Rate: 20000, SLO: 0.3, Policy: "fluid", N: 120, Seeds: []uint64{3, 4}, MaxViolations: 0.05, RateStep: 0.1}
				if w == both {
					f.SLO = 1.5
				}
				if s, err = f.Service(w, search.Rate, rates); err != nil {
					t.Fatal(err)
				}
			}
			grids := []search.Grid{g}
			if c.axes != nil {
				grids = c.axes(&g)
			}
			best, n, ties, refused := math.Inf(-1), 0, []configs.Design{}, 0
			values := map[configs.Design]float64{}
			for _, g := range grids {
				for _, at := range every {
					if c.small && (at[0] != 64 || at[1] < 4 || at[2] < 12 || at[2] > 20) {
						continue
					}
					d, err := g.At(at[0], at[1], at[2])
					if len(g.Axes.ABufWords) > 0 && err == nil {
						if words := g.Axes.ABufWords[0]; words > 0 {
							d, err = resource.FillABuf(b, d, words)
						}
					}
					if err != nil {
						refused++
						continue
					}
					x := &found{d: d, c: cycles(w, d), est: resource.Of(b, d)}
					v := c.value(x, s)
					d.Name = ""
					if !math.IsNaN(v) {
						values[d] = v
					}
					switch {
					case math.IsNaN(v):
						refused++
					case v > best:
						best, ties = v, []configs.Design{d}
					case v == best:
						ties = append(ties, d)
					}
					n++
				}
			}
			got := doc.Best.Point.Design
			got.Name = ""
			if math.Abs(doc.Best.Value/best-1) > 1e-9 || !slices.Contains(ties, got) {
				t.Errorf("of %d designs (%d refused) the best has %v, found %v of %+v; best are %+v", n, refused, best, doc.Best.Value, got, ties)
			}
			// those within the bands of the law of cycles or of LUTs
			band := 0.0
			switch k, err := counted.Of(configs.Design{}, "tiny", false); {
			case err != nil:
				t.Fatal(err)
			case strings.HasPrefix(c.name, "cheapest by lut"):
				if band = resource.Of(b, g.Template).LUT.Band; band >= 1 {
					band = 0 // unknown
				}
			case !strings.HasPrefix(c.name, "cheapest"):
				band = k.Mean
			}
			least := best * (1 - band) / (1 + band)
			if best < 0 {
				least = best * (1 + band) / (1 - band)
			}
			for _, p := range doc.Within {
				d := p.Design
				d.Name = ""
				if v, ok := values[d]; !ok || v < least*(1+math.Copysign(1e-9, -least)) {
					t.Errorf("%s has %v, the best %v: it is not within %v", p.Design.Name, v, best, band)
				}
				delete(values, d)
			}
			for d, v := range values {
				if v >= least {
					t.Errorf("%+v has %v, the best %v: it is within %v and not named", d, v, best, band)
				}
			}
			if len(doc.Within) == 0 || doc.Within[0].Design.Name != doc.Best.Point.Design.Name {
				t.Errorf("%d designs within the band, the best not the first", len(doc.Within))
			}
			if (strings.Contains(c.name, "limits") || strings.Contains(c.name, "at most") || strings.HasPrefix(c.name, "cheapest")) && refused == 0 {
				t.Error("every design was allowed: the test shows nothing")
			}
		})
	}
}

// holding returns the negative cost if the limit holds on the design.
func holding(t *testing.T, s *capacity.Service, served *search.Served, ns search.Cycles, cost float64) float64 {
	t.Helper()
	v, err := s.At(context.Background(), 20000, ns)
	if err != nil {
		t.Fatal(err)
	}
	*served = v
	if !v.Holds {
		return math.NaN()
	}
	return -cost
}

// A rate holds if the device sustains it and enough requests have shown this. Requests that arrive within less time
// than their deadline show nothing, and the highest rate tried is not a result.
func TestRateIsSustained(t *testing.T) {
	sweep := func(more ...string) (int, string, string) {
		return call(append([]string{"sweep", "--json", "--network", "tiny", "--board", "zc706", "--tp", "4", "--tc", "16", "--tr", "64", "--exit-rate", "0.6,0.4"}, more...)...)
	}
	code, stdout, stderr := sweep("--tp", "3..5", "--objective", "rate", "--slo", "40", "--n", "100")
	if code != cli.Input || strings.Count(stdout+stderr, "at least") != 1 {
		t.Errorf("100 requests with 40 ms: exit code %d: %s%s", code, stdout, stderr)
	}
	code, stdout, stderr = sweep("--objective", "cheapest", "--rate", "90000", "--slo", "40", "--n", "100")
	if code != cli.Input || !strings.Contains(stdout+stderr, "--n 36000 at least") {
		t.Errorf("90,000 a second of 100 requests: exit code %d: %s%s", code, stdout, stderr)
	}
}

// If a file with another question is resumed, the error names each option that changes the question; the same question
// yields the same result.
func TestResumeNamesWhatChanged(t *testing.T) {
	dir := t.TempDir()
	ask := func(file string, more ...string) (int, string, string) {
		args := append([]string{"sweep", "--network", "tiny", "--board", "zc706", "--tp", "3..4", "--tc", "8..16", "--tr", "64"}, more...)
		return call(append(args, "--resume", filepath.Join(dir, file))...)
	}
	exits := filepath.Join(dir, "exits.yaml")
	if err := os.WriteFile(exits, []byte("exits: [exit2]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	served := []string{"--objective", "cheapest", "--rate", "1000", "--slo", "4", "--n", "60", "--max-violations", "0.5"}
	bases := map[string][]string{"plain.json": nil, "served.json": served, "latency.json": {"--objective", "latency"}}
	for file, base := range bases {
		code, first, stderr := ask(file, append(slices.Clone(base), "--json")...)
		if code != cli.OK {
			t.Fatalf("exit code %d: %s", code, stderr)
		}
		_, again, _ := ask(file, append(slices.Clone(base), "--json")...)
		one, two := checkDoc(t, first, "best"), checkDoc(t, again, "best")
		if a, b := fmt.Sprint(one["best"]), fmt.Sprint(two["best"]); a != b {
			t.Errorf("%s: resumed, the answer is another", file)
		}
	}
	mine := filepath.Join(dir, "mine.yaml")
	if err := os.WriteFile(mine, []byte(ownBoard), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		file, flag string
		args       []string
	}{
		{"served.json", "--rate", []string{"--rate", "1001"}},
		{"served.json", "--slo", []string{"--slo", "5"}},
		{"served.json", "--policy", []string{"--policy", "lazy"}},
		{"served.json", "--n", []string{"--n", "41"}},
		{"served.json", "--seeds", []string{"--seeds", "2"}},
		{"served.json", "--exit-rate was [0,1], is [0.5,0.5];", []string{"--exit-rate", "0.5,0.5"}},
		{"served.json", "--max-violations", []string{"--max-violations", "0.4"}},
		{"served.json", "--cost", []string{"--cost", "lut"}},
		{"served.json", "--objective", []string{"--objective", "goodput", "--rate", "1000", "--slo", "4", "--n", "60"}},
		{"plain.json", "--objective", []string{"--objective", "latency"}},
		{"latency.json", "--exit-rate was null, is [0.5,0.5];", []string{"--exit-rate", "0.5,0.5"}},
		{"plain.json", "--input-side was 0, is 32;", []string{"--input-side", "32"}},
		{"plain.json", "--exits was null, is [\"exit2\"];", []string{"--exits", exits}},
		{"plain.json", "--weights", []string{"--weights", "2,1,1,1,1,1,1,1"}},
		{"plain.json", "--mapping", []string{"--mapping", "basic"}},
		{"plain.json", "--bytes-per-cycle", []string{"--bytes-per-cycle", "16"}},
		{"plain.json", "--template", []string{"--template", "run"}},
		{"plain.json", "--max-latency was 0, is 3;", []string{"--max-latency", "3"}},
		{"plain.json", "--max-dsp", []string{"--max-dsp", "100"}},
		{"plain.json", "--max-bram", []string{"--max-bram", "400"}},
		{"plain.json", "--max-lut", []string{"--max-lut", "150000"}},
		{"plain.json", "--max-ff", []string{"--max-ff", "150000"}},
		{"plain.json", "--margin", []string{"--margin", "0.1"}},
		{"plain.json", "--clock-margin was 0, is 0.1;", []string{"--clock-margin", "0.1"}},
		{"plain.json", "--clock was null, is [120];", []string{"--clock", "120"}},
		{"plain.json", "--bandwidth", []string{"--bandwidth", "12"}},
		{"plain.json", "--ports", []string{"--ports", "2"}},
		{"plain.json", "--w-load", []string{"--w-load", "4"}},
		{"plain.json", "--drain", []string{"--drain", "4"}},
		{"plain.json", "--ring", []string{"--ring", "1024"}},
		{"plain.json", "--abuf", []string{"--abuf", "2048"}},
		{"plain.json", "--with was [], is [\"fashion of 4 segments and", []string{"--with", "fashion=1"}},
		{"plain.json", "--network", []string{"--network", "fashion"}},
		{"plain.json", "--board dsp was 900, is 160;", []string{"--board", mine}},
		{"plain.json", "--tp", []string{"--tp", "3..5"}},
		{"plain.json", "--tc", []string{"--tc", "8..20"}},
		{"plain.json", "--tr", []string{"--tr", "128"}},
		{"plain.json", "--exhaustive", []string{"--exhaustive"}},
	} {
		base := bases[c.file]
		if c.args[0] == "--objective" { // other objectives read other flags
			base = nil
		}
		code, _, stderr := ask(c.file, append(slices.Clone(base), c.args...)...)
		if code != cli.Input || !strings.Contains(stderr, "asked something else") || !strings.Contains(stderr, c.flag+" ") {
			t.Errorf("%s with %v: exit code %d, expected %d and %s: %s", c.file, c.args, code, cli.Input, c.flag, stderr)
		}
		// and no option that was not given, except those that follow from a board
		if typed := c.args[0]; typed != "--board" && typed != "--objective" && typed != "--cost" && typed != "--input-side" && typed != "--exits" {
			for _, other := range regexp.MustCompile(`--[a-z-]+`).FindAllString(strings.ReplaceAll(stderr, dir, ""), -1) {
				if other != typed {
					t.Errorf("%s with %v names %s: %s", c.file, c.args, other, stderr)
				}
			}
		}
	}
}

// Networks are weighted by their shares; the CSV has one line per design.
func TestMixAndCSV(t *testing.T) {
	file := filepath.Join(t.TempDir(), "sweep.csv")
	code, stdout, stderr := call("sweep", "--json", "--network", "tiny", "--with", "fashion=3", "--board", "zc706", "--tp", "4", "--tc", "16..24", "--tr", "128",
		"--objective", "latency", "--exhaustive", "--csv", file)
	if code != cli.OK {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	doc := checkDoc(t, stdout, "best", "within")
	best := doc["best"].(map[string]any)["point"].(map[string]any)
	var d configs.Design
	text, err := json.Marshal(best["design"])
	if err != nil || json.Unmarshal(text, &d) != nil {
		t.Fatal(err)
	}
	want := 0.0
	for name, share := range map[string]float64{"tiny": 0.25, "fashion": 0.75} {
		w, err := (&target{Network: name, Seed: 1}).workload()
		if err != nil {
			t.Fatal(err)
		}
		c := cyclesOf(t, w, d)
		want += share * float64(c.Sum(1))
	}
	if got := best["latency_b1_ns"].(float64); math.Abs(got-want/d.ClockMHz*1000) > 20 {
		t.Errorf("the mean latency is %g ns, by hand %g", got, want/d.ClockMHz*1000)
	}
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil || len(rows) != 4 || rows[0][0] != "name" {
		t.Fatalf("%d lines of three designs: %v", len(rows), err)
	}
	found := false
	for _, r := range rows[1:] {
		found = found || r[0] == d.Name && r[slices.Index(rows[0], "within")] == "true"
	}
	if !found {
		t.Errorf("the best design %s is not within the band of itself: %v", d.Name, rows)
	}
	// with one seed there is no interval, neither in text nor in a file
	one := []string{"sweep", "--network", "tiny", "--board", "zc706", "--tp", "4", "--tc", "16", "--tr", "64", "--objective", "goodput", "--rate", "1000", "--slo", "4", "--n", "60", "--csv", file}
	for seeds, interval := range map[string]bool{"1": false, "1,2": true} {
		code, stdout, stderr := call(append(slices.Clone(one), "--seeds", seeds)...)
		if code != cli.OK || strings.Contains(stdout, "+-") != interval {
			t.Errorf("--seeds %s: exit code %d: %s%s", seeds, code, stdout, stderr)
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		rows, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
		if err != nil || len(rows) != 2 || (rows[1][slices.Index(rows[0], "violations_ci95")] != "") != interval {
			t.Errorf("--seeds %s: %s, %v", seeds, text, err)
		}
		_, stdout, _ = call(append(slices.Clone(one), "--seeds", seeds, "--json")...)
		if n := strings.Count(stdout, `ci95": null`); !interval && strings.Contains(stdout, `ci95": 0`) || (n == 0) != interval {
			t.Errorf("--seeds %s: %d intervals are null: %s", seeds, n, stdout)
		}
	}
	code, _, stderr = call("sweep", "--network", "tiny", "--with", "fashion", "--board", "zc706")
	if code != cli.Usage || !strings.Contains(stderr, "NETWORK=SHARE") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}
