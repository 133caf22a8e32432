package cuda

import "time"

// Pauses counts times during which the launcher's thread did not poll although launches were running. Either another
// thread used the processor, or a driver call did not return. The GPU does not cause pauses.
type Pauses struct {
	N       int // number of rounds that took longer than the constant pause
	Longest time.Duration
	CPU     time.Duration // processor time of the thread during the longest pause; near zero if the thread did not run
}

const (
	pause     = 5 * time.Millisecond
	readEvery = time.Millisecond // minimum time between two readings of the thread's processor time
)

// watch detects pauses.
type watch struct {
	busy bool // launches were running at the last round
	was  time.Time
	at   time.Time     // time of the last reading
	cpu  time.Duration // processor time at the last reading
}

// round is called in each round of polling. busy reports whether launches are running.
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
