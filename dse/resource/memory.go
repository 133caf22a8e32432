package resource

import (
	"fmt"
	"math"
	"slices"

	"github.com/sluice-npu/sluice/boards"
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
)

// Memory is a group of equal memories of the RTL, all with one write and one read port.
type Memory struct {
	Name  string `json:"name"`
	Count int    `json:"count"`
	Words int    `json:"words"`
	Width int    `json:"width"` // bits
	Queue bool   `json:"queue"` // read without a register: LUTs only
}

// Memories lists every memory of npu_top for a design, as the RTL names it. Small queues of a few
// words are left to the law of LUTs.
func Memories(d configs.Design) []Memory {
	bits := d.AXIBytes * 8
	return []Memory{
		// pe_array: two halves a PE, two banks a half (acc_half)
		{Name: accumulators, Count: 4 * d.TC, Words: d.TR / 2, Width: abi.AccBits},
		// act_buffer: two halves of NB banks
		{Name: activations, Count: 2 * d.NB(), Words: d.ABufWords, Width: bankBits},
		{Name: "weights ring", Count: 1, Words: d.WRingBeats, Width: bits + 1},
		{Name: "residual beats", Count: 1, Words: resBeats, Width: bits},
		{Name: "biases", Count: d.Drain, Words: 2 * (d.CMax / max(d.Drain, 1)), Width: 32},
		{Name: "averages", Count: 1, Words: 512, Width: 17},
		{Name: "FBCB", Count: 1, Words: abi.LMax * abi.BMax, Width: 32},
	}
}

const (
	accumulators = "accumulators"
	activations  = "activations"
	bankBits     = 16
	resBeats     = 256 // res_loader's BEATS
)

// Blocks is what one memory takes.
type Blocks struct {
	BRAM18 int `json:"bram18"`
	BRAM36 int `json:"bram36"`
	URAM   int `json:"uram"`
	LUTRAM int `json:"lutram"` // LUTs that are memory
}

// half is the block RAM in units of 18 Kibit.
func (b Blocks) half() int { return b.BRAM18 + 2*b.BRAM36 }

// shape is one way to build a memory: primitives of depth x width. Narrower words cost less of those
// that scale; fold is how many words a primitive holds beside each other where its bytes can be written
// alone.
type shape struct {
	words, bits int
	cost        float64 // of a primitive, by which yosys weighs one kind against another
	scales      bool    // the cost counts bits, not primitives
	block       Blocks
}

// shapes are the ways of a family, as yosys' xilinx libraries list them, for one write and one read
// port; of equal cost the first is taken.
var shapes = map[string][]shape{
	boards.Series7:        slices.Concat(bram, lutram(6, 3, 4, 8)),
	boards.UltraScalePlus: slices.Concat(bram, lutram(14, 7, 8, 16)),
}

var bram = func() []shape {
	var out []shape
	for _, a := range [][2]int{{512, 72}, {1024, 36}, {2048, 18}, {4096, 9}, {8192, 4}, {16384, 2}, {32768, 1}} {
		out = append(out, shape{words: a[0], bits: a[1], cost: 257, block: Blocks{BRAM36: 1}})
	}
	for _, a := range [][2]int{{512, 36}, {1024, 18}, {2048, 9}, {4096, 4}, {8192, 2}, {16384, 1}} {
		out = append(out, shape{words: a[0], bits: a[1], cost: 129, block: Blocks{BRAM18: 1}})
	}
	return out
}()

// lutram of blocks of n LUTs: 32 words of b32 bits or 64 of b64.
func lutram(b32, b64, n int, cost float64) []shape {
	return []shape{
		{words: 32, bits: b32, cost: cost, scales: true, block: Blocks{LUTRAM: n}},
		{words: 64, bits: b64, cost: cost, scales: true, block: Blocks{LUTRAM: n}},
	}
}

const (
	uramWords, uramBits, uramByte = 4096, 72, 9
	uramCost                      = 1024
	// muxCost is what selecting among rows of primitives costs, a bit and row.
	muxCost = 0.5
)

// Place says what yosys 0.23 makes of one memory of words x width bits with a registered read: the
// cheapest of all ways (testdata has its answers).
func Place(family string, words, width int) Blocks {
	if words < 1 || width < 1 {
		return Blocks{}
	}
	var best Blocks
	bestCost := math.Inf(1)
	try := func(b Blocks, n, rows int, cost float64) {
		if cost += muxCost * float64((rows-1)*width); cost < bestCost {
			best, bestCost = Blocks{n * b.BRAM18, n * b.BRAM36, n * b.URAM, n * b.LUTRAM}, cost
		}
	}
	for _, s := range shapes[family] {
		rows, cols := ceil(words, s.words), ceil(width, s.bits)
		cost := s.cost * float64(rows*cols)
		if s.scales {
			cost = s.cost * float64(rows) * float64(width) / float64(s.bits)
		}
		try(s.block, rows*cols, rows, cost)
	}
	if family == boards.UltraScalePlus {
		// words of a few bytes lie beside each other in one of 72 bits
		fold, cols := 1, ceil(width, uramBits)
		if cols == 1 {
			for fold*2 <= uramBits/uramByte/ceil(width, uramByte) && words > uramWords*fold {
				fold *= 2
			}
		}
		rows := ceil(words, uramWords*fold)
		try(Blocks{URAM: 1}, rows*cols, rows*fold, uramCost*float64(rows*cols))
	}
	return best
}

func ceil(a, b int) int { return (a + b - 1) / b }

func (m Memory) String() string {
	return fmt.Sprintf("%s: %d of %d x %d bit", m.Name, m.Count, m.Words, m.Width)
}
