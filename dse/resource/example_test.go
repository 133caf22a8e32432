package resource_test

import (
	"errors"
	"fmt"

	"github.com/sluice-npu/sluice/boards"
	"github.com/sluice-npu/sluice/dse/resource"
	"github.com/sluice-npu/sluice/hw/configs"
)

// Whether a design fits a board, before anything is synthesised: the design for zcu104 on the smaller kv260.
func ExampleOf() {
	design, err := configs.Load("zcu104")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, name := range []string{"zcu104", "kv260"} {
		board, err := boards.Load(name)
		if err != nil {
			fmt.Println(err)
			return
		}
		e := resource.Of(board, design)
		fits := !errors.Is(e.Check(board), resource.ErrBudget)
		fmt.Printf("%s: %d of %d DSPs, %d of %d URAMs, fits: %v\n", name, e.DSP, board.DSP, e.URAM, board.URAM, fits)
	}
	// Output:
	// zcu104: 1724 of 1728 DSPs, 68 of 96 URAMs, fits: true
	// kv260: 1724 of 1248 DSPs, 68 of 64 URAMs, fits: false
}
