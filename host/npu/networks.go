// This file places networks (descriptors, weights and slots) in memory, and sets the hardware's active network.

package npu

import (
	"context"
	"fmt"
	"slices"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/hw/abi"
)

type network struct {
	b      *bundle.Bundle
	name   string // name that requests use
	hash   uint64
	at     region
	weight int64 // offsets in memory
	slots  int64
	taken  []bool
	live   int
}

// activate writes a network's FBCB, base addresses and hash to the hardware.
func (d *Driver) activate(n *network) error {
	d.active = nil
	addr := func(lo uint32, off int64) [][2]uint32 {
		a := d.base + uint64(off)
		return [][2]uint32{{lo, uint32(a)}, {lo + 4, uint32(a >> 32)}}
	}
	// Addresses beyond the build's width wrap, and no register reports the width. So the driver checks that the address
	// of the last byte can be written as a base address.
	var w [][2]uint32
	last := d.base + uint64(n.at.start+n.at.size) - 1
	if hi := uint32(last >> 32); hi != uint32((d.base+uint64(n.at.start))>>32) {
		w = append(w, [2]uint32{abi.RegSlotBaseHi, hi})
	}
	w = slices.Concat(w,
		addr(abi.RegDescBaseLo, n.at.start), addr(abi.RegWeightBaseLo, n.weight), addr(abi.RegSlotBaseLo, n.slots),
		[][2]uint32{{abi.RegSlotStride, uint32(n.b.Slot.Stride)}})
	for layer, row := range n.b.FBCB {
		w = append(w, [2]uint32{abi.RegFBCBAddr, abi.FBCBAddr(layer, 1)})
		for _, e := range row {
			v, err := e.Encode()
			if err != nil {
				return fmt.Errorf("layer %d: %w", layer, err)
			}
			w = append(w, [2]uint32{abi.RegFBCBData, v})
		}
	}
	w = append(w, [2]uint32{abi.RegScratch0, uint32(n.hash)}, [2]uint32{abi.RegScratch1, uint32(n.hash >> 32)})
	if err := d.group("bases and FBCB of "+n.name, w...); err != nil {
		return err
	}
	d.active = n
	return nil
}

// Load implements device.Blocking. It writes descriptors and weights to memory, and the FBCB to the hardware. Several
// networks may be loaded. Load replaces a network with the same name, unless that network has samples.
func (d *Driver) Load(ctx context.Context, a device.Artefact) error {
	b, err := device.ArtefactOf[*bundle.Bundle](a, d.opts.Name)
	if err != nil {
		return err
	}
	fail := func(err error) error { return fmt.Errorf("load %s on %s: %w", a.NetworkName(), d.opts.Name, err) }
	if err := ctx.Err(); err != nil {
		return fail(err)
	}
	if b.ABIHash != d.build.ABIHash {
		return fail(fmt.Errorf("%w: ABI hash %016x, the hardware's is %016x", ErrMismatch, b.ABIHash, d.build.ABIHash))
	}
	if b.Design.Int8() != d.build.Int8 { // check this before the hash, because the error is clearer than a different hash
		return fail(fmt.Errorf("%w: the design's type int8 is %t, the hardware's BUILD_AXI.INT8 is %t; the soft device runs either", ErrMismatch, b.Design.Int8(), d.build.Int8))
	}
	if h := b.Design.Hash(); h != d.build.DesignHash {
		return fail(fmt.Errorf("%w: design hash %016x (%s), the hardware's is %016x", ErrMismatch, h, b.Design.Name, d.build.DesignHash))
	}
	if err := b.Validate(); err != nil {
		return fail(err)
	}
	hash, err := b.Hash()
	if err != nil {
		return fail(err)
	}
	descs := make([]byte, 0, len(b.Layers)*abi.DescBytes)
	for i := range b.Layers {
		enc, err := b.Layers[i].Encode()
		if err != nil {
			return fail(fmt.Errorf("layer %d: %w", i, err))
		}
		descs = append(descs, enc[:]...)
	}

	d.hw.Lock()
	defer d.hw.Unlock()
	defer d.until(ctx)()
	if err := d.usable(); err != nil {
		return fail(err)
	}
	n, err := d.place(a.NetworkName(), b, hash, int64(len(descs)))
	if err != nil {
		return fail(err)
	}
	copy(d.mem[n.at.start:], descs)
	copy(d.mem[n.weight:], b.Weights)
	if err := d.sync(n.at.start, n.slots-n.at.start, ToDevice); err != nil {
		d.remove(n)
		return fail(err)
	}
	if err := d.activate(n); err != nil {
		d.remove(n)
		return fail(err)
	}
	return nil
}

// place reserves memory for a network and adds it to the list. It removes a network of this name if the network has no
// samples.
func (d *Driver) place(name string, b *bundle.Bundle, hash uint64, descs int64) (*network, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	old := d.nets[name]
	if old != nil {
		if old.live > 0 {
			return nil, fmt.Errorf("%w: it is loaded already and holds %d samples", ErrRequest, old.live)
		}
	}
	align := func(v int64) int64 { return (v + regionAlign - 1) / regionAlign * regionAlign }
	weights := align(int64(len(b.Weights)))
	size := align(descs) + weights + int64(d.opts.Slots)*b.Slot.Stride
	free := d.free.clone() // the old network stays if the new network does not fit
	if old != nil {
		free.give(old.at)
	}
	at, ok := free.take(size)
	if !ok {
		return nil, fmt.Errorf("%w: it needs %d bytes (%d weights, %d slots of %d), of %d in all", ErrMemory,
			size, len(b.Weights), d.opts.Slots, b.Slot.Stride, len(d.mem))
	}
	d.free = free
	if d.active == old {
		d.active = nil
	}
	n := &network{b: b, name: name, hash: hash, at: at, taken: make([]bool, d.opts.Slots)}
	n.weight = at.start + align(descs)
	n.slots = n.weight + weights
	d.nets[name] = n
	return n, nil
}

// Unload implements device.Unloader. It frees the memory of a network that has no samples.
func (d *Driver) Unload(_ context.Context, network string) error {
	fail := func(err error) error { return fmt.Errorf("unload %s from %s: %w", network, d.opts.Name, err) }
	d.hw.Lock()
	defer d.hw.Unlock()
	if err := d.usable(); err != nil {
		return fail(err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.nets[network]
	switch {
	case n == nil:
		return fail(fmt.Errorf("%w: it is not loaded", ErrRequest))
	case n.live > 0:
		return fail(fmt.Errorf("%w: it holds %d samples", ErrRequest, n.live))
	}
	if d.active == n {
		d.active = nil
	}
	delete(d.nets, network)
	d.free.give(n.at)
	return nil
}

func (d *Driver) remove(n *network) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.nets, n.name)
	d.free.give(n.at)
}
