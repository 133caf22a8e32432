package quant

import (
	"math"
	"slices"

	"github.com/sluice-npu/sluice/dse/graph"
)

const (
	fewBits = 9  // bits of a layer's largest weight: with fewer, its sum is too long for one layer
	whole   = 13 // bits that the parts of such a layer have together
	parts   = 4  // most parts of a layer
)

// restOf is the suffix of the name of a layer that computes with the rounding remainders of another layer's weights.
const restOf = " (rest)"

// part records that a layer computes with remainders of another one.
type part struct {
	of    float64 // the largest weight of the original layer
	depth int
}

// splitLong splits convolutions whose weights lost bits to the proof against overflow: a sum over very many inputs
// leaves few bits for each weight. The second convolution computes with what rounding the weights left over, and its
// result becomes the residual of the first, so that both together keep twice the bits. known records such parts by
// node name. If nothing is split, the result is g itself.
func splitLong(g *graph.Graph, n *Network, known map[string]part) (*graph.Graph, error) {
	long := *g
	long.Tensors, long.Exits, long.Nodes = slices.Clone(g.Tensors), slices.Clone(g.Exits), nil
	for i := range g.Nodes {
		node := g.Nodes[i]
		w, p := n.Layers[i].WFrac, known[node.Name]
		largest := largestWeight(&node)
		if p.of == 0 {
			p.of = largest
		}
		bits := magnitudeBits(p.of, w)
		if node.Op != graph.Conv || largest == 0 || p.depth+1 >= parts || p.depth == 0 && bits >= fewBits || p.depth > 0 && bits >= whole || !n.overflows(i) {
			long.Nodes = append(long.Nodes, node)
			continue
		}
		k := key{in: n.Frac[node.Inputs[0]], out: n.sum(i)}
		if roundingNegligible(&node, k, w) {
			long.Nodes = append(long.Nodes, node)
			continue
		}
		w-- // the residual also needs room in the accumulator
		rest := node
		rest.Name += restOf
		out := g.Tensors[node.Output]
		out.Name += restOf
		rest.Output = graph.TensorID(len(long.Tensors))
		long.Tensors = append(long.Tensors, out)
		rest.Function, rest.Unseen = nil, nil
		rest.ClampLo, rest.ClampHi = float32(math.Inf(-1)), float32(math.Inf(1))
		rest.Bias = make([]float32, len(node.Bias))
		rest.Weights, node.Weights = make([]float32, len(node.Weights)), slices.Clone(node.Weights)
		for j, v := range node.Weights {
			node.Weights[j] = float32(math.Ldexp(math.Round(math.Ldexp(float64(v), w)), -w))
			rest.Weights[j] = v - node.Weights[j]
		}
		node.Residual = rest.Output
		known[rest.Name] = part{of: p.of, depth: p.depth + 1}
		known[node.Name] = part{of: p.of, depth: parts} // its weights are already rounded to their grid
		long.Nodes = append(long.Nodes, rest, node)
	}
	if len(long.Nodes) == len(g.Nodes) {
		return g, nil
	}
	return &long, long.Arrange()
}

// overflows reports whether the accumulator has no room for two more bits of a convolution's weights.
func (n *Network) overflows(layer int) bool {
	return n.Proof(layer).AccBits() < 2
}
