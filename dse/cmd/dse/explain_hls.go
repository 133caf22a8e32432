package main

import (
	"fmt"
	"io"
	"os"
	"text/tabwriter"

	"github.com/sluice-npu/sluice/boards"
	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/hls/estimate"
)

// hlsDoc contains the estimate for the HLS kernel, layer by layer.
type hlsDoc struct {
	Label  string                   `json:"label"`
	Loops  map[string]estimate.Loop `json:"loops"`
	Layers []estimate.Layer         `json:"layers"`
	Cycles int64                    `json:"cycles"`
	// Reports lists the synthesis reports. Doubts lists their differences from the configuration.
	Reports []estimate.Report `json:"reports,omitempty"`
	Doubts  []string          `json:"doubts,omitempty"`
}

// estimate estimates every layer of a bundle.
func (c *explainCmd) estimate(b *bundle.Bundle) (*hlsDoc, error) {
	m, err := estimate.New(b.Design)
	if err != nil {
		return nil, err
	}
	doc := &hlsDoc{Label: "estimated", Loops: m.Loops}
	for _, name := range c.Csynth {
		f, err := os.Open(name)
		if err != nil {
			return nil, fmt.Errorf("report of synthesis: %w", err)
		}
		_, err = m.Read(name, f)
		f.Close()
		if err != nil {
			return nil, err
		}
	}
	part := ""
	if b.Design.Board != "" {
		if board, err := boards.Load(b.Design.Board); err == nil { // a missing board file is not an error
			part = board.Part
		}
	}
	doc.Reports = m.Reports
	for i := range m.Reports {
		doc.Doubts = append(doc.Doubts, m.Reports[i].Doubts(b.Design, part)...)
	}
	for i := range b.Layers {
		l := m.Layer(&b.Layers[i], b.FBCB[i][c.Batch-1], c.Batch)
		doc.Layers = append(doc.Layers, l)
		doc.Cycles += l.Cycles
	}
	return doc, nil
}

// print writes a line per layer: the cycles of each stage alone, the layer's cycles, and the law's cycles for the RTL.
func (d *hlsDoc) print(w io.Writer, layers []explainLayer) error {
	reported := 0
	for _, l := range d.Loops {
		if l.Reported {
			reported++
		}
	}
	fmt.Fprintf(w, "\nthe HLS kernel, estimated from its pragmas' II and trip counts; %d of %d loops as a report of synthesis has them\n", reported, len(d.Loops))
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "layer\tRTL's law\tHLS\tbound\tDRAM\tport")
	for _, s := range estimate.Stages {
		fmt.Fprintf(t, "\t%s", s)
	}
	fmt.Fprintln(t)
	for i, l := range d.Layers {
		fmt.Fprintf(t, "%s\t%d\t%d\t%s\t%d\t%d", layers[i].Name, layers[i].Time.Total, l.Cycles, l.Bound, l.DRAM, l.Port)
		for _, s := range estimate.Stages {
			fmt.Fprintf(t, "\t%d", l.Stages[s])
		}
		fmt.Fprintln(t)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "%d cycles (estimated)\n", d.Cycles)
	return err
}
