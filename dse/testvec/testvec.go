// Package testvec converts a bundle to test vectors (sim/VECTORS.md): the memory image, a driver's register writes,
// one start for each segment, and after each start the slots as golden computes them. RTL, netlist, HLS kernel and
// boards play the same file.
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

// Slots is the number of slots in the vectors: the largest batch may lie anywhere among them.
const Slots = 2 * abi.BMax

// MaxBatch is the largest batch of a start; StartLimit bounds its cycles.
const (
	MaxBatch   = abi.BMax
	StartLimit = 4 << 20
)

// ErrBase says that the NPU cannot reach the memory at that base address.
var ErrBase = errors.New("no base address")

// Layout places the data in the NPU's memory.
type Layout struct {
	Base  uint64 // lowest address, 64-byte aligned
	Limit uint64 // cycles a start may take
	Apart bool   // one start for each layer, with no tensor kept on chip, instead of one for each segment
}

func align(x uint64) uint64 { return (x + 63) &^ 63 }

// Load writes descriptors, weights and FBCB, and checks the hardware's hashes.
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

// Start runs layers first..last for the samples in the given slots and expects success.
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

// FromBundle loads the bundle and runs every segment with a batch of random inputs in random slots.
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
		// bytes outside all tensors must not change
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
