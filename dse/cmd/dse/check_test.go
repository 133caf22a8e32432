package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-npu/sluice/dse/counted"
	"github.com/sluice-npu/sluice/dse/resource"
	"github.com/sluice-npu/sluice/host/cli"
)

func TestHeld(t *testing.T) {
	for _, c := range []struct {
		name                     string
		estimate, measured, band float64
		calibration              error
		want                     string
	}{
		{"exact", 36, 36, 0, nil, inside},
		{"one beside an exact number", 36, 37, 0, nil, outside},
		{"none of it", 0, 0, 0, nil, inside},
		{"some where none is", 1, 0, 0, nil, outside},
		{"on the edge", 95, 100, 0.05, nil, inside},
		{"beyond it", 94, 100, 0.05, nil, outside},
		{"above", 106, 100, 0.05, nil, outside},
		{"stale", 100, 100, 0.05, resource.ErrStale, stale},
		{"no runs", 100, 100, 1, nil, uncalibrated},
	} {
		if f := held(c.name, c.estimate, c.measured, c.band, c.calibration); f.Verdict != c.want {
			t.Errorf("%s: %s, want %s", c.name, f.Verdict, c.want)
		}
	}
}

func TestJudge(t *testing.T) {
	d := checkedDoc{Figures: []figure{{Name: "DSP", Verdict: inside}, {Name: "LUT", Verdict: stale}}}
	d.judge()
	var out bytes.Buffer
	if err := d.print(&out); err != nil {
		t.Fatal(err)
	}
	if !d.Met || len(d.Stale) != 1 || !strings.Contains(out.String(), "no band holds for LUT") {
		t.Errorf("met %v, stale %v: %s", d.Met, d.Stale, &out)
	}
	for _, v := range []string{outside, unmeasured, undecided} {
		d.Figures = append(d.Figures[:2:2], figure{Verdict: v})
		if d.judge(); d.Met {
			t.Errorf("%s meets the bands", v)
		}
	}
}

// The verdict on a mean depends on its uncertainty. Twenty layers with a mean error of 2.82 % and an uncertainty of 1.2
// % do not show whether the law is within 2.4 %; more layers do.
func TestMeanVerdict(t *testing.T) {
	some := func(n int, off ...int64) (all []counted.Layer) {
		for i := range n {
			all = append(all, counted.Layer{Law: 10000 + off[i%len(off)], Cycles: 10000})
		}
		return all
	}
	for _, c := range []struct {
		layers []counted.Layer
		want   string
	}{
		{some(20, 40, -90, 20, 978), undecided}, // 2.82 %
		{some(400, 40, -90, 20, 978), outside},
		{some(20, 40, -90, 20, 700), inside},
		{some(20, 300), outside}, // all equal
		{some(1, 300), undecided},
		{some(1, -200), inside},
	} {
		got, half := meanVerdict(c.layers, 0.024)
		if got != c.want {
			t.Errorf("%d layers, %v: %s, want %s", len(c.layers), c.layers[0], got, c.want)
		}
		if (half == nil) != (len(c.layers) == 1) {
			t.Errorf("%d layers have the interval %v", len(c.layers), half)
		}
	}
}

// Folders written by dse export are accepted anywhere; one whose files contradict each other is rejected.
func TestCheckFinds(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "export")
	if code, _, stderr := call("export", "--board", "zc706", "--point", "64,4,8", "--name", "some", "--out", dir); code != cli.OK {
		t.Fatal(stderr)
	}
	config, b, err := (&checkCmd{What: dir}).find()
	if err != nil || config != filepath.Join(dir, "some.yaml") || b.Name != "zc706" {
		t.Errorf("%s, %s, %v", config, b.Name, err)
	}
	text, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(config, bytes.Replace(text, []byte("TR: 64"), []byte("TR: 32"), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := (&checkCmd{What: dir}).find(); err == nil {
		t.Error("a configuration that is not the exported one is taken")
	}
	if _, _, err := (&checkCmd{What: t.TempDir()}).find(); err == nil {
		t.Error("an empty folder is taken")
	}
}
