package syn

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sluice-npu/sluice/hw/configs"
)

// Name returns the name of a run's result file, without its ending, and of its folder in build/syn.
func (r Run) Name() string {
	if r.Top == "npu_top" {
		return r.Config + "-" + r.Family
	}
	return r.Config + "-" + r.Family + "-" + r.Top
}

// Store writes a run to a folder of results, without its memories, and returns the path.
func Store(dir string, r Run) (string, error) {
	r.Memories = nil
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return "", fmt.Errorf("store a result: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("store a result: %w", err)
	}
	path := filepath.Join(dir, r.Name()+".json")
	if err := os.WriteFile(path, append(text, '\n'), 0o644); err != nil {
		return "", fmt.Errorf("store a result: %w", err)
	}
	return path, nil
}

// LoadRun reads a summary or a result. Unknown keys are errors.
func LoadRun(path string) (Run, error) {
	f, err := os.Open(path)
	if err != nil {
		return Run{}, fmt.Errorf("load a run: %w", err)
	}
	defer f.Close()
	dec := json.NewDecoder(f)
	dec.DisallowUnknownFields()
	var r Run
	if err := dec.Decode(&r); err != nil {
		return Run{}, fmt.Errorf("load a run: %s: %w", path, err)
	}
	return r, nil
}

// Results reads all results of a folder, sorted by name. Inconsistent and invalid results are errors, outdated results
// are not.
func Results(dir string) ([]Run, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return nil, fmt.Errorf("read results: %w", err)
	}
	var runs []Run
	var errs []error
	for _, f := range files {
		r, err := LoadRun(f)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if r.Name() != strings.TrimSuffix(filepath.Base(f), ".json") {
			err = fmt.Errorf("it is of %s", r.Name())
		} else if want := fmt.Sprintf("%016x", r.Design.Hash()); r.DesignHash != want {
			err = fmt.Errorf("design_hash: expected %s, found %s", want, r.DesignHash)
		} else if r.Design.Name != r.Config || r.Tool == "" || len(r.Sources) != 64 {
			err = errors.New("name of the design, tool or hash of the sources is missing")
		} else {
			err = r.Check()
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", f, err))
		}
		runs = append(runs, r)
	}
	slices.SortFunc(runs, func(a, b Run) int { return cmp.Compare(a.Name(), b.Name()) })
	return runs, errors.Join(errs...)
}

// variants lists the name suffixes of the builds in overheads.sh: without sample groups, without Stackable PEs, and
// without both.
var variants = []string{"-nofluid", "-nostack", "-plain"}

// Current reports whether a result comes from the RTL and the configuration at root. A configuration that does not exist
// at root is a user's configuration. It counts as current, so that only the RTL is compared.
func (r Run) Current(root string) (bool, error) {
	of := SourcesIn
	if r.Design.Int8() {
		of = SourcesInt8
	}
	hash, err := of(root, r.Top)
	if err != nil {
		return false, err
	}
	d := r.Design
	base := r.Config
	for _, v := range variants {
		base = strings.TrimSuffix(base, v)
	}
	file := filepath.Join(root, "hw", "configs", "int8", base+".yaml")
	if _, none := os.Stat(file); none == nil {
		base = file
	}
	if base == file || slices.Contains(configs.Names(), base) {
		if d, err = configs.Load(base); err != nil {
			return false, err
		}
		d.Stack, d.Fluid = r.Design.Stack, r.Design.Fluid
	}
	return hash == r.Sources && d.Hash() == r.Design.Hash(), nil
}

// Overhead is the cost of sample groups (fluid) and Stackable PEs (stack) in LUTs.
type Overhead struct {
	Config       string  `json:"config"`
	Family       string  `json:"family"`
	Top          string  `json:"top"`
	Plain        int     `json:"lut_plain"` // LUTs of the design without fluid and stack
	Fluid        int     `json:"lut_fluid"`
	Stack        int     `json:"lut_stack"`
	Both         int     `json:"lut_both"`
	FluidLUTs    int     `json:"fluid"` // LUTs that the full design needs for sample groups
	StackLUTs    int     `json:"stack"`
	FluidOfPlain float64 `json:"fluid_of_plain"` // fluid and stack as shares of lut_plain
	StackOfPlain float64 `json:"stack_of_plain"`
	FluidOfPart  float64 `json:"fluid_of_part"` // fluid and stack as shares of the device's LUTs; 0 without a board
	StackOfPart  float64 `json:"stack_of_part"`
	Mixed        bool    `json:"mixed_rtl"` // the four runs have different RTL, so the mechanism is not the only difference
}

// Overheads returns the costs for all designs that were synthesised with and without Stackable PEs and sample groups.
func Overheads(runs []Run) []Overhead {
	type key struct {
		design      configs.Design
		family, top string
	}
	type four [2][2]*Run // indexed by stack, fluid
	groups := map[key]*four{}
	bit := map[bool]int{true: 1}
	var order []key
	for i := range runs {
		r := &runs[i]
		k := key{r.Design, r.Family, r.Top}
		k.design.Name, k.design.Reason, k.design.Stack, k.design.Fluid = "", "", false, false
		if groups[k] == nil {
			groups[k] = new(four)
			order = append(order, k)
		}
		groups[k][bit[r.Design.Stack]][bit[r.Design.Fluid]] = r
	}
	var list []Overhead
	for _, k := range order {
		g := groups[k]
		if g[0][0] == nil || g[0][1] == nil || g[1][0] == nil || g[1][1] == nil {
			continue
		}
		lut := func(stack, fluid int) int { return g[stack][fluid].Resources.LUTs() }
		o := Overhead{
			Config: g[1][1].Config, Family: k.family, Top: k.top,
			Plain: lut(0, 0), Fluid: lut(0, 1), Stack: lut(1, 0), Both: lut(1, 1),
		}
		o.FluidLUTs, o.StackLUTs = o.Both-o.Stack, o.Both-o.Fluid
		o.FluidOfPlain, o.StackOfPlain = float64(o.FluidLUTs)/float64(o.Plain), float64(o.StackLUTs)/float64(o.Plain)
		if d, ok := DeviceOf(k.design.Board); ok && d.Family == k.family {
			o.FluidOfPart, o.StackOfPart = float64(o.FluidLUTs)/float64(d.LUT), float64(o.StackLUTs)/float64(d.LUT)
		}
		for _, r := range []*Run{g[0][0], g[0][1], g[1][0]} {
			o.Mixed = o.Mixed || r.Sources != g[1][1].Sources
		}
		list = append(list, o)
	}
	return list
}
