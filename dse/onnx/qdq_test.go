package onnx

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/sluice-npu/sluice/dse/graph"
	"github.com/sluice-npu/sluice/dse/onnx/onnxpb"
)

// real adds a scalar.
func (b *builder) real(name string, v float32) *builder {
	return b.tensor(&onnxpb.TensorProto{Name: &name, DataType: proto.Int32(typeFloat), FloatData: []float32{v}})
}

// codes adds integers.
func (b *builder) codes(name string, kind int32, dims []int64, codes ...int32) *builder {
	return b.tensor(&onnxpb.TensorProto{Name: &name, DataType: &kind, Dims: dims, Int32Data: codes})
}

// quantised returns a convolution of x whose weights, input and output have codes; more is appended after y.
func quantised() *builder {
	return build(1, 1, 4, 4).
		real("sx", 0.5).codes("zx", typeUint8, nil, 100).real("sy", 0.25).codes("zy", typeUint8, nil, 128).
		op("QuantizeLinear", "xq", in("x", "sx", "zx")).op("DequantizeLinear", "xd", in("xq", "sx", "zx")).
		codes("w", typeInt8, []int64{2, 1, 1, 1}, -100, 7).tensor(&onnxpb.TensorProto{Name: proto.String("sw"), DataType: proto.Int32(typeFloat), Dims: []int64{2}, FloatData: []float32{0.5, 2}}).
		codes("zw", typeInt8, []int64{2}, 0, 0).
		op("DequantizeLinear", "wd", in("w", "sw", "zw"), intAttr("axis", 0)).
		op("Conv", "c", in("xd", "wd")).
		op("QuantizeLinear", "cq", in("c", "sy", "zy")).op("DequantizeLinear", "y", in("cq", "sy", "zy"))
}

// A quantised file gives maps their scales and weights their steps. Nothing is folded across two scales; within one
// scale everything is.
func TestQuantisedFiles(t *testing.T) {
	for _, c := range []struct {
		name   string
		add    func(b *builder) string // gives the output
		layers int
		scale  graph.Scale // of the last
		lo, hi float32     // of the first
	}{
		{"a map", func(*builder) string { return "y" }, 1, graph.Scale{Step: 0.25, Zero: 0}, -32, 31.75},
		{"Relu and the same scale", func(b *builder) string {
			b.op("Relu", "r", in("y")).op("QuantizeLinear", "rq", in("r", "sy", "zy")).op("DequantizeLinear", "rd", in("rq", "sy", "zy"))
			return "rd"
		}, 1, graph.Scale{Step: 0.25, Zero: 0}, 0, 31.75},
		{"Relu and another", func(b *builder) string {
			b.real("sr", 0.125).codes("zr", typeInt8, nil, -128)
			b.op("Relu", "r", in("y")).op("QuantizeLinear", "rq", in("r", "sr", "zr")).op("DequantizeLinear", "rd", in("rq", "sr", "zr"))
			return "rd"
		}, 2, graph.Scale{Step: 0.125, Zero: -128}, 0, 31.75},
		{"a maximum", func(b *builder) string {
			b.op("MaxPool", "m", in("y"), intsAttr("kernel_shape", 2, 2)).op("QuantizeLinear", "mq", in("m", "sy", "zy")).op("DequantizeLinear", "md", in("mq", "sy", "zy"))
			return "md"
		}, 2, graph.Scale{Step: 0.25, Zero: 0}, -32, 31.75},
		{"narrower codes, as Brevitas has them", func(b *builder) string {
			b.codes("lo", typeUint8, nil, 121).codes("hi", typeUint8, nil, 135)
			b.op("Clip", "n", in("cq", "lo", "hi")).op("DequantizeLinear", "nd", in("n", "sy", "zy"))
			return "nd"
		}, 1, graph.Scale{Step: 0.25, Zero: 0}, -1.75, 1.75},
	} {
		b := quantised()
		g, err := b.outputs(c.add(b)).load(t, Options{})
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		n := g.Nodes[0]
		if s := g.Scales[g.Exits[0].Tensor]; len(g.Nodes) != c.layers || s != c.scale || n.ClampLo != c.lo || n.ClampHi != c.hi {
			t.Errorf("%s: %d layers, %v, clamp %v to %v; expected %d, %v, %v to %v", c.name, len(g.Nodes), s, n.ClampLo, n.ClampHi, c.layers, c.scale, c.lo, c.hi)
		}
		if s := g.Scales[g.Input]; s != (graph.Scale{Step: 0.5, Zero: -28}) || len(n.Steps) != 2 || n.Steps[0] != 0.5 || n.Steps[1] != 2 || n.Weights[0] != -50 {
			t.Errorf("%s: the input has %v, weights %v in steps %v", c.name, s, n.Weights, n.Steps)
		}
	}
}

// Weights that the file quantises itself, as PyTorch exports them, are the codes' values.
func TestQuantisedHere(t *testing.T) {
	b := build(1, 1, 4, 4).real("s", 0.25).codes("z", typeInt8, nil, 0).
		tensor(&onnxpb.TensorProto{Name: proto.String("w"), DataType: proto.Int32(typeFloat), Dims: []int64{4, 1, 1, 1}, FloatData: []float32{0.125, 0.375, -0.9, 100}}).
		op("QuantizeLinear", "q", in("w", "s", "z")).op("DequantizeLinear", "d", in("q", "s", "z")).op("Conv", "c", in("x", "d")).outputs("c")
	g, err := b.load(t, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []float32{0, 0.5, -1, 31.75} { // of two codes the even one; the last saturates
		if got := g.Nodes[0].Weights[i]; got != want || g.Nodes[0].Steps[i] != 0.25 {
			t.Errorf("weight %d is %v in steps of %v, expected %v", i, got, g.Nodes[0].Steps[i], want)
		}
	}
}

// Brevitas clips such codes before they are read. A survey, which has no numbers, accepts them too.
func TestQuantisedHereAndClipped(t *testing.T) {
	load := func(kind int32) *builder {
		w := &onnxpb.TensorProto{Name: proto.String("w"), DataType: proto.Int32(typeFloat), Dims: []int64{65, 1, 1, 1}, FloatData: make([]float32, 65)}
		s := &onnxpb.TensorProto{Name: proto.String("s"), DataType: proto.Int32(typeFloat), Dims: []int64{65}, FloatData: slices.Repeat([]float32{0.25}, 65)}
		w.FloatData[0], w.FloatData[1] = -9, 100
		return build(1, 1, 4, 4).tensor(w).tensor(s).codes("z", typeInt8, []int64{65}, make([]int32, 65)...).codes("lo", kind, nil, 0).codes("hi", typeInt8, nil, 7).codes("least", typeInt8, nil, -7).
			op("QuantizeLinear", "q", in("w", "s", "z"), intAttr("axis", 0)).op("Clip", "least of q", in("q", "least", "hi")).op("Clip", "n", in("least of q", "", "hi")).
			op("DequantizeLinear", "d", in("n", "s", "z"), intAttr("axis", 0)).op("Clip", "unused", in("q", "lo")).op("Conv", "c", in("x", "d")).outputs("c")
	}
	g, err := load(typeInt8).load(t, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if w := g.Nodes[0].Weights; w[0] != -1.75 || w[1] != 1.75 || w[2] != 0 {
		t.Errorf("weights %v, expected -1.75, 1.75 and 0", w[:3])
	}
	if s, err := SurveyOf(bytes.NewReader(load(typeInt8).bytes(t)), Options{}); err != nil || len(s.Needs) != 0 {
		t.Errorf("a survey: %+v, %v", s, err)
	}
	if _, err := load(typeUint8).outputs("unused").load(t, Options{}); !errors.Is(err, ErrType) {
		t.Errorf("a bound of another type: %v", err)
	}
}

func TestQuantisedWrongly(t *testing.T) {
	for _, c := range []struct {
		name string
		want error
		add  func(b *builder) string
	}{
		{"read by another scale", ErrUnsupported, func(b *builder) string {
			b.op("DequantizeLinear", "d", in("cq", "sx", "zy"))
			return "d"
		}},
		{"computed with", ErrUnsupported, func(b *builder) string { b.op("Relu", "r", in("cq")); return "r" }},
		{"an exit", ErrExits, func(*builder) string { return "cq" }},
		{"no scale", ErrValue, func(b *builder) string {
			b.real("s0", 0).op("QuantizeLinear", "q", in("y", "s0"))
			return "q"
		}},
		{"not finite", ErrValue, func(b *builder) string {
			b.real("inf", float32(math.Inf(1))).op("QuantizeLinear", "q", in("y", "inf"))
			return "q"
		}},
		{"32 bits", ErrType, func(b *builder) string {
			b.codes("z32", typeInt32, nil, 0).op("QuantizeLinear", "q", in("y", "sy", "z32"))
			return "q"
		}},
		{"a scale that is a map", ErrUnsupported, func(b *builder) string { b.op("QuantizeLinear", "q", in("y", "y")); return "q" }},
	} {
		b := quantised()
		if _, err := b.outputs(c.add(b)).load(t, Options{}); !errors.Is(err, c.want) {
			t.Errorf("codes %s: %v, expected %v", c.name, err, c.want)
		}
	}
}

// Channels that are selected from a convolution keep the steps of their weights, for any factor after them.
func TestQuantisedChannels(t *testing.T) {
	for _, factor := range []float32{1, -2} {
		b := quantised().tensor(&onnxpb.TensorProto{Name: proto.String("k"), DataType: proto.Int32(typeFloat), Dims: []int64{1, 2, 1, 1}, FloatData: []float32{factor, factor}})
		b.op("Mul", "m", in("c", "k")).ints("at", 1).op("Gather", "g", in("m", "at"), intAttr("axis", 1))
		g, err := b.outputs("g").load(t, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if n := g.Nodes[len(g.Nodes)-1]; len(n.Steps) != 1 || n.Steps[0] != 2*math.Abs(float64(factor)) || n.Weights[0] != 14*factor {
			t.Errorf("times %v: weights %v in steps %v, expected 7 steps of 2 times that", factor, n.Weights, n.Steps)
		}
	}
}

// A rounding inside a function of a map stays: x * Sigmoid(x) as onnxruntime's quantiser writes it.
func TestQuantisedFunction(t *testing.T) {
	b := quantised().real("ss", 1./256).codes("zs", typeUint8, nil, 0)
	b.op("Sigmoid", "s", in("y")).op("QuantizeLinear", "sq", in("s", "ss", "zs")).op("DequantizeLinear", "sd", in("sq", "ss", "zs"))
	b.op("Mul", "m", in("y", "sd")).op("QuantizeLinear", "mq", in("m", "sy", "zy")).op("DequantizeLinear", "md", in("mq", "sy", "zy"))
	g, err := b.outputs("md").load(t, Options{Post: true})
	if err != nil {
		t.Fatal(err)
	}
	var ops []graph.Op
	for _, n := range g.Nodes {
		ops = append(ops, n.Op)
		if g.Scales[n.Output].Step == 0 {
			t.Errorf("%q is not rounded as in the file", n.Name)
		}
	}
	if !slices.Equal(ops, []graph.Op{graph.Conv, graph.Conv, graph.Mul}) || g.Nodes[0].Function != nil {
		t.Errorf("layers %v, expected a convolution, a function of it and their product", ops)
	}
}

// If a file rounds a map that is interleaved from phases, each phase is rounded instead, with the same scale and
// without an additional layer.
func TestQuantisedPhases(t *testing.T) {
	for _, c := range []struct {
		kind       string
		attributes []*onnxpb.AttributeProto
		convs      int
	}{
		{"ConvTranspose", []*onnxpb.AttributeProto{intsAttr("strides", 2, 2)}, 5},
		{"ConvTranspose", []*onnxpb.AttributeProto{intsAttr("strides", 2, 2), intsAttr("pads", 0, 0, 1, 1)}, 5}, // cut
	} {
		b := quantised().real("sz", 0.125).codes("v", typeInt8, []int64{2, 1, 2, 2}, 1, 2, 3, 4, 5, 6, 7, 8).op("DequantizeLinear", "vd", in("v", "sz"))
		b.op(c.kind, "u", in("y", "vd"), c.attributes...).op("QuantizeLinear", "uq", in("u", "sz", "zy")).op("DequantizeLinear", "ud", in("uq", "sz", "zy"))
		g, err := b.outputs("ud").load(t, Options{})
		if err != nil {
			t.Fatal(err)
		}
		convs, want := 0, graph.Scale{Step: 0.125}
		for i, n := range g.Nodes {
			if n.Op == graph.Conv {
				convs++
			}
			if i > 0 && g.Scales[n.Output] != want {
				t.Errorf("%q has the scale %+v, the file %+v", n.Name, g.Scales[n.Output], want)
			}
		}
		if convs != c.convs {
			t.Errorf("%d convolutions, expected %d", convs, c.convs)
		}
	}
}

// If several readers quantise a map with the same scale, it is rounded once. If they use two scales, each of them
// rounds the map's sources.
func TestQuantisedTwice(t *testing.T) {
	b := quantised().real("sz", 0.125).codes("w1", typeInt8, []int64{1, 2, 1, 1}, 3, 4).op("DequantizeLinear", "w1d", in("w1", "sz"))
	coded := func(map_, as, step string) string {
		b.op("QuantizeLinear", as+"q", in(map_, step, "zy")).op("DequantizeLinear", as, in(as+"q", step, "zy"))
		return as
	}
	b.op("Relu", "r", in("y"))
	b.op("Conv", "c1", in(coded("r", "r1", "sx"), "w1d")).op("Conv", "c2", in(coded("r", "r2", "sx"), "w1d"))
	b.op("Concat", "j", in(coded("c1", "d1", "sy"), coded("c2", "d2", "sy")), intAttr("axis", 1))
	coded("j", "e1", "sy")
	coded("j", "e2", "sx")
	b.op("Conv", "f1", in(coded("x", "x1", "sx"), "w1d")).op("Conv", "f2", in(coded("x", "x2", "sy"), "w1d"))
	b.m.Graph.Input[0].Type.GetTensorType().Shape.Dim[1].Value = &onnxpb.TensorShapeProto_Dimension_DimValue{DimValue: 2}
	b.m.Graph.Node[0].Input[0] = "x0"
	b.ints("first", 0).op("Gather", "x0", in("x", "first"), intAttr("axis", 1))
	g, err := b.outputs("e1", "e2", "f1", "f2").load(t, Options{})
	if err != nil {
		t.Fatal(err)
	}
	steps, joins := map[string]float64{}, 0
	for _, n := range g.Nodes {
		steps[n.Name] = g.Scales[n.Output].Step
		if n.Op == graph.Concat {
			joins++
		}
	}
	if _, again := steps["r2q"]; again || joins != 2 || steps["j"] != 0.25 || steps["e2q"] != 0.5 || steps["x1q"] != 0.5 || steps["x2q"] != 0.25 || g.Scales[g.Input].Step != 0 {
		t.Errorf("%d concatenations, the input in steps of %v, layers in %v", joins, g.Scales[g.Input].Step, steps)
	}
}

// A map whose elements are only moved keeps its scale, for any interleaving of pixels.
func TestQuantisedMoves(t *testing.T) {
	b := quantised().tensor(&onnxpb.TensorProto{Name: proto.String("twice"), DataType: proto.Int32(typeFloat), Dims: []int64{4}, FloatData: []float32{1, 1, 2, 2}})
	b.op("Resize", "r", in("y", "", "twice"), stringAttr("coordinate_transformation_mode", "asymmetric"), stringAttr("nearest_mode", "floor"))
	b.op("QuantizeLinear", "rq", in("r", "sy", "zy")).op("DequantizeLinear", "rd", in("rq", "sy", "zy"))
	g, err := b.outputs("rd").load(t, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range g.Nodes {
		if s := g.Scales[n.Output]; s != (graph.Scale{Step: 0.25, Zero: 0}) {
			t.Errorf("%s has the scale %v, expected the file's", n.Name, s)
		}
	}
	if len(g.Nodes) < 2 {
		t.Errorf("%d layers, expected that pixels are moved", len(g.Nodes))
	}
}

// Weights keep the steps of their codes if they are moved, negated, or multiplied by one factor for all inputs. If a
// file has codes but no single step remains for a channel, the step is 0.
func TestQuantisedWeights(t *testing.T) {
	for _, c := range []struct {
		name string
		add  func(b *builder) // makes d, 2 x 2 x 1 x 1
		want []float64
	}{
		{"by output channel", func(b *builder) { b.op("DequantizeLinear", "d", in("w", "s"), intAttr("axis", 0)) }, []float64{0.5, 2}},
		{"by input channel", func(b *builder) { b.op("DequantizeLinear", "d", in("w", "s"), intAttr("axis", 1)) }, []float64{0, 0}},
		{"moved", func(b *builder) {
			b.op("DequantizeLinear", "d0", in("w", "s"), intAttr("axis", 0)).ints("to", 1, 2, 2).op("Reshape", "d1", in("d0", "to"))
			b.op("Transpose", "d2", in("d1"), intsAttr("perm", 2, 1, 0)).op("Transpose", "d3", in("d2"), intsAttr("perm", 1, 0, 2)).ints("shape", 2, 2, 1, 1).op("Reshape", "d", in("d3", "shape"))
		}, []float64{0.5, 2}},
		{"mixed by a Reshape", func(b *builder) {
			b.op("DequantizeLinear", "d0", in("w", "s"), intAttr("axis", 0)).ints("to", 4).op("Reshape", "d1", in("d0", "to")).ints("shape", 2, 2, 1, 1).op("Reshape", "d", in("d1", "shape"))
		}, []float64{0, 0}},
		{"one, turned", func(b *builder) {
			b.real("one", -0.5).op("DequantizeLinear", "d0", in("w", "one")).op("Identity", "d", in("d0"))
		}, []float64{0.5, 0.5}},
		{"changed", func(b *builder) {
			b.op("DequantizeLinear", "d0", in("w", "s"), intAttr("axis", 0)).op("Mul", "d", in("d0", "d0"))
		}, []float64{0, 0}},
		{"floats", func(b *builder) { b.weight("d", 2, 2, 1, 1) }, nil},
	} {
		b := build(1, 2, 4, 4).codes("w", typeInt8, []int64{2, 2, 1, 1}, 3, -4, 5, 6)
		b.tensor(&onnxpb.TensorProto{Name: proto.String("s"), DataType: proto.Int32(typeFloat), Dims: []int64{2}, FloatData: []float32{-0.5, 2}})
		c.add(b)
		g, err := b.op("Conv", "c", in("x", "d")).outputs("c").load(t, Options{})
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		} else if got := g.Nodes[0].Steps; !slices.Equal(got, c.want) {
			t.Errorf("%s: steps %v, expected %v", c.name, got, c.want)
		}
	}
}

// Bytes are codes, and their conversion to floats is one factor of all weights.
func TestQuantisedBytes(t *testing.T) {
	b := build(1, 2, 4, 4).real("sx", 0.25).codes("zx", typeUint8, nil, 100).codes("w", typeInt8, []int64{1, 2, 1, 1}, 3, -4).real("sw", 0.5)
	b.m.Graph.Input[0].Type.GetTensorType().ElemType = proto.Int32(typeUint8)
	g, err := b.op("DequantizeLinear", "d", in("x", "sx", "zx")).op("DequantizeLinear", "wd", in("w", "sw")).op("Conv", "c", in("d", "wd")).outputs("c").load(t, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if s, n := g.Scales[g.Input], g.Nodes[0]; s != (graph.Scale{Step: 1, Zero: -128}) || len(g.Nodes) != 1 || !slices.Equal(n.Steps, []float64{0.125}) || n.Weights[0] != 0.375 {
		t.Errorf("bytes of %v, %d layers, weights %v in steps of %v", s, len(g.Nodes), n.Weights, n.Steps)
	}
}

// A missing zero point is code 0 of the codes' type. A Softmax or Sigmoid and its rounding are left to the host.
func TestQuantisedRight(t *testing.T) {
	for _, activation := range []string{"Softmax", "Sigmoid", "HardSigmoid"} {
		b := quantised().codes("z0", typeInt8, nil, 0)
		b.op("QuantizeLinear", "q", in("c", "sx", "z0")).op("DequantizeLinear", "d", in("q", "sx")).op("GlobalAveragePool", "p", in("d")).op("Flatten", "f", in("p"))
		b.real("sp", 1./256).op(activation, "s", in("f")).op("QuantizeLinear", "sq", in("s", "sp")).op("DequantizeLinear", "sd", in("sq", "sp"))
		g, err := b.outputs("sd").load(t, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if s := g.Scales[g.Nodes[0].Output]; s != (graph.Scale{Step: 0.5}) || g.Exits[0].Activation != activation {
			t.Errorf("%s: codes of %v, an exit with %q", activation, s, g.Exits[0].Activation)
		}
	}
}

// A rounding moves with its clamp before a maximum and before a concatenation, so that there is one.
func TestQuantisedBefore(t *testing.T) {
	b := quantised().op("Conv", "c1", in("xd", "wd")).op("MaxPool", "m", in("c1"), intsAttr("kernel_shape", 2, 2)).op("MaxPool", "m0", in("y"), intsAttr("kernel_shape", 2, 2))
	b.op("Conv", "c2", in("m0", "w2")).tensor(&onnxpb.TensorProto{Name: proto.String("w2"), DataType: proto.Int32(typeFloat), Dims: []int64{1, 2, 1, 1}, FloatData: []float32{1, 2}})
	b.op("Concat", "j", in("m", "c2"), intAttr("axis", 1)).op("QuantizeLinear", "q", in("j", "sx", "zy")).op("DequantizeLinear", "d", in("q", "sx", "zy"))
	g, err := b.outputs("d").load(t, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range g.Nodes {
		if s := g.Scales[n.Output]; n.Name != "c" && n.Name != "m0" && s != (graph.Scale{Step: 0.5}) {
			t.Errorf("%q has codes of %v", n.Name, s)
		}
	}
}

// A maximum over a Pad's zeros needs no pixels for them only if the codes before it, or the values before the codes,
// are never negative.
func TestQuantisedNotNegative(t *testing.T) {
	for _, c := range []struct {
		name   string
		zero   int32 // point of the output's codes, of 0 to 255
		relu   bool
		layers int
	}{
		{"codes below zero", 128, false, 3},
		{"codes from zero on", 0, false, 2},
		{"codes below zero of nothing below", 128, true, 2},
	} {
		b, last := build(1, 1, 4, 4).real("sx", 0.5).codes("zx", typeUint8, nil, 100).real("sy", 0.25).codes("zy", typeUint8, nil, c.zero).
			op("QuantizeLinear", "xq", in("x", "sx", "zx")).op("DequantizeLinear", "xd", in("xq", "sx", "zx")).
			codes("w", typeInt8, []int64{2, 1, 1, 1}, -100, 7).op("DequantizeLinear", "wd", in("w", "sx")).
			op("Conv", "c", in("xd", "wd")), "c"
		if c.relu {
			b, last = b.op("Relu", "r", in("c")), "r"
		}
		b.op("QuantizeLinear", "q", in(last, "sy", "zy")).op("DequantizeLinear", "y", in("q", "sy", "zy")).
			ints("pads", 0, 0, 1, 1, 0, 0, 1, 1).op("Pad", "p", in("y", "pads")).op("MaxPool", "m", in("p"), intsAttr("kernel_shape", 2, 2))
		g, err := b.outputs("m").load(t, Options{})
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if len(g.Nodes) != c.layers {
			t.Errorf("%s: %d layers, expected %d", c.name, len(g.Nodes), c.layers)
		}
		x := slices.Repeat([]float32{3}, 16) // the first channel is negative throughout: zeros win at the border alone
		tensors, err := graph.Run(g, x)
		if err != nil {
			t.Fatal(err)
		}
		y := tensors[g.Exits[0].Tensor]
		inner := float32(-32)
		if c.relu || c.zero == 0 {
			inner = 0
		}
		if corner, middle := y[0], y[2*(5*2+2)]; corner != 0 || middle != inner {
			t.Errorf("%s: %v in the corner and %v in the middle, expected 0 and %v", c.name, corner, middle, inner)
		}
	}
}
