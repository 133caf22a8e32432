// Command sluice serves early-exit networks: it runs the main job, verifies the hardware against
// its references, measures, and inspects. Every command has --help with an example; with --json it
// prints one JSON document on stdout and logs on stderr.
//
// Exit codes: 0 ok, 1 a check failed, 2 usage, 3 bad input, 4 device, 5 missing tool.
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
	"syscall"

	"github.com/alecthomas/kong"
)

// version of the program and of its documents.
const version = "0.1.0"

// Exit codes (design/commands).
const (
	codeOK = iota
	codeCheck
	codeUsage
	codeInput
	codeDevice
	codeTool
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
	tty    bool // stderr is a terminal: progress bars make sense
}

type cli struct {
	Run       runCmd     `cmd:"" help:"Serve test images and report how it went (the main job)."`
	Verify    verifyCmd  `cmd:"" help:"Compare the hardware with its references, bit for bit."`
	Faults    faultsCmd  `cmd:"" help:"Random faults: each ends as it must, and the next start is right."`
	Profile   profileCmd `cmd:"" help:"Measure a latency table on a device."`
	TuneTheta thetaCmd   `cmd:"" name:"tune-theta" help:"Find exit thresholds with the least work within a loss of accuracy."`
	Bench     benchCmd   `cmd:"" help:"Compare policies over many settings."`
	Inspect   inspectCmd `cmd:"" help:"Say what is in a bundle."`
	Kit       kitCmd     `cmd:"" help:"Write a bundle, images and golden results for a board."`
	Doctor    doctorCmd  `cmd:"" help:"Check that tools and data are there."`

	Verbose bool             `short:"v" help:"Log more."`
	Version kong.VersionFlag `help:"Print the version."`
}

func main() { os.Exit(realMain(os.Args[1:], os.Stdout, os.Stderr)) }

func realMain(args []string, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var c cli
	exited := -1
	p, err := kong.New(&c,
		kong.Name("sluice"),
		kong.Description("Serves early-exit networks on a 16-bit fixed-point GEMM NPU."),
		kong.UsageOnError(),
		kong.Writers(stdout, stderr),
		kong.Exit(func(code int) { exited = code }),
		kong.Vars{"version": "sluice " + version},
	)
	if err != nil {
		fmt.Fprintln(stderr, "sluice:", err)
		return codeUsage
	}
	k, err := p.Parse(args)
	if exited >= 0 { // --help, --version
		return exited
	}
	if err != nil {
		fmt.Fprintf(stderr, "sluice: %v\n(sluice --help tells more)\n", err)
		return codeUsage
	}
	level := slog.LevelInfo
	if c.Verbose {
		level = slog.LevelDebug
	}
	e := &env{
		ctx: ctx, stdout: stdout, stderr: stderr, tty: isTerminal(stderr),
		log: slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level})),
	}
	err = k.Run(e)
	var coded *codeError
	switch {
	case err == nil:
		return codeOK
	case errors.As(err, &coded):
		fmt.Fprintln(stderr, "sluice:", err)
		return coded.code
	}
	fmt.Fprintln(stderr, "sluice:", err)
	return codeInput
}

// header are the keys that every JSON document has.
type header struct {
	Schema  string `json:"schema"`
	Version string `json:"version"`
	Seed    uint64 `json:"seed"`
	Label   string `json:"label"` // simulated | synthesised | measured | estimated
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

// writeFile writes a file, and its folder, under a temporary name first.
func writeFile(path string, write func(io.Writer) error) (err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".tmp-*")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(f.Name())
			err = fmt.Errorf("write %s: %w", path, err)
		}
	}()
	if err := write(f); err != nil {
		return err
	}
	if err := f.Chmod(0o644); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
