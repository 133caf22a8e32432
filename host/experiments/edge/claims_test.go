package edge

import (
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
