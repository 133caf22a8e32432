package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-npu/sluice/host/cli"
	"github.com/sluice-npu/sluice/host/shard"
)

// Two shards of synthesis yield the document of one process. Results of another yosys or for another netlist are
// refused.
func TestShardsOfSynth(t *testing.T) {
	t.Chdir("../../..")
	t.Setenv("SLUICE_SYN", t.TempDir())
	dir := t.TempDir()
	one, merged, shards := filepath.Join(dir, "one.json"), filepath.Join(dir, "merged.json"), filepath.Join(dir, "shards")
	ask := []string{"synth", "--module", "fbcb,spill"}
	for _, args := range [][]string{{"--shard", "2/2", "--resume", shards}, {"--shard", "1/2", "--resume", shards}, {"--out", one}} {
		if code, _, stderr := call(append(ask, args...)...); code != cli.OK {
			t.Fatalf("%v: exit code %d: %s", args, code, stderr)
		}
	}
	if code, _, stderr := call("merge", shards, "--out", merged); code != cli.OK {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	want, err := os.ReadFile(one)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(merged); err != nil || string(got) != string(want) {
		t.Errorf("%v: %s\nof one process:\n%s", err, got, want)
	}
	q, err := shard.Asked(shards)
	if err != nil {
		t.Fatal(err)
	}
	name, text, err := shard.Find(shards, q, 1)
	if err != nil {
		t.Fatal(err)
	}
	last := name
	for what, spoil := range map[string]func(*shard.Result){
		" is Yosys 0.24": func(r *shard.Result) { r.Made["yosys"] = "Yosys 0.24" },
		" is another":    func(r *shard.Result) { r.Made["flow"] = "another" },
		"fbcb of small: no valid result: it is of [small": func(r *shard.Result) {
			r.Units[0].Result = []byte(strings.Replace(string(r.Units[0].Result), `"sources_sha256":"`, `"sources_sha256":"0`, 1))
		},
	} {
		r, err := shard.Decode(name, text, q)
		if err != nil {
			t.Fatal(err)
		}
		spoil(r)
		if err := os.Remove(filepath.Join(shards, last)); err != nil {
			t.Fatal(err)
		}
		if last, err = r.Write(shards); err != nil {
			t.Fatal(err)
		}
		if code, _, stderr := call("merge", shards); code != cli.Input || !strings.Contains(stderr, what) {
			t.Errorf("exit code %d, expected %q: %s", code, what, stderr)
		}
	}
}

// A design that cannot be synthesised is refused before anything is written.
func TestSynthRefuses(t *testing.T) {
	text, err := os.ReadFile("../../../hw/configs/tiny.yaml")
	if err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(t.TempDir(), "small;exec.yaml") // a name that yosys' script must not have
	if err := os.WriteFile(script, text, 0o600); err != nil {
		t.Fatal(err)
	}
	for args, what := range map[string]string{
		"--config " + script:                  "expected a file of the configuration's name, tiny.yaml",
		"--config none":                       "none",
		"--module nothing":                    "there is no module nothing",
		"--module fbcb,units":                 "fbcb of small twice",
		"--config zc706 --family xcup":        "zc706 is for the board zc706, whose family is xc7",
		"--family ice40":                      `expected xc7 or xcup, found "ice40"`,
		"--config zc706 --module ../rtl/fbcb": "there is no module ../rtl/fbcb",
	} {
		dir := filepath.Join(t.TempDir(), "shards")
		code, _, stderr := call(append([]string{"synth", "--shard", "0/2", "--resume", dir}, strings.Fields(args)...)...)
		if _, err := os.Stat(dir); code == cli.OK || !strings.Contains(stderr, what) || err == nil {
			t.Errorf("%s: exit code %d: %s", args, code, stderr)
		}
	}
	// elsewhere, a worker leaves the question to others
	t.Chdir(t.TempDir())
	if code, _, stderr := call("synth", "--module", "fbcb"); code != cli.Tool || !strings.Contains(stderr, "run it in the repository's root") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}
