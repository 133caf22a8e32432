package randnet

import (
	"math"
	"math/bits"
	"math/rand/v2"

	"github.com/sluice-npu/sluice/dse/graph"
	"github.com/sluice-npu/sluice/dse/quant"
	"github.com/sluice-npu/sluice/hw/abi"
)

// Int8 returns a drawn network with random zero points, factors, shifts and clamps for int8. With most of them, results
// have about 8 bits; some are at the limits of their fields.
func Int8(rng *rand.Rand, q *quant.Network) *quant.Int8 {
	n := &quant.Int8{Graph: q.Graph, Maps: make([]quant.Codes, len(q.Graph.Tensors)), Layers: make([]quant.Layer8, len(q.Layers))}
	for i := range n.Maps {
		n.Maps[i] = quant.Codes{Step: 1, Zero: []int{0, math.MinInt8, math.MaxInt8, rng.IntN(256) - 128}[rng.IntN(4)]}
	}
	// factor returns a factor that scales sums of about `size` to about 7 bits, or sometimes any factor.
	factor := func(size float64) quant.Scaling {
		s := quant.Scaling{Mul: int32(1<<16 + rng.IntN(1<<16))}
		s.Shift = uint8(min(max(17+int(math.Log2(max(size, 1)))-7+rng.IntN(4)-1, 0), abi.ShiftMax))
		if rng.IntN(12) == 0 {
			s = quant.Scaling{Mul: int32(rng.Uint32() >> 15 >> rng.IntN(17)), Shift: uint8(rng.IntN(abi.ShiftMax + 1))}
		}
		return s
	}
	for i := range n.Layers {
		from, l, node := &q.Layers[i], &n.Layers[i], &q.Graph.Nodes[i]
		l.Curve, l.Mid = from.Curve, from.Mid
		l.Lo, l.Hi = math.MinInt8, math.MaxInt8
		if rng.IntN(2) == 0 {
			a, b := int16(rng.IntN(256)-128), int16(rng.IntN(256)-128)
			l.Lo, l.Hi = min(a, b), max(a, b)
		}
		behind := 1 << 7 // approximate size of sums after the first factor
		if l.Curve != nil || node.Residual != graph.None || node.Op == graph.Add {
			behind = 1 << 14
		}
		sum := func() *quant.Sum {
			s := factor(float64(behind))
			return &quant.Sum{A: s.Mul, B: int32(rng.Uint32() >> 15 >> rng.IntN(17)), Shift: s.Shift}
		}
		switch node.Op {
		case graph.Conv:
			size := weights8(l, from)
			for c := range l.Bias {
				l.Bias[c] = int32(rng.Uint32()) >> (1 + rng.IntN(30))
				l.Scales = append(l.Scales, factor(size/float64(behind)*(1<<7)))
			}
			if node.Residual != graph.None {
				l.Sum = sum()
			}
		case graph.Add:
			behind = 1 << 8
			l.Sum = sum()
		case graph.Mul:
			l.Scales = []quant.Scaling{factor(1 << 14)}
		case graph.AvgPool:
			for taps := range node.Window.KH*node.Window.KW + 1 {
				l.Scales = append(l.Scales, factor(float64(128*taps)))
			}
		default:
			for range node.Inputs {
				l.Scales = append(l.Scales, factor(128))
			}
		}
	}
	return n
}

// weights8 reduces the weights to 8 bits, without -128. It returns the approximate size of sums.
func weights8(l *quant.Layer8, from *quant.Layer) float64 {
	most := 0
	for _, w := range from.Weights {
		most = max(most, int(w), -int(w))
	}
	shift := max(bits.Len(uint(most))-7, 0)
	l.Weights, l.Bias = make([]int16, len(from.Weights)), make([]int32, len(from.Bias))
	total := 0.0
	for i, w := range from.Weights {
		l.Weights[i] = min(max(w>>shift, -math.MaxInt8), math.MaxInt8)
		total += math.Abs(float64(l.Weights[i]))
	}
	per := float64(len(l.Weights)) / float64(len(l.Bias))
	return total / float64(len(l.Weights)) * math.Sqrt(per) * 64
}
