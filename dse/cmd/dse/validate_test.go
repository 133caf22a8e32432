package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-npu/sluice/host/cli"
)

// Layers and starts counted on a user's own configuration, here tinyx and run under another name: --config is its file,
// and the machine's figures are fields of the one document, also in --out.
func TestValidateOwnConfig(t *testing.T) {
	dir := t.TempDir()
	own := filepath.Join(dir, "own.yaml")
	store := func(from, to, config string, want int) string {
		t.Helper()
		text, err := os.ReadFile("../../../hw/configs/" + config + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(own, bytes.Replace(text, []byte("name: "+config+"\n"), []byte("name: own\n"), 1), 0o644); err != nil {
			t.Fatal(err)
		}
		var f map[string]any
		if text, err = os.ReadFile("../../counted/" + from); err == nil {
			err = json.Unmarshal(text, &f)
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"layers", "starts"} {
			all, _ := f[key].([]any)
			f[key] = slices.DeleteFunc(all, func(x any) bool {
				l := x.(map[string]any)
				off := l["config"] != config || want == 0 || l["cycles"].(float64) > 20_000
				if l["config"] = "own"; !off {
					want--
				}
				return off
			})
		}
		if text, err = json.Marshal(f); err == nil {
			err = os.WriteFile(filepath.Join(dir, to), text, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
		return filepath.Join(dir, to)
	}
	for _, c := range []struct{ from, config, key string }{
		{"held.json", "run", "own/8"},
		{"random.json", "tinyx", "own/4"},
	} {
		file, out := store(c.from, c.from, c.config, 20), filepath.Join(dir, "out.json")
		args := []string{"validate", "--again", file, "--machine", "--json"}
		if c.key == "own/4" {
			args = append(args, "--starts")
		} else {
			args = append(args, "--out", out)
		}
		if code, stdout, _ := call(args...); code != cli.Input || !strings.Contains(stdout, "goes to --config") {
			t.Errorf("%s without its configuration: exit code %d: %s", c.from, code, stdout)
		}
		code, stdout, stderr := call(append(args, "--config", own)...)
		var doc validateDoc
		if err := json.Unmarshal([]byte(stdout), &doc); code != cli.OK || err != nil {
			t.Fatalf("%s: exit code %d, %v: %s", c.from, code, err, stderr)
		}
		x, n := doc.Machine[c.key], doc.By[c.key].N
		if x == nil || n == 0 || *x != (stepped{N: n, Exact: n, Waits: n}) {
			t.Errorf("%s: %d of %s, by the machine %+v", c.from, n, c.key, x)
		}
		if c.key == "own/4" {
			if len(doc.Starts) < 3 || doc.Starts[0].N != doc.Cycles.N {
				t.Errorf("%s: starts %+v", c.from, doc.Starts)
			}
			continue
		}
		var stored validateDoc
		text, err := os.ReadFile(out)
		if err == nil {
			err = json.Unmarshal(text, &stored)
		}
		if err != nil || !reflect.DeepEqual(stored.Machine, doc.Machine) || len(stored.Layers) != doc.Cycles.N {
			t.Fatalf("%s: %v, %d layers in the file of %d, by the machine %+v", c.from, err, len(stored.Layers), doc.Cycles.N, stored.Machine)
		}
		for _, l := range stored.Layers {
			if l.Stepped == nil || l.Stepped.Cycles != l.Cycles || !l.Waits(l.Stepped.Stalls) {
				t.Errorf("%s: by the machine %+v, counted %d, %+v", l.Layer, l.Stepped, l.Cycles, l.Stalls)
			}
		}
	}
}

// --again refuses flags that choose what is counted.
func TestValidateAgainIsWhole(t *testing.T) {
	for _, flag := range [][]string{{"--n", "24"}, {"--share", "0.1"}, {"--network", "tiny"}, {"--batch", "1"}, {"--input-side", "64"}} {
		code, stdout, stderr := call(append([]string{"validate", "--again", "../../counted/held.json"}, flag...)...)
		if want := flag[0] + " is read by a run that counts, not by --again"; code != cli.Usage || stdout != "" || !strings.Contains(stderr, want) {
			t.Errorf("%v: exit code %d, expected %q: %s%s", flag, code, want, stdout, stderr)
		}
	}
}
