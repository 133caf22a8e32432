// This file compares the GPU's results with those of package golden, bit for bit.

package bench

import (
	"context"
	"fmt"
	"slices"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/dse/golden"
	"github.com/sluice-npu/sluice/dse/randnet"
	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/gpu/cuda"
	"github.com/sluice-npu/sluice/hw/configs"
)

// drawnNets is the number of random networks, which cover kinds of layers that the zoo's networks do not have.
const drawnNets = 24

const (
	randomNets = "random networks"
	differing  = " exits that differ"
)

// golden runs random networks and the configured networks, on the whole GPU and on a partition. It compares every exit
// with the results of package golden. The value of a run is the number of exits that differ.
func (b *bench) golden(ctx context.Context) error {
	design, err := configs.Load("tiny")
	if err != nil {
		return err
	}
	return b.attached(ctx, cuda.Config{}, 1, func(r *rig) error {
		id := device.RequestID(0)
		check := func(n *bundle.Bundle, key string) error {
			id++
			differ, err := r.differ(ctx, n, id)
			if err == nil {
				b.add(Golden, key+differing, "exits", differ...)
				b.keep()
			}
			return err
		}
		for i := range min(drawnNets, b.N) {
			n, err := randnet.New(b.Seed+uint64(i), design, randnet.All())
			if err != nil {
				return err
			}
			n.Bundle.Network.Name = fmt.Sprint("net-", i)
			if err := check(n.Bundle, randomNets); err != nil {
				return err
			}
		}
		for _, n := range slices.Backward(b.Networks) { // the last network is usually the quickest
			if err := check(n, n.Network.Name); err != nil {
				return err
			}
		}
		return nil
	})
}

// differ runs a request on the whole GPU and on a partition, and counts the exits that differ from the results of
// package golden.
func (r *rig) differ(ctx context.Context, n *bundle.Bundle, id device.RequestID) (differ []int64, err error) {
	name, in := n.Network.Name, randnet.Input(r.rng, n)
	p, err := golden.New(n)
	if err != nil {
		return nil, err
	}
	want, err := p.Run(in)
	if err != nil {
		return nil, err
	}
	if _, err := r.do(ctx, &device.Work{Kind: device.Load, Artefact: n}, nil); err != nil {
		return nil, err
	}
	if err := r.admit(ctx, n, id, in); err != nil {
		return nil, err
	}
	r.ids[name] = []device.RequestID{id}
	parts := []device.Units{{}}
	if units := r.d.Info().Units; units > 1 {
		first := r.rng.IntN(units)
		parts = append(parts, device.UnitRange(first, 1+r.rng.IntN(units-first)))
	}
	for _, u := range parts {
		c, err := r.run(ctx, r.work(n, 0, 1, 0, u), nil)
		if err != nil {
			return nil, err
		}
		wrong := int64(0)
		for exit, logits := range want {
			if !slices.Equal(c.shown[exit], logits) {
				wrong++
			}
		}
		differ = append(differ, wrong)
	}
	r.d.Release(id)
	_, err = r.do(ctx, &device.Work{Kind: device.Unload, Network: name}, nil)
	return differ, err
}

// Differ lists the networks whose results differ from those of package golden.
func (r *Raw) Differ() (networks []string) {
	for _, x := range r.Rows() {
		if x.Part == Golden && x.Most > 0 {
			networks = append(networks, x.Key[:len(x.Key)-len(differing)])
		}
	}
	return networks
}
