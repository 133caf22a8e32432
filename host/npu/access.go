// Accesses that are refused without a word: a build with QUIET answers them OKAY, and its register ACCESS alone,
// one bit, tells that there was one.

package npu

import (
	"context"
	"errors"
	"fmt"

	"github.com/sluice-npu/sluice/hw/abi"
)

// group writes registers in order that all have to be taken before anything is done with them. On a build that is
// quiet it costs one read behind them.
func (d *Driver) group(what string, pairs ...[2]uint32) error {
	if err := d.regs(pairs...); err != nil || !d.build.Quiet {
		return err
	}
	if marked, err := d.refused(); err != nil || !marked {
		return err
	}
	// The mark may be of before, and somebody else's. What is written again one by one tells: it changes nothing that
	// was taken, and FBCB_DATA has its FBCB_ADDR in front.
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

// refused reads ACCESS. A mark stays: whoever looks next is to see that there was one.
func (d *Driver) refused() (bool, error) {
	v, err := d.bus.ReadReg(abi.RegAccess)
	return v&abi.RegAccessRefusedMask != 0, err
}

// refusal is the error of a write that left its mark.
func (d *Driver) refusal(off, v uint32) error {
	name := "no register"
	if r, ok := abi.RegisterAt(off); ok {
		name = r.Name
	}
	switch off {
	case abi.RegDescBaseHi, abi.RegWeightBaseHi, abi.RegSlotBaseHi:
		name += " (the memory lies beyond the addresses of this build)"
	case abi.RegFBCBData:
		at, err := d.bus.ReadReg(abi.RegFBCBAddr) // what is refused does not advance it
		if err != nil {
			return err
		}
		name += fmt.Sprintf(" (layer %d, batch %d)",
			at&abi.RegFBCBAddrLayerMask>>abi.RegFBCBAddrLayerLSB, at&abi.RegFBCBAddrBatchMask>>abi.RegFBCBAddrBatchLSB+1)
	}
	return fmt.Errorf("%s: %w: %w", name, ErrRefused, &BusError{Write: true, Off: off, Val: v, Resp: RespOKAY})
}

// startLook is how many cycles a start may take before a build that is quiet is asked whether it was taken. Most
// ends come before, and cost no look.
const startLook = 1 << 20

// wait waits for a start's interrupt, for limit cycles at most, but not for that of a START that was refused.
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

// taken is nil where START was: then the hardware runs, or has raised a cause. ACCESS says only why it was not, since
// others may leave marks while a start runs.
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
