package npu

import (
	"fmt"

	"github.com/sluice-npu/sluice/hw/abi"
)

// ReadTime reads the hardware's clock: cycles since its reset, also between starts. Reading the low word latches the
// high one, so there must be no other access in between.
func ReadTime(b Bus) (cycles uint64, err error) {
	lo, err := b.ReadReg(abi.RegTimeLo)
	if err != nil {
		return 0, fmt.Errorf("read TIME: %w", err)
	}
	hi, err := b.ReadReg(abi.RegTimeHi)
	if err != nil {
		return 0, fmt.Errorf("read TIME: %w", err)
	}
	return uint64(hi)<<32 | uint64(lo), nil
}
