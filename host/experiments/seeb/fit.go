// FitModel fits the latency model of SEEB-GPU's algorithm 2 to profiles by least squares.

package seeb

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/sched"
)

// Fit is a latency model with its errors against the profiles.
type Fit struct {
	Model    sched.LatencyModel `json:"model"` // ns
	Profiles int                `json:"profiles"`
	Mean     float64            `json:"error_mean"` // mean of the absolute relative errors
	Worst    float64            `json:"error_worst"`
	R2       float64            `json:"r2"` // share of the latencies' variance that the model explains
	// These errors are for profiles that differ from the base in several parameters. The fit does not use them.
	CrossMean  float64 `json:"cross_error_mean"`
	CrossWorst float64 `json:"cross_error_worst"`
}

// fit profiles a network on the device and fits its model.
func (p *profiler) fit(network string) (*Fit, error) {
	run := func(batch int, theta float32, units int) (int64, error) {
		return p.run(network, batch, theta, device.UnitRange(0, units))
	}
	n := p.d.Info().Units
	f, err := FitModel(n, 32, edgeBatch, run)
	if err != nil {
		return nil, err
	}
	s := &sweep{run: run}
	for _, batch := range []int{1, 8, 128} {
		for _, theta := range []float32{0.1, 0.4, 0.7} {
			for _, units := range []int{2, 8, 20} {
				if err := s.at(batch, theta, min(units, n)); err != nil {
					return nil, err
				}
			}
		}
	}
	f.CrossMean, f.CrossWorst, _ = f.errors(s.x, s.y)
	return f, nil
}

// sweep measures profiles and stores them.
type sweep struct {
	run func(batch int, theta float32, units int) (int64, error)
	x   [][4]float64
	y   []float64
}

func (s *sweep) at(batch int, theta float32, units int) error {
	ns, err := s.run(batch, theta, units)
	s.x = append(s.x, [4]float64{1, float64(batch), float64(theta), 1 / float64(units)})
	s.y = append(s.y, float64(ns))
	return err
}

// FitModel fits L = alpha + beta1 s + beta2 theta + beta3 / units to profiles. The function run measures a profile. As
// in sections 2.2.1 to 2.2.3, only one parameter changes at a time: the batch (up to "most"), the threshold, or the
// units. The other two keep their base values: batch "base", the highest threshold, all units. Profiles with two
// changed parameters are not fitted, because the model has no term for two parameters.
func FitModel(units, base, most int, run func(batch int, theta float32, units int) (int64, error)) (*Fit, error) {
	thetas := Thetas()
	top := thetas[len(thetas)-1]
	s := &sweep{run: run}
	for b := 1; b <= most; b *= 2 {
		if err := s.at(b, top, units); err != nil {
			return nil, err
		}
	}
	for _, theta := range thetas[:len(thetas)-1] {
		if err := s.at(base, theta, units); err != nil {
			return nil, err
		}
	}
	for n := 1; n < units; n *= 2 {
		if err := s.at(base, top, n); err != nil {
			return nil, err
		}
	}
	return solve(s.x, s.y)
}

// errors returns the model's mean and largest relative error against profiles, and R2.
func (f *Fit) errors(x [][4]float64, y []float64) (mean, worst, r2 float64) {
	var rest, all, middle float64
	for i := range y {
		middle += y[i] / float64(len(y))
	}
	for i := range x {
		l := max(f.Model.Least, x[i][0]*f.Model.Alpha+x[i][1]*f.Model.Beta1+x[i][2]*f.Model.Beta2+x[i][3]*f.Model.Beta3)
		off := math.Abs(l/y[i] - 1)
		mean, worst = mean+off/float64(len(x)), max(worst, off)
		rest += (l - y[i]) * (l - y[i])
		all += (y[i] - middle) * (y[i] - middle)
	}
	return mean, worst, 1 - rest/all
}

// solve minimises the squares of the relative errors, because the model must fit both small and large batches. The
// smallest profiled time is the smallest possible prediction.
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
		return nil, fmt.Errorf("latency model: %w", err)
	}
	f := &Fit{
		Model:    sched.LatencyModel{Alpha: c.AtVec(0), Beta1: c.AtVec(1), Beta2: c.AtVec(2), Beta3: c.AtVec(3), Least: slices.Min(y)},
		Profiles: len(x),
	}
	f.Mean, f.Worst, f.R2 = f.errors(x, y)
	return f, nil
}
