// Whole segments of a network are compared bit for bit.

package verify

import (
	"context"
	"fmt"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/experiments"
)

// Segment is the cost of one segment.
type Segment struct {
	Segment int     `json:"segment"`
	Layers  int     `json:"layers"`
	Cycles  uint64  `json:"cycles"`
	MACs    uint64  `json:"macs"`
	Util    float64 `json:"mac_util"`
	Bytes   int64   `json:"slot_bytes"`
}

// Segments runs one input through all segments of a bundle, with one start per segment, and compares all bytes of the
// input's slot after each start. On an error it returns the results of the earlier segments.
func Segments(ctx context.Context, dev *Shadow, b *bundle.Bundle, input []int16, cov *Coverage, progress func(int)) ([]Segment, error) {
	if err := dev.Load(ctx, b); err != nil {
		return nil, err
	}
	const id = device.RequestID(1)
	if err := dev.Admit(ctx, b.Network.Name, id, device.InWords(input)); err != nil {
		return nil, err
	}
	var out []Segment
	for i, x := range b.Network.Exits {
		rep, err := dev.Run(ctx, &device.Launch{
			ID: device.LaunchID(i + 1), Network: b.Network.Name, First: i, Last: i, Requests: []device.RequestID{id}, Theta: []float32{experiments.Never},
		})
		if err != nil {
			return out, fmt.Errorf("%s, segment %d: %w", b.Network.Name, i, err)
		}
		out = append(out, Segment{
			Segment: i, Layers: x.Last - x.First + 1, Cycles: rep.Stats.Cycles, MACs: rep.Stats.MACs, Bytes: b.Slot.Stride,
			Util: float64(rep.Stats.MACs) / float64(max(rep.Stats.Cycles, 1)) / float64(b.Design.MACs()),
		})
		for l := x.First; l <= x.Last; l++ {
			cov.layer(b.Design, &b.Layers[l], b.FBCB[l][0], 1)
		}
		progress(i + 1)
	}
	return out, nil
}
