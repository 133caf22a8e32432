package onnx

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Exporters that do not fold constants write operators on constants to the file, for example weight normalisation,
// casts of float16 weights, and the target of a Reshape. The functions below compute them at import.

// numbers holds a constant's elements in row-major order: in ints for integer types, in real for float types.
type numbers struct {
	dims   []int
	kind   int32
	ints   []int64
	real   []float64
	absent bool // the file has no values; they will be random
}

// folds maps an operator to the function that computes it for constant inputs.
var folds = map[string]func(*call) error{
	"Abs":                eachOf(math.Abs),
	"Add":                sum,
	"And":                logic(func(a, b int64) int64 { return a & b }),
	"BatchNormalization": (*call).foldNormalization,
	"Cast":               (*call).foldCast,
	"CastLike":           (*call).foldCast,
	"Ceil":               eachOf(math.Ceil),
	"Clip":               (*call).foldClip,
	"Concat":             (*call).foldConcat,
	"ConstantOfShape":    (*call).constantOfShape,
	"DequantizeLinear":   (*call).dequantize,
	"Div":                broadcasting(quotient, func(a, b float64) float64 { return a / b }),
	"Equal":              comparing(func(order int) bool { return order == 0 }),
	"Exp":                eachOf(math.Exp),
	"Expand":             (*call).expand,
	"Flatten":            (*call).foldFlatten,
	"Floor":              eachOf(math.Floor),
	"Gather":             (*call).foldGather,
	"Greater":            comparing(func(order int) bool { return order > 0 }),
	"GreaterOrEqual":     comparing(func(order int) bool { return order >= 0 }),
	"Less":               comparing(func(order int) bool { return order < 0 }),
	"LessOrEqual":        comparing(func(order int) bool { return order <= 0 }),
	"Log":                eachOf(math.Log),
	"MatMul":             (*call).foldMatMul,
	"Max":                broadcasting(func(a, b int64) int64 { return max(a, b) }, math.Max),
	"Mean":               (*call).foldMean,
	"Min":                broadcasting(func(a, b int64) int64 { return min(a, b) }, math.Min),
	"Mod":                (*call).mod,
	"Mul":                broadcasting(func(a, b int64) int64 { return a * b }, func(a, b float64) float64 { return a * b }),
	"Neg":                eachOf(func(a float64) float64 { return -a }),
	"Not":                logic(func(a, _ int64) int64 { return 1 - a }),
	"Or":                 logic(func(a, b int64) int64 { return a | b }),
	"Pad":                (*call).foldPad,
	"Pow":                broadcasting(func(a, b int64) int64 { return int64(math.Pow(float64(a), float64(b))) }, math.Pow),
	"QuantizeLinear":     (*call).quantize,
	"Range":              (*call).rangeOf,
	"Reciprocal":         eachOf(func(a float64) float64 { return 1 / a }),
	"ReduceL1":           reduce(0, func(s, v float64) float64 { return s + math.Abs(v) }, nil),
	"ReduceL2":           reduce(0, func(s, v float64) float64 { return s + v*v }, func(s float64, _ int) float64 { return math.Sqrt(s) }),
	"ReduceMax":          reduce(math.Inf(-1), math.Max, nil),
	"ReduceMean":         reduce(0, func(s, v float64) float64 { return s + v }, func(s float64, n int) float64 { return s / float64(n) }),
	"ReduceMin":          reduce(math.Inf(1), math.Min, nil),
	"ReduceProd":         reduce(1, func(s, v float64) float64 { return s * v }, nil),
	"ReduceSum":          reduce(0, func(s, v float64) float64 { return s + v }, nil),
	"ReduceSumSquare":    reduce(0, func(s, v float64) float64 { return s + v*v }, nil),
	"Relu":               eachOf(func(a float64) float64 { return max(a, 0) }),
	"Reshape":            (*call).foldReshape,
	"Round":              eachOf(math.RoundToEven),
	"Shape":              (*call).foldShape,
	"Sigmoid":            eachOf(func(a float64) float64 { return 1 / (1 + math.Exp(-a)) }),
	"Sign":               eachOf(func(a float64) float64 { return float64(cmp.Compare(a, 0)) }),
	"Size":               (*call).sizeOf,
	"Slice":              (*call).foldSlice,
	"Split":              (*call).foldSplit,
	"Sqrt":               eachOf(math.Sqrt),
	"Squeeze":            (*call).foldSqueeze,
	"Sub":                broadcasting(func(a, b int64) int64 { return a - b }, func(a, b float64) float64 { return a - b }),
	"Sum":                sum,
	"Tanh":               eachOf(math.Tanh),
	"Tile":               (*call).tile,
	"Transpose":          (*call).foldTranspose,
	"Unsqueeze":          (*call).foldUnsqueeze,
	"Where":              (*call).where,
	"Xor":                logic(func(a, b int64) int64 { return a ^ b }),
}

var sum = broadcasting(func(a, b int64) int64 { return a + b }, func(a, b float64) float64 { return a + b })

// quotient returns the result of ONNX's integer division. A division by zero, which ONNX does not define, returns zero.
func quotient(a, b int64) int64 {
	if b == 0 || a == math.MinInt64 && b == -1 {
		return 0
	}
	return a / b
}

// whole reports whether a type is an integer type or bool.
func whole(kind int32) bool {
	switch kind {
	case typeInt64, typeInt32, typeInt8, typeUint8, typeBool:
		return true
	}
	return false
}

// round rounds v to the floating-point type kind, but to float32 if kind is double.
func round(kind int32, v float64) float64 {
	if kind == typeBFloat16 && !math.IsNaN(v) {
		b := math.Float32bits(float32(v))
		return float64(math.Float32frombits((b + 0x7fff + b>>16&1) &^ 0xffff))
	}
	if kind != typeFloat16 {
		return float64(float32(v))
	}
	if v == 0 || math.IsNaN(v) || math.IsInf(v, 0) {
		return v
	}
	if math.Abs(v) >= 65520 {
		return math.Copysign(math.Inf(1), v)
	}
	_, e := math.Frexp(v)
	e = max(e-11, -24)
	return math.Ldexp(math.RoundToEven(math.Ldexp(v, -e)), e)
}

func (c *call) operand(i int) (*numbers, error) {
	k := c.constants[c.input(i)]
	if k == nil {
		return nil, fmt.Errorf("%w: input %d", ErrMissing, i)
	}
	n := &numbers{dims: k.dims, kind: k.kind}
	if whole(k.kind) {
		n.ints = k.ints
		return n, nil
	}
	if c.seeded && k.absent() {
		n.absent, n.real = true, make([]float64, k.elems)
		return n, nil
	}
	values, err := k.floats()
	if err != nil {
		return nil, err
	}
	n.real = widen(values)
	return n, nil
}

// fresh returns a tensor of zeros, or an error if its size exceeds the limit of the import.
func (c *call) fresh(kind int32, dims []int, absent bool) (*numbers, error) {
	n, err := c.afforded(dims)
	if err != nil {
		return nil, err
	}
	out := &numbers{dims: dims, kind: kind, absent: absent && !whole(kind)}
	if whole(kind) {
		out.ints = make([]int64, n)
	} else {
		out.real = make([]float64, n)
	}
	return out, nil
}

// afforded returns a tensor's number of elements. It adds the number to a limited total for computed constants.
func (c *call) afforded(dims []int) (int, error) {
	n := 1
	for _, d := range dims {
		if d < 0 || d > maxElems || d > 0 && n > maxElems/d {
			return 0, fmt.Errorf("%w: a constant of %v is more than %d elements", ErrTooLarge, dims, maxElems)
		}
		n *= d
	}
	if c.folding -= int64(n); c.folding < 0 {
		return 0, fmt.Errorf("%w: what is computed from constants has more than %d elements; `onnxsim IN.onnx OUT.onnx` computes it before", ErrTooLarge, weightsOf(c.options))
	}
	return n, nil
}

func (c *call) define(i int, n *numbers) {
	name := c.node.GetOutput()[i]
	if name == "" { // no node reads this output
		return
	}
	k := &constant{name: name, dims: n.dims, elems: len(n.ints) + len(n.real), kind: n.kind, ints: n.ints}
	if !whole(n.kind) && !n.absent {
		k.float = make([]float32, len(n.real))
		for i, v := range n.real {
			k.float[i] = float32(round(n.kind, v))
		}
	}
	c.constants[name] = k
}

// pick returns a tensor with dimensions dims. Its element i is element from(i) of x.
func (c *call) pick(x *numbers, dims []int, from func(i int) int) (*numbers, error) {
	y, err := c.fresh(x.kind, dims, x.absent)
	if err != nil {
		return nil, err
	}
	for i := range y.ints {
		y.ints[i] = x.ints[from(i)]
	}
	for i := range y.real {
		y.real[i] = x.real[from(i)]
	}
	return y, nil
}

func (c *call) picked(x *numbers, dims []int, from func(i int) int) error {
	y, err := c.pick(x, dims, from)
	if err == nil {
		c.define(0, y)
	}
	return err
}

func same(i int) int { return i }

// places converts an element's index in row-major order to its index vector.
type places struct{ dims, at []int }

func placesOf(dims []int) places { return places{dims, make([]int, len(dims))} }

func (p places) of(i int) []int {
	for a := len(p.dims) - 1; a >= 0; a-- {
		p.at[a] = i % p.dims[a]
		i /= p.dims[a]
	}
	return p.at
}

// flat converts an index vector to the index in row-major order.
func flat(dims, at []int) (i int) {
	for a, d := range dims {
		i = i*d + at[a]
	}
	return i
}

// broadcast returns the dimensions of two tensors after broadcasting.
func broadcast(a, b []int) ([]int, error) {
	out := make([]int, max(len(a), len(b)))
	for i := range out {
		size := func(d []int) int {
			if k := len(d) - len(out) + i; k >= 0 {
				return d[k]
			}
			return 1
		}
		switch x, y := size(a), size(b); {
		case x == y || y == 1:
			out[i] = x
		case x == 1:
			out[i] = y
		default:
			return nil, fmt.Errorf("%w: %v and %v do not broadcast", ErrShape, a, b)
		}
	}
	return out, nil
}

// spreadOver returns a function that maps an element's index after broadcasting to its index in x.
func spreadOver(x, dims []int) func(i int) int {
	if slices.Equal(x, dims) {
		return same
	}
	p := placesOf(dims)
	own := make([]int, len(x))
	return func(i int) int {
		at := p.of(i)[len(dims)-len(x):]
		for a, d := range x {
			own[a] = 0
			if d != 1 {
				own[a] = at[a]
			}
		}
		return flat(x, own)
	}
}

func eachOf(f func(float64) float64) func(*call) error {
	return func(c *call) error {
		if err := c.plain(1, 1); err != nil {
			return err
		}
		x, err := c.operand(0)
		if err != nil {
			return err
		}
		y, err := c.fresh(x.kind, x.dims, x.absent)
		if err != nil {
			return err
		}
		for i, v := range x.ints {
			y.ints[i] = int64(f(float64(v)))
		}
		for i, v := range x.real {
			y.real[i] = f(v)
		}
		c.define(0, y)
		return nil
	}
}

func broadcasting(ints func(a, b int64) int64, real func(a, b float64) float64) func(*call) error {
	return func(c *call) error {
		if err := c.plain(1, maxDim); err != nil {
			return err
		}
		x, err := c.operand(0)
		if err != nil {
			return err
		}
		for k := range c.node.GetInput()[1:] {
			y, err := c.operand(k + 1)
			if err != nil {
				return err
			}
			if opName(c.node) == "Pow" && y.kind != x.kind { // only Pow may have operands of different types
				if y, err = c.as(x.kind, y); err != nil {
					return err
				}
			}
			if x.kind != y.kind {
				return fmt.Errorf("tensor %q: %w %d, the first operand has %d", c.input(k+1), ErrType, y.kind, x.kind)
			}
			dims, err := broadcast(x.dims, y.dims)
			if err != nil {
				return err
			}
			z, err := c.fresh(x.kind, dims, x.absent || y.absent)
			if err != nil {
				return err
			}
			a, b := spreadOver(x.dims, dims), spreadOver(y.dims, dims)
			for i := range z.ints {
				z.ints[i] = ints(x.ints[a(i)], y.ints[b(i)])
			}
			for i := range z.real {
				z.real[i] = round(z.kind, real(x.real[a(i)], y.real[b(i)]))
			}
			x = z
		}
		c.define(0, x)
		return nil
	}
}

// as converts elements to another type.
func (c *call) as(kind int32, x *numbers) (*numbers, error) {
	y, err := c.fresh(kind, x.dims, x.absent)
	if err != nil {
		return nil, err
	}
	for i := range len(x.ints) + len(x.real) {
		switch {
		case whole(kind) && whole(x.kind):
			y.ints[i] = cut(kind, x.ints[i])
		case kind == typeBool:
			y.ints[i] = 0
			if x.real[i] != 0 {
				y.ints[i] = 1
			}
		case whole(kind):
			if v := x.real[i]; !(math.Abs(v) < 1<<62) {
				return nil, fmt.Errorf("tensor %q: %w: element %d is %v, which is no integer", c.input(0), ErrValue, i, v)
			}
			y.ints[i] = cut(kind, int64(x.real[i]))
		case whole(x.kind):
			y.real[i] = round(kind, float64(x.ints[i]))
		default:
			y.real[i] = round(kind, x.real[i])
		}
	}
	return y, nil
}

func cut(kind int32, v int64) int64 {
	switch kind {
	case typeInt32:
		return int64(int32(v))
	case typeInt8:
		return int64(int8(v))
	case typeUint8:
		return int64(uint8(v))
	case typeBool:
		return map[bool]int64{true: 1}[v != 0]
	}
	return v
}

func (c *call) foldClip() error {
	if err := c.inputs(1, 3); err != nil {
		return err
	}
	x, err := c.operand(0)
	if err != nil {
		return err
	}
	lo, hi := float64(c.attr.float("min", float32(math.Inf(-1)))), float64(c.attr.float("max", float32(math.Inf(1))))
	for i, bound := range []*float64{&lo, &hi} {
		name := c.input(1 + i)
		if name == "" {
			continue
		}
		if k := c.constants[name]; whole(x.kind) && k != nil { // Brevitas clips codes of weights to integer bounds
			if k.kind != x.kind || len(k.ints) != 1 {
				return fmt.Errorf("tensor %q: %w %d, expected one number of type %d", name, ErrType, k.kind, x.kind)
			}
			*bound = float64(k.ints[0])
			continue
		}
		v, err := c.number(name)
		if err != nil {
			return err
		}
		*bound = float64(v)
	}
	if err := c.attr.done(); err != nil {
		return err
	}
	y, err := c.fresh(x.kind, x.dims, x.absent)
	if err != nil {
		return err
	}
	for i, v := range x.ints {
		y.ints[i] = int64(min(max(float64(v), lo), hi))
	}
	for i, v := range x.real {
		y.real[i] = min(max(v, lo), hi) // hi if lo > hi, as in ONNX
	}
	c.define(0, y)
	return nil
}

// comparing returns a function that compares two constants element by element; holds maps the order to the result.
func comparing(holds func(order int) bool) func(*call) error {
	return func(c *call) error {
		x, y, err := c.operands()
		if err != nil {
			return err
		}
		return c.pairwise(typeBool, x, y, func(i, k int) (v int64) {
			order := 0
			if whole(x.kind) {
				order = cmp.Compare(x.ints[i], y.ints[k])
			} else {
				order = cmp.Compare(x.real[i], y.real[k])
			}
			if holds(order) {
				return 1
			}
			return 0
		})
	}
}

// logic returns a function that combines bools element by element. A node with one input uses it as both operands.
func logic(of func(a, b int64) int64) func(*call) error {
	return func(c *call) error {
		x, y, err := c.operands()
		if err != nil {
			return err
		}
		if x.kind != typeBool {
			return fmt.Errorf("tensor %q: %w %d, expected 9 (bool)", c.input(0), ErrType, x.kind)
		}
		return c.pairwise(typeBool, x, y, func(i, k int) int64 { return of(x.ints[i], y.ints[k]) })
	}
}

// operands returns both operands of an operator without attributes. They must have the same type. For a Not, both are
// its input. Weights that will be drawn later are zeros here.
func (c *call) operands() (x, y *numbers, err error) {
	n := 2
	if opName(c.node) == "Not" {
		n = 1
	}
	if err = c.plain(n, n); err != nil {
		return
	}
	if x, err = c.operand(0); err != nil {
		return
	}
	if y, err = c.operand(n - 1); err != nil {
		return
	}
	if x.kind != y.kind {
		err = fmt.Errorf("tensors %q: %w: %d and %d, expected values of one type", c.node.GetInput(), ErrType, x.kind, y.kind)
	}
	return
}

// pairwise sets the output to an integer constant. The callback `of` maps indices in x and y to an element.
func (c *call) pairwise(kind int32, x, y *numbers, of func(i, k int) int64) error {
	dims, err := broadcast(x.dims, y.dims)
	if err != nil {
		return err
	}
	z, err := c.fresh(kind, dims, false)
	if err != nil {
		return err
	}
	a, b := spreadOver(x.dims, dims), spreadOver(y.dims, dims)
	for i := range z.ints {
		z.ints[i] = of(a(i), b(i))
	}
	c.define(0, z)
	return nil
}

// mod computes the remainder, which has the sign of the divisor. With the attribute fmod, the remainder has the sign of
// the dividend, and the operands may be floats.
func (c *call) mod() error {
	if c.attr.int("fmod", 0) != 0 {
		return broadcasting(func(a, b int64) int64 { return a - b*quotient(a, b) }, math.Mod)(c)
	}
	if x := c.constants[c.input(0)]; !whole(x.kind) {
		return fmt.Errorf("tensor %q: %w %d: floats need the attribute fmod", c.input(0), ErrType, x.kind)
	}
	return broadcasting(func(a, b int64) int64 {
		r := a - b*quotient(a, b)
		if r != 0 && (r < 0) != (b < 0) {
			r += b
		}
		return r
	}, nil)(c)
}

func (c *call) foldMean() error {
	if err := sum(c); err != nil {
		return err
	}
	mean := c.constants[c.output()]
	for i := range mean.float {
		mean.float[i] /= float32(len(c.node.GetInput()))
	}
	return nil
}

func (c *call) sizeOf() error {
	if err := c.plain(1, 1); err != nil {
		return err
	}
	c.define(0, &numbers{dims: []int{}, kind: typeInt64, ints: []int64{int64(c.constants[c.input(0)].elems)}})
	return nil
}

// foldPad pads a constant with a fill value. A negative amount crops the constant.
func (c *call) foldPad() error {
	x, err := c.operand(0)
	if err != nil {
		return err
	}
	fill := &numbers{kind: x.kind, ints: []int64{0}, real: []float64{float64(c.attr.float("value", 0))}}
	pads, err := c.pads(len(x.dims))
	if err != nil {
		return err
	}
	if c.input(2) != "" {
		if fill, err = c.operand(2); err != nil {
			return err
		}
	}
	if fill.kind != x.kind || len(fill.ints)+len(fill.real) < 1 {
		return fmt.Errorf("tensor %q: %w: %v of type %d, expected one number of type %d", c.input(2), ErrType, fill.dims, fill.kind, x.kind)
	}
	rank, dims := len(x.dims), slices.Clone(x.dims)
	for a := range dims {
		if dims[a] += int(pads[a] + pads[rank+a]); dims[a] < 0 {
			return fmt.Errorf("tensor %q: %w: %v padded by %v", c.input(0), ErrShape, x.dims, pads)
		}
	}
	y, err := c.fresh(x.kind, dims, x.absent)
	if err != nil {
		return err
	}
	p, own := placesOf(dims), make([]int, len(dims))
	for i := range len(y.ints) + len(y.real) {
		inside := true
		for a, at := range p.of(i) {
			own[a] = at - int(pads[a])
			inside = inside && own[a] >= 0 && own[a] < x.dims[a]
		}
		switch {
		case whole(x.kind) && inside:
			y.ints[i] = x.ints[flat(x.dims, own)]
		case whole(x.kind):
			y.ints[i] = fill.ints[0]
		case inside:
			y.real[i] = x.real[flat(x.dims, own)]
		default:
			y.real[i] = fill.real[0]
		}
	}
	c.define(0, y)
	return nil
}

// where selects an element from the second input where the first input is true, and otherwise from the third.
func (c *call) where() error {
	if err := c.plain(3, 3); err != nil {
		return err
	}
	var in [3]*numbers
	var err error
	for i := range in {
		if in[i], err = c.operand(i); err != nil {
			return err
		}
	}
	if in[0].kind != typeBool || in[1].kind != in[2].kind {
		return fmt.Errorf("tensors %q: %w: %d, %d and %d, expected 9 (bool) and two of one type", c.node.GetInput(), ErrType, in[0].kind, in[1].kind, in[2].kind)
	}
	dims, err := broadcast(in[1].dims, in[2].dims)
	if err != nil {
		return err
	}
	if dims, err = broadcast(dims, in[0].dims); err != nil {
		return err
	}
	y, err := c.fresh(in[1].kind, dims, in[1].absent || in[2].absent)
	if err != nil {
		return err
	}
	var from [3]func(int) int
	for i := range from {
		from[i] = spreadOver(in[i].dims, dims)
	}
	for i := range max(len(y.ints), len(y.real)) {
		take := 2
		if in[0].ints[from[0](i)] != 0 {
			take = 1
		}
		if whole(y.kind) {
			y.ints[i] = in[take].ints[from[take](i)]
		} else {
			y.real[i] = in[take].real[from[take](i)]
		}
	}
	c.define(0, y)
	return nil
}

func (c *call) foldCast() error {
	to, err := c.castTo()
	if err != nil {
		return err
	}
	kind := int32(to)
	if int64(kind) != to || !whole(kind) && kind != typeFloat && kind != typeFloat16 && kind != typeDouble && kind != typeBFloat16 {
		return fmt.Errorf("attribute \"to\": %w: %d; constants are cast to 1 (float), 2 (uint8), 3 (int8), 6 (int32), 7 (int64), 9 (bool), 10 (float16), 11 (double), 16 (bfloat16)", ErrAttribute, to)
	}
	x, err := c.operand(0)
	if err != nil {
		return err
	}
	y, err := c.as(kind, x)
	if err == nil {
		c.define(0, y)
	}
	return err
}

// axisOf returns the index of axis a of a tensor with `rank` axes. A negative axis is counted from the end.
func axisOf(a int64, rank int) (int, error) {
	if a < int64(-rank) || a >= int64(rank) {
		return 0, fmt.Errorf("axis %d: %w: rank %d", a, ErrAttribute, rank)
	}
	return int((a + int64(rank)) % int64(rank)), nil
}

func (c *call) foldConcat() error {
	first, err := c.operand(0)
	if err != nil {
		return err
	}
	along, err := axisOf(c.attr.int("axis", 1), len(first.dims))
	if err != nil {
		return err
	}
	if err := c.attr.done(); err != nil {
		return err
	}
	parts := []*numbers{first}
	dims, absent := slices.Clone(first.dims), first.absent
	for i := range c.node.GetInput()[1:] {
		x, err := c.operand(i + 1)
		if err != nil {
			return err
		}
		if x.kind != first.kind || len(x.dims) != len(dims) {
			return fmt.Errorf("tensor %q: %w: %v of type %d, the first input is %v of type %d", c.input(i+1), ErrShape, x.dims, x.kind, first.dims, first.kind)
		}
		for a, d := range x.dims {
			if a != along && d != dims[a] {
				return fmt.Errorf("tensor %q: %w: %v, the first input is %v", c.input(i+1), ErrShape, x.dims, first.dims)
			}
		}
		dims[along] += x.dims[along]
		absent = absent || x.absent
		parts = append(parts, x)
	}
	y, err := c.fresh(first.kind, dims, absent)
	if err != nil {
		return err
	}
	inner := 1
	for _, d := range dims[along+1:] {
		inner *= d
	}
	to := 0
	for outer := 0; to < len(y.ints)+len(y.real); outer++ {
		for _, x := range parts {
			n := x.dims[along] * inner
			if whole(y.kind) {
				copy(y.ints[to:], x.ints[outer*n:(outer+1)*n])
			} else {
				copy(y.real[to:], x.real[outer*n:(outer+1)*n])
			}
			to += n
		}
	}
	c.define(0, y)
	return nil
}

func (c *call) constantOfShape() error {
	if err := c.inputs(1, 1); err != nil {
		return err
	}
	shape, err := c.integers(c.input(0))
	if err != nil {
		return err
	}
	fill := &numbers{dims: []int{1}, kind: typeFloat, real: []float64{0}}
	if p := c.attr.byName["value"]; p != nil {
		delete(c.attr.byName, "value")
		k, err := newConstant("value", p.GetT(), false, &c.outside)
		if err != nil {
			return err
		}
		if k.elems != 1 {
			return fmt.Errorf("attribute \"value\": %w: %v, expected one element", ErrAttribute, k.dims)
		}
		fill = &numbers{dims: k.dims, kind: k.kind, ints: k.ints}
		if !whole(k.kind) {
			values, err := k.floats()
			if err != nil {
				return err
			}
			fill.real = widen(values)
		}
	}
	if err := c.attr.done(); err != nil {
		return err
	}
	dims, err := sizesOf(shape)
	if err != nil {
		return err
	}
	return c.picked(fill, dims, func(int) int { return 0 })
}

func sizesOf(shape []int64) ([]int, error) {
	dims := make([]int, len(shape))
	for i, d := range shape {
		if d < 0 || d > maxElems {
			return nil, fmt.Errorf("%w: %v, expected numbers from 0 to %d", ErrShape, shape, maxElems)
		}
		dims[i] = int(d)
	}
	return dims, nil
}

// dequantize computes (x - zero) * scale. scale and zero are scalars, or vectors along one axis.
func (c *call) dequantize() error {
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
	var zero *numbers
	if c.input(2) != "" {
		if zero, err = c.operand(2); err != nil {
			return err
		}
	}
	at := c.attr.int("axis", 1)
	c.attr.only("block_size", 0)
	if err := c.attr.done(); err != nil {
		return err
	}
	if !whole(x.kind) || whole(scale.kind) || zero != nil && zero.kind != x.kind {
		return fmt.Errorf("tensor %q: %w %d, expected 2 (uint8), 3 (int8) or 6 (int32) with zero points of the same type and a scale of floats", c.input(0), ErrType, x.kind)
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
	if zero != nil && len(zero.ints) != len(scale.real) {
		return fmt.Errorf("tensor %q: %w: %d zero points and %d scales", c.input(2), ErrShape, len(zero.ints), len(scale.real))
	}
	y, err := c.fresh(scale.kind, x.dims, scale.absent)
	if err != nil {
		return err
	}
	for i, v := range x.ints {
		s := of(i)
		if zero != nil {
			v -= zero.ints[s]
		}
		y.real[i] = float64(v) * scale.real[s]
	}
	c.define(0, y)
	if at < 0 {
		at += int64(len(x.dims))
	}
	c.steps[c.output()] = codeSteps{scale.real, at}
	return nil
}

// operandAndSizes returns the two inputs of an operator without attributes: the operand, and one size per axis.
func (c *call) operandAndSizes() (x *numbers, sizes []int, err error) {
	if err := c.inputs(2, 2); err != nil {
		return nil, nil, err
	}
	if err := c.attr.done(); err != nil {
		return nil, nil, err
	}
	if x, err = c.operand(0); err != nil {
		return nil, nil, err
	}
	values, err := c.integers(c.input(1))
	if err != nil {
		return nil, nil, err
	}
	sizes, err = sizesOf(values)
	return x, sizes, err
}

func (c *call) expand() error {
	x, want, err := c.operandAndSizes()
	if err != nil {
		return err
	}
	dims, err := broadcast(x.dims, want)
	if err != nil {
		return err
	}
	return c.picked(x, dims, spreadOver(x.dims, dims))
}

func (c *call) tile() error {
	x, repeats, err := c.operandAndSizes()
	if err != nil {
		return err
	}
	if len(repeats) != len(x.dims) {
		return fmt.Errorf("tensor %q: %w: %d repeats for %v", c.input(1), ErrShape, len(repeats), x.dims)
	}
	dims := slices.Clone(x.dims)
	for a, r := range repeats {
		if r > 0 && dims[a] > maxElems/r {
			return fmt.Errorf("%w: %v repeated %v times", ErrTooLarge, x.dims, repeats)
		}
		dims[a] *= r
	}
	p, own := placesOf(dims), make([]int, len(dims))
	return c.picked(x, dims, func(i int) int {
		for a, at := range p.of(i) {
			own[a] = at % x.dims[a]
		}
		return flat(x.dims, own)
	})
}

func (c *call) foldFlatten() error {
	if err := c.inputs(1, 1); err != nil {
		return err
	}
	x, err := c.operand(0)
	if err != nil {
		return err
	}
	at := c.attr.int("axis", 1)
	if err := c.attr.done(); err != nil {
		return err
	}
	rank := int64(len(x.dims))
	if at < -rank || at > rank {
		return fmt.Errorf("axis %d: %w: rank %d", at, ErrAttribute, rank)
	}
	if at < 0 {
		at += rank
	}
	dims := []int{1, 1}
	for a, d := range x.dims {
		dims[map[bool]int{true: 1}[a >= int(at)]] *= d
	}
	c.keepSteps(alongside(x.dims, dims))
	return c.picked(x, dims, same)
}

// gathered returns the axis and the indices of a Gather from a tensor with these sizes.
func (c *call) gathered(sizes []int) (along int, at []int, err error) {
	if err = c.inputs(2, 2); err != nil {
		return
	}
	if along, err = axisOf(c.attr.int("axis", 0), len(sizes)); err != nil {
		return
	}
	if err = c.attr.done(); err != nil {
		return
	}
	places, err := c.integers(c.input(1))
	if err != nil {
		return
	}
	n := int64(sizes[along])
	for _, p := range places {
		if p < -n || p >= n {
			return along, nil, fmt.Errorf("tensor %q: %w: index %d of %d", c.input(1), ErrShape, p, n)
		}
		at = append(at, int((p+n)%n))
	}
	return along, at, nil
}

func (c *call) foldGather() error {
	x, err := c.operand(0)
	if err != nil {
		return err
	}
	along, at, err := c.gathered(x.dims)
	if err != nil {
		return err
	}
	dims := slices.Concat(x.dims[:along], c.constants[c.input(1)].dims, x.dims[along+1:])
	inner := 1
	for _, d := range x.dims[along+1:] {
		inner *= d
	}
	return c.picked(x, dims, func(i int) int {
		in, k, outer := i%inner, i/inner%len(at), i/inner/len(at)
		return (outer*x.dims[along]+at[k])*inner + in
	})
}

func (c *call) foldMatMul() error {
	if err := c.plain(2, 2); err != nil {
		return err
	}
	x, err := c.operand(0)
	if err != nil {
		return err
	}
	y, err := c.operand(1)
	if err != nil {
		return err
	}
	// A left operand that is a vector becomes a row, a right one becomes a column. The product omits the added axis.
	left, right := x.dims, y.dims
	dims := slices.Concat(left[:max(len(left)-1, 0)], right[min(len(right), 1):])
	if len(left) == 1 {
		x.dims = []int{1, left[0]}
	}
	if len(right) == 1 {
		y.dims = []int{right[0], 1}
	}
	if len(x.dims) != 2 || len(y.dims) != 2 || x.dims[1] != y.dims[0] || x.kind != y.kind || whole(x.kind) {
		return fmt.Errorf("%w: a product of the constants %v of type %d and %v of type %d, expected matrices or vectors of floats", ErrShape, left, x.kind, right, y.kind)
	}
	rows, depth, columns := x.dims[0], x.dims[1], y.dims[1]
	if _, err := c.afforded([]int{rows, columns, max(depth/4, 1)}); err != nil { // limits the time for multiplications too
		return err
	}
	z, err := c.fresh(x.kind, dims, x.absent || y.absent)
	if err != nil {
		return err
	}
	for i := range rows {
		for k := range depth {
			for j, w := range y.real[k*columns : (k+1)*columns] {
				z.real[i*columns+j] += x.real[i*depth+k] * w
			}
		}
	}
	c.define(0, z)
	return nil
}

func (c *call) rangeOf() error {
	if err := c.plain(3, 3); err != nil {
		return err
	}
	var v [3]float64
	kind := c.constants[c.input(0)].kind
	for i := range v {
		x, err := c.operand(i)
		if err != nil {
			return err
		}
		if x.kind != kind || len(x.ints)+len(x.real) != 1 {
			return fmt.Errorf("tensor %q: %w: %v of type %d, expected one number of type %d", c.input(i), ErrShape, x.dims, x.kind, kind)
		}
		for _, n := range x.ints {
			v[i] = float64(n)
		}
		for _, n := range x.real {
			v[i] = n
		}
	}
	n := math.Ceil((v[1] - v[0]) / v[2])
	if v[2] == 0 || !(n <= maxElems) || math.Abs(v[0]) > 1<<52 || math.Abs(v[2]) > 1<<52 {
		return fmt.Errorf("%w: from %v to %v in steps of %v", ErrAttribute, v[0], v[1], v[2])
	}
	y, err := c.fresh(kind, []int{max(0, int(n))}, false)
	if err != nil {
		return err
	}
	for i := range y.ints {
		y.ints[i] = cut(kind, int64(v[0])+int64(i)*int64(v[2]))
	}
	for i := range y.real {
		y.real[i] = round(kind, v[0]+float64(i)*v[2])
	}
	c.define(0, y)
	return nil
}

func reduce(start float64, step func(sum, v float64) float64, end func(sum float64, n int) float64) func(*call) error {
	return func(c *call) error {
		if err := c.inputs(1, 2); err != nil {
			return err
		}
		x, err := c.operand(0)
		if err != nil {
			return err
		}
		axes, err := c.axes(1, len(x.dims))
		if err != nil {
			return err
		}
		keep, noop := c.attr.int("keepdims", 1), c.attr.int("noop_with_empty_axes", 0)
		if err := c.attr.done(); err != nil {
			return err
		}
		if !slices.Contains(axes, true) {
			if noop != 0 {
				return c.picked(x, x.dims, same)
			}
			axes = slices.Repeat([]bool{true}, len(x.dims))
		}
		full, kept, n := slices.Clone(x.dims), []int{}, 1
		for a, d := range x.dims {
			if axes[a] {
				full[a], n = 1, n*d
				if keep == 0 {
					continue
				}
			}
			kept = append(kept, full[a])
		}
		if n == 0 {
			return fmt.Errorf("tensor %q: %w: %v, nothing is reduced", c.input(0), ErrShape, x.dims)
		}
		y, err := c.fresh(x.kind, kept, x.absent)
		if err != nil {
			return err
		}
		sums := slices.Repeat([]float64{start}, max(len(y.ints), len(y.real)))
		to := spreadOver(full, x.dims)
		for i := range max(len(x.ints), len(x.real)) {
			v := 0.0
			if whole(x.kind) {
				v = float64(x.ints[i])
			} else {
				v = x.real[i]
			}
			sums[to(i)] = step(sums[to(i)], v)
		}
		for i, s := range sums {
			if end != nil {
				s = end(s, n)
			}
			if whole(y.kind) {
				y.ints[i] = int64(s)
			} else {
				y.real[i] = s
			}
		}
		c.define(0, y)
		return nil
	}
}

// foldNormalization computes (x - mean) / sqrt(variance + epsilon) * scale + shift along axis 1, as in exports of
// standardised weights. In training mode, it uses the mean and variance of x.
func (c *call) foldNormalization() error {
	if err := c.inputs(5, 5); err != nil {
		return err
	}
	var in [5]*numbers
	var err error
	for i := range in {
		if in[i], err = c.operand(i); err != nil {
			return err
		}
	}
	epsilon := float64(c.attr.float("epsilon", 1e-5))
	c.attr.float("momentum", 0)
	c.attr.only("spatial", 1)
	train := c.attr.int("training_mode", 0) != 0 || c.trains()
	if err := c.attr.done(); err != nil {
		return err
	}
	x := in[0]
	if len(x.dims) < 2 || whole(x.kind) {
		return fmt.Errorf("tensor %q: %w: %v of type %d, expected N x C and so on of floats", c.input(0), ErrShape, x.dims, x.kind)
	}
	channels, inner := x.dims[1], 1
	for _, d := range x.dims[2:] {
		inner *= d
	}
	for i, p := range in[1:] {
		if len(p.real) != channels {
			return fmt.Errorf("tensor %q: %w: %v, expected %d numbers", c.input(i+1), ErrShape, p.dims, channels)
		}
	}
	y, err := c.fresh(x.kind, x.dims, x.absent || in[1].absent || in[2].absent || !train && (in[3].absent || in[4].absent))
	if err != nil {
		return err
	}
	mean, variance := in[3].real, in[4].real
	if train {
		mean, variance = make([]float64, channels), make([]float64, channels)
		share := float64(channels) / float64(max(len(x.real), 1))
		for i, v := range x.real {
			mean[i/inner%channels] += v * share
		}
		for i, v := range x.real {
			d := v - mean[i/inner%channels]
			variance[i/inner%channels] += d * d * share
		}
	}
	for k, v := range variance {
		if spread := v + epsilon; !(spread > 0) && !(x.absent && train && epsilon >= 0) {
			return fmt.Errorf("tensor %q: %w: variance %v and epsilon %v of channel %d", c.input(4), ErrValue, v, epsilon, k)
		}
	}
	for i, v := range x.real {
		k := i / inner % channels
		y.real[i] = (v-mean[k])/math.Sqrt(variance[k]+epsilon)*in[1].real[k] + in[2].real[k]
	}
	c.define(0, y)
	return nil
}

// target returns a function that maps the dimensions of a Reshape's input to the dimensions of its output.
func (c *call) target() (of func(have []int) ([]int, error), err error) {
	if err := c.inputs(2, 2); err != nil {
		return nil, err
	}
	zero := c.attr.int("allowzero", 0)
	if err := c.attr.done(); err != nil {
		return nil, err
	}
	want, err := c.integers(c.input(1))
	if err != nil {
		return nil, err
	}
	return func(have []int) ([]int, error) {
		dims := filled(want, have, zero == 0)
		if dims == nil {
			return nil, fmt.Errorf("tensor %q: %w: %v to %v", c.input(0), ErrShape, have, want)
		}
		return dims, nil
	}, nil
}

// filled replaces -1 in a Reshape's dimensions by the size that keeps the number of elements. If zeros is true, it also
// replaces 0 by the input's dimension. It returns nil if the dimensions do not match the input.
func filled(want []int64, have []int, zeros bool) []int {
	elems := 1
	for _, d := range have {
		elems *= d
	}
	dims, open, product := make([]int, len(want)), -1, 1
	for i, d := range want {
		switch {
		case d == -1 && open < 0:
			open = i
			continue
		case d == 0 && zeros && i < len(have):
			dims[i] = have[i]
		case d >= 0 && d <= maxElems:
			dims[i] = int(d)
		default:
			return nil
		}
		if dims[i] > 0 && product > maxElems/dims[i] {
			return nil
		}
		product *= dims[i]
	}
	if open >= 0 && product > 0 {
		dims[open] = elems / product
		product *= dims[open]
	}
	if product != elems {
		return nil
	}
	return dims
}

func (c *call) foldReshape() error {
	x, err := c.operand(0)
	if err != nil {
		return err
	}
	target, err := c.target()
	if err != nil {
		return err
	}
	dims, err := target(x.dims)
	if err != nil {
		return err
	}
	c.keepSteps(alongside(x.dims, dims))
	return c.picked(x, dims, same)
}

func (c *call) foldShape() error {
	if err := c.inputs(1, 1); err != nil {
		return err
	}
	return c.shapeIs(c.constants[c.input(0)].dims)
}

// shapeIs sets the output of a Shape for an input with dimensions dims.
func (c *call) shapeIs(dims []int) error {
	rank := int64(len(dims))
	bound := func(name string, absent int64) int64 {
		v := c.attr.int(name, absent)
		if v < 0 {
			v += rank
		}
		return min(max(v, 0), rank)
	}
	from := bound("start", 0)
	to := max(bound("end", rank), from)
	if err := c.attr.done(); err != nil {
		return err
	}
	y := &numbers{dims: []int{int(to - from)}, kind: typeInt64, ints: make([]int64, to-from)}
	for i, d := range dims[from:to] {
		y.ints[i] = int64(d)
	}
	c.define(0, y)
	return nil
}

// piece is the part of an axis that a Slice selects.
type piece struct{ axis, from, step, n int }

// cuts returns the parts that a Slice selects from a tensor with dimensions dims.
func (c *call) cuts(dims []int) ([]piece, error) {
	list := map[string][]int64{}
	for i, name := range []string{"starts", "ends", "axes", "steps"} {
		list[name] = c.attr.ints(name) // opsets before 10
		if in := c.input(i + 1); in != "" {
			if list[name] != nil {
				return nil, fmt.Errorf("attribute %q: %w: given as an input too", name, ErrDuplicate)
			}
			var err error
			if list[name], err = c.integers(in); err != nil {
				return nil, err
			}
		}
	}
	if err := c.attr.done(); err != nil {
		return nil, err
	}
	starts, ends, axes, steps := list["starts"], list["ends"], list["axes"], list["steps"]
	if axes == nil {
		for a := range starts {
			axes = append(axes, int64(a))
		}
	}
	if steps == nil {
		steps = slices.Repeat([]int64{1}, len(starts))
	}
	if len(ends) != len(starts) || len(axes) != len(starts) || len(steps) != len(starts) {
		return nil, fmt.Errorf("%w: starts %v, ends %v, axes %v, steps %v", ErrAttribute, starts, ends, axes, steps)
	}
	var cuts []piece
	for i := range starts {
		a, err := axisOf(axes[i], len(dims))
		if err != nil {
			return nil, err
		}
		if steps[i] == 0 || slices.ContainsFunc(cuts, func(p piece) bool { return p.axis == a }) {
			return nil, fmt.Errorf("%w: axes %v, steps %v", ErrAttribute, axes, steps)
		}
		n := int64(dims[a])
		place := func(v, low, high int64) int64 {
			if v < 0 {
				v += n
			}
			return min(max(v, low), high)
		}
		step := min(max(steps[i], -n-1), n+1)
		from, to := place(starts[i], 0, n), place(ends[i], 0, n)
		if step < 0 {
			from, to = place(starts[i], 0, n-1), place(ends[i], -1, n-1)
		}
		cuts = append(cuts, piece{a, int(from), int(step), max(0, int(math.Ceil(float64(to-from)/float64(step))))})
	}
	return cuts, nil
}

func (c *call) foldSlice() error {
	if err := c.inputs(1, 5); err != nil {
		return err
	}
	x, err := c.operand(0)
	if err != nil {
		return err
	}
	cuts, err := c.cuts(x.dims)
	if err != nil {
		return err
	}
	dims, first, by := slices.Clone(x.dims), make([]int, len(x.dims)), slices.Repeat([]int{1}, len(x.dims))
	for _, k := range cuts {
		dims[k.axis], first[k.axis], by[k.axis] = k.n, k.from, k.step
	}
	p, own := placesOf(dims), make([]int, len(dims))
	return c.picked(x, dims, func(i int) int {
		for a, at := range p.of(i) {
			own[a] = first[a] + at*by[a]
		}
		return flat(x.dims, own)
	})
}

// parts returns the axis of a Split, and the sizes of the outputs along this axis, for an input with dimensions dims.
func (c *call) parts(dims []int) (along int, sizes []int, err error) {
	if along, err = axisOf(c.attr.int("axis", 0), len(dims)); err != nil {
		return
	}
	outputs := c.node.GetOutput()
	parts := c.attr.ints("split")
	if n := c.attr.int("num_outputs", int64(len(outputs))); n != int64(len(outputs)) {
		err = fmt.Errorf("attribute \"num_outputs\": %w: %d, the node has %d", ErrAttribute, n, len(outputs))
		return
	}
	if name := c.input(1); name != "" {
		if parts != nil {
			err = fmt.Errorf("attribute \"split\": %w: given as an input too", ErrDuplicate)
			return
		}
		if parts, err = c.integers(name); err != nil {
			return
		}
	}
	if err = c.attr.done(); err != nil {
		return
	}
	if parts == nil {
		if c.opset < 18 && dims[along]%len(outputs) != 0 {
			err = fmt.Errorf("%w: %v split into %d equal parts along axis %d", ErrShape, dims, len(outputs), along)
			return
		}
		each := (dims[along] + len(outputs) - 1) / len(outputs)
		for i := range outputs {
			parts = append(parts, int64(max(0, min(each, dims[along]-i*each))))
		}
	}
	if sizes, err = sizesOf(parts); err != nil {
		return
	}
	sum := 0
	for _, s := range sizes {
		sum += s
	}
	if len(sizes) != len(outputs) || sum != dims[along] {
		err = fmt.Errorf("%w: %v split into %v along axis %d for %d outputs", ErrShape, dims, sizes, along, len(outputs))
	}
	return
}

func (c *call) foldSplit() error {
	if err := c.inputs(1, 2); err != nil {
		return err
	}
	x, err := c.operand(0)
	if err != nil {
		return err
	}
	along, sizes, err := c.parts(x.dims)
	if err != nil {
		return err
	}
	from := 0
	for i, size := range sizes {
		dims := slices.Clone(x.dims)
		dims[along] = size
		p, own := placesOf(dims), make([]int, len(dims))
		y, err := c.pick(x, dims, func(k int) int {
			copy(own, p.of(k))
			own[along] += from
			return flat(x.dims, own)
		})
		if err != nil {
			return err
		}
		c.define(i, y)
		from += size
	}
	return nil
}

// squeezed returns the axes that a Squeeze does not remove from a tensor with these sizes.
func (c *call) squeezed(sizes []int) (kept []int, err error) {
	if err := c.inputs(1, 2); err != nil {
		return nil, err
	}
	axes, err := c.axes(1, len(sizes))
	if err != nil {
		return nil, err
	}
	if err := c.attr.done(); err != nil {
		return nil, err
	}
	for a, d := range sizes {
		switch {
		case axes != nil && axes[a] && d != 1:
			return nil, fmt.Errorf("tensor %q: %w: axis %d of %v is not 1", c.input(0), ErrShape, a, sizes)
		case axes == nil && d != 1, axes != nil && !axes[a]:
			kept = append(kept, a)
		}
	}
	return kept, nil
}

func (c *call) foldSqueeze() error {
	x, err := c.operand(0)
	if err != nil {
		return err
	}
	kept, err := c.squeezed(x.dims)
	if err != nil {
		return err
	}
	dims := make([]int, len(kept))
	for i, a := range kept {
		dims[i] = x.dims[a]
	}
	c.keepSteps(alongside(x.dims, dims))
	return c.picked(x, dims, same)
}

// added marks an axis that an Unsqueeze adds.
const added = -1

// unsqueezed returns, for each output axis of an Unsqueeze, its input axis, or -1 (added) for a new axis.
func (c *call) unsqueezed(rank int) (from []int, err error) {
	if err := c.inputs(1, 2); err != nil {
		return nil, err
	}
	more := len(c.attr.byName["axes"].GetInts())
	if k := c.constants[c.input(1)]; k != nil {
		more = k.elems
	}
	if more > 16 {
		return nil, fmt.Errorf("%w: %d more axes", ErrTooLarge, more)
	}
	axes, err := c.axes(1, rank+more)
	if err != nil {
		return nil, err
	}
	if err := c.attr.done(); err != nil {
		return nil, err
	}
	next := 0
	for _, new := range axes {
		switch {
		case new:
			from = append(from, added)
		case next == rank:
			return nil, fmt.Errorf("tensor %q: %w: an axis is given twice", c.input(0), ErrAttribute)
		default:
			from, next = append(from, next), next+1
		}
	}
	return from, nil
}

func (c *call) foldUnsqueeze() error {
	x, err := c.operand(0)
	if err != nil {
		return err
	}
	from, err := c.unsqueezed(len(x.dims))
	if err != nil {
		return err
	}
	dims := make([]int, len(from))
	for i, a := range from {
		dims[i] = 1
		if a != added {
			dims[i] = x.dims[a]
		}
	}
	c.keepSteps(alongside(x.dims, dims))
	return c.picked(x, dims, same)
}

// permutation reads the attribute perm of a Transpose. Without this attribute, it reverses the order of the axes.
func (c *call) permutation(rank int) ([]int, error) {
	list := c.attr.ints("perm")
	if list == nil {
		for a := rank - 1; a >= 0; a-- {
			list = append(list, int64(a))
		}
	}
	perm, seen := make([]int, len(list)), map[int64]bool{}
	for i, a := range list {
		if len(list) != rank || a < 0 || a >= int64(rank) || seen[a] {
			return nil, fmt.Errorf("attribute \"perm\": %w: %v, expected each of %d axes once", ErrAttribute, list, rank)
		}
		seen[a], perm[i] = true, int(a)
	}
	return perm, c.attr.done()
}

func (c *call) foldTranspose() error {
	if err := c.inputs(1, 1); err != nil {
		return err
	}
	x, err := c.operand(0)
	if err != nil {
		return err
	}
	perm, err := c.permutation(len(x.dims))
	if err != nil {
		return err
	}
	dims := make([]int, len(perm))
	for i, a := range perm {
		dims[i] = x.dims[a]
	}
	p, own := placesOf(dims), make([]int, len(dims))
	c.keepSteps(func(a int) int { return slices.Index(perm, a) })
	return c.picked(x, dims, func(i int) int {
		for k, at := range p.of(i) {
			own[perm[k]] = at
		}
		return flat(x.dims, own)
	})
}
