// Package mapping maps one layer to a design. Check defines which <k, s>, loop order and row tile are legal in an FBCB
// entry. Choose returns the legal entry with the fewest cycles by the law.
//
// The legal (k, s) are (1/2,1) (1/2,2) (1,1) (1,2) (2,1). A row tile is TILE_B samples times
// TILE_ROWS output rows. It must fit the accumulators (GEMM only) and one half of the activation
// buffer. The outer loop over row tiles iterates over samples, the inner loop over output rows.
package mapping

import (
	"fmt"
	"math"

	"github.com/sluice-npu/sluice/dse/cost"
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
)

// Point is one way to distribute a layer to the PEs: a stacking factor and a number of sample groups.
type Point struct {
	K cost.K
	S int
}

// Points lists all legal points, the simplest first. If points are equally fast, the first one is used.
var Points = []Point{{cost.K1, 1}, {cost.KHalf, 1}, {cost.K2, 1}, {cost.K1, 2}, {cost.KHalf, 2}}

// Options restrict the choices of Choose.
type Options struct {
	Points []Point // nil: all points that the design supports
	Orders []bool  // nil: both orders; false is order 0 (the row tile is the outer loop)
	Spill  bool    // every tensor is written to DRAM: Keep keeps no tensor on chip

	// Pick replaces the law: it chooses one of n legal entries. Tests use it to cover all entries.
	Pick func(n int) int
}

// Basic allows only the mappings of the simplest hardware: k = 1, s = 1, and the row tile as the outer loop.
func Basic() Options {
	return Options{Points: []Point{{cost.K1, 1}}, Orders: []bool{false}, Spill: true}
}

// lists returns the points and orders. It replaces nil by all points or orders.
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

// RTL allows every mapping of the hardware: every <k, s> of the design, and both loop orders.
func RTL() Options { return Options{} }

// Enumerate calls f with every legal entry of a layer.
func Enumerate(d configs.Design, g cost.Geom, bact int, o Options, f func(abi.FBCB)) {
	EnumerateIn(d, g, bact, o, []Room{RoomOf(d)}, func(e abi.FBCB, _, _ int) { f(e) })
}

// EnumerateIn calls f with every entry that is legal on design d if d's room is replaced by one of the rooms. It also
// passes the first and last index of the rooms that allow the entry.
func EnumerateIn(d configs.Design, g cost.Geom, bact int, o Options, rooms []Room, f func(e abi.FBCB, first, last int)) {
	rows := Heights(g.OutH)
	for _, w := range Ways(d, g, o) {
		if bact < 1 || bact > abi.BMax || w.S > bact {
			continue
		}
		br := (bact + w.S - 1) / w.S
		for _, order := range w.Orders {
			for tb := br; tb >= 1; tb-- {
				for _, tr := range rows {
					e := abi.FBCB{BR: uint8(br), K: uint8(w.K), Order: order, TileB: uint8(tb), TileRows: uint16(tr)}
					if need, ok := Need(&g, w.S, &e); ok {
						if first, last := need.Span(rooms); first <= last {
							f(e, first, last)
						}
					}
				}
			}
		}
	}
}

// Way is a point with the loop orders that are legal for a layer.
type Way struct {
	Point
	Orders []bool
}

// Ways returns the ways of a layer that a design supports and the options allow, in the order of Points.
func Ways(d configs.Design, g cost.Geom, o Options) []Way {
	var ways []Way
	points, orders := o.lists()
	for _, p := range points {
		w := Way{Point: p}
		for _, order := range orders {
			if placed(&d, &g, p, order) == nil {
				w.Orders = append(w.Orders, order)
			}
		}
		if w.Orders != nil {
			ways = append(ways, w)
		}
	}
	return ways
}

// allRows is the maximum output height for which every TILE_ROWS is tried.
const allRows = 64

// Heights returns the values of TILE_ROWS to try, the largest first. For more than allRows output rows, it returns only
// the smallest value for each number of row tiles.
func Heights(n int) []int {
	if n > allRows {
		return parts(n)
	}
	rows := make([]int, n)
	for i := range rows {
		rows[i] = n - i
	}
	return rows
}

// parts returns the sizes that divide n into different numbers of parts, the largest size first.
func parts(n int) []int {
	var sizes []int
	for pieces := 1; pieces <= n; {
		size := (n + pieces - 1) / pieces
		sizes = append(sizes, size)
		if size == 1 {
			break
		}
		pieces = (n + size - 2) / (size - 1) // the smallest number of parts with a smaller size
	}
	return sizes
}

// Choose returns the entry with the fewest cycles. If several entries are equally fast, it returns the one with the
// simplest point and the largest tile. If no entry is legal, the error describes the exceeded limit.
func Choose(d configs.Design, g cost.Geom, bact int, o Options) (abi.FBCB, cost.Breakdown, error) {
	if err := Limits(d, g); err != nil {
		return abi.FBCB{}, cost.Breakdown{}, err
	}
	// The law is evaluated for an entry only if the entry's bound (floor) allows an improvement.
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
	limit := least.on.law.Layer(bact, least.FBCB).Total // other entries may be equally fast and come first
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
