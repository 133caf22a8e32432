// These measures compute SEEB-GPU's claims (claims.yaml) and rows.

package seeb

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/experiments/frame"
	"github.com/sluice-npu/sluice/host/gpu"
	"github.com/sluice-npu/sluice/host/gpu/catalogue"
	"github.com/sluice-npu/sluice/host/gpu/kernel"
)

// shorter divides the length of the Poisson runs, because their rates are about ten times paiRate or more.
const shorter = 10

// served returns the run of a system on a load.
func served(l *lab, of frame.Args) (*EdgeOutcome, error) {
	system, name, ns := of[0], of[1], l.ns
	if strings.HasPrefix(name, "poisson") {
		ns /= shorter
	}
	switch {
	case system == "seeb:3" && l.with.Is("at-once"):
		system = atOnce
	case l.with.Is(most) && (system == "deeprt" || system == "gslice"):
		system += fmt.Sprintf(":%.0f", l.with.By)
	}
	o, err := l.edge.Run(l.ctx, system, name, ns, l.seed, l.pai)
	if err == nil && (l.with.Is("from-release") || l.with.Is("at-once")) {
		all := *o
		all.Latency += all.Waiting
		o = &all
	}
	return o, err
}

// measures returns the measures of the claims and rows.
func measures() frame.Measures[*lab] {
	out := frame.Measures[*lab]{
		"alone NETWORK batch": func(l *lab, of frame.Args) (float64, error) {
			return float64(l.edge.nets[of[0]].alone[of.Int(1)-1]), nil
		},
		"right NETWORK theta": func(l *lab, of frame.Args) (float64, error) {
			return l.edge.accuracy(of[0], float32(of.Float(1))), nil
		},
		"early NETWORK theta":          func(l *lab, of frame.Args) (float64, error) { return l.edge.early(of[0], float32(of.Float(1))) },
		"together tpc tpc":             func(l *lab, of frame.Args) (float64, error) { return l.partitions(of.Int(0), of.Int(1)) },
		"saturation NETWORK tpcs tpcs": func(l *lab, of frame.Args) (float64, error) { return l.saturation(of[0], of.Int(1), of.Int(2)) },
	}
	frame.AddMetrics(out, "SYSTEM LOAD", served, frame.Fields[EdgeOutcome]())
	return out
}

// numbers returns rows of every system on every load, of the ablations, and of the sweep of lambda.
func numbers() (out []frame.Number) {
	var metrics []string
	for _, m := range frame.Fields[EdgeOutcome]() {
		metrics = append(metrics, m.Name)
	}
	add := func(load string, systems ...string) {
		for _, s := range systems {
			out = append(out, frame.Numbers("", frame.Row{Bench: "seeb", Setting: GPU + "/" + load, Policy: s}, s+", "+load, metrics...)...)
		}
	}
	for _, n := range EdgeLoads() {
		// seeb-literal runs only on pai, because it is slow: it serves one image at a time
		add(n, slices.DeleteFunc(EdgeSystems(), func(s string) bool { return s == "seeb-literal" && n != "pai" })...)
	}
	add("pai", "seeb:1", "seeb:2", "seeb:3", "seeb:4", "seeb:5", "seeb:6",
		"seeb:0:1", "seeb:1:1", "seeb:5:1", "seeb:10:1", "seeb:20:1", "seeb:50:1", "seeb:1:0")
	return out
}

// accuracy returns the share of samples that are classified correctly at a threshold.
func (e *Edge) accuracy(network string, theta float32) float64 {
	const n = 20_000
	net, right := e.nets[network], 0
	for id := range device.RequestID(n) {
		for x := range net.accuracy {
			if r := net.Exit(id, x); r.Confidence >= theta || x == len(net.accuracy)-1 {
				right += r.Class
				break
			}
		}
	}
	return float64(right) / n
}

// early returns the time of a batch of 32 at a threshold, relative to the time at full depth.
func (e *Edge) early(network string, theta float32) (float64, error) {
	d, err := e.device()
	if err != nil {
		return 0, err
	}
	p := &profiler{d: d}
	ns, err := p.run(network, 32, theta, device.Units{})
	return float64(ns) / float64(e.nets[network].alone[31]), err
}

// micro returns a profiler of a device that runs one program without exits.
func (l *lab) micro(name string, program *kernel.Program) (*profiler, error) {
	n := &gpu.Network{
		Name: name, Program: func(int) (*kernel.Program, error) { return program, nil },
		Exit: func(device.RequestID, int) device.ExitResult { return device.ExitResult{Confidence: 1} },
	}
	d, err := gpu.Loaded(gpu.Config{Name: name, Params: l.file.Params()}, "streams", []string{name}, func(int) *gpu.Network { return n })
	return &profiler{d: d}, err
}

// partitions returns the time of two equal convolutions that run together, divided by the time of one convolution alone
// (table 1). Each convolution runs on eleven TPCs. The first starts at TPC a, the second at TPC b. It is the
// convolution of ResNet-34 with the time closest to the published 0.068 ms.
func (l *lab) partitions(a, b int) (float64, error) {
	spec := catalogue.Spec{Network: "resnet34", Style: "pytorch"}
	if l.with.Is("dram-bound") {
		spec.Batch = 8 // for one image, no DRAM-bound kernel is long enough
	}
	p, err := catalogue.Program(spec, l.file.Machine())
	if err != nil {
		return 0, err
	}
	const published, tpcs = 68_000, 11
	var best *profiler
	var alone int64
	for i := range p.Kernels {
		k := &p.Kernels[i]
		if strings.HasPrefix(k.Name, "conv") == l.with.Is("dram-bound") {
			continue
		}
		m, err := l.micro("convolution", &kernel.Program{Name: k.Name, Memory: p.Memory, Kernels: p.Kernels[i : i+1], Exits: []int{0}})
		if err != nil {
			return 0, err
		}
		ns, err := m.run("convolution", 1, 2, device.UnitRange(a, tpcs))
		if err != nil {
			return 0, err
		}
		if best == nil || abs(ns-published) < abs(alone-published) {
			best, alone = m, ns
		}
	}
	both, err := best.pair("convolution", device.UnitRange(a, tpcs), device.UnitRange(b, tpcs))
	return both / float64(alone), err
}

func abs(x int64) int64 { return max(x, -x) }

// saturation returns a network's time on "a" TPCs, divided by its time on "b" TPCs, for one image of 128 x 128 pixels.
func (l *lab) saturation(network string, a, b int) (float64, error) {
	p, err := catalogue.Program(catalogue.Spec{Network: network, Style: "pytorch", Side: 128}, l.file.Machine())
	if err != nil {
		return 0, err
	}
	m, err := l.micro(network, p)
	if err != nil {
		return 0, err
	}
	x, err := m.run(network, 1, 2, device.UnitRange(0, a))
	if err != nil {
		return 0, err
	}
	y, err := m.run(network, 1, 2, device.UnitRange(0, b))
	return float64(x) / float64(y), err
}
