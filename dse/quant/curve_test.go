package quant

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sluice-npu/sluice/dse/graph"
)

// normal is a calibration of values around zero.
func normal(deviation float64) *spread {
	rng := rand.New(rand.NewPCG(3, 4))
	s, values := &spread{}, make([]float32, 20000)
	for i := range values {
		values[i] = float32(rng.NormFloat64() * deviation)
	}
	s.add(values)
	return s
}

// Every curve is within its stated bound on the calibrated range, and close to the function's asymptotes for all 16-bit
// inputs. The bounds of SiLU and Sigmoid do not hold if their inputs are not stretched.
func TestCurve(t *testing.T) {
	silu := &graph.Function{Name: "Mul", Of: []*graph.Function{graph.X(), {Name: "Sigmoid"}}}
	for _, c := range []struct {
		f         *graph.Function
		deviation float64
		most      float64 // share of the largest value
		tails     [2]bool
	}{
		{&graph.Function{Name: "Sigmoid"}, 2, 0.0018, [2]bool{true, true}},
		{&graph.Function{Name: "Tanh"}, 1, 0.005, [2]bool{true, true}},
		{&graph.Function{Name: "Tanh"}, 300, 0.01, [2]bool{true, true}}, // the function is narrow, compared with the range of its input
		{&graph.Function{Name: "Sigmoid"}, 300, 0.01, [2]bool{true, true}},
		{silu, 0.25, 0.0006, [2]bool{}},
		{silu, 1, 0.004, [2]bool{}},
		{silu, 4, 0.001, [2]bool{true, true}},
		{&graph.Function{Name: "HardSwish"}, 2, 0.0003, [2]bool{true, true}},
		{&graph.Function{Name: "Gelu"}, 2, 0.0007, [2]bool{true, true}},
		{&graph.Function{Name: "Mish"}, 4, 0.001, [2]bool{false, true}},
		{&graph.Function{Name: "Softplus"}, 4, 0.0005, [2]bool{true, true}},
		{&graph.Function{Name: "Elu", Alpha: 1}, 3, 0.0005, [2]bool{true, true}},
		{&graph.Function{Name: "Softsign"}, 1, 0.009, [2]bool{}},
		{&graph.Function{Name: "LeakyRelu", Alpha: 0.1}, 3, 0.0001, [2]bool{true, true}},
		{&graph.Function{Name: "Abs"}, 3, 0.0001, [2]bool{true, true}},
	} {
		t.Run(fmt.Sprint(c.f, c.deviation), func(t *testing.T) {
			s := normal(c.deviation)
			largest := 0.0
			for x := s.lo; x <= s.hi; x += (s.hi - s.lo) / 1000 {
				largest = max(largest, math.Abs(c.f.At(x)))
			}
			out := fraction(largest*Headroom, maxFrac)
			most := largest * Headroom
			by := stretch(c.f, s, Headroom, -most, most, out)
			mid := s.front(c.f, Headroom, by, -most, most, math.Ldexp(1, -out))
			curve, off, err := fit(c.f, s, Headroom, by, mid, out)
			if err != nil {
				t.Fatal(err)
			}
			if off > c.most*largest {
				t.Errorf("%.5f of the largest value off, expected at most %.5f", off/largest, c.most)
			}
			worst, step := 0.0, math.Ldexp(1, -out)
			for x := math.MinInt16; x <= math.MaxInt16; x++ {
				real := math.Ldexp(float64(x), -mid) / by
				y := min(max(c.f.At(real), math.MinInt16*step), math.MaxInt16*step)
				e := math.Abs(float64(curve.At(int16(x)))*step - y)
				if real >= s.lo && real <= s.hi {
					worst = max(worst, e)
				}
				for side, end := range []int{math.MinInt16, math.MaxInt16} {
					if c.tails[side] && x == end && e > (tailMost+1)*step {
						t.Errorf("%v at the end, %v: %v off", y, real, e)
					}
				}
			}
			if worst > off*(1+1e-9) {
				t.Errorf("%v off on what was seen, stated are %v", worst, off)
			}
			t.Logf("[%.2f, %.2f], segments of %.4f from %.3f on, %.5f of the largest off", s.lo, s.hi, math.Ldexp(1, int(curve.Step)-mid)/by, math.Ldexp(float64(curve.Lo), -mid)/by, off/largest)
		})
	}
}

// Errors of curves add up from layer to layer. As a curve of its gate and a product, SiLU is a quarter as far off.
func TestGatesAreNearer(t *testing.T) {
	silu := functions[1]
	off := map[bool]float64{}
	for _, gates := range []bool{false, true} {
		b := newNet(9, 16, 16, 8)
		wide := func(n *graph.Node) { n.Weights = b.random(8*9*8, math.Sqrt(3./72)) } // results of deviation 1
		out := graph.TensorID(0)
		if gates {
			x := b.conv(0, 8, 3, 1, wide)
			g := b.node(graph.Node{
				Op: graph.Conv, Inputs: []graph.TensorID{x}, Groups: 8, Residual: graph.None, Window: graph.Window{KH: 1, KW: 1, SH: 1, SW: 1},
				Weights: slices.Repeat([]float32{1}, 8), Bias: make([]float32, 8), Function: silu.Gate(),
			}, 16, 16, 8)
			out = b.join(graph.Mul, x, g)
		} else {
			out = b.conv(0, 8, 3, 1, func(n *graph.Node) { wide(n); n.Function = silu })
		}
		b.g.Exits = append(b.g.Exits, graph.Exit{Name: "map", Tensor: out})
		g, images := b.done(t), b.images(8)
		n, err := Quantise(g, images, Options{})
		if err != nil {
			t.Fatal(err)
		}
		beside(t, g, n, images, func(float, integer float64) { off[gates] += (integer - float) * (integer - float) })
	}
	t.Logf("square error of one curve %.3g, of a gate and a product %.3g", off[false], off[true])
	if !(off[true] < off[false]/18) { // a 14th if errors of the gate are not weighted by the other factor
		t.Errorf("square errors of %v with the gate and %v with one curve, expected an 18th", off[true], off[false])
	}
}

// An outlier costs the other values no bits if the function is flat there, or if its result is clipped before that.
func TestOutlierBeforeFunction(t *testing.T) {
	silu := &graph.Function{Name: "Mul", Of: []*graph.Function{graph.X(), {Name: "Sigmoid"}}}
	for _, c := range []struct {
		f           *graph.Function
		far, lo, hi float64
		mid         int // at least; with bits for the value far out 4
	}{
		{&graph.Function{Name: "Sigmoid"}, 1000, 0, 1, 11},
		{&graph.Function{Name: "Sigmoid"}, -1000, 0, 1, 11},
		{&graph.Function{Name: "Tanh"}, 1000, -1, 1, 11},
		{&graph.Function{Name: "HardSwish"}, -1000, -1, 5, 12},
		{silu, -1000, -1, 5, 10},
		{silu, 1000, -1, 5, 10},
		{silu, 1000, -1, 1250, 4}, // which is held
	} {
		s := normal(1)
		s.add([]float32{float32(c.far)})
		step := max(c.hi, -c.lo) / math.MaxInt16
		if mid := s.front(c.f, Headroom, 1, c.lo, c.hi, step); mid < c.mid || mid > 15 || c.mid == 4 && mid != 4 {
			t.Errorf("%v, %v far out: %d fraction bits, expected at least %d", c.f, c.far, mid, c.mid)
		}
	}
}

// Saturation before a function is counted if it changes the result. It is not counted where the function is flat, even
// if the function ends at the limit of 16 bits.
func TestSaturatedFunction(t *testing.T) {
	for _, c := range []struct {
		function string
		weights  float64
		most     float64 // factor of the measured images; calibration's images have a factor of 0.01
		want     bool
	}{
		{"Sigmoid", 3, 1, true},
		{"Sigmoid", 3, 0.01, false},
		{"HardSwish", 3, 1, true},
		{"Tanh", 3, 1, true},
		{"Sigmoid", 30000, 1, false},
		{"Tanh", 30000, 1, false},
		{"HardSwish", 30000, 1, true},
		{"HardSwish", 30000, 0.01, false},
	} {
		b := newNet(6, 4, 4, 3)
		at := b.conv(0, 4, 3, 1, func(n *graph.Node) {
			n.Function = &graph.Function{Name: c.function}
			n.Weights, n.Bias = b.random(4*27, c.weights), make([]float32, 4)
		})
		b.exit(at)
		g, images := b.done(t), b.images(4)
		scaled := func(by float64) func(int) ([]float32, error) {
			return func(i int) ([]float32, error) {
				x := slices.Clone(images[i])
				for k := range x {
					x[k] *= float32(by)
				}
				return x, nil
			}
		}
		q, err := QuantiseFrom(g, len(images), scaled(0.01), Options{})
		if err != nil {
			t.Fatal(err)
		}
		l, err := q.Measure(Images{Count: len(images), Image: scaled(c.most)}, Images{}, nil, Options{})
		if err != nil {
			t.Fatal(err)
		}
		beyond, front := 0, q.Front(0)
		r, err := graph.NewRunner(g)
		if err != nil {
			t.Fatal(err)
		}
		r.Before = func(_ int, values []float32) {
			for _, v := range values {
				if front.Saturates(float64(v)) {
					beyond++
				}
			}
		}
		for i := range images {
			x, _ := scaled(c.most)(i)
			if _, err := r.Run(x); err != nil {
				t.Fatal(err)
			}
		}
		want := float64(beyond) / float64(len(images)*g.Tensors[at].Elems())
		if share := l.Saturated[g.Tensors[at].Name]; (share > 0) != c.want || share != want {
			t.Errorf("%s of weights of %v, images up to %v: %v saturated, expected %v, some: %v", c.function, c.weights, c.most, share, want, c.want)
		}
	}
}

// A function without a calibrated input is refused, and the answer says what calibration knows about it.
func TestFunctionsAreStated(t *testing.T) {
	g, images := (*graph.Graph)(nil), [][]float32(nil)
	b := newNet(5, 4, 4, 3)
	at := b.conv(0, 4, 3, 1, func(n *graph.Node) { n.Function = &graph.Function{Name: "Mish"} })
	b.exit(at)
	g, images = b.done(t), b.images(4)
	if _, err := QuantiseRanges(g, make([]float64, len(g.Tensors)), Options{}); !errors.Is(err, ErrCalibration) {
		t.Errorf("no calibration: %v", err)
	}
	q, err := Quantise(g, images, Options{})
	if err != nil {
		t.Fatal(err)
	}
	l, err := q.Measure(list(images), Images{}, nil, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if k := l.Layers[0]; k.Function != "Mish(x)" || !(k.Curve > 0 && k.Curve < 0.01) {
		t.Errorf("%+v", k)
	}
}

// Channels are scaled through the first factor of a product, not through a function: the network computes the same.
func TestEqualisePost(t *testing.T) {
	for _, c := range []struct {
		name   string
		f      *graph.Function
		scaled bool
	}{{"product", nil, true}, {"function", &graph.Function{Name: "HardSwish"}, false}} {
		b := newNet(9, 5, 5, 3)
		at := b.conv(0, 8, 3, 1, func(n *graph.Node) {
			relu(n)
			n.Function = c.f
			n.Weights, n.Bias = b.random(8*27, 0.3), make([]float32, 8)
			for i := range n.Weights {
				n.Weights[i] = float32(math.Ldexp(float64(n.Weights[i]), -2*(i/27)))
			}
		})
		gate := b.conv(b.pool(graph.AvgPool, at, graph.Window{KH: 5, KW: 5, SH: 1, SW: 1}, 1, 1, false), 8, 1, 1,
			func(n *graph.Node) { n.Function = &graph.Function{Name: "Sigmoid"} })
		b.exit(b.conv(b.join(graph.Mul, at, gate), 8, 1, 1, relu))
		g, images := b.done(t), b.images(3)
		channels, _, err := calibrate(g, len(images), from(images), Options{}.defaults())
		if err != nil {
			t.Fatal(err)
		}
		e := equalise(g, channels)
		if (e != g) != c.scaled {
			t.Errorf("%s: scaled %v, expected %v", c.name, e != g, c.scaled)
		}
		for _, x := range images {
			want, err := graph.Run(g, x)
			if err != nil {
				t.Fatal(err)
			}
			got, err := graph.Run(e, x)
			if err != nil {
				t.Fatal(err)
			}
			for i, w := range want[g.Exits[0].Tensor] {
				if v := got[g.Exits[0].Tensor][i]; math.Abs(float64(v-w)) > 1e-5 {
					t.Errorf("%s: logit %d is %v, before %v", c.name, i, v, w)
				}
			}
		}
	}
}
