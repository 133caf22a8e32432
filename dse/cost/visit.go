package cost

import (
	"github.com/sluice-npu/sluice/dse/rtl"
	"github.com/sluice-npu/sluice/hw/abi"
)

// visit represents one row tile with its C tiles in sequence.
type visit struct {
	nb, both int   // number of samples: of a group; of both groups
	nr       int   // number of output rows
	inRows   int   // number of input rows to load per sample
	late     int   // part of inRows that the first kernel row does not need
	tiles    int   // number of C tiles
	rest     bool  // the last of these C tiles is the last of the layer
	weights  bool  // weights are loaded for the visit
	rows     int64 // number of rows of a pass
	here     int64 // cycle at which the input rows are on chip
	stream   int64 // cycle at which the first weights arrive
	from     traffic
	ahead    traffic // residuals that are on chip when the first item drains
}

// run simulates all visits and sets the times in m.b.
func (m *Prepared) run() {
	m.end = m.b.Fill
	outer, tiles := 1, ceil(m.g.OutC, m.tc)
	if m.e.Order {
		outer, tiles = tiles, 1
	}
	m.ends(outer, func(first, last bool) { m.rowTiles(tiles, first, last) })
	// the visits end after the last drain and the remaining traffic
	total := max(m.drained[1], m.loaded+m.time(m.owed))
	m.b.Tail = max(0, total-m.end)
	m.b.Total = total + m.b.Answer
}

// ends performs n steps. All steps except the first and the last must be equal.
func (m *Prepared) ends(n int, step func(first, last bool)) {
	step(true, n == 1)
	if n > 1 {
		m.steady(n-2, func() { step(false, false) })
		step(false, true)
	}
}

// rowTiles visits every row tile with the given number of C tiles. firstTile and lastTile report whether these C tiles
// include the first and the last C tile of the layer.
func (m *Prepared) rowTiles(tiles int, firstTile, lastTile bool) {
	br, tileB, tileRows := int(m.e.BR), int(m.e.TileB), int(m.e.TileRows)
	load := firstTile || !Stays(br, m.g.OutH, tileB, tileRows) // the row tiles are read from DRAM
	again := !m.e.Order && m.weightBytes > RingKeeps(m.d)      // weights are read for each row tile, not only for the first
	m.ends(ceil(br, tileB), func(first, last bool) {
		v := visit{nb: tileB, both: tileB * m.groups, tiles: tiles, rest: lastTile}
		if last {
			v.nb = (br-1)%tileB + 1
			v.both = v.nb*m.groups - (br*m.groups - m.bact)
		}
		for at := 0; at < m.g.OutH; {
			n := m.g.alike(at, tileRows)
			v.nr = min(tileRows, m.g.OutH-at)
			if load {
				v.inRows, v.late = m.g.inRows(at, v.nr), m.g.lateRows(at, v.nr)
			}
			v.weights = first && at == 0 || again
			m.steady(n, func() { m.visit(v) })
			at += n * tileRows
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
	if !m.g.GEMM() { // results are written while rows are read, except the results of the last row
		beside := m.full.moved.less(m.full.moved.over(int64(v.nb) * int64(v.nr)))
		in.add(beside)
		m.moved.add(beside)
	}
	begin := m.end + rtl.Visit
	if m.loaded == 0 { // the first visit
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
			if last && v.rest {
				tile = &m.rest
			}
			m.item(tile, &v, first, last)
			m.loaded, m.before = m.end, m.end // items do not use these times; steady requires that all times move equally
		})
		m.loaded, m.before = then.loaded, then.before
		m.array += m.end - begin
	} else {
		m.pool(&v, begin)
	}
	m.owed = m.moved.less(v.from)
}

// input returns the traffic of the given rows of n samples.
func (m *Prepared) input(rows, n int) traffic {
	return m.in.read(int64(rows) * int64(n))
}

// open computes when the rows of the first visit are on chip. It returns the cycle at which the array may begin.
func (m *Prepared) open(v *visit, in traffic, own int64) (begin int64) {
	if res := m.full.moved.read; m.g.GEMM() && res > 0 { // residuals of the first item that fit their queue are read with its rows
		v.ahead.read = min(res, rtl.ResBeats*m.wide)
		v.ahead.reads = m.full.moved.reads * v.ahead.read / res
		in.add(v.ahead)
	}
	row := min(own, int64(m.in.bytes))
	m.b.Fill += max(m.time(traffic{read: row}), min(row, m.stripe)/m.beat)
	begin = max(m.b.Fill, m.weightsFrom)
	if in.reads <= m.under { // nothing is in flight: the first bursts wait only for the DRAM
		in.reads = 0
	}
	m.loaded = m.end + m.time(in)
	if m.loaded > begin && m.weightsFrom > 0 { // weights are read before the other rows
		m.prefetched = m.low
		m.loaded += m.time(traffic{read: m.low})
	}
	m.loaded = max(m.loaded, begin)
	v.here = m.loaded
	return begin
}

// follow computes the cycle at which the rows of a later visit are on chip.
func (m *Prepared) follow(v *visit, in traffic, own int64) {
	m.owed.add(in)
	all := m.time(m.owed)
	m.loaded += all
	// the previous visit's results are written between rows that arrive after the drain of its last item has begun
	behind := all - m.time(m.owed.less(m.late))
	v.here = m.loaded - behind + min(behind, max(0, m.loaded-behind-m.leaves))
	if own == 0 { // no rows to read, so only earlier traffic counts
		m.loaded = max(m.loaded, m.before)
	} else { // a half of the buffer is free when the visit before the previous one has ended
		turn := m.before + m.again + m.time(in)
		v.here, m.loaded = max(v.here, turn), max(m.loaded, turn)
	}
	m.before = m.end
}

// item contains the traffic and the drain time of one row tile times one C tile.
type item struct {
	moved        traffic // results and residuals
	late         traffic // part of moved that does not move before the next rows
	least, drain int64   // cycles of the drain: for the words alone; including the traffic
}

// moves returns the traffic and the length of the drain for m.pixels pixels of a C tile.
func (m *Prepared) moves(tile *channels) (i item) {
	i.least = m.pixels * tile.words
	if !m.e.OnChip {
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

// item simulates one item. The first item of a visit waits for the rows that its passes need.
func (m *Prepared) item(tile *channels, v *visit, first, last bool) {
	each := max(v.rows, m.depth, tile.load)
	work := m.passes * each
	m.acts += tile.moved.read
	before := m.moved.less(v.from) // traffic of the visit on the DRAM before the item's weights
	m.moved.add(tile.moved)
	start := max(m.end, m.drained[0]) // the bank that was used two items before is free
	drain := tile.drain
	m.end = start + work
	if first {
		drain = max(tile.least, m.time(tile.moved.less(v.ahead)))
		// A pass can compute its last output row only after the last input row has completely arrived. Passes of the
		// first kernel row do not wait for input rows that only later kernel rows need.
		whole := v.here + int64(m.g.OutW) - each
		m.end = max(m.end, whole-m.time(m.input(v.late, 1))+work, whole+work/int64(m.g.KH))
		v.stream = max(m.loaded, start+each-m.time(traffic{read: min(m.ring, int64(v.tiles)*tile.weights)}))
	}
	m.streamed = max(m.streamed, m.end-work-int64(float64(m.ring+m.pass)*m.perWeight)) // weights are at most a ring and a pass ahead
	if v.weights {
		bytes := round(tile.weights, abi.WeightAlign)
		m.weights += bytes
		there := min(bytes, m.prefetched)
		m.prefetched -= there
		w := traffic{read: bytes - there, reads: (bytes - there + m.stripe - 1) / m.stripe}
		m.moved.add(w)
		if w.read > 0 && (first || last) { // the last pass waits for its weights; other items nearly always have theirs
			before.add(w)
			m.end = max(m.end, v.stream+m.time(before)+v.rows)
		}
		if m.perWeight > 0 { // a chunk is requested when passes have used a chunk
			m.streamed += m.passes*(max(0, m.chunk-m.pass)*each+m.pass*tile.load)/m.ring + int64(float64(bytes)*m.perWeight)
			m.end = max(m.end, m.streamed+v.rows)
		}
	}
	m.late = tile.late
	m.leaves = max(m.end-each+v.rows+rtl.DrainDelay+m.toSums, m.drained[1]) // the drain does not wait for the next pass
	m.drain += drain
	m.drained[0], m.drained[1] = m.drained[1], m.leaves+drain
}
