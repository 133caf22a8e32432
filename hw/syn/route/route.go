// Package route reads the reports of an open place-and-route tool for a part of another vendor. It compares a module
// with a core that has a published clock on Xilinx parts. Unlike in hw/syn/timing, the nets are routed.
package route

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
)

// ErrRoute is wrapped by errors about reports, netlists and stored results.
var ErrRoute = errors.New("route")

// Label is the label of stored results.
const Label = "routed on ECP5, an estimate for Xilinx parts"

// Device is the part for out-of-context routing in hw/syn/route.sh.
const Device = "LFE5U-85F-8 CABGA756"

// Run is the longest register-to-register path of one placement.
type Run struct {
	Seed      int     `json:"seed"`
	NS        float64 `json:"ns"`
	LogicNS   float64 `json:"logic_ns"` // delay of the cells, including clock to output and setup
	RoutingNS float64 `json:"routing_ns"`
	Fanout    int     `json:"fanout"` // largest fan-out of a net in the path
	From      string  `json:"from"`
	To        string  `json:"to"`
}

// Result contains the runs of a module.
type Result struct {
	Schema  int    `json:"schema"`
	Label   string `json:"label"`
	Config  string `json:"config"`
	Module  string `json:"module"`
	Device  string `json:"device"`
	Yosys   string `json:"yosys"`
	Nextpnr string `json:"nextpnr"`
	Sources string `json:"sources"` // hash of the module's RTL, as in hw/syn
	LUTs    int    `json:"luts"`    // LUT4s, including carry chains and LUT RAMs
	FFs     int    `json:"ffs"`
	Runs    []Run  `json:"runs"` // one per seed
}

// NS returns the median of the runs in ns. If two runs are in the middle, it returns the smaller value.
func (r *Result) NS() float64 { return r.Typical().NS }

// Typical returns the median run.
func (r *Result) Typical() Run {
	runs := slices.SortedFunc(slices.Values(r.Runs), func(a, b Run) int { return cmp.Compare(a.NS, b.NS) })
	return runs[(len(runs)-1)/2]
}

// Spread returns the shortest and the longest of the runs.
func (r *Result) Spread() (least, most float64) {
	by := func(a, b Run) int { return cmp.Compare(a.NS, b.NS) }
	return slices.MinFunc(r.Runs, by).NS, slices.MaxFunc(r.Runs, by).NS
}

// Ratio returns a module's longest path divided by the core's longest path.
func Ratio(r, core *Result) float64 { return r.NS() / core.NS() }

// Slack is the allowed relative growth of a ratio. Two placements differ by about this share.
const Slack = 0.15

// Gate returns an error if a result's ratio to the core exceeds the stored ratio by more than Slack.
func Gate(stored, storedCore, now, nowCore *Result) error {
	was, is := Ratio(stored, storedCore), Ratio(now, nowCore)
	if is > was*(1+Slack) {
		return fmt.Errorf("%s/%s: %.2f times the core's path (%.2f ns, %s to %s), stored is %.2f", now.Config, now.Module, is, now.NS(), now.Typical().From, now.Typical().To, was)
	}
	return nil
}

// loads returns the fan-out of each net of yosys' netlist, by name. nextpnr keeps the names.
func loads(text []byte, module string) (map[string]int, error) {
	type port struct {
		Bits []json.RawMessage `json:"bits"`
	}
	var doc struct {
		Modules map[string]struct {
			Cells map[string]struct {
				Directions map[string]string            `json:"port_directions"`
				Conns      map[string][]json.RawMessage `json:"connections"`
			} `json:"cells"`
			Nets map[string]struct {
				port
				Offset int `json:"offset"`
			} `json:"netnames"`
		} `json:"modules"`
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		return nil, fmt.Errorf("%w: netlist: %w", ErrRoute, err)
	}
	m, ok := doc.Modules[module]
	if !ok {
		return nil, fmt.Errorf("%w: netlist: there is no module %s", ErrRoute, module)
	}
	behind := map[string]int{}
	for _, c := range m.Cells {
		for name, bits := range c.Conns {
			if c.Directions[name] == "input" {
				for _, b := range bits {
					behind[string(b)]++
				}
			}
		}
	}
	byName := map[string]int{}
	for name, n := range m.Nets {
		for i, b := range n.Bits {
			full := name
			if len(n.Bits) > 1 {
				full = fmt.Sprintf("%s[%d]", name, i+n.Offset)
			}
			byName[full] = behind[string(b)]
		}
	}
	return byName, nil
}

// Read reads nextpnr's report on the placement of a module, and the placed netlist.
func Read(report, netlist []byte, module string) (run Run, luts, ffs int, err error) {
	var doc struct {
		Paths []struct {
			From string `json:"from"`
			To   string `json:"to"`
			Path []struct {
				Delay float64 `json:"delay"`
				From  struct {
					Cell string `json:"cell"`
				} `json:"from"`
				To struct {
					Cell string `json:"cell"`
				} `json:"to"`
				Type string `json:"type"`
				Net  string `json:"net"`
			} `json:"path"`
		} `json:"critical_paths"`
		Fmax map[string]struct {
			Achieved float64 `json:"achieved"`
		} `json:"fmax"`
		Used map[string]struct {
			Used int `json:"used"`
		} `json:"utilization"`
	}
	if err := json.Unmarshal(report, &doc); err != nil {
		return run, 0, 0, fmt.Errorf("%w: report: %w", ErrRoute, err)
	}
	behind, err := loads(netlist, module)
	if err != nil {
		return run, 0, 0, err
	}
	if len(doc.Fmax) != 1 {
		return run, 0, 0, fmt.Errorf("%w: report: %d clocks, expected one", ErrRoute, len(doc.Fmax))
	}
	for clock, f := range doc.Fmax {
		for _, p := range doc.Paths {
			if p.From != "posedge "+clock || p.To != p.From || len(p.Path) == 0 {
				continue
			}
			run = Run{From: p.Path[0].From.Cell, To: p.Path[len(p.Path)-1].To.Cell}
			for _, s := range p.Path {
				switch s.Type {
				case "routing":
					run.RoutingNS += s.Delay
					run.Fanout = max(run.Fanout, behind[s.Net]) // nets inside a packed cell are not listed
				case "clk-to-q", "logic", "setup":
					run.LogicNS += s.Delay
				default:
					return run, 0, 0, fmt.Errorf("%w: report: a step of the path is of type %q", ErrRoute, s.Type)
				}
			}
			run.NS = round(run.LogicNS + run.RoutingNS)
			run.LogicNS, run.RoutingNS = round(run.LogicNS), round(run.RoutingNS)
			if want := 1000 / f.Achieved; !(run.NS > 0) || run.NS < want-0.01 || run.NS > want+0.01 {
				return run, 0, 0, fmt.Errorf("%w: report: the path has %.3f ns, the clock %.3f", ErrRoute, run.NS, want)
			}
			return run, doc.Used["TRELLIS_COMB"].Used, doc.Used["TRELLIS_FF"].Used, nil
		}
	}
	return run, 0, 0, fmt.Errorf("%w: report: no path from register to register", ErrRoute)
}

func round(ns float64) float64 { return math.Round(ns*1000) / 1000 }

// Name returns the file name of a result.
func Name(config, module string) string { return config + "-" + module + ".json" }

// Load reads a stored result. Unknown keys and impossible figures are errors.
func Load(path string) (*Result, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("route: %w", err)
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	var r Result
	if err := dec.Decode(&r); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrRoute, path, err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: %s: more follows", ErrRoute, path)
	}
	if r.Schema != 1 || r.Label != Label || r.Device != Device || len(r.Sources) != 64 || r.Yosys == "" || r.Nextpnr == "" ||
		len(r.Runs) == 0 || filepath.Base(path) != Name(r.Config, r.Module) {
		return nil, fmt.Errorf("%w: %s: schema, label, device, names, versions or a hash are not what they are to be", ErrRoute, path)
	}
	for i, run := range r.Runs {
		if !(run.NS > 0) || run.LogicNS < 0 || run.RoutingNS < 0 || run.Fanout < 1 || i > 0 && run.Seed <= r.Runs[i-1].Seed {
			return nil, fmt.Errorf("%w: %s: run %d: %+v", ErrRoute, path, i, run)
		}
	}
	return &r, nil
}

// Store writes a result to its folder.
func Store(dir string, r *Result) error {
	r.Schema, r.Label, r.Device = 1, Label, Device
	text, err := json.MarshalIndent(r, "", "  ")
	if err == nil {
		err = os.MkdirAll(dir, 0o755)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, Name(r.Config, r.Module)), append(text, '\n'), 0o644)
	}
	if err != nil {
		return fmt.Errorf("route: %w", err)
	}
	return nil
}
