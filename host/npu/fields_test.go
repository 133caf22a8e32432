package npu

import (
	"math/rand/v2"
	"testing"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/dse/randnet"
	"github.com/sluice-npu/sluice/host/device"
)

// FuzzLoad: for any fields of an accepted bundle, the driver stays within its memory.
func FuzzLoad(f *testing.F) {
	rng := rand.New(rand.NewPCG(12, 1))
	for range 3000 {
		data := make([]byte, 4+rng.IntN(10))
		for i := range data {
			data[i] = byte(rng.Uint32())
		}
		f.Add(data)
	}
	design := testDesign(f)
	good := newTestNet(f, design).b
	f.Fuzz(func(t *testing.T, data []byte) {
		b := copyOf(good)
		changes := randnet.Spoil(b, data)
		bus := newFakeBus(t, b.Design.Hash(), 1<<16)
		bus.run = func(*fakeBus) uint32 { return 0 }
		d, err := New(bus, Opts{ClockHz: 150e6})
		if err != nil {
			t.Fatal(err)
		}
		defer closeDriver(t, d)
		if err := d.Load(t.Context(), b); err != nil {
			return
		}
		t.Log(changes)
		n := &b.Network
		if err := d.Admit(t.Context(), n.Name, 1, device.InWords(make([]int16, n.InH*n.InW*n.InC))); err != nil {
			t.Fatal(err)
		}
		l := &device.Launch{ID: 1, Network: n.Name, Last: len(n.Exits) - 1, Requests: []device.RequestID{1}, Theta: []float32{never}}
		if _, err := d.Run(t.Context(), l); err != nil {
			t.Fatal(err)
		}
	})
}

// copyOf is a bundle that shares nothing that fields are changed in.
func copyOf(b *bundle.Bundle) *bundle.Bundle {
	c := *b
	c.Network.Exits = append([]bundle.Exit(nil), b.Network.Exits...)
	c.Layers = append(c.Layers[:0:0], b.Layers...)
	c.FBCB = append(c.FBCB[:0:0], b.FBCB...)
	for i := range c.FBCB {
		c.FBCB[i] = append(c.FBCB[i][:0:0], b.FBCB[i]...)
	}
	c.Weights = append(c.Weights[:0:0], b.Weights...)
	c.Names = append(c.Names[:0:0], b.Names...)
	c.Slot.Tensors = append(c.Slot.Tensors[:0:0], b.Slot.Tensors...)
	c.Latency = append(c.Latency[:0:0], b.Latency...)
	return &c
}
