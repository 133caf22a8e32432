// Package cost implements the only cycle model of the project, called the law. The law computes a layer's cycles on a
// design. It uses the geometry in the descriptor, the batch size and the FBCB entry. Long latency tables contain sums
// of the law over segments (dse/machine computes short tables). Search, mapping, compiler, soft device and reports all
// use the law. `dse validate` measures the law's error with counters of the RTL.
//
// # The model
//
// A start is a sequence of layers (Walk). InStart marks the first layer. All units wait at the layer barrier: a layer
// begins when the previous layer's last write has its response, which comes `answer` cycles after that write. Three
// things do not wait for the barrier. The next descriptor is fetched and checked (Fetch) when all units have accepted
// the previous descriptor. Weights are read as soon as their layer is offered and the ring has room. A kept tensor is
// already on chip (KEEP_IN). E is the end of a layer, and O the time at which its descriptor is offered. M is the
// earliest time at which the DRAM can have moved all bytes of the layers up to this one. T is the layer's cycles
// without late weights:
//
//	O_i = max(O_i-1, E_i-2 - answer) + Fetch_i
//	X_i = max(M_i-1, O_i + there)                            X: its weights begin to come
//	E_i = max(E_i-1 + T_i, X_i - there + late_i + T_i, X_i + bytes_i / r + tail_i)
//	M_i = X_i + bytes_i / r
//
// A layer (T) is a sequence of visits. In order 0, a visit is a row tile with all C tiles. In order 1, a visit is a row
// tile with one C tile, and the C tile is the outer loop. Two row tiles are on chip, so the rows of visit v+1 are
// loaded while visit v computes. The weights, residuals and results of v share the DRAM with these rows. Let r be the
// bytes per cycle. Let A, W, R, O be the bytes of a visit (activations, weights, residuals, results). An item is one
// row tile times one C tile. An item has P_pass = K_H * ceil(K_W IN_C / T_P') passes:
//
//	pass = max(rows, D_k, load)                              D_k: Depth
//	L_1  = (A_1 + W' + R') / r                               L: all rows are there
//	L_v  = max(L_v-1 + (A_v + W_v-1 + R_v-1 + O_v-1) / r, E_v-2 + latency + A_v / r)
//	S_v  = max(E_v-1 + pass, L_v - late + OUT_W)             S: the first pass ends, before late rows are there
//	E_v  = S_v + the other passes of its items. Each item waits for one of two banks to drain. The last kernel
//	       row's passes wait for L_v + OUT_W, the last pass of the first and of the last item for its weights.
//	T    = max(drained, L_V + (W_V + R_V + O_V) / r) + answer
//
// load is the minimum number of cycles between two swaps of weights, in which new weights are loaded. First the swap
// runs down the chain. Then W_LOAD PEs per cycle receive weights from the ring, which delivers one wide beat per cycle.
// Late rows are rows that only later kernel rows need, not the first one. W' are the weights that are read before the
// rows in a start's first layer: the weights of one pass, and a reserve in the ring. R' are the first item's residuals,
// up to the size of their queue. A half of the buffer is free when the visit before the previous one has ended. Results
// of the last item that leave after the rows do not delay the rows. Results of a pool are written while rows are read.
//
// Bytes include all wide beats that a run touches. Bytes / r is the longest of three times: the DRAM transfer, the port
// transfer in one direction, and the bursts. The bursts limit short rows, because each port has at most BurstsUnderWay
// bursts in flight, and each burst needs one latency. If the queues of several ports can store fewer bytes than arrive
// in a round trip, reads need one round trip each time the queues are filled. If the ring can store fewer bytes than
// arrive in a round trip, this applies to weights, too. Weights are read in chunks, and a chunk is requested when
// passes have used a chunk. Weights that are read again for each row tile then delay the last pass of the tile at any
// DRAM rate. Packing a run of results needs one more cycle for each end of the run that is inside a wide beat.
//
// An input that is kept on chip (KEEP_IN) has A = 0, and its first row has no latency. An output that is only on chip
// (ON_CHIP) has O = 0 and answer = 0. A pool processes one tap of NB lanes per cycle, window by window or column by
// column (Geom.ByColumns). Residuals of a depthwise layer are read in chunks, with at most 16 chunks in flight.
//
// # Use
//
// The law ranks mappings and designs. It does not model how two alternating transfers affect each other. On networks
// with mappings that the law chose, this effect changed the cycles by 0.1 % on average. dse/machine computes the exact
// cycles of a start. Results of the law are printed with an error band (dse/counted).
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

// Load is the minimum number of cycles between two swaps of weights, for nch channels and s sample groups. The package
// comment describes the loading.
func Load(d configs.Design, k K, s, nch int) int64 {
	if d.Int8() { // weight_feed handles a pair of int8 channels like one int16 channel
		nch = ceil(nch, 2)
	}
	chain, vectors := Chain(d, k), ceil(nch*[...]int{K1: 2, KHalf: 1, K2: 4}[k], 2)
	// While the swap runs down the chain, the ring fills only the gearbox in front of the array.
	words, _ := Tree(d, k)
	wide := d.WideBytes() / rtl.WordBytes
	ahead := min(chain, max(8, d.WLoad*d.TP)/wide)
	return int64(chain + rtl.Swap + max(ceil(vectors, d.WLoad/s), ceil(nch*words, wide)-ahead))
}

// Layer is the law: it returns the cycles of one layer at batch size bact under a legal entry e (mapping.Check). If the
// layer is not the first layer of a start, Layer assumes that the weights that fit the ring are already on chip. Walk
// adds the wait for them.
func Layer(d configs.Design, g Geom, bact int, e abi.FBCB) Breakdown {
	p := Prepare(d, g, K(e.K), Groups(e, bact))
	return p.Layer(bact, e)
}

// Layer is the law for an entry with the k and s of p.
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
		// Weights are requested after the biases. The queue can store a limited number of biases, and their memory accepts
		// one bias per cycle.
		queue := rtl.BiasBeats * m.wide / rtl.BiasBytes
		if wait := int64(g.BiasCount) - queue; wait > 0 && g.Drained() {
			m.weightsFrom = offered + 2*m.again + wait*max(queue, m.again+rtl.StripeBeats/2)/queue
			first, m.prefetched = queue*rtl.BiasBytes, 0 // rows are read meanwhile
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

// readPath and writePath are the cycles of a read and of a write of results, without the cycles of the DRAM.
func readPath(d configs.Design) int64 { return rtl.Read + dealing(d) }

func writePath(d *configs.Design, g *Geom) int64 { return rtl.Write + dealing(*d) + words(d, g) }

// dealing is the number of additional cycles of a read or a write if stripes are distributed to several ports.
func dealing(d configs.Design) int64 { return rtl.Stripes * int64(min(1, d.NAXI-1)) }

// words is the number of cycles that a word needs from the accumulators, or from the pool, to its result.
func words(d *configs.Design, g *Geom) int64 {
	n := WordStages(d, g.Drained())
	if g.Drained() {
		n += rtl.ReadStages + 1
	}
	return int64(n)
}

// Start is the number of cycles of a start outside its layers: before the first descriptor, and for the interrupt.
func Start(configs.Design) int64 { return rtl.StartStates + 1 }

// Segment returns the cycles of one start that runs the layers first to last.
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

// Times returns the time of each layer within the start. Sum adds them up.
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
