package quant

import (
	"errors"
	"flag"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-npu/sluice/dse/alias"
	"github.com/sluice-npu/sluice/dse/graph"
	"github.com/sluice-npu/sluice/dse/zoo"
)

var (
	seed = flag.Uint64("seed", 1, "first seed of the random networks")
	nets = flag.Int("nets", 70, "number of random networks; nightly has 200 others")
)

func TestFraction(t *testing.T) {
	for _, c := range []struct {
		x    float64
		want int
	}{
		{1, 14},
		{0.99996, 15},
		{0.99999, 14},
		{6, 12},
		{32767, 0},
		{32767.4, 0},
		{32768, -1},
		{0.5, 15},
		{0.25, 16},
		{1e-9, 24},
		{8, 11},
		{7.9999, 11},
		{7.9998, 12},
	} {
		got := fraction(c.x, 24)
		if got != c.want {
			t.Errorf("%v has %d fraction bits, expected %d", c.x, got, c.want)
		}
		if v := math.Round(math.Ldexp(c.x, got)); v > 32767 || got < 24 && math.Round(math.Ldexp(c.x, got+1)) <= 32767 {
			t.Errorf("%v: %d fraction bits are not the most that fit", c.x, got)
		}
	}
}

// TestRandom executes networks with every operator and compares each element of each layer with the same layer in
// float64: they may differ only by roundings, unless the element saturates.
func TestRandom(t *testing.T) {
	elements, saturated, last := 0, 0, *seed+uint64(*nets)
	for seed := *seed; seed < last; seed++ {
		g, images := randomNet(t, seed)
		n, err := Quantise(g, images, Options{})
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		for i := range n.Layers {
			if n.Proof(i).Sum >= Limit {
				t.Errorf("seed %d, layer %d: %+v", seed, i, n.Proof(i))
			}
		}
		input := make([]int16, len(images[0]))
		n.Input(input, images[0])
		r := reference{n: n}
		got, wrapped := r.run(input), reference{n: n, width: 36}.run(input)
		if !cmp.Equal(got, wrapped) {
			t.Fatalf("seed %d: 36 bits are too few", seed)
		}
		for i := range g.Nodes {
			id := g.Nodes[i].Output
			want, slack := r.ideal(i, got)
			for k, v := range got[id] {
				elements++
				if g.Nodes[i].Function == nil && (v == math.MaxInt16 || v == math.MinInt16) { // a Sigmoid ends there
					saturated++
					continue
				}
				if e := math.Abs(n.Value(id, v) - want[k]); e > slack[k] {
					t.Fatalf("seed %d, layer %d (%s), element %d: %v, expected %v within %v", seed, i, g.Nodes[i].Name, k,
						n.Value(id, v), want[k], slack[k])
				}
			}
		}
	}
	t.Logf("%d elements, %d saturated", elements, saturated)
	if saturated*1000 > elements {
		t.Errorf("%d of %d elements saturate", saturated, elements)
	}
}

// wide is a layer with p weights per channel, after an input that fills its range, and a second channel with small
// weights.
func wide(t *testing.T, p int, weight float32, change func(*graph.Node)) *graph.Graph {
	b := newNet(1, 1, 1, p)
	out := b.conv(0, 2, 1, 1, func(n *graph.Node) {
		n.Weights = make([]float32, 2*p)
		for i := range p {
			n.Weights[i] = weight
			n.Weights[p+i] = weight / 1024
		}
		n.Bias = []float32{0, 0}
		if change != nil {
			change(n)
		}
	})
	b.g.Exits = []graph.Exit{{Name: "exit", Tensor: out}}
	return b.done(t)
}

// TestThirtyTwoBits: sums that exceed 32 bits are exact; a 32-bit accumulator would give wrong results.
func TestThirtyTwoBits(t *testing.T) {
	g := wide(t, 16, 0.9, nil)
	image := make([]float32, 16)
	for i := range image {
		image[i] = 1
	}
	n, err := Quantise(g, [][]float32{image}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	input := make([]int16, len(image))
	n.Input(input, image)
	exit := g.Exits[0].Tensor
	exact, bits36, bits32 := reference{n: n}.run(input)[exit], reference{n: n, width: 36}.run(input)[exit], reference{n: n, width: 32}.run(input)[exit]
	if !cmp.Equal(exact, bits36) {
		t.Errorf("36 bits give %v, exact is %v", bits36, exact)
	}
	if exact[0] == bits32[0] {
		t.Errorf("32 bits suffice (%v): this tests nothing", exact)
	}
	if got := n.Value(exit, exact[0]); math.Abs(got-16*0.9) > 0.01 {
		t.Errorf("the sum is %v, expected %v", got, 16*0.9)
	}
	if m := n.Proof(0); m.Acc < 1<<32 || m.Sum >= Limit || m.AccChannel != 0 {
		t.Errorf("margin %+v", m)
	}
}

// TestOverflow: weights whose sums could exceed 36 bits lose fraction bits until they cannot, or are rejected.
func TestOverflow(t *testing.T) {
	none := []float64{1, 1}
	cases := []struct {
		name    string
		p       int
		weight  float32
		ranges  []float64
		options Options
		change  func(*graph.Node)
		lost    int // weight fraction bits given up
		says    string
	}{
		{name: "fits", p: 31, weight: 0.5, ranges: none, lost: 0},
		// 32 * 32768 * 16384 * 2 = 2^35; the second channel adds a little, so the sum is too large.
		{name: "just not", p: 64, weight: 0.5, ranges: none, lost: 1},
		{name: "64 times", p: 2048, weight: 0.5, ranges: none, lost: 6},
		{name: "refused", p: 1 << 16, weight: 0.5, ranges: none, says: `layer 0 ("Conv0"): an accumulator could overflow: channel 0: sum|w| * 32768 + |bias| reaches`},
		{name: "refused early", p: 2048, weight: 0.5, ranges: none, options: Options{MinWeightBits: 10}, says: "it must keep 10"},
		{name: "just allowed", p: 2048, weight: 0.5, ranges: none, options: Options{MinWeightBits: 9}, lost: 6},
		{name: "allowed late", p: 1 << 16, weight: 0.5, ranges: none, options: Options{MinWeightBits: 1}, lost: 11},
		{name: "large bias", p: 4, weight: 0.5, ranges: []float64{1, 16}, change: func(n *graph.Node) { n.Bias[1] = 16 }, lost: 3},
		{name: "hopeless bias", p: 4, weight: 0.5, ranges: []float64{1, 16}, change: func(n *graph.Node) { n.Bias[1] = 1e9 }, says: "channel 1: the bias 1e+09"},
		{name: "zeros", p: 4, weight: 0, ranges: none, lost: 0},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			g := wide(t, c.p, c.weight, c.change)
			n, err := QuantiseRanges(g, c.ranges, c.options)
			if c.says != "" {
				if !errors.Is(err, ErrOverflow) || !strings.Contains(err.Error(), c.says) {
					t.Fatalf("got %v, expected an overflow and %q", err, c.says)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := 15 - n.Layers[0].WFrac; c.weight != 0 && got != c.lost {
				t.Errorf("%d bits are lost, expected %d", got, c.lost)
			}
			// The proof again, computed from the integers only.
			l := n.Layers[0]
			for ch, b := range l.Bias {
				sum := math.Abs(float64(b))
				for _, w := range l.Weights[ch*c.p : (ch+1)*c.p] {
					sum += math.Abs(float64(w)) * 32768
				}
				if sum >= 1<<35 {
					t.Errorf("channel %d reaches %v", ch, sum)
				}
			}
			// No bit is lost unnecessarily.
			if c.lost > 0 {
				l.WFrac++
				quantiseWeights(&l, &g.Nodes[0])
				if err := biases(&l, &g.Nodes[0], l.WFrac+n.Frac[0]); err == nil && prove(&g.Nodes[0], &l, 0).refusal() == nil {
					t.Error("one bit more would have been fine")
				}
			}
		})
	}
}

// TestResidual: residuals whose scale is close to the accumulator's, or far from it.
func TestResidual(t *testing.T) {
	build := func(weight float32) (*graph.Graph, graph.TensorID) {
		b := newNet(1, 1, 1, 4)
		res := b.conv(0, 4, 1, 1, nil)
		out := b.conv(0, 4, 1, 1, func(n *graph.Node) {
			n.Residual = res
			n.Weights = make([]float32, 16)
			for i := range n.Weights {
				n.Weights[i] = weight
			}
			n.Bias = make([]float32, 4)
		})
		b.g.Exits = []graph.Exit{{Name: "exit", Tensor: out}}
		return b.done(t), res
	}
	cases := []struct {
		name              string
		weight            float32
		residual, out     float64 // ranges
		resFrac, rs       int     // expected
		accFrac, outShift int
	}{
		{"ordinary", 0.5, 1, 1e5, 14, 15, 29, 31},
		{"coarse weights: the residual is coarsened", 20000, 1e-3, 1e5, 14, 0, 14, 16},
		{"coarse weights: so is the output", 20000, 1, 1e-3, 14, 0, 14, 0},
		{"a residual that needs the accumulator's room", 0.5, 1000, 1e5, 5, 19, 24, 26},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			g, res := build(c.weight)
			n, err := QuantiseRanges(g, []float64{1, c.residual, c.out}, Options{Headroom: 1})
			if err != nil {
				t.Fatal(err)
			}
			l := n.Layers[1]
			if n.Frac[res] != c.resFrac || l.ResShift != c.rs || l.WFrac+n.Frac[0] != c.accFrac || l.Shift != c.outShift {
				t.Errorf("residual fraction %d and shift %d, accumulator fraction %d and shift %d; expected %d, %d, %d, %d",
					n.Frac[res], l.ResShift, l.WFrac+n.Frac[0], l.Shift, c.resFrac, c.rs, c.accFrac, c.outShift)
			}
			m := n.Proof(1)
			if want := m.Acc + 32768<<l.ResShift; m.Sum != want || m.Sum >= Limit {
				t.Errorf("the proof says %d with the residual, expected %d", m.Sum, want)
			}
		})
	}
}

// TestAdd: operands and sum with any scales.
func TestAdd(t *testing.T) {
	for _, c := range []struct {
		a, b, out      float64 // ranges
		fa, fb, fo     int     // expected
		wfrac, rs, shr int
	}{
		{1, 1, 1, 14, 14, 14, 0, 0, 0},
		{1, 0.25, 1, 14, 16, 14, 2, 0, 2},
		{0.25, 1, 1, 16, 14, 14, 0, 2, 2},
		{1, 1, 0.25, 14, 14, 16, 2, 2, 0},
		{1e4, 1e-3, 1e4, 1, 15, 1, 14, 0, 14},
		{1e-3, 1e4, 1e4, 19, 1, 1, 0, 18, 18},
		{1e4, 1e4, 1e-3, 1, 1, 15, 14, 14, 0},
		{1, 1e4, 1e-6, 14, 1, 19, 5, 18, 0},
	} {
		b := newNet(1, 1, 1, 1)
		unit := func(n *graph.Node) { n.Weights, n.Bias = []float32{1}, []float32{0} }
		x, y := b.conv(0, 1, 1, 1, unit), b.conv(0, 1, 1, 1, unit)
		out := b.join(graph.Add, x, y)
		b.g.Exits = []graph.Exit{{Name: "exit", Tensor: out}}
		g := b.done(t)
		// The input is so coarse that its convolutions can reach any scale.
		g.Nodes[0].Weights[0], g.Nodes[1].Weights[0] = 1e-4, 1e-4
		n, err := QuantiseRanges(g, []float64{1, c.a, c.b, c.out}, Options{Headroom: 1})
		if err != nil {
			t.Errorf("%+v: %v", c, err)
			continue
		}
		l := n.Layers[2]
		got := []int{n.Frac[x], n.Frac[y], n.Frac[out], l.WFrac, l.ResShift, l.Shift}
		if d := cmp.Diff([]int{c.fa, c.fb, c.fo, c.wfrac, c.rs, c.shr}, got); d != "" {
			t.Errorf("%+v: %s", c, d)
		}
	}
}

// TestAverage executes average pools on inputs with one value everywhere.
func TestAverage(t *testing.T) {
	cases := []struct {
		name    string
		window  graph.Window
		h, w    int // of the input
		oh, ow  int
		include bool
		table   bool
		refused bool
	}{
		{name: "one", window: graph.Window{KH: 1, KW: 1, SH: 1, SW: 1}, h: 3, w: 3, oh: 3, ow: 3},
		{name: "nine", window: graph.Window{KH: 3, KW: 3, SH: 1, SW: 1}, h: 5, w: 5, oh: 3, ow: 3},
		{name: "global", window: graph.Window{KH: 31, KW: 17, SH: 1, SW: 1}, h: 31, w: 17, oh: 1, ow: 1},
		{name: "large", window: graph.Window{KH: 200, KW: 200, SH: 1, SW: 1}, h: 200, w: 200, oh: 1, ow: 1},
		{name: "border", window: graph.Window{KH: 3, KW: 3, SH: 1, SW: 1, PT: 1, PL: 1, PB: 1, PR: 1}, h: 5, w: 4, oh: 5, ow: 4, table: true},
		{name: "border counts", window: graph.Window{KH: 3, KW: 3, SH: 1, SW: 1, PT: 1, PL: 1, PB: 1, PR: 1}, h: 5, w: 4, oh: 5, ow: 4, include: true},
		{name: "hangs over", window: graph.Window{KH: 3, KW: 3, SH: 2, SW: 2}, h: 6, w: 5, oh: 3, ow: 2, table: true},
		{name: "hangs over padding", window: graph.Window{KH: 3, KW: 3, SH: 2, SW: 2, PT: 1, PL: 1, PB: 1, PR: 1}, h: 4, w: 4, oh: 3, ow: 3, include: true, table: true},
		// At the top, two pixels are divided by three, because the padding counts; at the bottom by two.
		{name: "two divisors", window: graph.Window{KH: 3, KW: 1, SH: 2, SW: 1, PT: 1}, h: 7, w: 1, oh: 4, ow: 1, include: true, refused: true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			b := newNet(1, c.h, c.w, 1)
			at := b.pool(graph.AvgPool, 0, c.window, c.oh, c.ow, c.include)
			b.exit(at)
			g := b.done(t)
			ranges := make([]float64, len(g.Tensors))
			for i := range ranges {
				ranges[i] = 1
			}
			n, err := QuantiseRanges(g, ranges, Options{Headroom: 1})
			if c.refused {
				if !errors.Is(err, ErrRange) || !strings.Contains(err.Error(), g.Nodes[0].Name) {
					t.Fatalf("got %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			l := n.Layers[0]
			if (l.AvgTable != nil) != c.table || c.table && len(l.AvgTable) != c.window.KH*c.window.KW+1 {
				t.Errorf("the table is %v", l.AvgTable)
			}
			if !c.table && (l.AvgMul <= 1<<15 || l.AvgMul > 1<<16) {
				t.Errorf("M is %d, expected it in (2^15, 2^16]", l.AvgMul)
			}
			image := make([]float32, c.h*c.w)
			for i := range image {
				image[i] = 0.9
			}
			input := make([]int16, len(image))
			n.Input(input, image)
			float, err := graph.Run(g, image)
			if err != nil {
				t.Fatal(err)
			}
			out := g.Nodes[0].Output
			for i, got := range (reference{n: n}).run(input)[out] {
				if e := math.Abs(n.Value(out, got) - float64(float[out][i])); e > math.Ldexp(1, -13) {
					t.Errorf("position %d: %v, expected %v", i, n.Value(out, got), float[out][i])
				}
			}
		})
	}
}

// TestShared: the inputs and output of a concatenation, and those of a max pool, have the same scale.
func TestShared(t *testing.T) {
	b := newNet(1, 4, 4, 2)
	small := b.conv(0, 2, 1, 1, nil)
	pooled := b.pool(graph.MaxPool, small, graph.Window{KH: 1, KW: 1, SH: 1, SW: 1}, 4, 4, false)
	large := b.conv(0, 2, 1, 1, nil)
	joined := b.join(graph.Concat, pooled, large, 0)
	b.exit(joined)
	g := b.done(t)
	ranges := []float64{1, 0.1, 0.1, 50, 50, 1, 1}
	n, err := QuantiseRanges(g, ranges, Options{Headroom: 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []graph.TensorID{0, small, pooled, large, joined} {
		if n.Frac[id] != 9 {
			t.Errorf("tensor %d has %d fraction bits, expected 9", id, n.Frac[id])
		}
	}
	// Clamps are on the output's scale.
	if l := n.Layers[0]; l.ClampLo != -32768 || l.ClampHi != 32767 {
		t.Errorf("no clamp is %d .. %d", l.ClampLo, l.ClampHi)
	}
}

// TestClamp: a bound known from a clamp needs no headroom and is represented exactly.
func TestClamp(t *testing.T) {
	b := newNet(1, 1, 1, 1)
	at := b.conv(0, 1, 1, 1, func(n *graph.Node) {
		n.ClampLo, n.ClampHi = 0, 6
		n.Weights, n.Bias = []float32{100}, []float32{0}
	})
	b.exit(at)
	g := b.done(t)
	n, err := QuantiseRanges(g, []float64{0.01, 6, 6, 1}, Options{Headroom: 4})
	if err != nil {
		t.Fatal(err)
	}
	if n.Frac[g.Input] != 14 {
		t.Errorf("the input has %d fraction bits, its range of 1 gives 14 whatever calibration saw", n.Frac[g.Input])
	}
	if l := n.Layers[0]; n.Frac[at] != 12 || l.ClampLo != 0 || l.ClampHi != 6<<12 {
		t.Errorf("ReLU6 is %d .. %d with %d fraction bits", l.ClampLo, l.ClampHi, n.Frac[at])
	}
	if got := (reference{n: n}).run([]int16{1 << 14})[at][0]; got != 6<<12 {
		t.Errorf("100 is clamped to %d", got)
	}
}

func TestCalibrate(t *testing.T) {
	g, images := randomNet(t, 3)
	one, _, err := calibrate(g, len(images), from(images), Options{Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	many, _, err := calibrate(g, len(images), from(images), Options{Workers: 5})
	if err != nil || !cmp.Equal(one, many) {
		t.Errorf("five workers see something else: %v", err)
	}
	nan := append([]float32{}, images[0]...)
	nan[3] = float32(math.NaN())
	far := append([]float32{}, images[0]...)
	far[4] = -1.5
	for name, bad := range map[string][][]float32{
		"none": nil, "NaN": {images[0], nan}, "out of range": {far}, "short": {images[0][1:]},
	} {
		if _, err := Quantise(g, bad, Options{}); err == nil {
			t.Errorf("%s: accepted", name)
		} else if name != "short" && !errors.Is(err, ErrCalibration) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Quantise(g, [][]float32{far}, Options{InputRange: 2}); err != nil {
		t.Errorf("with a range of 2: %v", err)
	}
	// Infinite activations.
	h := wide(t, 4, 3e38, nil)
	if _, _, err := calibrate(h, 1, from([][]float32{{1, 1, 1, 1}}), Options{}); !errors.Is(err, ErrCalibration) {
		t.Errorf("an infinite sum gives %v", err)
	}
	// Infinity minus infinity, without a visible infinity.
	h = wide(t, 2, 3e38, func(n *graph.Node) { n.Weights = []float32{3e38, -3e38, 1, 1} })
	if _, _, err := calibrate(h, 1, from([][]float32{{10, 10}}), Options{InputRange: 10}); !errors.Is(err, ErrCalibration) {
		t.Errorf("a sum that is no number gives %v", err)
	}
	// A function makes a number of both.
	for name, weights := range map[string][]float32{"infinity": {3e38, 3e38, 1, 1}, "infinity less itself": {3e38, -3e38, 1, 1}} {
		h = wide(t, 2, 3e38, func(n *graph.Node) {
			n.Weights, n.Function = weights, (&graph.Function{Name: "Clip", Alpha: -1, Beta: 1}).After(&graph.Function{Name: "Tanh"})
		})
		image := from([][]float32{{10, 10}})
		_, _, err := calibrate(h, 1, image, Options{InputRange: 10})
		_, seen := See(h, 1, image, Options{})
		for _, err := range []error{err, seen} {
			if !errors.Is(err, ErrCalibration) || !strings.Contains(err.Error(), `"Conv0"`) {
				t.Errorf("%s in front of a function gives %v", name, err)
			}
		}
	}
}

func TestOptions(t *testing.T) {
	g, images := randomNet(t, 3)
	for _, o := range []Options{
		{InputRange: -1},
		{InputRange: math.Inf(1)},
		{InputRange: math.NaN()},
		{Headroom: 0.5},
		{Headroom: math.NaN()},
		{MinWeightBits: 16},
		{MinWeightBits: -1},
	} {
		if _, err := Quantise(g, images, o); err == nil {
			t.Errorf("%+v is accepted", o)
		}
	}
	if _, err := QuantiseRanges(g, []float64{1}, Options{}); !errors.Is(err, ErrCalibration) {
		t.Errorf("one range gives %v", err)
	}
	for n := range g.Nodes { // the ranges before it are unknown
		g.Nodes[n].Function = nil
	}
	ranges := make([]float64, len(g.Tensors))
	ranges[2] = math.NaN()
	if _, err := QuantiseRanges(g, ranges, Options{}); !errors.Is(err, ErrCalibration) {
		t.Errorf("a NaN range gives %v", err)
	}
	ranges[2] = 1e300
	if _, err := QuantiseRanges(g, ranges, Options{}); !errors.Is(err, ErrRange) || !strings.Contains(err.Error(), g.Tensors[2].Name) {
		t.Errorf("a huge range gives %v", err)
	}
}

// TestCheck makes one invalid change to a valid network in each case.
func TestCheck(t *testing.T) {
	b := newNet(5, 4, 4, 2)
	x := b.conv(0, 2, 1, 1, nil)
	y := b.conv(0, 2, 1, 1, func(n *graph.Node) { n.Residual = x })
	z := b.join(graph.Add, x, y)
	p := b.pool(graph.AvgPool, z, graph.Window{KH: 3, KW: 3, SH: 1, SW: 1, PT: 1, PL: 1, PB: 1, PR: 1}, 4, 4, false)
	m := b.pool(graph.MaxPool, p, graph.Window{KH: 1, KW: 1, SH: 1, SW: 1}, 4, 4, false)
	b.exit(b.join(graph.Concat, m, y))
	g, images := b.done(t), b.images(2)
	const conv, residual, add, avg, maxp, concat = 0, 1, 2, 3, 4, 5
	for name, change := range map[string]func(*Network){
		"shift":          func(n *Network) { n.Layers[conv].Shift++ },
		"residual shift": func(n *Network) { n.Layers[residual].ResShift++ },
		"weight":         func(n *Network) { n.Layers[conv].Weights = n.Layers[conv].Weights[1:] },
		"bias":           func(n *Network) { n.Layers[conv].Bias = append(n.Layers[conv].Bias, 0) },
		"clamp":          func(n *Network) { n.Layers[conv].ClampLo, n.Layers[conv].ClampHi = 1, 0 },
		"fraction":       func(n *Network) { n.Frac[g.Nodes[conv].Output]-- },
		"max pool":       func(n *Network) { n.Frac[g.Nodes[maxp].Output]++ },
		"concatenation":  func(n *Network) { n.Layers[concat].ClampLo = 0 },
		"layers":         func(n *Network) { n.Layers = n.Layers[1:] },
		"fractions":      func(n *Network) { n.Frac = n.Frac[1:] },
		"average shift":  func(n *Network) { n.Layers[avg].AvgShift = 48 },
		"no shift":       func(n *Network) { n.Layers[avg].AvgShift = 0 },
		"table":          func(n *Network) { n.Layers[avg].AvgTable[9] = 1 << 17 },
		"factor":         func(n *Network) { n.Layers[avg].AvgTable = nil },
		"short table":    func(n *Network) { n.Layers[avg].AvgTable = n.Layers[avg].AvgTable[1:] },
		"identity":       func(n *Network) { n.Layers[add].WFrac = 15 },
		"weights of add": func(n *Network) { n.Layers[add].Bias = []int32{1} },
		"negative shift": func(n *Network) {
			l, out := &n.Layers[conv], g.Nodes[conv].Output
			l.Shift, n.Frac[out] = -1, l.WFrac+n.Frac[0]+1
		},
		"overflow": func(n *Network) {
			l := &n.Layers[conv]
			l.Bias[0] = math.MaxInt32
			for i := range l.Weights {
				l.Weights[i] = 32767
			}
			g := *n.Graph
			n.Graph = &g
			g.Nodes = append([]graph.Node{}, g.Nodes...)
			l.Weights = make([]int16, 2*1024)
			for i := range l.Weights {
				l.Weights[i] = -32768
			}
			g.Nodes[conv].Weights = make([]float32, len(l.Weights))
		},
	} {
		n, err := Quantise(g, images, Options{})
		if err != nil {
			t.Fatal(err)
		}
		change(n)
		want := ErrRange
		if name == "overflow" {
			want = ErrOverflow
		}
		if err := n.Check(); !errors.Is(err, want) {
			t.Errorf("%s: got %v, expected %v", name, err, want)
		}
	}
}

// TestTrained: 16 bits do not reduce the accuracy of the networks that come with Sluice.
func TestTrained(t *testing.T) {
	train, err := zoo.FashionMNIST("", true, 64)
	if err != nil {
		t.Fatal(err)
	}
	test, err := zoo.FashionMNIST("", false, 200)
	if err != nil {
		t.Fatal(err)
	}
	for name, count := range map[string]int{"tiny": 200, "fashion": 20} {
		g, err := zoo.Load(name, 0)
		if err != nil {
			t.Fatal(err)
		}
		n, err := Quantise(g, train.Pixels, Options{})
		if err != nil {
			t.Fatal(err)
		}
		runner, err := graph.NewRunner(g)
		if err != nil {
			t.Fatal(err)
		}
		worst, differ := 0.0, 0
		for _, image := range test.Pixels[:count] {
			float, err := runner.Run(image)
			if err != nil {
				t.Fatal(err)
			}
			input := make([]int16, len(image))
			n.Input(input, image)
			got := reference{n: n}.run(input)
			for _, e := range g.Exits {
				best, want := 0, 0
				for c, v := range got[e.Tensor] {
					worst = max(worst, math.Abs(n.Value(e.Tensor, v)-float64(float[e.Tensor][c])))
					if v > got[e.Tensor][best] {
						best = c
					}
					if float[e.Tensor][c] > float[e.Tensor][want] {
						want = c
					}
				}
				if best != want {
					differ++
				}
			}
		}
		t.Logf("%s: %d images, largest difference of a logit %.4f, other classes %d", name, count, worst, differ)
		if worst > 0.1 || differ > count/50 {
			t.Errorf("%s: largest difference of a logit %.4f, other classes %d of %d images", name, worst, differ, count)
		}
	}
}

// Convolutions that may become one layer get the same shift, by coarser weights only, as long as these lose at most
// three bits; otherwise each keeps its own.
func TestSiblings(t *testing.T) {
	for _, c := range []struct {
		name  string
		gain  float64 // ratio of the second one's range to the first one's, a power of two
		bits  int     // minimum bits of the largest weight
		lost  [2]int  // bits of each one's weights
		apart bool
	}{
		{"alike", 1, 6, [2]int{0, 0}, false},
		{"a larger range", 4, 6, [2]int{0, 2}, false},
		{"a smaller range", 0.125, 6, [2]int{3, 0}, false},
		{"as many bits as must stay", 4, 13, [2]int{0, 2}, false},
		{"more bits must stay", 4, 14, [2]int{0, 0}, true},
		{"far apart", 16, 6, [2]int{0, 0}, true},
		{"far apart the other way", 1. / 16, 6, [2]int{0, 0}, true},
	} {
		quantise := func(hi float32) *Network {
			b := newNet(1, 4, 4, 3)
			point := func(n *graph.Node) {
				relu(n)
				n.Weights, n.Bias = make([]float32, 6), make([]float32, 2)
				for i := range n.Weights {
					n.Weights[i] = 0.75 - 0.25*float32(i)
				}
			}
			first := b.conv(0, 2, 1, 1, point)
			second := b.conv(0, 2, 1, 1, func(n *graph.Node) { point(n); n.ClampHi = hi })
			b.exit(b.join(graph.Concat, b.conv(first, 3, 3, 1, relu), b.conv(second, 4, 3, 1, relu)))
			g := b.done(t)
			ranges := make([]float64, len(g.Tensors))
			for i := range ranges {
				ranges[i] = 1
			}
			ranges[g.Nodes[1].Output] = c.gain
			q, err := QuantiseRanges(g, ranges, Options{MinWeightBits: c.bits})
			if err != nil {
				t.Fatal(err)
			}
			return q
		}
		// a bound far beyond the range gives the same integer as no bound, but prevents the merge
		got, alone := quantise(float32(math.Inf(1))), quantise(1e30)
		if len(alias.Of(got.Graph).Merged) != 1 || len(alias.Of(alone.Graph).Merged) != 0 {
			t.Fatalf("%s: one layer %v, alone %v", c.name, alias.Of(got.Graph).Merged, alias.Of(alone.Graph).Merged)
		}
		if diff := cmp.Diff(alone.Frac, got.Frac); diff != "" {
			t.Errorf("%s: fractions of tensors (-alone +as one layer):\n%s", c.name, diff)
		}
		for i, lost := range c.lost {
			if n := alone.Layers[i].WFrac - got.Layers[i].WFrac; n != lost {
				t.Errorf("%s: weights of convolution %d lose %d bits, want %d", c.name, i, n, lost)
			}
		}
		if apart := got.Layers[0].Shift != got.Layers[1].Shift; apart != c.apart {
			t.Errorf("%s: shifts %d and %d", c.name, got.Layers[0].Shift, got.Layers[1].Shift)
		}
	}
}

func from(images [][]float32) func(int) ([]float32, error) {
	return func(i int) ([]float32, error) { return images[i], nil }
}
