package machine

import (
	"math/bits"

	"github.com/sluice-npu/sluice/dse/cost"
	"github.com/sluice-npu/sluice/hw/configs"
)

// array is gemm_seq, which gives the array a row a cycle, and the way of a row's end through it (act_buffer, pe_array).
type array struct {
	state state
	l     *layer
	layer int
	start bool // half in which the layer begins
	half  int
	above int // rows by which a kept tensor still has to move

	item    int
	chunk   int // of a kernel row
	kh      int
	i, r, w int // sample, row, column
	begin   bool
	first   bool // pass of the C tile
	age     int
	banks   int // in use

	ends queue[int64] // when done_o comes
}

// toArray is the cycles from a row to the array: the read address, four of the buffer.
const toArray = 5

// chainTail is what int16's chain has beside its DSPs, from a row to done_o.
const chainTail = 2

// segment is the DSPs of a segment of int8 (mac_packed) as it is simulated, of DSP48E1.
const segment = 4

// toSums is the cycles from a row in the array to done_o: of int8, whose segments run side by side, T0, T1 and T2 of pe_array_int8.
func toSums(d *configs.Design, k cost.K, chain int) int64 {
	if !d.Int8() {
		return int64(chain + chainTail)
	}
	half := d.TP - d.TP/2
	after := [...]int{cost.K1: 2, cost.KHalf: 0, cost.K2: 6}[k]
	return int64(min(half, segment) + bits.Len(uint(ceil(half, segment)-1)) + 4 + after)
}

// chainWait is how much longer than its chain a pass takes at least (depth).
const chainWait = 3

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

// row lets a row go, or says what it waits for.
func (x *array) row(m *machine) {
	l, t := x.l, &x.l.items[x.item]
	place := x.i*((t.nr-1)*l.SH+l.KH) + x.r*l.SH + x.kh
	depth := l.chain + chainWait
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
	x.ends.push(m.now + toArray + l.sums)
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

// done tells that a bank is complete in this cycle.
func (x *array) done(now int64) bool {
	if x.ends.n == 0 || *x.ends.front() != now {
		return false
	}
	x.ends.pop()
	return true
}
