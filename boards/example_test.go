package boards_test

import (
	"fmt"

	"github.com/sluice-npu/sluice/boards"
)

// Loads a board by name; a path to a file also works.
func ExampleLoad() {
	b, err := boards.Load("kv260")
	fmt.Println(b.Name, b.Family, b.DSP, "DSPs,", b.LUT, "LUTs", err)
	// Output: kv260 xcup 1248 DSPs, 117120 LUTs <nil>
}
