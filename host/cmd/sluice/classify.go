// sluice classify classifies images with a bundle.

package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/dse/golden"
	"github.com/sluice-npu/sluice/dse/graph"
	"github.com/sluice-npu/sluice/dse/images"
	"github.com/sluice-npu/sluice/host/cli"
	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/report"
	"github.com/sluice-npu/sluice/host/soft"
)

type classifyCmd struct {
	Bundle string    `arg:"" help:"Bundle, as dse compile writes it."`
	Images []string  `arg:"" placeholder:"IMAGE" help:"JPEG, PNG, WebP or BMP files; or one folder, .npy or IDX file of images."`
	Device string    `default:"soft" help:"Where it runs: soft, or what sluice run has."`
	Theta  thetaFlag `default:"0.8" help:"Exit threshold on the confidence (softmax top-1, of one logit its sigmoid, or what --exits named when the bundle was compiled): one for all exits, or one an exit, by commas; above 1 no exit but the last is taken."`
	Top    int       `default:"3" help:"Number of classes to show for each image."`
	N      int       `default:"100" short:"n" help:"Most images to take from a folder or an array, drawn from all parts of it."`
	JSON   bool      `name:"json" help:"Print JSON."`
	uioFlags
}

func (*classifyCmd) Help() string {
	return `Brings pictures to the network's input as the bundle remembers it, runs each alone on the device and says
which class it took them for, at which exit. Results of a device other than soft are held to the golden
executor's, bit for bit.

Example:
  sluice classify my.sluice cat.jpg dog.png
  sluice classify my.sluice photos --device cosim --theta 2`
}

type classified struct {
	Image string      `json:"image"`
	Class int         `json:"class"` // -1 if the exit is not a classifier
	Name  string      `json:"name"`  // "" if the bundle has no names
	Label *int        `json:"label"`
	Exit  string      `json:"exit"`
	Conf  float64     `json:"confidence"`
	By    string      `json:"confidence_by"` // quantity from which the confidence is computed
	Ns    int64       `json:"ns"`            // time on the device if the image runs alone, in ns
	Top   []classProb `json:"top"`
	// Values are the outputs of an exit that is not a classifier, up to valuesMost.
	Values []float32 `json:"values,omitempty"`
}

const valuesMost = 1000

type classProb struct {
	Class int     `json:"class"`
	Name  string  `json:"name"`
	Prob  float64 `json:"probability"`
}

type classifyDoc struct {
	cli.Header
	Bundle      string       `json:"bundle_hash"`
	Device      string       `json:"device"`
	Calibrated  bool         `json:"calibrated"`
	Calibration string       `json:"calibration"`
	Golden      bool         `json:"held_to_golden"`
	Unlike      int          `json:"results_differ"`
	Images      []classified `json:"images"`
}

// set opens the images on the command line.
func (c *classifyCmd) set(p *prepared) (*images.Set, error) {
	net := &p.bundle.Network
	in := images.Shape{H: net.InH, W: net.InW, C: net.InC}
	if p.info.From == "" {
		return nil, fmt.Errorf("%s does not say how pixels become its input; make it again with dse compile", c.Bundle)
	}
	if len(c.Images) == 1 {
		return p.info.Evaluation(c.Images[0], in, images.Options{Max: c.N})
	}
	s, err := images.OpenFiles(c.Images, in, p.info.Preprocess)
	if err != nil {
		return nil, err
	}
	return s, p.info.Pixels(s, c.Images[0])
}

// image classifies one image of a set, and reports whether the result differs from the golden executor's.
func (c *classifyCmd) image(e *cli.Env, dev device.Blocking, reference *golden.Program, p *prepared, set *images.Set, i int) (*classified, bool, error) {
	x, err := set.Image(i)
	if err != nil {
		return nil, false, cli.Coded(cli.Input, err)
	}
	input := p.bundle.Network.Input(x)
	got, differs, err := c.one(e, dev, reference, p.bundle, device.RequestID(i+1), input, c.Theta.theta.At)
	if err != nil {
		return nil, false, cli.Errorf(cli.Device, "%s: %w", set.Name(i), err)
	}
	got.Image = set.Name(i)
	for k := range got.Top {
		if t := &got.Top[k]; t.Class < len(p.info.Classes) {
			t.Name = p.info.Classes[t.Class]
		}
	}
	if len(got.Top) > 0 {
		got.Name = got.Top[0].Name
	}
	if set.Labels != nil {
		got.Label = &set.Labels[i]
	}
	return got, differs, nil
}

func (c *classifyCmd) Run(e *cli.Env) error {
	if c.Top < 1 || c.N < 1 {
		return cli.Errorf(cli.Usage, "--top %d, --n %d: expected at least 1", c.Top, c.N)
	}
	w := what{file: c.Bundle, board: &c.uioFlags}
	p, err := w.prepare(e, c.Theta.fits)
	if err != nil {
		return err
	}
	set, err := c.set(p)
	if err != nil {
		return cli.Coded(cli.Input, err)
	}
	summary, err := p.bundle.Summarize()
	if err != nil {
		return err
	}
	dev, err := w.openDevice(e.Ctx, c.Device, p, &soft.Memo{})
	if err != nil {
		return err
	}
	defer dev.Close()
	doc := classifyDoc{
		Header: cli.NewHeader("sluice-classify/1", 0, dev.Info().Label), Bundle: summary.BundleHash, Device: dev.Info().Name,
		Calibrated: !p.info.Missing, Calibration: p.info.Text(), Golden: c.Device != "soft",
	}
	if c.Device == "soft" || c.Device == "hls" {
		doc.Label = "estimated" // the times come from the bundle's table
	}
	if err := c.images(e, &doc, dev, p, set); err != nil {
		return err
	}
	for _, note := range set.Notes() {
		fmt.Fprintln(e.Stderr, "sluice: note: "+note)
	}
	if err := e.Print(doc, "", c.JSON, func(w io.Writer) error { return c.print(w, &doc) }); err != nil {
		return err
	}
	if doc.Unlike > 0 {
		return cli.Errorf(cli.Check, "%d of %d results are not those of the golden executor", doc.Unlike, len(doc.Images))
	}
	return nil
}

func (c *classifyCmd) images(e *cli.Env, doc *classifyDoc, dev device.Blocking, p *prepared, set *images.Set) error {
	reference, err := golden.New(p.bundle)
	if err != nil {
		return err
	}
	progress, done := e.Progress("classify", set.Len())
	defer done()
	for i := range set.Len() {
		got, differs, err := c.image(e, dev, reference, p, set, i)
		if err != nil {
			return err
		}
		if differs {
			doc.Unlike++
		}
		doc.Images = append(doc.Images, *got)
		progress(i + 1)
	}
	return nil
}

// one runs an image alone, one segment after another, until the image leaves at an exit.
func (c *classifyCmd) one(
	e *cli.Env, dev device.Blocking, reference *golden.Program, b *bundle.Bundle, id device.RequestID, input []int16, theta func(exit int) float32,
) (*classified, bool, error) {
	if err := dev.Admit(e.Ctx, b.Network.Name, id, device.InWords(input)); err != nil {
		return nil, false, err
	}
	defer dev.Release(id)
	want, err := reference.Run(input)
	if err != nil {
		return nil, false, err
	}
	out, differs := &classified{}, false
	for s := range b.Network.Exits {
		l := &device.Launch{ID: device.LaunchID(id)<<8 | device.LaunchID(s), Network: b.Network.Name, First: s, Last: s, Requests: []device.RequestID{id}, Theta: []float32{theta(s)}}
		rep, err := dev.Run(e.Ctx, l)
		if err != nil {
			return nil, false, err
		}
		if len(rep.Results) != 1 || len(rep.Results[0].Exits) != 1 {
			return nil, false, errors.New("the device reports no exit")
		}
		out.Ns += rep.Ns
		if c.Device == "hls" { // C-simulation has no clock
			for _, l := range b.Latency {
				if l.Network == b.Network.Name && l.First == s && l.Last == s && l.Batch == 1 {
					out.Ns += l.P50
				}
			}
		}
		r := &rep.Results[0]
		x := &r.Exits[0]
		if x.Raw != nil && !slices.Equal(x.Raw, want[s]) {
			differs = true
		}
		if r.Taken < 0 && s+1 < len(b.Network.Exits) {
			continue
		}
		raw := x.Raw
		if raw == nil {
			raw = want[s]
		}
		exit := &b.Network.Exits[s]
		out.Class, out.Exit, out.Conf, out.By = x.Class, exit.Name, float64(x.Confidence), measure(exit)
		if out.Top = top(exit, raw, c.Top); out.Top == nil {
			out.Values = exit.Logits(raw[:min(len(raw), valuesMost)])
		}
		return out, differs, nil
	}
	return nil, false, errors.New("no exit takes it")
}

// measure returns the name of an exit's confidence measure.
func measure(e *bundle.Exit) string {
	switch {
	case e.Confidence != "":
		return e.Confidence
	case e.Classes == 1:
		return graph.Sigmoid
	}
	return graph.Softmax
}

// top returns the n most probable classes. The probabilities are the softmax, or the logits' sigmoids if there is only
// one logit or an image can have several labels. top returns nil if the exit is no classifier.
func top(e *bundle.Exit, raw []int16, n int) []classProb {
	by := measure(e)
	if by == graph.NoClass {
		return nil
	}
	if len(raw) == 1 {
		class, p := bundle.ConfidenceAt(&bundle.Exit{Frac: e.Frac, Codes: e.Codes}, raw)
		return []classProb{{Class: class, Prob: float64(p)}, {Class: 1 - class, Prob: 1 - float64(p)}}[:min(n, 2)]
	}
	logits := e.Logits(raw)
	all, sum, most := make([]classProb, len(raw)), 0., float64(slices.Max(logits))
	for i, v := range logits {
		p := math.Exp(float64(v) - most)
		if by == graph.Sigmoid {
			p = 1 / (1 + math.Exp(-float64(v)))
		}
		all[i] = classProb{Class: i, Prob: p}
		sum += p
	}
	if by == graph.Sigmoid {
		sum = 1
	}
	slices.SortStableFunc(all, func(a, b classProb) int { return cmp.Compare(b.Prob, a.Prob) })
	all = all[:min(n, len(all))]
	for i := range all {
		all[i].Prob /= sum
	}
	return all
}

// shorten returns a short name for each image: its file name, or its path if file names are ambiguous.
func shorten(all []classified) func(path string) string {
	of := map[string]string{}
	for _, x := range all {
		base := filepath.Base(x.Image)
		if before, ok := of[base]; ok && before != x.Image {
			return func(path string) string { return path }
		}
		of[base] = x.Image
	}
	return filepath.Base
}

func (c *classifyCmd) print(w io.Writer, d *classifyDoc) error {
	fmt.Fprintf(w, "bundle %s on %s (times %s); calibration: %s\n\n", d.Bundle, d.Device, d.Label, d.Calibration)
	t := report.Table{Head: []string{"image", "class", "exit", "sure", "time", "likely"}}
	right, labelled := 0, 0
	short := shorten(d.Images)
	for _, x := range d.Images {
		name := func(c classProb) string {
			if c.Name != "" {
				return c.Name
			}
			return fmt.Sprint(c.Class)
		}
		var likely []string
		for _, c := range x.Top {
			likely = append(likely, fmt.Sprintf("%s %s", name(c), report.Percent(c.Prob)))
		}
		for _, v := range x.Values[:min(len(x.Values), c.Top)] {
			likely = append(likely, fmt.Sprintf("%.4g", v))
		}
		class, sure := "-", "-"
		if x.Class >= 0 {
			class, sure = name(classProb{Class: x.Class, Name: x.Name}), report.Percent(x.Conf)+" "+x.By
		}
		t.Add(short(x.Image), class, x.Exit, sure, report.Ns(x.Ns), strings.Join(likely, ", "))
		if x.Label != nil && x.Class >= 0 {
			if labelled++; *x.Label == x.Class {
				right++
			}
		}
	}
	if err := t.Write(w); err != nil {
		return err
	}
	if labelled > 0 {
		fmt.Fprintf(w, "\n%d of %d are of the class that they are labelled with\n", right, labelled)
	}
	return nil
}
