package main

import (
	"fmt"

	"github.com/sluice-npu/sluice/dse/bundle"
)

type compileCmd struct {
	source
	Out string `required:"" placeholder:"FILE" help:"Bundle to write; the figures go to FILE.json."`
}

type compileDoc struct {
	header
	Out string `json:"out"`
	bundle.Summary
}

// Run compiles a network and writes its bundle.
func (c *compileCmd) Run(e *env) error {
	b, err := c.compile()
	if err != nil {
		return err
	}
	if err := bundle.WriteFile(c.Out, b); err != nil {
		return err
	}
	s, err := b.Summarize()
	if err != nil {
		return err
	}
	if err := e.write(compileDoc{newHeader("compile", c.Seed), c.Out, s}, c.Out+".json"); err != nil {
		return err
	}
	if e.json {
		return nil
	}
	fmt.Fprintf(e.stdout, "%s: %s on %s <%d, %d, %d>, bundle %s, ABI %s\n", c.Out, s.Network, s.Design, s.TR, s.TP, s.TC, s.BundleHash, s.ABIHash)
	fmt.Fprintf(e.stdout, "%d layers, %.3f M MACs, %d bytes of weights, slots of %d bytes\n", s.Layers, float64(s.MACs)/1e6, s.WeightBytes, s.SlotBytes)
	fmt.Fprintln(e.stdout, "exit             layers    M MACs     batch 1     batch 8   (from the input, ms, estimated by the law)")
	for _, x := range s.Exits {
		fmt.Fprintf(e.stdout, "%-16s %3d..%-3d %9.3f %11.3f %11.3f\n", x.Name, x.First, x.Last, float64(x.MACs)/1e6,
			float64(x.LatencyNS[0])/1e6, float64(x.LatencyNS[len(x.LatencyNS)-1])/1e6)
	}
	return nil
}
