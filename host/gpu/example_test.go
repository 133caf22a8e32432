package gpu_test

import (
	"context"
	"fmt"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/gpu"
	"github.com/sluice-npu/sluice/host/gpu/catalogue"
	gpus "github.com/sluice-npu/sluice/host/gpu/params"
)

// The time of a batch alone on a simulated MI50, on all its 60 compute units and on the first 15.
func ExampleAlone() {
	file, err := gpus.Of("mi50")
	if err != nil {
		fmt.Println(err)
		return
	}
	cfg := gpu.Config{Name: "mi50", Params: file.Params(), SyncNs: file.SyncNs()}
	net := &gpu.Network{
		Name: "resnet50", Input: 3 * 224 * 224 * 4,
		Program: catalogue.ByBatch(catalogue.Spec{Network: "resnet50", Exits: 1}, file.Machine()),
		Exit:    func(device.RequestID, int) device.ExitResult { return device.ExitResult{Confidence: 1} },
	}
	for _, units := range []device.Units{device.UnitRange(0, 60), device.UnitRange(0, 15)} {
		_, segments, err := gpu.Alone(context.Background(), cfg, net, units, 4)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%d units: %.0f ms (simulated)\n", units.Count(), float64(segments[0])/1e6)
	}
	// Output:
	// 60 units: 5 ms (simulated)
	// 15 units: 15 ms (simulated)
}
