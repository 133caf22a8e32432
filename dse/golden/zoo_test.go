package golden

import (
	"slices"
	"testing"

	"github.com/sluice-npu/sluice/dse/compile"
	"github.com/sluice-npu/sluice/dse/graph"
	"github.com/sluice-npu/sluice/dse/quant"
	"github.com/sluice-npu/sluice/dse/zoo"
	"github.com/sluice-npu/sluice/hw/abi"
)

// From the ONNX file to the slot: on real images the compiled networks choose the same class as the float network,
// except for the few images with two almost equal classes.
func TestZooAgreesWithFloat(t *testing.T) {
	const images, calibration, most = 100, 64, 3
	train, err := zoo.FashionMNIST("", true, calibration)
	if err != nil {
		t.Fatal(err)
	}
	test, err := zoo.FashionMNIST("", false, images)
	if err != nil {
		t.Fatal(err)
	}
	for name, config := range map[string]string{"tiny": "run", "fashion": "run", "mobile": "v13x"} { // v13x has the depthwise unit
		g, err := zoo.Load(name, 1)
		if err != nil {
			t.Fatal(err)
		}
		q, err := quant.Quantise(g, train.Pixels, quant.Options{})
		if err != nil {
			t.Fatal(err)
		}
		b, err := compile.Compile(q, load(t, config), compile.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if unit := slices.ContainsFunc(b.Layers, func(d abi.Desc) bool { return d.Op == abi.OpDepthwise }); unit != (name == "mobile") {
			t.Errorf("%s: layers of the depthwise unit: %v", name, unit)
		}
		p, err := New(b)
		if err != nil {
			t.Fatal(err)
		}
		float, err := graph.NewRunner(g)
		if err != nil {
			t.Fatal(err)
		}
		differ := make([]int, len(g.Exits))
		input := make([]int16, g.Tensors[g.Input].Elems())
		for _, pixels := range test.Pixels {
			q.Input(input, pixels)
			got, err := p.Run(input)
			if err != nil {
				t.Fatal(err)
			}
			want, err := float.Run(pixels)
			if err != nil {
				t.Fatal(err)
			}
			for i, e := range g.Exits {
				if largest(got[i]) != largest(want[e.Tensor]) {
					differ[i]++
				}
			}
		}
		for i, n := range differ {
			if n > most {
				t.Errorf("%s, exit %d: %d of %d images are classified differently, want at most %d", name, i, n, images, most)
			}
		}
		t.Logf("%s: classified differently, by exit: %v of %d", name, differ, images)
	}
}

func largest[T int16 | float32](v []T) int {
	best := 0
	for i := range v {
		if v[i] > v[best] {
			best = i
		}
	}
	return best
}
