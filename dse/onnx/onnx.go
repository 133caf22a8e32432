// Package onnx reads a network from an ONNX file (specification 1.16, opset 7 and later; see
// onnxpb) and folds it into the few operators of package graph: one fused layer a convolution,
// NHWC, batch left out.
//
//   - Shapes follow from the graph's input, N x C x H x W, or N x H x W x C where a Transpose of it says so; N may be
//     anything.
//   - What depends on constants alone is computed (fold.go). A Transpose is another order of a map's axes, which lie
//     channels last in memory whatever it is.
//   - BatchNormalization is folded into the convolution before it or, where that is exact, the one
//     behind it, in float64; otherwise it becomes a depthwise 1x1 convolution. So does an activation
//     that no layer before it can take.
//   - Relu and Clip become clamps, Pad becomes the padding of what follows or, where that cannot pad so, pixels, Flatten and Reshape a
//     way of reading a map: a fully connected layer over a map is a convolution as large as the map.
//   - Slice, Split, Gather, Reshape, Transpose, Squeeze and Unsqueeze look at a map in another way (view.go). What reads
//     it by channels, rows and columns makes a map of that first.
//   - A dilated kernel gets taps of weight 0 between its own.
//   - An Add goes to the convolution before it that has no other reader, the later one of two, as
//     its residual. Two convolutions of one tensor that are added are one, where that is no larger and costs
//     no weights their bits.
//   - Constants added to, subtracted from, multiplied with or dividing a map, one a channel, are such a
//     normalisation too. Channels taken apart one by one are only put together again (torchvision's
//     transform_input).
//   - With Options.Post, a function of a map (curve.go), as a Sigmoid or what exporters write for one in several operators,
//     goes to the convolution or sum before it, and two maps are multiplied.
//   - Layers that compute the same of the same are one. A norm over channels has one form, however it is written: x * r +
//     (b - mean * r) and the mean of squares less the square of the mean among others.
//   - A Concat that begins with all that an earlier one has joined reads that one.
//   - Softmax or Sigmoid before an output is left to the host. Nodes that reach no exit are dropped.
//
// A file is untrusted input: whatever is wrong with it is an error that wraps one of the sentinels
// below and names file, node and tensor.
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

// What Import refuses.
var (
	ErrFormat      = errors.New("not a complete ONNX model")
	ErrTooLarge    = errors.New("too large")
	ErrCycle       = errors.New("the graph has a cycle")
	ErrDuplicate   = errors.New("defined twice")
	ErrMissing     = errors.New("missing")
	ErrShape       = errors.New("wrong shape")
	ErrOpenSide    = errors.New("open") // the input's height or width, which a number would settle
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

// Limits that are not options: far above what the NPU can run, far below what overflows.
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
	Confidence map[string]string // how sure exits are, by tensor (graph.Confidences)
	WeightSeed uint64            // for models whose metadata says sluice.weights = seeded
	InputSide  Side              // of the input, in place of the model's own
	Post       bool              // for designs with post: curves, and products of two maps
	Gates      bool              // with Post: functions x * g(x), as SiLU, are a curve of g and a product, not one curve
	MaxBytes   int64             // largest file, and most data outside it; a quarter as many weights; 1 GiB if 0
	External   fs.FS             // folder of data outside the file; nil: such data is refused

	gates  int             // with Gates: how many functions at most
	apart  map[string]bool // tensors that are not made one with equal ones
	survey bool            // the values of weights do not matter
}

// Import reads a model. Exits are ordered by depth, whatever order they are named in.
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

// ImportFile reads the model in a file, which gives the network its name unless the options do. Data
// outside the file may lie in its folder.
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

// read is parse for those who need nothing that they do not know.
func read(r io.Reader, o *Options) (*onnxpb.ModelProto, error) {
	model, _, err := parse(r, o, proto.UnmarshalOptions{DiscardUnknown: true})
	return model, err
}

// parse reads a model, within the bytes allowed; all names that leave it, those of the options too, are printable.
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
	// The first functions become gates: what they are off goes through all others. Each takes two layers more, and a compiler, which
	// copies maps and splits sums, up to a quarter of the network's own (TinyNet-A: 33 of 137).
	with.gates = max(0, abi.LMax-layers-layers/4) / 2
	return lowered(model, with)
}

// lowered is the network of a model.
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
	// A map takes the scale of the QuantizeLinear that reads it: of two equal ones, each its own.
	if !im.quantised(nodes) {
		im.net.merged, im.net.seed, im.net.apart = map[string][]*layer{}, maphash.MakeSeed(), o.apart
	}
	for _, constants := range []bool{true, false} { // first, as what a map becomes depends on the scales of all its readers
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
	if errors.Is(err, errSame) && o.apart == nil { // heads that a training has not told apart yet are two exits
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

// describe names a node for errors; ONNX leaves names optional.
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
