package seeb

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-npu/sluice/host/experiments/frame"
	"github.com/sluice-npu/sluice/host/sched"
)

// host/gpu/seeb.txt is what was printed for the claims of today, and RESULTS.md shows its count.
func TestShown(t *testing.T) {
	claims, err := frame.Book(book)
	if err != nil {
		t.Fatal(err)
	}
	read := func(name string) string {
		raw, err := os.ReadFile(filepath.Join("..", "..", "gpu", name))
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	lines := strings.Split(strings.TrimSpace(read("seeb.txt")), "\n")
	if len(lines) != len(claims)+3 {
		t.Fatalf("seeb.txt has %d lines, %d claims, one of columns, a count and one of files are expected", len(lines), len(claims))
	}
	for i := range claims {
		if l := lines[i+1]; strings.Fields(l)[0] != claims[i].ID || strings.Contains(l, "  fitted") != claims[i].Fitted {
			t.Errorf("seeb.txt: %q is for %s, fitted: %v", l, claims[i].ID, claims[i].Fitted)
		}
	}
	if count := lines[len(lines)-2]; !strings.Contains(read("RESULTS.md"), "\n    "+count+"\n") {
		t.Errorf("RESULTS.md does not show %q", count)
	}
}

// What causes suspect: a largest batch where all that has come is taken, and as many tasks at another rate.
func TestSwitches(t *testing.T) {
	for system, want := range map[string]int{"deeprt": 0, "deeprt:1": 1, "gslice": 0, "gslice:4": 4, "batch": 2, "batch:8": 8, "branchynet": 2} {
		p, err := System(system, nil, DefaultOpen())
		if err != nil {
			t.Fatal(err)
		}
		if c := p.(*sched.Collect); c.Batch != want {
			t.Errorf("%s has batches of %d, of %d are expected", system, c.Batch, want)
		}
	}
	e := &Edge{open: DefaultOpen(), nets: map[string]*edgeNet{}}
	for _, n := range edgeNetworks() {
		e.nets[n] = &edgeNet{alone: make([]int64, edgeBatch)}
	}
	var all [2][]Task
	for i := range all {
		var err error
		if all[i], err = e.tasks("gamma:1", 30e9, 1, nil); err != nil {
			t.Fatal(err)
		}
		e.rate = 0.5
	}
	last := len(all[0]) - 1
	if r := float64(all[1][last].At) / float64(all[0][last].At); len(all[1]) != last+1 || r < 1.9 || r > 2.1 {
		t.Errorf("at half of the rate %d tasks become %d, and the last comes %g times as late", last+1, len(all[1]), r)
	}
}
