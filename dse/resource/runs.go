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

// Scope of a run: the whole NPU, or the array alone.
const (
	topWhole = "npu_top"
	topArray = "pe_array"
)

// Run is a synthesis by hw/syn (summary.json), reduced to what the law uses.
type Run struct {
	Role    string         `json:"-"` // roleFit or roleHeld, from its folder
	name    string         // name of its file
	Config  string         `json:"config"`
	Design  configs.Design `json:"design"`
	Family  string         `json:"family"`
	Top     string         `json:"top"`
	Tool    string         `json:"tool"`
	Sources string         `json:"sources_sha256"`
	Used    Used           `json:"resources"`
	// Units of npu_core, without LUT memories, in a run of npu_top that is fitted on. Each has the hash of its own
	// RTL; a unit whose RTL has changed since is missing.
	Units map[string]Cells `json:"units,omitempty"`
}

// Cells is the numbers of cells of one unit in the netlist.
type Cells struct {
	LUT int `json:"lut"`
	SRL int `json:"srl"`
	FF  int `json:"ff"`
	// hash of the RTL of its module and those below
	Sources string `json:"sources_sha256,omitempty"`
}

// modules are npu_core's units as named in the netlist. All other cells belong to core.
var modules = map[string]string{
	"abuf": "act_buffer", "act": "act_loader", "array": "pe_array", "drain": "drain", "fbcb": "fbcb", "fetch": "layer_fetch",
	"depthwise": "depthwise", "gemm": "gemm_seq", "keep": "keep_writer", "out": "out_writer", "pool": "pool", "pseq": "pool_seq", "read": "read_ports",
	"regs": "npu_regs", "res": "res_loader", "runs": "run_gen", "wfeed": "weight_feed", "wfetch": "weight_fetch", "write": "write_ports",
	"core": coreModule,
}

// between lists logic of npu_core between its units, by its name in the netlist: the unit it is assigned to, because
// both grow with the same sizes, and its module.
var between = map[string]struct{ unit, module string }{
	"words": {"out", "spill"},
	"start": {"core", "npu_start"}, "output": {"core", "npu_output"}, "counters": {"core", "npu_counters"},
}

// UnitOf returns the unit that an instance in npu_core or npu_top is assigned to.
func UnitOf(instance string) (string, error) {
	if b, ok := between[instance]; ok {
		return b.unit, nil
	}
	if _, ok := modules[instance]; !ok {
		return "", fmt.Errorf("%w: there is an instance u_%s, which is in no unit that the law knows", ErrRuns, instance)
	}
	return instance, nil
}

// UnitSources returns the hash of a unit's RTL in the repository at root ("": the embedded RTL). For core it covers
// npu_core's own file and the logic assigned to it.
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

// sourcesOf returns the hash of a module's RTL, at root or embedded.
func sourcesOf(root, module string) (string, error) {
	if root == "" {
		return syn.Built(module)
	}
	return syn.SourcesIn(root, module)
}

const coreModule = "npu_core"

// Used is the numbers of cells by yosys.
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

// LUTs returns the number of LUTs of the device that are used.
func (u Used) LUTs() int { return u.LUT + u.LUTRAM + u.SRL }

// Roles of a stored run.
const (
	roleFit  = "fit"  // the law is fitted on it
	roleHeld = "held" // the law's error is measured on it
)

// Stored returns the package's runs, sorted by role and name.
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

// Source identifies what a run was made from.
type Source struct{ Tool, Sources string }

// Sources is the required source of each module.
type Sources map[string]Source

// Fresh returns an error for runs of different tools or different RTL of a module. The reference is want or, for a
// module that it lacks, the first run. In a run that is fitted on by units, every unit is checked.
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
