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
)

type profileCmd struct {
	Bundle string `arg:"" optional:"" placeholder:"BUNDLE" help:"Bundle to measure, in place of --network and --config."`
	what
	Device string `default:"cosim" enum:"cosim,cuda,soft,uio" help:"Device to measure."`
	Runs   int    `default:"1" help:"Launches a cell, each with other images. Cycles do not depend on data, so one is enough on the RTL."`
	Seed   uint64 `default:"1" help:"First image of the measurement."`
	Out    string `default:"out/profile" help:"Folder for summary.json."`
	JSON   bool   `name:"json" help:"Print JSON."`
	uioFlags
}

func (*profileCmd) Help() string {
	return `Measures T[first][last][batch] for every span of segments and every batch. Nobody leaves at an
exit (theta is above 1), so a span keeps its batch; the last exit ends it.

Example:
  sluice profile --device cosim --config run --network fashion --json
  sluice profile my.sluice --device uio --label measured --clock-mhz 150 --runs 20`
}

type profileDoc struct {
	header
	Entries []bundle.LatencyEntry `json:"entries"`
	Law     struct {
		Mean  float64 `json:"mean"` // of |measured / bundle's table - 1|
		Worst float64 `json:"worst"`
	} `json:"against_table"`
}

// Run implements the command.
func (c *profileCmd) Run(e *env) error {
	if c.Runs < 1 || c.Runs > 1000 {
		return coded(codeUsage, fmt.Errorf("--runs %d: expected 1..1000", c.Runs))
	}
	c.file, c.board = c.Bundle, &c.uioFlags
	p, err := c.prepare(e)
	if err != nil {
		return err
	}
	dev, err := c.openDevice(e.ctx, c.Device, p, &soft.Memo{})
	if err != nil {
		return err
	}
	defer dev.Close()
	im, err := c.images(p, 256, true) // cycles do not depend on data
	if err != nil {
		return err
	}
	in := inputs(p.bundle, im)
	info, segments := dev.Info(), len(p.bundle.Network.Exits)
	doc := profileDoc{header: header{"sluice-profile/1", version, c.Seed, info.Label}}
	law := map[[3]int]int64{}
	for _, l := range p.bundle.Latency {
		law[[3]int{l.First, l.Last, l.Batch}] = l.P50
	}
	set, done := e.progress("profile", info.MaxBatch*segments*(segments+1)/2*c.Runs)
	defer done()
	next, ran := device.RequestID(c.Seed), 0
	for b := 1; b <= info.MaxBatch; b++ {
		for first := range segments {
			times := make([][]int64, segments) // by last
			for range c.Runs {
				for last := first; last < segments; last++ {
					l := &device.Launch{ID: device.LaunchID(ran + 1), Network: p.bundle.Network.Name, First: first, Last: last}
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
					times[last] = append(times[last], ns)
					ran++
					set(ran)
				}
			}
			for last := first; last < segments; last++ {
				slices.Sort(times[last])
				doc.Entries = append(doc.Entries, bundle.LatencyEntry{
					Network: p.bundle.Network.Name, Device: info.Name, First: first, Last: last, Batch: b,
					P50: engine.Quantile(times[last], 0.5), P99: engine.Quantile(times[last], 0.99),
				})
			}
		}
	}
	done()
	for _, x := range doc.Entries {
		if want := law[[3]int{x.First, x.Last, x.Batch}]; want > 0 {
			off := max(float64(x.P50)/float64(want), float64(want)/float64(x.P50)) - 1
			doc.Law.Mean += off / float64(len(doc.Entries))
			doc.Law.Worst = max(doc.Law.Worst, off)
		}
	}
	if err := e.output(doc, c.Out, c.JSON); err != nil || c.JSON {
		return err
	}
	t := report.Table{Head: []string{"segments"}}
	for b := 1; b <= info.MaxBatch; b++ {
		t.Head = append(t.Head, fmt.Sprintf("B = %d", b))
	}
	for first := range segments {
		for last := first; last < segments; last++ {
			row := []string{fmt.Sprintf("%d..%d", first, last)}
			for _, x := range doc.Entries {
				if x.First == first && x.Last == last {
					row = append(row, report.Ns(x.P50))
				}
			}
			t.Add(row...)
		}
	}
	if err := t.Write(e.stdout); err != nil {
		return err
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
