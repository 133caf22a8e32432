// Package alias decides which tensors of a network share memory, and which convolutions therefore become one layer. It
// is a package of its own because quantiser, compiler and search must make the same decision.
//
// If possible, the inputs of a concatenation are stored inside its output, so the concatenation costs nothing.
//
// The input and the output of a reshape are the same memory, which is not part of another tensor.
//
// Convolutions that read the same tensor with the same window and clamp become one layer. The layer has the output
// channels of all these convolutions, and reads the tensor only once. Their outputs must be adjacent. An output that is
// not part of a concatenation can be stored anywhere. If an output is at the start or end of a concatenation, the
// others are stored before or after the concatenation in the same pixels, so the pixels become wider:
//
//	[ reduce of the 3x3 | reduce of the 5x5 | 1x1 | 3x3 | 5x5 | .. ]
//	  `----------- one layer ---------------------´
//	                                          `- the concatenation -
//
// Merged convolutions become one layer only if they have the same shift after quantisation. quant chooses the same
// shift if the weights then lose few bits. Otherwise, each convolution is a layer of its own, but the tensors keep
// these places.
//
// The decision does not depend on the design, for two reasons. First, scales and places are chosen before the design is
// known. Second, no network was faster without one of the merges, according to the law of cycles. This was tested for
// each of the 19 blocks with merges in Inception-v3 and GoogLeNet, on zc706 and zcu104 at B = 1, 2, 4 and 8.
package alias

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/sluice-npu/sluice/dse/graph"
)

// View is the place of a tensor: it is stored in the pixels of tensor Root, from Channel on.
type View struct {
	Root    graph.TensorID
	Channel int
}

// Plan contains the places of all tensors of a network, and the convolutions that become one layer.
type Plan struct {
	Views  []View        // by tensor
	Width  []int         // by root: number of channels of a pixel; 0: no tensor is stored there
	Copied map[Edge]bool // inputs of concatenations that cannot be stored in the output
	Merged [][]int       // groups of nodes that are one layer, in the order of output channels

	merged []int                   // by node: index into Merged, or -1
	own    []int                   // by tensor: number of channels of a pixel for the output of a reshape, otherwise 0
	dense  map[graph.TensorID]bool // roots with a reshape
}

// Edge identifies input I of node N.
type Edge struct{ N, I int }

// maxWidth is the largest number of channels per pixel that a descriptor can contain.
const maxWidth = 1<<16 - 1

// Of returns the plan of a graph. The invariants of the graph must hold, but weights may be absent.
func Of(g *graph.Graph) *Plan { return Copying(g, nil) }

// Copying is like Of, but the inputs in `copied` are not stored inside the concatenation's output, because their
// integers stand for other values.
func Copying(g *graph.Graph, copied map[Edge]bool) *Plan {
	p := &Plan{
		Views: make([]View, len(g.Tensors)), Width: make([]int, len(g.Tensors)),
		Copied: map[Edge]bool{}, merged: make([]int, len(g.Nodes)),
		own: make([]int, len(g.Tensors)), dense: map[graph.TensorID]bool{},
	}
	p.concatenate(g, copied)
	p.merge(g)
	return p
}

// concatenate places the inputs of concatenations in their outputs.
func (p *Plan) concatenate(g *graph.Graph, copied map[Edge]bool) {
	parent := make([]View, len(g.Tensors))
	for i := range parent {
		parent[i].Root = graph.None
	}
	apart := map[graph.TensorID]bool{g.Input: true} // own memory, because the host accesses these pixel after pixel
	for _, e := range g.Exits {
		apart[e.Tensor] = g.Tensors[e.Tensor].H*g.Tensors[e.Tensor].W > 1
	}
	for n := range g.Nodes {
		if node := &g.Nodes[n]; node.Op == graph.Reshape {
			apart[node.Inputs[0]], apart[node.Output] = true, true
		}
	}
	for n := range g.Nodes {
		node := &g.Nodes[n]
		if node.Op != graph.Concat {
			continue
		}
		channel := 0
		for i, t := range node.Inputs {
			if apart[t] || parent[t].Root != graph.None || copied[Edge{n, i}] {
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
	for n := range g.Nodes {
		if node := &g.Nodes[n]; node.Op == graph.Reshape {
			p.Views[node.Output], p.Width[node.Output] = p.Views[node.Inputs[0]], 0
			p.own[node.Output] = g.Tensors[node.Output].C
			p.dense[p.Views[node.Output].Root] = true
		}
	}
}

// kind contains what merged convolutions must have in common.
type kind struct {
	in      graph.TensorID
	window  graph.Window
	lo, hi  float32
	segment int  // because a start runs exactly the layers of a segment
	head    bool // because the backbone precedes the head in a segment
}

// merge determines which convolutions become one layer, and places their outputs next to each other.
func (p *Plan) merge(g *graph.Graph) {
	pinned := maps.Clone(p.dense) // logits must be kept longer than their neighbours
	for _, e := range g.Exits {
		pinned[p.Views[e.Tensor].Root] = true
	}
	head := g.Head()
	index := map[kind]int{}
	var alike [][]int
	for n := range g.Nodes {
		p.merged[n] = -1
		node := &g.Nodes[n]
		if node.Op != graph.Conv || node.Groups != 1 || node.Residual != graph.None || node.Function != nil || pinned[p.Views[node.Output].Root] ||
			!scaleIndependent(node.ClampLo) || !scaleIndependent(node.ClampHi) {
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

// scaleIndependent reports whether a bound of a clamp is the same integer with every scale. Merged convolutions clamp
// to the same integers, but may have different scales.
func scaleIndependent(bound float32) bool { return bound == 0 || math.IsInf(float64(bound), 0) }

// extent is the range of used channels in a root. Until all tensors are placed, channels before the root's own channels
// have negative numbers.
type extent struct{ lo, hi int }

// run is a list of convolutions whose outputs are adjacent in one root.
type run struct {
	nodes []int
	root  graph.TensorID
	extent
}

// siblings merges as many convolutions of the same kind as possible.
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

// runs divides convolutions into two sets. The outputs of the first set have their own memory. The outputs of the
// second set are in concatenations, and runs groups these convolutions by adjacent places.
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

// move places outputs next to each other, starting at a given place.
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

// Pix returns the distance between pixels of t in elements.
func (p *Plan) Pix(t graph.TensorID) int {
	if p.own[t] != 0 {
		return p.own[t]
	}
	return p.Width[p.Views[t].Root]
}

// Layer returns the nodes that are one layer with node n, in the order of their output channels. The layer runs in
// place of the first of these nodes, because all wait for the same input. The second result reports whether n is the
// first.
func (p *Plan) Layer(n int) (nodes []int, stands bool) {
	if i := p.merged[n]; i >= 0 {
		return p.Merged[i], slices.Min(p.Merged[i]) == n
	}
	return []int{n}, true
}

// Name returns the name of a layer: the first node's name, and the number of further nodes.
func Name(g *graph.Graph, nodes []int) string {
	name := g.Nodes[slices.Min(nodes)].Name
	if more := len(nodes) - 1; more > 0 {
		name = fmt.Sprintf("%s+%d", name, more)
	}
	return name
}
