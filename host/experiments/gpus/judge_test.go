package gpus

import (
	"math"
	"strings"
	"testing"
)

// A verdict needs an interval: one seed decides nothing, however far from the bounds; and what was not
// published is not shown.
func TestJudge(t *testing.T) {
	published := 2.0
	var all []Statement
	for _, c := range []struct {
		v             []float64
		verdict, side string
	}{
		{[]float64{2}, OneSeed, "within the bounds"},
		{[]float64{100}, OneSeed, "beyond the bounds"},
		{[]float64{2, 2.01, 1.99}, Holds, "within the bounds"},
		{[]float64{9, 9.01, 8.99}, Fails, "beyond the bounds"},
		{[]float64{2, 9}, Undecided, "beyond the bounds"},
		{[]float64{math.NaN()}, Undecided, "nothing"},
		{[]float64{math.NaN(), 2}, Undecided, "nothing"},
	} {
		s := (&Statement{Published: &published, Least: 1, Most: 3}).Judge(c.v, "why")
		if s.Verdict != c.verdict || s.Side() != c.side {
			t.Errorf("%v: %s, %s; expected %s, %s", c.v, s.Verdict, s.Side(), c.verdict, c.side)
		}
		all = append(all, *s)
	}
	if got := Count(all); !strings.HasPrefix(got, "1 of 7 statements hold, 1 fail, 3 are undecided") || !strings.HasSuffix(got, "of 2 one seed decides nothing") {
		t.Error(got)
	}
	if s := (&Statement{Least: 1.25}).Judge([]float64{1, 1}, ""); s.Number() != "" || s.Ratio != nil {
		t.Errorf("a threshold of ours is shown as published: %s, %v", s.Number(), s.Ratio)
	}
	if got := all[0].Number(); got != "(2)" {
		t.Error(got)
	}
}
