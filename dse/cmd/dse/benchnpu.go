package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/dse/cost"
	"github.com/sluice-npu/sluice/dse/mapping"
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
)

type benchNPUCmd struct {
	Network   string    `default:"resnet50" placeholder:"NAME" help:"Network of the zoo."`
	Config    []string  `default:"zc706,zcu104" placeholder:"NAME" help:"Reference arrays; their stub build must exist (sim/build.sh NAME --stub)."`
	Batch     []int     `default:"1,2,4,8" help:"Batch sizes."`
	Bandwidth []float64 `placeholder:"BYTES" help:"Bytes a cycle of the DRAM (default: the configuration's)."`
	Out       string    `placeholder:"DIR" help:"Folder for summary.json."`
}

func (benchNPUCmd) Help() string {
	return `Count the cycles of a network's backbone (exit heads left out) on the Verilated NPU without MACs,
beside the law, and the roofline: each layer the larger of its MACs at a full array and its tensors once
over the DRAM, a pool behind a convolution fused. The goal is roofline / 0.9.

Example: dse bench-npu --config zc706 --batch 1,2 --out out/bench-npu`
}

type npuRow struct {
	Network   string  `json:"network"`
	Board     string  `json:"board"`
	Bandwidth float64 `json:"bytes_per_cycle"`
	Batch     int     `json:"batch"`
	Cycles    int64   `json:"cycles"`
	Law       int64   `json:"law_cycles"`
	Roofline  int64   `json:"roofline_cycles"`
	Goal      int64   `json:"goal_cycles"` // roofline / 0.9
	Util      float64 `json:"mac_util"`
	Stalls    stalls  `json:"stalls"`
	BytesRead uint64  `json:"bytes_read"`
	Written   uint64  `json:"bytes_written"`
}

type benchNPUDoc struct {
	header
	Latency int      `json:"dram_latency_cycles"`
	Rows    []npuRow `json:"rows"`
}

func (c *benchNPUCmd) Run(e *env) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	doc := benchNPUDoc{header: newHeader("bench-npu", 1)}
	doc.Label = "simulated"
	for _, b := range c.Batch {
		if b < 1 || b > abi.BMax {
			return fmt.Errorf("--batch has %d, must be 1..%d", b, abi.BMax)
		}
	}
	for _, name := range c.Config {
		d, err := configs.Load(name)
		if err != nil {
			return err
		}
		bands := c.Bandwidth
		if len(bands) == 0 {
			bands = []float64{d.DRAM.BytesPerCycle}
		}
		doc.Latency = d.DRAM.LatencyCycles
		for _, bw := range bands {
			d.DRAM.BytesPerCycle = bw
			rows, err := c.design(ctx, e, d)
			if err != nil {
				return err
			}
			doc.Rows = append(doc.Rows, rows...)
		}
	}
	out := ""
	if c.Out != "" {
		if err := os.MkdirAll(c.Out, 0o755); err != nil {
			return err
		}
		out = filepath.Join(c.Out, "summary.json")
	}
	return e.write(doc, out)
}

func (c *benchNPUCmd) design(ctx context.Context, e *env, d configs.Design) (rows []npuRow, err error) {
	s := source{Network: c.Network, Config: d.Name, Seed: 1, Images: 1}
	b, err := s.compileFor(d)
	if err != nil {
		return nil, err
	}
	for _, span := range backbone(b) { // a head does not take over what the backbone keeps
		for i, entry := range b.FBCB[span[1]] {
			b.FBCB[span[1]][i] = mapping.Stay(entry, entry.KeepIn, mapping.Apart)
			if entry.KeepOut {
				b.FBCB[span[1]+1][i].KeepIn = false
			}
		}
	}
	drv, err := openStub(ctx, d)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, drv.Close()) }()
	if err := drv.Load(ctx, b); err != nil {
		return nil, err
	}
	for _, batch := range c.Batch {
		r := npuRow{Network: c.Network, Board: d.Board, Bandwidth: d.DRAM.BytesPerCycle, Batch: batch, Roofline: roofline(d, b, batch)}
		r.Goal = r.Roofline * 10 / 9
		var macs uint64
		for _, span := range backbone(b) {
			n, err := drv.Measure(ctx, b.Network.Name, span[0], span[1], batch)
			if err != nil {
				return nil, err
			}
			law, err := cost.Segment(d, b.Layers, b.FBCB, span[0], span[1], batch)
			if err != nil {
				return nil, err
			}
			r.Cycles += int64(n[abi.CntCyclesBusy])
			r.Law += law
			macs += n[abi.CntMACs]
			r.Stalls.Weights += n[abi.CntStallWeights]
			r.Stalls.Activations += n[abi.CntStallActivations]
			r.Stalls.Drain += n[abi.CntStallDrain]
			r.Stalls.Depth += n[abi.CntStallDepth]
			r.BytesRead += n[abi.CntBytesRead]
			r.Written += n[abi.CntBytesWritten]
		}
		r.Util = float64(macs) / float64(r.Cycles) / float64(d.MACs())
		rows = append(rows, r)
		if !e.json {
			verdict := "reached"
			if r.Cycles > r.Goal {
				verdict = "missed"
			}
			fmt.Fprintf(e.stdout, "%s on %s at %g bytes/cycle, B = %d: %d cycles (simulated), law %+.2f %%, roofline %d (x%.3f), goal %d %s, MACs busy %.1f %%, stalls: weights %d, activations %d, drain %d, depth %d\n",
				r.Network, d.Name, r.Bandwidth, batch, r.Cycles, 100*(float64(r.Law)/float64(r.Cycles)-1), r.Roofline,
				float64(r.Cycles)/float64(r.Roofline), r.Goal, verdict, 100*r.Util, r.Stalls.Weights, r.Stalls.Activations, r.Stalls.Drain, r.Stalls.Depth)
		}
	}
	return rows, nil
}

// head tells whether a layer belongs to an exit's head: what the zoo names so.
func head(b *bundle.Bundle, l int) bool { return strings.Contains(b.Names[l], "heads.") }

// backbone are the runs of layers that no head interrupts.
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

// roofline is the backbone's, in cycles.
func roofline(d configs.Design, b *bundle.Bundle, batch int) (sum int64) {
	bytes := func(h, w, c int) int64 { return 2 * int64(batch) * int64(h) * int64(w) * int64(c) }
	for l := range b.Layers {
		g := cost.GeomOf(&b.Layers[l])
		if head(b, l) || !g.GEMM() && l > 0 && cost.GeomOf(&b.Layers[l-1]).GEMM() {
			continue // a fused pool
		}
		moved := bytes(g.InH, g.InW, g.InC) + 2*int64(g.KH)*int64(g.KWC())*int64(g.OutC)
		out := g
		if next := l + 1; next < len(b.Layers) && !head(b, next) && !cost.GeomOf(&b.Layers[next]).GEMM() {
			out = cost.GeomOf(&b.Layers[next])
		}
		moved += bytes(out.OutH, out.OutW, out.OutC)
		if g.Residual {
			moved += bytes(g.OutH, g.OutW, g.OutC)
		}
		sum += max(int64(batch)*g.MACs()/int64(d.MACs()), int64(float64(moved)/d.DRAM.BytesPerCycle))
	}
	return sum
}
