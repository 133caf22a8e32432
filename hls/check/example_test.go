package check_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/sluice-npu/sluice/hls/check"
)

// A stated trip count is a promise to the vendor's tool. The copy of the kernel counts the trips in C-simulation.
func ExampleCounted() {
	if err := counted(); err != nil {
		fmt.Println(err)
	}
	// Output:
	// int sluice_trips_4 = 0; for (int i = 0; i < n; i++) {
	// sluice::trip(++sluice_trips_4, 8, "sum.cpp:4 (rows)");
}

func counted() error {
	dir, err := os.MkdirTemp("", "check")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	kernel := `int sum(int n) {
  int s = 0;
rows:
  for (int i = 0; i < n; i++) {
#pragma HLS loop_tripcount max=8
    s += i;
  }
  return s;
}
`
	if err := os.WriteFile(filepath.Join(dir, "sum.cpp"), []byte(kernel), 0o600); err != nil {
		return err
	}
	out := filepath.Join(dir, "counted")
	if err := check.Counted(dir, out); err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(out, "sum.cpp"))
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, "sluice") {
			fmt.Print(line)
		}
	}
	return err
}
