package graph

import (
	"errors"
	"fmt"
	"math"
)

// Errors of Check and Arrange. Each error wraps one of these errors, and names the node or tensor.
var (
	ErrCycle     = errors.New("the graph has a cycle")
	ErrOrder     = errors.New("the nodes are not in order")
	ErrReference = errors.New("a reference is wrong")
	ErrShape     = errors.New("a shape is wrong")
	ErrValue     = errors.New("a value is not a finite number")
	ErrExits     = errors.New("the exits are wrong")
)

// maxElems limits the elements of a tensor, a weight array and a window. So no product in this package overflows an
// int, even if an int has 32 bits.
const maxElems = math.MaxInt32

// String returns the operator's name in reports.
func (o Op) String() string {
	switch o {
	case Conv:
		return "Conv"
	case MaxPool:
		return "MaxPool"
	case AvgPool:
		return "AvgPool"
	case Concat:
		return "Concat"
	case Add:
		return "Add"
	case Mul:
		return "Mul"
	case Reshape:
		return "Reshape"
	}
	return fmt.Sprintf("Op(%d)", int(o))
}

// Reads returns the tensors that a node reads. The residual is the last of them.
func (n *Node) Reads() []TensorID {
	if n.Residual == None || n.Op != Conv {
		return n.Inputs
	}
	reads := make([]TensorID, 0, len(n.Inputs)+1)
	return append(append(reads, n.Inputs...), n.Residual)
}

// Check verifies the invariants of the package. It also verifies that each node's shapes, weights and clamp agree.
// Packages that read a graph may rely on everything that Check verifies.
func (g *Graph) Check() error {
	if err := g.checkTensors(); err != nil {
		return err
	}
	producer, err := g.checkReferences()
	if err != nil {
		return err
	}
	if _, err := g.order(producer); err != nil {
		return err
	}
	for n := range g.Nodes {
		for _, t := range g.Nodes[n].Reads() {
			if p := producer[t]; p >= n {
				return fmt.Errorf("%w: %s reads tensor %q, which %s produces later",
					ErrOrder, g.label(n), g.Tensors[t].Name, g.label(p))
			}
		}
	}
	for n := range g.Nodes {
		if err := g.checkNode(n); err != nil {
			return fmt.Errorf("%s: %w", g.label(n), err)
		}
	}
	return g.checkSegments(producer)
}

func (g *Graph) label(n int) string {
	if n < 0 {
		return "the network's input"
	}
	return fmt.Sprintf("node %d (%s %q)", n, g.Nodes[n].Op, g.Nodes[n].Name)
}

func (g *Graph) checkTensors() error {
	for i, t := range g.Tensors {
		if t.H < 1 || t.W < 1 || t.C < 1 {
			return fmt.Errorf("%w: tensor %d (%q) is %d x %d x %d, every size must be positive",
				ErrShape, i, t.Name, t.H, t.W, t.C)
		}
		if mulOver(maxElems, t.H, t.W, t.C) {
			return fmt.Errorf("%w: tensor %d (%q) of %d x %d x %d has more than %d elements",
				ErrShape, i, t.Name, t.H, t.W, t.C, maxElems)
		}
	}
	if !g.has(g.Input) {
		return fmt.Errorf("%w: the input is tensor %d, there are %d", ErrReference, g.Input, len(g.Tensors))
	}
	return nil
}

// mulOver reports whether the product of positive factors exceeds limit.
func mulOver(limit int, factors ...int) bool {
	p := 1
	for _, f := range factors {
		if f > limit/p {
			return true
		}
		p *= f
	}
	return false
}

func (g *Graph) has(t TensorID) bool { return t >= 0 && int(t) < len(g.Tensors) }

// checkReferences checks the tensors that nodes read and write. It returns the producer of each tensor.
func (g *Graph) checkReferences() ([]int, error) {
	producer := make([]int, len(g.Tensors))
	for i := range producer {
		producer[i] = noProducer
	}
	producer[g.Input] = inputProducer
	for n := range g.Nodes {
		node := &g.Nodes[n]
		if !g.has(node.Output) {
			return nil, fmt.Errorf("%w: %s writes tensor %d, there are %d",
				ErrReference, g.label(n), node.Output, len(g.Tensors))
		}
		if p := producer[node.Output]; p != noProducer {
			return nil, fmt.Errorf("%w: %s and %s both produce tensor %q",
				ErrReference, g.label(p), g.label(n), g.Tensors[node.Output].Name)
		}
		producer[node.Output] = n
	}
	for n := range g.Nodes {
		node := &g.Nodes[n]
		if node.Op != Conv && node.Residual != None {
			return nil, fmt.Errorf("%w: %s has a residual, only a convolution takes one (None is -1)",
				ErrReference, g.label(n))
		}
		for _, t := range node.Reads() {
			if !g.has(t) {
				return nil, fmt.Errorf("%w: %s reads tensor %d, there are %d",
					ErrReference, g.label(n), t, len(g.Tensors))
			}
			if producer[t] == noProducer {
				return nil, fmt.Errorf("%w: %s reads tensor %q, which nothing produces",
					ErrReference, g.label(n), g.Tensors[t].Name)
			}
		}
	}
	return producer, nil
}

func (g *Graph) checkNode(n int) error {
	node := &g.Nodes[n]
	if node.Op < Conv || node.Op > Reshape {
		return fmt.Errorf("%w: unknown operator", ErrReference)
	}
	if math.IsNaN(float64(node.ClampLo)) || math.IsNaN(float64(node.ClampHi)) || node.ClampLo > node.ClampHi {
		return fmt.Errorf("%w: clamp to %v .. %v", ErrValue, node.ClampLo, node.ClampHi)
	}
	want := map[Op]int{Conv: 1, MaxPool: 1, AvgPool: 1, Add: 2, Mul: 2, Reshape: 1}[node.Op]
	if node.Op == Concat && len(node.Inputs) < 2 || want != 0 && len(node.Inputs) != want {
		return fmt.Errorf("%w: %d inputs", ErrReference, len(node.Inputs))
	}
	if node.Function != nil {
		if err := node.Function.check(node.Op); err != nil {
			return err
		}
	}
	in, out := g.Tensors[node.Inputs[0]], g.Tensors[node.Output]
	switch node.Op {
	case Conv:
		if err := checkWindow(node, in, out); err != nil {
			return err
		}
		return g.checkConv(node, in, out)
	case MaxPool, AvgPool:
		if in.C != out.C {
			return fmt.Errorf("%w: %d channels in, %d out", ErrShape, in.C, out.C)
		}
		return checkWindow(node, in, out)
	case Concat:
		return g.checkConcat(node, out)
	}
	return g.checkShapes(node, in, out)
}

// checkShapes checks a sum, a product and a reshape.
func (g *Graph) checkShapes(node *Node, in, out Tensor) error {
	switch node.Op {
	case Add:
		other := g.Tensors[node.Inputs[1]]
		if !sameShape(in, out) || !sameShape(other, out) {
			return fmt.Errorf("%w: adds %s and %s to %s", ErrShape, shape(in), shape(other), shape(out))
		}
	case Mul:
		if other := g.Tensors[node.Inputs[1]]; !sameShape(in, out) || !sameShape(other, out) && !sameShape(other, Tensor{H: 1, W: 1, C: out.C}) {
			return fmt.Errorf("%w: multiplies %s by %s to %s", ErrShape, shape(in), shape(other), shape(out))
		}
	case Reshape:
		if in.Elems() != out.Elems() || in.C%out.C != 0 && out.C%in.C != 0 {
			return fmt.Errorf("%w: %s seen as %s, expected as many elements, and channels of which one number divides the other", ErrShape, shape(in), shape(out))
		}
		return unclamped(node, "reshape")
	}
	return nil
}

func (g *Graph) checkConcat(node *Node, out Tensor) error {
	c := 0
	for _, t := range node.Inputs {
		in := g.Tensors[t]
		if in.H != out.H || in.W != out.W {
			return fmt.Errorf("%w: input %q is %s, the output %s", ErrShape, in.Name, shape(in), shape(out))
		}
		c += in.C
	}
	if c != out.C {
		return fmt.Errorf("%w: the inputs have %d channels together, the output %d", ErrShape, c, out.C)
	}
	return unclamped(node, "concatenation")
}

func unclamped(node *Node, what string) error {
	if !math.IsInf(float64(node.ClampLo), -1) || !math.IsInf(float64(node.ClampHi), 1) {
		return fmt.Errorf("%w: a %s computes nothing and cannot clamp", ErrShape, what)
	}
	return nil
}

func shape(t Tensor) string { return fmt.Sprintf("%dx%dx%d", t.H, t.W, t.C) }

func sameShape(a, b Tensor) bool { return a.H == b.H && a.W == b.W && a.C == b.C }

func checkWindow(node *Node, in, out Tensor) error {
	w := node.Window
	if w.KH < 1 || w.KW < 1 || w.SH < 1 || w.SW < 1 || mulOver(maxElems, w.KH, w.KW) ||
		mulOver(maxElems, w.SH, out.H) || mulOver(maxElems, w.SW, out.W) {
		return fmt.Errorf("%w: kernel %dx%d, stride %dx%d", ErrShape, w.KH, w.KW, w.SH, w.SW)
	}
	for _, p := range []int{w.PT, w.PL, max(w.PB, -in.H), max(w.PR, -in.W)} {
		if p < -max(in.H, in.W) || min(w.PT, w.PL) < 0 || p > maxElems {
			return fmt.Errorf("%w: padding %d", ErrShape, p)
		}
	}
	pool := node.Op != Conv
	if !fits(in.H, w.PT, w.PB, w.KH, w.SH, out.H, pool) || !fits(in.W, w.PL, w.PR, w.KW, w.SW, out.W, pool) {
		return fmt.Errorf("%w: %s with kernel %dx%d, stride %dx%d, padding %d,%d,%d,%d does not give %s",
			ErrShape, shape(in), w.KH, w.KW, w.SH, w.SW, w.PT, w.PL, w.PB, w.PR, shape(out))
	}
	if pool && (!touches(in.H, w.PT, w.KH, w.SH, out.H) || !touches(in.W, w.PL, w.KW, w.SW, out.W)) {
		return fmt.Errorf("%w: a window of the pool lies in the padding altogether", ErrShape)
	}
	return nil
}

// fits reports whether a window has this number of output positions along one axis. The number is rounded down. For
// pools, it may also be rounded up (ceil_mode); then the last window may extend beyond the padding.
func fits(in, before, after, k, s, out int, pool bool) bool {
	span, stride := int64(in)+int64(before)+int64(after)-int64(k), int64(s)
	if span < 0 {
		return pool && out == 1
	}
	if int64(out) == span/stride+1 {
		return true
	}
	return pool && int64(out) == (span+stride-1)/stride+1
}

// touches reports whether each window along one axis covers at least one pixel.
func touches(in, before, k, s, out int) bool {
	return before < k && (out-1)*s-before < in
}

func (g *Graph) checkConv(node *Node, in, out Tensor) error {
	if node.Groups < 1 || in.C%node.Groups != 0 || out.C%node.Groups != 0 {
		return fmt.Errorf("%w: %d groups do not divide %d input and %d output channels",
			ErrShape, node.Groups, in.C, out.C)
	}
	w := node.Window
	if mulOver(maxElems, out.C, w.KH, w.KW, in.C/node.Groups) {
		return fmt.Errorf("%w: more than %d weights", ErrShape, maxElems)
	}
	if want := out.C * w.KH * w.KW * (in.C / node.Groups); len(node.Weights) != want {
		return fmt.Errorf("%w: %d weights, expected %d", ErrShape, len(node.Weights), want)
	}
	if len(node.Bias) != out.C {
		return fmt.Errorf("%w: %d biases, expected %d", ErrShape, len(node.Bias), out.C)
	}
	for i, v := range node.Weights {
		if !finite(v) {
			return fmt.Errorf("%w: weight %d is %v", ErrValue, i, v)
		}
	}
	for i, v := range node.Bias {
		if !finite(v) {
			return fmt.Errorf("%w: bias %d is %v", ErrValue, i, v)
		}
	}
	if node.Residual != None && !sameShape(g.Tensors[node.Residual], out) {
		return fmt.Errorf("%w: the residual is %s, the output %s",
			ErrShape, shape(g.Tensors[node.Residual]), shape(out))
	}
	return nil
}

func finite(v float32) bool { return v-v == 0 }

func (g *Graph) checkSegments(producer []int) error {
	if err := g.checkExits(producer); err != nil {
		return err
	}
	segment, head := g.segments(producer)
	if len(g.Segment) != len(g.Nodes) {
		return fmt.Errorf("%w: %d segment numbers for %d nodes", ErrOrder, len(g.Segment), len(g.Nodes))
	}
	for n := range g.Nodes {
		if segment[n] == len(g.Exits) {
			return fmt.Errorf("%w: %s reaches no exit", ErrExits, g.label(n))
		}
		if g.Segment[n] != segment[n] {
			return fmt.Errorf("%w: %s says segment %d, the exits say %d",
				ErrOrder, g.label(n), g.Segment[n], segment[n])
		}
		if n > 0 && (segment[n] < segment[n-1] || segment[n] == segment[n-1] && head[n-1] && !head[n]) {
			return fmt.Errorf("%w: %s stands after %s; segments ascend, and a segment's backbone comes before its head",
				ErrOrder, g.label(n), g.label(n-1))
		}
	}
	return nil
}

func (g *Graph) checkExits(producer []int) error {
	if len(g.Exits) == 0 {
		return fmt.Errorf("%w: there is none", ErrExits)
	}
	seen := map[TensorID]string{}
	names := map[string]bool{}
	for _, e := range g.Exits {
		if !g.has(e.Tensor) || producer[e.Tensor] < 0 {
			return fmt.Errorf("%w: %q is tensor %d, which no node produces", ErrExits, e.Name, e.Tensor)
		}
		if first, twice := seen[e.Tensor]; twice {
			return fmt.Errorf("%w: %q and %q are the same tensor", ErrExits, first, e.Name)
		}
		if names[e.Name] {
			return fmt.Errorf("%w: two are called %q", ErrExits, e.Name)
		}
		seen[e.Tensor], names[e.Name] = e.Name, true
		elems := g.Tensors[e.Tensor].Elems()
		n, last := 1, 0 // index of the last element that the walk reaches
		for _, s := range e.Walk {
			if s.Size < 1 || s.Step < 1 || s.Size > elems || s.Step > elems {
				return fmt.Errorf("%w: %q steps %d times by %d through %d elements", ErrExits, e.Name, s.Size, s.Step, elems)
			}
			if n, last = n*s.Size, last+(s.Size-1)*s.Step; n > elems {
				break
			}
		}
		if e.Walk != nil && (n != elems || last != elems-1) {
			return fmt.Errorf("%w: %q has %d elements, its order in the file is of %d up to element %d", ErrExits, e.Name, elems, n, last)
		}
	}
	return nil
}
