package alias_test

import (
	"fmt"
	"math"

	"github.com/sluice-npu/sluice/dse/alias"
	"github.com/sluice-npu/sluice/dse/graph"
)

// Two convolutions write their outputs into the pixels of the concatenation behind them, and are one layer.
func ExampleOf() {
	inf := float32(math.Inf(1))
	conv := func(name string, to graph.TensorID) graph.Node {
		return graph.Node{
			Name: name, Op: graph.Conv, Inputs: []graph.TensorID{0}, Output: to, Groups: 1, Residual: graph.None,
			Window: graph.Window{KH: 1, KW: 1, SH: 1, SW: 1}, ClampLo: -inf, ClampHi: inf,
		}
	}
	node := func(op graph.Op, to graph.TensorID, w graph.Window, from ...graph.TensorID) graph.Node {
		return graph.Node{Op: op, Inputs: from, Output: to, Window: w, Residual: graph.None, ClampLo: -inf, ClampHi: inf}
	}
	g := &graph.Graph{
		Tensors: []graph.Tensor{
			{Name: "in", H: 4, W: 4, C: 6},
			{Name: "left", H: 4, W: 4, C: 8},
			{Name: "right", H: 4, W: 4, C: 10},
			{Name: "both", H: 4, W: 4, C: 18},
			{Name: "out", H: 1, W: 1, C: 18},
		},
		Nodes: []graph.Node{
			conv("a", 1), conv("b", 2), node(graph.Concat, 3, graph.Window{}, 1, 2),
			node(graph.MaxPool, 4, graph.Window{KH: 4, KW: 4, SH: 1, SW: 1}, 3),
		},
		Exits:   []graph.Exit{{Name: "end", Tensor: 4}},
		Segment: make([]int, 4),
	}
	plan := alias.Of(g)
	for t, v := range plan.Views {
		fmt.Println(g.Tensors[t].Name, "is in", g.Tensors[v.Root].Name, "from channel", v.Channel)
	}
	for _, nodes := range plan.Merged {
		fmt.Println("one layer:", alias.Name(g, nodes))
	}
	// Output:
	// in is in in from channel 0
	// left is in both from channel 0
	// right is in both from channel 8
	// both is in both from channel 0
	// out is in out from channel 0
	// one layer: a+1
}
