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
)

type evaluateCmd struct {
	source
	evaluation
	Type string   `default:"" enum:",int16,int8" help:"int16, int8 (default: the configuration's). int8: also what the network loses with weights and maps of 8 bits, by exit and layer. A quantised (QDQ) file's own scales are taken, others come from the calibration."`
	Mix  *float64 `placeholder:"PERCENT" help:"With int8: keep as many layers in int16 as it takes for at most so many per cent of the calibration's images to get another class than in float, at every exit."`
	Out  string   `placeholder:"FILE" help:"Write the figures there as JSON too."`
}

func (*evaluateCmd) Help() string {
	return `Says what a network loses in integers, by exit, beside float and onnxruntime, without writing a bundle. int16 is what
the design computes. int8 is what hardware for it would compute bit for bit, and what the soft device computes. Without
--range its scales hold the values with the least square error.

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
	d, r, g, from, err := c.open()
	if err != nil {
		return err
	}
	if c.Type == "" && d.Int8() {
		c.Type = "int8"
	}
	if c.Mix != nil && c.Type != "int8" {
		return usage("--mix is about layers in int8: it needs --type int8, or a configuration of that type")
	}
	set, err := c.images(g, from)
	if err != nil {
		return err
	}
	q, b, err := inInt16(r, g, from, d)
	if err != nil {
		return err
	}
	var small *evaluate.Network8
	var lost *evaluate.Int8
	if c.Type == "int8" {
		small = &evaluate.Network8{}
		if small.Int8, lost, err = c.int8(g, from); err != nil {
			return err
		}
	}
	doc := evaluateDoc{Header: newHeader("evaluate", c.Seed), Network: g.Name, Calibration: from.Text()}
	if doc.Report, err = c.evaluate(e, r, g, q, b, small, set, from.Set.Saw); err != nil {
		return err
	}
	doc.Int8, doc.Notes = lost, from.Notes(g, set)
	if small != nil {
		doc.Notes = append(doc.Notes, small.Notes()...)
	}
	if err := e.Document(doc, c.Out, e.JSON); err != nil || e.JSON {
		return err
	}
	for _, note := range doc.Notes {
		fmt.Fprintln(e.Stderr, "dse: note: "+note)
	}
	if from.Missing {
		fmt.Fprintf(e.Stderr, "dse: warning: %s is %s\n", g.Name, recipe.Warning)
	}
	warnOf(e, g.Name, doc.Report)
	if lost != nil && lost.Bound != nil && *lost.Apart > *lost.Bound {
		fmt.Fprintf(e.Stderr, "dse: warning: --mix: %.4g %% of the calibration's images have another class than in float even if all layers are in int16\n", 100**lost.Apart)
	}
	fmt.Fprintf(e.Stdout, "%s, calibration: %s\n", g.Name, doc.Calibration)
	return printEvaluation(e.Stdout, doc.Report)
}

// int8 quantises the network to int8, and measures the loss of precision of its layers.
func (c *evaluateCmd) int8(g *graph.Graph, from *recipe.Calibration) (q *quant.Int8, lost *evaluate.Int8, err error) {
	seen, err := from.See(g)
	if err != nil {
		return nil, nil, err
	}
	var bound *float64
	var apart float64
	if c.Mix == nil {
		q, err = seen.Network(nil)
	} else {
		share := *c.Mix / 100
		bound = &share
		q, apart, err = evaluate.Mixed(seen, g, share, from.Set.Len(), from.Set.Image)
	}
	if err != nil {
		return nil, nil, err
	}
	lost, err = lostIn8(q, from)
	if err == nil && bound != nil {
		lost.Bound, lost.Apart = bound, &apart
	}
	return q, lost, err
}

// evaluate runs the images through the golden executor and the float network. If int8 is not nil, it also runs them in
// int8. If onnxruntime is installed, it also runs them in onnxruntime.
func (c *evaluation) evaluate(e *cli.Env, r *recipe.Recipe, g *graph.Graph, q *quant.Network, b *bundle.Bundle, int8 *evaluate.Network8, set *imageset.Set, seen func(x []float32) bool) (*evaluate.Report, error) {
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
				if err != nil { // for example, a Reshape has fixed sizes but --input-side specifies another size
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
	return evaluate.Run(context.Background(), g, q, b, int8, set, seen, ask, progress)
}

// modelFile returns the path of the network's file for onnxruntime. The file contains the changes that dse makes to the
// network. If --input-side changes the network, or if the network is from the zoo, the file is temporary. The second
// result is the path of the folder with the external data ("" for the folder of the file).
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

// warnOf prints a warning if the results are far from those of the float network.
func warnOf(e *cli.Env, network string, r *evaluate.Report) {
	if said := r.Warning(); said != "" {
		fmt.Fprintf(e.Stderr, "dse: warning: %s: %s\n", network, said)
	}
}

func printEvaluation(w io.Writer, r *evaluate.Report) error {
	own := ""
	if r.Seen > 0 {
		own = fmt.Sprintf(" (%d of them calibration's own: what others exceed is not seen)", r.Seen)
	}
	fmt.Fprintf(w, "\nevaluated on %d images%s; int16 is what the hardware computes, bit for bit\n", r.Images, own)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	// A row contains the accuracy, the share of classes that agree with float and with onnxruntime, and how far the logits
	// are from both.
	row := func(exit, of, accuracy, float, oracle, meanFloat, worstFloat, meanOracle, worstOracle string) {
		cells := []string{exit, of}
		if r.Labelled {
			cells = append(cells, accuracy)
		}
		if cells = append(cells, float); r.Oracle {
			cells = append(cells, oracle)
		}
		if cells = append(cells, meanFloat, worstFloat); r.Oracle {
			cells = append(cells, meanOracle, worstOracle)
		}
		fmt.Fprintln(t, strings.Join(cells, "\t")+"\t")
	}
	row("exit", "", "accuracy", "same class as float", "as onnxruntime's", "logits from float, mean", "worst", "from onnxruntime, mean", "worst")
	share := func(v *float64) string {
		if v == nil {
			return "-" // an output that is a map has no accuracy
		}
		return fmt.Sprintf("%.2f %%", 100**v)
	}
	for i := range r.Exits {
		x := &r.Exits[i]
		if r.Int8 != nil {
			row(x.Name, "int8", share(x.Int8), share(x.AgreeInt8), share(x.AgreeInt8Oracle), share(x.MeanInt8), share(x.WorstInt8), share(x.MeanInt8Oracle), share(x.WorstInt8Oracle))
		}
		row(x.Name, "int16", share(x.Int16), share(x.AgreeFloat), share(x.AgreeOracle), share(&x.MeanFloat), share(&x.WorstFloat), share(x.MeanOracle), share(x.WorstOracle))
		if r.Labelled || r.Oracle {
			row(x.Name, "float", share(x.Float), "", share(x.FloatOracle), "", "", "", "")
		}
		if r.Labelled && r.Oracle {
			row(x.Name, "onnxruntime", share(x.Onnxruntime), "", "", "", "", "", "")
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	kind := ""
	if r.Int8 != nil {
		kind = "int16: "
	}
	if r.Clipped > 0 {
		fmt.Fprintf(w, "%s%.2f %% of the input's elements lie beyond its range and saturate: --input-range widens it\n", kind, 100*r.Clipped)
	}
	if n := len(r.Saturated); n > 0 {
		worst := r.Saturated[0]
		fmt.Fprintf(w, "%s%d layers have results beyond the range of their calibration, which saturate, most of all %s (%.3g %% of its results): calibrate with more images, with others, or with more --headroom\n", kind, n, worst.Layer, 100*worst.Share)
	}
	if n := len(r.SaturatedInt8); n > 0 {
		worst := r.SaturatedInt8[0]
		fmt.Fprintf(w, "int8: %d layers have results beyond what their scales hold, which saturate, most of all %s (%.3g %% of its results)\n", n, worst.Layer, 100*worst.Share)
	}
	if r.Int8 != nil {
		printLayers(w, r.Int8)
	}
	return nil
}

// shownLayers is the number of layers that are printed: those with the largest loss.
const shownLayers = 5

func printLayers(w io.Writer, q *evaluate.Int8) {
	var wide, anew []string
	computed := 0
	for _, l := range q.Layers {
		if l.Bits == 16 {
			wide = append(wide, l.Layer)
		}
		if l.Bits == 8 && l.Anew > 0 {
			anew = append(anew, fmt.Sprintf("%s (%d channels)", l.Layer, l.Anew))
		}
		if l.Bits > 0 {
			computed++
		}
	}
	fmt.Fprintf(w, "int8: %.1f %% of the MACs", 100*q.Share)
	if q.Bound != nil {
		fmt.Fprintf(w, "; %d of %d layers stay in int16, with which %.4g %% of the calibration's images have another class (asked: at most %.4g %%)", len(wide), computed, 100**q.Apart, 100**q.Bound)
		if len(wide) > 0 {
			fmt.Fprintf(w, ": %s", strings.Join(wide[:min(len(wide), shownLayers)], ", "))
		}
		if more := len(wide) - shownLayers; more > 0 {
			fmt.Fprintf(w, " and %d more", more)
		}
	}
	if n := len(anew); n > 0 {
		fmt.Fprintf(w, "\nint8: %d layers have channels whose weights are not the file's codes, but quantised anew: %s", n, strings.Join(anew[:min(n, shownLayers)], ", "))
	}
	most := slices.Clone(q.Layers)
	slices.SortStableFunc(most, func(a, b evaluate.LayerLoss) int { return cmp.Compare(b.Alone, a.Alone) })
	fmt.Fprintln(w, "\nlayers that lose most, as a share of their output (root mean square): alone, and at the end of those before")
	for _, l := range most[:min(len(most), shownLayers)] {
		fmt.Fprintf(w, "%8.2f %% %8.2f %%  %s\n", 100*l.Alone, 100*l.Whole, l.Layer)
	}
}
