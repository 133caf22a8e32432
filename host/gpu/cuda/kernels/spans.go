package kernels

import "github.com/sluice-npu/sluice/host/gpu/kernel"

// Kernel returns the layer as a kernel, with the bytes of a slot that it reads and writes. The writes are exact. The
// reads may be too many. Then a group of repeated kernels may be longer than necessary.
func (l *Layer) Kernel(name string) kernel.Kernel {
	k := kernel.Kernel{Name: name, Blocks: 1, Threads: Threads, Issue: 1, BlockNs: 1}
	k.Reads = tensor(k.Reads, l.InOffset, l.InH, l.InW, l.InC, l.InPix, l.InRow)
	if l.Residual != 0 {
		k.Reads = tensor(k.Reads, l.ResOffset, l.OutH, l.OutW, l.OutC, l.ResPix, l.ResRow)
	}
	k.Writes = tensor(k.Writes, l.OutOffset, l.OutH, l.OutW, l.OutC, l.OutPix, l.OutRow)
	return k
}

// These are instructions per thread, rounded up, as counted by sass.py for sm_90. TileCost is for a tile without its
// steps. StepCost is for a step of a product, in which elements are loaded eight at a time. NarrowCost is for such a
// step in a narrow layer, in which elements are loaded one by one. TapCost is for eight neighbours in a pool's window.
const (
	TileCost   = 500
	StepCost   = 170
	NarrowCost = 620
	TapCost    = 75
)

const wide = 8 // number of elements in one wide load

// taps returns the number of elements of a pool's window that a thread reads. In a layer with few pixels, several
// threads divide one window among them.
func (l *Layer) taps() int64 {
	parts := int64(Threads / (Channels / wide))
	for n := int32(1); n < Pixels && n < l.OutH*l.OutW; n *= 2 {
		parts /= 2
	}
	return (int64(l.KH)*int64(l.KW) + parts - 1) / parts
}

// Narrow reports whether the layer's input cannot be loaded in groups of eight neighbours. Base addresses are not
// checked, because they are multiples of 16.
func (l *Layer) Narrow() bool {
	return l.InC%wide != 0 || (uint32(l.Stride)|l.InOffset|l.InRow|2*uint32(l.InPix))%16 != 0
}

// Steps returns the minimum number of clocks for a tile, if no other block runs on the SM. It assumes that the SM
// issues in each clock as many instructions as the block has warps.
func (l *Layer) Steps() int64 {
	cost := int64(StepCost)
	switch {
	case l.Op != GEMM:
		return TileCost + TapCost*((l.taps()+3)/4*4) // rounded up, because four taps are read at a time
	case l.Narrow():
		cost = NarrowCost
	}
	return TileCost + cost*steps(l)
}

// Interval returns the maximum number of clocks between two polls of a block, if no other block runs on the SM. A
// product reacts to a poll one step later.
func (l *Layer) Interval() int64 {
	if l.Op != GEMM {
		return TileCost + TapCost*min(Window, (l.taps()+3)/4*4)
	}
	n := steps(l)
	cost := (l.Steps() - TileCost) / n
	most := TileCost + cost*min(n, Poll)
	if n > Poll {
		most = max(most, cost*(Poll+1))
	}
	return most
}

// TileBytes returns the number of bytes that a tile reads and writes.
func (l *Layer) TileBytes() int64 {
	const out = 2 * Pixels * Channels
	if l.Op != GEMM {
		return out * (1 + int64(l.KH)*int64(l.KW))
	}
	return out + steps(l)*2*Depth*(Pixels+Channels)
}

// steps returns the number of steps of a product's inner loop.
func steps(l *Layer) int64 {
	return (int64(l.KH)*int64(l.KW)*int64(l.InC) + Depth - 1) / Depth
}

// tensor appends the bytes of a tensor of h x w pixels with c elements each.
func tensor(to []kernel.Span, at uint32, h, w, c, pix int32, row uint32) []kernel.Span {
	for y := range int64(h) {
		from := int64(at) + y*int64(row)
		if c == pix {
			to = append(to, kernel.Span{From: from, To: from + 2*int64(w)*int64(c)})
			continue
		}
		for x := range int64(w) {
			to = append(to, kernel.Span{From: from + 2*x*int64(pix), To: from + 2*(x*int64(pix)+int64(c))})
		}
	}
	return to
}
