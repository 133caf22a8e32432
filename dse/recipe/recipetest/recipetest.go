// Package recipetest creates a new user's inputs: a network with two exits, and a folder of photographs per class.
package recipetest

import (
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"

	"google.golang.org/protobuf/proto"

	"github.com/sluice-npu/sluice/dse/onnx/onnxpb"
)

// Network returns an ONNX file with an input of 8 x 8 RGB and two convolutions. A head with four classes follows each
// convolution. The exits are "early" and "late".
func Network() ([]byte, error) {
	m := &onnxpb.ModelProto{
		IrVersion: proto.Int64(8), OpsetImport: []*onnxpb.OperatorSetIdProto{{Version: proto.Int64(13)}},
		Graph: &onnxpb.GraphProto{Name: proto.String("own")},
	}
	shape := &onnxpb.TensorShapeProto{}
	for _, d := range []int64{1, 3, 8, 8} {
		shape.Dim = append(shape.Dim, &onnxpb.TensorShapeProto_Dimension{Value: &onnxpb.TensorShapeProto_Dimension_DimValue{DimValue: d}})
	}
	m.Graph.Input = []*onnxpb.ValueInfoProto{{Name: proto.String("x"), Type: &onnxpb.TypeProto{
		TensorType: &onnxpb.TypeProto_Tensor{ElemType: proto.Int32(1), Shape: shape},
	}}}
	weight := func(name string, dims ...int64) {
		n := int64(1)
		for _, d := range dims {
			n *= d
		}
		values := make([]float32, n)
		for i := range values {
			values[i] = float32(i*i%13)/13 - 0.4
		}
		m.Graph.Initializer = append(m.Graph.Initializer, &onnxpb.TensorProto{Name: &name, DataType: proto.Int32(1), Dims: dims, FloatData: values})
	}
	op := func(kind, out string, in ...string) {
		m.Graph.Node = append(m.Graph.Node, &onnxpb.NodeProto{Name: &out, OpType: &kind, Input: in, Output: []string{out}})
	}
	weight("w1", 6, 3, 3, 3)
	weight("w2", 9, 6, 3, 3)
	weight("h1", 6, 4)
	weight("h2", 9, 4)
	op("Conv", "c1", "x", "w1")
	op("Relu", "r1", "c1")
	op("GlobalAveragePool", "p1", "r1")
	op("Flatten", "f1", "p1")
	op("MatMul", "early", "f1", "h1")
	op("Conv", "c2", "r1", "w2")
	op("Relu", "r2", "c2")
	op("GlobalAveragePool", "p2", "r2")
	op("Flatten", "f2", "p2")
	op("MatMul", "late", "f2", "h2")
	for _, out := range []string{"early", "late"} {
		m.Graph.Output = append(m.Graph.Output, &onnxpb.ValueInfoProto{Name: &out})
	}
	content, err := proto.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("a network for tests: %w", err)
	}
	return content, nil
}

// Home writes own.onnx to a folder. It also writes the folders photos/class0 to photos/class3, with three pictures of
// 12 x 10 pixels in each.
func Home(dir string) error {
	content, err := Network()
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "own.onnx"), content, 0o600); err != nil {
		return err
	}
	for c := range 4 {
		for i := range 3 {
			m := image.NewNRGBA(image.Rect(0, 0, 12, 10))
			for y := range 10 {
				for x := range 12 {
					m.Set(x, y, color.NRGBA{uint8(60*c + x*i), uint8(250 - 60*c), uint8(y * 20 * i), 255})
				}
			}
			if err := write(filepath.Join(dir, "photos", fmt.Sprintf("class%d", c), fmt.Sprintf("%d.png", i)), m); err != nil {
				return err
			}
		}
	}
	return nil
}

func write(path string, m image.Image) (err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return png.Encode(f, m)
}
