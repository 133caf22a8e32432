package jellyfish

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-npu/sluice/host/experiments/frame"
)

// samplers returns the claims' samplers, except for random instances.
func samplers(t *testing.T) map[string]frame.Sampler[*lab] {
	t.Helper()
	s := frame.Study[*lab]{Book: book, Measures: (&Config{}).measures(), Probes: map[string]frame.Sampler[*lab]{}}
	claims, err := frame.Book(book)
	for i := range claims {
		if strings.HasPrefix(claims[i].ID, "fig14a/") {
			s.Probes[claims[i].ID] = frame.Given[*lab](nil, nil)
		}
	}
	out, err2 := s.Samplers()
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	return out
}

// If no system misses a deadline, there is no verdict about which one misses more, with any number of seeds.
func TestNoEvidence(t *testing.T) {
	var labs []*lab
	for range 6 {
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
	of := samplers(t)
	judge := func(id string) *frame.Statement {
		v, err := frame.Sample(labs, of[id])
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
	// The share is computed from the one setting with misses.
	for _, l := range labs {
		l.runs[key{Point{Trace: "lte", Workers: 2, Clients: 8, Rate: 25, SLO: 75 * ms}, "b-h"}].Miss = 0.5
	}
	if s := judge("fig11/lte/b-h"); s.Verdict != frame.Holds || s.Ours == nil || *s.Ours != 1 {
		t.Errorf("%s %s, %v", s.ID, s.Verdict, s.Ours)
	}
}

// A claim about every setting is judged at the worst setting over all seeds, not at each seed's own worst.
func TestWorstSetting(t *testing.T) {
	var labs []*lab
	for i := range 6 {
		l := &lab{runs: map[key]*Outcome{}}
		for _, k := range (&Config{}).runs() {
			l.runs[k] = &Outcome{Frames: 1000, OnTime: 1000, Accuracy: 0.3}
		}
		l.runs[key{eighteen("wifi")[i], "jellyfish"}].Miss = 0.012
		labs = append(labs, l)
	}
	v, err := frame.Sample(labs, samplers(t)["fig11/wifi"])
	if err != nil || !slices.Equal(v, []float64{0.012, 0, 0, 0, 0, 0}) {
		t.Errorf("%v, %v", v, err)
	}
}
