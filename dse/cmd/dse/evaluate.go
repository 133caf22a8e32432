package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
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

type evaluateCmd struct {
	source
	evaluation
	Type string   `default:"int16" enum:"int16,int8" help:"int8: also what the network loses with weights and maps of 8 bits, by exit and layer. A quantised (QDQ) file's own scales are taken, others come from the calibration."`
	Mix  *float64 `placeholder:"PERCENT" help:"With int8: keep as many layers in int16 as it takes for at most so many per cent of the calibration's images to get another class than in float, at every exit."`
	Out  string   `placeholder:"FILE" help:"Write the figures there as JSON too."`
}

func (*evaluateCmd) Help() string {
	return `Says what a network loses in integers, by exit, beside float and onnxruntime, without writing a bundle. int16 is what
the design computes. int8 is what hardware for it would compute bit for bit; no design runs it yet. Without --range its
scales hold the values with the least square error.

Example:
  dse evaluate --network my.onnx --config run --calibrate photos --evaluate held-out --type int8
  dse evaluate --network my.qdq.onnx --config run --calibrate photos --evaluate held-out --type int8 --mix 0.3`
}

type evaluateDoc struct {
	cli.Header
	Network     string `json:"network"`
	Calibration string `json:"calibration"`
	*evaluate.Report
	Notes []string `json:"notes,omitempty"`
}

func (c *evaluateCmd) check() error {
	switch {
	case c.Evaluate == "":
		return usage("--evaluate names the images to evaluate on; it is missing")
	case c.Mix != nil && c.Type != "int8":
		return usage("--mix is about layers in int8: it needs --type int8")
	case c.Mix != nil && !(*c.Mix >= 0 && *c.Mix <= 100):
		return usage("--mix %v: expected 0 to 100 per cent", *c.Mix)
	}
	return c.evaluation.check()
}

// Run evaluates a network.
func (c *evaluateCmd) Run(e *cli.Env) error {
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
	set, err := c.images(g, from)
	if err != nil {
		return err
	}
	b, err := r.MakeFrom(g, from, d)
	if err != nil {
		return err
	}
	var q *quant.Int8
	var lost *evaluate.Int8
	if c.Type == "int8" {
		if q, lost, err = c.int8(g, from); err != nil {
			return err
		}
	}
	doc := evaluateDoc{Header: newHeader("evaluate", c.Seed), Network: g.Name, Calibration: from.Text()}
	if doc.Report, err = c.evaluate(e, r, g, b, q, set); err != nil {
		return err
	}
	doc.Int8, doc.Notes = lost, from.Notes(g, set)
	if err := e.Document(doc, c.Out, e.JSON); err != nil || e.JSON {
		return err
	}
	for _, note := range doc.Notes {
		fmt.Fprintln(e.Stderr, "dse: note: "+note)
	}
	if from.Missing {
		fmt.Fprintf(e.Stderr, "dse: warning: %s is %s\n", g.Name, recipe.Warning)
	}
	fmt.Fprintf(e.Stdout, "%s, calibration: %s\n", g.Name, doc.Calibration)
	return printEvaluation(e.Stdout, doc.Report)
}

// int8 quantises the network to int8, and measures its layers on the calibration's images.
func (c *evaluateCmd) int8(g *graph.Graph, from *recipe.Calibration) (q *quant.Int8, lost *evaluate.Int8, err error) {
	seen, err := from.See(g)
	if err != nil {
		return nil, nil, err
	}
	var bound *float64
	if c.Mix == nil {
		q, err = seen.Network(nil)
	} else {
		share := *c.Mix / 100
		bound = &share
		q, err = evaluate.Mixed(seen, g, share, from.Set.Len(), from.Set.Image)
	}
	if err != nil {
		return nil, nil, err
	}
	lost, err = evaluate.Layers(q, from.Set.Len(), from.Set.Image)
	if err == nil {
		lost.Bound = bound
	}
	return q, lost, err
}

// evaluate runs the images through the golden executor, in int8 too unless q is nil, the float network and, if it is installed, onnxruntime.
func (c *evaluation) evaluate(e *cli.Env, r *recipe.Recipe, g *graph.Graph, b *bundle.Bundle, q *quant.Int8, set *imageset.Set) (*evaluate.Report, error) {
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
	return evaluate.Run(context.Background(), g, b, q, set, ask, progress)
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

func printEvaluation(w io.Writer, r *evaluate.Report) error {
	fmt.Fprintf(w, "\nevaluated on %d images; int16 is what the hardware computes, bit for bit\n", r.Images)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	head := []string{"exit"}
	if r.Labelled {
		if r.Int8 != nil {
			head = append(head, "accuracy int8", "int16", "float")
		} else {
			head = append(head, "accuracy int16", "float")
		}
		if r.Oracle {
			head = append(head, "onnxruntime")
		}
	}
	if r.Int8 != nil {
		head = append(head, "int8: same class as float", "logits from float, mean", "worst", "int16: same class as float")
	} else {
		head = append(head, "same class as float")
	}
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
			if r.Int8 != nil {
				row = append(row, share(x.Int8))
			}
			row = append(row, share(x.Int16), share(x.Float))
			if r.Oracle {
				row = append(row, share(x.Onnxruntime))
			}
		}
		if r.Int8 != nil {
			row = append(row, share(x.AgreeInt8), share(x.MeanInt8), share(x.WorstInt8))
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
	if r.Int8 != nil {
		printLayers(w, r.Int8)
	}
	return nil
}

// shownLayers is how many of the layers that lose most are printed.
const shownLayers = 5

func printLayers(w io.Writer, q *evaluate.Int8) {
	var wide []string
	computed := 0
	for _, l := range q.Layers {
		if l.Bits == 16 {
			wide = append(wide, l.Layer)
		}
		if l.Bits > 0 {
			computed++
		}
	}
	fmt.Fprintf(w, "int8: %.1f %% of the MACs", 100*q.Share)
	if q.Bound != nil {
		fmt.Fprintf(w, "; for at most %.2g %% other classes on the calibration's images %d of %d layers stay in int16", 100**q.Bound, len(wide), computed)
		if len(wide) > 0 {
			fmt.Fprintf(w, ": %s", strings.Join(wide[:min(len(wide), shownLayers)], ", "))
		}
		if more := len(wide) - shownLayers; more > 0 {
			fmt.Fprintf(w, " and %d more", more)
		}
	}
	most := slices.Clone(q.Layers)
	slices.SortStableFunc(most, func(a, b evaluate.LayerLoss) int { return cmp.Compare(b.Alone, a.Alone) })
	fmt.Fprintln(w, "\nlayers that lose most, as a share of their output (root mean square): alone, and at the end of those before")
	for _, l := range most[:min(len(most), shownLayers)] {
		fmt.Fprintf(w, "%8.2f %% %8.2f %%  %s\n", 100*l.Alone, 100*l.Whole, l.Layer)
	}
}
