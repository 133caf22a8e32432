package testvec_test

import (
	"fmt"
	"math/rand/v2"

	"github.com/sluice-npu/sluice/dse/randnet"
	"github.com/sluice-npu/sluice/dse/testvec"
	"github.com/sluice-npu/sluice/hw/configs"
	"github.com/sluice-npu/sluice/sim/vectors"
)

// A bundle as test vectors for the RTL or a board. After each start, the memory must be what golden has computed.
func ExampleFromBundle() {
	design, err := configs.Load("tiny")
	if err != nil {
		fmt.Println(err)
		return
	}
	net, err := randnet.New(1, design, randnet.Built())
	if err != nil {
		fmt.Println(err)
		return
	}
	at := testvec.Layout{Base: 1 << 28, Limit: testvec.StartLimit}
	records, err := testvec.FromBundle(net.Bundle, rand.New(rand.NewPCG(1, 1)), 2, at)
	if err != nil {
		fmt.Println(err)
		return
	}
	var starts, compared int
	for _, r := range records {
		switch r := r.(type) {
		case vectors.Run:
			starts++
		case vectors.MemExpect:
			compared += len(r.Data)
		}
	}
	fmt.Println("one start for each segment:", starts == len(net.Bundle.Network.Exits))
	fmt.Println("all slots are compared each time:", compared == starts*testvec.Slots*int(net.Bundle.Slot.Stride))
	// Output:
	// one start for each segment: true
	// all slots are compared each time: true
}
