package compile

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/sluice-npu/sluice/dse/alias"
	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/dse/graph"
	"github.com/sluice-npu/sluice/dse/lower"
	"github.com/sluice-npu/sluice/dse/quant"
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
)

// ErrMixed is wrapped by errors about int8 networks with properties that a bundle cannot represent.
var ErrMixed = errors.New("a bundle of int8 cannot hold this network")

// Int8 compiles an int8 network to a bundle for an int8 design d. In an Add or Mul the accumulator is the first input
// minus its zero point, and the second input is the residual. If the scale of a concatenation's input differs from the
// output's scale, a max pool copies the input and multiplies it by a factor.
func Int8(n *quant.Int8, d configs.Design, o Options) (*bundle.Bundle, error) {
	if !d.Int8() {
		return nil, fmt.Errorf("compile: the design %q computes in int16, the network is of int8", d.Name)
	}
	if n == nil || n.Graph == nil {
		return nil, fmt.Errorf("compile: %w: there is none", ErrNetwork)
	}
	if err := n.Graph.Check(); err != nil {
		return nil, fmt.Errorf("compile: %w", err)
	}
	q := &quant.Network{Graph: n.Graph, Frac: make([]int, len(n.Graph.Tensors)), Layers: make([]quant.Layer, len(n.Layers))}
	copied := map[alias.Edge]bool{}
	for i := range n.Layers {
		l, node := &n.Layers[i], &n.Graph.Nodes[i]
		q.Layers[i] = quant.Layer{Weights: l.Weights, Bias: l.Bias, ClampLo: l.Lo, ClampHi: l.Hi, Curve: l.Curve}
		if err := holds(n, i); err != nil {
			return nil, fmt.Errorf("compile: layer %d (%q): %w", i, node.Name, err)
		}
		for j := range node.Inputs {
			copied[alias.Edge{N: i, I: j}] = node.Op == graph.Concat && !same(n, i, j)
		}
	}
	return compile(&compiler{q: q, eight: n, d: d, o: o}, alias.Copying(n.Graph, copied))
}

// same reports whether input j and the output of node i, which copies its inputs, map values to equal codes.
func same(n *quant.Int8, i, j int) bool {
	node, l := &n.Graph.Nodes[i], &n.Layers[i]
	s := l.Scales[j]
	return int64(s.Mul) == 1<<s.Shift && n.Maps[node.Inputs[j]].Zero == n.Maps[node.Output].Zero && l.Lo == math.MinInt8 && l.Hi == math.MaxInt8
}

// holds returns an error for 16-bit tensors, for a reshape that changes codes, and for sums of more than 32 bits.
func holds(n *quant.Int8, i int) error {
	node, l := &n.Graph.Nodes[i], &n.Layers[i]
	for _, t := range slices.Concat(node.Reads(), []graph.TensorID{node.Output}) {
		if n.Maps[t].Wide {
			return fmt.Errorf("%w: tensor %q has 16 bits", ErrMixed, n.Graph.Tensors[t].Name)
		}
	}
	switch {
	case l.Wide:
		return fmt.Errorf("%w: the layer has 16 bits", ErrMixed)
	case node.Op == graph.Reshape && !same(n, i, 0):
		return fmt.Errorf("%w: a reshape from one step or zero point to another", ErrMixed)
	case node.Op != graph.Conv:
		return nil
	}
	each := len(l.Weights) / len(l.Bias)
	for c, bias := range l.Bias {
		lo, hi := int64(0), int64(0)
		for _, w := range l.Weights[c*each:][:each] {
			a, b := int64(w)*math.MinInt8, int64(w)*math.MaxInt8
			lo, hi = lo+min(a, b), hi+max(a, b)
		}
		if b := int64(bias); min(lo, lo+b) < math.MinInt32 || max(hi, hi+b) > math.MaxInt32 {
			return fmt.Errorf("%w: the sums of channel %d reach from %d to %d, with the bias %d, and have 32 bits", ErrNetwork, c, lo, hi, b)
		}
	}
	return nil
}

// zero returns the zero point of a map. In int16 it returns 0.
func (c *compiler) zero(t graph.TensorID) int8 {
	if c.eight == nil {
		return 0
	}
	return int8(c.eight.Maps[t].Zero)
}

func (c *compiler) codes(t graph.TensorID) bundle.Codes {
	if c.eight == nil {
		return bundle.Codes{}
	}
	return bundle.Codes{Step: c.eight.Maps[t].Step, Zero: c.eight.Maps[t].Zero}
}

// operand describes how res, a node's residual or second input, changes the node's sums. It is nil without res.
func (c *compiler) operand(n int, res graph.TensorID) *abi.Operand {
	if res == graph.None {
		return nil
	}
	l, zero := &c.eight.Layers[n], int32(c.zero(res))
	if l.Sum == nil { // a product
		return &abi.Operand{A: l.Scales[0].Mul, Shift: l.Scales[0].Shift, Add: -zero}
	}
	return &abi.Operand{A: l.Sum.A, B: l.Sum.B, Shift: l.Sum.Shift, Add: -zero * l.Sum.B}
}

// scaling returns the factor of a pool without a table, or of a copied input of a concatenation.
func (c *compiler) scaling(x *lower.Layer) abi.Scaling {
	n := x.Nodes[0]
	if node := &c.g.Nodes[n]; node.Op == graph.Concat {
		return c.eight.Layers[n].Scales[slices.Index(node.Inputs, x.In)]
	}
	scaling, _ := c.pooled(n)
	return scaling
}

// pooled returns the factor of a pool. For an average with several factors, it returns the factors by number of pixels.
func (c *compiler) pooled(n int) (abi.Scaling, []int32) {
	scales, out := c.eight.Layers[n].Scales, c.g.Tensors[c.g.Nodes[n].Output]
	if c.g.Nodes[n].Op == graph.MaxPool {
		return scales[0], nil
	}
	table := make([]int32, len(scales))
	var used []abi.Scaling
	for y := range out.H {
		for x := range out.W {
			taps := c.g.Taps(n, y, x)
			if table[taps] = scales[taps].Word(); !slices.Contains(used, scales[taps]) {
				used = append(used, scales[taps])
			}
		}
	}
	if len(used) == 1 {
		return used[0], nil
	}
	return abi.Scaling{}, table
}
