package onnx

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/sluice-npu/sluice/dse/graph"
	"github.com/sluice-npu/sluice/dse/onnx/onnxpb"
	"github.com/sluice-npu/sluice/hw/abi"
)

// call is a node while lower turns it into layers, values or constants.
type call struct {
	*importer
	node *onnxpb.NodeProto
	name string
	attr *attributes
}

// lowerings maps an operator to the function that turns it into layers, values or constants.
var lowerings map[string]func(*call) error

// init fills the table: the functions in it refer to the table, so Go rejects an initialiser as a cycle.
func init() {
	lowerings = map[string]func(*call) error{
		"Abs":                (*call).magnitude,
		"Add":                (*call).add,
		"AveragePool":        (*call).averagePool,
		"BatchNormalization": (*call).batchNormalization,
		"Cast":               (*call).cast,
		"CastLike":           (*call).cast,
		"Clip":               (*call).clip,
		"Concat":             (*call).concat,
		"Constant":           (*call).constant,
		"Conv":               (*call).conv,
		"ConvTranspose":      (*call).convTranspose,
		"DepthToSpace":       (*call).depthToSpace,
		"DequantizeLinear":   (*call).dequantizeMap,
		"Div":                (*call).div,
		"Dropout":            (*call).alias,
		"Flatten":            (*call).flatten,
		"Gather":             (*call).gather,
		"Gemm":               (*call).gemm,
		"GlobalAveragePool":  (*call).globalPool,
		"GlobalMaxPool":      (*call).globalPool,
		"HardSigmoid":        (*call).hardSigmoid,
		"Identity":           (*call).alias,
		"LayerNormalization": (*call).layerNorm,
		"LeakyRelu":          (*call).leakyRelu,
		"LogSoftmax":         (*call).softmax,
		"MatMul":             (*call).matMul,
		"Max":                (*call).extreme,
		"MaxPool":            (*call).maxPool,
		"Mean":               (*call).mean,
		"Min":                (*call).extreme,
		"Mul":                (*call).mul,
		"Neg":                (*call).negated,
		"PRelu":              (*call).pRelu,
		"Pad":                (*call).padding,
		"Pow":                (*call).pow,
		"ReduceMax":          (*call).reduceMap,
		"ReduceMean":         (*call).reduceMap,
		"ReduceSum":          (*call).reduceMap,
		"QuantizeLinear":     (*call).quantizeMap,
		"Relu":               (*call).relu,
		"Reshape":            (*call).reshape,
		"Resize":             (*call).resize,
		"Shape":              (*call).shape,
		"Sigmoid":            (*call).sigmoid,
		"Slice":              (*call).slice,
		"Softmax":            (*call).softmax,
		"SpaceToDepth":       (*call).spaceToDepth,
		"Split":              (*call).split,
		"Squeeze":            (*call).squeeze,
		"Sub":                (*call).sub,
		"Sum":                (*call).sum,
		"Transpose":          (*call).transpose,
		"Unsqueeze":          (*call).unsqueeze,
		"Upsample":           (*call).resize,
	}
	for op := range curves {
		lowerings[op] = (*call).curve
	}
}

func (im *importer) lower(n *onnxpb.NodeProto) error {
	a, err := newAttributes(n)
	if err != nil {
		return err
	}
	c := &call{importer: im, node: n, name: nodeName(n), attr: a}
	if c.output() == "" {
		return fmt.Errorf("%w: its output has no name", ErrMissing)
	}
	if fold := folds[opName(n)]; fold != nil && im.fixed(n) {
		if c.coded() { // by default, the outputs have no steps; fold may set them
			for _, out := range n.GetOutput() {
				c.steps[out] = codeSteps{}
			}
		}
		return fold(c)
	}
	lowering := lowerings[opName(n)]
	if lowering == nil {
		return fmt.Errorf("%w: only of constants", ErrUnsupported)
	}
	if op := opName(n); c.input(0) != "" && im.fixed(n) && op != "Identity" && op != "Dropout" {
		return fmt.Errorf("tensor %q: %w: a constant, as all that the node reads; `onnxsim IN.onnx OUT.onnx` computes it", c.input(0), ErrUnsupported)
	}
	return lowering(c)
}

// fixed reports whether all inputs of a node are constants.
func (im *importer) fixed(n *onnxpb.NodeProto) bool {
	some := false
	for _, in := range valued(n) {
		if in != "" && im.constants[in] == nil {
			return false
		}
		some = some || in != ""
	}
	return some
}

// valued returns the inputs that the node uses by value. A CastLike uses only the type of its second input.
func valued(n *onnxpb.NodeProto) []string {
	if in := n.GetInput(); opName(n) == "CastLike" && len(in) > 1 {
		return in[:1]
	}
	return n.GetInput()
}

// dims returns the dimensions that a map has in ONNX, including the batch.
func (c *call) dims(v value) []int {
	return append([]int{int(c.batch)}, c.viewOf(v).sizes()...)
}

// input returns the name of input i; "" if it is absent.
func (c *call) input(i int) string {
	if i < len(c.node.GetInput()) {
		return c.node.GetInput()[i]
	}
	return ""
}

func (c *call) output() string { return c.node.GetOutput()[0] }

func (c *call) inputs(least, most int) error {
	if n := len(c.node.GetInput()); n < least || n > most {
		return fmt.Errorf("%w: %d inputs, expected %d to %d", ErrMissing, n, least, most)
	}
	return nil
}

// plain checks the number of inputs. It returns an error if the node has attributes.
func (c *call) plain(least, most int) error {
	if err := c.inputs(least, most); err != nil {
		return err
	}
	return c.attr.done()
}

// padded returns input i, a feature map. Its padding may still be pending; the caller must apply it.
func (c *call) padded(i int) (value, error) {
	v, err := c.reading(i)
	if err != nil || v.view == nil {
		return v, err
	}
	return c.materialised(c.input(i), v)
}

// elements returns input i for operators that work element by element. It keeps a view if the view contains all
// elements of the map, or one channel of several equal channels. It copies any other view to a map.
func (c *call) elements(i int) (value, error) {
	v, err := c.reading(i)
	if err != nil || v.view == nil || !v.view.whole(c.shapeOf(v)) && !v.view.single(c.shapeOf(v)) {
		return c.value(i)
	}
	return v, nil
}

// reading returns input i, a feature map with its view.
func (c *call) reading(i int) (value, error) {
	name := c.input(i)
	v, ok := c.values[name]
	switch {
	case name == "":
		return v, fmt.Errorf("%w: input %d", ErrMissing, i)
	case !ok && c.constants[name] != nil:
		return v, fmt.Errorf("tensor %q: %w: a constant where a feature map is expected; `onnxsim IN.onnx OUT.onnx` computes what depends on constants alone", name, ErrUnsupported)
	case !ok:
		return v, fmt.Errorf("tensor %q: %w: an output of its node that is not computed", name, ErrUnsupported)
	case v.bytes && !slices.Contains(ofBytes, opName(c.node)):
		return v, fmt.Errorf("tensor %q: %w: integers; a Cast to float or a DequantizeLinear has to stand before", name, ErrUnsupported)
	case v.coded != nil && !slices.Contains(ofCodes, opName(c.node)):
		return v, fmt.Errorf("tensor %q: %w: codes of a quantised map; a DequantizeLinear has to stand before", name, ErrUnsupported)
	case slices.Contains(squashes, v.activation):
		return c.squashed(name, v)
	case v.activation != "" && !(slices.Contains(ofLogits, opName(c.node)) && c.shapeOf(v).h*c.shapeOf(v).w == 1):
		return v, fmt.Errorf("tensor %q: %w: %s is supported only right before an output; --exits names a tensor before it", name, ErrUnsupported, v.activation)
	case v.slice != nil:
		return v, fmt.Errorf("tensor %q: %w: a channel taken out of a map; one may be scaled, shifted and joined with the map's others", name, ErrUnsupported)
	}
	return v, nil
}

// ofBytes lists the operators that may read bytes: they convert bytes to floats, or only move them.
var ofBytes = []string{"Cast", "DequantizeLinear", "Flatten", "Gather", "Identity", "Reshape", "Shape", "Slice", "Split", "Squeeze", "Transpose", "Unsqueeze"}

// ofLogits lists the operators that are allowed between a Softmax and an output: they only change the view.
var ofLogits = []string{"Flatten", "Reshape", "Shape", "Squeeze", "Transpose", "Unsqueeze"}

// squashes lists functions that map each element to 0..1. If only an output follows, the host computes such a function.
// It computes a HardSigmoid as clip(x / 4 + 1/2, 0, 1).
var squashes = []string{"Sigmoid", "HardSigmoid"}

// ofSigmoids lists the operators that may move before a function of the list squashes. Conditions: a Clip has bounds of
// about 0 and 1, a Sub is 1 - p, and all inputs of a Concat have the same such function.
var ofSigmoids = []string{"Cast", "CastLike", "Clip", "Concat", "DequantizeLinear", "Dropout", "Flatten", "Gather", "Identity", "QuantizeLinear", "Reshape", "Shape", "Slice", "Split", "Squeeze", "Sub", "Transpose", "Unsqueeze"}

// squashed returns the map v, which has a pending function of the list squashes. If the node can move before the
// function, it stays pending; otherwise squashed adds the function as a layer.
func (c *call) squashed(name string, v value) (value, error) {
	same := func(name string) bool { return c.values[name].activation == v.activation }
	switch op := opName(c.node); {
	case op == "Clip": // with bounds that change values
	case op == "Sub" && !c.complement():
	case op == "Concat" && slices.ContainsFunc(c.node.GetInput(), func(name string) bool { return !same(name) }):
	case slices.Contains(ofSigmoids, op):
		return v, nil
	}
	what, x := v.activation, v.tensor
	v.activation = ""
	key := fmt.Sprint(what, " ", x)
	if made, ok := c.made[key]; ok {
		v.tensor = made.tensor
		return v, nil
	}
	t := c.shapeOf(v)
	layers := []layer{{kind: curve, function: &graph.Function{Name: what}}}
	switch {
	case what == "HardSigmoid":
		layers = []layer{
			{kind: affine, scale: slices.Repeat([]float64{0.25}, t.c), shift: slices.Repeat([]float64{0.5}, t.c)},
			{kind: clamp, lo: 0, hi: 1},
		}
	case !c.options.Post:
		return v, fmt.Errorf("tensor %q: %w: a %s that is computed with; a design with post: true runs it", name, ErrUnsupported, what)
	default:
		c.posts[what]++
	}
	for _, l := range layers {
		l.name, l.in = name, []int{v.tensor}
		var err error
		if v.tensor, err = c.net.add(l, name, t.h, t.w, t.c); err != nil {
			return v, err
		}
	}
	c.made[key] = v
	return v, nil
}

// complement reports whether a Sub computes 1 - p.
func (c *call) complement() bool {
	one, err := c.number(c.input(0))
	return err == nil && len(c.constants[c.input(0)].dims) <= len(c.dims(c.values[c.input(1)])) && math.Abs(float64(one)-1) < 1e-6 // a quantised file may have a rounded 1
}

// value returns a feature map without pending padding.
func (c *call) value(i int) (value, error) {
	v, err := c.padded(i)
	if err == nil && v.pad != nil {
		v, err = c.pixels(i, v)
	}
	return v, err
}

// pixels applies pending padding, for operators that cannot pad. It adds a depthwise 1 x 1 convolution, which pads with
// zeros. Any other padding value is subtracted before the convolution and added after it.
func (c *call) pixels(i int, v value) (value, error) {
	name, p, t := c.input(i), v.pad, c.shapeOf(v)
	if x := float64(p.value); math.IsInf(x, 0) || math.IsNaN(x) {
		return v, fmt.Errorf("tensor %q: %w: a Pad with %v before something else than a max pool", name, ErrUnsupported, p.value)
	}
	l := layer{name: name, kind: conv, groups: t.c, in: []int{v.tensor}, window: graph.Window{KH: 1, KW: 1, SH: 1, SW: 1, PT: p.t, PL: p.l, PB: p.b, PR: p.r}}
	l.weights = slices.Repeat([]float32{1}, t.c)
	if p.value != 0 {
		away := layer{name: name + " (border)", kind: affine, in: l.in, shift: slices.Repeat([]float64{-float64(p.value)}, t.c)}
		x, err := c.net.add(away, away.name, t.h, t.w, t.c)
		if err != nil {
			return v, err
		}
		l.in, l.shift = []int{x}, slices.Repeat([]float64{float64(p.value)}, t.c)
	}
	h, w := t.h+p.t+p.b, t.w+p.l+p.r
	if err := c.reach(&l, t, h, w, t.c, 1); err != nil {
		return v, err
	}
	out, err := c.net.add(l, name, h, w, t.c)
	if err != nil {
		return v, err
	}
	c.net.tensors[out].nonNegative = t.nonNegative && p.value >= 0
	v.tensor, v.pad = out, nil
	c.values[name] = v
	return v, nil
}

// pixelMaps calls the method maps, for operators without a window. They cannot apply pending padding, so pixelMaps
// applies it first.
func (c *call) pixelMaps(i int) (value, error) {
	if _, err := c.value(i); err != nil {
		return value{}, err
	}
	return c.maps(i)
}

// maps returns input i, a feature map of N x C x H x W. The caller must apply pending padding.
func (c *call) maps(i int) (value, error) {
	v, err := c.padded(i)
	if err == nil && v.rank != 4 {
		err = fmt.Errorf("tensor %q: %w: rank %d, expected N x C x H x W", c.input(i), ErrShape, v.rank)
	}
	if err == nil && v.order != nchw {
		err = fmt.Errorf("tensor %q: %w: its axes are %v, expected N x C x H x W: a Transpose is missing before", c.input(i), ErrShape, v.order)
	}
	return v, err
}

func (c *call) shapeOf(v value) shape { return c.net.tensors[v.tensor] }

// emit appends a layer that reads v and sets the node's output.
func (c *call) emit(l layer, v value, h, w, ch int, nonNegative bool) error {
	if l.in == nil {
		l.in = []int{v.tensor}
	}
	l.name = c.name
	t, err := c.net.add(l, c.output(), h, w, ch)
	if err != nil {
		return err
	}
	c.net.tensors[t].nonNegative = nonNegative || c.net.tensors[t].nonNegative
	c.values[c.output()] = value{tensor: t, rank: v.rank, order: v.order, view: v.view}
	return nil
}

// window reads the geometry of a convolution or pool, includes pending padding, and returns the output's size.
func (c *call) window(v value, kh, kw int) (w graph.Window, h, width int, err error) {
	strides := c.attr.sizes("strides", 2, 1, 1)
	for _, d := range c.attr.sizes("dilations", 2, 1, 1) { // conv has already read the dilations of a convolution
		if d != 1 {
			c.attr.fail("attribute \"dilations\": %w: %d of a pool, only 1 is supported", ErrAttribute, d)
		}
	}
	pads := c.attr.sizes("pads", 4, 0, 0)
	auto := c.attr.string("auto_pad", "NOTSET")
	ceil := c.attr.int("ceil_mode", 0)
	if c.attr.err != nil {
		return w, 0, 0, c.attr.err
	}
	if ceil != 0 && ceil != 1 {
		return w, 0, 0, fmt.Errorf("attribute \"ceil_mode\": %w: %d", ErrAttribute, ceil)
	}
	pending := pad{}
	if v.pad != nil {
		pending = *v.pad
	}
	t := c.shapeOf(v)
	inH, inW := t.h+pending.t+pending.b, t.w+pending.l+pending.r
	w = graph.Window{KH: kh, KW: kw, SH: strides[0], SW: strides[1]}
	switch auto {
	case "NOTSET", "":
		w.PT, w.PL, w.PB, w.PR = pads[0], pads[1], pads[2], pads[3]
	case "VALID":
	case "SAME_UPPER", "SAME_LOWER":
		w.PT, w.PB = samePads(inH, kh, w.SH, auto == "SAME_LOWER")
		w.PL, w.PR = samePads(inW, kw, w.SW, auto == "SAME_LOWER")
	default:
		return w, 0, 0, fmt.Errorf("attribute \"auto_pad\": %w: %q", ErrAttribute, auto)
	}
	h, width = positions(inH, w.PT, w.PB, kh, w.SH, ceil == 1), positions(inW, w.PL, w.PR, kw, w.SW, ceil == 1)
	if h < 1 || width < 1 {
		return w, 0, 0, fmt.Errorf("tensor %q: %w: %d x %d with padding %d,%d,%d,%d is smaller than the kernel %d x %d",
			c.input(0), ErrShape, inH, inW, w.PT, w.PL, w.PB, w.PR, kh, kw)
	}
	w.PT, w.PL, w.PB, w.PR = w.PT+pending.t, w.PL+pending.l, w.PB+pending.b, w.PR+pending.r
	return w, h, width, nil
}

// samePads returns the padding of ONNX's SAME_UPPER or SAME_LOWER. SAME_LOWER puts an odd pixel before the map.
func samePads(in, k, s int, lower bool) (before, after int) {
	total := max(((in+s-1)/s-1)*s+k-in, 0)
	if lower {
		return total - total/2, total / 2
	}
	return total / 2, total - total/2
}

// positions returns the number of positions of a window along one axis. If ceil is true, it counts a last window that
// reaches past the end, if that window begins before the padding at the end.
func positions(in, before, after, k, s int, ceil bool) int {
	span := in + before + after - k
	if span < 0 {
		return 0
	}
	n := span/s + 1
	if ceil && span%s != 0 && n*s < in+before {
		n++
	}
	return n
}

func (c *call) conv() error {
	if err := c.inputs(2, 3); err != nil {
		return err
	}
	v, err := c.maps(0)
	if err == nil && v.pad != nil && v.pad.value != 0 { // a convolution pads with 0
		v, err = c.pixels(0, v)
	}
	if err != nil {
		return err
	}
	t := c.shapeOf(v)
	groups := c.attr.int("group", 1)
	if groups < 1 || groups > int64(t.c) || t.c%int(groups) != 0 {
		return fmt.Errorf("attribute \"group\": %w: %d for %d input channels", ErrAttribute, groups, t.c)
	}
	weights, values, err := c.weights(c.input(1), kernel, func(d []int) int { return d[1] * d[2] * d[3] },
		-1, t.c/int(groups), -1, -1)
	if err != nil {
		return err
	}
	cout, cin, kh, kw := weights.dims[0], weights.dims[1], weights.dims[2], weights.dims[3]
	if cout%int(groups) != 0 {
		return fmt.Errorf("tensor %q: %w: %d output channels in %d groups", c.input(1), ErrShape, cout, groups)
	}
	if kh > maxDim || kw > maxDim {
		return fmt.Errorf("tensor %q: %w: kernel %d x %d", c.input(1), ErrTooLarge, kh, kw)
	}
	if want := c.attr.ints("kernel_shape"); want != nil && (len(want) != 2 || want[0] != int64(kh) || want[1] != int64(kw)) {
		return fmt.Errorf("attribute \"kernel_shape\": %w: %v, the weights %q are %v", ErrAttribute, want, c.input(1), weights.dims)
	}
	dilation := c.attr.sizes("dilations", 2, 1, 1)
	own := shape{h: kh, w: kw}
	kh, kw = (kh-1)*dilation[0]+1, (kw-1)*dilation[1]+1
	// A convolution has no attribute ceil_mode. The check is here because window accepts ceil_mode for pools.
	if c.attr.byName["ceil_mode"] != nil {
		return fmt.Errorf("%w: [\"ceil_mode\"]", ErrAttribute)
	}
	w, h, width, err := c.window(v, kh, kw)
	if err != nil {
		return err
	}
	if err := c.attr.done(); err != nil {
		return err
	}
	l := layer{kind: conv, window: w, groups: int(groups), weights: channelsLast(values, cout, cin, own.h, own.w), steps: c.stepsOf(c.input(1), 0, cout)}
	if kh != own.h || kw != own.w {
		if l.weights, err = c.dilated(l.weights, cout, cin, own, dilation, kh, kw); err != nil {
			return err
		}
	}
	if err := c.reach(&l, t, h, width, cout, cin); err != nil {
		return err
	}
	if c.input(2) != "" {
		_, bias, err := c.weights(c.input(2), offset, nil, cout)
		if err != nil {
			return err
		}
		l.shift = widen(bias)
	}
	return c.emit(l, v, h, width, cout, false)
}

// dilated inserts taps of weight 0 into a kernel, because the hardware reads all pixels under a window.
func (c *call) dilated(weights []float32, cout, cin int, own shape, by []int, kh, kw int) ([]float32, error) {
	if kh > maxReach || kw > maxReach {
		return nil, fmt.Errorf("tensor %q: %w: a kernel of %d x %d dilated by %v is %d x %d, at most %d", c.input(1), ErrUnsupported, own.h, own.w, by, kh, kw, maxReach)
	}
	if c.budget -= int64(cout) * int64(cin) * int64(kh*kw-own.h*own.w); c.budget < 0 {
		return nil, fmt.Errorf("tensor %q: %w: dilated kernels make more than %d weights", c.input(1), ErrTooLarge, weightsOf(c.options))
	}
	wide := make([]float32, cout*kh*kw*cin)
	for o := range cout {
		for y := range own.h {
			for x := range own.w {
				copy(wide[((o*kh+y*by[0])*kw+x*by[1])*cin:][:cin], weights[((o*own.h+y)*own.w+x)*cin:])
			}
		}
	}
	return wide, nil
}

// reach adds taps of weight 0 before and after a convolution's kernel if some windows contain only padding. With these
// taps, each window contains a pixel, as the hardware requires.
func (c *call) reach(l *layer, in shape, h, width, cout, cin int) error {
	w := &l.window
	// missing returns the numbers of taps to add at both ends: `front` is for the last window, `back` for the first
	missing := func(in, before, k, s, out int) (front, back int) {
		return max(0, (out-1)*s-before-in+1), max(0, before-k+1)
	}
	up, down := missing(in.h, w.PT, w.KH, w.SH, h)
	left, right := missing(in.w, w.PL, w.KW, w.SW, width)
	if up|down|left|right == 0 {
		return nil
	}
	kh, kw := up+w.KH+down, left+w.KW+right
	if kh > maxReach || kw > maxReach {
		return fmt.Errorf("tensor %q: %w: windows of %d x %d that lie in the padding %d,%d,%d,%d altogether would have to be %d x %d, at most %d",
			c.input(0), ErrUnsupported, w.KH, w.KW, w.PT, w.PL, w.PB, w.PR, kh, kw, maxReach)
	}
	if c.budget -= int64(cout) * int64(cin) * int64(kh*kw-w.KH*w.KW); c.budget < 0 {
		return fmt.Errorf("tensor %q: %w: windows of %d x %d for the padding make more than %d weights", c.input(1), ErrTooLarge, kh, kw, weightsOf(c.options))
	}
	wide := make([]float32, cout*kh*kw*cin)
	for o := range cout {
		for y := range w.KH {
			from := (o*w.KH + y) * w.KW * cin
			copy(wide[((o*kh+up+y)*kw+left)*cin:], l.weights[from:from+w.KW*cin])
		}
	}
	l.weights = wide
	w.KH, w.KW, w.PT, w.PL, w.PB, w.PR = kh, kw, w.PT+up, w.PL+left, w.PB+down, w.PR+right
	return nil
}

// maxReach is the largest height or width of a kernel that a descriptor can represent.
const maxReach = 255

// channelsLast converts [o][c][h][w] to [o][h][w][c].
func channelsLast(x []float32, o, c, h, w int) []float32 {
	if h*w == 1 {
		return slices.Clone(x)
	}
	y := make([]float32, len(x))
	for n := range o {
		for i := range c {
			for p := range h * w {
				y[(n*h*w+p)*c+i] = x[(n*c+i)*h*w+p]
			}
		}
	}
	return y
}

func widen(x []float32) []float64 {
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = float64(v)
	}
	return y
}

func (c *call) pool(k kind) error {
	if err := c.inputs(1, 1); err != nil {
		return err
	}
	v, err := c.maps(0)
	if err != nil {
		return err
	}
	if c.attr.byName["kernel_shape"] == nil {
		return fmt.Errorf("attribute \"kernel_shape\": %w: it is missing", ErrAttribute)
	}
	size := c.attr.sizes("kernel_shape", 2, 1, 1)
	countPad := false
	if k == avgPool {
		countPad = c.attr.int("count_include_pad", 0) != 0
	} else {
		c.attr.only("storage_order", 0)
	}
	if t := c.shapeOf(v); v.pad != nil {
		own := slices.ContainsFunc(c.attr.byName["pads"].GetInts(), func(p int64) bool { return p != 0 }) ||
			strings.HasPrefix(string(c.attr.byName["auto_pad"].GetS()), "SAME")
		switch {
		case k == avgPool && (v.pad.value != 0 || own && !countPad), // the average includes the pixels of the Pad, but excludes the pool's own padding
			k == maxPool && v.pad.value > -math.MaxFloat32 && !(v.pad.value == 0 && t.nonNegative),
			max(v.pad.t, v.pad.b) >= size[0], max(v.pad.l, v.pad.r) >= size[1]: // some windows may contain only padding
			if v, err = c.pixels(0, v); err != nil {
				return err
			}
		default:
			countPad = true
		}
	}
	w, h, width, err := c.window(v, size[0], size[1])
	if err != nil {
		return err
	}
	if err := c.attr.done(); err != nil {
		return err
	}
	if w == (graph.Window{KH: 1, KW: 1, SH: 1, SW: 1}) {
		c.view(v, v.rank) // for example AdaptiveAvgPool2d(7) on a map of 7 x 7
		return nil
	}
	t := c.shapeOf(v)
	if w == (graph.Window{KH: t.h, KW: t.w, SH: w.SH, SW: w.SW}) {
		return c.global(v, k)
	}
	inside := func(in, before, k, s, out int) bool { return before < k && (out-1)*s-before < in }
	if !inside(t.h, w.PT, w.KH, w.SH, h) || !inside(t.w, w.PL, w.KW, w.SW, width) {
		return fmt.Errorf("%w: a window of %d x %d lies in the padding %d,%d,%d,%d altogether",
			ErrShape, w.KH, w.KW, w.PT, w.PL, w.PB, w.PR)
	}
	l := layer{kind: k, window: w, countPad: k == avgPool && countPad && w.PT|w.PL|w.PB|w.PR != 0}
	return c.emit(l, v, h, width, t.c, t.nonNegative)
}

func (c *call) maxPool() error     { return c.pool(maxPool) }
func (c *call) averagePool() error { return c.pool(avgPool) }

func (c *call) globalPool() error {
	if err := c.plain(1, 1); err != nil {
		return err
	}
	k := avgPool
	if opName(c.node) == "GlobalMaxPool" {
		k = maxPool
	}
	v, err := c.pixelMaps(0)
	if err != nil {
		return err
	}
	return c.global(v, k)
}

// global pools a map over height and width. It uses two layers if the map is larger than the hardware's window.
func (c *call) global(v value, k kind) error {
	t := c.shapeOf(v)
	fits := func(h, w int) bool {
		return h <= maxReach && w <= maxReach && (k == maxPool || h*w <= abi.AvgTaps)
	}
	if !fits(t.h, t.w) {
		best, size := graph.Window{}, 0
		for h := 1; h <= min(t.h, maxReach); h++ {
			for w := 1; w <= min(t.w, maxReach); w++ {
				sh, sw := min(h, t.h-h+1), min(w, t.w-w+1) // 1 if there is only one position
				if t.h%h+t.w%w == 0 && max(sh, sw) <= abi.StrideMax && fits(h, w) && fits(t.h/h, t.w/w) && h*w > size {
					best, size = graph.Window{KH: h, KW: w, SH: sh, SW: sw}, h*w
				}
			}
		}
		if size > 0 {
			l := layer{kind: k, name: c.name + " (parts)", in: []int{v.tensor}, window: best}
			var err error
			if v.tensor, err = c.net.add(l, l.name, t.h/best.KH, t.w/best.KW, t.c); err != nil {
				return err
			}
			t.h, t.w = t.h/best.KH, t.w/best.KW
		}
	}
	return c.emit(layer{kind: k, window: graph.Window{KH: t.h, KW: t.w, SH: 1, SW: 1}}, v, 1, 1, t.c, t.nonNegative)
}

// axes reads a list of axes from an attribute or, in later opsets, from an input. A negative axis is counted from the
// end. axes returns nil if both the attribute and the input are absent.
func (c *call) axes(input, rank int) ([]bool, error) {
	list := c.attr.ints("axes")
	if name := c.input(input); name != "" {
		if list != nil {
			return nil, fmt.Errorf("attribute \"axes\": %w: given as an input too", ErrDuplicate)
		}
		var err error
		if list, err = c.integers(name); err != nil {
			return nil, err
		}
	}
	if list == nil {
		return nil, nil
	}
	axes := make([]bool, rank)
	for _, a := range list {
		if a < int64(-rank) || a >= int64(rank) {
			return nil, fmt.Errorf("axes %v: %w: rank %d", list, ErrAttribute, rank)
		}
		axes[(a+int64(rank))%int64(rank)] = true
	}
	return axes, nil
}

// spatial reports whether the selected axes are exactly height and width.
func (o order) spatial(axes []bool) bool {
	return len(axes) == 4 && !axes[0] && !axes[1+o.axisOf(0)] && axes[1+o.axisOf(1)] && axes[1+o.axisOf(2)]
}

// reduceMap adds a pool over height and width: the mean, or the maximum, which Keras exports for its global max pool.
func (c *call) reduceMap() error {
	if err := c.inputs(1, 2); err != nil {
		return err
	}
	v, err := c.elements(0)
	if err != nil {
		return err
	}
	axes, err := c.axes(1, len(c.viewOf(v).axes)+1)
	if err != nil {
		return err
	}
	keep := c.attr.int("keepdims", 1)
	c.attr.only("noop_with_empty_axes", 0)
	if err := c.attr.done(); err != nil {
		return err
	}
	op := opName(c.node)
	if op != "ReduceMax" {
		if done, err := c.channelMean(v, axes, keep != 0, op == "ReduceSum"); done || err != nil {
			return err
		}
	}
	if v, err = c.value(0); err != nil {
		return err
	}
	if !v.order.spatial(axes) || op == "ReduceSum" {
		over := "height and width"
		if op != "ReduceMax" {
			over = "channels, or " + over
		}
		var along []int
		for a, taken := range axes {
			if taken {
				along = append(along, a)
			}
		}
		return fmt.Errorf("%w: %s over axes %v of %v, which are other than %s", ErrUnsupported, op, along, v.order, over)
	}
	k := avgPool
	if op == "ReduceMax" {
		k = maxPool
	}
	if err := c.global(v, k); err != nil {
		return err
	}
	if keep == 0 {
		c.view(c.values[c.output()], 2)
	}
	return nil
}

// view sets the node's output to v with rank `rank`.
func (c *call) view(v value, rank int) {
	v.rank = rank
	if t := c.shapeOf(v); rank == 2 && t.h*t.w == 1 {
		v.order = nchw // all orders are equal here
	}
	c.values[c.output()] = v
}

// trains reports whether a BatchNormalization uses its input's statistics. Before opset 14, only such a node has
// several outputs.
func (c *call) trains() bool {
	return c.opset < 14 && slices.ContainsFunc(c.node.GetOutput()[1:], func(out string) bool { return out != "" })
}

func (c *call) batchNormalization() error {
	if err := c.inputs(5, 5); err != nil {
		return err
	}
	v, err := c.value(0)
	if err != nil {
		return err
	}
	epsilon := c.attr.float("epsilon", 1e-5)
	c.attr.float("momentum", 0) // used only in training
	c.attr.only("training_mode", 0)
	c.attr.only("spatial", 1)
	if err := c.attr.done(); err != nil {
		return err
	}
	if c.trains() {
		return fmt.Errorf("%w: a BatchNormalization of five outputs, which takes mean and variance of its own input, as in training", ErrUnsupported)
	}
	t := c.shapeOf(v)
	if v.rank == 2 && t.h*t.w != 1 {
		return fmt.Errorf("tensor %q: %w: normalisation of a flattened map", c.input(0), ErrUnsupported)
	}
	if v.order[0] != 0 {
		return fmt.Errorf("tensor %q: %w: its axes are %v, expected the channels behind the batch: a Transpose is missing before", c.input(0), ErrShape, v.order)
	}
	var p [4][]float32
	for i, r := range []role{gain, offset, mean, variance} {
		if _, p[i], err = c.weights(c.input(i+1), r, nil, t.c); err != nil {
			return err
		}
	}
	l := layer{kind: affine, scale: make([]float64, t.c), shift: make([]float64, t.c)}
	for i := range t.c {
		spread := float64(p[3][i]) + float64(epsilon)
		if !(spread > 0) || math.IsInf(spread, 0) {
			return fmt.Errorf("tensor %q: %w: variance %v and epsilon %v of channel %d", c.input(4), ErrValue, p[3][i], epsilon, i)
		}
		l.scale[i] = float64(p[0][i]) / math.Sqrt(spread)
		l.shift[i] = float64(p[1][i]) - float64(p[2][i])*l.scale[i]
	}
	return c.emit(l, v, t.h, t.w, t.c, false)
}

func (c *call) relu() error {
	if err := c.plain(1, 1); err != nil {
		return err
	}
	return c.bounded(0, float32(math.Inf(1)))
}

func (c *call) clip() error {
	if err := c.inputs(1, 3); err != nil {
		return err
	}
	if v := c.values[c.input(0)]; v.coded != nil {
		return c.clipCodes(v)
	}
	lo := c.attr.float("min", float32(math.Inf(-1)))
	hi := c.attr.float("max", float32(math.Inf(1)))
	var err error
	if name := c.input(1); name != "" {
		if lo, err = c.number(name); err != nil {
			return err
		}
	}
	if name := c.input(2); name != "" {
		if hi, err = c.number(name); err != nil {
			return err
		}
	}
	if err := c.attr.done(); err != nil {
		return err
	}
	return c.bounded(lo, hi)
}

func (c *call) bounded(lo, hi float32) error {
	const near = 1e-3 // distance of the bounds from 0 and 1; files have such a Clip before a logarithm
	if v := c.values[c.input(0)]; opName(c.node) == "Clip" && v.coded == nil && lo <= near && hi >= 1-near &&
		(slices.Contains(squashes, v.activation) || v.activation == "Softmax") {
		c.values[c.output()] = v
		return nil
	}
	v, err := c.elements(0)
	if err != nil {
		return err
	}
	if lo > hi {
		return fmt.Errorf("%w: bounds %v and %v, the lower one is above the upper", ErrAttribute, lo, hi)
	}
	if !(lo <= hi) || math.IsInf(float64(lo), 1) || math.IsInf(float64(hi), -1) {
		return fmt.Errorf("%w: bounds %v and %v", ErrValue, lo, hi)
	}
	// Frameworks export a missing bound as the lowest or the largest float32.
	if lo == -math.MaxFloat32 {
		lo = float32(math.Inf(-1))
	}
	if hi == math.MaxFloat32 {
		hi = float32(math.Inf(1))
	}
	t := c.shapeOf(v)
	if c.net.merged != nil && !c.net.apart[c.output()] && t.nonNegative && lo <= 0 && math.IsInf(float64(hi), 1) {
		c.net.called(v.tensor, c.output())
		c.values[c.output()] = v
		return nil
	}
	return c.emit(layer{kind: clamp, lo: lo, hi: hi}, v, t.h, t.w, t.c, lo >= 0 || t.nonNegative && hi >= 0)
}

func (c *call) add() error {
	if err := c.plain(2, 2); err != nil {
		return err
	}
	for i := range 2 {
		if c.constants[c.input(i)] != nil {
			return c.byConstant(1-i, i, offset, func(k float64) (float64, float64) { return 1, k })
		}
	}
	a, b, err := c.pair()
	if err != nil {
		return err
	}
	s, t := c.shapeOf(a), c.shapeOf(b)
	return c.emit(layer{kind: add, in: []int{a.tensor, b.tensor}}, a, s.h, s.w, s.c, s.nonNegative && t.nonNegative)
}

// pair returns two maps of the same shape and view. If one map has a single channel and the other has several, pair
// expands the single channel.
func (c *call) pair() (a, b value, err error) {
	for _, read := range []func(int) (value, error){c.elements, c.value} { // first with their views; if the views differ, as plain maps
		if a, err = read(0); err != nil {
			return
		}
		if b, err = read(1); err != nil {
			return
		}
		s, t := c.shapeOf(a), c.shapeOf(b)
		if s.h == t.h && s.w == t.w && s.c == t.c && fmt.Sprint(c.viewOf(a)) == fmt.Sprint(c.viewOf(b)) {
			return
		}
		for i, other := range []value{b, a} {
			whole, ok, err := c.widenedAs([]value{a, b}[i], other)
			if err != nil {
				return a, b, err
			}
			if ok && i == 0 {
				return whole, b, nil
			}
			if ok {
				return a, whole, nil
			}
		}
	}
	return a, b, fmt.Errorf("%w: %q is %v and %q is %v, or in other axes, expected the same", ErrShape, c.input(0), c.dims(a), c.input(1), c.dims(b))
}

func (c *call) sum() error {
	if err := c.plain(1, maxDim); err != nil {
		return err
	}
	return c.chain((*call).add)
}

// chain combines the inputs in pairs: the first two, then their result and the third, and so on.
func (c *call) chain(two func(*call) error) error {
	if len(c.node.GetInput()) == 1 {
		return c.alias()
	}
	so, last := c.input(0), len(c.node.GetInput())-1
	for i, next := range c.node.GetInput()[1:] {
		step := *c
		if i+1 < last { // a separate name for each step
			step.name = fmt.Sprintf("%s (%d)", c.name, i+1)
		}
		step.node = &onnxpb.NodeProto{Input: []string{so, next}, Output: c.node.GetOutput(), OpType: c.node.OpType}
		if err := two(&step); err != nil {
			return err
		}
		so = c.output()
	}
	return nil
}

func (c *call) sub() error {
	if !c.withConstant() {
		return c.difference()
	}
	if slices.Contains(squashes, c.values[c.input(1)].activation) && c.complement() { // 1 - sigmoid(x) is sigmoid(-x)
		if err := c.plain(2, 2); err != nil {
			return err
		}
		v, err := c.elements(1)
		if err == nil {
			v, err = c.scaled(v, slices.Repeat([]float64{-1}, c.shapeOf(v).c), "")
		}
		c.values[c.output()] = v
		return err
	}
	return c.arithmetic(offset, func(k float64) (float64, float64) { return 1, -k },
		func(k float64) (float64, float64) { return -1, k })
}

func (c *call) mul() error {
	if !c.withConstant() {
		return c.times(mul)
	}
	by := func(k float64) (float64, float64) { return k, 0 }
	return c.arithmetic(gain, by, by)
}

func (c *call) div() error {
	if !c.withConstant() {
		return c.times(div)
	}
	if c.constants[c.input(0)] != nil { // k / x: k * (1 / x)
		if err := c.plain(2, 2); err != nil {
			return err
		}
		one := c.own("reciprocal")
		reciprocal := &onnxpb.NodeProto{Name: &one, OpType: proto.String("Reciprocal"), Input: []string{c.input(1)}, Output: []string{one}}
		if err := c.lower(reciprocal); err != nil {
			return err
		}
		return c.lower(&onnxpb.NodeProto{Name: &c.name, OpType: proto.String("Mul"), Input: []string{one, c.input(0)}, Output: []string{c.output()}})
	}
	return c.arithmetic(gain, func(k float64) (float64, float64) { return 1 / k, 0 }, nil)
}

func (c *call) withConstant() bool {
	return c.constants[c.input(0)] != nil || c.constants[c.input(1)] != nil
}

// arithmetic lowers an operator on a map and a constant. If the constant is the second input, `behind` returns the
// factor and the shift; if it is the first, `before` does.
func (c *call) arithmetic(r role, behind, before func(k float64) (scale, shift float64)) error {
	if err := c.plain(2, 2); err != nil {
		return err
	}
	if c.constants[c.input(1)] != nil {
		return c.byConstant(0, 1, r, behind)
	}
	return c.byConstant(1, 0, r, before)
}

// byConstant combines map x with constant k, which has one element per channel or only one. The callback `of` converts
// an element to a factor and a shift.
func (c *call) byConstant(x, k int, r role, of func(k float64) (scale, shift float64)) error {
	if v, ok := c.values[c.input(x)]; ok && v.slice != nil {
		numbers, err := c.perChannel(c.input(k), r, v, 1)
		if err != nil {
			return err
		}
		scale, shift := of(numbers[0])
		v.slice = &slice{channel: v.slice.channel, scale: v.slice.scale * scale, shift: v.slice.shift*scale + shift}
		c.values[c.output()] = v
		return v.slice.check()
	}
	read := c.value
	if v := c.values[c.input(x)]; c.constants[c.input(k)].elems == 1 || v.view != nil && v.view.channelAxis(c.shapeOf(v).c) >= 0 {
		read = c.elements
	} else if wide, ok := c.widen(x, c.constants[c.input(k)].dims); ok {
		read = func(int) (value, error) { return wide, nil }
	}
	v, err := read(x)
	if err != nil {
		return err
	}
	t := c.shapeOf(v)
	if v.rank == 2 && t.h*t.w != 1 && c.constants[c.input(k)].elems != 1 {
		return fmt.Errorf("tensor %q: %w: a flattened map and a constant", c.input(x), ErrUnsupported)
	}
	numbers, err := c.perChannel(c.input(k), r, v, t.c)
	if err != nil {
		return err
	}
	l := layer{kind: affine, scale: make([]float64, t.c), shift: make([]float64, t.c)}
	for i, n := range numbers {
		s := slice{channel: i}
		s.scale, s.shift = of(n)
		if err := s.check(); err != nil {
			return fmt.Errorf("tensor %q: %w", c.input(k), err)
		}
		l.scale[i], l.shift[i] = s.scale, s.shift
	}
	return c.emit(l, v, t.h, t.w, t.c, t.nonNegative && slices.Min(l.scale) >= 0 && slices.Min(l.shift) >= 0)
}

func (s *slice) check() error {
	if x := s.scale + s.shift; math.IsNaN(x) || math.IsInf(x, 0) {
		return fmt.Errorf("%w: channel %d is scaled by %v and shifted by %v", ErrValue, s.channel, s.scale, s.shift)
	}
	return nil
}

// join lowers a Concat of all single channels of a map: the result is the map again, with their scales and shifts.
func (c *call) join(axis int64) error {
	whole := c.values[c.input(0)]
	t := c.shapeOf(whole)
	l := layer{kind: affine, scale: make([]float64, t.c), shift: make([]float64, t.c)}
	for i := range c.node.GetInput() {
		v := c.values[c.input(i)]
		if axis != 1 && axis != -3 || v.slice == nil || v.rank != 4 || v.tensor != whole.tensor || v.slice.channel != i || len(c.node.GetInput()) != t.c {
			return fmt.Errorf("tensor %q: %w: channels taken out of a map are joined only all of them, in their order and along axis 1", c.input(i), ErrUnsupported)
		}
		l.scale[i], l.shift[i] = v.slice.scale, v.slice.shift
	}
	return c.emit(l, value{tensor: whole.tensor, rank: 4, order: nchw}, t.h, t.w, t.c, false)
}

// perChannel reads one element per channel from a constant, whose elements must be equal along all other axes.
func (c *call) perChannel(name string, r role, v value, channels int) ([]float64, error) {
	k := c.constants[name]
	if k == nil {
		return nil, fmt.Errorf("tensor %q: %w: expected a constant", name, ErrUnsupported)
	}
	rank := v.rank
	if v.view != nil {
		rank = len(v.view.axes) + 1
	}
	at := rank - 1 - v.order.axisOf(0) // channel axis, counted from the end
	if v.view != nil {
		at = len(v.view.axes) - v.view.channelAxis(channels)
	}
	if rank == 2 {
		at = 1
	}
	if len(k.dims) > rank {
		return nil, fmt.Errorf("tensor %q: %w: %v, expected rank %d at most", name, ErrShape, k.dims, rank)
	}
	along := len(k.dims) - at // the constant's channel axis, if it has one
	varies := along >= 0 && k.dims[along] == channels
	for i, d := range k.dims { // an Expand may have broadcast the constant over the map
		if d != 1 && !(i == along && varies) && (rank == 2 || d != c.dims(v)[rank-len(k.dims)+i]) {
			return nil, fmt.Errorf("tensor %q: %w: %v, expected one number for each of %d channels", name, ErrShape, k.dims, channels)
		}
	}
	_, values, err := c.weights(name, r, nil, k.dims...)
	if err != nil {
		return nil, err
	}
	shift, p := slices.Repeat([]float64{math.NaN()}, channels), placesOf(k.dims)
	for i, v := range values {
		own := shift
		if varies {
			at := p.of(i)[along]
			own = shift[at : at+1]
		}
		if own[0] == own[0] && own[0] != float64(v) {
			return nil, fmt.Errorf("tensor %q: %w: %v, of numbers that differ from position to position; expected one for each of %d channels", name, ErrShape, k.dims, channels)
		}
		for i := range own {
			own[i] = float64(v)
		}
	}
	return shift, nil
}

func (c *call) gemm() error {
	if err := c.inputs(2, 3); err != nil {
		return err
	}
	alpha, beta := c.attr.float("alpha", 1), c.attr.float("beta", 1)
	transposed := c.attr.int("transB", 0) != 0
	c.attr.only("transA", 0)
	if err := c.attr.done(); err != nil {
		return err
	}
	for name, f := range map[string]float32{"alpha": alpha, "beta": beta} {
		if math.IsNaN(float64(f)) || math.IsInf(float64(f), 0) {
			return fmt.Errorf("attribute %q: %w: %v", name, ErrValue, f)
		}
	}
	v, l, size, err := c.fullyConnected(transposed)
	if err != nil {
		return err
	}
	if alpha != 1 {
		l.scale = make([]float64, size.c)
		for i := range l.scale {
			l.scale[i] = float64(alpha)
		}
	}
	if name := c.input(2); name != "" {
		if l.shift, err = c.perChannel(name, offset, value{rank: 2}, size.c); err != nil {
			return err
		}
		for i := range l.shift {
			l.shift[i] *= float64(beta)
		}
	}
	return c.emit(l, v, size.h, size.w, size.c, false)
}

func (c *call) matMul() error {
	if err := c.plain(2, 2); err != nil {
		return err
	}
	v, l, size, err := c.fullyConnected(false)
	if err != nil {
		return err
	}
	return c.emit(l, v, size.h, size.w, size.c, false)
}

// fullyConnected turns a matrix, [K][N] or transposed [N][K], into a convolution. For a flattened map, the kernel is as
// large as the map, and index K runs over the map's elements in ONNX's order. For a map with the channels as last axis,
// the kernel is 1 x 1.
func (c *call) fullyConnected(transposed bool) (v value, l layer, size shape, err error) {
	if v, err = c.value(0); err != nil {
		return
	}
	t := c.shapeOf(v)
	pixels := v.rank == 4 && v.order[2] == 0 && !transposed
	if v.rank != 2 && !pixels {
		err = fmt.Errorf("tensor %q: %w: rank %d, expected a flattened N x K", c.input(0), ErrShape, v.rank)
		return
	}
	size = shape{h: 1, w: 1}
	if pixels {
		size.h, size.w = t.h, t.w
		t.h, t.w = 1, 1
	}
	k := t.h * t.w * t.c
	var matrix *constant
	var values []float32
	if transposed {
		matrix, values, err = c.weights(c.input(1), kernel, func(d []int) int { return d[1] }, -1, k)
	} else {
		matrix, values, err = c.weights(c.input(1), kernel, func(d []int) int { return d[0] }, k, -1)
	}
	if err != nil {
		return
	}
	if transposed {
		size.c = matrix.dims[0]
	} else {
		size.c = matrix.dims[1]
		rows := make([]float32, len(values))
		for i, x := range values {
			rows[i%size.c*k+i/size.c] = x
		}
		values = rows
	}
	axis := int64(1)
	if transposed {
		axis = 0
	}
	l = layer{
		kind: conv, groups: 1, window: graph.Window{KH: t.h, KW: t.w, SH: 1, SW: 1}, steps: c.stepsOf(c.input(1), axis, size.c),
		weights: v.order.channelsLast(values, size.c, t.c, t.h, t.w),
	}
	return
}

// channelsLast converts n rows, each of which has its axes in order o, to [n][h][w][c].
func (o order) channelsLast(x []float32, n, c, h, w int) []float32 {
	if o == nchw {
		return channelsLast(x, n, c, h, w)
	}
	size := [3]int{c, h, w}
	y, at := make([]float32, len(x)), [3]int{}
	for i := range x {
		k := i
		for a := 2; a >= 0; a-- {
			at[o[a]] = k % size[o[a]]
			k /= size[o[a]]
		}
		y[((k*h+at[1])*w+at[2])*c+at[0]] = x[i]
	}
	return y
}

func (c *call) concat() error {
	if err := c.inputs(1, maxDim); err != nil {
		return err
	}
	axis := c.attr.int("axis", 1)
	if err := c.attr.done(); err != nil {
		return err
	}
	if v, ok := c.values[c.input(0)]; ok && v.slice != nil {
		return c.join(axis)
	}
	in, w, err := c.joined(axis, c.elements)
	if err != nil {
		if in, w, err = c.joined(axis, c.value); err != nil {
			return err
		}
	}
	size, nonNegative, inputs := c.shapeOf(in[0]), true, make([]int, len(in))
	size.c = 0
	for i, v := range in {
		t := c.shapeOf(v)
		size.c += t.c
		nonNegative = nonNegative && t.nonNegative
		inputs[i] = v.tensor
	}
	if len(in) == 1 {
		c.values[c.output()] = in[0]
		return nil
	}
	if err := c.emit(layer{kind: concat, in: inputs}, in[0], size.h, size.w, size.c, nonNegative); err != nil {
		return err
	}
	all := c.values[c.output()]
	all.activation = in[0].activation
	c.look(0, all, w)
	return nil
}

// joined reads the maps that a Concat joins. The axis must be their channels. Their views may differ only in the number
// of channels. The result `all` is the view of the concatenation.
func (c *call) joined(axis int64, read func(int) (value, error)) (in []value, all view, err error) {
	channels := 0
	for i := range c.node.GetInput() {
		v, err := read(i)
		if err != nil {
			return nil, all, err
		}
		t, w := c.shapeOf(v), c.viewOf(v)
		along, err := axisOf(axis, len(w.axes)+1)
		if err != nil {
			return nil, all, err
		}
		if along == 0 || !w.channels(along-1, t) {
			return nil, all, fmt.Errorf("attribute \"axis\": %w: %d of %v, only channels are concatenated", ErrAttribute, axis, c.dims(v))
		}
		channels += t.c
		if i == 0 {
			all = w
			all.axes = slices.Clone(w.axes)
		}
		if t, first := c.shapeOf(v), c.shapeOf(append(in, v)[0]); t.h != first.h || t.w != first.w {
			return nil, all, fmt.Errorf("tensor %q: %w: %d x %d, the first input is %d x %d", c.input(i), ErrShape, t.h, t.w, first.h, first.w)
		}
		all.axes[along-1], w.axes[along-1] = nil, nil
		if fmt.Sprint(all.axes) != fmt.Sprint(w.axes) {
			return nil, all, fmt.Errorf("tensor %q: %w: %v, the first input is %v", c.input(i), ErrShape, c.dims(v), c.dims(append(in, v)[0]))
		}
		all.axes[along-1] = []factor{{0, channels, 1}}
		in = append(in, v)
	}
	return in, all, nil
}

// channels reports whether an axis consists of all channels of a map, and only of them.
func (w view) channels(axis int, t shape) bool {
	if t.c == 1 { // any axis of size 1 can represent a single channel
		return len(w.axes[axis]) == 0
	}
	return slices.Equal(w.axes[axis], []factor{{0, t.c, 1}}) && w.whole(t)
}

// pads reads the amounts of a Pad: first those before each of the `rank` axes, and then those after each axis.
func (c *call) pads(rank int) (pads []int64, err error) {
	if mode := c.attr.string("mode", "constant"); mode != "constant" {
		return nil, fmt.Errorf("attribute \"mode\": %w: %q, only \"constant\" is supported", ErrAttribute, mode)
	}
	pads = c.attr.ints("pads")
	if name := c.input(1); name != "" {
		if pads, err = c.integers(name); err != nil {
			return nil, err
		}
	}
	if err := c.attr.done(); err != nil {
		return nil, err
	}
	if name := c.input(3); name != "" {
		if pads, err = c.padsOf(name, pads, rank); err != nil {
			return nil, err
		}
	}
	if len(pads) != 2*rank {
		return nil, fmt.Errorf("pads %v: %w: expected %d numbers, before and after each axis", pads, ErrAttribute, 2*rank)
	}
	for _, p := range pads {
		if p < -maxDim || p > maxDim {
			return nil, fmt.Errorf("pads %v: %w: expected numbers from %d to %d", pads, ErrAttribute, -maxDim, maxDim)
		}
	}
	return pads, nil
}

func (c *call) padding() error {
	if err := c.inputs(1, 4); err != nil {
		return err
	}
	v, err := c.padded(0)
	if err != nil {
		return err
	}
	if v.rank != 4 {
		return fmt.Errorf("tensor %q: %w: rank %d, expected N x C x H x W", c.input(0), ErrShape, v.rank)
	}
	fill := c.attr.float("value", 0)
	pads, err := c.pads(4)
	if err != nil {
		return err
	}
	if name := c.input(2); name != "" {
		if fill, err = c.number(name); err != nil {
			return err
		}
	}
	if slices.Min(pads) < 0 && pads[0]|pads[4] == 0 {
		if v, err = c.cropped(pads); err != nil {
			return err
		}
		pads = slices.Clone(pads)
		for i := range pads {
			pads[i] = max(pads[i], 0)
		}
	}
	of := func(which, end int) int { return int(pads[1+v.order.axisOf(which)+4*end]) }
	if pads[0]|pads[4] != 0 {
		return fmt.Errorf("pads %v: %w: only channels, height and width are padded", pads, ErrAttribute)
	}
	if of(0, 0)|of(0, 1) != 0 {
		if v.pad != nil {
			v, err = c.pixels(0, v)
		}
		if err == nil {
			v, err = c.moreChannels(v, of(0, 0), of(0, 1), fill)
		}
		if err != nil {
			return err
		}
	}
	added := pad{t: of(1, 0), l: of(2, 0), b: of(1, 1), r: of(2, 1), value: fill}
	if added.t|added.l|added.b|added.r == 0 {
		c.view(v, 4)
		return nil
	}
	if v.pad != nil {
		if v.pad.value != fill {
			return fmt.Errorf("tensor %q: %w: padding with %v around padding with %v", c.input(0), ErrUnsupported, fill, v.pad.value)
		}
		added.t, added.l, added.b, added.r = added.t+v.pad.t, added.l+v.pad.l, added.b+v.pad.b, added.r+v.pad.r
	}
	if max(added.t, added.l, added.b, added.r) > maxDim {
		return fmt.Errorf("pads %v: %w: more than %d with the padding before", pads, ErrTooLarge, maxDim)
	}
	v.pad = &added
	c.view(v, 4)
	return nil
}

// moreChannels uses a 1 x 1 convolution to add channels with a constant value before and after a map's channels.
func (c *call) moreChannels(v value, before, after int, fill float32) (value, error) {
	t := c.shapeOf(v)
	n := before + t.c + after
	if x := float64(fill); math.IsInf(x, 0) || math.IsNaN(x) {
		return v, fmt.Errorf("tensor %q: %w: channels of %v", c.input(0), ErrUnsupported, fill)
	}
	l := layer{name: c.own("channels"), kind: conv, groups: 1, in: []int{v.tensor}, window: graph.Window{KH: 1, KW: 1, SH: 1, SW: 1}}
	if c.budget -= int64(n) * int64(t.c); c.budget < 0 {
		return v, fmt.Errorf("tensor %q: %w: %d channels of %d make more than %d weights", c.input(0), ErrTooLarge, n, t.c, weightsOf(c.options))
	}
	l.weights, l.shift = make([]float32, n*t.c), slices.Repeat([]float64{float64(fill)}, n)
	for i := range t.c {
		l.weights[(before+i)*t.c+i], l.shift[before+i] = 1, 0
	}
	var err error
	if v.tensor, err = c.net.add(l, l.name, t.h, t.w, n); err != nil {
		return v, err
	}
	c.net.tensors[v.tensor].nonNegative = t.nonNegative && fill >= 0
	return v, nil
}

// cropped removes as many elements at each end of an axis as its negative pads require.
func (c *call) cropped(pads []int64) (value, error) {
	v, err := c.value(0)
	if err != nil {
		return v, err
	}
	w := c.viewOf(v)
	for axis, n := range w.sizes() {
		before, after := int(max(0, -pads[1+axis])), int(max(0, -pads[5+axis]))
		if before+after == 0 {
			continue
		}
		if n -= before + after; n < 1 {
			return v, fmt.Errorf("pads %v: %w: nothing is left of axis %d", pads, ErrShape, axis+1)
		}
		if v, w, err = c.cutAxis(v, w, axis, before, 1, n); err != nil {
			return v, err
		}
	}
	if v = c.seen(v, w); v.view == nil {
		return v, nil
	}
	return c.materialised(c.input(0), v)
}

// padsOf converts pads of the listed axes to pads of all axes.
func (c *call) padsOf(name string, some []int64, rank int) ([]int64, error) {
	axes, err := c.integers(name)
	if err != nil {
		return nil, err
	}
	if len(some) != 2*len(axes) {
		return nil, fmt.Errorf("pads %v: %w: expected %d numbers, before and after the axes %v", some, ErrAttribute, 2*len(axes), axes)
	}
	pads, seen := make([]int64, 2*rank), make([]bool, rank)
	for i, a := range axes {
		at, err := axisOf(a, rank)
		if err != nil || seen[at] {
			return nil, fmt.Errorf("tensor %q: %w: axes %v, expected different ones from %d to %d", name, ErrAttribute, axes, -rank, rank-1)
		}
		seen[at] = true
		pads[at], pads[rank+at] = some[i], some[i+len(axes)]
	}
	return pads, nil
}

// alias lowers an operator that returns its input: Identity, or Dropout in inference.
func (c *call) alias() error {
	if err := c.inputs(1, 3); err != nil {
		return err
	}
	if opName(c.node) == "Dropout" {
		c.attr.float("ratio", 0)
		c.attr.int("seed", 0)
		c.attr.only("is_test", 1)
		if name := c.input(2); name != "" {
			switch training, err := c.truth(name); {
			case err != nil:
				return err
			case training:
				return fmt.Errorf("tensor %q: %w: a Dropout with training_mode", name, ErrUnsupported)
			}
		}
	}
	if err := c.attr.done(); err != nil {
		return err
	}
	if k := c.constants[c.input(0)]; k != nil {
		c.constants[c.output()] = k
		c.keepSteps(func(a int) int { return a })
		return nil
	}
	if v, ok := c.values[c.input(0)]; ok {
		c.values[c.output()] = v // a pending Pad, Softmax or Sigmoid stays pending
		return nil
	}
	_, err := c.value(0)
	return err
}

func (c *call) flatten() error {
	if err := c.inputs(1, 1); err != nil {
		return err
	}
	at := c.attr.int("axis", 1)
	if err := c.attr.done(); err != nil {
		return err
	}
	v, w, err := c.seenInput(0)
	if err != nil {
		return err
	}
	if at != 1 && at != -int64(len(w.axes)) {
		return fmt.Errorf("attribute \"axis\": %w: %d, only 1 is supported", ErrAttribute, at)
	}
	w.axes = [][]factor{slices.Concat(w.axes...)}
	c.look(0, v, w)
	return nil
}

func (c *call) reshape() error {
	v, w, err := c.seenInput(0)
	if err != nil {
		return err
	}
	target, err := c.target()
	if err != nil {
		return err
	}
	have := c.dims(v)
	sizes, err := target(have)
	if err != nil {
		return err
	}
	if len(sizes) == 0 || sizes[0] != have[0] {
		return fmt.Errorf("tensor %q: %w: %v to %v, which moves the batch", c.input(0), ErrShape, have, sizes)
	}
	if err := rankOf(c.input(0), len(sizes)); err != nil {
		return err
	}
	out, ok := w.reshaped(sizes[1:])
	if !ok { // the change of sizes may be possible after a copy of the view to a map
		if v.view != nil {
			if v, err = c.materialised(c.input(0), v); err != nil {
				return err
			}
		}
		if out, ok = c.viewOf(v).reshaped(sizes[1:]); !ok {
			return fmt.Errorf("tensor %q: %w: %v to %v, whose axes are no whole parts of the map's", c.input(0), ErrShape, have, sizes)
		}
	}
	c.look(0, v, out)
	return nil
}

func (c *call) softmax() error {
	if err := c.inputs(1, 1); err != nil {
		return err
	}
	absent := int64(1)
	if c.opset >= 13 {
		absent = -1
	}
	axis := c.attr.int("axis", absent)
	if err := c.attr.done(); err != nil {
		return err
	}
	v, err := c.elements(0)
	if err != nil {
		return err
	}
	w := c.viewOf(v)
	along, err := axisOf(axis, len(w.axes)+1)
	if err != nil {
		return err
	}
	if t := c.shapeOf(v); along == 0 || len(w.axes) > 1 && !w.channels(along-1, t) {
		return fmt.Errorf("attribute \"axis\": %w: %d, expected the classes' axis", ErrAttribute, axis)
	}
	if c.opset < 13 { // the operator normalises jointly over this axis and all later ones
		for _, n := range w.sizes()[along:] {
			if n > 1 {
				return fmt.Errorf("%w: %s of %v before opset 13 normalises over all axes from %d on; export with opset 13 or newer", ErrUnsupported, opName(c.node), w.sizes(), along)
			}
		}
	}
	v.activation = opName(c.node)
	c.values[c.output()] = v
	return nil
}

func (c *call) sigmoid() error {
	if err := c.plain(1, 1); err != nil {
		return err
	}
	v, err := c.elements(0)
	if err != nil {
		return err
	}
	if c.computes(c.node) {
		if err := c.byFunction(&graph.Function{Name: "Sigmoid"}); err != nil {
			return err
		}
		c.logits[c.values[c.output()].tensor] = v.tensor // used if the Sigmoid is also an output
		return nil
	}
	v.activation = opName(c.node)
	c.values[c.output()] = v
	return nil
}
