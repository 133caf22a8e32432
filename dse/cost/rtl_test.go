package cost

import (
	"io/fs"
	"regexp"
	"strconv"
	"testing"

	"github.com/sluice-npu/sluice/hw"
	"github.com/sluice-npu/sluice/hw/abi"
)

// Constants of the law that are sizes and depths of the RTL are the RTL's: where one of them changes there, the law knows.
// The others of law.go are paths through several units, and are held by counters.
func TestConstantsAreTheRTLs(t *testing.T) {
	for _, c := range []struct {
		name, file, pattern string
		value, places       int
	}{
		{"chainDepth", "gemm_seq", `\bassign depth = half \? 6'\(T_P - FH \+ (\d+)\)`, chainDepth, 1},
		{"chainDepth", "gemm_seq", `\bpair \? 6'\(2 \* T_P \+ (\d+)\)`, chainDepth, 1},
		{"chainDepth", "gemm_seq", `\b6'\(T_P \+ (\d+)\)`, chainDepth, 1},
		{"drainRead", "drain", `\bREAD = (\d+),`, drainRead - 1, 1},
		{"PoolGroups", "npu_core", `\bPOOL_GROUPS = (\d+);`, PoolGroups, 1},
		{"poolRoom", "npu_core", `\bPOOL_ROOM = (\d+);`, poolRoom, 1},
		{"maxBursts", "axi_read", `\bparameter int MAX_OUT\s+= (\d+),`, maxBursts, 1},
		{"maxBursts", "axi_write", `\bparameter int MAX_OUT\s+= (\d+),`, maxBursts, 1},
		{"maxBursts", "write_ports", `\blocalparam int unsigned MAX_OUT = (\d+);`, maxBursts, 1},
		{"resBeats", "res_loader", `\bparameter int unsigned BEATS\s+= (\d+),`, resBeats, 1},
		{"biasQueue", "weight_fetch", `\bBFIFO\s+= (\d+);`, biasQueue, 1},
		{"latentBytes", "weight_fetch", `\bLATENT = \((\d+) / AXI_BYTES`, latentBytes, 1},
		{"fetchStates", "layer_fetch", `step_q == 4'd(\d+)\) begin\s+state_q <= StOffer`, (fetchStates-3)/2 - 1, 1}, // the last step
		{"startCycles", "layer_fetch", `if \(bit_q == 3'd(\d+)\) begin`, (startCycles-4)/abi.BMax - 1, 1},           // the last bit of a slot
		{"stripeBeats", "npu_core", `\bSTRIPE = \(MAX_BURST >= \d+\) \? (\d+) `, stripeBeats, 1},
	} {
		text, err := fs.ReadFile(hw.RTL, "hw/rtl/"+c.file+".sv")
		if err != nil {
			t.Fatal(err)
		}
		found := regexp.MustCompile(c.pattern).FindAllSubmatch(text, -1)
		if len(found) != c.places {
			t.Errorf("%s.sv: %s is there %d times, expected %d", c.file, c.pattern, len(found), c.places)
		}
		for _, m := range found {
			if n, _ := strconv.Atoi(string(m[1])); n != c.value {
				t.Errorf("%s: %d, %s.sv has %d", c.name, c.value, c.file, n)
			}
		}
	}
}
