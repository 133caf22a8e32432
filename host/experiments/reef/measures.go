// These measures compute REEF's claims (claims.yaml) and rows.

package reef

import (
	"fmt"
	"math"

	"github.com/sluice-npu/sluice/host/experiments/frame"
	"github.com/sluice-npu/sluice/host/gpu/catalogue"
	"github.com/sluice-npu/sluice/host/gpu/idem"
	"github.com/sluice-npu/sluice/host/gpu/kernel"
)

// uniformProgram returns a program of n kernels. Each kernel occupies the whole GPU for "us" microseconds.
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

// uniform returns the mean preemption time, in us, of a best-effort client that runs a uniformProgram.
func (l *lab) uniform(system string, n int, us float64) (float64, error) {
	b := l.bed("tvm")
	p := uniformProgram(int(math.Round(l.file.Values["sms"].Value)), n, us)
	if b.own == nil {
		b.own = map[string]*kernel.Program{}
	}
	if b.own[p.Name] == nil {
		b.own[p.Name] = p
	}
	o, err := l.run(frame.Args{"tvm", system, p.Name + "+1"})
	if err != nil {
		return 0, err
	}
	return stopped(o, o.Preempt), nil
}

// occupancy returns the mean share of the SMs that a network's kernels occupy, weighted by the kernels' times.
func (l *lab) occupancy(network string) (float64, error) {
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

// starving returns the number of pairs in figure 23 with a starving best-effort client. The client starves if it uses
// less than a thousandth of a GPU in the second half of a run that is twice as long. The first half does not count,
// because the client's first kernels can still run in it.
func (l *lab) starving(system string) (n float64, err error) {
	for _, rt := range five() {
		for _, be := range five() {
			of := frame.Args{"tvm", system, rt + "/" + be}
			half, err := l.run(of)
			if err != nil {
				return 0, err
			}
			whole, err := l.longer().run(of)
			if err != nil {
				return 0, err
			}
			if 2*whole.BestEffort-half.BestEffort < 0.001 {
				n++
			}
		}
	}
	return n, nil
}

// linear measures how the preemption time grows with the device queue's size. It returns the slope from 16 to 64
// places, divided by the slope from 4 to 16 places.
func (l *lab) linear() (float64, error) {
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

// aloneMs returns the time in ms of a network alone, with the given number of places in the device queue.
func (l *lab) aloneMs(style, network string, places float64) (float64, error) {
	b := NewBed(l.file.With("device_queue", places/l.file.Values["device_queue"].Value), style)
	b.with = l.with
	ns, err := b.Alone(network)
	return float64(ns) / 1e6, err
}

// kernels returns the number of a network's kernels.
func (l *lab) kernels(style, network string) (float64, error) {
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

// longest returns the largest number of kernels that a restart can repeat, in any of REEF's five networks.
func (l *lab) longest(style string) (float64, error) {
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

// stopped returns its argument "what", a statistic of the preemptions, or NaN if there was no preemption.
func stopped(o *Outcome, what float64) float64 {
	if o.Preemptions == 0 {
		return math.NaN()
	}
	return what
}

// measures returns the measures of the claims and rows. The arguments for a run are style, system and workload.
func measures() frame.Measures[*lab] {
	out := frame.Measures[*lab]{
		"uniform SYSTEM kernels us":  func(l *lab, of frame.Args) (float64, error) { return l.uniform(of[0], of.Int(1), of.Float(2)) },
		"occupancy NETWORK":          func(l *lab, of frame.Args) (float64, error) { return l.occupancy(of[0]) },
		"starving SYSTEM":            func(l *lab, of frame.Args) (float64, error) { return l.starving(of[0]) },
		"linear":                     func(l *lab, _ frame.Args) (float64, error) { return l.linear() },
		"kill_us":                    func(l *lab, _ frame.Args) (float64, error) { return l.file.Values["kill_ns"].Value / 1e3, nil },
		"alone STYLE NETWORK places": func(l *lab, of frame.Args) (float64, error) { return l.aloneMs(of[0], of[1], of.Float(2)) },
		"kernels STYLE NETWORK":      func(l *lab, of frame.Args) (float64, error) { return l.kernels(of[0], of[1]) },
		"longest STYLE":              func(l *lab, of frame.Args) (float64, error) { return l.longest(of[0]) },
	}
	const run = "STYLE SYSTEM WORKLOAD"
	frame.AddMetrics(out, run, (*lab).run, append(frame.Fields[Outcome](), []frame.Metric[*Outcome]{
		{Name: "preempt", Of: func(o *Outcome) float64 { return stopped(o, o.Preempt) }},
		{Name: "host_us", Of: func(o *Outcome) float64 { return stopped(o, o.Host) }},
		{Name: "redone_us", Of: func(o *Outcome) float64 { // NaN if no work was killed
			if o.Redone == 0 {
				return math.NaN()
			}
			return o.Redone
		}},
	}...))
	// These metrics are relative to a run without best-effort clients.
	frame.AddMetrics(out, run, func(l *lab, of frame.Args) (x [2]*Outcome, err error) {
		if x[0], err = l.run(of); err == nil {
			x[1], err = l.run(frame.Args{of[0], "rt-only", of[2]})
		}
		return x, err
	}, []frame.Metric[[2]*Outcome]{
		{Name: "rt", Of: func(o [2]*Outcome) float64 { return o[0].RT / o[1].RT }},
		{Name: "p99", Of: func(o [2]*Outcome) float64 { return o[0].RTP99 / o[1].RTP99 }},
		{Name: "rt_throughput", Of: func(o [2]*Outcome) float64 { return o[0].RTThroughput / o[1].RTThroughput }},
	})
	return out
}

// numbers returns rows of every system on every workload of DISB.
func numbers() (out []frame.Number) {
	for _, g := range GPUs() {
		for _, w := range DISB() {
			for _, s := range Systems() {
				out = append(out, frame.Numbers(g, frame.Row{Bench: "reef", Setting: g + "/disb-" + w.Name, Policy: s}, "tvm, "+s+", "+w.Name,
					"rt_latency", "rt_p99", "throughput", "preempt_us")...)
			}
		}
	}
	return out
}
