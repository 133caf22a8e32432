// sluice bench jellyfish: clients over changing networks, beside the published statements.

package main

import (
	"errors"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/sluice-npu/sluice/host/cli"
	"github.com/sluice-npu/sluice/host/experiments"
	"github.com/sluice-npu/sluice/host/experiments/edge"
	"github.com/sluice-npu/sluice/host/experiments/verdict"
	"github.com/sluice-npu/sluice/host/links"
)

type benchJellyfishCmd struct {
	Seeds     []uint64      `default:"1,2,3" help:"Seeds; intervals are over them."`
	Time      time.Duration `default:"2m" help:"Virtual time of a run."`
	Instances int           `default:"100" help:"Random instances of each size for the approximation ratio."`
	Link      []string      `placeholder:"FILE" sep:"none" help:"Also serve over this link: a file with one Mbit/s value a line, one a second."`
	Vary      bool          `help:"Halve and double every assumed parameter (long)."`
	Workers   int           `default:"2" help:"Runs at the same time; the results do not depend on it."`
	Out       string        `default:"out/bench-jellyfish" help:"Folder for summary.json."`
	Check     bool          `help:"Exit with 1 where a statement does not hold."`
	JSON      bool          `name:"json" help:"Print JSON."`
}

// Help implements the command.
func (*benchJellyfishCmd) Help() string {
	return `Runs the evaluation of Jellyfish (section VI) in virtual time: clients that send frames over changing
links to workers that run networks of a zoo, under Jellyfish with the published annealing and with our
search, under static networks with EDF, and under other data adaptations; selections beside the exact
optimum on random instances. Each published statement stands beside what the simulation says.

Example:
  sluice bench jellyfish --time 30s --seeds 1 --instances 10
  sluice bench jellyfish --link train.txt --json`
}

type jellyfishDoc struct {
	cli.Header
	Seeds      []uint64            `json:"seeds"`
	TimeNs     int64               `json:"time_ns"`
	Assumed    edge.Assumed        `json:"assumed"`
	Rows       []experiments.Row   `json:"rows"`
	Ratios     []edge.Ratio        `json:"ratios"`
	Times      []edge.Took         `json:"decisions"` // on this machine: the only times here that are no simulation
	Statements []verdict.Statement `json:"statements"`
}

// Run implements the command.
func (c *benchJellyfishCmd) Run(e *cli.Env) error {
	if err := checkSeeds(c.Seeds); err != nil {
		return err
	}
	if c.Time < time.Second || c.Time > 24*time.Hour || c.Instances < 1 || c.Instances > 10_000 || c.Workers < 1 || c.Out == "" {
		return cli.Errorf(cli.Usage, "--time %s, --instances %d, --workers %d, --out %q: 1s to 24h, 1 to 10000, at least 1 and a folder are expected", c.Time, c.Instances, c.Workers, c.Out)
	}
	cfg := edge.Config{
		Seeds: c.Seeds, Ns: c.Time.Nanoseconds(), Instances: c.Instances, Workers: c.Workers, Traces: c.Link, Assumed: edge.Assume(), Vary: c.Vary,
		Tell: func(what string) { e.Log.Info("bench jellyfish", "at", what) },
	}
	b, err := edge.RunBench(e.Ctx, cfg)
	switch {
	case errors.Is(err, links.ErrTrace):
		return cli.Coded(cli.Input, err)
	case err != nil:
		return err
	}
	doc := &jellyfishDoc{
		Header: cli.NewHeader("sluice-bench-jellyfish/1", c.Seeds[0], "simulated"), Seeds: c.Seeds, TimeNs: cfg.Ns,
		Assumed: cfg.Assumed, Rows: b.Rows, Ratios: b.Ratios, Times: b.Times, Statements: b.Statements,
	}
	if err := e.Output(doc, c.Out, c.JSON); err != nil {
		return err
	}
	if !c.JSON {
		if err := c.print(e, doc); err != nil {
			return err
		}
	}
	if c.Check {
		return checkStatements(doc.Statements)
	}
	return nil
}

func (c *benchJellyfishCmd) print(e *cli.Env, doc *jellyfishDoc) error {
	w := tabwriter.NewWriter(e.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "setting\tsystem\tmissed\taccuracy\tbusy\tp99")
	at := indexRows(doc.Rows)
	for i := range doc.Rows {
		r := &doc.Rows[i]
		if r.Metric != "miss_rate" {
			continue
		}
		of := func(metric string) *experiments.Row { return at[[4]string{r.Bench, r.Setting, r.Policy, metric}] }
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", r.Setting, r.Policy, scaled("%.2f", "%", 100, r.Ours, r.CI95),
			cell(of("accuracy"), &column{show: showShare}), cell(of("busy"), &column{show: showShare}), cell(of("p99_ns"), &column{show: showNs}))
	}
	fmt.Fprintln(w, "\nworkers\tclients\tfound\tselection\tof the best, or a bound\tleast\teverybody mapped\tthe best reached")
	for _, r := range doc.Ratios {
		for _, n := range r.Of {
			fmt.Fprintf(w, "%d\t%d\t%d of %d\t%s\t%s\t%.4f\t%d\t%d\n", r.Workers, r.Clients, r.Proved, r.Instances, n.Name, scaled("%.4f", "", 1, n.Mean, n.CI95), n.Least, n.Mapped, n.Reached)
		}
	}
	fmt.Fprintln(w, "\nworkers\tclients\tselection\tdecides in (processor time, this machine)")
	for _, t := range doc.Times {
		fmt.Fprintf(w, "%d\t%d\t%s\t%s, %s at most\n", t.Workers, t.Clients, t.Name, showNs(float64(t.MedianNs), nil), showNs(float64(t.MostNs), nil))
	}
	fmt.Fprintln(w)
	printStatements(w, doc.Statements, func(s *verdict.Statement) string { return s.Text })
	return w.Flush()
}
