// Whole segments of large networks through the hardware, bit for bit.

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
	"github.com/sluice-npu/sluice/host/soft"
	"github.com/sluice-npu/sluice/host/verify"
	"github.com/sluice-npu/sluice/hw/configs"
)

// large imports the first segments of a network, all of them where none are named. The exits of the zoo's networks are
// exit1, exit2 ... by depth.
func (c *verifyCmd) large() (*graph.Graph, error) {
	from := c.Import
	from.InputSide = cmp.Or(c.Input, from.InputSide)
	if c.Segments > 0 && from.Exits == "" && !recipe.Own(c.Network) {
		// by name: what lies behind need not fit so small an input
		o := onnx.Options{WeightSeed: weightSeed, InputSide: from.InputSide}
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
	g, err := from.Graph(c.Network, weightSeed)
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

// segments runs one image through the first segments of a network, one start a segment, and compares
// all bytes of its slot after each.
func (c *verifyCmd) segments(e *env, designs []configs.Design, doc *verifyDoc) error {
	if len(designs) != 1 {
		return coded(codeUsage, errors.New("--segments takes one configuration"))
	}
	d := designs[0]
	c.Segments = max(c.Segments, 0) // negative: all
	g, err := c.large()
	if err != nil {
		return coded(codeInput, err)
	}
	rng := rand.New(rand.NewPCG(c.Seed, 0x736c756963650006))
	image := make([]float32, g.Tensors[g.Input].Elems())
	for i := range image {
		image[i] = rng.Float32()
	}
	q, err := quant.Quantise(g, [][]float32{image}, quant.Options{InputRange: 1})
	if err != nil {
		return coded(codeInput, fmt.Errorf("quantise %s: %w", g.Name, err))
	}
	b, err := compile.Compile(q, d, compile.Options{})
	if err != nil {
		return coded(codeInput, fmt.Errorf("compile %s for %s: %w", g.Name, d.Name, err))
	}
	dev := &verify.Shadow{Reference: soft.New(d, soft.Options{Slots: 1})}
	if c.Device == "soft" {
		dev.Slotted = soft.New(d, soft.Options{})
	} else if dev.Slotted, err = c.openCosim(e.ctx, c.Device, &prepared{design: d, bundle: b}); err != nil {
		return err
	}
	defer dev.Close()
	in := inputs(b, &zoo.Images{Pixels: [][]float32{image}})[0]
	if c.Seed%2 == 0 { // the extremes that no image has
		in = randnet.Input(rng, b)
	}
	set, done := e.progress("segments", len(b.Network.Exits))
	defer done()
	doc.Segments, err = verify.Segments(e.ctx, dev, b, in, doc.Coverage.Bins, set)
	for _, s := range doc.Segments {
		doc.Layers += s.Layers
	}
	if err != nil {
		return doc.problem("segments", err)
	}
	doc.Images = 1
	return nil
}
