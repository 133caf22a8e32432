// The study runs the publication's settings with every system, and compares its network selections with the optimum.

package jellyfish

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-npu/sluice/host/experiments/frame"
	"github.com/sluice-npu/sluice/host/jellyfish"
	"github.com/sluice-npu/sluice/host/jellyfish/exact"
	"github.com/sluice-npu/sluice/host/links"
	"github.com/sluice-npu/sluice/host/sched"
)

//go:embed claims.yaml
var book []byte

//go:embed tried.txt
var tried []byte

// Config selects the runs of the study.
type Config struct {
	frame.Config
	Instances int // number of random instances of each size, for the approximation ratio
	Traces    []string
	Assumed   Assumed

	firstCome bool
}

// firstCome is a switch: the workers of the baselines serve all requests in the order of arrival, instead of using
// Clockwork's EDF with drops.
const firstCome = "first-come"

// Bench is the result of the study.
type Bench struct {
	frame.Result
	Ratios []Ratio
}

// Point is one setting of the publication.
type Point struct {
	Trace   string
	Workers int
	Clients int
	Rate    int   // 0: clients differ
	SLO     int64 // 0: clients differ
	Large   bool  // the large set-up: the smallest ten networks on slower GPUs
	Loaded  int   // number of networks that remain loaded on a worker; 0: 5
}

// String returns the point's name, such as steps/8x15/75ms. Slashes in the link's name become %2F.
func (p Point) String() string {
	link := url.PathEscape(p.Trace) // a file's path contains slashes
	s := fmt.Sprintf("%s/%dx%d/%dms", link, p.Clients, p.Rate, p.SLO/1e6)
	if p.Rate == 0 {
		s = fmt.Sprintf("%s/%dxmixed", link, p.Clients)
	}
	if p.Workers != 2 {
		s += fmt.Sprintf("/%dw", p.Workers)
	}
	if p.Loaded != 0 {
		s += fmt.Sprintf("/%d-loaded", p.Loaded)
	}
	return s
}

const ms = int64(1_000_000)

// slos and rates return the SLOs in ns and the frame rates of the publication's clients.
func slos() []int64 { return []int64{75 * ms, 100 * ms, 150 * ms} }
func rates() []int  { return []int{15, 25} }

// eighteen returns the settings of sections VI-B to VI-D.
func eighteen(trace string) (out []Point) {
	for _, n := range []int{2, 4, 8} {
		for _, r := range rates() {
			for _, s := range slos() {
				out = append(out, Point{Trace: trace, Workers: 2, Clients: n, Rate: r, SLO: s})
			}
		}
	}
	return out
}

// large returns the settings of section VI-E.
func large() (out []Point) {
	for _, n := range []int{8, 16, 24, 32} {
		for _, s := range slos()[1:] {
			out = append(out, Point{Trace: "lte", Workers: 8, Clients: n, Rate: 15, SLO: s, Large: true})
		}
	}
	return out
}

// setting returns the setting of a point.
func (p Point) setting(c *Config, seed uint64) (*Setting, error) {
	trace, err := LinkOf(p.Trace, seed, c.Assumed.Memory)
	if err != nil {
		return nil, err
	}
	s := &Setting{Zoo: jellyfish.Synthetic(1), Workers: p.Workers, Trace: trace, Ns: c.Ns, Seed: seed}
	if p.Large {
		s.Zoo = jellyfish.Synthetic(c.Assumed.Slower)[:10]
	}
	rng := rand.New(rand.NewPCG(seed, 0x6d69786564))
	s.Clients = Cameras(p.Clients, func(int) jellyfish.Registered {
		if p.Rate == 0 {
			return jellyfish.Registered{Rate: rates()[rng.IntN(2)], SLO: slos()[rng.IntN(3)]}
		}
		return jellyfish.Registered{Rate: p.Rate, SLO: p.SLO}
	}, c.Ns, seed)
	return s, nil
}

// key identifies a run.
type key struct {
	point  Point
	system string
}

// lab contains the runs of one seed.
type lab struct {
	ctx    context.Context
	config *Config
	seed   uint64
	runs   map[key]*Outcome
}

// of returns the outcome of a run. It executes the run at its first use.
func (l *lab) of(p Point, system string) (_ *Outcome, err error) {
	k := key{p, system}
	if l.runs[k] == nil {
		if l.runs[k], err = l.config.run(l.ctx, k, l.seed); err != nil {
			return nil, err
		}
	}
	return l.runs[k], nil
}

// plain returns the systems of section VI-C.
func plain() []string { return []string{"jellyfish", "jellyfish+", "b-l", "b-m", "b-h"} }

// adaptations returns the systems of section VI-D.
func adaptations() []string {
	return []string{"da-off", "da-bw-50", "da-bw-75", "da-slo-50", "da-slo-75"}
}

// runs returns the keys of all runs that rows and claims need.
func (c *Config) runs() (out []key) {
	add := func(points []Point, systems ...string) {
		for _, p := range points {
			for _, s := range systems {
				out = append(out, key{p, s})
			}
		}
	}
	for _, t := range append([]string{"steps", "wifi", "lte"}, c.Traces...) {
		add(eighteen(t), plain()...)
		for _, n := range []int{4, 8} {
			add([]Point{{Trace: t, Workers: 2, Clients: n}}, plain()...)
		}
	}
	add(eighteen("steps"), adaptations()...)
	add(large(), "jellyfish", "jellyfish+")
	for _, t := range []string{"wifi", "lte"} {
		for _, p := range eighteen(t) {
			p.Loaded = 3
			add([]Point{p}, "jellyfish", "jellyfish+")
		}
	}
	return out
}

// RunBench executes the runs and checks the claims.
func RunBench(ctx context.Context, c Config) (*Bench, error) {
	if len(c.Seeds) == 0 || c.Ns < 1_000*ms || c.Instances < 1 || c.Workers < 1 {
		return nil, fmt.Errorf("%w: %d seeds, %d ns, %d instances, %d at the same time; at least one, a second, one, one are expected",
			ErrSetup, len(c.Seeds), c.Ns, c.Instances, c.Workers)
	}
	for _, t := range c.Traces {
		if _, err := LinkOf(t, 1, links.Memory); err != nil {
			return nil, err
		}
	}
	b := &Bench{}
	study := frame.Study[*lab]{
		Book: book, Tried: tried, Measures: c.measures(), Probes: map[string]frame.Sampler[*lab]{}, Numbers: c.numbers(), Apart: true,
		Labs: func(_ string, x *frame.Change) (labs []*lab, err error) {
			v := new(Config)
			*v = c
			switch {
			case x == nil:
			case x.Key == firstCome:
				v.firstCome = true
			default:
				v.Assumed = c.Assumed.Times(x.Key, x.By)
			}
			for _, seed := range c.Seeds {
				labs = append(labs, &lab{ctx: ctx, config: v, seed: seed, runs: map[key]*Outcome{}})
			}
			return labs, nil
		},
		Knobs: func(string) (*frame.Knobs, error) {
			return &frame.Knobs{Switches: []string{firstCome}, Keys: AssumedNames()}, nil
		},
	}
	c.Say("approximation ratios")
	drawn := c
	if !strings.HasPrefix(c.Only, "fig14a") && c.Only != "" && !strings.HasPrefix("fig14a", c.Only) {
		drawn.Instances = 1 // no selected claim needs more instances
	}
	var err error
	if b.Ratios, err = drawn.ratios(ctx); err != nil {
		return nil, err
	}
	for i := range b.Ratios {
		r := &b.Ratios[i]
		study.Probes[r.claim()] = frame.Given[*lab](r.Of[0].Each, r.Of[0].AtMost)
	}
	r, err := study.Run(ctx, &c.Config)
	if err != nil {
		return nil, err
	}
	b.Result = *r
	return b, nil
}

// run executes the run of a key.
func (c *Config) run(ctx context.Context, k key, seed uint64) (*Outcome, error) {
	sys, err := Named(k.system)
	if err != nil {
		return nil, err
	}
	sys.Prefetch = k.point.Loaded
	if c.firstCome && sys.Fixed {
		sys.Inside = func() sched.Policy { return &sched.Collect{Label: firstCome} }
	}
	set, err := k.point.setting(c, seed)
	if err != nil {
		return nil, err
	}
	o, err := Run(ctx, set, sys, c.Assumed)
	if err != nil {
		return nil, fmt.Errorf("%s, seed %d: %w", k.point, seed, err)
	}
	return o, nil
}

// Ratio compares selectors with the optimum, over random instances of one size.
type Ratio struct {
	Workers   int `json:"workers"`
	Clients   int `json:"clients"`
	Instances int `json:"instances"`
	// number of instances drawn until enough (Instances) were valid; in a valid instance, the smallest networks can
	// serve all clients
	Draws  int     `json:"draws"`
	Proved int     `json:"proved"` // number of instances with a proven optimum; for other instances, only an upper bound is known
	Of     []Near  `json:"of"`
	Share  float64 `json:"drawn_share"`
}

// claim returns the ID of the claim in figure 14 for this size.
func (r *Ratio) claim() string { return fmt.Sprintf("fig14a/%dx%d", r.Workers, r.Clients) }

// Near contains the ratios of one selector's accuracy to the optimal accuracy, or to an upper bound of the optimum.
type Near struct {
	Name    string    `json:"name"`
	Mean    float64   `json:"mean"`
	CI95    *float64  `json:"ci95"`
	Least   float64   `json:"least"`
	Best    *float64  `json:"proved_mean"` // mean over instances with a proven optimum; null: no such instance
	Bound   *float64  `json:"bound_mean"`  // mean over the other instances; null: no such instance
	Mapped  int       `json:"mapped"`      // number of instances in which all clients are mapped
	Reached int       `json:"reached"`     // number of instances in which the selector found the optimum
	Each    []float64 `json:"-"`           // ratios by instance
	AtMost  []float64 `json:"-"`           // upper limit of each instance's ratio: 1 if the optimum is unknown
}

// nodes is the largest number of nodes in branch and bound.
const nodes = 20_000

// draws limits the attempts to draw an instance.
const draws = 1000

// selectors returns the compared selectors.
func selectors() []jellyfish.Selector {
	return []jellyfish.Selector{jellyfish.Annealing{}, jellyfish.Search{}}
}

// Draw returns a random instance as in section VI-F, or nil if even the smallest networks cannot serve all clients.
func Draw(rng *rand.Rand, workers, clients int) (*jellyfish.Problem, error) {
	var c []jellyfish.Client
	for range clients {
		c = append(c, jellyfish.Client{
			Rate: []int{10, 15, 25}[rng.IntN(3)], SLO: slos()[rng.IntN(3)], Bandwidth: 7.5e6 + rng.Float64()*42.5e6,
		})
	}
	p, err := jellyfish.NewProblem(jellyfish.Synthetic(1), c, workers, jellyfish.Aligned)
	if err != nil {
		return nil, err
	}
	var m jellyfish.Mapping
	for _, tie := range []jellyfish.Tie{jellyfish.Ample, jellyfish.Tight} {
		jellyfish.NewMapper(p).Map(make([]jellyfish.Kind, workers), tie, &m)
		if m.Mapped == clients {
			return p, nil
		}
	}
	return nil, nil
}

// ratios returns the ratios for 2 to 16 workers. With 8 and 16 workers, only an upper bound of the optimum is known.
func (c *Config) ratios(ctx context.Context) ([]Ratio, error) {
	var out []Ratio
	for _, workers := range []int{2, 4, 8, 16} {
		for _, scale := range []int{4, 6, 8, 10} {
			r, err := c.ratio(ctx, workers, workers*scale)
			if err != nil {
				return nil, err
			}
			out = append(out, *r)
		}
	}
	return out, nil
}

func (c *Config) ratio(ctx context.Context, workers, clients int) (*Ratio, error) {
	type one struct {
		draws  int
		best   exact.Answer
		acc    []float64
		mapped []bool
	}
	got := make([]one, c.Instances)
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(c.Workers)
	for i := range got {
		g.Go(func() error {
			rng := rand.New(rand.NewPCG(c.Seeds[0], uint64(workers)<<40|uint64(clients)<<20|uint64(i)))
			o := &got[i]
			var p *jellyfish.Problem
			for p == nil {
				var err error
				if p, err = Draw(rng, workers, clients); err != nil || ctx.Err() != nil {
					return cmp.Or(err, ctx.Err())
				}
				if o.draws++; o.draws > draws {
					return fmt.Errorf("%w: none of %d draws of %d clients on %d workers can be mapped", ErrSetup, draws, clients, workers)
				}
			}
			found := 0.0
			for _, s := range selectors() {
				ch := s.Select(p, nil, uint64(i))
				o.acc = append(o.acc, ch.Mapping.Accuracy)
				o.mapped = append(o.mapped, ch.Mapping.Mapped == clients)
				if ch.Mapping.Mapped == clients {
					found = max(found, ch.Mapping.Accuracy)
				}
			}
			var err error
			o.best, err = exact.Solve(p, found, nodes)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	r := &Ratio{Workers: workers, Clients: clients, Instances: c.Instances}
	for k, s := range selectors() {
		n := Near{Name: s.Name(), Least: 2}
		var v, proved, bound []float64
		for i := range got {
			o := &got[i]
			x := o.acc[k] / o.best.Accuracy
			v = append(v, x)
			n.Least = min(n.Least, x)
			if o.best.Proved {
				proved = append(proved, x)
				n.AtMost = append(n.AtMost, x)
			} else {
				bound = append(bound, x)
				n.AtMost = append(n.AtMost, max(1, x))
			}
			if o.mapped[k] {
				n.Mapped++
				if o.best.Proved && x > 1-1e-9 {
					n.Reached++
				}
			}
		}
		n.Mean, n.CI95 = frame.Interval(v)
		n.Each = v
		n.Best, n.Bound = meanOf(proved), meanOf(bound)
		r.Proved = len(proved)
		r.Of = append(r.Of, n)
	}
	for i := range got {
		r.Draws += got[i].draws
	}
	r.Share = float64(r.Instances) / float64(r.Draws)
	return r, nil
}

// meanOf returns the mean, or nil if there are no values.
func meanOf(v []float64) *float64 {
	if len(v) == 0 {
		return nil
	}
	m, _ := frame.Interval(v)
	return &m
}
