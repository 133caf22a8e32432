// The latency model of SEEB-GPU's algorithm 2, fitted to profiles by least squares.

package gpus

import (
	"math"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/sched"
	"gonum.org/v1/gonum/mat"
)

// Fit is a latency model and how far it is from what it was fitted to.
type Fit struct {
	Model    sched.LatencyModel
	Profiles int
	Mean     float64 // relative error, mean of the absolute values
	Worst    float64
	R2       float64 // share of the relative variance that is explained
}

// fit profiles a network over batches, thresholds and units, and fits L = alpha + beta1 s + beta2 theta +
// beta3 / units. Errors count by their share of the latency: the model must be right for batches of one
// and of a hundred alike, and the profiles span three decades.
func (p *profiler) fit(network string) (*Fit, error) {
	var x [][4]float64
	var y []float64
	n := p.d.Info().Units
	for b := 1; b <= edgeBatch; b *= 4 {
		for _, theta := range []float32{0.1, 0.3, 0.5, 0.7, 0.9} {
			for _, units := range []int{1, 2, 4, 8, 16, n} {
				if units > n {
					continue
				}
				ns, err := p.run(network, b, theta, device.UnitRange(0, units))
				if err != nil {
					return nil, err
				}
				x = append(x, [4]float64{1, float64(b), float64(theta), 1 / float64(units)})
				y = append(y, float64(ns))
			}
		}
	}
	return solve(x, y)
}

// solve is the least squares of relative errors.
func solve(x [][4]float64, y []float64) (*Fit, error) {
	a, one := mat.NewDense(len(x), 4, nil), mat.NewVecDense(len(x), nil)
	for i := range x {
		for j, v := range x[i] {
			a.Set(i, j, v/y[i])
		}
		one.SetVec(i, 1)
	}
	var c mat.VecDense
	if err := c.SolveVec(a, one); err != nil {
		return nil, err
	}
	f := &Fit{Model: sched.LatencyModel{Alpha: c.AtVec(0), Beta1: c.AtVec(1), Beta2: c.AtVec(2), Beta3: c.AtVec(3)}, Profiles: len(x)}
	var rest, all, mean float64
	for i := range y {
		mean += y[i] / float64(len(y))
	}
	for i := range x {
		l := 0.0
		for j, v := range x[i] {
			l += v * c.AtVec(j)
		}
		off := math.Abs(l/y[i] - 1)
		f.Mean += off / float64(len(x))
		f.Worst = max(f.Worst, off)
		rest += (l - y[i]) * (l - y[i])
		all += (y[i] - mean) * (y[i] - mean)
	}
	f.R2 = 1 - rest/all
	return f, nil
}
