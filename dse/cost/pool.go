package cost

import "github.com/sluice-npu/sluice/dse/rtl"

// poolRow returns three times of the pool unit in cycles: row is the time of an output row, first is the time of its
// taps before its last input row, and out is the time from its last tap to its last result. The unit outputs the given
// number of words per cycle. A window, or a column that completes a window, needs one cycle per tap, or the time to
// output its results if that time is longer. While results wait to be output, and if there is room for them, the unit
// processes columns that complete no window.
func (m *Prepared) poolRow(words int) (row, first, out int64) {
	g, nb := &m.g, m.d.NB()
	groups, taps, w := int64(ceil(g.OutC, nb)), int64(g.KH), int64(g.OutW)
	results := int64(m.full.out.ragged)
	if g.Drained() { // the drain reads results from a gearbox that does not depend on groups
		results += int64(ceil(g.OutC, words))
	} else {
		results += int64(g.OutC/nb)*int64(ceil(nb, words)) + int64(ceil(g.OutC%nb, words))
	}
	if !g.ByColumns(m.d) {
		taps *= int64(g.KW)
		return w * max(taps*groups, results), taps - int64(g.KW), min(taps*groups, results)
	}
	column := taps * groups // cycles of a column that completes no window
	giving := max(column, results)
	room := max(0, int64(rtl.PoolRoom*ceil(min(nb, g.OutC), words))-taps-rtl.PoolDelay)
	gaps := int64(g.KW-1) + (w-1)*int64(g.SW-1) // number of columns that complete no window
	return w*giving + gaps*column - min(gaps*column, room, w*(giving-column)), taps - 1, min(column, results)
}

// pool simulates a visit of the pool unit. The depthwise unit processes the same taps. Output rows are computed as soon
// as their input rows are on chip. The results of the last row are written last.
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
		// the unit waits for the last row of the first window, and meanwhile processes the taps of earlier rows
		begin += max(0, cycles(int64(float64(min(v.inRows, g.inRows(0, 1))-1)*m.in.bytes), m.rate)-first)
		if left := m.weightBytes - m.prefetched; left > 0 { // these weights are read after the rows, and every tap needs them
			begin = max(begin, m.loaded+m.time(traffic{read: left}))
			m.moved.read += left
		}
		m.weights += m.weightBytes
		m.prefetched = 0
	}
	m.drain += v.rows * int64(ceil(g.OutC, words))
	m.array += work
	m.acts += m.full.moved.read
	// when the last input row is on chip, all taps of the last output row except its first taps must still be processed
	m.end = max(begin+work, m.loaded+row-first)
	m.leaves, m.streamed, m.drained[0] = m.end, m.end, m.end
	// results of the last row are written while the row is computed, except its last burst
	last := m.full.moved.over(n)
	m.moved.add(last)
	tail := m.time(last)
	m.drained[1] = m.end + out + end + max(tail-row, min(tail, m.time(traffic{written: m.stripe, writes: 1})))
}
