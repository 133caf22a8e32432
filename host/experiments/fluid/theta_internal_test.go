package fluid

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLevels(t *testing.T) {
	images := []Image{
		{Confidence: []float32{0.9, 0.9, 0.9}, Right: []bool{true, true, true}},    // leaves at 0 anyway
		{Confidence: []float32{0.65, 0.9, 0.9}, Right: []bool{false, true, true}},  // from 0.65 on wrong in place of right
		{Confidence: []float32{0.1, 0.75, 0.9}, Right: []bool{false, false, true}}, // the same at exit 1, from 0.75 on
		{Confidence: []float32{0.2, 0.3, 0.4}, Right: []bool{true, true, false}},   // never below 0.3, where it would gain
	}
	got := Levels(images, 0.8)
	var loss [][]float64
	for _, l := range got {
		loss = append(loss, l.Loss)
	}
	want := [][]float64{{0, 1.0 / 3, 0}, {0.25, 1.0 / 3, 0}, {0.25, 1.0 / 3, 0}, {0.25, 1.0 / 3, 0}, {0.25, 0, 0}}
	if d := cmp.Diff(want, loss); d != "" {
		t.Error(d)
	}
	if d := got[2].Thetas[0] - 0.5; d > 1e-6 || d < -1e-6 || len(got[2].Thetas) != 3 {
		t.Errorf("the third level has the thresholds %v", got[2].Thetas)
	}
	if Levels(nil, 0.8) != nil {
		t.Error("levels from no images")
	}
}

// toy are images whose confidence is the probability that the class is right, rising by exit.
func toy(n int, seed uint64) []Image {
	rng := rand.New(rand.NewPCG(seed, 7))
	out := make([]Image, n)
	for i := range out {
		c := 0.2 + 0.8*rng.Float64()
		for range 4 {
			out[i].Confidence = append(out[i].Confidence, float32(c))
			out[i].Right = append(out[i].Right, rng.Float64() < c)
			c += (1 - c) * rng.Float64()
		}
	}
	return out
}

// fluid+theta loses no more accuracy than allowed, on images for which it was not tuned, and is better than fluid+
// under load.
func TestThetaStaysWithinItsBudget(t *testing.T) {
	m := model(t, ModelKey{Network: "x"})
	m.Theta, m.Images, m.Calibration = 0.8, toy(4000, 1), toy(4000, 2)
	s := base
	s.Network = "x"
	for _, rate := range []float64{10, 30, 60, 120} {
		s.Rate = rate
		run := func(policy string) *Metrics {
			k := Case{Setting: s, Policy: policy, Seed: 1, N: 20_000}
			r, err := k.Run(context.Background(), m, nil)
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		plus, theta := run("fluid+"), run("fluid+theta")
		// The images are not those of the tuning, and the loss is the difference of two shares of 4000 images.
		if lost := *plus.Accuracy - *theta.Accuracy; lost > thetaLoss+0.005 || lost < -0.005 {
			t.Errorf("at %g/s %.2f %% of accuracy are lost", rate, 100*lost)
		}
		if theta.Avg >= plus.Avg {
			t.Errorf("at %g/s the average is %g ms, without lower thresholds %g ms", rate, theta.Avg/1e6, plus.Avg/1e6)
		}
		t.Logf("%g/s: accuracy %.3f, %.3f; average %.1f, %.1f ms; violations %.4f, %.4f",
			rate, *plus.Accuracy, *theta.Accuracy, plus.Avg/1e6, theta.Avg/1e6, plus.Violations, theta.Violations)
	}
}
