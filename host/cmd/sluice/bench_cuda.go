//go:build !static

// sluice bench gpu: what an NVIDIA GPU does, measured; on the driver without a GPU what would be.

package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/dse/cli"
	"github.com/sluice-npu/sluice/host/experiments/disb"
	"github.com/sluice-npu/sluice/host/experiments/gpus"
	"github.com/sluice-npu/sluice/host/gpu/cuda"
	"github.com/sluice-npu/sluice/host/gpu/cuda/bench"
	"github.com/sluice-npu/sluice/host/gpu/params"
	"github.com/sluice-npu/sluice/host/report"
)

type benchCUDACmd struct {
	Bundles []string `arg:"" optional:"" help:"Bundles to run, three or more, in place of --networks; the first is best effort, the last has priority."`
	Nets    []string `name:"networks" default:"resnet50,mobilenetv2,fashion" help:"Networks of the zoo; the first is best effort, the last has priority."`
	Config  string   `default:"mid" help:"Configuration that the networks are compiled for."`
	Build   string   `default:"build" help:"Folder for what is built once." env:"SLUICE_BUILD"`
	GPU     int      `default:"0" help:"Which GPU."`
	Params  string   `help:"Parameters of the GPU, by which padding is decided and into which params.yaml puts what is measured: a name, or a file. Without it those of the GPU's name; the H200's, as assumed ones, where none are known."`
	N       int      `short:"n" default:"100" help:"Runs of each thing, at most."`
	Parts   []string `help:"What is measured (partitions, latency, costs, copies, preemption, kills, padding, slowdown); default: all."`
	Batches []int    `default:"1,8,32" help:"Batches of the latencies."`
	Seed    uint64   `default:"1" help:"Of inputs and of the times at which launches come."`
	Out     string   `default:"out/bench-cuda" help:"Folder for summary.json, the runs, and, where there is a GPU, params.yaml."`
	JSON    bool     `name:"json" help:"Print JSON."`

	For time.Duration `name:"for" default:"1m" help:"How long a part takes about, once it has ten runs of each thing; 0: until it has all."`

	DISB      time.Duration `name:"disb" help:"Run REEF's benchmark too, so long each workload under each system; 0: not."`
	Shrink    int           `default:"1" help:"Of DISB's networks: every side of a tensor is divided by it."`
	Workloads []string      `help:"Of DISB (A, B, C, D, E, drive); default: all."`
}

// Help implements the command.
func (*benchCUDACmd) Help() string {
	return `Measures an NVIDIA GPU: on which SMs partitions run, latencies by partition and batch, what launches,
events, signals, partitions and decisions cost, copies alone and beside kernels, preemption by resetting and by
waiting with 1 to 16 kernels queued, what padding costs, and how well the slowdown of two and four networks
together is foreseen. Figures stand with their number of runs and their spread; the runs are kept, and
params.yaml is the parameter file with what was measured in place of what was assumed. A part ends when it has all
its runs, or when its time (--for) is over and it has ten of each thing; the best-effort network runs at the batch at
which a launch takes 2 ms. Where it ends early, by an error or by you, the runs until then are kept.

Example:
  sluice bench gpu -n 20 --out out/try
  sluice bench gpu -n 1000 --out out/h200
  sluice bench gpu -n 10000 --parts preemption,kills --for 5m --out out/kills
  sluice bench gpu -n 1000 --disb 1s --out out/h200
  sluice bench gpu a.sluice b.sluice c.sluice --json`
}

type cudaBenchDoc struct {
	header
	Facts    cuda.Facts  `json:"gpu"`
	Networks []string    `json:"networks"`
	N        int         `json:"n"`
	Rows     []bench.Row `json:"rows"`
	// Foretold is what the simulated GPU said before anything was measured, by part and key; published, what REEF
	// says of an MI50.
	Foretold  map[string]float64 `json:"foretold,omitempty"`
	Published map[string]float64 `json:"published,omitempty"`
}

// Run implements the command.
func (c *benchCUDACmd) Run(e *env) error {
	if c.N < 1 || c.N > 100_000 {
		return coded(codeUsage, fmt.Errorf("-n %d: expected 1..100000", c.N))
	}
	for _, b := range c.Batches {
		if b < 1 || b > 32 {
			return coded(codeUsage, fmt.Errorf("--batches %d: expected 1..32", b))
		}
	}
	for _, part := range c.Parts {
		if !slices.Contains(bench.Parts(), part) {
			return coded(codeUsage, fmt.Errorf("--parts %s: expected of %s", part, strings.Join(bench.Parts(), ", ")))
		}
	}
	if c.For < 0 {
		return coded(codeUsage, fmt.Errorf("--for %s: expected none below 0", c.For))
	}
	if c.DISB < 0 || c.DISB > time.Minute || c.Shrink < 1 || c.Shrink > 64 {
		return coded(codeUsage, fmt.Errorf("--disb %s --shrink %d: expected up to 1m, and 1..64", c.DISB, c.Shrink))
	}
	for _, w := range c.Workloads {
		if !slices.Contains(disb.Names(), w) {
			return coded(codeUsage, fmt.Errorf("--workloads %s: expected of %s", w, strings.Join(disb.Names(), ", ")))
		}
	}
	var f *params.File
	var err error
	if c.Params != "" {
		if f, err = params.Of(c.Params); err != nil {
			return coded(codeInput, err)
		}
	}
	at, err := foundGPU("cuda", c.GPU) // before anything is compiled
	if err != nil {
		return coded(codeDevice, err)
	}
	device, err := gpuConfig("cuda", c.GPU)
	if err != nil {
		return coded(codeDevice, err)
	}
	if f == nil {
		name, _, _ := strings.Cut(at, ", driver for ")
		if f, err = params.Find(name); err != nil {
			return err
		}
		if f == nil {
			e.log.Warn("no parameters are known of this GPU: the H200's stand for what is not measured, as assumed ones", "gpu", name)
			if f, err = params.Of("h200"); err != nil {
				return err
			}
		}
	}
	var nets []*bundle.Bundle
	doc := &cudaBenchDoc{N: c.N}
	add := func(w what) error {
		p, err := w.prepare(e)
		if err != nil {
			return err
		}
		for _, name := range doc.Networks {
			if name == p.bundle.Network.Name {
				return coded(codeUsage, fmt.Errorf("network %s comes twice", name))
			}
		}
		nets, doc.Networks = append(nets, p.bundle), append(doc.Networks, p.bundle.Network.Name)
		return nil
	}
	for _, file := range c.Bundles {
		if err := add(what{file: file}); err != nil {
			return err
		}
	}
	if len(c.Bundles) == 0 {
		for _, name := range c.Nets {
			if err := add(what{Config: c.Config, Network: name, Build: c.Build}); err != nil {
				return err
			}
		}
	}
	p, about := f.Params(), cli.About("sluice")
	raw, err := bench.Run(e.ctx, bench.Config{
		Library: device.Library, NVML: device.NVML, GPU: c.GPU, Masks: device.Masks, Networks: nets, Params: &p, N: c.N, For: c.For, Parts: c.Parts, Seed: c.Seed, Batches: c.Batches,
		Program: about.Program + " " + about.Version, Revision: about.Revision,
		Tell: func(part string) { e.log.Info("bench gpu", "at", part) },
	})
	if err == nil && c.DISB > 0 {
		var all []bench.Series
		all, err = disb.Run(e.ctx, disb.Config{
			Library: device.Library, GPU: c.GPU, Params: f, Shrink: c.Shrink, Ns: c.DISB.Nanoseconds(), Seed: c.Seed, Workloads: c.Workloads,
			Spin: !raw.Facts.Fake, Tell: func(what string) { e.log.Info("bench gpu", "at", "DISB "+what) },
		})
		raw.Series = append(raw.Series, all...)
	}
	if err != nil && raw != nil && len(raw.Series) > 0 { // what was measured until then is not lost
		if e := writeFile(filepath.Join(c.Out, bench.RawFile), raw.Write); e != nil {
			err = errors.Join(err, e)
		} else {
			err = fmt.Errorf("%w (what was seen until then is in %s, without figures)", err, filepath.Join(c.Out, bench.RawFile))
		}
	}
	if err != nil {
		return coded(codeDevice, err)
	}
	doc.header = header{"sluice-bench-cuda/1", version, c.Seed, raw.Label()}
	doc.Facts, doc.Rows = raw.Facts, raw.Rows()
	if doc.Foretold, err = disb.Foretold(c.Shrink); err != nil {
		return err
	}
	doc.Published = map[string]float64{}
	for k, v := range gpus.Published("mi50") {
		doc.Published[bench.DISB+" "+strings.Join(k[:], " ")] = v
	}
	if err := writeFile(filepath.Join(c.Out, bench.RawFile), raw.Write); err != nil {
		return err
	}
	switch measured, err := raw.Params(f); {
	case err == nil:
		if err := writeFile(filepath.Join(c.Out, "params.yaml"), measured.Write); err != nil {
			return err
		}
	case !errors.Is(err, params.ErrFile):
		return err
	}
	if err := e.output(doc, c.Out, c.JSON); err != nil || c.JSON {
		return err
	}
	fmt.Fprintf(e.stdout, "%s, driver for %s (%s); n %d, seed %d\n", doc.Facts.GPU, doc.Facts.Driver, raw.Label(), c.N, c.Seed)
	if doc.Facts.Signals == cuda.SignalsCopied {
		fmt.Fprintf(e.stdout, "kernels are told to leave by copies, which take longer: %s\n", doc.Facts.WhyCopied)
	}
	t := report.Table{Head: []string{"part", "what", "unit", "n", "median", "p95", "p99", "spread", "foretold", "published (MI50)"}}
	beside := func(of map[string]float64, r *bench.Row) string {
		if v, ok := of[r.Part+" "+r.Key]; ok {
			return fmt.Sprintf("%.4g", v)
		}
		return ""
	}
	for _, r := range doc.Rows {
		t.Add(r.Part, r.Key, r.Unit, fmt.Sprint(r.N), fmt.Sprintf("%.4g", r.Median), fmt.Sprintf("%.4g", r.P95), fmt.Sprintf("%.4g", r.P99), fmt.Sprintf("%.2f", r.Spread), beside(doc.Foretold, &r), beside(doc.Published, &r))
	}
	return t.Write(e.stdout)
}
