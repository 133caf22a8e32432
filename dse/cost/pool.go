package cost

import "github.com/sluice-npu/sluice/dse/rtl"

// poolRow returns cycles of the pool unit, which outputs the given words per cycle. row is the time of an output row,
// first the time of the row's taps before the first tap in its last input row, and out the time from its last tap to its
// last result. A window needs as many
// cycles as it has taps, or as output of its results if that is longer. The same holds for columns that complete a
// window. If output is longer, columns that complete no window pass while results wait in the available room.
func (m *Prepared) poolRow(words int) (row, first, out int64) {
	g, nb := &m.g, m.d.NB()
	groups, taps, w := int64(ceil(g.OutC, nb)), int64(g.KH), int64(g.OutW)
	results := int64(m.full.out.ragged)
	if g.Drained() { // the drain reads them from a gearbox, independent of groups
		results += int64(ceil(g.OutC, words))
	} else {
		results += int64(g.OutC/nb)*int64(ceil(nb, words)) + int64(ceil(g.OutC%nb, words))
	}
	if !g.ByColumns(m.d) {
		taps *= int64(g.KW)
		return w * max(taps*groups, results), taps - int64(g.KW), min(taps*groups, results)
	}
	column := taps * groups // a column that completes no window
	giving := max(column, results)
	room := max(0, int64(rtl.PoolRoom*ceil(min(nb, g.OutC), words))-taps-rtl.PoolDelay)
	gaps := int64(g.KW-1) + (w-1)*int64(g.SW-1) // columns that complete no window
	return w*giving + gaps*column - min(gaps*column, room, w*(giving-column)), taps - 1, min(column, results)
}

// pool is a visit of the pool unit, or of the depthwise unit, which goes through the same taps. Output rows follow the
// input rows, and the last row's results leave afterwards.
func (m *Prepared) pool(v *visit, begin int64) {
	g, words, end := &m.g, m.g.PoolWords(m.d), int64(rtl.PoolEnd)
	if g.Drained() {
		end += rtl.TapSums - rtl.TapResult
	}
	row, first, out := m.poolRow(words)
	n := v.rows / int64(g.OutW)
	// at most ResChunks requests for residuals are in flight
	work := max(n*row, int64(float64(v.rows)*m.full.res.chunks*float64(m.there+rtl.ResTaken)/rtl.ResChunks))
	if m.array == 0 {
		// the first window's last row has come, and the taps of the earlier rows are done
		begin += max(0, cycles(int64(float64(min(v.inRows, g.inRows(0, 1))-1)*m.in.bytes), m.rate)-first)
		if left := m.weightBytes - m.prefetched; left > 0 { // they come after the rows, and before any tap
			begin = max(begin, m.loaded+m.time(traffic{read: left}))
			m.moved.read += left
		}
		m.weights += m.weightBytes
		m.prefetched = 0
	}
	m.drain += v.rows * int64(ceil(g.OutC, words))
	m.array += work
	m.acts += m.full.moved.read
	// work left when the last input row has come: the last output row without its first taps
	m.end = max(begin+work, m.loaded+row-first)
	m.leaves, m.streamed, m.drained[0] = m.end, m.end, m.end
	// the last row's results leave while it is computed, except its last burst
	last := m.full.moved.over(n)
	m.moved.add(last)
	tail := m.time(last)
	m.drained[1] = m.end + out + end + max(tail-row, min(tail, m.time(traffic{written: m.stripe, writes: 1})))
}
