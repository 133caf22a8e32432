package engine_test

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/engine"
	"github.com/sluice-npu/sluice/host/engine/enginetest"
	"github.com/sluice-npu/sluice/host/sched"
)

// shelf is a device that counts loads and unloads; a network named bad cannot be loaded.
type shelf struct {
	device.Virtual
	loads, unloads atomic.Int64
}

func (d *shelf) Begin(ctx context.Context, now device.Time, w *device.Work) (bool, error) {
	switch w.Kind {
	case device.Load:
		d.loads.Add(1)
		if w.Network == "bad" {
			return false, errors.New("it does not fit")
		}
	case device.Unload:
		d.unloads.Add(1)
	}
	return d.Virtual.Begin(ctx, now, w)
}

// planCounter is fluid+, and counts the plans that it keeps at a time.
type planCounter struct {
	sched.Policy
	most int
}

func (p *planCounter) Decide(now sched.Time, s *sched.State, ev *sched.Event, buf []sched.Action) []sched.Action {
	buf = p.Policy.Decide(now, s, ev, buf)
	p.most = max(p.most, reflect.ValueOf(p.Policy).Elem().FieldByName("plans").Len())
	return buf
}

// Networks are added and removed while others are served. A network is served after AddNetwork has returned. After
// RemoveNetwork is called, only its earlier requests are served. A network that one device cannot load is on no device.
func TestNetworksComeAndGoWhileServing(t *testing.T) {
	defer goleak.VerifyNone(t)
	devs := []*shelf{}
	policy := &planCounter{Policy: named(t, "fluid+")}
	s := steadyServer(t, &steady{takes: 20_000}, policy, func(c *engine.Config) {
		second := &steady{segments: 2, takes: 20_000}
		devs = append(devs, &shelf{Virtual: c.Devices[0].(device.Virtual)}, &shelf{Virtual: device.Simulate(second)})
		c.Devices = []device.Device{devs[0], devs[1]}
		c.Networks[0].Tables = append(c.Networks[0].Tables, c.Networks[0].Tables[0])
	})
	_, end := running(t, s)
	ctx := t.Context()
	tab := func(name string, segments int) *sched.Table {
		tab, err := sched.Uniform(name, segments, 8, 20_000)
		if err != nil {
			t.Fatal(err)
		}
		return tab
	}
	var stop atomic.Bool
	var all sync.WaitGroup
	for range 4 { // meanwhile
		all.Go(func() {
			for !stop.Load() {
				k, err := s.Open(ctx, &engine.Call{Task: sched.Task{Network: enginetest.Network, Theta: 0.5}})
				if err != nil {
					t.Error(err)
					return
				}
				<-k.Done()
				if r := k.Outcomes()[0].Record; r.Ending != engine.OnTime {
					t.Errorf("meanwhile: %+v", r)
				}
			}
		})
	}
	call := func(name string) (*engine.Ticket, error) {
		return s.Open(ctx, &engine.Call{Task: sched.Task{Network: name, Theta: 0.5}})
	}
	for range 5 {
		if _, err := call("new"); !errors.Is(err, engine.ErrNetwork) {
			t.Fatalf("before it is there: %v", err)
		}
		n := engine.Network{Name: "new", Tables: []*sched.Table{tab("new", 2), tab("new", 2)}}
		if err := s.AddNetwork(ctx, n, []device.Tensor{}); err != nil {
			t.Fatal(err)
		}
		if err := s.AddNetwork(ctx, n, nil); !errors.Is(err, engine.ErrConfig) {
			t.Errorf("a second time: %v", err)
		}
		var tickets []*engine.Ticket
		for range 50 {
			k, err := call("new")
			if err != nil {
				t.Fatal(err)
			}
			tickets = append(tickets, k)
		}
		if err := s.RemoveNetwork(ctx, "new"); err != nil {
			t.Fatal(err)
		}
		for _, k := range tickets {
			select {
			case <-k.Done():
			default:
				t.Fatal("it has gone before its tasks have ended")
			}
			if r := k.Outcomes()[0].Record; r.Ending != engine.OnTime {
				t.Errorf("%+v", r)
			}
		}
	}
	if err := s.RemoveNetwork(ctx, "new"); !errors.Is(err, engine.ErrNetwork) {
		t.Errorf("one that is not there: %v", err)
	}
	if err := s.AddNetwork(ctx, engine.Network{Name: "bad", Tables: []*sched.Table{tab("bad", 2), nil}}, nil); err == nil || !strings.Contains(err.Error(), "it does not fit") {
		t.Errorf("one that does not fit: %v", err)
	}
	if _, err := call("bad"); !errors.Is(err, engine.ErrNetwork) {
		t.Errorf("a task for it: %v", err)
	}
	stop.Store(true)
	all.Wait()
	s.Drain()
	if _, err := end(); err != nil {
		t.Error(err)
	}
	if policy.most > 3 { // a new network has a table on each device
		t.Errorf("fluid+ had %d plans at a time, expected that of the network that stays and two of a new one", policy.most)
	}
	if a, b := devs[0].loads.Load(), devs[1].unloads.Load(); a != 6 || b != 5 {
		t.Errorf("%d loads on the first device, expected 6; %d unloads on the second, expected 5", a, b)
	}
	if err := s.AddNetwork(ctx, engine.Network{Name: "late", Tables: []*sched.Table{tab("late", 2), nil}}, nil); !errors.Is(err, engine.ErrClosed) {
		t.Errorf("when Run has ended: %v", err)
	}
}

// gated is a device whose resets end at the test's command, with its error.
type gated struct {
	enginetest.Faulty
	began  chan struct{} // a reset has
	may    chan error    // how it ends
	unload func() error
	loaded atomic.Int64 // networks, beside the first
}

func (d *gated) Reset(ctx context.Context) error {
	d.began <- struct{}{}
	select {
	case err := <-d.may:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (d *gated) Load(context.Context, device.Artefact) error {
	d.loaded.Add(1)
	return nil
}

func (d *gated) Unload(context.Context, string) error {
	if d.unload != nil {
		if err := d.unload(); err != nil {
			return err
		}
	}
	d.loaded.Add(-1)
	return nil
}

// gates returns a server with such devices; only the first one serves a network from the start.
type gates struct {
	*engine.Server
	t     *testing.T
	tab   *sched.Table
	devs  []*gated
	fails atomic.Bool   // the first device's next launch
	hold  chan struct{} // if set, the launch runs until it is closed
	end   func() (*engine.Result, error)
}

func gatesOf(t *testing.T, n int) *gates {
	s := &gates{t: t, tab: table(t, enginetest.Linear(2, 8, 1000, 1000))}
	cfg := config(s.tab, sched.Serial{}, nil, 0, func(int) int { return 1 })
	cfg.Source, cfg.Devices, cfg.Networks[0].Tables, cfg.ResetCost = nil, nil, make([]*sched.Table, n), 1000
	cfg.Networks[0].Tables[0] = s.tab
	cfg.Watchdog = engine.Watchdog{Least: 60e9, Other: 60e9}
	for range n {
		d := &gated{began: make(chan struct{}, 8), may: make(chan error, 8)}
		d.Blocking = &enginetest.Fake{T: s.tab}
		s.devs = append(s.devs, d)
		cfg.Devices = append(cfg.Devices, device.Adapt(d))
	}
	s.devs[0].Fail = func(int) bool {
		fails := s.fails.Swap(false)
		if fails && s.hold != nil {
			<-s.hold
		}
		return fails
	}
	var err error
	if s.Server, err = engine.NewServer(cfg); err != nil {
		t.Fatal(err)
	}
	_, s.end = running(t, s.Server)
	return s
}

// failing runs a task on the first device that fails and is retried.
func (s *gates) failing() *engine.Ticket {
	s.t.Helper()
	s.fails.Store(true)
	k, err := s.Open(s.t.Context(), &engine.Call{Task: sched.Task{Network: enginetest.Network}})
	if err != nil {
		s.t.Fatal(err)
	}
	return k
}

// resets makes the first device fail, and returns when its reset has begun.
func (s *gates) resets() *engine.Ticket {
	s.t.Helper()
	k := s.failing()
	soon(s.t, s.devs[0].began)
	return k
}

func (s *gates) add(name string, tables ...*sched.Table) error {
	n := engine.Network{Name: name, Tables: tables, Artefacts: make([]device.Artefact, len(tables))}
	for i := range n.Artefacts {
		n.Artefacts[i] = &bundle.Bundle{}
	}
	return s.AddNetwork(s.t.Context(), n, nil)
}

func (s *gates) remove(name string) error { return s.RemoveNetwork(s.t.Context(), name) }

// pending begins a change, and returns when the engine has registered it: then the opposite change is refused.
func (s *gates) pending(change, back func() error) <-chan error {
	s.t.Helper()
	done := make(chan error, 1)
	go func() { done <- change() }()
	for range 10_000 {
		if err := back(); err != nil && strings.Contains(err.Error(), "coming or going") {
			break
		}
		time.Sleep(time.Millisecond)
	}
	select {
	case err := <-done:
		s.t.Fatalf("it ends while the device is being reset: %v", err)
	default:
	}
	return done
}

// loaded fails the test unless a device holds this number of networks.
func (s *gates) loaded(want ...int64) {
	s.t.Helper()
	for i, n := range want {
		if got := s.devs[i].loaded.Load(); got != n {
			s.t.Errorf("device %d holds %d networks, expected %d", i, got, n)
		}
	}
}

// serves runs a task for a network.
func (s *gates) serves(name string) {
	s.t.Helper()
	k, err := s.Open(s.t.Context(), &engine.Call{Task: sched.Task{Network: name}})
	if err != nil {
		s.t.Fatal(err)
	}
	soon(s.t, k.Done())
	if r := k.Outcomes()[0].Record; r.Ending != engine.OnTime {
		s.t.Errorf("a task for %s: %+v", name, r)
	}
}

// soon waits for a result that must come immediately.
func soon[T any](t *testing.T, ch <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-ch:
	case <-time.After(10 * time.Second):
		t.Fatal("nothing comes within 10 s")
	}
	return v
}

// Networks that are added or removed during a device's reset are loaded or unloaded after it, also if the reset comes in
// between.
func TestNetworksWaitForAReset(t *testing.T) {
	s := gatesOf(t, 1)
	add, remove := func() error { return s.add("new", s.tab) }, func() error { return s.remove("new") }
	s.resets()
	done := s.pending(add, remove)
	s.loaded(0)
	s.devs[0].may <- errors.New("not yet")
	soon(t, s.devs[0].began)
	s.devs[0].may <- nil
	if err := soon(t, done); err != nil {
		t.Fatal(err)
	}
	s.loaded(1)
	s.serves("new")

	s.resets()
	done = s.pending(remove, add)
	s.loaded(1)
	s.devs[0].may <- nil
	if err := soon(t, done); err != nil {
		t.Fatal(err)
	}
	s.loaded(0)

	if err := add(); err != nil {
		t.Fatal(err)
	}
	s.hold = make(chan struct{})
	s.failing()
	began, lost := make(chan struct{}), make(chan struct{})
	s.devs[0].unload = func() error { // cut off by the reset
		s.devs[0].unload = nil
		close(began)
		<-lost
		return errors.New("the device is being reset")
	}
	done = s.pending(remove, add)
	soon(t, began)
	close(s.hold)
	soon(t, s.devs[0].began)
	close(lost)
	s.devs[0].may <- nil
	if err := soon(t, done); err != nil {
		t.Error(err)
	}
	s.loaded(0)
	s.Drain()
	if _, err := s.end(); err != nil {
		t.Error(err)
	}
}

// A device that no reset repairs is not awaited: networks are removed from and added to the others.
func TestNetworksLeaveADeviceThatIsGivenUp(t *testing.T) {
	s := gatesOf(t, 2)
	both := func() error { return s.add("new", s.tab, s.tab) }
	if err := both(); err != nil {
		t.Fatal(err)
	}
	waits := s.resets()
	done := s.pending(func() error { return s.remove("new") }, both)
	only := s.pending(func() error { return s.add("only", s.tab, nil) }, func() error { return s.remove("only") })
	for range cap(s.devs[0].may) {
		s.devs[0].may <- errors.New("it is broken")
	}
	if err := soon(t, done); err != nil {
		t.Errorf("remove: %v", err)
	}
	if err := soon(t, only); !errors.Is(err, engine.ErrDevice) {
		t.Errorf("a network for the broken device only, that was waiting: %v, expected ErrDevice", err)
	}
	if err := s.add("late", s.tab, nil); !errors.Is(err, engine.ErrDevice) {
		t.Errorf("a network for the broken device only: %v, expected ErrDevice", err)
	}
	s.loaded(1, 0)
	waits.Cancel() // no device is left for it
	if err := both(); err != nil {
		t.Errorf("add: %v", err)
	}
	s.loaded(1, 1)
	s.serves("new")
	s.Drain()
	if _, err := s.end(); err != nil {
		t.Error(err)
	}
}

// A network that a device cannot unload is served there until it has been removed, and is loaded again when it is added
// again.
func TestANetworkThatCannotBeUnloadedStays(t *testing.T) {
	s := gatesOf(t, 2)
	add := func() error { return s.add("new", s.tab, s.tab) }
	if err := add(); err != nil {
		t.Fatal(err)
	}
	s.devs[0].unload = func() error { return errors.New("the driver is busy") }
	if err := s.remove("new"); err == nil || !strings.Contains(err.Error(), "the driver is busy") {
		t.Errorf("remove: %v", err)
	}
	s.loaded(1, 0)
	s.serves("new")
	s.devs[0].unload = nil
	for _, change := range []func() error{func() error { return s.remove("new") }, add} {
		if err := change(); err != nil {
			t.Error(err)
		}
	}
	s.loaded(1, 1)
	s.serves("new")
	s.Drain()
	if _, err := s.end(); err != nil {
		t.Error(err)
	}
}
