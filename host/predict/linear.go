package predict

import (
	"errors"
	"fmt"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/optimize"
)

// Sample describes a batch that has ended: the resource use of the batches beside it, its own use, and its time divided
// by its time alone.
type Sample struct {
	Others, Own Use
	Priority    int
	Actual      float64
}

// linearSize is the number of Linear's weights: a constant, the others' use, the batch's own use.
const linearSize = 1 + 2*Resources

// Linear is a model in which the slowdown depends linearly on the resource use of the other batches and of the batch
// itself. It is fitted once (gpulets, section 4).
type Linear struct{ W [linearSize]float64 }

func (s *Sample) row(out []float64) {
	out[0] = 1
	for i := range Resources {
		out[1+i], out[1+Resources+i] = s.Others[i], s.Own[i]
	}
}

// ErrFit is the error if the samples do not determine the model.
var ErrFit = errors.New("fit of a linear interference model")

// ridge is a small regularisation. It keeps the weight of a resource at zero if no batch uses it, or if all batches use
// it equally.
const ridge = 1e-6

// Fit fits a Linear to the samples by least squares.
func Fit(samples []Sample) (*Linear, error) {
	if len(samples) < linearSize {
		return nil, fmt.Errorf("%w: %d samples, %d at least are expected", ErrFit, len(samples), linearSize)
	}
	a := mat.NewDense(len(samples), linearSize, nil)
	y := mat.NewVecDense(len(samples), nil)
	for i := range samples {
		samples[i].row(a.RawRowView(i))
		y.SetVec(i, samples[i].Actual)
	}
	var n mat.Dense
	n.Mul(a.T(), a)
	for i := range linearSize {
		n.Set(i, i, n.At(i, i)+ridge*float64(len(samples)))
	}
	var right, w mat.VecDense
	right.MulVec(a.T(), y)
	if err := w.SolveVec(&n, &right); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFit, err)
	}
	l := &Linear{}
	for i := range l.W {
		l.W[i] = w.AtVec(i)
	}
	return l, nil
}

// FitModel fits equations 4 and 5 to all samples at once, with the least Huber loss. So it is the best possible model
// with these equations, without the noise of learning batch by batch. A weight that would be negative is set to zero,
// and the others are fitted without it. Otherwise resources that are used together would get large weights of opposite
// sign.
func FitModel(samples []Sample) (*Model, error) {
	if len(samples) < nParams {
		return nil, fmt.Errorf("%w: %d samples, %d at least are expected", ErrFit, len(samples), nParams)
	}
	var none [nParams]bool
	at := func(x []float64) *Model {
		m := NewModel()
		for k, v := range x {
			if m.P[k] = v; none[k] {
				m.P[k] = 0
			}
		}
		return m
	}
	p := optimize.Problem{
		Func: func(x []float64) (sum float64) {
			m := at(x)
			for i := range samples {
				s := &samples[i]
				intf, _, _, _, _ := m.P.value(&s.Others, &s.Own, s.Priority)
				loss, _ := Huber(intf - s.Actual)
				sum += loss / float64(len(samples))
			}
			return sum
		},
		Grad: func(grad, x []float64) {
			m := at(x)
			clear(grad)
			for i := range samples {
				s := &samples[i]
				intf, g := m.Gradient(s.Others, s.Own, s.Priority)
				_, slope := Huber(intf - s.Actual)
				for k := range g {
					if !none[k] {
						grad[k] += slope * g[k] / float64(len(samples))
					}
				}
			}
		},
	}
	for {
		begin := NewModel()
		r, err := optimize.Minimize(p, begin.P[:], &optimize.Settings{MajorIterations: fitSteps}, &optimize.LBFGS{})
		if r == nil { // otherwise the result is usable, since a line search may also end because nothing improves
			return nil, fmt.Errorf("%w: %w", ErrFit, err)
		}
		m, again := at(r.X), false
		for k := pOther; k < pOther+Resources; k++ {
			if m.P[k] < 0 {
				none[k], again = true, true
			}
		}
		if !again {
			m.bound()
			return m, nil
		}
	}
}

// fitSteps limits the steps of a fit. No fit needs so many.
const fitSteps = 500

// Interference returns the predicted time divided by the time alone. It is at least 1.
func (l *Linear) Interference(others, own Use) float64 {
	s := Sample{Others: others, Own: own}
	var x [linearSize]float64
	s.row(x[:])
	sum := 0.0
	for i, v := range x {
		sum += l.W[i] * v
	}
	return max(1, sum)
}
