package onnx

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/sluice-npu/sluice/dse/graph"
)

// FuzzImport: for any bytes, Import returns an error, or a graph that passes its Check and, if it is small, runs.
func FuzzImport(f *testing.F) {
	files, err := filepath.Glob("testdata/ops/*.onnx")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range append(files, "../zoo/tiny.onnx") {
		content, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(content)
	}
	f.Add([]byte{})
	f.Add([]byte("not a model"))
	f.Add(good().bytes(f))
	f.Add(good().seeded().bytes(f))
	cyclic := good()
	cyclic.m.Graph.Node[0].Input[0] = "r"
	f.Add(cyclic.bytes(f))
	huge := good()
	huge.m.Graph.Initializer[0].Dims = []int64{1 << 62, 1 << 62}
	f.Add(huge.bytes(f))
	absent := good().seeded()
	absent.m.Graph.Initializer[0].FloatData = nil
	f.Add(absent.bytes(f))
	f.Fuzz(func(t *testing.T, content []byte) {
		g, err := Import(bytes.NewReader(content), Options{MaxBytes: 1 << 20})
		if err != nil {
			return
		}
		if err := g.Check(); err != nil {
			t.Fatal(err)
		}
		work := g.TotalMACs()
		for n := range g.Nodes {
			node := &g.Nodes[n]
			work += int64(g.Tensors[node.Output].Elems()) * int64(max(node.Window.KH*node.Window.KW, 1))
		}
		if work > 1<<20 {
			return
		}
		if _, err := graph.Run(g, make([]float32, g.Tensors[g.Input].Elems())); err != nil {
			t.Fatal(err)
		}
	})
}
