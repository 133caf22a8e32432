package quant

import (
	"math"

	"github.com/sluice-npu/sluice/dse/graph"
)

// reference executes a quantised network on one image with the formulas of dse/README in int64, as literally as
// possible. If width is not 64, the convolutions' accumulators wrap to that many bits after every addition.
type reference struct {
	n     *Network
	width int
}

func (r reference) wrap(v int64) int64 {
	if r.width == 0 {
		return v
	}
	return v << (64 - r.width) >> (64 - r.width)
}

func (r reference) run(input []int16) [][]int16 {
	g := r.n.Graph
	t := make([][]int16, len(g.Tensors))
	t[g.Input] = input
	for n := range g.Nodes {
		t[g.Nodes[n].Output] = r.node(n, t)
	}
	return t
}

func rnd(x int64, n int) int64 {
	if n == 0 {
		return x
	}
	return (x + 1<<(n-1)) >> n
}

func finish(x int64, l *Layer) int16 {
	x = min(max(x, -32768), 32767)
	if c := l.Curve; c != nil {
		s := c.Segments[min(max((x-int64(c.Lo))>>c.Step, 0), 31)]
		x = min(max(rnd(int64(s.Slope)*x+int64(s.Offset), int(c.Shift)), -32768), 32767)
	}
	return int16(min(max(x, int64(l.ClampLo)), int64(l.ClampHi)))
}

func (r reference) node(n int, t [][]int16) []int16 {
	g, l := r.n.Graph, &r.n.Layers[n]
	node := &g.Nodes[n]
	in, out, w := g.Tensors[node.Inputs[0]], g.Tensors[node.Output], node.Window
	x, y := t[node.Inputs[0]], make([]int16, out.Elems())
	// at returns an input element, and whether it is inside the input.
	at := func(iy, ix, c int) (int64, bool) {
		if iy < 0 || iy >= in.H || ix < 0 || ix >= in.W {
			return 0, false
		}
		return int64(x[(iy*in.W+ix)*in.C+c]), true
	}
	for oy := range out.H {
		for ox := range out.W {
			for c := range out.C {
				i := (oy*out.W+ox)*out.C + c
				switch node.Op {
				case graph.Conv:
					acc := int64(l.Bias[c])
					cin := in.C / node.Groups
					first := c / (out.C / node.Groups) * cin
					for ky := range w.KH {
						for kx := range w.KW {
							for k := range cin {
								v, _ := at(oy*w.SH-w.PT+ky, ox*w.SW-w.PL+kx, first+k)
								acc = r.wrap(acc + v*int64(l.Weights[((c*w.KH+ky)*w.KW+kx)*cin+k]))
							}
						}
					}
					if node.Residual != graph.None {
						acc += int64(t[node.Residual][i]) << l.ResShift
					}
					y[i] = finish(rnd(acc, l.Shift), l)
				case graph.Add:
					acc := int64(x[i])<<l.WFrac + int64(t[node.Inputs[1]][i])<<l.ResShift
					y[i] = finish(rnd(acc, l.Shift), l)
				case graph.Mul:
					other := t[node.Inputs[1]]
					y[i] = finish(rnd(int64(x[i])*int64(other[i%len(other)]), l.ResShift), l)
				case graph.MaxPool, graph.AvgPool:
					best, sum, taps := int64(-32768), int64(0), 0
					for ky := range w.KH {
						for kx := range w.KW {
							v, ok := at(oy*w.SH-w.PT+ky, ox*w.SW-w.PL+kx, c)
							if ok {
								best, sum, taps = max(best, v), sum+v, taps+1
							}
						}
					}
					if node.Op == graph.MaxPool {
						y[i] = finish(best, l)
						continue
					}
					m := int64(l.AvgMul)
					if l.AvgTable != nil {
						m = int64(l.AvgTable[taps])
					}
					y[i] = finish(rnd(sum*m, l.AvgShift), l)
				case graph.Concat:
					k := c
					for _, in := range node.Inputs {
						if ch := g.Tensors[in].C; k < ch {
							y[i] = t[in][(oy*out.W+ox)*ch+k]
							break
						} else {
							k -= ch
						}
					}
				}
			}
		}
	}
	return y
}

// ideal computes node n in float64, with the graph's own weights and with the values of its integer inputs. It also
// returns the allowed error of each element: half a step of the output, plus the effect of half a step of each weight
// and of the bias.
func (r reference) ideal(n int, t [][]int16) (y, slack []float64) {
	g, l := r.n.Graph, &r.n.Layers[n]
	node := &g.Nodes[n]
	in, out, w := g.Tensors[node.Inputs[0]], g.Tensors[node.Output], node.Window
	y, slack = make([]float64, out.Elems()), make([]float64, out.Elems())
	value := func(id graph.TensorID, i int) float64 { return r.n.Value(id, t[id][i]) }
	half := math.Ldexp(0.5, -r.n.sum(n))
	for i := range y {
		c, ox, oy := i%out.C, i/out.C%out.W, i/out.C/out.W
		v, off := 0.0, half
		each := func(first, channels int, visit func(x float64, tap, k int)) {
			for ky := range w.KH {
				for kx := range w.KW {
					iy, ix := oy*w.SH-w.PT+ky, ox*w.SW-w.PL+kx
					if iy < 0 || iy >= in.H || ix < 0 || ix >= in.W {
						continue
					}
					for k := range channels {
						visit(value(node.Inputs[0], (iy*in.W+ix)*in.C+first+k), ky*w.KW+kx, k)
					}
				}
			}
		}
		switch node.Op {
		case graph.Conv:
			v = float64(node.Bias[c])
			off += math.Ldexp(0.5, -l.WFrac-r.n.Frac[node.Inputs[0]])
			cin := in.C / node.Groups
			each(c/(out.C/node.Groups)*cin, cin, func(x float64, tap, k int) {
				v += x * float64(node.Weights[(c*w.KH*w.KW+tap)*cin+k])
				off += math.Abs(x) * math.Ldexp(0.5, -l.WFrac)
			})
			if node.Residual != graph.None {
				v += value(node.Residual, i)
			}
		case graph.Add:
			v = value(node.Inputs[0], i) + value(node.Inputs[1], i)
		case graph.Mul:
			v = value(node.Inputs[0], i) * value(node.Inputs[1], i%len(t[node.Inputs[1]]))
		case graph.MaxPool:
			v = math.Inf(-1)
			each(c, 1, func(x float64, _, _ int) { v = max(v, x) })
		case graph.AvgPool:
			each(c, 1, func(x float64, _, _ int) {
				v += x
				// M has 16 bits for the smallest divisor and fewer for larger divisors.
				off += math.Abs(x) * math.Ldexp(1, -15)
			})
			v /= float64(g.Divisor(n, oy, ox))
		case graph.Concat:
			for _, id := range node.Inputs {
				if ch := g.Tensors[id].C; c >= ch {
					c -= ch
				} else {
					v = value(id, i/out.C*ch+c)
					break
				}
			}
		}
		if node.Function != nil { // its slope may exceed 1: HardSwish's reaches 1.5
			at, most := node.Function.At(v), 0.0
			for _, d := range []float64{-1, -0.5, 0.5, 1} {
				most = max(most, math.Abs(node.Function.At(v+d*off)-at))
			}
			v, off = at, most+l.CurveError
		}
		y[i] = min(max(v, float64(node.ClampLo)), float64(node.ClampHi))
		slack[i] = off * (1 + 1e-9)
	}
	return y, slack
}
