package estimate

import (
	"math/bits"

	"github.com/sluice-npu/sluice/boards"
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
)

// Storage is the kind of memory that a pragma selects (bind_storage).
type Storage string

// Block RAM, LUT memory, LUT shift registers.
const (
	BRAM   Storage = "bram"
	LUTRAM Storage = "lutram"
	SRL    Storage = "srl"
)

// Memory is a group of equal memories of the kernel, each with one read port and one write port.
type Memory struct {
	Name    string  `json:"name"` // name of the variable
	Storage Storage `json:"storage"`
	Count   int     `json:"count"`
	Words   int     `json:"words"`
	Bits    int     `json:"bits"`   // bits per word
	BRAM18  int     `json:"bram18"` // total number of blocks of 18 Kibit
	LUTs    int     `json:"luts"`   // total number of LUTs used as memory
}

// Resources contains the resources that the kernel's memories and array need.
type Resources struct {
	Memories []Memory `json:"memories"`
	DSP      int      `json:"dsp"`
	BRAM18   int      `json:"bram18"`
	LUTs     int      `json:"luts_as_memory"` // logic is not estimated
}

// Fits reports whether the board has enough block RAM, DSPs, and LUTs that can be memory. In every device of these
// families, at least three in ten LUTs can be memory (DS190, DS891).
func (r Resources) Fits(b boards.Board) bool {
	return r.BRAM18 <= 2*b.BRAM36 && r.DSP <= b.DSP && 10*r.LUTs <= 3*b.LUT
}

// Depths and widths of the streams. A test compiles params.hpp and checks that its depths equal these depths.
const (
	rowsDepth, beatsDepth, biasDepth, sumsDepth = 16, 64, 16, 16
	outstanding                                 = 16 // largest number of unanswered bursts of a port
	groupBits, countBits                        = 16, 8
)

// Needs returns the resources that a design's kernel needs on a family of devices. BRAM18 is the minimum for the
// memories; a tool can use more. DSP counts only the DSPs that the flow requests: other multipliers are LUTs.
func Needs(d configs.Design, family string) Resources {
	const weight = abi.DataBits
	nb, beat, word := d.NB(), 8*d.AXIBytes, 8*d.ElemBytes()
	taps := bits.Len(abi.AvgTable - 1)
	acc, entry, biases := abi.AccBits, avgMulBits, 1
	if d.Int8() {
		acc, entry, biases = 32, abi.FactorShift+avgShiftBits, 2
	}
	lanes := max(biases*d.Drain, d.AXIBytes/4)
	banks := BRAM
	if d.LUTRAMBanks() {
		banks = LUTRAM
	}
	sums := d.Drain*acc + groupBits + countBits + taps
	out := d.Drain*word + countBits
	outDepth := 2 * max(d.AXIBytes*8/word, d.Drain)
	r := Resources{DSP: d.MACs() / d.PerDSP()}
	vec := 2 * d.TP
	var options []Memory
	if d.Depthwise {
		r.DSP += nb
		vec = max(vec, nb/d.PerDSP())
		options = append(options, Memory{Name: "held", Storage: BRAM, Count: nb, Words: abi.DwWords, Bits: word})
	}
	if d.Post {
		options = append(options,
			Memory{Name: "offsets", Storage: LUTRAM, Count: d.Drain, Words: abi.CurveSegments, Bits: 32},
			Memory{Name: "slopes", Storage: LUTRAM, Count: d.Drain, Words: abi.CurveSegments, Bits: weight},
			Memory{Name: "pixel", Storage: LUTRAM, Count: d.Drain, Words: d.CMax / d.Drain, Bits: word})
	}
	for _, m := range append([]Memory{
		{Name: "tiles", Storage: BRAM, Count: 2 * 2 * nb, Words: d.ABufWords / 2, Bits: word}, // Count: blocks, halves, lanes
		{Name: "kept_in", Storage: BRAM, Count: nb, Words: d.ABufWords, Bits: word},
		{Name: "kept_out", Storage: BRAM, Count: nb, Words: d.ABufWords, Bits: word},
		{Name: "banks", Storage: banks, Count: 2 * 2 * d.TC, Words: d.TR / 2, Bits: acc}, // Count: blocks, halves, PEs
		{Name: "ring", Storage: BRAM, Count: 1, Words: d.WRingBeats, Bits: beat},
		{Name: "bias", Storage: LUTRAM, Count: lanes, Words: ceil(biases*d.CMax, lanes) + 1, Bits: 32},
		{Name: "table", Storage: LUTRAM, Count: 1, Words: abi.AvgTable, Bits: entry},
		{Name: "rows", Storage: SRL, Count: 1, Words: rowsDepth, Bits: nb*word + 1},
		{Name: "biases", Storage: SRL, Count: 1, Words: biasDepth, Bits: beat},
		{Name: "weights", Storage: SRL, Count: 1, Words: beatsDepth, Bits: beat},
		{Name: "vecs", Storage: SRL, Count: 1, Words: 2 * d.TC, Bits: vec * weight},
		{Name: "pooled", Storage: SRL, Count: 1, Words: sumsDepth, Bits: sums},
		{Name: "sums", Storage: SRL, Count: 1, Words: sumsDepth, Bits: sums},
		{Name: "fetched", Storage: SRL, Count: 1, Words: beatsDepth, Bits: beat},
		{Name: "residuals", Storage: SRL, Count: 1, Words: outDepth, Bits: out},
		{Name: "outs", Storage: SRL, Count: 1, Words: outDepth, Bits: out},
		{Name: "local", Storage: SRL, Count: 1, Words: outDepth, Bits: out},
		{Name: "packed", Storage: SRL, Count: 1, Words: beatsDepth, Bits: beat},
		// buffers in the vendor's adapters of m_axi ports: one per port (a, w, r, o) for outstanding reads, and one for
		// the writes of o
		{Name: "m_axi", Storage: BRAM, Count: 4 + 1, Words: outstanding * d.MaxBurst, Bits: beat},
	}, options...) {
		switch m.Storage {
		case BRAM:
			m.BRAM18 = m.Count * blocks18(m.Words, m.Bits)
		case LUTRAM:
			m.LUTs = m.Count * lutRAM(family, m.Words, m.Bits)
		case SRL:
			m.LUTs = m.Count * ceil(m.Words, 32) * m.Bits
		}
		r.BRAM18 += m.BRAM18
		r.LUTs += m.LUTs
		r.Memories = append(r.Memories, m)
	}
	return r
}

// avgMulBits and avgShiftBits are the widths of the descriptor's fields AVG_MUL and AVG_SHIFT.
const avgMulBits, avgShiftBits = 17, 6

// blocks18 returns the minimum number of 18 Kibit blocks for a memory. A 36 Kibit block counts as two. Series 7
// (UG473) and UltraScale+ (UG573) have these shapes.
func blocks18(words, width int) int {
	best := 0
	for _, shape := range []struct{ words, bits, units int }{
		{512, 72, 2},
		{1 << 10, 36, 2},
		{2 << 10, 18, 2},
		{4 << 10, 9, 2},
		{8 << 10, 4, 2},
		{16 << 10, 2, 2},
		{32 << 10, 1, 2},
		{512, 36, 1},
		{1 << 10, 18, 1},
		{2 << 10, 9, 1},
		{4 << 10, 4, 1},
		{8 << 10, 2, 1},
		{16 << 10, 1, 1},
	} {
		if n := ceil(words, shape.words) * ceil(width, shape.bits) * shape.units; best == 0 || n < best {
			best = n
		}
	}
	return best
}

// lutRAM returns the number of LUTs of a memory with one write port and one read port. In series 7, four LUTs store 64
// words of 3 bits (RAM64M). In UltraScale+, eight LUTs store 64 words of 7 bits (RAM64M8).
func lutRAM(family string, words, width int) int {
	luts, held := 4, 3
	if family == boards.UltraScalePlus {
		luts, held = 8, 7
	}
	return ceil(words, 64) * ceil(width, held) * luts
}
