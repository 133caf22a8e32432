package quant

import (
	"math"

	"github.com/sluice-npu/sluice/dse/graph"
)

// front is the fraction in front of a function, of values multiplied by `by`: it holds what calibration saw, with
// headroom. Values may saturate where the function, bounded by lo and hi, stays within half a step: what is far out
// in front of a sigmoid costs the others no bits.
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

// flat reports whether a function, bounded by lo and hi, stays within most of its value at from, as far as to. Both
// have one sign; if to is not beyond from, it does.
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

// Front tells which values in front of a node's function saturate.
type Front struct {
	f        *graph.Function
	clamp    [2]float64 // of the network
	holds    [2]float64 // what the output's scale holds
	reach    float64    // what 16 bits hold in front of the function
	safe     float64    // up to which magnitude nothing saturates
	overstep float64    // difference of a result that is none: a step
}

// newFront is a Front of 16 bits of a fraction, in front of a node whose output has a step.
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

// Front returns what saturates in front of a layer's function and behind it; nil if it has none.
func (n *Network) Front(layer int) *Front {
	node, l := &n.Graph.Nodes[layer], &n.Layers[layer]
	if l.Curve == nil {
		return nil
	}
	step := math.Ldexp(1, -n.Frac[node.Output])
	return newFront(node, l.Mid, l.Stretch, math.MinInt16*step, math.MaxInt16*step, step)
}

// Saturates reports whether x is beyond 16 bits in front of the function, or its result beyond the output's scale, and the
// result is more than a step off because of that. Beyond 16 bits a sigmoid, for one, is as flat as it is before.
func (f *Front) Saturates(x float64) bool { return math.Abs(x) > f.safe && f.lost(x) }

func (f *Front) lost(x float64) bool {
	want := bounded(f.f.At(x), f.clamp[0], f.clamp[1])
	got := bounded(bounded(f.f.At(bounded(x, -f.reach, f.reach)), f.holds[0], f.holds[1]), f.clamp[0], f.clamp[1])
	return math.Abs(want-got) > f.overstep
}
