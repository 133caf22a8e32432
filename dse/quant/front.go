package quant

import (
	"math"

	"github.com/sluice-npu/sluice/dse/graph"
)

// front returns the number of fraction bits of a function's input, which is multiplied by `by`. Calibrated inputs with
// headroom fit 16 bits, or saturate without effect: beyond the largest input that fits, the function, limited to lo and
// hi, changes by at most half a step. Thus very large inputs of a sigmoid do not reduce the precision of other inputs.
func (s *spread) front(f *graph.Function, headroom, by, lo, hi, step float64) int {
	frac := fraction(orOne(s.largest()*headroom*by), maxFrac)
	for frac < maxFrac {
		reach := math.Ldexp(math.MaxInt16, -frac-1) / by
		if !flat(f, reach, s.hi*headroom, lo, hi, step/2) || !flat(f, -reach, s.lo*headroom, lo, hi, step/2) {
			break
		}
		frac++
	}
	return frac
}

// flat reports whether a function, limited to lo and hi, changes by at most `most` between the inputs `from` and `to`.
// Both inputs have the same sign. The result is true if |to| is not larger than |from|.
func flat(f *graph.Function, from, to, lo, hi, most float64) bool {
	const points = 128
	at := bounded(f.At(from), lo, hi)
	for k := 1; k <= points && math.Abs(to) > math.Abs(from) && from*to > 0; k++ {
		x := from * math.Pow(to/from, float64(k)/points)
		if math.Abs(bounded(f.At(x), lo, hi)-at) > most {
			return false
		}
	}
	return true
}

func bounded(x, lo, hi float64) float64 { return min(max(x, lo), hi) }

// Front determines which inputs of a node's function saturate.
type Front struct {
	f        *graph.Function
	clamp    [2]float64 // bounds of the node's clamp
	holds    [2]float64 // range of the output's scale
	reach    float64    // largest input that 16 bits can represent
	safe     float64    // inputs up to this magnitude do not saturate
	overstep float64    // step of the output; smaller differences of a result are ignored
}

// newFront returns the Front of a node. The function's 16-bit inputs have frac fraction bits; step is the output's.
func newFront(node *graph.Node, frac int, by, lo, hi, step float64) *Front {
	f := &Front{
		f: node.Function, clamp: [2]float64{float64(node.ClampLo), float64(node.ClampHi)}, holds: [2]float64{lo, hi},
		reach: math.Ldexp(math.MaxInt16, -frac) / by, overstep: step,
	}
	const points = 1024
	for k := 1; k <= points; k++ {
		x := f.reach * float64(k) / points
		if f.lost(x) || f.lost(-x) {
			break
		}
		f.safe = x
	}
	return f
}

// Front returns the Front of a layer's function; nil if the layer has no function.
func (n *Network) Front(layer int) *Front {
	node, l := &n.Graph.Nodes[layer], &n.Layers[layer]
	if l.Curve == nil {
		return nil
	}
	step := math.Ldexp(1, -n.Frac[node.Output])
	return newFront(node, l.Mid, l.Stretch, math.MinInt16*step, math.MaxInt16*step, step)
}

// Saturates reports whether saturation changes the result for input x by more than a step. The input may exceed 16
// bits, or the result may exceed the output's scale. A very large input does not change a sigmoid's result.
func (f *Front) Saturates(x float64) bool { return math.Abs(x) > f.safe && f.lost(x) }

func (f *Front) lost(x float64) bool {
	want := bounded(f.f.At(x), f.clamp[0], f.clamp[1])
	got := bounded(bounded(f.f.At(bounded(x, -f.reach, f.reach)), f.holds[0], f.holds[1]), f.clamp[0], f.clamp[1])
	return math.Abs(want-got) > f.overstep
}
