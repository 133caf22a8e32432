// sluice kit creates the bundle and test data for a board's image.

package main

import (
	"fmt"
	"runtime"

	"github.com/sluice-npu/sluice/host/cli"
	"github.com/sluice-npu/sluice/host/kit"
	"github.com/sluice-npu/sluice/host/soft"
)

type kitCmd struct {
	Bundle string `arg:"" optional:"" placeholder:"BUNDLE" help:"Bundle for the kit, in place of --network and --config."`
	what
	N   int    `default:"32" short:"n" help:"Most test images: of a folder or an array drawn from all parts, of Fashion-MNIST the first."`
	Out string `default:"out/kit" help:"Folder for the kit."`
}

func (*kitCmd) Help() string {
	return `Compiles a network, or takes a bundle, computes what the golden executor says of test images at every exit, and
writes both for a board: sluice board serves them there and compares.

Example:
  sluice kit --config small --network fashion --n 32 --out out/kit
  sluice kit my.sluice --data photos`
}

func (c *kitCmd) Run(e *cli.Env) error {
	if c.N < 1 || c.N > 10000 {
		return cli.Errorf(cli.Usage, "--n %d: expected 1..10000", c.N)
	}
	c.file = c.Bundle
	p, err := c.prepare(e)
	if err != nil {
		return err
	}
	im, err := c.images(e, p, c.N, true)
	if err != nil {
		return err
	}
	in := inputs(p.bundle, im)
	exits, err := (&soft.Memo{}).Fill(e.Ctx, p.bundle, in, runtime.GOMAXPROCS(0), nil, nil)
	if err != nil {
		return err
	}
	if err := kit.Write(c.Out, &kit.Kit{Bundle: p.bundle, Inputs: in, Exits: exits, Labels: im.Labels}); err != nil {
		return err
	}
	fmt.Fprintf(e.Stdout, "wrote %s: %s for %s, %d images with golden results at %d exits\n",
		c.Out, p.bundle.Network.Name, p.design.Name, len(in), len(p.bundle.Network.Exits))
	return nil
}
