package onnx

import (
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-npu/sluice/dse/graph"
	"github.com/sluice-npu/sluice/dse/onnx/onnxpb"
)

// Need is a part of a network that Import does not support.
type Need struct {
	Op    string `json:"op"`
	Why   string `json:"why"`   // for a supported operator: the reason; for an operator of a quantised file: the supported form
	Nodes int    `json:"nodes"` // number of nodes with this operator and reason
}

// Survey describes which parts of a network are supported.
type Survey struct {
	Ops   map[string]int `json:"ops"`   // number of nodes that exits need, by operator
	Needs []Need         `json:"needs"` // parts that no design supports, sorted by operator
	Post  map[string]int `json:"post"`  // number of nodes that need a design with post: true, by operator
	// Whole reports whether all nodes were examined, so that Needs is complete. Nodes after an unknown operator that
	// changes shapes cannot be examined.
	Whole bool `json:"whole"`
	// Layers is the smallest number of layers on a shipped configuration; 0: not counted. LayersOn names that
	// configuration. Package recipe sets both.
	Layers   int    `json:"layers,omitempty"`
	LayersOn string `json:"layers_on,omitempty"`
	// Graph is the network with random weights, if nothing is missing.
	Graph *graph.Graph `json:"-"`
}

// elementwise lists operators whose output has the shape of their largest input. A survey can continue after them.
var elementwise = strings.Fields(`Add And Celu Clip Div Dropout Elu Erf Exp Gelu HardSigmoid HardSwish Identity LayerNormalization
	GroupNormalization InstanceNormalization LeakyRelu Log Max Min Mish Mul Neg Pow PRelu Reciprocal Relu Selu Sigmoid Sin Softmax
	Softplus Softsign Sqrt Sub Tanh ThresholdedRelu`)

// SurveyFile examines all nodes of a model, also those after a node that Import does not support.
func SurveyFile(path string, o Options) (*Survey, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("network: %w", err)
	}
	defer f.Close()
	s, err := SurveyOf(f, o)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

// SurveyOf does what SurveyFile does, for a model that is read from r.
func SurveyOf(r io.Reader, o Options) (*Survey, error) {
	model, err := read(r, &o)
	if err != nil {
		return nil, err
	}
	o.Post, o.survey = true, true
	// Values do not matter for a survey, and may be in a missing file. A NaN does not mean that an operator is
	// unsupported.
	wrong := forget(model)
	im, err := newImporter(model, o)
	if err != nil {
		return nil, err
	}
	defer im.outside.close()
	nodes, err := im.live()
	if err != nil {
		return nil, err
	}
	if err := im.readConstants(nodes); err != nil {
		return nil, err
	}
	s := &Survey{Ops: map[string]int{}, Whole: true}
	lost := map[string]bool{} // tensors with unknown shapes
	for _, n := range nodes {
		s.Ops[opName(n)]++
		for _, in := range n.GetInput() {
			if err := wrong[in]; err != nil {
				s.need(values, err.Error())
				delete(wrong, in) // a tensor is counted once, even if several nodes read it
			}
		}
		if slices.ContainsFunc(n.GetInput(), func(in string) bool { return lost[in] }) {
			if !im.known(n) {
				s.need(opName(n), otherForm(opName(n)))
			}
			s.Whole = false
			for _, out := range n.GetOutput() {
				lost[out] = true
			}
			continue
		}
		op, why := opName(n), otherForm(opName(n))
		if im.known(n) {
			err := im.lower(n)
			if err == nil {
				continue
			}
			why = im.reason(err)
			if errors.Is(err, ErrValue) {
				op, why = values, fmt.Sprintf("node %s: %v", describe(n), err)
			}
		}
		s.need(op, why)
		// The node's largest input map replaces the unknown output.
		largest, ok := im.largestInput(n)
		if !ok || !slices.Contains(elementwise, opName(n)) {
			for _, out := range n.GetOutput() {
				lost[out] = true
			}
			s.Whole = false
			continue
		}
		largest.pad, largest.slice, largest.activation = nil, nil, ""
		im.values[n.GetOutput()[0]] = largest
	}
	if len(s.Needs) == 0 {
		if s.Graph, err = im.finish(); err != nil {
			if errors.Is(err, ErrValue) {
				s.need(values, err.Error())
			} else {
				s.need("exits", im.reason(err))
			}
		}
	}
	s.Post = im.posts
	slices.SortFunc(s.Needs, func(a, b Need) int { return strings.Compare(a.Op+a.Why, b.Op+b.Why) })
	return s, nil
}

func (s *Survey) need(op, why string) {
	for i := range s.Needs {
		if n := &s.Needs[i]; n.Op == op && n.Why == why {
			n.Nodes++
			return
		}
	}
	s.Needs = append(s.Needs, Need{op, why, 1})
}

func (im *importer) largestInput(n *onnxpb.NodeProto) (largest value, ok bool) {
	elems := 0
	for _, in := range n.GetInput() {
		if v, known := im.values[in]; known {
			if t := im.net.tensors[v.tensor]; t.h*t.w*t.c > elems {
				largest, elems = v, t.h*t.w*t.c
			}
		}
	}
	return largest, elems > 0
}

// values replaces the operator in a Need about a tensor with NaNs or infinities.
const values = "values"

// forget removes the values of large tensors, so that random values replace them. It returns Import's errors about NaNs
// and infinities in these tensors, by name.
func forget(model *onnxpb.ModelProto) map[string]error {
	wrong := map[string]error{}
	const small = 64 // number of elements up to which values are not removed, for example the bounds of a Clip
	for _, t := range model.GetGraph().GetInitializer() {
		n := int64(1)
		for _, d := range t.GetDims() {
			n *= d
		}
		if whole(t.GetDataType()) || len(t.GetDims()) == 0 || n <= small && t.GetDataLocation() != onnxpb.TensorProto_EXTERNAL {
			continue
		}
		if err := finite(t); err != nil {
			wrong[t.GetName()] = err
		}
		t.RawData, t.FloatData, t.Int32Data, t.DoubleData, t.ExternalData, t.DataLocation = nil, nil, nil, nil, nil, nil
	}
	key, value := "sluice.weights", "seeded"
	model.MetadataProps = []*onnxpb.StringStringEntryProto{{Key: &key, Value: &value}}
	return wrong
}

// finite returns an error if a tensor's values in the file contain NaNs or infinities.
func finite(t *onnxpb.TensorProto) error {
	if t.GetDataLocation() == onnxpb.TensorProto_EXTERNAL || len(t.GetExternalData()) > 0 {
		return nil
	}
	c, err := newConstant(t.GetName(), t, true, nil)
	if err != nil || !c.readable() || whole(c.kind) || c.absent() {
		return nil // an error is reported later, if the tensor is read
	}
	values, err := c.floats()
	if err != nil {
		return err
	}
	return c.finite(values)
}

var quoted = regexp.MustCompile(`(tensor )?("([^"\\]|\\.)*")(:? )`)

// reason returns an error's text without names of tensors, so that equal reasons can be counted.
func (im *importer) reason(err error) string {
	return quoted.ReplaceAllStringFunc(err.Error(), func(s string) string {
		parts := quoted.FindStringSubmatch(s)
		if name, err := strconv.Unquote(parts[2]); parts[1] == "" && (err != nil || !im.names[name] || parts[4] != " ") {
			return s
		}
		return ""
	})
}
