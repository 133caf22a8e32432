// sluice profile measures a latency table.

package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/host/cli"
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
	GPU    int    `device:"cuda,hip" name:"gpu" default:"0" help:"cuda, hip: which GPU, counted from 0 as sluice doctor lists them."`
	Runs   int    `help:"Launches of each cell, each with other images. Default: 20 on a GPU, after one that does not count; else one, since cycles do not depend on data."`
	Units  []int  `device:"cuda,hip" help:"GPU: partitions to measure beside the whole, in units (sluice bench gpu names them): 1,4,8."`
	Most   int    `name:"max-batch" help:"Largest batch; default: the device's, on a GPU at most the NPU's."`
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
	cli.Header
	Bundle  string                `json:"bundle"`
	Runs    int                   `json:"runs"` // number of launches per cell
	Entries []bundle.LatencyEntry `json:"entries"`
	Units   []unitsEntry          `json:"units,omitempty"`         // by partition
	Law     *lawDoc               `json:"against_table,omitempty"` // missing on a GPU, because the bundle's table is for an NPU
}

type lawDoc struct {
	Mean  float64 `json:"mean"` // mean of |measured / bundle's table - 1|
	Worst float64 `json:"worst"`
}

const profileSchema = "sluice-profile/1"

// unitsEntry is a cell of the latency table that was measured on the first units of a device.
type unitsEntry struct {
	Units int `json:"units"`
	bundle.LatencyEntry
}

func (c *profileCmd) Run(e *cli.Env) error {
	switch {
	case c.Runs < 0 || c.Runs > 1000:
		return cli.Errorf(cli.Usage, "--runs %d: expected 1..1000", c.Runs)
	case c.Most < 0:
		return cli.Errorf(cli.Usage, "--max-batch %d: expected 1 or more", c.Most)
	}
	if err := e.Unread(cli.Choice{Tag: "device", Chosen: c.Device}); err != nil {
		return err
	}
	c.file, c.board, c.what.gpu = c.Bundle, &c.uioFlags, c.GPU
	p, err := c.prepare(e)
	if err != nil {
		return err
	}
	dev, err := c.openDevice(e.Ctx, c.Device, p, &soft.Memo{})
	if err != nil {
		return err
	}
	defer dev.Close()
	r, err := c.measurement(e, p, dev)
	if err != nil {
		return err
	}
	if err := r.all(); err != nil {
		return err
	}
	if r.cold == 0 {
		r.doc.compare(p.bundle.Latency)
	}
	return e.Print(r.doc, c.Out, c.JSON, r.print)
}

// measurement is the state while a latency table is measured.
type measurement struct {
	*profileCmd
	e        *cli.Env
	dev      device.Blocking
	info     device.Info
	network  string
	in       [][]int16 // input images
	segments int
	most     int // largest batch size
	cold     int // number of first launches per cell that are not counted
	parts    []device.Units
	admitted device.RequestID
	launched int
	set      func(launched int) // reports the progress
	doc      profileDoc
}

func (c *profileCmd) measurement(e *cli.Env, p *prepared, dev device.Blocking) (*measurement, error) {
	im, err := c.images(e, p, 256, true) // any images are suitable, because cycles do not depend on the data
	if err != nil {
		return nil, err
	}
	summary, err := p.bundle.Summarize()
	if err != nil {
		return nil, err
	}
	r := &measurement{
		profileCmd: c, e: e, dev: dev, info: dev.Info(), network: p.bundle.Network.Name, in: inputs(p.bundle, im), segments: p.exits(),
		admitted: device.RequestID(c.Seed), parts: []device.Units{{}},
	}
	r.most = r.info.MaxBatch
	if onGPU(c.Device) {
		r.cold = 1
		r.most = min(r.most, abi.BMax) // limit of a bundle's table
	}
	if c.Most > 0 {
		r.most = min(r.most, c.Most)
	}
	c.Runs = cmp.Or(c.Runs, 1+19*r.cold)
	units := 0
	if g, ok := dev.(interface{ Units() int }); ok {
		units = g.Units()
	}
	for _, n := range c.Units {
		if n < 1 || n > units {
			return nil, cli.Errorf(cli.Usage, "--units %d: expected 1..%d", n, units)
		}
		r.parts = append(r.parts, device.UnitRange(0, n))
	}
	r.doc = profileDoc{Header: cli.NewHeader(profileSchema, c.Seed, r.info.Label), Bundle: summary.BundleHash, Runs: c.Runs}
	return r, nil
}

// all measures every cell, on the whole device and on each partition of --units.
func (r *measurement) all() error {
	launches := len(r.parts) * r.most * r.segments * (r.segments + 1) / 2 * (r.cold + r.Runs)
	set, done := r.e.Progress("profile", launches)
	defer done()
	r.set = set
	for _, part := range r.parts {
		for batch := 1; batch <= r.most; batch++ {
			for first := range r.segments {
				if err := r.row(part, batch, first); err != nil {
					return cli.Coded(cli.Device, err)
				}
			}
		}
	}
	return nil
}

// row measures the spans that begin at a segment. It alternates between the spans, so that a drift of the device's
// clock affects all spans equally.
func (r *measurement) row(part device.Units, batch, first int) error {
	times := make([][]int64, r.segments) // by last segment
	for run := range r.cold + r.Runs {
		for last := first; last < r.segments; last++ {
			ns, err := r.launch(part, batch, first, last)
			if err != nil {
				return err
			}
			if run >= r.cold {
				times[last] = append(times[last], ns)
			}
		}
	}
	for last := first; last < r.segments; last++ {
		slices.Sort(times[last])
		x := bundle.LatencyEntry{
			Network: r.network, Device: r.info.Name, First: first, Last: last, Batch: batch,
			P50: engine.Quantile(times[last], 0.5), P99: engine.Quantile(times[last], 0.99),
		}
		if part.Empty() {
			r.doc.Entries = append(r.doc.Entries, x)
		} else {
			r.doc.Units = append(r.doc.Units, unitsEntry{part.Count(), x})
		}
	}
	return nil
}

// launch admits a batch of the next images, runs the segments before "first", and then measures the launch of the
// segments "first" to "last".
func (r *measurement) launch(part device.Units, batch, first, last int) (int64, error) {
	l := &device.Launch{ID: device.LaunchID(r.launched + 1), Network: r.network, First: first, Last: last, Units: part}
	defer func() {
		for _, id := range l.Requests {
			r.dev.Release(id)
		}
	}()
	for range batch {
		r.admitted++
		if err := r.dev.Admit(r.e.Ctx, r.network, r.admitted, device.InWords(r.in[int(uint64(r.admitted)%uint64(len(r.in)))])); err != nil {
			return 0, err
		}
		l.Requests, l.Theta = append(l.Requests, r.admitted), append(l.Theta, 2)
	}
	if first > 0 {
		before := *l
		before.First, before.Last = 0, first-1
		if _, err := r.dev.Run(r.e.Ctx, &before); err != nil {
			return 0, err
		}
	}
	rep, err := r.dev.Run(r.e.Ctx, l)
	if err != nil {
		return 0, err
	}
	if rep.Ns <= 0 {
		return 0, fmt.Errorf("%s reports %d ns for segments %d..%d", r.info.Name, rep.Ns, first, last)
	}
	r.launched++
	r.set(r.launched)
	return rep.Ns, nil
}

func (d *profileDoc) compare(table []bundle.LatencyEntry) {
	law := map[[3]int]int64{}
	for _, l := range table {
		law[[3]int{l.First, l.Last, l.Batch}] = l.P50
	}
	d.Law = &lawDoc{}
	for _, x := range d.Entries {
		if want := law[[3]int{x.First, x.Last, x.Batch}]; want > 0 {
			off := max(float64(x.P50)/float64(want), float64(want)/float64(x.P50)) - 1
			d.Law.Mean += off / float64(len(d.Entries))
			d.Law.Worst = max(d.Law.Worst, off)
		}
	}
}

// table prints entries by span and batch.
func (r *measurement) table(w io.Writer, entries []bundle.LatencyEntry) error {
	t := report.Table{Head: []string{"segments"}}
	for batch := 1; batch <= r.most; batch++ {
		t.Head = append(t.Head, fmt.Sprintf("B = %d", batch))
	}
	for first := range r.segments {
		for last := first; last < r.segments; last++ {
			row := []string{fmt.Sprintf("%d..%d", first, last)}
			for _, x := range entries {
				if x.First == first && x.Last == last {
					row = append(row, report.Ns(x.P50))
				}
			}
			t.Add(row...)
		}
	}
	return t.Write(w)
}

func (r *measurement) print(w io.Writer) error {
	if err := r.table(w, r.doc.Entries); err != nil {
		return err
	}
	for _, n := range r.Units {
		fmt.Fprintf(w, "\non %d units\n", n)
		var some []bundle.LatencyEntry
		for _, x := range r.doc.Units {
			if x.Units == n {
				some = append(some, x.LatencyEntry)
			}
		}
		if err := r.table(w, some); err != nil {
			return err
		}
	}
	if r.doc.Law != nil {
		fmt.Fprintf(w, "\nagainst the bundle's table: mean error %s, worst %s; wrote %s/summary.json\n",
			report.Percent(r.doc.Law.Mean), report.Percent(r.doc.Law.Worst), r.Out)
		return nil
	}
	reads := ": sluice run --profile reads it" // no comparison, because the bundle's table is for an NPU
	if r.most < min(r.info.MaxBatch, abi.BMax) {
		reads = "; sluice run --profile wants all batches, without --max-batch"
	}
	if len(r.Units) > 0 {
		reads += " (not its partitions: nothing reads those yet)"
	}
	fmt.Fprintf(w, "\nmedians of %d runs on %s (%s); wrote %s/summary.json%s\n", r.Runs, r.info.Name, r.info.Label, r.Out, reads)
	return nil
}
