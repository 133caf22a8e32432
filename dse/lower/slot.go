package lower

import (
	"fmt"
	"math"
	"slices"

	"github.com/sluice-npu/sluice/dse/alias"
	"github.com/sluice-npu/sluice/dse/graph"
)

const (
	// TensorAlign is the alignment of tensors in bytes: one round of stripes over the ports of any design (four stripes
	// of 256 bytes). A tensor at another address is split into more bursts, and one port transfers both the first and
	// the last burst. On zcu104, such addresses slowed down layers that read weights continuously by up to a quarter.
	TensorAlign = 1024
	slotAlign   = 4096
)

// Slot is the layout of a sample's memory.
type Slot struct {
	*alias.Plan
	Stride int64   // distance from one slot to the next, in bytes
	elem   int64   // size of an element, in bytes
	offset []int64 // offset of a root in the slot, in bytes
}

// At returns the offset of a channel of t in the slot, in bytes.
func (s *Slot) At(t graph.TensorID, channel int) int64 {
	v := s.Views[t]
	return s.offset[v.Root] + int64(v.Channel+channel)*s.elem
}

// lay chooses the offsets of all tensors in a slot.
func lay(g *graph.Graph, plan *alias.Plan, elem int) (*Slot, error) {
	s := &Slot{Plan: plan, elem: int64(elem), offset: make([]int64, len(g.Tensors))}
	blocks, roots := s.blocks(g)
	s.Stride = allocate(blocks)
	for i, b := range blocks {
		s.offset[roots[i]] = b.offset
	}
	s.Stride = roundUp(max(s.Stride, 1), slotAlign)
	if s.Stride > math.MaxInt32 {
		return nil, fmt.Errorf("%w: a slot of %d bytes, at most %d", ErrTooBig, s.Stride, math.MaxInt32)
	}
	return s, nil
}

// blocks returns the memory block of each root, with the first and the last node that use it; and the roots.
func (s *Slot) blocks(g *graph.Graph) ([]block, []graph.TensorID) {
	const forever = math.MaxInt
	first := make([]int, len(g.Tensors))
	last := make([]int, len(g.Tensors))
	for t := range first {
		first[t], last[t] = forever, -1
	}
	touch := func(t graph.TensorID, n int) {
		r := s.Views[t].Root
		first[r], last[r] = min(first[r], n), max(last[r], n)
	}
	for n := range g.Nodes {
		touch(g.Nodes[n].Output, n) // nodes that form one layer share a root, whose memory is used from the first of these nodes on
		for _, t := range g.Nodes[n].Reads() {
			touch(t, n)
		}
	}
	// The input and the logits are needed until the request is finished, by a retry and by the client.
	pin := func(t graph.TensorID) {
		touch(t, -1)
		touch(t, forever)
	}
	pin(g.Input)
	for _, e := range g.Exits {
		pin(e.Tensor)
	}
	var blocks []block
	var roots []graph.TensorID
	for t := range g.Tensors {
		if last[t] < first[t] {
			continue // the tensor is part of another tensor
		}
		size := int64(g.Tensors[t].H) * int64(g.Tensors[t].W) * int64(s.Width[t]) * s.elem
		blocks = append(blocks, block{size: size, first: first[t], last: last[t]})
		roots = append(roots, graph.TensorID(t))
	}
	return blocks, roots
}

// block is memory that is used from node first to node last, including both.
type block struct {
	size        int64
	first, last int
	offset      int64
}

// allocate assigns an offset to each block, so that blocks that are used at the same time do not overlap. It places the
// largest blocks first, each at the lowest free offset. It returns the total number of bytes.
func allocate(blocks []block) int64 {
	order := make([]int, len(blocks))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case blocks[a].size > blocks[b].size:
			return -1
		case blocks[a].size < blocks[b].size:
			return 1
		}
		return blocks[a].first - blocks[b].first
	})
	var placed []int // indices of placed blocks, sorted by offset
	var total int64
	for _, i := range order {
		b := &blocks[i]
		b.offset = 0
		for _, j := range placed {
			o := &blocks[j]
			if o.last < b.first || b.last < o.first {
				continue
			}
			if b.offset+b.size <= o.offset {
				break
			}
			b.offset = max(b.offset, roundUp(o.offset+o.size, TensorAlign))
		}
		at, _ := slices.BinarySearchFunc(placed, b.offset, func(j int, offset int64) int {
			switch {
			case blocks[j].offset < offset:
				return -1
			case blocks[j].offset > offset:
				return 1
			}
			return 0
		})
		placed = slices.Insert(placed, at, i)
		total = max(total, b.offset+b.size)
	}
	return roundUp(total, TensorAlign)
}

func roundUp(a, b int64) int64 { return (a + b - 1) / b * b }
