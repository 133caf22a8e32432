package predict

import (
	"errors"
	"fmt"

	"gonum.org/v1/gonum/mat"
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
