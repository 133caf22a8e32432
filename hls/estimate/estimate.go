// Package estimate estimates the cycles of the HLS kernel's stages from initiation intervals and trip counts. No tool
// has scheduled the code: pipeline depths are assumptions (assumedDepth), and an II is the value of the pragma. Values
// in reports of the vendor's synthesis (csynth.xml) replace both. A test compares the trip counts with C-simulation.
package estimate

import (
	"fmt"
	"math"
	"slices"

	"github.com/sluice-npu/sluice/hls"
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
)

// Stages of the kernel, as named in its dataflow region.
var Stages = []string{
	"load_rows", "form_rows", "fetch_weights", "feed_weights", "multiply", "drain", "fetch_residual", "cut_residual",
	"finish", "keep_out", "pack_out", "write_out",
}

// Loop is the schedule of a pipelined loop.
type Loop struct {
	II       int  `json:"ii"`
	Depth    int  `json:"depth"`    // cycles of one trip
	Reported bool `json:"reported"` // true: from a synthesis report; false: II of the pragma, and assumed depth
}

// Model is a design and its loops.
type Model struct {
	Design configs.Design
	Loops  map[string]Loop // by function.label
	// Reports are the synthesis reports that were read, in their order.
	Reports []Report
}

// assumedDepth is the number of cycles of a trip if no report states the number. It covers a block RAM read, a
// rotation, a multiplier with its registers, an adder tree and a write.
const assumedDepth = 12

// New creates a model with the loops and IIs from the kernel's pragmas.
func New(d configs.Design) (*Model, error) {
	ii, err := hls.Pipelines()
	if err != nil {
		return nil, fmt.Errorf("estimate: %w", err)
	}
	m := &Model{Design: d, Loops: map[string]Loop{}}
	for name, n := range ii {
		m.Loops[name] = Loop{II: n, Depth: assumedDepth}
	}
	return m, nil
}

// Layer is the estimate of one layer.
type Layer struct {
	Stages  map[string]int64 `json:"stages"` // cycles of each stage without waiting for other stages
	DRAM    int64            `json:"dram"`   // cycles in which DRAM transfers the bytes of all beats
	Port    int64            `json:"port"`   // cycles of the memory port with the most beats, one beat per cycle
	Cycles  int64            `json:"cycles"` // total of the layer
	Bound   string           `json:"bound"`  // the slowest stage, or BoundDRAM or BoundPort
	Streams map[string]int64 `json:"streams"`
}

// Values of Layer.Bound that are not stages.
const (
	BoundDRAM = "DRAM"
	BoundPort = "port"
)

// item contains the cycles of three steps for one row tile and one C tile: load rows (0 if on chip), compute in the
// array, and process results. Each step passes a whole block of memory to the next step.
type item struct{ load, front, back int64 }

// schedule returns the cycle in which the last item is done. There are two blocks between two steps. A step can begin
// item i when the previous step has filled the block of item i, and the next step has emptied the block of item i-2.
func schedule(items []item) int64 {
	var loaded, front, back int64
	released := []int64{0, 0} // cycles in which the tiles' blocks become free, in the order of loads
	left := []int64{0, 0}     // cycles in which the accumulators' blocks become free
	for _, it := range items {
		if it.load > 0 || len(released) == 2 {
			loaded = max(loaded, released[len(released)-2]) + it.load
			released = append(released, 0)
		}
		front = max(front, loaded, left[len(left)-2]) + it.front
		released[len(released)-1] = front
		back = max(back, front) + it.back
		left = append(left, back)
	}
	return back
}

func ceil(a, b int) int { return (a + b - 1) / b }

type tile struct{ b0, oh0 int }

// layer is a descriptor with its FBCB entry, as the kernel decodes them.
type layer struct {
	d           *abi.Desc
	e           abi.FBCB
	batch       int
	gemm, pool  bool
	two         bool
	lanes, tc   int
	passes      int  // number of passes of the array; depthwise: number of words of NB weights
	outer       bool // C tiles are the outermost loop
	tiles       []tile
	channels    []int // number of channels of each C tile
	resWhole    bool
	resOnce     bool // the residual is one pixel for all positions
	outWhole    bool
	bytes       int // size of the weights in bytes
	replay      bool
	beat, words int // size of a beat in bytes, and in elements
	elem        int // bytes of an element
	pair        int // number of channels in a vector of weights
}

func (m *Model) decode(desc *abi.Desc, e abi.FBCB, batch int) *layer {
	d := m.Design
	l := &layer{d: desc, e: e, batch: batch, gemm: desc.Op == abi.OpGEMM, pool: desc.Op == abi.OpMaxPool || desc.Op == abi.OpAvgPool, two: int(e.BR) != batch, lanes: d.TP, tc: d.TC, bytes: int(desc.WBytes1)}
	switch e.K {
	case 1:
		l.lanes, l.tc, l.bytes = d.TP/2, 2*d.TC, int(desc.WBytesH)
	case 2:
		l.lanes, l.tc, l.bytes = 2*d.TP, d.TC/2, int(desc.WBytes2)
	}
	if l.two {
		l.tc /= 2
	}
	l.elem, l.pair = d.ElemBytes(), d.PerDSP()
	l.beat, l.words = d.AXIBytes, d.AXIBytes/l.elem
	l.passes = int(desc.KH) * ceil(int(desc.KWC), l.lanes)
	if !l.gemm {
		l.lanes = d.NB() / l.pair
		l.passes = int(desc.KH) * int(desc.KW) * ceil(int(desc.InC), d.NB())
	}
	for b0 := 0; b0 < int(e.BR); b0 += int(e.TileB) {
		for oh := 0; oh < int(desc.OutH); oh += int(e.TileRows) {
			l.tiles = append(l.tiles, tile{b0, oh})
		}
	}
	if !l.gemm {
		l.channels = []int{int(desc.OutC)}
	} else {
		for c := 0; c < int(desc.OutC); c += l.tc {
			l.channels = append(l.channels, min(l.tc, int(desc.OutC)-c))
		}
	}
	l.outer = e.Order && len(l.tiles) > 1
	l.replay = e.Order || l.bytes <= d.WRingBeats*d.AXIBytes-abi.RingSpare
	one := len(l.channels) == 1
	l.outWhole = one && desc.OutPix == desc.OutC
	l.resWhole = one && desc.ResPix == desc.OutC
	l.resOnce = desc.ResPix == 0
	return l
}

func (l *layer) rows(t tile) int { return min(int(l.e.TileRows), int(l.d.OutH)-t.oh0) }

func (l *layer) samples(t tile, group int) int {
	n := min(int(l.e.TileB), int(l.e.BR)-t.b0)
	if group == 0 {
		return n
	}
	if !l.two {
		return 0
	}
	return max(0, min(n, l.batch-int(l.e.BR)-t.b0))
}

// runs splits an item's words in a tensor into runs of consecutive words. It returns the number of runs and of their
// beats. Each sample begins at a beat.
func (l *layer) runs(t tile, whole, once bool, offset, rowBytes uint32, pix, c0, nch int) (n, beats int64) {
	rows, perRow, words := l.rows(t), 1, int(l.d.OutW)*nch
	if !whole {
		perRow, words = int(l.d.OutW), nch
	}
	if once {
		rows, perRow = 1, 1
	}
	for r := range rows {
		row := int64(offset) + int64(t.oh0+r)*int64(rowBytes)
		for x := range perRow {
			skip := int((row+int64(l.elem)*int64(x*pix+c0))%int64(l.beat)) / l.elem
			n++
			beats += int64(ceil(skip+words, l.words))
		}
	}
	samples := int64(l.samples(t, 0) + l.samples(t, 1))
	return n * samples, beats * samples
}

// groups returns the number of steps that write nch channels of a pixel, with DRAIN words per step.
func (m *Model) groups(nch int) int { return ceil(nch, m.Design.Drain) }

// period returns the number of trips that the lanes need for a window: the maximum of the window's taps and parts.
// `parts` is the number of groups of DRAIN words in a window's result.
func (m *Model) period(l *layer) (period, parts int) {
	words, nb := int(l.d.InC), m.Design.NB()
	if words > nb {
		if words = nb; nb%m.Design.Drain != 0 {
			words += m.Design.Drain - 1
		}
	}
	parts = m.groups(words)
	return max(int(l.d.KH)*int(l.d.KW), parts), parts
}

// weightBeats returns the number of beats that contain the given number of weight vectors.
func (l *layer) weightBeats(vectors int) int64 {
	return int64(ceil(2*vectors*l.lanes, abi.WeightAlign) * abi.WeightAlign / l.beat)
}

// Layer estimates one layer for a batch size and a legal FBCB entry.
//
// The cycles of a stage are the sum over its loops. schedule describes how items overlap. Within one step, stages that
// are connected by streams run concurrently, so the slowest stage determines the step's cycles. A layer takes at least
// as long as the DRAM and the DRAM ports need to transfer the layer's beats.
func (m *Model) Layer(desc *abi.Desc, e abi.FBCB, batch int) Layer {
	l := m.decode(desc, e, batch)
	w := &work{Model: m, layer: l, visits: 1, now: map[string]int64{}, out: Layer{Stages: map[string]int64{}, Streams: map[string]int64{}}}
	if l.outer {
		w.visits = int64(len(l.channels))
	}
	items := make([][]item, len(l.tiles)) // by row tile, C tile
	weights := map[*item]int64{}          // beats of weights, by item
	for i, t := range l.tiles {
		items[i] = make([]item, len(l.channels))
		load := w.load(t)
		if !l.gemm {
			weights[&items[i][0]] = w.windows(t, i == 0)
		}
		for tile, nch := range l.channels {
			it := &items[i][tile]
			if l.gemm {
				weights[it] = w.array(t, nch)
			}
			w.results(t, tile*l.tc, nch)
			if l.outer || tile == 0 {
				it.load = load
			}
			of := w.done()
			it.front = longest(of, "form_rows", "feed_weights", "multiply")
			it.back = longest(of, "drain", "fetch_residual", "cut_residual", "finish", "keep_out", "pack_out", "write_out")
			if !l.gemm { // the sums of such a layer are streamed
				it.front, it.back = max(it.front, it.back), 0
			}
		}
	}
	w.once()
	of := w.done()
	items[0][0].back += of["finish"] // biases, before the first sums
	for it, beats := range weights {
		it.front = max(it.front, of["fetch_weights"]*beats/max(1, w.out.Streams["weights"]))
	}
	return w.total(schedule(l.order(items)))
}

// work adds up the cycles of a layer's stages.
type work struct {
	*Model
	*layer
	visits          int64            // number of loads of each row tile
	now             map[string]int64 // cycles of this item, by stage
	inBeats, wBeats int64            // beats of rows and of weights
	out             Layer
}

// trips adds the cycles of a loop. entries is the number of starts of the loop, and n is the total number of trips.
func (w *work) trips(stage, loop string, entries, n int64) {
	s, ok := w.Loops[loop]
	if !ok {
		panic("estimate: the kernel has no pipelined loop " + loop) // TestLoops
	}
	if n > 0 {
		w.now[stage] += n*int64(s.II) + entries*int64(s.Depth)
	}
}

func (w *work) latency() int64 { return int64(w.Design.DRAM.LatencyCycles) }

// wait adds the latency of runs. Each run is a burst, and the next burst is requested when the previous burst has
// arrived.
func (w *work) wait(stage string, runs int64) { w.now[stage] += runs * w.latency() }

// done returns the cycles that were added since its last call. They belong to an item or to the method once.
func (w *work) done() map[string]int64 {
	was := w.now
	for s, n := range was {
		w.out.Stages[s] += n
	}
	w.now = map[string]int64{}
	return was
}

func longest(of map[string]int64, stages ...string) (n int64) {
	for _, s := range stages {
		n = max(n, of[s])
	}
	return n
}

// pixels returns the number of output pixels of a row tile in one sample. `all` returns the row tile's sample count.
func (l *layer) pixels(t tile) int { return l.rows(t) * int(l.d.OutW) }

func (l *layer) all(t tile) int64 { return int64(l.samples(t, 0) + l.samples(t, 1)) }

// load adds all loads of a row tile's rows, and returns the cycles of one load.
func (w *work) load(t tile) int64 {
	d := w.d
	if w.e.KeepIn {
		w.trips("load_rows", "load_rows.kept_lines", w.visits, w.visits*int64(w.Design.ABufWords))
	} else {
		first := t.oh0*int(d.SH) - int(d.PadT)
		end := first + (w.rows(t)-1)*int(d.SH) + int(d.KH)
		n := int64(max(0, min(end, int(d.InH))-max(first, 0))) * w.all(t)
		runs, elems := n, int(d.InRow)
		if d.InPix != d.InC {
			runs, elems = n*int64(d.InW), int(d.InC)
		}
		beats := w.visits * runs * int64(ceil(elems, w.words))
		w.trips("load_rows", "load_run.beats", w.visits*runs, beats)
		w.wait("load_rows", w.visits*runs)
		w.inBeats += beats
	}
	return w.done()["load_rows"] / w.visits
}

// windows adds the lanes' work for a row tile of a pool or depthwise layer. The first tile of a depthwise layer
// also reads the weights. windows returns the number of beats of the weights.
func (w *work) windows(t tile, first bool) int64 {
	d := w.d
	pixels := int64(w.pixels(t)) * int64(w.samples(t, 0))
	windows := pixels * int64(ceil(int(d.InC), w.Design.NB()))
	taps := windows * int64(d.KH) * int64(d.KW)
	period, parts := w.period(w.layer)
	w.trips("form_rows", "form_taps.tap", 1, taps)
	w.out.Streams["rows"] += taps
	w.trips("multiply", "tap_lanes.steps", 1, windows*int64(period))
	if first {
		w.now["multiply"] += int64(parts) * int64(w.Loops["tap_lanes.steps"].II) // results of the last window
	}
	steps := pixels * int64(w.groups(int(d.OutC)))
	w.trips("drain", "drain.pass_on", 1, steps)
	w.out.Streams["pooled"] += steps
	if w.pool || !first {
		return 0
	}
	w.trips("multiply", "tap_lanes.hold", 1, int64(w.passes))
	return w.feed(int64(w.passes))
}

// feed adds the cycles of the stage feed_weights for a number of weight vectors, and returns their number of beats.
func (w *work) feed(vectors int64) int64 {
	beats := w.weightBeats(int(vectors))
	w.trips("feed_weights", "feed_weights.steps", 1, vectors+beats)
	w.out.Streams["vecs"] += vectors
	w.out.Streams["weights"] += beats
	return beats
}

// array adds the work of the array for an item, and returns the number of beats of the item's weights.
func (w *work) array(t tile, nch int) int64 {
	passes, rows := int64(w.passes), int64(w.pixels(t))*int64(w.samples(t, 0))
	w.trips("form_rows", "form_pass.row", passes, passes*rows)
	w.out.Streams["rows"] += passes * rows
	vectors := passes * int64(ceil(nch, w.pair))
	w.trips("multiply", "multiply.hold", passes, vectors)
	w.trips("multiply", "multiply.rows", passes, passes*rows)
	w.trips("drain", "drain.steps", 2, int64(w.pixels(t))*w.all(t)*int64(w.groups(nch)))
	return w.feed(vectors)
}

// results adds the work on the results of an item, which has nch channels. c0 is the item's first channel.
func (w *work) results(t tile, c0, nch int) {
	d, s := w.d, w.out.Streams
	all := int64(w.pixels(t)) * w.all(t)
	steps := all * int64(w.groups(nch))
	s["sums"] += steps
	s["outs"] += steps
	w.trips("finish", "finish.steps", 1, steps)
	if d.Residual {
		n, beats := w.runs(t, w.resWhole, w.resOnce, d.ResOffset, d.ResRowBytes, int(d.ResPix), c0, nch)
		w.trips("fetch_residual", "fetch_residual.beats", n, beats)
		w.wait("fetch_residual", n)
		if w.resOnce {
			first := n * int64(w.groups(nch))
			w.trips("cut_residual", "cut_residual.steps", n, beats+first)
			w.trips("cut_residual", "cut_residual.others", n, steps-first)
		} else {
			w.trips("cut_residual", "cut_residual.steps", n, beats+steps)
		}
		s["fetched"] += beats
		s["residuals"] += steps
	}
	if w.e.KeepOut {
		w.trips("keep_out", "keep_run.keep", all, steps)
	} else {
		w.trips("keep_out", "keep_out.pass_on", 1, steps)
	}
	if !w.e.OnChip {
		n, beats := w.runs(t, w.outWhole, false, d.OutOffset, d.OutRowBytes, int(d.OutPix), c0, nch)
		w.trips("pack_out", "pack_out.steps", n, beats+steps)
		w.trips("write_out", "write_out.beats", n, beats)
		// the stage waits for answers when `outstanding` runs are unanswered
		w.now["write_out"] = max(w.now["write_out"], n*w.latency()/outstanding)
		s["local"] += steps
		s["packed"] += beats
	}
}

// once adds the work that occurs once per layer: reading biases and fetching weights.
func (w *work) once() {
	d := w.d
	bias := int64(ceil(4*int(d.BiasCount), w.beat))
	w.out.Streams["biases"] = bias
	w.trips("fetch_weights", "fetch_weights.biases", 1, bias)
	if d.AvgTable {
		w.trips("finish", "finish.entries", 1, int64(d.BiasCount))
	} else {
		words := 0
		if !w.pool {
			words = w.pair * int(d.OutC) // in int8 two words per channel
		}
		w.trips("finish", "finish.take", 1, int64(ceil(4*words, w.beat)))
	}
	if d.Residual && w.Design.Int8() {
		w.trips("finish", "finish.operand", 1, abi.ResWords)
	}
	if d.Curve {
		w.trips("finish", "finish.segments", 1, abi.CurveWords)
	}
	if w.pool {
		return
	}
	w.wait("fetch_weights", 1)
	fetches, replays := int64(1), int64(0) // number of fetches of a C tile's weights, number of replays from the ring
	if w.gemm {
		fetches = int64(len(w.tiles))
	}
	once := w.out.Streams["weights"] / fetches
	if w.replay {
		fetches, replays = 1, fetches-1
	}
	w.trips("fetch_weights", "fetch_weights.beats", fetches*w.visits, fetches*once)
	w.trips("fetch_weights", "fetch_weights.replayed", replays*w.visits, replays*once)
	w.wait("fetch_weights", fetches*w.visits)
	w.wBeats = fetches * once
}

// order returns the items in the order of execution.
func (l *layer) order(items [][]item) (all []item) {
	if !l.outer {
		return slices.Concat(items...)
	}
	for tile := range l.channels {
		for i := range l.tiles {
			all = append(all, items[i][tile])
		}
	}
	return all
}

// total returns the layer's estimate, from the cycles of its items.
func (w *work) total(busy int64) Layer {
	out := &w.out
	for _, s := range Stages {
		if out.Bound == "" || out.Stages[s] > out.Stages[out.Bound] {
			out.Bound = s
		}
	}
	// The ports "a", "w", "r" and "o" have one memory port each, or share the memory ports. Reads and writes overlap.
	beats := []int64{w.inBeats, w.wBeats + out.Streams["biases"], out.Streams["fetched"]}
	written, read := out.Streams["packed"], make([]int64, w.Design.NAXI)
	out.Port = written
	all := written
	for b, n := range beats {
		read[b%len(read)] += n
		out.Port = max(out.Port, read[b%len(read)])
		all += n
	}
	out.DRAM = int64(math.Ceil(float64(all*int64(w.beat)) / w.Design.DRAM.BytesPerCycle))
	if floor := max(out.DRAM, out.Port); floor >= busy {
		busy = floor
		out.Bound = BoundDRAM
		if out.Port > out.DRAM {
			out.Bound = BoundPort
		}
	}
	// The descriptor is read before the layer, and the last answer arrives after the layer.
	out.Cycles = w.latency() + int64(abi.DescBytes/w.beat) + busy
	if !w.e.OnChip {
		out.Cycles += w.latency()
	}
	if w.e.KeepOut { // the output is copied as the next layer's input
		out.Cycles += int64(w.Design.ABufWords)
	}
	return *out
}
