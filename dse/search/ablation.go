package search

import (
	"fmt"

	"github.com/sluice-npu/sluice/dse/cost"
	"github.com/sluice-npu/sluice/dse/lower"
	"github.com/sluice-npu/sluice/dse/mapping"
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
)

// Ablation compares the speed of a design under different schemes of mapping (the paper's figures 10 and 1b).

// Scheme names a way to map batches.
type Scheme string

// Schemes, from the least freedom to the most.
const (
	Serial    Scheme = "serial"          // no batching: one sample after the other
	FC        Scheme = "FC"              // only fully connected layers are batched
	RBatch    Scheme = "R"               // all samples along R
	PBatch    Scheme = "P"               // the largest legal number of sample groups
	Fluid     Scheme = "Fluid"           // the best number of groups for each layer and batch
	Stackable Scheme = "Fluid+Stackable" // Fluid, and the best k
	Ours      Scheme = "ours"            // Stackable, and tile, loop order and kept tensors as dse/compile chooses them
)

// Schemes lists all schemes. Ours is only for the law of the hardware, because the paper's law has no choice of tiles.
var Schemes = []Scheme{Serial, FC, RBatch, PBatch, Fluid, Stackable, Ours}

// AblationRow contains the GOP/s of a scheme at B = 1..8, for the whole network and for each segment. If the exits
// divide the network equally, the segments are subnets of equal work.
type AblationRow struct {
	Law      string              `json:"law"` // rtl or paper
	Scheme   Scheme              `json:"scheme"`
	Design   [3]int              `json:"design"` // <T_R, T_P, T_C>
	GOPS     [abi.BMax]float64   `json:"gops"`
	Segments [][abi.BMax]float64 `json:"gops_by_segment"`
	Peak     float64             `json:"peak_gops"`
}

// layerTime returns the cycles of layer i of a network for a batch size.
type layerTime func(i int, l lower.Layer, batch int) (int64, error)

func (w *Workload) row(law string, s Scheme, clock float64, start int64, layers []lower.Layer, at layerTime) (AblationRow, error) {
	r := AblationRow{Law: law, Scheme: s, Segments: make([][abi.BMax]float64, w.Segments)}
	for b := 1; b <= abi.BMax; b++ {
		seg := make([]int64, w.Segments)
		for i := range seg {
			seg[i] = start
			if s == Serial || s == FC {
				seg[i] *= int64(b)
			}
		}
		for i, l := range layers {
			n, times := b, int64(1)
			if s == Serial || s == FC && !fullyConnected(l.Geom) {
				n, times = 1, int64(b)
			}
			c, err := at(i, l, n)
			if err != nil {
				return r, fmt.Errorf("%s, %s: layer %q at batch %d: %w", law, s, l.Name, n, err)
			}
			seg[l.Segment] += times * c
		}
		total := int64(0)
		for i, c := range seg {
			total += c
			r.Segments[i][b-1] = GOPSOf(configs.Design{ClockMHz: clock}, w.SegMACs[i], b, c)
		}
		r.GOPS[b-1] = GOPSOf(configs.Design{ClockMHz: clock}, w.MACs, b, total)
	}
	return r, nil
}

func fullyConnected(g cost.Geom) bool {
	return g.GEMM() && g.InH == 1 && g.InW == 1 && g.OutH == 1 && g.OutW == 1
}

// Ablate evaluates all schemes on one design under the law of the hardware. All schemes except Ours use the largest
// tile that fits, as the paper does. The options o limit only the mappings of Ours.
func Ablate(w *Workload, d configs.Design, o mapping.Options) ([]AblationRow, error) {
	layers, err := w.Lower(d)
	if err != nil {
		return nil, err
	}
	plain := []mapping.Point{{K: cost.K1, S: 1}}
	groups := []mapping.Point{{K: cost.K1, S: 1}, {K: cost.K1, S: 2}}
	var rows []AblationRow
	for _, s := range Schemes {
		memo := map[cost.Geom]*[abi.BMax + 1]int64{}
		whole := map[int][]Choice{} // by batch size
		at := func(i int, l lower.Layer, b int) (int64, error) {
			if s == Ours {
				if whole[b] == nil {
					var err error
					if whole[b], err = Choose(d, layers, b, o); err != nil {
						return 0, err
					}
				}
				return whole[b][i].Time.Total, nil
			}
			m := memo[l.Geom]
			if m == nil {
				m = new([abi.BMax + 1]int64)
				memo[l.Geom] = m
			}
			if m[b] != 0 {
				return m[b], nil
			}
			var err error
			switch s {
			case Fluid:
				m[b], err = largest(d, l.Geom, b, groups, false)
			case Stackable:
				m[b], err = largest(d, l.Geom, b, mapping.Points, false)
			case PBatch:
				m[b], err = largest(d, l.Geom, b, groups, true)
			default:
				m[b], err = largest(d, l.Geom, b, plain, false)
			}
			return m[b], err
		}
		r, err := w.row("rtl", s, d.ClockMHz, cost.Start(d), layers, at)
		if err != nil {
			return nil, err
		}
		r.Design, r.Peak = [3]int{d.TR, d.TP, d.TC}, 2*float64(d.MACs())*d.ClockMHz/1000
		rows = append(rows, r)
	}
	return rows, nil
}

// largest returns the cycles of a layer if each mapping point uses its largest tile, and the row tile is the outer
// loop. If `most` is false, they are the cycles of the best point, otherwise of the last legal point.
func largest(d configs.Design, g cost.Geom, batch int, points []mapping.Point, most bool) (int64, error) {
	best := int64(none)
	for _, p := range points {
		var tile abi.FBCB
		size := 0
		mapping.Enumerate(d, g, batch, mapping.Options{Points: []mapping.Point{p}, Orders: []bool{false}}, func(e abi.FBCB) {
			if n := int(e.TileB) * int(e.TileRows); n > size {
				tile, size = e, n
			}
		})
		if size == 0 {
			continue
		}
		if c := cost.Layer(d, g, batch, tile).Total; most || c < best {
			best = c
		}
	}
	if best == none {
		return 0, fmt.Errorf("%w: no tile", mapping.ErrNoFit)
	}
	return best, nil
}

// Ablate evaluates the schemes on one design under the paper's law.
func (p *PaperSpace) Ablate(x cost.PaperPoint) ([]AblationRow, error) {
	var rows []AblationRow
	for _, s := range Schemes {
		if s == Ours {
			continue
		}
		r, err := p.scheme(s, x)
		if err != nil {
			return nil, err
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// AblateOwn evaluates each scheme on the design that is best for it at B_max, as the paper's figure 10 does.
func (p *PaperSpace) AblateOwn() ([]AblationRow, error) {
	var rows []AblationRow
	for _, s := range Schemes {
		if s == Ours {
			continue
		}
		var best cost.PaperPoint
		least := int64(none)
		for tp := 1; tp <= p.b.DSP; tp++ {
			x, err := cost.PaperAt(tp, p.b.DSP, p.b.PaperMibit)
			if err != nil {
				continue
			}
			allow, sum := p.allow(s, x), int64(0)
			for _, c := range p.classes {
				b, times := abi.BMax, int64(1)
				if s == Serial || s == FC && !fullyConnected(c.Geom) {
					b, times = 1, abi.BMax
				}
				_, t, _, err := p.layer(x, c.Geom, b, allow)
				if err != nil {
					sum = none
					break
				}
				sum += times * t.Total * int64(c.total())
			}
			if sum < least {
				best, least = x, sum
			}
		}
		if least == none {
			return nil, fmt.Errorf("%w: %s maps no layer on any", cost.ErrPaper, s)
		}
		r, err := p.scheme(s, best)
		if err != nil {
			return nil, err
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// allow returns the mappings that a scheme may use on a design under the paper's law.
func (p *PaperSpace) allow(s Scheme, x cost.PaperPoint) scheme {
	k1 := func(m cost.PaperMapping) bool { return m.K == cost.K1 }
	switch s {
	case Stackable:
		return nil
	case Fluid:
		return func(m cost.PaperMapping, _ int, _ cost.Geom) bool { return k1(m) }
	case PBatch:
		return func(m cost.PaperMapping, batch int, _ cost.Geom) bool {
			// the largest number of groups for which each group has at least one PE
			br := batch
			for _, n := range cost.PaperMappings(batch) {
				if k1(n) && (batch+n.BR-1)/n.BR <= x.TC {
					br = min(br, n.BR)
				}
			}
			return k1(m) && m.BR == br
		}
	}
	return func(m cost.PaperMapping, b int, _ cost.Geom) bool { return k1(m) && m.BR == b }
}

func (p *PaperSpace) scheme(s Scheme, x cost.PaperPoint) (AblationRow, error) {
	allow := p.allow(s, x)
	r, err := p.w.row("paper", s, p.b.ClockMHz, 0, p.layers, func(_ int, l lower.Layer, b int) (int64, error) {
		_, t, _, err := p.layer(x, l.Geom, b, allow)
		return t.Total, err
	})
	r.Design, r.Peak = [3]int{x.TR, x.TP, x.TC}, 2*float64(x.DSPs())*p.b.ClockMHz/1000
	return r, err
}
