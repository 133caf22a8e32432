package cli

import (
	"errors"
	"flag"
	"fmt"
	"io"
)

// FlagTool is a small command whose flags are parsed by package flag.
type FlagTool struct {
	*flag.FlagSet
	stderr io.Writer
}

// NewFlagTool makes a command that has no flags yet; usage is the help text that is printed before the list of flags.
func NewFlagTool(name, usage string, stderr io.Writer) *FlagTool {
	t := &FlagTool{flag.NewFlagSet(name, flag.ContinueOnError), stderr}
	t.SetOutput(stderr)
	t.Usage = func() {
		fmt.Fprint(stderr, usage)
		t.PrintDefaults()
	}
	return t
}

// Main parses the flags, runs the command and prints its error; after a usage error it prints the help too. It returns the
// exit code: Input for an error that has none.
func (t *FlagTool) Main(args []string, run func() error) int {
	if err := t.Parse(args); errors.Is(err, flag.ErrHelp) {
		return OK
	} else if err != nil {
		return Usage // Parse has printed the error
	}
	err := run()
	if err == nil {
		return OK
	}
	code := CodeOf(err)
	if own, ok := errors.AsType[*Error](err); !ok || own.err != nil {
		fmt.Fprintf(t.stderr, "%s: %v\n", t.Name(), err)
	}
	if code == Usage {
		t.Usage()
	}
	return code
}
