package boards

// BIF is the recipe from which bootgen makes a board's BOOT.BIN: first-stage loader, (UltraScale+: PMU
// firmware, trusted firmware,) the PL's bitstream, U-Boot. The ELF files come from the hardware platform
// that the build script writes (write_hw_platform) and from U-Boot; none of them is ours.
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
