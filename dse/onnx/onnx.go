// Package onnx reads a network from an ONNX file (specification 1.16, opset 7 and later; see
// onnxpb) and folds it into the few operators of package graph: one fused layer per convolution,
// NHWC, without the batch.
//
//   - Shapes follow from the graph's input, N x C x H x W, or N x H x W x C if a Transpose of the input implies that; N
//     may be anything.
//   - Operations on constants are computed at import (fold.go). A Transpose only changes the order of a map's axes; in
//     memory, channels are always last.
//   - BatchNormalization is folded, in float64, into the convolution before it or, if that is exact, into the one after
//     it. Otherwise it becomes a depthwise 1x1 convolution, and so does an activation that cannot become part of the
//     layer before it.
//   - Relu and Clip become clamps. Pad becomes the padding of the next layer, or pixels if that layer cannot pad in this
//     way. Flatten and Reshape change the view of a map: a fully connected layer on a map becomes a convolution as large
//     as the map.
//   - Slice, Split, Gather, Reshape, Transpose, Squeeze and Unsqueeze change the view of a map (view.go). A reader that
//     needs channels, rows and columns copies the view to a map first.
//   - A dilated kernel gets additional taps of weight 0.
//   - An Add becomes the residual of the convolution before it, if that has no other reader. If it adds two such
//     convolutions, it becomes the residual of the later one. Two convolutions of the same tensor that are added become
//     one convolution, if that is no larger and loses no precision.
//   - Arithmetic with constants per channel is treated like a normalisation. Channels that are separated one by one may
//     only be combined again (torchvision's transform_input).
//   - With Options.Post, a function of a map (curve.go), such as a Sigmoid or an equivalent group of operators, becomes
//     part of the convolution or sum before it, and two maps may be multiplied.
//   - Equal layers are merged. All forms of a norm over channels are rewritten to one (norm.go).
//   - A Concat that begins with all inputs of an earlier one reads that one instead.
//   - Softmax or Sigmoid before an output is left to the host. Nodes that no exit needs are dropped.
//
// A file is untrusted input. Each error wraps one of the sentinels below, and names file, node and tensor.
package onnx

import (
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/sluice-npu/sluice/dse/graph"
	"github.com/sluice-npu/sluice/dse/onnx/onnxpb"
	"github.com/sluice-npu/sluice/hw/abi"
)

// Errors of Import.
var (
	ErrFormat      = errors.New("not a complete ONNX model")
	ErrTooLarge    = errors.New("too large")
	ErrCycle       = errors.New("the graph has a cycle")
	ErrDuplicate   = errors.New("defined twice")
	ErrMissing     = errors.New("missing")
	ErrShape       = errors.New("wrong shape")
	ErrOpenSide    = errors.New("open") // the input's height or width has no number
	ErrType        = errors.New("unsupported element type")
	ErrData        = errors.New("wrong amount of data")
	ErrExternal    = errors.New("data outside the file cannot be read")
	ErrValue       = errors.New("not a finite number")
	ErrSubgraph    = errors.New("sub-graphs are not supported")
	ErrAttribute   = errors.New("wrong or unsupported attribute")
	ErrUnsupported = errors.New("unsupported")
	ErrExits       = errors.New("the exits are wrong")

	errSame = fmt.Errorf("%w: the same tensor", ErrExits)
)

// Limits that are not options: far above what the NPU can run, and far below an overflow.
const (
	defaultMaxBytes = 1 << 30 // VGG-19 has 575 MB of weights
	maxNodes        = 20000
	maxExits        = 64
	maxDim          = 1<<16 - 1
	maxElems        = 1 << 28 // of a tensor, and of all maps of a sample
	maxChannels     = 1 << 22 // of all maps: DenseNet-201 has 0.1 million
)

// Options of an import; the zero value is useful.
type Options struct {
	Name       string            // of the network, and for errors; the graph's own name if empty
	Exits      []string          // tensors that are exits; all outputs of the graph if empty
	Confidence map[string]string // by tensor: the exit's confidence measure (graph.Confidences)
	WeightSeed uint64            // for models whose metadata says sluice.weights = seeded
	InputSide  Side              // replaces the input's height and width
	Post       bool              // for designs with the post stage: allows curves, and products of two maps
	Gates      bool              // with Post: functions x * g(x), such as SiLU, become a curve of g and a product, not one curve
	MaxBytes   int64             // limit for the file, and for the data outside it; the limit for weights is a quarter of it; 1 GiB if 0
	External   fs.FS             // folder of data outside the file; nil: such data is an error

	gates  int             // with Gates: maximum number of such functions
	apart  map[string]bool // tensors that must not be merged with equal ones
	survey bool            // the values of weights do not matter
}

// Import reads a model. Exits are sorted by depth.
func Import(r io.Reader, o Options) (*graph.Graph, error) {
	g, err := importModel(r, o)
	if err != nil {
		name := o.Name
		if name == "" {
			name = "onnx"
		}
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return g, nil
}

// ImportFile reads a model from a file. The network has the file's name, unless the options name it. Data outside the
// file may be in its folder.
func ImportFile(path string, o Options) (*graph.Graph, error) {
	if o.Name == "" {
		o.Name = strings.TrimSuffix(filepath.Base(path), ".onnx")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("network %s: %w", o.Name, err)
	}
	defer f.Close()
	if o.External == nil {
		dir, err := os.OpenRoot(filepath.Dir(path))
		if err != nil {
			return nil, fmt.Errorf("network %s: %w", o.Name, err)
		}
		defer dir.Close()
		o.External = dir.FS()
	}
	g, err := importModel(f, o)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return g, nil
}

// read is parse without unknown fields.
func read(r io.Reader, o *Options) (*onnxpb.ModelProto, error) {
	model, _, err := parse(r, o, proto.UnmarshalOptions{DiscardUnknown: true})
	return model, err
}

// parse reads a model of limited size. It makes all names printable, also those in the options.
func parse(r io.Reader, o *Options, how proto.UnmarshalOptions) (m *onnxpb.ModelProto, renamed bool, err error) {
	if o.MaxBytes <= 0 {
		o.MaxBytes = defaultMaxBytes
	}
	content, err := io.ReadAll(io.LimitReader(r, o.MaxBytes+1))
	if err != nil {
		return nil, false, fmt.Errorf("reading: %w", err)
	}
	if int64(len(content)) > o.MaxBytes {
		return nil, false, fmt.Errorf("%w: more than the %d bytes allowed", ErrTooLarge, o.MaxBytes)
	}
	model := &onnxpb.ModelProto{}
	if err := how.Unmarshal(content, model); err != nil {
		return nil, false, fmt.Errorf("%w (%d bytes): %v", ErrFormat, len(content), err)
	}
	o.Name = printable(o.Name)
	o.Exits = slices.Clone(o.Exits)
	for i, x := range o.Exits {
		o.Exits[i] = printable(x)
	}
	return model, rename(model), nil
}

func importModel(r io.Reader, o Options) (*graph.Graph, error) {
	model, err := read(r, &o)
	if err != nil {
		return nil, err
	}
	with := o
	o.Gates = false
	g, err := lowered(model, o)
	if err != nil || !with.Gates || !with.Post {
		return g, err
	}
	layers := 0
	for i := range g.Nodes {
		if n := &g.Nodes[i]; n.Op != graph.Concat && n.Op != graph.Reshape {
			layers++
		} else if in := slices.Sorted(slices.Values(n.Inputs)); n.Op == graph.Concat {
			layers += len(in) - len(slices.Compact(in)) // copies
		}
	}
	// The first functions become gates, because their errors pass through all later layers. A gate needs two more layers.
	// The compiler, which copies maps and splits sums, may add a quarter of the network's layers (TinyNet-A: 33 to 137).
	with.gates = max(0, abi.LMax-layers-layers/4) / 2
	return lowered(model, with)
}

// lowered returns the network of a model.
func lowered(model *onnxpb.ModelProto, o Options) (*graph.Graph, error) {
	im, err := newImporter(model, o)
	if err != nil {
		return nil, err
	}
	defer im.outside.close()
	nodes, err := im.live()
	if err != nil {
		return nil, err
	}
	if err := im.unsupported(nodes); err != nil {
		return nil, err
	}
	if err := im.readConstants(nodes); err != nil {
		return nil, err
	}
	// A map gets the scale of the QuantizeLinear that reads it, so equal maps may get different scales.
	if !im.quantised(nodes) {
		im.net.merged, im.net.seed, im.net.apart = map[string][]*layer{}, maphash.MakeSeed(), o.apart
	}
	for _, constants := range []bool{true, false} { // constants first, since lowering a map needs the scales of all its readers
		for _, n := range nodes {
			if (opName(n) == "Constant") != constants {
				continue
			}
			if err := im.lower(n); err != nil {
				return nil, fmt.Errorf("node %s: %w", describe(n), err)
			}
		}
	}
	g, err := im.finish()
	if errors.Is(err, errSame) && o.apart == nil { // untrained heads may be equal, but are two exits
		o.apart = map[string]bool{}
		for _, exit := range im.exits {
			for _, name := range append(im.net.equal[im.values[exit].tensor], exit) {
				o.apart[name] = true
			}
		}
		return lowered(model, o)
	}
	return g, err
}

// describe names a node for errors; names are optional in ONNX.
func describe(n *onnxpb.NodeProto) string {
	return fmt.Sprintf("%q (%s)", nodeName(n), opName(n))
}

func nodeName(n *onnxpb.NodeProto) string {
	if n.GetName() != "" || len(n.GetOutput()) == 0 {
		return n.GetName()
	}
	return n.GetOutput()[0]
}

func opName(n *onnxpb.NodeProto) string {
	if d := n.GetDomain(); d != "" && d != "ai.onnx" {
		return d + "." + n.GetOpType()
	}
	return n.GetOpType()
}
