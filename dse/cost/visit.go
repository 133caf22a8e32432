package cost

import "github.com/sluice-npu/sluice/hw/abi"

// visit is one row tile with C tiles one after the other.
type visit struct {
	nb, both int   // samples, those of both groups
	nr       int   // output rows
	inRows   int   // that come, of a sample
	late     int   // of them, those that the first kernel row does without
	bytes    int64 // of all that come
	tiles    int
	weights  bool  // come for it
	next     bool  // rows come behind its own
	crowded  bool  // its results beside the weights of another C tile
	here     int64 // when its rows are there, known once it is visited
	from     int64 // when the rows of its first output row can be there
	stream   int64 // when its weights begin to come, known then too
}

func (m *model) visit(v visit) {
	g := &m.g
	in := m.input(v.inRows, v.both)
	v.bytes = in.read
	m.acts += in.read
	rows := int64(v.nb) * int64(v.nr) * int64(g.OutW)
	pixels := int64(v.both) * int64(v.nr) * int64(g.OutW)

	// its first pass: all rows are there, and the array is free
	pass := rows
	var out, beside traffic
	if g.GEMM() {
		pass = max(rows, m.depth, m.full.load)
	} else { // results leave while rows come, but for the last row's, and their residuals come
		if !m.onChip {
			out.written, out.writes = m.full.out.times(pixels)
			m.results += out.written
		}
		n := rows / int64(g.OutW)
		if g.Residual {
			out.read, out.reads = m.full.res.times(pixels)
			m.residual += out.read
		}
		beside = traffic{out.read - out.read/n, out.written - out.written/n, out.reads - out.reads/n, out.writes - out.writes/n}
		in.add(beside)
	}
	begin := m.end + visitCycles
	if v.next && !m.first {
		m.share(m.input(v.inRows, v.both), m.end+m.again)
	}
	if m.first {
		begin = m.open(&v, in, pixels)
	} else {
		m.follow(&v, in)
	}
	m.owed = traffic{}
	if m.note != nil {
		m.event("rows of a tile of %d x %d there, %d bytes", v.here, v.nb, v.nr, v.bytes)
	}
	if !g.GEMM() {
		out.sub(beside)
		m.pool(&v, rows, out, begin)
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

// open finds out when the first visit's rows are there, and when the array may begin.
func (m *model) open(v *visit, in traffic, pixels int64) (begin int64) {
	row := min(v.bytes, int64(m.in.bytes))
	m.b.Fill += max(m.time(traffic{read: row}), min(row, m.stripe)/m.beat)
	m.loaded = m.end + m.fresh(m.andResiduals(in, pixels))
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
	if v.bytes > m.asked && !m.keepIn {
		m.loaded += m.time(traffic{read: m.behind})
		m.behind = 0
	}
	v.here = m.loaded
	m.first = false
	return begin
}

// follow finds out when the rows of a later visit are there.
func (m *model) follow(v *visit, in traffic) {
	m.owed.add(in)
	if v.bytes > 0 {
		m.owed.read += m.behind
		m.behind = 0
	}
	if v.weights && v.bytes > 0 {
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
	if v.bytes > 0 {
		// the results of the visit before go in between, beside the rows that have not come by then
		m.owed.sub(late)
		behind := all - m.time(m.owed)
		if over := m.loaded - behind - leaves; over > 0 && m.last[1].starves && m.before == 0 {
			v.here = max(v.here, m.drained[1]+min(over, m.time(in))) // no row comes while that drains
		} else {
			v.here -= behind - max(0, min(behind, over))
		}
	}
	if v.bytes > 0 && m.before > 0 { // its half of the buffer is free when the visit before the last one has ended
		own := in
		if m.d.Int8() && m.g.Drained() {
			v.from = m.before + m.again + m.time(m.input(min(m.g.KH, v.inRows), 1))
		}
		in.add(m.last[0].after(m.again - drainDelay - m.toSums))
		turn := m.before + m.again + m.time(in)
		if behind := turn - m.end - drainDelay - m.toSums; behind > 0 {
			turn += min(behind, m.time(late))
		}
		if m.last[1].starves { // no row comes while it drains, nor while the item before does
			come := max(m.before+m.again, m.drained[0])
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

// items walks a visit's. Where one has moved all times alike, so do those like it: they are counted.
func (m *model) items(v *visit, rows, pass int64) {
	last := v.tiles - 1
	if m.note != nil {
		defer func() {
			m.event("its %d C tiles through the array: %d passes of %d rows, at least D_k = %d and load = %d each", m.end, v.tiles, m.passes, rows, m.depth, m.full.load)
		}()
	}
	for c := 0; c < last; c++ {
		end, drained, owed, streamed, before, n := m.end, m.drained, m.owed, m.streamed, m.sums, int64(m.like(v, c)-c)
		m.item(&m.full, rows, c, pass, v)
		d := m.end - end
		if n <= 0 || c < 2 || everyStep || m.note != nil || m.drained[0]-drained[0] != d || m.drained[1]-drained[1] != d || m.perWeight > 0 && m.streamed-streamed != d {
			continue
		}
		m.end += n * d
		m.drained[0] += n * d
		m.drained[1] += n * d
		m.streamed += n * d
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
		if m.passes > 1 {
			m.loaded = max(m.loaded, start+pass)
		}
	} else {
		m.end = start + work
	}
	if v.weights {
		bytes := round(tile.weights, abi.WeightAlign)
		if !m.bias {
			bytes += int64(m.g.BiasCount) * biasBytes
			m.bias = true
		}
		m.weights += bytes
		there := min(bytes, m.prefetched)
		m.prefetched -= there
		bursts := (bytes - there + m.stripe - 1) / m.stripe
		if w := (traffic{read: bytes - there, reads: bursts}); w.read > 0 {
			if first || c == v.tiles-1 { // its last pass has its weights; so have, nearly, those in between
				before.add(w)
				m.end = max(m.end, v.stream+m.time(before)+rows)
			}
			m.owed.add(w)
		}
		if m.perWeight > 0 { // a ring and a pass ahead of the array at most, each chunk once passes have taken one
			one := tile.weights / m.passes
			taking := m.passes * (max(0, m.chunk-one)*each + one*tile.load) / m.ring
			come := taking + int64(float64(bytes)*m.perWeight)
			m.streamed = max(m.streamed+come, m.end-work+come-int64(float64(m.ring+one)*m.perWeight))
			m.end = max(m.end, m.streamed+rows)
		}
	}
	last := m.end - each + rows // the next pass may wait longer, for its weights or the chain
	m.drained[0], m.drained[1] = m.drained[1], max(last+drainDelay+m.toSums, m.drained[1])+drain
	m.drains[0], m.drains[1] = m.drains[1], i.late
}
