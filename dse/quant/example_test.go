package quant_test

import (
	"fmt"
	"math"

	"github.com/sluice-npu/sluice/dse/graph"
	"github.com/sluice-npu/sluice/dse/quant"
)

// A layer that computes a sum and a difference, in integers. The scales come from two inputs.
func ExampleQuantise() {
	inf := float32(math.Inf(1))
	g := &graph.Graph{
		Name:    "sum and difference",
		Tensors: []graph.Tensor{{Name: "in", H: 1, W: 1, C: 2}, {Name: "out", H: 1, W: 1, C: 2}},
		Nodes: []graph.Node{{
			Name: "fc", Op: graph.Conv, Inputs: []graph.TensorID{0}, Output: 1, Groups: 1, Residual: graph.None,
			Window:  graph.Window{KH: 1, KW: 1, SH: 1, SW: 1},
			Weights: []float32{1, 1, 1, -1}, Bias: []float32{0, 0}, ClampLo: -inf, ClampHi: inf,
		}},
		Exits:   []graph.Exit{{Name: "end", Tensor: 1}},
		Segment: []int{0},
	}
	q, err := quant.Quantise(g, [][]float32{{3, 4}, {-4, 1}}, quant.Options{InputRange: 4})
	if err != nil {
		fmt.Println(err)
		return
	}
	in := make([]int16, 2)
	q.Input(in, []float32{3, 4})
	out := q.Run(in)[1]
	fmt.Println("fraction bits of the maps:", q.Frac)
	fmt.Println(in, "gives", out, "which is", q.Value(1, out[0]), q.Value(1, out[1]))
	fmt.Println("no input overflows the accumulator:", q.Proof(0).Sum < quant.Limit)
	// Output:
	// fraction bits of the maps: [12 11]
	// [12288 16384] gives [14336 -2048] which is 7 -1
	// no input overflows the accumulator: true
}
