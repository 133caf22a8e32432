package search

import (
	"errors"
	"fmt"
	"slices"

	"github.com/sluice-npu/sluice/dse/cost"
	"github.com/sluice-npu/sluice/dse/lower"
	"github.com/sluice-npu/sluice/dse/mapping"
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
)

// Cycles contains the cycles of a design, by batch size (index B-1) and segment; a start of the NPU runs one segment.
type Cycles [abi.BMax][]int64

// Sum is the number of cycles of all segments at a batch size.
func (c Cycles) Sum(batch int) int64 {
	n := int64(0)
	for _, s := range c[batch-1] {
		n += s
	}
	return n
}

// solver computes the cycles of designs. Each worker has its own solver.
type solver struct {
	w      *Workload
	o      mapping.Options
	prune  bool
	layers map[cost.Geom]*layer // everything about a layer that does not depend on the design
	asked  int64
	scratch
	mapping.Joiner
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

// lowered is a group of designs of one <T_P, T_C> on which the network has the same layers.
type lowered struct {
	designs []int        // indices into pair.designs
	least   []Cycles     // lower bound of each design's cycles
	at      [][]abi.FBCB // entries with these bounds, by design; then by class and batch size
	classes []Class
	chain   chain
	kept    [abi.BMax][]kept // by batch size
}

// lower groups the designs of a pair, so that the network has the same layers on all designs of a group. Designs that
// cannot run the network are in no group.
func (s *solver) lower(p *pair) []lowered {
	var out []lowered
	var last []lower.Layer
	for i, d := range p.designs {
		layers, err := s.w.Lower(d)
		if err != nil {
			if errors.Is(err, lower.ErrTooMany) {
				p.tooMany++
			}
			last = nil
			continue
		}
		if last != nil && slices.EqualFunc(layers, last, func(a, b lower.Layer) bool { return a.Geom == b.Geom && a.Next == b.Next }) {
			out[len(out)-1].designs = append(out[len(out)-1].designs, i)
			continue
		}
		last = layers
		all, of := classes(d, layers, s.w.Segments)
		out = append(out, lowered{designs: []int{i}, classes: all, chain: chainOf(layers, of)})
	}
	return out
}

// survey counts the legal mappings of all designs of a pair, for all layers and batch sizes. It also sets the lower
// bounds of their cycles. The returned groups do not contain designs on which some layer has no mapping.
func (s *solver) survey(p *pair, groups []lowered) (total int64, left []lowered) {
	for _, gr := range groups {
		d, rs := p.designs[gr.designs[0]], s.rooms(p, &gr)
		gr.least, gr.at = make([]Cycles, len(rs)), make([][]abi.FBCB, len(rs))
		sums, dead := make([]int64, len(rs)), make([]bool, len(rs))
		plain := make([][][]int64, len(gr.classes)) // by class and batch size
		for i, cl := range gr.classes {
			plain[i] = make([][]int64, abi.BMax)
			on := candidatesOf(d, s.layer(cl.Geom), s.o)
			for b := 1; b <= abi.BMax && slices.Contains(dead, false); b++ {
				var at []abi.FBCB
				var counts []int64
				plain[i][b-1], at, counts = on.promise(b, rs, &s.scratch)
				for i, n := range counts {
					sums[i] += n * int64(cl.total())
					dead[i] = dead[i] || n == 0
				}
				for i := range at {
					gr.at[i] = append(gr.at[i], at[i])
				}
			}
		}
		if !slices.Contains(dead, false) {
			continue
		}
		for b := 1; b <= abi.BMax; b++ {
			s.begin(gr.least, b)
			some := make([][]int64, len(gr.classes))
			for i := range some {
				some[i] = plain[i][b-1]
				for r, c := range some[i] {
					some[i][r] = min(c, far) // excluded designs have the value none, and sums of none would overflow
				}
			}
			s.sum(d, &gr, gr.least, b, some, s.stays(d, &gr, b, rs), true)
		}
		n := 0
		for i := range rs {
			if !dead[i] {
				total += sums[i]
				gr.designs[n], gr.least[n], gr.at[n] = gr.designs[i], gr.least[i], gr.at[i]
				n++
			}
		}
		gr.designs, gr.least, gr.at = gr.designs[:n], gr.least[:n], gr.at[:n]
		left = append(left, gr)
	}
	return total, left
}

// reach returns cycles that designs of a group can achieve, and the indices of these designs in the pair. It applies
// the law to the entries with the lowest bounds, and keeps tensors on chip. It skips a design if drop returns true.
func (s *solver) reach(p *pair, gr *lowered, drop func(design int, c Cycles) bool) (of []int, out []Cycles) {
	d := p.designs[gr.designs[0]]
	var before []abi.FBCB // entries of the previous design: most of them are equal, so their cycles are reused
	cycles := make([]int64, len(gr.classes)*abi.BMax)
	plain := make([][][]int64, abi.BMax) // by batch size, class and design
	for b := range plain {
		plain[b] = make([][]int64, len(gr.classes))
	}
	for i, at := range gr.at {
		if drop(gr.designs[i], gr.least[i]) {
			continue
		}
		of = append(of, gr.designs[i])
		for k, e := range at {
			cl, b := k/abi.BMax, 1+k%abi.BMax
			if before == nil || e != before[k] {
				l := s.layer(gr.classes[cl].Geom)
				law := cost.Prepare(d, l.g, cost.K(e.K), cost.Groups(e, b))
				cycles[k] = l.cycles(&d, &law, b, e)
			}
			plain[b-1][cl] = append(plain[b-1][cl], cycles[k])
		}
		before = at
	}
	if len(of) == 0 {
		return nil, nil
	}
	out = make([]Cycles, len(of))
	some := lowered{designs: of, classes: gr.classes}
	rs := s.rooms(p, &some)
	for b := 1; b <= abi.BMax; b++ {
		s.begin(out, b)
		s.sum(d, gr, out, b, plain[b-1], s.stays(d, gr, b, rs), false)
	}
	return of, out
}

// begin allocates the cycles of designs at a batch size.
func (s *solver) begin(cs []Cycles, b int) {
	for i := range cs {
		cs[i][b-1] = make([]int64, s.w.Segments)
	}
}

func (s *solver) rooms(p *pair, gr *lowered) []mapping.Room {
	designs := make([]configs.Design, len(gr.designs))
	for i, j := range gr.designs {
		designs[i] = p.designs[j]
	}
	return rooms(designs)
}

// solve returns the cycles of the designs in a pair's groups, in the order of the groups. It skips a design if drop
// returns true. It calls drop at the start and after each batch size, with a lower bound of the design's cycles. The
// bound is exact for batch sizes that are solved.
func (s *solver) solve(p *pair, groups []lowered, drop func(design int, c Cycles) bool) (at []int, out []Cycles, err error) {
	for _, gr := range groups {
		gr.designs, gr.least = slices.Clone(gr.designs), slices.Clone(gr.least)
		cut := func() {
			left := 0
			for i := range gr.least {
				if drop == nil || !drop(gr.designs[i], gr.least[i]) {
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
			s.begin(gr.least, b)
			plain := make([][]int64, len(gr.classes))
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
				plain[i] = best
			}
			s.sum(d, &gr, gr.least, b, plain, s.stays(d, &gr, b, rs), false)
			cut()
		}
		at, out = append(at, gr.designs...), append(out, gr.least...)
	}
	return at, out, nil
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
