package sim

import (
	"slices"

	"github.com/sluice-npu/sluice/host/gpu/kernel"
)

// Memory is what one run of a program has in DRAM, as checksums: one for every stretch of bytes that no
// span of the program divides. A kernel that ends leaves in what it writes a checksum of itself and of
// what it read; a kernel that is killed leaves there something that nobody else ever leaves. So equal
// checksums mean that every byte came about as in an undisturbed run.
type Memory struct {
	layout *layout
	cells  []uint64
	spoilt uint64 // writes that were cut off, to tell them apart
	opened uint64 // what the kernel read whose first blocks alone have run
}

// layout is a program's: which cells each kernel reads and writes.
type layout struct {
	cells         int
	reads, writes [][]int32 // by kernel
}

func newLayout(p *kernel.Program) *layout {
	var cuts []int64
	for i := range p.Kernels {
		for _, s := range p.Kernels[i].Reads {
			cuts = append(cuts, s.From, s.To)
		}
		for _, s := range p.Kernels[i].Writes {
			cuts = append(cuts, s.From, s.To)
		}
	}
	slices.Sort(cuts)
	cuts = slices.Compact(cuts)
	l := &layout{cells: len(cuts)}
	cells := func(spans []kernel.Span) (out []int32) {
		for _, s := range spans {
			from, _ := slices.BinarySearch(cuts, s.From)
			to, _ := slices.BinarySearch(cuts, s.To)
			for c := from; c < to; c++ {
				out = append(out, int32(c))
			}
		}
		slices.Sort(out)
		return slices.Compact(out)
	}
	for i := range p.Kernels {
		l.reads = append(l.reads, cells(p.Kernels[i].Reads))
		l.writes = append(l.writes, cells(p.Kernels[i].Writes))
	}
	return l
}

// Program is a kernel program made ready for runs of it.
type Program struct {
	*kernel.Program
	layout *layout
}

// Load makes a program ready; it refuses one that cannot be.
func Load(p *kernel.Program) (*Program, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	return &Program{p, newLayout(p)}, nil
}

// Memory is memory for one run; input tells inputs apart.
func (p *Program) Memory(input uint64) *Memory {
	m := &Memory{layout: p.layout, cells: make([]uint64, p.layout.cells)}
	m.Fill(input)
	return m
}

// Fill puts the memory back to where a run with this input begins.
func (m *Memory) Fill(input uint64) {
	for i := range m.cells {
		m.cells[i] = mix(input, uint64(i))
	}
}

// Sum is a checksum of all of it.
func (m *Memory) Sum() (sum uint64) {
	for _, c := range m.cells {
		sum = mix(sum, c)
	}
	return sum
}

// Undisturbed is the checksum of the memory after the first n kernels, each run once.
func (p *Program) Undisturbed(input uint64, n int) uint64 {
	m := p.Memory(input)
	for k := range n {
		m.write(k, m.read(k))
	}
	return m.Sum()
}

// read is the checksum of a kernel that begins now.
func (m *Memory) read(k int) uint64 {
	sum := uint64(k) + 1
	for _, c := range m.layout.reads[k] {
		sum = mix(sum, m.cells[c])
	}
	return sum
}

// write leaves what kernel k, having read sum, writes.
func (m *Memory) write(k int, sum uint64) {
	for _, c := range m.layout.writes[k] {
		m.cells[c] = mix(sum, uint64(c))
	}
}

// spoil leaves what kernel k writes when it is killed with some of its blocks begun.
func (m *Memory) spoil(k int, sum uint64) {
	m.spoilt++
	for _, c := range m.layout.writes[k] {
		m.cells[c] = mix(mix(sum, ^uint64(c)), m.spoilt)
	}
}

// begin is read for blocks of kernel k: those behind its first ones go on with what these read.
func (m *Memory) begin(k int, rest bool) uint64 {
	if rest {
		return m.opened
	}
	return m.read(k)
}

// end is write for blocks of kernel k: what it writes is there when its last block has ended, until then
// it is a mixture that nobody may read.
func (m *Memory) end(k int, sum uint64, last bool) {
	if last {
		m.write(k, sum)
		return
	}
	m.opened = sum
	m.spoil(k, sum)
}

// mix is one step of a checksum whose order counts.
func mix(a, b uint64) uint64 {
	h := (a ^ (b + 0x9e3779b97f4a7c15 + a<<6 + a>>2)) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}
