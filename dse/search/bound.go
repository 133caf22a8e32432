package search

import (
	"github.com/sluice-npu/sluice/dse/cost"
	"github.com/sluice-npu/sluice/dse/mapping"
	"github.com/sluice-npu/sluice/hw/configs"
)

// Bounds from below on what the law can say, from facts of the hardware that no calibration changes:
// a row takes a cycle a pass, a pass is no shorter than its chain nor than loading its weights, and
// the DRAM moves every weight once (a ring full of them perhaps before the layer begins), every input
// row and every result; a layer begins when its first row is there, its first pass ends when those rows of
// its first tile are that the first kernel row needs, and after its last pass it drains.
// TestBoundIsBelowTheLaw holds them against cost.Layer.

// layer is what does not depend on the mapping, for one geometry.
type layer struct {
	g       cost.Geom
	inRows  int64 // input rows that are read at all
	heights []int // TILE_ROWS to try, largest first
}

func newLayer(g cost.Geom) layer {
	l := layer{g: g, heights: heights(g.OutH)}
	next := 0
	for oh := range g.OutH {
		lo, hi := max(0, oh*g.SH-g.PadT, next), min(g.InH, oh*g.SH-g.PadT+g.KH)
		if hi > lo {
			l.inRows += int64(hi - lo)
			next = hi
		}
	}
	return l
}

// allRows is mapping's: up to this height every TILE_ROWS is tried.
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

// tiles is C tiles alike: how many, and what a pass of one takes at least.
type tiles struct{ n, floor int64 }

// spread is a layer on one <k, s> of a design at one batch.
type spread struct {
	l      *layer
	p      mapping.Point
	br     int
	passes int64
	depth  int64 // of the array's chains: what a pass takes at least beside its rows and its weights
	c      [2]tiles
	drain  int64         // cycles to drain everything, or to pool it
	once   int64         // bytes of weights
	ringed bool          // a C tile fits the ring, which can replay it
	kept   bool          // the whole layer does
	both   func(int) int // samples of a tile, of both groups
	fixed  int64         // bytes beside the weights, less what may come before the layer begins
	read   int64         // those that are read
	row    int64         // bytes of an input row
	rows   int64         // of all samples' rows
	wait   cost.Waits
	rate   float64 // of the DRAM, bytes a cycle
	port   float64 // of the ports in one direction
	fill   float64 // of the slower one
	last   int64   // cycles to drain a row of the last C tile
}

func newSpread(d configs.Design, l *layer, p mapping.Point, batch int) spread {
	g := &l.g
	s := spread{l: l, p: p, br: ceil(batch, p.S), rate: d.DRAM.BytesPerCycle}
	s.wait = cost.WaitsOf(d, *g, p.K)
	s.fill = min(s.rate, float64(d.NAXI*d.AXIBytes))
	row, out, res := cost.Moved(d, *g, p.K, p.S)
	s.row = int64(row)
	s.wait.Ends += int64(row / s.fill)
	s.both = func(tb int) int { return tb + min(tb, batch-s.br) }
	if p.S == 1 {
		s.both = func(tb int) int { return tb }
	}
	ring := int64(d.WRingBeats * d.AXIBytes)
	// the law rounds down to bytes, at most once an output row and C tile in each direction
	rows := float64(batch) * float64(l.inRows) * row
	pixels := float64(batch) * float64(g.OutH) * float64(g.OutW)
	lost := int64(batch*g.OutH) * int64(2+g.OutC)
	s.read = int64(rows+pixels*res) - s.row - lost
	s.fixed = int64(rows+pixels*(res+out)) - s.row - lost
	s.port = float64(d.NAXI * d.AXIBytes)
	s.rows = int64(rows) - lost
	if !g.GEMM() {
		s.drain = int64(s.br) * int64(g.OutH) * max(g.PoolTaps(d), int64(g.OutW)*int64(ceil(g.OutC, d.Drain)))
		return s
	}
	_, tc := cost.Tree(d, p.K)
	s.passes = int64(cost.Passes(d, *g, p.K))
	s.depth = int64(cost.Depth(d, p.K))
	c := min(tc, g.OutC)
	step := cost.DrainStep(d, p.K, p.S)
	for i, x := range [2]struct{ n, size int }{{g.OutC / c, c}, {1, g.OutC % c}} {
		if x.size > 0 {
			s.c[i].n = int64(x.n)
			s.c[i].floor = max(s.depth, cost.Load(d, p.K, p.S, x.size))
			s.last = int64(ceil(x.size, step))
			s.drain += int64(s.br) * int64(g.OutH) * int64(g.OutW) * int64(x.n) * int64(ceil(x.size, step))
		}
	}
	var tile int64
	s.once, tile = cost.WeightBytes(d, *g, p.K)
	s.ringed = min(tile, s.once) <= cost.RingKeeps(d)
	s.kept = s.once <= cost.RingKeeps(d)
	s.fixed -= min(s.once, ring)
	s.read -= min(s.once, ring)
	return s
}

// all is a bound over every tile and loop order.
func (s *spread) all() int64 {
	rows := int64(s.br) * int64(s.l.g.OutH) * int64(s.l.g.OutW)
	return s.wait.Ends + max(s.passes*s.pass(rows)-s.ahead(1)+s.wait.Drain, s.drain+s.wait.Drain, s.dram(s.once)-s.wait.Shared)
}

// tile is a bound for row tiles of tb samples and tr output rows.
func (s *spread) tile(tb, tr int, order bool) int64 {
	g := &s.l.g
	tb0, tr0 := tb, tr
	ns, rs := int64(s.br/tb), int64(s.br%tb)
	nr, rr := int64(g.OutH/tr), int64(g.OutH%tr)
	w := int64(g.OutW)
	tiles := ns * nr
	array := ns * nr * s.pass(int64(tb)*int64(tr)*w)
	if rr > 0 {
		array += ns * s.pass(int64(tb)*rr*w)
		tiles += ns
	}
	if rs > 0 {
		array += nr * s.pass(rs*int64(tr)*w)
		tiles += nr
		if rr > 0 {
			array += s.pass(rs * rr * w)
			tiles++
		}
	}
	weights := s.once
	if !s.kept && (!order || !s.ringed) {
		weights *= tiles
	}
	if order && !cost.Stays(s.br, g.OutH, tb0, tr0) {
		weights += (s.c[0].n + s.c[1].n - 1) * s.rows // rows again for every C tile
	}
	array *= s.passes
	if s.passes > 0 {
		// the first tile's other rows that its first kernel row needs, behind its first pass
		in := int64(g.RowsAhead(tr))
		bytes := (in*int64(s.both(tb)) - 1) * s.row
		r := int64(tb) * int64(tr) * w
		array += max(0, int64(float64(bytes)/s.fill)-max(r, s.c[0].floor))
		// the last tile's drain, behind its passes
		if rs > 0 {
			tb = int(rs)
		}
		if rr > 0 {
			tr = int(rr)
		}
		r = int64(tb) * int64(tr) * w
		array += min(s.passes*max(r, s.lastTile().floor), r*s.last) - s.ahead(r)
	}
	return s.wait.Ends + max(array+s.wait.Drain, s.turns(tb0, tr0, order), s.drain+s.wait.Drain, s.dram(weights)-s.wait.Shared)
}

// turns is a bound for row tiles as loading them by turns into two halves has it: a tile's rows begin to
// come when the visit before the last one has ended, and but for one pass its own follow them. Whole
// tiles are counted, from the third visit on; of the odd and the even ones one has half of them.
func (s *spread) turns(tb, tr int, order bool) int64 {
	g := &s.l.g
	visits, c := int64(s.br/tb)*int64(g.OutH/tr), int64(1)
	r := int64(tb) * int64(tr) * int64(g.OutW)
	work := int64(0)
	if s.passes > 0 {
		first := max(r, s.c[0].floor)
		work = s.passes*s.pass(r) - first
		if order {
			if cost.Stays(s.br, g.OutH, tb, tr) {
				return 0
			}
			c, work = s.c[0].n, (s.passes-1)*first
		}
	}
	rows := int64(g.RowsAhead(tr)) // of the first one, which has most in the padding
	in := int64(float64(rows*int64(tb)*s.row-1) / s.fill)
	return max(0, (visits*c-1)/2) * (s.wait.Turn + in + work)
}

// lastTile is the last C tile.
func (s *spread) lastTile() *tiles {
	if s.c[1].n > 0 {
		return &s.c[1]
	}
	return &s.c[0]
}

// ahead is the cycles of the last pass, over r rows, in which only weights would load for another one.
func (s *spread) ahead(r int64) int64 { return max(0, s.lastTile().floor-max(r, s.depth)) }

// pass of all C tiles over a row tile of r rows.
func (s *spread) pass(r int64) int64 {
	return s.c[0].n*max(r, s.c[0].floor) + s.c[1].n*max(r, s.c[1].floor)
}

func (s *spread) dram(weights int64) int64 {
	return int64(max(0, float64(s.fixed+weights)/s.rate, float64(s.read+weights)/s.port))
}

func ceil(a, b int) int { return (a + b - 1) / b }
