package search

import (
	"fmt"
	"slices"

	"github.com/sluice-npu/sluice/dse/cost"
	"github.com/sluice-npu/sluice/dse/lower"
	"github.com/sluice-npu/sluice/dse/mapping"
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
)

// This file keeps tensors on chip, as dse/compile does after mapping.Choose, if a segment then ends earlier. Choose
// keeps tensors for one design, with mapping.Keep. Solvers keep tensors for all designs of a <T_P, T_C> at once. They
// compute only cycles (solver.sum), no entries. Choose and solvers use the same recursion, mapping.Joiner. The sum is a
// lower bound if lower bounds replace the cycles of layers, and if layers do not wait for each other.

// Choice is a layer's entry at a batch size, and its time by the law.
type Choice struct {
	Entry abi.FBCB
	Time  cost.Breakdown
}

// Choose returns the entries of a network's layers (Lower) on a design at a batch size, as dse/compile chooses them.
func Choose(d configs.Design, layers []lower.Layer, batch int, o mapping.Options) ([]Choice, error) {
	entries := make([]abi.FBCB, len(layers))
	chosen := map[cost.Geom]abi.FBCB{} // equal layers have the same entry
	for i, l := range layers {
		g := cost.Seen(d, l.Geom)
		e, ok := chosen[g]
		if !ok {
			var err error
			if e, _, err = mapping.Choose(d, l.Geom, batch, o); err != nil {
				return nil, fmt.Errorf("layer %q: %w", l.Name, err)
			}
			chosen[g] = e
		}
		entries[i] = e
	}
	var out []Choice
	for first := 0; first < len(layers); {
		var geoms []cost.Geom
		var links []mapping.Link
		for i := first; i < len(layers) && layers[i].Segment == layers[first].Segment; i++ {
			geoms, links = append(geoms, layers[i].Geom), append(links, layers[i].Next)
		}
		end := first + len(geoms)
		mapping.Keep(d, geoms, links[:len(links)-1], batch, entries[first:end], o)
		for i, t := range cost.Walked(d, geoms, batch, entries[first:end]) {
			out = append(out, Choice{entries[first+i], t})
		}
		first = end
	}
	return out, nil
}

// far is the number of cycles of an impossible mapping. It exceeds every real one, and sums of it do not overflow.
const far = none >> 3

// chain contains the layers of a network in order.
type chain []link

// link represents one layer: its class, its segment, and how its output is passed to the next layer.
type link struct {
	class, segment int
	next           mapping.Link
}

func chainOf(layers []lower.Layer, of []int) chain {
	out := make(chain, len(layers))
	for i, l := range layers {
		out[i] = link{of[i], l.Segment, l.Next}
	}
	return out
}

// kept is an entry of a class that keeps a tensor on chip, with the room that it needs. Its cycles are the same on all
// designs of a group.
type kept struct {
	class, in int // index of the class; 1 if the input is on chip, otherwise 0
	out       mapping.Link
	need      mapping.Room
	cycles    int64
}

// kept returns the entries of a group at a batch size that keep a tensor and fit into at least one of the rooms.
func (s *solver) kept(d configs.Design, gr *lowered, batch int, rs []mapping.Room) []kept {
	out := []kept{}
	if s.o.Spill {
		return out
	}
	for i := range gr.classes {
		cl := &gr.classes[i]
		var laws [cost.K2 + 1]*cost.Prepared // by k
		for in := range 2 {
			if in == 1 && !cl.reads {
				break
			}
			for link := range cl.writes + 1 {
				if in == 0 && link == mapping.Apart {
					continue
				}
				mapping.Whole(d, cl.Geom, batch, in == 1, link, s.o, rs, func(e abi.FBCB, need mapping.Room) {
					law := &laws[e.K]
					if *law == nil {
						p := cost.Prepare(d, cl.Geom, cost.K(e.K), 1)
						*law = &p
					}
					s.asked++
					out = append(out, kept{i, in, link, need, (*law).Layer(batch, e).Total})
				})
			}
		}
	}
	return out
}

// stays contains the minimum cycles of the layers of a class at a batch size. The indices are: whether the input is on
// chip (0, 1), the link of the output, and the room. An impossible combination has the value far, or nil for all rooms.
type stays [2][mapping.Only + 1][]int64

// stays returns the cycles of a group's classes for the rooms rs. The first call must have the rooms of all designs.
func (s *solver) stays(d configs.Design, gr *lowered, batch int, rs []mapping.Room) []stays {
	all := &gr.kept[batch-1]
	if *all == nil {
		*all = s.kept(d, gr, batch, rs)
	}
	out := make([]stays, len(gr.classes))
	for _, k := range *all {
		first, last := k.need.Span(rs)
		if first > last {
			continue
		}
		best := &out[k.class][k.in][k.out]
		if *best == nil {
			*best = slices.Repeat([]int64{far}, len(rs))
		}
		for r := first; r <= last; r++ {
			(*best)[r] = min((*best)[r], k.cycles)
		}
	}
	return out
}

// sum sets the cycles of designs at a batch size. It keeps tensors on chip if a segment then needs fewer cycles. The
// parameters contain the cycles of layers, by class and room: plain with tensors in DRAM, and kept with tensors on
// chip. If floor is true, layers do not wait for each other.
func (s *solver) sum(d configs.Design, gr *lowered, cs []Cycles, batch int, plain [][]int64, kept []stays, floor bool) {
	geoms := make([]cost.Geom, len(gr.classes))
	for i := range geoms {
		geoms[i] = gr.classes[i].Geom
	}
	step := mapping.Steps(d, geoms, batch)
	if floor {
		none := &cost.Step{}
		step = func(int, bool, bool) *cost.Step { return none }
	}
	for ch := gr.chain; len(ch) > 0; {
		n := 1
		for n < len(ch) && ch[n].segment == ch[0].segment {
			n++
		}
		links := make([]mapping.Link, n-1)
		for i := range links {
			links[i] = ch[i].next
		}
		for r := range cs {
			if r > 0 && alike(ch[:n], plain, kept, r) {
				cs[r][batch-1][ch[0].segment] = cs[r-1][batch-1][ch[0].segment]
				continue
			}
			cs[r][batch-1][ch[0].segment] = s.Join(links, func(i int, in bool, out mapping.Link) int64 {
				c := ch[i].class
				if !in && out == mapping.Apart {
					return plain[c][r]
				}
				x := kept[c][0][out]
				if in {
					x = kept[c][1][out]
				}
				if x == nil || x[r] == far {
					return 0
				}
				return x[r]
			}, func(i int, in, only bool) *cost.Step { return step(ch[i].class, in, only) })
		}
		ch = ch[n:]
	}
}

// alike reports whether each layer takes the same number of cycles in room r as in room r-1.
func alike(ch chain, plain [][]int64, kept []stays, r int) bool {
	for _, l := range ch {
		if t := plain[l.class]; t[r] != t[r-1] {
			return false
		}
		for _, in := range kept[l.class] {
			for _, t := range in {
				if t != nil && t[r] != t[r-1] {
					return false
				}
			}
		}
	}
	return true
}
