package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"text/tabwriter"

	"github.com/sluice-npu/sluice/dse/graph"
	"github.com/sluice-npu/sluice/dse/machine"
	"github.com/sluice-npu/sluice/dse/mapping"
	"github.com/sluice-npu/sluice/dse/recipe"
	"github.com/sluice-npu/sluice/dse/search"
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
)

// finalist is a design that the law cannot distinguish from the best design, with its throughput in package machine.
type finalist struct {
	Name    string  `json:"name"`
	TR      int     `json:"TR"`
	TP      int     `json:"TP"`
	TC      int     `json:"TC"`
	Law     float64 `json:"gops"` // weighted over batch sizes
	Machine float64 `json:"gops_by_machine"`
	Counted float64 `json:"gops_counted,omitempty"` // counted on the RTL (simulated)
}

// finalists simulates designs in package machine at every batch size whose weight is not 0. It sorts the designs by the
// resulting GOP/s. If count is not nil, it sorts them by the GOP/s counted on the RTL.
func finalists(ctx context.Context, w *search.Workload, points []search.Point, weights search.Weights, o mapping.Options, count *counter) ([]finalist, error) {
	var out []finalist
	sum := 0.0
	for _, weight := range weights {
		sum += weight
	}
	for _, p := range points {
		f := finalist{Name: p.Design.Name, TR: p.TR, TP: p.TP, TC: p.TC, Law: p.GOPS}
		var rtl [abi.BMax]int64
		if count != nil {
			var err error
			if rtl, err = count.cycles(ctx, p.Design, weights); err != nil {
				return nil, err
			}
		}
		for i, weight := range weights {
			if weight == 0 {
				continue
			}
			cycles, err := machineCycles(ctx, w, p.Design, i+1, o)
			if err != nil {
				return nil, err
			}
			f.Machine += weight / sum * search.GOPSOf(p.Design, w.MACs, i+1, cycles)
			if count != nil {
				f.Counted += weight / sum * search.GOPSOf(p.Design, w.MACs, i+1, rtl[i])
			}
		}
		out = append(out, f)
	}
	slices.SortStableFunc(out, func(a, b finalist) int {
		return cmp.Or(cmp.Compare(b.Counted, a.Counted), cmp.Compare(b.Machine, a.Machine))
	})
	return out, nil
}

// machineCycles returns the sum of the cycles of all segments in package machine. The law chooses their mappings.
func machineCycles(ctx context.Context, w *search.Workload, d configs.Design, batch int, o mapping.Options) (cycles int64, err error) {
	layers, err := w.Lower(d)
	if err != nil {
		return 0, err
	}
	chosen, err := search.Choose(d, layers, batch, o)
	if err != nil {
		return 0, err
	}
	var start []machine.Layer
	for i, l := range layers {
		start = append(start, machine.Layer{Geom: l.Geom, Entry: chosen[i].Entry, RowBytes: l.InRow})
		if i+1 < len(layers) && layers[i+1].Segment == l.Segment {
			continue
		}
		r, err := machine.Run(ctx, d, start, batch)
		if err != nil {
			return 0, err
		}
		cycles += r.Cycles
		start = nil
	}
	return cycles, nil
}

// counter counts the cycles of a network on the RTL of designs. It builds the RTL without MACs.
type counter struct {
	r    *recipe.Recipe
	g    *graph.Graph
	from *recipe.Calibration
	log  io.Writer // output of the builds
}

// counter returns the counter for --count, or nil without this flag.
func (c *sweepCmd) counter(log io.Writer) (*counter, error) {
	if !c.Count {
		return nil, nil
	}
	s := source{Network: c.Network, Seed: c.Seed, Images: 1, Flags: recipe.Flags{Import: c.Import}}
	x := &counter{r: s.recipe(), log: log}
	var err error
	if x.g, err = c.graph(); err != nil {
		return nil, err
	}
	x.from, err = x.r.Calibration(x.g)
	return x, err
}

// cycles returns the cycles of all segments on a design, for every batch size whose weight is not 0.
func (c *counter) cycles(ctx context.Context, d configs.Design, weights search.Weights) (n [abi.BMax]int64, err error) {
	dir, err := os.MkdirTemp("", "sluice-count-")
	if err != nil {
		return n, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	file := filepath.Join(dir, d.Name+".yaml")
	if err := writeConfig(file, d); err != nil {
		return n, err
	}
	if _, err := script(ctx, c.log, "sim/build.sh", file, "--stub"); err != nil {
		return n, err
	}
	b, err := c.r.MakeFrom(c.g, c.from, d)
	if err != nil {
		return n, err
	}
	drv, err := open(ctx, d, build(d, false), []string{file})
	if err != nil {
		return n, err
	}
	defer func() { err = errors.Join(err, drv.Close()) }()
	if err := drv.Load(ctx, b); err != nil {
		return n, err
	}
	for i, weight := range weights {
		for _, x := range b.Network.Exits {
			if weight == 0 {
				break
			}
			counters, err := drv.Measure(ctx, b.Network.Name, x.First, x.Last, i+1)
			if err != nil {
				return n, fmt.Errorf("%s: %w", d.Name, err)
			}
			n[i] += int64(counters[abi.CntCyclesBusy])
		}
	}
	return n, nil
}

// printFinalists prints the finalists.
func printFinalists(to io.Writer, all []finalist) {
	if len(all) == 0 {
		return
	}
	by, counted := "the machine", all[0].Counted > 0
	if counted {
		by = "what was counted on the RTL (simulated)"
	}
	fmt.Fprintf(to, "\nof the designs that the law cannot tell from the best within its error, by %s:\n", by)
	t := tabwriter.NewWriter(to, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "T_R\tT_P\tT_C\tGOP/s by the law\tby the machine\t")
	if counted {
		fmt.Fprint(t, "counted\t")
	}
	fmt.Fprintln(t, "  design\t")
	for _, f := range all {
		fmt.Fprintf(t, "%d\t%d\t%d\t%.2f\t%.2f\t", f.TR, f.TP, f.TC, f.Law, f.Machine)
		if counted {
			fmt.Fprintf(t, "%.2f\t", f.Counted)
		}
		fmt.Fprintf(t, "  %s\t\n", f.Name)
	}
	_ = t.Flush()
}
