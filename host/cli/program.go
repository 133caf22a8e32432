package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/sluice-npu/sluice/dse/files"
)

// Exit codes of the programs.
const (
	OK     = iota
	Check  // a check failed
	Usage  // wrong command line
	Input  // a file is missing or invalid
	Device // device failure
	Tool   // a tool or data set is not installed
	Fault  // internal error

	Interrupted = 130 // as in shells
)

// Error is an error with an exit code.
type Error struct {
	Code int
	err  error // nil: the error has already been printed
}

func (e *Error) Error() string {
	if e.err == nil {
		return "a check failed"
	}
	return e.err.Error()
}

// Unwrap returns the error without its code.
func (e *Error) Unwrap() error { return e.err }

// Coded adds an exit code to err, unless err already has one.
func Coded(code int, err error) error {
	var c *Error
	if err == nil || errors.As(err, &c) {
		return err
	}
	return &Error{code, err}
}

// Errorf is fmt.Errorf with an exit code. If it wraps an error with a code, it uses that code.
func Errorf(code int, format string, args ...any) error {
	return Coded(code, fmt.Errorf(format, args...))
}

// CodeOf returns the exit code of an error, or Input if the error has no code.
func CodeOf(err error) int {
	if c, ok := errors.AsType[*Error](err); ok {
		return c.Code
	}
	return Input
}

// Told returns an error with an exit code. The caller has already printed the reason.
func Told(code int) error { return &Error{Code: code} }

// Env contains the data that a program passes to its commands.
type Env struct {
	Ctx            context.Context // ends when the program must end
	Stdout, Stderr io.Writer
	Log            *slog.Logger
	JSON           bool         // print documents to stdout instead of text
	Given          []*kong.Flag // flags on the command line

	program string
	weights func(file string) ([]string, error)
	args    []string     // the command line
	flags   []*kong.Flag // all flags of the command
	arch    string       // tag of the command (Shards)
	merged  *merging     // nil: this command does not merge results of shards
	again   func(args []string, m *merging) error
}

// Has reports whether a flag is on the command line.
func (e *Env) Has(name string) bool {
	return slices.ContainsFunc(e.Given, func(f *kong.Flag) bool { return f.Name == name })
}

// Choice is a selection on the command line, such as a device. A flag's struct tag named Tag lists the options that use
// the flag, separated by commas. All options use a flag without this tag.
type Choice struct {
	Tag, Chosen string
	Text        map[string]string // text for each option in errors; nil: --TAG NAME
}

// reads reports whether readers contains the chosen option. "cheapest" matches every option "cheapest by ...".
func (c Choice) reads(readers []string) bool {
	return slices.ContainsFunc(readers, func(r string) bool { return r == c.Chosen || strings.HasPrefix(c.Chosen, r+" by ") })
}

func (c Choice) say(flag string, readers []string) string {
	if c.Text == nil {
		return fmt.Sprintf("--%s is read by --%s %s, not by %s", flag, c.Tag, strings.Join(readers, ", "), c.Chosen)
	}
	texts := make([]string, len(readers))
	for i, r := range readers {
		texts[i] = c.Text[r]
	}
	return fmt.Sprintf("--%s is read by %s, not by %s", flag, strings.Join(texts, " and "), c.Text[c.Chosen])
}

// Unread returns a usage error if the chosen options ignore a flag on the command line. The user expects an effect.
func (e *Env) Unread(choices ...Choice) error {
	var all []string
	for _, c := range choices {
		for _, f := range e.Given {
			if tag := f.Tag.Get(c.Tag); tag != "" {
				if readers := strings.Split(tag, ","); !c.reads(readers) {
					all = append(all, c.say(f.Name, readers))
				}
			}
		}
	}
	if len(all) == 0 {
		return nil
	}
	return Errorf(Usage, "%s", strings.Join(all, "; "))
}

// Header contains the keys that are common to all JSON documents.
type Header struct {
	Schema  string `json:"schema"`
	Version string `json:"version"`
	Seed    uint64 `json:"seed"`
	Label   string `json:"label"` // simulated | synthesised | measured | estimated
}

// NewHeader returns the header of a document from this program version.
func NewHeader(schema string, seed uint64, label string) Header {
	return Header{schema, Version(), seed, label}
}

// Progress shows progress. set reports the current step. done removes the display, even before the last step.
func (e *Env) Progress(name string, total int) (set func(int), done func()) {
	return Progress(e.Ctx, e.Stderr, name, total)
}

// Output writes the document to FOLDER/summary.json (unless folder is "") and optionally to stdout.
func (e *Env) Output(doc any, folder string, toStdout bool) error {
	if folder != "" {
		folder = filepath.Join(folder, "summary.json")
	}
	return e.Document(doc, folder, toStdout)
}

// Print writes the document to FOLDER/summary.json (unless folder is ""), and prints it as JSON or as text.
func (e *Env) Print(doc any, folder string, asJSON bool, text func(io.Writer) error) error {
	if err := e.Output(doc, folder, asJSON); err != nil || asJSON {
		return err
	}
	return text(e.Stdout)
}

// Document writes the document to a file (unless path is "") and optionally to stdout.
func (e *Env) Document(doc any, path string, toStdout bool) error {
	text, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		return fmt.Errorf("write the document: %w", err)
	}
	text = append(text, '\n')
	write := func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	}
	if path != "" {
		if err := WriteFile(path, write); err != nil {
			return err
		}
	}
	if toStdout {
		return write(e.Stdout)
	}
	return nil
}

// WriteFile writes a file atomically, and creates its folder. A path that is not a regular file, such as a terminal or
// a pipe, is written directly.
func WriteFile(path string, write func(io.Writer) error) error {
	if err := writeFile(path, write); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

func writeFile(path string, write func(io.Writer) error) error {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		return errors.Join(write(f), f.Close())
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return err
	}
	f, err := files.New(path)
	if err != nil {
		return err
	}
	defer f.Cleanup() // has no effect after the rename
	if err := write(f); err != nil {
		return err
	}
	return f.CloseAtomicallyReplace()
}

// Program is a command line program.
type Program struct {
	Name, About string
	Commands    any             // kong's grammar; each command has a method Run(*Env)
	Vars        kong.Vars       // variables of the help texts
	Setup       func(*Env)      // called before the command runs
	Code        func(error) int // returns the exit code for an error without a code; 0: Input
	// Weights lists the files with an ONNX file's weights, relative to the ONNX file. They are also inputs of shards.
	Weights func(file string) ([]string, error)
}

// Main parses the command line, runs the command and prints its error. It returns the exit code.
func (p Program) Main(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	tie()
	if len(args) == 0 {
		args = []string{"--help"} // without arguments, show the help and return no error
	}
	out := New(p.Name, args, stdout, stderr)
	exited := -1
	parser, err := kong.New(p.Commands,
		kong.Name(p.Name), kong.Description(p.About), p.Vars, kong.Vars{"version": p.Name + " " + Version()},
		kong.WithHyphenPrefixedParameters(true), // a value may be a negative number
		kong.Writers(out.Stdout, stderr),
		kong.Exit(func(code int) {
			if exited < 0 {
				exited = code
			}
		}))
	if err != nil {
		return out.Fail(Usage, err, "")
	}
	if Complete(parser) {
		return OK
	}
	k, err := parser.Parse(args)
	if exited >= 0 { // --help, --version
		return exited
	}
	if err != nil {
		return out.Fail(Usage, err, "("+p.Name+" --help tells more)")
	}
	e := &Env{Ctx: ctx, Stdout: out.Stdout, Stderr: stderr, program: p.Name, weights: p.Weights}
	e.begin(k, args)
	p.Setup(e)
	e.again = func(args []string, m *merging) error {
		k, err := parser.Parse(args)
		if err != nil {
			return Coded(Usage, err)
		}
		e.merged = m
		e.begin(k, args)
		p.Setup(e)
		return k.Run(e)
	}
	if err := k.Run(e); err != nil {
		return p.fail(ctx, out, err)
	}
	return OK
}

// begin sets the fields that depend on the command line.
func (e *Env) begin(k *kong.Context, args []string) {
	e.args, e.flags, e.arch, e.Given = args, k.Flags(), k.Selected().Tag.Get("arch"), nil
	for _, at := range k.Path {
		if at.Flag != nil && !at.Resolved {
			e.Given = append(e.Given, at.Flag)
		}
	}
}

func (p Program) fail(ctx context.Context, out *Streams, err error) int {
	var own *Error
	has := errors.As(err, &own)
	switch {
	case has && own.err == nil:
		return own.Code
	case ctx.Err() != nil:
		return out.Fail(Interrupted, fmt.Errorf("interrupted: %w", err), "")
	case has:
		return out.Fail(own.Code, err, "")
	}
	if p.Code != nil {
		if code := p.Code(err); code != OK {
			return out.Fail(code, err, "")
		}
	}
	return out.Fail(Input, err, "")
}
