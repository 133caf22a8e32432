// Command qemu boots a board's image (boards/image/build.sh) in QEMU. The image's UIO device is the Verilated NPU of
// the image's configuration. The machine's console goes to stdout.
//
// Exit codes: 0 every run of `sluice board` succeeded, 1 a run failed, 2 wrong usage, 4 the machine failed,
// 5 a tool is missing.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/sluice-npu/sluice/boards"
	"github.com/sluice-npu/sluice/boards/qemu"
)

type cli struct {
	Board   string        `default:"zc706" help:"Board."`
	Image   string        `help:"Folder of the image (default build/image/BOARD)."`
	Cosim   string        `required:"" help:"npu_cosim of the kit's configuration (sim/build.sh prints it)."`
	Run     []string      `sep:"none" help:"A run of sluice board, arguments by commas; may be given again."`
	Device  []string      `sep:"none" help:"Argument of the device: mute=1, spurious_ns=N, slverr=N, latency=N, bandwidth_q16=N."`
	Append  string        `help:"Appended to the kernel's command line."`
	Timeout time.Duration `default:"10m" help:"Of wall time."`
}

func (*cli) Help() string {
	return `Example:
  go run ./boards/cmd/qemu --board zc706 --cosim $(sim/build.sh tiny) --run doctor --run serve,-n,64`
}

func main() {
	var c cli
	kong.Parse(&c, kong.Name("qemu"), kong.UsageOnError())
	os.Exit(run(&c))
}

func run(c *cli) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	fail := func(code int, err error) int {
		fmt.Fprintln(os.Stderr, "qemu:", err)
		return code
	}
	b, err := boards.Load(c.Board)
	if err != nil {
		return fail(2, err)
	}
	plugin, err := qemu.Build(".")
	if err != nil {
		return fail(5, err)
	}
	if c.Image == "" {
		c.Image = "build/image/" + b.Name
	}
	if len(c.Run) == 0 {
		c.Run = []string{"doctor", "serve,-n,32,--rate,1.5"}
	}
	text, err := qemu.Run(ctx, qemu.Opts{
		Board: b, Image: c.Image, Cosim: c.Cosim, Plugin: plugin, Device: c.Device, Run: c.Run, Append: c.Append,
		Console: os.Stdout, Timeout: c.Timeout,
	})
	switch {
	case errors.Is(err, qemu.ErrTool):
		return fail(5, err)
	case err != nil:
		return fail(4, err)
	case !strings.Contains(text, "SLUICE-DONE 0 of "):
		return 1
	}
	return 0
}
