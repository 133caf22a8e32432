package resource

import (
	"errors"
	goflag "flag"
	"fmt"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-npu/sluice/boards"
	"github.com/sluice-npu/sluice/hw/configs"
	"github.com/sluice-npu/sluice/hw/syn"
)

func runs(t *testing.T) []Run {
	t.Helper()
	list, err := Stored()
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// DSPs and memories of every run equal the law exactly.
func TestMemoriesAreExact(t *testing.T) {
	for _, r := range runs(t) {
		if !complete(r) {
			continue
		}
		e := memories(r.Family, r.Design, yosys)
		lutram := 0
		if r.Top == topArray {
			e = Estimate{DSP: r.Design.MACs()}
		}
		for _, m := range Memories(r.Design) {
			if r.Top == topArray && m.Name != accumulators {
				continue
			}
			p := Place(r.Family, m.Words, m.Width)
			lutram += m.Count * p.LUTRAM
			if r.Top == topArray {
				e.BRAM36 += float64(m.Count*p.half()) / 2
			}
		}
		if e.DSP != r.Used.DSP || e.URAM != r.Used.URAM || e.BRAM36 != float64(r.Used.BRAM36)+float64(r.Used.BRAM18)/2 || lutram != r.Used.LUTRAM {
			t.Errorf("%s-%s-%s: %d DSP, %.1f BRAM36, %d URAM, %d LUTs that are memory; yosys %d, %d + %d halves, %d, %d", r.Config, r.Family, r.Top,
				e.DSP, e.BRAM36, e.URAM, lutram, r.Used.DSP, r.Used.BRAM36, r.Used.BRAM18, r.Used.URAM, r.Used.LUTRAM)
		}
	}
}

// The law is compared with runs that it was not fitted on: both families, whole NPUs and arrays. The errors are
// within these bands, and the printed bands are those of these runs.
func TestBands(t *testing.T) {
	const lutBand, ffBand = 0.05, 0.05
	const leastHeld, leastWhole, leastUltraScale = 3, 1, 1 // the current numbers, so that a missing run is noticed
	role := map[string]string{}
	for _, r := range runs(t) {
		key := fmt.Sprintf("%x-%s-%s", r.Design.Hash(), r.Family, r.Top)
		if was := role[key]; was != "" {
			t.Errorf("%s-%s-%s is there twice, as %s and %s", r.Config, r.Family, r.Top, was, r.Role)
		}
		role[key] = r.Role
	}
	held := map[string]int{}
	for _, family := range []string{boards.Series7, boards.UltraScalePlus} {
		l, err := fitted(family, nil)
		if err != nil {
			t.Fatal(err)
		}
		rows, err := rowsOf(l)
		if err != nil {
			t.Fatal(err)
		}
		var lut, ff float64
		for _, r := range rows {
			t.Logf("%-4s %-4s %-8s %-22s LUT %6d, estimated %6d (%+5.1f %%); FF %6d, estimated %6d (%+5.1f %%)", r.Run.Role, family, r.Run.Top,
				r.Run.Config, r.Run.Used.LUTs(), r.LUT, 100*r.lutOff(), r.Run.Used.FF, r.FF, 100*r.ffOff)
			if r.Run.Role != roleHeld {
				continue
			}
			held[family]++
			held[r.Run.Top]++
			lut, ff = max(lut, math.Abs(r.lutOff())), max(ff, math.Abs(r.ffOff))
			name := fmt.Sprintf("%s-%s-%s", r.Run.Config, family, r.Run.Top)
			if math.Abs(r.lutOff()) > lutBand || math.Abs(r.ffOff) > ffBand {
				t.Errorf("%s is outside of the bands", name)
			}
		}
		if math.Abs(lut-l.LUTBand) > 1e-3 || math.Abs(ff-l.FFBand) > 1e-3 {
			t.Errorf("%s: printed bands of %.3f and %.3f, the runs say %.3f and %.3f", family, l.LUTBand, l.FFBand, lut, ff)
		}
		row := fmt.Sprintf("| %s | %d | %.1f %% | %.1f %% |", map[string]string{boards.Series7: "series 7", boards.UltraScalePlus: "UltraScale+"}[family], l.Held, 100*l.LUTBand, 100*l.FFBand)
		if text, err := os.ReadFile("../README.md"); err != nil || !strings.Contains(string(text), row) {
			t.Errorf("dse/README.md: expected the row %s, %v", row, err)
		}
		t.Logf("%s: fitted on %d runs, held to %d others; LUT within %.1f %%, FF within %.1f %%", family, l.Fitted, l.Held, 100*l.LUTBand, 100*l.FFBand)
	}
	if held[topWhole] < leastWhole || held[topWhole]+held[topArray] < leastHeld || held[boards.UltraScalePlus] < leastUltraScale {
		t.Errorf("held to %v", held)
	}
}

var fresh = goflag.Bool("fresh", false, "fail where a stored run is of other RTL than the tree's")

// Runs of other RTL than the tree's, or of another tool, are rejected and yield no band.
func TestStale(t *testing.T) {
	list := runs(t)
	for _, family := range []string{boards.Series7, boards.UltraScalePlus} {
		_, err := Calibration(family, "../..")
		_, here := Calibration(family, "") // the RTL embedded in this program, which is the same
		b, d := boards.Board{Family: family}, configs.Design{TR: 64, TP: 4, TC: 8, NAXI: 1, AXIBytes: 8, WLoad: 4, Drain: 4, WRingBeats: 512, ABufWords: 1024, CMax: 2048, MaxBurst: 16}
		if e := Of(b, d); errors.Is(err, ErrStale) != errors.Is(here, ErrStale) || e.LUT.Stale != (err != nil) || e.FF.Stale != (err != nil) || (e.LUT.Band < 1) != (err == nil) ||
			strings.Contains(e.LUT.String(), "law fitted on another RTL") != (err != nil) || strings.Contains(e.FF.String(), "+-") != (err == nil) {
			t.Errorf("%s: at root %v, built in %v, an estimate of %v LUTs, %v FF", family, err, here, e.LUT, e.FF)
		}
		switch {
		case errors.Is(err, ErrStale) && !*fresh: // dse prints that; only make weekly fails
			t.Logf("%s: stale", family)
		case err != nil:
			t.Errorf("synthesise them anew with runs.sh: %v", err)
		}
	}
	for _, change := range []func(*Run){
		func(r *Run) { r.Sources = strings.Repeat("0", 64) },
		func(r *Run) { r.Tool = "Yosys 0.33" },
	} {
		bad := slices.Clone(list)
		change(&bad[slices.IndexFunc(bad, func(r Run) bool { return r.Role == roleHeld && r.Top == topArray })])
		if l, err := Fit(bad[0].Family, bad, nil); !errors.Is(err, ErrStale) || l.LUTBand < 1 || l.FFBand < 1 {
			t.Errorf("bands %g, %g, %v", l.LUTBand, l.FFBand, err)
		}
	}
	want, err := sourcesAt("../..")
	if err != nil {
		t.Fatal(err)
	}
	stale, err := Stale("../..")
	if err != nil || (len(stale) > 0) == (Fresh(list, want) == nil) {
		t.Errorf("stale: %v, %v", stale, err)
	}
	for _, name := range stale { // in the same way as runs.sh
		if _, err := os.Stat("runs/" + name + ".json"); err != nil {
			t.Error(err)
		}
	}
	if _, err := Stale(t.TempDir()); !errors.Is(err, ErrRuns) {
		t.Errorf("a tree without RTL: %v", err)
	}
	if _, err := Fit(boards.Series7, list, Sources{topArray: {Tool, strings.Repeat("1", 64)}}); !errors.Is(err, ErrStale) {
		t.Errorf("runs of RTL that is not the tree's: %v", err)
	}
	if l, err := Calibration(boards.Series7, t.TempDir()); !errors.Is(err, ErrRuns) || l.LUTBand < 1 {
		t.Errorf("a tree without RTL: band %g, %v", l.LUTBand, err)
	}
	var fit []Run
	for _, r := range list {
		if r.Role == roleFit {
			fit = append(fit, r)
		}
	}
	if l, err := Fit(boards.Series7, fit, nil); !errors.Is(err, ErrRuns) || l.LUTBand < 1 {
		t.Errorf("no runs to be held to: band %g, %v", l.LUTBand, err)
	}
}

// Every instance of npu_core and npu_top belongs to a unit; otherwise a whole run could not be stored.
func TestUnitsAreKnown(t *testing.T) {
	n := 0
	for _, file := range []string{"npu_core", "npu_top"} {
		text, err := os.ReadFile("../../hw/rtl/" + file + ".sv")
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`\bu_(\w+) \(`).FindAllStringSubmatch(string(text), -1) {
			n++
			if _, err := UnitOf(m[1]); err != nil {
				t.Errorf("%s.sv: %v", file, err)
			}
		}
	}
	if want := len(modules) + len(between); n != want {
		t.Errorf("%d instances, the law knows %d", n, want)
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
	// accumulators, activations, weights ring, and FBCB, biases, averages, residual beats
	if e.DSP != 900 || e.BRAM36 != 256+224+29+2+8+0.5+4 {
		t.Errorf("zc706: %+v", e)
	}
	if err := e.Check(z706); err != nil {
		t.Error(err)
	}
	filled, err := FillABuf(z706, d, 0)
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
	if _, err := FillABuf(z706, big, 0); !errors.Is(err, ErrBudget) {
		t.Errorf("FillABuf of it: %v", err)
	}
	// yosys uses two URAMs for each bank of 20,480 words; the ZU7EV has 96
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
	if d, err = FillABuf(z104, d, 0); err != nil || d.ABufWords != 16384 || Of(z104, d).URAM != 64+4 {
		t.Errorf("zcu104: %d words, %v", d.ABufWords, err)
	}
}

// Below each whole design's row, hw/syn/README.md has the law beside it.
func TestReadme(t *testing.T) {
	results, err := syn.Results("../../hw/syn/results")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("../../hw/syn/README.md")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.ReplaceAll(string(text), ",", ""), "\n")
	for _, r := range results {
		b, err := boards.Load(r.Design.Board)
		if r.Top != topWhole || err != nil {
			continue
		}
		e := Of(b, r.Design)
		age, uram := "", ""
		if e.LUT.Stale {
			age = " of older RTL"
		}
		if e.URAM > 0 {
			uram = fmt.Sprintf(" %d", e.URAM)
		}
		want := fmt.Sprintf("| | by the law%s | | %d | %g |%s | %d: %+.1f %% | | %d: %+.1f %% |", age, e.DSP, e.BRAM36, uram, e.LUT.Value, 100*off(float64(e.LUT.Value), r.Resources.LUTs()),
			e.FF.Value, 100*off(float64(e.FF.Value), r.Resources.FF))
		i := slices.IndexFunc(lines, func(l string) bool {
			return strings.HasPrefix(l, "| `"+r.Config+"`") && strings.Contains(l, "| `"+topWhole+"` |")
		})
		if i < 0 || lines[i+1] != want {
			t.Errorf("hw/syn/README.md: behind the row of %s: expected %s", r.Config, want)
		}
	}
}

// No estimate uses its own synthesis: a design with a stored run uses law and band from the other runs, and there are
// enough of them for each.
func TestOwnRunsAreLeftOut(t *testing.T) {
	all := runs(t)
	for _, r := range all {
		if r.Top != topWhole {
			continue
		}
		l, err := fitted(r.Family, nil, r.Design)
		if err != nil {
			t.Errorf("%s without its own runs: %v", r.Config, err)
			continue
		}
		rows, err := rowsOf(l)
		if err != nil {
			t.Fatal(err)
		}
		band, own := 0.0, 0.0
		for _, row := range rows {
			switch {
			case row.Run.Design == r.Design && row.Run.Top == r.Top:
				own = math.Abs(row.lutOff())
			case row.Run.Role == roleHeld && row.Run.Design.Hash() != r.Design.Hash():
				band = max(band, math.Abs(row.lutOff()))
			}
		}
		b, err := boards.Load(map[string]string{boards.Series7: "zc706", boards.UltraScalePlus: "zcu104"}[r.Family])
		if err != nil {
			t.Fatal(err)
		}
		d := r.Design
		d.Name, d.Board, d.ClockMHz = "another", "", 1 // the same hardware
		got := Of(b, d)
		lut, ff := l.logic(r.Family, topWhole, d)
		t.Logf("%s %s: off by %.1f %%, band of the others %.1f %%", r.Role, r.Config, 100*own, 100*band)
		if known := lawOf(r.Family, d); math.Abs(known.LUTBand-band) > 1e-4 || got.LUT.Value != int(math.Round(lut)) || got.FF.Value != int(math.Round(ff)) {
			t.Errorf("%s: %+v, without its own runs %.0f LUTs within %.3f, %.0f FF", r.Config, got, lut, band, ff)
		}
	}
}

// row compares a run with the law.
type row struct {
	Run     Run
	LUT, FF int
	ffOff   float64
}

// lutOff returns the law's relative error.
func (r row) lutOff() float64 { return off(float64(r.LUT), r.Run.Used.LUTs()) }

// rowsOf compares the law with the stored runs of its family, including those it was fitted on.
func rowsOf(l Law) ([]row, error) {
	runs, err := Stored()
	if err != nil {
		return nil, err
	}
	var rows []row
	for _, r := range runs {
		if r.Family == l.Family && complete(r) {
			lut, ff := l.logic(r.Family, r.Top, r.Design)
			rows = append(rows, row{r, int(math.Round(lut)), int(math.Round(ff)), off(ff, r.Used.FF)})
		}
	}
	return rows, nil
}

// complete reports whether the totals of a run include all RTL of its scope: the whole NPU, or the array.
func complete(r Run) bool {
	return r.Top == topArray || r.Top == topWhole && (r.Role == roleHeld || r.Units["core"] != Cells{})
}
