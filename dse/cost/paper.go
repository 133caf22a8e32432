package cost

import (
	"errors"
	"fmt"
	"math"

	"github.com/sluice-npu/sluice/dse/rtl"
	"github.com/sluice-npu/sluice/hw/abi"
)

// This file implements the law "paper": the analytical model behind the published design points (Fluid Batching,
// sections II-C and III-A, table I). Only the published tables use this law. The law of the hardware is Layer.
//
//   - Memory: three tile buffers T_R x T_P, T_P x T_C and T_R x T_C of 16 bit, each doubled:
//     32 (T_R T_P + T_P T_C + T_R T_C) bits. T_R is the largest even value that fits.
//   - DSPs: T_P T_C, one per MAC.
//   - A layer is the product of a matrix R x P and a matrix P x C (section II-C). P = K_H K_W C_in is
//     not split. An output tile of T_R x T_C needs ceil(P / T_P) steps. A step needs one cycle per row
//     that exists in the layer.
//   - Fluid Batching (equation 1): B_R samples are placed along R. Equation 1 as it is written places the
//     other samples one after another along P with guards between them, P^ = (B - B_R + 1)(P + guard).
//     The printed guard, P mod T_P, does not end at a step, so one step would add up two samples. Correct
//     guards never save time (TestPaperLiteralGainsNothing). The published shapes require another
//     interpretation: the s = ceil(B / B_R) groups work in parallel, on T_C / s PEs each, with the same
//     weights.
//   - Stackable PEs: <floor(T_R/2), floor(k T_P), floor(T_C/k)>, k in {1/2, 2}.
//   - DRAM (roofline): the Toeplitz matrix is off chip (section II-C), so each C tile reads R x P
//     inputs. Weights are read once per row tile. Results are written once. With Formed, hardware between
//     DRAM and array forms the windows, so each C tile reads every input once.
//   - Pools, fills and drains need no time.

// PaperPoint is a design point <T_R, T_P, T_C>.
type PaperPoint struct {
	TR int `json:"TR"`
	TP int `json:"TP"`
	TC int `json:"TC"`
}

// ErrPaper is wrapped by errors about designs and mappings that the paper's law excludes.
var ErrPaper = errors.New("the paper's law has no such design")

// mibit is 2^20 bits.
const mibit = 1 << 20

// Bits is the number of bits of on-chip memory of a point.
func (p PaperPoint) Bits() int64 {
	tr, tp, tc := int64(p.TR), int64(p.TP), int64(p.TC)
	return 32 * (tr*tp + tp*tc + tr*tc)
}

// DSPs is the number of DSPs of a point: one DSP per MAC.
func (p PaperPoint) DSPs() int { return p.TP * p.TC }

// PaperAt returns the paper's design with T_P = tp on a device with `dsp` DSPs and `memory` Mibit. The design has T_C =
// floor(DSP / T_P) and the largest even T_R that fits.
func PaperAt(tp, dsp int, memory float64) (PaperPoint, error) {
	p := PaperPoint{TP: tp}
	if tp < 1 || dsp < tp || math.IsNaN(memory) || memory <= 0 || memory > 1<<20 {
		return p, fmt.Errorf("%w: T_P = %d with %d DSPs and %v Mibit", ErrPaper, tp, dsp, memory)
	}
	p.TC = dsp / tp
	words := memory * mibit / 32
	p.TR = int((words-float64(p.TP*p.TC))/float64(p.TP+p.TC)) &^ 1
	if p.TR < 2 {
		return p, fmt.Errorf("%w: <T_R, %d, %d> leaves no rows in %v Mibit", ErrPaper, p.TP, p.TC, memory)
	}
	return p, nil
}

// PaperMapping is a mapping of a layer under the paper's law.
type PaperMapping struct {
	K       K
	BR      int  // number of samples along R
	Literal bool // the other samples are placed along P, as equation 1 is written
	Formed  bool // windows are formed between DRAM and array
}

// PaperTime is the time of a layer under the paper's law, in cycles.
type PaperTime struct {
	Compute int64 `json:"compute"`
	DRAM    int64 `json:"dram"`
	Total   int64 `json:"cycles"`
}

// PaperTree returns the shape of the stacked design: p for k = 1, otherwise <floor(T_R/2), floor(k T_P), floor(T_C/k)>.
func PaperTree(p PaperPoint, k K) PaperPoint {
	switch k {
	case KHalf:
		return PaperPoint{p.TR / 2, p.TP / 2, 2 * p.TC}
	case K2:
		return PaperPoint{p.TR / 2, 2 * p.TP, p.TC / 2}
	}
	return p
}

// PaperLayer is the paper's law for a layer at batch size bact, on a DRAM with bytesPerCycle.
func PaperLayer(p PaperPoint, g Geom, bact int, m PaperMapping, bytesPerCycle float64) (PaperTime, error) {
	var t PaperTime
	if bact < 1 || bact > abi.BMax || m.BR < 1 || m.BR > bact || bytesPerCycle <= 0 || math.IsNaN(bytesPerCycle) {
		return t, fmt.Errorf("%w: B = %d, B_R = %d, %v bytes/cycle", ErrPaper, bact, m.BR, bytesPerCycle)
	}
	if !g.GEMM() {
		return t, nil
	}
	x := PaperTree(p, m.K)
	groups := ceil(bact, m.BR)
	if !m.Literal {
		x.TC /= groups
	}
	if x.TR < 1 || x.TP < 1 || x.TC < 1 {
		return t, fmt.Errorf("%w: <%d, %d, %d> with k = %v and %d groups has no PE", ErrPaper, p.TR, p.TP, p.TC, m.K, groups)
	}
	r, pp := int64(m.BR)*int64(g.OutH)*int64(g.OutW), int64(g.KH)*int64(g.KWC())
	if m.Literal {
		pp = int64(bact-m.BR+1) * round(pp, int64(x.TP))
	}
	cTiles := int64(ceil(g.OutC, x.TC))
	rTiles := (r + int64(x.TR) - 1) / int64(x.TR)
	steps := (pp + int64(x.TP) - 1) / int64(x.TP)
	t.Compute = r * steps * cTiles

	samples := int64(bact)
	in := samples * int64(g.OutH) * int64(g.OutW) * int64(g.KH) * int64(g.KWC())
	if m.Formed {
		in = samples * int64(g.InH) * int64(g.InW) * int64(g.InC)
	}
	weights := int64(g.KH) * int64(g.KWC()) * int64(g.OutC) * rTiles
	out := samples * int64(g.OutH) * int64(g.OutW) * int64(g.OutC)
	t.DRAM = cycles(rtl.WordBytes*(in*cTiles+weights+out), bytesPerCycle)
	t.Total = max(t.Compute, t.DRAM)
	return t, nil
}

// PaperMappings returns the mappings of the paper's space for a batch size: every k with every possible number of
// groups. The first mapping has k = 1 and one group.
func PaperMappings(bact int) []PaperMapping {
	var out []PaperMapping
	for _, k := range []K{K1, KHalf, K2} {
		last := 0
		for br := bact; br >= 1; br-- {
			if s := ceil(bact, br); s != last {
				last = s
				// the smallest B_R with this number of groups has the fewest rows
				out = append(out, PaperMapping{K: k, BR: ceil(bact, s)})
			}
		}
	}
	return out
}
