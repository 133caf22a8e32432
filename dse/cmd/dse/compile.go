package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/dse/evaluate"
	"github.com/sluice-npu/sluice/dse/graph"
	imageset "github.com/sluice-npu/sluice/dse/images"
	"github.com/sluice-npu/sluice/dse/onnx"
	"github.com/sluice-npu/sluice/dse/quant"
	"github.com/sluice-npu/sluice/dse/recipe"
	"github.com/sluice-npu/sluice/dse/zoo"
	"github.com/sluice-npu/sluice/host/cli"
	"github.com/sluice-npu/sluice/hw/configs"
)

type compileCmd struct {
	source
	Evaluate    string `placeholder:"DIR|FILE" help:"Also evaluate the bundle on these images: accuracy of int16 and float if they have classes, agreement with onnxruntime."`
	Labels      string `placeholder:"folders|numbers|FILE" help:"Classes of the images to evaluate on: the folders that they lie in, in the order of their names, or their numbers; a CSV with the columns file and label, or .npy or IDX (default: folders, if there are any)."`
	Evaluated   int    `default:"1000" placeholder:"N" help:"Most images to evaluate on, evenly spaced; 0: all."`
	Onnxruntime string `default:"auto" enum:"auto,yes,no" help:"Also run onnxruntime. auto: if it is installed, and always if the images have no classes."`
	Out         string `required:"" placeholder:"FILE" help:"Bundle to write; the figures go to FILE.json."`
}

func (*compileCmd) Help() string {
	return `Takes a network of the zoo or an ONNX file to a bundle for one hardware configuration. A network of your
own is calibrated with images of your own: without --calibrate its ranges come from noise, which every
output repeats.

Operators of ONNX that are supported: ` + operators() + `.

Example:
  dse compile --network fashion --config run --out fashion.sluice
  dse compile --network my.onnx --config run --calibrate photos --mean 0.485,0.456,0.406 --std 0.229,0.224,0.225 --out my.sluice
  dse compile --network my.onnx --config run --exits exits.yaml --calibrate photos --evaluate held-out --out my.sluice`
}

type compileDoc struct {
	cli.Header
	Out         string `json:"out"`
	Calibrated  bool   `json:"calibrated"`
	Calibration string `json:"calibration"`
	bundle.Summary
	Coarse *quant.Coarse `json:"coarse_channels,omitempty"`
	// Precision on calibration images: float compared with int16, layer by layer.
	Measured   int                `json:"measured_images"`
	Distance   map[string]float64 `json:"measured_distance"` // by exit, a share of the largest logit
	Kept       []quant.Kept       `json:"bits_kept"`
	Saturated  map[string]float64 `json:"saturated"` // share of elements on images of the calibration, by tensor; evaluation has its own
	Evaluation *evaluate.Report   `json:"evaluation,omitempty"`
	Notes      []string           `json:"notes,omitempty"` // what is unusual about the images and the exits
}

// check checks the flags before any work.
func (c *compileCmd) check() error {
	if c.Evaluated < 0 {
		return usage("--evaluated is %d, expected a number of images or 0 for all", c.Evaluated)
	}
	if c.Evaluate == "" && (c.Labels != "" || c.Onnxruntime == "yes") {
		return usage("--labels and --onnxruntime are about the images of --evaluate, which names none")
	}
	return c.overwrites(c.Network, c.Network+".data", c.Config, c.Exits, c.Classes, c.Calibrate, c.Evaluate, c.Labels)
}

// images opens the images of --evaluate; nil without the flag. Neither these nor those of --calibrate may be
// overwritten.
func (c *compileCmd) images(g *graph.Graph, from *recipe.Calibration) (set *imageset.Set, err error) {
	if c.Evaluate != "" {
		if set, err = from.Evaluation(c.Evaluate, recipe.Shape(g), imageset.Options{Labels: c.Labels, Max: c.Evaluated}); err != nil {
			return nil, err
		}
		if err := recipe.BytesFrom(g, set, c.Evaluate); err != nil {
			return nil, err
		}
		if err := c.overwrites(pictures(set)...); err != nil {
			return nil, err
		}
	}
	return set, c.overwrites(pictures(from.Set)...)
}

// Run compiles a network and writes its bundle.
func (c *compileCmd) Run(e *cli.Env) error {
	if err := c.check(); err != nil {
		return err
	}
	d, err := configs.Load(c.Config)
	if err != nil {
		return err
	}
	r := c.recipe()
	g, err := r.Graph(d)
	if err != nil {
		return err
	}
	from, err := r.Calibration(g)
	if err != nil {
		return err
	}
	set, err := c.images(g, from) // opened before the work, so that errors in them are reported at once
	if err != nil {
		return err
	}
	q, err := from.Quantise(g)
	if err != nil {
		return err
	}
	b, err := r.MakeOf(q, from, d)
	if err != nil {
		return err
	}
	doc, err := c.document(e, b, q, from)
	if err != nil {
		return err
	}
	if set != nil {
		if doc.Evaluation, err = c.evaluate(e, r, g, b, set); err != nil {
			return err
		}
	}
	doc.Notes = from.Notes(g, set)
	// The files are written last: after an error there is neither.
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
	if e.JSON {
		return nil
	}
	return doc.print(e.Stdout)
}

// document says what the bundle holds and how much is lost to 16 bits.
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
	loss, err := q.Measure(from.Set.Len(), from.Set.Image, quant.Options{})
	if err != nil {
		return nil, err
	}
	doc.Measured, doc.Distance, doc.Kept, doc.Saturated = loss.Images, loss.Exits, loss.Layers, loss.Saturated
	if said := loss.Warning(); said != "" {
		fmt.Fprintf(e.Stderr, "dse: warning: %s: %s\n", s.Network, said)
	}
	return doc, nil
}

// overwrites rejects an output that would overwrite an input.
func (c *compileCmd) overwrites(read ...string) error {
	for _, out := range []string{c.Out, c.Out + ".json"} {
		o, err := os.Stat(out)
		if err != nil {
			continue // it does not exist, so nothing is lost; if it cannot be read, writing reports the error
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

// pictures returns the files of images, by name.
func pictures(s *imageset.Set) (names []string) {
	for i := range s.Len() {
		names = append(names, s.Name(i))
	}
	return names
}

// evaluate runs the images through the golden executor, the float network and, if it is installed, onnxruntime.
func (c *compileCmd) evaluate(e *cli.Env, r *recipe.Recipe, g *graph.Graph, b *bundle.Bundle, set *imageset.Set) (*evaluate.Report, error) {
	var ask evaluate.Oracle
	if c.Onnxruntime != "no" {
		python, err := zoo.Python()
		must := c.Onnxruntime == "yes" || set.Labels == nil
		switch {
		case err != nil && must:
			return nil, fmt.Errorf("%w; --onnxruntime=no does without", err)
		case err == nil:
			model, folder, done, err := modelFile(r)
			if err != nil {
				return nil, err
			}
			defer done()
			var exits []string
			for _, x := range g.Exits {
				exits = append(exits, x.Name)
			}
			in := recipe.Shape(g)
			ask = func(ctx context.Context, inputs [][]float32) ([][][]float32, error) {
				logits, err := zoo.Oracle(ctx, python, model, folder, exits, g.ChannelsLast, in.H, in.W, in.C, inputs)
				if err != nil { // for example a Reshape with fixed sizes, while --input-side asks for another size
					return nil, fmt.Errorf("%w; --onnxruntime=no does without", err)
				}
				return logits, nil
			}
			if !r.Own() && !r.Trained() {
				if must {
					return nil, fmt.Errorf("%s has no weights of its own, so onnxruntime cannot run it; --onnxruntime=no does without", r.Network)
				}
				ask = nil
			}
		}
	}
	if ask != nil {
		for _, name := range g.Overhanging() {
			fmt.Fprintf(e.Stderr, "dse: warning: node %q (AveragePool): windows hang over the padding (ceil_mode and count_include_pad); dse divides as PyTorch does, onnxruntime otherwise, so the two differ\n", name)
		}
	}
	progress, ended := e.Progress("evaluate", set.Len())
	defer ended()
	return evaluate.Run(context.Background(), g, b, set, ask, progress)
}

// modelFile returns the network as a file for onnxruntime, with the same changes as in dse. If --input-side changes
// it, or if it is a zoo network, the file is temporary. External data are in folder; "": beside the file.
func modelFile(r *recipe.Recipe) (path, folder string, done func(), err error) {
	name := r.Network
	var content []byte
	if r.Own() {
		name, folder = "own", filepath.Dir(r.Network)
		content, err = os.ReadFile(r.Network)
	} else {
		content, err = zoo.Model(r.Network)
	}
	if err != nil {
		return "", "", nil, err
	}
	switch as, err := onnx.Rewrite(bytes.NewReader(content), onnx.Options{InputSide: r.InputSide}); {
	case err != nil:
		return "", "", nil, fmt.Errorf("%s: %w", r.Network, err)
	case as != nil:
		content = as
	case r.Own():
		return r.Network, "", func() {}, nil
	}
	dir, err := os.MkdirTemp("", "sluice-model-")
	if err != nil {
		return "", "", nil, fmt.Errorf("network %s: %w", r.Network, err)
	}
	path = filepath.Join(dir, name+".onnx")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		os.RemoveAll(dir)
		return "", "", nil, fmt.Errorf("network %s: %w", r.Network, err)
	}
	return path, folder, func() { os.RemoveAll(dir) }, nil
}

// print prints what was made.
func (d *compileDoc) print(w io.Writer) error {
	s := &d.Summary
	fmt.Fprintf(w, "%s: %s on %s <%d, %d, %d>, bundle %s, ABI %s\n", d.Out, s.Network, s.Design, s.TR, s.TP, s.TC, s.BundleHash, s.ABIHash)
	fmt.Fprintf(w, "%d layers, %.3f M MACs, %d bytes of weights, slots of %d bytes\n", s.Layers, float64(s.MACs)/1e6, s.WeightBytes, s.SlotBytes)
	fmt.Fprintf(w, "calibration: %s\n", d.Calibration)
	fmt.Fprintln(w, "exit             layers    M MACs     batch 1     batch 8   (from the input, ms, estimated by the law)")
	for _, x := range s.Exits {
		fmt.Fprintf(w, "%-16s %3d..%-3d %9.3f %11.3f %11.3f\n", x.Name, x.First, x.Last, float64(x.MACs)/1e6,
			float64(x.LatencyNS[0])/1e6, float64(x.LatencyNS[len(x.LatencyNS)-1])/1e6)
	}
	if d.Evaluation == nil {
		return nil
	}
	return printEvaluation(w, d.Evaluation)
}

func printEvaluation(w io.Writer, r *evaluate.Report) error {
	fmt.Fprintf(w, "\nevaluated on %d images; int16 is what the hardware computes, bit for bit\n", r.Images)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	head := []string{"exit"}
	if r.Labelled {
		head = append(head, "accuracy int16", "float")
		if r.Oracle {
			head = append(head, "onnxruntime")
		}
	}
	head = append(head, "same class as float")
	if r.Oracle {
		head = append(head, "as onnxruntime")
	}
	head = append(head, "logits from float, mean", "worst")
	if r.Oracle {
		head = append(head, "from onnxruntime, mean", "worst")
	}
	fmt.Fprintln(t, strings.Join(head, "\t")+"\t")
	share := func(v *float64) string {
		if v == nil {
			return "-" // a map has no accuracy
		}
		return fmt.Sprintf("%.2f %%", 100**v)
	}
	for i := range r.Exits {
		x := &r.Exits[i]
		row := []string{x.Name}
		if r.Labelled {
			row = append(row, share(x.Int16), share(x.Float))
			if r.Oracle {
				row = append(row, share(x.Onnxruntime))
			}
		}
		row = append(row, share(x.AgreeFloat))
		if r.Oracle {
			row = append(row, share(x.AgreeOracle))
		}
		row = append(row, share(&x.MeanFloat), share(&x.WorstFloat))
		if r.Oracle {
			row = append(row, share(x.MeanOracle), share(x.WorstOracle))
		}
		fmt.Fprintln(t, strings.Join(row, "\t")+"\t")
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if r.Clipped > 0 {
		fmt.Fprintf(w, "%.2f %% of the input's elements lie beyond its range and saturate: --input-range widens it\n", 100*r.Clipped)
	}
	if n := len(r.Saturated); n > 0 {
		worst := r.Saturated[0]
		fmt.Fprintf(w, "%d layers have results beyond the range of their calibration, which saturate, most of all %s (%.2g %% of its results): calibrate with more images, or others\n", n, worst.Layer, 100*worst.Share)
	}
	return nil
}
