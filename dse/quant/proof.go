package quant

import (
	"fmt"
	"math"

	"github.com/sluice-npu/sluice/dse/graph"
)

// Limit is the bound of each sum: a magnitude below 2^35 fits the 36-bit accumulator.
const Limit = int64(1) << 35

// Margin describes how close a layer can come to an overflow for any input. It contains two sums, each for its worst
// channel:
//
//	Acc = sum|w| * 32768 + |bias|
//	Sum = Acc + (32768 << ResShift), with a residual
//
// Both must be below Limit. In an average pool, the sums are over the pixels of a window. In a Concat and a max pool,
// both sums are zero.
type Margin struct {
	Acc, Sum               int64
	AccChannel, SumChannel int
}

// AccBits returns log2(Limit / Acc). Without a residual, the accumulator could be narrower by this number of bits.
func (m Margin) AccBits() float64 {
	return math.Log2(float64(Limit)) - math.Log2(float64(max(m.Acc, 1)))
}

func (m Margin) refusal() error {
	switch {
	case m.Sum < Limit:
		return nil
	case m.Acc >= Limit:
		return fmt.Errorf("%w: channel %d: sum|w| * 32768 + |bias| reaches %d (2^%.2f), expected less than 2^35",
			ErrOverflow, m.AccChannel, m.Acc, math.Log2(float64(m.Acc)))
	}
	return fmt.Errorf("%w: channel %d: with the residual the sum reaches %d (2^%.2f), expected less than 2^35",
		ErrOverflow, m.SumChannel, m.Sum, math.Log2(float64(m.Sum)))
}

// Proof computes the margin of a layer only from its integers.
func (n *Network) Proof(layer int) Margin {
	node := &n.Graph.Nodes[layer]
	taps := node.Window.KH * node.Window.KW
	return prove(node, &n.Layers[layer], taps)
}

func prove(node *graph.Node, l *Layer, taps int) Margin {
	const x = -math.MinInt16 // the largest magnitude of an element
	switch node.Op {
	case graph.AvgPool:
		sum := int64(taps) * x
		return Margin{Acc: sum, Sum: sum}
	case graph.Add:
		acc := int64(x) << l.WFrac
		return Margin{Acc: acc, Sum: acc + int64(x)<<l.ResShift}
	case graph.Mul:
		return Margin{Acc: x, Sum: x}
	case graph.Conv:
	default:
		return Margin{}
	}
	residual := int64(0)
	if node.Residual != graph.None {
		residual = x << l.ResShift
	}
	var m Margin
	p := len(l.Weights) / max(len(l.Bias), 1)
	for c, b := range l.Bias {
		sum := int64(0)
		for _, w := range l.Weights[c*p : (c+1)*p] {
			sum += abs(int64(w))
		}
		acc := sum*x + abs(int64(b))
		if acc > m.Acc {
			m.Acc, m.AccChannel = acc, c
		}
		if acc+residual > m.Sum {
			m.Sum, m.SumChannel = acc+residual, c
		}
	}
	return m
}

func abs(v int64) int64 {
	if v < 0 {
		return -v
	}
	return v
}

// Check verifies that the hardware can run a network. It checks sizes, the ranges of the shifts, the scales between
// layers, and the proof of each layer. The graph must have passed its own Check before.
func (n *Network) Check() error {
	if len(n.Layers) != len(n.Graph.Nodes) || len(n.Frac) != len(n.Graph.Tensors) {
		return fmt.Errorf("network %s: %w: %d layers and %d fractions for %d nodes and %d tensors", n.Graph.Name,
			ErrRange, len(n.Layers), len(n.Frac), len(n.Graph.Nodes), len(n.Graph.Tensors))
	}
	for i := range n.Layers {
		if err := n.checkLayer(i); err != nil {
			return fmt.Errorf("network %s: layer %d (%q): %w", n.Graph.Name, i, n.Graph.Nodes[i].Name, err)
		}
	}
	return nil
}

func (n *Network) checkLayer(i int) error {
	node, l := &n.Graph.Nodes[i], &n.Layers[i]
	in, out := n.Frac[node.Inputs[0]], n.Frac[node.Output]
	if l.ClampLo > l.ClampHi {
		return fmt.Errorf("%w: clamp to %d .. %d", ErrRange, l.ClampLo, l.ClampHi)
	}
	switch node.Op {
	case graph.Concat, graph.MaxPool, graph.Reshape:
		for _, t := range node.Inputs {
			if n.Frac[t] != out {
				return fmt.Errorf("%w: %d fraction bits in, %d out, expected the same", ErrRange, n.Frac[t], out)
			}
		}
		if node.Op != graph.MaxPool && (l.ClampLo != math.MinInt16 || l.ClampHi != math.MaxInt16) {
			return fmt.Errorf("%w: it computes nothing and cannot clamp to %d .. %d", ErrRange, l.ClampLo, l.ClampHi)
		}
		return nil
	case graph.AvgPool:
		if err := l.checkAvg(node.Window); err != nil {
			return err
		}
		return n.Proof(i).refusal()
	case graph.Add:
		if len(l.Weights)+len(l.Bias) != 0 || l.WFrac < 0 || l.WFrac > maxIdentity {
			return fmt.Errorf("%w: an Add with %d weights, %d biases and an identity of 2^%d, expected none and 2^0 .. 2^%d",
				ErrRange, len(l.Weights), len(l.Bias), l.WFrac, maxIdentity)
		}
	case graph.Mul:
		want := in + n.Frac[node.Inputs[1]] - out
		if len(l.Weights)+len(l.Bias)+l.WFrac+l.Shift != 0 || l.ResShift != want || want < 0 || want > maxProductShift {
			return fmt.Errorf("%w: a product shifted by %d to %d fraction bits, expected %d, 0 .. %d", ErrRange, l.ResShift, out, want, maxProductShift)
		}
		return nil
	case graph.Conv:
		if len(l.Weights) != len(node.Weights) || len(l.Bias) != len(node.Bias) {
			return fmt.Errorf("%w: %d weights and %d biases, expected %d and %d", ErrRange,
				len(l.Weights), len(l.Bias), len(node.Weights), len(node.Bias))
		}
	}
	if (node.Function != nil) != (l.Curve != nil) {
		return fmt.Errorf("%w: a function without a curve, or a curve without a function", ErrRange)
	}
	if err := n.checkShifts(i); err != nil {
		return err
	}
	return n.Proof(i).refusal()
}

// checkShifts verifies that the shifts match the fraction bits of the accumulator, the output and the residual.
func (n *Network) checkShifts(i int) error {
	node, l := &n.Graph.Nodes[i], &n.Layers[i]
	acc, out := l.WFrac+n.Frac[node.Inputs[0]], n.Frac[node.Output]
	if l.Curve != nil {
		out = l.Mid
	}
	if l.Shift != acc-out || l.Shift < 0 || l.Shift > MaxShift {
		return fmt.Errorf("%w: a shift of %d from %d to %d fraction bits, expected 0 .. %d", ErrRange, l.Shift, acc, out, MaxShift)
	}
	residual := node.Residual
	if node.Op == graph.Add {
		residual = node.Inputs[1]
	}
	if residual != graph.None {
		if f := n.Frac[residual]; l.ResShift != acc-f || l.ResShift < 0 || l.ResShift > MaxResShift {
			return fmt.Errorf("%w: a residual shift of %d from %d to %d fraction bits, expected 0 .. %d",
				ErrRange, l.ResShift, f, acc, MaxResShift)
		}
	}
	return nil
}

func (l *Layer) checkAvg(w graph.Window) error {
	if l.AvgShift < 1 || l.AvgShift > MaxAvgShift {
		return fmt.Errorf("%w: an average's shift of %d, expected 1 .. %d", ErrRange, l.AvgShift, MaxAvgShift)
	}
	if l.AvgTable == nil && (l.AvgMul < 1 || l.AvgMul > MaxAvgMul) {
		return fmt.Errorf("%w: an average's factor of %d, expected 1 .. %d", ErrRange, l.AvgMul, MaxAvgMul)
	}
	if want := w.KH*w.KW + 1; l.AvgTable != nil && len(l.AvgTable) != want {
		return fmt.Errorf("%w: a table of %d averages, expected %d", ErrRange, len(l.AvgTable), want)
	}
	for taps, m := range l.AvgTable {
		if m < 0 || m > MaxAvgMul {
			return fmt.Errorf("%w: the average's factor of %d pixels is %d, expected 0 .. %d", ErrRange, taps, m, MaxAvgMul)
		}
	}
	return nil
}
