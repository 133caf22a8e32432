package quant

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/sluice-npu/sluice/dse/graph"
)

// net builds graphs for the tests; every method returns the tensor it makes.
type net struct {
	g   *graph.Graph
	rng *rand.Rand
}

func newNet(seed uint64, h, w, c int) *net {
	return &net{
		g:   &graph.Graph{Name: "test", Tensors: []graph.Tensor{{Name: "input", H: h, W: w, C: c}}},
		rng: rand.New(rand.NewPCG(seed, 1)),
	}
}

func (b *net) node(n graph.Node, h, w, c int) graph.TensorID {
	n.Output = graph.TensorID(len(b.g.Tensors))
	n.Name = fmt.Sprintf("%v%d", n.Op, len(b.g.Nodes))
	if n.Op != graph.Conv {
		n.Residual = graph.None
	}
	if n.ClampLo == 0 && n.ClampHi == 0 {
		n.ClampLo, n.ClampHi = float32(math.Inf(-1)), float32(math.Inf(1))
	}
	b.g.Tensors = append(b.g.Tensors, graph.Tensor{Name: n.Name, H: h, W: w, C: c})
	b.g.Nodes = append(b.g.Nodes, n)
	return n.Output
}

func (b *net) size(t graph.TensorID) (h, w, c int) {
	s := b.g.Tensors[t]
	return s.H, s.W, s.C
}

func (b *net) random(n int, deviation float64) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(b.rng.NormFloat64() * deviation)
	}
	return x
}

// conv adds a convolution of kernel k, stride s and "same" padding; change may modify it.
func (b *net) conv(t graph.TensorID, cout, k, s int, change func(*graph.Node)) graph.TensorID {
	h, w, c := b.size(t)
	n := graph.Node{
		Op: graph.Conv, Inputs: []graph.TensorID{t}, Groups: 1, Residual: graph.None,
		Window: graph.Window{KH: k, KW: k, SH: s, SW: s, PT: k / 2, PL: k / 2, PB: k / 2, PR: k / 2},
		Bias:   b.random(cout, 0.1),
	}
	if change != nil {
		change(&n)
	}
	if n.Weights == nil {
		per := k * k * c / n.Groups
		n.Weights = b.random(cout*per, math.Sqrt(2/float64(per)))
	}
	return b.node(n, (h+2*(k/2)-k)/s+1, (w+2*(k/2)-k)/s+1, cout)
}

func (b *net) pool(op graph.Op, t graph.TensorID, window graph.Window, h, w int, include bool) graph.TensorID {
	_, _, c := b.size(t)
	return b.node(graph.Node{Op: op, Inputs: []graph.TensorID{t}, Window: window, CountIncludePad: include}, h, w, c)
}

func (b *net) join(op graph.Op, ts ...graph.TensorID) graph.TensorID {
	h, w, c := b.size(ts[0])
	if op == graph.Concat {
		c = 0
		for _, t := range ts {
			c += b.g.Tensors[t].C
		}
	}
	return b.node(graph.Node{Op: op, Inputs: ts}, h, w, c)
}

func (b *net) exit(t graph.TensorID) {
	h, w, c := b.size(t)
	t = b.pool(graph.AvgPool, t, graph.Window{KH: h, KW: w, SH: 1, SW: 1}, 1, 1, false)
	_ = c
	t = b.conv(t, 5, 1, 1, nil)
	b.g.Exits = append(b.g.Exits, graph.Exit{Name: b.g.Tensors[t].Name, Tensor: t})
}

func (b *net) done(t testing.TB) *graph.Graph {
	t.Helper()
	if err := b.g.Arrange(); err != nil {
		t.Fatal(err)
	}
	return b.g
}

func (b *net) images(n int) [][]float32 {
	images := make([][]float32, n)
	for i := range images {
		images[i] = make([]float32, b.g.Tensors[b.g.Input].Elems())
		for k := range images[i] {
			images[i][k] = float32(b.rng.Float64()*2 - 1)
		}
	}
	return images
}

// randomNet draws a network that contains every operator.
func randomNet(t testing.TB, seed uint64) (*graph.Graph, [][]float32) {
	t.Helper()
	b := newNet(seed, 6+int(seed%3), 7, 3)
	at := b.conv(0, 8, 3, 1, relu)
	for range 6 + b.rng.IntN(6) {
		h, w, c := b.size(at)
		switch b.rng.IntN(11) {
		case 0:
			at = b.conv(at, 4*(1+b.rng.IntN(4)), 1+2*b.rng.IntN(2), 1+b.rng.IntN(2), relu)
		case 1:
			at = b.conv(at, c, 3, 1, func(n *graph.Node) { n.Groups = c; n.ClampLo, n.ClampHi = 0, 6 })
		case 2: // a residual whose scale may differ much from the convolution's
			inner := b.conv(at, c, 1, 1, relu)
			at = b.conv(inner, c, 3, 1, func(n *graph.Node) {
				n.Residual = at
				n.Weights = b.random(9*c*c, math.Ldexp(1, b.rng.IntN(16)-12))
			})
		case 3:
			at = b.pool(graph.MaxPool, at, graph.Window{KH: 2, KW: 3, SH: 1, SW: 1, PT: 1, PB: 0, PL: 1, PR: 1}, h, w, false)
		case 4:
			at = b.pool(graph.AvgPool, at, graph.Window{KH: 3, KW: 3, SH: 1, SW: 1, PT: 1, PB: 1, PL: 1, PR: 1}, h, w, b.rng.IntN(2) == 0)
		case 5:
			at = b.join(graph.Concat, b.conv(at, 4, 1, 1, nil), b.conv(at, 4, 3, 1, func(n *graph.Node) {
				n.Weights = b.random(4*9*c, math.Ldexp(1, b.rng.IntN(12)-8))
			}))
		case 6:
			at = b.join(graph.Add, b.conv(at, c, 1, 1, relu), at)
		case 7:
			if h > 2 {
				at = b.conv(at, 8, 3, 2, func(n *graph.Node) { n.Groups = 4 / (1 + c%2); n.ClampLo, n.ClampHi = -0.5, 2 })
			}
		case 8:
			b.exit(at)
			at = b.conv(at, c, 3, 1, relu)
		case 9: // a function, also after a residual that its producer may scale differently
			f := functions[b.rng.IntN(len(functions))]
			inner := b.conv(at, c, 1, 1, relu)
			at = b.conv(inner, c, 3, 1, func(n *graph.Node) { n.Residual, n.Function = at, f })
			at = b.join(graph.Add, b.conv(at, c, 1, 1, nil), at)
			b.g.Nodes[len(b.g.Nodes)-1].Function = f
		case 10: // products of two maps, and by one pixel
			gate := b.pool(graph.AvgPool, at, graph.Window{KH: h, KW: w, SH: 1, SW: 1}, 1, 1, false)
			gate = b.conv(gate, c, 1, 1, func(n *graph.Node) { n.Function = functions[0] })
			at = b.join(graph.Mul, at, gate)
			at = b.join(graph.Mul, b.conv(at, c, 3, 1, nil), at)
			b.g.Nodes[len(b.g.Nodes)-1].ClampLo = -0.5
		}
	}
	b.exit(at)
	return b.done(t), b.images(8)
}

// functions have slopes of at most 1.2.
var functions = []*graph.Function{
	{Name: "Sigmoid"},
	{Name: "Mul", Of: []*graph.Function{graph.X(), {Name: "Sigmoid"}}},
	{Name: "HardSwish"},
	{Name: "Gelu"},
	{Name: "Tanh"},
	{Name: "LeakyRelu", Alpha: 0.1},
	{Name: "Softplus"},
	{Name: "Elu", Alpha: 1},
	{Name: "Mish"},
}

func relu(n *graph.Node) { n.ClampLo, n.ClampHi = 0, float32(math.Inf(1)) }

// beside returns the values of the first exit by image: in floats, and as represented by the integers.
func beside(t *testing.T, g *graph.Graph, n *Network, images [][]float32, each func(float, integer float64)) {
	t.Helper()
	want, got := g.Exits[0].Tensor, n.Graph.Exits[0].Tensor
	for _, image := range images {
		float, err := graph.Run(g, image)
		if err != nil {
			t.Fatal(err)
		}
		in := make([]int16, len(image))
		n.Input(in, image)
		for k, v := range n.Run(in)[got] {
			each(float64(float[want][k]), n.Value(got, v))
		}
	}
}
