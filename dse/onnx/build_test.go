package onnx

import (
	"bytes"
	"encoding/binary"
	"math"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/sluice-npu/sluice/dse/graph"
	"github.com/sluice-npu/sluice/dse/onnx/onnxpb"
)

// builder makes small models by hand.
type builder struct {
	m *onnxpb.ModelProto
}

// build begins a model with an input of the given dimensions.
func build(dims ...int64) *builder {
	shape := &onnxpb.TensorShapeProto{}
	for _, d := range dims {
		shape.Dim = append(shape.Dim, &onnxpb.TensorShapeProto_Dimension{
			Value: &onnxpb.TensorShapeProto_Dimension_DimValue{DimValue: d},
		})
	}
	return &builder{&onnxpb.ModelProto{
		IrVersion:   proto.Int64(8),
		OpsetImport: []*onnxpb.OperatorSetIdProto{{Version: proto.Int64(13)}},
		Graph: &onnxpb.GraphProto{
			Name: proto.String("built"),
			Input: []*onnxpb.ValueInfoProto{{Name: proto.String("x"), Type: &onnxpb.TypeProto{
				TensorType: &onnxpb.TypeProto_Tensor{ElemType: proto.Int32(typeFloat), Shape: shape},
			}}},
		},
	}}
}

func (b *builder) outputs(names ...string) *builder {
	for _, n := range names {
		b.m.Graph.Output = append(b.m.Graph.Output, &onnxpb.ValueInfoProto{Name: proto.String(n)})
	}
	return b
}

// op appends a node named like its output.
func (b *builder) op(kind, out string, in []string, attributes ...*onnxpb.AttributeProto) *builder {
	b.m.Graph.Node = append(b.m.Graph.Node, &onnxpb.NodeProto{
		Name: proto.String(out), OpType: proto.String(kind), Input: in, Output: []string{out}, Attribute: attributes,
	})
	return b
}

// weight adds an initializer that counts up in small steps.
func (b *builder) weight(name string, dims ...int64) *builder {
	n := int64(1)
	for _, d := range dims {
		n *= d
	}
	values := make([]float32, n)
	for i := range values {
		values[i] = float32(i%7)*0.25 - 0.5
	}
	return b.tensor(&onnxpb.TensorProto{Name: &name, DataType: proto.Int32(typeFloat), Dims: dims, FloatData: values})
}

func (b *builder) tensor(t *onnxpb.TensorProto) *builder {
	b.m.Graph.Initializer = append(b.m.Graph.Initializer, t)
	return b
}

func (b *builder) ints(name string, values ...int64) *builder {
	return b.tensor(&onnxpb.TensorProto{
		Name: &name, DataType: proto.Int32(typeInt64), Dims: []int64{int64(len(values))}, Int64Data: values,
	})
}

func (b *builder) seeded() *builder {
	b.m.MetadataProps = []*onnxpb.StringStringEntryProto{{Key: proto.String("sluice.weights"), Value: proto.String("seeded")}}
	return b
}

func (b *builder) bytes(t testing.TB) []byte {
	t.Helper()
	content, err := proto.Marshal(b.m)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func (b *builder) load(t testing.TB, o Options) (*graph.Graph, error) {
	t.Helper()
	return Import(bytes.NewReader(b.bytes(t)), o)
}

func in(names ...string) []string { return names }

func intAttr(name string, v int64) *onnxpb.AttributeProto {
	return &onnxpb.AttributeProto{Name: &name, Type: onnxpb.AttributeProto_INT.Enum(), I: &v}
}

func intsAttr(name string, v ...int64) *onnxpb.AttributeProto {
	return &onnxpb.AttributeProto{Name: &name, Type: onnxpb.AttributeProto_INTS.Enum(), Ints: v}
}

func floatAttr(name string, v float32) *onnxpb.AttributeProto {
	return &onnxpb.AttributeProto{Name: &name, Type: onnxpb.AttributeProto_FLOAT.Enum(), F: &v}
}

func stringAttr(name, v string) *onnxpb.AttributeProto {
	return &onnxpb.AttributeProto{Name: &name, Type: onnxpb.AttributeProto_STRING.Enum(), S: []byte(v)}
}

// good is a network with two exits that every bad case below is a change of.
func good() *builder {
	return build(1, 2, 4, 4).
		weight("w", 3, 2, 3, 3).
		op("Conv", "c", in("x", "w"), intsAttr("pads", 1, 1, 1, 1)).
		op("Relu", "r", in("c")).
		op("GlobalAveragePool", "g", in("r")).
		op("Flatten", "f", in("g")).
		weight("m", 5, 3).
		op("Gemm", "e1", in("f", "m"), intAttr("transB", 1)).
		op("Flatten", "h", in("r")).
		weight("n", 48, 5).
		op("MatMul", "e2", in("h", "n")).
		outputs("e1", "e2")
}

func raw32(values ...float32) []byte {
	var b []byte
	for _, v := range values {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	return b
}
