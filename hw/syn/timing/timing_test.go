package timing

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-npu/sluice/boards"
	"github.com/sluice-npu/sluice/hw/configs"
	"github.com/sluice-npu/sluice/hw/syn"
)

// netlist writes a module t in yosys' JSON format. Each cell is given as fields: "type name port=net ...". A star before
// a port's name makes it an output.
func netlist(cells ...string) string {
	var b strings.Builder
	b.WriteString(`{"modules": {"t": {"ports": {"i": {"direction": "input", "bits": [2]}, "o": {"direction": "output", "bits": [3]}}, "cells": {`)
	for i, c := range cells {
		f := strings.Fields(c)
		if i > 0 {
			b.WriteString(",")
		}
		fmt.Fprintf(&b, `%q: {"type": %q, "parameters": {`, f[1], f[0])
		var conns, dirs, pars []string
		for _, p := range f[2:] {
			name, net, _ := strings.Cut(p, "=")
			if v, ok := strings.CutPrefix(name, "#"); ok {
				pars = append(pars, fmt.Sprintf(`%q: %q`, v, net))
				continue
			}
			dir := "input"
			if strings.HasPrefix(name, "*") {
				name, dir = name[1:], "output"
			}
			dirs = append(dirs, fmt.Sprintf(`%q: %q`, name, dir))
			conns = append(conns, fmt.Sprintf(`%q: [%s]`, name, net))
		}
		fmt.Fprintf(&b, `%s}, "port_directions": {%s}, "connections": {%s}}`, strings.Join(pars, ","), strings.Join(dirs, ","), strings.Join(conns, ","))
	}
	b.WriteString(`}, "netnames": {"a_q": {"hide_name": 0, "bits": [10], "attributes": {"src": "x/t.sv:7.3-7.9"}}, "b_q": {"hide_name": 0, "bits": [11], "attributes": {"src": "x/t.sv:9.3-9.9|/usr/share/yosys/ff.v:1.1"}}}}}}`)
	return b.String()
}

func read(t *testing.T, text string) *Netlist {
	t.Helper()
	n, err := Read(strings.NewReader(text), "t")
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Deepest holds the deepest path to each register, if it has more than MostLevels; the deepest comes first.
func TestDeepest(t *testing.T) {
	for _, levels := range []int{MostLevels, MostLevels + 1} {
		cells := []string{"FDRE a *Q=10 D=10 C=1", "FDRE b *Q=11 D=100 C=1"}
		for i := range levels {
			in := 100 + i + 1
			if i == levels-1 {
				in = 10
			}
			cells = append(cells, fmt.Sprintf("LUT1 l%d *O=%d I0=%d", i, 100+i, in))
		}
		a, err := read(t, netlist(cells...)).Analyse(Tables[0], 9, false)
		if err != nil {
			t.Fatal(err)
		}
		want := max(levels-MostLevels, 0)
		if len(a.Deepest) != want || want == 1 && (a.Deepest[0].Levels != levels || a.Deepest[0].To != "b_q") {
			t.Errorf("%d levels: %+v", levels, a.Deepest)
		}
	}
}

// The delays of these paths are added up by hand from the table.
func TestPaths(t *testing.T) {
	const a, b = "FDRE a *Q=10 D=20 C=1 CE=21 R=22", "FDRE b *Q=11 D=12 C=1"
	for _, tc := range []struct {
		name   string
		cells  []string
		ns     func(t *Table) float64
		levels int
		to     string
	}{
		{"two LUTs", []string{a, b, "LUT2 l *O=13 I0=10 I1=20", "LUT1 m *O=12 I0=13"}, func(t *Table) float64 {
			return t.FFOut + t.net(1) + t.LUT + t.net(1) + t.LUT + t.NetLocal + t.FFIn
		}, 2, "b_q"},
		{"an enable", []string{a, "FDRE b *Q=11 D=20 C=1 CE=12", "LUT2 l *O=12 I0=10 I1=20"}, func(t *Table) float64 {
			return t.FFOut + t.net(1) + t.LUT + t.net(1) + t.FFEnable
		}, 1, "b_q.CE"},
		{"a wide multiplexer takes no net", []string{a, b, "LUT2 l *O=13 I0=10 I1=20", "MUXF7 m *O=12 I0=13 I1=14 S=15"}, func(t *Table) float64 {
			return t.FFOut + t.net(1) + t.LUT + t.Mux + t.NetLocal + t.FFIn
		}, 2, "b_q"},
		{"a carry chain", []string{
			a, b, "LUT2 l *O=13 I0=10 I1=20", "CARRY4 c *CO=30,31,32,33 *O=34,35,36,37 S=13,21,22,23 DI=24,25,26,27",
			"CARRY4 e *CO=40,41,42,43 *O=44,45,46,12 CI=33 S=51,52,53,54",
		}, func(t *Table) float64 {
			return t.FFOut + t.net(1) + t.LUT + t.NetLocal + t.CarryIn + t.CarryOut + t.NetLocal + t.FFIn
		}, 1, "b_q"},
		{"a carry into a chain out of the fabric", []string{
			a, b, "LUT2 l *O=13 I0=10 I1=20", "CARRY4 c *CO=30,31,32,33 *O=34,35,36,37 CYINIT=13 S=20,21,22,23 DI=24,25,26,27",
			"CARRY4 e *CO=40,41,42,43 *O=44,45,46,12 CI=33 S=51,52,53,54",
		}, func(t *Table) float64 {
			return t.FFOut + t.net(1) + t.LUT + t.net(1) + t.CarryInit + t.CarryOut + t.NetLocal + t.FFIn
		}, 1, "b_q"},
		{"block RAM, its output in the latch", []string{"RAMB18E1 r *DOADO=10 CLKARDCLK=1 #DOA_REG=00000000000000000000000000000000", b, "LUT1 l *O=12 I0=10"}, func(t *Table) float64 {
			return t.RAMOut + t.net(1) + t.LUT + t.NetLocal + t.FFIn
		}, 1, "b_q"},
		{"block RAM, its output in the register", []string{"RAMB18E1 r *DOADO=10 CLKARDCLK=1 #DOA_REG=00000000000000000000000000000001", b, "LUT1 l *O=12 I0=10"}, func(t *Table) float64 {
			return t.RAMOutReg + t.net(1) + t.LUT + t.NetLocal + t.FFIn
		}, 1, "b_q"},
		{"into a DSP without its input registers", []string{a, "DSP48E1 d *P=11 A=10 CLK=1 #AREG=0 #MREG=1 #PREG=1"}, func(t *Table) float64 {
			return t.FFOut + t.net(1) + t.DSPToM
		}, 0, "DSP48E1(b_q).A"},
		{"into a DSP's input register", []string{a, "DSP48E1 d *P=11 A=10 CLK=1 #AREG=1 #MREG=1 #PREG=1"}, func(t *Table) float64 {
			return t.FFOut + t.net(1) + t.DSPIn
		}, 0, "DSP48E1(b_q).A"},
		{"LUT RAM, its address", []string{
			a, b, "LUT1 l *O=30 I0=10", "LUT1 m *O=31 I0=30", "LUT1 n *O=32 I0=31", "LUT1 o *O=33 I0=32", "LUT1 p *O=34 I0=33",
			"RAM32M r *DOA=12 ADDRA=34 ADDRB=50 WCLK=1",
		}, func(t *Table) float64 {
			return t.FFOut + 6*t.net(1) + 5*t.LUT + t.LUTRAM + t.NetLocal + t.FFIn
		}, 6, "b_q"},
	} {
		for _, table := range Tables {
			cells := strings.NewReplacer()
			if table.Family == "xcup" {
				cells = strings.NewReplacer("CARRY4", "CARRY8", "RAMB18E1", "RAMB18E2", "DSP48E1", "DSP48E2")
			}
			tc.to = cells.Replace(tc.to)
			r, err := read(t, cells.Replace(netlist(tc.cells...))).Analyse(table, 5, false)
			if err != nil {
				t.Errorf("%s: %v", tc.name, err)
				continue
			}
			if want := tc.ns(table); math.Abs(r.MaxNS-want) > 1e-9 || r.MaxLevels != tc.levels || r.Worst[0].Levels != tc.levels || r.Worst[0].To != tc.to {
				t.Errorf("%s, %s: %.4f ns, %d (%d) levels, to %s; expected %.4f, %d, %s", tc.name, table.Name, r.MaxNS, r.MaxLevels, r.Worst[0].Levels, r.Worst[0].To, want, tc.levels, tc.to)
			}
		}
	}
	// with ports, paths begin and end at registers outside the module
	r, err := read(t, netlist("LUT1 l *O=13 I0=2", "LUT1 m *O=3 I0=13")).Analyse(Tables[0], 5, true)
	if k := Tables[0]; err != nil || r.Worst[0].From != "port net 2" || r.Worst[0].To != "port o" || math.Abs(r.MaxNS-(k.FFOut+3*k.net(1)+2*k.LUT+k.FFIn)) > 1e-9 {
		t.Errorf("%+v, %v", r, err)
	}
	// start and end of a path in the RTL
	r, err = read(t, netlist(a, b, "LUT1 l *O=12 I0=10")).Analyse(Tables[0], 5, false)
	if err != nil || r.Worst[0].FromRTL != "t.sv:7" || r.Worst[0].ToRTL != "t.sv:9" || r.Worst[0].From != "a_q" {
		t.Errorf("%+v, %v", r, err)
	}
	if slow, deep := r.Count(r.MaxNS-0.01, 0); slow != 1 || deep != 1 {
		t.Errorf("%d slow, %d deep", slow, deep)
	}
}

// A net's delay grows with its loads, up to the table's longest.
func TestNet(t *testing.T) {
	for _, table := range Tables {
		last := 0.0
		for f := int32(1); f < 1<<20; f *= 2 {
			d := table.net(f)
			if d < last || d > table.NetMost || f <= 64 && d == last && f > 1 {
				t.Errorf("%s: fan-out %d: %.3f after %.3f", table.Name, f, d, last)
			}
			last = d
		}
		if last != table.NetMost {
			t.Errorf("%s: %.3f at most, expected %.3f", table.Name, last, table.NetMost)
		}
	}
}

func TestRefused(t *testing.T) {
	for _, tc := range []struct{ text, why string }{
		{``, "EOF"},
		{`{"modules": {}}`, "no module t"},
		{netlist("FROB a *Q=10 D=20"), "FROB"},
		{netlist("FDRE a *Q=10 D=20 C=1", "FDRE b *Q=10 D=20 C=1"), "two drivers"},
		{netlist("LUT1 a *O=2 I0=10"), "two drivers"},
		{strings.ReplaceAll(netlist("FDRE a *Q=10 D=20 C=1"), `"output"`, `"inout"`), "inout"},
		{netlist("FDRE a *Q=99999999999 D=20 C=1"), "neither a net nor a constant"},
		{netlist(`FDRE a *Q="q" D=20 C=1`), "neither a net nor a constant"},
	} {
		if _, err := Read(strings.NewReader(tc.text), "t"); !errors.Is(err, ErrNetlist) || !strings.Contains(err.Error(), tc.why) {
			t.Errorf("expected %q, got %v", tc.why, err)
		}
	}
	n := read(t, netlist("LUT1 a *O=10 I0=11", "LUT1 b *O=11 I0=10", "FDRE f *Q=12 D=10 C=1"))
	if _, err := n.Analyse(Tables[0], 1, true); !errors.Is(err, ErrNetlist) || !strings.Contains(err.Error(), "loop") {
		t.Error(err)
	}
	// cells of the other family
	for _, kind := range []string{"CARRY8", "RAMB18E1", "RAMB36E1", "RAMB18E2", "RAMB36E2", "DSP48E1", "DSP48E2", "URAM288", "MUXF9"} {
		n := read(t, netlist(kind+" odd *O=10", "FDRE f *Q=12 D=12 C=1"))
		refused := 0
		for _, table := range Tables {
			if _, err := n.Analyse(table, 1, false); err != nil {
				refused++
				if !errors.Is(err, ErrNetlist) || !strings.Contains(err.Error(), "cell odd") {
					t.Errorf("%s by %s: %v", kind, table.Name, err)
				}
			}
		}
		if want := len(ByFamily(kindOf(kind).family)); refused != len(Tables)-want {
			t.Errorf("%s: %d tables refuse it, expected those of the other family", kind, refused)
		}
	}
	if _, err := read(t, netlist("FDRE f *Q=12 D=\"1\" C=1")).Analyse(Tables[0], 1, false); !errors.Is(err, ErrNetlist) {
		t.Error(err)
	}
}

func FuzzRead(f *testing.F) {
	f.Add(netlist("LUT1 a *O=10 I0=11", "FDRE f *Q=11 D=10 C=1", "RAMB18E1 r *DOADO=20 ADDRARDADDR=10", "DSP48E1 d *P=21 A=10 #PREG=1"))
	f.Add(netlist("CARRY4 c *CO=30,31 *O=34,35 S=13,21 DI=24,25"))
	f.Fuzz(func(t *testing.T, text string) {
		n, err := Read(strings.NewReader(text), "t")
		if err != nil {
			if !errors.Is(err, ErrNetlist) {
				t.Error(err)
			}
			return
		}
		n.Unseen()
		for _, table := range Tables {
			if a, err := n.Analyse(table, 2, true); err == nil && (len(a.Worst) == 0 || math.IsNaN(a.MaxNS) || math.IsInf(a.MaxNS, 0)) {
				t.Errorf("%s: %+v", table.Name, a)
			}
		}
	})
}

func TestGate(t *testing.T) {
	stored := Row{Config: "c", Grade: "g", Module: "m", NS: 6, LimitNS: 6.67, Levels: 10}
	over := stored
	over.NS, over.Levels = 9, 20
	for _, tc := range []struct {
		name   string
		stored *Row
		ns     float64
		levels int
		bad    bool
	}{
		{"as stored", &stored, 6, 10, false},
		{"the mapper's choice", &stored, 6 * (1 + Slack), 11, false},
		{"longer", &stored, 6.3, 10, true},
		{"deeper than it may be", &stored, 6, 13, true},
		{"shorter", &stored, 3, 3, false},
		{"as deep as may be", &stored, 6, MostLevels, false},
		{"late, no worse than stored", &over, 9, 10, true},
		{"deep, no worse than stored", &over, 6, 20, true},
		{"new and within", nil, 6.4, 12, false},
		{"new and within the clock's uncertainty", nil, 6.5, 12, true},
		{"new and over", nil, 6.7, 12, true},
		{"new and deep", nil, 6.4, 13, true},
	} {
		now := stored
		now.NS, now.Levels = tc.ns, tc.levels
		if err := Gate(tc.stored, now); (err != nil) != tc.bad {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
	stored.Ends = 1000
	for _, tc := range []struct {
		ends int
		bad  bool
	}{{1000, false}, {900, false}, {899, true}, {5000, false}} {
		now := stored
		now.Ends = tc.ends
		if err := Gate(&stored, now); (err != nil) != tc.bad {
			t.Errorf("%d ends, stored are 1000: %v", tc.ends, err)
		}
	}
	for want, write := range map[string]func(*Summary, string) error{`"limit_ns": 6.67,\n      "gate_ns": 6.47,`: (*Summary).Report, `"limit_ns": 6.67,\n      "slow"`: (*Summary).Write} {
		path := filepath.Join(t.TempDir(), "summary.json")
		if err := write(&Summary{Rows: []Row{stored}}, path); err != nil {
			t.Fatal(err)
		}
		if text, err := os.ReadFile(path); err != nil || !strings.Contains(string(text), strings.ReplaceAll(want, `\n`, "\n")) {
			t.Errorf("expected %s: %s, %v", want, text, err)
		}
	}
	near := Row{Config: "c", Grade: "g", Module: "m", NS: 6.4, LimitNS: 6.67, Levels: 10}
	if now := near; true {
		now.NS = 6.5 // within Slack of the stored figure, but beyond the limit
		if Gate(&near, now) == nil {
			t.Error("a path that leaves the limit passes")
		}
	}
}

func TestLonger(t *testing.T) {
	for _, table := range Tables {
		l, far := table.Longer(2, 1), table.Longer(1, 2)
		for _, n := range []int32{1, 64, 200, 1 << 20} {
			if got, want := l.net(n), table.net(n)+table.net(min(n, 64)); math.Abs(got-want) > 1e-9 {
				t.Errorf("%s: %d loads %g, expected %g", table.Name, n, got, want)
			}
			if got, was := far.net(n), table.net(n); (n <= 64) != (got == was) || got < was {
				t.Errorf("%s: %d loads %g, with longer far ones %g", table.Name, n, was, got)
			}
		}
		if l.LUT != table.LUT || l.NetLocal != table.NetLocal || l.NetIn != 2*table.NetIn {
			t.Errorf("%s: %+v", table.Name, l)
		}
	}
}

// Stored results are readable, belong to existing units, meet the limits, and do not change when written again.
func TestStored(t *testing.T) {
	path := filepath.Join("..", "results", "timing", "figures.json")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	s, err := Load(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	have := map[string]bool{}
	for _, r := range s.Rows {
		have[r.Key()] = true
		if err := Gate(nil, r); err != nil || r.Slow != 0 || r.Deep != 0 {
			t.Errorf("%d ends are late and %d deep: %v", r.Slow, r.Deep, err)
		}
	}
	known := map[string]bool{}
	for _, config := range []string{"small", "zc706", "zcu104"} {
		d, err := configs.Load(config)
		if err != nil {
			t.Fatal(err)
		}
		family := boards.Series7 // a configuration without a board
		if d.Board != "" {
			b, err := boards.Load(d.Board)
			if err != nil {
				t.Fatal(err)
			}
			family = b.Family
		}
		for _, table := range ByFamily(family) {
			key := config + " " + table.Name + " npu_top"
			if known[key] = true; !have[key] {
				t.Errorf("%s is not stored", key)
			}
		}
	}
	for config, grades := range map[string][]string{"zc706": {"k7-2", "a7-1"}, "zcu104": {"usp-2"}} {
		d, err := configs.Load(config)
		if err != nil {
			t.Fatal(err)
		}
		b, err := boards.Load(d.Board)
		if err != nil {
			t.Fatal(err)
		}
		for _, u := range Units(b, d) {
			for _, g := range grades {
				key := config + " " + g + " " + u.Module
				if known[key] = true; !have[key] {
					t.Errorf("%s is not stored", key)
				}
			}
			if _, err := syn.SourcesIn("../../..", u.Module); err != nil {
				t.Error(err)
			}
		}
	}
	for key := range have {
		if !known[key] {
			t.Errorf("%s is stored, and nothing looks at it again", key)
		}
	}
	again := filepath.Join(t.TempDir(), "f.json")
	if err := s.Write(again); err != nil {
		t.Fatal(err)
	}
	if now, err := os.ReadFile(again); err != nil || !bytes.Equal(now, text) {
		t.Errorf("what is stored is written otherwise (%v)", err)
	}
	for _, bad := range []string{
		``, `{}`, `{"schema": 1, "label": "measured"}`, strings.Replace(string(text), `"ns": `, `"ns": -`, 1),
		strings.Replace(string(text), `"rtl"`, `"line"`, 1), strings.Replace(string(text), `"sources": "`, `"sources": "0`, 1),
	} {
		if _, err := Load(strings.NewReader(bad)); err == nil {
			t.Errorf("accepted: %.60q", bad)
		}
	}
}

// older reports whether the RTL or the model has changed since a row was computed.
func older(t *testing.T, r Row) bool {
	sources, err := syn.SourcesIn("../../..", r.Module)
	if err != nil {
		t.Fatal(err)
	}
	return r.Model != Model() || r.Sources != sources
}

// The table in REFERENCE.md shows all stored results, and marks those that older reports.
func TestReference(t *testing.T) {
	s, err := LoadFile(filepath.Join("..", "results", "timing", "figures.json"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join("..", "REFERENCE.md"))
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string][]string{}
	for line := range strings.SplitSeq(string(text), "\n") {
		if cells := strings.Split(line, " | "); len(cells) == 11 {
			module, _, _ := strings.Cut(strings.TrimPrefix(cells[0], "| "), ",")
			shown[module] = cells
		}
	}
	for module := range shown {
		if module != "unit" && !strings.HasPrefix(module, "|-") && s.Find("zc706 k7-2 "+module) == nil {
			t.Errorf("%s is in the table, and no figure of it is stored", module)
		}
	}
	stale := map[string]bool{} // by module
	for _, r := range s.Rows {
		if r.Module != "npu_top" {
			stale[r.Module] = stale[r.Module] || older(t, r)
		}
		var at []int // ns, levels, beyond, from and to
		switch {
		case r.Module == "npu_top":
			continue
		case r.Grade == "k7-2":
			at = []int{1, 3, 5, 6}
		case r.Grade == "usp-2":
			at = []int{7, 8, 9, 10}
		default:
			continue
		}
		cells := shown[r.Module]
		if cells == nil {
			t.Errorf("%s is not in the table", r.Key())
			continue
		}
		want := []string{fmt.Sprintf("%.2f", r.NS), fmt.Sprint(r.Levels), fmt.Sprintf("%d of %d", r.Deep, r.Ends), r.From + ", " + r.To}
		for i, c := range at {
			if got := strings.TrimSuffix(cells[c], " |"); got != want[i] {
				t.Errorf("%s: the table says %s, stored are %s", r.Key(), got, want[i])
			}
		}
	}
	for module, is := range stale {
		if cells := shown[module]; cells != nil && strings.Contains(cells[0], "older RTL") != is {
			t.Errorf("REFERENCE.md says of older RTL what is not, or not what is: %s", module)
		}
	}
}

// The README's table of whole NPUs shows all stored results, and marks those that older reports.
func TestReadme(t *testing.T) {
	s, err := LoadFile(filepath.Join("..", "results", "timing", "figures.json"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join("..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	stored := 0
	for _, r := range s.Rows {
		if r.Module != "npu_top" {
			continue
		}
		stored++
		want := fmt.Sprintf("\n| `%s` | `%s` | %.2f | %.2f | %d | %d of %d | ", r.Config, r.Grade, r.Most(), math.Round(r.NS*100)/100, r.Levels, r.Deep, r.Ends)
		_, rest, found := strings.Cut(string(text), want)
		if rest, _, _ = strings.Cut(rest, "\n"); !found {
			t.Errorf("README.md does not have the row %q", strings.TrimSpace(want))
		} else if strings.Contains(rest, "older RTL") != older(t, r) {
			t.Errorf("README.md says of older RTL what is not, or not what is: %s", r.Key())
		}
	}
	_, table, _ := strings.Cut(string(text), "\n| whole | ")
	table, _, _ = strings.Cut(table, "\n\n")
	if shown := strings.Count(table, "\n| `"); shown != stored {
		t.Errorf("README.md has %d whole NPUs, stored are %d", shown, stored)
	}
}

// Concurrent stores lose no row.
func TestStoreTogether(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "f.json")
	const writers, each = 8, 5
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for i := range each {
				r := Row{Config: fmt.Sprint("c", w), Family: "f", Grade: "g", Module: fmt.Sprint("m", i), NS: 1, LimitNS: 2, Ends: 1, Sources: strings.Repeat("0", 64), Flow: strings.Repeat("1", 64), Model: Model()}
				if err := Store(path, r); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	s, err := LoadFile(path)
	if err != nil || len(s.Rows) != writers*each {
		t.Errorf("%d rows, %v; expected %d", len(s.Rows), err, writers*each)
	}
	left, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(left) != 1 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if err := os.WriteFile(path, []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := Store(path, s.Rows[0]); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("stored over what nobody can read: %v", err)
	}
}

// The instances in npu_core.sv and npu_top.sv have the names and values of the units' parameters; yosys evaluates the
// expressions.
func TestUnits(t *testing.T) {
	if _, err := exec.LookPath("yosys"); err != nil {
		t.Fatal("yosys is missing: install the package yosys")
	}
	rtl := filepath.Join("..", "..", "rtl")
	file := func(name string) string {
		text, err := os.ReadFile(filepath.Join(rtl, name))
		if err != nil {
			t.Fatal(err)
		}
		return regexp.MustCompile(`//[^\n]*`).ReplaceAllString(string(text), "")
	}
	core, top := file("npu_core.sv"), file("npu_top.sv")
	header, body, _ := strings.Cut(core, "\n);\n")
	parameter := regexp.MustCompile(`parameter (?:int unsigned|bit|logic \[63:0\]) +(\w+) *= *([^,\n]+?) *(?:,|\n|$)`)
	local := regexp.MustCompile(`localparam int unsigned \w+ *= *[^;]*;`)
	for _, config := range []string{"zc706", "zcu104"} {
		d, err := configs.Load(config)
		if err != nil {
			t.Fatal(err)
		}
		b, err := boards.Load(d.Board)
		if err != nil {
			t.Fatal(err)
		}
		own := map[string]string{} // parameters of the configuration
		for _, p := range d.VerilatorParams() {
			name, value, _ := strings.Cut(strings.TrimPrefix(p, "-G"), "=")
			own[name] = value
		}
		if b.Family == boards.UltraScalePlus {
			own["DSP48E2"] = "1" // set by synth.sh
		}
		whole := maps.Clone(own)
		for _, s := range Top(b, d) {
			name, value, _ := strings.Cut(s, "=")
			whole[name] = value
		}
		// the outputs of this module, which has npu_core's parameters, are the instances' parameters and the values of Units
		var sv strings.Builder
		sv.WriteString("module t (output logic done);\n")
		for _, p := range slices.Concat(parameter.FindAllStringSubmatch(header, -1), parameter.FindAllStringSubmatch(top, -1)) {
			if strings.Contains(sv.String(), "localparam longint "+p[1]+" ") {
				continue
			}
			fmt.Fprintf(&sv, "localparam longint %s = %s;\n", p[1], cmp.Or(whole[p[1]], p[2]))
		}
		for _, l := range local.FindAllString(body, -1) {
			sv.WriteString(l + "\n")
		}
		type pair struct{ unit, name string }
		var pairs []pair
		for _, u := range Units(b, d) {
			set := map[string]string{}
			for _, s := range u.Set {
				name, value, _ := strings.Cut(s, "=")
				set[name] = value
			}
			instance := regexp.MustCompile(`(?s)\n  ` + u.Module + ` (?:#\((.*?)\) )?u_\w+ \(`)
			m := instance.FindStringSubmatch(core)
			if m == nil {
				m = instance.FindStringSubmatch(top)
			}
			if m == nil {
				t.Fatalf("%s has no instance", u.Module)
			}
			defaults := map[string]string{}
			for _, p := range parameter.FindAllStringSubmatch(file(u.Module+".sv"), -1) {
				defaults[p[1]] = p[2]
			}
			for _, p := range regexp.MustCompile(`\.(\w+)\(((?:[^()]|\([^()]*\))*)\)`).FindAllStringSubmatch(m[1], -1) {
				is, ok := set[p[1]]
				delete(set, p[1])
				if !ok {
					if is = cmp.Or(own[p[1]], defaults[p[1]]); is == "" {
						t.Errorf("%s: %s is given, and neither Units nor the unit has a value", u.Module, p[1])
						continue
					}
				}
				fmt.Fprintf(&sv, "(* keep *) wire [63:0] v%d_is = %s, v%d_want = %s;\n", len(pairs), is, len(pairs), p[2])
				pairs = append(pairs, pair{u.Module, p[1]})
			}
			for name := range set {
				t.Errorf("%s: Units sets %s, which the instance is not given", u.Module, name)
			}
		}
		if len(pairs) < 60 {
			t.Errorf("%s: %d parameters found", config, len(pairs))
		}
		sv.WriteString("endmodule\n")
		path := filepath.Join(t.TempDir(), "t.sv")
		if err := os.WriteFile(path, []byte(sv.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		out := path + ".v"
		if said, err := exec.Command("yosys", "-q", "-p", fmt.Sprintf("read_verilog -sv %s/abi_pkg.sv %s; proc; opt_expr; write_verilog -noattr %s", rtl, path, out)).CombinedOutput(); err != nil {
			t.Fatalf("yosys: %v: %s", err, said)
		}
		text, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		values := map[string]string{}
		for _, m := range regexp.MustCompile(`assign (v\d+_\w+) = (64'h[0-9a-f]+);`).FindAllStringSubmatch(string(text), -1) {
			values[m[1]] = m[2]
		}
		for i, p := range pairs {
			is, want := values[fmt.Sprintf("v%d_is", i)], values[fmt.Sprintf("v%d_want", i)]
			if is == "" || is != want {
				t.Errorf("%s, %s: %s is %q, the instance has %q", config, p.unit, p.name, is, want)
			}
		}
	}
}
