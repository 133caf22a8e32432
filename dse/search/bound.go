package search

import (
	"github.com/sluice-npu/sluice/dse/cost"
	"github.com/sluice-npu/sluice/dse/mapping"
	"github.com/sluice-npu/sluice/hw/configs"
)

// Lower bounds for the law, from properties of the hardware that no calibration changes. A row takes one cycle per
// pass. A pass is at least as long as its chain and as loading its weights. The DRAM transfers every weight once
// (perhaps a whole ring of them before the layer begins), every input row and every result. A layer begins when its
// first row has arrived; its first pass ends when the rows of the first tile that the first kernel row needs have
// arrived; and after its last pass it drains. TestBoundIsBelowTheLaw compares the bounds with cost.Layer.

// layer holds what does not depend on the mapping, for one geometry.
type layer struct {
	g       cost.Geom
	inRows  int64               // input rows that are read
	heights []int               // TILE_ROWS to try, largest first
	pools   map[poolEntry]int64 // cycles of a pool by the law, stored when first needed
	ahead   []int64             // by TILE_ROWS: input rows of the first tile that its first kernel row needs
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
	l := layer{g: g, pools: map[poolEntry]int64{}, heights: heights(g.OutH), ahead: make([]int64, g.OutH+1)}
	for _, tr := range l.heights {
		l.ahead[tr] = int64(g.RowsAhead(tr))
	}
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

// tiles is a number of equal C tiles, with the minimum cycles of a pass of one.
type tiles struct{ n, floor int64 }

// spread is a layer on one <k, s> of a design.
type spread struct {
	l       *layer
	p       mapping.Point
	orders  []bool // that the layer may take
	law     cost.Prepared
	passes  int64
	c       [2]tiles
	row     float64    // bytes of an input row
	pixel   [2]float64 // of a pixel's results, and of its residuals
	drained int64      // cycles to drain or pool a sample
	last    int64      // cycles to drain a row of the last C tile
	once    int64      // bytes of weights
	ring    int64      // of them that may come before the layer begins
	ringed  bool       // a C tile fits the ring, which can replay it
	kept    bool       // the whole layer does
	wait    cost.Waits
	rate    float64 // of the DRAM, bytes a cycle
	port    float64 // of the ports in one direction
	fill    float64 // of the slower one
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
	g := &l.g
	s := spread{l: l, p: p, orders: orders, law: cost.Prepare(d, *g, p.K, p.S), rate: d.DRAM.BytesPerCycle, port: float64(d.NAXI * d.AXIBytes)}
	s.wait = cost.WaitsOf(d, *g, p.K)
	s.fill = min(s.rate, s.port)
	s.row, s.pixel[0], s.pixel[1] = s.law.Moved()
	s.wait.Ends += int64(s.row / s.fill)
	if !g.GEMM() {
		s.drained = int64(g.OutH) * max(g.PoolTaps(d), int64(g.OutW)*int64(ceil(g.OutC, d.Drain)))
		return s
	}
	_, tc := cost.Tree(d, p.K)
	s.passes = int64(cost.Passes(d, *g, p.K))
	depth := int64(cost.Depth(d, p.K))
	c := min(tc, g.OutC)
	step := cost.DrainStep(d, p.K, p.S)
	for i, x := range [2]struct{ n, size int }{{g.OutC / c, c}, {1, g.OutC % c}} {
		if x.size > 0 {
			s.c[i].n = int64(x.n)
			s.c[i].floor = max(depth, cost.Load(d, p.K, p.S, x.size))
			s.last = int64(ceil(x.size, step))
			s.drained += int64(g.OutH) * int64(g.OutW) * int64(x.n) * int64(ceil(x.size, step))
		}
	}
	var tile int64
	s.once, tile = cost.WeightBytes(d, *g, p.K)
	s.ring = min(s.once, int64(d.WRingBeats*d.AXIBytes))
	s.ringed = min(tile, s.once) <= cost.RingKeeps(d)
	s.kept = s.once <= cost.RingKeeps(d)
	return s
}

// branch is a spread at a batch size in one loop order, with a bound for all its tiles.
type branch struct {
	*spread
	batch, br int
	order     bool
	drain     int64 // cycles to drain everything, or to pool it
	fixed     int64 // bytes beside the weights, less what may come before the layer begins
	read      int64 // those of them that are read
	rows      int64 // of all samples' input rows
	bound     int64
}

// at returns the branch of a spread at a batch size, in its first loop order.
func (s *spread) at(batch int) branch {
	g := &s.l.g
	b := branch{spread: s, batch: batch, br: ceil(batch, s.p.S), order: s.orders[0]}
	b.drain = int64(b.br) * s.drained
	// the law rounds down to bytes, at most once for each output row and C tile in each direction
	rows := float64(batch) * float64(s.l.inRows) * s.row
	pixels := float64(batch) * float64(g.OutH) * float64(g.OutW)
	lost := int64(batch*g.OutH) * int64(2+g.OutC)
	b.read = int64(rows+pixels*s.pixel[1]) - int64(s.row) - lost - s.ring
	b.fixed = int64(rows+pixels*(s.pixel[0]+s.pixel[1])) - int64(s.row) - lost - s.ring
	b.rows = int64(rows) - lost
	b.bound = b.all()
	return b
}

// both is the number of samples of a tile, in both groups.
func (s *branch) both(tb int) int {
	if s.p.S == 1 {
		return tb
	}
	return tb + min(tb, s.batch-s.br)
}

// all is a bound for all tiles and loop orders.
func (s *branch) all() int64 {
	rows := int64(s.br) * int64(s.l.g.OutH) * int64(s.l.g.OutW)
	return s.wait.Ends + max(s.passes*s.pass(rows)-s.ahead(1)+s.wait.Drain, s.drain+s.wait.Drain, s.dram(s.once)-s.wait.Shared)
}

// tile is a bound for row tiles of tb samples and tr output rows. If it is at least limit, it may return any such
// value.
func (s *branch) tile(tb, tr int, limit int64) int64 {
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
	array *= s.passes
	if s.passes > 0 {
		// the last tile's drain, after its passes
		if rs > 0 {
			tb = int(rs)
		}
		if rr > 0 {
			tr = int(rr)
		}
		r := int64(tb) * int64(tr) * w
		array += min(s.passes*max(r, s.lastTile().floor), r*s.last) - s.ahead(r)
	}
	if bound := s.wait.Ends + array + s.wait.Drain; bound >= limit {
		return bound
	}
	if s.passes > 0 {
		// the other rows of the first tile that its first kernel row needs, after its first pass (a cycle less: the law
		// rounds the time of all rows up, and that of those it leaves out)
		in := s.l.ahead[tr0]
		bytes := (in*int64(s.both(tb0)) - 1) * int64(s.row)
		array += max(0, int64(float64(bytes)/s.fill)-1-max(int64(tb0)*int64(tr0)*w, s.c[0].floor))
	}
	weights := s.once
	if !s.kept && (!s.order || !s.ringed) {
		weights *= tiles
	}
	if s.order && !cost.Stays(s.br, g.OutH, tb0, tr0) {
		weights += (s.c[0].n + s.c[1].n - 1) * s.rows // rows are read again for every C tile
	}
	return s.wait.Ends + max(array+s.wait.Drain, s.turns(tb0, tr0), s.drain+s.wait.Drain, s.dram(weights)-s.wait.Shared)
}

// turns is a bound that follows from loading row tiles in turn into two halves: the rows of a tile begin to arrive
// when the visit before the last one has ended, and all passes of the tile but one come after them. It counts whole
// tiles, from the third visit on; half of them belong to the odd or to the even visits.
func (s *branch) turns(tb, tr int) int64 {
	g := &s.l.g
	visits, c := int64(s.br/tb)*int64(g.OutH/tr), int64(1)
	r := int64(tb) * int64(tr) * int64(g.OutW)
	work := int64(0)
	if s.passes > 0 {
		first := max(r, s.c[0].floor)
		work = s.passes*s.pass(r) - first
		if s.order {
			if cost.Stays(s.br, g.OutH, tb, tr) {
				return 0
			}
			c, work = s.c[0].n, (s.passes-1)*first
		}
	}
	rows := s.l.ahead[tr] // for the first tile, which has most padding
	in := int64(float64(rows*int64(tb)*int64(s.row)-1) / s.fill)
	return max(0, (visits*c-1)/2) * (s.wait.Turn + in + work)
}

// lastTile is the last C tile.
func (s *spread) lastTile() *tiles {
	if s.c[1].n > 0 {
		return &s.c[1]
	}
	return &s.c[0]
}

// ahead is the cycles of the last pass, over r rows, in which only another one would wait.
func (s *spread) ahead(r int64) int64 { return max(0, s.lastTile().floor-r) }

// pass of all C tiles over a row tile of r rows.
func (s *spread) pass(r int64) int64 {
	return s.c[0].n*max(r, s.c[0].floor) + s.c[1].n*max(r, s.c[1].floor)
}

func (s *branch) dram(weights int64) int64 {
	return int64(max(0, float64(s.fixed+weights)/s.rate, float64(s.read+weights)/s.port))
}

func ceil(a, b int) int { return (a + b - 1) / b }
