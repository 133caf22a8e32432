// sluice bench strait: Strait and its baselines on simulated GPUs, beside the published statements.

package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/sluice-npu/sluice/host/cli"
	"github.com/sluice-npu/sluice/host/experiments"
	"github.com/sluice-npu/sluice/host/experiments/strait"
	"github.com/sluice-npu/sluice/host/experiments/verdict"
	"github.com/sluice-npu/sluice/host/load"
	"github.com/sluice-npu/sluice/host/predict"
)

type benchStraitCmd struct {
	Seeds []uint64      `default:"1,2,3" help:"Seeds; intervals are over them."`
	Time  time.Duration `default:"4s" help:"Virtual time of a run."`
	Only  string        `placeholder:"PREFIX" help:"Only statements whose id begins so (fig6, 5.4/small), and no other rows."`
	Vary  bool          `help:"Halve and double every assumed parameter (long)."`
	Trace string        `placeholder:"FORMAT:FILE" help:"Take the rates of the load 'trace', and of no other, from a published trace, azure-minutes:FILE for one (default: drawn)."`
	Begin string        `placeholder:"FILE" help:"Let every predictor begin with what an earlier bench has learnt: its predictor.json (default: as new)."`
	Out   string        `default:"out/bench-strait" help:"Folder for summary.json and predictor.json, what the predictor has learnt by the end of the evolving load."`
	Check bool          `help:"Exit with 1 where a statement does not hold."`
	JSON  bool          `name:"json" help:"Print JSON."`
}

// Help implements the command.
func (*benchStraitCmd) Help() string {
	return `Runs the evaluation of Strait (section 5) in virtual time: twelve models of two priorities on a
simulated L4 under Strait, temporal, static and reactive sharing and an interceptor of kernels like
XSched; errors of the interference predictor beside a static linear model; the predictor moved to other
models and GPUs; ablation; drift. Each published statement stands beside what the simulation says.

Example:
  sluice bench strait --time 2s --seeds 1,2
  sluice bench strait --only fig7 --begin out/bench-strait/predictor.json
  sluice bench strait --trace azure-minutes:invocations.csv --json`
}

type straitDoc struct {
	cli.Header
	Seeds      []uint64            `json:"seeds"`
	TimeNs     int64               `json:"time_ns"`
	Trace      *traceDoc           `json:"trace"` // null: drawn
	Begin      string              `json:"begin"` // what every predictor began with; "": as new
	Rows       []experiments.Row   `json:"rows"`
	Statements []verdict.Statement `json:"statements"`
}

// traceDoc is a published trace that a load was taken from.
type traceDoc struct {
	Format  string   `json:"format"`
	File    string   `json:"file"`
	SHA256  string   `json:"sha256"`
	Decides []string `json:"decides"` // statements; all others are about drawn loads
}

// trace reads what --trace names.
func (c *benchStraitCmd) trace() (*load.Trace, *traceDoc, error) {
	format, file, ok := strings.Cut(c.Trace, ":")
	if !ok {
		return nil, nil, cli.Errorf(cli.Usage, "--trace %q: FORMAT:FILE is expected; formats are %v", c.Trace, load.Formats())
	}
	t, err := load.TraceFile(format, file, c.Seeds[0])
	if err != nil {
		return nil, nil, cli.Coded(cli.Input, err)
	}
	sum, err := fileSHA256(file)
	if err != nil {
		return nil, nil, cli.Coded(cli.Input, err)
	}
	return t, &traceDoc{Format: t.Format, File: file, SHA256: sum}, nil
}

// Run implements the command.
func (c *benchStraitCmd) Run(e *cli.Env) error {
	if err := checkSeeds(c.Seeds); err != nil {
		return err
	}
	if c.Time < 10*time.Millisecond || c.Time > time.Hour {
		return cli.Errorf(cli.Usage, "--time %s: 10ms to 1h are expected", c.Time)
	}
	cfg := strait.Config{
		Seeds: c.Seeds, Ns: c.Time.Nanoseconds(), Vary: c.Vary, Only: c.Only,
		Tell: func(what string) { e.Log.Info("bench strait", "at", what) },
	}
	doc := &straitDoc{Header: cli.NewHeader("sluice-bench-strait/1", c.Seeds[0], "simulated"), Seeds: c.Seeds, TimeNs: c.Time.Nanoseconds()}
	if c.Trace != "" {
		var err error
		if cfg.Trace, doc.Trace, err = c.trace(); err != nil {
			return err
		}
	}
	if doc.Begin = c.Begin; c.Begin != "" {
		var err error
		if cfg.Model, err = learnt(c.Begin); err != nil {
			return err
		}
	}
	b, err := strait.RunBench(e.Ctx, cfg)
	switch {
	case errors.Is(err, strait.ErrUntraced):
		return cli.Errorf(cli.Usage, "--trace %s --only %s: %w", c.Trace, c.Only, err)
	case err != nil:
		return err
	}
	doc.Rows, doc.Statements = append([]experiments.Row{}, b.Rows...), b.Statements
	if doc.Trace != nil {
		doc.Trace.Decides = b.Traced
	}
	if err := e.Output(doc, c.Out, c.JSON); err != nil {
		return err
	}
	if err := cli.WriteFile(filepath.Join(c.Out, "predictor.json"), b.Model.Save); err != nil {
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

// learnt is what a predictor has learnt, out of a file.
func learnt(path string) (*predict.Model, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, cli.Errorf(cli.Input, "read what a predictor has learnt: %w", err)
	}
	defer f.Close()
	m, err := predict.Load(path, f)
	return m, cli.Coded(cli.Input, err)
}
