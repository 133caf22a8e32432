// Package graph holds a network as Sluice maps it: a list of fused layers over NHWC tensors of one
// sample, and the exits. dse/onnx produces it, dse/quant, dse/mapping and dse/compile read it.
//
// Invariants after Check: nodes stand in topological order; every tensor has one producer (a node
// or the network's input); every shape is positive; exits are in order of depth and the nodes up to
// exit i (its head included) form segments 0..i.
package graph

import "fmt"

// TensorID indexes Graph.Tensors.
type TensorID int

// None marks an absent tensor.
const None TensorID = -1

// Tensor is one feature map of one sample, H x W x C, channels innermost.
type Tensor struct {
	Name    string
	H, W, C int
}

// Elems is the number of elements of one sample.
func (t Tensor) Elems() int { return t.H * t.W * t.C }

// Op is what a node computes.
type Op int

// Operators that remain after import. BatchNormalization, Pad, activation functions, Flatten and
// the like are folded into these.
const (
	Conv    Op = iota // convolution; fully connected is a convolution over the whole map
	MaxPool           // padding counts as minus infinity
	AvgPool           // also the global one
	Concat            // by channel
	Add               // an addition that could not be fused into a convolution
)

// Window is the geometry of a convolution or pool. What lies below and to the right of the input
// follows from the output's size; PB and PR say how much of it an average with CountIncludePad
// counts, as a window of a pool rounded up (ceil_mode) may hang over them. Below zero, they are pixels that no window
// reaches.
type Window struct {
	KH, KW, SH, SW, PT, PL, PB, PR int
}

// Node is one fused layer.
type Node struct {
	Name   string
	Op     Op
	Inputs []TensorID // Conv and pools: one; Add: two; Concat: two or more
	Output TensorID
	Window Window

	// Convolution. Groups divides input and output channels (depthwise: Groups = C of the input).
	Groups   int
	Weights  []float32 // [C out][KH][KW][C in / Groups]
	Bias     []float32 // [C out], never nil for Conv
	Residual TensorID  // added before the clamp, or None

	// Activation, after the residual: y = min(max(y, ClampLo), ClampHi); infinities where absent.
	ClampLo, ClampHi float32

	// Average pool.
	CountIncludePad bool
}

// Exit is an output of the network: a classifier's logits, 1 x 1 x classes, or a map.
type Exit struct {
	Name   string
	Tensor TensorID
	// Dims are the output's sizes in the file, its batch left out, and Walk the order of its elements there: axes,
	// outermost first, that step through the tensor. Both are nil where elements stand there as they do here.
	Dims []int
	Walk []Stride
	// Activation is what the file makes of the logits: "Softmax", "Sigmoid" or nothing. It is left to the host.
	Activation string
	// Confidence is how sure the exit is of its answer, by name, as the file of exits says; "" where it does not.
	Confidence string
}

// Stride is an axis that steps through a tensor's elements, H x W x C.
type Stride struct{ Size, Step int }

// FromFile brings an output's elements from their order in the file into the tensor's.
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
	// ChannelsLast says that the file's input is N x H x W x C; what runs the file is fed so.
	ChannelsLast bool
	// Bytes says that the file's input are bytes, whose numbers are the network's input here.
	Bytes   bool
	Tensors []Tensor
	Nodes   []Node
	Exits   []Exit // in order of depth; the last is the network's end
	// Segment[n] is the segment of node n: 0 up to and including exit 0's head, and so on. Nodes
	// are ordered by segment, and inside one the backbone stands before the head.
	Segment []int
}
