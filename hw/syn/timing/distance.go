package timing

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/sluice-npu/sluice/boards"
)

// Distance estimates the delay that a net's length on the die adds. Nothing is placed: the estimate assumes the best
// placement, in which the net's driver is in the middle of the smallest area with all DSPs, block RAMs and URAMs that
// must be close to the net's loads. Real placements are worse, so the estimate is a lower bound for a full part. This
// file is not in Model, since no stored figure depends on it.
type Distance struct {
	DSP, BRAM36, URAM float64 // number of each in the part
	CLBs              float64 // number of CLBs in the part: its area
	Fill              bool    // assume that the netlist's DSPs and memories fill the part's area
	Step              float64 // ns from the middle of an area of one CLB to its edge: sqrt(ns per column x ns per row)
}

// tiles contains the delay of a net per column and per row of CLBs, in ns. In routed designs, one in seven long nets is
// faster (testdata/longnets.txt, TestLongNets). A net is long if it crosses at least 20 columns and rows in total.
var tiles = map[string][2]float64{"k7-2": {0.039, 0.018}, "usp-2": {0.022, 0.010}}

// clbLUTs is the number of LUTs per CLB in both families.
const clbLUTs = 8

// DistanceOn returns the Distance for a board's part and a table's grade.
func DistanceOn(b boards.Board, t *Table) (*Distance, error) {
	ns, ok := tiles[t.Name]
	if !ok || t.Family != b.Family {
		return nil, fmt.Errorf("no distances are known for table %s on %s", t.Name, b.Name)
	}
	return &Distance{DSP: float64(b.DSP), BRAM36: float64(b.BRAM36), URAM: float64(b.URAM), CLBs: float64(b.LUT) / clbLUTs, Step: math.Sqrt(ns[0] * ns[1])}, nil
}

// block contains the numbers of primitives in a block: a chain of DSPs, a block RAM or a URAM. yosys 0.23 connects the
// DSPs of a chain by the cascade, or from P to C.
type block struct{ dsp, bram, uram float64 }

// set is a set of blocks.
type set []uint64

func (s set) or(o set) {
	for i, w := range o {
		s[i] |= w
	}
}

// spread estimates how far the cells of a net are apart.
type spread struct {
	*Distance
	n       *Netlist
	blocks  []block
	of      []int32 // by cell: index of its block; -1: in no block
	ahead   []set   // by net: the blocks that it reaches through logic; nil: not computed
	behind  []set   // by net: the blocks that reach it through logic; nil: not computed
	reaches []set   // by net: the blocks that must be close to its loads; nil: not computed
}

func logic(c class) bool { return c == lut || c == mux || c == carry || c == inverter || c == buffer }

func (n *Netlist) spread(d *Distance) *spread {
	s := &spread{Distance: d, n: n, of: make([]int32, len(n.cells)), ahead: make([]set, len(n.driver)), behind: make([]set, len(n.driver)), reaches: make([]set, len(n.driver))}
	next := make([]int32, len(n.cells)) // by cell: the previous cell in its chain; for the first cell: the cell itself
	for i := range n.cells {
		next[i] = int32(i)
		for _, at := range n.cells[i].pins {
			p := &n.pins[at]
			if n.cells[i].k.class != dsp || p.port != "PCIN" && p.port != "C" || p.net < 0 || n.driver[p.net] < 0 {
				continue
			}
			if from := n.pins[n.driver[p.net]].cell; from != portCell && n.cells[from].k.class == dsp {
				next[i] = from
			}
		}
	}
	index := map[int32]int32{}
	for i := range n.cells {
		s.of[i] = -1
		c := &n.cells[i]
		if c.k.class != dsp && c.k.class != bram && c.k.class != uram {
			continue
		}
		head := int32(i)
		for next[head] != head {
			head = next[head]
		}
		b, ok := index[head]
		if !ok {
			b = int32(len(s.blocks))
			index[head] = b
			s.blocks = append(s.blocks, block{})
		}
		s.of[i] = b
		switch {
		case c.k.class == dsp:
			s.blocks[b].dsp++
		case c.k.class == uram:
			s.blocks[b].uram++
		case c.kind[:6] == "RAMB18":
			s.blocks[b].bram += 0.5
		default:
			s.blocks[b].bram++
		}
	}
	if d.Fill {
		part := *d
		part.DSP, part.BRAM36, part.URAM = 0, 0, 0
		for _, b := range s.blocks {
			part.DSP, part.BRAM36, part.URAM = part.DSP+b.dsp, part.BRAM36+b.bram, part.URAM+b.uram
		}
		s.Distance = &part
	}
	return s
}

func (s *spread) new() set { return make(set, (len(s.blocks)+63)/64) }

// add adds the blocks that must be close to a pin's cell. If the cell is in a block, add adds this block. Otherwise, it
// adds the blocks that the outputs reach if out is set, or else the blocks that reach the inputs. The search ends at
// registers. If first is set, the search can start at a register.
func (s *spread) add(to set, at int32, out, first bool) {
	p := &s.n.pins[at]
	if p.cell == portCell {
		return
	}
	if b := s.of[p.cell]; b >= 0 {
		to[b/64] |= 1 << (b % 64)
		return
	}
	c := &s.n.cells[p.cell]
	if !first && !logic(c.k.class) {
		return
	}
	for _, i := range c.pins {
		if q := &s.n.pins[i]; q.net >= 0 && q.out == out && !c.k.clock(q.port) {
			to.or(s.walk(q.net, out))
		}
	}
}

// walk returns the blocks that a net reaches through logic if out is set, or else the blocks that reach the net.
func (s *spread) walk(net int32, out bool) set {
	memo := s.behind
	if out {
		memo = s.ahead
	}
	if memo[net] != nil {
		return memo[net]
	}
	v := s.new()
	memo[net] = v // terminates the search in a loop; Analyse rejects loops
	if out {
		for _, l := range s.n.loads[net] {
			s.add(v, l, true, false)
		}
	} else if d := s.n.driver[net]; d >= 0 {
		s.add(v, d, false, false)
	}
	return v
}

// radius returns the delay in ns from the middle to the edge of the smallest area that contains the blocks.
func (s *spread) radius(v set) float64 {
	var all block
	for i, w := range v {
		for ; w != 0; w &= w - 1 {
			b := s.blocks[i*64+bits.TrailingZeros64(w)]
			all.dsp, all.bram, all.uram = all.dsp+b.dsp, all.bram+b.bram, all.uram+b.uram
		}
	}
	share := 0.0
	for _, x := range [][2]float64{{all.dsp, s.DSP}, {all.bram, s.BRAM36}, {all.uram, s.URAM}} {
		if x[0] > 0 {
			share = max(share, x[0]/x[1])
		}
	}
	return s.Step * math.Sqrt(share*s.CLBs)
}

// way returns the delay that distance adds to a net up to one of its loads, in ns.
func (s *spread) way(at int32) (ns float64) {
	to := &s.n.pins[at]
	if len(s.blocks) == 0 || to.net < 0 || to.cell == portCell || s.n.driver[to.net] < 0 {
		return 0
	}
	all := s.reaches[to.net]
	if all == nil {
		all = s.new()
		for _, l := range s.n.loads[to.net] {
			s.add(all, l, true, true)
		}
		s.reaches[to.net] = all
	}
	here := s.new()
	s.add(here, at, true, true)
	if r := s.radius(here); r > 0 {
		ns = max(ns, s.radius(all)-r)
	}
	// The best place for a cell with several sources is in the middle between the sources.
	if r := s.radius(s.walk(to.net, false)); r > 0 && logic(s.n.cells[to.cell].k.class) {
		for _, i := range s.n.cells[to.cell].pins {
			if q := &s.n.pins[i]; q.out && q.net >= 0 {
				ns = max(ns, s.radius(s.walk(q.net, false))-r)
			}
		}
	}
	return ns
}

// AnalyseOn is Analyse with distances. MaxLevels is the depth of the slowest path, and Deep and Deepest are not set.
// The delay of a net with more than 64 loads is the larger of two delays: the table's delay for all loads, or for 64
// loads plus the distance's delay.
func (n *Netlist) AnalyseOn(t *Table, d *Distance, keep int, ports bool) (*Analysis, error) {
	n, err := n.fitFor(t)
	if err != nil {
		return nil, err
	}
	s := n.spread(d)
	r, times, err := n.ends(t, ports, func(at int32) float64 {
		p := &n.pins[at]
		ns, way := n.wire(t, p), s.way(at)
		if way > 0 && n.fanout[p.net] > 64 {
			return max(ns, t.net(64)+way)
		}
		return ns + way
	})
	if err != nil {
		return nil, err
	}
	r.Worst = n.paths(times, times, r.ends, keep)
	r.MaxLevels = r.Worst[0].Levels
	return r, nil
}
