package npu

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/hw/abi"
)

// cachedBus is a bus whose memory is not coherent: the CPU sees its caches, the NPU sees the DRAM, and only Sync copies
// a range from one to the other. drop is the number (from 1) of a Sync that is left out.
type cachedBus struct {
	*fakeBus
	cache []byte
	syncs []string
	drop  int
}

func newCachedBus(f *fakeBus) *cachedBus {
	c := &cachedBus{fakeBus: f, cache: make([]byte, len(f.mem))}
	// Cache and DRAM begin with different random bytes, so that they are not equal by chance.
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range c.cache {
		c.cache[i], f.mem[i] = byte(rng.Uint32()), byte(rng.Uint32())
	}
	return c
}

// DRAM implements Bus.
func (c *cachedBus) DRAM() ([]byte, uint64) { return c.cache, c.base }

// Sync implements Syncer.
func (c *cachedBus) Sync(off, n int64, dir Direction) error {
	c.syncs = append(c.syncs, fmt.Sprintf("%d bytes from %d, %d", n, off, dir))
	if len(c.syncs) == c.drop {
		return nil
	}
	if dir == ToDevice {
		copy(c.mem[off:off+n], c.cache[off:])
	} else {
		copy(c.cache[off:off+n], c.mem[off:])
	}
	return nil
}

// serveCached serves two requests over a bus that is not coherent, and reports whether all results are right.
func serveCached(t *testing.T, drop int) (syncs []string, right bool) {
	t.Helper()
	design := testDesign(t)
	n := newTestNet(t, design)
	f := newFakeBus(t, design.Hash(), 1<<20)
	c := newCachedBus(f)
	c.drop = drop
	f.run = func(f *fakeBus) uint32 {
		// The hardware needs descriptors and weights in the DRAM.
		at := func(lo uint32, size int) []byte { return f.mem[f.addr(lo)-f.base:][:size] }
		for l := range n.b.Layers {
			want, err := n.b.Layers[l].Encode()
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(at(abi.RegDescBaseLo, len(n.b.Layers)*abi.DescBytes)[l*abi.DescBytes:][:abi.DescBytes], want[:]) {
				return uint32(abi.ErrDescMagic)
			}
		}
		if !bytes.Equal(at(abi.RegWeightBaseLo, len(n.b.Weights)), n.b.Weights) {
			return uint32(abi.ErrDescMagic)
		}
		first := f.regs[abi.RegLayers] & abi.RegLayersFirstMask
		last := f.regs[abi.RegLayers] & abi.RegLayersLastMask >> abi.RegLayersLastLSB
		for i := range f.regs[abi.RegBatch] {
			slot := f.mem[f.addr(abi.RegSlotBaseLo)-f.base+uint64(f.regs[abi.RegSlotTable+4*i])*testStride:][:testStride]
			for l := first; l <= last; l++ {
				n.layer(int(l), slot)
			}
		}
		return 0
	}
	d, err := New(c, Opts{ClockHz: 150e6})
	if err != nil {
		t.Fatal(err)
	}
	defer closeDriver(t, d)
	if err := d.Load(t.Context(), n.b); err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(3, 4))
	ids := []device.RequestID{1, 2}
	inputs := map[device.RequestID][]int16{}
	for _, id := range ids {
		in := testInput(rng)
		inputs[id] = in
		if err := d.Admit(t.Context(), n.b.Network.Name, id, device.InWords(in)); err != nil {
			t.Fatal(err)
		}
	}
	rep, err := d.Run(t.Context(), &device.Launch{
		ID: 1, Network: n.b.Network.Name, Last: len(n.b.Network.Exits) - 1, Requests: ids, Theta: []float32{2, 2},
	})
	if err != nil {
		return c.syncs, false
	}
	for i, r := range rep.Results {
		for e, got := range r.Exits {
			if !slices.Equal(got.Raw, n.logits(inputs[ids[i]], e)) {
				return c.syncs, false
			}
		}
	}
	return c.syncs, true
}

// TestSync: with caches between CPU and NPU the driver's results are right, and every single Sync of it is
// needed.
func TestSync(t *testing.T) {
	syncs, right := serveCached(t, 0)
	if !right {
		t.Fatalf("wrong results with all of %q", syncs)
	}
	if len(syncs) < 4 {
		t.Fatalf("only %d: %q", len(syncs), syncs)
	}
	for i := range syncs {
		if _, right := serveCached(t, i+1); right {
			t.Errorf("right without %d of %d, %s", i+1, len(syncs), syncs[i])
		}
	}
}
