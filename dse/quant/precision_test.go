package quant

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-npu/sluice/dse/graph"
)

// plan builds graphs of a few layers; every method returns the tensor that it creates.
type plan struct {
	g   *graph.Graph
	rng *rand.Rand
}

func newPlan(h, w, c int) *plan {
	return &plan{
		&graph.Graph{Name: "net", Tensors: []graph.Tensor{{Name: "x", H: h, W: w, C: c}}},
		rand.New(rand.NewPCG(uint64(h), uint64(c))),
	}
}

func (b *plan) node(n graph.Node, h, w, c int) graph.TensorID {
	t := graph.TensorID(len(b.g.Tensors))
	n.Name, n.Output = string(rune('a'+len(b.g.Nodes))), t
	if n.Op != graph.Conv {
		n.Residual = graph.None
	}
	if n.ClampLo == 0 && n.ClampHi == 0 {
		n.ClampLo, n.ClampHi = float32(math.Inf(-1)), float32(math.Inf(1))
	}
	b.g.Tensors = append(b.g.Tensors, graph.Tensor{Name: "t" + n.Name, H: h, W: w, C: c})
	b.g.Nodes = append(b.g.Nodes, n)
	return t
}

// conv adds a convolution with weights and biases by output channel, each from -scale to scale, and a ReLU if relu is
// set.
func (b *plan) conv(x graph.TensorID, k, c int, relu bool, residual graph.TensorID, scale, bias func(c int) float64) graph.TensorID {
	in := b.g.Tensors[x]
	n := graph.Node{Op: graph.Conv, Inputs: []graph.TensorID{x}, Window: graph.Window{KH: k, KW: k, SH: 1, SW: 1}, Groups: 1, Residual: residual}
	for o := range c {
		for range k * k * in.C {
			n.Weights = append(n.Weights, float32((2*b.rng.Float64()-1)*scale(o)))
		}
		n.Bias = append(n.Bias, float32((2*b.rng.Float64()-1)*bias(o)))
	}
	if relu {
		n.ClampHi = float32(math.Inf(1))
	}
	return b.node(n, in.H-k+1, in.W-k+1, c)
}

func (b *plan) head(x graph.TensorID) *graph.Graph {
	in := b.g.Tensors[x]
	n := b.conv(x, in.H, 5, false, graph.None, all(0.1), all(0))
	b.g.Exits = []graph.Exit{{Name: "y", Tensor: n}}
	b.g.Segment = make([]int, len(b.g.Nodes))
	return b.g
}

func all(v float64) func(int) float64 { return func(int) float64 { return v } }

// apart quantises a graph on some images and returns the largest difference of a logit on other images, as a share of
// the largest logit.
func apart(t *testing.T, g *graph.Graph, o Options) (*Network, float64) {
	t.Helper()
	rng := rand.New(rand.NewPCG(7, 7))
	images := make([][]float32, 6)
	for i := range images {
		images[i] = make([]float32, g.Tensors[g.Input].Elems())
		for k := range images[i] {
			images[i][k] = 2*rng.Float32() - 1
		}
	}
	q, err := Quantise(g, images[:4], o)
	if err != nil {
		t.Fatal(err)
	}
	worst := 0.0
	for _, x := range images[4:] {
		want, err := graph.Run(g, x)
		if err != nil {
			t.Fatal(err)
		}
		in := make([]int16, len(x))
		q.Input(in, x)
		got := reference{n: q}.run(in)
		for k, tensor := range q.Run(in) {
			if !slices.Equal(tensor, got[k]) {
				t.Fatalf("tensor %d: Run and the reference differ", k)
			}
		}
		from, to := g.Exits[0].Tensor, q.Graph.Exits[0].Tensor
		most, off := 0.0, 0.0
		for i, v := range want[from] {
			most = max(most, math.Abs(float64(v)))
			off = max(off, math.Abs(float64(v)-q.Value(to, got[to][i])))
		}
		worst = max(worst, off/most)
	}
	return q, worst
}

// joined is a graph whose branches have different ranges and meet; their readers give them the same scale.
func joined(ratio float64, between func(b *plan, t graph.TensorID) graph.TensorID) *graph.Graph {
	b := newPlan(6, 6, 3)
	large := b.conv(0, 1, 4, true, graph.None, all(1), all(0.5))
	small := b.conv(0, 1, 4, true, graph.None, all(ratio), all(ratio/2))
	j := b.node(graph.Node{Op: graph.Concat, Inputs: []graph.TensorID{large, small}}, 6, 6, 8)
	j = between(b, j)
	in := b.g.Tensors[j]
	j = b.conv(j, 1, 6, true, graph.None, all(1), all(0.1))
	for i, w := range b.g.Nodes[len(b.g.Nodes)-1].Weights {
		if i%in.C >= 4 && i%in.C < 8 {
			b.g.Nodes[len(b.g.Nodes)-1].Weights[i] = w / float32(ratio)
		}
	}
	return b.head(j)
}

// uneven are ranges from 1 to 1/4096.
func uneven(c int) float64 { return math.Ldexp(1, -3*c) }

// stream has blocks that add to channels of uneven ranges; every reader makes them alike.
func stream(blocks int, add func(b *plan, x, y graph.TensorID) graph.TensorID) *graph.Graph {
	b := newPlan(5, 5, 3)
	alike := func(t graph.TensorID, c int) graph.TensorID {
		t = b.conv(t, 1, c, true, graph.None, all(1), all(0.1))
		n := &b.g.Nodes[len(b.g.Nodes)-1]
		for i := range n.Weights {
			n.Weights[i] *= float32(math.Ldexp(1, 3*(i%5)))
		}
		return t
	}
	x := b.conv(0, 3, 5, true, graph.None, uneven, uneven)
	for range blocks {
		x = add(b, x, alike(x, 4))
	}
	return b.head(alike(x, 6))
}

// TestPrecision: precision that one scale per tensor and a worst-case proof would lose is kept.
func TestPrecision(t *testing.T) {
	relu := float32(math.Inf(1))
	pool := func(op graph.Op) func(*plan, graph.TensorID) graph.TensorID {
		return func(b *plan, x graph.TensorID) graph.TensorID {
			return b.node(graph.Node{Op: op, Inputs: []graph.TensorID{x}, Window: graph.Window{KH: 2, KW: 2, SH: 2, SW: 2}, ClampHi: relu}, 3, 3, 8)
		}
	}
	channels := func() *graph.Graph { // channels of one layer
		b := newPlan(5, 5, 3)
		x := b.conv(0, 3, 5, true, graph.None, uneven, uneven)
		x = b.conv(x, 1, 6, false, graph.None, all(1), all(0))
		n := &b.g.Nodes[1]
		for i := range n.Weights {
			n.Weights[i] *= float32(math.Ldexp(1, 3*(i%5)))
		}
		return b.head(x)
	}
	for _, c := range []struct {
		name string
		g    *graph.Graph
		most float64
	}{
		{"ranges 1 to 1/100", joined(1e-2, func(_ *plan, t graph.TensorID) graph.TensorID { return t }), 1e-3},
		{"ranges 1 to 1/10000", joined(1e-4, func(_ *plan, t graph.TensorID) graph.TensorID { return t }), 1e-3},
		{"through a max pool", joined(1e-4, pool(graph.MaxPool)), 1e-3},
		{"through an average pool", joined(1e-4, pool(graph.AvgPool)), 1e-3},
		{"through a second concatenation", joined(1e-4, func(b *plan, x graph.TensorID) graph.TensorID {
			y := b.conv(0, 1, 2, true, graph.None, all(1), all(0))
			return b.node(graph.Node{Op: graph.Concat, Inputs: []graph.TensorID{x, y}}, 6, 6, 10)
		}), 1e-3},
		{"beside a channel that is always zero", func() *graph.Graph {
			g := joined(1e-4, func(_ *plan, t graph.TensorID) graph.TensorID { return t })
			g.Nodes[1].Bias[2] = -1e-3
			return g
		}(), 1e-3},
		{"channels of one layer", channels(), 1e-3},
		{"channels of a residual", stream(1, func(b *plan, x, y graph.TensorID) graph.TensorID {
			return b.conv(y, 1, 5, false, x, uneven, all(0))
		}), 2e-3}, // 23 % with one scale
		{"through three residuals", stream(3, func(b *plan, x, y graph.TensorID) graph.TensorID {
			return b.conv(y, 1, 5, true, x, uneven, all(0))
		}), 2e-3}, // 35 %
		{"through a sum", stream(2, func(b *plan, x, y graph.TensorID) graph.TensorID {
			z := b.conv(y, 1, 5, true, graph.None, uneven, all(0))
			return b.node(graph.Node{Op: graph.Add, Inputs: []graph.TensorID{x, z}}, b.g.Tensors[x].H, b.g.Tensors[x].W, 5)
		}), 1e-2}, // 21 %; a row that is no finer than the layer's largest cannot be scaled
		{"through the larger of two maps", stream(2, func(b *plan, x, y graph.TensorID) graph.TensorID {
			z := b.conv(y, 1, 5, false, graph.None, uneven, all(0))
			h, w := b.g.Tensors[x].H, b.g.Tensors[x].W
			turned := b.node(graph.Node{
				Op: graph.Conv, Inputs: []graph.TensorID{x}, Window: graph.Window{KH: 1, KW: 1, SH: 1, SW: 1}, Groups: 5, Residual: graph.None,
				Weights: []float32{-1, -1, -1, -1, -1}, Bias: make([]float32, 5), ClampLo: float32(math.Inf(-1)), ClampHi: relu,
			}, h, w, 5)
			d := b.node(graph.Node{Op: graph.Add, Inputs: []graph.TensorID{z, turned}, ClampHi: relu}, h, w, 5)
			return b.node(graph.Node{Op: graph.Add, Inputs: []graph.TensorID{x, d}, ClampLo: float32(math.Inf(-1)), ClampHi: relu}, h, w, 5)
		}), 5e-3}, // 27 % where the layer that turns x held its channels
		{"small weights beside a bias", besideBias(2, 1e-6), 1e-3},
		{"weights that a bias leaves five bits", besideBias(2, 1e-4), 3e-4},
		{"weights that a bias leaves two bits", besideBias(2, 1e-5), 3e-4},
		{"many small weights beside a bias", besideBias(200, 2e-5), 3e-4},
		{"small weights beside a residual", func() *graph.Graph {
			b := newPlan(6, 6, 3)
			x := b.conv(0, 1, 4, false, graph.None, all(1), all(0.1))
			y := b.conv(x, 1, 4, true, graph.None, all(1), all(0.1))
			return b.head(b.conv(y, 1, 4, false, x, all(1e-5), all(1e-5)))
		}(), 1e-3},
		{"values that fade to 1e-20", scaledBy(1e-2), 1e-3}, // nothing is left where a tensor has 24 fraction bits at most
		{"values that grow to 1e20", scaledBy(1e2), 1e-3},
		{"a sum of 16384", newPlan(32, 32, 16).head(0), 5e-4},
		{"a sum of 65536", newPlan(64, 64, 16).head(0), 5e-4},
		{"a long sum of positive numbers", func() *graph.Graph {
			b := newPlan(48, 48, 3)
			return b.head(b.conv(0, 1, 16, true, graph.None, all(1), all(0.1)))
		}(), 5e-4},
	} {
		t.Run(c.name, func(t *testing.T) {
			q, off := apart(t, c.g, Options{})
			if !(off < c.most) {
				t.Errorf("%.4f %% of the largest logit off, expected less than %.4f %%", 100*off, 100*c.most)
			}
			if err := q.Graph.Check(); err != nil {
				t.Error(err)
			}
			t.Logf("%.4f %%", 100*off)
		})
	}
}

// scaledBy returns a chain of ten layers, each of which multiplies by about the given factor.
func scaledBy(by float64) *graph.Graph {
	b := newPlan(6, 6, 3)
	x, bias := graph.TensorID(0), 1.0
	for range 10 {
		bias *= by
		x = b.conv(x, 1, 6, true, graph.None, all(by), all(bias/10))
	}
	return b.head(x)
}

// besideBias returns a 3 x 3 layer over the given number of channels, with a bias of 5.
func besideBias(channels int, weight float64) *graph.Graph {
	b := newPlan(6, 6, 3)
	x := b.conv(0, 1, channels, false, graph.None, all(1), all(0.1))
	return b.head(b.conv(x, 3, 4, true, graph.None, all(weight), all(5)))
}

// TestMeasure: a remaining loss is reported with the tensor and its channels; without loss nothing is reported.
func TestMeasure(t *testing.T) {
	straight := func(_ *plan, x graph.TensorID) graph.TensorID { return x }
	sound, _ := apart(t, joined(0.5, straight), Options{})
	g := joined(1e-4, straight)
	g.Nodes[1].Function = &graph.Function{Name: "LeakyRelu"} // prevents the scaling of its channels
	lossy, off := apart(t, g, Options{})
	inputs := func(scale float32) func(int) ([]float32, error) {
		return func(i int) ([]float32, error) {
			rng := rand.New(rand.NewPCG(9, uint64(i)))
			x := make([]float32, 6*6*3)
			for k := range x {
				x[k] = scale * (2*rng.Float32() - 1)
			}
			return x, nil
		}
	}
	l, err := sound.Measure(Images{Count: 80, Image: inputs(1)}, Images{}, nil, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if l.Warning() != "" || len(l.Saturated) != 0 || l.Images != measureFast {
		t.Errorf("%q, %v, %d images", l.Warning(), l.Saturated, l.Images)
	}
	if l, err = lossy.Measure(Images{Count: 2, Image: inputs(1)}, Images{Count: 1, Image: inputs(1.1)}, nil, Options{}); err != nil || !strings.Contains(l.Warning(), "on 3 images, 1 of which calibration did not see") {
		t.Errorf("%q: %v", l.Warning(), err)
	}
	if l, err = lossy.Measure(Images{Count: 3, Image: inputs(1)}, Images{}, nil, Options{}); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{`exit "y"`, "on 3 calibration images", `tensor that far off is "tb" (layer "b")`, "channels 0, 1, 2, 3", "of 15 bits"} {
		if !strings.Contains(l.Warning(), part) {
			t.Errorf("%q does not say %q (%.2f %% off)", l.Warning(), part, 100*off)
		}
	}
	if w := (&Loss{Exits: map[string]float64{"y": 0.01}, Images: 3, Layers: []Kept{{}}}).Warning(); !strings.Contains(w, "no tensor is that far off") {
		t.Errorf("without a tensor at fault: %q", w)
	}
	if k := l.Layers[1]; k.TensorBits > 5 || k.Error < 0.01 || len(k.Lossy) != 4 || *k.WeightBits < 14 {
		t.Errorf("%+v", k)
	}
	if l, err = sound.Measure(Images{Count: 2, Image: inputs(3)}, Images{}, nil, Options{}); err != nil || l.Saturated["x"] < 0.3 || l.Saturated["ta"] == 0 {
		t.Errorf("inputs three times as large: %v, %v", l, err)
	}
}

// The loss is measured on calibration images and on others, always on the usual number of images: also if there are few
// of one kind, or if some images chose the network's form. Copies of calibration images do not count as unseen.
func TestBeside(t *testing.T) {
	numbers := func(from, count int) Images {
		return Images{Count: count, Image: func(i int) ([]float32, error) { return []float32{float32(from + i)}, nil }}
	}
	for _, c := range []struct{ own, left, copies, besides, most, count, unseen int }{
		{own: 12, most: 8, count: 8},
		{own: 12, most: 16, count: 12},
		{own: 12, besides: 6, most: 16, count: 12},
		{own: 12, besides: 6, most: 6, count: 6},
		{own: 4, besides: 4, most: 64, count: 4},
		{own: 512, left: 1, most: 64, count: 64, unseen: 1},
		{own: 12, left: 100, most: 16, count: 16, unseen: 8},
		{own: 4, left: 100, most: 16, count: 16, unseen: 12},
		{own: 12, left: 100, most: 1, count: 2, unseen: 1},
		{own: 12, left: 9, copies: 7, most: 16, count: 14, unseen: 2},
		{own: 100, left: 9, copies: 9, most: 16, count: 16},
	} {
		var besides []int
		for i := range c.besides {
			besides = append(besides, i)
		}
		both, unseen, err := numbers(0, c.own).Beside(numbers(c.own-c.copies, c.left), c.most, besides, func(x []float32) bool { return int(x[0]) < c.own })
		if err != nil || both.Count != c.count || unseen != c.unseen {
			t.Errorf("%+v: %d images, %d unseen: %v", c, both.Count, unseen, err)
			continue
		}
		found := map[int]bool{}
		for k := range both.Count {
			x, err := both.Image(k)
			if err != nil || (int(x[0]) >= c.own) != (k < unseen) || found[int(x[0])] {
				t.Errorf("%+v: image %d is number %v: %v", c, k, x, err)
			}
			if found[int(x[0])] = true; int(x[0]) < c.besides && c.own-c.besides >= c.count {
				t.Errorf("%+v: image %v, though there are others", c, x)
			}
		}
	}
}

// A clamp at a number is scaled with its branch, whether values reach it or not: branches of different ranges are
// joined equally well with and without clamps.
func TestPrecisionOfClampedBranches(t *testing.T) {
	for _, ratio := range []float64{1e-2, 1e-4} {
		for name, clamps := range map[string][2]float64{
			"reached":              {1, ratio},
			"never reached":        {6, 6},
			"one of them":          {1, math.Inf(1)},
			"the small one's":      {math.Inf(1), ratio / 2},
			"both ends of a clamp": {-1, -ratio},
		} {
			for between, f := range map[string]func(b *plan, t graph.TensorID) graph.TensorID{
				"joined": func(_ *plan, t graph.TensorID) graph.TensorID { return t },
				"pooled": func(b *plan, t graph.TensorID) graph.TensorID {
					return b.node(graph.Node{Op: graph.MaxPool, Inputs: []graph.TensorID{t}, Window: graph.Window{KH: 2, KW: 2, SH: 2, SW: 2}}, 3, 3, 8)
				},
			} {
				g := joined(ratio, f)
				for i, most := range clamps {
					node := &g.Nodes[i]
					if node.ClampHi = float32(math.Abs(most)); most < 0 {
						node.ClampLo = float32(most)
					}
				}
				_, off := apart(t, g, Options{})
				if !(off < 0.002) {
					t.Errorf("ratio %v, %s, clamps %s: %.4f of the largest logit off", ratio, between, name, off)
				}
			}
		}
	}
}

// A sum of residuals with channels of different ranges keeps their precision after a clamp that the small channels do
// not reach.
func TestPrecisionOfClampedSums(t *testing.T) {
	const ratio = 1e-4
	for name, c := range map[string][2]float64{
		"ReLU6": {0, 6}, "reached by the large ones": {0, 0.5}, "both ends": {-1, 1},
	} {
		b := newNet(11, 6, 6, 3)
		unlike := func(n *graph.Node) {
			n.Weights, n.Bias = b.random(8*3, 0.5), make([]float32, 8)
			for i := range n.Weights {
				if i >= 4*3 {
					n.Weights[i] *= ratio
				}
			}
		}
		first := b.conv(0, 8, 1, 1, unlike)
		sum := b.conv(0, 8, 1, 1, func(n *graph.Node) {
			unlike(n)
			n.Residual, n.ClampLo, n.ClampHi = first, float32(c[0]), float32(c[1])
		})
		out := b.conv(sum, 5, 1, 1, func(n *graph.Node) {
			n.Weights, n.Bias = b.random(5*8, 0.5), make([]float32, 5)
			for i := range n.Weights {
				if i%8 >= 4 {
					n.Weights[i] /= ratio
				}
			}
		})
		b.g.Exits = append(b.g.Exits, graph.Exit{Name: "map", Tensor: out})
		_, off := apart(t, b.done(t), Options{})
		if !(off < 0.002) { // 0.3 to 0.5 if they are scaled with the clamp
			t.Errorf("%s: %.4f of the largest value off", name, off)
		}
	}
}
