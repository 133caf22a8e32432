// Package quant turns a float graph into 16-bit fixed point with power-of-two scales, and proves
// that no accumulator overflows.
//
// A tensor with fraction F contains round(x * 2^F) as int16. A layer computes (dse/README, "Numbers")
//
//	y = clamp(sat16(rnd(acc + bias + (res << rs), sh)))
//
// The term acc is the exact sum of w*x at fraction WFrac + Frac[input].
//
// Each fraction starts at the largest value at which the calibrated range fits, with headroom. The input's fraction
// follows from its known range. After that, fractions are only reduced. The weights of a layer lose fraction bits until
// three conditions are met: each channel's sum fits the accumulator for any input (see Margin), the shifts fit their
// fields, and the bias fits 32 bits. An output or residual that is finer than the accumulator would need a negative
// shift, so it gets a coarser fraction. If that is not enough, the error names the layer and the channel.
package quant

import (
	"fmt"
	"math/bits"
	"strings"

	"github.com/sluice-npu/sluice/dse/graph"
	"github.com/sluice-npu/sluice/hw/abi"
)

// Layer contains the integers of one node of the graph. Fields that its operator does not use are zero.
type Layer struct {
	Weights          []int16 // in the order of graph.Node.Weights: [C out][KH][KW][C in / Groups]
	WFrac            int     // number of fraction bits of the weights
	Bias             []int32 // biases, at the accumulator's fraction, WFrac + Frac[input]
	Shift            int     // sh >= 0, from the accumulator to the output
	ResShift         int     // rs >= 0, from the residual to the accumulator
	ClampLo, ClampHi int16   // bounds on the output's scale; -32768 and 32767 without a clamp

	// Curve is the node's function; nil if the node has no function. Its input has fraction Mid (the fraction after
	// Shift). Its result has the output's fraction. Weights and biases are multiplied by Stretch, which the curve
	// compensates. CurveError is the curve's largest error on the calibrated range with headroom.
	Curve      *abi.Curve
	Mid        int
	Stretch    float64
	CurveError float64
	Norm       *Norm // validity range, if the function is a norm; otherwise nil

	// An average pool multiplies by AvgMul, which is M = round(2^S / n), scaled to the output's fraction. If the
	// divisor n differs at the borders, AvgMul is zero, and AvgTable[t] is M for a window that covers t pixels without
	// padding (0 <= t <= KH * KW; zero if t does not occur). Otherwise AvgTable is nil.
	AvgMul, AvgShift int
	AvgTable         []int32
}

// An Add that was not fused with a convolution becomes a 1x1 convolution. Its first input is multiplied by the identity
// matrix with weights of 1 << WFrac (WFrac in 0..14, no Weights, no Bias). Its second input is the residual:
// y = clamp(sat16(rnd((x0 << WFrac) + (x1 << ResShift), Shift))).
//
// A Mul is such a convolution too, with a weight of one and no shift. Its second input is the factor:
// y = clamp(sat16(rnd(x0 * x1, ResShift))).
//
// A Concat and a max pool do no arithmetic. Their inputs and their output have the same fraction. All fields above
// except the clamps are zero.

// Coarse describes output channels with few bits in their weights, because all channels of a layer share one scale.
type Coarse struct {
	Channels int    `json:"channels"` // number of channels with fewer than Least bits
	Of       int    `json:"of"`
	Least    int    `json:"least_bits"`
	Layer    string `json:"layer"` // layer of the worst channel
	Channel  int    `json:"channel"`
	Bits     int    `json:"bits"`
}

// Coarse counts such channels. It ignores channels with only zero weights, and layers with negligible rounding.
func (n *Network) Coarse() Coarse {
	c := Coarse{Least: Options{}.defaults().MinWeightBits}
	c.Bits = c.Least
	for i := range n.Layers {
		q, node := n.Layers[i].Weights, &n.Graph.Nodes[i]
		channels := n.Graph.Tensors[node.Output].C
		if len(q) == 0 || strings.HasSuffix(node.Name, restOf) ||
			roundingNegligible(node, key{in: n.Frac[node.Inputs[0]], out: n.sum(i)}, n.Layers[i].WFrac) {
			continue
		}
		each := len(q) / channels
		for ch := range channels {
			float, most := false, 0
			for k := ch * each; k < (ch+1)*each; k++ {
				float, most = float || node.Weights[k] != 0, max(most, int(q[k]), -int(q[k]))
			}
			if !float {
				continue
			}
			c.Of++
			kept := bits.Len(uint(most))
			if kept < c.Least {
				c.Channels++
			}
			if kept < c.Bits {
				c.Layer, c.Channel, c.Bits = node.Name, ch, kept
			}
		}
	}
	return c
}

func (c Coarse) String() string {
	return fmt.Sprintf("%d of %d output channels keep fewer than %d bits of their largest weight, as all of a layer share one scale; the worst is channel %d of %q with %d bits",
		c.Channels, c.Of, c.Least, c.Channel, c.Layer, c.Bits)
}

// sum returns the fraction to which a layer's sums are shifted.
func (n *Network) sum(layer int) int {
	if n.Layers[layer].Curve != nil {
		return n.Layers[layer].Mid
	}
	return n.Frac[n.Graph.Nodes[layer].Output]
}

// Network is a quantised graph.
type Network struct {
	Graph  *graph.Graph
	Of     *graph.Graph // the graph that Graph approximates; nil: Graph is exact
	Frac   []int        // fraction bits, by tensor; the inputs and the output of a Concat have the same number
	Layers []Layer      // by node

	chosen []int // calibration images that decided between two forms of the network
}
