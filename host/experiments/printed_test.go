package experiments_test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-npu/sluice/host/experiments/frame"
)

// printed are the claims of a publication and what `sluice reproduce` printed of them.
type printed struct {
	name, claims, path string
	order              []string
	of                 map[string]frame.Statement
	count              string
}

// publications are those of the root README of which what was printed is stored.
func publications(t *testing.T) []printed {
	t.Helper()
	all := []printed{
		{name: "Fluid Batching", claims: "fluid/claims.yaml", path: "fluid/reproduced.txt"},
		{name: "SEEB-GPU", claims: "seeb/claims.yaml", path: "../gpu/seeb.txt"},
		{name: "REEF", claims: "reef/claims.yaml", path: "../gpu/reef.txt"},
		{name: "Strait", claims: "strait/claims.yaml", path: "strait/reproduced.txt"},
		{name: "Jellyfish", claims: "jellyfish/claims.yaml", path: "jellyfish/reproduced.txt"},
	}
	line := regexp.MustCompile(`^(\S+) +(\S+)(?: +± \S+)?(?: +\([^)]*\))? +(holds|fails|undecided|not-tried)(?:  +(fitted))?(?:  +(\S.*))?$`)
	for i := range all {
		p := &all[i]
		p.of = map[string]frame.Statement{}
		lines := strings.Split(strings.TrimSpace(read(t, p.path)), "\n")
		last := len(lines) - 2
		if p.count = lines[last]; !strings.HasPrefix(lines[0], "claim ") || !strings.HasPrefix(lines[last+1], "written to out/reproduce/") {
			t.Errorf("%s does not begin with the columns' names and end with where the files are", p.path)
		}
		for _, l := range lines[1:last] {
			m := line.FindStringSubmatch(strings.TrimRight(l, " "))
			if m == nil {
				t.Errorf("%s: no verdict: %s", p.path, l)
				continue
			}
			s := frame.Statement{ID: m[1], Verdict: m[3], Fitted: m[4] != "", Cause: m[5]}
			if x, err := strconv.ParseFloat(m[2], 64); err == nil {
				s.Ours = &x
			}
			p.order, p.of[s.ID] = append(p.order, s.ID), s
		}
	}
	return all
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.FromSlash(path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// What was printed of the publications is about today's claims, in their order. It names a cause beside every
// claim that fails or is undecided, and the last line but one counts the others.
func TestPrinted(t *testing.T) {
	for _, p := range publications(t) {
		claims, err := frame.Book([]byte(read(t, p.claims)))
		if err != nil {
			t.Fatal(err)
		}
		if len(claims) != len(p.order) {
			t.Fatalf("%s has %d claims, %d are in the book", p.path, len(p.order), len(claims))
		}
		var all []frame.Statement
		for i, id := range p.order {
			s := p.of[id]
			if claims[i].ID != id || claims[i].Fitted != s.Fitted {
				t.Errorf("%s: %s, fitted %v, stands where the book has %s, %v", p.path, id, s.Fitted, claims[i].ID, claims[i].Fitted)
			}
			if s.Verdict != frame.Holds && s.Cause == "" {
				t.Errorf("%s: %s has no cause", p.path, id)
			}
			all = append(all, s)
		}
		if want := frame.Count(all); p.count != want {
			t.Errorf("%s: the count is %q, the lines above give %q", p.path, p.count, want)
		}
	}
}

// A verdict is what frame gives: no other package of the experiments or the commands sets one.
func TestOneJudge(t *testing.T) {
	sets := regexp.MustCompile(`\bVerdict(:|\s*=[^=])`)
	for _, root := range []string{".", "../cmd"} {
		if err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
			if err == nil && strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") && filepath.Dir(path) != "frame" && sets.MatchString(read(t, path)) {
				t.Errorf("%s sets a verdict", path)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
}

// headline are the claims behind the rows of the root README's table, in the order of their numbers, and what
// one of ours is times in the table.
var headline = map[string][]struct {
	row   string // how its claim begins
	ids   []string
	times float64
}{
	"Fluid Batching": {
		{"average latency below LazyBatching's, both on fluid's array", []string{
			"table2/resnet50/zc706/15/200ms/ratio/lazy-idle", "table2/resnet50/zcu104/40/100ms/ratio/lazy-idle",
			"table2/resnet50/zc706/15/200ms/ratio/lazy", "table2/resnet50/zcu104/40/100ms/ratio/lazy",
		}, 1},
		{"the same, LazyBatching on a design of its own", []string{
			"table2/resnet50/zc706/15/200ms/own/lazy-idle", "table2/resnet50/zcu104/40/100ms/own/lazy-idle",
			"table2/resnet50/zc706/15/200ms/own/lazy", "table2/resnet50/zcu104/40/100ms/own/lazy",
		}, 1},
		{"1.97 times lower", []string{"abstract/latency", "abstract/violations"}, 1},
		{"sustained inferences", []string{"fig7/rate", "fig8/rate"}, 1},
		{"scheduler calls", []string{"fig7/calls/15ps/lazy-idle", "fig7/calls/25ps/lazy-idle", "fig7/calls/boundaries"}, 1},
		{"held out", []string{"table2/inceptionv3/zc706/15/400ms/fluid/avg_ms", "table2/inceptionv3/zcu104/40/200ms/fluid/avg_ms"}, 1},
	},
	"SEEB-GPU": {
		{"mean latency below", []string{"table3/batch-latency", "table3/gslice-latency", "table3/deeprt-latency"}, 1},
		{"no deadline violated", []string{"table3/seeb-violations", "table3+window/seeb-violations"}, 100},
		{"accuracy after threshold", []string{"fig3/accuracy", "fig10/1-accuracy"}, 100},
		{"held out", []string{"table3/branchynet-latency"}, 1},
	},
	"REEF": {
		{"a real-time task is preempted", []string{"fig20b/37us"}, 1},
		{"real-time latency beside", []string{"fig15-16/mi50/A/reef-rt", "fig15-16/mi50/B/reef-rt", "fig15-16/mi50/C/reef-rt"}, 1},
		{"throughput gained by padding", []string{"fig23/dkp-throughput", "fig23/mv-throughput"}, 1},
		{"held out", []string{"fig15-16/gv100/C/reef-rt", "fig15-16/gv100/C/streams-rt", "fig15-16/gv100/C/reef-throughput"}, 1},
	},
	"Strait": {
		{"fewer deadlines of high priority missed", []string{"fig5/high/high", "fig5/low/high", "fig5/node/high/high", "fig5/node/low/high"}, 1},
		{"low priority pays", []string{"fig5/high/low", "fig5/low/low"}, -1},
		{"figure 7(a), whole", []string{
			"fig7a/kernel-p95", "fig7a/kernel-p99", "fig7a/latency-p95", "fig7a/latency-p99",
			"fig7a/explained-p95", "fig7a/explained-p99", "fig7a/overhead-p99", "fig7a/overhead-most",
		}, 1},
		{"held out", []string{"fig7b/bursts/small", "fig7b/models/small", "fig7b/ampere/small", "fig7b/hopper/small"}, 1},
	},
	"Jellyfish": {
		{"deadlines missed over LTE", []string{"mixed/4/jellyfish", "mixed/4/b-m", "mixed/8/b-m"}, 100},
		{"hits of prefetching", []string{"prefetch/5", "prefetch/3"}, 100},
		{"held out", []string{"fig9/100ms", "fig9/150ms"}, 1e-6},
	},
}

// The root README's table counts and shows what is stored: every number to its last digit, every verdict.
func TestHeadline(t *testing.T) {
	text := read(t, "../../README.md")
	aside := regexp.MustCompile("\\([^)]*\\)|±\\s*[0-9.]+|`[^`]*`")
	number := regexp.MustCompile(`-?[0-9]+(?:\.([0-9]+))?`)
	total, undecided := 0, 0
	for _, p := range publications(t) {
		for _, s := range p.of {
			if total++; s.Verdict == frame.Undecided {
				undecided++
			}
		}
		from := strings.Index(text, "| ["+p.name+"](")
		if from < 0 {
			t.Errorf("README.md has no row of %s", p.name)
			continue
		}
		count := strings.NewReplacer(" statements", "", " (simulated)", "", ";", ",").Replace(p.count)
		if row, _, _ := strings.Cut(text[from:], "\n"); !strings.Contains(row, "("+count+";") {
			t.Errorf("README.md: the row of %s does not say (%s; ...", p.name, count)
		}
		for _, h := range headline[p.name] {
			at := strings.Index(text[from:], "| "+h.row)
			if at < 0 {
				t.Errorf("README.md: %s has no row %q", p.name, h.row)
				continue
			}
			row, _, _ := strings.Cut(text[from+at:], "\n")
			cells := strings.Split(row, "|") // "", claim, published, ours, verdict, cause
			if len(cells) != 7 {
				t.Errorf("README.md: %q has %d cells", row, len(cells))
				continue
			}
			shown := number.FindAllStringSubmatch(aside.ReplaceAllString(cells[3], ""), -1)
			var verdicts []string
			for i, id := range h.ids {
				s, ok := p.of[id]
				if !ok || s.Ours == nil || i >= len(shown) {
					t.Errorf("README.md: %q: nothing is shown or stored of %s", h.row, id)
					continue
				}
				x, _ := strconv.ParseFloat(shown[i][0], 64)
				if last := math.Pow(10, -float64(len(shown[i][1]))); math.Abs(x-*s.Ours*h.times) > 0.5001*last+1e-3*math.Abs(x) {
					t.Errorf("README.md: %q shows %v for %s, %v is stored", h.row, x, id, *s.Ours*h.times)
				}
				verdicts = append(verdicts, s.Verdict)
				if s.Fitted {
					verdicts = append(verdicts, "fitted")
				}
			}
			if len(shown) != len(h.ids) {
				t.Errorf("README.md: %q shows %d numbers of %d claims", h.row, len(shown), len(h.ids))
			}
			got := strings.FieldsFunc(cells[4], func(r rune) bool { return strings.ContainsRune(" ,;", r) })
			if strings.Join(got, " ") != strings.Join(verdicts, " ") {
				t.Errorf("README.md: %q says %v, stored is %v", h.row, got, verdicts)
			}
		}
	}
	if want := fmt.Sprintf("Of all %d statements %d are undecided", total, undecided); !strings.Contains(text, want) {
		t.Errorf("README.md does not say %q", want)
	}
}
