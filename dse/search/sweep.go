// Package search explores the design space exhaustively: every <T_R, T_P, T_C> of a grid, and on each
// every legal <k, B_R, loop order, tile> of every layer and batch size, judged by the law of cycles
// (dse/cost) and the law of resources (dse/resource). What it leaves out is proved to be no better by
// bounds from below (bound.go); tests compare it with a search that leaves nothing out.
package search

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/sluice-npu/sluice/dse/cost"
	"github.com/sluice-npu/sluice/dse/mapping"
	"github.com/sluice-npu/sluice/dse/resource"
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
)

// ErrInterrupted is wrapped when a sweep ends before it has seen the whole space: there is no result.
var ErrInterrupted = errors.New("the sweep was interrupted before it had seen the whole space")

// ErrSlow is wrapped by what is said of a design that is slower than it may be.
var ErrSlow = errors.New("too slow")

// ErrDrift says that the cycles a sweep found are not what the law says of the same entries.
var ErrDrift = errors.New("the search and the law disagree")

// Options of a sweep.
type Options struct {
	Objective Objective
	Weights   Weights // zero value: Uniform
	Workers   int     // 0: one a processor
	// Exits are the shares of requests that leave at each exit, of each network (nil: all at the last), for Latency and
	// Throughput.
	Exits []float64
	// MaxLatency leaves out designs on which a network takes more ns at B = 1; 0: none.
	MaxLatency int64
	// Service simulates how designs serve, where the objective asks that.
	Service *Service
	Cost    Cost    // of Cheapest
	Energy  *Energy // of CostEnergy
	// Band is by what share cycles may be off, and CostBand the cost: designs that only that tells from the best one are
	// answered with it.
	Band, CostBand float64
	// Exhaustive evaluates everything: for tests, and to see what the bounds save.
	Exhaustive bool
	// References are designs whose rank among all is wanted.
	References []configs.Design
	// Progress, where set, is told how many <T_P, T_C> are done.
	Progress func(done, total int)
	// Asked are further parts of the question; one of a name that the question has replaces that part, as where the
	// user typed something else than what became of it.
	Asked []Param
	// State, where set, is a file that the sweep can be resumed from.
	State string
}

// Point is a design and what it does.
type Point struct {
	Design  configs.Design    `json:"design"`
	TR      int               `json:"TR"`
	TP      int               `json:"TP"`
	TC      int               `json:"TC"`
	Value   float64           `json:"value"`            // of the objective
	GOPS    float64           `json:"gops"`             // weighted
	ByB     [abi.BMax]float64 `json:"gops_by_batch"`    // B = 1..8
	B1NS    int64             `json:"latency_b1_ns"`    // to the last exit
	ExitNS  int64             `json:"latency_exits_ns"` // to the exits as requests leave at them
	Samples float64           `json:"samples_per_s"`    // weighted, as requests leave at exits
	DSP     int               `json:"dsp"`
	BRAM36  float64           `json:"bram36"`
	URAM    int               `json:"uram"`
	LUT     int               `json:"lut"`
	FF      int               `json:"ff"`
	PJ      float64           `json:"energy_pj,omitempty"` // of a sample, where that is the cost
	Cycles  Cycles            `json:"cycles"`              // by batch and segment
	Fails   bool              `json:"fails,omitempty"`     // it does not hold what is asked of it
	AtMost  bool              `json:"at_most,omitempty"`   // not simulated: no better than Value
	Served  *Served           `json:"served,omitempty"`
}

// Mapping is the entry of a layer at one batch.
type Mapping struct {
	Layer    string     `json:"layer"`
	Batch    int        `json:"batch"`
	K        string     `json:"k"`
	S        int        `json:"s"`
	BR       int        `json:"B_R"`
	Order    bool       `json:"order"`
	TileB    int        `json:"tile_b"`
	TileRows int        `json:"tile_rows"`
	KeepIn   bool       `json:"keep_in,omitempty"`  // what it reads is on chip
	KeepOut  bool       `json:"keep_out,omitempty"` // what it writes is for the next layer
	OnChip   bool       `json:"on_chip,omitempty"`  // and goes nowhere else
	Cycles   int64      `json:"cycles"`
	Bound    cost.Bound `json:"bound"`
}

// Rank is where a reference stands among all designs of the space.
type Rank struct {
	Design     configs.Design `json:"design"`
	Rank       int            `json:"rank"` // 1: none is better; 0: infeasible
	Of         int            `json:"of"`
	Value      float64        `json:"value"`
	Point      *Point         `json:"point,omitempty"`
	Infeasible string         `json:"infeasible,omitempty"`
}

// Result of a whole sweep.
type Result struct {
	Grid    string         `json:"grid"`
	Designs int            `json:"designs"` // legal <T_R, T_P, T_C>
	Refused map[string]int `json:"refused"` // points of the grid that are not, by reason
	// RefusedAs has, by reason too, one of them and what is said of it.
	RefusedAs map[string]string `json:"refused_as"`
	Unmapped  int               `json:"unmapped"` // designs on which a layer does not fit
	Space     int64             `json:"space"`    // legal mappings: over designs, layers and batches
	// Evaluated is how often the law was asked, of kept tensors too, whose entries Space does not count; Searched the designs
	// it was asked about.
	Evaluated int64 `json:"evaluated"`
	Searched  int   `json:"searched"`

	Best    Point     `json:"best"`
	Mapping []Mapping `json:"mapping"`
	Within  []Point   `json:"within"` // no worse than Best but for the band, Best first
	Pareto  []Point   `json:"pareto"` // GOP/s up; latency at B = 1 and DSPs down; none where rates or costs were asked for
	Ranks   []Rank    `json:"ranks"`

	// Points are all designs evaluated, in the order of the search: for pictures. What pruning left out
	// is missing.
	Points []Point `json:"-"`
}

// chunk is how many <T_P, T_C> are evaluated against one state of knowledge: fixed, so that what is
// pruned does not depend on the number of workers.
const chunk = 16

// Sweep searches the whole grid. It answers a result only when every legal point has been evaluated
// or proved to be no better.
func Sweep(ctx context.Context, w *Workload, g Grid, o Options) (*Result, error) {
	if o.Weights == (Weights{}) {
		o.Weights = Uniform()
	}
	exits, bad := Reach(w, o.Exits)
	if err := errors.Join(g.Check(), o.Weights.Check(), o.check(), bad); err != nil {
		return nil, err
	}
	if o.Workers == 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	s := &sweep{ctx: ctx, w: w, g: g, o: o, reach: exits, top: math.Inf(-1), floor: math.Inf(1)}
	return s.run()
}

type sweep struct {
	ctx context.Context
	w   *Workload
	g   Grid
	o   Options

	reach []float64 // by segment, of requests

	jobs  []job
	res   Result
	found []Point // every design evaluated
	next  int     // first job of the next chunk
	front []Point // of what designs reach, found or not
	refs  []Rank
	top   float64 // a value that some design reaches
	floor float64 // value below which nothing is asked for
	saved time.Time
}

// job is one <T_P, T_C>.
type job struct {
	p      pair
	groups []lowered
	space  int64
	value  float64 // that none of its designs exceeds
}

func (s *sweep) run() (*Result, error) {
	pairs, refused := s.g.pairs()
	s.res.Grid, s.res.Refused, s.res.RefusedAs = s.g.String(), refused.points, refused.sample
	for _, p := range pairs {
		s.res.Designs += len(p.designs)
	}
	if len(pairs) == 0 {
		return nil, fmt.Errorf("%w: %s with %d DSPs, %d BRAM36, %d URAM%s", ErrEmpty,
			s.g.Board.Device, s.g.Board.DSP, s.g.Board.BRAM36, s.g.Board.URAM, refused)
	}
	if err := s.prepare(pairs); err != nil {
		return nil, err
	}
	if err := s.references(); err != nil {
		return nil, err
	}
	if err := s.load(); err != nil {
		return nil, err
	}
	for s.next < len(s.jobs) {
		if err := s.step(); err != nil {
			return nil, errors.Join(err, s.save(true))
		}
		if err := s.save(false); err != nil {
			return nil, err
		}
	}
	return s.finish()
}

// each runs f over n indices on the workers; f is told which worker it runs on.
func (s *sweep) each(n int, f func(worker, i int)) error {
	var wg sync.WaitGroup
	var mu sync.Mutex
	at := 0
	for k := range min(s.o.Workers, n) {
		wg.Go(func() {
			for {
				mu.Lock()
				i := at
				at++
				mu.Unlock()
				if i >= n || s.ctx.Err() != nil {
					return
				}
				f(k, i)
			}
		})
	}
	wg.Wait()
	if err := s.ctx.Err(); err != nil {
		return fmt.Errorf("%w: %d of %d <T_P, T_C> done: %w", ErrInterrupted, s.next, len(s.jobs), err)
	}
	return nil
}

// prepare lowers the network on every design, counts the space and bounds every <T_P, T_C>.
func (s *sweep) prepare(pairs []pair) error {
	jobs := make([]job, len(pairs))
	solvers := s.solvers()
	err := s.each(len(pairs), func(worker, i int) {
		v, j := solvers[worker], &jobs[i]
		j.p = pairs[i]
		if j.space, j.groups = v.survey(&j.p, v.lower(&j.p)); len(j.groups) > 0 {
			j.value = math.Inf(-1)
			for _, gr := range j.groups {
				if s.o.Cost == CostEnergy {
					for _, i := range gr.designs {
						j.p.points[i].PJ = s.o.Energy.Least(s.w, j.p.designs[i], gr.classes, s.reach)
					}
				}
				for i, c := range gr.least {
					if b := s.bound(j, gr.designs[i], c); !b.Fails {
						j.value = max(j.value, b.Value)
					}
				}
			}
		}
	})
	if err != nil {
		return err
	}
	for i := range jobs {
		s.res.Unmapped += len(jobs[i].p.designs) - jobs[i].mapped()
		s.res.Space += jobs[i].space
		if len(jobs[i].groups) > 0 {
			s.jobs = append(s.jobs, jobs[i])
		}
	}
	if len(s.jobs) == 0 {
		d := pairs[len(pairs)-1].designs[0]
		return fmt.Errorf("%w: the network maps to none of %d designs, e.g. <%d, %d, %d>: %w", ErrEmpty, s.res.Designs, d.TR, d.TP, d.TC, s.misfit(d))
	}
	// the most promising first
	slices.SortStableFunc(s.jobs, func(a, b job) int { return compare(b.value, a.value) })
	if err := s.reached(solvers); err != nil {
		return err
	}
	for _, v := range solvers {
		s.res.Evaluated += v.asked
	}
	// and before them those that the others must beat
	var lead, rest []job
	for _, j := range s.jobs {
		if slices.ContainsFunc(s.front, func(p Point) bool { return p.TP == j.p.tp && p.TC == j.p.tc }) {
			lead = append(lead, j)
		} else {
			rest = append(rest, j)
		}
	}
	s.jobs = slices.Concat(lead, rest)
	return nil
}

// misfit says which layer has no entry of the FBCB on a design that has no mapping, and why.
func (s *sweep) misfit(d configs.Design) error {
	layers, err := s.w.Lower(d)
	if err != nil {
		return err
	}
	for _, l := range layers {
		for b := 1; b <= abi.BMax; b++ {
			if _, _, err := mapping.Choose(d, l.Geom, b, s.g.Mapping); err != nil {
				return fmt.Errorf("layer %q: %w", l.Name, err)
			}
		}
	}
	return fmt.Errorf("%w: no entry of the FBCB fits some layer", mapping.ErrNoFit)
}

func (s *sweep) solvers() []*solver {
	out := make([]*solver, s.o.Workers)
	for i := range out {
		out[i] = newSolver(s.w, s.g.Mapping, !s.o.Exhaustive)
	}
	return out
}

// bound is what the job's i-th design cannot beat where its cycles are at least c.
func (s *sweep) bound(j *job, i int, c Cycles) *Point {
	p := j.p.points[i]
	s.times(&p, c)
	p.Value, p.Fails = s.optimistic(p)
	return &p
}

func (s *sweep) references() error {
	for _, d := range s.o.References {
		r := Rank{Design: d}
		p, err := s.judge(d)
		switch {
		case errors.Is(err, ErrInterrupted), errors.Is(err, context.Canceled):
			return err
		case err != nil:
			r.Infeasible = err.Error()
		case p.Fails:
			r.Infeasible = "it does not hold what is asked"
		default:
			r.Point, r.Value = p, p.Value
			s.floor = min(s.floor, p.Value)
		}
		s.refs = append(s.refs, r)
	}
	return nil
}

// judge evaluates one design that need not be of the grid.
func (s *sweep) judge(d configs.Design) (*Point, error) {
	// every reason at once
	if err := errors.Join(d.Elaborates(), resource.Of(s.g.Board, d).Check(s.g.Board)); err != nil {
		return nil, err
	}
	if _, err := s.w.Lower(d); err != nil {
		return nil, err
	}
	v := newSolver(s.w, s.g.Mapping, !s.o.Exhaustive)
	p := pair{tp: d.TP, tc: d.TC, designs: []configs.Design{d}}
	_, groups := v.survey(&p, v.lower(&p))
	if len(groups) == 0 {
		return nil, s.misfit(d)
	}
	_, cs, err := v.solve(&p, groups, nil)
	if err != nil {
		return nil, err
	}
	pt := pointOf(s.g.Board, d)
	s.times(&pt, cs[0])
	if s.late(&pt) {
		return nil, fmt.Errorf("%w: %.3f ms at B = 1, more than %.3f", ErrSlow, float64(pt.B1NS)/1e6, float64(s.o.MaxLatency)/1e6)
	}
	return &pt, s.judged(&pt)
}

// reached finds out what designs reach, but for those that cannot beat what others do. It goes by chunks as
// the search does. What only a simulation says is not reached by cycles.
func (s *sweep) reached(solvers []*solver) error {
	if s.o.Objective == Rate || s.o.Objective == Cheapest {
		return nil
	}
	for at := 0; at < len(s.jobs); at += chunk {
		some := s.jobs[at:min(at+chunk, len(s.jobs))]
		reached := make([][]Point, len(some))
		err := s.each(len(some), func(worker, i int) {
			j := &some[i]
			for k := range j.groups {
				at, cs := solvers[worker].reach(&j.p, &j.groups[k], func(d int, c Cycles) bool { return s.hopeless(s.bound(j, d, c)) })
				for n, c := range cs {
					reached[i] = append(reached[i], *s.bound(j, at[n], c))
				}
			}
		})
		if err != nil {
			return err
		}
		for _, points := range reached {
			for _, p := range points {
				s.note(p)
			}
		}
		s.front = Front(s.front)
	}
	return nil
}

// note takes in a point that some design is no worse than.
func (s *sweep) note(p Point) {
	if s.late(&p) || p.Fails || p.AtMost {
		return
	}
	s.front = append(s.front, p)
	if !s.o.Objective.Simulated() || p.Served != nil {
		s.top = max(s.top, p.Value)
	}
}

// hopeless tells whether nothing that is asked for can come from designs that do not beat a bound: neither
// a best value, nor a place on the front, nor one before a reference.
func (s *sweep) hopeless(bound *Point) bool {
	switch {
	case s.late(bound):
		return true
	case s.o.Exhaustive:
		return false
	case bound.Fails:
		return true
	case !s.unwanted(bound.Value):
		return false
	case s.o.Objective == Rate, s.o.Objective == Cheapest:
		return true // no front is asked for
	}
	for i := range s.front {
		if dominates(&s.front[i], bound) {
			return true
		}
	}
	return false
}

// dominates tells whether a is no worse than b in anything and better in something.
func dominates(a, b *Point) bool {
	return a.GOPS >= b.GOPS && a.B1NS <= b.B1NS && a.DSP <= b.DSP &&
		(a.GOPS > b.GOPS || a.B1NS < b.B1NS || a.DSP < b.DSP)
}

// step evaluates the next chunk.
func (s *sweep) step() error {
	end := min(s.next+chunk, len(s.jobs))
	todo := s.jobs[s.next:end]
	solvers := s.solvers()
	points := make([][]Point, len(todo))
	errs := make([]error, len(todo))
	err := s.each(len(todo), func(worker, i int) {
		j := &todo[i]
		at, cs, err := solvers[worker].solve(&j.p, j.groups, func(d int, c Cycles) bool { return s.hopeless(s.bound(j, d, c)) })
		if errs[i] = err; err != nil {
			return
		}
		for k, c := range cs {
			p := j.p.points[at[k]]
			s.times(&p, c)
			if s.late(&p) {
				continue
			}
			if errs[i] = s.judged(&p); errs[i] != nil {
				return
			}
			points[i] = append(points[i], p)
		}
	})
	if err := errors.Join(err, errors.Join(errs...)); err != nil {
		return err
	}
	for _, list := range points {
		s.found = append(s.found, list...)
		s.res.Searched += len(list)
		for _, p := range list {
			s.note(p)
		}
	}
	s.front = Front(s.front)
	for _, v := range solvers {
		s.res.Evaluated += v.asked
	}
	s.next = end
	if s.o.Progress != nil {
		s.o.Progress(s.next, len(s.jobs))
	}
	return nil
}

// mapped is how many designs of a job the network maps to.
func (j *job) mapped() int {
	n := 0
	for _, gr := range j.groups {
		n += len(gr.designs)
	}
	return n
}

// best is the index of the best point found: the highest value; among equals fewer DSPs, less block
// RAM, then the smaller T_P, T_C, T_R.
func (s *sweep) best() int {
	b := 0
	for i := range s.found {
		if better(&s.found[i], &s.found[b]) {
			b = i
		}
	}
	return b
}

func better(a, b *Point) bool {
	return byValue(a, b) < 0
}

// byValue orders points: the best first; of equals the one that misses fewer deadlines, then the cheaper.
func byValue(a, b *Point) int {
	ok := func(p *Point) int {
		if p.Fails || p.AtMost {
			return 1
		}
		return 0
	}
	missed := func(p *Point) float64 {
		if p.Served == nil {
			return 0
		}
		return p.Served.Upper()
	}
	return cmp.Or(compare(ok(a), ok(b)), compare(b.Value, a.Value), compare(missed(a), missed(b)), cheaper(a, b))
}

func cheaper(a, b *Point) int {
	return cmp.Or(
		compare(a.DSP, b.DSP), compare(a.BRAM36, b.BRAM36), compare(a.URAM, b.URAM), compare(a.TP, b.TP), compare(a.TC, b.TC), compare(a.TR, b.TR),
		compare(a.LUT, b.LUT), cmp.Compare(a.Design.Name, b.Design.Name))
}

// Front is the points that no other beats in GOP/s, latency at B = 1 and DSPs together, by DSPs; of
// equals one.
func Front(points []Point) []Point {
	sorted := slices.Clone(points)
	slices.SortStableFunc(sorted, func(a, b Point) int {
		for _, c := range []int{compare(b.GOPS, a.GOPS), compare(a.B1NS, b.B1NS), cheaper(&a, &b)} {
			if c != 0 {
				return c
			}
		}
		return 0
	})
	var out []Point
	for _, p := range sorted {
		beaten := false
		for i := range out { // all of them have at least the GOP/s
			if out[i].B1NS <= p.B1NS && out[i].DSP <= p.DSP {
				beaten = true
				break
			}
		}
		if !beaten {
			out = append(out, p)
		}
	}
	slices.SortStableFunc(out, func(a, b Point) int { return compare(a.DSP, b.DSP) })
	return out
}

func (s *sweep) finish() (*Result, error) {
	if len(s.found) == 0 {
		what := "is as fast as it must be"
		if s.o.Objective.Simulated() {
			what = "holds what is asked"
		}
		return nil, fmt.Errorf("%w: none of %d designs %s", ErrEmpty, s.res.Designs, what)
	}
	r := &s.res
	r.Best, r.Points = s.found[s.best()], s.found
	if r.Best.Fails || r.Best.AtMost {
		return nil, fmt.Errorf("%w: none of %d designs holds what is asked", ErrEmpty, s.res.Designs)
	}
	if s.o.Objective != Rate && s.o.Objective != Cheapest {
		r.Pareto = Front(s.found)
	}
	least := s.loosened(r.Best.Value)
	for i := range s.found {
		if p := &s.found[i]; p.Value >= least && !p.Fails && !p.AtMost {
			r.Within = append(r.Within, *p)
		}
	}
	slices.SortStableFunc(r.Within, func(a, b Point) int { return byValue(&a, &b) })
	for _, ref := range s.refs {
		if ref.Point != nil {
			ref.Rank = 1
			for i := range s.found {
				if p := &s.found[i]; p.Value > ref.Value && !p.Fails && !p.AtMost {
					ref.Rank++
				}
			}
		}
		ref.Of = r.Designs - r.Unmapped
		r.Ranks = append(r.Ranks, ref)
	}
	var err error
	if r.Mapping, err = s.w.Map(r.Best.Design, s.g.Mapping, r.Best.Cycles); err != nil {
		return nil, err
	}
	return r, s.save(true)
}

// Map chooses the entries of every layer and batch on a design, and holds their sums to want.
func (w *Workload) Map(d configs.Design, o mapping.Options, want Cycles) ([]Mapping, error) {
	layers, err := w.Lower(d)
	if err != nil {
		return nil, err
	}
	var out []Mapping
	for b := 1; b <= abi.BMax; b++ {
		chosen, err := Choose(d, layers, b, o)
		if err != nil {
			return nil, err
		}
		seg := make([]int64, w.Segments)
		for i := range seg {
			seg[i] = cost.Start(d)
		}
		for i, l := range layers {
			e, t := chosen[i].Entry, chosen[i].Time
			seg[l.Segment] += t.Total
			out = append(out, Mapping{
				Layer: l.Name, Batch: b, K: cost.K(e.K).String(), S: cost.Groups(e, b), BR: int(e.BR), Order: e.Order,
				TileB: int(e.TileB), TileRows: int(e.TileRows), KeepIn: e.KeepIn, KeepOut: e.KeepOut, OnChip: e.OnChip, Cycles: t.Total, Bound: t.Bound,
			})
		}
		if !slices.Equal(seg, want[b-1]) {
			return nil, fmt.Errorf("%w: <%d, %d, %d> at batch %d: the search says %v cycles, the law %v", ErrDrift, d.TR, d.TP, d.TC, b, want[b-1], seg)
		}
	}
	return out, nil
}
