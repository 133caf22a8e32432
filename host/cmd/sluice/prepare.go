// This file prepares the network, images, bundle and device for a command.

package main

import (
	"context"
	"crypto/sha256"
	"encoding/gob"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/dse/graph"
	"github.com/sluice-npu/sluice/dse/images"
	"github.com/sluice-npu/sluice/dse/quant"
	"github.com/sluice-npu/sluice/dse/recipe"
	"github.com/sluice-npu/sluice/dse/zoo"
	"github.com/sluice-npu/sluice/host/cli"
	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/experiments"
	"github.com/sluice-npu/sluice/host/gpu/params"
	"github.com/sluice-npu/sluice/host/npu"
	"github.com/sluice-npu/sluice/host/soft"
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
)

// what contains the flags that select the network and the design.
type what struct {
	Config  string `from:"network" default:"run" help:"Configuration of the hardware: a name of hw/configs, or a YAML file."`
	Network string `from:"network" default:"fashion" help:"Network: a name of the zoo, or an ONNX file."`
	Data    string `serves:"bundle" placeholder:"DIR|FILE" help:"Images to serve: a folder of JPEG and PNG files, .npy or IDX, or the folder of Fashion-MNIST (default, for networks calibrated with it: where Debian's package dataset-fashion-mnist puts it)."`
	Labels  string `serves:"bundle" placeholder:"folders|numbers|FILE" help:"Classes of the images of --data: the folders that they lie in, in the order of their names, or their numbers; a CSV with the columns file and label, .npy or IDX."`
	Noise   bool   `serves:"bundle" help:"Serve noise if the network has no images: exits and accuracy mean nothing then."`
	Build   string `shard:"here" serves:"bundle" default:"build" help:"Folder for what is built once: bundles, simulators." env:"SLUICE_BUILD"`
	recipe.Flags

	file   string // bundle to serve instead of a network
	waves  string // FST file that cosim writes
	board  *uioFlags
	gpu    int   // index of the GPU
	memory int64 // memory of a simulated board in bytes, in addition to the first bundle's need
}

const (
	weightSeed  = 1  // seed for networks with random weights, and for noise
	noiseImages = 64 // number of noise images to serve
	imageBytes  = 1 << 30
)

// fromText returns texts for usage errors, by value of the tag "from", which states what is served.
func fromText() map[string]string {
	return map[string]string{
		"network": "compiling a network", "bundle": "a BUNDLE, which is compiled already (dse compile takes what says how)",
		"gpu-sim": "--device gpu-sim:NAME", "zoo": "--zoo",
	}
}

// prepared is a network that was compiled or was read from a bundle.
type prepared struct {
	design configs.Design
	graph  *graph.Graph // nil if the user named a bundle, because a bundle contains no float network
	bundle *bundle.Bundle
	info   recipe.Info // the bundle's record of its origin
	path   string      // path of the bundle's file
	cached bool
}

func (p *prepared) exits() int { return len(p.bundle.Network.Exits) }

// prepare reads the bundle on the command line. If no bundle is named, it imports, quantises and compiles a network, or
// reads a saved bundle with the same contentKey. Before compilation, `fits` check flags against the number of exits.
func (w *what) prepare(e *cli.Env, fits ...func(exits int) error) (*prepared, error) {
	p, err := w.open(e, fits)
	if err != nil {
		return nil, err
	}
	if p.info, err = recipe.Of(p.bundle); err != nil {
		return nil, cli.Errorf(cli.Input, "%s: %w", p.path, err)
	}
	if p.info.Missing {
		e.Log.Warn(p.bundle.Network.Name + " is " + recipe.Warning)
	}
	return p, nil
}

func checkExits(fits []func(int) error, exits int) error {
	for _, fit := range fits {
		if err := fit(exits); err != nil {
			return err
		}
	}
	return nil
}

func (w *what) open(e *cli.Env, fits []func(int) error) (*prepared, error) {
	if w.file != "" {
		if err := e.Unread(cli.Choice{Tag: "from", Chosen: "bundle", Text: fromText()}); err != nil {
			return nil, err
		}
		b, err := bundle.ReadFile(w.file)
		if err != nil {
			return nil, cli.Coded(cli.Input, err)
		}
		if err := checkExits(fits, len(b.Network.Exits)); err != nil {
			return nil, err
		}
		return &prepared{design: b.Design, bundle: b, path: w.file, cached: true}, nil
	}
	d, err := configs.Load(w.Config)
	if err != nil {
		return nil, cli.Coded(cli.Input, err)
	}
	r := &recipe.Recipe{Flags: w.Flags, Network: w.Network, Seed: weightSeed, Data: w.fashion()}
	g, err := r.Graph(d)
	if err != nil {
		return nil, cli.Coded(cli.Input, err)
	}
	if err := checkExits(fits, len(g.Exits)); err != nil {
		return nil, err
	}
	from, err := r.Calibration(g)
	if err != nil {
		return nil, cli.Coded(inputCode(err), err)
	}
	meta, err := r.Meta(from.Info)
	if err != nil {
		return nil, cli.Coded(cli.Input, err)
	}
	key, err := contentKey(g, d, meta)
	if err != nil {
		return nil, err
	}
	p := &prepared{design: d, graph: g}
	p.path = filepath.Join(w.Build, "bundles", fmt.Sprintf("%s-%s-%s.sluice", g.Name, d.Name, key[:16]))
	b, err := bundle.ReadFile(p.path)
	switch {
	case err == nil && maps.Equal(b.Meta, meta):
		p.bundle, p.cached = b, true
		e.Log.Debug("bundle from cache", "path", p.path)
		return p, nil
	case err != nil && !errors.Is(err, os.ErrNotExist):
		e.Log.Warn("the cached bundle is not usable; making it again", "path", p.path, "err", err)
	}
	began := time.Now()
	if p.bundle, err = r.MakeFrom(g, from, d); err != nil {
		return nil, cli.Errorf(cli.Input, "compile %s for %s: %w", g.Name, d.Name, err)
	}
	if err := os.MkdirAll(filepath.Dir(p.path), 0o777); err != nil {
		return nil, fmt.Errorf("write %s: %w", p.path, err)
	}
	if err := bundle.WriteFile(p.path, p.bundle); err != nil {
		return nil, err
	}
	e.Log.Info("compiled", "network", g.Name, "config", d.Name, "layers", len(p.bundle.Layers),
		"path", p.path, "took", time.Since(began).Round(time.Millisecond))
	return p, nil
}

// inputCode returns the exit code of an error: Tool if a data set is not installed, otherwise Input.
func inputCode(err error) int {
	if errors.Is(err, zoo.ErrDataMissing) {
		return cli.Tool
	}
	return cli.Input
}

// contentKey returns a hash of all inputs of a bundle: the graph with its weights, the design, the ABI, the bundle's
// record of its origin, and this program.
func contentKey(g *graph.Graph, d configs.Design, meta map[string]string) (string, error) {
	h := sha256.New()
	if err := gob.NewEncoder(h).Encode(g); err != nil {
		return "", fmt.Errorf("hash network %s: %w", g.Name, err)
	}
	for _, v := range []any{d, meta} {
		if err := json.NewEncoder(h).Encode(v); err != nil {
			return "", fmt.Errorf("hash configuration %s: %w", d.Name, err)
		}
	}
	sum, err := cli.ProgramHash()
	if err != nil {
		return "", err
	}
	fmt.Fprintf(h, "abi %016x\nprogram %s\n", uint64(abi.Hash), sum)
	return hex.EncodeToString(h.Sum(nil)), nil
}

// fashion returns --data if it is a folder of Fashion-MNIST or does not exist. It returns "" if --data contains the
// user's images.
func (w *what) fashion() string {
	if _, err := os.Stat(w.Data); err != nil {
		return w.Data
	}
	if _, err := os.Stat(filepath.Join(w.Data, "t10k-images-idx3-ubyte.gz")); err == nil {
		return w.Data
	}
	return ""
}

// images returns up to n images from --data, or from Fashion-MNIST if the network was calibrated with Fashion-MNIST.
// It returns noise with labels of -1 for --noise, or, if `anything` is true, instead of the error that no images exist.
func (w *what) images(e *cli.Env, p *prepared, n int, anything bool) (*zoo.Images, error) {
	net := &p.bundle.Network
	in := images.Shape{H: net.InH, W: net.InW, C: net.InC}
	n = max(1, min(n, imageBytes/(4*in.Elems())))
	switch {
	case w.Noise && w.Data != "":
		return nil, cli.Coded(cli.Usage, errors.New("--noise and --data: one of them says what is served"))
	case w.Noise || anything && w.Data == "" && !p.info.Fashion():
		im := &zoo.Images{H: in.H, W: in.W, Pixels: recipe.Noise(in, min(n, noiseImages), weightSeed+1, max(p.info.Preprocess.Range, 1e-3))}
		im.Labels = slices.Repeat([]int{-1}, len(im.Pixels))
		return im, nil
	case p.info.Fashion() && (w.Data == "" || w.fashion() != ""):
		im, err := zoo.FashionMNIST(w.Data, false, n)
		if err != nil {
			return nil, cli.Coded(inputCode(err), err)
		}
		return im, nil
	case w.Data == "":
		return nil, cli.Errorf(cli.Usage, "%s has no images of its own to serve: name some with --data, or ask for noise with --noise", net.Name)
	}
	s, err := p.info.Evaluation(w.Data, in, images.Options{Labels: w.Labels, Max: n})
	if err != nil {
		return nil, cli.Coded(cli.Input, err)
	}
	im := &zoo.Images{H: in.H, W: in.W, Labels: s.Labels}
	if im.Labels == nil {
		im.Labels = slices.Repeat([]int{-1}, s.Len())
	}
	for i := range s.Len() {
		if c := bundle.ClassesOf(net.Exits[len(net.Exits)-1].Classes); im.Labels[i] >= c {
			return nil, cli.Errorf(cli.Input, "%s: class %d, %s has %d", s.Name(i), im.Labels[i], net.Name, c)
		}
		x, err := s.Image(i)
		if err != nil {
			return nil, cli.Coded(cli.Input, err)
		}
		im.Pixels = append(im.Pixels, x)
	}
	for _, note := range s.Notes() {
		fmt.Fprintln(e.Stderr, "sluice: note: "+note)
	}
	return im, nil
}

// inputs converts images to the network's scale.
func inputs(b *bundle.Bundle, im *zoo.Images) [][]int16 {
	out := make([][]int16, len(im.Pixels))
	for i, px := range im.Pixels {
		out[i] = b.Network.Input(px)
	}
	return out
}

// setup computes the exits of n test images with the golden executor.
func (p *prepared) setup(e *cli.Env, w *what, memo *soft.Memo, n int) (*experiments.Setup, *zoo.Images, error) {
	im, err := w.images(e, p, n, false)
	if err != nil {
		return nil, nil, err
	}
	in := inputs(p.bundle, im)
	set, done := e.Progress("reference", len(in))
	defer done()
	exits, err := memo.Fill(e.Ctx, p.bundle, in, runtime.GOMAXPROCS(0), nil, set)
	if err != nil {
		return nil, nil, err
	}
	s, err := experiments.NewSetup(p.bundle, in, exits)
	return s, im, cli.Coded(cli.Input, err)
}

// floatExits returns the float network's class and confidence for each image at each exit.
func floatExits(ctx context.Context, g *graph.Graph, im *zoo.Images) ([][]device.ExitResult, error) {
	first, err := graph.NewRunner(g)
	if err != nil {
		return nil, err
	}
	out := make([][]device.ExitResult, len(im.Pixels))
	workers := quant.Workers(g, 0, len(out))
	all, ctx := errgroup.WithContext(ctx)
	for k := range workers {
		all.Go(func() error {
			r := first.Clone()
			for i := k; i < len(out); i += workers {
				if err := ctx.Err(); err != nil {
					return err
				}
				logits, err := r.Run(im.Pixels[i])
				if err != nil {
					return err
				}
				for j, x := range g.Exits {
					class, conf := bundle.ConfidenceBy(g.ConfidenceOf(j), logits[x.Tensor])
					out[i] = append(out[i], device.ExitResult{Exit: j, Class: class, Confidence: conf})
				}
			}
			return nil
		})
	}
	return out, all.Wait()
}

// checkDevice returns an error if name is not a device for bundles.
func checkDevice(name string) error {
	devices := []string{"cosim", "cuda", "hip", "hls", "soft", "uio"}
	if !slices.Contains(devices, name) {
		return cli.Errorf(cli.Usage, "--device %s: expected %s, or %s and one of %s, or a parameter file, FILE.yaml", name, strings.Join(devices, ", "), gpuSim, strings.Join(params.Names(), ", "))
	}
	return nil
}

// openDevice opens a device by name and loads the bundle.
func (w *what) openDevice(ctx context.Context, name string, p *prepared, memo *soft.Memo) (device.Blocking, error) {
	var (
		dev device.Blocking
		err error
	)
	switch name {
	case "soft":
		dev = soft.New(p.design, soft.Options{Memo: memo})
	case "cosim", "hls":
		var d *npu.Driver
		if d, err = w.openCosim(ctx, name, p); err == nil {
			dev = d
		}
	case "uio":
		d, err := w.board.open(ctx, p)
		if err != nil {
			return nil, err
		}
		return d, nil // loaded
	case "cuda", "hip":
		dev, err = openGPU(name, w.gpu)
	default:
		err = cli.Errorf(cli.Usage, "no device %q; there are cosim, cuda, hip, hls, soft, uio", name)
	}
	if err != nil {
		return nil, cli.Coded(cli.Device, err)
	}
	if err := dev.Load(ctx, p.bundle); err != nil {
		return nil, cli.Coded(cli.Device, errors.Join(err, dev.Close()))
	}
	return dev, nil
}

// openCosim starts the configuration's Verilated RTL, or its HLS kernel (hls), which has no timing. The configuration's
// file sets the bandwidth and latency of the memory.
func (w *what) openCosim(ctx context.Context, name string, p *prepared) (*npu.Driver, error) {
	kind := cosimOf(name, p.design)
	if w.waves != "" {
		if name != "cosim" {
			return nil, cli.Errorf(cli.Usage, "--waves: %s writes none", name)
		}
		kind += "-trace"
	}
	const slots, spare = 4 * abi.BMax, 1 << 20
	need := int64(len(p.bundle.Weights)+len(p.bundle.Layers)*abi.DescBytes) + slots*p.bundle.Slot.Stride + spare
	bus, err := openBus(ctx, p.design, kind, w.Config, npu.CosimOpts{DRAMBytes: max(64<<20, (need+spare-1)/spare*spare) + w.memory, Trace: w.waves})
	if err != nil {
		return nil, err
	}
	if w.waves != "" {
		if err := bus.Trace(true); err != nil {
			return nil, cli.Coded(cli.Device, errors.Join(err, bus.Close()))
		}
	}
	return openDriver(bus, name, p.design, slots)
}

// cosimOf returns the name of a device's simulator folder in build/cosim.
func cosimOf(device string, d configs.Design) string {
	if device == "hls" {
		return d.Name + "-hls"
	}
	return d.Name
}

// openBus starts the simulator in build/cosim/kind with the memory bandwidth and latency in the design's file. The
// argument list is the value of --config: names and files, separated by commas.
func openBus(ctx context.Context, d configs.Design, kind, list string, o npu.CosimOpts) (*npu.Cosim, error) {
	named := splitList(list)
	path, err := npu.FindCosim(kind, named...)
	if err != nil {
		if clash := d.OwnName(); clash != nil {
			return nil, cli.Coded(cli.Input, clash)
		}
		return nil, cli.Coded(cli.Tool, err)
	}
	o.Binary, o.BytesPerCycle, o.Latency = path, d.DRAM.BytesPerCycle, d.DRAM.LatencyCycles
	bus, err := npu.OpenCosim(ctx, o)
	if err != nil {
		return nil, cli.Coded(cli.Device, err)
	}
	info := bus.Info()
	if err := info.Fits(kind, d.Hash(), named...); err != nil {
		if clash := d.OwnName(); clash != nil {
			return nil, cli.Coded(cli.Input, errors.Join(clash, bus.Close()))
		}
		return nil, cli.Coded(cli.Tool, errors.Join(fmt.Errorf("%s: %w", path, err), bus.Close()))
	}
	return bus, nil
}

func openDriver(bus *npu.Cosim, device string, d configs.Design, slots int) (*npu.Driver, error) {
	dev, err := npu.New(bus, npu.Opts{
		Name: device + ":" + d.Name, Label: "simulated", ClockHz: int64(d.ClockMHz * 1e6), Slots: slots,
	})
	if err != nil {
		return nil, cli.Coded(cli.Device, err)
	}
	return dev, nil
}
