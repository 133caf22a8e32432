package recipe_test

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/sluice-npu/sluice/dse/cost"
	"github.com/sluice-npu/sluice/dse/lower"
	"github.com/sluice-npu/sluice/dse/mapping"
	"github.com/sluice-npu/sluice/dse/onnx/onnxpb"
	"github.com/sluice-npu/sluice/dse/recipe"
	"github.com/sluice-npu/sluice/dse/zoo"
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
)

var (
	seed = flag.Uint64("operators.seed", 1, "seed of the networks that TestOperators changes")
	n    = flag.Int("operators.n", 2, "random changes of each network; nightly has 12 others")
)

// kinds are operators that a change may substitute: known and unknown ones.
var kinds = []string{
	"Relu", "Sigmoid", "MaxPool", "AveragePool", "GlobalAveragePool", "Add", "Mul", "Concat", "Softmax", "Identity", "Transpose", "Clip", "Flatten", "Sub",
	"ReduceMean", "LeakyRelu", "BatchNormalization", "Gemm",
}

// change modifies one thing in a model: a number in an attribute, an operator; or it removes an attribute or an
// input.
func change(rng *rand.Rand, m *onnxpb.ModelProto) {
	nodes := m.GetGraph().GetNode()
	node := nodes[rng.IntN(len(nodes))]
	switch rng.IntN(8) {
	case 0:
		node.OpType = proto.String(kinds[rng.IntN(len(kinds))])
	case 1:
		if a := node.GetAttribute(); len(a) > 0 {
			i := rng.IntN(len(a))
			node.Attribute = append(a[:i:i], a[i+1:]...)
		}
	default:
		for range 8 { // until an attribute with numbers is found
			node = nodes[rng.IntN(len(nodes))]
			if a := node.GetAttribute(); len(a) > 0 {
				number(rng, a[rng.IntN(len(a))])
				return
			}
		}
	}
}

// directed are changes that Import accepts and a later step does not.
var directed = []func(*onnxpb.NodeProto){
	func(n *onnxpb.NodeProto) { // windows extend beyond one side and the padding is on another: equal pixel counts have different divisors
		if n.GetOpType() == "AveragePool" {
			set(n, &onnxpb.AttributeProto{Name: proto.String("count_include_pad"), I: proto.Int64(1)})
		}
	},
	func(n *onnxpb.NodeProto) {
		set(n, &onnxpb.AttributeProto{Name: proto.String("kernel_shape"), Ints: []int64{300, 300}})
		set(n, &onnxpb.AttributeProto{Name: proto.String("auto_pad"), S: []byte("SAME_UPPER")})
		set(n, &onnxpb.AttributeProto{Name: proto.String("pads")})
	},
}

// set gives a pool an attribute, or removes the attribute if there is no value.
func set(n *onnxpb.NodeProto, a *onnxpb.AttributeProto) {
	if n.GetOpType() != "AveragePool" && n.GetOpType() != "MaxPool" {
		return
	}
	a.Type = onnxpb.AttributeProto_INTS.Enum()
	if a.I != nil {
		a.Type = onnxpb.AttributeProto_INT.Enum()
	} else if a.S != nil {
		a.Type = onnxpb.AttributeProto_STRING.Enum()
	}
	n.Attribute = slices.DeleteFunc(n.Attribute, func(b *onnxpb.AttributeProto) bool { return b.GetName() == a.GetName() })
	if a.I != nil || a.S != nil || a.Ints != nil {
		n.Attribute = append(n.Attribute, a)
	}
}

// number changes a number in an attribute slightly, or to a value that no hardware supports.
func number(rng *rand.Rand, a *onnxpb.AttributeProto) {
	some := []int64{-1, 0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 64, 300}
	v := some[rng.IntN(len(some))]
	if rng.IntN(2) == 0 {
		v = some[rng.IntN(7)]
	}
	switch {
	case a.I != nil:
		a.I = &v
	case len(a.GetInts()) > 0:
		if rng.IntN(2) == 0 {
			for i := range a.Ints {
				a.Ints[i] = v
			}
			return
		}
		a.Ints[rng.IntN(len(a.Ints))] = v
	case a.F != nil:
		a.F = proto.Float32(float32(v))
	case a.S != nil:
		a.S = []byte([]string{"SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET", "reflect", "edge"}[rng.IntN(6)])
	}
}

// dse operators and dse compile agree about a network: on the models of every operator, on the zoo, and on changed
// versions of both.
func TestOperators(t *testing.T) {
	files, err := filepath.Glob("../onnx/testdata/ops/*.onnx")
	if err != nil || len(files) < 30 {
		t.Fatalf("%d fixtures: %v", len(files), err)
	}
	d, err := configs.Load("zc706")
	if err != nil {
		t.Fatal(err)
	}
	d.Post = true // which operators may need
	t.Logf("seed %d, %d random changes of each", *seed, *n)
	path := filepath.Join(t.TempDir(), "net.onnx")
	yes, no := 0, 0
	for f, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{} // many changes change nothing
		for i := range 1 + len(directed) + *n {
			m := &onnxpb.ModelProto{}
			if err := proto.Unmarshal(content, m); err != nil {
				t.Fatal(err)
			}
			switch {
			case i == 0: // unchanged
			case i <= len(directed):
				for _, node := range m.GetGraph().GetNode() {
					directed[i-1](node)
				}
			default:
				change(rand.New(rand.NewPCG(*seed, uint64(f*1000+i))), m)
			}
			text, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			if seen[string(text)] {
				continue
			}
			seen[string(text)] = true
			if err := os.WriteFile(path, text, 0o600); err != nil {
				t.Fatal(err)
			}
			r := recipe.Recipe{Network: path, Seed: 1, Images: 1}
			s, err := r.Survey(path)
			says := err == nil && len(s.Needs) == 0
			_, made := r.Make(d)
			switch {
			case says == (made == nil):
			case says && (errors.Is(made, mapping.ErrNoFit) || errors.Is(made, cost.ErrGeom)): // sizes beyond the hardware, not an operator
			default:
				t.Errorf("%s, change %d: operators says %t (%v, %+v), compile %v", filepath.Base(file), i, says, err, s, made)
			}
			if says {
				yes++
			} else {
				no++
			}
		}
	}
	for _, name := range zoo.Names() { // the tests of dse/golden compile them unchanged
		if s, err := (&recipe.Import{}).Survey(name); err != nil || len(s.Needs) != 0 || len(s.Ops) == 0 || s.Graph != nil {
			t.Errorf("%s: operators says %v, %+v", name, err, s)
		}
	}
	t.Logf("%d are supported, %d not", yes, no)
	if yes == 0 || no == 0 {
		t.Error("all are or none: it shows nothing")
	}
}

// For a network with more layers than a bundle holds on any shipped configuration, dse operators prints both numbers
// and dse compile rejects it. With one layer less it is supported.
func TestTooManyLayers(t *testing.T) {
	d := mustLoad(t)
	path := filepath.Join(t.TempDir(), "deep.onnx")
	for _, layers := range []int{abi.LMax, abi.LMax + 1} {
		if err := os.WriteFile(path, deep(t, layers), 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := (&recipe.Import{}).Survey(path)
		if err != nil || s.Layers != layers || s.LayersOn == "" {
			t.Fatalf("%d layers: %v, %+v", layers, err, s)
		}
		_, made := (&recipe.Recipe{Network: path, Seed: 1, Images: 1}).Make(d)
		if layers <= abi.LMax {
			if made != nil || len(s.Needs) != 0 {
				t.Errorf("%d layers: operators says %+v, compile %v", layers, s.Needs, made)
			}
			continue
		}
		if len(s.Needs) != 1 || !strings.Contains(s.Needs[0].Why, "at least 257 on ") || !strings.Contains(s.Needs[0].Why, "L_MAX = 256") || !errors.Is(made, lower.ErrTooMany) {
			t.Errorf("%d layers: operators says %+v, compile %v", layers, s.Needs, made)
		}
	}
}

// deep returns a model of consecutive convolutions, each with its Relu.
func deep(t *testing.T, layers int) []byte {
	t.Helper()
	info := func(name string) *onnxpb.ValueInfoProto {
		shape := &onnxpb.TensorShapeProto{}
		for _, n := range []int64{1, 1, 2, 2} {
			shape.Dim = append(shape.Dim, &onnxpb.TensorShapeProto_Dimension{Value: &onnxpb.TensorShapeProto_Dimension_DimValue{DimValue: n}})
		}
		return &onnxpb.ValueInfoProto{Name: &name, Type: &onnxpb.TypeProto{TensorType: &onnxpb.TypeProto_Tensor{ElemType: proto.Int32(1), Shape: shape}}}
	}
	g := &onnxpb.GraphProto{
		Name: proto.String("deep"), Input: []*onnxpb.ValueInfoProto{info("r0")}, Output: []*onnxpb.ValueInfoProto{info(fmt.Sprint("r", layers))},
		Initializer: []*onnxpb.TensorProto{{Name: proto.String("one"), Dims: []int64{1, 1, 1, 1}, DataType: proto.Int32(1), FloatData: []float32{1}}},
	}
	for i := range layers {
		sum := fmt.Sprint("c", i)
		g.Node = append(g.Node,
			&onnxpb.NodeProto{OpType: proto.String("Conv"), Input: []string{fmt.Sprint("r", i), "one"}, Output: []string{sum}},
			&onnxpb.NodeProto{OpType: proto.String("Relu"), Input: []string{sum}, Output: []string{fmt.Sprint("r", i+1)}})
	}
	content, err := proto.Marshal(&onnxpb.ModelProto{IrVersion: proto.Int64(8), Graph: g, OpsetImport: []*onnxpb.OperatorSetIdProto{{Version: proto.Int64(13)}}})
	if err != nil {
		t.Fatal(err)
	}
	return content
}
