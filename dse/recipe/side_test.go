package recipe

import (
	"encoding/json"
	"errors"
	"testing"
)

func TestSide(t *testing.T) {
	for text, want := range map[string]Side{"224": {224, 224}, "8x16": {8, 16}, "16X8": {16, 8}} {
		var s Side
		if err := s.UnmarshalText([]byte(text)); err != nil || s != want {
			t.Errorf("%s: %v, %v", text, s, err)
		}
	}
	for _, text := range []string{"", "8x", "x8", "8x8x8", "a", "8x0", "-8x8", "8.5"} {
		var s Side
		if err := s.UnmarshalText([]byte(text)); !errors.Is(err, ErrRecipe) {
			t.Errorf("%q: %v, %v", text, s, err)
		}
	}
	for want, s := range map[string]Side{"0": {}, "224": {224, 224}, `"8x16"`: {8, 16}} { // what sweeps were asked stays the same text
		if text, err := json.Marshal(s); err != nil || string(text) != want {
			t.Errorf("%s, %v; want %s", text, err, want)
		}
	}
}

// The graph, and what onnxruntime is given, have the height and the width.
func TestInputSideOfTwo(t *testing.T) {
	i := Import{InputSide: Side{64, 96}}
	g, err := i.Graph("resnet50", 1)
	if err != nil {
		t.Fatal(err)
	}
	if in := Shape(g); in.H != 64 || in.W != 96 || in.C != 3 {
		t.Errorf("the input is %v", in)
	}
}
