package kernels

import "github.com/sluice-npu/sluice/host/gpu/kernel"

// Kernel returns the bytes of a slot that a layer reads and writes. Writes are exact. Reads may be too large, which
// makes a repeatable group longer, never shorter.
func (l *Layer) Kernel(name string) kernel.Kernel {
	k := kernel.Kernel{Name: name, Blocks: 1, Threads: Threads, Issue: 1, BlockNs: 1}
	k.Reads = tensor(k.Reads, l.InOffset, l.InH, l.InW, l.InC, l.InPix, l.InRow)
	if l.Residual != 0 {
		k.Reads = tensor(k.Reads, l.ResOffset, l.OutH, l.OutW, l.OutC, l.ResPix, l.ResRow)
	}
	k.Writes = tensor(k.Writes, l.OutOffset, l.OutH, l.OutW, l.OutC, l.OutPix, l.OutRow)
	return k
}

// Steps is the least number of clocks of a block that has an SM to itself. A product's inner loop alternates
// multiplying and loading; a thread of a pool reads its window for each output.
func (l *Layer) Steps() int64 {
	each := int64(Pixels * Channels / Threads) // outputs of a thread
	if l.Op != GEMM {
		return int64(l.Each) * 4 * each * int64(l.KH) * int64(l.KW)
	}
	return int64(l.Each) * steps(l) * 2 * Depth * each
}

// BlockBytes is the memory traffic of a block.
func (l *Layer) BlockBytes() int64 {
	out := int64(l.Each) * 2 * Pixels * Channels
	if l.Op != GEMM {
		return out * (1 + int64(l.KH)*int64(l.KW))
	}
	return out + int64(l.Each)*steps(l)*2*Depth*(Pixels+Channels)
}

// steps of a product's inner loop.
func steps(l *Layer) int64 {
	return (int64(l.KH)*int64(l.KW)*int64(l.InC) + Depth - 1) / Depth
}

// tensor adds the bytes of h x w pixels of c elements.
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
