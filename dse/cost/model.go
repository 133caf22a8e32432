package cost

import (
	"math"

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
	bpc, port, rate  float64 // bytes a cycle: DRAM, ports in one direction, the smaller

	tc          int   // channels of a C tile
	passes      int64 // of an item
	depth       int64
	step        int // words drained a cycle
	row         int64
	weightsOnce int64 // bytes of weights and biases
	replay      bool  // the ring keeps what is needed again
	stay        bool  // both halves hold all row tiles: loaded once

	prefetched                       int64 // weights that are there when the layer begins
	acts, residual, weights, results int64 // bytes so far

	// time, in cycles since the barrier
	end     int64 // E of the visit before
	loaded  int64 // S of the visit before
	drained [2]int64
	before  int64   // E of the visit before that: when a half of the buffer became free; 0: it was free
	owed    traffic // W + R + O of the visit before
	ahead   traffic // residuals that are there when the first item drains
	crowded bool    // weights come while results go
	spared  int64   // latency that the last item's bursts do not add
	first   bool
	bias    bool
}

func newModel(d configs.Design, g Geom, bact int, e abi.FBCB) *model {
	m := &model{
		d: d, g: g, bact: bact, br: int(e.BR), groups: Groups(e, bact), k: K(e.K), order: e.Order, keepIn: e.KeepIn, onChip: e.OnChip,
		tileB: int(e.TileB), tileRows: int(e.TileRows), bpc: d.DRAM.BytesPerCycle, port: float64(d.NAXI * d.AXIBytes),
		first: true,
	}
	m.rate = math.Min(m.bpc, m.port)
	m.b.MACs = int64(bact) * g.MACs()
	m.tc = CTile(d, m.k, m.groups)
	m.row = int64(g.InRow()) * wordBytes
	if g.InPix != g.InC {
		m.row = int64(g.InW) * pixelBytes(d, g.InC, g.InPix, g.InOffset)
	}
	if !g.GEMM() {
		m.tc = g.OutC
		m.weightsOnce = int64(g.BiasCount) * biasBytes
		return m
	}
	m.passes = int64(Passes(d, g, m.k))
	m.depth = int64(Depth(d, m.k))
	m.step = d.Drain
	if m.k == K2 || m.groups == 2 && m.k == K1 {
		m.step = d.Drain / 2 // every second PE holds channels of a group
	}
	all, _ := WeightBytes(d, g, m.k)
	m.weightsOnce = all + int64(g.OutC)*biasBytes
	m.replay = m.order || all <= RingKeeps(d)
	m.stay = m.order && (m.tileB >= m.br && 2*m.tileRows >= g.OutH || m.tileRows >= g.OutH && 2*m.tileB >= m.br)
	return m
}

// tileWeights is the bytes of weights of a C tile of nch channels, beside its padding.
func (m *model) tileWeights(nch int) int64 {
	words, _ := Tree(m.d, m.k)
	return m.passes * int64(words) * wordBytes * int64(nch)
}

// load is Load for a C tile of nch channels.
func (m *model) load(nch int) int64 { return Load(m.d, m.k, m.groups, nch) }

// Load is the cycles from one swap to the next that loading the weights of nch channels takes for s
// sample groups: W_LOAD PEs a cycle after the swap has run down the chain, from a ring that gives a
// wide beat a cycle.
func Load(d configs.Design, k K, s, nch int) int64 {
	tp, _ := Tree(d, k)
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
	ahead := min(tp, 2+max(8, d.WLoad*d.TP)/wide)
	return int64(tp + swapTail + max(ceil(vectors, at), ceil(nch*words, wide)-ahead))
}

// run walks all visits and fills in the times of m.b.
func (m *model) run() {
	m.end = m.b.Fill
	if m.order {
		for c0 := 0; c0 < m.g.OutC; c0 += m.tc {
			m.rowTiles(c0, min(m.g.OutC, c0+m.tc), c0 == 0 || !m.stay, true)
		}
	} else {
		m.rowTiles(0, m.g.OutC, true, !m.replay)
	}
	// the last drain, and what the DRAM still owes; the latency of a last burst is the answer's
	total := max(m.drained[0], m.drained[1], m.loaded+m.time(m.owed)) - m.spared
	m.b.Tail = total - m.end
	m.b.Total = total + m.b.Answer
}

// traffic is bytes on the DRAM and the bursts that bring them.
type traffic struct{ read, written, reads, writes int64 }

func (t *traffic) add(o traffic) {
	t.read += o.read
	t.written += o.written
	t.reads += o.reads
	t.writes += o.writes
}

// time is how long the DRAM takes for it: what it moves in a cycle, what the ports do in either
// direction, and the bursts that may be under way at a time, each for a latency.
func (m *model) time(t traffic) int64 {
	under := float64(maxBursts * m.d.NAXI)
	each := float64(m.d.DRAM.LatencyCycles + burstCycles)
	return max(cycles(t.read+t.written, m.bpc), cycles(t.read, m.port), cycles(t.written, m.port),
		int64(float64(t.reads)*each/under), int64(float64(t.writes)*each/under))
}

// last is the cycles by which traffic with nothing behind it ends earlier than time says: bursts
// that are all under way at once take their latency once.
func (m *model) last(t traffic, atLeast int64) int64 {
	rest := t
	rest.reads, rest.writes = 0, 0
	return max(0, min(m.time(t)-max(atLeast, m.time(rest)), int64(m.d.DRAM.LatencyCycles+burstCycles)))
}

// stripe is the bytes of the longest burst.
func (m *model) stripe() int64 { return int64(min(stripeBeats, m.d.MaxBurst) * m.d.AXIBytes) }

// bursts is how many bursts n runs of so many bytes take. Stripes go to the ports in turn by address:
// a tensor of few stripes (span: its bytes) has fewer ports, and its bursts count as many more.
func (m *model) bursts(n, bytes, span int64) int64 {
	stripe, all := m.stripe(), int64(m.d.NAXI)
	ports := min(all, max(1, (span+stripe-1)/stripe))
	return n * ((bytes + stripe - 1) / stripe) * all / ports
}

// rowTiles visits every row tile with channels c0..c1. load tells whether the tiles come from DRAM,
// again whether the weights come for every tile (else for the first).
func (m *model) rowTiles(c0, c1 int, load, again bool) {
	firstTile := true
	left := ceil(m.br, m.tileB) * ceil(m.g.OutH, m.tileRows) // row tiles from here on
	for b0 := 0; b0 < m.br; b0 += m.tileB {
		nb := min(m.tileB, m.br-b0)
		both := nb
		if m.groups == 2 {
			both += max(0, min(nb, m.bact-m.br-b0))
		}
		for oh0 := 0; oh0 < m.g.OutH; oh0 += m.tileRows {
			nr := min(m.tileRows, m.g.OutH-oh0)
			var in traffic
			if load && !m.keepIn {
				in = m.input(m.g.inRows(oh0, nr), both)
			}
			weights := m.order && firstTile || !m.order && (firstTile || again)
			left--
			// The ring gives up a C tile while the last row tile uses it, and the next one comes then:
			// beside the results of the row tile before.
			m.crowded = m.order && left <= 1 && c1 < m.g.OutC && 2*m.weightsOnce*int64(c1-c0) > int64(m.g.OutC)*RingKeeps(m.d)
			m.visit(nb, both, nr, c0, c1, in, weights)
			firstTile = false
		}
	}
}

// input is what so many rows of n samples take.
func (m *model) input(rows, n int) traffic {
	total := int64(rows) * int64(n)
	span := int64(m.g.InH) * int64(m.g.InW) * int64(m.g.InPix) * wordBytes
	if m.g.InPix == m.g.InC {
		return traffic{read: total * m.row, reads: m.bursts(total, m.row, span)}
	}
	return traffic{read: total * m.row, reads: m.bursts(total*int64(m.g.InW), int64(m.g.InC)*wordBytes, span)}
}

// runs is results or residuals of pixels, of which a C tile touches size channels.
func (m *model) runs(pixels int64, size, pix int, offset int64) (bytes, bursts int64) {
	bytes = pixels * runBytes(m.d, size, m.g.OutC, pix, offset)
	span := int64(m.g.OutH) * int64(m.g.OutW) * int64(pix) * wordBytes
	if size == m.g.OutC && pix == size { // whole rows
		return bytes, m.bursts(pixels/int64(m.g.OutW), int64(m.g.OutW)*int64(size)*wordBytes, span)
	}
	return bytes, m.bursts(pixels, int64(size)*wordBytes, span)
}

// beside is what comes with the first row tile: the residuals of its first item too, as many as the
// queue holds.
func (m *model) beside(in traffic, both, nr, size int) traffic {
	if !m.g.Residual {
		return in
	}
	bytes, bursts := m.runs(int64(both)*int64(nr)*int64(m.g.OutW), size, m.g.ResPix, m.g.ResOffset)
	if queue := int64(resBeats * m.d.WideBytes()); bytes > queue {
		bursts = (bursts*queue + bytes - 1) / bytes
		bytes = queue
	}
	m.ahead = traffic{read: bytes, reads: bursts}
	in.add(m.ahead)
	return in
}

// visit is one row tile of nb samples (both: of both groups) and nr output rows with channels c0..c1.
func (m *model) visit(nb, both, nr, c0, c1 int, in traffic, weights bool) {
	g := &m.g
	m.acts += in.read
	rows := int64(nb) * int64(nr) * int64(g.OutW)
	pixels := int64(both) * int64(nr) * int64(g.OutW)

	// its first pass: all rows are there, and the array is free
	pass := rows
	if g.GEMM() {
		pass = max(rows, m.depth, m.load(min(m.tc, c1-c0)))
	}
	begin := m.end + visitCycles
	if m.first {
		lead := min(in.read, m.row)
		m.b.Fill += m.time(traffic{read: lead})
		m.loaded = m.end + m.time(m.beside(in, both, nr, min(m.tc, c1-c0)))
		begin = m.b.Fill
		m.first = false
	} else {
		own := m.time(in)
		m.owed.add(in)
		m.loaded += m.time(m.owed)
		if own > 0 && m.before > 0 { // its half of the buffer is free when the visit before the last one has ended
			m.loaded = max(m.loaded, m.before+int64(m.d.DRAM.LatencyCycles)+readPath(m.d)+own)
		}
		m.before = m.end
	}
	m.owed = traffic{}
	if !g.GEMM() {
		m.pool(rows, pixels, begin)
		return
	}
	started := begin
	at := begin
	for c := c0; c < c1; c += m.tc {
		size := min(m.tc, c1-c)
		one := max(rows, m.depth, m.load(size))
		work := m.passes * one
		m.b.Compute += m.passes * rows
		var moved traffic
		if !m.onChip {
			moved.written, moved.writes = m.runs(pixels, size, g.OutPix, g.OutOffset)
		}
		if g.Residual {
			moved.read, moved.reads = m.runs(pixels, size, g.ResPix, g.ResOffset)
		}
		m.results += moved.written
		m.residual += moved.read
		moved.read, moved.reads = moved.read-m.ahead.read, moved.reads-m.ahead.reads
		m.ahead = traffic{}
		m.owed.add(moved)
		words := pixels * int64(ceil(size, m.step))
		drain := max(words, m.time(moved))
		m.spared = m.last(moved, words)
		if m.crowded {
			drain += min(drain, cycles(m.tileWeights(size), m.bpc))
		}
		m.b.Drain += drain
		start := max(at, m.drained[0]) // of the bank used two items before
		if c == c0 {
			at = max(start+pass, m.loaded) + work - pass
			m.loaded = max(m.loaded, start+pass)
		} else {
			at = start + work
		}
		m.drained[0], m.drained[1] = m.drained[1], max(at+drainDelay+m.depth, m.drained[1])+drain
		if weights {
			bytes := round(m.tileWeights(size), abi.WeightAlign)
			if !m.bias {
				bytes += int64(g.OutC) * biasBytes
				m.bias = true
			}
			m.weights += bytes
			there := min(bytes, m.prefetched)
			m.prefetched -= there
			m.owed.add(traffic{read: bytes - there, reads: m.bursts(1, bytes-there, bytes)})
		}
	}
	m.b.Array += at - started
	m.end = at
}

// poolRow is the cycles of an output row in the pool unit, words of its results leaving in a cycle,
// and its taps before the first one in the last input row. A pixel's windows are as long as their taps,
// or as giving out their results where that takes longer; so are the columns that complete them. Where
// it does, columns that complete none pass while the results that there is room for leave.
func (m *model) poolRow(words int) (row, first int64) {
	g := &m.g
	nb := m.d.NB()
	groups := int64(ceil(g.OutC, nb))
	results := int64(g.OutC/nb)*int64(ceil(nb, words)) + int64(ceil(g.OutC%nb, words)) // of a pixel
	if !g.ByColumns(m.d) {
		taps := int64(g.KH) * int64(g.KW)
		return int64(g.OutW) * max(taps*groups, results), taps - int64(g.KW)
	}
	taps := int64(g.KH)
	column := taps * groups // that completes no window
	giving := max(column, results)
	late := giving - column // results leave meanwhile, then
	room := max(0, int64(poolRoom*ceil(min(nb, g.OutC), words))-taps-poolDelay)
	// a run of columns that complete none, after n that do
	run := func(columns, n int) int64 {
		gap := int64(columns) * column
		return gap - min(gap, room, int64(n)*late)
	}
	row = int64(g.OutW) * giving
	if g.SW == 1 {
		return row + run(g.KW-1, g.OutW), taps - 1
	}
	return row + run(g.KW-1, 1) + int64(g.OutW-1)*run(g.SW-1, 1), taps - 1
}

// pool is a visit of the pool unit: output rows follow the input rows.
func (m *model) pool(rows, pixels, begin int64) {
	g := &m.g
	words := m.d.Drain
	if g.Op == abi.OpAvgPool {
		words = g.AverageWords(m.d)
	}
	row, first := m.poolRow(words)
	work := rows / int64(g.OutW) * row
	// what is left when the last input row has come: the last output row but for its first taps
	last := row - first
	m.b.Compute += rows / int64(g.OutW) * g.PoolTaps(m.d)
	m.b.Drain += rows * int64(ceil(g.OutC, words))
	at := max(begin+work, m.loaded+last)
	m.b.Array += work
	m.end = at
	out, bursts := m.runs(pixels, g.OutC, g.OutPix, g.OutOffset)
	m.results += out
	m.owed.add(traffic{written: out, writes: bursts})
	if !m.bias {
		m.weights += m.weightsOnce
		m.owed.add(traffic{read: m.weightsOnce - m.prefetched})
		m.prefetched, m.bias = 0, true
	}
	// the last row leaves while it is made, but for its last burst
	n := rows / int64(g.OutW)
	tail := m.time(traffic{written: out / n, writes: bursts / n})
	tail = max(tail-row, min(tail, m.time(traffic{written: m.stripe(), writes: 1})))
	m.drained[1] = at + drainDelay + tail
}
