package quant

import (
	"fmt"
	"math"
	"slices"

	"github.com/sluice-npu/sluice/dse/graph"
	"github.com/sluice-npu/sluice/hw/abi"
)

// spread is the distribution of the inputs of a node's function in calibration.
type spread struct {
	f      *graph.Function
	lo, hi float64
	signed [2]histogram // magnitudes of the negative inputs, and of the positive inputs
	gate   bool         // the result multiplies the function's own input, as in x * sigmoid(x)
	norm   bool         // the input is the norm of a map, and the result multiplies that map
}

func (s *spread) weight(x float64) float64 {
	switch {
	case s.gate:
		return gateLeast + x*x
	case s.norm:
		return math.Pow(s.f.At(max(x, normLeast*s.hi)), -2)
	}
	return 1
}

// least returns approximately the smallest positive input.
func (s *spread) least() float64 {
	b := max(slices.IndexFunc(s.signed[1][:], func(n int64) bool { return n > 0 }), 0)
	return float64(math.Float32frombits(uint32(b) << coarse))
}

func (s *spread) add(values []float32) {
	for _, v := range values {
		s.lo, s.hi = min(s.lo, float64(v)), max(s.hi, float64(v))
		side := 1
		if v < 0 {
			v, side = -v, 0
		}
		if v != 0 {
			s.signed[side][math.Float32bits(v)&^(1<<31)>>coarse]++ // a NaN may have a sign
		}
	}
}

func (s *spread) merge(o *spread) {
	s.lo, s.hi = min(s.lo, o.lo), max(s.hi, o.hi)
	for side := range s.signed {
		for b, n := range o.signed[side] {
			s.signed[side][b] += n
		}
	}
}

// largest returns the largest magnitude of the inputs.
func (s *spread) largest() float64 { return max(-s.lo, s.hi) }

const (
	// priorShare is the total weight of evenly spaced points for inputs that did not occur in calibration, as a share
	// of the calibrated inputs' weight. Points within the headroom weigh priorNear times as much.
	priorShare = 0.001
	priorNear  = 10
	priorEvery = 64 // distance of the points for such inputs, in integers
	// gateLeast is added to the square of the product's other factor; the sum is the weight of a gate's point.
	gateLeast = 0.001
	// normLeast limits the weights of a norm's points. The weight 1 / value^2 makes errors relative. An input below the
	// share normLeast of the largest input is like zero, and has the weight of an input with exactly this share.
	normLeast = 1e-6
	// plainer is the weight of each point below a norm's smallest calibrated input, as a share of all inputs.
	plainer = 0.0005
	// tailSteps is the maximum difference between a function and its asymptote at the end of the 16-bit range, in steps
	// of the output. A line that fits the calibrated inputs better may differ there by up to tailMost.
	tailSteps = 4
	tailMost  = 512
	// curveStarts limits the number of positions of the first segment that place tries for each width. The positions
	// are at most curveOverlap of the 32 segments apart, so that neighbouring attempts overlap.
	curveStarts  = 128
	curveOverlap = 8
)

// sums are sums over weighted points. The method of least squares computes a line from them.
type sums struct{ w, x, y, xx, xy, yy float64 }

func (s sums) plus(w, x, y float64) sums {
	return sums{s.w + w, s.x + w*x, s.y + w*y, s.xx + w*x*x, s.xy + w*x*y, s.yy + w*y*y}
}

func (s sums) minus(o sums) sums {
	return sums{s.w - o.w, s.x - o.x, s.y - o.y, s.xx - o.xx, s.xy - o.xy, s.yy - o.yy}
}

// line returns the line y = slope x + offset with the least square error.
func (s sums) line() (slope, offset float64) {
	if d := s.w*s.xx - s.x*s.x; d > 1e-12*s.w*s.xx {
		slope = (s.w*s.xy - s.x*s.y) / d
	}
	return slope, (s.y - slope*s.x) / s.w
}

func (s sums) off(slope, offset float64) float64 {
	e := s.yy - 2*slope*s.xy - 2*offset*s.y + slope*slope*s.xx + 2*slope*offset*s.x + offset*offset*s.w
	return max(e, 0)
}

// fitter finds the curve of a function. The curve's inputs, multiplied by stretch, have mid fraction bits, and its
// outputs have out.
type fitter struct {
	f        *graph.Function
	stretch  float64
	mid, out int
	norm     bool
	at       []float64 // points, ascending, in integers of fraction mid
	before   []sums    // before[i]: sums over the first i points
	index    []int     // index of the first point at or above an integer, by integer from -32768 on
	weight   float64   // total weight of all points
	tail     [2]*[2]float64
	end      [2]float64 // the function's values at the smallest and at the largest integer
}

// newFitter prepares a fit to the calibrated inputs. It also returns the range of integers that may occur.
func newFitter(f *graph.Function, s *spread, headroom, stretch float64, mid, out int) (t *fitter, first, last int) {
	t = &fitter{f: f, stretch: stretch, mid: mid, out: out, norm: s.norm}
	lo := s.lo * headroom
	if t.norm {
		lo = s.least() / (4 * headroom)
	}
	first, last = int(saturate(math.Floor(math.Ldexp(lo*stretch, mid)))), int(saturate(math.Ceil(math.Ldexp(s.hi*headroom*stretch, mid))))
	t.points(s, first, last)
	t.tails()
	return t, first, last
}

// place finds the segments with the least square error over the calibrated inputs. It returns the first integer of the
// first segment, the width (a power of two) and the error.
func (t *fitter) place() (lo, step int, least float64) {
	least = math.Inf(1)
	for width := abi.CurveStepMax; width >= 0; width-- { // from the largest width, because it is best if several widths have the same error
		const all = math.MaxUint16 + 1
		window := abi.CurveSegments << width
		every := 1 << width
		for (all-window)/every > curveStarts && every < curveOverlap<<width {
			every *= 2
		}
		for start := math.MinInt16; start == math.MinInt16 || start+window <= math.MinInt16+all; start += every {
			if e := t.error(start, width, least); e < least {
				lo, step, least = start, width, e
			}
		}
	}
	return lo, step, least
}

// fit returns the curve of 32 segments with the least square error over the calibrated inputs. The curve's inputs have
// mid fraction bits, and its outputs have out. Its first and last segments are the function's asymptotes, or lines
// close to them. The result `off` is the largest error on the calibrated range with headroom.
func fit(f *graph.Function, s *spread, headroom, stretch float64, mid, out int) (curve *abi.Curve, off float64, err error) {
	t, first, last := newFitter(f, s, headroom, stretch, mid, out)
	lo, step, _ := t.place()
	if curve, err = t.integers(lo, step); err != nil {
		return nil, 0, err
	}
	return curve, math.Ldexp(t.off(curve, first, last), -out), nil
}

// off returns the largest error of a curve on a range, in steps of the output.
func (t *fitter) off(curve *abi.Curve, first, last int) (off float64) {
	for x := first; x <= last; x++ {
		y := min(max(t.value(float64(x)), math.MinInt16), math.MaxInt16)
		off = max(off, math.Abs(float64(curve.At(int16(x)))-y))
	}
	return off
}

// value returns the function's value in units of 2^-out, for an input x in units of 2^-mid. Far from the calibrated
// inputs, a norm's function may have values up to a thousand, so they are limited to the output's range.
func (t *fitter) value(x float64) float64 {
	y := math.Ldexp(t.f.At(math.Ldexp(x, -t.mid)/t.stretch), t.out)
	if t.norm {
		y = min(max(y, math.MinInt16), math.MaxInt16)
	}
	return y
}

// points sets the points of the fit: the calibrated inputs, and a few points over the whole range. The parameters first
// and last are the smallest and the largest integer that may occur.
func (t *fitter) points(s *spread, first, last int) {
	seen, weights, count := map[float64]float64{}, 0.0, 0.0
	for side, sign := range []float64{-1, 1} {
		for b, n := range s.signed[side] {
			if n > 0 {
				from := float64(math.Float32frombits(uint32(b) << coarse))
				x := sign * math.Ldexp((from+edge(b))/2*t.stretch, t.mid)
				weight := float64(n) * s.weight(math.Ldexp(x, -t.mid)/t.stretch)
				seen[min(max(x, math.MinInt16), math.MaxInt16)] += weight
				weights, count = weights+weight, count+float64(n)
			}
		}
	}
	const share = priorShare * priorEvery / (math.MaxUint16 + 1)
	each := max(weights, 1) * share
	for x := math.MinInt16; x <= math.MaxInt16; x += priorEvery {
		weight := each
		if x >= first && x <= last {
			weight *= priorNear
		}
		if t.norm {
			weight = max(count, 1) * share * s.weight(math.Ldexp(float64(x), -t.mid)/t.stretch)
		}
		seen[float64(x)] += weight
	}
	if t.norm { // later images may have pixels with slightly smaller variances than the calibration images
		for x := max(1, float64(first)); x < math.Ldexp(s.least()*t.stretch, t.mid); x *= 1.1 {
			seen[math.Round(x)] += max(count, 1) * plainer * s.weight(math.Ldexp(x, -t.mid)/t.stretch)
		}
	}
	for x := range seen {
		t.at = append(t.at, x)
	}
	slices.Sort(t.at)
	sum := sums{}
	t.before = append(t.before, sum)
	for _, x := range t.at {
		sum = sum.plus(seen[x], x, t.value(x))
		t.before = append(t.before, sum)
	}
	t.weight = sum.w
	t.index = make([]int, math.MaxUint16+2)
	for x, i := 0, 0; x < len(t.index); x++ {
		for i < len(t.at) && t.at[i] < float64(math.MinInt16+x) {
			i++
		}
		t.index[x] = i
	}
}

// tails finds the function's asymptotes on both sides. The function must be close to them at the ends (tailSteps).
func (t *fitter) tails() {
	for side, end := range []float64{math.MinInt16, math.MaxInt16} {
		far := 256 * math.Copysign(1, end)
		t.end[side] = t.value(end)
		slope := (t.f.At(2*far) - t.f.At(far)) / far
		offset := math.Ldexp(t.f.At(far)-slope*far, t.out)
		slope = math.Ldexp(slope, t.out-t.mid) / t.stretch
		if math.Abs(slope*end+offset-t.end[side]) <= tailSteps {
			t.tail[side] = &[2]float64{slope, offset}
		}
	}
}

// segment returns the line of segment i and its square error. The result `on` reports whether the line is an asymptote.
func (t *fitter) segment(lo, step, i int) (slope, offset, off float64, on bool) {
	from, to := float64(lo+i<<step), float64(lo+(i+1)<<step)
	a, b := t.point(lo+i<<step), t.point(lo+(i+1)<<step)
	var line *[2]float64
	far, end := 0.0, 0.0
	switch i {
	case 0:
		a, line, far, end = 0, t.tail[0], math.MinInt16, t.end[0]
	case abi.CurveSegments - 1:
		b, line, far, end = len(t.at), t.tail[1], math.MaxInt16, t.end[1]
	}
	seen := t.before[b].minus(t.before[a])
	few := seen
	for k := 0; k < 5 && b-a < 3; k++ { // add points of little weight, if there are too few points for a line
		x := from + float64(k)/4*(to-from)
		few = few.plus(1e-6*t.weight, x, t.value(x))
	}
	slope, offset = few.line()
	off = seen.off(slope, offset)
	if line != nil && (math.Abs(slope*far+offset-end) > tailMost || seen.off(line[0], line[1]) <= off) {
		return line[0], line[1], seen.off(line[0], line[1]), true
	}
	return slope, offset, off, false
}

// point returns the index of the first point at or above x.
func (t *fitter) point(x int) int { return t.index[min(max(x-math.MinInt16, 0), len(t.index)-1)] }

// error returns the square error of the curve with segments from integer lo on. It stops when the error reaches `most`.
func (t *fitter) error(lo, step int, most float64) (sum float64) {
	for i := 0; i < abi.CurveSegments && sum < most; i++ {
		_, _, off, _ := t.segment(lo, step, (i+abi.CurveSegments-1)%abi.CurveSegments) // the last segment first, because it usually has the largest error at bad positions
		sum += off
	}
	return sum
}

// integers rounds the slopes. It chooses offsets that cancel the rounding error in the middle of each segment.
func (t *fitter) integers(lo, step int) (*abi.Curve, error) {
	c := &abi.Curve{Lo: int16(lo), Step: uint8(step), Shift: 31}
	for i := 0; i < abi.CurveSegments; {
		slope, offset, _, tail := t.segment(lo, step, i)
		if t.norm { // the function may be very steep outside the calibrated inputs
			slope = min(max(slope, -math.MaxInt16), math.MaxInt16)
		}
		middle := float64(lo+i<<step) + float64(int(1)<<step)/2
		if tail && i == 0 {
			middle = math.MinInt16
		} else if tail {
			middle = math.MaxInt16
		}
		m := math.Round(math.Ldexp(slope, int(c.Shift)))
		b := math.Round(math.Ldexp(slope*middle+offset, int(c.Shift)) - m*middle)
		if math.Abs(m) <= math.MaxInt16 && math.Abs(b) <= math.MaxInt32 {
			c.Segments[i] = abi.Segment{Slope: int16(m), Offset: int32(b)}
			i++
			continue
		}
		if c.Shift == 0 || math.IsNaN(m+b) {
			return nil, fmt.Errorf("%w: %v from %d to %d fraction bits, whose segments do not fit 16 bits of slope and 32 of offset", ErrRange, t.f, t.mid, t.out)
		}
		c.Shift, i = c.Shift-1, 0
	}
	return c, nil
}

const (
	// stretches is the number of factors from 1 to 2 that are tried for a function's input. A factor above 1 is chosen
	// only if its square error is below stretchGain times that of factor 1, and its largest error is at most
	// stretchMost times that of factor 1.
	stretches   = 8
	stretchGain = 0.5
	stretchMost = 1.25
)

// stretch finds the factor, from 1 to below 2, for a function's input. The width of a segment is a power of two. The
// factor has the effect of a width between two powers, which can fit the calibrated inputs better: if segments are 1.5
// times as wide, the error doubles. The parameter out is approximately the output's fraction.
func stretch(f *graph.Function, s *spread, headroom, lo, hi float64, out int) float64 {
	best, gain, most := 1.0, 0.0, 0.0
	for k := range stretches {
		by := math.Exp2(float64(k) / stretches)
		t, first, last := newFitter(f, s, headroom, by, s.front(f, headroom, by, lo, hi, math.Ldexp(1, -out)), out)
		lo, step, e := t.place()
		if k > 0 && e >= gain {
			continue
		}
		curve, err := t.integers(lo, step)
		if err != nil {
			continue
		}
		switch off := t.off(curve, first, last); {
		case k == 0:
			gain, most = stretchGain*e, stretchMost*off
		case off <= most:
			best, gain = by, e
		}
	}
	return best
}
