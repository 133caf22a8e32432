package boards

// BIF returns bootgen's recipe for a board's BOOT.BIN. The file contains first-stage loader, bitstream and U-Boot, and
// on UltraScale+ also PMU firmware and trusted firmware. The ELF files are not part of this repository, but come from
// Vivado (write_hw_platform) and U-Boot.
func (b Board) BIF() string {
	if b.Family == UltraScalePlus {
		return `all: {
  [bootloader, destination_cpu=a53-0] fsbl.elf
  [pmufw_image] pmufw.elf
  [destination_device=pl] npu.bit
  [destination_cpu=a53-0, exception_level=el-3, trustzone] bl31.elf
  [destination_cpu=a53-0, exception_level=el-2] u-boot.elf
}
`
	}
	return `all: {
  [bootloader] fsbl.elf
  npu.bit
  u-boot.elf
}
`
}
