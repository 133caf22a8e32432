package machine

import "github.com/sluice-npu/sluice/dse/rtl"

// pool is the state of pool_seq, of the pool unit and of the depthwise unit. pool_seq processes one tap per cycle.
type pool struct {
	state       state
	l           *layer
	layer       int
	start       bool
	half, above int
	item        int
	i, r, w     int // index of the sample, row and column of the results
	group       int // index of the group of channels
	kh, kw      int
	skip        int // number of remaining columns that complete no result
	room        int
	most        int  // number of words that leave per cycle
	sums        bool // the drain reads the results
	results     queue[result]
	pos         int // number of words of the first result that have left
	pipe        pipe
	full        bool // the weights of a depthwise layer are loaded
	release     int64
}

type result struct {
	at int64 // first cycle in which the result is in the queue
	n  int   // number of words
}

func (x *pool) walk(m *machine) {
	l := x.l
	switch x.state {
	case idle:
		if l = m.fetch.take(m, unitPool); l != nil {
			x.l, x.state, x.item, x.above, x.half = l, barrier, 0, 0, 0
			if x.start = l.KeepIn && !x.start; x.start {
				x.half = 1
			}
			if l.KeepIn {
				x.above = l.PadT
			}
		}
	case barrier:
		if x.above > 0 {
			x.above--
		} else if m.ended == x.layer && (!l.table || m.weight.biased != x.layer) && (!l.depthw || x.full) {
			x.layer++
			if x.state = tiles; l.GEMM() {
				x.state = idle
			}
		}
	case tiles:
		x.i, x.r, x.w, x.group, x.kh, x.kw, x.state = 0, 0, 0, 0, 0, 0, running
		x.skip = x.lead()
		// stored here because the next layer may be accepted before all results have left
		x.sums, x.most = l.depthw, l.PoolWords(m.d)
	case running:
		x.tap(m)
	}
}

// lead returns the number of columns before the first result of a row.
func (x *pool) lead() int {
	if x.l.byColumn {
		return x.l.KW - 1
	}
	return 0
}

// tap processes one tap. If the tap must wait for activations, it counts a stall.
func (x *pool) tap(m *machine) {
	l, t := x.l, &x.l.items[x.item]
	place := x.i*((t.nr-1)*l.SH+l.KH) + x.r*l.SH + x.kh
	if place >= m.acts.avail[x.half] {
		m.Stalls.Activations++
		return
	}
	if x.kh+x.kw == 0 && x.skip == 0 {
		if x.room == 0 {
			return
		}
		x.room--
	}
	if x.kw++; x.kw < l.KW && !l.byColumn {
		return
	}
	x.kw = 0
	if x.kh++; x.kh < l.KH {
		return
	}
	x.kh = 0
	nb := m.d.NB()
	if x.skip == 0 {
		after := int64(rtl.TapResult)
		if l.depthw {
			after = rtl.TapSums
		}
		x.results.push(result{m.now + after, min(nb, l.InC-x.group*nb)})
	}
	if x.group++; x.group*nb < l.InC {
		return
	}
	x.group = 0
	if x.skip > 0 {
		x.skip--
		return
	}
	x.w++
	if x.skip = 0; l.byColumn {
		x.skip = l.SW - 1
	}
	if x.w < l.OutW {
		return
	}
	x.w, x.skip = 0, x.lead()
	if x.r++; x.r < t.nr {
		return
	}
	x.r = 0
	if x.i++; x.i < t.nb {
		return
	}
	m.acts.freed[x.half] = true
	x.half, x.state = 1-x.half, tiles
	if x.item++; x.item == len(l.items) {
		if x.state = idle; l.depthw {
			x.release = m.now + rtl.TapRelease
		}
	}
}

// give outputs results of the pool unit.
func (x *pool) give(m *machine) {
	if m.now == x.release {
		x.full = false
	}
	ready := m.out.words.n < 2 && m.out.pool
	leaves := x.pipe.leaves()
	if !ready && leaves > 0 {
		return
	}
	if ready && leaves > 0 {
		m.out.in = leaves
	}
	x.pipe.move()
	if x.sums || x.results.n == 0 || x.results.front().at > m.now {
		return
	}
	r := x.results.front()
	n := min(x.most, r.n-x.pos)
	x.pipe.put(n)
	if x.pos += n; x.pos == r.n {
		x.results.pop()
		x.pos = 0
		x.room++
	}
}

// has reports whether the next words of the depthwise unit are ready. The method pop removes them.
func (x *pool) has(m *machine, words int) bool {
	n := 1
	if x.pos+words > m.d.NB() {
		n = 2
	}
	return x.results.n >= n && x.results.at[(x.results.head+n-1)&(len(x.results.at)-1)].at <= m.now
}

func (x *pool) pop(m *machine, words int, pixel bool) {
	nb := m.d.NB()
	x.pos += words
	for x.pos > 0 && (x.pos >= nb || pixel) {
		x.results.pop()
		x.room++
		x.pos = max(0, x.pos-nb)
	}
}
