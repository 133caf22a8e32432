package search

import (
	"github.com/sluice-npu/sluice/dse/cost"
	"github.com/sluice-npu/sluice/dse/mapping"
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
)

func rooms(designs []configs.Design) []mapping.Room {
	out := make([]mapping.Room, len(designs))
	for i, d := range designs {
		out[i] = mapping.RoomOf(d)
	}
	return out
}

// fit is a tile, and the range of rooms that allow the tile (first to last).
type fit struct{ tb, tr, first, last int }

// size is a tile and the room that the tile needs.
type size struct {
	tb, tr int
	need   mapping.Room
}

// limited returns which limit applies to a point's tiles, as an index. Tiles may use the whole or half of the
// accumulators, and the whole or half of the buffer.
func limited(p mapping.Point) int {
	if p.K == cost.KHalf {
		return 2*p.S - 1
	}
	return 2*p.S - 2
}

// fits appends every tile of at most br samples at point p that fits at least one of the rooms.
func (l *layer) fits(p mapping.Point, br int, rs []mapping.Room, out []fit) []fit {
	sizes := &l.sizes[limited(p)]
	if *sizes == nil {
		*sizes = []size{}
		for tb := abi.BMax; tb >= 1; tb-- {
			for _, tr := range mapping.Heights(l.g.OutH) {
				e := abi.FBCB{K: uint8(p.K), TileB: uint8(tb), TileRows: uint16(tr)}
				if need, ok := mapping.Need(&l.g, p.S, &e); ok {
					*sizes = append(*sizes, size{tb, tr, need})
				}
			}
		}
	}
	for i := range *sizes {
		t := &(*sizes)[i]
		if t.tb > br {
			continue
		}
		if first, last := t.need.Span(rs); first <= last {
			out = append(out, fit{t.tb, t.tr, first, last})
		}
	}
	return out
}

// count returns, by room, the number of entries that the room allows.
func (c *candidates) count(batch int, rs []mapping.Room, m *scratch) []int64 {
	n := make([]int64, len(rs)+1) // changes of the number from one room to the next
	for i := range c.on {
		if s := &c.on[i]; s.p.S <= batch {
			for _, f := range m.fit(s, ceil(batch, s.p.S), rs) {
				n[f.first] += int64(len(s.orders))
				n[f.last+1] -= int64(len(s.orders))
			}
		}
	}
	for i := 1; i < len(rs); i++ {
		n[i] += n[i-1]
	}
	return n[:len(rs)]
}
