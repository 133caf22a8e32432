// Package mapping maps one layer to a design: Check decides which <k, s>, loop order and row tile an FBCB entry may
// have, and Choose finds the best of them by the law of cycles.
//
// The legal (k, s) are (1/2,1) (1/2,2) (1,1) (1,2) (2,1). A row tile is TILE_B samples times
// TILE_ROWS output rows; it must fit the accumulators (GEMM only) and one half of the activation
// buffer. Row tiles iterate sample blocks outermost, then output rows.
package mapping

import (
	"errors"
	"fmt"
	"math"

	"github.com/sluice-npu/sluice/dse/cost"
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
)

// Point is one way to spread a layer over the PEs: stacking factor and sample groups.
type Point struct {
	K cost.K
	S int
}

// Points lists all legal pairs, the simplest first: it wins a tie.
var Points = []Point{{cost.K1, 1}, {cost.KHalf, 1}, {cost.K2, 1}, {cost.K1, 2}, {cost.KHalf, 2}}

// Options restrict the choices of Choose.
type Options struct {
	Points []Point // nil: all that the design builds
	Orders []bool  // nil: both; false is order 0 (row tile outermost)
	Spill  bool    // every tensor goes through DRAM: Keep keeps none on chip

	// Pick chooses among n legal entries in place of the law, for tests that must reach all of them.
	Pick func(n int) int
}

// Basic allows only what the simplest hardware has: k = 1, s = 1, row tile outermost.
func Basic() Options {
	return Options{Points: []Point{{cost.K1, 1}}, Orders: []bool{false}, Spill: true}
}

// lists returns the points and orders with defaults filled in.
func (o Options) lists() ([]Point, []bool) {
	points, orders := o.Points, o.Orders
	if points == nil {
		points = Points
	}
	if orders == nil {
		orders = []bool{false, true}
	}
	return points, orders
}

// RTL allows everything that the hardware has: every <k, s> of the design, and both loop orders.
func RTL() Options { return Options{} }

// ErrIllegal is wrapped by the errors of Check.
var ErrIllegal = errors.New("illegal FBCB entry")

// ErrNoFit is wrapped if no tile of a layer fits the design.
var ErrNoFit = errors.New("layer does not fit the design")

// Limits of the hardware's counters.
const (
	maxTileRows = 1<<12 - 1     // TILE_ROWS
	maxTileStep = 1<<15 - 1     // (TILE_ROWS - 1) * S_H
	maxPlaces   = abi.PlacesMax // input rows of a tile, all samples
	maxRunBeats = 1<<16 - 2     // wide beats of a command
)

// rowLimit is the number of accumulator rows available to a GEMM tile.
func rowLimit(d configs.Design, k cost.K) int {
	if k == cost.KHalf {
		return d.TR / 2
	}
	return d.TR
}

// Built reports whether a design has the hardware that a point needs.
func Built(d configs.Design, p Point) bool {
	if p.K != cost.K1 && !d.Stack {
		return false
	}
	if p.S != 1 && !d.Fluid {
		return false
	}
	tp, tc := cost.Tree(d, p.K)
	return tp >= 1 && tc/p.S >= 1
}

// illegal is an ErrIllegal whose text is made when somebody reads it: Enumerate asks for most entries in vain.
type illegal struct {
	format string
	args   []any
}

func (e *illegal) Error() string { return ErrIllegal.Error() + ": " + e.reason().Error() }

func (e *illegal) Unwrap() []error { return []error{ErrIllegal, e.reason()} }

func (e *illegal) reason() error { return fmt.Errorf(e.format, e.args...) }

// Check reports whether entry e is legal for a layer of geometry g at batch bact on design d.
func Check(d configs.Design, g cost.Geom, bact int, e abi.FBCB) error {
	fail := func(format string, args ...any) error { return &illegal{format, args} }
	if bact < 1 || bact > abi.BMax {
		return fail("batch %d, must be 1..%d", bact, abi.BMax)
	}
	br, tb, tr, k := int(e.BR), int(e.TileB), int(e.TileRows), cost.K(e.K)
	if br < 1 || br > bact {
		return fail("B_R is %d, must be 1..%d", br, bact)
	}
	s := cost.Groups(e, bact)
	if (bact+s-1)/s != br {
		return fail("B_R is %d, but %d groups of a batch of %d have %d", br, s, bact, (bact+s-1)/s)
	}
	p := Point{k, s}
	if !known(p) {
		return fail("k = %v with s = %d", k, s)
	}
	if !Built(d, p) {
		return fail("k = %v with s = %d is not in this build", k, s)
	}
	if !g.GEMM() && (p != Point{cost.K1, 1} || e.Order) {
		return fail("a pool has k = 1, s = 1, order 0, not k = %v, s = %d", k, s)
	}
	// a row that is one run needs one command; its first and last beat may be shared
	if row := d.ElemBytes() * g.OutW * g.OutC; g.OutPix == g.OutC && row > maxRunBeats*d.WideBytes() {
		return fail("an output row of %d bytes, a run has at most %d", row, maxRunBeats*d.WideBytes())
	}
	if row := d.ElemBytes() * g.InRow(); g.InPix == g.InC && row > maxRunBeats*d.WideBytes() {
		return fail("an input row of %d bytes, a run has at most %d", row, maxRunBeats*d.WideBytes())
	}
	if s == 2 && g.OutC > cost.CTile(d, k, s) {
		return fail("two sample groups have %d PEs each, the layer has %d channels", cost.CTile(d, k, s), g.OutC)
	}
	if e.Order {
		all, tile := cost.WeightBytes(d, g, k)
		if need := min(all, tile); need > cost.RingKeeps(d) {
			return fail("loop order 1 keeps a C tile of %d bytes in the weights ring, which can keep %d", need, cost.RingKeeps(d))
		}
	}
	if err := checkKept(d, g, bact, e); err != nil {
		return fail("%w", err)
	}
	switch {
	case tb < 1 || tb > br:
		return fail("TILE_B is %d, must be 1..%d", tb, br)
	case tr < 1 || tr > g.OutH || tr > maxTileRows:
		return fail("TILE_ROWS is %d, must be 1..%d", tr, min(g.OutH, maxTileRows))
	}
	if g.GEMM() {
		if rows, limit := tb*tr*g.OutW, rowLimit(d, k); rows > limit {
			return fail("a tile of %d x %d x %d = %d rows, T_R = %d holds %d", tb, tr, g.OutW, rows, d.TR, limit)
		}
	}
	if n := (tr - 1) * g.SH; n > maxTileStep {
		return fail("a tile's first and last output row stand %d input rows apart, at most %d", n, maxTileStep)
	}
	if n := tb * g.InRowsOnChip(tr); n > maxPlaces {
		return fail("a tile of %d input rows, at most %d", n, maxPlaces)
	}
	// two sample groups get one half each, which the two tiles in flight share
	room, what := d.ABufElems(), "half the activation buffer"
	if s == 2 {
		room, what = room/2, "a quarter of the activation buffer"
	}
	rows := g.InRowsOnChip(tr)
	if e.KeepIn { // a kept tensor is stored without padding
		rows = g.InH
	}
	if elems := tb * rows * g.InRow(); elems > room {
		return fail("a tile of %d x %d x %d = %d elements, %s holds %d", tb, rows, g.InRow(), elems, what, room)
	}
	return nil
}

func known(p Point) bool {
	for _, q := range Points {
		if p == q {
			return true
		}
	}
	return false
}

// Limits rejects a layer that the build cannot run with any entry, regardless of tiles.
func Limits(d configs.Design, g cost.Geom) error {
	if err := g.Check(); err != nil {
		return err
	}
	if g.Int8 != d.Int8() {
		return fmt.Errorf("%w: a layer of int8 is %t, the design of that type %t", ErrNoFit, g.Int8, d.Int8())
	}
	if g.OutC > d.CMax {
		return fmt.Errorf("%w: %d output channels, the build holds C_MAX = %d", ErrNoFit, g.OutC, d.CMax)
	}
	if g.Op == abi.OpAvgPool && g.BiasCount > d.CMax {
		return fmt.Errorf("%w: %d words of bias memory, the build holds C_MAX = %d", ErrNoFit, g.BiasCount, d.CMax)
	}
	if (g.Product || g.Curve || g.Broadcast()) && !d.Post {
		return fmt.Errorf("%w: a product, a curve or a residual of one pixel, which a build with post has", ErrNoFit)
	}
	if g.Op == abi.OpDepthwise {
		if !d.Depthwise {
			return fmt.Errorf("%w: a depthwise layer, for which a build with depthwise has a unit", ErrNoFit)
		}
		if n := g.DepthwiseWords(d); n > abi.DwWords {
			return fmt.Errorf("%w: %d words of weights, the depthwise unit holds DW_WORDS = %d", ErrNoFit, n, abi.DwWords)
		}
	}
	return nil
}

// allRows is the output height up to which every TILE_ROWS is tried.
const allRows = 64

// Enumerate calls f with every legal entry of a layer. On maps higher than allRows it uses only the smallest of all
// TILE_ROWS that cut the output into the same number of row tiles.
func Enumerate(d configs.Design, g cost.Geom, bact int, o Options, f func(abi.FBCB)) {
	points, orders := o.lists()
	rows := parts(g.OutH)
	if g.OutH <= allRows {
		rows = rows[:0]
		for tr := g.OutH; tr >= 1; tr-- {
			rows = append(rows, tr)
		}
	}
	for _, p := range points {
		if !known(p) || p.S > bact {
			continue
		}
		br := (bact + p.S - 1) / p.S
		for _, order := range orders {
			for tb := br; tb >= 1; tb-- {
				for _, tr := range rows {
					if tr > maxTileRows {
						continue
					}
					e := abi.FBCB{BR: uint8(br), K: uint8(p.K), Order: order, TileB: uint8(tb), TileRows: uint16(tr)}
					if Check(d, g, bact, e) == nil {
						f(e)
					}
				}
			}
		}
	}
}

// parts lists the sizes that cut n into different numbers of parts, the largest size first.
func parts(n int) []int {
	var sizes []int
	for pieces := 1; pieces <= n; {
		size := (n + pieces - 1) / pieces
		sizes = append(sizes, size)
		if size == 1 {
			break
		}
		pieces = (n + size - 2) / (size - 1) // the fewest parts with a smaller size
	}
	return sizes
}

// Choose returns the entry with the fewest cycles. Among equals it returns the first enumerated one, which has the
// simplest point and the largest tiles. The error names need and limit.
func Choose(d configs.Design, g cost.Geom, bact int, o Options) (abi.FBCB, cost.Breakdown, error) {
	if err := Limits(d, g); err != nil {
		return abi.FBCB{}, cost.Breakdown{}, err
	}
	// a point with its bounds, and a legal entry with its own: the law is asked only where that leaves a chance
	type point struct {
		at    Point
		law   cost.Prepared
		parts cost.Floors
		floor cost.Floor
	}
	type entry struct {
		abi.FBCB
		on    *point
		floor int64
	}
	var legal []entry
	var on *point
	Enumerate(d, g, bact, o, func(e abi.FBCB) {
		if p := (Point{cost.K(e.K), cost.Groups(e, bact)}); o.Pick == nil && (on == nil || p != on.at) {
			on = &point{at: p, law: cost.Prepare(d, g, p.K, p.S)}
			on.parts = on.law.Floors()
			on.floor = on.parts.At(bact)
		}
		legal = append(legal, entry{FBCB: e, on: on})
	})
	if len(legal) == 0 {
		err := Fits(d, g)
		if err == nil {
			err = fmt.Errorf("%w: no entry at batch %d (1..%d) within the options (%d points)", ErrNoFit, bact, abi.BMax, len(o.Points))
		}
		return abi.FBCB{}, cost.Breakdown{}, err
	}
	if o.Pick != nil {
		e := legal[o.Pick(len(legal))].FBCB
		return e, cost.Layer(d, g, bact, e), nil
	}
	least := &legal[0]
	for i := range legal {
		e := &legal[i]
		if e.floor = e.on.floor.Tile(e.Order, int(e.TileB), int(e.TileRows), math.MaxInt64); e.floor < least.floor {
			least = e
		}
	}
	limit := least.on.law.Layer(bact, least.FBCB).Total // others may be as fast and come first
	var best abi.FBCB
	var bestTime cost.Breakdown
	for i := range legal {
		e := &legal[i]
		if e.floor > limit {
			continue
		}
		if t := e.on.law.Layer(bact, e.FBCB); bestTime.Total == 0 || t.Total < bestTime.Total {
			best, bestTime = e.FBCB, t
			limit = min(limit, t.Total)
		}
	}
	return best, bestTime, nil
}

// Fits tells whether a layer has an entry on a design at all, which at batch 1 is that of one output row; else the limit
// that this exceeds.
func Fits(d configs.Design, g cost.Geom) error {
	if err := Limits(d, g); err != nil {
		return err
	}
	var i *illegal
	if errors.As(Check(d, g, 1, abi.FBCB{BR: 1, K: uint8(cost.K1), TileB: 1, TileRows: 1}), &i) {
		return fmt.Errorf("%w: one output row is %w", ErrNoFit, i.reason())
	}
	return nil
}
