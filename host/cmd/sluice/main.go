// Command sluice serves early-exit networks (`sluice run`, `sluice serve`). It verifies the hardware against its
// references, measures, and inspects. Every command has --help with an example. With --json a command prints one JSON
// document on stdout and logs on stderr.
//
// Exit codes: 0 ok, 1 a check failed, 2 usage, 3 bad input, 4 device, 5 missing tool, 6 a fault of the program itself
// (for example, a policy that requests an impossible action), 130 interrupted.
package main

import (
	"context"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/sluice-npu/sluice/dse/onnx"
	"github.com/sluice-npu/sluice/host/cli"
	edge "github.com/sluice-npu/sluice/host/experiments/jellyfish"
	"github.com/sluice-npu/sluice/host/experiments/reef"
	"github.com/sluice-npu/sluice/host/experiments/strait"
	"github.com/sluice-npu/sluice/host/sched"
)

type commands struct {
	Run       runCmd       `cmd:"" help:"Serve test images and report how it went (the main job)."`
	Serve     serveCmd     `cmd:"" help:"Serve models to clients of the Open Inference Protocol (Triton's, KServe's, curl)."`
	Load      loadCmd      `cmd:"" help:"Send requests to a server of the Open Inference Protocol, and count how they end."`
	Verify    verifyCmd    `cmd:"" arch:"any" help:"Compare the hardware with its references, bit for bit."`
	Faults    faultsCmd    `cmd:"" arch:"any" help:"Inject random faults: each must end as specified, and the next start must be correct."`
	Merge     mergeCmd     `cmd:"" help:"Put the results of shards together (--shard of verify, faults and bench)."`
	Work      workCmd      `cmd:"" help:"Do the shards of a command on many machines."`
	Profile   profileCmd   `cmd:"" help:"Measure a latency table on a device."`
	TuneTheta thetaCmd     `cmd:"" name:"tune-theta" help:"Find exit thresholds with the least work within a loss of accuracy."`
	Bench     benchCmd     `cmd:"" help:"Compare policies over many settings."`
	Reproduce reproduceCmd `cmd:"" help:"Reproduce a publication's tables and figures; each claim gets a verdict and a cause."`
	Bandwidth bandwidthCmd `cmd:"" help:"Estimate the rates of clients' links from captured packets."`
	Camera    cameraCmd    `cmd:"" help:"Send clients' frames to sluice run --zoo --listen."`
	Classify  classifyCmd  `cmd:"" help:"Classify images with a bundle."`
	Inspect   inspectCmd   `cmd:"" help:"Show what is in a bundle."`
	Kit       kitCmd       `cmd:"" help:"Write a bundle, images and golden results for a board."`
	Bitstream bitstreamCmd `cmd:"" help:"Inspect, verify, convert and load a bitstream."`
	Board     boardCmd     `cmd:"" passthrough:"" help:"On a board: serve a kit, check the machine, configure the PL (sluice board --help)."`
	Doctor    doctorCmd    `cmd:"" help:"Check that tools and data are installed."`

	About      versionCmd     `cmd:"" name:"version" help:"Show version, revision and platform."`
	Completion cli.Completion `cmd:"" help:"Print shell code that completes commands and flags."`

	Verbose bool             `short:"v" shard:"here" help:"Log more."`
	Version kong.VersionFlag `help:"Print the version."`
}

// mergeCmd is cli.MergeCmd with the flag --json.
type mergeCmd struct {
	cli.MergeCmd
	JSON bool `name:"json" help:"Print JSON."`
}

func (c *mergeCmd) Run(e *cli.Env) error {
	e.JSON = c.JSON
	return c.MergeCmd.Run(e)
}

type versionCmd struct{ cli.VersionCmd }

func (c *versionCmd) Run(e *cli.Env) error { return cli.About("sluice").Print(e.Stdout, c.JSON) }

func main() { os.Exit(realMain(os.Args[1:], os.Stdout, os.Stderr)) }

func realMain(args []string, stdout, stderr io.Writer) int {
	ctx, stop := interruptible()
	defer stop()
	var c commands
	return cli.Program{
		Name:     "sluice",
		About:    "Serves early-exit networks on a GEMM NPU in fixed point of 16 or 8 bits, and networks of many kernels on simulated and real GPUs.",
		Commands: &c, Vars: policyNames(), Weights: onnx.Outside,
		Setup: func(e *cli.Env) {
			level := slog.LevelInfo
			if c.Verbose {
				level = slog.LevelDebug
			}
			e.Log = slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level}))
		},
	}.Main(ctx, args, stdout, stderr)
}

// policyNames is the help text of --policy: it lists the names of all policies that any package provides.
func policyNames() kong.Vars {
	var zoo []string
	for _, s := range edge.Systems() {
		zoo = append(zoo, s.Name)
	}
	return kong.Vars{
		"policies":        strings.Join(sched.Names(), ", "),
		"gpu_policies":    strings.Join(reef.Systems(), ", "),
		"strait_policies": strings.Join(strait.Systems(), ", "),
		"zoo_policies":    strings.Join(zoo, ", "),
	}
}

// interruptible returns a context that ends at the first SIGINT or SIGTERM; the second signal ends the program.
func interruptible() (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}
