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
	"github.com/sluice-npu/sluice/hw/syn"
)

// Law is the fitted law of LUTs and registers of one family.
type Law struct {
	Family string
	Fitted int // number of runs that the law was fitted on, of both families
	Held   int // number of runs of this family that the law was not fitted on
	Whole  int // number of these held runs that are of a whole NPU
	// Largest relative errors on the held runs.
	LUTBand, FFBand float64

	coef [][2][]float64 // by part: coefficients of LUT and FF
}

// calc computes one feature of a design for a family.
type calc func(family string, d configs.Design) float64

// part is a group of units of npu_core, by their names in the netlist. Their LUTs and registers are linear functions of
// the same features.
type part struct {
	name  string
	alone string   // name of the module, if the part is fitted on runs of a module alone
	units []string // units in whole runs, without parts that are fitted alone
	lut   []calc
	ff    []calc
	regs  calc    // registers that are counted from the RTL
	less  float64 // share that int8 does not need: 0.5 for the width of an element, 1 if replaced by eight() or ends()
}

func flag(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func one(string, configs.Design) float64 { return 1 }

// of returns a feature that is the same for every family.
func of(f func(d configs.Design) int) calc {
	return func(_ string, d configs.Design) float64 { return float64(f(d)) }
}

// gear is the size of the shifter in a gearbox that holds `held` bits. Each of them has log2(words) multiplexer inputs;
// words is the number of words per cycle.
func gear(held, words int) float64 { return float64(held) * math.Log2(float64(words)) }

// ringBits is the width of an address in the weights ring.
func ringBits(d configs.Design) int { return log2(d.WRingBeats * d.AXIBytes / d.WideBytes()) }

// averaged is the number of words of the pool unit that have multipliers.
func averaged(d configs.Design) int { return min(d.Drain, d.PoolMuls()) }

// Capacities of the gearboxes in words.
func residualWords(d configs.Design) int { return d.WideBytes() + d.Drain }
func feedWords(d configs.Design) int     { return d.WideBytes() + max(8, d.WLoad*d.TP) }
func outWords(d configs.Design) int      { return 2*max(d.Drain, d.WideBytes()/2) + d.WideBytes()/2 }

// ringRegs is the number of registers in the ring of a gearbox. Its number of words is the next power of two.
func ringRegs(words, bits int) float64 { return float64(bits << log2(words)) }

// elements is the number of elements that all ports transfer in a cycle.
func elements(d configs.Design) int { return d.WideBytes() / d.ElemBytes() }

func ports(d configs.Design) int                 { return d.NAXI }
func portBytes(d configs.Design) int             { return d.NAXI * d.WideBytes() }
func striped(_ string, d configs.Design) float64 { return flag(d.NAXI > 1) }

// lanes is the width of the inputs of pe_array. k and s select each bit. Shift registers delay most bits.
func lanes(_ string, d configs.Design) float64 {
	first, second := d.TP/2, d.TP-d.TP/2
	n := d.TP - 2
	if d.Stack {
		n += d.TP + first + 2*second // pairs of windows: both halves of odd PEs, second halves of even PEs
	}
	if d.Fluid {
		n += d.TP - 2
		if d.Stack {
			n += first // a seventh input
		} else {
			n += d.TP
		}
	}
	return float64(n * 8 * d.ElemBytes())
}

// arrayRegs is the number of the array's registers before the chains: the levels, the tokens that a reset clears, and
// lanes with delays too short for a shift register.
func arrayRegs(family string, d configs.Design) float64 {
	inputs, sets := d.TP, 1 // numbers of lanes and of sets of lanes
	if d.Stack {
		inputs *= 2
	}
	if d.Fluid {
		sets++
	}
	short := min(d.TP, 3) * (min(d.TP, 3) - 1) / 2 // sum of the delays of all short lanes, in cycles
	return float64(syn.LevelBits(d, family, topArray) + 2*(inputs+2) + inputs - 1 + sets*short*8*d.ElemBytes())
}

// chains is the number of chains of the array. In int8 two channels share one chain.
func chains(d configs.Design) int { return d.TC / d.PerDSP() }

// parts lists first the units that are fitted on runs of their module alone, then those fitted on runs of the whole
// NPU. A LUT between two units may be assigned to either unit. Therefore, the part that selects accumulators for the
// drain contains the LUTs that the runs of the array alone do not explain, and the core contains LUTs of the ports.
var parts = []part{
	{
		name: "array", alone: topArray,
		lut: []calc{
			one,
			of(chains),
			func(_ string, d configs.Design) float64 { return float64(chains(d)) * flag(d.Stack) },
			lanes,
		},
		ff:   []calc{one, func(_ string, d configs.Design) float64 { return float64(log2(d.TR)) * flag(d.Stack) }},
		regs: arrayRegs,
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
		// everything else in npu_core: its registers, and the arbitration of requests and writers
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
		ff: []calc{one},
		regs: func(_ string, d configs.Design) float64 {
			return ringRegs(2*elements(d)+d.Drain, 8*d.ElemBytes())
		},
	},
	{
		name: "weights", units: []string{"wfeed"},
		lut:  []calc{one, func(_ string, d configs.Design) float64 { return gear(feedWords(d)*16, feedWords(d)+1) }},
		ff:   []calc{one},
		regs: func(_ string, d configs.Design) float64 { return ringRegs(feedWords(d), 16) },
	},
	{
		name: "output", units: []string{"out"},
		lut: []calc{one, func(_ string, d configs.Design) float64 { return gear(outWords(d)*17, d.Drain) }},
		ff:  []calc{one, of(func(d configs.Design) int { return d.Drain })},
		regs: func(_ string, d configs.Design) float64 { // words with a flag
			return ringRegs(2*max(d.Drain, elements(d))+elements(d), 8*d.ElemBytes()+1)
		},
	},
	{
		name: "activations", units: []string{"abuf"}, less: 0.5,
		lut: []calc{
			of(func(d configs.Design) int { return d.NB() * log2(d.NB()) }),
			of(func(d configs.Design) int { return d.NB() * max(d.Drain, d.WideBytes()/2) }),
			func(_ string, d configs.Design) float64 { return float64(d.TP*log2(d.NB())) * flag(d.Fluid) },
		},
		ff: []calc{one},
		// by bank: word, addresses, enables, index of the memory part that was read; and the windows of both groups
		regs: func(family string, d configs.Design) float64 {
			parts := len(Memory{Name: activations, Words: d.ABufWords, Width: bankBits}.parts(family))
			if Folds(family, d) {
				parts = 4
			}
			window := 16 * (d.NB() + int(flag(d.Fluid))*d.TP)
			return float64(d.NB()*(16+2*log2(d.ABufWords)+2+4*log2(parts)) + window)
		},
	},
	{
		name: "pool", units: []string{"pool"}, less: 1,
		lut: []calc{of(configs.Design.NB), of(averaged), of(func(d configs.Design) int { return d.Drain - averaged(d) })},
		ff:  []calc{one},
		regs: func(family string, d configs.Design) float64 {
			const sum, kept, column, wide, operand, product = 27, 37, 18, 48, 23, 43 // widths of words in the unit, in bits
			lanes := d.NB() * (kept + column)
			words := averaged(d)*(sum+wide+abi.DataBits) + (d.Drain-averaged(d))*2*abi.DataBits + d.Drain*abi.DataBits
			if family == boards.UltraScalePlus { // on series 7 these registers are in DSPs
				words += d.PoolMuls() * (operand + 2*product)
			}
			return float64(lanes + words)
		},
	},
	{
		name: "drain", units: []string{"drain", "array"}, less: 1,
		lut: []calc{one, of(func(d configs.Design) int { return d.Drain }), of(func(d configs.Design) int { return d.TC })},
		ff:  []calc{one, of(func(d configs.Design) int { return d.Drain })},
	},
}

// options returns the LUTs and registers of optional units, without memories. These numbers are not fitted. Each number
// is from one or two runs of the unit alone with yosys 0.23, and is multiplied by the number of lanes. Depthwise: zc706
// with 16 lanes on series 7 (sums in DSPs), and tiny with 8 lanes on UltraScale+. Post: the increase with POST, for one
// and two lanes on series 7.
func options(family string, d configs.Design) (lut, ff float64) {
	if d.Depthwise {
		lanes := float64(d.NB())
		switch {
		case family == boards.UltraScalePlus:
			lut, ff = 2877./8*lanes, 2315./8*lanes
		case d.Int8():
			lut, ff = 1749./16*lanes, 40
		default:
			lut, ff = 2060./16*lanes, 40
		}
	}
	if d.Post {
		lut, ff = lut+147+538*float64(d.Drain), ff+100+114*float64(d.Drain)
	}
	if d.Int8() {
		arrayLUT, arrayFF := eight(family, d)
		endLUT, endFF := ends(d)
		lut, ff = lut+arrayLUT+endLUT, ff+arrayFF+endFF
	}
	return lut, ff
}

// eight returns the additional LUTs and registers of an int8 array, compared with an int16 array with the same chains.
// They are for mac_packed (adders and two accumulators per segment, in both halves of each chain) and weight_pack
// (packed sums of weights). The numbers are from runs of these units alone with yosys 0.23 (hw/INT8.md). The error for
// mac_packed is at most 1 %, for lengths 4, 7, 8 and 16 on series 7, and 8, 13 and 16 on UltraScale+.
func eight(family string, d configs.Design) (lut, ff float64) {
	cells, shadow := 4, 25.
	if family == boards.UltraScalePlus {
		cells, shadow = 8, 0 // the shadow weights are in DSPs
	}
	for _, length := range []int{d.TP / 2, d.TP - d.TP/2} {
		more := float64(ceil(length, cells) - 1) // number of segments after the first
		lut += float64(chains(d)) * (65 + 35*more)
		ff += float64(chains(d)) * (128 + 37*more + shadow*float64(length))
	}
	return lut + 8*float64(max(8, d.WLoad*d.TP)), ff
}

// ends returns the LUTs and registers of the drain and the pool of int8. All their words pass multipliers that consist
// of LUTs (requant). Most factors in the pool are constant. The numbers are from runs of the units alone. LUTs of the
// drain were counted for T_C = 8 and 16 with 4 and 8 lanes; the error for T_C = 64 and 128 with 8 and 16 lanes is at
// most 1.4 %. Its registers were counted for T_C = 64 and 128, and the pool for NB = 8, 16 and 64 with 4 and 8 words.
// On UltraScale+ a drain had 2.7 % more LUTs and the same number of registers.
func ends(d configs.Design) (lut, ff float64) {
	drain, pool, nb := float64(d.Drain), float64(averaged(d)), float64(d.NB())
	lut = 888 + 1962*drain + 56*float64(d.TC)
	ff = 604 + 1422*drain
	return lut + 128*nb + 577*pool + 17.4*nb*pool, ff + 43*nb + 475*pool
}

// depthwiseSlots is the number of queues for depthwise sums: two if DRAIN words can belong to two groups.
func depthwiseSlots(d configs.Design) int {
	if d.Drain > 0 && d.NB()%d.Drain != 0 {
		return 2
	}
	return 1
}

// elementBits is the width of an address in one half of the activation buffer.
func elementBits(d configs.Design) int { return log2(d.NB()) + log2(d.ABufWords) }

// cells returns the LUTs and registers of a group of memories without blocks: LUT RAM, registers at the read ports of
// LUT RAM, and multiplexers for rows of blocks and for the parts of a deep memory.
func (m Memory) cells(family string) (memory, mux, regs float64) {
	parts := m.parts(family)
	n := float64(m.Count)
	for _, p := range parts {
		b, rows := place(family, p.Words, p.Width)
		if b.LUTRAM > 0 && !m.Queue {
			regs += n * float64(p.Width)
			if m.Name == accumulators || m.Name == activations || m.Name == weightsRing { // these memories have an output register
				regs += n * float64(p.Width)
			}
		}
		memory, mux = memory+n*float64(b.LUTRAM), mux+n*muxLUTs(rows, p.Width)
	}
	return memory, mux + n*muxLUTs(len(parts), m.Width), regs
}

// muxLUTs is the number of LUTs for the multiplexer and write enables of 3 to 15 rows of blocks. It is fitted to counts
// of yosys for one bit.
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

// bound is the error band of a law without valid runs.
const bound = 1

// Fit fits the law on the runs with role fit. The bands are the largest errors on the held runs of the family. All runs
// must be of the same RTL and the same tool.
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
			if l.Held++; r.Top == topWhole {
				l.Whole++
			}
			lut, ff := l.logic(r.Family, r.Top, r.Design)
			l.LUTBand, l.FFBand = max(l.LUTBand, math.Abs(off(lut, r.Used.LUTs()))), max(l.FFBand, math.Abs(off(ff, r.Used.FF)))
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

// off is the relative error of an estimate.
func off(estimate float64, counted int) float64 { return estimate/float64(counted) - 1 }

// fitPart fits a part to its units in each run, without the cells that other terms of the law include.
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

// memoryOf reports whether the multiplexers and registers of a memory are among the cells of a part.
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

// dot returns the LUTs and registers of a part with the coefficients x.
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

// logic evaluates the law for npu_top or for the array alone.
func (l Law) logic(family, top string, d configs.Design) (lut, ff float64) {
	for i, x := range l.coef {
		alone := parts[i].alone
		if (top != topWhole && alone != top) || (alone == topArray && d.Stub) {
			continue
		}
		a, b := dot(x, parts[i], family, d)
		if d.Int8() {
			a, b = a*(1-parts[i].less), b*(1-parts[i].less)
		}
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

// leastSquares minimises relative errors with non-negative coefficients. It tries every set of features, and returns
// the best solution without a negative coefficient.
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
			continue // these runs cannot distinguish these features
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

// hardware removes fields that do not change the hardware, so that runs of the same hardware have equal designs.
func hardware(d configs.Design) configs.Design {
	d.Name, d.Reason, d.Board, d.ClockMHz, d.DRAM = "", "", "", 0, configs.DRAM{}
	return d
}

// lawOf returns the family's law, fitted without runs of d and of d's array, so that the estimate and its band do not
// depend on the synthesis of d.
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
		l, _ = fitted(family, nil, d) // errors: see laws
		known.laws[key] = l
	}
	return l
}

type lawKey struct {
	family string
	design configs.Design
}

// leftOut contains the designs that have runs, and the laws that were fitted without them.
type leftOut struct {
	runs map[configs.Design]bool
	mu   sync.Mutex
	laws map[lawKey]Law
}

var without = sync.OnceValue(func() *leftOut {
	out := &leftOut{runs: map[configs.Design]bool{}, laws: map[lawKey]Law{}}
	runs, _ := Stored() // Calibration reports errors
	for _, r := range runs {
		out.runs[hardware(r.Design)] = true
	}
	return out
})

// laws returns the laws that are fitted on all stored runs. They are computed once.
var laws = sync.OnceValue(func() map[string]Law {
	out := map[string]Law{}
	for _, family := range []string{boards.Series7, boards.UltraScalePlus} {
		out[family], _ = fitted(family, nil) // Calibration reports errors to its caller
	}
	return out
})

// stale reports, for each family, whether the law's error is unknown: the runs are unusable, or their RTL differs.
var stale = sync.OnceValue(func() map[string]bool {
	out := map[string]bool{}
	for _, family := range []string{boards.Series7, boards.UltraScalePlus} {
		_, err := Calibration(family, "")
		out[family] = err != nil
	}
	return out
})

func calibrated(family string) Law { return laws()[family] }

// fitted fits the law on the stored runs, without the runs of the designs in leave.
func fitted(family string, want Sources, leave ...configs.Design) (Law, error) {
	runs, err := Stored()
	if err != nil {
		return Law{Family: family, LUTBand: bound, FFBand: bound}, err
	}
	return Fit(family, slices.DeleteFunc(runs, func(r Run) bool {
		return slices.ContainsFunc(leave, func(d configs.Design) bool { return hardware(d) == hardware(r.Design) })
	}), want)
}

// Calibration returns the law of a family, fitted without runs of the designs in leave. It returns an error if there
// are too few runs, or if their RTL differs from the RTL at root ("": the RTL embedded in this program).
func Calibration(family, root string, leave ...configs.Design) (Law, error) {
	want, err := sourcesAt(root)
	if err != nil {
		return Law{Family: family, LUTBand: bound, FFBand: bound}, err
	}
	return fitted(family, want, leave...)
}

// sourcesAt returns the sources that runs must have: those of the RTL at root, or of the embedded RTL if root is "".
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

// Stale returns the names of stored runs that used another tool, or other RTL than the RTL at root.
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

// Tool is the version of yosys that the flow supports.
const Tool = "Yosys 0.23 (git sha1 7ce5011c24b)"
