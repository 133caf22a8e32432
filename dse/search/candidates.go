package search

import (
	"math"
	"slices"

	"github.com/sluice-npu/sluice/dse/cost"
	"github.com/sluice-npu/sluice/dse/mapping"
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
)

// none is the number of cycles of a layer that does not fit.
const none = math.MaxInt64

// candidates are the ways to map a layer to a design, by <k, s>.
type candidates struct {
	d  configs.Design
	l  *layer
	on []spread
}

func candidatesOf(d configs.Design, l *layer, o mapping.Options) candidates {
	return candidates{d, l, spreads(d, l, o)}
}

// branches returns the branches at a batch size by ascending bounds, so that most of them can be skipped.
func (c *candidates) branches(batch int, m *scratch) []branch {
	out := m.branches[:0]
	m.fitted = [4]bool{}
	for i := range c.on {
		if s := &c.on[i]; s.p.S <= batch {
			b := s.at(batch)
			for _, b.order = range s.orders {
				out = append(out, b)
			}
		}
	}
	slices.SortStableFunc(out, func(a, b branch) int { return compare(a.All, b.All) })
	m.branches = out
	return out
}

// scratch contains memory that consecutive searches of layers reuse.
type scratch struct {
	branches []branch
	fits     [4][]fit // by the limit of a point's tiles (limited)
	fitted   [4]bool  // fits contains the tiles of the current branches
	tiles    []tile
}

// fit returns the tiles of a spread for br samples. It computes them once for all points with the same limit.
func (m *scratch) fit(s *spread, br int, rs []mapping.Room) []fit {
	i := limited(s.p)
	if !m.fitted[i] {
		m.fits[i], m.fitted[i] = s.l.fits(s.p, br, rs, m.fits[i][:0]), true
	}
	return m.fits[i]
}

// tile is a fit with a lower bound of its cycles.
type tile struct {
	fit
	bound int64
}

// nowhere returns the cycles of a layer that fits none of the rooms.
func nowhere(rs []mapping.Room) []int64 {
	best := make([]int64, len(rs))
	for i := range best {
		best[i] = none
	}
	return best
}

// promise returns three values for each room: a lower bound of a layer's cycles under the law (least), the entry with
// this bound (at), and the number of entries that an exhaustive search would evaluate (n).
func (c *candidates) promise(batch int, rs []mapping.Room, m *scratch) (least []int64, at []abi.FBCB, n []int64) {
	least, at = nowhere(rs), make([]abi.FBCB, len(rs))
	branches := c.branches(batch, m)
	for i := range branches {
		b := &branches[i]
		if b.All >= slices.Max(least) {
			break
		}
		for _, f := range m.fit(b.spread, b.BR, rs) {
			limit := slices.Max(least[f.first : f.last+1])
			if b.All >= limit {
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
	return least, at, c.count(batch, rs, m)
}

func (b *branch) entry(f fit) abi.FBCB {
	return abi.FBCB{BR: uint8(b.BR), K: uint8(b.p.K), Order: b.order, TileB: uint8(f.tb), TileRows: uint16(f.tr)}
}

// cycles returns the law's cycles for an entry. The parameter law must be prepared for the entry's point on d. Results
// of pools are stored, because a pool depends on <T_R, T_P, T_C> only through the number of lanes.
func (l *layer) cycles(d *configs.Design, law *cost.Prepared, batch int, e abi.FBCB) int64 {
	if l.g.GEMM() {
		return law.Layer(batch, e).Total
	}
	at := poolEntry{
		lanes: d.NB(), post: d.Post, drain: d.Drain, ports: d.NAXI, portBytes: d.AXIBytes, wLoad: d.WLoad, ring: d.WRingBeats,
		dram: d.DRAM, batch: batch, tb: int(e.TileB), tr: int(e.TileRows),
	}
	if l.g.Op == abi.OpDepthwise {
		at.tp, at.tc = d.TP, d.TC
	}
	c, ok := l.pools[at]
	if !ok {
		c = law.Layer(batch, e).Total
		l.pools[at] = c
	}
	return c
}

// fastest returns for each room the minimum number of cycles of a layer under the law at one batch size. It also
// returns how often it evaluated the law (asked). It skips entries if their bounds prove that they are no better.
func (c *candidates) fastest(batch int, rs []mapping.Room, m *scratch) (best []int64, asked int64) {
	best = nowhere(rs)
	branches := c.branches(batch, m)
	for i := range branches {
		b := &branches[i]
		if b.All >= slices.Max(best) {
			break
		}
		m.tiles = m.tiles[:0]
		for _, f := range m.fit(b.spread, b.BR, rs) {
			limit := slices.Max(best[f.first : f.last+1])
			if t := (tile{f, b.tile(f.tb, f.tr, limit)}); t.bound < limit {
				m.tiles = append(m.tiles, t)
			}
		}
		// tiles with the lowest bounds first, because their results exclude most of the others
		slices.SortFunc(m.tiles, func(a, b tile) int { return compare(a.bound, b.bound) })
		for _, t := range m.tiles {
			if t.bound >= slices.Max(best[t.first:t.last+1]) {
				continue
			}
			asked++
			cycles := c.l.cycles(&c.d, &b.law, batch, b.entry(t.fit))
			for i := t.first; i <= t.last; i++ {
				best[i] = min(best[i], cycles)
			}
		}
	}
	return best, asked
}

// exhaustive returns the same values as fastest, but evaluates every entry.
func exhaustive(d configs.Design, l *layer, batch int, o mapping.Options, rs []mapping.Room) (best []int64, asked int64) {
	best = nowhere(rs)
	mapping.EnumerateIn(d, l.g, batch, o, rs, func(e abi.FBCB, first, last int) {
		asked++
		c := cost.Layer(d, l.g, batch, e).Total
		for i := first; i <= last; i++ {
			best[i] = min(best[i], c)
		}
	})
	return best, asked
}
