package jellyfish

import (
	"slices"
	"testing"

	"github.com/sluice-npu/sluice/host/experiments/frame"
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
	claims, err := frame.Book(book)
	if err != nil {
		t.Fatal(err)
	}
	judge := func(id string) *frame.Statement {
		v, err := frame.Sample(labs, probes()[id])
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(claims, func(c frame.Claim) bool { return c.ID == id })
		return claims[i].Judge(v)
	}
	for _, id := range []string{"fig8/150ms", "fig11/steps/b-h", "fig11/wifi/b-h", "fig11/lte/b-h"} {
		if s := judge(id); s.Verdict != frame.Undecided {
			t.Errorf("%s %s", s.ID, s.Verdict)
		}
	}
	// One setting with misses is what the share is of.
	for _, l := range labs {
		l.runs[key{at("lte", 8, 25, 75), "b-h"}].Miss = 0.5
	}
	if s := judge("fig11/lte/b-h"); s.Verdict != frame.Holds || s.Ours == nil || *s.Ours != 1 {
		t.Errorf("%s %s, %v", s.ID, s.Verdict, s.Ours)
	}
}

// A ratio to an upper bound may hold, and refutes nothing: only where the best is known of every instance
// does the annealing fail.
func TestBoundRefutesNothing(t *testing.T) {
	for _, c := range []struct {
		proved       int
		was, verdict string
	}{{0, frame.Fails, frame.Undecided}, {2, frame.Fails, frame.Undecided}, {3, frame.Fails, frame.Fails}, {0, frame.Holds, frame.Holds}} {
		s := &frame.Statement{ID: "fig14a/8x80", Verdict: c.was}
		if bounded([]Ratio{{Workers: 8, Clients: 80, Instances: 3, Proved: c.proved}})(s); s.Verdict != c.verdict {
			t.Errorf("%d of 3 proved: %s, expected %s", c.proved, s.Verdict, c.verdict)
		}
	}
}
