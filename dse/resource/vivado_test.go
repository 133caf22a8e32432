package resource

import (
	"strings"
	"testing"

	"github.com/sluice-npu/sluice/boards"
	"github.com/sluice-npu/sluice/hw/configs"
)

// Depths that are no power of two cost more on 7 series by Vivado's rule, and the board says so.
func TestWarnings(t *testing.T) {
	for _, tc := range []struct {
		board, config string
		yosys, vivado float64
		warns         string
	}{
		{"zc706", "zc706", 523.5, 555.5, "needs 555.5 BRAM36 by Vivado's rule"},
		{"zcu104", "zcu104", 281.5, 281.5, ""},
		{"zc706", "small", 12.5, 12.5, ""},
		{"pynq-z2", "zc706", 523.5, 555.5, "DSPs"},
	} {
		b, err := boards.Load(tc.board)
		if err != nil {
			t.Fatal(err)
		}
		d, err := configs.Load(tc.config)
		if err != nil {
			t.Fatal(err)
		}
		if y, v := Of(b, d).BRAM36, VivadoBRAM36(b.Family, d); y != tc.yosys || v != tc.vivado {
			t.Errorf("%s on %s: %g and %g BRAM36, expected %g and %g", tc.config, tc.board, y, v, tc.yosys, tc.vivado)
		}
		said := strings.Join(Warnings(b, d), "\n")
		if (said == "") != (tc.warns == "") || !strings.Contains(said, tc.warns) {
			t.Errorf("%s on %s: %q, expected %q", tc.config, tc.board, said, tc.warns)
		}
	}
}
