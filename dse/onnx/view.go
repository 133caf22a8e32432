package onnx

import (
	"fmt"
	"slices"

	"github.com/sluice-npu/sluice/dse/graph"
)

// view describes a map with split, joined or cut axes. A view needs no computation. A reader that needs channels, rows
// and columns copies the view to a map first. The copy is a layer only if the view omits or reorders pixels or
// channels.
type view struct {
	axes  [][]factor // factors by axis, without the batch; an axis of size 1 has no factors
	first [3]int     // index of the first element along C, H and W
}

// factor is a part of an axis of a view. An axis lists its outermost factor first. The field `which` is the map's own
// axis (numbered as in order), size is the number of positions along this axis, and step is their distance.
type factor struct{ which, size, step int }

func (w view) size(axis int) int {
	n := 1
	for _, f := range w.axes[axis] {
		n *= f.size
	}
	return n
}

func (w view) sizes() []int {
	sizes := make([]int, len(w.axes))
	for a := range sizes {
		sizes[a] = w.size(a)
	}
	return sizes
}

// maxRank limits the number of axes of a view, because a small file can request millions of axes.
const maxRank = 16

func rankOf(name string, rank int) error {
	if rank > maxRank {
		return fmt.Errorf("tensor %q: %w: %d axes, at most %d", name, ErrTooLarge, rank, maxRank)
	}
	return nil
}

func (s shape) size(which int) int { return [3]int{s.c, s.h, s.w}[which] }

func (c *call) viewOf(v value) view {
	if v.view != nil {
		return *v.view
	}
	t := c.shapeOf(v)
	var w view
	for _, which := range v.order {
		w.axes = append(w.axes, []factor{{which, t.size(which), 1}})
	}
	if v.rank == 2 {
		w.axes = [][]factor{slices.Concat(w.axes...)}
	}
	return w.tidy()
}

// tidy removes factors of size 1. It joins two consecutive factors if one factor can represent both.
func (w view) tidy() view {
	out := view{first: w.first}
	for _, axis := range w.axes {
		var kept []factor
		for _, f := range axis {
			last := len(kept) - 1
			switch {
			case f.size == 1:
			case last >= 0 && kept[last].which == f.which && kept[last].step == f.size*f.step:
				kept[last] = factor{f.which, kept[last].size * f.size, f.step}
			default:
				kept = append(kept, f)
			}
		}
		out.axes = append(out.axes, kept)
	}
	return out
}

// look sets the node's output i to the value v with view w. If w only reorders or flattens the axes, the value stores
// an order or a rank instead of a view.
func (c *call) look(i int, v value, w view) {
	if name := c.node.GetOutput()[i]; name != "" {
		c.values[name] = c.seen(v, w)
	}
}

func (c *call) seen(v value, w view) value {
	w = w.tidy()
	v.view, v.rank, v.order = nil, len(w.axes)+1, nchw
	orders := []order{nchw, nhwc, {0, 2, 1}, {1, 0, 2}, {2, 0, 1}, {2, 1, 0}}
	if v.rank == 2 || v.rank == 4 {
		for _, o := range orders {
			v.order = o
			if plain := c.viewOf(v); plain.first == w.first && slices.EqualFunc(plain.axes, w.axes, slices.Equal[[]factor]) {
				return v
			}
		}
	}
	v.order, v.view = nchw, &w
	return v
}

// whole reports whether a view has all of a map's elements.
func (w view) whole(t shape) bool {
	n := 1
	for a := range w.axes {
		n *= w.size(a)
	}
	return n == t.c*t.h*t.w
}

// reshaped changes the sizes of the axes; the number of elements stays the same. It returns false if the factors cannot
// be split into these sizes.
func (w view) reshaped(sizes []int) (view, bool) {
	left := slices.Concat(w.tidy().axes...)
	out := view{first: w.first}
	for _, want := range sizes {
		var axis []factor
		for want > 1 {
			if len(left) == 0 {
				return out, false
			}
			f := left[0]
			switch {
			case want%f.size == 0:
				axis, left, want = append(axis, f), left[1:], want/f.size
			case f.size%want == 0:
				inner := f.size / want
				axis = append(axis, factor{f.which, want, f.step * inner})
				left = slices.Concat([]factor{{f.which, inner, f.step}}, left[1:])
				want = 1
			default:
				return out, false
			}
		}
		out.axes = append(out.axes, axis)
	}
	return out.tidy(), len(left) == 0
}

// cut selects the elements from + i * step (0 <= i < n) of an axis. It returns false if the axis has several factors
// and the cut would change more than the outermost factor.
func (w view) cut(axis, from, step, n int) (view, bool) {
	out := view{first: w.first, axes: slices.Clone(w.axes)}
	fs := w.axes[axis]
	if len(fs) == 0 || from == 0 && step == 1 && n == w.size(axis) {
		return out, from == 0 && n == 1 || len(fs) > 0
	}
	f, inner := fs[0], w.size(axis)/fs[0].size
	switch {
	case inner == 1:
	case step == 1 && from%inner == 0 && n%inner == 0:
		from, n = from/inner, n/inner
	case n == 1: // each factor then has a single position
		out.axes[axis] = nil
		for i := len(fs) - 1; i >= 0; i-- {
			out.first[fs[i].which] += from % fs[i].size * fs[i].step
			from /= fs[i].size
		}
		return out, true
	default:
		return out, false
	}
	out.first[f.which] += from * f.step
	out.axes[axis] = slices.Concat([]factor{{f.which, n, f.step * step}}, fs[1:])
	return out.tidy(), true
}

// walk returns the strides of a view's elements in memory, which is H x W x C. It returns nil if the elements are
// consecutive in memory.
func (w view) walk(t shape) []graph.Stride {
	unit := [3]int{1, t.w * t.c, t.c}
	var walk []graph.Stride
	for _, f := range slices.Concat(w.axes...) {
		walk = append(walk, graph.Stride{Size: f.size, Step: f.step * unit[f.which]})
	}
	dense, next := true, 1
	for i := len(walk) - 1; i >= 0; i-- {
		dense = dense && walk[i].Step == next
		next *= walk[i].Size
	}
	if dense {
		return nil
	}
	return walk
}

// positionsAlong returns the positions of a view's axis along one of the map's own axes.
func positionsAlong(axis []factor, first int) []int {
	at := []int{first}
	for _, f := range axis {
		var next []int
		for _, p := range at {
			for i := range f.size {
				next = append(next, p+i*f.step)
			}
		}
		at = next
	}
	return at
}

// materialised copies a view to a map. The result has the view's order of axes, or is flattened.
func (c *call) materialised(name string, v value) (value, error) {
	w, t := *v.view, c.shapeOf(v)
	key := fmt.Sprint(v.tensor, w)
	if made, ok := c.made[key]; ok {
		made.activation = v.activation // two values may share the copy, but only one of them may have a pending Sigmoid
		return made, nil
	}
	refuse := fmt.Errorf("tensor %q: %w: a map of %d x %d x %d (C x H x W) seen as %v; a map can be made of it only where each of its axes is of channels, rows or columns alone",
		name, ErrUnsupported, t.c, t.h, t.w, w.sizes())
	axes := w.axes
	if len(axes) == 1 { // a flattened view: group consecutive factors of the same map axis
		var runs [][]factor
		for _, f := range axes[0] {
			if n := len(runs) - 1; n >= 0 && runs[n][0].which == f.which {
				runs[n] = append(runs[n], f)
			} else {
				runs = append(runs, []factor{f})
			}
		}
		axes = runs
	} else if len(axes) != 3 {
		return v, refuse
	}
	var at [3][]int
	own, named := order{-1, -1, -1}, [3]bool{}
	for a, axis := range axes {
		if len(axis) == 0 {
			continue
		}
		which := axis[0].which
		if a > 2 || named[which] || slices.ContainsFunc(axis, func(f factor) bool { return f.which != which }) {
			return v, refuse
		}
		own[a], named[which] = which, true
		at[which] = positionsAlong(axis, w.first[which])
	}
	for which := range at { // axes with one remaining position
		if !named[which] {
			own[own.axisOf(-1)] = which
			at[which] = []int{w.first[which]}
		}
	}
	out, err := c.chosen(name, v, at)
	if err != nil {
		return v, err
	}
	out.order, out.rank, out.view = own, len(w.axes)+1, nil
	out = c.seen(out, c.viewOf(out))
	c.made[key] = out
	return out, nil
}

// chosen selects channels, rows and columns of a map. The parameter `at` lists the positions of each.
func (c *call) chosen(name string, v value, at [3][]int) (value, error) {
	t := c.shapeOf(v)
	same := func(which int) bool {
		return slices.Equal(at[which], positionsAlong([]factor{{which, t.size(which), 1}}, 0))
	}
	out := v
	if !same(1) || !same(2) {
		l := layer{name: name, in: []int{v.tensor}}
		var err error
		w := &l.window
		if w.KH, w.SH, w.PB, err = steps(name, at[1], t.h); err != nil {
			return v, err
		}
		if w.KW, w.SW, w.PR, err = steps(name, at[2], t.w); err != nil {
			return v, err
		}
		if w.KH == 1 && w.KW == 1 {
			l.kind = maxPool // a pool over windows of one pixel copies the pixels
		} else {
			l.kind, l.groups = conv, t.c
			if c.budget -= int64(t.c) * int64(w.KH) * int64(w.KW); c.budget < 0 {
				return v, fmt.Errorf("tensor %q: %w: more than %d weights", name, ErrTooLarge, weightsOf(c.options))
			}
			l.weights = make([]float32, t.c*w.KH*w.KW)
			for i := range t.c {
				l.weights[(i+1)*w.KH*w.KW-1] = 1
			}
		}
		if out.tensor, err = c.net.add(l, name, len(at[1]), len(at[2]), t.c); err != nil {
			return v, err
		}
		c.net.tensors[out.tensor].nonNegative = t.nonNegative
	}
	if same(0) {
		return out, nil
	}
	if c.budget -= int64(len(at[0])) * int64(t.c); c.budget < 0 {
		return v, fmt.Errorf("tensor %q: %w: more than %d weights", name, ErrTooLarge, weightsOf(c.options))
	}
	l := layer{name: name, kind: pick, in: []int{out.tensor}, channels: at[0]}
	var err error
	if out.tensor, err = c.net.add(l, name, len(at[1]), len(at[2]), len(at[0])); err != nil {
		return v, err
	}
	c.net.tensors[out.tensor].nonNegative = t.nonNegative
	return out, nil
}

// steps returns a window along one axis, which moves so that its last tap visits the positions `at`. The first window
// begins at position 0. The other taps are not used.
func steps(name string, at []int, n int) (k, stride, behind int, err error) {
	stride = 1
	if len(at) > 1 {
		stride = at[1] - at[0]
	}
	for i, p := range at {
		if stride < 1 || stride > maxReach || p != at[0]+i*stride || p >= n {
			return 0, 0, 0, fmt.Errorf("tensor %q: %w: rows or columns %v in another order than the map's", name, ErrUnsupported, at)
		}
	}
	k = at[0] + 1
	if k > maxReach {
		return 0, 0, 0, fmt.Errorf("tensor %q: %w: rows or columns from %d on, at most %d", name, ErrUnsupported, at[0], maxReach-1)
	}
	return k, stride, (len(at)-1)*stride + k - n, nil
}

// seenInput returns input i and its view, for operators that only change the view.
func (c *call) seenInput(i int) (value, view, error) {
	v, err := c.reading(i)
	if err == nil && v.pad != nil {
		v, err = c.pixels(i, v)
	}
	if err != nil {
		return v, view{}, err
	}
	return v, c.viewOf(v), nil
}

// slice lowers a Slice. If the view cannot be cut, slice copies the view to a map first.
func (c *call) slice() error {
	if err := c.inputs(1, 5); err != nil {
		return err
	}
	v, w, err := c.seenInput(0)
	if err != nil {
		return err
	}
	cuts, err := c.cuts(c.dims(v))
	if err != nil {
		return err
	}
	for _, x := range cuts {
		if x.axis == 0 {
			if x.from != 0 || x.step != 1 || x.n != int(c.batch) {
				return fmt.Errorf("%w: a slice along the batch", ErrUnsupported)
			}
			continue
		}
		if x.n < 1 {
			return fmt.Errorf("tensor %q: %w: nothing is left of axis %d", c.input(0), ErrShape, x.axis)
		}
		if v, w, err = c.cutAxis(v, w, x.axis-1, x.from, x.step, x.n); err != nil {
			return err
		}
	}
	c.look(0, v, w)
	return nil
}

// cutAxis calls view.cut. If the view cannot be cut, cutAxis copies the view to a map first.
func (c *call) cutAxis(v value, w view, axis, from, step, n int) (value, view, error) {
	out, ok := w.cut(axis, from, step, n)
	if ok {
		return v, out, nil
	}
	v = c.seen(v, w)
	var err error
	if v.view != nil {
		if v, err = c.materialised(c.input(0), v); err != nil {
			return v, w, err
		}
	}
	if out, ok = c.viewOf(v).cut(axis, from, step, n); !ok {
		return v, w, fmt.Errorf("tensor %q: %w: elements %d to %d of axis %d, which is made of several", c.input(0), ErrUnsupported, from, from+(n-1)*step, axis+1)
	}
	return v, out, nil
}

func (c *call) split() error {
	if err := c.inputs(1, 2); err != nil {
		return err
	}
	v, w, err := c.seenInput(0)
	if err != nil {
		return err
	}
	along, sizes, err := c.parts(append([]int{int(c.batch)}, w.sizes()...))
	if err != nil {
		return err
	}
	if along == 0 {
		return fmt.Errorf("attribute \"axis\": %w: the batch is not split", ErrUnsupported)
	}
	from := 0
	for i, n := range sizes {
		if n < 1 {
			return fmt.Errorf("%w: output %d has no elements", ErrShape, i)
		}
		u, x, err := c.cutAxis(v, w, along-1, from, 1, n)
		if err != nil {
			return err
		}
		c.look(i, u, x)
		from += n
	}
	return nil
}
