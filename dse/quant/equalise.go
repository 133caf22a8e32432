package quant

import (
	"maps"
	"math"
	"slices"

	"github.com/sluice-npu/sluice/dse/graph"
)

// equalLeast is the smallest gain of a channel, in bits, for which the tensors with this channel are scaled.
const equalLeast = 2

// equalise scales up channels that are much smaller than other channels with the same fraction. It multiplies the
// weights that produce such a channel by a power of two, and divides the weights that read it. So no value of the
// network's output changes. The method is from M. Nagel et al., "Data-Free Quantization Through Weight Equalization and
// Bias Correction" (ICCV 2019), equation 11, but equalise uses calibrated ranges of activations instead of ranges of
// weights. The parameter channels contains the largest |x| by tensor and channel; equalise scales it too. If no gain is
// possible, the result is g itself.
func equalise(g *graph.Graph, channels [][]float64) *graph.Graph {
	e := newEqualiser(g, channels)
	active := map[int]bool{}
	for c, gain := range e.gains() {
		if gain >= equalLeast && e.live[c] {
			for _, t := range e.tensors[c] {
				active[e.group[t]] = true
			}
		}
	}
	if len(active) == 0 {
		return g
	}
	copied := *g
	copied.Nodes = slices.Clone(g.Nodes)
	e.g = &copied
	for n := range copied.Nodes {
		copied.Nodes[n].Weights, copied.Nodes[n].Bias = slices.Clone(g.Nodes[n].Weights), slices.Clone(g.Nodes[n].Bias)
	}
	for range 16 { // each gain reduces the largest weights of the readers, so further gains are possible
		gains := e.gains()
		changed := false
		for c, gain := range gains {
			if gain < 1 || !slices.ContainsFunc(e.tensors[c], func(t int) bool { return active[e.group[t]] }) {
				continue
			}
			e.scale(c, gain)
			changed = true
		}
		if !changed {
			break
		}
	}
	return e.g
}

// row identifies a channel of a node's output or input.
type row struct{ node, channel int }

// equaliser groups channels into classes. The channels of a class can only be scaled together: concatenations and pools
// copy a channel, and sums add one to another.
type equaliser struct {
	g         *graph.Graph
	channels  [][]float64
	group     []int  // by tensor: group of tensors that share a fraction
	first     []int  // by tensor: index of its first channel
	class     []int  // class of a channel, by channel
	live      []bool // by class: a calibrated value is not zero
	fixed     map[int]bool
	tensors   map[int][]int // by class: tensors with channels of the class
	places    map[int][]place
	made      map[int][]row
	read      map[int][]row
	producers []int       // node that writes a tensor, by tensor
	clamp     []int       // by node: class of the channels that reach its clamp; -1 if no channel does
	columns   [][]float64 // by convolution: largest weight of each input channel; nil until gains needs it
}

type place struct{ tensor, channel int }

func find(parent []int, i int) int {
	for parent[i] != i {
		parent[i] = parent[parent[i]]
		i = parent[i]
	}
	return i
}

func newEqualiser(g *graph.Graph, channels [][]float64) *equaliser {
	e := &equaliser{
		g: g, channels: channels, group: make([]int, len(g.Tensors)), first: make([]int, len(g.Tensors)),
		fixed: map[int]bool{}, producers: g.Producers(), tensors: map[int][]int{}, places: map[int][]place{}, columns: make([][]float64, len(g.Nodes)), clamp: make([]int, len(g.Nodes)), made: map[int][]row{}, read: map[int][]row{},
	}
	for t := range g.Tensors {
		e.group[t], e.first[t] = t, len(e.class)
		for range g.Tensors[t].C {
			e.class = append(e.class, len(e.class))
		}
	}
	for n := range g.Nodes {
		e.joinNode(n)
	}
	for i := range e.class {
		e.class[i] = find(e.class, i)
	}
	for n, c := range e.clamp {
		if c >= 0 {
			e.clamp[n] = e.class[e.first[g.Nodes[n].Output]+c]
		}
	}
	e.live = make([]bool, len(e.class))
	for t := range e.group {
		e.group[t] = find(e.group, t)
		for c := range g.Tensors[t].C {
			k := e.class[e.first[t]+c]
			e.tensors[k] = append(e.tensors[k], t)
			e.places[k] = append(e.places[k], place{t, c})
			e.live[k] = e.live[k] || channels[t][c] > 0
		}
	}
	e.fix(g.Input)
	for _, x := range g.Exits {
		e.fix(x.Tensor)
	}
	for n := range g.Nodes {
		node := &g.Nodes[n]
		if node.Function != nil {
			e.fix(node.Output)
		}
		if node.Op == graph.Mul {
			e.fix(node.Inputs[1])
		}
		if node.Op == graph.Conv {
			for c := range g.Tensors[node.Inputs[0]].C {
				k := e.class[e.first[node.Inputs[0]]+c]
				e.read[k] = append(e.read[k], row{n, c})
			}
			for c := range g.Tensors[node.Output].C {
				k := e.class[e.first[node.Output]+c]
				e.made[k] = append(e.made[k], row{n, c})
			}
		}
	}
	return e
}

// fix prevents the scaling of a tensor's channels.
func (e *equaliser) fix(t graph.TensorID) {
	for c := range e.g.Tensors[t].C {
		e.fixed[e.class[e.first[t]+c]] = true
	}
}

func (e *equaliser) join(t graph.TensorID, c int, u graph.TensorID, d int) {
	e.class[find(e.class, e.first[t]+c)] = find(e.class, e.first[u]+d)
}

// joinNode joins the classes of channels that must be scaled together because of node n.
func (e *equaliser) joinNode(n int) {
	g := e.g
	node := &g.Nodes[n]
	at := 0
	for i, t := range node.Inputs {
		if node.Op.Passes() {
			e.group[find(e.group, int(t))] = find(e.group, int(node.Output))
		}
		if node.Op == graph.Concat || node.Op == graph.MaxPool || node.Op == graph.AvgPool {
			for c := range g.Tensors[t].C {
				e.join(t, c, node.Output, at+c)
			}
			at += g.Tensors[t].C
		}
		if in, out := g.Tensors[t].C, g.Tensors[node.Output].C; node.Op == graph.Reshape {
			for c := range max(in, out) {
				e.join(t, c%in, node.Output, c%out)
			}
		}
		if node.Op == graph.Add || node.Op == graph.Mul && i == 0 { // the second factor of a product is not scaled
			for c := range g.Tensors[t].C {
				e.join(t, c, node.Output, c)
			}
		}
	}
	if node.Residual != graph.None {
		for c := range g.Tensors[node.Residual].C {
			e.join(node.Residual, c, node.Output, c)
		}
	}
	e.clamp[n] = -1
	for c, x := range e.channels[node.Output] { // all channels that reach a bound are scaled together, because they share the bounds
		if !clamped(node) || 2*x <= unclamped(node) {
			continue
		}
		if e.clamp[n] < 0 {
			e.clamp[n] = c
		}
		e.join(node.Output, c, node.Output, e.clamp[n])
	}
}

// siblings returns, for each node that produces channels of tensor t, the largest |x| in these channels.
func (e *equaliser) siblings(t int) map[int]float64 {
	most := map[int]float64{}
	for c, x := range e.channels[t] {
		if made := e.made[e.class[e.first[t]+c]]; len(made) > 0 {
			most[made[0].node] = max(most[made[0].node], x)
		}
	}
	return most
}

// column calls visit for each weight that reads an input channel.
func (e *equaliser) column(r row, visit func(w *float32)) {
	node := &e.g.Nodes[r.node]
	cin := e.g.Tensors[node.Inputs[0]].C / node.Groups
	perGroup := e.g.Tensors[node.Output].C / node.Groups
	taps := node.Window.KH * node.Window.KW
	for o := r.channel / cin * perGroup; o < (r.channel/cin+1)*perGroup; o++ {
		for p := range taps {
			visit(&node.Weights[(o*taps+p)*cin+r.channel%cin])
		}
	}
}

// largest returns the largest weight that reads an input channel. It reads all weights of a node once, in their order
// in memory, because a separate pass per channel would cause a cache miss for each weight.
func (e *equaliser) largest(r row) float64 {
	if e.columns[r.node] == nil {
		node := &e.g.Nodes[r.node]
		channels := e.g.Tensors[node.Inputs[0]].C
		cin, most := channels/node.Groups, make([]float64, channels)
		per := len(node.Weights) / node.Groups
		for i := range node.Groups {
			group := most[i*cin:][:cin]
			for weights := node.Weights[i*per:][:per]; len(weights) > 0; weights = weights[cin:] {
				for c, w := range weights[:cin] {
					group[c] = max(group[c], math.Abs(float64(w)))
				}
			}
		}
		e.columns[r.node] = most
	}
	return e.columns[r.node][r.channel]
}

func (e *equaliser) row(r row) []float32 {
	node := &e.g.Nodes[r.node]
	per := len(node.Weights) / len(node.Bias)
	return node.Weights[r.channel*per : (r.channel+1)*per]
}

// gains returns the power of two by which to scale each class. The ideal gain leaves equally many bits to the channel
// and to the weights that read it. A gain is limited, because no row of the producer may exceed the layer's largest
// weight.
func (e *equaliser) gains() map[int]int {
	most := make([]float64, len(e.group)) // largest |x|, by group of tensors
	for t, channels := range e.channels {
		most[e.group[t]] = max(most[e.group[t]], slices.Max(channels))
	}
	weights := make([]float64, len(e.g.Nodes))
	for n := range e.g.Nodes {
		weights[n] = largestWeight(&e.g.Nodes[n])
	}
	want := map[int]int{}
	siblings := make([]map[int]float64, len(e.channels))
	for t := range e.channels {
		siblings[t] = e.siblings(t)
	}
	for class := range e.made {
		if e.fixed[class] || len(e.read[class]) == 0 {
			continue
		}
		gain, seen := e.room(class, most, siblings)
		room := gain
		for _, r := range e.read[class] {
			if w := e.largest(r); w > 0 {
				gain = min(gain, room*w/weights[r.node])
			}
		}
		if !seen {
			continue
		}
		if k := int(math.Floor(math.Log2(gain) / 2)); k > 0 {
			want[class] = min(k, int(math.Floor(math.Log2(room))))
		}
	}
	gains := map[int]int{}
	for n := range e.g.Nodes {
		node := &e.g.Nodes[n]
		if node.Op != graph.Conv {
			continue
		}
		out := int(node.Output)
		all := math.MaxInt // gain that is possible for all channels of the node; 0 if other nodes also produce one of them
		for c, x := range e.channels[out] {
			if class := e.class[e.first[out]+c]; x > 0 {
				all = min(all, want[class])
				if slices.ContainsFunc(e.made[class], func(r row) bool { return r.node != n }) {
					all = 0
				}
			}
		}
		for c := range e.channels[out] {
			class := e.class[e.first[out]+c]
			if want[class] == 0 || e.through(n, c, class) {
				continue
			}
			largest := 0.0
			for _, w := range e.row(row{n, c}) {
				largest = max(largest, math.Abs(float64(w)))
			}
			free := 0
			if largest > 0 {
				free = int(math.Floor(math.Log2(weights[n] / largest)))
			}
			k := min(want[class], all+free)
			if before, ok := gains[class]; ok {
				k = min(k, before)
			}
			gains[class] = k
		}
	}
	maps.DeleteFunc(gains, func(_, k int) bool { return k < 1 })
	return gains
}

// room returns the largest gain at which a class's channels still fit; ok is false if all their values are zero.
func (e *equaliser) room(class int, most []float64, siblings []map[int]float64) (gain float64, ok bool) {
	gain = math.Inf(1)
	made := e.made[class]
	for _, p := range e.places[class] {
		x := e.channels[p.tensor][p.channel]
		if x == 0 {
			if !e.live[class] { // a channel of zeros must be scaled too, because its weights would limit the reader's other channels
				x = siblings[p.tensor][made[0].node]
			}
			for _, r := range made { // the channel's bias must fit into the accumulator; it causes the zeros
				if x > 0 || e.live[class] && int(e.g.Nodes[r.node].Output) == p.tensor {
					x = max(x, math.Abs(float64(e.g.Nodes[r.node].Bias[r.channel])))
				}
			}
		}
		if x > 0 {
			gain, ok = min(gain, most[e.group[p.tensor]]/x), true
		}
		if n := e.producers[p.tensor]; x > 0 && n >= 0 && e.clamp[n] != class { // after scaling, the values must not reach the clamp
			gain = min(gain, unclamped(&e.g.Nodes[n])/x)
		}
	}
	return gain, ok
}

// through reports whether a channel of a node is computed only from a channel of its own class. If so, a gain does not
// change the node's weights.
func (e *equaliser) through(n, c, class int) bool {
	node := &e.g.Nodes[n]
	in := node.Inputs[0]
	return node.Groups > 1 && node.Groups == e.g.Tensors[in].C && node.Groups == e.g.Tensors[node.Output].C && e.class[e.first[in]+c] == class
}

func (e *equaliser) scale(class, k int) {
	up, down := float32(math.Ldexp(1, k)), float32(math.Ldexp(1, -k))
	for _, r := range e.made[class] {
		weights := e.row(r)
		for i := range weights {
			weights[i] *= up
		}
		e.g.Nodes[r.node].Bias[r.channel] *= up
		e.columns[r.node] = nil
	}
	for _, r := range e.read[class] {
		e.column(r, func(w *float32) { *w *= down })
		e.columns[r.node] = nil
	}
	for _, t := range slices.Compact(slices.Sorted(slices.Values(e.tensors[class]))) {
		for c := range e.channels[t] {
			if e.class[e.first[t]+c] == class {
				e.channels[t][c] *= float64(up)
			}
		}
		if p := e.producers[t]; p >= 0 && e.clamp[p] == class {
			e.g.Nodes[p].ClampLo, e.g.Nodes[p].ClampHi = e.g.Nodes[p].ClampLo*up, e.g.Nodes[p].ClampHi*up
		}
	}
}

// unclamped returns the largest magnitude that a node's clamp does not change even with headroom; -1: none.
func unclamped(node *graph.Node) float64 {
	most := math.Inf(1)
	for _, bound := range []float64{float64(node.ClampLo), -float64(node.ClampHi)} {
		if bound > 0 {
			return -1
		}
		if bound < 0 {
			most = min(most, -bound/Headroom)
		}
	}
	return most
}

// clamped reports whether a node has a finite clamp bound other than zero. A gain must change such a bound.
func clamped(node *graph.Node) bool {
	return !(math.IsInf(float64(node.ClampLo), -1) || node.ClampLo == 0) || !(math.IsInf(float64(node.ClampHi), 1) || node.ClampHi == 0)
}
