// Package board is the command `sluice board`. On a board it serves a kit (host/kit) on the NPU, through UIO, and
// compares the results with the golden executor's. It also configures the PL and diagnoses the machine. As the image's
// first program, `sluice board start` loads the kernel modules, runs the checks, serves, and reports the outcome. Exit
// codes are defined in package cli.
package board

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/sluice-npu/sluice/host/cli"
)

type env struct {
	ctx context.Context
	out io.Writer
}

type commands struct {
	Serve  serveCmd  `cmd:"" help:"Serve a kit and compare every result with golden."`
	Doctor doctorCmd `cmd:"" help:"Look at the machine: what is there, what is wrong, what to do."`
	Start  startCmd  `cmd:"" help:"What the image runs first: loads the module, doctor, serve; options from the kernel's command line."`

	Version kong.VersionFlag `help:"Print the version."`
}

// Main runs the command and returns its exit code.
func Main(args []string, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var c commands
	exited := -1
	p, err := kong.New(&c,
		kong.Name("sluice board"), kong.Description("Serves early-exit networks on the NPU of this board."),
		kong.UsageOnError(), kong.Writers(stdout, stderr), kong.Exit(func(code int) { exited = code }),
		kong.Vars{"version": "sluice board " + cli.Version()})
	if err != nil {
		fmt.Fprintln(stderr, "sluice board:", err)
		return cli.Usage
	}
	k, err := p.Parse(args)
	if exited >= 0 {
		return exited
	}
	if err != nil {
		fmt.Fprintf(stderr, "sluice board: %v\n(sluice board --help tells more)\n", err)
		return cli.Usage
	}
	err = k.Run(&env{ctx, stdout})
	if err == nil {
		return cli.OK
	}
	fmt.Fprintln(stderr, "sluice board:", err)
	return cli.CodeOf(err)
}
