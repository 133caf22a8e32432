package seeb

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-npu/sluice/host/experiments/frame"
	"github.com/sluice-npu/sluice/host/gpu/params"
	"github.com/sluice-npu/sluice/host/sched"
)

// host/gpu/seeb.txt is the output for the present claims, and RESULTS.md shows its count.
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

// --with most limits the batches of DeepRT and GSLICE only.
func TestMost(t *testing.T) {
	f, err := params.Of(GPU)
	if err != nil {
		t.Fatal(err)
	}
	e, err := NewEdge(f, DefaultOpen())
	if err != nil {
		t.Fatal(err)
	}
	for system, limited := range map[string]bool{"deeprt": true, "gslice": true, "batch": false} {
		var took []float64
		for _, x := range []*frame.Change{nil, {Key: most, By: 1}} {
			o, err := served(&lab{ctx: t.Context(), edge: e, ns: 3e9, seed: 1, with: x}, frame.Args{system, "pai"})
			if err != nil {
				t.Fatal(err)
			}
			took = append(took, o.Latency)
		}
		if limited != (took[1] > 2*took[0]) || !limited && took[0] != took[1] {
			t.Errorf("%s: %g s, and one image a batch %g s", system, took[0], took[1])
		}
	}
}

// Two parameters that can be changed: the largest batch of baselines that take all waiting requests, and the rate for
// the same number of tasks.
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
	for _, system := range []string{"gslice:four", "deeprt:1.5", "batch:0", "batch:-3", "branchynet:"} {
		if p, err := System(system, nil, DefaultOpen()); err == nil {
			t.Errorf("%s: %v", system, p)
		}
	}
	for key, system := range map[string]string{"batch": "batch", "exits": ""} {
		o := DefaultOpen().with(key, 0.01)
		_, err := System(system, nil, o)
		if system == "" {
			_, err = (&Edge{open: o}).network("resnet50")
		}
		if !errors.Is(err, frame.ErrWith) {
			t.Errorf("a hundredth of %s: %v", key, err)
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
