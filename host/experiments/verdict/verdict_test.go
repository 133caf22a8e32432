package verdict

import (
	"encoding/json"
	"maps"
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
		{[]float64{1.5, 2.9}, Undecided, "within the bounds"},
		{[]float64{math.NaN()}, Undecided, "nothing"},
		{[]float64{math.NaN(), 2}, Undecided, "nothing"},
	} {
		s := (&Claim{Published: &published, Least: 1, Most: 3, Why: "why"}).Judge(c.v)
		if s.Verdict != c.verdict || s.Side() != c.side {
			t.Errorf("%v: %s, %s; expected %s, %s", c.v, s.Verdict, s.Side(), c.verdict, c.side)
		}
		all = append(all, *s)
	}
	if got := Count(all); !strings.HasPrefix(got, "1 of 8 statements hold, 1 fail, 4 are undecided") || !strings.HasSuffix(got, "of 2 one seed decides nothing") {
		t.Error(got)
	}
	fitted := (&Claim{Least: 1, Most: 3, Fitted: true}).Judge([]float64{2, 2.01, 1.99})
	if got := Count([]Statement{*fitted, all[2], all[3]}); got != "1 of 3 statements hold, 1 more by fitting, 1 fail, 0 are undecided (simulated)" {
		t.Error(got)
	}
	if got := all[6].Mean() + all[0].Mean(); got != "-2" {
		t.Errorf("what did not happen, and 2, are shown as %s", got)
	}
	if s := (&Claim{Least: 1.25}).Judge([]float64{1, 1}); s.Number() != "" || s.Ratio != nil {
		t.Errorf("a threshold of ours is shown as published: %s, %v", s.Number(), s.Ratio)
	}
	if got := all[0].Number(); got != "(2)" {
		t.Error(got)
	}
}

// What is not there is null in JSON: no bound on one side, nothing that happened.
func TestNothingIsNull(t *testing.T) {
	c := AtMost("a", "", 2)
	for _, k := range []struct {
		v    float64
		want string
	}{
		{1, `"ours":1,"ci95":0,"ratio":0.5,"least":null,"most":2,`},
		{math.NaN(), `"ours":null,"ci95":null,"ratio":null,"least":null,"most":2,`},
	} {
		s := c.Judge([]float64{k.v, k.v})
		text, err := json.Marshal(s)
		if err != nil || !strings.Contains(string(text), k.want) {
			t.Errorf("%s, %v; expected %s", text, err, k.want)
		}
	}
	if s := c.Judge([]float64{math.NaN()}); s.Mean() != "-" {
		t.Error(s.Mean())
	}
	if s := c.Judge([]float64{-1e300}); s.Side() != "within the bounds" || s.Mean() != "-1e+300" {
		t.Error(s.Side(), s.Mean())
	}
}

// Halved and doubled: a verdict that becomes another is told by the parameter and the factor, with one
// seed the side of the bounds; what is left out is not said to have been looked at.
func TestVary(t *testing.T) {
	c := Claim{ID: "a", Least: 1, Most: 3, Published: new(float64)}
	all := []Statement{*c.Judge([]float64{2, 2}), *c.Judge([]float64{2}), *c.Judge([]float64{2})}
	err := Vary(all, nil, Halves("k", "l"), func(x Change) ([]*Statement, error) {
		v := 2.0
		if x == (Change{"l", 2}) {
			v = 9
		}
		return []*Statement{c.Judge([]float64{v, v}), c.Judge([]float64{v}), nil}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []map[string]string{{"l x 2": Fails}, {"l x 2": "beyond the bounds"}, nil} {
		if s := &all[i]; !maps.Equal(s.Changed, want) || s.Varied != (want != nil) {
			t.Errorf("%d: %v, looked at: %v; expected %v", i, s.Changed, s.Varied, want)
		}
	}
	// Where the same was run without a change it is that which is compared.
	base := []Statement{*c.Judge([]float64{9, 9})}
	one := []Statement{*c.Judge([]float64{2, 2})}
	if err := Vary(one, base, Halves("k"), func(Change) ([]*Statement, error) { return []*Statement{c.Judge([]float64{9, 9})}, nil }); err != nil || one[0].Changed != nil {
		t.Errorf("%v, %v", one[0].Changed, err)
	}
}
