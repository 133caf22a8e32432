package machine

import (
	"github.com/sluice-npu/sluice/dse/cost"
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
)

// item represents one row tile times one C tile.
type item struct {
	b0, oh0, c0     int
	nb, nb1, nr     int // number of samples of the two groups, and of output rows
	nch             int
	lastC, lastTile bool
}

// layer represents a descriptor with its entry.
type layer struct {
	cost.Geom
	abi.FBCB
	rowBytes int  // distance between input rows in bytes
	two      bool // the layer has two sample groups
	stack    cost.K
	lanes    int // number of elements of a chunk: T_P'
	chain    int // number of MACs of a chain
	sums     int64
	passes   int // number of passes of a C tile
	tc       int
	step     int // number of words per cycle that leave the accumulators
	byColumn bool
	items    []item
	oneTile  bool
	few      bool // both halves together store all row tiles
	table    bool // the layer is an average pool with a table
	depthw   bool
	bytes    int // bytes of all weights; tile: bytes of the weights of a C tile
	tile     int
	checking int // number of cycles of the checks in layer_fetch
}

func newLayer(design *configs.Design, x *Layer, bact int) layer {
	d, g, e := *design, x.Geom, x.Entry
	l := layer{Geom: g, FBCB: e, two: int(e.BR) != bact, stack: cost.K(e.K), depthw: g.Op == abi.OpDepthwise}
	if l.rowBytes = x.RowBytes; l.rowBytes == 0 {
		l.rowBytes = d.ElemBytes() * g.InW * g.InPix
	}
	l.table = g.Op == abi.OpAvgPool && g.BiasCount > 0
	l.lanes, _ = cost.Tree(d, l.stack)
	l.chain = cost.Chain(d, l.stack)
	l.sums = int64(cost.ToSums(d, l.stack))
	l.tc, l.step = g.OutC, cost.DrainStep(d, l.stack, cost.Groups(e, bact))
	if g.GEMM() {
		l.tc, l.passes = cost.CTile(d, l.stack, cost.Groups(e, bact)), cost.Passes(d, g, l.stack)
	}
	if g.Drained() {
		all, tile := cost.WeightBytes(d, g, l.stack)
		l.bytes, l.tile = int(all), int(tile)
	}
	br, tb, tr := int(e.BR), int(e.TileB), int(e.TileRows)
	l.oneTile = tb >= br && tr >= g.OutH
	l.few = cost.Stays(br, g.OutH, tb, tr)
	var tiles []item
	for b0 := 0; b0 < br; b0 += tb {
		for oh := 0; oh < g.OutH; oh += tr {
			t := item{b0: b0, oh0: oh, nb: min(tb, br-b0), nr: min(tr, g.OutH-oh)}
			if l.two {
				t.nb1 = max(0, min(t.nb, bact-br-b0))
			}
			t.lastTile = b0+tb >= br && oh+tr >= g.OutH
			tiles = append(tiles, t)
		}
	}
	n := ceil(g.OutC, l.tc)
	for i := range n * len(tiles) {
		t, c := i/n, i%n
		if e.Order {
			t, c = i%len(tiles), i/len(tiles)
		}
		x := tiles[t]
		x.c0, x.nch, x.lastC = c*l.tc, min(l.tc, g.OutC-c*l.tc), c == n-1
		l.items = append(l.items, x)
	}
	rows := g.InRowsOnChip(tr)
	if e.KeepIn {
		rows = g.InH
	}
	l.checking, l.byColumn = cost.Checks(d, &g, rows, tb, tr), g.ByColumns(d)
	return l
}

// run is a sequence of consecutive elements in DRAM.
type run struct {
	addr  int // address in bytes
	elems int
	last  bool // the run is the last run of the layer
	keep  bool
	local bool
	pool  bool
}

// beats returns the number of the first wide beat that a run touches (at), and the count of touched wide beats (n).
func (r *run) beats(m *machine) (at, n int) {
	at = r.addr / m.wide
	return at, ceil(r.addr+m.elem*r.elems, m.wide) - at
}

// slot is the distance between samples in bytes. It is a multiple of the page size, and eight slots fit 31 bits.
const slot = 1 << 27

// runs is run_gen. This unit generates the runs of the results or residuals of a layer, in the order of the drain.
type runs struct {
	state       state
	l           *layer
	at, i, r, w int  // index of the item, sample (over both groups), row and pixel
	skipped     bool // a layer without residuals was skipped in this cycle
	a           bool
	next        run
	s           queue[run] // spill register
	residual    bool
}

func (x *runs) step(m *machine, unit int, taken bool) {
	free := x.s.n < 2
	x.skipped = false
	if taken {
		x.s.pop()
	}
	if x.a && free {
		x.s.push(x.next)
		x.a = false
	}
	switch x.state {
	case idle:
		if l := m.fetch.take(m, unit); l != nil {
			x.l, x.at, x.i, x.r, x.w, x.state = l, 0, 0, 0, 0, test
		}
	case test:
		x.state = tiles
		if x.residual && !x.l.Residual {
			x.state = test
			if !x.a && x.s.n == 0 && !taken {
				x.state, x.skipped = idle, true
			}
		}
	case tiles:
		x.state = running
	case running:
		if !x.a {
			x.make(m.elem)
		}
	}
}

// make generates the next run.
func (x *runs) make(elem int) {
	l, t := x.l, &x.l.items[x.at]
	pix, off := l.OutPix, int(l.OutOffset)
	if x.residual {
		pix, off = l.ResPix, int(l.ResOffset)
	}
	b := t.b0 + x.i
	if x.i >= t.nb {
		b += int(l.BR) - t.nb
	}
	x.a = true
	x.next = run{addr: b*slot + off + elem*(((t.oh0+x.r)*l.OutW+x.w)*pix+t.c0), elems: t.nch, keep: l.KeepOut, local: l.OnChip, pool: !l.Drained()}
	x.w++
	if t.nch == l.OutC && pix == l.OutC {
		x.next.elems, x.w = l.OutW*pix, l.OutW
	}
	if x.w < l.OutW {
		return
	}
	x.w = 0
	if x.r++; x.r < t.nr {
		return
	}
	x.r = 0
	if x.i++; x.i < t.nb+t.nb1 {
		return
	}
	x.i, x.state = 0, tiles
	if x.at++; x.at == len(l.items) {
		x.next.last, x.state = true, idle
	}
}
