// This file has the flags for this board's NPU.

package main

import (
	"github.com/sluice-npu/sluice/host/engine"
)

// uioFlags describe the NPU of --device uio. Label and ClockMHz have no default values, because a wrong default would
// present, for example, simulated figures as measured.
type uioFlags struct {
	UIO      string             `serves:"bundle" device:"uio" name:"uio" default:"sluice-npu" help:"On uio: name of the UIO device; its memory is NAME-memory."`
	Label    string             `serves:"bundle" device:"uio" enum:",simulated,measured" default:"" help:"On uio, required: label of the figures, measured (a board) or simulated (QEMU)."`
	ClockMHz float64            `serves:"bundle" device:"uio" name:"clock-mhz" help:"On uio, required: the NPU's clock."`
	now      func() engine.Time // reads the NPU's clock; set when the NPU is open
}

// boardCmd is the command `sluice board`. It passes its arguments to package board, which defines the commands, options
// and exit codes. A board's image uses the same package.
type boardCmd struct {
	Args []string `arg:"" optional:"" help:"Command of sluice board, and its arguments."`
}

func (*boardCmd) Help() string { return "Example:\n  sluice board doctor" }
