package main

import (
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"strconv"
	"text/tabwriter"

	"github.com/sluice-npu/sluice/dse/counted"
	"github.com/sluice-npu/sluice/dse/resource"
	"github.com/sluice-npu/sluice/dse/search"
	"github.com/sluice-npu/sluice/host/capacity"
	"github.com/sluice-npu/sluice/host/cli"
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
)

// options converts the flags to options of a search.
func (c *sweepCmd) options(in *given, weights search.Weights) (o search.Options, err error) {
	if in.w, err = c.mixed(in.w); err != nil {
		return o, err
	}
	if err := c.apply(&in.grid); err != nil {
		return o, cli.Coded(cli.Usage, err)
	}
	if !(c.MaxLatency >= 0) || c.MaxLatency > 1e9 {
		return o, usage("--max-latency is %v ms, must be 0 (none) to 1e9", c.MaxLatency)
	}
	types, off := c.Type, 0.0
	if len(types) == 0 {
		types = []string{in.grid.Template.Type}
	}
	for _, t := range types {
		band, err := counted.Of(configs.Design{Type: t}, c.Network, c.own()) // cycles of new designs have not been counted
		if err != nil {
			return o, err
		}
		off = max(off, band.Mean)
	}
	exits, err := c.Tensors()
	if err != nil {
		return o, err
	}
	o = search.Options{
		Objective: search.Objective(c.Objective), Weights: weights, Workers: c.Workers, Exhaustive: c.Exhaustive, State: c.Resume,
		MaxLatency: int64(math.Ceil(c.MaxLatency * 1e6)), Band: off,
		Asked: []search.Param{
			search.Ask("--clock", c.Clock), search.Ask("--clock-margin", c.ClockMargin), search.Ask("--max-latency", c.MaxLatency), search.Ask("--exit-rate", c.ExitRate),
			search.Ask("--input-side", c.InputSide), search.Ask("--exits", exits), search.Ask("--gates", c.Gates),
		},
	}
	if o.Objective != search.Rate && o.Objective != search.Cheapest && len(in.w.Parts) == 1 {
		o.References = references(in)
	}
	if len(c.ExitRate) > 0 {
		o.Exits = c.ExitRate
	}
	if o.Objective == search.Cheapest {
		o.Cost = search.Cost(c.Cost)
		switch o.Cost {
		case search.CostEnergy:
			o.Energy = search.Horowitz()
			o.Exits = capacity.ExitRates(in.w, c.ExitRate)
		case search.CostLUT:
			if b := resource.Of(in.grid.Board, in.grid.Template).LUT.Band; b < 1 {
				o.CostBand = b
			}
		}
	}
	if o.Objective.Simulated() {
		s, err := c.Service(in.w, o.Objective, c.ExitRate)
		if err != nil {
			return o, err
		}
		o.Service = s.Search()
	}
	return o, nil
}

// energyDoc describes the energy of a sample on the best design.
type energyDoc struct {
	PJ    float64        `json:"pj_per_sample"`
	Model *search.Energy `json:"model"`
	Label string         `json:"label"`
}

func energyOf(in *given, o search.Options, d configs.Design, exits []float64) (*energyDoc, error) {
	m := search.Horowitz()
	share, err := search.Reach(in.w, exits)
	if err != nil {
		return nil, err
	}
	weights := o.Weights
	pj, err := m.Of(in.w, d, in.grid.Mapping, weights, share)
	return &energyDoc{pj, m, "estimated"}, err
}

// slower simulates serving on a design that needs more cycles than the law computes. The parameter `band` is the
// relative increase. The simulation shows whether the result is still valid if the law has this error.
func slower(ctx context.Context, o search.Options, p search.Point, band float64) (*search.Served, error) {
	ns := p.Nanoseconds()
	for b := range ns {
		for i := range ns[b] {
			ns[b][i] = int64(float64(ns[b][i]) * (1 + band))
		}
	}
	v, err := o.Service.Serve(ctx, p.Design, ns, 0)
	return &v, err
}

// writeCSV writes one line for every evaluated design.
func (c *sweepCmd) writeCSV(path string, r *search.Result) error {
	within, front := map[string]bool{}, map[string]bool{}
	for _, p := range r.Within {
		within[p.Design.Name] = true
	}
	for _, p := range r.Pareto {
		front[p.Design.Name] = true
	}
	return cli.WriteFile(path, func(w io.Writer) error {
		out := csv.NewWriter(w)
		head := []string{
			"name", "TR", "TP", "TC", "n_axi", "axi_bytes", "max_burst", "w_load", "drain", "wring_beats", "abuf_words", "clock_mhz", "bytes_per_cycle", "type",
			"dsp", "bram36", "uram", "lut", "ff", "value", "at_most", "holds", "within", "pareto", "gops", "latency_b1_ns", "latency_exits_ns", "samples_per_s",
			"violations", "violations_ci95", "goodput", "goodput_ci95", "energy_pj",
		}
		for b := 1; b <= abi.BMax; b++ {
			head = append(head, fmt.Sprintf("gops_b%d", b))
		}
		if err := out.Write(head); err != nil {
			return err
		}
		num := func(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
		for _, p := range r.Points {
			d := p.Design
			row := []string{d.Name}
			for _, v := range []int{d.TR, d.TP, d.TC, d.NAXI, d.AXIBytes, d.MaxBurst, d.WLoad, d.Drain, d.WRingBeats, d.ABufWords} {
				row = append(row, strconv.Itoa(v))
			}
			row = append(row, num(d.ClockMHz), num(d.DRAM.BytesPerCycle), typeOf(d), strconv.Itoa(p.DSP), num(p.BRAM36), strconv.Itoa(p.URAM), strconv.Itoa(p.LUT),
				strconv.Itoa(p.FF), num(p.Value), strconv.FormatBool(p.AtMost), strconv.FormatBool(!p.Fails), strconv.FormatBool(within[d.Name]),
				strconv.FormatBool(front[d.Name]), num(p.GOPS), strconv.FormatInt(p.B1NS, 10), strconv.FormatInt(p.ExitNS, 10), num(p.Samples))
			if s := p.Served; s != nil {
				interval := func(v *float64) string {
					if v == nil {
						return ""
					}
					return num(*v)
				}
				row = append(row, num(s.Violations), interval(s.CI95), num(s.Goodput), interval(s.GCI95))
			} else {
				row = append(row, "", "", "", "")
			}
			energy := ""
			if p.PJ > 0 && !p.AtMost {
				energy = num(p.PJ)
			}
			row = append(row, energy)
			for _, v := range p.ByB {
				row = append(row, num(v))
			}
			if err := out.Write(row); err != nil {
				return err
			}
		}
		out.Flush()
		return out.Error()
	})
}

// printWithin lists the designs that the law cannot distinguish from the best design.
func (c *sweepCmd) printWithin(w io.Writer, r *search.Result, doc sweepDoc) {
	const most = 12
	tell := "estimates tell"
	if r.Best.Served != nil { // the band does not include the uncertainty of random arrivals
		tell = "the estimates of cycles or cost tell, on these arrivals"
	}
	if e := resource.Of(doc.Device, r.Best.Design); c.Objective == string(search.Cheapest) && c.Cost == string(search.CostLUT) && e.LUT.Band >= 1 {
		fmt.Fprintf(w, "\nthe best one's LUTs are %v: nothing says how far that is off, and so not which others are as good:\n", e.LUT)
	} else if len(r.Within) == 1 {
		fmt.Fprintf(w, "\nno other design is as good, as far as %s:\n", tell)
	} else {
		fmt.Fprintf(w, "\n%d designs are as good, as far as %s:\n", len(r.Within), tell)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "T_R\tT_P\tT_C\ttype\tDSP\tBRAM36\tURAM\tLUT\tGOP/s\tms at B=1\tvalue\t  design\t")
	for i, p := range r.Within {
		if i == most {
			break
		}
		fmt.Fprintf(t, "%d\t%d\t%d\t%s\t%d\t%.1f\t%d\t%d\t%.1f\t%.2f\t%s\t  %s\t\n", p.TR, p.TP, p.TC, typeOf(p.Design), p.DSP, p.BRAM36, p.URAM, p.LUT, p.GOPS, float64(p.B1NS)/1e6,
			c.valueText(p.Value), p.Design.Name)
	}
	_ = t.Flush()
	if len(r.Within) > most {
		fmt.Fprintf(w, "and %d more (--out, --csv)\n", len(r.Within)-most)
	}
	if s := r.Best.Served; s != nil {
		seeds := fmt.Sprintf("of each of %d seeds", len(c.Seeds))
		if len(c.Seeds) == 1 {
			seeds = "of one seed, so without an interval"
		}
		fmt.Fprintf(w, "\nthe best one misses %.2f %%%s of the deadlines and serves %.2f%s requests in time a second (simulated service of estimated cycles, %d requests %s)\n",
			100*s.Violations, half(100, s.CI95), s.Goodput, half(1, s.GCI95), c.N, seeds)
	}
	if s := doc.Slow; s != nil {
		text := fmt.Sprintf("%.2f %%%s", 100*s.Violations, half(100, s.CI95))
		switch search.Objective(c.Objective) {
		case search.Cheapest:
			text += map[bool]string{true: ": it still holds", false: ": it no longer holds"}[s.Holds]
		case search.Rate:
			text = fmt.Sprintf("%.2f requests a second", s.Value)
		}
		fmt.Fprintf(w, "were its cycles %.1f %% longer: %s\n", 100*doc.Band.Mean, text)
	}
	if e := doc.Energy; e != nil {
		fmt.Fprintf(w, "%.3g mJ a sample by published energies of accesses (estimated; 45 nm, without clocks and leakage: it ranks designs)\n", e.PJ/1e9)
	}
}

// half formats half of a confidence interval. There is no interval if there is only one seed.
func half(scale float64, v *float64) string {
	if v == nil {
		return ""
	}
	return fmt.Sprintf(" +-%.2f", scale**v)
}

func (c *sweepCmd) valueText(v float64) string {
	if search.Objective(c.Objective) != search.Cheapest {
		return valueText(c.Objective, v)
	}
	switch search.Cost(c.Cost) {
	case search.CostLUT:
		return fmt.Sprintf("%.0f LUTs", -v)
	case search.CostBRAM:
		return fmt.Sprintf("%.1f BRAM36", -v)
	case search.CostEnergy:
		return fmt.Sprintf("%.3g mJ a sample", -v/1e9)
	}
	return fmt.Sprintf("%.0f DSPs", -v)
}
