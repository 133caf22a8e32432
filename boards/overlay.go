package boards

import (
	"fmt"
	"strings"
)

// poolAlign is the kernel's CMA_MIN_ALIGNMENT_BYTES with pages of 4 KiB.
const poolAlign = 4 << 20

// Memory returns the address and size of the NPU's memory. Cached memory has half the size, and is located below the
// address in the board file.
func (b Board) Memory(cached bool) (base, bytes uint64) {
	if cached {
		return b.DDR.NPUBase - b.DDR.NPUBytes, b.DDR.NPUBytes / 2
	}
	return b.DDR.NPUBase, b.DDR.NPUBytes
}

// Overlay returns the device-tree overlay of a board: the NPU as a UIO device, its reserved memory, and the device that
// maps the memory (boards/kernel). The kernel's device tree must be compiled with symbols. The memory is mapped
// write-combined, or through the CPU's caches if cached is set. Cached memory is a pool that the kernel can also use
// for other purposes. A 32-bit kernel can map the addresses of this pool without high memory.
func (b Board) Overlay(cached bool) (string, error) {
	cells, gic, manager := 1, "intc", "devcfg"
	if b.Family == UltraScalePlus {
		cells, gic, manager = 2, "gic", "zynqmp_pcap"
	}
	kind := "no-map;"
	base, size := b.Memory(cached)
	if cached {
		// both families' kernels require this alignment of a pool
		if d := b.DDR; d.NPUBytes >= d.NPUBase-d.Base || base%poolAlign != 0 || size%poolAlign != 0 {
			return "", fmt.Errorf("%w: ddr.npu_base: memory behind the caches is half of npu_bytes, npu_bytes below npu_base, both multiples of %#x and above the memory's base %#x; found %#x bytes at %#x",
				ErrBoard, poolAlign, d.Base, d.NPUBytes, d.NPUBase)
		}
		kind = "compatible = \"shared-dma-pool\";\n\t\t\treusable;"
	}
	reg := func(base, size uint64) string {
		if cells == 1 {
			return fmt.Sprintf("<%#x %#x>", base, size)
		}
		return fmt.Sprintf("<%#x %#x %#x %#x>", base>>32, base&0xFFFFFFFF, size>>32, size&0xFFFFFFFF)
	}
	var s strings.Builder
	w := func(format string, args ...any) { fmt.Fprintf(&s, format+"\n", args...) }
	w("/* Written from the board.yaml of %s. */", b.Name)
	w("/dts-v1/;\n/plugin/;\n")
	w("&{/} {")
	w("\treserved-memory {")
	w("\t\t#address-cells = <%d>;\n\t\t#size-cells = <%d>;\n\t\tranges;\n", cells, cells)
	w("\t\tnpu_memory: %s-memory@%x {", b.UIO, base)
	w("\t\t\treg = %s;\n\t\t\t%s\n\t\t};\n\t};\n", reg(base, size), kind)
	w("\t%s-memory {", b.UIO)
	w("\t\tcompatible = \"sluice,dma-buffer\";\n\t\tmemory-region = <&npu_memory>;\n\t};\n")
	w("\tsluice-fpga {\n\t\tcompatible = \"sluice,fpga\";\n\t\tfpga-mgr = <&%s>;\n\t};\n};\n", manager)
	w("&{/axi} {")
	w("\t%s@%x {", b.UIO, b.Registers.Base)
	w("\t\tcompatible = \"generic-uio\";\n\t\treg = %s;", reg(b.Registers.Base, b.Registers.Bytes))
	w("\t\tinterrupt-parent = <&%s>;\n\t\tinterrupts = <0 %d 4>; /* SPI, level, active high */\n\t};\n};", gic, b.Interrupt.SPI)
	return s.String(), nil
}
