package predict

import (
	"errors"
	"fmt"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/optimize"
)

// Sample is a batch that has ended: what it ran beside, as a predictor is told of it, what it used
// itself, and how many times longer than alone it took.
type Sample struct {
	Others, Own Use
	Priority    int
	Actual      float64
}

// linearSize is the weights of Linear: a constant, the others' resources, the batch's own.
const linearSize = 1 + 2*Resources

// Linear is a slowdown that is linear in what both sides use, fitted once (gpulets, section 4).
type Linear struct{ W [linearSize]float64 }

func (s *Sample) row(out []float64) {
	out[0] = 1
	for i := range Resources {
		out[1+i], out[1+Resources+i] = s.Others[i], s.Own[i]
	}
}

// ErrFit is samples that determine nothing.
var ErrFit = errors.New("fit of a linear interference model")

// ridge keeps weights of resources that nobody uses, or that all use alike, at zero.
const ridge = 1e-6

// Fit is least squares over the samples.
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

// FitModel is equations 4 and 5 with the least Huber loss over the samples, all of them at once: what the
// equations can say of them, whatever steps a model that learns batch by batch would take.
func FitModel(samples []Sample) (*Model, error) {
	if len(samples) < nParams {
		return nil, fmt.Errorf("%w: %d samples, %d at least are expected", ErrFit, len(samples), nParams)
	}
	at := func(x []float64) *Model {
		m := NewModel()
		copy(m.P[:], x)
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
					grad[k] += slope * g[k] / float64(len(samples))
				}
			}
		},
	}
	begin := NewModel()
	r, err := optimize.Minimize(p, begin.P[:], &optimize.Settings{MajorIterations: fitSteps}, &optimize.LBFGS{})
	if r == nil { // else what it came to: a line search may end where nothing is gained any more
		return nil, fmt.Errorf("%w: %w", ErrFit, err)
	}
	m := at(r.X)
	m.bound()
	return m, nil
}

// fitSteps are more than it takes.
const fitSteps = 500

// Interference is how many times longer than alone the batch takes: 1 at least.
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
