package search

import (
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

// fit is a tile and the range first..last of rooms that allow it.
type fit struct{ tb, tr, first, last int }

// fits appends every tile of br samples at point p that some room allows.
func (l *layer) fits(p mapping.Point, br int, rs []mapping.Room, out []fit) []fit {
	for tb := br; tb >= 1; tb-- {
		for _, tr := range l.heights {
			e := abi.FBCB{BR: uint8(br), K: uint8(p.K), TileB: uint8(tb), TileRows: uint16(tr)}
			if first, last := mapping.Span(&l.g, p.S, &e, rs); first <= last {
				out = append(out, fit{tb, tr, first, last})
			}
		}
	}
	return out
}

// count returns the number of entries that each room allows.
func (c *candidates) count(batch int, rs []mapping.Room, m *scratch) []int64 {
	n := make([]int64, len(rs)+1) // differences from room to room
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
