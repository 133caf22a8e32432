// Faults that were found in real time, a test each.

package engine_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/engine"
	"github.com/sluice-npu/sluice/host/engine/enginetest"
	"github.com/sluice-npu/sluice/host/sched"
)

// parts is a driver of two partitions, of which one is lost at its third launch.
type parts struct {
	enginetest.Fake
	mu     sync.Mutex
	runs   int
	n      int
	beside int // resets under launches
}

func (p *parts) Info() device.Info {
	i := p.Fake.Info()
	i.Places, i.Units = 2, 2
	return i
}

func (p *parts) Run(ctx context.Context, l *device.Launch) (*device.Report, error) {
	p.mu.Lock()
	p.runs++
	p.n++
	n := p.n
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.runs--
	}()
	if n%9 == 3 {
		return nil, &device.Failure{Scope: device.LosePartition, Err: errors.New("a partition")}
	}
	time.Sleep(time.Millisecond)
	return p.Fake.Run(ctx, l)
}

func (p *parts) Reset(ctx context.Context) error {
	for range 4 { // launches that begin meanwhile are seen too
		p.mu.Lock()
		if p.runs > 0 {
			p.beside++
		}
		p.mu.Unlock()
		time.Sleep(time.Millisecond)
	}
	return p.Fake.Reset(ctx)
}

// halves launches on each of a device's two units.
type halves struct{}

func (halves) Name() string { return "halves" }

func (halves) Decide(_ sched.Time, s *sched.State, _ *sched.Event, buf []sched.Action) []sched.Action {
	d := &s.Devices[0]
	n, free := s.Queue.Len(), d.Free()
	for i := range 2 {
		u := device.UnitRange(i, 1)
		held := d.Down || !free.Has(i)
		for _, l := range d.Launches {
			held = held || l.Units.Meets(u)
		}
		if !held && n > 0 {
			buf = append(buf, sched.Action{Kind: sched.Launch, Network: enginetest.Network, Last: 1, Count: 1, Units: u, Exclusive: true})
			n--
		}
	}
	return buf
}

// A driver with blocking calls cannot reset a part. A lost partition is a lost device, and its reset runs beside no
// launch.
func TestAResetRunsAlone(t *testing.T) {
	tab := table(t, enginetest.Linear(2, 8, 1000, 1000))
	for how, serve := range both() {
		p := &parts{}
		p.T = tab
		cfg := config(tab, halves{}, make([]int64, 40), 60e9, func(int) int { return 1 })
		cfg.Devices = adapt(p)
		cfg.Watchdog.Least = 60e9
		res, err := serve(context.Background(), cfg)
		if err != nil {
			t.Fatalf("%s: %v", how, err)
		}
		if s := res.Summary(); p.beside > 0 || s.Faults < 4 || int64(p.Resets) != s.Resets || s.Resets == 0 || p.Used() != 0 || s.OnTime+s.Errors != 40 {
			t.Errorf("%s: %d resets beside launches; %+v, %d resets, %d slots", how, p.beside, s, p.Resets, p.Used())
		}
	}
}

// tapped reports the launches whose end has been posted.
type tapped struct {
	*device.Adapter
	posted chan struct{}
}

func (d *tapped) Attach(ctx context.Context, post func(device.Event)) <-chan struct{} {
	return d.Adapter.Attach(ctx, func(ev device.Event) {
		post(ev)
		if ev.Kind == device.Passed {
			d.posted <- struct{}{}
		}
	})
}

// spoiler makes an error at a cancel; the end of a launch has been posted after it.
type spoiler struct {
	sched.Serial
	second func()
}

func (*spoiler) Name() string { return "spoiler" }

func (p *spoiler) Decide(now sched.Time, s *sched.State, ev *sched.Event, buf []sched.Action) []sched.Action {
	switch {
	case ev.Kind == sched.Arrival && ev.Request == 2:
		p.second()
		return buf
	case ev.Kind == sched.Cancel:
		return append(buf, sched.Action{Kind: sched.Merge})
	}
	return p.Serial.Decide(now, s, ev, buf)
}

// Answers of a device after the message at which a policy fails are still handled: no slot stays in use, and the
// device is not blamed.
func TestAPolicysErrorLosesNoAnswer(t *testing.T) {
	tab := table(t, enginetest.Linear(1, 8, 1000, 1000))
	p := &spoiler{}
	cfg := config(tab, p, nil, 0, func(int) int { return 0 })
	f := driver(cfg).(*enginetest.Fake)
	running, end := make(chan struct{}), make(chan struct{})
	f.Delay = func(context.Context, int64) error {
		close(running)
		<-end
		return nil
	}
	dev := &tapped{device.Adapt(f), make(chan struct{}, 1)}
	cfg.Devices, cfg.Source, cfg.Watchdog.Least, cfg.Grace = []device.Device{dev}, nil, 60e9, time.Minute
	srv, err := engine.NewServer(cfg)
	if err != nil {
		t.Fatal(err)
	}
	p.second = func() {
		_ = srv.Cancel(context.Background(), 2)
		close(end)
		<-dev.posted
	}
	var clients sync.WaitGroup
	clients.Go(func() {
		_ = srv.Submit(context.Background(), &sched.Task{ID: 1, Network: enginetest.Network})
		<-running
		_ = srv.Submit(context.Background(), &sched.Task{ID: 2, Network: enginetest.Network})
	})
	_, err = srv.Run(context.Background())
	clients.Wait()
	if !errors.Is(err, engine.ErrPolicy) || errors.Is(err, engine.ErrDevice) || f.Used() != 0 {
		t.Errorf("%v, %d slots are taken", err, f.Used())
	}
}

// slowCopy holds an input until its context ends.
type slowCopy struct {
	device.Blocking
	began chan struct{}
}

func (s *slowCopy) Admit(ctx context.Context, _ string, _ device.RequestID, _ []device.Tensor) error {
	close(s.began)
	<-ctx.Done()
	return ctx.Err()
}

// unresettable refuses its first launch and every reset.
type unresettable struct {
	*chip
	refused chan struct{}
}

func (u *unresettable) Begin(ctx context.Context, now device.Time, w *device.Work) (bool, error) {
	switch w.Kind {
	case device.Run:
		return false, errors.New("refused")
	case device.Reset:
		close(u.refused)
		return false, errors.New("no reset")
	}
	return u.chip.Begin(ctx, now, w)
}

// instant is a chip that loads and unloads in no time.
type instant struct{ *chip }

func (d instant) Begin(ctx context.Context, now device.Time, w *device.Work) (bool, error) {
	if w.Kind == device.Unload {
		return true, nil
	}
	return d.chip.Begin(ctx, now, w)
}

// unloadAndErr unloads a network and errs in the same answer.
type unloadAndErr struct{ sched.Serial }

func (unloadAndErr) Decide(_ sched.Time, s *sched.State, _ *sched.Event, buf []sched.Action) []sched.Action {
	return append(buf, sched.Action{Kind: sched.Unload, Network: s.Devices[0].Hosted[0].Network}, sched.Action{Kind: sched.Merge})
}

// A run that ends early waits only for devices that do not stop. The grace period is an hour here. None of it is spent
// on a copy that obeys its context, or on work that has ended but was not reported.
func TestAnEarlyEndWaitsForNothing(t *testing.T) {
	tab := table(t, enginetest.Linear(2, 8, 1000, 1000))
	end := func(name string, cfg engine.Config, when <-chan struct{}, want error) {
		t.Helper()
		cfg.Grace, cfg.Watchdog.Least = time.Hour, 60e9
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		if when != nil {
			go func() {
				<-when
				cancel()
			}()
		}
		res, err := engine.Serve(ctx, cfg)
		if !errors.Is(err, want) || errors.Is(err, engine.ErrDevice) {
			t.Errorf("%s: %v", name, err)
		}
		if err := res.Check(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	cfg := config(tab, sched.Serial{}, []int64{0}, 60e9, func(int) int { return 1 })
	slow := &slowCopy{driver(cfg), make(chan struct{})}
	cfg.Devices = adapt(slow)
	end("a copy that heeds its context", cfg, slow.began, context.Canceled)

	c := newChip("chip", 1, false)
	cfg = family(t, []*chip{c}, []int64{0}, sched.Serial{})
	cfg.Networks = cfg.Networks[:1]
	refusing := &unresettable{c, make(chan struct{})}
	cfg.Devices, cfg.ResetCost = []device.Device{refusing}, int64(time.Hour)
	end("a reset that was refused", cfg, refusing.refused, context.Canceled)

	c = newChip("chip", 1, false)
	cfg = family(t, []*chip{c}, []int64{0}, unloadAndErr{})
	cfg.Networks = cfg.Networks[:1]
	cfg.Devices = []device.Device{instant{c}}
	end("an unload that took no time", cfg, nil, engine.ErrPolicy)
}

// stiff obeys only its context.
type stiff struct {
	device.Virtual
	began func()
}

func (s *stiff) Attach(ctx context.Context, _ func(device.Event)) <-chan struct{} {
	gone := make(chan struct{})
	go func() {
		<-ctx.Done()
		time.Sleep(time.Millisecond)
		close(gone)
	}()
	return gone
}

func (s *stiff) Begin(_ context.Context, _ device.Time, w *device.Work) (bool, error) {
	if w.Kind == device.Copy {
		return true, nil
	}
	s.began()
	return false, nil
}

func (*stiff) Abort(device.Time, device.WorkID, bool) {}
func (*stiff) Release(device.RequestID)               {}

// A device that ignores an abort, but stops when its context ends, is not blamed.
func TestADeviceThatLetsGoIsNotBlamed(t *testing.T) {
	c := newChip("chip", 1, false)
	cfg := family(t, []*chip{c}, []int64{0}, sched.Serial{})
	cfg.Networks = cfg.Networks[:1]
	ctx := newSpell()
	cfg.Devices, cfg.Grace, cfg.Watchdog.Least = []device.Device{&stiff{c, ctx.over}}, 20*time.Millisecond, 60e9
	if _, err := engine.Serve(ctx, cfg); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, engine.ErrDevice) {
		t.Error(err)
	}
}

// reuser always returns the same report, as the contract allows, at two places.
type reuser struct {
	enginetest.Fake
	rep device.Report
}

func (r *reuser) Info() device.Info {
	i := r.Fake.Info()
	i.Places = 2
	return i
}

func (r *reuser) Run(ctx context.Context, l *device.Launch) (*device.Report, error) {
	rep, err := r.Fake.Run(ctx, l)
	if err != nil {
		return nil, err
	}
	for i := range r.rep.Results { // a late reader sees wrong values
		r.rep.Results[i].Request = 0
		clear(r.rep.Results[i].Exits[0].Raw)
	}
	r.rep.Results = append(r.rep.Results[:0], rep.Results...)
	r.rep.Ns, r.rep.Cycles = rep.Ns, rep.Cycles
	return &r.rep, nil
}

// A driver may reuse its report at its next launch. With two places that begins before the previous report is read.
func TestReportsAreCloned(t *testing.T) {
	tab := table(t, enginetest.Linear(1, 8, 1000, 1000))
	cfg := config(tab, several{}, []int64{0, 500, 700, 1500, 1600}, 60e9, func(int) int { return 0 })
	r := &reuser{}
	r.T = tab
	cfg.Devices = adapt(r)
	res := run(t, cfg)
	if s := res.Summary(); s.Faults != 0 || s.OnTime != 5 || len(r.Runs) != 5 {
		t.Errorf("%+v", s)
	}
	for i := range res.Records {
		if r := &res.Records[i]; r.Logits != engine.HashLogits([]int16{int16(r.Class), int16(r.Exit)}) {
			t.Errorf("request %d: the logits are another's", r.ID)
		}
	}
}

// Inputs of a virtual device are not read on the engine's goroutine: meanwhile tasks are accepted, and another
// device's requests are served.
func TestPacedInputsStallNobody(t *testing.T) {
	chips := []*chip{newChip("a", 1, false), newChip("b", 1, false)}
	cfg := family(t, chips, []int64{0, 1}, sched.Serial{})
	cfg.Networks, cfg.Watchdog = cfg.Networks[:1], engine.Watchdog{Least: 60e9, Other: 60e9}
	cfg.Source = &items{list: []sched.Item{
		{At: 1, Task: &sched.Task{ID: 1, Network: "large@1"}}, {At: 2, Task: &sched.Task{ID: 2, Network: "large@1"}},
	}}
	other := make(chan struct{})
	cfg.Inputs = func(r *sched.Request) ([]device.Tensor, error) {
		if r.ID == 1 {
			<-other // only the second device releases it
		}
		return []device.Tensor{device.Words("x", []int16{1}, 1)}, nil
	}
	cfg.Observer = &onEnd{f: func(*engine.Record) {
		select {
		case <-other:
		default:
			close(other)
		}
	}}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	res, err := engine.Serve(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if s := res.Summary(); s.OnTime != 2 || res.Records[0].Ended < res.Records[1].Ended {
		t.Errorf("%+v", res.Records)
	}
	checkChips(t, chips, res)
}

// onEnd records the endings of requests.
type onEnd struct {
	engine.NopObserver
	f func(*engine.Record)
}

func (o *onEnd) Ended(r *engine.Record, _ *device.ExitResult) { o.f(r) }

// deafDriver counts concurrent resets; they exceed their limit and ignore their context.
type deafDriver struct {
	enginetest.Fake
	mu       sync.Mutex
	in, most int
}

func (s *deafDriver) Reset(ctx context.Context) error {
	s.mu.Lock()
	s.in++
	s.most = max(s.most, s.in)
	s.mu.Unlock()
	time.Sleep(40 * time.Millisecond)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.in--
	return s.Fake.Reset(ctx)
}

// A reset that takes too long is repeated, but not concurrently.
func TestResetsFollowEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tab := table(t, enginetest.Linear(1, 8, 1000, 1000))
		s := &deafDriver{}
		s.T = tab
		cfg := config(tab, sched.Serial{}, []int64{0}, 60e9, func(int) int { return 0 })
		cfg.Devices = adapt(&enginetest.Faulty{Blocking: s, Fail: func(n int) bool { return n == 0 }})
		cfg.Watchdog.Least, cfg.Watchdog.Other, cfg.Resets = 60e9, 10e6, 4
		res, err := engine.Serve(context.Background(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		if s.most != 1 || res.Resets != 4 {
			t.Errorf("%d resets, %d of them at the same time", res.Resets, s.most)
		}
	})
}

// full is a driver that refuses to unload network a while a sample of it is admitted. A copy for b waits until it is
// released.
type full struct {
	enginetest.Fake
	held    chan struct{} // a copy for b holds the queue
	let     chan struct{}
	mu      sync.Mutex
	there   map[string]int // samples
	unloads []error
}

func (u *full) Admit(ctx context.Context, network string, id device.RequestID, in []device.Tensor) error {
	if network == "b" {
		close(u.held)
		<-u.let
	}
	u.mu.Lock()
	u.there[network]++
	u.mu.Unlock()
	return u.Fake.Admit(ctx, network, id, in)
}

func (u *full) Unload(context.Context, string) error {
	var err error
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.there["a"] > 0 {
		err = errors.New("samples are admitted")
	}
	u.unloads = append(u.unloads, err)
	return err
}

func (u *full) Release(id device.RequestID) {
	u.Fake.Release(id)
	u.mu.Lock()
	defer u.mu.Unlock()
	if id == 1 {
		u.there["a"]--
	}
}

// swapper serves a, meanwhile copies an input of b, and unloads a when its request has left.
type swapper struct{ let chan struct{} }

func (*swapper) Name() string { return "swapper" }

func (p *swapper) Decide(_ sched.Time, _ *sched.State, ev *sched.Event, buf []sched.Action) []sched.Action {
	switch {
	case ev.Kind == sched.Arrival && ev.Request == 1:
		return append(buf, sched.Action{Kind: sched.Launch, Network: "a", Last: 0, Count: 1})
	case ev.Kind == sched.Arrival && ev.Request == 2:
		return append(buf, sched.Action{Kind: sched.Assign, Network: "b", Requests: []device.RequestID{2}})
	case ev.Kind == sched.SegmentDone && ev.Launch == 1:
		time.AfterFunc(20*time.Millisecond, func() { close(p.let) }) // a wrong, overtaking unload would have come by then
		return append(buf, sched.Action{Kind: sched.Unload, Network: "a"})
	case ev.Kind == sched.Copied && ev.Request == 2:
		return append(buf, sched.Action{Kind: sched.Launch, Network: "b", Last: 0, Count: 1, Assigned: true})
	}
	return buf
}

// An unload comes after earlier releases, although these wait for a copy.
func TestUnloadsKeepTheirPlace(t *testing.T) {
	tab := table(t, enginetest.Linear(1, 8, 1000, 1000))
	u := &full{held: make(chan struct{}), let: make(chan struct{}), there: map[string]int{}}
	u.T = tab
	u.Delay = func(_ context.Context, _ int64) error {
		<-u.held // the first launch ends behind the second copy
		return nil
	}
	cfg := config(tab, &swapper{let: u.let}, nil, 0, func(int) int { return 0 })
	cfg.Devices, cfg.Watchdog.Least = adapt(u), 60e9
	cfg.Networks = []engine.Network{{Name: "a", Tables: []*sched.Table{tab}}, {Name: "b", Tables: []*sched.Table{tab}}}
	cfg.Source = &items{list: []sched.Item{{At: 1, Task: &sched.Task{ID: 1, Network: "a"}}, {At: 2, Task: &sched.Task{ID: 2, Network: "b"}}}}
	res, err := engine.Serve(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if s := res.Summary(); s.OnTime != 2 || s.Faults != 0 || len(u.unloads) != 1 || u.unloads[0] != nil {
		t.Errorf("%+v, unloads %v", s, u.unloads)
	}
}

// deaf is a plan that ignores its context.
type deaf struct{ until chan struct{} }

func (p deaf) Find(context.Context) any {
	<-p.until
	return nil
}

func (deaf) Cost() sched.Time { return 1 }

// planning requests a plan at its first call, and reports that at the next.
type planning struct {
	sched.Serial
	plan  deaf
	asked chan struct{}
	once  sync.Once
}

func (p *planning) Decide(now sched.Time, s *sched.State, ev *sched.Event, buf []sched.Action) []sched.Action {
	buf = p.Serial.Decide(now, s, ev, buf)
	p.once.Do(func() {
		buf = append(buf, sched.Action{Kind: sched.MakePlan, Plan: p.plan})
		close(p.asked)
	})
	return buf
}

// A plan that ignores its context does not block the return, and its policy is named.
func TestADeafPlanIsLeft(t *testing.T) {
	tab := table(t, enginetest.Linear(1, 8, 1000, 1000))
	p := &planning{plan: deaf{make(chan struct{})}, asked: make(chan struct{})}
	cfg := config(tab, p, []int64{0}, 60e9, func(int) int { return 0 })
	cfg.Grace = 20 * time.Millisecond
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		<-p.asked
		cancel()
	}()
	_, err := engine.Serve(ctx, cfg)
	close(p.plan.until)
	if !errors.Is(err, context.Canceled) || !errors.Is(err, engine.ErrPolicy) || errors.Is(err, engine.ErrDevice) {
		t.Error(err)
	}
}

// The number of unprocessed client calls is limited. Further ones wait as long as their context allows, and are
// rejected when the server has ended.
func TestPostsAreBounded(t *testing.T) {
	tab := table(t, enginetest.Linear(1, 8, 1000, 1000))
	cfg := config(tab, sched.Serial{}, nil, 0, func(int) int { return 0 })
	cfg.Source = nil
	srv, err := engine.NewServer(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	posted := 0
	for err == nil && posted < 1<<20 { // not running yet, so nothing is processed
		if err = srv.Cancel(ended, 7); err == nil {
			posted++
		}
	}
	if !errors.Is(err, context.Canceled) || posted == 1<<20 {
		t.Fatalf("%d posts, then %v", posted, err)
	}
	if err := srv.Submit(ended, &sched.Task{ID: 1, Network: enginetest.Network}); !errors.Is(err, context.Canceled) {
		t.Errorf("a task: %v", err)
	}
	var clients sync.WaitGroup
	for range 8 { // these wait, and are processed when the server runs
		clients.Go(func() {
			if err := srv.Cancel(context.Background(), 7); err != nil {
				t.Error(err)
			}
		})
	}
	go func() {
		clients.Wait()
		srv.Drain()
	}()
	if _, err := srv.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	for range posted + 2 { // none of them waits for room
		if err := srv.Cancel(context.Background(), 7); !errors.Is(err, engine.ErrClosed) {
			t.Fatal(err)
		}
	}
}

// failsLate fails when its context ends, and not for that.
type failsLate struct {
	enginetest.Fake
	began chan struct{}
}

func (f *failsLate) Run(ctx context.Context, _ *device.Launch) (*device.Report, error) {
	close(f.began)
	<-ctx.Done()
	return nil, errors.New("it burns")
}

// A device that fails while a run ends is not reset, as it is not needed any more.
func TestNoResetAtTheEnd(t *testing.T) {
	f := &failsLate{began: make(chan struct{})}
	f.T = table(t, enginetest.Linear(1, 8, 1000, 1000))
	cfg := config(f.T, sched.Serial{}, []int64{0}, 60e9, func(int) int { return 0 })
	cfg.Devices, cfg.Watchdog.Least = adapt(f), 60e9
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		<-f.began
		cancel()
	}()
	res, err := engine.Serve(ctx, cfg)
	if !errors.Is(err, context.Canceled) || errors.Is(err, engine.ErrDevice) || res.Resets != 0 || f.Resets != 0 || f.Used() != 0 {
		t.Errorf("%v; %d resets, %d of them begun, %d slots", err, res.Resets, f.Resets, f.Used())
	}
}
