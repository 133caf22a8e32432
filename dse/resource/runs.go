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

// What runs are of: everything, or the array alone.
const (
	topWhole = "npu_top"
	topArray = "pe_array"
)

// Run is a synthesis as hw/syn writes it (summary.json), as far as the law needs it.
type Run struct {
	Role    string         `json:"-"` // roleFit or roleHeld, by its folder
	name    string         // of its file
	Config  string         `json:"config"`
	Design  configs.Design `json:"design"`
	Family  string         `json:"family"`
	Top     string         `json:"top"`
	Tool    string         `json:"tool"`
	Sources string         `json:"sources_sha256"`
	Used    Used           `json:"resources"`
	// Of npu_top: by unit of npu_core, without memories in LUTs. Only those of a run that is fitted on
	// count, each by the hash of its own RTL; one whose RTL has changed since is not there.
	Units map[string]Cells `json:"units,omitempty"`
}

// Cells is what one unit has of a netlist.
type Cells struct {
	LUT int `json:"lut"`
	SRL int `json:"srl"`
	FF  int `json:"ff"`
	// over the RTL of its module and those below
	Sources string `json:"sources_sha256,omitempty"`
}

// modules are those of npu_core's units, as the netlist names them; what is in no unit counts with core.
var modules = map[string]string{
	"abuf": "act_buffer", "act": "act_loader", "array": "pe_array", "drain": "drain", "fbcb": "fbcb", "fetch": "layer_fetch",
	"gemm": "gemm_seq", "keep": "keep_writer", "out": "out_writer", "pool": "pool", "pseq": "pool_seq", "read": "read_ports",
	"regs": "npu_regs", "res": "res_loader", "runs": "run_gen", "wfeed": "weight_feed", "wfetch": "weight_fetch", "write": "write_ports",
	"core": coreModule,
}

// between is what npu_core has between its units, as the netlist names it: the unit it counts with, which grows
// with the same sizes, and its module.
var between = map[string]struct{ unit, module string }{
	"words": {"out", "spill"},
	"start": {"core", "npu_start"}, "output": {"core", "npu_output"}, "counters": {"core", "npu_counters"},
}

// UnitOf is the unit that an instance of npu_core or npu_top counts with.
func UnitOf(instance string) (string, error) {
	if b, ok := between[instance]; ok {
		return b.unit, nil
	}
	if _, ok := modules[instance]; !ok {
		return "", fmt.Errorf("%w: there is an instance u_%s, which is in no unit that the law knows", ErrRuns, instance)
	}
	return instance, nil
}

// UnitSources is the hash over the RTL in the repository at root that a unit is made of ("": the RTL that this program
// was built beside). What is left of npu_core is made of its own file alone, and of what counts with it.
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

// sourcesOf is the hash over the RTL that a module is made of, at root or built in.
func sourcesOf(root, module string) (string, error) {
	if root == "" {
		return syn.Built(module)
	}
	return syn.SourcesIn(root, module)
}

const coreModule = "npu_core"

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

// What a stored run is for.
const (
	roleFit  = "fit"  // the law is fitted on it
	roleHeld = "held" // the law is held to it, and has its bands from it
)

// Stored reads the runs that come with the package, sorted by role and name.
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

// Source is what a run was made of.
type Source struct{ Tool, Sources string }

// Sources says by module what runs must be of.
type Sources map[string]Source

// Fresh refuses runs that are not all of one tool and one RTL of their module: want's, or where it has
// none the first run's. Of a run that is fitted on by units, each unit counts.
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
