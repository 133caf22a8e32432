package bundle

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/sluice-npu/sluice/dse/cost"
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
)

// PackWeights packs the weights of one layer, [C][K_H][K_W*IN_C], in the order in which the hardware reads them for
// stacking factor k. The order from outer to inner is: C tiles of T_C' channels, K_H, chunks of T_P' elements of the
// kernel row, and the channels of the tile. The last chunk is filled with zeros. Every C tile is padded to WEIGHT_ALIGN
// bytes. In int8 two channels share a multiplier. The pair is packed like one int16 channel: each word has the even
// channel in the low byte, and the odd channel in the high byte.
func PackWeights(d configs.Design, k cost.K, w []int16, c, kh, kwc int) ([]byte, error) {
	tp, tc, err := tree(d, k)
	if err != nil {
		return nil, err
	}
	if c < 1 || kh < 1 || kwc < 1 || len(w) != c*kh*kwc {
		return nil, fmt.Errorf("pack weights: %d for %d channels of %d x %d", len(w), c, kh, kwc)
	}
	if d.Int8() {
		words, err := paired(w, c)
		if err != nil {
			return nil, fmt.Errorf("pack weights: %w", err)
		}
		return PackWeights(ofPairs(d), k, words, (c+1)/2, kh, kwc)
	}
	chunks := (kwc + tp - 1) / tp
	out := make([]byte, 0, c*kh*chunks*tp*2+(c/tc+1)*abi.WeightAlign)
	for c0 := 0; c0 < c; c0 += tc {
		for y := range kh {
			for x := 0; x < kwc; x += tp {
				n := min(tp, kwc-x)
				for ch := c0; ch < min(c, c0+tc); ch++ {
					row := w[(ch*kh+y)*kwc+x:][:n]
					for _, v := range row {
						out = binary.LittleEndian.AppendUint16(out, uint16(v))
					}
					out = append(out, make([]byte, 2*(tp-n))...)
				}
			}
		}
		if r := len(out) % abi.WeightAlign; r != 0 {
			out = append(out, make([]byte, abi.WeightAlign-r)...)
		}
	}
	return out, nil
}

// ofPairs returns the int16 design in which each channel is a pair of channels of d.
func ofPairs(d configs.Design) configs.Design {
	d.Type, d.TC = "", d.TC/2
	return d
}

// paired combines pairs of c int8 channels to words. If c is odd, the last channel is combined with zeros.
func paired(w []int16, c int) ([]int16, error) {
	each := len(w) / c
	out := make([]int16, (c+1)/2*each)
	for i, v := range w {
		if err := byteWeight(v); err != nil {
			return nil, fmt.Errorf("channel %d: %w", i/each, err)
		}
		at := i/each/2*each + i%each
		if i/each%2 == 0 {
			out[at] |= v & 0xFF
		} else {
			out[at] |= v << 8
		}
	}
	return out, nil
}

// unpaired is the inverse of paired.
func unpaired(words []int16, c int) ([]int16, error) {
	each := len(words) / ((c + 1) / 2)
	w := make([]int16, (c+1)/2*2*each)
	for i, v := range words {
		at := i/each*2*each + i%each
		w[at], w[at+each] = int16(int8(v)), v>>8
	}
	for i, v := range w {
		if err := byteWeight(v); err != nil || i >= c*each && v != 0 {
			return nil, fmt.Errorf("unpack weights: channel %d of %d: %w", i/each, c, cmp.Or(err, errors.New("padding is not zero")))
		}
	}
	return w[:c*each], nil
}

// byteWeight returns an error for weights outside int8, and for -128, because two weights share a multiplier
// (hw/INT8.md).
func byteWeight(v int16) error {
	if v < -math.MaxInt8 || v > math.MaxInt8 {
		return fmt.Errorf("a weight of %d, in int8 they are -127..127", v)
	}
	return nil
}

// UnpackWeights is the inverse of PackWeights. Padding must be zero, because the hardware multiplies with the padding.
func UnpackWeights(d configs.Design, k cost.K, packed []byte, c, kh, kwc int) ([]int16, error) {
	tp, tc, err := tree(d, k)
	if err != nil {
		return nil, err
	}
	if d.Int8() {
		words, err := UnpackWeights(ofPairs(d), k, packed, (c+1)/2, kh, kwc)
		if err != nil {
			return nil, fmt.Errorf("pairs of channels: %w", err)
		}
		return unpaired(words, c)
	}
	chunks := (kwc + tp - 1) / tp
	perChannel := int64(kh) * int64(chunks) * int64(tp) * 2
	need := int64(0)
	for c0 := 0; c0 < c; c0 += tc {
		need += roundUp(perChannel*int64(min(tc, c-c0)), abi.WeightAlign)
	}
	if need != int64(len(packed)) {
		return nil, fmt.Errorf("unpack weights: %d bytes, expected %d for %d channels of %d x %d", len(packed), need, c, kh, kwc)
	}
	w := make([]int16, c*kh*kwc)
	at := 0
	for c0 := 0; c0 < c; c0 += tc {
		for y := range kh {
			for x := 0; x < kwc; x += tp {
				n := min(tp, kwc-x)
				for ch := c0; ch < min(c, c0+tc); ch++ {
					row := w[(ch*kh+y)*kwc+x:][:n]
					for i := range row {
						row[i] = int16(binary.LittleEndian.Uint16(packed[at+2*i:]))
					}
					for i := n; i < tp; i++ {
						if binary.LittleEndian.Uint16(packed[at+2*i:]) != 0 {
							return nil, fmt.Errorf("unpack weights: padding of channel %d, kernel row %d is not zero", ch, y)
						}
					}
					at += 2 * tp
				}
			}
		}
		for ; at%abi.WeightAlign != 0; at++ {
			if packed[at] != 0 {
				return nil, fmt.Errorf("unpack weights: byte %d between C tiles is not zero", at)
			}
		}
	}
	return w, nil
}

// PackDepthwise packs the weights of a depthwise layer, [C][taps], in the order in which the depthwise unit reads them.
// The order from outer to inner is: groups of NB channels, taps, and the NB channels of the group. Missing channels are
// zero. The result is padded to WEIGHT_ALIGN bytes.
func PackDepthwise(d configs.Design, w []int16, c int) []byte {
	nb, taps := d.NB(), len(w)/c
	groups := (c + nb - 1) / nb
	out := make([]byte, roundUp(int64(groups*taps*nb*d.ElemBytes()), abi.WeightAlign))
	for i, v := range w {
		channel, tap := i/taps, i%taps
		if at := (channel/nb*taps+tap)*nb + channel%nb; d.Int8() {
			out[at] = byte(v)
		} else {
			binary.LittleEndian.PutUint16(out[2*at:], uint16(v))
		}
	}
	return out
}

// unpackDepthwise is the inverse of PackDepthwise. Padding must be zero.
func unpackDepthwise(d configs.Design, packed []byte, c, taps int) ([]int16, error) {
	nb := d.NB()
	w := make([]int16, c*taps)
	if want := roundUp(int64((c+nb-1)/nb*taps*nb*d.ElemBytes()), abi.WeightAlign); int64(len(packed)) != want {
		return nil, fmt.Errorf("unpack weights: %d bytes, expected %d for %d channels of %d", len(packed), want, c, taps)
	}
	for i := range w {
		channel, tap := i/taps, i%taps
		if at := (channel/nb*taps+tap)*nb + channel%nb; !d.Int8() {
			w[i] = int16(binary.LittleEndian.Uint16(packed[2*at:]))
		} else if w[i] = int16(int8(packed[at])); w[i] < -math.MaxInt8 {
			return nil, fmt.Errorf("unpack weights: channel %d: %w", channel, byteWeight(w[i]))
		}
	}
	if !bytes.Equal(PackDepthwise(d, w, c), packed) {
		return nil, errors.New("unpack weights: padding is not zero")
	}
	return w, nil
}

func tree(d configs.Design, k cost.K) (tp, tc int, err error) {
	tp, tc = cost.Tree(d, k)
	if tp < 1 || tc < 1 {
		return 0, 0, fmt.Errorf("design <%d, %d> has no k = %v", d.TP, d.TC, k)
	}
	return tp, tc, nil
}

func roundUp(a, b int64) int64 { return (a + b - 1) / b * b }

// Ks lists the stacking factors in the order in which LayerWeights tries them.
var Ks = [...]cost.K{cost.K1, cost.KHalf, cost.K2}

// Packing locates a layer's weights for one k in Bundle.Weights. Offset and sizes are in bytes.
type Packing struct{ Offset, Bytes, Tile uint32 }

// PackingOf returns the packing for k from a descriptor. If no weights are packed for k, Bytes is zero.
func PackingOf(l *abi.Desc, k cost.K) Packing {
	switch k {
	case cost.KHalf:
		return Packing{l.WOffsetH, l.WBytesH, l.WTileH}
	case cost.K2:
		return Packing{l.WOffset2, l.WBytes2, l.WTile2}
	}
	return Packing{l.WOffset1, l.WBytes1, l.WTile1}
}

// SetPacking writes the packing for k into a descriptor.
func SetPacking(l *abi.Desc, k cost.K, p Packing) {
	switch k {
	case cost.KHalf:
		l.WOffsetH, l.WBytesH, l.WTileH = p.Offset, p.Bytes, p.Tile
	case cost.K2:
		l.WOffset2, l.WBytes2, l.WTile2 = p.Offset, p.Bytes, p.Tile
	default:
		l.WOffset1, l.WBytes1, l.WTile1 = p.Offset, p.Bytes, p.Tile
	}
}

// LayerWeights returns the unpacked weights of layer l as [OUT_C][K_H][K_W][IN_C], or [C][K_H][K_W] for a depthwise
// layer. It reads the packing for k, or the first stored packing if k is negative. It returns nil for pools.
func (b *Bundle) LayerWeights(l int, k int) ([]int16, error) {
	d := &b.Layers[l]
	if g := cost.GeomOf(d); !g.Drained() {
		return nil, nil
	}
	for _, have := range Ks {
		p := PackingOf(d, have)
		if p.Bytes == 0 || (k >= 0 && have != cost.K(k)) {
			continue
		}
		if int64(p.Offset)+int64(p.Bytes) > int64(len(b.Weights)) {
			return nil, fmt.Errorf("layer %d: weights end at %d of %d", l, int64(p.Offset)+int64(p.Bytes), len(b.Weights))
		}
		if d.Op == abi.OpDepthwise {
			w, err := unpackDepthwise(b.Design, b.Weights[p.Offset:][:p.Bytes], int(d.OutC), int(d.KH)*int(d.KW))
			if err != nil {
				return nil, fmt.Errorf("layer %d: %w", l, err)
			}
			return w, nil
		}
		w, err := UnpackWeights(b.Design, have, b.Weights[p.Offset:][:p.Bytes], int(d.OutC), int(d.KH), int(d.KWC))
		if err != nil {
			return nil, fmt.Errorf("layer %d: %w", l, err)
		}
		return w, nil
	}
	return nil, fmt.Errorf("layer %d: no weights", l)
}

// LayerBias returns the words of layer l's bias memory. They are the biases and the words after them (for example a
// curve), or an average pool's table of factors. Other layers have no words.
func (b *Bundle) LayerBias(l int) ([]int32, error) {
	d := &b.Layers[l]
	end := int64(d.BiasOffset) + 4*int64(d.BiasCount)
	if end > int64(len(b.Weights)) {
		return nil, fmt.Errorf("layer %d: biases end at %d of %d", l, end, len(b.Weights))
	}
	bias := make([]int32, d.BiasCount)
	for i := range bias {
		bias[i] = int32(binary.LittleEndian.Uint32(b.Weights[int(d.BiasOffset)+4*i:]))
	}
	return bias, nil
}
