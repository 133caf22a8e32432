package int8_test

import (
	"fmt"
	"math"

	"github.com/sluice-npu/sluice/dse/golden/int8"
	"github.com/sluice-npu/sluice/dse/graph"
	"github.com/sluice-npu/sluice/dse/quant"
)

// A layer that computes a sum and a difference, in 8 bits: the codes that hardware must have, and their values.
func ExampleProgram_Run() {
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
	inputs := [][]float32{{2, 4}, {-4, 1}}
	seen, err := quant.See(g, len(inputs), func(i int) ([]float32, error) { return inputs[i], nil }, quant.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	n, err := seen.Network(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	p, err := int8.New(n)
	if err != nil {
		fmt.Println(err)
		return
	}
	in := make([]int16, 2)
	n.Input(in, inputs[0])
	maps, err := p.Run(in)
	if err != nil {
		fmt.Println(err)
		return
	}
	out := maps[g.Exits[0].Tensor]
	fmt.Printf("%v gives %v, which is %.1f and %.1f\n", in, out, n.Maps[1].Value(out[0]), n.Maps[1].Value(out[1]))
	// Output: [50 101] gives [99 -49], which is 6.0 and -2.0
}
