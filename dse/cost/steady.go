package cost

// period is the most steps after which a walk's state is looked for again: two halves of the buffer and two
// banks make two.
const period = 2

// times are where a walk stands, in cycles since the barrier.
type times struct {
	end      int64 // E of the visit before
	loaded   int64 // L of the visit before
	before   int64 // E of the visit before that: when a half of the buffer became free
	leaves   int64 // the last item's drain begins
	streamed int64 // when all weights of the item before had come, where perWeight counts
	drained  [2]int64
}

// later are times so many cycles later.
func (t times) later(n int64) times {
	return times{t.end + n, t.loaded + n, t.before + n, t.leaves + n, t.streamed + n, [2]int64{t.drained[0] + n, t.drained[1] + n}}
}

// left is what is still to be moved.
type left struct {
	owed       traffic // W + R + O of the visit before
	late       traffic // of these, the last item's
	prefetched int64   // weights that are there
	first      bool
}

// sums are bytes and cycles so far.
type sums struct {
	acts, weights, array, compute, drain int64
	moved                                traffic // but for rows
}

// moment is a walk's state and sums behind a step.
type moment struct {
	times
	left
	sums
}

// walked is the most steps that steady walks one by one; a test compares.
var walked = period

// steady takes n equal steps. A step depends on the state and moves all its times alike, so where the
// state is what it was a few steps ago but for the time that went by, the steps since then can only
// repeat, and as many of them as are left are counted instead of walked: the times are the same.
func (m *Prepared) steady(n int, step func()) {
	if n <= walked {
		for range n {
			step()
		}
		return
	}
	var past [period]moment
	for i := 0; i < n; i++ {
		step()
		for p := 1; p <= min(period, i); p++ {
			then := &past[(i-p)%period]
			d := m.end - then.end
			if m.left == then.left && m.times == then.times.later(d) {
				again := int64((n - 1 - i) / p)
				m.times = m.times.later(again * d)
				m.sums.more(&then.sums, again)
				i += int(again) * p
				break
			}
		}
		past[i%period] = m.moment
	}
}

// more counts what has come since then n times more.
func (s *sums) more(then *sums, n int64) {
	s.acts += n * (s.acts - then.acts)
	s.weights += n * (s.weights - then.weights)
	s.array += n * (s.array - then.array)
	s.compute += n * (s.compute - then.compute)
	s.drain += n * (s.drain - then.drain)
	since := s.moved.less(then.moved)
	s.moved.add(traffic{n * since.read, n * since.written, n * since.reads, n * since.writes})
}
