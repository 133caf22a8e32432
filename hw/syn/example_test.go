package syn_test

import (
	"fmt"

	"github.com/sluice-npu/sluice/hw/syn"
)

// The resources of a netlist, from the text of yosys' stat, and whether a board's part has them.
func ExampleParse() {
	r, err := syn.Parse(`
=== npu_top ===

   Number of wires:                  10
   Number of cells:                1010
     DSP48E1                       1000
     FDRE                             4
     LUT6                             5
     RAM64M                           1
`)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(r.DSP, "DSPs,", r.LUTs(), "LUTs,", r.LUTRAM, "of them memory")
	for _, board := range []string{"zc706", "zcu104"} {
		part, _ := syn.DeviceOf(board)
		fmt.Println(part.Part, part.Fits(r))
	}
	// Output:
	// 1000 DSPs, 9 LUTs, 4 of them memory
	// Z7045 1000 DSPs, the Z7045 has 900
	// ZU7EV <nil>
}
