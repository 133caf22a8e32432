package machine_test

import (
	"context"
	"fmt"

	"github.com/sluice-npu/sluice/dse/cost"
	"github.com/sluice-npu/sluice/dse/machine"
	"github.com/sluice-npu/sluice/dse/mapping"
	"github.com/sluice-npu/sluice/hw/configs"
)

// A layer cycle by cycle as the RTL runs it, without the RTL's simulator: 8 x 8 x 8 to 8 channels, a window of 3 x 3, on
// a memory of 8 bytes a cycle and on a slow one.
func ExampleRun() {
	design, err := configs.Load("tiny")
	if err != nil {
		fmt.Println(err)
		return
	}
	g := cost.Geom{
		InH: 8, InW: 8, InC: 8, InPix: 8, OutH: 8, OutW: 8, OutC: 8, OutPix: 8,
		KH: 3, KW: 3, SH: 1, SW: 1, PadT: 1, PadL: 1, BiasCount: 8, OutOffset: 4096,
	}
	for _, bytes := range []float64{8, 0.5} {
		design.DRAM.BytesPerCycle = bytes
		entry, _, err := mapping.Choose(design, g, 1, mapping.RTL())
		if err != nil {
			fmt.Println(err)
			return
		}
		r, err := machine.Run(context.Background(), design, []machine.Layer{{Geom: g, Entry: entry}}, 1)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%.0f of %d MACs a cycle\n", float64(g.MACs())/float64(r.Cycles), design.MACs())
	}
	// Output:
	// 10 of 12 MACs a cycle
	// 4 of 12 MACs a cycle
}
