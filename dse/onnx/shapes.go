package onnx

import (
	"fmt"
	"slices"

	"github.com/sluice-npu/sluice/dse/onnx/onnxpb"
)

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
	v, err := c.reading(0) // the sizes of a view are known without a copy
	if err != nil {
		return err
	}
	dims := c.dims(v)
	if v.pad != nil {
		dims[1+v.order.axisOf(1)] += v.pad.t + v.pad.b
		dims[1+v.order.axisOf(2)] += v.pad.l + v.pad.r
	}
	return c.shapeIs(dims)
}

// gather lowers a Gather along an axis: of one channel, of channels in any order, or of elements at equal distances.
func (c *call) gather() error {
	v, w, err := c.seenInput(0)
	if err != nil {
		return err
	}
	along, at, err := c.gathered(c.dims(v))
	if err != nil {
		return err
	}
	if along == 0 || len(at) == 0 {
		return fmt.Errorf("%w: a Gather along the batch, or of nothing", ErrUnsupported)
	}
	rank := len(c.constants[c.input(1)].dims)
	if v.rank == 4 && v.view == nil && v.order == nchw && along == 1 && rank == 0 && v.activation == "" {
		c.values[c.output()] = value{tensor: v.tensor, rank: 3, order: nchw, slice: &slice{channel: at[0], scale: 1}}
		return nil
	}
	step := 1
	if len(at) > 1 {
		step = at[1] - at[0]
	}
	if rank > 1 {
		return fmt.Errorf("tensor %q: %w: a Gather by indices of rank %d, at most 1", c.input(1), ErrUnsupported, rank)
	}
	for i, p := range at {
		if step == 0 || p != at[0]+i*step {
			return c.gatherChannels(v, w, along-1, at)
		}
	}
	if v, w, err = c.cutAxis(v, w, along-1, at[0], step, len(at)); err != nil {
		return err
	}
	if rank == 0 {
		w.axes = slices.Delete(slices.Clone(w.axes), along-1, along)
	}
	c.look(0, v, w)
	return nil
}

func (c *call) gatherChannels(v value, w view, axis int, at []int) error {
	t := c.shapeOf(v)
	if v.view != nil || !w.channels(axis, t) {
		return fmt.Errorf("tensor %q: %w: elements %v in uneven steps of another axis than the channels'", c.input(1), ErrUnsupported, at)
	}
	// in a map of one channel, the channel axis cannot be distinguished from another axis of size 1
	if ones := slices.DeleteFunc(w.sizes(), func(n int) bool { return n != 1 }); t.c == 1 && len(at) != 1 && len(ones) > 1 {
		return fmt.Errorf("tensor %q: %w: %d elements along an axis of one, of %v: repeat it with Concat", c.input(1), ErrUnsupported, len(at), w.sizes())
	}
	every := func(n int) []int { return positionsAlong([]factor{{0, n, 1}}, 0) }
	out, err := c.chosen(c.output(), v, [3][]int{at, every(t.h), every(t.w)})
	if err != nil {
		return err
	}
	c.values[c.output()] = out
	return nil
}

func (c *call) castTo() (to int64, err error) {
	like, n := opName(c.node) == "CastLike", 1
	if like {
		n = 2
	} else {
		to = c.attr.int("to", 0)
	}
	c.attr.int("saturate", 1)         // only for 8-bit floats
	c.attr.string("round_mode", "up") // only for 8-bit floats
	if err := c.plain(n, n); err != nil || !like {
		return to, err
	}
	if k := c.constants[c.input(1)]; k != nil {
		return int64(k.kind), nil
	}
	_, err = c.reading(1) // returns an error for maps of integers
	return typeFloat, err
}

func (c *call) cast() error {
	to, err := c.castTo()
	if err != nil {
		return err
	}
	v, ok := c.values[c.input(0)]
	if !ok {
		_, err := c.value(0)
		return err
	}
	switch {
	case to == typeFloat || to == typeFloat16 || to == typeDouble:
		v.bytes = false // the target type does not matter: the hardware determines the type of a map
	case v.bytes && (to == typeUint8 || to == typeInt32 || to == typeInt64):
	default:
		return fmt.Errorf("attribute \"to\": %w: %d, feature maps are cast only to 1 (float), 10 (float16), 11 (double)", ErrAttribute, to)
	}
	c.values[c.output()] = v
	return nil
}

// dequantizeMap computes (x - zero) * scale for a map of bytes.
func (c *call) dequantizeMap() error {
	if err := c.inputs(2, 3); err != nil {
		return err
	}
	if v := c.values[c.input(0)]; v.coded != nil {
		return c.decode(v) // does not change the view
	}
	v, err := c.value(0)
	if err != nil {
		return err
	}
	if !v.bytes {
		return fmt.Errorf("tensor %q: %w: a DequantizeLinear of floats", c.input(0), ErrUnsupported)
	}
	scale, err := c.number(c.input(1))
	if err != nil {
		return err
	}
	zero := int64(0)
	if name := c.input(2); name != "" {
		k := c.constants[name]
		if k == nil || k.kind != typeUint8 || len(k.ints) != 1 {
			return fmt.Errorf("tensor %q: %w: expected one constant of 2 (uint8)", name, ErrShape)
		}
		zero = k.ints[0]
	}
	c.attr.int("axis", 1) // only for scales per channel
	c.attr.only("block_size", 0)
	if err := c.attr.done(); err != nil {
		return err
	}
	t := c.shapeOf(v)
	s := slice{scale: float64(scale), shift: -float64(scale) * float64(zero)}
	if err := s.check(); err != nil {
		return fmt.Errorf("tensor %q: %w", c.input(1), err)
	}
	l := layer{kind: affine, scale: slices.Repeat([]float64{s.scale}, t.c), shift: slices.Repeat([]float64{s.shift}, t.c)}
	v.bytes = false
	return c.emit(l, v, t.h, t.w, t.c, false)
}

func (c *call) squeeze() error {
	v, w, err := c.seenInput(0)
	if err != nil {
		return err
	}
	kept, err := c.squeezed(c.dims(v))
	if err != nil {
		return err
	}
	if len(kept) == 0 || kept[0] != 0 {
		return fmt.Errorf("tensor %q: %w: a Squeeze of the batch; axes say which others go", c.input(0), ErrUnsupported)
	}
	out := view{first: w.first}
	for _, a := range kept[1:] {
		out.axes = append(out.axes, w.axes[a-1])
	}
	c.look(0, v, out)
	return nil
}

func (c *call) unsqueeze() error {
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
	v, w, err := c.seenInput(0)
	if err != nil {
		return err
	}
	from, err := c.unsqueezed(len(w.axes) + 1)
	if err != nil {
		return err
	}
	if from[0] != 0 {
		return fmt.Errorf("tensor %q: %w: an axis before the batch", c.input(0), ErrUnsupported)
	}
	if err := rankOf(c.input(0), len(from)); err != nil {
		return err
	}
	out := view{first: w.first}
	for _, a := range from[1:] {
		if a == added {
			out.axes = append(out.axes, nil)
		} else {
			out.axes = append(out.axes, w.axes[a-1])
		}
	}
	c.look(0, v, out)
	return nil
}

func (c *call) transpose() error {
	if err := c.inputs(1, 1); err != nil {
		return err
	}
	v, err := c.reading(0)
	if err != nil {
		return err
	}
	w := c.viewOf(v)
	perm, err := c.permutation(len(w.axes) + 1)
	if err != nil {
		return err
	}
	if perm[0] != 0 {
		return fmt.Errorf("attribute \"perm\": %w: %v moves the batch", ErrAttribute, perm)
	}
	if v.pad != nil { // the padding refers to the map's own axes
		v.order = order{v.order[perm[1]-1], v.order[perm[2]-1], v.order[perm[3]-1]}
		c.view(v, 4)
		return nil
	}
	out := view{first: w.first}
	for _, a := range perm[1:] {
		out.axes = append(out.axes, w.axes[a-1])
	}
	c.look(0, v, out)
	return nil
}

// String names the axes.
func (o order) String() string {
	names := "N"
	for _, a := range o {
		names += " x " + string("CHW"[a])
	}
	return names
}

// addsChannel reports whether a node is a Reshape of N x H x W x 1 to N x 1 x H x W. tf2onnx writes this Reshape
// instead of a Transpose.
func (im *importer) addsChannel(input string, n *onnxpb.NodeProto) bool {
	if len(n.GetInput()) != 2 {
		return false
	}
	sizes := im.integersOf(n.GetInput()[1])
	for _, v := range im.graph.GetInput() {
		dims := v.GetType().GetTensorType().GetShape().GetDim()
		if v.GetName() == input && len(dims) == 4 && len(sizes) == 4 {
			at := func(i int) int64 { return dims[i].GetDimValue() }
			return at(3) == 1 && at(1) != 1 && sizes[1] == 1 && sizes[2] == at(1) && sizes[3] == at(2)
		}
	}
	return false
}

// integersOf returns the values of an integer constant, or nil if the name is not an integer constant. It can be used
// before readConstants.
func (im *importer) integersOf(name string) (ints []int64) {
	for _, t := range im.graph.GetInitializer() {
		if t.GetName() == name {
			if k, err := newConstant(name, t, false, &im.outside); err == nil {
				ints = k.ints
			}
		}
	}
	for _, c := range im.graph.GetNode() {
		if opName(c) == "Constant" && len(c.GetOutput()) == 1 && c.GetOutput()[0] == name {
			if a, err := newAttributes(c); err == nil {
				if k, err := newConstant(name, a.byName["value"].GetT(), false, &im.outside); err == nil {
					ints = k.ints
				}
			}
		}
	}
	return ints
}

// overLast reports whether a node reduces only the last of four axes, which then are the channels.
func (im *importer) overLast(n *onnxpb.NodeProto) bool {
	a, err := newAttributes(n)
	if err != nil {
		return false
	}
	axes := a.ints("axes")
	if opName(n) == "LayerNormalization" {
		axes = []int64{a.int("axis", -1)}
	} else if len(n.GetInput()) > 1 {
		axes = im.integersOf(n.GetInput()[1])
	}
	return len(axes) == 1 && (axes[0] == -1 || axes[0] == 3)
}

// channelsLast reports whether an input is N x H x W x C. Frameworks with this layout write a Transpose before
// operators that need ONNX's layout. Before this Transpose, they write only arithmetic. channelsLast ignores nodes that
// no exit needs.
func (im *importer) channelsLast(input string) bool {
	nodes := im.needed()
	as, last := map[string]bool{input: true}, false
	for range nodes { // one round per node is enough, even if the nodes are in reverse order
		before := len(as)
		for _, n := range nodes {
			if !slices.ContainsFunc(n.GetInput(), func(x string) bool { return as[x] }) {
				continue
			}
			switch op := opName(n); op {
			case "Transpose":
				a, err := newAttributes(n)
				return last || err == nil && slices.Equal(a.ints("perm"), []int64{0, 3, 1, 2})
			case "Reshape":
				return last || im.addsChannel(input, n)
			case "LayerNormalization", "ReduceMean", "ReduceSum":
				if !last && !im.overLast(n) {
					return false
				}
				last = true
			case "Conv", "ConvTranspose", "BatchNormalization", "MaxPool", "AveragePool", "GlobalMaxPool", "GlobalAveragePool":
				return false
			case "Identity", "Cast", "DequantizeLinear", "QuantizeLinear", "Dropout", "Relu", "Clip", "Pad", "Add", "Sub", "Mul", "Div":
				as[n.GetOutput()[0]] = true
			}
		}
		if len(as) == before {
			break
		}
	}
	return last
}

// needed returns the nodes that exits need, in the file's order. It ignores errors in the file, which live reports.
func (im *importer) needed() (nodes []*onnxpb.NodeProto) {
	producer, names := map[string]*onnxpb.NodeProto{}, slices.Clone(im.exits)
	for _, n := range im.graph.GetNode() {
		for _, out := range n.GetOutput() {
			producer[out] = n
		}
	}
	need := map[*onnxpb.NodeProto]bool{}
	for len(names) > 0 {
		n := producer[names[len(names)-1]]
		if names = names[:len(names)-1]; n != nil && !need[n] {
			need[n] = true
			names = append(names, n.GetInput()...)
		}
	}
	return slices.DeleteFunc(slices.Clone(im.graph.GetNode()), func(n *onnxpb.NodeProto) bool { return !need[n] })
}

func exitsOf(g *onnxpb.GraphProto, o Options) []string {
	exits := o.Exits
	if len(exits) == 0 {
		for _, v := range g.GetOutput() {
			exits = append(exits, v.GetName())
		}
	}
	return exits
}
