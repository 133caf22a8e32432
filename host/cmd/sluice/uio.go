// The NPU of the board that this program runs on, behind UIO.

package main

import (
	"context"
	"errors"

	"github.com/sluice-npu/sluice/host/board"
	"github.com/sluice-npu/sluice/host/engine"
	"github.com/sluice-npu/sluice/host/npu"
)

// uioFlags say which NPU --device uio is. Label and clock have no default: nothing that a board counts may
// be called by another's name.
type uioFlags struct {
	UIO      string             `name:"uio" default:"sluice-npu" help:"On uio: name of the UIO device; its memory is NAME-memory."`
	Label    string             `enum:",simulated,measured" default:"" help:"On uio, needed: what figures are, measured (a board) or simulated (QEMU)."`
	ClockMHz float64            `name:"clock-mhz" help:"On uio, needed: the NPU's clock, as it is."`
	now      func() engine.Time // the NPU's clock, once it is open
}

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

// boardCmd hands on to the package that a board's image runs: its commands, options and exit codes.
type boardCmd struct {
	Args []string `arg:"" optional:"" help:"Command of sluice board, and its arguments."`
}

func (*boardCmd) Help() string { return "Example:\n  sluice board doctor" }

// Run implements the command.
func (c *boardCmd) Run(e *env) error {
	if code := board.Main(c.Args, e.stdout, e.stderr); code != codeOK {
		return &codeError{code, errSaid}
	}
	return nil
}

// errSaid is the error of what has said itself what is wrong.
var errSaid = errors.New("")
