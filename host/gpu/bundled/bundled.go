// Package bundled runs bundles on a simulated GPU. The time of a launch is the simulated time of the kernels that
// host/gpu/cuda would launch. A function (Answers) computes the results. They equal the hardware's results bit for bit.
package bundled

import (
	"context"
	"fmt"
	"sync"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/gpu"
	"github.com/sluice-npu/sluice/host/gpu/cuda"
	"github.com/sluice-npu/sluice/host/gpu/params"
	"github.com/sluice-npu/sluice/hw/abi"
)

// Answers returns a function that computes every exit for an input of a bundle. Several goroutines call this function.
type Answers func(b *bundle.Bundle) (func(words []int16) ([]device.ExitResult, error), error)

// Device is a simulated GPU that runs one launch at a time, as `sluice serve --device cuda` does. It implements
// device.Virtual and device.Preparer.
type Device struct {
	cfg     gpu.Config
	answers Answers

	mu    sync.Mutex
	sim   *gpu.Device
	at    device.Time // latest time of the simulator
	nets  map[string]func([]int16) ([]device.ExitResult, error)
	found map[device.RequestID][]device.ExitResult
}

// New creates a device for a GPU's parameters.
func New(f *params.File, answers Answers) (d *Device, err error) {
	d = &Device{
		cfg:     gpu.Config{Name: "gpu-sim:" + f.Name, Params: f.Params(), SyncNs: f.SyncNs(), MaxBatch: abi.BMax, Places: 1},
		answers: answers, nets: map[string]func([]int16) ([]device.ExitResult, error){}, found: map[device.RequestID][]device.ExitResult{},
	}
	d.sim, err = gpu.Loaded(d.cfg, "streams", nil, nil)
	return d, err
}

// Latency returns the bundle's latency table on the GPU. All segments are timed in one launch, and a table entry is the
// sum of its segments' times. A launch of only some segments takes slightly longer, because its first kernels wait for
// the host.
func (d *Device) Latency(ctx context.Context, b *bundle.Bundle) (table []bundle.LatencyEntry, err error) {
	n := cuda.Simulated(b, &d.cfg.Params, func(device.RequestID, int) device.ExitResult { return device.ExitResult{} })
	for batch := 1; batch <= d.cfg.MaxBatch; batch++ {
		_, segments, err := gpu.Alone(ctx, d.cfg, n, device.Units{}, batch)
		if err != nil {
			return nil, err
		}
		for first := range segments {
			e := bundle.LatencyEntry{Network: n.Name, First: first, Batch: batch}
			for e.Last = first; e.Last < len(segments); e.Last++ {
				e.P50 += segments[e.Last]
				e.P99 = e.P50
				table = append(table, e)
			}
		}
	}
	return table, nil
}

// Info implements device.Device.
func (d *Device) Info() device.Info { return d.sim.Info() }

// Prepare implements device.Preparer: it computes every exit of an input.
func (d *Device) Prepare(_ context.Context, w *device.Work, in []device.Tensor) (err error) {
	defer device.Recover(&err)
	if w.Kind == device.Load {
		return d.load(w)
	}
	words, err := device.WordInput(in)
	if err != nil {
		return err
	}
	d.mu.Lock()
	answer := d.nets[w.Network]
	d.mu.Unlock()
	if answer == nil {
		return fmt.Errorf("%w: network %q is not loaded on %s", device.ErrRequest, w.Network, d.cfg.Name)
	}
	exits, err := answer(words)
	if err != nil {
		return fmt.Errorf("request %d: %w", w.Request, err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.found[w.Request] = exits
	return nil
}

// load loads a network. This takes no time in the simulation, so no request waits for it.
func (d *Device) load(w *device.Work) error {
	b, err := device.ArtefactOf[*bundle.Bundle](w.Artefact, d.cfg.Name)
	if err != nil {
		return err
	}
	answer, err := d.answers(b)
	if err != nil {
		return fmt.Errorf("load %s on %s: %w", w.Network, d.cfg.Name, err)
	}
	n := *w
	n.Artefact = cuda.Simulated(b, &d.cfg.Params, func(id device.RequestID, segment int) device.ExitResult { return d.found[id][segment] })
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, err = d.sim.Begin(context.Background(), d.at, &n); err != nil {
		return fmt.Errorf("load %s on %s: %w", w.Network, d.cfg.Name, err)
	}
	d.nets[w.Network] = answer
	return nil
}

// Begin implements device.Device.
func (d *Device) Begin(ctx context.Context, now device.Time, w *device.Work) (bool, error) {
	switch w.Kind {
	case device.Load:
		return true, d.load(w)
	case device.Copy:
		d.mu.Lock()
		prepared := d.found[w.Request] != nil
		d.mu.Unlock()
		if !prepared { // Prepare is not called in virtual time
			in, err := w.Input()
			if err == nil {
				err = d.Prepare(ctx, w, in)
			}
			if err != nil {
				return false, &device.Failure{Scope: device.LoseLaunch, Err: err}
			}
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.at = max(d.at, now)
	if w.Kind == device.Unload {
		delete(d.nets, w.Network)
	}
	return d.sim.Begin(ctx, d.at, w)
}

// Abort implements device.Device.
func (d *Device) Abort(now device.Time, id device.WorkID, kill bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.at = max(d.at, now)
	d.sim.Abort(d.at, id, kill)
}

// Release implements device.Device.
func (d *Device) Release(id device.RequestID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.found, id)
	d.sim.Release(id)
}

// Next implements device.Virtual.
func (d *Device) Next() (device.Time, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.sim.Next()
}

// Take implements device.Virtual.
func (d *Device) Take(now device.Time) *device.Event {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.at = max(d.at, now)
	return d.sim.Take(now)
}

// Close implements device.Device.
func (d *Device) Close() error { return d.sim.Close() }
