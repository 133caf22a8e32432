package evaluate

import (
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"sync/atomic"
	"testing"

	"github.com/sluice-npu/sluice/dse/golden"
	"github.com/sluice-npu/sluice/dse/graph"
	"github.com/sluice-npu/sluice/dse/images"
	"github.com/sluice-npu/sluice/dse/quant"
	"github.com/sluice-npu/sluice/dse/recipe"
	"github.com/sluice-npu/sluice/dse/recipe/recipetest"
	"github.com/sluice-npu/sluice/dse/zoo"
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
)

// A distance is a finite number for any logits, because JSON has no other numbers.
func TestApart(t *testing.T) {
	for _, c := range []struct {
		got, want []float32
		apart     float64
	}{
		{[]float32{1, 2}, []float32{1, 4}, 0.5},
		{[]float32{0, 0}, []float32{0, 0}, 0},
		{[]float32{0, -3}, []float32{0, 0}, 1},
	} {
		if d := Apart(c.got, c.want); d != c.apart {
			t.Errorf("%v is %v from %v, expected %v", c.got, d, c.want, c.apart)
		}
	}
}

// Values beyond the calibrated ones saturate and are counted by layer; the calibration images do not saturate.
func TestSaturated(t *testing.T) {
	dir := t.TempDir()
	if err := recipetest.Home(dir); err != nil {
		t.Fatal(err)
	}
	array := func(name string, value float32) string {
		head := "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3, 8, 8)}"
		data := append([]byte("\x93NUMPY\x01\x00"), byte(len(head)), 0)
		data = append(data, head...)
		for i := range 2 * 3 * 8 * 8 {
			data = binary.LittleEndian.AppendUint32(data, math.Float32bits(value*float32(1+i%5)/5))
		}
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	r := recipe.Recipe{Network: filepath.Join(dir, "own.onnx"), Seed: 1}
	r.Calibrate, r.InputRange = array("dim.npy", 0.01), 1
	d, err := configs.Load("run")
	if err != nil {
		t.Fatal(err)
	}
	g, err := r.Graph(configs.Design{})
	if err != nil {
		t.Fatal(err)
	}
	from, err := r.Calibration(g)
	if err != nil {
		t.Fatal(err)
	}
	q, err := from.Quantise(g)
	if err != nil {
		t.Fatal(err)
	}
	b, err := r.MakeOf(q, from, d)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{r.Calibrate: false, array("bright.npy", 1): true} {
		set, err := from.Evaluation(path, recipe.Shape(g), images.Options{})
		if err != nil {
			t.Fatal(err)
		}
		found, err := Run(t.Context(), g, q, b, nil, set, nil, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := len(found.Saturated) > 0; got != want || found.Clipped > 0 {
			t.Errorf("%s: %+v, clipped %v; want saturation: %v", path, found.Saturated, found.Clipped, want)
		}
		for _, s := range found.Saturated {
			if s.Share <= 0 || s.Share > 1 || s.Layer == "" {
				t.Errorf("%+v", s)
			}
		}
		p, err := golden.New(b)
		if err != nil {
			t.Fatal(err)
		}
		e := &evaluator{b: b, p: p, saturated: make([]atomic.Int64, len(b.Layers))}
		x, err := set.Image(0)
		if err != nil {
			t.Fatal(err)
		}
		in := b.Network.Input(x)
		got, err := e.golden(in)
		if err != nil {
			t.Fatal(err)
		}
		whole, err := p.Run(in)
		if err != nil || !reflect.DeepEqual(got, whole) {
			t.Errorf("layer by layer %v, at once %v, %v", got, whole, err)
		}
	}
}

// Saturation before a function is counted if it changes the function's result: a wide tanh ends at the limit of 16 bits
// and is flat beyond it.
func TestSaturatedFunction(t *testing.T) {
	inf := float32(math.Inf(1))
	for _, c := range []struct {
		function string
		weight   float32
		want     int64
	}{{"Tanh", 1, 1}, {"Tanh", 4000, 0}, {"HardSwish", 4000, 1}} {
		g := &graph.Graph{
			Name: "n", Tensors: []graph.Tensor{{Name: "x", H: 1, W: 1, C: 1}, {Name: "y", H: 1, W: 1, C: 1}},
			Nodes: []graph.Node{{
				Name: "f", Op: graph.Conv, Inputs: []graph.TensorID{0}, Output: 1, Groups: 1, Residual: graph.None,
				Window: graph.Window{KH: 1, KW: 1, SH: 1, SW: 1}, Weights: []float32{c.weight}, Bias: []float32{0},
				Function: &graph.Function{Name: c.function}, ClampLo: -inf, ClampHi: inf,
			}},
			Exits: []graph.Exit{{Name: "y", Tensor: 1}},
		}
		if err := g.Arrange(); err != nil {
			t.Fatal(err)
		}
		q, err := quant.Quantise(g, [][]float32{{0.01}, {-0.01}}, quant.Options{})
		if err != nil {
			t.Fatal(err)
		}
		r, err := graph.NewRunner(g)
		if err != nil {
			t.Fatal(err)
		}
		e := &evaluator{g: g}
		e.watch(q, []*graph.Runner{r})
		for _, x := range []float32{0.01, 1} {
			if _, err := r.Run([]float32{x}); err != nil {
				t.Fatal(err)
			}
		}
		if got := e.curved[0].Load(); got != c.want {
			t.Errorf("%s of %v x: %d saturated, expected %d", c.function, c.weight, got, c.want)
		}
	}
}

// Saturation is counted for operators that compute; a max pool only copies values.
func TestSaturatedOperators(t *testing.T) {
	slot := []byte{0xff, 0x7f, 1, 0, 0x00, 0x80}
	for _, op := range abi.Ops() {
		d := abi.Desc{Op: op, OutH: 1, OutW: 1, OutC: 3, OutPix: 3, OutRowBytes: 6, ClampLo: math.MinInt16, ClampHi: math.MaxInt16}
		want := int64(2)
		if op == abi.OpMaxPool {
			want = 0
		}
		if d.Curve = true; saturated(&d, slot) != 0 {
			t.Errorf("%v with a curve: counted twice", op)
		}
		if d.Curve = false; saturated(&d, slot) != want {
			got := saturated(&d, slot)
			t.Errorf("%v: %d saturated, want %d", op, got, want)
		}
	}
}

// A single output means yes from 0 on; several outputs mean the largest.
func TestTop(t *testing.T) {
	for _, c := range []struct {
		logits []float32
		class  int
	}{{[]float32{-0.1}, 0}, {[]float32{0}, 1}, {[]float32{3}, 1}, {[]float32{1, 2, 2}, 1}} {
		if got := top(c.logits, 0); got != c.class {
			t.Errorf("%v: class %d, want %d", c.logits, got, c.class)
		}
	}
}

// onnxruntime's outputs include the file's last activation, ours do not. This affects neither distance nor class.
func TestActivation(t *testing.T) {
	probability := func(v float64) float32 { return float32(1 / (1 + math.Exp(-v))) }
	e, both := float32(math.E), float32(1+math.E)
	for _, c := range []struct {
		activation     string
		logits, oracle []float32
		class          int
	}{
		{"", []float32{-2, 3}, []float32{-2, 3}, 1},
		{"", []float32{0.4, 0.6}, []float32{0.4, 0.6}, 1}, // logits that look like probabilities
		{"Softmax", []float32{1, 0}, []float32{e / both, 1 / both}, 0},
		{"LogSoftmax", []float32{1, 0}, []float32{1 - float32(math.Log(float64(both))), -float32(math.Log(float64(both)))}, 0},
		{"Sigmoid", []float32{-2}, []float32{probability(-2)}, 0},
		{"Sigmoid", []float32{0.5}, []float32{probability(0.5)}, 1},
		{"HardSigmoid", []float32{-1}, []float32{0.25}, 0},
		{"HardSigmoid", []float32{3}, []float32{1}, 1},
		{"Sigmoid", []float32{-2, 3}, []float32{probability(-2), probability(3)}, 1},
	} {
		var s sums
		e := evaluator{g: &graph.Graph{Tensors: []graph.Tensor{{H: 1, W: 1, C: len(c.logits)}}, Exits: []graph.Exit{{Activation: c.activation}}}}
		s.count(e.finished(0), c.logits, c.logits, c.oracle, c.class)
		s.int8.count(e.finished(0), c.logits, c.logits, c.oracle, c.class)
		if s.int8.right != 1 || s.int8.agreeOracle != 1 || s.int8.worstOracle > 1e-6 {
			t.Errorf("int8 %+v: %+v", c, s)
		}
		off := append([]float32(nil), c.oracle...)
		off[0] += 0.5
		if s.int8.count(e.finished(0), c.logits, c.logits, off, c.class); s.int8.worstOracle < 0.1 || s.int8.meanOracle < 0.1 {
			t.Errorf("int8 beside another result %+v: %+v", c, s)
		}
		if s.int16.right != 1 || s.oracle != 1 || s.int16.agreeOracle != 1 || s.floatOracle != 1 || s.int16.worstOracle > 1e-6 {
			t.Errorf("%+v: %+v", c, s)
		}
	}
}

// A bound on the number of images that change their class decides how many layers stay in int16: none if all images may
// change, and as many as necessary if none may. Layers of 16 bits have a smaller loss.
func TestMixed(t *testing.T) {
	g, err := zoo.Load("tiny", 1)
	if err != nil {
		t.Fatal(err)
	}
	im, err := zoo.FashionMNIST("", true, 48)
	if err != nil {
		t.Fatal(err)
	}
	image := func(i int) ([]float32, error) { return im.Pixels[i], nil }
	seen, err := quant.See(g, len(im.Pixels), image, quant.Options{Headroom: 16}) // which leaves int8 4 bits
	if err != nil {
		t.Fatal(err)
	}
	drawn, err := quant.Images{Count: len(im.Pixels), Image: image}.Drawn(mixImages, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	want, err := classes(g, drawn, image)
	if err != nil {
		t.Fatal(err)
	}
	var share, lost []float64
	for _, bound := range []float64{1, 0} {
		n, apart, err := Mixed(seen, g, bound, len(im.Pixels), image)
		if err != nil {
			t.Fatal(err)
		}
		r, err := newInt8(n)
		if err != nil {
			t.Fatal(err)
		}
		worst, err := r.disagreement(want, drawn, image)
		if err != nil {
			t.Fatal(err)
		}
		l, err := Layers(n, len(im.Pixels), image)
		if err != nil {
			t.Fatal(err)
		}
		if worst > bound || apart != worst {
			t.Errorf("bound %v: %v of the images have another class", bound, worst)
		}
		share, lost = append(share, l.Share), append(lost, l.Layers[len(l.Layers)-1].Whole)
	}
	if share[0] != 1 || share[1] >= 1 || lost[1] >= lost[0] {
		t.Errorf("int8 has %v of the MACs, the last layer loses %v", share, lost)
	}
}

// If int16 does not separate the classes either, this is reported, and a bound is rejected if no exit has a class.
func TestMixedBounds(t *testing.T) {
	for _, class := range []bool{true, false} {
		n := graph.Node{
			Name: "conv", Op: graph.Conv, Inputs: []graph.TensorID{0}, Output: 1, Window: graph.Window{KH: 1, KW: 1, SH: 1, SW: 1}, Groups: 1, Residual: graph.None,
			Weights: []float32{1, 1, 1}, Bias: []float32{0, 1e-6, 2e-6}, ClampLo: float32(math.Inf(-1)), ClampHi: float32(math.Inf(1)),
		}
		g := &graph.Graph{
			Name: "ties", Tensors: []graph.Tensor{{Name: "x", H: 1, W: 1, C: 1}, {Name: "y", H: 1, W: 1, C: 3}},
			Nodes: []graph.Node{n}, Exits: []graph.Exit{{Name: "y", Tensor: 1}},
		}
		if !class {
			g.Exits[0].Confidence = graph.NoClass
		}
		image := func(i int) ([]float32, error) { return []float32{1 + float32(i)}, nil }
		if err := g.Arrange(); err != nil {
			t.Fatal(err)
		}
		seen, err := quant.See(g, 4, image, quant.Options{Headroom: 1})
		if err != nil {
			t.Fatal(err)
		}
		_, apart, err := Mixed(seen, g, 0, 4, image)
		if class && (err != nil || apart != 1) || !class && !errors.Is(err, ErrNoClass) {
			t.Errorf("an exit with classes %v: %v of the images have another class, %v", class, apart, err)
		}
	}
}
