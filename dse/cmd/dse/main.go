// Command dse maps early-exit networks to the NPU: it compiles an ONNX network to a bundle for one
// design and explains where each layer's time goes.
//
// Exit codes: 0 done, 1 a check failed (a layer fits no tile, no design fits a board, a sweep was
// interrupted), 2 usage, 3 bad input, 5 a data set
// or tool is missing.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/sluice-npu/sluice/boards"
	"github.com/sluice-npu/sluice/dse/mapping"
	"github.com/sluice-npu/sluice/dse/search"
	"github.com/sluice-npu/sluice/dse/zoo"
)

// Exit codes.
const (
	exitOK      = 0
	exitCheck   = 1
	exitUsage   = 2
	exitInput   = 3
	exitMissing = 5
)

type cli struct {
	JSON bool `name:"json" help:"One JSON document on stdout instead of text."`

	Compile  compileCmd  `cmd:"" help:"Compile a network to a bundle. Example: dse compile --network fashion --config run --out fashion.bundle"`
	Vectors  vectorsCmd  `cmd:"" help:"Write random networks as test vectors. Example: dse vectors --config small --n 4 --out out/vectors"`
	Sweep    sweepCmd    `cmd:"" help:"Search the whole design space of a board for a network. Example: dse sweep --network resnet50 --board zc706"`
	Ablate   ablateCmd   `cmd:"" help:"GOP/s of every way to batch, by batch size and subnet. Example: dse ablate --network resnet50 --board zc706"`
	Compare  compareCmd  `cmd:"" help:"Two designs or mappings side by side. Example: dse compare --network resnet50 --a zc706 --b mid --batch 4"`
	Export   exportCmd   `cmd:"" help:"Write a design as what simulation and bitstream are built from. Example: dse export --board zc706 --point 1024,14,64 --out out/export"`
	Check    checkCmd    `cmd:"" help:"Build an exported design with Verilator and yosys, and hold the estimates to what they say. Example: dse check out/export"`
	Report   reportCmd   `cmd:"" help:"Draw the design space as one HTML page and SVG files. Example: dse report --network resnet50 --board zc706 --out out/report"`
	BenchNPU benchNPUCmd `cmd:"" name:"bench-npu" help:"Count a network's cycles on the reference arrays beside roofline and goal. Example: dse bench-npu --config zc706 --batch 1"`
	Explain  explainCmd  `cmd:"" help:"Say where each layer's time goes. Example: dse explain --network fashion --config run --batch 8"`
	Validate validateCmd `cmd:"" help:"Compare the law of cycles with the Verilated NPU's counters. Example: dse validate --config run --network mobilenetv2 --share 0.2"`
}

// env is what a command works with.
type env struct {
	json           bool
	stdout, stderr io.Writer
}

// header are the keys of every JSON document.
type header struct {
	Schema  string `json:"schema"`
	Version string `json:"version"`
	Seed    uint64 `json:"seed"`
	Label   string `json:"label"` // estimated: cycles come from the law
}

func newHeader(command string, seed uint64) header {
	version := "devel"
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		version = info.Main.Version
	}
	return header{Schema: "sluice-dse-" + command + "/1", Version: version, Seed: seed, Label: "estimated"}
}

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run is the command without the process around it.
func run(args []string, stdout, stderr io.Writer) int {
	var c cli
	exited, code := false, exitOK
	parser, err := kong.New(&c, kong.Name("dse"), kong.Writers(stdout, stderr), kong.UsageOnError(),
		kong.Vars{"boards": strings.Join(boards.Names(), ", ")},
		kong.Description("Design space exploration and compilation for the Sluice NPU."),
		kong.Exit(func(n int) {
			if !exited {
				exited, code = true, n
			}
		}))
	if err != nil {
		fmt.Fprintln(stderr, "dse:", err)
		return exitUsage
	}
	ctx, err := parser.Parse(args)
	if exited {
		return code // --help
	}
	if err != nil {
		fmt.Fprintln(stderr, "dse:", err)
		return exitUsage
	}
	err = ctx.Run(&env{json: c.JSON, stdout: stdout, stderr: stderr})
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errShown):
		return exitCheck
	}
	fmt.Fprintln(stderr, "dse:", err)
	switch {
	case errors.Is(err, zoo.ErrDataMissing), errors.Is(err, errTool):
		return exitMissing
	case errors.Is(err, mapping.ErrNoFit), errors.Is(err, search.ErrEmpty), errors.Is(err, search.ErrInterrupted), errors.Is(err, search.ErrDrift):
		return exitCheck
	}
	return exitInput
}

// errShown is a check that failed and has been printed.
var errShown = errors.New("a check failed")

// write prints a document as JSON, and writes it to path where that is not empty.
func (e *env) write(doc any, path string) error {
	text, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		return fmt.Errorf("write figures: %w", err)
	}
	text = append(text, '\n')
	if path != "" {
		if err := os.WriteFile(path, text, 0o644); err != nil {
			return fmt.Errorf("write figures: %w", err)
		}
	}
	if e.json {
		if _, err := e.stdout.Write(text); err != nil {
			return fmt.Errorf("write figures: %w", err)
		}
	}
	return nil
}
