package syn

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-npu/sluice/hw/configs"
)

func TestDevice(t *testing.T) {
	d, ok := DeviceOf("zc706")
	if !ok {
		t.Fatal("no zc706")
	}
	if err := d.Fits(Resources{DSP: 900, BRAM36: 544, BRAM18: 2, LUT: 200000, LUTRAM: 18600, FF: 437200}); err != nil {
		t.Error(err)
	}
	err := d.Fits(Resources{DSP: 901, BRAM36: 545, BRAM18: 1, URAM: 1, LUT: 218600, SRL: 1, FF: 437201})
	for _, want := range []string{"901 DSPs", "545.5 block RAMs", "1 URAMs", "218601 LUTs", "437201 flip-flops"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %v", want, err)
		}
	}
	if _, ok := DeviceOf(""); ok {
		t.Error("a device without a board")
	}
	c, err := configs.Load("zc706")
	if err != nil {
		t.Fatal(err)
	}
	r := Run{Design: c, Family: "xc7", Top: "pe_array", Resources: Resources{DSP: 896, LUT: 218601}, PackedDSP: 896}
	if err := r.Check(); err == nil || !strings.Contains(err.Error(), "the Z7045 has 218600") {
		t.Errorf("%v", err)
	}
	r.Family = "xcup" // a family other than the board's
	if err := r.Check(); err != nil {
		t.Error(err)
	}
	r.PackedDSP = 0
	if err := r.Check(); err == nil || !strings.Contains(err.Error(), "adders went to LUTs") {
		t.Errorf("an array of multipliers alone: %v", err)
	}
}

// A cell without a register is reported, unless it is a named exception.
func TestCheckRegisters(t *testing.T) {
	good := Register{Cell: "RAMB36E1", Register: "OUT", Have: 253, Of: 263, Without: map[string]int{"u_core.u_res.u_beats.rdata_o.A": 9, "u_fbcb.rdata_o.B": 1}}
	r := run(t, "zc706", "xc7", "npu_top", true, true, 0)
	const multiplier = `$flatten\u_core.\u_pool.$mul$hw/rtl/pool.sv:200[*]`
	const links = "u_core.u_array.gen_group[*].gen_lane[*].rest"
	r.Registers = []Register{{Cell: "DSP48E1", Register: "AREG", Have: 900, Of: 900}, good, {Cell: "DSP48E2", Register: "MREG", Have: 896, Of: 900, Without: map[string]int{multiplier: 4}}}
	if err := r.CheckRegisters(); err != nil {
		t.Error(err)
	}
	r.Registers = r.Registers[:2]
	for want, bad := range map[string]Register{
		"1 of 900 DSP48E1 lack AREG: u_core.gen_lane[*].rest": {Cell: "DSP48E1", Register: "AREG", Have: 899, Of: 900, Without: map[string]int{"u_core.gen_lane[*].rest": 1}},
		"4 of 900 DSP48E1 lack MREG: " + multiplier:           {Cell: "DSP48E1", Register: "MREG", Have: 896, Of: 900, Without: map[string]int{multiplier: 4}}, // yosys packs it there
		"2 of 4 RAMB18E1 lack OUT: u_ring.word_q.B":           {Cell: "RAMB18E1", Register: "OUT", Have: 2, Of: 4, Without: map[string]int{"u_ring.word_q.B": 2}},
		"3 of 4, but 0 are without":                           {Cell: "RAMB18E1", Register: "OUT", Have: 3, Of: 4},
		"640 of 896 DSP48E1 lack CREG: " + links:              {Cell: "DSP48E1", Register: "CREG", Have: 256, Of: 896, Without: map[string]int{links: 640}}, // chains linked over C
		"5 of 900 DSP48E2 lack PREG: " + multiplier:           {Cell: "DSP48E2", Register: "PREG", Have: 895, Of: 900, Without: map[string]int{multiplier: 5}},
	} {
		r.Registers[1] = bad
		if err := r.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, expected %q", err, want)
		}
		r.Top = "drain" // single modules are not checked
		if err := r.CheckRegisters(); err != nil {
			t.Error(err)
		}
		r.Top = "npu_top"
	}
}

func TestSources(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		f := filepath.Join(dir, name)
		if err := os.WriteFile(f, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return f
	}
	top := write("top.sv", "// not: other\nmodule top; /* other */ mid #(.N(my_pkg::N)) u (); endmodule\n")
	mid := write("mid.sv", "module mid; top_like x; endmodule\n")
	pkg := write("my_pkg.sv", "package my_pkg; endpackage\n")
	other := write("other.sv", "module other; top u (); endmodule\n")
	files := []string{other, top, mid, pkg}
	used, hash, err := Sources(files, "top")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{mid, pkg, top}, used); diff != "" {
		t.Error(diff)
	}
	same := func(want bool, what string) {
		t.Helper()
		_, h, err := Sources(files, "top")
		if err != nil || (h == hash) != want {
			t.Errorf("%s: same hash: %v, expected %v (%v)", what, h == hash, want, err)
		}
	}
	write("other.sv", "module other; endmodule\n")
	same(true, "a file that is not part of it")
	write("mid.sv", "// a comment\nmodule mid;  top_like\n x; endmodule\n")
	same(true, "comments and spacing")
	write("my_pkg.sv", "package my_pkg; localparam N = 1; endpackage\n")
	same(false, "a package")
	_, hash, err = Sources(files, "top")
	if err != nil {
		t.Fatal(err)
	}
	write("my_pkg.sv", "package my_pkg; localparam int M = 7; localparam N = 1; typedef struct packed {logic a; logic b;} t; endpackage\n")
	same(true, "what nobody asks a package for")
	write("my_pkg.sv", "package my_pkg; localparam M = 7; localparam N = M; endpackage\n")
	same(false, "what a parameter is made of")
	_, hash, err = Sources(files, "top")
	if err != nil {
		t.Fatal(err)
	}
	write("my_pkg.sv", "package my_pkg; localparam M = 8; localparam N = M; endpackage\n")
	same(false, "what a parameter is made of, changed")
	write("my_pkg.sv", "package my_pkg; localparam M = 7; localparam N = M; localparam L = 1; endpackage\n")
	same(true, "another beside it")
	write("my_pkg.sv", "package my_pkg; localparam M = 7; localparam N = M; function automatic int f(); f = 1; endfunction endpackage\n")
	same(false, "a package that is left whole")
	if _, _, err := Sources(files, "nosuch"); err == nil {
		t.Error("a module that does not exist")
	}
}

func run(t *testing.T, config, family, top string, stack, fluid bool, lut int) Run {
	t.Helper()
	d, err := configs.Load(config)
	if err != nil {
		t.Fatal(err)
	}
	d.Stack, d.Fluid = stack, fluid
	if !stack || !fluid {
		d.Name += "-variant"
	}
	return Run{
		Config: d.Name, Design: d, DesignHash: hex16(d.Hash()), Family: family, Top: top, Tool: "Yosys 0.23",
		Sources: strings.Repeat("0", 64), Resources: Resources{DSP: d.MACs(), LUT: lut}, PackedDSP: d.MACs(),
		Memories: []Memory{{Name: "m", Words: 512, Width: 9, In: InBRAM}},
	}
}

func hex16(v uint64) string {
	const digits = "0123456789abcdef"
	var b [16]byte
	for i := range b {
		b[15-i] = digits[v>>(4*i)&15]
	}
	return string(b[:])
}

func TestStore(t *testing.T) {
	dir := t.TempDir()
	want := run(t, "zc706", "xc7", "pe_array", true, true, 1000)
	path, err := Store(dir, want)
	if err != nil || filepath.Base(path) != "zc706-xc7-pe_array.json" {
		t.Fatal(path, err)
	}
	got, err := Results(dir)
	if err != nil || len(got) != 1 {
		t.Fatal(got, err)
	}
	want.Memories = nil
	if diff := cmp.Diff(want, got[0]); diff != "" {
		t.Error(diff)
	}
	if now, err := got[0].Current(filepath.Join("..", "..")); err != nil || now {
		t.Errorf("a hash of zeros is current: %v, %v", now, err)
	}
	got[0].Sources, err = SourcesIn(filepath.Join("..", ".."), "pe_array")
	if err != nil {
		t.Fatal(err)
	}
	if now, err := got[0].Current(filepath.Join("..", "..")); err != nil || !now {
		t.Errorf("the hash of the sources is not current: %v, %v", now, err)
	}
	for _, name := range []string{"zc706-first", "my-npu"} { // neither is a variant of the name before its hyphen
		other := got[0]
		other.Config, other.Design.Name = name, name
		if now, err := other.Current(filepath.Join("..", "..")); err != nil || now != (name == "my-npu") {
			t.Errorf("%s with another's design: current is %v, %v", name, now, err)
		}
	}
	for name, change := range map[string]func(*Run){
		"it is of":    func(r *Run) { r.Family = "xcup" },
		"design_hash": func(r *Run) { r.Design.TC = 126 },
		"tool":        func(r *Run) { r.Tool = "" },
		"895 DSPs":    func(r *Run) { r.Resources.DSP = 895 },
	} {
		r := want
		change(&r)
		if name == "it is of" {
			if _, err := Store(dir, r); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(filepath.Join(dir, "zc706-xcup-pe_array.json"), path); err != nil {
				t.Fatal(err)
			}
		} else if _, err := Store(dir, r); err != nil {
			t.Fatal(err)
		}
		if _, err := Results(dir); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%v, expected %q", err, name)
		}
	}
	if err := os.WriteFile(path, []byte(`{"config": "zc706", "more": 1}`), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Results(dir); err == nil || !strings.Contains(err.Error(), "more") {
		t.Errorf("an unknown key: %v", err)
	}
}

// Only listed files are synthesised, and a list with a missing file is rejected.
func TestListed(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "hw", "rtl")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("top.sv", "module top; endmodule\n")
	write("more.sv", "module more; endmodule\n")
	for _, tc := range []struct{ list, top, why string }{
		{"// packages first\n\nhw/rtl/top.sv\n", "top", ""},
		{"hw/rtl/top.sv\n", "more", "there is no module more"},
		{"hw/rtl/top.sv\nhw/rtl/none.sv\n", "top", "files.f:2: "},
		{"hw/rtl/top.sv\n+incdir+hw\n", "top", `files.f:2: "+incdir+hw": expected`},
	} {
		write("files.f", tc.list)
		if _, err := SourcesIn(root, tc.top); (err == nil) != (tc.why == "") || err != nil && !strings.Contains(err.Error(), tc.why) {
			t.Errorf("%q: %v, expected %q", tc.list, err, tc.why)
		}
	}
	if _, err := SourcesIn(t.TempDir(), "top"); err == nil {
		t.Error("a tree without a list has sources")
	}
}

func TestOverheads(t *testing.T) {
	runs := []Run{
		run(t, "zc706", "xc7", "pe_array", true, true, 3500),
		run(t, "zc706", "xc7", "pe_array", true, false, 3400),
		run(t, "zc706", "xc7", "pe_array", false, true, 2100),
		run(t, "zc706", "xc7", "pe_array", false, false, 2000),
		run(t, "zc706", "xcup", "pe_array", true, true, 9), // alone
	}
	want := []Overhead{{
		Config: "zc706", Family: "xc7", Top: "pe_array", Plain: 2000, Fluid: 2100, Stack: 3400, Both: 3500,
		FluidLUTs: 100, StackLUTs: 1400, FluidOfPlain: 0.05, StackOfPlain: 0.7,
		FluidOfPart: 100. / 218600, StackOfPart: 1400. / 218600,
	}}
	if diff := cmp.Diff(want, Overheads(runs)); diff != "" {
		t.Error(diff)
	}
	runs[2].Sources = "another"
	if list := Overheads(runs); len(list) != 1 || !list[0].Mixed {
		t.Errorf("four of two RTLs are told as one: %+v", list)
	}
}

// grouped is a number with its thousands apart.
func grouped(v float64) string {
	text := strconv.FormatFloat(v, 'f', -1, 64)
	for i := strings.IndexByte(text+".", '.') - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// rowOf is a result's row in README.md, of four of them (o) one row for all.
func rowOf(r Run, o *Overhead, now bool) string {
	age := ""
	if !now {
		age = ", older RTL"
	}
	d, known := DeviceOf(r.Design.Board)
	if o != nil {
		row := fmt.Sprintf("| `%s`, `%s`%s |", o.Config, o.Top, age)
		for _, n := range []int{o.Plain, o.Fluid, o.Stack, o.Both} {
			row += " " + grouped(float64(n)) + " |"
		}
		return fmt.Sprintf("%s %s: %.2f %% of the %s's | %s: %.2f %% of the %s's |", row,
			grouped(float64(o.FluidLUTs)), 100*o.FluidOfPart, d.Part, grouped(float64(o.StackLUTs)), 100*o.StackOfPart, d.Part)
	}
	row := fmt.Sprintf("| `%s`%s | `%s` | %s |", r.Config, age, r.Top, r.Family)
	u := r.Resources
	for _, c := range []struct {
		have float64
		most int
	}{{float64(u.DSP), d.DSP}, {u.BRAM(), d.BRAM}, {float64(u.URAM), d.URAM}, {float64(u.LUTs()), d.LUT}, {float64(r.LC), 0}, {float64(u.FF), d.FF}} {
		if c.have > 0 {
			row += " " + grouped(c.have)
		}
		if known && d.Family == r.Family && c.have > 0 && c.most > 0 {
			row += fmt.Sprintf(": %.3g %%", 100*c.have/float64(c.most))
		}
		row += " |"
	}
	return row
}

// Stored results are consistent, and README.md has a row of each, with its figures. A result of older RTL is not a
// failure if its row says so.
func TestStoredResults(t *testing.T) {
	runs, err := Results("results")
	if err != nil {
		t.Fatal(err)
	}
	if len(runs) == 0 {
		t.Fatal("there are no results: hw/syn/overheads.sh --store makes them")
	}
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(text), "\n")
	list := Overheads(runs)
	for _, r := range runs {
		now, err := r.Current(filepath.Join("..", ".."))
		if err != nil {
			t.Error(err)
		}
		var o *Overhead
		if i := slices.IndexFunc(variants, func(v string) bool { return strings.HasSuffix(r.Config, v) }); i >= 0 {
			of := strings.TrimSuffix(r.Config, variants[i])
			if i = slices.IndexFunc(list, func(o Overhead) bool { return o.Config == of && o.Family == r.Family && o.Top == r.Top && !o.Mixed }); i < 0 {
				t.Errorf("%s: the other three of %s are missing, or of other RTL", r.Name(), of)
				continue
			}
			o = &list[i]
		}
		if row := rowOf(r, o, now); !slices.Contains(lines, row) {
			t.Errorf("README.md has no row %s", row)
		}
	}
}
