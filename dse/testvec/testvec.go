// Package testvec converts a bundle to test vectors (sim/VECTORS.md). The vectors contain the memory image, the
// register writes of a driver, one start for each segment, and the expected slots after each start. The package golden
// computes the expected slots. RTL, netlist, HLS kernel and boards run the same file.
package testvec

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/dse/golden"
	"github.com/sluice-npu/sluice/dse/randnet"
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/sim/vectors"
)

// Slots is the number of slots in the vectors. The samples of a batch can be in any of these slots.
const Slots = 2 * abi.BMax

// MaxBatch is the maximum batch size of a start. StartLimit is the maximum number of cycles of a start.
const (
	MaxBatch   = abi.BMax
	StartLimit = 4 << 20
)

// ErrBase is wrapped by errors about a base address at which the NPU cannot access the memory.
var ErrBase = errors.New("no base address")

// Layout specifies where the data are in the memory of the NPU, and how the layers are started.
type Layout struct {
	Base  uint64 // lowest address, aligned to 64 bytes
	Limit uint64 // maximum number of cycles of a start
	Apart bool   // one start for each layer instead of one for each segment; no tensor is kept on chip
}

func align(x uint64) uint64 { return (x + 63) &^ 63 }

// Load returns records that write descriptors, weights and FBCB, and check the hashes of the hardware.
func Load(b *bundle.Bundle, at Layout) (records []vectors.Record, slots uint64, err error) {
	desc := make([]byte, 0, len(b.Layers)*abi.DescBytes)
	for l := range b.Layers {
		d, err := b.Layers[l].Encode()
		if err != nil {
			return nil, 0, fmt.Errorf("layer %d: %w", l, err)
		}
		desc = append(desc, d[:]...)
	}
	weights := at.Base + align(uint64(len(desc)))
	slots = weights + align(uint64(len(b.Weights)))
	if end := slots + Slots*uint64(b.Slot.Stride); at.Base != align(at.Base) || at.Base > end || end > 1<<abi.AddrBits {
		return nil, 0, fmt.Errorf("%w: %#x: expected a multiple of 64, and the end, %#x, within %d bits", ErrBase, at.Base, end, abi.AddrBits)
	}
	hash := b.Design.Hash()
	records = append(records,
		vectors.RegExpect{Off: abi.RegABIHash0, Mask: ^uint32(0), Val: uint32(abi.Hash & 0xFFFFFFFF)},
		vectors.RegExpect{Off: abi.RegABIHash1, Mask: ^uint32(0), Val: uint32(abi.Hash >> 32)},
		vectors.RegExpect{Off: abi.RegDesignHash0, Mask: ^uint32(0), Val: uint32(hash)},
		vectors.RegExpect{Off: abi.RegDesignHash1, Mask: ^uint32(0), Val: uint32(hash >> 32)},
		vectors.MemWrite{Addr: at.Base, Data: desc},
		vectors.RegWrite{Off: abi.RegDescBaseLo, Val: uint32(at.Base)},
		vectors.RegWrite{Off: abi.RegDescBaseHi, Val: uint32(at.Base >> 32)},
		vectors.RegWrite{Off: abi.RegWeightBaseLo, Val: uint32(weights)},
		vectors.RegWrite{Off: abi.RegWeightBaseHi, Val: uint32(weights >> 32)},
		vectors.RegWrite{Off: abi.RegSlotBaseLo, Val: uint32(slots)},
		vectors.RegWrite{Off: abi.RegSlotBaseHi, Val: uint32(slots >> 32)},
		vectors.RegWrite{Off: abi.RegSlotStride, Val: uint32(b.Slot.Stride)},
		vectors.RegWrite{Off: abi.RegNSlot, Val: Slots},
		vectors.RegWrite{Off: abi.RegIRQEnable, Val: 3},
		vectors.RegWrite{Off: abi.RegWatchdog, Val: 1 << 20},
		vectors.RegWrite{Off: abi.RegFBCBAddr, Val: 0},
	)
	if len(b.Weights) > 0 {
		records = append(records, vectors.MemWrite{Addr: weights, Data: b.Weights})
	}
	for l := range b.FBCB {
		for _, e := range b.FBCB[l] {
			v, err := e.Encode()
			if err != nil {
				return nil, 0, fmt.Errorf("layer %d: %w", l, err)
			}
			records = append(records, vectors.RegWrite{Off: abi.RegFBCBData, Val: v})
		}
	}
	return records, slots, nil
}

// Start returns records that run the layers first to last for the samples in the given slots, and that expect success.
func Start(first, last int, table []int, limit uint64) []vectors.Record {
	records := []vectors.Record{
		vectors.RegWrite{Off: abi.RegLayers, Val: uint32(first) | uint32(last)<<8},
		vectors.RegWrite{Off: abi.RegBatch, Val: uint32(len(table))},
	}
	for i, s := range table {
		records = append(records, vectors.RegWrite{Off: abi.RegSlotTable + 4*uint32(i), Val: uint32(s)})
	}
	return append(records,
		vectors.RegWrite{Off: abi.RegCtrl, Val: 1},
		vectors.Run{MaxCycles: limit, ExpectIRQ: true},
		vectors.RegExpect{Off: abi.RegError, Mask: ^uint32(0), Val: 0},
		vectors.RegExpect{Off: abi.RegIRQStatus, Mask: 3, Val: 1},
		vectors.RegWrite{Off: abi.RegIRQStatus, Val: 3},
	)
}

// FromBundle returns records that load the bundle, and run every segment with a batch of random inputs in random slots.
func FromBundle(b *bundle.Bundle, rng *rand.Rand, batch int, at Layout) ([]vectors.Record, error) {
	prog, err := golden.New(b)
	if err != nil {
		return nil, err
	}
	records, base, err := Load(b, at)
	if err != nil {
		return nil, err
	}
	table := rng.Perm(Slots)[:batch]
	memory := make([][]byte, Slots)
	for i := range memory {
		// the vectors check that bytes outside all tensors do not change
		memory[i] = make([]byte, b.Slot.Stride)
		for j := range memory[i] {
			memory[i][j] = byte(rng.Uint32())
		}
	}
	for _, s := range table {
		if err := prog.SetInput(memory[s], randnet.Input(rng, b)); err != nil {
			return nil, err
		}
	}
	records = append(records, vectors.MemWrite{Addr: base, Data: bytes.Join(memory, nil)})
	if at.Apart {
		for l := range b.FBCB {
			if b.FBCB[l][batch-1].KeepOut {
				return nil, fmt.Errorf("layer %d keeps its tensor on chip, so it cannot be the only one of a start", l)
			}
		}
	}
	for i, e := range b.Network.Exits {
		step := e.Last - e.First + 1
		if at.Apart {
			step = 1
		}
		for first := e.First; first <= e.Last; first += step {
			records = append(records, Start(first, first+step-1, table, at.Limit)...)
		}
		for _, s := range table {
			if err := prog.Segment(i, batch, memory[s]); err != nil {
				return nil, fmt.Errorf("segment %d: %w", i, err)
			}
		}
		records = append(records, vectors.MemExpect{Addr: base, Data: bytes.Join(memory, nil)})
	}
	return records, nil
}
