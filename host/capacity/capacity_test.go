package capacity

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/sluice-npu/sluice/dse/compile"
	"github.com/sluice-npu/sluice/dse/cost"
	"github.com/sluice-npu/sluice/dse/quant"
	"github.com/sluice-npu/sluice/dse/search"
	"github.com/sluice-npu/sluice/dse/zoo"
	"github.com/sluice-npu/sluice/hw/configs"
)

// tinyOnRun is the smallest network, with its time in the compiler's bundle for configuration run.
func tinyOnRun(t *testing.T) (*search.Workload, search.Point) {
	t.Helper()
	g, err := zoo.Load("tiny", 1)
	if err != nil {
		t.Fatal(err)
	}
	w, err := search.NewWorkload(g)
	if err != nil {
		t.Fatal(err)
	}
	d, err := configs.Load("run")
	if err != nil {
		t.Fatal(err)
	}
	q, err := quant.Quantise(g, [][]float32{make([]float32, g.Tensors[g.Input].Elems())}, quant.Options{})
	if err != nil {
		t.Fatal(err)
	}
	b, err := compile.Compile(q, d, compile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	p := search.Point{Design: d}
	for _, x := range b.Network.Exits {
		for i := range p.Cycles {
			c, err := cost.Segment(d, b.Layers, b.FBCB, x.First, x.Last, i+1)
			if err != nil {
				t.Fatal(err)
			}
			p.Cycles[i] = append(p.Cycles[i], c)
		}
	}
	return w, p
}

func service(t *testing.T, f *Flags, w *search.Workload, rates []float64) *Service {
	t.Helper()
	s, err := f.Service(w, search.Rate, rates)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Flags that cannot describe arrivals are rejected, and the error names the flag.
func TestFlags(t *testing.T) {
	w, _ := tinyOnRun(t)
	for flag, spoil := range map[string]func(f *Flags, rates []float64){
		"--rate":           func(f *Flags, _ []float64) { f.Rate = math.Inf(1) },
		"--slo":            func(f *Flags, _ []float64) { f.SLO = math.NaN() },
		"--n":              func(f *Flags, _ []float64) { f.N = 0 },
		"--max-violations": func(f *Flags, _ []float64) { f.MaxViolations = 1 },
		"--rate-step":      func(f *Flags, _ []float64) { f.RateStep = 0 },
		"--seeds":          func(f *Flags, _ []float64) { f.Seeds = []uint64{2, 1, 2} },
		"--policy":         func(f *Flags, _ []float64) { f.Policy = "best" },
		"--exit-rate has":  func(_ *Flags, rates []float64) { rates[0] = -0.5 },
		"not 1":            func(_ *Flags, rates []float64) { rates[1] = 0.4 },
	} {
		f := &Flags{Rate: 15, SLO: 400, Policy: "fluid", N: 500, Seeds: []uint64{1}, MaxViolations: 0.01, RateStep: 0.02}
		rates := []float64{0.5, 0.5}
		service(t, f, w, rates)
		spoil(f, rates)
		if _, err := f.Service(w, search.Rate, rates); !errors.Is(err, ErrFlags) || !strings.Contains(err.Error(), flag) {
			t.Errorf("%s: %v", flag, err)
		}
	}
}

// Upper bounds of a design's service are never below the real service.
func TestServiceBound(t *testing.T) {
	w, p := tinyOnRun(t)
	held := 0
	for _, policy := range []string{"serial", "lazy", "edf", "fluid", "fluid+", "clockwork"} {
		for _, slo := range []float64{0.3, 1, 4} {
			f := &Flags{Rate: 1, SLO: slo, Policy: policy, N: 60, Seeds: []uint64{5, 6}, MaxViolations: 0.05, RateStep: 0.1}
			s := service(t, f, w, []float64{0.5, 0.5})
			for k := 40; k < 110; k += 5 {
				v, err := s.At(t.Context(), s.rate(k), p.Nanoseconds())
				if err != nil {
					t.Fatal(err)
				}
				if v.Violations <= f.MaxViolations {
					held++
					if !s.mayHold(s.rate(k), p.Nanoseconds()) {
						t.Errorf("%s, %g ms: %g a second is impossible by the bound, and missed %g of the deadlines", policy, slo, s.rate(k), v.Violations)
					}
				}
			}
			if s.mayHold(1e5, p.Nanoseconds()) && slo < 1 {
				t.Errorf("%s, %g ms: 100,000 a second are possible by the bound", policy, slo)
			}
		}
	}
	if held == 0 {
		t.Error("nothing held")
	}
}

// A rate holds if the device keeps up with it; reaching the highest rate tried is not a result.
func TestRateIsSustained(t *testing.T) {
	w, p := tinyOnRun(t)
	ns := p.Nanoseconds()
	sum := 0.0 // ns per request, to the last exit, at the best batch size for each segment
	for i := range w.Segments {
		least := math.Inf(1)
		for b := range ns {
			least = min(least, float64(ns[b][i])/float64(b+1))
		}
		sum += least
	}
	most := 1e9 / sum
	// With a deadline so late that every request is in time at any rate, only the device's capacity is the limit.
	f := &Flags{Rate: 1, SLO: 1000, Policy: "fluid", N: 50, Seeds: []uint64{5}, MaxViolations: 0.01, RateStep: 0.02}
	s := service(t, f, w, []float64{0, 1})
	for _, x := range []struct {
		share float64
		holds bool
	}{{0.99, true}, {1.01, false}} {
		v, err := s.At(t.Context(), x.share*most, ns)
		if err != nil || v.Violations != 0 || v.Holds != x.holds {
			t.Errorf("%v of the throughput: %+v, %v", x.share, v, err)
		}
	}
	if top, ok := s.top(ns); !ok || s.rate(top) > most {
		t.Errorf("%v a second may hold, the device does %v", s.rate(top), most)
	}
	for b := range ns {
		for i := range ns[b] {
			ns[b][i] = 10
		}
	}
	f.SLO, s.slo = 0.001, 1000
	if v, err := s.serve(t.Context(), p.Design, ns, 0); !errors.Is(err, ErrFast) {
		t.Errorf("a device that takes no time: %+v, %v", v, err)
	}
}

// A limit must hold at the upper end of the interval over several seeds.
func TestIntervals(t *testing.T) {
	w, p := tinyOnRun(t)
	f := &Flags{Rate: 1, SLO: 0.15, Policy: "fluid", N: 60, Seeds: []uint64{1, 2, 3}, MaxViolations: 0.1, RateStep: 0.1}
	s := service(t, f, w, []float64{0.5, 0.5})
	between := 0
	for rate := 1000.0; rate < 50000; rate *= 1.05 {
		v, err := s.At(t.Context(), rate, p.Nanoseconds())
		if err != nil {
			t.Fatal(err)
		}
		if v.Holds != (v.Upper() <= 0.1 && s.sustains(rate, p.Nanoseconds())) {
			t.Errorf("at %g a second %+v", rate, v)
		}
		if v.Violations <= 0.1 && !v.Holds && s.sustains(rate, p.Nanoseconds()) {
			between++
		}
	}
	if between == 0 {
		t.Error("no rate lies within its interval: the test shows nothing")
	}
}
