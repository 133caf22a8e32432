// Random layers with any legal FBCB entry are compared bit for bit.

package verify

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/dse/graph"
	"github.com/sluice-npu/sluice/dse/randnet"
	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/experiments"
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
)

// Bench is one configuration for random layers.
type Bench struct {
	Design configs.Design
	Dev    *Shadow
	Bus    Bus // nil: a device without memory timing, ports and stalls
}

// LayerSlots is the number of slots that a bench's device needs.
const LayerSlots = 4 * abi.BMax

// Layers describes the random layers that have run.
type Layers struct {
	Exercised
	N        int            `json:"-"` // number of layers
	Networks int            `json:"networks"`
	Woven    int            `json:"woven"` // networks with maps that are interleaved from phases
	Ops      map[string]int `json:"ops"`
	MACs     int64          `json:"macs"`
	Memory   Memories       `json:"memory"`
}

// LayersConfig selects the random layers.
type LayersConfig struct {
	N        int
	Designs  int // number of designs; block i runs on design i % Designs
	Seed     uint64
	Coverage *Coverage
}

// inBlock is the number of layers of a block. A block cannot have more networks, because each has at least one layer.
const inBlock = 16

// directed limits the number of networks that MissingLayers draws, as a multiple of N.
const directed = 8

// Blocks returns the number of blocks of random layers: at least one per design.
func (c *LayersConfig) Blocks() int { return max((c.N+inBlock-1)/inBlock, c.Designs) }

// seed returns the seed of the first network of a block.
func (c *LayersConfig) seed(block int) uint64 { return c.Seed<<20 + uint64(block)*inBlock }

// draws returns the random number generator of a block.
func (c *LayersConfig) draws(block int) *rand.Rand {
	return rand.New(rand.NewPCG(c.Seed, 0x736c756963650003^uint64(block)<<16))
}

// RandomLayers runs the random networks of a block, each as a random batch with its own memory timing, and compares all
// bytes of all slots. On a newly opened bench, the result depends only on the block's number. The error describes the
// case, and wraps ErrMismatch if the hardware is wrong.
func RandomLayers(ctx context.Context, on *Bench, c LayersConfig, block int) (*Layers, error) {
	total, rng, next := &Layers{Ops: map[string]int{}}, c.draws(block), device.RequestID(0)
	n := c.N*(block+1)/c.Blocks() - c.N*block/c.Blocks()
	for seed := c.seed(block); total.N < n; seed++ {
		if err := on.named(ctx, seed, rng, &next, c.Coverage, false, total); err != nil {
			return total, err
		}
	}
	total.exercised(&on.Dev.Exercised)
	return total, on.count(c.Coverage)
}

// MissingLayers draws more networks, on one bench per design. It runs a network only if, for some batch size, the
// network has a kind of layer that the coverage lacks.
func MissingLayers(ctx context.Context, benches []*Bench, c LayersConfig, progress func(int)) (*Layers, error) {
	total, rng, next := &Layers{Ops: map[string]int{}}, c.draws(c.Blocks()), device.RequestID(0)
	for i := 0; i < directed*c.N && c.Coverage.LayersMissing(); i++ {
		if err := benches[i%len(benches)].named(ctx, c.seed(c.Blocks())+uint64(i), rng, &next, c.Coverage, true, total); err != nil {
			return total, err
		}
		progress(i)
	}
	for _, b := range benches {
		total.exercised(&b.Dev.Exercised)
		if err := b.count(c.Coverage); err != nil {
			return total, err
		}
	}
	return total, nil
}

// named calls random and adds the seed and the design to the error.
func (b *Bench) named(ctx context.Context, seed uint64, rng *rand.Rand, next *device.RequestID, cov *Coverage, news bool, total *Layers) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := b.random(ctx, seed, rng, next, cov, news, total); err != nil {
		return fmt.Errorf("random network of seed %d on %s: %w", seed, b.Design.Name, err)
	}
	return nil
}

// Add adds the results of another block.
func (x *Layers) Add(o *Layers) {
	x.exercised(&o.Exercised)
	x.N += o.N
	x.Networks += o.Networks
	x.Woven += o.Woven
	x.MACs += o.MACs
	if x.Ops == nil {
		x.Ops = map[string]int{}
	}
	for op, n := range o.Ops {
		x.Ops[op] += n
	}
	x.Memory.join(&o.Memory)
}

func (x *Layers) exercised(o *Exercised) { x.Exercised.add(o) }

// batch draws the batch size of a network. If news is set, it returns the size that hits the most empty bins; 0: none.
func (b *Bench) batch(net *bundle.Bundle, rng *rand.Rand, cov *Coverage, news bool) int {
	most := b.Dev.Info().MaxBatch
	if !news {
		return 1 + rng.IntN(most)
	}
	best, at := 0, 0
	for n := 1; n <= most; n++ {
		found := map[[2]string]bool{}
		for i := range net.Layers {
			for _, x := range cov.of(b.Design, &net.Layers[i], net.FBCB[i][n-1], n) {
				if hits, ok := cov.hits[x[0]][x[1]]; ok && hits == 0 {
					found[x] = true
				}
			}
		}
		if len(found) > best {
			best, at = len(found), n
		}
	}
	return at
}

// random runs one network, with a start for each segment. If news is set, the network must hit an empty bin.
func (b *Bench) random(ctx context.Context, seed uint64, rng *rand.Rand, next *device.RequestID, cov *Coverage, news bool, total *Layers) error {
	o := randnet.Built()
	// Woven networks have interleaved maps, as after Resize, ConvTranspose and DepthToSpace. int8 is excluded: random int8
	// maps have different zero points, and a move cannot change a zero point.
	o.Woven = seed%5 == 0 && !b.Design.Int8()
	net, err := randnet.New(seed, b.Design, o)
	if err != nil {
		return err
	}
	batch := b.batch(net.Bundle, rng, cov, news)
	if batch == 0 {
		return nil
	}
	if b.Bus == nil {
		return b.run(ctx, net, batch, rng, next, cov, total)
	}
	m := drawMemory(seed, b.Design)
	if err := m.set(b.Bus); err != nil {
		return err
	}
	total.Memory.add(&m)
	if err := b.run(ctx, net, batch, rng, next, cov, total); err != nil {
		return fmt.Errorf("%v: %w", &m, err)
	}
	return nil
}

// run runs a network with a batch.
func (b *Bench) run(ctx context.Context, net *randnet.Net, batch int, rng *rand.Rand, next *device.RequestID, cov *Coverage, total *Layers) error {
	bun := rename(net.Bundle, "random") // with the same name, the device replaces the last network
	if err := b.Dev.Load(ctx, bun); err != nil {
		return err
	}
	l := device.Launch{ID: device.LaunchID(total.Networks + 1), Network: bun.Network.Name, Last: len(bun.Network.Exits) - 1}
	var err error
	for range batch {
		*next++
		l.Requests, l.Theta = append(l.Requests, *next), append(l.Theta, experiments.Never)
		if err = b.Dev.Admit(ctx, l.Network, *next, device.InWords(randnet.Input(rng, bun))); err != nil {
			break
		}
	}
	for seg := 0; seg <= l.Last && err == nil; seg++ {
		one := l
		one.First, one.Last = seg, seg
		err = b.segment(ctx, bun, &one)
	}
	for _, id := range l.Requests {
		b.Dev.Release(id)
	}
	if err != nil {
		return err
	}
	for i := range bun.Layers {
		total.Ops[bun.Layers[i].Op.String()]++
		cov.layer(b.Design, &bun.Layers[i], bun.FBCB[i][batch-1], batch)
	}
	cov.hit(covErrors, abi.ErrNone.String(), uint64(l.Last+1))
	for _, x := range bun.Network.Exits {
		total.MACs += x.MACs * int64(batch)
	}
	total.Networks++
	if slices.ContainsFunc(net.Quant.Graph.Nodes, func(n graph.Node) bool { return n.Op == graph.Reshape }) {
		total.Woven++
	}
	total.N += len(bun.Layers)
	return nil
}

// segment runs one segment of a batch and checks the counters.
func (b *Bench) segment(ctx context.Context, bun *bundle.Bundle, one *device.Launch) error {
	if b.Bus == nil {
		_, err := b.Dev.Run(ctx, one)
		return err
	}
	before, err := count(b.Bus, b.Design.NAXI)
	if err != nil {
		return err
	}
	if _, err := b.Dev.Run(ctx, one); err != nil {
		return err
	}
	now, err := count(b.Bus, b.Design.NAXI)
	if err != nil {
		return err
	}
	var want work
	for l := bun.Network.Exits[one.First].First; l <= bun.Network.Exits[one.First].Last; l++ {
		want.add(&bun.Layers[l], len(one.Requests))
	}
	c := now.since(before)
	if what := c.wrong(b.Bus.Info().Kind, b.Design.AXIBytes, want, false); what != "" {
		return fmt.Errorf("%w: segment %d: %s", ErrMismatch, one.First, what)
	}
	return nil
}

// count adds the bursts of each port and the stall cycles of array and ports to the coverage.
func (b *Bench) count(cov *Coverage) error {
	if b.Bus == nil {
		return nil
	}
	for p := range b.Design.NAXI {
		s, err := b.Bus.Stats(p)
		if err != nil {
			return err
		}
		cov.hit(covReads, portName(b.Design, p), s.ReadBursts)
		cov.hit(covWrites, portName(b.Design, p), s.WriteBursts)
	}
	n, err := readCounters(b.Bus)
	if err != nil {
		return err
	}
	for _, s := range stalls {
		cov.hit(covStalls, b.Design.Name+"."+s.name, n[s.counter])
	}
	return nil
}

// add adds the counts of another device.
func (e *Exercised) add(c *Exercised) {
	sum := func(a, b []int) []int {
		if len(a) < len(b) {
			a = append(a, make([]int, len(b)-len(a))...)
		}
		for i, v := range b {
			a[i] += v
		}
		return a
	}
	e.Launches += c.Launches
	e.Batches, e.Exits = sum(e.Batches, c.Batches), sum(e.Exits, c.Exits)
	e.Bytes += c.Bytes
	e.Logits += c.Logits
	e.Halted += c.Halted
}

func rename(b *bundle.Bundle, name string) *bundle.Bundle {
	c := *b
	c.Network.Name = name
	c.Latency = append([]bundle.LatencyEntry(nil), b.Latency...)
	for i := range c.Latency {
		c.Latency[i].Network = name
	}
	return &c
}
