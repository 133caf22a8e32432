package mapping

import (
	"errors"
	"fmt"
	"slices"

	"github.com/sluice-npu/sluice/dse/cost"
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
)

// This file contains the rules for legal entries: Limits (of a layer), placed (of a point and a loop order), fields and
// need (of a tile). Check applies all these rules, but searches apply them separately.

// ErrIllegal is wrapped by the errors of Check.
var ErrIllegal = errors.New("illegal FBCB entry")

// ErrNoFit is wrapped by errors about layers that do not fit the design with any tile.
var ErrNoFit = errors.New("layer does not fit the design")

// Limits of the hardware's counters.
const (
	maxTileRows = 1<<12 - 1     // maximum of TILE_ROWS
	maxTileStep = 1<<15 - 1     // maximum of (TILE_ROWS - 1) * S_H
	maxPlaces   = abi.PlacesMax // maximum number of input rows of a tile, over all samples
	maxRunBeats = 1<<16 - 2     // maximum number of wide beats of a command
)

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

// Room is the space of a design for tiles: accumulator rows, and elements of half the activation buffer. The law does
// not depend on the room. Therefore, entries have the same cycles on designs that differ only in their room.
type Room struct{ Rows, Elems int }

// RoomOf returns the room of a design.
func RoomOf(d configs.Design) Room { return Room{d.TR, d.ABufElems()} }

// need returns the room that an entry with s sample groups needs. With k = 1/2, each row needs two accumulator rows.
// With two groups, each group needs half of the elements of a tile.
func need(g *cost.Geom, s int, e *abi.FBCB) (n Room) {
	tb, rows := int(e.TileB), g.InRowsOnChip(int(e.TileRows))
	if e.KeepIn { // a kept tensor has no padding
		rows = g.InH
	}
	n.Elems = s * tb * rows * g.InRow()
	if e.KeepOut {
		n.Elems = max(n.Elems, tb*g.OutH*g.OutW*g.OutC)
	}
	if g.GEMM() {
		if n.Rows = tb * int(e.TileRows) * g.OutW; cost.K(e.K) == cost.KHalf {
			n.Rows *= 2
		}
	}
	return n
}

// Need returns the room that the tile of an entry needs, and whether the tile fits the fields of the hardware.
func Need(g *cost.Geom, s int, e *abi.FBCB) (n Room, ok bool) {
	if fields(g, int(e.TileB), int(e.TileRows)) != nil {
		return n, false
	}
	return need(g, s, e), true
}

// Span returns the first and last index of the rooms that are large enough for r. If no room is large enough, first is
// larger than last. Rooms must be sorted by ascending rows and descending elements.
func (r Room) Span(rooms []Room) (first, last int) {
	last = len(rooms) - 1
	for first <= last && rooms[first].Rows < r.Rows {
		first++
	}
	for first <= last && rooms[last].Elems < r.Elems {
		last--
	}
	return first, last
}

// illegal is an ErrIllegal that formats its text only on demand, because Enumerate discards most of these errors.
type illegal struct {
	format string
	args   []any
}

func (e *illegal) Error() string { return ErrIllegal.Error() + ": " + e.reason().Error() }

func (e *illegal) Unwrap() []error { return []error{ErrIllegal, e.reason()} }

func (e *illegal) reason() error { return fmt.Errorf(e.format, e.args...) }

func fail(format string, args ...any) error { return &illegal{format, args} }

// placed returns an error if a point and a loop order are illegal for all tiles of a layer.
func placed(d *configs.Design, g *cost.Geom, p Point, order bool) error {
	switch {
	case !slices.Contains(Points, p):
		return fail("k = %v with s = %d", p.K, p.S)
	case !Built(*d, p):
		return fail("k = %v with s = %d is not in this build", p.K, p.S)
	case !g.GEMM() && (p != Point{cost.K1, 1} || order):
		return fail("a pool has k = 1, s = 1, order 0, not k = %v, s = %d", p.K, p.S)
	case p.S == 2 && g.OutC > cost.CTile(*d, p.K, p.S):
		return fail("two sample groups have %d PEs each, the layer has %d channels", cost.CTile(*d, p.K, p.S), g.OutC)
	}
	// if a row is one run, it needs one command; the first and last beat of the run may be partial
	if row := d.ElemBytes() * g.OutW * g.OutC; g.OutPix == g.OutC && row > maxRunBeats*d.WideBytes() {
		return fail("an output row of %d bytes, a run has at most %d", row, maxRunBeats*d.WideBytes())
	}
	if row := d.ElemBytes() * g.InRow(); g.InPix == g.InC && row > maxRunBeats*d.WideBytes() {
		return fail("an input row of %d bytes, a run has at most %d", row, maxRunBeats*d.WideBytes())
	}
	if order {
		all, tile := cost.WeightBytes(*d, *g, p.K)
		if need := min(all, tile); need > cost.RingKeeps(*d) {
			return fail("loop order 1 keeps a C tile of %d bytes in the weights ring, which can keep %d", need, cost.RingKeeps(*d))
		}
	}
	return nil
}

// fields returns an error if the dimensions of a tile do not fit the fields and counters of the hardware.
func fields(g *cost.Geom, tb, tr int) error {
	if tr < 1 || tr > g.OutH || tr > maxTileRows {
		return fail("TILE_ROWS is %d, must be 1..%d", tr, min(g.OutH, maxTileRows))
	}
	if n := (tr - 1) * g.SH; n > maxTileStep {
		return fail("a tile's first and last output row stand %d input rows apart, at most %d", n, maxTileStep)
	}
	if n := tb * g.InRowsOnChip(tr); n > maxPlaces {
		return fail("a tile of %d input rows, at most %d", n, maxPlaces)
	}
	return nil
}

// kept returns an error for illegal KEEP_IN and KEEP_OUT flags of an entry that is legal otherwise.
func kept(g *cost.Geom, bact int, e *abi.FBCB) error {
	one := int(e.BR) == bact && int(e.TileB) == bact && int(e.TileRows) == g.OutH
	switch {
	case e.OnChip && !e.KeepOut:
		return fail("ON_CHIP without KEEP_OUT")
	case (e.KeepIn || e.KeepOut) && !one:
		return fail("a kept tensor needs one row tile and one sample group, not B_R %d, TILE_B %d, TILE_ROWS %d", e.BR, e.TileB, e.TileRows)
	case e.KeepOut && !((g.GEMM() || e.KeepIn && g.Drained()) && g.OutPix == g.OutC):
		// a depthwise layer drains while its rows arrive from DRAM, but the buffer cannot store both at the same time
		return fail("an output is kept of a GEMM, or of a depthwise layer whose input is kept, in pixels of its channels, not of operator %d, input kept %t, %d channels in pixels of %d",
			g.Op, e.KeepIn, g.OutC, g.OutPix)
	}
	return nil
}

// Check returns an error if entry e is illegal for a layer with geometry g at batch size bact on design d.
func Check(d configs.Design, g cost.Geom, bact int, e abi.FBCB) error {
	if bact < 1 || bact > abi.BMax {
		return fail("batch %d, must be 1..%d", bact, abi.BMax)
	}
	br, tb, tr := int(e.BR), int(e.TileB), int(e.TileRows)
	if br < 1 || br > bact {
		return fail("B_R is %d, must be 1..%d", br, bact)
	}
	s := cost.Groups(e, bact)
	if (bact+s-1)/s != br {
		return fail("B_R is %d, but %d groups of a batch of %d have %d", br, s, bact, (bact+s-1)/s)
	}
	if tb < 1 || tb > br {
		return fail("TILE_B is %d, must be 1..%d", tb, br)
	}
	for _, err := range []error{placed(&d, &g, Point{cost.K(e.K), s}, e.Order), kept(&g, bact, &e), fields(&g, tb, tr)} {
		if err != nil {
			return err
		}
	}
	switch n, has := need(&g, s, &e), RoomOf(d); {
	case n.Rows > has.Rows:
		return fail("a tile of %d x %d x %d takes %d accumulator rows (k = %v), T_R = %d", tb, tr, g.OutW, n.Rows, cost.K(e.K), has.Rows)
	case n.Elems > has.Elems:
		return fail("a tile of %d x %d input rows of %d, or the output that it keeps, takes %d elements (s = %d), half the activation buffer holds %d",
			tb, g.InRowsOnChip(tr), g.InRow(), n.Elems, s, has.Elems)
	}
	return nil
}

// Limits returns an error if a design cannot run a layer, whatever the entry.
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

// Fits returns nil if a layer has a legal entry on a design. Otherwise, the error describes the limit that a tile of
// one output row at batch size 1 exceeds.
func Fits(d configs.Design, g cost.Geom) error {
	if err := Limits(d, g); err != nil {
		return err
	}
	var i *illegal
	if errors.As(Check(d, g, 1, abi.FBCB{BR: 1, K: uint8(cost.K1), TileB: 1, TileRows: 1}), &i) {
		return fmt.Errorf("%w: one output row: %w", ErrNoFit, i.reason())
	}
	return nil
}
