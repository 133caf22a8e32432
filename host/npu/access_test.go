package npu

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/hw/abi"
)

// quietDriver is a driver over a fake of a quiet build, with nothing loaded.
func quietDriver(t *testing.T, o Opts) (*Driver, *fakeBus, *testNet) {
	t.Helper()
	design := testDesign(t)
	n := newTestNet(t, design)
	f := newFakeBus(t, design.Hash(), 1<<20)
	f.quiet = true
	f.power(design.Hash())
	f.run = computes(n)
	o.ClockHz = 150e6
	d, err := New(f, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeDriver(t, d) })
	return d, f, n
}

// refusedAs checks that an error names the refused access: the driver's action, the register, and the value.
func refusedAs(t *testing.T, err error, off uint32, words ...string) {
	t.Helper()
	bus := (*BusError)(nil)
	if !errors.Is(err, ErrRefused) || !errors.As(err, &bus) || !bus.Write || bus.Off != off {
		t.Fatalf("expected a refused write to %#03x: %v", off, err)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q is not in: %v", w, err)
		}
	}
}

// serves loads the network if necessary, and runs it.
func serves(t *testing.T, d *Driver, n *testNet, load bool) {
	t.Helper()
	if load {
		if err := d.Load(t.Context(), n.b); err != nil {
			t.Fatal(err)
		}
	}
	in := admit(t, d, rand.New(rand.NewPCG(1, 1)), 1, 2)
	defer d.Release(1)
	defer d.Release(2)
	l := launch(0, 1, never, 1, 2)
	rep, err := d.Run(t.Context(), l)
	if err != nil {
		t.Fatal(err)
	}
	if !d.Build().Stub {
		check(t, n, l, rep, in)
	}
}

// refusedLoad loads a network while the hardware refuses a write: nothing of the network may remain.
func refusedLoad(t *testing.T, d *Driver, n *testNet, off uint32, words ...string) {
	t.Helper()
	refusedAs(t, d.Load(t.Context(), n.b), off, append(words, "load two-exits on npu", "bases and FBCB of two-exits")...)
	if d.active != nil || len(d.nets) != 0 || len(d.free.used) != 0 {
		t.Errorf("half loaded: %v, %v, %v", d.active, d.nets, d.free.used)
	}
	if err := d.Admit(t.Context(), "two-exits", 1, device.InWords(testInput(rand.New(rand.NewPCG(1, 1))))); !errors.Is(err, ErrRequest) {
		t.Errorf("admitted for a network that is not there: %v", err)
	}
}

// refusedRun launches while the hardware refuses a write: the error names it, and a reset is necessary.
func refusedRun(t *testing.T, d *Driver, n *testNet, off uint32, words ...string) {
	t.Helper()
	admit(t, d, rand.New(rand.NewPCG(1, 1)), 1, 2)
	defer d.Release(1)
	defer d.Release(2)
	_, err := d.Run(t.Context(), launch(0, 1, never, 1, 2))
	refusedAs(t, err, off, append(words, "launch 1 of two-exits")...)
	if _, err := d.Run(t.Context(), launch(0, 1, never, 1, 2)); !errors.Is(err, ErrReset) || !errors.Is(err, ErrRefused) {
		t.Errorf("before the reset: %v", err)
	}
}

func only(off uint32) func(at, v uint32) bool {
	return func(at, v uint32) bool { return at == off && (off != abi.RegCtrl || v == abi.RegCtrlStartMask) }
}

func TestRefusedNew(t *testing.T) {
	for off, name := range map[uint32]string{
		abi.RegIRQEnable: "IRQ_ENABLE", abi.RegIRQStatus: "IRQ_STATUS", abi.RegWatchdog: "WATCHDOG", abi.RegNSlot: "N_SLOT",
	} {
		hash := testDesign(t).Hash()
		f := newFakeBus(t, hash, 1<<20)
		f.quiet, f.refuse = true, only(off)
		f.power(hash)
		d, err := New(f, Opts{ClockHz: 150e6})
		refusedAs(t, err, off, "npu: open", name)
		if d != nil || f.closed != 1 {
			t.Errorf("%s: a driver: %v, closed %d times", name, d != nil, f.closed)
		}
	}
}

// Every refused write ends the load, and the next load is complete.
func TestRefusedLoad(t *testing.T) {
	d, f, n := quietDriver(t, Opts{})
	for _, c := range []struct {
		off    uint32
		refuse func(off, v uint32) bool
		bits   int
		words  []string
	}{
		{abi.RegDescBaseHi, nil, 32, []string{"DESC_BASE_HI", "beyond the addresses", "0x00000001"}},
		{abi.RegDescBaseLo, only(abi.RegDescBaseLo), 40, []string{"DESC_BASE_LO"}},
		{abi.RegWeightBaseLo, only(abi.RegWeightBaseLo), 40, []string{"WEIGHT_BASE_LO"}},
		{abi.RegWeightBaseHi, only(abi.RegWeightBaseHi), 40, []string{"WEIGHT_BASE_HI"}},
		{abi.RegSlotBaseLo, only(abi.RegSlotBaseLo), 40, []string{"SLOT_BASE_LO"}},
		{abi.RegSlotBaseHi, only(abi.RegSlotBaseHi), 40, []string{"SLOT_BASE_HI"}},
		{abi.RegSlotStride, only(abi.RegSlotStride), 40, []string{"SLOT_STRIDE"}},
		{abi.RegFBCBAddr, only(abi.RegFBCBAddr), 40, []string{"FBCB_ADDR"}},
		{abi.RegFBCBData, func(off, _ uint32) bool {
			return off == abi.RegFBCBData && f.regs[abi.RegFBCBAddr] == abi.FBCBAddr(1, 3)
		}, 40, []string{"FBCB_DATA", "layer 1, batch 3"}},
		{abi.RegScratch1, only(abi.RegScratch1), 40, []string{"SCRATCH1"}},
	} {
		f.refuse, f.addrBits = c.refuse, c.bits
		refusedLoad(t, d, n, c.off, c.words...)
		f.refuse, f.addrBits = nil, 40
		serves(t, d, n, true)
		if err := d.Unload(t.Context(), "two-exits"); err != nil {
			t.Fatal(err)
		}
	}
}

// A network whose bases fit the address bits and whose end does not would wrap: it is rejected on every build.
func TestRefusedEnd(t *testing.T) {
	design := testDesign(t)
	n := newTestNet(t, design)
	for _, quiet := range []bool{false, true} {
		f := newFakeBus(t, design.Hash(), 1<<20)
		f.quiet, f.base, f.addrBits, f.run = quiet, 1<<32-3*regionAlign, 32, computes(n)
		f.power(design.Hash())
		d, err := New(f, Opts{ClockHz: 150e6})
		if err != nil {
			t.Fatal(err)
		}
		defer closeDriver(t, d)
		bus := (*BusError)(nil)
		if err := d.Load(t.Context(), n.b); !errors.As(err, &bus) || bus.Off != abi.RegSlotBaseHi || errors.Is(err, ErrRefused) != quiet {
			t.Errorf("quiet %v: a network of 4 pages, 3 below 4 GiB: %v", quiet, err)
		}
		f.addrBits = 33
		serves(t, d, n, true)
	}
}

// Every write of a start is checked. After a refused write the start is not given, and a refused start is not awaited.
func TestRefusedStart(t *testing.T) {
	d, f, n := quietDriver(t, Opts{})
	if err := d.Load(t.Context(), n.b); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		off   uint32
		words []string
	}{
		{abi.RegLayers, []string{"LAYERS", "layers, batch and slot table"}},
		{abi.RegBatch, []string{"BATCH"}},
		{abi.RegSlotTable, []string{"SLOT_TABLE"}},
		{abi.RegSlotTable + 4*(abi.BMax-1), []string{"SLOT_TABLE"}},
		{abi.RegCtrl, []string{"START", "CTRL"}},
	} {
		f.refuse = only(c.off)
		starts, time := f.starts, f.time
		refusedRun(t, d, n, c.off, c.words...)
		if f.starts != starts {
			t.Errorf("%v: %d starts", c.words, f.starts-starts)
		}
		if f.time-time > 2*startLook {
			t.Errorf("%v: %d cycles", c.words, f.time-time)
		}
		f.refuse = nil
		if err := d.Reset(t.Context()); err != nil {
			t.Fatal(err)
		}
		serves(t, d, n, false)
	}
	// A launch of a network that is not active writes the network's bases and FBCB first; these writes are checked too.
	d.active = nil
	f.refuse = only(abi.RegWeightBaseLo)
	refusedRun(t, d, n, abi.RegWeightBaseLo, "bases and FBCB of two-exits")
	f.refuse = nil
	if err := d.Reset(t.Context()); err != nil {
		t.Fatal(err)
	}
	serves(t, d, n, false)
}

// A mark of a foreign refused access does not count as ours, at any time.
func TestMarkOfOthers(t *testing.T) {
	d, f, n := quietDriver(t, Opts{})
	mark := func() { f.regs[abi.RegAccess] = abi.RegAccessRefusedMask }
	runs := f.run
	f.run = func(f *fakeBus) uint32 {
		mark() // while a start runs: the next finds it
		return runs(f)
	}
	mark()
	serves(t, d, n, true)
	mark()
	if err := d.Reset(t.Context()); err != nil {
		t.Fatal(err)
	}
	mark()
	serves(t, d, n, false)
	if f.starts != 4 {
		t.Errorf("%d starts", f.starts)
	}
}

// longBus is a bus whose first wait for a start ends without an interrupt; look is called then.
type longBus struct {
	*fakeBus
	look  func()
	waits []uint64
}

func (b *longBus) WaitIRQ(ctx context.Context, limit uint64) (uint64, error) {
	b.waits = append(b.waits, limit)
	if len(b.waits)%2 == 1 {
		b.look()
		return limit, ErrNoIRQ
	}
	return b.fakeBus.WaitIRQ(ctx, limit)
}

// A long start is awaited until its limit, with or without a foreign mark.
func TestLongStart(t *testing.T) {
	d, f, n := quietDriver(t, Opts{CycleLimit: 5 << 20})
	for name, look := range map[string]func(){
		"runs":            func() {},
		"mark of others":  func() { f.regs[abi.RegAccess] = abi.RegAccessRefusedMask },
		"ends just then":  func() { f.end(f.run(f)) },
		"and with a mark": func() { f.end(f.run(f)); f.regs[abi.RegAccess] = abi.RegAccessRefusedMask },
	} {
		t.Run(name, func(t *testing.T) {
			b := &longBus{fakeBus: f, look: look}
			d.bus = b
			defer func() { d.bus = f }()
			serves(t, d, n, true)
			if len(b.waits) != 4 || b.waits[0] != startLook || b.waits[1] != 4<<20 {
				t.Errorf("waits of %d cycles", b.waits)
			}
		})
	}
	// A start that is lost without a mark is a hang, detected at the first check.
	b := &losing{fakeBus: f}
	d.bus = b
	admit(t, d, rand.New(rand.NewPCG(1, 1)), 1)
	time := f.time
	if _, err := d.Run(t.Context(), launch(0, 1, never, 1)); !errors.Is(err, ErrHang) || errors.Is(err, ErrRefused) || f.time-time > 2*startLook {
		t.Errorf("after %d cycles: %v", f.time-time, err)
	}
}

// losing is a bus on which START is lost.
type losing struct{ *fakeBus }

func (b *losing) WriteReg(off, v uint32) error {
	if off == abi.RegCtrl && v == abi.RegCtrlStartMask {
		return nil
	}
	return b.fakeBus.WriteReg(off, v)
}

// quietRTL is the RTL as in a board's top: refused accesses are answered with OKAY. spoil changes a write on its way.
type quietRTL struct {
	*Cosim
	spoil func(off, v uint32) uint32
}

func (q *quietRTL) ReadReg(off uint32) (uint32, error) {
	v, err := q.Cosim.ReadReg(off)
	switch refused := (*BusError)(nil); {
	case errors.As(err, &refused):
		return 0, nil
	case off == abi.RegBuildAXI:
		v |= abi.RegBuildAXIQuietMask
	}
	return v, err
}

func (q *quietRTL) WriteReg(off, v uint32) error {
	if q.spoil != nil {
		v = q.spoil(off, v)
	}
	err := q.Cosim.WriteReg(off, v)
	if refused := (*BusError)(nil); errors.As(err, &refused) {
		return nil
	}
	return err
}

// The RTL's own refusals, seen through ACCESS alone.
func TestCosimRefused(t *testing.T) {
	c, design := openTestCosim(t, CosimOpts{DRAMBytes: 1 << 20, Base: 1 << 32})
	q := &quietRTL{Cosim: c}
	n := newTestNet(t, design)
	// A foreign access before.
	if err := q.WriteReg(abi.RegID, 0); err != nil {
		t.Fatal(err)
	}
	d, err := New(q, Opts{ClockHz: int64(design.ClockMHz * 1e6)})
	if err != nil {
		t.Fatal(err)
	}
	defer closeDriver(t, d)
	entries := 0
	spoil := func(at, bits uint32) func(off, v uint32) uint32 {
		return func(off, v uint32) uint32 {
			switch {
			case off != at:
			case off == abi.RegCtrl && v != abi.RegCtrlStartMask:
			case off == abi.RegFBCBData:
				if entries++; entries%(abi.BMax*len(n.b.Layers)) == 11 {
					return v | bits
				}
			default:
				return v | bits
			}
			return v
		}
	}
	q.spoil = spoil(abi.RegDescBaseHi, 1<<8)
	refusedLoad(t, d, n, abi.RegDescBaseHi, "DESC_BASE_HI")
	q.spoil = nil
	serves(t, d, n, true)
	if err := d.Unload(t.Context(), "two-exits"); err != nil {
		t.Fatal(err)
	}

	q.spoil = spoil(abi.RegFBCBData, 1<<31)
	refusedLoad(t, d, n, abi.RegFBCBData, "layer 1, batch 3")
	q.spoil = nil
	serves(t, d, n, true)

	for _, c := range []struct {
		off, bits uint32
		words     []string
	}{
		{abi.RegSlotTable + 4, 1 << 6, []string{"SLOT_TABLE"}},
		{abi.RegCtrl, abi.RegCtrlSoftResetMask, []string{"START"}},
	} {
		before := d.Counters()[abi.CntStarts]
		q.spoil = spoil(c.off, c.bits)
		refusedRun(t, d, n, c.off, c.words...)
		q.spoil = nil
		if err := d.Reset(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := d.Counters()[abi.CntStarts]; got != before {
			t.Errorf("%v: %d starts", c.words, got-before)
		}
		if err := q.WriteReg(abi.RegID, 0); err != nil { // another foreign access
			t.Fatal(err)
		}
		serves(t, d, n, false)
	}
}
