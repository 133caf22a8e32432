package gpus

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/sluice-npu/sluice/host/experiments"
	"github.com/sluice-npu/sluice/host/gpu/params"
)

// Verdicts of a statement.
const (
	Holds     = "holds"
	Fails     = "fails"
	Undecided = "undecided" // at 95 %
)

// Statement is one thing that a publication says, and what the simulation says of it.
type Statement struct {
	ID        string   `json:"id"`
	Text      string   `json:"text"`
	Published float64  `json:"published"`
	Ours      float64  `json:"ours"`  // mean over the seeds
	CI95      *float64 `json:"ci95"`  // half width
	Ratio     float64  `json:"ratio"` // ours / published
	Least     float64  `json:"least"` // it holds from here
	Most      float64  `json:"most"`  // to here
	Verdict   string   `json:"verdict"`
	// Fitted: parameters were set by this very number, so that it proves nothing.
	Fitted bool `json:"fitted"`
	// Changed: the verdict, where it is another when an assumed parameter is halved or doubled.
	Changed map[string]string `json:"changed,omitempty"`
	Why     string            `json:"why,omitempty"` // why ours differs
}

// Bench is what a bench of a publication gives.
type Bench struct {
	Rows       []experiments.Row
	Statements []Statement
}

// Config is how much is run.
type Config struct {
	Seeds   []uint64
	Ns      int64 // virtual time of a run
	Vary    bool  // halve and double every assumed parameter
	Tell    func(what string)
	Systems []string // those of the rows; nil: all
}

// claim is a statement before it is looked at.
type claim struct {
	id, text    string
	gpu         string
	of          func(*lab) (float64, error) // for one seed
	published   float64
	least, most float64
	fitted      bool
	why         string
}

// lab runs what is asked for, once.
type lab struct {
	ctx   context.Context
	file  *params.File
	ns    int64
	seed  uint64
	beds  map[string]*Bed
	runs  map[string]*Outcome
	other map[string]float64
}

func newLab(ctx context.Context, f *params.File, ns int64, seed uint64) *lab {
	return &lab{ctx: ctx, file: f, ns: ns, seed: seed, beds: map[string]*Bed{}, runs: map[string]*Outcome{}, other: map[string]float64{}}
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
	o, err := l.bed(style).Run(l.ctx, system, w, l.ns, l.seed)
	if err != nil {
		return nil, fmt.Errorf("DISB %s under %s on %s: %w", workload, system, l.file.Name, err)
	}
	l.runs[key] = o
	return o, nil
}

// workloadOf is a workload of DISB, or NETWORK+n: one real-time client of vgg19 at a tenth of its
// throughput over n best-effort clients of the network; or RT/BE: both send all they can.
func workloadOf(name string) (Workload, error) {
	for _, w := range DISB() {
		if w.Name == name {
			return w, nil
		}
	}
	if rt, be, ok := strings.Cut(name, "/"); ok {
		return Workload{name, []Client{{Network: rt, Share: 1}, {Network: be}}}, nil
	}
	var n int
	net, count, ok := strings.Cut(name, "+")
	if _, err := fmt.Sscan(count, &n); !ok || err != nil {
		return Workload{}, fmt.Errorf("no workload %q", name)
	}
	w := Workload{name, []Client{{"vgg19", 0.1, true}}}
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

// near is a claim of a number, which holds within a quarter of it.
func near(id, text, gpu string, published float64, of func(*lab) (float64, error)) claim {
	return claim{id: id, text: text, gpu: gpu, of: of, published: published, least: 0.75 * published, most: 1.25 * published}
}

// gain is a claim of a multiple of one, which holds where what it is beyond (or below) one is within a
// half of what is published: a quarter of the number would take no gain for a gain.
func gain(id, text, gpu string, published float64, of func(*lab) (float64, error)) claim {
	a, b := 1+0.5*(published-1), 1+1.5*(published-1)
	return claim{id: id, text: text, gpu: gpu, of: of, published: published, least: min(a, b), most: max(a, b)}
}

// atMost and atLeast are claims of a bound.
func atMost(id, text, gpu string, published float64, of func(*lab) (float64, error)) claim {
	return claim{id: id, text: text, gpu: gpu, of: of, published: published, least: math.Inf(-1), most: published}
}

func atLeast(id, text, gpu string, published float64, of func(*lab) (float64, error)) claim {
	return claim{id: id, text: text, gpu: gpu, of: of, published: published, least: published, most: math.Inf(1)}
}

func fitted(c claim) claim { c.fitted = true; return c }

func because(c claim, why string) claim { c.why = why; return c }

// reefClaims are REEF's statements.
func reefClaims() []claim {
	const (
		spread  = "our programs spread over all compute units where the frameworks' leave some idle, so there is less to gain beside them"
		memory  = "no caches are simulated, so five clients do not spoil each other's"
		evicted = "the command processor's cost of a kernel that ends itself is fitted to a device queue of four, at one client"
	)
	var out []claim
	for _, g := range []struct {
		gpu                           string
		seq, streams, tStreams, tREEF [3]float64
	}{
		{"mi50", [3]float64{2.87, 3.66, 0}, [3]float64{1.10, 1.21, 8.1}, [3]float64{1.34, 1.72, 1.91}, [3]float64{1.12, 1.28, 1.53}},
		{"gv100", [3]float64{2.16, 2.19, 0}, [3]float64{1.46, 1.51, 4.2}, [3]float64{1.15, 1.28, 1.42}, [3]float64{1.08, 1.12, 1.20}},
	} {
		for i, w := range []string{"A", "B", "C"} {
			id := fmt.Sprintf("fig15-16/%s/%s/", g.gpu, w)
			if g.seq[i] > 0 {
				out = append(out, gain(id+"seq-rt", "SEQ: latency of real-time tasks, of RT-Only's", g.gpu, g.seq[i], rt("tvm", "seq", w)))
			}
			out = append(out,
				because(gain(id+"streams-rt", "GPUStreams: latency of real-time tasks, of RT-Only's", g.gpu, g.streams[i], rt("tvm", "streams", w)), memory),
				atMost(id+"reef-rt", "REEF: latency of real-time tasks, of RT-Only's, less than 5 % more", g.gpu, 1.05, rt("tvm", "reef", w)),
				gain(id+"streams-throughput", "GPUStreams: throughput, of running alone", g.gpu, g.tStreams[i], throughput("tvm", "streams", w)),
				because(gain(id+"reef-throughput", "REEF: throughput, of running alone", g.gpu, g.tREEF[i], throughput("tvm", "reef", w)), spread))
		}
	}
	for _, w := range []string{"D", "E"} {
		out = append(out, atMost("fig15/mi50/"+w+"/reef-rt", "REEF: latency of real-time tasks with five of them, of RT-Only's, 4.2 % more at most", "mi50", 1.042, rt("tvm", "reef", w)))
	}
	out = append(out,
		atLeast("fig1/streams-5", "five best-effort clients hurt GPUStreams severalfold", "mi50", 2, rt("tvm", "streams", "C")),
		fitted(near("fig20b/31us", "one preemption of ResNet-152, device queue of four: 3 + 31 + 3 us", "mi50", 37, preempt("tvm", "reset", "resnet152+1"))),
		near("fig20b/424us", "without either optimisation: 17 + 424 + 3 us", "mi50", 444, preempt("tvm", "reset-plain", "resnet152+1")),
		near("fig18/vgg", "wait-based preemption of VGG-19, us", "mi50", 310, preempt("tvm", "wait", "vgg19+1")),
		near("fig18/rnet", "wait-based preemption of ResNet-152, us", "mi50", 882, preempt("tvm", "wait", "resnet152+1")),
		because(near("fig17/mi50/C", "wait-based over reset-based preemption, five clients", "mi50", 21.8, over(preempt("tvm", "wait", "C"), preempt("tvm", "reset", "C"))), evicted),
		near("fig17/mi50/A", "wait-based over reset-based preemption, one client: an order of magnitude", "mi50", 20, over(preempt("tvm", "wait", "A"), preempt("tvm", "reset", "A"))),
		near("fig17/gv100/A", "wait-based over reset-based preemption, GV100, one client", "gv100", 6.1, over(preempt("tvm", "wait", "A"), preempt("tvm", "reset", "A"))),
		near("fig17/gv100/C", "wait-based over reset-based preemption, GV100, five clients", "gv100", 15, over(preempt("tvm", "wait", "C"), preempt("tvm", "reset", "C"))),
		fitted(gain("fig21/queue", "ResNet-152 with a device queue of one, of four: 14.3 / 12.3 ms", "mi50", 14.3/12.3, queues(1, 4))),
		atMost("fig21/long", "and no further gain beyond four: less than 0.3 %", "mi50", 1.003, queues(4, 256)),
		atMost("fig22/tensorrt", "restoring costs less than 5 % of the execution, TensorRT's kernels", "gv100", 0.05, restore("tensorrt")),
		atMost("fig22/pytorch", "restoring costs less than 5 % of the execution, PyTorch's kernels", "gv100", 0.05, restore("pytorch")),
		because(gain("fig28/C/triton", "Triton (stream priorities, TensorRT's kernels): latency of real-time tasks", "gv100", 2.8, rt("tensorrt", "priority", "C")), memory),
		atMost("fig28/C/reef", "REEF without padding there: 9 % more at most", "gv100", 1.09, rt("tensorrt", "reset", "C")),
		gain("fig29/C/orion", "Orion (PyTorch's kernels): latency of real-time tasks", "gv100", 1.17, rt("pytorch", "orion", "C")),
		near("fig29/C/orion-throughput", "Orion: throughput", "gv100", 0.97, throughput("pytorch", "orion", "C")),
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
	return out
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

// restore is the share of kernels that are run again, with ResNet-152 as the best-effort client.
func restore(style string) func(*lab) (float64, error) {
	return func(l *lab) (float64, error) {
		o, err := l.run(style, "reset", "resnet152+1")
		if err != nil {
			return 0, err
		}
		return o.Again, nil
	}
}

// Names lists the benches.
func Names() []string { return []string{"reef"} }

// Run is a bench by name.
func Run(ctx context.Context, name string, c Config) (*Bench, error) {
	switch {
	case name != "reef":
		return nil, fmt.Errorf("no bench %q of GPUs; there are %v", name, Names())
	case len(c.Seeds) == 0 || c.Ns < 1:
		return nil, errors.New("a bench needs seeds and a length")
	}
	b := &Bench{}
	labs := map[string][]*lab{}
	for _, g := range []string{"mi50", "gv100"} {
		f, err := params.Of(g)
		if err != nil {
			return nil, err
		}
		for _, s := range c.Seeds {
			labs[g] = append(labs[g], newLab(ctx, f, c.Ns, s))
		}
	}
	claims := reefClaims()
	for _, k := range claims {
		c.tell(k.id)
		s, err := k.state(labs[k.gpu])
		if err != nil {
			return nil, err
		}
		b.Statements = append(b.Statements, *s)
	}
	if err := c.rows(b, labs); err != nil {
		return nil, err
	}
	if c.Vary {
		return b, c.vary(ctx, b, claims)
	}
	return b, nil
}

func (c *Config) tell(what string) {
	if c.Tell != nil {
		c.Tell(what)
	}
}

// state looks at a claim.
func (k *claim) state(labs []*lab) (*Statement, error) {
	var v []float64
	for _, l := range labs {
		x, err := k.of(l)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", k.id, err)
		}
		v = append(v, x)
	}
	mean, ci := experiments.Interval(v)
	s := &Statement{
		ID: k.id, Text: k.text, Published: k.published, Ours: mean, CI95: ci, Ratio: mean / k.published,
		Least: k.least, Most: k.most, Fitted: k.fitted,
	}
	half := 0.0
	if ci != nil {
		half = *ci
	}
	switch {
	case math.IsNaN(mean) || math.IsInf(mean, 0):
		s.Ours, s.CI95, s.Ratio, s.Verdict, s.Why = 0, nil, 0, Undecided, "nothing of it happened in the time that was simulated"
		return s.finite(), nil
	case mean-half >= k.least && mean+half <= k.most:
		s.Verdict = Holds
	case mean+half < k.least || mean-half > k.most:
		s.Verdict = Fails
	default:
		s.Verdict = Undecided
	}
	if s.Verdict != Holds {
		s.Why = k.why
	}
	return s.finite(), nil
}

// finite: JSON knows no infinities.
func (s *Statement) finite() *Statement {
	s.Least, s.Most = math.Max(s.Least, -math.MaxFloat64), math.Min(s.Most, math.MaxFloat64)
	return s
}

// rows are every system on every workload of DISB.
func (c *Config) rows(b *Bench, labs map[string][]*lab) error {
	systems := c.Systems
	if systems == nil {
		systems = Systems()
	}
	for _, g := range []string{"mi50", "gv100"} {
		for _, w := range DISB() {
			for _, s := range systems {
				c.tell(g + " " + w.Name + " " + s)
				for _, m := range []struct {
					name string
					of   func(*Outcome) float64
				}{
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

// vary halves and doubles each assumed parameter, one at a time, with the first seed.
func (c *Config) vary(ctx context.Context, b *Bench, claims []claim) error {
	for _, g := range []string{"mi50", "gv100"} {
		f, err := params.Of(g)
		if err != nil {
			return err
		}
		base := newLab(ctx, f, c.Ns, c.Seeds[0])
		for _, key := range f.Assumed() {
			for _, factor := range []float64{0.5, 2} {
				c.tell(fmt.Sprintf("%s with %s x %v", g, key, factor))
				l := newLab(ctx, f.With(key, factor), c.Ns, c.Seeds[0])
				for i := range claims {
					if claims[i].gpu != g {
						continue
					}
					was, err := claims[i].state([]*lab{base})
					if err != nil {
						return err
					}
					s, err := claims[i].state([]*lab{l})
					if err != nil {
						return err
					}
					if s.Verdict != was.Verdict {
						st := &b.Statements[i]
						if st.Changed == nil {
							st.Changed = map[string]string{}
						}
						st.Changed[fmt.Sprintf("%s x %v", key, factor)] = s.Verdict
					}
				}
			}
		}
	}
	return nil
}
