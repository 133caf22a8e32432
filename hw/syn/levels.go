package syn

import (
	"encoding/json"
	"fmt"
	"math/bits"
	"strings"

	"github.com/sluice-npu/sluice/hw/configs"
)

// LevelBits returns the number of flip-flops in all instances of level.sv in a top module. One level before the array,
// and one before each group of chains, store operands, swaps, weights with load signals, and tokens. npu_top also has
// levels in the drain and the pool, levels for k and s of each loaded PE, and a level for the turn of a window.
func LevelBits(d configs.Design, family, top string) int {
	row := bits.Len(uint(d.TR-1)) + 1 // bits of a token: enable, bank, row of a half
	copied, chains, group, words := 2*d.TP*17+d.WLoad*d.TP*16+4*row+8, d.TC, 16, d.CMax/d.Drain
	loads := func(from, to int) int { return (to-1)/d.WLoad - from/d.WLoad + 1 }
	if !d.Stack {
		copied-- // without Stackable PEs, k is never 1/2
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
	return n + drainLevels(d, words) + poolLevels(d) + 2*d.WLoad + bits.Len(uint(d.NB()-1)) + 1
}

// poolLevels returns the number of flip-flops in the pool's levels. Each block of lanes has a bit for average or
// maximum. In int16, each block of lanes at the output has a copy of the shift, and the bounds have one more copy.
func poolLevels(d configs.Design) int {
	blocks := func(lanes int) int { return (lanes + DrainBlock - 1) / DrainBlock }
	if d.Int8() {
		return blocks(d.NB())
	}
	return blocks(d.NB()) + 6*(1+blocks(d.Drain))
}

// DrainBlock is the parameter BLOCK of drain, post and pool: the number of lanes that share a copy of control signals.
const DrainBlock = 4

// requantStages is the parameter CODES of drain and pool in int8: the latency of requant in cycles.
const requantStages = 26

// drainStages returns the parameter STAGES of drain.
func drainStages(d configs.Design) int {
	switch {
	case d.Int8() && d.Post:
		return requantStages + 5
	case d.Int8():
		return requantStages
	case d.Post:
		return 6
	}
	return 3
}

// DrainEnd returns the number of words of a queue at the drain's output.
func DrainEnd(d configs.Design) int { return skidWords(drainStages(d)) }

// PoolEnd returns the number of words of the queue at the pool's output in int8.
func PoolEnd() int { return skidWords(requantStages) }

// skidWords returns the depth of a skid buffer after a pipeline. It stores at least one word more than the stages.
func skidWords(stages int) int { return 1 << bits.Len(uint(stages)) }

// drainLevels returns the number of flip-flops in the drain's levels. The control has a token and a count. Each block
// of lanes has a token, the choice of PEs, the pointers of its queues, and the layer's parameters in post or requant.
func drainLevels(d configs.Design, words int) int {
	queue := func(words int) int { return 2 * (bits.Len(uint(words-1)) + 1) }
	count, word := bits.Len(uint(d.Drain)), bits.Len(uint(2*words-1))
	layer := 192
	if d.Post {
		layer = 307 // the bounds before the curve are constants
	}
	n := 0
	if d.Int8() {
		layer = 97
		if d.Post {
			layer += 100 // lower bound: post has more
		}
		n += 2*(d.TC/4) + queue(PoolEnd()) // the order of the sums, and the pool's queue
	}
	end, layers := queue(DrainEnd(d)), 1
	if d.Depthwise {
		layers++ // whether the words are sums of the depthwise unit
	}
	blocks := (d.Drain + DrainBlock - 1) / DrainBlock
	return n + 2 + count + end + blocks*(d.TC/d.Drain+word+6+layers+1+queue(8)+1+end+layer)
}

// CheckLevels returns an error if the number of level.sv's flip-flops in yosys' JSON netlist is not LevelBits, for
// example because equal copies were merged.
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
	if want := LevelBits(d, family, top); n < want || n > want && !d.Int8() { // in int8, copies of load signals can be merged
		return fmt.Errorf("%d flip-flops in level.sv, expected %d: copies were merged, or went into shift registers", n, want)
	}
	return nil
}
