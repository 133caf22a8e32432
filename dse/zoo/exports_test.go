package zoo_test

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/binary"
	"flag"
	"fmt"
	"hash/fnv"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/sluice-npu/sluice/boards"
	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/dse/compile"
	"github.com/sluice-npu/sluice/dse/cost"
	"github.com/sluice-npu/sluice/dse/golden"
	"github.com/sluice-npu/sluice/dse/graph"
	"github.com/sluice-npu/sluice/dse/mapping"
	"github.com/sluice-npu/sluice/dse/onnx"
	"github.com/sluice-npu/sluice/dse/onnx/onnxpb"
	"github.com/sluice-npu/sluice/dse/quant"
	"github.com/sluice-npu/sluice/dse/resource"
	"github.com/sluice-npu/sluice/dse/search"
	"github.com/sluice-npu/sluice/hw/configs"
)

// full tests every network at its own size, all of them with onnxruntime (make weekly: minutes, and several times the
// memory of VGG-19's weights).
var full = flag.Bool("full", false, "every exported network at its own size, and against onnxruntime")

// exported is one of torchvision's networks, as exported by exports.py.
type exported struct {
	name   string
	side   int  // side of the input in the short test
	large  bool // without -full only its shapes are tested, with one exporter
	oracle bool // compared with onnxruntime in the short test too
	again  bool // with -full only: another network has all its layers

	on string // design to compile for, default zc706; a sweep must yield the bundle's cycles on it and on the other designs
}

var designs = []string{"run", "mid", "kv260"}

var networks = []exported{
	{name: "densenet121", side: 64, oracle: true, on: "mid"},
	{name: "googlenet", side: 64, oracle: true, on: "run"},
	{name: "inception_v3", side: 107, on: "kv260"},
	{name: "inception_v3_exit", large: true},
	{name: "mnasnet1_0", side: 64, oracle: true},
	{name: "mobilenet_v2", side: 64, oracle: true},
	{name: "resnet18", side: 64, oracle: true},
	{name: "resnet34", side: 64},
	{name: "resnet50", side: 64},
	{name: "resnet101", large: true},
	{name: "resnet152", large: true},
	{name: "squeezenet1_0", side: 64},
	{name: "squeezenet1_1", side: 64, oracle: true},
	{name: "squeezenet1_1_normalised", side: 64, oracle: true},
	{name: "vgg11", large: true, again: true},
	{name: "vgg11_bn", large: true},
	{name: "vgg16", large: true, again: true},
	{name: "vgg19", large: true},
}

var exporters = []string{"script", "dynamo"}

// TestExports compiles torchvision's networks, as written by both of PyTorch's exporters, to a bundle for the ZC706.
// For the smaller ones it also compares logits with onnxruntime's: float32 and the golden executor's. Their weights are
// in a file beside the model, as written by PyTorch.
func TestExports(t *testing.T) {
	files, err := filepath.Glob("testdata/exports/*.onnx.gz")
	if err != nil || len(files) != len(networks)*len(exporters) {
		t.Fatalf("%d models, expected %d networks of %d exporters: %v", len(files), len(networks), len(exporters), err)
	}
	for _, n := range networks {
		d := design(t, cmp.Or(n.on, "zc706"))
		if n.again && !*full {
			continue
		}
		t.Run(n.name, func(t *testing.T) {
			if n.large && !*full {
				n.lower(t, exporters[1], d)
				return
			}
			var shapes [][]cost.Geom
			for i, exporter := range exporters {
				shapes = append(shapes, n.check(t, exporter, d, i == 0 || n.oracle || *full))
			}
			if t.Failed() {
				return
			}
			if diff := gocmp.Diff(shapes[0], shapes[1]); diff != "" {
				t.Errorf("the exporters' networks differ (-%s +%s):\n%s", exporters[0], exporters[1], diff)
			}
		})
	}
}

// check returns the resulting layers; only with numbers it also compiles them to a bundle.
func (n exported) check(t *testing.T, exporter string, d configs.Design, numbers bool) (layers []cost.Geom) {
	side := n.side
	if *full {
		side = 0
	}
	model := load(t, n.name, exporter)
	if side != 0 {
		shrink(model, side)
	}
	file := filepath.Join(t.TempDir(), n.name+".onnx")
	fill(t, model, file)
	g, err := onnx.ImportFile(file, onnx.Options{})
	if err != nil {
		t.Fatal(err)
	}
	layers = lowered(t, g, d)
	if !numbers {
		return layers
	}
	in := g.Tensors[g.Input]
	rng := rand.New(rand.NewPCG(1, 2))
	image := make([]float32, in.Elems())
	for i := range image {
		image[i] = 2*rng.Float32() - 1
	}
	q, err := quant.Quantise(g, [][]float32{image}, quant.Options{})
	if err != nil {
		t.Fatal(err)
	}
	b, err := compile.Compile(q, d, compile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if n.on != "" && exporter == exporters[0] {
		swept(t, g, d, b)
		for _, name := range designs {
			if name == n.on {
				continue
			}
			other := design(t, name)
			b, err := compile.Compile(q, other, compile.Options{})
			if err != nil {
				t.Fatal(err)
			}
			swept(t, g, other, b)
		}
	}
	if !n.oracle && !*full {
		return layers
	}
	tensors, err := graph.Run(g, image)
	if err != nil {
		t.Fatal(err)
	}
	p, err := golden.New(b)
	if err != nil {
		t.Fatal(err)
	}
	input := make([]int16, len(image))
	q.Input(input, image)
	exits, err := p.Run(input)
	if err != nil {
		t.Fatal(err)
	}
	want := oracle(t, file, in, image)
	if len(want) != len(g.Exits) {
		t.Fatalf("%d exits, onnxruntime has %d", len(g.Exits), len(want))
	}
	for i, e := range g.Exits {
		fixed := make([]float32, len(exits[i]))
		for k, v := range exits[i] {
			fixed[k] = float32(math.Ldexp(float64(v), -b.Network.Exits[i].Frac))
		}
		float := slices.Clone(tensors[e.Tensor])
		if softmaxed(model, e.Name) {
			softmax(float)
			softmax(fixed)
		}
		k := slices.IndexFunc(model.Graph.Output, func(v *onnxpb.ValueInfoProto) bool { return v.GetName() == e.Name })
		// The sum of 16-bit rounding in up to 256 layers, against a float32 that rounds differently.
		f, x := apart(float, want[k]), apart(fixed, want[k])
		t.Logf("%s, exit %s: float32 %.1e, golden %.1e of the largest logit from onnxruntime", exporter, e.Name, f, x)
		if !(f < 1e-4) || !(x < 0.02) {
			t.Errorf("%s, exit %s: float32 is %.2g, golden %.2g of the largest logit away from onnxruntime", exporter, e.Name, f, x)
		}
	}
	return layers
}

// design returns a configuration, or one of the designs of a sweep for the kv260.
func design(t *testing.T, name string) configs.Design {
	t.Helper()
	if name != "kv260" {
		d, err := configs.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	b, err := boards.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	d := design(t, "zcu104")
	d.Board, d.ClockMHz, d.NAXI, d.AXIBytes = b.Name, b.ClockMHz, b.Ports.NAXI, b.Ports.AXIBytes
	d.WRingBeats = resource.Ring(b, d)
	grid, err := search.NewGrid(b, d)
	if err != nil {
		t.Fatal(err)
	}
	if d, err = grid.At(1024, 8, 64); err != nil {
		t.Fatal(err)
	}
	return d
}

// swept fails if a sweep's cycles of a design differ from those of the bundle, for any segment and batch.
func swept(t *testing.T, g *graph.Graph, d configs.Design, b *bundle.Bundle) {
	t.Helper()
	w, err := search.NewWorkload(g)
	if err != nil {
		t.Fatal(err)
	}
	var want search.Cycles
	for i := range want {
		for _, x := range b.Network.Exits {
			c, err := cost.Segment(d, b.Layers, b.FBCB, x.First, x.Last, i+1)
			if err != nil {
				t.Fatal(err)
			}
			want[i] = append(want[i], c)
		}
	}
	if _, err := w.Map(d, mapping.RTL(), want); err != nil {
		t.Errorf("on %s: the bundle has the former cycles: %v", d.Board+d.Name, err)
	}
}

// lower compiles a network at its own size as far as possible without its numbers: to layers, each with an entry for
// batches of 1 and of 8.
func (n exported) lower(t *testing.T, exporter string, d configs.Design) {
	g, err := onnx.Import(bytes.NewReader(read(t, n.name, exporter)), onnx.Options{Name: n.name})
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range lowered(t, g, d) {
		for _, batch := range []int{1, 8} {
			if _, _, err := mapping.Choose(d, l, batch, mapping.RTL()); err != nil {
				t.Errorf("layer %+v, batch %d: %v", l, batch, err)
			}
		}
	}
}

// lowered returns a network's layers on a design.
func lowered(t *testing.T, g *graph.Graph, d configs.Design) (geoms []cost.Geom) {
	t.Helper()
	w, err := search.NewWorkload(g)
	if err != nil {
		t.Fatal(err)
	}
	layers, err := w.Lower(d)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range layers {
		geoms = append(geoms, l.Geom)
	}
	return geoms
}

func read(t *testing.T, name, exporter string) []byte {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", "exports", name+"."+exporter+".onnx.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func load(t *testing.T, name, exporter string) *onnxpb.ModelProto {
	t.Helper()
	model := &onnxpb.ModelProto{}
	if err := proto.Unmarshal(read(t, name, exporter), model); err != nil {
		t.Fatal(err)
	}
	return model
}

// shrink changes the network's input size; the reader computes the other shapes.
func shrink(model *onnxpb.ModelProto, side int) {
	dims := model.Graph.Input[0].GetType().GetTensorType().GetShape().Dim
	for _, d := range dims[2:] {
		d.Value = &onnxpb.TensorShapeProto_Dimension_DimValue{DimValue: int64(side)}
	}
}

// fill draws the weights that the fixture does not contain, and writes the model as PyTorch does: weights in a file
// beside it, in sequence.
func fill(t *testing.T, model *onnxpb.ModelProto, file string) {
	t.Helper()
	type use struct {
		op    string
		input int
	}
	uses := map[string]use{}
	for _, n := range slices.Backward(model.Graph.Node) {
		for i, in := range n.Input {
			uses[in] = use{n.GetOpType(), i}
			if n.GetOpType() == "Identity" {
				uses[in] = uses[n.Output[0]]
			}
		}
	}
	data, err := os.Create(file + ".data")
	if err != nil {
		t.Fatal(err)
	}
	defer data.Close()
	at := 0
	for _, w := range model.Graph.Initializer {
		if w.GetDataType() != 1 || len(w.Dims) == 0 || len(w.RawData) > 0 {
			continue
		}
		elems := 1
		for _, d := range w.Dims {
			elems *= int(d)
		}
		mean, deviation := 0., 0.05
		switch u := uses[w.GetName()]; {
		case (u.op == "Conv" || u.op == "Gemm") && u.input == 1:
			deviation = math.Sqrt(2 / (float64(elems) / float64(w.Dims[0])))
		case u.op == "BatchNormalization" && (u.input == 1 || u.input == 4), u.op == "Div", u.op == "Mul":
			mean, deviation = 1, 0.1
		}
		h := fnv.New64a()
		h.Write([]byte(w.GetName()))
		rng := rand.New(rand.NewPCG(1, h.Sum64()))
		raw := make([]byte, 0, 4*elems)
		for range elems {
			raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(float32(mean+deviation*rng.NormFloat64())))
		}
		if _, err := data.Write(raw); err != nil {
			t.Fatal(err)
		}
		w.DataLocation = onnxpb.TensorProto_EXTERNAL.Enum()
		for _, p := range [][2]string{{"location", filepath.Base(file) + ".data"}, {"offset", fmt.Sprint(at)}, {"length", fmt.Sprint(len(raw))}} {
			w.ExternalData = append(w.ExternalData, &onnxpb.StringStringEntryProto{Key: &p[0], Value: &p[1]})
		}
		at += len(raw)
	}
	model.MetadataProps = nil
	content, err := proto.Marshal(model)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// oracle returns onnxruntime's logits for one H x W x C image.
func oracle(t *testing.T, file string, in graph.Tensor, image []float32) (exits [][]float32) {
	t.Helper()
	python := "../../build/venv/bin/python"
	if _, err := os.Stat(python); err != nil {
		t.Fatalf("python with onnxruntime: %v; make setup builds it", err)
	}
	var raw []byte
	for c := range in.C {
		for p := range in.H * in.W {
			raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(image[p*in.C+c]))
		}
	}
	if err := os.WriteFile(file+".image", raw, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(python, "oracle.py", "--model", file, "--raw", file+".image",
		"--shape", fmt.Sprintf("1,%d,%d,%d", in.C, in.H, in.W), "--out", file+".logits")
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("oracle.py: %v: %s", err, text)
	}
	text, err := os.ReadFile(file + ".logits")
	if err != nil {
		t.Fatal(err)
	}
	r := bytes.NewReader(text)
	head := make([]uint32, 4) // magic, version, images, exits: host/cmd/sluice checks them
	if err := binary.Read(r, binary.LittleEndian, head); err != nil {
		t.Fatal(err)
	}
	classes := make([]uint32, head[3])
	if err := binary.Read(r, binary.LittleEndian, classes); err != nil {
		t.Fatal(err)
	}
	for _, n := range classes {
		logits := make([]float32, n)
		if err := binary.Read(r, binary.LittleEndian, logits); err != nil {
			t.Fatal(err)
		}
		exits = append(exits, logits)
	}
	return exits
}

// softmaxed reports whether an output is a Softmax's, which Sluice leaves to the host.
func softmaxed(model *onnxpb.ModelProto, output string) bool {
	return slices.ContainsFunc(model.Graph.Node, func(n *onnxpb.NodeProto) bool {
		return n.GetOpType() == "Softmax" && n.Output[0] == output
	})
}

func softmax(x []float32) {
	sum, most := 0., slices.Max(x)
	for _, v := range x {
		sum += math.Exp(float64(v - most))
	}
	for i, v := range x {
		x[i] = float32(math.Exp(float64(v-most)) / sum)
	}
}

// apart returns the largest distance, as a share of the largest value of want.
func apart(got, want []float32) float64 {
	if len(got) != len(want) {
		return math.Inf(1)
	}
	distance, most := 0., 0.
	for i := range want {
		distance, most = max(distance, math.Abs(float64(got[i]-want[i]))), max(most, math.Abs(float64(want[i])))
	}
	return distance / most
}
