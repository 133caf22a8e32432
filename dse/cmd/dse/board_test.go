package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-npu/sluice/boards"
	"github.com/sluice-npu/sluice/host/cli"
	"github.com/sluice-npu/sluice/hw/configs"
)

// ownBoard is a user's board: its name is unknown here, and it has no published rows.
const ownBoard = `name: bench-7
device: Z7015
family: xc7
dsp: 160
bram36: 95
uram: 0
lut: 46200
ff: 92400
clock_mhz: 100
ports: {n_axi: 2, axi_bytes: 8, max_burst: 16}
dram: {bytes_per_cycle: [8], latency_cycles: 60}
`

// A user's board works in all commands: sweep, export, explain, compare. The template is that of its family, or the
// one that a flag names.
func TestOwnBoard(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	board, swept, export := file("mine.yaml", ownBoard), filepath.Join(dir, "sweep.json"), filepath.Join(dir, "export")
	ok := func(args ...string) string {
		t.Helper()
		code, stdout, stderr := call(args...)
		if code != cli.OK {
			t.Fatalf("dse %s: exit code %d: %s", strings.Join(args, " "), code, stderr)
		}
		return stdout
	}
	sweep := []string{"sweep", "--network", "tiny", "--tp", "3..4", "--tc", "8..16", "--tr", "64..128"}
	ok(append(sweep, "--board", board, "--out", swept)...)
	var doc struct {
		Board  string       `json:"board"`
		Device boards.Board `json:"device"`
		Ranks  []any        `json:"published_rank"`
	}
	text, err := os.ReadFile(swept)
	if err != nil || json.Unmarshal(text, &doc) != nil || doc.Board != "bench-7" || doc.Device.DSP != 160 {
		t.Fatalf("the sweep is of %+v (%v)", doc, err)
	}
	if len(doc.Ranks) != 0 {
		t.Errorf("another board's reference design is ranked: %v", doc.Ranks)
	}
	// the board comes from the sweep, or from a flag
	ok("export", "--sweep", swept, "--name", "found", "--out", export)
	ok("export", "--sweep", swept, "--board", board, "--name", "found", "--out", filepath.Join(dir, "again"))
	config := filepath.Join(export, "found.yaml")
	ok("explain", "--network", "tiny", "--config", config, "--images", "2")
	ok("compare", "--network", "tiny", "--a", config, "--b", "run")
	// the grid of a point leaves as much of the board free as the sweep's
	d, err := configs.Load(config)
	if err != nil {
		t.Fatal(err)
	}
	point := fmt.Sprintf("%d,%d,%d", d.TR, d.TP, d.TC)
	if text := ok("export", "--board", board, "--point", point, "--out", filepath.Join(dir, "point"), "--json"); !strings.Contains(text, fmt.Sprintf(`"abuf_words": %d,`, d.ABufWords)) {
		t.Errorf("the sweep's banks have %d words: %s", d.ABufWords, text)
	}
	ok("ablate", "--network", "tiny", "--board", board, "--config", config)
	if _, b, err := (&checkCmd{What: export}).find(); err != nil || b.Name != "bench-7" {
		t.Errorf("check finds the board %q, %v", b.Name, err)
	}
	// the template is zc706 by its family; tiny drains 2 words
	if text := ok("export", "--board", board, "--point", "64,3,16", "--margin", "0", "--out", export, "--json"); !strings.Contains(text, `"drain": 8,`) {
		t.Error("the family's template drains", text)
	}
	if text := ok("export", "--board", board, "--point", "64,3,16", "--margin", "0", "--template", "tiny", "--out", export, "--json"); !strings.Contains(text, `"drain": 2,`) {
		t.Error("--template tiny has no effect", text)
	}

	// with UltraScale+ the template is zcu104, which drains 22 words
	if text := ok("export", "--board", "kv260", "--point", "128,13,44", "--out", export, "--json"); !strings.Contains(text, `"drain": 22,`) {
		t.Error("the family's template drains", text)
	}

	other := file("other.yaml", strings.Replace(ownBoard, "dsp: 160", "dsp: 90", 1))
	away := filepath.Join(t.TempDir(), "away.yaml")
	if text, err = os.ReadFile(config); err != nil || os.WriteFile(away, text, 0o600) != nil {
		t.Fatal(err)
	}
	bad := strings.NewReplacer("name: bench-7", "name: Bench 7", "dsp: 160", "dsp: 0", "family: xc7", "family: ecp5", "lut: 46200\n", "").Replace(ownBoard)
	for _, c := range []struct {
		args []string
		says []string
	}{
		{[]string{"export", "--board", "zcu104", "--sweep", swept, "--out", export}, []string{"bench-7", "zcu104"}},
		{[]string{"export", "--board", other, "--sweep", swept, "--out", export}, []string{"dsp: 160 and 90"}},
		{[]string{"explain", "--network", "tiny", "--config", away, "--images", "2"}, []string{"bench-7", "--board"}},
		{[]string{"explain", "--network", "tiny", "--config", config, "--board", "zc706", "--images", "2"}, []string{"bench-7", "zc706"}},
		{[]string{"ablate", "--network", "tiny", "--board", board}, []string{"--config is needed: the board bench-7 has no reference design"}},
		{[]string{"ablate", "--network", "tiny", "--board", board, "--config", "zc706"}, []string{"bench-7", "900 DSPs", "--config zc706"}},
		{[]string{"sweep", "--network", "tiny", "--board", board, "--law", "paper"}, []string{"paper_mibit", "bench-7"}},
		{append(sweep, "--board", file("bad.yaml", bad)), []string{"name: expected", "dsp: expected", "family: expected", `key "lut" is missing`}},
	} {
		code, _, errs := call(c.args...)
		for _, s := range c.says {
			if code != cli.Input || !strings.Contains(errs, s) {
				t.Errorf("dse %s: exit code %d, want %d and %q; it says %s", strings.Join(c.args, " "), code, cli.Input, s, errs)
			}
		}
	}
}

// Every board in this repository can be swept and exported.
func TestBoards(t *testing.T) {
	for _, name := range boards.Names() {
		dir := t.TempDir()
		out := filepath.Join(dir, "sweep.json")
		code, _, stderr := call("sweep", "--network", "tiny", "--board", name, "--tp", "4..5", "--tc", "16..32", "--tr", "64..128", "--out", out)
		if code != cli.OK {
			t.Errorf("%s: exit code %d: %s", name, code, stderr)
			continue
		}
		if code, _, stderr = call("export", "--sweep", out, "--out", filepath.Join(dir, "export")); code != cli.OK {
			t.Errorf("%s: exit code %d: %s", name, code, stderr)
		}
	}
}

// compile, explain and compare reject a design that the RTL would reject, and name the error.
func TestUnbuildable(t *testing.T) {
	text, err := os.ReadFile("../../../hw/configs/run.yaml")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(text), "\n")
	for i, l := range lines {
		switch key, _, _ := strings.Cut(l, ":"); key {
		case "name":
			lines[i] = "name: odd"
		case "TC":
			lines[i] = "TC: 31"
		case "drain":
			lines[i] = "drain: 5"
		}
	}
	dir := t.TempDir()
	config, out := filepath.Join(dir, "odd.yaml"), filepath.Join(dir, "odd.sluice")
	if err := os.WriteFile(config, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"compile", "--network", "tiny", "--config", config, "--images", "2", "--out", out},
		{"explain", "--network", "tiny", "--config", config, "--images", "2"},
		{"compare", "--network", "tiny", "--a", "run", "--b", config},
		{"sweep", "--network", "tiny", "--board", "zc706", "--template", config, "--tp", "3", "--tc", "8"},
	} {
		code, _, errs := call(args...)
		if code != cli.Input || !strings.Contains(errs, "TC: expected a multiple of 4: drain is even and divides TC / 2, found 31") || !strings.Contains(errs, "drain: expected an even number") {
			t.Errorf("dse %s: exit code %d: %s", strings.Join(args, " "), code, errs)
		}
	}
	if _, err := os.Stat(out); err == nil {
		t.Error("a bundle was written")
	}
}
