package main

import (
	"strings"
	"testing"

	"github.com/sluice-npu/sluice/bitstreams"
)

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
