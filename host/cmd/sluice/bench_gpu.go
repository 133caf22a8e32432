// sluice bench reef, seeb: the publications' GPU systems on simulated GPUs.

package main

import (
	"errors"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/sluice-npu/sluice/host/cli"
	"github.com/sluice-npu/sluice/host/experiments"
	"github.com/sluice-npu/sluice/host/experiments/gpus"
	"github.com/sluice-npu/sluice/host/experiments/verdict"
	"github.com/sluice-npu/sluice/host/gpu/params"
	"github.com/sluice-npu/sluice/host/load"
)

type benchGPUCmd struct {
	More  []string      `arg:"" optional:"" name:"bench" help:"More benches of GPUs."`
	Seeds []uint64      `default:"1,2,3" help:"Seeds; intervals are over them."`
	Time  time.Duration `help:"Virtual time of a run (default: 1s for reef, 30s for seeb)."`
	Vary  bool          `help:"Halve and double every assumed parameter (long)."`
	Out   string        `default:"out/bench-gpu" help:"Folder for summary.json."`
	Check bool          `help:"Exit with 1 where a statement does not hold."`
	JSON  bool          `name:"json" help:"Print JSON."`
	Trace string        `placeholder:"FORMAT:FILE" help:"seeb: arrivals of a published trace (alibaba:FILE for PAI's tables) in place of the bursts that are drawn. reef: a workload of DISB (disb:REAL.json) in place of the car's that is drawn."`
	GPU   []string      `name:"gpu" placeholder:"NAME=FILE.yaml" help:"Parameters of one's own for a GPU of the bench (reef: mi50, gv100; seeb: rtx3090)."`

	first string
}

// benchReefCmd is `bench reef`.
type benchReefCmd struct{ benchGPUCmd }

// Run implements the command.
func (c *benchReefCmd) Run(e *cli.Env) error { c.first = "reef"; return c.run(e) }

// benchSeebCmd is `bench seeb`.
type benchSeebCmd struct{ benchGPUCmd }

// Run implements the command.
func (c *benchSeebCmd) Run(e *cli.Env) error { c.first = "seeb"; return c.run(e) }

// Help implements the command.
func (*benchGPUCmd) Help() string {
	return `Runs what a publication measured on simulated GPUs, in virtual time, and prints each published
statement beside what the simulation says: holds, fails, or undecided at 95 %. reef: DISB (table 2) under
REEF and its baselines. seeb: four applications with early exits under SEEB-GPU and its baselines.

Example:
  sluice bench reef --time 300ms --seeds 1,2
  sluice bench reef --vary --json
  sluice bench seeb reef --json
  sluice bench reef --gpu mi50=mine.yaml --trace disb:REAL.json
  sluice bench seeb --trace alibaba:pai_task_table.csv`
}

type gpuDoc struct {
	cli.Header
	Benches    []string             `json:"benches"`
	Seeds      []uint64             `json:"seeds"`
	TimeNs     int64                `json:"time_ns"` // of the first bench's runs
	Times      map[string]int64     `json:"times_ns"`
	GPUs       map[string]string    `json:"gpus,omitempty"` // parameter files in place of the project's
	Rows       []experiments.Row    `json:"rows"`
	Statements []verdict.Statement  `json:"statements"`
	Fits       map[string]*gpus.Fit `json:"latency_models,omitempty"` // seeb: by network, ns
	Open       gpus.Open            `json:"open,omitempty"`           // seeb: what the publication leaves open
}

func (c *benchGPUCmd) run(e *cli.Env) error {
	names := append([]string{c.first}, c.More...)
	for _, n := range names {
		if !slices.Contains(gpus.Names(), n) {
			return cli.Errorf(cli.Usage, "no bench %q of GPUs; there are %v", n, gpus.Names())
		}
	}
	seeds := c.Seeds
	if err := checkSeeds(seeds); err != nil {
		return err
	}
	if c.Time != 0 && (c.Time < time.Millisecond || c.Time > time.Hour) {
		return cli.Errorf(cli.Usage, "--time %s: 1ms to 1h are expected", c.Time)
	}
	cfg := gpus.Config{Seeds: seeds, Ns: c.Time.Nanoseconds(), Vary: c.Vary, Files: map[string]*params.File{}}
	if c.Trace != "" {
		format, path, _ := strings.Cut(c.Trace, ":")
		of := map[bool]string{true: "reef", false: "seeb"}[format == "disb"]
		if !slices.Contains(names, of) {
			return cli.Errorf(cli.Usage, "--trace %s: a trace of this format is for bench %s; benches are %s", c.Trace, of, strings.Join(names, ", "))
		}
		tr, err := load.TraceFile(format, path, seeds[0])
		if err != nil {
			return cli.Coded(cli.Input, err)
		}
		if of == "reef" {
			cfg.Real = tr
		} else {
			cfg.PAI = tr.Times()
		}
	}
	doc := &gpuDoc{Header: cli.NewHeader("sluice-bench-gpu/1", seeds[0], "simulated"), Benches: names, Seeds: seeds, Times: map[string]int64{}}
	if err := c.files(&cfg, doc); err != nil {
		return err
	}
	for _, n := range names {
		cfg.Tell = func(what string) { e.Log.Info("bench "+n, "at", what) }
		b, err := gpus.Run(e.Ctx, n, cfg)
		switch {
		case errors.Is(err, gpus.ErrWorkload):
			return cli.Coded(cli.Input, err)
		case err != nil:
			return err
		}
		doc.Times[n] = b.Ns
		doc.Rows = append(doc.Rows, b.Rows...)
		doc.Statements = append(doc.Statements, b.Statements...)
		if b.Fits != nil {
			doc.Fits, doc.Open = b.Fits, b.Open
		}
	}
	doc.TimeNs = doc.Times[names[0]]
	if err := e.Output(doc, c.Out, c.JSON); err != nil {
		return err
	}
	if !c.JSON {
		w := tabwriter.NewWriter(e.Stdout, 0, 0, 2, ' ', 0)
		printStatements(w, doc.Statements, standing)
		if err := w.Flush(); err != nil {
			return err
		}
	}
	if c.Check {
		return checkStatements(doc.Statements)
	}
	return nil
}

// files reads the parameters of --gpu.
func (c *benchGPUCmd) files(cfg *gpus.Config, doc *gpuDoc) error {
	for _, g := range c.GPU {
		name, path, ok := strings.Cut(g, "=")
		if !ok || !params.IsFile(path) || cfg.Files[name] != nil {
			return cli.Errorf(cli.Usage, "--gpu %s: NAME=FILE.yaml is expected, a name once", g)
		}
		f, err := params.Of(path)
		if err != nil {
			return cli.Coded(cli.Input, err)
		}
		if cfg.Files[name] = f; doc.GPUs == nil {
			doc.GPUs = map[string]string{}
		}
		doc.GPUs[name] = path
	}
	for name := range cfg.Files {
		if !slices.ContainsFunc(doc.Benches, func(n string) bool { return slices.Contains(gpus.GPUs(n), name) }) {
			return cli.Errorf(cli.Usage, "--gpu %s: bench %s runs on no GPU of this name", name, strings.Join(doc.Benches, ", "))
		}
	}
	return nil
}
