// This file has random arrival processes with a mean rate, and their command-line names.

package load

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// Kind is a family of arrival processes.
type Kind string

const (
	KindPoisson  Kind = "poisson"  // independent arrivals: exponential gaps
	KindGamma    Kind = "gamma"    // renewal process with gamma-distributed gaps, coefficient of variation CV
	KindMarkov   Kind = "markov"   // Poisson process with two rates; a Markov chain switches between the rates
	KindPeriodic Kind = "periodic" // equal gaps; each arrival is moved by up to Jitter/2 of a gap
	KindDay      Kind = "day"      // Poisson process with a rate that follows a sine of period Day
)

// Process is an arrival process without its rate. Fields of other kinds are zero.
type Process struct {
	Kind Kind

	CV float64 // gamma: standard deviation of the gaps divided by their mean; 1: the same as poisson

	High  float64 // markov: the high rate as a multiple of the mean rate, more than 1
	Share float64 // markov: share of the time at the high rate, High * Share < 1
	Dwell float64 // markov: average length of a phase at the high rate, in s

	Jitter float64 // periodic: 0..1

	Depth float64 // day: the rate varies from (1-Depth) to (1+Depth) times its mean; 0..1
	Day   float64 // day: length of a period in s
}

// parameters returns the fields of a kind by command-line name, and sets their defaults.
func (p *Process) parameters() map[string]*float64 {
	switch p.Kind {
	case KindPoisson:
		return map[string]*float64{}
	case KindGamma:
		return map[string]*float64{"cv": &p.CV}
	case KindMarkov:
		return map[string]*float64{"high": &p.High, "share": &p.Share, "dwell": &p.Dwell}
	case KindPeriodic:
		return map[string]*float64{"jitter": &p.Jitter}
	case KindDay:
		return map[string]*float64{"depth": &p.Depth, "day": &p.Day}
	}
	return nil
}

// ParseProcess parses a kind and its parameters, with a colon before each parameter: poisson, gamma:cv=2,
// markov:high=4:share=0.1:dwell=2, periodic:jitter=0.2, day:depth=0.8:day=600. Defaults: cv=2, high=4, share=0.1,
// dwell=2, jitter=0, depth=0.8, day=600.
func ParseProcess(text string) (Process, error) {
	kind, rest, more := strings.Cut(text, ":")
	p := Process{Kind: Kind(kind)}
	params := p.parameters()
	if params == nil {
		return Process{}, fmt.Errorf("%w: process %q: expected poisson, gamma, markov, periodic or day", ErrLoad, text)
	}
	for name, v := range map[string]float64{"cv": 2, "high": 4, "share": 0.1, "dwell": 2, "depth": 0.8, "day": 600} {
		if f := params[name]; f != nil {
			*f = v
		}
	}
	seen := map[string]bool{}
	for more {
		var one string
		one, rest, more = strings.Cut(rest, ":")
		name, value, _ := strings.Cut(one, "=")
		v, err := strconv.ParseFloat(value, 64)
		if params[name] == nil || err != nil || seen[name] {
			return Process{}, fmt.Errorf("%w: process %q: %q is not one of its parameters with a number, each once", ErrLoad, text, one)
		}
		seen[name] = true
		*params[name] = v
	}
	return p, p.Check()
}

// Check returns an error if the parameters do not describe a process.
func (p Process) Check() error {
	fail := func(format string, a ...any) error {
		return fmt.Errorf("%w: process %s: %s", ErrLoad, p.Kind, fmt.Sprintf(format, a...))
	}
	switch p.Kind {
	case KindPoisson:
	case KindGamma:
		if !(p.CV >= 0.05 && p.CV <= 20) {
			return fail("cv is %g, expected 0.05..20", p.CV)
		}
	case KindMarkov:
		switch {
		case !(p.High > 1 && p.High <= 1000):
			return fail("high is %g, expected more than 1, at most 1000", p.High)
		case !(p.Share > 0 && p.Share*p.High < 1):
			return fail("share is %g, expected more than 0 and less than 1/high: the low rate must be positive", p.Share)
		case !(p.Dwell >= 1e-6 && p.Dwell <= 1e6):
			return fail("dwell is %g s, expected 1e-6..1e6", p.Dwell)
		}
	case KindPeriodic:
		if !(p.Jitter >= 0 && p.Jitter <= 1) {
			return fail("jitter is %g, expected 0..1", p.Jitter)
		}
	case KindDay:
		switch {
		case !(p.Depth >= 0 && p.Depth <= 1):
			return fail("depth is %g, expected 0..1", p.Depth)
		case !(p.Day >= 1e-3 && p.Day <= 1e7):
			return fail("day is %g s, expected 1e-3..1e7", p.Day)
		}
	default:
		return fail("expected poisson, gamma, markov, periodic or day")
	}
	return nil
}

// Times returns n sorted arrival times, in ns, of the process at a mean rate per second. All kinds draw from
// rand.NewPCG(seed, 0x736c756963650001).
func (p Process) Times(rate float64, n int, seed uint64) ([]Time, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	if err := CheckRate(rate); err != nil {
		return nil, err
	}
	return p.draw(rate, n, seed)
}

// draw is the same as Times without a check of the rate. The rate must be positive and finite.
func (p Process) draw(rate float64, n int, seed uint64) ([]Time, error) {
	if n < 0 || n > MaxArrivals {
		return nil, fmt.Errorf("%w: %d arrivals, expected 0..%d", ErrLoad, n, MaxArrivals)
	}
	step := p.source(rate, rand.New(rand.NewPCG(seed, stream)))
	out := make([]Time, n)
	at := 0.0
	for i := range out {
		at = step(at)
		if at > float64(MaxTime) {
			return nil, fmt.Errorf("%w: arrival %d of %d at %g per second lies beyond %d ns", ErrLoad, i, n, rate, MaxTime)
		}
		out[i] = Time(at)
	}
	if p.Kind == KindPeriodic {
		slices.Sort(out) // the jitter may have changed the order of arrivals
	}
	return out, nil
}

// source returns a function that returns the arrival time, in ns, after a given arrival time. Products are converted
// explicitly to prevent fused multiply-adds, so that arrivals are equal on every machine.
func (p Process) source(rate float64, rng *rand.Rand) func(float64) float64 {
	mean := 1e9 / rate
	switch p.Kind {
	case KindGamma:
		shape := 1 / float64(p.CV*p.CV)
		return func(at float64) float64 { return at + float64(gamma(rng, shape)/shape*mean) }
	case KindMarkov:
		high := p.High * rate
		low := rate * (1 - float64(p.Share*p.High)) / (1 - p.Share)
		up := p.Dwell * 1e9 // mean length of a phase at the high rate, in ns
		down := up * (1 - p.Share) / p.Share
		isHigh := rng.Float64() < p.Share
		visit := func() float64 {
			if isHigh {
				return float64(rng.ExpFloat64() * up)
			}
			return float64(rng.ExpFloat64() * down)
		}
		until := visit()
		return func(at float64) float64 {
			for {
				r := low
				if isHigh {
					r = high
				}
				// When the rate changes, the rest of the gap is drawn again, since exponential gaps have no memory.
				if t := at + float64(rng.ExpFloat64()/r*1e9); t <= until {
					return t
				}
				at, isHigh = until, !isHigh
				until += visit()
			}
		}
	case KindPeriodic:
		i := -1.0
		return func(float64) float64 {
			i++
			return max(0, float64(mean*i)+float64((rng.Float64()-0.5)*float64(p.Jitter*mean)))
		}
	case KindDay:
		top := rate * (1 + p.Depth)
		day := p.Day * 1e9
		return func(at float64) float64 {
			for { // thinning: draw at the highest rate, and accept with probability rate / highest rate
				at += float64(rng.ExpFloat64() / top * 1e9)
				if float64(rng.Float64()*(1+p.Depth)) <= 1+float64(p.Depth*math.Sin(2*math.Pi*math.Mod(at/day, 1))) {
					return at
				}
			}
		}
	}
	return func(at float64) float64 { return at + float64(rng.ExpFloat64()/rate*1e9) }
}

// gamma draws a number from the gamma distribution with the given shape and scale 1 (Marsaglia and Tsang, "A simple
// method for generating gamma variables", 2000).
func gamma(rng *rand.Rand, shape float64) float64 {
	boost := 1.0
	if shape < 1 {
		boost = math.Pow(1-rng.Float64(), 1/shape)
		shape++
	}
	d := shape - 1.0/3
	c := 1 / math.Sqrt(float64(9*d))
	for {
		x := rng.NormFloat64()
		v := 1 + float64(c*x)
		if v <= 0 {
			continue
		}
		v = float64(v*v) * v
		if u := 1 - rng.Float64(); math.Log(u) < float64(x*x)/2+float64(d*(1-v+math.Log(v))) {
			return float64(d * v * boost)
		}
	}
}
