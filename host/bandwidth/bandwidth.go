// Package bandwidth estimates the throughput of a client's link: the harmonic mean of its transfer rates in the last
// second (Jellyfish, section V). A runtime measures the transfers, or package capture finds them in captured packets.
package bandwidth

import "slices"

// Time is in ns, on the caller's clock.
type Time = int64

// Window is the time over which the mean is computed.
const Window Time = 1_000_000_000

// most is the largest number of stored samples. It suffices for a thousand requests per second.
const most = 1024

type sample struct {
	at   Time
	rate float64 // bits a second
}

// Estimator estimates one link. The zero value is ready for use.
type Estimator struct {
	samples []sample // sorted by time
	last    float64
}

// Add records the end time and the rate of a transfer, in bits a second. Transfers may arrive out of order. Add ignores
// rates that are not positive or above 1e15, and transfers that ended a Window or more before the newest transfer.
func (e *Estimator) Add(at Time, rate float64) {
	n := len(e.samples)
	if !(rate > 0) || rate > 1e15 || n > 0 && at <= e.samples[n-1].at-Window {
		return
	}
	e.forget(at)
	if len(e.samples) == most {
		e.samples = slices.Delete(e.samples, 0, 1)
	}
	k := len(e.samples)
	for k > 0 && e.samples[k-1].at > at {
		k--
	}
	e.samples = slices.Insert(e.samples, k, sample{at, rate})
	e.last = e.mean()
}

// forget drops samples older than the window.
func (e *Estimator) forget(now Time) {
	k := 0
	for k < len(e.samples) && e.samples[k].at <= now-Window {
		k++
	}
	e.samples = append(e.samples[:0], e.samples[k:]...)
}

func (e *Estimator) mean() float64 {
	sum := 0.0
	for _, s := range e.samples {
		sum += 1 / s.rate
	}
	return float64(len(e.samples)) / sum
}

// Rate returns the estimate for the second before now, in bits a second. If no transfer ended in that second, Rate
// returns the previous estimate, or 0 if no transfer was recorded.
func (e *Estimator) Rate(now Time) float64 {
	if e.forget(now); len(e.samples) > 0 {
		e.last = e.mean()
	}
	return e.last
}
