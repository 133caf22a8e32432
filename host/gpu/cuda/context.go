// This file opens, fills and releases the context, and rebuilds it after a reset.

package cuda

import (
	"fmt"
	"time"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/gpu/cuda/driver"
	"github.com/sluice-npu/sluice/host/gpu/cuda/kernels"
)

// open finds the GPU and retains its context.
func (l *launcher) open() error {
	n, err := l.lib.Count()
	if err != nil {
		return err
	}
	if l.cfg.GPU < 0 || l.cfg.GPU >= n {
		return fmt.Errorf("%w: GPU %d: %d found, counted from 0", device.ErrRequest, l.cfg.GPU, n)
	}
	if l.dev, err = l.lib.Device(l.cfg.GPU); err != nil {
		return err
	}
	if l.name, err = title(l.lib, l.dev); err != nil {
		return err
	}
	khz, err := l.lib.Attribute(l.dev, driver.ClockKHz)
	if err != nil {
		return err
	}
	if l.main, err = l.lib.Retain(l.dev); err != nil {
		return err
	}
	l.info = device.Info{
		Name: l.lib.API().Name, Label: "measured", MaxBatch: kernels.MaxBatch, Slots: l.cfg.Slots, Places: l.cfg.Places,
		Priorities: 2, Preempt: device.PreemptBlock, Through: l.cfg.Through, ClockHz: int64(khz) * 1000,
	}
	if l.lib.Fake() {
		l.info.Label = "simulated"
	}
	if l.cfg.Drain {
		l.info.Preempt = device.PreemptKernel
	}
	return nil
}

// furnish allocates everything that a context needs.
func (l *launcher) furnish() error {
	if err := l.lib.SetCurrent(l.main); err != nil {
		return err
	}
	var err error
	if l.least, l.most, err = l.lib.Priorities(); err != nil {
		return err
	}
	if l.module, err = l.lib.Load(l.cfg.Kernels, 0); driver.CodeOf(err) == driver.UnsupportedPTX {
		return fmt.Errorf("the kernels' PTX is of version %s, and the driver of %s is too old for it: CUDA %s or later is expected: %w", kernels.Version(), l.name, kernels.CUDA(), err)
	} else if err != nil {
		return err
	}
	if l.layer, err = l.lib.Function(l.module, kernels.EntryLayer); err != nil {
		return err
	}
	if l.padded, err = l.lib.Function(l.module, kernels.EntryPadded); err != nil {
		return err
	}
	if l.copies, err = l.lib.NewStream(l.least); err != nil {
		return err
	}
	if l.signals, err = l.lib.NewStream(l.most); err != nil {
		return err
	}
	if err = l.trySignals(); err != nil {
		return err
	}
	if l.parts, err = newPartitions(l.lib, l.dev, l.main, l.cfg.Masks, l.runsOn); err != nil {
		return err
	}
	l.lanes = map[laneKey][]*lane{}
	if err = l.warm(); err != nil {
		return err
	}
	if l.cfg.Mode.Hold { // created in advance, so that the first priority launch does not wait for its creation
		n, err := l.lane(laneKey{high: true})
		if err != nil {
			return err
		}
		l.giveBack(n) // returned at once, so that close frees the lane if a later call fails
		if err := l.lib.Wait(n.stream); err != nil {
			return err
		}
		n.settled = true
	}
	if !l.cfg.Timed {
		return nil
	}
	l.start, l.met = time.Now(), nil // times before a reset cannot be compared with later times
	if l.counts.Clock.Step, err = l.timerStep(); err != nil {
		return err
	}
	l.anchor, err = l.anchored()
	return err
}

// close releases everything and returns the first error.
func (l *launcher) close() (first error) {
	note := func(err error) {
		if first == nil && err != nil && l.lost == nil {
			first = err
		}
	}
	l.quiet()
	if l.lost == nil && l.parts != nil {
		note(l.parts.back())
	}
	for _, lanes := range l.lanes {
		for _, n := range lanes {
			note(l.freeLane(n))
		}
	}
	streams := []driver.Stream{l.copies, l.signals}
	for _, s := range streams {
		if s != 0 && l.lost == nil { // after an error, kernels of the warm-up or of a measurement may still run
			note(l.lib.Wait(s))
		}
	}
	for _, n := range l.nets {
		if first != nil || l.lost != nil { // a stream that did not finish may use this memory, so the reset frees it
			break
		}
		for _, at := range []driver.Ptr{n.weights, n.slots} {
			if at != 0 {
				note(l.lib.Free(at))
			}
		}
		note(l.freePages(n))
	}
	for _, s := range streams {
		if s != 0 {
			note(l.lib.FreeStream(s))
		}
	}
	if l.parts != nil && !l.stuck {
		note(l.parts.close())
	}
	if first == nil && l.lost == nil { // after an error, kernels may still run
		note(l.unloadKernels())
	}
	if l.main != 0 {
		if first != nil || l.lost != nil {
			_ = l.lib.Reset(l.dev) // frees the remaining memory; fails if others use the context
		}
		if l.lib.Contextless() { // the release of the device does not free the kernels
			_ = l.unloadKernels()
		}
		note(l.lib.SetCurrent(0))
		if err := l.lib.Release(l.dev); err != nil {
			note(err)
			_ = l.lib.Reset(l.dev) // free at least the content of the context
		}
	}
	return first
}

// unloadKernels unloads all kernels. Kernels that cannot be unloaded remain in the list for another attempt.
func (l *launcher) unloadKernels() (first error) {
	var left []driver.Module
	for _, m := range append(l.limited, l.module) {
		if m == 0 {
			continue
		}
		if err := l.lib.Unload(m); err != nil {
			left = append(left, m)
			if first == nil {
				first = err
			}
		}
	}
	l.limited, l.module = left, 0
	return first
}

// reset destroys everything in the context and rebuilds it. Samples keep their slots and inputs.
func (l *launcher) reset() error {
	gone := fmt.Errorf("%w: reset", device.ErrReset)
	if l.lost == nil {
		l.lost = gone
	}
	l.failAll(&device.Failure{Scope: device.LoseDevice, Err: gone})
	for _, lanes := range l.lanes {
		for _, n := range lanes {
			_ = l.freeLane(n) // pinned memory; the rest is freed with the context
		}
	}
	l.lanes = nil
	if l.parts != nil && !l.stuck {
		_ = l.parts.close() // each partition keeps the context alive
	}
	err := l.lib.Reset(l.dev)
	if err == nil && l.lib.Contextless() {
		err = l.unloadKernels()
	}
	if err == nil { // old handles are invalid after a reset
		l.parts, l.module, l.copies, l.signals, l.stuck = nil, 0, 0, 0, false
		l.limited, l.proxies = nil, nil
		for _, n := range l.nets {
			n.weights, n.slots, n.pages = 0, 0, nil
		}
		// The primary context remains valid, but its handle may change.
		if l.main != 0 {
			err = l.lib.Release(l.dev)
		}
	}
	if err == nil {
		l.main = 0
		l.main, err = l.lib.Retain(l.dev)
	}
	if err == nil {
		l.lost = nil
	}
	if err == nil {
		err = l.furnish()
	}
	for _, n := range l.nets {
		if err == nil {
			err = l.install(n)
		}
	}
	for _, s := range l.samples {
		s.in = false
		if err == nil {
			err = l.stage(nil, s)
		}
	}
	if err == nil {
		err = l.lib.Wait(l.copies)
	}
	for err == nil && l.lost == nil && len(l.staged) > 0 {
		l.step()
	}
	if err == nil { // an input's copy may have failed
		err = l.lost
	}
	if err != nil {
		if l.lost == nil {
			l.lost = err
		}
		return &device.Failure{Scope: device.LoseDevice, Err: fmt.Errorf("%w: reset %s: %w", device.ErrReset, l.info.Name, err)}
	}
	return nil
}
