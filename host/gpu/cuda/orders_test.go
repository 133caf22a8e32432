package cuda_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/dse/randnet"
	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/engine"
	"github.com/sluice-npu/sluice/host/gpu"
	"github.com/sluice-npu/sluice/host/gpu/cuda"
	"github.com/sluice-npu/sluice/host/gpu/sim"
	"github.com/sluice-npu/sluice/host/predict"
	"github.com/sluice-npu/sluice/host/sched"
)

// shadowed is a simulated GPU that makes a device do the same work: times come from the simulation, results from the
// device.
type shadowed struct {
	*gpu.Device
	t      *testing.T
	real   *cuda.Device
	posted chan device.Event
	kept   map[device.WorkID][]device.Event
}

func (s *shadowed) Begin(ctx context.Context, now device.Time, w *device.Work) (bool, error) {
	done, err := s.Device.Begin(ctx, now, w)
	if err != nil {
		return done, err
	}
	if _, err := s.real.Begin(ctx, now, w); err != nil {
		return false, fmt.Errorf("the device refuses what the simulated one takes: %w", err)
	}
	if done {
		if e := s.of(w.ID); e.Kind != device.Done {
			return false, e.Err
		}
	}
	return done, nil
}

// of returns the device's next event of some work.
func (s *shadowed) of(id device.WorkID) device.Event {
	for len(s.kept[id]) == 0 {
		e := <-s.posted
		s.kept[e.Work] = append(s.kept[e.Work], e)
	}
	e := s.kept[id][0]
	s.kept[id] = s.kept[id][1:]
	return e
}

func (s *shadowed) Take(now device.Time) *device.Event {
	ev := s.Device.Take(now)
	if ev == nil {
		return nil
	}
	e := s.of(ev.Work)
	if e.Kind != ev.Kind || e.Over != ev.Over || e.Segment != ev.Segment {
		s.t.Errorf("work %d: the device says %+v (%v), the simulated one %+v", ev.Work, e, e.Err, *ev)
	}
	if e.Report != nil && ev.Report != nil {
		e.Report.Ns = ev.Report.Ns
		ev.Report = e.Report
	}
	return ev
}

func (s *shadowed) Release(id device.RequestID) {
	s.Device.Release(id)
	s.real.Release(id)
}

// burst is a load source: tasks at times drawn from a seed.
type burst struct{ items []sched.Item }

func (b *burst) Next() (sched.Item, bool) {
	if len(b.items) == 0 {
		return sched.Item{}, false
	}
	it := b.items[0]
	b.items = b.items[1:]
	return it, true
}

func (*burst) Ended(int64, *sched.Task, sched.Ending) []sched.Item { return nil }

// watched records the actions and the results of requests.
type watched struct {
	engine.NopObserver
	steps []string
	shown map[device.RequestID]string
}

func (w *watched) Step(s *engine.Step) { w.steps = append(w.steps, fmt.Sprintf("%+v", *s)) }

func (w *watched) Ended(r *engine.Record, x *device.ExitResult) {
	if x != nil {
		w.shown[r.ID] = fmt.Sprint(x.Exit, x.Class, x.Confidence)
	}
}

// With the same policy and stored tables the device performs the simulated GPU's actions, in the same order and at the
// same times. It accepts all orders, including partitions; the same requests pass each exit, and nothing fails.
func TestSamePolicies(t *testing.T) {
	const images, tasks = 5, 60
	path, h := library(t)
	h.GPUs(1, 128)
	t.Cleanup(func() { h.GPUs(1, 132) })
	p := h200(t)
	p.SMs, p.Unit = 128, 8
	rng := rand.New(rand.NewPCG(*seed, 21))
	var bundles []*bundle.Bundle
	inputs := map[string][][]int16{}
	shows := map[string][][]device.ExitResult{} // by network, image, exit
	for k := range uint64(3) {
		b, prog := network(t, *seed+40*k, 2)
		one := *b
		one.Network.Name = fmt.Sprint("net", k)
		b = &one
		bundles = append(bundles, b)
		for range images {
			in := randnet.Input(rng, b)
			want, err := prog.Run(in)
			if err != nil {
				t.Fatal(err)
			}
			inputs[b.Network.Name] = append(inputs[b.Network.Name], in)
			var xs []device.ExitResult
			for s, raw := range want {
				class, conf := bundle.Confidence(raw, b.Network.Exits[s].Frac)
				xs = append(xs, device.ExitResult{Exit: s, Class: class, Confidence: conf, Raw: raw, Logits: b.Network.Exits[s].Logits(raw)})
			}
			shows[b.Network.Name] = append(shows[b.Network.Name], xs)
		}
	}
	simulated := func(m gpu.Mode) *gpu.Device {
		d, err := gpu.New(gpu.Config{Name: "cuda", Params: *p, Mode: m, MaxBatch: 32, Places: 16, Slots: 128})
		if err != nil {
			t.Fatal(err)
		}
		for i, b := range bundles {
			name := b.Network.Name
			n := cuda.Simulated(b, p, func(id device.RequestID, segment int) device.ExitResult {
				return shows[name][int(id)%images][segment]
			})
			if _, err := d.Begin(t.Context(), 0, &device.Work{ID: 1<<60 + device.WorkID(i), Kind: device.Load, Network: name, Artefact: n}); err != nil {
				t.Fatal(err)
			}
		}
		return d
	}
	// The stored tables have the times of every network alone on the simulated GPU.
	var networks []engine.Network
	models := map[string]sched.LatencyModel{}
	for _, b := range bundles {
		tab := table(t, b, p)
		networks = append(networks, engine.Network{Name: b.Network.Name, Tables: []*sched.Table{tab}})
		last := len(b.Network.Exits) - 1
		one, many := float64(tab.At(0, last, 1)), float64(tab.At(0, last, 8))
		models[b.Network.Name] = sched.LatencyModel{Alpha: one, Beta1: (many - one) / 7, Beta3: one, Least: one}
	}
	for _, c := range []struct {
		name, mode string
		policy     func() sched.Policy
	}{
		{"SEEB", "streams", func() sched.Policy {
			return &sched.SEEB{Models: models, Thetas: []float32{0.2, 0.5, 0.9}, Slack: 1e6, Lambda2: 1, Period: 2e6}
		}},
		{"REEF", "reef", func() sched.Policy { return &sched.Dispatch{} }},
		{"Strait", "priority", func() sched.Policy { return &sched.Strait{BMax: 8, Places: 4, Form: 0.2, Exits: true} }},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := mode(t, c.mode)
			run := func(d device.Device) *watched {
				w := &watched{shown: map[device.RequestID]string{}}
				rng := rand.New(rand.NewPCG(*seed, 22))
				src, at := &burst{}, int64(0)
				for i := range tasks {
					at += rng.Int64N(150_000)
					task := &sched.Task{
						ID: uint64(i + 1), Network: bundles[rng.IntN(len(bundles))].Network.Name, Created: at, Arrived: at,
						Deadline: at + 20e6, Priority: rng.IntN(2), Theta: []float32{0.3, 0.6, 2}[rng.IntN(3)], Samples: 1 + rng.IntN(4),
					}
					src.items = append(src.items, sched.Item{At: at, Task: task})
				}
				res, err := engine.Run(t.Context(), engine.Config{
					Devices: []device.Device{d}, Networks: networks, Policy: c.policy(), Source: src, Clock: engine.Measured, Keep: engine.Counts,
					Observer: w, Watchdog: engine.Watchdog{Fixed: 1 << 50, Other: 1 << 50},
					Inputs: func(r *sched.Request) ([]device.Tensor, error) {
						in := inputs[r.Network][int(r.ID)%images]
						return []device.Tensor{device.Words("input", in, len(in))}, nil
					},
				})
				if err != nil {
					t.Fatal(err)
				}
				if res.Launches == 0 {
					t.Error("nothing was launched")
				}
				return w
			}
			alone := run(simulated(m))
			real, err := cuda.New(cuda.Config{Library: path, Mode: m, Params: p, Through: true, Places: 16, Slots: 128})
			if err != nil {
				t.Fatal(err)
			}
			ctx, end := context.WithCancel(context.Background())
			s := &shadowed{Device: simulated(m), t: t, real: real, posted: make(chan device.Event, 1<<14), kept: map[device.WorkID][]device.Event{}}
			gone := real.Attach(ctx, func(e device.Event) { s.posted <- e })
			if a, b := s.Device.Info(), real.Info(); a.Units != b.Units || a.MaxBatch != b.MaxBatch || a.Places != b.Places || a.Slots != b.Slots || a.Through != b.Through || a.Neighbours != b.Neighbours || a.Priorities != b.Priorities {
				t.Errorf("the simulated GPU is %+v, the device %+v", a, b)
			}
			for i, b := range bundles {
				w := &device.Work{ID: 1<<60 + device.WorkID(i), Kind: device.Load, Artefact: b}
				if _, err := real.Begin(ctx, 0, w); err != nil {
					t.Fatal(err)
				}
				if e := s.of(w.ID); e.Kind != device.Done {
					t.Fatal(e.Err)
				}
			}
			both := run(s)
			end()
			<-gone
			if err := real.Close(); err != nil {
				t.Error(err)
			}
			if f := h.Faults(); len(f) != 0 || h.Open() != 0 {
				t.Errorf("faults %v, %d things stay open", f, h.Open())
			}
			for i := range max(len(alone.steps), len(both.steps)) {
				if i >= len(alone.steps) || i >= len(both.steps) || alone.steps[i] != both.steps[i] {
					t.Errorf("action %d of %d and %d differs:\n%s\n%s", i, len(alone.steps), len(both.steps), at(alone.steps, i), at(both.steps, i))
					break
				}
			}
			if len(alone.shown) == 0 {
				t.Error("no request has a result")
			}
			for id, x := range alone.shown {
				if both.shown[id] != x {
					t.Errorf("request %d: %s on the simulated GPU, %s on the device", id, x, both.shown[id])
				}
			}
			t.Logf("seed %d: %d actions, %d requests with results", *seed, len(alone.steps), len(alone.shown))
		})
	}
}

func at(all []string, i int) string {
	if i < len(all) {
		return all[i]
	}
	return "(none)"
}

// table returns a network's times alone on the simulated GPU, with its use of resources.
func table(t *testing.T, b *bundle.Bundle, p *sim.Params) *sched.Table {
	t.Helper()
	var cells []sched.Cell
	var copies []int64
	uses := make([][]predict.Use, len(b.Network.Exits))
	for batch := 1; batch <= 32; batch++ {
		prog, err := cuda.Program(b, batch, p)
		if err != nil {
			t.Fatal(err)
		}
		copies = append(copies, int64(batch)*1000)
		var segments []int64
		for s, from := 0, 0; s < len(prog.Exits); s++ {
			ns := int64(0)
			for k := from; k <= prog.Exits[s]; k++ {
				ns += gpu.Profile(&prog.Kernels[k], p).KernelNs + p.LaunchNs
			}
			from = prog.Exits[s] + 1
			segments = append(segments, ns)
			uses[s] = append(uses[s], predict.Use{})
		}
		for first := range segments {
			sum := int64(0)
			for last := first; last < len(segments); last++ {
				sum += segments[last]
				cells = append(cells, sched.Cell{First: first, Last: last, Batch: batch, P50: sum, P95: sum, P99: sum})
			}
		}
	}
	tab, err := sched.NewTableOf(b.Network.Name, cells)
	if err != nil {
		t.Fatal(err)
	}
	tab.CopyBytes, tab.Copies, tab.Use = 1000, copies, uses
	return tab
}
