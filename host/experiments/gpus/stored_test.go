package gpus_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/sluice-npu/sluice/host/experiments/gpus"
)

var update = flag.Bool("update", false, "write the stored results")

// What the benches of SEEB and REEF give, every number of every row, is the same bytes as
// before: nothing that others need of the engine, the policies or the simulated GPUs changes it unseen.
// Where it is to change, -update writes it.
func TestStored(t *testing.T) {
	for _, c := range []struct {
		name string
		ns   int64
	}{{"seeb", 300e6}, {"reef", 5e6}} {
		b, err := gpus.Run(context.Background(), c.name, gpus.Config{Seeds: []uint64{1}, Ns: c.ns})
		if err != nil {
			t.Fatal(err)
		}
		got, err := json.MarshalIndent(b.Rows, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, '\n')
		path := filepath.Join("testdata", "stored", c.name+".json")
		if *update {
			if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			at := 0
			for at < min(len(got), len(want)) && got[at] == want[at] {
				at++
			}
			t.Errorf("%s is %d bytes, %d are stored; they differ from line %d on: %.120q", c.name, len(got), len(want), 1+bytes.Count(want[:at], []byte("\n")), got[at:])
		}
	}
}
