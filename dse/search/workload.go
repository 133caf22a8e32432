package search

import (
	"errors"
	"fmt"

	"github.com/sluice-npu/sluice/dse/alias"
	"github.com/sluice-npu/sluice/dse/cost"
	"github.com/sluice-npu/sluice/dse/graph"
	"github.com/sluice-npu/sluice/dse/mapping"
	"github.com/sluice-npu/sluice/dse/split"
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
)

// ErrNothing says that a network has no work for an array.
var ErrNothing = errors.New("the network has no multiplications: there is nothing to map")

// ErrTooMany says that a network needs more descriptors than the hardware's table holds.
var ErrTooMany = errors.New("the network has too many layers")

// Layer is a future descriptor: what dse/compile would make of a node, without weights.
type Layer struct {
	Name    string
	Segment int
	Geom    cost.Geom // offsets count from an aligned address

	// Next says what the layer's output is to the next layer; Apart at the end of a segment, which is a start.
	Next mapping.Link
}

// Class is a geometry, with the number of such layers in each segment.
type Class struct {
	Geom  cost.Geom
	Count []int  // by segment
	Name  string // of the first such layer

	reads  bool         // the input of at least one of its layers may be on chip
	writes mapping.Link // how far the output of at least one of its layers may stay on chip
}

// Workload is a network as the search sees it.
type Workload struct {
	Name     string
	Segments int
	MACs     int64   // of one sample, all segments
	SegMACs  []int64 // by segment
	Parts    []Part  // its networks: one, or several (Mix)

	meanMACs float64
	mix      []*Workload
	graph    *graph.Graph
	plan     *alias.Plan
	tabled   []bool // average pools with different divisors at different places
}

// NewWorkload prepares a graph. It needs only shapes; weights may be absent.
func NewWorkload(g *graph.Graph) (*Workload, error) {
	if g == nil {
		return nil, ErrNothing
	}
	w := &Workload{Name: g.Name, Segments: len(g.Exits), graph: g, SegMACs: g.SegmentMACs()}
	for _, m := range w.SegMACs {
		w.MACs += m
	}
	if w.MACs == 0 || w.Segments == 0 {
		return nil, fmt.Errorf("network %q: %w", g.Name, ErrNothing)
	}
	w.meanMACs, w.Parts = float64(w.MACs), []Part{{Name: w.Name, Segments: w.Segments, Share: 1, MACs: w.MACs}}
	w.plan = alias.Of(g)
	w.tabled = make([]bool, len(g.Nodes))
	for n := range g.Nodes {
		w.tabled[n] = g.Nodes[n].Op == graph.AvgPool && tabled(g, n)
	}
	return w, nil
}

// Backbone is the network without its early exits, as one start: the part that the last exit needs.
func Backbone(g *graph.Graph) (*graph.Graph, error) {
	if g == nil || len(g.Exits) == 0 {
		return nil, ErrNothing
	}
	last := g.Exits[len(g.Exits)-1]
	need := map[graph.TensorID]bool{last.Tensor: true}
	keep := make([]bool, len(g.Nodes))
	for n := len(g.Nodes) - 1; n >= 0; n-- {
		if need[g.Nodes[n].Output] {
			keep[n] = true
			for _, t := range g.Nodes[n].Reads() {
				need[t] = true
			}
		}
	}
	out := &graph.Graph{Name: g.Name, Input: g.Input, Tensors: g.Tensors, Exits: []graph.Exit{last}}
	for n := range g.Nodes {
		if keep[n] {
			out.Nodes = append(out.Nodes, g.Nodes[n])
			out.Segment = append(out.Segment, 0)
		}
	}
	return out, nil
}

// offset of a channel from an aligned address in its memory
func (l *lowering) offset(t graph.TensorID, channel int) int64 {
	return int64((l.w.plan.Views[t].Channel + channel) * l.d.ElemBytes())
}

// Lower returns the layers that a design runs, like dse/compile (a test compares the two): one layer for each
// convolution, or for all convolutions that dse/alias merges (only the compiler knows their scales, which are assumed
// to allow it); windows of channels if a convolution is grouped or has more than C_MAX, where it is depthwise and the design
// has the unit as few as that holds; pools in as few windows as
// the activation buffer allows.
func (w *Workload) Lower(d configs.Design) ([]Layer, error) { return w.lower(d, false) }

// lower is Lower; with apart, convolutions are not merged.
func (w *Workload) lower(d configs.Design, apart bool) ([]Layer, error) {
	if w.mix != nil {
		var all []Layer
		for i, m := range w.mix {
			layers, err := m.lower(d, apart)
			if err != nil {
				return nil, err
			}
			for _, l := range layers {
				l.Name, l.Segment = m.Name+"/"+l.Name, w.Parts[i].First+l.Segment
				all = append(all, l)
			}
		}
		return all, nil
	}
	l := lowering{w: w, d: d, apart: apart}
	if err := l.nodes(); err != nil {
		return nil, err
	}
	if over := len(l.out) - abi.LMax; over > 0 {
		l = lowering{w: w, d: d, apart: apart, parts: split.Widen(d, l.wide, over)}
		if err := l.nodes(); err != nil {
			return nil, err
		}
	}
	if len(l.out) > abi.LMax {
		return nil, fmt.Errorf("network %q: %w: %d descriptors, L_MAX is %d", w.Name, ErrTooMany, len(l.out), abi.LMax)
	}
	l.link()
	return l.out, nil
}

type lowering struct {
	w     *Workload
	d     configs.Design
	apart bool
	out   []Layer
	at    []mapping.Place // of each
	wide  []split.Grouped // grouped layers, in the order of nodes
	parts []int           // number of windows of each, if not the default
}

// layer is alias.Plan.Layer.
func (l *lowering) layer(n int) (nodes []int, stands bool) {
	if l.apart {
		return []int{n}, true
	}
	return l.w.plan.Layer(n)
}

// link tells of every layer what its output is to the next one, and what stands around it in its start.
func (l *lowering) link() {
	for first := range l.out {
		if first > 0 && l.out[first-1].Segment == l.out[first].Segment {
			continue
		}
		var start []cost.Geom
		for _, x := range l.out[first:] {
			if x.Segment == l.out[first].Segment {
				start = append(start, x.Geom)
			}
		}
		cost.InStart(start)
		for i, g := range start {
			l.out[first+i].Geom = g
		}
	}
	var host []int
	for _, e := range l.w.graph.Exits {
		host = append(host, int(l.w.plan.Views[e.Tensor].Root))
	}
	for i, link := range mapping.Links(l.at, host) {
		if l.out[i].Segment == l.out[i+1].Segment {
			l.out[i].Next = link
		}
	}
}

func (l *lowering) nodes() error {
	for n := range l.w.graph.Nodes {
		if err := l.node(n); err != nil {
			return fmt.Errorf("node %q: %w", l.w.graph.Nodes[n].Name, err)
		}
	}
	return nil
}

func (l *lowering) node(n int) error {
	g, d := l.w.graph, l.d
	node := &g.Nodes[n]
	switch node.Op {
	case graph.Conv:
		if node.Groups > 1 {
			return l.grouped(n, node.Inputs[0], node.Residual, node.Groups, node.Window)
		}
		nodes, stands := l.layer(n)
		if !stands {
			return nil
		}
		inC, outC := g.Tensors[node.Inputs[0]].C, 0
		for _, m := range nodes {
			outC += g.Tensors[g.Nodes[m].Output].C
		}
		parts := split.Of(outC, d.CMax, 1)
		for _, p := range parts {
			if err := l.add(nodes[0], abi.OpGEMM, node.Inputs[0], 0, inC, p[0], p[1]-p[0], node.Residual, node.Window, p, parts); err != nil {
				return err
			}
		}
		return nil
	case graph.Add, graph.Mul:
		return l.grouped(n, node.Inputs[0], node.Inputs[1], g.Tensors[node.Output].C, graph.Window{KH: 1, KW: 1, SH: 1, SW: 1})
	case graph.MaxPool:
		return l.pool(n, abi.OpMaxPool, node.Inputs[0], node.Window, 0)
	case graph.AvgPool:
		return l.pool(n, abi.OpAvgPool, node.Inputs[0], node.Window, 0)
	case graph.Reshape:
		return nil
	case graph.Concat:
		channel := 0
		for i, t := range node.Inputs {
			if l.w.plan.Copied[alias.Edge{N: n, I: i}] {
				if err := l.pool(n, abi.OpMaxPool, t, graph.Window{KH: 1, KW: 1, SH: 1, SW: 1}, channel); err != nil {
					return err
				}
			}
			channel += g.Tensors[t].C
		}
		return nil
	}
	return fmt.Errorf("operator %v has no lowering", node.Op)
}

func (l *lowering) grouped(n int, in, res graph.TensorID, groups int, win graph.Window) error {
	g := l.w.graph
	if parts, ok := split.Depthwise(l.d, groups, g.Tensors[in].C, g.Tensors[g.Nodes[n].Output].C, g.Tensors[in].W, win.KH, win.KW); ok {
		for _, p := range parts {
			if err := l.add(n, abi.OpDepthwise, in, p[0], p[1]-p[0], p[0], p[1]-p[0], res, win, p, parts); err != nil {
				return err
			}
		}
		return nil
	}
	inG, outG := g.Tensors[in].C/groups, g.Tensors[g.Nodes[n].Output].C/groups
	if outG > l.d.CMax {
		return fmt.Errorf("%w: a group of %d output channels, the build holds C_MAX = %d", mapping.ErrNoFit, outG, l.d.CMax)
	}
	parts := split.Of(groups*outG, min(max(l.d.TC, outG), l.d.CMax), outG)
	l.wide = append(l.wide, split.Grouped{Parts: len(parts), Geoms: func(parts int) (out []cost.Geom) {
		for _, p := range split.Cut(groups*outG, parts, outG) {
			out = append(out, l.geom(n, abi.OpGEMM, in, p[0]/outG*inG, (p[1]-p[0])/outG*inG, p[0], p[1]-p[0], res, win))
		}
		return out
	}})
	if i := len(l.wide) - 1; i < len(l.parts) {
		parts = split.Cut(groups*outG, l.parts[i], outG)
	}
	for _, p := range parts {
		g0, g1 := p[0]/outG, p[1]/outG
		if err := l.add(n, abi.OpGEMM, in, g0*inG, (g1-g0)*inG, p[0], p[1]-p[0], res, win, p, parts); err != nil {
			return err
		}
	}
	return nil
}

func (l *lowering) pool(n int, op abi.Op, in graph.TensorID, win graph.Window, out0 int) error {
	channels := l.w.graph.Tensors[in].C
	size := min(channels, l.d.CMax)
	for {
		g := l.geom(n, op, in, 0, size, out0, size, graph.None, win)
		if err := mapping.Limits(l.d, g); err == nil {
			// the smallest tile is one output row of one sample
			if g.InRowsOnChip(1)*g.InRow() <= l.d.ABufElems() {
				break
			}
		} else if !errors.Is(err, mapping.ErrNoFit) {
			return err
		}
		if size == 1 {
			return fmt.Errorf("%w: one output row of one channel is more than half the activation buffer", mapping.ErrNoFit)
		}
		size = (size + 1) / 2
	}
	parts := split.Of(channels, size, 1)
	for _, p := range parts {
		if err := l.add(n, op, in, p[0], p[1]-p[0], out0+p[0], p[1]-p[0], graph.None, win, p, parts); err != nil {
			return err
		}
	}
	return nil
}

// whole is a layer's geometry before it is converted for the hardware.
func (l *lowering) whole(n int, op abi.Op, in graph.TensorID, in0, inC, out0, outC int, res graph.TensorID, win graph.Window) cost.Geom {
	w, node := l.w, &l.w.graph.Nodes[n]
	ti, to := w.graph.Tensors[in], w.graph.Tensors[node.Output]
	g := cost.Geom{
		Op: op, InH: ti.H, InW: ti.W, InC: inC, InPix: w.plan.Pix(in), OutH: to.H, OutW: to.W, OutC: outC,
		OutPix: w.plan.Pix(node.Output), KH: win.KH, KW: win.KW, SH: win.SH, SW: win.SW, PadT: win.PT, PadL: win.PL,
		InOffset: l.offset(in, in0) % alignment, OutOffset: l.offset(node.Output, out0) % alignment, Int8: l.d.Int8(),
	}
	switch {
	case g.Drained():
		g.BiasCount = outC
		if node.Function != nil {
			g.Curve = true
			g.BiasCount += abi.CurveWords
		}
	case op == abi.OpAvgPool && l.w.tabled[n]:
		g.BiasCount = win.KH*win.KW + 1
	}
	if res != graph.None {
		g.Residual, g.Product, g.ResPix, g.ResOffset = true, node.Op == graph.Mul, w.plan.Pix(res), l.offset(res, out0)%alignment
		if g.Product && w.graph.Tensors[res].OnePixelOf(to) {
			g.ResPix = 0
		}
	}
	if g.Int8 && g.Drained() {
		g.BiasCount = abi.Post8Words(&abi.Desc{OutC: uint16(outC), Residual: g.Residual, Curve: g.Curve})
	}
	return g
}

// geom is a layer's geometry in the hardware's form.
func (l *lowering) geom(n int, op abi.Op, in graph.TensorID, in0, inC, out0, outC int, res graph.TensorID, win graph.Window) cost.Geom {
	view, _ := l.whole(n, op, in, in0, inC, out0, outC, res, win).View()
	return view
}

// alignment of tensors in a slot; the law only uses offsets modulo this
const alignment = 64

func tabled(g *graph.Graph, n int) bool {
	out := g.Tensors[g.Nodes[n].Output]
	first := g.Divisor(n, 0, 0)
	for y := range out.H {
		for x := range out.W {
			if g.Divisor(n, y, x) != first {
				return true
			}
		}
	}
	return false
}

func (l *lowering) add(n int, op abi.Op, in graph.TensorID, in0, inC, out0, outC int, res graph.TensorID, win graph.Window, part [2]int, parts [][2]int) error {
	nodes, _ := l.layer(n)
	name := alias.Name(l.w.graph, nodes)
	if len(parts) > 1 {
		name = fmt.Sprintf("%s[%d:%d]", name, part[0], part[1])
	}
	g, row := l.whole(n, op, in, in0, inC, out0, outC, res, win).View()
	if err := mapping.Limits(l.d, g); err != nil {
		return fmt.Errorf("layer %q: %w", name, err)
	}
	l.out = append(l.out, Layer{Name: name, Segment: l.w.graph.Segment[n], Geom: g})
	to := l.w.graph.Nodes[n].Output
	at := mapping.Place{
		Geom: g, In: l.root(in), Out: l.root(to), Res: l.root(res),
		InAt: l.offset(in, in0), OutAt: l.offset(to, out0), InRow: int64(row), OutRow: int64(g.OutW * g.OutPix * l.d.ElemBytes()),
	}
	l.at = append(l.at, at)
	return nil
}

// root is the memory that contains a tensor.
func (l *lowering) root(t graph.TensorID) int {
	if t == graph.None {
		return -1
	}
	return int(l.w.plan.Views[t].Root)
}

// classes groups layers of equal geometry, in the order of first occurrence.
func classes(layers []Layer, segments int) []Class {
	index := map[cost.Geom]int{}
	var out []Class
	for n, l := range layers {
		i, ok := index[l.Geom]
		if !ok {
			i = len(out)
			index[l.Geom] = i
			out = append(out, Class{Geom: l.Geom, Count: make([]int, segments), Name: l.Name})
		}
		c := &out[i]
		c.Count[l.Segment]++
		c.reads = c.reads || n > 0 && layers[n-1].Next != mapping.Apart
		c.writes = max(c.writes, l.Next)
	}
	return out
}

// total is the number of layers of the class in a network.
func (c Class) total() int {
	n := 0
	for _, v := range c.Count {
		n += v
	}
	return n
}
