package machine

import (
	"io/fs"
	"regexp"
	"strconv"
	"testing"

	"github.com/sluice-npu/sluice/hw"
)

// The machine's sizes and depths of queues are the RTL's: few starts fill them.
func TestConstantsAreTheRTLs(t *testing.T) {
	for _, c := range []struct {
		file, pattern string
		value         int
	}{
		{"axi_read", `\bparameter int MAX_OUT\s+= (\d+),`, burstsUnderWay},
		{"axi_write", `\bparameter int MAX_OUT\s+= (\d+),`, burstsUnderWay},
		{"write_ports", `\blocalparam int unsigned MAX_OUT = (\d+);`, burstsUnderWay},
		{"npu_core", `\bSTRIPE = \(MAX_BURST >= \d+\) \? (\d+) `, stripeBeats},
		{"read_ports", `\.DEPTH\((\d+)\)\) u_order`, readOrder},
		{"write_ports", `\.DEPTH\((\d+)\)\) u_order`, writeOrder},
		{"write_ports", `\.DEPTH\((\d+)\)\) u_queue`, writeQueue},
		{"weight_fetch", `\.DEPTH\((\d+)\)\) u_kind`, kindsUnderWay},
		{"weight_fetch", `\.DEPTH\((\d+)\)\) u_layers`, layersAhead},
		{"weight_fetch", `\bBFIFO = (\d+);`, biasBeats},
		{"act_loader", `\.DEPTH\((\d+)\)\) u_meta`, placesUnderWay},
		{"act_loader", `\.DEPTH\((\d+)\)\) u_place`, placesUnderWay},
		{"res_loader", `\bparameter int unsigned BEATS\s+= (\d+),`, resBeats},
		{"res_loader", `\bCHUNKS = (\d+);`, resChunks},
		{"npu_core", `\bPOOL_ROOM = (\d+);`, poolRoom},
		{"drain", `\bREAD = (\d+),`, readStages},
		{"drain", `\bQUEUE = (\d+),`, readQueue},
		{"gemm_seq", `\b6'\(T_P \+ (\d+)\)`, chainWait},
		{"layer_fetch", `if \(bit_q == 3'd(\d+)\) begin`, (startStates-3)/8 - 1}, // the last bit of a slot
	} {
		text, err := fs.ReadFile(hw.RTL, "hw/rtl/"+c.file+".sv")
		if err != nil {
			t.Fatal(err)
		}
		found := regexp.MustCompile(c.pattern).FindAllSubmatch(text, -1)
		if len(found) != 1 {
			t.Errorf("%s.sv: %s is there %d times, expected once", c.file, c.pattern, len(found))
			continue
		}
		if n, _ := strconv.Atoi(string(found[0][1])); n != c.value {
			t.Errorf("%s.sv: %s: %d, here is %d", c.file, c.pattern, n, c.value)
		}
	}
}
