package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/sluice-npu/sluice/dse/cost"
	"github.com/sluice-npu/sluice/dse/resource"
	"github.com/sluice-npu/sluice/dse/search"
	"github.com/sluice-npu/sluice/host/cli"
	"github.com/sluice-npu/sluice/hw/configs"
)

type ablateCmd struct {
	target
	Config string `placeholder:"NAME|FILE.yaml" help:"Design (default: the board's reference); one that does not fit the board is refused."`
	Formed bool   `help:"Paper's law: windows formed on the way from the DRAM."`
	Own    bool   `help:"Paper's law: each scheme on its own best design at B = 8, as in the paper's figure 10, in place of the published one."`
	Out    string `placeholder:"FILE.json" help:"Also write the figures to a file."`
}

type ablateDoc struct {
	cli.Header
	Network  string               `json:"network"`
	Board    string               `json:"board"`
	Design   configs.Design       `json:"design"`
	MACs     []int64              `json:"macs_by_segment"`
	Rows     []search.AblationRow `json:"rows"`
	PaperLaw string               `json:"paper_law"`
}

// Run prints GOP/s by scheme, batch size and segment, under the hardware's law of cycles and the paper's law.
func (c *ablateCmd) Run(e *cli.Env) error {
	in, err := c.load()
	if err != nil {
		return err
	}
	if pub := in.grid.Board.Published; len(pub) == 0 && (c.Formed || c.Own) {
		return usage("--formed and --own are about the paper's law, which knows no design for the board %s: its file has no published rows", in.grid.Board.Name)
	}
	d, err := c.design(in)
	if err != nil {
		return err
	}
	doc := ablateDoc{
		Header: newHeader("ablate", c.Seed), Network: in.w.Name, Board: in.grid.Board.Name, Design: d, MACs: in.w.SegMACs,
		PaperLaw: "analytical, without the hardware's memories, fills and drains",
	}
	if doc.Rows, err = search.Ablate(in.w, d, in.grid.Mapping); err != nil {
		return err
	}
	if pub := in.grid.Board.Published; len(pub) > 0 {
		rows, err := c.paper(in, d)
		if err != nil {
			return err
		}
		doc.Rows = append(doc.Rows, rows...)
	}
	if err := e.Document(doc, c.Out, e.JSON); err != nil || e.JSON {
		return err
	}
	return doc.print(e.Stdout)
}

func (doc *ablateDoc) print(to io.Writer) error {
	fmt.Fprintf(to, "%s on %s at %g bytes/cycle, GOP/s by batch (estimated)\n\n", doc.Network, doc.Board, doc.Design.DRAM.BytesPerCycle)
	segments := len(doc.MACs)
	if segments == 1 {
		segments = 0
	}
	for s := -1; s < segments; s++ {
		title := "whole network"
		if s >= 0 {
			title = fmt.Sprintf("subnet %d, %.2f G MACs", s+1, float64(doc.MACs[s])/1e9)
		}
		w := tabwriter.NewWriter(to, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintf(w, "%s\tdesign\tB=1\t2\t3\t4\t5\t6\t7\t8\t%% of peak at 8\t\n", title)
		for _, r := range doc.Rows {
			v := r.GOPS
			if s >= 0 {
				v = r.Segments[s]
			}
			fmt.Fprintf(w, "%s, %s law\t<%d, %d, %d>\t", r.Scheme, r.Law, r.Design[0], r.Design[1], r.Design[2])
			for _, x := range v {
				fmt.Fprintf(w, "%.1f\t", x)
			}
			fmt.Fprintf(w, "%.1f\t\n", 100*v[7]/r.Peak)
		}
		if err := w.Flush(); err != nil {
			return err
		}
		fmt.Fprintln(to)
	}
	return nil
}

// design returns the design of --config, or the board's reference design.
func (c *ablateCmd) design(in *given) (d configs.Design, err error) {
	d = in.grid.Template
	if c.Config == "" && c.Template == "" && d.Name != in.grid.Board.Name {
		return d, fmt.Errorf("--config is needed: the board %s has no reference design; expected one that dse sweep found and dse export wrote", in.grid.Board.Name)
	}
	if c.Config != "" {
		if d, err = configs.Load(c.Config); err != nil {
			return d, err
		}
		if c.BytesPerCycle != 0 {
			d.DRAM.BytesPerCycle = c.BytesPerCycle
		}
	}
	if err := resource.Of(in.grid.Board, d).Check(in.grid.Board); err != nil {
		how := "the board's reference design"
		if c.Config != "" {
			how = "--config " + c.Config + " is of another board"
		}
		return d, fmt.Errorf("design %s <%d, %d, %d> on %s (%s): %w", d.Name, d.TR, d.TP, d.TC, in.grid.Board.Name, how, err)
	}
	return d, nil
}

// paper evaluates the paper's law on its best designs (--own) or on the board's published design for the network.
func (c *ablateCmd) paper(in *given, d configs.Design) ([]search.AblationRow, error) {
	p, err := search.NewPaperSpace(in.w, in.grid.Board, in.grid.Template, search.PaperOptions{BytesPerCycle: d.DRAM.BytesPerCycle, Formed: c.Formed})
	if err != nil {
		return nil, err
	}
	x := in.grid.Board.Published[0]
	for _, k := range in.grid.Board.Published {
		if k.Network == in.w.Name {
			x = k
		}
	}
	if c.Own {
		return p.AblateOwn()
	}
	return p.Ablate(cost.PaperPoint{TR: x.TR, TP: x.TP, TC: x.TC})
}
