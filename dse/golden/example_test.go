package golden_test

import (
	"fmt"

	"github.com/sluice-npu/sluice/dse/golden"
)

// The NPU's arithmetic after a sum: a rounding shift, then saturation to 16 bits.
func Example() {
	fmt.Println(golden.Round(5, 1), golden.Round(-5, 1), golden.Saturate(golden.Round(1<<30, 4)))
	// Output: 3 -2 32767
}
