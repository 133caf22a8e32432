package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func call(t *testing.T, want int, args ...string) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	if code := run(args, &stdout, &stderr); code != want {
		t.Fatalf("%v: exit code %d, want %d: %s", args, code, want, stderr.String())
	}
	return stderr.String()
}

// The output folder can be written repeatedly; a folder with the sources, or with a foreign files.f, is left
// unchanged.
func TestFolders(t *testing.T) {
	dir := t.TempDir()
	out := filepath.Join(dir, "out")
	top := filepath.Join(dir, "top.v")
	const text = "module mine; npu_top u_npu (); endmodule\n"
	if err := os.WriteFile(top, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		call(t, 0, "-prefix", "a_", "-out", out, top)
	}
	if said := call(t, 3, "-prefix", "a_", "-out", out, filepath.Join(out, "top.v")); !strings.Contains(said, "one of the files given") {
		t.Error(said)
	}
	if said := call(t, 3, "-prefix", "a_", "-out", dir, top); !strings.Contains(said, "not of an earlier call") {
		t.Error(said)
	}
	if now, err := os.ReadFile(top); err != nil || string(now) != text {
		t.Errorf("%v: %s", err, now)
	}
	// a foreign file with one of these names is not overwritten either
	fifo := filepath.Join(dir, "a_fifo.sv")
	if err := os.WriteFile(fifo, []byte("theirs"), 0o644); err != nil {
		t.Fatal(err)
	}
	if said := call(t, 3, "-prefix", "a_", "-out", dir); !strings.Contains(said, "a_fifo.sv is there") {
		t.Error(said)
	}
	if err := os.Remove(fifo); err != nil {
		t.Fatal(err)
	}
	theirs := filepath.Join(dir, "files.f")
	if err := os.WriteFile(theirs, []byte("rtl/top.v\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if said := call(t, 3, "-prefix", "a_", "-out", dir); !strings.Contains(said, "of something else") {
		t.Error(said)
	}
	if list, err := filepath.Glob(filepath.Join(dir, "a_*")); err != nil || len(list) != 0 {
		t.Errorf("half of it is written: %v", list)
	}
	call(t, 2, "-prefix", "a_")
	call(t, 2, "-prefix", "9", "-out", out)
	call(t, 3, "-prefix", "a_", "-out", out, filepath.Join(dir, "none.v"))
}
