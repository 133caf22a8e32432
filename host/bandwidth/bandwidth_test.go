package bandwidth

import (
	"math"
	"slices"
	"testing"
)

// The mean is harmonic, over the past second; without a transfer in that second, the last one counts.
func TestEstimator(t *testing.T) {
	var e Estimator
	if e.Rate(5) != 0 {
		t.Error("an estimate of nothing")
	}
	e.Add(0, 10e6)
	e.Add(500e6, 40e6)
	if got := e.Rate(500e6); math.Abs(got-16e6) > 1 { // 2 / (1/10 + 1/40)
		t.Errorf("%g, expected 16e6", got)
	}
	if got := e.Rate(1000e6); got != 40e6 { // the first is one second old
		t.Errorf("%g after a second, expected 40e6", got)
	}
	c := Estimator{slices.Clone(e.samples), e.last}
	if got := e.Rate(9e9); got != 40e6 {
		t.Errorf("%g long after, expected the last", got)
	}
	for _, bad := range []float64{0, -1, math.NaN(), math.Inf(1)} {
		e.Add(10e9, bad)
	}
	e.Add(9e9, 20e6)
	e.Add(8e9, 99e6) // out of order, and one second old
	if got := e.Rate(9e9); got != 20e6 {
		t.Errorf("%g, expected 20e6", got)
	}
	e.Add(8.5e9, 5e6) // of another connection
	if got := e.Rate(9.2e9); got != 8e6 {
		t.Errorf("%g of 5 and 20 Mbit/s, expected 8e6", got)
	}
	if got := e.Rate(9.5e9); got != 20e6 { // the older one is removed first
		t.Errorf("%g, expected 20e6", got)
	}
	if got := c.Rate(1000e6); got != 40e6 {
		t.Errorf("a copy says %g", got)
	}
	for i := range 5000 { // the memory is limited
		e.Add(10e9+Time(i), 1e6)
	}
	if len(e.samples) > most {
		t.Errorf("%d samples are kept", len(e.samples))
	}
	for i := range most { // the oldest ones are removed
		e.Add(10e9+5000+Time(i), 2e6)
	}
	if got := e.Rate(10e9 + 5000 + most); math.Abs(got-2e6) > 1 {
		t.Errorf("%g, expected that of the newest", got)
	}
}
