// Package bundle implements the bundle, the only file that host needs from dse. A bundle contains the design point, the
// FBCB, quantised and packed weights, layer descriptors, latencies per exit and batch size, and a hash. A host rejects
// a bundle if its design hash or ABI hash differs from the hash of the hardware.
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
	Slot    Slot              // layout of one sample in DRAM
	Latency []LatencyEntry    // one entry for every (first, last, batch)
	Names   []string          // layer names, for reports
	Meta    map[string]string // provenance: source file hash, seed, float accuracy ...
}

// NetworkName returns the name of the network. With NetworkName and Kind, a bundle is a device.Artefact.
func (b *Bundle) NetworkName() string { return b.Network.Name }

// Kind returns "bundle".
func (*Bundle) Kind() string { return "bundle" }

// Network describes the compiled network.
type Network struct {
	Name          string
	InH, InW, InC int
	InFrac        int // an input element is round(x * 2^InFrac)
	InOffset      int // offset of the input in the slot, in bytes
	InPix         int // distance between pixels in elements
	Exits         []Exit
	Codes
}

// Codes is the mapping from values to elements in an int8 bundle: element = round(x / Step) + Zero, ties to even. In an
// int16 bundle Codes has the zero value: the tensor's number of fraction bits defines the mapping.
type Codes struct {
	Step float64 `json:",omitempty"`
	Zero int     `json:",omitempty"`
}

// scale returns the mapping for int8 and int16: x = step * (element - zero).
func (c Codes) scale(frac int) (step float64, zero int) {
	if c.Step == 0 {
		return math.Ldexp(1, -frac), 0
	}
	return c.Step, c.Zero
}

// Input converts an image to elements of the network's input. Values beyond the range are saturated.
func (n *Network) Input(x []float32) []int16 {
	out := make([]int16, len(x))
	n.Elements(out, x)
	return out
}

// Elements converts the values x to elements of the input. `cut` reports whether any value was saturated or NaN.
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
			out[i] = int16(int32(x + math.Copysign(0.5, x))) // equal to math.Round, because the sum with 0.5 is exact
		}
	}
	return cut
}

// Holds returns an error for elements that the type of the network cannot represent.
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

// Type returns the type of the elements: int16 or int8. The design has the same type.
func (n *Network) Type() string {
	if n.Step != 0 {
		return configs.TypeInt8
	}
	return configs.TypeInt16
}

// Scale returns the formula for the value of an input element.
func (n *Network) Scale() string {
	if n.Step != 0 {
		return fmt.Sprintf("%g * (element - %d)", n.Step, n.Zero)
	}
	return fmt.Sprintf("2^-%d", n.InFrac)
}

// Logits returns the logits of an exit. For int16 they are exact: a float32 represents any int16 times a power of two.
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
	First, Last int   // first and last layer of the segment, including its head
	Offset      int   // offset of the logits in the slot, in bytes
	Classes     int   // number of logits; ClassesOf returns the number of classes
	Frac        int   // a logit is element * 2^-Frac
	MACs        int64 // number of MACs of the segment for one sample
	// Confidence is one of graph.Confidences. "" means softmax, or sigmoid for a single logit.
	Confidence string `json:",omitempty"`
	Codes
}

// ClassesOf returns the number of classes for a number of logits. A single logit distinguishes two classes.
func ClassesOf(logits int) int { return max(logits, 2) }

// ElementAt returns element i of a map in a slot. The map begins at byte offset `at`.
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

// LogitsAt returns the elements of an exit from a slot.
func (b *Bundle) LogitsAt(slot []byte, exit int) []int16 {
	out := make([]int16, b.Network.Exits[exit].Classes)
	for i := range out {
		out[i] = b.ElementAt(slot, b.Network.Exits[exit].Offset, i)
	}
	return out
}

// Slot is the layout of one sample in DRAM.
type Slot struct {
	Stride  int64 // distance between slots in bytes, a multiple of 64
	Tensors []Tensor
}

// Tensor describes the place of one activation in the slot.
type Tensor struct {
	Name    string
	H, W, C int
	Pix     int // distance between pixels in elements
	Offset  int // offset in the slot, in bytes
	Frac    int
	Codes
}

// LatencyEntry is one cell of the latency table. All devices use this format.
type LatencyEntry struct {
	Network string `json:"network"`
	Device  string `json:"device"`
	First   int    `json:"first"` // first and last segment
	Last    int    `json:"last"`
	Batch   int    `json:"batch"`
	P50     int64  `json:"p50_ns"`
	P99     int64  `json:"p99_ns"`
}
