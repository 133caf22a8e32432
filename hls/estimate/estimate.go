// Package estimate estimates the cycles of the HLS kernel's stages from the code's own initiation intervals
// and trip counts. No tool has scheduled anything for it: depths of pipelines are assumptions (assumedDepth), an
// II is what the pragma asks for. Reports of the vendor's synthesis (csynth.xml) replace both where
// somebody has them. Trip counts are held to C-simulation by a test.
package estimate

import (
	"fmt"
	"math"

	"github.com/sluice-npu/sluice/hls"
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
)

// Stages of the kernel, in the order of their names in its dataflow region.
var Stages = []string{
	"load_rows", "form_rows", "fetch_weights", "feed_weights", "multiply", "drain", "fetch_residual", "cut_residual",
	"finish", "keep_out", "pack_out", "write_out",
}

// Loop is how a pipelined loop is scheduled.
type Loop struct {
	II       int  `json:"ii"`
	Depth    int  `json:"depth"`    // cycles of one trip
	Reported bool `json:"reported"` // by synthesis; else the pragma's II and an assumed depth
}

// Model is a design with its loops.
type Model struct {
	Design configs.Design
	Loops  map[string]Loop // by function.label
	// Reports are those of synthesis that were read, in their order.
	Reports []Report
}

// assumedDepth is what a pipeline takes from a trip's first to its last cycle where no report says it: a read of
// a block RAM, a rotation, a multiplier with its registers, a tree of adders, a write.
const assumedDepth = 12

// New takes the loops as the kernel's pragmas state them.
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
	Stages  map[string]int64 `json:"stages"` // cycles of each stage on its own
	DRAM    int64            `json:"dram"`   // cycles that DRAM takes for the bytes of all beats
	Port    int64            `json:"port"`   // and the memory port that has most of them, a beat a cycle
	Cycles  int64            `json:"cycles"` // of the layer
	Bound   string           `json:"bound"`  // the stage that takes longest, BoundDRAM or BoundPort
	Streams map[string]int64 `json:"streams"`
}

// What bounds a layer that is no stage.
const (
	BoundDRAM = "DRAM"
	BoundPort = "port"
)

// item is what a row tile times a C tile takes: to load its rows (0 where they are there), then in the array and
// what streams into it, then behind it. Each of these hands over a block of memory as a whole.
type item struct{ load, front, back int64 }

// schedule is when the last of the items is done. Between two steps there are two blocks: a step begins when the one
// before has filled one, and has room when the one behind has left the last but one.
func schedule(items []item) int64 {
	var loaded, front, back int64
	released := []int64{0, 0} // of the tiles' blocks, in the order of loads
	left := []int64{0, 0}     // of the accumulators'
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

// layer is a descriptor under its entry as the kernel decodes it.
type layer struct {
	d           *abi.Desc
	e           abi.FBCB
	batch       int
	gemm, two   bool
	lanes, tc   int
	passes      int
	outer       bool // C tiles outermost
	tiles       []tile
	channels    []int // of each C tile
	resWhole    bool
	outWhole    bool
	bytes       int // of the weights
	replay      bool
	beat, words int
}

func (m *Model) decode(desc *abi.Desc, e abi.FBCB, batch int) *layer {
	d := m.Design
	l := &layer{d: desc, e: e, batch: batch, gemm: desc.Op == abi.OpGEMM, two: int(e.BR) != batch, lanes: d.TP, tc: d.TC, bytes: int(desc.WBytes1)}
	switch e.K {
	case 1:
		l.lanes, l.tc, l.bytes = d.TP/2, 2*d.TC, int(desc.WBytesH)
	case 2:
		l.lanes, l.tc, l.bytes = 2*d.TP, d.TC/2, int(desc.WBytes2)
	}
	if l.two {
		l.tc /= 2
	}
	l.beat, l.words = d.AXIBytes, d.AXIBytes/2
	l.passes = int(desc.KH) * ceil(int(desc.KWC), l.lanes)
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

// runs are the runs of words of an item in a tensor, and the beats that they reach. Slots begin on beats.
func (l *layer) runs(t tile, whole bool, offset, rowBytes uint32, pix, c0, nch int) (n, beats int64) {
	perRow, words := 1, int(l.d.OutW)*nch
	if !whole {
		perRow, words = int(l.d.OutW), nch
	}
	for r := range l.rows(t) {
		row := int64(offset) + int64(t.oh0+r)*int64(rowBytes)
		for x := range perRow {
			skip := int((row+2*int64(x*pix+c0))%int64(l.beat)) / 2
			n++
			beats += int64(ceil(skip+words, l.words))
		}
	}
	samples := int64(l.samples(t, 0) + l.samples(t, 1))
	return n * samples, beats * samples
}

// groups are the steps of DRAIN words in which nch channels of a pixel leave.
func (m *Model) groups(l *layer, nch int) int {
	if l.gemm {
		return ceil(nch, m.Design.Drain)
	}
	nb := m.Design.NB()
	return nch/nb*ceil(nb, m.Design.Drain) + ceil(nch%nb, m.Design.Drain)
}

// Layer estimates one layer at a batch under a legal entry.
//
// A stage takes what its loops take. Items follow each other as schedule has them, in each of whose steps what streams
// into one another runs at the same time, as long as its longest. A layer takes at least what DRAM and its ports
// take for its beats.
func (m *Model) Layer(desc *abi.Desc, e abi.FBCB, batch int) Layer {
	l := m.decode(desc, e, batch)
	now := map[string]int64{} // stages' cycles of this item
	out := Layer{Stages: map[string]int64{}, Streams: map[string]int64{}}
	latency := int64(m.Design.DRAM.LatencyCycles)
	// trips adds a loop that is entered so many times with so many trips in all.
	trips := func(stage, loop string, entries, n int64) {
		s, ok := m.Loops[loop]
		if !ok {
			panic("estimate: the kernel has no pipelined loop " + loop) // TestLoops
		}
		if n > 0 {
			now[stage] += n*int64(s.II) + entries*int64(s.Depth)
		}
	}
	// a run is a burst of its own: the next is asked for when it has come
	wait := func(stage string, runs int64) { now[stage] += runs * latency }
	// done takes what has been added, at the end of an item or of what a layer does once.
	done := func() map[string]int64 {
		was := now
		for s, n := range was {
			out.Stages[s] += n
		}
		now = map[string]int64{}
		return was
	}
	longest := func(of map[string]int64, stages ...string) (n int64) {
		for _, s := range stages {
			n = max(n, of[s])
		}
		return n
	}
	items := make([][]item, len(l.tiles)) // by row tile, C tile
	weights := map[*item]int64{}
	var loadBeats, weightBeats int64

	visits := int64(1)
	if l.outer {
		visits = int64(len(l.channels))
	}
	for i, t := range l.tiles {
		items[i] = make([]item, len(l.channels))
		if e.KeepIn {
			trips("load_rows", "load_rows.kept_lines", visits, visits*int64(m.Design.ABufWords))
		} else {
			first := t.oh0*int(desc.SH) - int(desc.PadT)
			end := first + (l.rows(t)-1)*int(desc.SH) + int(desc.KH)
			n := int64(max(0, min(end, int(desc.InH))-max(first, 0))) * int64(l.samples(t, 0)+l.samples(t, 1))
			runs, elems := n, int(desc.InRow)
			if desc.InPix != desc.InC {
				runs, elems = n*int64(desc.InW), int(desc.InC)
			}
			trips("load_rows", "load_run.beats", visits*runs, visits*runs*int64(ceil(elems, l.words)))
			wait("load_rows", visits*runs)
			loadBeats += visits * runs * int64(ceil(elems, l.words))
		}
		load := done()["load_rows"] / visits
		pixels := l.rows(t) * int(desc.OutW)
		all := int64(pixels) * int64(l.samples(t, 0)+l.samples(t, 1))
		if !l.gemm {
			windows := int64(pixels) * int64(l.samples(t, 0)) * int64(ceil(int(desc.InC), m.Design.NB()))
			taps := windows * int64(desc.KH) * int64(desc.KW)
			trips("form_rows", "form_taps.tap", 1, taps)
			out.Streams["rows"] += taps
			trips("multiply", "pool.taps", windows, taps)
			steps := int64(pixels) * int64(l.samples(t, 0)) * int64(m.groups(l, int(desc.OutC)))
			trips("multiply", "pool.give", windows, steps)
			trips("drain", "drain.pass_on", 1, steps)
			out.Streams["pooled"] += steps
		}
		for tile, nch := range l.channels {
			c0 := tile * l.tc
			steps := all * int64(m.groups(l, nch))
			out.Streams["sums"] += steps
			out.Streams["outs"] += steps
			trips("finish", "finish.steps", 1, steps)
			if l.gemm {
				rows := int64(pixels) * int64(l.samples(t, 0))
				trips("form_rows", "form_pass.row", int64(l.passes), int64(l.passes)*rows)
				out.Streams["rows"] += int64(l.passes) * rows
				vectors := int64(l.passes) * int64(nch)
				trips("multiply", "multiply.hold", int64(l.passes), vectors)
				trips("multiply", "multiply.rows", int64(l.passes), int64(l.passes)*rows)
				out.Streams["vecs"] += vectors
				bytes := (2*l.passes*l.lanes*nch + abi.WeightAlign - 1) / abi.WeightAlign * abi.WeightAlign
				trips("feed_weights", "feed_weights.steps", 1, vectors+int64(bytes/l.beat))
				out.Streams["weights"] += int64(bytes / l.beat)
				weights[&items[i][tile]] = int64(bytes / l.beat)
				trips("drain", "drain.steps", 2, steps)
			}
			if desc.Residual {
				n, beats := l.runs(t, l.resWhole, desc.ResOffset, desc.ResRowBytes, int(desc.ResPix), c0, nch)
				trips("fetch_residual", "fetch_residual.beats", n, beats)
				wait("fetch_residual", n)
				trips("cut_residual", "cut_residual.steps", n, beats+steps)
				out.Streams["fetched"] += beats
				out.Streams["residuals"] += steps
			}
			if e.KeepOut {
				trips("keep_out", "keep_run.keep", all, steps)
			} else {
				trips("keep_out", "keep_out.pass_on", 1, steps)
			}
			if !e.OnChip {
				n, beats := l.runs(t, l.outWhole, desc.OutOffset, desc.OutRowBytes, int(desc.OutPix), c0, nch)
				trips("pack_out", "pack_out.steps", n, beats+steps)
				trips("write_out", "write_out.beats", n, beats)
				// answers are waited for with so many runs open
				now["write_out"] = max(now["write_out"], n*latency/outstanding)
				out.Streams["local"] += steps
				out.Streams["packed"] += beats
			}
			it := &items[i][tile]
			if l.outer || tile == 0 {
				it.load = load
			}
			of := done()
			it.front = longest(of, "form_rows", "feed_weights", "multiply")
			it.back = longest(of, "drain", "fetch_residual", "cut_residual", "finish", "keep_out", "pack_out", "write_out")
			if !l.gemm { // a pool's results stream through
				it.front, it.back = max(it.front, it.back), 0
			}
		}
	}
	bias := int64(ceil(4*int(desc.BiasCount), l.beat))
	trips("fetch_weights", "fetch_weights.biases", 1, bias)
	if desc.AvgTable {
		trips("finish", "finish.entries", 1, int64(desc.BiasCount))
	} else {
		trips("finish", "finish.take", 1, bias)
	}
	out.Streams["biases"] = bias
	if l.gemm {
		wait("fetch_weights", 1)
		fetches, replays := int64(len(l.tiles)), int64(0) // of what a C tile, or all of them, take
		if l.replay {
			fetches, replays = 1, fetches-1
		}
		once := out.Streams["weights"] / int64(len(l.tiles))
		trips("fetch_weights", "fetch_weights.beats", fetches*visits, fetches*once)
		trips("fetch_weights", "fetch_weights.replayed", replays*visits, replays*once)
		wait("fetch_weights", fetches*visits)
		weightBeats = fetches * once
	}
	of := done()
	items[0][0].back += of["finish"] // biases, before the first sums
	for it, beats := range weights {
		it.front = max(it.front, of["fetch_weights"]*beats/max(1, out.Streams["weights"]))
	}
	var order []item
	if l.outer {
		for tile := range l.channels {
			for i := range l.tiles {
				order = append(order, items[i][tile])
			}
		}
	} else {
		for i := range l.tiles {
			order = append(order, items[i]...)
		}
	}
	for _, s := range Stages {
		if out.Bound == "" || out.Stages[s] > out.Stages[out.Bound] {
			out.Bound = s
		}
	}
	// behind the shell, the ports a, w, r, o have a memory port each, or share them in turns; what is written goes beside
	// what is read
	beats := []int64{loadBeats, weightBeats + bias, out.Streams["fetched"]}
	written, read := out.Streams["packed"], make([]int64, m.Design.NAXI)
	out.Port = written
	all := written
	for b, n := range beats {
		read[b%len(read)] += n
		out.Port = max(out.Port, read[b%len(read)])
		all += n
	}
	out.DRAM = int64(math.Ceil(float64(all*int64(l.beat)) / m.Design.DRAM.BytesPerCycle))
	busy := schedule(order)
	if floor := max(out.DRAM, out.Port); floor >= busy {
		busy = floor
		out.Bound = BoundDRAM
		if out.Port > out.DRAM {
			out.Bound = BoundPort
		}
	}
	// the descriptor comes before, the last answer behind
	out.Cycles = latency + int64(abi.DescBytes/l.beat) + busy
	if !e.OnChip {
		out.Cycles += latency
	}
	if e.KeepOut { // what the next layer reads is copied
		out.Cycles += int64(m.Design.ABufWords)
	}
	return out
}
