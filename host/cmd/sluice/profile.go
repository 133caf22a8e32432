// sluice profile: a latency table, measured.

package main

import (
	"fmt"
	"slices"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/engine"
	"github.com/sluice-npu/sluice/host/report"
	"github.com/sluice-npu/sluice/host/soft"
	"github.com/sluice-npu/sluice/hw/abi"
)

type profileCmd struct {
	Bundle string `arg:"" optional:"" placeholder:"BUNDLE" help:"Bundle to measure, in place of --network and --config."`
	what
	Device string `default:"cosim" enum:"cosim,cuda,hip,soft,uio" help:"Device to measure."`
	GPU    int    `name:"gpu" default:"0" help:"cuda, hip: which GPU, counted from 0 as sluice doctor lists them."`
	Runs   int    `help:"Launches a cell, each with other images. Without it 20 on a GPU, and one before that does not count; else one: cycles do not depend on data."`
	Units  []int  `help:"GPU: partitions to measure beside the whole, in units (sluice bench gpu names them): 1,4,8."`
	Most   int    `name:"max-batch" help:"Largest batch; the device's without it, and on a GPU no larger than the NPU's."`
	Seed   uint64 `default:"1" help:"First image of the measurement."`
	Out    string `default:"out/profile" help:"Folder for summary.json."`
	JSON   bool   `name:"json" help:"Print JSON."`
	uioFlags
}

func (*profileCmd) Help() string {
	return `Measures T[first][last][batch] for every span of segments and every batch. Nobody leaves at an
exit (theta is above 1), so a span keeps its batch; the last exit ends it. On a GPU --units measures parts of
it too, which are for the eye: sluice run --profile reads the whole GPU's.

Example:
  sluice profile --device cosim --config run --network fashion --json
  sluice profile my.sluice --device cuda --units 1,4,8 --runs 100
  sluice profile my.sluice --device uio --label measured --clock-mhz 150 --runs 20`
}

type profileDoc struct {
	header
	Bundle  string                `json:"bundle"`
	Runs    int                   `json:"runs"` // a cell
	Entries []bundle.LatencyEntry `json:"entries"`
	Units   []unitsEntry          `json:"units,omitempty"`         // by partition
	Law     *lawDoc               `json:"against_table,omitempty"` // none on a GPU: the bundle's table is the NPU's
}

type lawDoc struct {
	Mean  float64 `json:"mean"` // of |measured / bundle's table - 1|
	Worst float64 `json:"worst"`
}

const profileSchema = "sluice-profile/1"

// unitsEntry is a cell on some of a device's units, the first ones.
type unitsEntry struct {
	Units int `json:"units"`
	bundle.LatencyEntry
}

// Run implements the command.
func (c *profileCmd) Run(e *env) error {
	cold := 0 // launches that do not count
	if onGPU(c.Device) {
		cold = 1
	}
	switch {
	case c.Runs < 0 || c.Runs > 1000:
		return coded(codeUsage, fmt.Errorf("--runs %d: expected 1..1000", c.Runs))
	case c.Most < 0:
		return coded(codeUsage, fmt.Errorf("--max-batch %d: expected 1 or more", c.Most))
	case len(c.Units) > 0 && !onGPU(c.Device):
		return coded(codeUsage, fmt.Errorf("--units is for --device cuda or hip, the device is %s", c.Device))
	case !onGPU(c.Device) && slices.Contains(e.given, "gpu"):
		return coded(codeUsage, fmt.Errorf("--gpu is for --device cuda or hip, the device is %s", c.Device))
	case c.Runs == 0:
		c.Runs = 1 + 19*cold
	}
	c.file, c.board, c.what.gpu = c.Bundle, &c.uioFlags, c.GPU
	p, err := c.prepare(e)
	if err != nil {
		return err
	}
	dev, err := c.openDevice(e.ctx, c.Device, p, &soft.Memo{})
	if err != nil {
		return err
	}
	defer dev.Close()
	im, err := c.images(e, p, 256, true) // cycles do not depend on data
	if err != nil {
		return err
	}
	in := inputs(p.bundle, im)
	info, segments := dev.Info(), len(p.bundle.Network.Exits)
	summary, err := p.bundle.Summarize()
	if err != nil {
		return err
	}
	doc := profileDoc{header: header{profileSchema, version, c.Seed, info.Label}, Bundle: summary.BundleHash, Runs: c.Runs}
	law := map[[3]int]int64{}
	for _, l := range p.bundle.Latency {
		law[[3]int{l.First, l.Last, l.Batch}] = l.P50
	}
	most := info.MaxBatch
	if cold > 0 {
		most = min(most, abi.BMax) // no bundle's table has more
	}
	if c.Most > 0 {
		most = min(most, c.Most)
	}
	parts := []device.Units{{}}
	for _, n := range c.Units {
		units := 0
		if g, ok := dev.(interface{ Units() int }); ok {
			units = g.Units()
		}
		if n < 1 || n > units {
			return coded(codeUsage, fmt.Errorf("--units %d: expected 1..%d", n, units))
		}
		parts = append(parts, device.UnitRange(0, n))
	}
	set, done := e.progress("profile", len(parts)*most*segments*(segments+1)/2*(cold+c.Runs))
	defer done()
	next, ran := device.RequestID(c.Seed), 0
	for _, part := range parts {
		for b := 1; b <= most; b++ {
			for first := range segments {
				times := make([][]int64, segments) // by last
				for run := range cold + c.Runs {
					for last := first; last < segments; last++ {
						l := &device.Launch{ID: device.LaunchID(ran + 1), Network: p.bundle.Network.Name, First: first, Last: last, Units: part}
						for range b {
							next++
							l.Requests, l.Theta = append(l.Requests, next), append(l.Theta, 2)
							if err := dev.Admit(e.ctx, l.Network, next, in[int(uint64(next)%uint64(len(in)))]); err != nil {
								return coded(codeDevice, err)
							}
						}
						ns, err := measure(e, dev, l, first)
						for _, id := range l.Requests {
							dev.Release(id)
						}
						if err != nil {
							return coded(codeDevice, err)
						}
						if run >= cold {
							times[last] = append(times[last], ns)
						}
						ran++
						set(ran)
					}
				}
				for last := first; last < segments; last++ {
					slices.Sort(times[last])
					x := bundle.LatencyEntry{
						Network: p.bundle.Network.Name, Device: info.Name, First: first, Last: last, Batch: b,
						P50: engine.Quantile(times[last], 0.5), P99: engine.Quantile(times[last], 0.99),
					}
					if part.Empty() {
						doc.Entries = append(doc.Entries, x)
					} else {
						doc.Units = append(doc.Units, unitsEntry{part.Count(), x})
					}
				}
			}
		}
	}
	done()
	if cold == 0 {
		doc.Law = &lawDoc{}
	}
	for _, x := range doc.Entries {
		if want := law[[3]int{x.First, x.Last, x.Batch}]; want > 0 && doc.Law != nil {
			off := max(float64(x.P50)/float64(want), float64(want)/float64(x.P50)) - 1
			doc.Law.Mean += off / float64(len(doc.Entries))
			doc.Law.Worst = max(doc.Law.Worst, off)
		}
	}
	if err := e.output(doc, c.Out, c.JSON); err != nil || c.JSON {
		return err
	}
	table := func(entries []bundle.LatencyEntry) error {
		t := report.Table{Head: []string{"segments"}}
		for b := 1; b <= most; b++ {
			t.Head = append(t.Head, fmt.Sprintf("B = %d", b))
		}
		for first := range segments {
			for last := first; last < segments; last++ {
				row := []string{fmt.Sprintf("%d..%d", first, last)}
				for _, x := range entries {
					if x.First == first && x.Last == last {
						row = append(row, report.Ns(x.P50))
					}
				}
				t.Add(row...)
			}
		}
		return t.Write(e.stdout)
	}
	if err := table(doc.Entries); err != nil {
		return err
	}
	for _, n := range c.Units {
		fmt.Fprintf(e.stdout, "\non %d units\n", n)
		var some []bundle.LatencyEntry
		for _, x := range doc.Units {
			if x.Units == n {
				some = append(some, x.LatencyEntry)
			}
		}
		if err := table(some); err != nil {
			return err
		}
	}
	if cold > 0 { // the bundle's table is the NPU's
		reads := ": sluice run --profile reads it"
		if most < min(info.MaxBatch, abi.BMax) {
			reads = "; sluice run --profile wants all batches, without --max-batch"
		}
		if len(c.Units) > 0 {
			reads += " (not its partitions: nothing reads those yet)"
		}
		fmt.Fprintf(e.stdout, "\nmedians of %d runs on %s (%s); wrote %s/summary.json%s\n", c.Runs, info.Name, info.Label, c.Out, reads)
		return nil
	}
	fmt.Fprintf(e.stdout, "\nagainst the bundle's table: mean error %s, worst %s; wrote %s/summary.json\n",
		report.Percent(doc.Law.Mean), report.Percent(doc.Law.Worst), c.Out)
	return nil
}

// measure brings the batch to segment first and times the launch.
func measure(e *env, dev device.Blocking, l *device.Launch, first int) (int64, error) {
	if first > 0 {
		pre := *l
		pre.First, pre.Last = 0, first-1
		if _, err := dev.Run(e.ctx, &pre); err != nil {
			return 0, err
		}
	}
	rep, err := dev.Run(e.ctx, l)
	if err != nil {
		return 0, err
	}
	if rep.Ns <= 0 {
		return 0, fmt.Errorf("%s reports %d ns for segments %d..%d", dev.Info().Name, rep.Ns, l.First, l.Last)
	}
	return rep.Ns, nil
}
