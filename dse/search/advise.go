package search

import (
	"fmt"

	"github.com/sluice-npu/sluice/boards"
	"github.com/sluice-npu/sluice/dse/cost"
	"github.com/sluice-npu/sluice/dse/mapping"
	"github.com/sluice-npu/sluice/dse/resource"
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
)

// change is a change of a design or of its mapping that may make a layer faster.
type change struct {
	name string
	do   func(d *configs.Design, o *mapping.Options) bool // returns false if the change is impossible
}

// changes lists the changes in order of their cost: no hardware, LUTs, memory, a faster DRAM.
var changes = []change{
	{"C tile outermost (loop order 1)", func(_ *configs.Design, o *mapping.Options) bool {
		had := len(o.Orders) == 1
		o.Orders = nil
		return had
	}},
	{"", func(d *configs.Design, _ *mapping.Options) bool { // DRAIN
		for n := d.Drain + 2; n <= min(d.NB(), d.TC/2); n += 2 {
			if (d.TC/2)%n == 0 {
				d.Drain = n
				d.CMax = ceil(d.CMax, n) * n
				return true
			}
		}
		return false
	}},
	{"", func(d *configs.Design, _ *mapping.Options) bool { // W_LOAD
		d.WLoad *= 2
		return d.WLoad <= d.TC
	}},
	{"", func(d *configs.Design, _ *mapping.Options) bool { // the ring
		d.WRingBeats *= 2
		return d.WRingBeats <= 1<<16
	}},
	{"", func(d *configs.Design, _ *mapping.Options) bool { // T_R
		d.TR *= 2
		return d.TR <= 1<<16
	}},
	{"", func(d *configs.Design, _ *mapping.Options) bool { // activations
		d.ABufWords *= 2
		return d.ABufWords <= 1<<16
	}},
	{"", func(d *configs.Design, _ *mapping.Options) bool { // DRAM
		d.DRAM.BytesPerCycle *= 1.5
		return true
	}},
}

// minSaving is the minimum share of a layer's cycles that a change must save to be reported.
const minSaving = 0.02

// Advise describes the cheapest change of a design that makes a layer at least 2 % faster by the law. It returns "" if
// no change does. If b is not nil and the changed design does not fit the board, the text includes this fact.
func Advise(b *boards.Board, d configs.Design, g cost.Geom, batch int, o mapping.Options) string {
	_, now, err := mapping.Choose(d, g, batch, o)
	if err != nil {
		return "infeasible: " + err.Error()
	}
	for _, c := range changes {
		x, p := d, o
		if !c.do(&x, &p) {
			continue
		}
		if _, then, err := mapping.Choose(x, g, batch, p); err == nil {
			if text := saving(b, d, x, now, then, c.describe(d, x)); text != "" {
				return text
			}
		}
	}
	return ""
}

// AdviseUnit describes how many cycles a depthwise unit would save for a depthwise layer on a design without the unit.
// It returns "" if the layer does not fit the unit, or if the unit saves less than 2 %.
func AdviseUnit(b *boards.Board, d configs.Design, g cost.Geom, batch int) string {
	x, on := d, g
	x.Depthwise, on.Op = true, abi.OpDepthwise
	_, now, err := mapping.Choose(d, g, batch, mapping.RTL())
	_, then, errUnit := mapping.Choose(x, on, batch, mapping.RTL())
	if err != nil || errUnit != nil {
		return ""
	}
	return saving(b, d, x, now, then, "a depthwise unit (depthwise: true)")
}

// saving describes a change from design d to x, and whether x does not fit the board. It returns "" if the change saves
// less than minSaving.
func saving(b *boards.Board, d, x configs.Design, now, then cost.Breakdown, what string) string {
	less := 1 - float64(then.Total)/float64(now.Total)
	if less < minSaving {
		return ""
	}
	text := fmt.Sprintf("%s: %.0f %% fewer cycles", what, 100*less)
	if b != nil {
		if err := resource.Of(*b, x).Check(*b); err != nil && resource.Of(*b, d).Check(*b) == nil {
			text += ", but " + firstLine(err)
		}
	}
	return text
}

// Larger returns the parameters, T_P or T_C, that make a layer at least 2 % faster by the law if they are doubled. The
// result is "T_P", "T_C", "T_P x T_C" for both, or "".
func Larger(d configs.Design, g cost.Geom, batch int) string {
	_, now, err := mapping.Choose(d, g, batch, mapping.RTL())
	if err != nil {
		return ""
	}
	helps := func(x configs.Design) bool {
		_, then, err := mapping.Choose(x, g, batch, mapping.RTL())
		return err == nil && float64(then.Total) <= (1-minSaving)*float64(now.Total)
	}
	deep, wide := d, d
	_, most := d.Chains()
	deep.TP, wide.TC = min(2*d.TP, most), 2*d.TC
	switch p, c := helps(deep), helps(wide); {
	case p && c:
		return "T_P x T_C"
	case p:
		return "T_P"
	case c:
		return "T_C"
	}
	return ""
}

// describe returns a text about the parameters that differ between the designs d and x.
func (c change) describe(d, x configs.Design) string {
	switch {
	case c.name != "":
		return c.name
	case x.Drain != d.Drain:
		return fmt.Sprintf("DRAIN %d", x.Drain)
	case x.WLoad != d.WLoad:
		return fmt.Sprintf("W_LOAD %d", x.WLoad)
	case x.WRingBeats != d.WRingBeats:
		return fmt.Sprintf("a ring of %d beats", x.WRingBeats)
	case x.TR != d.TR:
		return fmt.Sprintf("T_R %d", x.TR)
	case x.ABufWords != d.ABufWords:
		return fmt.Sprintf("activation banks of %d words", x.ABufWords)
	}
	return fmt.Sprintf("a DRAM of %.1f bytes/cycle", x.DRAM.BytesPerCycle)
}

func firstLine(err error) string {
	text := err.Error()
	for i, c := range text {
		if c == '\n' {
			return text[:i]
		}
	}
	return text
}
