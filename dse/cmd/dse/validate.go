package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/dse/cost"
	"github.com/sluice-npu/sluice/dse/counted"
	"github.com/sluice-npu/sluice/dse/lower"
	"github.com/sluice-npu/sluice/dse/machine"
	"github.com/sluice-npu/sluice/dse/mapping"
	"github.com/sluice-npu/sluice/dse/randnet"
	"github.com/sluice-npu/sluice/dse/recipe"
	"github.com/sluice-npu/sluice/host/cli"
	"github.com/sluice-npu/sluice/host/npu"
	"github.com/sluice-npu/sluice/host/shard"
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
)

type validateCmd struct {
	Network []string `from:"network" default:"resnet50,inceptionv3,mobilenetv2" placeholder:"NAME" help:"Networks whose distinct layers are timed."`
	recipe.Import
	Config    []string  `default:"run,mid,zc706" placeholder:"NAME|FILE.yaml" help:"Configurations; their stub build must exist (sim/build.sh NAME --stub). Of --again, where they are your own."`
	Batch     []int     `from:"network" default:"1,2,4,8" help:"Batch sizes."`
	Bandwidth []float64 `from:"network" placeholder:"BYTES" help:"Bytes a cycle of the DRAM (default: the configuration's, and twice that)."`
	N         int       `from:"network" name:"n" default:"300" help:"Random layers, over all configurations, each under any legal FBCB entry."`
	Share     float64   `from:"network" default:"1" help:"Share of the distinct layers to time, drawn by the seed."`
	Longest   int64     `from:"network" default:"0" help:"Leave out layers of more cycles than this by the law; 0 takes all."`
	Seed      uint64    `from:"network" default:"1" help:"Seed of the random layers and of the sample."`
	Latency   []int     `from:"network" placeholder:"CYCLES" help:"Latency of the DRAM (default: the configuration's)."`
	Starts    bool      `help:"Time whole segments of the networks, one start each, rather than layers alone; no random ones but --random."`
	Random    int       `from:"network" placeholder:"N" help:"With --starts: also segments of so many random networks of up to eight layers on each configuration and bandwidth, under any legal FBCB entries."`
	Require   bool      `help:"Fail where the law is off by more than is meant (3 % or 100 cycles, 1 % on average); without it or --bands status 0 says only that all was counted."`
	Bands     bool      `help:"Fail where the law is beyond its bands, those of the layers in dse/counted; with --machine random layers are held to the machine, every counter, and not to the law's band."`
	Full      bool      `from:"network" help:"The build with its MACs (sim/build.sh NAME), slower: the same cycles."`
	Machine   bool      `help:"Also compare the machine (dse/machine), which steps through the RTL's registers: some 0.3 s a million cycles."`
	Again     string    `placeholder:"FILE.json" help:"Do not simulate: compare the law of now with the counters that --out wrote to this file."`
	Out       string    `shard:"here" placeholder:"FILE.json" help:"Also write the figures to a file, of every layer."`
	cli.Shards
}

func (validateCmd) Help() string {
	return `Time layers alone on the Verilated NPU without MACs (same cycles, no numbers) and compare the law of
cycles. For each configuration and bandwidth the networks are compiled anew, so the entries are those
that the law itself would choose; the random layers have any legal one.

Example: dse validate --config run --network mobilenetv2 --n 60 --share 0.2 --longest 200000`
}

type validateDoc struct {
	cli.Header
	RTL     string                     `json:"rtl,omitempty"` // hash of the RTL (counted.Sources)
	Cycles  counted.Summary            `json:"cycles"`
	By      map[string]counted.Summary `json:"by"`                // by configuration and bandwidth
	Machine map[string]*stepped        `json:"machine,omitempty"` // the same errors for the machine
	Starts  []counted.StartBand        `json:"starts,omitempty"`  // with --starts
	Worst   []counted.Layer            `json:"worst"`
	Layers  []counted.Layer            `json:"layers,omitempty"` // all layers, with --out
}

// stepped contains the errors of package machine relative to the RTL's counters.
type stepped struct {
	N      int     `json:"n"`
	Exact  int     `json:"to_the_cycle"`
	Waits  int     `json:"stalls_too"` // number of exact layers with exact stalls
	Mean   float64 `json:"mean"`       // mean of |machine - counter| / counter
	Cycles int64   `json:"worst_cycles"`
}

// checkSample returns an error if a flag of the sample is out of range.
func checkSample(n int, share float64, batches []int) error {
	if n < 0 || !(share > 0) || share > 1 || slices.Min(append(batches, 1)) < 1 || slices.Max(append(batches, 1)) > abi.BMax {
		return usage("--n, --share or --batch is out of range")
	}
	return nil
}

func (c *validateCmd) Run(e *cli.Env) error {
	if err := checkSample(c.N, c.Share, c.Batch); err != nil {
		return err
	}
	if c.Random < 0 || c.Random > 0 && !c.Starts || slices.Min(append(c.Latency, 1)) < 1 {
		return usage("--random is a number of networks, with --starts, and --latency 1 or more")
	}
	if c.Bands && c.Starts {
		return usage("--bands are those of layers: --starts does not go with it")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if c.Again != "" {
		if c.Shard != "" {
			return usage("--shard does not go with --again, which simulates nothing")
		}
		if err := e.Unread(cli.Choice{Tag: "from", Chosen: "again", Text: map[string]string{"network": "a run that counts", "again": "--again, which takes all that the file has"}}); err != nil {
			return err
		}
	}
	shards, over, err := c.Begin(e)
	if err != nil || over {
		return err
	}
	var all []counted.Layer
	switch {
	case c.Again != "":
		all, err = c.again()
	case c.Starts:
		all, over, err = c.starts(ctx, e, shards)
	default:
		if all, err = c.count(ctx, e, shards); err == nil {
			over, err = shards.Finish()
		}
	}
	if err != nil || over {
		return err
	}
	return c.judge(ctx, e, all)
}

// judge prints the errors of the estimates for the counted layers.
func (c *validateCmd) judge(ctx context.Context, e *cli.Env, all []counted.Layer) error {
	doc := validateDoc{Header: newHeader("validate", c.Seed)}
	doc.Label = "simulated"
	if c.Again == "" {
		doc.RTL, _ = counted.Sources(".", slices.ContainsFunc(all, func(l counted.Layer) bool { return l.Int8() })) // empty outside the repository
	}
	if c.Machine {
		if err := doc.step(ctx, all); err != nil {
			return err
		}
	}
	doc.By, doc.Cycles = counted.By(all), counted.Summarise(all)
	out := c.Out
	if c.Starts {
		doc.Starts, out = counted.BandsOf(all), "" // starts has already written this file
	}
	counted.Sort(all)
	doc.Worst = all[:min(len(all), 20)]
	if out != "" {
		doc.Layers = all
	}
	if err := e.Document(doc, out, e.JSON); err != nil {
		return err
	}
	if !e.JSON {
		doc.print(e)
	}
	if s := doc.Cycles; c.Require && (s.Beyond > 0 || s.Mean > counted.MeanShare) {
		return cli.Told(cli.Check)
	}
	if c.Bands {
		return insideBands(e, all, c.Machine)
	}
	return nil
}

// step simulates the layers in package machine.
func (d *validateDoc) step(ctx context.Context, all []counted.Layer) error {
	d.Machine = map[string]*stepped{}
	for i := range all {
		l := &all[i]
		r, err := l.Step(ctx)
		if err != nil {
			return err
		}
		l.Stepped = &machine.Spent{Cycles: r.Cycles, Stalls: r.Stalls}
		key := fmt.Sprintf("%s/%g", l.Config, l.Bandwidth)
		if d.Machine[key] == nil {
			d.Machine[key] = &stepped{}
		}
		x, off := d.Machine[key], max(r.Cycles-l.Cycles, l.Cycles-r.Cycles)
		x.N++
		x.Mean += float64(off) / float64(l.Cycles)
		x.Cycles = max(x.Cycles, off)
		if off == 0 {
			x.Exact++
			if l.Waits(r.Stalls) {
				x.Waits++
			}
		}
	}
	for _, x := range d.Machine {
		x.Mean /= float64(x.N)
	}
	return nil
}

// starts counts segments and writes them to a file. The law's results are computed when the file is read.
func (c *validateCmd) starts(ctx context.Context, e *cli.Env, shards *shard.Run) (all []counted.Layer, over bool, err error) {
	var out counted.Starts
	for d, err := range c.designs() {
		if err == nil {
			err = c.startsOn(ctx, e, shards, d, &out)
		}
		if err != nil {
			return nil, false, err
		}
	}
	if over, err = shards.Finish(); over || err != nil {
		return nil, over, err
	}
	out.RTL, _ = counted.Sources(".", slices.ContainsFunc(out.Geometries, func(g cost.Geom) bool { return g.Int8 }))
	text, err := json.Marshal(&out)
	if err != nil {
		return nil, false, err
	}
	if c.Out != "" {
		// one start per line
		text = bytes.ReplaceAll(bytes.ReplaceAll(text, []byte(`},{"network"`), []byte("},\n{\"network\"")), []byte(`},{"Op"`), []byte("},\n{\"Op\""))
		if err := os.WriteFile(c.Out, append(text, '\n'), 0o644); err != nil {
			return nil, false, err
		}
	}
	own, err := c.own()
	if err != nil {
		return nil, false, err
	}
	_, all, err = counted.ReadStarts(bytes.NewReader(text), own...)
	return all, false, err
}

// compiled compiles a network for a configuration. If the network does not fit, it prints a note and returns nil, nil.
func (c *validateCmd) compiled(e *cli.Env, d configs.Design, network string) (*bundle.Bundle, error) {
	s := source{Network: network, Config: d.Name, Seed: 1, Images: 1, Flags: recipe.Flags{Import: c.Import}}
	b, err := s.compileFor(d)
	if errors.Is(err, lower.ErrTooBig) || errors.Is(err, lower.ErrTooMany) || errors.Is(err, mapping.ErrNoFit) {
		fmt.Fprintf(e.Stderr, "dse: %s on %s left out: %v\n", network, d.Name, err)
		return nil, nil
	}
	return b, err
}

// started is a counted start, with its index among the starts of its network.
type started struct {
	At    int
	Start counted.Start
	Chain []counted.Step
}

func (c *validateCmd) startsOn(ctx context.Context, e *cli.Env, shards *shard.Run, d configs.Design, out *counted.Starts) error {
	name := nameOf(d)
	for _, network := range c.Network {
		compiled := sync.OnceValues(func() (*bundle.Bundle, error) { return c.compiled(e, d, network) })
		var all []started
		for got, err := range shard.Units(shards, "starts of "+network+" on "+name, networkUnits, func(u int) ([]started, error) {
			b, err := compiled()
			if err != nil || b == nil || u >= len(c.Batch)*len(b.Network.Exits) {
				return nil, err
			}
			return c.counting(ctx, shards, d, func(drv *npu.Driver) ([]started, error) {
				return c.startsOf(ctx, drv, d, b, c.Called(network), c.Batch, func(at int) bool { return at%networkUnits == u })
			})
		}) {
			if err != nil {
				return err
			}
			all = append(all, got...)
		}
		slices.SortStableFunc(all, func(a, b started) int { return cmp.Compare(a.At, b.At) })
		if err := addTo(out, all); err != nil {
			return err
		}
	}
	rng := rand.New(rand.NewPCG(c.Seed, 0x6473650002))
	batches := make([]int, c.Random)
	for i := range batches {
		batches[i] = 1 + rng.IntN(abi.BMax)
	}
	o := randnet.Built()
	o.Woven, o.MaxLayers, o.MaxSide, o.MaxMACs = true, 8, 16, 200_000
	for got, err := range shard.Units(shards, "random starts on "+name, (c.Random+randomUnit-1)/randomUnit, func(u int) ([]started, error) {
		return c.counting(ctx, shards, d, func(drv *npu.Driver) (all []started, err error) {
			for i := u * randomUnit; i < min((u+1)*randomUnit, c.Random); i++ {
				seed := c.Seed<<20 + uint64(i)
				net, err := randnet.New(seed, d, o)
				if err != nil {
					return nil, err
				}
				net.Bundle.Network.Name = "random"
				got, err := c.startsOf(ctx, drv, d, net.Bundle, fmt.Sprintf("random %d", seed), batches[i:i+1], func(int) bool { return true })
				if err != nil {
					return nil, err
				}
				all = append(all, got...)
			}
			return all, nil
		})
	}) {
		if err != nil {
			return err
		}
		if err := addTo(out, got); err != nil {
			return err
		}
	}
	return nil
}

func addTo(out *counted.Starts, all []started) error {
	for _, s := range all {
		if err := out.Add(s.Start, s.Chain); err != nil {
			return err
		}
	}
	return nil
}

// counting starts a simulator, and runs count with it.
func (c *validateCmd) counting(ctx context.Context, shards *shard.Run, d configs.Design, count func(*npu.Driver) ([]started, error)) ([]started, error) {
	drv, err := c.simulator(ctx, shards, d)
	if err != nil {
		return nil, err
	}
	all, err := count(drv)
	return all, errors.Join(err, drv.Close())
}

// startsOf counts the segments i of a network for which mine(i) is true.
func (c *validateCmd) startsOf(ctx context.Context, drv *npu.Driver, d configs.Design, b *bundle.Bundle, name string, batches []int, mine func(at int) bool) (all []started, err error) {
	if err := drv.Load(ctx, b); err != nil {
		return nil, err
	}
	for i, batch := range batches {
		for k, x := range b.Network.Exits {
			at := i*len(b.Network.Exits) + k
			if !mine(at) {
				continue
			}
			var chain []counted.Step
			for l := x.First; l <= x.Last; l++ {
				chain = append(chain, counted.StepOf(&b.Layers[l], b.FBCB[l][batch-1]))
			}
			if c.Longest > 0 && counted.Law(d, chain, batch) > c.Longest {
				continue
			}
			n, err := drv.Measure(ctx, b.Network.Name, x.First, x.Last, batch)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			all = append(all, started{at, counted.Start{
				Network: name, Config: d.Name, Bandwidth: d.DRAM.BytesPerCycle, Latency: d.DRAM.LatencyCycles, Batch: batch, First: x.First,
				Cycles: int64(n[abi.CntCyclesBusy]), Stalls: machine.StallsOf(&n),
			}, chain})
		}
	}
	return all, nil
}

// own returns the designs of --config. They are used instead of shipped designs with the same names.
func (c *validateCmd) own() (all []configs.Design, err error) {
	for _, name := range c.Config {
		d, err := configs.Load(name)
		if err != nil {
			return nil, err
		}
		all = append(all, d)
	}
	return all, nil
}

// again reads the layers or starts of an earlier run, and applies the law to them again.
func (c *validateCmd) again() ([]counted.Layer, error) {
	own, err := c.own()
	if err != nil {
		return nil, err
	}
	in, err := os.Open(c.Again)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	var f counted.File
	if c.Starts {
		_, f.Layers, err = counted.ReadStarts(in, own...)
	} else {
		f, err = counted.Read(in, own...)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Again, err)
	}
	return f.Layers, nil
}

// insideBands returns an error if the law is outside its bands. A small sample of random layers rarely contains a large
// error. So if package machine ran, its counters must equal the RTL's for all random layers.
func insideBands(e *cli.Env, all []counted.Layer, stepped bool) error {
	kinds, err := counted.Kinds(all)
	if err != nil {
		return err
	}
	for i := range kinds {
		k := &kinds[i]
		if len(k.Layers) == 0 {
			continue
		}
		s := counted.Summarise(k.Layers)
		fmt.Fprintf(e.Stderr, "dse: %d %s: mean %.2f %% (band %.2f), worst %.2f %% (band %.2f)", s.N, k.What, 100*s.Mean, 100*k.Band.Mean, 100*s.Worst, 100*k.Band.Worst)
		inside := k.Inside()
		if k.Random && stepped {
			n := k.Exact()
			fmt.Fprintf(e.Stderr, "; by the machine %d to the cycle, with every stall", n)
			inside = n == s.N
		}
		fmt.Fprintln(e.Stderr)
		if !inside {
			err = cli.Told(cli.Check)
		}
	}
	return err
}

// count measures layers on all configurations and bandwidths.
func (c *validateCmd) count(ctx context.Context, e *cli.Env, shards *shard.Run) (all []counted.Layer, err error) {
	for d, err := range c.designs() {
		if err != nil {
			return nil, err
		}
		got, err := c.design(ctx, e, shards, d)
		if err != nil {
			return nil, err
		}
		all = append(all, got...)
	}
	return all, nil
}

// designs returns the configurations at each bandwidth and latency.
func (c *validateCmd) designs() iter.Seq2[configs.Design, error] {
	return func(yield func(configs.Design, error) bool) {
		for _, name := range c.Config {
			d, err := configs.Load(name)
			if err != nil {
				yield(d, err)
				return
			}
			rates := c.Bandwidth
			if len(rates) == 0 {
				rates = []float64{d.DRAM.BytesPerCycle, 2 * d.DRAM.BytesPerCycle}
			}
			latencies := c.Latency
			if len(latencies) == 0 {
				latencies = []int{d.DRAM.LatencyCycles}
			}
			for _, d.DRAM.BytesPerCycle = range rates {
				for _, d.DRAM.LatencyCycles = range latencies {
					if !yield(d, nil) {
						return
					}
				}
			}
		}
	}
}

// build returns the name of a design's Verilated NPU, with MACs or without.
func build(d configs.Design, full bool) string {
	if full {
		return d.Name
	}
	return d.Name + "-stub"
}

// open starts a build of the Verilated NPU with the memory of the design. named is the value of --config.
func open(ctx context.Context, d configs.Design, build string, named []string) (*npu.Driver, error) {
	bin, err := npu.FindCosim(build, named...)
	if err != nil {
		return nil, err
	}
	bus, err := npu.OpenCosim(ctx, npu.CosimOpts{Binary: bin, DRAMBytes: 1 << 30})
	if err != nil {
		return nil, err
	}
	if err := bus.SetMemory(d.DRAM.BytesPerCycle, d.DRAM.LatencyCycles); err != nil {
		return nil, errors.Join(err, bus.Close())
	}
	drv, err := npu.New(bus, npu.Opts{ClockHz: int64(d.ClockMHz * 1e6), CycleLimit: 1 << 32})
	if err != nil {
		return nil, errors.Join(err, bus.Close())
	}
	return drv, nil
}

const (
	networkUnits = 16 // units of a network: layer l is in unit l % networkUnits
	randomUnit   = 16 // random layers per unit
)

// timed contains the layers of a unit. IDs distinguish layers with equal cycles.
type timed struct {
	IDs    []string
	Layers []counted.Layer
}

// nameOf returns a name for a configuration, bandwidth and latency.
func nameOf(d configs.Design) string {
	return fmt.Sprintf("%s/%g/%d", d.Name, d.DRAM.BytesPerCycle, d.DRAM.LatencyCycles)
}

// simulator starts a simulator for a unit. The result of the unit contains the version of the simulator.
func (c *validateCmd) simulator(ctx context.Context, shards *shard.Run, d configs.Design) (*npu.Driver, error) {
	shards.Made("simulator of "+build(d, c.Full), func() string {
		bin, err := npu.FindCosim(build(d, c.Full), c.Config...)
		if err != nil {
			return err.Error() // open reports the error
		}
		return cli.Simulator(bin)
	})
	return open(ctx, d, build(d, c.Full), c.Config)
}

// design measures layers on one configuration and bandwidth. Each unit has its own simulator.
func (c *validateCmd) design(ctx context.Context, e *cli.Env, shards *shard.Run, d configs.Design) (all []counted.Layer, err error) {
	name := nameOf(d)
	unit := func(stream int, run func(*timer, *rand.Rand) error) (*timed, error) {
		drv, err := c.simulator(ctx, shards, d)
		if err != nil {
			return nil, err
		}
		t := timer{ctx: ctx, drv: drv, design: d, longest: c.Longest, seen: map[string]bool{}}
		err = run(&t, rand.New(rand.NewPCG(c.Seed, 0x6473650001^uint64(stream+1)<<40)))
		return &t.timed, errors.Join(err, drv.Close())
	}
	seen := map[string]bool{}
	for i, network := range c.Network {
		compiled := sync.OnceValues(func() (*bundle.Bundle, error) { return c.compiled(e, d, network) })
		for got, err := range shard.Units(shards, network+" on "+name, networkUnits, func(u int) (*timed, error) {
			b, err := compiled()
			if err != nil || b == nil {
				return &timed{}, err
			}
			return unit(i*networkUnits+u, func(t *timer, rng *rand.Rand) error {
				for l := u; l < len(b.Layers); l += networkUnits {
					if rng.Float64() >= c.Share {
						continue
					}
					if err := t.layer(b, network, l, c.Batch); err != nil {
						return err
					}
				}
				return nil
			})
		}) {
			if err != nil {
				return nil, err
			}
			for k, id := range got.IDs {
				if !seen[id] {
					all = append(all, got.Layers[k])
				}
				seen[id] = true
			}
		}
		fmt.Fprintf(e.Stderr, "dse: %s at %g bytes/cycle: %s, %d layers so far\n", d.Name, d.DRAM.BytesPerCycle, network, len(all))
	}
	share := (c.N + len(c.Config) - 1) / len(c.Config)
	units := (share + randomUnit - 1) / randomUnit
	for got, err := range shard.Units(shards, "random on "+name, units, func(u int) (*timed, error) {
		return unit(len(c.Network)*networkUnits+u, func(t *timer, rng *rand.Rand) error {
			n := share*(u+1)/units - share*u/units
			for seed := c.Seed<<20 + uint64(u)<<10; len(t.Layers) < n; seed++ {
				net, err := randnet.New(seed, d, randnet.Built())
				if err != nil {
					return err
				}
				net.Bundle.Network.Name = "random"
				for l := 0; l < len(net.Bundle.Layers) && len(t.Layers) < n; l++ {
					if err := t.layer(net.Bundle, fmt.Sprintf("random %d", seed), l, []int{1 + rng.IntN(abi.BMax)}); err != nil {
						return err
					}
				}
			}
			return nil
		})
	}) {
		if err != nil {
			return nil, err
		}
		all = append(all, got.Layers...)
	}
	for i := range all {
		all[i].Design = d
	}
	return all, nil
}

// timer measures each distinct layer once. A sequence of layers that keep tensors on chip is measured together.
type timer struct {
	ctx     context.Context
	drv     *npu.Driver
	design  configs.Design
	longest int64
	loaded  *bundle.Bundle
	seen    map[string]bool
	timed
}

func (t *timer) layer(b *bundle.Bundle, network string, l int, batches []int) error {
	for _, batch := range batches {
		g, entry := cost.GeomOf(&b.Layers[l]), b.FBCB[l][batch-1]
		if entry.KeepIn {
			continue // measured together with the layer that keeps its input
		}
		chain := []counted.Step{counted.StepOf(&b.Layers[l], entry)}
		last, id, text := l, "", entryText(entry, batch)
		for b.FBCB[last][batch-1].KeepOut {
			last++
			next := counted.StepOf(&b.Layers[last], b.FBCB[last][batch-1])
			chain = append(chain, next)
			id += fmt.Sprint(next.Geom, next.Entry)
			text += ", kept; " + entryText(next.Entry, batch)
		}
		cycles := counted.Law(t.design, chain, batch)
		if t.longest > 0 && cycles > t.longest {
			continue
		}
		key := g // only the part of the offsets that affects beats changes the time
		key.InOffset, key.OutOffset, key.ResOffset = key.InOffset%64, key.OutOffset%64, key.ResOffset%64
		if id += fmt.Sprint(key, entry, batch); t.seen[id] {
			continue
		}
		t.seen[id] = true
		if t.loaded != b {
			if err := t.drv.Load(t.ctx, b); err != nil {
				return err
			}
			t.loaded = b
		}
		n, err := t.drv.Measure(t.ctx, b.Network.Name, l, last, batch)
		if err != nil {
			return fmt.Errorf("%s: %w", network, err)
		}
		t.IDs = append(t.IDs, id)
		t.Layers = append(t.Layers, counted.Layer{
			Config: t.design.Name, Bandwidth: t.design.DRAM.BytesPerCycle, Latency: t.design.DRAM.LatencyCycles, Network: network, Batch: batch,
			Layer: fmt.Sprintf("%s %dx%dx%d k%dx%d/%d -> %dx%dx%d", g.Op, g.InH, g.InW, g.InC, g.KH, g.KW, g.SH, g.OutH, g.OutW, g.OutC),
			Entry: text, Law: cycles, Cycles: int64(n[abi.CntCyclesBusy]), Chain: chain, Design: t.design,
			Stalls: machine.StallsOf(&n),
		})
	}
	return nil
}

// entryText formats an FBCB entry.
func entryText(e abi.FBCB, batch int) string {
	order := "rows outermost"
	if e.Order {
		order = "C outermost"
	}
	return fmt.Sprintf("k = %v, s = %d, tile %d x %d, %s", cost.K(e.K), cost.Groups(e, batch), e.TileB, e.TileRows, order)
}

func (d *validateDoc) print(e *cli.Env) {
	what := "layers alone"
	if len(d.Starts) > 0 {
		what = "whole starts"
	}
	fmt.Fprintf(e.Stdout, "law of cycles against the counters (simulated, Verilator, no MACs), %s\n", what)
	for _, n := range append(slices.Sorted(maps.Keys(d.By)), "") {
		s, label := d.By[n], n
		if n == "" {
			s, label = d.Cycles, "all"
		}
		fmt.Fprintf(e.Stdout, "  %-14s %5d  mean %5.2f %%  worst %6.2f %%  beyond 3 %% and 100 cycles: %d\n", label, s.N, 100*s.Mean, 100*s.Worst, s.Beyond)
		if x := d.Machine[n]; x != nil {
			fmt.Fprintf(e.Stdout, "  %-14s %5d to the cycle by the machine, %d with their stalls; mean %.3f %%, at most %d cycles off\n", "", x.Exact, x.Waits, 100*x.Mean, x.Cycles)
		}
	}
	for _, b := range d.Starts {
		if b.Network == "" {
			continue // all networks together are printed above
		}
		fmt.Fprintf(e.Stdout, "%s/%g %s: %d starts, mean %.2f %%, worst %.2f %%\n", b.Config, b.Bandwidth, b.Network, b.N, 100*b.Mean, 100*b.Worst)
	}
	if len(d.Starts) > 0 {
		return
	}
	for _, v := range d.Worst {
		fmt.Fprintf(e.Stdout, "  %+6.2f %%  law %d, counted %d  %s/%g %s %s  B = %d  %s  (stalls: weights %d, activations %d, drain %d, depth %d)\n",
			100*v.Share(), v.Law, v.Cycles, v.Config, v.Bandwidth, v.Network, strings.ToLower(v.Layer), v.Batch, v.Entry,
			v.Stalls.Weights, v.Stalls.Activations, v.Stalls.Drain, v.Stalls.Depth)
	}
}
