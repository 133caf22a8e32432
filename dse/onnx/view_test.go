package onnx

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A Reshape may contain a fixed batch as its number, as 0 or as -1.
func TestReshapeOfAFixedBatch(t *testing.T) {
	for _, first := range []int64{2, 0, -1} {
		b := build(2, 3, 4, 4).op("Relu", "r", in("x")).ints("s", first, 48).op("Reshape", "z", in("r", "s")).weight("n", 48, 5).op("MatMul", "e", in("z", "n")).outputs("e")
		if _, err := b.load(t, Options{}); err != nil {
			t.Errorf("%d: %v", first, err)
		}
	}
}

// An output keeps its activation where another node has made a map of the same view before.
func TestActivationOfAMadeMap(t *testing.T) {
	b := build(1, 3, 1, 1).weight("w", 6, 3, 1, 1).op("Conv", "c", in("x", "w")).op("Relu", "r", in("c")).
		ints("groups", 1, 2, 3).op("Reshape", "g", in("r", "groups")).op("Transpose", "turned", in("g"), intsAttr("perm", 0, 2, 1)).
		op("Flatten", "v", in("turned")). // channels in another order
		weight("n", 6, 5).op("MatMul", "head", in("v", "n")).
		op("Sigmoid", "s", in("v")).outputs("head", "s")
	g, err := b.load(t, Options{})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, x := range g.Exits {
		got[x.Name] = x.Activation
	}
	if d := cmp.Diff(map[string]string{"head": "", "s": "Sigmoid"}, got); d != "" {
		t.Error(d)
	}
}

// The sizes of a view, or of a pending Pad's result, are known before there is a map.
func TestShapeOfAView(t *testing.T) {
	b := build(1, 6, 4, 5).op("Relu", "r", in("x")).
		ints("five", 1, 2, 3, 4, 5).op("Reshape", "v", in("x", "five")).
		op("Transpose", "turned", in("v"), intsAttr("perm", 0, 3, 2, 1, 4)).
		op("Shape", "sizes", in("turned")).
		op("Reshape", "e", in("r", "sizes")).
		outputs("e")
	if _, err := b.load(t, Options{}); err == nil { // channels and rows in another order are not a view of r
		t.Error("a Reshape that cuts channels and rows anew is taken")
	}
	b = build(1, 6, 4, 5).op("Relu", "r", in("x")).
		ints("five", 1, 2, 3, 4, 5).op("Reshape", "v", in("x", "five")).
		op("Transpose", "turned", in("v"), intsAttr("perm", 0, 2, 1, 3, 4)).
		op("Shape", "sizes", in("turned")).
		op("Reshape", "e", in("r", "sizes")).
		outputs("e")
	g, err := b.load(t, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]int{3, 2, 4, 5}, g.Exits[0].Dims); d != "" {
		t.Error(d)
	}
	b = build(1, 2, 4, 5).weight("w", 3, 2, 3, 3).
		ints("pads", 0, 0, 1, 2, 0, 0, 1, 0).op("Pad", "p", in("x", "pads")).
		op("Conv", "c", in("p", "w"), intsAttr("pads", 1, 1, 1, 1)). // 6 x 7
		op("Shape", "sizes", in("p"), intAttr("start", 2)).ints("front", 1, 3).op("Concat", "to", in("front", "sizes"), intAttr("axis", 0)).
		op("Reshape", "e", in("c", "to")).outputs("e")
	if _, err := b.load(t, Options{}); err != nil {
		t.Error(err)
	}
}
