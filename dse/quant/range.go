package quant

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/sluice-npu/sluice/dse/graph"
)

// Range selects the part of the calibrated values that a tensor's scale covers. The zero value selects all values. The
// scales of the network's input and of its exits always cover all values.
type Range struct {
	Percentile float64 // percentage of the nonzero values that the scale covers, above 0 and below 100; 0: all values
	MSE        bool    // the scale with the least squared error
}

// UnmarshalText reads max, mse, or percentile:P.
func (r *Range) UnmarshalText(text []byte) error {
	switch p, ok := strings.CutPrefix(string(text), "percentile:"); {
	case string(text) == "max":
		*r = Range{}
	case string(text) == "mse":
		*r = Range{MSE: true}
	case ok:
		v, err := strconv.ParseFloat(p, 64)
		if err != nil || !(v > 0 && v < 100) {
			return fmt.Errorf("%q: expected a percentile above 0 and below 100, as percentile:99.99", text)
		}
		*r = Range{Percentile: v}
	default:
		return fmt.Errorf("%q is no range; expected max, mse or percentile:P", text)
	}
	return nil
}

// String returns the text that UnmarshalText reads.
func (r Range) String() string {
	switch {
	case r.MSE:
		return "mse"
	case r.Percentile > 0:
		return "percentile:" + strconv.FormatFloat(r.Percentile, 'g', -1, 64)
	}
	return "max"
}

// coarse is the number of mantissa bits of a float32 that a histogram ignores: magnitudes within 3 % share a bin.
const coarse = 18

// histogram contains the number of nonzero values of a tensor, by the leading bits of their magnitude.
type histogram [1 << (31 - coarse)]int64

func (h *histogram) add(values []float32) {
	for _, v := range values {
		if b := math.Float32bits(v) &^ (1 << 31) >> coarse; v != 0 {
			h[b]++
		}
	}
}

// edge returns the upper end of bin b.
func edge(b int) float64 { return float64(math.Float32frombits(uint32(b+1) << coarse)) }

// within returns the largest magnitude that a tensor's scale covers according to r, limited to `most`.
func (h *histogram) within(r Range, most float64, headroom float64) float64 {
	all := int64(0)
	for _, n := range h {
		all += n
	}
	if r.MSE {
		return h.leastError(most, headroom)
	}
	seen := int64(0)
	for b, n := range h {
		if seen += n; n > 0 && float64(seen) >= r.Percentile/100*float64(all) {
			return min(most, edge(b))
		}
	}
	return most
}

// leastError returns the range with the least squared error: the parameter `most`, divided by a power of two.
func (h *histogram) leastError(most, headroom float64) float64 {
	best, least := most, math.Inf(1)
	for k := range 8 {
		limit := math.Ldexp(most, -k)
		step := math.Ldexp(1, -fraction(limit*headroom, maxFrac))
		holds, sum := step*(math.MaxInt16+1), 0.0
		for b, n := range h {
			if n == 0 {
				continue
			}
			beyond := max(0, edge(b)-holds)
			sum += float64(n) * max(step*step/12, beyond*beyond)
		}
		if sum < least {
			best, least = limit, sum
		}
	}
	return best
}

// clipped reduces the calibrated range of each tensor to the range that its scale covers.
func clipped(g *graph.Graph, channels [][]float64, seen []histogram, o Options) {
	whole := map[graph.TensorID]bool{g.Input: true}
	for _, x := range g.Exits {
		whole[x.Tensor] = true
	}
	for t := range channels {
		if whole[graph.TensorID(t)] {
			continue
		}
		most := seen[t].within(o.Range, largest(channels[t : t+1])[0], o.Headroom)
		for c, x := range channels[t] {
			channels[t][c] = min(x, most)
		}
	}
}
