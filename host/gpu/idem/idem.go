// Package idem finds the kernel at which a program can resume after a stop inside a kernel (REEF, section 4.4). The
// program resumes at the stopped kernel if this kernel can be repeated. Otherwise it resumes at the first kernel of the
// smallest repeatable group that ends with the stopped kernel. A group of consecutive kernels can be repeated if it
// never overwrites a byte that it read from outside the group. Then it does not matter where in the group the program
// was stopped. A kernel's blocks run in no defined order, so a byte that a kernel both reads and writes counts as read
// first.
package idem

import (
	"slices"

	"github.com/sluice-npu/sluice/host/gpu/kernel"
)

// Never marks a kernel that must not be stopped. After a stop in this kernel, even the whole program could not be
// repeated, because its input has been overwritten.
const Never = -1

// Entries returns, for each kernel, the index of the kernel at which the program resumes if that kernel is killed.
func Entries(p *kernel.Program) []int {
	out := make([]int, len(p.Kernels))
	for i := range p.Kernels {
		out[i] = entry(p.Kernels, i)
	}
	return out
}

// entry returns the kernel at which the program resumes if kernel i is killed. It extends the group of kernels that
// ends with kernel i backwards, until the group can be repeated.
func entry(ks []kernel.Kernel, i int) int {
	var needs, writes spans // needs: bytes that the group reads before it writes them; writes: bytes that it writes
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

// spans is a list of disjoint, sorted byte ranges.
type spans []kernel.Span

// union returns all bytes that are in a or b. Spans of b may overlap and need not be sorted.
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

// subtract returns the bytes of a that are not in b.
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

// meet reports whether any byte is in both a and b.
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
