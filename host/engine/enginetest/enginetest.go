// Package enginetest has devices for tests. Each input of a Fake contains the exit at which the request leaves. Faulty
// fails and hangs on demand.
package enginetest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/sched"
)

// Network is the name of the network that a Fake serves.
const Network = "fake"

// Fake is a device with inputs {exit, class}. exit is the exit at which the sample's confidence rises from 0.1 to 0.99;
// class is the result. The durations of segments are in T.
type Fake struct {
	T     *sched.Table
	B     int                                // B_max; 0: 8
	Delay func(context.Context, int64) error // in real time: called with the duration of each segment in ns

	mu     sync.Mutex
	slots  map[device.RequestID][]int16
	Runs   []device.Launch
	Resets int
}

// Info implements device.Blocking.
func (f *Fake) Info() device.Info {
	b := cmp.Or(f.B, 8)
	return device.Info{
		Name: "fake", Label: "simulated", MaxBatch: b, Slots: 2 * b, Places: 1,
		Preempt: device.PreemptExit, ClockHz: 1e9,
	}
}

// Load implements device.Blocking.
func (*Fake) Load(context.Context, device.Artefact) error { return nil }

// Admit implements device.Blocking.
func (f *Fake) Admit(_ context.Context, _ string, id device.RequestID, input []device.Tensor) error {
	in, err := device.WordInput(input)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.slots == nil {
		f.slots = map[device.RequestID][]int16{}
	}
	if _, ok := f.slots[id]; ok || len(f.slots) >= f.Info().Slots || len(in) != 2 {
		return fmt.Errorf("admit %d: it is there already, or no slot is free, or its input is not {exit, class}", id)
	}
	f.slots[id] = in
	return nil
}

// Run implements device.Blocking.
func (f *Fake) Run(ctx context.Context, l *device.Launch) (*device.Report, error) {
	f.mu.Lock()
	kept := *l
	kept.Requests, kept.Theta = slices.Clone(l.Requests), slices.Clone(l.Theta)
	f.Runs = append(f.Runs, kept)
	rep := new(device.Report)
	for i, id := range l.Requests {
		in, ok := f.slots[id]
		if !ok {
			f.mu.Unlock()
			return nil, fmt.Errorf("request %d has no slot", id)
		}
		res := device.Result{Request: id, Taken: -1}
		for s := l.First; s <= l.Last && res.Taken < 0; s++ {
			conf := float32(0.1)
			if s >= int(in[0]) {
				conf = 0.99
			}
			res.Exits = append(res.Exits, device.ExitResult{Exit: s, Class: int(in[1]), Confidence: conf, Raw: []int16{in[1], int16(s)}})
			if conf >= l.Theta[i] || s == f.T.Segments()-1 {
				res.Taken = s
			}
		}
		rep.Results = append(rep.Results, res)
	}
	f.mu.Unlock()
	rep.Ns = f.T.At(l.First, l.Last, len(l.Requests))
	rep.Cycles = uint64(rep.Ns)
	if f.Delay != nil {
		if err := f.Delay(ctx, rep.Ns); err != nil {
			return nil, err
		}
	}
	return rep, nil
}

// Release implements device.Blocking.
func (f *Fake) Release(id device.RequestID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.slots, id)
}

// Used returns the number of slots in use.
func (f *Fake) Used() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.slots)
}

// Reset implements device.Blocking.
func (f *Fake) Reset(context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.Resets++
	return nil
}

// Close implements device.Blocking.
func (*Fake) Close() error { return nil }

// ErrInjected is the error of injected failures.
var ErrInjected = errors.New("injected failure")

// Faulty wraps a device and injects faults. The functions receive the index, from 0, of the call of Run or Reset. A nil
// function injects nothing.
type Faulty struct {
	device.Blocking
	Fail, Hang func(run int) bool
	FailReset  func(reset int) bool
	// If Real is true, a hanging Run returns only when its context ends. If it is false, Run reports the hang at once,
	// like a driver that counts cycles.
	Real bool

	mu           sync.Mutex
	runs, resets int
}

// Run implements device.Blocking.
func (f *Faulty) Run(ctx context.Context, l *device.Launch) (*device.Report, error) {
	f.mu.Lock()
	n := f.runs
	f.runs++
	f.mu.Unlock()
	if f.Hang != nil && f.Hang(n) {
		if !f.Real {
			return nil, fmt.Errorf("run %d: %w", n, device.ErrHang)
		}
		<-ctx.Done()
		return nil, fmt.Errorf("run %d: %w", n, ctx.Err())
	}
	if f.Fail != nil && f.Fail(n) {
		return nil, fmt.Errorf("run %d: %w", n, ErrInjected)
	}
	return f.Blocking.Run(ctx, l)
}

// Unload does nothing if the wrapped device is no device.Unloader.
func (f *Faulty) Unload(ctx context.Context, network string) error {
	if u, ok := f.Blocking.(device.Unloader); ok {
		return u.Unload(ctx, network)
	}
	return nil
}

// Reset implements device.Blocking.
func (f *Faulty) Reset(ctx context.Context) error {
	f.mu.Lock()
	n := f.resets
	f.resets++
	f.mu.Unlock()
	if f.FailReset != nil && f.FailReset(n) {
		return fmt.Errorf("reset %d: %w", n, ErrInjected)
	}
	return f.Blocking.Reset(ctx)
}

// Linear returns a latency table: a segment takes fixed + batch * each ns, and a span takes the sum of its segments.
func Linear(segments, batch int, fixed, each int64) []bundle.LatencyEntry {
	var out []bundle.LatencyEntry
	for first := range segments {
		for last := first; last < segments; last++ {
			for b := 1; b <= batch; b++ {
				t := int64(last-first+1) * (fixed + int64(b)*each)
				out = append(out, bundle.LatencyEntry{Network: Network, Device: "fake", First: first, Last: last, Batch: b, P50: t, P99: t})
			}
		}
	}
	return out
}
