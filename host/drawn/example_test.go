package drawn_test

import (
	"fmt"

	"github.com/sluice-npu/sluice/host/drawn"
)

// The exits of the first requests depend on the seed alone. host/sched has an engine that serves on such a device.
func ExampleExits() {
	fmt.Println(drawn.Exits([]float64{0.5, 0.25, 0.25}, 8, 1))
	// Output: [2 0 2 1 0 1 0 2]
}
