// Devices: each has an engine, whose policy schedules all models on it.

package serve

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/engine"
	"github.com/sluice-npu/sluice/host/sched"
)

// sharing is what models on one device have in common.
type sharing struct {
	design uint64
	policy string
	bMax   int
	levels int // of priority: on one device they mean the same
}

// shared is a device with the models on it.
type shared struct {
	engine.Deaf
	like   sharing
	name   string
	info   device.Info
	device device.Device
	server *engine.Server
	lost   atomic.Bool // the device is gone
	ended  chan struct{}
	ran    error // why the engine has ended; read after ended
	users  int   // models; devices.changing guards it

	mu     sync.Mutex
	st     DeviceState
	models map[string]*Model // that are counted, by their network's name
}

// devices are those of a server.
type devices struct {
	changing sync.Mutex // held while a device is opened or closed
	mu       sync.Mutex
	all      []*shared
}

// join puts a model on a device: on one that is open for such models, or on another one that it opens. b is the model's
// bundle, under the name that it has on devices.
func (d *devices) join(ctx context.Context, o *Options, m *Model, b *bundle.Bundle) error {
	like := sharing{b.Design.Hash(), m.set.Policy, m.set.BMax, m.set.Priorities}
	network := engine.Network{Name: m.network, Tables: []*sched.Table{m.table}, Artefacts: []device.Artefact{b}}
	d.changing.Lock()
	for _, on := range d.list() {
		switch {
		case on.like != like:
		case !on.alive():
			_ = d.close(on) // its models have said so; a board's NPU is opened again only when it has been closed
		default:
			on.users++
			m.on = on
			d.changing.Unlock()
			if err := on.server.AddNetwork(ctx, network, nil); err != nil {
				return errors.Join(err, d.leave(m))
			}
			return nil
		}
	}
	defer d.changing.Unlock()
	policy, err := sched.New(m.set.Policy, sched.Options{BMax: m.set.BMax})
	if err != nil {
		return err
	}
	opened, err := o.Open(ctx, b)
	if err != nil {
		return err
	}
	on := &shared{like: like, device: opened.Device, info: opened.Device.Info(), ended: make(chan struct{}), users: 1, models: map[string]*Model{}}
	on.name = d.unused(on.info.Name)
	on.st = DeviceState{Name: on.name, Label: on.info.Label, Design: b.Design.Name, Policy: m.set.Policy}
	on.server, err = engine.NewServer(engine.Config{
		Devices: []device.Device{opened.Device}, Networks: []engine.Network{network},
		Policy: policy, Inputs: engine.NoInputs, Observer: on, Watchdog: opened.Watchdog, ByTable: opened.Timely, Log: o.Log,
	})
	if err != nil {
		return errors.Join(err, opened.Device.Close())
	}
	go func() {
		defer close(on.ended)
		_, on.ran = on.server.Run(ctx)
	}()
	m.on = on
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all = append(d.all, on)
	return nil
}

// unused is a device's name, with a number where there is another one of that name.
func (d *devices) unused(name string) string {
	taken := func(name string) bool {
		return slices.ContainsFunc(d.list(), func(on *shared) bool { return on.name == name })
	}
	for n, first := 2, name; taken(name); n++ {
		name = fmt.Sprintf("%s#%d", first, n)
	}
	return name
}

func (d *devices) list() []*shared {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.all)
}

// leave takes a model off its device when its requests have ended; the last one closes the device.
func (d *devices) leave(m *Model) error {
	on := m.on
	d.changing.Lock()
	on.users--
	var err error
	if on.users == 0 {
		defer d.changing.Unlock()
		err = d.close(on)
	} else {
		d.changing.Unlock()
		err = on.server.RemoveNetwork(context.Background(), m.network) // it ends with the device at the latest
	}
	on.mu.Lock()
	delete(on.models, m.network)
	on.mu.Unlock()
	gone := func(why error) bool { return errors.Is(err, why) } // it is off the device already
	if err != nil && !gone(context.Canceled) && !gone(engine.ErrClosed) && !gone(engine.ErrNetwork) {
		return fmt.Errorf("close model %s: %w", m.name, err)
	}
	return nil
}

// close ends a device when its requests have ended. It is closed once.
func (d *devices) close(on *shared) error {
	d.mu.Lock()
	i := slices.Index(d.all, on)
	if i >= 0 {
		d.all = slices.Delete(d.all, i, i+1)
	}
	d.mu.Unlock()
	if i < 0 {
		return nil
	}
	on.server.Drain()
	<-on.ended
	return errors.Join(on.ran, on.device.Close())
}

// alive tells whether the engine runs and has its device.
func (on *shared) alive() bool {
	select {
	case <-on.ended:
		return false
	default:
		return !on.lost.Load()
	}
}

// watch counts a model from now on.
func (on *shared) watch(m *Model) {
	on.mu.Lock()
	defer on.mu.Unlock()
	on.models[m.network] = m
}

// Step implements engine.Observer.
func (on *shared) Step(s *engine.Step) {
	if s.Kind != sched.Launch.String() {
		return
	}
	on.mu.Lock()
	defer on.mu.Unlock()
	if m := on.models[s.Network]; m != nil {
		m.watch.began(s.Requests)
	}
}

// Span implements engine.Observer.
func (on *shared) Span(s *engine.Span) {
	if s.Segment < 0 {
		return
	}
	took := time.Duration(s.End - s.Start)
	on.mu.Lock()
	defer on.mu.Unlock()
	on.st.Batches++
	on.st.Busy += uint64(max(0, took))
	b := Batch{Segment: s.Segment, Size: len(s.Requests), Start: s.Start, End: s.End, Failed: s.Failed}
	if m := on.models[s.Network]; m != nil {
		b.Model = m.name + ":" + m.version
		m.watch.batch(s.Requests, took)
	}
	on.st.Last = keep(on.st.Last, b, lastBatches)
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

// busy is for how long the device has run segments, in ns.
func (on *shared) busy() uint64 {
	on.mu.Lock()
	defer on.mu.Unlock()
	return on.st.Busy
}

// state is a copy.
func (on *shared) state() DeviceState {
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
