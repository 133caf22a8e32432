// Package recipe goes from what a user names, a network, images, a design, to a bundle: alike for every
// command, so that one network with one set of images has one bundle hash, whoever makes it and wherever
// its files lie.
//
// The bundle carries what it was made with: the hash of the network's file, how pixels become its input,
// the images that its ranges come from (their number and the hash of what the network saw) and the names
// of the classes. A network without images of its own takes noise; Info.Missing says so, and every
// output repeats it.
package recipe

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/dse/compile"
	"github.com/sluice-npu/sluice/dse/cost"
	"github.com/sluice-npu/sluice/dse/graph"
	"github.com/sluice-npu/sluice/dse/images"
	"github.com/sluice-npu/sluice/dse/onnx"
	"github.com/sluice-npu/sluice/dse/quant"
	"github.com/sluice-npu/sluice/dse/search"
	"github.com/sluice-npu/sluice/dse/zoo"
	"github.com/sluice-npu/sluice/hw/configs"
)

// ErrRecipe is what Make refuses of the recipe itself.
var ErrRecipe = errors.New("the recipe is wrong")

// Import are the flags that say how the file of a network is read: every command that reads one has them, and has them
// from here.
type Import struct {
	Exits     string    `from:"network" placeholder:"FILE" help:"YAML file that names the tensors that are exits, in place of the graph's outputs."`
	InputSide onnx.Side `from:"network" placeholder:"PIXELS|HxW" help:"Height and width of the input, as 224 or 480x640, in place of the model's own, as where it leaves them open."`
}

// Flags are a command's flags about a network of the user's own; kong fills them in. The tag from says that nothing
// reads them where no network is compiled.
type Flags struct {
	Import
	Calibrate  string    `from:"network" placeholder:"DIR|FILE" help:"Images that the ranges are taken from: a folder of JPEG, PNG, WebP and BMP files, .npy or IDX. Without, networks of one's own take noise."`
	Fit        string    `from:"network" default:"crop" enum:"crop,stretch" help:"Images of another shape: crop (the middle, the shorter side first scaled to --resize) or stretch."`
	Resize     int       `from:"network" placeholder:"PIXELS" help:"Shorter side before the middle is taken (default: the network's input)."`
	Filter     string    `from:"network" default:"bilinear" enum:"bilinear,bicubic" help:"Images are scaled with: bilinear or bicubic, both as PIL has them (antialiased)."`
	EXIF       string    `from:"network" name:"exif" default:"ignore" enum:"ignore,turn" help:"Photographs stored turned by their EXIF data: ignore (as PIL and torchvision read them) or turn them upright (as OpenCV)."`
	Mean       []float64 `from:"network" placeholder:"M,..." help:"Subtracted from pixels of 0 to 1: one number, or one a channel."`
	Std        []float64 `from:"network" placeholder:"S,..." help:"Divides what is left: one number, or one a channel."`
	InputRange float64   `from:"network" placeholder:"X" help:"Largest magnitude of the network's input (default: what mean and deviation make of pixels, or the largest of the images given as floats)."`
	Classes    string    `from:"network" placeholder:"FILE" help:"Names of the classes, one a line, in the order of the logits."`
}

// Recipe is everything that a bundle depends on, beside the design.
type Recipe struct {
	Flags
	Network string // a name of the zoo, or an ONNX file
	Seed    uint64 // of weights that the network lacks, and of noise
	Images  int    // to calibrate with; 0: as many as some 64 GMAC are, 8 to 512
	Data    string // folder of Fashion-MNIST, which the zoo's trained networks are calibrated with
}

const (
	autoMACs   = 64e9
	autoLeast  = 8
	autoMost   = 512
	noise      = 2 // images
	maxImages  = 60000
	fashion    = "fashion-mnist"
	noClasses  = 1 << 16
	classChunk = bundle.MaxString
)

// Own tells whether a network is a file of the user's, not the zoo's.
func Own(network string) bool {
	return strings.HasSuffix(network, ".onnx") || strings.ContainsRune(network, os.PathSeparator)
}

// Own tells whether the network is a file of the user's, not the zoo's.
func (r *Recipe) Own() bool { return Own(r.Network) }

// Trained are the zoo's networks that have learned something, of Fashion-MNIST.
func (r *Recipe) Trained() bool { return r.Network == "fashion" || r.Network == "tiny" }

// Graph imports the network.
func (r *Recipe) Graph() (*graph.Graph, error) { return r.Import.Graph(r.Network, r.Seed) }

// Graph imports a network; weights that it lacks are drawn from seed.
func (i *Import) Graph(network string, seed uint64) (*graph.Graph, error) {
	o, err := i.options(seed)
	if err != nil {
		return nil, err
	}
	read := zoo.LoadWith
	if Own(network) {
		read = onnx.ImportFile
	}
	g, err := read(network, o)
	if err != nil {
		return nil, err
	}
	if err := quant.Averages(g); err != nil { // before any work: no design and no numbers change it
		return nil, fmt.Errorf("network %s: %w", g.Name, err)
	}
	return g, nil
}

// Survey says what stands between a network and a bundle: operators, and layers that no build of the hardware has.
func (i *Import) Survey(network string) (*onnx.Survey, error) {
	o, err := i.options(1)
	if err != nil {
		return nil, err
	}
	var s *onnx.Survey
	if Own(network) {
		s, err = onnx.SurveyFile(network, o)
	} else {
		var content []byte
		if content, err = zoo.Model(network); err == nil {
			s, err = onnx.SurveyOf(bytes.NewReader(content), o)
		}
	}
	if err != nil || s.Graph == nil {
		return s, err
	}
	if err := mappable(s.Graph); err != nil {
		s.Needs = append(s.Needs, onnx.Need{Op: "layers", Why: err.Error(), Nodes: 1})
	}
	return s, nil
}

// mappable refuses what the quantiser and the compiler do whatever the weights, the images and the design.
func mappable(g *graph.Graph) error {
	if err := quant.Averages(g); err != nil {
		return err
	}
	d, err := configs.Load("zc706") // any that is large; what does not fit it is no fault of the network's
	if err != nil {
		return err
	}
	w, err := search.NewWorkload(g)
	if errors.Is(err, search.ErrNothing) { // no multiplication
		return nil
	}
	if err != nil {
		return err
	}
	if _, err = w.Lower(d); errors.Is(err, cost.ErrGeom) {
		return err
	}
	return nil
}

// Tensors are the names of those that --exits says are exits, none where it is not given.
func (i *Import) Tensors() ([]string, error) {
	if i.Exits == "" {
		return nil, nil
	}
	return onnx.LoadExits(i.Exits)
}

func (i *Import) options(seed uint64) (onnx.Options, error) {
	names, err := i.Tensors()
	return onnx.Options{WeightSeed: seed, InputSide: i.InputSide, Exits: names}, err
}

// Shape is the input of a graph.
func Shape(g *graph.Graph) images.Shape {
	in := g.Tensors[g.Input]
	return images.Shape{H: in.H, W: in.W, C: in.C}
}

func (r *Recipe) preprocess(g *graph.Graph) (images.Preprocess, error) {
	return images.Preprocess{Fit: r.Fit, Resize: r.Resize, Filter: r.Filter, EXIF: r.EXIF, Mean: r.Mean, Std: r.Std, Range: r.InputRange}.For(Shape(g).C)
}

func (r *Recipe) count(g *graph.Graph) (int, error) {
	if r.Images < 0 || r.Images > maxImages {
		return 0, fmt.Errorf("%w: %d images to calibrate with, expected 1 to %d, or 0 for as many as are quick", ErrRecipe, r.Images, maxImages)
	}
	if r.Images > 0 {
		return r.Images, nil
	}
	macs := int64(1)
	for _, m := range g.SegmentMACs() {
		macs += m
	}
	return int(min(max(autoMACs/macs, autoLeast), autoMost)), nil
}

// Calibration are the images whose ranges a network takes, and what to remember of them.
type Calibration struct {
	Info
	Set *images.Set
}

// Calibration reads what the ranges come from.
func (r *Recipe) Calibration(g *graph.Graph) (*Calibration, error) {
	p, err := r.preprocess(g)
	if err != nil {
		return nil, err
	}
	n, err := r.count(g)
	if err != nil {
		return nil, err
	}
	c := &Calibration{Info: Info{Preprocess: p, Logits: bundle.ClassesOf(g.Tensors[g.Exits[len(g.Exits)-1].Tensor].C)}}
	if r.Classes != "" {
		if c.Classes, err = images.LoadClasses(r.Classes); err != nil {
			return nil, err
		}
		if len(c.Classes) != c.Logits {
			return nil, fmt.Errorf("%s: %w: %d classes are named, the network's last exit has %d", r.Classes, ErrRecipe, len(c.Classes), c.Logits)
		}
	}
	in := Shape(g)
	switch {
	case r.Calibrate != "":
		// What the ranges come from needs no classes; names of folders are a help where they can be those of the logits.
		if c.Set, err = images.Open(r.Calibrate, in, p, images.Options{Max: n, Labels: "none"}); err != nil {
			return nil, err
		}
		if c.Classes == nil {
			c.Classes = c.Set.FolderClasses(r.Calibrate, c.Logits)
		}
		c.From = "images"
	case r.Trained():
		im, err := zoo.FashionMNIST(r.Data, true, n)
		if err != nil {
			return nil, err
		}
		c.Set, c.From = images.Of("Fashion-MNIST", im.Pixels, im.Labels), fashion
	default:
		c.Missing, c.From = true, "noise"
		c.Set = images.Of("noise", Noise(in, min(n, noise), r.Seed, p.InputRange(in.C)), nil)
	}
	largest := 0.0
	if c.Digest, largest, err = c.Set.Digest(); err != nil {
		return nil, err
	}
	c.Images = c.Set.Len()
	if c.Floats = c.Set.Floats; c.Floats && p.Range == 0 {
		c.Preprocess.Range = largest
		if largest == 0 {
			return nil, fmt.Errorf("%s: %w: all of its elements are zero", r.Calibrate, ErrRecipe)
		}
	}
	c.Preprocess.Range = c.Preprocess.InputRange(in.C)
	return c, nil
}

// Notes say what the user should know of the images, those of the evaluation included where there are such, and of
// what is taken for granted of the network's exits. A sentence each.
func (c *Calibration) Notes(g *graph.Graph, evaluated *images.Set) []string {
	notes := c.Set.Notes()
	if !c.Missing {
		switch same := c.Set.Distinct(); {
		case c.Images == 1:
			notes = append(notes, "the ranges come from one image: what other images exceed saturates; calibrate with some dozen")
		case same == 1:
			notes = append(notes, fmt.Sprintf("the ranges come from %d images that are all the same", c.Images))
		case 2*same <= c.Images:
			notes = append(notes, fmt.Sprintf("the ranges come from %d images of which %d differ", c.Images, same))
		}
	}
	if evaluated != nil {
		notes = append(notes, evaluated.Notes()...)
	}
	for _, x := range g.Exits {
		switch one := g.Tensors[x.Tensor].C == 1; {
		case x.Activation == "Sigmoid" && !one:
			notes = append(notes, fmt.Sprintf("exit %s ends in a Sigmoid of %d classes, as networks do whose classes are no alternatives: the answer here is the class of the largest logit, its confidence that of a softmax; for others read the logits", x.Name, g.Tensors[x.Tensor].C))
		case one && x.Activation == "":
			notes = append(notes, fmt.Sprintf("exit %s has one output: it is taken for the logit of a yes-or-no question (sigmoid: class 1 from 0.5 on); a regression's confidence and class mean nothing", x.Name))
		}
	}
	slices.Sort(notes)
	return slices.Compact(notes)
}

// Noise are inputs that mean nothing: evenly distributed from -limit to limit.
func Noise(in images.Shape, n int, seed uint64, limit float64) [][]float32 {
	rng := rand.New(rand.NewPCG(seed, 2))
	out := make([][]float32, n)
	for i := range out {
		out[i] = make([]float32, in.Elems())
		for k := range out[i] {
			out[i][k] = (2*rng.Float32() - 1) * float32(limit)
		}
	}
	return out
}

// Make compiles the network for a design.
func (r *Recipe) Make(d configs.Design) (*bundle.Bundle, error) {
	g, err := r.Graph()
	if err != nil {
		return nil, err
	}
	c, err := r.Calibration(g)
	if err != nil {
		return nil, err
	}
	return r.MakeFrom(g, c, d)
}

// MakeFrom is Make with the network and the images read already.
func (r *Recipe) MakeFrom(g *graph.Graph, c *Calibration, d configs.Design) (*bundle.Bundle, error) {
	q, err := c.Quantise(g)
	if err != nil {
		return nil, err
	}
	return r.MakeOf(q, c, d)
}

// Quantise takes the network to integers.
func (c *Calibration) Quantise(g *graph.Graph) (*quant.Network, error) {
	return quant.QuantiseFrom(g, c.Set.Len(), c.Set.Image, quant.Options{InputRange: c.Preprocess.Range})
}

// MakeOf is MakeFrom with the network in integers already.
func (r *Recipe) MakeOf(q *quant.Network, c *Calibration, d configs.Design) (*bundle.Bundle, error) {
	meta, err := r.Meta(c.Info)
	if err != nil {
		return nil, err
	}
	return compile.Compile(q, d, compile.Options{Meta: meta})
}

// Meta is what the bundle says of where it comes from.
func (r *Recipe) Meta(i Info) (map[string]string, error) {
	meta, err := i.meta()
	if err != nil {
		return nil, err
	}
	meta["seed"] = fmt.Sprint(r.Seed)
	meta["source"] = "zoo"
	if r.Own() {
		meta["source"] = "onnx"
		if meta["source_sha256"], err = fileHash(r.Network); err != nil {
			return nil, err
		}
	}
	return meta, nil
}

// fileHash is the SHA-256 of a file.
func fileHash(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("hash the network: %w", err)
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("hash the network: %w", err)
	}
	return fmt.Sprintf("%x", h.Sum(nil)), nil
}

// Evaluation opens labelled or unlabelled images as a bundle's network wants them.
func (i *Info) Evaluation(path string, in images.Shape, o images.Options) (*images.Set, error) {
	if o.Classes == nil {
		o.Classes = i.Classes
	}
	o.Logits = i.Logits
	s, err := images.Open(path, in, i.Preprocess, o)
	if err != nil {
		return nil, err
	}
	if s.Classes != nil && i.Classes != nil && !slices.Equal(s.Classes, i.Classes) {
		return nil, fmt.Errorf("%s: %w: its classes are not those of the bundle", path, images.ErrLabels)
	}
	if err := i.Pixels(s, path); err != nil {
		return nil, err
	}
	return s, nil
}

// Pixels refuses pictures where the bundle knows floats only.
func (i *Info) Pixels(s *images.Set, path string) error {
	if i.Floats && !s.Floats && len(i.Preprocess.Mean)+len(i.Preprocess.Std) == 0 {
		return fmt.Errorf("%s: %w: the network was calibrated with floats, so nothing says how pixels become its input; compile it with --mean and --std", path, images.ErrPreprocess)
	}
	return nil
}
