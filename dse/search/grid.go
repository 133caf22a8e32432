package search

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/sluice-npu/sluice/boards"
	"github.com/sluice-npu/sluice/dse/mapping"
	"github.com/sluice-npu/sluice/dse/resource"
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
)

// Errors.
var (
	ErrGrid    = errors.New("bad grid")
	ErrWeights = errors.New("bad objective weights")
	ErrEmpty   = errors.New("no design fits the board")
	ErrRTL     = errors.New("the RTL does not elaborate")
)

// Grid defines which designs and mappings are searched. A result is optimal only within its grid.
type Grid struct {
	Board    boards.Board
	Template configs.Design // parameters that are not searched: ports, loader, drain, ring, clock, DRAM

	Axes   Axes
	Budget Budget

	TP, TC, TR Range // ranges that the RTL accepts: T_P (the type limits it further), T_C, T_R (powers of two)
	Mapping    mapping.Options
}

// Range is an inclusive range.
type Range struct {
	Lo int `json:"lo"`
	Hi int `json:"hi"`
}

// NewGrid returns the grid of all designs for a board. The template sets all parameters that are not searched.
func NewGrid(b boards.Board, template configs.Design) (Grid, error) {
	if err := b.Validate(); err != nil {
		return Grid{}, err
	}
	if err := template.Elaborates(); err != nil {
		return Grid{}, fmt.Errorf("template: %w", err)
	}
	g := Grid{
		Board: b, Template: template,
		TP: Range{2, configs.MaxTP8}, TC: Range{4, 512}, TR: Range{16, 1 << 16},
		Mapping: mapping.RTL(),
	}
	return g, nil
}

// Check returns an error for empty ranges and for invalid axes.
func (g Grid) Check() error {
	if err := errors.Join(g.Axes.check(), g.Budget.check()); err != nil {
		return err
	}
	for _, r := range []struct {
		name   string
		r      Range
		lo, hi int
	}{
		{"T_P", g.TP, 2, configs.MaxTP8}, {"T_C", g.TC, 2, 512}, {"T_R", g.TR, 16, 1 << 16},
	} {
		if r.r.Lo < r.lo || r.r.Hi > r.hi || r.r.Lo > r.r.Hi {
			return fmt.Errorf("%w: %s is %d..%d, must be LO..HI in %d..%d", ErrGrid, r.name, r.r.Lo, r.r.Hi, r.lo, r.hi)
		}
	}
	for _, d := range g.types() {
		least, most := d.Chains()
		if g.TP.Hi < least || g.TP.Lo > most {
			return fmt.Errorf("%w: T_P is %d..%d, of %s there are %d..%d", ErrGrid, g.TP.Lo, g.TP.Hi, cmp.Or(d.Type, configs.TypeInt16), least, most)
		}
	}
	return nil
}

// types returns one design of each element type that is searched.
func (g Grid) types() (of []configs.Design) {
	types := g.Axes.Type
	if types == nil {
		types = []string{g.Template.Type}
	}
	for _, name := range types {
		of = append(of, configs.Design{}.Typed(name))
	}
	return of
}

// chains returns the range of chain lengths that is searched for the type of a design.
func (g Grid) chains(d configs.Design) Range {
	least, most := d.Chains()
	return Range{max(g.TP.Lo, least), min(g.TP.Hi, most)}
}

// String returns a text that describes the grid.
func (g Grid) String() string {
	orders := "row tile outermost"
	if g.Mapping.Orders == nil || len(g.Mapping.Orders) > 1 {
		orders = "both loop orders"
	}
	points := "all <k, s>"
	if g.Mapping.Points != nil {
		var names []string
		for _, p := range g.Mapping.Points {
			names = append(names, fmt.Sprintf("<%v, %d>", p.K, p.S))
		}
		points = "<k, s> in " + strings.Join(names, " ")
	}
	where := "block RAM"
	if g.Board.URAM > 0 {
		where = "block RAM and URAM"
	}
	more := ""
	if axes := g.Axes.String(); axes != "" {
		more = "; in place of these every combination of " + axes
	}
	may := g.allowedBoard()
	if g.Budget != (Budget{}) {
		more += fmt.Sprintf("; of the %s at most %d DSPs, %d BRAM36, %d URAMs, %d LUTs and %d registers", g.Board.Device, may.DSP, may.BRAM36, may.URAM, may.LUT, may.FF)
	}
	// texts by type: lengths of a chain; number of MACs
	var chains, macs []string
	for _, d := range g.types() {
		tp := g.chains(d)
		chain := fmt.Sprintf("T_P %d..%d", tp.Lo, tp.Hi)
		if d.Int8() {
			chain += " of int8"
		}
		chains, macs = append(chains, chain), append(macs, fmt.Sprint(d.PerDSP()*(may.DSP-d.PoolDSPs())))
	}
	return fmt.Sprintf("%s, T_C %d..%d in steps of 4 with T_P T_C <= %s, T_R powers of two in %d..%d; "+
		"DRAIN the largest even divisor of T_C/2 up to %d, C_MAX the smallest multiple of it from %d, W_LOAD %d, ring %d beats, "+
		"%d ports of %d bytes, %g MHz, DRAM %g bytes/cycle and %d cycles; "+
		"activations take what remains of the %s; a layer and batch: %s, %s, B_R = ceil(B/s), TILE_B 1..B_R, "+
		"TILE_ROWS all up to a height of 64, above that the smallest for each number of row tiles%s",
		strings.Join(chains, " and "), g.TC.Lo, g.TC.Hi, strings.Join(macs, " and "), g.TR.Lo, g.TR.Hi,
		g.Template.Drain, cMaxFrom, g.Template.WLoad, g.Template.WRingBeats,
		g.Template.NAXI, g.Template.AXIBytes, g.Template.ClockMHz, g.Template.DRAM.BytesPerCycle, g.Template.DRAM.LatencyCycles,
		where, points, orders, more)
}

// cMaxFrom is a number of output channels that every design of a grid supports: the maximum in the zoo.
const cMaxFrom = 2048

// At returns the design at <T_R, T_P, T_C> with the largest activation buffer that fits, or the reason if none exists.
func (g Grid) At(tr, tp, tc int) (configs.Design, error) {
	v := variant{d: g.Template}
	v.d.Name = g.Board.Name
	return v.at(g.allowedBoard(), tr, tp, tc)
}

// at returns the same as At for the template v.
func (v variant) at(b boards.Board, tr, tp, tc int) (configs.Design, error) {
	d, drain := v.d, v.d.Drain
	d.Name = fmt.Sprintf("%s-r%d-p%d-c%d", d.Name, tr, tp, tc)
	d.Reason = "a point of a design space search"
	d.TR, d.TP, d.TC = tr, tp, tc
	if d.Drain = drainFor(tc, min(drain, d.NB())); d.Drain == 0 {
		return d, fmt.Errorf("%w: drain: T_C / 2 = %g has no even divisor", ErrRTL, float64(tc)/2)
	}
	d.CMax = (cMaxFrom + d.Drain - 1) / d.Drain * d.Drain
	d, err := resource.FillABuf(b, d, v.abuf)
	if err != nil {
		return d, err
	}
	if err := d.Elaborates(); err != nil {
		return d, fmt.Errorf("%w: %w", ErrRTL, err)
	}
	return d, resource.Of(b, d).Check(b)
}

// drainFor returns the largest even divisor of T_C / 2 up to the argument most, or 0 if there is none.
func drainFor(tc, most int) int {
	if tc%2 != 0 {
		return 0
	}
	for n := most &^ 1; n >= 2; n -= 2 {
		if (tc/2)%n == 0 {
			return n
		}
	}
	return 0
}

// pair contains the designs with the same <T_P, T_C> and template, in ascending order of T_R.
type pair struct {
	tp, tc  int
	designs []configs.Design
	points  []Point // by design, without times
	tooMany int     // number of designs on which the network has more than L_MAX layers
}

// refusals counts the points of a grid that are not legal designs, by reason: the RTL, or the first resource of the
// board that is too small.
type refusals struct {
	points map[string]int
	sample map[string]string // message about the first point with this reason
}

func (r *refusals) add(why string, d configs.Design, err error) {
	if r.points[why]++; r.points[why] == 1 {
		of := ""
		if d.Int8() {
			of = " of int8"
		}
		r.sample[why] = fmt.Sprintf("<%d, %d, %d>%s: %v", d.TR, d.TP, d.TC, of, err)
	}
}

// String returns the reasons with their numbers of points. It returns "" if all points are legal designs.
func (r *refusals) String() string {
	var why []string
	for _, reason := range slices.Sorted(maps.Keys(r.points)) {
		why = append(why, fmt.Sprintf("%d points: %s, as %s", r.points[reason], reason, r.sample[reason]))
	}
	if why == nil {
		return ", and the grid has no point"
	}
	return "; refused " + strings.Join(why, "; ")
}

// pairs returns the legal designs of the grid, and counts the other points.
func (g Grid) pairs() (all []pair, refused *refusals) {
	refused = &refusals{map[string]int{}, map[string]string{}}
	b := g.allowedBoard()
	seen := map[configs.Design]bool{} // templates may differ only in a parameter that some design does not use
	for _, v := range g.variants() {
		pool := configs.Design{Type: v.d.Type}.PoolDSPs() // minimum DSPs of a pool unit
		chain := g.chains(v.d)
		for tp := chain.Lo; tp <= chain.Hi; tp++ {
			for tc := (g.TC.Lo + 3) / 4 * 4; tc <= g.TC.Hi; tc += 4 {
				if tp*tc/v.d.PerDSP()+pool > b.DSP {
					break
				}
				p := pair{tp: tp, tc: tc}
				for tr := g.TR.Lo; tr <= g.TR.Hi; tr++ {
					if tr&(tr-1) != 0 {
						continue
					}
					d, err := v.at(b, tr, tp, tc)
					if err != nil {
						var short *resource.Short
						switch {
						case errors.Is(err, ErrRTL):
							refused.add("RTL", d, err)
						case errors.As(err, &short):
							refused.add(short.What, d, err)
						default:
							refused.add("memory", d, err)
						}
						continue
					}
					same := d
					same.Name = ""
					if seen[same] {
						continue
					}
					seen[same] = true
					p.designs = append(p.designs, d)
					p.points = append(p.points, pointOf(g.Board, d))
				}
				if len(p.designs) > 0 {
					all = append(all, p)
				}
			}
		}
	}
	return all, refused
}

// pointOf returns a point with a design and the design's resources.
func pointOf(b boards.Board, d configs.Design) Point {
	e := resource.Of(b, d)
	return Point{
		Design: d, TR: d.TR, TP: d.TP, TC: d.TC, DSP: e.DSP, BRAM36: e.BRAM36, URAM: e.URAM, LUT: e.LUT.Value, FF: e.FF.Value,
	}
}

// Weights contains the weights w_b of the paper's equation 2, for B = 1..8.
type Weights [abi.BMax]float64

// Uniform returns the weights that the paper uses: w_b = 1.
func Uniform() Weights {
	var w Weights
	for i := range w {
		w[i] = 1
	}
	return w
}

// Check returns an error for negative weights, for NaN, and if all weights are zero.
func (w Weights) Check() error {
	sum := 0.0
	for i, v := range w {
		if math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
			return fmt.Errorf("%w: w_%d is %v, must be a number of at least 0", ErrWeights, i+1, v)
		}
		sum += v
	}
	if sum == 0 || math.IsInf(sum, 0) {
		return fmt.Errorf("%w: their sum is %v", ErrWeights, sum)
	}
	return nil
}
