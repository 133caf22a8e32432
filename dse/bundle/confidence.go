package bundle

import (
	"cmp"
	"math"
	"slices"

	"github.com/sluice-npu/sluice/dse/graph"
)

// ConfidenceAt returns the class with the largest logit of an exit, and the confidence of this class. The exit selects
// the confidence measure (graph.Confidences); the default is the function Confidence. The results are the same on every
// platform. If an exit is not a classifier, the class is -1.
func ConfidenceAt(e *Exit, raw []int16) (class int, conf float32) {
	step, zero := e.scale(e.Frac)
	return measured(e.Confidence, raw, step, zero)
}

// ConfidenceBy is like ConfidenceAt, for the given measure and the logits of a float network.
func ConfidenceBy(by string, logits []float32) (class int, conf float32) {
	return measured(by, logits, 1, 0)
}

// measured returns class and confidence for the logits step * (raw - zero), by the given measure.
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

// ln returns the natural logarithm of x >= 1 with an error of about one unit in the last place. With x = 2^k m, it
// computes ln m with the series of the inverse hyperbolic tangent. Like expNeg, it avoids fused operations.
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

// Confidence returns the class with the largest logit and its softmax probability. If logits are equal, it uses the
// first of them. The logits are element * 2^-frac, as the hardware stores them. The exit decision uses this
// probability. A single logit distinguishes two classes. Let p be its sigmoid: the class is 1 if p >= 0.5, otherwise 0.
// The confidence is then the larger of p and 1-p. Without logits the class is -1.
//
// The value is bit for bit the same on every platform. The sum is computed in a fixed order in float64. The exponential
// uses no fused operation and no exp of the platform. The result is rounded to float32 once, at the end.
func Confidence(raw []int16, frac int) (class int, conf float32) {
	return confidence(raw, math.Ldexp(1, -frac), 0)
}

func confidence[T int16 | float32](raw []T, step float64, zero int) (class int, conf float32) {
	switch len(raw) {
	case 0:
		return -1, 0
	case 1:
		// The result is that of a softmax of two logits, 0 and raw[0].
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

// expNeg returns e^x for x <= 0 with an error of about one unit in the last place. With x = k ln 2 + r, it computes e^r
// by its series. Every product is converted to float64, so that the compiler does not fuse it with the following sum.
func expNeg(x float64) float64 {
	const (
		ln2Hi = 6.93147180369123816490e-01 // the leading 33 bits of ln 2, so that k * ln2Hi is exact
		ln2Lo = 1.90821492927058770002e-10
		least = -745.2 // if x is below this limit, e^x rounds to zero
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
