package npu

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
)

// testNet is a small network that can be written by hand: two exits over an input of 24 elements.
//
//	segment 0: fc0 24 -> 6, the logits of exit 0
//	segment 1: fc1 24 -> 16 with ReLU, fc2 16 -> 6, the logits of exit 1
type testNet struct {
	b  *bundle.Bundle
	fc []fc
}

type fc struct {
	in, out      int // elements
	inOff, toOff int // bytes in the slot
	shift        int
	lo           int16
	w            []int16 // [out][in]
	bias         []int32
}

const (
	testIn      = 24
	testClasses = 6
	testStride  = 192
)

func newTestNet(tb testing.TB, d configs.Design) *testNet {
	tb.Helper()
	rng := rand.New(rand.NewPCG(7, 7))
	n := &testNet{fc: []fc{
		{in: testIn, out: testClasses, inOff: 0, toOff: 64, shift: 8, lo: -32768},
		{in: testIn, out: 16, inOff: 0, toOff: 96, shift: 8, lo: 0},
		{in: 16, out: testClasses, inOff: 96, toOff: 144, shift: 8, lo: -32768},
	}}
	b := &bundle.Bundle{
		Design: d, ABIHash: abi.Hash, Slot: bundle.Slot{Stride: testStride},
		Network: bundle.Network{
			Name: "two-exits", InH: 1, InW: 1, InC: testIn, InFrac: 8, InPix: testIn,
			Exits: []bundle.Exit{
				{Name: "early", First: 0, Last: 0, Offset: 64, Classes: testClasses, Frac: 6},
				{Name: "final", First: 1, Last: 2, Offset: 144, Classes: testClasses, Frac: 6},
			},
		},
	}
	for i := range n.fc {
		f := &n.fc[i]
		f.w = make([]int16, f.in*f.out)
		for j := range f.w {
			f.w[j] = int16(rng.IntN(513) - 256)
		}
		align := func() {
			b.Weights = append(b.Weights, make([]byte, -len(b.Weights)&(abi.WeightAlign-1))...)
		}
		f.bias = make([]int32, f.out)
		for j := range f.bias {
			f.bias[j] = int32(rng.IntN(20001) - 10000)
		}
		align()
		bias := uint32(len(b.Weights))
		for _, v := range f.bias {
			b.Weights = binary.LittleEndian.AppendUint32(b.Weights, uint32(v))
		}
		align()
		packed, err := bundle.PackWeights(d, 0, f.w, f.out, 1, f.in)
		if err != nil {
			tb.Fatal(err)
		}
		tile := func(channels int) int {
			chunks := (f.in + d.TP - 1) / d.TP
			return (chunks*d.TP*channels*2 + abi.WeightAlign - 1) / abi.WeightAlign * abi.WeightAlign
		}
		b.Layers = append(b.Layers, abi.Desc{
			Op: abi.OpGEMM, Magic: abi.DescMagic,
			InOffset: uint32(f.inOff), OutOffset: uint32(f.toOff),
			InH: 1, InW: 1, InC: uint16(f.in), InPix: uint16(f.in),
			OutH: 1, OutW: 1, OutC: uint16(f.out), OutPix: uint16(f.out),
			Shift: uint8(f.shift), KH: 1, KW: 1, SH: 1, SW: 1, ClampLo: f.lo, ClampHi: 32767,
			WOffset1: uint32(len(b.Weights)), WBytes1: uint32(len(packed)), WTile1: uint32(tile(d.TC)),
			BiasOffset: bias, BiasCount: uint16(f.out),
			InRow: uint32(f.in), InRowBytes: uint32(2 * f.in), OutRowBytes: uint32(2 * f.out),
			StepRow: uint32(f.in), StepCol: uint32(f.in), KWC: uint32(f.in),
		})
		b.Weights = append(b.Weights, packed...)
		row := make([]abi.FBCB, abi.BMax)
		for j := range row {
			row[j] = abi.FBCB{BR: uint8(j + 1), TileB: uint8(j + 1), TileRows: 1}
		}
		b.FBCB = append(b.FBCB, row)
		b.Names = append(b.Names, "fc")
	}
	if err := b.Validate(); err != nil {
		tb.Fatalf("the test's own bundle: %v", err)
	}
	n.b = b
	return n
}

// layer computes one layer in one slot, as dse/README has it: y = clamp(sat16(rnd(acc + bias, sh))).
func (n *testNet) layer(l int, slot []byte) {
	f := &n.fc[l]
	for o := range f.out {
		acc := int64(f.bias[o])
		for i := range f.in {
			acc += int64(f.w[o*f.in+i]) * int64(int16(binary.LittleEndian.Uint16(slot[f.inOff+2*i:])))
		}
		y := (acc + 1<<(f.shift-1)) >> f.shift
		y = max(min(y, 32767), -32768)
		y = max(y, int64(f.lo))
		binary.LittleEndian.PutUint16(slot[f.toOff+2*o:], uint16(int16(y)))
	}
}

// logits returns the logits of an exit for an input.
func (n *testNet) logits(input []int16, exit int) []int16 {
	slot := make([]byte, testStride)
	for i, v := range input {
		binary.LittleEndian.PutUint16(slot[2*i:], uint16(v))
	}
	for l := range n.b.Network.Exits[exit].Last + 1 {
		n.layer(l, slot)
	}
	raw := make([]int16, testClasses)
	for i := range raw {
		raw[i] = int16(binary.LittleEndian.Uint16(slot[n.b.Network.Exits[exit].Offset+2*i:]))
	}
	return raw
}

func testInput(rng *rand.Rand) []int16 {
	in := make([]int16, testIn)
	for i := range in {
		in[i] = int16(rng.IntN(1025) - 512)
	}
	return in
}

// testDesign is a design for tests without hardware.
func testDesign(tb testing.TB) configs.Design {
	tb.Helper()
	d, err := configs.Load("tiny")
	if err != nil {
		tb.Fatal(err)
	}
	return d
}
