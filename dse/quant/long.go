package quant

import (
	"math"
	"slices"

	"github.com/sluice-npu/sluice/dse/graph"
)

const (
	fewBits = 9  // of a layer's largest weight: with fewer its sum is too long for one layer
	whole   = 13 // that the parts of such a layer keep together
	parts   = 4  // at most
)

// restOf ends the name of a layer that computes with what another's weights lost.
const restOf = " (rest)"

// part is what is left of a layer's weights for a layer of its own.
type part struct {
	of    float64 // the largest weight of the layer
	depth int
}

// lengthen gives every convolution whose weights lost their bits to the proof against overflow a second one, which
// computes with what rounding left over and is its residual: a sum over very many inputs keeps few bits of each
// weight, and the rest as many again. Parts, by node's name, remembers what is such a rest. The graph is g itself
// where nothing is too long.
func lengthen(g *graph.Graph, n *Network, known map[string]part) (*graph.Graph, error) {
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
		k := key{in: n.Frac[node.Inputs[0]], out: n.Frac[node.Output]}
		if dwarfed(&node, k, w) {
			long.Nodes = append(long.Nodes, node)
			continue
		}
		w-- // the residual takes room in the accumulator too
		rest := node
		rest.Name += restOf
		out := g.Tensors[node.Output]
		out.Name += restOf
		rest.Output = graph.TensorID(len(long.Tensors))
		long.Tensors = append(long.Tensors, out)
		rest.ClampLo, rest.ClampHi = float32(math.Inf(-1)), float32(math.Inf(1))
		rest.Bias = make([]float32, len(node.Bias))
		rest.Weights, node.Weights = make([]float32, len(node.Weights)), slices.Clone(node.Weights)
		for j, v := range node.Weights {
			node.Weights[j] = float32(math.Ldexp(math.Round(math.Ldexp(float64(v), w)), -w))
			rest.Weights[j] = v - node.Weights[j]
		}
		node.Residual = rest.Output
		known[rest.Name] = part{of: p.of, depth: p.depth + 1}
		known[node.Name] = part{of: p.of, depth: parts} // it is on its grid
		long.Nodes = append(long.Nodes, rest, node)
	}
	if len(long.Nodes) == len(g.Nodes) {
		return g, nil
	}
	return &long, long.Arrange()
}

// overflows tells that a convolution's weights would not fit the accumulator with two bits more.
func (n *Network) overflows(layer int) bool {
	return n.Proof(layer).AccBits() < 2
}
