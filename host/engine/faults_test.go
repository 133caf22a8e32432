// Faults that were found in the runtime's core, a test each.

package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/engine"
	"github.com/sluice-npu/sluice/host/engine/enginetest"
	"github.com/sluice-npu/sluice/host/load"
	"github.com/sluice-npu/sluice/host/sched"
)

// both are the two kinds of time.
func both() map[string]func(context.Context, engine.Config) (*engine.Result, error) {
	return map[string]func(context.Context, engine.Config) (*engine.Result, error){"run": engine.Run, "serve": engine.Serve}
}

// items is a source of arbitrary items that records how tasks end.
type items struct {
	list  []sched.Item
	empty func() // called when there are no more
	ended map[uint64][]engine.Ending
}

func (s *items) Next() (sched.Item, bool) {
	if len(s.list) == 0 {
		if s.empty != nil {
			s.empty()
		}
		return sched.Item{}, false
	}
	it := s.list[0]
	s.list = s.list[1:]
	return it, true
}

func (s *items) Ended(_ int64, t *sched.Task, how engine.Ending) []sched.Item {
	if s.ended == nil {
		s.ended = map[uint64][]engine.Ending{}
	}
	s.ended[t.ID] = append(s.ended[t.ID], how)
	return nil
}

// A task with an unknown network, a used id, an expired deadline or an impossible number of samples is rejected with
// its reason. All others are served.
func TestTasksAreRefusedSingly(t *testing.T) {
	tab := table(t, enginetest.Linear(2, 8, 20_000, 1000))
	for how, serve := range both() {
		on := enginetest.Network
		src := &items{list: []sched.Item{
			{At: 5, Task: &sched.Task{ID: 1, Network: on, Deadline: 60e9}},
			{At: 6, Task: &sched.Task{ID: 2, Network: "x", Deadline: 60e9}},
			{At: 7, Task: &sched.Task{ID: 1, Network: on, Deadline: 60e9}},
			{At: 8, Task: &sched.Task{ID: 3, Network: on, Deadline: 8}},
			{At: 9, Task: &sched.Task{ID: 4, Network: on, Deadline: 60e9, Samples: -1}},
			{At: 9, Task: &sched.Task{ID: 5, Network: on, Deadline: 60e9, Samples: 1 << 30}},
			{At: 9, Task: &sched.Task{Network: on, Deadline: 60e9}},
			{At: 10, Task: &sched.Task{ID: 6, Network: on}}, // no deadline
		}}
		cfg := config(tab, sched.Serial{}, nil, 0, func(int) int { return 1 })
		cfg.Source, cfg.Watchdog.Least = src, 60e9
		res, err := serve(context.Background(), cfg)
		if err != nil {
			t.Fatalf("%s: %v", how, err)
		}
		if err := res.Check(); err != nil {
			t.Fatal(err)
		}
		want := map[uint64][]engine.Ending{
			0: {engine.Refused}, 1: {engine.Refused, engine.OnTime}, 2: {engine.Refused}, 3: {engine.Refused}, 4: {engine.Refused}, 5: {engine.Refused},
			6: {engine.OnTime},
		}
		if fmt.Sprint(src.ended) != fmt.Sprint(want) {
			t.Errorf("%s: %v, want %v", how, src.ended, want)
		}
		var why []string
		for i := range res.Records {
			if r := &res.Records[i]; r.Ending == engine.Refused {
				why = append(why, r.Why)
			}
		}
		if len(why) != 6 || slices.Contains(why, "") {
			t.Errorf("%s: refused because of %q", how, why)
		}
	}
}

// stubborn ignores its context.
type stubborn struct {
	device.Blocking
	began func()
	until chan struct{}
}

func (s *stubborn) Run(context.Context, *device.Launch) (*device.Report, error) {
	s.began()
	<-s.until
	return nil, errors.New("let go")
}

// When the context of Serve ends, every request ends, no slot stays in use, and the source is informed. A device that
// ignores its context does not block the return, and is named.
func TestServeEndsWhole(t *testing.T) {
	tab := table(t, enginetest.Linear(2, 8, 1000, 1000))
	src := &items{}
	for i := range uint64(20) {
		src.list = append(src.list, sched.Item{At: int64(i), Task: &sched.Task{ID: i + 1, Network: enginetest.Network, Samples: 2}})
	}
	cfg := config(tab, sched.Fluid{}, nil, 0, func(int) int { return 1 })
	fake := driver(cfg).(*enginetest.Fake)
	ctx := newSpell()
	var there, running sync.Once // the context ends when all have come and a launch runs
	var both sync.WaitGroup
	both.Add(2)
	go func() {
		both.Wait()
		ctx.over()
	}()
	src.empty = func() { there.Do(both.Done) }
	fake.Delay = func(ctx context.Context, _ int64) error {
		running.Do(both.Done)
		<-ctx.Done()
		return ctx.Err()
	}
	cfg.Source, cfg.Watchdog.Least = src, 60e9
	res, err := engine.Serve(ctx, cfg)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	if err := res.Check(); err != nil {
		t.Error(err)
	}
	if s := res.Summary(); s.Requests != 40 || s.Errors != 40 || len(src.ended) != 20 || fake.Used() != 0 {
		t.Errorf("%+v, %d tasks ended, %d slots are taken", s, len(src.ended), fake.Used())
	}

	ctx = newSpell()
	dev := &stubborn{&enginetest.Fake{T: tab}, ctx.over, make(chan struct{})}
	cfg = config(tab, sched.Serial{}, []int64{0}, 60e9, func(int) int { return 1 })
	cfg.Devices, cfg.Grace, cfg.Watchdog.Least = adapt(dev), 20*time.Millisecond, 60e9
	res, err = engine.Serve(ctx, cfg)
	close(dev.until)
	if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, engine.ErrDevice) || res.Summary().Errors != 1 {
		t.Errorf("%v, %+v", err, res.Summary())
	}
}

// The engine's own watchdog notices a device that never answers.
func TestHangsAreNoticed(t *testing.T) {
	tab := table(t, enginetest.Linear(2, 8, 10, 1))
	c := newChip("chip", 1, false)
	c.exit = func(device.RequestID) int { return 0 }
	mute := &silent{chip: c}
	cfg := family(t, []*chip{c}, []int64{0}, &timid{})
	cfg.Devices, cfg.Watchdog.Fixed, cfg.ResetCost = []device.Device{mute}, 9000, 100
	cfg.Policy = sched.Serial{}
	cfg.Networks = cfg.Networks[:1]
	res, err := engine.Run(context.Background(), cfg)
	if err != nil || res.Hangs < 1 || res.Resets < 1 || res.Summary().OnTime != 1 {
		t.Errorf("%v, %d hangs, %d resets, %+v", err, res.Hangs, res.Resets, res.Summary())
	}
	// In real time.
	cfg = config(tab, sched.Serial{}, []int64{0}, 600e9, func(int) int { return 1 })
	cfg.Devices = adapt(&enginetest.Faulty{Blocking: driver(cfg), Hang: func(n int) bool { return n == 0 }, Real: true})
	cfg.Watchdog.Least = 30e6
	res, err = engine.Serve(context.Background(), cfg)
	if err != nil || res.Hangs < 1 || res.Summary().OnTime != 1 || res.Records[0].Ended < 30e6 {
		t.Errorf("%v, %d hangs, %+v", err, res.Hangs, res.Summary())
	}
}

// silent swallows its first launch.
type silent struct {
	*chip
	lost bool
}

func (s *silent) Begin(ctx context.Context, now device.Time, w *device.Work) (bool, error) {
	if w.Kind == device.Run && !s.lost {
		s.lost = true
		return false, nil
	}
	return s.chip.Begin(ctx, now, w)
}

// A latency is measured from the request's due time, even if inputs are slow. Inputs are not read on the engine's
// goroutine: meanwhile another device's requests are served.
func TestLatencyCountsFromWhenItWasDue(t *testing.T) {
	tab := table(t, enginetest.Linear(1, 1, 1000, 1000))
	cfg := config(tab, sched.Serial{}, []int64{1e6, 2e6, 3e6}, 600e9, func(int) int { return 0 })
	inputs := cfg.Inputs
	var second atomic.Bool
	held := make(chan struct{})
	cfg.Inputs = func(r *sched.Request) ([]device.Tensor, error) {
		if r.ID == 1 {
			<-held // only the second device releases it
		}
		return inputs(r)
	}
	other := &enginetest.Fake{T: tab, Delay: func(context.Context, int64) error {
		if second.CompareAndSwap(false, true) {
			close(held)
		}
		return nil
	}}
	cfg.Devices = append(cfg.Devices, device.Adapt(other))
	cfg.Networks[0].Tables = append(cfg.Networks[0].Tables, tab)
	cfg.Watchdog = engine.Watchdog{Least: 60e9, Other: 60e9}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	res, err := engine.Serve(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	for i, due := range []int64{1e6, 2e6, 3e6} {
		if r := res.Records[i]; r.Arrived != due || r.Ending != engine.OnTime || r.Ended < due {
			t.Errorf("%+v", r)
		}
	}
	// A source that is late with its tasks (here because one blocks it) does not change their due times.
	slow := &late{times: []int64{0, 1e6}}
	cfg = config(tab, sched.Serial{}, nil, 600e9, func(int) int { return 0 })
	cfg.Source = slow
	if res, err = engine.Serve(ctx, cfg); err != nil {
		t.Fatal(err)
	}
	if r := res.Records[1]; r.Arrived != 1e6 || r.Latency() < 19e6 {
		t.Errorf("due at 1 ms, handed out after 20: arrived at %d, latency %d", r.Arrived, r.Latency())
	}
}

// late hands its second task out 20 ms after the first.
type late struct {
	times []int64
	id    uint64
}

func (s *late) Next() (sched.Item, bool) {
	if int(s.id) == len(s.times) {
		return sched.Item{}, false
	}
	if s.id > 0 {
		time.Sleep(20 * time.Millisecond)
	}
	s.id++
	return sched.Item{At: s.times[s.id-1], Task: &sched.Task{ID: s.id, Network: enginetest.Network}}, true
}

func (*late) Ended(int64, *sched.Task, engine.Ending) []sched.Item { return nil }

// barger launches at every event and never preempts.
type barger struct{}

func (barger) Name() string { return "barger" }

func (barger) Decide(_ int64, s *sched.State, ev *sched.Event, buf []sched.Action) []sched.Action {
	d := &s.Devices[0]
	running := slices.ContainsFunc(d.Launches, func(l *sched.LaunchView) bool { return l.Phase == sched.Running })
	if s.Queue.Len() > 0 && !running {
		buf = append(buf, sched.Action{Kind: sched.Launch, Network: enginetest.Network, Last: 1, Count: 1})
	}
	return buf
}

// A device with one place runs one launch. A policy that asks for more gets an error.
func TestPlacesAreHeld(t *testing.T) {
	tab := table(t, enginetest.Linear(2, 8, 10, 1))
	for how, serve := range both() {
		cfg := config(tab, barger{}, []int64{0, 0, 0}, 600e9, func(int) int { return 1 })
		cfg.Watchdog.Least = 60e9
		if _, err := serve(context.Background(), cfg); !errors.Is(err, engine.ErrPolicy) {
			t.Errorf("%s: %v", how, err)
		}
	}
}

// wide is a Fake of several places.
type wide struct {
	enginetest.Fake
	places int
	mu     sync.Mutex
	runs   int
	wrong  []string
	fail   func(n int) error
	n      int
}

func (w *wide) Info() device.Info {
	i := w.Fake.Info()
	i.Places, i.Slots = w.places, 32
	return i
}

func (w *wide) Run(ctx context.Context, l *device.Launch) (*device.Report, error) {
	w.mu.Lock()
	w.runs++
	n := w.n
	w.n++
	w.mu.Unlock()
	rep, err := w.Fake.Run(ctx, l)
	if err == nil && w.fail != nil {
		err = w.fail(n)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.runs--
	if err != nil {
		return nil, err
	}
	return rep, nil
}

func (w *wide) Reset(ctx context.Context) error {
	w.mu.Lock()
	if w.runs > 0 {
		w.wrong = append(w.wrong, fmt.Sprintf("reset under %d launches", w.runs))
	}
	w.mu.Unlock()
	return w.Fake.Reset(ctx)
}

// several launches one by one, as many as there are places.
type several struct{}

func (several) Name() string { return "several" }

func (several) Decide(_ int64, s *sched.State, _ *sched.Event, buf []sched.Action) []sched.Action {
	d := &s.Devices[0]
	for n := len(d.Launches); n < d.Places && !d.Down && s.Queue.Len() > n-len(d.Launches); n++ {
		buf = append(buf, sched.Action{Kind: sched.Launch, Network: enginetest.Network, Last: d.Table(enginetest.Network).Segments() - 1, Count: 1})
	}
	return buf
}

// With several launches on a device, a failure that loses only one of them does not affect the others. One that loses
// the device is followed by a reset once the others have ended, whose samples stay until then.
func TestOneFailureOfSeveralLaunches(t *testing.T) {
	tab := table(t, enginetest.Linear(3, 8, 300_000, 1000))
	for how, serve := range both() {
		for _, scope := range []device.Scope{device.LoseLaunch, device.LoseDevice} {
			w := &wide{places: 4, fail: func(n int) error {
				if n == 5 || n == 11 {
					return &device.Failure{Scope: scope, Err: errors.New("injected")}
				}
				return nil
			}}
			w.T = tab
			w.Delay = func(ctx context.Context, ns int64) error {
				if how == "serve" {
					time.Sleep(time.Duration(ns))
				}
				return ctx.Err()
			}
			cfg := config(tab, several{}, make([]int64, 40), 600e9, func(i int) int { return i % 3 })
			cfg.Devices, cfg.Watchdog.Least = adapt(w), 60e9
			res, err := serve(context.Background(), cfg)
			if err != nil {
				t.Fatal(how, scope, err)
			}
			s := res.Summary()
			resets := 0
			if scope == device.LoseDevice {
				resets = 1
			}
			// A launch that is abandoned because another one failed does not count as a fault.
			if s.OnTime+s.Errors != 40 || s.OnTime < 30 || s.Faults < 1 || s.Resets > s.Faults || (s.Resets > 0) != (resets > 0) || w.Used() != 0 || len(w.wrong) > 0 {
				t.Errorf("%s, %s: %+v, %d slots taken, %v", how, scope, s, w.Used(), w.wrong)
			}
			for i := range res.Records {
				if r := &res.Records[i]; r.Ending == engine.OnTime && r.Exit != i%3 {
					t.Errorf("%s: request %d left at exit %d", how, r.ID, r.Exit)
				}
			}
			if how == "run" {
				for d, busy := range res.Busy {
					if busy > res.End {
						t.Errorf("device %d was busy for %d ns of %d", d, busy, res.End)
					}
				}
			}
		}
	}
}

// loader loads the network that the first request waits for, and unloads it after the last.
type loader struct {
	sched.Serial
	asked  bool
	events []string
}

func (l *loader) Decide(now int64, s *sched.State, ev *sched.Event, buf []sched.Action) []sched.Action {
	l.events = append(l.events, fmt.Sprintf("%d %s %d", now, ev.Kind, len(s.Devices[0].Hosted)))
	if s.Queue.Len() > 0 && s.Devices[0].Table(enginetest.Network) == nil && !l.asked {
		l.asked = true
		return append(buf, sched.Action{Kind: sched.LoadNetwork, Network: enginetest.Network})
	}
	if ev.Kind == sched.SegmentDone && s.Queue.Len() == 0 && len(s.Devices[0].Launches) == 0 {
		return append(buf, sched.Action{Kind: sched.Unload, Network: enginetest.Network})
	}
	return l.Serial.Decide(now, s, ev, buf)
}

// Loading takes its time. Loaded comes at its end, and only then is the network served. An unloaded network is not
// served.
func TestNetworksComeAndGo(t *testing.T) {
	tab := table(t, enginetest.Linear(1, 8, 10, 1))
	p := &loader{}
	cfg := config(tab, p, []int64{5, 6, 200}, 1e9, func(int) int { return 0 })
	cfg.Networks[0].Cold, cfg.Networks[0].Load = true, []int64{70}
	cfg.Networks[0].Artefacts = []device.Artefact{new(bundle.Bundle)}
	cfg.Source = &load.Open{Times: []int64{5, 6}, Task: func(_ int, at int64) sched.Task {
		return sched.Task{Network: enginetest.Network, Deadline: at + 1e6, Theta: 0.8}
	}}
	res := run(t, cfg)
	want := []string{"5 arrival 0", "6 arrival 0", "75 loaded 1", "86 segment_done 1", "97 segment_done 1", "97 loaded 0"}
	if !slices.Equal(p.events, want) {
		t.Errorf("%q, want %q", p.events, want)
	}
	if res.Records[1].Ended != 97 {
		t.Errorf("%+v", res.Records[1])
	}
	for name, a := range map[string]sched.Action{
		"one that is not there":   {Kind: sched.Unload, Network: enginetest.Network},
		"one that nobody knows":   {Kind: sched.LoadNetwork, Network: "x"},
		"on a device there isn't": {Kind: sched.LoadNetwork, Network: enginetest.Network, Device: 1},
	} {
		cfg := config(tab, once1{a}, []int64{5}, 1e9, func(int) int { return 0 })
		cfg.Networks[0].Cold = true
		if _, err := engine.Run(context.Background(), cfg); !errors.Is(err, engine.ErrPolicy) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// once1 answers with one action.
type once1 struct{ a sched.Action }

func (once1) Name() string { return "once" }
func (o once1) Decide(_ int64, _ *sched.State, _ *sched.Event, buf []sched.Action) []sched.Action {
	return append(buf, o.a)
}

// pair launches the first two requests, one each on the given units.
type pair struct {
	units     [2]device.Units
	exclusive [2]bool
}

func (pair) Name() string { return "pair" }

func (p pair) Decide(_ int64, s *sched.State, _ *sched.Event, buf []sched.Action) []sched.Action {
	if s.Queue.Len() < 2 {
		return buf
	}
	for i := range p.units {
		h := s.Devices[0].Hosted[0]
		buf = append(buf, sched.Action{Kind: sched.Launch, Network: h.Network, Last: h.Table.Segments() - 1, Count: 1, Units: p.units[i], Exclusive: p.exclusive[i]})
	}
	return buf
}

// Only launches on units that are held exclusively, or on units that the device lacks, are rejected.
func TestUnitsAreHeld(t *testing.T) {
	u := device.UnitRange
	for name, c := range map[string]struct {
		p  pair
		ok bool
	}{
		"apart, exclusive":        {pair{[2]device.Units{u(0, 4), u(4, 4)}, [2]bool{true, true}}, true},
		"shared":                  {pair{[2]device.Units{u(0, 6), u(4, 4)}, [2]bool{}}, true},
		"both the whole device":   {pair{[2]device.Units{}, [2]bool{}}, true},
		"the first is exclusive":  {pair{[2]device.Units{u(0, 6), u(4, 4)}, [2]bool{true, false}}, false},
		"the second is exclusive": {pair{[2]device.Units{u(0, 6), u(4, 4)}, [2]bool{false, true}}, false},
		"exclusive beside all":    {pair{[2]device.Units{{}, u(4, 4)}, [2]bool{false, true}}, false},
		"not in whole groups":     {pair{[2]device.Units{u(0, 4), u(5, 2)}, [2]bool{}}, false},
		"beyond the device":       {pair{[2]device.Units{u(0, 4), u(8, 2)}, [2]bool{}}, false},
	} {
		dev := newChip("chip", 2, false)
		cfg := family(t, []*chip{dev}, []int64{0, 0}, c.p)
		cfg.Source = &load.Open{Times: []int64{0, 0}, Task: func(int, int64) sched.Task { return sched.Task{Network: "digits", Theta: 0.5} }}
		res, err := engine.Run(context.Background(), cfg)
		if c.ok && err != nil || !c.ok && !errors.Is(err, engine.ErrPolicy) {
			t.Errorf("%s: %v", name, err)
		}
		if c.ok && err == nil {
			checkChips(t, []*chip{dev}, res)
		}
	}
}
