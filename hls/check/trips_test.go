package check

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A wrong trip count ends C-simulation with the loop's name. A correct one does not, even if the loop is entered often.
func TestCounted(t *testing.T) {
	const kernel = `
static int square(int n) {
  int s = 0;
rows:
  for (int i = 0; i < n; i++) {
// four at most
#pragma HLS pipeline II=1
#pragma HLS loop_tripcount max=BOUND
    int j = 0;
  columns:
    while (j < n) {
#pragma HLS loop_tripcount max=BOUND
      s += ++j > 0;
    }
  }
  return s;
}
int main() { return square(4) == 16 && square(4) == 16 ? 0 : 1; }
`
	for bound, want := range map[string]string{"4": "", "3": "kernel.cpp:11 (columns): loop_tripcount states 3, this is trip 4"} {
		dir, out := t.TempDir(), filepath.Join(t.TempDir(), "counted")
		if err := os.WriteFile(filepath.Join(dir, "kernel.cpp"), []byte(kernel), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := Counted(dir, out); err != nil {
			t.Fatal(err)
		}
		exe := filepath.Join(t.TempDir(), "kernel")
		if text, err := exec.Command("g++", "-std=c++14", "-Wall", "-Wextra", "-Werror", "-Wno-unknown-pragmas", "-Wno-unused-label", "-include", "../csim/trips.hpp",
			"-DBOUND="+bound, filepath.Join(out, "kernel.cpp"), "-o", exe).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		text, err := exec.Command(exe).CombinedOutput()
		var exit *exec.ExitError
		if want == "" && err != nil || want != "" && (!errors.As(err, &exit) || exit.ExitCode() != 6) || !strings.Contains(string(text), want) {
			t.Errorf("max=%s: %v: %s", bound, err, text)
		}
	}
	if err := Counted(t.TempDir(), t.TempDir()); err == nil {
		t.Error("a folder without files")
	}
}
