package experiments_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/sluice-npu/sluice/host/experiments/frame"
)

// printed holds the claims of a publication and the output of `sluice reproduce` about them.
type printed struct {
	name, claims, path string
	order              []string
	of                 map[string]frame.Statement
	count              string
}

// publications returns the publications in the root README with stored output.
func publications(t *testing.T) []printed {
	t.Helper()
	all := []printed{
		{name: "Fluid Batching", claims: "fluid/claims.yaml", path: "fluid/reproduced.txt"},
		{name: "SEEB-GPU", claims: "seeb/claims.yaml", path: "../gpu/seeb.txt"},
		{name: "REEF", claims: "reef/claims.yaml", path: "../gpu/reef.txt"},
		{name: "Strait", claims: "strait/claims.yaml", path: "strait/reproduced.txt"},
		{name: "Jellyfish", claims: "jellyfish/claims.yaml", path: "jellyfish/reproduced.txt"},
	}
	line := regexp.MustCompile(`^(\S+) +(\S+)(?: (x|ns|us|ms|s|/s|%|points|share|GPU|kernels|pairs))?(?: +± (\S+))?(?: +\(([^ )]+)(?: to ([^)]+))?\))? +(holds|fails|undecided|not-tried)(?:  +(fitted))?(?:  +(\S.*))?$`)
	number := func(text string) *float64 {
		if x, err := strconv.ParseFloat(text, 64); err == nil {
			return &x
		}
		return nil
	}
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
			s := frame.Statement{
				ID: m[1], Ours: number(m[2]), Unit: m[3], CI95: number(m[4]), Published: number(m[5]), PublishedTo: number(m[6]),
				Verdict: m[7], Fitted: m[8] != "", Cause: m[9],
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

// The stored output has the present claims, in order. It has a cause for every claim that fails or is undecided, and the
// line before the last counts the others. If units change, -update prints them.
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
			if s.Unit != claims[i].Unit && s.Ours != nil && !*update {
				t.Errorf("%s: %s is in %q, by its measures in %q", p.path, id, s.Unit, claims[i].Unit)
			}
			s.Unit = claims[i].Unit
			if !shown(claims[i].Published, s.Published) || !shown(claims[i].PublishedTo, s.PublishedTo) {
				t.Errorf("%s: %s is not of the number that the book has as published", p.path, id)
			}
			all = append(all, s)
		}
		text := read(t, p.path)
		var want strings.Builder
		if err := frame.Print(&want, all); err != nil {
			t.Fatal(err)
		}
		want.WriteString(text[strings.LastIndex(text, "written to "):])
		if *update {
			if err := os.WriteFile(p.path, []byte(want.String()), 0o644); err != nil {
				t.Fatal(err)
			}
		} else if text != want.String() {
			t.Errorf("%s is not what its values print as: %s", p.path, cmp.Diff(want.String(), text))
		}
	}
}

// shown reports whether a printed number, with four digits, is the book's.
func shown(book, printed *float64) bool {
	if book == nil || printed == nil {
		return book == printed
	}
	return fmt.Sprintf("%.4g", *book) == fmt.Sprintf("%.4g", *printed)
}

// Every stored verdict is the present judge's for the stored mean and interval: the test judges two values that have
// them or, without spread, six equal values. Undecided rows of Jellyfish's figure 14(a) are excluded, since their bounds
// are not printed.
func TestVerdicts(t *testing.T) {
	const quantile = 12.7062 // Student's, one degree of freedom
	for _, p := range publications(t) {
		claims, err := frame.Book([]byte(read(t, p.claims)))
		if err != nil {
			t.Fatal(err)
		}
		for i := range claims {
			c, s := &claims[i], p.of[claims[i].ID]
			if s.Ours == nil || c.Rule == frame.NotTried {
				continue
			}
			got := map[string]bool{}
			for _, off := range []float64{-1, 0, 1} { // four digits are printed
				m := *s.Ours + off*math.Abs(*s.Ours)*5e-4
				v := []float64{m, m, m, m, m, m}
				if s.CI95 != nil && *s.CI95 > 0 {
					v = []float64{m - *s.CI95/quantile, m + *s.CI95/quantile}
				}
				got[c.Judge(v).Verdict] = true
			}
			if s.Verdict == frame.Undecided && strings.HasPrefix(c.ID, "fig14a/") {
				continue
			}
			if !got[s.Verdict] {
				t.Errorf("%s: %s is stored as %s, its mean and interval give %v", p.path, c.ID, s.Verdict, got)
			}
		}
	}
}

// Only Claim.judge makes verdicts: no other code of the experiments, of frame or of the commands makes a statement,
// assigns its verdict or takes its address.
func TestOneJudge(t *testing.T) {
	judged := 0
	for _, root := range []string{".", "../cmd"} {
		if err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			files := token.NewFileSet()
			f, err := parser.ParseFile(files, path, nil, 0)
			if err != nil {
				return err
			}
			for _, d := range f.Decls {
				n := verdictsSet(d)
				if fn, ok := d.(*ast.FuncDecl); ok && path == filepath.FromSlash("frame/frame.go") && fn.Name.Name == "judge" && fn.Recv != nil {
					judged += n
				} else if n > 0 {
					t.Errorf("%s sets a verdict", files.Position(d.Pos()))
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	if judged == 0 {
		t.Error("Claim.judge sets no verdict")
	}
	for body, want := range map[string]int{
		`s.Verdict, s.Cause = frame.Holds, ""`: 1, `if s.Verdict == Undecided { s.Verdict = Holds }`: 1, `v := &s.Verdict; *v = Holds`: 1,
		`*s = frame.Statement{ID: "a"}`: 1, `all := []Statement{{Verdict: Holds}}; _ = all`: 1, `switch s.Verdict { case Holds: n++ }; n[s.Verdict]++`: 0,
	} {
		f, err := parser.ParseFile(token.NewFileSet(), "", "package p; func f() { "+body+" }", 0)
		if err != nil {
			t.Fatal(err)
		}
		if n := verdictsSet(f); n != want {
			t.Errorf("%s sets %d verdicts, %d are expected", body, n, want)
		}
	}
}

// verdictsSet counts the places where code makes a statement or may change a verdict.
func verdictsSet(of ast.Node) (n int) {
	verdict := func(x ast.Expr) {
		switch x := x.(type) {
		case *ast.SelectorExpr:
			if x.Sel.Name == "Verdict" {
				n++
			}
		case *ast.Ident:
			if x.Name == "Verdict" || x.Name == "Statement" {
				n++
			}
		}
	}
	ast.Inspect(of, func(x ast.Node) bool {
		switch x := x.(type) {
		case *ast.AssignStmt:
			for _, l := range x.Lhs {
				verdict(l)
			}
		case *ast.UnaryExpr:
			if x.Op == token.AND {
				verdict(x.X)
			}
		case *ast.KeyValueExpr:
			verdict(x.Key)
		case *ast.CompositeLit:
			if s, ok := x.Type.(*ast.SelectorExpr); ok && s.Sel.Name == "Statement" {
				n++
			} else if x.Type != nil {
				verdict(x.Type)
			}
		}
		return true
	})
	return n
}

// headline has the claims for the rows of RESULTS.md's table, in the order of their numbers, and the factor between our
// value and the table's.
var headline = map[string][]struct {
	row   string // the beginning of the row's claim
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
		{"fewer deadlines of high priority missed", figure5("high"), 1},
		{"the same, at most", figure5("high-most"), 1},
		{"low priority pays", figure5("low"), -1},
		{"figure 7(a), whole", []string{
			"fig7a/kernel-p95", "fig7a/kernel-p99", "fig7a/latency-p95", "fig7a/latency-p99",
			"fig7a/explained-p95", "fig7a/explained-p99", "fig7a/overhead-p99", "fig7a/overhead-most",
		}, 1},
		{"held out", []string{"fig7b/bursts/small", "fig7b/models/small", "fig7b/ampere/small", "fig7b/hopper/small"}, 1},
	},
	"Jellyfish": {
		{"deadlines missed over LTE", []string{"mixed/4/jellyfish", "mixed/4/b-m", "mixed/8/b-m"}, 100},
		{"hits of prefetching", []string{"prefetch/5", "prefetch/3"}, 100},
		{"held out", []string{"fig9/100ms", "fig9/150ms"}, 1},
	},
}

// numbers returns the numbers in claims' rows and causes, in the book's causes, and in the tried changes.
func (p *printed) numbers(t *testing.T, ids []string, times float64) (out []float64) {
	claims, err := frame.Book([]byte(read(t, p.claims)))
	if err != nil {
		t.Fatal(err)
	}
	text := ""
	for i := range claims {
		if c := &claims[i]; slices.Contains(ids, c.ID) {
			why := c.Why()
			text += " " + c.Text + " " + why.Text + " " + why.Evidence + " " + p.of[c.ID].Cause
		}
	}
	tried, err := frame.TriedOf([]byte(read(t, filepath.Join(filepath.Dir(p.claims), "tried.txt"))))
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range tried {
		if slices.Contains(ids, x.ID) {
			text += " " + x.String() + " " + x.Seeds
		}
	}
	for _, m := range regexp.MustCompile(`-?[0-9]+(?:\.[0-9]+)?`).FindAllString(text, -1) {
		x, _ := strconv.ParseFloat(m, 64)
		out = append(out, x, x*times, math.Abs(x), 100*x)
	}
	for _, id := range ids { // and the difference of our value from the published one, or from 1, in per cent
		if s := p.of[id]; s.Ours != nil {
			out = append(out, 100*(*s.Ours-1))
			if s.Published != nil {
				out = append(out, 100*math.Abs(*s.Ours / *s.Published - 1))
			}
		}
	}
	return out
}

// figure5 returns the rows of a number for all loads of figure 5, on one GPU and on four.
func figure5(number string) (ids []string) {
	for _, gpus := range []string{"", "node/"} {
		for _, load := range []string{"high", "low", "uniform"} {
			ids = append(ids, "fig5/"+gpus+load+"/"+number)
		}
	}
	return ids
}

// The counts of the root README and the table of RESULTS.md agree with the stored output: our numbers to the last digit,
// with their intervals if shown, published numbers, and verdicts. A number in a cause is one of these, of the stored
// causes, or of a tried change.
func TestHeadline(t *testing.T) {
	text, root := read(t, "RESULTS.md"), read(t, "../../README.md")
	aside := regexp.MustCompile("\\([^)]*\\)|`[^`]*`")
	named := regexp.MustCompile(`<[^>]*>|[A-Za-z]+[0-9]+|[0-9]+ seeds|seeds [0-9]+( and [0-9]+)?|x [0-9]+`) // numbers that are not results
	number := regexp.MustCompile(`(-?[0-9]+(?:\.([0-9]+))?)(?:\s*±\s*([0-9]+(?:\.([0-9]+))?))?`)
	total, undecided, tried := 0, 0, 0
	for _, p := range publications(t) {
		for _, s := range p.of {
			if total++; s.Verdict == frame.Undecided {
				undecided++
			}
			if s.Verdict != frame.NotTried {
				tried++
			}
		}
		from := strings.Index(text, "| ["+p.name+"](")
		if from < 0 {
			t.Errorf("RESULTS.md has no row of %s", p.name)
			continue
		}
		count := strings.NewReplacer(" statements", "", " (simulated)", "", ";", ",").Replace(p.count)
		_, row, _ := strings.Cut(root, "| ["+p.name+"](")
		if row, _, _ = strings.Cut(row, "\n"); !strings.HasSuffix(row, "| "+count+" |") {
			t.Errorf("README.md: the row of %s does not end with %q", p.name, count)
		}
		for _, h := range headline[p.name] {
			known := p.numbers(t, h.ids, h.times)
			at := strings.Index(text[from:], "| "+h.row)
			if at < 0 {
				t.Errorf("RESULTS.md: %s has no row %q", p.name, h.row)
				continue
			}
			row, _, _ := strings.Cut(text[from+at:], "\n")
			cells := strings.Split(row, "|") // "", claim, published, ours, verdict, cause
			if len(cells) != 7 {
				t.Errorf("RESULTS.md: %q has %d cells", row, len(cells))
				continue
			}
			shown := number.FindAllStringSubmatch(aside.ReplaceAllString(cells[3], ""), -1)
			var verdicts []string
			var published []float64
			for i, id := range h.ids {
				s, ok := p.of[id]
				if !ok || s.Ours == nil || i >= len(shown) {
					t.Errorf("RESULTS.md: %q: nothing is shown or stored of %s", h.row, id)
					continue
				}
				if m := shown[i]; !as(m[1], m[2], *s.Ours*h.times) {
					t.Errorf("RESULTS.md: %q shows %v for %s, %v is stored", h.row, m[1], id, *s.Ours*h.times)
				} else if m[3] != "" && (s.CI95 == nil || !as(m[3], m[4], *s.CI95*math.Abs(h.times))) {
					t.Errorf("RESULTS.md: %q shows ± %s for %s, another interval is stored", h.row, m[3], id)
				}
				if s.Published != nil {
					published = append(published, *s.Published*h.times)
				}
				verdicts = append(verdicts, s.Verdict)
				if s.Fitted {
					verdicts = append(verdicts, "fitted")
				}
			}
			if len(shown) != len(h.ids) {
				t.Errorf("RESULTS.md: %q shows %d numbers of %d claims", h.row, len(shown), len(h.ids))
			}
			for _, m := range number.FindAllStringSubmatch(aside.ReplaceAllString(cells[2], ""), -1) {
				if !slices.ContainsFunc(published, func(x float64) bool { return as(m[1], m[2], x) }) {
					t.Errorf("RESULTS.md: %q shows %s as published, %v is stored", h.row, m[1], published)
				}
			}
			for _, m := range number.FindAllStringSubmatch(named.ReplaceAllString(cells[5], ""), -1) {
				if !slices.ContainsFunc(known, func(x float64) bool { return as(m[1], m[2], x) }) {
					t.Errorf("RESULTS.md: %q has %s in its cause, which is neither in the stored causes nor was it tried", h.row, m[1])
				}
			}
			got := strings.FieldsFunc(cells[4], func(r rune) bool { return strings.ContainsRune(" ,;", r) })
			if strings.Join(got, " ") != strings.Join(verdicts, " ") {
				t.Errorf("RESULTS.md: %q says %v, stored is %v", h.row, got, verdicts)
			}
		}
	}
	if want := fmt.Sprintf("Of all %d statements %d are undecided, %.1f %% of the %d that were tried", total, undecided, 100*float64(undecided)/float64(tried), tried); !strings.Contains(text, want) {
		t.Errorf("RESULTS.md does not say %q", want)
	}
}
