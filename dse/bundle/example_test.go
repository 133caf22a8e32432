package bundle_test

import (
	"fmt"
	"slices"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/dse/cost"
	"github.com/sluice-npu/sluice/hw/configs"
)

// Weights in the hardware's read order: tiles are padded, and unpacking is the inverse.
func ExamplePackWeights() {
	d, err := configs.Load("tiny")
	if err != nil {
		fmt.Println(err)
		return
	}
	weights := []int16{1, 2, 3, 4, 5, 6} // two output channels of three inputs, a window of 1 x 1
	packed, err := bundle.PackWeights(d, cost.K1, weights, 2, 1, 3)
	if err != nil {
		fmt.Println(err)
		return
	}
	back, err := bundle.UnpackWeights(d, cost.K1, packed, 2, 1, 3)
	fmt.Println(len(packed), "bytes;", slices.Equal(weights, back), err)
	// Output: 64 bytes; true <nil>
}
