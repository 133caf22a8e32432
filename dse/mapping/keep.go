package mapping

import (
	"fmt"
	"slices"

	"github.com/sluice-npu/sluice/dse/cost"
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
)

// Link describes which layers read the output of a layer. It determines whether the output can stay on chip.
type Link int

// Links between two consecutive layers.
const (
	Apart  Link = iota // the output is not the whole input of the next layer
	Shared             // the output is the input of the next layer, and other layers also read it
	Only               // the output is the input of the next layer, and no other layer reads it
)

// Stay sets the flags for kept tensors in an entry. If keepIn is true, the input is on chip. The parameter `out`
// specifies where the output is stored: in DRAM (Apart), in both memories (Shared), or only on chip (Only).
func Stay(e abi.FBCB, keepIn bool, out Link) abi.FBCB {
	e.KeepIn, e.KeepOut, e.OnChip = keepIn, out != Apart, out == Only
	return e
}

// CheckLinks returns an error if a start's entries contradict each other about kept tensors. Each entry must be legal
// (Check).
func CheckLinks(layers []cost.Geom, entries []abi.FBCB) error {
	kept := false
	for i, e := range entries {
		g := layers[i]
		switch {
		case e.KeepIn != kept:
			return fmt.Errorf("%w: layer %d: KEEP_IN is %t after a layer with KEEP_OUT %t", ErrIllegal, i, e.KeepIn, kept)
		case kept && (g.InH != layers[i-1].OutH || g.InW != layers[i-1].OutW || g.InC != layers[i-1].OutC):
			return fmt.Errorf("%w: layer %d reads %d x %d x %d, %d x %d x %d was kept",
				ErrIllegal, i, g.InH, g.InW, g.InC, layers[i-1].OutH, layers[i-1].OutW, layers[i-1].OutC)
		}
		kept = e.KeepOut
	}
	if kept {
		return fmt.Errorf("%w: the last layer of a start has KEEP_OUT", ErrIllegal)
	}
	return nil
}

// Joiner decides which tensors stay on chip between the layers of a start. Several searches can reuse its memory.
type Joiner struct {
	at [][Only + 1]front // by number of layers, and by the link after these layers
}

// Join computes the links with which the start ends earliest, by dynamic programming over the link after each layer. It
// returns the time of the end. links[i] is the maximum link between layers i and i+1. The function `cycles` returns the
// cycles of a layer whose input and output are stored so, or zero if that is impossible. The function `step` returns
// the step of a layer for the walk. If all steps are zero, the result is the minimum sum of cycles.
func (j *Joiner) Join(links []Link, cycles func(i int, in bool, out Link) int64, step func(i int, in, only bool) *cost.Step) (end int64) {
	n := len(links) + 1
	j.at = slices.Grow(j.at[:0], n+1)[:n+1]
	for i := range j.at {
		for out := range j.at[i] {
			j.at[i][out].n = 0
		}
	}
	j.at[0][Apart].add(&way{})
	for i := range n {
		allowed := Apart
		if i < n-1 {
			allowed = links[i]
		}
		for out := Apart; out <= allowed; out++ {
			for was := Apart; was <= Only; was++ {
				from := &j.at[i][was]
				if from.n == 0 {
					continue
				}
				c := cycles(i, was != Apart, out)
				if c == 0 {
					continue
				}
				s := step(i, was != Apart, out == Only)
				for k := range from.n {
					j.at[i+1][out].add(&way{from.ways[k].Next(s, c), was, k})
				}
			}
		}
	}
	last := &j.at[n][Apart]
	return last.ways[last.first()].End
}

// outs returns the links that the last call of Join chose.
func (j *Joiner) outs() []Link {
	n := len(j.at) - 1
	out := make([]Link, n)
	for i, state, k := n, Apart, j.at[n][Apart].first(); i > 0; i-- {
		out[i-1] = state
		w := &j.at[i][state].ways[k]
		state, k = w.was, w.at
	}
	return out
}

// way is a walk up to a layer. It extends a way of the previous layer (was: the link of that way; at: its index).
type way struct {
	cost.Walk
	was Link
	at  int
}

// front is a small set of ways. No way in the set is later than another way in all times. If there are too many such
// ways, the set contains the ways that end first.
type front struct {
	n    int
	ways [4]way
}

// first returns the index of the way that ends first.
func (f *front) first() (best int) {
	for k := range f.n {
		if f.ways[k].End < f.ways[best].End {
			best = k
		}
	}
	return best
}

func (f *front) add(w *way) {
	left := 0
	for k := range f.n {
		if f.ways[k].Before(&w.Walk) {
			return
		}
	}
	for k := range f.n {
		if !w.Before(&f.ways[k].Walk) {
			f.ways[left] = f.ways[k]
			left++
		}
	}
	if f.n = left; f.n < len(f.ways) {
		f.ways[f.n] = *w
		f.n++
		return
	}
	last := 0
	for k := range f.ways {
		if f.ways[k].End > f.ways[last].End {
			last = k
		}
	}
	if w.End < f.ways[last].End {
		f.ways[last] = *w
	}
}

// Keep changes the entries of the layers of a start (cost.InStart) so that tensors stay on chip if the start then ends
// earlier (Joiner). Other entries are unchanged. If o.Pick is set, Keep chooses links at random instead.
func Keep(d configs.Design, layers []cost.Geom, links []Link, bact int, entries []abi.FBCB, o Options) {
	if o.Spill || len(layers) < 2 {
		return
	}
	if o.Pick != nil {
		pickLinks(d, layers, links, bact, entries, o)
		return
	}
	type entry struct {
		abi.FBCB
		cycles int64
		known  bool
	}
	found := make([][2][Only + 1]entry, len(layers))
	var j Joiner
	j.Join(links, func(i int, in bool, out Link) int64 {
		e := &found[i][index(in)][out]
		if !e.known {
			e.FBCB, e.cycles = fastest(d, layers[i], bact, entries[i], in, out, o)
			e.known = true
		}
		return e.cycles
	}, Steps(d, layers, bact))
	outs := j.outs()
	for i, out := range outs {
		entries[i] = found[i][index(i > 0 && outs[i-1] != Apart)][out].FBCB
	}
}

// Steps returns a function that computes the steps of layers. It computes each step once.
func Steps(d configs.Design, layers []cost.Geom, bact int) func(i int, in, only bool) *cost.Step {
	memo := make([][2][2]*cost.Step, len(layers))
	return func(i int, in, only bool) *cost.Step {
		s := &memo[i][index(in)][index(only)]
		if *s == nil {
			x := cost.StepOf(d, layers[i], bact, in, only)
			*s = &x
		}
		return *s
	}
}

func index(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Whole calls f with each entry of a layer that reads (in) or writes (out) a kept tensor, and with the room that the
// entry needs. These entries have one sample group and one row tile. Entries that no room allows are skipped.
func Whole(d configs.Design, g cost.Geom, bact int, in bool, out Link, o Options, rooms []Room, f func(e abi.FBCB, need Room)) {
	points, orders := o.lists()
	for _, p := range points {
		e := Stay(abi.FBCB{BR: uint8(bact), K: uint8(p.K), TileB: uint8(bact), TileRows: uint16(g.OutH)}, in, out)
		if p.S != 1 || int(e.TileRows) != g.OutH || kept(&g, bact, &e) != nil {
			continue
		}
		need, ok := Need(&g, 1, &e)
		if first, last := need.Span(rooms); !ok || first > last { // excludes most entries, and is faster than placed
			continue
		}
		for _, e.Order = range orders {
			if placed(&d, &g, p, e.Order) == nil {
				f(e, need)
			}
		}
	}
}

// fastest returns the fastest entry of a layer with the given flags, and the cycles of this entry. If there is no such
// entry, the cycles are zero. The parameter `plain` is the entry of the layer without kept tensors.
func fastest(d configs.Design, g cost.Geom, bact int, plain abi.FBCB, in bool, out Link, o Options) (best abi.FBCB, cycles int64) {
	if !in && out == Apart {
		return plain, cost.Layer(d, g, bact, plain).Total
	}
	var legal []abi.FBCB
	Whole(d, g, bact, in, out, o, []Room{RoomOf(d)}, func(e abi.FBCB, _ Room) {
		legal = append(legal, e)
		if t := cost.Layer(d, g, bact, e).Total; cycles == 0 || t < cycles {
			best, cycles = e, t
		}
	})
	if o.Pick != nil && len(legal) > 0 {
		best = legal[o.Pick(len(legal))]
	}
	return best, cycles
}

// pickLinks chooses at random which tensors are kept.
func pickLinks(d configs.Design, layers []cost.Geom, links []Link, bact int, entries []abi.FBCB, o Options) {
	from := Apart
	for i, g := range layers {
		out := Apart
		if i < len(layers)-1 && links[i] != Apart {
			out = Link(o.Pick(int(links[i]) + 1))
			if _, c := fastest(d, g, bact, entries[i], from != Apart, out, o); c == 0 {
				out = Apart
			}
			if out != Apart {
				// the next layer must be able to read the tensor, and to write its own output to DRAM
				if _, c := fastest(d, layers[i+1], bact, entries[i+1], true, Apart, o); c == 0 {
					out = Apart
				}
			}
		}
		entries[i], _ = fastest(d, g, bact, entries[i], from != Apart, out, o)
		from = out
	}
}
