// Package int8 executes networks in int8 (package quant). Hardware for such networks must compute the same bits.
package int8

import (
	"encoding/binary"
	"fmt"
	"math"
	"sync/atomic"

	"github.com/sluice-npu/sluice/dse/golden"
	"github.com/sluice-npu/sluice/dse/graph"
	"github.com/sluice-npu/sluice/dse/quant"
	"github.com/sluice-npu/sluice/hw/abi"
)

// Program is a network prepared for execution. It does not use a bundle or a design, so that golden's results on
// bundles can be compared with its results. The layers have the order of the graph. Each map has its own memory, in
// 16-bit words. Package golden computes the sums of the convolutions. Program is safe for concurrent use.
type Program struct {
	n     *quant.Int8
	at    []int            // byte offset of a map, by tensor
	size  int              // number of bytes of all maps
	convs [][]*golden.Conv // one Conv per group of a convolution, by node
	ends  []end            // by node
}

// posted applies the operations after the sum to a group of a layer's channels; `first` is the group's first channel.
type posted struct {
	*end
	first        int
	residualZero int64
}

// of returns the code for a sum, which includes the bias. The channel is counted from the start of the group.
func (p *posted) of(sum int64, channel int, res int16) int16 {
	t := p.l.Scales[p.first+channel].Of(sum)
	if p.l.Sum != nil {
		t = p.l.Sum.Of(p.half(t), int64(res)-p.residualZero)
	}
	return p.code(t)
}

// end computes a layer's codes. It counts values that saturate before a residual or curve, and values that exceed the
// codes. It does not count values that the network itself clamps.
type end struct {
	l           *quant.Layer8
	zero        int64 // zero point of the output
	least, most int64 // lowest and highest code that do not count as saturated
	front       *quant.Front
	beyond      atomic.Int64
}

func (e *end) set(n *quant.Int8, i int) {
	node := &n.Graph.Nodes[i]
	c := n.Maps[node.Output]
	*e = end{l: &n.Layers[i], zero: int64(c.Zero), least: math.MinInt64, most: math.MaxInt64, front: n.Front(i)}
	if lo, hi := c.Bounds(); e.l.Curve == nil { // the result of a curve is always a code
		if math.RoundToEven(float64(node.ClampLo)/c.Step)+float64(c.Zero) < float64(lo) {
			e.least = int64(lo)
		}
		if math.RoundToEven(float64(node.ClampHi)/c.Step)+float64(c.Zero) > float64(hi) {
			e.most = int64(hi)
		}
	}
}

// half returns t saturated to 16 bits.
func (e *end) half(t int64) int64 {
	s := int64(golden.Saturate(t))
	if s != t {
		e.beyond.Add(1)
	}
	return s
}

// code returns clamp(t + zero), or clamp(curve(sat16(t))).
func (e *end) code(t int64) int16 {
	if e.l.Curve != nil {
		if e.front.Saturates(math.Ldexp(float64(t), -e.l.Mid)) {
			e.beyond.Add(1)
		}
		t = int64(e.l.Curve.At(golden.Saturate(t)))
	} else {
		t += e.zero
	}
	if t < e.least || t > e.most {
		e.beyond.Add(1)
	}
	return int16(min(max(t, int64(e.l.Lo)), int64(e.l.Hi)))
}

// Saturated returns the number of a layer's results that have saturated so far, because a value exceeded 16 bits or the
// codes. It does not include values that the network itself clamps.
func (p *Program) Saturated(node int) int64 { return p.ends[node].beyond.Load() }

// New prepares a network for execution.
func New(n *quant.Int8) (*Program, error) {
	g := n.Graph
	p := &Program{n: n, at: make([]int, len(g.Tensors)), convs: make([][]*golden.Conv, len(g.Nodes)), ends: make([]end, len(g.Nodes))}
	for t := range p.at {
		p.at[t] = p.size
		p.size += 2 * g.Tensors[t].Elems()
	}
	if int64(p.size) > math.MaxUint32 {
		return nil, fmt.Errorf("int8: maps of %d bytes in all, at most %d", p.size, uint32(math.MaxUint32))
	}
	for i := range g.Nodes {
		p.ends[i].set(n, i)
		if g.Nodes[i].Op == graph.Conv {
			if err := p.convolution(i); err != nil {
				return nil, fmt.Errorf("int8: layer %d (%s): %w", i, g.Nodes[i].Name, err)
			}
		}
	}
	return p, nil
}

// convolution adds a Conv for each group of a convolution, or a single Conv for a depthwise convolution.
func (p *Program) convolution(i int) error {
	g, node, l := p.n.Graph, &p.n.Graph.Nodes[i], &p.n.Layers[i]
	in, out, w := g.Tensors[node.Inputs[0]], g.Tensors[node.Output], node.Window
	groups, op := node.Groups, abi.OpGEMM
	cin, cout := in.C/groups, out.C/groups
	if cin == 1 && cout == 1 {
		groups, op, cout = 1, abi.OpDepthwise, out.C
		cin = in.C
	}
	if max(w.KH, w.KW, w.SH, w.SW, w.PT, w.PL) > math.MaxUint8 {
		return fmt.Errorf("a window of %d x %d, strides %d and %d, padding %d and %d: at most %d each", w.KH, w.KW, w.SH, w.SW, w.PT, w.PL, math.MaxUint8)
	}
	per := len(l.Weights) / groups
	for k := range groups {
		d := abi.Desc{
			Op: op, InH: uint16(in.H), InW: uint16(in.W), InC: uint16(cin), InPix: uint16(in.C), OutH: uint16(out.H), OutW: uint16(out.W),
			OutC: uint16(cout), OutPix: uint16(out.C), KH: uint8(w.KH), KW: uint8(w.KW), SH: uint8(w.SH), SW: uint8(w.SW), PadT: uint8(w.PT), PadL: uint8(w.PL),
			InOffset: uint32(p.at[node.Inputs[0]] + 2*k*cin), InRowBytes: uint32(2 * in.W * in.C),
			OutOffset: uint32(p.at[node.Output] + 2*k*cout), OutRowBytes: uint32(2 * out.W * out.C), KWC: uint32(w.KW * cin),
		}
		after := &posted{end: &p.ends[i], first: k * cout}
		if node.Residual != graph.None {
			d.Residual, d.ResPix, d.ResRowBytes = true, d.OutPix, d.OutRowBytes
			d.ResOffset = uint32(p.at[node.Residual] + 2*k*cout)
			after.residualZero = int64(p.n.Maps[node.Residual].Zero)
		}
		conv, err := golden.NewConv(&d, l.Weights[k*per:(k+1)*per], l.Bias[k*cout:(k+1)*cout], int16(p.n.Maps[node.Inputs[0]].Zero), after.of)
		if err != nil {
			return err
		}
		p.convs[i] = append(p.convs[i], conv)
	}
	return nil
}

// Run computes all maps of one sample from the input's codes. The result is indexed by graph.TensorID.
func (p *Program) Run(input []int16) ([][]int16, error) {
	maps := make([]byte, p.size)
	if want := p.n.Graph.Tensors[p.n.Graph.Input].Elems(); len(input) != want {
		return nil, fmt.Errorf("int8: an input of %d elements, expected %d", len(input), want)
	}
	p.write(maps, p.n.Graph.Input, input)
	for i := range p.n.Graph.Nodes {
		if err := p.layer(i, maps); err != nil {
			return nil, fmt.Errorf("int8: layer %d (%s): %w", i, p.n.Graph.Nodes[i].Name, err)
		}
	}
	out := make([][]int16, len(p.at))
	for t := range out {
		out[t] = p.read(maps, graph.TensorID(t))
	}
	return out, nil
}

// Layer computes the output of one layer from the codes of its inputs. It does not read other tensors.
func (p *Program) Layer(node int, tensors [][]int16) ([]int16, error) {
	maps := make([]byte, p.size)
	for _, t := range p.n.Graph.Nodes[node].Reads() {
		p.write(maps, t, tensors[t])
	}
	err := p.layer(node, maps)
	return p.read(maps, p.n.Graph.Nodes[node].Output), err
}

func (p *Program) write(maps []byte, t graph.TensorID, codes []int16) {
	for i, v := range codes {
		binary.LittleEndian.PutUint16(maps[p.at[t]+2*i:], uint16(v))
	}
}

func (p *Program) read(maps []byte, t graph.TensorID) []int16 {
	codes := make([]int16, p.n.Graph.Tensors[t].Elems())
	for i := range codes {
		codes[i] = int16(binary.LittleEndian.Uint16(maps[p.at[t]+2*i:]))
	}
	return codes
}

func (p *Program) layer(i int, maps []byte) error {
	g, node, l, end := p.n.Graph, &p.n.Graph.Nodes[i], &p.n.Layers[i], &p.ends[i]
	if node.Op == graph.Conv {
		for _, c := range p.convs[i] {
			if err := c.Run(maps); err != nil {
				return err
			}
		}
		return nil
	}
	x, y := p.read(maps, node.Inputs[0]), make([]int16, g.Tensors[node.Output].Elems())
	zero := int64(p.n.Maps[node.Inputs[0]].Zero)
	switch node.Op {
	case graph.Add, graph.Mul:
		other, otherZero := p.read(maps, node.Inputs[1]), int64(p.n.Maps[node.Inputs[1]].Zero)
		for k, v := range x {
			a, b := int64(v)-zero, int64(other[k%len(other)])-otherZero
			if node.Op == graph.Add {
				y[k] = end.code(l.Sum.Of(a, b))
			} else {
				y[k] = end.code(l.Scales[0].Of(a * b))
			}
		}
	case graph.MaxPool, graph.AvgPool:
		p.pool(i, x, y)
	case graph.Reshape:
		for k, v := range x {
			y[k] = end.code(l.Scales[0].Of(int64(v) - zero))
		}
	case graph.Concat:
		at, c := 0, g.Tensors[node.Output].C
		for j, t := range node.Inputs {
			part, zero := g.Tensors[t].C, int64(p.n.Maps[t].Zero)
			for k, v := range p.read(maps, t) {
				y[k/part*c+at+k%part] = end.code(l.Scales[j].Of(int64(v) - zero))
			}
			at += part
		}
	}
	p.write(maps, node.Output, y)
	return nil
}

func (p *Program) pool(i int, x, y []int16) {
	g, node, l := p.n.Graph, &p.n.Graph.Nodes[i], &p.n.Layers[i]
	in, out, w := g.Tensors[node.Inputs[0]], g.Tensors[node.Output], node.Window
	zero, end := int64(p.n.Maps[node.Inputs[0]].Zero), &p.ends[i]
	for k := range y {
		c, ox, oy := k%out.C, k/out.C%out.W, k/out.C/out.W
		best, sum, taps := int64(math.MinInt16), int64(0), 0
		for iy := max(0, oy*w.SH-w.PT); iy < min(in.H, oy*w.SH-w.PT+w.KH); iy++ {
			for ix := max(0, ox*w.SW-w.PL); ix < min(in.W, ox*w.SW-w.PL+w.KW); ix++ {
				v := int64(x[(iy*in.W+ix)*in.C+c])
				best, sum, taps = max(best, v), sum+v-zero, taps+1
			}
		}
		if node.Op == graph.MaxPool {
			y[k] = end.code(l.Scales[0].Of(best - zero))
		} else {
			y[k] = end.code(l.Scales[taps].Of(sum))
		}
	}
}
