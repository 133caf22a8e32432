package reef

import (
	"context"
	_ "embed"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/sluice-npu/sluice/host/experiments/frame"
	"github.com/sluice-npu/sluice/host/gpu/params"
	"github.com/sluice-npu/sluice/host/load"
)

//go:embed claims.yaml
var book []byte

//go:embed tried.txt
var tried []byte

// Config is how much is run.
type Config struct {
	frame.Config
	Files map[string]*params.File // in place of the project's for GPUs
	Real  *load.Trace             // a workload of DISB in place of the drive; nil: none
}

// GPUs are those that the evaluation runs on.
func GPUs() []string { return []string{"mi50", "gv100"} }

// probe computes a number from one lab.
type probe = frame.Probe[*lab]

// samplers are the probes of claims.
type samplers = map[string]frame.Sampler[*lab]

func over(a, b probe) probe   { return frame.Over(a, b) }
func mean(all ...probe) probe { return frame.Mean(all...) }

// lab makes each run once.
type lab struct {
	ctx  context.Context
	file *params.File
	ns   int64
	seed uint64
	beds map[string]*Bed
	runs map[string]*Outcome
	real []Client // in place of those of Drive; nil: none
	with string   // one of switches; "": none

	twice *lab // longer
}

// switches put in what a cause suspects: for VGG-19 a ResNet-50, which the public kernel list of that name is; the public
// kernels of both, with the times that were measured on an MI50; images of 64 x 64, which those are for; a layer in as
// many kernels as in the public list of DistilBERT, none shorter than the shortest of the lists.
func switches() []string {
	return []string{"resnet50-for-vgg19", "public-kernels", "images-64", "split-kernels"}
}

// longer is a lab of runs of twice the time.
func (l *lab) longer() *lab {
	if l.twice == nil {
		l.twice = newLab(l.ctx, l.file, 2*l.ns, l.seed)
		l.twice.with = l.with
	}
	return l.twice
}

func newLab(ctx context.Context, f *params.File, ns int64, seed uint64) *lab {
	return &lab{ctx: ctx, file: f, ns: ns, seed: seed, beds: map[string]*Bed{}, runs: map[string]*Outcome{}}
}

func (l *lab) bed(style string) *Bed {
	b := l.beds[style]
	if b == nil {
		b = NewBed(l.file, style)
		b.with = l.with
		l.beds[style] = b
	}
	return b
}

// run is a workload under a system.
func (l *lab) run(style, system, workload string) (*Outcome, error) {
	key := style + " " + system + " " + workload
	if o := l.runs[key]; o != nil {
		return o, nil
	}
	w, err := workloadOf(workload)
	if err != nil {
		return nil, err
	}
	if l.real != nil && workload == "drive" {
		w.Clients = l.real
	}
	o, err := l.bed(style).Run(l.ctx, system, w, l.ns, l.seed)
	if err != nil {
		return nil, fmt.Errorf("DISB %s under %s on %s: %w", workload, system, l.file.Name, err)
	}
	l.runs[key] = o
	return o, nil
}

// workloadOf is a workload of DISB, or NETWORK+n: one real-time client of mobilenetv2, which is short, at
// a tenth of its throughput over n best-effort clients of the network; or RT/BE: both send all they can.
func workloadOf(name string) (Workload, error) {
	for _, w := range append(DISB(), Drive()) {
		if w.Name == name {
			return w, nil
		}
	}
	if rt, be, ok := strings.Cut(name, "/"); ok {
		return Workload{name, []Client{{Network: rt, Urgent: true}, {Network: be}}}, nil
	}
	var n int
	net, count, ok := strings.Cut(name, "+")
	if _, err := fmt.Sscan(count, &n); !ok || err != nil {
		return Workload{}, fmt.Errorf("no workload %q", name)
	}
	w := Workload{name, []Client{{Network: "mobilenetv2", Share: 0.1, Poisson: true}}}
	for range n {
		w.Clients = append(w.Clients, Client{Network: net})
	}
	return w, nil
}

// of is a run of a lab.
func of(style, system, workload string) func(*lab) (*Outcome, error) {
	return func(l *lab) (*Outcome, error) { return l.run(style, system, workload) }
}

// outcome is something that a run showed.
func outcome(style, system, workload string, what func(*Outcome) float64) probe {
	return frame.Of(of(style, system, workload), what)
}

// only is a metric of a run relative to the run without best-effort clients.
func only(style, system, workload string, what func(*Outcome) float64) probe {
	return over(outcome(style, system, workload, what), outcome(style, "rt-only", workload, what))
}

func rt(style, system, workload string) probe {
	return only(style, system, workload, func(o *Outcome) float64 { return o.RT })
}

// p99 is the 99th percentile of real-time latencies, of the same on a GPU of their own.
func p99(style, system, workload string) probe {
	return only(style, system, workload, func(o *Outcome) float64 { return o.RTP99 })
}

func throughput(style, system, workload string) probe {
	return outcome(style, system, workload, func(o *Outcome) float64 { return o.Throughput })
}

// stopped is something that preemptions showed; NaN where there were none.
func stopped(style, system, workload string, what func(*Outcome) float64) probe {
	return outcome(style, system, workload, func(o *Outcome) float64 {
		if o.Preemptions == 0 {
			return math.NaN()
		}
		return what(o)
	})
}

func preempt(style, system, workload string) probe {
	return stopped(style, system, workload, func(o *Outcome) float64 { return o.Preempt })
}

// study is REEF's claims under a configuration.
func (c *Config) study(ctx context.Context) frame.Study[*lab] {
	return frame.Study[*lab]{
		Book: book, Tried: tried, Probes: probes(), Rows: c.rows, Apart: true,
		Labs: func(on string, x *frame.Change) ([]*lab, error) {
			f, err := c.file(on)
			if err != nil {
				return nil, err
			}
			with := ""
			switch {
			case x == nil:
			case slices.Contains(switches(), x.Key):
				with = x.Key
			case f.Has(x.Key):
				f = f.With(x.Key, x.By)
			default:
				return nil, fmt.Errorf("%w: %q; there are %s and %s", frame.ErrWith, x.Key, strings.Join(switches(), ", "), strings.Join(f.Uncertain(), ", "))
			}
			return c.labs(ctx, f, with)
		},
		Changes: func(on string) ([]frame.Change, error) {
			f, err := c.file(on)
			if err != nil {
				return nil, err
			}
			return frame.Halves(f.Uncertain()...), nil
		},
	}
}

func (c *Config) labs(ctx context.Context, f *params.File, with string) (out []*lab, err error) {
	var clients []Client
	if c.Real != nil {
		own, err := NewOwn(f, "tvm", nil, c.Real, nil)
		if err != nil {
			return nil, err
		}
		clients = own.w.Clients
	}
	for _, s := range c.Seeds {
		l := newLab(ctx, f, c.Ns, s)
		l.real, l.with = clients, with
		out = append(out, l)
	}
	return out, nil
}

// file is a GPU's parameters.
func (c *Config) file(gpu string) (*params.File, error) {
	if f := c.Files[gpu]; f != nil {
		return f, nil
	}
	return params.Of(gpu)
}

// Run checks REEF's claims and runs every system on every workload of DISB.
func Run(ctx context.Context, c Config) (*frame.Result, error) {
	s := c.study(ctx)
	return s.Run(ctx, &c.Config)
}

func (c *Config) rows(on func(gpu string) ([]*lab, error)) (rows []frame.Row, err error) {
	for _, g := range GPUs() {
		labs, err := on(g)
		if err != nil {
			return nil, err
		}
		for _, w := range DISB() {
			for _, s := range Systems() {
				c.Say(g + " " + w.Name + " " + s)
				more, err := frame.Rows(labs, frame.Row{Bench: "reef", Setting: g + "/disb-" + w.Name, Policy: s}, of("tvm", s, w.Name), []frame.Metric[*Outcome]{
					{Name: "rt_latency", Of: func(o *Outcome) float64 { return o.RT }},
					{Name: "rt_p99", Of: func(o *Outcome) float64 { return o.RTP99 }},
					{Name: "throughput", Of: func(o *Outcome) float64 { return o.Throughput }},
					{Name: "preempt_us", Of: func(o *Outcome) float64 { return o.Preempt }},
				})
				if err != nil {
					return nil, err
				}
				rows = append(rows, more...)
			}
		}
	}
	return rows, nil
}
