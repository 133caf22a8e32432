package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-npu/sluice/bitstreams"
	"github.com/sluice-npu/sluice/boards"
	"github.com/sluice-npu/sluice/dse/resource"
	"github.com/sluice-npu/sluice/hw/configs"
)

// summary is the table of report_timing_summary, as UG906 prints it.
func summary(wpws string) string {
	return `
------------------------------------------------------------------------------------------------
| Design Timing Summary
| ---------------------
------------------------------------------------------------------------------------------------

    WNS(ns)      TNS(ns)  TNS Failing Endpoints  TNS Total Endpoints      WHS(ns)      THS(ns)  THS Failing Endpoints  THS Total Endpoints     WPWS(ns)     TPWS(ns)  TPWS Failing Endpoints  TPWS Total Endpoints  
    -------      -------  ---------------------  -------------------      -------      -------  ---------------------  -------------------     --------     --------  ----------------------  --------------------  
      0.125        0.000                      0                51234        0.030        0.000                      0                51234        ` + wpws + `        0.000                       0                 20311  
`
}

// TestFits: a design that cannot fit is rejected before Vivado starts.
func TestFits(t *testing.T) {
	if _, err := run([]string{"tcl", "pynq-z2", "zc706"}, io.Discard); !errors.Is(err, resource.ErrBudget) || !strings.Contains(err.Error(), "DSPs, Z7020 has 220") {
		t.Errorf("zc706 on pynq-z2: %v", err)
	}
	for _, c := range [][2]string{{"pynq-z2", "tiny"}, {"zc706", "small"}, {"zc706", "zc706"}, {"zcu104", "zcu104"}} {
		if _, err := run([]string{"tcl", c[0], c[1]}, io.Discard); err != nil {
			t.Errorf("%s on %s: %v", c[1], c[0], err)
		}
	}
	// if the LUTs are within the error of the law, Vivado decides
	text, err := os.ReadFile("../../../../../boards/pynq-z2/board.yaml")
	if err != nil {
		t.Fatal(err)
	}
	b, err := boards.Load("pynq-z2")
	if err != nil {
		t.Fatal(err)
	}
	d, err := configs.Load("tiny")
	if err != nil {
		t.Fatal(err)
	}
	e := resource.Of(b, d)
	for _, c := range []struct {
		lut     int
		refused bool
	}{{e.LUT.Value - 1, false}, {int(float64(e.LUT.Value) * (1 - e.LUT.Band) * 0.99), e.LUT.Band < 1}} {
		file := filepath.Join(t.TempDir(), "small-board.yaml")
		of := strings.NewReplacer("name: pynq-z2", "name: small-board", "lut: 53200", fmt.Sprintf("lut: %d", max(c.lut, 1)))
		if err := os.WriteFile(file, []byte(of.Replace(string(text))), 0o600); err != nil {
			t.Fatal(err)
		}
		var warned bytes.Buffer
		_, err := run([]string{"tcl", file, "tiny"}, &warned)
		if errors.Is(err, resource.ErrBudget) != c.refused || !c.refused && !strings.Contains(warned.String(), "it may not fit") {
			t.Errorf("%d LUTs of %v: %v; %s", c.lut, e.LUT, err, &warned)
		}
	}
}

// TestManifest: the clock is the one that the MMCM produces, as the build recorded it.
func TestManifest(t *testing.T) {
	dir := t.TempDir()
	bit, err := os.ReadFile("../../../../../bitstreams/testdata/xc7z045.bit")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"timing.rpt": summary("2.500"), "npu.bit": string(bit), "slack.txt": "0.125 0.03\n", "clock.txt": "149998499\n",
		"utilisation.rpt": "| Slice LUTs | 21034 |\n| Slice Registers | 18020 |\n| Block RAM Tile | 40.5 |\n| DSPs | 64 |\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text, err := run([]string{"manifest", "zc706", "small", dir}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	m, err := bitstreams.ParseManifest(text)
	if err != nil || m.Timing != (bitstreams.Timing{ClockMHz: 149.998499, WNS: 0.125, WHS: 0.03}) {
		t.Errorf("%v\n%s", err, text)
	}
	if err := os.WriteFile(filepath.Join(dir, "clock.txt"), []byte("fast"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := run([]string{"manifest", "zc706", "small", dir}, io.Discard); err == nil || !strings.Contains(err.Error(), "clock.txt: expected Hz") {
		t.Errorf("a clock that is no number: %v", err)
	}
	for text, says := range map[string]string{summary("-0.155"): "pulse widths is -0.155 ns", "no table": "no summary with WPWS", summary("x"): "WPWS: expected a number"} {
		if err := os.WriteFile(filepath.Join(dir, "timing.rpt"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := run([]string{"manifest", "zc706", "small", dir}, io.Discard); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, expected %q", err, says)
		}
	}
}

func TestUtilisation(t *testing.T) {
	for report, want := range map[string]bitstreams.Utilisation{
		`
| Slice LUTs                 | 21034 |     0 |          0 |    218600 |  9.62 |
| Slice Registers            | 18020 |     0 |          0 |    437200 |  4.12 |
| Block RAM Tile    | 40.5 |     0 |          0 |       545 |  7.43 |
| DSPs           |   64 |     0 |          0 |       900 |  7.11 |
`: {LUT: 21034, FF: 18020, BRAM36: 40.5, DSP: 64},
		`
| CLB LUTs*                  | 21034 |     0 |          0 |    230400 |  9.13 |
| CLB Registers              | 18020 |     0 |          0 |    460800 |  3.91 |
| Block RAM Tile    |  264 |     0 |          0 |       312 | 84.62 |
| URAM           |   80 |     0 |          0 |        96 | 83.33 |
| DSPs           | 1720 |     0 |          0 |      1728 | 99.54 |
`: {LUT: 21034, FF: 18020, BRAM36: 264, URAM: 80, DSP: 1720},
	} {
		if got, err := utilisation(report); err != nil || got != want {
			t.Errorf("%+v, %v, expected %+v", got, err, want)
		}
	}
	if _, err := utilisation("| DSPs | 3 |"); err == nil || !strings.Contains(err.Error(), "no row Slice LUTs or CLB LUTs") {
		t.Errorf("an empty report: %v", err)
	}
}
