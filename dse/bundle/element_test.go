package bundle_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/sluice-npu/sluice/dse/bundle"
)

// TestElements: a value becomes the nearest element, halves away from zero, as by math.Round.
func TestElements(t *testing.T) {
	random := rand.New(rand.NewPCG(20261127, 1))
	for i := range 200_000 {
		n := bundle.Network{InFrac: i % 16}
		scale := math.Exp2(float64(n.InFrac))
		v := math.Float32frombits(random.Uint32())
		switch i % 5 {
		case 0:
			v = float32(random.NormFloat64() * 3)
		case 1: // halves
			v = float32((math.Trunc(random.NormFloat64()*1000) + 0.5) / scale)
		case 2: // beside the smallest half
			v = math.Nextafter32(float32(0.5/scale), float32(random.IntN(3)-1))
		case 3: // beside the ends
			v = float32((32767 + random.Float64()*2) / scale * float64(1-2*random.IntN(2)))
		}
		q := math.Round(float64(v) * scale)
		within := max(math.MinInt16, min(math.MaxInt16, q))
		var out [2]int16
		if cut := n.Elements(out[:], []float32{v, 0}); v == v && (float64(out[0]) != within || out[1] != 0 || cut != (q != within)) {
			t.Fatalf("%v with %d bits: %d, cut %t: expected %v", v, n.InFrac, out, cut, within)
		}
	}
	if !(&bundle.Network{}).Elements(make([]int16, 2), []float32{float32(math.NaN()), 0}) {
		t.Error("no number is an element")
	}
}
