package resource

import (
	"crypto/sha256"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sluice-npu/sluice/hw/configs"
	"github.com/sluice-npu/sluice/hw/syn"
)

// Errors about stored runs.
var (
	ErrStale = errors.New("the stored run is of other RTL or another tool")
	ErrRuns  = errors.New("the stored runs cannot be used")
)

//go:embed runs
var stored embed.FS

// Top modules of runs: the whole NPU, or the array alone.
const (
	topWhole = "npu_top"
	topArray = "pe_array"
)

// Run is the summary of a synthesis by hw/syn (summary.json), reduced to the values that the law uses.
type Run struct {
	Role    string         `json:"-"` // roleFit or roleHeld, by the folder of the run
	name    string         // name of the file
	Config  string         `json:"config"`
	Design  configs.Design `json:"design"`
	Family  string         `json:"family"`
	Top     string         `json:"top"`
	Tool    string         `json:"tool"`
	Sources string         `json:"sources_sha256"`
	Used    Used           `json:"resources"`
	// Units contains the number of cells of each unit of npu_core, without LUT memories. Units is set in runs of npu_top
	// whose Role is "fit". Each unit has the hash of its own RTL. A unit is missing if its RTL has changed since the run.
	Units map[string]Cells `json:"units,omitempty"`
}

// Cells contains the number of cells of one unit in the netlist, by type.
type Cells struct {
	LUT int `json:"lut"`
	SRL int `json:"srl"`
	FF  int `json:"ff"`
	// Sources is the hash of the RTL of the module and of the modules inside it.
	Sources string `json:"sources_sha256,omitempty"`
}

// modules contains, for each unit of npu_core by its name in the netlist, the name of its module. All other cells
// belong to the unit core.
var modules = map[string]string{
	"abuf": "act_buffer", "act": "act_loader", "array": "pe_array", "drain": "drain", "fbcb": "fbcb", "fetch": "layer_fetch",
	"depthwise": "depthwise", "gemm": "gemm_seq", "keep": "keep_writer", "out": "out_writer", "pool": "pool", "pseq": "pool_seq", "read": "read_ports",
	"regs": "npu_regs", "res": "res_loader", "runs": "run_gen", "wfeed": "weight_feed", "wfetch": "weight_fetch", "write": "write_ports",
	"core": coreModule,
}

// between lists the logic between the units of npu_core, by its name in the netlist. It contains the module of the
// logic, and the unit to which the logic is assigned because both grow with the same sizes.
var between = map[string]struct{ unit, module string }{
	"words": {"out", "spill"},
	"start": {"core", "npu_start"}, "output": {"core", "npu_output"}, "counters": {"core", "npu_counters"},
}

// UnitOf returns the unit to which an instance in npu_core or npu_top is assigned.
func UnitOf(instance string) (string, error) {
	if b, ok := between[instance]; ok {
		return b.unit, nil
	}
	if _, ok := modules[instance]; !ok {
		return "", fmt.Errorf("%w: there is an instance u_%s, which is in no unit that the law knows", ErrRuns, instance)
	}
	return instance, nil
}

// UnitSources returns the hash of the RTL of a unit in the repository at root ("": the embedded RTL). For the unit
// core, the hash includes the file of npu_core and the logic that is assigned to core.
func UnitSources(root, unit string) (string, error) {
	module := modules[unit]
	var hash string
	var err error
	switch {
	case root == "" && module == coreModule:
		hash, err = syn.BuiltAlone(module)
	case module == coreModule:
		_, hash, err = syn.Sources([]string{filepath.Join(root, "hw", "rtl", module+".sv")}, module)
	default:
		hash, err = sourcesOf(root, module)
	}
	for _, name := range slices.Sorted(maps.Keys(between)) {
		if b := between[name]; b.unit == unit && err == nil {
			var more string
			more, err = sourcesOf(root, b.module)
			hash = fmt.Sprintf("%x", sha256.Sum256([]byte(hash+more)))
		}
	}
	return hash, err
}

// sourcesOf returns the hash of the RTL of a module, at root or in the embedded RTL.
func sourcesOf(root, module string) (string, error) {
	if root == "" {
		return syn.Built(module)
	}
	return syn.SourcesIn(root, module)
}

const coreModule = "npu_core"

// Used contains the number of cells that yosys counted, by type.
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

// LUTs returns the number of LUTs on the device that the run uses.
func (u Used) LUTs() int { return u.LUT + u.LUTRAM + u.SRL }

// Roles of a stored run.
const (
	roleFit  = "fit"  // the law is fitted on the run
	roleHeld = "held" // the error of the law is measured on the run
)

// Stored returns the runs that are stored in the package, sorted by role and name.
func Stored() ([]Run, error) {
	var runs []Run
	for _, role := range []string{roleFit, roleHeld} {
		entries, err := stored.ReadDir("runs/" + role)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrRuns, err)
		}
		for _, e := range entries {
			text, err := stored.ReadFile("runs/" + role + "/" + e.Name())
			if err != nil {
				return nil, fmt.Errorf("%w: %w", ErrRuns, err)
			}
			r := Run{Role: role, name: strings.TrimSuffix(e.Name(), ".json")}
			if err := json.Unmarshal(text, &r); err != nil {
				return nil, fmt.Errorf("%w: runs/%s/%s: %w", ErrRuns, role, e.Name(), err)
			}
			if (r.Top != topWhole && !slices.ContainsFunc(parts, func(p part) bool { return p.alone == r.Top })) || r.Tool == "" || len(r.Sources) != sha256.Size*2 || r.Used.LUT < 1 || r.Used.FF < 1 {
				return nil, fmt.Errorf("%w: runs/%s/%s is of neither npu_top nor a part of it", ErrRuns, role, e.Name())
			}
			if err := r.Design.Validate(); err != nil {
				return nil, fmt.Errorf("%w: runs/%s/%s: %w", ErrRuns, role, e.Name(), err)
			}
			runs = append(runs, r)
		}
	}
	return runs, nil
}

// Source identifies the tool and the RTL of a run.
type Source struct{ Tool, Sources string }

// Sources contains the required source of each module.
type Sources map[string]Source

// Fresh returns an error if a run used another tool or other RTL of a module than want requires. For a module that is
// missing in want, the first run is the reference. For a run with units, the units are checked instead of the whole.
func Fresh(runs []Run, want Sources) error {
	var errs []error
	of := maps.Clone(want)
	if of == nil {
		of = Sources{}
	}
	check := func(r Run, module, sources string) {
		got := Source{r.Tool, sources}
		if _, ok := of[module]; !ok {
			of[module] = got
		}
		if w := of[module]; got != w {
			errs = append(errs, fmt.Errorf("%w: %s-%s-%s: %s is of %s and sources %.12s, expected %s and %.12s", ErrStale,
				r.Config, r.Family, r.Top, module, got.Tool, got.Sources, w.Tool, w.Sources))
		}
	}
	for _, r := range runs {
		if r.Role == roleFit && r.Units != nil {
			for name, u := range r.Units {
				check(r, modules[name], u.Sources)
			}
			continue
		}
		check(r, r.Top, r.Sources)
	}
	return errors.Join(errs...)
}
