package ip_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/sluice-npu/sluice/boards"
	"github.com/sluice-npu/sluice/hw/configs"
	"github.com/sluice-npu/sluice/hw/vivado/ip"
)

// The files that make an IP of a design for a board. A design whose memory ports the board's processing system does not
// have is rejected.
func ExampleGenerate() {
	design, err := configs.Load("zcu104")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, name := range []string{"zcu104", "pynq-z2"} {
		board, err := boards.Load(name)
		if err != nil {
			fmt.Println(err)
			return
		}
		files, err := ip.Generate(board, design)
		fmt.Println(name, slices.Sorted(maps.Keys(files)), errors.Is(err, ip.ErrFit))
	}
	// Output:
	// zcu104 [ooc.xdc package_ip.tcl sluice_zcu104.v] false
	// pynq-z2 [] true
}
