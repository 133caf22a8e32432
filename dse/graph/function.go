package graph

import (
	"fmt"
	"math"
)

// Function is an activation that is not a clamp, by its name in ONNX. Alpha and Beta are its attributes there.
type Function struct {
	Name        string
	Alpha, Beta float64
}

var functions = map[string]func(f *Function, x float64) float64{
	"Sigmoid": func(_ *Function, x float64) float64 { return 1 / (1 + math.Exp(-x)) },
	"HardSwish": func(_ *Function, x float64) float64 {
		return x * min(max(x/6+0.5, 0), 1)
	},
}

// At is the function's value.
func (f *Function) At(x float64) float64 { return functions[f.Name](f, x) }

func (f *Function) check(op Op) error {
	if _, known := functions[f.Name]; !known {
		return fmt.Errorf("%w: function %q", ErrReference, f.Name)
	}
	if op != Conv && op != Add {
		return fmt.Errorf("%w: a %v has no function", ErrReference, op)
	}
	return nil
}
