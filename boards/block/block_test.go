package block

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-npu/sluice/boards"
	"github.com/sluice-npu/sluice/boards/ip"
	"github.com/sluice-npu/sluice/hw/configs"
)

var update = flag.Bool("update", false, "write golden files")

// standIn runs a script against the recording stand-in for Vivado. The design's own core, with the pins that
// its top has, is added to what the guides list.
func standIn(t *testing.T, b boards.Board, d configs.Design, script string, env ...string) (record, said string, err error) {
	t.Helper()
	if _, err := exec.LookPath("tclsh"); err != nil {
		t.Fatal("tclsh is missing: install the package tcl")
	}
	dir := t.TempDir()
	allowed, err := os.ReadFile("../vivado/allowed.txt")
	if err != nil {
		t.Fatal(err)
	}
	allowed = append(allowed, "\npin | sluice-npu:user:"+ip.Module(b, d)+" | clk|resetn|irq|S_AXI|M[0-9][0-9]_AXI | UG1118 packaged by boards/ip\n"...)
	list, tcl, out := filepath.Join(dir, "allowed.txt"), filepath.Join(dir, TclFile), filepath.Join(dir, "record")
	for path, text := range map[string][]byte{list: allowed, tcl: []byte(script)} {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("tclsh", "../vivado/standin.tcl", list, out, tcl, "IP", filepath.Join(dir, "out"), "1")
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

// TestBuild: what the Tcl does on each board, call by call, as the stand-in lets it.
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

// TestSlack: a design that misses its clock ends in an error, and no bitstream is written.
func TestSlack(t *testing.T) {
	b, d, text := load(t, "zc706", "small")
	record, said, err := standIn(t, b, d, text, "SLUICE_STANDIN_SLACK=-0.01")
	if err == nil || !strings.Contains(said, "misses its clock") || strings.Contains(record, "write_bitstream") {
		t.Errorf("%v: %s", err, said)
	}
}

// TestRefused: the stand-in sees what is wrong with a script.
func TestRefused(t *testing.T) {
	b, d, text := load(t, "zc706", "small")
	for _, c := range [][3]string{
		{"ps/FCLK_CLK0", "ps/FCLK_CLK7", "no pin FCLK_CLK7"},
		{"npu/irq", "npu/interrupt", "no pin interrupt"},
		{"CONFIG.PCW_S_AXI_HP0_DATA_WIDTH 64", "CONFIG.PCW_S_AXI_HP0_DATA_WIDTH 128", "cannot be: 128"},
		{"CONFIG.USE_LOCKED true", "CONFIG.USE_LOCK true", "no parameter CONFIG.USE_LOCK"},
		{"clk_wiz:6.0 clock", "clk_wizard:6.0 clock", "no core"},
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
