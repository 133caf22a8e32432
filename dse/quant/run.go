package quant

import (
	"math"

	"github.com/sluice-npu/sluice/dse/graph"
)

// Run computes all tensors of one sample as the hardware does. It returns them indexed by TensorID. Package golden
// computes the same from a bundle, in which tensors overwrite one another.
func (n *Network) Run(input []int16) [][]int16 {
	g := n.Graph
	t := make([][]int16, len(g.Tensors))
	t[g.Input] = input
	for i := range g.Nodes {
		t[g.Nodes[i].Output] = n.layer(i, t)
	}
	return t
}

// finished returns y = clamp(curve(sat16(rnd(acc, shift)))).
func (l *Layer) finished(acc int64, shift int) int16 {
	if shift > 0 {
		acc = (acc + 1<<(shift-1)) >> shift
	}
	acc = min(max(acc, math.MinInt16), math.MaxInt16)
	if l.Curve != nil {
		acc = int64(l.Curve.At(int16(acc)))
	}
	return int16(min(max(acc, int64(l.ClampLo)), int64(l.ClampHi)))
}

func (n *Network) layer(i int, t [][]int16) []int16 {
	g, l := n.Graph, &n.Layers[i]
	node := &g.Nodes[i]
	x, y := t[node.Inputs[0]], make([]int16, g.Tensors[node.Output].Elems())
	switch node.Op {
	case graph.Conv:
		n.conv(i, x, y, t)
	case graph.Add:
		for k, v := range t[node.Inputs[1]] {
			y[k] = l.finished(int64(x[k])<<l.WFrac+int64(v)<<l.ResShift, l.Shift)
		}
	case graph.Mul:
		other := t[node.Inputs[1]]
		for k := range y {
			y[k] = l.finished(int64(x[k])*int64(other[k%len(other)]), l.ResShift)
		}
	case graph.MaxPool, graph.AvgPool:
		n.pool(i, x, y)
	case graph.Reshape:
		copy(y, x)
	case graph.Concat:
		at, c := 0, g.Tensors[node.Output].C
		for _, in := range node.Inputs {
			part := g.Tensors[in].C
			for p := range len(y) / c {
				copy(y[p*c+at:], t[in][p*part:(p+1)*part])
			}
			at += part
		}
	}
	return y
}

func (n *Network) conv(i int, x, y []int16, t [][]int16) {
	g, l := n.Graph, &n.Layers[i]
	node := &g.Nodes[i]
	in, out, w := g.Tensors[node.Inputs[0]], g.Tensors[node.Output], node.Window
	cin, perGroup := in.C/node.Groups, out.C/node.Groups
	var residual []int16
	if node.Residual != graph.None {
		residual = t[node.Residual]
	}
	for oy := range out.H {
		y0 := oy*w.SH - w.PT
		for ox := range out.W {
			x0 := ox*w.SW - w.PL
			from, to := max(0, -x0), min(w.KW, in.W-x0)
			for c := range out.C {
				acc, first := int64(l.Bias[c]), c/perGroup*cin
				for ky := max(0, -y0); ky < min(w.KH, in.H-y0); ky++ {
					pixel, tap := ((y0+ky)*in.W+x0+from)*in.C+first, ((c*w.KH+ky)*w.KW+from)*cin
					if node.Groups == 1 { // the taps of a row are adjacent in memory
						if to > from {
							acc += dot(x[pixel:pixel+(to-from)*cin], l.Weights[tap:])
						}
						continue
					}
					for range to - from {
						acc += dot(x[pixel:pixel+cin], l.Weights[tap:])
						pixel, tap = pixel+in.C, tap+cin
					}
				}
				k := (oy*out.W+ox)*out.C + c
				if residual != nil {
					acc += int64(residual[k]) << l.ResShift
				}
				y[k] = l.finished(acc, l.Shift)
			}
		}
	}
}

func dot(x, w []int16) (sum int64) {
	w = w[:len(x)]
	for i, v := range x {
		sum += int64(v) * int64(w[i])
	}
	return sum
}

func (n *Network) pool(i int, x, y []int16) {
	g, l := n.Graph, &n.Layers[i]
	node := &g.Nodes[i]
	in, out, w := g.Tensors[node.Inputs[0]], g.Tensors[node.Output], node.Window
	for k := range y {
		c, ox, oy := k%out.C, k/out.C%out.W, k/out.C/out.W
		best, sum, taps := int16(math.MinInt16), int64(0), 0
		for iy := max(0, oy*w.SH-w.PT); iy < min(in.H, oy*w.SH-w.PT+w.KH); iy++ {
			for ix := max(0, ox*w.SW-w.PL); ix < min(in.W, ox*w.SW-w.PL+w.KW); ix++ {
				v := x[(iy*in.W+ix)*in.C+c]
				best, sum, taps = max(best, v), sum+int64(v), taps+1
			}
		}
		if node.Op == graph.MaxPool {
			y[k] = l.finished(int64(best), 0)
			continue
		}
		m := int64(l.AvgMul)
		if l.AvgTable != nil {
			m = int64(l.AvgTable[taps])
		}
		y[k] = l.finished(sum*m, l.AvgShift)
	}
}
