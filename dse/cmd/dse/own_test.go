package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"

	yaml "go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/proto"

	"github.com/sluice-npu/sluice/dse/onnx/onnxpb"
	"github.com/sluice-npu/sluice/host/cli"
	"github.com/sluice-npu/sluice/hw/configs"
)

// ownModel writes a model with one input "x" and one output, that of the last node; a dimension of 0 is open.
func ownModel(t *testing.T, dims []int64, weights []*onnxpb.TensorProto, nodes ...*onnxpb.NodeProto) string {
	t.Helper()
	value := func(name string, dims []int64) *onnxpb.ValueInfoProto {
		shape := &onnxpb.TensorShapeProto{}
		for _, d := range dims {
			one := &onnxpb.TensorShapeProto_Dimension{Value: &onnxpb.TensorShapeProto_Dimension_DimValue{DimValue: d}}
			if d == 0 {
				one.Value = &onnxpb.TensorShapeProto_Dimension_DimParam{DimParam: "batch"}
			}
			shape.Dim = append(shape.Dim, one)
		}
		return &onnxpb.ValueInfoProto{Name: &name, Type: &onnxpb.TypeProto{TensorType: &onnxpb.TypeProto_Tensor{ElemType: proto.Int32(1), Shape: shape}}}
	}
	content, err := proto.Marshal(&onnxpb.ModelProto{
		IrVersion: proto.Int64(8), OpsetImport: []*onnxpb.OperatorSetIdProto{{Domain: proto.String(""), Version: proto.Int64(13)}},
		Graph: &onnxpb.GraphProto{
			Name: proto.String("own"), Node: nodes, Initializer: weights,
			Input: []*onnxpb.ValueInfoProto{value("x", dims)}, Output: []*onnxpb.ValueInfoProto{value(nodes[len(nodes)-1].GetOutput()[0], []int64{0, 3})},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "own.onnx")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func ownNode(op, name string, in []string, ints map[string][]int64, one map[string]int64) *onnxpb.NodeProto {
	n := &onnxpb.NodeProto{Name: proto.String(name), OpType: proto.String(op), Input: in, Output: []string{name}}
	for k, v := range ints {
		n.Attribute = append(n.Attribute, &onnxpb.AttributeProto{Name: proto.String(k), Type: onnxpb.AttributeProto_INTS.Enum(), Ints: v})
	}
	for k, v := range one {
		n.Attribute = append(n.Attribute, &onnxpb.AttributeProto{Name: proto.String(k), Type: onnxpb.AttributeProto_INT.Enum(), I: proto.Int64(v)})
	}
	return n
}

func ownWeights(name string, v []float32, dims ...int64) *onnxpb.TensorProto {
	return &onnxpb.TensorProto{Name: &name, DataType: proto.Int32(1), Dims: dims, FloatData: v}
}

// ownImages writes images as a .npy array, N x H x W x C.
func ownImages(t *testing.T, n, h, w, c int) string {
	t.Helper()
	head := fmt.Sprintf("{'descr': '<f4', 'fortran_order': False, 'shape': (%d, %d, %d, %d), }", n, h, w, c)
	head += strings.Repeat(" ", 117-len(head)) + "\n"
	out := append([]byte("\x93NUMPY\x01\x00"), byte(len(head)), 0)
	out = append(out, head...)
	for i := range n * h * w * c {
		out, _ = binary.Append(out, binary.LittleEndian, float32(i%7)/7-0.25)
	}
	path := filepath.Join(t.TempDir(), "images.npy")
	if err := os.WriteFile(path, out, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func evaluateOwn(t *testing.T, model, images string) string {
	t.Helper()
	code, stdout, stderr := call("compile", "--network", model, "--config", "tiny", "--calibrate", images, "--evaluate", images,
		"--onnxruntime=yes", "--out", filepath.Join(t.TempDir(), "own.sluice"))
	if code != 0 || !strings.Contains(stdout, "as onnxruntime") {
		t.Fatalf("status %d\n%s%s", code, stdout, stderr)
	}
	return stderr
}

// Vectors as input, a Reshape with a fixed batch of 1, and a channel with much smaller weights than the others. The
// first two are not errors, the third yields a note.
func TestEvaluateVectors(t *testing.T) {
	shape := &onnxpb.TensorProto{Name: proto.String("one"), DataType: proto.Int32(7), Dims: []int64{2}, Int64Data: []int64{1, -1}}
	model := func(small float32) string {
		w := []float32{1, 2, 3, 4, -3, -2, 1, -1, small, -small, small, small}
		return ownModel(t, []int64{0, 4}, []*onnxpb.TensorProto{ownWeights("w", w, 3, 4), shape},
			ownNode("Reshape", "r", []string{"x", "one"}, nil, nil), ownNode("Gemm", "e", []string{"r", "w"}, nil, map[string]int64{"transB": 1}))
	}
	images := ownImages(t, 4, 1, 1, 4)
	if said := evaluateOwn(t, model(1e-3), images); !strings.Contains(said, `1 of 3 output channels keep fewer than 6 bits`) || !strings.Contains(said, `channel 2 of "e"`) {
		t.Errorf("a channel of small weights: %q", said)
	}
	for _, small := range []float32{0, 0.1} {
		if said := evaluateOwn(t, model(small), images); said != "" {
			t.Errorf("weights of %v: %q", small, said)
		}
	}
}

// newer sets a model's operator set to one that no onnxruntime supports.
func newer(t *testing.T, path string) {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	m := &onnxpb.ModelProto{}
	if err := proto.Unmarshal(content, m); err != nil {
		t.Fatal(err)
	}
	m.OpsetImport[0].Version = proto.Int64(99)
	if content, err = proto.Marshal(m); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// A model with bytes as input normalises them itself: by a Cast, or by a DequantizeLinear.
func TestEvaluateBytes(t *testing.T) {
	photos := t.TempDir()
	for i := range 6 {
		m := image.NewRGBA(image.Rect(0, 0, 12, 10))
		for k := range m.Pix {
			m.Pix[k] = byte(k*7*(i+1) + k/11)
			if k%4 == 3 {
				m.Pix[k] = 255
			}
		}
		var file bytes.Buffer
		if err := png.Encode(&file, m); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(photos, fmt.Sprintf("%d.png", i)), file.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	w := ownWeights("w", []float32{1, 2, 3, -4, 5, 6, -7, 8, 9}, 3, 3, 1, 1)
	zero := &onnxpb.TensorProto{Name: proto.String("zero"), DataType: proto.Int32(2), Int32Data: []int32{20}}
	scale, mean := ownWeights("scale", []float32{0.02}), ownWeights("mean", []float32{10, 11, 12}, 3, 1, 1)
	to := map[string]int64{"to": 1}
	tail := []*onnxpb.NodeProto{ownNode("Conv", "c", []string{"f", "w"}, nil, nil), ownNode("GlobalAveragePool", "g", []string{"c"}, nil, nil), ownNode("Flatten", "e", []string{"g"}, nil, nil)}
	perm := map[string][]int64{"perm": {0, 3, 1, 2}}
	for name, model := range map[string]string{
		"cast": ownModel(t, []int64{0, 3, 10, 12}, []*onnxpb.TensorProto{w, mean}, append([]*onnxpb.NodeProto{
			ownNode("Cast", "cast", []string{"x"}, nil, to), ownNode("Sub", "f", []string{"cast", "mean"}, nil, nil),
		}, tail...)...),
		"dequantised, channels last": ownModel(t, []int64{0, 10, 12, 3}, []*onnxpb.TensorProto{w, scale, zero}, append([]*onnxpb.NodeProto{
			ownNode("Transpose", "t", []string{"x"}, perm, nil), ownNode("DequantizeLinear", "f", []string{"t", "scale", "zero"}, nil, nil),
		}, tail...)...),
	} {
		content, err := os.ReadFile(model)
		if err != nil {
			t.Fatal(err)
		}
		m := &onnxpb.ModelProto{}
		if err := proto.Unmarshal(content, m); err != nil {
			t.Fatal(err)
		}
		m.Graph.Input[0].Type.TensorType.ElemType = proto.Int32(2)
		if content, err = proto.Marshal(m); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(model, content, 0o600); err != nil {
			t.Fatal(err)
		}
		args := []string{"compile", "--network", model, "--config", "tiny", "--calibrate", photos, "--evaluate", photos, "--onnxruntime=yes", "--out", filepath.Join(t.TempDir(), "own.sluice")}
		code, stdout, stderr := call(append([]string{"--json"}, args...)...)
		var doc struct {
			Evaluation struct {
				Exits []struct {
					Worst float64 `json:"distance_from_onnxruntime_worst"`
				} `json:"exits"`
			} `json:"evaluation"`
		}
		if err := json.Unmarshal([]byte(stdout), &doc); code != cli.OK || err != nil || len(doc.Evaluation.Exits) != 1 || !(doc.Evaluation.Exits[0].Worst < 0.003) {
			t.Errorf("%s: exit code %d, %v, %+v\n%s", name, code, err, doc, stderr)
		}
		for _, more := range []string{"--mean=0.5", "--calibrate=" + ownImages(t, 4, 10, 12, 3)} {
			if code, _, stderr := call(append(slices.Clone(args), more)...); code == cli.OK || !strings.Contains(stderr, "the network's input are bytes") {
				t.Errorf("%s %s: exit code %d: %s", name, more, code, stderr)
			}
		}
	}
}

// onnxruntime gets inputs in the file's type and layout: float16, doubles from floats, bytes, and channels last.
func TestEvaluateAsTheFileTakesIt(t *testing.T) {
	images := ownImages(t, 4, 5, 4, 2)
	weights := ownWeights("w", []float32{1, 2, 3, 4, 5, 6}, 3, 2, 1, 1)
	tail := []*onnxpb.NodeProto{ownNode("GlobalAveragePool", "g", []string{"c"}, nil, nil), ownNode("Flatten", "e", []string{"g"}, nil, nil)}
	last := ownModel(t, []int64{0, 5, 4, 2}, []*onnxpb.TensorProto{weights}, append([]*onnxpb.NodeProto{
		ownNode("Transpose", "t", []string{"x"}, map[string][]int64{"perm": {0, 3, 1, 2}}, nil), ownNode("Conv", "c", []string{"t", "w"}, nil, nil),
	}, tail...)...)
	half := ownModel(t, []int64{0, 2, 5, 4}, []*onnxpb.TensorProto{weights}, append([]*onnxpb.NodeProto{ownNode("Conv", "c", []string{"x", "w"}, nil, nil)}, tail...)...)
	content, err := os.ReadFile(half)
	if err != nil {
		t.Fatal(err)
	}
	m := &onnxpb.ModelProto{}
	if err := proto.Unmarshal(content, m); err != nil {
		t.Fatal(err)
	}
	for _, v := range append(m.Graph.Input, m.Graph.Output...) {
		v.Type.TensorType.ElemType = proto.Int32(10)
	}
	w := m.Graph.Initializer[0]
	w.DataType, w.FloatData = proto.Int32(10), nil
	w.Int32Data = []int32{0x3c00, 0x4000, 0x4200, 0x4400, 0x4500, 0x4600} // 1 to 6
	if content, err = proto.Marshal(m); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(half, content, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, model := range []string{last, half} {
		evaluateOwn(t, model, images)
	}
	for _, v := range append(m.Graph.Input, m.Graph.Output...) {
		v.Type.TensorType.ElemType = proto.Int32(11)
	}
	w.DataType, w.Int32Data, w.DoubleData = proto.Int32(11), nil, []float64{1, 2, 3, 4, 5, 6}
	if content, err = proto.Marshal(m); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(half, content, 0o600); err != nil {
		t.Fatal(err)
	}
	evaluateOwn(t, half, images)
	// if onnxruntime cannot run the model, there is neither a bundle nor a document
	newer(t, half)
	out := filepath.Join(t.TempDir(), "own.sluice")
	code, _, stderr := call("compile", "--network", half, "--config", "tiny", "--calibrate", images, "--evaluate", images, "--onnxruntime=yes", "--out", out)
	if code == cli.OK || !strings.Contains(stderr, "--onnxruntime=no") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	for _, path := range []string{out, out + ".json"} {
		if _, err := os.Stat(path); err == nil {
			t.Errorf("%s is there", path)
		}
	}
}

// A file of one size is compiled for another: onnxruntime runs at this size, also with weights in another file. If it
// fails, the message names a command that works without it.
func TestEvaluateAtAnotherSize(t *testing.T) {
	weights := ownWeights("w", []float32{1, 2, 3, 4, 5, 6}, 3, 2, 1, 1)
	head := []*onnxpb.NodeProto{ownNode("Conv", "c", []string{"x", "w"}, nil, nil), ownNode("GlobalAveragePool", "g", []string{"c"}, nil, nil)}
	images := ownImages(t, 2, 6, 6, 2)
	args := func(model string) []string {
		return []string{
			"compile", "--network", model, "--config", "tiny", "--input-side", "6", "--calibrate", images, "--evaluate", images,
			"--out", filepath.Join(t.TempDir(), "own.sluice"),
		}
	}
	outside := ownWeights("w", nil, 3, 2, 1, 1)
	outside.DataLocation = onnxpb.TensorProto_EXTERNAL.Enum()
	outside.ExternalData = []*onnxpb.StringStringEntryProto{{Key: proto.String("location"), Value: proto.String("w.bin")}}
	flat := ownNode("Flatten", "e", []string{"g"}, nil, nil)
	for i, w := range []*onnxpb.TensorProto{weights, outside} {
		model := ownModel(t, []int64{1, 2, 4, 4}, []*onnxpb.TensorProto{w}, append(head[:2:2], flat)...)
		var raw []byte
		for _, v := range weights.FloatData {
			raw, _ = binary.Append(raw, binary.LittleEndian, v)
		}
		if err := os.WriteFile(filepath.Join(filepath.Dir(model), "w.bin"), raw, 0o600); err != nil {
			t.Fatal(err)
		}
		if code, stdout, stderr := call(args(model)...); code != cli.OK || !strings.Contains(stdout, "as onnxruntime") || !strings.Contains(stdout, "100.00 %") {
			t.Errorf("model %d: exit code %d\n%s%s", i, code, stdout, stderr)
		}
	}
	model := ownModel(t, []int64{1, 2, 4, 4}, []*onnxpb.TensorProto{weights}, append(head[:2:2], flat)...)
	newer(t, model)
	if code, _, stderr := call(args(model)...); code == cli.OK || !strings.Contains(stderr, "onnxruntime cannot load it") || !strings.Contains(stderr, "; --onnxruntime=no does without") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	if code, _, stderr := call(append(args(model), "--onnxruntime=no")...); code != cli.OK {
		t.Errorf("without onnxruntime: exit code %d: %s", code, stderr)
	}
}

// Names that would move a terminal's cursor are escaped wherever they come from; onnxruntime still runs.
func TestUnprintableNames(t *testing.T) {
	const evil = "\n\x1b[31mred\u202e"
	head := ownNode("Flatten", evil+"e", []string{evil + "g"}, nil, nil)
	nodes := []*onnxpb.NodeProto{ownNode("Conv", evil+"c", []string{"x", evil}, nil, nil), ownNode("GlobalAveragePool", evil+"g", []string{evil + "c"}, nil, nil), head}
	w := ownWeights(evil, []float32{1, 2, 3, 4, 5, 6}, 3, 2, 1, 1)
	odd := ownNode(evil+"Op", "odd", []string{evil + "c"}, nil, nil)
	clean := func(what, text string) {
		if i := strings.IndexFunc(text, func(r rune) bool { return r != '\n' && !unicode.IsGraphic(r) }); i >= 0 || strings.Contains(text, "\n[") || strings.Contains(text, "\nred") {
			t.Errorf("%s: %q at %d of %q", what, text[max(i, 0):], i, text)
		}
	}
	exits := filepath.Join(t.TempDir(), "exits.yaml")
	if err := os.WriteFile(exits, []byte("exits: [\"\\n\\e[31mred\\u202ee\"]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	model := ownModel(t, []int64{1, 2, 4, 4}, []*onnxpb.TensorProto{w}, nodes...)
	images := ownImages(t, 2, 4, 4, 2)
	code, stdout, stderr := call("compile", "--network", model, "--config", "tiny", "--exits", exits, "--calibrate", images, "--evaluate", images,
		"--onnxruntime=yes", "--out", filepath.Join(t.TempDir(), "own.sluice"))
	clean("compile", stdout+stderr)
	if code != cli.OK || !strings.Contains(stdout, `\n\x1b[31mred\u202ee`) || !strings.Contains(stdout, "as onnxruntime") {
		t.Errorf("compile: exit code %d\n%s%s", code, stdout, stderr)
	}
	for _, args := range [][]string{{"operators", model}, {"explain", "--network", model, "--exits", exits, "--config", "tiny"}} {
		code, stdout, stderr := call(args...)
		clean(args[0], stdout+stderr)
		if args[0] == "explain" && code != cli.OK {
			t.Errorf("explain: exit code %d\n%s", code, stderr)
		}
	}
	model = ownModel(t, []int64{1, 2, 4, 4}, []*onnxpb.TensorProto{w}, append(nodes[:1:1], odd, ownNode(evil+"Op", "e", []string{"odd"}, nil, nil))...)
	for _, args := range [][]string{{"operators", model}, {"compile", "--network", model, "--config", "tiny", "--out", filepath.Join(t.TempDir(), "x")}} {
		code, stdout, stderr := call(args...)
		clean(args[0], stdout+stderr)
		if code == cli.OK || !strings.Contains(stdout+stderr, `\n\x1b[31mred\u202eOp`) {
			t.Errorf("%s: exit code %d\n%s%s", args[0], code, stdout, stderr)
		}
	}
}

// If onnxruntime uses another divisor, the node is named.
func TestEvaluateOverhanging(t *testing.T) {
	for ceil, named := range []bool{false, true} {
		model := ownModel(
			t, []int64{1, 2, 4, 4}, []*onnxpb.TensorProto{ownWeights("w", []float32{1, 2, 3, 4, 5, 6}, 3, 2, 1, 1)},
			ownNode("Conv", "c", []string{"x", "w"}, nil, nil),
			ownNode("AveragePool", "hangs", []string{"c"}, map[string][]int64{"kernel_shape": {3, 3}, "strides": {2, 2}, "pads": {1, 1, 1, 1}},
				map[string]int64{"ceil_mode": int64(ceil), "count_include_pad": 1}),
			ownNode("GlobalAveragePool", "g", []string{"hangs"}, nil, nil), ownNode("Flatten", "e", []string{"g"}, nil, nil),
		)
		if said := evaluateOwn(t, model, ownImages(t, 2, 4, 4, 2)); strings.Contains(said, `node "hangs"`) != named {
			t.Errorf("ceil_mode %d: %q", ceil, said)
		}
	}
}

// Convolutions with windows entirely in the padding are compiled, and logits equal onnxruntime's.
func TestEvaluatePadding(t *testing.T) {
	w := make([]float32, 3*2*2*3)
	for i := range w {
		w[i] = float32(i%5)/4 - 0.4
	}
	head := make([]float32, 3*3*8*14)
	for i := range head {
		head[i] = float32(i%11)/16 - 0.3
	}
	model := ownModel(
		t, []int64{1, 2, 4, 4}, []*onnxpb.TensorProto{
			ownWeights("w", w, 3, 2, 2, 3), ownWeights("b", []float32{0.5, -0.25, 1}, 3), ownWeights("h", head, 3, 3*8*14),
		},
		ownNode("Conv", "c", []string{"x", "w", "b"}, map[string][]int64{"pads": {2, 8, 3, 4}}, nil),
		ownNode("Flatten", "f", []string{"c"}, nil, nil), ownNode("Gemm", "e", []string{"f", "h"}, nil, map[string]int64{"transB": 1}),
	)
	images := ownImages(t, 3, 4, 4, 2)
	code, stdout, stderr := call("compile", "--network", model, "--config", "tiny", "--calibrate", images, "--evaluate", images, "--onnxruntime=yes",
		"--json", "--out", filepath.Join(t.TempDir(), "own.sluice"))
	if code != 0 {
		t.Fatalf("status %d: %s", code, stderr)
	}
	exit := checkDoc(t, stdout, "evaluation")["evaluation"].(map[string]any)["exits"].([]any)[0].(map[string]any)
	if worst, _ := exit["distance_from_onnxruntime_worst"].(float64); !(worst > 0 && worst < 0.003) {
		t.Errorf("logits are off by %v", exit["distance_from_onnxruntime_worst"])
	}
}

// For a user's own network, the output states that nothing was counted, and the law's error on random layers and on the
// starts of all networks, not of one.
func TestOwnBand(t *testing.T) {
	model := ownModel(t, []int64{1, 4}, []*onnxpb.TensorProto{ownWeights("w", make([]float32, 12), 3, 4)},
		ownNode("Gemm", "e", []string{"x", "w"}, nil, map[string]int64{"transB": 1}))
	space := []string{"--board", "zc706", "--tp", "4", "--tc", "16", "--tr", "64"}
	mean := map[string]float64{}
	for _, network := range []string{"tiny", model} {
		args := append([]string{"sweep", "--network", network}, space...)
		code, stdout, stderr := call(args...)
		if code != 0 || !strings.Contains(stdout, "counted") || !strings.Contains(stdout, "tensors that it keeps on chip") || strings.Contains(stdout, "; its ") != (network == "tiny") {
			t.Fatalf("%s: status %d\n%s%s", network, code, stdout, stderr)
		}
		code, stdout, _ = call(append(args, "--json")...)
		if code != 0 {
			t.Fatal(code)
		}
		band := checkDoc(t, stdout, "cycles_band")["cycles_band"].(map[string]any)
		mean[network] = band["mean"].(float64)
		if random := band["random_layers"].(map[string]any)["mean"].(float64); network == model && mean[network] < random {
			t.Errorf("%s: %v", network, band)
		}
	}
	if mean[model] == mean["tiny"] {
		t.Errorf("bands %v", mean)
	}
	code, stdout, _ := call("compare", "--network", "tiny", "--a", "tiny", "--b", "mid")
	if code != 0 || !strings.Contains(stdout, "on chip") || !strings.Contains(stdout, "  in, out  ") {
		t.Errorf("compare: %d %s", code, stdout)
	}
}

// Floats are rejected for an input of bytes, for calibration and evaluation.
func TestBytesFromFloats(t *testing.T) {
	path := ownModel(t, []int64{1, 1, 4, 4}, []*onnxpb.TensorProto{ownWeights("w", make([]float32, 48), 16, 3)},
		ownNode("Cast", "c", []string{"x"}, nil, map[string]int64{"to": 1}), ownNode("Flatten", "f", []string{"c"}, nil, nil), ownNode("MatMul", "y", []string{"f", "w"}, nil, nil))
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var m onnxpb.ModelProto
	if err := proto.Unmarshal(content, &m); err != nil {
		t.Fatal(err)
	}
	m.Graph.Input[0].Type.TensorType.ElemType = proto.Int32(2)
	if content, err = proto.Marshal(&m); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, use := range []string{"--calibrate", "--evaluate"} {
		code, _, stderr := call("compile", "--network", path, "--config", "tiny", use, ownImages(t, 4, 4, 4, 1), "--out", filepath.Join(t.TempDir(), "own.sluice"))
		if code != cli.Input || !strings.Contains(stderr, "the network's input are bytes; give it pictures") {
			t.Errorf("%s: status %d: %s", use, code, stderr)
		}
	}
}

// A copy of a configuration with other parameters needs another name, because builds and devices are found by it. An
// unchanged copy is the same design.
func TestCompileOwnName(t *testing.T) {
	d, err := configs.Load("tiny")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]struct{ ring, code int }{"tiny": {1, cli.OK}, "mine": {2, cli.OK}, "tiny changed": {2, cli.Input}} {
		c := d
		c.Name, c.WRingBeats = strings.Fields(name)[0], d.WRingBeats*want.ring
		text, err := yaml.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		config := filepath.Join(t.TempDir(), "other.yaml")
		if err := os.WriteFile(config, text, 0o600); err != nil {
			t.Fatal(err)
		}
		code, _, stderr := call("compile", "--network", "tiny", "--config", config, "--out", filepath.Join(t.TempDir(), "own.sluice"))
		if code != want.code || code == cli.Input && !strings.Contains(stderr, config+": name: expected one of its own") {
			t.Errorf("%s: exit code %d, expected %d\n%s", name, code, want.code, stderr)
		}
	}
}
