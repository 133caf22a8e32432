package search

import (
	"errors"
	"fmt"

	"github.com/sluice-npu/sluice/dse/alias"
	"github.com/sluice-npu/sluice/dse/cost"
	"github.com/sluice-npu/sluice/dse/graph"
	"github.com/sluice-npu/sluice/dse/lower"
	"github.com/sluice-npu/sluice/dse/mapping"
	"github.com/sluice-npu/sluice/hw/configs"
)

// ErrNothing is wrapped by errors about networks without multiplications.
var ErrNothing = errors.New("the network has no multiplications: there is nothing to map")

// Class is a geometry, and the number of its layers in each segment.
type Class struct {
	Geom  cost.Geom
	Count []int  // number of layers, by segment
	Name  string // name of the first layer with this geometry

	reads  bool         // the input of at least one of these layers may be on chip
	writes mapping.Link // the highest link of the output of any of these layers
}

// Workload is a network, or a mix of networks, prepared for the search.
type Workload struct {
	Name     string
	Segments int
	MACs     int64   // number of MACs of one sample, over all segments
	SegMACs  []int64 // number of MACs, by segment
	Parts    []Part  // the networks: one network, or several (Mix)

	meanMACs float64
	mix      []*Workload
	net      *lower.Network
}

// NewWorkload prepares a graph for the search. The graph needs only shapes, no weights.
func NewWorkload(g *graph.Graph) (*Workload, error) {
	if g == nil {
		return nil, ErrNothing
	}
	w := &Workload{Name: g.Name, Segments: len(g.Exits), net: lower.Of(g, alias.Of(g)), SegMACs: g.SegmentMACs()}
	for _, m := range w.SegMACs {
		w.MACs += m
	}
	if w.MACs == 0 || w.Segments == 0 {
		return nil, fmt.Errorf("network %q: %w", g.Name, ErrNothing)
	}
	w.meanMACs, w.Parts = float64(w.MACs), []Part{{Name: w.Name, Segments: w.Segments, Share: 1, MACs: w.MACs}}
	return w, nil
}

// Backbone returns the network without its early exits, as one segment: only the nodes that the last exit needs.
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

// Lower returns the layers that a design runs (lower.Network.Lower), network after network. Convolutions that dse/alias
// merges are one layer. Lower assumes that their scales allow the merging, because only the compiler knows the scales.
func (w *Workload) Lower(d configs.Design) ([]lower.Layer, error) { return w.lower(d, lower.Options{}) }

func (w *Workload) lower(d configs.Design, o lower.Options) ([]lower.Layer, error) {
	if w.mix == nil {
		layers, err := w.net.Lower(d, o)
		if err != nil {
			return nil, fmt.Errorf("network %q: %w", w.Name, err)
		}
		return layers, nil
	}
	var all []lower.Layer
	for i, m := range w.mix {
		layers, err := m.lower(d, o)
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

// classes groups layers with geometries that are equal for the law on a design (cost.Seen). The classes are in the
// order of their first layers. The second result contains the index of each layer's class.
func classes(d configs.Design, layers []lower.Layer, segments int) (out []Class, of []int) {
	index := map[cost.Geom]int{}
	for n, l := range layers {
		seen := cost.Seen(d, l.Geom)
		i, ok := index[seen]
		if !ok {
			i = len(out)
			index[seen] = i
			out = append(out, Class{Geom: seen, Count: make([]int, segments), Name: l.Name})
		}
		c := &out[i]
		c.Count[l.Segment]++
		c.reads = c.reads || n > 0 && layers[n-1].Next != mapping.Apart
		c.writes, of = max(c.writes, l.Next), append(of, i)
	}
	return out, of
}

// total returns the number of layers of the class, added up over all segments.
func (c Class) total() int {
	n := 0
	for _, v := range c.Count {
		n += v
	}
	return n
}
