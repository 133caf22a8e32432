// Package cli contains the common parts of all commands: errors, exit codes, version, shell completion and progress.
package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"unicode"

	"github.com/alecthomas/kong"
	kongcompletion "github.com/jotaen/kong-completion"

	"github.com/sluice-npu/sluice/hw/abi"
)

// released is the version of builds without a tag: `go test`, `go run`, or a commit between two tags.
const released = "0.1.0"

// pseudo matches the end of a pseudo-version: the version that Go generates for a commit without a tag.
var pseudo = regexp.MustCompile(`[-.]\d{14}-[0-9a-f]{12}$`)

// Version is the version of the programs and their documents: the tag from which they were built.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return released
	}
	return versionOf(info.Main.Version)
}

// versionOf converts the version that Go stamps into the main module.
func versionOf(stamp string) string {
	tag, _, _ := strings.Cut(stamp, "+") // the revision also contains "+dirty"
	v, ok := strings.CutPrefix(tag, "v")
	if !ok || pseudo.MatchString(v) {
		return released
	}
	return v
}

// Completion prints shell code for the completion of the program's commands and flags.
type Completion struct{ kongcompletion.Completion }

// Help returns the help text with an example.
func (*Completion) Help() string {
	return `Prints the line that makes a shell complete this program's commands and flags; with --code, what that
line runs.

Example:
  source <(` + "`which sluice`" + ` completion -c bash)`
}

// Complete answers a shell's completion request. It returns true if the shell made one; then the program must end.
func Complete(p *kong.Kong) (asked bool) {
	if os.Getenv("COMP_LINE") != "" {
		kongcompletion.Register(p, kongcompletion.WithExitFunc(func(int) { asked = true }))
	}
	return asked
}

// VersionCmd prints the program's version.
type VersionCmd struct {
	JSON bool `name:"json" help:"Print JSON."`
}

// Help returns an example.
func (*VersionCmd) Help() string { return "Example:\n  sluice version" }

// VersionDoc describes a program.
type VersionDoc struct {
	Schema   string `json:"schema"`
	Program  string `json:"program"`
	Version  string `json:"version"`
	Revision string `json:"revision"` // revision of the sources; ends with "modified" if the sources had changes without a commit
	ABI      string `json:"abi_hash"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// Unknown is the revision of a program that was built without this information.
const Unknown = "unknown"

// built is the revision for builds without git. A linker flag sets it: go build -ldflags "-X
// github.com/sluice-npu/sluice/host/cli.built=$(git rev-parse HEAD)".
var built string

// About describes the running program.
func About(program string) VersionDoc {
	d := VersionDoc{
		Schema: "sluice-version/1", Program: program, Version: Version(), Revision: Unknown, ABI: fmt.Sprintf("%016x", uint64(abi.Hash)),
		Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}
	if built != "" {
		d.Revision = built
	} else if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			switch {
			case s.Key == "vcs.revision":
				d.Revision = s.Value
			case s.Key == "vcs.modified" && s.Value == "true":
				d.Revision += " modified"
			}
		}
	}
	return d
}

// Print writes the document.
func (d VersionDoc) Print(w io.Writer, asJSON bool) error {
	if asJSON {
		return writeJSON(w, d)
	}
	_, err := fmt.Fprintf(w, "%s %s (%s), ABI %s, %s, %s\n", d.Program, d.Version, d.Revision, d.ABI, d.Go, d.Platform)
	return err
}

func writeJSON(w io.Writer, doc any) error {
	text, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	_, err = w.Write(append(text, '\n'))
	return err
}

// ErrorDoc is the JSON document for an error.
type ErrorDoc struct {
	Schema  string `json:"schema"`
	Version string `json:"version"`
	Program string `json:"program"`
	Error   string `json:"error"`
	Code    int    `json:"code"` // the exit code
}

// Streams are a program's outputs.
type Streams struct {
	Program string
	Stdout  *Counted
	Stderr  io.Writer
	JSON    bool // print errors as JSON
}

// Counted counts the bytes written, and escapes terminal control characters with Shown, because the text may come from
// a user's file.
type Counted struct {
	W io.Writer
	N int64
}

// Write implements io.Writer.
func (c *Counted) Write(p []byte) (int, error) {
	c.N += int64(len(p))
	if _, err := io.WriteString(c.W, Shown(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Shown escapes control characters (except line feed and tab) and bidirectional controls in the form \uXXXX.
func Shown(text string) string {
	if !strings.ContainsFunc(text, commands) {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if commands(r) {
			fmt.Fprintf(&b, `\u%04x`, r) // this form is also valid in JSON
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// commands reports whether a terminal interprets the character as a command.
func commands(r rune) bool {
	return unicode.IsControl(r) && r != '\n' && r != '\t' || unicode.Is(unicode.Bidi_Control, r)
}

// New returns the Streams of a program. It searches args for --json, so that errors about args are JSON too.
func New(program string, args []string, stdout, stderr io.Writer) *Streams {
	return &Streams{
		Program: program, Stdout: &Counted{W: stdout}, Stderr: stderr,
		JSON: slices.Contains(args, "--json") || slices.Contains(args, "--json=true"),
	}
}

// Fail prints an error. With --json, stdout must contain exactly one document. So the error goes to stdout only if
// stdout is empty, otherwise to stderr.
func (s *Streams) Fail(code int, err error, hint string) int {
	if s.JSON {
		w := io.Writer(s.Stdout)
		if s.Stdout.N > 0 {
			w = s.Stderr
		}
		// If stdout is closed, the error is lost.
		_ = writeJSON(w, ErrorDoc{"sluice-error/1", Version(), s.Program, err.Error(), code})
		return code
	}
	fmt.Fprintf(s.Stderr, "%s: %s\n", s.Program, Shown(err.Error()))
	if hint != "" {
		fmt.Fprintln(s.Stderr, hint)
	}
	return code
}
