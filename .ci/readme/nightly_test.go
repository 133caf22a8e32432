package readme

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A job of parts (make nightly) runs all parts even if some fail; it then fails and names all that failed. A second
// call runs only the parts that have not succeeded. A part may consist of parts itself and fails like one. Each part
// reports its CPU time, including that of grandchildren.
func TestJobOfParts(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, ".ci"), os.DirFS("../../.ci")); err != nil {
		t.Fatal(err)
	}
	parts := "parts:\n\t@.ci/once bad false\n\t@.ci/once good bash -c 'echo was run; sh ./busy.sh'\n\t@.ci/once worse bash -c 'exit 3'\n\t@.ci/once outer .ci/once inner false\n"
	if err := os.WriteFile(filepath.Join(dir, "Makefile"), []byte(parts), 0o600); err != nil {
		t.Fatal(err)
	}
	// busy for one second of CPU time, however loaded the machine is
	busy := "hz=$(getconf CLK_TCK)\nt=0\nwhile [ $t -le $hz ]; do read -r s </proc/$$/stat; set -- $s; t=$((${14} + ${15})); done\n"
	if err := os.WriteFile(filepath.Join(dir, "busy.sh"), []byte(busy), 0o600); err != nil {
		t.Fatal(err)
	}
	job := func(only string, args ...string) (string, int) {
		t.Helper()
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "SLUICE_PARTS="+only, "SLUICE_JOB=", "MAKEFLAGS=", "GIT_CONFIG_GLOBAL="+os.DevNull)
		out, _ := cmd.CombinedOutput()
		return string(out), cmd.ProcessState.ExitCode()
	}
	for _, args := range [][]string{
		{"git", "init", "-q"},
		{"git", "add", "."},
		{"git", "-c", "user.name=x", "-c", "user.email=x@x", "commit", "-qm", "x"},
		{"sh", "-c", "echo /out > .git/info/exclude"},
	} {
		if out, code := job("", args...); code != 0 {
			t.Fatalf("%v: %s", args, out)
		}
	}
	for _, c := range []struct {
		only, want, not string
		code            int
	}{
		{"", "nightly: 3 of 4 failed: bad worse outer", "nightly: bad: ended well", 1},
		{"", " s, 1 CPU-s)\n", "good: ended well", 1},
		{"", "good: done before", "was run", 1},
		{"good", "nightly: 1 parts, all ended well", "bad", 0},
		{"good absent", "nightly: there is no part absent", "all ended well", 2},
		{"worse", "nightly: 1 of 1 failed: worse", "outer", 1},
	} {
		out, code := job(c.only, ".ci/all", "nightly", "make", "--no-print-directory", "parts")
		if code != c.code || !strings.Contains(out, c.want) || strings.Contains(out, c.not) {
			t.Errorf("parts %q: status %d, want %d; expected %q and not %q in\n%s", c.only, code, c.code, c.want, c.not, out)
		}
	}
	if out, code := job("", ".ci/once", "bad", "false"); code != 1 {
		t.Errorf("a part alone that fails ends with %d: %s", code, out)
	}
	if out, code := job("", ".ci/all", "nightly", "false"); code != 1 || !strings.Contains(out, "ended before its last part") {
		t.Errorf("a job that breaks off ends with %d: %s", code, out)
	}
}
