// Drawn networks are built from descriptors, without a compiler. Benchmarks use them for networks that no NPU supports.

package cuda

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/host/gpu/cuda/kernels"
	"github.com/sluice-npu/sluice/hw/abi"
)

// Drawn is a network of descriptors with random weights. The random numbers depend only on the seed. Only the fields
// Layers, Names, Network and Slot of its bundle are used.
type Drawn struct {
	Bundle *bundle.Bundle
	Seed   uint64

	once sync.Once // the weights are drawn only once, even if the network is loaded several times
	made *network
	err  error
}

// NetworkName and Kind implement device.Artefact; this device loads drawn networks beside bundles.
func (d *Drawn) NetworkName() string { return d.Bundle.Network.Name }

// Kind returns "drawn".
func (*Drawn) Kind() string { return "drawn" }

// ErrDrawn is wrapped by errors about a drawn network.
var ErrDrawn = errors.New("program of descriptors")

// prepare returns the network. Its addresses are not set yet.
func (d *Drawn) prepare() (*network, error) {
	if d.once.Do(func() { d.made, d.err = d.draw() }); d.err != nil {
		return nil, d.err
	}
	n := *d.made
	n.layers = slices.Clone(n.layers)
	return &n, nil
}

// draw draws the packed weights.
func (d *Drawn) draw() (*network, error) {
	if err := d.check(); err != nil {
		return nil, fmt.Errorf("%w %s: %w", ErrDrawn, d.Bundle.Network.Name, err)
	}
	return prepareOf(d.Bundle, func(i int) ([]int16, []int32, error) {
		l, err := layerOf(&d.Bundle.Layers[i])
		if err != nil || l.Op != kernels.GEMM {
			return nil, nil, err
		}
		rng := rand.New(rand.NewPCG(d.Seed, uint64(i)))
		w, bias := make([]int16, int(l.OutC)*int(l.KH)*int(l.KW)*int(l.InC)), make([]int32, l.OutC)
		for k := 0; k < len(w); k += 8 {
			for r, j := rng.Uint64(), k; j < min(k+8, len(w)); j++ {
				w[j], r = int16(int8(r)), r>>8
			}
		}
		for k := range bias {
			bias[k] = int32(rng.IntN(2001)) - 1000
		}
		return w, bias, nil
	})
}

// check checks the properties that a compiler guarantees: kernels access only the slot, and segments are contiguous.
func (d *Drawn) check() error {
	b := d.Bundle
	if len(b.Layers) == 0 || len(b.Names) != len(b.Layers) || len(b.Network.Exits) == 0 || b.Slot.Stride < 2 || b.Slot.Stride%2 != 0 {
		return fmt.Errorf("%d layers, %d names, %d exits, a slot of %d bytes", len(b.Layers), len(b.Names), len(b.Network.Exits), b.Slot.Stride)
	}
	in := func(at, n int64) bool { return at >= 0 && n > 0 && at+n <= b.Slot.Stride && at%2 == 0 }
	w := &b.Network
	if w.InOffset != 0 || w.InPix < w.InC || !in(0, 2*int64(w.InH)*int64(w.InW)*int64(w.InPix)) {
		return fmt.Errorf("an input of %d x %d x %d at %d", w.InH, w.InW, w.InC, w.InOffset)
	}
	next := 0
	for i, e := range w.Exits {
		if e.First != next || e.Last < e.First || e.Last >= len(b.Layers) || !in(int64(e.Offset), 2*int64(e.Classes)) {
			return fmt.Errorf("exit %d of layers %d to %d, %d classes at %d", i, e.First, e.Last, e.Classes, e.Offset)
		}
		next = e.Last + 1
	}
	if next != len(b.Layers) {
		return fmt.Errorf("exits end at layer %d of %d", next, len(b.Layers))
	}
	for i := range b.Layers {
		if err := checkLayer(&b.Layers[i], b.Names[i], in); err != nil {
			return fmt.Errorf("layer %d (%s): %w", i, b.Names[i], err)
		}
	}
	return nil
}

// checkLayer checks that a layer accesses only the slot.
func checkLayer(w *abi.Desc, name string, in func(at, n int64) bool) error {
	l, err := layerOf(w)
	if err != nil {
		return err
	}
	if l.KH < 1 || l.KW < 1 || l.SH < 1 || l.SW < 1 || l.InC < 1 || l.OutC < 1 || l.OutH < 1 || l.OutW < 1 || l.InH < 1 || l.InW < 1 {
		return errors.New("a side is 0")
	}
	k := l.Kernel(name)
	for _, s := range append(k.Reads, k.Writes...) {
		if !in(s.From, s.To-s.From) {
			return fmt.Errorf("bytes %d to %d are not in the slot", s.From, s.To)
		}
	}
	return nil
}
