package abi

import (
	"errors"
	"math"
	"slices"
)

// Curve is a piecewise linear function of 16-bit values. It has CurveSegments segments, each 2^Step values wide. The
// first segment begins at Lo. Values below Lo use the first segment, and values after the last segment use the last.
type Curve struct {
	Lo          int16
	Step, Shift uint8
	Segments    [CurveSegments]Segment
}

// Segment is one piece of a curve: (Slope * x + Offset) >> Shift, rounded.
type Segment struct {
	Offset int32
	Slope  int16
}

// At returns the curve's value at x.
func (c *Curve) At(x int16) int16 {
	i := (int(x) - int(c.Lo)) >> c.Step
	s := &c.Segments[min(max(i, 0), CurveSegments-1)]
	sum := int64(s.Slope)*int64(x) + int64(s.Offset)
	if c.Shift > 0 {
		sum = (sum + 1<<(c.Shift-1)) >> c.Shift
	}
	return int16(min(max(sum, math.MinInt16), math.MaxInt16))
}

// Words returns the curve's words, which follow a layer's biases in memory.
func (c *Curve) Words() []int32 {
	words := make([]int32, 0, CurveWords)
	for _, s := range c.Segments {
		words = append(words, s.Offset, int32(s.Slope))
	}
	return words
}

// ErrSlope reports that words do not encode a curve.
var ErrSlope = errors.New("a slope of the curve is wider than 16 bits")

// CurveOf decodes the words of a descriptor's curve. It returns false if a slope is wider than 16 bits.
func CurveOf(d *Desc, words []int32) (Curve, bool) {
	c := Curve{Lo: d.CurveLo, Step: d.CurveStep, Shift: d.CurveShift}
	for i := range c.Segments {
		c.Segments[i] = Segment{words[2*i], int16(words[2*i+1])}
	}
	return c, slices.Equal(c.Words(), words)
}
