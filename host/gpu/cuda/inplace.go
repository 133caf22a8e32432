// InPlace is a test network with kernels that work in place. No bundle has such kernels. If a stopped launch of this
// network resumes at the wrong kernel, its results are wrong.

package cuda

import (
	"fmt"
	"math/bits"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/hw/abi"
)

const InPlaceName = "in-place"

const (
	inPlaceRounds   = 8 // an even number, so that the result is located where the input was
	inPlaceChannels = 32
	inPlaceClasses  = 16
	inPlaceGather   = 4 // each exit kernel reduces a square of pixels with this side to one pixel
)

// The network has these kinds of kernels: first the kinds of a round, in execution order, then the exit's kind.
const (
	InPlaceMake  = "make"
	InPlaceAdd   = "add"   // in place
	InPlaceScale = "scale" // in place
	InPlaceExit  = "exit"
)

// InPlaceKinds lists all kinds of kernels of the network.
var InPlaceKinds = []string{InPlaceMake, InPlaceAdd, InPlaceScale, InPlaceExit}

// InPlaceKind returns the kind of a kernel, and whether it overwrites its input.
func InPlaceKind(kernel int) (kind string, inPlace bool) {
	if kernel >= 3*inPlaceRounds {
		return InPlaceExit, false
	}
	return InPlaceKinds[kernel%3], kernel%3 > 0
}

// InPlace returns a network of several rounds on an image of side x side pixels. A round has three kernels. The first
// computes one of two tensors from the other tensor. The second adds to this result in place, and the third scales it
// in place. A launch stopped in the second or third kernel must resume at the first kernel of its round. At any other
// kernel, the input would be an unfinished tensor, or a tensor that the next round has overwritten. Every element of
// the last tensor affects the exit. The exit kernels reduce sixteen pixels to one repeatedly. A single block that reads
// all pixels would run longer than the rounds, and most kills would stop that block.
func InPlace(seed uint64, side int) *Drawn {
	row, size := 2*inPlaceChannels*side, 2*inPlaceChannels*side*side
	b := &bundle.Bundle{}
	b.Network = bundle.Network{Name: InPlaceName, InH: side, InW: side, InC: inPlaceChannels, InPix: inPlaceChannels}
	add := func(d abi.Desc, name string, round int) {
		d.ClampLo, d.ClampHi, d.InC, d.InPix = -32768, 32767, inPlaceChannels, inPlaceChannels
		if d.OutC == 0 {
			d.InH, d.InW, d.InRowBytes, d.SH, d.SW = uint16(side), uint16(side), uint32(row), 1, 1
			d.OutH, d.OutW, d.OutC, d.OutPix, d.OutRowBytes = d.InH, d.InW, d.InC, d.InPix, d.InRowBytes
		}
		b.Layers, b.Names = append(b.Layers, d), append(b.Names, fmt.Sprint(name, " ", round))
	}
	for round := range inPlaceRounds {
		from, to := uint32(round%2*size), uint32((round+1)%2*size)
		first := abi.Desc{Op: abi.OpGEMM, InOffset: from, OutOffset: to, KH: 3, KW: 3, PadT: 1, PadL: 1, Shift: 10}
		more := first
		more.Residual, more.ResOffset, more.ResPix, more.ResRowBytes, more.ResShift = true, to, inPlaceChannels, uint32(row), 10
		add(first, InPlaceMake, round)
		add(more, InPlaceAdd, round)
		add(abi.Desc{Op: abi.OpAvgPool, InOffset: to, OutOffset: to, KH: 1, KW: 1, AvgMul: 3, AvgShift: 2}, InPlaceScale, round)
	}
	from, to, left := 0, 2*size, side
	for left > inPlaceGather {
		d := abi.Desc{Op: abi.OpGEMM, InOffset: uint32(from), OutOffset: uint32(to), KH: inPlaceGather, KW: inPlaceGather, SH: inPlaceGather, SW: inPlaceGather, Shift: 11}
		d.InH, d.InW, d.InRowBytes = uint16(left), uint16(left), uint32(2*inPlaceChannels*left)
		left /= inPlaceGather
		d.OutH, d.OutW, d.OutC, d.OutPix, d.OutRowBytes = uint16(left), uint16(left), inPlaceChannels, inPlaceChannels, uint32(2*inPlaceChannels*left)
		add(d, InPlaceExit, left)
		from, to = to, to+2*inPlaceChannels*left*left
	}
	add(abi.Desc{
		Op: abi.OpGEMM, InOffset: uint32(from), OutOffset: uint32(to), KH: uint8(left), KW: uint8(left), SH: 1, SW: 1, Shift: uint8(7 + bits.Len(uint(left))),
		InH: uint16(left), InW: uint16(left), InRowBytes: uint32(2 * inPlaceChannels * left),
		OutH: 1, OutW: 1, OutC: inPlaceClasses, OutPix: inPlaceClasses, OutRowBytes: 2 * inPlaceClasses,
	}, InPlaceExit, 1)
	b.Slot.Stride = int64(to + 256)
	b.Network.Exits = []bundle.Exit{{Last: len(b.Layers) - 1, Offset: to, Classes: inPlaceClasses, Frac: 8}}
	return &Drawn{Bundle: b, Seed: seed}
}
