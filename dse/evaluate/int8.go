package evaluate

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/sluice-npu/sluice/dse/golden"
	"github.com/sluice-npu/sluice/dse/golden/int8"
	"github.com/sluice-npu/sluice/dse/graph"
	"github.com/sluice-npu/sluice/dse/quant"
)

// Int8 contains the precision that the layers of an int8 network lose.
type Int8 struct {
	Layers []LayerLoss `json:"layers"`
	Bound  *float64    `json:"disagreement_bound,omitempty"` // maximum disagreement, for the choice of int16 layers
	Apart  *float64    `json:"disagreement,omitempty"`       // share of calibration images that get another class
	Share  float64     `json:"macs_in_int8"`                 // share of MACs that are computed in int8
}

// LayerLoss contains root mean square errors of a layer's output, as a share of the output's own root mean square. In
// field Alone, the inputs are codes of the float network's values. In field Whole, all layers are computed in int8.
type LayerLoss struct {
	Layer string  `json:"layer"`
	Bits  int     `json:"bits"` // number of bits of the weights; 0 if the layer computes nothing
	Alone float64 `json:"alone"`
	Whole float64 `json:"whole"`
	Anew  int     `json:"requantised_channels,omitempty"` // number of channels with other codes than in a quantised file
}

// in8 runs a network in int8.
type in8 struct {
	n *quant.Int8
	p *int8.Program
	b *golden.Program // bundle of the network, or nil
}

func newInt8(n *quant.Int8) (*in8, error) {
	p, err := int8.New(n)
	return &in8{n: n, p: p}, err
}

// bundled checks that the bundle of the network computes the same codes at the exits.
func (r *in8) bundled(x []float32, maps [][]int16) error {
	got, err := r.b.Run(r.b.Bundle().Network.Input(x))
	if err != nil {
		return err
	}
	for i, exit := range r.n.Graph.Exits {
		if !slices.Equal(got[i], maps[exit.Tensor]) {
			return fmt.Errorf("%w: exit %s of the bundle is %v, of the network %v", ErrEvaluate, exit.Name, got[i], maps[exit.Tensor])
		}
	}
	return nil
}

func (r *in8) run(x []float32) ([][]int16, error) {
	in := make([]int16, len(x))
	r.n.Input(in, x)
	return r.p.Run(in)
}

func (r *in8) logits(x []float32) (out [][]float32, err error) {
	maps, err := r.run(x)
	if err == nil && r.b != nil {
		err = r.bundled(x, maps)
	}
	if err != nil {
		return nil, err
	}
	for _, exit := range r.n.Graph.Exits {
		row := make([]float32, len(maps[exit.Tensor]))
		for i, q := range maps[exit.Tensor] {
			row[i] = float32(r.n.Maps[exit.Tensor].Value(q))
		}
		out = append(out, row)
	}
	return out, nil
}

// ErrNoClass is wrapped by the error of Mixed for a network without a classifier.
var ErrNoClass = errors.New("no exit is a classifier, so a share of other classes bounds nothing")

const (
	// LossImages is the number of images that Layers uses.
	LossImages = 8
	mixImages  = 256 // number of images for the choice of int16 layers
)

// Layers measures the loss of each layer on at most LossImages of the `count` images.
func Layers(n *quant.Int8, count int, image func(i int) ([]float32, error)) (*Int8, error) {
	g := n.Graph
	r, err := newInt8(n)
	if err != nil {
		return nil, err
	}
	float, err := graph.NewRunner(g)
	if err != nil {
		return nil, err
	}
	out := &Int8{}
	alone, whole, size := make([]float64, len(g.Nodes)), make([]float64, len(g.Nodes)), make([]float64, len(g.Nodes))
	drawn, err := quant.Images{Count: count, Image: image}.Drawn(LossImages, nil, nil)
	if err != nil {
		return nil, err
	}
	for _, k := range drawn {
		x, err := image(k)
		if err != nil {
			return nil, err
		}
		values, err := float.Run(x)
		if err != nil {
			return nil, err
		}
		maps, err := r.run(x)
		if err != nil {
			return nil, err
		}
		codes := make([][]int16, len(values))
		for t, of := range values {
			codes[t] = make([]int16, len(of))
			for i, v := range of {
				codes[t][i] = n.Maps[t].Code(float64(v))
			}
		}
		for i := range g.Nodes {
			t := g.Nodes[i].Output
			got, err := r.p.Layer(i, codes)
			if err != nil {
				return nil, err
			}
			for e, v := range values[t] {
				alone[i] += square(n.Maps[t].Value(got[e]) - float64(v))
				whole[i] += square(n.Maps[t].Value(maps[t][e]) - float64(v))
				size[i] += square(float64(v))
			}
		}
	}
	narrow, all := 0., 0.
	for i := range g.Nodes {
		l := LayerLoss{Layer: g.Nodes[i].Name, Anew: n.Layers[i].Anew}
		if quant.Computes(g.Nodes[i].Op) {
			l.Bits = n.Bits(i)
			all += float64(g.MACs(i))
			if l.Bits == 8 {
				narrow += float64(g.MACs(i))
			}
		}
		if size[i] > 0 {
			l.Alone, l.Whole = math.Sqrt(alone[i]/size[i]), math.Sqrt(whole[i]/size[i])
		}
		out.Layers = append(out.Layers, l)
	}
	out.Share = narrow / max(all, 1)
	return out, nil
}

func square(x float64) float64 { return x * x }

// Mixed returns the network in int8, but changes layers to int16 until at most the share `bound` of the images gets
// another class than in the float network. The bound applies to every exit that is a classifier. Mixed first changes
// the first layer and the layers of the exits to int16, then the layers with the largest LayerLoss.Alone. The second
// result is the share of images with another class. It exceeds the bound if int16 for all layers is not enough.
func Mixed(s *quant.Seen, g *graph.Graph, bound float64, count int, image func(i int) ([]float32, error)) (n *quant.Int8, apart float64, err error) {
	some := false
	for e := range g.Exits {
		some = some || g.Classifies(e)
	}
	if !some {
		return nil, 0, fmt.Errorf("network %s: %w", g.Name, ErrNoClass)
	}
	wide := make([]bool, len(g.Nodes))
	if n, err = s.Network(wide); err != nil {
		return nil, 0, err
	}
	l, err := Layers(n, count, image)
	if err != nil {
		return nil, 0, err
	}
	drawn, err := quant.Images{Count: count, Image: image}.Drawn(mixImages, nil, nil)
	if err != nil {
		return nil, 0, err
	}
	want, err := classes(g, drawn, image)
	if err != nil {
		return nil, 0, err
	}
	order := make([]int, 0, len(g.Nodes))
	for i := range g.Nodes {
		if quant.Computes(g.Nodes[i].Op) {
			order = append(order, i)
		}
	}
	edge := func(i int) bool {
		return g.Nodes[i].Inputs[0] == g.Input || slices.ContainsFunc(g.Exits, func(x graph.Exit) bool { return x.Tensor == g.Nodes[i].Output })
	}
	slices.SortStableFunc(order, func(a, b int) int {
		if edge(a) != edge(b) {
			return map[bool]int{true: -1, false: 1}[edge(a)]
		}
		return cmp.Compare(l.Layers[b].Alone, l.Layers[a].Alone)
	})
	for {
		r, err := newInt8(n)
		if err != nil {
			return nil, 0, err
		}
		apart, err = r.disagreement(want, drawn, image)
		if err != nil || apart <= bound || len(order) == 0 {
			return n, apart, err
		}
		wide[order[0]], order = true, order[1:]
		if n, err = s.Network(wide); err != nil {
			return nil, 0, err
		}
	}
}

// classes returns the float network's classes, by image and exit. The class is -1 if an exit is not a classifier.
func classes(g *graph.Graph, drawn []int, image func(i int) ([]float32, error)) ([][]int, error) {
	r, err := graph.NewRunner(g)
	if err != nil {
		return nil, err
	}
	var out [][]int
	for _, k := range drawn {
		x, err := image(k)
		if err != nil {
			return nil, err
		}
		maps, err := r.Run(x)
		if err != nil {
			return nil, err
		}
		row := make([]int, len(g.Exits))
		for e, exit := range g.Exits {
			if row[e] = -1; g.Classifies(e) {
				row[e] = top(maps[exit.Tensor], 0)
			}
		}
		out = append(out, row)
	}
	return out, nil
}

// disagreement returns the share of images whose class differs from want, at the exit with the largest share.
func (r *in8) disagreement(want [][]int, drawn []int, image func(i int) ([]float32, error)) (float64, error) {
	other := make([]int, len(r.n.Graph.Exits))
	for k, row := range want {
		x, err := image(drawn[k])
		if err != nil {
			return 0, err
		}
		got, err := r.logits(x)
		if err != nil {
			return 0, err
		}
		for e, class := range row {
			if class >= 0 && top(got[e], 0) != class {
				other[e]++
			}
		}
	}
	return float64(slices.Max(other)) / float64(len(want)), nil
}
