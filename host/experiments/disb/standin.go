package disb

import (
	"fmt"
	"math"
	"math/bits"
	"strings"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/host/gpu/catalogue"
	"github.com/sluice-npu/sluice/hw/abi"
)

// StandIn imitates a network of the catalogue with the device's own kernels. Each kernel of the catalogue becomes a
// layer with the same tensors (place and size), window and number of multiplications, in 16 bits in place of 32. A
// product of two computed tensors (attention) becomes a product with weights. A pass over several tensors reads only
// the first tensor. So times and memory traffic are similar to the network's, but results are meaningless. shrink is
// the divisor of every tensor side.
func StandIn(network string, shrink int) (*bundle.Bundle, error) {
	s, err := catalogue.Shapes(catalogue.Spec{Network: network}, shrink)
	if err != nil {
		return nil, err
	}
	const align = 256
	b := &bundle.Bundle{}
	b.Slot.Stride = (2*s.Memory + 2*align) / align * align
	b.Network = bundle.Network{Name: network, InH: s.In.H, InW: s.In.W, InC: s.In.C, InPix: s.In.C, InOffset: int(2 * s.In.At)}
	from := 0
	for i := range s.Kernels {
		k := &s.Kernels[i]
		d, err := descriptor(k)
		if err != nil {
			return nil, fmt.Errorf("%s, kernel %d (%s): %w", network, i, k.Name, err)
		}
		b.Layers, b.Names = append(b.Layers, d), append(b.Names, k.Name)
		if k.Exit {
			b.Network.Exits = append(b.Network.Exits, bundle.Exit{First: from, Last: i, Offset: int(2 * k.Out.At), Classes: min(k.Out.C, 1000), Frac: 8})
			from = i + 1
		}
	}
	return b, nil
}

// descriptor returns the layer that imitates a kernel.
func descriptor(k *catalogue.Shape) (d abi.Desc, err error) {
	in, out := k.In, k.Out
	if !k.Product && k.KH == 0 { // a pass over all elements in their order, 32 elements per pixel
		in, out = flat(in, out)
	}
	for _, n := range []int{in.H, in.W, in.C, out.H, out.W, out.C} {
		if n < 1 || n > math.MaxUint16 {
			return d, fmt.Errorf("a side of %d: 1..%d are expected", n, math.MaxUint16)
		}
	}
	if max(k.KH, k.KW, k.Stride) > math.MaxUint8 || 2*max(in.At, out.At) > math.MaxUint32 {
		return d, fmt.Errorf("a window of %d x %d, tensors at %d and %d", k.KH, k.KW, in.At, out.At)
	}
	d = abi.Desc{
		Op: abi.OpAvgPool, InOffset: uint32(2 * in.At), OutOffset: uint32(2 * out.At),
		InH: uint16(in.H), InW: uint16(in.W), InC: uint16(in.C), InPix: uint16(in.C), InRowBytes: uint32(2 * in.W * in.C),
		OutH: uint16(out.H), OutW: uint16(out.W), OutC: uint16(out.C), OutPix: uint16(out.C), OutRowBytes: uint32(2 * out.W * out.C),
		KH: uint8(max(1, k.KH)), KW: uint8(max(1, k.KW)), SH: uint8(max(1, k.Stride)), SW: uint8(max(1, k.Stride)),
		ClampLo: math.MinInt16, ClampHi: math.MaxInt16,
	}
	if k.Pad {
		d.PadT, d.PadL = (d.KH-1)/2, (d.KW-1)/2
	}
	if strings.Contains(k.Name, "relu") {
		d.ClampLo = 0
	}
	if !k.Product {
		const one = 16
		d.AvgMul, d.AvgShift = uint32(1<<one)/(uint32(d.KH)*uint32(d.KW)), one
		return d, nil
	}
	d.Op, d.InC = abi.OpGEMM, uint16(k.K)
	// Weights are random in -128..127. With this shift, results are about as large as inputs.
	d.Shift = uint8(6 + bits.Len(uint(d.KH)*uint(d.KW)*uint(k.K))/2)
	if r := k.Add; r != nil {
		d.Residual, d.ResOffset, d.ResPix, d.ResRowBytes, d.ResShift = true, uint32(2*r.At), uint16(r.C), uint32(2*r.W*r.C), d.Shift
	}
	return d, nil
}

// flat represents two tensors as rows of pixels with 32 elements. The last pixel can extend beyond its tensor, but not
// into the next tensor.
func flat(in, out catalogue.Place) (from, to catalogue.Place) {
	const side = 32
	pixels := func(p *catalogue.Place) int { return int((p.Elements() + side - 1) / side) }
	n := pixels(&out)
	h := (n + math.MaxUint16 - 1) / math.MaxUint16
	to = catalogue.Place{At: out.At, H: h, W: n / h, C: side}
	from = catalogue.Place{At: in.At, H: max(1, pixels(&in)/to.W), W: min(to.W, pixels(&in)), C: side}
	return from, to
}
