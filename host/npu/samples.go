// Samples: slots, their inputs, and the results of exits.

package npu

import (
	"context"
	"fmt"
	"slices"

	"github.com/sluice-npu/sluice/host/device"
)

type sample struct {
	net  *network
	slot int
}

// Admit implements device.Blocking. It may be called during a launch.
func (d *Driver) Admit(ctx context.Context, network string, id device.RequestID, in []device.Tensor) error {
	fail := func(err error) error { return fmt.Errorf("admit request %d on %s: %w", id, d.opts.Name, err) }
	if err := ctx.Err(); err != nil {
		return fail(err)
	}
	input, err := device.WordInput(in)
	if err != nil {
		return fail(err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return fail(ErrClosed)
	}
	n := d.nets[network]
	if n == nil {
		return fail(fmt.Errorf("%w: network %q is not loaded", ErrRequest, network))
	}
	if d.live[id] != nil {
		return fail(fmt.Errorf("%w: it has a slot already", ErrRequest))
	}
	net := &n.b.Network
	if want := net.InH * net.InW * net.InC; len(input) != want {
		return fail(fmt.Errorf("%w: the input has %d elements, expected %d", ErrRequest, len(input), want))
	}
	slot := slices.Index(n.taken, false)
	if slot < 0 {
		return fail(fmt.Errorf("%w: all %d slots are taken", ErrRequest, len(n.taken)))
	}
	n.taken[slot] = true
	n.live++
	d.live[id] = &sample{n, slot}
	if err := n.b.SetInput(d.slot(n, slot), input); err != nil {
		d.drop(id)
		return fail(fmt.Errorf("%w: %w", ErrRequest, err))
	}
	at := n.slots + int64(slot)*n.b.Slot.Stride + int64(net.InOffset)
	if err := d.sync(at, int64(n.b.Design.ElemBytes()*net.InH*net.InW*net.InPix), ToDevice); err != nil {
		d.drop(id)
		return fail(err)
	}
	return nil
}

// sync synchronises memory between CPU and NPU if the bus is not coherent.
func (d *Driver) sync(off, n int64, dir Direction) error {
	if s, ok := d.bus.(Syncer); ok {
		return s.Sync(off, n, dir)
	}
	return nil
}

func (d *Driver) slot(n *network, i int) []byte {
	at := n.slots + int64(i)*n.b.Slot.Stride
	return d.mem[at : at+n.b.Slot.Stride]
}

// Slot returns the memory of a request's slot for comparisons, or nil. The memory is valid until Close.
func (d *Driver) Slot(id device.RequestID) []byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	if s := d.live[id]; s != nil && !d.closed {
		return d.slot(s.net, s.slot)
	}
	return nil
}

// Release implements device.Blocking. A request in a launch must not be released.
func (d *Driver) Release(id device.RequestID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.drop(id)
}

// drop frees the slot of a request. The caller must hold the lock d.mu.
func (d *Driver) drop(id device.RequestID) {
	s := d.live[id]
	if s == nil {
		return
	}
	delete(d.live, id)
	s.net.taken[s.slot] = false
	s.net.live--
}

func (d *Driver) logits(n *network, slot, exit int) ([]int16, error) {
	e := &n.b.Network.Exits[exit]
	if err := d.sync(n.slots+int64(slot)*n.b.Slot.Stride+int64(e.Offset), int64(n.b.Design.ElemBytes()*e.Classes), FromDevice); err != nil {
		return nil, err
	}
	return n.b.LogitsAt(d.slot(n, slot), exit), nil
}
