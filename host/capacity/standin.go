package capacity

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/dse/compile"
	"github.com/sluice-npu/sluice/dse/graph"
	"github.com/sluice-npu/sluice/dse/quant"
	"github.com/sluice-npu/sluice/hw/configs"
)

// exitTheta is a threshold between the two possible confidences of exiter.
const exitTheta = 0.8

// exiter computes the stand-in network. The input contains the exit at which the confidence becomes high.
type exiter struct{}

func (exiter) NewSlot() []byte { return make([]byte, 2) }

func (exiter) SetInput(slot []byte, image []int16) error {
	binary.LittleEndian.PutUint16(slot, uint16(image[0]))
	return nil
}

func (exiter) Segment(int, int, []byte) error { return nil }

func (exiter) Logits(slot []byte, exit int) ([]int16, error) {
	if exit >= int(binary.LittleEndian.Uint16(slot)) {
		return []int16{math.MaxInt16, 0}, nil
	}
	return []int16{0, 0}, nil
}

// standIn returns the smallest network with the given number of segments, compiled for the smallest design.
func standIn(name string, segments int) (*bundle.Bundle, error) {
	g := &graph.Graph{Name: name, Tensors: []graph.Tensor{{Name: "input", H: 1, W: 1, C: 1}}}
	conv := func(name string, in graph.TensorID, channels, segment int) graph.TensorID {
		out := graph.TensorID(len(g.Tensors))
		g.Tensors = append(g.Tensors, graph.Tensor{Name: name, H: 1, W: 1, C: channels})
		n := graph.Node{
			Name: name, Op: graph.Conv, Inputs: []graph.TensorID{in}, Output: out, Groups: 1, Residual: graph.None,
			Window:  graph.Window{KH: 1, KW: 1, SH: 1, SW: 1},
			Weights: make([]float32, channels), Bias: make([]float32, channels),
			ClampLo: float32(math.Inf(-1)), ClampHi: float32(math.Inf(1)),
		}
		for i := range n.Weights {
			n.Weights[i] = 1
		}
		g.Nodes = append(g.Nodes, n)
		g.Segment = append(g.Segment, segment)
		return out
	}
	t := graph.TensorID(0)
	for s := range segments {
		t = conv(fmt.Sprintf("body%d", s), t, 1, s)
		logits := conv(fmt.Sprintf("head%d", s), t, 2, s)
		g.Exits = append(g.Exits, graph.Exit{Name: fmt.Sprintf("exit%d", s), Tensor: logits})
	}
	q, err := quant.Quantise(g, [][]float32{{1}}, quant.Options{})
	if err != nil {
		return nil, fmt.Errorf("stand-in network: %w", err)
	}
	d, err := configs.Load("tiny")
	if err != nil {
		return nil, err
	}
	b, err := compile.Compile(q, d, compile.Options{})
	if err != nil {
		return nil, fmt.Errorf("stand-in network: %w", err)
	}
	for i := range b.Network.Exits {
		b.Network.Exits[i].Frac = 10 // the logits become 32 (confident) and 0 (not confident)
	}
	return b, nil
}
