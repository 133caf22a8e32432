// REEF's statements (tables 1; figures 1, 10, 15 to 24, 27 to 29).

package gpus

import (
	"fmt"
	"math"
	"strings"

	"github.com/sluice-npu/sluice/host/experiments/verdict"
	"github.com/sluice-npu/sluice/host/gpu/catalogue"
	"github.com/sluice-npu/sluice/host/gpu/idem"
	"github.com/sluice-npu/sluice/host/gpu/kernel"
)

func between(id, text, gpu string, from, to float64, of probe) claim {
	return claim{Claim: verdict.Between(id, text, from, to), gpu: gpu, of: of}
}

func long(c claim) claim { c.long = true; return c }

// p99 is the 99th percentile of real-time latencies, of the same on a GPU of their own.
func p99(style, system, workload string) probe {
	of := func(s string) probe {
		return func(l *lab) (float64, error) {
			o, err := l.run(style, s, workload)
			if err != nil {
				return 0, err
			}
			return o.RTP99, nil
		}
	}
	return over(of(system), of("rt-only"))
}

// uniformProgram is n kernels, each of which keeps the whole GPU busy for so many us.
func uniformProgram(units, n int, us float64) *kernel.Program {
	p := &kernel.Program{Name: fmt.Sprintf("uniform%dx%g", n, us), Memory: 1 << 20, Exits: []int{n - 1}}
	for i := range n {
		p.Kernels = append(p.Kernels, kernel.Kernel{
			Name: "uniform", Blocks: units, Threads: 256, Regs: 64, Issue: 1, BlockNs: us * 1e3, Bytes: 1 << 20,
			Reads: []kernel.Span{{From: int64(i%2) << 19, To: int64(i%2)<<19 + 1<<19}}, Writes: []kernel.Span{{From: int64(1-i%2) << 19, To: int64(1-i%2)<<19 + 1<<19}},
		})
	}
	return p
}

// preemptUniform is the mean preemption of a best-effort client of such a program, in us.
func preemptUniform(system string, n int, us float64) probe {
	return func(l *lab) (float64, error) {
		b := l.bed("tvm")
		p := uniformProgram(int(math.Round(l.file.Values["sms"].Value)), n, us)
		if b.own == nil {
			b.own = map[string]*kernel.Program{}
		}
		if b.own[p.Name] == nil {
			b.own[p.Name] = p
		}
		return preempt("tvm", system, p.Name+"+1")(l)
	}
}

// usage is the mean share of the SMs that a network's kernels have blocks for, by their time.
func usage(network string) probe {
	return func(l *lab) (float64, error) {
		m := l.file.Machine()
		p, err := catalogue.Program(catalogue.Spec{Network: network, Style: "tvm"}, m)
		if err != nil {
			return 0, err
		}
		var sum, time float64
		for i := range p.Kernels {
			k := &p.Kernels[i]
			if k.Kind != kernel.Compute {
				continue
			}
			t := k.BlockNs * max(1, math.Ceil(float64(k.Blocks)/float64(m.SMs))*k.Issue)
			sum += t * min(1, float64(k.Blocks)/float64(m.SMs))
			time += t
		}
		return sum / time, nil
	}
}

// pairs is the mean of a metric over figure 23's pairs of a real-time and a best-effort network.
func pairs(of func(pair string) probe, rts ...string) probe {
	return mean(each25(of, rts...)...)
}

// each25 is a metric of each of those pairs.
func each25(of func(pair string) probe, rts ...string) (all []probe) {
	if len(rts) == 0 {
		rts = five()
	}
	for _, rt := range rts {
		for _, be := range five() {
			all = append(all, of(rt+"/"+be))
		}
	}
	return all
}

// rtThroughput is the throughput of real-time clients under a system, of that without others.
func rtThroughput(system string) func(string) probe {
	return func(w string) probe {
		of := func(s string) probe { return outcome("tvm", s, w, func(o *Outcome) float64 { return o.RTThroughput }) }
		return over(of(system), of("rt-only"))
	}
}

// outcome is something that a run showed.
func outcome(style, system, workload string, of func(*Outcome) float64) probe {
	return func(l *lab) (float64, error) {
		o, err := l.run(style, system, workload)
		if err != nil {
			return 0, err
		}
		return of(o), nil
	}
}

// redone is what a preemption makes to be done again, in us.
func redone(style, workload string) probe {
	of := outcome(style, "reset", workload, func(o *Outcome) float64 { return o.Redone })
	return func(l *lab) (float64, error) {
		us, err := of(l)
		if us == 0 {
			us = math.NaN() // nothing was stopped
		}
		return us, err
	}
}

// bestEffort is the throughput of best-effort clients.
func bestEffort(system, workload string) probe {
	return outcome("tvm", system, workload, func(o *Outcome) float64 { return o.BestEffort })
}

// starving is in how many of figure 23's pairs best-effort clients get less than a thousandth of a GPU.
func starving(system string) probe {
	return func(l *lab) (float64, error) {
		n := 0.0
		for _, p := range each25(func(pair string) probe { return bestEffort(system, pair) }) {
			x, err := p(l)
			if err != nil {
				return 0, err
			}
			if x < 0.001 {
				n++
			}
		}
		return n, nil
	}
}

// usages is the mean share of CUs in use by a real-time network and what pads it, over five of those.
func usages(system, network string) probe {
	return pairs(func(pair string) probe {
		return outcome("tvm", system, pair, func(o *Outcome) float64 { return o.Usage })
	}, network)
}

// hostReset is how long the host queue of one best-effort client takes to be emptied, deviceReset the rest
// of a preemption but for the kill.
func hostReset(system string) probe {
	return func(l *lab) (float64, error) {
		o, err := l.run("tvm", system, "resnet152+1")
		if err != nil || o.Preemptions == 0 {
			return math.NaN(), err
		}
		return o.Host, nil
	}
}

func deviceReset(system string) probe {
	return func(l *lab) (float64, error) {
		o, err := l.run("tvm", system, "resnet152+1")
		if err != nil || o.Preemptions == 0 {
			return math.NaN(), err
		}
		return o.Preempt - o.Host - l.file.Values["kill_ns"].Value/1e3, nil
	}
}

// linear is by how much a place of the device queue makes preemption longer from 16 to 64 places, over
// from 4 to 16.
func linear(l *lab) (float64, error) {
	w, err := workloadOf("resnet152+1")
	if err != nil {
		return 0, err
	}
	at := func(n float64) (float64, error) {
		o, err := NewBed(l.file.With("device_queue", n/l.file.Values["device_queue"].Value), "tvm").Run(l.ctx, "reset-async", w, l.ns, l.seed)
		if err != nil || o.Preemptions == 0 {
			return math.NaN(), err
		}
		return o.Preempt, nil
	}
	var us [3]float64
	for i, n := range []float64{4, 16, 64} {
		if us[i], err = at(n); err != nil {
			return 0, err
		}
	}
	return (us[2] - us[1]) / 48 / ((us[1] - us[0]) / 12), nil
}

// by is one system's preemptions over another's, by workload.
func by(workloads []string, a, b string) (out []probe) {
	for _, w := range workloads {
		out = append(out, over(preempt("tvm", a, w), preempt("tvm", b, w)))
	}
	return out
}

// alone is a network's time alone with REEF's device queue of four, in ms.
func alone(style, network string) probe {
	return func(l *lab) (float64, error) {
		f := l.file.With("device_queue", 4/l.file.Values["device_queue"].Value)
		ns, err := NewBed(f, style).Alone(network)
		return float64(ns) / 1e6, err
	}
}

// kernels is how many kernels a network has.
func kernels(style, network string) probe {
	return func(l *lab) (float64, error) {
		p, err := catalogue.Program(catalogue.Spec{Network: network, Style: style}, l.file.Machine())
		if err != nil {
			return 0, err
		}
		n := 0
		for i := range p.Kernels {
			if p.Kernels[i].Kind == kernel.Compute {
				n++
			}
		}
		return float64(n), nil
	}
}

// longest is the longest of the groups from which REEF's five networks are taken up again.
func longest(style string) probe {
	return func(l *lab) (float64, error) {
		n := 0
		for _, network := range five() {
			p, err := catalogue.Program(catalogue.Spec{Network: network, Style: style}, l.file.Machine())
			if err != nil {
				return 0, err
			}
			for i, e := range idem.Entries(p) {
				n = max(n, i-e+1)
			}
		}
		return float64(n), nil
	}
}

// reefClaims are REEF's statements.
func reefClaims() []claim {
	const (
		waits   = "a preemption of some 32 us in VGG-19's 7 ms is 0.4 % already; what a padded kernel takes of the DRAM comes on top"
		spread  = "the publication's ResNet-152 and VGG-19 are for images of 64 x 64, which leave more compute units idle than the catalogue's of 224 x 224"
		memory  = "no caches are simulated, so five clients do not spoil each other's"
		shapes  = "kernels here are a network's layers, fused by one rule and timed by another; the frameworks' are tuned, and split some layers into several"
		evicted = "the command processor's cost of a kernel that ends itself is fitted to a device queue of four, at one client"
		orion   = "kernels of each best-effort client go one at a time; what Orion's own scheduling costs its host is not published and not simulated"
	)
	const (
		starved = "a kernel of which one block lasts longer than every real-time kernel that leaves a unit stays at the head of its queue: rule 1 refuses it for ever"
		device  = "the device queue of 256 takes nearly all of a network's kernels at once, so the host's is nearly empty"
		halves  = "how much of a network is queued when it is preempted is as drawn, and less than a half of ResNet-152 behind a task of its own"
	)
	var each17 []probe
	for _, w := range DISB() {
		each17 = append(each17, over(preempt("tvm", "wait", w.Name), preempt("tvm", "reset", w.Name)))
	}
	var out []claim
	for _, g := range []struct {
		gpu                           string
		seq, streams, tStreams, tREEF [3]float64
		rt                            [3]float64
	}{
		{"mi50", [3]float64{2.87, 3.66, 0}, [3]float64{1.10, 1.21, 8.1}, [3]float64{1.34, 1.72, 1.91}, [3]float64{1.12, 1.28, 1.53}, [3]float64{1.005, 1.005, 1.02}},
		{"gv100", [3]float64{2.16, 2.19, 0}, [3]float64{1.46, 1.51, 4.2}, [3]float64{1.15, 1.28, 1.42}, [3]float64{1.08, 1.12, 1.20}, [3]float64{1.005, 1.005, 1.02}},
	} {
		for i, w := range []string{"A", "B", "C"} {
			id := fmt.Sprintf("fig15-16/%s/%s/", g.gpu, w)
			if g.seq[i] > 0 {
				out = append(out, gain(id+"seq-rt", "SEQ: latency of real-time tasks, of RT-Only's", g.gpu, g.seq[i], rt("tvm", "seq", w)))
			}
			out = append(out,
				because(gain(id+"streams-rt", "GPUStreams: latency of real-time tasks, of RT-Only's", g.gpu, g.streams[i], rt("tvm", "streams", w)), memory),
				because(atMost(id+"reef-rt", fmt.Sprintf("REEF: latency of real-time tasks, of RT-Only's: %.1f %% more at most", (g.rt[i]-1)*100), g.gpu, g.rt[i], rt("tvm", "reef", w)), waits),
				gain(id+"streams-throughput", "GPUStreams: throughput, of running alone", g.gpu, g.tStreams[i], throughput("tvm", "streams", w)),
				because(gain(id+"reef-throughput", "REEF: throughput, of running alone", g.gpu, g.tREEF[i], throughput("tvm", "reef", w)), spread))
		}
	}
	for _, w := range []string{"D", "E"} {
		out = append(out, atMost("fig15/mi50/"+w+"/reef-rt", "REEF: latency of real-time tasks with five of them, of RT-Only's, 4.2 % more at most", "mi50", 1.042, rt("tvm", "reef", w)))
	}
	out = append(out,
		ours(atLeast("fig1/streams-5", "five best-effort clients hurt GPUStreams severalfold", "mi50", 2, rt("tvm", "streams", "C"))),
		fitted(near("fig20b/31us", "one preemption of ResNet-152, device queue of four: 3 + 31 + 3 us", "mi50", 37, preempt("tvm", "reset", "resnet152+1"))),
		near("fig20b/424us", "without either optimisation: 17 + 424 + 3 us", "mi50", 444, preempt("tvm", "reset-plain", "resnet152+1")),
		near("fig18/vgg", "wait-based preemption of VGG-19, us", "mi50", 310, preempt("tvm", "wait", "vgg19+1")),
		near("fig18/rnet", "wait-based preemption of ResNet-152, us", "mi50", 882, preempt("tvm", "wait", "resnet152+1")),
		because(near("fig17/mi50/C", "wait-based over reset-based preemption, five clients", "mi50", 21.8, over(preempt("tvm", "wait", "C"), preempt("tvm", "reset", "C"))), evicted),
		ours(atLeast("fig17/mi50/least", "wait-based over reset-based preemption, the least of DISB's five: more than an order of magnitude", "mi50", 10, least(each17...))),
		near("fig17/gv100/A", "wait-based over reset-based preemption, GV100, one client", "gv100", 6.1, over(preempt("tvm", "wait", "A"), preempt("tvm", "reset", "A"))),
		near("fig17/gv100/C", "wait-based over reset-based preemption, GV100, five clients", "gv100", 15, over(preempt("tvm", "wait", "C"), preempt("tvm", "reset", "C"))),
		fitted(gain("fig21/queue", "ResNet-152 with a device queue of one, of four: 14.3 / 12.3 ms", "mi50", 14.3/12.3, queues(1, 4))),
		atMost("fig21/long", "and no further gain beyond four: less than 0.3 %", "mi50", 1.003, queues(4, 256)),
		because(gain("fig28/C/triton", "Triton (stream priorities, TensorRT's kernels): latency of real-time tasks", "gv100", 2.8, rt("tensorrt", "priority", "C")), memory),
		atMost("fig28/C/reef", "REEF without padding there: 9 % more at most", "gv100", 1.09, rt("tensorrt", "reset", "C")),
		because(near("fig29/C/orion-throughput", "Orion: throughput", "gv100", 0.97, throughput("pytorch", "orion", "C")), orion),
		gain("fig29/C/reef-throughput", "REEF without padding there: throughput", "gv100", 1.14, throughput("pytorch", "reset", "C")))
	for _, p := range []struct {
		rt, be string
		dkp    float64
		metric string
	}{{"resnet152", "vgg19", 1.198, "throughput"}, {"yolov3", "vgg19", 1.081, "throughput"}} {
		pair := p.rt + "/" + p.be
		out = append(out,
			because(gain("fig23/"+pair+"/dkp", "padding alone, one real-time and one best-effort client: throughput", "mi50", p.dkp, throughput("tvm", "reef-dkp", pair)), spread),
			atMost("fig23/"+pair+"/rt", "and the latency of real-time tasks, 2.9 % more at most", "mi50", 1.029, rt("tvm", "reef-dkp", pair)))
	}
	// Figure 15 and 16, D and E; 17 to 22.
	for _, g := range []struct {
		gpu      string
		from, to float64
	}{{"mi50", 1.22, 1.42}, {"gv100", 1.18, 1.25}} {
		for _, w := range []string{"D", "E"} {
			out = append(out, because(between("fig15-16/"+g.gpu+"/"+w+"/reef-throughput", "REEF: throughput with five real-time clients", g.gpu, g.from, g.to, throughput("tvm", "reef", w)), spread))
		}
		var models []probe
		for _, n := range five() {
			models = append(models, preempt("tvm", "reset", n+"+1"))
		}
		out = append(out,
			fitted(near("fig18/"+g.gpu+"/reset-least", "reset-based preemption, the least of five networks: 30 us", g.gpu, 30, least(models...))),
			fitted(near("fig18/"+g.gpu+"/reset-most", "reset-based preemption, the most of five networks: 38 us", g.gpu, 38, most(models...))))
	}
	var clients []string
	for n := 1; n <= 5; n++ {
		clients = append(clients, fmt.Sprintf("resnet152+%d", n))
	}
	out = append(out,
		because(near("fig17/mi50/B", "wait-based over reset-based preemption, DISB B", "mi50", 19.3, over(preempt("tvm", "wait", "B"), preempt("tvm", "reset", "B"))), evicted),
		near("fig18/gv100/rnet", "wait-based preemption of ResNet-152, GV100, us", "gv100", 233, preempt("tvm", "wait", "resnet152+1")),
		near("fig18/gv100/gpt2", "wait-based preemption of GPT-2, GV100, us", "gv100", 365, preempt("tvm", "wait", "gpt2+1")),
		ours(atLeast("fig19a/wait", "wait-based preemption rises with the kernels launched: 200 over 50 of 100 us", "mi50", 1.5, over(preemptUniform("wait", 200, 100), preemptUniform("wait", 50, 100)))),
		ours(atLeast("fig19b/wait", "and with their time: 100 kernels of 200 us over 50 us", "mi50", 1.25, over(preemptUniform("wait", 100, 200), preemptUniform("wait", 100, 50)))),
		fitted(atMost("fig19/reset", "reset-based preemption stays below 40 us throughout", "mi50", 40,
			most(preemptUniform("reset", 50, 100), preemptUniform("reset", 200, 100), preemptUniform("reset", 100, 50), preemptUniform("reset", 100, 200)))),
		near("fig20a/most-left", "both optimisations leave of the preemption, the most for one to five clients: 13 %", "mi50", 0.13, most(by(clients, "reset", "reset-plain")...)),
		near("fig20a/least-left", "and the least: 8 %", "mi50", 0.08, least(by(clients, "reset", "reset-plain")...)),
		gain("fig20a/wait-least", "wait-based over reset-based without them, the least for one to five clients", "mi50", 1.7, least(by(clients, "wait", "reset-plain")...)),
		gain("fig20a/wait-most", "and the most", "mi50", 3.0, most(by(clients, "wait", "reset-plain")...)),
		near("fig21/ms", "ResNet-152 with a device queue of four: 12.3 ms", "mi50", 12.3, alone("tvm", "resnet152")))
	// Sections 6.3 and 6.5: nobody starves.
	out = append(out,
		because(ours(atLeast("sec6.3/B/best-effort", "even in DISB B best-effort tasks do not starve: their throughput under REEF, of alone, at least a hundredth", "mi50", 0.01, bestEffort("reef", "B"))), starved),
		because(near("sec6.5/dkp-starved", "pairs of 25 in which padding alone leaves best-effort tasks nothing: four", "mi50", 4, starving("reef-dkp")), starved),
		because(atMost("sec6.5/mv-starved", "and with versions: none", "mi50", 0, starving("reef")), starved))
	// Figures 15 and 16, the trace of a car.
	for _, g := range []struct {
		gpu      string
		from, to float64
	}{{"mi50", 1.22, 1.42}, {"gv100", 1.18, 1.25}} {
		id := "fig15-16/" + g.gpu + "/trace/"
		out = append(out,
			because(between(id+"reef-throughput", "REEF: throughput with the real-time tasks of a car", g.gpu, g.from, g.to, throughput("tvm", "reef", "drive")), spread),
			atMost(id+"reef-rt", "and their latency, of RT-Only's, 4.2 % more at most", g.gpu, 1.042, rt("tvm", "reef", "drive")))
	}
	// Figure 20(b), part by part: the host's queue, and the rest less the 3 us of the kill.
	for _, s := range []struct {
		id, text string
		us       float64
		of       probe
		fitted   bool
	}{
		{"host", "the host queue without asynchronous reclamation: 17 us", 17, hostReset("reset-plain"), true},
		{"host-async", "and with it: 3 us", 3, hostReset("reset-async"), true},
		{"device", "the device queue without restriction: 424 us", 424, deviceReset("reset-async"), false},
		{"device-four", "and of four: 31 us", 31, deviceReset("reset"), true},
	} {
		c := near("fig20b/"+s.id, s.text, "mi50", s.us, s.of)
		c.Fitted = s.fitted
		if s.id == "host" {
			out = append(out, because(c, device))
		} else {
			out = append(out, because(c, halves))
		}
	}
	out = append(out, because(near("fig21/linear", "preemption rises linearly with the capacity of the device queue: us a place from 16 to 64 over those from 4 to 16", "mi50", 1, linear), halves))
	// Figure 22 is of the work that is done again; 10 of the groups.
	for _, s := range []struct{ gpu, style string }{{"mi50", "tvm"}, {"gv100", "tvm"}, {"gv100", "tensorrt"}, {"gv100", "pytorch"}} {
		var us, share []probe
		for _, n := range five() {
			x := redone(s.style, n+"+1")
			us = append(us, x)
			share = append(share, over(x, func(l *lab) (float64, error) {
				ms, err := alone(s.style, n)(l)
				return 1e3 * ms, err
			}))
		}
		id := "fig22/" + s.gpu + "/" + s.style
		out = append(out,
			atLeast(id+"/least", "work that one preemption makes to be done again, us, the least of five networks: 22 or more", s.gpu, 22, least(us...)),
			atMost(id+"/most", "and the most: 170 or less", s.gpu, 170, most(us...)),
			atMost(id+"/share", "of the task's time alone, the most of five networks: less than 5 %", s.gpu, 0.05, most(share...)))
	}
	for _, style := range []string{"tensorrt", "pytorch"} {
		out = append(out, fitted(atMost("fig10/"+style, "kernels of a group that is run again, "+style+"'s, the most of five networks: nine", "gv100", 9, longest(style))))
	}
	// Table 1: what the networks are.
	for _, n := range []struct {
		name                   string
		ms                     float64
		tvm, tensorrt, pytorch float64
	}{{"resnet152", 9.1, 207, 103, 211}, {"vgg19", 3.7, 71, 30, 81}, {"yolov3", 10, 144, 175, 572}, {"bert-base", 8.1, 393, 173, 238}, {"gpt2", 13.2, 440, 148, 294}} {
		out = append(out,
			because(near("table1/"+n.name+"/ms", n.name+" alone, TVM's kernels, ms", "mi50", n.ms, alone("tvm", n.name)), shapes),
			because(near("table1/"+n.name+"/tvm", n.name+": kernels, TVM's", "mi50", n.tvm, kernels("tvm", n.name)), shapes),
			because(near("table1/"+n.name+"/tensorrt", n.name+": kernels, TensorRT's", "mi50", n.tensorrt, kernels("tensorrt", n.name)), shapes),
			because(near("table1/"+n.name+"/pytorch", n.name+": kernels, PyTorch's", "mi50", n.pytorch, kernels("pytorch", n.name)), shapes))
	}
	// Figure 27, all of DISB.
	var unhurt, hurt []probe
	for _, w := range DISB() {
		unhurt = append(unhurt, outcome("tvm", "reef", w.Name, func(o *Outcome) float64 { return o.Unhurt }))
		hurt = append(hurt, outcome("tvm", "reef", w.Name, func(o *Outcome) float64 { return o.Hurt9 }))
	}
	out = append(out,
		atLeast("fig27/unhurt", "share of real-time kernels that padding does not slow, mean of DISB A to E: over 49.1 %", "mi50", 0.491, mean(unhurt...)),
		atLeast("fig27/9us", "share of real-time kernels that it slows by less than 9 us: over 90 %", "mi50", 0.9, mean(hurt...)))
	// Figures 23 and 24.
	pair := func(system string) func(string) probe {
		return func(w string) probe { return throughput("tvm", system, w) }
	}
	late := func(system string) func(string) probe { return func(w string) probe { return rt("tvm", system, w) } }
	out = append(out,
		long(gain("fig23/streams-rt", "GPUStreams: latency of real-time tasks, mean of 25 pairs", "mi50", 1.34, pairs(late("streams")))),
		long(gain("fig23/streams-throughput", "GPUStreams: throughput, mean of 25 pairs", "mi50", 1.50, pairs(pair("streams")))),
		long(gain("fig23/streams-rt-least", "GPUStreams: latency of real-time tasks, the least of 25 pairs", "mi50", 1.10, least(each25(late("streams"))...))),
		long(gain("fig23/streams-rt-most", "and the most", "mi50", 1.62, most(each25(late("streams"))...))),
		long(gain("fig23/streams-rt-throughput", "GPUStreams: throughput of real-time tasks, of RT-Only's: 24.7 % less", "mi50", 1-0.247, pairs(rtThroughput("streams")))),
		long(atMost("fig23/dkp-rt", "padding: latency of real-time tasks, mean of 25 pairs, 1 % more", "mi50", 1.01, pairs(late("reef-dkp")))),
		long(atMost("fig23/dkp-rt-most", "and the most: 2.9 % more", "mi50", 1.029, most(each25(late("reef-dkp"))...))),
		long(because(gain("fig23/dkp-most", "padding: throughput, the most of 25 pairs", "mi50", 1.34, most(each25(pair("reef-dkp"))...)), spread)),
		long(because(gain("fig23/mv-most", "padding with versions: throughput, the most of 25 pairs", "mi50", 1.57, most(each25(pair("reef"))...)), spread)),
		long(because(gain("fig23/dkp-throughput", "padding: throughput, mean of 25 pairs", "mi50", 1.12, pairs(pair("reef-dkp"))), spread)),
		long(because(gain("fig23/mv-throughput", "padding with versions: throughput, mean of 25 pairs", "mi50", 1.18, pairs(pair("reef"))), spread)),
		long(because(gain("fig23/rnet/dkp", "padding, ResNet-152 real-time: throughput", "mi50", 1.16, pairs(pair("reef-dkp"), "resnet152")), spread)),
		long(because(gain("fig23/rnet/mv", "padding with versions, ResNet-152 real-time: throughput", "mi50", 1.29, pairs(pair("reef"), "resnet152")), spread)),
		because(near("fig24/rnet-dkp", "share of CUs in use, ResNet-152 padded, mean of five best-effort networks", "mi50", 0.49, usages("reef-dkp", "resnet152")), spread),
		because(near("fig24/rnet-mv", "and with versions", "mi50", 0.72, usages("reef", "resnet152")), spread),
		because(near("fig24/rnet", "share of CUs in use by ResNet-152", "mi50", 0.34, usage("resnet152")), spread),
		near("fig24/yolo", "share of CUs in use by YOLOv3", "mi50", 0.87, usage("yolov3")))
	// Figures 28 and 29: P99s where the text says so.
	for _, w := range []string{"A", "B"} {
		out = append(out,
			because(gain("fig28/"+w+"/triton", "Triton: latency of real-time tasks", "gv100", 1.21, rt("tensorrt", "priority", w)), memory),
			gain("fig29/"+w+"/orion-p99", "Orion: P99 of real-time tasks", "gv100", 1.05, p99("pytorch", "orion", w)))
	}
	for _, w := range []string{"A", "B", "C"} {
		out = append(out, atMost("fig29/"+w+"/reef-p99", "REEF without padding there: P99 of real-time tasks, less than 5 % more", "gv100", 1.05, p99("pytorch", "reset", w)))
	}
	out = append(out,
		gain("fig28/A/ratio", "Triton's latency of real-time tasks over REEF's, A", "gv100", 1.12, over(rt("tensorrt", "priority", "A"), rt("tensorrt", "reset", "A"))),
		because(gain("fig28/E/ratio", "Triton's latency of real-time tasks over REEF's, E", "gv100", 5.20, over(rt("tensorrt", "priority", "E"), rt("tensorrt", "reset", "E"))), memory),
		gain("fig28/triton-throughput", "Triton: throughput, mean of A to E", "gv100", 1.21, overDISB("tensorrt", "priority")),
		gain("fig28/reef-throughput", "REEF without padding there: throughput, mean of A to E", "gv100", 1.11, overDISB("tensorrt", "reset")),
		because(gain("fig29/C/orion-p99", "Orion (PyTorch's kernels): P99 of real-time tasks", "gv100", 1.17, p99("pytorch", "orion", "C")), orion))
	for i := range out {
		// The catalogue's tiles were chosen with the compute units in use before the eyes that figure 24 shows,
		// in the commit that first compared: what padding gains hangs on them.
		if strings.HasPrefix(out[i].ID, "fig23/") || strings.HasPrefix(out[i].ID, "fig24/") {
			out[i].Fitted = true
		}
	}
	return out
}

// overDISB is the mean throughput of DISB's workloads.
func overDISB(style, system string) probe {
	var all []probe
	for _, w := range DISB() {
		all = append(all, throughput(style, system, w.Name))
	}
	return mean(all...)
}

// queues is ResNet-152's time alone with a device queue of a kernels, of that with b.
func queues(a, b int) func(*lab) (float64, error) {
	return func(l *lab) (float64, error) {
		at := func(n int) (float64, error) {
			f := l.file.With("device_queue", float64(n)/l.file.Values["device_queue"].Value)
			ns, err := NewBed(f, "tvm").Alone("resnet152")
			return float64(ns), err
		}
		x, err := at(a)
		if err != nil {
			return 0, err
		}
		y, err := at(b)
		return x / y, err
	}
}
