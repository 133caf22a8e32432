// This file applies the law of cycles to the compiler's descriptors. The results are the published settings' latency
// tables for a board, its DRAM bandwidth and a mapping.

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/dse/compile"
	"github.com/sluice-npu/sluice/dse/cost"
	"github.com/sluice-npu/sluice/dse/graph"
	"github.com/sluice-npu/sluice/dse/mapping"
	"github.com/sluice-npu/sluice/dse/onnx"
	"github.com/sluice-npu/sluice/dse/quant"
	"github.com/sluice-npu/sluice/dse/zoo"
	"github.com/sluice-npu/sluice/host/cli"
	"github.com/sluice-npu/sluice/host/experiments"
	"github.com/sluice-npu/sluice/host/experiments/fluid"
	"github.com/sluice-npu/sluice/host/sched"
	"github.com/sluice-npu/sluice/host/soft"
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
)

// modelStore computes and stores models. It is safe for concurrent use.
type modelStore struct {
	e     *cli.Env
	build string // folder of compiled shapes
	data  string // folder of images

	mu     sync.Mutex
	shapes map[string]*netShape
	models map[fluid.ModelKey]*fluid.Model
}

func newModelStore(e *cli.Env, build, data string) *modelStore {
	return &modelStore{e: e, build: build, data: data, shapes: map[string]*netShape{}, models: map[fluid.ModelKey]*fluid.Model{}}
}

// netShape contains the properties of a compiled network that are needed for a latency table. They do not depend on
// weights, DRAM or mapping.
type netShape struct {
	Key    string
	Layers []abi.Desc
	Nodes  []string // by layer: the node to which the layer belongs
	Exits  []bundle.Exit

	images, calibration []fluid.Image // only for a trained network
}

// Number of real images and exit threshold for a trained network.
const (
	realImages = 2000 // the same number of other images is used to find thresholds
	realTheta  = 0.8
)

func newNetShape(key string, b *bundle.Bundle) *netShape {
	sh := &netShape{Key: key, Layers: b.Layers, Exits: b.Network.Exits}
	for _, name := range b.Names {
		node, _, _ := strings.Cut(name, "[")
		sh.Nodes = append(sh.Nodes, node)
	}
	return sh
}

// trained compiles a network with weights, and runs test images on the golden executor.
func (s *modelStore) trained(network string, backbone bool, d configs.Design) (*netShape, error) {
	if sh := s.shapes[network]; sh != nil {
		return sh, nil
	}
	if backbone {
		return nil, cli.Errorf(cli.Input, "%w: %s without its exits", experiments.ErrSetup, network)
	}
	w := what{Config: d.Name, Network: network, Data: s.data, Build: s.build}
	p, err := w.prepare(s.e)
	if err != nil {
		return nil, err
	}
	quiet := *s.e
	quiet.Stderr = io.Discard // show only one progress bar at a time
	set, im, err := p.setup(&quiet, &w, &soft.Memo{}, 2*realImages)
	if err != nil {
		return nil, err
	}
	sh := newNetShape("", p.bundle)
	for i, exits := range set.Exits {
		var x fluid.Image
		for _, e := range exits {
			x.Confidence, x.Right = append(x.Confidence, e.Confidence), append(x.Right, e.Class >= 0 && e.Class == im.Labels[i])
		}
		sh.images = append(sh.images, x)
	}
	n := min(realImages, len(sh.images))
	sh.images, sh.calibration = sh.images[:n], sh.images[n:]
	s.shapes[network] = sh
	return sh, nil
}

// Model implements fluid.Models.
func (s *modelStore) Model(ctx context.Context, k fluid.ModelKey) (*fluid.Model, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.models[k]; m != nil {
		return m, nil
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	own, err := k.Design()
	if err != nil {
		return nil, cli.Coded(cli.Input, err)
	}
	d, err := configs.Load(k.Board)
	if own != nil {
		d.Name = "r-" + k.Network + "-" + k.Board
		d.TR, d.TP, d.TC, d.ABufWords, d.Drain, d.CMax = own.TR, own.TP, own.TC, own.ABufWords, own.Drain, own.CMax
		err = errors.Join(err, d.Validate())
	}
	if err != nil {
		return nil, cli.Coded(cli.Input, err)
	}
	if !(k.Bandwidth >= 0 && k.Bandwidth <= 1000) {
		return nil, cli.Errorf(cli.Input, "%w: a DRAM of %g GB/s", experiments.ErrSetup, k.Bandwidth)
	}
	shape := s.shape
	if k.Network == fluid.RealNetwork {
		shape = s.trained
	}
	sh, err := shape(k.Network, k.Backbone, d)
	if err != nil {
		return nil, err
	}
	if k.Bandwidth > 0 { // 0: the configuration's bandwidth
		d.DRAM.BytesPerCycle = k.Bandwidth * 1e3 / d.ClockMHz // GB/s divided by MHz results in kilobytes per cycle
	}
	m, err := tabulate(d, sh, k)
	if err != nil {
		return nil, cli.Errorf(cli.Input, "table of %s: %w", k, err)
	}
	m.Images, m.Calibration, m.Theta = sh.images, sh.calibration, realTheta
	s.models[k] = m
	return m, nil
}

// shape compiles a network for a design, or reads the stored result if equal content was compiled earlier.
func (s *modelStore) shape(network string, backbone bool, d configs.Design) (*netShape, error) {
	name := network
	if backbone {
		name += "-backbone"
	}
	id := name + "-" + d.Name
	if sh := s.shapes[id]; sh != nil {
		return sh, nil
	}
	g, err := zoo.Load(network, weightSeed)
	if err == nil && backbone {
		last := g.Tensors[g.Exits[len(g.Exits)-1].Tensor].Name
		g, err = zoo.LoadWith(network, onnx.Options{Exits: []string{last}, WeightSeed: weightSeed})
	}
	if err != nil {
		return nil, cli.Coded(cli.Input, err)
	}
	key, err := contentKey(g, d, nil)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(s.build, "tables", fmt.Sprintf("%s-%s.json", id, key[:16]))
	sh := &netShape{}
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, sh)
	}
	if err == nil && sh.Key == key && len(sh.Nodes) == len(sh.Layers) {
		s.shapes[id] = sh
		return sh, nil
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		s.e.Log.Warn("the cached shapes are not usable; making them again", "path", path, "err", err)
	}
	began := time.Now()
	b, err := compileShape(g, d)
	if err != nil {
		return nil, cli.Errorf(cli.Input, "compile %s for %s: %w", name, d.Name, err)
	}
	sh = newNetShape(key, b)
	text, err = json.Marshal(sh)
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", path, err)
	}
	if err := cli.WriteFile(path, func(w io.Writer) error { _, err := w.Write(text); return err }); err != nil {
		return nil, err
	}
	s.e.Log.Info("compiled", "network", name, "config", d.Name, "layers", len(b.Layers), "took", time.Since(began).Round(time.Millisecond))
	s.shapes[id] = sh
	return sh, nil
}

// compileShape compiles with one random image, because the geometry does not depend on data.
func compileShape(g *graph.Graph, d configs.Design) (*bundle.Bundle, error) {
	rng := rand.New(rand.NewPCG(weightSeed, 2))
	image := make([]float32, g.Tensors[g.Input].Elems())
	for i := range image {
		image[i] = 2*rng.Float32() - 1
	}
	q, err := quant.Quantise(g, [][]float32{image}, quant.Options{})
	if err != nil {
		return nil, err
	}
	return compile.Compile(q, d, compile.Options{Mapping: strategies[fluid.MappingFluid]})
}

// strategies contains, for each mapping of a batch (fluid.Mapping...), the options to choose FBCB entries.
var strategies = map[string]mapping.Options{
	fluid.MappingFluid:   {Spill: true}, // the published hardware stores no tensor on chip
	fluid.MappingR:       mapping.Basic(),
	fluid.MappingROwn:    mapping.Basic(),
	fluid.MappingFC:      mapping.Basic(),
	fluid.MappingFCOwn:   mapping.Basic(),
	fluid.MappingP:       {Points: []mapping.Point{{K: cost.K1, S: 2}}, Orders: []bool{false}},
	fluid.MappingNoStack: {Points: []mapping.Point{{K: cost.K1, S: 1}, {K: cost.K1, S: 2}}, Orders: []bool{false}},
	fluid.MappingNoFluid: {Points: []mapping.Point{{K: cost.K1, S: 1}, {K: cost.KHalf, S: 1}, {K: cost.K2, S: 1}}, Orders: []bool{false}},
}

// fullyConnected reports whether a layer is fully connected: each weight is used once per sample.
func fullyConnected(g cost.Geom) bool {
	return g.GEMM() && g.InH == 1 && g.InW == 1 && g.OutH == 1 && g.OutW == 1
}

// layerTime returns the number of cycles of one layer, for a batch size and a mapping.
func layerTime(d configs.Design, g cost.Geom, batch int, strategy string, o mapping.Options) (int64, error) {
	choose := func(b int, o mapping.Options) (int64, error) {
		if b > abi.BMax {
			return beyond(d, g, b, o)
		}
		_, t, err := mapping.Choose(d, g, b, o)
		return t.Total, err
	}
	switch {
	case (strategy == fluid.MappingFC || strategy == fluid.MappingFCOwn) && !fullyConnected(g):
		one, err := choose(1, o) // sample by sample
		return int64(batch) * one, err
	case strategy == fluid.MappingP:
		t, err := choose(batch, o)
		if errors.Is(err, mapping.ErrNoFit) { // two groups are not legal for every layer and batch
			return choose(batch, mapping.Basic())
		}
		return t, err
	}
	return choose(batch, o)
}

// beyond returns the number of cycles by the law, for a batch above B_max. Tiles that are legal at B_max remain legal;
// only their number increases.
func beyond(d configs.Design, g cost.Geom, batch int, o mapping.Options) (int64, error) {
	best := int64(0)
	mapping.Enumerate(d, g, abi.BMax, o, func(e abi.FBCB) {
		e.BR = uint8((batch + cost.Groups(e, abi.BMax) - 1) / cost.Groups(e, abi.BMax))
		if t := cost.Layer(d, g, batch, e).Total; best == 0 || t < best {
			best = t
		}
	})
	if best == 0 {
		return 0, fmt.Errorf("%w: at a batch of %d", mapping.ErrNoFit, batch)
	}
	return best, nil
}

// part is a sequence of layers that run in one start.
type part struct{ first, last, exit int } // exit is -1 if no exit follows the part

// parts divides a network into starts, after every exit or after every layer. Layers of one node (windows of channels)
// belong to the same start. If a table cannot store all starts, neighbours are merged.
func (sh *netShape) parts(layerwise bool) []part {
	var out []part
	size := 1
	for {
		out = out[:0]
		for i, e := range sh.Exits {
			if !layerwise {
				out = append(out, part{e.First, e.Last, i})
				continue
			}
			at, n := e.First, 0
			for l := e.First; l <= e.Last; l++ {
				if l < e.Last && sh.Nodes[l] == sh.Nodes[l+1] {
					continue
				}
				if n++; n == size || l == e.Last {
					exit := -1
					if l == e.Last {
						exit = i
					}
					out = append(out, part{at, l, exit})
					at, n = l+1, 0
				}
			}
		}
		if len(out) <= sched.MaxSegments {
			return out
		}
		size++
	}
}

// tabulate computes the latency table. As in the driver, each part is one start.
func tabulate(d configs.Design, sh *netShape, k fluid.ModelKey) (*fluid.Model, error) {
	o, ok := strategies[k.Mapping]
	if !ok {
		return nil, fmt.Errorf("%w: no mapping %q", experiments.ErrSetup, k.Mapping)
	}
	parts := sh.parts(k.Layerwise)
	m := &fluid.Model{
		Key: k, PeakMACs: float64(d.MACs()) * d.ClockMHz * 1e6, ClockHz: int64(d.ClockMHz * 1e6), TR: d.TR, TP: d.TP, TC: d.TC,
	}
	for _, p := range parts {
		macs := int64(0)
		for l := p.first; l <= p.last; l++ {
			macs += cost.GeomOf(&sh.Layers[l]).MACs()
		}
		m.MACs, m.Layers, m.Exit = append(m.MACs, macs), append(m.Layers, p.last-p.first+1), append(m.Exit, p.exit)
	}
	var entries []bundle.LatencyEntry
	for batch := 1; batch <= abi.BMax; batch++ {
		cycles, pools, err := partCycles(d, sh, parts, batch, k.Mapping, o)
		if err != nil {
			return nil, err
		}
		if batch == abi.BMax {
			for _, c := range pools {
				m.Pools = append(m.Pools, cost.Nanoseconds(d, c))
			}
		}
		for first := range cycles {
			sum := int64(0)
			for last := first; last < len(cycles); last++ {
				sum += cycles[last]
				ns := cost.Nanoseconds(d, sum)
				entries = append(entries, bundle.LatencyEntry{
					Network: k.Network, Device: d.Name, First: first, Last: last, Batch: batch, P50: ns, P99: ns,
				})
			}
		}
	}
	double, _, err := partCycles(d, sh, parts, 2*abi.BMax, k.Mapping, o)
	if err != nil {
		return nil, err
	}
	total := int64(0)
	for _, c := range double {
		total += c
	}
	m.Double = cost.Nanoseconds(d, total)
	m.Table, err = sched.NewTable(entries, k.Network)
	return m, err
}

// partCycles returns the cycles of each part for a batch size, and the cycles of each part's pools.
func partCycles(d configs.Design, sh *netShape, parts []part, batch int, strategy string, o mapping.Options) (all, pools []int64, err error) {
	all, pools = make([]int64, len(parts)), make([]int64, len(parts))
	for i, p := range parts {
		all[i] = cost.Start(d)
		for l, g := range cost.GeomsOf(sh.Layers[p.first : p.last+1]) {
			c, err := layerTime(d, g, batch, strategy, o)
			if err != nil {
				return nil, nil, fmt.Errorf("layer %d at batch %d: %w", p.first+l, batch, err)
			}
			all[i] += c
			if !g.GEMM() {
				pools[i] += c
			}
		}
	}
	return all, pools, nil
}
