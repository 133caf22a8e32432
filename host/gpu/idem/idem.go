// Package idem finds where a program that was stopped inside a kernel can be taken up again (REEF,
// section 4.4): from the kernel itself where it can be run twice, else from the first kernel of the
// smallest group before it that can.
//
// A group of consecutive kernels can be run again, wherever in it the first try ended, if no byte that
// it needs from before the group is written in it: what it reads first, it never overwrites. Inside one
// kernel no order of reads and writes is known between blocks, so a byte that a kernel both reads and
// writes counts as read first.
package idem

import (
	"slices"

	"github.com/sluice-npu/sluice/host/gpu/kernel"
)

// Never stands for a kernel from which nothing leads back: not even the program from its first kernel
// can be run again, since it writes over its own input. Such a kernel must be waited for.
const Never = -1

// Entries says, by kernel, from which kernel on the program is taken up when that one was killed.
func Entries(p *kernel.Program) []int {
	out := make([]int, len(p.Kernels))
	for i := range p.Kernels {
		out[i] = entry(p.Kernels, i)
	}
	return out
}

// entry walks back from kernel i, adding predecessors until the group can be run again.
func entry(ks []kernel.Kernel, i int) int {
	var needs, writes spans // bytes read before any write of the group, and bytes written in it
	for first := i; first >= 0; first-- {
		k := &ks[first]
		w := union(nil, k.Writes)
		needs = union(union(nil, k.Reads), subtract(needs, w))
		writes = union(writes, w)
		if !meet(needs, writes) {
			return first
		}
	}
	return Never
}

// Idempotent counts the kernels that can be run again alone.
func Idempotent(p *kernel.Program) (n int) {
	for i := range p.Kernels {
		if entry(p.Kernels[i:i+1], 0) == 0 {
			n++
		}
	}
	return n
}

// spans are disjoint and in order.
type spans []kernel.Span

// union is all bytes of a and b; b may overlap and lie in any order.
func union(a spans, b []kernel.Span) spans {
	all := append(slices.Clone(a), b...)
	slices.SortFunc(all, func(x, y kernel.Span) int {
		switch {
		case x.From < y.From:
			return -1
		case x.From > y.From:
			return 1
		}
		return 0
	})
	out := all[:0]
	for _, s := range all {
		if n := len(out); n > 0 && s.From <= out[n-1].To {
			out[n-1].To = max(out[n-1].To, s.To)
		} else {
			out = append(out, s)
		}
	}
	return out
}

// subtract is the bytes of a that are not in b.
func subtract(a, b spans) spans {
	var out spans
	j := 0
	for _, s := range a {
		for j < len(b) && b[j].To <= s.From {
			j++
		}
		for k := j; k < len(b) && b[k].From < s.To; k++ {
			if b[k].From > s.From {
				out = append(out, kernel.Span{From: s.From, To: b[k].From})
			}
			s.From = max(s.From, b[k].To)
		}
		if s.From < s.To {
			out = append(out, s)
		}
	}
	return out
}

// meet is whether a and b share a byte.
func meet(a, b spans) bool {
	for i, j := 0, 0; i < len(a) && j < len(b); {
		switch {
		case a[i].To <= b[j].From:
			i++
		case b[j].To <= a[i].From:
			j++
		default:
			return true
		}
	}
	return false
}
