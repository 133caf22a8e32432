// Package randnet generates small random networks for differential tests. A network has one to three layers of any
// geometry and one or two heads, already quantised and compiled. The seed determines all random choices.
//
// Weights, shifts and inputs are chosen to cause extreme cases: sums near the accumulator's limit, saturation,
// rounding, clamps and extreme inputs.
package randnet

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"

	"github.com/sluice-npu/sluice/dse/alias"
	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/dse/compile"
	"github.com/sluice-npu/sluice/dse/cost"
	"github.com/sluice-npu/sluice/dse/graph"
	"github.com/sluice-npu/sluice/dse/mapping"
	"github.com/sluice-npu/sluice/dse/quant"
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
)

// Options select the features that networks may use, according to the hardware under test.
type Options struct {
	Residual bool
	MaxPool  bool
	AvgPool  bool // average pools with a single divisor
	AvgTable bool // average pools with a divisor that differs at the borders
	Groups   bool // grouped and depthwise convolutions, which need windows of channels
	Concat   bool
	Add      bool // additions that are not fused with a convolution
	Exits    bool // sometimes a second exit
	Curve    bool // functions, on a design with post
	Product  bool // products on a design with post, also of a map and a single pixel
	Woven    bool // maps that consist of phases, as for Resize and ConvTranspose

	AnyMapping bool            // random legal values of <k, s, tile>
	Points     []mapping.Point // with AnyMapping: only these values; nil: all
	Spill      bool            // with AnyMapping: all tensors are written to DRAM

	// Want reports whether a draw is accepted; nil accepts all draws. It is called before the draw is compiled, because
	// compiling needs most of the time.
	Want func(*quant.Network) bool

	MaxLayers int   // maximum number of layers without the heads; 3 if 0
	MaxMACs   int64 // maximum number of MACs of the network; 2 million if 0
	MaxSide   int   // maximum height and width of the input; 24 if 0
	Compile   compile.Options
}

// Built returns options that allow everything that the RTL supports, with any legal mapping instead of the best.
func Built() Options {
	o := All()
	o.AnyMapping = true
	return o
}

// All returns options that allow all features of the compiler, except Woven.
func All() Options {
	return Options{
		Residual: true, MaxPool: true, AvgPool: true, AvgTable: true, Groups: true, Concat: true, Add: true, Exits: true, Curve: true, Product: true,
	}
}

// Net is a random network.
type Net struct {
	Seed   uint64
	Quant  *quant.Network // the drawn network; for an int8 design, Int8 has replaced its integers in the bundle
	Bundle *bundle.Bundle
}

// attempts is the limit for draws that do not fit the design. turned is the limit for draws that Want rejects; it is
// larger, because merged convolutions, for example, occur in only one draw of 25.
const (
	attempts = 200
	turned   = 10_000
)

// New draws a network from the seed. If a draw does not fit the design, New draws again. Any other failure of the
// compiler is an error that names the seed.
func New(seed uint64, d configs.Design, o Options) (*Net, error) {
	if o.MaxLayers == 0 {
		o.MaxLayers = 3
	}
	if o.MaxMACs == 0 {
		o.MaxMACs = 2_000_000
	}
	if o.MaxSide == 0 {
		o.MaxSide = 24
	}
	rng := rand.New(rand.NewPCG(seed, 0x736c75696365))
	if o.AnyMapping {
		o.Compile.Mapping = mapping.RTL()
		o.Compile.Mapping.Pick = rng.IntN
		o.Compile.Mapping.Points = o.Points
		o.Compile.Mapping.Spill = o.Spill
	}
	var last error
	tries, left := attempts, turned
	for ; tries > 0; tries-- {
		q, err := draw(rng, d, o)
		if err != nil {
			last = err
			continue
		}
		if o.Want != nil && !o.Want(q) {
			last = fmt.Errorf("%w: not what is wanted", errDraw)
			if left--; left > 0 {
				tries++
			}
			continue
		}
		q.Graph.Name = fmt.Sprintf("random-%d", seed)
		var b *bundle.Bundle
		if d.Int8() {
			b, err = compile.Int8(Int8(rng, q), d, o.Compile)
		} else {
			b, err = compile.Compile(q, d, o.Compile)
		}
		if err == nil {
			return &Net{Seed: seed, Quant: q, Bundle: b}, nil
		}
		if !errors.Is(err, mapping.ErrNoFit) && !errors.Is(err, cost.ErrGeom) {
			return nil, fmt.Errorf("random network, seed %d: %w", seed, err)
		}
		last = err
	}
	return nil, fmt.Errorf("random network, seed %d: nothing fits after %d draws: %w", seed, attempts, last)
}

// Input draws one image for a bundle. Its values are from the full range, only small, or only extreme.
func Input(rng *rand.Rand, b *bundle.Bundle) []int16 {
	n := b.Network.InH * b.Network.InW * b.Network.InC
	image := make([]int16, n)
	extremes := []int16{math.MinInt16, math.MaxInt16, -1, 0, 1}
	if b.Design.Int8() {
		extremes = []int16{math.MinInt8, math.MaxInt8, -1, 0, 1}
	}
	mode := rng.IntN(4)
	for i := range image {
		switch mode {
		case 0:
			image[i] = int16(rng.IntN(201) - 100)
		case 1:
			image[i] = extremes[rng.IntN(len(extremes))]
		default:
			image[i] = int16(rng.Uint32())
		}
		if b.Design.Int8() {
			image[i] = int16(int8(image[i]))
		}
	}
	return image
}

// errDraw is wrapped by errors about a draw that cannot be used.
var errDraw = errors.New("draw beyond the limits")

// builder builds a quantised graph step by step.
type builder struct {
	rng *rand.Rand
	d   configs.Design
	o   Options
	g   *graph.Graph
	q   *quant.Network
	seg int

	each bool // the next convolution has one group per channel
}

func draw(rng *rand.Rand, d configs.Design, o Options) (*quant.Network, error) {
	b := &builder{rng: rng, d: d, o: o, g: &graph.Graph{}, q: &quant.Network{}}
	b.q.Graph = b.g
	side := func() int {
		if rng.IntN(4) == 0 {
			return 1 + rng.IntN(min(4, o.MaxSide))
		}
		return 1 + rng.IntN(o.MaxSide)
	}
	t := b.tensor(side(), side(), b.channels(), rng.IntN(16))
	b.g.Input = t
	layers := 1 + rng.IntN(o.MaxLayers)
	cut := -1
	if o.Exits && layers > 1 && rng.IntN(3) == 0 {
		cut = 1 + rng.IntN(layers-1)
	}
	for i := range layers {
		if i == cut {
			if err := b.exit(t); err != nil {
				return nil, err
			}
		}
		var err error
		if t, err = b.layer(t); err != nil {
			return nil, err
		}
	}
	if err := b.exit(t); err != nil {
		return nil, err
	}
	b.agree()
	for _, frac := range b.q.Frac { // a fraction may be too large, because a product adds the fractions of its factors
		if frac < -bundle.MaxFrac || frac > bundle.MaxFrac {
			return nil, fmt.Errorf("%w: fraction %d", errDraw, frac)
		}
	}
	if b.g.TotalMACs() > o.MaxMACs {
		return nil, fmt.Errorf("%w: %d MACs", errDraw, b.g.TotalMACs())
	}
	return b.q, nil
}

// channels draws a number of channels, often close to the size of a tile.
func (b *builder) channels() int {
	kinds := 5
	if b.d.Depthwise {
		kinds = 6
	}
	switch b.rng.IntN(kinds) {
	case 0:
		return 1 + b.rng.IntN(3)
	case 1:
		return max(1, b.d.TP-1+b.rng.IntN(3))
	case 2:
		return max(1, b.d.TC-1+b.rng.IntN(3))
	case 3:
		return 1 + b.rng.IntN(2*b.d.TC+3)
	case 5: // close to the number of lanes of the depthwise unit, or more
		return b.d.NB() - 1 + b.rng.IntN(b.d.NB()+3)
	}
	return 1 + b.rng.IntN(b.d.TC)
}

func (b *builder) tensor(h, w, c, frac int) graph.TensorID {
	id := graph.TensorID(len(b.g.Tensors))
	b.g.Tensors = append(b.g.Tensors, graph.Tensor{Name: fmt.Sprintf("t%d", id), H: h, W: w, C: c})
	b.q.Frac = append(b.q.Frac, frac)
	return id
}

func (b *builder) node(n graph.Node, l quant.Layer) {
	n.Name = fmt.Sprintf("n%d", len(b.g.Nodes))
	n.ClampLo, n.ClampHi = float32(math.Inf(-1)), float32(math.Inf(1))
	b.g.Nodes = append(b.g.Nodes, n)
	b.q.Layers = append(b.q.Layers, l)
	b.g.Segment = append(b.g.Segment, b.seg)
}

// layer appends one layer, or a group of layers such as a concatenation with its branches.
func (b *builder) layer(t graph.TensorID) (graph.TensorID, error) {
	if b.d.Post && b.o.Product && b.rng.IntN(6) == 0 {
		return b.product(t)
	}
	if b.d.Depthwise && b.o.Groups && b.rng.IntN(6) == 0 {
		return b.depthwise(t)
	}
	if b.o.Woven && b.rng.IntN(3) == 0 {
		return b.woven(t)
	}
	r := b.rng.IntN(100)
	switch {
	case b.o.MaxPool && r < 12:
		return b.pool(t, graph.MaxPool)
	case b.o.AvgPool && r < 24:
		return b.pool(t, graph.AvgPool)
	case b.o.Concat && r < 36:
		return b.concat(t)
	case b.o.Add && r < 42:
		return b.add(t)
	case b.o.Residual && r < 58:
		return b.residual(t)
	}
	return b.conv(t, b.window(t, true), b.channels(), nil, graph.None)
}

// axis draws kernel, stride and padding for n pixels, and returns the output's size.
func (b *builder) axis(n int) (k, s, before, after, out int) {
	k = 1 + b.rng.IntN(7)
	if b.rng.IntN(3) == 0 {
		k = 1 + 2*b.rng.IntN(2)
	}
	s = 1 + b.rng.IntN(3)
	switch r := b.rng.IntN(12); {
	case r < 6:
		s = 1
	case r < 8: // large strides, because a pool may reduce a map to one pixel
		s = 4 + b.rng.IntN(abi.StrideMax-3)
	}
	return b.place(n, k, s)
}

// place draws the padding for a kernel and a stride over n pixels.
func (b *builder) place(n, kernel, stride int) (k, s, before, after, out int) {
	k, s = kernel, stride
	before, after = b.rng.IntN(k), b.rng.IntN(k)
	if n+before+after < k {
		k, before, after = min(k, n), 0, 0
	}
	return k, s, before, after, (n+before+after-k)/s + 1
}

type window struct {
	graph.Window
	h, w int // size of the output
}

// pixels returns a window of one pixel for each output pixel.
func pixels(h, w int) window { return window{graph.Window{KH: 1, KW: 1, SH: 1, SW: 1}, h, w} }

// window draws the geometry of a window. If strided is false, the stride is 1, and the output has the input's size.
func (b *builder) window(t graph.TensorID, strided bool) window {
	in := b.g.Tensors[t]
	if !strided {
		kh, kw := 1+2*b.rng.IntN(4), 1+2*b.rng.IntN(4)
		w := graph.Window{KH: kh, KW: kw, SH: 1, SW: 1, PT: kh / 2, PB: kh / 2, PL: kw / 2, PR: kw / 2}
		return window{w, in.H, in.W}
	}
	var w window
	w.KH, w.SH, w.PT, w.PB, w.h = b.axis(in.H)
	w.KW, w.SW, w.PL, w.PR, w.w = b.axis(in.W)
	return w
}

// clamps draws the bounds of a clamp: none, a ReLU, a ReLU with an upper bound, or any bounds.
func (b *builder) clamps() (lo, hi int16) {
	switch b.rng.IntN(4) {
	case 0:
		return math.MinInt16, math.MaxInt16
	case 1:
		return 0, math.MaxInt16
	case 2:
		return 0, int16(b.rng.IntN(1 << 15))
	}
	lo, hi = int16(b.rng.Uint32()), int16(b.rng.Uint32())
	return min(lo, hi), max(lo, hi)
}

// accLimit limits sum|w| * 32768, so that the sum with the bias and the residual is below the proof's 2^35.
const accLimit = 1 << 34

// conv appends a convolution. The output's fraction is *outFrac, or random if outFrac is nil.
func (b *builder) conv(t graph.TensorID, w window, outC int, outFrac *int, res graph.TensorID) (graph.TensorID, error) {
	in := b.g.Tensors[t]
	groups := 1
	if b.each {
		groups, outC = in.C, in.C
	} else if b.o.Groups && b.rng.IntN(5) == 0 {
		outC = in.C * (1 + b.rng.IntN(2))
		if res != graph.None {
			outC = b.g.Tensors[res].C
		}
		for _, n := range []int{in.C, 2, 3, 4} {
			if in.C%n == 0 && outC%n == 0 {
				groups = n
				break
			}
		}
	}
	p := w.KH * w.KW * in.C / groups
	if macs := int64(w.h) * int64(w.w) * int64(outC) * int64(p); macs > b.o.MaxMACs {
		return 0, fmt.Errorf("%w: %d MACs", errDraw, macs)
	}
	l := quant.Layer{Weights: make([]int16, outC*p), Bias: make([]int32, outC)}
	b.weights(l.Weights, p)
	for i := range l.Bias {
		l.Bias[i] = int32(b.rng.Uint32()) >> b.rng.IntN(31)
	}
	// Choose a shift with which most outputs have about 16 bits, and sometimes any shift.
	mean := 0.0
	for _, v := range l.Weights {
		mean += math.Abs(float64(v)) / float64(len(l.Weights))
	}
	l.Shift = max(0, min(47, bits.Len64(uint64(mean*math.Sqrt(float64(p))))+b.rng.IntN(7)-3))
	if b.rng.IntN(16) == 0 {
		l.Shift = b.rng.IntN(48)
	}
	l.ClampLo, l.ClampHi = b.clamps()

	acc := b.q.Frac[t] + b.rng.IntN(8)
	if outFrac != nil {
		acc = *outFrac + l.Shift
	}
	if res != graph.None {
		l.ResShift = max(0, min(17, l.Shift+b.rng.IntN(5)-2))
		acc = b.q.Frac[res] + l.ResShift
	}
	l.WFrac = acc - b.q.Frac[t]
	out := b.tensor(w.h, w.w, outC, acc-l.Shift)
	b.node(graph.Node{
		Op: graph.Conv, Inputs: []graph.TensorID{t}, Output: out, Window: w.Window, Groups: groups, Residual: res, Function: b.curve(&l, acc-l.Shift),
		Weights: make([]float32, len(l.Weights)), Bias: make([]float32, outC),
	}, l)
	return out, nil
}

// curve sometimes adds a curve with random segments to a layer. The curve's input and result have fraction mid.
func (b *builder) curve(l *quant.Layer, mid int) *graph.Function {
	if !b.d.Post || !b.o.Curve || b.rng.IntN(4) != 0 {
		return nil
	}
	c := &abi.Curve{Lo: int16(b.rng.Uint32()), Step: uint8(b.rng.IntN(abi.CurveStepMax + 1)), Shift: uint8(b.rng.IntN(32))}
	for i := range c.Segments {
		c.Segments[i] = abi.Segment{Offset: int32(b.rng.Uint32()) >> b.rng.IntN(32), Slope: int16(b.rng.Uint32()) >> b.rng.IntN(16)}
	}
	l.Curve, l.Mid = c, mid
	return &graph.Function{Name: "Sigmoid"} // the name does not matter, because the curve is random
}

// weights draws weights for rows of p weights. The sum of a row fits the accumulator for any input.
func (b *builder) weights(w []int16, p int) {
	limit := accLimit >> 15
	most := min(math.MaxInt16, max(1, limit/p))
	mode := b.rng.IntN(4)
	for i := range w {
		switch mode {
		case 0: // small
			w[i] = int16(b.rng.IntN(15) - 7)
		case 1: // all at the limit, with random signs
			w[i] = int16(most)
			if b.rng.IntN(2) == 0 {
				w[i] = int16(-most)
			}
		case 2: // sparse
			if b.rng.IntN(4) == 0 {
				w[i] = int16(b.rng.IntN(2*most+1) - most)
			}
		default:
			w[i] = int16(b.rng.IntN(2*most+1) - most)
		}
	}
	if p <= limit>>16 && b.rng.IntN(2) == 0 {
		w[b.rng.IntN(len(w))] = math.MinInt16
	}
}

// residual appends a convolution with a residual: its own input, or a projection if the shapes differ.
func (b *builder) residual(t graph.TensorID) (graph.TensorID, error) {
	in := b.g.Tensors[t]
	if b.rng.IntN(2) == 0 {
		return b.conv(t, b.window(t, false), in.C, nil, t)
	}
	w, c := b.window(t, true), b.channels()
	r, err := b.conv(t, w, c, nil, graph.None)
	if err != nil {
		return 0, err
	}
	return b.conv(t, w, b.g.Tensors[r].C, nil, r)
}

func (b *builder) add(t graph.TensorID) (graph.TensorID, error) {
	in := b.g.Tensors[t]
	other := t
	if b.rng.IntN(2) == 0 {
		var err error
		if other, err = b.conv(t, b.window(t, false), in.C, nil, graph.None); err != nil {
			return 0, err
		}
		if b.g.Tensors[other].C != in.C {
			return 0, errDraw
		}
	}
	fa, fb := b.q.Frac[t], b.q.Frac[other]
	l := quant.Layer{WFrac: max(0, fb-fa) + b.rng.IntN(3)}
	l.ResShift = l.WFrac + fa - fb
	if l.WFrac > 14 || l.ResShift > 17 {
		return 0, errDraw
	}
	l.Shift = b.rng.IntN(l.WFrac + 3)
	l.ClampLo, l.ClampHi = b.clamps()
	out := b.tensor(in.H, in.W, in.C, l.WFrac+fa-l.Shift)
	b.node(graph.Node{Op: graph.Add, Inputs: []graph.TensorID{t, other}, Output: out, Residual: graph.None}, l)
	return out, nil
}

// depthwise appends a depthwise convolution, in most cases with windows that the unit processes by columns. It is often
// between two 1 x 1 convolutions, as in an inverted residual. Then its input and output may be stored only on chip.
func (b *builder) depthwise(t graph.TensorID) (out graph.TensorID, err error) {
	if in := b.g.Tensors[t]; b.rng.IntN(3) > 0 {
		narrow := 1 + b.rng.IntN(2*b.d.NB()) // few channels, because more do not fit a small design
		if t, err = b.conv(t, pixels(in.H, in.W), narrow, nil, graph.None); err != nil {
			return 0, err
		}
		defer func() {
			if err == nil {
				between := b.g.Tensors[out]
				out, err = b.conv(out, pixels(between.H, between.W), b.channels(), nil, graph.None)
			}
		}()
	}
	w := b.window(t, true)
	if in := b.g.Tensors[t]; b.rng.IntN(3) > 0 {
		w.KW, w.SW, w.PL, w.PR, w.w = b.place(in.W, 3, 1+b.rng.IntN(2))
	}
	b.each = true
	defer func() { b.each = false }()
	return b.conv(t, w, 0, nil, graph.None)
}

// product appends a product of a map with a convolution's output, a single pixel (squeeze-and-excite) or itself.
func (b *builder) product(t graph.TensorID) (graph.TensorID, error) {
	in := b.g.Tensors[t]
	other := t
	var err error
	switch b.rng.IntN(3) {
	case 0:
		if other, err = b.conv(t, b.window(t, false), in.C, nil, graph.None); err != nil {
			return 0, err
		}
	case 1:
		whole := window{graph.Window{KH: in.H, KW: in.W, SH: 1, SW: 1}, 1, 1}
		if other, err = b.conv(b.poolOf(t, graph.MaxPool, whole), pixels(1, 1), in.C, nil, graph.None); err != nil {
			return 0, err
		}
	}
	if b.g.Tensors[other].C != in.C { // a grouped convolution may have another number of channels
		return 0, errDraw
	}
	l := quant.Layer{ResShift: b.rng.IntN(32)}
	l.ClampLo, l.ClampHi = b.clamps()
	out := b.tensor(in.H, in.W, in.C, b.q.Frac[t]+b.q.Frac[other]-l.ResShift)
	b.node(graph.Node{Op: graph.Mul, Inputs: []graph.TensorID{t, other}, Output: out, Residual: graph.None}, l)
	return out, nil
}

func (b *builder) pool(t graph.TensorID, op graph.Op) (graph.TensorID, error) {
	w := b.window(t, true)
	in := b.g.Tensors[t]
	// sometimes an average over a whole large map, because its sum needs two multipliers per word
	if op == graph.AvgPool && min(in.H, in.W) > 16 && b.rng.IntN(2) == 0 {
		return b.poolOf(t, op, window{graph.Window{KH: in.H, KW: in.W, SH: 1, SW: 1}, 1, 1}), nil
	}
	if b.rng.IntN(3) == 0 { // sometimes a window that the hardware processes by columns, if it fits
		w.KH, w.SH, w.PT, w.PB, w.h = b.place(in.H, 2+b.rng.IntN(3), 1+b.rng.IntN(3))
		k := 2 + b.rng.IntN(2)
		w.KW, w.SW, w.PL, w.PR, w.w = b.place(in.W, k, 1+b.rng.IntN(k-1))
	}
	// Sometimes add a window as with ceil_mode, if this window contains a pixel.
	if b.rng.IntN(3) == 0 {
		if (in.H+w.PT+w.PB-w.KH)%w.SH != 0 && w.h*w.SH-w.PT < in.H {
			w.h++
		}
		if (in.W+w.PL+w.PR-w.KW)%w.SW != 0 && w.w*w.SW-w.PL < in.W {
			w.w++
		}
	}
	return b.poolOf(t, op, w), nil
}

func (b *builder) poolOf(t graph.TensorID, op graph.Op, w window) graph.TensorID {
	l := quant.Layer{}
	l.ClampLo, l.ClampHi = b.clamps()
	if op == graph.AvgPool {
		n := w.KH * w.KW
		l.AvgShift = 16 + b.rng.IntN(bits.Len(uint(n)))
		l.AvgMul = min(1<<17-1, (1<<l.AvgShift+n/2)/n)
		if b.o.AvgTable && b.rng.IntN(2) == 0 && n < abi.AvgTable {
			l.AvgTable = make([]int32, n+1)
			for i := 1; i <= n; i++ {
				l.AvgTable[i] = int32(min(1<<17-1, (1<<l.AvgShift+i/2)/i))
			}
		}
	}
	out := b.tensor(w.h, w.w, b.g.Tensors[t].C, b.q.Frac[t])
	b.node(graph.Node{Op: op, Inputs: []graph.TensorID{t}, Output: out, Window: w.Window, Residual: graph.None}, l)
	return out
}

// branch appends a branch of a concatenation: a convolution of any size, a 1 x 1 convolution, or a convolution after a
// 1 x 1 convolution. The 1 x 1 convolutions of several branches may become one layer.
func (b *builder) branch(t graph.TensorID, frac int) (graph.TensorID, error) {
	point := b.window(t, false)
	point.Window = graph.Window{KH: 1, KW: 1, SH: 1, SW: 1}
	switch b.rng.IntN(3) {
	case 0:
		return b.conv(t, point, b.channels(), &frac, graph.None)
	case 1:
		reduced, err := b.conv(t, point, b.channels(), nil, graph.None)
		if err != nil {
			return 0, err
		}
		t = reduced
	}
	return b.conv(t, b.window(t, false), b.channels(), &frac, graph.None)
}

// agree sets equal shifts and clamps in convolutions that can become one layer. Sometimes one value differs, so that
// the convolutions remain separate layers.
func (b *builder) agree() {
	for _, nodes := range alias.Of(b.g).Merged {
		first := b.q.Layers[nodes[0]]
		differ := b.rng.IntN(8)
		for _, n := range nodes[1:] {
			l := &b.q.Layers[n]
			if differ != 0 {
				l.WFrac += first.Shift - l.Shift
				l.Shift = first.Shift
			}
			if differ != 1 {
				l.ClampLo = first.ClampLo
			}
			if differ != 2 {
				l.ClampHi = first.ClampHi
			}
			l.ClampLo = min(l.ClampLo, l.ClampHi)
		}
	}
}

// concat appends two or three branches of the same size, and their concatenation. Sometimes one branch is the tensor
// itself, which must be copied.
func (b *builder) concat(t graph.TensorID) (graph.TensorID, error) {
	frac := b.q.Frac[t]
	var parts []graph.TensorID
	for range 1 + b.rng.IntN(2) {
		p, err := b.branch(t, frac)
		if err != nil {
			return 0, err
		}
		parts = append(parts, p)
	}
	switch {
	case b.o.MaxPool && b.rng.IntN(2) == 0:
		parts = append(parts, b.poolOf(t, graph.MaxPool, b.window(t, false)))
	case b.o.MaxPool && b.rng.IntN(2) == 0:
		parts = append(parts, t)
	default:
		p, err := b.branch(t, frac)
		if err != nil {
			return 0, err
		}
		parts = append(parts, p)
	}
	b.rng.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
	c := 0
	for _, p := range parts {
		c += b.g.Tensors[p].C
	}
	in := b.g.Tensors[t]
	out := b.tensor(in.H, in.W, c, frac)
	b.node(graph.Node{Op: graph.Concat, Inputs: parts, Output: out, Residual: graph.None},
		quant.Layer{ClampLo: math.MinInt16, ClampHi: math.MaxInt16})
	return out, nil
}

// woven appends a map that interleaves the pixels of several phases: of one repeated map, or of several convolutions.
func (b *builder) woven(t graph.TensorID) (graph.TensorID, error) {
	sy, sx, frac := 1+b.rng.IntN(3), 1+b.rng.IntN(3), b.q.Frac[t]
	one := b.rng.IntN(2) == 0
	w, c := b.window(t, false), b.channels()
	join := func(parts []graph.TensorID, h, w, c int) graph.TensorID {
		if len(parts) == 1 {
			return parts[0]
		}
		out := b.tensor(h, w, len(parts)*c, frac)
		b.node(graph.Node{Op: graph.Concat, Inputs: parts, Output: out, Residual: graph.None}, quant.Layer{ClampLo: math.MinInt16, ClampHi: math.MaxInt16})
		return out
	}
	seen := func(t graph.TensorID, h, w, c int) graph.TensorID {
		out := b.tensor(h, w, c, frac)
		b.node(graph.Node{Op: graph.Reshape, Inputs: []graph.TensorID{t}, Output: out, Residual: graph.None}, quant.Layer{ClampLo: math.MinInt16, ClampHi: math.MaxInt16})
		return out
	}
	in := b.g.Tensors[t]
	var rows []graph.TensorID
	for range sy {
		phases := slices.Repeat([]graph.TensorID{t}, sx)
		for i := range phases {
			if one {
				continue
			}
			var err error
			if phases[i], err = b.conv(t, w, c, &frac, graph.None); err != nil {
				return 0, err
			}
			made := b.g.Tensors[phases[i]]
			if len(rows)+i > 0 && made.C != in.C { // a grouped convolution may have another number of channels
				return 0, fmt.Errorf("%w: phases of %d and %d channels", errDraw, in.C, made.C)
			}
			in = made
		}
		rows = append(rows, seen(join(phases, in.H, in.W, in.C), in.H, 1, sx*in.W*in.C))
	}
	return seen(join(rows, in.H, 1, sx*in.W*in.C), sy*in.H, sx*in.W, in.C), nil
}

// exit appends a head: a fully connected layer over the whole map, sometimes after a global pool.
func (b *builder) exit(t graph.TensorID) error {
	in := b.g.Tensors[t]
	whole := window{graph.Window{KH: in.H, KW: in.W, SH: 1, SW: 1}, 1, 1}
	if in.H*in.W > 1 {
		switch r := b.rng.IntN(3); {
		case r == 0 && b.o.AvgPool:
			t = b.poolOf(t, graph.AvgPool, whole)
			whole.KH, whole.KW = 1, 1
		case r == 1 && b.o.MaxPool:
			t = b.poolOf(t, graph.MaxPool, whole)
			whole.KH, whole.KW = 1, 1
		}
	}
	out, err := b.conv(t, whole, 1+b.rng.IntN(12), nil, graph.None)
	if err != nil {
		return err
	}
	b.g.Exits = append(b.g.Exits, graph.Exit{Name: fmt.Sprintf("exit%d", len(b.g.Exits)), Tensor: out})
	b.seg++
	return nil
}
