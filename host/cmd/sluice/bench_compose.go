// sluice bench compose combines the systems of two publications, and compares the combination with each system alone.

package main

import (
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/sluice-npu/sluice/host/cli"
	"github.com/sluice-npu/sluice/host/experiments/compose"
	"github.com/sluice-npu/sluice/host/experiments/frame"
)

type benchComposeCmd struct {
	Seeds []uint64      `default:"1,2,3" help:"Seeds; intervals are over them."`
	Time  time.Duration `default:"4s" help:"Virtual time of a run on a GPU; a run over links takes ten times that."`
	Out   string        `default:"out/bench-compose" help:"Folder for summary.json."`
	JSON  bool          `name:"json" help:"Print JSON."`
}

func (*benchComposeCmd) Help() string {
	return `Puts systems together that were published apart, and prints each composition beside its parts alone:
early exits under Strait's predictor of interference, Jellyfish choosing exit thresholds beside networks,
and boards as Jellyfish's workers with fluid batching inside.

Example:
  sluice bench compose --time 2s --seeds 1,2,3`
}

type composeDoc struct {
	cli.Header
	Seeds  []uint64    `json:"seeds"`
	TimeNs int64       `json:"time_ns"`
	Rows   []frame.Row `json:"rows"`
}

func (c *benchComposeCmd) Run(e *cli.Env) error {
	if err := checkSeeds(c.Seeds); err != nil {
		return err
	}
	if c.Time < 10*time.Millisecond || c.Time > time.Hour {
		return cli.Errorf(cli.Usage, "--time %s: 10ms to 1h are expected", c.Time)
	}
	rows, err := compose.Run(e.Ctx, compose.Config{
		Seeds: c.Seeds, Ns: c.Time.Nanoseconds(),
		Tell: func(what string) { e.Log.Info("bench compose", "at", what) },
	})
	if err != nil {
		return err
	}
	doc := &composeDoc{cli.NewHeader("sluice-bench-compose/1", c.Seeds[0], "simulated"), c.Seeds, c.Time.Nanoseconds(), rows}
	if err := e.Output(doc, c.Out, c.JSON); err != nil || c.JSON {
		return err
	}
	w := tabwriter.NewWriter(e.Stdout, 0, 0, 2, ' ', 0)
	for _, r := range rows {
		half := ""
		if r.CI95 != nil {
			half = fmt.Sprintf("± %.3g", *r.CI95)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%.4g\t%s\n", r.Setting, r.Policy, r.Metric, r.Ours, half)
	}
	return w.Flush()
}
