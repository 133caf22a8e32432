package configs_test

import (
	"fmt"

	"github.com/sluice-npu/sluice/hw/configs"
)

// Loads a configuration by name; a path to a file also works.
func ExampleLoad() {
	d, err := configs.Load("zc706")
	fmt.Printf("<%d, %d, %d> at %g MHz on %s %v\n", d.TR, d.TP, d.TC, d.ClockMHz, d.Board, err)
	// Output: <1024, 7, 128> at 150 MHz on zc706 <nil>
}
