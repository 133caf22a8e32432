package onnx

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/sluice-npu/sluice/dse/graph"
	"github.com/sluice-npu/sluice/dse/onnx/onnxpb"
)

// apart separates the two channels of the good network's input; join says which channels are combined again.
func apart(join ...string) *builder {
	b := good()
	b.m.Graph.Node[0].Input[0] = "together"
	b.number("zero", 0).number("one", 1).ints("first", 1)
	for _, c := range []string{"zero", "one"} {
		b.op("Gather", c+"_taken", in("x", c), intAttr("axis", 1)).op("Unsqueeze", c+"_map", in(c+"_taken", "first"))
	}
	return b.op("Concat", "together", in(join...), intAttr("axis", 1))
}

// number is an integer without dimensions.
func (b *builder) number(name string, v int64) *builder {
	return b.tensor(&onnxpb.TensorProto{Name: &name, DataType: proto.Int32(typeInt64), Int64Data: []int64{v}})
}

// float adds a number, or one per channel.
func (b *builder) float(name string, values ...float32) *builder {
	t := &onnxpb.TensorProto{Name: &name, DataType: proto.Int32(typeFloat), FloatData: values}
	if len(values) > 1 {
		t.Dims = []int64{int64(len(values)), 1, 1}
	}
	return b.tensor(t)
}

func TestChannelsApart(t *testing.T) {
	if _, err := apart("zero_map", "one_map").load(t, Options{}); err != nil {
		t.Error(err)
	}
	for _, c := range []struct {
		name string
		want error
		b    *builder
	}{
		{"in another order", ErrUnsupported, apart("one_map", "zero_map")},
		{"one alone", ErrUnsupported, apart("zero_map")},
		{"one twice", ErrUnsupported, apart("zero_map", "zero_map")},
		{"with a map", ErrUnsupported, apart("zero_map", "x")},
		{"a map first", ErrUnsupported, apart("x", "zero_map")},
		{"without the axis back", ErrUnsupported, apart("zero_taken", "one_taken")},
		{"rectified", ErrUnsupported, apart("zero_map", "rectified").op("Relu", "rectified", in("one_map"))},
		{"an exit", ErrExits, apart("zero_map", "one_map").outputs("zero_map")},
		{"no such channel", ErrShape, apart("zero_map", "one_map").number("two", 2).op("Gather", "z", in("x", "two"), intAttr("axis", 1)).outputs("z")},
		{"a row", ErrUnsupported, apart("zero_map", "one_map").op("Gather", "z", in("x", "zero"), intAttr("axis", 2)).outputs("z")},
		{"scaled to infinity", ErrValue, apart("zero_map", "far").float("k", 0).op("Div", "far", in("one_map", "k"))},
	} {
		if _, err := c.b.load(t, Options{}); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
}

func TestArithmeticRefuses(t *testing.T) {
	for _, c := range []struct {
		name string
		want error
		add  func(b *builder) *builder // makes y of r, a map of 3 channels
	}{
		{"two maps multiplied", ErrUnsupported, func(b *builder) *builder { return b.op("Mul", "y", in("r", "r")) }},
		{"two maps divided", ErrUnsupported, func(b *builder) *builder { return b.op("Div", "y", in("r", "c")) }},
		{"maps of two sizes subtracted", ErrShape, func(b *builder) *builder { return b.op("Sub", "y", in("r", "g")) }},
		{"slopes for other channels", ErrShape, func(b *builder) *builder { return b.float("k", 1, 2, 3, 4).op("PRelu", "y", in("r", "k")) }},
		{"slopes along the width", ErrShape, func(b *builder) *builder { return b.weight("k", 4).op("PRelu", "y", in("r", "k")) }},
		{"slopes that are a map", ErrUnsupported, func(b *builder) *builder { return b.op("PRelu", "y", in("r", "c")) }},
		{"a slope without end", ErrValue, func(b *builder) *builder {
			return b.op("LeakyRelu", "y", in("r"), floatAttr("alpha", float32(math.Inf(1))))
		}},
		{"a bound for each channel", ErrShape, func(b *builder) *builder { return b.float("k", 1, 2, 3).op("Max", "y", in("r", "k")) }},
		{"a constant divided", ErrUnsupported, func(b *builder) *builder { return b.float("k", 1).op("Div", "y", in("k", "r")) }},
		{"divided by nothing", ErrValue, func(b *builder) *builder { return b.float("k", 1, 0, 1).op("Div", "y", in("r", "k")) }},
		{"numbers for more positions than a map has", ErrShape, func(b *builder) *builder {
			return b.op("GlobalAveragePool", "p", in("r")).float("k", 1, 1, 1, 1).op("Reshape", "l", in("k", "s")).ints("s", 1, 1, 2, 2).op("Mul", "y", in("p", "l"))
		}},
		{"numbers for other channels", ErrShape, func(b *builder) *builder { return b.float("k", 1, 2, 3, 4).op("Mul", "y", in("r", "k")) }},
		{"a size of zero", ErrShape, func(b *builder) *builder {
			return b.ints("s", 0, 3, 4, 4).op("Reshape", "y", in("r", "s"), intAttr("allowzero", 1))
		}},
	} {
		b := c.add(good()).op("GlobalAveragePool", "q", in("y")).outputs("q")
		if _, err := b.load(t, Options{}); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
}

func TestViewsRefuse(t *testing.T) {
	slice := func(b *builder, from, to, axis, step int64, more ...*onnxpb.AttributeProto) *builder {
		return b.ints("from", from).ints("to", to).ints("axis", axis).ints("step", step).op("Slice", "y", in("r", "from", "to", "axis", "step"), more...)
	}
	split := func(b *builder, opset int64, in []string, more ...*onnxpb.AttributeProto) *builder {
		b.m.OpsetImport[0].Version = &opset
		b.op("Split", "y", in, append(more, intAttr("axis", 1))...)
		n := b.m.Graph.Node[len(b.m.Graph.Node)-1]
		n.Output = append(n.Output, "z")
		return b
	}
	for _, c := range []struct {
		name string
		want error
		add  func(b *builder) *builder // makes y of r, a map of 3 x 4 x 4
	}{
		{"rows in another order", ErrUnsupported, func(b *builder) *builder { return slice(b, math.MaxInt64, math.MinInt64, -2, -1) }},
		{"nothing is left", ErrShape, func(b *builder) *builder { return slice(b, 2, 2, 2, 1) }},
		{"beyond the end", ErrShape, func(b *builder) *builder { return slice(b, math.MaxInt64, math.MaxInt64, 1, 1) }},
		{"no such axis", ErrAttribute, func(b *builder) *builder { return slice(b, 0, 1, 4, 1) }},
		{"steps of zero", ErrAttribute, func(b *builder) *builder { return slice(b, 0, 1, 1, 0) }},
		{"starts given twice", ErrDuplicate, func(b *builder) *builder { return slice(b, 0, 1, 1, 1, intsAttr("starts", 0)) }},
		{"the batch moved", ErrAttribute, func(b *builder) *builder { return b.op("Transpose", "y", in("r"), intsAttr("perm", 1, 0, 2, 3)) }},
		{"channels into the batch", ErrShape, func(b *builder) *builder { return b.ints("s", 3, 1, 4, 4).op("Reshape", "y", in("r", "s")) }},
		{"unequal parts before opset 18", ErrShape, func(b *builder) *builder { return split(b, 13, in("r")) }},
		{"unequal parts of opset 18", nil, func(b *builder) *builder { return split(b, 18, in("r"), intAttr("num_outputs", 2)) }},
		{"another number of outputs", ErrAttribute, func(b *builder) *builder { return split(b, 18, in("r"), intAttr("num_outputs", 3)) }},
		{"sizes given twice", ErrDuplicate, func(b *builder) *builder {
			return split(b.ints("sizes", 1, 2), 13, in("r", "sizes"), intsAttr("split", 1, 2))
		}},
		{"more axes than a view has", ErrTooLarge, func(b *builder) *builder {
			return b.ints("s", slices.Concat([]int64{1, 3, 4, 4}, slices.Repeat([]int64{1}, 13))...).op("Reshape", "y", in("r", "s"))
		}},
		{"rows of one channel, each of one", ErrUnsupported, func(b *builder) *builder {
			return b.weight("one", 1, 3, 4, 1).op("Conv", "o", in("r", "one")).ints("twice", 0, 0).op("Gather", "y", in("o", "twice"), intAttr("axis", 2))
		}},
		{"sizes of another sum", ErrShape, func(b *builder) *builder { return split(b.ints("sizes", 2, 2), 13, in("r", "sizes")) }},
	} {
		b := c.add(good()).op("GlobalAveragePool", "q", in("y")).outputs("q")
		if _, err := b.load(t, Options{}); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
}

// Before opset 13, Softmax normalises over the named axis and all axes after it together.
func TestSoftmaxOfAMap(t *testing.T) {
	for opset, want := range map[int64]error{11: ErrUnsupported, 13: nil} {
		b := good().op("Softmax", "y", in("r"), intAttr("axis", 1)).outputs("y")
		b.m.OpsetImport[0].Version = &opset
		if _, err := b.load(t, Options{Exits: []string{"y"}}); !errors.Is(err, want) {
			t.Errorf("opset %d: %v, want %v", opset, err, want)
		}
	}
}

// A file of a few bytes asks for one channel of a large kernel many times: it is copied, not made as often.
func TestManyOfOneChannel(t *testing.T) {
	b := build(1, 3, 32, 32).op("Conv", "c", in("x", "w")).ints("i", slices.Repeat([]int64{0}, 4000)...).
		op("Gather", "y", in("c", "i"), intAttr("axis", 1)).op("GlobalAveragePool", "q", in("y")).outputs("q")
	b.weight("w", 2, 3, 32, 32)
	g, err := b.load(t, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range g.Nodes {
		if len(n.Weights) > 8000 { // 4000 x 2 elements to copy
			t.Errorf("%s has %d weights, expected at most 8000", n.Name, len(n.Weights))
		}
	}
}

// Maps that are concatenated repeatedly lie in one place: every Concat reads the previous one.
func TestDenseIsNested(t *testing.T) {
	g, err := ImportFile("testdata/ops/dense.onnx", Options{})
	if err != nil {
		t.Fatal(err)
	}
	var inputs []int
	for _, n := range g.Nodes {
		if n.Op == graph.Concat {
			inputs = append(inputs, len(n.Inputs))
		}
	}
	// two concatenations that begin like another one but continue differently do not change
	if diff := cmp.Diff([]int{2, 2, 2, 2, 2, 3, 3}, inputs); diff != "" {
		t.Errorf("inputs of the concatenations: %s", diff)
	}
}

// A mean over more elements than the hardware can sum at once is computed in two steps.
func TestGlobalInTwoSteps(t *testing.T) {
	for _, op := range []string{"GlobalAveragePool", "GlobalMaxPool"} {
		b := build(1, 2, 300, 96).op(op, "mean", in("x")).outputs("mean")
		g, err := b.load(t, Options{})
		if err != nil {
			t.Fatal(err)
		}
		rng := rand.New(rand.NewPCG(1, 2))
		x, want := make([]float32, 2*300*96), [2]float64{}
		for i := range x {
			x[i] = rng.Float32()
			if op == "GlobalMaxPool" {
				want[i%2] = max(want[i%2], float64(x[i]))
			} else {
				want[i%2] += float64(x[i]) / (300 * 96)
			}
		}
		got, err := graph.Run(g, x)
		if err != nil {
			t.Fatal(err)
		}
		for c, w := range want {
			if v := float64(got[g.Exits[0].Tensor][c]); math.Abs(v-w) > 1e-5 {
				t.Errorf("%s, channel %d: %v, expected %v", op, c, v, w)
			}
		}
		for _, n := range g.Nodes {
			if w := n.Window; w.KH > 255 || max(w.SH, w.SW) > 15 || n.Op == graph.AvgPool && w.KH*w.KW > 8192 {
				t.Errorf("%s: %+v", op, w)
			}
		}
	}
}
