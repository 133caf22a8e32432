package frame

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
)

func claim(least, most float64) Claim {
	published := 2.0
	return Claim{ID: "a", Published: &published, least: least, most: most, cause: Cause{Text: "why"}}
}

// A verdict needs an interval: one seed decides nothing, at any distance from the bounds.
func TestJudge(t *testing.T) {
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
		// Without an interval six values on one side decide, and five do not.
		{[]float64{2, 2, 2, 2, 2}, Undecided, "within the bounds"},
		{[]float64{2, 2, 2, 2, 2, 2}, Holds, "within the bounds"},
		{[]float64{9, 9, 9, 9, 9, 9}, Fails, "beyond the bounds"},
		{[]float64{2, 2, 2, 2, 2 + 1e-15}, Undecided, "within the bounds"}, // equal up to rounding: no interval either
		{[]float64{9, 9, 9, 9, 9, math.Inf(1)}, Fails, "nothing"},
		{[]float64{2, 9, 9, 9, 9, math.Inf(1)}, Undecided, "nothing"},
		{[]float64{0, 9, 9, 9, 9, math.Inf(1)}, Undecided, "nothing"},
		{[]float64{9, 9, 9, 9, math.Inf(1)}, Undecided, "nothing"},
	} {
		k := claim(1, 3)
		s := k.Judge(c.v)
		if s.Verdict != c.verdict || s.Side() != c.side {
			t.Errorf("%v: %s, %s; expected %s, %s", c.v, s.Verdict, s.Side(), c.verdict, c.side)
		}
		if (s.Cause == "") != (s.Verdict == Holds) {
			t.Errorf("%v: %s has the cause %q", c.v, s.Verdict, s.Cause)
		}
		all = append(all, *s)
	}
	// The book's cause is used for failed claims; the cause of an undecided claim is its interval.
	for _, v := range [][]float64{{2, 9}, {9, 9.01, 8.99}} {
		k := claim(1, 3)
		if s := k.Judge(v); (s.Cause == "why") != (s.Verdict == Fails) {
			t.Errorf("%v: %s has the cause %q", v, s.Verdict, s.Cause)
		}
	}
	// If the book has no cause for a failed claim, the cause is unknown.
	for _, c := range []struct {
		v     []float64
		cause string
	}{
		{[]float64{2}, "one seed has no interval"},
		{[]float64{2, 9}, "not decided: a bound lies within the interval"},
		{[]float64{9, 9.01, 8.99}, Unknown},
		{[]float64{2, 2.01, 1.99}, ""},
		{[]float64{2, 2}, "all 2 seeds give the same, so there is no interval, and the sign test asks for 6"},
		{[]float64{2, math.Inf(1)}, "with 1 of 2 seeds it is a ratio to nothing, which has no mean, and the sign test does not decide it"},
		{[]float64{2, 2, math.NaN()}, "nothing of it happened with 1 of 3 seeds"},
		{[]float64{math.NaN()}, "nothing of it happened in the time that was simulated"},
	} {
		k := claim(1, 3)
		k.cause = Cause{}
		if s := k.Judge(c.v); s.Cause != c.cause {
			t.Errorf("%v: %s has the cause %q, expected %q", c.v, s.Verdict, s.Cause, c.cause)
		}
	}
	if got := Count(all); !strings.HasPrefix(got, "2 of 16 statements hold, 3 fail, 9 are undecided") || !strings.HasSuffix(got, "of 2 one seed decides nothing") {
		t.Error(got)
	}
	k := claim(1, 3)
	k.Fitted = true
	if got := Count([]Statement{*k.Judge([]float64{2, 2.01, 1.99}), all[2], all[3]}); got != "1 of 3 statements hold, 1 more by fitting, 1 fail, 0 are undecided (simulated)" {
		t.Error(got)
	}
	k.Rule = NotTried
	if got := Count([]Statement{*k.Judge(nil)}); got != "0 of 1 statements hold, 0 fail, 0 are undecided (simulated); 1 are not tried" {
		t.Error(got)
	}
}

// One seed decides an exact claim. One event in many seeds does not refute "never", as its interval includes zero events.
func TestJudgeWithoutChance(t *testing.T) {
	for _, c := range []struct {
		exact   bool
		most    float64
		v       []float64
		verdict string
	}{
		{true, 3, []float64{2}, Holds},
		{true, 3, []float64{9, 9}, Fails},
		{false, 0, []float64{0, 0, 0}, Undecided},
		{false, 0, []float64{0, 0, 0, 0, 0, 0}, Holds},
		{false, 0, []float64{0, 0, 0.001}, Undecided},
		{false, 0, []float64{0.001, 0.001, 0.0011}, Fails},
	} {
		k := claim(math.Inf(-1), c.most)
		k.Exact = c.exact
		if s := k.Judge(c.v); s.Verdict != c.verdict {
			t.Errorf("%+v: %s", c, s.Verdict)
		}
	}
}

// The bounds of each rule for a published number, and the verdicts at a bound and next to it.
func TestRules(t *testing.T) {
	inf := math.Inf(1)
	for _, x := range []struct {
		rule        string
		published   float64
		least, most float64
	}{
		{"near", 4, 3, 5},
		{"near", -4, -5, -3},
		{"15 %", 2, 1.7, 2.3},
		{"5 %", 2, 1.9, 2.1},
		{"gain", 1.4, 1.2, 1.6},
		{"gain", 0.6, 0.4, 0.8},
		{"5 points", 0.5, 0.45, 0.55},
		{"3 points", 0.5, 0.47, 0.53},
		{"at most", 3, -inf, 3},
		{"at least", 3, 3, inf},
	} {
		least, most := rules[x.rule](x.published)
		if diff := max(math.Abs(least-x.least), math.Abs(most-x.most)); diff > 1e-12 { // NaN, from two infinities, is not a difference
			t.Errorf("%s of %g: %g to %g, expected %g to %g", x.rule, x.published, least, most, x.least, x.most)
		}
		c := claim(x.least, x.most)
		for v, want := range map[float64]string{x.least: Holds, x.most: Holds, x.least - 0.001: Fails, x.most + 0.001: Fails} {
			exact := c
			exact.Exact = true
			if s := exact.Judge([]float64{v}); !math.IsInf(v, 0) && s.Verdict != want {
				t.Errorf("%g, exact, %g to %g: %s, expected %s", v, x.least, x.most, s.Verdict, want)
			}
			if s := c.Judge([]float64{v, v, v, v, v, v}); !math.IsInf(v, 0) && s.Verdict != want {
				t.Errorf("%g, %g to %g: %s, expected %s", v, x.least, x.most, s.Verdict, want)
			}
		}
	}
	if len(rules) != 8 {
		t.Errorf("%d rules, 8 are expected here", len(rules))
	}
}

// Independent labs give the same results with any number of parallel calls; missing results of one are reported.
func TestApart(t *testing.T) {
	labs := make([]*int, 40)
	for i := range labs {
		labs[i] = new(i)
	}
	of := func(l *int) (float64, error) {
		x := float64(*l)
		if *l++; x == 7 {
			return 0, ErrQuiet
		}
		return x, nil
	}
	f, err := Probe[*int](of).sample(labs, 5)
	v := f.extreme()
	if err != nil || v[39] != 39 || v[7] != 0 || v[8] != 8 {
		t.Errorf("%v, %v", v, err)
	}
	if _, err := Probe[*int](func(l *int) (float64, error) { return 0, ErrBook }).sample(labs, 3); !errors.Is(err, ErrBook) {
		t.Error(err)
	}
}

// Multiples have a geometric mean: for 3 with one seed and 1/3 with another it is 1.
func TestTimes(t *testing.T) {
	k := claim(0.5, 2)
	v := []float64{1. / 2, 2, 1. / 2, 2, 1, 1}
	if s := k.Judge(v); math.Abs(*s.Ours-7./6) > 1e-9 {
		t.Errorf("%v", *s.Ours)
	}
	k.Times = true
	s := k.Judge(v)
	// logarithms of -+ln 2 twice each and 0 twice: a deviation of 0.620, 2.571 * 0.620 / sqrt(6) = 0.6507
	if from, to := math.Exp(-0.6507), math.Exp(0.6507); math.Abs(*s.Ours-1) > 1e-9 || math.Abs(*s.CI95-(to-from)/2) > 1e-3 || s.Verdict != Holds {
		t.Errorf("%v +- %v %s, expected 1 +- %v", *s.Ours, *s.CI95, s.Verdict, (to-from)/2)
	}
	if s := k.Judge([]float64{9, 12, 8}); s.Verdict != Fails {
		t.Error(s.Verdict)
	}
	if s := k.Judge([]float64{0, 1, 1}); math.Abs(*s.Ours-2./3) > 1e-9 {
		t.Errorf("a multiple of nothing has no logarithm: %v", *s.Ours)
	}
}

// A comparison without events on both sides counts together with other seeds; alone it has no verdict.
func TestQuiet(t *testing.T) {
	of := func(l float64) (float64, error) {
		if l == 0 {
			return 0, ErrQuiet
		}
		return l, nil
	}
	loud := func(l float64) (float64, error) { return l + 1, nil }
	for _, c := range []struct {
		labs []float64
		of   Probe[float64]
		want []float64
	}{
		{[]float64{0, 3}, of, []float64{0, 3}},
		{[]float64{0, 0}, of, []float64{math.NaN(), math.NaN()}},
		{[]float64{0, 0}, combined("minus", of, of), []float64{math.NaN(), math.NaN()}},
		{[]float64{0, 0}, combined("mean", loud, of), []float64{0.5, 0.5}},
	} {
		v, err := Sample(c.labs, c.of)
		if err != nil || !slices.EqualFunc(v, c.want, func(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) }) {
			t.Errorf("%v: %v, %v", c.labs, v, err)
		}
	}
	if _, err := Sample([]float64{1}, Probe[float64](func(float64) (float64, error) { return 0, ErrBook })); !errors.Is(err, ErrBook) {
		t.Error(err)
	}
}

// Of several samples, the one with the lowest mean is used completely, not each seed's lowest value. Quiet seeds count as
// no difference, unless all are quiet.
func TestLowest(t *testing.T) {
	up := func(l float64) (float64, error) { return l, nil }
	down := func(l float64) (float64, error) { return 4 - l, nil }
	quiet := func(float64) (float64, error) { return 0, ErrQuiet }
	nan := math.NaN()
	none := func(float64) (float64, error) { return nan, nil }
	for _, c := range []struct {
		labs            []float64
		all             []Probe[float64]
		lowest, highest []float64
	}{
		{[]float64{1, 2}, []Probe[float64]{up, down}, []float64{1, 2}, []float64{3, 2}},
		{[]float64{3, 2}, []Probe[float64]{up, down}, []float64{1, 2}, []float64{3, 2}},
		{[]float64{1, 2}, []Probe[float64]{up, quiet}, []float64{0, 0}, []float64{1, 2}},
		{[]float64{-1, -2}, []Probe[float64]{quiet, up}, []float64{-1, -2}, []float64{0, 0}},
		{[]float64{1, 1}, []Probe[float64]{up, none, down}, []float64{nan, nan}, []float64{nan, nan}},
		{[]float64{1, 2}, []Probe[float64]{quiet, quiet}, []float64{nan, nan}, []float64{nan, nan}},
	} {
		for i, of := range []Sampler[float64]{Lowest(c.all...), Highest(c.all...)} {
			v, err := Sample(c.labs, of)
			if want := [][]float64{c.lowest, c.highest}[i]; err != nil || !slices.EqualFunc(v, want, func(a, b float64) bool { return a == b || a != a && b != b }) {
				t.Errorf("%v: %v, %v, expected %v", c.labs, v, err, want)
			}
		}
	}
	if v, err := Sample([]float64{3, 2}, Ratio(Lowest(up, down), Highest(up, down))); err != nil || !slices.Equal(v, []float64{1. / 3, 1}) {
		t.Errorf("%v, %v", v, err)
	}
	half, twice := func(l float64) (float64, error) { return l / 2, nil }, func(l float64) (float64, error) { return 2 * l, nil }
	for want, of := range map[float64]Sampler[float64]{1: Ratio(Lowest(up, twice), Lowest(up, twice)), 0.5: Ratio(Lowest(up, half), Lowest(up, twice)), 0.25: Ratio(Lowest(up, half), Highest(up, twice)), 4: Ratio(Highest(up, twice), Lowest(up, half)), 2: Ratio(Highest(up, twice), Highest(up, half))} {
		if v, err := Sample([]float64{1, 2}, of); err != nil || !slices.Equal(v, []float64{want, want}) {
			t.Errorf("%v, %v, expected %v", v, err, want)
		}
	}
	if _, err := Sample([]float64{1}, Lowest(up, func(float64) (float64, error) { return 0, ErrBook })); !errors.Is(err, ErrBook) {
		t.Error(err)
	}
}

// A claim about each of several samples is judged by all of them. It is undecided if one of them may be beyond the bound,
// even if its mean is not the extreme. One of many that is beyond the bound by chance does not refute it.
func TestFamily(t *testing.T) {
	sure, wide := []float64{1.1, 1.12, 1.08, 1.11, 1.09, 1.1}, []float64{0.6, 1.8, 1.3, 0.9, 1.6, 1}
	just := []float64{0.84, 0.99, 0.87, 0.98, 0.85, 0.97}
	c := claim(1, math.Inf(1))
	for _, x := range []struct {
		all     [][]float64
		verdict string
	}{
		{[][]float64{sure}, Holds},
		{[][]float64{wide, sure}, Undecided},
		{[][]float64{sure, sure, sure}, Holds},
		{[][]float64{just}, Fails},
		{[][]float64{just, sure, sure}, Undecided},
	} {
		if s := c.judge(family{all: x.all, sign: 1}); s.Verdict != x.verdict {
			t.Errorf("%v: %s, expected %s", x.all, s.Verdict, x.verdict)
		}
		m := claim(math.Inf(-1), -1)
		var minus [][]float64
		for _, v := range x.all {
			w := slices.Clone(v)
			for i := range w {
				w[i] = -w[i]
			}
			minus = append(minus, w)
		}
		if s := m.judge(family{all: minus, sign: -1}); s.Verdict != x.verdict {
			t.Errorf("%v: %s, expected %s", minus, s.Verdict, x.verdict)
		}
	}
}

// The extreme of two that are far apart is one of them at both ends.
func TestFamilyEnds(t *testing.T) {
	all := [][]float64{{1, 1.1, 0.9}, {5, 5.1, 4.9}}
	for sign, x := range map[float64]Claim{1: claim(math.Inf(-1), 3), -1: claim(3, math.Inf(1))} {
		if s := x.judge(family{all: all, sign: sign}); s.Verdict != Holds {
			t.Errorf("sign %g: %s", sign, s.Verdict)
		}
	}
}

// A change is a parameter and a factor, or a switch.
func TestChangeOf(t *testing.T) {
	for text, want := range map[string]Change{"a/b=0.5": {"a/b", 0.5}, "x": {"x", 0}} {
		if c, err := ChangeOf(text); err != nil || *c != want {
			t.Errorf("%s: %v, %v", text, c, err)
		}
	}
	if c, err := ChangeOf(""); c != nil || err != nil {
		t.Errorf("%v, %v", c, err)
	}
	for _, text := range []string{"a=", "a=x", "a=0", "a=-1", "a=inf", "a=NaN"} {
		if _, err := ChangeOf(text); !errors.Is(err, ErrWith) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// A change multiplies only its own parameter; an empty change has no effect.
func TestChange(t *testing.T) {
	var none *Change
	for _, x := range []struct {
		c  *Change
		of float64
		is bool
	}{{none, 1, false}, {&Change{"rate", 2}, 1, false}, {&Change{"load", 2}, 2, true}} {
		if x.c.Of("load") != x.of || x.c.Is("load") != x.is {
			t.Errorf("%v is %g of load, %v", x.c, x.c.Of("load"), x.c.Is("load"))
		}
	}
}

// A change must exist, and has a value if its kind needs one.
func TestKnows(t *testing.T) {
	k := Knobs{Switches: []string{"no-cap"}, Keys: []string{"load"}, Whole: []string{"most"}}
	for text, known := range map[string]bool{
		"no-cap": true, "load=0.5": true, "most=4": true, "no-cap=2": false, "load": false, "most": false, "most=1.5": false, "most=0.4": false,
		"most=1e9": false, "cap": false, "cap=2": false,
	} {
		c, err := ChangeOf(text)
		if err != nil {
			t.Fatal(err)
		}
		if err := k.knows(c); known != (err == nil) || err != nil && !errors.Is(err, ErrWith) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// The unit of a number follows from those of the measures.
func TestUnit(t *testing.T) {
	of := map[string]string{"avg_ns": "ns", "late": "share", "missed": "%"}
	for text, want := range map[string]string{
		"late(a)": "share", "avg_ns(a)": "ns", "times(avg_ns(a), 1e-6)": "ms", "times(late(a), 1e-6)": "share", "over(avg_ns(a), avg_ns(b))": "x",
		"ratio(lowest(late(a), late(b)), late(c))": "x", "lowest(minus(late(a), late(b)))": "share", "sum(above(late(a), 1))": "",
		"lowest(minus(missed(a), missed(b)))": "points", "over(minus(avg_ns(a), avg_ns(b)), avg_ns(b))": "share", "minus(minus(missed(a), missed(b)), minus(missed(c), missed(b)))": "points", "other(a)": "", "": "",
	} {
		if got := unit(text, of); got != want {
			t.Errorf("%q is in %q, want %q", text, got, want)
		}
	}
}

func TestNothingIsNull(t *testing.T) {
	c := claim(math.Inf(-1), 2)
	for v, want := range map[float64]string{1: `"ours":1,"ci95":0,"least":null,"most":2,`, math.Inf(1): `"ours":null,"ci95":null,"least":null,"most":2,`} {
		text, err := json.Marshal(c.Judge([]float64{v, v}))
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s, %v; expected %s", text, err, want)
		}
	}
}

const book = `
causes:
  late: {text: "it is late", evidence: table 2, with: [k=3]}
claims:
  - {id: a, source: figure 1, text: a, published: 4, rule: near, exact: true, cause: late}
  - {id: b/gain, source: figure 2, text: b, published: 1.9, rule: gain, exact: true}
  - {id: c, source: figure 3, text: c, least: 1, long: true}
  - {id: d, source: figure 4, text: d, rule: not-tried, cause: late}
`

func study(x *[]Change) Study[float64] {
	one := func(l float64) (float64, error) { return l, nil }
	return Study[float64]{
		Book: []byte(book), Probes: map[string]Sampler[float64]{"a": Probe[float64](one), "b/gain": combined("over", one, one), "c": Given[float64]([]float64{4}, nil)},
		Labs: func(_ string, c *Change) ([]float64, error) {
			if c != nil {
				*x = append(*x, *c)
				return []float64{4 * c.By, 4 * c.By}, nil
			}
			return []float64{4, 4}, nil
		},
		Knobs: func(string) (*Knobs, error) { return &Knobs{Switches: []string{"on"}, Keys: []string{"k"}}, nil },
	}
}

// A study judges every claim of its book, and names a variation by parameter and factor.
func TestStudy(t *testing.T) {
	var seen []Change
	s := study(&seen)
	r, err := s.Run(context.Background(), &Config{Seeds: []uint64{1, 2}, Ns: 1, Vary: true})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{Holds, Fails, OneSeed, NotTried} // a and b/gain are exact
	for i, st := range r.Statements {
		if st.Verdict != want[i] {
			t.Errorf("%s: %s, expected %s", st.ID, st.Verdict, want[i])
		}
	}
	a := r.Statements[0]
	if !maps.Equal(a.Changed, map[string]string{"k x 0.5": Fails, "k x 2": Fails}) || !a.Varied || r.Statements[2].Varied || len(seen) != 2 {
		t.Errorf("%+v; %v", a, seen)
	}
	if b := r.Statements[1]; !b.Varied || b.Changed != nil {
		t.Errorf("%s is 1 with every value, and changed: %v", b.ID, b.Changed)
	}
	if r, err := s.Run(context.Background(), &Config{Seeds: []uint64{1}, Ns: 1, Only: "b"}); err != nil || len(r.Statements) != 1 {
		t.Errorf("%v, %v", r, err)
	}
	// The result of a change is printed after the cause of a failed claim, except in a run with another change.
	s.Tried = []byte("# change claim\nk=3 a 12 4 1s 1\nk=3 b/gain 1 1 1s 1\nk=4 a 16 4 1s 1\n")
	with := Config{Seeds: []uint64{1, 2}, Ns: 1, Only: "a", With: &Change{Key: "k", By: 3}}
	if r, err := s.Run(context.Background(), &with); err != nil || *r.Statements[0].Ours != 12 || r.Statements[0].Cause != "it is late" {
		t.Errorf("%+v, %v", r, err)
	}
	far := s
	far.Labs = func(string, *Change) ([]float64, error) { return []float64{9, 9}, nil }
	with.With = nil
	if r, err := far.Run(context.Background(), &with); err != nil || r.Statements[0].Cause != "it is late; with k=3 12 in place of 4" {
		t.Errorf("%+v, %v", r, err)
	}
	if r, err := s.Run(context.Background(), &with); err != nil || r.Statements[0].Verdict != Holds || r.Statements[0].Cause != "" {
		t.Errorf("%+v, %v", r, err)
	}
	other := with
	other.With = &Change{Key: "l", By: 3}
	if _, err := s.Run(context.Background(), &other); !errors.Is(err, ErrWith) || !strings.HasSuffix(err.Error(), `l=3; there are on, k=FACTOR`) {
		t.Errorf("nobody knows l: %v", err)
	}
	s.Tried = []byte("k=3 a 12\n")
	if _, err := s.Run(context.Background(), &with); !errors.Is(err, ErrBook) {
		t.Errorf("a line of three: %v", err)
	}
	s.Tried = nil
	if _, err := s.Run(context.Background(), &Config{Seeds: []uint64{1}, Ns: 1, Only: "gain"}); !errors.Is(err, ErrOnly) {
		t.Errorf("no claim begins so: %v", err)
	}
	drawn := s
	drawn.Labs = func(string, *Change) ([]float64, error) { return []float64{4, 5}, nil }
	if _, err := drawn.Run(context.Background(), &Config{Seeds: []uint64{1, 2}, Ns: 1}); !errors.Is(err, ErrBook) {
		t.Errorf("what is exact differs: %v", err)
	}
	s.Probes["e"] = s.Probes["a"]
	if _, err := s.Run(context.Background(), &Config{Seeds: []uint64{1}, Ns: 1}); !errors.Is(err, ErrBook) {
		t.Errorf("a probe of no claim: %v", err)
	}
	delete(s.Probes, "e")
	delete(s.Probes, "b/gain")
	if _, err := s.Run(context.Background(), &Config{Seeds: []uint64{1}, Ns: 1}); !errors.Is(err, ErrBook) {
		t.Errorf("a claim that nobody looks at: %v", err)
	}
}

// The number of a claim is an expression: formulas of measures, over the members of sets, with the parts of the claim's name.
func TestOurs(t *testing.T) {
	m := Measures[float64]{
		"at NAME n": func(l float64, of Args) (float64, error) { return l * of.Float(1), nil },
		"size WORD": func(_ float64, of Args) (float64, error) { return float64(len(of[0])), nil },
		"none":      func(float64, Args) (float64, error) { return 0, ErrQuiet },
		"lab":       func(l float64, _ Args) (float64, error) { return l, nil },
	}
	sets := map[string][]string{"n": {"1", "2", "4"}, "two": {"a", "bb"}, "both": {"[two]c", "d"}}
	for text, want := range map[string]float64{
		"3": 3, "lab()": 5, "at(x, 2)": 10, "over(at(x[own], 1), 2)": 2.5, "minus(7, times(2, 3))": 1, "sum(at(x, [n]))": 35,
		"mean(size([both]), 3)": 2.25, // ac, bbc, d
		"geomean(at(x, 1), 20)": 10, "lowest(at(x, [n]))": 5, "highest(at(x, [n]), 1)": 20,
		"ratio(highest(at(x, [n])), lowest(lab(), 9))": 4, "sum(times([n], [n]))": 21, "above(lab(), 4)": 1, "above(4, lab())": 0, "sum(size([two]-[n]))": 21,
	} {
		of, err := m.Sampler(text, sets)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if v, err := Sample([]float64{5, 5}, of); err != nil || math.Abs(v[1]-want) > 1e-12 {
			t.Errorf("%s: %v, %v, expected %v", text, v, err, want)
		}
	}
	if of, err := m.Sampler("minus(none(), none())", nil); err != nil {
		t.Error(err)
	} else if v, err := Sample([]float64{5}, of); err != nil || !math.IsNaN(v[0]) {
		t.Errorf("what did not happen has the value %v, %v", v, err)
	}
	for text, want := range map[string]string{
		"at(x)": `no measure at of ["x"]; there are at NAME n, lab, none, size WORD`, "at(x, y)": `"y", a number is expected`,
		"over(1)": "another number of arguments than 1", "mean()": "another number", "lab(": "parenthesis is missing", "lab()x": "behind the last",
		"over(lowest(1, 2), 1)": "no argument of over", "x": "no measure x", "mean(at(x, [m]))": `"[m]", a number`,
	} {
		if _, err := m.Sampler(text, sets); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, expected %q", text, err, want)
		}
	}
	s := Study[float64]{Measures: m, Book: []byte(`
sets: {n: [1, 2]}
claims:
  - {id: "a/{}", each: [x/3, y/4], source: s, text: t, least: 1, ours: "at({1}, {2})"}
  - {id: "b/{}", each: [x, y], source: s, text: t, least: 1, ours: ["lowest(at(x, [n]))", 8]}`)}
	all, err := s.Samplers()
	if err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]float64{"a/x/3": 6, "a/y/4": 8, "b/x": 2, "b/y": 8} {
		if v, err := Sample([]float64{2}, all[id]); err != nil || v[0] != want {
			t.Errorf("%s: %v, %v, expected %v", id, v, err, want)
		}
	}
	s.Book = []byte(`claims: [{id: a, source: s, text: t, least: 1, ours: "nothing()"}]`)
	if _, err := s.Samplers(); !errors.Is(err, ErrBook) || !strings.Contains(err.Error(), "a: there is no measure nothing") {
		t.Error(err)
	}
}

// Something missing in a book is reported with its claim.
func TestBook(t *testing.T) {
	for bad, want := range map[string]string{
		"claims: [{id: a, source: s, text: t}]":                                                      "a rule with a published number, or bounds",
		"claims: [{id: a, source: s, text: t, rule: near}]":                                          "a rule with a published number",
		"claims: [{id: a, source: s, text: t, rule: nigh, published: 1}]":                            "a rule with a published number",
		"claims: [{id: a, source: s, text: t, least: 2, most: 1}]":                                   "bounds of 2 to 1",
		"claims: [{id: a, source: s, text: t, least: .nan}]":                                         "bounds of NaN",
		"claims: [{id: a, source: s, text: t, rule: near, published: 1.35}]":                         "near of 1.35: gain of",
		"claims: [{id: a, source: s, text: t, rule: gain, published: 2}]":                            "gain of 2: gain of",
		"claims: [{id: a, source: s, text: t, rule: gain, published: 1.4, published_to: 7.3}]":       "gain of 1.4: gain of",
		"claims: [{id: a, source: s, text: t, least: 1, published_to: 2}]":                           "a rule with a published number",
		"claims: [{id: a, text: t, least: 1}]":                                                       "a source and a text",
		"claims: [{id: a, source: s, text: t, least: 1, cause: x}]":                                  `no cause "x"`,
		"claims: [{id: a, source: s, text: t, rule: not-tried}]":                                     "a cause and no bounds",
		"claims: [{id: a, source: s, text: t, least: 1, more: 2}]":                                   "more",
		"causes: {x: {text: y}}\nclaims: [{id: a, source: s, text: t, least: 1, cause: x}]":          `no cause "x" with a text and an evidence`,
		"causes: {x: {text: y}}\nclaims: [{id: a, source: s, text: t, least: 1}]":                    `no claim has the cause "x"`,
		"claims: [{id: a, source: s, text: t, least: 1}, {id: a, source: s, text: t, least: 1}]":     "claim 2",
		"claims: [{id: 'a/{}', each: [x, y], source: s, text: t, rule: near, published: [1, 2, 3]}]": "a list of 3 for 2 claims",
		"claims: [{id: a, each: [x, y], source: s, text: t, least: 1}]":                              "claim 2",
	} {
		if _, err := Book([]byte(bad)); !errors.Is(err, ErrBook) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, expected %q", bad, err, want)
		}
	}
}

// A line for several names gives one claim per name, with its own published value, rule, mark and cause, or the common
// one.
func TestEach(t *testing.T) {
	got, err := Book([]byte(`
causes: {w: {text: why, evidence: there}}
claims: [{id: "a/{}/b", each: [x/1, y/2], on: "{}", source: s, text: "of {}", rule: [at least, gain], published: [1, 1.5], fitted: [true, false], cause: [w, ""]}, {id: c, source: s, text: t, least: 3}]`))
	if err != nil || len(got) != 3 {
		t.Fatal(got, err)
	}
	for i, want := range []struct {
		id, on, text, cause string
		least               float64
	}{{"a/x/1/b", "x", "of x/1", "why", 1}, {"a/y/2/b", "y", "of y/2", "", 1.25}, {"c", "", "t", "", 3}} {
		if c := &got[i]; c.ID != want.id || c.On != want.on || c.Text != want.text || c.cause.Text != want.cause || c.least != want.least || c.Fitted != (i == 0) {
			t.Errorf("%+v, expected %+v", c, want)
		}
	}
}

func TestInterval(t *testing.T) {
	mean, half := Interval([]float64{1, 2, 3})
	if mean != 2 || half == nil || math.Abs(*half-2.4841377) > 1e-6 { // 4.302653 * 1 / sqrt(3)
		t.Errorf("%v, %v", mean, half)
	}
	if _, half := Interval([]float64{4}); half != nil {
		t.Error(*half)
	}
}

// combined returns a probe that is a formula of other probes.
func combined(name string, all ...Probe[float64]) Probe[float64] {
	var of []Sampler[float64]
	for _, p := range all {
		of = append(of, p)
	}
	return combine(name, of).(Probe[float64])
}

// For some values only an upper bound is known. A claim fails only if it would fail with all of them at their bounds.
func TestBoundRefutesNothing(t *testing.T) {
	claims, err := Book([]byte("claims: [{id: a, source: figure 1, text: a, least: 0.95}]"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		known   []float64
		others  int // number of values that are at most 1
		low     float64
		verdict string
	}{
		{nil, 4, 0.8, Undecided},
		{[]float64{0.8, 0.81}, 2, 0.8, Undecided},
		{[]float64{0.5, 0.51, 0.52}, 1, 0.5, Undecided},                  // 0.63 +- 0.39
		{[]float64{0.8, 0.81, 0.82}, 1, 0.8, Undecided},                  // 0.86 +- 0.15
		{[]float64{0.8, 0.81, 0.8, 0.81, 0.8, 0.81, 0.8}, 1, 0.8, Fails}, // 0.83 +- 0.06
		{[]float64{0.8, 0.81, 0.8, 0.8}, 0, 0, Fails},
		{nil, 4, 0.97, Holds},
	} {
		low, most := slices.Clone(c.known), slices.Clone(c.known)
		for i := range c.others {
			low, most = append(low, c.low+0.001*float64(i)), append(most, 1)
		}
		f, err := Given[int](low, most).sample(nil, 1)
		if s := claims[0].judge(f); err != nil || s.Verdict != c.verdict {
			t.Errorf("%v known, %d others from %g: %s, %v, expected %s", c.known, c.others, c.low, s.Verdict, err, c.verdict)
		}
	}
}

// A run's metrics are its float64 fields with a name for JSON; other options of the tag do not matter.
func TestFields(t *testing.T) {
	type run struct {
		Mean   float64 `json:"mean"`
		Share  float64 `json:"share,omitempty"`
		Hidden float64 `json:"-"`
		Plain  float64
		Served int  `json:"served"`
		Late   bool `json:"late"`
	}
	var got []string
	for _, m := range Fields[run]() {
		got = append(got, m.Name)
		if x := m.Of(&run{Mean: 1, Share: 2, Hidden: 3, Plain: 4}); x != float64(len(got)) {
			t.Errorf("%s is %g", m.Name, x)
		}
	}
	if want := []string{"mean", "share"}; !slices.Equal(got, want) {
		t.Errorf("%q, expected %q", got, want)
	}
}
