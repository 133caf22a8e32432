package onnx

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/sluice-npu/sluice/dse/onnx/onnxpb"
)

// Superfluous nodes and attributes that exporters write either change nothing, or are refused with the right reason.
func TestExporters(t *testing.T) {
	truth := func(kind int32, v ...byte) *onnxpb.TensorProto {
		return &onnxpb.TensorProto{Name: proto.String("training"), DataType: &kind, RawData: v}
	}
	end := func(b *builder, from string) *builder {
		return b.weight("k", 3, 2, 3, 3).op("Conv", "c", in(from, "k")).op("GlobalAveragePool", "e", in("c")).outputs("e")
	}
	pad := func() *builder { return build(1, 2, 4, 4).ints("pads", 1, 2, 3, 4) }
	whole := end(build(1, 2, 4, 4).ints("pads", 0, 0, 1, 2, 0, 0, 3, 4).op("Pad", "p", in("x", "pads")), "p")
	plain := end(build(1, 2, 4, 4), "x")
	drop := func(v *onnxpb.TensorProto) *builder {
		b := build(1, 2, 4, 4).weight("ratio").tensor(v)
		return end(b.op("Dropout", "d", in("x", "ratio", "training")), "d")
	}
	for _, c := range []struct {
		name    string
		b, like *builder
		want    error
		says    string
	}{
		{"axes of a Pad", end(pad().ints("axes", 2, -1).op("Pad", "p", in("x", "pads", "", "axes")), "p"), whole, nil, ""},
		{"an axis twice", end(pad().ints("axes", 3, -1).op("Pad", "p", in("x", "pads", "", "axes")), "p"), nil, ErrAttribute, "different ones"},
		{"an axis too many", end(pad().ints("axes", 2, 4).op("Pad", "p", in("x", "pads", "", "axes")), "p"), nil, ErrAttribute, "-4 to 3"},
		{"too few pads", end(pad().ints("axes", 1, 2, 3).op("Pad", "p", in("x", "pads", "", "axes")), "p"), nil, ErrAttribute, "6 numbers"},
		{"the batch padded", end(pad().ints("axes", 0, 2).op("Pad", "p", in("x", "pads", "", "axes")), "p"), nil, ErrAttribute, "only channels, height and width"},
		{"Dropout at rest", drop(truth(typeBool, 0)), plain, nil, ""},
		{"Dropout in training", drop(truth(typeBool, 1)), nil, ErrUnsupported, "training_mode"},
		{"Dropout without a value", drop(truth(typeBool)), nil, ErrData, "training"},
		{"Dropout by a number", drop(truth(3, 0)), nil, ErrType, "9 (bool)"},
		{"a cast to float", end(build(1, 2, 4, 4).op("Cast", "f", in("x"), intAttr("to", typeFloat)), "f"), plain, nil, ""},
		{"a cast to int32", end(build(1, 2, 4, 4).op("Cast", "f", in("x"), intAttr("to", 6)), "f"), nil, ErrAttribute, "1 (float)"},
		{"bounds the wrong way round", end(build(1, 2, 4, 4).op("Clip", "f", in("x"), floatAttr("min", 3), floatAttr("max", 1)), "f"), nil, ErrAttribute, "bounds 3 and 1"},
		{"a Sigmoid twice", plain2().op("Sigmoid", "s", in("l")).op("Identity", "t", in("s")).outputs("s", "t"), nil, ErrExits, `the same tensor: "s" and "t"`},
		{"logits and their Softmax", plain2().op("Softmax", "s", in("l")).outputs("l", "s"), nil, ErrExits, "--exits"},
	} {
		got, err := c.b.load(t, Options{})
		if c.want != nil {
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: %v, expected %v with %q", c.name, err, c.want, c.says)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		want, err := c.like.load(t, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got.Nodes, want.Nodes) {
			t.Errorf("%s: %+v, expected %+v", c.name, got.Nodes, want.Nodes)
		}
	}
}

func plain2() *builder {
	return build(1, 2, 4, 4).op("GlobalAveragePool", "g", in("x")).op("Flatten", "f", in("g")).weight("m", 5, 2).
		op("Gemm", "l", in("f", "m"), intAttr("transB", 1))
}
