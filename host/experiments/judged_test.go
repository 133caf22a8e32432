package experiments_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-npu/sluice/host/experiments/frame"
	"github.com/sluice-npu/sluice/host/experiments/jellyfish"
	"github.com/sluice-npu/sluice/host/experiments/strait"
)

// code returns the code of files without comments and without texts of errors and progress.
func code(t *testing.T, names ...string) []byte {
	t.Helper()
	var out bytes.Buffer
	for _, name := range names {
		files := token.NewFileSet()
		f, err := parser.ParseFile(files, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			if of, ok := call.Fun.(*ast.SelectorExpr); ok && (of.Sel.Name == "Errorf" || of.Sel.Name == "New" || of.Sel.Name == "Say") {
				for _, a := range call.Args {
					if s, ok := a.(*ast.BasicLit); ok {
						s.Value = `""`
					}
				}
			}
			return true
		})
		if err := (&printer.Config{Mode: printer.RawFormat}).Fprint(&out, token.NewFileSet(), f); err != nil {
			t.Fatal(err)
		}
	}
	return out.Bytes()
}

// claimsOf returns the parts of a book on which verdicts depend, without its texts and causes.
func claimsOf(t *testing.T, path string) []byte {
	t.Helper()
	claims, err := frame.Book([]byte(read(t, path)))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	number := func(x *float64) string {
		if x == nil {
			return "-"
		}
		return fmt.Sprint(*x)
	}
	for i := range claims {
		c := &claims[i]
		fmt.Fprintln(&out, c.ID, c.On, c.Rule, number(c.Published), number(c.PublishedTo), number(c.Least), number(c.Most), c.Fitted, c.Times, c.Exact, c.Ours)
	}
	return out.Bytes()
}

// short returns the result of a short run of a study, which changes with the engine, the policies and the simulated
// devices. TestStored has it for REEF and SEEB-GPU; for Fluid Batching the schedules and the law have stored values.
func short(t *testing.T, name string) []byte {
	t.Helper()
	c := frame.Config{Seeds: []uint64{1}, Workers: 1}
	var r *frame.Result
	switch name {
	case "REEF":
		return []byte(read(t, "reef/testdata/stored/reef.json"))
	case "SEEB-GPU":
		return []byte(read(t, "seeb/testdata/stored/seeb.json"))
	case "Strait":
		c.Only, c.Ns = "fig1/", 50e6
		b, err := strait.RunBench(context.Background(), strait.Config{Config: c})
		if err != nil {
			t.Fatal(err)
		}
		r = &b.Result
	case "Jellyfish":
		c.Only, c.Ns = "mixed/4", 2e9
		b, err := jellyfish.RunBench(context.Background(), jellyfish.Config{Config: c, Instances: 1, Assumed: jellyfish.Assume()})
		if err != nil {
			t.Fatal(err)
		}
		r = &b.Result
	default:
		return nil
	}
	var out bytes.Buffer
	for i := range r.Statements {
		s := &r.Statements[i]
		if s.Ours != nil {
			fmt.Fprintf(&out, "%s %.4g\n", s.ID, *s.Ours)
		}
	}
	return out.Bytes()
}

// The stored rows of a publication come from the present judge, claims, measures, chosen parameters and simulation. If
// one of these changes, its claims are run again (sluice reproduce, see its README), the output is stored, and -update
// writes the sums. No new run is needed if only the sum of the texts, which covers every stored digit, changes; or if only
// the judge changes and TestVerdicts confirms the verdicts.
func TestJudged(t *testing.T) {
	sum := func(text []byte) string { return fmt.Sprintf("%x", sha256.Sum256(text))[:16] }
	judge := sum(code(t, "frame/frame.go", "frame/expr.go", "frame/study.go"))
	var out strings.Builder
	for _, p := range publications(t) {
		folder := filepath.Dir(p.claims)
		files := []string{filepath.Join(folder, "measures.go")}
		// all columns of the output, and the causes with their evidence
		texts := read(t, p.claims) + read(t, p.path) + read(t, filepath.Join(folder, "tried.txt"))
		if p.name != "Fluid Batching" {
			files = append(files, filepath.Join(folder, "study.go"))
		}
		for _, chosen := range map[string][]string{"Strait": {"bed.go", "loads.go"}, "Jellyfish": {"run.go"}}[p.name] { // deadlines, the load; budgets
			files = append(files, filepath.Join(folder, chosen))
		}
		fmt.Fprintf(&out, "%-14s  judge %s  claims %s  measures %s  run %s  texts %s\n", p.name, judge,
			sum(claimsOf(t, p.claims)), sum(code(t, files...)), sum(short(t, p.name)), sum([]byte(texts)))
	}
	const path = "judged.txt"
	if *update {
		if err := os.WriteFile(path, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want := read(t, path); want != out.String() {
		t.Errorf("the stored rows were judged and run otherwise: %s has\n%sand it is today\n%s", path, want, out.String())
	}
}
