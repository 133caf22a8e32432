package strait_test

import (
	"context"
	"math"
	"reflect"
	"slices"
	"testing"

	"github.com/sluice-npu/sluice/host/experiments/frame"
	"github.com/sluice-npu/sluice/host/experiments/strait"
	"github.com/sluice-npu/sluice/host/gpu/params"
	"github.com/sluice-npu/sluice/host/load"
	"github.com/sluice-npu/sluice/host/predict"
)

func bed(t *testing.T) *strait.Bed {
	f, err := params.Of("l4")
	if err != nil {
		t.Fatal(err)
	}
	return strait.NewBed(f)
}

func run(t *testing.T, b *strait.Bed, r strait.Run) *strait.Outcome {
	t.Helper()
	o, err := b.Run(context.Background(), r)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// A batch alone takes the time in its profile: the profile comes from the device, and the predictor gets the device's
// time.
func TestProfile(t *testing.T) {
	b := bed(t)
	o := run(t, b, strait.Run{System: "strait-now", Models: strait.Table1(), Load: strait.Load{Name: "sparse", Work: 0.004, High: 1, Even: true}, Ns: 3e9, Seed: 1})
	if len(o.Finished) < 5 {
		t.Fatalf("%d batches", len(o.Finished))
	}
	for _, f := range o.Finished {
		if math.Abs(f.Actual-1) > 1e-9 || f.Batch != 1 {
			t.Errorf("%s, a batch of %d: %g times its time alone", f.Network, f.Batch, f.Actual)
		}
	}
	for _, m := range strait.Table1() {
		tab, err := b.Table(&m)
		if err != nil {
			t.Fatal(err)
		}
		for i, u := range tab.Use[0] {
			if p := u.Peak(); p < 0.1 || p > 1 {
				t.Errorf("%s at batch %d uses %v", m.Name, i+1, u)
			}
			for r, v := range u { // the kernels are in float32
				if (v > 0) == (r == predict.Tensor) {
					t.Errorf("%s at batch %d uses %v: resource %d", m.Name, i+1, u, r)
				}
			}
			if u[predict.L1] > u[predict.FMA] || u[predict.L2] > 1 {
				t.Errorf("%s at batch %d uses %v: more of the L1 than of the pipes that it feeds, or all of the L2", m.Name, i+1, u)
			}
		}
	}
}

// With a spread, a batch takes more or less than its p95, which is longer than its median; its time is the same under
// every system. The profile of a bed without spread has no p95.
func TestSpread(t *testing.T) {
	sparse := func(b *strait.Bed, system string) (out []float64) {
		o := run(t, b, strait.Run{System: system, Models: strait.Table1(), Load: strait.Load{Name: "sparse", Work: 0.004, High: 1, Even: true}, Ns: 3e9, Seed: 1})
		for _, f := range o.Finished {
			out = append(out, f.Actual)
		}
		return out
	}
	b := bed(t)
	b.Spread = 0.02
	v := sparse(b, "strait-now")
	if len(v) < 5 || slices.Min(v) == slices.Max(v) || slices.Max(v) > 1.06 || slices.Min(v) < 0.88 {
		t.Errorf("times of p95: %v", v)
	}
	if w := sparse(b, "no-meet"); !slices.Equal(v, w) {
		t.Errorf("%v under one system, %v under another", v, w)
	}
	m := strait.Table1()[0]
	with, err := b.Table(&m)
	if err != nil {
		t.Fatal(err)
	}
	without, err := bed(t).Table(&m)
	if err != nil {
		t.Fatal(err)
	}
	last := with.Segments() - 1
	p50, p95 := with.At(0, last, 4), with.P95(0, last, 4)
	if p50 != without.At(0, last, 4) || without.P95(0, last, 4) != p50 || float64(p95) < 1.01*float64(p50) || float64(p95) > 1.04*float64(p50) {
		t.Errorf("median %d, p95 %d; without a spread %d and %d", p50, p95, without.At(0, last, 4), without.P95(0, last, 4))
	}
}

// The systems have the expected order over 1.5 s of table 1, at a load that no system can serve completely. Equal seeds
// give equal runs.
func TestOrder(t *testing.T) {
	b := bed(t)
	got := map[string]*strait.Outcome{}
	of := func(system string) *strait.Outcome {
		return run(t, b, strait.Run{System: system, Models: strait.Twice(strait.Table1()), Load: strait.Load{Name: "poisson", Work: 0.8, High: 1}, Ns: 1.5e9, Seed: 2})
	}
	for _, s := range []string{"temporal", "static", "strait"} {
		got[s] = of(s)
		c := got[s].Class
		t.Logf("%s: high %.1f %% of %d, low %.1f %% of %d", s, 100*c[1].Violations(), c[1].Requests, 100*c[0].Violations(), c[0].Requests)
	}
	high := func(s string) float64 { return got[s].Class[1].Violations() }
	if h := high("strait"); h > high("static")-0.02 || h > high("temporal")-0.02 {
		t.Errorf("high priority: strait %.3f, static %.3f, temporal %.3f", h, high("static"), high("temporal"))
	}
	if l := got["temporal"].Class[0].Violations(); l < 1.5*got["static"].Class[0].Violations() {
		t.Errorf("low priority: temporal %.3f, static %.3f", l, got["static"].Class[0].Violations())
	}
	var wrong []float64
	f := got["strait"].Finished
	for i := range f[len(f)/2:] {
		g := &f[len(f)/2+i]
		wrong = append(wrong, math.Abs(g.Predicted-g.Actual)/g.Actual)
	}
	slices.Sort(wrong)
	if at := wrong[len(wrong)*95/100]; at > 0.35 || len(wrong) < 100 {
		t.Errorf("the 95th percentile of %d predictions is off by %.2f", len(wrong), at)
	}
	a, c := of("strait"), got["strait"]
	if !reflect.DeepEqual(a.Finished, c.Finished) || a.Class[0].OnTime != c.Class[0].OnTime || *a.Model != *c.Model {
		t.Error("equal seeds, two runs")
	}
}

// --with unlearnt freezes every predictor as it begins: nothing is expected of sharing, and the error is another.
func TestUnlearnt(t *testing.T) {
	var ours []float64
	for _, x := range []*frame.Change{nil, {Key: "unlearnt"}} {
		r, err := strait.RunBench(t.Context(), strait.Config{Config: frame.Config{Seeds: []uint64{1}, Only: "fig7a/kernel-p95", Ns: 100e6, Workers: 1, With: x}})
		if err != nil {
			t.Fatal(err)
		}
		if null := *r.Model == *predict.Null(); null != (x != nil) {
			t.Errorf("with %v the predictor has learnt nothing: %v", x, null)
		}
		ours = append(ours, *r.Statements[0].Ours)
	}
	if ours[0] == ours[1] {
		t.Errorf("the error of predictions is %g %% with and without learning", ours[0])
	}
}

// A trace of half a year is scaled to the run like any other: its last arrival is in the last step, although a float64
// cannot distinguish its times.
func TestLongTrace(t *testing.T) {
	const days = 149
	f := strait.OfTrace(&load.Trace{Streams: []load.Stream{{Times: []int64{0, days*86400e9 - 1}}}})
	for at, want := range map[float64]float64{0: 30, 0.5: 0, 0.999: 30} {
		if got := f(0, at); got != want {
			t.Errorf("at %g: %g times the mean rate, expected %g", at, got, want)
		}
	}
}

// Invalid configurations are refused.
func TestRefused(t *testing.T) {
	b := bed(t)
	ok := strait.Run{System: "strait", Models: strait.Table1()[:1], Load: strait.Load{Work: 0.1, High: 1}, Ns: 1e6}
	for what, change := range map[string]func(*strait.Run){
		"no system": func(r *strait.Run) { r.System = "best" }, "no models": func(r *strait.Run) { r.Models = nil },
		"no load": func(r *strait.Run) { r.Load.Work = math.NaN() }, "no time": func(r *strait.Run) { r.Ns = 0 },
		"no network": func(r *strait.Run) { r.Models = []strait.Model{{Name: "x", Network: "lenet"}} },
	} {
		r := ok
		change(&r)
		if o, err := b.Run(context.Background(), r); err == nil {
			t.Errorf("%s: %+v", what, o.Class)
		}
	}
}
