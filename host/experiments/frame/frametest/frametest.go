// Package frametest holds what a bench gives to what is stored of it.
package frametest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Stored fails where the rows are not those of testdata/stored/NAME; with update it writes them first.
func Stored(t *testing.T, name string, rows any, update bool) {
	t.Helper()
	got, err := json.MarshalIndent(rows, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("testdata", "stored", name)
	if update {
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
}
