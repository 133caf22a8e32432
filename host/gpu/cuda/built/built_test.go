package built_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-npu/sluice/host/gpu/cuda/built"
)

// Equal concurrent calls build a file once, and later calls use it. Another command or source builds another file.
// Failures are not stored. Another folder gets the file from the cache, if there is one.
func TestOf(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("SLUICE_CACHE", filepath.Join(dir, "cache"))
	source, log := filepath.Join(dir, "source"), filepath.Join(dir, "log")
	script := filepath.Join(dir, "make.sh")
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(script, "echo made >> "+log+"; sleep 0.1; cat "+source+" > \"$2\"; [ \"$1\" != bad ]")
	write(source, "one")
	made := func() int {
		text, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Count(string(text), "made")
	}
	of := func(how string) (string, error) {
		return built.Of(filepath.Join(dir, "out"), "it", ".x", []string{source}, "sh", script, how)
	}
	var wait sync.WaitGroup
	var all [4]string
	for i := range all {
		wait.Go(func() {
			var err error
			if all[i], err = of("well"); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	for _, out := range all {
		if text, err := os.ReadFile(out); err != nil || string(text) != "one" || out != all[0] || made() != 1 {
			t.Errorf("%s of %s: %q, %v, made %d times", out, all[0], text, err, made())
		}
	}
	other, err := of("otherwise")
	if err != nil || other == all[0] || made() != 2 {
		t.Errorf("by another command: %s, %v", other, err)
	}
	write(source, "two")
	if other, err = of("well"); err != nil || other == all[0] || made() != 3 {
		t.Errorf("of another source: %s, %v", other, err)
	}
	for i, kept := range []string{filepath.Join(dir, "cache"), ""} {
		t.Setenv("SLUICE_CACHE", kept)
		out, err := built.Of(filepath.Join(dir, "another", fmt.Sprint(i)), "it", ".x", []string{source}, "sh", script, "well")
		if err != nil {
			t.Fatal(err)
		}
		if text, err := os.ReadFile(out); err != nil || string(text) != "two" || made() != 3+i {
			t.Errorf("in another folder: %q, %v, made %d times", text, err, made())
		}
		if at, err := os.Stat(out); err != nil || at.Mode()&0o111 == 0 {
			t.Errorf("what is taken from %q cannot be run: %v", kept, err)
		}
	}
	t.Setenv("SLUICE_CACHE", filepath.Join(dir, "cache"))
	for n := 5; n <= 6; n++ {
		if _, err = of("bad"); err == nil || made() != n {
			t.Errorf("what fails: %v, made %d times", err, made())
		}
	}
	for _, some := range []string{"out/making-*", "cache/.new-*", "another/*/.new-*"} {
		if left, err := filepath.Glob(filepath.Join(dir, some)); err != nil || len(left) > 0 {
			t.Errorf("it leaves %v (%v)", left, err)
		}
	}
	// Another version of the tool, by its size or its link's target, builds another file.
	t.Setenv("PATH", dir+string(filepath.ListSeparator)+os.Getenv("PATH"))
	seen := map[string]bool{}
	for i, text := range []string{"#!/bin/sh\necho > $1\n", "#!/bin/sh\necho >  $1\n", ""} {
		tool := filepath.Join(dir, "tool")
		err := os.RemoveAll(tool)
		if i < 2 {
			err = errors.Join(err, os.WriteFile(tool, []byte(text), 0o700))
		} else { // as large as the first
			err = errors.Join(err, os.WriteFile(tool+"-2", []byte("#!/bin/sh\necho > $1\n"), 0o700), os.Symlink("tool-2", tool))
		}
		if err != nil {
			t.Fatal(err)
		}
		out, err := built.Of(filepath.Join(dir, "out"), "it", ".x", nil, "tool")
		if err != nil || seen[out] {
			t.Errorf("by tool %d: %s, %v, of %v", i, out, err, seen)
		}
		seen[out] = true
	}
	if _, err := built.Of(dir, "it", "", nil, "no-such-tool"); err == nil || !strings.Contains(err.Error(), "no-such-tool is missing: install the package") {
		t.Errorf("without the tool: %v", err)
	}
}
