package quant

import (
	"fmt"
	"math"
	"slices"

	"github.com/sluice-npu/sluice/dse/graph"
	"github.com/sluice-npu/sluice/hw/abi"
)

// spread is what calibration sees in front of a node's function.
type spread struct {
	f      *graph.Function
	lo, hi float64
	signed [2]histogram // of the magnitudes below zero, and of those above
	gate   bool         // the function multiplies what it is of
	norm   bool         // it multiplies what it is a norm of
}

// weight is how much a point matters beside another.
func (s *spread) weight(x float64) float64 {
	switch {
	case s.gate:
		return gateLeast + x*x
	case s.norm:
		return math.Pow(s.f.At(max(x, normLeast*s.hi)), -2)
	}
	return 1
}

// least is about the least value above zero.
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

// largest is the largest magnitude.
func (s *spread) largest() float64 { return max(-s.lo, s.hi) }

const (
	// Values that calibration has not seen weigh this share of those that it has, spread evenly over all that 16 bits
	// hold, and ten times as much where the headroom allows for them.
	priorShare = 0.001
	priorNear  = 10
	priorEvery = 64 // of the integers
	// A point of a gate weighs as the square of what it multiplies, and this much in addition.
	gateLeast = 0.001
	// One of a norm weighs so that errors count as shares of the function's value; one below this share of the largest, which no
	// norm can tell from zero, as that.
	normLeast = 1e-6
	// plainer is the share of what calibration saw as which each of the values below its least counts.
	plainer = 0.0005
	// tailSteps is how far from the line that it approaches, in steps of the output, a function may end for the line to
	// stand for it. A line that suits better what calibration saw may end farther away: tailMost steps.
	tailSteps = 4
	tailMost  = 512
	// curveStarts limits the places that are tried for the first segment, for each width; they are not further apart than
	// curveOverlap segments, so that no function between two of them is missed.
	curveStarts  = 128
	curveOverlap = 8
)

// sums are those of weighted points, from which the line with the least square error follows.
type sums struct{ w, x, y, xx, xy, yy float64 }

func (s sums) plus(w, x, y float64) sums {
	return sums{s.w + w, s.x + w*x, s.y + w*y, s.xx + w*x*x, s.xy + w*x*y, s.yy + w*y*y}
}

func (s sums) minus(o sums) sums {
	return sums{s.w - o.w, s.x - o.x, s.y - o.y, s.xx - o.xx, s.xy - o.xy, s.yy - o.yy}
}

// line is y = slope x + offset; off is its square error.
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

// fitter finds the curve of a function between two fractions. What is in front of it is multiplied by stretch.
type fitter struct {
	f        *graph.Function
	stretch  float64
	mid, out int
	norm     bool
	at       []float64 // points, ascending, in integers of fraction mid
	before   []sums    // of the points up to each; one more than points
	index    []int     // by integer, from the least on: the first point that is no less
	weight   float64   // of all points
	tail     [2]*[2]float64
	end      [2]float64 // its values at the least and at the greatest integer
}

// newFitter prepares to fit what calibration saw; first and last are the integers that may occur, with headroom.
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

// place finds the segments with the least square error over what calibration saw: the first integer, the width and the
// error.
func (t *fitter) place() (lo, step int, least float64) {
	least = math.Inf(1)
	for width := abi.CurveStepMax; width >= 0; width-- { // of equal ones the widest, which covers most
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

// fit is the curve of 32 segments, from fraction mid to fraction out, with the least square error over what
// calibration saw. It ends in the lines that the function approaches, or in lines close to them. off is the largest
// error on the calibrated range with its headroom.
func fit(f *graph.Function, s *spread, headroom, stretch float64, mid, out int) (curve *abi.Curve, off float64, err error) {
	t, first, last := newFitter(f, s, headroom, stretch, mid, out)
	lo, step, _ := t.place()
	if curve, err = t.integers(lo, step); err != nil {
		return nil, 0, err
	}
	return curve, math.Ldexp(t.off(curve, first, last), -out), nil
}

// off is how far a curve is off at most on a range, in steps of the output.
func (t *fitter) off(curve *abi.Curve, first, last int) (off float64) {
	for x := first; x <= last; x++ {
		y := min(max(t.value(float64(x)), math.MinInt16), math.MaxInt16)
		off = max(off, math.Abs(float64(curve.At(int16(x)))-y))
	}
	return off
}

// value is the function, in integers of fraction out, of an integer of fraction mid. That of a norm, which may be a
// thousand where calibration saw nothing, is bounded as the output is.
func (t *fitter) value(x float64) float64 {
	y := math.Ldexp(t.f.At(math.Ldexp(x, -t.mid)/t.stretch), t.out)
	if t.norm {
		y = min(max(y, math.MinInt16), math.MaxInt16)
	}
	return y
}

// points are those that calibration saw, and a few everywhere; those from first to last may occur.
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
	if t.norm { // images to come have pixels a little plainer than those that calibration saw
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

// tails are the lines that the function approaches on either side, where it comes that close within 16 bits.
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

// segment is segment i's line, and its square error; on tells that it is the line that the function approaches.
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
	for k := 0; k < 5 && b-a < 3; k++ { // where hardly anything was seen, too
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

// point is the first point that is no less than x.
func (t *fitter) point(x int) int { return t.index[min(max(x-math.MinInt16, 0), len(t.index)-1)] }

// error is the square error of the segments from lo on; more than most where it is not less.
func (t *fitter) error(lo, step int, most float64) (sum float64) {
	for i := 0; i < abi.CurveSegments && sum < most; i++ {
		_, _, off, _ := t.segment(lo, step, (i+abi.CurveSegments-1)%abi.CurveSegments) // the last first: most are far off there
		sum += off
	}
	return sum
}

// integers rounds slopes, and offsets so that they make good for it in the middle of their segment.
func (t *fitter) integers(lo, step int) (*abi.Curve, error) {
	c := &abi.Curve{Lo: int16(lo), Step: uint8(step), Shift: 31}
	for i := 0; i < abi.CurveSegments; {
		slope, offset, _, tail := t.segment(lo, step, i)
		if t.norm { // where calibration saw nothing
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
	// stretches is the number of factors within an octave that what is in front of a function may be multiplied by. One
	// other than 1 has to bring the square error below stretchGain of what it was, and the largest error to stretchMost
	// times it at most.
	stretches   = 8
	stretchGain = 0.5
	stretchMost = 1.25
)

// stretch finds the factor, from 1 to below 2, by which the sums in front of a function are multiplied so that
// segments, whose width is a power of two there, get the width that suits what calibration saw: one and a half times
// wider ones are twice as far off. out is about the output's fraction.
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
