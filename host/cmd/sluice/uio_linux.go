// The NPU of the board that this program runs on, behind UIO, which is Linux's.

package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/sluice-npu/sluice/bitstreams"
	"github.com/sluice-npu/sluice/host/board"
	"github.com/sluice-npu/sluice/host/npu"
	"github.com/sluice-npu/sluice/host/npu/uio"
)

// open finds the NPU and loads the bundle.
func (f *uioFlags) open(ctx context.Context, p *prepared) (*npu.Driver, error) {
	t := board.Target{UIO: f.UIO, Label: f.Label, ClockMHz: f.ClockMHz}
	d, bus, err := t.Open(ctx, p.bundle, npu.Opts{})
	if err != nil {
		return nil, coded(board.Code(err), err)
	}
	f.now = t.Clock(bus)
	return d, nil
}

// Run implements the command.
func (c *boardCmd) Run(e *env) error {
	if code := board.Main(c.Args, e.stdout, e.stderr); code != codeOK {
		return &codeError{code, errSaid}
	}
	return nil
}

// configure puts a bitstream into the PL, and looks whether its registers are the manifest's.
func configure(e *env, name string, m *bitstreams.Manifest, b *bitstreams.Bit, force bool) error {
	manager := bitstreams.Manager{}
	state, err := manager.State()
	if err != nil {
		return coded(codeDevice, err)
	}
	o := uio.Opts{Name: name}
	if err := replace(o, state == "operating" && !force, func() error { return manager.Load("npu.bin", b.Bin()) }); err != nil {
		return coded(codeDevice, err)
	}
	bus, err := uio.Open(e.ctx, o)
	if err != nil {
		return coded(codeDevice, fmt.Errorf("the PL is configured, but: %w", err))
	}
	d, err := npu.New(bus, npu.Opts{Name: name, Label: "measured", ClockHz: 1})
	if err != nil {
		return coded(codeDevice, fmt.Errorf("the PL is configured, but: %w", err))
	}
	defer d.Close()
	h := d.Build()
	if err := m.CheckHardware(h.DesignHash, h.ABIHash); err != nil {
		return coded(codeCheck, fmt.Errorf("the PL is configured, but its registers say: %w", err))
	}
	return nil
}

// replace loads while nobody else has the NPU that is in the PL, nor can take it; look: and nothing of it is
// under way on the memory ports when the PL goes.
func replace(o uio.Opts, look bool, load func() error) (err error) {
	claim, err := uio.Hold(o)
	switch {
	case errors.Is(err, uio.ErrNoDevice): // no driver, so no user
		return load()
	case err != nil:
		return fmt.Errorf("the NPU that is loaded: %w", err)
	}
	defer func() { err = errors.Join(err, claim.Close()) }()
	if look {
		busy, err := claim.Busy()
		switch {
		case err != nil:
			return fmt.Errorf("look at the NPU that is loaded: %w (--force loads all the same)", err)
		case busy:
			return errors.New("the NPU is busy: end what uses it, or --force")
		}
	}
	return load()
}
