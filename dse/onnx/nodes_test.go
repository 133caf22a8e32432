package onnx

import (
	"errors"
	"flag"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/sluice-npu/sluice/dse/graph"
	"github.com/sluice-npu/sluice/dse/onnx/onnxpb"
)

var nodes = flag.String("onnx.nodes", "", "folder of onnx' own node tests, as testdata/nodes.py writes it")

// finishedAs returns the file's output for an exit's logits.
func finishedAs(g *graph.Graph, e *graph.Exit, logits []float32) []float32 {
	out := make([]float32, len(logits))
	sigmoid := func(v float32) float32 { return float32(1 / (1 + math.Exp(-float64(v)))) }
	switch e.Activation {
	case "Softmax", "LogSoftmax":
		channels := g.Tensors[e.Tensor].C
		if len(e.Dims) == 1 {
			channels = len(logits)
		}
		for at := 0; at < len(logits); at += channels {
			sum, most := 0.0, float64(slices.Max(logits[at:at+channels]))
			for _, v := range logits[at : at+channels] {
				sum += math.Exp(float64(v) - most)
			}
			for i, v := range logits[at : at+channels] {
				if out[at+i] = float32(math.Exp(float64(v)-most) / sum); e.Activation == "LogSoftmax" {
					out[at+i] = float32(float64(v) - most - math.Log(sum))
				}
			}
		}
	case "HardSigmoid":
		for i, v := range logits {
			out[i] = min(max(v/4+0.5, 0), 1)
		}
	case "Sigmoid":
		for i, v := range logits {
			out[i] = sigmoid(v)
		}
	default:
		copy(out, logits)
	}
	return out
}

// nodeTest runs one of onnx' node tests, sample by sample; it returns the error of a refusal, and how far off the output is.
func nodeTest(t *testing.T, path string) (off float64, refused error) {
	g, err := ImportFile(path, Options{Post: true})
	if err != nil {
		return 0, err
	}
	stored := readFloats(t, strings.TrimSuffix(path, ".onnx")+".bin")
	in := g.Tensors[g.Input]
	elems := in.Elems()
	for _, e := range g.Exits {
		elems += g.Tensors[e.Tensor].Elems()
	}
	if len(stored)%elems != 0 {
		return math.Inf(1), nil // another number of elements than the file's
	}
	samples := len(stored) / elems
	want := stored[samples*in.Elems():]
	outputs := map[string][]float32{}
	for _, e := range fileOrder(t, path, g) {
		n := samples * g.Tensors[e.Tensor].Elems()
		outputs[e.Name], want = want[:n], want[n:]
	}
	for s := range samples {
		x := stored[s*in.Elems() : (s+1)*in.Elems()]
		if !g.ChannelsLast {
			x = channelsLast(x, 1, in.C, in.H, in.W)
		}
		tensors, err := graph.Run(g, x)
		if err != nil {
			t.Fatal(err)
		}
		for i := range g.Exits {
			e := &g.Exits[i]
			n := g.Tensors[e.Tensor].Elems()
			want, err := e.FromFile(outputs[e.Name][s*n : (s+1)*n])
			if err != nil {
				return math.Inf(1), nil
			}
			for k, v := range finishedAs(g, e, tensors[e.Tensor]) {
				if d := math.Abs(float64(v-want[k])) / (1 + math.Abs(float64(want[k]))); !(d <= off) {
					off = d
				}
			}
		}
	}
	return off, nil
}

// fileOrder lists a graph's exits as its file does.
func fileOrder(t *testing.T, path string, g *graph.Graph) []graph.Exit {
	t.Helper()
	var names []string
	for _, v := range readModel(t, path).GetGraph().GetOutput() {
		names = append(names, v.GetName())
	}
	exits := slices.Clone(g.Exits)
	slices.SortFunc(exits, func(a, b graph.Exit) int { return slices.Index(names, a.Name) - slices.Index(names, b.Name) })
	return exits
}

// Import computes onnx' own node tests correctly, or refuses them with a reason.
func TestNodes(t *testing.T) {
	if *nodes == "" {
		t.Skip("no -onnx.nodes: the files come with the Python package onnx")
	}
	files, err := filepath.Glob(filepath.Join(*nodes, "*.onnx"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d models in %s: %v", len(files), *nodes, err)
	}
	accepted, unsupported, others := 0, map[string]int{}, map[string][]string{}
	for _, path := range files {
		name := strings.TrimSuffix(filepath.Base(path), ".onnx")
		off, refused := nodeTest(t, path)
		var ops *UnsupportedError
		switch {
		case errors.As(refused, &ops):
			unsupported[ops.Ops[0].Op]++
		case refused != nil:
			others[refused.Error()] = append(others[refused.Error()], name)
		case !(off < 1e-3):
			t.Errorf("%s: accepted, and %v off", name, off)
		default:
			accepted++
			t.Logf("accepted: %s", name)
		}
	}
	t.Logf("%d of %d accepted", accepted, len(files))
	t.Logf("operators that are not known: %v", unsupported)
	for why, names := range others {
		t.Logf("refused: %s: %v", why, names)
	}
}

func readModel(t *testing.T, path string) *onnxpb.ModelProto {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	m := &onnxpb.ModelProto{}
	if err := proto.Unmarshal(content, m); err != nil {
		t.Fatal(err)
	}
	return m
}
