// Package machine simulates a start of the NPU like the RTL, cycle by cycle, but without data. Each file models a
// hardware unit as a small state machine with the registers of the unit's module in hw/rtl. The memory is that of
// sim/dram.hpp. The result is the number of cycles, and the stalls with the names of the RTL's counters.
//
// # A cycle
//
// The function step is one clock edge. Units that read a register run before the unit that writes the register, so they
// read the values from before the edge. Some signals pass within a cycle: a swap, and a bank or a half that becomes
// free. They pass from a unit to a unit that runs later. A start begins with the zero value, as after a reset. A later
// layer begins with the state after the previous layer.
//
//	fetch ─ offers a layer to every unit
//	ports ◀─ fetch, activations, weights, residuals       four clients, one arbiter, one memory
//	activations ─ avail ▶ array ─ done ▶ drain ─ words ▶ output ─ runs ▶ ports
//	weights ─ ring ▶ feed ─ full ▶ array                   array ─ free ▶ activations, ─ swap ▶ feed
//	activations ─ avail ▶ pool ─ words ▶ output            drain ─ bank free ▶ array
//
// No constant is fitted (dse/rtl). Only the part of an address that affects beats, stripes and pages matters. This part
// depends only on the descriptors, because every slot begins at a page.
package machine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/sluice-npu/sluice/dse/cost"
	"github.com/sluice-npu/sluice/dse/mapping"
	"github.com/sluice-npu/sluice/dse/rtl"
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
)

// ErrEndless is wrapped by errors about starts that do not end, and ErrStart by some errors about illegal starts.
var (
	ErrEndless = errors.New("the machine does not end")
	ErrStart   = errors.New("no start of this design")
)

// Layer is a layer of a start, with its entry.
type Layer struct {
	cost.Geom
	Entry    abi.FBCB
	RowBytes int // distance between input rows in DRAM in bytes; 0: IN_W * IN_PIX elements
}

// Of returns the layers first to last of a bundle, with their entries for a batch size.
func Of(layers []abi.Desc, fbcb [][]abi.FBCB, first, last, bact int) ([]Layer, error) {
	if first < 0 || last < first || last >= min(len(layers), len(fbcb)) {
		return nil, fmt.Errorf("machine: layers %d..%d of %d", first, last, len(layers))
	}
	var of []Layer
	for i := first; i <= last; i++ {
		if bact < 1 || bact > len(fbcb[i]) {
			return nil, fmt.Errorf("machine: layer %d has no FBCB entry for a batch of %d", i, bact)
		}
		of = append(of, Layer{cost.GeomOf(&layers[i]), fbcb[i][bact-1], int(layers[i].InRowBytes)})
	}
	return of, nil
}

// Segment simulates one start with the layers first to last of a bundle, for a batch size.
func Segment(ctx context.Context, d configs.Design, layers []abi.Desc, fbcb [][]abi.FBCB, first, last, bact int) (Result, error) {
	of, err := Of(layers, fbcb, first, last, bact)
	if err != nil {
		return Result{}, err
	}
	return Run(ctx, d, of, bact)
}

// Stalls contains the number of cycles in which the array or a port waited, as the RTL counts them (npu_counters).
type Stalls struct {
	Weights     uint64 `json:"weights"`
	Activations uint64 `json:"activations"`
	Drain       uint64 `json:"drain"`
	Depth       uint64 `json:"depth"`
	Read        uint64 `json:"read"`  // a read address waited for its port
	Write       uint64 `json:"write"` // write data waited for their port
}

// StallsOf returns the stalls from the counters of an NPU.
func StallsOf(n *[abi.CntCount]uint64) Stalls {
	return Stalls{n[abi.CntStallWeights], n[abi.CntStallActivations], n[abi.CntStallDrain], n[abi.CntStallDepth], n[abi.CntStallRead], n[abi.CntStallWrite]}
}

// Add adds the stalls of another start.
func (s *Stalls) Add(x Stalls) {
	s.Weights += x.Weights
	s.Activations += x.Activations
	s.Drain += x.Drain
	s.Depth += x.Depth
	s.Read += x.Read
	s.Write += x.Write
}

// Spent is the time of a layer. It begins at the end of the previous layer, or at the beginning of the start.
type Spent struct {
	Cycles int64  `json:"cycles"`
	Stalls Stalls `json:"stalls"`
}

// Result is the result of a start.
type Result struct {
	Cycles int64 // including the cycles before the first layer and after the last layer
	Stalls Stalls
	Layers []Spent
}

// written records the time of the layer that has ended, relative to the end of the previous layer.
func (m *machine) written(now int64) {
	s, t := &m.Stalls, &m.before.Stalls
	m.Layers = append(m.Layers, Spent{now - m.before.Cycles, Stalls{s.Weights - t.Weights, s.Activations - t.Activations, s.Drain - t.Drain, s.Depth - t.Depth, s.Read - t.Read, s.Write - t.Write}})
	m.before = Spent{now, m.Stalls}
}

// machine contains the registers of an NPU and its memory.
type machine struct {
	d      configs.Design
	bact   int
	layers []layer
	now    int64

	elem  int // bytes of an element
	wide  int // bytes of a wide beat
	beat  int // number of elements of a wide beat
	lanes int // number of beats of a port in a wide beat

	fetch  fetch
	acts   loader
	weight fetcher
	ring   ring
	feed   feeder
	array  array
	pool   pool
	drain  drain
	res    residual
	out    output
	read   readPorts
	write  writePorts
	dram   dram

	ended  int   // number of layers that are completely written
	before Spent // cycles and stalls at the end of the last of these layers
	Result
}

// most is the number of cycles after which a simulation is aborted.
const most = 1 << 32

// Check returns an error for a start that the RTL refuses.
func Check(d configs.Design, layers []Layer, bact int) error {
	if err := d.Elaborates(); err != nil {
		return err
	}
	if math.Round(d.DRAM.BytesPerCycle*65536) < 1 {
		return fmt.Errorf("%w: dram.bytes_per_cycle is %g, must be 1/65536 at least", ErrStart, d.DRAM.BytesPerCycle)
	}
	if len(layers) < 1 || len(layers) > abi.LMax {
		return fmt.Errorf("%w: %d layers, must be 1..%d", ErrStart, len(layers), abi.LMax)
	}
	var geoms []cost.Geom
	var entries []abi.FBCB
	for i := range layers {
		l := &layers[i]
		err := cmp.Or(mapping.Limits(d, l.Geom), mapping.Check(d, l.Geom, bact, l.Entry))
		if least := d.ElemBytes() * l.InW * l.InPix; err == nil && l.RowBytes != 0 && (l.RowBytes < least || l.RowBytes%d.ElemBytes() != 0) {
			err = fmt.Errorf("%w: %d bytes from an input row to the next, must be %d or more, whole elements", ErrStart, l.RowBytes, least)
		}
		if err == nil && l.Drained() && l.BiasCount < l.OutC {
			err = fmt.Errorf("%w: %d words of biases, must be %d at least", ErrStart, l.BiasCount, l.OutC)
		}
		if err != nil {
			return fmt.Errorf("layer %d of the start: %w", i, err)
		}
		geoms, entries = append(geoms, l.Geom), append(entries, l.Entry)
	}
	return mapping.CheckLinks(geoms, entries)
}

// Run simulates a start of the layers. It returns an error if ctx is cancelled.
func Run(ctx context.Context, d configs.Design, layers []Layer, bact int) (Result, error) {
	return watched(ctx, d, layers, bact, func(*machine) {})
}

// watched simulates a start, and calls look with the registers after each clock edge.
func watched(ctx context.Context, d configs.Design, layers []Layer, bact int, look func(*machine)) (Result, error) {
	if err := Check(d, layers, bact); err != nil {
		return Result{}, fmt.Errorf("machine: %w", err)
	}
	m := newMachine(d, layers, bact)
	for !m.done() {
		m.step()
		look(m)
		if m.now > most {
			return m.Result, fmt.Errorf("%w: it stands in layer %d of the start", ErrEndless, m.ended)
		}
		if m.now%(1<<16) == 0 && ctx.Err() != nil {
			return m.Result, context.Cause(ctx)
		}
	}
	m.Cycles = m.now + 1 // done_o is set one cycle after its condition is true (npu_start)
	return m.Result, nil
}

func newMachine(d configs.Design, layers []Layer, bact int) *machine {
	m := &machine{d: d, bact: bact, elem: d.ElemBytes(), wide: d.WideBytes()}
	m.beat, m.lanes = m.wide/m.elem, m.wide/d.AXIBytes
	for i := range layers {
		m.layers = append(m.layers, newLayer(&d, &layers[i], bact))
	}
	m.read.reset(m)
	m.write.reset(m)
	m.dram.reset(d)
	m.weight.reset(m)
	m.res.free, m.res.runs.residual, m.pool.room = rtl.ResBeats, true, rtl.PoolRoom
	m.res.most, m.feed.most = m.weight.chunk*m.beat, max(d.WLoad*d.TP, 8)
	m.pool.pipe.stages, m.drain.pipe.stages = cost.WordStages(&d, false), cost.WordStages(&d, true)
	return m
}

// done reports whether the condition of npu_start for the end of the start is true.
func (m *machine) done() bool {
	return m.ended == len(m.layers) && m.read.idle() && m.feed.state == idle
}

// step simulates one clock edge.
func (m *machine) step() {
	m.read.decide(m)
	m.write.decide(m)
	m.array.step(m)
	m.pool.walk(m)
	m.drain.step(m)
	m.feed.step(m)
	m.acts.step(m)
	m.weight.step(m)
	m.res.step(m)
	m.pool.give(m)
	m.out.step(m)
	m.fetch.step(m)
	m.read.step(m)
	m.write.step(m)
	m.dram.step()
	m.now++
}

// queue is a FIFO of registers or RAM.
type queue[T any] struct {
	at      []T
	head, n int
}

func (q *queue[T]) push(v T) {
	if q.n == len(q.at) {
		at := make([]T, max(8, 2*q.n))
		for i := range q.n {
			at[i] = q.at[(q.head+i)&(q.n-1)]
		}
		q.at, q.head = at, 0
	}
	q.at[(q.head+q.n)&(len(q.at)-1)] = v
	q.n++
}

func (q *queue[T]) front() *T { return &q.at[q.head] }

func (q *queue[T]) pop() T {
	v := q.at[q.head]
	q.head = (q.head + 1) & (len(q.at) - 1)
	q.n--
	return v
}

// pipe represents stages that move together. The field `at` contains the number of words in each stage.
type pipe struct {
	at     [32]uint8
	first  int // index of stage 0
	under  int // number of stages with words
	stages int // number of stages after stage 0
}

// leaves returns the number of words in the last stage.
func (p *pipe) leaves() int { return int(p.at[(p.first+p.stages)&31]) }

// move moves the words of each stage to the next stage. Stage 0 is then empty.
func (p *pipe) move() {
	if last := &p.at[(p.first+p.stages)&31]; *last > 0 {
		*last = 0
		p.under--
	}
	p.first = (p.first - 1) & 31
}

func (p *pipe) put(words int) {
	p.at[p.first] = uint8(words)
	p.under++
}

func ceil(a, b int) int { return (a + b - 1) / b }
