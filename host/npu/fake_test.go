package npu

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/sluice-npu/sluice/hw/abi"
)

// accessCycles is the duration of a register access.
const accessCycles = 3

// fakeBus models the register block of hw/rtl/npu_regs.sv; the test defines what a start does. Every access takes
// three cycles, a start takes busyCycles.
type fakeBus struct {
	t    testing.TB
	regs map[uint32]uint32
	fbcb [abi.LMax * abi.BMax]uint32
	cnt  [abi.CntCount]uint64
	hi   uint32
	time uint64 // cycles since power-on
	thi  uint32
	mem  []byte
	base uint64

	// run executes a start and returns the error register (0: done). If it is nil, the start hangs.
	run        func(f *fakeBus) uint32
	busyCycles uint64

	quiet    bool                     // refused accesses are answered with OKAY
	addrBits int                      // bits of a base
	refuse   func(off, v uint32) bool // further refused accesses

	busy      bool
	deaf      bool  // ignores soft resets
	broken    error // every access fails with this error
	closed    int
	hardReset int
	starts    int
}

func newFakeBus(t testing.TB, designHash uint64, memory int) *fakeBus {
	f := &fakeBus{t: t, mem: make([]byte, memory), base: 1 << 32, busyCycles: 1000, addrBits: abi.AddrBits}
	f.power(designHash)
	return f
}

func (f *fakeBus) power(designHash uint64) {
	f.regs = map[uint32]uint32{
		abi.RegID: abi.ID, abi.RegVersion: abi.SchemaVersion,
		abi.RegABIHash0: uint32(abi.Hash & 0xFFFFFFFF), abi.RegABIHash1: uint32(abi.Hash >> 32),
		abi.RegDesignHash0: uint32(designHash), abi.RegDesignHash1: uint32(designHash >> 32),
		abi.RegBuildTR: 32, abi.RegBuildTP: 3, abi.RegBuildTC: 4,
		abi.RegBuildAXI: 1 | 8<<abi.RegBuildAXIAXIBytesLSB | 4<<abi.RegBuildAXIMaxBurstLSB,
	}
	if f.quiet {
		f.regs[abi.RegBuildAXI] |= abi.RegBuildAXIQuietMask
	}
	f.fbcb = [abi.LMax * abi.BMax]uint32{}
	f.cnt = [abi.CntCount]uint64{}
	f.busy, f.time, f.thi = false, 0, 0
}

var writable = map[uint32]bool{
	abi.RegScratch0: true, abi.RegScratch1: true, abi.RegCtrl: true, abi.RegIRQStatus: true, abi.RegIRQEnable: true,
	abi.RegAccess: true,
}

func (f *fakeBus) WriteReg(off, v uint32) error {
	if f.broken != nil {
		return f.broken
	}
	f.time += accessCycles
	refused := func() error {
		f.regs[abi.RegAccess] |= abi.RegAccessRefusedMask
		if f.quiet {
			return nil
		}
		return &BusError{Write: true, Off: off, Val: v, Resp: RespSLVERR}
	}
	if f.busy && !writable[off] || f.refuse != nil && f.refuse(off, v) {
		return refused()
	}
	switch {
	case off == abi.RegCtrl:
		if v&abi.RegCtrlStartMask != 0 && f.busy {
			return refused()
		}
		f.ctrl(v)
	case off == abi.RegIRQStatus, off == abi.RegAccess:
		f.regs[off] &^= v
	case off == abi.RegDescBaseHi || off == abi.RegWeightBaseHi || off == abi.RegSlotBaseHi:
		if v>>(f.addrBits-32) != 0 {
			return refused()
		}
		f.regs[off] = v
	case off == abi.RegFBCBData:
		at := f.regs[abi.RegFBCBAddr]
		f.fbcb[at] = v
		f.regs[abi.RegFBCBAddr] = (at + 1) & abi.RegFBCBAddrMask
	case writable[off], off >= abi.RegLayers && off <= abi.RegFBCBAddr, off >= abi.RegSlotTable && off < abi.RegSlotTable+4*abi.BMax:
		f.regs[off] = v
	default:
		return refused()
	}
	return nil
}

func (f *fakeBus) ctrl(v uint32) {
	if v&abi.RegCtrlStartMask != 0 {
		f.busy = true
		f.starts++
		f.cnt[abi.CntStarts]++
		f.regs[abi.RegStatus] = abi.RegStatusBusyMask
	}
	if v&abi.RegCtrlSoftResetMask != 0 && f.busy && !f.deaf {
		f.end(uint32(abi.ErrSoftReset))
	}
}

func (f *fakeBus) end(err uint32) {
	f.busy = false
	f.cnt[abi.CntCyclesBusy] += f.busyCycles
	f.cnt[abi.CntInterrupts]++
	f.regs[abi.RegError] = err
	f.regs[abi.RegStatus] = abi.RegStatusDoneMask
	f.regs[abi.RegIRQStatus] |= abi.RegIRQStatusDoneMask
	if err != 0 {
		f.regs[abi.RegStatus] = abi.RegStatusErrorMask
		f.regs[abi.RegIRQStatus] |= abi.RegIRQStatusErrorMask
	}
}

func (f *fakeBus) ReadReg(off uint32) (uint32, error) {
	if f.broken != nil {
		return 0, f.broken
	}
	f.time += accessCycles
	switch off {
	case abi.RegTimeLo:
		f.thi = uint32(f.time >> 32)
		return uint32(f.time), nil
	case abi.RegTimeHi:
		return f.thi, nil
	}
	if i := (off - abi.CntBase) / 8; off >= abi.CntBase && i < abi.CntCount {
		if off%8 == 0 {
			f.hi = uint32(f.cnt[i] >> 32)
			return uint32(f.cnt[i]), nil
		}
		return f.hi, nil
	}
	return f.regs[off], nil
}

func (f *fakeBus) DRAM() ([]byte, uint64) { return f.mem, f.base }

func (f *fakeBus) WaitIRQ(ctx context.Context, limit uint64) (uint64, error) {
	if f.broken != nil {
		return 0, f.broken
	}
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	spent := uint64(0)
	if f.busy && f.run != nil {
		if err := f.run(f); err != hang {
			f.end(err)
			spent = f.busyCycles
			f.time += spent
		}
	}
	if f.regs[abi.RegIRQStatus]&f.regs[abi.RegIRQEnable] != 0 {
		return spent, nil
	}
	f.time += limit - spent
	return limit, ErrNoIRQ
}

const hang = ^uint32(0)

func (f *fakeBus) HardReset() error {
	f.hardReset++
	f.power(uint64(f.regs[abi.RegDesignHash1])<<32 | uint64(f.regs[abi.RegDesignHash0]))
	return nil
}

func (f *fakeBus) Close() error {
	f.closed++
	return nil
}

func (f *fakeBus) addr(lo uint32) uint64 {
	return uint64(f.regs[lo+4])<<32 | uint64(f.regs[lo])
}

// computes makes a start compute testNet, after checking everything that the driver has prepared.
func computes(n *testNet) func(f *fakeBus) uint32 {
	return func(f *fakeBus) uint32 {
		t := f.t
		t.Helper()
		at := func(addr uint64, size int) []byte {
			if addr < f.base || addr-f.base+uint64(size) > uint64(len(f.mem)) {
				t.Fatalf("%d bytes at %#x are outside of memory", size, addr)
			}
			return f.mem[addr-f.base:][:size]
		}
		first := f.regs[abi.RegLayers] & abi.RegLayersFirstMask
		last := f.regs[abi.RegLayers] & abi.RegLayersLastMask >> abi.RegLayersLastLSB
		batch := int(f.regs[abi.RegBatch])
		for l := range n.b.Layers {
			want, err := n.b.Layers[l].Encode()
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(at(f.addr(abi.RegDescBaseLo)+uint64(l)*abi.DescBytes, abi.DescBytes), want[:]) {
				t.Fatalf("descriptor %d is not in memory", l)
			}
			for b := range abi.BMax {
				e, err := n.b.FBCB[l][b].Encode()
				if got := f.fbcb[abi.FBCBAddr(l, b+1)]; err != nil || got != e {
					t.Fatalf("FBCB of layer %d, batch %d is %#x, expected %#x (%v)", l, b+1, got, e, err)
				}
			}
		}
		if !bytes.Equal(at(f.addr(abi.RegWeightBaseLo), len(n.b.Weights)), n.b.Weights) {
			t.Fatal("the weights are not in memory")
		}
		hash, err := n.b.Hash()
		if got := uint64(f.regs[abi.RegScratch1])<<32 | uint64(f.regs[abi.RegScratch0]); err != nil || got != hash {
			t.Fatalf("SCRATCH is %016x, expected %016x (%v)", got, hash, err)
		}
		if f.regs[abi.RegSlotStride] != testStride {
			t.Fatalf("SLOT_STRIDE is %d", f.regs[abi.RegSlotStride])
		}
		seen := map[uint32]bool{}
		for i := range batch {
			s := f.regs[abi.RegSlotTable+4*uint32(i)]
			if s >= f.regs[abi.RegNSlot] || seen[s] {
				t.Fatalf("slot %d of batch position %d", s, i)
			}
			seen[s] = true
			slot := at(f.addr(abi.RegSlotBaseLo)+uint64(s)*testStride, testStride)
			for l := first; l <= last; l++ {
				n.layer(int(l), slot)
			}
		}
		f.cnt[abi.CntMACs] += uint64(batch) * 100
		f.cnt[abi.CntBytesRead] += 1 << 33
		return 0
	}
}

func closeDriver(t *testing.T, d *Driver) {
	t.Helper()
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

// fakeDriver is a driver over a fake bus that computes, with the test's network loaded.
func fakeDriver(t *testing.T, o Opts) (*Driver, *fakeBus, *testNet) {
	t.Helper()
	design := testDesign(t)
	n := newTestNet(t, design)
	f := newFakeBus(t, design.Hash(), 1<<20)
	f.run = computes(n)
	o.ClockHz = 150e6
	d, err := New(f, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeDriver(t, d) })
	if err := d.Load(t.Context(), n.b); err != nil {
		t.Fatal(err)
	}
	return d, f, n
}

var errBroken = errors.New("the bus is broken")
