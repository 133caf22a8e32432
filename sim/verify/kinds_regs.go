// Faults in the registers of a start, and accesses to registers during a start.

package verify

import (
	"errors"
	"fmt"
	"slices"

	"github.com/sluice-npu/sluice/host/npu"
	"github.com/sluice-npu/sluice/hw/abi"
)

// start plans a fault in the registers of a start.
func start(what string, code abi.ErrCode, change func(*regs)) *plan {
	return &plan{what: what, codes: []abi.ErrCode{code}, layer: -1, port: -1, before: func(g *regs) (string, error) {
		change(g)
		return "", nil
	}}
}

// cycle picks a cycle of the trial, at least room cycles before the trial's end.
func (c *Campaign) cycle(room uint64) uint64 {
	if c.rig.trial.cycles <= room {
		return 0
	}
	return c.rng.Uint64N(c.rig.trial.cycles - room)
}

// refused writes a register, and describes a violation if the hardware does not reject the write.
func (c *Campaign) refused(off, v uint32) (string, error) {
	err := c.rig.bus.WriteReg(off, v)
	var refused *npu.BusError
	switch {
	case errors.As(err, &refused) && refused.Resp == npu.RespSLVERR:
		return "", nil
	case err == nil || refused != nil:
		return fmt.Sprintf("a write of %#x to register %#03x was answered with %v, expected SLVERR", v, off, err), nil
	}
	return "", err
}

// busyOK lists the registers that are writable during a start (hw/abi, busy: ok).
var busyOK = []uint32{abi.RegScratch0, abi.RegScratch1, abi.RegCtrl, abi.RegIRQStatus, abi.RegIRQEnable}

func whileBusy(c *Campaign) *plan {
	const writes = 8
	var offs []uint32
	for len(offs) < writes {
		off := uint32(4 * c.rng.IntN(0x400))
		if c.rng.IntN(4) > 0 { // mostly existing registers
			off = abi.RegLayers + 4*uint32(c.rng.IntN(int(abi.RegSlotTable+4*abi.RegSlotTableCount-abi.RegLayers)/4))
		}
		if !slices.Contains(busyOK, off) {
			offs = append(offs, off)
		}
	}
	values := make([]uint32, writes)
	for i := range values {
		values[i] = c.rng.Uint32() >> c.rng.IntN(32)
	}
	return c.duringStart(fmt.Sprintf("registers %03x written", offs), 3*writes, func() (string, error) {
		for i, off := range offs {
			if what, err := c.refused(off, values[i]); what != "" || err != nil {
				return what, err
			}
		}
		return "", nil
	})
}

func startWhileBusy(c *Campaign) *plan {
	bits := []uint32{
		abi.RegCtrlStartMask, abi.RegCtrlClearCountersMask, abi.RegCtrlStartMask | abi.RegCtrlSoftResetMask, abi.RegCtrlStartMask | abi.RegCtrlClearCountersMask,
		8 << c.rng.IntN(29),
	}
	v := bits[c.rng.IntN(len(bits))]
	return c.duringStart(fmt.Sprintf("CTRL written with %#x", v), 3, func() (string, error) { return c.refused(abi.RegCtrl, v) })
}

// duringStart plans a harmless access during a start.
func (c *Campaign) duringStart(what string, cycles uint64, do func() (string, error)) *plan {
	p := &plan{what: what, codes: []abi.ErrCode{abi.ErrNone}, layer: -1, port: -1, at: c.cycle(cycles + 16)}
	p.what += fmt.Sprintf(" in cycle %d", p.at)
	p.during = do
	return p
}

// registerBits sets undefined bits of registers before a start.
func registerBits(c *Campaign) *plan {
	all := [][2]uint32{
		{abi.RegLayers, abi.RegLayersMask},
		{abi.RegBatch, abi.RegBatchMask},
		{abi.RegNSlot, abi.RegNSlotMask},
		{abi.RegDescBaseHi, abi.RegDescBaseHiMask},
		{abi.RegWeightBaseHi, abi.RegWeightBaseHiMask},
		{abi.RegSlotBaseHi, abi.RegSlotBaseHiMask},
		{abi.RegFBCBAddr, abi.RegFBCBAddrMask},
		{abi.RegFBCBData, ^uint32(abi.FBCBReserved)},
		{abi.RegIRQEnable, abi.RegIRQEnableMask},
		{abi.RegSlotTable + 4*uint32(c.rng.IntN(abi.RegSlotTableCount)), abi.RegSlotTableMask},
		{abi.RegCtrl, abi.RegCtrlMask},
		{abi.RegStatus, 0},
		{abi.RegID, 0},
		{abi.RegErrorAddr, 0},
		{abi.CounterLo(c.rng.IntN(abi.CntCount)), 0},
	}
	x := all[c.rng.IntN(len(all))]
	v := c.rng.Uint32()
	for v&^x[1] == 0 {
		v = c.rng.Uint32()
	}
	return &plan{
		what: fmt.Sprintf("register %03x written with %#x", x[0], v), codes: []abi.ErrCode{abi.ErrNone}, layer: -1, port: -1,
		before: func(*regs) (string, error) { return c.refused(x[0], v) },
	}
}

func softReset(c *Campaign) *plan {
	p := &plan{codes: []abi.ErrCode{abi.ErrSoftReset}, layer: -1, port: -1, at: c.cycle(16)}
	p.what = fmt.Sprintf("soft reset in cycle %d", p.at)
	p.during = func() (string, error) { return "", c.rig.bus.WriteReg(abi.RegCtrl, abi.RegCtrlSoftResetMask) }
	return p
}

func softResetIdle(c *Campaign) *plan {
	return &plan{
		what: "soft reset before the start", codes: []abi.ErrCode{abi.ErrNone}, layer: -1, port: -1,
		before: func(*regs) (string, error) {
			if err := c.rig.bus.WriteReg(abi.RegCtrl, abi.RegCtrlSoftResetMask); err != nil {
				return "", err
			}
			s, err := c.rig.bus.ReadReg(abi.RegStatus)
			if s&abi.RegStatusBusyMask != 0 {
				return "busy after a soft reset without a start", err
			}
			return "", err
		},
	}
}
