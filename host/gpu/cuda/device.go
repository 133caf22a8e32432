// Package cuda is a GPU as a device of the runtime: NPU bundles run on it layer by layer, bit for bit as
// golden says, confined to SMs, stopped in the middle of a kernel and taken up again.
//
//	Begin, Abort ──▶ orders ──▶ launcher, one thread: streams, kernels, events ──▶ driver (libcuda)
//	engine ◀── Passed, Aborted, Done, Failed ──┘
//
// All calls of the driver come from the launcher's thread, which holds the context. It keeps at most
// Capacity kernels of a launch in its stream, so that what is to be given up is little, and looks at
// their events; nothing calls back from C.
package cuda

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/gpu"
	"github.com/sluice-npu/sluice/host/gpu/cuda/driver"
	"github.com/sluice-npu/sluice/host/gpu/cuda/kernels"
	"github.com/sluice-npu/sluice/host/gpu/sim"
)

// MaxBatch is the most requests of a launch.
const MaxBatch = kernels.MaxBatch

// Config is a device. The zero value is the first GPU, as a server wants it.
type Config struct {
	API      *driver.API // nil: driver.CUDA
	Library  string      // the driver's file; "": that of the API
	Kernels  []byte      // what the API loads them from (kernels.Object); nil: the PTX
	GPU      int
	Slots    int // samples of a network; 0: 128
	Places   int // launches at the same time; 0: 8; two fewer than there are hardware queues at most
	Capacity int // kernels of a launch in its stream; 0: 4
	// NVML is the file of the driver's library for monitoring; "": the system's, and none on the fake.
	NVML string
	// Masks: partitions are masks of streams, not what the driver documents; nil: they are not.
	Masks *Masks
	// Drain: a launch that is aborted is awaited to the end of what is in its stream, never killed.
	Drain bool
	// Mode is what is done about launches of priority beside others (gpu.ModeOf); no name: priority, which
	// leaves it to the streams.
	Mode gpu.Mode
	// Params of the GPU, by which kernels are profiled for padding; needed where Mode pads.
	Params *sim.Params
	// Through: a launch runs on through its exits.
	Through bool
	// Heard hears of every order, on the launcher's thread.
	Heard func(gpu.Order)
	// Spin: the launcher never sleeps while work is under way; for latencies in microseconds.
	Spin bool
	// Timed: preemptions are timed by the GPU's own clock too; a copy more at the exit of a launch that preempted.
	Timed bool
	// What breaks, for those who ask whether a check of kills would see it. Boolean: the mark that kernels look at is
	// taken back soon after it is set, as a boolean would be. Short: a launch goes on one kernel later than it should,
	// where it should go back over whole kernels.
	Boolean, Short bool
}

// Device is a GPU. It implements device.Real.
type Device struct {
	cfg  Config
	lib  *driver.Lib
	info device.Info
	name string

	mu     sync.Mutex
	orders []order
	wake   chan struct{}
	stop   chan struct{}
	closed chan error
	once   sync.Once

	post func(device.Event)
	gone chan struct{}
	ctx  context.Context
	all  sync.WaitGroup // goroutines that make inputs

	// Progress, by work: a counter of what it has moved.
	progress sync.Map
}

// order is something for the launcher to do.
type order struct {
	work    *device.Work
	came    time.Time // to Begin: a Run's
	input   []int16   // of a Copy
	net     *network  // of a Load
	err     error     // of making either
	abort   device.WorkID
	kill    bool
	release device.RequestID
	ask     func(*launcher)
}

// New opens a GPU: its driver, its context, the kernels. An error that wraps driver.ErrMissing says that
// there is none.
func New(cfg Config) (*Device, error) {
	if cfg.Slots <= 0 {
		cfg.Slots = 4 * kernels.MaxBatch
	}
	if cfg.Places <= 0 {
		cfg.Places = 8
	}
	if cfg.Mode.Name == "" {
		var err error
		if cfg.Mode, err = gpu.ModeOf("priority"); err != nil {
			return nil, err
		}
	}
	switch m := &cfg.Mode; {
	case m.Beside:
		return nil, fmt.Errorf("%w: mode %s: which kernels bear another beside them is not known of this GPU", device.ErrRequest, m.Name)
	case m.Pad && cfg.Params == nil:
		return nil, fmt.Errorf("%w: mode %s pads: the GPU's parameters are expected", device.ErrRequest, m.Name)
	case cfg.Capacity <= 0 && m.Queue > 0:
		cfg.Capacity = m.Queue
	case cfg.Capacity <= 0:
		cfg.Capacity = 4
	}
	if cfg.API == nil {
		cfg.API = driver.CUDA
	}
	if cfg.Kernels == nil {
		cfg.Kernels = []byte(kernels.PTX)
	}
	lib, err := driver.Open(cfg.API, cfg.Library)
	if err != nil {
		return nil, err
	}
	if err := enoughQueues(lib, cfg.Places); err != nil {
		return nil, err
	}
	d := &Device{cfg: cfg, lib: lib, wake: make(chan struct{}, 1), stop: make(chan struct{}), closed: make(chan error, 1), gone: make(chan struct{})}
	opened := make(chan error)
	go d.launcher(opened)
	if err := <-opened; err != nil {
		return nil, err
	}
	return d, nil
}

// Found says which GPUs an API finds, in its order, without taking anything of them.
func Found(api *driver.API, library string) (titles []string, err error) {
	lib, err := driver.Open(api, library)
	if err != nil {
		return nil, err
	}
	n, err := lib.Count()
	if err != nil {
		return nil, err
	}
	if n == 0 {
		return nil, lib.None()
	}
	for i := range n {
		dev, err := lib.Device(i)
		if err != nil {
			return nil, fmt.Errorf("GPU %d: %w", i, err)
		}
		t, err := title(lib, dev)
		if err != nil {
			return nil, fmt.Errorf("GPU %d: %w", i, err)
		}
		titles = append(titles, t)
	}
	return titles, nil
}

// DriverVersion is the exact one of a GPU's driver, as NVML says it.
func DriverVersion(library, nvml string, gpu int) (string, error) {
	lib, err := driver.Open(driver.CUDA, library)
	if err != nil {
		return "", err
	}
	dev, err := lib.Device(gpu)
	if err != nil {
		return "", err
	}
	bus, err := lib.Bus(dev)
	if err != nil {
		return "", err
	}
	h, err := driver.AskNVML(nvml, bus)
	return h.Driver, err
}

// title is a GPU's name with what its driver serves.
func title(lib *driver.Lib, dev driver.Device) (string, error) {
	name, err := lib.Name(dev)
	if err != nil {
		return "", err
	}
	version, err := lib.Version()
	return fmt.Sprintf("%s, driver for %s", name, version), err
}

// Info implements device.Device.
func (d *Device) Info() device.Info { return d.info }

// Name is the GPU's, with the driver's version.
func (d *Device) Name() string { return d.name }

// Attach implements device.Real.
func (d *Device) Attach(ctx context.Context, post func(device.Event)) <-chan struct{} {
	d.ctx, d.post = ctx, post
	go func() {
		<-ctx.Done()
		d.all.Wait()
		d.give(order{})
	}()
	return d.gone
}

func (d *Device) give(o order) {
	d.mu.Lock()
	d.orders = append(d.orders, o)
	d.mu.Unlock()
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// refuse is an error that loses a launch alone.
func refuse(format string, a ...any) error {
	return &device.Failure{Scope: device.LoseLaunch, Err: fmt.Errorf("%w: "+format, append([]any{device.ErrRequest}, a...)...)}
}

// Begin implements device.Device.
func (d *Device) Begin(_ context.Context, _ device.Time, w *device.Work) (done bool, err error) {
	switch w.Kind {
	case device.Copy: // the input may take its time
		d.all.Go(func() {
			o := order{work: w}
			o.input, o.err = words(w)
			d.give(o)
		})
		return false, nil
	case device.Run:
		if !d.info.Legal(w.Launch.Units) {
			return false, refuse("units %v of %d", w.Launch.Units, d.info.Units)
		}
	case device.Load:
		drawn, _ := w.Artefact.Data.(*Drawn)
		switch k := w.Artefact.Kind; {
		case k == device.ArtefactBundle && w.Artefact.Bundle != nil:
		case k == ArtefactDrawn && drawn != nil:
		default:
			return false, fmt.Errorf("load %s on %s: %w: it is a %q, expected a bundle", w.Artefact.Network, d.info.Name, device.ErrMismatch, k)
		}
		d.all.Go(func() { // unpacking takes its time
			o := order{work: w}
			if w.Artefact.Kind == ArtefactDrawn {
				o.net, o.err = drawn.prepare()
			} else if o.err = w.Artefact.Bundle.Validate(); o.err == nil {
				o.net, o.err = prepare(w.Artefact.Bundle)
			}
			if o.err == nil && d.cfg.Mode.Pad { // of other batches when they come
				_, o.err = o.net.profile(1, d.cfg.Params)
			}
			if o.err != nil {
				o.err = fmt.Errorf("load %s: %w: %w", w.Artefact.Network, device.ErrMismatch, o.err)
			}
			d.give(o)
		})
		return false, nil
	case device.Unload, device.Reset:
	default:
		return false, fmt.Errorf("%w: %s cannot %s", device.ErrRequest, d.info.Name, w.Kind)
	}
	d.give(order{work: w, came: time.Now()})
	return false, nil
}

// words are the elements of a copy's input.
func words(w *device.Work) ([]int16, error) {
	in, err := w.Input()
	if err != nil {
		return nil, err
	}
	if len(in) != 1 {
		return nil, fmt.Errorf("%w: %d input tensors, expected one", device.ErrRequest, len(in))
	}
	return in[0].Int16s()
}

// Abort implements device.Device.
func (d *Device) Abort(_ device.Time, id device.WorkID, kill bool) {
	d.give(order{abort: id, kill: kill && !d.cfg.Drain})
}

// Release implements device.Device.
func (d *Device) Release(id device.RequestID) { d.give(order{release: id}) }

// Progress implements device.Progressive: kernels of the work that have ended, and those of others that were in its
// way, so that who waits for its turn is not taken for one that hangs.
func (d *Device) Progress(id device.WorkID) uint64 {
	if n, ok := d.progress.Load(id); ok {
		return n.(*atomic.Uint64).Load()
	}
	return 0
}

// Close implements device.Device. What runs is stopped.
func (d *Device) Close() error {
	d.once.Do(func() { close(d.stop) })
	err, ok := <-d.closed
	if ok {
		close(d.closed)
	}
	return err
}

// scope makes of a driver's error what the engine acts on.
func scope(err error) error {
	switch {
	case err == nil:
		return nil
	case driver.CodeOf(err) == driver.OutOfMemory:
		return &device.Failure{Scope: device.LoseLaunch, Err: fmt.Errorf("%w: %w", device.ErrMemory, err)}
	case driver.Lost(err), errors.Is(err, errAway):
		return &device.Failure{Scope: device.LoseDevice, Err: fmt.Errorf("%w: %w", device.ErrReset, err)}
	}
	if _, ok := errors.AsType[*device.Failure](err); ok {
		return err
	}
	return &device.Failure{Scope: device.LoseLaunch, Err: err}
}

// nap is how long the launcher sleeps between two looks, where it may.
const nap = 20 * time.Microsecond
