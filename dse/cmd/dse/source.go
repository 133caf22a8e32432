package main

import (
	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/dse/evaluate"
	"github.com/sluice-npu/sluice/dse/graph"
	"github.com/sluice-npu/sluice/dse/quant"
	"github.com/sluice-npu/sluice/dse/recipe"
	"github.com/sluice-npu/sluice/hw/configs"
)

// source contains the flags that select a network, a design and calibration images.
type source struct {
	Network string `required:"" placeholder:"NAME|FILE.onnx" help:"Network of the zoo, or an ONNX file."`
	Config  string `required:"" placeholder:"NAME|FILE.yaml" help:"Hardware configuration."`
	Seed    uint64 `default:"1" help:"Seed of weights that the network lacks and of noise in place of images."`
	Images  int    `placeholder:"N" help:"Images to calibrate with, drawn from all parts of those there are (default: as many as some 64 GMAC are, 8 to 512)."`
	Data    string `placeholder:"DIR" help:"Folder of the Fashion-MNIST files, for the zoo's trained networks (default: where Debian's package puts them)."`
	recipe.Flags
}

func (s *source) recipe() *recipe.Recipe {
	return &recipe.Recipe{Flags: s.Flags, Network: s.Network, Seed: s.Seed, Images: s.Images, Data: s.Data}
}

// open loads the design, the network for this design, and the images for calibration.
func (s *source) open() (d configs.Design, r *recipe.Recipe, g *graph.Graph, from *recipe.Calibration, err error) {
	if d, err = configs.Load(s.Config); err != nil {
		return
	}
	r = s.recipe()
	if g, err = r.Graph(d); err != nil {
		return
	}
	from, err = r.Calibration(g)
	return
}

// inInt16 quantises a network to int16 and compiles it for the same design in int16. If necessary, this design's chains
// are shorter.
func inInt16(r *recipe.Recipe, g *graph.Graph, from *recipe.Calibration, d configs.Design) (*quant.Network, *bundle.Bundle, error) {
	q, err := from.Quantise(g)
	if err != nil {
		return nil, nil, err
	}
	if d.Int8() {
		d = d.Typed(configs.TypeInt16)
		_, most := d.Chains()
		d.TP = min(d.TP, most)
	}
	b, err := r.MakeOf(q, from, d)
	return q, b, err
}

// inInt8 returns a network in int8, its bundle, and the loss of precision of its layers.
func inInt8(r *recipe.Recipe, g *graph.Graph, from *recipe.Calibration, d configs.Design) (*quant.Int8, *bundle.Bundle, *evaluate.Int8, error) {
	seen, err := from.See(g)
	if err != nil {
		return nil, nil, nil, err
	}
	n, err := seen.Network(nil)
	if err != nil {
		return nil, nil, nil, err
	}
	b, err := r.MakeInt8(n, from, d)
	if err != nil {
		return nil, nil, nil, err
	}
	lost, err := lostIn8(n, from)
	return n, b, lost, err
}

// lostIn8 returns the loss of precision of layers in int8.
func lostIn8(n *quant.Int8, from *recipe.Calibration) (*evaluate.Int8, error) {
	both, err := from.Beside(evaluate.LossImages)
	if err != nil {
		return nil, err
	}
	return evaluate.Layers(n, both.Count, both.Image)
}

// measured compiles a source to a bundle, and measures the loss of precision of the network. The second result is the
// loss in int16. The third result is the loss in int8, by layer.
func (s *source) measured() (b *bundle.Bundle, loss *quant.Loss, eight *evaluate.Int8, err error) {
	d, r, g, from, err := s.open()
	if err != nil {
		return
	}
	if d.Int8() {
		_, b, eight, err = inInt8(r, g, from, d)
		return
	}
	q, b, err := inInt16(r, g, from, d)
	if err == nil {
		loss, err = from.Measure(q)
	}
	return
}

// compileFor compiles a source for a design that may differ from every configuration.
func (s *source) compileFor(d configs.Design) (*bundle.Bundle, error) { return s.recipe().Make(d) }
