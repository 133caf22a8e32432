package device

import "math"

// Confidence is the exit decision's number: the class with the largest logit (the first among
// equals) and its softmax probability, from logits as the hardware leaves them (element * 2^-frac).
// One logit answers a yes-or-no question: with p its sigmoid the class is 1 where p >= 0.5, else 0,
// and the confidence is the larger of p and 1-p. Without logits the class is -1.
//
// The value is the same bit for bit on every platform: the sum is taken in order in float64, with
// an exponential built from single roundings (no fused operations, no platform's own exp), and is
// rounded to float32 once, at the end.
func Confidence(raw []int16, frac int) (class int, conf float32) {
	switch len(raw) {
	case 0:
		return -1, 0
	case 1:
		// The same as the softmax of the logits 0 and raw[0].
		if raw[0] >= 0 {
			class = 1
		}
		return class, float32(1 / (1 + expNeg(-math.Ldexp(math.Abs(float64(raw[0])), -frac))))
	}
	for i, v := range raw {
		if v > raw[class] {
			class = i
		}
	}
	sum := 0.0
	for _, v := range raw {
		sum += expNeg(math.Ldexp(float64(int(v)-int(raw[class])), -frac))
	}
	return class, float32(1 / sum)
}

// Logits are the logits as numbers; exact, since a float32 holds any int16 times a power of two.
func Logits(raw []int16, frac int) []float32 {
	out := make([]float32, len(raw))
	for i, v := range raw {
		out[i] = float32(math.Ldexp(float64(v), -frac))
	}
	return out
}

// expNeg is e^x for x <= 0 to about one unit in the last place: x = k ln 2 + r, e^r by its series.
// Every product is converted, which forbids fusing it into the sum behind it.
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
