package experiments_test

import (
	"context"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/sluice-npu/sluice/host/experiments/frame"
	"github.com/sluice-npu/sluice/host/experiments/reef"
	"github.com/sluice-npu/sluice/host/experiments/seeb"
)

var update = flag.Bool("update", false, "write the stored rows")

// Every number of every row equals the stored one, so that a change of the engine, the policies or the simulated GPUs is
// noticed. If the change is intended, -update stores the new numbers.
func TestStored(t *testing.T) {
	for name, run := range map[string]func() (*frame.Result, error){
		"reef": func() (*frame.Result, error) {
			return reef.Run(context.Background(), reef.Config{Config: frame.Config{Seeds: []uint64{1}, Ns: 5e6}})
		},
		"seeb": func() (*frame.Result, error) {
			b, err := seeb.Run(context.Background(), seeb.Config{Config: frame.Config{Seeds: []uint64{1}, Ns: 300e6}})
			if err != nil {
				return nil, err
			}
			return &b.Result, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := run()
			if err != nil {
				t.Fatal(err)
			}
			got, err := json.MarshalIndent(r.Rows, "", " ")
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(name, "testdata", "stored", name+".json")
			if *update {
				if err := os.WriteFile(path, append(got, '\n'), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(string(want), string(got)+"\n"); d != "" {
				t.Errorf("%s: %s", path, d)
			}
		})
	}
}
