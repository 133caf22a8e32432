package block

import (
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-npu/sluice/boards"
	"github.com/sluice-npu/sluice/hw/configs"
	"github.com/sluice-npu/sluice/hw/vivado/ip"
)

var update = flag.Bool("update", false, "write golden files")

// standIn runs a script with the recording stand-in for Vivado. The list from the guides is extended by the design's
// own core, with the pins of its top.
func standIn(t *testing.T, b boards.Board, d configs.Design, script string, env ...string) (record, said string, err error) {
	t.Helper()
	if _, err := exec.LookPath("tclsh"); err != nil {
		t.Fatal("tclsh is missing: install the package tcl")
	}
	dir := t.TempDir()
	allowed, err := os.ReadFile("../allowed.txt")
	if err != nil {
		t.Fatal(err)
	}
	allowed = append(allowed, "\npin | sluice-npu:user:"+ip.Module(b, d)+" | clk|resetn|irq|S_AXI|M[0-9][0-9]_AXI | UG1118 packaged by hw/vivado/ip\n"...)
	list, tcl, out := filepath.Join(dir, "allowed.txt"), filepath.Join(dir, TclFile), filepath.Join(dir, "record")
	for path, text := range map[string][]byte{list: allowed, tcl: []byte(script)} {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("tclsh", "../standin.tcl", list, out, tcl, "IP", filepath.Join(dir, "out"), "1")
	cmd.Env = append(append(os.Environ(), "SLUICE_STANDIN_MAP="+dir+" DIR"), env...)
	text, err := cmd.CombinedOutput()
	rec, readErr := os.ReadFile(out)
	if readErr != nil {
		t.Fatalf("%v: %s", readErr, text)
	}
	return string(rec), string(text), err
}

func load(t *testing.T, board, config string) (boards.Board, configs.Design, string) {
	t.Helper()
	b, err := boards.Load(board)
	if err != nil {
		t.Fatal(err)
	}
	d, err := configs.Load(config)
	if err != nil {
		t.Fatal(err)
	}
	text, err := Generate(b, d)
	if err != nil {
		t.Fatal(err)
	}
	return b, d, string(text)
}

// TestBuild: the calls of the Tcl on each board, in order, as recorded by the stand-in.
func TestBuild(t *testing.T) {
	for _, c := range [][2]string{{"zc706", "small"}, {"zc706", "zc706"}, {"zcu104", "zcu104"}} {
		b, d, text := load(t, c[0], c[1])
		record, said, err := standIn(t, b, d, text)
		if err != nil {
			t.Errorf("%s on %s: %v: %s", c[1], c[0], err, said)
			continue
		}
		golden := filepath.Join("testdata", c[0]+"-"+c[1]+".record")
		if *update {
			if err := os.WriteFile(golden, []byte(record), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), record); diff != "" {
			t.Errorf("%s on %s: %s", c[1], c[0], diff)
		}
	}
}

// TestVersions: the IP versions are those of the Vivado that runs the script.
func TestVersions(t *testing.T) {
	b, d, text := load(t, "zcu104", "zcu104")
	for vivado, ps := range map[string]string{"2022.2": "3.4", "2023.1": "3.5", "2024.2": "3.5"} {
		record, said, err := standIn(t, b, d, text, "SLUICE_STANDIN_VIVADO="+vivado)
		if err != nil || !strings.Contains(record, "xilinx.com:ip:zynq_ultra_ps_e:"+ps+" ps\n") {
			t.Errorf("Vivado %s: %v: %s\n%s", vivado, err, said, record)
		}
	}
	if _, said, err := standIn(t, b, d, text, "SLUICE_STANDIN_VIVADO=2017.4"); err == nil || !strings.Contains(said, "this Vivado has no core xilinx.com:ip:zynq_ultra_ps_e") {
		t.Errorf("a Vivado without the core: %v: %s", err, said)
	}
}

// TestBoards: a script can be generated for every board, even if its resources are too small.
func TestBoards(t *testing.T) {
	for _, name := range boards.Names() {
		b, d, text := load(t, name, "tiny")
		record, said, err := standIn(t, b, d, text)
		if err != nil || !strings.Contains(record, "write_hw_platform") {
			t.Errorf("%s: %v: %s", name, err, said)
		}
	}
}

// TestThree: a third master of zcu104-three is on HP1: no other master uses that port of the DRAM controller.
func TestThree(t *testing.T) {
	b, d, text := load(t, "zcu104", "zcu104-three")
	record, said, err := standIn(t, b, d, text)
	for _, want := range []string{
		"PSU__USE__S_AXI_GP3 1\n", "PSU__SAXIGP3__DATA_WIDTH 128\n", "bd_intf_pin:npu/M02_AXI bd_intf_pin:ps/S_AXI_HP1_FPD\n", "bd_pin:ps/saxihp1_fpd_aclk\n",
	} {
		if err != nil || !strings.Contains(record, want) {
			t.Errorf("expected %q: %v: %s\n%s", want, err, said, record)
		}
	}
}

// TestWays: every register port and interrupt line that a board's file can name is wired correctly.
func TestWays(t *testing.T) {
	for _, c := range []struct {
		board, port string
		base        uint64
		line        int
		want        []string
	}{
		{"zc706", "GP0", 0x43C00000, 0, []string{"M_AXI_GP0 1\n", "M_AXI_GP1 0\n", "bd_intf_pin:ps/M_AXI_GP0 ", "bd_pin:npu/irq bd_pin:ps/IRQ_F2P\n"}},
		{"zc706", "GP1", 0x83C00000, 3, []string{"M_AXI_GP0 0\n", "M_AXI_GP1 1\n", "bd_intf_pin:ps/M_AXI_GP1 ", "-offset 0x83c00000 ", "CONST_WIDTH 3 ", "IN0_WIDTH 3 ", "bd_pin:npu/irq bd_pin:lines/In1\n", "bd_pin:lines/dout bd_pin:ps/IRQ_F2P\n"}},
		{"zcu104", "HPM0", 0xA0000000, 7, []string{"GP0 1\n", "GP1 0\n", "GP2 0\n", "MAXIGP0__DATA_WIDTH 32\n", "bd_intf_pin:ps/M_AXI_HPM0_FPD ", "IN0_WIDTH 7 ", "bd_pin:lines/dout bd_pin:ps/pl_ps_irq0\n"}},
		{"zcu104", "HPM1", 0xB0000000, 2, []string{"M_AXI_GP0 0\n", "M_AXI_GP1 1\n", "M_AXI_GP2 0\n", "MAXIGP1__DATA_WIDTH 32\n", "bd_intf_pin:ps/M_AXI_HPM1_FPD ", "bd_pin:ps/maxihpm1_fpd_aclk\n"}},
		{"zcu104", "HPM0_LPD", 0x80000000, 0, []string{"M_AXI_GP0 0\n", "M_AXI_GP1 0\n", "M_AXI_GP2 1\n", "MAXIGP2__DATA_WIDTH 32\n", "bd_intf_pin:ps/M_AXI_HPM0_LPD ", "bd_pin:ps/maxihpm0_lpd_aclk\n"}},
	} {
		b, d, _ := load(t, c.board, "small")
		b.Interrupt.SPI += c.line - b.Interrupt.Line
		b.Interrupt.Line, b.Registers.Port, b.Registers.Base = c.line, c.port, c.base
		if err := b.Validate(); err != nil {
			t.Fatal(err)
		}
		text, err := Generate(b, d)
		if err != nil {
			t.Fatal(err)
		}
		record, said, err := standIn(t, b, d, string(text))
		if err != nil {
			t.Errorf("%s, %s, line %d: %v: %s", c.board, c.port, c.line, err, said)
		}
		for _, want := range c.want {
			if !strings.Contains(record, want) {
				t.Errorf("%s, %s, line %d: expected %q in\n%s", c.board, c.port, c.line, want, record)
			}
		}
	}
}

// TestNoBoardPart: without a preset there is no platform for a first-stage loader, and the script says so; a board
// file that is not installed is named; the crystal is the board's.
func TestNoBoardPart(t *testing.T) {
	b, d, text := load(t, "pynq-z2", "tiny")
	record, said, err := standIn(t, b, d, text)
	if err != nil || !strings.Contains(record, "PCW_CRYSTAL_PERIPHERAL_FREQMHZ 50\n") || !strings.Contains(record, `apply_board_preset "1"`) {
		t.Errorf("%v: %s\n%s", err, said, record)
	}
	if _, said, err := standIn(t, b, d, text, "SLUICE_STANDIN_BOARDS=xilinx.com:zc706:part0:1.4"); err == nil || !strings.Contains(said, "no board file tul.com.tw:pynq-z2:part0:1.0") {
		t.Errorf("a board file that is not there: %v: %s", err, said)
	}
	b.BoardPart = ""
	bare, err := Generate(b, d)
	if err != nil {
		t.Fatal(err)
	}
	record, said, err = standIn(t, b, d, string(bare))
	if err != nil || strings.Contains(record, "write_hw_platform") || !strings.Contains(record, "write_bitstream") ||
		!strings.Contains(said, "WARNING") || !strings.Contains(said, "no npu.xsa") || !strings.Contains(record, `apply_board_preset "0"`) {
		t.Errorf("without a board_part: %v: %s\n%s", err, said, record)
	}
}

// TestScript: the outputs have the names of board and configuration, however these were given. A bad name produces
// nothing, and a failed build leaves nothing of an earlier one.
func TestScript(t *testing.T) {
	build := t.TempDir()
	var path []string // a PATH without a Vivado, which this test would start
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		if _, err := os.Stat(filepath.Join(dir, "vivado")); err != nil {
			path = append(path, dir)
		}
	}
	own := filepath.Join(t.TempDir(), "file.yaml")
	text, err := os.ReadFile("../../../boards/pynq-z2/board.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(own, []byte(strings.Replace(string(text), "name: pynq-z2", "name: my-board", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(board, config string) (int, string) {
		cmd := exec.Command("../bitstream.sh", board, config)
		cmd.Env = append(os.Environ(), "BUILD="+build, "PATH="+strings.Join(path, string(os.PathListSeparator)))
		said, err := cmd.CombinedOutput()
		if err != nil && cmd.ProcessState == nil {
			t.Fatal(err)
		}
		return cmd.ProcessState.ExitCode(), string(said)
	}
	for _, c := range [][3]string{{"zc706", "nosuch", "nosuch"}, {"pynq-z2", "zc706", "does not fit"}, {filepath.Join(build, "none.yaml"), "tiny", "none.yaml"}} {
		if code, said := run(c[0], c[1]); code == 0 || !strings.Contains(said, c[2]) {
			t.Errorf("%s, %s: exit code %d: %s", c[0], c[1], code, said)
		}
		if left, err := filepath.Glob(filepath.Join(build, "bitstream", "*")); len(left) > 0 || err != nil {
			t.Errorf("%s, %s leaves %q, %v", c[0], c[1], left, err)
		}
	}
	old := filepath.Join(build, "bitstream", "my-board-tiny", "npu.bit")
	if err := errors.Join(os.MkdirAll(filepath.Dir(old), 0o755), os.WriteFile(old, []byte("an earlier one"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if code, said := run(own, "tiny"); code != 5 || !strings.Contains(said, "vivado is missing") || !strings.Contains(said, filepath.Dir(old)) {
		t.Errorf("exit code %d: %s", code, said)
	}
	if _, err := os.Stat(old); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the earlier bitstream stays: %v", err)
	}
	if text, err := os.ReadFile(filepath.Join(filepath.Dir(old), TclFile)); err != nil || !strings.Contains(string(text), "create_project sluice_my_board_tiny_my-board") {
		t.Errorf("%s: %v", TclFile, err)
	}
}

// TestSlack: a design that misses its clock is an error, and no bitstream is written.
func TestSlack(t *testing.T) {
	b, d, text := load(t, "zc706", "small")
	record, said, err := standIn(t, b, d, text, "SLUICE_STANDIN_SLACK=-0.01")
	if err == nil || !strings.Contains(said, "misses its clock") || strings.Contains(record, "write_bitstream") {
		t.Errorf("%v: %s", err, said)
	}
}

// TestRefused: the stand-in notices errors in a script.
func TestRefused(t *testing.T) {
	b, d, text := load(t, "zc706", "small")
	for _, c := range [][3]string{
		{"ps/FCLK_CLK0", "ps/FCLK_CLK7", "no pin FCLK_CLK7"},
		{"npu/irq", "npu/interrupt", "no pin interrupt"},
		{"CONFIG.PCW_S_AXI_HP0_DATA_WIDTH 64", "CONFIG.PCW_S_AXI_HP0_DATA_WIDTH 128", "cannot be: 128"},
		{"CONFIG.USE_LOCKED true", "CONFIG.USE_LOCK true", "no parameter CONFIG.USE_LOCK"},
		{"[core clk_wiz] clock", "[core clk_wizard] clock", "this Vivado has no core xilinx.com:ip:clk_wizard"},
		{"[core clk_wiz] clock", "xilinx.com:ip:clk_wiz:5.4 clock", "this Vivado has xilinx.com:ip:clk_wiz:6.0"},
		{"CONFIG.PCW_USE_M_AXI_GP1 0", "CONFIG.PCW_USE_M_AXI_GP1 1", "PCW_USE_M_AXI_GP1 is on, and its clock M_AXI_GP1_ACLK is not connected"},
		{"CONFIG.PCW_USE_M_AXI_GP0 1", "CONFIG.PCW_USE_M_AXI_GP0 0", "no pin M_AXI_GP0_ACLK while PCW_USE_M_AXI_GP0 is 0"},
		{"  CONFIG.PCW_USE_S_AXI_HP0 1\n", "", "no pin S_AXI_HP0_ACLK while PCW_USE_S_AXI_HP0 is 0"},
		{"get_bd_pins reset/dcm_locked", "get_bd_pins resets/dcm_locked", "no cell resets"},
		{"[get_bd_pins npu/resetn]", "[get_bd_pins npu/clk]", "is connected already"},
		{"validate_bd_design", "check_bd_design", "no command check_bd_design"},
		{"synth_checkpoint_mode None", "synth_checkpoint_mode Singular", "synth_checkpoint_mode is not None"},
		{"validate_bd_design\n", "", "from validate_bd_design on"},
		{"CONFIG.PRIMITIVE MMCM", "CONFIG.PRIM_IN_FREQ 100", "no parameter CONFIG.PRIM_IN_FREQ"},
		{"write_hw_platform -fixed", "write_hw_platform -quietly", "no option -quietly"},
	} {
		spoiled := strings.Replace(text, c[0], c[1], 1)
		if spoiled == text {
			t.Errorf("%s is not in the script", c[0])
		}
		if _, said, err := standIn(t, b, d, spoiled); err == nil || !strings.Contains(said, c[2]) {
			t.Errorf("%s: %v: %s, expected %q", c[1], err, said, c[2])
		}
	}
}
