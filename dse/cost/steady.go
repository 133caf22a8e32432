package cost

// period is the maximum number of steps after which the state of a walk can repeat: two, for two halves of the buffer
// and two banks.
const period = 2

// times is the progress of a walk, in cycles since the barrier.
type times struct {
	end      int64 // E of the previous visit
	loaded   int64 // L of the previous visit
	before   int64 // E of the visit before that, when a half of the buffer became free
	leaves   int64 // the last item's drain begins
	streamed int64 // all weights of the previous item have come (if perWeight > 0)
	drained  [2]int64
}

// later returns t moved by n cycles.
func (t times) later(n int64) times {
	return times{t.end + n, t.loaded + n, t.before + n, t.leaves + n, t.streamed + n, [2]int64{t.drained[0] + n, t.drained[1] + n}}
}

// left is the work that is not yet done.
type left struct {
	owed       traffic // W + R + O of the previous visit
	late       traffic // the last item's part of owed
	prefetched int64   // bytes of weights on chip
}

// sums are bytes and cycles so far.
type sums struct {
	acts, weights, array, drain int64
	moved                       traffic // all traffic except input rows
}

// moment is a walk's state and sums after a step.
type moment struct {
	times
	left
	sums
}

// walked is the number of steps up to which steady simulates every step; a test varies it.
var walked = period

// steady performs n equal steps. A step depends on the state only and shifts all its times equally. If the state equals
// that of a few steps ago, except for the time elapsed, the steps since then repeat. The remaining repetitions are
// added up instead of simulated, with equal results.
func (m *Prepared) steady(n int, step func()) {
	var past [period]moment
	for i := 0; i < n; i++ {
		step()
		then := &past[i%period]
		if d := m.end - then.end; i >= walked && m.left == then.left && m.times == then.times.later(d) {
			again := (n - 1 - i) / period
			m.times = m.times.later(int64(again) * d)
			m.sums.more(&then.sums, int64(again))
			i += again * period
		}
		*then = m.moment
	}
}

// more adds n times the difference between s and then.
func (s *sums) more(then *sums, n int64) {
	s.acts += n * (s.acts - then.acts)
	s.weights += n * (s.weights - then.weights)
	s.array += n * (s.array - then.array)
	s.drain += n * (s.drain - then.drain)
	since := s.moved.less(then.moved)
	s.moved.add(traffic{n * since.read, n * since.written, n * since.reads, n * since.writes})
}
