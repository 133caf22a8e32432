package onnx

import (
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"math"
	"reflect"
	"slices"

	"github.com/sluice-npu/sluice/dse/graph"
)

// kind is the operator of a layer during fusion: an operator of package graph, or one that fusion must remove.
type kind int

const (
	conv kind = iota
	maxPool
	avgPool
	concat
	add
	affine // y = scale[c] * x + shift[c]
	clamp
	pick    // selected channels of a map, in any order
	mul     // a product of two maps; the second may be 1 x 1 x C
	curve   // a function of each element
	div     // quotient of two maps; it must become a function of one map
	reshape // a map of other sizes with the same elements in memory order
)

// layer is a node of the network during fusion.
type layer struct {
	name     string
	kind     kind
	in       []int
	out      int
	window   graph.Window
	countPad bool
	lo, hi   float32
	function *graph.Function // the function of a curve; for a convolution or sum, it is applied after the residual, before lo and hi

	groups   int
	weights  []float32 // [C out][KH][KW][C in / groups], not yet scaled
	residual int       // tensor that is added to the result; -1: none
	// For a convolution or an affine layer, per output channel. nil means scale one and shift zero.
	scale, shift []float64
	// For a convolution, per input channel: from the affine layer before it.
	preScale, preShift []float64

	channels []int // for a pick: the selected channels

	steps []float64 // for a convolution, by output channel: step of the weights in the file (0: none); nil for float weights

	twins int  // number of other, equal layers of the file that this layer replaces
	gone  bool // folded into another layer
}

type shape struct {
	name    string
	h, w, c int
	// No value of the map is negative, so a max pool may pad with zeros.
	nonNegative bool
	alike       bool         // all channels of a pixel have the same value
	scale       *graph.Scale // scale of the map's codes in a quantised file; fusion must not remove the rounding
}

// fused is the network during fusion, between ONNX and package graph.
type fused struct {
	tensors []shape
	layers  []*layer
	input   int

	channelsLast bool // the file's input is N x H x W x C
	bytes        bool // the file's input has integer elements

	elems, channels int64 // total of all tensors

	merged   map[string][]*layer // layers by a key of their inputs and a hash of their numbers, to find equal ones; nil: do not merge
	equal    map[int][]string    // other names of tensors
	apart    map[string]bool     // tensors that must not be merged with others
	seed     maphash.Seed        // random, so that nobody can prepare a file with many layers of the same hash
	producer []*layer
	readers  []int // by tensor: number of inputs and exits that read it
	exits    []bool
}

func (f *fused) tensor(name string, h, w, c int) (int, error) {
	if h < 1 || w < 1 || c < 1 || h > maxDim || w > maxDim || c > maxDim {
		return 0, fmt.Errorf("tensor %q: %w: %d x %d x %d (H x W x C), expected 1 to %d each",
			name, ErrShape, h, w, c, maxDim)
	}
	if int64(h)*int64(w)*int64(c) > maxElems {
		return 0, fmt.Errorf("tensor %q: %w: %d x %d x %d (H x W x C) is more than %d elements",
			name, ErrTooLarge, h, w, c, maxElems)
	}
	// A small file can describe many large maps and many tables with an entry per channel. This check limits their
	// total memory before any of it is allocated.
	if f.elems += int64(h) * int64(w) * int64(c); f.elems > maxElems {
		return 0, fmt.Errorf("tensor %q: %w: the maps up to it have more than %d elements", name, ErrTooLarge, maxElems)
	}
	if f.channels += int64(c); f.channels > maxChannels {
		return 0, fmt.Errorf("tensor %q: %w: the maps up to it have more than %d channels", name, ErrTooLarge, maxChannels)
	}
	f.tensors = append(f.tensors, shape{name: name, h: h, w: w, c: c})
	f.producer = append(f.producer, nil)
	return len(f.tensors) - 1, nil
}

// add appends a layer and returns its output tensor. If an equal layer or another form of the same computation
// (norm.go) exists, add returns that layer's tensor instead.
func (f *fused) add(l layer, name string, h, w, c int) (int, error) {
	l.residual = -1
	if l.kind != clamp {
		l.lo, l.hi = float32(math.Inf(-1)), float32(math.Inf(1))
	}
	if p := f.producer[l.in[0]]; f.merged != nil && l.kind == add && l.in[0] == l.in[1] && p != nil && (p.kind == conv || p.kind == affine) { // x + x, if a convolution or an affine layer computes x
		l.kind, l.in, l.scale, l.shift = affine, l.in[:1], slices.Repeat([]float64{2}, c), make([]float64, c)
	}
	if t, ok, err := f.canonical(&l, name, h, w, c); ok || err != nil {
		if err == nil && f.tensors[t].name != name {
			f.called(t, name)
		}
		return t, err
	}
	key := ""
	if f.merged != nil && !f.apart[name] {
		key = fmt.Sprint(l.kind, slices.Sorted(slices.Values(l.in)), h, w, c, l.hash(f.seed))
	}
	for _, o := range f.merged[key] {
		if l.equals(o) {
			o.twins++
			f.called(o.out, name)
			return o.out, nil
		}
	}
	t, err := f.tensor(name, h, w, c)
	if err != nil {
		return 0, err
	}
	l.out = t
	f.tensors[t].scale, f.tensors[t].alike = f.carried(&l), f.alike(&l)
	f.layers, f.producer[t] = append(f.layers, &l), &l
	if key != "" {
		f.merged[key] = append(f.merged[key], &l)
	}
	return t, nil
}

// called records name as another name of tensor t.
func (f *fused) called(t int, name string) {
	if f.equal == nil {
		f.equal = map[int][]string{}
	}
	f.equal[t] = append(f.equal[t], name)
}

// hash returns a hash of the parameters in which layers with the same kind, inputs and output size can differ.
func (l *layer) hash(seed maphash.Seed) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	fmt.Fprint(&h, l.window, l.lo, l.hi, l.channels, l.steps, len(l.weights), len(l.scale))
	if l.function != nil {
		fmt.Fprint(&h, *l.function)
	}
	b := make([]byte, 0, 8)
	for _, w := range l.weights {
		h.Write(binary.LittleEndian.AppendUint32(b[:0], math.Float32bits(w+0))) // converts -0 to 0, because equals treats both alike
	}
	for _, of := range [][]float64{l.scale, l.shift} {
		for _, v := range of {
			h.Write(binary.LittleEndian.AppendUint64(b[:0], math.Float64bits(v+0)))
		}
	}
	return h.Sum64()
}

// equals reports whether two layers with the same inputs compute the same result. The order of the inputs does not
// matter for sums and products.
func (l *layer) equals(o *layer) bool {
	a, b := *l, *o
	if (l.kind == add || l.kind == mul) && !slices.Equal(l.in, o.in) { // the inputs are the same set
		a.in = o.in
	}
	a.name, a.out, a.weights, a.twins = b.name, b.out, b.weights, b.twins // slices.Equal compares weights faster than reflection does
	return slices.Equal(l.weights, o.weights) && reflect.DeepEqual(a, b)
}

// fuse folds layers into others if possible. Affine layers, clamps, curves and picks become convolutions otherwise.
func (f *fused) fuse(exits []int, o Options) error {
	f.nest()
	f.readers = make([]int, len(f.tensors))
	f.exits = make([]bool, len(f.tensors))
	for _, l := range f.layers {
		for _, t := range l.in {
			f.readers[t]++
		}
	}
	for _, t := range exits {
		f.exits[t] = true
	}
	if o.Post {
		if err := f.compose(); err != nil {
			return err
		}
		if o.Gates {
			if err := f.gate(o.gates); err != nil {
				return err
			}
		}
	}
	next := f.nextReaders()
	for _, l := range f.layers {
		switch l.kind {
		case affine:
			f.foldAffine(l, next[l.out])
		case clamp:
			f.foldClamp(l)
		case add:
			f.foldAdd(l)
		case curve:
			f.foldCurve(l)
		}
	}
	f.foldPicks()
	return nil
}

// foldPicks removes picks. The layer that writes the channels, the layers that read them, or a 1 x 1 convolution
// selects them instead; the number of multiplications determines which.
func (f *fused) foldPicks() {
	readers, whole := f.pickReaders()
	made := map[*layer]int{} // by convolution: number of weights that picks have copied
	for _, l := range f.layers {
		if l.kind != pick || l.gone {
			continue
		}
		t, p := l.in[0], f.producer[l.in[0]]
		all := f.tensors[t].c
		if p != nil && p.kind == conv && p.groups == 1 && p.residual < 0 && !p.gone && (!whole[t] && !f.exits[t] || len(p.weights) <= all*all) {
			n := len(p.weights) / all * len(l.channels) // limited, because a few indices can repeat a large kernel many times
			if n <= all*len(l.channels) || made[p]+n <= 2*len(p.weights) {
				made[p] += n
				f.makeOnly(l, p)
				continue
			}
			whole[t] = true
		}
		if f.readable(l, readers[l.out], all) {
			for _, r := range readers[l.out] {
				f.readOnly(l, r)
			}
			whole[t], l.gone = true, true
			continue
		}
		l.kind, l.groups = conv, 1
		l.window = graph.Window{KH: 1, KW: 1, SH: 1, SW: 1}
		l.weights = make([]float32, len(l.channels)*all)
		for i, c := range l.channels {
			l.weights[i*all+c] = 1
		}
	}
	for _, l := range f.layers { // remove layers that only picks read, if each pick has its own copy
		if l.kind == conv && !l.gone && !f.exits[l.out] && len(readers[l.out]) > 0 && !whole[l.out] &&
			!slices.ContainsFunc(readers[l.out], func(r *layer) bool { return r.in[0] == l.out && !r.gone }) {
			l.gone = true
		}
	}
}

// pickReaders returns the readers of each tensor. A nil entry is a layer that adds the tensor as its residual. The
// result `whole` reports whether a tensor has other readers than picks.
func (f *fused) pickReaders() (readers map[int][]*layer, whole map[int]bool) {
	readers, whole = map[int][]*layer{}, map[int]bool{}
	for _, l := range f.layers {
		if l.gone {
			continue
		}
		for _, t := range l.in {
			readers[t] = append(readers[t], l)
			whole[t] = whole[t] || l.kind != pick
		}
		if l.residual >= 0 {
			whole[l.residual] = true
			readers[l.residual] = append(readers[l.residual], nil)
		}
	}
	return readers, whole
}

// readable reports whether all readers of a pick are convolutions that can select the channels themselves. Together
// they must not need more additional multiplications than a convolution for the pick.
func (f *fused) readable(l *layer, readers []*layer, all int) bool {
	once := slices.Clone(l.channels)
	slices.Sort(once)
	if f.exits[l.out] || len(slices.Compact(once)) != len(l.channels) {
		return false
	}
	extra := 0
	for _, r := range readers {
		if r == nil || r.kind != conv || r.groups != 1 || r.gone {
			return false
		}
		extra += len(r.weights) / len(l.channels) * (all - len(l.channels))
	}
	return extra <= all*len(l.channels)
}

// makeOnly turns a pick of a convolution's channels into a convolution that computes only these channels.
func (f *fused) makeOnly(l, p *layer) {
	of := func(x []float64) []float64 {
		if x == nil {
			return nil
		}
		y := make([]float64, len(l.channels))
		for i, c := range l.channels {
			y[i] = x[c]
		}
		return y
	}
	made := *p
	made.name, made.out, made.channels = l.name, l.out, nil
	made.in = slices.Clone(p.in)
	made.scale, made.shift, made.steps = of(p.scale), of(p.shift), of(p.steps)
	per := len(p.weights) / f.tensors[p.out].c
	made.weights = make([]float32, 0, per*len(l.channels))
	for _, c := range l.channels {
		made.weights = append(made.weights, p.weights[c*per:(c+1)*per]...)
	}
	*l = made
	f.producer[l.out] = l
}

// readOnly changes a convolution that reads a pick to read the whole map instead.
func (f *fused) readOnly(l, r *layer) {
	all, few := f.tensors[l.in[0]].c, len(l.channels)
	wide := make([]float32, len(r.weights)/few*all)
	for tap := range len(r.weights) / few {
		for i, c := range l.channels {
			wide[tap*all+c] = r.weights[tap*few+i]
		}
	}
	if r.preScale != nil {
		scale, shift := make([]float64, all), []float64(nil)
		if r.preShift != nil {
			shift = make([]float64, all)
		}
		for i, c := range l.channels {
			scale[c] = r.preScale[i]
			if shift != nil {
				shift[c] = r.preShift[i]
			}
		}
		r.preScale, r.preShift = scale, shift
	}
	r.weights, r.in[0] = wide, l.in[0]
}

// nest shortens a concatenation whose first inputs are all inputs of an earlier concatenation: the later one reads the
// earlier result instead. DenseNet concatenates the same maps again for each layer. After nest, each map is in memory
// only once.
func (f *fused) nest() {
	type joined struct {
		out int
		in  []int // the original inputs
	}
	last := map[int]joined{} // by first input: the latest concatenation
	for _, l := range f.layers {
		if l.kind != concat {
			continue
		}
		was := joined{l.out, l.in}
		if p, ok := last[l.in[0]]; ok && f.exact(p.out, p.in) && len(p.in) < len(l.in) && slices.Equal(p.in, l.in[:len(p.in)]) {
			l.in = append([]int{p.out}, l.in[len(p.in):]...)
		}
		last[was.in[0]] = was
	}
}

// exact reports whether a concatenation copies all codes without rounding.
func (f *fused) exact(out int, in []int) bool {
	return f.tensors[out].scale == nil || f.carried(&layer{kind: concat, in: in}) != nil
}

func (f *fused) nextReaders() [][]*layer {
	next := make([][]*layer, len(f.tensors))
	for _, l := range f.layers {
		for _, t := range l.in {
			next[t] = append(next[t], l)
		}
	}
	return next
}

// only returns the producer of a tensor that has a single reader and is not an exit; nil for other tensors.
func (f *fused) only(t int) *layer {
	if f.readers[t] != 1 || f.exits[t] {
		return nil
	}
	return f.producer[t]
}

// again turns l, which reads t, into a copy of the convolution, sum or product that writes t. Conditions: the file has
// several layers equal to the writer, and t has other readers or is an exit. The copy lets the output of l have a
// different range than t. The caller adds the function or clamp of l.
func (f *fused) again(l *layer, t int) bool {
	p := f.producer[t]
	if p == nil || p.twins == 0 || f.readers[t] < 2 && !f.exits[t] || p.kind != conv && p.kind != add && p.kind != mul {
		return false
	}
	p.twins--
	f.repeat(l, p)
	return true
}

// repeat turns a layer that reads the output of p into a copy of p.
func (f *fused) repeat(l, p *layer) {
	own := *p
	own.name, own.out, own.in, own.twins = l.name, l.out, slices.Clone(p.in), 0
	f.readers[p.out]--
	for _, t := range p.in {
		f.readers[t]++
	}
	if p.residual >= 0 {
		f.readers[p.residual]++
	}
	*l = own
}

// replace removes l; p then writes the output of l.
func (f *fused) replace(l, p *layer) {
	l.gone = true
	p.twins = min(p.twins, l.twins)
	p.out = l.out
	f.producer[p.out] = p
}

// finished reports whether a layer applies a function or a clamp to its result.
func (l *layer) finished() bool {
	return l.function != nil || !math.IsInf(float64(l.lo), -1) || !math.IsInf(float64(l.hi), 1)
}

func (l *layer) shifted() bool {
	for _, v := range l.shift {
		if v != 0 {
			return true
		}
	}
	return false
}

func (f *fused) foldAffine(l *layer, next []*layer) {
	if p := f.only(l.in[0]); p != nil && p.kind == conv && p.residual < 0 && !p.finished() {
		p.shift = addProduct(l.shift, l.scale, p.shift)
		p.scale = product(l.scale, p.scale)
		f.replace(l, p)
		return
	}
	// A shift before a padded convolution does not apply to the padding, so it cannot become part of the convolution.
	takes := func(n *layer) bool {
		padded := n.window.PT|n.window.PL|n.window.PB|n.window.PR != 0
		return n.kind == affine && f.tensors[l.out].scale == nil || n.kind == conv && n.preScale == nil && !(padded && l.shifted())
	}
	if f.exits[l.out] || slices.ContainsFunc(next, func(n *layer) bool { return !takes(n) }) {
		f.depthwise(l)
		return
	}
	for _, n := range next {
		n.in[0] = l.in[0]
		if n.kind == conv {
			n.preScale, n.preShift = orOnes(l.scale, f.tensors[l.in[0]].c), l.shift
			continue
		}
		n.shift = addProduct(n.shift, n.scale, l.shift)
		n.scale = product(n.scale, l.scale)
	}
	f.readers[l.in[0]] += len(next) - 1
	l.gone = true
}

// product returns a * b per channel. A nil operand means one.
func product(a, b []float64) []float64 {
	if a == nil {
		return b
	}
	if b == nil {
		return a
	}
	p := make([]float64, len(a))
	for i := range p {
		p[i] = a[i] * b[i]
	}
	return p
}

// addProduct returns a + b * c per channel. nil means zero for a and c, and one for b.
func addProduct(a, b, c []float64) []float64 {
	if c == nil {
		return a
	}
	p := make([]float64, len(c))
	for i := range p {
		p[i] = c[i]
		if b != nil {
			p[i] *= b[i]
		}
		if a != nil {
			p[i] += a[i]
		}
	}
	return p
}

func orOnes(a []float64, n int) []float64 {
	if a != nil {
		return a
	}
	a = make([]float64, n)
	for i := range a {
		a[i] = 1
	}
	return a
}

// depthwise turns an affine layer, a clamp or a curve into a depthwise 1x1 convolution.
func (f *fused) depthwise(l *layer) {
	c := f.tensors[l.out].c
	l.kind, l.groups = conv, c
	l.window = graph.Window{KH: 1, KW: 1, SH: 1, SW: 1}
	l.weights = make([]float32, c)
	for i := range l.weights {
		l.weights[i] = 1
	}
}

func (f *fused) foldClamp(l *layer) {
	if lo, hi := l.lo, l.hi; f.again(l, l.in[0]) {
		f.clampProducer(l.out, lo, hi, nil)
		return
	}
	if !f.clampable(l.in[0]) || !f.rescaled(l) {
		f.depthwise(l)
		return
	}
	f.clampProducer(l.in[0], l.lo, l.hi, f.tensors[l.out].scale)
	f.replace(l, f.producer[l.in[0]])
}

// clampable reports whether a clamp of tensor t can move to the layers before it. The clamp must be the only reader. A
// clamp commutes with a maximum, with a concatenation, and with layers that only move elements.
func (f *fused) clampable(t int) bool {
	p := f.only(t)
	if p == nil {
		return false
	}
	switch p.kind {
	case conv, add, mul, avgPool:
		return true
	case maxPool, pick, reshape:
		return f.clampable(p.in[0])
	case concat:
		for _, in := range p.in {
			if !f.clampable(in) || f.tensors[in].scale != nil && f.tensors[t].scale == nil {
				return false
			}
		}
		return true
	}
	return false
}

// clampProducer moves a clamp and its rounding to the producers that clampable found.
func (f *fused) clampProducer(t int, lo, hi float32, to *graph.Scale) {
	p := f.producer[t]
	switch p.kind {
	case maxPool, concat, pick, reshape:
		for _, in := range p.in {
			f.clampProducer(in, lo, hi, to)
			if to != nil {
				f.tensors[in].scale = to
			}
		}
	default:
		p.lo = min(max(p.lo, lo), hi)
		p.hi = min(max(p.hi, lo), hi)
	}
}

// foldCurve moves a function into the convolution or sum before it; through a concatenation, into all inputs. It
// repeats a mean over channels for each function, because a stored mean has only 16 bits.
func (f *fused) foldCurve(l *layer) {
	p, fn := f.producer[l.in[0]], l.function
	if p != nil && !p.finished() && p.kind != mul && f.again(l, l.in[0]) {
		l.function = fn
		return
	}
	if f.isMean(l.in[0]) && f.readers[p.out] > 1 && p.residual < 0 && !p.finished() {
		f.repeat(l, p)
		l.function = fn
		return
	}
	if !f.takesCurve(l.in[0]) {
		f.depthwise(l)
		return
	}
	f.curveProducer(l.in[0], l.function)
	f.replace(l, f.producer[l.in[0]])
}

func (f *fused) takesCurve(t int) bool {
	p := f.only(t)
	switch {
	case p == nil || p.finished():
		return false
	case p.kind == concat:
		return !slices.ContainsFunc(p.in, func(in int) bool { return !f.takesCurve(in) })
	}
	return p.kind == conv || p.kind == add
}

func (f *fused) curveProducer(t int, fn *graph.Function) {
	p := f.producer[t]
	if p.kind != concat {
		p.function = fn
		return
	}
	for _, in := range p.in {
		f.curveProducer(in, fn)
	}
}

func (f *fused) foldAdd(l *layer) {
	if f.sum(l) {
		return
	}
	// The later producer is tried first: when it runs, the other operand is already computed.
	candidates := []int{1, 0}
	if f.place(l.in[0]) > f.place(l.in[1]) {
		candidates = []int{0, 1}
	}
	for _, i := range candidates {
		p := f.only(l.in[i])
		if p == nil || p.kind != conv || p.residual >= 0 || p.finished() {
			continue
		}
		p.residual = l.in[1-i]
		f.replace(l, p)
		return
	}
}

// sum merges two convolutions of the same tensor if l adds their results. The merged kernel must not be larger than the
// larger kernel. Examples are the training-time branches of RepVGG and MobileOne, including a normalisation of the
// tensor itself. Branches that are not merged are each rounded to 16 bits (MobileOne-S0 with random weights: 8.5 %
// error, merged 2.9 %). sum does not merge a branch with much smaller weights, which would lose precision (RepVGG-A0
// beside normalisations of gain 100: 0.4 % error, merged 3.4 %).
func (f *fused) sum(l *layer) bool {
	p, q := f.only(l.in[0]), f.only(l.in[1])
	if p == nil || q == nil || p == q || !p.plain() || !q.plain() || p.in[0] != q.in[0] || p.residual >= 0 && q.residual >= 0 {
		return false
	}
	if q.residual >= 0 || p.residual < 0 && f.place(q.out) > f.place(p.out) {
		p, q = q, p // p becomes the merged layer: its residual is computed before p
	}
	a, b := p.window, q.window
	w := graph.Window{
		SH: a.SH, SW: a.SW, PT: max(a.PT, b.PT), PL: max(a.PL, b.PL),
		KH: max(a.PT, b.PT) + max(a.KH-a.PT, b.KH-b.PT), KW: max(a.PL, b.PL) + max(a.KW-a.PL, b.KW-b.PL),
	}
	groups := min(p.groups, q.groups)
	fits := func(x *layer) bool { return x.groups == groups && x.window.KH == w.KH && x.window.KW == w.KW }
	if a.SH != b.SH || a.SW != b.SW || max(p.groups, q.groups)%groups != 0 || !fits(p) && !fits(q) {
		return false
	}
	large := a
	if !fits(p) {
		large = b
	}
	w.PB, w.PR = large.PB, large.PR
	cin, cout := f.tensors[p.in[0]].c, f.tensors[l.out].c
	weights := make([]float64, cout*w.KH*w.KW*cin/groups)
	for _, x := range []*layer{p, q} {
		x.spread(weights, w, groups, cin, cout)
	}
	if most := largest(weights); most > sumLoss*min(p.largest(cout), q.largest(cout)) {
		return false
	}
	p.shift = plus(p.shift, q.shift)
	p.window, p.groups, p.scale = w, groups, nil
	if p.steps != nil || q.steps != nil { // a sum of codes is not a code
		p.steps = make([]float64, cout)
	}
	p.weights = make([]float32, len(weights))
	for i, v := range weights {
		p.weights[i] = float32(v)
	}
	q.gone = true
	f.readers[p.in[0]]--
	f.replace(l, p)
	return true
}

// sumLoss is the maximum ratio of the largest weight of a sum to the largest weight of each convolution. It limits the
// loss of precision to three bits, like the limit in quant for convolutions that share a layer.
const sumLoss = 8

func largest(v []float64) (m float64) {
	for _, x := range v {
		m = max(m, math.Abs(x))
	}
	return m
}

// largest returns the largest magnitude of a convolution's scaled weights.
func (l *layer) largest(cout int) (m float64) {
	per := len(l.weights) / cout
	for i, w := range l.weights {
		v := math.Abs(float64(w))
		if l.scale != nil {
			v *= math.Abs(l.scale[i/per])
		}
		m = max(m, v)
	}
	return m
}

// plain reports whether a layer is a convolution without further operations, except possibly a residual.
func (l *layer) plain() bool { return l.kind == conv && !l.finished() && l.preScale == nil }

// spread adds a convolution's scaled weights to those of another (into). Its window w may be larger, its groups fewer.
func (l *layer) spread(into []float64, w graph.Window, groups, cin, cout int) {
	mine, theirs := cin/l.groups, cin/groups
	for c := range cout {
		scale := 1.0
		if l.scale != nil {
			scale = l.scale[c]
		}
		first := c/(cout/l.groups)*mine - c/(cout/groups)*theirs // first input channel of l's group within the larger group
		for y := range l.window.KH {
			for x := range l.window.KW {
				from := ((c*l.window.KH+y)*l.window.KW + x) * mine
				to := ((c*w.KH+y+w.PT-l.window.PT)*w.KW+x+w.PL-l.window.PL)*theirs + first
				for k := range mine {
					into[to+k] += scale * float64(l.weights[from+k])
				}
			}
		}
	}
}

// plus returns a + b per channel. A nil operand means zero.
func plus(a, b []float64) []float64 {
	if a == nil {
		return b
	}
	if b == nil {
		return a
	}
	out := make([]float64, len(a))
	for i := range out {
		out[i] = a[i] + b[i]
	}
	return out
}

// place returns the position of a tensor's producer in the order of computation; -1 for the input. If a layer takes
// over the output of a folded layer, it also takes over the position.
func (f *fused) place(t int) int {
	if f.producer[t] == nil {
		return -1
	}
	return t
}

func (f *fused) emit(name string, exits []graph.Exit) (*graph.Graph, error) {
	g := &graph.Graph{Name: name, Input: graph.TensorID(f.input), ChannelsLast: f.channelsLast, Bytes: f.bytes, Exits: exits, Scales: map[graph.TensorID]graph.Scale{}}
	for i, t := range f.tensors {
		g.Tensors = append(g.Tensors, graph.Tensor{Name: t.name, H: t.h, W: t.w, C: t.c})
		if t.scale != nil {
			g.Scales[graph.TensorID(i)] = *t.scale
		}
	}
	ops := map[kind]graph.Op{conv: graph.Conv, maxPool: graph.MaxPool, avgPool: graph.AvgPool, concat: graph.Concat, add: graph.Add, mul: graph.Mul, reshape: graph.Reshape}
	for _, l := range f.layers {
		if l.gone {
			continue
		}
		n := graph.Node{
			Name: l.name, Op: ops[l.kind], Output: graph.TensorID(l.out), Window: l.window,
			Residual: graph.TensorID(l.residual), ClampLo: l.lo, ClampHi: l.hi, CountIncludePad: l.countPad, Function: l.function,
		}
		for _, t := range l.in {
			n.Inputs = append(n.Inputs, graph.TensorID(t))
		}
		if l.kind == conv {
			n.Groups, n.Steps = l.groups, l.stepped()
			if err := l.fold(&n, f.tensors[l.out].c); err != nil {
				return nil, fmt.Errorf("node %q: %w", l.name, err)
			}
		}
		g.Nodes = append(g.Nodes, n)
	}
	return g, nil
}

// fold computes the final weights and bias in float64 and rounds them once.
func (l *layer) fold(n *graph.Node, cout int) error {
	p := len(l.weights) / cout
	n.Bias = make([]float32, cout)
	n.Weights = l.weights
	if l.scale != nil || l.preScale != nil {
		n.Weights = make([]float32, len(l.weights))
	}
	cin := 1 // number of input channels of a group
	if l.window.KH*l.window.KW > 0 {
		cin = p / (l.window.KH * l.window.KW)
	}
	for c := range cout {
		scale, bias := 1.0, 0.0
		if l.scale != nil {
			scale = l.scale[c]
		}
		if l.shift != nil {
			bias = l.shift[c]
		}
		first := c / (cout / l.groups) * cin // first input channel of the group
		for k := range p {
			w := float64(l.weights[c*p+k]) * scale
			if l.preShift != nil {
				bias += w * l.preShift[first+k%cin]
			}
			if l.preScale != nil {
				w *= l.preScale[first+k%cin]
			}
			if l.scale != nil || l.preScale != nil {
				n.Weights[c*p+k] = float32(w)
			}
			if v := n.Weights[c*p+k]; v-v != 0 { // infinite or NaN
				return fmt.Errorf("%w: weight %d of channel %d is %v after folding", ErrValue, k, c, v)
			}
		}
		n.Bias[c] = float32(bias)
		if v := float64(n.Bias[c]); math.IsInf(v, 0) || math.IsNaN(v) {
			return fmt.Errorf("%w: the bias of channel %d is %v after folding", ErrValue, c, v)
		}
	}
	return nil
}
