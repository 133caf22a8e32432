// This file accesses this board's NPU through UIO. UIO exists only on Linux.

package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/sluice-npu/sluice/bitstreams"
	"github.com/sluice-npu/sluice/boards"
	"github.com/sluice-npu/sluice/host/board"
	"github.com/sluice-npu/sluice/host/cli"
	"github.com/sluice-npu/sluice/host/npu"
	"github.com/sluice-npu/sluice/host/npu/uio"
)

// open finds the NPU and loads the bundle.
func (f *uioFlags) open(ctx context.Context, p *prepared) (*npu.Driver, error) {
	t := f.target()
	d, bus, err := t.Open(ctx, p.bundle, npu.Opts{})
	if err != nil {
		return nil, cli.Coded(cli.Input, err)
	}
	f.now = t.Clock(bus)
	return d, nil
}

func (f *uioFlags) target() board.Target {
	return board.Target{UIO: f.UIO, Label: f.Label, ClockMHz: f.ClockMHz}
}

// find finds the NPU. It accepts any design.
func (f *uioFlags) find(ctx context.Context, slots int) (*npu.Driver, error) {
	t := f.target()
	d, _, err := t.Find(ctx, 0, npu.Opts{Slots: slots})
	return d, cli.Coded(cli.Device, err)
}

// foundBoard returns an error if no NPU is in the PL.
func foundBoard() error {
	_, err := uio.Find(uio.Opts{})
	return err
}

func (c *boardCmd) Run(e *cli.Env) error {
	if code := board.Main(c.Args, e.Stdout, e.Stderr); code != cli.OK {
		return cli.Told(code)
	}
	return nil
}

// configure loads a bitstream into the PL and checks that the loaded design is the manifest's design.
func configure(e *cli.Env, target boards.Board, m *bitstreams.Manifest, b *bitstreams.Bit, force bool) error {
	manager := bitstreams.Manager{}
	state, err := manager.State()
	if err != nil {
		return cli.Coded(cli.Device, err)
	}
	o := uio.Opts{Name: target.UIO}
	if err := replace(o, state == "operating" && !force, board.Awake, func() error { return manager.Load("npu.bin", b.Bin()) }); err != nil {
		return cli.Coded(cli.Device, err)
	}
	around, err := answers(e.Ctx, target, o, m, board.Surroundings)
	for _, found := range around {
		fmt.Fprintln(e.Stdout, found)
	}
	if err != nil {
		return fmt.Errorf("the PL is configured, but: %w", err)
	}
	return nil
}

// answers compares the loaded design with board and manifest. First it checks the PL's clock and reset (surroundings)
// and the address, because a read from the PL hangs the processor if no design answers.
func answers(ctx context.Context, b boards.Board, o uio.Opts, m *bitstreams.Manifest, surroundings func(boards.Board) ([]string, error)) ([]string, error) {
	around, err := surroundings(b)
	if err != nil {
		return around, cli.Coded(cli.Device, err)
	}
	u, err := uio.Find(o)
	if err == nil && u.Addr != b.Registers.Base {
		err = fmt.Errorf("%s has its registers at %#x, %s at %#x: the device tree is of another block design", u.Path, u.Addr, b.Name, b.Registers.Base)
	}
	if err != nil {
		return around, cli.Coded(cli.Device, err)
	}
	bus, err := uio.Open(ctx, o)
	if err != nil {
		return around, cli.Coded(cli.Device, err)
	}
	d, err := npu.New(bus, npu.Opts{Name: b.UIO, Label: "measured", ClockHz: 1})
	if err != nil {
		return around, cli.Coded(cli.Device, err)
	}
	h := d.Build()
	if err := errors.Join(d.Close(), m.CheckHardware(h.DesignHash, h.ABIHash)); err != nil {
		return around, cli.Errorf(cli.Check, "its registers say: %w", err)
	}
	return around, nil
}

// replace calls load while it has exclusive access to the NPU in the PL. If look is true, it first checks that no start
// is running. awake returns an error if the PL cannot answer this check.
func replace(o uio.Opts, look bool, awake, load func() error) (err error) {
	claim, err := uio.Hold(o)
	switch {
	case errors.Is(err, uio.ErrNoDevice): // without a driver, no other program can use the NPU
		return load()
	case err != nil:
		return fmt.Errorf("the NPU that is loaded: %w", err)
	}
	defer func() { err = errors.Join(err, claim.Close()) }()
	if look {
		if err := awake(); err != nil {
			return fmt.Errorf("the NPU that is loaded cannot be looked at: %w (--force loads all the same)", err)
		}
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
