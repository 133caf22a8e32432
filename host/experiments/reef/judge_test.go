package reef

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-npu/sluice/host/experiments/frame"
	"github.com/sluice-npu/sluice/host/gpu/params"
)

// The lines that host/gpu/RESULTS.md shows are those that the bench printed (reef.txt). reef.txt has a line for every
// present statement; if a statement needs no run, its number is today's too.
func TestShown(t *testing.T) {
	claims, err := frame.Book(book)
	if err != nil {
		t.Fatal(err)
	}
	s := frame.Study[*lab]{Book: book, Measures: measures()}
	samplers, err := s.Samplers()
	if err != nil {
		t.Fatal(err)
	}
	of := fmt.Sprint(len(claims))
	read := func(name string) map[string]string {
		raw, err := os.ReadFile(filepath.Join("..", "..", "gpu", name))
		if err != nil {
			t.Fatal(err)
		}
		lines := map[string]string{}
		for line := range strings.Lines(string(raw)) {
			line, shown := strings.CutPrefix(line, "    ")
			if id, _, ok := strings.Cut(line, "/"); (shown || name == "reef.txt") && ok && (strings.HasPrefix(id, "fig") || strings.HasPrefix(id, "table") || strings.HasPrefix(id, "sec")) {
				lines[strings.Fields(line)[0]] = strings.TrimSpace(line)
			} else if strings.Contains(line, " of "+of+" statements hold,") && (shown || name == "reef.txt") {
				lines["count"] = strings.TrimSpace(line)
			}
		}
		return lines
	}
	printed, shown := read("reef.txt"), read("RESULTS.md")
	if len(shown) < 20 || shown["count"] == "" {
		t.Errorf("RESULTS.md shows %d lines", len(shown))
	}
	for id, line := range shown {
		if !strings.HasPrefix(printed[id], line) {
			t.Errorf("RESULTS.md: %q, the bench printed %q", line, printed[id])
		}
	}
	if len(printed) != len(claims)+1 {
		t.Errorf("reef.txt has %d lines for %d statements", len(printed), len(claims))
	}
	for i := range claims {
		k := &claims[i]
		line := strings.Fields(printed[k.ID])
		if len(line) < 2 {
			t.Errorf("reef.txt has no line for %s", k.ID)
			continue
		}
		if strings.Contains(printed[k.ID], "  fitted") != k.Fitted {
			t.Errorf("%s: fitted is %v: %q", k.ID, k.Fitted, printed[k.ID])
		}
		if !strings.HasPrefix(k.ID, "table1/") && !strings.HasPrefix(k.ID, "fig10/") && k.ID != "fig24/rnet" && k.ID != "fig24/yolo" {
			continue
		}
		f, err := params.Of(k.On)
		if err != nil {
			t.Fatal(err)
		}
		x, err := frame.Sample([]*lab{newLab(t.Context(), f, 1e6, 1)}, samplers[k.ID])
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprintf("%.4g", x[0]); got != line[1] {
			t.Errorf("%s is %s today, reef.txt has %s", k.ID, got, line[1])
		}
	}
}

// Two of the switches: real-time clients that pause, and a wait for a device queue of eight.
func TestSwitches(t *testing.T) {
	f, err := params.Of("mi50")
	if err != nil {
		t.Fatal(err)
	}
	run := func(with, system string) *Outcome {
		l := newLab(t.Context(), f, 20e6, 1)
		l.with = with
		o, err := l.run(frame.Args{"tvm", system, "B"})
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	if o := run("pauses", "reset"); o.Served[0].closed() || !o.Served[0].RealTime() || o.Preemptions < 2 {
		t.Errorf("%+v, %d preemptions", o.Served[0], o.Preemptions)
	}
	if o := run("", "reset"); !o.Served[0].closed() || o.Preemptions != 1 {
		t.Errorf("%+v, %d preemptions", o.Served[0], o.Preemptions)
	}
	if wait, eight := run("drain-8", "wait"), run("", "xsched1"); wait.Preempt != eight.Preempt || wait.Preempt == run("", "wait").Preempt {
		t.Errorf("a wait takes %g us, for a queue of eight %g", wait.Preempt, eight.Preempt)
	}
}
