package quant

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-npu/sluice/dse/graph"
)

// If variances differ much, as in photographs, a second norm of the first one's output keeps every pixel's channels
// close to the float network's. Otherwise one norm is enough.
func TestNorm(t *testing.T) {
	const channels = 16
	root := func(epsilon float64) *graph.Function {
		return &graph.Function{Name: "Pow", Alpha: -0.5, Of: []*graph.Function{{Name: "Line", Alpha: 1, Beta: epsilon, Of: []*graph.Function{{Name: "Abs"}}}}}
	}
	clipped := func(epsilon, most float64) *graph.Function {
		return &graph.Function{Name: "Pow", Alpha: -0.5, Of: []*graph.Function{{Name: "Clip", Alpha: epsilon, Beta: most}}}
	}
	for _, c := range []struct {
		name          string
		f             *graph.Function // of the mean of squares
		bias          float32
		faint         float32 // of half the pixels
		width         float32 // of the others
		twice         bool
		most, plainer float64 // error as a share of the largest value; the same for pixels with a tenth of the smallest calibrated deviation
		says          bool    // the validity range is stated, since it does not extend to a tenth
		more          bool    // maps that the norm multiplies
		sum           bool    // of squares, in place of the mean
	}{
		{"plain and textured", root(1e-6), 0, 0.02, 0.4, true, 0.006, 0.05, true, false, false}, // 0.8 with one norm
		{"three maps", root(1e-6), 0, 0.02, 0.4, true, 0.01, 0.05, true, true, false},           // 0.8 where one is left out
		{"a little plainer", root(1e-6), 0, 0.1, 0.4, true, 0.006, 0.01, false, false, false},
		{"not alike", root(1e-6), 0, 1, 0.4, true, 0.001, 0.002, false, false, false}, // 0.009 with one norm, and 0.7 where they are plainer
		{"alike", root(1e-6), 0, 1, 0.1, false, 0.004, 1, true, false, false},
		{"an epsilon that matters", root(1), 0, 0.02, 0.4, false, 0.001, 0.001, false, false, false},   // 0.6 without it
		{"an epsilon that is seen", root(1e-4), 0, 0.02, 0.4, true, 0.005, 0.006, false, false, false}, // 0.28 without it
		{"a factor", (&graph.Function{Name: "Line", Alpha: 3}).After(root(1e-4)), 0, 0.02, 0.4, true, 0.005, 0.006, false, false, false},
		{"a clip", clipped(1e-6, 1e30), 0, 0.02, 0.4, true, 0.006, 0.2, true, false, false},                                                                 // 0.007 and 0.26 without it
		{"a clip that is seen", clipped(1e-4, 1e6), 0, 0.02, 0.4, true, 0.006, 0.006, false, false, false},                                                  // 0.85 with one norm, 0.14 of each square
		{"a clip that matters", (&graph.Function{Name: "Line", Alpha: 3}).After(clipped(1e-2, 1e6)), 0, 0.02, 0.4, true, 0.001, 0.001, false, false, false}, // 0.05 with one norm
		{"a sum", root(1e-5), 0, 0.02, 0.4, true, 0.006, 0.08, true, false, true},                                                                           // 0.8 with one norm
		{"a clipped sum", clipped(1e-3, 1e6), 0, 0.02, 0.4, true, 0.006, 0.008, false, false, true},                                                         // 0.8 with one norm
		{"a gate, which is no norm", &graph.Function{Name: "Sigmoid"}, 0, 0.02, 0.4, false, 0.01, 0.01, false, false, false},
		{"a mean and something else", root(1e-6), 0.05, 0.02, 0.4, false, 0.03, 0.2, true, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newNet(7, 12, 12, 3)
			x := b.conv(0, channels, 1, 1, func(n *graph.Node) { n.Bias = make([]float32, channels) })
			squares := b.join(graph.Mul, x, x)
			mean := b.conv(squares, channels, 1, 1, func(n *graph.Node) {
				n.Weights, n.Bias = slices.Repeat([]float32{1. / channels}, channels*channels), slices.Repeat([]float32{c.bias}, channels)
				if c.sum {
					n.Weights = slices.Repeat([]float32{1}, channels*channels)
				}
				n.Function = c.f
			})
			out := b.join(graph.Mul, x, mean)
			if c.more {
				rectified := b.conv(x, channels, 1, 1, func(n *graph.Node) { n.Bias, n.Function = make([]float32, channels), &graph.Function{Name: "Abs"} })
				out = b.join(graph.Add, out, b.join(graph.Add, b.join(graph.Mul, rectified, mean), b.join(graph.Mul, x, mean)))
			}
			b.g.Exits = append(b.g.Exits, graph.Exit{Name: "map", Tensor: out})
			g := b.done(t)
			drawn := func(faint float32) [][]float32 {
				images := b.images(8)
				for _, image := range images {
					for i := range image {
						if image[i] = 1 - c.width + c.width*image[i]; i < len(image)/2 {
							image[i] *= faint
						}
					}
				}
				return images
			}
			images := drawn(c.faint)
			n, err := Quantise(g, images, Options{})
			if err != nil {
				t.Fatal(err)
			}
			if twice := slices.ContainsFunc(n.Graph.Nodes, func(n graph.Node) bool { return strings.HasSuffix(n.Name, " (again)") }); twice != c.twice {
				t.Errorf("normalised twice: %v, expected %v", twice, c.twice)
			}
			off, largest := furthest(t, g, n, images)
			t.Logf("%.4f of the largest value off", off/largest)
			if loss, err := n.Measure(list(images), Images{}, nil, Options{}); err != nil || math.Abs(loss.Exits["map"]*largest-off) > off/2 {
				t.Errorf("measured %v of each image's largest value off, %v of the largest of all: %v", loss.Exits["map"], off/largest, err)
			}
			if !(off < c.most*largest) {
				t.Errorf("%v of the largest value off, expected %v at most", off/largest, c.most)
			}
			if off, largest := furthest(t, g, n, drawn(c.faint/10)); !(off < c.plainer*largest) {
				t.Errorf("plainer pixels: %v of the largest value off, expected %v at most", off/largest, c.plainer)
			}
			for _, between := range []float32{0.05, 0.1, 0.3} { // the smallest calibrated deviation
				if off, largest := furthest(t, g, n, drawn(between)); c.twice && c.faint < between && !(off < max(2*c.most, 0.006)*largest) {
					t.Errorf("pixels of %v: %v of the largest value off, expected %v at most", between, off/largest, max(2*c.most, 0.006))
				}
			}
			if says := n.Norms(); (says != "") != c.says {
				t.Errorf("it says %q, expected something: %t", says, c.says)
			}
		})
	}
}

// Black images among the others change neither the form of a network nor its measured loss, in any order.
func TestNormBesideBlackImages(t *testing.T) {
	b := newNet(7, 12, 12, 3)
	x := b.conv(0, 16, 1, 1, func(n *graph.Node) { n.Bias = make([]float32, 16) })
	mean := b.conv(b.join(graph.Mul, x, x), 16, 1, 1, func(n *graph.Node) {
		n.Weights, n.Bias = slices.Repeat([]float32{1. / 16}, 16*16), make([]float32, 16)
		n.Function = &graph.Function{Name: "Pow", Alpha: -0.5, Of: []*graph.Function{{Name: "Line", Alpha: 1, Beta: 1e-6, Of: []*graph.Function{{Name: "Abs"}}}}}
	})
	b.g.Exits = append(b.g.Exits, graph.Exit{Name: "map", Tensor: b.join(graph.Mul, x, mean)})
	g := b.done(t)
	seen := b.images(8)
	for _, image := range seen {
		for i := range image {
			if image[i] = 0.6 + 0.4*image[i]; i < len(image)/2 {
				image[i] *= 0.02
			}
		}
	}
	for _, every := range []int{2, 8} { // of so many one is not black
		for first := range 2 {
			var images [][]float32
			for _, image := range seen {
				for k := range every {
					if images = append(images, make([]float32, len(image))); k == first {
						images[len(images)-1] = image
					}
				}
			}
			n, err := Quantise(g, images, Options{})
			if err != nil {
				t.Fatal(err)
			}
			off, largest := furthest(t, g, n, seen)
			loss, err := n.Measure(list(images), Images{}, nil, Options{})
			if err != nil || !(off < 0.006*largest) || !(loss.Exits["map"] > off/largest/2) {
				t.Errorf("image %d of %d: %v of the largest value off, measured %v: %v", first, every, off/largest, loss.Exits["map"], err)
			}
			if loss.Images != len(seen)+1 { // the form was chosen by a half of them
				t.Errorf("measured on %d images of %d that differ", loss.Images, len(seen)+1)
			}
		}
	}
}

func list(images [][]float32) Images {
	return Images{Count: len(images), Image: func(i int) ([]float32, error) { return images[i], nil }}
}

// furthest returns the largest error of an integer network, and the largest float value.
func furthest(t *testing.T, g *graph.Graph, n *Network, images [][]float32) (off, largest float64) {
	beside(t, g, n, images, func(float, integer float64) {
		largest, off = max(largest, math.Abs(float)), max(off, math.Abs(integer-float))
	})
	return off, largest
}

// Only 1 / Sqrt of a mean is a norm.
func TestNormIsNothingElse(t *testing.T) {
	abs := []*graph.Function{{Name: "Abs"}}
	line := []*graph.Function{{Name: "Line", Alpha: 1, Beta: 0.01, Of: abs}}
	for _, c := range []struct {
		f  *graph.Function
		is bool
	}{
		{&graph.Function{Name: "Pow", Alpha: -0.5, Of: line}, true},
		{&graph.Function{Name: "Pow", Alpha: -0.5, Of: []*graph.Function{{Name: "Clip", Alpha: 0.01, Beta: 200}}}, true},
		{&graph.Function{Name: "Pow", Alpha: -0.5, Of: []*graph.Function{{Name: "Clip", Alpha: 0.01, Beta: 50}}}, false},
		{&graph.Function{Name: "Pow", Alpha: -0.5, Of: abs}, false},
		{&graph.Function{Name: "Pow", Alpha: -1.5, Of: line}, false},
		{&graph.Function{Name: "Sigmoid"}, false},
		{&graph.Function{Name: "Tanh"}, false},
		{&graph.Function{Name: "Reciprocal", Of: line}, false},
	} {
		if _, is := rootOf(c.f, 1); is != c.is {
			t.Errorf("%s is a norm's: %t", c.f, !c.is)
		}
	}
	node := graph.Node{Op: graph.Conv, Groups: 1, Weights: slices.Repeat([]float32{0.25}, 16), Bias: make([]float32, 4), Residual: graph.None}
	if meanOf(&node) != 1 {
		t.Error("a mean is none")
	}
	for name, change := range map[string]func(*graph.Node){
		"weights": func(n *graph.Node) { n.Weights[5] = 0.2 }, "bias": func(n *graph.Node) { n.Bias[1] = 0.1 }, "residual": func(n *graph.Node) { n.Residual = 0 },
	} {
		n := node
		n.Weights, n.Bias = slices.Clone(node.Weights), slices.Clone(node.Bias)
		if change(&n); meanOf(&n) != 0 {
			t.Errorf("%s: it is a mean", name)
		}
	}
}

// The loss is measured against the imported network, even if another one is computed in its place.
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
		loss, err := n.Measure(list(images), Images{}, nil, Options{})
		if err != nil || loss.Exits["map"] < least || loss.Exits["map"] > least+0.5 {
			t.Errorf("measured %v, %v: expected %v or more", loss.Exits["map"], err, least)
		}
	}
}
