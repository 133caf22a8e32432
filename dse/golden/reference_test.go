package golden

import (
	"encoding/binary"
	"math"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/dse/graph"
	"github.com/sluice-npu/sluice/dse/quant"
	"github.com/sluice-npu/sluice/hw/abi"
)

// naive evaluates a quantised graph by its definition, without descriptors, slots or packing: every tensor is H x W x
// C numbers.
func naive(q *quant.Network, image []int16) [][]int64 {
	g := q.Graph
	t := make([][]int64, len(g.Tensors))
	for i := range g.Tensors {
		t[i] = make([]int64, g.Tensors[i].Elems())
	}
	for i, v := range image {
		t[g.Input][i] = int64(v)
	}
	for n := range g.Nodes {
		node := &g.Nodes[n]
		out := t[node.Output]
		shape := g.Tensors[node.Output]
		for y := range shape.H {
			for x := range shape.W {
				for c := range shape.C {
					out[(y*shape.W+x)*shape.C+c] = naiveElement(q, t, n, y, x, c)
				}
			}
		}
	}
	return t
}

func naiveElement(q *quant.Network, t [][]int64, n, y, x, c int) int64 {
	g := q.Graph
	node, l := &g.Nodes[n], &q.Layers[n]
	w := node.Window
	at := func(id graph.TensorID, y, x, c int) (int64, bool) {
		s := g.Tensors[id]
		if y < 0 || y >= s.H || x < 0 || x >= s.W {
			return 0, false
		}
		return t[id][(y*s.W+x)*s.C+c], true
	}
	var v int64
	switch node.Op {
	case graph.Concat:
		for _, id := range node.Inputs {
			if c < g.Tensors[id].C {
				v, _ = at(id, y, x, c)
				return v
			}
			c -= g.Tensors[id].C
		}
	case graph.Reshape:
		out := g.Tensors[node.Output]
		return t[node.Inputs[0]][(y*out.W+x)*out.C+c]
	case graph.Add:
		a, _ := at(node.Inputs[0], y, x, c)
		b, _ := at(node.Inputs[1], y, x, c)
		v = round(a*(1<<l.WFrac)+b*(1<<l.ResShift), l.Shift)
	case graph.Mul:
		a, _ := at(node.Inputs[0], y, x, c)
		other := g.Tensors[node.Inputs[1]]
		b, _ := at(node.Inputs[1], min(y, other.H-1), min(x, other.W-1), c)
		v = round(a*b, l.ResShift)
	case graph.Conv:
		in, out := node.Inputs[0], g.Tensors[node.Output].C
		inG := g.Tensors[in].C / node.Groups
		first := c / (out / node.Groups) * inG
		v = int64(l.Bias[c])
		for ky := range w.KH {
			for kx := range w.KW {
				for i := range inG {
					a, _ := at(in, y*w.SH-w.PT+ky, x*w.SW-w.PL+kx, first+i)
					v += a * int64(l.Weights[((c*w.KH+ky)*w.KW+kx)*inG+i])
				}
			}
		}
		if node.Residual != graph.None {
			r, _ := at(node.Residual, y, x, c)
			v += r * (1 << l.ResShift)
		}
		v = round(v, l.Shift)
	case graph.MaxPool, graph.AvgPool:
		best, sum, taps := int64(math.MinInt16), int64(0), 0
		for ky := range w.KH {
			for kx := range w.KW {
				if a, ok := at(node.Inputs[0], y*w.SH-w.PT+ky, x*w.SW-w.PL+kx, c); ok {
					best, sum, taps = max(best, a), sum+a, taps+1
				}
			}
		}
		v = best
		if node.Op == graph.AvgPool {
			m := int64(l.AvgMul)
			if l.AvgTable != nil {
				m = int64(l.AvgTable[taps])
			}
			v = round(sum*m, l.AvgShift)
		}
	}
	v = max(math.MinInt16, min(math.MaxInt16, v))
	if l.Curve != nil { // the segment that covers v, by search
		i := 0
		for i < abi.CurveSegments-1 && v >= int64(l.Curve.Lo)+int64(i+1)<<l.Curve.Step {
			i++
		}
		v = round(v*int64(l.Curve.Segments[i].Slope)+int64(l.Curve.Segments[i].Offset), int(l.Curve.Shift))
		v = max(math.MinInt16, min(math.MaxInt16, v))
	}
	return max(int64(l.ClampLo), min(int64(l.ClampHi), v))
}

// round is floor(x / 2^n + 1/2), by division.
func round(x int64, n int) int64 {
	if n == 0 {
		return x
	}
	d := int64(1) << n
	x += d / 2
	r := x % d
	if r < 0 {
		r += d
	}
	return (x - r) / d
}

// tensorIn reads a tensor from a slot.
func tensorIn(b *bundle.Bundle, slot []byte, t int) []int64 {
	x := b.Slot.Tensors[t]
	out := make([]int64, 0, x.H*x.W*x.C)
	for i := range x.H * x.W {
		for c := range x.C {
			out = append(out, int64(int16(binary.LittleEndian.Uint16(slot[x.Offset+2*(i*x.Pix+c):]))))
		}
	}
	return out
}
