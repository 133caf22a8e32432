package cost

// period is the most steps after which a walk's state is looked for again: two halves of the buffer and two
// banks make two.
const period = 2

// moment is a walk's state and sums behind a step.
type moment struct {
	state
	sums
}

// everyStep makes steady walk all steps; a test compares.
var everyStep bool

// steady takes n equal steps. A step depends on the state and moves all its times alike, so where the
// state is what it was a few steps ago but for the time that went by, the steps since then can only
// repeat, and as many of them as are left are counted instead of walked: the times are the same.
func (m *model) steady(n int, step func()) {
	if n <= period || m.note != nil { // nothing to leave out
		for range n {
			step()
		}
		return
	}
	var past [period]moment
	for i := 0; i < n; i++ {
		step()
		if everyStep || n-i <= period {
			continue // nothing to leave out
		}
		for p := 1; p <= min(period, i); p++ {
			then := &past[(i-p)%period]
			if again := (n - 1 - i) / p; again > 0 && m.as(&then.state) {
				m.skip(then, int64(again))
				i += again * p
				break
			}
		}
		past[i%period] = moment{m.state, m.sums}
	}
}

// as tells whether the state is s but for the time that went by.
func (m *model) as(s *state) bool {
	d := m.end - s.end
	if m.biased > 0 || m.loaded-s.loaded != d || m.drained[0]-s.drained[0] != d || m.drained[1]-s.drained[1] != d {
		return false
	}
	if m.perWeight > 0 && m.streamed-s.streamed != d {
		return false
	}
	if (m.before == 0) != (s.before == 0) || m.before != 0 && m.before-s.before != d {
		return false
	}
	return m.drains == s.drains && m.last == s.last && m.owed == s.owed && m.ahead == s.ahead && m.prefetched == s.prefetched && m.behind == s.behind &&
		m.spared == s.spared && m.first == s.first && m.bias == s.bias
}

// skip takes the steps since then n times more.
func (m *model) skip(then *moment, n int64) {
	d := n * (m.end - then.end)
	m.end += d
	m.loaded += d
	m.streamed += d
	m.drained[0] += d
	m.drained[1] += d
	if m.before != 0 {
		m.before += d
	}
	m.sums.more(&then.sums, n)
}

// more counts what has come since then n times more.
func (s *sums) more(then *sums, n int64) {
	s.acts += n * (s.acts - then.acts)
	s.residual += n * (s.residual - then.residual)
	s.weights += n * (s.weights - then.weights)
	s.results += n * (s.results - then.results)
	s.array += n * (s.array - then.array)
	s.compute += n * (s.compute - then.compute)
	s.drain += n * (s.drain - then.drain)
}
