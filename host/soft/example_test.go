package soft_test

import (
	"context"
	"fmt"

	"github.com/sluice-npu/sluice/dse/recipe"
	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/soft"
	"github.com/sluice-npu/sluice/hw/configs"
)

// One sample through a small network of the zoo, by the golden numerics. With a threshold above 1 it passes the first exit.
func Example() {
	ctx := context.Background()
	design, err := configs.Load("tiny")
	if err != nil {
		fmt.Println(err)
		return
	}
	b, err := (&recipe.Recipe{Network: "tiny", Seed: 1}).Make(design)
	if err != nil {
		fmt.Println(err)
		return
	}
	dev := soft.New(design, soft.Options{})
	defer dev.Close()
	if err := dev.Load(ctx, b); err != nil {
		fmt.Println(err)
		return
	}
	n := &b.Network
	if err := dev.Admit(ctx, n.Name, 1, device.InWords(make([]int16, n.InH*n.InW*n.InC))); err != nil {
		fmt.Println(err)
		return
	}
	rep, err := dev.Run(ctx, &device.Launch{Network: n.Name, Last: len(n.Exits) - 1, Requests: []device.RequestID{1}, Theta: []float32{2}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("exits passed:", len(rep.Results[0].Exits), "left at:", rep.Results[0].Taken)
	// Output: exits passed: 2 left at: 1
}
