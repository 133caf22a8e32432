// Package cost holds the only cycle model (the law). It computes a layer's cycles on a design from its descriptor's
// geometry, the batch and its FBCB entry. Sums over segments fill long latency tables (dse/machine fills short ones).
// Search, mapping, compiler, soft device and reports all use it. Counters of the RTL measure its error
// (`dse validate`).
//
// # The model
//
// A start is a sequence of layers (Walk), of which the first is marked (InStart). All units wait at the layer barrier:
// a layer begins when the last write of the previous one has its response, which takes answer cycles. Three things run
// ahead of the barrier. The next descriptor is fetched and checked (Fetch) when all units have accepted the previous
// one. Weights come as soon as their layer is offered and the ring has room. A kept tensor is already on chip
// (KEEP_IN). E is the end of a layer, O the offer of its descriptor. M is the time at which the DRAM could have moved
// everything up to a layer. T is the layer's cycles if its weights are in time:
//
//	O_i = max(O_i-1, E_i-2 - answer) + Fetch_i
//	X_i = max(M_i-1, O_i + there)                            X: its weights begin to come
//	E_i = max(E_i-1 + T_i, X_i - there + late_i + T_i, X_i + bytes_i / r + tail_i)
//	M_i = X_i + bytes_i / r
//
// A layer (T) is a sequence of visits: of row tiles (order 0, all C tiles per row tile), or of row tiles under each C
// tile (order 1). Two row tiles are on chip, so visit v+1 is loaded while visit v computes; weights, residuals and
// results of v share the DRAM with that load. Let r be the bytes per cycle and A, W, R, O the bytes of a visit
// (activations, weights, residuals, results). An item is one row tile times one C tile, and has P_pass = K_H * ceil(K_W
// IN_C / T_P') passes:
//
//	pass = max(rows, D_k, load)                              D_k = T_P' + chainDepth
//	L_1  = (A_1 + W' + R') / r                               L: all rows are there
//	L_v  = max(L_v-1 + (A_v + W_v-1 + R_v-1 + O_v-1) / r, E_v-2 + latency + A_v / r)
//	S_v  = max(E_v-1 + pass, L_v - late + OUT_W)             S: the first pass ends; it does not wait for late rows
//	E_v  = S_v + the other passes of its items. Each item waits for one of two banks to drain. The last kernel
//	       row's passes wait for L_v + OUT_W, the last pass of the first and of the last item for its weights.
//	T    = max(drained, L_V + (W_V + R_V + O_V) / r) + answer
//
// load is the number of cycles from one swap of weights to the next that loading them needs: the swap runs down the
// chain, then W_LOAD PEs per cycle get weights, from a ring that delivers one wide beat per cycle. Late rows are rows
// that only later kernel rows than the first need. W' are the weights of a start's first layer, until the ring has
// enough beyond those of one pass; R' are the residuals of its first item, as many as their queue holds. A half of the
// buffer is free when the visit before the last one has ended. Results of the last item that leave after the rows do
// not delay them. A pool's results leave while rows come.
//
// Bytes are those of all wide beats that a run touches. Bytes / r is the longest of three times: bytes over the DRAM,
// bytes over the ports in one direction, and bursts at maxBursts in flight per port, each for one latency (the limit
// for short rows). If the queues of several ports hold fewer bytes than come in a round trip, reads need one round trip
// per filling of the queues. The same applies to weights if the ring holds fewer bytes. They come in chunks, and each
// chunk is requested when passes have used one. Weights that are read again for each row tile then delay its last pass
// at any DRAM rate. Packing a run of results needs one cycle more for each end within a wide beat.
//
// A tensor kept on chip (KEEP_IN) costs no A and no latency before the first row. A tensor that stays on chip only
// (ON_CHIP) costs no O and no answer. A pool processes one vector of NB lanes and one tap per cycle: of each window, or
// of each input column (Geom.ByColumns). Residuals of a depthwise layer come in chunks, at most 16 in flight.
//
// # Use
//
// The law ranks mappings and designs. It leaves out how two alternating transfers affect each other: this changed the
// cycles of networks mapped by it by 0.1 % on average. dse/machine gives the exact cycles of a start. Results of the
// law are printed with an error band (dse/counted).
package cost

import (
	"fmt"
	"math"

	"github.com/sluice-npu/sluice/dse/rtl"
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
)

// Depth is D_k, the minimum number of cycles of a pass.
func Depth(d configs.Design, k K) int { return Chain(d, k) + rtl.ChainWait }

// Load is the number of cycles from one swap to the next that loading the weights of nch channels needs for s sample
// groups: the swap runs down the chain, then W_LOAD PEs per cycle get weights, from a ring that delivers one wide beat
// per cycle.
func Load(d configs.Design, k K, s, nch int) int64 {
	if d.Int8() { // weight_feed handles a pair of int8 channels like one int16 channel
		nch = ceil(nch, 2)
	}
	chain, vectors := Chain(d, k), ceil(nch*[...]int{K1: 2, KHalf: 1, K2: 4}[k], 2)
	// While the swap runs down, only the gearbox before the array is filled.
	words, _ := Tree(d, k)
	wide := d.WideBytes() / rtl.WordBytes
	ahead := min(chain, max(8, d.WLoad*d.TP)/wide)
	return int64(chain + rtl.Swap + max(ceil(vectors, d.WLoad/s), ceil(nch*words, wide)-ahead))
}

// Layer is the law: the cycles of one layer at batch bact under the entry e, which must be legal (mapping.Check).
// Except in the first layer of a start, the weights that fit the ring are assumed to be on chip; Walk adds other waits.
func Layer(d configs.Design, g Geom, bact int, e abi.FBCB) Breakdown {
	p := Prepare(d, g, K(e.K), Groups(e, bact))
	return p.Layer(bact, e)
}

// Layer is the law for an entry with the prepared k and s.
func (p *Prepared) Layer(bact int, e abi.FBCB) Breakdown {
	walk := *p
	m := &walk
	m.bact, m.e = bact, e
	d, g, b := &m.d, &m.g, &m.b
	b.MACs = int64(bact) * g.MACs()
	b.Fill = rtl.LayerStart + 2*int64(g.PadT) + m.there
	b.Answer = m.latency + writePath(d, g)
	m.weights, m.prefetched = m.biases, m.low
	if g.First { // its descriptor must be fetched and checked, and the ring is empty
		offered := Fetch(*d, *g, bact) + rtl.OfferRows + int64(g.PadT)
		first := m.biases + m.low
		// weights are requested after the biases; the queue holds a limited number of biases, and their memory accepts
		// one per cycle
		queue := rtl.BiasBeats * m.wide / rtl.BiasBytes
		if wait := int64(g.BiasCount) - queue; wait > 0 && g.Drained() {
			m.weightsFrom = offered + 2*m.again + wait*max(queue, m.again+rtl.StripeBeats/2)/queue
			first, m.prefetched = queue*rtl.BiasBytes, 0 // rows come meanwhile
		}
		b.Fill += offered + cycles(first, m.rate)
	} else {
		ahead := min(m.ring, max(m.biases+m.low, int64(float64(b.Answer+rtl.DrainDelay)*m.rate))) - m.biases
		m.prefetched = max(0, min(m.weightBytes, ahead))
		m.streamed = -int64(float64(m.prefetched+m.biases) * m.perWeight)
	}
	if e.KeepIn {
		b.Fill, m.in = rtl.KeptStart, run{}
	}
	if e.OnChip {
		b.Answer = rtl.KeptEnd + words(d, g)
	}
	there := m.biases + m.prefetched
	m.run()

	b.parts(m, there)
	return *b
}

// readPath and writePath are the cycles of a read and of a layer's write without the DRAM.
func readPath(d configs.Design) int64 { return rtl.Read + dealing(d) }

func writePath(d *configs.Design, g *Geom) int64 { return rtl.Write + dealing(*d) + words(d, g) }

// dealing is the number of cycles that distributing stripes to several ports adds to a read or a write.
func dealing(d configs.Design) int64 { return rtl.Stripes * int64(min(1, d.NAXI-1)) }

// words is the number of cycles of a word from the accumulators, or of a pool's, through the stages that compute its
// result.
func words(d *configs.Design, g *Geom) int64 {
	n := WordStages(d, g.Drained())
	if g.Drained() {
		n += rtl.ReadStages + 1
	}
	return int64(n)
}

// Start is the number of cycles of a start without its layers: registers to the first descriptor, and the interrupt.
func Start(configs.Design) int64 { return rtl.StartStates + 1 }

// Segment is the law for the layers first..last as one start.
func Segment(d configs.Design, layers []abi.Desc, fbcb [][]abi.FBCB, first, last, bact int) (int64, error) {
	times, err := Times(d, layers, fbcb, first, last, bact)
	return Sum(d, times), err
}

// Sum returns the cycles of a start with the given layer times.
func Sum(d configs.Design, times []Breakdown) int64 {
	total := Start(d)
	for i := range times {
		total += times[i].Total
	}
	return total
}

// Times returns the time of each layer within the start. Their sum and Start are all its cycles.
func Times(d configs.Design, layers []abi.Desc, fbcb [][]abi.FBCB, first, last, bact int) ([]Breakdown, error) {
	if first < 0 || last < first || last >= min(len(layers), len(fbcb)) {
		return nil, fmt.Errorf("cost: layers %d..%d of %d", first, last, len(layers))
	}
	entries := make([]abi.FBCB, last+1-first)
	for i := range entries {
		if bact < 1 || bact > len(fbcb[first+i]) {
			return nil, fmt.Errorf("cost: layer %d has no FBCB entry for a batch of %d", first+i, bact)
		}
		entries[i] = fbcb[first+i][bact-1]
	}
	return Walked(d, GeomsOf(layers[first:last+1]), bact, entries), nil
}

// Nanoseconds converts cycles to time on a design's clock, rounded up.
func Nanoseconds(d configs.Design, c int64) int64 {
	return int64(math.Ceil(float64(c) * 1000 / float64(d.ClockMHz)))
}

func ceil(a, b int) int { return (a + b - 1) / b }

func round(a, b int64) int64 { return (a + b - 1) / b * b }

func cycles(bytes int64, perCycle float64) int64 {
	return int64(math.Ceil(float64(max(0, bytes)) / perCycle))
}
