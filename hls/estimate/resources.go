package estimate

import (
	"math/bits"

	"github.com/sluice-npu/sluice/boards"
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
)

// Storage is what a memory is asked to be made of (bind_storage).
type Storage string

// Block RAM; LUTs as memory; LUTs as shift registers.
const (
	BRAM   Storage = "bram"
	LUTRAM Storage = "lutram"
	SRL    Storage = "srl"
)

// Memory is a group of equal memories of the kernel, each with a port to read and one to write.
type Memory struct {
	Name    string  `json:"name"` // the variable's
	Storage Storage `json:"storage"`
	Count   int     `json:"count"`
	Words   int     `json:"words"`
	Bits    int     `json:"bits"`   // of a word
	BRAM18  int     `json:"bram18"` // of all of them, in blocks of 18 Kibit
	LUTs    int     `json:"luts"`   // of all of them, as memory
}

// Resources are what the kernel's memories and its array take.
type Resources struct {
	Memories []Memory `json:"memories"`
	DSP      int      `json:"dsp"`
	BRAM18   int      `json:"bram18"`
	LUTs     int      `json:"luts_as_memory"` // logic is not estimated
}

// Fits: the board has that many blocks, DSPs, and LUTs that can be memory, of which no device of these families
// has less than three in ten (DS190, DS891).
func (r Resources) Fits(b boards.Board) bool {
	return r.BRAM18 <= 2*b.BRAM36 && r.DSP <= b.DSP && 10*r.LUTs <= 3*b.LUT
}

// Shape of the streams: their depths are params.hpp's, which a test compiles.
const (
	rowsDepth, beatsDepth, biasDepth, sumsDepth = 16, 64, 16, 16
	outstanding                                 = 16 // bursts of a port that have not been answered
	groupBits, countBits                        = 16, 8
)

// Needs is what the kernel of a design takes on a family of devices: the fewest blocks that hold its memories, so a
// tool may take more; DSPs as the flow asks for them (products other than the array's are made of LUTs).
func Needs(d configs.Design, family string) Resources {
	const word = abi.DataBits
	nb, beat := d.NB(), 8*d.AXIBytes
	taps := bits.Len(abi.AvgTable - 1)
	lanes := max(d.Drain, d.AXIBytes/4)
	banks := BRAM
	if d.LUTRAMBanks() {
		banks = LUTRAM
	}
	sums := d.Drain*abi.AccBits + groupBits + countBits + taps
	out := d.Drain*word + countBits
	outDepth := 2 * max(d.AXIBytes*8/word, d.Drain)
	r := Resources{DSP: d.MACs()}
	for _, m := range []Memory{
		{Name: "tiles", Storage: BRAM, Count: 2 * 2 * nb, Words: d.ABufWords / 2, Bits: word}, // blocks, halves, lanes
		{Name: "kept_in", Storage: BRAM, Count: nb, Words: d.ABufWords, Bits: word},
		{Name: "kept_out", Storage: BRAM, Count: nb, Words: d.ABufWords, Bits: word},
		{Name: "banks", Storage: banks, Count: 2 * 2 * d.TC, Words: d.TR / 2, Bits: abi.AccBits}, // blocks, halves, PEs
		{Name: "ring", Storage: BRAM, Count: 1, Words: d.WRingBeats, Bits: beat},
		{Name: "bias", Storage: LUTRAM, Count: lanes, Words: ceil(d.CMax, lanes) + 1, Bits: 32},
		{Name: "table", Storage: LUTRAM, Count: 1, Words: abi.AvgTable, Bits: avgMulBits},
		{Name: "rows", Storage: SRL, Count: 1, Words: rowsDepth, Bits: nb*word + 1},
		{Name: "biases", Storage: SRL, Count: 1, Words: biasDepth, Bits: beat},
		{Name: "weights", Storage: SRL, Count: 1, Words: beatsDepth, Bits: beat},
		{Name: "vecs", Storage: SRL, Count: 1, Words: 2 * d.TC, Bits: 2 * d.TP * word},
		{Name: "pooled", Storage: SRL, Count: 1, Words: sumsDepth, Bits: sums},
		{Name: "sums", Storage: SRL, Count: 1, Words: sumsDepth, Bits: sums},
		{Name: "fetched", Storage: SRL, Count: 1, Words: beatsDepth, Bits: beat},
		{Name: "residuals", Storage: SRL, Count: 1, Words: outDepth, Bits: out},
		{Name: "outs", Storage: SRL, Count: 1, Words: outDepth, Bits: out},
		{Name: "local", Storage: SRL, Count: 1, Words: outDepth, Bits: out},
		{Name: "packed", Storage: SRL, Count: 1, Words: beatsDepth, Bits: beat},
		// what the vendor's adapters of m_axi ports hold: what a, w, r and o have asked for, and what o writes
		{Name: "m_axi", Storage: BRAM, Count: 4 + 1, Words: outstanding * d.MaxBurst, Bits: beat},
	} {
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

// avgMulBits are the descriptor's field AVG_MUL.
const avgMulBits = 17

// blocks18 is the fewest blocks of 18 Kibit that hold a memory; a block of 36 Kibit is two. Both families have
// these shapes (UG473, UG573).
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

// lutRAM is the LUTs of a memory with a port to write and one to read: in series 7 four hold 64 words of 3 bits
// (RAM64M), in UltraScale+ eight hold 64 of 7 (RAM64M8).
func lutRAM(family string, words, width int) int {
	luts, held := 4, 3
	if family == boards.UltraScalePlus {
		luts, held = 8, 7
	}
	return ceil(words, 64) * ceil(width, held) * luts
}
