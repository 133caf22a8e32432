package onnx

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/sluice-npu/sluice/dse/graph"
)

// curves maps an elementwise operator to a callback that reads the attributes and returns the function. Only designs
// with the post stage can run these operators.
var curves = map[string]func(a *attributes) *graph.Function{
	"Celu": func(a *attributes) *graph.Function {
		return &graph.Function{Name: "Celu", Alpha: float64(a.float("alpha", 1))}
	},
	"Elu": func(a *attributes) *graph.Function {
		return &graph.Function{Name: "Elu", Alpha: float64(a.float("alpha", 1))}
	},
	"Erf": named("Erf"),
	"Exp": named("Exp"),
	"Gelu": func(a *attributes) *graph.Function {
		switch how := a.string("approximate", "none"); how {
		case "none":
		case "tanh":
			return &graph.Function{Name: "GeluTanh"}
		default:
			a.fail("attribute \"approximate\": %w: %q, none and tanh are supported", ErrAttribute, how)
		}
		return &graph.Function{Name: "Gelu"}
	},
	"HardSwish":  named("HardSwish"),
	"Log":        named("Log"),
	"Mish":       named("Mish"),
	"Reciprocal": named("Reciprocal"),
	"Selu": func(a *attributes) *graph.Function {
		return &graph.Function{Name: "Selu", Alpha: float64(a.float("alpha", 1.67326319217681884765625)), Beta: float64(a.float("gamma", 1.05070102214813232421875))}
	},
	"Softplus": named("Softplus"),
	"Softsign": named("Softsign"),
	"Sqrt":     named("Sqrt"),
	"Tanh":     named("Tanh"),
}

func named(name string) func(*attributes) *graph.Function {
	return func(*attributes) *graph.Function { return &graph.Function{Name: name} }
}

func (c *call) curve() error {
	if err := c.inputs(1, 1); err != nil {
		return err
	}
	fn := curves[opName(c.node)](c.attr)
	if err := c.attr.done(); err != nil {
		return err
	}
	return c.byFunction(fn)
}

// byFunction applies a function to input 0.
func (c *call) byFunction(fn *graph.Function) error {
	v, err := c.elements(0)
	if err != nil {
		return err
	}
	if err := c.post("a function that is no clamp"); err != nil {
		return err
	}
	t := c.shapeOf(v)
	return c.emit(layer{kind: curve, function: fn}, v, t.h, t.w, t.c, false)
}

// post counts an operator that needs the post stage. It returns an error if the design has no post stage.
func (c *call) post(what string) error {
	if !c.options.Post {
		return fmt.Errorf("%w: %s; a design with post: true runs it", ErrUnsupported, what)
	}
	c.posts[opName(c.node)]++
	return nil
}

// pow lowers a Pow of a map with a constant exponent. Powers 2 and 3 become products, which can join a larger function.
func (c *call) pow() error {
	if err := c.plain(2, 2); err != nil {
		return err
	}
	exponent, err := c.number(c.input(1))
	if err != nil {
		return err
	}
	if exponent != 2 && exponent != 3 {
		return c.byFunction(&graph.Function{Name: "Pow", Alpha: float64(exponent)})
	}
	v, err := c.elements(0)
	if err != nil {
		return err
	}
	if err := c.post("a power"); err != nil {
		return err
	}
	t, x := c.shapeOf(v), v.tensor
	if exponent == 3 {
		square, err := c.alone(layer{kind: mul, in: []int{x, x}}, v, " (squared)", true)
		if err != nil {
			return err
		}
		return c.emit(layer{kind: mul, in: []int{square.tensor, x}}, v, t.h, t.w, t.c, t.nonNegative)
	}
	return c.emit(layer{kind: mul, in: []int{x, x}}, v, t.h, t.w, t.c, true)
}

// times lowers a product or a quotient of two maps. In a product, one map may have a single pixel, which multiplies all
// pixels of the other map. A quotient must be a function of one map.
func (c *call) times(k kind) error {
	if err := c.plain(2, 2); err != nil {
		return err
	}
	if err := c.post(map[kind]string{mul: "a product of two maps", div: "a quotient of two maps"}[k]); err != nil {
		return err
	}
	a, b, err := c.pair()
	if err != nil && k == mul {
		var gate error
		if a, b, gate = c.gated(); gate != nil {
			return fmt.Errorf("%w; nor is one of them one pixel of as many channels", err)
		}
		err = nil
	}
	if err != nil {
		return err
	}
	s, t := c.shapeOf(a), c.shapeOf(b)
	if k == div && t.alike && !s.alike { // the divisor is a function of another map, so multiply by its reciprocal
		if b, err = c.alone(layer{kind: curve, function: &graph.Function{Name: "Reciprocal"}}, b, " (reciprocal)", t.nonNegative); err != nil {
			return err
		}
		k = mul
	}
	return c.emit(layer{kind: k, in: []int{a.tensor, b.tensor}}, a, s.h, s.w, s.c, k == mul && (a.tensor == b.tensor || s.nonNegative && t.nonNegative))
}

// gated returns the two inputs: first a map, then a map of one pixel with the same channels.
func (c *call) gated() (a, b value, err error) {
	for i := range 2 {
		if a, err = c.value(i); err != nil {
			return
		}
		if b, err = c.value(1 - i); err != nil {
			return
		}
		s, t, v, w := c.shapeOf(a), c.shapeOf(b), c.viewOf(a), c.viewOf(b)
		if t.h*t.w != 1 || t.c != s.c || len(v.axes) != len(w.axes) {
			continue
		}
		axis := slices.IndexFunc(w.axes, func(f []factor) bool { return len(f) > 0 })
		if axis >= 0 && v.channels(axis, s) || axis < 0 && s.c == 1 {
			return a, b, nil
		}
	}
	return a, b, ErrShape
}

// Exporters write activations as several operators on one map: x * Sigmoid(x), x * Erf(x / sqrt 2) and so on. The
// functions below combine them to one function.

// uniform returns the scale and shift of an affine layer. ok means that both are the same for all channels.
func (l *layer) uniform() (scale, shift float64, ok bool) {
	at := func(of []float64, i int, absent float64) float64 {
		if of == nil {
			return absent
		}
		return of[i]
	}
	scale, shift = at(l.scale, 0, 1), at(l.shift, 0, 0)
	for i := range max(len(l.scale), len(l.shift)) {
		if at(l.scale, i, 1) != scale || at(l.shift, i, 0) != shift {
			return 0, 0, false
		}
	}
	return scale, shift, true
}

// elementwise returns the function that a layer applies to each element; nil if the layer is not elementwise.
func (f *fused) elementwise(l *layer) *graph.Function {
	if l == nil {
		return nil
	}
	switch l.kind {
	case curve:
		return l.function
	case clamp:
		if f.tensors[l.out].scale != nil && f.rescaled(l) {
			return nil // the clamp represents a rounding
		}
		return &graph.Function{Name: "Clip", Alpha: float64(l.lo), Beta: float64(l.hi)}
	case affine:
		if scale, shift, ok := l.uniform(); ok {
			return &graph.Function{Name: "Line", Alpha: scale, Beta: shift}
		}
	case add, mul, div:
		if s, t := f.tensors[l.in[0]], f.tensors[l.in[1]]; s.h == t.h && s.w == t.w {
			return &graph.Function{Name: map[kind]string{add: "Add", mul: "Mul", div: "Div"}[l.kind]}
		}
	}
	return nil
}

// compose finds layers that together compute a function of one map, and replaces them by a curve. It begins with the
// last layers. It returns an error if no design can compute one of the remaining layers.
func (f *fused) compose() error {
	for _, l := range slices.Backward(f.layers) {
		if f.readers[l.out] == 0 && !f.exits[l.out] { // no layer reads the output
			l.gone = true
			for _, t := range l.in {
				f.readers[t]--
			}
			continue
		}
		base, fn := f.functionOf(l)
		if fn == nil {
			continue
		}
		for _, t := range l.in {
			f.readers[t]--
		}
		f.readers[base]++
		*l = layer{name: l.name, kind: curve, in: []int{base}, out: l.out, residual: -1, lo: float32(math.Inf(-1)), hi: float32(math.Inf(1)), function: fn}
	}
	f.layers = slices.DeleteFunc(f.layers, func(l *layer) bool { return l.gone })
	for _, l := range f.layers {
		switch {
		case l.kind == div:
			return fmt.Errorf("node %q (Div): %w: of two maps that are no function of one", l.name, ErrUnsupported)
		case l.kind == curve && !l.function.Tame():
			return fmt.Errorf("node %q: %w: %v, which %s", l.name, ErrUnsupported, l.function, l.function.Wild())
		}
	}
	return nil
}

// gate replaces a function x * g(x) by two layers: a curve of g, which is flat far from zero, and the product. The
// parameter `most` limits the number of replaced functions. gate begins with the first functions, because their errors
// pass through all later layers. It stops before the maps have more elements than the limit.
func (f *fused) gate(most int) error {
	var layers []*layer
	for _, l := range f.layers {
		layers = append(layers, l)
		g := (*graph.Function)(nil)
		t := f.tensors[l.out]
		if l.kind == curve && most > 0 && f.elems+int64(t.h*t.w*t.c) <= maxElems {
			g = l.function.Gate()
		}
		if g == nil {
			continue
		}
		most--
		x := l.in[0]
		s, err := f.tensor(t.name+" (gate)", t.h, t.w, t.c)
		if err != nil {
			return err
		}
		product := *l
		product.kind, product.function, product.in = mul, nil, []int{x, s}
		*l = layer{name: l.name + " (gate)", kind: curve, in: []int{x}, out: s, residual: -1, lo: float32(math.Inf(-1)), hi: float32(math.Inf(1)), function: g}
		layers = append(layers, &product)
		f.readers, f.exits = append(f.readers, 1), append(f.exits, false)
		f.producer[s], f.producer[product.out] = l, &product
		f.readers[x]++
	}
	f.layers = layers
	return nil
}

// maxCone limits the number of layers that become one function.
const maxCone = 32

// functionOf returns layer l as a function fn of one tensor, base. The function includes as many of the layers before l
// as possible. If it can include only l, fn is nil.
func (f *fused) functionOf(l *layer) (base int, fn *graph.Function) {
	switch l.kind {
	case affine, curve:
		if f.elementwise(f.only(l.in[0])) == nil && (l.kind == affine || l.function.Tame()) {
			return 0, nil // the input must remain a layer, because other layers read it or it is not such a function
		}
	case add, mul, div:
	default:
		return 0, nil
	}
	read, curved := map[int]bool{l.out: true}, false
	for range maxCone {
		last := slices.Max(slices.Collect(maps.Keys(read))) // the other tensors in `read` do not depend on this one
		if len(read) == 1 && curved {
			if g := f.tame(f.formula(l.out, last), last); g != nil {
				base, fn, curved = last, g, false
			}
		}
		p := f.producer[last]
		if f.elementwise(p) == nil {
			break
		}
		curved = curved || p.kind == curve || p.kind == mul || p.kind == div
		delete(read, last)
		for _, t := range p.in {
			read[t] = true
		}
	}
	return base, fn
}

// tame returns a function in a form that line segments can approximate; nil if there is no such form. If tensor base is
// never negative, tame may change the function for negative arguments.
func (f *fused) tame(g *graph.Function, base int) *graph.Function {
	if g != nil && !g.Tame() && f.tensors[base].nonNegative {
		g = g.After(&graph.Function{Name: "Abs"})
	}
	if g == nil || !g.Tame() {
		return nil
	}
	return g
}

// formula returns tensor t as a function of tensor base; nil if the function is too long.
func (f *fused) formula(t, base int) *graph.Function {
	if t == base {
		return graph.X()
	}
	p := f.producer[t]
	fn := f.elementwise(p)
	args := make([]*graph.Function, len(p.in))
	for i, in := range p.in {
		if args[i] = f.formula(in, base); args[i] == nil {
			return nil
		}
	}
	if len(args) == 1 {
		fn = fn.After(args[0])
	} else {
		fn.Of = args
	}
	if fn.Size() > graph.MaxFunction {
		return nil
	}
	return fn
}
