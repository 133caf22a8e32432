// Package kernel says what a GPU runs: kernels as grids of blocks with what a block takes of a
// streaming multiprocessor (SM; on AMD a compute unit), what the kernel moves in DRAM, and which bytes
// it reads and writes; and programs, the kernels of a network in the order of their stream.
package kernel

import (
	"errors"
	"fmt"
)

// ErrProgram is a program that no GPU could run.
var ErrProgram = errors.New("kernel program")

// Kind is what carries an operation out.
type Kind uint8

// Kinds.
const (
	Compute Kind = iota // blocks on SMs
	Upload              // a copy from host memory, on the link
	Fetch               // a copy to host memory, on the link
	Memset              // bytes written in DRAM, at the speed that it has to give
)

// Span is the bytes [From, To) of a program's memory.
type Span struct{ From, To int64 }

// Kernel is one operation.
type Kernel struct {
	Name    string
	Kind    Kind
	Blocks  int     // of the grid; Compute only, as the next four
	Threads int     // of a block
	Regs    int     // of a thread, 32 bit each
	Shared  int     // bytes of shared memory of a block
	Issue   float64 // share of an SM's issue slots that a block which is alone there takes, in (0, 1]
	BlockNs float64 // ns that a block takes where it has an SM and the DRAM to itself
	Bytes   int64   // DRAM traffic of the whole kernel, or what a copy moves
	Reads   []Span  // bytes whose value from before the kernel it uses
	Writes  []Span
}

// Program is what a network is to a GPU: its kernels in order, and after which of them it exits.
type Program struct {
	Name    string
	Memory  int64 // bytes that spans may name
	Kernels []Kernel
	Exits   []int // the last kernel of each segment, rising; the last is the program's last
}

// Check says what of a program cannot be.
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

// Occupancy is what of an SM a kernel's blocks are bounded by.
type Occupancy struct {
	Threads, Blocks, Regs, Shared int // of one SM
	RegUnit                       int // registers are given to a block by this many; 0: one by one
}

// Of is how many blocks of k one SM holds at the same time.
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

// BlockRegs is what a block takes of the registers of an SM.
func (o Occupancy) BlockRegs(k *Kernel) int {
	r := k.Regs * k.Threads
	if o.RegUnit > 1 {
		r = (r + o.RegUnit - 1) / o.RegUnit * o.RegUnit
	}
	return r
}
