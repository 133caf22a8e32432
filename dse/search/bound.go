package search

import (
	"github.com/sluice-npu/sluice/dse/cost"
	"github.com/sluice-npu/sluice/dse/mapping"
	"github.com/sluice-npu/sluice/hw/configs"
)

// layer holds what does not depend on the mapping, for one geometry.
type layer struct {
	g       cost.Geom
	heights []int               // TILE_ROWS to try, largest first
	pools   map[poolEntry]int64 // cycles of a pool by the law, stored when first needed
}

// poolEntry is what a pool's cycles depend on: lanes, parameters that the grid's axes change, batch size and tile.
type poolEntry struct {
	lanes int
	post  bool

	drain, ports, portBytes, wLoad, ring int

	dram          configs.DRAM
	batch, tb, tr int

	tp, tc int // of a depthwise layer, behind which weights of the next one come
}

func newLayer(g cost.Geom) layer {
	return layer{g: g, pools: map[poolEntry]int64{}, heights: heights(g.OutH)}
}

// allRows is the same as in mapping: up to this height every TILE_ROWS is tried.
const allRows = 64

// heights lists the TILE_ROWS that mapping.Enumerate tries, largest first (TestSameSpace).
func heights(n int) []int {
	var list []int
	if n <= allRows {
		for r := n; r >= 1; r-- {
			list = append(list, r)
		}
		return list
	}
	for pieces := 1; pieces <= n; {
		size := ceil(n, pieces)
		list = append(list, size)
		if size == 1 {
			break
		}
		pieces = ceil(n, size-1)
	}
	return list
}

// spread is a layer on one <k, s> of a design.
type spread struct {
	cost.Floors
	l      *layer
	p      mapping.Point
	orders []bool // that the layer may take
	law    cost.Prepared
}

// spreads lists the spreads of a layer that a design supports and the options allow, in the order of
// mapping.Points.
func spreads(d configs.Design, l *layer, o mapping.Options) []spread {
	var out []spread
	for _, p := range pointsOf(o) {
		var orders []bool
		for _, order := range ordersOf(o) {
			if placed(d, &l.g, p, order) {
				orders = append(orders, order)
			}
		}
		if len(orders) > 0 {
			out = append(out, newSpread(d, l, p, orders))
		}
	}
	return out
}

func newSpread(d configs.Design, l *layer, p mapping.Point, orders []bool) spread {
	law := cost.Prepare(d, l.g, p.K, p.S)
	return spread{law.Floors(), l, p, orders, law}
}

// branch is a spread at a batch size in one loop order.
type branch struct {
	cost.Floor
	*spread
	order bool
}

// at returns the branch of a spread at a batch size, in its first loop order.
func (s *spread) at(batch int) branch { return branch{s.At(batch), s, s.orders[0]} }

// tile is a bound for its row tiles (cost.Floor).
func (b *branch) tile(tb, tr int, limit int64) int64 { return b.Tile(b.order, tb, tr, limit) }

func ceil(a, b int) int { return (a + b - 1) / b }
