package lower

import (
	"github.com/sluice-npu/sluice/dse/rtl"
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
)

// depthwise splits a convolution of inC to outC channels into windows of channels for the depthwise unit. The kernel is
// kh x kw, and a row has inW pixels. A window is [from, to). depthwise returns false if groups have several channels,
// if the design has no depthwise unit, or if the kernel does not fit the unit. A window's weights fit the unit, its
// biases fit their memory, and the input rows of one output row fit the activation buffer. A window has no more
// channels than the unit can process by columns.
func depthwise(d configs.Design, groups, inC, outC, inW, kh, kw int) ([][2]int, bool) {
	nb := d.NB()
	held := abi.DwWords / (kh * kw) // number of groups of NB channels with weights that fit the unit
	if !d.Depthwise || groups != inC || groups != outC || held < 1 {
		return nil, false
	}
	size := min(held*nb, d.CMax, d.ABufElems()/(kh*inW), rtl.PoolGroups*nb)
	if size < 1 {
		return nil, false
	}
	if size >= nb {
		size -= size % nb // because the time of a window is the same as for the next multiple of NB
	}
	var parts [][2]int
	for c := 0; c < inC; c += size {
		parts = append(parts, [2]int{c, min(c+size, inC)})
	}
	return parts, true
}
