package testvec

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/sluice-npu/sluice/dse/randnet"
	"github.com/sluice-npu/sluice/hw/configs"
	"github.com/sluice-npu/sluice/sim/vectors"
)

// TestFromBundle checks what every player relies on: the file can be read back, it has one start per segment, and its
// expectations differ from the previous image only inside the slots of the batch.
func TestFromBundle(t *testing.T) {
	d, err := configs.Load("tiny")
	if err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(20) {
		net, err := randnet.New(seed, d, randnet.Built())
		if err != nil {
			t.Fatal(err)
		}
		b := net.Bundle
		batch := 1 + int(seed)%MaxBatch
		records, err := FromBundle(b, rand.New(rand.NewPCG(seed, 1)), batch, Layout{Base: 1 << 28, Limit: StartLimit})
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		var file bytes.Buffer
		w := vectors.NewWriter(&file)
		if err := w.Write(records...); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		back, err := vectors.Read(&file)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if len(back) != len(records) {
			t.Fatalf("seed %d: %d records read back of %d", seed, len(back), len(records))
		}
		var image []byte
		runs := 0
		for _, r := range back {
			switch r := r.(type) {
			case vectors.MemWrite:
				image = r.Data // the last memory record holds the slots
			case vectors.Run:
				runs++
			case vectors.MemExpect:
				changed := 0
				for s := range Slots {
					at := s * int(b.Slot.Stride)
					if !bytes.Equal(image[at:at+int(b.Slot.Stride)], r.Data[at:at+int(b.Slot.Stride)]) {
						changed++
					}
				}
				if changed != batch {
					t.Errorf("seed %d: %d slots change in a batch of %d", seed, changed, batch)
				}
			}
		}
		if runs != len(b.Network.Exits) {
			t.Errorf("seed %d: %d starts for %d segments", seed, runs, len(b.Network.Exits))
		}
	}
}

// A bundle that the NPU cannot address gives no file.
func TestBase(t *testing.T) {
	d, err := configs.Load("tiny")
	if err != nil {
		t.Fatal(err)
	}
	net, err := randnet.New(1, d, randnet.Built())
	if err != nil {
		t.Fatal(err)
	}
	for base, fits := range map[uint64]bool{0: true, 64: true, 7: false, 100: false, 1<<40 - 64: false, 1 << 40: false, ^uint64(63): false} {
		_, err := FromBundle(net.Bundle, rand.New(rand.NewPCG(1, 1)), 1, Layout{Base: base, Limit: StartLimit})
		if fits != (err == nil) || err != nil && !errors.Is(err, ErrBase) {
			t.Errorf("%#x: %v", base, err)
		}
	}
}
