package search

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/sluice-npu/sluice/dse/cost"
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
)

// Objective names the value that the search maximises.
type Objective string

// Objectives. A higher value is always better, so latencies and costs have a negative sign.
const (
	GOPS       Objective = "gops"         // mean GOP/s, weighted over batch sizes (equation 2)
	Latency    Objective = "latency"      // at B = 1, to the exits at which requests leave
	Throughput Objective = "throughput"   // samples per second, weighted over batch sizes, with exits
	GOPSPerDSP Objective = "gops-per-dsp" // weighted GOP/s per DSP
	Goodput    Objective = "goodput"      // requests per second that are served in time, from Options.Service
	Rate       Objective = "rate"         // the highest arrival rate at which the limit on violations holds
	Cheapest   Objective = "cheapest"     // the lowest Options.Cost of a design on which the limit on violations holds
)

// Objectives lists all objectives.
var Objectives = []Objective{GOPS, Latency, Throughput, GOPSPerDSP, Goodput, Rate, Cheapest}

// Simulated reports whether a design's value requires a simulation of serving.
func (o Objective) Simulated() bool { return o == Goodput || o == Rate || o == Cheapest }

// Cost names the cost that Cheapest minimises.
type Cost string

// Costs.
const (
	CostLUT    Cost = "lut"
	CostDSP    Cost = "dsp"
	CostBRAM   Cost = "bram"   // number of BRAM36; a URAM counts as eight
	CostEnergy Cost = "energy" // pJ per sample, from Options.Energy
)

// Costs lists all kinds of cost.
var Costs = []Cost{CostDSP, CostLUT, CostBRAM, CostEnergy}

// uramBRAM is the number of 36 Kibit blocks with the capacity of a URAM.
const uramBRAM = 8

// Served is the result of a simulation of serving.
type Served struct {
	// Value for Goodput is the number of requests per second that are served in time. Value for Rate is the highest
	// arrival rate at which the limit on violations holds, or 0 if it holds at no rate.
	Value float64 `json:"value"`
	Holds bool    `json:"holds"` // for Cheapest: the limit on violations holds
	// Violations is the share of requests that were not served in time, as a mean over seeds. CI95 is half of its 95 %
	// confidence interval, or nil for one seed. For Rate, both belong to the arrival rate Value.
	Violations float64  `json:"violations"`
	CI95       *float64 `json:"ci95"`
	// Goodput is the mean over seeds of requests per second served in time. GCI95 is half of its 95 % interval.
	Goodput float64  `json:"goodput"`
	GCI95   *float64 `json:"goodput_ci95"`
}

// Upper returns the upper end of the confidence interval of Violations, or Violations if there is no interval.
func (s *Served) Upper() float64 {
	if s.CI95 == nil {
		return s.Violations
	}
	return s.Violations + *s.CI95
}

// Service simulates serving. Its functions must be pure, so that sweeps are repeatable.
type Service struct {
	// Serve simulates a design. The parameter ns contains the design's latencies in ns by batch size and segment. For
	// Rate, Serve may return 0 if Value would be below `beat`.
	Serve func(ctx context.Context, d configs.Design, ns Cycles, beat float64) (Served, error)
	// Most returns an upper bound of Value for all designs with latencies of at least ns. It also reports whether the
	// limit on violations can hold for one of them.
	Most func(ns Cycles) (value float64, holds bool)
	// Asked lists everything that Serve depends on, except the arguments. It is stored in the file Options.State.
	Asked []Param
}

// check returns an error for options that do not match the objective.
func (o *Options) check() error {
	switch {
	case !slices.Contains(Objectives, o.Objective):
		return fmt.Errorf("there is no objective %q", o.Objective)
	case o.Objective.Simulated() && (o.Service == nil || o.Service.Serve == nil || o.Service.Most == nil):
		return fmt.Errorf("the objective %s needs a simulation", o.Objective)
	case o.Objective == Cheapest && !slices.Contains(Costs, o.Cost):
		return fmt.Errorf("there is no cost %q", o.Cost)
	case o.Objective == Cheapest && o.Cost == CostEnergy && o.Energy == nil:
		return errors.New("the cost energy needs a model of it")
	case o.Workers < 0:
		return fmt.Errorf("%d workers", o.Workers)
	case o.MaxLatency < 0:
		return fmt.Errorf("a latency of at most %d ns", o.MaxLatency)
	case !(o.Band >= 0) || o.Band >= 1 || !(o.CostBand >= 0) || o.CostBand >= 1:
		return fmt.Errorf("bands of %v and %v, must be at least 0 and less than 1", o.Band, o.CostBand)
	}
	return nil
}

// Reach returns the share of a network's requests that run each segment. nil means that all requests run all segments.
func Reach(w *Workload, exits []float64) ([]float64, error) {
	if exits == nil {
		return nil, nil
	}
	if len(exits) != w.Segments {
		return nil, fmt.Errorf("%w: %d exit rates, %d exits", ErrWeights, len(exits), w.Segments)
	}
	out := make([]float64, w.Segments)
	for _, p := range w.Parts {
		left := 0.0
		for i := p.First + p.Segments - 1; i >= p.First; i-- {
			if v := exits[i]; !(v >= 0) || v > 1 {
				return nil, fmt.Errorf("%w: an exit rate of %v, must be 0..1", ErrWeights, v)
			}
			left += exits[i]
			out[i] = left
		}
		if math.Abs(left-1) > 1e-6 {
			return nil, fmt.Errorf("%w: the exit rates of %s add up to %v, not 1", ErrWeights, p.Name, left)
		}
	}
	return out, nil
}

// times computes the values of a point that depend on its cycles c.
func (s *sweep) times(p *Point, c Cycles) {
	d := p.Design
	p.Cycles, p.GOPS, p.Samples = c, 0, 0
	p.B1NS = nanoseconds(d, s.w.mean(c, 1, nil))
	p.ExitNS = nanoseconds(d, s.w.mean(c, 1, s.reach))
	sum := 0.0
	for b := 1; b <= abi.BMax; b++ {
		p.ByB[b-1] = gopsOf(d, s.w.meanMACs, b, s.w.mean(c, b, nil))
		p.GOPS += s.o.Weights[b-1] * p.ByB[b-1]
		p.Samples += s.o.Weights[b-1] * float64(b) * d.ClockMHz * 1e6 / s.w.mean(c, b, s.reach)
		sum += s.o.Weights[b-1]
	}
	p.GOPS /= sum
	p.Samples /= sum
}

func nanoseconds(d configs.Design, cycles float64) int64 {
	return cost.Nanoseconds(d, int64(math.Ceil(cycles)))
}

func gopsOf(d configs.Design, macs float64, batch int, cycles float64) float64 {
	return 2 * macs * float64(batch) * d.ClockMHz / (cycles * 1000)
}

// GOPSOf returns the number of giga-operations per second. A MAC counts as two operations.
func GOPSOf(d configs.Design, macs int64, batch int, cycles int64) float64 {
	return gopsOf(d, float64(macs), batch, float64(cycles))
}

// late reports whether some network exceeds the latency limit at B = 1.
func (s *sweep) late(p *Point) bool {
	if s.o.MaxLatency == 0 {
		return false
	}
	for _, w := range s.w.Parts {
		n := int64(0)
		for _, c := range p.Cycles[0][w.First : w.First+w.Segments] {
			n += c
		}
		if cost.Nanoseconds(p.Design, n) > s.o.MaxLatency {
			return true
		}
	}
	return false
}

// Nanoseconds returns the latencies of a point in ns, by batch size and segment.
func (p *Point) Nanoseconds() Cycles {
	var out Cycles
	for b := range out {
		for _, c := range p.Cycles[b] {
			out[b] = append(out[b], cost.Nanoseconds(p.Design, c))
		}
	}
	return out
}

// costOf returns the cost of a point that Cheapest minimises. If least is true, it may return a lower bound instead.
func (s *sweep) costOf(p *Point, least bool) (float64, error) {
	switch s.o.Cost {
	case CostLUT:
		return float64(p.LUT), nil
	case CostBRAM:
		return p.BRAM36 + uramBRAM*float64(p.URAM), nil
	case CostEnergy:
		if !least {
			var err error
			if p.PJ, err = s.o.Energy.Of(s.w, p.Design, s.g.Mapping, s.o.Weights, s.reach); err != nil {
				return 0, err
			}
		}
		return p.PJ, nil
	}
	return float64(p.DSP), nil
}

// judged sets the value of an evaluated point. If the point cannot reach wanted(), it sets an upper bound instead.
func (s *sweep) judged(p *Point) error {
	p.Value, p.Fails = s.optimistic(*p)
	if !s.o.Objective.Simulated() {
		return nil
	}
	if (p.Fails || s.unwanted(p.Value)) && !s.o.Exhaustive {
		p.AtMost = true
		return nil
	}
	beat := 0.0
	if s.o.Objective == Rate && !s.o.Exhaustive {
		beat = s.wanted()
	}
	v, err := s.o.Service.Serve(s.ctx, p.Design, p.Nanoseconds(), beat)
	if err != nil {
		return err
	}
	p.Served = &v
	if s.o.Objective == Cheapest {
		if p.Fails = !v.Holds; p.Fails {
			return nil
		}
		c, err := s.costOf(p, false)
		p.Value = -c
		return err
	}
	p.Value = v.Value
	p.Fails = s.o.Objective == Rate && v.Value == 0
	if math.IsNaN(p.Value) || math.IsInf(p.Value, 0) {
		return fmt.Errorf("the simulation of <%d, %d, %d> answers %v", p.TR, p.TP, p.TC, p.Value)
	}
	return nil
}

// optimistic returns an upper bound of the values of designs that are no better than p, and whether all of them exceed
// the limit on violations.
func (s *sweep) optimistic(p Point) (value float64, fails bool) {
	switch s.o.Objective {
	case Latency:
		return -float64(p.ExitNS), false
	case Throughput:
		return p.Samples, false
	case GOPSPerDSP:
		return p.GOPS / float64(p.DSP), false
	case Goodput, Rate:
		v, holds := s.o.Service.Most(p.Nanoseconds())
		return v, !holds
	case Cheapest:
		c, err := s.costOf(&p, true)
		if err != nil {
			return math.Inf(1), false // the evaluation of the design returns the error
		}
		_, holds := s.o.Service.Most(p.Nanoseconds())
		return -c, !holds
	}
	return p.GOPS, false
}

// loosened returns the lowest value that is not certainly worse than v; both are uncertain by the band.
func (s *sweep) loosened(v float64) float64 {
	band := s.o.Band
	if s.o.Objective == Cheapest {
		band = s.o.CostBand
	}
	if v < 0 {
		return v * (1 + band) / (1 - band)
	}
	return v * (1 - band) / (1 + band)
}

// wanted returns the lowest value that still matters: within the band of the best value found, or equal to a reference.
func (s *sweep) wanted() float64 { return min(s.loosened(s.top), s.floor) }

func (s *sweep) unwanted(v float64) bool { return v < s.wanted() }
