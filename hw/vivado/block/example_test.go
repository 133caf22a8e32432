package block_test

import (
	"bytes"
	"fmt"

	"github.com/sluice-npu/sluice/boards"
	"github.com/sluice-npu/sluice/hw/configs"
	"github.com/sluice-npu/sluice/hw/vivado/block"
)

// The Tcl that builds a bitstream for a board: `vivado -mode batch -source build.tcl -tclargs IP OUT`. Here are its lines
// that create something.
func ExampleGenerate() {
	board, err := boards.Load("zcu104")
	if err != nil {
		fmt.Println(err)
		return
	}
	design, err := configs.Load("zcu104")
	if err != nil {
		fmt.Println(err)
		return
	}
	tcl, err := block.Generate(board, design)
	if err != nil {
		fmt.Println(err)
		return
	}
	for line := range bytes.Lines(tcl) {
		if bytes.HasPrefix(line, []byte("create_")) {
			fmt.Print(string(line))
		}
	}
	// Output:
	// create_project sluice_zcu104_zcu104 [file join $out project] -part xczu7ev-ffvc1156-2-e
	// create_bd_design system
	// create_bd_cell -type ip -vlnv [core proc_sys_reset] reset
	// create_bd_cell -type ip -vlnv sluice-npu:user:sluice_zcu104:1.0 npu
}
