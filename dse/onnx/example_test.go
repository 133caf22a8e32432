package onnx_test

import (
	"bytes"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/sluice-npu/sluice/dse/onnx"
	"github.com/sluice-npu/sluice/dse/onnx/onnxpb"
)

// A survey says which operators of a model are not supported: here a pool, and an operator that Sluice does not know.
func ExampleSurveyOf() {
	dim := func(n int64) *onnxpb.TensorShapeProto_Dimension {
		return &onnxpb.TensorShapeProto_Dimension{Value: &onnxpb.TensorShapeProto_Dimension_DimValue{DimValue: n}}
	}
	value := func(name string, dims ...int64) *onnxpb.ValueInfoProto {
		shape := &onnxpb.TensorShapeProto{}
		for _, n := range dims {
			shape.Dim = append(shape.Dim, dim(n))
		}
		const float32s = 1 // the element type of the specification
		tensor := &onnxpb.TypeProto_Tensor{ElemType: proto.Int32(float32s), Shape: shape}
		return &onnxpb.ValueInfoProto{Name: proto.String(name), Type: &onnxpb.TypeProto{TensorType: tensor}}
	}
	model, err := proto.Marshal(&onnxpb.ModelProto{
		IrVersion:   proto.Int64(8),
		OpsetImport: []*onnxpb.OperatorSetIdProto{{Domain: proto.String(""), Version: proto.Int64(13)}},
		Graph: &onnxpb.GraphProto{
			Name:   proto.String("means"),
			Input:  []*onnxpb.ValueInfoProto{value("in", 1, 3, 8, 8)},
			Output: []*onnxpb.ValueInfoProto{value("out", 1, 3, 1, 1)},
			Node: []*onnxpb.NodeProto{
				{OpType: proto.String("GlobalAveragePool"), Input: []string{"in"}, Output: []string{"mean"}},
				{OpType: proto.String("Sin"), Input: []string{"mean"}, Output: []string{"out"}},
			},
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	s, err := onnx.SurveyOf(bytes.NewReader(model), onnx.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(s.Ops)
	for _, n := range s.Needs {
		fmt.Println(n.Op)
	}
	// Output:
	// map[GlobalAveragePool:1 Sin:1]
	// Sin
}
