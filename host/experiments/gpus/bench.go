package gpus

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/sluice-npu/sluice/host/experiments"
	"github.com/sluice-npu/sluice/host/experiments/verdict"
	"github.com/sluice-npu/sluice/host/gpu/params"
	"github.com/sluice-npu/sluice/host/load"
)

// Bench is what a bench of a publication gives.
type Bench struct {
	Rows       []experiments.Row
	Statements []verdict.Statement
	Ns         int64           // virtual time of a run
	Fits       map[string]*Fit // SEEB's latency models, by network
	Open       Open            // what the publication leaves open, as it was set
}

// Config is how much is run.
type Config struct {
	Seeds []uint64
	Ns    int64 // virtual time of a run
	Vary  bool  // halve and double every assumed parameter
	Tell  func(what string)
	Files map[string]*params.File // in place of the project's for GPUs
	PAI   []int64                 // arrivals of a trace in place of the bursts that SEEB's bench draws; nil: none
	Real  *load.Trace             // a workload of DISB in place of REEF's bench's drive; nil: none
}

// claim is a statement before it is looked at.
type claim struct {
	verdict.Claim
	gpu  string
	of   func(*lab) (float64, error) // for one seed
	long bool                        // not looked at again when parameters are varied
}

// lab runs what is asked for, once.
type lab struct {
	ctx  context.Context
	file *params.File
	ns   int64
	seed uint64
	beds map[string]*Bed
	runs map[string]*Outcome
	edge *Edge // SEEB's
	pai  []int64
	real []Client // in place of those of Drive; nil: none
}

func newLab(ctx context.Context, f *params.File, ns int64, seed uint64) *lab {
	return &lab{ctx: ctx, file: f, ns: ns, seed: seed, beds: map[string]*Bed{}, runs: map[string]*Outcome{}}
}

// metric is a column of a bench's rows.
type metric[O any] struct {
	name string
	of   func(*O) float64
}

func (l *lab) bed(style string) *Bed {
	b := l.beds[style]
	if b == nil {
		b = NewBed(l.file, style)
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

func rt(style, system, workload string) func(*lab) (float64, error) {
	return func(l *lab) (float64, error) {
		o, err := l.run(style, system, workload)
		if err != nil {
			return 0, err
		}
		only, err := l.run(style, "rt-only", workload)
		if err != nil {
			return 0, err
		}
		return o.RT / only.RT, nil
	}
}

func throughput(style, system, workload string) func(*lab) (float64, error) {
	return func(l *lab) (float64, error) {
		o, err := l.run(style, system, workload)
		if err != nil {
			return 0, err
		}
		return o.Throughput, nil
	}
}

func preempt(style, system, workload string) func(*lab) (float64, error) {
	return func(l *lab) (float64, error) {
		o, err := l.run(style, system, workload)
		if err != nil {
			return 0, err
		}
		if o.Preemptions == 0 {
			return math.NaN(), nil
		}
		return o.Preempt, nil
	}
}

func over(a, b func(*lab) (float64, error)) func(*lab) (float64, error) {
	return func(l *lab) (float64, error) {
		x, err := a(l)
		if err != nil {
			return 0, err
		}
		y, err := b(l)
		return x / y, err
	}
}

func near(id, text, gpu string, published float64, of func(*lab) (float64, error)) claim {
	return claim{Claim: verdict.Near(id, text, published), gpu: gpu, of: of}
}

func gain(id, text, gpu string, published float64, of func(*lab) (float64, error)) claim {
	return claim{Claim: verdict.Gain(id, text, published), gpu: gpu, of: of}
}

func atMost(id, text, gpu string, published float64, of func(*lab) (float64, error)) claim {
	return claim{Claim: verdict.AtMost(id, text, published), gpu: gpu, of: of}
}

func atLeast(id, text, gpu string, published float64, of func(*lab) (float64, error)) claim {
	return claim{Claim: verdict.AtLeast(id, text, published), gpu: gpu, of: of}
}

func ours(c claim) claim { c.Claim = c.Ours(); return c }

func fitted(c claim) claim { c.Fitted = true; return c }

func because(c claim, why string) claim { c.Why = why; return c }

// Names lists the benches.
func Names() []string { return []string{"reef", "seeb"} }

// bench is a publication's.
type bench struct {
	gpus   []string
	ns     int64 // virtual time of a run, where nobody says another
	claims []claim
	rows   func(*Config, *Bench, map[string][]*lab) error
	// ready makes what the labs of one GPU share, with what the publication leaves open; nil: nothing.
	ready func(*params.File, Open) (*Edge, error)
}

func benches(name string) (bench, error) {
	switch name {
	case "reef":
		return bench{[]string{"mi50", "gv100"}, 1e9, reefClaims(), (*Config).rows, nil}, nil
	case "seeb":
		rows := func(c *Config, b *Bench, labs map[string][]*lab) error { return c.edgeRows(b, labs[edgeGPU]) }
		return bench{[]string{edgeGPU}, 30e9, seebClaims(), rows, NewEdge}, nil
	}
	return bench{}, fmt.Errorf("no bench %q of GPUs; there are %v", name, Names())
}

// labs are those of one GPU.
func (c *Config) labs(ctx context.Context, k *bench, f *params.File, o Open, seeds []uint64) (out []*lab, err error) {
	var e *Edge
	if k.ready != nil {
		if e, err = k.ready(f, o); err != nil {
			return nil, err
		}
	}
	var clients []Client
	if c.Real != nil {
		own, err := NewOwn(f, "tvm", nil, c.Real, nil)
		if err != nil {
			return nil, err
		}
		clients = own.w.Clients
	}
	for _, s := range seeds {
		l := newLab(ctx, f, c.Ns, s)
		l.edge, l.pai, l.real = e, c.PAI, clients
		out = append(out, l)
	}
	return out, nil
}

// Run is a bench by name.
func Run(ctx context.Context, name string, c Config) (*Bench, error) {
	k, err := benches(name)
	if err != nil {
		return nil, err
	}
	if c.Ns == 0 {
		c.Ns = k.ns
	}
	if len(c.Seeds) == 0 || c.Ns < 1 {
		return nil, errors.New("a bench needs seeds and a length")
	}
	b := &Bench{Ns: c.Ns}
	labs := map[string][]*lab{}
	for _, g := range k.gpus {
		f, err := c.file(g)
		if err != nil {
			return nil, err
		}
		if labs[g], err = c.labs(ctx, &k, f, DefaultOpen(), c.Seeds); err != nil {
			return nil, err
		}
		if e := labs[g][0].edge; e != nil {
			b.Fits, b.Open = e.Fits, e.open
		}
	}
	for i := range k.claims {
		c.tell(k.claims[i].ID)
		s, err := k.claims[i].state(labs[k.claims[i].gpu])
		if err != nil {
			return nil, err
		}
		b.Statements = append(b.Statements, *s)
	}
	if err := k.rows(&c, b, labs); err != nil {
		return nil, err
	}
	if c.Vary {
		return b, c.vary(ctx, &k, b)
	}
	return b, nil
}

// file is a GPU's parameters.
func (c *Config) file(gpu string) (*params.File, error) {
	if f := c.Files[gpu]; f != nil {
		return f, nil
	}
	return params.Of(gpu)
}

// GPUs are those that a bench runs on; nil: there is no such bench.
func GPUs(name string) []string {
	k, _ := benches(name)
	return k.gpus
}

func (c *Config) tell(what string) {
	if c.Tell != nil {
		c.Tell(what)
	}
}

// state looks at a claim.
func (k *claim) state(labs []*lab) (*verdict.Statement, error) {
	var v []float64
	for _, l := range labs {
		x, err := k.of(l)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", k.ID, err)
		}
		v = append(v, x)
	}
	return k.Judge(v), nil
}

// rows are every system on every workload of DISB.
func (c *Config) rows(b *Bench, labs map[string][]*lab) error {
	for _, g := range []string{"mi50", "gv100"} {
		for _, w := range DISB() {
			for _, s := range Systems() {
				c.tell(g + " " + w.Name + " " + s)
				for _, m := range []metric[Outcome]{
					{"rt_latency", func(o *Outcome) float64 { return o.RT }},
					{"rt_p99", func(o *Outcome) float64 { return o.RTP99 }},
					{"throughput", func(o *Outcome) float64 { return o.Throughput }},
					{"preempt_us", func(o *Outcome) float64 { return o.Preempt }},
				} {
					var v []float64
					for _, l := range labs[g] {
						o, err := l.run("tvm", s, w.Name)
						if err != nil {
							return err
						}
						v = append(v, m.of(o))
					}
					mean, ci := experiments.Interval(v)
					b.Rows = append(b.Rows, experiments.Row{Bench: "reef", Setting: g + "/disb-" + w.Name, Policy: s, Metric: m.name, Ours: mean, CI95: ci, HeldOut: true})
				}
			}
		}
	}
	return nil
}

// vary halves and doubles each assumed parameter of a GPU and each value of what the publication leaves
// open, one at a time, with the first seed, in half of the time. Claims that take long are left out.
func (c Config) vary(ctx context.Context, k *bench, b *Bench) error {
	c.Ns /= 2
	for _, g := range k.gpus {
		f, err := c.file(g)
		if err != nil {
			return err
		}
		seed := c.Seeds[:1]
		judge := func(labs []*lab) ([]*verdict.Statement, error) {
			out := make([]*verdict.Statement, len(k.claims))
			for i := range k.claims {
				if k.claims[i].gpu != g || k.claims[i].long {
					continue
				}
				if out[i], err = k.claims[i].state(labs); err != nil {
					return nil, err
				}
			}
			return out, nil
		}
		labs, err := c.labs(ctx, k, f, DefaultOpen(), seed)
		if err != nil {
			return err
		}
		was, err := judge(labs)
		if err != nil {
			return err
		}
		base := make([]verdict.Statement, len(was))
		for i, s := range was {
			if s != nil {
				base[i] = *s
			}
		}
		changes := verdict.Halves(f.Uncertain()...)
		if k.ready != nil {
			changes = append(changes, verdict.Halves(DefaultOpen().keys()...)...)
		}
		if err := verdict.Vary(b.Statements, base, changes, func(x verdict.Change) ([]*verdict.Statement, error) {
			c.tell(g + " with " + x.String())
			file, open := f, DefaultOpen()
			if _, ok := open[x.Key]; ok {
				open = open.with(x.Key, x.By)
			} else {
				file = f.With(x.Key, x.By)
			}
			labs, err := c.labs(ctx, k, file, open, seed)
			if err != nil {
				return nil, err
			}
			return judge(labs)
		}); err != nil {
			return err
		}
	}
	return nil
}
