package resource

import (
	"math"
	"math/bits"
	"slices"

	"github.com/sluice-npu/sluice/boards"
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
	"github.com/sluice-npu/sluice/hw/syn"
)

// Memory is a group of equal memories of the RTL. Each of them has one write port and one read port.
type Memory struct {
	Name  string `json:"name"`
	Count int    `json:"count"`
	Words int    `json:"words"`
	Width int    `json:"width"` // bits
	Queue bool   `json:"queue"` // a read does not pass a register
}

// Memories lists every memory of npu_top for a design, with names similar to those of the RTL.
func Memories(d configs.Design) []Memory {
	wide := d.WideBytes() // bytes of a beat of the memory clients
	wideBits, lanes := wide*8, wide/d.AXIBytes
	nb := d.NB()
	spot := log2(wide / d.ElemBytes()) // bits of the index of a word in a wide beat
	beat := 32 - log2(d.AXIBytes)
	accBits, biasLayer := abi.AccBits, 18
	residual, biases, average, kept, sum := spot+8, 2*(d.CMax/max(d.Drain, 1)), 17, 37, 29
	if d.Int8() { // factor and shift for each bias, and for the residual
		accBits, residual, biases, average, kept, sum = 32, spot+9, biases+2, 23, 23, 22
	}
	if d.Post {
		biasLayer = 24
	}
	end := syn.DrainEnd(d)
	list := []Memory{
		// pe_array: two halves per PE, two banks per half (acc_half); in int8 two channels per word
		{accumulators, 4 * chains(d), d.TR / 2, accBits * d.PerDSP(), false},
		// act_buffer: two halves of NB banks
		{activations, banks(d), d.ABufWords, bankBits, false},
		{weightsRing, 1, d.WRingBeats / lanes, wideBits, false},
		{"residual beats", 1, resBeats, wideBits, false},
		{"biases", d.Drain, biases, 32, false},
		{"averages", 1, 512, average, false},
		{"FBCB", 1, abi.LMax * abi.BMax, 32, false},
		// queues
		{"activation runs", 1, 64, 26 + log2(nb) + log2(d.ABufWords) + spot, true},
		{"activation rows", 1, 64, 3, true},
		{"pool columns", 1, 64, nb * kept, true},
		{"pool results", 1, 8, nb*sum + log2(nb) + 9, true},
		{"residual runs", 1, 16, residual, true},
		{"bias beats", 1, 32, wideBits, true},
		{"weight requests", 1, 32, 1, true},
		{"bias layers", 1, 4, biasLayer, true},
		{"drained counts", 1, 8, 1 + log2(d.Drain+1), true},
		{"counts at the drain's end", 1, end, log2(d.Drain + 1), true},
		{"read bursts", d.NAXI, maxOut, beat, true},
		{"written bursts", d.NAXI, maxOut, beat, true},
		{"lengths of written bursts", d.NAXI, maxOut, 8, true},
	}
	for _, b := range []struct{ lanes, blocks int }{{syn.DrainBlock, d.Drain / syn.DrainBlock}, {d.Drain % syn.DrainBlock, 1}} {
		if b.lanes > 0 && b.blocks > 0 {
			list = append(list,
				Memory{"drained words", b.blocks, 8, 1 + log2(biases) + b.lanes*accBits, true},
				Memory{"words at the drain's end", b.blocks, end, b.lanes * 8 * d.ElemBytes(), true})
		}
	}
	if d.Depthwise {
		slots := depthwiseSlots(d)
		list = append(list,
			Memory{depthwiseWeights, 3 * (d.ElemBytes() * nb / wide), (abi.DwWords + 2) / 3, wideBits, false},
			Memory{"depthwise columns", 1, 64, nb * 2 * accBits, true},
			Memory{"depthwise sums", slots, 8 / slots, nb * accBits, true})
	}
	if d.Int8() {
		list = append(list, Memory{"factors", d.Drain, biases, 32, false},
			Memory{"words at the pool's end", 1, syn.PoolEnd(), log2(d.Drain+1) + 8*averaged(d), true})
	}
	if d.Post {
		list = append(list, Memory{"curve offsets", d.Drain, 2 * abi.CurveSegments, 33, true}, Memory{"curve slopes", d.Drain, 2 * abi.CurveSegments, 16, true})
	}
	if d.NAXI == 1 {
		return append(list, Memory{"clients of bursts", 1, maxOut, 2, true}, Memory{"last bursts", 1, maxOut, 1, true})
	}
	words := min(1<<(log2(d.MaxBurst+1)-1), maxOut) / lanes // wide beats of a stripe
	return append(list,
		Memory{"clients of bursts", d.NAXI, maxOut, 1, true},
		Memory{"read lanes", d.NAXI * lanes, min(8*words, 64), d.AXIBytes * 8, true},
		Memory{"read stripes", 1, 64, log2(d.NAXI) + log2(words) + 4, true},
		Memory{"write beats", d.NAXI, 16, wide * 9, true},
		Memory{"write stripes", 1, 32, log2(d.NAXI) + log2(words) + 1, true})
}

const (
	accumulators = "accumulators"
	activations  = "activations"
	weightsRing  = "weights ring"

	depthwiseWeights = "depthwise weights"

	resBeats = 256 // BEATS of res_loader
	maxOut   = 16  // maximum number of outstanding bursts of axi_read and axi_write, and of beats of a stripe
)

// bankBits is the width of the memories in the activation buffer: one element, or in int8 one element of each half.
const bankBits = abi.DataBits

// banks is the number of memories in the activation buffer.
func banks(d configs.Design) int { return d.NB() * d.ElemBytes() }

// log2 is the width of an index below n.
func log2(n int) int { return bits.Len(uint(max(n-1, 0))) }

// Blocks contains the number of blocks of one memory, by kind of block.
type Blocks struct {
	BRAM18 int `json:"bram18"`
	BRAM36 int `json:"bram36"`
	URAM   int `json:"uram"`
	LUTRAM int `json:"lutram"` // number of LUTs that are used as memory
}

func (b *Blocks) add(c Blocks) {
	b.BRAM18 += c.BRAM18
	b.BRAM36 += c.BRAM36
	b.URAM += c.URAM
	b.LUTRAM += c.LUTRAM
}

// half returns the number of block RAMs in units of 18 Kibit.
func (b Blocks) half() int { return b.BRAM18 + 2*b.BRAM36 }

// ram describes one type of memory block with one write port and one read port, as in the libraries of yosys
// (share/yosys/xilinx: lutrams_xc5v, lutrams_xcu, brams_xc4v, urams).
type ram struct {
	kind   int     // yosys keeps the cheapest mapping of each kind
	abits  int     // number of address bits at the narrowest width
	widths []int   // word widths in bits; each next width has one address bit less
	bytes  int     // number of bits per write enable; 0: a word
	cost   float64 // cost of a block
	scale  float64 // part of cost that is proportional to the used bits
	block  Blocks
}

const (
	distributed = iota
	blockRAM
	huge
)

// rams lists the blocks of a family in the order of the libraries. If costs are equal, the first block is used.
var rams = map[string][]ram{
	boards.Series7: slices.Concat([]ram{
		{distributed, 7, []int{1}, 0, 8, 8, Blocks{LUTRAM: 4}}, // RAM128X1D
		{distributed, 6, []int{2}, 0, 8, 8, Blocks{LUTRAM: 4}},
		{distributed, 5, []int{4}, 0, 8, 8, Blocks{LUTRAM: 4}},
		{distributed, 6, []int{3}, 0, 8, 7, Blocks{LUTRAM: 4}}, // RAM64M
		{distributed, 5, []int{6}, 0, 8, 7, Blocks{LUTRAM: 4}}, // RAM32M
	}, bram, []ram{
		// two blocks are used as one block of 64 Kibit, without the multiplexer of a deep memory
		{blockRAM, 16, []int{1}, 9, 513, 0, Blocks{BRAM36: 2}},
	}),
	boards.UltraScalePlus: slices.Concat([]ram{
		{distributed, 6, []int{7}, 0, 16, 16, Blocks{LUTRAM: 8}},  // RAM64M8
		{distributed, 5, []int{14}, 0, 16, 16, Blocks{LUTRAM: 8}}, // RAM32M16
	}, bram, []ram{
		{huge, 12, []int{72}, 8, 1024, 0, Blocks{URAM: 1}},
		{huge, 12, []int{72}, 9, 1024, 0, Blocks{URAM: 1}},
	}),
}

var bram = []ram{
	{blockRAM, 15, []int{1, 2, 4, 9, 18, 36, 72}, 9, 257, 0, Blocks{BRAM36: 1}},
	{blockRAM, 14, []int{1, 2, 4, 9, 18, 36}, 9, 129, 0, Blocks{BRAM18: 1}},
}

// More costs in yosys: per multiplexer bit for rows of blocks, per write enable of a row, per separate read port.
const muxCost, demuxCost, portCost = 0.5, 0.5, 2

// place chooses the word width for one type of block, as memory_libmap of yosys does. Words are padded to whole bytes,
// and several rows of blocks are used if one row has too few words. Rows can share a block: a block of 72 bits stores
// four rows of 16 bits. As in yosys, the best cost is stored without its fraction.
func (r ram) place(words, width int) (b Blocks, inRows int, cost float64) {
	best := -1
	for i, unit := range r.widths {
		padded := unit
		if r.bytes != 0 && r.bytes < unit {
			padded = r.bytes
		}
		padded *= ceil(width, padded)
		rows := ceil(words, 1<<(r.abits-i))
		n := ceil(rows*padded, unit)
		c := (r.cost-r.scale)*float64(n) + r.scale*float64(rows*width)/float64(unit) + muxCost*float64((rows-1)*width) + portCost
		if rows > 1 {
			c += demuxCost * float64(rows)
		}
		if best < 0 || c < float64(best) {
			best, cost, inRows = int(c), c, rows
			b = Blocks{n * r.block.BRAM18, n * r.block.BRAM36, n * r.block.URAM, n * r.block.LUTRAM}
		}
	}
	return b, inRows, cost
}

// Place returns the blocks that yosys 0.23 uses for a memory of words x width bits with one write port and one read
// port. yosys computes the cheapest mapping for each kind of block. Then it compares these mappings and plain
// registers, and uses the cheapest. testdata contains results of yosys.
func Place(family string, words, width int) Blocks {
	b, _ := place(family, words, width)
	return b
}

// place returns the same blocks as Place, and the number of rows of blocks.
func place(family string, words, width int) (best Blocks, rows int) {
	if words < 1 || width < 1 {
		return Blocks{}, 0
	}
	var of [huge + 1]Blocks
	var rowsOf [huge + 1]int
	costs := [huge + 1]float64{math.Inf(1), math.Inf(1), math.Inf(1)}
	for _, r := range rams[family] {
		if b, n, c := r.place(words, width); c < costs[r.kind] {
			of[r.kind], rowsOf[r.kind], costs[r.kind] = b, n, c
		}
	}
	least := words * width
	for k, c := range costs {
		if c < float64(least) {
			best, rows, least = of[k], rowsOf[k], int(c)
		}
	}
	return best, rows
}

// Place returns the blocks of a memory by the rule of yosys or by the rule of Vivado, whichever needs more blocks.
// Vivado extends depths to a power of two on series 7 (AMD AR 61995), and always uses URAM as 4K x 72.
func (m Memory) Place(family string) Blocks {
	b := Blocks{}
	for _, p := range m.parts(family) {
		y := Place(family, p.Words, p.Width)
		if family == boards.Series7 && y.half() > 0 {
			if v := Place(family, 1<<log2(p.Words), p.Width); v.half() > y.half() {
				y = v
			}
		}
		if y.URAM > 0 {
			words, width := p.Words, p.Width
			if m.Name == activations {
				words, width = ceil(words, folded), folded*width
			}
			y.URAM = max(y.URAM, ceil(words, 4096)*ceil(width, 72))
		}
		b.add(y)
	}
	return b
}

// parts returns the memories that the RTL builds for m. If the depth of a bank of activations is not a power of two,
// the RTL splits the bank into powers of two of at least 1,024 words, the largest first (hw/rtl/ram_deep). In URAM a
// bank is one memory with four words per row (hw/rtl/ram_fold).
func (m Memory) parts(family string) []Memory {
	if m.Name != activations || m.Words <= unit || 1<<log2(m.Words) == m.Words || inURAM(family, m.Words, m.Width) {
		return []Memory{m}
	}
	var list []Memory
	span := ceil(m.Words, unit) * unit
	for part := 1 << log2(span); part >= unit; part /= 2 {
		if span&part != 0 {
			m.Words = part
			list = append(list, m)
		}
	}
	return list
}

// folded is the number of words in a row of a folded memory.
const folded = 4

// Folds reports whether the law folds the activation buffer of a design on a family. The law does so if yosys would map
// the banks to URAM (see boards.Board.Folds).
func Folds(family string, d configs.Design) bool {
	return inURAM(family, d.ABufWords, bankBits)
}

func inURAM(family string, words, width int) bool { return Place(family, words, width).URAM > 0 }

func ceil(a, b int) int { return (a + b - 1) / b }
