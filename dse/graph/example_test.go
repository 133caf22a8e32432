package graph_test

import (
	"fmt"

	"github.com/sluice-npu/sluice/dse/graph"
)

// A network with one layer and one exit: a fully connected layer is a convolution over the whole map.
func ExampleRun() {
	g := &graph.Graph{
		Name:    "sum and difference",
		Input:   0,
		Tensors: []graph.Tensor{{Name: "in", H: 1, W: 1, C: 2}, {Name: "out", H: 1, W: 1, C: 2}},
		Nodes: []graph.Node{{
			Name: "fc", Op: graph.Conv, Inputs: []graph.TensorID{0}, Output: 1,
			Window: graph.Window{KH: 1, KW: 1, SH: 1, SW: 1}, Groups: 1,
			Weights: []float32{1, 1, 1, -1}, Bias: []float32{0, 0}, Residual: graph.None,
			ClampLo: -100, ClampHi: 100,
		}},
		Exits:   []graph.Exit{{Name: "end", Tensor: 1}},
		Segment: []int{0},
	}
	if err := g.Check(); err != nil {
		fmt.Println(err)
		return
	}
	tensors, err := graph.Run(g, []float32{3, 4})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(tensors[g.Exits[0].Tensor], g.TotalMACs())
	// Output: [7 -1] 4
}
