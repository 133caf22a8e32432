package onnx

import (
	"errors"
	"hash/maphash"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/protobuf/proto"

	"github.com/sluice-npu/sluice/dse/graph"
	"github.com/sluice-npu/sluice/dse/onnx/onnxpb"
)

// Nodes that no exit needs do not determine the input's layout, and a convolution takes precedence over a reduction
// along an axis.
func TestInputOfChannelsFirst(t *testing.T) {
	conv := func(b *builder) *builder { return b.weight("w", 2, 3, 1, 1).op("Conv", "y", in("x", "w")) }
	for _, c := range []struct {
		name string
		b    *builder
		o    Options
	}{
		{"nothing reads the mean", conv(build(1, 3, 4, 5).op("ReduceMean", "m", in("x"), intsAttr("axes", 3)).op("Sub", "d", in("x", "m"))).outputs("y"), Options{}},
		{"it is cut off", conv(build(1, 3, 4, 5).op("ReduceMean", "m", in("x"), intsAttr("axes", 3)).op("Relu", "r", in("m"))).outputs("y", "r"), Options{Exits: []string{"y"}}},
	} {
		c.o.Post = true
		if g, err := c.b.load(t, c.o); err != nil || g.ChannelsLast {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	dead := build(1, 4, 5, 3).op("ReduceMean", "m", in("x"), intsAttr("axes", 3)).op("Sub", "y", in("x", "m")).op("GlobalMaxPool", "p", in("x")).outputs("y")
	if g, err := dead.load(t, Options{Post: true}); err != nil || !g.ChannelsLast {
		t.Errorf("nothing reads the pool: %v", err)
	}
	b := conv(build(1, 3, 4, 5).op("ReduceMean", "m", in("x"), intsAttr("axes", 3))).op("Mul", "z", in("y", "m")).outputs("z")
	if _, err := b.load(t, Options{Post: true}); !errors.Is(err, ErrUnsupported) || !strings.Contains(err.Error(), "[3]") {
		t.Errorf("a mean over the width: %v", err)
	}
}

// All ways to write a norm over channels yield the same network as the operator.
func TestNormForms(t *testing.T) {
	start := func(dims ...int64) *builder {
		b := build(dims...).float("k2", 2).float("k1", 1).float("k0", 0).float("half", 0.5).float("minus", -0.5).float("eps", 1e-5)
		b.m.OpsetImport[0].Version = proto.Int64(17)
		return b.float("gain", 1, 0.5, -2).float("shift", 0.25, 0, 1)
	}
	mean := func(b *builder, out, of string) { b.op("ReduceMean", out, in(of), intsAttr("axes", 1)) }
	variance := func(b *builder, out, d, e string) {
		b.op("Mul", out+"2", in(d, e))
		mean(b, out, out+"2")
	}
	centred := func(b *builder) {
		mean(b, "m", "x")
		b.op("Sub", "d", in("x", "m"))
		variance(b, "v", "d", "d")
	}
	deviation := func(b *builder) { b.op("Add", "ve", in("eps", "v")).op("Sqrt", "s", in("ve")) }
	ends := func(b *builder, normal string) {
		b.op("Mul", "scaled", in("gain", normal)).op("Add", "y", in("shift", "scaled"))
	}
	// r is the reciprocal deviation, with the gain in it.
	inverse := func(b *builder) {
		deviation(b)
		b.op("Reciprocal", "r", in("s")).op("Mul", "g", in("r", "gain"))
	}
	forms := map[string]func(b *builder){
		"written out": func(b *builder) {
			centred(b)
			deviation(b)
			ends(b.op("Div", "n", in("d", "s")), "n")
		},
		"two differences": func(b *builder) {
			mean(b, "m", "x")
			mean(b, "m2", "x")
			variance(b.op("Sub", "d", in("x", "m")).op("Sub", "e", in("x", "m2")), "v", "d", "e")
			deviation(b)
			ends(b.op("Sub", "f", in("x", "m2")).op("Div", "n", in("f", "s")), "n")
		},
		"mean less x squared": func(b *builder) {
			mean(b, "m", "x")
			variance(b.op("Sub", "d", in("m", "x")), "v", "d", "d")
			deviation(b)
			ends(b.op("Sub", "f", in("x", "m")).op("Div", "n", in("f", "s")), "n")
		},
		"1 / Sqrt": func(b *builder) {
			centred(b)
			deviation(b)
			ends(b.op("Div", "r", in("k1", "s")).op("Mul", "n", in("r", "d")), "n")
		},
		"Sqrt of 1 / x": func(b *builder) {
			centred(b)
			deviation(b)
			ends(b.op("Div", "q", in("k1", "ve")).op("Sqrt", "r", in("q")).op("Mul", "n", in("r", "d")), "n")
		},
		"squares of magnitudes": func(b *builder) {
			mean(b, "m", "x")
			variance(b.op("Sub", "d", in("x", "m")).op("Abs", "a", in("d")), "v", "a", "a")
			deviation(b)
			ends(b.op("Div", "n", in("d", "s")), "n")
		},
		"powers": func(b *builder) {
			mean(b, "m", "x")
			mean(b.op("Sub", "d", in("x", "m")).op("Pow", "d2", in("d", "k2")), "v", "d2")
			deviation(b)
			ends(b.op("Pow", "r", in("ve", "minus")).op("Mul", "n", in("d", "r")), "n")
		},
		"1 / a power": func(b *builder) {
			centred(b)
			deviation(b)
			ends(b.op("Pow", "q", in("ve", "half")).op("Reciprocal", "r", in("q")).op("Mul", "n", in("d", "r")), "n")
		},
		"the gain first": func(b *builder) {
			centred(b)
			inverse(b)
			b.op("Mul", "n", in("g", "d")).op("Add", "y", in("n", "shift"))
		},
		"the gain before the division": func(b *builder) {
			centred(b)
			deviation(b)
			b.op("Mul", "g", in("gain", "d")).op("Div", "n", in("g", "s")).op("Add", "y", in("n", "shift"))
		},
		"the gain before the reciprocal": func(b *builder) {
			centred(b)
			deviation(b)
			b.op("Reciprocal", "r", in("s")).op("Mul", "g", in("d", "gain")).op("Mul", "n", in("r", "g")).op("Add", "y", in("n", "shift"))
		},
		"TensorFlow's, the gain before": func(b *builder) {
			centred(b)
			deviation(b)
			b.op("Reciprocal", "r", in("s")).op("Mul", "xg", in("x", "gain")).op("Mul", "mg", in("m", "gain"))
			b.op("Mul", "xr", in("xg", "r")).op("Mul", "mr", in("mg", "r")).op("Sub", "n", in("xr", "mr")).op("Add", "y", in("n", "shift"))
		},
		"TensorFlow's": func(b *builder) {
			centred(b)
			inverse(b)
			b.op("Mul", "xr", in("x", "g")).op("Mul", "mr", in("m", "g")).op("Sub", "rest", in("shift", "mr")).op("Add", "y", in("xr", "rest"))
		},
		"TensorFlow's, the shift last": func(b *builder) {
			centred(b)
			inverse(b)
			b.op("Mul", "xr", in("g", "x")).op("Mul", "mr", in("g", "m")).op("Sub", "rest", in("xr", "mr")).op("Add", "y", in("shift", "rest"))
		},
		"mean of squares less square of mean": func(b *builder) {
			mean(b, "m", "x")
			variance(b, "w", "x", "x")
			b.op("Pow", "m2", in("m", "k2")).op("Sub", "u", in("w", "m2")).op("Max", "v", in("k0", "u"))
			deviation(b)
			ends(b.op("Sub", "d", in("x", "m")).op("Div", "n", in("d", "s")), "n")
		},
		"both": func(b *builder) {
			mean(b, "m", "x")
			variance(b, "w", "x", "x")
			b.op("Mul", "m2", in("m", "m")).op("Sub", "v", in("w", "m2"))
			inverse(b)
			b.op("Mul", "xr", in("x", "g")).op("Mul", "mr", in("m", "g")).op("Sub", "rest", in("shift", "mr")).op("Add", "y", in("xr", "rest"))
		},
	}
	load := func(b *builder, o Options) *graph.Graph {
		t.Helper()
		g, err := b.outputs("y").load(t, o)
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	operator := start(1, 3, 4, 4).op("Transpose", "last", in("x"), intsAttr("perm", 0, 2, 3, 1)).
		op("LayerNormalization", "n", in("last", "flat", "zeros"), intAttr("axis", -1), floatAttr("epsilon", 1e-5)).
		op("Transpose", "first", in("n"), intsAttr("perm", 0, 3, 1, 2))
	operator.ints("three", 3).op("Reshape", "flat", in("gain", "three")).op("Reshape", "zeros", in("shift", "three"))
	want := load(operator.op("Identity", "y", in("first")), Options{Post: true})
	for name, form := range forms {
		b := start(1, 3, 4, 4)
		form(b)
		g := load(b, Options{Post: true})
		if diff := cmp.Diff(want.Nodes, g.Nodes, cmpopts.IgnoreFields(graph.Node{}, "Name"), cmpopts.EquateApprox(1e-6, 1e-6)); diff != "" {
			t.Errorf("%s is not the operator: %s", name, diff)
		}
	}
}

// An input of N x H x W x C is also recognised by a reduction along its last axis.
func TestNormOfAnInputChannelsLast(t *testing.T) {
	for name, axes := range map[string][]int64{"last": {-1}, "third": {3}, "rows": {2}} {
		b := build(1, 4, 5, 3).ints("axes", axes...).float("eps", 1e-5).op("ReduceMean", "m", in("x"), intsAttr("axes", axes...)).
			op("Sub", "d", in("x", "m")).outputs("d")
		if g, err := b.load(t, Options{Post: true}); name == "rows" {
			if err == nil {
				t.Errorf("a mean over rows: %+v", g.Nodes)
			}
		} else if err != nil || !g.ChannelsLast || g.Tensors[g.Input] != (graph.Tensor{Name: "x", H: 4, W: 5, C: 3}) {
			t.Errorf("%s: %v, %+v", name, err, g)
		}
	}
}

// A difference of two products with a common factor is not a norm if the maps have one pixel.
func TestNormFormsOfOnePixel(t *testing.T) {
	for name, in := range map[string][4]string{
		"a pixel, then a mean": {"g", "r", "m", "r"}, "a mean, then a pixel": {"m", "r", "g", "r"},
	} {
		b := build(1, 3, 4, 4).op("GlobalAveragePool", "g", []string{"x"}).op("ReduceMean", "m", []string{"x"}, intsAttr("axes", 1)).op("Tanh", "r", []string{"x"})
		g, err := b.op("Mul", "p", in[:2]).op("Mul", "q", in[2:]).op("Sub", "y", []string{"p", "q"}).outputs("y").load(t, Options{Post: true})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		runner, err := graph.NewRunner(g)
		if err != nil {
			t.Fatal(err)
		}
		x := make([]float32, 4*4*3)
		of := map[string]func(i int) float64{
			"r": func(i int) float64 { return math.Tanh(float64(x[i])) },
			"m": func(i int) float64 { return float64(x[i/3*3]+x[i/3*3+1]+x[i/3*3+2]) / 3 },
			"g": func(i int) (sum float64) {
				for p := range 16 {
					sum += float64(x[3*p+i%3]) / 16
				}
				return sum
			},
		}
		for i := range x {
			x[i] = float32(math.Sin(float64(i * i)))
		}
		got, err := runner.Run(x)
		if err != nil {
			t.Fatal(err)
		}
		for i, y := range got[g.Exits[0].Tensor] {
			if want := of[in[0]](i)*of[in[1]](i) - of[in[2]](i)*of[in[3]](i); math.Abs(want-float64(y)) > 1e-5 {
				t.Errorf("%s: element %d is %v, expected %v", name, i, y, want)
				break
			}
		}
	}
}

// A file's tensors may have the names of the parts into which an operator is split.
func TestNamesOfParts(t *testing.T) {
	for of, parts := range map[string][]string{"LayerNormalization": {"mean", "epsilon", "normal", "deviation"}, "Div": {"reciprocal"}} {
		for _, part := range parts {
			var all [2]*graph.Graph
			for i, name := range []string{"other", "n (" + part + ")"} {
				b := build(1, 3, 4, 4).float("k", 0.5).float(name, 0.25).weight("flat", 3).op("Tanh", name+"'", in("x"))
				b.m.OpsetImport[0].Version = proto.Int64(17)
				if of == "Div" {
					b.op("Sigmoid", "s", in(name+"'")).op("Add", "e", in("s", "k")).op("Div", "n", in("k", "e")).op("Identity", "first", in("n"))
				} else {
					b.op("Transpose", "last", in(name+"'"), intsAttr("perm", 0, 2, 3, 1)).op("LayerNormalization", "n", in("last", "flat"), intAttr("axis", -1)).
						op("Transpose", "first", in("n"), intsAttr("perm", 0, 3, 1, 2))
				}
				b.op("Add", "a", in("first", name)).op("Mul", "y", in("a", name+"'"))
				var err error
				if all[i], err = b.outputs("y").load(t, Options{Post: true}); err != nil {
					t.Fatalf("%s, a tensor %q: %v", of, name, err)
				}
			}
			if diff := cmp.Diff(all[0].Nodes, all[1].Nodes, cmpopts.IgnoreFields(graph.Node{}, "Name")); diff != "" {
				t.Errorf("%s, a tensor \"n (%s)\": %s", of, part, diff)
			}
		}
	}
}

// No file can give many layers the same hash, neither by the signs of weights nor by the attributes of layers without
// weights. Names stay short.
func TestManyAlike(t *testing.T) {
	f := fused{seed: maphash.MakeSeed()}
	hashes := map[uint64]bool{}
	for i := range 4 {
		signs := []float64{1 - 2*float64(i&1), 1 - 2*float64(i&1), 1 - float64(i&2), 1 - float64(i&2)}
		for _, l := range []*layer{{kind: affine, scale: signs}, {kind: clamp, lo: float32(i)}, {kind: curve, function: &graph.Function{Name: "Pow", Alpha: 1 + float64(i)*1e-9}}, {kind: pick, channels: []int{i}}} {
			hashes[l.hash(f.seed)] = true
		}
	}
	if len(hashes) != 16 {
		t.Errorf("%d hashes", len(hashes))
	}
	b := build(1, 3, 2, 2).op("ReduceMean", "m", in("x"), intsAttr("axes", 1)).op("Sigmoid", "r", in("m")).op("Identity", "a", in("x")).op("Identity", "u", in("m"))
	a, u := "a", "u"
	for range 40 {
		b.op("Mul", a+"a", in(a, "r")).op("Mul", u+"u", in(u, "r"))
		a, u = a+"a", u+"u"
	}
	g, err := b.op("Sub", "y", in(a, u)).outputs("y").load(t, Options{Post: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range g.Nodes {
		if len(n.Name) > 100 {
			t.Errorf("node %q", n.Name)
		}
	}
}

// Layers that compute the same are one, and each exit is its own.
func TestEqualLayers(t *testing.T) {
	conv := func(b *builder, out string, w string) *builder {
		return b.op("Sub", out+" from", in("x", "mean")).op("Conv", out, in(out+" from", w))
	}
	start := func() *builder {
		return build(1, 2, 4, 4).float("mean", 0.5, 0.25).weight("w", 3, 2, 1, 1).weight("v", 3, 2, 1, 1).weight("u", 3, 2, 3, 3)
	}
	for _, c := range []struct {
		name  string
		b     *builder
		nodes int
	}{
		{"one", conv(conv(start(), "a", "w"), "b", "v").op("Relu", "ra", in("a")).op("Relu", "rb", in("b")).op("MaxPool", "pa", in("ra"), intsAttr("kernel_shape", 2, 2)).op("Add", "y", in("ra", "rb")).outputs("y", "pa"), 3},
		{"two exits", conv(conv(start(), "a", "w"), "b", "v").outputs("a", "b"), 2},
		{"equal heads", conv(conv(start(), "a", "w"), "b", "v").op("Add", "s", in("a", "b")).op("Conv", "h", in("s", "k")).op("Conv", "i", in("s", "k")).weight("k", 2, 3, 1, 1).outputs("h", "i"), 3},
		{"a head through nothing", conv(conv(start(), "a", "w"), "b", "v").op("Add", "s", in("a", "b")).op("Relu", "h", in("s")).op("Relu", "i", in("h")).op("Mul", "j", in("h", "k")).float("k", 1).outputs("h", "i", "j"), 3},
		{"codes that no exit reads", conv(conv(start(), "a", "w"), "b", "v").op("Relu", "ra", in("a")).op("Relu", "rb", in("b")).op("Add", "y", in("ra", "rb")).op("QuantizeLinear", "q", in("a", "k")).float("k", 0.1).outputs("y"), 2},
		{"codes of a constant", conv(conv(start(), "a", "w"), "b", "v").op("Relu", "ra", in("a")).op("Relu", "rb", in("b")).op("Add", "s", in("ra", "rb")).float("k", 0.1).weight("l", 2, 3, 1, 1).
			op("QuantizeLinear", "q", in("l", "k", "zero")).op("DequantizeLinear", "d", in("q", "k", "zero")).tensor(&onnxpb.TensorProto{Name: proto.String("zero"), DataType: proto.Int32(typeInt8), Int32Data: []int32{0}}).op("Conv", "y", in("s", "d")).outputs("y"), 3},
		{"unlike clamps", conv(conv(conv(start(), "a", "w"), "b", "v"), "c", "w").op("Relu", "ra", in("a")).op("Clip", "rb", in("b", "low", "high")).op("Clip", "rc", in("c", "low", "low")).float("low", -0.125).float("high", 0.125).op("Add", "s", in("ra", "rb")).op("Add", "y", in("s", "rc")).outputs("y"), 5},
		{"unlike clamps of one", conv(start(), "a", "w").op("Relu", "ra", in("a")).op("Clip", "rb", in("a", "low", "high")).float("low", -0.125).float("high", 0.125).op("Add", "y", in("ra", "rb")).outputs("y"), 4},
		{"a clamp and none", conv(conv(start(), "a", "w"), "b", "v").op("Relu", "ra", in("a")).op("MaxPool", "pa", in("ra"), intsAttr("kernel_shape", 1, 1)).op("Add", "y", in("pa", "b")).outputs("y"), 2},
		{"twice one", conv(conv(start(), "a", "w"), "b", "v").op("Add", "y", in("a", "b")).outputs("y"), 1},
		{"another kernel", conv(conv(start(), "a", "w"), "b", "u").op("GlobalMaxPool", "ga", in("a")).op("GlobalMaxPool", "gb", in("b")).op("Add", "y", in("ga", "gb")).outputs("y"), 5},
	} {
		g, err := c.b.load(t, Options{})
		if err != nil || len(g.Nodes) != c.nodes {
			t.Errorf("%s: %v, %d nodes, expected %d", c.name, err, len(g.Nodes), c.nodes)
			continue
		}
		for _, n := range g.Nodes { // the value that is subtracted from the input is part of each convolution that reads the input
			if n.Op == graph.Conv && n.Inputs[0] == g.Input && (n.Groups != 1 || n.Bias[0] == 0 || math.IsNaN(float64(n.Bias[0]))) {
				t.Errorf("%s: %+v", c.name, n)
			}
		}
	}
}
