package device

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestConfidence(t *testing.T) {
	for _, c := range []struct {
		name  string
		raw   []int16
		frac  int
		class int
		conf  float64
	}{
		{"none", nil, 0, -1, 0},
		{"one logit says no", []int16{-7}, 3, 0, 1 / (1 + math.Exp(-7.0/8))},
		{"one logit says yes", []int16{7}, 3, 1, 1 / (1 + math.Exp(-7.0/8))},
		{"one logit is undecided", []int16{0}, 3, 1, 0.5},
		{"one logit at the end of its range", []int16{-32768}, 0, 0, 1},
		{"equal: the first wins", []int16{5, 5}, 8, 0, 0.5},
		{"ten equal", make([]int16, 10), 12, 0, 0.1},
		{"one apart", []int16{0, 256}, 8, 1, math.E / (1 + math.E)},
		{"far apart", []int16{-32768, 32767}, 0, 1, 1},
		{"widest, fine", []int16{-32768, 32767}, 15, 1, 1 / (1 + math.Exp(-65535.0/32768))},
	} {
		class, conf := Confidence(c.raw, c.frac)
		if class != c.class || conf != float32(c.conf) {
			t.Errorf("%s: class %d with %v, expected %d with %v", c.name, class, conf, c.class, float32(c.conf))
		}
	}
}

// The bits of a few confidences, written down once: they must be the same on every platform.
func TestConfidenceBits(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	hash := uint64(14695981039346656037)
	for range 2000 {
		raw := make([]int16, 1+rng.IntN(12))
		for i := range raw {
			raw[i] = int16(rng.Uint32())
		}
		class, conf := Confidence(raw, rng.IntN(16))
		hash = (hash ^ uint64(math.Float32bits(conf)) ^ uint64(class)<<32) * 1099511628211
	}
	if want := uint64(0x2dd6e96434a478a9); hash != want {
		t.Errorf("hash of 2000 confidences is %#x, expected %#x", hash, want)
	}
}

func TestExpNeg(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for i := range 20000 {
		x := -rng.Float64() * 30
		if i%10 == 0 {
			x *= 20 // as far as the smallest normal numbers
		}
		got, want := expNeg(x), math.Exp(x)
		if math.Abs(got-want) > want*4e-16 {
			t.Fatalf("e^%v = %v, expected %v", x, got, want)
		}
	}
	for x, want := range map[float64]float64{0: 1, -65535: 0, math.Inf(-1): 0} {
		if got := expNeg(x); got != want {
			t.Errorf("e^%v = %v, expected %v", x, got, want)
		}
	}
}

func TestLogits(t *testing.T) {
	got := Logits([]int16{-32768, 3, 32767}, 15)
	for i, want := range []float32{-1, 3.0 / 32768, 32767.0 / 32768} {
		if got[i] != want {
			t.Errorf("logit %d is %v, expected %v", i, got[i], want)
		}
	}
}

func BenchmarkConfidence(b *testing.B) {
	raw := make([]int16, 1000)
	for i := range raw {
		raw[i] = int16(i * 37)
	}
	for b.Loop() {
		Confidence(raw, 8)
	}
}
