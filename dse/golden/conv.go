package golden

import (
	"fmt"
	"sync"

	"github.com/sluice-npu/sluice/hw/abi"
)

// Conv is a convolution (GEMM or DEPTHWISE) for which the caller computes the operations after the sum. It is used for
// networks that a bundle cannot represent, such as those of package golden/int8. It is safe for concurrent use.
type Conv struct {
	layer   layer
	scratch sync.Pool // *buffers
}

// NewConv prepares the convolution of a valid descriptor. The weights are [OUT_C][K_H][K_W][IN_C], or [C][K_H][K_W] for
// DEPTHWISE. Padding has the value `fill`. The function `finish` returns the output for a channel's sum (with bias) and
// the residual's value.
func NewConv(d *abi.Desc, weights []int16, bias []int32, fill int16, finish func(sum int64, channel int, residual int16) int16) (*Conv, error) {
	if n := padded(d); n > maxPadded {
		return nil, fmt.Errorf("golden: a padded input of %d elements, at most %d", n, maxPadded)
	}
	c := &Conv{layer: layer{d: *d, weights: weights, bias: bias, fill: fill, end: finish}}
	c.scratch.New = func() any { return new(buffers) }
	c.layer.arrange()
	return c, nil
}

// Run computes the convolution. It reads and writes 16-bit words in maps, at the descriptor's offsets.
func (c *Conv) Run(maps []byte) error {
	s := c.scratch.Get().(*buffers)
	defer c.scratch.Put(s)
	return c.layer.run(s, maps)
}
