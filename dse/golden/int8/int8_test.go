package int8

import (
	"bytes"
	"encoding/binary"
	"flag"
	"fmt"
	"math"
	"math/big"
	"math/bits"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/sluice-npu/sluice/dse/graph"
	"github.com/sluice-npu/sluice/dse/onnx"
	"github.com/sluice-npu/sluice/dse/onnx/onnxpb"
	"github.com/sluice-npu/sluice/dse/quant"
	"github.com/sluice-npu/sluice/dse/zoo"
	"github.com/sluice-npu/sluice/hw/abi"
)

var (
	update = flag.Bool("update", false, "write the vectors of sim/bench/requant")
	tested = flag.Int("images", 2500, "test images of mobile; nightly has all (0)")
)

// drawn is a random float network of some layers and a head. Fused adds residuals, functions and products, which a
// quantised file has only with rounding in between.
type drawn struct {
	rng *rand.Rand
	g   *graph.Graph
}

func draw(seed uint64, fused bool) (*graph.Graph, [][]float32) {
	d := &drawn{rand.New(rand.NewPCG(seed, 8)), &graph.Graph{Name: fmt.Sprint("seed ", seed)}}
	t := d.tensor(3+d.rng.IntN(6), 3+d.rng.IntN(6), 1+d.rng.IntN(6))
	for range 2 + d.rng.IntN(5) {
		s := d.g.Tensors[t]
		switch op := d.rng.IntN(9); {
		case op < 3 || s.H*s.W == 1:
			t = d.conv(t, 1+d.rng.IntN(12), 1, fused)
		case op == 3: // depthwise
			t = d.conv(t, s.C, s.C, fused)
		case op == 4: // groups
			groups := 1 + d.rng.IntN(s.C)
			for s.C%groups != 0 {
				groups--
			}
			t = d.conv(t, groups*(1+d.rng.IntN(3)), groups, fused)
		case op == 5:
			t = d.pool(t, graph.MaxPool)
		case op == 6:
			t = d.pool(t, graph.AvgPool)
		case op == 7:
			a, b := d.same(t, s.C), d.same(t, s.C)
			n := graph.Node{Op: graph.Add, Inputs: []graph.TensorID{a, b}}
			if fused && d.rng.IntN(2) == 0 {
				n.Op = graph.Mul
			} else if fused && d.rng.IntN(2) == 0 {
				n.Function = &graph.Function{Name: "Tanh"}
			}
			t = d.node(n, s)
		default:
			a, b := d.same(t, 1+d.rng.IntN(5)), d.same(t, 1+d.rng.IntN(5))
			s.C = d.g.Tensors[a].C + d.g.Tensors[b].C
			t = d.node(graph.Node{Op: graph.Concat, Inputs: []graph.TensorID{a, b}}, s)
		}
	}
	s := d.g.Tensors[t]
	t = d.node(graph.Node{Op: graph.AvgPool, Inputs: []graph.TensorID{t}, Window: graph.Window{KH: s.H, KW: s.W, SH: 1, SW: 1}}, graph.Tensor{H: 1, W: 1, C: s.C})
	t = d.conv(t, 4, 1, false)
	d.g.Nodes[len(d.g.Nodes)-1].ClampLo, d.g.Nodes[len(d.g.Nodes)-1].ClampHi = float32(math.Inf(-1)), float32(math.Inf(1))
	d.g.Exits = []graph.Exit{{Name: "out", Tensor: t}}
	if err := d.g.Arrange(); err != nil {
		panic(err)
	}
	images := make([][]float32, 4)
	for i := range images {
		images[i] = make([]float32, d.g.Tensors[0].Elems())
		for k := range images[i] {
			images[i][k] = d.rng.Float32()*3 - 1
		}
	}
	return d.g, images
}

func (d *drawn) tensor(h, w, c int) graph.TensorID {
	t := graph.TensorID(len(d.g.Tensors))
	d.g.Tensors = append(d.g.Tensors, graph.Tensor{Name: fmt.Sprint("t", t), H: h, W: w, C: c})
	return t
}

func (d *drawn) node(n graph.Node, out graph.Tensor) graph.TensorID {
	n.Name, n.Output = fmt.Sprint("n", len(d.g.Nodes)), d.tensor(out.H, out.W, out.C)
	n.ClampLo, n.ClampHi = float32(math.Inf(-1)), float32(math.Inf(1))
	if n.Op != graph.Conv || n.Residual == 0 {
		n.Residual = graph.None
	}
	if (n.Op == graph.Conv || n.Op == graph.Add) && d.rng.IntN(2) == 0 {
		n.ClampLo = 0
		if d.rng.IntN(3) == 0 {
			n.ClampHi = 1.5
		}
	}
	d.g.Nodes = append(d.g.Nodes, n)
	return n.Output
}

// window returns a random window such that every position overlaps the map.
func (d *drawn) window(s graph.Tensor) (w graph.Window, out graph.Tensor) {
	side := func(n int) (k, s, before, after, out int) {
		k = 1 + d.rng.IntN(min(n, 3))
		before, after, s = d.rng.IntN(k), d.rng.IntN(k), 1+d.rng.IntN(2)
		out = (n+before+after-k)/s + 1
		after = max((out-1)*s+k-n-before, 0)
		return
	}
	out.C = s.C
	w.KH, w.SH, w.PT, w.PB, out.H = side(s.H)
	w.KW, w.SW, w.PL, w.PR, out.W = side(s.W)
	return
}

func (d *drawn) conv(t graph.TensorID, cout, groups int, fused bool) graph.TensorID {
	s := d.g.Tensors[t]
	w, out := d.window(s)
	if fused && d.rng.IntN(2) == 0 { // as large as its input, which may be its residual
		w, out = graph.Window{KH: 3, KW: 3, SH: 1, SW: 1, PT: 1, PL: 1, PB: 1, PR: 1}, s
	}
	out.C = cout
	n := graph.Node{Op: graph.Conv, Inputs: []graph.TensorID{t}, Window: w, Groups: groups}
	gain := 2 / math.Sqrt(float64(w.KH*w.KW*s.C/groups))
	n.Weights, n.Bias = make([]float32, cout*w.KH*w.KW*s.C/groups), make([]float32, cout)
	each := len(n.Weights) / cout
	for c := range cout {
		size := gain * math.Exp2(d.rng.Float64()*4-3) // channels of different sizes
		for k := range each {
			n.Weights[c*each+k] = float32(d.rng.NormFloat64() * size)
		}
		n.Bias[c] = float32(d.rng.NormFloat64() / 4)
	}
	if fused && d.rng.IntN(2) == 0 {
		if n.Residual = d.like(out); n.Residual == graph.None {
			n.Residual = 0
		}
	}
	if fused && d.rng.IntN(3) == 0 {
		n.Function = &graph.Function{Name: "Sigmoid"}
	}
	return d.node(n, out)
}

// like returns an earlier map of the same shape, or None.
func (d *drawn) like(s graph.Tensor) graph.TensorID {
	for t := len(d.g.Tensors) - 1; t > 0; t-- {
		if o := d.g.Tensors[t]; o.H == s.H && o.W == s.W && o.C == s.C {
			return graph.TensorID(t)
		}
	}
	return graph.None
}

// same appends a 1 x 1 convolution.
func (d *drawn) same(t graph.TensorID, c int) graph.TensorID {
	s := d.g.Tensors[t]
	n := graph.Node{Op: graph.Conv, Inputs: []graph.TensorID{t}, Window: graph.Window{KH: 1, KW: 1, SH: 1, SW: 1}, Groups: 1, Weights: make([]float32, c*s.C), Bias: make([]float32, c)}
	for k := range n.Weights {
		n.Weights[k] = float32(d.rng.NormFloat64() / math.Sqrt(float64(s.C)))
	}
	s.C = c
	return d.node(n, s)
}

func (d *drawn) pool(t graph.TensorID, op graph.Op) graph.TensorID {
	w, out := d.window(d.g.Tensors[t])
	return d.node(graph.Node{Op: op, Inputs: []graph.TensorID{t}, Window: w, CountIncludePad: op == graph.AvgPool && w.PB|w.PR == 0 && d.rng.IntN(2) == 0}, out)
}

// inInt8 quantises a network; with wide, some layers are in int16.
func inInt8(t *testing.T, g *graph.Graph, images [][]float32, wide bool) *quant.Int8 {
	t.Helper()
	seen, err := quant.See(g, len(images), func(i int) ([]float32, error) { return images[i], nil }, quant.Options{Headroom: 1})
	if err != nil {
		t.Fatal(g.Name, err)
	}
	w := make([]bool, len(g.Nodes))
	for i := range w {
		w[i] = wide && (len(g.Nodes)%2 == 0 || i%3 == 0) // all of half the networks
	}
	n, err := seen.Network(w)
	if err != nil {
		t.Fatal(g.Name, err)
	}
	return n
}

// TestInt8IsItsDefinition compares golden with the definition in dse/README: real zero points, no folding, exact
// fractions. It also compares with the float network: no map differs by more than a few steps.
func TestInt8IsItsDefinition(t *testing.T) {
	const seed, networks = 34, 80
	ops, all := map[string]int{}, int64(0)
	for k := range uint64(networks) {
		g, images := draw(seed<<16+k, true)
		for _, wide := range []bool{false, true} {
			n := inInt8(t, g, images, wide)
			p, err := New(n)
			if err != nil {
				t.Fatal(g.Name, err)
			}
			in := make([]int16, len(images[0]))
			for e := range images[k%4] {
				images[k%4][e] *= 1.5 // beyond what calibration saw, so that some results saturate
			}
			n.Input(in, images[k%4])
			got, err := p.Run(in)
			if err != nil {
				t.Fatal(g.Name, err)
			}
			for i := range g.Nodes {
				node := &g.Nodes[i]
				ops[fmt.Sprint(node.Op, node.Residual >= 0, node.Function != nil, n.Maps[node.Output].Wide)]++
				saturated := int64(0)
				for e, v := range got[node.Output] {
					want, beyond := defined(n, got, i, e)
					if int64(v) != want {
						t.Fatalf("%s, layer %d (%v), wide %v, element %d: %d, by definition %d", g.Name, i, node.Op, wide, e, v, want)
					}
					saturated += beyond
				}
				if p.Saturated(i) != saturated {
					t.Fatalf("%s, layer %d (%v), wide %v: %d results saturated, by definition %d", g.Name, i, node.Op, wide, p.Saturated(i), saturated)
				}
				all += saturated
			}
		}
	}
	if all == 0 {
		t.Error("nothing saturated")
	}
	for _, op := range []string{"Conv false false", "Conv true false", "Conv false true", "Conv true true", "Add false false", "Add false true", "Mul false false", "MaxPool false false", "AvgPool false false", "Concat false false"} {
		for _, wide := range []string{" false", " true"} {
			if ops[op+wide] == 0 {
				t.Errorf("no layer like %q: %v", op+wide, ops)
			}
		}
	}
}

// nearest returns x rounded, ties to even, with exact fractions.
func nearest(x *big.Rat) int64 {
	twice := new(big.Rat).Mul(x, big.NewRat(2, 1))
	floor := new(big.Int).Div(twice.Num(), twice.Denom()).Int64() // Euclidean: down
	if twice.IsInt() && floor%2 != 0 {                            // a tie
		if lower := (floor - 1) / 2; lower%2 == 0 {
			return lower
		}
		return (floor + 1) / 2
	}
	return (floor + 1) >> 1
}

func times(x int64, mul int32, shift uint8) *big.Rat {
	return new(big.Rat).SetFrac(new(big.Int).Mul(big.NewInt(x), big.NewInt(int64(mul))), new(big.Int).Lsh(big.NewInt(1), uint(shift)))
}

// defined returns element e of a layer's output, and how often it saturates where the network has no clamp.
func defined(n *quant.Int8, maps [][]int16, i, e int) (code, beyond int64) {
	g, node, l := n.Graph, &n.Graph.Nodes[i], &n.Layers[i]
	out, w := g.Tensors[node.Output], node.Window
	x, y, c := e/out.C%out.W, e/out.C/out.W, e%out.C
	at := func(t graph.TensorID, y, x, c int) (int64, bool) { // relative to the zero point
		s := g.Tensors[t]
		if y < 0 || y >= s.H || x < 0 || x >= s.W {
			return 0, false
		}
		return int64(maps[t][(y*s.W+x)*s.C+c]) - int64(n.Maps[t].Zero), true
	}
	a, _ := at(node.Inputs[0], min(y, g.Tensors[node.Inputs[0]].H-1), min(x, g.Tensors[node.Inputs[0]].W-1), min(c, g.Tensors[node.Inputs[0]].C-1))
	var v int64
	switch node.Op {
	case graph.Conv:
		cin := g.Tensors[node.Inputs[0]].C / node.Groups
		per, sum, total := w.KH*w.KW*cin, int64(0), int64(0)
		for ky := range w.KH {
			for kx := range w.KW {
				for k := range cin {
					q := int64(l.Weights[c*per+(ky*w.KW+kx)*cin+k])
					v, _ := at(node.Inputs[0], y*w.SH-w.PT+ky, x*w.SW-w.PL+kx, c/(out.C/node.Groups)*cin+k)
					sum, total = sum+q*v, total+q
				}
			}
		}
		sum += int64(l.Bias[c]) + int64(n.Maps[node.Inputs[0]].Zero)*total
		v = nearest(times(sum, l.Scales[c].Mul, l.Scales[c].Shift))
		if node.Residual != graph.None {
			r, _ := at(node.Residual, y, x, c)
			t := min(max(v, math.MinInt16), math.MaxInt16)
			beyond += min(max(v-t, t-v), 1)
			v = nearest(times(t*int64(l.Sum.A)+r*int64(l.Sum.B), 1, l.Sum.Shift))
		}
	case graph.Add:
		b, _ := at(node.Inputs[1], y, x, c)
		v = nearest(times(a*int64(l.Sum.A)+b*int64(l.Sum.B), 1, l.Sum.Shift))
	case graph.Mul:
		b, _ := at(node.Inputs[1], y, x, c)
		v = nearest(times(a*b, l.Scales[0].Mul, l.Scales[0].Shift))
	case graph.Concat:
		for j, t := range node.Inputs {
			if c < g.Tensors[t].C {
				b, _ := at(t, y, x, c)
				v = nearest(times(b, l.Scales[j].Mul, l.Scales[j].Shift))
				break
			}
			c -= g.Tensors[t].C
		}
	default:
		best, sum, taps := int64(math.MinInt32), int64(0), 0
		for ky := range w.KH {
			for kx := range w.KW {
				if b, ok := at(node.Inputs[0], y*w.SH-w.PT+ky, x*w.SW-w.PL+kx, c); ok {
					best, sum, taps = max(best, b), sum+b, taps+1
				}
			}
		}
		if v = best; node.Op == graph.AvgPool {
			v = nearest(times(sum, l.Scales[taps].Mul, l.Scales[taps].Shift))
		} else {
			v = nearest(times(v, l.Scales[0].Mul, l.Scales[0].Shift))
		}
	}
	to := n.Maps[node.Output]
	if l.Curve != nil {
		// Values cut off by 16 bits or the codes are included if the function's value there differs by more than a
		// step.
		t, ends := min(max(v, math.MinInt16), math.MaxInt16), [2]float64{to.Value(to.Code(math.Inf(-1))), to.Value(to.Code(math.Inf(1)))}
		at := func(t int64) float64 { return node.Function.At(math.Ldexp(float64(t), -l.Mid)) }
		clamp := func(y float64) float64 { return min(max(y, float64(node.ClampLo)), float64(node.ClampHi)) }
		if math.Abs(clamp(at(v))-clamp(min(max(at(t), ends[0]), ends[1]))) > to.Step {
			beyond++
		}
		return min(max(int64(l.Curve.At(int16(t))), int64(l.Lo)), int64(l.Hi)), beyond
	}
	lo, hi := to.Bounds()
	if v += int64(to.Zero); v < int64(lo) && math.RoundToEven(float64(node.ClampLo)/to.Step) < float64(lo-to.Zero) ||
		v > int64(hi) && math.RoundToEven(float64(node.ClampHi)/to.Step) > float64(hi-to.Zero) {
		beyond++
	}
	return min(max(v, int64(l.Lo)), int64(l.Hi)), beyond
}

// exporter writes a network in int8 as a quantised ONNX file, as onnxruntime's quantiser does.
type exporter struct {
	n        *quant.Int8
	g        *onnxpb.GraphProto
	unsigned bool // maps and weights in uint8
}

func export(n *quant.Int8, unsigned bool) []byte {
	in := n.Graph.Tensors[n.Graph.Input]
	x := &exporter{n, &onnxpb.GraphProto{Name: proto.String("int8")}, unsigned}
	dims := func(d ...int64) *onnxpb.TypeProto {
		shape := &onnxpb.TensorShapeProto{}
		for _, v := range d {
			shape.Dim = append(shape.Dim, &onnxpb.TensorShapeProto_Dimension{Value: &onnxpb.TensorShapeProto_Dimension_DimValue{DimValue: v}})
		}
		return &onnxpb.TypeProto{TensorType: &onnxpb.TypeProto_Tensor{ElemType: proto.Int32(1), Shape: shape}}
	}
	x.g.Input = []*onnxpb.ValueInfoProto{{Name: proto.String("t0"), Type: dims(1, int64(in.C), int64(in.H), int64(in.W))}}
	x.codes(n.Graph.Input)
	for i := range n.Graph.Nodes {
		x.node(i)
	}
	last := n.Graph.Exits[0].Tensor
	x.g.Output = []*onnxpb.ValueInfoProto{{Name: proto.String(fmt.Sprint("d", last)), Type: dims(1, int64(n.Graph.Tensors[last].C), 1, 1)}}
	content, err := proto.Marshal(&onnxpb.ModelProto{IrVersion: proto.Int64(8), OpsetImport: []*onnxpb.OperatorSetIdProto{{Version: proto.Int64(13)}}, Graph: x.g})
	if err != nil {
		panic(err)
	}
	return content
}

func (x *exporter) op(kind, name string, in []string, out string, a ...*onnxpb.AttributeProto) {
	x.g.Node = append(x.g.Node, &onnxpb.NodeProto{Name: &name, OpType: &kind, Input: in, Output: []string{out}, Attribute: a})
}

func (x *exporter) floats(name string, dims []int64, v ...float64) string {
	t := &onnxpb.TensorProto{Name: &name, DataType: proto.Int32(1), Dims: dims}
	for _, f := range v {
		t.FloatData = append(t.FloatData, float32(f))
	}
	x.g.Initializer = append(x.g.Initializer, t)
	return name
}

// bytes8 adds codes of 8 bits, in NCHW.
func (x *exporter) bytes8(name string, dims []int64, codes ...int) string {
	t := &onnxpb.TensorProto{Name: &name, DataType: proto.Int32(3), Dims: dims}
	for _, c := range codes {
		if x.unsigned {
			c += 128
		}
		t.Int32Data = append(t.Int32Data, int32(c))
	}
	if x.unsigned {
		t.DataType = proto.Int32(2)
	}
	x.g.Initializer = append(x.g.Initializer, t)
	return name
}

// codes quantises tensor tN to qN, and dequantises it as dN.
func (x *exporter) codes(t graph.TensorID) {
	c := x.n.Maps[t]
	s, z := x.floats(fmt.Sprint("s", t), nil, c.Step), x.bytes8(fmt.Sprint("z", t), nil, c.Zero)
	x.op("QuantizeLinear", fmt.Sprint("Q", t), []string{fmt.Sprint("t", t), s, z}, fmt.Sprint("q", t))
	x.op("DequantizeLinear", fmt.Sprint("D", t), []string{fmt.Sprint("q", t), s, z}, fmt.Sprint("d", t))
}

func (x *exporter) node(i int) {
	g, node, l := x.n.Graph, &x.n.Graph.Nodes[i], &x.n.Layers[i]
	ints := func(name string, v ...int) *onnxpb.AttributeProto {
		a := &onnxpb.AttributeProto{Name: &name, Type: onnxpb.AttributeProto_INTS.Enum()}
		for _, k := range v {
			a.Ints = append(a.Ints, int64(k))
		}
		return a
	}
	one := func(name string, v int) *onnxpb.AttributeProto {
		return &onnxpb.AttributeProto{Name: &name, Type: onnxpb.AttributeProto_INT.Enum(), I: proto.Int64(int64(v))}
	}
	w, out := node.Window, fmt.Sprint("t", node.Output)
	var in []string
	for _, t := range node.Inputs {
		in = append(in, fmt.Sprint("d", t))
	}
	window := []*onnxpb.AttributeProto{ints("kernel_shape", w.KH, w.KW), ints("strides", w.SH, w.SW), ints("pads", w.PT, w.PL, max(w.PB, 0), max(w.PR, 0))}
	switch node.Op {
	case graph.Conv:
		cout, cin := g.Tensors[node.Output].C, g.Tensors[node.Inputs[0]].C/node.Groups
		codes, total, zeros := make([]int, len(l.Weights)), make([]int, cout), make([]int, cout)
		for k, v := range l.Weights {
			c, tap, o := k%cin, k/cin%(w.KH*w.KW), k/cin/(w.KH*w.KW)
			codes[(o*cin+c)*w.KH*w.KW+tap] = int(v)
			total[o] += int(v)
		}
		dims := []int64{int64(cout), int64(cin), int64(w.KH), int64(w.KW)}
		x.op("DequantizeLinear", "", []string{x.bytes8(out+".w", dims, codes...), x.floats(out+".ws", dims[:1], l.Steps...), x.bytes8(out+".wz", dims[:1], zeros...)}, out+".wd", one("axis", 0))
		steps, bias := make([]float64, cout), &onnxpb.TensorProto{Name: proto.String(out + ".b"), DataType: proto.Int32(6), Dims: dims[:1]}
		for c := range cout {
			steps[c] = float64(float32(l.Steps[c]) * float32(x.n.Maps[node.Inputs[0]].Step))
			bias.Int32Data = append(bias.Int32Data, l.Bias[c]+int32(x.n.Maps[node.Inputs[0]].Zero*total[c]))
		}
		x.g.Initializer = append(x.g.Initializer, bias)
		x.op("DequantizeLinear", "", []string{out + ".b", x.floats(out+".bs", dims[:1], steps...)}, out+".bd", one("axis", 0))
		x.op("Conv", node.Name, append(in, out+".wd", out+".bd"), out, append(window, one("group", node.Groups))...)
	case graph.MaxPool:
		x.op("MaxPool", node.Name, in, out, window...)
	case graph.AvgPool:
		pad := 0
		if node.CountIncludePad {
			pad = 1
		}
		x.op("AveragePool", node.Name, in, out, append(window, one("count_include_pad", pad))...)
	case graph.Add:
		x.op("Add", node.Name, in, out)
	case graph.Concat:
		x.op("Concat", node.Name, in, out, one("axis", 1))
	}
	if lo, hi := x.n.Maps[node.Output].Bounds(); int(l.Lo) > lo || int(l.Hi) < hi { // otherwise the codes saturate by themselves
		for i, v := range []float32{node.ClampLo, node.ClampHi} {
			name := x.floats(fmt.Sprint(out, ".clip", i), nil, min(max(float64(v), -math.MaxFloat32), math.MaxFloat32))
			in = append(in[:i], name)
		}
		last := x.g.Node[len(x.g.Node)-1]
		last.Output[0] = out + ".sum"
		x.op("Clip", out+".clip", append([]string{out + ".sum"}, in...), out)
	}
	x.codes(node.Output)
}

// job is a quantised model, an image, and the tensors requested from onnxruntime.
type job struct {
	n        *quant.Int8
	model    []byte
	kernels  string
	image    []float32
	names    []string
	unsigned bool
}

// ran returns onnxruntime's results, for each job one tensor after another.
func ran(t *testing.T, jobs []job) [][]float64 {
	t.Helper()
	python, err := zoo.Python()
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"testdata/int8.py"}
	for _, j := range jobs {
		dir, in := t.TempDir(), j.n.Graph.Tensors[j.n.Graph.Input]
		raw := make([]byte, 4*len(j.image))
		for i, v := range j.image { // H x W x C to C x H x W
			binary.LittleEndian.PutUint32(raw[4*(i%in.C*in.H*in.W+i/in.C):], math.Float32bits(v))
		}
		asked := fmt.Sprintf("%s\n1,%d,%d,%d\n%s", j.kernels, in.C, in.H, in.W, strings.Join(j.names, ","))
		for name, content := range map[string][]byte{"model": j.model, "raw": raw, "job": []byte(asked)} {
			if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		args = append(args, dir)
	}
	if said, err := exec.Command(python, args...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	var out [][]float64
	for _, dir := range args[1:] {
		content, err := os.ReadFile(filepath.Join(dir, "out"))
		if err != nil {
			t.Fatal(err)
		}
		all := make([]float64, len(content)/8)
		if err := binary.Read(bytes.NewReader(content), binary.LittleEndian, all); err != nil {
			t.Fatal(err)
		}
		out = append(out, all)
	}
	return out
}

// against returns the number of codes that differ from onnxruntime's in a network's maps, with onnxruntime's own inputs
// of each layer. Each difference must be a tie: the exact result is within a few steps of the middle of two codes.
func against(t *testing.T, n *quant.Int8, all []float64, unsigned bool) (codes, off, exact int) {
	t.Helper()
	g := n.Graph
	maps := make([][]int16, len(g.Tensors))
	for k := range g.Tensors {
		s := g.Tensors[k]
		maps[k] = make([]int16, s.Elems())
		for i := range maps[k] {
			v := all[i%s.C*s.H*s.W+i/s.C]
			if unsigned {
				v -= 128
			}
			maps[k][i] = int16(v)
		}
		all = all[s.Elems():]
	}
	p, err := New(n)
	if err != nil {
		t.Fatal(err)
	}
	const near = 1. / 512
	for i := range g.Nodes {
		got, err := p.Layer(i, maps)
		if err != nil {
			t.Fatal(err)
		}
		for e, v := range got {
			codes++
			want := maps[g.Nodes[i].Output][e]
			if v == want {
				continue
			}
			off++
			x := real8(n, maps, i, e)
			if apart := math.Abs(math.Abs(x-math.Floor(x)) - 0.5); apart > near || v-want > 1 || want-v > 1 {
				t.Errorf("%s, layer %d (%s), element %d: %d, in onnxruntime %d, of %v exactly", g.Name, i, g.Nodes[i].Op, e, v, want, x)
			} else if apart == 0 {
				exact++
			}
		}
	}
	return codes, off, exact
}

// real8 returns a layer's result before rounding, in steps of the output, with unrounded scales.
func real8(n *quant.Int8, maps [][]int16, i, e int) float64 {
	g, node, l := n.Graph, &n.Graph.Nodes[i], &n.Layers[i]
	out, w, to := g.Tensors[node.Output], node.Window, n.Maps[node.Output]
	x, y, c := e/out.C%out.W, e/out.C/out.W, e%out.C
	in := n.Maps[node.Inputs[0]]
	switch node.Op {
	case graph.Add:
		return (in.Value(maps[node.Inputs[0]][e]) + n.Maps[node.Inputs[1]].Value(maps[node.Inputs[1]][e])) / to.Step
	case graph.Concat:
		return math.NaN() // one scale for all: nothing to round
	}
	cin, from, sum, taps := g.Tensors[node.Inputs[0]].C, c, 0.0, 0
	if node.Op == graph.Conv {
		cin /= node.Groups
		from = c / (out.C / node.Groups) * cin
	} else {
		cin = 1
	}
	per := w.KH * w.KW * cin
	for ky := range w.KH {
		for kx := range w.KW {
			s := g.Tensors[node.Inputs[0]]
			iy, ix := y*w.SH-w.PT+ky, x*w.SW-w.PL+kx
			if iy < 0 || iy >= s.H || ix < 0 || ix >= s.W {
				continue
			}
			taps++
			for k := range cin {
				v := in.Value(maps[node.Inputs[0]][(iy*s.W+ix)*s.C+from+k])
				if node.Op == graph.Conv {
					v *= l.Steps[c] * float64(l.Weights[c*per+(ky*w.KW+kx)*cin+k])
				}
				sum += v
			}
		}
	}
	if node.Op == graph.AvgPool {
		return sum / float64(g.Divisor(i, y, x)) / to.Step
	}
	total := 0
	for _, q := range l.Weights[c*per : (c+1)*per] {
		total += int(q)
	}
	return (sum + float64(int(l.Bias[c])+in.Zero*total)*in.Step*l.Steps[c]) / to.Step
}

// TestInt8IsOnnxruntimes exports random networks with their scales, imports them again, and compares the codes of every
// map with onnxruntime's. Weights are in uint8, because onnxruntime's kernels for int8 add two products in 16 bits if
// the processor has no VNNI, and saturate.
func TestInt8IsOnnxruntimes(t *testing.T) {
	const seed, networks = 3434, 40
	var jobs []job
	for k := range uint64(networks) {
		g, images := draw(seed<<16+k, false)
		n := inInt8(t, g, images, false)
		unsigned, kernels := k%2 == 0, "float"
		if unsigned && k%4 == 0 {
			kernels = "integer"
		}
		model := export(n, unsigned)
		again, err := onnx.Import(bytes.NewReader(model), onnx.Options{})
		if err != nil {
			t.Fatal(g.Name, err)
		}
		seen, err := quant.See(again, 1, func(int) ([]float32, error) { return images[0], nil }, quant.Options{})
		if err != nil {
			t.Fatal(g.Name, err)
		}
		m, err := seen.Network(nil)
		if err != nil {
			t.Fatal(g.Name, err)
		}
		sameRun(t, n, m, images[0])
		var names []string
		for i := range g.Tensors {
			names = append(names, fmt.Sprint("q", i))
		}
		jobs = append(jobs, job{n, model, kernels, images[0], names, unsigned})
	}
	var codes, off, exact int
	for i, all := range ran(t, jobs) {
		c, o, e := against(t, jobs[i].n, all, jobs[i].unsigned)
		codes, off, exact = codes+c, off+o, exact+e
	}
	t.Logf("seed %d: of %d codes %d are onnxruntime's neighbours, all near a tie, %d of them exact ties", seed, codes, off, exact)
}

// A transposed convolution of a quantised file has the file's scale in each of its phases: its codes equal
// onnxruntime's except for ties.
func TestTransposedInt8IsOnnxruntimes(t *testing.T) {
	var jobs []job
	var codes [][]int16
	for _, c := range []struct{ stride, kernel, pad, more int }{{2, 4, 1, 0}, {2, 3, 1, 1}, {2, 2, 0, 0}, {3, 3, 0, 0}, {1, 3, 1, 0}, {3, 2, 0, 0}} {
		rng := rand.New(rand.NewPCG(uint64(c.stride), uint64(c.kernel)))
		x := &exporter{g: &onnxpb.GraphProto{Name: proto.String("transposed")}, unsigned: true}
		coded := func(from, to string, step float64, zero int) {
			q := []string{from, x.floats(to+".s", nil, step), x.bytes8(to+".z", nil, zero)}
			x.op("QuantizeLinear", "", q, to+".q")
			x.op("DequantizeLinear", "", append([]string{to + ".q"}, q[1:]...), to)
		}
		draw := func(n, most int) []int {
			v := make([]int, n)
			for i := range v {
				v[i] = rng.IntN(2*most+1) - most
			}
			return v
		}
		shape := &onnxpb.TensorShapeProto{}
		for _, d := range []int64{1, 3, 5, 6} {
			shape.Dim = append(shape.Dim, &onnxpb.TensorShapeProto_Dimension{Value: &onnxpb.TensorShapeProto_Dimension_DimValue{DimValue: d}})
		}
		x.g.Input = []*onnxpb.ValueInfoProto{{Name: proto.String("x"), Type: &onnxpb.TypeProto{TensorType: &onnxpb.TypeProto_Tensor{ElemType: proto.Int32(1), Shape: shape}}}}
		coded("x", "xd", 1./128, 3)
		dims := []int64{3, 4, int64(c.kernel), int64(c.kernel)}
		steps := []float64{0.01, 0.002, 0.004, 0.03}
		x.op("DequantizeLinear", "", []string{x.bytes8("w", dims, draw(12*c.kernel*c.kernel, 100)...), x.floats("ws", []int64{4}, steps...), x.bytes8("wz", []int64{4}, 0, 0, 0, 0)}, "wd",
			&onnxpb.AttributeProto{Name: proto.String("axis"), Type: onnxpb.AttributeProto_INT.Enum(), I: proto.Int64(1)})
		ints := func(name string, v ...int64) *onnxpb.AttributeProto {
			return &onnxpb.AttributeProto{Name: &name, Type: onnxpb.AttributeProto_INTS.Enum(), Ints: v}
		}
		s, p, m := int64(c.stride), int64(c.pad), int64(c.more)
		x.op("ConvTranspose", "up", []string{"xd", "wd"}, "u", ints("strides", s, s), ints("pads", p, p, p, p), ints("output_padding", m, m))
		coded("u", "y", 0.02, -20)
		x.g.Output = []*onnxpb.ValueInfoProto{{Name: proto.String("y")}}
		model, err := proto.Marshal(&onnxpb.ModelProto{IrVersion: proto.Int64(8), OpsetImport: []*onnxpb.OperatorSetIdProto{{Version: proto.Int64(13)}}, Graph: x.g})
		if err != nil {
			t.Fatal(err)
		}
		g, err := onnx.Import(bytes.NewReader(model), onnx.Options{})
		if err != nil {
			t.Fatal(err)
		}
		image := make([]float32, g.Tensors[g.Input].Elems())
		for i := range image {
			image[i] = rng.Float32()*2 - 1
		}
		seen, err := quant.See(g, 1, func(int) ([]float32, error) { return image, nil }, quant.Options{})
		if err != nil {
			t.Fatal(err)
		}
		n, err := seen.Network(nil)
		if err != nil {
			t.Fatal(err)
		}
		program, err := New(n)
		if err != nil {
			t.Fatal(err)
		}
		in := make([]int16, len(image))
		n.Input(in, image)
		maps, err := program.Run(in)
		if err != nil {
			t.Fatal(err)
		}
		jobs, codes = append(jobs, job{n, model, "float", image, []string{"y.q"}, true}), append(codes, slices.Clone(maps[g.Exits[0].Tensor]))
	}
	for k, want := range ran(t, jobs) {
		g, off := jobs[k].n.Graph, 0
		out := g.Tensors[g.Exits[0].Tensor]
		for i, v := range codes[k] {
			w := int16(want[i%out.C*out.H*out.W+i/out.C]) - 128
			if v != w {
				off++
			}
			if max(v-w, w-v) > 1 {
				t.Errorf("network %d, element %d: code %d, in onnxruntime %d", k, i, v, w)
			}
		}
		if 100*off > len(want) {
			t.Errorf("network %d: %d of %d codes differ from onnxruntime's", k, off, len(want))
		}
	}
}

// sameRun compares two networks, exit by exit.
func sameRun(t *testing.T, a, b *quant.Int8, image []float32) {
	t.Helper()
	var logits [2][]int16
	for i, n := range []*quant.Int8{a, b} {
		p, err := New(n)
		if err != nil {
			t.Fatal(err)
		}
		in := make([]int16, len(image))
		n.Input(in, image)
		out, err := p.Run(in)
		if err != nil {
			t.Fatal(err)
		}
		logits[i] = out[n.Graph.Exits[0].Tensor]
	}
	if fmt.Sprint(logits[0]) != fmt.Sprint(logits[1]) {
		t.Errorf("%s: %v, and from its file %v", a.Graph.Name, logits[0], logits[1])
	}
}

// The served network, quantised by onnxruntime's own tool (testdata/quantise.py): its scales are kept, differences are
// ties, and its accuracy is onnxruntime's. Calibrated here, it loses little at every exit.
func TestInt8OnFashion(t *testing.T) {
	test, err := zoo.FashionMNIST("", false, 500)
	if err != nil {
		t.Fatal(err)
	}
	train, err := zoo.FashionMNIST("", true, 512)
	if err != nil {
		t.Fatal(err)
	}
	see := func(g *graph.Graph) *quant.Int8 {
		images := 128
		if g.Name == "mobile" { // the tool's number of images: with 128, the first exit loses 0.7 points
			images = len(train.Pixels)
		}
		seen, err := quant.See(g, images, func(i int) ([]float32, error) { return train.Pixels[i], nil }, quant.Options{Headroom: 1, Range: quant.Range{MSE: true}})
		if err != nil {
			t.Fatal(err)
		}
		n, err := seen.Network(nil)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	const file = "testdata/fashion-qdq.onnx"
	g, err := onnx.ImportFile(file, onnx.Options{})
	if err != nil {
		t.Fatal(err)
	}
	n := see(g)
	model, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var names []string // names of codes: outputs of a QuantizeLinear, or maps that keep them
	for i := range g.Tensors {
		name := g.Tensors[i].Name
		if i == int(g.Input) || !strings.HasSuffix(name, "_QuantizeLinear_Output") {
			name += "_QuantizeLinear_Output"
		}
		names = append(names, name)
	}
	jobs := []job{}
	for _, image := range test.Pixels[:3] {
		jobs = append(jobs, job{n, model, "float", image, names, true})
	}
	var codes, off, exact int
	for _, all := range ran(t, jobs) {
		c, o, e := against(t, n, all, true)
		codes, off, exact = codes+c, off+o, exact+e
	}
	t.Logf("%s: of %d codes %d are onnxruntime's neighbours, all near a tie, %d of them exact ties", file, codes, off, exact)
	networks := []*quant.Int8{n}
	for _, name := range []string{"fashion", "mobile"} { // the second has depthwise convolutions
		float, err := zoo.Load(name, 1)
		if err != nil {
			t.Fatal(err)
		}
		networks = append(networks, see(float))
	}
	for _, n := range networks {
		on, below := test, []int{4, 4, 4, 4} // 0.8 points of 500 images; on all 10,000 it is 0.3 at most (dse/README)
		if n.Graph.Name == "mobile" {        // small: more images, 0.3 points
			if on, err = zoo.FashionMNIST("", false, *tested); err != nil {
				t.Fatal(err)
			}
			below = slices.Repeat([]int{3 * len(on.Pixels) / 1000}, 3)
		}
		right, want := accuracy(t, n, on)
		t.Logf("%s in int8 at exits, right of %d: %v, in float %v", n.Graph.Name, len(on.Pixels), right, want)
		for e := range right {
			if right[e] < want[e]-below[e] {
				t.Errorf("%s, exit %d: %d of %d images right, in float %d: expected at most %d fewer", n.Graph.Name, e, right[e], len(on.Pixels), want[e], below[e])
			}
		}
	}
}

// accuracy returns the number of right answers by exit, in int8 and in float.
func accuracy(t *testing.T, n *quant.Int8, on *zoo.Images) (right, float []int) {
	t.Helper()
	p, err := New(n)
	if err != nil {
		t.Fatal(err)
	}
	r, err := graph.NewRunner(n.Graph)
	if err != nil {
		t.Fatal(err)
	}
	right, float = make([]int, len(n.Graph.Exits)), make([]int, len(n.Graph.Exits))
	in := make([]int16, len(on.Pixels[0]))
	for i, image := range on.Pixels {
		n.Input(in, image)
		got, err := p.Run(in)
		if err != nil {
			t.Fatal(err)
		}
		want, err := r.Run(image)
		if err != nil {
			t.Fatal(err)
		}
		for e, x := range n.Graph.Exits {
			a, b := 0, 0
			for c := range got[x.Tensor] {
				if got[x.Tensor][c] > got[x.Tensor][a] {
					a = c
				}
				if want[x.Tensor][c] > want[x.Tensor][b] {
					b = c
				}
			}
			if a == on.Labels[i] {
				right[e]++
			}
			if b == on.Labels[i] {
				float[e]++
			}
		}
	}
	return right, float
}

// TestRequantVectors compares the vectors of the bench of hw/rtl/int8/requant.sv with the definition. A line is acc,
// bias, mul, shift, residual, product, a, b, d, s, zero, lo, hi, and the code.
func TestRequantVectors(t *testing.T) {
	const file, vectors = "../../../sim/bench/requant/vectors.txt", 600
	rng := rand.New(rand.NewPCG(34, 8))
	factor := func() int32 {
		if rng.IntN(3) == 0 {
			return 1 << rng.IntN(17)
		}
		return rng.Int32N(1 << 17)
	}
	var text bytes.Buffer
	for k := range vectors {
		scale := quant.Scaling{Mul: factor(), Shift: uint8(rng.IntN(quant.MaxShift + 1))}
		if k%2 == 0 { // so that the code is not at an end
			scale.Shift = uint8(bits.Len32(uint32(scale.Mul)) + rng.IntN(12))
		}
		size := min(29, int(scale.Shift)-bits.Len32(uint32(scale.Mul))+9+8*(k%3/2))
		acc, bias, res := rng.Int32N(2<<max(size, 0))-1<<max(size, 0), rng.Int32N(2001)-1000, rng.IntN(256)-128
		if k%3 == 1 { // between two codes
			m, n := rng.IntN(17), rng.IntN(12)
			scale = quant.Scaling{Mul: 1 << m, Shift: uint8(m + n + 1)}
			acc = (2*rng.Int32N(256)-255)<<n - bias
		}
		l := &quant.Layer8{Scales: []quant.Scaling{scale}, Lo: math.MinInt8, Hi: math.MaxInt8}
		if k%4 == 3 {
			l.Lo, l.Hi = int16(rng.IntN(128)-128), int16(rng.IntN(128))
		}
		after := &posted{end: &end{l: l, zero: int64(rng.IntN(256) - 128), least: math.MinInt64, most: math.MaxInt64}}
		sum, product, a, b, d, s := int64(acc)+int64(bias), 0, int64(1), int64(0), int64(0), uint8(0)
		var code int16
		switch k % 5 {
		case 0, 1:
			l.Sum = &quant.Sum{A: factor(), B: factor(), Shift: uint8(8 + rng.IntN(12))}
			after.residualZero = int64(rng.IntN(256) - 128)
			a, b, s, d = int64(l.Sum.A), int64(l.Sum.B), l.Sum.Shift, -after.residualZero*int64(l.Sum.B)
			code = after.of(sum, 0, int16(res))
		case 2:
			o := abi.Operand{A: factor(), Shift: uint8(rng.IntN(36)), Add: rng.Int32N(256) - 127}
			product, a, s, d = 1, int64(o.A), o.Shift, int64(o.Add)
			code = after.code(o.Of(after.half(scale.Of(sum)), int64(res), true))
		default:
			code = after.of(sum, 0, 0)
		}
		fmt.Fprintln(&text, acc, bias, scale.Mul, scale.Shift, res, product, a, b, d, s, after.zero, l.Lo, l.Hi, code)
	}
	if *update {
		if err := os.WriteFile(file, text.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	stored, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(stored, text.Bytes()) {
		t.Errorf("%s is not what the definition gives: -update", file)
	}
}
