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

// A random network on a device beside a reference: results and all bytes of the slots must be equal, else Segments returns
// an error. Here both are software, so that no simulator is needed.
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
	fmt.Println("all segments are equal:", len(segments) == len(net.Bundle.Network.Exits))
	fmt.Println("compared bytes of each:", dev.Exercised.Bytes/uint64(len(segments)) == uint64(net.Bundle.Slot.Stride))
	// Output:
	// all segments are equal: true
	// compared bytes of each: true
}
