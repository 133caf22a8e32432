// Package cuda implements a GPU as a device of the runtime. NPU bundles run on it layer by layer, with the same results
// as in package golden, bit for bit. A launch can be confined to SMs, stopped inside a kernel, and resumed.
//
//	Begin, Abort ──▶ orders ──▶ launcher, one thread: streams, kernels, events ──▶ driver (libcuda)
//	engine ◀── Passed, Aborted, Done, Failed ──┘
//
// All driver calls come from the launcher's thread, on which the context is current. The launcher queues at most
// Capacity kernels of a launch in a stream, so that little work is lost when the launch is stopped. It polls the
// kernels' events, because C code never calls Go code.
package cuda

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/gpu"
	"github.com/sluice-npu/sluice/host/gpu/cuda/driver"
	"github.com/sluice-npu/sluice/host/gpu/cuda/kernels"
	"github.com/sluice-npu/sluice/host/gpu/sim"
)

// MaxBatch is the maximum number of requests in a launch.
const MaxBatch = kernels.MaxBatch

// Config configures a device. The zero value selects the first GPU and the settings for a server.
type Config struct {
	API      *driver.API // nil: driver.CUDA
	Library  string      // file of the driver; "": the API's default
	Kernels  []byte      // code of the kernels, which the API loads (kernels.Object); nil: the PTX
	GPU      int
	Slots    int // number of samples of each network; 0: 128
	Places   int // maximum number of concurrent launches; 0: 8; at most the number of hardware queues minus two
	Capacity int // maximum number of a launch's kernels in its stream; 0: 4
	// NVML is the file of the monitoring library. "": the system's library, or no library with the fake driver.
	NVML string
	// If Masks is set, partitions are made with stream masks, which the driver's documentation does not describe.
	Masks *Masks
	// If Drain is set, an aborted launch is never killed: it ends when its stream is empty.
	Drain bool
	// Mode is the treatment of other launches when a priority launch arrives (gpu.ModeOf). A mode without a name means
	// "priority", which uses only stream priorities.
	Mode gpu.Mode
	// Params are the GPU's parameters, from which padding estimates kernel times. They are required if Mode pads.
	Params *sim.Params
	// If Through is set, a launch continues after an exit.
	Through bool
	// If Heard is set, the launcher's thread calls it with every order.
	Heard func(gpu.Order)
	// If Spin is set, the launcher does not sleep during work. This shortens latencies by some microseconds.
	Spin bool
	// If Timed is set, the GPU's own clock also measures preemptions. This requires one more copy per preempting
	// launch.
	Timed bool
	// These deliberate faults show that a test of kills can fail. Boolean: the epoch that kernels poll is restored soon
	// after it was changed, as if it were a boolean mark. Short: a launch resumes one kernel too late.
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
	all  sync.WaitGroup // goroutines that prepare inputs

	// progress contains the counters for Progress, by work.
	progress sync.Map
}

// order is a request to the launcher.
type order struct {
	work    *device.Work
	came    time.Time // for a Run: the time of Begin
	input   []int16   // for a Copy: the converted input
	net     *network  // for a Load: the prepared network
	err     error     // error during the preparation of the input or the network
	abort   device.WorkID
	kill    bool
	release device.RequestID
	ask     func(*launcher)
}

// New opens a GPU: driver, context and kernels. If there is no GPU, the error wraps driver.ErrMissing.
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
		return nil, fmt.Errorf("%w: mode %s: it needs kernel profiles, which this GPU does not have", device.ErrRequest, m.Name)
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

// Found lists the GPUs of an API in the API's order. It does not open them.
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

// FakeClock returns the clock of a fake driver (driver.Lib.Clock). nil: the host's clock applies.
func FakeClock(library string) (func() time.Time, error) {
	lib, err := driver.Open(driver.CUDA, library)
	if err != nil {
		return nil, err
	}
	return lib.Clock(), nil
}

// DriverVersion returns the exact version of a GPU's driver, as reported by NVML.
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

// title returns a GPU's name with the API version of its driver.
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

// Name returns the GPU's name with the driver's version.
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

// called reports whether orders are waiting for the launcher.
func (d *Device) called() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.orders) > 0
}

// refuse returns an error that ends one launch and no other work.
func refuse(format string, a ...any) error {
	return &device.Failure{Scope: device.LoseLaunch, Err: fmt.Errorf("%w: "+format, append([]any{device.ErrRequest}, a...)...)}
}

// Begin implements device.Device.
func (d *Device) Begin(_ context.Context, _ device.Time, w *device.Work) (done bool, err error) {
	switch w.Kind {
	case device.Copy: // converting the input may take a while
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
		var b *bundle.Bundle
		drawn, err := device.ArtefactOf[*Drawn](w.Artefact, d.info.Name)
		is := err == nil
		if !is {
			if b, err = device.ArtefactOf[*bundle.Bundle](w.Artefact, d.info.Name); err != nil {
				return false, err
			}
		}
		d.all.Go(func() { // unpacking may take a while
			o := order{work: w}
			if is {
				o.net, o.err = drawn.prepare()
			} else if o.err = b.Validate(); o.err == nil {
				o.net, o.err = prepare(b)
			}
			if o.err == nil && d.cfg.Mode.Pad { // a batch of one; other batches are profiled at their first use
				_, o.err = o.net.profile(1, d.cfg.Params)
			}
			if o.err != nil {
				o.err = fmt.Errorf("load %s: %w: %w", w.Artefact.NetworkName(), device.ErrMismatch, o.err)
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

// words returns the elements of a copy's input.
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

// Progress implements device.Progressive. It returns the number of kernels that have ended, both of this work and of
// launches for which the work waits. So a waiting launch does not look like a hang.
func (d *Device) Progress(id device.WorkID) uint64 {
	if n, ok := d.progress.Load(id); ok {
		return n.(*atomic.Uint64).Load()
	}
	return 0
}

// Close implements device.Device. It stops all running work.
func (d *Device) Close() error {
	d.once.Do(func() { close(d.stop) })
	err, ok := <-d.closed
	if ok {
		close(d.closed)
	}
	return err
}

// scope adds the engine's error scope to a driver error.
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

// nap is the time for which the launcher sleeps between two polls.
const nap = 20 * time.Microsecond
