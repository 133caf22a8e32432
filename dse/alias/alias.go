// Package alias decides where the tensors of a network lie in one another, and which convolutions are
// one layer because of that: quantiser, compiler and search must place alike.
//
// The inputs of a concatenation lie inside its output where they can: producers write them to their
// place, and it costs nothing.
//
// Convolutions of one tensor with the same window and the same clamp are one layer with the output
// channels of all: the tensor is read once instead of once for each. Their outputs must then lie side by
// side. Those that are no part of a concatenation can lie anywhere. Where another is the first or last
// part of one, they stand before or behind it in the same pixels, which become wider:
//
//	[ reduce of the 3x3 | reduce of the 5x5 | 1x1 | 3x3 | 5x5 | .. ]
//	  `----------- one layer ---------------------´
//	                                          `- the concatenation -
//
// What this package merges is a layer if the quantised convolutions have one shift (quant sees to that
// where it costs few bits of the weights); else they lie as if, and are layers of their own.
//
// That it does not depend on the design has two reasons: scales and places are chosen before there is one,
// and where the law of cycles was asked about each of the 19 such blocks of Inception-v3 and GoogLeNet, on
// zc706 and zcu104 at B = 1, 2, 4 and 8, no network was faster with one of them apart.
package alias

import (
	"fmt"
	"math"
	"slices"

	"github.com/sluice-npu/sluice/dse/graph"
)

// View is where a tensor lies: in the memory of tensor Root, at a channel of its pixels.
type View struct {
	Root    graph.TensorID
	Channel int
}

// Plan is where all tensors of a network lie, and which convolutions are one layer.
type Plan struct {
	Views  []View        // by tensor
	Width  []int         // channels of a pixel, by root; zero where nothing lies
	Copied map[Edge]bool // inputs of concatenations that cannot lie in the output
	Merged [][]int       // nodes that are one layer, in order of their output's channels

	merged []int // by node: index into Merged, or -1
}

// Edge names input I of node N.
type Edge struct{ N, I int }

// maxWidth is the channels of a pixel that a descriptor can hold.
const maxWidth = 1<<16 - 1

// Of places a graph, whose invariants must hold. Shapes are enough, weights may be absent.
func Of(g *graph.Graph) *Plan {
	p := &Plan{
		Views: make([]View, len(g.Tensors)), Width: make([]int, len(g.Tensors)),
		Copied: map[Edge]bool{}, merged: make([]int, len(g.Nodes)),
	}
	p.concatenate(g)
	p.merge(g)
	return p
}

// concatenate puts inputs of concatenations where they belong.
func (p *Plan) concatenate(g *graph.Graph) {
	parent := make([]View, len(g.Tensors))
	for i := range parent {
		parent[i].Root = graph.None
	}
	apart := map[graph.TensorID]bool{g.Input: true} // the host reads and writes them as they are, pixel behind pixel
	for _, e := range g.Exits {
		apart[e.Tensor] = g.Tensors[e.Tensor].H*g.Tensors[e.Tensor].W > 1
	}
	for n := range g.Nodes {
		node := &g.Nodes[n]
		if node.Op != graph.Concat {
			continue
		}
		channel := 0
		for i, t := range node.Inputs {
			if apart[t] || parent[t].Root != graph.None {
				p.Copied[Edge{n, i}] = true
			} else {
				parent[t] = View{node.Output, channel}
			}
			channel += g.Tensors[t].C
		}
	}
	for t := range g.Tensors {
		v := View{Root: graph.TensorID(t)}
		for parent[v.Root].Root != graph.None {
			v = View{parent[v.Root].Root, v.Channel + parent[v.Root].Channel}
		}
		p.Views[t] = v
		p.Width[v.Root] = g.Tensors[v.Root].C
	}
}

// kind is what convolutions must have in common to be one layer.
type kind struct {
	in      graph.TensorID
	window  graph.Window
	lo, hi  float32
	segment int  // a start runs all layers of a segment, and no others
	head    bool // in a segment, the backbone comes before the head
}

// merge finds the convolutions that are one layer, and moves their outputs side by side.
func (p *Plan) merge(g *graph.Graph) {
	pinned := map[graph.TensorID]bool{} // logits live longer than what could lie beside them
	for _, e := range g.Exits {
		pinned[p.Views[e.Tensor].Root] = true
	}
	head := g.Head()
	index := map[kind]int{}
	var alike [][]int
	for n := range g.Nodes {
		p.merged[n] = -1
		node := &g.Nodes[n]
		if node.Op != graph.Conv || node.Groups != 1 || node.Residual != graph.None || pinned[p.Views[node.Output].Root] ||
			!scaleless(node.ClampLo) || !scaleless(node.ClampHi) {
			continue
		}
		k := kind{node.Inputs[0], node.Window, node.ClampLo, node.ClampHi, g.Segment[n], head[n]}
		i, ok := index[k]
		if !ok {
			i = len(alike)
			index[k], alike = i, append(alike, nil)
		}
		alike[i] = append(alike[i], n)
	}
	extents := map[graph.TensorID]*extent{}
	for _, nodes := range alike {
		if len(nodes) > 1 {
			p.siblings(g, nodes, extents)
		}
	}
	for t := range p.Views {
		if x, ok := extents[p.Views[t].Root]; ok {
			p.Views[t].Channel -= x.lo
		}
	}
	for root, x := range extents {
		p.Width[root] = x.hi - x.lo
	}
}

// scaleless tells whether a bound of a clamp is the same integer on every scale: siblings clamp to the
// same integers, and need not have the same scale.
func scaleless(bound float32) bool { return bound == 0 || math.IsInf(float64(bound), 0) }

// extent is the channels that lie in a root: those left of its own are below zero until all is placed.
type extent struct{ lo, hi int }

// run is convolutions whose outputs lie side by side in one root.
type run struct {
	nodes []int
	root  graph.TensorID
	extent
}

// siblings merges what can be of convolutions that have all in common.
func (p *Plan) siblings(g *graph.Graph, nodes []int, extents map[graph.TensorID]*extent) {
	of := func(root graph.TensorID) *extent {
		if extents[root] == nil {
			extents[root] = &extent{0, p.Width[root]}
		}
		return extents[root]
	}
	free, runs := p.runs(g, nodes)
	channels := 0
	for _, n := range free {
		channels += g.Tensors[g.Nodes[n].Output].C
	}
	widest := -1
	for i, r := range runs {
		x := of(r.root)
		if (r.lo == x.lo || r.hi == x.hi) && x.hi-x.lo+channels <= maxWidth && (widest < 0 || r.hi-r.lo > runs[widest].hi-runs[widest].lo) {
			widest = i
		}
	}
	switch {
	case len(free) == 0:
	case widest >= 0:
		r := &runs[widest]
		x := of(r.root)
		if r.lo == x.lo {
			x.lo -= channels
			p.move(g, free, View{r.root, x.lo})
			r.nodes = slices.Concat(free, r.nodes)
		} else {
			p.move(g, free, View{r.root, x.hi})
			x.hi += channels
			r.nodes = slices.Concat(r.nodes, free)
		}
	case channels <= maxWidth:
		root := g.Nodes[free[0]].Output
		of(root).hi = channels
		p.move(g, free, View{root, 0})
		runs = append(runs, run{nodes: free})
	}
	for _, r := range runs {
		if len(r.nodes) > 1 {
			for _, n := range r.nodes {
				p.merged[n] = len(p.Merged)
			}
			p.Merged = append(p.Merged, r.nodes)
		}
	}
}

// runs parts convolutions into those whose output is a tensor of its own, and the others by where theirs
// lie side by side.
func (p *Plan) runs(g *graph.Graph, nodes []int) (free []int, runs []run) {
	view := func(n int) View { return p.Views[g.Nodes[n].Output] }
	var inside []int
	for _, n := range nodes {
		if view(n).Root == g.Nodes[n].Output {
			free = append(free, n)
		} else {
			inside = append(inside, n)
		}
	}
	slices.SortFunc(inside, func(a, b int) int {
		if view(a).Root != view(b).Root {
			return int(view(a).Root) - int(view(b).Root)
		}
		return view(a).Channel - view(b).Channel
	})
	for _, n := range inside {
		v, c := view(n), g.Tensors[g.Nodes[n].Output].C
		if i := len(runs) - 1; i >= 0 && runs[i].root == v.Root && runs[i].hi == v.Channel {
			runs[i].nodes = append(runs[i].nodes, n)
			runs[i].hi += c
			continue
		}
		runs = append(runs, run{[]int{n}, v.Root, extent{v.Channel, v.Channel + c}})
	}
	return free, runs
}

// move lays outputs side by side, from a place on.
func (p *Plan) move(g *graph.Graph, nodes []int, to View) {
	for _, n := range nodes {
		t := g.Nodes[n].Output
		if to.Root != t {
			p.Width[t] = 0
		}
		p.Views[t] = to
		to.Channel += g.Tensors[t].C
	}
}

// Pix is the elements from one pixel of t to the next.
func (p *Plan) Pix(t graph.TensorID) int { return p.Width[p.Views[t].Root] }

// Layer answers the nodes that are a layer with node n, in order of their output's channels, and whether
// it is the one in whose place the layer stands: the first, whose input is all of theirs.
func (p *Plan) Layer(n int) (nodes []int, stands bool) {
	if i := p.merged[n]; i >= 0 {
		return p.Merged[i], slices.Min(p.Merged[i]) == n
	}
	return []int{n}, true
}

// Name is what the layer of nodes is called: the first one's name, and how many more it is.
func Name(g *graph.Graph, nodes []int) string {
	name := g.Nodes[slices.Min(nodes)].Name
	if more := len(nodes) - 1; more > 0 {
		name = fmt.Sprintf("%s+%d", name, more)
	}
	return name
}
