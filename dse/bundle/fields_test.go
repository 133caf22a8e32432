package bundle_test

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/dse/golden"
	"github.com/sluice-npu/sluice/dse/randnet"
	"github.com/sluice-npu/sluice/hw/abi"
)

// FuzzFields changes fields and corrects the hash: no bundle that Read accepts may make its users fail.
func FuzzFields(f *testing.F) {
	rng := rand.New(rand.NewPCG(11, 1))
	for range 1500 {
		data := make([]byte, 4+rng.IntN(10))
		for i := range data {
			data[i] = byte(rng.Uint32())
		}
		f.Add(uint8(rng.Uint32()), data)
	}
	nets := map[uint8]*bundle.Bundle{}
	f.Fuzz(func(t *testing.T, seed uint8, data []byte) {
		seed %= 16
		if nets[seed] == nil {
			nets[seed] = random(t, uint64(seed)+1, []string{"tiny", "run"}[seed%2])
			if seed%4 == 3 {
				nets[seed] = inInt8(t)
			}
		}
		b, err := bundle.Read(bytes.NewReader(file(t, nets[seed]))) // a copy
		if err != nil {
			t.Fatal(err)
		}
		changes := randnet.Spoil(b, data)
		text, err := bundle.Encode(b)
		if err != nil {
			return
		}
		read, err := bundle.Read(bytes.NewReader(text))
		if err != nil {
			return
		}
		t.Log(changes)
		use(t, read)
	})
}

// use reads a bundle as drivers and simulators do.
func use(t *testing.T, b *bundle.Bundle) {
	t.Helper()
	if _, err := b.Summarize(); err != nil {
		t.Fatal(err)
	}
	if again := file(t, b); len(again) == 0 {
		t.Fatal("not written again")
	}
	var span int64
	for _, e := range b.Latency {
		if span += e.P50; span <= 0 {
			t.Fatalf("the times of the table add up to %d ns", span)
		}
	}
	var macs int64
	for i, e := range b.Network.Exits {
		if macs += e.MACs; macs < 0 {
			t.Fatalf("exits up to %d have %d MACs", i, macs)
		}
	}
	for l := range b.Layers {
		if _, err := b.LayerWeights(l, -1); err != nil && b.Layers[l].Op == abi.OpGEMM {
			continue // non-zero padding: golden and the driver's user detect it
		}
	}
	p, err := golden.New(b)
	if err != nil || b.Slot.Stride > 1<<24 {
		return
	}
	n := &b.Network
	slot := p.NewSlot()
	if err := p.SetInput(slot, make([]int16, n.InH*n.InW*n.InC)); err != nil {
		t.Fatal(err)
	}
	for i, e := range n.Exits {
		var work int64
		for l := e.First; l <= e.Last; l++ {
			d := &b.Layers[l]
			work += int64(d.OutH) * int64(d.OutW) * int64(d.OutC) * int64(d.KH) * int64(max(d.KWC, 1))
		}
		if work > 1<<24 {
			return
		}
		if err := p.Layers(e.First, e.Last, 1+i%abi.BMax, slot); err != nil && !errors.Is(err, golden.ErrOverflow) {
			t.Fatal(err)
		}
		if _, err := p.Logits(slot, i); err != nil {
			t.Fatal(err)
		}
	}
}

// Sums of offsets near the largest integer do not wrap.
func TestPlacesNearTheLargestNumber(t *testing.T) {
	for _, at := range []int{math.MaxInt - 1, math.MaxInt - 63, math.MaxInt/2 + 1, bundle.MaxSlot, -2} {
		for name, edit := range map[string]func(b *bundle.Bundle){
			"input":  func(b *bundle.Bundle) { b.Network.InOffset = at },
			"logits": func(b *bundle.Bundle) { b.Network.Exits[0].Offset = at },
			"tensor": func(b *bundle.Bundle) { b.Slot.Tensors[0].Offset = at },
		} {
			b := random(t, 5, "tiny")
			edit(b)
			data, err := bundle.Encode(b)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := bundle.Read(bytes.NewReader(data)); !errors.Is(err, bundle.ErrInvalid) {
				t.Errorf("%s at %d: %v, want ErrInvalid", name, at, err)
			}
		}
	}
}
