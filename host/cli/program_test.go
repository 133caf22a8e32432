package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// testCommands is a program with one command that ends as instructed.
type testCommands struct {
	End endCmd `cmd:""`
}

type endCmd struct {
	How  string `kind:"soft,hard"`
	Soft int    `kind:"soft"`
	Kind string `default:"hard by night"`
	Deep int    `kind:"hard" place:"sea"`
	JSON bool   `name:"json"`

	stop context.CancelFunc
}

var errOfItsOwn = errors.New("of its own")

func (c *endCmd) Run(e *Env) error {
	texts := map[string]string{"sea": "the sea", "land": "the land"}
	if err := e.Unread(Choice{Tag: "kind", Chosen: c.Kind}, Choice{Tag: "place", Chosen: "land", Text: texts}); err != nil {
		return err
	}
	switch c.How {
	case "device":
		return fmt.Errorf("open: %w", Errorf(Device, "gone"))
	case "first":
		return Coded(Device, Errorf(Usage, "the first code counts"))
	case "told":
		fmt.Fprintln(e.Stdout, "told")
		return Told(Check)
	case "own":
		return errOfItsOwn
	case "plain":
		return errors.New("no code")
	case "interrupted":
		c.stop()
		return Errorf(Device, "stopped")
	}
	return nil
}

// Every way to end has its exit code, and prints the reason once.
func TestProgram(t *testing.T) {
	for _, c := range []struct {
		args string
		code int
		says string // on stderr
	}{
		{"", OK, ""},
		{"end", OK, ""},
		{"end --help", OK, ""},
		{"nothing", Usage, "unexpected argument nothing\n(prog --help tells more)"},
		{"end --how device", Device, "prog: open: gone\n"},
		{"end --how first", Usage, "prog: the first code counts\n"},
		{"end --how told", Check, ""},
		{"end --how own", Tool, "prog: of its own\n"},
		{"end --how plain", Input, "prog: no code\n"},
		{"end --how interrupted", Interrupted, "prog: interrupted: stopped\n"},
		{"end --soft 0", Usage, "--soft is read by --kind soft, not by hard by night"},
		{"end --soft 1 --kind soft", OK, ""},
		{"end --deep 1", Usage, "--deep is read by the sea, not by the land"},
		{"end --deep 1 --kind soft", Usage, "--deep is read by --kind hard, not by soft; --deep is read by the sea, not by the land"},
	} {
		ctx, stop := context.WithCancel(t.Context())
		var out, log bytes.Buffer
		code := Program{
			Name: "prog", Commands: &testCommands{endCmd{stop: stop}}, Setup: func(*Env) {},
			Code: func(err error) int {
				if errors.Is(err, errOfItsOwn) {
					return Tool
				}
				return OK
			},
		}.Main(ctx, strings.Fields(c.args), &out, &log)
		stop()
		if code != c.code || !strings.Contains(log.String(), c.says) || (c.says == "") != (log.Len() == 0) {
			t.Errorf("%q: exit code %d, expected %d; stderr %q, expected %q", c.args, code, c.code, log.String(), c.says)
		}
	}
}

// A document creates its folder and replaces an old document completely.
func TestDocument(t *testing.T) {
	var out bytes.Buffer
	e := &Env{Stdout: &out}
	dir := filepath.Join(t.TempDir(), "a", "b")
	for _, text := range []string{"first", "second"} {
		if err := e.Output(text, dir, text == "second"); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(filepath.Join(dir, "summary.json")); string(got) != `"`+text+"\"\n" {
			t.Errorf("%q, %v", got, err)
		}
	}
	if out.String() != "\"second\"\n" {
		t.Errorf("stdout %q", out.String())
	}
	broken := errors.New("broken")
	if err := WriteFile(filepath.Join(dir, "summary.json"), func(w io.Writer) error {
		_, _ = w.Write([]byte("half"))
		return broken
	}); !errors.Is(err, broken) {
		t.Error(err)
	}
	if got, _ := os.ReadFile(filepath.Join(dir, "summary.json")); string(got) != "\"second\"\n" {
		t.Errorf("after a write that failed there is %q", got)
	}
	if err := e.Document("x", dir, false); err == nil {
		t.Error("a folder was written")
	}
}
