package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/sluice-npu/sluice/boards"
	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/dse/cost"
	"github.com/sluice-npu/sluice/dse/counted"
	"github.com/sluice-npu/sluice/dse/evaluate"
	"github.com/sluice-npu/sluice/dse/machine"
	"github.com/sluice-npu/sluice/dse/mapping"
	"github.com/sluice-npu/sluice/dse/quant"
	"github.com/sluice-npu/sluice/dse/recipe"
	"github.com/sluice-npu/sluice/dse/resource"
	"github.com/sluice-npu/sluice/dse/search"
	"github.com/sluice-npu/sluice/host/cli"
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
)

type explainCmd struct {
	source
	Batch   int      `default:"1" help:"Samples of a start, 1 to 8."`
	Layer   string   `placeholder:"NAME" help:"With --trace, the layer."`
	Trace   bool     `help:"Print what each unit of the RTL does in one layer by the machine (dse/machine), cycle by cycle, rather than all layers."`
	Alone   bool     `help:"With --trace, in a start of its own, as dse validate counts layers."`
	Machine bool     `help:"Also step through the RTL's registers (dse/machine): what each layer takes in its start and waits for. Some 0.3 s a million cycles."`
	HLS     bool     `name:"hls" help:"Also estimate the HLS kernel's cycles, stage by stage, beside the RTL's law."`
	Csynth  []string `name:"csynth" placeholder:"FILE.xml" help:"Reports of the vendor's synthesis (csynth.xml) whose II and depths take the place of the estimate's."`
	Board   string   `placeholder:"NAME|FILE.yaml" help:"Board that the configuration is for (default: what dse export wrote beside it, or the board of its name)."`
	Out     string   `placeholder:"FILE.json" help:"Also write the figures to a file."`
}

type explainLayer struct {
	Name     string         `json:"name"`
	Op       string         `json:"op"`
	Post     string         `json:"post,omitempty"` // after the sum: "product", "product with a pixel" or "curve"; "copy": a pool of one pixel
	R        int            `json:"R"`              // number of output pixels of one sample
	P        int            `json:"P"`
	C        int            `json:"C"`
	K        string         `json:"k"`
	S        int            `json:"s"`
	BR       int            `json:"B_R"`
	TileB    int            `json:"tile_b"`
	TileRows int            `json:"tile_rows"`
	Bound    cost.Bound     `json:"bound"`
	Util     float64        `json:"util"`
	Advice   string         `json:"advice"`
	Time     cost.Breakdown `json:"time"`
	Machine  *machine.Spent `json:"machine,omitempty"`
}

type explainDoc struct {
	cli.Header
	Network    string         `json:"network"`
	Design     string         `json:"design"`
	Batch      int            `json:"batch"`
	Calibrated bool           `json:"calibrated"`
	Cycles     int64          `json:"cycles"` // cycles of all segments, with one start per segment
	NS         int64          `json:"ns"`     // time of a batch, by Cycles
	Frames     float64        `json:"frames_per_s"`
	Machine    int64          `json:"machine_cycles,omitzero"` // the same cycles by the machine
	Band       counted.Stated `json:"cycles_band"`
	Util       float64        `json:"util"`       // used share of the array, including zeros of depthwise layers
	Peak       float64        `json:"peak_share"` // the network's own MACs as a share of the array's capacity, as in dse compare and dse sweep
	Layers     []explainLayer `json:"layers"`
	Infeasible []string       `json:"infeasible"`
	Kept       []quant.Kept   `json:"bits_kept"`      // on the images used for compiling, by layer of the network
	Int8       *evaluate.Int8 `json:"int8,omitempty"` // for int8, instead of bits_kept
	HLS        *hlsDoc        `json:"hls,omitempty"`
}

// advice contains general advice for each limiting resource.
var advice = map[cost.Bound]string{
	cost.BoundCompute:     "the array is busy; neither a larger T_P nor a larger T_C would help",
	cost.BoundDepth:       "passes are shorter than a chain: k = 1/2",
	cost.BoundLoad:        "PEs wait for their weights: a larger W_LOAD",
	cost.BoundDrain:       "accumulators drain slower than they fill: a larger DRAIN",
	cost.BoundWeights:     "weights fill the DRAM: larger row tiles (T_R, activation buffer)",
	cost.BoundActivations: "activations fill the DRAM: larger tiles or tensors kept on chip",
	cost.BoundWrite:       "results fill the DRAM",
	cost.BoundPool:        "the pool unit is busy",
	cost.BoundDepthwise:   "the depthwise unit is busy: a T_P beyond the next power of two has twice the lanes",
}

// advise describes the cheapest change that makes a layer faster, or returns general advice if no change does.
func advise(board *boards.Board, d configs.Design, g cost.Geom, batch int, t cost.Breakdown) string {
	if a := search.Advise(board, d, g, batch, mapping.RTL()); a != "" {
		return a
	}
	if 2*(t.Fill+t.Tail+t.Answer) > t.Total {
		return "mostly waiting for the layer before: fuse it"
	}
	a := advice[t.Bound]
	switch t.Bound {
	case cost.BoundCompute:
		if larger := search.Larger(d, g, batch); larger != "" {
			a = "the array is busy: a larger " + larger + " would help"
		}
	case cost.BoundDepth, cost.BoundLoad, cost.BoundWeights:
		if batch < abi.BMax {
			a += ", or a larger batch"
		}
	}
	return a
}

// onDiagonal reports whether a layer on the array is depthwise: output channel i reads only input channel i.
func onDiagonal(b *bundle.Bundle, i int) bool {
	l := &b.Layers[i]
	if l.Op != abi.OpGEMM || l.InC != l.OutC || l.InC == 1 {
		return false
	}
	weights, err := b.LayerWeights(i, -1)
	in, each := int(l.InC), int(l.KH)*int(l.KWC)
	for j, w := range weights {
		if w != 0 && j%in != j/each {
			return false
		}
	}
	return err == nil
}

// feasible returns the board of a design. It also returns the reasons why the design cannot be built: limits of the RTL
// or of the board.
func feasible(config string, d configs.Design, board string) (*boards.Board, []string, error) {
	b, err := boardOf(config, d, board)
	if err != nil {
		return nil, nil, err
	}
	why := []string{}
	note := func(err error) {
		if err != nil {
			for _, line := range strings.Split(err.Error(), "\n") {
				why = append(why, d.Name+": infeasible: "+line)
			}
		}
	}
	if b != nil {
		note(resource.Of(*b, d).Check(*b))
	}
	return b, why, nil
}

// Run prints one line per layer.
func (c *explainCmd) Run(e *cli.Env) error {
	if err := c.check(e); err != nil {
		return err
	}
	doc := explainDoc{
		Header: newHeader("explain", c.Seed), Network: c.Network, Design: c.Config, Batch: c.Batch,
		Layers: []explainLayer{}, Infeasible: []string{},
	}
	b, loss, eight, err := c.measured()
	if errors.Is(err, mapping.ErrNoFit) {
		doc.Infeasible = append(doc.Infeasible, err.Error())
		if err := e.Document(doc, c.Out, e.JSON); err != nil {
			return err
		}
		fmt.Fprintln(e.Stderr, "dse:", err)
		return cli.Told(cli.Check)
	}
	if err != nil {
		return err
	}
	if c.Trace {
		return c.trace(e.Stdout, b)
	}
	doc.Int8 = eight
	warning := ""
	if loss != nil {
		doc.Kept, warning = loss.Layers, loss.Warning()
	}
	if err := c.fill(&doc, b, e.Stderr); err != nil {
		return err
	}
	if err := e.Document(doc, c.Out, e.JSON); err != nil || e.JSON {
		return err
	}
	return doc.print(e.Stdout, warning, !doc.Calibrated)
}

// fill writes the explanation of the bundle into the document. It writes warnings about the HLS estimates to `warn`.
func (c *explainCmd) fill(doc *explainDoc, b *bundle.Bundle, warn io.Writer) error {
	doc.Network, doc.Design = b.Network.Name, b.Design.Name
	from, err := recipe.Of(b)
	if err != nil {
		return err
	}
	doc.Calibrated = !from.Missing
	board, why, err := feasible(c.Config, b.Design, c.Board)
	if err != nil {
		return err
	}
	doc.Infeasible = append(doc.Infeasible, why...)
	if err := doc.layers(b, board); err != nil {
		return err
	}
	if doc.Band, err = counted.Of(b.Design, c.Called(c.Network), recipe.Own(c.Network)); err != nil {
		return err
	}
	if c.Machine {
		if err := doc.step(b); err != nil {
			return err
		}
	}
	if !c.HLS && len(c.Csynth) == 0 {
		return nil
	}
	if doc.HLS, err = c.estimate(b); err != nil {
		return err
	}
	for _, doubt := range doc.HLS.Doubts {
		fmt.Fprintln(warn, "dse: warning: "+doubt)
	}
	return nil
}

// check returns an error for flags that exclude each other.
func (c *explainCmd) check(e *cli.Env) error {
	if c.Batch < 1 || c.Batch > abi.BMax {
		return usage("--batch is %d, must be 1..%d", c.Batch, abi.BMax)
	}
	if c.Trace != (c.Layer != "") {
		return usage("--trace and --layer go together")
	}
	if c.Alone && !c.Trace {
		return usage("--alone is for --trace")
	}
	if c.Trace && (e.JSON || c.HLS || c.Machine || len(c.Csynth) > 0 || c.Out != "") {
		return usage("--trace prints text alone: --json, --hls, --csynth, --machine and --out do not go with it")
	}
	return nil
}

// trace prints the events of one layer. It simulates a start with the layer's segment, or with only this layer
// (--alone).
func (c *explainCmd) trace(to io.Writer, b *bundle.Bundle) error {
	for _, x := range b.Network.Exits {
		i := slices.Index(b.Names[x.First:x.Last+1], c.Layer)
		if i < 0 {
			continue
		}
		layers, err := machine.Of(b.Layers, b.FBCB, x.First, x.Last, c.Batch)
		if err != nil {
			return err
		}
		if c.Alone {
			layers, i = layers[i:i+1], 0
			layers[0].Entry = mapping.Stay(layers[0].Entry, false, mapping.Apart)
		}
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
		defer stop()
		events, r, err := machine.Trace(ctx, b.Design, layers, c.Batch, i)
		if err != nil {
			return err
		}
		where := "alone"
		if !c.Alone {
			begins := int64(0)
			for _, spent := range r.Layers[:i] {
				begins += spent.Cycles
			}
			where = fmt.Sprintf("layer %d of the %d of its start, begins %d cycles behind that", i+1, len(layers), begins)
		}
		g, entry := layers[i].Geom, layers[i].Entry
		fmt.Fprintf(to, "%s on %s, %s, takes %d cycles\n", c.Layer, b.Design.Name, where, r.Layers[i].Cycles)
		fmt.Fprintf(to, "%s %dx%d/%d, padding %d x %d, %d x %d x %d to %d x %d x %d, %s%s\n", strings.ToLower(g.Op.String()), g.KH, g.KW, g.SH, g.PadT, g.PadL, g.InH, g.InW, g.InC, g.OutH, g.OutW, g.OutC, entryText(entry, c.Batch), besides(b.Design, &layers[i]))
		w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
		for _, x := range events {
			fmt.Fprintf(w, "%d\t%s\t%s\n", x.At, x.Unit, x.What)
		}
		return w.Flush()
	}
	return usage("--layer %q: the network has %s", c.Layer, strings.Join(b.Names, ", "))
}

// besides describes special properties of a layer: gaps between pixels or rows, a residual, operations after the sum.
func besides(d configs.Design, l *machine.Layer) (text string) {
	if l.InPix != l.InC {
		text += fmt.Sprintf(", an input pixel every %d values", l.InPix)
	}
	if row := l.RowBytes / d.ElemBytes(); row > l.InW*l.InPix {
		text += fmt.Sprintf(", an input row every %d", row)
	}
	if l.OutPix != l.OutC {
		text += fmt.Sprintf(", an output pixel every %d", l.OutPix)
	}
	if l.Residual && !l.Product {
		text += ", residual"
	}
	if p := post(l.Geom); p != "" {
		text += ", " + p
	}
	return text
}

// layers adds to the document each layer of the bundle with its limiting resource, and then the sums.
func (doc *explainDoc) layers(b *bundle.Bundle, board *boards.Board) error {
	var macs, own int64 // MACs that the array performs; MACs of the network
	var times []cost.Breakdown
	for _, x := range b.Network.Exits {
		t, err := cost.Times(b.Design, b.Layers, b.FBCB, x.First, x.Last, doc.Batch)
		if err != nil {
			return err
		}
		times = append(times, t...)
		doc.Cycles += cost.Start(b.Design)
		own += x.MACs * int64(doc.Batch)
	}
	for i, t := range times {
		g, entry := cost.GeomOf(&b.Layers[i]), b.FBCB[i][doc.Batch-1]
		l := explainLayer{
			Name: b.Names[i], Op: g.Op.String(), Post: post(g), R: g.OutH * g.OutW, P: g.P(), C: g.OutC,
			K: cost.K(entry.K).String(), S: cost.Groups(entry, doc.Batch), BR: int(entry.BR),
			TileB: int(entry.TileB), TileRows: int(entry.TileRows),
			Bound: t.Bound, Util: t.Utilisation(b.Design), Time: t,
		}
		if onDiagonal(b, i) {
			l.Advice = search.AdviseUnit(board, b.Design, g, doc.Batch)
		}
		if l.Advice == "" {
			l.Advice = advise(board, b.Design, g, doc.Batch, t)
		}
		if g.GEMM() {
			macs += t.MACs
		} else {
			l.Util = 0 // Util is the utilisation of the array
		}
		doc.Layers = append(doc.Layers, l)
		doc.Cycles += t.Total
	}
	doc.NS, doc.Frames = cost.Nanoseconds(b.Design, doc.Cycles), framesPerSecond(b.Design, doc.Batch, doc.Cycles)
	doc.Util = float64(macs) / (float64(doc.Cycles) * float64(b.Design.MACs()))
	doc.Peak = float64(own) / (float64(doc.Cycles) * float64(b.Design.MACs()))
	return nil
}

// step simulates every segment with package machine.
func (doc *explainDoc) step(b *bundle.Bundle) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	for _, x := range b.Network.Exits {
		r, err := machine.Segment(ctx, b.Design, b.Layers, b.FBCB, x.First, x.Last, doc.Batch)
		if err != nil {
			return err
		}
		doc.Machine += r.Cycles
		for i := range r.Layers {
			doc.Layers[x.First+i].Machine = &r.Layers[i]
		}
	}
	return nil
}

// printSteps prints the results of package machine, one line per layer.
func (doc *explainDoc) printSteps(to io.Writer) error {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "layer\tlaw\tmachine\tweights\tactivations\tdrain\tdepth")
	for _, l := range doc.Layers {
		s := &l.Machine.Stalls
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\t%d\n", l.Name, l.Time.Total, l.Machine.Cycles, s.Weights, s.Activations, s.Drain, s.Depth)
	}
	fmt.Fprintf(w, "all starts\t%d\t%d\n", doc.Cycles, doc.Machine)
	return w.Flush()
}

// post describes the operation of a layer after its sum. It returns "" if there is no operation or only a residual. A
// pool with a window of one pixel is a copy.
func post(g cost.Geom) string {
	switch {
	case g.Op == abi.OpMaxPool && g.KH == 1 && g.KW == 1:
		return "copy"
	case g.Broadcast():
		return "product with a pixel"
	case g.Product:
		return "product"
	case g.Curve:
		return "curve"
	}
	return ""
}

func (doc *explainDoc) print(to io.Writer, warning string, uncalibrated bool) error {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "layer\top\tR\tP\tC\tk\ts\ttile\tcycles\tutil\tbound\tadvice")
	for _, l := range doc.Layers {
		op := l.Op
		if l.Post != "" {
			op += ", " + l.Post
		}
		k, util := l.K, fmt.Sprintf("%.3f", l.Util)
		if l.Op != abi.OpGEMM.String() { // the layer does not run on the array
			k, util = "-", "-"
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%s\t%d\t%dx%d\t%d\t%s\t%s\t%s\n", l.Name, op, l.R, l.P, l.C, k, l.S,
			l.TileB, l.TileRows, l.Time.Total, util, l.Bound, l.Advice)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, line := range doc.Infeasible {
		fmt.Fprintln(to, line)
	}
	fmt.Fprintf(to, "%s on %s, batch %d: %d cycles, %.3f ms, %.1f frames/s, %.3f of peak, array busy %.3f (estimated by the law: %s)\n",
		doc.Network, doc.Design, doc.Batch, doc.Cycles, float64(doc.NS)/1e6, doc.Frames, doc.Peak, doc.Util, doc.Band)
	if doc.Machine > 0 {
		if err := doc.printSteps(to); err != nil {
			return err
		}
	}
	if doc.Int8 != nil {
		printLayers(to, doc.Int8)
	}
	if warning != "" {
		fmt.Fprintf(to, "%s: %s\n", doc.Network, warning)
	}
	if uncalibrated {
		fmt.Fprintf(to, "%s is %s (its cycles hardly depend on them)\n", doc.Network, recipe.Warning)
	}
	if doc.HLS != nil {
		return doc.HLS.print(to, doc.Layers)
	}
	return nil
}
