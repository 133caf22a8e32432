package quant

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/sluice-npu/sluice/dse/graph"
)

const (
	// LossBound is the limit for the error of an exit, as a share of its largest logit. If an error exceeds LossBound,
	// a warning names the tensor that loses precision. LossBound is ten times the usual loss of int16 layers.
	LossBound = 0.005

	measureMACs = 8e9 // limit for the MACs of a measurement, so that it takes seconds
	measureMost = 16  // maximum number of images, except for small networks
	measureFast = 64
	fastMACs    = 1e9
)

// Kept describes the remaining precision of a layer's weights and output. Bits exclude the sign (at most 15).
type Kept struct {
	Layer      string `json:"layer"`
	Tensor     string `json:"tensor"`
	WeightBits *int   `json:"weight_bits"` // bits of the layer's largest weight; nil if the layer has no weights
	// TensorBits is the number of bits of a channel's largest value, for the worst channel that is not always zero.
	TensorBits int `json:"tensor_bits"`
	Channel    int `json:"channel"`
	// Error is the largest difference to the float network in the worst channel, as a share of that channel's largest
	// value. Lossy lists the channels with an error above LossBound.
	Error float64 `json:"error"`
	Lossy []int   `json:"lossy_channels,omitempty"`
	// Function is the function that the layer's curve replaces. Curve is the curve's largest error, as a share of the
	// tensor's largest value.
	Function string  `json:"function,omitempty"`
	Curve    float64 `json:"curve_error,omitempty"`
	// Norm is the validity range of a norm's function.
	Norm *Norm `json:"norm,omitempty"`

	gate bool // the function is a gate, x * g(x)
}

// Loss compares a network in integers with the same network in floats, layer by layer, on some images.
type Loss struct {
	Images int                `json:"images"`
	Unseen int                `json:"unseen"` // number of these images that differ from all calibration images
	Layers []Kept             `json:"bits_kept"`
	Exits  map[string]float64 `json:"exits"` // largest difference of a logit, as a share of the largest logit
	// Saturated is the share of a tensor's elements that saturate, by tensor: the element exceeds the tensor's scale,
	// or the input of its function exceeds 16 bits (Front). Tensors without such elements are omitted.
	Saturated map[string]float64 `json:"saturated"`
}

// Images is a collection of images. Drawn replaces an unreadable image by another one and calls Unreadable. If
// Unreadable is nil, an unreadable image is an error.
type Images struct {
	Count      int
	Image      func(i int) ([]float32, error)
	Unreadable func(err error)
}

// Drawn returns the indices of at most `most` different images, drawn at random, but equal in each call. It omits
// images for which seen returns true (nil: none). It uses images of the list besides only if others are too few.
func (m Images) Drawn(most int, besides []int, seen func(x []float32) bool) (drawn []int, err error) {
	had := map[uint64]bool{}
	for k, i := range slices.Concat(besides, rand.New(rand.NewPCG(uint64(m.Count), 1)).Perm(m.Count)) {
		if len(drawn) == most {
			break
		}
		x, err := m.Image(i)
		if err != nil && m.Unreadable != nil {
			m.Unreadable(err)
			continue
		}
		if err != nil {
			return nil, err
		}
		h := fnv.New64a()
		for _, v := range x {
			var b [4]byte
			binary.LittleEndian.PutUint32(b[:], math.Float32bits(v))
			h.Write(b[:])
		}
		sum := h.Sum64()
		if k >= len(besides) && !had[sum] && (seen == nil || !seen(x)) {
			drawn = append(drawn, i)
		}
		had[sum] = true
	}
	return append(drawn, besides[:min(most-len(drawn), len(besides))]...), nil
}

// Beside returns at most `most` images: calibration images (of m), and images that calibration did not use (of left).
// Later images can be similar to either kind. Beside uses at least one image of each kind, and half of each kind if
// there are enough. The first images of the result are those of left; the result `unseen` is their number. Images for
// which the callback seen returns true are not among them.
func (m Images) Beside(left Images, most int, besides []int, seen func(x []float32) bool) (both Images, unseen int, err error) {
	if left.Count > 0 {
		most = max(most, 2)
	}
	others, err := left.Drawn(most, nil, seen)
	if err != nil {
		return both, 0, err
	}
	own, err := m.Drawn(max(most/2, most-len(others)), besides, nil)
	if err != nil {
		return both, 0, err
	}
	unseen = min(len(others), most-len(own))
	return Images{Count: unseen + len(own), Image: func(k int) ([]float32, error) {
		if k < unseen {
			return left.Image(others[k])
		}
		return m.Image(own[k-unseen])
	}}, unseen, nil
}

// quick returns the number of images that can be run in a short time, but at least `least`.
func quick(g *graph.Graph, least int) int {
	return max(least, min(measureMost, int(measureMACs/float64(max(g.TotalMACs(), 1)))))
}

// Measure runs images through the network in integers and in floats, as many as possible in a short time. It uses some
// calibration images (own), and some images that calibration did not use (left). Images that decided the network's form
// are used only if there are few others. The callback seen reports whether calibration used an image.
func (n *Network) Measure(own, left Images, seen func(x []float32) bool, o Options) (*Loss, error) {
	g := n.Graph
	both, unseen, err := own.Beside(left, max(quick(g, 1), min(measureFast, int(fastMACs/float64(max(g.TotalMACs(), 1))))), n.chosen, seen)
	if err != nil {
		return nil, err
	}
	take := both.Count
	sums, fronts := make([]*loss, Workers(g, o.Workers, take)), make([]*Front, len(g.Nodes))
	for i := range fronts {
		fronts[i] = n.Front(i)
	}
	err = parallel(g, len(sums), take, func(w int, runner *graph.Runner) func(i int) error {
		sums[w] = newLoss(n)
		runner.Before = func(node int, values []float32) {
			t := g.Nodes[node].Output
			for _, v := range values {
				if fronts[node].Saturates(float64(v)) {
					sums[w].saturated[t]++
				}
			}
		}
		return func(i int) error { return sums[w].add(runner, both.Image, i) }
	})
	if err != nil {
		return nil, err
	}
	for w, s := range sums {
		if w > 0 {
			sums[0].merge(s)
		}
	}
	l := sums[0].report(take)
	l.Unseen = unseen
	return l, nil
}

// loss collects the errors of every tensor, by channel.
type loss struct {
	n         *Network
	of        *graph.Runner // runner of n.Of
	most, off [][]float64
	saturated []int64
	exits     []float64
}

func newLoss(n *Network) *loss {
	l := &loss{n: n, saturated: make([]int64, len(n.Graph.Tensors)), exits: make([]float64, len(n.Graph.Exits))}
	for _, t := range n.Graph.Tensors {
		l.most, l.off = append(l.most, make([]float64, t.C)), append(l.off, make([]float64, t.C))
	}
	return l
}

func (l *loss) add(r *graph.Runner, image func(i int) ([]float32, error), i int) error {
	g := l.n.Graph
	x, err := image(i)
	if err != nil {
		return err
	}
	float, err := r.Run(x)
	if err != nil {
		return fmt.Errorf("image %d: %w", i, err)
	}
	in := make([]int16, len(x))
	l.n.Input(in, x)
	integer := l.n.Run(in)
	curved := make([]bool, len(g.Tensors)) // tensors after a function, for which Measure has counted saturation
	for i := range g.Nodes {
		curved[g.Nodes[i].Output] = g.Nodes[i].Function != nil
	}
	for t := range g.Tensors {
		c, scale := g.Tensors[t].C, math.Ldexp(1, -l.n.Frac[t])
		for k, v := range float[t] {
			f := float64(v)
			l.most[t][k%c] = max(l.most[t][k%c], math.Abs(f))
			l.off[t][k%c] = max(l.off[t][k%c], math.Abs(f-scale*float64(integer[t][k])))
			if !curved[t] && (f > (math.MaxInt16+1)*scale || f < (math.MinInt16-1)*scale) {
				l.saturated[t]++
			}
		}
	}
	want := g
	if of := l.n.Of; of != nil {
		if want = of; l.of == nil {
			if l.of, err = graph.NewRunner(of); err != nil {
				return err
			}
		}
		if float, err = l.of.Run(x); err != nil {
			return fmt.Errorf("image %d: %w", i, err)
		}
	}
	for e, exit := range want.Exits {
		off, most, t := 0.0, 0.0, g.Exits[e].Tensor
		for k, v := range float[exit.Tensor] {
			most = max(most, math.Abs(float64(v)))
			off = max(off, math.Abs(float64(v)-l.n.Value(t, integer[t][k])))
		}
		if most > 0 {
			l.exits[e] = max(l.exits[e], off/most)
		}
	}
	return nil
}

func (l *loss) merge(o *loss) {
	for t := range l.most {
		l.saturated[t] += o.saturated[t]
		for c := range l.most[t] {
			l.most[t][c], l.off[t][c] = max(l.most[t][c], o.most[t][c]), max(l.off[t][c], o.off[t][c])
		}
	}
	for e := range l.exits {
		l.exits[e] = max(l.exits[e], o.exits[e])
	}
}

func (l *loss) report(images int) *Loss {
	g := l.n.Graph
	r := &Loss{Images: images, Exits: map[string]float64{}, Saturated: map[string]float64{}}
	for t, n := range l.saturated {
		if n > 0 {
			r.Saturated[g.Tensors[t].Name] = float64(n) / float64(images*g.Tensors[t].Elems())
		}
	}
	for i := range g.Nodes {
		node := &g.Nodes[i]
		t := node.Output
		k := Kept{Layer: node.Name, Tensor: g.Tensors[t].Name, TensorBits: 15, Channel: -1}
		if node.Op == graph.Conv {
			bits := magnitudeBits(largestWeight(node), l.n.Layers[i].WFrac)
			k.WeightBits = &bits
		}
		if node.Function != nil {
			k.gate, k.Norm = node.Function.Gate() != nil, l.n.Layers[i].Norm
			k.Function, k.Curve = node.Function.String(), l.n.Layers[i].CurveError/orOne(slices.Max(l.most[t]))
		}
		for c, most := range l.most[t] {
			if most == 0 {
				continue
			}
			if bits := min(15, magnitudeBits(most, l.n.Frac[t])); bits < k.TensorBits || k.Channel < 0 {
				k.TensorBits, k.Channel = bits, c
			}
			share := l.off[t][c] / most
			k.Error = max(k.Error, share)
			if share > LossBound {
				k.Lossy = append(k.Lossy, c)
			}
		}
		r.Layers = append(r.Layers, k)
	}
	for e, exit := range g.Exits {
		r.Exits[exit.Name] = l.exits[e]
	}
	return r
}

// Warning returns a text that names the tensor and the channels that lose precision. It returns "" if the error of each
// exit is at most LossBound.
func (l *Loss) Warning() string {
	worst, most := "", LossBound
	names := make([]string, 0, len(l.Exits))
	for name := range l.Exits {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if l.Exits[name] > most {
			worst, most = name, l.Exits[name]
		}
	}
	if worst == "" {
		return ""
	}
	kind := "calibration images"
	if l.Unseen > 0 {
		kind = fmt.Sprintf("images, %d of which calibration did not see", l.Unseen)
	}
	text := fmt.Sprintf("exit %q is up to %.2f %% of its largest logit away from the float network on %d %s, more than %.1f %%",
		worst, 100*most, l.Images, kind, 100*LossBound)
	at := slices.IndexFunc(l.Layers, func(k Kept) bool { return len(k.Lossy) > 0 })
	if at < 0 {
		return text + "; no tensor is that far off as a share of its channels' largest values over all images: on some image the exit's logits are small"
	}
	k := l.Layers[at]
	shown := make([]string, 0, 8)
	for _, c := range k.Lossy[:min(len(k.Lossy), 8)] {
		shown = append(shown, fmt.Sprint(c))
	}
	if more := len(k.Lossy) - len(shown); more > 0 {
		shown = append(shown, fmt.Sprintf("and %d more", more))
	}
	text += fmt.Sprintf("; the first tensor that far off is %q (layer %q): channels %s, by up to %.2f %% of their largest value; channel %d keeps %d of 15 bits",
		k.Tensor, k.Layer, strings.Join(shown, ", "), 100*k.Error, k.Channel, k.TensorBits)
	if k.Function != "" {
		text += fmt.Sprintf(", its segments for %s are off by up to %.2f %%", k.Function, 100*k.Curve)
	}
	if k.gate {
		text += " (--gates: a quarter of that)"
	}
	if k.WeightBits != nil {
		text += fmt.Sprintf(", the layer's largest weight %d", *k.WeightBits)
	}
	return text
}
