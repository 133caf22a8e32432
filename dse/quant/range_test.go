package quant

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sluice-npu/sluice/dse/graph"
)

func TestRangeText(t *testing.T) {
	for _, text := range []string{"max", "mse", "percentile:99.99", "percentile:50"} {
		var r Range
		if err := r.UnmarshalText([]byte(text)); err != nil || r.String() != text {
			t.Errorf("%q: %v, %v", text, r, err)
		}
	}
	for _, text := range []string{"", "MAX", "percentile", "percentile:", "percentile:0", "percentile:100", "percentile:-1", "percentile:NaN", "percentile:99,9"} {
		if err := new(Range).UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}

// A percentile is that of the sorted values, within the width of a bin.
func TestPercentile(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	values := make([]float32, 50000)
	for i := range values {
		values[i] = float32(math.Exp(3*rng.NormFloat64())) * float32(1-2*rng.IntN(2))
	}
	var h histogram
	h.add(values)
	h.add(make([]float32, 50000)) // zeros do not count
	for i, v := range values {
		values[i] = float32(math.Abs(float64(v)))
	}
	slices.Sort(values)
	for _, p := range []float64{10, 50, 90, 99.9} {
		want := float64(values[int(p/100*float64(len(values)))-1])
		if got := h.within(Range{Percentile: p}, math.Inf(1), 1); got < want || got > 1.04*want {
			t.Errorf("%v: %v, want %v", p, got, want)
		}
	}
	if got := h.within(Range{Percentile: 99.99}, 1, 1); got != 1 {
		t.Errorf("beyond the largest: %v", got)
	}
	if got := new(histogram).within(Range{Percentile: 50}, 3, 1); got != 3 {
		t.Errorf("of nothing: %v", got)
	}
}

// One value that is a million times larger than the others leaves them no bits. Ranges without it give the bits back;
// the squared error excludes it only if that reduces the error. The scales of exits cover all values.
func TestRangeLeavesOut(t *testing.T) {
	for _, c := range []struct {
		r       Range
		outlier float32
		most    float64 // limit for the largest |x| of the middle tensor's scale
		least   float64
	}{
		{Range{}, 4000, 1e9, 4000},
		{Range{Percentile: 99}, 4000, 64, 1},
		{Range{MSE: true}, 4000, 1e9, 4000}, // 0.1 % of the values are that large: cutting them off would cost more
		{Range{MSE: true}, 3, 16, 3},
	} {
		b := newPlan(8, 8, 1)
		y := b.node(graph.Node{Op: graph.Conv, Inputs: []graph.TensorID{0}, Window: graph.Window{KH: 1, KW: 1, SH: 1, SW: 1}, Groups: 1, Residual: graph.None, Weights: []float32{1}, Bias: []float32{0}}, 8, 8, 1)
		g := b.head(y)
		image := func(i int) ([]float32, error) {
			rng := rand.New(rand.NewPCG(7, uint64(i)))
			x := make([]float32, 64)
			for k := range x {
				x[k] = 2*rng.Float32() - 1
			}
			if i == 0 {
				x[5] = c.outlier
			}
			return x, nil
		}
		n, err := QuantiseFrom(g, 16, image, Options{InputRange: 4000, Range: c.r, Workers: 3})
		if err != nil {
			t.Fatal(err)
		}
		if holds := math.Ldexp(math.MaxInt16, -n.Frac[y]); holds < c.least || holds > c.most {
			t.Errorf("%v: the tensor's scale holds %v", c.r, holds)
		}
		whole, err := QuantiseFrom(g, 16, image, Options{InputRange: 4000})
		if err != nil {
			t.Fatal(err)
		}
		if out := g.Exits[0].Tensor; n.Frac[out] != whole.Frac[out] {
			t.Errorf("%v: the exit's fraction is %d, with all values %d", c.r, n.Frac[out], whole.Frac[out])
		}
	}
}
