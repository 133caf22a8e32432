package onnx

import (
	"fmt"
	"math"
	"slices"

	"github.com/sluice-npu/sluice/dse/graph"
)

// A quantised file (QDQ) computes with floats, and has a QuantizeLinear and a DequantizeLinear for each map and each
// weight. The functions below turn such a pair into a clamp to the range of the codes. They record the scale of a map
// (graph.Graph.Scales) and the steps of weights (graph.Node). No layer is folded across a rounding that can change a
// value. Therefore, a network in int8 (quant.Int8) computes the same as the file.

// ofCodes lists the operators that may read codes: they convert codes to floats, clip codes, or change the view.
var ofCodes = []string{"Clip", "DequantizeLinear", "Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"}

// rounding identifies a quantised map by the map and the scale of the codes. Several readers may quantise a map, each
// with its own scale.
type rounding struct {
	tensor int
	scale  graph.Scale
}

// codeSteps contains a constant's steps: a single step, or one step per index of the axis. It is empty if an operation
// has mixed elements with different steps.
type codeSteps struct {
	of   []float64
	axis int64
}

// stepsOf returns the step of each output channel of weights: 0 if a channel has several steps. It returns nil if the
// weights are floats in the file.
func (c *call) stepsOf(name string, axis int64, channels int) []float64 {
	switch s, ok := c.steps[name]; {
	case !ok:
		return nil
	case len(s.of) == 1:
		return slices.Repeat(s.of, channels)
	case len(s.of) == channels && s.axis == axis:
		return s.of
	}
	return make([]float64, channels)
}

// keepSteps copies the steps of a constant to the output of a node that moves its elements. The function axis maps an
// axis of the input to an axis of the output, or returns -1 if there is none.
func (c *call) keepSteps(axis func(int) int) {
	s, ok := c.steps[c.input(0)]
	if !ok {
		return
	}
	if len(s.of) > 1 {
		if s.axis = int64(axis(int(s.axis))); s.axis < 0 {
			s = codeSteps{}
		}
	}
	c.steps[c.output()] = s
}

// coded reports whether an input of a node was computed from codes.
func (c *call) coded() bool {
	return slices.ContainsFunc(c.node.GetInput(), func(name string) bool { _, ok := c.steps[name]; return ok })
}

// alongside returns a function for a reshape between two lists of dimensions. The function maps an axis to the same
// axis after the reshape, or to -1 if the reshape splits or joins the axis.
func alongside(from, to []int) func(int) int {
	return func(axis int) int {
		before := 1
		for _, d := range from[:axis] {
			before *= d
		}
		for a, d := range to {
			if before == 1 && d == from[axis] {
				return a
			}
			if d == 0 || before%d != 0 {
				return -1
			}
			before /= d
		}
		return -1
	}
}

// stepped returns the steps of a convolution's scaled weights; 0 if preScale differs between channels.
func (l *layer) stepped() []float64 {
	if l.steps == nil {
		return nil
	}
	pre := 1.0
	for _, v := range l.preScale {
		if pre = l.preScale[0]; v != pre {
			pre = 0
			break
		}
	}
	s := make([]float64, len(l.steps))
	for c, v := range l.steps {
		if s[c] = math.Abs(v * pre); l.scale != nil {
			s[c] *= math.Abs(l.scale[c])
		}
	}
	return s
}

// scaleOf reads a node's scale and zero point. It also returns the type of the codes; kind is the default.
func (c *call) scaleOf(kind int32) (s graph.Scale, _ int32, err error) {
	step, err := c.number(c.input(1))
	if err != nil {
		return s, kind, err
	}
	if s.Step = float64(step); !(s.Step > 0) || math.IsInf(s.Step, 0) {
		return s, kind, fmt.Errorf("tensor %q: %w: a scale of %v, expected a number above 0", c.input(1), ErrValue, step)
	}
	zero := int64(0)
	if t := c.attr.int("output_dtype", 0); t != 0 {
		kind = int32(t)
	}
	if name := c.input(2); name != "" {
		k := c.constants[name]
		if k == nil || k.elems != 1 {
			return s, kind, fmt.Errorf("tensor %q: %w: expected one constant", name, ErrShape)
		}
		if kind = k.kind; len(k.ints) == 1 {
			zero = k.ints[0]
		}
	}
	c.attr.int("axis", 1) // only for scales per channel
	c.attr.only("block_size", 0)
	c.attr.only("saturate", 1) // only for 8-bit floats
	switch kind {
	case typeUint8:
		s.Zero = int(zero) + math.MinInt8
	case typeInt8:
		s.Zero = int(zero)
	default:
		return s, kind, fmt.Errorf("tensor %q: %w %d of a map's codes, expected 2 (uint8) or 3 (int8)", c.input(2), ErrType, kind)
	}
	return s, kind, c.attr.done()
}

func (c *call) quantizeMap() error {
	if err := c.inputs(2, 3); err != nil {
		return err
	}
	s, kind, err := c.scaleOf(typeUint8)
	if err != nil {
		return err
	}
	if v := c.values[c.input(0)]; v.activation != "" { // the host computes the function without the rounding
		v.coded, v.kind = &s, kind
		c.values[c.output()] = v
		return nil
	}
	v, err := c.elements(0)
	if err != nil {
		return err
	}
	t, joins := &c.net.tensors[v.tensor], c.net.joins(v.tensor, s)
	made, again := c.rounded[rounding{v.tensor, s}]
	coded, alike := c.quantised(s)
	switch {
	case t.scale != nil && *t.scale == s:
	case again:
		v.tensor = made
	case t.scale == nil && (v.tensor == c.net.input && alike || joins != nil && coded): // codes saturate by themselves
		t.scale = &s
	default:
		lo, hi := s.Bounds()
		l := layer{kind: clamp, lo: float32(lo), hi: float32(hi)}
		if joins != nil { // concatenate the inputs again, so that each input is rounded only once
			l = layer{kind: concat, in: slices.Clone(joins.in)}
		}
		if err := c.emit(l, v, t.h, t.w, t.c, lo >= 0 || t.nonNegative); err != nil {
			return err
		}
		from := v.tensor
		v = c.values[c.output()]
		c.net.tensors[v.tensor].scale, c.rounded[rounding{from, s}] = &s, v.tensor
	}
	v.coded, v.kind = &s, kind
	c.values[c.output()] = v
	return nil
}

// quantised reports whether all readers of the node's input quantise it (coded), and whether all of them use the scale
// s (alike).
func (c *call) quantised(s graph.Scale) (coded, alike bool) {
	coded = !slices.Contains(c.exits, c.input(0))
	alike = coded
	for _, n := range c.graph.GetNode() {
		needed := slices.ContainsFunc(n.GetOutput(), func(o string) bool { return c.inner[o] || slices.Contains(c.exits, o) })
		if !needed || opName(n) == "Shape" || !slices.Contains(n.GetInput(), c.input(0)) {
			continue
		}
		a, err := newAttributes(n)
		if err != nil || opName(n) != "QuantizeLinear" {
			return false, false
		}
		o, _, err := (&call{importer: c.importer, node: n, attr: a}).scaleOf(typeUint8)
		alike = alike && err == nil && o == s
	}
	return coded, alike
}

// decode lowers a DequantizeLinear of a map's codes.
func (c *call) decode(v value) error {
	s, _, err := c.scaleOf(v.kind)
	if err != nil {
		return err
	}
	if s != *v.coded {
		return fmt.Errorf("tensor %q: %w: codes of scale %v and zero point %v are read with %v and %v", c.input(0), ErrUnsupported, v.coded.Step, v.coded.Zero, s.Step, s.Zero)
	}
	v.coded = nil
	c.values[c.output()] = v
	return nil
}

// clipCodes lowers a Clip of codes. Brevitas exports codes of fewer than 8 bits with such a Clip.
func (c *call) clipCodes(v value) error {
	if err := c.plain(1, 3); err != nil {
		return err
	}
	s, kind, bounds := *v.coded, v.kind, [2]float32{float32(math.Inf(-1)), float32(math.Inf(1))}
	for i := range bounds {
		name := c.input(1 + i)
		if name == "" {
			continue
		}
		k := c.constants[name]
		if k == nil || len(k.ints) != 1 {
			return fmt.Errorf("tensor %q: %w: expected one constant code", name, ErrShape)
		}
		code := k.ints[0]
		if k.kind == typeUint8 {
			code += math.MinInt8
		}
		bounds[i] = float32(s.Step * float64(code-int64(s.Zero)))
	}
	if err := c.bounded(bounds[0], bounds[1]); err != nil {
		return err
	}
	v = c.values[c.output()]
	c.net.tensors[v.tensor].scale, v.coded, v.kind = &s, &s, kind
	c.values[c.output()] = v
	return nil
}

// quantize computes QuantizeLinear for a constant: the nearest code, ties to even.
func (c *call) quantize() error {
	if err := c.inputs(2, 3); err != nil {
		return err
	}
	x, err := c.operand(0)
	if err != nil {
		return err
	}
	scale, err := c.operand(1)
	if err != nil {
		return err
	}
	zero := &numbers{kind: typeUint8, ints: make([]int64, len(scale.real))}
	if c.input(2) != "" {
		if zero, err = c.operand(2); err != nil {
			return err
		}
	}
	at := c.attr.int("axis", 1)
	c.attr.only("block_size", 0)
	c.attr.only("saturate", 1)
	if err := c.attr.done(); err != nil {
		return err
	}
	bounds := map[int32][2]float64{typeUint8: {0, math.MaxUint8}, typeInt8: {math.MinInt8, math.MaxInt8}, typeInt32: {math.MinInt32, math.MaxInt32}}
	b, ok := bounds[zero.kind]
	if whole(x.kind) || whole(scale.kind) || !ok || len(zero.ints) != len(scale.real) || !c.options.survey && x.absent {
		return fmt.Errorf("tensor %q: %w %d, expected floats with a scale of floats and a zero point of 2 (uint8), 3 (int8) or 6 (int32) each", c.input(0), ErrType, x.kind)
	}
	of := func(int) int { return 0 }
	if len(scale.real) != 1 {
		a, err := axisOf(at, len(x.dims))
		if err != nil {
			return err
		}
		if len(scale.real) != x.dims[a] {
			return fmt.Errorf("tensor %q: %w: %d scales for %v along axis %d", c.input(1), ErrShape, len(scale.real), x.dims, a)
		}
		p := placesOf(x.dims)
		of = func(i int) int { return p.of(i)[a] }
	}
	y, err := c.fresh(zero.kind, x.dims, false)
	if err != nil {
		return err
	}
	for i, v := range x.real {
		if x.absent || scale.absent { // only in a survey, which does not need codes
			break
		}
		s := of(i)
		code := graph.Scale{Step: float64(float32(scale.real[s])), Zero: int(zero.ints[s])}.Nearest(float64(float32(v)))
		if math.IsNaN(code) {
			return fmt.Errorf("tensor %q: %w: %v by a scale of %v", c.input(0), ErrValue, v, scale.real[s])
		}
		y.ints[i] = int64(min(max(code, b[0]), b[1]))
	}
	c.define(0, y)
	return nil
}

// carried returns the scale that a layer's output inherits from its inputs; nil if the layer may compute new values.
func (f *fused) carried(l *layer) *graph.Scale {
	switch l.kind {
	case maxPool, reshape, pick, concat, clamp:
	default:
		return nil
	}
	s := f.tensors[l.in[0]].scale
	for _, t := range l.in {
		if o := f.tensors[t].scale; s == nil || o == nil || *o != *s {
			return nil
		}
	}
	if l.kind == clamp && !(onCode(s, l.lo) && onCode(s, l.hi)) {
		return nil
	}
	return s
}

// onCode reports whether a bound is infinite or the value of a code.
func onCode(s *graph.Scale, bound float32) bool {
	code := float64(bound) / s.Step
	return math.IsInf(code, 0) || math.Abs(code-math.Round(code)) < 1e-3
}

// joins returns the concatenation that produces a map, if all its inputs are codes within the range of scale s.
// Otherwise it returns nil.
func (f *fused) joins(t int, s graph.Scale) *layer {
	lo, hi := s.Bounds()
	for _, l := range f.layers {
		if l.out != t || l.kind != concat {
			continue
		}
		if slices.ContainsFunc(l.in, func(in int) bool {
			o := f.tensors[in].scale
			if o == nil {
				return true
			}
			from, to := o.Bounds()
			return from < lo-s.Step/2 || to > hi+s.Step/2
		}) {
			return nil
		}
		return l
	}
	return nil
}

// rescaled reports whether clamp l does not convert between codes: its input has no scale, or the scale of the output.
func (f *fused) rescaled(l *layer) bool {
	from, to := f.tensors[l.in[0]].scale, f.tensors[l.out].scale
	return from == nil || to != nil && *from == *to
}
