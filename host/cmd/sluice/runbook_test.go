//go:build !static

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-npu/sluice/host/cli"
	"github.com/sluice-npu/sluice/host/gpu/cuda/bench"
	"github.com/sluice-npu/sluice/host/gpu/cuda/fake"
)

// paced is the time of a kernel by the fake's clock, by call. It is so long that budgets end parts, and so short that
// what cannot be stopped takes less than the fiftieth of a budget that is reserved for it: a request of DISB launches
// 162 kernels, a run of kills up to 88, one of first 202.
var paced = map[string]time.Duration{"first": 20 * time.Millisecond, "kills": 75 * time.Millisecond, "padding": 150 * time.Millisecond, "disb": 50 * time.Millisecond}

// runbook is the calls of RUNBOOK.md, with some of the figures that it promises, by folder.
func runbook(t *testing.T) (calls [][]string, figures map[string][]string) {
	t.Helper()
	text, err := os.ReadFile("../../gpu/cuda/RUNBOOK.md")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if args := strings.Fields(line); strings.HasPrefix(line, "    sluice bench gpu ") && slices.Contains(args, "--budget") {
			calls = append(calls, args[1:])
		}
	}
	return calls, map[string][]string{
		"first": {
			"golden tiny exits that differ", "golden random networks exits that differ", "costs launch", "costs partition", "copies 16777216 up alone", "copies 4096 down beside", "copies 16777216 down two beside",
			"kills killed restored bit for bit", "partitions size=1 SMs in none", "slowdown together=2 error of learnt",
		},
		"kills": {
			"kills killed restored bit for bit", "kills drained restored bit for bit", "kills boolean wrong launches", "preemption reset capacity=1 away", "preemption wait capacity=16 first",
		},
		"padding": {
			"latency tiny units=16 batch=1", "latency tiny units=1 batch=32", "layers tiny 0", "slowdown together=4 error of static", "padding reef of reset", "padding reset best effort keeps",
		},
		"disb": {
			"partitions size=1 SMs in none", "seeb seeb late", "seeb gslice units of a launch", "disb A rt-only throughput", "disb A reef throughput", "disb A reef-dkp throughput",
		},
	}
}

// TestRunbook goes through RUNBOOK.md's calls on the fake, with their budgets and numbers of runs, by the fake's clock;
// the networks are small, and DISB's and SEEB's runs short. No call takes longer than its budget. Each call is also
// killed at a random time in each third of its duration: the runs that it leaves can be read, or there are none. Runs
// of unfinished parts are kept too. Afterwards every figure is there, or its part is named as missing or broken off,
// and each part is there in one of the calls.
func TestRunbook(t *testing.T) {
	lib, err := fake.Build(fake.Dir())
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("SLUICE_CUDA", lib)
	dir := t.TempDir()
	calls, figures := runbook(t)
	if len(calls) != len(figures) {
		t.Fatalf("RUNBOOK.md has %d calls with a budget, expected %d", len(calls), len(figures))
	}
	run := func(args []string, out string, dies time.Duration) (string, error) {
		// The first call compiles the network, and the others use its result, since compiling takes as long as a part.
		if bundles, _ := filepath.Glob(filepath.Join(dir, "build", "bundles", "tiny-tiny-*.sluice")); len(bundles) == 1 {
			args = append(slices.Clone(args), bundles[0], "--out", out)
		} else {
			args = append(slices.Clone(args), "--networks", "tiny", "--config", "tiny", "--build", filepath.Join(dir, "build"), "--out", out)
		}
		if slices.Contains(args, "--disb") {
			args = append(args, "--disb", "5ms", "--seeb", "5ms", "--shrink", "32", "--workloads", "A")
		}
		cmd := exec.Command("sluice", args...)
		cmd.Env = append(os.Environ(), fmt.Sprintf("FAKE_PACE_NS=%d", paced[filepath.Base(out)]), fmt.Sprintf("FAKE_DIES_NS=%d", dies))
		text, err := cmd.CombinedOutput()
		return string(text), err
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
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	var folders, under []string // under: parts of which a kill left some runs
	there := map[string]bool{}  // parts
	for _, args := range calls {
		name, budget := filepath.Base(valueOf(args, "--out")), time.Duration(0)
		if budget, err = time.ParseDuration(valueOf(args, "--budget")); err != nil {
			t.Fatal(err)
		}
		at := filepath.Join(dir, name)
		text, ended := run(args, at, 0)
		docs, code := read(at)
		if code != cli.OK || len(docs) != 1 {
			t.Fatalf("%s: %v, and reading ends with %d: %s", name, ended, code, text)
		}
		d := &docs[0]
		took := time.Duration(d.TookNs)
		t.Logf("%s: %s of %s, broken off %v, missing %v", name, took, budget, d.Cut, d.Missing)
		if took <= 0 || took > budget {
			t.Errorf("%s takes %s by the fake's clock, of a budget of %s", name, took, budget)
		}
		for _, part := range bench.Parts() {
			there[part] = there[part] || !slices.Contains(d.Missing, part)
		}
		for _, figure := range figures[name] {
			part, _, _ := strings.Cut(figure, " ")
			is := slices.ContainsFunc(d.Rows, func(r bench.Row) bool {
				is := r.Part + " " + r.Key
				return strings.HasPrefix(is, figure) && (r.N > 0 || r.Note != "") || is == figure+" left out"
			})
			if !is && !slices.Contains(d.Missing, part) && !slices.Contains(d.Cut, part) {
				t.Errorf("%s: nothing is there of %q, and nothing says that it is missing: %v, %v", name, figure, d.Missing, d.Cut)
			}
		}
		for third := range time.Duration(3) {
			left, dies := filepath.Join(dir, "killed", name), third*took/3+time.Duration(rng.Int64N(int64(took/3)))
			if err := os.RemoveAll(left); err != nil {
				t.Fatal(err)
			}
			_, ended := run(args, left, dies)
			if _, err := os.Stat(filepath.Join(left, bench.RawFile)); err == nil { // it took less than the one before
				continue
			}
			_, err := os.Stat(filepath.Join(left, bench.JournalFile))
			docs, code := read(left)
			if err == nil && (code != cli.OK || len(docs) != 1 || len(docs[0].Rows) == 0) || err != nil && (code != cli.Input || third > 0) {
				t.Errorf("%s, killed after %s (%v): %v, and reading ends with %d", name, dies, ended, err, code)
			}
			if len(docs) == 1 {
				under = append(under, docs[0].Cut...)
			}
		}
		folders = append(folders, at)
	}
	for _, part := range bench.Parts() {
		if !there[part] {
			t.Errorf("no call has figures of %s", part)
		}
	}
	if t.Logf("kills left runs of %v under way", under); len(under) == 0 {
		t.Error("no kill left runs of a part that was under way")
	}
	if docs, code := read(folders...); code != cli.OK || len(docs) != len(calls) {
		t.Fatalf("reading all ends with %d, %d documents", code, len(docs))
	}
}

// valueOf is a flag's value.
func valueOf(args []string, flag string) string {
	if i := slices.Index(args, flag); i >= 0 && i+1 < len(args) {
		return args[i+1]
	}
	return ""
}
