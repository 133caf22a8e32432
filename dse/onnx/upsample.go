package onnx

import (
	"fmt"
	"math"
	"slices"

	"github.com/sluice-npu/sluice/dse/graph"
)

// weave interleaves phases, each a map of h x w x ch, into one map. Pixel (y, x) of phases[dy][dx] becomes pixel (sy y
// + dy, sx x + dx). The phases of a row are concatenated by channels, which interleaves their pixels. Then each row is
// viewed as one pixel, and these pixels are concatenated by channels too. Adjacent equal rows are computed once.
func (c *call) weave(name string, phases [][]int, h, w, ch int) (int, error) {
	sy, sx := len(phases), len(phases[0])
	if row := sy * sx * w * ch; row > maxDim {
		return 0, fmt.Errorf("%w: %d rows of %d pixels of %d channels have %d elements, at most %d", ErrTooLarge, sy, sx*w, ch, row, maxDim)
	}
	joined := func(name string, in []int, h, w, ch int) (int, error) {
		if len(in) == 1 {
			return in[0], nil
		}
		return c.net.add(layer{name: name, kind: concat, in: in}, name, h, w, len(in)*ch)
	}
	seen := func(name string, in, h, w, ch int) (int, error) {
		return c.net.add(layer{name: name, kind: reshape, in: []int{in}}, name, h, w, ch)
	}
	rows := make([]int, sy)
	for dy, of := range phases {
		if dy > 0 && slices.Equal(of, phases[dy-1]) {
			rows[dy] = rows[dy-1]
			continue
		}
		part := fmt.Sprintf("%s (rows %d)", name, dy)
		t, err := joined(part, of, h, w, ch)
		if err != nil {
			return 0, err
		}
		if rows[dy], err = seen(part+" as pixels", t, h, 1, sx*w*ch); err != nil {
			return 0, err
		}
	}
	all, err := joined(name+" (rows)", rows, h, 1, sx*w*ch)
	if err != nil {
		return 0, err
	}
	return seen(name, all, sy*h, sx*w, ch)
}

// woven sets the node's output to the result of weave, cropped to h x w.
func (c *call) woven(v value, phases [][]int, size shape, h, w int, nonNegative bool) error {
	t, err := c.weave(c.output(), phases, size.h, size.w, size.c)
	if err != nil {
		return err
	}
	c.net.tensors[t].nonNegative = nonNegative
	out := value{tensor: t, rank: v.rank, order: v.order}
	if h != len(phases)*size.h || w != len(phases[0])*size.w {
		at := [3][]int{count(size.c), count(h), count(w)}
		if out, err = c.chosen(c.output()+" (cut)", out, at); err != nil {
			return err
		}
	}
	c.values[c.output()] = out
	return nil
}

// count returns the numbers 0 .. n-1.
func count(n int) []int {
	at := make([]int, n)
	for i := range at {
		at[i] = i
	}
	return at
}

// spread repeats a map's pixels, sy times vertically and sx times horizontally.
func (c *call) spread(v value, sy, sx int) (int, error) {
	t := c.shapeOf(v)
	phases := slices.Repeat([][]int{slices.Repeat([]int{v.tensor}, sx)}, sy)
	out, err := c.weave(c.output(), phases, t.h, t.w, t.c)
	if err == nil {
		c.net.tensors[out].nonNegative = t.nonNegative
	}
	return out, err
}

// resize lowers Resize and Upsample by integer factors. The mode "nearest" repeats pixels. The mode "linear" repeats
// pixels and then averages them (interpolate). The averages exclude pixels outside the map, so the border has the
// outermost pixel's value.
func (c *call) resize() error {
	if err := c.inputs(1, 4); err != nil {
		return err
	}
	v, err := c.pixelMaps(0)
	if err != nil {
		return err
	}
	mode := c.attr.string("mode", "nearest")
	where, round := "asymmetric", "floor"
	if opName(c.node) == "Resize" && c.opset >= 11 {
		where, round = c.attr.string("coordinate_transformation_mode", "half_pixel"), c.attr.string("nearest_mode", "round_prefer_floor")
	}
	c.attr.float("cubic_coeff_a", -0.75)
	c.attr.float("extrapolation_value", 0)
	c.attr.only("exclude_outside", 0)
	c.attr.only("antialias", 0)
	if policy := c.attr.string("keep_aspect_ratio_policy", "stretch"); policy != "stretch" {
		c.attr.fail("attribute \"keep_aspect_ratio_policy\": %w: %q", ErrAttribute, policy)
	}
	t := c.shapeOf(v)
	sy, sx, err := c.factors(t)
	if err != nil {
		return err
	}
	if err := c.attr.done(); err != nil {
		return err
	}
	refuse := func(s int) error {
		return fmt.Errorf("%w: %s by %d with coordinates %q and rounding %q", ErrUnsupported, mode, s, where, round)
	}
	for _, s := range []int{sy, sx} {
		if mode == "nearest" && !repeats(s, where, round) || s > 1 && mode == "linear" && where != "half_pixel" && where != "pytorch_half_pixel" && where != "asymmetric" {
			return refuse(s)
		}
	}
	if mode != "nearest" && mode != "linear" {
		return fmt.Errorf("attribute \"mode\": %w: %q, nearest and linear are supported", ErrAttribute, mode)
	}
	if sy == 1 && sx == 1 {
		c.values[c.output()] = v
		return nil
	}
	if t.h == 1 && t.w == 1 {
		mode = "nearest"
	}
	out, err := c.spread(v, sy, sx)
	if err != nil {
		return err
	}
	if mode == "linear" {
		if out, err = c.interpolate(out, t, sy, sx, where == "asymmetric"); err != nil {
			return err
		}
	}
	c.net.tensors[out].nonNegative = t.nonNegative
	c.values[c.output()] = value{tensor: out, rank: v.rank, order: v.order}
	return nil
}

// interpolate averages windows of a map. The map repeats each pixel of t sy times vertically and sx times horizontally.
// The averages are the linear interpolation of t.
func (c *call) interpolate(in int, t shape, sy, sx int, asymmetric bool) (int, error) {
	h, w := sy*t.h, sx*t.w
	average := func(name string, l graph.Window, oh, ow int) (err error) {
		in, err = c.net.add(layer{name: c.name + name, kind: avgPool, in: []int{in}, window: l}, c.output()+name, oh, ow, t.c)
		return err
	}
	if asymmetric {
		err := average(" (average)", graph.Window{KH: sy, KW: sx, SH: 1, SW: 1, PB: sy - 1, PR: sx - 1}, h, w)
		return in, err
	}
	// A window with an even number of pixels is half a pixel off the centre. A first average over two pixels corrects
	// that.
	even := func(s int) (k, p int) {
		if s%2 == 0 {
			return 2, 1
		}
		return 1, 0
	}
	ky, py := even(sy)
	kx, px := even(sx)
	if ky > 1 || kx > 1 {
		if err := average(" (shift)", graph.Window{KH: ky, KW: kx, SH: 1, SW: 1, PT: py, PL: px, PB: py, PR: px}, h+py, w+px); err != nil {
			return 0, err
		}
	}
	py, px = (sy-1)/2, (sx-1)/2
	err := average(" (average)", graph.Window{KH: sy, KW: sx, SH: 1, SW: 1, PT: py, PL: px, PB: py, PR: px}, h, w)
	return in, err
}

// repeats reports whether the coordinates and rounding of a Resize by s repeat each source pixel s times.
func repeats(s int, where, round string) bool {
	for i := range s { // the s pixels that must equal source pixel 0
		x := float64(i) / float64(s)
		switch where {
		case "half_pixel", "pytorch_half_pixel", "half_pixel_symmetric":
			x = (float64(i)+0.5)/float64(s) - 0.5
		case "asymmetric":
		default:
			return s == 1
		}
		switch round {
		case "floor":
			x = math.Floor(x)
		case "ceil":
			x = math.Ceil(x)
		case "round_prefer_floor":
			x = math.Ceil(x - 0.5)
		case "round_prefer_ceil":
			x = math.Floor(x + 0.5)
		default:
			return false
		}
		if x != 0 {
			return false
		}
	}
	return true
}

// factors returns the integers by which a Resize or an Upsample multiplies height and width.
func (c *call) factors(t shape) (sy, sx int, err error) {
	scales := c.input(2)
	if opName(c.node) == "Upsample" || c.opset < 11 {
		scales = c.input(1)
	}
	have := []int{int(c.batch), t.c, t.h, t.w}
	by := make([]float64, len(have))
	switch k := c.constants[scales]; {
	case c.input(3) != "":
		sizes, err := c.integers(c.input(3))
		if err != nil {
			return 0, 0, err
		}
		if len(sizes) != len(have) {
			return 0, 0, fmt.Errorf("tensor %q: %w: %d sizes, expected N, C, H, W", c.input(3), ErrShape, len(sizes))
		}
		for i, n := range sizes {
			by[i] = float64(n) / float64(have[i])
		}
	case k == nil:
		return 0, 0, fmt.Errorf("tensor %q: %w: the scales of a Resize have to be constants", scales, ErrUnsupported)
	default:
		values, err := k.floats()
		if err != nil {
			return 0, 0, fmt.Errorf("tensor %q: %w", scales, err)
		}
		if len(values) != len(have) {
			return 0, 0, fmt.Errorf("tensor %q: %w: %d scales, expected those of N, C, H, W", scales, ErrShape, len(values))
		}
		for i, x := range values {
			by[i] = float64(x)
		}
	}
	for i, x := range by {
		if x != math.Trunc(x) || x < 1 || x > maxReach || i < 2 && x != 1 {
			return 0, 0, fmt.Errorf("%w: N, C, H, W multiplied by %v, expected 1, 1 and whole numbers up to %d", ErrUnsupported, by, maxReach)
		}
	}
	return int(by[2]), int(by[3]), nil
}

func (c *call) depthToSpace() error {
	if err := c.inputs(1, 1); err != nil {
		return err
	}
	v, err := c.pixelMaps(0)
	if err != nil {
		return err
	}
	size, mode := int(c.attr.int("blocksize", 0)), c.attr.string("mode", "DCR")
	if err := c.attr.done(); err != nil {
		return err
	}
	t := c.shapeOf(v)
	if size < 1 || size > maxReach || t.c%(size*size) != 0 {
		return fmt.Errorf("attribute \"blocksize\": %w: %d of %d channels", ErrAttribute, size, t.c)
	}
	if mode != "DCR" && mode != "CRD" {
		return fmt.Errorf("attribute \"mode\": %w: %q", ErrAttribute, mode)
	}
	few := t.c / (size * size)
	phases := make([][]int, size)
	for dy := range size {
		for dx := range size {
			at := make([]int, few)
			for i := range at {
				if at[i] = (dy*size+dx)*few + i; mode == "CRD" {
					at[i] = i*size*size + dy*size + dx
				}
			}
			p, err := c.chosen(fmt.Sprintf("%s (phase %d, %d)", c.output(), dy, dx), v, [3][]int{at, count(t.h), count(t.w)})
			if err != nil {
				return err
			}
			phases[dy] = append(phases[dy], p.tensor)
		}
	}
	return c.woven(v, phases, shape{h: t.h, w: t.w, c: few}, size*t.h, size*t.w, t.nonNegative)
}

// spaceToDepth moves pixels to channels. It adds a convolution in which each output channel has a single weight, 1.
func (c *call) spaceToDepth() error {
	if err := c.inputs(1, 1); err != nil {
		return err
	}
	v, err := c.pixelMaps(0)
	if err != nil {
		return err
	}
	size := int(c.attr.int("blocksize", 0))
	if err := c.attr.done(); err != nil {
		return err
	}
	t := c.shapeOf(v)
	if size < 1 || size > maxReach || t.h%size != 0 || t.w%size != 0 || t.c > maxDim/(size*size) {
		return fmt.Errorf("attribute \"blocksize\": %w: %d of %d x %d pixels of %d channels", ErrAttribute, size, t.h, t.w, t.c)
	}
	n := size * size * t.c // number of output channels, and number of weights per output channel
	if c.budget -= int64(n) * int64(n); c.budget < 0 {
		return fmt.Errorf("tensor %q: %w: blocks of %d x %d make more than %d weights", c.input(0), ErrTooLarge, size, size, weightsOf(c.options))
	}
	l := layer{kind: conv, groups: 1, window: graph.Window{KH: size, KW: size, SH: size, SW: size}, weights: make([]float32, n*n)}
	for i := range n {
		l.weights[i*n+i] = 1
	}
	return c.emit(l, v, t.h/size, t.w/size, n, t.nonNegative)
}

// undilated reports an error if the node has dilations, or auto_pad instead of explicit pads.
func (c *call) undilated() {
	for _, d := range c.attr.sizes("dilations", 2, 1, 1) {
		if d != 1 {
			c.attr.fail("attribute \"dilations\": %w: %d, only 1 is supported", ErrAttribute, d)
		}
	}
	if auto := c.attr.string("auto_pad", "NOTSET"); auto != "NOTSET" && auto != "" {
		c.attr.fail("attribute \"auto_pad\": %w: %q, only pads are supported", ErrAttribute, auto)
	}
}

// convTranspose adds one convolution per phase d of the output. Output pixel s q + d is a sum over the taps with an
// index equal to d + pad modulo the stride s.
func (c *call) convTranspose() error {
	if err := c.inputs(2, 3); err != nil {
		return err
	}
	v, err := c.pixelMaps(0)
	if err != nil {
		return err
	}
	t := c.shapeOf(v)
	groups := int(c.attr.int("group", 1))
	strides, pads := c.attr.sizes("strides", 2, 1, 1), c.attr.sizes("pads", 4, 0, 0)
	more := c.attr.sizes("output_padding", 2, 0, 0)
	c.undilated()
	want := c.attr.ints("kernel_shape")
	if err := c.attr.done(); err != nil {
		return err
	}
	if groups < 1 || t.c%groups != 0 {
		return fmt.Errorf("attribute \"group\": %w: %d for %d input channels", ErrAttribute, groups, t.c)
	}
	weights, values, err := c.weights(c.input(1), kernel, func(d []int) int { return d[0] * d[2] * d[3] }, t.c, -1, -1, -1)
	if err != nil {
		return err
	}
	each, kh, kw := weights.dims[1], weights.dims[2], weights.dims[3]
	if want != nil && (len(want) != 2 || want[0] != int64(kh) || want[1] != int64(kw)) {
		return fmt.Errorf("attribute \"kernel_shape\": %w: %v, the weights %q are %v", ErrAttribute, want, c.input(1), weights.dims)
	}
	if max(kh, kw, strides[0], strides[1]) > maxReach || max(more[0]-strides[0], more[1]-strides[1]) >= 0 || each > maxDim/groups {
		return fmt.Errorf("%w: a kernel of %v with strides %v and output padding %v", ErrAttribute, weights.dims, strides, more)
	}
	var shift []float64
	cout := each * groups
	if c.input(2) != "" {
		_, bias, err := c.weights(c.input(2), offset, nil, cout)
		if err != nil {
			return err
		}
		shift = widen(bias)
	}
	h := (t.h-1)*strides[0] - pads[0] - pads[2] + kh + more[0]
	w := (t.w-1)*strides[1] - pads[1] - pads[3] + kw + more[1]
	if h < 1 || w < 1 || h > maxDim || w > maxDim {
		return fmt.Errorf("%w: %d x %d", ErrShape, h, w)
	}
	size := shape{h: (h + strides[0] - 1) / strides[0], w: (w + strides[1] - 1) / strides[1], c: cout}
	rows, columns := tapsOf(kh, strides[0], pads[0]), tapsOf(kw, strides[1], pads[1])
	phases := make([][]int, strides[0])
	for dy, y := range rows {
		for dx, x := range columns {
			if c.budget -= int64(cout) * int64(len(y.at)*len(x.at)) * int64(t.c/groups); c.budget < 0 {
				return fmt.Errorf("tensor %q: %w: more than %d weights", c.input(1), ErrTooLarge, weightsOf(c.options))
			}
			l := layer{
				name: fmt.Sprintf("%s (phase %d, %d)", c.name, dy, dx), kind: conv, groups: groups, in: []int{v.tensor}, shift: shift,
				window: graph.Window{
					KH: len(y.at), KW: len(x.at), SH: 1, SW: 1, PT: y.before, PL: x.before,
					PB: size.h - 1 + len(y.at) - t.h - y.before, PR: size.w - 1 + len(x.at) - t.w - x.before,
				},
				weights: phaseOf(values, t.c/groups, groups, each, kh, kw, y.at, x.at), steps: c.stepsOf(c.input(1), 1, cout),
			}
			if err := c.reach(&l, t, size.h, size.w, cout, t.c/groups); err != nil {
				return err
			}
			p, err := c.net.add(l, fmt.Sprintf("%s (phase %d, %d)", c.output(), dy, dx), size.h, size.w, cout)
			if err != nil {
				return err
			}
			phases[dy] = append(phases[dy], p)
		}
	}
	if strides[0] == 1 && strides[1] == 1 { // a single phase
		c.values[c.output()] = value{tensor: phases[0][0], rank: v.rank, order: v.order}
		return nil
	}
	return c.woven(v, phases, size, h, w, false)
}

// taps lists the taps of one phase along one axis, in the order of their pixels. -1 means a pixel without a tap.
type taps struct {
	at     []int
	before int // number of pixels of the first window before the map
}

// tapsOf returns the taps of each phase d of a kernel with k taps and stride s. Output s q + d is the sum, over i, of
// tap d + pad - s i times pixel q + i.
func tapsOf(k, s, pad int) []taps {
	out := make([]taps, s)
	for d := range out {
		first, last := math.MaxInt, math.MinInt // i
		for tap := range k {
			if (d+pad-tap)%s == 0 {
				i := (d + pad - tap) / s
				first, last = min(first, i), max(last, i)
			}
		}
		if first > last { // the phase has no taps, so its output is the bias
			out[d] = taps{at: []int{-1}}
			continue
		}
		first = min(first, 0) // a window begins at pixel q or before it
		for i := first; i <= last; i++ {
			tap := d + pad - s*i
			if tap >= k {
				tap = -1
			}
			out[d].at = append(out[d].at, tap)
		}
		out[d].before = -first
	}
	return out
}

// phaseOf returns the weights of one phase, [C out][rows][columns][C in / groups]. The input w is [C in][C out /
// groups][kh][kw].
func phaseOf(w []float32, cin, groups, each, kh, kw int, rows, columns []int) []float32 {
	var out []float32
	for o := range groups * each {
		for _, y := range rows {
			for _, x := range columns {
				for i := range cin {
					v := float32(0)
					if y >= 0 && x >= 0 {
						v = w[(((o/each*cin+i)*each+o%each)*kh+y)*kw+x]
					}
					out = append(out, v)
				}
			}
		}
	}
	return out
}
