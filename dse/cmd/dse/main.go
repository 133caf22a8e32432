// Command dse maps early-exit networks to the NPU. It compiles an ONNX network to a bundle for one design, and shows
// which resource limits each layer.
//
// Exit codes: 0 success; 1 a check failed (a layer fits no tile, no design fits a board, a sweep was interrupted); 2
// wrong usage; 3 invalid input; 5 a data set or a tool is missing.
package main

import (
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/sluice-npu/sluice/boards"
	"github.com/sluice-npu/sluice/dse/mapping"
	"github.com/sluice-npu/sluice/dse/onnx"
	"github.com/sluice-npu/sluice/dse/search"
	"github.com/sluice-npu/sluice/dse/zoo"
	"github.com/sluice-npu/sluice/host/capacity"
	"github.com/sluice-npu/sluice/host/cli"
	"github.com/sluice-npu/sluice/host/npu"
)

type commands struct {
	JSON bool `name:"json" shard:"here" help:"One JSON document on stdout instead of text."`

	Compile  compileCmd   `cmd:"" help:"Compile a network to a bundle. Example: dse compile --network fashion --config run --out fashion.sluice"`
	Evaluate evaluateCmd  `cmd:"" help:"Say what a network loses in integers, without writing a bundle. Example: dse evaluate --network my.onnx --config run --calibrate photos --evaluate held-out --type int8"`
	Vectors  vectorsCmd   `cmd:"" help:"Write random networks as test vectors. Example: dse vectors --config small --n 4 --out out/vectors"`
	Sweep    sweepCmd     `cmd:"" help:"Search the whole design space of a board for a network. Example: dse sweep --network resnet50 --board zc706"`
	Merge    cli.MergeCmd `cmd:"" help:"Put the results of shards together (--shard of sweep, validate and synth). Example: dse merge shards --out best.json"`
	Ablate   ablateCmd    `cmd:"" help:"GOP/s of every way to batch, by batch size and subnet. Example: dse ablate --network resnet50 --board zc706"`
	Compare  compareCmd   `cmd:"" help:"Two designs or mappings side by side. Example: dse compare --network resnet50 --a zc706 --b mid --batch 4"`
	Export   exportCmd    `cmd:"" help:"Write the files of a design from which simulation and bitstream are built. Example: dse export --board zc706 --point 1024,14,64 --out out/export"`
	Check    checkCmd     `cmd:"" help:"Build an exported design with Verilator and yosys, and check the estimates against them. Example: dse check out/export"`
	Synth    synthCmd     `cmd:"" help:"Synthesise modules with yosys and estimate their clock. Example: dse synth --config small --module fbcb,run_gen"`
	Report   reportCmd    `cmd:"" help:"Draw the design space as one HTML page and SVG files. Example: dse report --network resnet50 --board zc706 --out out/report"`
	BenchNPU benchNPUCmd  `cmd:"" name:"bench-npu" help:"Count a network's cycles on the reference arrays beside roofline and goal. Example: dse bench-npu --config zc706 --batch 1"`
	Explain  explainCmd   `cmd:"" help:"Show where each layer's time goes. Example: dse explain --network fashion --config run --batch 8"`
	Validate validateCmd  `cmd:"" help:"Compare the law of cycles with the Verilated NPU's counters. Example: dse validate --config run --network mobilenetv2 --share 0.2"`
	Ops      operatorsCmd `cmd:"" name:"operators" help:"Show which operators of a network are supported. Example: dse operators my.onnx"`
	Version  versionCmd   `cmd:"" help:"Show version, revision and platform."`

	Completion cli.Completion `cmd:"" help:"Print shell code that completes commands and flags."`
}

// versionCmd prints the version of this program.
type versionCmd struct{}

func (*versionCmd) Run(e *cli.Env) error { return cli.About("dse").Print(e.Stdout, e.JSON) }

func newHeader(command string, seed uint64) cli.Header {
	return cli.NewHeader("sluice-dse-"+command+"/1", seed, "estimated") // the law or the machine computes the cycles
}

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run executes the command line. It changes no state of the process.
func run(args []string, stdout, stderr io.Writer) int {
	var c commands
	return cli.Program{
		Name: "dse", About: "Design space exploration and compilation for the Sluice NPU.",
		Commands: &c, Vars: kong.Vars{"boards": strings.Join(boards.Names(), ", ")},
		Setup: func(e *cli.Env) { e.JSON = c.JSON },
		Code:  code, Weights: onnx.Outside,
	}.Main(context.Background(), args, stdout, stderr)
}

// code returns the exit code for an error of one of the packages.
func code(err error) int {
	is := func(of ...error) bool {
		return slices.ContainsFunc(of, func(e error) bool { return errors.Is(err, e) })
	}
	switch {
	case is(capacity.ErrFlags, search.ErrWeights): // only flags cause these errors
		return cli.Usage
	case is(zoo.ErrDataMissing, zoo.ErrPython, npu.ErrNoCosim, errTool):
		return cli.Tool
	case is(mapping.ErrNoFit, search.ErrEmpty, search.ErrInterrupted, search.ErrDrift):
		return cli.Check
	}
	return cli.OK
}

// usage returns an error about a flag with an invalid value.
func usage(format string, args ...any) error { return cli.Errorf(cli.Usage, format, args...) }

// operators lists the operators that an ONNX file may contain.
func operators() string { return strings.Join(onnx.Supported(), ", ") }
