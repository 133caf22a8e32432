// sluice bench reef: the publications' GPU systems on simulated GPUs.

package main

import (
	"fmt"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/sluice-npu/sluice/host/experiments"
	"github.com/sluice-npu/sluice/host/experiments/gpus"
)

type benchGPUCmd struct {
	More  []string      `arg:"" optional:"" name:"bench" help:"More benches of GPUs."`
	Seeds []uint64      `default:"1,2,3" help:"Seeds; intervals are over them."`
	Time  time.Duration `default:"1s" help:"Virtual time of a run."`
	Vary  bool          `help:"Halve and double every assumed parameter (long)."`
	Out   string        `default:"out/bench-gpu" help:"Folder for summary.json."`
	Check bool          `help:"Exit with 1 where a statement does not hold."`
	JSON  bool          `name:"json" help:"Print JSON."`

	first string
}

// benchReefCmd is `bench reef`.
type benchReefCmd struct{ benchGPUCmd }

// Run implements the command.
func (c *benchReefCmd) Run(e *env) error { c.first = "reef"; return c.run(e) }

// Help implements the command.
func (*benchGPUCmd) Help() string {
	return `Runs DISB (REEF, table 2) under REEF and its baselines on simulated GPUs, in virtual time, and prints
each published statement beside what the simulation says: holds, fails, or undecided at 95 %.

Example:
  sluice bench reef --time 300ms --seeds 1,2
  sluice bench reef --vary --json`
}

type gpuDoc struct {
	header
	Benches    []string          `json:"benches"`
	Seeds      []uint64          `json:"seeds"`
	TimeNs     int64             `json:"time_ns"`
	Rows       []experiments.Row `json:"rows"`
	Statements []gpus.Statement  `json:"statements"`
}

func (c *benchGPUCmd) run(e *env) error {
	names := append([]string{c.first}, c.More...)
	for _, n := range names {
		if !slices.Contains(gpus.Names(), n) {
			return coded(codeUsage, fmt.Errorf("no bench %q of GPUs; there are %v", n, gpus.Names()))
		}
	}
	seeds := c.Seeds
	if err := checkSeeds(seeds); err != nil {
		return err
	}
	if c.Time < time.Millisecond || c.Time > time.Hour {
		return coded(codeUsage, fmt.Errorf("--time %s: 1ms to 1h are expected", c.Time))
	}
	doc := &gpuDoc{header: header{"sluice-bench-gpu/1", version, seeds[0], "simulated"}, Benches: names, Seeds: seeds, TimeNs: c.Time.Nanoseconds()}
	for _, n := range names {
		b, err := gpus.Run(e.ctx, n, gpus.Config{
			Seeds: seeds, Ns: c.Time.Nanoseconds(), Vary: c.Vary,
			Tell: func(what string) { e.log.Info("bench "+n, "at", what) },
		})
		if err != nil {
			return err
		}
		doc.Rows = append(doc.Rows, b.Rows...)
		doc.Statements = append(doc.Statements, b.Statements...)
	}
	if err := e.output(doc, c.Out, c.JSON); err != nil {
		return err
	}
	holds := 0
	w := tabwriter.NewWriter(e.stdout, 0, 0, 2, ' ', 0)
	for i := range doc.Statements {
		s := &doc.Statements[i]
		if s.Verdict == gpus.Holds {
			holds++
		}
		if c.JSON {
			continue
		}
		half, note := "", ""
		if s.CI95 != nil {
			half = fmt.Sprintf("± %.3g", *s.CI95)
		}
		if s.Fitted {
			note = "fitted"
		}
		if len(s.Changed) > 0 {
			note += fmt.Sprintf(" changes with %d of the assumed parameters", len(s.Changed))
		}
		fmt.Fprintf(w, "%s\t%.4g\t%s\t(%.4g)\t%s\t%s\n", s.ID, s.Ours, half, s.Published, s.Verdict, note)
	}
	if !c.JSON {
		fmt.Fprintf(w, "%d of %d statements hold (simulated)\n", holds, len(doc.Statements))
		if err := w.Flush(); err != nil {
			return err
		}
	}
	if c.Check && holds < len(doc.Statements) {
		return coded(codeCheck, fmt.Errorf("%d of %d statements do not hold", len(doc.Statements)-holds, len(doc.Statements)))
	}
	return nil
}
