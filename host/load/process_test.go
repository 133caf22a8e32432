package load_test

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-npu/sluice/host/load"
)

func process(t *testing.T, text string) load.Process {
	t.Helper()
	p, err := load.ParseProcess(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// gaps returns the mean gap in seconds and the coefficient of variation.
func gaps(times []load.Time) (mean, cv float64) {
	n := float64(len(times) - 1)
	mean = float64(times[len(times)-1]-times[0]) / n
	var squares float64
	for i := 1; i < len(times); i++ {
		d := float64(times[i]-times[i-1]) - mean
		squares += d * d
	}
	return mean / 1e9, math.Sqrt(squares/n) / mean
}

func TestProcesses(t *testing.T) {
	const n, rate = 200_000, 1000.0
	for _, c := range []struct {
		text   string
		lo, hi float64 // for the coefficient of variation
		first  []load.Time
	}{
		// Pinned: a change would silently change the arrivals of every published seed.
		{"poisson", 0.98, 1.02, []load.Time{1481041, 5610668, 6446391}},
		{"gamma:cv=2", 1.94, 2.06, []load.Time{2998724, 3015119, 3509946}},
		{"gamma:cv=0.5", 0.49, 0.51, []load.Time{563275, 1286840, 1996308}},
		{"markov:dwell=0.05:high=4:share=0.1", 1.2, 2.2, []load.Time{208930, 576137, 837685}},
		{"periodic:jitter=0", 0, 1e-6, []load.Time{0, 1000000, 2000000}},
		{"periodic:jitter=0.5", 0.15, 0.25, []load.Time{0, 1176326, 2192764}},
		{"day:day=10:depth=0.8", 1.05, 1.7, []load.Time{1868310, 2448320, 3612398}},
	} {
		p := process(t, c.text)
		a, err := p.Times(rate, n, 1)
		if err != nil {
			t.Fatal(err)
		}
		b, _ := p.Times(rate, n, 1)
		if !slices.Equal(a, b) {
			t.Errorf("%s: equal seeds give other arrivals", c.text)
		}
		if err := load.Check(a); err != nil {
			t.Errorf("%s: %v", c.text, err)
		}
		mean, cv := gaps(a)
		if math.Abs(mean*rate-1) > 0.03 || cv < c.lo || cv > c.hi {
			t.Errorf("%s: %g arrivals per second with coefficient %g, expected %g and %g..%g", c.text, 1/mean, cv, rate, c.lo, c.hi)
		}
		if d := cmp.Diff(c.first, a[:3]); d != "" {
			t.Errorf("%s: the arrivals of seed 1 have changed: %s", c.text, d)
		}
	}
}

// Counts in a window vary more in the burst process than in a Poisson process, and the day's rate follows its sine.
func TestProcessesHaveTheirShape(t *testing.T) {
	count := func(text string, window load.Time) []float64 {
		times, err := process(t, text).Times(100, 100_000, 3)
		if err != nil {
			t.Fatal(err)
		}
		out := make([]float64, times[len(times)-1]/window+1)
		for _, at := range times {
			out[at/window]++
		}
		return out[:len(out)-1]
	}
	dispersion := func(v []float64) float64 {
		var sum, squares float64
		for _, x := range v {
			sum, squares = sum+x, squares+x*x
		}
		n := float64(len(v))
		return (squares/n - sum*sum/n/n) / (sum / n)
	}
	if d := dispersion(count("poisson", 1e9)); d < 0.8 || d > 1.2 {
		t.Errorf("Poisson's counts have an index of dispersion of %g, expected 1", d)
	}
	if d := dispersion(count("markov:dwell=2:high=4:share=0.1", 1e9)); d < 10 {
		t.Errorf("the bursts' counts have an index of dispersion of %g only", d)
	}
	day := count("day:day=100:depth=0.8", 25e9) // quarters of the sine: up, down, ...
	var high, low float64
	for i := 0; i+3 < len(day); i += 4 {
		high, low = high+day[i]+day[i+1], low+day[i+2]+day[i+3]
	}
	// (1 + 0.8 * 2/pi) / (1 - 0.8 * 2/pi)
	if want := 1.509 / 0.491; math.Abs(high/low/want-1) > 0.05 {
		t.Errorf("days bring %g times as much in their first half, expected %g", high/low, want)
	}
}

func TestBadProcesses(t *testing.T) {
	for _, text := range []string{
		"", "weibull", "poisson:cv=1", "gamma:cv=0", "gamma:cv=x", "gamma:cv=1:cv=2", "gamma:cv=NaN", "markov:high=1", "markov:high=5:share=0.2",
		"markov:share=0", "markov:dwell=0", "markov:dwell=Inf", "periodic:jitter=2", "periodic:jitter=-1", "day:depth=2", "day:day=0", "gamma:", "gamma::cv=2",
	} {
		if p, err := load.ParseProcess(text); !errors.Is(err, load.ErrLoad) {
			t.Errorf("%q gives %v, %v", text, p, err)
		}
	}
	p := load.Process{Kind: load.KindPoisson}
	for _, rate := range []float64{0, -1, math.NaN(), math.Inf(1), 1e9} {
		if _, err := p.Times(rate, 10, 1); !errors.Is(err, load.ErrRate) || !errors.Is(err, load.ErrLoad) {
			t.Errorf("rate %g: %v", rate, err)
		}
	}
	if _, err := p.Times(1, -1, 1); !errors.Is(err, load.ErrLoad) {
		t.Errorf("-1 arrivals: %v", err)
	}
	if _, err := (load.Process{}).Times(1, 1, 1); !errors.Is(err, load.ErrLoad) {
		t.Errorf("no kind: %v", err)
	}
	for _, slo := range []load.Time{0, -5, load.MaxTime + 1} {
		if err := load.CheckSLO(slo); !errors.Is(err, load.ErrSLO) {
			t.Errorf("SLO %d: %v", slo, err)
		}
	}
}

func TestCheckNamesWhatIsWrong(t *testing.T) {
	fast := make([]load.Time, 3000) // 1e9 a second
	for i := range fast {
		fast[i] = load.Time(i)
	}
	for _, c := range []struct {
		times []load.Time
		want  error
	}{
		{[]load.Time{0, 5, 4}, load.ErrUnsorted},
		{[]load.Time{-1}, load.ErrNegative},
		{[]load.Time{load.MaxTime + 1}, load.ErrLoad},
		{fast, load.ErrRate},
	} {
		if err := load.Check(c.times); !errors.Is(err, c.want) || !errors.Is(err, load.ErrLoad) {
			t.Errorf("%v, want %v", err, c.want)
		}
	}
	if err := load.Check(make([]load.Time, 500)); err != nil {
		t.Errorf("500 arrivals at one time are a burst: %v", err)
	}
}

func FuzzProcess(f *testing.F) {
	for _, s := range []string{"poisson", "gamma:cv=2", "markov:high=4:share=0.1:dwell=2", "periodic:jitter=0.5", "day:day=600:depth=1", "gamma:cv=1e9"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := load.ParseProcess(text)
		if err != nil {
			if !errors.Is(err, load.ErrLoad) {
				t.Fatal(err)
			}
			return
		}
		times, err := p.Times(50, 20, 1)
		if err == nil {
			err = load.Check(times)
		}
		if err != nil && !errors.Is(err, load.ErrLoad) {
			t.Fatal(err)
		}
	})
}
