package cost

import (
	"github.com/sluice-npu/sluice/dse/rtl"
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
)

// Prepared is a layer for one <k, s>: first everything that its entries have in common, then the state of a walk
// through the visits of one entry (see the package's comment).
type Prepared struct {
	d configs.Design
	g Geom
	b Breakdown

	e            abi.FBCB // the entry
	bact, groups int
	k            K
	memory

	tc          int   // channels of a C tile
	passes      int64 // passes of an item
	depth       int64
	toSums      int64
	in          run      // cost of an input row
	full, rest  channels // a C tile; the last one, which may have fewer channels
	biases      int64    // bytes
	weightBytes int64    // of all weights
	pass        int64    // bytes of a pass's weights
	weightsFrom int64    // cycle from which weights that are not prefetched can come
	low         int64    // bytes of weights that come before rows
	pixels      int64    // number of pixels of the items in full and rest

	moment
}

// channels is the cost of a C tile of size channels.
type channels struct {
	size     int
	out, res run   // of a pixel's results; of its residuals
	words    int64 // cycles to drain a pixel
	load     int64 // cycles from swap to swap if nothing else limits them
	weights  int64 // bytes
	item           // for m.pixels
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
	// weights come before activations until this many bytes are on chip beyond those of one pass
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
