package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/dse/compile"
	"github.com/sluice-npu/sluice/dse/graph"
	"github.com/sluice-npu/sluice/dse/quant"
	"github.com/sluice-npu/sluice/dse/search"
	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/engine"
	"github.com/sluice-npu/sluice/host/load"
	"github.com/sluice-npu/sluice/host/sched"
	"github.com/sluice-npu/sluice/host/soft"
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
)

// goodputFlags say what is served where goodput is the objective.
type goodputFlags struct {
	Rate     float64   `default:"15" help:"Goodput: Poisson arrivals a second."`
	SLO      float64   `name:"slo" default:"400" help:"Goodput: milliseconds from arrival to deadline."`
	Policy   string    `default:"fluid" help:"Goodput: policy of the scheduler."`
	N        int       `default:"500" help:"Goodput: requests a design is judged on."`
	ExitRate []float64 `placeholder:"P" help:"Goodput: share of requests that leaves at each exit (default: the paper's 0.051,0.169,0.09,0.69 for four exits, else all at the last)."`
}

// paperExits are the published exit rates of ResNet-50.
var paperExits = []float64{0.051, 0.169, 0.09, 0.69}

// errGoodput says which flag of an arrival process is impossible.
var errGoodput = errors.New("bad arrival process")

// images is how many distinct requests are drawn from the exit rates.
const images = 997

// goodput makes the function that a sweep asks: requests in time a second, by the engine and the soft
// device in virtual time. The device serves a network of the same segments whose exits are drawn from
// the exit rates and whose latency table is the design's; it computes nothing else.
func (f *goodputFlags) goodput(w *search.Workload) (func(context.Context, configs.Design, search.Cycles) (float64, error), error) {
	rates := f.ExitRate
	if len(rates) == 0 {
		rates = make([]float64, w.Segments)
		rates[w.Segments-1] = 1
		if w.Segments == len(paperExits) {
			rates = paperExits
		}
	}
	sum := 0.0
	for _, r := range rates {
		if math.IsNaN(r) || r < 0 || r > 1 {
			return nil, fmt.Errorf("%w: --exit-rate has %v, must be 0..1", errGoodput, r)
		}
		sum += r
	}
	switch {
	case len(rates) != w.Segments:
		return nil, fmt.Errorf("%w: --exit-rate has %d numbers, the network %d exits", errGoodput, len(rates), w.Segments)
	case math.Abs(sum-1) > 1e-6:
		return nil, fmt.Errorf("%w: the --exit-rate add up to %v, not 1", errGoodput, sum)
	case !(f.Rate > 0) || math.IsInf(f.Rate, 0):
		return nil, fmt.Errorf("%w: --rate is %v", errGoodput, f.Rate)
	case !(f.SLO > 0) || f.SLO > 1e9:
		return nil, fmt.Errorf("%w: --slo is %v ms", errGoodput, f.SLO)
	case f.N < 1 || f.N > 1e6:
		return nil, fmt.Errorf("%w: --n is %d", errGoodput, f.N)
	}
	if _, err := sched.New(f.Policy, sched.Options{}); err != nil {
		return nil, err
	}
	stand, err := standIn(w.Segments)
	if err != nil {
		return nil, err
	}
	const seed = 1
	rng := rand.New(rand.NewPCG(seed, 3))
	exits := make([]int16, images)
	for i := range exits {
		x := rng.Float64()
		for e := 0; e < len(rates)-1 && x >= rates[e]; e++ {
			x -= rates[e]
			exits[i]++
		}
	}
	times, err := load.Poisson(f.Rate, f.N, seed)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, d configs.Design, ns search.Cycles) (float64, error) {
		return f.serve(ctx, stand, exits, times, ns)
	}, nil
}

func (f *goodputFlags) serve(ctx context.Context, stand *bundle.Bundle, exits []int16, times []int64, ns search.Cycles) (float64, error) {
	b := *stand
	b.Latency = nil
	name := b.Network.Name
	for batch := 1; batch <= abi.BMax; batch++ {
		for first := range b.Network.Exits {
			t := int64(0)
			for last := first; last < len(b.Network.Exits); last++ {
				t += ns[batch-1][last]
				b.Latency = append(b.Latency, bundle.LatencyEntry{Network: name, Device: "soft", First: first, Last: last, Batch: batch, P50: t, P99: t})
			}
		}
	}
	dev := soft.New(b.Design, soft.Options{Executor: func(*bundle.Bundle) (soft.Executor, error) { return exiter{}, nil }})
	defer dev.Close()
	if err := dev.Load(ctx, &b); err != nil {
		return 0, err
	}
	table, err := sched.NewTable(b.Latency, name)
	if err != nil {
		return 0, err
	}
	policy, err := sched.New(f.Policy, sched.Options{})
	if err != nil {
		return 0, err
	}
	slo := int64(f.SLO * 1e6)
	input := make([]int16, 1)
	res, err := engine.Run(ctx, engine.Config{
		Devices:  []device.Device{device.Adapt(dev)},
		Networks: []engine.Network{{Name: name, Tables: []*sched.Table{table}}},
		Policy:   policy,
		Source: &load.Open{Times: times, Task: func(_ int, at int64) sched.Task {
			return sched.Task{Network: name, Created: at, Deadline: at + slo, Theta: exitTheta, Samples: 1}
		}},
		Inputs: engine.WordInputs(func(r *sched.Request) ([]int16, error) {
			input[0] = exits[int(r.ID-1)%len(exits)]
			return input, nil
		}),
		SLO: slo, Keep: engine.Counts,
	})
	if errors.Is(err, engine.ErrSLO) {
		return 0, nil // one request alone is late already
	}
	if err != nil {
		return 0, err
	}
	return res.Summary().Goodput, nil
}

// exitTheta parts the two confidences that exiter shows.
const exitTheta = 0.8

// exiter is the numerics of the stand-in: its input says at which exit it becomes sure.
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

// standIn is the smallest network of so many segments, on the smallest design.
func standIn(segments int) (*bundle.Bundle, error) {
	g := &graph.Graph{Name: "stand-in", Tensors: []graph.Tensor{{Name: "input", H: 1, W: 1, C: 1}}}
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
		b.Network.Exits[i].Frac = 10 // logits of 32 and 0: sure, or undecided
	}
	return b, nil
}
