package machine

import (
	"github.com/sluice-npu/sluice/dse/rtl"
)

// array is gemm_seq, which sends one row per cycle to the array. It also models the delay from the last row of an item
// to done_o (act_buffer, pe_array).
type array struct {
	state state
	l     *layer
	layer int
	start bool // half that the layer uses first
	half  int
	above int // number of padding rows by which a kept tensor must still be shifted

	item    int
	chunk   int // index of the chunk in a kernel row
	kh      int
	i, r, w int // index of the sample, row and column
	begin   bool
	first   bool // the pass is the first pass of the C tile
	age     int
	banks   int // number of banks in use

	ends queue[int64] // cycles of done_o
}

func (x *array) step(m *machine) {
	l := x.l
	switch x.state {
	case idle:
		if l = m.fetch.take(m, unitArray); l != nil {
			x.l, x.state, x.item, x.above, x.half = l, barrier, 0, 0, 0
			if x.start = l.KeepIn && !x.start; x.start {
				x.half = 1
			}
			if l.KeepIn && l.GEMM() {
				x.above = l.PadT
			}
		}
	case barrier:
		if x.above > 0 {
			x.above--
		} else if m.ended == x.layer {
			x.layer++
			if x.state = idle; l.GEMM() {
				x.state = tiles
			}
		}
	case tiles:
		x.kh, x.chunk, x.i, x.r, x.w = 0, 0, 0, 0, 0
		x.begin, x.first, x.state = true, true, running
	case running:
		x.row(m)
	}
}

// row sends a row to the array. If the row must wait, it counts the reason as a stall.
func (x *array) row(m *machine) {
	l, t := x.l, &x.l.items[x.item]
	place := x.i*((t.nr-1)*l.SH+l.KH) + x.r*l.SH + x.kh
	depth := l.chain + rtl.ChainWait
	stall := &m.Stalls.Activations
	switch {
	case place >= m.acts.avail[x.half] || x.i < t.nb1 && place >= m.acts.avail[2+x.half]:
	case x.begin && m.feed.state != full:
		stall = &m.Stalls.Weights
	case x.begin && x.first && x.banks == 2:
		stall = &m.Stalls.Drain
	case x.begin && !x.first && x.age < depth:
		stall = &m.Stalls.Depth
	default:
		stall = nil
	}
	if stall != nil {
		*stall++
		if x.begin {
			x.age = min(depth, x.age+1)
		}
		return
	}
	if x.age = min(depth, x.age+1); x.begin {
		x.age, m.feed.swap = 1, true
		if x.first {
			x.banks++
		}
	}
	x.begin = false
	if x.w++; x.w < l.OutW {
		return
	}
	x.w = 0
	if x.r++; x.r < t.nr {
		return
	}
	x.r = 0
	if x.i++; x.i < t.nb {
		return
	}
	x.i, x.begin, x.first = 0, true, false
	if x.chunk++; x.chunk*l.lanes < l.KWC() {
		return
	}
	x.chunk = 0
	if x.kh++; x.kh < l.KH {
		return
	}
	x.kh, x.first = 0, true
	x.ends.push(m.now + rtl.ToArray + l.sums)
	m.acts.freed[x.half] = m.acts.freed[x.half] || t.lastC || l.Order && !l.few
	if x.item++; l.Order || t.lastC {
		x.state = tiles
		if !l.Order || !l.oneTile {
			x.half = 1 - x.half
		}
	}
	if x.item == len(l.items) {
		x.state = idle
	}
}

// done reports whether a bank becomes complete in this cycle.
func (x *array) done(now int64) bool {
	if x.ends.n == 0 || *x.ends.front() != now {
		return false
	}
	x.ends.pop()
	return true
}
