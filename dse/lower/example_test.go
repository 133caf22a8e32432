package lower_test

import (
	"fmt"
	"math"

	"github.com/sluice-npu/sluice/dse/alias"
	"github.com/sluice-npu/sluice/dse/graph"
	"github.com/sluice-npu/sluice/dse/lower"
	"github.com/sluice-npu/sluice/hw/configs"
)

// The same network on two designs. A depthwise convolution is one layer where the hardware has a unit for it, otherwise
// it needs several GEMMs.
func ExampleNetwork_Lower() {
	inf := float32(math.Inf(1))
	window := graph.Window{KH: 3, KW: 3, SH: 1, SW: 1, PT: 1, PL: 1, PB: 1, PR: 1}
	g := &graph.Graph{
		Name:    "depthwise",
		Tensors: []graph.Tensor{{Name: "in", H: 8, W: 8, C: 24}, {Name: "out", H: 8, W: 8, C: 24}},
		Nodes: []graph.Node{{
			Name: "dw", Op: graph.Conv, Inputs: []graph.TensorID{0}, Output: 1, Groups: 24, Residual: graph.None,
			Window: window, ClampLo: -inf, ClampHi: inf,
		}},
		Exits:   []graph.Exit{{Name: "end", Tensor: 1}},
		Segment: []int{0},
	}
	network := lower.Of(g, alias.Of(g))
	for _, name := range []string{"v13", "v13x"} {
		design, err := configs.Load(name)
		if err != nil {
			fmt.Println(err)
			return
		}
		layers, err := network.Lower(design, lower.Options{})
		if err != nil {
			fmt.Println(err)
			return
		}
		for _, l := range layers {
			fmt.Println(name, l.Name, l.Geom.Op, "channels", l.From, "to", l.To)
		}
	}
	// Output:
	// v13 dw[0:12] GEMM channels 0 to 12
	// v13 dw[12:24] GEMM channels 12 to 24
	// v13x dw DEPTHWISE channels 0 to 24
}
