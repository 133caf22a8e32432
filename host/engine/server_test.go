package engine_test

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/engine"
	"github.com/sluice-npu/sluice/host/engine/enginetest"
	"github.com/sluice-npu/sluice/host/sched"
)

// steady is a simulator whose segments take a fixed time. Requests with an odd id are confident at the first exit. It
// hangs once, on demand.
type steady struct {
	segments int
	takes    device.Time
	work     *device.Work
	end      device.Time
	hang     atomic.Bool
	stuck    bool
	hung     atomic.Int64 // when it began to hang, in ns of this machine's clock
}

func (*steady) Info() device.Info {
	return device.Info{Name: "steady", Label: "simulated", MaxBatch: 8, Slots: 64, Places: 1, Preempt: device.PreemptExit}
}

func (d *steady) Start(now device.Time, w *device.Work) {
	d.work, d.end = w, now+d.takes
	if d.hang.CompareAndSwap(true, false) {
		d.stuck = true
		d.hung.Store(time.Now().UnixNano())
	}
}

func (d *steady) Next() (device.Time, bool) { return d.end, d.work != nil && !d.stuck }

func (d *steady) Reset(device.Time, device.Units) { d.stuck, d.work = false, nil }

func (d *steady) End(device.Time) *device.Event {
	w := d.work
	d.work = nil
	return w.Passed(w.Launch.Last == d.segments-1, func(id device.RequestID) device.ExitResult {
		return device.ExitResult{Class: int(id), Confidence: float32(id%2) * 0.9, Raw: []int16{int16(id), int16(w.Launch.Last)}}
	})
}

// steadyServer serves a network of two segments on such a device.
func steadyServer(t testing.TB, dev *steady, p sched.Policy, change func(*engine.Config)) *engine.Server {
	t.Helper()
	dev.segments = max(2, dev.segments)
	tab, err := sched.Uniform(enginetest.Network, dev.segments, 8, dev.takes)
	if err != nil {
		t.Fatal(err)
	}
	cfg := engine.Config{
		Devices: []device.Device{device.Simulate(dev)}, Networks: []engine.Network{{Name: enginetest.Network, Tables: []*sched.Table{tab}}},
		Policy: p, Inputs: engine.NoInputs,
	}
	if change != nil {
		change(&cfg)
	}
	s, err := engine.NewServer(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// running runs a server; end waits for it.
func running(t testing.TB, s *engine.Server) (stop context.CancelFunc, end func() (*engine.Result, error)) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	type result struct {
		res *engine.Result
		err error
	}
	done := make(chan result, 1)
	go func() {
		res, err := s.Run(ctx)
		done <- result{res, err}
	}()
	return cancel, func() (*engine.Result, error) {
		select {
		case r := <-done:
			return r.res, r.err
		case <-time.After(time.Minute):
			t.Fatal("Run has not ended within a minute")
			return nil, nil
		}
	}
}

// ticking decides slowly, and sets a timer every millisecond.
type ticking struct {
	sched.Policy
	cost  time.Duration
	asked sched.Time
	came  atomic.Int64
	worst atomic.Int64 // ns by which one came late
}

func (p *ticking) Decide(now sched.Time, s *sched.State, ev *sched.Event, buf []sched.Action) []sched.Action {
	for t := time.Now(); time.Since(t) < p.cost; {
	}
	if p.asked != 0 && ev.Kind == sched.Timer && now >= p.asked {
		p.worst.Store(max(p.worst.Load(), now-p.asked))
		p.came.Add(1)
		p.asked = 0
	}
	if p.asked == 0 {
		p.asked = now + 1_000_000
		buf = append(buf, sched.Action{Kind: sched.Wait, Until: p.asked})
	}
	return p.Policy.Decide(now, s, ev, buf)
}

// flood submits tasks from n goroutines until the server takes no more; stopped waits for them.
func flood(s *engine.Server, n int) (stopped func()) {
	var ids atomic.Uint64
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			for {
				err := s.Submit(context.Background(), &sched.Task{ID: ids.Add(1), Network: enginetest.Network, Theta: 0.1, Deadline: s.Now() + 50_000_000})
				if errors.Is(err, engine.ErrClosed) {
					return
				}
			}
		})
	}
	return all.Wait
}

// Under any load of submissions timers come, a hang is noticed, and Run ends with its context. The bounds are
// generous: if submissions went first, none of this would happen before they end.
func TestSubmittersStarveNobody(t *testing.T) {
	for name, cost := range map[string]time.Duration{"serial": 50 * time.Microsecond, "edf": 0, "clockwork": 0, "fluid+": 0} {
		t.Run(name, func(t *testing.T) {
			defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
			p := &ticking{Policy: named(t, name), cost: cost}
			dev := &steady{takes: 100_000}
			hung := make(chan time.Time, 1)
			s := steadyServer(t, dev, p, func(c *engine.Config) { c.Observer = hangs{seen: hung} })
			stop, end := running(t, s)
			stopped := flood(s, 500)
			time.Sleep(300 * time.Millisecond)
			came := p.came.Load()
			dev.hang.Store(true)
			select {
			case at := <-hung:
				t.Logf("hang noticed after %v", at.Sub(time.Unix(0, dev.hung.Load())))
			case <-time.After(5 * time.Second):
				t.Error("a hang was not noticed within 5 s")
			}
			if came < 10 || time.Duration(p.worst.Load()) > 2*time.Second {
				t.Errorf("%d timers of a millisecond came in 0.3 s, the latest %v late", came, time.Duration(p.worst.Load()))
			}
			began := time.Now()
			stop()
			if _, err := end(); !errors.Is(err, context.Canceled) {
				t.Errorf("Run: %v", err)
			}
			if d := time.Since(began); d > 5*time.Second {
				t.Errorf("Run ended %v after its context", d)
			}
			t.Logf("timers %v late at most, Run ended %v after its context", time.Duration(p.worst.Load()), time.Since(began))
			stopped()
		})
	}
}

// BenchmarkRunEnds is how long after its context Run ends, and how late a timer comes, with 1,000 submitters.
func BenchmarkRunEnds(b *testing.B) {
	for _, name := range []string{"serial", "edf", "clockwork", "fluid", "fluid+"} {
		b.Run(name, func(b *testing.B) {
			var took time.Duration
			var late, pending int64
			for range b.N {
				p := &ticking{Policy: named(b, name)}
				s := steadyServer(b, &steady{takes: 100_000}, p, nil)
				stop, end := running(b, s)
				stopped := flood(s, 1000)
				time.Sleep(time.Second)
				began := time.Now()
				stop()
				res, err := end()
				if !errors.Is(err, context.Canceled) {
					b.Fatal(err)
				}
				took, late = max(took, time.Since(began)), max(late, p.worst.Load())
				pending = max(pending, int64(res.Stream.Endings[engine.Errored]))
				stopped()
			}
			b.ReportMetric(float64(took.Microseconds())/1000, "ms-to-end")
			b.ReportMetric(float64(late)/1e6, "ms-timer-late")
			b.ReportMetric(float64(pending), "pending-at-end")
		})
	}
}

func named(tb testing.TB, name string) sched.Policy {
	tb.Helper()
	p, err := sched.New(name, sched.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

type hangs struct {
	engine.NopObserver
	seen chan time.Time
}

func (h hangs) Fault(f *engine.Fault) {
	if f.Hang {
		select {
		case h.seen <- time.Now():
		default:
		}
	}
}

// lagging is a device whose work ends long before the engine looks again. It reports this only if Post is called, and
// then with a delay, as if its goroutine did not get to run. It has its own clock.
type lagging struct {
	mu    sync.Mutex
	now   engine.Time
	ends  []device.Event
	reads int // of the clock, since it was asked
	post  func(device.Event)
}

func (d *lagging) Info() device.Info {
	return device.Info{Name: "lagging", MaxBatch: 8, Slots: 64, Places: 1, Preempt: device.PreemptExit}
}
func (*lagging) Abort(device.Time, device.WorkID, bool) {}
func (*lagging) Release(device.RequestID)               {}
func (*lagging) Close() error                           { return nil }

func (d *lagging) Attach(_ context.Context, post func(device.Event)) <-chan struct{} {
	d.post = post
	gone := make(chan struct{})
	close(gone)
	return gone
}

// Begin lets a minute pass.
func (d *lagging) Begin(_ context.Context, _ device.Time, w *device.Work) (bool, error) {
	ev := device.Event{Kind: device.Done, Work: w.ID, Over: true}
	if w.Kind == device.Run {
		ev = *w.Passed(w.Launch.Last == 1, func(device.RequestID) device.ExitResult { return device.ExitResult{} })
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ends, d.now = append(d.ends, ev), d.now+60e9
	return false, nil
}

// Next implements device.Poster: it does not know.
func (*lagging) Next() (device.Time, bool) { return 0, false }

// Post lets half a second pass.
func (d *lagging) Post(device.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.reads, d.now = 1, d.now+5e8
}

// Now is the clock; when it has been read twenty times since Post, the device tells.
func (d *lagging) Now() engine.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.reads > 0 {
		if d.reads++; d.reads > 20 {
			for _, ev := range d.ends {
				d.post(ev)
			}
			d.ends, d.reads = nil, 0
		}
	}
	return d.now
}

// A launch or a copy that has ended is not a hang, even if the engine was blocked beyond the limit. The watchdog
// requests its events, and checks again after as long as it was not watching.
func TestAStallIsNoHang(t *testing.T) {
	dev := &lagging{}
	s := steadyServer(t, &steady{takes: 100_000}, sched.Serial{}, func(c *engine.Config) {
		c.Watchdog = engine.Watchdog{Fixed: 1e9, Other: 1e9}
		c.Devices[0], c.Now = dev, dev.Now
	})
	_, end := running(t, s)
	for id := range uint64(2) {
		if err := s.Submit(t.Context(), &sched.Task{ID: id + 1, Network: enginetest.Network, Theta: 2}); err != nil {
			t.Fatal(err)
		}
	}
	s.Drain()
	if res, err := end(); err != nil || res.Hangs > 0 || res.Stream.Endings[engine.OnTime] != 2 {
		t.Errorf("%v, %d hangs, endings %v", err, res.Hangs, res.Stream.Endings)
	}
}

// A client can cancel while the server drains, by id and by ticket.
func TestCancelWhileDraining(t *testing.T) {
	dev := &steady{takes: 200_000_000}
	s := steadyServer(t, dev, sched.Serial{}, func(c *engine.Config) { c.Watchdog.Fixed = 60e9 })
	_, end := running(t, s)
	var tickets []*engine.Ticket
	for range 3 {
		k, err := s.Open(t.Context(), &engine.Call{Task: sched.Task{Network: enginetest.Network, Theta: 2}})
		if err != nil {
			t.Fatal(err)
		}
		tickets = append(tickets, k)
	}
	s.Drain()
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.Cancel(ended, tickets[2].ID()); err != nil { // its caller's context has ended: that is why it cancels
		t.Errorf("cancel while draining: %v", err)
	}
	tickets[1].Cancel()
	tickets[0].Cancel() // it runs
	res, err := end()
	if err != nil || res.Stream.Endings[engine.Cancelled] != 3 || res.Segments > 1 {
		t.Errorf("%v, endings %v, %d segments ran, expected 3 cancelled and one segment at most", err, res.Stream.Endings, res.Segments)
	}
	for _, k := range tickets {
		<-k.Done()
		if got := k.Outcomes()[0].Record.Ending; got != engine.Cancelled {
			t.Errorf("ticket %d: %s", k.ID(), got)
		}
	}
	if err := s.Cancel(t.Context(), 1); !errors.Is(err, engine.ErrClosed) {
		t.Errorf("when Run has ended: %v", err)
	}
	tickets[0].Cancel() // nobody looks at it
}

// A request is found in a long queue and removed at once. The bound is generous: if each removal moved or visited all
// others, this would take minutes.
func TestCancelsAreLinear(t *testing.T) {
	const n = 120_000
	newest := make([]int, n)
	for i := range newest {
		newest[i] = n - 1 - i
	}
	for name, order := range map[string][]int{"newest first": newest, "in any order": rand.New(rand.NewPCG(1, 2)).Perm(n)} {
		var q sched.Queue
		for i := range n {
			q.Push(&sched.Request{ID: device.RequestID(i + 1), Arrived: int64(i), Deadline: int64(i) + 50})
		}
		began := time.Now()
		for _, i := range order {
			if _, ok := q.Remove(device.RequestID(i + 1)); !ok {
				t.Fatalf("request %d of %d is not there", i+1, n)
			}
			if time.Since(began) > 25*time.Second {
				t.Fatalf("%s: %d of %d are left after 25 s", name, q.Len(), n)
			}
		}
		t.Logf("%s: %d in %v", name, n, time.Since(began))
		if q.Len() != 0 {
			t.Fatalf("%d are left", q.Len())
		}
	}
}

// A Submit whose context has ended is rejected, and its task is not served. If the context ends while Submit waits,
// the task is served exactly if Submit says so.
func TestSubmitKeepsItsWord(t *testing.T) {
	dev := &steady{takes: 1000}
	s := steadyServer(t, dev, &ticking{Policy: sched.Serial{}, cost: 20 * time.Microsecond}, nil)
	_, end := running(t, s)
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	for i := range 200 {
		if err := s.Submit(ended, &sched.Task{ID: uint64(i + 1), Network: enginetest.Network}); !errors.Is(err, context.Canceled) {
			t.Fatalf("a context that had ended: %v", err)
		}
	}
	var taken, withdrawn atomic.Int64
	var all sync.WaitGroup
	for g := range 50 {
		all.Go(func() {
			for i := range 40 {
				ctx, cancel := context.WithTimeout(context.Background(), time.Duration(i)*20*time.Microsecond)
				err := s.Submit(ctx, &sched.Task{ID: uint64(1000*(g+1) + i), Network: enginetest.Network})
				cancel()
				switch {
				case err == nil:
					taken.Add(1)
				case errors.Is(err, context.DeadlineExceeded):
					withdrawn.Add(1)
				default:
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	s.Drain()
	res, err := end()
	if err != nil || int64(res.Stream.Requests) != taken.Load() {
		t.Errorf("%v: %d requests were served, %d Submits said so, %d did not", err, res.Stream.Requests, taken.Load(), withdrawn.Load())
	}
	t.Logf("%d served, %d withdrawn", taken.Load(), withdrawn.Load())
}

// A server with the default Keep does not grow.
func TestAServerKeepsCounts(t *testing.T) {
	serve := func(keep engine.Keep) *engine.Result {
		s := steadyServer(t, &steady{takes: 1000}, sched.Serial{}, func(c *engine.Config) { c.Keep = keep })
		_, end := running(t, s)
		for i := range uint64(20) {
			if err := s.Submit(t.Context(), &sched.Task{ID: i + 1, Network: enginetest.Network}); err != nil {
				t.Fatal(err)
			}
		}
		s.Drain()
		res, err := end()
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	if res := serve(engine.AsUsual); len(res.Records)+len(res.Steps)+len(res.Spans) != 0 || res.Stream.Requests != 20 {
		t.Errorf("%d records, %d steps, %d spans of %d requests", len(res.Records), len(res.Steps), len(res.Spans), res.Stream.Requests)
	}
	if res := serve(engine.Everything); len(res.Records) != 20 || len(res.Steps) == 0 || len(res.Spans) == 0 {
		t.Errorf("%d records, %d steps, %d spans", len(res.Records), len(res.Steps), len(res.Spans))
	}
}

// A ticket gives every exit once, as it is passed, then the outcome, and the inputs are its own.
func TestTicket(t *testing.T) {
	dev := &steady{segments: 3, takes: 1000}
	s := steadyServer(t, dev, sched.Serial{}, nil)
	_, end := running(t, s)
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			for range 20 {
				k, err := s.Open(t.Context(), &engine.Call{Task: sched.Task{Network: enginetest.Network, Theta: 0.5, Samples: 2}})
				if err != nil {
					t.Error(err)
					return
				}
				next := []int{0, 0}
				var last [2]engine.Exit
				for e := range k.Exits() {
					if e.Exit != next[e.Sample] || e.Result.Raw[1] != int16(e.Exit) {
						t.Errorf("ticket %d, sample %d: exit %d, %+v, where exit %d is next", k.ID(), e.Sample, e.Exit, e.Result, next[e.Sample])
					}
					next[e.Sample]++
					last[e.Sample] = e
				}
				<-k.Done()
				for i, o := range k.Outcomes() {
					want := 2 // an even id is never sure
					if o.Record.ID%2 == 1 {
						want = 0
					}
					if o.Record.Exit != want || o.Record.Ending != engine.OnTime || o.Record.Sample != i || o.Result.Class != int(o.Record.ID) ||
						last[i].Exit != want || last[i].Result.Class != o.Result.Class || next[i] != want+1 {
						t.Errorf("sample %d: %+v, %+v, last exit %+v, expected exit %d", i, o.Record, o.Result, last[i], want)
					}
				}
			}
		})
	}
	all.Wait()
	if k, err := s.Open(t.Context(), &engine.Call{Task: sched.Task{Network: "nobody's"}}); !errors.Is(err, engine.ErrNetwork) || k != nil {
		t.Errorf("a network that is not there: %v", err)
	}
	if _, err := s.Open(t.Context(), &engine.Call{Task: sched.Task{Network: enginetest.Network, Samples: 2}, Inputs: make([][]device.Tensor, 3)}); !errors.Is(err, engine.ErrSamples) {
		t.Errorf("three inputs for two samples: %v", err)
	}
	s.Drain()
	if res, err := end(); err != nil || res.Stream.Endings[engine.OnTime] != 800 {
		t.Errorf("%v, %v", err, res.Stream.Endings)
	}
}

// Each sample of a call is computed from its own input.
func TestTicketInputs(t *testing.T) {
	fake := &enginetest.Fake{T: table(t, enginetest.Linear(3, 8, 1000, 1000))}
	cfg := engine.Config{
		Devices: []device.Device{device.Adapt(fake)}, Networks: []engine.Network{{Name: enginetest.Network, Tables: []*sched.Table{fake.T}}},
		Policy: sched.Serial{}, Inputs: func(*sched.Request) ([]device.Tensor, error) { return nil, errors.New("not asked") },
	}
	s, err := engine.NewServer(cfg)
	if err != nil {
		t.Fatal(err)
	}
	_, end := running(t, s)
	in := func(exit, class int16) []device.Tensor {
		return []device.Tensor{device.Words("input", []int16{exit, class}, 2)}
	}
	k, err := s.Open(t.Context(), &engine.Call{
		Task:   sched.Task{ID: 7, Network: enginetest.Network, Theta: 0.5, Samples: 2},
		Inputs: [][]device.Tensor{in(2, 41), in(0, 5)},
	})
	if err != nil {
		t.Fatal(err)
	}
	<-k.Done()
	a, b := k.Outcomes()[0].Record, k.Outcomes()[1].Record
	if k.ID() != 7 || a.Exit != 2 || a.Class != 41 || b.Exit != 0 || b.Class != 5 {
		t.Errorf("%+v, %+v", a, b)
	}
	s.Drain()
	if _, err := end(); err != nil {
		t.Error(err)
	}
}

// Do serves a call and returns its outcomes. Its errors are those of Open, and a rejected task is not observed. If
// its context ends later, the task is cancelled.
func TestDo(t *testing.T) {
	dev := &steady{takes: 1000}
	s := steadyServer(t, dev, sched.Serial{}, func(c *engine.Config) {
		c.Admission = func(_ engine.Time, _ *sched.State, t *sched.Task) bool { return t.Priority >= 0 }
		c.Watchdog.Fixed = 600e9
	})
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	var taken atomic.Int64
	call := func(task sched.Task) *engine.Call {
		task.Network, task.Theta = cmp.Or(task.Network, enginetest.Network), 2
		return &engine.Call{Task: task, Taken: func() { taken.Add(1) }}
	}
	soon, over := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer over()
	if _, err := s.Do(soon, call(sched.Task{})); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("before Run, until the context ends: %v", err)
	}
	_, end := running(t, s)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 50 {
				if out, err := s.Do(t.Context(), call(sched.Task{Samples: 2})); err != nil || len(out) != 2 || out[1].Record.Ending != engine.OnTime || out[1].Result == nil {
					t.Errorf("%+v, %v", out, err)
				}
			}
		})
	}
	all.Wait()
	for name, c := range map[string]struct {
		ctx  context.Context
		task sched.Task
		want error
	}{
		"context":  {ended, sched.Task{}, context.Canceled},
		"network":  {t.Context(), sched.Task{Network: "nobody's"}, engine.ErrNetwork},
		"samples":  {t.Context(), sched.Task{Samples: engine.MaxOpen + 1}, engine.ErrSamples},
		"admitted": {t.Context(), sched.Task{Priority: -1}, engine.ErrAdmitted},
	} {
		if out, err := s.Do(c.ctx, call(c.task)); !errors.Is(err, c.want) || out != nil {
			t.Errorf("%s: %v, %v", name, out, err)
		}
	}
	if n := taken.Load(); n != 400 {
		t.Errorf("%d were said to be taken in, of 400", n)
	}
	s.Drain()
	if _, err := s.Do(t.Context(), call(sched.Task{})); !errors.Is(err, engine.ErrClosed) {
		t.Errorf("after Drain: %v", err)
	}
	if res, err := end(); err != nil || res.Stream.Endings[engine.OnTime] != 800 {
		t.Errorf("%v, %v", err, res.Stream.Endings)
	}
}

// A Do is cancelled if its context ends while it waits or runs, and ends with the server if that stops.
func TestDoEnds(t *testing.T) {
	s := steadyServer(t, &steady{takes: 3600e9}, sched.Serial{}, func(c *engine.Config) { c.Watchdog.Fixed, c.Grace = 7200e9, time.Millisecond })
	stop, end := running(t, s)
	ctx, cancel := context.WithCancel(context.Background())
	in := make(chan struct{}, 3)
	do := func(ctx context.Context) <-chan engine.Ending {
		how := make(chan engine.Ending, 1)
		go func() {
			out, err := s.Do(ctx, &engine.Call{Task: sched.Task{Network: enginetest.Network, Theta: 2}, Taken: func() { in <- struct{}{} }})
			if err != nil {
				t.Error(err)
			} else {
				how <- out[0].Record.Ending
			}
			close(how)
		}()
		return how
	}
	runs := do(t.Context())
	<-in
	waits := do(ctx)
	<-in
	cancel()
	if got := <-waits; got != engine.Cancelled {
		t.Errorf("its context ended while it waited: %s", got)
	}
	stop()
	if got := <-runs; got != engine.Errored {
		t.Errorf("the server was stopped while it ran: %s", got)
	}
	if _, err := end(); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// A Do in a callback is rejected. One that is unprocessed when Run ends gets an error.
func TestDoGuards(t *testing.T) {
	var s *engine.Server
	got := make(chan error, 1)
	first := true
	s = steadyServer(t, &steady{takes: 1000}, sched.Serial{}, func(c *engine.Config) {
		c.Admission = func(engine.Time, *sched.State, *sched.Task) bool {
			if first {
				first = false
				_, err := s.Do(context.Background(), &engine.Call{Task: sched.Task{Network: enginetest.Network, Theta: 2}})
				got <- err
			}
			return true
		}
	})
	_, end := running(t, s)
	if _, err := s.Do(t.Context(), &engine.Call{Task: sched.Task{Network: enginetest.Network, Theta: 2}}); err != nil {
		t.Error(err)
	}
	select {
	case err := <-got:
		if !errors.Is(err, engine.ErrInside) {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("Do in a callback hangs")
	}
	s.Drain()
	if _, err := end(); err != nil {
		t.Error(err)
	}
	s = steadyServer(t, &steady{takes: 1000}, sched.Serial{}, nil)
	how := make(chan error, 1)
	go func() {
		_, err := s.Do(context.Background(), &engine.Call{Task: sched.Task{Network: enginetest.Network, Theta: 2}})
		how <- err
	}()
	time.Sleep(50 * time.Millisecond)
	over, stop := context.WithCancel(context.Background())
	stop()
	_, _ = s.Run(over)
	select {
	case err := <-how:
		if !errors.Is(err, engine.ErrClosed) {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Error("Do hangs where Run ends before it has looked at it")
	}
}

// A policy that fails at a task's arrival ends the server. The caller learns from Open, Do and Submit that no more
// tasks are accepted, and Taken is not called.
func TestPolicyFailsAtArrival(t *testing.T) {
	for name, ask := range map[string]func(s *engine.Server, c *engine.Call) error{
		"Do":     func(s *engine.Server, c *engine.Call) error { _, err := s.Do(t.Context(), c); return err },
		"Open":   func(s *engine.Server, c *engine.Call) error { _, err := s.Open(t.Context(), c); return err },
		"Submit": func(s *engine.Server, c *engine.Call) error { return s.Submit(t.Context(), &c.Task) },
	} {
		s := steadyServer(t, &steady{takes: 1000}, absurd{}, nil)
		_, end := running(t, s)
		taken := false
		if err := ask(s, &engine.Call{Task: sched.Task{ID: 1, Network: enginetest.Network}, Taken: func() { taken = true }}); !errors.Is(err, engine.ErrClosed) || taken {
			t.Errorf("%s: %v, taken in: %t", name, err, taken)
		}
		if _, err := end(); !errors.Is(err, engine.ErrPolicy) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// absurd is a policy that asks for impossible actions.
type absurd struct{}

func (absurd) Name() string { return "absurd" }

func (absurd) Decide(_ sched.Time, _ *sched.State, _ *sched.Event, buf []sched.Action) []sched.Action {
	return append(buf, sched.Action{Kind: sched.Launch, Network: "nobody's", Count: 1})
}
