package onnx

import (
	"errors"
	"testing"

	"github.com/sluice-npu/sluice/dse/onnx/onnxpb"
)

// Resizes that cannot be computed exactly are refused: other functions, factors that are not whole numbers, other
// pixels.
func TestRefusesOtherwise(t *testing.T) {
	for _, c := range []struct {
		kind       string
		in         []string
		attributes []*onnxpb.AttributeProto
		accepted   bool
	}{
		{"Gelu", []string{"x"}, []*onnxpb.AttributeProto{stringAttr("approximate", "tanh")}, true},
		{"Gelu", []string{"x"}, []*onnxpb.AttributeProto{stringAttr("approximate", "fast")}, false},
		{"Resize", []string{"x", "", "twice"}, nil, true},
		{"Resize", []string{"x", "", "half"}, nil, false},
		{"Resize", []string{"x", "", "twice"}, []*onnxpb.AttributeProto{stringAttr("mode", "cubic")}, false},
		{"Resize", []string{"x", "", "twice"}, []*onnxpb.AttributeProto{stringAttr("mode", "linear"), stringAttr("coordinate_transformation_mode", "align_corners")}, false},
		{"Resize", []string{"x", "", "twice"}, []*onnxpb.AttributeProto{stringAttr("coordinate_transformation_mode", "asymmetric"), stringAttr("nearest_mode", "ceil")}, false},
		{"Resize", []string{"x", "", "thrice"}, []*onnxpb.AttributeProto{stringAttr("coordinate_transformation_mode", "asymmetric")}, false}, // 2/3 of a pixel is rounded up
	} {
		b := build(1, 2, 3, 3).float("twice", 1, 1, 2, 2).float("half", 1, 1, 1.5, 2).float("thrice", 1, 1, 3, 3)
		_, err := b.op(c.kind, "y", c.in, c.attributes...).outputs("y").load(t, Options{Post: true})
		if c.accepted != (err == nil) || err != nil && !errors.Is(err, ErrUnsupported) && !errors.Is(err, ErrAttribute) {
			t.Errorf("%s %v %v: %v", c.kind, c.in, c.attributes, err)
		}
	}
}
