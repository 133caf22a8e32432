package bundle

import (
	"cmp"
	"math"
	"slices"

	"github.com/sluice-npu/sluice/dse/graph"
)

// ConfidenceAt returns an exit's class, which has the largest logit, and its confidence by the measure that the bundle
// names (graph.Confidences), otherwise by Confidence. The result is the same on every platform. An exit that is not a
// classifier has class -1.
func ConfidenceAt(e *Exit, raw []int16) (class int, conf float32) {
	step, zero := e.scale(e.Frac)
	return measured(e.Confidence, raw, step, zero)
}

// ConfidenceBy does what ConfidenceAt does, with a given measure and for the logits of a float network.
func ConfidenceBy(by string, logits []float32) (class int, conf float32) {
	return measured(by, logits, 1, 0)
}

// measured returns class and confidence for logits step * (raw - zero).
func measured[T int16 | float32](by string, raw []T, step float64, zero int) (class int, conf float32) {
	class, conf = confidence(raw, step, zero)
	if len(raw) == 0 {
		return class, conf
	}
	switch by {
	case graph.NoClass:
		return -1, 0
	case graph.Sigmoid:
		away := func(v T) float64 { return math.Abs(float64(v) - float64(zero)) }
		least := slices.MinFunc(raw, func(a, b T) int { return cmp.Compare(away(a), away(b)) })
		_, conf = confidence([]T{least}, step, zero)
	case graph.Entropy, graph.Margin:
		sum, weighted, second := 0.0, 0.0, 0.0
		for i, v := range raw {
			z := float64(step * (float64(v) - float64(raw[class])))
			p := expNeg(z)
			sum += p
			weighted += float64(p * z)
			if i != class {
				second = max(second, p)
			}
		}
		if by == graph.Margin {
			return class, float32((1 - second) / sum)
		}
		entropy := ln(sum) - weighted/sum
		conf = float32(max(0, min(1, 1-entropy/ln(float64(len(raw))))))
	}
	return class, conf
}

// ln returns the natural logarithm of x >= 1 to about one unit in the last place, with the precautions of expNeg: x =
// 2^k m, and ln m by the series of the inverse hyperbolic tangent.
func ln(x float64) float64 {
	m, k := math.Frexp(x) // 0.5 <= m < 1
	if m < math.Sqrt2/2 {
		m, k = 2*m, k-1
	}
	t := (m - 1) / (m + 1)
	square, sum := float64(t*t), 0.0
	for n := 25; n >= 1; n -= 2 { // |t| <= 0.18
		sum = 1/float64(n) + float64(square*sum)
	}
	return float64(float64(k)*math.Ln2) + 2*float64(t*sum)
}

// Confidence returns the class with the largest logit (the first among equals) and its softmax probability, from logits
// as the hardware stores them (element * 2^-frac). The exit decision uses this probability. One logit is a yes-or-no
// question: with p its sigmoid, the class is 1 if p >= 0.5, otherwise 0, and the confidence is the larger of p and 1-p.
// Without logits the class is -1.
//
// The value is the same bit for bit on every platform: the sum is computed in order in float64, with an exponential of
// single roundings (no fused operations, no platform's own exp). It is rounded to float32 once, at the end.
func Confidence(raw []int16, frac int) (class int, conf float32) {
	return confidence(raw, math.Ldexp(1, -frac), 0)
}

func confidence[T int16 | float32](raw []T, step float64, zero int) (class int, conf float32) {
	switch len(raw) {
	case 0:
		return -1, 0
	case 1:
		// The same as the softmax of the logits 0 and raw[0].
		z := float64(raw[0]) - float64(zero)
		if z >= 0 {
			class = 1
		}
		return class, float32(1 / (1 + expNeg(float64(-step*math.Abs(z)))))
	}
	for i, v := range raw {
		if v > raw[class] {
			class = i
		}
	}
	sum := 0.0
	for _, v := range raw {
		sum += expNeg(float64(step * (float64(v) - float64(raw[class]))))
	}
	return class, float32(1 / sum)
}

// expNeg returns e^x for x <= 0 to about one unit in the last place: x = k ln 2 + r, and e^r by its series. Every
// product is converted, so that it is not fused with the following sum.
func expNeg(x float64) float64 {
	const (
		ln2Hi = 6.93147180369123816490e-01 // the leading 33 bits, so that k * ln2Hi is exact
		ln2Lo = 1.90821492927058770002e-10
		least = -745.2 // below this, e^x rounds to zero
	)
	if x < least {
		return 0
	}
	k := math.Floor(float64(x*math.Log2E) + 0.5)
	r := x - float64(k*ln2Hi)
	r -= float64(k * ln2Lo)
	// |r| <= 0.35: the term r^14/14! is below 2^-56.
	sum := 1.0
	for n := 14; n >= 1; n-- {
		sum = 1 + float64(float64(r*sum)/float64(n))
	}
	return math.Ldexp(sum, int(k))
}
