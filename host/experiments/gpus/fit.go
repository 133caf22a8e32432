// The latency model of SEEB-GPU's algorithm 2, fitted to profiles by least squares.

package gpus

import (
	"errors"
	"math"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/sched"
	"gonum.org/v1/gonum/mat"
)

// Fit is a latency model and how far it is from what it was fitted to.
type Fit struct {
	Model    sched.LatencyModel `json:"model"` // ns
	Profiles int                `json:"profiles"`
	Mean     float64            `json:"error_mean"` // relative, of the absolute values
	Worst    float64            `json:"error_worst"`
	R2       float64            `json:"r2"` // share of the latencies' variance that is explained
}

// fit profiles a network of the device over batches, thresholds and units, and fits L = alpha + beta1 s + beta2 theta +
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

// solve is the least squares of relative errors with no coefficient below zero: a batch, a threshold and
// few units cost time, and a negative one would promise some batches for nothing. There are four, so the
// best of all sets of them that come out positive is the solution.
func solve(x [][4]float64, y []float64) (*Fit, error) {
	f := &Fit{Profiles: len(x)}
	var c [4]float64
	least := math.Inf(1)
	for set := 1; set < 16; set++ {
		var columns []int
		for j := range 4 {
			if set>>j&1 != 0 {
				columns = append(columns, j)
			}
		}
		a, one := mat.NewDense(len(x), len(columns), nil), mat.NewVecDense(len(x), nil)
		for i := range x {
			for k, j := range columns {
				a.Set(i, k, x[i][j]/y[i])
			}
			one.SetVec(i, 1)
		}
		var v, rest mat.VecDense
		if v.SolveVec(a, one) != nil || mat.Min(&v) < 0 {
			continue
		}
		rest.MulVec(a, &v)
		rest.SubVec(&rest, one)
		if off := mat.Norm(&rest, 2); off < least {
			least, c = off, [4]float64{}
			for k, j := range columns {
				c[j] = v.AtVec(k)
			}
		}
	}
	if math.IsInf(least, 1) {
		return nil, errors.New("no latency model fits the profiles")
	}
	f.Model = sched.LatencyModel{Alpha: c[0], Beta1: c[1], Beta2: c[2], Beta3: c[3]}
	var rest, all, mean float64
	for i := range y {
		mean += y[i] / float64(len(y))
	}
	for i := range x {
		l := 0.0
		for j, v := range x[i] {
			l += v * c[j]
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
