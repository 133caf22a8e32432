package quant

import (
	"math"
	"testing"

	"github.com/sluice-npu/sluice/dse/graph"
)

// Factors are the nearest of 17 bits. Factors beyond 17 bits saturate every number, as the exact factors do.
func TestScaling(t *testing.T) {
	for _, f := range []float64{1e-9, 0.01, 1, 1.99999, 100, 131071, 131071.7, 1e6, 1 << 31, 1e40} {
		s := scaling(f)
		if want := min(f, 1<<17-1); s.Mul <= 0 || s.Mul >= 1<<17 || s.Shift < MaxShift && math.Abs(math.Ldexp(float64(s.Mul), -int(s.Shift))/want-1) > 1./(1<<17) {
			t.Errorf("%g is %d / 2^%d", f, s.Mul, s.Shift)
		}
	}
	sat := func(x float64) float64 { return min(max(math.RoundToEven(x), -256), 256) }
	for _, c := range [][2]float64{{1e11, 1}, {1, 1e11}, {1e11, 0.9e11}, {1e11, 1e11}, {1e11, 3e6}, {1e5, 0.5}, {3, 0.01}} {
		s := sumOf(c[0], c[1], 255, 255, 256)
		if s.A < 0 || s.A >= 1<<17 || s.B < 0 || s.B >= 1<<17 {
			t.Errorf("%v: factors %d and %d", c, s.A, s.B)
		}
		for a := int64(-255); a <= 255; a++ {
			for b := int64(-255); b <= 255; b++ {
				exact := float64(a)*c[0] + float64(b)*c[1]
				if math.Abs(exact) < 1e-5*max(c[0], c[1]) && max(c[0], c[1]) > 1<<17 && exact != float64(b) {
					continue // the two numbers cancel, and 17 bits of a factor limit the precision of the rest
				}
				if got, want := sat(float64(s.Of(a, b))), sat(exact); math.Abs(got-want) > 1 {
					t.Fatalf("%v: %d and %d are %v, expected %v", c, a, b, got, want)
				}
			}
		}
	}
}

func inInt8(t *testing.T, g *graph.Graph, wide []bool, images ...[]float32) *Int8 {
	t.Helper()
	seen, err := See(g, len(images), func(i int) ([]float32, error) { return images[i], nil }, Options{Headroom: 1})
	if err != nil {
		t.Fatal(err)
	}
	n, err := seen.Network(wide)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// A clamp between two codes is rounded as QuantizeLinear rounds the clamped value: ties to even.
func TestInt8Clamp(t *testing.T) {
	b := newPlan(1, 1, 1)
	x := b.conv(0, 1, 1, false, graph.None, all(1), all(0))
	b.g.Nodes[0].ClampLo, b.g.Nodes[0].ClampHi = -2.5, 2.5
	g := b.head(x)
	g.Scales = map[graph.TensorID]graph.Scale{g.Nodes[0].Output: {Step: 1, Zero: 3}}
	if l := inInt8(t, g, nil, []float32{1}).Layers[0]; l.Lo != 1 || l.Hi != 5 {
		t.Errorf("a clamp to 2.5 of step 1 and zero point 3 has codes %d .. %d, expected 1 .. 5", l.Lo, l.Hi)
	}
}

// A step grows if the bias, with the zero point's contribution, does not fit 32 bits at the file's step.
func TestInt8StepGrows(t *testing.T) {
	for _, c := range []struct {
		name                string
		step, weight, bias  float64
		inputs              int
		wide, file, largest bool
	}{
		{"the file's step suits", 0.5, 63.5, 1, 4, false, true, true},
		{"a dead channel's bias", 1e-9, 127e-9, 10, 4, false, false, false},
		{"weights of one sign in int16", 0, 1, 0, 8192, true, false, false},
		{"a sum beyond 32 bits", 0, 1, 0, 1 << 18, false, false, false},
		{"a bias alone", 0, 0, 1e6, 4, false, false, false},
	} {
		b := newPlan(1, 1, c.inputs)
		x := b.conv(0, 1, 1, false, graph.None, all(0), all(0))
		n := &b.g.Nodes[0]
		for k := range n.Weights {
			n.Weights[k] = float32(c.weight)
		}
		n.Bias[0] = float32(c.bias)
		if c.step > 0 {
			n.Steps = []float64{c.step}
		}
		// A layer of 8 bits reads the input too, which so has a zero point of -128.
		g := b.head(b.node(graph.Node{Op: graph.Add, Inputs: []graph.TensorID{x, b.conv(0, 1, 1, false, graph.None, all(1), all(0))}}, 1, 1, 1))
		image := make([]float32, c.inputs)
		image[0] = 1
		l := inInt8(t, g, []bool{c.wide, false, false, false}, image).Layers[0]
		step := l.Steps[0]
		if got := step == c.step; got != c.file || (l.Anew == 1) != (c.step > 0 && !c.file) {
			t.Errorf("%s: a step of %v, the file's is %v; %d channels are not the file's", c.name, step, c.step, l.Anew)
		}
		if c.weight == 0 {
			continue
		}
		if got := math.Abs(float64(l.Weights[0])*step/c.weight - 1); got > 0.5/math.Abs(float64(l.Weights[0]))+1e-6 && c.bias < 2 {
			t.Errorf("%s: a weight of %v is %v", c.name, c.weight, float64(l.Weights[0])*step)
		}
		bias := (float64(l.Bias[0]) - 128*float64(l.Weights[0])*float64(c.inputs)) * step / 255
		if math.Abs(bias-c.bias) > 1e-3*max(c.bias, 1) {
			t.Errorf("%s: a bias of %v is %v", c.name, c.bias, bias)
		}
	}
}

// If weights leave room in their codes, and the bias is not a multiple of the file's step, finer steps are used: coarse
// ones would round the bias to whole codes of the output.
func TestInt8NarrowWeights(t *testing.T) {
	for _, c := range []struct {
		bias   float64
		code   int16
		coarse int // the step as a multiple of the file's step
	}{{0.3, 64, 64}, {1.5, 1, 1}} {
		b := newPlan(1, 1, 1)
		x := b.conv(0, 1, 1, false, graph.None, all(0), all(0))
		n := &b.g.Nodes[0]
		n.Weights[0], n.Bias[0], n.Steps = 1, float32(c.bias), []float64{1}
		g := b.head(x)
		g.Scales = map[graph.TensorID]graph.Scale{g.Input: {Step: 0.5}}
		l := inInt8(t, g, nil, []float32{1}).Layers[0]
		if got := float64(l.Bias[0]) * 0.5 * l.Steps[0]; l.Weights[0] != c.code || l.Steps[0]*float64(c.coarse) != 1 || l.Anew != 0 || math.Abs(got-c.bias) > 1./256 {
			t.Errorf("a weight of one step and a bias of %v: code %d of step %v, bias %v; expected code %d", c.bias, l.Weights[0], l.Steps[0], got, c.code)
		}
	}
}

// A convolution that its residual all but cancels is larger than the sum by more than 16 bits have beyond the output's.
func TestInt8Cancels(t *testing.T) {
	b := newPlan(1, 1, 4)
	x := b.conv(0, 1, 4, false, 0, all(0), all(0))
	for c := range 4 {
		b.g.Nodes[0].Weights[5*c] = -0.999
	}
	b.g.Exits = []graph.Exit{{Name: "y", Tensor: x}}
	if err := b.g.Arrange(); err != nil {
		t.Fatal(err)
	}
	n := inInt8(t, b.g, nil, []float32{1, -0.5, 0.25, 0})
	l, out := n.Layers[0], n.Maps[x]
	// t of the largest convolution, without its residual, in steps of the output
	if got, want := 32767*float64(l.Sum.A)/float64(int(1)<<l.Sum.Shift), 0.999/out.Step; got < 1.9*want {
		t.Errorf("16 bits in front of the sum hold %.0f steps of the output, the convolution has %.0f", got, want)
	}
}
