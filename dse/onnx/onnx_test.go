package onnx

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/sluice-npu/sluice/dse/graph"
	"github.com/sluice-npu/sluice/dse/onnx/onnxpb"
)

func TestGood(t *testing.T) {
	g, err := good().load(t, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for n, node := range g.Nodes {
		got = append(got, fmt.Sprintf("%d %v %s", g.Segment[n], node.Op, g.Tensors[node.Output].Name))
	}
	want := []string{"0 Conv r", "0 AvgPool g", "0 Conv e1", "1 Conv e2"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if g.Name != "built" {
		t.Errorf("the network is called %q", g.Name)
	}
}

// TestBad changes the good network in one way each.
func TestBad(t *testing.T) {
	node := func(b *builder, i int) *onnxpb.NodeProto { return b.m.Graph.Node[i] }
	weight := func(b *builder) *onnxpb.TensorProto { return b.m.Graph.Initializer[0] }
	shape := func(b *builder) *onnxpb.TensorShapeProto { return b.m.Graph.Input[0].Type.TensorType.Shape }
	dim := func(v int64) *onnxpb.TensorShapeProto_Dimension_DimValue {
		return &onnxpb.TensorShapeProto_Dimension_DimValue{DimValue: v}
	}
	cases := []struct {
		name   string
		want   error
		says   []string // what the error's text must contain
		change func(*builder)
	}{
		{"no graph", ErrFormat, nil, func(b *builder) { b.m.Graph = nil }},
		{"no nodes", ErrFormat, nil, func(b *builder) { b.m.Graph.Node = nil }},
		{"no opset", ErrFormat, []string{"opset 0"}, func(b *builder) { b.m.OpsetImport = nil }},
		{"old opset", ErrFormat, []string{"opset 6"}, func(b *builder) { b.m.OpsetImport[0].Version = proto.Int64(6) }},
		{"unknown metadata", ErrFormat, []string{"sluice.weights"}, func(b *builder) { b.seeded().m.MetadataProps[0].Value = proto.String("no") }},
		{"too many nodes", ErrTooLarge, []string{"20007"}, func(b *builder) {
			for i := range 20000 {
				b.op("Relu", fmt.Sprint(i), in("x"))
			}
		}},
		{"cycle", ErrCycle, []string{`"c" (Conv)`}, func(b *builder) { node(b, 0).Input[0] = "r" }},
		{"self", ErrCycle, []string{`"r" (Relu)`}, func(b *builder) { node(b, 1).Input[0] = "r" }},
		{"tensor written twice", ErrDuplicate, []string{`"r"`}, func(b *builder) { node(b, 0).Output[0] = "r" }},
		{"node writes the input", ErrDuplicate, []string{`"x"`}, func(b *builder) { b.op("Relu", "x", in("r")) }},
		{"node writes a weight", ErrDuplicate, []string{`"w"`}, func(b *builder) { b.op("Relu", "w", in("r")) }},
		{"initializer twice", ErrDuplicate, []string{`"w"`}, func(b *builder) { b.weight("w", 1) }},
		{"attribute twice", ErrDuplicate, []string{`"pads"`}, func(b *builder) { node(b, 0).Attribute = append(node(b, 0).Attribute, node(b, 0).Attribute[0]) }},
		{"missing initializer", ErrMissing, []string{`"c" (Conv)`, `"w"`}, func(b *builder) { b.m.Graph.Initializer = b.m.Graph.Initializer[1:] }},
		{"unnamed initializer", ErrMissing, nil, func(b *builder) { weight(b).Name = nil }},
		{"missing input", ErrMissing, nil, func(b *builder) { b.m.Graph.Input = nil }},
		{"missing weights of a node", ErrMissing, nil, func(b *builder) { node(b, 0).Input = in("x") }},
		{"weights left empty", ErrMissing, nil, func(b *builder) { node(b, 0).Input[1] = "" }},
		{"map left empty", ErrMissing, []string{"input 0"}, func(b *builder) { node(b, 0).Input[0] = "" }},
		{"node without outputs", ErrMissing, []string{`"z" (Relu)`}, func(b *builder) { b.op("Relu", "z", in("x")); node(b, len(b.m.Graph.Node)-1).Output = nil }},
		{"output without a name", ErrMissing, nil, func(b *builder) {
			node(b, 0).Output = []string{"", "c"}
		}},
		{"two inputs", ErrUnsupported, []string{`"x" and "y"`}, func(b *builder) {
			b.m.Graph.Input = append(b.m.Graph.Input, &onnxpb.ValueInfoProto{Name: proto.String("y")})
		}},
		{"input without a type", ErrShape, []string{`"x"`}, func(b *builder) { b.m.Graph.Input[0].Type = nil }},
		{"input of integers", ErrType, []string{`"x"`}, func(b *builder) { b.m.Graph.Input[0].Type.TensorType.ElemType = proto.Int32(7) }},
		{"input of bytes without a Cast", ErrUnsupported, []string{`"x"`, "a Cast to float"}, func(b *builder) { b.m.Graph.Input[0].Type.TensorType.ElemType = proto.Int32(typeUint8) }},
		{"input of rank 3", ErrShape, []string{"rank 3"}, func(b *builder) { shape(b).Dim = shape(b).Dim[:3] }},
		{"input of unknown height", ErrShape, []string{`"x"`, `dimension 2 is open ("height"); --input-side`}, func(b *builder) {
			shape(b).Dim[2].Value = &onnxpb.TensorShapeProto_Dimension_DimParam{DimParam: "height"}
		}},
		{"input of no channels", ErrShape, []string{`dimension 1 is 0, expected a number from 1 to`}, func(b *builder) { shape(b).Dim[1].Value = dim(0) }},
		{"huge input", ErrShape, []string{"1099511627776"}, func(b *builder) { shape(b).Dim[2].Value = dim(1 << 40) }},
		{"large input", ErrTooLarge, []string{"65535 x 65535 x 2"}, func(b *builder) { shape(b).Dim[2].Value, shape(b).Dim[3].Value = dim(65535), dim(65535) }},
		{"negative channels", ErrShape, nil, func(b *builder) { shape(b).Dim[1].Value = dim(-3) }},
		{"channels differ", ErrShape, []string{`"w"`, "[3 2 3 3]", "[any 5 any any]"}, func(b *builder) { shape(b).Dim[1].Value = dim(5) }},
		{"weights of rank 3", ErrShape, []string{`"w"`, "rank 3"}, func(b *builder) { weight(b).Dims = []int64{3, 2, 9} }},
		{"weights of nothing", ErrShape, []string{`"w"`}, func(b *builder) { weight(b).Dims[0], weight(b).FloatData = 0, nil }},
		{"negative dimension", ErrShape, []string{`"w"`, "-3"}, func(b *builder) { weight(b).Dims[0] = -3 }},
		{"overflowing dimensions", ErrTooLarge, []string{`"w"`}, func(b *builder) { weight(b).Dims = []int64{1 << 32, 1 << 32, 1 << 32, 1 << 32} }},
		{"large dimensions", ErrTooLarge, []string{`"w"`}, func(b *builder) { weight(b).Dims = []int64{1 << 14, 1 << 14, 3, 3} }},
		{"too few values", ErrData, []string{`"w"`, "53 values", "need 54"}, func(b *builder) { weight(b).FloatData = weight(b).FloatData[1:] }},
		{"too many values", ErrData, []string{`"w"`}, func(b *builder) { weight(b).FloatData = append(weight(b).FloatData, 1) }},
		{"too few bytes", ErrData, []string{`"w"`, "215 bytes", "need 216"}, func(b *builder) { weight(b).FloatData, weight(b).RawData = nil, make([]byte, 215) }},
		{"bytes and values", ErrData, nil, func(b *builder) { weight(b).RawData = make([]byte, 216) }},
		{"no data", ErrData, []string{`"w"`}, func(b *builder) { weight(b).FloatData = nil }},
		{"external data", ErrExternal, []string{`"w"`}, func(b *builder) {
			weight(b).DataLocation, weight(b).FloatData = onnxpb.TensorProto_EXTERNAL.Enum(), nil
		}},
		{"external and inside", ErrData, []string{`"w"`}, func(b *builder) {
			weight(b).DataLocation = onnxpb.TensorProto_EXTERNAL.Enum()
		}},
		{"external file", ErrExternal, []string{`"w"`, `"f"`}, func(b *builder) {
			weight(b).FloatData = nil
			weight(b).ExternalData = []*onnxpb.StringStringEntryProto{{Key: proto.String("location"), Value: proto.String("f")}}
		}},
		{"unknown type", ErrType, []string{`"w"`, " 17;"}, func(b *builder) { weight(b).DataType = proto.Int32(17) }},
		{"integer weights", ErrType, []string{`"w"`}, func(b *builder) {
			weight(b).DataType, weight(b).Int64Data, weight(b).FloatData = proto.Int32(typeInt64), make([]int64, 54), nil
		}},
		{"NaN", ErrValue, []string{`"w"`, "element 7"}, func(b *builder) { weight(b).FloatData[7] = float32(math.NaN()) }},
		{"infinity", ErrValue, []string{`"w"`, "element 9"}, func(b *builder) { weight(b).FloatData[9] = float32(math.Inf(-1)) }},
		{"sparse weights", ErrUnsupported, nil, func(b *builder) { b.m.Graph.SparseInitializer = []*onnxpb.SparseTensorProto{{}} }},
		{"sub-graph", ErrSubgraph, []string{`"r"`, "body"}, func(b *builder) {
			node(b, 1).Attribute = []*onnxpb.AttributeProto{{Name: proto.String("body"), G: &onnxpb.GraphProto{}}}
		}},
		{"attribute of the wrong type", ErrAttribute, []string{`"pads"`, "INTS"}, func(b *builder) { node(b, 0).Attribute[0] = intAttr("pads", 1) }},
		{"attribute without a type", ErrAttribute, nil, func(b *builder) { node(b, 0).Attribute[0].Type = nil }},
		{"unknown attribute", ErrAttribute, []string{`"colour"`, `"r" (Relu)`}, func(b *builder) { node(b, 1).Attribute = append(node(b, 1).Attribute, intAttr("colour", 1)) }},
		{"ceil_mode of a convolution", ErrAttribute, nil, func(b *builder) { node(b, 0).Attribute = append(node(b, 0).Attribute, intAttr("ceil_mode", 0)) }},
		{"function's attribute", ErrAttribute, nil, func(b *builder) { node(b, 0).Attribute[0].RefAttrName = proto.String("p") }},
		{"dilation", ErrUnsupported, []string{"381 x 1", "at most 255"}, func(b *builder) {
			b.weight("v", 3, 2, 39, 1)
			node(b, 0).Input[1], node(b, 0).Attribute = "v", []*onnxpb.AttributeProto{intsAttr("dilations", 10, 1), intsAttr("pads", 200, 1, 200, 1)}
		}},
		{"dilation of a pool", ErrAttribute, []string{`"dilations"`}, func(b *builder) {
			b.op("MaxPool", "z", in("c"), intsAttr("kernel_shape", 2, 2), intsAttr("dilations", 2, 2))
			node(b, 1).Input[0] = "z"
		}},
		{"negative pad", ErrAttribute, []string{`"pads"`}, func(b *builder) { node(b, 0).Attribute[0] = intsAttr("pads", -1, 1, 1, 1) }},
		{"two pads", ErrAttribute, []string{"4 numbers"}, func(b *builder) { node(b, 0).Attribute[0] = intsAttr("pads", 1, 1) }},
		{"zero stride", ErrAttribute, []string{`"strides"`}, func(b *builder) { node(b, 0).Attribute = append(node(b, 0).Attribute, intsAttr("strides", 0, 1)) }},
		{"huge stride", ErrAttribute, nil, func(b *builder) {
			node(b, 0).Attribute = append(node(b, 0).Attribute, intsAttr("strides", 1, math.MaxInt64))
		}},
		{"auto_pad", ErrAttribute, []string{`"SAME"`}, func(b *builder) { node(b, 0).Attribute = append(node(b, 0).Attribute, stringAttr("auto_pad", "SAME")) }},
		{"kernel_shape", ErrAttribute, []string{"[5 5]"}, func(b *builder) { node(b, 0).Attribute = append(node(b, 0).Attribute, intsAttr("kernel_shape", 5, 5)) }},
		{"groups", ErrAttribute, []string{`"group"`}, func(b *builder) { node(b, 0).Attribute = append(node(b, 0).Attribute, intAttr("group", 3)) }},
		{"zero groups", ErrAttribute, nil, func(b *builder) { node(b, 0).Attribute = append(node(b, 0).Attribute, intAttr("group", 0)) }},
		{"kernel larger than the map", ErrShape, []string{"3 x 3"}, func(b *builder) { shape(b).Dim[2].Value, node(b, 0).Attribute = dim(2), nil }},
		{"transposed map", ErrAttribute, []string{`"transA"`}, func(b *builder) { node(b, 4).Attribute = append(node(b, 4).Attribute, intAttr("transA", 1)) }},
		{"matrix of a wrong size", ErrShape, []string{`"n"`, "[48 any]"}, func(b *builder) {
			b.weight("other", 47, 5)
			b.m.Graph.Initializer[2].Name, b.m.Graph.Initializer[3].Name = proto.String("other"), proto.String("n")
		}},
		{"matrix times a map", ErrShape, []string{"rank 4"}, func(b *builder) { node(b, 6).Input[0] = "r" }},
		{"product of maps", ErrUnsupported, []string{"constant"}, func(b *builder) { node(b, 6).Input[1] = "f" }},
		{"weight as a map", ErrUnsupported, []string{`"w"`}, func(b *builder) { node(b, 2).Input[0] = "w" }},
		{"flatten from 2", ErrAttribute, []string{`"axis"`}, func(b *builder) { node(b, 3).Attribute = []*onnxpb.AttributeProto{intAttr("axis", 2)} }},
		{"too many inputs", ErrMissing, []string{"2 inputs"}, func(b *builder) { node(b, 1).Input = in("c", "c") }},
		{"an exit that is the input", ErrExits, []string{`"x"`}, func(b *builder) { b.outputs("x") }},
		{"an exit that is nothing", ErrExits, []string{`"nothing"`}, func(b *builder) { b.outputs("nothing") }},
		{"an exit twice", ErrExits, []string{`"e1"`}, func(b *builder) { b.outputs("e1") }},
		{"an exit that is a second output", ErrExits, []string{`"mask" is output 1, counted from 0, of node "z" (Dropout), which is not computed`}, func(b *builder) {
			b.op("Dropout", "z", in("c")).outputs("mask")
			b.m.Graph.Node[len(b.m.Graph.Node)-1].Output = []string{"z", "mask"}
		}},
		{"an exit by two names", ErrExits, []string{`"e1"`, `"same"`}, func(b *builder) { b.op("Identity", "same", in("e1")).outputs("same") }},
		{"no exits", ErrExits, nil, func(b *builder) { b.m.Graph.Output = nil }},
		{"too many exits", ErrExits, nil, func(b *builder) {
			for i := range 70 {
				b.outputs(fmt.Sprint(i))
			}
		}},
		{"softmax inside", ErrUnsupported, []string{"Softmax", "--exits"}, func(b *builder) { b.op("Softmax", "s", in("f")); node(b, 4).Input[0] = "s" }},
		{"softmax over width", ErrAttribute, []string{`"axis"`}, func(b *builder) { b.op("Softmax", "s", in("g")); node(b, 3).Input[0] = "s" }},
		{"a second output", ErrUnsupported, []string{`"mask"`}, func(b *builder) {
			b.op("Dropout", "d", in("r"))
			node(b, 7).Output = append(node(b, 7).Output, "mask")
			node(b, 2).Input[0] = "mask"
		}},
		{"crossing bounds", ErrAttribute, nil, func(b *builder) {
			b.op("Clip", "k", in("c"), floatAttr("min", 1), floatAttr("max", 0))
			node(b, 1).Input[0] = "k"
		}},
		{"pad of the batch", ErrAttribute, []string{"[1 0 0 0 0 0 0 0]"}, func(b *builder) {
			b.ints("p", 1, 0, 0, 0, 0, 0, 0, 0).op("Pad", "q", in("x", "p"))
			node(b, 0).Input[0] = "q"
		}},
		{"pad with infinity", ErrUnsupported, []string{"max pool"}, func(b *builder) {
			b.ints("p", 0, 0, 1, 1, 0, 0, 1, 1).op("Pad", "q", in("x", "p"), floatAttr("value", float32(math.Inf(-1))))
			node(b, 0).Input[0] = "q"
		}},
		{"reflecting pad", ErrAttribute, []string{"reflect"}, func(b *builder) {
			b.ints("p", 0, 0, 1, 1, 0, 0, 1, 1).op("Pad", "q", in("x", "p"), stringAttr("mode", "reflect"))
			node(b, 0).Input[0] = "q"
		}},
		{"a window in the padding", ErrShape, []string{"padding"}, func(b *builder) {
			b.op("MaxPool", "z", in("c"), intsAttr("kernel_shape", 2, 2), intsAttr("pads", 2, 2, 2, 2))
			node(b, 1).Input[0] = "z"
		}},
		{"indices of a maximum", ErrAttribute, []string{"storage_order"}, func(b *builder) {
			b.op("MaxPool", "z", in("c"), intsAttr("kernel_shape", 2, 2), intAttr("storage_order", 1))
			node(b, 1).Input[0] = "z"
		}},
		{"pool without a kernel", ErrAttribute, []string{"kernel_shape"}, func(b *builder) { b.op("AveragePool", "z", in("c")); node(b, 1).Input[0] = "z" }},
		{"maximum over channels", ErrUnsupported, []string{"ReduceMax"}, func(b *builder) {
			b.op("ReduceMax", "z", in("r"), intsAttr("axes", 1))
			node(b, 3).Input[0] = "z"
		}},
		{"axes beyond the rank", ErrAttribute, nil, func(b *builder) {
			b.op("ReduceMean", "z", in("r"), intsAttr("axes", 2, 4))
			node(b, 3).Input[0] = "z"
		}},
		{"sum of different maps", ErrShape, []string{"[1 3 4 4]", "[1 3 1 1]"}, func(b *builder) { b.op("Add", "z", in("c", "g")); node(b, 5).Input[0] = "z" }},
		{"constant of a wrong size", ErrShape, []string{`"k"`}, func(b *builder) { b.weight("k", 2).op("Add", "z", in("c", "k")); node(b, 1).Input[0] = "z" }},
		{"concatenation by rows", ErrAttribute, []string{`"axis"`}, func(b *builder) {
			b.op("Concat", "z", in("c", "c"), intAttr("axis", 2))
			node(b, 1).Input[0] = "z"
		}},
		{"concatenation of sizes", ErrShape, nil, func(b *builder) {
			b.op("GlobalMaxPool", "y", in("c")).op("Concat", "z", in("c", "y"))
			node(b, 1).Input[0] = "z"
		}},
		{"normalisation in training", ErrAttribute, []string{"training_mode"}, func(b *builder) {
			b.weight("k", 3).op("BatchNormalization", "z", in("c", "k", "k", "k", "k"), intAttr("training_mode", 1))
			node(b, 1).Input[0] = "z"
		}},
		{"normalisation by its own statistics", ErrUnsupported, []string{"five outputs"}, func(b *builder) {
			b.weight("k", 3).op("BatchNormalization", "z", in("c", "k", "k", "k", "k"))
			node(b, 7).Output = in("z", "z1", "z2", "z3", "z4")
			node(b, 1).Input[0] = "z"
		}},
		{"negative variance", ErrValue, []string{`"k"`}, func(b *builder) {
			b.weight("k", 3).op("BatchNormalization", "z", in("c", "k", "k", "k", "k"))
			node(b, 1).Input[0] = "z"
		}},
		{"overflow while folding", ErrValue, []string{"after folding"}, func(b *builder) {
			b.tensor(&onnxpb.TensorProto{Name: proto.String("k"), DataType: proto.Int32(typeFloat), Dims: []int64{3}, FloatData: []float32{3e38, 3e38, 3e38}})
			b.tensor(&onnxpb.TensorProto{Name: proto.String("v"), DataType: proto.Int32(typeFloat), Dims: []int64{3}, FloatData: []float32{0, 0, 0}})
			b.op("BatchNormalization", "z", in("c", "k", "v", "v", "v"))
			node(b, 1).Input[0] = "z"
		}},
		{"reshape to something else", ErrShape, []string{"[1 3 4 4]", "[1 5 10]"}, func(b *builder) {
			b.ints("s", 1, 5, 10).op("Reshape", "z", in("r", "s"))
			node(b, 5).Input[0] = "z"
		}},
		{"reshape with overflow", ErrShape, nil, func(b *builder) {
			b.ints("s", -1, 1<<28, 1<<28, 1<<28).op("Reshape", "z", in("r", "s"))
			node(b, 5).Input[0] = "z"
		}},
		{"reshape into the batch", ErrShape, nil, func(b *builder) {
			b.ints("s", 3, 16).op("Reshape", "z", in("r", "s"))
			node(b, 5).Input[0] = "z"
		}},
		{"reshape of a fixed batch into one sample", ErrShape, []string{"[2 3 4 4] to [1 96]", "moves the batch"}, func(b *builder) {
			shape(b).Dim[0].Value = dim(2)
			b.ints("s", 1, -1).op("Reshape", "z", in("r", "s"))
			node(b, 6).Input[0] = "z"
		}},
		{"reshape of a fixed batch to one sample's size", ErrShape, []string{"[2 3 4 4]", "[1 48]"}, func(b *builder) {
			shape(b).Dim[0].Value = dim(2)
			b.ints("s", 1, 48).op("Reshape", "z", in("r", "s"))
			node(b, 6).Input[0] = "z"
		}},
		{"slice of a fixed batch", ErrUnsupported, []string{"along the batch"}, func(b *builder) {
			shape(b).Dim[0].Value = dim(2)
			b.ints("from", 0).ints("to", 1).op("Slice", "z", in("r", "from", "to"))
			node(b, 5).Input[0] = "z"
		}},
		{"slice that turns the batch around", ErrUnsupported, []string{"along the batch"}, func(b *builder) {
			b.ints("from", -1).ints("to", -9).ints("axis", 0).ints("step", -1).op("Slice", "z", in("r", "from", "to", "axis", "step"))
			node(b, 5).Input[0] = "z"
		}},
		{"constant without a value", ErrMissing, nil, func(b *builder) { b.op("Constant", "k", nil).op("Add", "z", in("c", "k")); node(b, 1).Input[0] = "z" }},
		{"constant too large", ErrTooLarge, nil, func(b *builder) {
			b.ints("s", 1<<14, 1<<15).op("ConstantOfShape", "z", in("s")).op("Reshape", "y", in("r", "z"))
			node(b, 5).Input[0] = "y"
		}},
		{"index out of range", ErrShape, []string{"index 4 of 4"}, func(b *builder) {
			b.ints("i", 4).op("Shape", "s", in("r")).op("Gather", "z", in("s", "i")).op("Reshape", "y", in("r", "z"))
			node(b, 5).Input[0] = "y"
		}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			b := good()
			c.change(b)
			g, err := b.load(t, Options{Name: "the network"})
			if !errors.Is(err, c.want) {
				t.Fatalf("got %v and %v, expected %v", g, err, c.want)
			}
			for _, s := range append(c.says, "the network: ") {
				if !strings.Contains(err.Error(), s) {
					t.Errorf("the error does not say %q: %v", s, err)
				}
			}
		})
	}
}

func TestTruncated(t *testing.T) {
	content := good().bytes(t)
	for n := range len(content) {
		// Cut between two fields, a model may still be one; it then lacks nodes, weights or outputs.
		if _, err := Import(bytes.NewReader(content[:n]), Options{}); err == nil {
			t.Errorf("%d of %d bytes are accepted", n, len(content))
		}
	}
	if _, err := Import(bytes.NewReader(content[:len(content)/2]), Options{}); !errors.Is(err, ErrFormat) {
		t.Errorf("half a model gives %v", err)
	}
}

func TestTooLarge(t *testing.T) {
	content := good().bytes(t)
	if _, err := Import(bytes.NewReader(content), Options{MaxBytes: int64(len(content)) - 1}); !errors.Is(err, ErrTooLarge) {
		t.Errorf("a byte too many gives %v", err)
	}
	if _, err := Import(bytes.NewReader(content), Options{MaxBytes: int64(len(content))}); err != nil {
		t.Errorf("the very size that is allowed gives %v", err)
	}
	// Weights that are in no file count too.
	b := build(1, 2, 4, 4).seeded().
		tensor(&onnxpb.TensorProto{Name: proto.String("n"), DataType: proto.Int32(typeFloat), Dims: []int64{32, 1 << 20}}).
		op("Flatten", "f", in("x")).op("MatMul", "e", in("f", "n")).outputs("e")
	if _, err := b.load(t, Options{MaxBytes: 1 << 20}); !errors.Is(err, ErrTooLarge) {
		t.Errorf("32 Mi weights from a small file give %v", err)
	}
}

// Of files quantised in another form the error says which form is read.
func TestUnsupportedQuantised(t *testing.T) {
	for op, says := range map[string]string{
		"QLinearConv": "quantise to QDQ", "ConvInteger": "quantise statically", "com.microsoft.QuantizeLinear": "quantise to 8 bits", "com.microsoft.QGemm": "quantise to QDQ", "LSTM": "",
	} {
		at := strings.LastIndex(op, ".") + 1
		b := good().op(op[at:], "q", in("r"))
		b.m.Graph.Node[len(b.m.Graph.Node)-1].Domain = proto.String(strings.TrimSuffix(op[:at], "."))
		_, err := b.op("GlobalAveragePool", "e", in("q")).outputs("e").load(t, Options{})
		if !errors.Is(err, ErrUnsupported) || !strings.Contains(err.Error(), says) || says == "" && strings.Contains(err.Error(), "quantise") {
			t.Errorf("%s: %v, expected %q", op, err, says)
		}
	}
}

func TestUnsupported(t *testing.T) {
	b := good().op("LSTM", "l1", in("r")).op("LSTM", "", in("l1")).op("Frobnicate", "q", in("r"))
	b.m.Graph.Node[8].Output = in("l2")
	b.m.Graph.Node[9].Domain = proto.String("my")
	b.op("LSTM", "unused", in("r"))
	b.op("GlobalAveragePool", "e3", in("l2")).op("GlobalAveragePool", "e4", in("q")).outputs("e3", "e4")
	_, err := b.load(t, Options{})
	var got *UnsupportedError
	if !errors.As(err, &got) || !errors.Is(err, ErrUnsupported) {
		t.Fatal(err)
	}
	want := []UnsupportedOp{{Op: "LSTM", Nodes: []string{`"l1"`, `"l2"`}}, {Op: "my.Frobnicate", Nodes: []string{`"q"`}}}
	if d := cmp.Diff(want, got.Ops); d != "" {
		t.Error(d)
	}
	for _, s := range []string{`LSTM x2 ("l1", "l2"); my.Frobnicate x1 ("q"); supported are Abs, Add, AveragePool, `, "Unsqueeze"} {
		if !strings.Contains(err.Error(), s) {
			t.Errorf("the error does not say %q: %v", s, err)
		}
	}
}

func TestNamedExits(t *testing.T) {
	cases := []struct {
		name  string
		exits []string
		want  error
		nodes int
	}{
		{"one of two", []string{"e1"}, nil, 3},
		{"inside", []string{"g"}, nil, 2},
		{"in any order", []string{"e2", "e1"}, nil, 4},
		{"twice", []string{"e1", "e1"}, ErrExits, 0},
		{"a map", []string{"c"}, nil, 1},
		{"a weight", []string{"w"}, ErrExits, 0},
		{"unknown", []string{"who"}, ErrExits, 0},
		{"empty", []string{""}, ErrExits, 0},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			g, err := good().load(t, Options{Exits: c.exits})
			if !errors.Is(err, c.want) {
				t.Fatalf("got %v, expected %v", err, c.want)
			}
			if err != nil {
				return
			}
			if len(g.Nodes) != c.nodes || len(g.Exits) != len(c.exits) {
				t.Errorf("%d nodes and %d exits, expected %d and %d", len(g.Nodes), len(g.Exits), c.nodes, len(c.exits))
			}
			if len(g.Exits) == 2 && g.Exits[0].Name != "e1" {
				t.Errorf("the first exit is %s", g.Exits[0].Name)
			}
		})
	}
}

func TestLoadExits(t *testing.T) {
	cases := []struct {
		name, content string
		want          []string
		err           error
	}{
		{"two", "exits:\n  - /a/b\n  - c\n", []string{"/a/b", "c"}, nil},
		{"inline", "exits: [a]", []string{"a"}, nil},
		{"with confidence", "exits: [a, {tensor: b, confidence: entropy}, {tensor: c}]", []string{"a", "b", "c", "b is entropy"}, nil},
		{"another key", "exits: [{tensor: b, confidences: entropy}]", nil, ErrExits},
		{"a list in a list", "exits: [[a]]", nil, ErrExits},
		{"no tensor", "exits: [{confidence: entropy}]", nil, ErrExits},
		{"empty", "", nil, ErrExits},
		{"none", "exits: []", nil, ErrExits},
		{"twice", "exits: [a, a]", nil, ErrExits},
		{"no name", "exits: [\"\"]", nil, ErrExits},
		{"a list", "[a, b]", nil, ErrExits},
		{"unknown key", "exits: [a]\nexit: b", nil, ErrExits},
		{"not YAML", "exits: [a", nil, ErrExits},
		{"two documents", "exits: [a]\n---\nexits: [b]\n", nil, ErrExits},
		{"a document and no YAML", "exits: [a]\n---\nexits: [b", nil, ErrExits},
		{"large", "#" + strings.Repeat(" ", 1<<20), nil, ErrTooLarge},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "exits.yaml")
			if err := os.WriteFile(path, []byte(c.content), 0o600); err != nil {
				t.Fatal(err)
			}
			got, sure, err := LoadExits(path)
			for name, by := range sure {
				got = append(got, name+" is "+by)
			}
			if !errors.Is(err, c.err) {
				t.Fatalf("got %v, expected %v", err, c.err)
			}
			if err != nil && !strings.Contains(err.Error(), path) {
				t.Errorf("the error does not name the file: %v", err)
			}
			if err == nil && !cmp.Equal(got, c.want) {
				t.Errorf("got %q, expected %q", got, c.want)
			}
		})
	}
	if _, _, err := LoadExits("/nowhere/exits.yaml"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is not there gives %v", err)
	}
}

// An exit uses the confidence measure of the file of exits, if that is valid for the exit.
func TestConfidence(t *testing.T) {
	head := func(classes int64, activation string) *builder {
		b := build(1, 3, 4, 4).op("GlobalAveragePool", "g", in("x")).op("Flatten", "f", in("g")).weight("n", 3, classes).op("MatMul", "e", in("f", "n"))
		if activation == "" {
			return b.outputs("e")
		}
		return b.op(activation, "a", in("e")).outputs("a")
	}
	seen := head(5, "Sigmoid").op("Identity", "i", in("a"))
	seen.m.Graph.Output[0].Name = proto.String("i")
	plane := build(1, 3, 4, 4).weight("w", 1, 3, 1, 1).op("Conv", "e", in("x", "w")).outputs("e")
	for _, c := range []struct {
		name       string
		b          *builder
		confidence string
		want       string
		classifies bool
		refused    bool
	}{
		{"softmax", head(5, ""), "", "", true, false},
		{"softmax by name", head(5, ""), "softmax", "", true, false},
		{"labels", head(5, "Sigmoid"), "", "sigmoid", true, false},
		{"labels, seen in another way", seen, "", "sigmoid", true, false},
		{"labels of a HardSigmoid", head(5, "HardSigmoid"), "", "sigmoid", true, false},
		{"one of a HardSigmoid", head(1, "HardSigmoid"), "", "", true, false},
		{"labels by name", head(5, ""), "sigmoid", "sigmoid", true, false},
		{"classes after all", head(5, "Sigmoid"), "softmax", "", true, false},
		{"margin", head(5, "Softmax"), "margin", "margin", true, false},
		{"entropy", head(2, ""), "entropy", "entropy", true, false},
		{"a regression", head(1, ""), "none", "none", false, false},
		{"a regression of several", head(4, ""), "none", "none", false, false},
		{"one logit, which may be a regression", head(1, ""), "", "", false, false},
		{"one logit by name", head(1, ""), "sigmoid", "", true, false},
		{"one probability", head(1, "Sigmoid"), "", "", true, false},
		{"a map", plane, "", "none", false, false},
		{"a map by name", plane, "none", "none", false, false},
		{"a map's softmax", plane, "softmax", "", false, true},
		{"one logit's margin", head(1, ""), "margin", "", false, true},
		{"a name of nothing", head(5, ""), "certainty", "", false, true},
	} {
		out := c.b.m.Graph.Output[0].GetName()
		g, err := c.b.load(t, Options{Confidence: map[string]string{out: c.confidence}})
		if c.refused {
			if !errors.Is(err, ErrExits) || !strings.Contains(err.Error(), c.confidence) {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		} else if got := g.ConfidenceOf(0); got != c.want || g.Classifies(0) != c.classifies {
			t.Errorf("%s: %q, a classifier %v", c.name, got, g.Classifies(0))
		}
	}
}

// TestElementTypes: the same weights in each of ONNX' encodings give the same network.
func TestElementTypes(t *testing.T) {
	values := []float32{0.5, -2, 0, 1.0 / 1024, 65504, -0.25}
	halves := []uint16{0x3800, 0xC000, 0, 0x1400, 0x7BFF, 0xB400}
	doubles, raw16, raw64 := []float64{}, []byte{}, []byte{}
	var int32s []int32
	for i, v := range values {
		doubles = append(doubles, float64(v))
		raw64 = binary.LittleEndian.AppendUint64(raw64, math.Float64bits(float64(v)))
		raw16 = binary.LittleEndian.AppendUint16(raw16, halves[i])
		int32s = append(int32s, int32(halves[i]))
	}
	for name, w := range map[string]*onnxpb.TensorProto{
		"float":        {DataType: proto.Int32(typeFloat), FloatData: values},
		"raw float":    {DataType: proto.Int32(typeFloat), RawData: raw32(values...)},
		"empty raw":    {DataType: proto.Int32(typeFloat), FloatData: values, RawData: []byte{}},
		"double":       {DataType: proto.Int32(typeDouble), DoubleData: doubles},
		"raw double":   {DataType: proto.Int32(typeDouble), RawData: raw64},
		"float16":      {DataType: proto.Int32(typeFloat16), Int32Data: int32s},
		"raw float16":  {DataType: proto.Int32(typeFloat16), RawData: raw16},
		"empty double": {DataType: proto.Int32(typeDouble), DoubleData: doubles, RawData: []byte{}},
		"empty half":   {DataType: proto.Int32(typeFloat16), Int32Data: int32s, RawData: []byte{}},
	} {
		t.Run(name, func(t *testing.T) {
			w.Name, w.Dims = proto.String("n"), []int64{3, 2}
			g, err := build(1, 2).tensor(w).op("Gemm", "e", in("x", "n"), intAttr("transB", 1)).outputs("e").load(t, Options{})
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(values, g.Nodes[0].Weights); d != "" {
				t.Error(d)
			}
		})
	}
	for h, want := range map[uint16]float64{0x0001: math.Ldexp(1, -24), 0x03FF: math.Ldexp(1023, -24), 0x7C00: math.Inf(1), 0xFC00: math.Inf(-1), 0x8000: 0} {
		if got := float16(h); float64(got) != want {
			t.Errorf("half %#04x is %v, expected %v", h, got, want)
		}
	}
	if !math.IsNaN(float64(float16(0x7E01))) {
		t.Error("half 0x7e01 is a number")
	}
}

// TestDivisor: a window that extends beyond the padding (ceil_mode) is divided by the number of its elements on pixels
// and padding, as in PyTorch (its issue 183528 has these numbers).
func TestDivisor(t *testing.T) {
	g, err := build(1, 1, 4, 4).
		op("AveragePool", "a", in("x"), intsAttr("kernel_shape", 3, 3), intsAttr("strides", 2, 2), intsAttr("pads", 1, 1, 1, 1),
			intAttr("ceil_mode", 1), intAttr("count_include_pad", 1)).
		op("GlobalAveragePool", "e", in("a")).outputs("e").load(t, Options{})
	if err != nil {
		t.Fatal(err)
	}
	image := make([]float32, 16)
	for i := range image {
		image[i] = float32(i + 1)
	}
	tensors, err := graph.Run(g, image)
	if err != nil {
		t.Fatal(err)
	}
	want := []float32{1.5555556, 3.3333333, 2, 6.3333335, 11, 6, 4.5, 7.5, 4}
	for i, got := range tensors[g.Nodes[0].Output] {
		if math.Abs(float64(got-want[i])) > 1e-5 {
			t.Errorf("position %d: %v, expected %v", i, got, want[i])
		}
	}
}

// TestFold: a normalisation is folded into the convolution exactly, with a single rounding.
func TestFold(t *testing.T) {
	one := func(name string, v ...float32) *onnxpb.TensorProto {
		return &onnxpb.TensorProto{Name: &name, DataType: proto.Int32(typeFloat), Dims: []int64{int64(len(v))}, FloatData: v}
	}
	w := one("w", 0.1, -0.7)
	w.Dims = []int64{2, 1, 1, 1}
	g, err := build(1, 1, 1, 1).tensor(w).tensor(one("b", 0.3, 1e-3)).
		tensor(one("gain", 1.1, 0.9)).tensor(one("offset", -0.2, 5)).tensor(one("mean", 0.4, -3)).tensor(one("variance", 0.01, 7)).
		op("Conv", "c", in("x", "w", "b")).
		op("BatchNormalization", "e", in("c", "gain", "offset", "mean", "variance"), floatAttr("epsilon", 1e-3)).
		outputs("e").load(t, Options{})
	if err != nil {
		t.Fatal(err)
	}
	f := func(v float32) float64 { return float64(v) }
	for c, p := range [][6]float32{{0.1, 0.3, 1.1, -0.2, 0.4, 0.01}, {-0.7, 1e-3, 0.9, 5, -3, 7}} {
		scale := f(p[2]) / math.Sqrt(f(p[5])+f(1e-3))
		weight, bias := float32(f(p[0])*scale), float32((f(p[1])-f(p[4]))*scale+f(p[3]))
		if got := g.Nodes[0].Weights[c]; got != weight {
			t.Errorf("weight %d is %v, expected %v", c, got, weight)
		}
		// Two ways of writing a sum may round differently in the last bit of a double.
		if got := g.Nodes[0].Bias[c]; math.Abs(f(got)-f(bias)) > 1e-7*math.Abs(f(bias)) {
			t.Errorf("bias %d is %v, expected %v", c, got, bias)
		}
	}
	if len(g.Nodes) != 1 {
		t.Errorf("%d nodes are left", len(g.Nodes))
	}
}

// TestFusion checks the operators that must leave no node of their own.
func TestFusion(t *testing.T) {
	cases := []struct {
		file string
		want map[graph.Op]int
	}{
		{"conv_bn_relu", map[graph.Op]int{graph.Conv: 3}},
		{"residual", map[graph.Op]int{graph.Conv: 5}},
		{"branches", map[graph.Op]int{graph.Conv: 11, graph.Add: 2}},
		{"unfusable", map[graph.Op]int{graph.Conv: 4, graph.Add: 4, graph.MaxPool: 1}},
		{"norm_first", map[graph.Op]int{graph.Conv: 6}},
		{"constants", map[graph.Op]int{graph.Conv: 2}},
		{"concat", map[graph.Op]int{graph.Conv: 5, graph.Concat: 2, graph.MaxPool: 1}},
		{"pad_conv", map[graph.Op]int{graph.Conv: 3, graph.MaxPool: 2, graph.AvgPool: 1}},
		{"reshape_shape", map[graph.Op]int{graph.Conv: 1}},
	}
	for _, c := range cases {
		t.Run(c.file, func(t *testing.T) {
			g, err := ImportFile("testdata/ops/"+c.file+".onnx", Options{})
			if err != nil {
				t.Fatal(err)
			}
			got := map[graph.Op]int{}
			for _, n := range g.Nodes {
				got[n.Op]++
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestSumKeepsBits: branches with weights of very different sizes remain separate layers.
func TestSumKeepsBits(t *testing.T) {
	for gain, nodes := range map[float32]int{4: 2, 100: 3} { // and the head
		b := build(1, 3, 4, 4).weight("w", 3, 3, 3, 3).op("Conv", "c", in("x", "w"), intsAttr("pads", 1, 1, 1, 1)).
			tensor(&onnxpb.TensorProto{Name: proto.String("k"), DataType: proto.Int32(typeFloat), FloatData: []float32{gain}}).
			op("Mul", "m", in("x", "k")).op("Add", "s", in("c", "m")).
			op("Flatten", "f", in("s")).weight("v", 48, 5).op("MatMul", "e", in("f", "v")).outputs("e")
		g, err := b.load(t, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if len(g.Nodes) != nodes {
			t.Errorf("gain %v: %d nodes, expected %d", gain, len(g.Nodes), nodes)
		}
	}
}

// TestExitInside: an exit from which the network continues keeps its values.
func TestExitInside(t *testing.T) {
	g, err := build(1, 4).weight("a", 4, 3).weight("b", 3, 2).
		op("MatMul", "e1", in("x", "a")).op("Relu", "r", in("e1")).op("MatMul", "e2", in("r", "b")).
		outputs("e1", "e2").load(t, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if n := g.Nodes[0]; g.Tensors[n.Output].Name != "e1" || !math.IsInf(float64(n.ClampLo), -1) {
		t.Errorf("the exit is clamped: %+v", n)
	}
	if len(g.Nodes) != 3 {
		t.Errorf("%d nodes, expected 3", len(g.Nodes))
	}
}

// TestClampOfClamp: min(max(y, lo), hi) of the same.
func TestClampOfClamp(t *testing.T) {
	for _, c := range []struct{ lo1, hi1, lo2, hi2, lo, hi float32 }{
		{0, 6, -1, 4, 0, 4},
		{-1, 4, 0, 6, 0, 4},
		{0, 1, 2, 3, 2, 2},
		{2, 3, 0, 1, 1, 1},
		{-math.MaxFloat32, math.MaxFloat32, -2, math.MaxFloat32, -2, float32(math.Inf(1))},
	} {
		g, err := build(1, 4).weight("a", 4, 3).op("MatMul", "m", in("x", "a")).
			op("Clip", "k", in("m"), floatAttr("min", c.lo1), floatAttr("max", c.hi1)).
			op("Clip", "e", in("k"), floatAttr("min", c.lo2), floatAttr("max", c.hi2)).outputs("e").load(t, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if n := g.Nodes[0]; len(g.Nodes) != 1 || n.ClampLo != c.lo || n.ClampHi != c.hi {
			t.Errorf("%+v: %d nodes, clamped to %v .. %v", c, len(g.Nodes), n.ClampLo, n.ClampHi)
		}
	}
}

// TestPositions: rounded up, a window must begin on a pixel or in the padding before it, as in
// PyTorch.
func TestPositions(t *testing.T) {
	for _, c := range []struct {
		in, before, after, k, s int
		floor, ceil             int
	}{
		{3, 1, 1, 2, 2, 2, 2}, {4, 1, 1, 2, 2, 3, 3}, {10, 0, 0, 3, 2, 4, 5}, {9, 0, 0, 3, 2, 4, 4}, {2, 0, 0, 3, 1, 0, 0}, {7, 1, 0, 3, 2, 3, 4},
	} {
		if got := positions(c.in, c.before, c.after, c.k, c.s, false); got != c.floor {
			t.Errorf("%+v: %d positions rounded down", c, got)
		}
		if got := positions(c.in, c.before, c.after, c.k, c.s, true); got != c.ceil {
			t.Errorf("%+v: %d positions rounded up", c, got)
		}
	}
}

// TestSeeded: weights that are missing in a model depend only on the seed and the tensor's name.
func TestSeeded(t *testing.T) {
	absent := func(name string, dims ...int64) *onnxpb.TensorProto {
		return &onnxpb.TensorProto{Name: &name, DataType: proto.Int32(typeFloat), Dims: dims}
	}
	model := func() *builder {
		return build(1, 64, 3, 3).tensor(absent("w", 96, 64, 3, 3)).tensor(absent("b", 96)).
			tensor(absent("gain", 96)).tensor(absent("offset", 96)).tensor(absent("mean", 96)).tensor(absent("variance", 96)).
			op("Conv", "c", in("x", "w", "b")).
			op("BatchNormalization", "n", in("c", "gain", "offset", "mean", "variance")).
			op("Flatten", "f", in("n")).tensor(absent("m", 96, 10)).op("MatMul", "e", in("f", "m")).outputs("e")
	}
	if _, err := model().load(t, Options{}); !errors.Is(err, ErrData) {
		t.Fatalf("without the metadata: %v", err)
	}
	load := func(b *builder, seed uint64) *graph.Graph {
		g, err := b.seeded().load(t, Options{WeightSeed: seed})
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	g := load(model(), 1)
	if d := cmp.Diff(g.Nodes, load(model(), 1).Nodes); d != "" {
		t.Error("the same seed gives other weights")
	}
	if cmp.Equal(g.Nodes[1].Weights, load(model(), 2).Nodes[1].Weights) {
		t.Error("another seed gives the same weights")
	}
	shifted := model()
	for _, i := range shifted.m.Graph.Initializer {
		if i.GetName() == "m" {
			i.Name = proto.String("other")
		}
	}
	shifted.m.Graph.Node[3].Input[1] = "other"
	other := load(shifted, 1)
	if !cmp.Equal(g.Nodes[0].Weights, other.Nodes[0].Weights) || cmp.Equal(g.Nodes[1].Weights, other.Nodes[1].Weights) {
		t.Error("weights do not depend on their own tensor's name alone")
	}
	for n, fanIn := range []float64{64 * 9, 96} {
		square := 0.0
		for _, w := range g.Nodes[n].Weights {
			square += float64(w) * float64(w)
		}
		// He: 2 / fan-in; the normalisation's gain of about one varies it by a hundredth.
		ratio := square / float64(len(g.Nodes[n].Weights)) * fanIn / 2
		if ratio < 0.85 || ratio > 1.15 {
			t.Errorf("layer %d: the variance is %.2f of He's", n, ratio)
		}
	}
}

func TestImportFile(t *testing.T) {
	if _, err := ImportFile("testdata/nothing.onnx", Options{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file gives %v", err)
	}
	path := filepath.Join(t.TempDir(), "bad.onnx")
	if err := os.WriteFile(path, []byte("not a model"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ImportFile(path, Options{}); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), path) {
		t.Errorf("a bad file gives %v", err)
	}
	g, err := ImportFile("../zoo/tiny.onnx", Options{})
	if err != nil || g.Name != "tiny" {
		t.Errorf("got %v, %v", g, err)
	}
}

// An input without height and width has no side to replace.
func TestInputSideNeedsAMap(t *testing.T) {
	f, err := os.Open("testdata/ops/vector.onnx")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := Import(f, Options{Name: "vector", InputSide: Square(8)}); !errors.Is(err, ErrShape) {
		t.Errorf("%v, want %v", err, ErrShape)
	}
}

// A side is a square or height by width, also where the file's input is channels last.
func TestInputSide(t *testing.T) {
	for text, want := range map[string]Side{"0": {}, "224": {224, 224}, "480x640": {480, 640}} {
		var s Side
		if err := s.UnmarshalText([]byte(text)); err != nil || s != want || s.String() != text {
			t.Errorf("%q: %v, %v", text, s, err)
		}
	}
	for _, text := range []string{"", "x", "12x", "-1", "3x-4", "0x5", "1x2x3", "12X4", "4.5"} {
		var s Side
		if err := s.UnmarshalText([]byte(text)); err == nil || !strings.Contains(err.Error(), "HEIGHTxWIDTH") {
			t.Errorf("%q: %v, %v", text, s, err)
		}
	}
	pooled := func(b *builder, conv string) *builder {
		return b.weight("w", 3, 2, 3, 3).op("Conv", "c", in(conv, "w")).op("GlobalAveragePool", "g", in("c")).op("Flatten", "y", in("g")).outputs("y")
	}
	for name, b := range map[string]*builder{
		"channels first": pooled(build(1, 2, 0, 0), "x"),
		"channels last":  pooled(build(1, 0, 0, 2).op("Transpose", "t", in("x"), intsAttr("perm", 0, 3, 1, 2)), "t"),
	} {
		o := Options{InputSide: Side{6, 9}}
		g, err := b.load(t, o)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if x := g.Tensors[g.Input]; x.H != 6 || x.W != 9 || x.C != 2 || g.ChannelsLast != (name == "channels last") {
			t.Errorf("%s: %+v", name, x)
		}
		again, err := Rewrite(bytes.NewReader(b.bytes(t)), o) // the model for other programs has that size itself
		if err != nil {
			t.Fatal(err)
		}
		if h, err := Import(bytes.NewReader(again), Options{}); err != nil || h.Tensors[h.Input] != g.Tensors[g.Input] {
			t.Errorf("%s, rewritten: %v", name, err)
		}
	}
}
