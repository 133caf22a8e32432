package bundle

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/sluice-npu/sluice/dse/graph"
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

// The bits of a few confidences, stored as constants: they must be the same on every platform.
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

// Every measure compared with its definition in float64.
func TestConfidenceAt(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for range 2000 {
		raw := make([]int16, 2+rng.IntN(20))
		for i := range raw {
			raw[i] = int16(rng.Uint32() >> rng.IntN(12))
		}
		frac := rng.IntN(16)
		p, sum, best := make([]float64, len(raw)), 0.0, 0
		least := 1.0
		for i, v := range raw {
			if v > raw[best] {
				best = i
			}
			s := 1 / (1 + math.Exp(-math.Ldexp(float64(v), -frac)))
			least = min(least, max(s, 1-s))
		}
		for i, v := range raw {
			p[i] = math.Exp(math.Ldexp(float64(v)-float64(raw[best]), -frac))
			sum += p[i]
		}
		entropy, second := 0.0, 0.0
		for i := range p {
			p[i] /= sum
			if p[i] > 0 {
				entropy -= p[i] * math.Log(p[i])
			}
			if i != best {
				second = max(second, p[i])
			}
		}
		for by, want := range map[string]float64{
			"": p[best], graph.Sigmoid: least, graph.Entropy: 1 - entropy/math.Log(float64(len(raw))), graph.Margin: p[best] - second, graph.NoClass: 0,
		} {
			class, conf := ConfidenceAt(&Exit{Frac: frac, Confidence: by}, raw)
			if c, f := ConfidenceBy(by, (&Exit{Frac: frac}).Logits(raw)); c != class || f != conf {
				t.Fatalf("%q of %v * 2^-%d: in floats class %d with %v, expected %d with %v", by, raw, frac, c, f, class, conf)
			}
			best := best
			if by == graph.NoClass {
				best = -1
			}
			if class != best || math.Abs(float64(conf)-want) > 1e-6 || conf < 0 || conf > 1 {
				t.Fatalf("%q of %v * 2^-%d: class %d with %v, expected %d with %v", by, raw, frac, class, conf, best, want)
			}
		}
	}
	for _, by := range []string{"", graph.Sigmoid, graph.NoClass} { // for one logit, and for none
		wantClass, want := 1, float32(0.95257413)
		if by == graph.NoClass {
			wantClass, want = -1, 0
		}
		if class, conf := ConfidenceAt(&Exit{Confidence: by}, []int16{3}); class != wantClass || conf != want {
			t.Errorf("%q of one logit: %d, %v", by, class, conf)
		}
		if class, conf := ConfidenceAt(&Exit{Confidence: by}, nil); class != -1 || conf != 0 {
			t.Errorf("%q of no logit: %d, %v", by, class, conf)
		}
	}
	for range 20000 {
		x := math.Exp(rng.Float64() * 12)
		if got, want := ln(x), math.Log(x); math.Abs(got-want) > 4e-16*max(want, 1) {
			t.Fatalf("ln(%v) = %v, expected %v", x, got, want)
		}
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
	got := (&Exit{Frac: 15}).Logits([]int16{-32768, 3, 32767})
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
