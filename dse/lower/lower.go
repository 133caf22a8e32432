// Package lower turns a network's graph into the layers that a design runs. Each layer is a future descriptor. Package
// lower determines the places of tensors, the convolutions that form one layer, and the windows of channels into which
// a node is split. The compiler adds weights, shifts and clamps, which the search does not need.
//
//   - A convolution becomes one GEMM. If it has more than C_MAX output channels, each window of them is one GEMM.
//   - Convolutions that dse/alias merges become one GEMM together, as far as Options allow.
//   - A grouped convolution becomes one GEMM for each window of groups. The groups of a window are the diagonal blocks
//     of a dense matrix. A window is T_C channels wide, unless a single group is wider. This width wastes the fewest
//     multiplications on the zeros outside the diagonal blocks.
//   - A depthwise convolution becomes a DEPTHWISE if the design has the unit.
//   - A pool becomes one pool, or one pool for each window of channels. Windows are needed if the pool has more than
//     C_MAX channels, or if its rows do not fit the activation buffer.
//   - An Add or a Mul becomes a depthwise 1x1 convolution that multiplies its first input by the identity. The second
//     input is the residual or factor.
//   - A Reshape needs no layer.
//   - A Concat needs no layer, because its inputs are written in place. If that is impossible for an input (the
//     network's input, or a tensor in two concatenations), a 1x1 max pool copies the input.
//
// A network with many wide grouped convolutions may need more descriptors than L_MAX, the size of the hardware's table.
// An example is DenseNet, which normalises all earlier maps before each convolution. Then windows of groups become
// wider. This reduces their number, but the windows need more cycles.
package lower

import (
	"errors"
	"fmt"
	"sync"

	"github.com/sluice-npu/sluice/dse/alias"
	"github.com/sluice-npu/sluice/dse/cost"
	"github.com/sluice-npu/sluice/dse/graph"
	"github.com/sluice-npu/sluice/dse/mapping"
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
)

// Errors of Lower, besides mapping.ErrNoFit and cost.ErrGeom.
var (
	ErrTooMany = errors.New("the network has too many layers")
	ErrTooBig  = errors.New("the network is too large")
)

// TooManyError reports ErrTooMany with two numbers of descriptors: Layers is the default number, and Widest is the
// number with the widest possible grouped layers.
type TooManyError struct{ Layers, Widest int }

func (e *TooManyError) Error() string {
	return fmt.Sprintf("%v: %d descriptors, with grouped layers as wide as they may be %d, more than L_MAX = %d", ErrTooMany, e.Layers, e.Widest, abi.LMax)
}

// Unwrap returns ErrTooMany.
func (e *TooManyError) Unwrap() error { return ErrTooMany }

// Layer is a future descriptor.
type Layer struct {
	Name    string
	Segment int
	Geom    cost.Geom    // geometry, with offsets relative to the slot
	Next    mapping.Link // link of the output to the next layer; Apart at the end of a segment, because each segment is one start

	Nodes    []int // nodes that the layer computes: several convolutions, or one node
	From, To int   // output channels that the layer computes: From <= channel < To in the concatenated channels of the nodes
	In, Out  graph.TensorID
	Res      graph.TensorID // residual or factor; None if the layer has neither
	InRow    int            // distance from an input row to the next, in bytes
}

// Options add information that a graph does not contain. The zero value is for a network without weights and scales.
type Options struct {
	Apart    bool                 // convolutions are never merged into one layer
	Together func(n, m int) bool  // reports whether the shifts and clamps of convolutions n and m allow one layer; nil: always
	Table    func(n int) bool     // reports whether average pool n has a table; nil: a pool has a table if its divisors differ
	Tried    func(pool cost.Geom) // called with each window of a pool that fits, if not nil
}

// Network is a graph with its plan, prepared for lowering to designs.
type Network struct {
	*graph.Graph
	*alias.Plan
	slots  [2]func() (*Slot, error)
	tabled []bool // by node: the node is an average pool whose divisor depends on the position
}

// Of prepares a graph for lowering. The graph must be valid (graph.Graph.Check), but weights may be absent.
func Of(g *graph.Graph, plan *alias.Plan) *Network {
	n := &Network{Graph: g, Plan: plan, tabled: make([]bool, len(g.Nodes))}
	for i := range n.slots {
		n.slots[i] = sync.OnceValues(func() (*Slot, error) { return lay(g, plan, i+1) })
	}
	for i := range g.Nodes {
		n.tabled[i] = g.Nodes[i].Op == graph.AvgPool && tabled(g, i)
	}
	return n
}

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

// Slot returns the layout of a sample for designs with elements of `elem` bytes.
func (n *Network) Slot(elem int) (*Slot, error) { return n.slots[elem-1]() }

// Lower returns the layers that a design runs, in order.
func (n *Network) Lower(d configs.Design, o Options) ([]Layer, error) {
	slot, err := n.Slot(d.ElemBytes())
	if err != nil {
		return nil, err
	}
	l := lowering{Network: n, slot: slot, d: d, o: o}
	if err := l.all(); err != nil {
		return nil, err
	}
	if have := len(l.out); have > abi.LMax {
		parts := widen(d, l.wide, have-abi.LMax)
		if l = (lowering{Network: n, slot: slot, d: d, o: o, parts: parts}); l.all() != nil || len(l.out) > abi.LMax {
			return nil, &TooManyError{Layers: have, Widest: len(l.out)}
		}
	}
	l.link()
	return l.out, nil
}

type lowering struct {
	*Network
	slot  *Slot
	d     configs.Design
	o     Options
	out   []Layer
	wide  []grouped // grouped layers, in the order of nodes
	parts []int     // number of windows of each grouped layer; nil: the default
}

func (l *lowering) all() error {
	for n := range l.Nodes {
		if err := l.node(n); err != nil {
			return fmt.Errorf("node %q: %w", l.Nodes[n].Name, err)
		}
	}
	return nil
}

func (l *lowering) node(n int) error {
	node := &l.Nodes[n]
	x := Layer{Nodes: []int{n}, Segment: l.Segment[n], In: node.Inputs[0], Out: node.Output, Res: graph.None}
	one := graph.Window{KH: 1, KW: 1, SH: 1, SW: 1}
	switch node.Op {
	case graph.Conv:
		if x.Res = node.Residual; node.Groups == 1 {
			return l.dense(x, node.Window)
		}
		return l.grouped(x, node.Window, node.Groups)
	case graph.Add, graph.Mul:
		x.Res = node.Inputs[1]
		return l.grouped(x, one, l.Tensors[x.Out].C)
	case graph.MaxPool:
		return l.pool(x, abi.OpMaxPool, node.Window, l.named(&x), 0)
	case graph.AvgPool:
		return l.pool(x, abi.OpAvgPool, node.Window, l.named(&x), 0)
	case graph.Reshape: // input and output are the same memory
		return nil
	case graph.Concat:
		channel := 0
		for i, t := range node.Inputs {
			if l.Copied[alias.Edge{N: n, I: i}] {
				x.In = t
				if err := l.pool(x, abi.OpMaxPool, one, fmt.Sprintf("%s.copy%d", node.Name, i), channel); err != nil {
					return err
				}
			}
			channel += l.Tensors[t].C
		}
		return nil
	}
	return fmt.Errorf("operator %v has no lowering", node.Op)
}

func (l *lowering) named(x *Layer) string { return alias.Name(l.Graph, x.Nodes) }

// dense adds a convolution that is not grouped. Merged convolutions are added together, at the place of the first one.
// If their parameters (shifts, clamps) differ too much for one layer, each sequence of compatible
// neighbours becomes a layer.
func (l *lowering) dense(x Layer, win graph.Window) error {
	nodes, stands := x.Nodes, true
	if !l.o.Apart {
		nodes, stands = l.Layer(x.Nodes[0])
	}
	for stands && len(nodes) > 0 {
		of, channels := 1, l.Tensors[l.Nodes[nodes[0]].Output].C
		for ; of < len(nodes) && (l.o.Together == nil || l.o.Together(nodes[0], nodes[of])); of++ {
			channels += l.Tensors[l.Nodes[nodes[of]].Output].C
		}
		x.Nodes, x.Out = nodes[:of], l.Nodes[nodes[0]].Output
		if err := l.add(x, abi.OpGEMM, win, l.named(&x), windows(channels, l.d.CMax, 1), func(w [2]int) (in0, inC, out0 int) {
			return 0, l.Tensors[x.In].C, w[0]
		}); err != nil {
			return err
		}
		nodes = nodes[of:]
	}
	return nil
}

// grouped adds a grouped convolution, one layer per window of groups.
func (l *lowering) grouped(x Layer, win graph.Window, groups int) error {
	in, out := l.Tensors[x.In], l.Tensors[x.Out]
	if parts, ok := depthwise(l.d, groups, in.C, out.C, in.W, win.KH, win.KW); ok {
		return l.add(x, abi.OpDepthwise, win, l.named(&x), parts, func(w [2]int) (in0, inC, out0 int) { return w[0], w[1] - w[0], w[0] })
	}
	inG, outG := in.C/groups, out.C/groups
	if outG > l.d.CMax {
		return fmt.Errorf("%w: a group of %d output channels, the build holds C_MAX = %d", mapping.ErrNoFit, outG, l.d.CMax)
	}
	of := func(w [2]int) (in0, inC, out0 int) { return w[0] / outG * inG, (w[1] - w[0]) / outG * inG, w[0] }
	parts := windows(groups*outG, min(max(l.d.TC, outG), l.d.CMax), outG)
	l.wide = append(l.wide, grouped{parts: len(parts), geoms: func(parts int) (out []cost.Geom) {
		for _, w := range cut(groups*outG, parts, outG) {
			in0, inC, out0 := of(w)
			view, _ := l.geom(&x, abi.OpGEMM, win, in0, inC, out0, w[1]-w[0]).View()
			out = append(out, view)
		}
		return out
	}})
	if i := len(l.wide) - 1; i < len(l.parts) {
		parts = cut(groups*outG, l.parts[i], outG)
	}
	return l.add(x, abi.OpGEMM, win, l.named(&x), parts, of)
}

// pool adds a pool. The pool's output begins at channel out0 of the output tensor. pool halves the channels of a window
// until the window fits the design.
func (l *lowering) pool(x Layer, op abi.Op, win graph.Window, name string, out0 int) error {
	channels := l.Tensors[x.In].C
	size := min(channels, l.d.CMax)
	for {
		view, _ := l.geom(&x, op, win, 0, size, out0, size).View()
		err := mapping.Fits(l.d, view)
		if err == nil {
			if l.o.Tried != nil {
				l.o.Tried(view)
			}
			break
		}
		if size == 1 || !errors.Is(err, mapping.ErrNoFit) {
			return err
		}
		size = (size + 1) / 2
	}
	return l.add(x, op, win, name, windows(channels, size, 1), func(w [2]int) (in0, inC, out int) { return w[0], w[1] - w[0], out0 + w[0] })
}

// geom returns a layer's geometry before it is converted for the hardware (cost.Geom.View).
func (l *lowering) geom(x *Layer, op abi.Op, win graph.Window, in0, inC, out0, outC int) cost.Geom {
	n := x.Nodes[0]
	node, in, out := &l.Nodes[n], l.Tensors[x.In], l.Tensors[x.Out]
	g := cost.Geom{
		Op: op, InH: in.H, InW: in.W, InC: inC, InPix: l.Pix(x.In), OutH: out.H, OutW: out.W, OutC: outC, OutPix: l.Pix(x.Out),
		KH: win.KH, KW: win.KW, SH: win.SH, SW: win.SW, PadT: win.PT, PadL: win.PL,
		InOffset: l.slot.At(x.In, in0), OutOffset: l.slot.At(x.Out, out0), Int8: l.d.Int8(),
	}
	if x.Res != graph.None {
		g.Residual, g.Product, g.ResPix, g.ResOffset = true, node.Op == graph.Mul, l.Pix(x.Res), l.slot.At(x.Res, out0)
		if g.Product && l.Tensors[x.Res].OnePixelOf(out) {
			g.ResPix = 0
		}
	}
	switch {
	case g.Drained():
		g.Curve = node.Function != nil
		if g.BiasCount = outC; g.Int8 {
			g.BiasCount = abi.Post8Words(&abi.Desc{OutC: uint16(outC), Residual: g.Residual, Curve: g.Curve})
		} else if g.Curve {
			g.BiasCount += abi.CurveWords
		}
	case op == abi.OpAvgPool && (l.o.Table == nil && l.tabled[n] || l.o.Table != nil && l.o.Table(n)):
		g.BiasCount = win.KH*win.KW + 1
	}
	return g
}

// add adds a layer for each window of x's output channels. For a window, the callback `of` returns the first channel
// and the number of channels that the layer reads, and the first channel that it writes.
func (l *lowering) add(x Layer, op abi.Op, win graph.Window, name string, parts [][2]int, of func(w [2]int) (in0, inC, out0 int)) error {
	for _, w := range parts {
		x := x
		if x.Name = name; len(parts) > 1 {
			x.Name = fmt.Sprintf("%s[%d:%d]", name, w[0], w[1])
		}
		in0, inC, out0 := of(w)
		x.From, x.To = w[0], w[1]
		g := l.geom(&x, op, win, in0, inC, out0, w[1]-w[0])
		err := g.Check()
		if err == nil {
			x.Geom, x.InRow = g.View()
			err = mapping.Limits(l.d, x.Geom)
		}
		if err != nil {
			return fmt.Errorf("layer %q: %w", x.Name, err)
		}
		l.out = append(l.out, x)
	}
	return nil
}

// link sets, for each layer, how the next layer reads its output. It also marks the first layer of each start.
func (l *lowering) link() {
	root := func(t graph.TensorID) graph.TensorID { return l.Views[t].Root }
	reads := map[graph.TensorID]int{}
	for _, e := range l.Exits { // the host reads the exits
		reads[root(e.Tensor)]++
	}
	for i := range l.out {
		x := &l.out[i]
		if reads[root(x.In)]++; x.Res != graph.None {
			reads[root(x.Res)]++
		}
	}
	var start []cost.Geom
	for i := range l.out {
		a := &l.out[i]
		start = append(start, a.Geom)
		if i+1 < len(l.out) && l.out[i+1].Segment == a.Segment {
			b := &l.out[i+1]
			x, y := &a.Geom, &b.Geom
			whole := root(a.Out) == root(b.In) && x.OutOffset == y.InOffset && x.OutPix == x.OutC &&
				y.InH == x.OutH && y.InW == x.OutW && y.InC == x.OutC && y.InPix == x.OutPix && b.InRow == x.OutW*x.OutPix*l.d.ElemBytes()
			switch {
			case whole && reads[root(a.Out)] == 1:
				a.Next = mapping.Only
			case whole:
				a.Next = mapping.Shared
			}
			continue
		}
		cost.InStart(start)
		for k, g := range start {
			l.out[i+1-len(start)+k].Geom = g
		}
		start = nil
	}
}
