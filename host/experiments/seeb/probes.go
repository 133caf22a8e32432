// The probes of SEEB-GPU's claims (claims.yaml).

package seeb

import (
	"fmt"
	"strings"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/experiments/frame"
	"github.com/sluice-npu/sluice/host/gpu"
	"github.com/sluice-npu/sluice/host/gpu/catalogue"
	"github.com/sluice-npu/sluice/host/gpu/kernel"
)

// probe computes a number from one lab.
type probe = frame.Probe[*lab]

// shorter divides the time of the Poisson loads, which have ten times the tasks.
const shorter = 10

// served is a metric of a run.
func served(system, name string, of func(*EdgeOutcome) float64) probe {
	return frame.Of(on(system, name), of)
}

// on is a system's run on a load.
func on(system, name string) func(*lab) (*EdgeOutcome, error) {
	return func(l *lab) (*EdgeOutcome, error) { return l.serve(system, name) }
}

func (l *lab) serve(system, name string) (*EdgeOutcome, error) {
	ns := l.ns
	if strings.HasPrefix(name, "poisson") {
		ns /= shorter
	}
	if system == "seeb:3" && l.with == "at-once" {
		system = atOnce
	}
	o, err := l.edge.Run(l.ctx, system, name, ns, l.seed, l.pai)
	if err == nil && (l.with == "from-release" || l.with == "at-once") {
		all := *o
		all.Latency += all.Waiting
		o = &all
	}
	return o, err
}

func edgeMetrics() []frame.Metric[*EdgeOutcome] {
	return []frame.Metric[*EdgeOutcome]{
		{Name: "latency_s", Of: func(o *EdgeOutcome) float64 { return o.Latency }},
		{Name: "waiting_s", Of: func(o *EdgeOutcome) float64 { return o.Waiting }},
		{Name: "throughput", Of: func(o *EdgeOutcome) float64 { return o.Throughput }},
		{Name: "accuracy", Of: func(o *EdgeOutcome) float64 { return o.Accuracy }},
		{Name: "efficacy", Of: func(o *EdgeOutcome) float64 { return o.Efficacy }},
		{Name: "violations", Of: func(o *EdgeOutcome) float64 { return o.Violations }},
		{Name: "violations_dispatch", Of: func(o *EdgeOutcome) float64 { return o.Dispatched }},
	}
}

func latency(o *EdgeOutcome) float64    { return o.Latency }
func efficacy(o *EdgeOutcome) float64   { return o.Efficacy }
func accuracy(o *EdgeOutcome) float64   { return o.Accuracy }
func violations(o *EdgeOutcome) float64 { return o.Violations }

// each is a metric of several systems on a load.
func each(name string, of func(*EdgeOutcome) float64, systems ...string) (out []probe) {
	for _, s := range systems {
		out = append(out, served(s, name, of))
	}
	return out
}

// probes returns the probe of each claim.
func probes() map[string]frame.Sampler[*lab] {
	out := map[string]frame.Sampler[*lab]{}
	systems := []string{"batch", "branchynet", "gslice", "deeprt", "seeb"}
	baselines := systems[:4]
	throughput := func(o *EdgeOutcome) float64 { return o.Throughput }
	gains := func(id, system, load string) {
		out[id+"-latency"] = frame.Over(served(system, load, latency), served("seeb", load, latency))
		out[id+"-efficacy"] = frame.Over(served("seeb", load, efficacy), served(system, load, efficacy))
	}
	for _, s := range baselines {
		gains("table3/"+s, s, "pai")
		out["table3/"+s+"-throughput"] = frame.Over(served("seeb", "pai", throughput), served(s, "pai", throughput))
	}
	gains("table3+window/batch", "batch", "pai"+added)
	gains("table3+batch8/batch", "batch:8", "pai")
	out["table3/seeb-accuracy"], out["table3+window/seeb-accuracy"] = served("seeb", "pai", accuracy), served("seeb", "pai"+added, accuracy)
	out["table3/branchynet-accuracy"], out["table3/full-accuracy"] = served("branchynet", "pai", accuracy), served("batch", "pai", accuracy)
	out["table3/accuracy-order"] = frame.Over(served("seeb", "pai", accuracy), served("branchynet", "pai", accuracy))
	poisson := []string{"poisson:10", "poisson:15", "poisson:20", "poisson:25"}
	gammas := []string{"gamma:0.5", "gamma:1", "gamma:2"}
	for _, reading := range []string{"", added} {
		for _, s := range systems {
			out["table3"+reading+"/"+s+"-violations"] = served(s, "pai"+reading, violations)
			var all []probe
			for _, p := range poisson {
				all = append(all, served(s, p+reading, violations))
			}
			out["table4"+reading+"/"+s] = frame.Mean(all...)
		}
		for _, g := range gammas {
			out["fig8/"+g+reading+"/violations"] = frame.Highest(each(g+reading, violations, systems...)...)
		}
	}
	for _, s := range []string{"seeb", "batch", "branchynet", "gslice"} {
		out["table3/"+s+"-violations-dispatch"] = served(s, "pai", func(o *EdgeOutcome) float64 { return o.Dispatched })
	}
	for fig, loads := range map[string][]string{"fig7/": poisson, "fig8/": gammas} {
		for _, name := range loads {
			out[fig+name+"/latency"] = frame.Ratio(frame.Lowest(each(name, latency, baselines...)...), served("seeb", name, latency))
			out[fig+name+"/efficacy"] = frame.Ratio(served("seeb", name, efficacy), frame.Highest(each(name, efficacy, baselines...)...))
		}
	}
	out["fig9/lambda1"] = frame.Over(served("seeb:20:1", "pai", latency), served("seeb", "pai", latency))
	out["fig9/lambda2-accuracy"] = served("seeb:1:1", "pai", accuracy)
	out["fig9/lambda2-latency"] = frame.Over(served("seeb:1:1", "pai", latency), served("seeb", "pai", latency))
	config := func(n int, of func(*EdgeOutcome) float64) probe { return served(fmt.Sprint("seeb:", n), "pai", of) }
	others := func(from int, of func(*EdgeOutcome) float64) (all []probe) {
		for n := range 5 {
			all = append(all, config(from+n, of))
		}
		return all
	}
	out["fig10/1-fastest"] = frame.Ratio(frame.Lowest(others(2, latency)...), config(1, latency))
	out["fig10/6-efficacy"] = frame.Ratio(config(6, efficacy), frame.Highest(others(1, efficacy)...))
	out["fig10/1-accuracy"], out["fig10/2-accuracy"] = config(1, accuracy), config(2, accuracy)
	out["fig10/2-slower"] = frame.Over(config(2, latency), config(1, latency))
	out["fig10/4-slower"] = frame.Over(config(4, latency), config(3, latency))
	out["fig3/accuracy"] = probe(func(l *lab) (float64, error) { return l.edge.accuracy("resnet34", 0.3), nil })
	out["fig3/latency"] = probe(func(l *lab) (float64, error) { return l.edge.early("resnet34", 0.3) })
	out["table1/disjoint"], out["table1/overlapping"] = partitions(10, 21), partitions(10, 10)
	out["table1/order"] = frame.Over(partitions(10, 10), partitions(10, 21))
	for name, tpcs := range map[string]int{"shufflenet": 3, "resnet34": 8, "mobilenetv2": 15} {
		out["fig4a/"+name], out["fig4a/"+name+"-first"] = saturation(name, tpcs, 41), saturation(name, 1, tpcs)
		out["fig4b/"+name], out["fig4c/"+name] = batches(name, 128, 8, false), batches(name, 128, 2, true)
	}
	return out
}

// batches is the ratio of the times of two batches at full depth on all units, or of their throughputs.
func batches(network string, a, b int, throughput bool) probe {
	return func(l *lab) (float64, error) {
		n := l.edge.nets[network]
		x := float64(n.alone[a-1]) / float64(n.alone[b-1])
		if throughput {
			x = float64(a) / float64(b) / x
		}
		return x, nil
	}
}

// accuracy is the share of correct samples at a threshold.
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

// early is the time of a batch of 32 at a threshold, relative to full depth.
func (e *Edge) early(network string, theta float32) (float64, error) {
	d, err := e.device()
	if err != nil {
		return 0, err
	}
	p := &profiler{d: d}
	ns, err := p.run(network, 32, theta, device.Units{})
	return float64(ns) / float64(e.nets[network].alone[31]), err
}

// micro is a device with one program, without exits.
func (l *lab) micro(name string, program *kernel.Program) (*profiler, error) {
	n := &gpu.Network{
		Name: name, Program: func(int) (*kernel.Program, error) { return program, nil },
		Exit: func(device.RequestID, int) device.ExitResult { return device.ExitResult{Confidence: 1} },
	}
	d, err := gpu.Loaded(gpu.Config{Name: name, Params: l.file.Params()}, "streams", []string{name}, func(int) *gpu.Network { return n })
	return &profiler{d: d}, err
}

// partitions is the time of two equal convolutions that run together, relative to one alone (table 1): each on eleven
// TPCs, from a and from b on. The kernel is the convolution of ResNet-34 with the time closest to the published 0.068 ms.
func partitions(a, b int) probe {
	return func(l *lab) (float64, error) {
		spec := catalogue.Spec{Network: "resnet34", Style: "pytorch"}
		if l.with == "dram-bound" {
			spec.Batch = 8 // of one image none takes so long
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
			if strings.HasPrefix(k.Name, "conv") == (l.with == "dram-bound") {
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
}

func abs(x int64) int64 { return max(x, -x) }

// saturation is the ratio of a network's times on a and b TPCs for one image of 128 x 128.
func saturation(network string, a, b int) probe {
	return func(l *lab) (float64, error) {
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
}
