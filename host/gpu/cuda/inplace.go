// A network whose kernels work in place, as those of no bundle do: what goes wrong where a launch that was stopped does
// not go on where it should is seen on it.

package cuda

import (
	"fmt"
	"math/bits"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/hw/abi"
)

// InPlaceName is that network's.
const InPlaceName = "in-place"

const (
	inPlaceRounds   = 8 // even: the last one leaves its result where the input was
	inPlaceChannels = 32
	inPlaceClasses  = 16
	inPlaceGather   = 4 // pixels a side that the exit's kernels make one of
)

// Kinds of that network's kernels: a round's, in their order, and the exit's.
const (
	InPlaceMake  = "make"
	InPlaceAdd   = "add"   // in place
	InPlaceScale = "scale" // in place
	InPlaceExit  = "exit"
)

// InPlaceKinds are all of them.
var InPlaceKinds = []string{InPlaceMake, InPlaceAdd, InPlaceScale, InPlaceExit}

// InPlaceKind is the kind of a kernel of that network; inPlace: it writes over what it reads.
func InPlaceKind(kernel int) (kind string, inPlace bool) {
	if kernel >= 3*inPlaceRounds {
		return InPlaceExit, false
	}
	return InPlaceKinds[kernel%3], kernel%3 > 0
}

// InPlace is a network of rounds, of an image of side x side pixels. A round makes one tensor of the other, adds to it
// in place and scales it in place, so that whoever is stopped in one of these two goes back to its first kernel; and the
// next round writes over what that read, so that a kernel that runs on half a result destroys what it would be made of
// again. Every element of the last tensor is in what the exit shows: of sixteen pixels one is made until few are left,
// since one kernel of a single block that reads them all would take longer than the rounds, and be what most kills hit.
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
