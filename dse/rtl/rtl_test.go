package rtl

import (
	"io/fs"
	"regexp"
	"strconv"
	"testing"

	"github.com/sluice-npu/sluice/hw"
	"github.com/sluice-npu/sluice/hw/abi"
)

// Constants that appear in a line of the RTL equal it; few starts fill its queues. Pipeline lengths, which no line
// contains, are checked by the machine's exact results for stored counts (dse/machine), and paths of the law by its
// bands only.
func TestNumbersAreTheRTLs(t *testing.T) {
	for _, c := range []struct {
		file, pattern string
		value         int
	}{
		{"axi_read", `\bparameter int MAX_OUT\s+= (\d+),`, BurstsUnderWay},
		{"axi_write", `\bparameter int MAX_OUT\s+= (\d+),`, BurstsUnderWay},
		{"write_ports", `\blocalparam int unsigned MAX_OUT = (\d+);`, BurstsUnderWay},
		{"npu_core", `\bSTRIPE = \(MAX_BURST >= \d+\) \? (\d+) `, StripeBeats},
		{"axi_read", `\bPAGE_BEATS = (\d+) / AXI_BYTES;`, PageBytes},
		{"axi_write", `\bPAGE_BEATS = (\d+) / AXI_BYTES;`, PageBytes},
		{"read_ports", `\.DEPTH\((\d+)\)\) u_order`, ReadOrder},
		{"read_ports", `\bDEPTH = \(8 \* WORDS < \d+\) \? 8 \* WORDS : (\d+);`, PortBeats},
		{"read_ports", `\bDEPTH = \(8 \* WORDS < \d+\) \? (\d+) \* WORDS`, PortStripes},
		{"write_ports", `\.DEPTH\((\d+)\)\) u_order`, WriteOrder},
		{"write_ports", `\.DEPTH\((\d+)\)\) u_queue`, WriteQueue},
		{"layer_fetch", `step_q == 4'd(\d+)\) begin\s+state_q <= StOffer`, Products - 1}, // the last step
		{"layer_fetch", `if \(bit_q == 3'd(\d+)\) begin`, (StartStates-3)/abi.BMax - 1},  // the last bit of a slot
		{"act_loader", `\.DEPTH\((\d+)\)\) u_meta`, PlacesUnderWay},
		{"act_loader", `\.DEPTH\((\d+)\)\) u_place`, PlacesUnderWay},
		{"weight_fetch", `\.DEPTH\((\d+)\)\) u_kind`, KindsUnderWay},
		{"weight_fetch", `\.DEPTH\((\d+)\)\) u_layers`, LayersAhead},
		{"weight_fetch", `\bBFIFO\s+= (\d+);`, BiasBeats},
		{"weight_fetch", `\bLATENT = \((\d+) / AXI_BYTES`, LatentBytes},
		{"weight_fetch", `\bCHUNK = \(AXI_BYTES <= 16\) \? \d+ : (\d+) / AXI_BYTES,`, ChunkBytes},
		{"weight_fetch", `\bCHUNK = \(AXI_BYTES <= 16\) \? (\d+) :`, ChunkBeats},
		{"res_loader", `\bCHUNK = \(AXI_BYTES <= 16\) \? \d+ : (\d+) / AXI_BYTES;`, ChunkBytes},
		{"res_loader", `\bCHUNK = \(AXI_BYTES <= 16\) \? (\d+) :`, ChunkBeats},
		{"res_loader", `\bCHUNKS = (\d+);`, ResChunks},
		{"res_loader", `\bparameter int unsigned BEATS\s+= (\d+),`, ResBeats},
		{"drain", `\bQUEUE = (\d+),`, DrainQueue},
		{"drain", `\bREAD = (\d+),`, ReadStages},
		{"npu_core", `\bPOOL_ROOM = (\d+);`, PoolRoom},
		{"npu_core", `\bPOOL_GROUPS = (\d+);`, PoolGroups},
		{"pool_seq", `\bwide_o <= side_bits > 5'd(\d+);`, AvgBits},
		{"pool", `\bSTAGES = (\d+);`, PoolStages},
		{"gemm_seq", `\bassign depth = half \? 6'\(T_P - FH \+ (\d+)\)`, ChainWait},
		{"gemm_seq", `\bpair \? 6'\(2 \* T_P \+ (\d+)\)`, ChainWait},
		{"gemm_seq", `\b6'\(T_P \+ (\d+)\)`, ChainWait},
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
