package lower

import (
	"github.com/sluice-npu/sluice/dse/rtl"
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
)

// depthwise splits a convolution of inC to outC channels, with a kernel of kh x kw over rows of inW pixels, into
// windows of channels for the depthwise unit, each [from, to). It returns false if groups have several channels, the
// design has no unit or the kernel does not fit it. A window's weights fit the unit, its biases their memory, and the
// input rows of one output row the activation buffer. It has no more channels than the unit can process by columns.
func depthwise(d configs.Design, groups, inC, outC, inW, kh, kw int) ([][2]int, bool) {
	nb := d.NB()
	held := abi.DwWords / (kh * kw) // groups of NB channels
	if !d.Depthwise || groups != inC || groups != outC || held < 1 {
		return nil, false
	}
	size := min(held*nb, d.CMax, d.ABufElems()/(kh*inW), rtl.PoolGroups*nb)
	if size < 1 {
		return nil, false
	}
	if size >= nb {
		size -= size % nb // a window takes as long as one of the next multiple of NB
	}
	var parts [][2]int
	for c := 0; c < inC; c += size {
		parts = append(parts, [2]int{c, min(c+size, inC)})
	}
	return parts, true
}
