package edge

import (
	"slices"
	"testing"

	"github.com/sluice-npu/sluice/host/experiments/verdict"
)

// Where nobody misses anything nothing says who misses more: no verdict, with any number of seeds.
func TestNoEvidence(t *testing.T) {
	var labs []*lab
	for range 3 {
		l := &lab{runs: map[key]*Outcome{}}
		for _, k := range (&Config{}).runs() {
			l.runs[k] = &Outcome{Frames: 100, OnTime: 100, Accuracy: 0.3}
		}
		labs = append(labs, l)
	}
	want := map[string]bool{"fig8/150ms": true, "fig11/steps/b-h": true, "fig11/wifi/b-h": true, "fig11/lte/b-h": true}
	found := 0
	for _, s := range state(labs, nil) {
		if want[s.ID] {
			if found++; s.Verdict != verdict.Undecided {
				t.Errorf("%s %s", s.ID, s.Verdict)
			}
		}
	}
	if found != len(want) {
		t.Errorf("%d of %d statements found", found, len(want))
	}
	// One setting with misses is what the share is of.
	for _, l := range labs {
		l.runs[key{at("lte", 8, 25, 75), "b-h"}].Miss = 0.5
	}
	for _, s := range state(labs, nil) {
		if s.ID == "fig11/lte/b-h" && (s.Verdict != verdict.Holds || s.Ours == nil || *s.Ours != 1) {
			t.Errorf("%s %s, %s", s.ID, s.Verdict, s.Mean())
		}
	}
}

// A ratio to an upper bound may hold, and refutes nothing: only where the best is known of every instance
// does the annealing fail. The threshold is ours.
func TestBoundRefutesNothing(t *testing.T) {
	for _, c := range []struct {
		proved  int
		ratio   float64
		verdict string
	}{{0, 0.9, verdict.Undecided}, {2, 0.9, verdict.Undecided}, {3, 0.9, verdict.Fails}, {0, 0.99, verdict.Holds}, {3, 0.99, verdict.Holds}} {
		all := state(nil, []Ratio{{Workers: 8, Clients: 80, Instances: 3, Proved: c.proved, Of: []Near{{Each: slices.Repeat([]float64{c.ratio}, 3)}}}})
		if s := all[len(all)-1]; s.ID != "fig14a/8x80" || s.Verdict != c.verdict || s.Published != nil {
			t.Errorf("%d of 3 proved, %g: %s %s, published %s; expected %s", c.proved, c.ratio, s.ID, s.Verdict, s.Number(), c.verdict)
		}
	}
}
