package search

import (
	"github.com/sluice-npu/sluice/dse/cost"
	"github.com/sluice-npu/sluice/dse/mapping"
	"github.com/sluice-npu/sluice/hw/configs"
)

// layer contains everything about one geometry that does not depend on the mapping.
type layer struct {
	g     cost.Geom
	sizes [4][]size           // tiles to try, the largest first, by limit (limited); computed when first needed
	pools map[poolEntry]int64 // cycles of a pool by the law, stored when first needed
}

// poolEntry contains everything that the cycles of a pool depend on: lanes, parameters that the grid's axes change,
// batch size and tile.
type poolEntry struct {
	lanes int
	post  bool

	drain, ports, portBytes, wLoad, ring int

	dram          configs.DRAM
	batch, tb, tr int

	tp, tc int // only for a depthwise layer; 0 for a pool
}

func newLayer(g cost.Geom) layer {
	return layer{g: g, pools: map[poolEntry]int64{}}
}

// spread represents a layer for one <k, s> of a design.
type spread struct {
	cost.Floors
	l      *layer
	p      mapping.Point
	orders []bool // legal loop orders of the layer
	law    cost.Prepared
}

// spreads returns the spreads of a layer that a design supports and the options allow, in the order of mapping.Points.
func spreads(d configs.Design, l *layer, o mapping.Options) []spread {
	var out []spread
	for _, w := range mapping.Ways(d, l.g, o) {
		out = append(out, newSpread(d, l, w.Point, w.Orders))
	}
	return out
}

func newSpread(d configs.Design, l *layer, p mapping.Point, orders []bool) spread {
	law := cost.Prepare(d, l.g, p.K, p.S)
	return spread{law.Floors(), l, p, orders, law}
}

// branch represents a spread at a batch size, in one loop order.
type branch struct {
	cost.Floor
	*spread
	order bool
}

// at returns the branch of a spread at a batch size, in its first loop order.
func (s *spread) at(batch int) branch { return branch{s.At(batch), s, s.orders[0]} }

// tile returns a bound for row tiles of tb samples and tr rows (cost.Floor).
func (b *branch) tile(tb, tr int, limit int64) int64 { return b.Tile(b.order, tb, tr, limit) }

func ceil(a, b int) int { return (a + b - 1) / b }
