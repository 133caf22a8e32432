package cost

import (
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
	in          run      // a row of the input
	full, rest  channels // a C tile, and the last one where that has fewer channels
	ring        int64    // bytes of the weights ring
	weightBytes int64    // of all weights
	weightsOnce int64    // with biases
	weightsFrom int64    // when weights that are not prefetched can come
	low         int64    // bytes of weights that come before rows
	pixels      int64    // for which full and rest have their item
	replay      bool     // the ring keeps what is needed again
	stay        bool     // both halves hold all row tiles: loaded once

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

	prefetched int64 // weights that are there when the layer begins
	spared     int64 // latency that the last item's bursts do not add
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
	if !g.GEMM() {
		m.tc = g.OutC
		m.full = channels{size: g.OutC, out: m.pixel(g.OutC, g.OutPix, g.OutOffset)}
		m.weightsOnce = int64(g.BiasCount) * biasBytes
		return m
	}
	m.tc = CTile(d, m.k, m.groups)
	m.passes = int64(Passes(d, g, m.k))
	m.depth = int64(Depth(d, m.k))
	m.full = m.channels(min(m.tc, g.OutC))
	m.rest = m.full
	if n := g.OutC % m.tc; n != 0 && g.OutC > m.tc {
		m.rest = m.channels(n)
	}
	m.weightBytes, _ = WeightBytes(d, g, m.k)
	m.weightsOnce = m.weightBytes + int64(g.OutC)*biasBytes
	return m
}

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
		row := int64(g.InRow()) * wordBytes
		return m.runOf(row, row, g.InOffset)
	}
	r := m.runOf(int64(g.InC)*wordBytes, int64(g.InPix)*wordBytes, g.InOffset)
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
		load: Load(m.d, m.k, m.groups, n), weights: m.passes * int64(tp) * wordBytes * int64(n),
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

// passBytes is the weights of a pass.
func (m *model) passBytes() int64 {
	if !m.g.GEMM() {
		return 0
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
	total := max(m.drained[0], m.drained[1], m.loaded+m.time(m.owed)) - m.spared
	m.b.Tail = total - m.end
	m.b.Total = total + m.b.Answer
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
	return m.br == 1 && m.groups == 1 && g.InH == 1 && (g.InPix == g.InC || g.InW == 1) && int64(g.InRow())*wordBytes <= m.stripe
}

// input is what so many rows of n samples take.
func (m *model) input(rows, n int) traffic {
	bytes, bursts := m.in.times(int64(rows) * int64(n))
	return traffic{read: bytes, reads: bursts}
}

// andResiduals is what comes with the first row tile: the residuals of its first item too, as many as the
// queue holds.
func (m *model) andResiduals(in traffic, pixels int64) traffic {
	if !m.g.Residual {
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

// visit is one row tile with C tiles one after the other.
type visit struct {
	nb, both int // samples, those of both groups
	nr       int // output rows
	inRows   int // that come, of a sample
	late     int // of them, those that the first kernel row does without
	tiles    int
	weights  bool  // come for it
	next     bool  // rows come behind its own
	crowded  bool  // its results beside the weights of another C tile
	here     int64 // when its rows are there, known once it is visited
	stream   int64 // when its weights begin to come, known then too
}

func (m *model) visit(v visit) {
	g := &m.g
	in := m.input(v.inRows, v.both)
	m.acts += in.read
	rows := int64(v.nb) * int64(v.nr) * int64(g.OutW)
	pixels := int64(v.both) * int64(v.nr) * int64(g.OutW)

	// its first pass: all rows are there, and the array is free
	pass := rows
	row := min(in.read, int64(m.in.bytes))
	var out traffic
	if g.GEMM() {
		pass = max(rows, m.depth, m.full.load)
	} else { // results leave while rows come, but for the last row's
		out.written, out.writes = m.full.out.times(pixels)
		m.results += out.written
		n := rows / int64(g.OutW)
		in.written, in.writes = out.written-out.written/n, out.writes-out.writes/n
	}
	begin := m.end + visitCycles
	if v.next && !m.first {
		m.share(m.input(v.inRows, v.both), m.end+m.there)
	}
	if m.first {
		m.b.Fill += m.time(traffic{read: row})
		m.loaded = m.end + m.time(m.andResiduals(in, pixels))
		begin = m.b.Fill
		if m.weightsFrom > 0 {
			if m.loaded > m.weightsFrom { // then they come before the other rows
				low := min(m.weightsOnce-m.prefetched, m.low)
				m.prefetched += low
				m.loaded += m.time(traffic{read: low})
			}
			begin = max(begin, m.weightsFrom)
			m.loaded = max(m.loaded, begin)
		}
		v.here = m.loaded
		m.first = false
	} else {
		m.owed.add(in)
		if v.weights && in.read > 0 {
			next := m.full.weights
			if v.tiles > 1 {
				next = m.weightsOnce
			}
			next = min(next, m.low)
			m.prefetched += next
			m.owed.add(traffic{read: next, reads: next / m.stripe})
		}
		all := m.time(m.owed)
		m.loaded += all
		v.here = m.loaded
		late, leaves := m.last[1].moved, m.drained[1]-m.drains[1].drain
		if in.read > 0 {
			// the results of the visit before go in between, beside the rows that have not come by then
			m.owed.sub(late)
			behind := all - m.time(m.owed)
			if over := m.loaded - behind - leaves; over > 0 && m.last[1].starves && m.before == 0 {
				v.here = max(v.here, m.drained[1]+min(over, m.time(in))) // no row comes while that drains
			} else {
				v.here -= behind - max(0, min(behind, over))
			}
		}
		if in.read > 0 && m.before > 0 { // its half of the buffer is free when the visit before the last one has ended
			own := in
			in.add(m.last[0].after(m.there - drainDelay - m.depth))
			turn := m.before + m.there + m.time(in)
			if behind := turn - m.end - drainDelay - m.depth; behind > 0 {
				turn += min(behind, m.time(late))
			}
			if m.last[1].starves { // no row comes while it drains, nor while the item before does
				come := max(m.before+m.there, m.drained[0])
				rows := m.time(own)
				if left := come + rows - leaves; left > 0 {
					turn = max(turn, m.drained[1]+min(left, rows))
				}
			}
			v.here = max(v.here, turn)
			m.loaded = max(m.loaded, turn)
		}
		m.before = m.end
		m.last[0] = m.last[1]
	}
	m.owed = traffic{}
	if !g.GEMM() {
		out.written -= in.written
		out.writes -= in.writes
		m.pool(rows, out, begin)
		return
	}
	m.end = begin
	if m.pixels != pixels {
		m.pixels = pixels
		m.full.item = m.moves(&m.full, pixels, traffic{})
		if m.rest.size == m.full.size {
			m.rest.item = m.full.item
		} else {
			m.rest.item = m.moves(&m.rest, pixels, traffic{})
		}
	}
	m.items(&v, rows, pass)
	m.array += m.end - begin
}

// items walks a visit's. Where one has moved all times alike, so do those like it: they are counted.
func (m *model) items(v *visit, rows, pass int64) {
	last := v.tiles - 1
	for c := 0; c < last; c++ {
		end, drained, owed, before, n := m.end, m.drained, m.owed, m.sums, int64(m.like(v, c)-c)
		m.item(&m.full, rows, c, pass, v)
		d := m.end - end
		if n <= 0 || c < 2 || everyStep || m.drained[0]-drained[0] != d || m.drained[1]-drained[1] != d {
			continue
		}
		m.end += n * d
		m.drained[0] += n * d
		m.drained[1] += n * d
		m.owed.add(traffic{n * (m.owed.read - owed.read), n * (m.owed.written - owed.written), n * (m.owed.reads - owed.reads), n * (m.owed.writes - owed.writes)})
		m.sums.more(&before, n)
		c += int(n)
	}
	tile := &m.rest
	if last == 0 {
		tile = &m.full
	}
	m.item(tile, rows, last, pass, v)
}

// like is the last item of a visit, but for the very last, up to which all bring what item c does; before
// c where that is only c.
func (m *model) like(v *visit, c int) int {
	switch most := v.tiles - 2; {
	case !v.weights:
		return most
	case m.prefetched > 0:
		return c
	case m.order || m.come(v, c) <= 0:
		return most
	}
	return v.tiles - 1 - int((m.ring+2*m.full.weights-1)/m.full.weights) // as much comes beside a drain
}

// come is the weights that come while an item drains, those of later ones that the ring has no room for
// before, as far as they are not more than its own.
func (m *model) come(v *visit, c int) int64 {
	return min(int64(v.tiles-1-c)*m.full.weights-m.ring, m.full.weights)
}

// share makes the drains that are left wait for rows, which come at a time and take turns with them on the
// DRAM where it is too slow for both.
func (m *model) share(rows traffic, come int64) {
	left := float64(rows.read)
	reads := left / float64(max(1, m.time(rows))) // bytes a cycle
	free := int64(0)                              // when the drain before has ended
	for i := range m.drained {
		d := &m.drains[i]
		begin := m.drained[i] - d.drain
		if free > begin {
			m.drained[i] += free - begin
			begin = free
		}
		if rest := float64(m.drained[i] - max(come, begin) - m.buffered); rest > 0 && left > 0 && d.moved.read == 0 && !d.starves {
			writes := float64(d.moved.written) / float64(d.drain)
			if reads+writes > m.bpc {
				turns := min(reads, max(m.bpc/2, m.bpc-writes))
				slow := (m.bpc - turns) / writes // of a cycle of the drain
				both := min(left/turns, rest/slow)
				left -= both * turns
				wait := int64(both * (1 - slow))
				m.drained[i] += wait
				d.drain += wait
			}
		}
		free = m.drained[i]
	}
}

// item is what a row tile times a C tile moves, and how long its drain takes.
type item struct {
	out, res      traffic
	drain, spared int64
	late          late
}

// moves is the item of so many pixels, of which some residuals are there.
func (m *model) moves(tile *channels, pixels int64, there traffic) (i item) {
	if !m.onChip {
		i.out.written, i.out.writes = tile.out.times(pixels)
	}
	if m.g.Residual {
		i.res.read, i.res.reads = tile.res.times(pixels)
	}
	moved := i.out
	moved.read, moved.reads = i.res.read-there.read, i.res.reads-there.reads
	words := pixels * tile.words
	if !m.onChip {
		words += int64(float64(pixels) * tile.out.ragged)
	}
	i.drain = max(words, m.time(moved))
	i.spared = m.sparing(moved, words)
	i.late = lateOf(&i, resBeats*m.wide/2)
	i.late.starves = tile.res.long && i.drain > words
	return i
}

// item walks one; the first of a visit waits for the rows of its first pass.
func (m *model) item(tile *channels, rows int64, c int, pass int64, v *visit) {
	first := c == 0
	each := max(rows, m.depth, tile.load)
	work := m.passes * each
	m.compute += m.passes * rows
	i := &tile.item
	if m.ahead != (traffic{}) {
		less := m.moves(tile, m.pixels, m.ahead)
		i = &less
	}
	before := m.owed // of the visit, on the DRAM before its weights
	m.results += i.out.written
	m.residual += i.res.read
	m.owed.add(i.out)
	m.owed.add(i.res)
	m.owed.read -= m.ahead.read
	m.owed.reads -= m.ahead.reads
	m.ahead = traffic{}
	m.spared = i.spared
	m.last[1] = i.late
	drain := i.drain
	if v.crowded {
		drain += min(drain, cycles(tile.weights, m.bpc))
	} else if v.weights && !m.order {
		if come := m.come(v, c); come > 0 && !m.onChip {
			moved := i.out.written + i.res.read
			drain = max(drain, cycles(moved+min(moved, come), m.bpc))
		}
	}
	m.drain += drain
	start := max(m.end, m.drained[0]) // of the bank used two items before
	if first {
		// rows count when they are whole, so the pixels of the last output row come after the load; passes of
		// the first kernel row do not wait for the rows of later ones
		whole := v.here + int64(m.g.OutW)
		early := whole
		if v.late > 0 {
			early -= m.time(m.input(v.late, 1))
		}
		m.end = max(max(start+pass, early)+work-pass, whole+work/int64(m.g.KH)-pass)
		v.stream = max(m.loaded, start+pass-m.time(traffic{read: min(m.ring, int64(v.tiles)*m.full.weights)}))
		m.loaded = max(m.loaded, start+pass)
	} else {
		m.end = start + work
	}
	if v.weights {
		bytes := round(tile.weights, abi.WeightAlign)
		if !m.bias {
			bytes += int64(m.g.OutC) * biasBytes
			m.bias = true
		}
		m.weights += bytes
		there := min(bytes, m.prefetched)
		m.prefetched -= there
		bursts := (bytes - there + m.stripe - 1) / m.stripe
		if w := (traffic{read: bytes - there, reads: bursts}); w.read > 0 {
			if first || c == v.tiles-1 { // its last pass has its weights; so have, nearly, those in between
				before.add(w)
				m.end = max(m.end, v.stream+m.time(before)+each-max(rows, m.depth)+rows)
			}
			m.owed.add(w)
		}
	}
	last := m.end - each + max(rows, m.depth) // the next pass may wait longer for its weights
	m.drained[0], m.drained[1] = m.drained[1], max(last+drainDelay+m.depth, m.drained[1])+drain
	m.drains[0], m.drains[1] = m.drains[1], i.late
}
