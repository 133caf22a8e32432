// Package bundle is the one file that dse hands to host. It holds the design point, the FBCB, quantised and packed
// weights, layer descriptors, the latency table per exit and batch size, and a hash. A host rejects a bundle whose
// design or ABI hash differs from the hardware's.
package bundle

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/sluice-npu/sluice/dse/graph"
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
)

// Bundle is a compiled network for one design point.
type Bundle struct {
	Design  configs.Design
	ABIHash uint64
	Network Network

	Layers  []abi.Desc        // descriptors in order of execution
	FBCB    [][]abi.FBCB      // [layer][B_act-1]
	Weights []byte            // packed weights and biases, addressed from WEIGHT_BASE
	Slot    Slot              // layout of one sample
	Latency []LatencyEntry    // one entry for every (first, last, batch)
	Names   []string          // layer names, for reports
	Meta    map[string]string // provenance: source file hash, seed, float accuracy ...
}

// NetworkName and Kind make a bundle loadable on a device at run time (device.Artefact).
func (b *Bundle) NetworkName() string { return b.Network.Name }

// Kind returns the kind of every bundle.
func (*Bundle) Kind() string { return "bundle" }

// Network describes the compiled network.
type Network struct {
	Name          string
	InH, InW, InC int
	InFrac        int // input element = round(x * 2^InFrac)
	InOffset      int // input, bytes from the slot's start
	InPix         int // elements between pixels
	Exits         []Exit
	Codes
}

// Codes is the mapping from values to elements in an int8 bundle: element = round(x / Step) + Zero, ties to even. In an
// int16 bundle it is zero, and the map's fraction defines the mapping.
type Codes struct {
	Step float64 `json:",omitempty"`
	Zero int     `json:",omitempty"`
}

// scale returns the mapping for both types: x = step * (element - zero).
func (c Codes) scale(frac int) (step float64, zero int) {
	if c.Step == 0 {
		return math.Ldexp(1, -frac), 0
	}
	return c.Step, c.Zero
}

// Input converts an image to the network's elements, saturated.
func (n *Network) Input(x []float32) []int16 {
	out := make([]int16, len(x))
	n.Elements(out, x)
	return out
}

// Elements writes values as elements of the input. cut reports whether a value was saturated or not a number.
func (n *Network) Elements(out []int16, x []float32) (cut bool) {
	out = out[:len(x)]
	if n.Step != 0 {
		scale := graph.Scale{Step: n.Step, Zero: n.Zero}
		for i, v := range x {
			q := scale.Nearest(float64(v))
			within := max(math.MinInt8, min(math.MaxInt8, q))
			out[i], cut = int16(within), cut || q != within
		}
		return cut
	}
	scale := math.Float64frombits(uint64(1023+n.InFrac) << 52) // 2^InFrac, for small InFrac
	for i, v := range x {
		switch x := float64(v) * scale; {
		case !(x < math.MaxInt16+0.5):
			out[i], cut = math.MaxInt16, true
		case x <= math.MinInt16-0.5:
			out[i], cut = math.MinInt16, true
		default:
			out[i] = int16(int32(x + math.Copysign(0.5, x))) // like math.Round: a float32 has bits left for the half
		}
	}
	return cut
}

// Holds returns an error for elements that the network's type cannot represent.
func (n *Network) Holds(elements []int16) error {
	if n.Step == 0 {
		return nil // every element is valid in int16
	}
	for i, v := range elements {
		if int16(int8(v)) != v {
			return fmt.Errorf("element %d is %d, a network in int8 has -128..127", i, v)
		}
	}
	return nil
}

// Type returns the type of the elements, int16 or int8, which is also the design's.
func (n *Network) Type() string {
	if n.Step != 0 {
		return configs.TypeInt8
	}
	return configs.TypeInt16
}

// Scale describes the value of an input element.
func (n *Network) Scale() string {
	if n.Step != 0 {
		return fmt.Sprintf("%g * (element - %d)", n.Step, n.Zero)
	}
	return fmt.Sprintf("2^-%d", n.InFrac)
}

// Logits returns an exit's logits as numbers; in int16 exactly, since a float32 holds any int16 times a power of two.
func (e *Exit) Logits(raw []int16) []float32 { return e.Codes.values(raw, e.Frac) }

func (c Codes) values(elements []int16, frac int) []float32 {
	step, zero := c.scale(frac)
	out := make([]float32, len(elements))
	for i, v := range elements {
		out[i] = float32(step * float64(int(v)-zero))
	}
	return out
}

// Exit is the end of a segment.
type Exit struct {
	Name        string
	First, Last int   // layers of this segment, including its head
	Offset      int   // logits, bytes from the slot's start
	Classes     int   // logits; ClassesOf returns the number of classes
	Frac        int   // logit = element * 2^-Frac
	MACs        int64 // of the segment, one sample
	// Confidence is the confidence measure of the exit, one of graph.Confidences; "": softmax, for one logit sigmoid.
	Confidence string `json:",omitempty"`
	Codes
}

// ClassesOf returns the number of classes for a number of logits: one logit is a yes-or-no question.
func ClassesOf(logits int) int { return max(logits, 2) }

// ElementAt reads element i of a map that begins at byte at of a slot.
func (b *Bundle) ElementAt(slot []byte, at, i int) int16 {
	if b.Design.Int8() {
		return int16(int8(slot[at+i]))
	}
	return int16(binary.LittleEndian.Uint16(slot[at+2*i:]))
}

// SetInput writes the elements of an input into a slot.
func (b *Bundle) SetInput(slot []byte, in []int16) error {
	n := &b.Network
	if err := n.Holds(in); err != nil {
		return err
	}
	for i, v := range in {
		i = i/n.InC*n.InPix + i%n.InC
		if b.Design.Int8() {
			slot[n.InOffset+i] = byte(v)
		} else {
			binary.LittleEndian.PutUint16(slot[n.InOffset+2*i:], uint16(v))
		}
	}
	return nil
}

// LogitsAt reads an exit's elements from a slot.
func (b *Bundle) LogitsAt(slot []byte, exit int) []int16 {
	out := make([]int16, b.Network.Exits[exit].Classes)
	for i := range out {
		out[i] = b.ElementAt(slot, b.Network.Exits[exit].Offset, i)
	}
	return out
}

// Slot is the layout of one sample in DRAM.
type Slot struct {
	Stride  int64 // bytes, a multiple of 64
	Tensors []Tensor
}

// Tensor is one activation in the slot.
type Tensor struct {
	Name    string
	H, W, C int
	Pix     int // elements between pixels
	Offset  int // bytes from the slot's start
	Frac    int
	Codes
}

// LatencyEntry is one cell of the latency table. All devices use this format.
type LatencyEntry struct {
	Network string `json:"network"`
	Device  string `json:"device"`
	First   int    `json:"first"` // segments
	Last    int    `json:"last"`
	Batch   int    `json:"batch"`
	P50     int64  `json:"p50_ns"`
	P99     int64  `json:"p99_ns"`
}
