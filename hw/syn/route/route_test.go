package route

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-npu/sluice/hw/syn"
)

// A path of 0.4 + 1.1 + 0.2 + 0.8 ns: a register, a net of three loads, a LUT, a net of one.
const report = `{"critical_paths": [
  {"from": "<async>", "to": "posedge clk_i", "path": [{"delay": 9, "type": "routing", "net": "rst_ni", "from": {"cell": "x"}, "to": {"cell": "y"}}]},
  {"from": "posedge clk_i", "to": "<async>", "path": [{"delay": 9, "type": "routing", "net": "a_q[1]", "from": {"cell": "x"}, "to": {"cell": "y"}}]},
  {"from": "posedge clk_i", "to": "posedge clk_i", "path": [
    {"delay": 0.4, "type": "clk-to-q", "from": {"cell": "a_ff"}, "to": {"cell": "a_ff"}},
    {"delay": 1.1, "type": "routing", "net": "a_q[1]", "from": {"cell": "a_ff"}, "to": {"cell": "l"}},
    {"delay": 0.2, "type": "logic", "from": {"cell": "l"}, "to": {"cell": "l"}},
    {"delay": 0.8, "type": "routing", "net": "packed", "from": {"cell": "l"}, "to": {"cell": "b_ff"}},
    {"delay": 0, "type": "setup", "from": {"cell": "b_ff"}, "to": {"cell": "b_ff"}}]}],
  "fmax": {"clk_i": {"achieved": 400, "constraint": 150}},
  "utilization": {"TRELLIS_COMB": {"used": 7}, "TRELLIS_FF": {"used": 2}}}`

const netlist = `{"modules": {"t": {"cells": {
  "a_ff": {"port_directions": {"DI": "input", "Q": "output"}, "connections": {"DI": [14], "Q": [11]}},
  "l": {"port_directions": {"A": "input", "B": "input", "Z": "output"}, "connections": {"A": [11], "B": [11], "Z": [12]}},
  "m": {"port_directions": {"A": "input", "B": "input", "Z": "output"}, "connections": {"A": [11], "B": ["1"], "Z": [13]}}},
  "netnames": {"a_q": {"bits": [10, 11]}, "z": {"bits": [12]}}}}}`

func TestRead(t *testing.T) {
	run, luts, ffs, err := Read([]byte(report), []byte(netlist), "t")
	want := Run{NS: 2.5, LogicNS: 0.6, RoutingNS: 1.9, Fanout: 3, From: "a_ff", To: "b_ff"}
	if err != nil || run != want || luts != 7 || ffs != 2 {
		t.Errorf("%+v, %d, %d, %v; expected %+v", run, luts, ffs, err, want)
	}
	for _, tc := range []struct{ report, netlist, module, why string }{
		{"", netlist, "t", "report"},
		{report, "", "t", "netlist"},
		{report, netlist, "u", "no module u"},
		{strings.Replace(report, `"fmax": {`, `"fmax": {"other": {"achieved": 1}, `, 1), netlist, "t", "2 clocks"},
		{strings.Replace(report, `"achieved": 400`, `"achieved": 300`, 1), netlist, "t", "the clock 3.333"},
		{strings.Replace(report, `"achieved": 400`, `"achieved": 0`, 1), netlist, "t", "the clock"},
		{strings.Replace(report, `"logic"`, `"hold"`, 1), netlist, "t", `of type "hold"`},
		{strings.ReplaceAll(report, "posedge", "negedge"), netlist, "t", "no path"},
	} {
		if _, _, _, err := Read([]byte(tc.report), []byte(tc.netlist), tc.module); !errors.Is(err, ErrRoute) || !strings.Contains(err.Error(), tc.why) {
			t.Errorf("expected %q, got %v", tc.why, err)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add(report, netlist)
	f.Fuzz(func(t *testing.T, report, netlist string) {
		if run, _, _, err := Read([]byte(report), []byte(netlist), "t"); err == nil && !(run.NS > 0) || err != nil && !errors.Is(err, ErrRoute) {
			t.Errorf("%+v, %v", run, err)
		}
	})
}

func result(module string, ns ...float64) *Result {
	r := &Result{Config: "c", Module: module, Yosys: "y", Nextpnr: "n", Sources: strings.Repeat("0", 64), LUTs: 1, FFs: 1}
	for i, v := range ns {
		r.Runs = append(r.Runs, Run{Seed: i + 1, NS: v, LogicNS: 1, RoutingNS: v - 1, Fanout: 2})
	}
	return r
}

// Gate compares the median relative to the core's: if both change together, it passes.
func TestGate(t *testing.T) {
	unit, core := result("u", 30, 12, 14), result("core", 7, 6, 9)
	if unit.NS() != 14 || core.NS() != 7 || Ratio(unit, core) != 2 {
		t.Errorf("%g, %g, %g", unit.NS(), core.NS(), Ratio(unit, core))
	}
	if least, most := unit.Spread(); least != 12 || most != 30 {
		t.Errorf("%g to %g", least, most)
	}
	if two := result("u", 5, 4); two.NS() != 4 {
		t.Errorf("%g of two", two.NS())
	}
	for _, tc := range []struct {
		unit, core float64
		bad        bool
	}{{14, 7, false}, {16, 7, false}, {16.2, 7, true}, {28, 14, false}, {14, 6, true}, {5, 7, false}} {
		if err := Gate(unit, core, result("u", tc.unit), result("core", tc.core)); (err != nil) != tc.bad {
			t.Errorf("%g by %g, stored 14 by 7: %v", tc.unit, tc.core, err)
		}
	}
}

func TestLoad(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	if err := Store(dir, result("u", 3, 4)); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "c-u.json")
	r, err := Load(path)
	if err != nil || r.NS() != 3 || r.Label != Label || r.Device != Device {
		t.Fatalf("%+v, %v", r, err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []struct{ from, to string }{
		{`"schema": 1`, `"schema": 2`},
		{Label, "measured"},
		{Device, "another"},
		{`"yosys": "y"`, `"yosys": ""`},
		{`"sources": "0`, `"sources": "`},
		{`"module": "u"`, `"module": "v"`},
		{`"ns": 3`, `"ns": -3`},
		{`"seed": 2`, `"seed": 1`},
		{`"fanout": 2`, `"fanout": 0`},
		{`"luts"`, `"cells"`},
	} {
		if err := os.WriteFile(path, []byte(strings.Replace(string(text), bad.from, bad.to, 1)), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(path); !errors.Is(err, ErrRoute) {
			t.Errorf("%s for %s: %v", bad.to, bad.from, err)
		}
	}
	if err := os.WriteFile(path, append(text, text...), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(path); !errors.Is(err, ErrRoute) {
		t.Error(err)
	}
}

// The table in REFERENCE.md shows all stored results, and says which are not of today's RTL.
func TestReference(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "REFERENCE.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(string(text), "\n### Routed on another part\n")
	if !ok {
		t.Fatal("REFERENCE.md has no section of that name")
	}
	rows := map[string]string{}
	for line := range strings.SplitSeq(section, "\n") {
		if cells := strings.Split(line, " | "); len(cells) == 9 {
			module, _, _ := strings.Cut(strings.TrimPrefix(cells[0], "| "), ",")
			rows[module] = line
		}
	}
	delete(rows, "routed")
	files, err := filepath.Glob(filepath.Join("..", "results", "route", "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%v: nothing is stored", err)
	}
	core, err := Load(filepath.Join("..", "results", "route", Name("small", "picorv32_axi")))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		r, err := Load(f)
		if err != nil {
			t.Fatal(err)
		}
		p, ratio := r.Typical(), Ratio(r, core)
		spread := "one seed"
		if least, most := r.Spread(); len(r.Runs) > 1 {
			spread = fmt.Sprintf("%.2f to %.2f", least, most)
		}
		name := r.Module
		if name != core.Module {
			now, err := syn.SourcesIn(filepath.Join("..", "..", ".."), name)
			if err != nil {
				t.Fatal(err)
			}
			if now != r.Sources {
				name += ", older RTL"
			}
		}
		want := fmt.Sprintf("| %s | %d | %.2f | %s | %.0f %% | %d | %.2f | %.2f | %.2f |", name, r.LUTs, p.NS, spread, 100*p.RoutingNS/p.NS, p.Fanout, ratio, ratio*2.4, ratio*1.4)
		if got := rows[r.Module]; got != want {
			t.Errorf("REFERENCE.md has\n%s\nfor\n%s", got, want)
		}
		delete(rows, r.Module)
	}
	for m := range rows {
		if !strings.HasPrefix(m, "|-") {
			t.Errorf("%s is in the table, and nothing of it is stored", m)
		}
	}
}
