package ip_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sluice-npu/sluice/boards"
	"github.com/sluice-npu/sluice/hw/configs"
	"github.com/sluice-npu/sluice/hw/vivado/ip"
)

var update = flag.Bool("update", false, "write golden files")

const root = "../../.."

// tool runs a program; if it is missing, the test fails and names its package.
func tool(t *testing.T, pkg, name string, args ...string) (string, error) {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		t.Fatalf("%s is missing: install the package %s", name, pkg)
	}
	cmd := exec.Command(name, args...)
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func generate(t *testing.T, board, config string) (boards.Board, configs.Design, string) {
	t.Helper()
	b, err := boards.Load(board)
	if err != nil {
		t.Fatal(err)
	}
	d, err := configs.Load(config)
	if err != nil {
		t.Fatal(err)
	}
	files, err := ip.Generate(b, d)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return b, d, dir
}

// standIn runs a script with the recording stand-in and returns the recorded calls.
func standIn(t *testing.T, allowed, script string, env []string, args ...string) (record string, err error) {
	t.Helper()
	if _, err := exec.LookPath("tclsh"); err != nil {
		t.Fatal("tclsh is missing: install the package tcl")
	}
	out := filepath.Join(t.TempDir(), "record")
	cmd := exec.Command("tclsh", append([]string{filepath.Join(root, "hw/vivado/standin.tcl"), allowed, out, script}, args...)...)
	cmd.Env = append(os.Environ(), env...)
	said, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, said)
	}
	if len(said) > 0 {
		t.Errorf("said: %s", said)
	}
	text, err := os.ReadFile(out)
	return string(text), err
}

func abs(t *testing.T, path string) string {
	t.Helper()
	p, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

var (
	designHash = regexp.MustCompile(`[0-9a-f]{16}`)
	rtlFiles   = regexp.MustCompile(`\{((?:file:)?ROOT/hw/rtl/\w+\.sv ?)+`) // the list of files.f
)

// The calls of the packaging Tcl in order, as recorded by the stand-in; and the constraints.
func TestPackaging(t *testing.T) {
	allowed := abs(t, filepath.Join(root, "hw/vivado/allowed.txt"))
	for _, board := range boards.Names() {
		config := "tiny" // for a board without its own design, any that fits
		if _, err := configs.Load(board); err == nil {
			config = board
		}
		b, d, dir := generate(t, board, config)
		out := filepath.Join(t.TempDir(), "ip")
		env := []string{"SLUICE_STANDIN_MAP=" + strings.Join([]string{abs(t, root), "ROOT", out, "OUT", dir, "HERE"}, " ")}
		record, err := standIn(t, allowed, filepath.Join(dir, ip.TclFile), env, abs(t, root), out)
		if err != nil {
			t.Errorf("%s: %v", board, err)
			continue
		}
		xdc, err := standIn(t, allowed, filepath.Join(dir, ip.XDCFile), []string{"SLUICE_STANDIN_TOP=" + filepath.Join(dir, ip.TopFile(b, d))})
		if err != nil {
			t.Errorf("%s: %v", board, err)
		}
		record = designHash.ReplaceAllString(rtlFiles.ReplaceAllString(record, "{RTL "), "HASH")
		golden(t, board+".record", record+xdc)
		if _, err := standIn(t, allowed, filepath.Join(dir, ip.TclFile), env, abs(t, root), out); err == nil || !strings.Contains(err.Error(), "is there already") {
			t.Errorf("%s: packaged into a folder that is there: %v", board, err)
		}
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s is no longer what is recorded (go test -update):\n%s", path, got)
	}
}

// The stand-in rejects what its table does not list, with a specific message each.
func TestStandIn(t *testing.T) {
	allowed := abs(t, filepath.Join(root, "hw/vivado/allowed.txt"))
	b, d, dir := generate(t, "zcu104", "tiny")
	script, err := os.ReadFile(filepath.Join(dir, ip.TclFile))
	if err != nil {
		t.Fatal(err)
	}
	text := string(script)
	for _, c := range []struct{ name, old, new, want string }{
		{"unknown command", "update_compile_order", "update_compile_orders", "there is no command update_compile_orders"},
		{"unknown option", "-import_files", "-import", "there is no option -import"},
		{"option without a value", "-taxonomy /UserIP", "-taxonomy", "-taxonomy lacks its value"},
		{"option twice", "-library user", "-library user -library user", "stands twice"},
		{"operands", "ipx::save_core $core", "ipx::save_core", "expected 1..1 operands"},
		{"unknown property", "set_property version", "set_property Version", "a core has no property Version"},
		{"property of another class", "set_property used_in", "set_property top", "a file has no property top"},
		{"value", "zynquplus Production", "zynqmp Production", "supported_families of a core cannot be"},
		{"no objects", "set_property version 1.0 $core", "set_property version 1.0 {}", "no objects"},
		{"no object", "set_property version 1.0 $core", "set_property version 1.0 core", "no object: core"},
		{"file that is not there", ip.TopFile(b, d) + "]", "none.v]", "there is no file"},
		{"file that was not added", "[get_files ooc.xdc]", "[get_files none.xdc]", "nothing that was added"},
		{"interface that is not there", "-busif M01_AXI", "-busif M07_AXI", "no interface M07_AXI"},
		{"file set", "get_filesets sources_1", "get_filesets sources_2", "there is no set"},
		{"no project", "create_project ", "set unused [list -x] ;# ", "no project is open"},
		{"the machine", "close_project", "exec true", "there is no command exec"},
		{"Tcl's own errors", "close_project", "close_project $nothing", `can't read "nothing"`},
	} {
		if c.name == "interface that is not there" {
			c.old = "-busif M00_AXI"
		}
		broken := strings.Replace(text, c.old, c.new, 1)
		if broken == text {
			t.Fatalf("%s: the script has no %q", c.name, c.old)
		}
		path := filepath.Join(dir, "broken.tcl")
		if err := os.WriteFile(path, []byte(broken), 0o644); err != nil {
			t.Fatal(err)
		}
		_, err := standIn(t, allowed, path, nil, abs(t, root), filepath.Join(t.TempDir(), "ip"))
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "broken.tcl:") {
			t.Errorf("%s: %v, expected %q and a line", c.name, err, c.want)
		}
	}
	// constraints for a port that the top does not have
	path := filepath.Join(dir, "broken.xdc")
	if err := os.WriteFile(path, []byte("create_clock -name c -period 5 [get_ports clock]\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := standIn(t, allowed, path, []string{"SLUICE_STANDIN_TOP=" + filepath.Join(dir, ip.TopFile(b, d))}); err == nil || !strings.Contains(err.Error(), "no port clock") {
		t.Errorf("no such port: %v", err)
	}
	// parameters of IP, from a table in the test
	table := filepath.Join(dir, "allowed.txt")
	cells := "command | create_bd_cell | -type= -vlnv= 1 -> cell | UG835 create_bd_cell\ncommand | set_property | -dict= 1..3 | UG835 set_property\n" +
		"ip | xilinx.com:ip:clk_wiz | CLKOUT1_REQUESTED_OUT_FREQ | [0-9.]+ | PG065\n"
	for _, c := range []struct{ table, script, want string }{
		{cells, "set_property -dict {CONFIG.CLKOUT1_REQUESTED_OUT_FREQ 150} [create_bd_cell -type ip -vlnv xilinx.com:ip:clk_wiz:6.0 clock]", ""},
		{cells, "set_property -dict {CONFIG.CLKOUT1_REQUESTED_OUT_FREQ fast} [create_bd_cell -type ip -vlnv xilinx.com:ip:clk_wiz:6.0 clock]", "cannot be: fast"},
		{cells, "set_property CONFIG.CLKOUT2_USED true [create_bd_cell -type ip -vlnv xilinx.com:ip:clk_wiz:6.0 clock]", "has no parameter CONFIG.CLKOUT2_USED"},
		{cells, "create_bd_cell -type ip -vlnv xilinx.com:ip:clk_wizard:1.0 clock", "there is no core"},
		{"command | close_project | 0\n", "", "allowed.txt:1: expected a guide"},
		{"command | close_project | 0 | hearsay\n", "", "allowed.txt:1: expected a guide"},
		{"tool | close_project | 0 | UG835\n", "", "allowed.txt:1: expected command, property or ip"},
		{"command | close_project | none | UG835\n", "", "allowed.txt:1: expected an option"},
	} {
		if err := errors.Join(os.WriteFile(table, []byte(c.table), 0o644), os.WriteFile(path, []byte(c.script), 0o644)); err != nil {
			t.Fatal(err)
		}
		if _, err := standIn(t, table, path, nil); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %s: %v, expected %q", c.table, c.script, err, c.want)
		}
	}
}

// The top is plain Verilog, and it elaborates with the RTL without warnings.
func TestTop(t *testing.T) {
	cells := []string{"sim/cells/dsp48e1.v", "sim/cells/dsp48e2.v", "sim/cells/uram288.v"}
	wrapped, err := filepath.Glob(filepath.Join(root, "hw/xilinx/*.sv"))
	if err != nil || len(wrapped) == 0 {
		t.Fatalf("hw/xilinx: %v, %d files", err, len(wrapped))
	}
	for _, f := range wrapped {
		cells = append(cells, "hw/xilinx/"+filepath.Base(f))
	}
	for _, c := range [][2]string{{"zc706", "tiny"}, {"zcu104", "tiny"}, {"zc706", "v5"}} {
		b, d, dir := generate(t, c[0], c[1])
		top := filepath.Join(dir, ip.TopFile(b, d))
		if out, err := tool(t, "yosys", "yosys", "-q", "-p", "read_verilog "+top); err != nil || out != "" {
			t.Errorf("%v as Verilog: %v: %s", c, err, out)
		}
		args := []string{"--lint-only", "-Wall", "--top-module", ip.Module(b, d), "-f", "hw/rtl/files.f", top}
		args = append(args, cells...)
		if out, err := tool(t, "verilator", "verilator", args...); err != nil || out != "" {
			t.Errorf("%v: %v: %s", c, err, out)
		}
		text, err := os.ReadFile(top)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []struct {
			has  bool
			text string
		}{
			{b.Ports.AXI == boards.AXI3, "M00_AXI_wid"},
			{b.Ports.AXI == boards.AXI3, "[3:0] M00_AXI_awlen"},
			{b.Ports.AXI == boards.AXI4, "[7:0] M00_AXI_awlen"},
			{true, fmt.Sprintf("parameter ADDR_WIDTH = %d", b.Ports.AddrBits)},
			{true, fmt.Sprintf("M%02d_AXI_wdata", d.NAXI-1)},
			{false, fmt.Sprintf("M%02d_AXI", d.NAXI)},
			// not bufferable: results are read through other ports
			{true, "M00_AXI_awcache = 4'b0010"},
			{false, "cache = 4'b0011"},
		} {
			if bytes.Contains(text, []byte(want.text)) != want.has {
				t.Errorf("%v: %q: expected %v", c, want.text, want.has)
			}
		}
	}
}

// A design that does not fit the board's ports is rejected, with all reasons.
func TestRefuses(t *testing.T) {
	b, err := boards.Load("zcu104")
	if err != nil {
		t.Fatal(err)
	}
	d, err := configs.Load("zc706")
	if err != nil {
		t.Fatal(err)
	}
	d.MaxBurst, d.Stub = 64, true
	_, err = ip.Generate(b, d)
	for _, want := range []string{"4 masters, zcu104 3 ports", "up to 64 beats", "stub"} {
		if !errors.Is(err, ip.ErrFit) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, expected %q", err, want)
		}
	}
	if b, err = boards.Load("zc706"); err != nil {
		t.Fatal(err)
	}
	if d, err = configs.Load("zcu104"); err != nil {
		t.Fatal(err)
	}
	if _, err := ip.Generate(b, d); !errors.Is(err, ip.ErrFit) || !strings.Contains(err.Error(), "16 bytes") {
		t.Errorf("%v", err)
	}
	// a board that is only for design search: the message says nothing about ports, as it has none
	bare := b
	bare.Part, bare.SpeedGrade, bare.IDCode, bare.UIO, bare.Clocks, bare.Registers = "", 0, 0, "", boards.Clocks{}, boards.Registers{}
	bare.Interrupt, bare.DDR, bare.Ports.AXI, bare.Ports.AddrBits, bare.Ports.Names = boards.Interrupt{}, boards.DDR{}, "", 0, nil
	if _, err := ip.Generate(bare, d); err == nil || strings.Contains(err.Error(), "0 ports") ||
		!strings.Contains(err.Error(), "lacks the keys part, speed_grade, idcode, clocks, ports.axi, ports.addr_bits, ports.names, registers, interrupt, uio, ddr") {
		t.Errorf("%v", err)
	}
	// values at which the RTL would stop
	for want, change := range map[string]func(*configs.Design){
		"w_load: expected an even number":          func(d *configs.Design) { d.WLoad = 3 },
		"TC: expected a multiple of 4":             func(d *configs.Design) { d.TC = 130 },
		"name: expected one of its own":            func(d *configs.Design) { d.Name, d.TR = "zcu104", 512 },
		"abuf_words: expected a multiple of 4, as": func(d *configs.Design) { d.ABufWords = 8194 },
	} {
		if b, err = boards.Load("zcu104"); err != nil {
			t.Fatal(err)
		}
		wrong := d
		change(&wrong)
		if files, err := ip.Generate(b, wrong); err == nil || len(files) > 0 || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, expected %q", err, want)
		}
	}
}
