package onnx

import (
	"fmt"
	"slices"

	"github.com/sluice-npu/sluice/dse/onnx/onnxpb"
)

// Exporters compute the target of a Reshape from the shape of what they reshape. What follows
// evaluates such arithmetic on int64 vectors while importing.

// maxVector bounds such a vector.
const maxVector = 64

func (c *call) define(dims []int, ints []int64) error {
	if len(ints) > maxVector {
		return fmt.Errorf("%w: a vector of %d integers, at most %d are supported", ErrTooLarge, len(ints), maxVector)
	}
	c.constants[c.output()] = intConstant(c.output(), dims, ints)
	return nil
}

func (c *call) constant() error {
	var t *onnxpb.TensorProto
	one := func(kind int32) *onnxpb.TensorProto { return &onnxpb.TensorProto{DataType: &kind} }
	for _, name := range []string{"value", "value_float", "value_floats", "value_int", "value_ints"} {
		p := c.attr.byName[name]
		if p == nil {
			continue
		}
		if t != nil {
			return fmt.Errorf("attribute %q: %w: a Constant has one value", name, ErrDuplicate)
		}
		switch name {
		case "value":
			if p = c.attr.take(name, onnxpb.AttributeProto_TENSOR); p != nil {
				t = p.GetT()
			}
		case "value_float":
			t = one(typeFloat)
			t.FloatData = []float32{c.attr.float(name, 0)}
		case "value_floats":
			if p = c.attr.take(name, onnxpb.AttributeProto_FLOATS); p != nil {
				t = one(typeFloat)
				t.FloatData, t.Dims = p.GetFloats(), []int64{int64(len(p.GetFloats()))}
			}
		case "value_int":
			t = one(typeInt64)
			t.Int64Data = []int64{c.attr.int(name, 0)}
		case "value_ints":
			t = one(typeInt64)
			t.Int64Data = c.attr.ints(name)
			t.Dims = []int64{int64(len(t.Int64Data))}
		}
	}
	if err := c.attr.done(); err != nil {
		return err
	}
	if t == nil {
		return fmt.Errorf("%w: a Constant without a value", ErrMissing)
	}
	k, err := newConstant(c.output(), t, false, &c.outside)
	if err != nil {
		return err
	}
	c.constants[c.output()] = k
	return nil
}

func (c *call) shape() error {
	if err := c.inputs(1, 1); err != nil {
		return err
	}
	if err := c.attr.done(); err != nil {
		return err
	}
	v, err := c.value(0)
	if err != nil {
		return err
	}
	t := c.shapeOf(v)
	if v.rank == 2 {
		return c.define([]int{2}, []int64{c.batch, int64(t.c * t.h * t.w)})
	}
	return c.define([]int{4}, []int64{c.batch, int64(t.c), int64(t.h), int64(t.w)})
}

func (c *call) gather() error {
	if err := c.inputs(2, 2); err != nil {
		return err
	}
	axis := c.attr.int("axis", 0)
	if err := c.attr.done(); err != nil {
		return err
	}
	if _, ok := c.values[c.input(0)]; ok {
		return c.gatherChannel(axis)
	}
	if axis != 0 {
		return fmt.Errorf("attribute \"axis\": %w: %d, vectors have only 0", ErrAttribute, axis)
	}
	from, err := c.integers(c.input(0))
	if err != nil {
		return err
	}
	at, err := c.integers(c.input(1))
	if err != nil {
		return err
	}
	indices := c.constants[c.input(1)]
	if len(c.constants[c.input(0)].dims) != 1 || len(indices.dims) > 1 {
		return fmt.Errorf("%w: only elements of a vector are gathered", ErrUnsupported)
	}
	picked := make([]int64, len(at))
	n := int64(len(from))
	for i, p := range at {
		if p < -n || p >= n {
			return fmt.Errorf("tensor %q: %w: index %d of %d", c.input(1), ErrShape, p, n)
		}
		picked[i] = from[(p+n)%n]
	}
	return c.define(indices.dims, picked)
}

// gatherChannel takes one channel out of a map.
func (c *call) gatherChannel(axis int64) error {
	v, err := c.value(0)
	if err != nil {
		return err
	}
	at, err := c.integers(c.input(1))
	if err != nil {
		return err
	}
	channels := int64(c.shapeOf(v).c)
	if v.rank != 4 || axis != 1 && axis != -3 || len(c.constants[c.input(1)].dims) != 0 {
		return fmt.Errorf("%w: only one channel of N x C x H x W is gathered", ErrUnsupported)
	}
	if at[0] < -channels || at[0] >= channels {
		return fmt.Errorf("tensor %q: %w: channel %d of %d", c.input(1), ErrShape, at[0], channels)
	}
	c.values[c.output()] = value{tensor: v.tensor, rank: 3, slice: &slice{channel: int((at[0] + channels) % channels), scale: 1}}
	return nil
}

func (c *call) cast() error {
	if err := c.inputs(1, 1); err != nil {
		return err
	}
	to := c.attr.int("to", 0)
	if err := c.attr.done(); err != nil {
		return err
	}
	if v, ok := c.values[c.input(0)]; ok {
		if to != typeFloat {
			return fmt.Errorf("attribute \"to\": %w: %d, feature maps are cast only to 1 (float)", ErrAttribute, to)
		}
		c.values[c.output()] = v // exporters say so of what is a float already
		return nil
	}
	ints, err := c.integers(c.input(0))
	if err != nil {
		return err
	}
	if to != typeInt64 {
		return fmt.Errorf("attribute \"to\": %w: %d, only integers are cast, to 7 (int64)", ErrAttribute, to)
	}
	return c.define(c.constants[c.input(0)].dims, ints)
}

func (c *call) concatIntegers(axis int64) error {
	if axis != 0 {
		return fmt.Errorf("attribute \"axis\": %w: %d, vectors have only 0", ErrAttribute, axis)
	}
	var all []int64
	for _, name := range c.node.GetInput() {
		ints, err := c.integers(name)
		if err != nil {
			return err
		}
		if len(c.constants[name].dims) != 1 {
			return fmt.Errorf("tensor %q: %w: %v, expected a vector", name, ErrShape, c.constants[name].dims)
		}
		if all = append(all, ints...); len(all) > maxVector {
			break
		}
	}
	return c.define([]int{len(all)}, all)
}

// squeeze drops height and width of a 1 x 1 map, or a vector's only axis.
func (c *call) squeeze() error {
	if err := c.inputs(1, 2); err != nil {
		return err
	}
	if c.constants[c.input(0)] != nil {
		ints, err := c.integers(c.input(0))
		if err != nil {
			return err
		}
		if _, err := c.axes(1, 1); err != nil {
			return err
		}
		if err := c.attr.done(); err != nil {
			return err
		}
		if len(ints) != 1 {
			return fmt.Errorf("tensor %q: %w: %d elements, expected one", c.input(0), ErrShape, len(ints))
		}
		return c.define(nil, ints)
	}
	v, err := c.value(0)
	if err != nil {
		return err
	}
	axes, err := c.axes(1, v.rank)
	if err != nil {
		return err
	}
	if err := c.attr.done(); err != nil {
		return err
	}
	t := c.shapeOf(v)
	if !spatial(axes) || t.h != 1 || t.w != 1 {
		return fmt.Errorf("tensor %q: %w: only height and width of a 1 x 1 map are squeezed", c.input(0), ErrUnsupported)
	}
	c.view(v, 2)
	return nil
}

// unsqueeze gives a vector a height and width, or a number its axis.
func (c *call) unsqueeze() error {
	if err := c.inputs(1, 2); err != nil {
		return err
	}
	if k := c.constants[c.input(0)]; k != nil {
		ints, err := c.integers(c.input(0))
		if err != nil {
			return err
		}
		if _, err := c.axes(1, 1); err != nil {
			return err
		}
		if err := c.attr.done(); err != nil {
			return err
		}
		if len(k.dims) != 0 {
			return fmt.Errorf("tensor %q: %w: %v, expected a number", c.input(0), ErrShape, k.dims)
		}
		return c.define([]int{1}, ints)
	}
	if v, ok := c.values[c.input(0)]; ok && v.slice != nil {
		axes, err := c.axes(1, 4)
		if err != nil {
			return err
		}
		if err := c.attr.done(); err != nil {
			return err
		}
		if v.rank != 3 || !slices.Equal(axes, []bool{false, true, false, false}) {
			return fmt.Errorf("tensor %q: %w: a channel taken out of a map gets only axis 1 back", c.input(0), ErrUnsupported)
		}
		c.view(v, 4)
		return nil
	}
	v, err := c.value(0)
	if err != nil {
		return err
	}
	axes, err := c.axes(1, 4)
	if err != nil {
		return err
	}
	if err := c.attr.done(); err != nil {
		return err
	}
	t := c.shapeOf(v)
	if v.rank != 2 || !spatial(axes) || t.h != 1 || t.w != 1 {
		return fmt.Errorf("tensor %q: %w: only N x C becomes N x C x 1 x 1", c.input(0), ErrUnsupported)
	}
	c.view(v, 4)
	return nil
}
