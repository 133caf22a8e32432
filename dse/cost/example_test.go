package cost_test

import (
	"fmt"

	"github.com/sluice-npu/sluice/dse/cost"
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
)

// The law's result for one layer: 16 x 16 x 16 to 32 channels, a window of 3 x 3.
func ExampleLayer() {
	d, err := configs.Load("zc706")
	if err != nil {
		fmt.Println(err)
		return
	}
	g := cost.Geom{
		Op: abi.OpGEMM, InH: 16, InW: 16, InC: 16, InPix: 16, OutH: 16, OutW: 16, OutC: 32, OutPix: 32,
		KH: 3, KW: 3, SH: 1, SW: 1, PadT: 1, PadL: 1, BiasCount: 32,
	}
	t := cost.Layer(d, g, 1, abi.FBCB{BR: 1, TileB: 1, TileRows: 16})
	fmt.Println(t.MACs, "MACs, bound:", t.Bound, "and more than the array alone:", t.Total > t.Compute)
	// Output: 1179648 MACs, bound: compute and more than the array alone: true
}
