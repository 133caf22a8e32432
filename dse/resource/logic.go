package resource

import (
	"crypto/sha256"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"gonum.org/v1/gonum/mat"

	"github.com/sluice-npu/sluice/boards"
	"github.com/sluice-npu/sluice/hw/configs"
)

// Errors about stored runs.
var (
	ErrStale = errors.New("the stored run is of other RTL or another tool")
	ErrRuns  = errors.New("the stored runs cannot be used")
)

//go:embed runs
var stored embed.FS

// What runs are of: everything, or the array alone.
const (
	topWhole = "npu_top"
	topArray = "pe_array"
)

// Run is a synthesis as hw/syn writes it (summary.json), as far as the law needs it.
type Run struct {
	Config  string         `json:"config"`
	Design  configs.Design `json:"design"`
	Family  string         `json:"family"`
	Top     string         `json:"top"`
	Tool    string         `json:"tool"`
	Sources string         `json:"sources_sha256"`
	Used    Used           `json:"resources"`
}

// Used is what yosys counted.
type Used struct {
	DSP    int `json:"dsp"`
	BRAM18 int `json:"bram18"`
	BRAM36 int `json:"bram36"`
	URAM   int `json:"uram"`
	LUT    int `json:"lut"`
	LUTRAM int `json:"lutram"`
	SRL    int `json:"srl"`
	FF     int `json:"ff"`
}

// LUTs is what a device's LUTs are counted against.
func (u Used) LUTs() int { return u.LUT + u.LUTRAM + u.SRL }

// Stored reads the runs that come with the package, sorted by name.
func Stored() ([]Run, error) {
	entries, err := stored.ReadDir("runs")
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRuns, err)
	}
	var runs []Run
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".json") {
			continue
		}
		text, err := stored.ReadFile("runs/" + e.Name())
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrRuns, err)
		}
		var r Run
		if err := json.Unmarshal(text, &r); err != nil {
			return nil, fmt.Errorf("%w: runs/%s: %w", ErrRuns, e.Name(), err)
		}
		if (r.Top != topWhole && r.Top != topArray) || r.Tool == "" || len(r.Sources) != sha256.Size*2 || r.Used.LUT < 1 || r.Used.FF < 1 {
			return nil, fmt.Errorf("%w: runs/%s is no whole run of npu_top or pe_array", ErrRuns, e.Name())
		}
		if err := r.Design.Validate(); err != nil {
			return nil, fmt.Errorf("%w: runs/%s: %w", ErrRuns, e.Name(), err)
		}
		runs = append(runs, r)
	}
	return runs, nil
}

// Source is what a run was made of.
type Source struct{ Tool, Sources string }

// Sources says by module what runs must be of.
type Sources map[string]Source

// Fresh refuses runs of a module that are not all of one tool and one RTL: want's, or where it has none
// the first run's.
func Fresh(runs []Run, want Sources) error {
	var errs []error
	of := maps.Clone(want)
	if of == nil {
		of = Sources{}
	}
	for _, r := range runs {
		got := Source{r.Tool, r.Sources}
		if _, ok := of[r.Top]; !ok {
			of[r.Top] = got
		}
		if w := of[r.Top]; got != w {
			errs = append(errs, fmt.Errorf("%w: %s-%s-%s is of %s and sources %.12s, expected %s and %.12s", ErrStale,
				r.Config, r.Family, r.Top, got.Tool, got.Sources, w.Tool, w.Sources))
		}
	}
	return errors.Join(errs...)
}

// SourcesIn is the hash that hw/syn gives the RTL that a module is made of, in the repository at root:
// today that of all files, names and contents, the packages first.
func SourcesIn(root, _ string) (string, error) {
	files, err := filepath.Glob(filepath.Join(root, "hw", "rtl", "*.sv"))
	if err != nil || len(files) == 0 {
		return "", fmt.Errorf("%w: no RTL at %s (%v)", ErrRuns, root, err)
	}
	slices.SortStableFunc(files, func(a, b string) int {
		pa, pb := strings.HasSuffix(a, "_pkg.sv"), strings.HasSuffix(b, "_pkg.sv")
		switch {
		case pa && !pb:
			return -1
		case pb && !pa:
			return 1
		}
		return strings.Compare(a, b)
	})
	var list strings.Builder
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			return "", fmt.Errorf("%w: %w", ErrRuns, err)
		}
		fmt.Fprintf(&list, "%s %x\n", filepath.Base(f), sha256.Sum256(text))
	}
	return fmt.Sprintf("%x", sha256.Sum256([]byte(list.String()))), nil
}

// Law is a fitted law of LUTs and registers of one family: that of the array, fitted on runs of
// pe_array of all sizes, and that of the rest, fitted on what whole runs take beyond it.
type Law struct {
	Family      string
	Source      Source
	Arrays      int // runs of the array alone
	Wholes      int // runs of npu_top
	Array, Rest part
	// Largest relative errors on whole runs, each estimated by the law fitted on all others.
	LUTBand, FFBand float64
}

// part is what one LUT or register more of a feature costs.
type part struct{ LUT, FF []float64 }

type feature struct {
	name string
	of   func(d configs.Design) float64
}

func flag(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// arrayFeatures are the sizes of the parts of pe_array that LUTs and registers grow with.
var arrayFeatures = []feature{
	{"control and skew", func(d configs.Design) float64 { return float64(d.TP) }},
	{"PEs: choosing banks", func(d configs.Design) float64 { return float64(d.TC) }},
	{"PEs: Stackable", func(d configs.Design) float64 { return float64(d.TC) * flag(d.Stack) }},
	{"weights", func(d configs.Design) float64 { return float64(d.MACs()) }},
	{"skew of inputs", func(d configs.Design) float64 { return float64(d.TP * d.TP) }},
}

// restFeatures are those of everything else.
var restFeatures = []feature{
	{"control", func(configs.Design) float64 { return 1 }},
	{"ports", func(d configs.Design) float64 { return float64(d.NAXI) }},
	{"beats: to and from the lanes", func(d configs.Design) float64 { return float64(d.AXIBytes * d.NB()) }},
	{"lanes: rotating and pooling", func(d configs.Design) float64 { return float64(d.NB()) * math.Log2(float64(d.NB())) }},
	{"post-processing", func(d configs.Design) float64 { return float64(d.Drain) }},
}

// known is what memories in LUTs take, of the array or of the rest: LUTs, and the registers behind their
// read ports, which block RAM has inside.
func known(family string, d configs.Design, array bool) (luts, ffs float64) {
	for _, m := range Memories(d) {
		if n := Place(family, m.Words, m.Width).LUTRAM; n > 0 && (m.Name == accumulators) == array {
			luts += float64(m.Count * n)
			ffs += float64(m.Count * m.Width)
		}
	}
	return luts, ffs
}

// uncalibrated is what is said of a family without runs: the coefficients of series 7, rounded, and so
// labelled.
func uncalibrated(family string) Law {
	return Law{
		Family:  family,
		Array:   part{LUT: []float64{40, 140, 130, 0, 0}, FF: []float64{40, 0, 0, 16, 16}},
		Rest:    part{LUT: []float64{10000, 1500, 40, 60, 1100}, FF: []float64{6000, 1000, 10, 20, 300}},
		LUTBand: 1, FFBand: 1,
	}
}

// Fit fits a law on runs of one family, which must be fresh.
func Fit(family string, runs []Run, want Sources) (Law, error) {
	var arrays, wholes []Run
	for _, r := range runs {
		switch {
		case r.Family != family:
		case r.Top == topArray:
			arrays = append(arrays, r)
		default:
			wholes = append(wholes, r)
		}
	}
	if err := Fresh(slices.Concat(wholes, arrays), want); err != nil {
		return uncalibrated(family), err
	}
	l, err := fit(family, arrays, wholes)
	if err != nil {
		return uncalibrated(family), err
	}
	l.Source = Source{wholes[0].Tool, wholes[0].Sources}
	rows, err := leftOut(family, arrays, wholes)
	if err != nil {
		return uncalibrated(family), err
	}
	for _, r := range rows {
		l.LUTBand = max(l.LUTBand, off(r.Estimate.LUT.Value, r.Run.Used.LUTs()))
		l.FFBand = max(l.FFBand, off(r.Estimate.FF.Value, r.Run.Used.FF))
	}
	return l, nil
}

// Row sets a whole run beside what the law says of it that was fitted on all other runs.
type Row struct {
	Run      Run      `json:"run"`
	Estimate Estimate `json:"estimate"`
}

// Validate holds the law of a family to the stored runs, each left out of the fit it is held to.
func Validate(family string) ([]Row, error) {
	runs, err := Stored()
	if err != nil {
		return nil, err
	}
	var arrays, wholes []Run
	for _, r := range runs {
		switch {
		case r.Family != family:
		case r.Top == topArray:
			arrays = append(arrays, r)
		default:
			wholes = append(wholes, r)
		}
	}
	if err := Fresh(slices.Concat(wholes, arrays), nil); err != nil {
		return nil, err
	}
	return leftOut(family, arrays, wholes)
}

func leftOut(family string, arrays, wholes []Run) ([]Row, error) {
	var rows []Row
	for i, r := range wholes {
		// neither the run nor its array alone
		var others []Run
		for _, a := range arrays {
			if a.Design.Hash() != r.Design.Hash() {
				others = append(others, a)
			}
		}
		x, err := fit(family, others, slices.Concat(wholes[:i], wholes[i+1:]))
		if err != nil {
			return nil, err
		}
		e := memories(family, r.Design)
		e.LUT, e.FF = x.logic(r.Design)
		rows = append(rows, Row{r, e})
	}
	return rows, nil
}

// off is a relative error.
func off(estimate, counted int) float64 { return math.Abs(float64(estimate)/float64(counted) - 1) }

func fit(family string, arrays, wholes []Run) (Law, error) {
	l := Law{Family: family, Arrays: len(arrays), Wholes: len(wholes)}
	if len(arrays) < len(arrayFeatures) || len(wholes) < len(restFeatures) {
		return l, fmt.Errorf("%w: %d runs of the array and %d whole ones for %s, the law needs %d and %d", ErrRuns,
			len(arrays), len(wholes), family, len(arrayFeatures), len(restFeatures))
	}
	beyond := func(r Run, array bool) (lut, ff float64) {
		lut, ff = float64(r.Used.LUTs()), float64(r.Used.FF)
		for _, a := range []bool{true, false} {
			x, y := known(family, r.Design, a)
			if a || !array {
				lut, ff = lut-x, ff-y
			}
		}
		if !array {
			lut, ff = lut-dot(l.Array.LUT, arrayFeatures, r.Design), ff-dot(l.Array.FF, arrayFeatures, r.Design)
		}
		return lut, ff
	}
	var err error
	if l.Array, err = fitPart(arrayFeatures, arrays, func(r Run) (float64, float64) { return beyond(r, true) }); err != nil {
		return l, err
	}
	l.Rest, err = fitPart(restFeatures, wholes, func(r Run) (float64, float64) { return beyond(r, false) })
	return l, err
}

func fitPart(features []feature, runs []Run, of func(Run) (lut, ff float64)) (p part, err error) {
	if p.LUT, err = leastSquares(features, runs, func(r Run) float64 { v, _ := of(r); return v }); err != nil {
		return p, err
	}
	p.FF, err = leastSquares(features, runs, func(r Run) float64 { _, v := of(r); return v })
	return p, err
}

func dot(x []float64, features []feature, d configs.Design) float64 {
	sum := 0.0
	for i, f := range features {
		sum += x[i] * f.of(d)
	}
	return sum
}

// leastSquares is that of relative errors, no feature costing less than nothing: the best of all sets of
// features whose solution has no negative.
func leastSquares(features []feature, runs []Run, of func(Run) float64) ([]float64, error) {
	var best []float64
	bestErr := math.Inf(1)
	for set := 1; set < 1<<len(features); set++ {
		var use []int
		for i := range features {
			if set&(1<<i) != 0 {
				use = append(use, i)
			}
		}
		a, b := mat.NewDense(len(runs), len(use), nil), mat.NewVecDense(len(runs), nil)
		for i, r := range runs {
			y := of(r)
			if y <= 0 {
				return nil, fmt.Errorf("%w: %s is smaller than its parts", ErrRuns, r.Config)
			}
			for k, j := range use {
				a.Set(i, k, features[j].of(r.Design)/y)
			}
			b.SetVec(i, 1)
		}
		if len(use) > len(runs) {
			continue
		}
		var x, rest mat.VecDense
		if err := x.SolveVec(a, b); err != nil {
			continue // these runs cannot tell these features apart
		}
		if mat.Min(&x) < 0 {
			continue
		}
		rest.MulVec(a, &x)
		rest.SubVec(&rest, b)
		if e := mat.Norm(&rest, 2); e < bestErr {
			bestErr = e
			best = make([]float64, len(features))
			for k, j := range use {
				best[j] = x.AtVec(k)
			}
		}
	}
	if best == nil {
		return nil, fmt.Errorf("%w: no feature explains them", ErrRuns)
	}
	return best, nil
}

// logic is the law.
func (l Law) logic(d configs.Design) (lut, ff Banded) {
	x, y := dot(l.Rest.LUT, restFeatures, d), dot(l.Rest.FF, restFeatures, d)
	if !d.Stub {
		x += dot(l.Array.LUT, arrayFeatures, d)
		y += dot(l.Array.FF, arrayFeatures, d)
	}
	for _, a := range []bool{true, false} {
		lut, ff := known(l.Family, d, a)
		x, y = x+lut, y+ff
	}
	return Banded{int(math.Round(x)), l.LUTBand}, Banded{int(math.Round(y)), l.FFBand}
}

// laws are fitted once, on the stored runs.
var laws = sync.OnceValue(func() map[string]Law {
	out := map[string]Law{}
	for _, family := range []string{boards.Series7, boards.UltraScalePlus} {
		out[family], _ = Calibration(family, "") // what is wrong with the runs, it says to who asks
	}
	return out
})

func calibrated(family string) Law { return laws()[family] }

// Calibration is the law of a family, and what is wrong with the runs it was fitted on: too few, or
// not of the RTL at root (which may be empty: not looked at).
func Calibration(family, root string) (Law, error) {
	runs, err := Stored()
	if err != nil {
		return uncalibrated(family), err
	}
	want := Sources{}
	for _, top := range []string{topWhole, topArray} {
		if root == "" {
			break
		}
		hash, err := SourcesIn(root, top)
		if err != nil {
			return uncalibrated(family), err
		}
		want[top] = Source{Tool, hash}
	}
	return Fit(family, runs, want)
}

// Tool is the yosys that the flow is written for.
const Tool = "Yosys 0.23 (git sha1 7ce5011c24b)"
