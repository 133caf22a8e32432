package graph

import (
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var inf = float32(math.Inf(1))

func newConv(name string, in, out TensorID, cin, cout, k int) Node {
	return Node{
		Name: name, Op: Conv, Inputs: []TensorID{in}, Output: out, Residual: None, Groups: 1,
		Window:  Window{KH: k, KW: k, SH: 1, SW: 1, PT: k / 2, PL: k / 2, PB: k / 2, PR: k / 2},
		Weights: make([]float32, cout*k*k*cin), Bias: make([]float32, cout), ClampLo: -inf, ClampHi: inf,
	}
}

func newPool(name string, op Op, in, out TensorID, w Window) Node {
	return Node{Name: name, Op: op, Inputs: []TensorID{in}, Output: out, Residual: None, Window: w, ClampLo: -inf, ClampHi: inf}
}

// twoExits is a graph whose backbone is a, b, d, with one head after a and another after d, in mixed order; u reaches
// no exit.
func twoExits() *Graph {
	g := &Graph{
		Name:  "two",
		Input: 1,
		Tensors: []Tensor{
			{"unused", 1, 1, 1},
			{"in", 4, 4, 2},
			{"a", 4, 4, 3},
			{"b", 4, 4, 3},
			{"d", 4, 4, 6},
			{"hp", 1, 1, 3},
			{"h", 1, 1, 5},
			{"gp", 1, 1, 6},
			{"g", 1, 1, 5},
			{"u", 4, 4, 3},
		},
		Exits: []Exit{{Name: "first", Tensor: 6}, {Name: "last", Tensor: 8}},
	}
	whole := Window{KH: 4, KW: 4, SH: 1, SW: 1}
	concat := Node{Name: "d", Op: Concat, Inputs: []TensorID{2, 3}, Output: 4, Residual: None, ClampLo: -inf, ClampHi: inf}
	g.Nodes = []Node{
		newConv("g", 7, 8, 6, 5, 1),
		newPool("hp", AvgPool, 2, 5, whole),
		concat,
		newConv("h", 5, 6, 3, 5, 1),
		newConv("u", 2, 9, 3, 3, 1),
		newConv("b", 2, 3, 3, 3, 3),
		newPool("gp", AvgPool, 4, 7, whole),
		newConv("a", 1, 2, 2, 3, 3),
	}
	g.Nodes[5].Residual = 2
	return g
}

func arranged(t *testing.T) *Graph {
	t.Helper()
	g := twoExits()
	if err := g.Arrange(); err != nil {
		t.Fatal(err)
	}
	if err := g.Check(); err != nil {
		t.Fatal(err)
	}
	return g
}

func TestArrange(t *testing.T) {
	g := arranged(t)
	var names, tensors []string
	for _, n := range g.Nodes {
		names = append(names, n.Name)
	}
	for _, x := range g.Tensors {
		tensors = append(tensors, x.Name)
	}
	if d := cmp.Diff("a hp h b d gp g", strings.Join(names, " ")); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff("in a hp h b d gp g", strings.Join(tensors, " ")); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]int{0, 0, 0, 1, 1, 1, 1}, g.Segment); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]bool{false, true, true, true, true, true, true}, g.Head()); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]int{-1, 0, 1, 2, 3, 4, 5, 6}, g.Producers()); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]int{0, 4, 2, 7, 4, 5, 6, 7}, g.LastUse()); d != "" {
		t.Error(d)
	}
	// 4x4 pixels x 3 x 2 x 9 and 3 x 5; 4x4 x 3 x 3 x 9 and 6 x 5.
	if d := cmp.Diff([]int64{16*54 + 15, 16*81 + 30}, g.SegmentMACs()); d != "" {
		t.Error(d)
	}
	if g.TotalMACs() != 16*54+15+16*81+30 {
		t.Errorf("%d MACs in all", g.TotalMACs())
	}
	again := *g
	if err := again.Arrange(); err != nil || cmp.Diff(*g, again) != "" {
		t.Errorf("arranging twice changes something: %v", err)
	}
}

func TestCheck(t *testing.T) {
	// Nodes: 0 a, 1 hp, 2 h, 3 b, 4 d, 5 gp, 6 g. Tensors: 0 in, 1 a, 2 hp, 3 h, 4 b, 5 d, 6 gp, 7 g.
	cases := []struct {
		name   string
		want   error
		change func(*Graph)
	}{
		{"cycle", ErrCycle, func(g *Graph) { g.Nodes[0].Inputs[0] = 4; g.Tensors[4].C = 2 }},
		{"order", ErrOrder, func(g *Graph) { g.Nodes[5], g.Nodes[6] = g.Nodes[6], g.Nodes[5] }},
		{"segment", ErrOrder, func(g *Graph) { g.Segment[3] = 0 }},
		{"segments missing", ErrOrder, func(g *Graph) { g.Segment = g.Segment[1:] }},
		{"input", ErrReference, func(g *Graph) { g.Input = 99 }},
		{"output", ErrReference, func(g *Graph) { g.Nodes[0].Output = -1 }},
		{"read", ErrReference, func(g *Graph) { g.Nodes[0].Inputs[0] = 77 }},
		{"two producers", ErrReference, func(g *Graph) { g.Nodes[3].Output = 1 }},
		{"writes the input", ErrReference, func(g *Graph) { g.Nodes[3].Output = 0 }},
		{"nothing produces", ErrReference, func(g *Graph) { g.Tensors = append(g.Tensors, Tensor{"x", 4, 4, 2}); g.Nodes[0].Inputs[0] = 8 }},
		{"residual of a pool", ErrReference, func(g *Graph) { g.Nodes[1].Residual = 0 }},
		{"no inputs", ErrReference, func(g *Graph) { g.Nodes[0].Inputs = nil }},
		{"operator", ErrReference, func(g *Graph) { g.Nodes[0].Op = 9 }},
		{"concat of one", ErrReference, func(g *Graph) { g.Nodes[4].Inputs = g.Nodes[4].Inputs[:1] }},
		{"size", ErrShape, func(g *Graph) { g.Tensors[4].H = 0 }},
		{"large", ErrShape, func(g *Graph) { g.Tensors[4] = Tensor{"b", 1 << 20, 1 << 20, 1} }},
		{"window", ErrShape, func(g *Graph) { g.Nodes[0].Window.KH = 0 }},
		{"stride", ErrShape, func(g *Graph) { g.Nodes[0].Window.SW = -1 }},
		{"padding", ErrShape, func(g *Graph) { g.Nodes[0].Window.PL = -1 }},
		{"rows", ErrShape, func(g *Graph) { g.Nodes[0].Window.PB = 0 }},
		{"columns", ErrShape, func(g *Graph) { g.Nodes[0].Window.PR = 3 }},
		{"channels of a pool", ErrShape, func(g *Graph) { g.Tensors[2].C = 4 }},
		{"in the padding", ErrShape, func(g *Graph) { g.Nodes[1].Window = Window{KH: 4, KW: 4, SH: 9, SW: 9, PT: 4, PB: 3} }},
		{"groups", ErrShape, func(g *Graph) { g.Nodes[0].Groups = 2 }},
		{"no groups", ErrShape, func(g *Graph) { g.Nodes[0].Groups = 0 }},
		{"weights", ErrShape, func(g *Graph) { g.Nodes[0].Weights = g.Nodes[0].Weights[1:] }},
		{"biases", ErrShape, func(g *Graph) { g.Nodes[0].Bias = nil }},
		{"residual", ErrShape, func(g *Graph) { g.Nodes[3].Residual = 0 }},
		{"concat channels", ErrShape, func(g *Graph) { g.Nodes[4].Inputs = []TensorID{1, 4, 4} }},
		{"concat rows", ErrShape, func(g *Graph) { g.Nodes[4].Inputs = []TensorID{1, 2} }},
		{"concat clamps", ErrShape, func(g *Graph) { g.Nodes[4].ClampLo = 0 }},
		{"add", ErrShape, func(g *Graph) { g.Nodes[4].Op = Add }},
		{"NaN", ErrValue, func(g *Graph) { g.Nodes[0].Weights[3] = float32(math.NaN()) }},
		{"infinite bias", ErrValue, func(g *Graph) { g.Nodes[0].Bias[1] = inf }},
		{"clamp", ErrValue, func(g *Graph) { g.Nodes[0].ClampLo, g.Nodes[0].ClampHi = 1, 0 }},
		{"NaN clamp", ErrValue, func(g *Graph) { g.Nodes[0].ClampLo = float32(math.NaN()) }},
		{"no exits", ErrExits, func(g *Graph) { g.Exits = nil }},
		{"exit twice", ErrExits, func(g *Graph) { g.Exits[0].Tensor = g.Exits[1].Tensor }},
		{"exits of one name", ErrExits, func(g *Graph) { g.Exits[0].Name = "last" }},
		{"exit nowhere", ErrExits, func(g *Graph) { g.Exits[0].Tensor = 12 }},
		{"exit at the input", ErrExits, func(g *Graph) { g.Exits[0].Tensor = 0 }},
		{"exit walks beyond its end", ErrExits, func(g *Graph) {
			e := &g.Exits[0]
			e.Walk = []Stride{{g.Tensors[e.Tensor].Elems(), 2}}
		}},
		{"exit walks backwards", ErrExits, func(g *Graph) {
			e := &g.Exits[0]
			e.Walk = []Stride{{g.Tensors[e.Tensor].Elems(), -1}}
		}},
		{"exit is a map", ErrExits, func(g *Graph) { g.Exits[0].Tensor = 1 }},
		{"dead node", ErrExits, func(g *Graph) {
			g.Tensors = append(g.Tensors, Tensor{"dead", 4, 4, 3})
			g.Nodes = append(g.Nodes, newConv("dead", 1, 8, 3, 3, 1))
			g.Segment = append(g.Segment, 2)
		}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			g := arranged(t)
			c.change(g)
			if err := g.Check(); !errors.Is(err, c.want) {
				t.Errorf("got %v, expected %v", err, c.want)
			}
			if _, err := NewRunner(g); err == nil {
				t.Error("a runner takes it")
			}
		})
	}
}

// TestHeadAfterBackbone: a node of a head must not come before the backbone of its segment.
func TestHeadAfterBackbone(t *testing.T) {
	one := func(name string) Tensor { return Tensor{name, 1, 1, 2} }
	add := func(name string, a, b, out TensorID) Node {
		return Node{Name: name, Op: Add, Inputs: []TensorID{a, b}, Output: out, Residual: None, ClampLo: -inf, ClampHi: inf}
	}
	g := &Graph{
		Tensors: []Tensor{one("in"), one("x1"), one("k"), one("x2"), one("e0"), one("e1")},
		Nodes: []Node{
			newConv("x1", 0, 1, 2, 2, 1), newConv("k", 1, 2, 2, 2, 1), newConv("x2", 0, 3, 2, 2, 1),
			add("e0", 2, 3, 4), add("e1", 1, 3, 5),
		},
		Exits: []Exit{{Name: "e0", Tensor: 4}, {Name: "e1", Tensor: 5}}, Segment: []int{0, 0, 0, 0, 1},
	}
	if err := g.Check(); !errors.Is(err, ErrOrder) {
		t.Errorf("got %v", err)
	}
	if err := g.Arrange(); err != nil {
		t.Fatal(err)
	}
	if err := g.Check(); err != nil || g.Nodes[1].Name != "x2" || g.Nodes[2].Name != "k" {
		t.Errorf("arranged: %v", err)
	}
}

func TestArrangeRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		want   error
		change func(*Graph)
	}{
		"cycle":   {ErrCycle, func(g *Graph) { g.Nodes[7].Inputs[0] = 3 }},
		"exits":   {ErrExits, func(g *Graph) { g.Exits = nil }},
		"tensors": {ErrShape, func(g *Graph) { g.Tensors[0].W = -1 }},
		"reads":   {ErrReference, func(g *Graph) { g.Nodes[7].Inputs[0] = 0 }},
	} {
		g := twoExits()
		c.change(g)
		if err := g.Arrange(); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, expected %v", name, err, c.want)
		}
	}
}

// TestRun compares the executor with sums computed by the definition, for windows, groups and paddings of all kinds.
func TestRun(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	for range 300 {
		in := Tensor{"in", 1 + rng.IntN(7), 1 + rng.IntN(7), 12}
		w := Window{KH: 1 + rng.IntN(4), KW: 1 + rng.IntN(4), SH: 1 + rng.IntN(3), SW: 1 + rng.IntN(3)}
		w.PT, w.PL, w.PB, w.PR = rng.IntN(w.KH), rng.IntN(w.KW), rng.IntN(w.KH), rng.IntN(w.KW)
		h, width := in.H+w.PT+w.PB-w.KH, in.W+w.PL+w.PR-w.KW
		if h < 0 || width < 0 {
			continue
		}
		op := Op(rng.IntN(3))
		out := Tensor{"out", h/w.SH + 1, width/w.SW + 1, 12}
		if op == Conv {
			out.C = []int{6, 12, 24, 36}[rng.IntN(4)]
		}
		n := newPool("n", op, 0, 1, w)
		n.ClampLo, n.ClampHi = -2, 3
		n.CountIncludePad = rng.IntN(2) == 0
		random := func(k int) []float32 {
			x := make([]float32, k)
			for i := range x {
				x[i] = float32(rng.NormFloat64())
			}
			return x
		}
		if op == Conv {
			n.Groups = []int{1, 2, 3, 6, 12}[rng.IntN(5)]
			if out.C%n.Groups != 0 {
				n.Groups = 6
			}
			n.Weights, n.Bias = random(out.C*w.KH*w.KW*in.C/n.Groups), random(out.C)
			if rng.IntN(2) == 0 && sameShape(in, out) {
				n.Residual = 0
			}
		}
		g := &Graph{
			Tensors: []Tensor{in, out, {"exit", 1, 1, out.C}},
			Nodes:   []Node{n, newPool("exit", MaxPool, 1, 2, Window{KH: out.H, KW: out.W, SH: 1, SW: 1})},
			Exits:   []Exit{{Name: "exit", Tensor: 2}}, Segment: []int{0, 0},
		}
		x := random(in.Elems())
		tensors, err := Run(g, x)
		if errors.Is(err, ErrShape) && op != Conv && !(touches(in.H, w.PT, w.KH, w.SH, out.H) && touches(in.W, w.PL, w.KW, w.SW, out.W)) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		for i, got := range tensors[1] {
			c, ox, oy := i%out.C, i/out.C%out.W, i/out.C/out.W
			sum, largest, taps := 0.0, math.Inf(-1), 0
			inside := func(p, size, before, after int) bool { return p >= -before && p < size+after }
			divisor := 0
			for ky := range w.KH {
				for kx := range w.KW {
					iy, ix := oy*w.SH-w.PT+ky, ox*w.SW-w.PL+kx
					if inside(iy, in.H, w.PT, w.PB) && inside(ix, in.W, w.PL, w.PR) {
						divisor++
					}
					if !inside(iy, in.H, 0, 0) || !inside(ix, in.W, 0, 0) {
						continue
					}
					taps++
					at := (iy*in.W + ix) * in.C
					if op != Conv {
						sum += float64(x[at+c])
						largest = max(largest, float64(x[at+c]))
						continue
					}
					cin := in.C / n.Groups
					for k := range cin {
						first := c / (out.C / n.Groups) * cin
						sum += float64(x[at+first+k]) * float64(n.Weights[((c*w.KH+ky)*w.KW+kx)*cin+k])
					}
				}
			}
			want := 0.0
			switch op {
			case Conv:
				want = sum + float64(n.Bias[c])
				if n.Residual == 0 {
					want += float64(x[i])
				}
			case MaxPool:
				want = largest
			case AvgPool:
				if !n.CountIncludePad {
					divisor = taps
				}
				want = sum / float64(divisor)
			}
			want = min(max(want, -2), 3)
			if math.Abs(float64(got)-want) > 1e-4 {
				t.Fatalf("%v %+v of %+v, groups %d, element %d: %v, expected %v", op, w, in, n.Groups, i, got, want)
			}
		}
	}
}

// x times the gate of a function equals the function.
func TestGate(t *testing.T) {
	sigmoid := &Function{Name: "Sigmoid"}
	erf := &Function{Name: "Line", Alpha: 1, Beta: 1, Of: []*Function{{Name: "Erf"}}}
	for _, f := range []*Function{
		{Name: "HardSwish"},
		{Name: "Gelu"},
		{Name: "Mish"},
		{Name: "Mul", Of: []*Function{X(), sigmoid}},
		{Name: "Mul", Of: []*Function{sigmoid, X()}},
		{Name: "Line", Alpha: 0.5, Of: []*Function{{Name: "Mul", Of: []*Function{X(), erf}}}},                                          // as exporters write GELU
		{Name: "Mul", Of: []*Function{{Name: "Line", Alpha: 0.5, Of: []*Function{{Name: "Mul", Of: []*Function{erf, X()}}}}, sigmoid}}, // x in an inner factor
	} {
		g := f.Gate()
		if g == nil {
			t.Errorf("%v has no gate", f)
			continue
		}
		for x := -8.0; x <= 8; x += 0.37 {
			if y, want := x*g.At(x), f.At(x); math.Abs(y-want) > 1e-12 {
				t.Errorf("%v at %v: %v, by its gate %v %v", f, x, want, g, y)
			}
		}
	}
	for _, f := range []*Function{
		X(), sigmoid,
		{Name: "Tanh"},
		{Name: "Elu", Alpha: 1},
		{Name: "Mul"},                            // x * x: grows
		{Name: "Gelu", Of: []*Function{sigmoid}}, // its argument is not x
		{Name: "Line", Alpha: 1, Beta: 1, Of: []*Function{{Name: "HardSwish"}}},
	} {
		if g := f.Gate(); g != nil {
			t.Errorf("%v has the gate %v", f, g)
		}
	}
}

// TestDivisor: the part of a window beyond the padding is not included.
func TestDivisor(t *testing.T) {
	g := &Graph{
		Tensors: []Tensor{{"in", 4, 4, 1}, {"out", 3, 3, 1}},
		Nodes:   []Node{newPool("n", AvgPool, 0, 1, Window{KH: 3, KW: 3, SH: 2, SW: 2, PT: 1, PL: 1, PB: 1, PR: 1})},
	}
	for include, want := range map[bool][]int{true: {9, 9, 6, 9, 9, 6, 6, 6, 4}, false: {4, 6, 2, 6, 9, 3, 2, 3, 1}} {
		g.Nodes[0].CountIncludePad = include
		if got := g.Overhanging(); len(got) > 0 != include {
			t.Errorf("counting padding %v: pools that onnxruntime divides otherwise: %q", include, got)
		}
		for i, w := range want {
			if got := g.Divisor(0, i/3, i%3); got != w {
				t.Errorf("counting padding %v, position %d: divided by %d, expected %d", include, i, got, w)
			}
		}
	}
}

func TestRunJoins(t *testing.T) {
	g := &Graph{
		Tensors: []Tensor{{"in", 1, 2, 2}, {"sum", 1, 2, 2}, {"all", 1, 2, 4}, {"exit", 1, 1, 4}},
		Nodes: []Node{
			{Name: "sum", Op: Add, Inputs: []TensorID{0, 0}, Output: 1, Residual: None, ClampLo: 0, ClampHi: 6},
			{Name: "all", Op: Concat, Inputs: []TensorID{1, 0}, Output: 2, Residual: None, ClampLo: -inf, ClampHi: inf},
			newPool("exit", MaxPool, 2, 3, Window{KH: 1, KW: 2, SH: 1, SW: 1}),
		},
		Exits: []Exit{{Name: "exit", Tensor: 3}}, Segment: []int{0, 0, 0},
	}
	r, err := NewRunner(g)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Run(make([]float32, 3)); !errors.Is(err, ErrShape) {
		t.Errorf("an input that is too short gives %v", err)
	}
	tensors, err := r.Clone().Run([]float32{1, -2, 4, 0.5})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]float32{2, 0, 1, -2, 6, 1, 4, 0.5}, tensors[2]); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]float32{6, 1, 4, 0.5}, tensors[3]); d != "" {
		t.Error(d)
	}
}

// BenchmarkConv is a 3x3 convolution of 64 channels on 14 x 14 pixels: 7.2 MMAC.
func BenchmarkConv(b *testing.B) {
	g := &Graph{
		Tensors: []Tensor{{"in", 14, 14, 64}, {"out", 14, 14, 64}, {"exit", 1, 1, 64}},
		Nodes: []Node{
			newConv("conv", 0, 1, 64, 64, 3),
			newPool("exit", AvgPool, 1, 2, Window{KH: 14, KW: 14, SH: 1, SW: 1}),
		},
		Exits: []Exit{{Name: "exit", Tensor: 2}}, Segment: []int{0, 0},
	}
	r, err := NewRunner(g)
	if err != nil {
		b.Fatal(err)
	}
	x := make([]float32, g.Tensors[0].Elems())
	for b.Loop() {
		if _, err := r.Run(x); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(g.TotalMACs())*float64(b.N)/b.Elapsed().Seconds()/1e9, "GMAC/s")
}

// The error for a function that straight segments cannot represent names the cause.
func TestWild(t *testing.T) {
	of := func(name string, alpha, beta float64, of ...*Function) *Function {
		return &Function{Name: name, Alpha: alpha, Beta: beta, Of: of}
	}
	magnitude := of("Abs", 0, 0)
	outside := func(epsilon float64) *Function {
		return of("Reciprocal", 0, 0, of("Line", 1, epsilon, of("Sqrt", 0, 0, magnitude)))
	}
	for _, c := range []struct {
		f    *Function
		says string
	}{
		{of("Tanh", 0, 0), ""},
		{outside(1e-3), ""},
		{outside(1e-5), "is 1e+05 at 0, where segments reach 1024 at most (an epsilon of 1e-6 within a root, or of 1e-3 outside"},
		{of("Pow", -0.5, 0, of("Line", 1, 1e-6, magnitude)), ""},
		{of("Pow", -0.5, 0, of("Line", 1, 1e-12, magnitude)), "is 1e+06 at 0"},
		{of("Pow", -0.5, 0, of("Line", 1, 1e-5)), "is no number at -0.001 (a mean of squares and Max(x, 0) cannot be negative)"},
		{of("Reciprocal", 0, 0), "is +Inf at 0"},
		{of("Exp", 0, 0), "grows faster than a line: it is 2.98e+03 at 8, where segments reach 1536"},
	} {
		if said := c.f.Wild(); !strings.HasPrefix(said, c.says) || (said == "") != (c.says == "") || c.f.Tame() != (said == "") {
			t.Errorf("%v: %q, expected %q", c.f, said, c.says)
		}
	}
}
