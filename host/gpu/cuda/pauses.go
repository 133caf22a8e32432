package cuda

import "time"

// Pauses are times in which the launcher's thread did not look at launches that were under way: something else had
// its processor, or a driver call did not return. What they delay is no property of the GPU.
type Pauses struct {
	N       int // longer than pause
	Longest time.Duration
	CPU     time.Duration // of the thread in the longest: near none where it was off the processor
}

const (
	pause     = 5 * time.Millisecond
	readEvery = time.Millisecond // between two readings of the thread's time
)

// watch notices pauses; it is called once a round.
type watch struct {
	busy bool // launches were under way at the last round
	was  time.Time
	at   time.Time     // of the last reading
	cpu  time.Duration // read then
}

// round is called with whether launches are under way.
func (w *watch) round(p *Pauses, busy bool) {
	now := time.Now()
	if gone := now.Sub(w.was); w.busy && busy && gone > pause {
		if p.N++; gone > p.Longest {
			p.Longest, p.CPU = gone, min(gone, threadTime()-w.cpu)
		}
	}
	if busy && now.Sub(w.at) > readEvery {
		w.at, w.cpu = now, threadTime()
	}
	w.busy, w.was = busy, now
}
