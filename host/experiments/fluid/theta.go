// Levels computes the cost of thresholds below a setting's threshold from real images.

package fluid

import (
	"github.com/sluice-npu/sluice/host/experiments/frame"
	"github.com/sluice-npu/sluice/host/sched"
)

// In benches, fluid+theta lowers the setting's threshold by at most five steps of 0.1, and may lose one percentage
// point of mean accuracy.
const (
	thetaSteps = 5
	thetaStep  = 0.1
	thetaLoss  = 0.01
)

// Levels returns thresholds below theta, in steps, with their cost at each exit. Consider all images that reach an exit
// with threshold theta. With a lower threshold, more of these images leave at this exit. The cost is the resulting mean
// loss of accuracy over all considered images.
func Levels(images []Image, theta float32) []sched.Level {
	if len(images) == 0 {
		return nil
	}
	var out []sched.Level
	for k := 1; k <= thetaSteps; k++ {
		low := theta - float32(k)*thetaStep
		l := sched.Level{}
		for e := range images[0].Confidence {
			came, lost := 0.0, 0.0
			for i := range images {
				end := images[i].taken(theta)
				if end < e {
					continue
				}
				came++
				if images[i].Confidence[e] >= low {
					lost += frame.Truth(images[i].Right[end]) - frame.Truth(images[i].Right[e])
				}
			}
			l.Thetas = append(l.Thetas, low)
			l.Loss = append(l.Loss, max(0, lost/max(1, came)))
		}
		out = append(out, l)
	}
	return out
}

// taken returns the exit at which an image leaves with the threshold theta.
func (i *Image) taken(theta float32) int {
	for e, c := range i.Confidence {
		if c >= theta {
			return e
		}
	}
	return len(i.Confidence) - 1
}
