package onnx

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/sluice-npu/sluice/dse/graph"
	"github.com/sluice-npu/sluice/dse/onnx/onnxpb"
)

// This file lowers means over channels, and the layer norms that use them. On the NPU, a map of one channel cannot
// multiply all channels of another map. So a dense 1 x 1 convolution writes the mean to all channels. The result is
// viewed as one channel until a node combines it with a whole map.

// alike reports whether a layer's output has the same value in all channels of a pixel.
func (f *fused) alike(l *layer) bool {
	switch l.kind {
	case affine:
		if _, _, ok := l.uniform(); !ok {
			return false
		}
	case clamp, curve, add, mul, div, maxPool, avgPool:
	default:
		return false
	}
	return !slices.ContainsFunc(l.in, func(t int) bool { return !f.tensors[t].alike })
}

// single reports whether a view shows one channel of a map with equal channels.
func (w view) single(t shape) bool {
	n := 1
	for _, f := range slices.Concat(w.axes...) {
		if f.which == 0 {
			return false
		}
		n *= f.size
	}
	return t.alike && n == t.h*t.w
}

// channelAxis returns the axis that represents a map's n channels; -1 if the view has no such axis.
func (w view) channelAxis(n int) int {
	return slices.IndexFunc(w.axes, func(f []factor) bool { return slices.Equal(f, []factor{{0, n, 1}}) })
}

// widened returns v, a map that was viewed as one channel, with a view that has all channels along this axis.
func (c *call) widened(v value, axis int) value {
	w := c.viewOf(v)
	w.axes = slices.Clone(w.axes)
	w.axes[axis] = []factor{{0, c.shapeOf(v).c, 1}}
	return c.seen(v, w)
}

// widen returns input i with a view of all channels instead of one. It returns false unless a constant with dimensions
// dims has one element per channel.
func (c *call) widen(i int, dims []int) (value, bool) {
	v, ok := c.values[c.input(i)]
	if !ok {
		return v, false
	}
	w, t := c.viewOf(v), c.shapeOf(v)
	for k, d := range dims {
		if axis := len(w.axes) - len(dims) + k; d == t.c && d > 1 && axis >= 0 && len(w.axes[axis]) == 0 && w.single(t) {
			return c.widened(v, axis), true
		}
	}
	return v, false
}

// widenedAs expands v, a view of one channel or a map of one channel, to the shape and view of the argument whole. It
// returns false for any other v.
func (c *call) widenedAs(v, whole value) (value, bool, error) {
	w, as, s, t := c.viewOf(v), c.viewOf(whole), c.shapeOf(v), c.shapeOf(whole)
	if !(w.single(s) && s.c == t.c || s.c == 1 && t.c > 1 && w.whole(s)) || s.h != t.h || s.w != t.w || len(w.axes) > len(as.axes) {
		return v, false, nil
	}
	// Missing leading axes have size one.
	w.axes = slices.Concat(make([][]factor, len(as.axes)-len(w.axes)), w.axes)
	axis := as.channelAxis(t.c)
	if axis < 0 || len(w.axes[axis]) > 0 {
		return v, false, nil
	}
	w.axes[axis] = as.axes[axis]
	if fmt.Sprint(w) != fmt.Sprint(as) {
		return v, false, nil
	}
	if s.c == 1 {
		if c.budget -= int64(t.c); c.budget < 0 {
			return v, false, fmt.Errorf("tensor %q: %w: more than %d weights", s.name, ErrTooLarge, weightsOf(c.options))
		}
		l := layer{name: c.name + " (of all channels)", kind: pick, in: []int{v.tensor}, channels: make([]int, t.c)}
		var err error
		if v.tensor, err = c.net.add(l, l.name, t.h, t.w, t.c); err != nil {
			return v, false, err
		}
		c.net.tensors[v.tensor].nonNegative, c.net.tensors[v.tensor].alike = s.nonNegative, true
	}
	return c.seen(v, as), true, nil
}

// channelsAlone reports whether the selected axes contain all channels of a map and nothing else.
func (w view) channelsAlone(t shape, axes []bool) bool {
	if len(axes) != len(w.axes)+1 || axes[0] || t.c == 1 || !w.whole(t) {
		return false
	}
	for a, f := range w.axes {
		if axes[a+1] && len(f) > 0 && a != w.channelAxis(t.c) {
			return false
		}
	}
	axis := w.channelAxis(t.c)
	return axis >= 0 && axes[axis+1]
}

// channelMean computes the mean or the sum over a map's channels. It returns false if the axes contain anything else.
func (c *call) channelMean(v value, axes []bool, keep, sum bool) (bool, error) {
	w, t := c.viewOf(v), c.shapeOf(v)
	if !w.channelsAlone(t, axes) {
		return false, nil
	}
	if c.budget -= int64(t.c) * int64(t.c); c.budget < 0 {
		return false, fmt.Errorf("%w: means over channels make more than %d weights", ErrTooLarge, weightsOf(c.options))
	}
	by := 1 / float32(t.c)
	if sum {
		by = 1
	}
	l := layer{kind: conv, groups: 1, window: graph.Window{KH: 1, KW: 1, SH: 1, SW: 1}, weights: slices.Repeat([]float32{by}, t.c*t.c)}
	if err := c.emit(l, v, t.h, t.w, t.c, t.nonNegative); err != nil {
		return false, err
	}
	mean := c.values[c.output()]
	c.net.tensors[mean.tensor].alike = true
	out := view{first: w.first}
	for a, f := range w.axes {
		switch {
		case !axes[a+1]:
			out.axes = append(out.axes, f)
		case keep:
			out.axes = append(out.axes, nil)
		}
	}
	c.look(0, mean, out)
	return true, nil
}

// Exporters write norms in several forms. The method add rewrites each form to (x - mean) * function(mean of squares).
// Equal layers are merged, so the result is the same for all forms. Layers without a reader are dropped later.

// part describes a tensor as scale * tensor `of` + shift, per channel. nil means scale one and shift zero.
type part struct {
	of           int
	scale, shift []float64
}

func (f *fused) partOf(t int) part {
	p := part{of: t}
	const most = 4 // limited, because a file may have a chain of thousands of layers
	for range most {
		l := f.producer[p.of]
		if l == nil || l.kind != affine {
			break
		}
		p.shift, p.scale, p.of = addProduct(p.shift, orOnes(p.scale, len(l.shift)), l.shift), product(p.scale, l.scale), l.in[0]
	}
	return p
}

// turns reports whether p and q have opposite scales in all channels.
func (p part) turns(q part, c int) bool {
	s, t := orOnes(p.scale, c), orOnes(q.scale, c)
	for i := range c {
		if s[i] != -t[i] {
			return false
		}
	}
	return true
}

func (p part) shifted() bool {
	return slices.ContainsFunc(p.shift, func(s float64) bool { return s != 0 })
}

// isMean reports whether t is the mean over all channels of a tensor.
func (f *fused) isMean(t int) bool {
	l := f.producer[t]
	return l != nil && l.kind == conv && f.tensors[t].alike && l.weights[0] == 1/float32(f.tensors[t].c)
}

// squared returns x if t is the product x * x; otherwise -1.
func (f *fused) squared(t int) int {
	if l := f.producer[t]; l != nil && l.kind == mul && l.in[0] == l.in[1] {
		return l.in[0]
	}
	return -1
}

// norms reports whether r is a function of the mean over y * y, where y is x or a sum with operand x.
func (f *fused) norms(r, x int) bool {
	const most = 8
	for range most {
		if f.isMean(r) {
			of := f.squared(f.producer[r].in[0])
			return of == x || of >= 0 && f.producer[of] != nil && f.producer[of].kind == add && slices.Contains(f.producer[of].in, x)
		}
		p := f.producer[r]
		if p == nil || p.kind != affine && p.kind != clamp && p.kind != curve {
			break
		}
		r = p.in[0]
	}
	return false
}

// exponent returns the exponent of a function that is a power of x; 0 for other functions.
func exponent(f *graph.Function) float64 {
	return map[string]float64{"Reciprocal": -1, "Sqrt": 0.5, "Pow": f.Alpha}[f.Name]
}

// canonical rewrites a layer to its standard form. It returns the result's tensor and true if it added layers, or if l
// does not change its input. Otherwise the caller must add l, whose inputs and function may have changed.
func (f *fused) canonical(l *layer, name string, h, w, c int) (t int, ok bool, err error) {
	if f.merged == nil {
		return 0, false, nil
	}
	r := &rewriting{fused: f, l: l, name: name, h: h, w: w, c: c}
	switch l.kind {
	case affine:
		scale, shift, alike := l.uniform()
		return l.in[0], alike && scale == 1 && shift == 0 && !f.apart[name], nil
	case curve:
		f.power(l)
		return 0, false, nil
	case mul:
		r.inOrder()
	case add:
	default:
		return 0, false, nil
	}
	parts := [2]part{f.partOf(l.in[0]), f.partOf(l.in[1])}
	for i, p := range parts {
		q := parts[1-i]
		switch {
		case l.kind == mul:
			r.product(i, p, q)
		case p.turns(q, c) && !r.variance(p, q):
			r.difference(p, q)
		}
		if r.made {
			return r.t, true, r.err
		}
	}
	return 0, false, nil
}

// power combines powers, for example Reciprocal(Sqrt(x)) to Pow(x, -0.5).
func (f *fused) power(l *layer) {
	if p := f.producer[l.in[0]]; p != nil && p.kind == curve && f.tensors[p.in[0]].nonNegative {
		a, b := exponent(p.function), exponent(l.function)
		if a*b != 0 {
			l.in, l.function = p.in, &graph.Function{Name: "Pow", Alpha: a * b}
		}
	}
}

// rewriting is the state of the rewriting of layer l, which has an output of h x w x c.
type rewriting struct {
	*fused
	l       *layer
	name    string
	h, w, c int

	made bool
	t    int // output of the last layer
	err  error
}

func (r *rewriting) then(k kind, what string, with layer, in ...int) int {
	// A name has the suffix only once. Otherwise, names would grow with each rewriting.
	with.kind, with.name, with.in, r.made = k, strings.TrimSuffix(r.l.name, what)+what, in, true
	if r.err == nil {
		r.t, r.err = r.add(with, strings.TrimSuffix(r.name, what)+what, r.h, r.w, r.c)
	}
	return r.t
}

func (r *rewriting) less(x, m int) int {
	turned := layer{scale: slices.Repeat([]float64{-1}, r.c), shift: make([]float64, r.c)}
	return r.then(add, " (difference)", layer{}, x, r.then(affine, " (turned)", turned, m))
}

// whole reports whether a tensor has the size of the result. It is false for a factor of a single pixel.
func (r *rewriting) whole(t int) bool {
	return r.tensors[t].h == r.h && r.tensors[t].w == r.w && r.tensors[t].c == r.c
}

// inOrder moves a factor with equal channels to the second position. It also replaces |x| * |x| by x * x.
func (r *rewriting) inOrder() {
	in := r.l.in
	if r.tensors[in[0]].alike && !r.tensors[in[1]].alike && r.whole(in[1]) {
		in = []int{in[1], in[0]}
	}
	if p := r.producer[in[0]]; in[0] == in[1] && p != nil && p.kind == curve && p.function.Name == "LeakyRelu" && p.function.Alpha == -1 {
		in = []int{p.in[0], p.in[0]}
	}
	r.l.in = in
}

// product moves the scale of p behind the product: (s * x) * r becomes s * (x * r). It also rewrites (-x) * (-x) to
// x * x.
func (r *rewriting) product(i int, p, q part) {
	one := part{of: q.of}
	switch {
	case p.scale == nil || p.shifted():
	case r.l.in[0] == r.l.in[1]:
		if p.turns(one, r.c) {
			r.l.in = []int{p.of, p.of}
		}
	case r.tensors[p.of].alike && !r.tensors[r.l.in[i]].alike || r.tensors[q.of].alike && (p.turns(one, r.c) || r.norms(r.l.in[1-i], p.of)):
		in := slices.Clone(r.l.in)
		in[i] = p.of
		r.then(affine, "", layer{scale: p.scale, shift: make([]float64, r.c)}, r.then(mul, " (unscaled)", layer{}, in...))
	}
}

// variance rewrites mean(x * x) - mean(x) * mean(x) to mean((x - mean(x))^2). It returns false if p is not a mean.
func (r *rewriting) variance(p, q part) bool {
	if !r.isMean(p.of) || p.scale != nil || p.shifted() || q.shifted() {
		return false
	}
	mean, x, m := r.producer[p.of], r.squared(r.producer[p.of].in[0]), r.squared(q.of)
	if x < 0 || m < 0 || !r.isMean(m) || r.producer[m].in[0] != x || !r.whole(x) {
		return true
	}
	d := r.less(x, m)
	squares := r.then(mul, " (squares)", layer{}, d, d)
	r.then(conv, "", layer{groups: 1, window: mean.window, weights: mean.weights}, squares)
	if r.err == nil {
		r.tensors[squares].nonNegative, r.tensors[r.t].nonNegative, r.tensors[r.t].alike = true, true, true
	}
	return true
}

// difference rewrites x * r + (b - mean * r) to (x - mean) * r + b.
func (r *rewriting) difference(p, q part) {
	if a, b := r.producer[p.of], r.producer[q.of]; a == nil || b == nil || a.kind != mul || b.kind != mul {
		return
	}
	a, b := r.producer[p.of].in, r.producer[q.of].in
	for k := range 4 {
		x, by, m := a[k/2], a[1-k/2], b[k%2]
		if by != b[1-k%2] || r.tensors[x].alike || !r.tensors[m].alike || !r.whole(x) || !r.whole(m) {
			continue
		}
		d := r.less(x, m)
		r.then(affine, "", layer{scale: p.scale, shift: plus(p.shift, q.shift)}, r.then(mul, " (unscaled)", layer{}, d, by))
		return
	}
}

// layerNorm lowers a LayerNormalization to the nodes that exporters write in its place. They compute (x - mean) /
// sqrt(variance + epsilon), scaled and shifted.
func (c *call) layerNorm() error {
	if err := c.inputs(2, 3); err != nil {
		return err
	}
	axis, epsilon := c.attr.int("axis", -1), c.attr.float("epsilon", 1e-5)
	c.attr.only("stash_type", 1)
	if err := c.attr.done(); err != nil {
		return err
	}
	v, err := c.elements(0)
	if err != nil {
		return err
	}
	rank := len(c.viewOf(v).axes) + 1
	from, err := axisOf(axis, rank)
	if err != nil {
		return err
	}
	along := make([]bool, rank)
	for a := from; a < rank; a++ {
		along[a] = true
	}
	if !c.viewOf(v).channelsAlone(c.shapeOf(v), along) {
		return fmt.Errorf("%w: over the axes from %d on of %v, which are not the channels alone", ErrUnsupported, axis, c.dims(v))
	}
	own := c.own
	axes := &constant{kind: typeInt64, dims: []int{rank - from}, elems: rank - from}
	for a := from; a < rank; a++ {
		axes.ints = append(axes.ints, int64(a))
	}
	for what, k := range map[string]*constant{
		"axes":    axes,
		"epsilon": {kind: typeFloat, elems: 1, float: []float32{epsilon}},
		"two":     {kind: typeFloat, elems: 1, float: []float32{2}},
	} {
		k.name = own(what)
		c.constants[k.name] = k
	}
	x := c.input(0)
	for _, step := range []struct {
		op, what string
		in       []string
	}{
		{"ReduceMean", "mean", []string{x, own("axes")}},
		{"Sub", "centred", []string{x, own("mean")}},
		{"Pow", "squares", []string{own("centred"), own("two")}},
		{"ReduceMean", "variance", []string{own("squares"), own("axes")}},
		{"Add", "variance and epsilon", []string{own("variance"), own("epsilon")}},
		{"Sqrt", "deviation", []string{own("variance and epsilon")}},
		{"Div", "normal", []string{own("centred"), own("deviation")}},
		{"Mul", "scaled", []string{own("normal"), c.input(1)}},
		{"Add", "", []string{own("scaled"), c.input(2)}},
	} {
		n := &onnxpb.NodeProto{Name: proto.String(c.name), OpType: proto.String(step.op), Input: step.in, Output: []string{own(step.what)}}
		last := step.op == "Mul" && c.input(2) == ""
		if last || step.what == "" {
			n.Output[0] = c.output()
		} else {
			n.Name = proto.String(c.name + " (" + step.what + ")")
		}
		if err := c.lower(n); err != nil || last {
			return err
		}
	}
	return nil
}
