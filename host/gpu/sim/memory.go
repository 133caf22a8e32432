package sim

import (
	"slices"

	"github.com/sluice-npu/sluice/host/gpu/kernel"
)

// Memory is the DRAM of one run. It stores only checksums, not bytes. The ends of the program's spans divide the memory
// into ranges, and each range has one checksum. So a kernel always reads or writes a whole range. When a kernel ends,
// it writes a checksum of its index and its input. A killed kernel writes a value that occurs only once. So if the
// checksums are equal to those of an undisturbed run, every byte was computed in the same way.
type Memory struct {
	layout *layout
	cells  []uint64
	spoilt uint64 // number of corrupt writes; makes each corrupt value unique
	opened uint64 // input checksum of a kernel that has run only its first blocks
}

// layout contains the byte ranges (cells) that each kernel of a program reads and writes.
type layout struct {
	cells         int
	reads, writes [][]int32 // by kernel: indices of cells
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

// Program is a kernel program that is prepared for runs.
type Program struct {
	*kernel.Program
	layout *layout
}

// Load prepares a program. It returns an error if the program cannot run.
func Load(p *kernel.Program) (*Program, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	return &Program{p, newLayout(p)}, nil
}

// Memory returns the memory for one run. `input` identifies the run's input.
func (p *Program) Memory(input uint64) *Memory {
	m := &Memory{layout: p.layout, cells: make([]uint64, p.layout.cells)}
	m.Fill(input)
	return m
}

// Fill resets the memory to its content at the start of a run with this input.
func (m *Memory) Fill(input uint64) {
	for i := range m.cells {
		m.cells[i] = mix(input, uint64(i))
	}
}

// Sum returns a checksum of the whole memory.
func (m *Memory) Sum() (sum uint64) {
	for _, c := range m.cells {
		sum = mix(sum, c)
	}
	return sum
}

// Undisturbed returns the memory's checksum after a run in which each of the first n kernels runs once.
func (p *Program) Undisturbed(input uint64, n int) uint64 {
	m := p.Memory(input)
	for k := range n {
		m.write(k, m.read(k))
	}
	return m.Sum()
}

// read returns the checksum of the input that kernel k reads when it begins.
func (m *Memory) read(k int) uint64 {
	sum := uint64(k) + 1
	for _, c := range m.layout.reads[k] {
		sum = mix(sum, m.cells[c])
	}
	return sum
}

// write writes the output of kernel k. sum is the checksum of the kernel's input.
func (m *Memory) write(k int, sum uint64) {
	for _, c := range m.layout.writes[k] {
		m.cells[c] = mix(sum, uint64(c))
	}
}

// spoil writes the corrupt output of a kernel that has begun and has not ended.
func (m *Memory) spoil(k int, sum uint64) {
	m.spoilt++
	for _, c := range m.layout.writes[k] {
		m.cells[c] = mix(mix(sum, ^uint64(c)), m.spoilt)
	}
}

// begin is like read, but for a part of a kernel. Later parts use the input checksum of the first part.
func (m *Memory) begin(k int, rest bool) uint64 {
	if rest {
		return m.opened
	}
	return m.read(k)
}

// end is like write, but for a part of a kernel. The output is valid only when the kernel's last block has ended.
func (m *Memory) end(k int, sum uint64, last bool) {
	if last {
		m.write(k, sum)
		return
	}
	m.opened = sum
	m.spoil(k, sum)
}

// mix adds a value to a checksum. The result depends on the order of the values.
func mix(a, b uint64) uint64 {
	h := (a ^ (b + 0x9e3779b97f4a7c15 + a<<6 + a>>2)) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}
