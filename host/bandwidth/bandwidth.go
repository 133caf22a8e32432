// Package bandwidth estimates what a client's link carries: the harmonic mean of the rates of its
// transfers over the past second (Jellyfish, section V). The samples come from whoever times transfers:
// a runtime that serves requests, or a capture of packets (package capture).
package bandwidth

import "slices"

// Time is in ns, on whatever clock the samples have.
type Time = int64

// Window is over how long the mean is taken.
const Window Time = 1_000_000_000

// most bounds the samples that are kept: those of a client that sends a thousand requests a second.
const most = 1024

type sample struct {
	at   Time
	rate float64 // bits a second
}

// Estimator is one link's. The zero value knows nothing.
type Estimator struct {
	samples []sample // in order of time
	last    float64
}

// Add takes in that a transfer which ended at that time had a rate of so many bits a second: those of
// several connections may be told out of order. What is no positive number, or ended a window before the
// last one, is left out.
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

// forget drops what is older than the window.
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

// Rate is the estimate in bits a second: of the second before now, or, where no transfer ended in it, the
// last there was; 0 where none ever was.
func (e *Estimator) Rate(now Time) float64 {
	if e.forget(now); len(e.samples) > 0 {
		e.last = e.mean()
	}
	return e.last
}

// Clone is a copy that shares nothing.
func (e *Estimator) Clone() Estimator {
	return Estimator{append([]sample(nil), e.samples...), e.last}
}
