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

// candidates is a layer on a design: where it may go there.
type candidates struct {
	d  configs.Design
	l  *layer
	on []spread
}

func candidatesOf(d configs.Design, l *layer, o mapping.Options) candidates {
	return candidates{d, l, spreads(d, l, o)}
}

// branches at a batch, the most promising first, so that the others are cut early.
func (p *candidates) branches(batch int, m *scratch) []branch {
	out := m.branches[:0]
	m.fitted = [4]bool{}
	for i := range p.on {
		if s := &p.on[i]; s.p.S <= batch {
			b := s.at(batch)
			for _, b.order = range s.orders {
				out = append(out, b)
			}
		}
	}
	slices.SortStableFunc(out, func(a, b branch) int { return compare(a.bound, b.bound) })
	m.branches = out
	return out
}

// scratch is memory that searches of layers use one after the other.
type scratch struct {
	branches []branch
	fits     [4][]fit // by what limits a point's tiles: whole or half the accumulators, the buffer
	fitted   [4]bool  // for the branches
	tiles    []tile
}

// fit answers the tiles of a branch, the same for all points that have the same limits.
func (m *scratch) fit(b *branch, rs []room) []fit {
	i := 2*b.p.S - 2
	if b.p.K == cost.KHalf {
		i++
	}
	if !m.fitted[i] {
		m.fits[i], m.fitted[i] = b.l.fits(b.p, b.br, rs, m.fits[i][:0]), true
	}
	return m.fits[i]
}

// tile is one with a bound.
type tile struct {
	fit
	bound int64
}

// nowhere is the times of a layer that fits no room.
func nowhere(rs []room) []int64 {
	best := make([]int64, len(rs))
	for i := range best {
		best[i] = none
	}
	return best
}

// promise is a bound from below on the law's fewest cycles of a layer in each room, and the entry that it is
// the bound of.
func (p *candidates) promise(batch int, rs []room, m *scratch) (least []int64, at []abi.FBCB) {
	least, at = nowhere(rs), make([]abi.FBCB, len(rs))
	branches := p.branches(batch, m)
	for i := range branches {
		b := &branches[i]
		if b.bound >= slices.Max(least) {
			break
		}
		for _, f := range m.fit(b, rs) {
			limit := slices.Max(least[f.first : f.last+1])
			if b.bound >= limit {
				continue
			}
			bound := b.tile(f.tb, f.tr, limit)
			for r := f.first; r <= f.last; r++ {
				if bound < least[r] {
					least[r], at[r] = bound, b.entry(f)
				}
			}
		}
	}
	return least, at
}

func (b *branch) entry(f fit) abi.FBCB {
	return abi.FBCB{BR: uint8(b.br), K: uint8(b.p.K), Order: b.order, TileB: uint8(f.tb), TileRows: uint16(f.tr)}
}

// cycles by the law, which is prepared for the entry's point on d. A pool's are remembered: of a sweep's
// designs, it reads two numbers.
func (l *layer) cycles(d *configs.Design, law *cost.Prepared, batch int, e abi.FBCB) int64 {
	if l.g.GEMM() {
		return law.Layer(batch, e).Total
	}
	at := poolEntry{d.NB(), d.Drain, batch, int(e.TileB), int(e.TileRows)}
	c, ok := l.pools[at]
	if !ok {
		c = law.Layer(batch, e).Total
		l.pools[at] = c
	}
	return c
}

// fastest is the law's fewest cycles of a layer at one batch in each room, and how often the law was
// asked: not of entries whose bound says that they can be no better.
func (p *candidates) fastest(batch int, rs []room, m *scratch) (best []int64, asked int64) {
	best = nowhere(rs)
	branches := p.branches(batch, m)
	for i := range branches {
		b := &branches[i]
		if b.bound >= slices.Max(best) {
			break
		}
		m.tiles = m.tiles[:0]
		for _, f := range m.fit(b, rs) {
			limit := slices.Max(best[f.first : f.last+1])
			if t := (tile{f, b.tile(f.tb, f.tr, limit)}); t.bound < limit {
				m.tiles = append(m.tiles, t)
			}
		}
		// the most promising first: what they give cuts most of the others
		slices.SortFunc(m.tiles, func(a, b tile) int { return compare(a.bound, b.bound) })
		for _, t := range m.tiles {
			if t.bound >= slices.Max(best[t.first:t.last+1]) {
				continue
			}
			asked++
			c := p.l.cycles(&p.d, &b.law, batch, b.entry(t.fit))
			for i := t.first; i <= t.last; i++ {
				best[i] = min(best[i], c)
			}
		}
	}
	return best, asked
}

// exhaustive is the same from every entry.
func exhaustive(d configs.Design, l *layer, batch int, o mapping.Options, rs []room) (best []int64, asked int64) {
	best = nowhere(rs)
	entries(d, l, batch, o, rs, func(e abi.FBCB, first, last int) {
		asked++
		c := cost.Layer(d, l.g, batch, e).Total
		for i := first; i <= last; i++ {
			best[i] = min(best[i], c)
		}
	})
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
	scratch
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
	designs []int        // indices into pair.designs
	least   []Cycles     // that mappings of each take at least
	at      [][]abi.FBCB // whose bounds these are: of each, by class and batch
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
		out = append(out, lowered{designs: []int{i}, classes: classes(layers, s.w.Segments)})
	}
	return out
}

// survey counts the legal mappings of a pair's designs, over layers and batches, and fills in the cycles that
// designs cannot undercut. Designs on which some layer has no mapping are in no group it answers.
func (s *solver) survey(p *pair, groups []lowered) (total int64, left []lowered) {
	for _, gr := range groups {
		d, rs := p.designs[gr.designs[0]], s.rooms(p, &gr)
		gr.least, gr.at = make([]Cycles, len(rs)), make([][]abi.FBCB, len(rs))
		for b := 1; b <= abi.BMax; b++ {
			s.begin(d, gr.least, b)
		}
		sums, dead := make([]int64, len(rs)), make([]bool, len(rs))
		for _, cl := range gr.classes {
			on := candidatesOf(d, s.layer(cl.Geom), s.o)
			for b := 1; b <= abi.BMax && slices.Contains(dead, false); b++ {
				for i, n := range on.count(b, rs) {
					sums[i] += n * int64(cl.total())
					dead[i] = dead[i] || n == 0
				}
				least, at := on.promise(b, rs, &s.scratch)
				cl.add(gr.least, b, least)
				for i := range at {
					gr.at[i] = append(gr.at[i], at[i])
				}
			}
		}
		n := 0
		for i := range rs {
			if !dead[i] {
				total += sums[i]
				gr.designs[n], gr.least[n], gr.at[n] = gr.designs[i], gr.least[i], gr.at[i]
				n++
			}
		}
		if n > 0 {
			gr.designs, gr.least, gr.at = gr.designs[:n], gr.least[:n], gr.at[:n]
			left = append(left, gr)
		}
	}
	return total, left
}

// reach answers cycles that a group's designs reach: the law's of the entries that the bounds are of. It
// leaves out those that drop says it may.
func (s *solver) reach(p *pair, gr *lowered, drop func(Cycles) bool) []Cycles {
	d := p.designs[gr.designs[0]]
	out := make([]Cycles, len(gr.designs))
	for b := 1; b <= abi.BMax; b++ {
		s.begin(d, out, b)
	}
	left := 0
	var before []abi.FBCB // of the design before, and its cycles: neighbours have most in common
	cycles := make([]int64, len(gr.classes)*abi.BMax)
	for i, at := range gr.at {
		if drop(gr.least[i]) {
			continue
		}
		for k, e := range at {
			cl, b := &gr.classes[k/abi.BMax], 1+k%abi.BMax
			if before == nil || e != before[k] {
				l := s.layer(cl.Geom)
				law := cost.Prepare(d, l.g, cost.K(e.K), cost.Groups(e, b))
				cycles[k] = l.cycles(&d, &law, b, e)
			}
			cl.add(out[left:left+1], b, cycles[k:k+1])
		}
		before = at
		left++
	}
	return out[:left]
}

// begin makes the cycles of designs at a batch those of no layers.
func (s *solver) begin(d configs.Design, cs []Cycles, b int) {
	for i := range cs {
		cs[i][b-1] = make([]int64, s.w.Segments)
		for j := range cs[i][b-1] {
			cs[i][b-1][j] = cost.Start(d)
		}
	}
}

// add the class's layers to the cycles of designs at a batch.
func (cl *Class) add(cs []Cycles, b int, cycles []int64) {
	for i, c := range cycles {
		for j, n := range cl.Count {
			cs[i][b-1][j] += int64(n) * c
		}
	}
}

func (s *solver) rooms(p *pair, gr *lowered) []room {
	designs := make([]configs.Design, len(gr.designs))
	for i, j := range gr.designs {
		designs[i] = p.designs[j]
	}
	return rooms(designs)
}

// solve answers the cycles of the designs in a pair's groups, in their order. It leaves a design out when
// drop says that it may, told before and after each batch what the design cannot beat: its fewest cycles
// for batches that are solved, the bound for the others.
func (s *solver) solve(p *pair, groups []lowered, drop func(Cycles) bool) (at []int, out []Cycles, err error) {
	for _, gr := range groups {
		gr.designs, gr.least = slices.Clone(gr.designs), slices.Clone(gr.least)
		cut := func() {
			left := 0
			for i := range gr.least {
				if drop == nil || !drop(gr.least[i]) {
					gr.designs[left], gr.least[left] = gr.designs[i], gr.least[i]
					left++
				}
			}
			gr.designs, gr.least = gr.designs[:left], gr.least[:left]
		}
		cut()
		if len(gr.designs) == 0 {
			continue
		}
		d, layers := p.designs[gr.designs[0]], make([]candidates, len(gr.classes))
		for i, cl := range gr.classes {
			layers[i] = candidatesOf(d, s.layer(cl.Geom), s.o)
		}
		for b := 1; b <= abi.BMax && len(gr.designs) > 0; b++ {
			rs := s.rooms(p, &gr)
			s.begin(d, gr.least, b)
			for i, cl := range gr.classes {
				var best []int64
				var asked int64
				if s.prune {
					best, asked = layers[i].fastest(b, rs, &s.scratch)
				} else {
					best, asked = exhaustive(d, s.layer(cl.Geom), b, s.o, rs)
				}
				s.asked += asked
				if i := slices.Index(best, none); i >= 0 {
					d := p.designs[gr.designs[i]]
					return nil, nil, fmt.Errorf("<%d, %d, %d>: layer %q at batch %d has an entry that the search does not find", d.TR, d.TP, d.TC, cl.Name, b)
				}
				cl.add(gr.least, b, best)
			}
			cut()
		}
		at, out = append(at, gr.designs...), append(out, gr.least...)
	}
	return at, out, nil
}
