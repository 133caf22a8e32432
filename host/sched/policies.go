// This file has the names of policies and their mappings.

package sched

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Errors of New.
var (
	ErrUnknownPolicy = errors.New("unknown policy")
	ErrOptions       = errors.New("policy options")
	ErrRates         = errors.New("exit rates")
)

// Mappings are the ways in which the hardware runs a batch. Each mapping has its own latency table. MappingOf returns
// the mapping with which a policy was published. The caller of New passes the table to the engine.
const (
	MappingFluid = "fluid" // the best mapping for each layer and batch size (Fluid Batching, III-A)
	MappingR     = "r"     // every layer is batched along the rows
	MappingFC    = "fc"    // only fully connected layers are batched; a convolution runs sample by sample
)

// Limited is a policy with a largest batch (Largest). 0 means that the policy has no limit of its own.
type Limited interface{ Largest() int }

// Options are the parameters that policies share.
type Options struct {
	BMax int // largest batch; 0: the limit of the device and its table
	// SLO is the time of which adaptive batchers wait for a share. 0: each request's time from arrival to deadline.
	SLO Time
	// Rates are the shares of requests that leave at each exit, if the shares are known in advance. Their sum must be
	// one. nil means the rates that the engine has seen so far.
	Rates []float64
	// Levels are exit thresholds, in descending order, that fluid+theta may use. Loss is the average loss of accuracy that
	// they may cause. Without levels fluid+theta is the same as fluid+.
	Levels []Level
	Loss   float64
}

func (o *Options) check() error {
	switch {
	case o.BMax < 0:
		return fmt.Errorf("%w: B_max is %d, it must not be negative", ErrOptions, o.BMax)
	case o.SLO < 0:
		return fmt.Errorf("%w: an SLO of %d ns", ErrOptions, o.SLO)
	case !(o.Loss >= 0 && o.Loss <= 1):
		return fmt.Errorf("%w: a loss of accuracy of %g, expected 0..1", ErrOptions, o.Loss)
	}
	for i, l := range o.Levels {
		if len(l.Loss) != len(l.Thetas) || len(l.Thetas) != len(o.Levels[0].Thetas) || slices.ContainsFunc(l.Loss, func(v float64) bool { return !(v >= 0 && v <= 1) }) {
			return fmt.Errorf("%w: level %d has the thresholds %g and the losses %g, expected one an exit, 0..1", ErrOptions, i, l.Thetas, l.Loss)
		}
	}
	if o.Rates != nil {
		return CheckRates(o.Rates)
	}
	return nil
}

// CheckRates returns an error if the shares are not a distribution over the exits.
func CheckRates(rates []float64) error {
	if len(rates) == 0 || len(rates) > MaxSegments {
		return fmt.Errorf("%w: %d of them, expected 1..%d", ErrRates, len(rates), MaxSegments)
	}
	sum := 0.0
	for i, r := range rates {
		if !(r >= 0 && r <= 1) {
			return fmt.Errorf("%w: the share of exit %d is %g", ErrRates, i, r)
		}
		sum += r
	}
	if math.Abs(sum-1) > 1e-6 {
		return fmt.Errorf("%w: they add up to %g, expected 1", ErrRates, sum)
	}
	return nil
}

// entry describes one policy: its name, the mapping with which it was published, and its constructor.
type entry struct {
	name, mapping string
	make          func(Options) Policy
}

// entries returns the policies in the order of printed tables. It is a function, since the package has no global state.
func entries() []entry {
	adapt := func(name, mapping string, percent int64) entry {
		return entry{name, mapping, func(o Options) Policy {
			return AdaptB{BMax: o.BMax, SLO: o.SLO, Percent: percent, Label: name}
		}}
	}
	return []entry{
		{"serial", MappingFluid, func(Options) Policy { return Serial{} }}, // the best mapping for each layer at B = 1
		adapt("fc-adaptb-s", MappingFC, 5),
		adapt("fc-adaptb-m", MappingFC, 45),
		adapt("fc-adaptb-l", MappingFC, 95),
		adapt("r-adaptb-s", MappingR, 5),
		adapt("r-adaptb-m", MappingR, 45),
		adapt("r-adaptb-l", MappingR, 95),
		{"lazy", MappingR, func(o Options) Policy { return Lazy{BMax: o.BMax} }}, // R: the result of the published design search
		{"lazy-idle", MappingR, func(o Options) Policy { return Lazy{BMax: o.BMax, Idle: true} }},
		{"edf", MappingR, func(o Options) Policy { return &EDF{BMax: o.BMax} }}, // R: a system without Fluid Batching
		{"clockwork", MappingR, func(o Options) Policy { return &Clockwork{BMax: o.BMax} }},
		{"fluid", MappingFluid, func(o Options) Policy { return Fluid{BMax: o.BMax} }},
		{"fluid+", MappingFluid, func(o Options) Policy { return &Plus{BMax: o.BMax, Rates: o.Rates} }},
		{"fluid+last", MappingFluid, func(o Options) Policy { return &Plus{BMax: o.BMax, Rates: o.Rates, Last: true} }},
		{"fluid+theta", MappingFluid, func(o Options) Policy {
			return &Plus{BMax: o.BMax, Rates: o.Rates, Theta: true, Levels: o.Levels, Loss: o.Loss}
		}},
		{"fluid+refuse", MappingFluid, func(o Options) Policy { return &Plus{BMax: o.BMax, Rates: o.Rates, Refuse: true} }},
	}
}

// MappingOf returns the mapping with which a policy was published; "" for unknown names.
func MappingOf(name string) string {
	for _, e := range entries() {
		if e.name == name {
			return e.mapping
		}
	}
	return ""
}

// Names returns the names of all policies.
func Names() []string {
	var out []string
	for _, e := range entries() {
		out = append(out, e.name)
	}
	return out
}

// New creates the policy with this name.
func New(name string, o Options) (Policy, error) {
	for _, e := range entries() {
		if e.name != name {
			continue
		}
		if err := o.check(); err != nil {
			return nil, fmt.Errorf("policy %s: %w", name, err)
		}
		return e.make(o), nil
	}
	return nil, unknown(name)
}

func unknown(name string) error {
	names := Names()
	slices.Sort(names)
	return fmt.Errorf("%w %q; there are %s", ErrUnknownPolicy, name, strings.Join(names, ", "))
}
