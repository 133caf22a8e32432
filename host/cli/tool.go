package cli

import (
	"errors"
	"flag"
	"fmt"
	"io"
)

// FlagTool is a small command with flags that package flag parses.
type FlagTool struct {
	*flag.FlagSet
	stderr io.Writer
}

// NewFlagTool returns a command without flags. usage is the help text before the list of flags.
func NewFlagTool(name, usage string, stderr io.Writer) *FlagTool {
	t := &FlagTool{flag.NewFlagSet(name, flag.ContinueOnError), stderr}
	t.SetOutput(stderr)
	t.Usage = func() {
		fmt.Fprint(stderr, usage)
		t.PrintDefaults()
	}
	return t
}

// Main parses the flags, runs the command and prints its error; after a usage error it also prints the help. It returns
// the exit code, which is Input for an error without a code.
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
