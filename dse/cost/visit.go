package cost

import (
	"github.com/sluice-npu/sluice/dse/rtl"
	"github.com/sluice-npu/sluice/hw/abi"
)

// visit is one row tile with C tiles one after the other.
type visit struct {
	nb, both int   // samples, those of both groups
	nr       int   // output rows
	inRows   int   // that come, of a sample
	late     int   // of them, those that the first kernel row does without
	tiles    int   // C tiles
	weights  bool  // come for it
	rows     int64 // of a pass
	here     int64 // when its rows are there
	stream   int64 // when its weights begin to come
	from     traffic
	ahead    traffic // residuals that are there when its first item drains
}

// run walks all visits and fills in the times of m.b.
func (m *Prepared) run() {
	m.end = m.b.Fill
	tiles := ceil(m.g.OutC, m.tc)
	if m.order { // the first C tile may load rows that stay
		rest := m.rest
		m.rest = m.full
		m.ends(tiles, func(first, last bool) {
			if last {
				m.full, m.rest, m.pixels = rest, rest, 0
			}
			m.rowTiles(1, first || !m.stay, false)
		})
	} else {
		m.rowTiles(tiles, true, !m.replay)
	}
	// the last drain, and what the DRAM still owes
	total := max(m.drained[1], m.loaded+m.time(m.owed))
	m.b.Tail = max(0, total-m.end)
	m.b.Total = total + m.b.Answer
}

// ends takes n steps, of which those between the first and the last are alike.
func (m *Prepared) ends(n int, step func(first, last bool)) {
	step(true, n == 1)
	m.steady(n-2, func() { step(false, false) })
	if n > 1 {
		step(false, true)
	}
}

// rowTiles visits every row tile with so many C tiles. load tells whether the row tiles come from DRAM, again whether the
// weights come for every one (else for the first).
func (m *Prepared) rowTiles(tiles int, load, again bool) {
	m.ends(ceil(m.br, m.tileB), func(first, last bool) {
		v := visit{nb: m.tileB, both: m.tileB * m.groups, tiles: tiles}
		if last {
			v.nb = (m.br-1)%m.tileB + 1
			v.both = v.nb*m.groups - (m.br*m.groups - m.bact)
		}
		for at := 0; at < m.g.OutH; {
			n := 1 // row tiles alike
			if at > 0 {
				n = m.g.alike(at, m.tileRows)
			}
			v.nr = min(m.tileRows, m.g.OutH-at)
			if load {
				v.inRows, v.late = m.g.inRows(at, v.nr), m.g.lateRows(at, v.nr)
			}
			v.weights = first && at == 0 || again
			m.steady(n, func() { m.visit(v) })
			at += n * m.tileRows
		}
	})
}

func (m *Prepared) visit(v visit) {
	v.rows = int64(v.nb) * int64(v.nr) * int64(m.g.OutW)
	if pixels := int64(v.both) * int64(v.nr) * int64(m.g.OutW); m.pixels != pixels {
		m.pixels = pixels
		m.full.item, m.rest.item = m.moves(&m.full), m.moves(&m.rest)
	}
	in := m.input(v.inRows, v.both)
	own := in.read
	m.acts += own
	if !m.g.GEMM() { // results leave while rows come, but for the last row's
		beside := m.full.moved.less(m.full.moved.over(int64(v.nb) * int64(v.nr)))
		in.add(beside)
		m.moved.add(beside)
	}
	begin := m.end + rtl.Visit
	if m.first {
		begin = m.open(&v, in, own)
	} else {
		m.follow(&v, in, own)
	}
	v.from = m.moved
	if m.g.GEMM() {
		m.end = begin
		then := m.times
		m.ends(v.tiles, func(first, last bool) {
			tile := &m.full
			if last {
				tile = &m.rest
			}
			m.item(tile, &v, first, last)
			m.loaded, m.before = m.end, m.end // no item asks for them: so all times move
		})
		m.loaded, m.before = then.loaded, then.before
		m.array += m.end - begin
	} else {
		m.pool(&v, begin)
	}
	m.owed = m.moved.less(v.from)
}

// input is what so many rows of n samples take.
func (m *Prepared) input(rows, n int) traffic {
	return m.in.read(int64(rows) * int64(n))
}

// open finds out when the first visit's rows are there, and when the array may begin.
func (m *Prepared) open(v *visit, in traffic, own int64) (begin int64) {
	if res := m.full.moved.read; m.g.GEMM() && res > 0 { // those of the first item come beside its rows, as many as there is room for
		v.ahead.read = min(res, rtl.ResBeats*m.wide)
		v.ahead.reads = m.full.moved.reads * v.ahead.read / res
		in.add(v.ahead)
	}
	row := min(own, int64(m.in.bytes))
	m.b.Fill += max(m.time(traffic{read: row}), min(row, m.stripe)/m.beat)
	begin = max(m.b.Fill, m.weightsFrom)
	m.loaded = m.end + m.fresh(in)
	if m.loaded > begin && m.weightsFrom > 0 { // weights come before the other rows
		m.prefetched = m.low
		m.loaded += m.time(traffic{read: m.low})
	}
	m.loaded = max(m.loaded, begin)
	m.first, v.here = false, m.loaded
	return begin
}

// follow finds out when the rows of a later visit are there.
func (m *Prepared) follow(v *visit, in traffic, own int64) {
	m.owed.add(in)
	all := m.time(m.owed)
	m.loaded += all
	// the results of the visit before go in between, beside the rows that have not come by then
	behind := all - m.time(m.owed.less(m.late))
	v.here = m.loaded - behind + min(behind, max(0, m.loaded-behind-m.leaves))
	if own == 0 { // all is moved, or the array would wait
		m.loaded = max(m.loaded, m.before)
	} else { // its half of the buffer is free when the visit before the last one has ended
		turn := m.before + m.again + m.time(in)
		v.here, m.loaded = max(v.here, turn), max(m.loaded, turn)
	}
	m.before = m.end
}

// item is what a row tile times a C tile moves, and how long its drain takes.
type item struct {
	moved        traffic // results and residuals
	late         traffic // of these, what does not come before rows do
	least, drain int64   // cycles for the words alone, for all
}

// moves is the item of m.pixels.
func (m *Prepared) moves(tile *channels) (i item) {
	i.least = m.pixels * tile.words
	if !m.onChip {
		i.moved = tile.out.written(m.pixels)
		i.least += int64(float64(m.pixels) * tile.out.ragged)
	}
	i.moved.add(tile.res.read(m.pixels))
	i.late = i.moved
	i.late.read = max(0, i.late.read-rtl.ResBeats*m.wide/2)
	i.late.reads = i.moved.reads * i.late.read / max(1, i.moved.read)
	i.drain = max(i.least, m.time(i.moved))
	return i
}

// item walks one; the first of a visit waits for the rows of its first pass.
func (m *Prepared) item(tile *channels, v *visit, first, last bool) {
	each := max(v.rows, m.depth, tile.load)
	work := m.passes * each
	m.compute += m.passes * v.rows
	m.acts += tile.moved.read
	before := m.moved.less(v.from) // of the visit, on the DRAM before its weights
	m.moved.add(tile.moved)
	start := max(m.end, m.drained[0]) // of the bank used two items before
	drain := tile.drain
	m.end = start + work
	if first {
		drain = max(tile.least, m.time(tile.moved.less(v.ahead)))
		// rows count when they are whole, so the pixels of the last output row come after the load; passes of
		// the first kernel row do not wait for the rows of later ones
		whole := v.here + int64(m.g.OutW) - each
		m.end = max(m.end, whole-m.time(m.input(v.late, 1))+work, whole+work/int64(m.g.KH))
		v.stream = max(m.loaded, start+each-m.time(traffic{read: min(m.ring, int64(v.tiles)*m.full.weights)}))
	}
	m.streamed = max(m.streamed, m.end-work-int64(float64(m.ring+m.pass)*m.perWeight)) // a ring and a pass ahead of the array at most
	if v.weights {
		bytes := round(tile.weights, abi.WeightAlign)
		m.weights += bytes
		there := min(bytes, m.prefetched)
		m.prefetched -= there
		w := traffic{read: bytes - there, reads: (bytes - there + m.stripe - 1) / m.stripe}
		m.moved.add(w)
		if w.read > 0 && (first || last) { // its last pass has its weights; so have, nearly, those in between
			before.add(w)
			m.end = max(m.end, v.stream+m.time(before)+v.rows)
		}
		if m.perWeight > 0 { // each chunk once passes have taken one
			m.streamed += m.passes*(max(0, m.chunk-m.pass)*each+m.pass*tile.load)/m.ring + int64(float64(bytes)*m.perWeight)
			m.end = max(m.end, m.streamed+v.rows)
		}
	}
	m.late = tile.late
	m.leaves = max(m.end-each+v.rows+rtl.DrainDelay+m.toSums, m.drained[1]) // the next pass may wait longer, for its weights or the chain
	m.drain += drain
	m.drained[0], m.drained[1] = m.drained[1], m.leaves+drain
}
