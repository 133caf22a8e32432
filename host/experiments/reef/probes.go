// The probes of REEF's claims (claims.yaml).

package reef

import (
	"fmt"
	"math"

	"github.com/sluice-npu/sluice/host/experiments/frame"
	"github.com/sluice-npu/sluice/host/gpu/catalogue"
	"github.com/sluice-npu/sluice/host/gpu/idem"
	"github.com/sluice-npu/sluice/host/gpu/kernel"
)

// uniformProgram has n kernels, each of which occupies the whole GPU for us microseconds.
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
		p, err := catalogue.Program(l.bed("tvm").spec(network), m)
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
		return only("tvm", system, w, func(o *Outcome) float64 { return o.RTThroughput })
	}
}

// redone is the work that a preemption repeats, in us; NaN if nothing was stopped.
func redone(style, workload string) probe {
	return outcome(style, "reset", workload, func(o *Outcome) float64 {
		if o.Redone == 0 {
			return math.NaN()
		}
		return o.Redone
	})
}

// bestEffort is the throughput of best-effort clients.
func bestEffort(system, workload string) probe {
	return outcome("tvm", system, workload, func(o *Outcome) float64 { return o.BestEffort })
}

// starving is the number of figure 23's pairs in which best-effort clients get less than a thousandth of a GPU in the second half
// of a run of twice the time: before, who is to starve gets its first kernels through.
func starving(system string) probe {
	return func(l *lab) (float64, error) {
		n := 0.0
		for _, p := range each25(func(pair string) probe { return bestEffort(system, pair) }) {
			x, err := p(l)
			if err != nil {
				return 0, err
			}
			whole, err := p(l.longer())
			if err != nil {
				return 0, err
			}
			if 2*whole-x < 0.001 {
				n++
			}
		}
		return n, nil
	}
}

// usages is the mean share of CUs in use by a real-time network and its padding, over the five best-effort networks.
func usages(system, network string) probe {
	return pairs(func(pair string) probe {
		return outcome("tvm", system, pair, func(o *Outcome) float64 { return o.Usage })
	}, network)
}

// hostReset is the time to empty the host queue of one best-effort client. deviceReset is the rest of a preemption
// without the kill.
func hostReset(system string) probe {
	return stopped("tvm", system, "resnet152+1", func(o *Outcome) float64 { return o.Host })
}

func deviceReset(system string) probe {
	kill := func(l *lab) (float64, error) { return l.file.Values["kill_ns"].Value / 1e3, nil }
	return frame.Minus(frame.Minus(preempt("tvm", system, "resnet152+1"), hostReset(system)), kill)
}

// linear is the time that a place of the device queue adds to a preemption between 16 and 64 places, relative to that
// between 4 and 16.
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

// by is the ratio of two systems' preemption times for each workload.
func by(workloads []string, a, b string) (out []probe) {
	for _, w := range workloads {
		out = append(out, over(preempt("tvm", a, w), preempt("tvm", b, w)))
	}
	return out
}

// four is the places of REEF's device queue.
const four = 4

// alone is a network's time alone with a device queue of the given size, in ms.
func alone(style, network string, places float64) probe {
	return func(l *lab) (float64, error) {
		f := l.file.With("device_queue", places/l.file.Values["device_queue"].Value)
		b := NewBed(f, style)
		b.with = l.with
		ns, err := b.Alone(network)
		return float64(ns) / 1e6, err
	}
}

// kernels is how many kernels a network has.
func kernels(style, network string) probe {
	return func(l *lab) (float64, error) {
		p, err := l.bed(style).network(network).Program(1)
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

// longest is the largest group of kernels that one restart of REEF's five networks repeats.
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

// probes returns the probe of each claim.
func probes() samplers {
	out := samplers{}
	disbProbes(out)
	preemptionProbes(out)
	programProbes(out)
	paddingProbes(out)
	unpaddedProbes(out)
	return out
}

// disbProbes are those of DISB's workloads: figures 1, 15, 16 and 18.
func disbProbes(out samplers) {
	for _, g := range []string{"mi50", "gv100"} {
		for _, w := range []string{"A", "B", "C"} {
			id := "fig15-16/" + g + "/" + w + "/"
			if w != "C" {
				out[id+"seq-rt"] = rt("tvm", "seq", w)
			}
			out[id+"streams-rt"], out[id+"reef-rt"] = rt("tvm", "streams", w), rt("tvm", "reef", w)
			out[id+"streams-throughput"], out[id+"reef-throughput"] = throughput("tvm", "streams", w), throughput("tvm", "reef", w)
		}
		for _, w := range []string{"D", "E"} {
			out["fig15-16/"+g+"/"+w+"/reef-throughput"] = throughput("tvm", "reef", w)
		}
		out["fig15-16/"+g+"/trace/reef-throughput"], out["fig15-16/"+g+"/trace/reef-rt"] = throughput("tvm", "reef", "drive"), rt("tvm", "reef", "drive")
		out["fig18/"+g+"/reset-least"], out["fig18/"+g+"/reset-most"] = frame.Lowest(each5("reset")...), frame.Highest(each5("reset")...)
	}
	out["fig15/mi50/D/reef-rt"], out["fig15/mi50/E/reef-rt"] = rt("tvm", "reef", "D"), rt("tvm", "reef", "E")
	out["fig1/streams-5"] = rt("tvm", "streams", "C")
}

// workloads are the names of DISB's.
func workloads() (names []string) {
	for _, w := range DISB() {
		names = append(names, w.Name)
	}
	return names
}

// preemptionProbes are those of figures 17 to 21.
func preemptionProbes(out samplers) {
	preempted := func(system, workload string) probe { return preempt("tvm", system, workload) }
	gains := func(workloads ...string) []probe { return by(workloads, "wait", "reset") }
	out["fig17/mi50/B"], out["fig17/mi50/C"], out["fig17/mi50/least"] = gains("B")[0], gains("C")[0], frame.Lowest(gains(workloads()...)...)
	out["fig17/gv100/A"], out["fig17/gv100/C"] = gains("A")[0], gains("C")[0]
	out["fig18/vgg"], out["fig18/rnet"] = preempted("wait", "vgg19+1"), preempted("wait", "resnet152+1")
	out["fig18/gv100/rnet"], out["fig18/gv100/gpt2"] = preempted("wait", "resnet152+1"), preempted("wait", "gpt2+1")
	out["fig19a/wait"] = over(preemptUniform("wait", 200, 100), preemptUniform("wait", 50, 100))
	out["fig19b/wait"] = over(preemptUniform("wait", 100, 200), preemptUniform("wait", 100, 50))
	out["fig19/reset"] = frame.Highest(preemptUniform("reset", 50, 100), preemptUniform("reset", 200, 100), preemptUniform("reset", 100, 50), preemptUniform("reset", 100, 200))
	var clients []string
	for n := 1; n <= 5; n++ {
		clients = append(clients, fmt.Sprintf("resnet152+%d", n))
	}
	left, waited := by(clients, "reset", "reset-plain"), by(clients, "wait", "reset-plain")
	out["fig20a/most-left"], out["fig20a/least-left"] = frame.Highest(left...), frame.Lowest(left...)
	out["fig20a/wait-least"], out["fig20a/wait-most"] = frame.Lowest(waited...), frame.Highest(waited...)
	out["fig20b/37us"], out["fig20b/444us"] = preempted("reset", "resnet152+1"), preempted("reset-plain", "resnet152+1")
	// Part by part: the host's queue, and the rest less the 3 us of the kill.
	out["fig20b/host"], out["fig20b/host-async"] = hostReset("reset-plain"), hostReset("reset-async")
	out["fig20b/device"], out["fig20b/device-four"] = deviceReset("reset-async"), deviceReset("reset")
	out["fig21/queue"], out["fig21/long"], out["fig21/ms"], out["fig21/linear"] = queues(1, 4), queues(4, 256), alone("tvm", "resnet152", four), probe(linear)
}

// programProbes are those of the networks' kernels: the work that a preemption repeats (figure 22), the groups of kernels
// (figure 10), and table 1.
func programProbes(out samplers) {
	styles := []string{"tvm", "tensorrt", "pytorch"}
	for _, s := range []struct{ gpu, style string }{{"mi50", "tvm"}, {"gv100", "tvm"}, {"gv100", "tensorrt"}, {"gv100", "pytorch"}} {
		var us, share []probe
		for _, n := range five() {
			x := redone(s.style, n+"+1")
			us = append(us, x)
			share = append(share, over(x, func(l *lab) (float64, error) { // us of ms
				ms, err := alone(s.style, n, four)(l)
				return 1e3 * ms, err
			}))
		}
		id := "fig22/" + s.gpu + "/" + s.style
		out[id+"/least"], out[id+"/most"], out[id+"/share"] = frame.Lowest(us...), frame.Highest(us...), frame.Highest(share...)
	}
	for _, style := range styles[1:] {
		out["fig10/"+style] = longest(style)
	}
	for _, n := range five() {
		out["table1/"+n+"/ms"] = alone("tvm", n, four)
		for _, style := range styles {
			out["table1/"+n+"/"+style] = kernels(style, n)
		}
	}
}

// paddingProbes are those of sections 6.3 and 6.5 and of figures 23, 24 and 27.
func paddingProbes(out samplers) {
	out["sec6.3/B/best-effort"] = bestEffort("reef", "B")
	out["sec6.5/dkp-starved"], out["sec6.5/mv-starved"] = starving("reef-dkp"), starving("reef")
	var notSlowed, below9 []probe
	for _, w := range workloads() {
		notSlowed = append(notSlowed, outcome("tvm", "reef", w, func(o *Outcome) float64 { return o.NotSlowed }))
		below9 = append(below9, outcome("tvm", "reef", w, func(o *Outcome) float64 { return o.Below9us }))
	}
	out["fig27/unhurt"], out["fig27/9us"] = mean(notSlowed...), mean(below9...)
	for _, pair := range []string{"resnet152/vgg19", "yolov3/vgg19"} {
		out["fig23/"+pair+"/dkp"], out["fig23/"+pair+"/rt"] = throughput("tvm", "reef-dkp", pair), rt("tvm", "reef-dkp", pair)
	}
	pair := func(system string) func(string) probe {
		return func(w string) probe { return throughput("tvm", system, w) }
	}
	late := func(system string) func(string) probe { return func(w string) probe { return rt("tvm", system, w) } }
	for id, s := range map[string]string{"dkp": "reef-dkp", "mv": "reef"} {
		out["fig23/"+id+"-throughput"], out["fig23/"+id+"-most"] = pairs(pair(s)), frame.Highest(each25(pair(s))...)
		out["fig23/rnet/"+id] = pairs(pair(s), "resnet152")
		out["fig24/rnet-"+id] = usages(s, "resnet152")
	}
	out["fig23/dkp-rt"], out["fig23/dkp-rt-most"] = pairs(late("reef-dkp")), frame.Highest(each25(late("reef-dkp"))...)
	out["fig23/streams-rt"], out["fig23/streams-throughput"] = pairs(late("streams")), pairs(pair("streams"))
	out["fig23/streams-rt-least"], out["fig23/streams-rt-most"] = frame.Lowest(each25(late("streams"))...), frame.Highest(each25(late("streams"))...)
	out["fig23/streams-rt-throughput"] = pairs(rtThroughput("streams"))
	out["fig24/rnet"], out["fig24/yolo"] = usage("resnet152"), usage("yolov3")
}

// unpaddedProbes are those of figures 28 and 29: Triton's and Orion's kernels, without padding. They are p99s where the
// text says so.
func unpaddedProbes(out samplers) {
	triton := func(w string) probe { return rt("tensorrt", "priority", w) }
	for _, w := range []string{"A", "B", "C"} {
		out["fig28/"+w+"/triton"] = triton(w)
		out["fig29/"+w+"/orion-p99"], out["fig29/"+w+"/reef-p99"] = p99("pytorch", "orion", w), p99("pytorch", "reset", w)
	}
	out["fig28/C/reef"] = rt("tensorrt", "reset", "C")
	for _, w := range []string{"A", "E"} {
		out["fig28/"+w+"/ratio"] = over(triton(w), rt("tensorrt", "reset", w))
	}
	out["fig28/triton-throughput"], out["fig28/reef-throughput"] = overDISB("tensorrt", "priority"), overDISB("tensorrt", "reset")
	out["fig29/C/orion-throughput"], out["fig29/C/reef-throughput"] = throughput("pytorch", "orion", "C"), throughput("pytorch", "reset", "C")
}

// each5 is a preemption of each of the five networks, one client of it.
func each5(system string) (all []probe) {
	for _, n := range five() {
		all = append(all, preempt("tvm", system, n+"+1"))
	}
	return all
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
func queues(a, b float64) probe {
	return over(alone("tvm", "resnet152", a), alone("tvm", "resnet152", b))
}
