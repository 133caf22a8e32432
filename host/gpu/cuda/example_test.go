package cuda_test

import (
	"fmt"

	"github.com/sluice-npu/sluice/dse/randnet"
	"github.com/sluice-npu/sluice/host/gpu/cuda"
	"github.com/sluice-npu/sluice/host/gpu/params"
	"github.com/sluice-npu/sluice/hw/configs"
)

// The kernels that a bundle needs on a GPU, with estimated times, without a GPU.
func ExampleProgram() {
	design, err := configs.Load("tiny")
	if err != nil {
		fmt.Println(err)
		return
	}
	net, err := randnet.New(5, design, randnet.Built())
	if err != nil {
		fmt.Println(err)
		return
	}
	file, err := params.Of("h100")
	if err != nil {
		fmt.Println(err)
		return
	}
	gpu := file.Params()
	p, err := cuda.Program(net.Bundle, 1, &gpu)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("one kernel a layer:", len(p.Kernels) == len(net.Bundle.Layers), "with all exits:", len(p.Exits) == len(net.Bundle.Network.Exits))
	// Output: one kernel a layer: true with all exits: true
}
