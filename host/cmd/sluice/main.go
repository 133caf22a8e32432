// Command sluice serves early-exit networks: it runs the main job, verifies the hardware against
// its references, measures, and inspects. Every command has --help with an example; with --json it
// prints one JSON document on stdout and logs on stderr.
//
// Exit codes: 0 ok, 1 a check failed, 2 usage, 3 bad input, 4 device, 5 missing tool, 6 a fault of the
// program itself (a policy that asks for the impossible), 130 interrupted.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/sluice-npu/sluice/dse/cli"
	"github.com/sluice-npu/sluice/dse/files"
	"github.com/sluice-npu/sluice/host/experiments/edge"
	"github.com/sluice-npu/sluice/host/experiments/gpus"
	"github.com/sluice-npu/sluice/host/experiments/strait"
	"github.com/sluice-npu/sluice/host/sched"
)

// version of the program and of its documents.
var version = cli.Version()

// Exit codes (design/commands).
const (
	codeOK = iota
	codeCheck
	codeUsage
	codeInput
	codeDevice
	codeTool
	codeFault

	codeInterrupted = 130 // as shells say it
)

// codeError is an error that says with which exit code the program ends.
type codeError struct {
	code int
	err  error
}

func (e *codeError) Error() string { return e.err.Error() }
func (e *codeError) Unwrap() error { return e.err }

// coded gives err an exit code unless it has one already.
func coded(code int, err error) error {
	var c *codeError
	if err == nil || errors.As(err, &c) {
		return err
	}
	return &codeError{code, err}
}

// env is what a command may use of the world around it.
type env struct {
	ctx    context.Context // lives as long as the program
	stdout io.Writer
	stderr io.Writer
	log    *slog.Logger
	given  []string // flags of the command line, by name
}

// givenFlags are the flags that stand on the command line, whatever their values.
func givenFlags(k *kong.Context) (names []string) {
	for _, p := range k.Path {
		if p.Flag != nil && !p.Resolved {
			names = append(names, p.Flag.Name)
		}
	}
	return names
}

type commands struct {
	Run       runCmd       `cmd:"" help:"Serve test images and report how it went (the main job)."`
	Verify    verifyCmd    `cmd:"" help:"Compare the hardware with its references, bit for bit."`
	Faults    faultsCmd    `cmd:"" help:"Random faults: each ends as it must, and the next start is right."`
	Profile   profileCmd   `cmd:"" help:"Measure a latency table on a device."`
	TuneTheta thetaCmd     `cmd:"" name:"tune-theta" help:"Find exit thresholds with the least work within a loss of accuracy."`
	Bench     benchCmd     `cmd:"" help:"Compare policies over many settings."`
	Bandwidth bandwidthCmd `cmd:"" help:"Say what clients' links carried, from captured packets."`
	Camera    cameraCmd    `cmd:"" help:"Send clients' frames to sluice run --zoo --listen."`
	Classify  classifyCmd  `cmd:"" help:"Say what a bundle takes pictures for."`
	Inspect   inspectCmd   `cmd:"" help:"Say what is in a bundle."`
	Kit       kitCmd       `cmd:"" help:"Write a bundle, images and golden results for a board."`
	Bitstream bitstreamCmd `cmd:"" help:"Inspect, verify, convert and load a bitstream."`
	Board     boardCmd     `cmd:"" passthrough:"" help:"On a board: serve a kit, look at the machine, configure the PL (sluice board --help)."`
	Doctor    doctorCmd    `cmd:"" help:"Check that tools and data are there."`

	About      versionCmd     `cmd:"" name:"version" help:"Say what this program is."`
	Completion cli.Completion `cmd:"" help:"Teach a shell to complete commands and flags."`

	Verbose bool             `short:"v" help:"Log more."`
	Version kong.VersionFlag `help:"Print the version."`
}

// versionCmd says what this program is.
type versionCmd struct{ cli.VersionCmd }

// Run implements the command.
func (c *versionCmd) Run(e *env) error { return cli.About("sluice").Print(e.stdout, c.JSON) }

func main() { os.Exit(realMain(os.Args[1:], os.Stdout, os.Stderr)) }

func realMain(args []string, stdout, stderr io.Writer) int {
	ctx, stop := interruptible()
	defer stop()
	var c commands
	if len(args) == 0 {
		args = []string{"--help"} // what there is, and no error
	}
	out := cli.New("sluice", args, stdout, stderr)
	exited := -1
	p, err := kong.New(&c,
		kong.Name("sluice"),
		kong.Description("Serves early-exit networks on a 16-bit fixed-point GEMM NPU, and networks of many kernels on simulated and real GPUs."),
		kong.WithHyphenPrefixedParameters(true), // a number below zero is a value
		kong.Writers(out.Stdout, stderr),
		kong.Exit(func(code int) { exited = code }),
		kong.Vars{"version": "sluice " + version},
		policyNames(),
	)
	if err != nil {
		return out.Fail(codeUsage, err, "")
	}
	if cli.Complete(p) {
		return codeOK
	}
	k, err := p.Parse(args)
	if exited >= 0 { // --help, --version
		return exited
	}
	if err != nil {
		return out.Fail(codeUsage, err, "(sluice --help tells more)")
	}
	level := slog.LevelInfo
	if c.Verbose {
		level = slog.LevelDebug
	}
	e := &env{
		ctx: ctx, stdout: out.Stdout, stderr: stderr,
		log:   slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level})),
		given: givenFlags(k),
	}
	err = k.Run(e)
	var coded *codeError
	switch {
	case err == nil:
		return codeOK
	case errors.Is(err, errSaid):
		errors.As(err, &coded)
		return coded.code
	case ctx.Err() != nil:
		return out.Fail(codeInterrupted, fmt.Errorf("interrupted: %w", err), "")
	case errors.As(err, &coded):
		return out.Fail(coded.code, err, "")
	}
	return out.Fail(codeInput, err, "")
}

// policyNames are what help says of --policy, as each of those who make policies knows them.
func policyNames() kong.Vars {
	var zoo []string
	for _, s := range edge.Systems() {
		zoo = append(zoo, s.Name)
	}
	return kong.Vars{
		"policies":        strings.Join(sched.Names(), ", "),
		"gpu_policies":    strings.Join(gpus.Systems(), ", "),
		"strait_policies": strings.Join(strait.Systems(), ", "),
		"zoo_policies":    strings.Join(zoo, ", "),
	}
}

// interruptible is a context that ends with the first SIGINT or SIGTERM; the second ends the program.
func interruptible() (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

// header are the keys that every JSON document has.
type header struct {
	Schema  string `json:"schema"`
	Version string `json:"version"`
	Seed    uint64 `json:"seed"`
	Label   string `json:"label"` // simulated | synthesised | measured | estimated
}

// progress shows how far something is. set tells how far it is; done ends it, also half way.
func (e *env) progress(name string, total int) (set func(int), done func()) {
	return cli.Progress(e.ctx, e.stderr, name, total)
}

// output writes the document to out/summary.json (where out is not empty) and, with --json, to stdout.
func (e *env) output(doc any, out string, toStdout bool) error {
	text, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		return fmt.Errorf("write summary: %w", err)
	}
	text = append(text, '\n')
	if out != "" {
		if err := writeFile(filepath.Join(out, "summary.json"), func(w io.Writer) error {
			_, err := w.Write(text)
			return err
		}); err != nil {
			return err
		}
	}
	if toStdout {
		_, err = e.stdout.Write(text)
	}
	return err
}

// writeFile writes a file, and its folder, so that no reader sees half of it.
func writeFile(path string, write func(io.Writer) error) error {
	fail := func(err error) error { return fmt.Errorf("write %s: %w", path, err) }
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return fail(err)
	}
	f, err := files.New(path)
	if err != nil {
		return fail(err)
	}
	defer f.Cleanup() // nothing where it has been renamed
	if err := write(f); err != nil {
		return fail(err)
	}
	if err := f.CloseAtomicallyReplace(); err != nil {
		return fail(err)
	}
	return nil
}
