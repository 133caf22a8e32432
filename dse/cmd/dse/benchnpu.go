package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/dse/cost"
	"github.com/sluice-npu/sluice/dse/machine"
	"github.com/sluice-npu/sluice/dse/mapping"
	"github.com/sluice-npu/sluice/dse/recipe"
	"github.com/sluice-npu/sluice/dse/search"
	"github.com/sluice-npu/sluice/host/cli"
	"github.com/sluice-npu/sluice/host/npu"
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
)

type benchNPUCmd struct {
	Network string `default:"resnet50" placeholder:"NAME" help:"Network of the zoo."`
	recipe.Import
	Config    []string  `default:"zc706,zcu104" placeholder:"NAME" help:"Reference arrays; their stub build must exist (sim/build.sh NAME --stub)."`
	Batch     []int     `default:"1,2,4,8" help:"Batch sizes."`
	Bandwidth []float64 `placeholder:"BYTES" help:"Bytes of the DRAM a cycle of the configuration's clock (default: the configuration's)."`
	Clock     *float64  `placeholder:"MHZ" help:"Clock in place of the configuration's: the DRAM keeps its GB/s and its latency in ns."`
	Law       bool      `help:"Only the law of cycles (estimated), without simulation or build."`
	Machine   bool      `help:"Step through the RTL's registers (dse/machine), without simulation or build: some 0.3 s a million cycles."`
	Full      bool      `help:"The build with its MACs (sim/build.sh NAME), some ten times slower: the same cycles."`
	Out       string    `placeholder:"DIR" help:"Folder for summary.json."`
}

func (benchNPUCmd) Help() string {
	return `Count the cycles of a network's backbone (exit heads left out) on the Verilated NPU without MACs,
beside the law, and the roofline: each layer the larger of its MACs at a full array and its tensors once
over the DRAM, a pool behind a convolution fused. Tensors kept on chip can pass it. The goal is roofline / 0.9. Beside them stands what the
paper's ways to batch would take (estimated): batches along R, and Fluid Batching with Stackable PEs, by
our law of cycles with the largest tiles; the latter also by the paper's law on the design it prints.

With --clock it is the array at another clock on the same DRAM, as make timing says that it closes. With
--law only the law is asked, in seconds and without a build; with --machine the RTL's registers are stepped,
in a minute or two.

Example:

    dse bench-npu --config zc706 --batch 1,2 --out out/bench-npu
    dse bench-npu --config zc706 --bandwidth 15.3,28 --clock 81 --law`
}

type npuRow struct {
	Network   string         `json:"network"`
	Config    string         `json:"config"`
	Board     string         `json:"board"` // "": simulated only
	Bandwidth float64        `json:"bytes_per_cycle"`
	ClockMHz  float64        `json:"clock_mhz"`
	GBps      float64        `json:"dram_gb_per_s"`
	NS        float64        `json:"dram_latency_ns"`
	Batch     int            `json:"batch"`
	Cycles    int64          `json:"cycles,omitempty"`         // counted; absent with --law or --machine
	Machine   int64          `json:"machine_cycles,omitempty"` // with --machine; Stalls is then from the machine
	Law       int64          `json:"law_cycles"`
	Roofline  int64          `json:"roofline_cycles"`
	Goal      int64          `json:"goal_cycles"` // roofline / 0.9
	Frames    float64        `json:"frames_per_s"`
	Util      float64        `json:"mac_util,omitempty"`
	Stalls    machine.Stalls `json:"stalls,omitzero"`
	BytesRead uint64         `json:"bytes_read,omitempty"`
	Written   uint64         `json:"bytes_written,omitempty"`

	Published []published `json:"published,omitempty"` // estimates for the paper's schemes
}

// published is the estimate of dse ablate for one of the paper's batching schemes. It uses either the hardware's law on
// the same array with the largest fitting tiles, or the paper's law on the board's published design.
type published struct {
	Law    string  `json:"law"`
	Scheme string  `json:"scheme"`
	Design [3]int  `json:"design"`
	Cycles int64   `json:"cycles"`
	Util   float64 `json:"mac_util"`
}

type benchNPUDoc struct {
	cli.Header
	Latency int      `json:"dram_latency_cycles"`
	Rows    []npuRow `json:"rows"`
}

func (c *benchNPUCmd) Run(e *cli.Env) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	doc := benchNPUDoc{Header: newHeader("bench-npu", 1)}
	doc.Label = "simulated"
	if c.Law || c.Machine {
		doc.Label = "estimated"
	}
	if err := c.check(); err != nil {
		return err
	}
	var designs []configs.Design
	for _, name := range c.Config {
		d, err := c.designs(name)
		if err != nil {
			return err
		}
		designs = append(designs, d...)
	}
	for _, d := range designs {
		rows, err := c.design(ctx, e, d)
		if err != nil {
			return fmt.Errorf("%s on %s: %w", c.Network, d.Name, err)
		}
		doc.Latency = d.DRAM.LatencyCycles
		doc.Rows = append(doc.Rows, rows...)
	}
	out := ""
	if c.Out != "" {
		if err := os.MkdirAll(c.Out, 0o755); err != nil {
			return err
		}
		out = filepath.Join(c.Out, "summary.json")
	}
	if err := e.Document(doc, out, e.JSON); err != nil || e.JSON {
		return err
	}
	return doc.print(e.Stdout)
}

// check returns an error for invalid flags before any work is done.
func (c *benchNPUCmd) check() error {
	if c.Law && c.Full || c.Law && c.Machine || c.Machine && c.Full {
		return usage("--law and --machine simulate nothing, --full another build: one of them")
	}
	if c.Clock != nil && (!(*c.Clock > 0) || math.IsInf(*c.Clock, 0)) {
		return usage("--clock is %g MHz, must be more than 0", *c.Clock)
	}
	for _, b := range c.Bandwidth {
		if !(b > 0) || math.IsInf(b, 0) {
			return usage("--bandwidth has %g, must be more than 0", b)
		}
	}
	for _, b := range c.Batch {
		if b < 1 || b > abi.BMax {
			return usage("--batch has %d, must be 1..%d", b, abi.BMax)
		}
	}
	return nil
}

// designs returns a configuration at every bandwidth.
func (c *benchNPUCmd) designs(name string) ([]configs.Design, error) {
	d, err := configs.Load(name)
	if err != nil {
		return nil, err
	}
	bands := c.Bandwidth
	if len(bands) == 0 {
		bands = []float64{d.DRAM.BytesPerCycle}
	}
	faster := 1.0
	if c.Clock != nil {
		faster = *c.Clock / d.ClockMHz
		d.ClockMHz = *c.Clock
	}
	d.DRAM.LatencyCycles = int(math.Round(float64(d.DRAM.LatencyCycles) * faster))
	var all []configs.Design
	for _, bw := range bands {
		d.DRAM.BytesPerCycle = bw / faster
		if err := d.Validate(); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, d)
	}
	return all, nil
}

// print writes a row of cycles, frames/s and stalls for each batch size. A simulated row ends with the paper's schemes.
func (d *benchNPUDoc) print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	if d.Label == "estimated" {
		by, stalls := "the law of cycles (estimated)", ""
		if len(d.Rows) > 0 && d.Rows[0].Machine > 0 {
			by, stalls = "the machine (RTL's registers stepped); stalls in % of the cycles", "weights\tactivations\tdrain\tdepth\t"
		}
		fmt.Fprintf(w, "\nbackbone, by %s\nconfig\tMHz\tGB/s\tns\tB\tMcycles\tframes/s\t%s\n", by, stalls)
		for _, r := range d.Rows {
			cycles := float64(cmp.Or(r.Machine, r.Law))
			fmt.Fprintf(w, "%s\t%g\t%.2f\t%.0f\t%d\t%.2f\t%.1f\t", r.Config, r.ClockMHz, r.GBps, r.NS, r.Batch, cycles/1e6, r.Frames)
			if s := r.Stalls; r.Machine > 0 {
				for _, n := range []uint64{s.Weights, s.Activations, s.Drain, s.Depth} {
					fmt.Fprintf(w, "%.1f\t", 100*float64(n)/cycles)
				}
			}
			fmt.Fprintln(w)
		}
		return w.Flush()
	}
	fmt.Fprintf(w, "\n%s\n", "backbone, % of peak (simulated); stalls in % of the cycles; the paper's schemes in % of peak (estimated)")
	fmt.Fprintf(w, "config\tbytes/cycle\tB\tMcycles\tframes/s\t%% of peak\tweights\tactivations\tdrain\tdepth\troofline\t")
	if len(d.Rows) > 0 {
		for _, p := range d.Rows[0].Published {
			fmt.Fprintf(w, "%s, %s law\t", p.Scheme, p.Law)
		}
	}
	fmt.Fprintln(w)
	for _, r := range d.Rows {
		share := func(n uint64) float64 { return 100 * float64(n) / float64(r.Cycles) }
		fmt.Fprintf(w, "%s\t%g\t%d\t%.2f\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t", r.Config, r.Bandwidth, r.Batch, float64(r.Cycles)/1e6, r.Frames, 100*r.Util,
			share(r.Stalls.Weights), share(r.Stalls.Activations), share(r.Stalls.Drain), share(r.Stalls.Depth),
			100*r.Util*float64(r.Cycles)/float64(r.Roofline))
		for _, p := range r.Published {
			fmt.Fprintf(w, "%.1f\t", 100*p.Util)
		}
		fmt.Fprintln(w)
	}
	return w.Flush()
}

// schemes returns the estimates for the paper's schemes on d, by batch size. It returns nil if d has no board.
func schemes(network string, from recipe.Import, d configs.Design) (map[int][]published, error) {
	if d.Board == "" {
		return nil, nil
	}
	t := target{Network: network, Import: from, Board: d.Board, Backbone: true, Seed: 1, Mapping: "rtl", post: d.Post, place: place{BytesPerCycle: d.DRAM.BytesPerCycle}}
	in, err := t.load()
	if err != nil {
		return nil, err
	}
	rows, err := search.Ablate(in.w, d, in.grid.Mapping)
	if err != nil {
		return nil, err
	}
	rows = slices.DeleteFunc(rows, func(r search.AblationRow) bool { return r.Scheme != search.RBatch && r.Scheme != search.Stackable })
	for _, x := range in.grid.Board.Published {
		if x.Network != in.w.Name {
			continue
		}
		p, err := search.NewPaperSpace(in.w, in.grid.Board, in.grid.Template, search.PaperOptions{BytesPerCycle: d.DRAM.BytesPerCycle})
		if err != nil {
			return nil, err
		}
		paper, err := p.Ablate(cost.PaperPoint{TR: x.TR, TP: x.TP, TC: x.TC})
		if err != nil {
			return nil, err
		}
		rows = append(rows, slices.DeleteFunc(paper, func(r search.AblationRow) bool { return r.Scheme != search.Stackable })...)
	}
	out := map[int][]published{}
	for _, r := range rows {
		for b := 1; b <= abi.BMax; b++ {
			out[b] = append(out[b], published{
				Law: r.Law, Scheme: string(r.Scheme), Design: r.Design, Util: r.GOPS[b-1] / r.Peak,
				Cycles: int64(math.Round(2e-3 * float64(in.w.MACs) * float64(b) * d.ClockMHz / r.GOPS[b-1])),
			})
		}
	}
	return out, nil
}

func (c *benchNPUCmd) design(ctx context.Context, e *cli.Env, d configs.Design) (rows []npuRow, err error) {
	s := source{Network: c.Network, Config: d.Name, Seed: 1, Images: 1, Flags: recipe.Flags{Import: c.Import}}
	b, err := s.compileFor(d)
	if err != nil {
		return nil, err
	}
	for _, span := range backbone(b) { // tensors are not kept on chip between the backbone and a head
		for i, entry := range b.FBCB[span[1]] {
			b.FBCB[span[1]][i] = mapping.Stay(entry, entry.KeepIn, mapping.Apart)
			if entry.KeepOut {
				b.FBCB[span[1]+1][i].KeepIn = false
			}
		}
	}
	var drv *npu.Driver // nil with --law or --machine
	var paper map[int][]published
	if !c.Law && !c.Machine {
		if drv, err = open(ctx, d, build(d, c.Full), c.Config); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, drv.Close()) }()
		if err := drv.Load(ctx, b); err != nil {
			return nil, err
		}
		if paper, err = schemes(c.Network, c.Import, d); err != nil {
			return nil, err
		}
	}
	for _, batch := range c.Batch {
		r := npuRow{
			Network: c.Network, Config: d.Name, Board: d.Board, Bandwidth: d.DRAM.BytesPerCycle, Batch: batch, Roofline: roofline(d, b, batch),
			ClockMHz: d.ClockMHz, GBps: d.DRAM.BytesPerCycle * d.ClockMHz / 1e3, NS: 1e3 * float64(d.DRAM.LatencyCycles) / d.ClockMHz,
		}
		r.Goal, r.Published = r.Roofline*10/9, paper[batch]
		if err := r.count(ctx, d, b, drv, c.Machine); err != nil {
			return nil, err
		}
		rows = append(rows, r)
		if !e.JSON && drv != nil {
			verdict := "reached"
			if r.Cycles > r.Goal {
				verdict = "missed"
			}
			fmt.Fprintf(e.Stdout, "%s on %s at %g bytes/cycle, B = %d: %d cycles (simulated), law %+.2f %%, roofline %d (x%.3f), goal %d %s, MACs busy %.1f %%, stalls: weights %d, activations %d, drain %d, depth %d\n",
				r.Network, d.Name, r.Bandwidth, batch, r.Cycles, 100*(float64(r.Law)/float64(r.Cycles)-1), r.Roofline,
				float64(r.Cycles)/float64(r.Roofline), r.Goal, verdict, 100*r.Util, r.Stalls.Weights, r.Stalls.Activations, r.Stalls.Drain, r.Stalls.Depth)
		}
	}
	return rows, nil
}

// count adds up the spans of the backbone. It adds the law's cycles. If steps is true, it adds package machine's
// cycles. If the simulator drv is not nil, it adds the hardware's counters.
func (r *npuRow) count(ctx context.Context, d configs.Design, b *bundle.Bundle, drv *npu.Driver, steps bool) error {
	var macs uint64
	for _, span := range backbone(b) {
		law, err := cost.Segment(d, b.Layers, b.FBCB, span[0], span[1], r.Batch)
		if err != nil {
			return err
		}
		r.Law += law
		if steps {
			if err := r.step(ctx, d, b, span); err != nil {
				return err
			}
		}
		if drv == nil {
			continue
		}
		n, err := drv.Measure(ctx, b.Network.Name, span[0], span[1], r.Batch)
		if err != nil {
			return err
		}
		r.Cycles += int64(n[abi.CntCyclesBusy])
		macs += n[abi.CntMACs]
		r.Stalls.Add(machine.StallsOf(&n))
		r.BytesRead += n[abi.CntBytesRead]
		r.Written += n[abi.CntBytesWritten]
	}
	cycles := cmp.Or(r.Machine, r.Law)
	if drv != nil {
		cycles = r.Cycles
		r.Util = float64(macs) / float64(cycles) / float64(d.MACs())
	}
	r.Frames = framesPerSecond(d, r.Batch, cycles)
	return nil
}

// step adds the cycles and stalls that package machine computes for a span.
func (r *npuRow) step(ctx context.Context, d configs.Design, b *bundle.Bundle, span [2]int) error {
	x, err := machine.Segment(ctx, d, b.Layers, b.FBCB, span[0], span[1], r.Batch)
	r.Machine += x.Cycles
	r.Stalls.Add(x.Stalls)
	return err
}

// head reports whether a layer belongs to the head of an exit. It uses the layer's name in the zoo.
func head(b *bundle.Bundle, l int) bool { return strings.Contains(b.Names[l], "heads.") }

// backbone returns the layers that belong to no head, as spans of consecutive layers.
func backbone(b *bundle.Bundle) (spans [][2]int) {
	for l := range b.Layers {
		switch n := len(spans); {
		case head(b, l):
		case n > 0 && spans[n-1][1] == l-1:
			spans[n-1][1] = l
		default:
			spans = append(spans, [2]int{l, l})
		}
	}
	return spans
}

// roofline returns the fewest cycles that multipliers and DRAM bandwidth allow for the backbone.
func roofline(d configs.Design, b *bundle.Bundle, batch int) (sum int64) {
	elem := int64(d.ElemBytes())
	bytes := func(h, w, c int) int64 { return elem * int64(batch) * int64(h) * int64(w) * int64(c) }
	for l := range b.Layers {
		g := cost.GeomOf(&b.Layers[l])
		if head(b, l) || !g.Drained() && l > 0 && cost.GeomOf(&b.Layers[l-1]).Drained() {
			continue // a fused pool
		}
		moved := bytes(g.InH, g.InW, g.InC) + elem*int64(g.P())*int64(g.OutC)
		out := g
		if next := l + 1; next < len(b.Layers) && !head(b, next) && !cost.GeomOf(&b.Layers[next]).Drained() {
			out = cost.GeomOf(&b.Layers[next])
		}
		moved += bytes(out.OutH, out.OutW, out.OutC)
		if g.Residual && !g.Broadcast() {
			moved += bytes(g.OutH, g.OutW, g.OutC)
		}
		macs := d.MACs()
		if !g.GEMM() {
			macs = d.DepthwiseMuls()
		}
		sum += max(int64(batch)*g.MACs()/int64(macs), int64(float64(moved)/d.DRAM.BytesPerCycle))
	}
	return sum
}

// framesPerSecond returns the throughput of batches that follow each other, each of which takes a number of cycles.
func framesPerSecond(d configs.Design, batch int, cycles int64) float64 {
	return 1e6 * d.ClockMHz * float64(batch) / float64(cycles)
}
