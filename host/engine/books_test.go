// Faults that coincide with other events: the engine's state stays consistent.

package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/engine"
	"github.com/sluice-npu/sluice/host/engine/enginetest"
	"github.com/sluice-npu/sluice/host/load"
	"github.com/sluice-npu/sluice/host/sched"
)

// multi is a virtual device with two places: a launch takes 1000 ns, a copy no time. It rejects, hangs and stops on
// demand.
type multi struct {
	name    string
	preempt device.Granularity
	refuse  int                                // number of launches to reject
	hang    func(w *device.Work) bool          // whether a launch hangs
	takes   func(w *device.Work) int64         // time of a launch instead of 1000 ns
	copy    func(w *device.Work) (bool, error) // replaces copies
	aborted []device.WorkID
	works   []*device.Work
	due     []device.Time
}

const nothing = device.Time(1 << 60)

func (m *multi) Info() device.Info {
	return device.Info{Name: m.name, Label: "simulated", MaxBatch: 2, Slots: 16, Places: 2, Preempt: m.preempt}
}

func (m *multi) Begin(_ context.Context, now device.Time, w *device.Work) (bool, error) {
	at := now + max(1000, w.Expect)
	switch {
	case w.Kind == device.Copy && m.copy != nil:
		if done, err := m.copy(w); done || err != nil {
			return done, err
		}
		at = nothing
	case w.Kind == device.Copy, w.Kind == device.Load, w.Kind == device.Unload:
		return true, nil
	case w.Kind == device.Reset:
	case m.refuse > 0:
		m.refuse--
		return false, errors.New("refused")
	case m.hang != nil && m.hang(w):
		at = nothing
	case m.takes != nil:
		at = now + m.takes(w)
	}
	m.works, m.due = append(m.works, w), append(m.due, at)
	return false, nil
}

func (m *multi) first() int {
	if len(m.due) == 0 {
		return -1
	}
	return slices.Index(m.due, slices.Min(m.due))
}

func (m *multi) Next() (device.Time, bool) {
	i := m.first()
	if i < 0 || m.due[i] == nothing {
		return 0, false
	}
	return m.due[i], true
}

func (m *multi) Take(now device.Time) *device.Event {
	i := m.first()
	if i < 0 || m.due[i] > now {
		return nil
	}
	w := m.works[i]
	m.works, m.due = slices.Delete(m.works, i, i+1), slices.Delete(m.due, i, i+1)
	switch {
	case w.Kind != device.Run:
		return &device.Event{Kind: device.Done, Work: w.ID, Over: true}
	case slices.Contains(m.aborted, w.ID):
		return &device.Event{Kind: device.Aborted, Work: w.ID, Over: true, Resume: device.ResumePoint{Segment: w.Launch.First}}
	}
	ev := &device.Event{Kind: device.Passed, Work: w.ID, Over: true, Report: &device.Report{}, Segment: w.Launch.Last}
	for _, id := range w.Launch.Requests {
		ev.Report.Results = append(ev.Report.Results, device.Result{
			Request: id, Taken: w.Launch.Last, Exits: []device.ExitResult{{Exit: w.Launch.Last, Confidence: 1}},
		})
	}
	return ev
}

func (m *multi) Abort(now device.Time, id device.WorkID, _ bool) {
	for i, w := range m.works {
		if w.ID == id && w.Kind == device.Run {
			m.due[i] = now + 1
			m.aborted = append(m.aborted, id)
		}
	}
}

func (*multi) Release(device.RequestID) {}
func (*multi) Close() error             { return nil }

// eager launches single requests on every free place, and resumes halted launches.
type eager struct{}

func (eager) Name() string { return "eager" }

func (eager) Decide(_ sched.Time, s *sched.State, _ *sched.Event, buf []sched.Action) []sched.Action {
	n := s.Queue.Len()
	for d := range s.Devices {
		v := &s.Devices[d]
		if v.Down {
			continue
		}
		for _, l := range v.Launches {
			if l.Phase == sched.Halted {
				buf = append(buf, sched.Action{Kind: sched.Resume, Launch: l.ID, Last: l.Last})
			}
		}
		for free := v.Places - len(v.Launches); free > 0 && n > 0; free-- {
			buf = append(buf, sched.Action{Kind: sched.Launch, Device: d, Network: enginetest.Network, Count: 1})
			n--
		}
	}
	return buf
}

// multis serves tasks that arrive at these times on equal devices.
func multis(t *testing.T, times []int64, ms ...device.Device) engine.Config {
	t.Helper()
	tab := table(t, enginetest.Linear(1, 4, 900, 100))
	cfg := config(tab, eager{}, times, 60e9, func(int) int { return 0 })
	cfg.Devices, cfg.Networks[0].Tables, cfg.Inputs = ms, nil, engine.NoInputs
	for range ms {
		cfg.Networks[0].Tables = append(cfg.Networks[0].Tables, tab)
	}
	return cfg
}

// tally is the expected result of a run.
type tally struct {
	onTime, errors        int
	faults, hangs, resets int64
}

func expect(t *testing.T, res *engine.Result, err error, want tally) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	if err := res.Check(); err != nil {
		t.Error(err)
	}
	s := res.Summary()
	if got := (tally{int(s.OnTime), int(s.Errors), int64(res.Faults), int64(res.Hangs), int64(res.Resets)}); got != want {
		t.Errorf("%+v, expected %+v", got, want)
	}
}

// Two launches are rejected in one answer, and the first rejection loses the device. The second rejection does not
// affect what the policy meanwhile launches elsewhere.
func TestTwoRefusedAtOnce(t *testing.T) {
	cfg := multis(t, nil, &multi{name: "a", refuse: 2}, &multi{name: "b"})
	cfg.Source = &items{list: []sched.Item{{At: 5, Task: &sched.Task{ID: 1, Network: enginetest.Network, Samples: 2}}}}
	res, err := engine.Run(context.Background(), cfg)
	expect(t, res, err, tally{onTime: 2, faults: 1, resets: 1})
}

// The function that makes a request's input sees the member of the family that serves it, and nothing writes the
// request meanwhile (make race).
func TestInputsSeeTheMember(t *testing.T) {
	for _, p := range []sched.Policy{sched.Serial{}, &sched.Nested{Outer: assignAll{}, Inner: []sched.Policy{sched.Serial{}}}} {
		for how, serve := range both() {
			tab := table(t, enginetest.Linear(2, 8, 1000, 1000))
			times := make([]int64, 200)
			for i := range times {
				times[i] = int64(i) * 10_000
			}
			cfg := config(tab, p, nil, 0, func(int) int { return 1 })
			cfg.Watchdog.Least = 60e9
			cfg.Networks[0].Family = "family"
			cfg.Source = &load.Open{Times: times, Task: func(int, int64) sched.Task { return sched.Task{Network: "family", Theta: 0.8} }}
			var other atomic.Int64
			cfg.Inputs = engine.WordInputs(func(r *sched.Request) ([]int16, error) {
				if r.Network != enginetest.Network {
					other.Add(1)
				}
				return []int16{1, 1}, nil
			})
			res, err := serve(context.Background(), cfg)
			if err != nil || res.Summary().OnTime != int64(len(times)) || other.Load() != 0 {
				t.Errorf("%s, %s: %v, %+v, %d inputs for another network", how, p.Name(), err, res.Summary(), other.Load())
			}
		}
	}
}

// assignAll gives every request to the first device.
type assignAll struct{}

func (assignAll) Name() string { return "all" }

func (assignAll) Decide(_ sched.Time, s *sched.State, _ *sched.Event, buf []sched.Action) []sched.Action {
	for i := range min(s.Queue.Len(), s.Devices[0].Slots-s.Devices[0].Used) {
		buf = append(buf, sched.Action{Kind: sched.Assign, Network: enginetest.Network, Requests: []device.RequestID{s.Queue.At(i).ID}})
	}
	return buf
}

// A launch that hangs, and that the watchdog can stop, counts as a hang, and its requests start again once.
func TestAKilledLaunchHangs(t *testing.T) {
	for _, x := range []struct {
		hangs int
		want  tally
	}{
		{1, tally{onTime: 1, faults: 1, hangs: 1}},
		{5, tally{errors: 1, faults: 2, hangs: 2}},
	} {
		m := &multi{name: "gpu", preempt: device.PreemptKernel}
		m.hang = func(*device.Work) bool { x.hangs--; return x.hangs >= 0 }
		cfg := multis(t, []int64{5}, m)
		cfg.Watchdog = engine.Watchdog{Fixed: 5000}
		res, err := engine.Run(context.Background(), cfg)
		expect(t, res, err, x.want)
	}
}

// hasty drops the first request when the second arrives, in any state.
type hasty struct{ sched.Serial }

func (hasty) Decide(_ sched.Time, s *sched.State, ev *sched.Event, buf []sched.Action) []sched.Action {
	if ev.Kind == sched.Arrival && ev.Request == 2 {
		buf = append(buf, sched.Action{Kind: sched.Drop, Request: 1})
	}
	buf = assignAll{}.Decide(0, s, ev, buf)
	if v := &s.Devices[0]; ev.Kind == sched.Copied && ev.Request == 2 {
		buf = append(buf, sched.Action{Kind: sched.Launch, Network: v.Queue.At(0).Network, Count: 1, Assigned: true})
	}
	return buf
}

// A request can be dropped while its input is being copied. Its slot is freed when the copy has ended.
func TestDropWhileCopying(t *testing.T) {
	c := newChip("a", 1, false)
	c.exit = func(device.RequestID) int { return 0 }
	cfg := config(table(t, enginetest.Linear(1, 4, 20_000, 1000)), hasty{}, []int64{0, 300}, 60e9, func(int) int { return 0 })
	cfg.Devices = []device.Device{c}
	res, err := engine.Run(context.Background(), cfg)
	expect(t, res, err, tally{onTime: 1})
	if d := res.Summary().Dropped; d != 1 || len(c.there) != 0 || len(c.wrong) != 0 {
		t.Errorf("%d dropped, slots taken %v, %v", d, c.there, c.wrong)
	}
}

// fickle stops a launch when another request arrives, and resumes it.
type fickle struct{ how sched.ActionKind }

func (fickle) Name() string { return "fickle" }

func (p fickle) Decide(now sched.Time, s *sched.State, ev *sched.Event, buf []sched.Action) []sched.Action {
	for _, l := range s.Devices[0].Launches {
		if l.Phase == sched.Running && ev.Kind == sched.Arrival {
			buf = append(buf, sched.Action{Kind: p.how, Launch: l.ID})
		}
	}
	return eager{}.Decide(now, s, ev, buf)
}

// A launch that waits for its inputs can be stopped. It is halted when they have been copied.
func TestStopWhileCopying(t *testing.T) {
	for _, how := range []sched.ActionKind{sched.Preempt, sched.Abort} {
		c := newChip("a", 1, false)
		c.exit = func(device.RequestID) int { return 0 }
		cfg := config(table(t, enginetest.Linear(1, 4, 20_000, 1000)), fickle{how}, []int64{0, 300}, 60e9, func(int) int { return 0 })
		cfg.Devices = []device.Device{c}
		res, err := engine.Run(context.Background(), cfg)
		expect(t, res, err, tally{onTime: 2})
		if s := res.Summary(); s.Preemptions != 1 || len(c.there) != 0 || len(c.wrong) != 0 {
			t.Errorf("%d stopped, slots taken %v, %v", s.Preemptions, c.there, c.wrong)
		}
	}
}

// clumsy is a driver whose first copies fail.
type clumsy struct {
	device.Blocking
	n   int
	err error
}

func (c *clumsy) Admit(ctx context.Context, network string, id device.RequestID, in []device.Tensor) error {
	if c.n--; c.n >= 0 {
		return c.err
	}
	return c.Blocking.Admit(ctx, network, id, in)
}

// A copy that fails with its device counts as a device failure: the device is reset and the request starts again,
// once. Any other failed copy, or an input that cannot be made, ends only its request.
func TestCopiesFail(t *testing.T) {
	for how, serve := range both() {
		for name, x := range map[string]struct {
			n    int
			err  error
			in   error
			want tally
		}{
			"hang":      {n: 1, err: fmt.Errorf("dma: %w", device.ErrHang), want: tally{onTime: 3, faults: 1, hangs: 1, resets: 1}},
			"reset":     {n: 1, err: device.ErrReset, want: tally{onTime: 3, faults: 1, resets: 1}},
			"launch":    {n: 1, err: &device.Failure{Scope: device.LoseLaunch, Err: errors.New("parity")}, want: tally{onTime: 3, faults: 1}},
			"partition": {n: 1, err: &device.Failure{Scope: device.LosePartition, Err: errors.New("bank")}, want: tally{onTime: 3, faults: 1, resets: 1}},
			"refused":   {n: 1, err: device.ErrMemory, want: tally{onTime: 2, errors: 1}},
			"input":     {in: context.DeadlineExceeded, want: tally{onTime: 2, errors: 1}},
			"twice":     {n: 2, err: device.ErrHang, want: tally{onTime: 2, errors: 1, faults: 2, hangs: 2, resets: 2}},
		} {
			if name == "twice" && how != "run" { // in real time it is not certain which one fails the second time
				continue
			}
			tab := table(t, enginetest.Linear(2, 8, 1000, 1000))
			for _, p := range []sched.Policy{sched.Serial{}, &sched.Nested{Outer: assignUp{}, Inner: []sched.Policy{sched.Serial{}}}} {
				cfg := config(tab, p, []int64{0, 5e6, 10e6}, 60e9, func(int) int { return 1 })
				f := &clumsy{&enginetest.Fake{T: tab}, x.n, x.err}
				cfg.Devices = adapt(f)
				cfg.Watchdog.Least = 60e9
				inputs := cfg.Inputs
				cfg.Inputs = func(r *sched.Request) ([]device.Tensor, error) {
					if x.in != nil && r.ID == 2 {
						return nil, x.in
					}
					return inputs(r)
				}
				res, err := serve(context.Background(), cfg)
				t.Log(how, p.Name(), name)
				expect(t, res, err, x.want)
				if k := f.Blocking.(*enginetest.Fake).Used(); k != 0 {
					t.Errorf("%d slots taken", k)
				}
			}
		}
	}
}

// assignUp is assignAll if the device is up.
type assignUp struct{ assignAll }

func (a assignUp) Decide(now sched.Time, s *sched.State, ev *sched.Event, buf []sched.Action) []sched.Action {
	if s.Devices[0].Down {
		return buf
	}
	return a.assignAll.Decide(now, s, ev, buf)
}

// sticky fails to unload once.
type sticky struct {
	enginetest.Fake
	n int
}

func (s *sticky) Unload(context.Context, string) error {
	if s.n++; s.n == 1 {
		return errors.New("in use")
	}
	return nil
}

// tidy unloads when the first request arrives, retries if that fails, and serves later requests.
type tidy struct {
	sched.Serial
	hosted []int
}

func (p *tidy) Decide(now sched.Time, s *sched.State, ev *sched.Event, buf []sched.Action) []sched.Action {
	p.hosted = append(p.hosted, len(s.Devices[0].Hosted))
	if ev.Kind == sched.Arrival && ev.Request == 1 {
		return append(buf, sched.Action{Kind: sched.Unload, Network: "b"})
	}
	if ev.Kind == sched.Fault && s.Devices[0].Member("b") != nil {
		buf = append(buf, sched.Action{Kind: sched.Unload, Network: "b"})
	}
	return p.Serial.Decide(now, s, ev, buf)
}

// A network that could not be unloaded is still on its device.
func TestUnloadFails(t *testing.T) {
	for how, serve := range both() {
		tab := table(t, enginetest.Linear(1, 8, 1000, 1000))
		p := &tidy{}
		cfg := config(tab, p, []int64{0}, 60e9, func(int) int { return 0 })
		cfg.Devices = adapt(&sticky{Fake: enginetest.Fake{T: tab}})
		cfg.Watchdog.Least = 60e9
		cfg.Networks = append(cfg.Networks, engine.Network{Name: "b", Tables: []*sched.Table{tab}})
		res, err := serve(context.Background(), cfg)
		expect(t, res, err, tally{onTime: 1, faults: 1})
		// at the arrival, at the fault, and from then on without it
		if len(p.hosted) < 3 || p.hosted[0] != 2 || p.hosted[1] != 2 || p.hosted[len(p.hosted)-1] != 1 {
			t.Errorf("%s: networks on the device: %d", how, p.hosted)
		}
	}
}

// sharer reports the progress of launches: all of them advance, except for those that never end.
type sharer struct {
	*multi
	now uint64
}

func (s *sharer) Progress(id device.WorkID) uint64 {
	if i := slices.IndexFunc(s.works, func(w *device.Work) bool { return w.ID == id }); i < 0 || s.due[i] == nothing {
		return 0
	}
	s.now++
	return s.now
}

// A launch that advances is not a hang when the one that slowed it down has just ended. One that does not advance is.
func TestSharersAreJudgedByProgress(t *testing.T) {
	m := &multi{name: "m", takes: func(w *device.Work) int64 {
		if w.Launch.Requests[0] == 1 {
			return 8000
		}
		return 4500
	}}
	cfg := multis(t, []int64{0, 0}, &sharer{multi: m})
	cfg.Watchdog = engine.Watchdog{Fixed: 5000}
	res, err := engine.Run(context.Background(), cfg)
	expect(t, res, err, tally{onTime: 2})

	hung := false
	m = &multi{name: "m", hang: func(*device.Work) bool { defer func() { hung = true }(); return !hung }}
	cfg = multis(t, []int64{0, 0}, &sharer{multi: m})
	cfg.Watchdog = engine.Watchdog{Fixed: 5000}
	res, err = engine.Run(context.Background(), cfg)
	expect(t, res, err, tally{onTime: 2, faults: 1, hangs: 1, resets: 1})
}

// A copy that never ends is a hang in virtual time too, and its device is reset, even while launches run beside it.
func TestACopyHangs(t *testing.T) {
	for _, times := range [][]int64{{5}, {5, 500, 40_000, 90_000}} {
		n := 0
		m := &multi{name: "m", copy: func(*device.Work) (bool, error) { n++; return n > 1, nil }}
		cfg := multis(t, times, m)
		cfg.Watchdog.Other = 50_000
		s := &spyFault{}
		cfg.Observer = s
		res, err := engine.Run(context.Background(), cfg)
		expect(t, res, err, tally{onTime: len(times) - 1, errors: 1, faults: 1, hangs: 1, resets: 1})
		if s.at != 50_005 {
			t.Errorf("noticed at %d ns", s.at)
		}
	}
}

// spyFault records when something last failed.
type spyFault struct {
	engine.NopObserver
	at engine.Time
}

func (s *spyFault) Fault(f *engine.Fault) { s.at = f.At }

// spell is a context that ends when over is called. A real deadline could pass before the call under test has begun.
type spell struct {
	context.Context
	over context.CancelFunc
}

func newSpell() *spell {
	ctx, over := context.WithCancel(context.Background())
	return &spell{ctx, over}
}

func (s *spell) Err() error {
	if s.Context.Err() != nil {
		return context.DeadlineExceeded
	}
	return nil
}

// A derived context must call Err here, not that of the embedded context.
func (*spell) Value(any) any { return nil }

// patient is a driver whose calls last until their context ends, after a short time.
type patient struct {
	enginetest.Fake
	time   *spell
	copies bool
}

func (p *patient) Admit(ctx context.Context, network string, id device.RequestID, in []device.Tensor) error {
	if p.copies {
		p.time.over()
		<-ctx.Done()
		return fmt.Errorf("admit: %w", ctx.Err())
	}
	return p.Fake.Admit(ctx, network, id, in)
}

func (p *patient) Run(ctx context.Context, _ *device.Launch) (*device.Report, error) {
	p.time.over()
	<-ctx.Done()
	return nil, fmt.Errorf("run: %w", ctx.Err())
}

// The end of a caller's context is not a device failure, and not a hang.
func TestATimeOutIsNoHang(t *testing.T) {
	for _, copies := range []bool{false, true} {
		tab := table(t, enginetest.Linear(1, 8, 1000, 1000))
		cfg := config(tab, sched.Serial{}, []int64{0}, 60e9, func(int) int { return 0 })
		ctx := newSpell()
		cfg.Devices = adapt(&patient{enginetest.Fake{T: tab}, ctx, copies})
		res, err := engine.Run(ctx, cfg)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the run ends with %v", err)
		}
		expect(t, res, nil, tally{errors: 1})
	}
}

// ordered is a device that makes copies in order. The copy of one request takes days.
type ordered struct {
	*chip
	stuck device.RequestID
}

func (o ordered) Info() device.Info {
	i := o.chip.Info()
	i.InOrder = true
	return i
}

func (o ordered) Begin(ctx context.Context, now device.Time, w *device.Work) (bool, error) {
	done, err := o.chip.Begin(ctx, now, w)
	if w.Kind == device.Copy && w.Request == o.stuck {
		o.copies[len(o.copies)-1].left = 1e15
	}
	if w.Kind == device.Reset { // it ends copies instead of waiting for them
		o.copies = o.copies[len(o.copies)-1:]
	}
	return done, err
}

// all assigns every request to the first device at once, and runs them there one by one.
type all struct{}

func (all) Name() string { return "all" }

func (all) Decide(_ sched.Time, s *sched.State, _ *sched.Event, buf []sched.Action) []sched.Action {
	v := &s.Devices[0]
	if v.Down {
		return buf
	}
	var ids []device.RequestID
	for i := range min(s.Queue.Len(), v.Slots-v.Used) {
		ids = append(ids, s.Queue.At(i).ID)
	}
	if len(ids) > 0 {
		buf = append(buf, sched.Action{Kind: sched.Assign, Network: "large@1", Requests: ids})
	}
	if len(v.Launches) == 0 && v.Queue.Len() > 0 {
		buf = append(buf, sched.Action{Kind: sched.Launch, Network: "large@1", Count: 1, Assigned: true})
	}
	return buf
}

// If copies run in order, the time limit of each starts with its turn: twenty of 700 ns with a limit of 1000 ns are no
// hang. One that hangs is noticed 1000 ns after its turn began. Later copies, which may never end either, are all given
// up 1000 ns later.
func TestCopiesInOrderWaitTheirTurn(t *testing.T) {
	for _, stuck := range []device.RequestID{0, 3} {
		o := ordered{newChip("chip", 1, false), stuck}
		cfg := family(t, []*chip{o.chip}, make([]int64, 20), all{})
		cfg.Devices = []device.Device{o}
		cfg.Source = &load.Open{Times: make([]int64, 20), Task: func(int, int64) sched.Task { return sched.Task{Network: "digits"} }}
		cfg.Watchdog, cfg.ResetCost = engine.Watchdog{Least: 60e9, Other: 1000}, 100
		s := &faultTimes{}
		cfg.Observer = s
		res, err := engine.Run(context.Background(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		if stuck == 0 {
			expect(t, res, err, tally{onTime: 20})
			continue
		}
		if len(s.at) == 0 || s.at[0] != 2*copyNs+1000 || slices.Max(s.at) > 2*copyNs+2000 || res.Hangs != int64(len(s.at)) {
			t.Errorf("%d hangs, noticed at %v", res.Hangs, s.at)
		}
		if sum := res.Summary(); sum.Errors+sum.OnTime != 20 || sum.OnTime < 2 {
			t.Errorf("%+v", sum)
		}
	}
}

// faultTimes records when what failed.
type faultTimes struct {
	engine.NopObserver
	at []engine.Time
}

func (s *faultTimes) Fault(f *engine.Fault) { s.at = append(s.at, f.At) }
