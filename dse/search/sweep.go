// Package search explores the design space exhaustively. The space contains every <T_R, T_P, T_C> of a grid. For each
// of these designs it contains every legal <k, B_R, loop order, tile> of every layer and batch size. The law of cycles
// (dse/cost) and the law of resources (dse/resource) evaluate each combination. Designs are skipped only if lower
// bounds (bound.go) prove that they are no better. Tests compare the result with a search that skips nothing.
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

// ErrInterrupted is wrapped by errors of a sweep that ends without a result, before it has covered the whole space.
var ErrInterrupted = errors.New("the sweep was interrupted before it had seen the whole space")

// ErrSlow is wrapped by errors about designs that exceed the latency limit.
var ErrSlow = errors.New("too slow")

// ErrDrift reports that the cycles that a sweep computed differ from the law's cycles for the same entries.
var ErrDrift = errors.New("the search and the law disagree")

// Options contains the options of a sweep.
type Options struct {
	Objective Objective
	Weights   Weights // zero value: Uniform
	Workers   int     // number of workers; 0: one per processor
	// Exits contains, for each network, the share of requests that leave at each exit (nil: all at the last exit).
	// Latency and Throughput depend on these shares.
	Exits []float64
	// MaxLatency is the maximum latency of a network at B = 1 in ns. Slower designs are excluded. 0 means no limit.
	MaxLatency int64
	// Service simulates serving, for objectives that need a simulation.
	Service *Service
	Cost    Cost    // for Cheapest
	Energy  *Energy // for CostEnergy
	// Band is the relative uncertainty of cycles. CostBand is the relative uncertainty of the cost. The result includes
	// all designs that differ from the best design by less than this uncertainty.
	Band, CostBand float64
	// Exhaustive disables the bounds, for tests and to measure how much work the bounds save.
	Exhaustive bool
	// References contains designs that are ranked among all designs.
	References []configs.Design
	// Progress, if not nil, is called with the number of completed <T_P, T_C> and the total number.
	Progress func(done, total int)
	// Asked adds settings to the question. A setting replaces an existing setting with the same name. For example, a
	// setting can hold the text that the user entered instead of a value that was computed from it.
	Asked []Param
	// State, if not empty, is the path of a file from which the sweep can be resumed.
	State string
}

// Point is a design and its results.
type Point struct {
	Design  configs.Design    `json:"design"`
	TR      int               `json:"TR"`
	TP      int               `json:"TP"`
	TC      int               `json:"TC"`
	Value   float64           `json:"value"`            // value by the objective
	GOPS    float64           `json:"gops"`             // weighted over batch sizes
	ByB     [abi.BMax]float64 `json:"gops_by_batch"`    // B = 1..8
	B1NS    int64             `json:"latency_b1_ns"`    // latency to the last exit
	ExitNS  int64             `json:"latency_exits_ns"` // mean latency to the exits at which requests leave
	Samples float64           `json:"samples_per_s"`    // weighted over batch sizes, with requests that leave at exits
	DSP     int               `json:"dsp"`
	BRAM36  float64           `json:"bram36"`
	URAM    int               `json:"uram"`
	LUT     int               `json:"lut"`
	FF      int               `json:"ff"`
	PJ      float64           `json:"energy_pj,omitempty"` // per sample, if energy is the cost
	Cycles  Cycles            `json:"cycles"`              // by batch and segment
	Fails   bool              `json:"fails,omitempty"`     // the design does not satisfy a required limit
	AtMost  bool              `json:"at_most,omitempty"`   // the design was not simulated, and Value is an upper bound
	Served  *Served           `json:"served,omitempty"`
}

// Mapping is the entry of a layer at one batch size.
type Mapping struct {
	Layer    string     `json:"layer"`
	Batch    int        `json:"batch"`
	K        string     `json:"k"`
	S        int        `json:"s"`
	BR       int        `json:"B_R"`
	Order    bool       `json:"order"`
	TileB    int        `json:"tile_b"`
	TileRows int        `json:"tile_rows"`
	KeepIn   bool       `json:"keep_in,omitempty"`  // the input is on chip
	KeepOut  bool       `json:"keep_out,omitempty"` // the output is kept on chip for the next layer
	OnChip   bool       `json:"on_chip,omitempty"`  // the output is not written to DRAM
	Cycles   int64      `json:"cycles"`
	Bound    cost.Bound `json:"bound"`
}

// Rank is the rank of a reference among all designs of the space.
type Rank struct {
	Design     configs.Design `json:"design"`
	Rank       int            `json:"rank"` // 1 for the best design; 0 for an infeasible one
	Of         int            `json:"of"`
	Value      float64        `json:"value"`
	Point      *Point         `json:"point,omitempty"`
	Infeasible string         `json:"infeasible,omitempty"`
}

// Result is the result of a complete sweep.
type Result struct {
	Grid    string         `json:"grid"`
	Designs int            `json:"designs"` // number of legal <T_R, T_P, T_C>
	Refused map[string]int `json:"refused"` // number of points of the grid that are not legal, by reason
	// RefusedAs contains, for each reason, one refused point and its message.
	RefusedAs map[string]string `json:"refused_as"`
	Unmapped  int               `json:"unmapped"` // number of designs that cannot run the network, including TooMany
	TooMany   int               `json:"too_many"` // number of designs on which the network has more than L_MAX layers
	Space     int64             `json:"space"`    // number of legal mappings, over all designs, layers and batch sizes
	// Evaluated is the number of evaluations of the law. It includes entries with kept tensors, but Space does not.
	// Searched is the number of designs that were evaluated.
	Evaluated int64 `json:"evaluated"`
	Searched  int   `json:"searched"`

	Best    Point     `json:"best"`
	Mapping []Mapping `json:"mapping"`
	Within  []Point   `json:"within"` // designs within the band of Best; the first one is Best
	Pareto  []Point   `json:"pareto"` // front of GOP/s, latency at B = 1 and DSPs; empty for Rate and Cheapest
	Ranks   []Rank    `json:"ranks"`

	// Points contains all evaluated designs in the order of the search, for diagrams. Skipped designs are missing.
	Points []Point `json:"-"`
}

// chunk is the number of <T_P, T_C> that are evaluated before the values to beat are updated. It is constant, so that
// the skipped designs do not depend on the number of workers.
const chunk = 16

// Sweep searches the whole grid. It returns a result only if every legal point was evaluated, or was proved to be no
// better.
func Sweep(ctx context.Context, w *Workload, g Grid, o Options) (*Result, error) {
	s, err := newSweep(ctx, w, g, o)
	if err != nil {
		return nil, err
	}
	if err := s.run(0, 1); err != nil {
		return nil, err
	}
	return s.finish()
}

// Slice is the result of a search in one part of the grid.
type Slice struct {
	Unmapped, TooMany, Searched int
	Space, Evaluated            int64
	Found                       []Point
}

// SweepSlice searches one slice of the grid: the <T_P, T_C> with the numbers slice, slice + of, slice + 2 of, ...
func SweepSlice(ctx context.Context, w *Workload, g Grid, o Options, slice, of int) (*Slice, error) {
	s, err := newSweep(ctx, w, g, o)
	if err != nil {
		return nil, err
	}
	if err := s.run(slice, of); err != nil {
		return nil, err
	}
	r := &s.res
	return &Slice{r.Unmapped, r.TooMany, r.Searched, r.Space, r.Evaluated, s.found}, nil
}

// Join combines the results of all slices. Evaluated and Searched differ from those of Sweep, because a slice skips
// designs by comparison with its own designs only.
func Join(ctx context.Context, w *Workload, g Grid, o Options, slices []*Slice) (*Result, error) {
	s, err := newSweep(ctx, w, g, o)
	if err != nil {
		return nil, err
	}
	pairs, err := s.pairs()
	if err != nil {
		return nil, err
	}
	if err := s.references(); err != nil {
		return nil, err
	}
	for _, p := range slices {
		s.res.Unmapped += p.Unmapped
		s.res.TooMany += p.TooMany
		s.res.Searched += p.Searched
		s.res.Space += p.Space
		s.res.Evaluated += p.Evaluated
		s.found = append(s.found, p.Found...)
	}
	if s.res.Unmapped == s.res.Designs {
		return nil, s.unmapped(pairs)
	}
	return s.finish()
}

func newSweep(ctx context.Context, w *Workload, g Grid, o Options) (*sweep, error) {
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
	return &sweep{ctx: ctx, w: w, g: g, o: o, reach: exits, top: math.Inf(-1), floor: math.Inf(1)}, nil
}

type sweep struct {
	ctx context.Context
	w   *Workload
	g   Grid
	o   Options

	reach []float64 // share of requests, by segment

	jobs  []job
	res   Result
	found []Point // points of all evaluated designs
	next  int     // index of the first job of the next chunk
	front []Point // Pareto front of points that designs are known to reach
	refs  []Rank
	top   float64 // the best value that a design is known to reach
	floor float64 // the lowest value of a reference
	saved time.Time
}

// job is the search of one <T_P, T_C>.
type job struct {
	p      pair
	groups []lowered
	space  int64
	value  float64 // upper bound of the values of its designs
}

// pairs returns the legal designs of the grid and records the refused points.
func (s *sweep) pairs() ([]pair, error) {
	pairs, refused := s.g.pairs()
	s.res.Grid, s.res.Refused, s.res.RefusedAs = s.g.String(), refused.points, refused.sample
	for _, p := range pairs {
		s.res.Designs += len(p.designs)
	}
	if len(pairs) == 0 {
		return nil, fmt.Errorf("%w: %s with %d DSPs, %d BRAM36, %d URAM%s", ErrEmpty,
			s.g.Board.Device, s.g.Board.DSP, s.g.Board.BRAM36, s.g.Board.URAM, refused)
	}
	return pairs, nil
}

// run searches the pairs of one slice.
func (s *sweep) run(slice, of int) error {
	pairs, err := s.pairs()
	if err != nil {
		return err
	}
	var mine []pair
	for i := slice; i < len(pairs); i += of {
		mine = append(mine, pairs[i])
	}
	if err := s.prepare(mine); err != nil {
		return err
	}
	if len(s.jobs) == 0 && of == 1 {
		return s.unmapped(pairs)
	}
	if err := s.references(); err != nil {
		return err
	}
	if err := s.load(); err != nil {
		return err
	}
	for s.next < len(s.jobs) {
		if err := s.step(); err != nil {
			return errors.Join(err, s.save(true))
		}
		if err := s.save(false); err != nil {
			return err
		}
	}
	return nil
}

// unmapped returns an error that describes why the network runs on no design.
func (s *sweep) unmapped(pairs []pair) error {
	d := pairs[len(pairs)-1].designs[0]
	return fmt.Errorf("%w: the network maps to none of %d designs, e.g. <%d, %d, %d>: %w", ErrEmpty, s.res.Designs, d.TR, d.TP, d.TC, s.misfit(d))
}

// each calls f for the indices 0 to n-1 in several workers. It passes the number of the worker to f.
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

// prepare lowers the network for every design, counts the space, and computes a bound for every <T_P, T_C>.
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
		s.res.TooMany += jobs[i].p.tooMany
		s.res.Space += jobs[i].space
		if len(jobs[i].groups) > 0 {
			s.jobs = append(s.jobs, jobs[i])
		}
	}
	// jobs with the highest bounds first
	slices.SortStableFunc(s.jobs, func(a, b job) int { return compare(b.value, a.value) })
	if err := s.reached(solvers); err != nil {
		return err
	}
	for _, v := range solvers {
		s.res.Evaluated += v.asked
	}
	// pairs with a point on the front come first, because later pairs must beat their values
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

// misfit returns an error that describes which layer has no FBCB entry on the design d, and why.
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

// bound returns an upper bound of the results of design i of the job, if its cycles are at least c.
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

// judge evaluates one design. The design may be outside the grid.
func (s *sweep) judge(d configs.Design) (*Point, error) {
	// report all errors at once
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

// reached computes results that some designs certainly reach, without a simulation. So the search can skip more
// designs. It skips designs that cannot beat the points found before. It processes chunks, like the search.
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

// note records a point that some design is known to reach.
func (s *sweep) note(p Point) {
	if s.late(&p) || p.Fails || p.AtMost {
		return
	}
	s.front = append(s.front, p)
	if !s.o.Objective.Simulated() || p.Served != nil {
		s.top = max(s.top, p.Value)
	}
}

// hopeless reports whether all designs that are no better than bound can be skipped. Such a design cannot have the best
// value, cannot be on the front, and cannot rank before a reference.
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
		return true // these objectives have no front
	}
	for i := range s.front {
		if dominates(&s.front[i], bound) {
			return true
		}
	}
	return false
}

// dominates reports whether a is at least as good as b in GOP/s, latency and DSPs, and better in at least one.
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

// mapped returns the number of a job's designs that can run the network.
func (j *job) mapped() int {
	n := 0
	for _, gr := range j.groups {
		n += len(gr.designs)
	}
	return n
}

// best returns the index of the best point in s.found (byValue).
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

// byValue compares two points, the better first. The higher value is better. If the values are equal, fewer violations
// are better, then fewer DSPs, then less block RAM, then smaller T_P, T_C and T_R.
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

// Front returns the Pareto front in GOP/s, latency at B = 1 and DSPs, sorted by DSPs. Of equal points it keeps one.
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
		for i := range out { // all points in out have at least as many GOP/s as p
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

// Map chooses the entries of all layers for all batch sizes on a design. Their cycles must add up to the argument want.
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
