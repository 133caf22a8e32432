//go:build !static

package main

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/sluice-npu/sluice/host/cli"
	"github.com/sluice-npu/sluice/host/gpu/cuda/bench"
	"github.com/sluice-npu/sluice/host/gpu/cuda/fake"
)

// TestRunbook goes through the calls of README's "Measure a GPU" on the fake, with smaller budgets. Each is also killed
// at three random places: what it leaves is read, or it leaves nothing. Afterwards every figure is there, or its part is
// named as missing or broken off.
func TestRunbook(t *testing.T) {
	lib, err := fake.Build(fake.Dir())
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("SLUICE_CUDA", lib)
	dir := t.TempDir()
	common := []string{"bench", "gpu", "--networks", "tiny", "--config", "tiny", "--build", filepath.Join(dir, "build")}
	calls := []struct {
		name    string
		args    []string
		figures []string // part and key
	}{
		{"first", []string{"-n", "20", "--for", "300ms", "--budget", "2s"}, []string{
			"golden tiny exits that differ", "golden random networks exits that differ", "costs launch", "costs partition", "copies 16777216 up alone", "copies 4096 down beside",
			"partitions size=1 SMs in none", "slowdown together=2 error of learnt",
		}},
		{"kills", []string{"-n", "200", "--parts", "kills,preemption", "--budget", "1500ms"}, []string{
			"kills killed restored bit for bit", "kills drained restored bit for bit", "kills boolean wrong launches", "preemption reset capacity=1 away", "preemption wait capacity=16 first",
		}},
		{"padding", []string{"-n", "200", "--parts", "latency,layers,slowdown,padding", "--budget", "1500ms"}, []string{
			"latency tiny units=16 batch=1", "latency tiny units=1 batch=32", "slowdown together=4 error of static", "padding reef of reset", "padding reset best effort keeps",
		}},
		{"disb", []string{"-n", "1", "--parts", "partitions", "--seeb", "5ms", "--disb", "5ms", "--shrink", "32", "--workloads", "A", "--budget", "4s"}, []string{
			"seeb seeb late", "seeb gslice units of a launch", "disb A rt-only latency", "disb A reef rt", "disb A reef-dkp throughput",
		}},
	}
	read := func(folders ...string) (docs []cudaBenchDoc, code int) {
		t.Helper()
		var out, log bytes.Buffer
		args := []string{"bench", "gpu", "--json"}
		for _, f := range folders {
			args = append(args, "--read", f)
		}
		if code = realMain(args, &out, &log); code == cli.OK {
			if err := json.Unmarshal(out.Bytes(), &docs); err != nil {
				t.Fatal(err)
			}
		}
		return docs, code
	}
	rng := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 1)) // a kill may come anywhere: no seed says where
	var folders []string
	for _, c := range calls {
		for range 3 {
			at := filepath.Join(dir, "killed", c.name)
			if err := os.RemoveAll(at); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command("sluice", slices.Concat(common, c.args, []string{"--out", at})...)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Duration(rng.Int64N(int64(700 * time.Millisecond))))
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			_, err := os.Stat(filepath.Join(at, bench.RawFile))
			if docs, code := read(at); err == nil && (code != cli.OK || len(docs) != 1 || len(docs[0].Rows) == 0) || err != nil && code != cli.Input {
				t.Errorf("%s, killed: %v, and reading ends with %d", c.name, err, code)
			}
		}
		at := filepath.Join(dir, c.name)
		text, err := exec.Command("sluice", slices.Concat(common, c.args, []string{"--out", at})...).CombinedOutput()
		if _, e := os.Stat(filepath.Join(at, bench.RawFile)); e != nil {
			t.Fatalf("%s: %v, %v: %s", c.name, err, e, text)
		}
		folders = append(folders, at)
	}
	docs, code := read(folders...)
	if code != cli.OK || len(docs) != len(calls) {
		t.Fatalf("reading all ends with %d, %d documents", code, len(docs))
	}
	for i, c := range calls {
		for _, figure := range c.figures {
			d, there, part := &docs[i], false, ""
			for _, p := range append(bench.Parts(), bench.SEEB, bench.DISB) {
				if len(figure) > len(p) && figure[:len(p)+1] == p+" " {
					part = p
				}
			}
			for _, r := range d.Rows {
				is := r.Part + " " + r.Key
				there = there || is == figure && (r.N > 0 || r.Note != "") || is == figure+" left out"
			}
			if !there && !slices.Contains(d.Missing, part) && !slices.Contains(d.Cut, part) {
				t.Errorf("%s: nothing is there of %q, and nothing says that it is missing: %v, %v", c.name, figure, d.Missing, d.Cut)
			}
		}
	}
}
