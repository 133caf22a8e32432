package verify

import (
	"strings"
	"testing"

	"github.com/sluice-npu/sluice/host/npu"
	"github.com/sluice-npu/sluice/hw/abi"
)

// The counts of a segment of layers, for an unknown number of cycles.
func TestCountersMove(t *testing.T) {
	of := func(cycles, mac, macs uint64) *counts {
		c := &counts{}
		c.npu[abi.CntCyclesBusy], c.npu[abi.CntMACCycles], c.npu[abi.CntMACs] = cycles, mac, macs
		return c
	}
	for _, x := range []struct {
		what string
		c    *counts
		kind npu.CosimKind
		macs work
		want string
	}{
		{"all move", of(9, 3, 4), npu.CosimRTL, work{array: 4}, ""},
		{"no cycles", of(0, 3, 4), npu.CosimRTL, work{array: 4}, "cycles_busy stands still"},
		{"no cycles of the shell", of(0, 0, 0), npu.CosimShell, work{array: 4}, "cycles_busy stands still"},
		{"no cycles of the array", of(9, 0, 4), npu.CosimRTL, work{array: 4}, "mac_cycles stands still"},
		{"a pool", of(9, 0, 0), npu.CosimRTL, work{}, ""},
		{"a depthwise layer", of(9, 0, 4), npu.CosimRTL, work{unit: 4}, ""},
		{"other MACs of a depthwise layer", of(9, 0, 4), npu.CosimRTL, work{unit: 5}, "macs counts 4"},
		{"other MACs", of(9, 3, 5), npu.CosimRTL, work{array: 4}, "macs counts 5"},
		{"the kernel alone", of(0, 0, 0), npu.CosimHLS, work{array: 4}, ""},
	} {
		if got := x.c.wrong(x.kind, 8, x.macs, false); got != x.want && (x.want == "" || !strings.HasPrefix(got, x.want)) {
			t.Errorf("%s: %q, expected %q", x.what, got, x.want)
		}
	}
}
