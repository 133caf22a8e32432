package bench

import (
	"slices"
	"time"

	"github.com/sluice-npu/sluice/host/gpu/cuda"
)

// Within counts the launches that ended in a span.
func Within(ended []time.Time, from, to time.Time) int64 { return within(ended, from, to) }

// Spans returns the series of these observed preemptions.
func Spans(key string, kill bool, all []cuda.Preemption) []Series {
	b := &bench{raw: &Raw{}}
	b.addSpans(key, kill, all)
	return b.raw.Series
}

// Pause is the pause between two arrivals.
var Pause = pause

// Side returns the side of the in-place network on a GPU.
const Side = side

// UntilWrong returns the end of a control experiment that began at a time.
func UntilWrong(began time.Time, of time.Duration) func(launches, hits, wrong int) bool {
	return (&bench{Config: Config{For: of}}).untilWrong(began)
}

// Steady returns the group of launches, from 1, after which clocks count as steady; 0: none. A group has the time of a
// launch, the number of launches, and the SMs' clock, -1 if unknown.
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
