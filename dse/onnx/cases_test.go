package onnx

import (
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-npu/sluice/dse/graph"
	"github.com/sluice-npu/sluice/hw/abi"
)

var ops = flag.String("onnx.ops", "testdata/ops", "folder of models and what onnxruntime makes of them, as testdata/cases.py writes it")

// TestOperators compares the imported and fused network, executed in float32, with onnxruntime's logits, which
// testdata/cases.py has stored. Operators that only designs with post can run are refused for other designs.
func TestOperators(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(*ops, "*.onnx"))
	if err != nil || len(files) < 30 {
		t.Fatalf("%d models in testdata/ops: %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".onnx"), func(t *testing.T) {
			stored := readFloats(t, strings.TrimSuffix(file, ".onnx")+".bin")
			for _, o := range []Options{{}, {Post: true}, {Post: true, Gates: true}} {
				g, err := ImportFile(file, o)
				if !o.Post && strings.HasPrefix(filepath.Base(file), "post_") {
					if !errors.Is(err, ErrUnsupported) || !strings.Contains(err.Error(), "a design with post: true") {
						t.Errorf("without post: %v", err)
					}
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				in := g.Tensors[g.Input]
				x := stored[:in.Elems()]
				if !g.ChannelsLast {
					x = channelsLast(x, 1, in.C, in.H, in.W)
				}
				tensors, err := graph.Run(g, x)
				if err != nil {
					t.Fatal(err)
				}
				want := stored[in.Elems():]
				for _, e := range g.Exits {
					stored, err := e.FromFile(want[:len(tensors[e.Tensor])])
					if err != nil {
						t.Fatal(err)
					}
					out := tensors[e.Tensor]
					if strings.Contains(file, "ends_") { // the stored answers of these cases include the output's activation
						if out = finishedAs(g, &e, out); !o.Post && e.Activation == "" {
							t.Errorf("exit %+v: expected an activation that is left to the host", e)
						}
					}
					for i, got := range out {
						if diff := math.Abs(float64(got - stored[i])); !(diff < 2e-5) {
							t.Fatalf("exit %s, element %d: %v, onnxruntime has %v", e.Name, i, got, stored[i])
						}
					}
					want = want[len(tensors[e.Tensor]):]
				}
				if len(want) != 0 {
					t.Errorf("%d logits are left over", len(want))
				}
			}
		})
	}
}

// With Gates, a function x * g(x) is a curve of g and a product; others stay one curve.
func TestGates(t *testing.T) {
	for _, c := range []struct {
		kind, gate string
	}{{"Sigmoid", "Sigmoid(x)"}, {"HardSwish", "Clip(Line(x, 0.166667, 0.5), 0, 1)"}, {"Gelu", "Line(Erf(Line(x, 0.707107, 0)), 0.5, 0.5)"}, {"Tanh", ""}} {
		b := build(1, 4, 6, 6).weight("w", 4, 4, 1, 1).op("Conv", "c", in("x", "w")).op(c.kind, "f", in("c"))
		out, ops, at := "f", []graph.Op{graph.Conv}, 0
		if c.kind == "Sigmoid" {
			b, out = b.op("Mul", "y", in("c", "f")), "y"
		}
		if c.gate != "" {
			ops, at = []graph.Op{graph.Conv, graph.Conv, graph.Mul}, 1
		}
		g, err := b.outputs(out).load(t, Options{Post: true, Gates: true})
		if err != nil {
			t.Fatal(err)
		}
		var have []graph.Op
		for _, n := range g.Nodes {
			have = append(have, n.Op)
		}
		if f := g.Nodes[at].Function; !slices.Equal(have, ops) || f == nil || c.gate != "" && f.String() != c.gate {
			t.Errorf("%s: layers %v, the function %v, expected %v and %s", c.kind, have, f, ops, c.gate)
		}
	}
}

// The first functions become gates: as many as the layers of a bundle and the elements of all maps allow.
func TestGatesFit(t *testing.T) {
	for _, c := range []struct{ functions, side, gates int }{{90, 4, 72}, {30, 4, 30}, {2, 7000, 0}} {
		b := build(1, 1, int64(c.side), int64(c.side)).weight("w", 1, 1, 1, 1)
		x := "x"
		for i := range c.functions {
			y, z := fmt.Sprint("c", i), fmt.Sprint("h", i)
			b.op("Conv", y, in(x, "w")).op("HardSwish", z, in(y))
			x = z
		}
		g, err := b.outputs(x).load(t, Options{Post: true, Gates: true})
		if err != nil {
			t.Fatal(err)
		}
		gates := 0
		for gates < c.functions && 3*gates+2 < len(g.Nodes) && g.Nodes[3*gates+2].Op == graph.Mul {
			gates++
		}
		if gates != c.gates || len(g.Nodes) != c.functions+2*gates || len(g.Nodes) > abi.LMax {
			t.Errorf("%d functions: %d gates, expected %d; %d layers", c.functions, gates, c.gates, len(g.Nodes))
		}
	}
}

func readFloats(t *testing.T, path string) []float32 {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	values := make([]float32, len(content)/4)
	if err := binary.Read(bytes.NewReader(content), binary.LittleEndian, values); err != nil {
		t.Fatal(err)
	}
	return values
}

// The graph says which function an output applies to its logits. At other places a Sigmoid is refused.
func TestActivation(t *testing.T) {
	g, err := ImportFile("testdata/ops/sigmoid.onnx", Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range g.Exits {
		if e.Activation != "Sigmoid" {
			t.Errorf("exit %+v, expected a Sigmoid", e)
		}
	}
	if g, err = ImportFile("testdata/ops/log_softmax.onnx", Options{}); err != nil {
		t.Fatal(err)
	}
	if a, b := g.Exits[0].Activation, g.Exits[1].Activation; a+b != "LogSoftmaxSoftmax" && a+b != "SoftmaxLogSoftmax" {
		t.Errorf("exits end in %q and %q", a, b)
	}
	if g, err = ImportFile("testdata/ops/post_ends_gate.onnx", Options{Post: true}); err != nil {
		t.Fatal(err)
	}
	if a, b := g.Exits[0].Activation, g.Exits[1].Activation; a != "Sigmoid" || b != "" {
		t.Errorf("a Sigmoid that is an output and a gate, and what it opens: %q and %q", a, b)
	}
	inside := good().op("Sigmoid", "gate", in("c")).op("GlobalAveragePool", "pooled", in("gate")).op("Flatten", "out", in("pooled")).outputs("out")
	var refused *UnsupportedError
	if _, err := Import(bytes.NewReader(inside.bytes(t)), Options{}); !errors.As(err, &refused) || len(refused.Ops) != 1 || refused.Ops[0].Op != "Sigmoid" || strings.Contains(err.Error(), "supported are") {
		t.Errorf("a Sigmoid inside: %v", err)
	}
}
