// From a name on the command line to something servable: network, images, bundle, device.

package main

import (
	"context"
	"crypto/sha256"
	"encoding/gob"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/dse/compile"
	"github.com/sluice-npu/sluice/dse/graph"
	"github.com/sluice-npu/sluice/dse/onnx"
	"github.com/sluice-npu/sluice/dse/quant"
	"github.com/sluice-npu/sluice/dse/zoo"
	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/experiments"
	"github.com/sluice-npu/sluice/host/npu"
	"github.com/sluice-npu/sluice/host/soft"
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
)

// what are the flags that say what is served, and on what.
type what struct {
	Config  string `default:"run" help:"Configuration of the hardware: a name of hw/configs, or a YAML file."`
	Network string `default:"fashion" help:"Network: a name of the zoo, or an ONNX file."`
	Data    string `default:"/usr/share/datasets/fashion-mnist" help:"Folder of the data set (Debian package dataset-fashion-mnist)."`
	Build   string `default:"build" help:"Folder for what is built once: bundles, simulators." env:"SLUICE_BUILD"`

	waves string // FST file to write, on cosim
}

const (
	calibrationImages = 512 // of the training set
	weightSeed        = 1   // of networks whose weights are drawn
)

// prepared is a network, compiled.
type prepared struct {
	design configs.Design
	graph  *graph.Graph
	bundle *bundle.Bundle
	path   string // of the bundle's file
	cached bool
}

// prepare imports, quantises and compiles a network, or takes the bundle that was made from the
// same content before.
func (w *what) prepare(e *env) (*prepared, error) {
	d, err := configs.Load(w.Config)
	if err != nil {
		return nil, coded(codeInput, err)
	}
	g, err := w.load()
	if err != nil {
		return nil, coded(codeInput, err)
	}
	p := &prepared{design: d, graph: g}
	key, err := contentKey(g, d)
	if err != nil {
		return nil, err
	}
	p.path = filepath.Join(w.Build, "bundles", fmt.Sprintf("%s-%s-%s.sluice", g.Name, d.Name, key[:16]))
	b, err := bundle.ReadFile(p.path)
	switch {
	case err == nil && b.Meta["key"] == key:
		p.bundle, p.cached = b, true
		e.log.Debug("bundle from cache", "path", p.path)
		return p, nil
	case err != nil && !errors.Is(err, os.ErrNotExist):
		e.log.Warn("the cached bundle is not usable; making it again", "path", p.path, "err", err)
	}
	began := time.Now()
	calibration, err := w.images(g, true, calibrationImages)
	if err != nil {
		return nil, err
	}
	q, err := quant.Quantise(g, calibration.Pixels, quant.Options{InputRange: 1})
	if err != nil {
		return nil, coded(codeInput, fmt.Errorf("quantise %s: %w", g.Name, err))
	}
	p.bundle, err = compile.Compile(q, d, compile.Options{Meta: map[string]string{
		"key": key, "source": filepath.Base(w.Network), "calibration_images": fmt.Sprint(len(calibration.Pixels)),
	}})
	if err != nil {
		return nil, coded(codeInput, fmt.Errorf("compile %s for %s: %w", g.Name, d.Name, err))
	}
	if err := os.MkdirAll(filepath.Dir(p.path), 0o777); err != nil {
		return nil, fmt.Errorf("write %s: %w", p.path, err)
	}
	if err := bundle.WriteFile(p.path, p.bundle); err != nil {
		return nil, err
	}
	e.log.Info("compiled", "network", g.Name, "config", d.Name, "layers", len(p.bundle.Layers),
		"path", p.path, "took", time.Since(began).Round(time.Millisecond))
	return p, nil
}

func (w *what) load() (*graph.Graph, error) {
	if strings.HasSuffix(w.Network, ".onnx") || strings.ContainsRune(w.Network, '/') {
		return onnx.ImportFile(w.Network, onnx.Options{
			Name: strings.TrimSuffix(filepath.Base(w.Network), ".onnx"), WeightSeed: weightSeed,
		})
	}
	return zoo.Load(w.Network, weightSeed)
}

// contentKey names everything a bundle depends on: the graph with its weights, the design, the ABI,
// and the program that makes it.
func contentKey(g *graph.Graph, d configs.Design) (string, error) {
	h := sha256.New()
	if err := gob.NewEncoder(h).Encode(g); err != nil {
		return "", fmt.Errorf("hash network %s: %w", g.Name, err)
	}
	if err := json.NewEncoder(h).Encode(d); err != nil {
		return "", fmt.Errorf("hash configuration %s: %w", d.Name, err)
	}
	fmt.Fprintf(h, "abi %016x calibration %d\n", abi.Hash, calibrationImages)
	if path, err := os.Executable(); err == nil {
		f, err := os.Open(path)
		if err != nil {
			return "", fmt.Errorf("hash this program: %w", err)
		}
		defer f.Close()
		if _, err := io.Copy(h, f); err != nil {
			return "", fmt.Errorf("hash this program: %w", err)
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// images are n images that fit the graph's input: of Fashion-MNIST where the shape is its, else
// drawn from a seed, with labels of -1.
func (w *what) images(g *graph.Graph, train bool, n int) (*zoo.Images, error) {
	in := g.Tensors[g.Input]
	if in.H == 28 && in.W == 28 && in.C == 1 {
		im, err := zoo.FashionMNIST(w.Data, train, n)
		if errors.Is(err, zoo.ErrDataMissing) {
			return nil, coded(codeTool, err)
		}
		return im, coded(codeInput, err)
	}
	rng := rand.New(rand.NewPCG(weightSeed, map[bool]uint64{false: 1, true: 2}[train]))
	im := &zoo.Images{H: in.H, W: in.W}
	for range min(n, 64) {
		x := make([]float32, in.Elems())
		for i := range x {
			x[i] = rng.Float32()
		}
		im.Pixels, im.Labels = append(im.Pixels, x), append(im.Labels, -1)
	}
	return im, nil
}

// inputs are images on the network's scale: round(x * 2^InFrac), saturated.
func inputs(b *bundle.Bundle, im *zoo.Images) [][]int16 {
	out := make([][]int16, len(im.Pixels))
	for i, px := range im.Pixels {
		out[i] = make([]int16, len(px))
		for j, v := range px {
			x := math.Round(math.Ldexp(float64(v), b.Network.InFrac))
			out[i][j] = int16(max(math.MinInt16, min(math.MaxInt16, x)))
		}
	}
	return out
}

// setup computes the exits of n test images with the golden executor.
func (p *prepared) setup(e *env, w *what, memo *soft.Memo, n int) (*experiments.Setup, *zoo.Images, error) {
	im, err := w.images(p.graph, false, n)
	if err != nil {
		return nil, nil, err
	}
	in := inputs(p.bundle, im)
	set, done := e.progress("reference", len(in))
	defer done()
	exits, err := memo.Fill(e.ctx, p.bundle, in, runtime.GOMAXPROCS(0), nil, set)
	if err != nil {
		return nil, nil, err
	}
	s, err := experiments.NewSetup(p.bundle, in, exits)
	return s, im, coded(codeInput, err)
}

// floatExits are what the float network shows for each image at each exit: class and softmax top-1.
func floatExits(ctx context.Context, g *graph.Graph, im *zoo.Images) ([][]device.ExitResult, error) {
	first, err := graph.NewRunner(g)
	if err != nil {
		return nil, err
	}
	out := make([][]device.ExitResult, len(im.Pixels))
	workers := runtime.GOMAXPROCS(0)
	errs := make([]error, workers)
	var wg sync.WaitGroup
	for k := range workers {
		wg.Go(func() {
			r := first.Clone()
			for i := k; i < len(out) && errs[k] == nil; i += workers {
				if errs[k] = ctx.Err(); errs[k] != nil {
					return
				}
				var all [][]float32
				if all, errs[k] = r.Run(im.Pixels[i]); errs[k] != nil {
					return
				}
				for j, x := range g.Exits {
					class, conf := experiments.SoftmaxTop1(all[x.Tensor])
					out[i] = append(out[i], device.ExitResult{Exit: j, Class: class, Confidence: conf})
				}
			}
		})
	}
	wg.Wait()
	return out, errors.Join(errs...)
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
	default:
		err = coded(codeUsage, fmt.Errorf("no device %q; there are cosim, hls, soft", name))
	}
	if err != nil {
		return nil, coded(codeDevice, err)
	}
	if err := dev.Load(ctx, p.bundle); err != nil {
		return nil, coded(codeDevice, errors.Join(err, dev.Close()))
	}
	return dev, nil
}

// openCosim starts the Verilated RTL of the configuration with the memory its file names, or the HLS
// kernel (hls), which has no timing.
func (w *what) openCosim(ctx context.Context, name string, p *prepared) (*npu.Driver, error) {
	kind := cosimOf(name, p.design)
	if w.waves != "" {
		if name != "cosim" {
			return nil, coded(codeUsage, fmt.Errorf("--waves: %s writes none", name))
		}
		kind += "-trace"
	}
	const slots, spare = 4 * abi.BMax, 1 << 20
	need := int64(len(p.bundle.Weights)+len(p.bundle.Layers)*abi.DescBytes) + slots*p.bundle.Slot.Stride + spare
	bus, err := openBus(ctx, p.design, kind, npu.CosimOpts{DRAMBytes: max(64<<20, (need+spare-1)/spare*spare), Trace: w.waves})
	if err != nil {
		return nil, err
	}
	if w.waves != "" {
		if err := bus.Trace(true); err != nil {
			return nil, coded(codeDevice, errors.Join(err, bus.Close()))
		}
	}
	return openDriver(bus, name, p.design, slots)
}

// cosimOf is the folder in build/cosim of a device's process.
func cosimOf(device string, d configs.Design) string {
	if device == "hls" {
		return d.Name + "-hls"
	}
	return d.Name
}

// openBus starts the simulator in build/cosim/kind with the memory that the design's file names.
func openBus(ctx context.Context, d configs.Design, kind string, o npu.CosimOpts) (*npu.Cosim, error) {
	path, err := npu.FindCosim(kind)
	if err != nil {
		return nil, coded(codeTool, err)
	}
	o.Binary, o.BytesPerCycle, o.Latency = path, d.DRAM.BytesPerCycle, d.DRAM.LatencyCycles
	bus, err := npu.OpenCosim(ctx, o)
	if err != nil {
		return nil, coded(codeDevice, err)
	}
	return bus, nil
}

func openDriver(bus *npu.Cosim, device string, d configs.Design, slots int) (*npu.Driver, error) {
	dev, err := npu.New(bus, npu.Opts{
		Name: device + ":" + d.Name, Label: "simulated", ClockHz: int64(d.ClockMHz * 1e6), Slots: slots,
	})
	if err != nil {
		return nil, coded(codeDevice, err)
	}
	return dev, nil
}
