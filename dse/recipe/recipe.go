// Package recipe compiles a network and its images for a design to a bundle. All commands use this package. So the same
// network and images result in the same bundle hash, independent of the location of the files.
//
// The bundle records its provenance: the hash of the network's file, the preprocessing of pixels, the number and hash
// of the calibration images, and the names of the classes. Without images, the ranges are determined from noise. In
// this case, Info.Missing is set, and each output contains a warning.
package recipe

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/dse/compile"
	"github.com/sluice-npu/sluice/dse/cost"
	"github.com/sluice-npu/sluice/dse/files"
	"github.com/sluice-npu/sluice/dse/graph"
	"github.com/sluice-npu/sluice/dse/images"
	"github.com/sluice-npu/sluice/dse/lower"
	"github.com/sluice-npu/sluice/dse/onnx"
	"github.com/sluice-npu/sluice/dse/quant"
	"github.com/sluice-npu/sluice/dse/search"
	"github.com/sluice-npu/sluice/dse/zoo"
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
)

// ErrRecipe is wrapped by errors about the recipe itself.
var ErrRecipe = errors.New("invalid recipe")

// Import contains the flags for reading a network's file. Each command that reads such a file embeds Import.
type Import struct {
	Exits     string    `from:"network" placeholder:"FILE" help:"YAML file that names the tensors that are exits, in place of the graph's outputs."`
	InputSide onnx.Side `from:"network" placeholder:"PIXELS|HxW" help:"Height and width of the input, as 224 or 480x640, in place of the model's own, as where it leaves them open."`
	Gates     bool      `from:"network" help:"Functions x * g(x), as SiLU and GELU, are a curve of g and a product, not one curve: two layers more, a quarter of the error."`
}

// Called returns the name that package counted uses for a network with these flags.
func (i Import) Called(network string) string {
	switch s := i.InputSide; {
	case s == onnx.Side{}:
	case s.H == s.W:
		network += fmt.Sprintf(" at %d", s.H)
	default:
		network += fmt.Sprintf(" at %dx%d", s.H, s.W)
	}
	if i.Exits != "" {
		network += " with exits of " + i.Exits
	}
	if i.Gates {
		network += " with gates"
	}
	return network
}

// Flags are the flags of a command that concern a user's own network. Package kong sets them. The tag "from" marks
// flags that are read only if a network is compiled.
type Flags struct {
	Import
	Calibrate  string    `from:"network" placeholder:"DIR|FILE" help:"Images that the ranges are taken from: a folder of JPEG, PNG, WebP and BMP files, .npy or IDX. Without, networks of one's own take noise."`
	Fit        string    `from:"network" default:"crop" enum:"crop,stretch" help:"Images of another shape: crop (the middle, the shorter side first scaled to --resize) or stretch."`
	Resize     int       `from:"network" placeholder:"PIXELS" help:"Shorter side before the middle is taken (default: the network's input)."`
	Filter     string    `from:"network" default:"bilinear" enum:"bilinear,bicubic" help:"Images are scaled with: bilinear or bicubic, both as PIL has them (antialiased)."`
	EXIF       string    `from:"network" name:"exif" default:"ignore" enum:"ignore,turn" help:"Photographs stored turned by their EXIF data: ignore (as PIL and torchvision read them) or turn them upright (as OpenCV)."`
	Mean       []float64 `from:"network" placeholder:"M,..." help:"Subtracted from pixels of 0 to 1: one number, or one a channel."`
	Std        []float64 `from:"network" placeholder:"S,..." help:"Divides what is left: one number, or one a channel."`
	Range      string    `from:"network" placeholder:"max|mse|percentile:P" help:"What of the values that calibration sees the scales hold: max (all; the default, but of int8), percentile:99.99 (what is beyond saturates), or mse (the least square error; the default of int8). Exits are always held whole."`
	Headroom   *float64  `from:"network" placeholder:"X" help:"How much larger than that other images' values may be before they saturate, from 1 on (default: 1.25, of int8 1)."`
	InputRange float64   `from:"network" placeholder:"X" help:"Largest magnitude of the network's input (default: what mean and deviation make of pixels, or the largest of the images given as floats)."`
	Classes    string    `from:"network" placeholder:"FILE" help:"Names of the classes, one a line, in the order of the logits."`
}

// Recipe contains everything that a bundle depends on, except the design.
type Recipe struct {
	Flags
	Network string // name of a network in the zoo, or path of an ONNX file
	Seed    uint64 // seed for missing weights and for noise
	Images  int    // number of calibration images; 0: as many as need about 64 GMAC, from 8 to 512
	Data    string // folder of Fashion-MNIST, for the zoo's trained networks
}

const (
	autoMACs  = 64e9
	autoLeast = 8
	autoMost  = 512
	noise     = 2 // number of noise images

	few   = 4    // a note is added if there are fewer calibration images
	alike = 0.02 // a note is added if the images have a smaller mean difference; photographs of different things differ by 0.1 to 0.3

	maxHeadroom = 1024 // with this headroom, values still have 5 of 15 bits
	maxImages   = 60000
	fashion     = "fashion-mnist"
	noClasses   = 1 << 16
	classChunk  = bundle.MaxString
)

// Own reports whether a network is a user's file instead of a network of the zoo.
func Own(network string) bool {
	return strings.HasSuffix(network, ".onnx") || strings.ContainsRune(network, os.PathSeparator)
}

// Own reports whether the recipe's network is a user's file.
func (r *Recipe) Own() bool { return Own(r.Network) }

// Trained reports whether the network is a network of the zoo that was trained on Fashion-MNIST.
func (r *Recipe) Trained() bool {
	return slices.Contains([]string{"fashion", "mobile", "tiny"}, r.Network)
}

// Graph imports the network for a design.
func (r *Recipe) Graph(d configs.Design) (*graph.Graph, error) {
	return r.Import.Graph(r.Network, r.Seed, d.Post)
}

// Graph imports a network. The parameter post means that the design has the post stage. Missing weights are drawn from
// seed.
func (i *Import) Graph(network string, seed uint64, post bool) (*graph.Graph, error) {
	o, err := i.options(seed)
	if err != nil {
		return nil, err
	}
	o.Post = post
	read := zoo.LoadWith
	if Own(network) {
		read = onnx.ImportFile
	}
	g, err := read(network, o)
	if err != nil {
		return nil, err
	}
	if err := quant.Averages(g); err != nil { // checked first, because the result does not depend on the design or the weights
		return nil, fmt.Errorf("network %s: %w", g.Name, err)
	}
	return g, nil
}

// Survey returns the reasons why a network cannot be compiled: unsupported operators, and layers that no build of the
// hardware supports.
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
	post := len(s.Post) > 0
	err = mappable(s.Graph)
	if err == nil {
		if s.Layers, s.LayersOn = layers(s.Graph, post); s.Layers > abi.LMax {
			// Count again with the file's weights: layers with equal weights are merged, but random weights differ.
			if g, err := i.Graph(network, 1, post); err == nil {
				s.Layers, s.LayersOn = layers(g, post)
			}
		}
		if s.Layers > abi.LMax {
			err = fmt.Errorf("%w: at least %d on %s, which needs the fewest of %s; expected at most L_MAX = %d",
				lower.ErrTooMany, s.Layers, s.LayersOn, strings.Join(large, ", "), abi.LMax)
		}
	}
	if err != nil {
		s.Needs = append(s.Needs, onnx.Need{Op: "layers", Why: err.Error(), Nodes: 1})
	}
	s.Graph = nil // because all networks of a folder together may not fit in memory
	return s, nil
}

// large lists the shipped configurations on which networks need the fewest layers.
var large = []string{"zc706", "zc706-mobile", "zcu104", "zcu104-mobile"}

// layers returns the smallest number of layers of a network on a configuration in `large` (if post: one with the post
// stage), and the configuration. It returns 0 if the network fits none of them. The quantiser may add layers.
func layers(g *graph.Graph, post bool) (least int, on string) {
	w, err := search.NewWorkload(g)
	if err != nil {
		return 0, ""
	}
	for _, name := range large {
		d, err := configs.Load(name)
		if err != nil || post && !d.Post {
			continue
		}
		made, err := w.Lower(d)
		n, over := len(made), (*lower.TooManyError)(nil)
		if errors.As(err, &over) {
			n = over.Widest
		} else if err != nil {
			continue
		}
		if on == "" || n < least {
			least, on = n, name
		}
	}
	return least, on
}

// mappable returns an error of the quantiser or the compiler that does not depend on weights, images or the design.
func mappable(g *graph.Graph) error {
	if err := quant.Averages(g); err != nil {
		return err
	}
	d, err := configs.Load("zc706") // any large design; it is not an error if the network does not fit this design
	if err != nil {
		return err
	}
	w, err := search.NewWorkload(g)
	if errors.Is(err, search.ErrNothing) { // the network has no multiplications
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

// Tensors returns the names of the exit tensors in the file of --exits. It returns nil without this flag.
func (i *Import) Tensors() ([]string, error) {
	o, err := i.options(0)
	return o.Exits, err
}

func (i *Import) options(seed uint64) (onnx.Options, error) {
	o := onnx.Options{WeightSeed: seed, InputSide: i.InputSide, Gates: i.Gates}
	if i.Exits == "" {
		return o, nil
	}
	var err error
	o.Exits, o.Confidence, err = onnx.LoadExits(i.Exits)
	return o, err
}

// Shape returns the shape of a graph's input.
func Shape(g *graph.Graph) images.Shape {
	in := g.Tensors[g.Input]
	return images.Shape{H: in.H, W: in.W, C: in.C}
}

func (r *Recipe) preprocess(g *graph.Graph) (images.Preprocess, error) {
	p := images.Preprocess{Fit: r.Fit, Resize: r.Resize, Filter: r.Filter, EXIF: r.EXIF, Mean: r.Mean, Std: r.Std, Range: r.InputRange}
	if g.Bytes {
		if len(r.Mean)+len(r.Std) > 0 || r.InputRange != 0 {
			return p, fmt.Errorf("%w: the network's input are bytes, which it normalises itself; --mean, --std and --input-range do not go with it", ErrRecipe)
		}
		p.Std, p.Range = []float64{1. / 255}, 255 // because package images uses pixels from 0 to 1
	}
	return p.For(Shape(g).C)
}

// quantising returns the options of the quantiser that the flags specify.
func (r *Recipe) quantising() (o quant.Options, err error) {
	if r.Range != "" {
		if err := o.Range.UnmarshalText([]byte(r.Range)); err != nil {
			return o, fmt.Errorf("%w: --range %w", ErrRecipe, err)
		}
	}
	if r.Headroom != nil {
		if o.Headroom = *r.Headroom; !(o.Headroom >= 1 && o.Headroom <= maxHeadroom) {
			return o, fmt.Errorf("%w: --headroom %v, expected a number from 1 to %d", ErrRecipe, o.Headroom, maxHeadroom)
		}
	}
	return o, nil
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

// Calibration contains the calibration images and the information about them (Info).
type Calibration struct {
	Info
	Set     *images.Set
	options quant.Options
	ranged  bool     // the flag --range was used
	skipped []string // errors about unreadable images that calibration did not use
}

// Calibration opens the calibration images.
func (r *Recipe) Calibration(g *graph.Graph) (*Calibration, error) {
	p, err := r.preprocess(g)
	if err != nil {
		return nil, err
	}
	n, err := r.count(g)
	if err != nil {
		return nil, err
	}
	o, err := r.quantising()
	if err != nil {
		return nil, err
	}
	c := &Calibration{options: o, ranged: r.Range != "", Info: Info{Preprocess: p, Bytes: g.Bytes, Logits: bundle.ClassesOf(g.Tensors[g.Exits[len(g.Exits)-1].Tensor].C)}}
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
		// Calibration needs no classes, but names of folders are used if they can be names of classes.
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
	if err := c.Pixels(c.Set, r.Calibrate); err != nil {
		return nil, err
	}
	if c.Floats = c.Set.Floats; c.Floats && p.Range == 0 {
		c.Preprocess.Range = largest
		if largest == 0 {
			return nil, fmt.Errorf("%s: %w: all of its elements are zero", r.Calibrate, ErrRecipe)
		}
	}
	c.Preprocess.Range = c.Preprocess.InputRange(in.C)
	return c, nil
}

// Notes returns notes to the user about the images, and about assumptions on exits. Each note is a sentence.
func (c *Calibration) Notes(g *graph.Graph, evaluated *images.Set) []string {
	notes := c.Set.Notes()
	if !c.Missing {
		notes = append(notes, c.imageNotes()...)
	}
	if evaluated != nil {
		notes = append(notes, evaluated.Notes()...)
	}
	for _, why := range c.skipped {
		notes = append(notes, why+": skipped, as calibration left it out; of the others that it left out, those that nothing was measured on were not read")
	}
	notes = append(notes, severalQuestions(g)...)
	for i := range g.Exits {
		notes = append(notes, exitNotes(g, i)...)
	}
	slices.Sort(notes)
	return slices.Compact(notes)
}

// imageNotes returns notes about weaknesses of the calibration images.
func (c *Calibration) imageNotes() (notes []string) {
	switch same := c.Set.Distinct(); {
	case c.Images == 1:
		notes = append(notes, "the ranges come from one image: what other images exceed saturates; calibrate with some dozen, or leave them room (--headroom 4)")
	case same == 1:
		notes = append(notes, fmt.Sprintf("the ranges come from %d images that are all the same", c.Images))
	case 2*same <= c.Images:
		notes = append(notes, fmt.Sprintf("the ranges come from %d images of which %d differ", c.Images, same))
	case c.Set.Apart() < alike:
		notes = append(notes, fmt.Sprintf("the ranges come from %d images that are alike, as of one scene: on average they are no more than %.1f %% of the largest input apart; what unlike ones exceed saturates", c.Images, 100*c.Set.Apart()))
	case c.Images < few:
		notes = append(notes, fmt.Sprintf("the ranges come from %d images: what other images exceed saturates; calibrate with some dozen, or leave them room (--headroom 4)", c.Images))
	}
	blank, grey := c.Set.Dull()
	if 2*blank >= c.Images && c.Images > 1 {
		notes = append(notes, fmt.Sprintf("%d of the %d images that the ranges come from have one colour throughout, as black ones", blank, c.Images))
	}
	if grey == c.Images && blank < c.Images {
		notes = append(notes, "the ranges come from pictures without colours, the network's input has three channels: what colours exceed saturates")
	}
	return notes
}

func exitNotes(g *graph.Graph, i int) (notes []string) {
	const named = "; a file of --exits says otherwise (confidence: NAME)"
	x := &g.Exits[i]
	n, ends := g.Tensors[x.Tensor].C, endsIn(g, x.Tensor)
	measure := "softmax"
	if g.ConfidenceOf(i) == graph.Sigmoid || n == 1 {
		measure = "sigmoid"
	}
	switch {
	case x.Dims != nil && x.Activation != "":
		notes = append(notes, fmt.Sprintf("exit %s is a map that ends in a %s, which is left to the host: its values are what goes into that, not what the file answers", x.Name, x.Activation))
	case x.Dims == nil && x.Confidence != graph.NoClass && ends != "":
		notes = append(notes, fmt.Sprintf("exit %s ends in %s, so its values are no logits: class and confidence are those of the %s of them, and mean nothing of probabilities or a regression; a file of --exits names a tensor before that, or says confidence: none", x.Name, ends, measure))
		return notes
	}
	if x.Confidence != "" {
		return notes
	}
	switch {
	case x.Dims != nil:
		if i+1 < len(g.Exits) {
			notes = append(notes, fmt.Sprintf("exit %s is a map: it has no class and is never sure, so nothing leaves there", x.Name))
		}
	case x.Activation == "HardSigmoid":
		notes = append(notes, fmt.Sprintf("exit %s ends in a HardSigmoid: its class is the file's, but it is as sure as by a Sigmoid of the same slope%s", x.Name, named))
	case x.Activation == "Sigmoid" && n > 1:
		notes = append(notes, fmt.Sprintf("exit %s ends in a Sigmoid of %d labels, as networks do whose labels are no alternatives: it is as sure as of the label that it is least sure of, its class is the likeliest, the others are in its logits%s", x.Name, n, named))
	case n == 1 && (x.Activation == "Softmax" || x.Activation == "LogSoftmax"):
		notes = append(notes, fmt.Sprintf("exit %s is a %s of one output, which is always the same: it is taken for the logit of a yes-or-no question (sigmoid: class 1 from 0.5 on)%s", x.Name, x.Activation, named))
	case n == 1 && x.Activation == "":
		notes = append(notes, fmt.Sprintf("exit %s has one output: it is taken for the logit of a yes-or-no question (sigmoid: class 1 from 0.5 on), of a regression class and confidence mean nothing%s", x.Name, named))
	}
	return notes
}

// severalQuestions returns a note if exits have different numbers of classes.
func severalQuestions(g *graph.Graph) []string {
	first := -1
	for i, x := range g.Exits {
		n := bundle.ClassesOf(g.Tensors[x.Tensor].C)
		switch {
		case g.ConfidenceOf(i) == graph.NoClass:
		case first < 0:
			first = i
		case n != bundle.ClassesOf(g.Tensors[g.Exits[first].Tensor].C):
			return []string{fmt.Sprintf("exits %s and %s have %d and %d classes, as outputs do that answer different questions: the first that is sure is taken for the answer, and what is behind it is not computed; a file of --exits names those of one question",
				g.Exits[first].Name, x.Name, bundle.ClassesOf(g.Tensors[g.Exits[first].Tensor].C), n)}
		}
	}
	return nil
}

// endsIn names the function that computes a tensor or a part of the tensor. It returns "" if no function does.
func endsIn(g *graph.Graph, t graph.TensorID) string {
	at := g.Producers()[t]
	if at < 0 {
		return ""
	}
	n := &g.Nodes[at]
	switch {
	case n.Function != nil:
		return n.Function.String()
	case n.ClampLo == 0 && n.ClampHi == 1:
		return "a clip to 0..1"
	case n.Op == graph.Concat || n.Op == graph.Reshape:
		for _, in := range n.Inputs {
			if f := endsIn(g, in); f != "" {
				return f
			}
		}
	}
	return ""
}

// Noise returns n inputs with uniform noise from -limit to limit.
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
	g, err := r.Graph(d)
	if err != nil {
		return nil, err
	}
	c, err := r.Calibration(g)
	if err != nil {
		return nil, err
	}
	return r.MakeFrom(g, c, d)
}

// MakeFrom compiles a network for a design. The network and the images have already been read.
func (r *Recipe) MakeFrom(g *graph.Graph, c *Calibration, d configs.Design) (*bundle.Bundle, error) {
	if d.Int8() {
		seen, err := c.See(g)
		if err != nil {
			return nil, err
		}
		n, err := seen.Network(nil)
		if err != nil {
			return nil, err
		}
		return r.MakeInt8(n, c, d)
	}
	q, err := c.Quantise(g)
	if err != nil {
		return nil, err
	}
	return r.MakeOf(q, c, d)
}

// stepped is the limit for the simulated cycles of a latency table. Their simulation takes a third of a second.
const stepped = 1 << 20

// MakeInt8 compiles a network that is already quantised to int8, for an int8 design.
func (r *Recipe) MakeInt8(n *quant.Int8, c *Calibration, d configs.Design) (*bundle.Bundle, error) {
	meta, err := r.Meta(c.Info)
	if err != nil {
		return nil, err
	}
	return compile.Int8(n, d, compile.Options{Meta: meta, Stepped: stepped})
}

// own returns the calibration images. left returns the other images of the folder, and skips unreadable ones.
func (c *Calibration) own() quant.Images { return quant.Images{Count: c.Set.Len(), Image: c.Set.Image} }

func (c *Calibration) left() (left quant.Images) {
	if s := c.Set.Left(); s != nil {
		left = quant.Images{Count: s.Len(), Image: s.Image, Unreadable: func(err error) {
			if !slices.Contains(c.skipped, err.Error()) {
				c.skipped = append(c.skipped, err.Error())
			}
		}}
	}
	return left
}

// Measure returns the loss of the network in integers, compared with the network in floats.
func (c *Calibration) Measure(q *quant.Network) (*quant.Loss, error) {
	return q.Measure(c.own(), c.left(), c.Set.Saw, quant.Options{})
}

// Beside returns at most `most` images, chosen as in Measure: calibration images, and images that were not used for it.
func (c *Calibration) Beside(most int) (quant.Images, error) {
	both, _, err := c.own().Beside(c.left(), most, nil, c.Set.Saw)
	return both, err
}

// Quantise quantises the network to 16-bit integers.
func (c *Calibration) Quantise(g *graph.Graph) (*quant.Network, error) {
	o := c.options
	o.InputRange = c.Preprocess.Range
	return quant.QuantiseFrom(g, c.Set.Len(), c.Set.Image, o)
}

// See runs the calibration images through the network, so that the network can be quantised to int8. By default, the
// scales have no headroom, because with 8 bits, headroom causes more error than it prevents.
func (c *Calibration) See(g *graph.Graph) (*quant.Seen, error) {
	o := c.options
	if o.Headroom == 0 {
		o.Headroom = 1
	}
	if !c.ranged {
		o.Range.MSE = true
	}
	return quant.See(g, c.Set.Len(), c.Set.Image, o)
}

// MakeOf compiles a network that is already quantised to 16 bits.
func (r *Recipe) MakeOf(q *quant.Network, c *Calibration, d configs.Design) (*bundle.Bundle, error) {
	meta, err := r.Meta(c.Info)
	if err != nil {
		return nil, err
	}
	return compile.Compile(q, d, compile.Options{Meta: meta, Stepped: stepped})
}

// Meta returns the record of the bundle's provenance.
func (r *Recipe) Meta(i Info) (map[string]string, error) {
	meta, err := i.meta()
	if err != nil {
		return nil, err
	}
	meta["seed"] = fmt.Sprint(r.Seed)
	o, err := r.quantising()
	if err != nil {
		return nil, err
	}
	if o.Range != (quant.Range{}) { // defaults are not recorded
		meta["range"] = o.Range.String()
	}
	if o.Headroom != 0 {
		meta["headroom"] = fmt.Sprint(o.Headroom)
	}
	meta["source"] = "zoo"
	if r.Own() {
		meta["source"] = "onnx"
		if meta["source_sha256"], err = files.Hash(r.Network); err != nil {
			return nil, err
		}
	}
	return meta, nil
}

// Evaluation opens images for the bundle's network, with the bundle's preprocessing. The images may have labels.
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

// Pixels returns an error for pictures if the bundle accepts only floats, and for floats if the input is bytes.
func (i *Info) Pixels(s *images.Set, path string) error {
	if i.Bytes && s.Floats {
		return fmt.Errorf("%s: %w: the network's input are bytes; give it pictures or an array of bytes", path, ErrRecipe)
	}
	if i.Floats && !s.Floats && len(i.Preprocess.Mean)+len(i.Preprocess.Std) == 0 {
		return fmt.Errorf("%s: %w: the network was calibrated with floats, so nothing says how pixels become its input; compile it with --mean and --std", path, images.ErrPreprocess)
	}
	return nil
}
