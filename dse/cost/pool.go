package cost

import (
	"math"

	"github.com/sluice-npu/sluice/hw/abi"
)

// poolRow is the cycles of an output row in the pool unit, words of its results leaving in a cycle,
// its taps before the first one in the last input row, and what its last results take to leave behind
// its last tap. A pixel's windows are as long as their taps,
// or as giving out their results where that takes longer; so are the columns that complete them. Where
// it does, columns that complete none pass while the results that there is room for leave.
func (m *model) poolRow(words int) (row, first, out int64) {
	g := &m.g
	nb := m.d.NB()
	groups := int64(ceil(g.OutC, nb))
	results := m.given(words)
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

// given is the cycles in which a pixel's results leave.
func (m *model) given(words int) int64 {
	c, nb, ragged := m.g.OutC, m.d.NB(), int64(m.full.out.ragged)
	if m.g.Drained() { // the drain takes them from a gearbox, whatever the groups
		return int64(ceil(c, words)) + ragged
	}
	return int64(c/nb)*int64(ceil(nb, words)) + int64(ceil(c%nb, words)) + ragged
}

// residuals is the cycles in which those of so many pixels come: resRuns chunks are under way, which a start's first ones are at
// once, and in int8 those of one pixel come from one port.
func (m *model) residuals(pixels int64) int64 {
	r := &m.full.res
	life := m.there + resTaken
	all := int64(float64(pixels) * r.chunks * float64(life) / resRuns)
	if m.array == 0 {
		all -= life
	}
	if m.d.Int8() && m.g.ResPix == 0 {
		all = max(all, int64(float64(pixels)*r.bytes)/m.beat)
	}
	return all
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
func (m *model) pool(v *visit, rows int64, result traffic, begin int64) {
	g := &m.g
	words := m.d.Drain
	if g.Op == abi.OpAvgPool || m.d.Int8() && !g.Drained() { // of int8 maxima take factors too
		words = g.AverageWords(m.d)
	}
	row, first, out := m.poolRow(words)
	work := rows / int64(g.OutW) * row
	if m.d.Int8() && g.Drained() {
		_, ragged := math.Modf(m.full.out.ragged) // of a row's ends, where that is a run
		row = max(row, int64(float64(g.OutW)*(float64(m.given(words))+ragged)))
		work = rows / int64(g.OutW) * row
		begin = max(begin, v.from)
	}
	work = max(work, m.residuals(rows))
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
	if m.biased > 0 { // no word leaves before the biases have come: taps go on while there is room for groups of sums
		groups := int64(ceil(g.OutC, m.d.NB()))
		m.biased += rows * m.given(words)
		m.held += rows * groups
		if m.held > poolRoom {
			if until := m.biased - poolRoom*m.given(words)/groups; until > at {
				at = until
			} else {
				m.biased = 0
			}
		}
	}
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
	m.drained[1] = max(at+out+m.unitEnd(), m.biased) + tail
}
