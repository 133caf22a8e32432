package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/sluice-npu/sluice/dse/machine"
	"github.com/sluice-npu/sluice/dse/mapping"
	"github.com/sluice-npu/sluice/dse/search"
	"github.com/sluice-npu/sluice/hw/configs"
)

// finalist is one of the designs that the law's own error tells from the best, and what the machine says of it.
type finalist struct {
	TR      int     `json:"TR"`
	TP      int     `json:"TP"`
	TC      int     `json:"TC"`
	Law     float64 `json:"gops"` // weighted
	Machine float64 `json:"gops_by_machine"`
}

// finalists are these designs in the order of the machine, at every batch size that counts.
func finalists(ctx context.Context, w *search.Workload, points []search.Point, weights search.Weights) ([]finalist, error) {
	var out []finalist
	sum := 0.0
	for _, weight := range weights {
		sum += weight
	}
	for _, p := range points {
		f := finalist{TR: p.TR, TP: p.TP, TC: p.TC, Law: p.GOPS}
		for i, weight := range weights {
			if weight == 0 {
				continue
			}
			cycles, err := machineCycles(ctx, w, p.Design, i+1)
			if err != nil {
				return nil, err
			}
			f.Machine += weight / sum * search.GOPSOf(p.Design, w.MACs, i+1, cycles)
		}
		out = append(out, f)
	}
	slices.SortStableFunc(out, func(a, b finalist) int { return cmp.Compare(b.Machine, a.Machine) })
	return out, nil
}

// machineCycles is what all segments of a network take by the machine, under the entries of dse compile.
func machineCycles(ctx context.Context, w *search.Workload, d configs.Design, batch int) (cycles int64, err error) {
	layers, err := w.Lower(d)
	if err != nil {
		return 0, err
	}
	chosen, err := search.Choose(d, layers, batch, mapping.RTL())
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

// printFinalists prints them.
func printFinalists(to io.Writer, all []finalist) {
	if len(all) == 0 {
		return
	}
	fmt.Fprintln(to, "\nof the designs that the law's error tells from the best, by the machine:")
	t := tabwriter.NewWriter(to, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "T_R\tT_P\tT_C\tGOP/s by the law\tby the machine\t")
	for _, f := range all {
		fmt.Fprintf(t, "%d\t%d\t%d\t%.2f\t%.2f\t\n", f.TR, f.TP, f.TC, f.Law, f.Machine)
	}
	_ = t.Flush()
}
