package compile

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/dse/cost"
	"github.com/sluice-npu/sluice/dse/graph"
	"github.com/sluice-npu/sluice/dse/lower"
	"github.com/sluice-npu/sluice/dse/machine"
	"github.com/sluice-npu/sluice/dse/mapping"
	"github.com/sluice-npu/sluice/dse/quant"
	"github.com/sluice-npu/sluice/dse/zoo"
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
)

func design(t testing.TB, name string) configs.Design {
	t.Helper()
	d, err := configs.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// net builds quantised graphs with zero weights: only shapes matter here.
type net struct{ q *quant.Network }

func newNet(h, w, c int) *net {
	n := &net{&quant.Network{Graph: &graph.Graph{Name: "test"}}}
	n.q.Graph.Input = n.tensor(h, w, c)
	return n
}

func (n *net) tensor(h, w, c int) graph.TensorID {
	g := n.q.Graph
	g.Tensors = append(g.Tensors, graph.Tensor{Name: "t", H: h, W: w, C: c})
	n.q.Frac = append(n.q.Frac, 8)
	return graph.TensorID(len(g.Tensors) - 1)
}

func (n *net) add(name string, node graph.Node, l quant.Layer) graph.TensorID {
	node.Name = name
	node.ClampLo, node.ClampHi = float32(math.Inf(-1)), float32(math.Inf(1))
	l.ClampLo, l.ClampHi = math.MinInt16, math.MaxInt16
	g := n.q.Graph
	g.Nodes, g.Segment = append(g.Nodes, node), append(g.Segment, len(g.Exits))
	n.q.Layers = append(n.q.Layers, l)
	return node.Output
}

// conv adds a convolution that keeps the size, with a kernel of 1 or 3.
func (n *net) conv(name string, in graph.TensorID, cout, k, groups int, res graph.TensorID) graph.TensorID {
	x := n.q.Graph.Tensors[in]
	weights := cout * k * k * x.C / groups
	return n.add(name, graph.Node{
		Op: graph.Conv, Inputs: []graph.TensorID{in}, Output: n.tensor(x.H, x.W, cout), Groups: groups, Residual: res,
		Window:  graph.Window{KH: k, KW: k, SH: 1, SW: 1, PT: k / 2, PL: k / 2, PB: k / 2, PR: k / 2},
		Weights: make([]float32, weights), Bias: make([]float32, cout),
	}, quant.Layer{Weights: make([]int16, weights), Bias: make([]int32, cout)})
}

func (n *net) concat(name string, parts ...graph.TensorID) graph.TensorID {
	g := n.q.Graph
	c := 0
	for _, p := range parts {
		c += g.Tensors[p].C
	}
	x := g.Tensors[parts[0]]
	return n.add(name, graph.Node{Op: graph.Concat, Inputs: parts, Output: n.tensor(x.H, x.W, c), Residual: graph.None}, quant.Layer{})
}

func (n *net) exit(in graph.TensorID) {
	x := n.q.Graph.Tensors[in]
	weights := 4 * x.Elems()
	out := n.add("exit", graph.Node{
		Op: graph.Conv, Inputs: []graph.TensorID{in}, Output: n.tensor(1, 1, 4), Groups: 1, Residual: graph.None,
		Window:  graph.Window{KH: x.H, KW: x.W, SH: 1, SW: 1},
		Weights: make([]float32, weights), Bias: make([]float32, 4),
	}, quant.Layer{Weights: make([]int16, weights), Bias: make([]int32, 4)})
	g := n.q.Graph
	g.Exits = append(g.Exits, graph.Exit{Name: string(rune('a' + len(g.Exits))), Tensor: out})
}

func (n *net) compile(t *testing.T, d configs.Design) *bundle.Bundle {
	t.Helper()
	b, err := Compile(n.q, d, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func names(b *bundle.Bundle) string { return strings.Join(b.Names, " ") }

// The parts of a concatenation are written in place; parts for which that is impossible are copied.
func TestConcat(t *testing.T) {
	n := newNet(4, 4, 6)
	a := n.conv("a", n.q.Graph.Input, 8, 3, 1, graph.None)
	b := n.conv("b", a, 10, 1, 1, graph.None)
	c := n.concat("c", a, b, n.q.Graph.Input)
	e := n.concat("e", b, c)
	n.exit(e)
	got := n.compile(t, design(t, "run"))
	if want := "a b c.copy2 e.copy0 exit"; names(got) != want {
		t.Fatalf("layers %q, want %q", names(got), want)
	}
	whole := got.Slot.Tensors[e]
	if whole.C != 34 || whole.Pix != 34 {
		t.Fatalf("the outer concatenation is %+v", whole)
	}
	// e = b, (a, b, input): c begins at channel 10, a at channel 0, b after a.
	for _, x := range []struct {
		t       graph.TensorID
		channel int
	}{{c, 10}, {a, 10}, {b, 18}} {
		if p := got.Slot.Tensors[x.t]; p.Pix != 34 || p.Offset != whole.Offset+2*x.channel {
			t.Errorf("tensor %d lies at %d with %d to a pixel, want %d with 34", x.t, p.Offset, p.Pix, whole.Offset+2*x.channel)
		}
	}
	if l := got.Layers[1]; int(l.InOffset) != whole.Offset+20 || l.InPix != 34 || l.InC != 8 || int(l.OutOffset) != whole.Offset+36 || l.OutPix != 34 {
		t.Errorf("layer b reads and writes elsewhere: %+v", l)
	}
}

// Convolutions of one tensor become one layer, whose output is one range of channels in the pixels of the
// concatenation. If shifts or clamps differ, adjacent convolutions with equal values are merged.
func TestSiblings(t *testing.T) {
	d := design(t, "run") // C_MAX = 512
	for _, c := range []struct {
		name string
		edit func(q *quant.Network)
		want string
	}{
		{"alike", func(*quant.Network) {}, "in one+2 a3 b3 exit"},
		{"another shift", func(q *quant.Network) { q.Layers[2].Shift, q.Layers[2].WFrac = 1, 1 }, "in one a b a3 b3 exit"},
		{"neighbours", func(q *quant.Network) { q.Layers[4].ClampLo = 0 }, "in one+1 b a3 b3 exit"},
	} {
		n := newNet(4, 4, 6)
		in := n.conv("in", n.q.Graph.Input, 8, 3, 1, graph.None)
		one := n.conv("one", in, 10, 1, 1, graph.None)
		a := n.conv("a", in, 3, 1, 1, graph.None)
		a3 := n.conv("a3", a, 7, 3, 1, graph.None)
		b := n.conv("b", in, 5, 1, 1, graph.None)
		b3 := n.conv("b3", b, 9, 3, 1, graph.None)
		joined := n.concat("joined", a3, b3, one)
		n.exit(joined)
		c.edit(n.q)
		got := n.compile(t, d)
		if names(got) != c.want {
			t.Errorf("%s: layers %q, want %q", c.name, names(got), c.want)
			continue
		}
		// a3 b3 one | a b
		whole := got.Slot.Tensors[joined]
		for _, x := range []struct {
			t       graph.TensorID
			channel int
		}{{a3, 0}, {b3, 7}, {one, 16}, {a, 26}, {b, 29}} {
			if p := got.Slot.Tensors[x.t]; p.Pix != 34 || p.Offset != whole.Offset+2*x.channel {
				t.Errorf("%s: tensor %d lies at %d with %d to a pixel, want %d with 34", c.name, x.t, p.Offset, p.Pix, whole.Offset+2*x.channel)
			}
		}
		if l := got.Layers[1]; c.name == "alike" && (l.OutC != 18 || l.BiasCount != 18 || l.OutPix != 34 || int(l.OutOffset) != whole.Offset+32) {
			t.Errorf("the layer of three is %+v", l)
		}
		if got.Network.Exits[0].MACs != n.q.Graph.TotalMACs() {
			t.Errorf("%s: the exit has %d MACs, the network %d", c.name, got.Network.Exits[0].MACs, n.q.Graph.TotalMACs())
		}
	}
	n := newNet(2, 2, 4)
	n.exit(n.concat("joined", n.conv("a", n.q.Graph.Input, 300, 1, 1, graph.None), n.conv("b", n.q.Graph.Input, 300, 1, 1, graph.None)))
	if b := n.compile(t, d); names(b) != "a+1[0:300] a+1[300:600] exit" {
		t.Errorf("more channels than C_MAX: layers %q", names(b))
	}
}

func TestChannelWindows(t *testing.T) {
	d := design(t, "run") // T_C = 32, C_MAX = 512
	n := newNet(2, 2, 80)
	x := n.conv("depthwise", n.q.Graph.Input, 80, 3, 80, graph.None)
	x = n.conv("grouped", x, 160, 1, 2, graph.None)
	x = n.conv("wide", x, 1200, 1, 1, graph.None)
	n.exit(x)
	b := n.compile(t, d)
	want := "depthwise[0:26] depthwise[26:53] depthwise[53:80] grouped[0:80] grouped[80:160] wide[0:400] wide[400:800] wide[800:1200] exit"
	if names(b) != want {
		t.Fatalf("layers %q\nwant   %q", names(b), want)
	}
	l, in := b.Layers[1], b.Network
	if int(l.InOffset) != in.InOffset+52 || l.InC != 27 || l.OutC != 27 || l.InPix != 80 || l.OutPix != 80 || l.KWC != 81 {
		t.Errorf("second depthwise window: %+v", l)
	}
	if b.Network.Exits[0].MACs != n.q.Graph.TotalMACs() {
		t.Errorf("the exit has %d MACs, the network %d: windows must not count as more", b.Network.Exits[0].MACs, n.q.Graph.TotalMACs())
	}
}

// A pool whose rows do not fit is split by channels. A convolution cannot be split, and the error has its name, its
// need and the limit.
func TestActivationBuffer(t *testing.T) {
	d := design(t, "tiny") // 2048 elements per half
	n := newNet(10, 10, 40)
	x := n.add("pool", graph.Node{
		Op: graph.MaxPool, Inputs: []graph.TensorID{n.q.Graph.Input}, Output: n.tensor(1, 1, 40), Residual: graph.None,
		Window: graph.Window{KH: 10, KW: 10, SH: 1, SW: 1},
	}, quant.Layer{})
	n.exit(x)
	if b := n.compile(t, d); names(b) != "pool[0:20] pool[20:40] exit" {
		t.Errorf("layers %q", names(b))
	}
	n = newNet(10, 10, 40)
	n.exit(n.conv("big", n.q.Graph.Input, 8, 7, 1, graph.None))
	_, err := Compile(n.q, d, Options{})
	if !errors.Is(err, mapping.ErrNoFit) || !strings.Contains(err.Error(), `"big"`) || !strings.Contains(err.Error(), "2800") ||
		!strings.Contains(err.Error(), "2048") {
		t.Errorf("%v, want ErrNoFit naming the layer, 2800 and 2048", err)
	}
	n = newNet(2, 40, 2)
	n.exit(n.conv("long", n.q.Graph.Input, 8, 1, 1, graph.None))
	if _, err = Compile(n.q, d, Options{}); !errors.Is(err, mapping.ErrNoFit) || !strings.Contains(err.Error(), "T_R = 32") {
		t.Errorf("%v, want ErrNoFit naming T_R = 32", err)
	}
}

// Hardware without AVG_TABLE cannot average over a varying number of pixels.
func TestAvgTable(t *testing.T) {
	n := newNet(4, 4, 3)
	x := n.add("pool", graph.Node{
		Op: graph.AvgPool, Inputs: []graph.TensorID{n.q.Graph.Input}, Output: n.tensor(3, 3, 3), Residual: graph.None,
		Window: graph.Window{KH: 2, KW: 2, SH: 2, SW: 2, PT: 1, PL: 1, PB: 1, PR: 1},
	}, quant.Layer{AvgShift: 16, AvgTable: []int32{0, 1 << 16, 1 << 15, 21845, 1 << 14}})
	n.exit(x)
	b, err := Compile(n.q, design(t, "run"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if table, err := b.LayerBias(0); err != nil || len(table) != 5 || table[3] != 21845 || !b.Layers[0].AvgTable {
		t.Errorf("table %v, %v", table, err)
	}
}

func TestTooManyLayers(t *testing.T) {
	n := newNet(1, 1, 2)
	x := n.q.Graph.Input
	for range abi.LMax {
		x = n.conv("c", x, 2, 1, 1, graph.None)
	}
	n.exit(x)
	if _, err := Compile(n.q, design(t, "tiny"), Options{}); !errors.Is(err, lower.ErrTooMany) {
		t.Errorf("%v, want ErrTooMany", err)
	}
}

func TestRefusesInconsistentNetworks(t *testing.T) {
	fresh := func() *net {
		n := newNet(4, 4, 4)
		n.exit(n.conv("c", n.q.Graph.Input, 4, 1, 1, graph.None))
		return n
	}
	d := design(t, "run")
	bad := d
	bad.TR = 3
	for _, c := range []struct {
		name string
		edit func(n *net) configs.Design
	}{
		{"design", func(*net) configs.Design { return bad }},
		{"weights", func(n *net) configs.Design { n.q.Layers[0].Weights = nil; return d }},
		{"layers", func(n *net) configs.Design { n.q.Layers = nil; return d }},
		{"graph", func(n *net) configs.Design { n.q.Graph.Exits = nil; return d }},
		{"shift", func(n *net) configs.Design { n.q.Layers[0].Shift = 48; return d }},
		{"overflow", func(n *net) configs.Design {
			for i := range n.q.Layers[1].Weights {
				n.q.Layers[1].Weights[i] = math.MaxInt16
			}
			return d
		}},
		{"no graph", func(n *net) configs.Design { n.q.Graph = nil; return d }},
	} {
		n := fresh()
		d := c.edit(n)
		if _, err := Compile(n.q, d, Options{}); err == nil {
			t.Errorf("%s: no error", c.name)
		}
	}
	if _, err := Compile(nil, d, Options{}); !errors.Is(err, ErrNetwork) {
		t.Errorf("no network: %v, want ErrNetwork", err)
	}
}

// With stacking and sample groups, weights exist for every k in the FBCB, and at least one entry is not k = 1, s = 1.
func TestOtherPoints(t *testing.T) {
	n := newNet(8, 8, 32)
	x := n.conv("narrow", n.q.Graph.Input, 16, 3, 1, graph.None)
	n.exit(n.conv("wide", x, 100, 1, 1, graph.None))
	d := design(t, "run")
	d.Stack, d.Fluid = true, true
	b, err := Compile(n.q, d, Options{Mapping: mapping.Options{Points: mapping.Points, Orders: []bool{false, true}}})
	if err != nil {
		t.Fatal(err)
	}
	other := 0
	for l := range b.FBCB {
		for i, e := range b.FBCB[l] {
			if cost.K(e.K) != cost.K1 || cost.Groups(e, i+1) != 1 {
				other++
			}
		}
	}
	if other == 0 {
		t.Error("nothing but k = 1, s = 1 was chosen")
	}
}

// The zoo's networks on the reference arrays: each fits, its latency table is complete and increases with batch and
// depth, and compiling again yields the same bundle.
func TestZoo(t *testing.T) {
	for _, name := range []string{"tiny", "fashion"} {
		g, err := zoo.Load(name, 1)
		if err != nil {
			t.Fatal(err)
		}
		image := make([]float32, g.Tensors[g.Input].Elems())
		for i := range image {
			image[i] = float32(i%7) / 7
		}
		q, err := quant.Quantise(g, [][]float32{image}, quant.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, config := range configs.Names() {
			b, err := Compile(q, design(t, config), Options{})
			if err != nil {
				t.Fatalf("%s on %s: %v", name, config, err)
			}
			again, err := Compile(q, design(t, config), Options{})
			if err != nil {
				t.Fatal(err)
			}
			h1, err1 := b.Hash()
			h2, err2 := again.Hash()
			if err1 != nil || err2 != nil || h1 != h2 {
				t.Errorf("%s on %s: compiling twice gives %016x, %016x (%v, %v)", name, config, h1, h2, err1, err2)
			}
			e := len(b.Network.Exits)
			if want := abi.BMax * e * (e + 1) / 2; len(b.Latency) != want {
				t.Errorf("%s on %s: %d latency entries, want %d", name, config, len(b.Latency), want)
			}
			at := map[[3]int]int64{}
			for _, l := range b.Latency {
				at[[3]int{l.First, l.Last, l.Batch}] = l.P50
			}
			for k, ns := range at {
				if k[1] > k[0] && ns <= at[[3]int{k[0], k[1] - 1, k[2]}] {
					t.Errorf("%s on %s: segments %d..%d take no longer than without the last", name, config, k[0], k[1])
				}
				if k[2] > 1 && ns < at[[3]int{k[0], k[1], k[2] - 1}] {
					t.Errorf("%s on %s: segments %d..%d: batch %d takes less than %d", name, config, k[0], k[1], k[2], k[2]-1)
				}
			}
		}
	}
}

// The law computes the latency table, or the machine if the law's cycles of all starts together are at most Stepped.
func TestStepped(t *testing.T) {
	g, err := zoo.Load("tiny", 1)
	if err != nil {
		t.Fatal(err)
	}
	q, err := quant.Quantise(g, [][]float32{make([]float32, g.Tensors[g.Input].Elems())}, quant.Options{})
	if err != nil {
		t.Fatal(err)
	}
	d := design(t, "run")
	law, sum := map[[2]int]int64{}, int64(0) // by segment and batch, ns
	table := func(stepped int64, by func(b *bundle.Bundle, first, last, batch int) (int64, error)) {
		t.Helper()
		b, err := Compile(q, d, Options{Stepped: stepped})
		if err != nil {
			t.Fatal(err)
		}
		moved := 0
		for _, l := range b.Latency {
			if l.First != l.Last {
				continue
			}
			x := b.Network.Exits[l.First]
			cycles, err := by(b, x.First, x.Last, l.Batch)
			if err != nil {
				t.Fatal(err)
			}
			want := cost.Nanoseconds(d, cycles)
			if l.P50 != want {
				t.Errorf("Stepped %d: segment %d at B = %d takes %d ns, expected %d", stepped, l.First, l.Batch, l.P50, want)
			}
			at := [2]int{l.First, l.Batch}
			if stepped == 0 {
				law[at], sum = want, sum+cycles
			} else if want != law[at] {
				moved++
			}
		}
		if stepped > 0 && stepped >= sum && moved == 0 {
			t.Error("law and machine say the same of every segment: the test distinguishes nothing")
		}
	}
	byLaw := func(b *bundle.Bundle, first, last, batch int) (int64, error) {
		return cost.Segment(d, b.Layers, b.FBCB, first, last, batch)
	}
	table(0, byLaw)
	table(sum-1, byLaw)
	table(sum, func(b *bundle.Bundle, first, last, batch int) (int64, error) {
		r, err := machine.Segment(t.Context(), d, b.Layers, b.FBCB, first, last, batch)
		return r.Cycles, err
	})
}
