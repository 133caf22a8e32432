package frame

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Measures compute numbers from the runs of a publication. A key is a measure's name with its arguments, such as
// "latency SYSTEM LOAD". An argument in lower case is a number.
//
// Claim.Ours is an expression of numbers, measures and formulas. The formulas are over(A, B), minus(A, B), times(A, B),
// above(A, B: 1 if A is above B), ratio(A, B), and sum, mean, geomean, lowest, highest with any number of arguments. In
// lowest(latency([system], pai)), [system] is the name of a set: lowest gets one argument per member of the set.
type Measures[L any] map[string]func(l L, of Args) (float64, error)

// Args are the arguments of a measure.
type Args []string

// Float returns an argument as a number.
func (a Args) Float(i int) float64 {
	x, _ := strconv.ParseFloat(a[i], 64) // no error: measure has checked the argument
	return x
}

// Int returns an argument as a whole number.
func (a Args) Int(i int) int { return int(a.Float(i)) }

// AddMetrics adds the metrics of a run as measures. usage is appended to each name.
func AddMetrics[L, O any](to Measures[L], usage string, run func(l L, of Args) (O, error), metrics []Metric[O]) {
	for _, m := range metrics {
		to[m.Name+" "+usage] = func(l L, of Args) (float64, error) {
			o, err := run(l, of)
			if err != nil {
				return 0, err
			}
			return m.Of(o), nil
		}
	}
}

// folds are the formulas that combine two numbers at a time.
var folds = map[string]func(a, b float64) float64{
	"over":  func(a, b float64) float64 { return a / b },
	"minus": func(a, b float64) float64 { return a - b },
	"times": func(a, b float64) float64 { return a * b },
	"above": func(a, b float64) float64 { return Truth(a > b) },
	"sum":   plus, "mean": plus, "geomean": plus,
}

// unit returns the unit of an expression, from the units of its measures. A quotient is a multiple (x), and a
// comparison has no unit. A difference of percentages is in points. over(minus(A, B), B) is a share.
func unit(text string, of map[string]string) string {
	name, args, _ := call(text)
	switch _, is := takes[name]; {
	case name == "above":
		return ""
	case name == "times" && args[1] == "1e-6" && unit(args[0], of) == "ns":
		return "ms"
	case name == "over" && strings.HasPrefix(args[0], "minus(") && strings.HasSuffix(args[0], ", "+args[1]+")"):
		return "share"
	case name == "over" || name == "ratio":
		return "x"
	case name == "minus" && unit(args[0], of) == "%":
		return "points"
	case is:
		return unit(args[0], of)
	}
	return of[name]
}

// Truth returns 1 for true, 0 for false.
func Truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func plus(a, b float64) float64 { return a + b }

// takes is the number of arguments of each formula; 0: any number.
var takes = map[string]int{"over": 2, "minus": 2, "times": 2, "above": 2, "ratio": 2, "sum": 0, "mean": 0, "geomean": 0, "lowest": 0, "highest": 0}

// combine applies a formula to samples. It returns nil if a formula other than ratio gets a Lowest or Highest.
func combine[L any](name string, all []Sampler[L]) Sampler[L] {
	if name == "ratio" {
		return Ratio(all[0], all[1])
	}
	var p []Probe[L]
	for _, s := range all {
		one, is := s.(Probe[L])
		if !is {
			return nil
		}
		p = append(p, one)
	}
	through := func(f func(float64) float64, p Probe[L]) Probe[L] {
		return func(l L) (float64, error) { x, err := p(l); return f(x), err }
	}
	mean := func() Probe[L] {
		return through(func(x float64) float64 { return x / float64(len(p)) }, Fold(plus, p...))
	}
	switch name {
	case "lowest":
		return Lowest(p...)
	case "highest":
		return Highest(p...)
	case "mean":
		return mean()
	case "geomean":
		for i := range p {
			p[i] = through(math.Log, p[i])
		}
		return through(math.Exp, mean())
	}
	return Fold(folds[name], p...)
}

// Sampler parses an expression.
func (m Measures[L]) Sampler(text string, sets map[string][]string) (Sampler[L], error) {
	name, args, err := call(text)
	if err != nil {
		return nil, err
	}
	n, is := takes[name]
	if !is {
		return m.measure(name, args)
	}
	if n == 0 {
		args = spread(args, sets)
	}
	if len(args) == 0 || n > 0 && len(args) != n {
		return nil, fmt.Errorf("%q: %s takes another number of arguments than %d", text, name, len(args))
	}
	var all []Sampler[L]
	for _, a := range args {
		s, err := m.Sampler(a, sets)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	s := combine(name, all)
	if s == nil {
		return nil, fmt.Errorf("%q: the extreme of several is no argument of %s", text, name)
	}
	return s, nil
}

// measure parses a number, or a measure with its arguments.
func (m Measures[L]) measure(name string, args []string) (Probe[L], error) {
	if x, err := strconv.ParseFloat(name, 64); err == nil && args == nil {
		return func(L) (float64, error) { return x, nil }, nil
	}
	var known []string
	for usage, of := range m {
		known = append(known, usage)
		f := strings.Fields(usage)
		if f[0] != name || len(f) != len(args)+1 {
			continue
		}
		for i, a := range args {
			if _, err := strconv.ParseFloat(a, 64); err != nil && f[i+1] == strings.ToLower(f[i+1]) {
				return nil, fmt.Errorf("%s: %q, a number is expected", usage, a)
			}
		}
		return func(l L) (float64, error) { return of(l, args) }, nil
	}
	slices.Sort(known)
	return nil, fmt.Errorf("there is no measure %s of %q; there are %s", name, args, strings.Join(known, ", "))
}

// spread replaces an argument that contains a set name by one argument per member of the set.
func spread(args []string, sets map[string][]string) (out []string) {
	for _, a := range args {
		at, set := len(a), ""
		for name := range sets {
			if i := strings.Index(a, "["+name+"]"); i >= 0 && i < at {
				at, set = i, name
			}
		}
		if set == "" {
			out = append(out, a)
			continue
		}
		for _, member := range sets[set] {
			out = append(out, spread([]string{strings.ReplaceAll(a, "["+set+"]", member)}, sets)...)
		}
	}
	return out
}

// call splits NAME(A, B) into the name and the arguments, at the outermost commas. args is nil if there are no
// parentheses.
func call(text string) (name string, args []string, err error) {
	text = strings.TrimSpace(text)
	name, rest, is := strings.Cut(text, "(")
	if !is {
		return name, nil, nil
	}
	if rest == ")" {
		return name, []string{}, nil
	}
	depth, from := 0, 0
	for i, r := range rest {
		switch {
		case r == '(':
			depth++
		case r == ',' && depth == 0, r == ')' && depth == 0:
			args = append(args, strings.TrimSpace(rest[from:i]))
			if from = i + 1; r == ')' && from < len(rest) {
				return "", nil, fmt.Errorf("%q: something is behind the last parenthesis", text)
			}
		case r == ')':
			depth--
		}
	}
	if from != len(rest) || !strings.HasSuffix(rest, ")") {
		return "", nil, fmt.Errorf("%q: a parenthesis is missing", text)
	}
	return name, args, nil
}
