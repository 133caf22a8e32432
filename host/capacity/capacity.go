// Package capacity computes the request rate that a design sustains. The engine serves random arrivals on the soft
// device in virtual time. The soft device uses the latencies that the search has estimated for the design. The package
// is in host because it uses host's engine and policies. The search in dse calls two functions (search.Service).
package capacity

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sort"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/dse/search"
	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/engine"
	"github.com/sluice-npu/sluice/host/experiments/frame"
	"github.com/sluice-npu/sluice/host/load"
	"github.com/sluice-npu/sluice/host/sched"
	"github.com/sluice-npu/sluice/host/soft"
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
)

// Flags describe the load for the comparison of designs. The tags "law" and "objective" have the same meaning as in the
// command `dse sweep`.
type Flags struct {
	Rate          float64  `law:"rtl" objective:"goodput,cheapest" default:"15" help:"Goodput, cheapest: Poisson arrivals a second."`
	SLO           float64  `law:"rtl" objective:"goodput,rate,cheapest" name:"slo" default:"400" help:"Goodput, rate, cheapest: milliseconds from arrival to deadline."`
	Policy        string   `law:"rtl" objective:"goodput,rate,cheapest" default:"fluid" help:"Goodput, rate, cheapest: policy of the scheduler."`
	N             int      `law:"rtl" objective:"goodput,rate,cheapest" default:"500" help:"Goodput, rate, cheapest: requests a design is judged on, a seed."`
	Seeds         []uint64 `law:"rtl" objective:"goodput,rate,cheapest" default:"1" help:"Goodput, rate, cheapest: seeds of the arrivals. Several give intervals, and what must hold holds at the upper end of the 95 % interval."`
	MaxViolations float64  `law:"rtl" objective:"rate,cheapest" default:"0.01" help:"Rate, cheapest: share of requests that may miss their deadline."`
	RateStep      float64  `law:"rtl" objective:"rate" default:"0.02" help:"Rate: rates are powers of 1 + this."`
}

// paperExits are the published exit rates of ResNet-50.
var paperExits = []float64{0.051, 0.169, 0.09, 0.69}

var (
	// ErrFlags is the error if a flag of the arrival process is out of range.
	ErrFlags = errors.New("bad arrival process")
	// ErrShort is the error if there are too few requests to show that a rate is sustained.
	ErrShort = errors.New("too few requests")
	// ErrFast is the error if the highest rate that was tried is sustained, since a higher rate may be sustained too.
	ErrFast = errors.New("the highest rate tried is sustained")
)

// Range of the rates that are tried, in requests per second.
const (
	leastRate = 0.01
	mostRate  = 1e5
)

// manySLOs is the minimum duration of the arrivals, as a multiple of the SLO. In a shorter run, all requests may be on
// time at any rate, since the queue is still short.
const manySLOs = 10

// Service simulates a design with the engine and the soft device in virtual time. The device serves stand-in networks,
// which have the same segments and the design's latency tables. It computes no layers: exits are drawn at random.
type Service struct {
	flags     *Flags
	objective search.Objective
	w         *search.Workload
	stands    []*bundle.Bundle // by network
	draws     []draw           // by seed
	rates     []float64        // share of requests that leave at each exit
	slo       int64
}

// draw has the requests of a seed: their networks and exits.
type draw struct {
	seed  uint64
	part  []int
	exit  []int
	count [][]int // number of requests by network and exit
}

// ExitRates returns the given rates. If no rates are given, networks with four exits have the rates of the paper. In
// other networks all requests then leave at the last exit.
func ExitRates(w *search.Workload, given []float64) []float64 {
	if len(given) > 0 {
		return given
	}
	rates := make([]float64, w.Segments)
	for _, p := range w.Parts {
		rates[p.First+p.Segments-1] = 1
		if p.Segments == len(paperExits) {
			copy(rates[p.First:], paperExits)
		}
	}
	return rates
}

// Service returns a Service for a workload under the flags. "given" has the exit rates of the command line.
func (f *Flags) Service(w *search.Workload, objective search.Objective, given []float64) (*Service, error) {
	rates := ExitRates(w, given)
	if err := f.check(objective); err != nil {
		return nil, err
	}
	if err := checkRates(w, rates); err != nil {
		return nil, err
	}
	s := &Service{flags: f, objective: objective, w: w, rates: rates, slo: int64(f.SLO * 1e6)}
	for i, p := range w.Parts {
		stand, err := standIn(fmt.Sprintf("stand-in-%d", i), p.Segments)
		if err != nil {
			return nil, err
		}
		s.stands = append(s.stands, stand)
	}
	for _, seed := range f.Seeds {
		s.draws = append(s.draws, s.draw(seed, rates))
	}
	return s, nil
}

// check returns an error if flags do not describe an arrival process.
func (f *Flags) check(objective search.Objective) error {
	switch {
	case !(f.Rate > 0) || math.IsInf(f.Rate, 0):
		return fmt.Errorf("%w: --rate is %v", ErrFlags, f.Rate)
	case !(f.SLO > 0) || f.SLO > 1e9:
		return fmt.Errorf("%w: --slo is %v ms", ErrFlags, f.SLO)
	case f.N < 1 || f.N > 1e6:
		return fmt.Errorf("%w: --n is %d", ErrFlags, f.N)
	case !(f.MaxViolations >= 0) || f.MaxViolations >= 1:
		return fmt.Errorf("%w: --max-violations is %v, must be at least 0 and less than 1", ErrFlags, f.MaxViolations)
	case !(f.RateStep >= 1e-4) || f.RateStep > 1:
		return fmt.Errorf("%w: --rate-step is %v, must be 0.0001..1", ErrFlags, f.RateStep)
	case len(f.Seeds) == 0 || len(slices.Compact(slices.Sorted(slices.Values(f.Seeds)))) < len(f.Seeds):
		return fmt.Errorf("%w: --seeds are %v, must be one or several, all different", ErrFlags, f.Seeds)
	}
	if _, err := sched.New(f.Policy, sched.Options{}); err != nil {
		return fmt.Errorf("%w: --policy: %w", ErrFlags, err)
	}
	if n := f.enough(f.Rate); objective == search.Cheapest && f.N < n {
		return fmt.Errorf("%w: --n %d arrive within %.3g deadlines of --slo %v ms at --rate %v: what holds so shortly need not hold for long; --n %d at least, or a shorter --slo",
			ErrShort, f.N, float64(f.N)/f.Rate/(f.SLO/1e3), f.SLO, f.Rate, n)
	}
	return nil
}

// checkRates returns an error if an exit rate is not between 0 and 1, or if the sum in a network is not 1.
func checkRates(w *search.Workload, rates []float64) error {
	if len(rates) != w.Segments {
		return fmt.Errorf("%w: --exit-rate has %d numbers, the network %d exits", ErrFlags, len(rates), w.Segments)
	}
	for _, p := range w.Parts {
		sum := 0.0
		for _, r := range rates[p.First : p.First+p.Segments] {
			if math.IsNaN(r) || r < 0 || r > 1 {
				return fmt.Errorf("%w: --exit-rate has %v, must be 0..1", ErrFlags, r)
			}
			sum += r
		}
		if math.Abs(sum-1) > 1e-6 {
			return fmt.Errorf("%w: the --exit-rate of %s add up to %v, not 1", ErrFlags, p.Name, sum)
		}
	}
	return nil
}

// Search returns the functions that a search calls.
func (s *Service) Search() *search.Service {
	f := s.flags
	asked := []search.Param{
		search.Ask("--slo", f.SLO), search.Ask("--policy", f.Policy), search.Ask("--n", f.N), search.Ask("--seeds", f.Seeds), search.Ask("--exit-rate", s.rates),
	}
	if s.objective == search.Rate {
		asked = append(asked, search.Ask("--rate-step", f.RateStep))
	} else {
		asked = append(asked, search.Ask("--rate", f.Rate))
	}
	if s.objective != search.Goodput {
		asked = append(asked, search.Ask("--max-violations", f.MaxViolations))
	}
	return &search.Service{Serve: s.serve, Most: s.most, Asked: asked}
}

// draw draws the random requests of a seed.
func (s *Service) draw(seed uint64, rates []float64) draw {
	d := draw{seed: seed}
	for _, p := range s.w.Parts {
		d.count = append(d.count, make([]int, p.Segments))
	}
	rng := rand.New(rand.NewPCG(seed, 3))
	for range s.flags.N {
		part := 0
		if x := rng.Float64(); len(s.w.Parts) > 1 {
			for part < len(s.w.Parts)-1 && x >= s.w.Parts[part].Share {
				x -= s.w.Parts[part].Share
				part++
			}
		}
		p, exit := s.w.Parts[part], 0
		for x := rng.Float64(); exit < p.Segments-1 && x >= rates[p.First+exit]; exit++ {
			x -= rates[p.First+exit]
		}
		d.part, d.exit = append(d.part, part), append(d.exit, exit)
		d.count[part][exit]++
	}
	return d
}

// enough returns the number of requests that is needed to show that a rate is sustained.
func (f *Flags) enough(rate float64) int {
	return int(math.Ceil(manySLOs * rate * f.SLO / 1e3 * (1 - 1e-9)))
}

// ShortError reports ErrShort for one design. n requests would be enough.
type ShortError struct {
	n    int
	text string
}

func (e *ShortError) Error() string {
	return fmt.Sprintf("%s; --n %d at least, or a shorter --slo", e.text, e.n)
}

func (*ShortError) Unwrap() error { return ErrShort }

// Shortest returns the ShortError with the largest n among the errors that stopped a sweep; nil if there are none.
func Shortest(err error) (most *ShortError) {
	switch x := err.(type) {
	case *ShortError:
		return x
	case interface{ Unwrap() []error }:
		for _, e := range x.Unwrap() {
			if s := Shortest(e); s != nil && (most == nil || s.n > most.n) {
				most = s
			}
		}
		return most
	case interface{ Unwrap() error }:
		return Shortest(x.Unwrap())
	}
	return nil
}

// rate returns the k-th rate that can be tried.
func (s *Service) rate(k int) float64 { return math.Pow(1+s.flags.RateStep, float64(k)) }

func (s *Service) steps(rate float64) float64 { return math.Log(rate) / math.Log(1+s.flags.RateStep) }

// most returns an upper bound of the sustained rate; false: no rate. The bound also holds for longer latencies than ns.
// Under any policy, a segment's device time per request is at least the time at its best batch size. All requests that
// are on time must run between the first arrival and the last deadline.
func (s *Service) most(ns search.Cycles) (float64, bool) {
	switch s.objective {
	case search.Cheapest:
		return 0, s.sustains(s.flags.Rate, ns) && s.mayHold(s.flags.Rate, ns)
	case search.Rate:
		k, ok := s.top(ns)
		return s.rate(k), ok
	}
	return math.Inf(1), true
}

// top returns the index of the highest rate that may be sustained.
func (s *Service) top(ns search.Cycles) (k int, ok bool) {
	lo, hi := int(math.Ceil(s.steps(leastRate))), int(math.Floor(s.steps(mostRate)))
	n := sort.Search(hi-lo+1, func(i int) bool { return !s.sustains(s.rate(lo+i), ns) || !s.mayHold(s.rate(lo+i), ns) })
	return lo + n - 1, n > 0
}

// sustains reports whether a device with these latencies can sustain a rate endlessly under some policy. A request
// needs at least the sum of perSample over all segments up to its exit.
func (s *Service) sustains(rate float64, ns search.Cycles) bool {
	work, n := 0.0, 0
	for _, d := range s.draws {
		for i, p := range s.w.Parts {
			sum := 0.0
			for e := range p.Segments {
				sum += perSample(ns, p.First+e)
				work, n = work+sum*float64(d.count[i][e]), n+d.count[i][e]
			}
		}
	}
	return rate*work/float64(n) <= 1e9*(1+1e-9)
}

// perSample returns the minimum device time per request of a segment, in ns, over all batch sizes.
func perSample(ns search.Cycles, segment int) float64 {
	least := math.Inf(1)
	for b := range abi.BMax {
		least = min(least, float64(ns[b][segment])/float64(b+1))
	}
	return least
}

// mayHold returns false if more than a share MaxViolations of all requests must miss their deadlines at this rate.
func (s *Service) mayHold(rate float64, ns search.Cycles) bool {
	type kind struct {
		work  float64 // device time in ns
		alone int64   // time from start to end in ns
		at    [2]int
	}
	var kinds []kind
	for i, p := range s.w.Parts {
		k := kind{}
		for e := range p.Segments {
			alone := int64(math.MaxInt64)
			for b := range abi.BMax {
				alone = min(alone, ns[b][p.First+e])
			}
			k.work, k.alone, k.at = k.work+perSample(ns, p.First+e), k.alone+alone, [2]int{i, e}
			kinds = append(kinds, k)
		}
	}
	slices.SortFunc(kinds, func(a, b kind) int { return int(math.Copysign(1, a.work-b.work)) })
	missed := 0.0
	for _, d := range s.draws {
		times, err := load.Poisson(rate, s.flags.N, d.seed)
		if err != nil {
			return true // the simulation will report the error
		}
		room, served := float64(times[len(times)-1]-times[0]+s.slo), 0
		for _, k := range kinds {
			if k.alone > s.slo {
				continue
			}
			n := min(float64(d.count[k.at[0]][k.at[1]]), math.Floor(room/k.work*(1+1e-9)))
			room, served = max(0, room-n*k.work), served+int(n)
		}
		missed += float64(s.flags.N-served) / float64(s.flags.N)
	}
	return missed/float64(len(s.draws)) <= s.flags.MaxViolations
}

// serve simulates a design.
func (s *Service) serve(ctx context.Context, _ configs.Design, ns search.Cycles, beat float64) (search.Served, error) {
	if s.objective != search.Rate {
		v, err := s.At(ctx, s.flags.Rate, ns)
		v.Value = v.Goodput
		return v, err
	}
	// This is a bisection between the lowest rate and the first impossible rate. It assumes that every rate below a
	// sustained rate is sustained too. If the design fails at the rate `beat`, the search for its rate ends at once.
	lo, hi := int(math.Ceil(s.steps(leastRate)))-1, 0
	top, ok := s.top(ns)
	if hi = top + 1; !ok {
		return search.Served{}, nil
	}
	if k := int(math.Ceil(s.steps(beat) - 1e-9)); beat > 0 {
		if k > top {
			return search.Served{}, nil
		}
		if v, err := s.At(ctx, s.rate(k), ns); err != nil || !v.Holds {
			return search.Served{}, err
		}
	}
	var best search.Served
	for hi-lo > 1 {
		k := (lo + hi) / 2
		v, err := s.At(ctx, s.rate(k), ns)
		if err != nil {
			return v, err
		}
		if v.Holds {
			lo, best = k, v
			best.Value = s.rate(k)
		} else {
			hi = k
		}
	}
	return best, s.trust(best, lo, top)
}

// trust returns an error if there were too few requests to prove the rate, or if no higher rate could be tried.
func (s *Service) trust(best search.Served, k, top int) error {
	if best.Value == 0 {
		return nil
	}
	if n := s.flags.enough(best.Value); s.flags.N < n {
		return &ShortError{s.flags.enough(s.rate(top)), fmt.Sprintf("%v: %.6g a second hold of --n %d, which arrive within %.3g deadlines of --slo %v ms: what holds so shortly need not hold for long",
			ErrShort, best.Value, s.flags.N, float64(s.flags.N)/best.Value/(s.flags.SLO/1e3), s.flags.SLO)}
	}
	if k >= int(math.Floor(s.steps(mostRate))) {
		return fmt.Errorf("%w: %.6g a second, of --n %d", ErrFast, best.Value, s.flags.N)
	}
	return nil
}

// At simulates a design at a rate, once for each seed.
func (s *Service) At(ctx context.Context, rate float64, ns search.Cycles) (search.Served, error) {
	var missed, good []float64
	for _, d := range s.draws {
		sum, err := s.run(ctx, rate, d, ns)
		if err != nil {
			return search.Served{}, err
		}
		missed, good = append(missed, float64(sum.Violations)/float64(s.flags.N)), append(good, sum.Goodput)
	}
	var v search.Served
	v.Violations, v.CI95 = frame.Interval(missed)
	v.Goodput, v.GCI95 = frame.Interval(good)
	v.Holds = v.Upper() <= s.flags.MaxViolations && s.sustains(rate, ns)
	return v, nil
}

func (s *Service) run(ctx context.Context, rate float64, d draw, ns search.Cycles) (engine.Summary, error) {
	late := engine.Summary{Violations: int64(s.flags.N)}
	times, err := load.Poisson(rate, s.flags.N, d.seed)
	if err != nil {
		return late, err
	}
	dev := soft.New(s.stands[0].Design, soft.Options{Executor: func(*bundle.Bundle) (soft.Executor, error) { return exiter{}, nil }})
	defer dev.Close()
	var networks []engine.Network
	for i, p := range s.w.Parts {
		b := *s.stands[i]
		b.Latency = nil
		for batch := 1; batch <= abi.BMax; batch++ {
			for first := range p.Segments {
				t := int64(0)
				for last := first; last < p.Segments; last++ {
					t += ns[batch-1][p.First+last]
					b.Latency = append(b.Latency, bundle.LatencyEntry{Network: b.Network.Name, Device: "soft", First: first, Last: last, Batch: batch, P50: t, P99: t})
				}
			}
		}
		if err := dev.Load(ctx, &b); err != nil {
			return late, err
		}
		table, err := sched.NewTable(b.Latency, b.Network.Name)
		if err != nil {
			return late, err
		}
		networks = append(networks, engine.Network{Name: b.Network.Name, Tables: []*sched.Table{table}})
	}
	policy, err := sched.New(s.flags.Policy, sched.Options{})
	if err != nil {
		return late, err
	}
	input := make([]int16, 1)
	res, err := engine.Run(ctx, engine.Config{
		Devices:  []device.Device{device.Adapt(dev)},
		Networks: networks,
		Policy:   policy,
		Source: &load.Open{Times: times, Task: func(i int, at int64) sched.Task {
			return sched.Task{Network: networks[d.part[i]].Name, Created: at, Deadline: at + s.slo, Theta: exitTheta, Samples: 1}
		}},
		Inputs: engine.WordInputs(func(r *sched.Request) ([]int16, error) {
			input[0] = int16(d.exit[int(r.ID-1)%len(d.exit)])
			return input, nil
		}),
		Keep: engine.Counts,
	})
	if err != nil {
		return late, err
	}
	return res.Summary(), nil
}
