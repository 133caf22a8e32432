// Package bundle is the one file that dse hands to host. It holds the design point, the FBCB, quantised and packed
// weights, layer descriptors, the latency table per exit and batch size, and a hash. A host rejects a bundle whose
// design or ABI hash differs from the hardware's.
package bundle

import (
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

// NetworkName and Kind make a bundle what a runtime loads on a device (device.Artefact).
func (b *Bundle) NetworkName() string { return b.Network.Name }

// Kind is that of every bundle.
func (*Bundle) Kind() string { return "bundle" }

// Network describes the compiled network.
type Network struct {
	Name          string
	InH, InW, InC int
	InFrac        int // input element = round(x * 2^InFrac)
	InOffset      int // input, bytes from the slot's start
	InPix         int // elements between pixels
	Exits         []Exit
}

// Exit is the end of a segment.
type Exit struct {
	Name        string
	First, Last int   // layers of this segment, including its head
	Offset      int   // logits, bytes from the slot's start
	Classes     int   // logits; ClassesOf says how many classes they tell apart
	Frac        int   // logit = element * 2^-Frac
	MACs        int64 // of the segment, one sample
	// Confidence is how sure the exit is, one of graph.Confidences; "": softmax, of one logit sigmoid.
	Confidence string `json:",omitempty"`
}

// ClassesOf returns how many classes a number of logits distinguishes: one logit is a yes-or-no question.
func ClassesOf(logits int) int { return max(logits, 2) }

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
