package resource

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-npu/sluice/boards"
	"github.com/sluice-npu/sluice/hw/configs"
)

func runs(t *testing.T) []Run {
	t.Helper()
	list, err := Stored()
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// DSPs and block RAM of every whole run are what the law says, exactly.
func TestMemoriesAreExact(t *testing.T) {
	n := 0
	for _, r := range runs(t) {
		if r.Top != topWhole {
			continue
		}
		n++
		e := Of(boards.Board{Family: r.Family}, r.Design)
		if e.DSP != r.Used.DSP || e.URAM != r.Used.URAM || e.BRAM36 != float64(r.Used.BRAM36)+float64(r.Used.BRAM18)/2 {
			t.Errorf("%s-%s: %d DSP, %.1f BRAM36, %d URAM; yosys %d, %d + %d halves, %d", r.Config, r.Family, e.DSP, e.BRAM36, e.URAM,
				r.Used.DSP, r.Used.BRAM36, r.Used.BRAM18, r.Used.URAM)
		}
	}
	if n < len(restFeatures) {
		t.Errorf("%d whole runs", n)
	}
}

// The bands that are printed are kept: they are what the law misses a run by that it was not fitted
// on. A law that gets worse than this is a broken one.
func TestBands(t *testing.T) {
	l, err := Calibration(boards.Series7, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s: fitted on %d whole runs and %d of arrays; LUT within %.1f %%, FF within %.1f %% of runs left out", l.Family, l.Wholes, l.Arrays, 100*l.LUTBand, 100*l.FFBand)
	if l.LUTBand > 0.08 || l.FFBand > 0.08 {
		t.Errorf("bands of %.3f and %.3f", l.LUTBand, l.FFBand)
	}
	rows, err := Validate(l.Family)
	if err != nil || len(rows) != l.Wholes {
		t.Fatalf("%d rows of %d runs, %v", len(rows), l.Wholes, err)
	}
	for _, r := range rows {
		t.Logf("%s: LUT %d, estimated %d (%+.1f %%); FF %d, estimated %d (%+.1f %%)", r.Run.Config,
			r.Run.Used.LUTs(), r.Estimate.LUT.Value, 100*(float64(r.Estimate.LUT.Value)/float64(r.Run.Used.LUTs())-1),
			r.Run.Used.FF, r.Estimate.FF.Value, 100*(float64(r.Estimate.FF.Value)/float64(r.Run.Used.FF)-1))
	}
	for _, r := range runs(t) {
		if r.Family != l.Family || r.Top != topWhole {
			continue
		}
		lut, ff := l.logic(r.Design)
		if off(lut.Value, r.Used.LUTs()) > l.LUTBand || off(ff.Value, r.Used.FF) > l.FFBand {
			t.Errorf("%s: LUT %v, counted %d; FF %v, counted %d", r.Config, lut, r.Used.LUTs(), ff, r.Used.FF)
		}
	}
	// without runs there is an estimate, and it says that it is none of a calibrated law
	u, err := Calibration(boards.UltraScalePlus, "")
	if len(slices.DeleteFunc(runs(t), func(r Run) bool { return r.Family != boards.UltraScalePlus })) == 0 && (!errors.Is(err, ErrRuns) || u.LUTBand < 1) {
		t.Errorf("no runs of %s: band %g, %v", u.Family, u.LUTBand, err)
	}
}

// Runs of other RTL, or of another tool, are refused.
func TestStale(t *testing.T) {
	list := runs(t)
	if err := Fresh(list, nil); err != nil {
		t.Error(err)
	}
	for _, change := range []func(*Run){
		func(r *Run) { r.Sources = strings.Repeat("0", 64) },
		func(r *Run) { r.Tool = "Yosys 0.33" },
	} {
		bad := slices.Clone(list)
		change(&bad[1])
		if l, err := Fit(bad[0].Family, bad, nil); !errors.Is(err, ErrStale) || l.LUTBand < 1 {
			t.Errorf("band %g, %v", l.LUTBand, err)
		}
	}
	if _, err := Fit(boards.Series7, list, Sources{topWhole: {Tool, strings.Repeat("1", 64)}}); !errors.Is(err, ErrStale) {
		t.Errorf("runs of RTL that is not the tree's: %v", err)
	}
	// the tree's own RTL: fresh exactly where its hash is the runs'
	hash, err := SourcesIn("../..", topWhole)
	if err != nil {
		t.Fatal(err)
	}
	l, err := Calibration(boards.Series7, "../..")
	if fresh := hash == list[0].Sources; fresh != (err == nil) || fresh != (l.LUTBand < 1) || !fresh && !errors.Is(err, ErrStale) {
		t.Errorf("RTL %.12s, runs of %.12s: band %g, %v", hash, list[0].Sources, l.LUTBand, err)
	}
	if err != nil {
		t.Logf("the runs are stale: synthesise them anew (runs/README.md)")
	}
	if _, err := SourcesIn(t.TempDir(), topWhole); !errors.Is(err, ErrRuns) {
		t.Errorf("a tree without RTL: %v", err)
	}
}

func TestBudget(t *testing.T) {
	z706, err := boards.Load("zc706")
	if err != nil {
		t.Fatal(err)
	}
	d, err := configs.Load("zc706")
	if err != nil {
		t.Fatal(err)
	}
	e := Of(z706, d)
	// as its configuration says: 256 + 224 + 32, and FBCB, biases, averages, residual beats
	if e.DSP != 900 || e.BRAM36 != 256+224+32+2+8+0.5+1 {
		t.Errorf("zc706: %+v", e)
	}
	if err := e.Check(z706); err != nil {
		t.Error(err)
	}
	filled, err := FillABuf(z706, d)
	if err != nil || filled.ABufWords != 15360 {
		t.Errorf("%d words, %v", filled.ABufWords, err)
	}
	more := filled
	more.ABufWords += unit
	if err := Of(z706, more).Check(z706); !errors.Is(err, ErrBudget) {
		t.Errorf("a buffer larger than the largest: %v", err)
	}
	big := d
	big.TR, big.TP, big.TC = 65536, 16, 512
	err = Of(z706, big).Check(z706)
	for _, what := range []string{"DSPs", "BRAM36"} {
		if !errors.Is(err, ErrBudget) || !strings.Contains(err.Error(), what) {
			t.Errorf("<65536, 16, 512> is not refused for its %s: %v", what, err)
		}
	}
	few := z706
	few.LUT, few.FF = 1000, 1000
	if err := Of(few, d).Check(few); !errors.Is(err, ErrBudget) || !strings.Contains(err.Error(), "LUTs") || !strings.Contains(err.Error(), "registers") {
		t.Errorf("1,000 LUTs and registers: %v", err)
	}
	if _, err := FillABuf(z706, big); !errors.Is(err, ErrBudget) {
		t.Errorf("FillABuf of it: %v", err)
	}
	// yosys gives each bank of 20,480 words two URAMs; the ZU7EV has 96
	z104, err := boards.Load("zcu104")
	if err != nil {
		t.Fatal(err)
	}
	if d, err = configs.Load("zcu104"); err != nil {
		t.Fatal(err)
	}
	d.ABufWords = 20480
	if e := Of(z104, d); e.URAM != 2*64+4 {
		t.Errorf("zcu104 with 20,480 words: %d URAM", e.URAM)
	}
	if d, err = FillABuf(z104, d); err != nil || d.ABufWords != 16384 || Of(z104, d).URAM != 64+4 {
		t.Errorf("zcu104: %d words, %v", d.ABufWords, err)
	}
}
