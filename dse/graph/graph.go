// Package graph represents a network as Sluice maps it: a list of fused layers over NHWC tensors of one sample, and the
// exits. dse/onnx produces a graph. dse/quant, dse/mapping and dse/compile read it.
//
// Invariants after Check: nodes are in topological order. Each tensor has one producer (a node or the network's input).
// All sizes in shapes are positive. Exits are in order of depth. The nodes up to exit i, including its head, are the
// segments 0..i.
package graph

import (
	"fmt"
	"math"
)

// TensorID is an index in Graph.Tensors.
type TensorID int

// None marks an absent tensor.
const None TensorID = -1

// Tensor is a feature map of one sample, H x W x C, channels innermost.
type Tensor struct {
	Name    string
	H, W, C int
}

// Scale is the int8 encoding of a map in a quantised file: a code represents Step * (code - Zero). For uint8 maps, 128
// is subtracted from codes and Zero.
type Scale struct {
	Step float64
	Zero int
}

// Nearest returns the code nearest to a value, without bounds, ties to even. The quotient is a float32, as in ONNX's
// QuantizeLinear. For example, pixels of (p / 255 - 0.5) / 0.5 in steps of 2 / 255 are all halfway between two codes.
// Only with a float32 are they rounded as in the file's own runtime.
func (s Scale) Nearest(x float64) float64 {
	return math.RoundToEven(float64(float32(x/s.Step))) + float64(s.Zero)
}

// Bounds returns the values of the lowest and the highest code.
func (s Scale) Bounds() (lo, hi float64) {
	return s.Step * float64(math.MinInt8-s.Zero), s.Step * float64(math.MaxInt8-s.Zero)
}

// Elems returns the number of elements of one sample.
func (t Tensor) Elems() int { return t.H * t.W * t.C }

// OnePixelOf reports whether t is a single pixel and the other tensor is larger. Then t is a factor for all pixels of
// the other tensor.
func (t Tensor) OnePixelOf(of Tensor) bool { return t.H*t.W == 1 && of.H*of.W > 1 }

// Op is the operator that a node computes.
type Op int

// Operators that remain after import. BatchNormalization, Pad, activation functions, Flatten and others become part of
// them.
const (
	Conv    Op = iota // convolution; fully connected is a convolution over the whole map
	MaxPool           // padding counts as minus infinity
	AvgPool           // average pool, also over the whole map
	Concat            // concatenation by channels
	Add               // an addition that could not be fused into a convolution
	Mul               // a product of two maps; the second map may be 1 x 1 x C
	Reshape           // a map of other sizes with the same elements, in the same order in memory
)

// Passes reports whether the operator only copies values, so that its inputs and its output have the same encoding.
func (o Op) Passes() bool { return o == MaxPool || o == Concat || o == Reshape }

// Window is the geometry of a convolution or pool. The padding at the bottom and right follows from the output's size.
// PB and PR are the part of this padding that an average with CountIncludePad includes. A window of a pool with
// ceil_mode may extend beyond PB and PR. A negative PB or PR is the number of pixels that no window reaches.
type Window struct {
	KH, KW, SH, SW, PT, PL, PB, PR int
}

// Node is one fused layer.
type Node struct {
	Name   string
	Op     Op
	Inputs []TensorID // one for Conv, pools and Reshape; two for Add and Mul; at least two for Concat
	Output TensorID
	Window Window

	// The next fields are for convolutions. Groups divides input and output channels (depthwise: Groups = C of the input).
	Groups   int
	Weights  []float32 // [C out][KH][KW][C in / Groups]
	Bias     []float32 // [C out], never nil for Conv
	Steps    []float64 // [C out]: step of the weights' codes in a quantised file; 0: the channel has several steps; nil: the weights have no codes
	Residual TensorID  // tensor that is added before the clamp, or None

	// Function is applied after the residual and before the clamp of a Conv or an Add; nil: no function.
	Function *Function

	// The clamp min(max(y, ClampLo), ClampHi) follows the residual and the function. A missing bound is infinite.
	ClampLo, ClampHi float32

	// CountIncludePad reports whether an average pool counts padding as pixels.
	CountIncludePad bool

	// Unseen widens the calibrated ranges for later images; nil: the ranges have only the usual headroom.
	Unseen *Unseen
}

// Unseen describes how to widen a node's calibrated ranges.
type Unseen struct {
	Front [2]float64 // range of additional inputs of the node's function, distributed evenly over octaves; none if both are zero
	By    float64    // factor for the output's largest magnitude
	Most  float64    // minimum of the output's largest magnitude
}

// Exit is an output of the network: the logits of a classifier, 1 x 1 x classes, or a map.
type Exit struct {
	Name   string
	Tensor TensorID
	// Dims are the output's sizes in the file, without the batch. Walk is the order of the output's elements in the
	// file: axes that step through the tensor, outermost first. Both are nil if the order is the same as in the tensor.
	Dims []int
	Walk []Stride
	// Activation is the operation on the logits in the file: "Softmax", "LogSoftmax", "Sigmoid", "HardSigmoid"
	// (clip(x / 4 + 1/2, 0, 1), with the slope of a Sigmoid at 0) or "". The host computes this operation.
	Activation string
	// Confidence names the measure of the exit's confidence in the file of exits; "" if the file does not name one.
	Confidence string
}

// Stride is an axis that steps through a tensor's elements, H x W x C.
type Stride struct{ Size, Step int }

// FromFile reorders an output's elements from the order in the file to the order in the tensor.
func (e *Exit) FromFile(file []float32) ([]float32, error) {
	if e.Walk == nil {
		return file, nil
	}
	n := 1
	for _, s := range e.Walk {
		n *= s.Size
	}
	if len(file) != n {
		return nil, fmt.Errorf("%w: exit %q has %d elements in the file, expected %d", ErrExits, e.Name, len(file), n)
	}
	out := make([]float32, n)
	for i, v := range file {
		at := 0
		for k := len(e.Walk) - 1; k >= 0; k-- {
			at, i = at+i%e.Walk[k].Size*e.Walk[k].Step, i/e.Walk[k].Size
		}
		out[at] = v
	}
	return out, nil
}

// Graph is a network with exits.
type Graph struct {
	Name  string
	Input TensorID
	// ChannelsLast reports that the file's input is N x H x W x C; a program that runs the file needs that order.
	ChannelsLast bool
	// Bytes reports that the file's input consists of bytes. The values of these bytes are the network's input.
	Bytes   bool
	Tensors []Tensor
	// Scales are the encodings of maps in a quantised file.
	Scales map[TensorID]Scale
	Nodes  []Node
	Exits  []Exit // in order of depth; the last exit is the end of the network
	// Segment[n] is the segment of node n: 0 up to and including the head of exit 0, and so on. Nodes are sorted by
	// segment. In a segment, the backbone comes before the head.
	Segment []int
}
