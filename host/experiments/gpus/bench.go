package gpus

import (
	"cmp"
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
	OneSeed   = "one seed"  // no interval, so no verdict
)

// Statement is one thing that a publication says, and what the simulation says of it.
type Statement struct {
	ID        string   `json:"id"`
	Text      string   `json:"text"`
	Published *float64 `json:"published"` // null: no number is given there
	Ours      float64  `json:"ours"`      // mean over the seeds
	CI95      *float64 `json:"ci95"`      // half width
	Ratio     *float64 `json:"ratio"`     // ours / published; null where that is nothing
	Least     float64  `json:"least"`     // it holds from here
	Most      float64  `json:"most"`      // to here
	Verdict   string   `json:"verdict"`
	// Fitted: parameters were set by this very number, so that it proves nothing.
	Fitted bool `json:"fitted"`
	// Changed: the verdict, or with one seed the side of the bounds (Side), where it is another when an
	// assumed parameter is halved or doubled.
	Changed map[string]string `json:"changed,omitempty"`
	Varied  bool              `json:"varied"`        // that was looked at
	Why     string            `json:"why,omitempty"` // why ours differs
}

// Bench is what a bench of a publication gives.
type Bench struct {
	Rows       []experiments.Row
	Statements []Statement
	Fits       map[string]*Fit // SEEB's latency models, by network
	Open       Open            // what the publication leaves open, as it was set
}

// Config is how much is run.
type Config struct {
	Seeds []uint64
	Ns    int64 // virtual time of a run
	Vary  bool  // halve and double every assumed parameter
	Tell  func(what string)
	PAI   []int64 // arrivals of a trace in place of the bursts that SEEB's bench draws; nil: none
}

// claim is a statement before it is looked at.
type claim struct {
	id, text    string
	gpu         string
	of          func(*lab) (float64, error) // for one seed
	published   *float64                    // nil: the publication gives no number
	least, most float64
	fitted      bool
	long        bool // not looked at again when parameters are varied
	why         string
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

// near is a claim of a number, which holds within a quarter of it.
func near(id, text, gpu string, published float64, of func(*lab) (float64, error)) claim {
	return claim{id: id, text: text, gpu: gpu, of: of, published: &published, least: 0.75 * published, most: 1.25 * published}
}

// gain is a claim of a multiple of one, which holds where what it is beyond (or below) one is within a
// half of what is published: a quarter of the number would take no gain for a gain.
func gain(id, text, gpu string, published float64, of func(*lab) (float64, error)) claim {
	a, b := 1+0.5*(published-1), 1+1.5*(published-1)
	return claim{id: id, text: text, gpu: gpu, of: of, published: &published, least: min(a, b), most: max(a, b)}
}

// atMost and atLeast are claims of a bound.
func atMost(id, text, gpu string, published float64, of func(*lab) (float64, error)) claim {
	return claim{id: id, text: text, gpu: gpu, of: of, published: &published, least: math.Inf(-1), most: published}
}

func atLeast(id, text, gpu string, published float64, of func(*lab) (float64, error)) claim {
	return claim{id: id, text: text, gpu: gpu, of: of, published: &published, least: published, most: math.Inf(1)}
}

// ours is a claim whose threshold is ours, since the publication says it in words or gives a range.
func ours(c claim) claim { c.published = nil; return c }

func fitted(c claim) claim { c.fitted = true; return c }

func because(c claim, why string) claim { c.why = why; return c }

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
	for _, s := range seeds {
		l := newLab(ctx, f, c.Ns, s)
		l.edge, l.pai = e, c.PAI
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
	b := &Bench{}
	labs := map[string][]*lab{}
	for _, g := range k.gpus {
		f, err := params.Of(g)
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
		c.tell(k.claims[i].id)
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
	s := &Statement{ID: k.id, Text: k.text, Published: k.published, Least: k.least, Most: k.most, Fitted: k.fitted}
	return s.Judge(v, k.why), nil
}

// Judge sets what the seeds gave beside what was published; why is said where it does not hold.
func (s *Statement) Judge(v []float64, why string) *Statement {
	mean, ci := experiments.Interval(v)
	s.Ours, s.CI95 = mean, ci
	if s.Published != nil && *s.Published != 0 {
		ratio := mean / *s.Published
		s.Ratio = &ratio
	}
	switch half := *cmp.Or(ci, new(float64)); {
	case math.IsNaN(mean) || math.IsInf(mean, 0):
		s.Ours, s.CI95, s.Ratio, s.Verdict, s.Why = 0, nil, nil, Undecided, "nothing of it happened in the time that was simulated"
		return s.finite()
	case ci == nil:
		s.Verdict = OneSeed
	case mean-half >= s.Least && mean+half <= s.Most:
		s.Verdict = Holds
	case mean+half < s.Least || mean-half > s.Most:
		s.Verdict = Fails
	default:
		s.Verdict = Undecided
	}
	if s.Verdict != Holds {
		s.Why = why
	}
	return s.finite()
}

// Side is on which side of its bounds the mean is, whatever the seeds say of its uncertainty: what there
// is to compare of single runs.
func (s *Statement) Side() string {
	switch {
	case s.CI95 == nil && s.Verdict == Undecided:
		return "nothing"
	case s.Ours >= s.Least && s.Ours <= s.Most:
		return "within the bounds"
	}
	return "beyond the bounds"
}

// Vary takes in what became of the statement with another value of a parameter: another verdict, or with
// one seed another side of its bounds.
func (s *Statement) Vary(what string, then *Statement) {
	was, is := s.Verdict, then.Verdict
	if was == OneSeed || is == OneSeed {
		was, is = s.Side(), then.Side()
	}
	if s.Varied = true; was == is {
		return
	}
	if s.Changed == nil {
		s.Changed = map[string]string{}
	}
	s.Changed[what] = is
}

// Number is what was published, for people.
func (s *Statement) Number() string {
	if s.Published == nil {
		return ""
	}
	return fmt.Sprintf("(%.4g)", *s.Published)
}

// Count is how many statements hold, for people: of those that were looked at with one seed nothing is
// said.
func Count(all []Statement) string {
	n := map[string]int{}
	for i := range all {
		n[all[i].Verdict]++
	}
	text := fmt.Sprintf("%d of %d statements hold, %d fail, %d are undecided (simulated)", n[Holds], len(all), n[Fails], n[Undecided])
	if n[OneSeed] > 0 {
		text += fmt.Sprintf("; of %d one seed decides nothing", n[OneSeed])
	}
	return text
}

// finite: JSON knows no infinities.
func (s *Statement) finite() *Statement {
	s.Least, s.Most = math.Max(s.Least, -math.MaxFloat64), math.Min(s.Most, math.MaxFloat64)
	return s
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
		f, err := params.Of(g)
		if err != nil {
			return err
		}
		seed := c.Seeds[:1]
		base, err := c.labs(ctx, k, f, DefaultOpen(), seed)
		if err != nil {
			return err
		}
		type variant struct {
			name string
			file *params.File
			open Open
		}
		var all []variant
		for _, factor := range []float64{0.5, 2} {
			for _, key := range f.Uncertain() {
				all = append(all, variant{fmt.Sprintf("%s x %v", key, factor), f.With(key, factor), DefaultOpen()})
			}
			if k.ready == nil {
				continue
			}
			for _, key := range DefaultOpen().keys() {
				all = append(all, variant{fmt.Sprintf("%s x %v", key, factor), f, DefaultOpen().with(key, factor)})
			}
		}
		for _, v := range all {
			c.tell(g + " with " + v.name)
			labs, err := c.labs(ctx, k, v.file, v.open, seed)
			if err != nil {
				return err
			}
			for i := range k.claims {
				if k.claims[i].gpu != g || k.claims[i].long {
					continue
				}
				b.Statements[i].Varied = true
				was, err := k.claims[i].state(base)
				if err != nil {
					return err
				}
				s, err := k.claims[i].state(labs)
				if err != nil {
					return err
				}
				if s.Side() != was.Side() {
					st := &b.Statements[i]
					if st.Changed == nil {
						st.Changed = map[string]string{}
					}
					st.Changed[v.name] = s.Side()
				}
			}
		}
	}
	return nil
}
