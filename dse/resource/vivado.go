package resource

import (
	"fmt"
	"math/bits"

	"github.com/sluice-npu/sluice/boards"
	"github.com/sluice-npu/sluice/hw/configs"
)

// VivadoBRAM36 is the block RAM of a design where depths of memories are extended to a power of two, as Vivado
// documents it for 7 series (AMD AR 61995): there a bank of 14,336 x 16 is one of 16,384. No fewer than by yosys'
// rule, which Of counts by; for other families the same.
func VivadoBRAM36(family string, d configs.Design) float64 {
	half := 0
	for _, m := range Memories(d) {
		n := m.Place(family).half()
		if family == boards.Series7 && n > 0 {
			m.Words = 1 << bits.Len(uint(m.Words-1))
			n = max(n, m.Place(family).half())
		}
		half += m.Count * n
	}
	return float64(half) / 2
}

// Warnings says what of a design may not fit a board, by yosys' rules and by Vivado's.
func Warnings(b boards.Board, d configs.Design) []string {
	var list []string
	if err := Of(b, d).Check(b); err != nil {
		list = append(list, fmt.Sprintf("%s on %s: %v (estimated)", d.Name, b.Name, err))
	}
	if n := VivadoBRAM36(b.Family, d); n > float64(b.BRAM36) {
		list = append(list, fmt.Sprintf("%s on %s: it needs %g BRAM36 by Vivado's rule for 7 series, which extends depths to a power of two (AR 61995), %s has %d (estimated)",
			d.Name, b.Name, n, b.Device, b.BRAM36))
	}
	return list
}
