package verify_test

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/sluice-npu/sluice/dse/randnet"
	"github.com/sluice-npu/sluice/host/soft"
	"github.com/sluice-npu/sluice/hw/configs"
	"github.com/sluice-npu/sluice/sim/verify"
)

// A random network on a device beside the reference: results and all bytes of the slots must be equal. Here the device is
// software too; sim/cmd has the simulated hardware.
func ExampleSegments() {
	design, err := configs.Load("tiny")
	if err != nil {
		fmt.Println(err)
		return
	}
	const seed = 5
	net, err := randnet.New(seed, design, randnet.Built())
	if err != nil {
		fmt.Println(err)
		return
	}
	dev := &verify.Shadow{Slotted: soft.New(design, soft.Options{}), Reference: soft.New(design, soft.Options{})}
	defer dev.Close()
	input := randnet.Input(rand.New(rand.NewPCG(seed, 1)), net.Bundle)
	covered := verify.NewCoverage([]configs.Design{design})
	segments, err := verify.Segments(context.Background(), dev, net.Bundle, input, covered, func(int) {})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, s := range segments {
		fmt.Println("segment", s.Segment, "is equal; layers:", s.Layers)
	}
	fmt.Println("compared:", dev.Exercised.Bytes > 0)
	// Output:
	// segment 0 is equal; layers: 4
	// segment 1 is equal; layers: 3
	// compared: true
}
