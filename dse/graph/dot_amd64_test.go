package graph

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// Positions computed four at a time have the same bits as those computed one by one: windows, strides, padding,
// groups, channels that do not fill the lanes.
func TestVectorsChangeNoBit(t *testing.T) {
	if !hasVectors {
		t.Skip("this processor has no AVX2")
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 300 {
		groups := 1 + rng.IntN(2)
		in := Tensor{H: 1 + rng.IntN(8), W: 1 + rng.IntN(16), C: groups * (1 + rng.IntN(12))}
		w := Window{KH: 1 + rng.IntN(3), KW: 1 + rng.IntN(3), SH: 1 + rng.IntN(2), SW: 1 + rng.IntN(3)}
		w.PT, w.PL = rng.IntN(w.KH), rng.IntN(w.KW)
		out := Tensor{H: 1 + rng.IntN(in.H+2)/w.SH, W: 1 + rng.IntN(in.W+2)/w.SW, C: groups * (1 + rng.IntN(12))}
		node := Node{Op: Conv, Window: w, Groups: groups, Bias: make([]float32, out.C), Weights: make([]float32, out.C*w.KH*w.KW*in.C/groups)}
		x, one, four := make([]float32, in.Elems()), make([]float32, out.Elems()), make([]float32, out.Elems())
		for _, v := range [][]float32{node.Bias, node.Weights, x} {
			for i := range v {
				v[i] = float32(rng.NormFloat64())
			}
		}
		packed := pack(&node, out.C)
		if depthwise(&node, out.C) {
			continue
		}
		hasVectors = false
		conv(&node, in, out, packed, x, one)
		hasVectors = true
		conv(&node, in, out, packed, x, four)
		for i := range one {
			if math.Float32bits(one[i]) != math.Float32bits(four[i]) {
				t.Fatalf("%+v, input %v, output %v: element %d is %v in vectors, %v one by one", w, in, out, i, four[i], one[i])
			}
		}
	}
}
