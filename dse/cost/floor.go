package cost

import (
	"github.com/sluice-npu/sluice/dse/rtl"
	"github.com/sluice-npu/sluice/hw/configs"
)

// This file computes lower bounds for the law. They use only properties of the hardware that no calibration changes. A
// row needs one cycle per pass. A pass is at least as long as its chain, and as the loading of its weights. The DRAM
// transfers every weight, input row and result once. Weights that fit the ring may come before the layer begins. A
// layer begins when its first row is on chip. Its first pass ends when the first tile's rows for the first kernel row
// are on chip. The drain follows the last pass. TestBoundIsBelowTheLaw (dse/search) checks the bounds.

// Waits are the fixed delays of a layer whose tensors are in DRAM, in cycles.
type Waits struct {
	Ends   int64 // from the barrier to the first input row without its DRAM transfer, plus last write to response
	Drain  int64 // from the last pass of a GEMM under k to the last drain
	Shared int64 // time of the last burst during which DRAM transfer and response can overlap
	Turn   int64 // from the end of a visit to the first row that replaces its rows, without the DRAM transfer of that row
}

// WaitsOf returns the delays of g under k.
func WaitsOf(d configs.Design, g Geom, k K) Waits {
	latency := int64(d.DRAM.LatencyCycles)
	w := Waits{Ends: rtl.LayerStart + 2*latency + readPath(d) + writePath(&d, &g), Shared: latency + rtl.BurstCycles + rtl.StripeBeats, Turn: latency + readPath(d) + rtl.Turn}
	if g.GEMM() {
		w.Drain = rtl.DrainDelay + int64(ToSums(d, k))
	}
	return w
}

// beats returns the bytes of all beats that contain an input row (row), one pixel's results (out), or its residuals
// (res).
func (p *Prepared) beats() (row, out, res float64) {
	n := float64(p.g.OutC / p.full.size)
	out, res = n*p.full.out.bytes, n*p.full.res.bytes
	if p.g.OutC%p.full.size != 0 {
		out, res = out+p.rest.out.bytes, res+p.rest.res.bytes
	}
	return p.in.bytes, out, res
}

// tiles represents n equal C tiles. The field floor is the minimum number of cycles of one pass.
type tiles struct{ n, floor int64 }

// Floors are the bounds of a layer whose tensors are in DRAM, for one <k, s> of a design.
type Floors struct {
	g       Geom
	s       int   // sample groups
	inRows  int64 // number of input rows that are read
	passes  int64
	c       [2]tiles
	row     float64    // bytes of an input row
	pixel   [2]float64 // bytes of a pixel's results and of its residuals
	drained int64      // cycles to drain or pool a sample
	last    int64      // cycles to drain a row of the last C tile
	once    int64      // bytes of weights
	ring    int64      // bytes of weights that may come before the layer begins
	ringed  bool       // the ring can replay the weights of a C tile
	kept    bool       // the ring can replay the weights of the layer
	wait    Waits
	rate    float64 // bytes per cycle of the DRAM
	port    float64 // bytes per cycle of the ports in one direction
	fill    float64 // the smaller of rate and port
	behind  int64   // extra cycles for rows that only later kernel rows need, if bursts wait for each other
}

// Floors returns the bounds of the prepared layer.
func (p *Prepared) Floors() Floors {
	d, g := &p.d, &p.g
	s := Floors{g: *g, s: p.groups, rate: d.DRAM.BytesPerCycle, port: float64(d.NAXI * d.AXIBytes)}
	next := 0
	for oh := range g.OutH {
		lo, hi := max(0, oh*g.SH-g.PadT, next), min(g.InH, oh*g.SH-g.PadT+g.KH)
		if hi > lo {
			s.inRows += int64(hi - lo)
			next = hi
		}
	}
	s.wait = WaitsOf(*d, *g, p.k)
	s.fill = min(s.rate, s.port)
	s.row, s.pixel[0], s.pixel[1] = p.beats()
	s.wait.Ends += int64(s.row / s.fill)
	late := p.input(g.KH-1, 1)
	s.behind = p.time(late) - p.time(traffic{read: late.read})
	if !g.GEMM() {
		s.drained = int64(g.OutH) * max(g.PoolTaps(*d), int64(g.OutW)*int64(ceil(g.OutC, d.Drain)))
		return s
	}
	_, tc := Tree(*d, p.k)
	s.passes = int64(Passes(*d, *g, p.k))
	depth := int64(Depth(*d, p.k))
	c := min(tc, g.OutC)
	step := DrainStep(*d, p.k, p.groups)
	for i, x := range [2]struct{ n, size int }{{g.OutC / c, c}, {1, g.OutC % c}} {
		if x.size > 0 {
			s.c[i].n = int64(x.n)
			s.c[i].floor = max(depth, Load(*d, p.k, p.groups, x.size))
			s.last = int64(ceil(x.size, step))
			s.drained += int64(g.OutH) * int64(g.OutW) * int64(x.n) * int64(ceil(x.size, step))
		}
	}
	var tile int64
	s.once, tile = WeightBytes(*d, *g, p.k)
	s.ring = min(s.once, int64(d.WRingBeats*d.AXIBytes))
	s.ringed = min(tile, s.once) <= RingKeeps(*d)
	s.kept = s.once <= RingKeeps(*d)
	return s
}

// Floor represents the bounds for one batch size.
type Floor struct {
	*Floors
	All   int64 // bound for all tiles and loop orders, cycles
	BR    int   // number of samples of the larger group
	batch int
	drain int64 // cycles to drain or pool all samples
	fixed int64 // bytes of everything except weights, minus the bytes that may come before the layer begins
	read  int64 // bytes of fixed that are read from DRAM
	rows  int64 // bytes of all samples' input rows
}

// At returns the bounds for a batch size.
func (s *Floors) At(batch int) Floor {
	g := &s.g
	b := Floor{Floors: s, batch: batch, BR: ceil(batch, s.s)}
	b.drain = int64(b.BR) * s.drained
	// the law rounds down to bytes, at most once for each output row and C tile in each direction
	rows := float64(batch) * float64(s.inRows) * s.row
	pixels := float64(batch) * float64(g.OutH) * float64(g.OutW)
	lost := int64(batch*g.OutH) * int64(2+g.OutC)
	b.read = int64(rows+pixels*s.pixel[1]) - int64(s.row) - lost - s.ring
	b.fixed = int64(rows+pixels*(s.pixel[0]+s.pixel[1])) - int64(s.row) - lost - s.ring
	b.rows = int64(rows) - lost
	b.All = b.all()
	return b
}

// both returns the number of samples of a tile, added up over both groups.
func (s *Floor) both(tb int) int {
	if s.s == 1 {
		return tb
	}
	return tb + min(tb, s.batch-s.BR)
}

// all returns a bound for all tiles and loop orders.
func (s *Floor) all() int64 {
	rows := int64(s.BR) * int64(s.g.OutH) * int64(s.g.OutW)
	return s.wait.Ends + max(s.passes*s.pass(rows)-s.ahead(1)+s.wait.Drain, s.drain+s.wait.Drain, s.dram(s.once)-s.wait.Shared)
}

// Tile returns a bound for row tiles of tb samples and tr output rows in a loop order. If a simpler bound is at least
// limit, Tile returns the simpler bound.
func (s *Floor) Tile(order bool, tb, tr int, limit int64) int64 {
	g := &s.g
	tb0, tr0 := tb, tr
	ns, rs := int64(s.BR/tb), int64(s.BR%tb)
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
		// the drain of the last tile follows its passes
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
		// The first pass waits for all rows of the first tile that the first kernel row needs. One cycle is subtracted
		// because the law rounds up both the time of all rows and the time of late rows. The field `behind` is subtracted
		// because late rows may be slower in the law.
		in := int64(s.g.RowsAhead(tr0))
		bytes := (in*int64(s.both(tb0)) - 1) * int64(s.row)
		array += max(0, int64(float64(bytes)/s.fill)-1-s.behind-max(int64(tb0)*int64(tr0)*w, s.c[0].floor))
	}
	weights := s.once
	if !s.kept && (!order || !s.ringed) {
		weights *= tiles
	}
	if order && !Stays(s.BR, g.OutH, tb0, tr0) {
		weights += (s.c[0].n + s.c[1].n - 1) * s.rows // every C tile reads the rows again
	}
	return s.wait.Ends + max(array+s.wait.Drain, s.turns(order, tb0, tr0), s.drain+s.wait.Drain, s.dram(weights)-s.wait.Shared)
}

// turns returns a bound that follows from the two halves of the buffer, because row tiles use the halves alternately.
// The rows of a tile begin to arrive when the visit before the previous one has ended. All passes of the tile except
// one follow its rows. The bound counts whole tiles from the third visit on, and only every second visit.
func (s *Floor) turns(order bool, tb, tr int) int64 {
	g := &s.g
	visits, c := int64(s.BR/tb)*int64(g.OutH/tr), int64(1)
	r := int64(tb) * int64(tr) * int64(g.OutW)
	work := int64(0)
	if s.passes > 0 {
		first := max(r, s.c[0].floor)
		work = s.passes*s.pass(r) - first
		if order {
			if Stays(s.BR, g.OutH, tb, tr) {
				return 0
			}
			c, work = s.c[0].n, (s.passes-1)*first
		}
	}
	rows := int64(g.RowsAhead(tr)) // rows of the first tile, because it has the most padding
	in := max(0, int64(float64(rows*int64(tb)*int64(s.row)-1)/s.fill)-s.behind)
	return max(0, (visits*c-1)/2) * (s.wait.Turn + in + work)
}

// lastTile returns the last C tile.
func (s *Floors) lastTile() *tiles {
	if s.c[1].n > 0 {
		return &s.c[1]
	}
	return &s.c[0]
}

// ahead returns by how many cycles the last pass is longer than its r rows. The drain does not wait for these cycles.
func (s *Floors) ahead(r int64) int64 { return max(0, s.lastTile().floor-r) }

// pass returns the cycles that all C tiles together need for one pass over a row tile of r rows.
func (s *Floors) pass(r int64) int64 {
	return s.c[0].n*max(r, s.c[0].floor) + s.c[1].n*max(r, s.c[1].floor)
}

func (s *Floor) dram(weights int64) int64 {
	return int64(max(0, float64(s.fixed+weights)/s.rate, float64(s.read+weights)/s.port))
}
