// Register accesses that the hardware refuses silently. A QUIET build answers such an access with OKAY, and only sets a
// bit in the register ACCESS.

package npu

import (
	"context"
	"errors"
	"fmt"

	"github.com/sluice-npu/sluice/hw/abi"
)

// group writes registers in order and checks that the hardware has accepted all of them. On a quiet build the check costs one
// extra read.
func (d *Driver) group(what string, pairs ...[2]uint32) error {
	if err := d.regs(pairs...); err != nil || !d.build.Quiet {
		return err
	}
	if marked, err := d.refused(); err != nil || !marked {
		return err
	}
	// An earlier access may have set the bit. Therefore the registers are written again, one by one, to find the refused
	// write. This changes no accepted value: each FBCB_DATA follows its FBCB_ADDR again.
	if err := d.bus.WriteReg(abi.RegAccess, abi.RegAccessRefusedMask); err != nil {
		return err
	}
	for _, p := range pairs {
		if err := d.bus.WriteReg(p[0], p[1]); err != nil {
			return err
		}
		marked, err := d.refused()
		if err != nil {
			return err
		}
		if marked {
			return fmt.Errorf("%s: %w", what, d.refusal(p[0], p[1]))
		}
	}
	return nil
}

// refused reads from ACCESS whether an access was refused. It does not clear the bit, so later reads return it too.
func (d *Driver) refused() (bool, error) {
	v, err := d.bus.ReadReg(abi.RegAccess)
	return v&abi.RegAccessRefusedMask != 0, err
}

// refusal returns the error for a write that set the bit in ACCESS.
func (d *Driver) refusal(off, v uint32) error {
	name := "no register"
	if r, ok := abi.RegisterAt(off); ok {
		name = r.Name
	}
	switch off {
	case abi.RegDescBaseHi, abi.RegWeightBaseHi, abi.RegSlotBaseHi:
		name += " (the memory lies beyond the addresses of this build)"
	case abi.RegFBCBData:
		at, err := d.bus.ReadReg(abi.RegFBCBAddr) // a refused write does not advance this address
		if err != nil {
			return err
		}
		name += fmt.Sprintf(" (layer %d, batch %d)",
			at&abi.RegFBCBAddrLayerMask>>abi.RegFBCBAddrLayerLSB, at&abi.RegFBCBAddrBatchMask>>abi.RegFBCBAddrBatchLSB+1)
	}
	return fmt.Errorf("%s: %w: %w", name, ErrRefused, &BusError{Write: true, Off: off, Val: v, Resp: RespOKAY})
}

// startLook is the number of cycles after which the driver checks that a quiet build has accepted a start. Most starts
// are shorter, so no check is needed.
const startLook = 1 << 20

// wait waits for a start's interrupt, for at most limit cycles. It returns early if START was refused.
func (d *Driver) wait(ctx context.Context, limit uint64) (cycles uint64, err error) {
	if !d.build.Quiet {
		return d.bus.WaitIRQ(ctx, limit)
	}
	cycles, err = d.bus.WaitIRQ(ctx, min(limit, startLook))
	if !errors.Is(err, ErrNoIRQ) {
		return cycles, err
	}
	if err := d.taken(); err != nil {
		return cycles, err
	}
	if cycles >= limit {
		return cycles, err
	}
	more, err := d.bus.WaitIRQ(ctx, limit-cycles)
	return cycles + more, err
}

// taken returns nil if START was accepted: the hardware is busy or has raised an interrupt cause. Otherwise taken reads
// the reason from ACCESS. ACCESS alone is not sufficient, because other accesses may set its bits during a start.
func (d *Driver) taken() error {
	status, err := d.bus.ReadReg(abi.RegStatus)
	if err != nil || status&abi.RegStatusBusyMask != 0 {
		return err
	}
	cause, err := d.bus.ReadReg(abi.RegIRQStatus)
	if err != nil || cause != 0 {
		return err
	}
	marked, err := d.refused()
	switch {
	case err != nil:
		return err
	case marked:
		return fmt.Errorf("START: %w", d.refusal(abi.RegCtrl, abi.RegCtrlStartMask))
	}
	return fmt.Errorf("%w: after START it neither runs nor has ended: STATUS is %#x", ErrHang, status)
}
