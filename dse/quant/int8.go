package quant

import (
	"fmt"
	"math"
	"slices"

	"github.com/sluice-npu/sluice/dse/graph"
	"github.com/sluice-npu/sluice/hw/abi"
)

// This file defines a network in int8. A map's code q represents Step * (q - Zero), with one step and one zero point
// per map. Weights are symmetric, with one step per output channel. A layer computes, only with integers,
//
//	t = rnd((sum w*q + bias[c]) * mul[c], shift[c])
//
// The term bias contains the layer's bias and the contribution of the input's zero point (padding reads the zero
// point). The factor mul has 17 bits. The function rnd(x, n) is x / 2^n rounded to the nearest integer, ties to even,
// as in ONNX's QuantizeLinear. These steps follow in this order: a residual or second operand (Sum), a curve, the
// output's zero point, and the clamp.
//
// A wide layer has 16-bit weights. Maps that only wide layers write and read have 16 bits too. Nothing else differs.

// Codes maps integers to a map's values.
type Codes struct {
	Step float64
	Zero int
	Wide bool // the codes have 16 bits instead of 8
}

// Bounds returns the lowest and the highest code.
func (c Codes) Bounds() (lo, hi int) {
	if c.Wide {
		return math.MinInt16, math.MaxInt16
	}
	return math.MinInt8, math.MaxInt8
}

// holds returns the smallest and the largest value that codes represent.
func (c Codes) holds() (lo, hi float64) {
	return c.Value(c.Code(math.Inf(-1))), c.Value(c.Code(math.Inf(1)))
}

// reach returns the largest distance of a code from the zero point.
func (c Codes) reach() float64 {
	lo, hi := c.Bounds()
	return float64(max(hi-c.Zero, c.Zero-lo))
}

// Code returns the code nearest to a value.
func (c Codes) Code(x float64) int16 {
	lo, hi := c.Bounds()
	return int16(min(max(graph.Scale{Step: c.Step, Zero: c.Zero}.Nearest(x), float64(lo)), float64(hi)))
}

// Value returns the value of a code.
func (c Codes) Value(code int16) float64 { return c.Step * float64(int(code)-c.Zero) }

// Scaling is a factor Mul / 2^Shift, with Mul below 2^17 and Shift at most MaxShift.
type Scaling = abi.Scaling

const mulBits = 17

// scaling returns the Scaling nearest to factor f. It replaces a factor beyond 17 bits by the largest one, because both
// saturate every code except the zero point.
func scaling(f float64) Scaling {
	f = min(f, 1<<mulBits-1)
	_, e := math.Frexp(f)
	s := min(max(mulBits-e, 0), MaxShift)
	if math.Round(math.Ldexp(f, s)) >= 1<<mulBits {
		s-- // rounding increased the factor to the next power of two
	}
	return Scaling{Mul: int32(math.Round(math.Ldexp(f, max(s, 0)))), Shift: uint8(max(s, 0))}
}

// Sum adds two numbers with different steps: rnd(a*A + b*B, Shift).
type Sum struct {
	A, B  int32
	Shift uint8
}

// sumOf returns the Sum for two numbers with magnitudes up to reachA and reachB; span is larger than the result's
// range. A factor needs to be no larger than a value at which the sum saturates for any code of the other number. If a
// factor still exceeds 17 bits, sumOf reduces both factors, because the two numbers may cancel.
func sumOf(a, b, reachA, reachB, span float64) *Sum {
	a, b = min(a, span+2*b*reachB), min(b, span+2*a*reachA) // factor 2 because a and b are rounded
	if most := float64(1<<mulBits - 1); max(a, b) > most {
		a, b = a*most/max(a, b), b*most/max(a, b)
	}
	s := scaling(max(a, b)).Shift
	return &Sum{int32(math.Round(math.Ldexp(a, int(s)))), int32(math.Round(math.Ldexp(b, int(s)))), s}
}

// Of returns the sum of a and b.
func (s *Sum) Of(a, b int64) int64 { return abi.RoundEven(a*int64(s.A)+b*int64(s.B), s.Shift) }

// Layer8 contains the integers of a layer in int8. Fields that its operator does not use are zero.
type Layer8 struct {
	Wide    bool
	Weights []int16
	Steps   []float64 // steps of the weights, by output channel
	Bias    []int32
	Anew    int // number of channels that were quantised again: their codes differ from those in the file
	// Scales convert the accumulated sum to the step of Sum, the curve's input or the output, whichever follows. A Conv
	// has one scale per output channel, and a Concat one per input. For an AvgPool, the index is the number of pixels.
	// Other operators have a single scale.
	Scales []Scaling
	// Sum is used by an Add, and by a Conv with a residual. The Conv's t first saturates at 16 bits.
	Sum    *Sum
	Curve  *abi.Curve // the input has 16 bits with fraction Mid; the result is the output's code, including the zero point
	Mid    int
	Lo, Hi int16 // bounds of the output's code
}

// Int8 is a network in int8.
type Int8 struct {
	Graph  *graph.Graph
	Maps   []Codes  // by tensor
	Layers []Layer8 // by node
}

// Bits returns the number of bits of a layer's weights.
func (n *Int8) Bits(layer int) int {
	if n.Layers[layer].Wide {
		return 16
	}
	return 8
}

// Input converts an image to codes.
func (n *Int8) Input(dst []int16, x []float32) {
	for i, v := range x {
		dst[i] = n.Maps[n.Graph.Input].Code(float64(v))
	}
}

// Seen is the distribution of each map of a graph in calibration.
type Seen struct {
	g     *graph.Graph
	o     Options
	maps  []*spread // by tensor
	front []*spread // by node: the inputs of its function
	part  []float64 // by node: the largest magnitude before its residual is added
}

// See runs images through a graph. If the network's file contains all scales, the images are needed only for functions,
// and for sums with a residual.
func See(g *graph.Graph, n int, image func(i int) ([]float32, error), o Options) (*Seen, error) {
	o = o.defaults()
	seen := make([]*Seen, Workers(g, o.Workers, n))
	err := parallel(g, len(seen), n, func(w int, runner *graph.Runner) func(i int) error {
		s := &Seen{g: g, o: o, maps: make([]*spread, len(g.Tensors)), front: fronts(g), part: make([]float64, len(g.Nodes))}
		seen[w] = s
		for t := range s.maps {
			s.maps[t] = &spread{}
		}
		runner.Before = func(n int, values []float32) { s.front[n].add(values) }
		runner.Partial = func(n int, values []float32) {
			for _, v := range values {
				s.part[n] = max(s.part[n], math.Abs(float64(v)))
			}
		}
		return func(i int) error { return s.add(runner, image, i) }
	})
	if err != nil {
		return nil, err
	}
	for w, s := range seen {
		for t := range s.maps {
			if w > 0 {
				seen[0].maps[t].merge(s.maps[t])
			}
		}
		for i := range s.front {
			seen[0].part[i] = max(seen[0].part[i], s.part[i])
			if w > 0 && s.front[i] != nil {
				seen[0].front[i].merge(s.front[i])
			}
		}
	}
	return seen[0], nil
}

func (s *Seen) add(r *graph.Runner, image func(i int) ([]float32, error), i int) error {
	x, err := image(i)
	if err != nil {
		return err
	}
	tensors, err := r.Run(x)
	if err != nil {
		return fmt.Errorf("image %d: %w", i, err)
	}
	for t, values := range tensors {
		s.maps[t].add(values)
		if d := s.maps[t].hi - s.maps[t].lo; math.IsInf(d, 0) || math.IsNaN(d) {
			return fmt.Errorf("%w: image %d: tensor %q is not finite", ErrCalibration, i, s.g.Tensors[t].Name)
		}
	}
	return finite(s.g, s.front, i)
}

// covered returns the part of the calibrated range that codes cover according to r.
func (s *spread) covered(r Range) (lo, hi float64) {
	switch {
	case r.Percentile > 0:
		both := s.signed[0]
		for b, n := range s.signed[1] {
			both[b] += n
		}
		most := both.within(r, s.largest(), 1)
		return max(s.lo, -most), min(s.hi, most)
	case r.MSE:
		return s.leastError()
	}
	return s.lo, s.hi
}

// leastError returns the range with the smallest square error for 255 steps. The two ends are reduced independently.
func (s *spread) leastError() (lo, hi float64) {
	type bin struct {
		x float64
		n float64
	}
	var bins []bin
	for side, sign := range []float64{-1, 1} {
		for b, n := range s.signed[side] {
			if n > 0 {
				bins = append(bins, bin{sign * (edge(b) + edge(b-1)) / 2, float64(n)})
			}
		}
	}
	const parts = 20
	least := math.Inf(1)
	for i := parts; i > parts/4; i-- {
		for j := parts; j > parts/4; j-- {
			a, b := s.lo*float64(i)/parts, s.hi*float64(j)/parts
			step, sum := (b-a)/math.MaxUint8, 0.0
			for _, v := range bins {
				beyond := max(0, a-v.x, v.x-b)
				sum += v.n * max(step*step/12, beyond*beyond)
			}
			if sum < least {
				lo, hi, least = a, b, sum
			}
			if s.hi == 0 {
				break
			}
		}
		if s.lo == 0 {
			break
		}
	}
	return lo, hi
}

// single rounds a step to float32, as in a quantised file.
func single(step float64) float64 { return max(float64(float32(step)), math.SmallestNonzeroFloat32) }

// codesOf returns the codes that cover a range and represent zero exactly.
func codesOf(lo, hi float64, wide bool) Codes {
	lo, hi = min(lo, 0), max(hi, 0)
	switch {
	case lo == hi:
		return Codes{Step: 1, Wide: wide}
	case wide:
		return Codes{Step: single(max(-lo, hi) / math.MaxInt16), Wide: true}
	}
	step := single((hi - lo) / math.MaxUint8)
	return Codes{Step: step, Zero: int(math.Round(math.MinInt8 - lo/step))}
}

// Network returns the graph in int8. The parameter wide selects the wide nodes (nil: none). Network uses the file's own
// scales, except for wide maps.
func (s *Seen) Network(wide []bool) (*Int8, error) {
	if wide == nil {
		wide = make([]bool, len(s.g.Nodes))
	}
	n := &Int8{Graph: s.g, Maps: s.codes(wide), Layers: make([]Layer8, len(s.g.Nodes))}
	for i := range n.Layers {
		n.Layers[i].Wide = wide[i]
		if err := s.build(n, i); err != nil {
			return nil, fmt.Errorf("network %s: layer %d (%q): %w", s.g.Name, i, s.g.Nodes[i].Name, err)
		}
	}
	return n, nil
}

// Computes reports whether an operator multiplies or adds. A node with such an operator can be wide. Pools and
// concatenations have the width of their inputs.
func Computes(op graph.Op) bool { return op == graph.Conv || op == graph.Add || op == graph.Mul }

func (s *Seen) codes(wide []bool) []Codes {
	g := s.g
	group := make([]int, len(g.Tensors)) // maps share codes if a pool or a concatenation connects them
	for t := range group {
		group[t] = t
	}
	// A map is wide if all layers that compute (Computes) and write or read the map are wide.
	narrow, broad := make([]bool, len(g.Tensors)), make([]bool, len(g.Tensors))
	for i := range g.Nodes {
		node := &g.Nodes[i]
		if Computes(node.Op) {
			by := narrow
			if wide[i] {
				by = broad
			}
			by[node.Output] = true
			for _, t := range node.Reads() {
				by[t] = true
			}
		}
		for _, t := range node.Inputs {
			if node.Op.Passes() {
				group[find(group, int(t))] = find(group, int(node.Output))
			}
		}
	}
	whole := map[graph.TensorID]bool{g.Input: true}
	for _, x := range g.Exits {
		whole[x.Tensor] = true
	}
	lo, hi, small, large := make([]float64, len(group)), make([]float64, len(group)), make([]bool, len(group)), make([]bool, len(group))
	for t := range group {
		a, b := s.maps[t].lo, s.maps[t].hi
		if !whole[graph.TensorID(t)] {
			a, b = s.maps[t].covered(s.o.Range)
		}
		k := find(group, t)
		lo[k], hi[k] = min(lo[k], a*s.o.Headroom), max(hi[k], b*s.o.Headroom)
		small[k], large[k] = small[k] || narrow[t], large[k] || broad[t]
	}
	for i := range g.Nodes { // codes do not need to cover values beyond a clamp's bounds
		node := &g.Nodes[i]
		if k := find(group, int(node.Output)); group[node.Output] == k && !node.Op.Passes() && alone(group, k) {
			lo[k], hi[k] = max(lo[k], float64(node.ClampLo)), min(hi[k], float64(node.ClampHi))
		}
	}
	out := make([]Codes, len(group))
	for t := range out {
		k := find(group, t)
		out[t] = codesOf(lo[k], hi[k], large[k] && !small[k])
		if f, ok := g.Scales[graph.TensorID(t)]; ok && !out[t].Wide {
			out[t] = Codes{Step: f.Step, Zero: f.Zero}
		}
	}
	return out
}

func alone(group []int, k int) bool {
	n := 0
	for t := range group {
		if find(group, t) == k {
			n++
		}
	}
	return n == 1
}

const (
	// A Conv's t before a residual has 16 bits. Its step is midFiner times finer than an 8-bit output's step, or
	// midCoarser times coarser than a 16-bit output's step. It is coarser if midFits times the calibrated range would
	// not fit.
	midFiner, midCoarser, midFits = 64, 4, 2
	curveBits                     = 7  // fraction bits of a code when a curve is fitted
	maxCurveShift                 = 31 // CURVE_SHIFT
)

func (s *Seen) build(n *Int8, i int) error {
	node, l := &s.g.Nodes[i], &n.Layers[i]
	in, out := n.Maps[node.Inputs[0]], n.Maps[node.Output]
	l.Lo, l.Hi = out.Code(float64(node.ClampLo)), out.Code(float64(node.ClampHi))
	step, mid := out.Step, out.Wide // for the value before the curve or the zero point: its step, and whether it has 16 bits
	if node.Function != nil {
		front := s.front[i]
		lo, hi := out.holds()
		frac := front.front(node.Function, s.o.Headroom, 1, max(lo, float64(node.ClampLo)), min(hi, float64(node.ClampHi)), out.Step)
		step, mid, l.Mid = math.Ldexp(1, -frac), true, frac
		to := &graph.Function{Name: "Line", Alpha: 1 / out.Step, Beta: float64(out.Zero), Of: []*graph.Function{node.Function}}
		finer := curveBits
		if out.Wide {
			finer = 0
		}
		var err error
		if l.Curve, _, err = fit(to, front, s.o.Headroom, 1, frac, finer); err != nil {
			return err
		}
		coarsen(l.Curve, finer)
	}
	span := float64(math.MaxUint16 + 1)
	if !mid {
		span = math.MaxUint8 + 1
	}
	switch node.Op {
	case graph.Conv:
		l.convolution(node, in)
		t := step
		if node.Residual != graph.None {
			if t = step / midFiner; mid {
				t = step * midCoarser
			}
			t = max(t, s.part[i]*midFits/math.MaxInt16)
			l.Sum = sumOf(t/step, n.Maps[node.Residual].Step/step, math.MaxInt16+1, n.Maps[node.Residual].reach(), span)
		}
		for _, w := range l.Steps {
			l.Scales = append(l.Scales, scaling(in.Step*w/t))
		}
	case graph.Add:
		other := n.Maps[node.Inputs[1]]
		l.Sum = sumOf(in.Step/step, other.Step/step, in.reach(), other.reach(), span)
	case graph.Mul:
		l.Scales = []Scaling{scaling(in.Step * n.Maps[node.Inputs[1]].Step / step)}
	case graph.MaxPool, graph.Concat, graph.Reshape:
		for _, t := range node.Inputs {
			l.Scales = append(l.Scales, scaling(n.Maps[t].Step/step))
		}
	case graph.AvgPool:
		divisors, _, err := averages(s.g, i)
		if err != nil {
			return err
		}
		l.Scales = make([]Scaling, node.Window.KH*node.Window.KW+1)
		for taps, d := range divisors {
			l.Scales[taps] = scaling(in.Step / step / float64(d))
		}
	}
	return nil
}

// Front returns the Front of a layer's function; nil if the layer has no function.
func (n *Int8) Front(i int) *Front {
	node, out := &n.Graph.Nodes[i], n.Maps[n.Graph.Nodes[i].Output]
	if n.Layers[i].Curve == nil {
		return nil
	}
	lo, hi := out.holds()
	return newFront(node, n.Layers[i].Mid, 1, lo, hi, out.Step)
}

func coarsen(c *abi.Curve, bits int) {
	c.Shift += uint8(bits)
	for ; c.Shift > maxCurveShift; c.Shift-- {
		for i := range c.Segments {
			g := &c.Segments[i]
			g.Slope, g.Offset = int16(abi.RoundEven(int64(g.Slope), 1)), int32(abi.RoundEven(int64(g.Offset), 1))
		}
	}
}

// convolution quantises weights and bias. It uses the file's steps if they exist. Otherwise, the largest weight of each
// output channel has the code 127, or 32767 in a wide layer. The step is increased until two conditions are met: the
// sum fits the accumulator for any input, and the bias with the zero point's contribution fits 32 bits.
func (l *Layer8) convolution(node *graph.Node, in Codes) {
	most, limit := float64(math.MaxInt8), float64(math.MaxInt32)
	if l.Wide {
		most, limit = math.MaxInt16, float64(Limit-1)
	}
	zero, reach := float64(in.Zero), in.reach()
	per := len(node.Weights) / len(node.Bias)
	l.Weights, l.Bias, l.Steps = make([]int16, len(node.Weights)), make([]int32, len(node.Bias)), make([]float64, len(node.Bias))
	for c, b := range node.Bias {
		w, q := node.Weights[c*per:(c+1)*per], l.Weights[c*per:(c+1)*per]
		fits := func(step float64) bool {
			total, size := 0.0, 0.0
			for _, v := range q {
				total, size = total+float64(v), size+math.Abs(float64(v))
			}
			bias := math.RoundToEven(float64(b) / (in.Step * step))
			if size*reach+math.Abs(bias) > limit || math.Abs(bias-zero*total) > math.MaxInt32 {
				return false
			}
			l.Steps[c], l.Bias[c] = step, int32(bias-zero*total)
			return true
		}
		if step := fileStep(node, c); step > 0 && !l.Wide && onSteps(w, step, q) && fits(step) {
			for halvable(q) && between(float64(b)/(in.Step*step)) { // small codes of weights make the steps of the bias coarse
				for k := range q {
					q[k] *= 2
				}
				if step /= 2; !fits(step) {
					for k := range q {
						q[k] /= 2
					}
					break
				}
			}
			continue
		}
		if node.Steps != nil {
			l.Anew++
		}
		sum, large := 0.0, 0.0
		for _, v := range w {
			sum, large = sum+math.Abs(float64(v)), max(large, math.Abs(float64(v)))
		}
		bias := math.Abs(float64(b)) / in.Step
		step := max(large/most, (sum*(reach+math.Abs(zero)+1)+2*bias)/limit, (sum*math.Abs(zero)+2*bias)/math.MaxInt32)
		if large == 0 {
			if step = math.Ldexp(bias, -20); b == 0 {
				step = 1
			}
		}
		for ; ; step *= 1 + 1./64 { // rounding may have made the codes larger
			step = single(step)
			for k, v := range w {
				q[k] = int16(math.RoundToEven(float64(v) / step))
			}
			if fits(step) {
				break
			}
		}
	}
}

// onSteps writes the codes of weights to q. It returns false if a weight is not a multiple of the step. It also rejects
// code -128, because two weights that share a multiplier must not both be -128 (hw/INT8.md).
func onSteps(w []float32, step float64, q []int16) bool {
	for k, v := range w {
		code := math.Round(float64(v) / step)
		if math.Abs(float64(v)/step-code) > 1e-3 || math.Abs(code) > math.MaxInt8 {
			return false
		}
		q[k] = int16(code)
	}
	return true
}

// halvable reports whether the codes still fit 8 bits after the step is halved.
func halvable(q []int16) bool {
	return !slices.ContainsFunc(q, func(v int16) bool { return max(v, -v) > math.MaxInt8/2 })
}

// between reports whether a bias is not a multiple of the sum's step, except for float32's rounding errors.
func between(bias float64) bool {
	return math.Abs(bias-math.RoundToEven(bias)) > 1e-3+1e-6*math.Abs(bias)
}

func fileStep(node *graph.Node, c int) float64 {
	if node.Steps == nil {
		return 0
	}
	return node.Steps[c]
}
