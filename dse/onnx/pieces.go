package onnx

import (
	"fmt"
	"math"
	"slices"

	"github.com/sluice-npu/sluice/dse/graph"
)

// This file lowers functions that sums, scales and clamps can express: curves of two line segments, extrema and
// differences.

// alone appends a layer that works element by element on v, and returns the result.
func (c *call) alone(l layer, v value, what string, nonNegative bool) (value, error) {
	t := c.shapeOf(v)
	if l.name = c.name + what; l.in == nil {
		l.in = []int{v.tensor}
	}
	var err error
	if v.tensor, err = c.net.add(l, l.name, t.h, t.w, t.c); err != nil {
		return v, err
	}
	c.net.tensors[v.tensor].nonNegative = nonNegative || c.net.tensors[v.tensor].nonNegative
	return v, nil
}

// own returns a name for an intermediate result of a node. The name does not occur in the file.
func (c *call) own(what string) string {
	name := c.output() + " (" + what + ")"
	for c.names[name] {
		name += "'"
	}
	return name
}

// scaled multiplies a map by one factor per channel.
func (c *call) scaled(v value, by []float64, what string) (value, error) {
	return c.alone(layer{kind: affine, scale: by, shift: make([]float64, len(by))}, v, what, false)
}

// below computes max(-x, 0).
func (c *call) below(v value) (value, error) {
	u, err := c.scaled(v, slices.Repeat([]float64{-1}, c.shapeOf(v).c), " (turned)")
	if err != nil {
		return v, err
	}
	return c.alone(layer{kind: clamp, lo: 0, hi: float32(math.Inf(1))}, u, " (below zero)", true)
}

// bent computes x if x >= 0, and slope * x otherwise, with one slope per channel: x + (1 - slope) max(-x, 0).
func (c *call) bent(v value, slopes []float64, nonNegative bool) error {
	if !slices.ContainsFunc(slopes, func(a float64) bool { return a != 1 }) {
		c.values[c.output()] = v
		return nil
	}
	if t := c.shapeOf(v); c.options.Post && !slices.ContainsFunc(slopes, func(a float64) bool { return a != slopes[0] }) {
		return c.emit(layer{kind: curve, function: &graph.Function{Name: "LeakyRelu", Alpha: slopes[0]}}, v, t.h, t.w, t.c, nonNegative)
	}
	n, err := c.below(v)
	if err != nil {
		return err
	}
	by := make([]float64, len(slopes))
	for i, a := range slopes {
		if by[i] = 1 - a; math.IsNaN(by[i]) || math.IsInf(by[i], 0) {
			return fmt.Errorf("%w: slope %v of channel %d", ErrValue, a, i)
		}
	}
	if n, err = c.scaled(n, by, " (scaled)"); err != nil {
		return err
	}
	t := c.shapeOf(v)
	return c.emit(layer{kind: add, in: []int{v.tensor, n.tensor}}, v, t.h, t.w, t.c, nonNegative)
}

func (c *call) leakyRelu() error {
	if err := c.inputs(1, 1); err != nil {
		return err
	}
	slope := float64(c.attr.float("alpha", 0.01))
	if err := c.attr.done(); err != nil {
		return err
	}
	v, err := c.elements(0)
	if err != nil {
		return err
	}
	t := c.shapeOf(v)
	return c.bent(v, slices.Repeat([]float64{slope}, t.c), slope <= 0 || t.nonNegative)
}

func (c *call) pRelu() error {
	if err := c.plain(2, 2); err != nil {
		return err
	}
	k := c.constants[c.input(1)]
	if k == nil {
		return fmt.Errorf("tensor %q: %w: slopes that are no constant", c.input(1), ErrUnsupported)
	}
	read := c.value
	if k.elems == 1 {
		read = c.elements
	}
	v, err := read(0)
	if err != nil {
		return err
	}
	t := c.shapeOf(v)
	if v.rank == 2 && t.h*t.w != 1 && k.elems != 1 {
		return fmt.Errorf("tensor %q: %w: a flattened map and slopes", c.input(0), ErrUnsupported)
	}
	slopes, err := c.perChannel(c.input(1), gain, v, t.c)
	if err != nil {
		return err
	}
	return c.bent(v, slopes, t.nonNegative || slices.Max(slopes) <= 0)
}

// magnitude computes |x| = x + 2 max(-x, 0).
func (c *call) magnitude() error {
	if err := c.plain(1, 1); err != nil {
		return err
	}
	v, err := c.elements(0)
	if err != nil {
		return err
	}
	return c.bent(v, slices.Repeat([]float64{-1}, c.shapeOf(v).c), true)
}

func (c *call) negated() error {
	if err := c.plain(1, 1); err != nil {
		return err
	}
	v, err := c.elements(0)
	if err != nil {
		return err
	}
	v, err = c.scaled(v, slices.Repeat([]float64{-1}, c.shapeOf(v).c), "")
	if err == nil {
		c.values[c.output()] = v
	}
	return err
}

// hardSigmoid computes max(0, min(1, alpha x + beta)).
func (c *call) hardSigmoid() error {
	if err := c.inputs(1, 1); err != nil {
		return err
	}
	alpha, beta := float64(c.attr.float("alpha", 0.2)), float64(c.attr.float("beta", 0.5))
	if err := c.attr.done(); err != nil {
		return err
	}
	v, err := c.elements(0)
	if err != nil {
		return err
	}
	s := slice{scale: alpha, shift: beta}
	if err := s.check(); err != nil {
		return err
	}
	t := c.shapeOf(v)
	left := t.h*t.w == 1 && !c.computes(c.node) // the host computes the function
	if left {
		alpha, beta = 4*alpha, 4*beta-2
	}
	l := layer{kind: affine, scale: slices.Repeat([]float64{alpha}, t.c), shift: slices.Repeat([]float64{beta}, t.c)}
	if v, err = c.alone(l, v, " (line)", false); err != nil {
		return err
	}
	if left {
		v.activation = opName(c.node)
		c.values[c.output()] = v
		return nil
	}
	return c.emit(layer{kind: clamp, lo: 0, hi: 1}, v, t.h, t.w, t.c, true)
}

// extreme computes the maximum or minimum of maps and constants, two at a time. A map and a constant need a clamp. Two
// maps need max(a, b) = a + max(b - a, 0) or min(a, b) = a - max(a - b, 0).
func (c *call) extreme() error {
	if err := c.plain(1, maxDim); err != nil {
		return err
	}
	return c.chain(func(step *call) error {
		for i := range 2 {
			if step.constants[step.input(i)] == nil {
				continue
			}
			bound, err := step.number(step.input(i))
			if err != nil {
				return fmt.Errorf("%w; a number alone bounds a map", err)
			}
			one := *step
			one.node.Input = []string{step.input(1 - i)}
			if opName(c.node) == "Max" {
				return one.bounded(bound, float32(math.Inf(1)))
			}
			return one.bounded(float32(math.Inf(-1)), bound)
		}
		a, b, err := step.pair()
		if err != nil {
			return err
		}
		sign := 1.0
		if opName(c.node) == "Min" {
			sign = -1
		}
		t := step.shapeOf(a)
		turned, err := step.scaled(a, slices.Repeat([]float64{-sign}, t.c), " (turned)")
		if err != nil {
			return err
		}
		other := b
		if sign < 0 {
			if other, err = step.scaled(b, slices.Repeat([]float64{-1}, t.c), " (the other turned)"); err != nil {
				return err
			}
			turned = a
		}
		d, err := step.alone(layer{kind: add, in: []int{other.tensor, turned.tensor}}, a, " (difference)", false)
		if err != nil {
			return err
		}
		if d, err = step.alone(layer{kind: clamp, lo: 0, hi: float32(math.Inf(1))}, d, " (above)", true); err != nil {
			return err
		}
		if sign < 0 {
			if d, err = step.scaled(d, slices.Repeat([]float64{-1}, t.c), " (taken away)"); err != nil {
				return err
			}
		}
		u := step.shapeOf(b)
		nonNegative := t.nonNegative && u.nonNegative || sign > 0 && (t.nonNegative || u.nonNegative)
		return step.emit(layer{kind: add, in: []int{a.tensor, d.tensor}}, a, t.h, t.w, t.c, nonNegative)
	})
}

func (c *call) mean() error {
	if err := c.plain(1, maxDim); err != nil {
		return err
	}
	n := len(c.node.GetInput())
	if err := c.chain((*call).add); err != nil || n == 1 {
		return err
	}
	v := c.values[c.output()]
	v, err := c.scaled(v, slices.Repeat([]float64{1 / float64(n)}, c.shapeOf(v).c), " (mean)")
	if err == nil {
		c.values[c.output()] = v
	}
	return err
}

func (c *call) difference() error {
	if err := c.plain(2, 2); err != nil {
		return err
	}
	a, b, err := c.pair()
	if err != nil {
		return err
	}
	t, minus := c.shapeOf(a), slices.Repeat([]float64{-1}, c.shapeOf(a).c)
	if t.alike && !c.shapeOf(b).alike { // computes mean - x as -(x - mean), so that both forms share a layer
		if a, err = c.scaled(a, minus, " (turned)"); err != nil {
			return err
		}
		if a, err = c.alone(layer{kind: add, in: []int{b.tensor, a.tensor}}, b, " (difference)", false); err != nil {
			return err
		}
		return c.emit(layer{kind: affine, scale: minus, shift: make([]float64, t.c)}, a, t.h, t.w, t.c, false)
	}
	if b, err = c.scaled(b, minus, " (turned)"); err != nil {
		return err
	}
	return c.emit(layer{kind: add, in: []int{a.tensor, b.tensor}}, a, t.h, t.w, t.c, false)
}
