// A rig runs a random network on an NPU at register level.

package verify

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/sluice-npu/sluice/dse/golden"
	"github.com/sluice-npu/sluice/dse/randnet"
	"github.com/sluice-npu/sluice/dse/testvec"
	"github.com/sluice-npu/sluice/host/npu"
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
	"github.com/sluice-npu/sluice/sim/vectors"
)

const (
	rigMemory   = 4 << 20
	rigGuard    = 64 << 10       // bytes after the slots that must not be written
	rigBase     = 0x12_3456_0000 // an address of more than 32 bits
	rigWatchdog = 20_000         // cycles; a start of the rig always makes progress much earlier
)

// Machine is the bus of a rig. A co-simulation implements it.
type Machine interface {
	npu.Bus
	npu.HardResetter
	Step(n uint64) error
	Info() npu.CosimInfo
	Cycles() uint64
	AddFault(npu.Fault) error
	ClearFaults() error
	Stats(port int) (npu.PortStats, error)
}

// Rig loads and starts networks like a driver, but does not handle faults. Checks of faults and of the stub use it.
type Rig struct {
	design configs.Design
	bus    Machine
	mem    []byte

	net     *randnet.Net
	records []vectors.Record // writes that load the network
	slots   int              // offset of slot 0 in mem
	used    int              // number of checked bytes of mem
	image   []byte           // mem[:used] after loading
	trial   trial
	late    uint64 // last cycle in which responses to an aborted start can arrive
}

// trial is a start without a fault, and its result.
type trial struct {
	first, last int
	table       []int
	before      []byte // content of all slots before the start
	after       []byte
	written     []bool // by byte of a slot: whether the layers write it
	cycles      uint64
	reads       []uint64 // number of bursts, by port
	writes      []uint64
	work        work
	counters    [abi.CntCount]uint64
}

// regs contains the register values of a start.
type regs struct {
	layers, batch uint32
	table         [abi.RegSlotTableCount]uint32
}

// ending describes the end of a start.
type ending struct {
	hangs  bool
	cycles uint64
	code   abi.ErrCode
	layer  int
	port   int
	addr   uint32
	late   bool // counts can include responses to an earlier start
	counts
}

func (e ending) String() string {
	switch {
	case e.hangs:
		return "hangs"
	case e.code == abi.ErrNone:
		return "harmless"
	}
	return e.code.String()
}

// RigMemory returns the bus options for a rig's memory.
func RigMemory() npu.CosimOpts { return npu.CosimOpts{DRAMBytes: rigMemory, Base: rigBase} }

// NewRig returns a rig on a bus with the memory of RigMemory.
func NewRig(bus Machine, d configs.Design) *Rig {
	r := &Rig{design: d, bus: bus}
	r.mem, _ = bus.DRAM()
	return r
}

// small returns the options for networks whose starts take about 10,000 cycles and sometimes fill the accumulators.
func small(d configs.Design) randnet.Options {
	o := randnet.Built()
	o.MaxMACs, o.MaxSide = 200_000, 16
	if d.TR >= 256 {
		o.MaxMACs, o.MaxSide = 400_000, 24
	}
	return o
}

// attempts limits the number of networks that are drawn until one fits.
const attempts = 200

// draw loads a random network that fits the memory and draws a start of some of its layers.
func (r *Rig) draw(ctx context.Context, rng *rand.Rand) error {
	for range attempts {
		net, err := randnet.New(rng.Uint64()>>1, r.design, small(r.design))
		if err != nil {
			return err
		}
		records, slots, err := testvec.Load(net.Bundle, testvec.Layout{Base: rigBase})
		if err != nil {
			return err
		}
		end := slots - rigBase + uint64(testvec.Slots*net.Bundle.Slot.Stride)
		if end+rigGuard > uint64(len(r.mem)) {
			continue
		}
		r.net, r.records, r.slots, r.used = net, records, int(slots-rigBase), int(end+rigGuard)
		clear(r.mem)
		if err := r.load(ctx); err != nil {
			return err
		}
		r.image = slices.Clone(r.mem[:r.used])
		return r.drawTrial(ctx, rng)
	}
	return fmt.Errorf("no network of %d fits %d bytes", attempts, len(r.mem))
}

// load prepares the NPU for the first start after power-on.
func (r *Rig) load(ctx context.Context) error {
	if _, err := npu.Play(ctx, r.bus, r.records); err != nil {
		return fmt.Errorf("load random network of seed %d: %w", r.net.Seed, err)
	}
	return r.bus.WriteReg(abi.RegWatchdog, rigWatchdog)
}

// stride returns the stride of the slots, in bytes.
func (r *Rig) stride() int { return int(r.net.Bundle.Slot.Stride) }

// drawTrial draws layers, batch, slots and the slots' content, and computes the result with golden. It runs the start
// once, because the plan of a fault needs the numbers of bursts and cycles.
func (r *Rig) drawTrial(ctx context.Context, rng *rand.Rand) error {
	b := r.net.Bundle
	prog, err := golden.New(b)
	if err != nil {
		return err
	}
	t := trial{table: rng.Perm(testvec.Slots)[:1+rng.IntN(abi.BMax)]}
	t.first = rng.IntN(len(b.Layers))
	t.last = t.first + rng.IntN(len(b.Layers)-t.first)
	// The start begins with a layer without KeepIn, and ends with a layer without KeepOut.
	batch := len(t.table) - 1
	for b.FBCB[t.first][batch].KeepIn {
		t.first--
	}
	for b.FBCB[t.last][batch].KeepOut {
		t.last++
	}
	t.before = make([]byte, testvec.Slots*r.stride())
	for i := range t.before {
		t.before[i] = byte(rng.Uint32())
	}
	t.after = slices.Clone(t.before)
	for _, s := range t.table {
		if err := prog.Layers(t.first, t.last, len(t.table), t.after[s*r.stride():][:r.stride()]); err != nil {
			return fmt.Errorf("random network of seed %d: %w", r.net.Seed, err)
		}
	}
	t.written = make([]bool, r.stride())
	for l := t.first; l <= t.last; l++ {
		d := &b.Layers[l]
		t.work.add(d, len(t.table))
		for y := range int(d.OutH) {
			for x := range int(d.OutW) {
				at := int(d.OutOffset) + y*int(d.OutRowBytes) + r.design.ElemBytes()*x*int(d.OutPix)
				for i := range r.design.ElemBytes() * int(d.OutC) {
					t.written[at+i] = true
				}
			}
		}
	}
	r.trial = t
	e, err := r.run(ctx, r.good(), 1<<24)
	if err != nil {
		return err
	}
	if what := r.wrong(e); what != "" {
		return fmt.Errorf("%w: %s, before any fault: %s", errCheck, r.where(), what)
	}
	for _, p := range e.ports {
		r.trial.reads = append(r.trial.reads, p.ReadBursts)
		r.trial.writes = append(r.trial.writes, p.WriteBursts)
	}
	r.trial.cycles, r.trial.counters = e.cycles, e.npu
	return nil
}

// errCheck reports that the hardware differs from golden.
var errCheck = errors.New("the hardware differs from its reference")

// where describes the trial, so that it can be repeated.
func (r *Rig) where() string {
	t := &r.trial
	return fmt.Sprintf("%s, random network of seed %d, layers %d..%d of %d, slots %v", r.design.Name, r.net.Seed, t.first, t.last, len(r.net.Bundle.Layers), t.table)
}

// good returns the register values of the trial's start.
func (r *Rig) good() regs {
	t := &r.trial
	g := regs{
		layers: uint32(t.first)<<abi.RegLayersFirstLSB | uint32(t.last)<<abi.RegLayersLastLSB,
		batch:  uint32(len(t.table)) << abi.RegBatchBActLSB,
	}
	for i, s := range t.table {
		g.table[i] = uint32(s)
	}
	return g
}

// restore restores the memory's content from before the trial.
func (r *Rig) restore() {
	copy(r.mem, r.image)
	copy(r.mem[r.slots:], r.trial.before)
}

// run restores the memory, starts, and waits for the end.
func (r *Rig) run(ctx context.Context, g regs, limit uint64) (ending, error) {
	r.restore()
	began, err := r.start(g)
	if err != nil {
		return ending{}, err
	}
	return r.finish(ctx, began, limit)
}

// begun contains the cycle and the counters before a start.
type begun struct {
	cycle uint64
	counts
}

// start writes the registers of a start.
func (r *Rig) start(g regs) (b begun, err error) {
	if b.counts, err = count(r.bus, r.design.NAXI); err != nil {
		return b, err
	}
	writes := [][2]uint32{{abi.RegLayers, g.layers}, {abi.RegBatch, g.batch}}
	for i, s := range g.table {
		writes = append(writes, [2]uint32{abi.RegSlotTable + 4*uint32(i), s})
	}
	for _, w := range append(writes, [2]uint32{abi.RegCtrl, abi.RegCtrlStartMask}) {
		if err := r.bus.WriteReg(w[0], w[1]); err != nil {
			return b, fmt.Errorf("start: %w", err)
		}
	}
	b.cycle = r.bus.Cycles()
	return b, nil
}

// finish waits for a start's interrupt and reads its ending.
func (r *Rig) finish(ctx context.Context, began begun, limit uint64) (ending, error) {
	_, err := r.bus.WaitIRQ(ctx, limit)
	e := ending{cycles: r.bus.Cycles() - began.cycle, late: began.cycle < r.late}
	if errors.Is(err, npu.ErrNoIRQ) {
		e.hangs = true
		return e, nil
	}
	if err != nil {
		return e, err
	}
	var v [4]uint32
	for i, off := range []uint32{abi.RegStatus, abi.RegError, abi.RegIRQStatus, abi.RegErrorAddr} {
		if v[i], err = r.bus.ReadReg(off); err != nil {
			return e, err
		}
	}
	e.code = abi.ErrCode(v[1] & abi.RegErrorCodeMask >> abi.RegErrorCodeLSB)
	e.layer = int(v[1] & abi.RegErrorLayerMask >> abi.RegErrorLayerLSB)
	e.port = int(v[1] & abi.RegErrorPortMask >> abi.RegErrorPortLSB)
	e.addr = v[3]
	wantStatus, wantIRQ := uint32(abi.RegStatusDoneMask), uint32(abi.RegIRQStatusDoneMask)
	if e.code != abi.ErrNone {
		wantStatus, wantIRQ = abi.RegStatusErrorMask, abi.RegIRQStatusErrorMask
	}
	if v[0] != wantStatus || v[2] != wantIRQ {
		return e, fmt.Errorf("%w: %s: ended with %v, STATUS %#x, IRQ_STATUS %#x", errCheck, r.where(), e.code, v[0], v[2])
	}
	now, err := count(r.bus, r.design.NAXI)
	if err != nil {
		return e, err
	}
	e.counts = now.since(began.counts)
	if e.code != abi.ErrNone {
		r.late = r.bus.Cycles() + 2*rigWatchdog
	}
	return e, r.bus.WriteReg(abi.RegIRQStatus, abi.RegIRQStatusMask)
}

// wrong describes the first error after a start that must succeed, or returns "". It also checks memory and counters.
func (r *Rig) wrong(e ending) string {
	if e.hangs || e.code != abi.ErrNone {
		return fmt.Sprintf("%v in layer %d, port %d after %d cycles", e, e.layer, e.port, e.cycles)
	}
	want := slices.Clone(r.image)
	copy(want[r.slots:], r.trial.after)
	if i := differ(r.mem[:r.used], want); i >= 0 {
		return r.explain(i, want)
	}
	// CYCLES_BUSY counts all cycles of the start, except possibly the first or the last cycle
	if got := e.npu[abi.CntCyclesBusy]; got > e.cycles || r.bus.Info().Kind != npu.CosimHLS && got+1 < e.cycles {
		return fmt.Sprintf("%s counts %d in %d cycles", abi.CounterNames[abi.CntCyclesBusy], got, e.cycles)
	}
	if what := e.wrong(r.bus.Info().Kind, r.design.AXIBytes, r.trial.work, e.late); what != "" {
		return what
	}
	// the number of bytes read does not depend on timing
	if got, want := e.npu[abi.CntBytesRead], r.trial.counters[abi.CntBytesRead]; r.trial.cycles > 0 && got != want {
		return fmt.Sprintf("%s counts %d, at first %d", abi.CounterNames[abi.CntBytesRead], got, want)
	}
	return ""
}

// strayWrites describes a write of a failed start outside the allowed area, or returns "". The area consists of the
// slots of the batch. If outputs is set, it consists only of the bytes in these slots that the layers write.
func (r *Rig) strayWrites(begin []byte, outputs bool) string {
	now := slices.Clone(r.mem[:r.used])
	for _, s := range r.trial.table {
		at := r.slots + s*r.stride()
		for i := range r.stride() {
			if !outputs || r.trial.written[i] {
				now[at+i] = begin[at+i]
			}
		}
	}
	if i := differ(now, begin); i >= 0 {
		return r.explain(i, begin)
	}
	return ""
}

func (r *Rig) explain(i int, want []byte) string {
	place := fmt.Sprintf("offset %#x", i)
	if i >= r.slots {
		place = fmt.Sprintf("slot %d, byte %d", (i-r.slots)/r.stride(), (i-r.slots)%r.stride())
	}
	return fmt.Sprintf("memory at %s is %#02x, expected %#02x", place, r.mem[i], want[i])
}

// differ returns the first index at which a and b differ, or -1.
func differ(a, b []byte) int {
	if bytes.Equal(a, b) {
		return -1
	}
	for i := range a {
		if a[i] != b[i] {
			return i
		}
	}
	return -1
}

// Close closes the bus.
func (r *Rig) Close() error { return r.bus.Close() }
