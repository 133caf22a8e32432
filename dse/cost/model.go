package cost

import (
	"fmt"

	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
)

// model walks the visits of one layer (see the package's comment).
type model struct {
	d configs.Design
	g Geom
	b Breakdown

	bact, br, groups int
	k                K
	order            bool
	keepIn, onChip   bool // what the layer reads is there; what it writes stays
	tileB, tileRows  int
	memory

	tc          int   // channels of a C tile
	passes      int64 // of an item
	depth       int64
	toSums      int64
	in          run      // a row of the input
	full, rest  channels // a C tile, and the last one where that has fewer channels
	ring        int64    // bytes of the weights ring
	weightBytes int64    // of all weights
	weightsOnce int64    // with biases
	weightsFrom int64    // when weights that are not prefetched can come
	low         int64    // bytes of weights that come before rows
	offered     int64    // when the units know of it, where it is the first of its start
	asked       int64    // bytes of rows that are asked for when the next layer's weights are
	nextAll     int64    // bytes of these that the ring takes
	came        int64    // weights that came before the layer began
	pixels      int64    // for which full and rest have their item
	replay      bool     // the ring keeps what is needed again
	stay        bool     // both halves hold all row tiles: loaded once

	note func(event string, at int64) // with it nothing is left out

	state
	sums
}

// channels is what a C tile of so many costs.
type channels struct {
	size     int
	out, res run   // a pixel of results, of residuals
	words    int64 // cycles to drain a pixel
	load     int64 // cycles from swap to swap where nothing else binds
	weights  int64 // bytes
	item           // of m.pixels
}

// state is where a walk stands: times in cycles since the barrier, and what is still to be moved.
type state struct {
	end     int64 // E of the visit before
	loaded  int64 // L of the visit before
	drained [2]int64
	drains  [2]late // their items
	before  int64   // E of the visit before that: when a half of the buffer became free; 0: it was free
	last    [2]late // results of the last item of the visit before that, and of the visit before
	owed    traffic // W + R + O of the visit before
	ahead   traffic // residuals that are there when the first item drains

	behind     int64 // bytes of the next layer's weights that come before rows
	prefetched int64 // weights that are there when the layer begins
	spared     int64 // latency that the last item's bursts do not add
	streamed   int64 // when all weights of the item before had come, where perWeight counts
	biased     int64 // when the results so far have left that waited for a start's first biases; 0: none waits
	held       int64 // groups of sums so far, while some do
	first      bool
	bias       bool
}

// sums are bytes and cycles so far.
type sums struct {
	acts, residual, weights, results int64
	array, compute, drain            int64
}

// newModel has all but what batch, loop order and row tile say.
func newModel(d configs.Design, g Geom, k K, s int) model {
	m := model{d: d, g: g, groups: s, k: k, memory: memoryOf(&d)}
	m.first = true
	m.ring = int64(d.WRingBeats * d.AXIBytes)
	m.in = m.rowOf()
	m.low = m.latent()
	if !g.GEMM() {
		m.tc = g.OutC
		m.full = channels{size: g.OutC, out: m.pixel(g.OutC, g.OutPix, g.OutOffset)}
		m.weightsOnce = int64(g.BiasCount) * biasBytes
		if g.Drained() {
			m.weightBytes, _ = WeightBytes(d, g, K1)
			m.weightsOnce += m.weightBytes
			if d.Int8() { // the unit takes them out of the ring, which never has enough for rows to come first
				m.low += m.weightBytes
			}
			if g.Residual {
				m.full.res = m.pixel(g.OutC, g.ResPix, g.ResOffset)
			}
			m.nexts()
		}
		return m
	}
	m.tc = CTile(d, m.k, m.groups)
	m.passes = int64(Passes(d, g, m.k))
	m.depth, m.toSums = int64(Depth(d, m.k)), int64(toSums(d, m.k))
	m.full = m.channels(min(m.tc, g.OutC))
	m.rest = m.full
	if n := g.OutC % m.tc; n != 0 && g.OutC > m.tc {
		m.rest = m.channels(n)
	}
	m.weightBytes, _ = WeightBytes(d, g, m.k)
	m.weightsOnce = m.weightBytes + int64(g.BiasCount)*biasBytes
	m.low += m.passBytes()
	m.nexts()
	return m
}

// nexts finds out what of the next layer's weights comes while this one runs: those come before this one's
// rows that make few on chip (latentBytes), as far as its own are not enough, where rows are not asked for yet.
func (m *model) nexts() {
	n := m.g.Next
	if n.KH == 0 {
		return
	}
	tp, tc := Tree(m.d, K1)
	biases, pass := int64(n.OutC)*biasBytes, packed(m.d, min(tc, n.OutC), int64(tp))
	all := packed(m.d, n.OutC, int64(n.KH)*int64(ceil(n.KWC, tp)*tp))
	if n.Depthwise {
		all, pass = int64(n.KH*n.KWC/n.OutC)*int64(ceil(n.OutC, m.d.NB())*m.d.NB())*int64(m.d.ElemBytes()), 0
	}
	if m.d.Int8() {
		biases *= 2 // with its factor
	}
	if n.Curve {
		biases += abi.CurveWords * biasBytes
	}
	m.nextAll = min(m.ring, biases+all)
	m.behind = min(biases+min(all, m.latent()+pass), max(0, m.low-m.weightsOnce))
	until := Fetch(m.d, m.g, 1) // the next layer is offered
	if !m.g.First {
		until -= m.latency
	}
	m.asked = int64(float64(until)*m.rate) + m.ports*m.stripe
}

// latent is the bytes of weights on chip below which they come before activations.
func (m *model) latent() int64 { return max(m.ring/16, min(m.ring/2, latentBytes)) }

// entry fills in the rest.
func (m *model) entry(bact int, e abi.FBCB) {
	m.bact, m.br = bact, int(e.BR)
	m.b.MACs = int64(bact) * m.g.MACs()
	m.order, m.keepIn, m.onChip = e.Order, e.KeepIn, e.OnChip
	m.tileB, m.tileRows = int(e.TileB), int(e.TileRows)
	if m.g.GEMM() {
		m.replay = m.order || m.weightBytes <= RingKeeps(m.d)
		m.stay = m.order && Stays(m.br, m.g.OutH, m.tileB, m.tileRows)
	}
}

// rowOf is the cost of an input row: a run, or one a pixel where they are apart.
func (m *model) rowOf() run {
	g := &m.g
	if g.InPix == g.InC {
		row := int64(g.InRow() * m.d.ElemBytes())
		return m.runOf(row, row, g.InOffset)
	}
	r := m.runOf(int64(g.InC*m.d.ElemBytes()), int64(g.InPix*m.d.ElemBytes()), g.InOffset)
	return run{bytes: r.bytes * float64(g.InW), bursts: r.bursts * float64(g.InW)}
}

// DrainStep is the words drained a cycle for s sample groups.
func DrainStep(d configs.Design, k K, s int) int {
	if k == K2 || s == 2 && k == K1 {
		return d.Drain / 2 // every second PE holds channels of a group
	}
	return d.Drain
}

// channels is the costs of a C tile of n.
func (m *model) channels(n int) channels {
	tp, _ := Tree(m.d, m.k)
	c := channels{
		size: n, out: m.pixel(n, m.g.OutPix, m.g.OutOffset), words: int64(ceil(n, DrainStep(m.d, m.k, m.groups))),
		load: Load(m.d, m.k, m.groups, n), weights: packed(m.d, n, m.passes*int64(tp)),
	}
	if m.g.Residual {
		c.res = m.pixel(n, m.g.ResPix, m.g.ResOffset)
	}
	return c
}

// Load is the cycles from one swap to the next that loading the weights of nch channels takes for s
// sample groups: W_LOAD PEs a cycle after the swap has run down the chain, from a ring that gives a
// wide beat a cycle.
func Load(d configs.Design, k K, s, nch int) int64 {
	tp, _ := Tree(d, k)
	if d.Int8() { // a pair of channels is to weight_feed what a channel is in int16
		nch = ceil(nch, 2)
	}
	vectors, at := nch, d.WLoad
	switch k {
	case K2:
		vectors = 2 * nch
	case KHalf:
		vectors, tp = ceil(nch, 2), d.TP-d.TP/2
	}
	if s == 2 {
		at /= 2
	}
	// While the swap runs down, no more than the gearbox in front of the array is filled.
	words, _ := Tree(d, k)
	wide := d.WideBytes() / wordBytes
	ahead := min(tp, max(8, d.WLoad*d.TP)/wide)
	return int64(tp + swapTail + max(ceil(vectors, at), ceil(nch*words, wide)-ahead))
}

// passBytes is the weights of a pass: all of a depthwise layer.
func (m *model) passBytes() int64 {
	if !m.g.GEMM() {
		return m.weightBytes
	}
	return m.full.weights / m.passes
}

// run walks all visits and fills in the times of m.b.
func (m *model) run() {
	m.end = m.b.Fill
	if m.order {
		// the first C tile, which may load rows that stay, those like it, and the last one, behind which no
		// weights come
		tiles := ceil(m.g.OutC, m.tc)
		m.rowTiles(1, true, true, tiles > 1)
		m.steady(tiles-2, func() { m.rowTiles(1, !m.stay, true, true) })
		if tiles > 1 {
			m.full = m.rest
			m.pixels = 0
			m.rowTiles(1, !m.stay, true, false)
		}
	} else {
		m.rowTiles(ceil(m.g.OutC, m.tc), true, !m.replay, false)
	}
	// the last drain, and what the DRAM still owes; the latency of a last burst is the answer's
	m.beside()
	if m.note != nil {
		m.event("last word drained, %d bytes of results in all", max(m.drained[0], m.drained[1])-m.spared, m.results)
	}
	total := max(m.drained[0], m.drained[1], m.loaded+m.time(m.owed)) - m.spared
	m.b.Tail = max(0, total-m.end)
	m.b.Total = total + m.b.Answer
}

// event notes one, where somebody listens (note): arguments cost more than the law.
func (m *model) event(format string, at int64, args ...any) { m.note(fmt.Sprintf(format, args...), at) }

// beside makes the last drain wait for the next layer's weights that have not come by then: they take turns with it on
// the DRAM.
func (m *model) beside() {
	begin := m.drained[1] - m.drains[1].drain
	moved := m.last[1].moved.written
	spare := int64(float64(begin-m.offered-m.again)*m.rate) - m.acts - m.residual - (m.results - moved) - max(0, m.weights-m.came)
	if left := m.nextAll - max(0, spare); left > 0 {
		m.drained[1] += max(0, cycles(moved+min(moved, left), m.bpc)-m.drains[1].drain)
	}
}

// rowTiles visits every row tile with so many C tiles. load tells whether the row tiles come from DRAM,
// again whether the weights come for every one (else for the first), more whether another C tile's
// weights come behind these.
func (m *model) rowTiles(tiles int, load, again, more bool) {
	crowds := more && 2*m.weightsOnce*int64(m.full.size) > int64(m.g.OutC)*RingKeeps(m.d)
	left := ceil(m.br, m.tileB) * ceil(m.g.OutH, m.tileRows) // row tiles from here on
	firstTile := true
	load = load && !m.keepIn
	sample := func(b0 int, final bool) {
		v := visit{nb: min(m.tileB, m.br-b0), tiles: tiles}
		v.both = v.nb
		if m.groups == 2 {
			v.both += max(0, min(v.nb, m.bact-m.br-b0))
		}
		for at := 0; at < m.g.OutH; {
			n := 1 // row tiles alike
			if !firstTile {
				n = m.g.alike(at, m.tileRows)
				if crowds {
					n = max(1, min(n, left-2))
				}
				if final {
					n = max(1, min(n, ceil(m.g.OutH-at, m.tileRows)-1))
				}
			}
			v.nr = min(m.tileRows, m.g.OutH-at)
			if load {
				v.inRows, v.late = m.g.inRows(at, v.nr), m.g.lateRows(at, v.nr)
			}
			v.weights = firstTile || !m.order && again
			// The ring gives up a C tile while the last row tile uses it, and the next one comes then:
			// beside the results of the row tile before.
			v.crowded = crowds && left <= 2
			v.next = load && (!final || at+n*m.tileRows < m.g.OutH || more && !m.stay)
			firstTile = false
			m.steady(n, func() { m.visit(v) })
			at += n * m.tileRows
			left -= n
		}
	}
	whole := (m.br - 1) / m.tileB // samples of as many, but for the last
	if m.groups == 2 || crowds {
		whole = 0 // or not alike
	}
	b0 := 0
	if whole > 1 {
		sample(0, false) // with the first weights
		m.steady(whole-1, func() { sample(m.tileB, false) })
		b0 = whole * m.tileB
	}
	for ; b0 < m.br; b0 += m.tileB {
		sample(b0, b0+m.tileB >= m.br)
	}
}

// oneStripe tells whether all the layer reads is a run of a stripe at most.
func (m *model) oneStripe() bool {
	g := &m.g
	return m.br == 1 && m.groups == 1 && g.InH == 1 && (g.InPix == g.InC || g.InW == 1) && int64(g.InRow()*m.d.ElemBytes()) <= m.stripe
}

// input is what so many rows of n samples take.
func (m *model) input(rows, n int) traffic {
	bytes, bursts := m.in.times(int64(rows) * int64(n))
	return traffic{read: bytes, reads: bursts}
}

// andResiduals is what comes with the first row tile: the residuals of its first item too, as many as the
// queue holds.
func (m *model) andResiduals(in traffic, pixels int64) traffic {
	if !m.g.Residual || !m.g.GEMM() {
		return in
	}
	bytes, bursts := m.full.res.times(pixels)
	if queue := resBeats * m.wide; bytes > queue {
		bursts = (bursts*queue + bytes - 1) / bytes
		bytes = queue
	}
	m.ahead = traffic{read: bytes, reads: bursts}
	in.add(m.ahead)
	return in
}
