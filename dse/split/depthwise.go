package split

import (
	"github.com/sluice-npu/sluice/dse/cost"
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
)

// Depthwise cuts a convolution in which every channel is by itself into windows of channels for the depthwise unit, each
// [from, to), of a kernel of kh x kw over rows of inW pixels; false if the design has no unit or the kernel does not fit
// it. A window's weights fit the unit, its biases their memory, and the rows under one output row the activation buffer;
// it has no more channels than the unit walks by columns.
func Depthwise(d configs.Design, channels, kh, kw, inW int) ([][2]int, bool) {
	nb := d.NB()
	groups := abi.DwWords / (kh * kw)
	if !d.Depthwise || groups < 1 {
		return nil, false
	}
	size := min(groups*nb, d.CMax, d.ABufElems()/(kh*inW), cost.PoolGroups*nb)
	if size < 1 {
		return nil, false
	}
	if size >= nb {
		size -= size % nb // a window takes as long as one of the next multiple of NB
	}
	var parts [][2]int
	for c := 0; c < channels; c += size {
		parts = append(parts, [2]int{c, min(c+size, channels)})
	}
	return parts, true
}
