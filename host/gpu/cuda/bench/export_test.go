package bench

import (
	"slices"
	"time"

	"github.com/sluice-npu/sluice/host/gpu/cuda"
)

// Within counts those that ended in a span.
func Within(ended []time.Time, from, to time.Time) int64 { return within(ended, from, to) }

// Spans are the series of preemptions that were seen so.
func Spans(key string, kill bool, all []cuda.Preemption) []Series {
	b := &bench{raw: &Raw{}}
	b.addSpans(key, kill, all)
	return b.raw.Series
}

// Pause is between two arrivals.
var Pause = pause

// Side is that of the network in place on a GPU.
const Side = side

// UntilWrong is when a control ends that began then.
func UntilWrong(began time.Time, of time.Duration) func(launches, hits, wrong int) bool {
	return (&bench{Config: Config{For: of}}).untilWrong(began)
}

// Steady tells after which group of launches, from 1, clocks are taken to be up; 0: none. Of each what a launch took and
// how many there were, and what is said of the SMs' clock, -1: nothing.
func Steady(enough int64, groups [][3]int) int {
	s := settling{enough: enough}
	for i, g := range groups {
		if s.group(slices.Repeat([]float64{float64(g[0])}, g[1]), func() (int, bool) { return g[2], g[2] >= 0 }) {
			return i + 1
		}
	}
	return 0
}

// Rounds of padding, and the order of n ways in so many.
const Rounds = rounds

func InTurn(rounds, n int) []int { return inTurn(rounds, n) }
