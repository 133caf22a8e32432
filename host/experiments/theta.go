// A Tuner searches for the exit thresholds with the least work at a bounded loss of accuracy.

package experiments

import (
	"fmt"

	"github.com/sluice-npu/sluice/host/device"
)

// Tuned is a set of thresholds with the results for some images.
type Tuned struct {
	Theta     Theta     `json:"theta"` // by exit; the last threshold has no effect, because all remaining images leave at the last exit
	Accuracy  float64   `json:"accuracy"`
	MACsShare float64   `json:"macs_share"` // MACs as a share of the whole network's MACs
	ExitRates []float64 `json:"exit_rates"`
}

// Never is a threshold that no confidence reaches.
const Never = 2

// Tuner contains the result of every exit for a set of images.
type Tuner struct {
	exits  [][]device.ExitResult
	labels []int
	share  []float64 // by exit: MACs up to the exit, divided by all MACs
	grid   []float32
}

// NewTuner returns a Tuner. exits and labels are indexed by image. macs contains the MACs of each segment.
func NewTuner(exits [][]device.ExitResult, labels []int, macs []int64) (*Tuner, error) {
	if len(exits) == 0 || len(labels) != len(exits) || len(macs) == 0 {
		return nil, fmt.Errorf("%w: %d images, %d labels, %d segments", ErrSetup, len(exits), len(labels), len(macs))
	}
	t := &Tuner{exits: exits, labels: labels, share: make([]float64, len(macs))}
	var sum, all int64
	for _, m := range macs {
		all += m
	}
	for i, m := range macs {
		sum += m
		t.share[i] = float64(sum) / float64(all)
	}
	for i, e := range exits {
		if len(e) != len(macs) || labels[i] < 0 {
			return nil, fmt.Errorf("%w: image %d has %d exits and label %d; expected %d exits and a label", ErrSetup, i, len(e), labels[i], len(macs))
		}
	}
	for k := 20; k <= 99; k++ {
		t.grid = append(t.grid, float32(k)/100)
	}
	for k := 1; k < 10; k++ {
		t.grid = append(t.grid, 0.99+float32(k)/1000)
	}
	t.grid = append(t.grid, Never)
	return t, nil
}

// Measure evaluates thresholds on the images.
func (t *Tuner) Measure(theta Theta) Tuned {
	m := Tuned{Theta: make(Theta, len(t.share)), ExitRates: make([]float64, len(t.share))}
	for i := range m.Theta {
		m.Theta[i] = theta.At(i)
	}
	n := float64(len(t.exits))
	right, taken := 0, make([]int, len(t.share))
	for i, e := range t.exits {
		x := Taken(e, theta)
		if e[x].Class == t.labels[i] {
			right++
		}
		taken[x]++
	}
	for x, k := range taken {
		m.ExitRates[x] = float64(k) / n
		m.MACsShare += t.share[x] * m.ExitRates[x]
	}
	m.Accuracy = float64(right) / n
	return m
}

// Last evaluates the network without early exits.
func (t *Tuner) Last() Tuned { return t.Measure(Theta{Never}) }

// Uniform returns one threshold for all exits. It has the least work among the thresholds with an accuracy of at least
// floor.
func (t *Tuner) Uniform(floor float64) Tuned {
	best := t.Last()
	for _, g := range t.grid {
		if m := t.Measure(Theta{g}); m.Accuracy >= floor && m.MACsShare < best.MACsShare {
			best = m
		}
	}
	return best
}

// PerExit improves the thresholds in the argument "from", which must have an accuracy of at least floor. PerExit tries
// all values of a grid for the thresholds of two exits at a time, until no pair of exits improves the result.
func (t *Tuner) PerExit(floor float64, from Tuned) Tuned {
	best := from
	last := len(t.share) - 1
	try := func(a, b int) bool {
		better := false
		for _, x := range t.grid {
			for _, y := range t.grid {
				th := append(Theta(nil), best.Theta...)
				th[a] = x
				if b != a {
					th[b] = y
				} else if y != t.grid[0] {
					break
				}
				if m := t.Measure(th); m.Accuracy >= floor && m.MACsShare < best.MACsShare-1e-12 {
					best, better = m, true
				}
			}
		}
		return better
	}
	for again := true; again; {
		again = false
		for a := range last {
			for b := a; b < last; b++ {
				again = try(a, b) || again
			}
		}
	}
	return best
}
