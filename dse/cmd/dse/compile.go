package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/dse/evaluate"
	"github.com/sluice-npu/sluice/dse/graph"
	imageset "github.com/sluice-npu/sluice/dse/images"
	"github.com/sluice-npu/sluice/dse/quant"
	"github.com/sluice-npu/sluice/dse/recipe"
	"github.com/sluice-npu/sluice/host/cli"
	"github.com/sluice-npu/sluice/hw/configs"
)

// evaluation contains the flags about the images with which a network is evaluated.
type evaluation struct {
	Evaluate    string `placeholder:"DIR|FILE" help:"Also evaluate the bundle on these images: accuracy of int16 and float if they have classes, agreement with onnxruntime."`
	Labels      string `placeholder:"folders|numbers|FILE" help:"Classes of the images to evaluate on: the folders that they lie in, in the order of their names, or their numbers; a CSV with the columns file and label, or .npy or IDX (default: folders, if there are any)."`
	Evaluated   int    `default:"1000" placeholder:"N" help:"Most images to evaluate on, drawn from all parts of those there are; 0: all."`
	Onnxruntime string `default:"auto" enum:"auto,yes,no" help:"Also run onnxruntime. auto: if it is installed, and always if the images have no classes."`
}

type compileCmd struct {
	source
	evaluation
	Type string `default:"" enum:",int16,int8" help:"Type of maps and weights: the configuration with another type than its own, as NAME-int8 (default: its own). A quantised (QDQ) file's own scales are taken. The soft device and the RTL in simulation run int8, no board does yet."`
	Out  string `required:"" placeholder:"FILE" help:"Bundle to write; the figures go to FILE.json."`
}

func (*compileCmd) Help() string {
	return `Takes a network of the zoo or an ONNX file to a bundle for one hardware configuration. A network of your
own is calibrated with images of your own: without --calibrate its ranges come from noise, which every
output repeats.

Operators of ONNX that are supported: ` + operators() + `.

Example:
  dse compile --network fashion --config run --out fashion.sluice
  dse compile --network my.onnx --config run --calibrate photos --mean 0.485,0.456,0.406 --std 0.229,0.224,0.225 --out my.sluice
  dse compile --network my.qdq.onnx --config run --type int8 --calibrate photos --evaluate held-out --out my.sluice
  dse compile --network my.onnx --config run --exits exits.yaml --calibrate photos --evaluate held-out --out my.sluice`
}

type compileDoc struct {
	cli.Header
	Out         string `json:"out"`
	Calibrated  bool   `json:"calibrated"`
	Calibration string `json:"calibration"`
	bundle.Summary
	Coarse *quant.Coarse `json:"coarse_channels,omitempty"`
	// The next fields compare int16 with float, layer by layer. The field measured_images is the number of compared
	// images, and measured_unseen is the number of these images that calibration did not use.
	Measured   int                `json:"measured_images"`
	Unseen     int                `json:"measured_unseen"`
	Distance   map[string]float64 `json:"measured_distance"` // largest difference by exit, as a share of the largest logit
	Kept       []quant.Kept       `json:"bits_kept"`
	Saturated  map[string]float64 `json:"saturated"`      // share of saturated elements on these images, by tensor
	Int8       *evaluate.Int8     `json:"int8,omitempty"` // for int8, instead of the values above
	Evaluation *evaluate.Report   `json:"evaluation,omitempty"`
	Notes      []string           `json:"notes,omitempty"` // unusual properties of the images and the exits
}

// check returns an error for invalid flags before any work is done.
func (c *compileCmd) check() error {
	if err := c.evaluation.check(); err != nil {
		return err
	}
	return c.overwrites(c.Network, c.Network+".data", c.Config, c.Exits, c.Classes, c.Calibrate, c.Evaluate, c.Labels)
}

func (c *evaluation) check() error {
	if c.Evaluated < 0 {
		return usage("--evaluated is %d, expected a number of images or 0 for all", c.Evaluated)
	}
	if c.Evaluate == "" && (c.Labels != "" || c.Onnxruntime == "yes") {
		return usage("--labels and --onnxruntime are about the images of --evaluate, which names none")
	}
	return nil
}

// images opens the images of --evaluate. It returns nil without the flag.
func (c *evaluation) images(g *graph.Graph, from *recipe.Calibration) (set *imageset.Set, err error) {
	if c.Evaluate == "" {
		return nil, nil
	}
	return from.Evaluation(c.Evaluate, recipe.Shape(g), imageset.Options{Labels: c.Labels, Max: c.Evaluated})
}

// Run compiles a network and writes its bundle.
func (c *compileCmd) Run(e *cli.Env) error {
	if err := c.check(); err != nil {
		return err
	}
	d, r, g, from, err := c.open()
	if err != nil {
		return err
	}
	if c.Type != "" {
		d = d.Typed(c.Type)
	}
	if err := cmp.Or(d.Elaborates(), d.OwnName()); err != nil { // otherwise no device would accept the bundle
		return fmt.Errorf("%s: %w", c.Config, err)
	}
	set, err := c.images(g, from) // opened first, so that errors are reported early
	if err != nil {
		return err
	}
	if err := c.overwrites(append(pictures(set), pictures(from.Set)...)...); err != nil {
		return err
	}
	compile := c.int16
	if d.Int8() {
		compile = c.int8
	}
	b, doc, err := compile(e, d, r, g, from, set)
	if err != nil {
		return err
	}
	doc.Notes = append(from.Notes(g, set), doc.Notes...)
	// The files are written last, so that no file is written after an error.
	if err := cli.WriteFile(c.Out, func(w io.Writer) error { return bundle.Write(w, b) }); err != nil {
		return err
	}
	if err := e.Document(doc, c.Out+".json", e.JSON); err != nil {
		return errors.Join(err, os.Remove(c.Out))
	}
	for _, note := range doc.Notes {
		fmt.Fprintln(e.Stderr, "dse: note: "+note)
	}
	if from.Missing {
		fmt.Fprintf(e.Stderr, "dse: warning: %s is %s\n", doc.Network, recipe.Warning)
	}
	if doc.Evaluation != nil {
		warnOf(e, doc.Network, doc.Evaluation)
	}
	if e.JSON {
		return nil
	}
	return doc.print(e.Stdout)
}

// int16 compiles the network for 16-bit elements.
func (c *compileCmd) int16(e *cli.Env, d configs.Design, r *recipe.Recipe, g *graph.Graph, from *recipe.Calibration, set *imageset.Set) (*bundle.Bundle, *compileDoc, error) {
	q, b, err := inInt16(r, g, from, d)
	if err != nil {
		return nil, nil, err
	}
	doc, err := c.document(e, b, q, from)
	if err == nil && set != nil {
		doc.Evaluation, err = c.evaluate(e, r, g, q, b, nil, set, from.Set.Saw)
	}
	return b, doc, err
}

// int8 compiles the network for 8-bit elements. The images are also evaluated in int16.
func (c *compileCmd) int8(e *cli.Env, d configs.Design, r *recipe.Recipe, g *graph.Graph, from *recipe.Calibration, set *imageset.Set) (*bundle.Bundle, *compileDoc, error) {
	n, b, lost, err := inInt8(r, g, from, d)
	if err != nil {
		return nil, nil, err
	}
	s, err := b.Summarize()
	if err != nil {
		return nil, nil, err
	}
	doc := &compileDoc{Header: newHeader("compile", c.Seed), Out: c.Out, Calibrated: !from.Missing, Calibration: from.Text(), Summary: s, Notes: n.Notes(), Int8: lost}
	if set == nil {
		return b, doc, nil
	}
	q, beside, err := inInt16(r, g, from, d)
	if err != nil {
		return nil, nil, err
	}
	if doc.Evaluation, err = c.evaluate(e, r, g, q, beside, &evaluate.Network8{Int8: n, Bundle: b}, set, from.Set.Saw); err == nil {
		doc.Evaluation.Int8 = doc.Int8 // so that the output includes the rows of int8
	}
	return b, doc, err
}

// document describes the bundle and the loss of precision in int16.
func (c *compileCmd) document(e *cli.Env, b *bundle.Bundle, q *quant.Network, from *recipe.Calibration) (*compileDoc, error) {
	s, err := b.Summarize()
	if err != nil {
		return nil, err
	}
	doc := &compileDoc{Header: newHeader("compile", c.Seed), Out: c.Out, Calibrated: !from.Missing, Calibration: from.Text(), Summary: s}
	if coarse := q.Coarse(); coarse.Channels > 0 {
		doc.Coarse = &coarse
		fmt.Fprintf(e.Stderr, "dse: warning: %s: %v\n", s.Network, coarse)
	}
	loss, err := from.Measure(q)
	if err != nil {
		return nil, err
	}
	doc.Measured, doc.Unseen, doc.Distance, doc.Kept, doc.Saturated = loss.Images, loss.Unseen, loss.Exits, loss.Layers, loss.Saturated
	if said := loss.Warning(); said != "" {
		fmt.Fprintf(e.Stderr, "dse: warning: %s: %s\n", s.Network, said)
	}
	if said := q.Norms(); said != "" {
		doc.Notes = append(doc.Notes, said)
	}
	return doc, nil
}

// overwrites returns an error if an output would overwrite an input.
func (c *compileCmd) overwrites(read ...string) error {
	for _, out := range []string{c.Out, c.Out + ".json"} {
		o, err := os.Stat(out)
		if err != nil {
			continue // no file is lost; if the file exists but cannot be read, writing reports the error
		}
		if o.IsDir() {
			return usage("--out %s: %s is a folder, expected a file", c.Out, out)
		}
		for _, path := range read {
			if i, err := os.Stat(path); err == nil && os.SameFile(o, i) {
				return usage("--out %s: %s is %s, which is read", c.Out, out, path)
			}
		}
	}
	return nil
}

// pictures returns the names of the image files of a set.
func pictures(s *imageset.Set) (names []string) {
	if s == nil {
		return nil
	}
	for i := range s.Len() {
		names = append(names, s.Name(i))
	}
	return names
}

// print prints a summary of the bundle.
func (d *compileDoc) print(w io.Writer) error {
	s := &d.Summary
	fmt.Fprintf(w, "%s: %s on %s <%d, %d, %d>, bundle %s, ABI %s\n", d.Out, s.Network, s.Design, s.TR, s.TP, s.TC, s.BundleHash, s.ABIHash)
	fmt.Fprintf(w, "%d layers, %.3f M MACs, %d bytes of weights, slots of %d bytes\n", s.Layers, float64(s.MACs)/1e6, s.WeightBytes, s.SlotBytes)
	fmt.Fprintf(w, "calibration: %s\n", d.Calibration)
	fmt.Fprintln(w, "exit             layers    M MACs     batch 1     batch 8   (from the input, ms, estimated)")
	for _, x := range s.Exits {
		fmt.Fprintf(w, "%-16s %3d..%-3d %9.3f %11.3f %11.3f\n", x.Name, x.First, x.Last, float64(x.MACs)/1e6,
			float64(x.LatencyNS[0])/1e6, float64(x.LatencyNS[len(x.LatencyNS)-1])/1e6)
	}
	if d.Evaluation == nil {
		if d.Int8 != nil {
			printLayers(w, d.Int8)
		}
		return nil
	}
	return printEvaluation(w, d.Evaluation)
}
