// Package bundle is the one file that dse hands to host: the design point, the FBCB, quantised
// weights packed as the hardware reads them, layer descriptors, the latency table per exit and
// batch size, and a hash. A host refuses a bundle whose design or ABI hash is not the hardware's.
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
	Latency []LatencyEntry    // every (first, last, batch)
	Names   []string          // a name a layer, for reports
	Meta    map[string]string // where it came from: source file hash, seed, float accuracy ...
}

// Network names what is served.
type Network struct {
	Name          string
	InH, InW, InC int
	InFrac        int // input element = round(x * 2^InFrac)
	InOffset      int // bytes from the slot's start
	InPix         int // elements from pixel to pixel
	Exits         []Exit
}

// Exit is where a segment ends.
type Exit struct {
	Name        string
	First, Last int   // layers of this segment, head included
	Offset      int   // logits, bytes from the slot's start
	Classes     int   // logits; ClassesOf says how many classes they tell apart
	Frac        int   // logit = element * 2^-Frac
	MACs        int64 // of the segment, one sample
}

// ClassesOf is how many classes so many logits tell apart: one logit is a yes-or-no question.
func ClassesOf(logits int) int { return max(logits, 2) }

// Slot is where one sample lives in DRAM.
type Slot struct {
	Stride  int64 // bytes, a multiple of 64
	Tensors []Tensor
}

// Tensor is one activation's place in the slot.
type Tensor struct {
	Name    string
	H, W, C int
	Pix     int // elements from pixel to pixel
	Offset  int // bytes
	Frac    int
}

// LatencyEntry is one cell of the latency table; one format for every device.
type LatencyEntry struct {
	Network string `json:"network"`
	Device  string `json:"device"`
	First   int    `json:"first"` // segments
	Last    int    `json:"last"`
	Batch   int    `json:"batch"`
	P50     int64  `json:"p50_ns"`
	P99     int64  `json:"p99_ns"`
}
