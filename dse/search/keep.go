package search

import (
	"fmt"

	"github.com/sluice-npu/sluice/dse/cost"
	"github.com/sluice-npu/sluice/dse/lower"
	"github.com/sluice-npu/sluice/dse/mapping"
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
)

// After mapping.Choose, dse/compile keeps tensors on chip if a segment then ends earlier. Choose does it for one
// design, with mapping.Keep. Solvers do it for all designs of a <T_P, T_C> at once; they need no entries, only cycles
// (chain.sum). Both use the recursion mapping.Join. With lower bounds instead of layers' cycles, and without the waits
// between layers, the sum is a lower bound.

// Choice is a layer's entry at a batch size, and its time by the law.
type Choice struct {
	Entry abi.FBCB
	Time  cost.Breakdown
}

// Choose maps a network's layers (Lower) on a design at a batch size, as dse/compile does.
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

// far is the time of an impossible mapping, in cycles. It exceeds every real time, and sums of it do not overflow.
const far = none >> 3

// chain is the layers of a network in order.
type chain []link

// link is one layer: its class and segment, and how its output reaches the next layer.
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

// stays holds the minimum cycles of a class's layers at a batch size, by whether their input is on chip (0, 1), by the
// link of their output, and by room. Impossible ones are far; nil if no layer needs them.
type stays [2][mapping.Only + 1][]int64

// stays returns the times of a class on designs with the given rooms.
func (s *solver) stays(d configs.Design, cl *Class, batch int, rs []mapping.Room) (out stays) {
	if s.o.Spill {
		return out
	}
	g := &cl.Geom
	for in := range 2 {
		if in == 1 && !cl.reads {
			break
		}
		for link := range cl.writes + 1 {
			if in == 0 && link == mapping.Apart {
				continue
			}
			best := make([]int64, len(rs))
			for i := range best {
				best[i] = far
			}
			out[in][link] = best
			var law cost.Prepared
			var of cost.K
			prepared := false
			mapping.Whole(d, *g, batch, in == 1, link, s.o, rs, func(e abi.FBCB, first, last int) {
				if k := cost.K(e.K); !prepared || of != k {
					law, of, prepared = cost.Prepare(d, *g, k, 1), k, true
				}
				s.asked++
				c := law.Layer(batch, e).Total
				for r := first; r <= last; r++ {
					best[r] = min(best[r], c)
				}
			})
		}
	}
	return out
}

// sum sets the cycles of designs at a batch size, with tensors on chip if a segment then needs fewer. plain holds, by
// class and room, the cycles of layers with tensors in DRAM, kept those with tensors on chip. With floor, layers do not
// wait for each other.
func (ch chain) sum(d configs.Design, all []Class, cs []Cycles, batch int, plain [][]int64, kept []stays, floor bool) {
	geoms := make([]cost.Geom, len(all))
	for i := range all {
		geoms[i] = all[i].Geom
	}
	step := mapping.Steps(d, geoms, batch)
	if floor {
		step = func(int, bool, bool) *cost.Step { return &cost.Step{} }
	}
	for len(ch) > 0 {
		n := 1
		for n < len(ch) && ch[n].segment == ch[0].segment {
			n++
		}
		links := make([]mapping.Link, n-1)
		for i := range links {
			links[i] = ch[i].next
		}
		for r := range cs {
			_, cs[r][batch-1][ch[0].segment] = mapping.Join(links, func(i int, in bool, out mapping.Link) int64 {
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
