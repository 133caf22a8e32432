// Package params contains the parameters of GPUs, one file per GPU. Every value has a source: a publication; "measured"
// (on that GPU, in a stated way); "assumed"; or "fitted". Fitted values are derived from a published result, so a match
// with this result proves nothing. A value published for one GPU counts as assumed for other GPUs. Assumed values were
// chosen before any comparison with a publication, and never changed. The comparisons report which results do not
// change when an assumed value is halved or doubled.
package params

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/sluice-npu/sluice/dse/plaintext"
	"github.com/sluice-npu/sluice/host/gpu/catalogue"
	"github.com/sluice-npu/sluice/host/gpu/kernel"
	"github.com/sluice-npu/sluice/host/gpu/sim"
	"github.com/sluice-npu/sluice/host/names"
	"go.yaml.in/yaml/v3"
)

// ErrFile is wrapped by errors about a parameter file.
var ErrFile = errors.New("GPU parameter file")

//go:embed *.yaml
var files embed.FS

// Value is a number with its source.
type Value struct {
	Value  float64 `yaml:"value"`
	Source string  `yaml:"source"`
}

// Assumed reports whether the value is neither published nor measured.
func (v Value) Assumed() bool { return strings.HasPrefix(v.Source, "assumed") }

// File describes a GPU.
type File struct {
	Name   string           `yaml:"name"`
	Values map[string]Value `yaml:"values"`
	// Rule is the catalogue's rule that makes programs for this GPU.
	Rule catalogue.Rule `yaml:"-"`
}

// keys contains all keys of a file, with the smallest and largest allowed value of each.
var keys = map[string]struct{ least, most float64 }{
	"sms": {1, sim.MaxUnits}, "sms_per_unit": {1, 16}, "clock_ghz": {0.1, 10}, "lanes_per_sm": {1, 1024},
	"threads_per_sm": {32, 8192}, "blocks_per_sm": {1, 128}, "registers_per_sm": {1024, 1 << 20},
	"register_unit": {1, 4096}, "shared_bytes_per_sm": {0, 1 << 24}, "dram_bytes_per_ns": {1, 1e5},
	"link_up_bytes_per_ns": {0.1, 1e4}, "link_down_bytes_per_ns": {0.1, 1e4}, "link_setup_ns": {0, 1e9},
	"launch_ns": {0, 1e9}, "transfer_ns": {0, 1e9}, "wake_ns": {0, 1e9}, "dispatch_ns": {0, 1e9}, "sync_ns": {0, 1e9},
	"device_queue": {1, 1 << 20}, "hardware_queues": {1, 1024}, "reset_host_ns": {0, 1e9}, "reclaim_ns": {0, 1e9}, "evict_ns": {0, 1e9},
	"evict_each_ns": {0, 1e9}, "kill_ns": {0, 1e9}, "restart_ns": {0, 1e9}, "pad_share": {0, 0.99},
}

// whole reports whether a key's value must be a whole number.
func whole(key string) bool {
	return !strings.HasSuffix(key, "_ns") && !strings.HasSuffix(key, "_ghz") && key != "pad_share"
}

// Names lists the names of the GPUs.
func Names() (names []string) {
	entries, _ := files.ReadDir(".")
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".yaml"))
	}
	return names
}

// IsFile reports whether a name is a file name, which ends in .yaml or .yml.
func IsFile(name string) bool {
	return strings.HasSuffix(name, ".yaml") || strings.HasSuffix(name, ".yml")
}

// Of loads the parameters of a GPU, by name or from a file.
func Of(name string) (*File, error) {
	if IsFile(name) {
		raw, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrFile, err)
		}
		return Read(name, raw)
	}
	raw, err := files.ReadFile(name + ".yaml")
	if err != nil {
		return nil, fmt.Errorf("%w: no GPU %q; there are %s, or a file of parameters, NAME.yaml", ErrFile, name, strings.Join(Names(), ", "))
	}
	return Read(name+".yaml", raw)
}

// Is reports whether gpu, a GPU's name from the driver, refers to this GPU: whether it contains the words of f.Name.
func (f *File) Is(gpu string) bool {
	return strings.Contains(" "+strings.Join(strings.Fields(strings.ToUpper(gpu)), " ")+" ", " "+strings.ToUpper(f.Name)+" ")
}

// Find returns the file of the GPU with this name from the driver, or nil if there is no such file.
func Find(gpu string) (*File, error) {
	for _, name := range Names() {
		if f, err := Of(name); err != nil || f.Is(gpu) {
			return f, err
		}
	}
	return nil, nil
}

// Read reads a parameter file. In errors, from is the file's name.
func Read(from string, raw []byte) (*File, error) {
	fail := func(format string, a ...any) (*File, error) {
		return nil, fmt.Errorf("%w %s: %s", ErrFile, from, fmt.Sprintf(format, a...))
	}
	if len(raw) > 1<<20 {
		return fail("%d bytes, 1 MiB at most are expected", len(raw))
	}
	raw, err := plaintext.YAML(raw)
	if err != nil {
		return nil, fmt.Errorf("%w %s: %w", ErrFile, from, err)
	}
	f := &File{Rule: catalogue.DefaultRule()}
	d := yaml.NewDecoder(bytes.NewReader(raw))
	d.KnownFields(true)
	if err := d.Decode(f); err != nil {
		return fail("%v", err)
	}
	if f.Name == "" || !names.Printable(f.Name) {
		return fail("a name of %.80q, expected one of characters that can be printed", f.Name)
	}
	var wrong []string
	for k, b := range keys {
		v, ok := f.Values[k]
		switch {
		case !ok:
			wrong = append(wrong, k+" is missing")
		case v.Source == "":
			wrong = append(wrong, k+" has no source")
		case whole(k) && v.Value != math.Trunc(v.Value):
			wrong = append(wrong, fmt.Sprintf("%s is %v, a whole number is expected", k, v.Value))
		case math.IsNaN(v.Value) || v.Value < b.least || v.Value > b.most:
			wrong = append(wrong, fmt.Sprintf("%s is %v, %v to %v are expected", k, v.Value, b.least, b.most))
		}
	}
	for k := range f.Values {
		if _, ok := keys[k]; !ok {
			wrong = append(wrong, "nothing is called "+k)
		}
	}
	if wrong != nil {
		slices.Sort(wrong)
		return fail("%s", strings.Join(wrong, "; "))
	}
	return f, nil
}

// Write writes the file in Read's format.
func (f *File) Write(w io.Writer) error {
	e := yaml.NewEncoder(w)
	if err := e.Encode(f); err != nil {
		return fmt.Errorf("write %s: %w", f.Name, err)
	}
	return e.Close()
}

// Assumed lists the keys of values that were neither published nor measured.
func (f *File) Assumed() (out []string) {
	for k, v := range f.Values {
		if v.Assumed() {
			out = append(out, k)
		}
	}
	slices.Sort(out)
	return out
}

// programs is the prefix of the catalogue's parameter keys.
const programs = "programs/"

// Uncertain lists the keys of assumed values of both the GPU and the catalogue.
func (f *File) Uncertain() []string {
	out := f.Assumed()
	for _, k := range f.Rule.Keys() {
		out = append(out, programs+k)
	}
	return out
}

// Keys lists all parameters, including those of the catalogue's rule.
func (f *File) Keys() []string {
	out := slices.Sorted(maps.Keys(f.Values))
	for _, k := range f.Rule.Keys() {
		out = append(out, programs+k)
	}
	return out
}

// Has reports whether there is a parameter with the key.
func (f *File) Has(key string) bool { return slices.Contains(f.Keys(), key) }

// With returns the file with one value multiplied by factor.
func (f *File) With(key string, factor float64) *File {
	g := &File{Name: f.Name, Values: map[string]Value{}, Rule: f.Rule}
	if k, ok := strings.CutPrefix(key, programs); ok {
		g.Rule = f.Rule.With(k, factor)
	}
	for k, v := range f.Values {
		if k == key {
			v.Value *= factor
			if b := keys[k]; k != "pad_share" {
				v.Value = math.Max(b.least, math.Min(b.most, v.Value))
			}
		}
		g.Values[k] = v
	}
	return g
}

// Params returns the parameters of the simulated GPU.
func (f *File) Params() sim.Params {
	v := func(k string) float64 { return f.Values[k].Value }
	n := func(k string) int { return int(math.Round(v(k))) }
	ns := func(k string) int64 { return int64(math.Round(v(k))) }
	return sim.Params{
		SMs: n("sms"), Unit: n("sms_per_unit"),
		SM: kernel.Occupancy{
			Threads: n("threads_per_sm"), Blocks: n("blocks_per_sm"), Regs: n("registers_per_sm"),
			Shared: n("shared_bytes_per_sm"), RegUnit: n("register_unit"),
		},
		Bandwidth: v("dram_bytes_per_ns"), Up: v("link_up_bytes_per_ns"), Down: v("link_down_bytes_per_ns"), LinkNs: ns("link_setup_ns"),
		LaunchNs: ns("launch_ns"), TransferNs: ns("transfer_ns"), WakeNs: ns("wake_ns"), DispatchNs: ns("dispatch_ns"), Queue: n("device_queue"), Hardware: n("hardware_queues"),
		ResetNs: ns("reset_host_ns"), ReclaimNs: ns("reclaim_ns"), EvictNs: ns("evict_ns"), EvictEach: ns("evict_each_ns"),
		KillNs: ns("kill_ns"), RestartNs: ns("restart_ns"), PadShare: v("pad_share"),
	}
}

// SyncNs returns the time from the end of a segment until the host has its result, in ns.
func (f *File) SyncNs() int64 { return int64(math.Round(f.Values["sync_ns"].Value)) }

// Machine returns the parameters that the catalogue's rule needs.
func (f *File) Machine() catalogue.Machine {
	v := func(k string) float64 { return f.Values[k].Value }
	return catalogue.Machine{MACs: v("lanes_per_sm") * v("clock_ghz"), Bandwidth: v("dram_bytes_per_ns"), SMs: int(math.Round(v("sms"))), Rule: f.Rule}
}
