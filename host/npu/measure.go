package npu

import (
	"context"
	"fmt"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/hw/abi"
)

// Measure starts layers first..last of a loaded network once, on slots 0..batch-1 with any content, and returns the
// counters. Cycles do not depend on data, so Measure can time a single layer. It overwrites the slots of live requests.
func (d *Driver) Measure(ctx context.Context, network string, first, last, batch int) (c [abi.CntCount]uint64, err error) {
	d.hw.Lock()
	defer d.hw.Unlock()
	defer d.until(ctx)()
	fail := func(err error) error {
		return fmt.Errorf("%s: measure layers %d..%d of %s: %w", d.opts.Name, first, last, network, err)
	}
	if err := d.usable(); err != nil {
		return c, fail(err)
	}
	d.mu.Lock()
	n := d.nets[network]
	d.mu.Unlock()
	switch {
	case n == nil:
		return c, fail(fmt.Errorf("%w: the network is not loaded", ErrRequest))
	case first < 0 || last < first || last >= len(n.b.Layers):
		return c, fail(fmt.Errorf("%w: there are %d layers", ErrRequest, len(n.b.Layers)))
	case batch < 1 || batch > abi.BMax || batch > d.opts.Slots:
		return c, fail(fmt.Errorf("%w: a batch of %d", ErrRequest, batch))
	}
	if d.active != n {
		if err := d.activate(n); err != nil {
			d.failed = err
			return c, fail(err)
		}
	}
	slots := make([]int, batch)
	for i := range slots {
		slots[i] = i
	}
	before, err := d.readCounters()
	if err != nil {
		return c, fail(err)
	}
	if _, err := d.start(ctx, &bundle.Exit{First: first, Last: last}, slots, d.opts.CycleLimit); err != nil {
		return c, fail(err)
	}
	if d.counters, err = d.readCounters(); err != nil {
		d.failed = err
		return c, fail(err)
	}
	for i := range c {
		c[i] = d.counters[i] - before[i]
	}
	return c, nil
}
