// Command boardtree prints one of three texts for a board: the device-tree overlay, the recipe for
// bootgen, or the values for scripts as shell assignments.
//
//	boardtree overlay zc706
//	boardtree overlay-cached zc706
//	boardtree bif zc706
//	boardtree shell zc706
package main

import (
	"fmt"
	"os"

	"github.com/sluice-npu/sluice/boards"
)

func main() {
	usage := func() {
		fmt.Fprintln(os.Stderr, "usage: boardtree overlay|overlay-cached|bif|shell BOARD")
		os.Exit(2)
	}
	if len(os.Args) != 3 {
		usage()
	}
	b, err := boards.Load(os.Args[2])
	if err == nil && !b.Buildable() {
		err = fmt.Errorf("board %s has no registers, interrupt and ddr in its file", b.Name)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "boardtree:", err)
		os.Exit(3)
	}
	switch os.Args[1] {
	case "overlay", "overlay-cached":
		text, err := b.Overlay(os.Args[1] == "overlay-cached")
		if err != nil {
			fmt.Fprintln(os.Stderr, "boardtree:", err)
			os.Exit(3)
		}
		fmt.Print(text)
		return
	case "bif":
		fmt.Print(b.BIF())
		return
	case "shell":
	default:
		usage()
	}
	arch, goarch, machine := "arm", "arm", "xilinx-zynq-a9"
	if b.Family == boards.UltraScalePlus {
		arch, goarch, machine = "arm64", "arm64", "xlnx-zcu102"
	}
	for _, v := range []struct {
		name  string
		value any
	}{
		{"arch", arch},
		{"goarch", goarch},
		{"machine", machine},
		{"clock_mhz", b.ClockMHz},
		{"uio", b.UIO},
		{"reg_base", fmt.Sprintf("%#x", b.Registers.Base)},
		{"reg_bytes", fmt.Sprintf("%#x", b.Registers.Bytes)},
		{"spi", b.Interrupt.SPI},
		{"ddr_bytes", b.DDR.Bytes},
		{"npu_base", fmt.Sprintf("%#x", b.DDR.NPUBase)},
		{"npu_bytes", fmt.Sprintf("%#x", b.DDR.NPUBytes)},
	} {
		fmt.Printf("%s=%v\n", v.name, v.value)
	}
}
