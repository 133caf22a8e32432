// Package disb runs REEF's benchmark on a GPU: DISB A to E and a car's workload (reef.Drive). It uses the unchanged
// workloads and policies of package reef, in real time on package cuda.
//
// The networks have no bundles, because no NPU supports them. Stand-ins (StandIn) run instead. A stand-in imitates a
// network of the catalogue kernel by kernel, with the same tensor sizes and windows. It consists of the device's own
// kernels with random weights.
//
// The simulated GPU has run the same stand-ins under the same workloads. Its predictions (foretold.csv) are printed
// beside the measurements. The predictions use costs (launch, link, kill) that were measured on an H100. Some rows were
// predicted again: reef and reef-dkp for A to C after H200 measurements, and D and E after D was measured.
package disb

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/experiments/reef"
	"github.com/sluice-npu/sluice/host/gpu"
	"github.com/sluice-npu/sluice/host/gpu/cuda"
	"github.com/sluice-npu/sluice/host/gpu/cuda/bench"
	"github.com/sluice-npu/sluice/host/gpu/params"
	"github.com/sluice-npu/sluice/host/sched"
)

// Config selects the runs.
type Config struct {
	Library   string // path of the driver library; "": the system's
	NVML      string // path of NVML's library
	GPU       int
	Params    *params.File // parameters of the simulated GPU; they determine which kernels are padded
	Shrink    int          // divisor of every tensor side
	Ns        int64        // length of a run in ns; 0: Alones determines the length
	Alones    int64        // length of a run as a multiple of the longest time of a network alone
	Seed      uint64
	Workloads []string // nil: all
	Systems   []string // nil: all systems that a real GPU supports
	Spin      bool     // the launcher never sleeps
	Looks     int      // number of kernel runs before and after each run to measure the GPU's speed, at most ten
	Tell      func(what string)
	Keep      func([]bench.Series) // if set, it is called with all runs so far after each run
}

// Names returns the names of the workloads, in order.
func Names() (out []string) {
	for _, w := range reef.Workloads() {
		out = append(out, w.Name)
	}
	return out
}

// Run runs the benchmark on a GPU. On an error, it returns the completed runs.
func Run(ctx context.Context, cfg Config) ([]bench.Series, error) {
	nets, err := cfg.networks()
	if err != nil {
		return nil, err
	}
	drawn := map[string]*cuda.Drawn{}
	for _, b := range nets {
		drawn[b.Network.Name] = &cuda.Drawn{Bundle: b, Seed: cfg.Seed}
	}
	looks := &bench.Looks{Runs: cfg.Looks}
	keep := cfg.Keep
	cfg.Keep = func(all []bench.Series) {
		if keep != nil {
			keep(append(slices.Clone(all), looks.Series(bench.DISB)...))
		}
	}
	all, err := cfg.series(ctx, reef.On(cfg.Params, nil, func(ctx context.Context, m gpu.Mode, names []string) (*reef.Opened, error) {
		return cfg.open(ctx, m, names, drawn, looks)
	}), nets, away)
	return append(all, looks.Series(bench.DISB)...), err
}

// workloads returns the selected workloads.
func (c *Config) workloads() ([]reef.Workload, error) {
	all := reef.Workloads()
	if c.Workloads == nil {
		return all, nil
	}
	var out []reef.Workload
	for _, name := range c.Workloads {
		i := slices.IndexFunc(all, func(w reef.Workload) bool { return w.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("%w: no workload %q; there are %s", device.ErrRequest, name, strings.Join(Names(), ", "))
		}
		out = append(out, all[i])
	}
	return out, nil
}

// networks returns the stand-ins of all networks in the workloads.
func (c *Config) networks() ([]*bundle.Bundle, error) {
	all, err := c.workloads()
	if err != nil {
		return nil, err
	}
	for _, s := range c.Systems {
		if !slices.Contains(reef.RealSystems(), s) {
			return nil, fmt.Errorf("%w: no system %q on a GPU; there are %s", device.ErrRequest, s, strings.Join(reef.RealSystems(), ", "))
		}
	}
	if c.Ns < 0 || c.Alones < 0 || c.Ns == 0 && c.Alones == 0 {
		return nil, fmt.Errorf("%w: a run of %d ns, or of %d times a request alone", device.ErrRequest, c.Ns, c.Alones)
	}
	var names []string
	for _, w := range all {
		for _, client := range w.Clients {
			names = append(names, client.Network)
		}
	}
	slices.Sort(names)
	var out []*bundle.Bundle
	for _, name := range slices.Compact(names) {
		b, err := StandIn(name, c.Shrink)
		if err != nil {
			return nil, err
		}
		out = append(out, b)
	}
	return out, nil
}

// ppm is the factor by which ratios are multiplied, since series store only integers.
const ppm = 1e6

// away is the metric of preemption times on a real GPU. Such a time ends when the host observes the preemption. This is
// later than on the simulated GPU, by a copy and a poll. So the metric has a different name.
const away = "away"

// series runs each workload under each system. gone is the name of the metric of preemption times.
func (c *Config) series(ctx context.Context, b *reef.Bed, nets []*bundle.Bundle, gone string) (out []bench.Series, err error) {
	all, err := c.workloads()
	if err != nil {
		return nil, err
	}
	add := func(key, unit string, factor float64, runs ...float64) {
		s := bench.Series{Part: bench.DISB, Key: key, Unit: unit}
		for _, v := range runs {
			s.Runs = append(s.Runs, int64(v*factor))
		}
		out = append(out, s)
	}
	took := c.Ns
	for _, n := range nets {
		if err := ctx.Err(); err != nil {
			return out, err
		}
		ns, err := b.Alone(n.Network.Name)
		if err != nil {
			return out, err
		}
		if c.Ns == 0 {
			took = max(took, c.Alones*ns)
		}
		add(n.Network.Name+" alone", "ns", 1, float64(ns))
	}
	systems := c.Systems
	if systems == nil {
		systems = reef.RealSystems()
	}
	for _, w := range all {
		for _, system := range systems {
			if c.Tell != nil {
				c.Tell(w.Name + " under " + system)
			}
			o, err := b.Run(ctx, system, w, took, c.Seed)
			if err == nil { // the results of an aborted run are discarded
				err = ctx.Err()
			}
			if err != nil {
				return out, fmt.Errorf("DISB %s under %s: %w", w.Name, system, err)
			}
			key := w.Name + " " + system
			add(key+" latency", "ppm", ppm, o.Seen...)
			add(key+" throughput", "ppm", ppm, o.Throughput)
			add(key+" best-effort", "ppm", ppm, o.BestEffort)
			if len(o.Gone) > 0 {
				add(key+" "+gone, "ns", 1e3, o.Gone...)
			}
			if o.Padded > 0 {
				add(key+" padded", "ppm", ppm, o.Padded)
			}
			for i, ns := range o.Pauses {
				add(key+[]string{" longest pause of the launcher", " of it on the processor"}[i], "ns", 1, float64(ns))
			}
			if c.Keep != nil {
				c.Keep(out)
			}
		}
	}
	return out, nil
}

// number of slots of each network, for requests in flight and some waiting requests
const slots = 32

// open opens the GPU with networks loaded.
func (c *Config) open(ctx context.Context, m gpu.Mode, names []string, drawn map[string]*cuda.Drawn, looks *bench.Looks) (_ *reef.Opened, err error) {
	p := c.Params.Params()
	d, err := cuda.New(cuda.Config{Library: c.Library, NVML: c.NVML, GPU: c.GPU, Mode: m, Params: &p, Through: true, Places: slots / 2, Slots: slots, Spin: c.Spin})
	if err != nil {
		return nil, err
	}
	s := cuda.NewSeat(ctx, d)
	defer func() {
		if err != nil {
			_ = s.Shut()
		}
	}()
	inputs := map[string][]device.Tensor{}
	for i, name := range names {
		if err := ctx.Err(); err != nil { // loading and measuring can exceed the time limit
			return nil, err
		}
		w := &drawn[name].Bundle.Network
		load := &device.Work{Kind: device.Load, Network: name, Artefact: drawn[name]}
		if _, err := s.Do(ctx, load); err != nil {
			return nil, err
		}
		in, rng := make([]int16, w.InH*w.InW*w.InC), rand.New(rand.NewPCG(c.Seed, uint64(i)))
		for k := range in {
			in[k] = int16(rng.IntN(2001) - 1000)
		}
		inputs[name] = []device.Tensor{device.Words("input", in, len(in))}
		if m.Pad { // only padding uses the times of kernels
			if err := d.Learn(name, 1); err != nil {
				return nil, err
			}
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	// looks.Look times the kernels of the workload's first network, because every system loads this network.
	if err := looks.Look(d, names[0], false); err != nil {
		return nil, err
	}
	return &reef.Opened{
		Device: s, Close: s.Shut,
		Inputs: func(r *sched.Request) ([]device.Tensor, error) { return inputs[r.Network], nil },
		Report: func() (*reef.Report, error) {
			n, err := d.Counts()
			if err != nil {
				return nil, err
			}
			if m.Pad && n.Learnt < len(names) {
				return nil, fmt.Errorf("disb: %s pads by the times of %d networks, expected %d", m.Name, n.Learnt, len(names))
			}
			if err := looks.Look(d, names[0], true); err != nil {
				return nil, err
			}
			report := &reef.Report{Ran: n.Ran, Padded: n.Padded, Again: n.Again, Pauses: []int64{n.Pauses.Longest.Nanoseconds(), n.Pauses.CPU.Nanoseconds()}}
			for i := range n.Preemptions {
				report.Gone = append(report.Gone, float64(n.Preemptions[i].Away.Nanoseconds())/1e3)
			}
			return report, nil
		},
	}, nil
}
