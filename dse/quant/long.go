package quant

import (
	"math"
	"slices"

	"github.com/sluice-npu/sluice/dse/graph"
)

const (
	fewBits = 9  // a layer is split if its largest weight has fewer bits
	whole   = 13 // number of bits of the parts of a layer together, from which on they are not split again
	parts   = 4  // maximum number of parts of a layer
)

// restOf is the suffix of the name of a layer that computes with the rounding remainders of another layer's weights.
const restOf = " (rest)"

// part records that a layer computes with the rounding remainders of another layer's weights.
type part struct {
	of    float64 // the largest weight of the original layer
	depth int
}

// splitLong splits convolutions whose weights lost bits because of the overflow proof: in a sum over very many inputs,
// each weight can have only a few bits. The second convolution computes with the rounding remainders of the weights.
// Its result becomes the residual of the first convolution, so both together have twice the bits. The argument known
// lists such parts by node name. If no convolution is split, the result is g itself.
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
		w-- // because the accumulator must also have room for the residual
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
		known[node.Name] = part{of: p.of, depth: parts} // do not split node again, because its weights are already rounded
		long.Nodes = append(long.Nodes, rest, node)
	}
	if len(long.Nodes) == len(g.Nodes) {
		return g, nil
	}
	return &long, long.Arrange()
}

// overflows reports whether the accumulator would overflow if a convolution's weights had two more bits.
func (n *Network) overflows(layer int) bool {
	return n.Proof(layer).AccBits() < 2
}
