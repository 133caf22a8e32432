package main

import (
	"fmt"

	"github.com/sluice-npu/sluice/dse/mapping"
	"github.com/sluice-npu/sluice/dse/randnet"
	"github.com/sluice-npu/sluice/dse/testvec"
	"github.com/sluice-npu/sluice/host/cli"
	"github.com/sluice-npu/sluice/hw/configs"
)

type vectorsCmd struct {
	Config  string `required:"" placeholder:"NAME|FILE.yaml" help:"Hardware configuration."`
	Seed    uint64 `default:"1" help:"Seed of the first network; the next ones count up."`
	N       int    `default:"8" help:"Networks, one file each."`
	MaxMacs int64  `default:"200000" help:"Most MACs of a network."`
	Points  []int  `placeholder:"I" help:"Only these of the <k, s>: 0 <1, 1>, 1 <1/2, 1>, 2 <2, 1>, 3 <1, 2>, 4 <1/2, 2>."`
	Apart   bool   `help:"A start for every layer rather than for every segment, and no tensor stays on chip: for co-simulations whose ports do not share a memory."`
	Base    uint64 `default:"268435456" help:"Lowest address of the NPU's memory: a multiple of 64 within 40 bits, as files end."`
	Out     string `required:"" placeholder:"DIR" help:"Folder for the files NAME-SEED.vec."`
}

type vectorsDoc struct {
	cli.Header
	Files []testvec.File `json:"files"`
}

// Run writes random networks as test vectors.
func (c *vectorsCmd) Run(e *cli.Env) error {
	if c.N < 1 {
		return usage("--n is %d, must be positive", c.N)
	}
	d, err := configs.Load(c.Config)
	if err != nil {
		return err
	}
	o := randnet.Built()
	o.MaxMACs = c.MaxMacs
	for _, i := range c.Points {
		if i < 0 || i >= len(mapping.Points) {
			return usage("--points has %d, must be 0..%d", i, len(mapping.Points)-1)
		}
		o.Points = append(o.Points, mapping.Points[i])
	}
	doc := vectorsDoc{Header: newHeader("vectors", c.Seed)}
	if doc.Files, err = testvec.Random(c.Out, d, o, testvec.Layout{Base: c.Base, Limit: testvec.StartLimit, Apart: c.Apart}, c.Seed, c.N); err != nil {
		return err
	}
	if err := e.Document(doc, "", e.JSON); err != nil {
		return err
	}
	if !e.JSON {
		for _, f := range doc.Files {
			fmt.Fprintf(e.Stdout, "%s: seed %d, batch %d, %d layers, %d records\n", f.File, f.Seed, f.Batch, f.Layers, f.Records)
		}
	}
	return nil
}
