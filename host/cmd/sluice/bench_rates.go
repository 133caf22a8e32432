// sluice bench rates measures a device's goodput as a function of the arrival rate.

package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"sync"

	"github.com/sluice-npu/sluice/host/cli"
	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/engine"
	"github.com/sluice-npu/sluice/host/experiments"
	"github.com/sluice-npu/sluice/host/experiments/frame"
	"github.com/sluice-npu/sluice/host/report"
	"github.com/sluice-npu/sluice/host/sched"
	"github.com/sluice-npu/sluice/host/soft"
)

type benchRatesCmd struct {
	Bundle string `arg:"" optional:"" placeholder:"BUNDLE" help:"Bundle to serve, in place of --network and --config."`
	what
	Device  string    `default:"soft" enum:"cosim,soft" help:"Where it runs."`
	Policy  []string  `default:"serial,fluid" help:"Policies (${policies}); differences are to the first."`
	Rates   []float64 `default:"0.5,0.6,0.7,0.8,0.9,1.0,1.1,1.2,1.3" help:"Multiples of serial's capacity."`
	Seeds   []uint64  `default:"1,2,3" help:"Seeds."`
	N       int       `default:"20000" short:"n" help:"Requests a run."`
	Images  int       `default:"2000" help:"Test images; requests use them in turn."`
	SLO     sloFlag   `default:"5x" name:"slo" help:"As for sluice run."`
	Theta   thetaFlag `default:"0.8" help:"As for sluice run."`
	Clock   string    `default:"table" enum:"table,measured" help:"As for sluice run."`
	Workers int       `default:"2" help:"Runs at the same time (on cosim: one)."`
	Out     string    `default:"out/bench-rates" help:"Folder for summary.json."`
	JSON    bool      `name:"json" help:"Print JSON."`
}

func (*benchRatesCmd) Help() string {
	return `Every rate is run with every seed and policy; equal seeds bring equal arrivals to every policy.

Example:
  sluice bench rates --n 20000 --seeds 1,2,3
  sluice bench rates my.sluice --data photos
  sluice bench rates --device cosim --rates 0.9,1.1 --n 256`
}

type benchDoc struct {
	cli.Header
	Seeds    []uint64                `json:"seeds"`
	Capacity float64                 `json:"serial_capacity"` // requests per second
	SLO      int64                   `json:"slo_ns"`
	Theta    experiments.Theta       `json:"theta"`
	Rows     []frame.Row             `json:"rows"`
	Points   []experiments.RatePoint `json:"points"`
}

// check checks the flags before any work.
func (c *benchRatesCmd) check() error {
	if err := checkSeeds(c.Seeds); err != nil {
		return err
	}
	if len(c.Rates) > 1000 || slices.ContainsFunc(c.Rates, func(v float64) bool { return !(v > 0 && v <= 100) }) {
		return cli.Errorf(cli.Usage, "--rates %v: expected at most 1000 multiples above 0, up to 100", c.Rates)
	}
	for _, name := range c.Policy {
		if _, err := sched.New(name, sched.Options{}); err != nil {
			return cli.Coded(cli.Usage, err)
		}
	}
	if c.N < 1 || c.Images < 1 || c.Workers < 1 {
		return cli.Errorf(cli.Usage, "--n %d, --images %d, --workers %d: expected at least 1", c.N, c.Images, c.Workers)
	}
	return nil
}

func (c *benchRatesCmd) Run(e *cli.Env) error {
	if err := c.check(); err != nil {
		return err
	}
	rates, seeds, theta := c.Rates, c.Seeds, c.Theta.theta
	c.file = c.Bundle
	p, err := c.prepare(e, c.Theta.fits)
	if err != nil {
		return err
	}
	memo := &soft.Memo{}
	s, _, err := p.setup(e, &c.what, memo, min(c.Images, c.N))
	if err != nil {
		return err
	}
	slo := c.SLO.at(s.Table.Alone())
	clock := engine.Table
	if c.Clock == "measured" {
		clock = engine.Measured
	}
	if c.Device != "soft" {
		c.Workers = 1
	}
	set, done := e.Progress("bench rates", len(rates)*len(seeds)*len(c.Policy))
	label := "estimated" // computed by the law of cycles or by package machine
	var first sync.Once
	open := func(ctx context.Context) (device.Blocking, error) {
		dev, err := c.openDevice(ctx, c.Device, p, memo)
		if err == nil && clock == engine.Measured {
			first.Do(func() { label = dev.Info().Label })
		}
		return dev, err
	}
	points, err := experiments.Rates(e.Ctx, s, experiments.RatesConfig{
		Rates: rates, Policies: c.Policy, Seeds: seeds, N: c.N, SLO: slo, Theta: theta, Clock: clock, Workers: c.Workers,
		Open:     open,
		Progress: func(n, _ int) { set(n) },
	})
	done()
	if err != nil {
		return cli.Coded(runCode(err), err)
	}
	prefix := fmt.Sprintf("%s/%s/slo=%s", p.bundle.Network.Name, p.design.Name, c.SLO.text)
	doc := benchDoc{
		Header: cli.NewHeader("sluice-bench/1", seeds[0], label), Seeds: seeds,
		Capacity: 1e9 / s.Service(theta), SLO: slo, Theta: theta, Rows: experiments.Rows(prefix, points), Points: points,
	}
	return e.Print(doc, c.Out, c.JSON, func(w io.Writer) error { return c.print(w, p, &doc) })
}

func (c *benchRatesCmd) print(w io.Writer, on *prepared, doc *benchDoc) error {
	fmt.Fprintf(w, "%s on %s (%s), %d requests a run, serial's capacity %.0f/s, SLO %s; goodput in on_time requests per second\n\n",
		on.bundle.Network.Name, c.Device, on.design.Name, c.N, doc.Capacity, report.Ns(doc.SLO))
	t := report.Table{Head: append([]string{"rate", "seed"}, c.Policy...)}
	for _, p := range c.Policy[1:] {
		t.Head = append(t.Head, p+" - "+c.Policy[0], "")
	}
	for _, p := range c.Policy {
		t.Head = append(t.Head, p+" late", "p99")
	}
	at := map[string]*experiments.RatePoint{}
	key := func(rate float64, policy string, seed uint64) string { return fmt.Sprint(rate, policy, seed) }
	for i := range doc.Points {
		p := &doc.Points[i]
		at[key(p.Rate, p.Policy, p.Seed)] = p
	}
	for i := range doc.Points {
		base := &doc.Points[i]
		if base.Policy != c.Policy[0] {
			continue
		}
		row := []string{fmt.Sprintf("%.2f", base.Rate), strconv.FormatUint(base.Seed, 10)}
		for _, p := range c.Policy {
			row = append(row, fmt.Sprintf("%.1f", at[key(base.Rate, p, base.Seed)].Summary.Goodput))
		}
		for _, p := range c.Policy[1:] {
			d := at[key(base.Rate, p, base.Seed)].Summary.Goodput - base.Summary.Goodput
			row = append(row, fmt.Sprintf("%+.1f", d), gain(d, base.Summary.Goodput))
		}
		for _, p := range c.Policy {
			x := at[key(base.Rate, p, base.Seed)].Summary
			row = append(row, report.Percent(float64(x.Violations)/float64(x.Requests)), report.Ns(x.Latency.P99))
		}
		t.Add(row...)
	}
	if err := t.Write(w); err != nil {
		return err
	}
	fmt.Fprintf(w, "\nwrote %s/summary.json\n", c.Out)
	return nil
}

// gain formats a difference in percent of its base. Above 200 % it returns no percentage, because the percentage has no
// meaning if the base is close to zero.
func gain(difference, base float64) string {
	if difference > 2*base {
		return "> 3 x"
	}
	if base == 0 {
		return "-"
	}
	return fmt.Sprintf("%+.1f %%", 100*difference/base)
}
