package onnx

import (
	"fmt"
	"slices"
	"sort"

	"github.com/sluice-npu/sluice/dse/graph"
	"github.com/sluice-npu/sluice/dse/onnx/onnxpb"
)

// finish fuses the layers, sorts exits and nodes, and checks the result.
func (im *importer) finish() (*graph.Graph, error) {
	tensors := make([]int, len(im.exits))
	exits := make([]graph.Exit, len(im.exits))
	by := map[int]string{}
	for i, name := range im.exits {
		v, ok := im.values[name]
		if !ok {
			for _, n := range im.graph.GetNode() {
				if k := slices.Index(n.GetOutput(), name); k > 0 {
					return nil, fmt.Errorf("%w: %q is output %d, counted from 0, of node %s, which is not computed; --exits names the exits", ErrExits, name, k, describe(n))
				}
			}
			return nil, fmt.Errorf("%w: %q is not a feature map", ErrExits, name)
		}
		if v.slice != nil {
			return nil, fmt.Errorf("%w: %q is a channel taken out of a map", ErrExits, name)
		}
		if v.bytes || v.coded != nil {
			return nil, fmt.Errorf("%w: %q are integers", ErrExits, name)
		}
		if x, ok := im.logits[v.tensor]; ok && v.pad == nil {
			v.tensor, v.activation = x, "Sigmoid"
		}
		if v.pad != nil {
			c := &call{importer: im, node: &onnxpb.NodeProto{Input: []string{name}}}
			var err error
			if v, err = c.pixels(0, v); err != nil {
				return nil, fmt.Errorf("%w: %w", ErrExits, err)
			}
		}
		v, err := im.delivered(name, v)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrExits, err)
		}
		if other, twice := by[v.tensor]; twice {
			if a := v.activation + im.values[other].activation; a != "" && v.activation != im.values[other].activation {
				return nil, fmt.Errorf("%w: %q and %q are one exit's logits and their %s; --exits names the exits, one of the two", errSame, other, name, a)
			}
			return nil, fmt.Errorf("%w: %q and %q", errSame, other, name)
		}
		by[v.tensor] = name
		if v.tensor == im.net.input {
			return nil, fmt.Errorf("%w: %q and the network's input", errSame, name)
		}
		tensors[i] = v.tensor
		exits[i] = graph.Exit{Name: name, Tensor: graph.TensorID(v.tensor), Activation: v.activation, Confidence: im.options.Confidence[name]}
		if t := im.net.tensors[v.tensor]; t.h*t.w > 1 {
			w := (&call{importer: im}).viewOf(v)
			exits[i].Dims, exits[i].Walk = w.sizes(), w.walk(t)
		}
		if err := exits[i].CheckConfidence(im.net.tensors[v.tensor].c); err != nil {
			return nil, fmt.Errorf("%w: %q: %w", ErrExits, name, err)
		}
	}
	if err := im.net.fuse(tensors, im.options); err != nil {
		return nil, err
	}
	name := im.options.Name
	if name == "" {
		name = im.graph.GetName()
	}
	g, err := im.net.emit(name, exits)
	if err != nil {
		return nil, err
	}
	sortExits(g)
	if err := g.Arrange(); err != nil {
		return nil, err
	}
	return g, g.Check()
}

// delivered returns an exit in a form that the host can read: all elements in consecutive memory. Logits (1 x 1 x C)
// must also be in the order of ONNX's axes.
func (im *importer) delivered(name string, v value) (value, error) {
	c := &call{importer: im}
	t := c.shapeOf(v)
	logits := t.h*t.w == 1
	if v.view == nil || v.view.whole(t) && v.view.first == [3]int{} && !(logits && v.view.walk(t) != nil) {
		return v, nil
	}
	if logits {
		v = c.seen(v, view{[][]factor{slices.Concat(v.view.axes...)}, v.view.first})
		if v.view == nil {
			return v, nil
		}
	}
	return c.materialised(name, v)
}

// sortExits sorts exits by depth in the backbone: by the number of nodes that they share with other exits. If this
// number is equal, it sorts by multiplications, and then by the number of all nodes.
func sortExits(g *graph.Graph) {
	if len(g.Exits) < 2 {
		return
	}
	producer := g.Producers()
	users := make([]int, len(g.Nodes))
	needs := make([][]int, len(g.Exits))
	mark := make([]int, len(g.Nodes))
	for e, exit := range g.Exits {
		stack := []int{producer[exit.Tensor]}
		for len(stack) > 0 {
			n := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			if n < 0 || mark[n] == e+1 {
				continue
			}
			mark[n] = e + 1
			users[n]++
			needs[e] = append(needs[e], n)
			for _, t := range g.Nodes[n].Reads() {
				stack = append(stack, producer[t])
			}
		}
	}
	type depth struct {
		exit          graph.Exit
		shared, total int
		macs          int64
	}
	depths := make([]depth, len(g.Exits))
	for e, exit := range g.Exits {
		d := depth{exit: exit, total: len(needs[e])}
		for _, n := range needs[e] {
			if users[n] > 1 {
				d.shared++
			}
			d.macs += g.MACs(n)
		}
		depths[e] = d
	}
	sort.SliceStable(depths, func(i, j int) bool {
		a, b := depths[i], depths[j]
		if a.shared != b.shared {
			return a.shared < b.shared
		}
		if a.macs != b.macs {
			return a.macs < b.macs
		}
		return a.total < b.total
	})
	for e, d := range depths {
		g.Exits[e] = d.exit
	}
}
