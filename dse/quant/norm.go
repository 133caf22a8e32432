package quant

import (
	"fmt"
	"math"
	"slices"

	"github.com/sluice-npu/sluice/dse/graph"
	"github.com/sluice-npu/sluice/hw/abi"
)

const (
	// A single norm is enough under two conditions. The variances differ by at most the factor `near`, which 32
	// segments can represent. The smallest variance is at least coarseSteps steps of the squares' scale.
	near        = 8
	coarseSteps = 128
	// firstOff is the largest error of the first of two norms, as a ratio.
	firstOff = 2
	// plain is the ratio of the smallest calibrated deviation to the smallest deviation that images after calibration
	// may have. The ratio is smaller if 32 segments are not enough: they represent a first norm for magnitudes that
	// differ by at most the factor `span`.
	plain = 16
	span  = 300
	// negligible is the largest epsilon that is dropped, as a share of the smallest calibrated variance. At the
	// smallest allowed deviation (plain), this share is 256 times as large.
	negligible = 1e-5
	moreLayers = 6 // number of additional layers for a second norm
	// unseenBy is the maximum ratio of a later image's variance to the largest calibrated variance.
	unseenBy = 4
	// anywhere is the upper bound of a clip, larger than all values.
	anywhere = 1e6
)

// normaliseTwice splits a norm over channels into two norms if its variances differ too much: the smallest variances
// are then only a few steps of the squares' scale. Photographs with both smooth and textured regions have such
// variances. A first norm multiplies by r = 1 / sqrt(m^2 + epsilon). Here m is the mean of the magnitudes, because
// magnitudes differ less than squares. A second norm divides by the root of mean((x r)^2) + epsilon r^2, which is near
// one. An error of r is the same factor for all channels of a pixel, so the second norm removes it. Each map that the
// original norm multiplies is multiplied by both norms. If single norms are enough, the result is g itself. (A ConvNeXt
// of five blocks with random weights has an error of 2.0 % with single norms.)
func normaliseTwice(g *graph.Graph, channels [][]float64, front []*spread, o Options) (*graph.Graph, error) {
	o = o.defaults()
	twice := *g
	twice.Tensors, twice.Exits, twice.Nodes = slices.Clone(g.Tensors), slices.Clone(g.Exits), slices.Clone(g.Nodes)
	producers := g.Producers()
	coarse, wide := unevenNorms(g, channels, front, o)
	for k, i := range slices.Concat(coarse, wide) {
		room := abi.LMax * 4 / 5 // maximum number of layers, because the compiler adds layers that copy maps and split sums
		if k < len(coarse) {
			room = abi.LMax * 9 / 10
		}
		r, ok := rootOf(g.Nodes[i].Function, unseenBy*front[i].hi)
		if !ok { // the function is clipped at an upper bound
			continue
		}
		times, products := meanOf(&g.Nodes[i]), productsOf(g, g.Nodes[i].Output)
		r.k, r.epsilon = r.k/math.Sqrt(times), r.epsilon/times
		more := moreLayers
		if r.clips {
			more++
		}
		if len(twice.Nodes)+more+len(products)-1 > room {
			break
		}
		n := second{twice: &twice, node: i, is: r, mean: g.Nodes[i], square: g.Nodes[producers[g.Nodes[i].Inputs[0]]], c: g.Tensors[g.Nodes[i].Inputs[0]].C}
		if times != 1 {
			n.mean.Weights = slices.Repeat([]float32{1 / float32(n.c)}, n.c*n.c)
			twice.Nodes[i].Weights = n.mean.Weights
		}
		n.add(products, front[i].least()/times, front[i].hi/times)
	}
	if len(twice.Nodes) == len(g.Nodes) {
		return g, nil
	}
	return &twice, twice.Arrange()
}

// unevenNorms returns the nodes for which a single norm is not enough: the smallest variance has too few steps
// (coarse), or the variances differ too much (wide).
func unevenNorms(g *graph.Graph, channels [][]float64, front []*spread, o Options) (coarse, wide []int) {
	step := func(i int) float64 {
		return math.Ldexp(1, -fraction(orOne(slices.Max(channels[g.Nodes[i].Inputs[0]])*o.Headroom), maxFrac))
	}
	for i := range g.Nodes {
		if front[i] == nil || !front[i].norm || front[i].least() == 0 || meanOf(&g.Nodes[i]) == 0 {
			continue
		}
		switch least := front[i].least(); {
		case least < coarseSteps*step(i)*meanOf(&g.Nodes[i]):
			coarse = append(coarse, i)
		case front[i].hi > near*least:
			wide = append(wide, i)
		}
	}
	return coarse, wide
}

// second adds a norm to a graph, before the existing one, which then becomes the second norm.
type second struct {
	twice        *graph.Graph
	node         int  // the existing norm
	is           root // its function
	mean, square graph.Node
	c            int // number of channels
}

// add adds the norm. The parameters least and most are the smallest and the largest calibrated variance.
func (n *second) add(products []int, least, most float64) {
	r, largest := n.first(least, most)
	product := graph.Node{Op: graph.Mul, Residual: graph.None}
	first := map[graph.TensorID]graph.TensorID{} // product of a map with the first norm, by map
	for _, p := range products {
		in := slices.Clone(n.twice.Nodes[p].Inputs)
		k := slices.IndexFunc(in, func(t graph.TensorID) bool { return t != n.mean.Output })
		of := in[k]
		if _, ok := first[of]; !ok {
			in[1-k] = r
			first[of] = n.then(product, n.twice.Nodes[p], " (first)", graph.Unseen{By: firstOff}, in...)
		}
		n.twice.Nodes[p].Inputs = []graph.TensorID{first[of], n.mean.Output}
	}
	y := first[n.square.Inputs[0]]
	s := n.then(product, n.square, " (again)", graph.Unseen{By: firstOff * firstOff}, y, y)
	if n.is.epsilon > negligible*least {
		of := n.then(product, n.mean, " (squared)", graph.Unseen{Most: largest * largest}, r, r)
		s = n.epsilon(s, of, largest)
	}
	again := &n.twice.Nodes[n.node]
	again.Inputs, again.Unseen = []graph.TensorID{s}, &graph.Unseen{Front: [2]float64{1. / (firstOff * firstOff), firstOff * firstOff}, By: firstOff}
	again.Function = &graph.Function{Name: "Pow", Alpha: -0.5, Of: []*graph.Function{{Name: "Clip", Alpha: 0.25 / (firstOff * firstOff), Beta: anywhere}}}
	if n.is.k != 1 {
		again.Function = (&graph.Function{Name: "Line", Alpha: n.is.k}).After(again.Function)
	}
}

// first adds the first norm. It returns r and the largest value of r.
func (n *second) first(least, most float64) (r graph.TensorID, largest float64) {
	abs, mean := n.each(1), n.mean
	abs.Function = &graph.Function{Name: "Abs"}
	m := n.then(abs, n.square, " (magnitudes)", graph.Unseen{}, n.square.Inputs[0])
	seen := math.Sqrt(least)
	low := max(seen/plain, min(seen, math.Sqrt(most)/span))
	own := &graph.Function{Name: "Clip", Alpha: low, Beta: anywhere}
	mean.Function = &graph.Function{Name: "Pow", Alpha: -0.5, Of: []*graph.Function{{Name: "Line", Alpha: 1, Beta: n.is.epsilon, Of: []*graph.Function{{Name: "Mul", Of: []*graph.Function{own, own}}}}}}
	largest = mean.Function.At(0)
	return n.then(mean, n.mean, " (first)", graph.Unseen{Front: [2]float64{low, seen}, Most: largest}, m), largest
}

// epsilon adds epsilon r^2 to the mean of the squares s. It returns the tensor that the existing norm must read. The
// parameter `of` is the tensor r^2, and largest is the largest r.
func (n *second) epsilon(s, of graph.TensorID, largest float64) graph.TensorID {
	e, by := n.is.epsilon, graph.Unseen{By: firstOff * firstOff}
	sum := n.each(float32(e))
	sum.Residual = s
	if !n.is.clips {
		return n.then(sum, n.square, " (and epsilon)", by, of)
	}
	// Max(mean, e) is computed as e + Max(mean - e, 0)
	less, beyond := n.each(float32(-e)), n.mean
	beyond.Function, beyond.Residual = nil, n.then(less, n.mean, " (less epsilon)", graph.Unseen{Most: e * largest * largest}, of)
	sum.Residual = n.then(beyond, n.mean, " (beyond epsilon)", by, s)
	n.twice.Nodes[len(n.twice.Nodes)-1].ClampLo = 0
	sum.Name, sum.Output = n.mean.Name, n.mean.Output
	sum.ClampLo, sum.ClampHi = n.mean.ClampLo, n.mean.ClampHi
	n.twice.Nodes[n.node] = sum
	return of
}

// then adds a node. Its output has the same shape as the output of another node, the parameter `like`.
func (n *second) then(node, like graph.Node, suffix string, u graph.Unseen, in ...graph.TensorID) graph.TensorID {
	g := n.twice
	t := g.Tensors[like.Output]
	t.Name += suffix
	node.Name, node.Inputs, node.Output, node.Unseen = like.Name+suffix, in, graph.TensorID(len(g.Tensors)), &u
	node.ClampLo, node.ClampHi = float32(math.Inf(-1)), float32(math.Inf(1))
	g.Tensors, g.Nodes = append(g.Tensors, t), append(g.Nodes, node)
	return node.Output
}

// each returns a node that multiplies each channel by a factor.
func (n *second) each(factor float32) graph.Node {
	return graph.Node{Op: graph.Conv, Residual: graph.None, Window: graph.Window{KH: 1, KW: 1, SH: 1, SW: 1}, Groups: n.c, Weights: slices.Repeat([]float32{factor}, n.c), Bias: make([]float32, n.c)}
}

// Norm is the validity range of a norm over channels. Its values are standard deviations over the channels of a pixel,
// or root mean squares if the norm subtracts no mean.
type Norm struct {
	Holds float64 `json:"holds"` // smallest deviation from which on the norm's factor is wrong by at most normOff
	Seen  float64 `json:"seen"`  // smallest deviation in calibration
}

const (
	// normOff is the largest relative error of a norm's factor within the validity range.
	normOff = 0.02
	// fewSteps is the smallest input of a norm, in steps, for which rounding by half a step is within normOff.
	fewSteps = 16
)

// holds returns the validity range of a built layer's norm; nil if its function is not a norm. The first of two norms
// may have an error up to the factor firstOff, because the second norm removes it.
func (s *solver) holds(n int, l *Layer) *Norm {
	node, front := &s.g.Nodes[n], s.o.front[n]
	u := node.Unseen
	if !front.norm || u != nil && u.Most == 0 {
		return nil
	}
	is, _ := rootOf(node.Function, front.hi)
	power, off, least := 1., normOff, front.least()
	if u != nil {
		is, power, off, least = root{k: 1, epsilon: math.Pow(u.Most, -2) - math.Pow(u.Front[0], 2)}, 2, firstOff-1, u.Front[1]
	}
	at := func(x int) float64 { return math.Ldexp(float64(x), -l.Mid) / l.Stretch }
	number := func(v float64) int { return int(saturate(math.Ldexp(v*l.Stretch, l.Mid))) }
	x, last := number(front.hi), min(number(least), 1)
	for ; x > last; x-- { // from the largest input down, because calibration may have gaps
		got, want := math.Ldexp(float64(l.Curve.At(int16(x))), -s.of(node.Output)), is.at(math.Pow(at(x), power))
		if !(got <= (1+off)*want && got >= want/(1+off)) {
			break
		}
	}
	times := orOne(meanOf(node))
	variance := func(x float64) float64 { return math.Pow(x, power) }
	rounded := variance(math.Ldexp(fewSteps, -s.of(node.Inputs[0]))) - is.epsilon/times // variances much smaller than epsilon have no effect
	return &Norm{Holds: math.Sqrt(max(variance(at(x))/times, rounded)), Seen: math.Sqrt(variance(least) / times)}
}

// Norms returns a text about norms whose validity range begins above a tenth of the smallest calibrated deviation. It
// returns "" if there are no such norms.
func (n *Network) Norms() string {
	worst, least, count := -1, 0.0, 0
	for i := range n.Layers {
		const tenth = 0.1
		if s := n.Layers[i].Norm; s != nil && s.Holds > tenth*s.Seen {
			if count++; s.Holds/s.Seen > least {
				worst, least = i, s.Holds/s.Seen
			}
		}
	}
	if worst < 0 {
		return ""
	}
	s := n.Layers[worst].Norm
	text := fmt.Sprintf("norm %q is within %.0f %% where a pixel's channels deviate by %.3g or more; the least that calibration saw is %.3g", n.Graph.Nodes[worst].Name, 100*normOff, s.Holds, s.Seen)
	if count > 1 {
		text += fmt.Sprintf("; so are %d more", count-1)
	}
	return text + ". Images with plainer places need some in calibration"
}

// root is the function k / Sqrt(x + epsilon), or k / Sqrt(Max(x, epsilon)).
type root struct {
	k, epsilon float64
	clips      bool
}

func (r root) at(x float64) float64 {
	if r.clips {
		return r.k / math.Sqrt(max(x, r.epsilon))
	}
	return r.k / math.Sqrt(x+r.epsilon)
}

// rootOf returns function f as a root. It returns false if the function differs from every root at an x up to most.
func rootOf(f *graph.Function, most float64) (r root, ok bool) {
	const far = 100
	ratio := math.Pow(f.At(0)/f.At(far), 2)
	for _, r = range []root{{epsilon: far / (ratio - 1)}, {epsilon: far / ratio, clips: true}} {
		r.k = f.At(0) * math.Sqrt(r.epsilon)
		if r.k > 0 && !slices.ContainsFunc([]float64{r.epsilon, 0.1, 1, 10, far, most}, func(x float64) bool { return !(math.Abs(f.At(x)/r.at(x)-1) < 0.002) }) {
			return r, true
		}
	}
	return r, false
}

// meanOf returns the factor between a node's sum and the mean of all input channels. It returns 0 if the node does not
// compute a function of that mean.
func meanOf(n *graph.Node) float64 {
	c := len(n.Bias)
	if n.Op != graph.Conv || n.Groups != 1 || len(n.Weights) != c*c || n.Residual != graph.None || !(n.Weights[0] > 0) ||
		slices.ContainsFunc(n.Weights, func(w float32) bool { return !(math.Abs(float64(w/n.Weights[0])-1) < 1e-3) }) ||
		slices.ContainsFunc(n.Bias, func(b float32) bool { return b != 0 }) {
		return 0
	}
	return float64(n.Weights[0]) * float64(c)
}

// nearer compares a network with single norms and a network with two norms. It returns the network with the smaller
// error on a few images. The network with two norms drops small epsilons, which causes errors in some networks.
func nearer(g *graph.Graph, n int, image func(i int) ([]float32, error), once, twice *Network) (*Network, error) {
	runner, err := graph.NewRunner(g)
	if err != nil {
		return nil, err
	}
	const few = 4
	var off [2]float64
	chosen, err := Images{Count: n, Image: image}.Drawn(2*quick(g, few), nil, nil)
	if err != nil {
		return nil, err
	}
	chosen = chosen[:(len(chosen)+1)/2] // Measure uses the other half
	once.chosen, twice.chosen = chosen, chosen
	for _, k := range chosen {
		x, err := image(k)
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
				for k, v := range float[exit.Tensor] { // compares mean errors, because the error of a single pixel is not typical of other images
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

// productsOf returns the nodes that read a tensor if all of these nodes are products, otherwise nil.
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

// expect adds the inputs that nodes expect in later images (graph.Unseen) to the calibrated inputs.
func expect(g *graph.Graph, channels [][]float64, front []*spread) {
	for i, s := range front {
		u := g.Nodes[i].Unseen
		if u == nil {
			continue
		}
		of := channels[g.Nodes[i].Output]
		for c := range of {
			of[c] = max(of[c]*max(u.By, 1), u.Most)
		}
		if s == nil || u.Front[1] == 0 {
			continue
		}
		s.hi = max(s.hi, u.Front[1])
		count := int64(0)
		for _, n := range s.signed[1] {
			count += n
		}
		const (
			each    = 16      // points per octave; their total weight equals the weight of all calibrated inputs
			between = 1. / 16 // relative weight of a point that fills a gap between calibrated inputs
		)
		octaves := max(1, math.Log2(u.Front[1]/u.Front[0]))
		for v := u.Front[0]; v <= s.hi; v *= math.Exp2(1. / each) {
			share := float64(count) / (each * octaves)
			if v > u.Front[1] {
				share *= between
			}
			s.signed[1][math.Float32bits(float32(v))>>coarse] += 1 + int64(share)
		}
	}
}
