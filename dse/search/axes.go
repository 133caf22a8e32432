package search

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/sluice-npu/sluice/boards"
	"github.com/sluice-npu/sluice/hw/configs"
)

// Axes lists the values of the parameters that a grid varies in addition to <T_R, T_P, T_C>. Every combination of
// values is one template. An axis without values uses the value of the grid's template.
type Axes struct {
	ClockMHz      []float64 `json:"clock_mhz,omitempty"`       // the DRAM keeps its bytes per second and its latency in ns
	BytesPerCycle []float64 `json:"bytes_per_cycle,omitempty"` // of the DRAM, at the template's clock
	NAXI          []int     `json:"n_axi,omitempty"`
	AXIBytes      []int     `json:"axi_bytes,omitempty"`
	WLoad         []int     `json:"w_load,omitempty"`
	Drain         []int     `json:"drain,omitempty"` // upper limit
	WRingBeats    []int     `json:"wring_beats,omitempty"`
	ABufWords     []int     `json:"abuf_words,omitempty"` // upper limit; 0: all memory that is free
	Depthwise     []bool    `json:"depthwise,omitempty"`  // true: with the depthwise unit
	Post          []bool    `json:"post,omitempty"`       // true: with hardware for products and curves
	Type          []string  `json:"type,omitempty"`       // "int16" or "int8"
}

// axis is one of the Axes: its name for messages, its mark in names of designs, the number n of its values, and a
// function that sets one of them.
type axis struct {
	name, mark string
	n          int
	set        func(v *variant, i int) string
}

// variant is a template; abuf limits the words per bank of the activation buffer (0: no limit).
type variant struct {
	d    configs.Design
	abuf int
}

func (a *Axes) list() []axis {
	whole := func(name, mark string, values []int, at func(*variant) *int) axis {
		return axis{name, mark, len(values), func(v *variant, i int) string {
			*at(v) = values[i]
			return fmt.Sprint(values[i])
		}}
	}
	option := func(name, mark string, values []bool, at func(*variant) *bool) axis {
		return axis{name, mark, len(values), func(v *variant, i int) string {
			*at(v) = values[i]
			return map[bool]string{false: "off", true: "on"}[values[i]]
		}}
	}
	return []axis{
		{"BYTES/CYCLE", "m", len(a.BytesPerCycle), func(v *variant, i int) string {
			v.d.DRAM.BytesPerCycle = a.BytesPerCycle[i]
			return fmt.Sprint(a.BytesPerCycle[i])
		}},
		{"clock", "f", len(a.ClockMHz), func(v *variant, i int) string {
			slower := v.d.ClockMHz / a.ClockMHz[i]
			v.d.ClockMHz = a.ClockMHz[i]
			v.d.DRAM.BytesPerCycle *= slower
			v.d.DRAM.LatencyCycles = int(math.Ceil(float64(v.d.DRAM.LatencyCycles)/slower - 1e-9))
			return fmt.Sprint(a.ClockMHz[i])
		}},
		whole("ports", "n", a.NAXI, func(v *variant) *int { return &v.d.NAXI }),
		whole("bytes of a port", "x", a.AXIBytes, func(v *variant) *int { return &v.d.AXIBytes }),
		whole("W_LOAD", "w", a.WLoad, func(v *variant) *int { return &v.d.WLoad }),
		whole("DRAIN", "d", a.Drain, func(v *variant) *int { return &v.d.Drain }),
		whole("ring", "b", a.WRingBeats, func(v *variant) *int { return &v.d.WRingBeats }),
		whole("ABUF_WORDS", "a", a.ABufWords, func(v *variant) *int { return &v.abuf }),
		option("depthwise unit", "dw", a.Depthwise, func(v *variant) *bool { return &v.d.Depthwise }),
		option("products and curves", "post", a.Post, func(v *variant) *bool { return &v.d.Post }),
		{"type", "", len(a.Type), func(v *variant, i int) string {
			name := v.d.Name
			v.d = v.d.Typed(a.Type[i])
			v.d.Name = name // Typed changes the name, but other axes do not
			return a.Type[i]
		}},
	}
}

// maxVariants limits the number of templates of a grid.
const maxVariants = 4096

// check returns an error for values that no design can have.
func (a *Axes) check() error {
	n := 1
	for _, x := range a.list() {
		n *= max(1, x.n)
	}
	if n > maxVariants {
		return fmt.Errorf("%w: the axes make %d templates, at most %d are searched", ErrGrid, n, maxVariants)
	}
	for _, x := range []struct {
		name   string
		values []float64
		most   float64
	}{{"clock", a.ClockMHz, 1000}, {"bandwidth", a.BytesPerCycle, 1024}} {
		for _, v := range x.values {
			if !(v > 0) || v > x.most {
				return fmt.Errorf("%w: the axis %s has %v, must be more than 0, at most %v", ErrGrid, x.name, v, x.most)
			}
		}
	}
	for _, v := range slices.Concat(a.NAXI, a.AXIBytes, a.WLoad, a.Drain, a.WRingBeats) {
		if v < 1 || v > 1<<16 {
			return fmt.Errorf("%w: an axis has %d, must be 1..65536", ErrGrid, v)
		}
	}
	for _, v := range a.ABufWords {
		if v != 0 && (v < 1024 || v > 1<<16) {
			return fmt.Errorf("%w: an axis of ABUF_WORDS has %d, must be 0 (all there is) or 1024..65536", ErrGrid, v)
		}
	}
	for _, v := range a.Type {
		if v != configs.TypeInt16 && v != configs.TypeInt8 {
			return fmt.Errorf("%w: the axis of types has %q, must be int16 or int8", ErrGrid, v)
		}
	}
	for _, x := range a.list() {
		seen := map[string]bool{}
		for i := range x.n {
			value := x.set(&variant{}, i)
			if seen[value] {
				return fmt.Errorf("%w: the axis %s has %s twice", ErrGrid, x.name, value)
			}
			seen[value] = true
		}
	}
	return nil
}

// variants returns the templates of the grid. Each of them has a different name.
func (g *Grid) variants() []variant {
	all := []variant{{d: g.Template}}
	all[0].d.Name = g.Board.Name
	for _, x := range g.Axes.list() {
		if x.n == 0 {
			continue
		}
		var next []variant
		for _, v := range all {
			for i := range x.n {
				w := v
				text := x.set(&w, i)
				if x.n > 1 {
					w.d.Name += "-" + x.mark + strings.ReplaceAll(text, ".", "_")
				}
				next = append(next, w)
			}
		}
		all = next
	}
	return all
}

func (a *Axes) String() string {
	var out []string
	for _, x := range a.list() {
		if x.n == 0 {
			continue
		}
		var values []string
		for i := range x.n {
			values = append(values, x.set(&variant{}, i))
		}
		out = append(out, x.name+" "+strings.Join(values, ", "))
	}
	return strings.Join(out, "; ")
}

// Budget limits the resources of designs. A limit of 0 means all resources of the board except the share Margin.
type Budget struct {
	DSP    int     `json:"dsp,omitempty"`
	BRAM36 int     `json:"bram36,omitempty"`
	URAM   int     `json:"uram,omitempty"`
	LUT    int     `json:"lut,omitempty"`
	FF     int     `json:"ff,omitempty"`
	Margin float64 `json:"margin,omitempty"`
}

// check returns an error for an invalid budget.
func (b Budget) check() error {
	if b.Margin < 0 || b.Margin >= 1 || math.IsNaN(b.Margin) {
		return fmt.Errorf("%w: the margin is %v, must be at least 0 and less than 1", ErrGrid, b.Margin)
	}
	for _, v := range []int{b.DSP, b.BRAM36, b.URAM, b.LUT, b.FF} {
		if v < 0 {
			return fmt.Errorf("%w: a limit of %d, must be at least 0 (0: none)", ErrGrid, v)
		}
	}
	return nil
}

// of returns the given board with its resources reduced to the budget.
func (b Budget) of(board boards.Board) boards.Board {
	if b == (Budget{}) {
		return board
	}
	board.Device += " within its budget"
	for _, r := range []struct {
		have *int
		most int
	}{{&board.DSP, b.DSP}, {&board.BRAM36, b.BRAM36}, {&board.URAM, b.URAM}, {&board.LUT, b.LUT}, {&board.FF, b.FF}} {
		*r.have = int(float64(*r.have)*(1-b.Margin) + 1e-9)
		if r.most > 0 {
			*r.have = min(*r.have, r.most)
		}
	}
	return board
}

// allowedBoard returns the board with the resources that the grid's designs may use.
func (g *Grid) allowedBoard() boards.Board { return g.Budget.of(g.Board) }
