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

// Need is something of a network that Import does not map.
type Need struct {
	Op    string `json:"op"`
	Why   string `json:"why"`   // of an operator that Import knows: what of it is missing
	Nodes int    `json:"nodes"` // how many ask for it
}

// Survey says what of a network is supported.
type Survey struct {
	Ops   map[string]int `json:"ops"`   // nodes by operator, of those that exits need
	Needs []Need         `json:"needs"` // what is missing on any design, by operator
	Post  map[string]int `json:"post"`  // nodes by operator that only designs with post: true run
	// Whole says that nothing else can be missing: every node was looked at. Behind an operator that
	// changes shapes and is not known, nothing can be.
	Whole bool `json:"whole"`
	// Layers is the fewest that a shipped configuration takes, named by LayersOn; 0: not counted. Package recipe fills it in.
	Layers   int    `json:"layers,omitempty"`
	LayersOn string `json:"layers_on,omitempty"`
	// Graph is the network where nothing is missing; its weights are drawn.
	Graph *graph.Graph `json:"-"`
}

// elementwise are operators whose output has the shape of their largest input, so that a survey can go on.
var elementwise = strings.Fields(`Add And Celu Clip Div Dropout Elu Erf Exp Gelu HardSigmoid HardSwish Identity LayerNormalization
	GroupNormalization InstanceNormalization LeakyRelu Log Max Min Mish Mul Neg Pow PRelu Reciprocal Relu Selu Sigmoid Sin Softmax
	Softplus Softsign Sqrt Sub Tanh ThresholdedRelu`)

// SurveyFile looks at every node of a model, those too that stand behind one that Import refuses.
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

// SurveyOf is SurveyFile for a model that is read from somewhere else.
func SurveyOf(r io.Reader, o Options) (*Survey, error) {
	model, err := read(r, &o)
	if err != nil {
		return nil, err
	}
	o.Post, o.survey = true, true
	// Numbers do not matter, and may lie in a file that is not there; those that are none are no operator's fault.
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
	need := func(op, why string) {
		for i := range s.Needs {
			if n := &s.Needs[i]; n.Op == op && n.Why == why {
				n.Nodes++
				return
			}
		}
		s.Needs = append(s.Needs, Need{op, why, 1})
	}
	lost := map[string]bool{} // tensors of which nothing is known
	for _, n := range nodes {
		s.Ops[opName(n)]++
		for _, in := range n.GetInput() {
			if err := wrong[in]; err != nil {
				need(values, err.Error())
				delete(wrong, in) // once, however many nodes read it
			}
		}
		if slices.ContainsFunc(n.GetInput(), func(in string) bool { return lost[in] }) {
			if !im.known(n) {
				need(opName(n), "")
			}
			s.Whole = false
			for _, out := range n.GetOutput() {
				lost[out] = true
			}
			continue
		}
		op, why := opName(n), ""
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
		need(op, why)
		// The largest of the maps that it reads stands for what it would make.
		var largest value
		elems := 0
		for _, in := range n.GetInput() {
			if v, ok := im.values[in]; ok {
				if t := im.net.tensors[v.tensor]; t.h*t.w*t.c > elems {
					largest, elems = v, t.h*t.w*t.c
				}
			}
		}
		if elems == 0 || !slices.Contains(elementwise, opName(n)) {
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
				need(values, err.Error())
			} else {
				need("exits", im.reason(err))
			}
		}
	}
	s.Post = im.posts
	slices.SortFunc(s.Needs, func(a, b Need) int { return strings.Compare(a.Op+a.Why, b.Op+b.Why) })
	return s, nil
}

// values stands in a Need for an operator where the numbers of a tensor are at fault.
const values = "values"

// forget drops the numbers of large tensors, so that drawn ones stand for them. It answers, by name, what Import says
// of those in the file that are no numbers.
func forget(model *onnxpb.ModelProto) map[string]error {
	wrong := map[string]error{}
	const small = 64 // bounds of a Clip and the like stay
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

// finite refuses NaNs and infinities among the numbers that a tensor has in the file.
func finite(t *onnxpb.TensorProto) error {
	if t.GetDataLocation() == onnxpb.TensorProto_EXTERNAL || len(t.GetExternalData()) > 0 {
		return nil
	}
	c, err := newConstant(t.GetName(), t, true, nil)
	if err != nil || !c.readable() || whole(c.kind) || c.absent() {
		return nil // which is said where the tensor is read
	}
	values, err := c.floats()
	if err != nil {
		return err
	}
	return c.finite(values)
}

var quoted = regexp.MustCompile(`(tensor )?("([^"\\]|\\.)*")(:? )`)

// reason is an error without the names of tensors, so that networks can be counted by it.
func (im *importer) reason(err error) string {
	return quoted.ReplaceAllStringFunc(err.Error(), func(s string) string {
		parts := quoted.FindStringSubmatch(s)
		if name, err := strconv.Unquote(parts[2]); parts[1] == "" && (err != nil || !im.names[name] || parts[4] != " ") {
			return s
		}
		return ""
	})
}
