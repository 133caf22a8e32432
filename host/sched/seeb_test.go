package sched_test

import (
	"math"
	"slices"
	"testing"

	"github.com/sluice-npu/sluice/host/sched"
	"pgregory.net/rapid"
)

// The example of section 3.3.1: 42 TPCs for 10 and 20 images.
func TestSplitExample(t *testing.T) {
	got := sched.Split([]int{10, 20}, 42, nil)
	if !slices.Equal(got, []int{14, 28}) {
		t.Fatalf("%v TPCs, expected 14 and 28", got)
	}
}

// No unit is assigned twice, and each group has at least one as long as there are any.
func TestSplit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		images := rapid.SliceOfN(rapid.IntRange(1, 5000), 1, 60).Draw(t, "images")
		units := rapid.IntRange(0, 304).Draw(t, "units")
		got := sched.Split(images, units, nil)
		sum := 0
		for i, n := range got {
			if n == 0 && sum < units {
				t.Fatalf("group %d has no unit, %d of %d are given", i, sum, units)
			}
			sum += n
		}
		if sum > units || len(got) != len(images) {
			t.Fatalf("%d of %d units given to %d of %d groups", sum, units, len(got), len(images))
		}
	})
}

// Compares algorithm 2 with a search over all pairs, and shows the result of the literal reading.
func TestChoose(t *testing.T) {
	thetas := []float32{0.3, 0.5, 0.7, 0.9}
	rapid.Check(t, func(t *rapid.T) {
		ms := func(name string, most float64) float64 { return rapid.Float64Range(0.01, most).Draw(t, name) * 1e6 }
		s := &sched.SEEB{
			Thetas: thetas, Lambda1: rapid.Float64Range(0.1, 10).Draw(t, "lambda1"), Lambda2: rapid.Float64Range(0.1, 2).Draw(t, "lambda2"),
			Literal: rapid.Bool().Draw(t, "literal"),
			Models:  map[string]sched.LatencyModel{"n": {Alpha: ms("alpha", 10), Beta1: ms("beta1", 5), Beta2: ms("beta2", 10), Beta3: ms("beta3", 50)}},
		}
		images, units := rapid.IntRange(1, 300).Draw(t, "images"), rapid.IntRange(1, 42).Draw(t, "units")
		left := int64(ms("left", 500))
		batch, theta, ok := s.Choose("n", images, units, left)
		best, any := math.Inf(1), false
		for b := 1; b <= images; b *= 2 {
			for _, th := range thetas {
				l := s.Models["n"].At(b, float64(th), units)
				if !s.Literal {
					l *= math.Ceil(float64(images) / float64(b))
				}
				if l <= float64(left) {
					any = true
					best = min(best, s.Lambda1*l/1e9-s.Lambda2*float64(th))
				}
			}
		}
		if ok != any {
			t.Fatalf("found: %v, expected %v", ok, any)
		}
		if !ok {
			if theta != 0.3 || batch > images || 2*batch <= images {
				t.Fatalf("nothing holds the deadline: batch %d, theta %v", batch, theta)
			}
			return
		}
		l := s.Models["n"].At(batch, float64(theta), units)
		if !s.Literal {
			l *= math.Ceil(float64(images) / float64(batch))
		} else if batch != 1 {
			t.Fatalf("literal: batch %d", batch)
		}
		if c := s.Lambda1*l/1e9 - s.Lambda2*float64(theta); math.Abs(c-best) > 1e-12 {
			t.Fatalf("cost %v, the least is %v", c, best)
		}
	})
}

// Algorithms 1 and 2 for a period: four applications of a thousand images each, nine thresholds.
func BenchmarkSEEB(b *testing.B) {
	s := &sched.SEEB{Models: map[string]sched.LatencyModel{"n": {Alpha: 1e6, Beta1: 2e5, Beta2: 5e6, Beta3: 5e7, Least: 1e6}}}
	for i := range 9 {
		s.Thetas = append(s.Thetas, float32(i+1)/10)
	}
	images := []int{1000, 1000, 1000, 1000}
	var units []int
	b.ReportAllocs()
	for b.Loop() {
		units = sched.Split(images, 41, units[:0])
		for j, n := range units {
			s.Choose("n", images[j], n, 1e9)
		}
	}
}
