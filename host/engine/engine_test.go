package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/engine"
	"github.com/sluice-npu/sluice/host/engine/enginetest"
	"github.com/sluice-npu/sluice/host/load"
	"github.com/sluice-npu/sluice/host/sched"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func table(t interface{ Fatal(...any) }, entries []bundle.LatencyEntry) *sched.Table {
	tab, err := sched.NewTable(entries, enginetest.Network)
	if err != nil {
		t.Fatal(err)
	}
	return tab
}

func adapt(drivers ...device.Blocking) []device.Device {
	var out []device.Device
	for _, d := range drivers {
		out = append(out, device.Adapt(d))
	}
	return out
}

// driver is what the first device of a configuration adapts.
func driver(cfg engine.Config) device.Blocking { return cfg.Devices[0].(*device.Adapter).Blocking() }

// config serves the arrivals on one fake device; exit(i) is the exit that request i (from 0) takes.
func config(tab *sched.Table, p sched.Policy, times []int64, slo int64, exit func(i int) int) engine.Config {
	return engine.Config{
		Devices:  adapt(&enginetest.Fake{T: tab}),
		Networks: []engine.Network{{Name: enginetest.Network, Tables: []*sched.Table{tab}}},
		Policy:   p,
		Source: &load.Open{Times: times, Task: func(_ int, at int64) sched.Task {
			return sched.Task{Network: enginetest.Network, Deadline: at + slo, Theta: 0.8}
		}},
		Inputs: engine.WordInputs(func(r *sched.Request) ([]int16, error) {
			i := int(r.ID) - 1
			return []int16{int16(exit(i)), int16(i % 10)}, nil
		}),
		SLO: slo,
	}
}

func run(t interface {
	Helper()
	Fatal(...any)
}, cfg engine.Config,
) *engine.Result {
	t.Helper()
	res, err := engine.Run(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := res.Check(); err != nil {
		t.Fatal(err)
	}
	for _, d := range cfg.Devices {
		a, ok := d.(*device.Adapter)
		if !ok {
			continue
		}
		if f, ok := a.Blocking().(*enginetest.Fake); ok && f.Used() != 0 {
			t.Fatal(f.Used(), "slots are still taken after the run")
		}
	}
	return res
}

func kinds(steps []engine.Step) string {
	var b strings.Builder
	for _, s := range steps {
		fmt.Fprintf(&b, "%d %s", s.At, s.Kind)
		switch s.Kind {
		case "merge":
			fmt.Fprintf(&b, " %d>%d", s.Launch, s.Into)
		case "launch", "resume":
			fmt.Fprintf(&b, " %d:%d..%d", s.Launch, s.First, s.Last)
		default:
			fmt.Fprintf(&b, " %d", s.Launch)
		}
		fmt.Fprintf(&b, " %v\n", s.Requests)
	}
	return b.String()
}

// joiner halts its first launch at its exit and merges the second, which was to continue, into it there; both continue
// later.
type joiner struct{}

func (joiner) Name() string { return "joiner" }

func (joiner) Decide(now int64, s *sched.State, ev *sched.Event, buf []sched.Action) []sched.Action {
	launch := sched.Action{Kind: sched.Launch, Network: enginetest.Network, Count: 1, Last: 1}
	switch {
	case ev.Kind == sched.Arrival && now == 0:
		return append(buf, launch)
	case ev.Kind == sched.SegmentDone && ev.Launch == 1 && ev.Segment == 0:
		return append(buf, sched.Action{Kind: sched.Preempt, Launch: 1}, launch)
	case ev.Kind == sched.SegmentDone && ev.Launch == 2:
		return append(buf, sched.Action{Kind: sched.Merge, Launch: 2, Into: 1}, sched.Action{Kind: sched.Wait, Until: now + 10})
	case ev.Kind == sched.Timer:
		return append(buf, sched.Action{Kind: sched.Resume, Launch: 1, Last: 1})
	}
	return buf
}

type spy struct {
	engine.Source
	ended *[]string
}

func (s *spy) Ended(now int64, t *sched.Task, how engine.Ending) []engine.Item {
	*s.ended = append(*s.ended, fmt.Sprintf("%d %s at %d", t.ID, how, now))
	return s.Source.Ended(now, t, how)
}

func TestClosedLoop(t *testing.T) {
	tab := table(t, enginetest.Linear(2, 8, 10, 1))
	cfg := config(tab, sched.Fluid{}, nil, 1000, func(int) int { return 1 })
	cfg.Source = &load.Closed{Clients: 3, Tasks: 30, Think: 5, Task: func(_, _ int, at int64) sched.Task {
		return sched.Task{Network: enginetest.Network, Deadline: at + 1000, Theta: 0.8}
	}}
	if res := run(t, cfg); res.Summary().OnTime != 30 {
		t.Errorf("%+v", res.Summary())
	}
}

func TestSameSeedSameBytes(t *testing.T) {
	tab := table(t, enginetest.Linear(4, 8, 50, 10))
	for _, name := range sched.Names() {
		var first []byte
		for range 3 {
			p := policy(t, name)
			times, err := load.Poisson(5e6, 3000, 42)
			if err != nil {
				t.Fatal(err)
			}
			cfg := config(tab, p, times, 1500, func(i int) int { return i * 7 % 4 })
			cfg.Devices = adapt(&enginetest.Faulty{Blocking: driver(cfg), Fail: func(n int) bool { return n%97 == 13 }})
			text, err := json.Marshal(run(t, cfg))
			if err != nil {
				t.Fatal(err)
			}
			if first == nil {
				first = text
			} else if string(first) != string(text) {
				t.Fatalf("%s: two runs of the same configuration differ", name)
			}
		}
	}
}

// Every request ends exactly once in all conditions: cancels, failing segments, hangs, a failing reset, rejected tasks,
// tasks of several samples, several devices, several networks. No run waits for ever (it ends with ErrStuck otherwise).
func TestEndingsAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		segments := rapid.IntRange(1, 4).Draw(t, "segments")
		tab := table(t, enginetest.Linear(segments, 8, rapid.Int64Range(1, 100).Draw(t, "fixed"), rapid.Int64Range(1, 50).Draw(t, "each")))
		n := rapid.IntRange(0, 150).Draw(t, "n")
		slo := tab.Alone() * rapid.Int64Range(1, 12).Draw(t, "slo")
		seed := rapid.Uint64().Draw(t, "seed")
		rng := rand.New(rand.NewPCG(seed, 1))
		times, err := load.Poisson(1e9/float64(tab.Alone())*rapid.Float64Range(0.1, 3).Draw(t, "rate"), n, seed)
		if err != nil {
			t.Fatal(err)
		}
		p, err := sched.New(rapid.SampledFrom(sched.Names()).Draw(t, "policy"), sched.Options{})
		if err != nil {
			t.Fatal(err)
		}
		cfg := config(tab, p, times, slo, func(i int) int { return int((uint64(i)*2654435761 + seed%1000) % uint64(segments)) })
		cfg.ResetCost = 77
		failing := rapid.SampledFrom([]float64{0, 0.05, 0.5, 1}).Draw(t, "failing")
		hangAt := rapid.IntRange(-1, 50).Draw(t, "hang")
		deadAt := rapid.SampledFrom([]int{-1, 0, 3}).Draw(t, "dead")
		devices := rapid.IntRange(1, 3).Draw(t, "devices")
		fakes := make([]*enginetest.Fake, devices)
		cfg.Devices, cfg.Networks[0].Tables = nil, nil
		for i := range devices {
			fakes[i] = &enginetest.Fake{T: tab}
			cfg.Devices = append(cfg.Devices, device.Adapt(&enginetest.Faulty{
				Blocking:  fakes[i],
				Fail:      func(int) bool { return rng.Float64() < failing },
				Hang:      func(run int) bool { return run == hangAt },
				FailReset: func(reset int) bool { return reset == deadAt },
			}))
			cfg.Networks[0].Tables = append(cfg.Networks[0].Tables, tab)
		}
		networks := rapid.IntRange(1, 3).Draw(t, "networks")
		for i := 1; i < networks; i++ {
			cfg.Networks = append(cfg.Networks, engine.Network{Name: fmt.Sprint("other", i), Tables: cfg.Networks[0].Tables})
		}
		cancels := map[int]int64{}
		samples := 0
		src := &load.Open{Times: times, Cancel: cancels, Task: func(i int, at int64) sched.Task {
			k := 1 + i%3
			samples += k
			return sched.Task{Network: cfg.Networks[i*7/3%networks].Name, Deadline: at + 1 + slo*int64(i*i%5)/2, Theta: 0.8, Samples: k}
		}}
		for i := range times {
			if rng.IntN(10) == 0 {
				cancels[i] = times[i] + rng.Int64N(2*slo)
			}
		}
		cfg.Source = src
		if rapid.Bool().Draw(t, "refuses") {
			cfg.Admission = func(_ int64, s *sched.State, _ *sched.Task) bool { return s.Queue.Len() < 5 }
		}
		res, err := engine.Run(context.Background(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		if err := res.Check(); err != nil {
			t.Fatal(err)
		}
		s := res.Summary()
		if s.Requests != int64(samples) || s.OnTime+s.Late+s.Dropped+s.Refused+s.Cancelled+s.Errors != int64(samples) {
			t.Fatalf("%d samples came, %+v", samples, s)
		}
		if failing == 0 && hangAt < 0 && s.Errors+s.Faults+s.Resets+s.Retries != 0 {
			t.Fatalf("faults out of nothing: %+v", s)
		}
		for i, f := range fakes {
			if f.Used() != 0 {
				t.Fatalf("device %d still holds %d samples", i, f.Used())
			}
		}
	})
}

// 5 % of the segments fail and one hangs: each failure costs a reset, each request is retried once.
func TestFaultsAreRetriedOnce(t *testing.T) {
	tab := table(t, enginetest.Linear(4, 8, 1000, 100))
	times, err := load.Poisson(1e5, 2000, 7)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []sched.Policy{sched.Serial{}, sched.Fluid{}} {
		rng := rand.New(rand.NewPCG(7, 7))
		cfg := config(tab, p, times, 100_000, func(i int) int { return i % 4 })
		cfg.Devices = adapt(&enginetest.Faulty{
			Blocking: driver(cfg),
			Fail:     func(int) bool { return rng.Float64() < 0.05 },
			Hang:     func(n int) bool { return n == 100 },
		})
		cfg.Watchdog, cfg.ResetCost = engine.Watchdog{Times: 4, Least: 1}, 5000
		s := run(t, cfg).Summary()
		if s.Hangs != 1 || s.Resets != s.Faults || s.Faults < 50 || s.Retries == 0 || s.Errors == 0 || s.OnTime < s.Requests*3/4 {
			t.Errorf("%s: %+v", p.Name(), s)
		}
	}
}

func TestRefusals(t *testing.T) {
	tab := table(t, enginetest.Linear(2, 8, 10, 1))
	good := func() engine.Config { return config(tab, sched.Serial{}, []int64{0}, 1000, func(int) int { return 1 }) }
	for name, c := range map[string]struct {
		spoil func(*engine.Config)
		want  error
	}{
		"short SLO":   {func(c *engine.Config) { c.SLO = 21 }, engine.ErrSLO},
		"no device":   {func(c *engine.Config) { c.Devices = nil }, engine.ErrConfig},
		"no network":  {func(c *engine.Config) { c.Networks = nil }, engine.ErrConfig},
		"no policy":   {func(c *engine.Config) { c.Policy = nil }, engine.ErrConfig},
		"no source":   {func(c *engine.Config) { c.Source = nil }, engine.ErrConfig},
		"no inputs":   {func(c *engine.Config) { c.Inputs = nil }, engine.ErrConfig},
		"no table":    {func(c *engine.Config) { c.Networks[0].Tables[0] = nil }, engine.ErrConfig},
		"negative":    {func(c *engine.Config) { c.ResetCost = -1 }, engine.ErrConfig},
		"twice":       {func(c *engine.Config) { c.Networks = append(c.Networks, c.Networks[0]) }, engine.ErrConfig},
		"bad policy":  {func(c *engine.Config) { c.Policy = greedy{} }, engine.ErrPolicy},
		"lazy policy": {func(c *engine.Config) { c.Policy = idle{} }, engine.ErrStuck},
		"back in time": {func(c *engine.Config) {
			c.Source = &load.Open{Times: []int64{5, 3}, Task: func(int, int64) sched.Task { return sched.Task{Network: enginetest.Network} }}
		}, engine.ErrSource},
	} {
		cfg := good()
		c.spoil(&cfg)
		if _, err := engine.Run(context.Background(), cfg); !errors.Is(err, c.want) {
			t.Errorf("%s: error %v, want %v", name, err, c.want)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := engine.Run(ctx, good()); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

type greedy struct{}

func (greedy) Name() string { return "greedy" }
func (greedy) Decide(_ int64, s *sched.State, _ *sched.Event, buf []sched.Action) []sched.Action {
	return append(buf, sched.Action{Kind: sched.Launch, Network: enginetest.Network, Count: s.Queue.Len() + 1})
}

type idle struct{}

func (idle) Name() string { return "idle" }
func (idle) Decide(_ int64, _ *sched.State, _ *sched.Event, buf []sched.Action) []sched.Action {
	return buf
}

// dropper drops requests that have waited for 50 ns, and sets a timer for that.
type dropper struct{}

func (dropper) Name() string { return "dropper" }
func (dropper) Decide(now int64, s *sched.State, _ *sched.Event, buf []sched.Action) []sched.Action {
	for i := range s.Queue.Len() {
		if r := s.Queue.At(i); now >= r.Arrived+50 {
			buf = append(buf, sched.Action{Kind: sched.Drop, Request: r.ID})
		} else {
			buf = append(buf, sched.Action{Kind: sched.Wait, Until: r.Arrived + 50})
		}
	}
	return buf
}

// Serial is an M/D/1 queue when nobody leaves early: Pollaczek-Khinchine gives the mean wait
// rho * S / (2 (1 - rho)).
func TestSerialAgreesWithPollaczekKhinchine(t *testing.T) {
	tab := table(t, enginetest.Linear(2, 8, 400_000, 100_000)) // S = 1 ms
	for _, rho := range []float64{0.3, 0.6, 0.8} {
		for seed := range uint64(3) {
			times, err := load.Poisson(1000*rho, 40_000, seed)
			if err != nil {
				t.Fatal(err)
			}
			cfg := config(tab, sched.Serial{}, times, 1e12, func(int) int { return 1 })
			cfg.Keep = engine.Records
			got := float64(run(t, cfg).Summary().Latency.Avg)
			want := 1e6 * (1 + rho/(2*(1-rho)))
			if math.Abs(got/want-1) > 0.08 {
				t.Errorf("rho %g, seed %d: mean latency %.0f ns, want %.0f", rho, seed, got, want)
			}
		}
	}
}

// Real time: the same engine with a goroutine per device, including faults and hangs.
func TestServe(t *testing.T) {
	tab := table(t, enginetest.Linear(3, 8, 200_000, 20_000))
	times, err := load.Poisson(3000, 200, 3)
	if err != nil {
		t.Fatal(err)
	}
	delay := func(ctx context.Context, ns int64) error {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Duration(ns)):
			return nil
		}
	}
	cfg := config(tab, sched.Fluid{}, times, 60e9, func(i int) int { return i % 3 })
	fakes := []*enginetest.Fake{{T: tab, Delay: delay}, {T: tab, Delay: delay}}
	cfg.Devices = adapt(fakes[0], &enginetest.Faulty{
		Blocking: fakes[1], Fail: func(n int) bool { return n%10 == 4 }, Hang: func(n int) bool { return n == 7 }, Real: true,
	})
	cfg.Networks[0].Tables = []*sched.Table{tab, tab}
	cfg.Watchdog.Least = 500e6 // a launch that a busy machine delays is not a hang
	res, err := engine.Serve(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := res.Check(); err != nil {
		t.Fatal(err)
	}
	s := res.Summary()
	if s.OnTime+s.Errors != 200 || s.OnTime < 150 || s.Faults == 0 || s.Resets != s.Faults {
		t.Errorf("%+v", s)
	}
	for i, r := range res.Records {
		if r.Ending == engine.OnTime && (r.Exit != i%3 || r.Class != i%10) {
			t.Errorf("request %d left at exit %d as %d", i, r.Exit, r.Class)
		}
	}
	if n := fakes[0].Used() + fakes[1].Used(); n != 0 {
		t.Errorf("%d slots are still taken", n)
	}
}

func TestServeStopsWithItsContext(t *testing.T) {
	tab := table(t, enginetest.Linear(2, 8, 10, 1))
	cfg := config(tab, sched.Serial{}, []int64{0}, 1000, func(int) int { return 1 })
	ctx := newSpell()
	hang := func(int) bool {
		ctx.over()
		return true
	}
	cfg.Devices = adapt(&enginetest.Faulty{Blocking: driver(cfg), Hang: hang, Real: true})
	if _, err := engine.Serve(ctx, cfg); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
}

func BenchmarkRun(b *testing.B) {
	tab := table(b, enginetest.Linear(4, 8, 50_000, 10_000))
	times, err := load.Poisson(5000, 20_000, 1)
	if err != nil {
		b.Fatal(err)
	}
	for _, p := range []sched.Policy{sched.Serial{}, sched.Fluid{}} {
		b.Run(p.Name(), func(b *testing.B) {
			for b.Loop() {
				cfg := config(tab, p, times, 1_200_000, func(i int) int { return i % 4 })
				cfg.Keep = engine.Records
				run(b, cfg)
			}
		})
	}
}

func TestBadInputsEndOneRequestOnly(t *testing.T) {
	tab := table(t, enginetest.Linear(2, 8, 10, 1))
	for _, p := range []sched.Policy{sched.Serial{}, sched.Fluid{}} {
		cfg := config(tab, p, []int64{0, 0, 0, 500}, 1000, func(int) int { return 1 })
		good := cfg.Inputs
		cfg.Inputs = func(r *sched.Request) ([]device.Tensor, error) {
			switch r.ID {
			case 2: // 3 waits behind it, and for a long time there is no event except the engine's reaction to this
				return nil, errors.New("unreadable")
			case 4:
				return []device.Tensor{device.Words("input", []int16{1, 2, 3}, 3)}, nil // the device refuses it
			}
			return good(r)
		}
		res := run(t, cfg)
		if s := res.Summary(); s.Errors != 2 || s.OnTime != 2 || s.Faults != 0 || res.Records[2].Ended > 100 || !strings.Contains(res.Records[1].Why, "unreadable") {
			t.Errorf("%s: %+v", p.Name(), s)
		}
	}
}

// A device that violates its contract counts as failed.
func TestContract(t *testing.T) {
	tab := table(t, enginetest.Linear(2, 8, 10, 1))
	for name, spoil := range map[string]func(l device.Launch, r *device.Report){
		"other request":  func(_ device.Launch, r *device.Report) { r.Results[0].Request++ },
		"missing result": func(_ device.Launch, r *device.Report) { r.Results = r.Results[:0] },
		"stays at the end": func(l device.Launch, r *device.Report) {
			if l.First == 1 {
				r.Results[0].Taken = -1
			}
		},
		"exit of another segment": func(_ device.Launch, r *device.Report) { r.Results[0].Taken = 5 },
		"exit without result":     func(l device.Launch, r *device.Report) { r.Results[0].Taken, r.Results[0].Exits = l.First, nil },
	} {
		cfg := config(tab, sched.Serial{}, []int64{0}, 1e9, func(int) int { return 1 })
		cfg.Devices = adapt(&liar{Blocking: driver(cfg), spoil: spoil})
		res := run(t, cfg)
		if r := res.Records[0]; r.Ending != engine.Errored || !strings.Contains(r.Why, "broke its contract") || res.Faults != 2 {
			t.Errorf("%s: %+v, %d faults", name, r, res.Faults)
		}
	}
}

type liar struct {
	device.Blocking
	spoil func(device.Launch, *device.Report)
}

func (l *liar) Run(ctx context.Context, j *device.Launch) (*device.Report, error) {
	r, err := l.Blocking.Run(ctx, j)
	l.spoil(*j, r)
	return r, err
}

// mute reports nothing, and no error.
type mute struct{ device.Blocking }

func (mute) Run(context.Context, *device.Launch) (*device.Report, error) { return nil, nil }

func TestNoReport(t *testing.T) {
	tab := table(t, enginetest.Linear(2, 8, 10, 1))
	serve := func(run func(context.Context, engine.Config) (*engine.Result, error), clock engine.Clock) {
		t.Helper()
		cfg := config(tab, sched.Serial{}, []int64{0}, 60e9, func(int) int { return 1 })
		cfg.Devices, cfg.Clock, cfg.Watchdog.Least = adapt(mute{driver(cfg)}), clock, 60e9
		res, err := run(context.Background(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		if r := res.Records[0]; r.Ending != engine.Errored || !strings.Contains(r.Why, "broke its contract") || res.Faults != 2 {
			t.Errorf("%+v, %d faults", r, res.Faults)
		}
	}
	serve(engine.Run, engine.Table)
	serve(engine.Run, engine.Measured)
	serve(engine.Serve, engine.Table)
}

func TestQuantile(t *testing.T) {
	v := []int64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}
	for q, want := range map[float64]int64{0: 1, 0.1: 1, 0.11: 2, 0.5: 5, 0.99: 10, 1: 10} {
		if got := engine.Quantile(v, q); got != want {
			t.Errorf("quantile %g is %d, want %d", q, got, want)
		}
	}
}

func TestDiffSteps(t *testing.T) {
	step := func(kind string, id device.LaunchID, reqs ...device.RequestID) engine.Step {
		return engine.Step{At: int64(id) * 7, Kind: kind, Launch: id, Requests: reqs}
	}
	a := []engine.Step{step("launch", 1, 1), step("launch", 2, 2, 3), step("merge", 2, 1, 2)}
	later := []engine.Step{step("launch", 1, 1), step("launch", 2, 2, 3), step("merge", 2, 1, 2)}
	later[2].At = 99
	for name, c := range map[string]struct {
		b    []engine.Step
		want int
	}{
		"the same at other times": {later, 0},
		"another order":           {[]engine.Step{a[1], a[0], a[2]}, 1},
		"one more in front":       {append([]engine.Step{step("launch", 9, 9)}, a...), 1},
		"two others":              {[]engine.Step{a[0], step("launch", 2, 2), step("launch", 3, 3)}, 2},
		"nothing":                 {nil, 3},
	} {
		if got := engine.DiffSteps(a, c.b); got != c.want {
			t.Errorf("%s: %d differ, want %d", name, got, c.want)
		}
	}
}

// easy serves one by one, and asks for less confidence from the second request on.
type easy struct {
	sched.Serial
	thetas []float32
	on     string
}

func (e easy) Decide(now int64, s *sched.State, ev *sched.Event, buf []sched.Action) []sched.Action {
	if ev.Kind == sched.Arrival && ev.Request == 2 {
		buf = append(buf, sched.Action{Kind: sched.SetTheta, Network: e.on, Thetas: e.thetas})
	}
	return e.Serial.Decide(now, s, ev, buf)
}

// SetTheta takes effect at the next segment, for all requests, and never raises a request's own threshold.
func TestSetTheta(t *testing.T) {
	tab := table(t, enginetest.Linear(3, 8, 5, 5)) // 30 alone; shown confidences are 0.1 and 0.99
	serve := func(p sched.Policy, theta float32) []int {
		cfg := config(tab, p, []int64{0, 5, 100}, 1000, func(int) int { return 1 })
		cfg.Source = &load.Open{Times: []int64{0, 5, 100}, Task: func(_ int, at int64) sched.Task {
			return sched.Task{Network: enginetest.Network, Deadline: at + 1000, Theta: theta}
		}}
		var exits []int
		for _, r := range run(t, cfg).Records {
			exits = append(exits, r.Exit)
		}
		return exits
	}
	on := enginetest.Network
	for _, c := range []struct {
		name   string
		thetas []float32
		theta  float32
		want   []int
	}{
		{"as they brought", nil, 0.8, []int{1, 1, 1}},
		// The first is in segment 0 when the thresholds fall.
		{"lower", []float32{0.1, 0.1, 0.1}, 2, []int{1, 0, 0}},
		{"by exit", []float32{2, 0.05, 0.05}, 2, []int{1, 1, 1}},
		{"never higher", []float32{2, 2, 2}, 0.8, []int{1, 1, 1}},
	} {
		if got := serve(easy{thetas: c.thetas, on: on}, c.theta); !slices.Equal(got, c.want) {
			t.Errorf("%s: exits %v, want %v", c.name, got, c.want)
		}
	}
	for name, p := range map[string]easy{"another network": {on: "x"}, "fewer than exits": {on: on, thetas: []float32{0.1}}} {
		cfg := config(tab, p, []int64{0, 5}, 1000, func(int) int { return 1 })
		if _, err := engine.Run(context.Background(), cfg); !errors.Is(err, engine.ErrPolicy) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
