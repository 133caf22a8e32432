// Soft and hard resets.

package npu

import (
	"context"
	"fmt"

	"github.com/sluice-npu/sluice/hw/abi"
)

// Reset implements device.Blocking. It tries a soft reset. If this fails, it tries a hard reset. Then it writes every
// register again. Samples and networks are not removed.
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
		// The aborted start ends with an error and an interrupt.
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
	// A reset does not change the network's registers, but the failure may have interrupted writes to them.
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
