package search

import (
	"fmt"
	"math"
	"slices"

	"github.com/sluice-npu/sluice/dse/cost"
	"github.com/sluice-npu/sluice/dse/mapping"
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
)

// none is the time of a layer that fits nowhere.
const none = math.MaxInt64

// fastest is the law's fewest cycles of a layer at one batch in each room, and how often the law was
// asked. With prune, entries whose bound says that they can be no better are not evaluated.
func fastest(d configs.Design, l *layer, batch int, o mapping.Options, rs []room, prune bool) (best []int64, asked int64) {
	best = make([]int64, len(rs))
	for i := range best {
		best[i] = none
	}
	if !prune {
		entries(d, l, batch, o, rs, func(e abi.FBCB, first, last int) {
			asked++
			c := cost.Layer(d, l.g, batch, e).Total
			for i := first; i <= last; i++ {
				best[i] = min(best[i], c)
			}
		})
		return best, asked
	}
	type branch struct {
		s     spread
		order bool
		bound int64
	}
	var room [2 * 5]branch
	branches := room[:0]
	for _, p := range pointsOf(o) {
		for _, order := range ordersOf(o) {
			if placed(d, &l.g, p, order, batch) {
				s := newSpread(d, l, p, batch)
				branches = append(branches, branch{s, order, s.all()})
			}
		}
	}
	// the most promising first, so that the others are cut early
	slices.SortStableFunc(branches, func(a, b branch) int { return compare(a.bound, b.bound) })
	type tile struct {
		tb, tr, first, last int
		bound               int64
	}
	var tiles []tile
	try := func(b *branch, t *tile) {
		if t.bound >= slices.Max(best[t.first:t.last+1]) {
			return
		}
		asked++
		c := cost.Layer(d, l.g, batch, abi.FBCB{
			BR: uint8(b.s.br), K: uint8(b.s.p.K), Order: b.order, TileB: uint8(t.tb), TileRows: uint16(t.tr),
		}).Total
		for i := t.first; i <= t.last; i++ {
			best[i] = min(best[i], c)
		}
	}
	for bi := range branches {
		b := &branches[bi]
		if b.bound >= slices.Max(best) {
			break
		}
		tiles = tiles[:0]
		for tb := b.s.br; tb >= 1; tb-- {
			for _, tr := range l.heights {
				first, last := span(&l.g, b.s.p, tb, tr, rs)
				if first > last {
					continue
				}
				t := tile{tb, tr, first, last, b.s.tile(tb, tr, b.order)}
				if t.bound < slices.Max(best[first:last+1]) {
					tiles = append(tiles, t)
				}
			}
		}
		// the most promising first: what they give cuts most of the others
		slices.SortFunc(tiles, func(a, b tile) int { return compare(a.bound, b.bound) })
		for j := range tiles {
			try(b, &tiles[j])
		}
	}
	return best, asked
}

func compare[T int | int64 | float64](a, b T) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// Cycles are a design's, by batch (index B-1) and segment; the driver starts one segment at a time.
type Cycles [abi.BMax][]int64

// Sum is the cycles of all segments at a batch.
func (c Cycles) Sum(batch int) int64 {
	n := int64(0)
	for _, s := range c[batch-1] {
		n += s
	}
	return n
}

// solver answers the cycles of designs; it belongs to one worker.
type solver struct {
	w      *Workload
	o      mapping.Options
	prune  bool
	layers map[cost.Geom]*layer // what does not depend on the design
	asked  int64
}

func newSolver(w *Workload, o mapping.Options, prune bool) *solver {
	return &solver{w: w, o: o, prune: prune, layers: map[cost.Geom]*layer{}}
}

func (s *solver) layer(g cost.Geom) *layer {
	l, ok := s.layers[g]
	if !ok {
		x := newLayer(g)
		l = &x
		s.layers[g] = l
	}
	return l
}

// lowered is designs of one <T_P, T_C> whose layers are the same.
type lowered struct {
	designs []int // indices into pair.designs
	classes []Class
}

// lower groups a pair's designs by what the network becomes on them; designs on which it becomes
// nothing (a layer does not fit) are in none.
func (s *solver) lower(p *pair) []lowered {
	var out []lowered
	var last []Layer
	for i, d := range p.designs {
		layers, err := s.w.Lower(d)
		if err != nil {
			last = nil
			continue
		}
		if last != nil && slices.Equal(layers, last) {
			out[len(out)-1].designs = append(out[len(out)-1].designs, i)
			continue
		}
		last = layers
		out = append(out, lowered{[]int{i}, classes(layers, s.w.Segments)})
	}
	return out
}

// bound is cycles that no design of the pair can undercut, by batch and segment.
func (s *solver) bound(p *pair, groups []lowered) (c Cycles) {
	for b := 1; b <= abi.BMax; b++ {
		for _, gr := range groups {
			d := p.designs[gr.designs[0]]
			seg := s.starts(d)
			for _, cl := range gr.classes {
				l, least := s.layer(cl.Geom), int64(none)
				for _, pt := range pointsOf(s.o) {
					for _, order := range ordersOf(s.o) {
						if placed(d, &l.g, pt, order, b) {
							sp := newSpread(d, l, pt, b)
							least = min(least, sp.all())
						}
					}
				}
				for i, n := range cl.Count {
					seg[i] += int64(n) * least
				}
			}
			if c[b-1] == nil {
				c[b-1] = seg
				continue
			}
			for i := range seg {
				c[b-1][i] = min(c[b-1][i], seg[i])
			}
		}
	}
	return c
}

func (s *solver) starts(d configs.Design) []int64 {
	seg := make([]int64, s.w.Segments)
	for i := range seg {
		seg[i] = cost.Start(d)
	}
	return seg
}

// space counts the legal mappings of a pair's designs, over layers and batches, and takes designs out
// of the groups on which some layer has none.
func (s *solver) space(p *pair, groups []lowered) (total int64, left []lowered) {
	for _, gr := range groups {
		rs := s.rooms(p, gr)
		sums := make([]int64, len(rs))
		dead := make([]bool, len(rs))
		for _, cl := range gr.classes {
			l := s.layer(cl.Geom)
			for b := 1; b <= abi.BMax; b++ {
				for i, n := range count(p.designs[gr.designs[0]], l, b, s.o, rs) {
					sums[i] += n * int64(cl.total())
					dead[i] = dead[i] || n == 0
				}
			}
		}
		var keep []int
		for i, j := range gr.designs {
			if !dead[i] {
				keep = append(keep, j)
				total += sums[i]
			}
		}
		if len(keep) > 0 {
			left = append(left, lowered{keep, gr.classes})
		}
	}
	return total, left
}

func (s *solver) rooms(p *pair, gr lowered) []room {
	designs := make([]configs.Design, len(gr.designs))
	for i, j := range gr.designs {
		designs[i] = p.designs[j]
	}
	return rooms(designs)
}

// solve answers the cycles of the designs in a pair's groups, in their order. It leaves a design out when
// drop says that it may, told after each batch what the design cannot beat: its fewest cycles for batches
// that are solved, the pair's bound (least) for the others.
func (s *solver) solve(p *pair, groups []lowered, least Cycles, drop func(Cycles) bool) (at []int, out []Cycles, err error) {
	for _, gr := range groups {
		d := p.designs[gr.designs[0]]
		designs, rs := slices.Clone(gr.designs), s.rooms(p, gr)
		cs := make([]Cycles, len(rs))
		for i := range cs {
			cs[i] = least
		}
		for b := 1; b <= abi.BMax && len(rs) > 0; b++ {
			for i := range cs {
				cs[i][b-1] = s.starts(d)
			}
			for _, cl := range gr.classes {
				best, asked := fastest(d, s.layer(cl.Geom), b, s.o, rs, s.prune)
				s.asked += asked
				for i, c := range best {
					if c == none {
						d := p.designs[designs[i]]
						return nil, nil, fmt.Errorf("<%d, %d, %d>: layer %q at batch %d has an entry that the search does not find", d.TR, d.TP, d.TC, cl.Name, b)
					}
					for j, n := range cl.Count {
						cs[i][b-1][j] += int64(n) * c
					}
				}
			}
			if drop == nil {
				continue
			}
			left := 0
			for i := range cs {
				if !drop(cs[i]) {
					designs[left], rs[left], cs[left] = designs[i], rs[i], cs[i]
					left++
				}
			}
			designs, rs, cs = designs[:left], rs[:left], cs[:left]
		}
		at, out = append(at, designs...), append(out, cs...)
	}
	return at, out, nil
}
