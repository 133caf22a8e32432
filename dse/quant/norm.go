package quant

import (
	"math"
	"slices"
	"strings"

	"github.com/sluice-npu/sluice/dse/graph"
)

const (
	// twiceOf and againOf are the suffixes of the names of layers that normalise a map a first and a second time.
	firstOf = " (first)"
	againOf = " (again)"
	// coarseSteps is how many steps of the squares' scale the least variance has to have for one norm to do.
	coarseSteps = 128
	// firstOff is by what factor the first norm may be off, and anywhere is beyond all values.
	firstOff = 2
	anywhere = 1e6
)

// normaliseTwice changes norms of layers whose variances lie so far apart that the smallest ones are a few steps of
// the squares' scale: a photograph's plain and textured places. A first norm then divides by the mean of the magnitudes,
// which lie less far apart than squares, and a second one by the root of the variance, which is near one by then. What
// the first one is off is a factor for all channels of a pixel, and the second one takes that away. If one norm does
// everywhere, the result is g itself. (A ConvNeXt of five blocks with weights of a seed: 2.0 % off with one norm each.)
func normaliseTwice(g *graph.Graph, channels [][]float64, front []*spread, o Options) (*graph.Graph, error) {
	o = o.defaults()
	twice := *g
	twice.Tensors, twice.Exits, twice.Nodes = slices.Clone(g.Tensors), slices.Clone(g.Exits), slices.Clone(g.Nodes)
	producers, open := g.Producers(), [2]float32{float32(math.Inf(-1)), float32(math.Inf(1))}
	for i := range g.Nodes {
		if front[i] == nil || front[i].use != norm {
			continue
		}
		root, squared := g.Nodes[i], g.Nodes[i].Inputs[0]
		step := math.Ldexp(1, -fraction(orOne(slices.Max(channels[squared])*o.Headroom), maxFrac))
		products := productsOf(g, root.Output)
		if front[i].least() >= coarseSteps*step || len(products) != 1 {
			continue
		}
		tensor := func(like graph.TensorID, suffix string) graph.TensorID {
			t := g.Tensors[like]
			t.Name += suffix
			twice.Tensors = append(twice.Tensors, t)
			return graph.TensorID(len(twice.Tensors) - 1)
		}
		square, last := g.Nodes[producers[squared]], g.Nodes[products[0]]
		x, c := square.Inputs[0], g.Tensors[squared].C
		magnitude := graph.Node{
			Name: square.Name + firstOf, Op: graph.Conv, Inputs: []graph.TensorID{x}, Output: tensor(squared, firstOf), Residual: graph.None,
			Window: graph.Window{KH: 1, KW: 1, SH: 1, SW: 1}, Groups: c, Weights: slices.Repeat([]float32{1}, c), Bias: make([]float32, c),
			Function: &graph.Function{Name: "Abs"}, ClampLo: open[0], ClampHi: open[1],
		}
		mean, first := root, last
		mean.Name, mean.Inputs, mean.Output = root.Name+firstOf, []graph.TensorID{magnitude.Output}, tensor(root.Output, firstOf)
		mean.Bias = make([]float32, c)
		mean.Function = above(&graph.Function{Name: "Reciprocal"}, math.Sqrt(front[i].least())/8)
		first.Name, first.Inputs, first.Output = last.Name+firstOf, []graph.TensorID{x, mean.Output}, tensor(last.Output, firstOf)
		first.ClampLo, first.ClampHi = open[0], open[1]
		square.Name, square.Inputs, square.Output = square.Name+againOf, []graph.TensorID{first.Output, first.Output}, tensor(squared, againOf)
		again := &twice.Nodes[i]
		again.Name, again.Inputs, again.Bias = root.Name+againOf, []graph.TensorID{square.Output}, mean.Bias
		again.Function = above(&graph.Function{Name: "Pow", Alpha: -0.5}, 0.25/(firstOff*firstOff))
		twice.Nodes[products[0]].Inputs = []graph.TensorID{first.Output, root.Output}
		twice.Nodes = append(twice.Nodes, magnitude, mean, first, square)
	}
	if len(twice.Nodes) == len(g.Nodes) {
		return g, nil
	}
	return &twice, twice.Arrange()
}

// above is a function of what is at least a number.
func above(f *graph.Function, least float64) *graph.Function {
	return f.After(&graph.Function{Name: "Clip", Alpha: least, Beta: anywhere})
}

// productsOf are the nodes that read a tensor, if all are products.
func productsOf(g *graph.Graph, t graph.TensorID) (nodes []int) {
	for i := range g.Nodes {
		if r := &g.Nodes[i]; r.Residual == t || slices.Contains(r.Inputs, t) {
			if r.Op != graph.Mul {
				return nil
			}
			nodes = append(nodes, i)
		}
	}
	return nodes
}

// expectAgain widens what calibration saw of second norms: in floats the first one leaves them nothing to do.
func expectAgain(g *graph.Graph, channels [][]float64, front []*spread) {
	for i, s := range front {
		if s == nil || s.use != norm || !strings.HasSuffix(g.Nodes[i].Name, againOf) {
			continue
		}
		least, most := 1./(firstOff*firstOff), float64(firstOff*firstOff)
		s.hi = max(s.hi, most)
		count := int64(0)
		for _, n := range s.signed[1] {
			count += n
		}
		const each = 16 // points to an octave, as many together as were seen
		for v := least; v <= most; v *= math.Exp2(1. / each) {
			s.signed[1][math.Float32bits(float32(v))>>coarse] += 1 + count/(4*each)
		}
		of := channels[g.Nodes[i].Output]
		for c := range of {
			of[c] = max(of[c], 1/math.Sqrt(least))
		}
	}
}
