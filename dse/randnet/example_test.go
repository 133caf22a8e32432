package randnet_test

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/sluice-npu/sluice/dse/golden"
	"github.com/sluice-npu/sluice/dse/randnet"
	"github.com/sluice-npu/sluice/hw/configs"
)

// A random network tests two implementations against each other: here the quantiser's integers and the bundle's.
func ExampleNew() {
	design, err := configs.Load("tiny")
	if err != nil {
		fmt.Println(err)
		return
	}
	net, err := randnet.New(7, design, randnet.Built())
	if err != nil {
		fmt.Println(err)
		return
	}
	p, err := golden.New(net.Bundle)
	if err != nil {
		fmt.Println(err)
		return
	}
	image := randnet.Input(rand.New(rand.NewPCG(7, 0)), net.Bundle)
	logits, err := p.Run(image)
	if err != nil {
		fmt.Println(err)
		return
	}
	tensors := net.Quant.Run(image)
	equal := true
	for i, e := range net.Quant.Graph.Exits {
		equal = equal && slices.Equal(logits[i], tensors[e.Tensor])
	}
	fmt.Println("all exits are equal:", equal)
	// Output: all exits are equal: true
}
