package onnx

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"github.com/sluice-npu/sluice/dse/onnx/onnxpb"
)

// printable makes a name safe for a terminal. Characters that move the cursor, break a table or change the direction of
// text are escaped as in Go.
func printable(name string) string {
	if utf8.ValidString(name) && strings.IndexFunc(name, func(r rune) bool { return !unicode.IsGraphic(r) }) < 0 {
		return name
	}
	quoted := strconv.QuoteToGraphic(name)
	return quoted[1 : len(quoted)-1]
}

// rename makes all names of a model printable before they are used. It reports whether a name changed. If two names
// become equal, a later check reports them like any other name that is defined twice.
func rename(m *onnxpb.ModelProto) (renamed bool) {
	one := func(name *string) {
		if name == nil {
			return
		}
		if shown := printable(*name); shown != *name {
			*name, renamed = shown, true
		}
	}
	all := func(names []string) {
		for i := range names {
			one(&names[i])
		}
	}
	for _, s := range m.GetOpsetImport() {
		one(s.Domain)
	}
	g := m.GetGraph()
	if g == nil {
		return renamed
	}
	one(g.Name)
	for _, n := range g.GetNode() {
		one(n.Name)
		one(n.OpType)
		one(n.Domain)
		all(n.GetInput())
		all(n.GetOutput())
	}
	for _, t := range g.GetInitializer() {
		one(t.Name)
	}
	for _, v := range append(g.GetInput()[:len(g.GetInput()):len(g.GetInput())], g.GetOutput()...) {
		one(v.Name)
	}
	return renamed
}

// narrow converts a model's doubles to floats, as Import does, because other programs have few operators for doubles.
// It reports whether it found doubles. It does not change files outside the model.
func narrow(m *onnxpb.ModelProto) (narrowed bool, err error) {
	kind := func(k **int32) {
		if *k != nil && **k == typeDouble {
			single := int32(typeFloat)
			*k, narrowed = &single, true
		}
	}
	tensor := func(t *onnxpb.TensorProto) error {
		if t.GetDataType() != typeDouble || len(t.GetExternalData()) > 0 {
			return nil
		}
		c, err := newConstant(t.GetName(), t, false, nil)
		if err != nil {
			return err
		}
		values, err := c.floats()
		if err != nil {
			return err
		}
		kind(&t.DataType)
		t.RawData, t.DoubleData, t.FloatData = nil, nil, values
		return nil
	}
	g := m.GetGraph()
	for _, t := range g.GetInitializer() {
		if err := tensor(t); err != nil {
			return false, err
		}
	}
	for _, v := range append(g.GetInput()[:len(g.GetInput()):len(g.GetInput())], g.GetOutput()...) {
		if t := v.GetType().GetTensorType(); t != nil {
			kind(&t.ElemType)
		}
	}
	for _, n := range g.GetNode() {
		for _, a := range n.GetAttribute() {
			if a.GetT() != nil {
				if err := tensor(a.GetT()); err != nil {
					return false, err
				}
			}
			if opName(n) == "Cast" && a.GetName() == "to" && a.GetI() == typeDouble {
				single := int64(typeFloat)
				a.I, narrowed = &single, true
			}
		}
	}
	return narrowed, nil
}

// Rewrite returns a changed model, so that other programs run the same network as Import reads. The model has printable
// names, floats instead of doubles, and the input size of o.InputSide. Data outside the file is not copied into the
// model. Rewrite returns nil if nothing changes.
func Rewrite(r io.Reader, o Options) ([]byte, error) {
	model, renamed, err := parse(r, &o, proto.UnmarshalOptions{})
	if err != nil {
		return nil, err
	}
	narrowed, err := narrow(model)
	if err != nil {
		return nil, err
	}
	if !renamed && !narrowed && o.InputSide == (Side{}) {
		return nil, nil
	}
	g := model.GetGraph()
	if narrowed {
		g.ProtoReflect().SetUnknown(nil) // value_info would contradict the types
	}
	if o.InputSide != (Side{}) {
		weights := map[string]bool{}
		for _, t := range g.GetInitializer() {
			weights[t.GetName()] = true
		}
		for _, v := range g.GetInput() {
			dims := v.GetType().GetTensorType().GetShape().GetDim()
			if weights[v.GetName()] || len(dims) != 4 {
				continue
			}
			axes := dims[2:]
			if (&importer{graph: g, exits: exitsOf(g, o)}).channelsLast(v.GetName()) {
				axes = dims[1:3]
			}
			for i, d := range axes {
				d.Value = &onnxpb.TensorShapeProto_Dimension_DimValue{DimValue: int64([]int{o.InputSide.H, o.InputSide.W}[i])}
			}
		}
		for _, v := range g.GetOutput() { // remove the old output sizes, because other programs would use them
			if t := v.GetType().GetTensorType(); t != nil {
				t.Shape = nil
			}
		}
		g.ProtoReflect().SetUnknown(nil) // value_info would contradict the sizes
	}
	content, err := proto.Marshal(model)
	if err != nil {
		return nil, fmt.Errorf("writing: %w", err)
	}
	return content, nil
}
