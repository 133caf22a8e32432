// The end of a server, and rejected calls: faults that a new user found.

package engine_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/engine"
	"github.com/sluice-npu/sluice/host/engine/enginetest"
	"github.com/sluice-npu/sluice/host/sched"
)

const anHour = 3_600_000_000_000

// begin runs a server. ended waits for its end, and fails the test if it does not end.
func begin(t *testing.T, cfg engine.Config) (srv *engine.Server, ended func() (*engine.Result, error)) {
	t.Helper()
	srv, err := engine.NewServer(cfg)
	if err != nil {
		t.Fatal(err)
	}
	var res *engine.Result
	done := make(chan struct{})
	go func() {
		defer close(done)
		res, err = srv.Run(context.Background())
	}()
	return srv, func() (*engine.Result, error) {
		t.Helper()
		select {
		case <-done:
		case <-time.After(time.Minute):
			t.Fatal("Run does not return")
		}
		return res, err
	}
}

// teller reports ended tasks, and calls inside from its callback.
type teller struct {
	engine.NopObserver
	tasks  chan uint64
	inside func(id uint64)
}

func (o *teller) TaskEnded(_ engine.Time, t *sched.Task, _ engine.Ending) {
	if o.inside != nil {
		o.inside(t.ID)
	}
	o.tasks <- t.ID
}

// sleepy behaves as serial from a time on, and sets timers an hour ahead.
type sleepy struct{ from engine.Time }

func (sleepy) Name() string { return "sleepy" }

func (p sleepy) Decide(now sched.Time, s *sched.State, ev *sched.Event, buf []sched.Action) []sched.Action {
	buf = append(buf, sched.Action{Kind: sched.Wait, Until: anHour})
	if now < p.from {
		return append(buf, sched.Action{Kind: sched.Wait, Until: p.from})
	}
	return sched.Serial{}.Decide(now, s, ev, buf)
}

// served is a server's configuration without a source.
func served(t *testing.T, p sched.Policy) (engine.Config, *teller) {
	cfg := config(table(t, enginetest.Linear(2, 8, 1000, 1000)), p, nil, 60e9, func(int) int { return 1 })
	o := &teller{tasks: make(chan uint64, 16)}
	cfg.Source, cfg.Observer, cfg.Watchdog.Least, cfg.Keep = nil, o, 60e9, engine.Everything
	return cfg, o
}

func submit(t *testing.T, srv *engine.Server, id uint64) {
	t.Helper()
	if err := srv.Submit(t.Context(), &sched.Task{ID: id, Network: enginetest.Network}); err != nil {
		t.Fatal(err)
	}
}

// Timers keep a server running only while there are requests for which they may be set.
func TestTimersAloneKeepNothingOpen(t *testing.T) {
	cfg, o := served(t, sleepy{})
	srv, ended := begin(t, cfg)
	submit(t, srv, 1)
	<-o.tasks
	srv.Drain()
	if _, err := ended(); err != nil {
		t.Error(err)
	}
	cfg, _ = served(t, sleepy{from: 50_000_000})
	srv, ended = begin(t, cfg)
	submit(t, srv, 1)
	srv.Drain()
	if res, err := ended(); err != nil || res.Summary().OnTime != 1 {
		t.Errorf("a request that waits for a timer: %v, %+v", err, res.Summary())
	}
	cfg = config(table(t, enginetest.Linear(2, 8, 1000, 1000)), sleepy{}, []int64{0, 1000}, 60e9, func(int) int { return 1 })
	cfg.Watchdog.Least = 60e9
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if res, err := engine.Serve(ctx, cfg); err != nil || res.Summary().OnTime != 2 {
		t.Errorf("Serve: %v", err)
	}
}

// chain has one task, a second an hour later, and another one, with its cancel, after each task that ends.
type chain struct{ next int }

func (c *chain) Next() (engine.Item, bool) {
	c.next++
	return engine.Item{At: engine.Time(c.next-1) * anHour, Task: &sched.Task{ID: uint64(c.next), Network: enginetest.Network}}, c.next < 3
}

func (c *chain) Ended(now engine.Time, t *sched.Task, _ engine.Ending) []engine.Item {
	id := t.ID + 100
	return []engine.Item{{At: now + anHour, Task: &sched.Task{ID: id, Network: enginetest.Network}}, {At: now + 2*anHour, Cancel: id}}
}

// After Drain the server takes no more tasks from its source either.
func TestDrainStopsTheSource(t *testing.T) {
	cfg, o := served(t, sched.Serial{})
	cfg.Source = &chain{}
	srv, ended := begin(t, cfg)
	<-o.tasks
	srv.Drain()
	if res, err := ended(); err != nil || len(res.Records) != 1 {
		t.Errorf("%v; %d records, expected the one that had come", err, len(res.Records))
	}
	cfg, _ = served(t, sleepy{from: 50_000_000}) // tasks that end after Drain create no new ones either
	cfg.Source = &chain{}
	srv, ended = begin(t, cfg)
	submit(t, srv, 7)
	srv.Drain()
	if res, err := ended(); err != nil || res.Summary().OnTime != int64(len(res.Records)) || len(res.Records) > 2 {
		t.Errorf("%v, %+v", err, res.Summary())
	}
}

// Callbacks of the engine must not wait for it: Submit fails at once, and so does Cancel if it would wait.
func TestSubmitFromInside(t *testing.T) {
	cfg, o := served(t, sched.Serial{})
	var srv *engine.Server
	var inside, beside, full, other error
	next, _ := served(t, sched.Serial{})
	behind, last := begin(t, next)
	o.inside = func(id uint64) {
		if id != 1 {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		inside = srv.Submit(ctx, &sched.Task{ID: 2, Network: enginetest.Network})
		for i := 0; full == nil && i < 1<<20; i++ {
			full = srv.Cancel(ctx, 77)
		}
		other = behind.Submit(ctx, &sched.Task{ID: 1, Network: enginetest.Network})
		go func() {
			beside = srv.Submit(context.Background(), &sched.Task{ID: 3, Network: enginetest.Network})
			o.tasks <- 99
		}()
	}
	srv, ended := begin(t, cfg)
	submit(t, srv, 1)
	for id := uint64(0); id != 99; {
		id = <-o.tasks
	}
	srv.Drain()
	_, err := ended()
	behind.Drain()
	if res, err := last(); err != nil || other != nil || res.Summary().OnTime != 1 {
		t.Errorf("another server: %v, %v", other, err)
	}
	if err != nil || beside != nil || inside == nil || errors.Is(inside, context.DeadlineExceeded) || full == nil || errors.Is(full, context.DeadlineExceeded) {
		t.Errorf("Run: %v; from another goroutine: %v; from inside: %v; a cancel for which there is no room: %v", err, beside, inside, full)
	}
}

// A server runs once.
func TestRunTwice(t *testing.T) {
	cfg, _ := served(t, sched.Serial{})
	srv, ended := begin(t, cfg)
	srv.Drain()
	if _, err := ended(); err != nil {
		t.Fatal(err)
	}
	if _, err := srv.Run(t.Context()); !errors.Is(err, engine.ErrClosed) {
		t.Errorf("a second time: %v", err)
	}
}

// Two clocks in one run are refused.
func TestAnotherClockAndPace(t *testing.T) {
	cfg, _ := served(t, sched.Serial{})
	cfg.Now = func() engine.Time { return 0 }
	if _, err := engine.NewServer(cfg); err != nil {
		t.Error(err)
	}
	for name, dev := range map[string]device.Device{"virtual": newChip("x", 2, false), "paced": device.Pace(newChip("x", 2, false))} {
		cfg.Devices = []device.Device{dev}
		if _, err := engine.NewServer(cfg); !errors.Is(err, engine.ErrConfig) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// parter launches on the whole device, and then on a part of it.
type parter struct{}

func (parter) Name() string { return "parter" }

func (parter) Decide(_ sched.Time, s *sched.State, _ *sched.Event, buf []sched.Action) []sched.Action {
	a := sched.Action{Kind: sched.Launch, Network: enginetest.Network, Count: 1}
	if s.Queue.Len() > 0 && len(s.Devices[0].Launches) > 0 {
		a.Units, a.Exclusive = device.UnitRange(0, 1), true
	}
	if s.Queue.Len() > 0 {
		buf = append(buf, a)
	}
	return buf
}

// An error for a whole device says so.
func TestErrorNamesAllUnits(t *testing.T) {
	p := &parts{}
	p.T = table(t, enginetest.Linear(1, 8, 1000, 1000))
	cfg := config(p.T, parter{}, []int64{0, 1}, 60e9, func(int) int { return 0 })
	cfg.Devices = adapt(p)
	if _, err := engine.Run(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "units 0 of device 0, launch 1 holds all units") {
		t.Error(err)
	}
}

// Events that are due at the same time and exceed a turn of the loop are all handled, even if nothing else wakes the
// loop.
func TestMoreDueThanATurnTakes(t *testing.T) {
	cfg, _ := served(t, sched.Serial{})
	src := &items{}
	for id := range uint64(300) {
		src.list = append(src.list, sched.Item{At: 1e6, Task: &sched.Task{ID: id + 1, Network: enginetest.Network}})
	}
	cfg.Source, cfg.Observer, cfg.Admission = src, nil, func(engine.Time, *sched.State, *sched.Task) bool { return false }
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if res, err := engine.Serve(ctx, cfg); err != nil || res.Stream.Endings[engine.Refused] != 300 {
		t.Errorf("%v, endings %v", err, res.Stream.Endings)
	}
}
