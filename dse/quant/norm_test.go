package quant

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-npu/sluice/dse/graph"
)

// A norm over channels keeps every pixel's channels near the float network's where variances lie far apart, as they do in
// photographs: by another norm of its output. Where they do not, one is enough.
func TestNorm(t *testing.T) {
	const channels = 16
	root := func(epsilon float64) *graph.Function {
		return &graph.Function{Name: "Pow", Alpha: -0.5, Of: []*graph.Function{{Name: "Line", Alpha: 1, Beta: epsilon, Of: []*graph.Function{{Name: "Abs"}}}}}
	}
	for _, c := range []struct {
		name  string
		f     *graph.Function // of the mean of squares
		bias  float32
		faint float32 // of half the pixels
		twice bool
		most  float64 // share of the largest value
	}{
		{"plain and textured", root(1e-6), 0, 0.02, true, 0.01}, // 0.8 with one norm
		{"alike", root(1e-6), 0, 1, false, 0.004},
		{"an epsilon that matters", root(1), 0, 0.02, false, 0.01}, // 0.6 without it
		{"a gate, which is no norm", &graph.Function{Name: "Sigmoid"}, 0, 0.02, false, 0.01},
		{"a mean and something else", root(1e-6), 0.05, 0.02, false, 0.03},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newNet(7, 12, 12, 3)
			x := b.conv(0, channels, 1, 1, func(n *graph.Node) { n.Bias = make([]float32, channels) })
			squares := b.join(graph.Mul, x, x)
			mean := b.conv(squares, channels, 1, 1, func(n *graph.Node) {
				n.Weights, n.Bias = slices.Repeat([]float32{1. / channels}, channels*channels), slices.Repeat([]float32{c.bias}, channels)
				n.Function = c.f
			})
			out := b.join(graph.Mul, x, mean)
			b.g.Exits = append(b.g.Exits, graph.Exit{Name: "map", Tensor: out})
			g, images := b.done(t), b.images(8)
			for _, image := range images {
				for i := range image {
					if image[i] = 0.6 + 0.4*image[i]; i < len(image)/2 {
						image[i] *= c.faint
					}
				}
			}
			n, err := Quantise(g, images, Options{})
			if err != nil {
				t.Fatal(err)
			}
			if twice := slices.ContainsFunc(n.Graph.Nodes, func(n graph.Node) bool { return strings.HasSuffix(n.Name, againOf) }); twice != c.twice {
				t.Errorf("normalised twice: %v, expected %v", twice, c.twice)
			}
			off, largest := 0.0, 0.0
			beside(t, g, n, images, func(float, integer float64) {
				largest, off = max(largest, math.Abs(float)), max(off, math.Abs(integer-float))
			})
			t.Logf("%.4f of the largest value off", off/largest)
			if loss, err := n.Measure(len(images), func(i int) ([]float32, error) { return images[i], nil }, Options{}); err != nil || math.Abs(loss.Exits["map"]*largest-off) > off/2 {
				t.Errorf("measured %v of each image's largest value off, %v of the largest of all: %v", loss.Exits["map"], off/largest, err)
			}
			if !(off < c.most*largest) {
				t.Errorf("%v of the largest value off, expected %v at most", off/largest, c.most)
			}
		})
	}
}

// What is a norm: 1 / Sqrt of a mean and nothing else.
func TestNormIsNothingElse(t *testing.T) {
	abs := []*graph.Function{{Name: "Abs"}}
	line := []*graph.Function{{Name: "Line", Alpha: 1, Beta: 0.01, Of: abs}}
	for _, c := range []struct {
		f  *graph.Function
		is bool
	}{
		{&graph.Function{Name: "Pow", Alpha: -0.5, Of: line}, true},
		{&graph.Function{Name: "Pow", Alpha: -1.5, Of: line}, false},
		{&graph.Function{Name: "Sigmoid"}, false},
		{&graph.Function{Name: "Tanh"}, false},
		{&graph.Function{Name: "Reciprocal", Of: line}, false},
	} {
		if root(c.f) != c.is {
			t.Errorf("%s is a norm's: %t", c.f, !c.is)
		}
	}
	node := graph.Node{Op: graph.Conv, Groups: 1, Weights: slices.Repeat([]float32{0.25}, 16), Bias: make([]float32, 4), Residual: graph.None}
	if !meanOf(&node) {
		t.Error("a mean is none")
	}
	for name, change := range map[string]func(*graph.Node){
		"weights": func(n *graph.Node) { n.Weights[5] = 0.2 }, "bias": func(n *graph.Node) { n.Bias[1] = 0.1 }, "residual": func(n *graph.Node) { n.Residual = 0 },
	} {
		n := node
		n.Weights, n.Bias = slices.Clone(node.Weights), slices.Clone(node.Bias)
		if change(&n); meanOf(&n) {
			t.Errorf("%s: it is a mean", name)
		}
	}
}

// What is lost is measured against the network that was imported, where another is computed for it.
func TestMeasureOfImported(t *testing.T) {
	b := newNet(7, 12, 12, 3)
	b.g.Exits = append(b.g.Exits, graph.Exit{Name: "map", Tensor: b.conv(0, 4, 1, 1, nil)})
	g, images := b.done(t), b.images(4)
	n, err := Quantise(g, images, Options{})
	if err != nil {
		t.Fatal(err)
	}
	other := *g
	other.Nodes = slices.Clone(g.Nodes)
	other.Nodes[0].Weights = slices.Clone(g.Nodes[0].Weights)
	for i := range other.Nodes[0].Weights {
		other.Nodes[0].Weights[i] *= 2
	}
	for of, least := range map[*graph.Graph]float64{nil: 0, &other: 0.3} {
		n.Of = of
		loss, err := n.Measure(len(images), func(i int) ([]float32, error) { return images[i], nil }, Options{})
		if err != nil || loss.Exits["map"] < least || loss.Exits["map"] > least+0.5 {
			t.Errorf("measured %v, %v: expected %v or more", loss.Exits["map"], err, least)
		}
	}
}
