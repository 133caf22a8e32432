// Package strait runs Strait's evaluation (section 5) on simulated GPUs. It measures the errors of Strait's predictor,
// and the missed deadlines of each priority under Strait and its baselines. The simulation runs in virtual time.
// Contention results from the occupancy, bandwidth and queues of package sim, not from a predictor.
package strait

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/gpu"
	"github.com/sluice-npu/sluice/host/gpu/catalogue"
	"github.com/sluice-npu/sluice/host/gpu/kernel"
	"github.com/sluice-npu/sluice/host/gpu/params"
	"github.com/sluice-npu/sluice/host/predict"
	"github.com/sluice-npu/sluice/host/sched"
)

// MaxBatch is the largest batch of every model (section 5.1).
const MaxBatch = 8

// style is the framework of the kernels (section 5.1: TensorRT).
const style = "tensorrt"

// Model is a row of table 1.
type Model struct {
	Name       string
	Network    string // name in the catalogue
	Priority   int
	DeadlineNs int64
	Input      int64 // bytes per sample
	Exits      int   // number of exits; 0: one exit, at the end
}

const image = 3 * 224 * 224 * 4

// Table1 returns the models of the evaluation. An input is a float32 image of the network's size, or a text of 128
// tokens with 8 bytes each.
func Table1() []Model {
	return []Model{
		{"resnet50", "resnet50", 1, 8e6, image, 0},
		{"vit-b", "vit-b", 1, 15e6, image, 0},
		{"convnext-b", "convnext-b", 0, 25e6, image, 0},
		{"vgg19", "vgg19", 0, 25e6, image, 0},
		{"yolov8n", "yolov8n", 0, 20e6, 3 * 640 * 640 * 4, 0},
		{"roberta", "roberta", 0, 45e6, 128 * 8, 0},
	}
}

// Twice returns every model two times: the 12 tasks of section 5.2.
func Twice(models []Model) (out []Model) {
	for _, m := range models {
		for _, suffix := range []string{"", "'"} {
			n := m
			n.Name += suffix
			out = append(out, n)
		}
	}
	return out
}

// jitter is the relative standard deviation of the time of a batch that runs alone. The L4's profiles are not
// published, so jitter is the median of 32 published values between 0.1 and 1.8 % (Nexus, github.com/uwsampl/nexus:
// VGG-16, VGG-Face, VGG-S, YOLO9000 on a TITAN X, batches of 1 to 8). The random factor multiplies the time of blocks,
// so the times of DRAM-bound kernels vary less.
const jitter = 0.0086

// z95 and z99 are quantiles of the standard normal distribution, for the p95 and p99 of a batch's time.
const z95, z99 = 1.645, 2.326

// Bed is a GPU with the profiles of models that run alone.
type Bed struct {
	File *params.File
	// Spread is the relative standard deviation of the time of a batch that runs alone; 0: constant.
	Spread float64
	seed   uint64 // seed of the random times
	slow   bool   // RoBERTa needs three times as long

	style  string
	own    map[string][]*kernel.Program // a user's kernels, by network and batch; nil: the catalogue's kernels
	nets   map[string]*gpu.Network
	tables map[string]*sched.Table
}

// NewBed returns a Bed. The Bed profiles a model at the model's first use.
func NewBed(f *params.File) *Bed {
	return &Bed{File: f, style: style, nets: map[string]*gpu.Network{}, tables: map[string]*sched.Table{}}
}

// network returns the network of a model with its kernels on the bed's GPU. Each network is built once.
func (b *Bed) network(m *Model) *gpu.Network {
	key := fmt.Sprint(m.Network, " ", m.Exits, " ", m.Input)
	if n := b.nets[key]; n != nil {
		return n
	}
	name := m.Network
	spec := catalogue.Spec{Network: name, Style: b.style, Exits: m.Exits}
	if b.slow && name == "roberta" {
		spec.Side = 3 * 128
	}
	n := &gpu.Network{
		Name: name, Input: m.Input, Program: catalogue.ByBatch(spec, b.File.Machine()),
		Exit: func(id device.RequestID, segment int) device.ExitResult {
			return device.ExitResult{Class: int(id % 1000), Confidence: confidence(id, segment)}
		},
	}
	if own := b.own[name]; own != nil {
		n.Program = func(batch int) (*kernel.Program, error) {
			if batch < 1 || batch > len(own) {
				return nil, fmt.Errorf("%s has kernels for batches up to %d, not for %d", name, len(own), batch)
			}
			return own[batch-1], nil
		}
	}
	b.nets[key] = n
	return n
}

// most returns a model's largest batch.
func (b *Bed) most(m *Model) int {
	if own := b.own[m.Network]; own != nil {
		return min(MaxBatch, len(own))
	}
	return MaxBatch
}

// confidence returns a request's confidence at an exit. The confidence is uniform in 0..1 at the first exit, and rises
// from exit to exit. It is synthetic, and the same for all systems.
func confidence(id device.RequestID, segment int) float32 {
	x := uint64(id)*0x9E3779B97F4A7C15 + 0x632BE59BD9B4E019
	x ^= x >> 31
	x *= 0xBF58476D1CE4E5B9
	x ^= x >> 29
	ease := float64(x>>11) / (1 << 53)
	return float32(1 - (1-ease)/float64(segment+1))
}

// drawn returns the random factor on a batch's time. It depends only on the batch's first request, so it is the same
// under all systems.
func (b *Bed) drawn(first device.RequestID) float64 {
	return max(0.5, 1+b.Spread*rand.New(rand.NewPCG(b.seed, uint64(first))).NormFloat64())
}

// device returns a GPU with the models loaded. slow returns a factor on a batch's time.
func (b *Bed) device(mode string, models []Model, slow func(device.RequestID) float64) (*gpu.Device, error) {
	var names []string
	for i := range models {
		names = append(names, models[i].Name)
	}
	return gpu.Loaded(b.config(slow), mode, names, func(i int) *gpu.Network { return b.network(&models[i]) })
}

func (b *Bed) config(slow func(device.RequestID) float64) gpu.Config {
	return gpu.Config{
		Name: "gpu-sim:" + b.File.Name, Params: b.File.Params(), SyncNs: b.File.SyncNs(), MaxBatch: MaxBatch, Places: 16, Slow: slow,
	}
}

// Table returns a model's profile: the time of each range of segments at each batch size if it runs alone on the GPU,
// transfer times, and resource use. p95 and p99 are computed from the bed's spread.
func (b *Bed) Table(m *Model) (*sched.Table, error) {
	key := fmt.Sprint(m.Network, " ", m.Exits, " ", m.Input)
	if t := b.tables[key]; t != nil {
		return t, nil
	}
	var cells []sched.Cell
	var transfers []int64
	var uses [][]sched.Throughput
	for batch := 1; batch <= b.most(m); batch++ {
		var at [3][]int64
		var copied int64
		for i, z := range []float64{z99, z95, 0} {
			if at[i] = at[max(0, i-1)]; i > 0 && b.Spread == 0 {
				continue
			}
			var err error
			if copied, at[i], err = b.alone(m, batch, 1+b.Spread*z); err != nil {
				return nil, fmt.Errorf("profile %s at batch %d: %w", m.Name, batch, err)
			}
		}
		segments := at[2]
		for first := range segments {
			var sum [3]int64
			for last := first; last < len(segments); last++ {
				for i := range sum {
					sum[i] += at[i][last]
				}
				cells = append(cells, sched.Cell{First: first, Last: last, Batch: batch, P50: sum[2], P95: sum[1], P99: sum[0]})
			}
		}
		transfers = append(transfers, copied)
		use, err := b.use(m, batch, segments)
		if err != nil {
			return nil, err
		}
		for s, u := range use {
			if s == len(uses) {
				uses = append(uses, nil)
			}
			uses[s] = append(uses[s], u)
		}
	}
	t, err := sched.NewTableOf(m.Name, cells)
	if err != nil {
		return nil, err
	}
	t.CopyBytes, t.Copies, t.Use = m.Input, transfers, uses
	b.tables[key] = t
	return t, nil
}

// alone runs a batch alone, with its time multiplied by "slow". It returns the times of its input transfer and
// segments.
func (b *Bed) alone(m *Model, batch int, slow float64) (copied int64, segments []int64, err error) {
	cfg := b.config(func(device.RequestID) float64 { return slow })
	return gpu.Alone(context.Background(), cfg, b.network(m), device.Units{}, batch)
}

// l1Bytes is the L1 bandwidth of an SM in bytes per clock (CUDA programming guide: 32 banks of four bytes). l2Bytes is
// an SM's share of the L2 bandwidth. It is assumed: Jia et al. 2018 measured 2,155 GB/s on a V100, or 19.5 bytes per
// clock for each of 80 SMs at 1.38 GHz.
const l1Bytes, l2Bytes = 128, 16

// use returns the resource use of each segment's kernels while the segment runs alone: L1, L2 and DRAM bandwidth, issue
// slots (of the FMA pipes), and threads. The kernels are in float32, without tensor cores.
func (b *Bed) use(m *Model, batch int, segments []int64) ([]sched.Throughput, error) {
	program, err := b.network(m).Program(batch)
	if err != nil {
		return nil, err
	}
	p := b.File.Params()
	out := make([]sched.Throughput, len(segments))
	s := 0
	for i := range program.Kernels {
		k := &program.Kernels[i]
		if i > program.Exits[s] {
			s++
		}
		if k.Kind != kernel.Compute {
			continue
		}
		t := float64(segments[s])
		issue := k.BlockNs * float64(k.Blocks) * k.Issue
		resident := float64(min(p.SM.Of(k), (k.Blocks+p.SMs-1)/p.SMs))
		clocks := float64(p.SMs) * b.File.Values["clock_ghz"].Value * t
		out[s][predict.L1] += float64(k.L1) / l1Bytes / clocks
		out[s][predict.L2] += float64(k.L2) / l2Bytes / clocks
		out[s][predict.DRAM] += float64(k.Bytes) / p.Bandwidth / t
		out[s][predict.FMA] += issue / float64(p.SMs) / t
		out[s][predict.Threads] += float64(k.Blocks*k.Threads) * k.BlockNs * max(1, resident*k.Issue) / float64(p.SMs*p.SM.Threads) / t
	}
	for s := range out {
		for r := range out[s] {
			out[s][r] = min(1, out[s][r])
		}
	}
	return out, nil
}
