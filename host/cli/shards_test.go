package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/sluice-npu/sluice/host/shard"
)

// sumCommands is a program with a command of four units, one of which fails.
type sumCommands struct {
	Sum   sumCmd   `cmd:""`
	Count sumCmd   `cmd:"" arch:"any"`
	Merge MergeCmd `cmd:""`
}

type sumCmd struct {
	Shards
	Fail int `shard:"here" default:"-1"`
}

func (c *sumCmd) Run(e *Env) error {
	r, over, err := c.Begin(e)
	if err != nil || over {
		return err
	}
	for _, err := range shard.Units(r, "all", 4, func(u int) (int, error) {
		if u == c.Fail {
			return 0, errors.New("out of memory")
		}
		return u, nil
	}) {
		if err != nil {
			return err
		}
	}
	_, err = r.Finish()
	return err
}

// An interrupted range keeps the shards before the interruption; an empty --shard is none.
func TestRange(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "shards")
	var log bytes.Buffer
	call := func(args ...string) int {
		log.Reset()
		return Program{Name: "prog", Commands: &sumCommands{}, Setup: func(*Env) {}}.Main(context.Background(), args, io.Discard, &log)
	}
	for _, c := range []struct {
		args    []string
		code, n int
	}{
		{[]string{"--shard", ""}, Usage, 0},
		{[]string{"--shard", "", "--resume", dir}, Usage, 0},
		{[]string{"--shard", "+1/+1"}, Usage, 0},
		{[]string{"--fail=2", "--shard", "1-4/4", "--resume", dir}, Input, 2},
		{[]string{"--resume", dir, "--shard=2-4/4"}, OK, 4},
	} {
		code := call(append([]string{"sum"}, c.args...)...)
		names, err := filepath.Glob(filepath.Join(dir, "0*"))
		if code != c.code || len(names) != c.n || err != nil {
			t.Errorf("%v: code %d, %v, %v: %s", c.args, code, names, err, log.String())
		}
	}
	if code := call("merge", dir); code != OK {
		t.Errorf("%d: %s", code, log.String())
	}
}

// A question has the architecture of its program, unless its command's results are the same on all.
func TestArch(t *testing.T) {
	for command, want := range map[string]string{"sum": runtime.GOARCH, "count": ""} {
		dir := t.TempDir()
		if code := (Program{Name: "prog", Commands: &sumCommands{}, Setup: func(*Env) {}}).Main(t.Context(), []string{command, "--shard=0/2", "--resume", dir}, io.Discard, io.Discard); code != OK {
			t.Fatalf("%s: code %d", command, code)
		}
		if q, err := shard.Asked(dir); err != nil || !strings.HasPrefix(q.Arch, want) || (q.Arch == "") != (want == "") {
			t.Errorf("%s: %+v, %v", command, q, err)
		}
	}
}

// A file is replaced by its content's hash, alone and in a list. A file whose name cannot be in a list is refused.
func TestInputs(t *testing.T) {
	dir := t.TempDir()
	for name, want := range map[string]string{"a.yaml": "input:", "a b.yaml": "input:", "c,d/e=f/a.yaml": "input:", "a,b.yaml": "", "a=b.yaml": "", ".sha256": ""} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := new(Env).inputs("", path, false)
		if (err == nil) != (want != "") || !strings.HasPrefix(got, want) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		if want == "" || strings.Contains(name, ",") {
			continue
		}
		if got, err := new(Env).inputs("", "azure-llm:"+path, false); err != nil || !strings.HasPrefix(got, "azure-llm:input:") || !strings.HasSuffix(got, "/"+name) {
			t.Errorf("%s after its format: %q, %v", name, got, err)
		}
		if got, err = new(Env).inputs("", "mid,"+path+"=0.5", false); err != nil || !strings.HasPrefix(got, "mid,input:") || !strings.HasSuffix(got, "/"+name+"=0.5") {
			t.Errorf("%s in a list: %q, %v", name, got, err)
		}
	}
	t.Chdir(dir)
	if err := os.WriteFile("ex1", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[bool]string{true: "input:", false: "ex1"} { // a name, or a file as its flag has nothing else
		if got, err := new(Env).inputs("", "ex1", file); err != nil || !strings.HasPrefix(got, want) {
			t.Errorf("ex1, only files %v: %q, %v", file, got, err)
		}
	}
}
