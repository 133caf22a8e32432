package gpus

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-npu/sluice/host/gpu/params"
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

// What host/gpu/README.md shows of the bench is what the bench printed (reef.txt), and that has a line for
// every statement that is made today; of those that need no run the number is today's too.
func TestShown(t *testing.T) {
	read := func(name string) map[string]string {
		raw, err := os.ReadFile(filepath.Join("..", "..", "gpu", name))
		if err != nil {
			t.Fatal(err)
		}
		lines := map[string]string{}
		for line := range strings.Lines(string(raw)) {
			line, shown := strings.CutPrefix(line, "    ")
			if id, _, ok := strings.Cut(line, "/"); (shown || name == "reef.txt") && ok && (strings.HasPrefix(id, "fig") || strings.HasPrefix(id, "table")) {
				lines[strings.Fields(line)[0]] = strings.TrimSpace(line)
			} else if strings.Contains(line, "statements hold,") && (shown || name == "reef.txt") {
				lines["count"] = strings.TrimSpace(line)
			}
		}
		return lines
	}
	printed, shown := read("reef.txt"), read("README.md")
	if len(shown) < 20 || shown["count"] == "" {
		t.Errorf("README.md shows %d lines", len(shown))
	}
	for id, line := range shown {
		if printed[id] != line {
			t.Errorf("README.md: %q, the bench printed %q", line, printed[id])
		}
	}
	claims := reefClaims()
	if len(printed) != len(claims)+1 {
		t.Errorf("reef.txt has %d lines for %d statements", len(printed), len(claims))
	}
	for i := range claims {
		k := &claims[i]
		line := strings.Fields(printed[k.id])
		if len(line) < 2 {
			t.Errorf("reef.txt has no line for %s", k.id)
			continue
		}
		if (line[len(line)-1] == "fitted") != k.fitted {
			t.Errorf("%s: fitted is %v: %q", k.id, k.fitted, printed[k.id])
		}
		if !strings.HasPrefix(k.id, "table1/") && !strings.HasPrefix(k.id, "fig10/") && !strings.HasPrefix(k.id, "fig24/") {
			continue
		}
		f, err := params.Of(k.gpu)
		if err != nil {
			t.Fatal(err)
		}
		x, err := k.of(newLab(t.Context(), f, 1e6, 1))
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprintf("%.4g", x); got != line[1] {
			t.Errorf("%s is %s today, reef.txt has %s", k.id, got, line[1])
		}
	}
}
