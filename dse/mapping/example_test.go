package mapping_test

import (
	"fmt"

	"github.com/sluice-npu/sluice/dse/cost"
	"github.com/sluice-npu/sluice/dse/mapping"
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
)

// The best mapping of a layer depends on the batch: k is the stacking factor of the processing elements, and a tile is
// samples times output rows.
func ExampleChoose() {
	design, err := configs.Load("zc706")
	if err != nil {
		fmt.Println(err)
		return
	}
	g := cost.Geom{
		Op: abi.OpGEMM, InH: 8, InW: 8, InC: 64, InPix: 64, OutH: 8, OutW: 8, OutC: 512, OutPix: 512,
		KH: 3, KW: 3, SH: 1, SW: 1, PadT: 1, PadL: 1, BiasCount: 512,
	}
	for _, batch := range []int{1, 2, 8} {
		entry, time, err := mapping.Choose(design, g, batch, mapping.RTL())
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("batch %d: k = %v, tiles of %d x %d, bound: %v\n", batch, cost.K(entry.K), entry.TileB, entry.TileRows, time.Bound)
	}
	// Output:
	// batch 1: k = 1/2, tiles of 1 x 8, bound: weights
	// batch 2: k = 1, tiles of 2 x 8, bound: weights
	// batch 8: k = 2, tiles of 2 x 8, bound: compute
}
