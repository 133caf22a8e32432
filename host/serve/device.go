// Devices. Each device has an engine. The engine's policy schedules all models on the device.

package serve

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/engine"
	"github.com/sluice-npu/sluice/host/sched"
)

// sharing contains the properties that all models on a device have in common.
type sharing struct {
	design uint64
	policy string
	bMax   int
	levels int // number of priority levels; a level must have the same meaning for all models
}

// shared is a device that several models can use.
type shared struct {
	engine.NopObserver
	like   sharing
	users  int           // number of models; guarded by devices.mu
	opened chan struct{} // closed when opening has succeeded or failed; the fields below may be read only after that
	failed error
	name   string
	info   device.Info
	device device.Device
	server *engine.Server
	given  func() bool // reports whether the engine has abandoned its device
	ended  chan struct{}
	ran    error        // why the engine has ended; may be read after ended
	shut   func() error // waits for the requests and closes the device; later calls have no effect

	backlog backlog    // engine events that are not counted yet
	folding sync.Mutex // locked by the goroutine that counts the events
	mu      sync.Mutex
	st      DeviceState
	models  map[string]*Model // models with counted events, by the name of the model's network
}

// devices are the server's devices. Code that has locked mu must not block.
type devices struct {
	mu      sync.Mutex
	all     []*shared // all devices, including devices that are not open yet
	closing []*shared
	gone    sync.WaitGroup // counts the goroutines that close devices in the background
}

// join adds a model to an open device with the same properties (sharing), or to a new device. The argument b is the
// model's bundle under its network name on the device.
func (d *devices) join(ctx context.Context, o *Options, m *Model, b *bundle.Bundle) error {
	like := sharing{b.Design.Hash(), m.set.Policy, m.set.BMax, m.set.Priorities}
	network := engine.Network{Name: m.network, Tables: []*sched.Table{m.table}, Artefacts: []device.Artefact{b}}
	for {
		var err error
		on, opens := d.reserve(like)
		m.on = on
		if opens {
			on.failed = d.open(ctx, o, m, b, on, network)
			close(on.opened)
			return on.failed
		}
		select {
		case <-on.opened:
		case <-ctx.Done():
			if err = context.Cause(ctx); d.release(on) {
				err = errors.Join(err, d.close(on))
			}
			return err
		}
		if on.failed != nil {
			continue // another model's bundle may have caused the failure, so try again
		}
		if err = on.server.AddNetwork(ctx, network, nil); err == nil {
			return nil
		}
		lost := !on.alive() && ctx.Err() == nil
		if err = errors.Join(err, d.leave(m)); !lost {
			return err
		}
	}
}

// reserve returns a device for one more model. If opens is true, the device is new and the caller must open it. reserve
// retires and closes a lost device, because a board's NPU can be opened again only after that. The lost device's models
// have already reported the loss.
func (d *devices) reserve(like sharing) (on *shared, opens bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, on := range slices.Clone(d.all) {
		switch {
		case on.like != like:
		case on.isOpen() && !on.alive():
			d.retire(on)
			d.gone.Go(func() { _ = d.close(on) })
		default:
			on.users++
			return on, false
		}
	}
	on = &shared{like: like, users: 1, opened: make(chan struct{}), ended: make(chan struct{}), models: map[string]*Model{}}
	d.all = append(d.all, on)
	return on, true
}

// release undoes reserve. If last is true, the device has no more users and the caller must close it.
func (d *devices) release(on *shared) (last bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if on.users--; on.users > 0 || !on.isOpen() {
		return false
	}
	d.retire(on)
	return true
}

// open opens a device with its first model.
func (d *devices) open(ctx context.Context, o *Options, m *Model, b *bundle.Bundle, on *shared, network engine.Network) error {
	fail := func(err error) error {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.all = slices.DeleteFunc(d.all, func(x *shared) bool { return x == on })
		return err
	}
	policy, err := sched.New(m.set.Policy, sched.Options{BMax: m.set.BMax})
	if err != nil {
		return fail(err)
	}
	d.mu.Lock()
	before := slices.Clone(d.closing)
	d.mu.Unlock()
	opened, err := o.Open(ctx, b)
	for i := 0; i < len(before) && (errors.Is(err, device.ErrBusy) || errors.Is(err, device.ErrMemory)); i++ { // a closing device may still occupy the hardware
		select {
		case <-before[i].ended:
			_ = d.close(before[i]) // the caller that closes the device receives the error
		case <-ctx.Done():
			return fail(errors.Join(err, context.Cause(ctx)))
		}
		opened, err = o.Open(ctx, b)
	}
	if err != nil {
		return fail(err)
	}
	on.info, on.device = opened.Device.Info(), opened.Device
	on.server, err = engine.NewServer(engine.Config{
		Devices: []device.Device{opened.Device}, Networks: []engine.Network{network},
		Policy: policy, Inputs: engine.NoInputs, Observer: on, Watchdog: opened.Watchdog, ByTable: opened.Timely, Log: o.Log,
	})
	if err != nil {
		return fail(errors.Join(err, opened.Device.Close()))
	}
	on.given = on.server.Gone
	go func() {
		defer close(on.ended)
		_, on.ran = on.server.Run(ctx)
	}()
	on.shut = sync.OnceValue(func() error {
		on.server.Drain()
		<-on.ended
		return errors.Join(on.ran, on.device.Close())
	})
	d.mu.Lock()
	defer d.mu.Unlock()
	on.name = d.unused(on.info.Name)
	on.st = DeviceState{Name: on.name, Label: on.info.Label, Design: b.Design.Name, Policy: m.set.Policy}
	return nil
}

// unused returns an unused name for a device: name, with a number appended if another device has this name.
func (d *devices) unused(name string) string {
	taken := func(name string) bool {
		return slices.ContainsFunc(d.all, func(on *shared) bool { return on.name == name })
	}
	for n, first := 2, name; taken(name); n++ {
		name = fmt.Sprintf("%s#%d", first, n)
	}
	return name
}

func (d *devices) list() (open []*shared) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, on := range d.all {
		if on.isOpen() {
			open = append(open, on)
		}
	}
	return open
}

// leave removes a model from its device after its requests have ended. After the last model, leave closes the device.
func (d *devices) leave(m *Model) error {
	on := m.on
	var err error
	if d.release(on) {
		err = d.close(on)
	} else {
		err = on.server.RemoveNetwork(context.Background(), m.network) // no timeout is needed: the call returns at the latest when the device closes
	}
	on.forget(m)
	gone := func(why error) bool { return errors.Is(err, why) } // these errors mean that the model is no longer on the device
	if err != nil && !gone(context.Canceled) && !gone(engine.ErrClosed) && !gone(engine.ErrNetwork) {
		return fmt.Errorf("close model %s: %w", m.name, err)
	}
	return nil
}

// retire removes a device from the list of devices that models can join.
func (d *devices) retire(on *shared) {
	d.all = slices.DeleteFunc(d.all, func(x *shared) bool { return x == on })
	if !slices.Contains(d.closing, on) {
		d.closing = append(d.closing, on)
	}
}

// close closes a retired device after its requests have ended.
func (d *devices) close(on *shared) error {
	err := on.shut()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closing = slices.DeleteFunc(d.closing, func(x *shared) bool { return x == on })
	return err
}

func (on *shared) isOpen() bool {
	select {
	case <-on.opened:
		return on.failed == nil
	default:
		return false
	}
}

// alive reports whether the engine runs and still uses its device.
func (on *shared) alive() bool {
	select {
	case <-on.ended:
		return false
	default:
		return !on.given()
	}
}

// watch starts counting a model's events.
func (on *shared) watch(m *Model) {
	on.fold()
	on.mu.Lock()
	defer on.mu.Unlock()
	on.models[m.network] = m
}

// forget stops counting a model's events.
func (on *shared) forget(m *Model) {
	on.fold()
	on.mu.Lock()
	defer on.mu.Unlock()
	delete(on.models, m.network)
}

// backlog stores launch and segment events. The engine's goroutine only appends events. Readers count them.
type backlog struct {
	mu     sync.Mutex
	events []event
	ids    []device.RequestID // request IDs of all events, in the order of the events
}

// event is the start of a launch or the end of a segment.
type event struct {
	launch     device.LaunchID
	network    string
	segment    int // -1: the start of a launch
	start, end engine.Time
	size       int
	failed     bool
}

// maxBacklog is the maximum number of uncounted events.
const maxBacklog = 1 << 10

func (h *backlog) add(e event, ids []device.RequestID) (full bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	e.size = len(ids)
	h.events, h.ids = append(h.events, e), append(h.ids, ids...)
	return len(h.events) >= maxBacklog
}

func (h *backlog) take() (events []event, ids []device.RequestID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	events, ids = h.events, h.ids
	h.events, h.ids = nil, nil
	return events, ids
}

// Step implements engine.Observer.
func (on *shared) Step(s *engine.Step) {
	if s.Kind == sched.Launch.String() && on.backlog.add(event{launch: s.Launch, network: s.Network, segment: -1}, s.Requests) {
		on.fold()
	}
}

// Span implements engine.Observer.
func (on *shared) Span(s *engine.Span) {
	if s.Segment < 0 {
		return
	}
	if on.backlog.add(event{launch: s.Launch, network: s.Network, segment: s.Segment, start: s.Start, end: s.End, failed: s.Failed}, s.Requests) {
		on.fold()
	}
}

// fold counts the events in the backlog.
func (on *shared) fold() {
	on.folding.Lock() // this lock keeps the events in order
	defer on.folding.Unlock()
	events, ids := on.backlog.take()
	if events == nil {
		return
	}
	on.mu.Lock()
	defer on.mu.Unlock()
	for _, e := range events {
		samples := ids[:e.size]
		ids = ids[e.size:]
		m := on.models[e.network]
		if e.segment < 0 {
			if m != nil {
				m.watch.began(e.launch, samples)
			}
			continue
		}
		took := time.Duration(e.end - e.start)
		on.st.Batches++
		on.st.Busy += uint64(max(0, took))
		b := Batch{Segment: e.segment, Size: e.size, Start: e.start, End: e.end, Failed: e.failed}
		if m != nil {
			b.Model = m.name + ":" + m.version
			m.watch.batch(e.launch, samples, took)
		}
		on.st.Last = keep(on.st.Last, b, lastBatches)
	}
}

// Fault implements engine.Observer.
func (on *shared) Fault(f *engine.Fault) {
	on.mu.Lock()
	defer on.mu.Unlock()
	on.st.Faults++
	if f.Hang {
		on.st.Hangs++
	}
	if f.Err != nil {
		on.st.Fault = f.Err.Error()
	}
}

// busy returns the device's total time in segments, in ns.
func (on *shared) busy() uint64 {
	on.fold()
	on.mu.Lock()
	defer on.mu.Unlock()
	return on.st.Busy
}

// state returns a copy of the device's state.
func (on *shared) state() DeviceState {
	on.fold()
	on.mu.Lock()
	defer on.mu.Unlock()
	st := on.st
	st.Last = append([]Batch{}, st.Last...)
	st.Models = []string{}
	for _, m := range on.models {
		st.Models = append(st.Models, m.name+":"+m.version)
	}
	slices.Sort(st.Models)
	st.Ready, st.Now = on.alive(), on.server.Now()
	return st
}
