package syn

import (
	"encoding/json"
	"fmt"
	"math/bits"
	"strings"

	"github.com/sluice-npu/sluice/hw/configs"
)

// LevelBits is the flip-flops of level in a top: the two levels before the array have operands, swaps, weights with their
// loads, and tokens, once in the array and once in each of its groups; of npu_top the drain's and the turn of a window too.
func LevelBits(d configs.Design, family, top string) int {
	row := bits.Len(uint(d.TR-1)) + 1 // of a token: enable, bank, row of a half
	copied, chains, group, words := 2*d.TP*17+d.WLoad*d.TP*16+4*row+8, d.TC, 16, d.CMax/d.Drain
	loads := func(from, to int) int { return (to-1)/d.WLoad - from/d.WLoad + 1 }
	if !d.Stack {
		copied-- // k is never 1/2
	}
	if d.Int8() {
		packed := 25
		if family == "xcup" {
			packed = 26
		}
		copied, chains, group, words = 2*d.TP*9+d.WLoad*d.TP*packed+3*row+5, d.TC/2, 8, words+1
	}
	n := copied + loads(0, chains)
	for c := 0; c < chains; c += group {
		n += copied + loads(c, min(chains, c+group))
	}
	if top != "npu_top" {
		return n
	}
	return n + drainLevels(d, words) + bits.Len(uint(d.NB()-1)) + 1
}

// drainLevels is those of the drain: its control has a token and a count, and each block of lanes a token, the choice of PEs,
// its queues' pointers, and in post or requant what is the layer's.
func drainLevels(d configs.Design, words int) int {
	const block = 4
	queue := func(words int) int { return 2 * (bits.Len(uint(words-1)) + 1) }
	count, word := bits.Len(uint(d.Drain)), bits.Len(uint(2*words-1))
	stages, layer := 3, 192
	if d.Post {
		stages, layer = 6, 307 // the first bounds are constants
	}
	n := 0
	if d.Int8() {
		stages, layer = 26, 97
		if d.Post {
			stages, layer = 31, 97+100 // and more of post is
		}
		n += 2*(d.TC/4) + queue(32) // the order of the sums, and the pool
	}
	end, layers := queue(stages+1), 1
	if d.Depthwise {
		layers++ // whose sums are that unit's
	}
	blocks := (d.Drain + block - 1) / block
	return n + 2 + count + end + blocks*(d.TC/d.Drain+word+6+layers+1+queue(8)+1+end+layer)
}

// CheckLevels returns an error where the netlist (yosys' JSON) has another number of them than the design, as where equal
// copies were made one.
func CheckLevels(d configs.Design, family, top string, netlist []byte) error {
	if !ExpectFor(d, top).Known {
		return nil
	}
	var file struct {
		Modules map[string]struct {
			Cells map[string]struct {
				Type       string
				Attributes map[string]any
			}
		}
	}
	if err := json.Unmarshal(netlist, &file); err != nil {
		return fmt.Errorf("read the netlist: %w", err)
	}
	n := 0
	for _, c := range file.Modules[top].Cells {
		if src, _ := c.Attributes["src"].(string); strings.HasPrefix(c.Type, "FD") && strings.Contains(src, "/level.sv:") {
			n++
		}
	}
	if want := LevelBits(d, family, top); n < want || n > want && !d.Int8() { // int8's groups have a load's copy for each chain, which may be merged
		return fmt.Errorf("%d flip-flops in level.sv, expected %d: copies were merged, or went into shift registers", n, want)
	}
	return nil
}
