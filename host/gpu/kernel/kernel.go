// Package kernel describes the work of a GPU. A kernel is a grid of blocks. Its description contains what a block
// requires of a streaming multiprocessor (SM; AMD: compute unit), the kernel's DRAM traffic, and the spans of memory
// that it reads and writes. A program is a network's kernels in stream order.
package kernel

import (
	"errors"
	"fmt"
)

// ErrProgram is wrapped by errors about a program that cannot run on any GPU.
var ErrProgram = errors.New("kernel program")

// Kind is the type of an operation.
type Kind uint8

const (
	Compute Kind = iota // blocks on SMs
	Upload              // a copy from host memory, on the link
	Fetch               // a copy to host memory, on the link
	Memset              // writes in DRAM, at DRAM speed
)

// Span is a range of bytes in a program's memory: From is included, To is not.
type Span struct{ From, To int64 }

// Kernel is one operation.
type Kernel struct {
	Name    string
	Kind    Kind
	Blocks  int     // number of blocks; this field and the next five are only for Compute
	Threads int     // threads per block
	Regs    int     // registers of 32 bits per thread
	Shared  int     // shared memory per block in bytes
	Issue   float64 // share of an SM's issue slots that a block uses if it is alone on the SM: above 0 and at most 1
	BlockNs float64 // time in ns of a block that is alone on an SM and is the only user of the DRAM
	Bytes   int64   // DRAM traffic of the whole kernel in bytes, or number of copied bytes
	L2      int64   // bytes that the whole kernel requests from the L2; 0: unknown, and no byte is assumed to be read twice
	L1      int64   // bytes that the whole kernel requests from the L1 and the shared memory; 0: unknown
	Reads   []Span  // bytes whose earlier values the kernel uses
	Writes  []Span
}

// Program contains a network's kernels in order, and the ends of the network's segments.
type Program struct {
	Name    string
	Memory  int64 // size in bytes of the memory that spans refer to
	Kernels []Kernel
	Exits   []int // index of the last kernel of each segment, ascending; at the end, the program's last kernel
}

// Check returns an error if the program cannot run.
func (p *Program) Check() error {
	fail := func(format string, a ...any) error {
		return fmt.Errorf("%w %s: %s", ErrProgram, p.Name, fmt.Sprintf(format, a...))
	}
	if len(p.Kernels) == 0 {
		return fail("no kernels")
	}
	for i := range p.Kernels {
		k := &p.Kernels[i]
		switch {
		case k.Bytes < 0:
			return fail("kernel %d (%s) moves %d bytes", i, k.Name, k.Bytes)
		case k.Kind == Compute && (k.Blocks < 1 || k.Threads < 1 || k.Regs < 0 || k.Shared < 0):
			return fail("kernel %d (%s) has %d blocks of %d threads, %d registers, %d bytes of shared memory",
				i, k.Name, k.Blocks, k.Threads, k.Regs, k.Shared)
		case k.Kind == Compute && !(k.BlockNs > 0 && k.Issue > 0 && k.Issue <= 1):
			return fail("kernel %d (%s): a block of %v ns that takes %v of an SM; positive, and at most 1, are expected", i, k.Name, k.BlockNs, k.Issue)
		}
		for _, spans := range [][]Span{k.Reads, k.Writes} {
			for _, s := range spans {
				if s.From < 0 || s.From >= s.To || s.To > p.Memory {
					return fail("kernel %d (%s) names bytes %d to %d of %d", i, k.Name, s.From, s.To, p.Memory)
				}
			}
		}
	}
	last := -1
	for _, e := range p.Exits {
		if e <= last || e >= len(p.Kernels) {
			return fail("exit after kernel %d, behind %d, of %d", e, last, len(p.Kernels))
		}
		last = e
	}
	if last != len(p.Kernels)-1 {
		return fail("the last exit is after kernel %d of %d", last, len(p.Kernels))
	}
	return nil
}

// Occupancy contains an SM's limits on concurrent blocks.
type Occupancy struct {
	Threads, Blocks, Regs, Shared int // limits of one SM
	RegUnit                       int // a block's registers are rounded up to a multiple of this number; 0: 1
}

// Of returns how many blocks of k fit on an SM at the same time.
func (o Occupancy) Of(k *Kernel) int {
	n := min(o.Blocks, o.Threads/k.Threads)
	if r := o.BlockRegs(k); r > 0 {
		n = min(n, o.Regs/r)
	}
	if k.Shared > 0 {
		n = min(n, o.Shared/k.Shared)
	}
	return n
}

// BlockRegs returns the number of registers that a block occupies.
func (o Occupancy) BlockRegs(k *Kernel) int {
	r := k.Regs * k.Threads
	if o.RegUnit > 1 {
		r = (r + o.RegUnit - 1) / o.RegUnit * o.RegUnit
	}
	return r
}
