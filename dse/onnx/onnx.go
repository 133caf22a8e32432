// Package onnx reads a network from an ONNX file (specification 1.16, opset 7 and later; see
// onnxpb) and folds it into the few operators of package graph: one fused layer per convolution,
// NHWC, without the batch.
//
//   - Shapes follow from the graph's input. The input is N x C x H x W, or N x H x W x C if a Transpose of the input
//     implies that. N may have any value.
//   - Operations on constants are computed at import (fold.go). A Transpose only changes the order of a map's axes,
//     because the channels are always last in memory.
//   - BatchNormalization is folded, in float64, into the convolution before it. If that is not possible, it is folded
//     into the convolution after it, provided that the result is exact. Otherwise it becomes a depthwise 1x1
//     convolution. An activation that cannot become part of the layer before it becomes such a convolution too.
//   - Relu and Clip become clamps. Pad becomes the padding of the next layer, or a layer if the next layer cannot pad
//     in this way. Flatten and Reshape change the view of a map. A fully connected layer on a map becomes a convolution
//     as large as the map.
//   - Slice, Split, Gather, Reshape, Transpose, Squeeze and Unsqueeze change the view of a map (view.go). A reader that
//     needs channels, rows and columns copies the view to a map first.
//   - A dilated kernel gets additional taps of weight 0.
//   - An Add becomes the residual of the convolution before it, if the convolution has no other reader. If it adds two
//     such convolutions, it becomes the residual of the later convolution. An Add of two convolutions of the same
//     tensor becomes one convolution, if the result is no larger and loses no precision.
//   - Arithmetic with constants per channel is treated like a normalisation. A file that separates a map into single
//     channels may only join all of them again (torchvision's transform_input).
//   - With Options.Post, a function of a map becomes part of the convolution or sum before it (curve.go). Such a
//     function is a Sigmoid, for example, or an equivalent group of operators. With Options.Post, two maps may be
//     multiplied too.
//   - Equal layers are merged. All forms of a norm over channels are rewritten to one form (norm.go).
//   - A Concat that begins with all inputs of an earlier Concat reads the earlier result instead.
//   - The host computes a Softmax or Sigmoid before an output. Nodes that no exit needs are dropped.
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

// These limits cannot be set by options. They are far above the sizes that the NPU can run, and far below an overflow.
const (
	defaultMaxBytes = 1 << 30 // VGG-19 has 575 MB of weights
	maxNodes        = 20000
	maxExits        = 64
	maxDim          = 1<<16 - 1
	maxElems        = 1 << 28 // elements of a tensor, and of all maps of a sample together
	maxChannels     = 1 << 22 // channels of all maps together; DenseNet-201 has 0.1 million
)

// Options are the options of an import. The zero value is useful.
type Options struct {
	Name       string            // name of the network, also in errors; the graph's own name if empty
	Exits      []string          // tensors that are exits; all outputs of the graph if empty
	Confidence map[string]string // the exit's confidence measure (graph.Confidences), by tensor
	WeightSeed uint64            // seed of random weights, for models with the metadata sluice.weights = seeded
	InputSide  Side              // replaces the input's height and width
	Post       bool              // the design has the post stage: curves and products of two maps are allowed
	Gates      bool              // with Post: functions x * g(x), such as SiLU, become a curve of g and a product, instead of one curve
	MaxBytes   int64             // limit for the file, and for the data outside it; 1 GiB if 0. The limit for the number of weights is a quarter
	External   fs.FS             // folder of data outside the file; nil: such data is an error

	gates  int             // with Gates: maximum number of functions to replace
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

// ImportFile reads a model from a file. The network has the file's name, unless the options name it. Outside data files
// must be in the file's folder.
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

// read calls parse, and discards unknown fields.
func read(r io.Reader, o *Options) (*onnxpb.ModelProto, error) {
	model, _, err := parse(r, o, proto.UnmarshalOptions{DiscardUnknown: true})
	return model, err
}

// parse reads a model of limited size. It makes all names in the model and in the options printable.
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
			layers += len(in) - len(slices.Compact(in)) // copies of repeated inputs
		}
	}
	// A gate needs two more layers, and the NPU runs at most LMax. A quarter of the network's layers is kept free for
	// copies of maps and split sums, which the compiler adds (TinyNet-A has 137 layers and gets 33 more).
	with.gates = max(0, abi.LMax-layers-layers/4) / 2
	return lowered(model, with)
}

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
	// Equal layers of a quantised file are not merged: their maps may be quantised with different scales.
	if !im.quantised(nodes) {
		im.net.merged, im.net.seed, im.net.apart = map[string][]*layer{}, maphash.MakeSeed(), o.apart
	}
	for _, constants := range []bool{true, false} { // constants first, because quantizeMap needs the scales of all readers of a map
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
	if errors.Is(err, errSame) && o.apart == nil { // two untrained heads may be equal, but must stay separate exits
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

// describe returns a node's name and operator for errors, because names are optional in ONNX.
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
