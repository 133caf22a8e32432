package bundle

import (
	"fmt"

	"github.com/sluice-npu/sluice/hw/abi"
)

// Summary is an overview of a bundle.
type Summary struct {
	ABIHash    string `json:"abi_hash"`
	BundleHash string `json:"bundle_hash"`

	Design      string            `json:"design"`
	DesignHash  string            `json:"design_hash"`
	Type        string            `json:"type,omitempty"` // "int8", or "" for int16
	TR          int               `json:"TR"`
	TP          int               `json:"TP"`
	TC          int               `json:"TC"`
	Network     string            `json:"network"`
	Input       [3]int            `json:"input"` // height, width, channels
	Layers      int               `json:"layers"`
	LayersByOp  map[string]int    `json:"layers_by_op"`
	Tensors     int               `json:"tensors"`
	WeightBytes int               `json:"weight_bytes"`
	SlotBytes   int64             `json:"slot_bytes"`
	MACs        int64             `json:"macs"`
	Exits       []ExitSummary     `json:"exits"`
	Meta        map[string]string `json:"meta"`
}

// ExitSummary describes one exit. Its latencies include all segments from the input to this exit.
type ExitSummary struct {
	Name      string `json:"name"`
	First     int    `json:"first_layer"`
	Last      int    `json:"last_layer"`
	Classes   int    `json:"classes"`
	By        string `json:"confidence,omitempty"` // confidence measure; "": softmax, or sigmoid for one logit
	MACs      int64  `json:"macs"`
	LatencyNS []int  `json:"latency_ns"` // p50 latencies, index: batch size - 1; 0: no entry in the table
}

// Summarize returns the summary of a bundle.
func (b *Bundle) Summarize() (Summary, error) {
	h, err := b.Hash()
	if err != nil {
		return Summary{}, err
	}
	s := Summary{
		ABIHash: fmt.Sprintf("%016x", b.ABIHash), BundleHash: fmt.Sprintf("%016x", h),
		Design: b.Design.Name, DesignHash: fmt.Sprintf("%016x", b.Design.Hash()), Type: b.Design.Type,
		TR: b.Design.TR, TP: b.Design.TP, TC: b.Design.TC,
		Network: b.Network.Name, Input: [3]int{b.Network.InH, b.Network.InW, b.Network.InC},
		Layers: len(b.Layers), LayersByOp: map[string]int{}, Tensors: len(b.Slot.Tensors),
		WeightBytes: len(b.Weights), SlotBytes: b.Slot.Stride, Meta: b.Meta,
	}
	for i := range b.Layers {
		s.LayersByOp[b.Layers[i].Op.String()]++
	}
	for i, e := range b.Network.Exits {
		s.MACs += e.MACs
		x := ExitSummary{Name: e.Name, First: e.First, Last: e.Last, Classes: e.Classes, By: e.Confidence, MACs: e.MACs, LatencyNS: make([]int, abi.BMax)}
		for _, l := range b.Latency {
			if l.First == 0 && l.Last == i && l.Batch >= 1 && l.Batch <= abi.BMax {
				x.LatencyNS[l.Batch-1] = int(l.P50)
			}
		}
		s.Exits = append(s.Exits, x)
	}
	return s, nil
}
