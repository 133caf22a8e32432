// Package golden executes a bundle. The hardware must compute the same bits. It reads and writes a sample's bytes in an
// image of the sample's slot in DRAM, at the addresses of the descriptors, so that whole slots can be compared. It does
// not model time. Products are exact. They are computed in blocks if the processor has AVX2, and otherwise one by one,
// with the same results (benchmarks compare both).
//
// dse/README defines the arithmetic (How it works, Numbers): y = clamp(sat16(rnd(acc + bias + (res << rs), sh))). The
// accumulator is exact, and is checked against abi.AccBits. A product or a curve (abi.Curve) is computed before the
// clamp. Layers in int8 have one byte per element and sums of 32 bits, followed by the operations of abi.Post8.
package golden

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/hw/abi"
)

// ErrOverflow is wrapped by errors about an accumulator that exceeds abi.AccBits. The compiler must exclude this case.
var ErrOverflow = errors.New("accumulator overflow")

const (
	accMax = 1<<(abi.AccBits-1) - 1
	accMin = -1 << (abi.AccBits - 1)
)

// Program is a bundle prepared for execution. It is safe for concurrent use.
type Program struct {
	b       *bundle.Bundle
	layers  []layer
	scratch sync.Pool // *buffers
}

// layer is a descriptor with unpacked weights and biases.
type layer struct {
	d       abi.Desc
	weights []int16 // [OUT_C][K_H][K_W][IN_C], or [K_H][K_W][C] for DEPTHWISE; nil if groups is used
	groups  []group // the same weights in blocks
	bias    []int32 // biases, or the table of M for an average pool
	curve   abi.Curve
	eight   *abi.Post8                                         // for GEMM and DEPTHWISE in int8; otherwise nil
	fill    int16                                              // value of padding
	plain   bool                                               // emitPlain can compute the layer's outputs
	end     func(sum int64, channel int, residual int16) int16 // for a Conv or in int8; otherwise nil
}

// buffers is the working memory of one execution.
type buffers struct {
	in     []int16                 // padded input
	sums   [][blockW][blockC]int64 // sums of a row of blocks
	window []int16                 // inputs of one output pixel
	acc    []int64                 // sums of one output pixel
}

// New unpacks a bundle. The bundle must be valid (bundle.Validate). Results of bundle.Read are valid.
func New(b *bundle.Bundle) (*Program, error) {
	p := &Program{b: b, layers: make([]layer, len(b.Layers))}
	p.scratch.New = func() any { return new(buffers) }
	for i := range b.Layers {
		if n := padded(&b.Layers[i]); n > maxPadded {
			return nil, fmt.Errorf("golden: layer %d (%s): a padded input of %d elements, at most %d", i, b.Names[i], n, maxPadded)
		}
		w, err := b.LayerWeights(i, -1)
		if err != nil {
			return nil, fmt.Errorf("golden: %w", err)
		}
		bias, err := b.LayerBias(i)
		if err != nil {
			return nil, fmt.Errorf("golden: %w", err)
		}
		l := &p.layers[i]
		*l = layer{d: b.Layers[i], weights: w, bias: bias, fill: int16(b.Layers[i].InZero)}
		switch d := &l.d; {
		case d.In8 && w != nil:
			if l.eight, err = abi.Post8Of(d, bias); err != nil {
				return nil, fmt.Errorf("golden: layer %d (%s): %w", i, b.Names[i], err)
			}
			l.bias, l.end = l.eight.Bias, l.of8
		case d.Curve:
			l.curve, _ = abi.CurveOf(d, bias[d.OutC:])
		}
		l.arrange()
	}
	return p, nil
}

// maxPadded limits the size of a layer's padded input, because even a small descriptor can require a large input.
const maxPadded = 1 << 28

func padded(d *abi.Desc) int64 {
	rows := (int64(d.OutH)-1)*int64(d.SH) + int64(d.KH)
	width := (int64(d.OutW)-1)*int64(d.SW) + int64(d.KW)
	return rows * width * int64(d.InC)
}

// Bundle returns the bundle that the program executes.
func (p *Program) Bundle() *bundle.Bundle { return p.b }

// NewSlot returns a zeroed image of one slot.
func (p *Program) NewSlot() []byte { return make([]byte, p.b.Slot.Stride) }

// SetInput writes one image, H x W x C elements on the input's scale, into a slot.
func (p *Program) SetInput(slot []byte, image []int16) error {
	n := &p.b.Network
	if want := n.InH * n.InW * n.InC; len(image) != want {
		return fmt.Errorf("golden: an input of %d elements, expected %d", len(image), want)
	}
	if err := p.checkSlot(slot); err != nil {
		return err
	}
	if err := p.b.SetInput(slot, image); err != nil {
		return fmt.Errorf("golden: %w", err)
	}
	return nil
}

// Logits reads the logits of an exit from a slot.
func (p *Program) Logits(slot []byte, exit int) ([]int16, error) {
	if exit < 0 || exit >= len(p.b.Network.Exits) {
		return nil, fmt.Errorf("golden: exit %d of %d", exit, len(p.b.Network.Exits))
	}
	if err := p.checkSlot(slot); err != nil {
		return nil, err
	}
	return p.b.LogitsAt(slot, exit), nil
}

func (p *Program) checkSlot(slot []byte) error {
	if int64(len(slot)) < p.b.Slot.Stride {
		return fmt.Errorf("golden: a slot of %d bytes, the bundle's have %d", len(slot), p.b.Slot.Stride)
	}
	return nil
}

// Layers executes layers first..last on a slot, as one start does for a sample of a batch. Tensors that this batch
// size's FBCB entries keep only on chip (ON_CHIP) leave the slot unchanged. If batch is zero, all tensors are written
// to the slot.
func (p *Program) Layers(first, last, batch int, slot []byte) error {
	if first < 0 || last < first || last >= len(p.layers) {
		return fmt.Errorf("golden: layers %d..%d of %d", first, last, len(p.layers))
	}
	if batch < 0 || batch > abi.BMax {
		return fmt.Errorf("golden: a batch of %d", batch)
	}
	if err := p.checkSlot(slot); err != nil {
		return err
	}
	s := p.scratch.Get().(*buffers)
	defer p.scratch.Put(s)
	var under, next []byte // previous content of the slot at the place of a tensor that is only on chip
	var at, nextAt int
	for i := first; i <= last; i++ {
		if batch > 0 && i < last && p.b.FBCB[i][batch-1].OnChip {
			d := &p.layers[i].d
			nextAt = int(d.OutOffset)
			next = append(next[:0], slot[nextAt:][:int(d.OutH)*int(d.OutRowBytes)]...)
		} else {
			next = next[:0]
		}
		if err := p.layers[i].run(s, slot); err != nil {
			return fmt.Errorf("golden: layer %d (%s): %w", i, p.b.Names[i], err)
		}
		copy(slot[at:], under) // restore the content, because the layer has read the tensor
		under, next, at = next, under, nextAt
	}
	return nil
}

// Segment executes the layers of one segment on a slot, for a sample of a batch (see Layers).
func (p *Program) Segment(segment, batch int, slot []byte) error {
	if segment < 0 || segment >= len(p.b.Network.Exits) {
		return fmt.Errorf("golden: segment %d of %d", segment, len(p.b.Network.Exits))
	}
	e := &p.b.Network.Exits[segment]
	return p.Layers(e.First, e.Last, batch, slot)
}

// Run executes the whole network on a new slot and returns the logits of each exit.
func (p *Program) Run(image []int16) ([][]int16, error) {
	slot := p.NewSlot()
	if err := p.SetInput(slot, image); err != nil {
		return nil, err
	}
	var out [][]int16
	for i := range p.b.Network.Exits {
		if err := p.Segment(i, 0, slot); err != nil {
			return nil, err
		}
		logits, err := p.Logits(slot, i)
		if err != nil {
			return nil, err
		}
		out = append(out, logits)
	}
	return out, nil
}

// Round returns rnd(x, n) = (x + 2^(n-1)) >> n with an arithmetic shift. If n is 0, it returns x.
func Round(x int64, n uint8) int64 {
	if n == 0 {
		return x
	}
	return (x + 1<<(n-1)) >> n
}

// Saturate limits x to 16 bits.
func Saturate(x int64) int16 {
	return int16(max(math.MinInt16, min(math.MaxInt16, x)))
}

// Clamp computes the NPU's clamp: a value below lo becomes lo, and any other value above hi becomes hi. This order also
// applies if lo > hi. No valid bundle contains such bounds, but each kernel accepts them.
func Clamp(x, lo, hi int16) int16 {
	switch {
	case x < lo:
		return lo
	case x > hi:
		return hi
	}
	return x
}

// post applies the operations after the sum: the shift, the product with res or the curve, and the clamp.
func (l *layer) post(sum int64, res int16) int16 {
	d := &l.d
	switch {
	case d.Product:
		return l.finish(int64(Saturate(Round(sum, d.Shift)))*int64(res), d.ResShift)
	case d.Curve:
		return Clamp(l.curve.At(Saturate(Round(sum, d.Shift))), d.ClampLo, d.ClampHi)
	}
	return l.finish(sum, d.Shift)
}

func (l *layer) finish(x int64, shift uint8) int16 {
	return Clamp(Saturate(Round(x, shift)), l.d.ClampLo, l.d.ClampHi)
}

// of8 applies the operations after the sum in int8.
func (l *layer) of8(sum int64, channel int, res int16) int16 {
	t := l.eight.Scales[channel].Of(sum)
	if o := l.eight.Operand; o != nil {
		t = o.Of(int64(Saturate(t)), int64(res), l.d.Product)
	}
	if l.eight.Curve != nil {
		return Clamp(l.eight.Curve.At(Saturate(t)), l.d.ClampLo, l.d.ClampHi)
	}
	return l.code(t)
}

// code returns t plus the output's zero point, clamped.
func (l *layer) code(t int64) int16 {
	return Clamp(Saturate(t+int64(l.d.OutZero)), l.d.ClampLo, l.d.ClampHi)
}

// pooled returns the int8 result of a pool. The parameter `sum` is the sum over taps pixels for an average, or the
// maximum with taps = 1.
func (l *layer) pooled(sum int64, taps int) int16 {
	s := abi.Scaling{Mul: int32(l.d.AvgMul), Shift: l.d.AvgShift}
	if l.d.AvgTable {
		s, _ = abi.ScalingOf(l.bias[taps])
	}
	return l.code(s.Of(sum))
}

// accBits returns the width of the layer's sums in bits.
func (l *layer) accBits() int {
	if l.eight != nil {
		return 32
	}
	return abi.AccBits
}

// bytesOf returns the number of bytes of an element.
func bytesOf(eight bool) int {
	if eight {
		return 1
	}
	return 2
}

func element(b []byte, i int, eight bool) int16 {
	if eight {
		return int16(int8(b[i]))
	}
	return int16(binary.LittleEndian.Uint16(b[2*i:]))
}

func put(b []byte, i int, eight bool, v int16) {
	if eight {
		b[i] = byte(v)
		return
	}
	binary.LittleEndian.PutUint16(b[2*i:], uint16(v))
}

// outputs returns the bytes of the layer's output at one position, for n channels from `first` on.
func (l *layer) outputs(slot []byte, oh, ow, first, n int) []byte {
	d, size := &l.d, bytesOf(l.d.Out8)
	return slot[int(d.OutOffset)+oh*int(d.OutRowBytes)+size*(ow*int(d.OutPix)+first):][:size*n]
}

func (l *layer) run(s *buffers, slot []byte) error {
	switch l.d.Op {
	case abi.OpGEMM:
		return l.gemm(s, slot)
	case abi.OpDepthwise:
		return l.depthwise(s, slot)
	case abi.OpMaxPool:
		l.maxPool(s, slot)
		return nil
	case abi.OpAvgPool:
		return l.avgPool(s, slot)
	}
	return fmt.Errorf("operator %v", l.d.Op)
}

// load copies the input into s.in as rows x width x IN_C. Elements outside the image have the value `fill`.
func (l *layer) load(s *buffers, slot []byte, fill int16) (width int) {
	d := &l.d
	c, inH, inW := int(d.InC), int(d.InH), int(d.InW)
	rows := (int(d.OutH)-1)*int(d.SH) + int(d.KH)
	width = (int(d.OutW)-1)*int(d.SW) + int(d.KW)
	s.in = resize(s.in, rows*width*c)
	for r := range rows {
		line := s.in[r*width*c:][:width*c]
		ih := r - int(d.PadT)
		if ih < 0 || ih >= inH {
			set(line, fill)
			continue
		}
		left := min(int(d.PadL), width)
		n := min(inW, width-left)
		set(line[:left*c], fill)
		set(line[(left+n)*c:], fill)
		at := int(d.InOffset) + ih*int(d.InRowBytes)
		if d.InPix == d.InC {
			decode(line[left*c:][:n*c], slot[at:], d.In8)
			continue
		}
		for x := range n {
			decode(line[(left+x)*c:][:c], slot[at+bytesOf(d.In8)*x*int(d.InPix):], d.In8)
		}
	}
	return width
}

func decode(dst []int16, src []byte, eight bool) {
	if eight {
		for i, v := range src[:len(dst)] {
			dst[i] = int16(int8(v))
		}
		return
	}
	decode16(dst, src)
}

func set(v []int16, x int16) {
	for i := range v {
		v[i] = x
	}
}

func resize[T any](v []T, n int) []T {
	if cap(v) < n {
		return make([]T, n)
	}
	return v[:n]
}

func (l *layer) gemm(s *buffers, slot []byte) error {
	if l.groups != nil {
		return l.gemmBlocked(s, slot)
	}
	d := &l.d
	width := l.load(s, slot, l.fill)
	c, kh, kwc, outC := int(d.InC), int(d.KH), int(d.KWC), int(d.OutC)
	p := kh * kwc
	s.window = resize(s.window, p)
	s.acc = resize(s.acc, outC)
	for oh := range int(d.OutH) {
		for ow := range int(d.OutW) {
			first := (oh*int(d.SH)*width + ow*int(d.SW)) * c
			window := s.window
			if kh == 1 {
				window = s.in[first:][:p]
			} else {
				for y := range kh {
					copy(window[y*kwc:][:kwc], s.in[first+y*width*c:])
				}
			}
			multiply(s.acc, window, l.weights)
			if err := l.emit(slot, oh, ow, 0, s.acc); err != nil {
				return err
			}
		}
	}
	return nil
}

// emit computes the outputs from the sums at one position, for channels from `first` on, and writes them.
func (l *layer) emit(slot []byte, oh, ow, first int, sums []int64) error {
	d := &l.d
	out, bias := l.outputs(slot, oh, ow, first, len(sums)), l.bias[first:][:len(sums)]
	var res []byte
	if size := bytesOf(d.Res8); d.Residual {
		res = slot[int(d.ResOffset)+oh*int(d.ResRowBytes)+size*(ow*int(d.ResPix)+first):][:size*len(sums)]
	}
	if l.plain && l.emitPlain(out, res, bias, sums) {
		return nil
	}
	most := int64(1)<<(l.accBits()-1) - 1
	for o, acc := range sums {
		sum := acc + int64(bias[o])
		if acc > most || acc < ^most || sum > most || sum < ^most {
			return fmt.Errorf("%w: output %d, %d, channel %d: sum %d, with its bias %d, %d bits hold %d..%d",
				ErrOverflow, oh, ow, first+o, acc, sum, l.accBits(), ^most, most)
		}
		x := int16(0)
		if d.Residual {
			x = element(res, o, d.Res8)
		}
		if l.end != nil {
			put(out, o, d.Out8, l.end(sum, first+o, x))
			continue
		}
		if !d.Product {
			sum += int64(x) << d.ResShift
		}
		put(out, o, d.Out8, l.post(sum, x))
	}
	return nil
}

// isPlain reports whether emitPlain has the same result as emit for the layer.
func (l *layer) isPlain() bool {
	d := &l.d
	return l.end == nil && !d.Curve && !d.Product && !d.Out8 && !d.Res8 && d.Shift < 64 && d.ResShift < 64
}

// emitPlain computes and writes the outputs of an int16 layer without a curve or a product. It returns false if a sum
// overflows; then out is not valid.
func (l *layer) emitPlain(out, res []byte, bias []int32, sums []int64) bool {
	d := &l.d
	shift, lo, hi := d.Shift&63, int64(d.ClampLo), int64(d.ClampHi) // the clamp to lo and hi also saturates to 16 bits
	half := int64(1) << shift >> 1
	const limit = 1 << (abi.AccBits - 1)
	var over uint64
	out, bias = out[:2*len(sums)], bias[:len(sums)]
	for o, acc := range sums {
		sum := acc + int64(bias[o])
		over |= uint64(acc+limit) | uint64(sum+limit)
		if res != nil {
			sum += int64(int16(binary.LittleEndian.Uint16(res[2*o:]))) << (d.ResShift & 63)
		}
		x := (sum + half) >> shift
		y := min(x, hi)
		if x < lo { // lo has priority as in Clamp, because an invalid layer may have lo > hi
			y = lo
		}
		binary.LittleEndian.PutUint16(out[2*o:], uint16(y))
	}
	return over>>abi.AccBits == 0
}

// arrange stores the weights in the order that is fastest to read.
func (l *layer) arrange() {
	l.plain = l.isPlain()
	switch {
	case l.d.Op == abi.OpDepthwise:
		l.byTap()
	case l.d.Op == abi.OpGEMM && hasVectors:
		l.block()
	}
}

// byTap reorders depthwise weights from [C][K_H][K_W] to [K_H][K_W][C], because the inputs of a tap have this order.
func (l *layer) byTap() {
	c, taps := int(l.d.OutC), int(l.d.KH)*int(l.d.KW)
	out := make([]int16, len(l.weights))
	for i, w := range l.weights {
		out[i%taps*c+i/taps] = w
	}
	l.weights = out
}

func (l *layer) depthwise(s *buffers, slot []byte) error {
	d := &l.d
	width := l.load(s, slot, l.fill)
	c, kwc := int(d.InC), int(d.KWC)
	s.acc = resize(s.acc, c)
	for oh := range int(d.OutH) {
		for ow := range int(d.OutW) {
			clear(s.acc)
			for y := range int(d.KH) {
				row, weights := s.in[((oh*int(d.SH)+y)*width+ow*int(d.SW))*c:][:kwc], l.weights[y*kwc:][:kwc]
				for ; len(row) > 0; row, weights = row[c:], weights[c:] {
					acc, w := s.acc[:c], weights[:c]
					for i, v := range row[:c] {
						acc[i] += int64(v) * int64(w[i])
					}
				}
			}
			if err := l.emit(slot, oh, ow, 0, s.acc); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l *layer) maxPool(s *buffers, slot []byte) {
	d, least := &l.d, int16(math.MinInt16)
	if d.In8 {
		least = math.MinInt8
	}
	width := l.load(s, slot, least)
	c := int(d.InC)
	s.window = resize(s.window, c)
	for oh := range int(d.OutH) {
		for ow := range int(d.OutW) {
			best := s.window
			set(best, least)
			for y := range int(d.KH) {
				row := s.in[((oh*int(d.SH)+y)*width+ow*int(d.SW))*c:][:int(d.KW)*c]
				for ; len(row) > 0; row = row[c:] {
					for i, v := range row[:c] {
						best[i] = max(best[i], v)
					}
				}
			}
			out := l.outputs(slot, oh, ow, 0, c)
			for i, v := range best {
				y := l.finish(int64(v), 0)
				if d.In8 {
					y = l.pooled(int64(v)-int64(d.InZero), 1)
				}
				put(out, i, d.Out8, y)
			}
		}
	}
}

// Taps returns the number of a window's pixels that are inside the image, along one axis.
func Taps(out, stride, pad, kernel, in int) int {
	first := out*stride - pad
	return max(0, min(first+kernel, in)-max(first, 0))
}

func (l *layer) avgPool(s *buffers, slot []byte) error {
	d := &l.d
	width := l.load(s, slot, l.fill)
	c := int(d.InC)
	s.acc = resize(s.acc, c)
	for oh := range int(d.OutH) {
		for ow := range int(d.OutW) {
			sum := s.acc
			clear(sum)
			for y := range int(d.KH) {
				row := s.in[((oh*int(d.SH)+y)*width+ow*int(d.SW))*c:][:int(d.KW)*c]
				for ; len(row) > 0; row = row[c:] {
					for i, v := range row[:c] {
						sum[i] += int64(v)
					}
				}
			}
			n := Taps(oh, int(d.SH), int(d.PadT), int(d.KH), int(d.InH)) *
				Taps(ow, int(d.SW), int(d.PadL), int(d.KW), int(d.InW))
			m := int64(d.AvgMul)
			if d.AvgTable {
				m = int64(l.bias[n])
			}
			out := l.outputs(slot, oh, ow, 0, c)
			for i, v := range sum {
				if v > accMax || v < accMin {
					return fmt.Errorf("%w: output %d, %d, channel %d: sum %d", ErrOverflow, oh, ow, i, v)
				}
				if d.In8 {
					put(out, i, d.Out8, l.pooled(v-int64(d.KH)*int64(d.KW)*int64(d.InZero), n))
					continue
				}
				put(out, i, d.Out8, l.finish(v*m, d.AvgShift))
			}
		}
	}
	return nil
}
