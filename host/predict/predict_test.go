package predict_test

import (
	"bytes"
	"errors"
	"flag"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/sluice-npu/sluice/host/predict"
)

var (
	seed = flag.Uint64("seed", 1, "of what is random")
	n    = flag.Int("n", 1000, "random models")
)

func use(rng *rand.Rand, most float64) (u predict.Use) {
	for i := range u {
		u[i] = rng.Float64() * most
	}
	return u
}

// model returns a model with random parameters within bounds.
func model(rng *rand.Rand) *predict.Model {
	m := predict.NewModel()
	for i := range m.P {
		m.P[i] += 0.4 * (rng.Float64() - 0.3)
	}
	return m
}

// Every derivative equals the effect of a small step of its parameter.
func TestGradient(t *testing.T) {
	t.Logf("--seed %d --n %d", *seed, *n)
	rng := rand.New(rand.NewPCG(*seed, 1))
	const h = 1e-5
	for range *n {
		m, others, own, priority := model(rng), use(rng, 1.5), use(rng, 1), rng.IntN(2)
		_, g := m.Gradient(others, own, priority)
		for i := range m.P {
			up, down := *m, *m
			up.P[i] += h
			down.P[i] -= h
			a, _ := up.Gradient(others, own, priority)
			b, _ := down.Gradient(others, own, priority)
			if want := (a - b) / (2 * h); math.Abs(g[i]-want) > 1e-5*max(1, math.Abs(want)) {
				t.Fatalf("by parameter %d: %g, a small step gives %g", i, g[i], want)
			}
		}
		e := 3 * (rng.Float64() - 0.5)
		_, slope := predict.Huber(e)
		a, _ := predict.Huber(e + h)
		b, _ := predict.Huber(e - h)
		if want := (a - b) / (2 * h); math.Abs(slope-want) > 1e-4 {
			t.Fatalf("Huber at %g: slope %g, a small step gives %g", e, slope, want)
		}
	}
}

// Huber by hand: quadratic up to a half, linear beyond it, without a step.
func TestHuber(t *testing.T) {
	for _, c := range []struct{ e, loss, slope float64 }{{0, 0, 0}, {0.4, 0.08, 0.4}, {-0.5, 0.125, -0.5}, {2, 0.875, 0.5}, {-2, 0.875, -0.5}} {
		if loss, slope := predict.Huber(c.e); math.Abs(loss-c.loss) > 1e-12 || slope != c.slope {
			t.Errorf("at %g: loss %g, slope %g; expected %g, %g", c.e, loss, slope, c.loss, c.slope)
		}
	}
}

// Equations 4 and 5 by hand: k 2, b e, C -1, 0.5 of every resource's pressure.
func TestEquations(t *testing.T) {
	m := predict.NewModel()
	m.P[0], m.P[2] = 2, -1
	var others, own predict.Use
	others[predict.DRAM], others[predict.FMA] = 0.6, 0.4
	own[predict.FMA], own[predict.DRAM] = 0.7, 0.2
	pressure := 0.5*(0.6+0.4) + 0.1*0.7 + 0.1*0.2
	if got, want := m.Interference(others, own, 0), 1+2*math.Exp(pressure)-1; math.Abs(got-want) > 1e-12 {
		t.Errorf("%g, expected %g", got, want)
	}
	m.P[0] = 0.5
	if got := m.Interference(predict.Use{}, predict.Use{}, 1); got != 1 {
		t.Errorf("alone: %g, expected 1", got)
	}
}

// The first step of Adam has the size of the rate and the opposite sign of the gradient, whatever the gradient's
// size. Parameters without influence do not change.
func TestFirstStep(t *testing.T) {
	m := predict.NewModel()
	var others, own predict.Use
	others[predict.DRAM] = 0.8
	was := m.P
	m.Update(others, own, 0, 10) // much too small
	for i := range m.P {
		moved := m.P[i] - was[i]
		_, g := predict.NewModel().Gradient(others, own, 0)
		want := 0.0
		if g[i] != 0 {
			want = predict.Rate
		}
		if math.Abs(moved-want) > 1e-6 {
			t.Errorf("parameter %d moved by %g, expected %g", i, moved, want)
		}
	}
}

// Ten steps of Adam as Kingma and Ba write it, with the publication's constants as numbers, over gradients
// that change.
func TestTenSteps(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	m, want := predict.NewModel(), predict.NewModel()
	var first, second [16]float64
	for step := 1; step <= 10; step++ {
		others, own, priority, actual := use(rng, 1), use(rng, 1), rng.IntN(2), 1+rng.Float64()
		intf, g := want.Gradient(others, own, priority)
		slope := intf - actual
		if slope > 0.5 {
			slope = 0.5
		} else if slope < -0.5 {
			slope = -0.5
		}
		for i := range want.P {
			d := slope * g[i]
			first[i] = 0.7*first[i] + 0.3*d
			second[i] = 0.9*second[i] + 0.1*d*d
			mean, square := first[i]/(1-math.Pow(0.7, float64(step))), second[i]/(1-math.Pow(0.9, float64(step)))
			want.P[i] -= 0.0075 * mean / (math.Sqrt(square) + 1e-8)
		}
		m.Update(others, own, priority, actual)
		for i := range m.P {
			if math.Abs(m.P[i]-want.P[i]) > 1e-12 {
				t.Fatalf("step %d, parameter %d: %.15g, by hand %.15g", step, i, m.P[i], want.P[i])
			}
		}
	}
}

// For any input, the parameters stay in the range where the equations are valid, the slowdown is finite, and the
// learned model can be read again.
func TestBounds(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 8))
	for _, actual := range []float64{1e12, 0} {
		m := predict.NewModel()
		for range 12_000 {
			m.Update(use(rng, 6), use(rng, 1), rng.IntN(2), actual)
		}
		var file bytes.Buffer
		if err := m.Save(&file); err != nil {
			t.Fatal(err)
		}
		if _, err := predict.Load("m", &file); err != nil {
			t.Errorf("told %g: %v", actual, err)
		}
	}
	// e^6 at most: k = 1, C = -1 and a coefficient of 1 give 1 + e^6 - 1.
	m := predict.NewModel()
	var others predict.Use
	for i := range others {
		others[i] = 100
	}
	if got := m.Interference(others, predict.Use{}, 0); math.Abs(got-math.Exp(6)) > 1e-9 {
		t.Errorf("under any pressure: %g, expected e^6", got)
	}
	for i := range m.P { // a parameter of a checkpoint cannot be a million
		bad := *predict.NewModel()
		bad.P[i] = 1e6
		var file bytes.Buffer
		if err := bad.Save(&file); err != nil {
			t.Fatal(err)
		}
		if _, err := predict.Load("m", &file); !errors.Is(err, predict.ErrCheckpoint) {
			t.Errorf("parameter %d of 1e6: %v", i, err)
		}
	}
}

// In a batch's own use, the larger of tensor cores and FMA pipes counts as compute, and the larger of L2 and DRAM as
// memory: with weights 2 and 3, k = 1, C = -1, b = e.
func TestSelf(t *testing.T) {
	m := predict.NewModel()
	for i := range predict.Resources {
		m.P[3+i] = 0
	}
	m.P[3+predict.Resources], m.P[4+predict.Resources] = 2, 3
	for _, c := range []struct{ tensor, fma, l2, dram, pressure float64 }{
		{0.3, 0, 0, 0, 0.6},
		{0.3, 0.2, 0, 0, 0.6},
		{0.1, 0.2, 0, 0, 0.4},
		{0, 0, 0.3, 0, 0.9},
		{0, 0, 0.3, 0.1, 0.9},
		{0.2, 0.1, 0.1, 0.2, 1},
	} {
		var own predict.Use
		own[predict.Tensor], own[predict.FMA], own[predict.L2], own[predict.DRAM] = c.tensor, c.fma, c.l2, c.dram
		own[predict.L1], own[predict.Threads] = 1, 1 // not used
		if got := m.Interference(predict.Use{}, own, 1); math.Abs(got-math.Exp(c.pressure)) > 1e-12 {
			t.Errorf("%+v: %g, expected e^%g", c, got, c.pressure)
		}
	}
}

// It learns the slowdown of another device, also of a higher priority, and follows when the device changes; a frozen
// model does not.
func TestLearns(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 3))
	truth := func(k float64) func(others, own predict.Use, priority int) float64 {
		return func(others, _ predict.Use, priority int) float64 {
			p := 0.9*others[predict.DRAM] + 0.3*others[predict.FMA]
			return 1 + (k*math.Exp(1.3*p)-k)*[]float64{1, 0.4}[priority]
		}
	}
	m := predict.NewModel()
	errOf := func(m *predict.Model, of func(predict.Use, predict.Use, int) float64, learn bool) float64 {
		sum := 0.0
		const n = 3000
		for i := range n {
			others, own, p := use(rng, 1), use(rng, 1), rng.IntN(2)
			others[predict.L1], others[predict.L2], others[predict.Tensor], others[predict.Threads] = 0, 0, 0, 0
			actual := of(others, own, p) * (1 + 0.02*rng.NormFloat64())
			if i >= n/2 {
				sum += math.Abs(m.Interference(others, own, p)-actual) / actual
			}
			if learn {
				m.Update(others, own, p, actual)
			}
		}
		return sum / (n / 2)
	}
	first := errOf(m, truth(0.5), true)
	still := *m
	if stands, follows := errOf(&still, truth(1.5), false), errOf(m, truth(1.5), true); first > 0.06 || follows > 0.06 || stands < 2*follows {
		t.Errorf("mean error %.3f; on another device %.3f, without learning %.3f", first, follows, stands)
	}
}

// An outlier changes it no more than an ordinary error of the same sign.
func TestOutlier(t *testing.T) {
	a, b := predict.NewModel(), predict.NewModel()
	var others, own predict.Use
	others[predict.DRAM] = 0.5
	at := a.Interference(others, own, 0)
	a.Update(others, own, 0, at+1)
	b.Update(others, own, 0, at+1e6)
	if a.P != b.P {
		t.Errorf("an error of a million leads elsewhere than one of 1: %v, %v", a.P, b.P)
	}
	b.Update(others, own, 0, math.NaN())
	b.Update(others, own, 0, math.Inf(1))
	if a.P != b.P {
		t.Error("what is no number has taught something")
	}
}

// A saved model continues in the same way.
func TestCheckpoint(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	a := predict.NewModel()
	step := func(m *predict.Model, rng *rand.Rand) {
		for range 100 {
			m.Update(use(rng, 1), use(rng, 1), rng.IntN(2), 1+rng.Float64())
		}
	}
	step(a, rng)
	var file bytes.Buffer
	if err := a.Save(&file); err != nil {
		t.Fatal(err)
	}
	text := file.String()
	b, err := predict.Load("a.json", &file)
	if err != nil {
		t.Fatal(err)
	}
	step(a, rand.New(rand.NewPCG(6, 6)))
	step(b, rand.New(rand.NewPCG(6, 6)))
	if *a != *b {
		t.Error("the model that was read goes another way")
	}
	for what, bad := range map[string]string{
		"cut": text[:len(text)/2], "another schema": strings.Replace(text, "interference/1", "interference/2", 1),
		"too few": strings.Replace(text, `"params": [`, `"params": [ 1,`, 1), "text behind": text + "{}",
		"out of bounds": strings.Replace(text, `"params": [`, `"params": [ -3, `, 1), "unknown": strings.Replace(text, `"steps"`, `"more": 1, "steps"`, 1),
		"empty": "", "long": strings.Repeat(" ", 1<<17),
	} {
		if m, err := predict.Load("bad.json", strings.NewReader(bad)); !errors.Is(err, predict.ErrCheckpoint) || !strings.Contains(err.Error(), "bad.json") {
			t.Errorf("%s: %v, %v", what, m, err)
		}
	}
}

func FuzzLoad(f *testing.F) {
	var file bytes.Buffer
	if err := predict.NewModel().Save(&file); err != nil {
		f.Fatal(err)
	}
	f.Add(file.Bytes())
	f.Add([]byte(`{"schema":"sluice-interference/1","params":[]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, err := predict.Load("f", bytes.NewReader(raw))
		if err != nil {
			return
		}
		var others, own predict.Use
		others[0] = 1
		m.Update(others, own, 0, 2)
		if v := m.Interference(others, own, 0); !(v >= 1) || math.IsInf(v, 0) {
			t.Errorf("a checkpoint that was taken gives %g", v)
		}
	})
}

// Time-weighted averages by hand: 2 ns beside 0.5, 6 ns beside 0.1, 2 ns alone.
func TestExposure(t *testing.T) {
	var a, b predict.Use
	a[predict.DRAM], b[predict.DRAM] = 0.5, 0.1
	var e predict.Exposure
	e.Begin(100, a)
	if got := e.Mean(100); got != a {
		t.Errorf("of no time: %v", got)
	}
	e.Change(102, b)
	e.Change(108, predict.Use{})
	if got := e.Mean(110)[predict.DRAM]; math.Abs(got-0.16) > 1e-12 {
		t.Errorf("%g, expected 0.16", got)
	}
	if e.Began != 100 || e.Now() != (predict.Use{}) {
		t.Errorf("began %d, now %v", e.Began, e.Now())
	}
}

// Equations 2 and 3 by hand, and the effect of a slow transfer on those after it.
func TestLink(t *testing.T) {
	var l predict.Link
	if d := l.Delay(10); d != 0 {
		t.Errorf("idle: %d", d)
	}
	if end := l.Send(10, 100); end != 110 {
		t.Errorf("the first ends at %d", end)
	}
	if d := l.Delay(30); d != 80 {
		t.Errorf("behind it: %d", d)
	}
	if end := l.Send(30, 50); end != 160 {
		t.Errorf("the second ends at %d", end)
	}
	l.Sent(10, 100, 110, 130) // 20 late, 1.2 times as long
	if d := l.Delay(130); d != 50 {
		t.Errorf("after a late one: %d", d)
	}
	if n := l.Takes(100); n != 120 {
		t.Errorf("the next takes %d", n)
	}
	l.Sent(30, 50, 180, 180)
	if d := l.Delay(180); d != 0 {
		t.Errorf("after both: %d", d)
	}
	if n := l.Takes(100); n != 110 { // it began when the link was free, at 130: as profiled
		t.Errorf("after one of 1.2 times and one as profiled the next takes %d", n)
	}
	// No transfer ends before the last real end: the second was expected at the end of the first.
	l = predict.Link{}
	l.Send(0, 100)
	l.Send(0, 100)
	l.Sent(0, 100, 100, 50)
	l.Sent(0, 100, 200, 180)
	if d := l.Delay(150); d != 30 {
		t.Errorf("a link that was busy until 180 is free in %d at 150", d)
	}
	// A link with twice the profile's times is recognised after some transfers.
	l = predict.Link{}
	now := predict.Time(0)
	for range 20 {
		end := l.Send(now, 100)
		l.Sent(now, 100, end, now+200)
		now += 300
	}
	if n := l.Takes(100); n < 199 || n > 201 {
		t.Errorf("a slow link: %d", n)
	}
	end := l.Send(now, 100)
	l.Sent(now, 100, end, now+100)
	if n := l.Takes(100); n != 193 { // one sixteenth
		t.Errorf("a slow link after one that was not: %d", n)
	}
}

// Least squares finds the weights behind the samples, and reports what cannot be determined.
func TestLinear(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 9))
	var s []predict.Sample
	for range 400 {
		x := predict.Sample{Others: use(rng, 1), Own: use(rng, 1)}
		x.Actual = 1.1 + 0.7*x.Others[predict.DRAM] + 0.2*x.Own[predict.FMA]
		s = append(s, x)
	}
	l, err := predict.Fit(s)
	if err != nil {
		t.Fatal(err)
	}
	for i := range s[:50] {
		if got := l.Interference(s[i].Others, s[i].Own); math.Abs(got-s[i].Actual) > 1e-3 {
			t.Fatalf("%g, expected %g", got, s[i].Actual)
		}
	}
	// Resources that are not used, or always used equally, get no weight, and are not an error.
	for i := range s {
		var d predict.Sample
		d.Others[predict.DRAM], d.Own[predict.FMA] = s[i].Others[predict.DRAM], 0.5
		d.Actual = 1.1 + 0.7*d.Others[predict.DRAM]
		s[i] = d
	}
	if l, err = predict.Fit(s); err != nil {
		t.Fatal(err)
	}
	for i, w := range l.W {
		if used := i == 0 || i == 1+predict.DRAM || i == 1+predict.Resources+predict.FMA; !used && math.Abs(w) > 1e-9 || math.IsNaN(w) {
			t.Errorf("weight %d of what nobody uses is %g", i, w)
		}
	}
	if _, err := predict.Fit(s[:3]); !errors.Is(err, predict.ErrFit) {
		t.Errorf("three samples: %v", err)
	}
}

// Fitting all samples at once finds the model that made them. Learning the same samples one batch at a time does not, in
// that number of steps.
func TestFitModel(t *testing.T) {
	rng := rand.New(rand.NewPCG(10, 10))
	made := predict.NewModel()
	for i := range made.P {
		made.P[i] *= 0.6 + 0.8*rng.Float64()
	}
	var s []predict.Sample
	for i := range 400 {
		x := predict.Sample{Others: use(rng, 1), Own: use(rng, 1), Priority: i % predict.Priorities}
		x.Actual, _ = made.Gradient(x.Others, x.Own, x.Priority)
		s = append(s, x)
	}
	fitted, err := predict.FitModel(s)
	if err != nil {
		t.Fatal(err)
	}
	learnt := predict.NewModel()
	for i := range s {
		learnt.Update(s[i].Others, s[i].Own, s[i].Priority, s[i].Actual)
	}
	mean := func(m *predict.Model) (sum float64) {
		for i := range s {
			got, _ := m.Gradient(s[i].Others, s[i].Own, s[i].Priority)
			sum += math.Abs(got-s[i].Actual) / s[i].Actual / float64(len(s))
		}
		return sum
	}
	if f, l := mean(fitted), mean(learnt); f > 0.005 || l < 4*f {
		t.Errorf("mean relative error %g fitted, %g learnt", f, l)
	}
	if _, err := predict.FitModel(s[:3]); !errors.Is(err, predict.ErrFit) {
		t.Errorf("three samples: %v", err)
	}
}

func BenchmarkInterference(b *testing.B) {
	m := predict.NewModel()
	var others, own predict.Use
	others[predict.DRAM] = 0.5
	for b.Loop() {
		m.Interference(others, own, 0)
	}
}

func BenchmarkUpdate(b *testing.B) {
	m := predict.NewModel()
	var others, own predict.Use
	others[predict.DRAM] = 0.5
	for b.Loop() {
		m.Update(others, own, 0, 1.5)
	}
}

// Resources that are used together are fitted as well as a single one. The fit does not balance a large weight with a
// negative one, which the model's bounds would cut off.
func TestFitOfResourcesUsedTogether(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var samples []predict.Sample
	for range 400 {
		var s predict.Sample
		d, f := rng.Float64(), rng.Float64()
		s.Others[predict.DRAM], s.Others[predict.FMA] = d, f
		s.Others[predict.L2], s.Others[predict.L1] = 0.4*d+0.4*f+0.02*rng.NormFloat64(), 0.1*d+0.2*f+0.01*rng.NormFloat64()
		s.Own[predict.DRAM], s.Own[predict.FMA] = rng.Float64(), rng.Float64()
		s.Actual = (1 + math.Exp(0.8*d+0.3*f) - 0.8) * (1 + 0.05*rng.NormFloat64()) * (1 - 0.3*max(0, s.Others[predict.L2]-0.4))
		samples = append(samples, s)
	}
	m, err := predict.FitModel(samples)
	if err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for i := range samples {
		s := &samples[i]
		sum += math.Abs(m.Interference(s.Others, s.Own, s.Priority)/s.Actual-1) / float64(len(samples))
	}
	if sum > 0.06 {
		t.Errorf("%.3f of the slowdown off in the mean, weights %v", sum, m.P)
	}
}
