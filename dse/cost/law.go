// Package cost holds the one law of cycles: how long a layer takes on a design, from its
// descriptor's geometry, the batch and its FBCB entry, and the sums over segments that make the
// latency table. Search, mapping, compiler, soft device and reports all call it; the counters of
// the RTL hold it to account.
//
// # The model
//
// A layer begins when the last write of the layer before is answered (the layer barrier). It then
// reads its first input row (fill), computes row tile by row tile and C tile by C tile while row
// tiles, weights, residuals and results share the DRAM (steady state), drains its last C tile
// (tail) and waits for the answer to its last write. With P_pass = K_H * ceil(K_W IN_C / T_P')
// passes of a C tile:
//
//	pass   = max(rows, D_k, load)            D_k = T_P' + chainDepth
//	item   = P_pass * pass                   one row tile times one C tile
//	drain  = max(rows * ceil(nch / DRAIN), its bytes / rate)  behind the next item, two banks
//	first  = max(0, first row tile / rate - pass)     the first pass follows the rows as they come
//	array  = sum over items of max(item, drain) + first
//	total  = fill + max(array, dram, ports) + tail + answer
//
// A pool takes one vector of NB lanes and one tap a cycle and gives its result out word by word.
// The law is exact in nothing but its structure: the constants below are calibrated against the
// RTL's counters.
package cost

import (
	"fmt"
	"math"

	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
)

// Constants of the hardware, in cycles unless they say otherwise.
const (
	chainDepth   = 2  // D_k - T_P': passes of a chain follow each other at this distance at least
	swapTail     = 1  // loading goes on T_P' + swapTail cycles after a swap
	drainDelay   = 12 // last row to the first word drained, beside the chain
	layerStart   = 16 // barrier to the first read address of a layer
	readLatency  = 6  // read path beside the DRAM: splitting, queue, buffer
	writeLatency = 8  // post-processing and write path beside the DRAM
	startCycles  = 40 // start register to the first descriptor read, last answer to the interrupt
	avgWords     = 2  // words an average pool gives out a cycle
	maxReadAhead = 2  // halves of the activation buffer
	descBytes    = 128
	wordBytes    = 2
	biasBytes    = 4
)

// Bound names what a layer's steady state waits for.
type Bound string

// What binds a layer.
const (
	BoundCompute     Bound = "compute"     // rows through the array
	BoundDepth       Bound = "depth"       // passes shorter than the chain
	BoundLoad        Bound = "load"        // weights into the PEs
	BoundDrain       Bound = "drain"       // accumulators out
	BoundWeights     Bound = "weights"     // DRAM, weights the largest part
	BoundActivations Bound = "activations" // DRAM, activations (or residuals) the largest part
	BoundWrite       Bound = "write"       // DRAM, results the largest part
	BoundPool        Bound = "pool"        // the pool unit
)

// Breakdown is the time of one layer and what it is made of, in cycles and bytes.
type Breakdown struct {
	Total int64 `json:"cycles"`

	Fill   int64 `json:"fill"`   // barrier to the first input row on chip
	Array  int64 `json:"array"`  // array or pool unit, where nothing else binds
	DRAM   int64 `json:"dram"`   // DRAM in the steady state
	Ports  int64 `json:"ports"`  // the busier direction of the AXI ports in the steady state
	Tail   int64 `json:"tail"`   // last drain
	Answer int64 `json:"answer"` // last write to its answer

	Compute     int64 `json:"compute"`     // passes at a row a cycle
	Drain       int64 `json:"drain"`       // all drains
	Weights     int64 `json:"weights"`     // DRAM cycles of weights and biases
	Activations int64 `json:"activations"` // DRAM cycles of activations and residuals
	Write       int64 `json:"write"`       // DRAM cycles of results

	BytesRead    int64 `json:"bytes_read"`
	BytesWritten int64 `json:"bytes_written"`
	MACs         int64 `json:"macs"`
	Bound        Bound `json:"bound"`
}

// Groups is s = ceil(B_act / B_R) of an entry.
func Groups(e abi.FBCB, bact int) int {
	if e.BR == 0 {
		return 0
	}
	return ceil(bact, int(e.BR))
}

// CTile is the output channels of a full C tile: T_C' for one sample group, half of it for two.
func CTile(d configs.Design, k K, s int) int {
	_, tc := Tree(d, k)
	return tc / s
}

// Depth is D_k, the cycles a pass takes at least.
func Depth(d configs.Design, k K) int {
	tp, _ := Tree(d, k)
	return tp + chainDepth
}

// Layer is the law: the cycles of one layer at batch bact under the entry e, which must be legal
// (mapping.Check).
func Layer(d configs.Design, g Geom, bact int, e abi.FBCB) Breakdown {
	t := newTiling(g, e)
	var b Breakdown
	b.MACs = int64(bact) * g.MACs()

	bpc := d.DRAM.BytesPerCycle
	port := float64(d.NAXI * d.AXIBytes)
	rate := math.Min(bpc, port)
	latency := int64(d.DRAM.LatencyCycles)

	var w weightTraffic
	var pass, item, lastDrain int64 // pass: of the first row tile
	if g.GEMM() {
		k := K(e.K)
		w = weights(d, g, k, t, e.Order)
		pass, item, lastDrain = arrayTime(d, g, k, t, rate, &b)
		b.Tail = drainDelay + int64(Depth(d, k))
	} else {
		w.bytes = int64(g.BiasCount) * biasBytes
		pass = poolTime(d, g, t, &b)
		b.Tail = drainDelay
	}
	b.Tail += min(item, lastDrain)

	acts, firstTile, firstRow := activationBytes(d, g, bact, t, e)
	res, out := resultBytes(d, g, bact, e)
	b.BytesRead = acts + res + w.bytes + descBytes
	b.BytesWritten = out

	b.Weights = cycles(w.bytes, bpc)
	b.Activations = cycles(acts+res, bpc)
	b.Write = cycles(out, bpc)

	b.Fill = layerStart + latency + readLatency + cycles(firstRow, rate)
	b.Array += max(0, cycles(firstTile-firstRow, rate)-pass)
	b.Answer = latency + writeLatency

	// The ring fills with this layer's weights while the layer before drains and answers.
	idle := int64(float64(b.Answer+b.Tail) * rate)
	prefetched := min(w.once, int64(d.WRingBeats*d.AXIBytes), idle)
	b.DRAM = cycles(b.BytesRead+b.BytesWritten-firstRow-prefetched, bpc)
	b.Ports = max(cycles(b.BytesRead-firstRow-prefetched, port), cycles(out, port))

	b.Total = b.Fill + max(b.Array, b.DRAM, b.Ports) + b.Tail + b.Answer
	b.Bound = b.bound(d, g, e, t)
	return b
}

// Start is what a start costs beside its layers: registers to the first descriptor, and the
// interrupt.
func Start(d configs.Design) int64 {
	return startCycles + int64(d.DRAM.LatencyCycles) + readLatency
}

// tiling is how a layer is cut into row tiles; of the sample groups, the largest (all run at once).
type tiling struct {
	samples [2]run // blocks of samples: full, rest
	rows    [2]run // blocks of output rows
}

// run is n blocks of one size.
type run struct{ size, n int }

func split(total, size int) [2]run {
	r := [2]run{{size: size, n: total / size}}
	if rest := total % size; rest != 0 {
		r[1] = run{size: rest, n: 1}
	}
	return r
}

func newTiling(g Geom, e abi.FBCB) tiling {
	return tiling{samples: split(int(e.BR), int(e.TileB)), rows: split(g.OutH, int(e.TileRows))}
}

func (t tiling) tiles() int64 {
	return int64(t.samples[0].n+t.samples[1].n) * int64(t.rows[0].n+t.rows[1].n)
}

// each calls f with every class of row tiles: samples, output rows, how many.
func (t tiling) each(f func(samples, rows int, n int64)) {
	for _, s := range t.samples {
		for _, r := range t.rows {
			if n := int64(s.n) * int64(r.n); n > 0 {
				f(s.size, r.size, n)
			}
		}
	}
}

type weightTraffic struct {
	once  int64 // bytes of the packed weights and biases
	bytes int64 // bytes read, row tiles considered
}

// RingKeeps is the bytes that the weights ring can keep for replay.
func RingKeeps(d configs.Design) int64 { return int64(d.WRingBeats*d.AXIBytes) - abi.RingSpare }

func weights(d configs.Design, g Geom, k K, t tiling, order bool) weightTraffic {
	tp, _ := Tree(d, k)
	_, tc := Tree(d, k)
	perChannel := int64(Passes(d, g, k)) * int64(tp) * wordBytes
	var w weightTraffic
	full := round(perChannel*int64(min(tc, g.OutC)), abi.WeightAlign)
	w.once = int64(g.OutC/tc) * full
	if rest := g.OutC % tc; rest != 0 {
		w.once += round(perChannel*int64(rest), abi.WeightAlign)
	}
	w.bytes = w.once * t.tiles()
	// The ring replays what it can keep: a C tile, if those are outermost, or the layer.
	if order || w.once <= RingKeeps(d) {
		w.bytes = w.once
	}
	bias := int64(g.OutC) * biasBytes
	w.once += bias
	w.bytes += bias
	return w
}

// Passes is the passes of one C tile: P in chunks of T_P', none across kernel rows.
func Passes(d configs.Design, g Geom, k K) int {
	tp, _ := Tree(d, k)
	return g.KH * ceil(g.KWC(), tp)
}

// WeightBytes is W_BYTES and W_TILE of a layer packed for k.
func WeightBytes(d configs.Design, g Geom, k K) (all, tile int64) {
	tp, tc := Tree(d, k)
	perChannel := int64(Passes(d, g, k)) * int64(tp) * wordBytes
	tile = round(perChannel*int64(tc), abi.WeightAlign)
	all = int64(g.OutC/tc) * tile
	if rest := g.OutC % tc; rest != 0 {
		all += round(perChannel*int64(rest), abi.WeightAlign)
	}
	return all, tile
}

// load is the cycles in which nch PEs get the weights of their next pass: from the ring, a beat of
// every port a cycle, W_LOAD PEs a cycle, after the swap has run down the chain.
func load(d configs.Design, k K, nch int) int64 {
	tp, _ := Tree(d, k)
	pes := int64(ceil(nch, d.WLoad))
	ring := cycles(int64(nch*tp*wordBytes), float64(d.NAXI*d.AXIBytes))
	return max(pes+int64(tp)+swapTail, ring)
}

// arrayTime fills in b.Array, Compute and Drain, and answers the time of the first row tile's
// passes, and of the last item and its drain.
func arrayTime(d configs.Design, g Geom, k K, t tiling, rate float64, b *Breakdown) (pass, item, lastDrain int64) {
	_, tc := Tree(d, k)
	passes := int64(Passes(d, g, k))
	cTiles := split(g.OutC, min(tc, g.OutC))
	depth := int64(Depth(d, k))
	t.each(func(samples, rows int, n int64) {
		r := int64(samples) * int64(rows) * int64(g.OutW)
		for _, c := range cTiles {
			if c.n == 0 {
				continue
			}
			items := n * int64(c.n)
			drain := max(r*int64(ceil(c.size, d.Drain)), cycles(r*int64(c.size)*wordBytes, rate))
			one := max(r, depth, load(d, k, c.size))
			if pass == 0 {
				pass = one
			}
			it := passes * one
			b.Array += items * max(it, drain)
			b.Compute += items * passes * r
			b.Drain += items * drain
			item, lastDrain = it, drain
		}
	})
	return pass, item, lastDrain
}

// poolTime fills in b.Array for a pool, and answers the time of its first row tile: it needs the
// rows in order.
func poolTime(d configs.Design, g Geom, t tiling, b *Breakdown) (first int64) {
	taps := int64(ceil(g.OutC, d.NB())) * int64(g.KH) * int64(g.KW)
	words := d.Drain
	if g.Op == abi.OpAvgPool {
		words = avgWords
	}
	out := int64(ceil(g.OutC, words))
	t.each(func(samples, rows int, n int64) {
		r := int64(samples) * int64(rows) * int64(g.OutW)
		if first == 0 {
			first = r * max(taps, out)
		}
		b.Array += n * r * max(taps, out)
		b.Compute += n * r * taps
		b.Drain += n * r * out
	})
	return first
}

// activationBytes is what the input costs on the DRAM; its first row tile alone; and one row.
func activationBytes(d configs.Design, g Geom, bact int, t tiling, e abi.FBCB) (all, first, row int64) {
	whole := g.InPix == g.InC
	if whole {
		row = int64(g.InRow()) * wordBytes
	} else {
		row = int64(g.InW) * pixelBytes(d, g.InC, g.InPix, g.InOffset)
	}
	var rows int64 // input rows of one sample, halos read again
	oh0, firstRows := 0, 0
	for _, r := range t.rows {
		for range r.n {
			in := g.inRows(oh0, r.size)
			if oh0 == 0 {
				firstRows = in
			}
			rows += int64(in)
			oh0 += r.size
		}
	}
	all = rows * row * int64(bact)
	first = int64(firstRows) * row * int64(t.samples[0].size)
	if t.samples[0].n == 0 {
		first = int64(firstRows) * row * int64(t.samples[1].size)
	}
	first *= int64(Groups(e, bact))
	if e.Order && t.tiles() > maxReadAhead && g.GEMM() {
		// More row tiles than halves: every C tile reads them again.
		_, tc := Tree(d, K(e.K))
		all *= int64(ceil(g.OutC, tc))
	}
	if e.KeepIn {
		return 0, 0, 0
	}
	return all, first, row
}

// resultBytes is what residual and output cost on the DRAM.
func resultBytes(d configs.Design, g Geom, bact int, e abi.FBCB) (res, out int64) {
	pixels := int64(bact) * int64(g.OutH) * int64(g.OutW)
	if !g.GEMM() {
		return 0, pixels * runBytes(d, g.OutC, g.OutC, g.OutPix, g.OutOffset)
	}
	_, tc := Tree(d, K(e.K))
	for _, c := range split(g.OutC, min(tc, g.OutC)) {
		out += pixels * int64(c.n) * runBytes(d, c.size, g.OutC, g.OutPix, g.OutOffset)
		if g.Residual {
			res += pixels * int64(c.n) * runBytes(d, c.size, g.OutC, g.ResPix, g.ResOffset)
		}
	}
	if e.KeepOut {
		out = 0
	}
	return res, out
}

// runBytes is the cost of the n channels that a C tile touches of one pixel: exact where pixels
// follow each other without a gap, else in beats.
func runBytes(d configs.Design, n, c, pix int, offset int64) int64 {
	if n == c && pix == c {
		return int64(n) * wordBytes
	}
	return pixelBytes(d, n, pix, offset)
}

// pixelBytes is the beats, in bytes, of n channels of one pixel.
func pixelBytes(d configs.Design, n, pix int, offset int64) int64 {
	beat := int64(d.AXIBytes)
	bytes := round(int64(n)*wordBytes, beat)
	if int64(pix)*wordBytes%beat != 0 || offset%beat != 0 {
		bytes += beat / 2 // some pixels touch one beat more
	}
	return bytes
}

func (b *Breakdown) bound(d configs.Design, g Geom, e abi.FBCB, t tiling) Bound {
	if max(b.DRAM, b.Ports) > b.Array {
		switch max(b.Weights, b.Activations, b.Write) {
		case b.Weights:
			return BoundWeights
		case b.Activations:
			return BoundActivations
		}
		return BoundWrite
	}
	if !g.GEMM() {
		return BoundPool
	}
	if b.Drain > b.Compute && b.Drain*2 > b.Array {
		return BoundDrain
	}
	r := int64(0)
	t.each(func(samples, rows int, n int64) { r = max(r, int64(samples)*int64(rows)*int64(g.OutW)) })
	k := K(e.K)
	nch := min(g.OutC, CTile(d, k, 1))
	switch l, depth := load(d, k, nch), int64(Depth(d, k)); {
	case l > r && l > depth:
		return BoundLoad
	case depth > r:
		return BoundDepth
	}
	return BoundCompute
}

// Utilisation is the share of the design's MACs at work: 0..1.
func (b Breakdown) Utilisation(d configs.Design) float64 {
	if b.Total == 0 {
		return 0
	}
	return float64(b.MACs) / (float64(b.Total) * float64(d.TP) * float64(d.TC))
}

// Segment is the law for the layers first..last as one start.
func Segment(d configs.Design, layers []abi.Desc, fbcb [][]abi.FBCB, first, last, bact int) (int64, error) {
	if first < 0 || last < first || last >= len(layers) || last >= len(fbcb) {
		return 0, fmt.Errorf("cost: layers %d..%d of %d", first, last, len(layers))
	}
	total := Start(d)
	for i := first; i <= last; i++ {
		if bact < 1 || bact > len(fbcb[i]) {
			return 0, fmt.Errorf("cost: layer %d has no FBCB entry for a batch of %d", i, bact)
		}
		total += Layer(d, GeomOf(&layers[i]), bact, fbcb[i][bact-1]).Total
	}
	return total, nil
}

// Nanoseconds turns cycles into time on a design's clock, rounded up.
func Nanoseconds(d configs.Design, c int64) int64 {
	return int64(math.Ceil(float64(c) * 1000 / float64(d.ClockMHz)))
}

func ceil(a, b int) int { return (a + b - 1) / b }

func round(a, b int64) int64 { return (a + b - 1) / b * b }

func cycles(bytes int64, perCycle float64) int64 {
	if bytes <= 0 {
		return 0
	}
	return int64(math.Ceil(float64(bytes) / perCycle))
}
