package search

import (
	"slices"

	"github.com/sluice-npu/sluice/dse/cost"
	"github.com/sluice-npu/sluice/dse/mapping"
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
)

// Limits of mapping.Check that do not depend on the design.
const (
	maxTileRows = 1<<12 - 1
	maxTileStep = 1<<15 - 1
	maxPlaces   = abi.PlacesMax
)

// room is the space that a design has for the tiles of a layer. The law does not depend on T_R or on the size of the
// activation buffer, so designs that differ only in these share the times of their entries.
type room struct {
	tr    int
	elems int
}

func rooms(designs []configs.Design) []room {
	out := make([]room, len(designs))
	for i, d := range designs {
		out[i] = room{tr: d.TR, elems: d.ABufElems()}
	}
	return out
}

// limits returns the limits of a point in a room: accumulator rows, and elements of the activation buffer.
func (r room) limits(p mapping.Point) (rows, elems int) {
	rows, elems = r.tr, r.elems
	if p.K == cost.KHalf {
		rows /= 2
	}
	if p.S == 2 {
		elems /= 2
	}
	return rows, elems
}

// placed reports whether a layer may use point p with a loop order on d, if there are samples for its groups.
func placed(d configs.Design, g *cost.Geom, p mapping.Point, order bool) bool {
	if !mapping.Built(d, p) {
		return false
	}
	if !g.GEMM() && (p != mapping.Point{K: cost.K1, S: 1} || order) {
		return false
	}
	if order {
		if all, tile := cost.WeightBytes(d, *g, p.K); min(all, tile) > cost.RingKeeps(d) {
			return false
		}
	}
	return p.S != 2 || g.OutC <= cost.CTile(d, p.K, p.S)
}

// field reports whether a tile's numbers fit the descriptor's fields.
func field(g *cost.Geom, tb, tr int) bool {
	return tr <= maxTileRows && (tr-1)*g.SH <= maxTileStep && tb*g.InRowsOnChip(tr) <= maxPlaces
}

func pointsOf(o mapping.Options) []mapping.Point {
	if o.Points == nil {
		return mapping.Points
	}
	return o.Points
}

func ordersOf(o mapping.Options) []bool {
	if o.Orders == nil {
		return []bool{false, true}
	}
	return o.Orders
}

// entries calls f for every entry of a layer that is legal in some room, with the range first..last of these rooms.
// Rooms ascend in T_R and descend in elements, so the legal ones are consecutive.
func entries(d configs.Design, l *layer, batch int, o mapping.Options, rs []room, f func(e abi.FBCB, first, last int)) {
	for _, p := range pointsOf(o) {
		for _, order := range ordersOf(o) {
			if p.S > batch || !placed(d, &l.g, p, order) {
				continue
			}
			br := ceil(batch, p.S)
			for tb := br; tb >= 1; tb-- {
				for _, tr := range l.heights {
					if first, last := span(&l.g, p, tb, tr, rs); first <= last {
						f(abi.FBCB{BR: uint8(br), K: uint8(p.K), Order: order, TileB: uint8(tb), TileRows: uint16(tr)}, first, last)
					}
				}
			}
		}
	}
}

// span returns the rooms that allow a tile; first > last if there are none.
func span(g *cost.Geom, p mapping.Point, tb, tr int, rs []room) (first, last int) {
	if !field(g, tb, tr) {
		return 0, -1
	}
	needRows, needElems := 0, tb*g.InRowsOnChip(tr)*g.InRow()
	if g.GEMM() {
		needRows = tb * tr * g.OutW
	}
	if p.K == cost.KHalf {
		needRows *= 2 // as mapping: T_R is even
	}
	if p.S == 2 {
		needElems *= 2
	}
	return within(rs, needRows, needElems)
}

// within returns the rooms first..last with at least that many rows and elements; first > last if there are none.
func within(rs []room, rows, elems int) (first, last int) {
	first, last = 0, len(rs)-1
	for first <= last && rs[first].tr < rows {
		first++
	}
	for first <= last && rs[last].elems < elems {
		last--
	}
	return first, last
}

// fit is a tile and the range first..last of rooms that allow it.
type fit struct{ tb, tr, first, last int }

// fits appends every tile of br samples at point p that some room allows. It gives the same tiles as span, but
// computes them from the maximum height in each room.
func (l *layer) fits(p mapping.Point, br int, rs []room, out []fit) []fit {
	for tb := br; tb >= 1; tb-- {
		first, last := len(rs), -1
		rows, elems := l.byRows(rs[len(rs)-1], p, tb), l.byElems(rs[0], p, tb) // limit of the next room on either side
		for _, tr := range l.heights {
			for first > 0 && tr <= rows {
				if first--; first > 0 {
					rows = l.byRows(rs[first-1], p, tb)
				}
			}
			for last < len(rs)-1 && tr <= elems {
				if last++; last < len(rs)-1 {
					elems = l.byElems(rs[last+1], p, tb)
				}
			}
			if first <= last {
				out = append(out, fit{tb, tr, first, last})
			}
		}
	}
	return out
}

// byRows is the maximum number of rows of a tile of tb samples, limited by the accumulators of a room.
func (l *layer) byRows(r room, p mapping.Point, tb int) int {
	if !l.g.GEMM() {
		return maxTileRows
	}
	rows, _ := r.limits(p)
	return rows / (tb * l.g.OutW)
}

// byElems is the maximum number of rows, limited by half of the buffer and by the descriptor's fields.
func (l *layer) byElems(r room, p mapping.Point, tb int) int {
	_, elems := r.limits(p)
	places := min(elems/(tb*l.g.InRow()), maxPlaces/tb)
	if places < l.g.KH {
		return 0
	}
	return min((places-l.g.KH)/l.g.SH+1, maxTileRows, maxTileStep/l.g.SH+1)
}

// count returns the number of entries that each room allows, which an exhaustive search would evaluate. If a tile
// fits, so does one with fewer rows: the maximum height is enough.
func (c *candidates) count(batch int, rs []room) []int64 {
	n := make([]int64, len(rs))
	for i := range c.on {
		s := &c.on[i]
		if s.p.S > batch {
			continue
		}
		for i, r := range rs {
			for tb := ceil(batch, s.p.S); tb >= 1; tb-- {
				n[i] += int64(len(s.orders)) * c.l.upTo(min(c.l.byRows(r, s.p, tb), c.l.byElems(r, s.p, tb)))
			}
		}
	}
	return n
}

// upTo returns how many of the heights are at most h.
func (l *layer) upTo(h int) int64 {
	if l.g.OutH <= allRows {
		return int64(max(0, min(h, l.g.OutH)))
	}
	at, _ := slices.BinarySearchFunc(l.heights, h, func(a, h int) int { return h - a })
	return int64(len(l.heights) - at)
}
