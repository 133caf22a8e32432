package engine_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/engine"
	"github.com/sluice-npu/sluice/host/engine/enginetest"
	"github.com/sluice-npu/sluice/host/sched"
)

// shelf is a device that counts what it is asked to load and unload; a network named bad cannot be loaded.
type shelf struct {
	device.Virtual
	loads, unloads atomic.Int64
}

func (d *shelf) Begin(ctx context.Context, now device.Time, w *device.Work) (bool, error) {
	switch w.Kind {
	case device.Load:
		d.loads.Add(1)
		if w.Artefact.Network == "bad" {
			return false, errors.New("it does not fit")
		}
	case device.Unload:
		d.unloads.Add(1)
	}
	return d.Virtual.Begin(ctx, now, w)
}

// Networks come and go while others are served: one is served when AddNetwork has returned and no more when RemoveNetwork
// has been called; what was there is served first. A network that one device cannot load is on none.
func TestNetworksComeAndGoWhileServing(t *testing.T) {
	defer goleak.VerifyNone(t)
	devs := []*shelf{}
	s := steadyServer(t, &steady{takes: 20_000}, &sched.EDF{}, func(c *engine.Config) {
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
	if a, b := devs[0].loads.Load(), devs[1].unloads.Load(); a != 6 || b != 5 {
		t.Errorf("%d loads on the first device, expected 6; %d unloads on the second, expected 5", a, b)
	}
	if err := s.AddNetwork(ctx, engine.Network{Name: "late", Tables: []*sched.Table{tab("late", 2), nil}}, nil); !errors.Is(err, engine.ErrClosed) {
		t.Errorf("when Run has ended: %v", err)
	}
}
