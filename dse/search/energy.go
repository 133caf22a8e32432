package search

import (
	"math"

	"github.com/sluice-npu/sluice/dse/cost"
	"github.com/sluice-npu/sluice/dse/mapping"
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
)

// Energy contains the energy of a multiplication and of accesses in pJ. The energy of a design is the sum over its
// multiplications, on-chip words and DRAM bytes. This sum ranks designs, but does not predict the power of a board: the
// published values are for 45 nm logic, and clocks, leakage and routing are not included.
type Energy struct {
	MAC  float64 `json:"mac_pj"`       // 16 x 16 bits, 36-bit accumulator
	MAC8 float64 `json:"mac_int8_pj"`  // 8 x 8 bits, 32-bit accumulator
	Word float64 `json:"word_pj"`      // 16 bits from or to a memory of a few KiB
	Byte float64 `json:"dram_byte_pj"` // one byte of DRAM

	Sources []string `json:"sources"`
}

// Horowitz is the table of M. Horowitz, "Computing's energy problem (and what we can do about it)", ISSCC 2014.
func Horowitz() *Energy {
	return &Energy{
		MAC: 0.9, MAC8: 0.3, Word: 2.5, Byte: 162.5,
		Sources: []string{
			"multiply-accumulate: Horowitz, ISSCC 2014, 45 nm: 8-bit product 0.2 pJ, taken four times for 16 bits (the table's 32-bit one is 3.1 pJ) and once for 8, and 0.1 pJ for a 32-bit sum",
			"on-chip word: the same table, 64 bits of an 8 KB memory 10 pJ, a quarter for 16 bits (a block RAM has 4.5 KB)",
			"DRAM byte: the same table, 64 bits 1.3 nJ, the lower of its figures",
		},
	}
}

// mac returns the energy of a multiply-accumulate operation in the element type of the design.
func (m *Energy) mac(d configs.Design) float64 {
	if d.Int8() {
		return m.MAC8
	}
	return m.MAC
}

// wordsOf returns the size of an element and the size of an accumulator, in words of 16 bits.
func wordsOf(d configs.Design) (elem, acc float64) {
	if d.Int8() {
		return 0.5, 2
	}
	return 1, float64(abi.AccBits) / 16
}

// onChip returns the number of words that the passes of a layer move on chip for B = 1 and the given k. Activations are
// read once per C tile. Accumulators are read and written once per pass.
func onChip(d configs.Design, g cost.Geom, k cost.K, s int) float64 {
	elem, acc := wordsOf(d)
	rows := float64(g.OutH) * float64(g.OutW)
	switch {
	case g.GEMM():
	case g.Drained(): // a depthwise layer: one weight per element
		return 2 * elem * rows * float64(g.KH) * float64(g.KW) * float64(g.OutC)
	default:
		return elem * rows * float64(g.KH) * float64(g.KW) * float64(g.OutC)
	}
	tp, _ := cost.Tree(d, k)
	passes := float64(cost.Passes(d, g, k))
	return rows * passes * (elem*float64(tp)*float64(ceil(g.OutC, cost.CTile(d, k, s))) + 2*acc*float64(g.OutC))
}

// layer returns the energy per sample of a layer in a batch. The parameter t is the result of the law for entry e.
func (m *Energy) layer(d configs.Design, g cost.Geom, batch int, e abi.FBCB, t cost.Breakdown) float64 {
	b := float64(batch)
	words := b*onChip(d, g, cost.K(e.K), cost.Groups(e, batch)) + float64(t.BytesRead+t.BytesWritten)/2
	if e.KeepOut { // results are also written into the buffer that the next layer reads
		elem, _ := wordsOf(d)
		words += b * elem * float64(g.OutH) * float64(g.OutW) * float64(g.OutC)
	}
	if g.Drained() { // weights move on chip: once per row tile for a GEMM, once for a depthwise layer
		once, _ := cost.WeightBytes(d, g, cost.K(e.K))
		times := 1
		if g.GEMM() {
			times = ceil(int(e.BR), int(e.TileB)) * ceil(g.OutH, int(e.TileRows))
		}
		words += float64(times) * float64(once) / 2
	}
	return m.mac(d)*float64(g.MACs()) + (m.Word*words+m.Byte*float64(t.BytesRead+t.BytesWritten))/b
}

// least returns a lower bound of what the method layer returns for any entry and batch size. The bound includes
// multiplications, on-chip words that every mapping moves, and results that must be written to DRAM. It also includes
// the weights, divided by the largest batch size.
func (m *Energy) least(d configs.Design, g cost.Geom, stays bool) float64 {
	words := onChip(d, g, cost.K1, 1)
	bytes := 0.0
	if !stays {
		bytes = float64(g.OutH) * float64(g.OutW) * float64(g.OutC) * float64(d.ElemBytes())
	}
	if g.GEMM() {
		for _, k := range []cost.K{cost.KHalf, cost.K2} {
			if mapping.Built(d, mapping.Point{K: k, S: 1}) {
				words = min(words, onChip(d, g, k, 1))
			}
		}
		bytes += float64(g.KH*g.KWC()) * float64(g.OutC) * float64(d.ElemBytes()) / abi.BMax
	}
	return m.mac(d)*float64(g.MACs()) + m.Word*words + m.Byte*bytes
}

// share returns the weight of each segment in the energy of the mean request.
func (w *Workload) share(reach []float64) []float64 {
	out := make([]float64, w.Segments)
	for _, p := range w.Parts {
		for i := p.First; i < p.First+p.Segments; i++ {
			out[i] = p.Share
			if reach != nil {
				out[i] *= reach[i]
			}
		}
	}
	return out
}

// Least returns a lower bound of what the method Of returns. The parameter `all` is the lowered network's classes.
func (m *Energy) Least(w *Workload, d configs.Design, all []Class, reach []float64) float64 {
	sum, share := 0.0, w.share(reach)
	for i := range all {
		of := 0.0
		for j, n := range all[i].Count {
			of += share[j] * float64(n)
		}
		sum += of * m.least(d, all[i].Geom, all[i].writes == mapping.Only)
	}
	return sum * (1 - 1e-9) // because the method Of adds in another order, and rounds differently
}

// Of returns the mean energy of a request on a design, in pJ: the weighted mean over the batch sizes. Every layer uses
// its fastest entry. The parameter reach contains the share of requests that run each segment (nil: all).
func (m *Energy) Of(w *Workload, d configs.Design, o mapping.Options, weights Weights, reach []float64) (float64, error) {
	if weights == (Weights{}) {
		weights = Uniform()
	}
	layers, err := w.Lower(d)
	if err != nil {
		return math.NaN(), err
	}
	total, sum, share := 0.0, 0.0, w.share(reach)
	for b := 1; b <= abi.BMax; b++ {
		if weights[b-1] == 0 {
			continue
		}
		sum += weights[b-1]
		chosen, err := Choose(d, layers, b, o)
		if err != nil {
			return math.NaN(), err
		}
		for i, l := range layers {
			total += weights[b-1] * share[l.Segment] * m.layer(d, l.Geom, b, chosen[i].Entry, chosen[i].Time)
		}
	}
	return total / sum, nil
}
