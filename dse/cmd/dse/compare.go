package main

import (
	"errors"
	"fmt"
	"slices"
	"text/tabwriter"

	"github.com/sluice-npu/sluice/dse/cost"
	"github.com/sluice-npu/sluice/dse/counted"
	"github.com/sluice-npu/sluice/dse/lower"
	"github.com/sluice-npu/sluice/dse/mapping"
	"github.com/sluice-npu/sluice/dse/recipe"
	"github.com/sluice-npu/sluice/dse/resource"
	"github.com/sluice-npu/sluice/dse/search"
	"github.com/sluice-npu/sluice/host/cli"
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
)

type compareCmd struct {
	Network string `required:"" placeholder:"NAME|FILE.onnx" help:"Network of the zoo, or an ONNX file."`
	recipe.Import
	A        string `name:"a" required:"" placeholder:"NAME|FILE.yaml" help:"One design."`
	B        string `name:"b" required:"" placeholder:"NAME|FILE.yaml" help:"The other; the same one if only the mappings differ."`
	MapA     string `name:"mapping-a" default:"rtl" enum:"rtl,all,basic" help:"Mappings of the first."`
	MapB     string `name:"mapping-b" default:"rtl" enum:"rtl,all,basic" help:"Mappings of the other."`
	BoardA   string `name:"board-a" placeholder:"NAME|FILE.yaml" help:"Board of the first (default: what dse export wrote beside it, or the board of its name)."`
	BoardB   string `name:"board-b" placeholder:"NAME|FILE.yaml" help:"Board of the other."`
	Batch    int    `default:"1" help:"Samples of a start, 1 to 8."`
	Backbone bool   `help:"Leave the early exits out."`
	Seed     uint64 `default:"1" help:"Seed of weights that the network lacks; times do not depend on it."`
	Out      string `placeholder:"FILE.json" help:"Also write the figures to a file."`
}

type compareSide struct {
	K        string     `json:"k"`
	S        int        `json:"s"`
	BR       int        `json:"B_R"`
	Order    bool       `json:"order"`
	TileB    int        `json:"tile_b"`
	TileRows int        `json:"tile_rows"`
	KeepIn   bool       `json:"keep_in,omitempty"`  // the input is on chip
	KeepOut  bool       `json:"keep_out,omitempty"` // the output is kept on chip for the next layer
	OnChip   bool       `json:"on_chip,omitempty"`  // the output is not written to DRAM
	Cycles   int64      `json:"cycles"`
	Util     float64    `json:"util"`
	Bound    cost.Bound `json:"bound"`
}

type compareLayer struct {
	Name   string       `json:"name"`
	Bound  cost.Bound   `json:"bound"`  // limiting resource of A
	Util   float64      `json:"util"`   // utilisation of A
	Advice string       `json:"advice"` // which side is faster, and by how much
	A      *compareSide `json:"a"`      // nil if the design has no such layer
	B      *compareSide `json:"b"`
}

type compareDesign struct {
	Design    configs.Design     `json:"design"`
	Mapping   string             `json:"mapping"`
	Cycles    int64              `json:"cycles,omitempty"` // the values from here on are absent if Refused is set
	NS        int64              `json:"ns,omitempty"`
	GOPS      float64            `json:"gops,omitempty"`
	Util      float64            `json:"util,omitempty"`
	Band      *counted.Stated    `json:"cycles_band,omitempty"`
	Refused   string             `json:"refused,omitempty"`   // reason why the design cannot run the network
	Resources *resource.Estimate `json:"resources,omitempty"` // nil if the design names no board
}

type compareDoc struct {
	cli.Header
	Network    string         `json:"network"`
	Batch      int            `json:"batch"`
	A          compareDesign  `json:"a"`
	B          compareDesign  `json:"b"`
	Layers     []compareLayer `json:"layers"`
	Infeasible []string       `json:"infeasible"`
}

// load reads the design of one side. If the design's board is known, it also computes the resources of the design.
func (c *compareDesign) load(config, mapping, board string) error {
	d, err := configs.Load(config)
	if err != nil {
		return err
	}
	if err := d.Elaborates(); err != nil {
		return fmt.Errorf("%s cannot be built: %w", config, err)
	}
	*c = compareDesign{Design: d, Mapping: mapping}
	on, err := boardOf(config, d, board)
	if err != nil {
		return err
	}
	if on != nil {
		r := resource.Of(*on, d)
		c.Resources = &r
	}
	return nil
}

// Run compares two designs, or two sets of mappings.
func (c *compareCmd) Run(e *cli.Env) error {
	if c.Batch < 1 || c.Batch > abi.BMax {
		return usage("--batch is %d, must be 1..%d", c.Batch, abi.BMax)
	}
	t := target{Network: c.Network, Import: c.Import, Backbone: c.Backbone, Seed: c.Seed}
	for _, name := range []string{c.A, c.B} {
		d, err := configs.Load(name)
		if err != nil {
			return err
		}
		t.post = t.post || d.Post
	}
	w, err := t.workload()
	if err != nil {
		return err
	}
	doc := compareDoc{Header: newHeader("compare", c.Seed), Network: w.Name, Batch: c.Batch, Layers: []compareLayer{}, Infeasible: []string{}}
	for i, side := range []struct {
		config, mapping, board string
		to                     *compareDesign
	}{{c.A, c.MapA, c.BoardA, &doc.A}, {c.B, c.MapB, c.BoardB, &doc.B}} {
		if err := side.to.load(side.config, side.mapping, side.board); err != nil {
			return err
		}
		layers, err := c.side(w, side.to)
		switch {
		case errors.Is(err, mapping.ErrNoFit) || errors.Is(err, lower.ErrTooMany):
			doc.Infeasible = append(doc.Infeasible, fmt.Sprintf("%s: infeasible: %v", side.to.Design.Name, err))
			side.to.Cycles, side.to.Refused = 0, err.Error()
		case err != nil:
			return err
		default:
			doc.add(layers, i == 1)
		}
	}
	for i := range doc.Layers {
		doc.Layers[i].judge()
	}
	if err := e.Document(doc, c.Out, e.JSON); err != nil {
		return err
	}
	if !e.JSON {
		if err := c.print(e, &doc); err != nil {
			return err
		}
	}
	if len(doc.Infeasible) > 0 {
		for _, why := range doc.Infeasible {
			fmt.Fprintln(e.Stderr, "dse:", why)
		}
		return cli.Told(cli.Check)
	}
	return nil
}

// add adds the layers of one side. Layers with the same name on both sides are paired.
func (d *compareDoc) add(layers []compareLayer, b bool) {
	for _, l := range layers {
		n := slices.IndexFunc(d.Layers, func(x compareLayer) bool { return x.Name == l.Name })
		if n < 0 {
			n = len(d.Layers)
			d.Layers = append(d.Layers, compareLayer{Name: l.Name})
		}
		if b {
			d.Layers[n].B = l.A
		} else {
			d.Layers[n].A = l.A
		}
	}
}

// side evaluates a design and returns its layers as side A.
func (c *compareCmd) side(w *search.Workload, to *compareDesign) ([]compareLayer, error) {
	d := to.Design
	layers, err := w.Lower(d)
	if err != nil {
		return nil, err
	}
	to.Cycles = int64(w.Segments) * cost.Start(d)
	chosen, err := search.Choose(d, layers, c.Batch, mappings(to.Mapping))
	if err != nil {
		return nil, err
	}
	var out []compareLayer
	for i, l := range layers {
		x, t := chosen[i].Entry, chosen[i].Time
		to.Cycles += t.Total
		out = append(out, compareLayer{Name: l.Name, A: &compareSide{
			K: cost.K(x.K).String(), S: cost.Groups(x, c.Batch), BR: int(x.BR), Order: x.Order, TileB: int(x.TileB), TileRows: int(x.TileRows),
			KeepIn: x.KeepIn, KeepOut: x.KeepOut, OnChip: x.OnChip, Cycles: t.Total, Util: t.Utilisation(d), Bound: t.Bound,
		}})
	}
	to.NS = cost.Nanoseconds(d, to.Cycles)
	to.GOPS = search.GOPSOf(d, w.MACs, c.Batch, to.Cycles)
	to.Util = float64(w.MACs) * float64(c.Batch) / (float64(to.Cycles) * float64(d.MACs()))
	called := c.Called(c.Network)
	if c.Backbone {
		called += " without exits"
	}
	band, err := counted.Of(d, called, recipe.Own(c.Network) || to.Mapping == "basic") // basic mappings were not counted
	to.Band = &band
	return out, err
}

func (l *compareLayer) judge() {
	switch {
	case l.A == nil:
		l.Bound, l.Util, l.Advice = l.B.Bound, l.B.Util, "only in B"
		return
	case l.B == nil:
		l.Bound, l.Util, l.Advice = l.A.Bound, l.A.Util, "only in A"
		return
	}
	l.Bound, l.Util = l.A.Bound, l.A.Util
	switch a, b := float64(l.A.Cycles), float64(l.B.Cycles); {
	case a == b:
		l.Advice = "equal"
	case a > b:
		l.Advice = fmt.Sprintf("B takes %.1f %% fewer cycles", 100*(1-b/a))
	default:
		l.Advice = fmt.Sprintf("A takes %.1f %% fewer cycles", 100*(1-a/b))
	}
}

// onChip describes the tensors of a layer that stay on chip.
func onChip(s *compareSide) string {
	switch {
	case s.KeepIn && s.KeepOut:
		return "in, out"
	case s.KeepIn:
		return "in"
	case s.KeepOut:
		return "out"
	}
	return "-"
}

func (c *compareCmd) print(e *cli.Env, doc *compareDoc) error {
	w := tabwriter.NewWriter(e.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "layer\tA: k\ts\ttile\ton chip\tcycles\tutil\tbound\tB: k\ts\ttile\ton chip\tcycles\tutil\tbound\t")
	text := func(s *compareSide) string {
		if s == nil {
			return "-\t-\t-\t-\t-\t-\t-"
		}
		return fmt.Sprintf("%s\t%d\t%dx%d\t%s\t%d\t%.3f\t%s", s.K, s.S, s.TileB, s.TileRows, onChip(s), s.Cycles, s.Util, s.Bound)
	}
	for _, l := range doc.Layers {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", l.Name, text(l.A), text(l.B), l.Advice)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, s := range []struct {
		name string
		d    *compareDesign
	}{{"A", &doc.A}, {"B", &doc.B}} {
		d := s.d.Design
		fmt.Fprintf(e.Stdout, "%s: %s <%d, %d, %d>, mappings %s, batch %d: ", s.name, d.Name, d.TR, d.TP, d.TC, s.d.Mapping, doc.Batch)
		if s.d.Refused != "" {
			fmt.Fprintf(e.Stdout, "does not run: %s\n", s.d.Refused)
		} else {
			fmt.Fprintf(e.Stdout, "%d cycles, %.3f ms, %.1f frames/s, %.1f GOP/s, %.3f of peak (estimated)\n   cycles: %v\n",
				s.d.Cycles, float64(s.d.NS)/1e6, framesPerSecond(d, doc.Batch, s.d.Cycles), s.d.GOPS, s.d.Util, s.d.Band)
		}
		if r := s.d.Resources; r != nil {
			fmt.Fprintf(e.Stdout, "   %d DSP, %.1f BRAM36, %d URAM, LUT %v, FF %v (estimated)\n", r.DSP, r.BRAM36, r.URAM, r.LUT, r.FF)
		}
	}
	return nil
}
