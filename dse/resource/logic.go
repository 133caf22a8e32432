package resource

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"

	"gonum.org/v1/gonum/mat"

	"github.com/sluice-npu/sluice/boards"
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
)

// Law is the fitted law of LUTs and registers of one family.
type Law struct {
	Family string
	Fitted int // runs that it was fitted on, of either family
	Held   int // runs of its family that it was not fitted on
	// Largest relative errors on those.
	LUTBand, FFBand float64

	coef [][2][]float64 // of parts, LUT and FF
}

// calc says what one feature of a design is of a family.
type calc func(family string, d configs.Design) float64

// part is what grows with sizes of its own: units of npu_core as the netlist's names tell them, and the
// features that their LUTs and registers are linear in.
type part struct {
	name  string
	alone string   // its module, where it is fitted on runs of that alone
	units []string // of whole runs; less what parts of their modules alone say
	lut   []calc
	ff    []calc
	regs  calc // registers that are counted off the RTL
}

func flag(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func one(string, configs.Design) float64 { return 1 }

// of makes a feature of a size that is the same for every family.
func of(f func(d configs.Design) int) calc {
	return func(_ string, d configs.Design) float64 { return float64(f(d)) }
}

// gear is a shifter of a gearbox: each bit that it holds has a multiplexer a bit of the count of words
// that come, or go, in a cycle.
func gear(held, words int) float64 { return float64(held) * math.Log2(float64(words)) }

// ringBits are those of an address in the weights ring.
func ringBits(d configs.Design) int { return log2(d.WRingBeats * d.AXIBytes / d.WideBytes()) }

// averaged are the words of the pool unit that are ever multiplied.
func averaged(d configs.Design) int { return min(d.Drain, d.PoolMuls()) }

// The words that gearboxes hold.
func residualWords(d configs.Design) int { return d.WideBytes() + d.Drain }
func feedWords(d configs.Design) int     { return d.WideBytes() + max(8, d.WLoad*d.TP) }
func outWords(d configs.Design) int      { return 2*max(d.Drain, d.WideBytes()/2) + d.WideBytes()/2 }

func ports(d configs.Design) int                 { return d.NAXI }
func portBytes(d configs.Design) int             { return d.NAXI * d.WideBytes() }
func striped(_ string, d configs.Design) float64 { return flag(d.NAXI > 1) }

// lanes are the bits of pe_array's inputs: each is delayed by a shift register, where it is that long, and
// chosen among what k and s can make of it.
func lanes(_ string, d configs.Design) float64 {
	first, second := d.TP/2, d.TP-d.TP/2
	n := d.TP - 2
	if d.Stack {
		n += d.TP + first + 2*second // windows of pairs; first and second halves of odd PEs, second of even ones
	}
	if d.Fluid {
		n += d.TP - 2
		if d.Stack {
			n += first // a seventh input
		} else {
			n += d.TP
		}
	}
	return float64(n * abi.DataBits)
}

// parts are units that are fitted on runs of their modules alone, then the others, fitted on the units of
// whole runs. Where two units meet, LUTs count with either: the drain's choice among accumulators is
// what the array alone does not explain, and so is the core's with the ports.
var parts = []part{
	{
		name: "array", alone: topArray,
		lut: []calc{
			one,
			of(func(d configs.Design) int { return d.TC }),
			func(_ string, d configs.Design) float64 { return float64(d.TC) * flag(d.Stack) },
			lanes,
		},
		ff: []calc{
			one,
			func(_ string, d configs.Design) float64 { return flag(d.Fluid) }, // lanes that are no shift register yet
			func(_ string, d configs.Design) float64 { return float64(d.TP) * (1 + flag(d.Stack)) },
			func(_ string, d configs.Design) float64 { return float64(log2(d.TR)) * flag(d.Stack) },
			// lanes that only some PEs take: series 7 has the others' last register in DSPs
			func(family string, d configs.Design) float64 {
				return float64(d.TP) * flag((d.Stack || d.Fluid) && family == boards.Series7)
			},
		},
		// the shadow weights; UltraScale+ has them in DSPs
		regs: func(family string, d configs.Design) float64 {
			return float64(d.MACs()*abi.DataBits) * flag(family == boards.Series7)
		},
	},
	{
		name: "read ports", alone: "read_ports",
		lut: []calc{one, striped, of(ports), of(portBytes)},
		ff:  []calc{one, striped, of(ports), of(func(d configs.Design) int { return d.NAXI * d.AXIBytes }), of(configs.Design.WideBytes)},
	},
	{
		name: "write ports", alone: "write_ports",
		lut: []calc{one, striped, of(ports), of(portBytes)},
		ff:  []calc{one, striped, of(ports), of(func(d configs.Design) int { return d.NAXI * d.AXIBytes })},
	},
	{
		name: "activation loader", alone: "act_loader",
		lut: []calc{one, of(elementBits), of(configs.Design.WideBytes)},
		ff:  []calc{one, of(elementBits), of(configs.Design.WideBytes)},
	},
	{
		name: "weight fetch", alone: "weight_fetch",
		lut: []calc{one, of(configs.Design.WideBytes), of(ringBits)},
		ff:  []calc{one, of(ringBits)},
	},
	{
		name: "control", units: []string{"regs", "fetch", "gemm", "pseq", "runs", "keep"},
		lut: []calc{one, of(elementBits), of(configs.Design.WideBytes)},
		ff:  []calc{one, of(elementBits), of(configs.Design.WideBytes), of(func(d configs.Design) int { return d.Drain })},
	},
	{
		// what is left of npu_core: its registers, and the choice among requests and writers
		name: "core", units: []string{"core", "read", "write", "act"},
		lut: []calc{one, of(func(d configs.Design) int { return max(d.Drain, d.WideBytes()/2) })},
		ff:  []calc{one},
	},
	{
		name: "residual", units: []string{"res"},
		lut: []calc{
			one,
			func(_ string, d configs.Design) float64 { return gear(residualWords(d)*16, d.WideBytes()/2) },
			func(_ string, d configs.Design) float64 { return gear(residualWords(d)*16, d.Drain) },
		},
		ff: []calc{one, of(residualWords)},
	},
	{
		name: "weights", units: []string{"wfeed"},
		lut: []calc{one, func(_ string, d configs.Design) float64 { return gear(feedWords(d)*16, feedWords(d)+1) }},
		ff:  []calc{one, of(feedWords)},
	},
	{
		name: "output", units: []string{"out"},
		lut: []calc{one, func(_ string, d configs.Design) float64 { return gear(outWords(d)*17, d.Drain) }},
		ff:  []calc{one, of(outWords)},
	},
	{
		name: "activations", units: []string{"abuf"},
		lut: []calc{
			of(func(d configs.Design) int { return d.NB() * log2(d.NB()) }),
			of(func(d configs.Design) int { return d.NB() * max(d.Drain, d.WideBytes()/2) }),
			func(_ string, d configs.Design) float64 { return float64(d.TP*log2(d.NB())) * flag(d.Fluid) },
		},
		ff: []calc{one, of(configs.Design.NB), func(_ string, d configs.Design) float64 { return float64(d.TP) * flag(d.Fluid) }},
	},
	{
		name: "pool", units: []string{"pool"},
		lut: []calc{of(configs.Design.NB), of(averaged), of(func(d configs.Design) int { return d.Drain - averaged(d) })},
		ff:  []calc{one},
		regs: func(family string, d configs.Design) float64 {
			const sum, kept, wide, product = 29, 37, 48, 43 // bits of the unit's words
			lanes := d.NB() * (sum + kept)
			words := d.Drain*(3*sum+abi.DataBits) + averaged(d)*(wide-sum)
			if family == boards.UltraScalePlus { // series 7 has products in DSPs
				words += d.PoolMuls() * product
			}
			return float64(lanes + words)
		},
	},
	{
		name: "drain", units: []string{"drain", "array"},
		lut: []calc{one, of(func(d configs.Design) int { return d.Drain }), of(func(d configs.Design) int { return d.TC })},
		ff:  []calc{one, of(func(d configs.Design) int { return d.Drain })},
	},
}

// elementBits are those of an address in a half of the activation buffer.
func elementBits(d configs.Design) int { return log2(d.NB()) + log2(d.ABufWords) }

// cells is what a group of memories takes of LUTs and registers beside blocks: LUTs that are memory, with
// the registers behind their read ports, which block RAM has inside, and multiplexers behind rows of blocks and
// behind the memories that a deep one is made of.
func (m Memory) cells(family string) (memory, mux, regs float64) {
	parts := m.parts(family)
	n := float64(m.Count)
	for _, p := range parts {
		b, rows := place(family, p.Words, p.Width)
		if b.LUTRAM > 0 && !m.Queue {
			regs += n * float64(p.Width)
		}
		memory, mux = memory+n*float64(b.LUTRAM), mux+n*muxLUTs(rows, p.Width)
	}
	return memory, mux + n*muxLUTs(len(parts), m.Width), regs
}

// muxLUTs is what the multiplexer behind rows of blocks takes, with the rows' write enables: yosys' count
// for banks of 3 to 15 rows, a bit.
func muxLUTs(rows, width int) float64 {
	bit := 0.4 * float64(rows)
	switch {
	case rows < 2:
		bit = 0
	case rows <= 4:
		bit = 1.1
	case rows <= 10:
		bit = 3.7
	case rows <= 16:
		bit = 6.2
	}
	return bit * float64(width)
}

// bound is what a law without runs is said to miss by.
const bound = 1

// Fit fits the law on those runs that are there for it and takes the bands of a family from the runs it
// is held to. All must be of one RTL and tool.
func Fit(family string, runs []Run, want Sources) (Law, error) {
	l := Law{Family: family}
	for i := range parts {
		x, err := fitPart(l, i, runs)
		if err != nil {
			return Law{Family: family, LUTBand: bound, FFBand: bound}, err
		}
		l.coef = append(l.coef, x)
	}
	for _, r := range runs {
		if r.Role == roleFit {
			l.Fitted++
		} else if r.Family == family {
			l.Held++
			lut, ff := l.logic(r.Family, r.Top, r.Design)
			l.LUTBand, l.FFBand = max(l.LUTBand, math.Abs(off(lut, r.Used.LUTs()))), max(l.FFBand, math.Abs(l.ffOff(r, ff)))
		}
	}
	err := Fresh(runs, want)
	if l.Held == 0 {
		err = errors.Join(err, fmt.Errorf("%w: none of %s that the law could be held to", ErrRuns, family))
	}
	if err != nil {
		l.LUTBand, l.FFBand = bound, bound
	}
	return l, err
}

// ffOff is the relative error of registers. An array of UltraScale+ has its own in DSPs but for a hundred or
// two, so there the error counts against the registers of the whole design, as the law has them.
func (l Law) ffOff(r Run, ff float64) float64 {
	if r.Family == boards.UltraScalePlus && r.Top == topArray {
		_, whole := l.logic(r.Family, topWhole, r.Design)
		return (ff - float64(r.Used.FF)) / whole
	}
	return off(ff, r.Used.FF)
}

// off is a relative error.
func off(estimate float64, counted int) float64 { return estimate/float64(counted) - 1 }

// fitPart fits a part on what its units have in each run, without what is known of them.
func fitPart(l Law, i int, runs []Run) (x [2][]float64, err error) {
	p := parts[i]
	var used []Run
	var luts, ffs []float64
	for _, r := range runs {
		if r.Role != roleFit || (p.alone != "" && r.Top != p.alone) || (p.alone == "" && slices.ContainsFunc(p.units, func(u string) bool { return r.Units[u] == Cells{} })) {
			continue
		}
		lut, ff := float64(r.Used.LUT+r.Used.SRL), float64(r.Used.FF)
		if p.alone == "" {
			lut, ff = 0, 0
			for _, u := range p.units {
				lut, ff = lut+float64(r.Units[u].LUT+r.Units[u].SRL), ff+float64(r.Units[u].FF)
				for j, q := range parts[:i] {
					if q.alone != "" && q.alone == modules[u] {
						a, b := dot(l.coef[j], q, r.Family, r.Design)
						lut, ff = lut-a, ff-b
					}
				}
			}
		}
		if p.regs != nil {
			ff -= p.regs(r.Family, r.Design)
		}
		for _, m := range Memories(r.Design) {
			if memoryOf(m.Name, p) {
				_, mux, regs := m.cells(r.Family)
				lut, ff = lut-mux, ff-regs
			}
		}
		used, luts, ffs = append(used, r), append(luts, lut), append(ffs, ff)
	}
	if x[0], err = leastSquares(p.lut, used, luts); err != nil {
		return x, fmt.Errorf("LUTs of %s: %w", p.name, err)
	}
	if x[1], err = leastSquares(p.ff, used, ffs); err != nil {
		return x, fmt.Errorf("registers of %s: %w", p.name, err)
	}
	return x, nil
}

// memoryOf says whether a memory's multiplexers and registers are among a part's cells.
func memoryOf(name string, p part) bool {
	switch name {
	case accumulators:
		return p.alone == topArray || slices.Contains(p.units, "array")
	case activations:
		return slices.Contains(p.units, "abuf")
	case weightsRing:
		return p.alone == "weight_fetch"
	case "biases":
		return slices.Contains(p.units, "drain")
	}
	return false
}

// dot is what the coefficients make of a design: LUTs and registers.
func dot(x [2][]float64, p part, family string, d configs.Design) (lut, ff float64) {
	for i, f := range p.lut {
		lut += x[0][i] * f(family, d)
	}
	for i, f := range p.ff {
		ff += x[1][i] * f(family, d)
	}
	if p.regs != nil {
		ff += p.regs(family, d)
	}
	return lut, ff
}

// logic is the law: of npu_top or of the array alone.
func (l Law) logic(family, top string, d configs.Design) (lut, ff float64) {
	for i, x := range l.coef {
		alone := parts[i].alone
		if (top != topWhole && alone != top) || (alone == topArray && d.Stub) {
			continue
		}
		a, b := dot(x, parts[i], family, d)
		lut, ff = lut+a, ff+b
	}
	for _, m := range Memories(d) {
		if top == topArray && m.Name != accumulators {
			continue
		}
		memory, mux, regs := m.cells(family)
		lut, ff = lut+memory+mux, ff+regs
	}
	return lut, ff
}

// leastSquares is that of relative errors, no feature costing less than nothing: the best of all sets of
// features whose solution has no negative.
func leastSquares(features []calc, runs []Run, y []float64) ([]float64, error) {
	var best []float64
	bestErr := math.Inf(1)
	for set := 1; set < 1<<len(features); set++ {
		var use []int
		for i := range features {
			if set&(1<<i) != 0 {
				use = append(use, i)
			}
		}
		if len(use) > len(runs) {
			continue
		}
		a, b := mat.NewDense(len(runs), len(use), nil), mat.NewVecDense(len(runs), nil)
		for i, r := range runs {
			if y[i] <= 0 {
				return nil, fmt.Errorf("%w: %s is smaller than its parts", ErrRuns, r.Config)
			}
			for k, j := range use {
				a.Set(i, k, features[j](r.Family, r.Design)/y[i])
			}
			b.SetVec(i, 1)
		}
		var x, rest mat.VecDense
		if err := x.SolveVec(a, b); err != nil {
			continue // these runs cannot tell these features apart
		}
		if mat.Min(&x) < 0 {
			continue
		}
		rest.MulVec(a, &x)
		rest.SubVec(&rest, b)
		if e := mat.Norm(&rest, 2); e < bestErr-1e-9 {
			bestErr = e
			best = make([]float64, len(features))
			for k, j := range use {
				best[j] = x.AtVec(k)
			}
		}
	}
	if best == nil {
		return nil, fmt.Errorf("%w: no feature explains them", ErrRuns)
	}
	return best, nil
}

// hardware is what of a design is in hardware: runs of the same are runs of this design.
func hardware(d configs.Design) configs.Design {
	d.Name, d.Reason, d.Board, d.ClockMHz, d.DRAM = "", "", "", 0, configs.DRAM{}
	return d
}

// lawOf is the law of a family that knows nothing of a design: its own runs, of the whole or of its array, are left
// out, so that neither its estimate is fitted on it nor the band beside it is its own error.
func lawOf(family string, d configs.Design) Law {
	known := without()
	if !known.runs[hardware(d)] {
		return calibrated(family)
	}
	known.mu.Lock()
	defer known.mu.Unlock()
	key := lawKey{family, hardware(d)}
	l, ok := known.laws[key]
	if !ok {
		l, _ = fitted(family, nil, d) // as for laws
		known.laws[key] = l
	}
	return l
}

type lawKey struct {
	family string
	design configs.Design
}

// leftOut are the designs that there are runs of, and the laws without those.
type leftOut struct {
	runs map[configs.Design]bool
	mu   sync.Mutex
	laws map[lawKey]Law
}

var without = sync.OnceValue(func() *leftOut {
	out := &leftOut{runs: map[configs.Design]bool{}, laws: map[lawKey]Law{}}
	runs, _ := Stored() // what is wrong with them, Calibration says
	for _, r := range runs {
		out.runs[hardware(r.Design)] = true
	}
	return out
})

// laws are fitted once, on the stored runs.
var laws = sync.OnceValue(func() map[string]Law {
	out := map[string]Law{}
	for _, family := range []string{boards.Series7, boards.UltraScalePlus} {
		out[family], _ = fitted(family, nil) // what is wrong with the runs, Calibration says to who asks
	}
	return out
})

// stale tells whether the stored runs are of other RTL than this program was built beside, or cannot be used: then
// nothing says how far the law is off.
var stale = sync.OnceValue(func() map[string]bool {
	out := map[string]bool{}
	for _, family := range []string{boards.Series7, boards.UltraScalePlus} {
		_, err := Calibration(family, "")
		out[family] = err != nil
	}
	return out
})

func calibrated(family string) Law { return laws()[family] }

// fitted is Fit on the stored runs but those of some designs.
func fitted(family string, want Sources, leave ...configs.Design) (Law, error) {
	runs, err := Stored()
	if err != nil {
		return Law{Family: family, LUTBand: bound, FFBand: bound}, err
	}
	return Fit(family, slices.DeleteFunc(runs, func(r Run) bool {
		return slices.ContainsFunc(leave, func(d configs.Design) bool { return hardware(d) == hardware(r.Design) })
	}), want)
}

// Calibration is the law of a family, and what is wrong with the runs it was fitted on: too few, or
// not of the RTL at root ("": the RTL that this program was built beside). Runs of the designs named are left out.
func Calibration(family, root string, leave ...configs.Design) (Law, error) {
	want, err := sourcesAt(root)
	if err != nil {
		return Law{Family: family, LUTBand: bound, FFBand: bound}, err
	}
	return fitted(family, want, leave...)
}

// sourcesAt is what runs must be of, by the RTL at root, or by that built in.
func sourcesAt(root string) (Sources, error) {
	want := Sources{}
	var errs []error
	know := func(module, hash string, err error) {
		want[module] = Source{Tool, hash}
		if err != nil {
			errs = append(errs, fmt.Errorf("%w: %w", ErrRuns, err))
		}
	}
	hash, err := sourcesOf(root, topWhole)
	know(topWhole, hash, err)
	for unit, module := range modules {
		hash, err := UnitSources(root, unit)
		know(module, hash, err)
	}
	return want, errors.Join(errs...)
}

// Stale names the stored runs that are of other RTL than that at root, or of another tool.
func Stale(root string) ([]string, error) {
	runs, err := Stored()
	if err != nil {
		return nil, err
	}
	want, err := sourcesAt(root)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, r := range runs {
		if Fresh([]Run{r}, want) != nil {
			names = append(names, r.Role+"/"+r.name)
		}
	}
	return names, nil
}

// Tool is the yosys that the flow is written for.
const Tool = "Yosys 0.23 (git sha1 7ce5011c24b)"
