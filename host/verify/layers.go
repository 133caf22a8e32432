// Random layers under any legal FBCB entry, bit for bit.

package verify

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/dse/randnet"
	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/experiments"
	"github.com/sluice-npu/sluice/host/npu"
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
)

// Bench is one configuration under random layers.
type Bench struct {
	Design configs.Design
	Dev    *Shadow
	Ports  func(port int) (npu.PortStats, error) // nil: there are none to count
}

// LayerSlots are the slots that a bench's device needs.
const LayerSlots = 4 * abi.BMax

// Layers is what random layers have exercised.
type Layers struct {
	Exercised
	N        int            `json:"-"` // layers
	Networks int            `json:"networks"`
	Ops      map[string]int `json:"ops"`
	MACs     int64          `json:"macs"`
}

// LayersConfig says how many layers.
type LayersConfig struct {
	N        int
	Seed     uint64
	All      bool // go on until every kind of layer has been seen, four times as long at most
	Coverage *Coverage
	Progress func(int)
}

// RandomLayers spreads random networks over benches, each in a random batch, and compares all bytes
// of all slots. The error wraps ErrMismatch where the hardware is wrong, and then says on what.
func RandomLayers(ctx context.Context, benches []*Bench, c LayersConfig) (*Layers, error) {
	total := &Layers{Ops: map[string]int{}}
	rng := rand.New(rand.NewPCG(c.Seed, 0x736c756963650003))
	next := device.RequestID(0)
	more := func() bool {
		return total.N < c.N || c.All && total.N < 4*c.N && c.Coverage.layersMissing()
	}
	for seed := c.Seed << 20; more(); seed++ {
		if err := ctx.Err(); err != nil {
			return total, err
		}
		on := benches[total.Networks%len(benches)]
		if err := on.random(ctx, seed, rng, &next, c.Coverage, total); err != nil {
			return total, fmt.Errorf("random network of seed %d on %s: %w", seed, on.Design.Name, err)
		}
		if c.Progress != nil {
			c.Progress(min(total.N, c.N))
		}
	}
	for _, b := range benches {
		total.add(&b.Dev.Exercised)
		if err := b.countPorts(c.Coverage); err != nil {
			return total, err
		}
	}
	return total, nil
}

// random runs one network, a start a segment.
func (b *Bench) random(ctx context.Context, seed uint64, rng *rand.Rand, next *device.RequestID, cov *Coverage, total *Layers) error {
	net, err := randnet.New(seed, b.Design, randnet.Built())
	if err != nil {
		return err
	}
	bun := rename(net.Bundle, "random") // one name: the device replaces the one before
	if err := b.Dev.Load(ctx, bun); err != nil {
		return err
	}
	l := device.Launch{ID: device.LaunchID(total.Networks + 1), Network: bun.Network.Name, Last: len(bun.Network.Exits) - 1}
	for range 1 + rng.IntN(b.Dev.Info().MaxBatch) {
		*next++
		l.Requests, l.Theta = append(l.Requests, *next), append(l.Theta, experiments.Never)
		if err = b.Dev.Admit(ctx, l.Network, *next, randnet.Input(rng, bun)); err != nil {
			break
		}
	}
	for seg := 0; seg <= l.Last && err == nil; seg++ {
		one := l
		one.First, one.Last = seg, seg
		_, err = b.Dev.Run(ctx, &one)
	}
	for _, id := range l.Requests {
		b.Dev.Release(id)
	}
	if err != nil {
		return err
	}
	for i := range bun.Layers {
		total.Ops[bun.Layers[i].Op.String()]++
		cov.layer(b.Design, &bun.Layers[i], bun.FBCB[i][len(l.Requests)-1], len(l.Requests))
	}
	cov.hit(covErrors, abi.ErrNone.String(), uint64(l.Last+1))
	for _, x := range bun.Network.Exits {
		total.MACs += x.MACs * int64(len(l.Requests))
	}
	total.Networks++
	total.N += len(bun.Layers)
	return nil
}

// countPorts counts the bursts of each port.
func (b *Bench) countPorts(cov *Coverage) error {
	if b.Ports == nil {
		return nil
	}
	for p := range b.Design.NAXI {
		s, err := b.Ports(p)
		if err != nil {
			return err
		}
		cov.hit(covReads, portName(b.Design, p), s.ReadBursts)
		cov.hit(covWrites, portName(b.Design, p), s.WriteBursts)
	}
	return nil
}

// add adds what one configuration has exercised.
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
