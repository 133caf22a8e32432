package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-npu/sluice/host/cli"
)

// The notebook runs on a sweep of today and prints the best design that the sweep has.
func TestNotebook(t *testing.T) {
	file := filepath.Join(t.TempDir(), "sweep.json")
	code, _, stderr := call("sweep", "--network", "tiny", "--board", "zc706", "--tp", "6..8", "--tc", "32..48", "--tr", "1024..1024", "--out", file)
	if code != cli.OK {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var sweep struct {
		Best struct{ Point row } `json:"best"`
	}
	if err := json.Unmarshal(text, &sweep); err != nil {
		t.Fatal(err)
	}
	if text, err = os.ReadFile("../../python/sweep.ipynb"); err != nil {
		t.Fatal(err)
	}
	var notebook struct {
		Cells []struct {
			Type   string   `json:"cell_type"`
			Source []string `json:"source"`
		} `json:"cells"`
	}
	if err := json.Unmarshal(text, &notebook); err != nil {
		t.Fatal(err)
	}
	var script strings.Builder
	for _, c := range notebook.Cells {
		if c.Type == "code" {
			script.WriteString(strings.Join(c.Source, "") + "\n")
		}
	}
	reader, err := os.ReadFile("../../python/sluice_dse.py")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(filepath.Dir(file), "sluice_dse.py"), reader, 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("../../../build/venv/bin/python", "-c", script.String())
	cmd.Env = append(os.Environ(), "PYTHONPATH="+filepath.Dir(file), "SWEEP="+file)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	p := sweep.Best.Point
	want := fmt.Sprintf("best: <%d, %d, %d>, %.1f GOP/s, %d DSPs, estimated\n", p.TR, p.TP, p.TC, p.GOPs, p.DSP)
	if !strings.HasPrefix(string(out), want) || strings.Count(string(out), "BRAM36") < 2 {
		t.Errorf("%s\nexpected it to begin with %s", out, want)
	}
}

// row has the keys of a design that the notebook prints.
type row struct {
	TR, TP, TC int
	GOPs       float64 `json:"gops"`
	DSP        int     `json:"dsp"`
}
