package onnx

import (
	"container/heap"
	"fmt"
	"io/fs"
	"math"
	"slices"

	"github.com/sluice-npu/sluice/dse/graph"
	"github.com/sluice-npu/sluice/dse/onnx/onnxpb"
)

// value describes a feature map during lowering, and the shape of the ONNX tensor with its elements.
type value struct {
	tensor     int // index in the fused network
	rank       int // 4: N x C x H x W; 2: N x (C*H*W)
	order      order
	view       *view        // the view, if rank and order cannot describe it
	pad        *pad         // padding that is not yet applied
	bytes      bool         // the elements are integers in the file and must be converted to floats before any computation
	coded      *graph.Scale // scale, if the elements are codes of a quantised file
	kind       int32        // type of the codes
	activation string       // a pending Softmax, Sigmoid or similar function: allowed before an output, but not before a computation (computed)
	slice      *slice
}

// order gives the map's axis (0: C, 1: H, 2: W) for each of ONNX's axes after the batch; for a flattened map, in the
// order of flattening. The channels are always last in memory, so a Transpose needs no computation.
type order [3]int

var (
	nchw = order{0, 1, 2}
	nhwc = order{1, 2, 0}
)

func (o order) axisOf(which int) int { return slices.Index(o[:], which) }

// slice describes a single channel of a map as a tensor N x H x W; scale and shift are the later operations on it.
type slice struct {
	channel      int
	scale, shift float64
}

// pad is a pending Pad: the next convolution or pool applies it.
type pad struct {
	t, l, b, r int
	value      float32
}

type importer struct {
	options   Options
	graph     *onnxpb.GraphProto
	opset     int64
	batch     int64 // batch size that a Shape returns
	seeded    bool
	budget    int64 // number of weights that may still be created
	folding   int64 // number of elements that may still be computed from constants
	outside   outside
	constants map[string]*constant
	values    map[string]value
	names     map[string]bool // names of the file's tensors and nodes
	inner     map[string]bool // tensors that are read by nodes needed for an exit
	inside    map[string]bool // tensors of inner that a node uses in a computation, not only in a reshape (look)
	exits     []string
	made      map[string]value     // copies of views, as maps
	steps     map[string]codeSteps // by name: steps of constants that a DequantizeLinear has computed
	rounded   map[rounding]int     // outputs of QuantizeLinear on maps
	logits    map[int]int          // input tensor of a Sigmoid that is a layer, by its output tensor
	posts     map[string]int       // number of nodes that need the post stage, by operator
	net       fused
}

func newImporter(model *onnxpb.ModelProto, o Options) (*importer, error) {
	im := &importer{
		options:   o,
		graph:     model.GetGraph(),
		exits:     exitsOf(model.GetGraph(), o),
		budget:    weightsOf(o),
		folding:   weightsOf(o),
		outside:   outside{dir: o.External, files: map[string]fs.File{}, left: o.MaxBytes},
		constants: map[string]*constant{},
		values:    map[string]value{},
		made:      map[string]value{},
		steps:     map[string]codeSteps{},
		rounded:   map[rounding]int{},
		names:     map[string]bool{},
		inner:     map[string]bool{},
		inside:    map[string]bool{},
		logits:    map[int]int{},
		posts:     map[string]int{},
	}
	if im.graph == nil || len(im.graph.GetNode()) == 0 {
		return nil, fmt.Errorf("%w: there is no graph in it, or no node in the graph", ErrFormat)
	}
	if n := len(im.graph.GetNode()); n > maxNodes {
		return nil, fmt.Errorf("%w: %d nodes, at most %d are supported", ErrTooLarge, n, maxNodes)
	}
	for _, set := range model.GetOpsetImport() {
		if d := set.GetDomain(); d == "" || d == "ai.onnx" {
			im.opset = set.GetVersion()
		}
	}
	if im.opset < 7 {
		return nil, fmt.Errorf("%w: opset %d of the standard operators, expected 7 or later; onnx.version_converter.convert_version(model, 13) in Python rewrites it, as does another export", ErrFormat, im.opset)
	}
	for _, p := range model.GetMetadataProps() {
		if p.GetKey() != "sluice.weights" {
			continue
		}
		if p.GetValue() != "seeded" {
			return nil, fmt.Errorf("%w: metadata says sluice.weights = %q, expected \"seeded\"", ErrFormat, p.GetValue())
		}
		im.seeded = true
	}
	for _, n := range im.graph.GetNode() {
		if len(n.GetOutput()) == 0 {
			return nil, fmt.Errorf("node %s: %w: it has no output", describe(n), ErrMissing)
		}
		im.names[nodeName(n)] = true
		for _, name := range slices.Concat(n.GetInput(), n.GetOutput()) {
			im.names[name] = true
		}
	}
	if err := im.readInitializers(); err != nil {
		return nil, err
	}
	if err := im.readInput(o.InputSide); err != nil {
		return nil, err
	}
	return im, checkExitNames(im.exits)
}

func (im *importer) readInitializers() error {
	if len(im.graph.GetSparseInitializer()) > 0 {
		return fmt.Errorf("%w: sparse initializers", ErrUnsupported)
	}
	seen := map[string]bool{}
	for _, t := range im.graph.GetInitializer() {
		if t.GetName() == "" {
			return fmt.Errorf("%w: an initializer has no name", ErrMissing)
		}
		if seen[t.GetName()] {
			return fmt.Errorf("initializer %q: %w", t.GetName(), ErrDuplicate)
		}
		seen[t.GetName()] = true
	}
	return nil
}

func (im *importer) input() (input *onnxpb.ValueInfoProto, err error) {
	isWeight := map[string]bool{}
	for _, t := range im.graph.GetInitializer() {
		isWeight[t.GetName()] = true
	}
	for _, v := range im.graph.GetInput() {
		// A file before IR version 4 lists initializers as inputs too.
		if isWeight[v.GetName()] {
			continue
		}
		if input != nil {
			return nil, fmt.Errorf("%w: inputs %q and %q, a network has one", ErrUnsupported, input.GetName(), v.GetName())
		}
		input = v
	}
	if input == nil || input.GetName() == "" {
		return nil, fmt.Errorf("%w: the graph has no input", ErrMissing)
	}
	return input, nil
}

// readInput reads the input's shape. If side is not zero, it replaces height and width.
func (im *importer) readInput(side Side) error {
	input, err := im.input()
	if err != nil {
		return err
	}
	name := input.GetName()
	tensor := input.GetType().GetTensorType()
	if tensor == nil || tensor.GetShape() == nil {
		return fmt.Errorf("input %q: %w: expected a tensor with a shape", name, ErrShape)
	}
	kind := tensor.GetElemType()
	if kind != typeFloat && kind != typeFloat16 && kind != typeDouble && kind != typeUint8 {
		return fmt.Errorf("input %q: %w %d; supported are 1 (float), 2 (uint8), 10 (float16), 11 (double)", name, ErrType, kind)
	}
	im.net.bytes = kind == typeUint8
	dims := tensor.GetShape().GetDim()
	if len(dims) != 4 && len(dims) != 2 {
		return fmt.Errorf("input %q: %w: rank %d, expected N x C x H x W or N x C", name, ErrShape, len(dims))
	}
	if side != (Side{}) && len(dims) != 4 {
		return fmt.Errorf("input %q: %w: rank %d has no height and width to replace", name, ErrShape, len(dims))
	}
	im.batch = max(dims[0].GetDimValue(), 1)
	axes := nchw
	if len(dims) == 4 && im.channelsLast(name) {
		axes, im.net.channelsLast = nhwc, true
	}
	size := [3]int{1, 1, 1} // C, H, W
	for i, d := range dims[1:] {
		v := d.GetDimValue()
		if side != (Side{}) && axes[i] > 0 {
			v = int64([]int{side.H, side.W}[axes[i]-1])
		}
		_, number := d.GetValue().(*onnxpb.TensorShapeProto_Dimension_DimValue)
		if v == 0 && !(number && axes[i] == 0) { // the dimension has a name instead of a number, or is open
			return open(name, d.GetDimParam(), i+1, number, axes[i] > 0)
		}
		if v < 1 || v > maxDim {
			return fmt.Errorf("input %q: %w: dimension %d is %d, expected a number from 1 to %d", name, ErrShape, i+1, v, maxDim)
		}
		size[axes[i]] = int(v)
	}
	t, err := im.net.tensor(name, size[1], size[2], size[0])
	if err != nil {
		return fmt.Errorf("input %q: %w", name, err)
	}
	if im.net.bytes { // the input's elements are codes
		im.net.tensors[t].scale = &graph.Scale{Step: 1, Zero: math.MinInt8}
	}
	im.values[name] = value{tensor: t, rank: len(dims), order: axes, bytes: im.net.bytes}
	return nil
}

// open returns the error for a dimension of unknown size. Some exporters write 0 for an unknown height or width.
func open(name, called string, dim int, number, side bool) error {
	switch {
	case called != "":
		called = fmt.Sprintf(" (%q)", called)
	case number:
		called = " (0)"
	}
	if side {
		return fmt.Errorf("input %q: %w: dimension %d is %w%s; --input-side says how many pixels high and wide the input is", name, ErrShape, dim, ErrOpenSide, called)
	}
	return fmt.Errorf("input %q: %w: dimension %d is open%s", name, ErrShape, dim, called)
}

// live returns the nodes that exits need, in topological order.
func (im *importer) live() ([]*onnxpb.NodeProto, error) {
	nodes := im.graph.GetNode()
	weights := make(map[string]*onnxpb.TensorProto, len(im.graph.GetInitializer()))
	for _, t := range im.graph.GetInitializer() {
		weights[t.GetName()] = t
	}
	producer := map[string]int{}
	for i, n := range nodes {
		for _, out := range n.GetOutput() {
			if out == "" {
				continue
			}
			_, twice := producer[out]
			if _, isInput := im.values[out]; twice || isInput || weights[out] != nil {
				return nil, fmt.Errorf("node %s: tensor %q: %w", describe(n), out, ErrDuplicate)
			}
			producer[out] = i
		}
	}
	known := func(name string) bool {
		_, isInput := im.values[name]
		return isInput || weights[name] != nil
	}
	needed := make([]bool, len(nodes))
	var stack []int
	for _, exit := range im.exits {
		p, ok := producer[exit]
		if !ok {
			return nil, fmt.Errorf("%w: no node produces %q", ErrExits, exit)
		}
		stack = append(stack, p)
	}
	for len(stack) > 0 {
		i := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if needed[i] {
			continue
		}
		needed[i] = true
		n := nodes[i]
		for _, a := range n.GetAttribute() {
			if a.GetG() != nil || len(a.GetGraphs()) > 0 ||
				a.GetType() == onnxpb.AttributeProto_GRAPH || a.GetType() == onnxpb.AttributeProto_GRAPHS {
				return nil, fmt.Errorf("node %s: attribute %q: %w", describe(n), a.GetName(), ErrSubgraph)
			}
		}
		for _, in := range n.GetInput() {
			im.inner[in] = true
			if p, ok := producer[in]; ok {
				stack = append(stack, p)
			} else if in != "" && !known(in) {
				return nil, fmt.Errorf("node %s: %w: tensor %q is no initializer, input or output of a node",
					describe(n), ErrMissing, in)
			}
		}
	}
	order, err := sortNodes(nodes, needed, producer)
	if err != nil {
		return nil, err
	}
	if err := im.afford(order, weights); err != nil {
		return nil, err
	}
	im.look(order)
	return order, nil
}

// look finds the tensors that are used in computations. The host can compute the Sigmoid of any other tensor, because
// only operators of the list ofSigmoids follow.
func (im *importer) look(order []*onnxpb.NodeProto) {
	still := map[string]bool{}
	for _, n := range order {
		in, op := n.GetInput(), opName(n)
		keeps := slices.Contains(squashes, op)
		switch {
		case op == "Concat":
			keeps = !slices.ContainsFunc(in, func(name string) bool { return !still[name] })
		case op == "Sub":
			keeps = len(in) == 2 && still[in[1]]
		case slices.Contains(ofSigmoids, op):
			keeps = len(in) > 0 && still[in[0]]
		}
		for _, out := range n.GetOutput() {
			still[out] = keeps
		}
	}
	for _, n := range slices.Backward(order) {
		out, op := n.GetOutput(), opName(n)
		if op == "Shape" || still[out[0]] && !slices.Contains(squashes, op) && !im.computes(n) {
			continue
		}
		for _, in := range n.GetInput() {
			im.inside[in] = true
		}
	}
}

// quantised reports whether a node rounds a map to codes. A node that rounds only constants does not count. The
// parameter order lists the nodes topologically.
func (im *importer) quantised(order []*onnxpb.NodeProto) bool {
	maps := map[string]bool{}
	for name := range im.values {
		maps[name] = true
	}
	for _, n := range order {
		if !slices.ContainsFunc(n.GetInput(), func(in string) bool { return maps[in] }) || opName(n) == "Shape" {
			continue
		}
		if opName(n) == "QuantizeLinear" {
			return true
		}
		for _, out := range n.GetOutput() {
			maps[out] = true
		}
	}
	return false
}

func (im *importer) readConstants(order []*onnxpb.NodeProto) error {
	weights := make(map[string]*onnxpb.TensorProto, len(im.graph.GetInitializer()))
	for _, t := range im.graph.GetInitializer() {
		weights[t.GetName()] = t
	}
	for _, n := range order {
		for _, in := range n.GetInput() {
			t := weights[in]
			if t == nil || im.constants[in] != nil {
				continue
			}
			c, err := newConstant(in, t, im.seeded, &im.outside)
			if err != nil {
				return fmt.Errorf("node %s: %w", describe(n), err)
			}
			im.constants[in] = c
		}
	}
	return nil
}

// weightsOf returns the limit for the number of weights: the number of float32 values in a file of the maximum size.
func weightsOf(o Options) int64 { return max(o.MaxBytes/4, 1) }

// afford adds up the weights that nodes will copy, and checks the limit before any weight is read or drawn. The limit
// is needed because a small file may use one initializer many times, or need random weights.
func (im *importer) afford(order []*onnxpb.NodeProto, weights map[string]*onnxpb.TensorProto) error {
	limit := weightsOf(im.options)
	total := int64(0)
	for _, n := range order {
		for _, in := range n.GetInput() {
			t := weights[in]
			if t == nil || whole(t.GetDataType()) {
				continue
			}
			elems := int64(1)
			for _, d := range t.GetDims() {
				switch {
				case d < 0: // reported as an error when the tensor is read
					elems = 0
				case d > 0 && elems > limit/d:
					elems = limit + 1
				case elems <= limit:
					elems *= d
				}
			}
			if total += elems; total > limit {
				return fmt.Errorf("node %s: tensor %q: %w: the network has more than %d weights", describe(n), in, ErrTooLarge, limit)
			}
		}
	}
	return nil
}

// sortNodes sorts the needed nodes topologically. If several orders are possible, it uses the file's order.
func sortNodes(nodes []*onnxpb.NodeProto, needed []bool, producer map[string]int) ([]*onnxpb.NodeProto, error) {
	waits := make([]int, len(nodes))
	readers := make([][]int, len(nodes))
	ready, count := &intHeap{}, 0
	for i, n := range nodes {
		if !needed[i] {
			continue
		}
		count++
		for _, in := range n.GetInput() {
			if p, ok := producer[in]; ok {
				waits[i]++
				readers[p] = append(readers[p], i)
			}
		}
		if waits[i] == 0 {
			heap.Push(ready, i)
		}
	}
	order := make([]*onnxpb.NodeProto, 0, count)
	for ready.Len() > 0 {
		i := heap.Pop(ready).(int)
		order = append(order, nodes[i])
		for _, r := range readers[i] {
			if waits[r]--; waits[r] == 0 {
				heap.Push(ready, r)
			}
		}
	}
	if len(order) == count {
		return order, nil
	}
	for i, n := range nodes {
		if needed[i] && waits[i] > 0 {
			return nil, fmt.Errorf("node %s: %w: it waits for itself or for nodes that do", describe(n), ErrCycle)
		}
	}
	return nil, ErrCycle
}

type intHeap []int

func (h intHeap) Len() int           { return len(h) }
func (h intHeap) Less(i, j int) bool { return h[i] < h[j] }
func (h intHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *intHeap) Push(x any)        { *h = append(*h, x.(int)) }
func (h *intHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}

// weights returns a constant's values and checks that they are finite. It also checks the dimensions (-1: any). If the
// model has no values, weights draws them from the seed. The callback fanIn returns the number of inputs of one output.
func (im *importer) weights(name string, r role, fanIn func(dims []int) int, dims ...int) (*constant, []float32, error) {
	c := im.constants[name]
	if c == nil {
		if name == "" {
			return nil, nil, fmt.Errorf("%w: an input that must be a constant", ErrMissing)
		}
		return nil, nil, fmt.Errorf("tensor %q: %w: expected an initializer or a constant", name, ErrUnsupported)
	}
	if len(dims) != len(c.dims) {
		return nil, nil, fmt.Errorf("tensor %q: %w: rank %d %v, expected rank %d", name, ErrShape, len(c.dims), c.dims, len(dims))
	}
	for i, want := range dims {
		if c.dims[i] < 1 || want >= 0 && c.dims[i] != want {
			return nil, nil, fmt.Errorf("tensor %q: %w: %v, expected %s", name, ErrShape, c.dims, wanted(dims))
		}
	}
	if !c.readable() {
		return nil, nil, c.errType()
	}
	// Each layer that uses an initializer has its own copy.
	if im.budget -= int64(c.elems); im.budget < 0 {
		return nil, nil, fmt.Errorf("tensor %q: %w: the network has more than %d weights",
			name, ErrTooLarge, weightsOf(im.options))
	}
	if im.seeded && c.absent() {
		n := 1
		if fanIn != nil {
			n = fanIn(c.dims)
		}
		return c, c.draw(im.options, r, n), nil
	}
	values, err := c.floats()
	if err != nil {
		return nil, nil, err
	}
	return c, values, c.finite(values)
}

func wanted(dims []int) string {
	s := "["
	for i, d := range dims {
		if i > 0 {
			s += " "
		}
		if d < 0 {
			s += "any"
		} else {
			s += fmt.Sprint(d)
		}
	}
	return s + "]"
}

// number returns a scalar constant, which may be infinite.
func (im *importer) number(name string) (float32, error) {
	c := im.constants[name]
	if c == nil {
		return 0, fmt.Errorf("tensor %q: %w: expected a constant", name, ErrUnsupported)
	}
	if c.elems != 1 {
		return 0, fmt.Errorf("tensor %q: %w: %v, expected one number", name, ErrShape, c.dims)
	}
	v, err := c.floats()
	if err != nil {
		return 0, err
	}
	return v[0], nil
}

// integers returns the elements of an int32 or int64 constant.
func (im *importer) integers(name string) ([]int64, error) {
	c := im.constants[name]
	if c == nil {
		return nil, fmt.Errorf("tensor %q: %w: expected a constant", name, ErrUnsupported)
	}
	if c.kind != typeInt64 && c.kind != typeInt32 {
		return nil, fmt.Errorf("tensor %q: %w %d, expected 6 (int32) or 7 (int64)", name, ErrType, c.kind)
	}
	return c.ints, nil
}

func (im *importer) truth(name string) (bool, error) {
	c := im.constants[name]
	if c == nil {
		return false, fmt.Errorf("tensor %q: %w: expected a constant", name, ErrUnsupported)
	}
	if c.kind != typeBool {
		return false, fmt.Errorf("tensor %q: %w %d, expected 9 (bool)", name, ErrType, c.kind)
	}
	if len(c.ints) != 1 {
		return false, fmt.Errorf("tensor %q: %w: %v, expected one value", name, ErrData, c.dims)
	}
	return c.ints[0] != 0, nil
}
