package search

import (
	"fmt"

	"github.com/sluice-npu/sluice/dse/cost"
	"github.com/sluice-npu/sluice/dse/lower"
	"github.com/sluice-npu/sluice/dse/mapping"
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
)

// What dse/compile does behind mapping.Choose: tensors stay on chip where a segment ends earlier with them. Choose does it
// for one design, by mapping.Keep; solvers for all designs of a <T_P, T_C> at once, for which they need no entry, only
// cycles (chain.sum): the same recursion, mapping.Join. With bounds from below in place of layers' cycles, and without
// the waits between them, it is a bound on the sum.

// Choice is a layer's entry at a batch, and what the law says of it.
type Choice struct {
	Entry abi.FBCB
	Time  cost.Breakdown
}

// Choose maps the layers that a network becomes on a design (Lower) at a batch, as dse/compile does.
func Choose(d configs.Design, layers []lower.Layer, batch int, o mapping.Options) ([]Choice, error) {
	entries := make([]abi.FBCB, len(layers))
	chosen := map[cost.Geom]abi.FBCB{} // layers alike have one
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

// far is the cycles of what cannot be: more than any network takes, and sums of it stay numbers.
const far = none >> 3

// chain is the layers of a network in their order.
type chain []link

// link is one of them: its class, and what its output is to the next one.
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

// stays is the law's fewest cycles of a class's layers at a batch, by whether what they read is on chip and by
// what becomes of what they write, in each room; far where that cannot be, nil where no layer asks for it.
type stays [2][mapping.Only + 1][]int64

// stays of a class on designs that have the given rooms.
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

// sum fills in the cycles of designs at a batch, those of segments with tensors on chip where that is fewer: plain has
// by class and room the cycles of layers whose tensors go through DRAM, kept the others'. With floor layers do not wait
// for each other.
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
