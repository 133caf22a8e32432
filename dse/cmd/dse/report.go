package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/sluice-npu/sluice/dse/cost"
	"github.com/sluice-npu/sluice/dse/counted"
	"github.com/sluice-npu/sluice/dse/recipe"
	"github.com/sluice-npu/sluice/dse/report"
	"github.com/sluice-npu/sluice/dse/resource"
	"github.com/sluice-npu/sluice/dse/search"
	"github.com/sluice-npu/sluice/host/cli"
)

type reportCmd struct {
	target
	spare
	Objective string    `default:"gops" enum:"gops,latency,gops-per-dsp" help:"What is best."`
	Weights   []float64 `objective:"gops,gops-per-dsp" placeholder:"W" help:"w_b of B = 1..8, eight numbers (default: all 1)."`
	Workers   int       `default:"0" help:"Workers; 0: one a processor."`
	Out       string    `required:"" placeholder:"DIR" help:"Folder for report.html, the SVG files and report.json."`
}

type reportLayer struct {
	Name   string     `json:"name"`
	Bound  cost.Bound `json:"bound"`
	Util   float64    `json:"util"`
	Advice string     `json:"advice"`
}

type reportDoc struct {
	cli.Header
	Files      []string      `json:"files"`
	Layers     []reportLayer `json:"layers"` // at B = 1
	Infeasible []string      `json:"infeasible"`
	Data       *report.Data  `json:"data"`
}

// Run searches the space and draws the results.
func (c *reportCmd) Run(e *cli.Env) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := e.Unread(cli.Choice{Tag: "objective", Chosen: c.Objective}); err != nil {
		return err
	}
	weights, err := weightsOf(c.Weights)
	if err != nil {
		return err
	}
	in, err := c.load()
	if err != nil {
		return err
	}
	in.grid.Budget.Margin = c.share(in.grid.Board)
	if err := in.grid.Check(); err != nil {
		return err
	}
	if err := os.MkdirAll(c.Out, 0o755); err != nil { // before the search, because the search takes long
		return err
	}
	progress, finish := bar(e, "report")
	r, err := search.Sweep(ctx, in.w, in.grid, search.Options{
		Objective: search.Objective(c.Objective), Weights: weights, Workers: c.Workers, References: references(in), Progress: progress,
	})
	finish()
	if err != nil {
		return err
	}
	doc := reportDoc{Header: newHeader("report", c.Seed), Layers: []reportLayer{}, Infeasible: []string{}}
	d, err := c.data(in, r, doc.Version)
	if err != nil {
		return err
	}
	doc.Data = d
	for _, l := range d.Layers {
		t := l.At[0].Time
		doc.Layers = append(doc.Layers, reportLayer{l.Name, t.Bound, l.At[0].Util, advice[t.Bound]})
	}
	for _, k := range r.Ranks {
		if k.Infeasible != "" {
			doc.Infeasible = append(doc.Infeasible, k.Design.Name+": infeasible: "+k.Infeasible)
		}
	}
	if doc.Files, err = c.draw(d); err != nil {
		return err
	}
	if err := e.Document(doc, filepath.Join(c.Out, "report.json"), e.JSON); err != nil || e.JSON {
		return err
	}
	for _, f := range doc.Files {
		fmt.Fprintln(e.Stdout, f)
	}
	fmt.Fprintf(e.Stdout, "cycles of the best design: %v\n", d.Band)
	return nil
}

// draw writes the page and its charts, and returns their paths.
func (c *reportCmd) draw(d *report.Data) (paths []string, err error) {
	files, err := report.SVGs(d)
	if err != nil {
		return nil, err
	}
	files["report.html"] = func(w io.Writer) error { return report.HTML(w, d) }
	for name, draw := range files {
		path := filepath.Join(c.Out, name)
		if err := cli.WriteFile(path, draw); err != nil {
			return nil, err
		}
		paths = append(paths, path)
	}
	slices.Sort(paths)
	return paths, nil
}

func (c *reportCmd) data(in *given, r *search.Result, version string) (*report.Data, error) {
	d := r.Best.Design
	est := resource.Of(in.grid.Board, d)
	x := &report.Data{
		Title: fmt.Sprintf("%s on %s: design space", in.w.Name, in.grid.Board.Name), Label: "estimated", Version: version,
		Network: in.w.Name, Board: in.grid.Board.Name, Objective: c.Objective, Grid: r.Grid, Designs: r.Designs,
		Refused: total(r.Refused), Unmapped: r.Unmapped, Space: r.Space, Evaluated: r.Evaluated, Searched: r.Searched,
		Design: d, Resources: est, Used: est.Utilisation(in.grid.Board), Peak: peakGOPS(d),
		Bandwidth: d.DRAM.BytesPerCycle * d.ClockMHz / 1000,
	}
	x.Points, x.Best = report.Dots(r)
	for _, k := range r.Ranks {
		name := fmt.Sprintf("%s <%d, %d, %d>", k.Design.Name, k.Design.TR, k.Design.TP, k.Design.TC)
		text := fmt.Sprintf("rank %d of %d, %s", k.Rank, k.Of, valueText(c.Objective, k.Value))
		if k.Rank == 0 {
			text = "infeasible: " + strings.ReplaceAll(k.Infeasible, "\n", "; ")
		}
		x.Ranks = append(x.Ranks, report.RankRow{Name: name, Text: text})
	}
	var err error
	if x.Band, err = counted.Of(d, c.Network, recipe.Own(c.Network)); err != nil {
		return nil, err
	}
	if x.Layers, err = report.Layers(in.w, d, in.grid.Mapping); err != nil {
		return nil, err
	}
	if x.Ablation, err = search.Ablate(in.w, d, in.grid.Mapping); err != nil {
		return nil, err
	}
	if pub := in.grid.Board.Published; len(pub) > 0 {
		p, err := search.NewPaperSpace(in.w, in.grid.Board, in.grid.Template, search.PaperOptions{BytesPerCycle: d.DRAM.BytesPerCycle})
		if err != nil {
			return nil, err
		}
		paper, err := p.Ablate(cost.PaperPoint{TR: pub[0].TR, TP: pub[0].TP, TC: pub[0].TC})
		if err != nil {
			return nil, err
		}
		x.Ablation = append(x.Ablation, paper...)
	}
	return x, nil
}
