// Package real runs SEEB-GPU's unchanged policy and its baselines on a GPU in real time. Bundles with exits run on the
// partitions that the driver offers. The latency models are fitted to launches on that GPU. The input is noise, so
// thresholds and accuracies are meaningless. Times and partitions are meaningful.
package real

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/engine"
	"github.com/sluice-npu/sluice/host/experiments/seeb"
	"github.com/sluice-npu/sluice/host/gpu/cuda"
	"github.com/sluice-npu/sluice/host/gpu/cuda/bench"
	"github.com/sluice-npu/sluice/host/sched"
)

// Config selects the runs.
type Config struct {
	GPU      cuda.Config // library, GPU and masks; this package sets the other fields
	Networks []*bundle.Bundle
	Ns       int64 // length of a run in ns
	Task     int64 // mean time in ns of a task alone, in the largest batches; 0: 10 ms, because SEEB-GPU's need 10 to 100 ms
	Seed     uint64
	Systems  []string // nil: Systems
	Tell     func(what string)
	Keep     func([]bench.Series) // if set, it is called with all runs so far after each run
}

// Systems returns the compared systems.
func Systems() []string { return []string{"seeb", "batch", "deeprt", "gslice", "branchynet"} }

const (
	usual = 10e6    // default time of a task alone, in ns
	plain = "batch" // system; its times determine load and deadlines
	tries = 2       // number of tasks per network that run alone under plain
	share = 0.5     // load: sum of the tasks' times alone under plain, as a share of the run's time
	slack = 2       // a deadline is this multiple of a task's time alone, plus the collection window
	base  = 8       // batch at which threshold and units are varied
	runs  = 3       // number of runs per profile; the profile is their median
	slots = 2048
	most  = 512 // largest number of images in a task
)

// served is a network with its profiles.
type served struct {
	b     *bundle.Bundle
	alone []int64 // by log2 of the batch: time in ns at full depth on all units
	table *sched.Table
}

// run is the state of a run on one GPU.
type run struct {
	cfg    Config
	nets   []*served
	each   map[string]float64 // by network: time in ns per image of a task alone, including the runtime's own time
	models map[string]sched.LatencyModel
	inputs map[string][]device.Tensor
	out    []bench.Series
}

// Run profiles the networks and serves the same tasks under each system. On an error, it returns the completed runs.
func Run(ctx context.Context, cfg Config) ([]bench.Series, error) {
	r := &run{cfg: cfg, models: map[string]sched.LatencyModel{}, inputs: map[string][]device.Tensor{}}
	if err := r.profile(ctx); err != nil {
		return r.out, fmt.Errorf("SEEB: profile: %w", err)
	}
	if err := r.pace(ctx); err != nil {
		return r.out, fmt.Errorf("SEEB: tasks alone: %w", err)
	}
	tasks := r.tasks()
	systems := cfg.Systems
	if systems == nil {
		systems = Systems()
	}
	for _, system := range systems {
		if ctx.Err() != nil {
			return r.out, context.Cause(ctx)
		}
		if cfg.Tell != nil {
			cfg.Tell(system)
		}
		if err := r.serve(ctx, system, tasks); err != nil {
			return r.out, fmt.Errorf("SEEB under %s: %w", system, err)
		}
		if cfg.Keep != nil {
			cfg.Keep(r.out)
		}
	}
	return r.out, nil
}

func (r *run) add(key, unit string, all ...int64) {
	r.out = append(r.out, bench.Series{Part: bench.SEEB, Key: key, Unit: unit, Runs: all})
}

// open opens the GPU with the networks loaded.
func (r *run) open(ctx context.Context) (*cuda.Seat, error) {
	c := r.cfg.GPU
	c.Slots, c.Places, c.Through = slots, 16, true
	d, err := cuda.New(c)
	if err != nil {
		return nil, err
	}
	s := cuda.NewSeat(ctx, d)
	for _, b := range r.cfg.Networks {
		if _, err := s.Do(ctx, &device.Work{Kind: device.Load, Artefact: b}); err != nil {
			_ = s.Shut()
			return nil, err
		}
	}
	return s, nil
}

// profile measures the times of the networks and fits the models.
func (r *run) profile(ctx context.Context) (err error) {
	s, err := r.open(ctx)
	if err != nil {
		return err
	}
	defer func() {
		if e := s.Shut(); err == nil {
			err = e
		}
	}()
	id := device.RequestID(0)
	for i, b := range r.cfg.Networks {
		n, rng := &b.Network, rand.New(rand.NewPCG(r.cfg.Seed, uint64(i)))
		in := make([]int16, n.InH*n.InW*n.InC)
		for k := range in {
			in[k] = int16(rng.IntN(2001) - 1000)
		}
		r.inputs[n.Name] = []device.Tensor{device.Words("input", in, len(in))}
		var ids []device.RequestID
		for range cuda.MaxBatch {
			id++
			w := &device.Work{Kind: device.Copy, Network: n.Name, Request: id, Input: func() ([]device.Tensor, error) { return r.inputs[n.Name], nil }}
			if _, err := s.Do(ctx, w); err != nil {
				return err
			}
			ids = append(ids, id)
		}
		time := func(batch int, theta float32, units int) (int64, error) {
			if ctx.Err() != nil {
				return 0, context.Cause(ctx)
			}
			l := device.Launch{Network: n.Name, Last: len(n.Exits) - 1, Requests: ids[:batch], Theta: slices.Repeat([]float32{theta}, batch*len(n.Exits))}
			if all := s.Info().Units; units < all {
				l.Units = device.UnitRange(0, units)
			}
			var took []int64
			for i := range runs + 1 {
				ns, err := s.Do(ctx, &device.Work{Kind: device.Run, Launch: l})
				if err != nil {
					return 0, err
				}
				if i > 0 { // the first run does not count, because it creates the partition
					took = append(took, ns)
				}
			}
			slices.Sort(took)
			return took[len(took)/2], nil
		}
		one := &served{b: b}
		for batch := 1; batch <= cuda.MaxBatch; batch *= 2 {
			ns, err := time(batch, 2, s.Info().Units)
			if err != nil {
				return err
			}
			one.alone = append(one.alone, ns)
		}
		r.add(n.Name+" alone by batch", "ns", one.alone...)
		if one.table, err = sched.Uniform(n.Name, len(n.Exits), cuda.MaxBatch, max(1, one.alone[0]/int64(len(n.Exits)))); err != nil {
			return err
		}
		fit, err := seeb.FitModel(max(1, s.Info().Units), base, cuda.MaxBatch, time)
		if err != nil {
			return err
		}
		r.models[n.Name] = fit.Model
		r.add(n.Name+" error of the latency model", "ppm", int64(1e6*fit.Mean))
		r.add(n.Name+" worst error of the latency model", "ppm", int64(1e6*fit.Worst))
		r.nets = append(r.nets, one)
		for _, id := range ids {
			s.Release(id)
		}
	}
	return nil
}

// images returns the number of images that the GPU processes in ns nanoseconds if it runs only the largest batches.
func (n *served) images(ns float64) int {
	return 1 + int(min(most-1, ns*cuda.MaxBatch/float64(n.alone[len(n.alone)-1])))
}

// mean returns the mean time in ns of a task that runs alone, in the largest batches.
func (c *Config) mean() float64 { return float64(cmp.Or(c.Task, usual)) }

// pace measures the time per image of tasks that run one by one under the simplest system (plain). The time from
// dispatch to end includes kernels, copies and the host's work. Load and deadlines are computed from this time, so that
// the deadlines can be met.
func (r *run) pace(ctx context.Context) error {
	var tasks []seeb.Task
	at := int64(0)
	for range tries {
		for _, n := range r.nets {
			tasks = append(tasks, seeb.Task{At: at, Deadline: 1 << 50, Network: n.b.Network.Name, Images: n.images(r.cfg.mean())})
			at += seeb.Window + 10*int64(r.cfg.mean())
		}
	}
	seen, _, err := r.play(ctx, plain, tasks)
	if err != nil {
		return err
	}
	r.each = map[string]float64{}
	for i, n := range r.nets {
		var all []int64
		for k := i; k < len(tasks); k += len(r.nets) {
			if e := &seen.Tasks[k]; !e.Failed && e.To > e.From {
				all = append(all, (e.To-e.From)/int64(tasks[k].Images))
			}
		}
		if len(all) == 0 {
			return fmt.Errorf("%w: no task of %s came to its end", device.ErrRequest, n.b.Network.Name)
		}
		r.add(n.b.Network.Name+" an image in tasks alone", "ns", all...)
		r.each[n.b.Network.Name] = float64(slices.Min(all))
	}
	return nil
}

// tasks returns random tasks with Poisson arrivals. Each task has several input images for one network. A task of mean
// size needs the time Config.Task if it runs alone, in the largest batches. According to the times that pace measured,
// all tasks need half of the GPU's time. A deadline is twice a task's time alone, plus the collection window.
func (r *run) tasks() (out []seeb.Task) {
	rng, own := rand.New(rand.NewPCG(r.cfg.Seed, 31)), 0.0
	for _, n := range r.nets {
		own += r.each[n.b.Network.Name] * float64(n.images(r.cfg.mean())) / float64(len(r.nets))
	}
	for at := 0.0; ; {
		if at += rng.ExpFloat64() * own / share; at >= float64(r.cfg.Ns) && len(out) > 0 {
			return out
		}
		n := r.nets[rng.IntN(len(r.nets))]
		k := n.images(min(4, rng.ExpFloat64()) * r.cfg.mean())
		d := slack * r.each[n.b.Network.Name] * float64(k)
		out = append(out, seeb.Task{At: int64(at), Deadline: int64(d) + seeb.Window, Network: n.b.Network.Name, Images: k})
	}
}

// play serves tasks under a system and returns their results.
func (r *run) play(ctx context.Context, system string, tasks []seeb.Task) (*seeb.Spans, *watched, error) {
	policy, err := seeb.System(system, r.models, seeb.DefaultOpen())
	if err != nil {
		return nil, nil, err
	}
	s, err := r.open(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = s.Shut() }()
	var nets []engine.Network
	for _, n := range r.nets {
		nets = append(nets, engine.Network{Name: n.b.Network.Name, Tables: []*sched.Table{n.table}})
	}
	seen, launched := &seeb.Spans{Tasks: make([]seeb.Span, len(tasks))}, &watched{Policy: policy}
	if _, err := engine.Serve(ctx, engine.Config{
		Devices: []device.Device{s}, Networks: nets, Policy: launched, Source: seeb.Source(tasks), Clock: engine.Measured, Keep: engine.Counts, Observer: seen,
		Inputs: func(q *sched.Request) ([]device.Tensor, error) { return r.inputs[q.Network], nil }, Watchdog: engine.Watchdog{Fixed: 1 << 50},
	}); err != nil {
		return nil, nil, err
	}
	if ctx.Err() != nil {
		return nil, nil, context.Cause(ctx)
	}
	return seen, launched, nil
}

// serve serves the tasks under a system and adds the results.
func (r *run) serve(ctx context.Context, system string, tasks []seeb.Task) error {
	seen, launched, err := r.play(ctx, system, tasks)
	if err != nil {
		return err
	}
	var latency, late, pictures []int64
	failed := int64(0)
	for i := range tasks {
		e := &seen.Tasks[i]
		if e.Failed || e.To == 0 {
			failed++
			continue
		}
		latency = append(latency, e.To-e.From)
		over := int64(0)
		if e.To-tasks[i].At > tasks[i].Deadline {
			over = 1_000_000
		}
		late, pictures = append(late, over), append(pictures, int64(tasks[i].Images))
	}
	r.add(system+" latency of a task", "ns", latency...)
	r.add(system+" late", "ppm", late...)
	r.add(system+" images of a task", "samples", pictures...)
	r.add(system+" failed", "launches", failed)
	r.add(system+" units of a launch", "units", launched.units...)
	return nil
}

// watched wraps a policy and records the number of units of each launch; 0: all units.
type watched struct {
	sched.Policy
	units []int64
}

// Decide implements sched.Policy.
func (w *watched) Decide(now sched.Time, st *sched.State, ev *sched.Event, buf []sched.Action) []sched.Action {
	from := len(buf)
	buf = w.Policy.Decide(now, st, ev, buf)
	for i := from; i < len(buf); i++ {
		if buf[i].Kind == sched.Launch {
			w.units = append(w.units, int64(buf[i].Units.Count()))
		}
	}
	return buf
}
