package npu

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"sync"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/hw/abi"
)

// Opts of a driver. ClockHz must be set; what else is zero takes its default.
type Opts struct {
	Name    string // "npu"
	Label   string // "simulated": simulated | synthesised | measured
	ClockHz int64
	// Slots a network has: samples it can hold at the same time, 2 B_max at least (the default is
	// 4 B_max), 64 at most.
	Slots int
	// Watchdog is the register of that name: cycles without progress on the memory ports after
	// which the hardware gives a start up (default 100,000).
	Watchdog uint32
	// CycleLimit bounds one start (default 2^40 cycles): past it the hardware counts as hung.
	CycleLimit uint64
}

const (
	maxSlots     = 64
	resetLimit   = 1 << 20 // cycles a soft reset may take
	defaultLimit = 1 << 40
)

// Build is what the hardware says of itself.
type Build struct {
	ABIHash, DesignHash uint64
	TR, TP, TC          int
	NAXI, AXIBytes      int
	MaxBurst            int
	Stub                bool // the MACs are left out: cycles are right, numbers are not
	Stack, Fluid        bool
}

// Driver is an NPU as a device.Blocking.
type Driver struct {
	bus   Bus
	opts  Opts
	build Build
	mem   []byte
	base  uint64

	hw       sync.Mutex // registers and interrupt; held over a launch
	active   *network   // whose FBCB and base addresses the hardware holds
	counters [abi.CntCount]uint64
	failed   error // why the device must be reset

	mu     sync.Mutex // what follows, and mem where hw is not held; never held while waiting
	closed bool       // changed with both locks held
	nets   map[string]*network
	live   map[device.RequestID]*sample
	free   regions
}

type network struct {
	b      *bundle.Bundle
	hash   uint64
	at     region
	weight int64 // offsets into memory
	slots  int64
	taken  []bool
	live   int
}

type sample struct {
	net  *network
	slot int
}

// New looks at the hardware behind a bus and refuses what it does not know. The driver owns the bus
// from here on, also where it answers an error.
func New(bus Bus, o Opts) (*Driver, error) {
	d, err := open(bus, o)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("npu: open: %w", err), bus.Close())
	}
	return d, nil
}

func open(bus Bus, o Opts) (*Driver, error) {
	if o.Name == "" {
		o.Name = "npu"
	}
	if o.Label == "" {
		o.Label = "simulated"
	}
	if o.Slots == 0 {
		o.Slots = 4 * abi.BMax
	}
	if o.Watchdog == 0 {
		o.Watchdog = 100_000
	}
	if o.CycleLimit == 0 {
		o.CycleLimit = defaultLimit
	}
	if o.Slots < 2*abi.BMax || o.Slots > maxSlots {
		return nil, fmt.Errorf("%w: %d slots, expected %d..%d", ErrRequest, o.Slots, 2*abi.BMax, maxSlots)
	}
	if o.ClockHz <= 0 {
		return nil, fmt.Errorf("%w: a clock of %d Hz", ErrRequest, o.ClockHz)
	}
	d := &Driver{bus: bus, opts: o, nets: map[string]*network{}, live: map[device.RequestID]*sample{}}
	d.mem, d.base = bus.DRAM()
	d.free.size = int64(len(d.mem))
	if d.base%regionAlign != 0 || d.base+uint64(len(d.mem)) > 1<<abi.AddrBits {
		return nil, fmt.Errorf("%w: %d bytes of memory at %#x; expected a multiple of %d within %d bits of address",
			ErrRequest, len(d.mem), d.base, regionAlign, abi.AddrBits)
	}
	if err := d.identify(); err != nil {
		return nil, err
	}
	if err := d.program(); err != nil {
		return nil, err
	}
	return d, nil
}

// identify reads the registers that say what this is.
func (d *Driver) identify() error {
	var v [9]uint32
	for i, off := range []uint32{
		abi.RegID, abi.RegVersion, abi.RegABIHash0, abi.RegABIHash1, abi.RegDesignHash0, abi.RegDesignHash1,
		abi.RegBuildTR, abi.RegBuildTP, abi.RegBuildTC,
	} {
		var err error
		if v[i], err = d.bus.ReadReg(off); err != nil {
			return err
		}
	}
	if v[0] != abi.ID {
		return fmt.Errorf("%w: ID is %#08x, expected %#08x", ErrHardware, v[0], uint32(abi.ID))
	}
	if v[1] != abi.SchemaVersion {
		return fmt.Errorf("%w: register map version %d, expected %d", ErrHardware, v[1], abi.SchemaVersion)
	}
	axi, err := d.bus.ReadReg(abi.RegBuildAXI)
	if err != nil {
		return err
	}
	field := func(mask uint32, lsb int) int { return int(axi & mask >> lsb) }
	d.build = Build{
		ABIHash:    uint64(v[3])<<32 | uint64(v[2]),
		DesignHash: uint64(v[5])<<32 | uint64(v[4]),
		TR:         int(v[6]), TP: int(v[7]), TC: int(v[8]),
		NAXI:     field(abi.RegBuildAXINAXIMask, abi.RegBuildAXINAXILSB),
		AXIBytes: field(abi.RegBuildAXIAXIBytesMask, abi.RegBuildAXIAXIBytesLSB),
		MaxBurst: field(abi.RegBuildAXIMaxBurstMask, abi.RegBuildAXIMaxBurstLSB),
		Stub:     axi&abi.RegBuildAXIStubMask != 0,
		Stack:    axi&abi.RegBuildAXIStackMask != 0,
		Fluid:    axi&abi.RegBuildAXIFluidMask != 0,
	}
	if d.build.ABIHash != abi.Hash {
		return fmt.Errorf("%w: its ABI hash is %016x, this program's %016x", ErrHardware, d.build.ABIHash, uint64(abi.Hash))
	}
	return nil
}

// Build is what the hardware says of itself.
func (d *Driver) Build() Build { return d.build }

// Info implements device.Blocking.
func (d *Driver) Info() device.Info {
	return device.Info{
		Name: d.opts.Name, Label: d.opts.Label, MaxBatch: abi.BMax, Slots: d.opts.Slots, Places: 1,
		Preempt: device.PreemptExit, ClockHz: d.opts.ClockHz,
	}
}

// until binds register accesses to a context, on a bus where they may wait.
func (d *Driver) until(ctx context.Context) (done func()) {
	if w, ok := d.bus.(Waiter); ok {
		return w.Until(ctx)
	}
	return func() {}
}

// regs writes registers in order.
func (d *Driver) regs(pairs ...[2]uint32) error {
	for _, p := range pairs {
		if err := d.bus.WriteReg(p[0], p[1]); err != nil {
			return err
		}
	}
	return nil
}

// program writes what no network changes and reads the counters; the hardware must be idle.
func (d *Driver) program() error {
	err := d.regs(
		[2]uint32{abi.RegIRQEnable, abi.RegIRQEnableDoneMask | abi.RegIRQEnableErrorMask},
		[2]uint32{abi.RegIRQStatus, abi.RegIRQStatusDoneMask | abi.RegIRQStatusErrorMask},
		[2]uint32{abi.RegWatchdog, d.opts.Watchdog},
		[2]uint32{abi.RegNSlot, uint32(d.opts.Slots)},
	)
	if err != nil {
		return err
	}
	d.counters, err = d.readCounters()
	return err
}

// activate gives the hardware a network's FBCB, base addresses and hash.
func (d *Driver) activate(n *network) error {
	d.active = nil
	addr := func(lo uint32, off int64) [][2]uint32 {
		a := d.base + uint64(off)
		return [][2]uint32{{lo, uint32(a)}, {lo + 4, uint32(a >> 32)}}
	}
	w := slices.Concat(
		addr(abi.RegDescBaseLo, n.at.start), addr(abi.RegWeightBaseLo, n.weight), addr(abi.RegSlotBaseLo, n.slots),
		[][2]uint32{{abi.RegSlotStride, uint32(n.b.Slot.Stride)}})
	for layer, row := range n.b.FBCB {
		w = append(w, [2]uint32{abi.RegFBCBAddr, abi.FBCBAddr(layer, 1)})
		for _, e := range row {
			v, err := e.Encode()
			if err != nil {
				return fmt.Errorf("layer %d: %w", layer, err)
			}
			w = append(w, [2]uint32{abi.RegFBCBData, v})
		}
	}
	w = append(w, [2]uint32{abi.RegScratch0, uint32(n.hash)}, [2]uint32{abi.RegScratch1, uint32(n.hash >> 32)})
	if err := d.regs(w...); err != nil {
		return err
	}
	d.active = n
	return nil
}

// Load implements device.Blocking: descriptors and weights go to memory, the FBCB into the hardware.
// Several networks may be loaded; one that is there already under the same name is replaced,
// unless it holds samples.
func (d *Driver) Load(ctx context.Context, b *bundle.Bundle) error {
	fail := func(err error) error { return fmt.Errorf("load %s on %s: %w", b.Network.Name, d.opts.Name, err) }
	if err := ctx.Err(); err != nil {
		return fail(err)
	}
	if b.ABIHash != d.build.ABIHash {
		return fail(fmt.Errorf("%w: ABI hash %016x, the hardware's is %016x", ErrMismatch, b.ABIHash, d.build.ABIHash))
	}
	if h := b.Design.Hash(); h != d.build.DesignHash {
		return fail(fmt.Errorf("%w: design hash %016x (%s), the hardware's is %016x", ErrMismatch, h, b.Design.Name, d.build.DesignHash))
	}
	if err := b.Validate(); err != nil {
		return fail(err)
	}
	hash, err := b.Hash()
	if err != nil {
		return fail(err)
	}
	descs := make([]byte, 0, len(b.Layers)*abi.DescBytes)
	for i := range b.Layers {
		enc, err := b.Layers[i].Encode()
		if err != nil {
			return fail(fmt.Errorf("layer %d: %w", i, err))
		}
		descs = append(descs, enc[:]...)
	}

	d.hw.Lock()
	defer d.hw.Unlock()
	defer d.until(ctx)()
	if err := d.usable(); err != nil {
		return fail(err)
	}
	n, err := d.place(b, hash, int64(len(descs)))
	if err != nil {
		return fail(err)
	}
	copy(d.mem[n.at.start:], descs)
	copy(d.mem[n.weight:], b.Weights)
	if err := d.sync(n.at.start, n.slots-n.at.start, ToDevice); err != nil {
		d.remove(n)
		return fail(err)
	}
	if err := d.activate(n); err != nil {
		d.remove(n)
		return fail(err)
	}
	return nil
}

func (d *Driver) usable() error {
	if d.closed {
		return ErrClosed
	}
	if d.failed != nil {
		return fmt.Errorf("%w, since %w", ErrReset, d.failed)
	}
	return nil
}

// place reserves memory for a network and enters it; one of the same name that holds no samples
// makes room.
func (d *Driver) place(b *bundle.Bundle, hash uint64, descs int64) (*network, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	old := d.nets[b.Network.Name]
	if old != nil {
		if old.live > 0 {
			return nil, fmt.Errorf("%w: it is loaded already and holds %d samples", ErrRequest, old.live)
		}
	}
	align := func(v int64) int64 { return (v + regionAlign - 1) / regionAlign * regionAlign }
	weights := align(int64(len(b.Weights)))
	size := align(descs) + weights + int64(d.opts.Slots)*b.Slot.Stride
	free := d.free.clone() // what is there now stays unless the new one fits
	if old != nil {
		free.give(old.at)
	}
	at, ok := free.take(size)
	if !ok {
		return nil, fmt.Errorf("%w: it needs %d bytes (%d weights, %d slots of %d), of %d in all", ErrMemory,
			size, len(b.Weights), d.opts.Slots, b.Slot.Stride, len(d.mem))
	}
	d.free = free
	if d.active == old {
		d.active = nil
	}
	n := &network{b: b, hash: hash, at: at, taken: make([]bool, d.opts.Slots)}
	n.weight = at.start + align(descs)
	n.slots = n.weight + weights
	d.nets[b.Network.Name] = n
	return n, nil
}

// Unload implements device.Unloader: a network that holds no samples gives its memory back.
func (d *Driver) Unload(_ context.Context, network string) error {
	fail := func(err error) error { return fmt.Errorf("unload %s from %s: %w", network, d.opts.Name, err) }
	d.hw.Lock()
	defer d.hw.Unlock()
	if err := d.usable(); err != nil {
		return fail(err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.nets[network]
	switch {
	case n == nil:
		return fail(fmt.Errorf("%w: it is not loaded", ErrRequest))
	case n.live > 0:
		return fail(fmt.Errorf("%w: it holds %d samples", ErrRequest, n.live))
	}
	if d.active == n {
		d.active = nil
	}
	delete(d.nets, network)
	d.free.give(n.at)
	return nil
}

func (d *Driver) remove(n *network) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.nets, n.b.Network.Name)
	d.free.give(n.at)
}

// Admit implements device.Blocking. It may be called while a launch runs.
func (d *Driver) Admit(ctx context.Context, network string, id device.RequestID, input []int16) error {
	fail := func(err error) error { return fmt.Errorf("admit request %d on %s: %w", id, d.opts.Name, err) }
	if err := ctx.Err(); err != nil {
		return fail(err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return fail(ErrClosed)
	}
	n := d.nets[network]
	if n == nil {
		return fail(fmt.Errorf("%w: network %q is not loaded", ErrRequest, network))
	}
	if d.live[id] != nil {
		return fail(fmt.Errorf("%w: it has a slot already", ErrRequest))
	}
	net := &n.b.Network
	if want := net.InH * net.InW * net.InC; len(input) != want {
		return fail(fmt.Errorf("%w: the input has %d elements, expected %d", ErrRequest, len(input), want))
	}
	slot := slices.Index(n.taken, false)
	if slot < 0 {
		return fail(fmt.Errorf("%w: all %d slots are taken", ErrRequest, len(n.taken)))
	}
	n.taken[slot] = true
	n.live++
	d.live[id] = &sample{n, slot}
	to := d.slot(n, slot)[net.InOffset:]
	for pix := range net.InH * net.InW {
		for c, v := range input[pix*net.InC : (pix+1)*net.InC] {
			binary.LittleEndian.PutUint16(to[2*(pix*net.InPix+c):], uint16(v))
		}
	}
	at := n.slots + int64(slot)*n.b.Slot.Stride + int64(net.InOffset)
	if err := d.sync(at, 2*int64(net.InH)*int64(net.InW)*int64(net.InPix), ToDevice); err != nil {
		d.drop(id)
		return fail(err)
	}
	return nil
}

// sync makes memory agree between CPU and NPU where the bus is not coherent.
func (d *Driver) sync(off, n int64, dir Direction) error {
	if s, ok := d.bus.(Syncer); ok {
		return s.Sync(off, n, dir)
	}
	return nil
}

// slot is a slot's memory.
func (d *Driver) slot(n *network, i int) []byte {
	at := n.slots + int64(i)*n.b.Slot.Stride
	return d.mem[at : at+n.b.Slot.Stride]
}

// Slot is the memory of a request's slot, nil where it has none, up to Close; for comparing.
func (d *Driver) Slot(id device.RequestID) []byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	if s := d.live[id]; s != nil && !d.closed {
		return d.slot(s.net, s.slot)
	}
	return nil
}

// Release implements device.Blocking. A request must not be released while a launch holds it.
func (d *Driver) Release(id device.RequestID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.drop(id)
}

// drop frees a request's slot; d.mu is held.
func (d *Driver) drop(id device.RequestID) {
	s := d.live[id]
	if s == nil {
		return
	}
	delete(d.live, id)
	s.net.taken[s.slot] = false
	s.net.live--
}

// Run implements device.Blocking: segment by segment, with the requests that have not left.
func (d *Driver) Run(ctx context.Context, l *device.Launch) (*device.Report, error) {
	rep, err := d.launch(ctx, l)
	if err != nil {
		return nil, fmt.Errorf("%s: launch %d of %s, segments %d..%d: %w", d.opts.Name, l.ID, l.Network, l.First, l.Last, err)
	}
	return rep, nil
}

func (d *Driver) launch(ctx context.Context, l *device.Launch) (*device.Report, error) {
	d.hw.Lock()
	defer d.hw.Unlock()
	defer d.until(ctx)()
	if err := d.usable(); err != nil {
		return nil, err
	}
	n, slots, err := d.batch(l)
	if err != nil {
		return nil, err
	}
	if d.active != n {
		if err := d.activate(n); err != nil {
			d.failed = err
			return nil, err
		}
	}
	rep := &device.Report{Results: make([]device.Result, len(l.Requests))}
	active := make([]int, len(l.Requests)) // positions in the launch of those still in the batch
	for i, id := range l.Requests {
		rep.Results[i] = device.Result{Request: id, Taken: -1}
		active[i] = i
	}
	before := d.counters
	left := d.opts.CycleLimit
	if l.Limit > 0 {
		left = min(left, d.cycles(l.Limit))
	}
	final := len(n.b.Network.Exits) - 1
	for seg := l.First; seg <= l.Last && len(active) > 0; seg++ {
		e := &n.b.Network.Exits[seg]
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		table := make([]int, len(active))
		for i, p := range active {
			table[i] = slots[p]
		}
		spent, err := d.start(ctx, e, table, left)
		if err != nil {
			return nil, fmt.Errorf("segment %d (%s) with a batch of %d: %w", seg, e.Name, len(active), err)
		}
		left -= min(spent, left)
		rest := active[:0]
		for _, p := range active {
			raw, err := d.logits(n, slots[p], e)
			if err != nil {
				d.failed = err
				return nil, err
			}
			class, conf := device.Confidence(raw, e.Frac)
			r := &rep.Results[p]
			r.Exits = append(r.Exits, device.ExitResult{
				Exit: seg, Class: class, Confidence: conf, Logits: device.Logits(raw, e.Frac), Raw: raw,
			})
			if conf >= l.Theta[p] || seg == final {
				r.Taken = seg
				continue
			}
			rest = append(rest, p)
		}
		active = rest
	}
	if d.counters, err = d.readCounters(); err != nil {
		d.failed = err
		return nil, err
	}
	delta := func(i int) uint64 { return d.counters[i] - before[i] }
	rep.Stats = device.Stats{
		Cycles: delta(abi.CntCyclesBusy), MACCycles: delta(abi.CntMACCycles), MACs: delta(abi.CntMACs),
		BytesRead: delta(abi.CntBytesRead), BytesWritten: delta(abi.CntBytesWritten), Starts: delta(abi.CntStarts),
	}
	rep.Cycles = rep.Stats.Cycles
	rep.Ns = d.ns(rep.Cycles)
	return rep, nil
}

// batch checks a launch and looks its slots up.
func (d *Driver) batch(l *device.Launch) (*network, []int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.nets[l.Network]
	switch {
	case n == nil:
		return nil, nil, fmt.Errorf("%w: the network is not loaded", ErrRequest)
	case l.First < 0 || l.Last < l.First || l.Last >= len(n.b.Network.Exits):
		return nil, nil, fmt.Errorf("%w: there are %d segments", ErrRequest, len(n.b.Network.Exits))
	case len(l.Requests) < 1 || len(l.Requests) > abi.BMax || len(l.Theta) != len(l.Requests):
		return nil, nil, fmt.Errorf("%w: a batch of %d with %d thresholds, expected 1..%d", ErrRequest,
			len(l.Requests), len(l.Theta), abi.BMax)
	}
	slots := make([]int, len(l.Requests))
	for i, id := range l.Requests {
		s := d.live[id]
		if s == nil || s.net != n {
			return nil, nil, fmt.Errorf("%w: request %d has no slot of this network", ErrRequest, id)
		}
		if slices.Contains(l.Requests[:i], id) {
			return nil, nil, fmt.Errorf("%w: request %d is in the batch twice", ErrRequest, id)
		}
		slots[i] = s.slot
	}
	return n, slots, nil
}

// start runs one segment to its interrupt, for limit cycles at most. What leaves the hardware in doubt
// is kept in d.failed.
func (d *Driver) start(ctx context.Context, e *bundle.Exit, slots []int, limit uint64) (cycles uint64, err error) {
	w := [][2]uint32{
		{abi.RegLayers, uint32(e.First)<<abi.RegLayersFirstLSB | uint32(e.Last)<<abi.RegLayersLastLSB},
		{abi.RegBatch, uint32(len(slots)) << abi.RegBatchBActLSB},
	}
	// Entries beyond the batch are written too: a start must not depend on the one before.
	for i := range abi.RegSlotTableCount {
		s := 0
		if i < len(slots) {
			s = slots[i]
		}
		w = append(w, [2]uint32{abi.RegSlotTable + 4*uint32(i), uint32(s)})
	}
	w = append(w, [2]uint32{abi.RegCtrl, abi.RegCtrlStartMask})
	if err := d.regs(w...); err != nil {
		d.failed = err
		return 0, err
	}
	if cycles, err = d.bus.WaitIRQ(ctx, limit); err != nil {
		if errors.Is(err, ErrNoIRQ) {
			err = fmt.Errorf("%w: no interrupt within %d cycles: %w", ErrHang, limit, err)
		}
		d.failed = err
		return cycles, err
	}
	status, err := d.finish()
	if err != nil {
		d.failed = err
		return cycles, err
	}
	switch {
	case status&abi.RegStatusErrorMask != 0:
		hw, err := d.hwError()
		if err != nil {
			d.failed = err
			return cycles, err
		}
		d.counters, err = d.readCounters() // they belong to nobody
		if err != nil {
			d.failed = err
		}
		return cycles, hw
	case status&abi.RegStatusDoneMask == 0 || status&abi.RegStatusBusyMask != 0:
		d.failed = fmt.Errorf("%w: STATUS is %#x at the interrupt", ErrHang, status)
		return cycles, d.failed
	}
	return cycles, nil
}

// finish reads the status after an interrupt and lowers the line.
func (d *Driver) finish() (uint32, error) {
	status, err := d.bus.ReadReg(abi.RegStatus)
	if err != nil {
		return 0, err
	}
	return status, d.bus.WriteReg(abi.RegIRQStatus, abi.RegIRQStatusDoneMask|abi.RegIRQStatusErrorMask)
}

func (d *Driver) hwError() (*HWError, error) {
	v, err := d.bus.ReadReg(abi.RegError)
	if err != nil {
		return nil, err
	}
	addr, err := d.bus.ReadReg(abi.RegErrorAddr)
	if err != nil {
		return nil, err
	}
	return &HWError{
		Code:  abi.ErrCode(v & abi.RegErrorCodeMask >> abi.RegErrorCodeLSB),
		Layer: int(v & abi.RegErrorLayerMask >> abi.RegErrorLayerLSB),
		Port:  int(v & abi.RegErrorPortMask >> abi.RegErrorPortLSB),
		Addr:  addr,
	}, nil
}

// logits copies an exit's logits from a slot.
func (d *Driver) logits(n *network, slot int, e *bundle.Exit) ([]int16, error) {
	if err := d.sync(n.slots+int64(slot)*n.b.Slot.Stride+int64(e.Offset), 2*int64(e.Classes), FromDevice); err != nil {
		return nil, err
	}
	from := d.slot(n, slot)[e.Offset:]
	raw := make([]int16, e.Classes)
	for i := range raw {
		raw[i] = int16(binary.LittleEndian.Uint16(from[2*i:]))
	}
	return raw, nil
}

func (d *Driver) readCounters() (c [abi.CntCount]uint64, err error) {
	for i := range c {
		lo, err := d.bus.ReadReg(abi.CounterLo(i)) // latches the upper half
		if err != nil {
			return c, err
		}
		hi, err := d.bus.ReadReg(abi.CounterLo(i) + 4)
		if err != nil {
			return c, err
		}
		c[i] = uint64(hi)<<32 | uint64(lo)
	}
	return c, nil
}

// Counters are the hardware's counters after the last launch, by index (abi.Cnt...).
func (d *Driver) Counters() [abi.CntCount]uint64 {
	d.hw.Lock()
	defer d.hw.Unlock()
	return d.counters
}

// ns is cycles as time, rounded down; the product may exceed 64 bits.
func (d *Driver) ns(cycles uint64) int64 {
	hi, lo := bits.Mul64(cycles, 1e9)
	if hi >= uint64(d.opts.ClockHz) {
		return 1<<63 - 1
	}
	q, _ := bits.Div64(hi, lo, uint64(d.opts.ClockHz))
	return int64(min(q, 1<<63-1))
}

// cycles is time as cycles, rounded up.
func (d *Driver) cycles(ns int64) uint64 {
	hi, lo := bits.Mul64(uint64(ns), uint64(d.opts.ClockHz))
	if hi >= 1e9 {
		return math.MaxUint64
	}
	q, r := bits.Div64(hi, lo, 1e9)
	if r > 0 {
		q++
	}
	return q
}

// Reset implements device.Blocking: a soft reset and, where that does not help, a hard one, after
// which every register is written again. Samples and networks stay.
func (d *Driver) Reset(ctx context.Context) error {
	d.hw.Lock()
	defer d.hw.Unlock()
	defer d.until(ctx)()
	if d.closed {
		return fmt.Errorf("reset %s: %w", d.opts.Name, ErrClosed)
	}
	soft := d.softReset(ctx)
	if soft == nil {
		d.failed = nil
		return nil
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("reset %s: %w", d.opts.Name, err)
	}
	h, ok := d.bus.(HardResetter)
	if !ok {
		return fmt.Errorf("reset %s: %w; there is no hard reset on this bus", d.opts.Name, soft)
	}
	if err := d.hardReset(h); err != nil {
		return fmt.Errorf("reset %s: the soft reset failed (%w), and the hard one: %w", d.opts.Name, soft, err)
	}
	d.failed = nil
	return nil
}

func (d *Driver) softReset(ctx context.Context) error {
	if err := d.bus.WriteReg(abi.RegCtrl, abi.RegCtrlSoftResetMask); err != nil {
		return err
	}
	status, err := d.bus.ReadReg(abi.RegStatus)
	if err != nil {
		return err
	}
	if status&abi.RegStatusBusyMask != 0 {
		// The abandoned start ends with an error, and that with an interrupt.
		if _, err := d.bus.WaitIRQ(ctx, resetLimit); err != nil {
			return err
		}
		if status, err = d.bus.ReadReg(abi.RegStatus); err != nil {
			return err
		}
		if status&abi.RegStatusBusyMask != 0 {
			return fmt.Errorf("%w: busy after a soft reset", ErrHang)
		}
	}
	if err := d.program(); err != nil {
		return err
	}
	// The registers of the network have kept their values, but the failure may have struck while
	// they were being written.
	if n := d.active; n != nil {
		return d.activate(n)
	}
	return nil
}

func (d *Driver) hardReset(h HardResetter) error {
	if err := h.HardReset(); err != nil {
		return err
	}
	if err := d.identify(); err != nil {
		return err
	}
	if err := d.program(); err != nil {
		return err
	}
	if n := d.active; n != nil {
		return d.activate(n)
	}
	return nil
}

// Close implements device.Blocking: it waits for a launch that runs.
func (d *Driver) Close() error {
	d.hw.Lock()
	defer d.hw.Unlock()
	d.mu.Lock()
	was := d.closed
	d.closed = true // from here on nobody touches the memory
	d.mu.Unlock()
	if was {
		return nil
	}
	if err := d.bus.Close(); err != nil {
		return fmt.Errorf("close %s: %w", d.opts.Name, err)
	}
	return nil
}
