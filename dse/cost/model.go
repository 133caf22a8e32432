package cost

import (
	"github.com/sluice-npu/sluice/dse/rtl"
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
)

// Prepared represents a layer for one <k, s>. It contains everything that does not depend on the entry, and the state
// of a walk through the visits of one entry (see the package comment).
type Prepared struct {
	d configs.Design
	g Geom
	b Breakdown

	e            abi.FBCB // the entry
	bact, groups int
	k            K
	memory

	tc          int   // number of channels of a C tile
	passes      int64 // number of passes of an item
	depth       int64
	toSums      int64
	in          run      // cost of an input row
	full, rest  channels // a full C tile; the last C tile, which may have fewer channels
	biases      int64    // bytes of biases
	weightBytes int64    // bytes of all weights
	pass        int64    // bytes of the weights of one pass
	weightsFrom int64    // first cycle at which weights that are not prefetched can arrive
	low         int64    // bytes of weights that are read before rows
	pixels      int64    // number of pixels of the items in full and rest

	moment
}

// channels represents the cost of a C tile.
type channels struct {
	size     int
	out, res run   // cost of a pixel's results; of a pixel's residuals
	words    int64 // cycles to drain a pixel
	load     int64 // cycles between two swaps if only the loading of weights limits them
	weights  int64 // bytes of weights
	item           // traffic and drain of the tile for Prepared.pixels pixels
}

// Prepare computes everything that does not depend on batch, loop order and row tile.
func Prepare(d configs.Design, g Geom, k K, s int) Prepared {
	m := Prepared{d: d, g: g, groups: s, k: k, memory: memoryOf(&d)}
	m.biases = int64(g.BiasCount) * rtl.BiasBytes
	m.in = m.row()
	if g.Drained() {
		m.weightBytes, _ = WeightBytes(d, g, k)
		m.pass = m.weightBytes
	}
	if m.tc = g.OutC; g.GEMM() {
		tp, _ := Tree(d, k)
		m.tc = CTile(d, k, s)
		m.pass = packed(d, min(m.tc, g.OutC), int64(tp))
		m.passes = int64(Passes(d, g, k))
		m.depth, m.toSums = int64(Depth(d, k)), int64(ToSums(d, k))
	}
	m.full = m.channels(min(m.tc, g.OutC))
	m.rest = m.channels((g.OutC-1)%m.tc + 1)
	// weights are read before activations until the weights of one pass and a reserve are on chip
	m.low = min(m.weightBytes, m.pass+max(m.ring/16, min(m.ring/2, rtl.LatentBytes)))
	return m
}

// channels returns the cost of a C tile of n channels.
func (m *Prepared) channels(n int) channels {
	tp, _ := Tree(m.d, m.k)
	c := channels{
		size: n, out: m.pixel(n, m.g.OutPix, m.g.OutOffset), words: int64(ceil(n, DrainStep(m.d, m.k, m.groups))),
		load: Load(m.d, m.k, m.groups, n), weights: packed(m.d, n, m.passes*int64(tp)),
	}
	if m.g.Residual {
		c.res = m.pixel(n, m.g.ResPix, m.g.ResOffset)
	}
	return c
}
