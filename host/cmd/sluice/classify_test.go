package main

import (
	"math"
	"testing"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/dse/graph"
)

// The probabilities beside an answer are those of the measure that the exit has: labels that do not exclude each other
// have separate probabilities, and an exit that is not a classifier has none.
func TestTop(t *testing.T) {
	raw := []int16{-2, 3, 1} // of no fraction bits
	sigmoid := func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }
	soft := func(x float64) float64 { return math.Exp(x) / (math.Exp(-2) + math.Exp(3) + math.Exp(1)) }
	for _, c := range []struct {
		by, named string
		raw       []int16
		want      []classProb
	}{
		{"", graph.Softmax, raw, []classProb{{Class: 1, Prob: soft(3)}, {Class: 2, Prob: soft(1)}}},
		{graph.Entropy, graph.Entropy, raw, []classProb{{Class: 1, Prob: soft(3)}, {Class: 2, Prob: soft(1)}}},
		{graph.Sigmoid, graph.Sigmoid, raw, []classProb{{Class: 1, Prob: sigmoid(3)}, {Class: 2, Prob: sigmoid(1)}}},
		{"", graph.Sigmoid, raw[:1], []classProb{{Class: 0, Prob: sigmoid(2)}, {Class: 1, Prob: sigmoid(-2)}}},
		{graph.NoClass, graph.NoClass, raw, nil},
		{graph.NoClass, graph.NoClass, raw[:1], nil},
	} {
		e := &bundle.Exit{Confidence: c.by, Classes: len(c.raw)}
		got := top(e, c.raw, 2)
		if len(got) != len(c.want) || measure(e) != c.named {
			t.Fatalf("%q of %v: %s, %v, expected %s, %v", c.by, c.raw, measure(e), got, c.named, c.want)
		}
		for i, w := range c.want {
			if got[i].Class != w.Class || math.Abs(got[i].Prob-w.Prob) > 1e-6 {
				t.Errorf("%q of %v: %v, expected %v", c.by, c.raw, got, c.want)
			}
		}
	}
}
