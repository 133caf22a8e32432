package alias

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/sluice-npu/sluice/dse/graph"
	"github.com/sluice-npu/sluice/dse/zoo"
)

var inf = float32(math.Inf(1))

// net builds graphs without weights; every method returns the tensor that it creates.
type net struct{ g *graph.Graph }

func newNet(c int) net {
	return net{&graph.Graph{Tensors: []graph.Tensor{{Name: "input", H: 4, W: 4, C: c}}}}
}

func (b net) node(n graph.Node, h, w, c int) graph.TensorID {
	n.Output = graph.TensorID(len(b.g.Tensors))
	n.Name = fmt.Sprintf("n%d", len(b.g.Nodes))
	b.g.Tensors = append(b.g.Tensors, graph.Tensor{Name: n.Name, H: h, W: w, C: c})
	b.g.Nodes = append(b.g.Nodes, n)
	return n.Output
}

// conv adds a convolution of c channels with a ReLU; change may modify it.
func (b net) conv(in graph.TensorID, c, k int, change func(*graph.Node)) graph.TensorID {
	t := b.g.Tensors[in]
	n := graph.Node{
		Op: graph.Conv, Inputs: []graph.TensorID{in}, Groups: 1, Residual: graph.None, ClampHi: inf,
		Window: graph.Window{KH: k, KW: k, SH: 1, SW: 1, PT: k / 2, PL: k / 2, PB: k / 2, PR: k / 2},
	}
	if change != nil {
		change(&n)
	}
	n.Weights, n.Bias = make([]float32, c*n.Window.KH*n.Window.KW*t.C/n.Groups), make([]float32, c)
	return b.node(n, t.H, t.W, c)
}

func (b net) concat(ts ...graph.TensorID) graph.TensorID {
	t, c := b.g.Tensors[ts[0]], 0
	for _, t := range ts {
		c += b.g.Tensors[t].C
	}
	return b.node(graph.Node{Op: graph.Concat, Inputs: ts, Residual: graph.None, ClampLo: -inf, ClampHi: inf}, t.H, t.W, c)
}

func (b net) exit(in graph.TensorID) {
	t := b.g.Tensors[in]
	out := b.node(graph.Node{
		Op: graph.Conv, Inputs: []graph.TensorID{in}, Groups: 1, Residual: graph.None, ClampLo: -inf, ClampHi: inf,
		Window:  graph.Window{KH: t.H, KW: t.W, SH: 1, SW: 1},
		Weights: make([]float32, 2*t.Elems()), Bias: make([]float32, 2),
	}, 1, 1, 2)
	b.g.Exits = append(b.g.Exits, graph.Exit{Name: fmt.Sprintf("e%d", len(b.g.Exits)), Tensor: out})
}

func (b net) plan(t interface {
	Helper()
	Fatal(args ...any)
},
) *Plan {
	t.Helper()
	if err := b.g.Arrange(); err != nil {
		t.Fatal(err)
	}
	if err := b.g.Check(); err != nil {
		t.Fatal(err)
	}
	return Of(b.g)
}

// merged names the nodes of the layers that consist of several nodes.
func (b net) merged(p *Plan) []string {
	var out []string
	for _, nodes := range p.Merged {
		s := ""
		for _, n := range nodes {
			s += b.g.Nodes[n].Name + " "
		}
		out = append(out, s[:len(s)-1])
	}
	return out
}

// block is a block of GoogLeNet, with its 1x1 convolution at a given place in the concatenation.
func block(b net, in graph.TensorID, at int) graph.TensorID {
	parts := []graph.TensorID{b.conv(b.conv(in, 3, 1, nil), 5, 3, nil), b.conv(b.conv(in, 2, 1, nil), 6, 5, nil)}
	return b.concat(slices.Insert(parts, at, b.conv(in, 4, 1, nil))...)
}

// A block's reduces and its 1x1 convolution become one layer, whose outputs lie beside the concatenation.
func TestBlock(t *testing.T) {
	for _, c := range []struct {
		at     int
		merged []string
		width  int
		views  map[string]int // first channel of a node's output
	}{
		{0, []string{"n0 n2 n4"}, 20, map[string]int{"n0": 0, "n2": 3, "n4": 5, "n1": 9, "n3": 14, "n5": 5}},
		{2, []string{"n4 n0 n2"}, 20, map[string]int{"n1": 0, "n3": 5, "n4": 11, "n0": 15, "n2": 18, "n5": 0}},
		{1, []string{"n0 n2"}, 15, map[string]int{"n1": 0, "n4": 5, "n3": 9, "n5": 0}}, // it lies between others: only the reduces are merged
	} {
		b := newNet(7)
		b.exit(block(b, 0, c.at))
		p := b.plan(t)
		if diff := cmp.Diff(c.merged, b.merged(p)); diff != "" {
			t.Errorf("at %d (-want +got):\n%s", c.at, diff)
		}
		for n := range b.g.Nodes {
			node := &b.g.Nodes[n]
			want, ok := c.views[node.Name]
			if v := p.Views[node.Output]; ok && (v.Channel != want || p.Pix(node.Output) != c.width) {
				t.Errorf("at %d: %s lies at %+v in pixels of %d, want channel %d of %d", c.at, node.Name, v, p.Pix(node.Output), want, c.width)
			}
			if nodes, stands := p.Layer(n); stands != (n == slices.Min(nodes)) || !slices.Contains(nodes, n) {
				t.Errorf("at %d: %s is of %v, stands for it: %t", c.at, node.Name, nodes, stands)
			}
		}
		if first, _ := p.Layer(0); Name(b.g, first) != fmt.Sprintf("n0+%d", len(first)-1) {
			t.Errorf("at %d: the layer is called %q", c.at, Name(b.g, first))
		}
	}
}

// Convolutions that differ in anything but their numbers are not merged.
func TestNotAlike(t *testing.T) {
	pair := func(change func(*graph.Node)) func(net) {
		return func(b net) {
			b.exit(b.concat(b.conv(b.conv(0, 4, 1, nil), 3, 3, nil), b.conv(b.conv(0, 4, 1, change), 3, 3, nil)))
		}
	}
	for _, c := range []struct {
		name  string
		build func(net)
		want  []string
	}{
		{"the same", pair(nil), []string{"n0 n2"}},
		{"kernel", pair(func(n *graph.Node) { n.Window = graph.Window{KH: 1, KW: 3, SH: 1, SW: 1, PL: 1, PR: 1} }), nil},
		{"padding", pair(func(n *graph.Node) { n.Window = graph.Window{KH: 2, KW: 1, SH: 1, SW: 1, PT: 1} }), nil},
		{"groups", pair(func(n *graph.Node) { n.Groups = 2 }), nil},
		{"residual", pair(func(n *graph.Node) { n.Residual = 0 }), nil},
		{"clamp", pair(func(n *graph.Node) { n.ClampLo = -inf }), nil},
		{"other tensors", func(b net) {
			x := b.conv(0, 4, 3, nil)
			b.exit(b.concat(b.conv(0, 4, 1, nil), b.conv(x, 4, 1, nil)))
		}, nil},
		{"two that clamp to a number, which is another integer on another scale", func(b net) {
			six := func(n *graph.Node) { n.ClampHi = 6 }
			b.exit(b.concat(b.conv(b.conv(0, 4, 1, six), 3, 3, nil), b.conv(b.conv(0, 4, 1, six), 3, 3, nil)))
		}, nil},
		{"the next segment", func(b net) {
			b.exit(b.conv(b.conv(0, 4, 1, nil), 4, 3, nil))
			b.exit(b.conv(b.conv(0, 4, 1, nil), 3, 3, nil))
		}, nil},
		{"a head", func(b net) {
			a, c := b.conv(0, 4, 1, nil), b.conv(0, 4, 1, nil)
			b.exit(b.concat(a, c))
			b.exit(b.conv(a, 3, 3, nil))
		}, nil},
		{"logits, and what lies with them", func(b net) {
			b.g.Tensors[0].H, b.g.Tensors[0].W = 1, 1
			a, c, d := b.conv(0, 4, 1, nil), b.conv(0, 4, 1, nil), b.conv(0, 2, 1, nil)
			b.g.Exits = append(b.g.Exits, graph.Exit{Name: "joined", Tensor: b.concat(a, c, b.conv(d, 2, 1, nil))})
		}, nil},
		{"wider than a descriptor can say", func(b net) { // only the reduces are merged
			a, c := b.conv(0, 300, 1, nil), b.conv(0, 300, 1, nil)
			b.exit(b.concat(b.conv(0, 65000, 1, nil), b.conv(a, 1, 3, nil), b.conv(c, 1, 3, nil)))
		}, []string{"n0 n1"}},
		{"part of two concatenations", func(b net) { // it lies in the first and is copied to the second
			a, c := b.conv(0, 4, 1, nil), b.conv(0, 5, 1, nil)
			b.exit(b.concat(b.concat(a, c), b.concat(c, b.conv(0, 3, 3, nil))))
		}, []string{"n0 n1"}},
	} {
		b := newNet(4)
		c.build(b)
		if diff := cmp.Diff(c.want, b.merged(b.plan(t))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

// On random graphs: merged convolutions are alike and adjacent, concatenations contain their inputs, and no other
// tensors share a channel.
func TestRandom(t *testing.T) {
	layers := 0
	rapid.Check(t, func(t *rapid.T) {
		chance := func(n int) bool { return rapid.IntRange(1, n).Draw(t, "chance") > 1 }
		b := newNet(rapid.IntRange(1, 5).Draw(t, "channels"))
		clamps := []float32{0, -inf, -1}
		at := b.conv(0, 3, 3, nil)
		for range rapid.IntRange(1, 4).Draw(t, "blocks") {
			tensors := []graph.TensorID{at}
			for range rapid.IntRange(1, 8).Draw(t, "convolutions") {
				in := at
				if !chance(3) {
					in = rapid.SampledFrom(tensors).Draw(t, "in")
				}
				k := rapid.SampledFrom([]int{1, 1, 1, 3}).Draw(t, "kernel")
				tensors = append(tensors, b.conv(in, rapid.IntRange(1, 6).Draw(t, "width"), k, func(n *graph.Node) {
					n.ClampLo = clamps[max(0, rapid.IntRange(-4, 2).Draw(t, "clamp"))]
				}))
			}
			join := slices.DeleteFunc(tensors, func(t graph.TensorID) bool {
				read := slices.ContainsFunc(b.g.Nodes, func(n graph.Node) bool { return slices.Contains(n.Reads(), t) })
				return read && chance(4)
			})
			join = rapid.Permutation(join).Draw(t, "joined")
			if at = join[0]; len(join) > 1 {
				at = b.concat(join...)
			}
			if !chance(4) {
				at = b.concat(at, b.conv(0, 2, 1, nil))
			}
			if !chance(4) {
				b.exit(at)
				at = b.conv(at, 3, 3, nil)
			}
		}
		b.exit(at)
		p := b.plan(t)
		layers += len(p.Merged)
		check(t, b.g, p)
	})
	t.Logf("%d layers of several nodes", layers)
	if layers < 20 {
		t.Errorf("only %d layers of several nodes", layers)
	}
}

func check(t *rapid.T, g *graph.Graph, p *Plan) {
	head := g.Head()
	seen := map[int]bool{}
	for _, nodes := range p.Merged {
		a := &g.Nodes[nodes[0]]
		v := p.Views[a.Output]
		for _, n := range nodes {
			b := &g.Nodes[n]
			if seen[n] || len(nodes) < 2 || b.Op != graph.Conv || b.Inputs[0] != a.Inputs[0] || b.Window != a.Window ||
				b.ClampLo != a.ClampLo || b.ClampHi != a.ClampHi || g.Segment[n] != g.Segment[nodes[0]] || head[n] != head[nodes[0]] {
				t.Fatalf("%v are one layer, but %s is not like %s", nodes, b.Name, a.Name)
			}
			seen[n] = true
			if p.Views[b.Output] != v {
				t.Fatalf("%s lies at %+v, not at %+v beside the others of %v", b.Name, p.Views[b.Output], v, nodes)
			}
			v.Channel += g.Tensors[b.Output].C
		}
	}
	used := map[View]string{} // node that writes a channel
	write := func(name string, v View, channels int) {
		for c := range channels {
			at := View{v.Root, v.Channel + c}
			if other, twice := used[at]; twice {
				t.Fatalf("%s and %s both write %+v", other, name, at)
			}
			if used[at] = name; at.Channel < 0 || at.Channel >= p.Width[at.Root] {
				t.Fatalf("%s writes %+v, there are %d channels", name, at, p.Width[at.Root])
			}
		}
	}
	write("the input", p.Views[g.Input], g.Tensors[g.Input].C)
	for n := range g.Nodes {
		node := &g.Nodes[n]
		v := p.Views[node.Output]
		if node.Op != graph.Concat {
			write(node.Name, v, g.Tensors[node.Output].C)
			continue
		}
		for i, in := range node.Inputs {
			if p.Copied[Edge{n, i}] {
				write(node.Name, v, g.Tensors[in].C)
			} else if p.Views[in] != v {
				t.Fatalf("input %d of %s lies at %+v, not at %+v", i, node.Name, p.Views[in], v)
			}
			v.Channel += g.Tensors[in].C
		}
	}
	whole := 0
	for _, w := range p.Width {
		whole += w
	}
	if whole != len(used) {
		t.Fatalf("%d channels are placed, %d written", whole, len(used))
	}
}

// The merged layers of the zoo's networks.
func TestZoo(t *testing.T) {
	for name, want := range map[string]int{"inceptionv3": 10, "resnet50": 0, "mobilenetv2": 0, "fashion": 0, "mobile": 0, "tiny": 0} {
		g, err := zoo.Load(name, 1)
		if err != nil {
			t.Fatal(err)
		}
		if p := Of(g); len(p.Merged) != want {
			t.Errorf("%s: %d layers of several convolutions, want %d", name, len(p.Merged), want)
		}
	}
}
