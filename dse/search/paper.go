package search

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/sluice-npu/sluice/boards"
	"github.com/sluice-npu/sluice/dse/cost"
	"github.com/sluice-npu/sluice/dse/lower"
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
)

// PaperOptions are the options of a sweep by the paper's law.
type PaperOptions struct {
	Weights       Weights
	BytesPerCycle float64
	Formed        bool // hardware between DRAM and array forms the windows, so they are not read from DRAM
}

// PaperResult is the result of a design under the paper's law.
type PaperResult struct {
	cost.PaperPoint
	Value       float64             `json:"value"` // mean GOP/s, weighted over batch sizes
	ByB         [abi.BMax]float64   `json:"gops_by_batch"`
	Cycles      Cycles              `json:"cycles"`
	DSPPercent  float64             `json:"dsp_percent"`
	BRAMPercent float64             `json:"bram_percent"`
	Mapping     []PaperLayerMapping `json:"mapping,omitempty"`
}

// PaperLayerMapping is the mapping that the paper's law chose for a layer and batch size.
type PaperLayerMapping struct {
	Layer  string `json:"layer"`
	Batch  int    `json:"batch"`
	K      string `json:"k"`
	BR     int    `json:"B_R"`
	Cycles int64  `json:"cycles"`
}

// PaperRank contains the rank of a published point, and whether the law reproduces the point.
type PaperRank struct {
	Published   boards.Published `json:"published"`
	Rank        int              `json:"rank"` // 1 if no design of the space is better
	Of          int              `json:"of"`
	Value       float64          `json:"value"`
	TR          int              `json:"TR"` // T_R by the paper's rules for the published T_P
	DSPPercent  float64          `json:"dsp_percent"`
	BRAMPercent float64          `json:"bram_percent"`
	Reproduced  bool             `json:"reproduced"`
	Why         string           `json:"why,omitempty"` // reason why the point is not reproduced
}

// PaperSweepResult is the result of a whole sweep by the paper's law.
type PaperSweepResult struct {
	Grid      string        `json:"grid"`
	Designs   int           `json:"designs"`
	Space     int64         `json:"space"`
	Evaluated int64         `json:"evaluated"`
	Best      PaperResult   `json:"best"`
	Front     []PaperResult `json:"front"` // the ten best designs
	Ranks     []PaperRank   `json:"ranks"`
}

// PaperSpace evaluates designs under the paper's law.
type PaperSpace struct {
	w       *Workload
	b       boards.Board
	o       PaperOptions
	classes []Class
	layers  []lower.Layer
}

// NewPaperSpace prepares a network for a board. It maps the network's original layers, not the lowered layers, as the
// paper does. Grouped convolutions are computed as dense convolutions in windows of the template's T_C.
func NewPaperSpace(w *Workload, b boards.Board, template configs.Design, o PaperOptions) (*PaperSpace, error) {
	if o.Weights == (Weights{}) {
		o.Weights = Uniform()
	}
	if err := o.Weights.Check(); err != nil {
		return nil, err
	}
	if o.BytesPerCycle <= 0 || math.IsNaN(o.BytesPerCycle) || math.IsInf(o.BytesPerCycle, 0) {
		return nil, fmt.Errorf("%w: %v bytes/cycle", ErrGrid, o.BytesPerCycle)
	}
	if w.mix != nil {
		return nil, fmt.Errorf("%w: the paper's law knows one network at a time", ErrGrid)
	}
	if b.PaperMibit == 0 {
		return nil, fmt.Errorf("%w: the paper's law needs paper_mibit, the memory that its T_R fill: the board %s has none", ErrGrid, b.Name)
	}
	template.CMax = 1<<16 - 1
	layers, err := w.lower(template, lower.Options{Apart: true})
	if err != nil {
		return nil, err
	}
	all, _ := classes(template, layers, w.Segments)
	return &PaperSpace{w: w, b: b, o: o, layers: layers, classes: all}, nil
}

// scheme reports whether a mapping of the paper is allowed. A nil scheme allows all mappings.
type scheme func(m cost.PaperMapping, batch int, g cost.Geom) bool

// layer returns the best mapping of a layer at a batch size.
func (p *PaperSpace) layer(x cost.PaperPoint, g cost.Geom, batch int, allow scheme) (best cost.PaperMapping, t cost.PaperTime, asked int64, err error) {
	found := false
	for _, m := range cost.PaperMappings(batch) {
		if allow != nil && !allow(m, batch, g) {
			continue
		}
		m.Formed = p.o.Formed
		c, err := cost.PaperLayer(x, g, batch, m, p.o.BytesPerCycle)
		if errors.Is(err, cost.ErrPaper) {
			continue
		}
		if err != nil {
			return best, t, asked, err
		}
		asked++
		if !found || c.Total < t.Total {
			best, t, found = m, c, true
		}
	}
	if !found {
		return best, t, asked, fmt.Errorf("%w: <%d, %d, %d> maps no layer at batch %d", cost.ErrPaper, x.TR, x.TP, x.TC, batch)
	}
	return best, t, asked, nil
}

// Evaluate applies the paper's law to one design.
func (p *PaperSpace) Evaluate(x cost.PaperPoint) (PaperResult, int64, error) {
	r := PaperResult{
		PaperPoint: x, DSPPercent: 100 * float64(x.DSPs()) / float64(p.b.DSP),
		BRAMPercent: 100 * float64(x.Bits()) / (p.b.PaperMibit * (1 << 20)),
	}
	var asked int64
	sum := 0.0
	for b := 1; b <= abi.BMax; b++ {
		seg := make([]int64, p.w.Segments)
		for _, c := range p.classes {
			_, t, n, err := p.layer(x, c.Geom, b, nil)
			if err != nil {
				return r, asked, err
			}
			asked += n
			for i, k := range c.Count {
				seg[i] += int64(k) * t.Total
			}
		}
		r.Cycles[b-1] = seg
		r.ByB[b-1] = GOPSOf(configs.Design{ClockMHz: p.b.ClockMHz}, p.w.MACs, b, r.Cycles.Sum(b))
		r.Value += p.o.Weights[b-1] * r.ByB[b-1]
		sum += p.o.Weights[b-1]
	}
	r.Value /= sum
	return r, asked, nil
}

// Sweep evaluates every T_P from 1 to the number of DSPs. The paper's rules determine T_C and T_R for each T_P.
func (p *PaperSpace) Sweep(ctx context.Context) (*PaperSweepResult, error) {
	res := &PaperSweepResult{Grid: fmt.Sprintf(
		"every T_P from 1 to %d, T_C = floor(%d / T_P), T_R the largest even value with 32 (T_R T_P + T_P T_C + T_R T_C) <= %g Mibit; "+
			"a layer and batch: k in {1/2, 1, 2}, every number of sample groups ceil(B / B_R); inputs %s; %g MHz, DRAM %g bytes/cycle",
		p.b.DSP, p.b.DSP, p.b.PaperMibit, map[bool]string{true: "formed on the way", false: "read as Toeplitz matrices"}[p.o.Formed],
		p.b.ClockMHz, p.o.BytesPerCycle)}
	var all []PaperResult
	for tp := 1; tp <= p.b.DSP; tp++ {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("%w: %w", ErrInterrupted, ctx.Err())
		}
		x, err := cost.PaperAt(tp, p.b.DSP, p.b.PaperMibit)
		if err != nil {
			continue // no memory is left for a row
		}
		r, n, err := p.Evaluate(x)
		res.Evaluated += n
		if errors.Is(err, cost.ErrPaper) {
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%w: the paper's law has no design for %d DSPs and %g Mibit", ErrEmpty, p.b.DSP, p.b.PaperMibit)
	}
	slices.SortStableFunc(all, func(a, b PaperResult) int { return compare(b.Value, a.Value) })
	res.Designs, res.Space = len(all), res.Evaluated
	res.Best, res.Front = all[0], all[:min(10, len(all))]
	for b := 1; b <= abi.BMax; b++ {
		for _, l := range p.layers {
			m, t, _, err := p.layer(res.Best.PaperPoint, l.Geom, b, nil)
			if err != nil {
				return nil, err
			}
			res.Best.Mapping = append(res.Best.Mapping, PaperLayerMapping{l.Name, b, m.K.String(), m.BR, t.Total})
		}
	}
	for _, pub := range p.b.Published {
		rank, err := p.rank(pub, all)
		if err != nil {
			return nil, err
		}
		res.Ranks = append(res.Ranks, rank)
	}
	return res, nil
}

// printed is the allowed difference between a computed percentage and the paper's percentage.
const printed = 0.01

// rank compares a published row with the law. All rows are ranked on the network of p, even if they were published for
// another network.
func (p *PaperSpace) rank(pub boards.Published, all []PaperResult) (PaperRank, error) {
	r := PaperRank{Published: pub, Of: len(all), Rank: 1}
	x, err := cost.PaperAt(pub.TP, p.b.DSP, p.b.PaperMibit)
	if err != nil {
		return r, err
	}
	r.TR = x.TR
	at := cost.PaperPoint{TR: pub.TR, TP: pub.TP, TC: pub.TC}
	e, _, err := p.Evaluate(at)
	if err != nil {
		return r, err
	}
	r.Value, r.DSPPercent, r.BRAMPercent = e.Value, e.DSPPercent, e.BRAMPercent
	for _, a := range all {
		if a.Value > e.Value {
			r.Rank++
		}
	}
	switch {
	case x != at:
		r.Why = fmt.Sprintf("the rules give <%d, %d, %d>", x.TR, x.TP, x.TC)
	case math.Abs(r.DSPPercent-pub.DSPPercent) > printed:
		r.Why = fmt.Sprintf("<T_P, T_C> = <%d, %d> uses %d of %d DSPs, %.2f %%, not the printed %.2f %%: the row contradicts its own design point",
			pub.TP, pub.TC, at.DSPs(), p.b.DSP, r.DSPPercent, pub.DSPPercent)
	case math.Abs(r.BRAMPercent-pub.BRAMPercent) > printed:
		r.Why = fmt.Sprintf("the buffers fill %.2f %% of the memory, not the printed %.2f %%", r.BRAMPercent, pub.BRAMPercent)
	default:
		r.Reproduced = true
	}
	return r, nil
}
