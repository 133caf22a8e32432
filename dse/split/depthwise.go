package split

import (
	"github.com/sluice-npu/sluice/dse/cost"
	"github.com/sluice-npu/sluice/dse/graph"
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
)

// Depthwise cuts a convolution from in to out with a kernel of kh x kw into windows of channels for the depthwise unit, each
// [from, to); false if not every channel is by itself, the design has no unit or the kernel does not fit it. A window's weights fit the unit, its biases their memory, and the rows under one output row the activation buffer;
// it has no more channels than the unit walks by columns.
func Depthwise(d configs.Design, in, out graph.Tensor, groups, kh, kw int) ([][2]int, bool) {
	nb := d.NB()
	held := abi.DwWords / (kh * kw) // groups of NB channels
	if !d.Depthwise || groups != in.C || groups != out.C || held < 1 {
		return nil, false
	}
	size := min(held*nb, d.CMax, d.ABufElems()/(kh*in.W), cost.PoolGroups*nb)
	if size < 1 {
		return nil, false
	}
	if size >= nb {
		size -= size % nb // a window takes as long as one of the next multiple of NB
	}
	var parts [][2]int
	for c := 0; c < in.C; c += size {
		parts = append(parts, [2]int{c, min(c+size, in.C)})
	}
	return parts, true
}
