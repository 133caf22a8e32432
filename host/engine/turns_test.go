package engine_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/sluice-npu/sluice/host/engine"
	"github.com/sluice-npu/sluice/host/engine/enginetest"
	"github.com/sluice-npu/sluice/host/load"
	"github.com/sluice-npu/sluice/host/sched"
)

// costly is serial with slow decisions, once it is switched on.
type costly struct {
	sched.Serial
	cost atomic.Int64
}

func (p *costly) Decide(now sched.Time, s *sched.State, ev *sched.Event, buf []sched.Action) []sched.Action {
	time.Sleep(time.Duration(p.cost.Load()))
	return p.Serial.Decide(now, s, ev, buf)
}

// Cancelling many tickets at once does not delay the end of the context, although each is a decision of the policy, a
// minute in all.
func TestTicketCancelsStarveNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 6000
		p := &costly{}
		s := steadyServer(t, &steady{takes: 60_000_000_000}, p, nil)
		stop, end := running(t, s)
		tickets := make([]*engine.Ticket, n)
		for i := range tickets {
			k, err := s.Open(t.Context(), &engine.Call{Task: sched.Task{Network: enginetest.Network, Theta: 2}})
			if err != nil {
				t.Fatal(err)
			}
			tickets[i] = k
		}
		p.cost.Store(int64(200 * time.Millisecond))
		tickets[0].Cancel()
		time.Sleep(50 * time.Millisecond)
		p.cost.Store(int64(10 * time.Millisecond))
		for _, k := range tickets { // all cancels come while the engine handles the first one
			k.Cancel()
		}
		time.Sleep(200 * time.Millisecond)
		began := time.Now()
		stop()
		if _, err := end(); !errors.Is(err, context.Canceled) {
			t.Errorf("Run: %v", err)
		}
		if d := time.Since(began); d > 5*time.Second+20*time.Millisecond { // the orders to the device, and two decisions
			t.Errorf("Run ended %v after its context", d)
		}
		for _, k := range tickets {
			<-k.Done()
		}
	})
}

// On another clock, everything that is due at once is handled at once, and not one turn per reading. The devices are
// idle here, so nothing else wakes the loop.
func TestAnotherClockTakesInAllThatIsDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 100_000
		fake := &enginetest.Fake{T: table(t, enginetest.Linear(2, 8, 1000, 1000))}
		cfg := config(fake.T, &sched.EDF{}, nil, 1<<40, func(int) int { return 0 })
		cfg.Now = func() sched.Time { return 0 }
		cfg.Source = &load.Open{Times: make([]int64, n), Task: func(int, int64) sched.Task { return sched.Task{Network: "nobody's"} }}
		began := time.Now()
		res, err := engine.Serve(t.Context(), cfg)
		if err != nil || res.Summary().Refused != n {
			t.Fatalf("%v, %+v", err, res.Summary())
		}
		if d := time.Since(began); d > 0 { // with a look every 64 requests it is 16 s
			t.Errorf("%d requests that are due at once took %v", n, d)
		}
	})
}

// A callback that changes the networks of its own server is rejected, like one that submits.
func TestChangesFromACallbackAreRefused(t *testing.T) {
	defer goleak.VerifyNone(t)
	var s *engine.Server
	got := make(chan error, 2)
	s = steadyServer(t, &steady{takes: 1000}, sched.Serial{}, func(c *engine.Config) {
		c.Observer = &onEnd{f: func(*engine.Record) {
			got <- s.RemoveNetwork(context.Background(), "nobody's")
			got <- s.AddNetwork(context.Background(), c.Networks[0], nil)
		}}
	})
	_, end := running(t, s)
	if err := s.Submit(t.Context(), &sched.Task{ID: 1, Network: enginetest.Network}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		select {
		case err := <-got:
			if !errors.Is(err, engine.ErrInside) {
				t.Errorf("from the observer: %v, expected ErrInside", err)
			}
		case <-time.After(10 * time.Second):
			t.Fatal("the observer waits for its own server")
		}
	}
	s.Drain()
	if _, err := end(); err != nil {
		t.Error(err)
	}
	if err := s.RemoveNetwork(t.Context(), enginetest.Network); !errors.Is(err, engine.ErrClosed) {
		t.Errorf("when Run has ended: %v", err)
	}
}

// A hang on an otherwise idle server is noticed at its limit: waiting for it counts as watching.
func TestAHangIsNoticedAtItsLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 1500 * time.Millisecond
		dev := &steady{takes: 1000}
		dev.hang.Store(true)
		hung := make(chan time.Time, 1)
		s := steadyServer(t, dev, sched.Serial{}, func(c *engine.Config) {
			c.Watchdog.Fixed = int64(limit)
			c.Observer = hangs{seen: hung}
		})
		_, end := running(t, s)
		if err := s.Submit(t.Context(), &sched.Task{ID: 1, Network: enginetest.Network}); err != nil {
			t.Fatal(err)
		}
		select {
		case at := <-hung:
			if d := at.Sub(time.Unix(0, dev.hung.Load())); d < limit || d > limit+2*time.Millisecond {
				t.Errorf("noticed after %v, the limit is %v", d, limit)
			}
		case <-time.After(time.Minute):
			t.Fatal("not noticed within a minute")
		}
		s.Drain()
		if _, err := end(); err != nil {
			t.Error(err)
		}
	})
}
