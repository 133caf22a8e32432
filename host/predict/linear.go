package predict

import (
	"errors"
	"fmt"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/optimize"
)

// Sample describes a completed batch. Field "Others" is the resource use of concurrent batches, and "Own" the use of
// the batch itself. "Actual" is the batch's time divided by its time alone.
type Sample struct {
	Others, Own Use
	Priority    int
	Actual      float64
}

// linearSize is the number of Linear's weights: a constant, and two weights per resource (use by others, own use).
const linearSize = 1 + 2*Resources

// Linear is a model in which the slowdown is linear in the resource use of the other batches and of the batch itself.
// It is fitted once (gpulets, section 4).
type Linear struct{ W [linearSize]float64 }

func (s *Sample) row(out []float64) {
	out[0] = 1
	for i := range Resources {
		out[1+i], out[1+Resources+i] = s.Others[i], s.Own[i]
	}
}

// ErrFit is the error of a failed fit, for example with too few samples.
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

// FitModel fits equations 4 and 5 to all samples at once, with the least Huber loss. So no other parameters fit the
// samples better, and training batch by batch adds no noise. If a weight for other batches' use is negative, FitModel
// sets it to zero and fits the remaining parameters again. Otherwise two resources that are used together would get
// large weights of opposite sign.
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
		if r == nil { // an error with a result is acceptable: the line search found no improvement
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

// fitSteps is the largest number of steps of a fit. Fits need fewer steps.
const fitSteps = 500

// Interference returns the predicted time divided by the time alone. The result is at least 1.
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
