// This check runs whole segments of large networks on the hardware and compares the results bit by bit.

package main

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/sluice-npu/sluice/dse/compile"
	"github.com/sluice-npu/sluice/dse/graph"
	"github.com/sluice-npu/sluice/dse/onnx"
	"github.com/sluice-npu/sluice/dse/quant"
	"github.com/sluice-npu/sluice/dse/randnet"
	"github.com/sluice-npu/sluice/dse/recipe"
	"github.com/sluice-npu/sluice/dse/zoo"
	"github.com/sluice-npu/sluice/host/cli"
	"github.com/sluice-npu/sluice/host/soft"
	"github.com/sluice-npu/sluice/hw/configs"
	"github.com/sluice-npu/sluice/sim/verify"
)

// large imports the first segments of a network, or all segments if no number is set. The exits of the zoo's networks
// are named exit1, exit2 ... in order of depth.
func (c *verifyCmd) large(post bool) (*graph.Graph, error) {
	from := c.Import
	from.InputSide = cmp.Or(onnx.Square(c.Input), from.InputSide)
	if c.Segments > 0 && from.Exits == "" && !recipe.Own(c.Network) {
		// import only up to these exits: later layers may not fit such a small input
		o := onnx.Options{WeightSeed: weightSeed, InputSide: from.InputSide, Post: post, Gates: from.Gates}
		for i := range c.Segments {
			o.Exits = append(o.Exits, fmt.Sprintf("exit%d", i+1))
		}
		g, err := zoo.LoadWith(c.Network, o)
		if err == nil {
			return g, nil
		}
		if whole, e := zoo.Load(c.Network, weightSeed); e == nil && c.Segments > len(whole.Exits) {
			return nil, fmt.Errorf("--segments %d: %s has %d", c.Segments, c.Network, len(whole.Exits))
		}
		return nil, err
	}
	g, err := from.Graph(c.Network, weightSeed, post)
	if err != nil || c.Segments == 0 {
		return g, err
	}
	if c.Segments > len(g.Exits) {
		return nil, fmt.Errorf("--segments %d: %s has %d", c.Segments, g.Name, len(g.Exits))
	}
	out := &graph.Graph{Name: g.Name, Input: g.Input, Tensors: g.Tensors, Exits: g.Exits[:c.Segments]}
	for n := range g.Nodes {
		if g.Segment[n] < c.Segments {
			out.Nodes, out.Segment = append(out.Nodes, g.Nodes[n]), append(out.Segment, g.Segment[n])
		}
	}
	return out, nil
}

// segments runs one image through the first segments of a network, one start per segment, and compares all bytes of the
// image's slot after each start.
func (c *verifyCmd) segments(e *cli.Env, designs []configs.Design, doc *verifyDoc) error {
	if len(designs) != 1 {
		return cli.Coded(cli.Usage, errors.New("--segments takes one configuration"))
	}
	d := designs[0]
	c.Segments = max(c.Segments, 0) // negative: all
	g, err := c.large(d.Post)
	if err != nil {
		return cli.Coded(cli.Input, err)
	}
	rng := rand.New(rand.NewPCG(c.Seed, 0x736c756963650006))
	image := make([]float32, g.Tensors[g.Input].Elems())
	for i := range image {
		image[i] = rng.Float32()
	}
	q, err := quant.Quantise(g, [][]float32{image}, quant.Options{InputRange: 1})
	if err != nil {
		return cli.Errorf(cli.Input, "quantise %s: %w", g.Name, err)
	}
	b, err := compile.Compile(q, d, compile.Options{})
	if err != nil {
		return cli.Errorf(cli.Input, "compile %s for %s: %w", g.Name, d.Name, err)
	}
	dev := &verify.Shadow{Reference: soft.New(d, soft.Options{Slots: 1})}
	if c.Device == "soft" {
		dev.Slotted = soft.New(d, soft.Options{})
	} else if dev.Slotted, err = c.openCosim(e.Ctx, c.Device, &prepared{design: d, bundle: b}); err != nil {
		return err
	}
	defer dev.Close()
	in := inputs(b, &zoo.Images{Pixels: [][]float32{image}})[0]
	if c.Seed%2 == 0 { // use extreme values too, which no image contains
		in = randnet.Input(rng, b)
	}
	set, done := e.Progress("segments", len(b.Network.Exits))
	defer done()
	doc.Segments, err = verify.Segments(e.Ctx, dev, b, in, doc.Coverage.Bins, set)
	for _, s := range doc.Segments {
		doc.Layers += s.Layers
	}
	if err != nil {
		return doc.problem("segments", err)
	}
	doc.Images = 1
	return nil
}
