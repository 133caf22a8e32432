package cost

// period is the maximum number of steps after which the state of a walk can repeat. It is two because the buffer has
// two halves and the accumulators have two banks.
const period = 2

// times represents the progress of a walk, in cycles since the barrier.
type times struct {
	end      int64 // E of the previous visit
	loaded   int64 // L of the previous visit
	before   int64 // E of the visit before the previous one, at which a half of the buffer became free
	leaves   int64 // time at which the drain of the last item begins
	streamed int64 // time at which all weights of the previous item were on chip (if perWeight > 0)
	drained  [2]int64
}

// later returns t moved by n cycles.
func (t times) later(n int64) times {
	return times{t.end + n, t.loaded + n, t.before + n, t.leaves + n, t.streamed + n, [2]int64{t.drained[0] + n, t.drained[1] + n}}
}

// left represents the traffic that remains, and the weights that are already on chip.
type left struct {
	owed       traffic // W + R + O of the previous visit
	late       traffic // part of owed that belongs to the last item
	prefetched int64   // bytes of weights that are on chip before they are needed
}

// sums represents the bytes and cycles since the barrier.
type sums struct {
	acts, weights, array, drain int64
	moved                       traffic // all traffic except input rows
}

// moment represents the state and the sums of a walk after a step.
type moment struct {
	times
	left
	sums
}

// walked is the number of steps that steady always simulates. A test varies this number.
var walked = period

// steady performs n equal steps. The result of a step depends only on the state. If the state equals an earlier state,
// two steps before (constant period), and all times are later by the same number of cycles, the steps repeat. The
// remaining repetitions are then multiplied instead of simulated, with equal results.
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

// more adds n times the difference between s and the earlier sums `then` to s.
func (s *sums) more(then *sums, n int64) {
	s.acts += n * (s.acts - then.acts)
	s.weights += n * (s.weights - then.weights)
	s.array += n * (s.array - then.array)
	s.drain += n * (s.drain - then.drain)
	since := s.moved.less(then.moved)
	s.moved.add(traffic{n * since.read, n * since.written, n * since.reads, n * since.writes})
}
