// Command dse maps early-exit networks to the NPU: it compiles an ONNX network to a bundle for one
// design and explains where each layer's time goes.
//
// Exit codes: 0 done, 1 a check failed (a layer fits no tile, no design fits a board, a sweep was
// interrupted), 2 usage, 3 bad input, 5 a data set
// or tool is missing.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/sluice-npu/sluice/boards"
	"github.com/sluice-npu/sluice/dse/cli"
	"github.com/sluice-npu/sluice/dse/mapping"
	"github.com/sluice-npu/sluice/dse/onnx"
	"github.com/sluice-npu/sluice/dse/search"
	"github.com/sluice-npu/sluice/dse/zoo"
	"github.com/sluice-npu/sluice/host/npu"
)

// Exit codes.
const (
	exitOK      = 0
	exitCheck   = 1
	exitUsage   = 2
	exitInput   = 3
	exitMissing = 5
)

type commands struct {
	JSON bool `name:"json" help:"One JSON document on stdout instead of text."`

	Compile  compileCmd   `cmd:"" help:"Compile a network to a bundle. Example: dse compile --network fashion --config run --out fashion.sluice"`
	Vectors  vectorsCmd   `cmd:"" help:"Write random networks as test vectors. Example: dse vectors --config small --n 4 --out out/vectors"`
	Sweep    sweepCmd     `cmd:"" help:"Search the whole design space of a board for a network. Example: dse sweep --network resnet50 --board zc706"`
	Ablate   ablateCmd    `cmd:"" help:"GOP/s of every way to batch, by batch size and subnet. Example: dse ablate --network resnet50 --board zc706"`
	Compare  compareCmd   `cmd:"" help:"Two designs or mappings side by side. Example: dse compare --network resnet50 --a zc706 --b mid --batch 4"`
	Export   exportCmd    `cmd:"" help:"Write a design as what simulation and bitstream are built from. Example: dse export --board zc706 --point 1024,14,64 --out out/export"`
	Check    checkCmd     `cmd:"" help:"Build an exported design with Verilator and yosys, and hold the estimates to what they say. Example: dse check out/export"`
	Report   reportCmd    `cmd:"" help:"Draw the design space as one HTML page and SVG files. Example: dse report --network resnet50 --board zc706 --out out/report"`
	BenchNPU benchNPUCmd  `cmd:"" name:"bench-npu" help:"Count a network's cycles on the reference arrays beside roofline and goal. Example: dse bench-npu --config zc706 --batch 1"`
	Explain  explainCmd   `cmd:"" help:"Say where each layer's time goes. Example: dse explain --network fashion --config run --batch 8"`
	Validate validateCmd  `cmd:"" help:"Compare the law of cycles with the Verilated NPU's counters. Example: dse validate --config run --network mobilenetv2 --share 0.2"`
	Ops      operatorsCmd `cmd:"" name:"operators" help:"Say which operators of a network are supported. Example: dse operators my.onnx"`
	Version  versionCmd   `cmd:"" help:"Say what this program is."`

	Completion cli.Completion `cmd:"" help:"Teach a shell to complete commands and flags."`
}

// versionCmd says what this program is.
type versionCmd struct{}

// Run implements the command.
func (*versionCmd) Run(e *env) error { return cli.About("dse").Print(e.stdout, e.json) }

// env is what a command works with.
type env struct {
	json           bool
	stdout, stderr io.Writer
	given          []*kong.Flag // those of the command line, whatever their values
}

// unread is a usage error where a flag was given that what was chosen does not read. Pairs are a choice and what was
// chosen; a flag's tag of the choice's name lists by commas what reads it ("cheapest" is every "cheapest by ...").
func (e *env) unread(pairs ...string) error {
	var all []string
	for i := 0; i < len(pairs); i += 2 {
		choice, chosen := pairs[i], pairs[i+1]
		for _, f := range e.given {
			readers := f.Tag.Get(choice)
			reads := func(r string) bool { return r == chosen || strings.HasPrefix(chosen, r+" by ") }
			if readers == "" || slices.ContainsFunc(strings.Split(readers, ","), reads) {
				continue
			}
			all = append(all, fmt.Sprintf("--%s is read by --%s %s, not by %s", f.Name, choice, strings.ReplaceAll(readers, ",", ", "), chosen))
		}
	}
	if len(all) == 0 {
		return nil
	}
	return usage("%s", strings.Join(all, "; "))
}

// header are the keys of every JSON document.
type header struct {
	Schema  string `json:"schema"`
	Version string `json:"version"`
	Seed    uint64 `json:"seed"`
	Label   string `json:"label"` // estimated: cycles come from the law
}

func newHeader(command string, seed uint64) header {
	return header{Schema: "sluice-dse-" + command + "/1", Version: cli.Version(), Seed: seed, Label: "estimated"}
}

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run is the command without the process around it.
func run(args []string, stdout, stderr io.Writer) int {
	var c commands
	if len(args) == 0 {
		args = []string{"--help"} // what there is, and no error
	}
	out := cli.New("dse", args, stdout, stderr)
	exited, code := false, exitOK
	parser, err := kong.New(&c, kong.Name("dse"), kong.Writers(out.Stdout, stderr), kong.WithHyphenPrefixedParameters(true),
		kong.Vars{"boards": strings.Join(boards.Names(), ", ")},
		kong.Description("Design space exploration and compilation for the Sluice NPU."),
		kong.Exit(func(n int) {
			if !exited {
				exited, code = true, n
			}
		}))
	if err != nil {
		return out.Fail(exitUsage, err, "")
	}
	if cli.Complete(parser) {
		return exitOK
	}
	ctx, err := parser.Parse(args)
	if exited {
		return code // --help
	}
	if err != nil {
		return out.Fail(exitUsage, err, "(dse --help tells more)")
	}
	e := &env{json: c.JSON, stdout: out.Stdout, stderr: stderr}
	for _, p := range ctx.Path {
		if p.Flag != nil && !p.Resolved {
			e.given = append(e.given, p.Flag)
		}
	}
	err = ctx.Run(e)
	var u *usageError
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errShown):
		return exitCheck
	case errors.As(err, &u), errors.Is(err, errService), errors.Is(err, search.ErrWeights): // flags are all that those are about
		return out.Fail(exitUsage, err, "")
	case errors.Is(err, zoo.ErrDataMissing), errors.Is(err, zoo.ErrPython), errors.Is(err, npu.ErrNoCosim), errors.Is(err, errTool):
		return out.Fail(exitMissing, err, "")
	case errors.Is(err, mapping.ErrNoFit), errors.Is(err, search.ErrEmpty), errors.Is(err, search.ErrInterrupted), errors.Is(err, search.ErrDrift):
		return out.Fail(exitCheck, err, "")
	}
	return out.Fail(exitInput, err, "")
}

// usageError is a flag whose value makes no sense.
type usageError struct{ error }

func usage(format string, args ...any) error { return &usageError{fmt.Errorf(format, args...)} }

// operators lists those that an ONNX file may have.
func operators() string { return strings.Join(onnx.Supported(), ", ") }

// progress shows how far something is.
func (e *env) progress(name string, total int) (set func(int), done func()) {
	return cli.Progress(context.Background(), e.stderr, name, total)
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
