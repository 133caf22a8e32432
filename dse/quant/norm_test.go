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
	for _, c := range []struct {
		name  string
		faint float32 // of half the pixels
		twice bool
		most  float64 // share of the largest value
	}{
		{"plain and textured", 0.02, true, 0.01}, // 0.8 with one norm
		{"alike", 1, false, 0.004},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newNet(7, 12, 12, 3)
			x := b.conv(0, channels, 1, 1, func(n *graph.Node) { n.Bias = make([]float32, channels) })
			squares := b.join(graph.Mul, x, x)
			root := b.conv(squares, channels, 1, 1, func(n *graph.Node) {
				n.Weights, n.Bias = slices.Repeat([]float32{1. / channels}, channels*channels), make([]float32, channels)
				n.Function = &graph.Function{Name: "Pow", Alpha: -0.5, Of: []*graph.Function{{Name: "Line", Alpha: 1, Beta: 1e-6, Of: []*graph.Function{{Name: "Abs"}}}}}
			})
			out := b.join(graph.Mul, x, root)
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
			for _, image := range images {
				want, err := graph.Run(g, image)
				if err != nil {
					t.Fatal(err)
				}
				in := make([]int16, len(image))
				n.Input(in, image)
				for k, v := range n.Run(in)[n.Graph.Exits[0].Tensor] {
					f := float64(want[out][k])
					largest, off = max(largest, math.Abs(f)), max(off, math.Abs(n.Value(n.Graph.Exits[0].Tensor, v)-f))
				}
			}
			t.Logf("%.4f of the largest value off", off/largest)
			if !(off < c.most*largest) {
				t.Errorf("%v of the largest value off, expected %v at most", off/largest, c.most)
			}
		})
	}
}
