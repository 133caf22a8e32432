package cost

import "github.com/sluice-npu/sluice/hw/abi"

// poolRow is the cycles of an output row in the pool unit, words of its results leaving in a cycle,
// its taps before the first one in the last input row, and what its last results take to leave behind
// its last tap. A pixel's windows are as long as their taps,
// or as giving out their results where that takes longer; so are the columns that complete them. Where
// it does, columns that complete none pass while the results that there is room for leave.
func (m *model) poolRow(words int) (row, first, out int64) {
	g := &m.g
	nb := m.d.NB()
	groups := int64(ceil(g.OutC, nb))
	ragged := int64(m.full.out.ragged)
	results := int64(g.OutC/nb)*int64(ceil(nb, words)) + int64(ceil(g.OutC%nb, words)) + ragged // of a pixel
	if g.Drained() {
		results = int64(ceil(g.OutC, words)) + ragged // the drain takes them from a gearbox, whatever the groups
	}
	if !g.ByColumns(m.d) {
		taps := int64(g.KH) * int64(g.KW)
		return int64(g.OutW) * max(taps*groups, results), taps - int64(g.KW), min(taps*groups, results)
	}
	taps := int64(g.KH)
	column := taps * groups // that completes no window
	giving := max(column, results)
	late := giving - column // results leave meanwhile, then
	room := max(0, int64(poolRoom*ceil(min(nb, g.OutC), words))-taps-poolDelay-(m.unitEnd()-poolEnd))
	// a run of columns that complete none, after n that do
	run := func(columns, n int) int64 {
		gap := int64(columns) * column
		return gap - min(gap, room, int64(n)*late)
	}
	row = int64(g.OutW) * giving
	if g.SW == 1 {
		return row + run(g.KW-1, g.OutW), taps - 1, min(column, results)
	}
	return row + run(g.KW-1, 1) + int64(g.OutW-1)*run(g.SW-1, 1), taps - 1, min(column, results)
}

// unitEnd is the cycles from the last tap to its last word.
func (m *model) unitEnd() int64 {
	if m.g.Drained() {
		return depthwiseEnd
	}
	return poolEnd
}

// pool is a visit of the pool unit, or of the depthwise unit, which walks the same taps: output rows follow the input rows, and the last one's results leave
// behind them.
func (m *model) pool(rows int64, result traffic, begin int64) {
	g := &m.g
	words := m.d.Drain
	if g.Op == abi.OpAvgPool || m.d.Int8() && !g.Drained() { // of int8 maxima take factors too
		words = g.AverageWords(m.d)
	}
	row, first, out := m.poolRow(words)
	work := rows / int64(g.OutW) * row
	if m.array == 0 && !m.keepIn { // the first window's last row has come, and the taps of the ones before are done
		begin = max(begin, begin+cycles(int64(float64(max(0, g.inRows(0, 1)-1))*m.in.bytes), m.rate)-first)
	}
	// what is left when the last input row has come: the last output row but for its first taps
	last := row - first
	if left := m.weightsOnce - m.prefetched; g.Drained() && !m.bias && left > 0 { // they come behind the rows, and no tap before
		begin = max(begin, m.loaded+m.time(traffic{read: left}))
	}
	m.compute += rows / int64(g.OutW) * g.PoolTaps(m.d)
	m.drain += rows * int64(ceil(g.OutC, words))
	at := max(begin+work, m.loaded+last)
	m.array += work
	m.end = at
	m.owed.add(result)
	if !m.bias {
		m.weights += m.weightsOnce
		m.owed.add(traffic{read: m.weightsOnce - m.prefetched})
		m.prefetched, m.bias = 0, true
	}
	// the last row leaves while it is made, but for its last burst
	tail := m.time(result)
	burst := min(tail, m.time(traffic{written: m.stripe, writes: 1}))
	if m.d.Int8() { // its few lanes give a burst no faster than a port takes it
		burst = max(0, burst-min(m.stripe, result.written)/int64(words))
	}
	tail = max(tail-row, burst)
	m.drained[1] = at + out + m.unitEnd() + tail
}
