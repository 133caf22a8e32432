package boards

import (
	"fmt"
	"strings"
)

// Overlay is the device-tree overlay of a board: the NPU as a UIO device, the memory that is its own
// alone, and the device that maps it (boards/kernel). It applies to the kernel's device tree of the
// board, compiled with symbols.
func (b Board) Overlay() string {
	cells, gic := 1, "intc"
	if b.Family == UltraScalePlus {
		cells, gic = 2, "gic"
	}
	reg := func(base, size uint64) string {
		if cells == 1 {
			return fmt.Sprintf("<%#x %#x>", base, size)
		}
		return fmt.Sprintf("<%#x %#x %#x %#x>", base>>32, base&0xFFFFFFFF, size>>32, size&0xFFFFFFFF)
	}
	var s strings.Builder
	w := func(format string, args ...any) { fmt.Fprintf(&s, format+"\n", args...) }
	w("/* Written from boards/%s/board.yaml. */", b.Name)
	w("/dts-v1/;\n/plugin/;\n")
	w("&{/} {")
	w("\treserved-memory {")
	w("\t\t#address-cells = <%d>;\n\t\t#size-cells = <%d>;\n\t\tranges;\n", cells, cells)
	w("\t\tnpu_memory: %s-memory@%x {", b.UIO, b.DDR.NPUBase)
	w("\t\t\treg = %s;\n\t\t\tno-map;\n\t\t};\n\t};\n", reg(b.DDR.NPUBase, b.DDR.NPUBytes))
	w("\t%s-memory {", b.UIO)
	w("\t\tcompatible = \"sluice,dma-buffer\";\n\t\tmemory-region = <&npu_memory>;\n\t};\n};\n")
	w("&{/axi} {")
	w("\t%s@%x {", b.UIO, b.Registers.Base)
	w("\t\tcompatible = \"generic-uio\";\n\t\treg = %s;", reg(b.Registers.Base, b.Registers.Bytes))
	w("\t\tinterrupt-parent = <&%s>;\n\t\tinterrupts = <0 %d 4>; /* SPI, level, active high */\n\t};\n};", gic, b.Interrupt.SPI)
	return s.String()
}
