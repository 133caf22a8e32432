package quant

import (
	"math"
	"slices"
	"strings"

	"github.com/sluice-npu/sluice/dse/graph"
)

const (
	// firstOf and againOf are the suffixes of the names of layers that normalise a map a first and a second time.
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
		if front[i].least() >= coarseSteps*step || len(products) != 1 || !meanOf(&root) {
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

// root reports whether a function is 1 / Sqrt(x + epsilon), of an epsilon of its own.
func root(f *graph.Function) bool {
	epsilon := math.Pow(f.At(0), -2) // 0 where it has none
	return !slices.ContainsFunc([]float64{0.1, 1, 10, 100}, func(x float64) bool {
		return !(math.Abs(f.At(x)*math.Sqrt(x+epsilon)-1) < 0.002)
	})
}

// meanOf reports whether a node is the mean of all channels, and nothing else but a function of it.
func meanOf(n *graph.Node) bool {
	c := len(n.Bias)
	return n.Op == graph.Conv && n.Groups == 1 && len(n.Weights) == c*c && n.Residual == graph.None &&
		!slices.ContainsFunc(n.Weights, func(w float32) bool { return !(math.Abs(float64(w)*float64(c)-1) < 1e-3) }) &&
		!slices.ContainsFunc(n.Bias, func(b float32) bool { return b != 0 })
}

// nearer is that of two forms of a network which is nearer to its floats on a few images: a norm that is taken twice loses
// its epsilon, which may be what it is about.
func nearer(g *graph.Graph, n int, image func(i int) ([]float32, error), once, twice *Network) (*Network, error) {
	runner, err := graph.NewRunner(g)
	if err != nil {
		return nil, err
	}
	const few = 4
	var off [2]float64
	for k := range min(n, few) {
		x, err := image(k * n / min(n, few))
		if err != nil {
			return nil, err
		}
		float, err := runner.Run(x)
		if err != nil {
			return nil, err
		}
		in := make([]int16, len(x))
		for i, q := range []*Network{once, twice} {
			q.Input(in, x)
			integer := q.Run(in)
			for e, exit := range g.Exits {
				t, sum, most := q.Graph.Exits[e].Tensor, 0.0, 0.0
				for k, v := range float[exit.Tensor] { // in the mean: one pixel says little of images to come
					sum, most = sum+math.Pow(float64(v)-q.Value(t, integer[t][k]), 2), max(most, math.Abs(float64(v)))
				}
				off[i] += sum / orOne(most*most*float64(len(integer[t])))
			}
		}
	}
	if off[0] <= off[1] {
		return once, nil
	}
	return twice, nil
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
