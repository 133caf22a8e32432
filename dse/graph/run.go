package graph

import (
	"fmt"
	"math"
)

// lanes is the number of output channels that the convolution computes together. This number of independent sums is
// enough to hide the latency of an addition.
const lanes = 8

// positions is the number of adjacent positions of a row that are computed together if the processor has vectors.
const positions = 4

// Runner executes a graph in float32, one sample at a time. It is the reference for calibration and accuracy. Runners
// of the same graph share the packed weights: use one Clone per goroutine.
type Runner struct {
	g       *Graph
	packed  [][]float32 // weights in the order of pack, by node
	tensors [][]float32
	// If Before is not nil, it is called with the inputs of node n's function. Clone does not copy Before.
	Before func(n int, values []float32)
	// If Partial is not nil, it is called with the result of each convolution n before the residual is added. Clone
	// does not copy Partial.
	Partial func(n int, values []float32)
}

// NewRunner checks a graph and prepares it for execution. The graph must not change afterwards.
func NewRunner(g *Graph) (*Runner, error) {
	if err := g.Check(); err != nil {
		return nil, err
	}
	r := &Runner{g: g, packed: make([][]float32, len(g.Nodes))}
	for n := range g.Nodes {
		if g.Nodes[n].Op == Conv {
			r.packed[n] = pack(&g.Nodes[n], g.Tensors[g.Nodes[n].Output].C)
		}
	}
	return r.Clone(), nil
}

// Clone returns a runner of the same graph with its own tensors.
func (r *Runner) Clone() *Runner {
	c := &Runner{g: r.g, packed: r.packed, tensors: make([][]float32, len(r.g.Tensors))}
	for i, t := range r.g.Tensors {
		c.tensors[i] = make([]float32, t.Elems())
	}
	return c
}

// Run computes all tensors of one sample from its input, H x W x C. The result is indexed by TensorID, and is valid
// until the next Run.
func (r *Runner) Run(input []float32) ([][]float32, error) {
	if want := r.g.Tensors[r.g.Input].Elems(); len(input) != want {
		return nil, fmt.Errorf("graph %s: the input has %d elements, expected %d (%s): %w",
			r.g.Name, len(input), want, shape(r.g.Tensors[r.g.Input]), ErrShape)
	}
	copy(r.tensors[r.g.Input], input)
	for n := range r.g.Nodes {
		r.node(n)
	}
	return r.tensors, nil
}

// Run computes all tensors of one sample. The result is indexed by TensorID. For many samples, use a Runner.
func Run(g *Graph, input []float32) ([][]float32, error) {
	r, err := NewRunner(g)
	if err != nil {
		return nil, err
	}
	return r.Run(input)
}

func (r *Runner) node(n int) {
	node := &r.g.Nodes[n]
	in, out := r.g.Tensors[node.Inputs[0]], r.g.Tensors[node.Output]
	x, y := r.tensors[node.Inputs[0]], r.tensors[node.Output]
	switch node.Op {
	case Conv:
		if depthwise(node, out.C) {
			convDepthwise(node, in, out, r.packed[n], x, y)
		} else {
			conv(node, in, out, r.packed[n], x, y)
		}
		if node.Residual != None {
			if r.Partial != nil {
				r.Partial(n, y)
			}
			for i, v := range r.tensors[node.Residual] {
				y[i] += v
			}
		}
	case MaxPool:
		maxPool(node, in, out, x, y)
	case AvgPool:
		r.avgPool(n, x, y)
	case Add:
		for i, v := range r.tensors[node.Inputs[1]] {
			y[i] = x[i] + v
		}
	case Mul:
		other := r.tensors[node.Inputs[1]]
		for i := range y {
			y[i] = x[i] * other[i%len(other)]
		}
	case Reshape:
		copy(y, x)
	case Concat:
		at := 0
		for _, t := range node.Inputs {
			c := r.g.Tensors[t].C
			for p := 0; p < out.H*out.W; p++ {
				copy(y[p*out.C+at:p*out.C+at+c], r.tensors[t][p*c:])
			}
			at += c
		}
	}
	if node.Function != nil {
		if r.Before != nil {
			r.Before(n, y)
		}
		for i, v := range y {
			y[i] = float32(node.Function.At(float64(v)))
		}
	}
	clamp(y, node.ClampLo, node.ClampHi)
}

func clamp(y []float32, lo, hi float32) {
	if math.IsInf(float64(lo), -1) && math.IsInf(float64(hi), 1) {
		return
	}
	for i, v := range y {
		if v < lo {
			y[i] = lo
		} else if v > hi {
			y[i] = hi
		}
	}
}

func depthwise(node *Node, cout int) bool { return node.Groups > 1 && node.Groups == cout }

// pack returns the weights in the order in which the loops below read them. This order is [tap][C] for a depthwise
// node. If the groups of a depthwise node have several input channels, each input channel is a tap. For other nodes,
// the order is [group][block of lanes][tap][C in / Groups][lane], and the last block of a group is filled with zeros.
func pack(node *Node, cout int) []float32 {
	p := len(node.Weights) / cout
	if depthwise(node, cout) {
		packed := make([]float32, len(node.Weights))
		for c := range cout {
			for k := range p {
				packed[k*cout+c] = node.Weights[c*p+k]
			}
		}
		return packed
	}
	perGroup := cout / node.Groups
	blocks := (perGroup + lanes - 1) / lanes
	packed := make([]float32, node.Groups*blocks*p*lanes)
	for c := range cout {
		g, i := c/perGroup, c%perGroup
		base := (g*blocks + i/lanes) * p * lanes
		for k := range p {
			packed[base+k*lanes+i%lanes] = node.Weights[c*p+k]
		}
	}
	return packed
}

func conv(node *Node, in, out Tensor, packed, x, y []float32) {
	w := node.Window
	cin, cout := in.C/node.Groups, out.C/node.Groups
	p := w.KH * w.KW * cin
	blocks := (cout + lanes - 1) / lanes
	for oy := range out.H {
		ky0, ky1 := clip(oy, w.SH, w.PT, w.KH, in.H)
		for b := range node.Groups * blocks {
			g, first := b/blocks, b%blocks*lanes
			weights := packed[b*p*lanes : (b+1)*p*lanes]
			used := min(lanes, cout-first)
			bias := node.Bias[g*cout+first:][:used]
			for ox := 0; ox < out.W; {
				kx0, kx1 := clip(ox, w.SW, w.PL, w.KW, in.W)
				n := 1
				if hasVectors && kx0 < kx1 && sameClip(ox, kx0, kx1, out.W, in.W, &w) {
					n = positions
				}
				var acc [positions][lanes]float32
				for i := range n {
					copy(acc[i][:], bias)
				}
				for ky := ky0; ky < ky1 && kx0 < kx1; ky++ {
					at := ((oy*w.SH-w.PT+ky)*in.W+ox*w.SW-w.PL+kx0)*in.C + g*cin
					k := (ky*w.KW + kx0) * cin
					// With one group, the taps of a kernel row are adjacent in memory.
					taps, row := 1, (kx1-kx0)*cin
					if node.Groups > 1 {
						taps, row = kx1-kx0, cin
					}
					for range taps {
						if n == 1 {
							dot(&acc[0], x[at:at+row], weights[k*lanes:])
						} else {
							dot4(&acc, x[at:], weights[k*lanes:], row, w.SW*in.C)
						}
						at += in.C
						k += cin
					}
				}
				for i := range n {
					copy(y[(oy*out.W+ox+i)*out.C+g*cout+first:][:used], acc[i][:])
				}
				ox += n
			}
		}
	}
}

// sameClip reports whether the window at ox and the next positions-1 windows all have the taps kx0 to kx1 on pixels.
func sameClip(ox, kx0, kx1, outW, inW int, w *Window) bool {
	last := ox + positions - 1
	if last >= outW {
		return false
	}
	a, b := clip(last, w.SW, w.PL, w.KW, inW)
	return a == kx0 && b == kx1
}

// dot adds x[i] * w[i][lane] to acc.
func dot(acc *[lanes]float32, x, w []float32) {
	a0, a1, a2, a3, a4, a5, a6, a7 := acc[0], acc[1], acc[2], acc[3], acc[4], acc[5], acc[6], acc[7]
	for _, v := range x {
		q := (*[lanes]float32)(w)
		a0 += v * q[0]
		a1 += v * q[1]
		a2 += v * q[2]
		a3 += v * q[3]
		a4 += v * q[4]
		a5 += v * q[5]
		a6 += v * q[6]
		a7 += v * q[7]
		w = w[lanes:]
	}
	*acc = [lanes]float32{a0, a1, a2, a3, a4, a5, a6, a7}
}

func convDepthwise(node *Node, in, out Tensor, packed, x, y []float32) {
	w := node.Window
	cin := in.C / node.Groups
	for oy := range out.H {
		ky0, ky1 := clip(oy, w.SH, w.PT, w.KH, in.H)
		for ox := range out.W {
			kx0, kx1 := clip(ox, w.SW, w.PL, w.KW, in.W)
			acc := y[(oy*out.W+ox)*out.C:][:out.C]
			copy(acc, node.Bias)
			for ky := ky0; ky < ky1; ky++ {
				for kx := kx0; kx < kx1; kx++ {
					pixel := x[((oy*w.SH-w.PT+ky)*in.W+ox*w.SW-w.PL+kx)*in.C:][:in.C]
					for i := range cin {
						taps := packed[((ky*w.KW+kx)*cin+i)*out.C:][:out.C]
						for c := range acc {
							acc[c] += pixel[c*cin+i] * taps[c]
						}
					}
				}
			}
		}
	}
}

func maxPool(node *Node, in, out Tensor, x, y []float32) {
	w := node.Window
	for oy := range out.H {
		ky0, ky1 := clip(oy, w.SH, w.PT, w.KH, in.H)
		for ox := range out.W {
			kx0, kx1 := clip(ox, w.SW, w.PL, w.KW, in.W)
			best := y[(oy*out.W+ox)*out.C:][:out.C]
			for c := range best {
				best[c] = float32(math.Inf(-1))
			}
			for ky := ky0; ky < ky1; ky++ {
				for kx := kx0; kx < kx1; kx++ {
					pixel := x[((oy*w.SH-w.PT+ky)*in.W+ox*w.SW-w.PL+kx)*in.C:][:in.C]
					for c, v := range pixel {
						if v > best[c] {
							best[c] = v
						}
					}
				}
			}
		}
	}
}

func (r *Runner) avgPool(n int, x, y []float32) {
	node := &r.g.Nodes[n]
	w, in, out := node.Window, r.g.Tensors[node.Inputs[0]], r.g.Tensors[node.Output]
	for oy := range out.H {
		ky0, ky1 := clip(oy, w.SH, w.PT, w.KH, in.H)
		for ox := range out.W {
			kx0, kx1 := clip(ox, w.SW, w.PL, w.KW, in.W)
			sum := y[(oy*out.W+ox)*out.C:][:out.C]
			clear(sum)
			for ky := ky0; ky < ky1; ky++ {
				for kx := kx0; kx < kx1; kx++ {
					pixel := x[((oy*w.SH-w.PT+ky)*in.W+ox*w.SW-w.PL+kx)*in.C:][:in.C]
					for c, v := range pixel {
						sum[c] += v
					}
				}
			}
			scale := 1 / float32(r.g.Divisor(n, oy, ox))
			for c := range sum {
				sum[c] *= scale
			}
		}
	}
}
