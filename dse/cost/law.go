// Package cost holds the one law of cycles: how long a layer takes on a design, from its
// descriptor's geometry, the batch and its FBCB entry, and the sums over segments that make a
// long latency table (dse/machine makes short ones). Search, mapping, compiler, soft device and reports all call it; counters of the RTL say
// how far off it is (`dse validate`).
//
// # The model
//
// A start is its layers one after the other (Walk), and knows which is the first (InStart). Its units meet at the
// layer barrier: a layer begins when the last write of the one before is answered. Three things run ahead of that: the
// next descriptor is fetched and checked (Fetch) when all units have taken the one before, weights come as soon as their
// layer is offered and the ring has room, and a tensor that is kept is there at once (KEEP_IN). With E the end of a layer, O
// the offer of its descriptor, M when the DRAM could have moved all up to a layer and T the layer's cycles where its
// weights came in time:
//
//	O_i = max(O_i-1, E_i-2 - answer) + Fetch_i
//	X_i = max(M_i-1, O_i + there)                            X: its weights begin to come
//	E_i = max(E_i-1 + T_i, X_i - there + late_i + T_i, X_i + bytes_i / r + tail_i)
//	M_i = X_i + bytes_i / r
//
// A layer (T) is a sequence of visits: of row tiles (order 0, each with all C tiles), or of row tiles
// under each C tile (order 1). Two row tiles are on chip, so visit v+1 is loaded while visit v
// computes; weights, residuals and results of v share the DRAM with that. With r bytes a cycle,
// A, W, R, O the bytes of a visit, and its items (one row tile times one C tile each) of
// P_pass = K_H * ceil(K_W IN_C / T_P') passes:
//
//	pass = max(rows, D_k, load)                              D_k = T_P' + chainDepth
//	L_1  = (A_1 + W' + R') / r                               L: all rows are there
//	L_v  = max(L_v-1 + (A_v + W_v-1 + R_v-1 + O_v-1) / r, E_v-2 + latency + A_v / r)
//	S_v  = max(E_v-1 + pass, L_v - late + OUT_W)             S: the first pass ends, which late rows do not hold up
//	E_v  = S_v + the other passes of its items, each item waiting for one of two banks to drain,
//	       the last kernel row's for L_v + OUT_W, and the last pass of the first and last for its weights
//	T    = max(drained, L_V + (W_V + R_V + O_V) / r) + answer
//
// load is the cycles from one swap of weights to the next that loading them takes: the swap runs down the chain, then
// W_LOAD PEs a cycle get theirs, from a ring that gives a wide beat a cycle.
// Late rows are those that only kernel rows behind the first one need. W' are a start's first layer's weights, until the ring
// has so many beside those of a pass; R' the residuals of its first item, as many as their queue holds. A half of the
// buffer is free when the visit before the last one has ended. Results of the last item that leave behind the rows do not
// hold them up. A pool's results leave beside its rows.
//
// Bytes are those of all wide beats that a run touches. Bytes / r stands for the longest of three: bytes
// over the DRAM, over the ports in one direction, and bursts at maxBursts a port under way, each for a
// latency (what short rows wait for). Where the queues of several ports have room for fewer bytes than come in a round trip, what is
// read takes a round trip for each of these; so do weights where the ring holds fewer, which come in chunks, each asked for when passes
// have taken one: weights that come again for each row tile then hold up its last pass, whatever the DRAM's rate. A run of results whose
// ends lie within a wide beat takes a cycle more to pack for each.
//
// A tensor that is kept on chip (KEEP_IN) costs no A and no latency before the first row, one that stays there
// only (ON_CHIP) no O and no answer. A pool
// takes one vector of NB lanes and one tap a cycle: of each window, or of each column of the input
// (Geom.ByColumns). Residuals of a depthwise layer come in chunks of which 16 are under way.
//
// # What it is for
//
// The law ranks mappings and designs. What two transfers that take turns do to each other it leaves out: of networks mapped by
// it the cycles moved by 0.1 % on average when that was left out. What a start takes to the cycle dse/machine says; beside an
// answer of the law stands its band (dse/counted).
package cost

import (
	"fmt"
	"math"

	"github.com/sluice-npu/sluice/dse/rtl"
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
)

// Depth is D_k, the cycles a pass takes at least.
func Depth(d configs.Design, k K) int { return Chain(d, k) + rtl.ChainWait }

// Load is the cycles from one swap to the next that loading the weights of nch channels takes for s
// sample groups: W_LOAD PEs a cycle after the swap has run down the chain, from a ring that gives a
// wide beat a cycle.
func Load(d configs.Design, k K, s, nch int) int64 {
	if d.Int8() { // a pair of channels is to weight_feed what a channel is in int16
		nch = ceil(nch, 2)
	}
	chain, vectors := Chain(d, k), ceil(nch*[...]int{K1: 2, KHalf: 1, K2: 4}[k], 2)
	// While the swap runs down, no more than the gearbox in front of the array is filled.
	words, _ := Tree(d, k)
	wide := d.WideBytes() / rtl.WordBytes
	ahead := min(chain, max(8, d.WLoad*d.TP)/wide)
	return int64(chain + rtl.Swap + max(ceil(vectors, d.WLoad/s), ceil(nch*words, wide)-ahead))
}

// Layer is the law: the cycles of one layer at batch bact under the entry e, which must be legal (mapping.Check). In the
// middle of a start the weights that the ring takes have come when it begins; what it waits for else, Walk adds.
func Layer(d configs.Design, g Geom, bact int, e abi.FBCB) Breakdown {
	p := Prepare(d, g, K(e.K), Groups(e, bact))
	return p.Layer(bact, e)
}

// Layer is the law for an entry of that k and s.
func (p *Prepared) Layer(bact int, e abi.FBCB) Breakdown {
	walk := *p
	m := &walk
	m.entry(bact, e)
	d, g, b := &m.d, &m.g, &m.b
	b.Fill = rtl.LayerStart + 2*int64(g.PadT) + m.there
	b.Answer = m.latency + writePath(d, g)
	m.weights, m.prefetched = m.biases, m.low
	if g.First { // its descriptor comes, is checked and taken, and nothing is in the ring
		m.offered = Fetch(*d, *g, bact) + rtl.OfferRows + int64(g.PadT)
		first := m.biases + m.low
		// weights are asked for behind the biases, of which a queue holds so many and their memory takes
		// one a cycle
		queue := rtl.BiasBeats * m.wide / rtl.BiasBytes
		if wait := int64(g.BiasCount) - queue; wait > 0 && g.Drained() {
			m.weightsFrom = m.offered + 2*m.again + wait*max(queue, m.again+rtl.StripeBeats/2)/queue
			first, m.prefetched = queue*rtl.BiasBytes, 0 // rows come meanwhile
		}
		b.Fill += m.offered + cycles(first, m.rate)
	} else {
		ahead := min(m.ring, max(m.biases+m.low, int64(float64(b.Answer+rtl.DrainDelay)*m.rate))) - m.biases
		m.prefetched = max(0, min(m.weightBytes, ahead))
		m.streamed = -int64(float64(m.prefetched+m.biases) * m.perWeight)
	}
	if m.keepIn {
		b.Fill, m.in = rtl.KeptStart, run{}
	}
	if m.onChip {
		b.Answer = rtl.KeptEnd + words(d, g)
	}
	there := m.biases + m.prefetched
	m.run()

	b.Array, b.Compute, b.Drain = m.array, m.compute, m.drain
	b.BytesRead = m.acts + m.weights + abi.DescBytes
	b.BytesWritten = m.moved.written
	b.Weights = cycles(m.weights, m.bpc)
	b.Activations = cycles(m.acts, m.bpc)
	b.Write = cycles(b.BytesWritten, m.bpc)
	b.DRAM = cycles(b.BytesRead+b.BytesWritten-there, m.bpc)
	b.Ports = max(cycles(b.BytesRead-there, m.port), cycles(b.BytesWritten, m.port))
	b.Bound = b.bound(m)
	return *b
}

// readPath and writePath are the cycles of a read and a layer's write beside the DRAM.
func readPath(d configs.Design) int64 { return rtl.Read + dealing(d) }

func writePath(d *configs.Design, g *Geom) int64 { return rtl.Write + dealing(*d) + words(d, g) }

// dealing is what dealing stripes to several ports adds to either.
func dealing(d configs.Design) int64 { return rtl.Stripes * int64(min(1, d.NAXI-1)) }

// words is the cycles of a word from the accumulators, or of a pool's, through the stages that make a result of it.
func words(d *configs.Design, g *Geom) int64 {
	n := WordStages(d, g.Drained())
	if g.Drained() {
		n += rtl.ReadStages + 1
	}
	return int64(n)
}

// Start is what a start costs beside its layers: registers to the first descriptor, and the
// interrupt.
func Start(configs.Design) int64 { return rtl.StartStates + 1 }

// Segment is the law for the layers first..last as one start.
func Segment(d configs.Design, layers []abi.Desc, fbcb [][]abi.FBCB, first, last, bact int) (int64, error) {
	times, err := Times(d, layers, fbcb, first, last, bact)
	return Sum(d, times), err
}

// Sum is a start of layers that take so long.
func Sum(d configs.Design, times []Breakdown) int64 {
	total := Start(d)
	for i := range times {
		total += times[i].Total
	}
	return total
}

// Times is what each of them takes in it: beside Start these are all its cycles.
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

// Nanoseconds turns cycles into time on a design's clock, rounded up.
func Nanoseconds(d configs.Design, c int64) int64 {
	return int64(math.Ceil(float64(c) * 1000 / float64(d.ClockMHz)))
}

func ceil(a, b int) int { return (a + b - 1) / b }

func round(a, b int64) int64 { return (a + b - 1) / b * b }

func cycles(bytes int64, perCycle float64) int64 {
	return int64(math.Ceil(float64(max(0, bytes)) / perCycle))
}
