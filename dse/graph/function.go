package graph

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Function is an activation other than a clamp: an ONNX operator that is applied to x or to functions of x. Example: x
// * Sigmoid(x) is {Name: "Mul", Of: {{Name: "x"}, {Name: "Sigmoid"}}}. Alpha and Beta are attributes.
type Function struct {
	Name        string
	Alpha, Beta float64
	Of          []*Function // arguments; if empty, the argument is x
}

// operator is an entry of functions: the numbers of arguments and attributes, and a function that returns the value.
type operator struct {
	args, attributes int
	at               func(f *Function, a, b float64) float64
}

func unary(at func(a float64) float64) operator {
	return operator{1, 0, func(_ *Function, a, _ float64) float64 { return at(a) }}
}

func binary(at func(a, b float64) float64) operator {
	return operator{2, 0, func(_ *Function, a, b float64) float64 { return at(a, b) }}
}

// functions contains ONNX operators, and two functions without an ONNX name: x, and Line, which is alpha a + beta.
var functions = map[string]operator{
	"x":          unary(func(a float64) float64 { return a }),
	"Line":       {1, 2, func(f *Function, a, _ float64) float64 { return f.Alpha*a + f.Beta }},
	"Clip":       {1, 2, func(f *Function, a, _ float64) float64 { return min(max(a, f.Alpha), f.Beta) }},
	"Abs":        unary(math.Abs),
	"Celu":       {1, 1, func(f *Function, a, _ float64) float64 { return max(a, 0) + min(0, f.Alpha*math.Expm1(a/f.Alpha)) }},
	"Elu":        {1, 1, func(f *Function, a, _ float64) float64 { return max(a, 0) + f.Alpha*math.Expm1(min(a, 0)) }},
	"Erf":        unary(math.Erf),
	"Exp":        unary(math.Exp),
	"Gelu":       unary(func(a float64) float64 { return a / 2 * (1 + math.Erf(a/math.Sqrt2)) }),
	"GeluTanh":   unary(func(a float64) float64 { return a / 2 * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(a+0.044715*a*a*a))) }),
	"HardSwish":  unary(func(a float64) float64 { return a * min(max(a/6+0.5, 0), 1) }),
	"LeakyRelu":  {1, 1, func(f *Function, a, _ float64) float64 { return max(a, 0) + f.Alpha*min(a, 0) }},
	"Log":        unary(math.Log),
	"Mish":       unary(func(a float64) float64 { return a * math.Tanh(softplus(a)) }),
	"Pow":        {1, 1, func(f *Function, a, _ float64) float64 { return math.Pow(a, f.Alpha) }},
	"Reciprocal": unary(func(a float64) float64 { return 1 / a }),
	"Selu":       {1, 2, func(f *Function, a, _ float64) float64 { return f.Beta * (max(a, 0) + f.Alpha*math.Expm1(min(a, 0))) }},
	"Sigmoid":    unary(func(a float64) float64 { return 1 / (1 + math.Exp(-a)) }),
	"Softplus":   unary(softplus),
	"Softsign":   unary(func(a float64) float64 { return a / (1 + math.Abs(a)) }),
	"Sqrt":       unary(math.Sqrt),
	"Tanh":       unary(math.Tanh),

	"Add": binary(func(a, b float64) float64 { return a + b }),
	"Div": binary(func(a, b float64) float64 { return a / b }),
	"Mul": binary(func(a, b float64) float64 { return a * b }),
}

func softplus(a float64) float64 { return max(a, 0) + math.Log1p(math.Exp(-math.Abs(a))) }

// MaxFunction limits the number of operators of a function, because a file may have nested products.
const MaxFunction = 64

// X returns the function x.
func X() *Function { return &Function{Name: "x"} }

// At returns the function's value at x.
func (f *Function) At(x float64) float64 {
	a, b := x, x
	if len(f.Of) > 0 {
		a = f.Of[0].At(x)
	}
	if len(f.Of) > 1 {
		b = f.Of[1].At(x)
	}
	return functions[f.Name].at(f, a, b)
}

// After returns the composition f(g(x)).
func (f *Function) After(g *Function) *Function {
	if f.Name == "x" || g.Name == "x" {
		if f.Name == "x" {
			return g
		}
		return f
	}
	out := *f
	if out.Of = slices.Clone(f.Of); len(out.Of) == 0 {
		out.Of = slices.Repeat([]*Function{X()}, functions[f.Name].args)
	}
	for i := range out.Of {
		out.Of[i] = out.Of[i].After(g)
	}
	return &out
}

// Size returns the number of the function's operators.
func (f *Function) Size() int {
	n := 1
	for _, a := range f.Of {
		n += a.Size()
	}
	return n
}

// String returns the function as a formula of x.
func (f *Function) String() string {
	if f.Name == "x" {
		return "x"
	}
	args := make([]string, 0, 4)
	for i := range max(len(f.Of), functions[f.Name].args) {
		arg := "x"
		if i < len(f.Of) {
			arg = f.Of[i].String()
		}
		args = append(args, arg)
	}
	for _, v := range []float64{f.Alpha, f.Beta}[:functions[f.Name].attributes] {
		args = append(args, fmt.Sprintf("%.6g", v))
	}
	return f.Name + "(" + strings.Join(args, ", ") + ")"
}

// Gate returns g if the function is x * g(x), like SiLU, and |g| is at most 2 far from x = 0. Otherwise it returns nil.
func (f *Function) Gate() *Function {
	g := f.over()
	if g == nil {
		return nil
	}
	for _, far := range []float64{-256, 256} {
		if !(math.Abs(g.At(far)) <= 2) {
			return nil
		}
	}
	return g
}

// over returns the function divided by x; nil if x is not a factor of the function.
func (f *Function) over() *Function {
	line := func(of *Function, alpha, beta float64) *Function {
		return &Function{Name: "Line", Alpha: alpha, Beta: beta, Of: []*Function{of}}
	}
	switch {
	case f.Name == "Mul" && len(f.Of) == 2:
		for i, a := range f.Of {
			if a.Name == "x" {
				return f.Of[1-i]
			}
			if g := a.over(); g != nil {
				return &Function{Name: "Mul", Of: []*Function{g, f.Of[1-i]}}
			}
		}
	case f.Name == "Line" && f.Beta == 0 && len(f.Of) == 1:
		if g := f.Of[0].over(); g != nil {
			return line(g, f.Alpha, 0)
		}
	case len(f.Of) == 1 && f.Of[0].Name != "x" || len(f.Of) > 1:
	case f.Name == "Gelu":
		return line(&Function{Name: "Erf", Of: []*Function{line(X(), 1/math.Sqrt2, 0)}}, 0.5, 0.5)
	case f.Name == "HardSwish":
		return &Function{Name: "Clip", Beta: 1, Of: []*Function{line(X(), 1./6, 0.5)}}
	case f.Name == "Mish":
		return &Function{Name: "Tanh", Of: []*Function{{Name: "Softplus"}}}
	}
	return nil
}

// Tame reports whether straight segments can represent the function for any input: the function is finite, and does not
// grow faster than a line.
func (f *Function) Tame() bool { return f.Wild() == "" }

// Wild returns "" if the function is Tame. Otherwise it returns a text about an input at which the function is not
// Tame, with a hint on how to change the function.
func (f *Function) Wild() string {
	const most, slope, least = 1024, 64, 16 // slope * least allows values up to 1000 at zero, for 1 / Sqrt(x + 1e-6)
	for _, x := range []float64{0, 1e-3, 0.1, 0.5, 1, 2, 4, 8, 16, 32, 128, most} {
		for _, x := range []float64{x, -x} {
			y, line := f.At(x), slope*(math.Abs(x)+least)
			switch {
			case math.Abs(y) <= line:
				continue
			case x < 0 && math.IsNaN(y):
				return fmt.Sprintf("is no number at %g (a mean of squares and Max(x, 0) cannot be negative)", x)
			case math.Abs(x) < 0.1:
				return fmt.Sprintf("is %.3g at %g, where segments reach %g at most (an epsilon of 1e-6 within a root, or of 1e-3 outside of it, makes it less)", y, x, line)
			}
			return fmt.Sprintf("grows faster than a line: it is %.3g at %g, where segments reach %g at most", y, x, line)
		}
	}
	return ""
}

// Known reports whether a function of this name exists.
func Known(name string) bool { return functions[name].at != nil }

func (f *Function) check(op Op) error {
	if op != Conv && op != Add {
		return fmt.Errorf("%w: a %v has no function", ErrReference, op)
	}
	if err := f.known(); err != nil {
		return err
	}
	if n := f.Size(); n > MaxFunction {
		return fmt.Errorf("%w: a function of %d operators, at most %d", ErrReference, n, MaxFunction)
	}
	return nil
}

func (f *Function) known() error {
	switch {
	case !Known(f.Name):
		return fmt.Errorf("%w: function %q", ErrReference, f.Name)
	case len(f.Of) != 0 && len(f.Of) != functions[f.Name].args:
		return fmt.Errorf("%w: function %q of %d arguments, expected %d", ErrReference, f.Name, len(f.Of), functions[f.Name].args)
	case math.IsNaN(f.Alpha) || math.IsNaN(f.Beta):
		return fmt.Errorf("%w: function %q of %v and %v", ErrValue, f.Name, f.Alpha, f.Beta)
	}
	for _, a := range f.Of {
		if err := a.known(); err != nil {
			return err
		}
	}
	return nil
}
