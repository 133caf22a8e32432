//go:build !static

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/dse/recipe"
	"github.com/sluice-npu/sluice/host/cli"
	"github.com/sluice-npu/sluice/host/experiments/disb"
	"github.com/sluice-npu/sluice/host/gpu/cuda"
	"github.com/sluice-npu/sluice/host/gpu/cuda/bench"
	"github.com/sluice-npu/sluice/host/gpu/cuda/fake"
	"github.com/sluice-npu/sluice/host/shard"
	"github.com/sluice-npu/sluice/hw/configs"
)

// The merge has the parts that two processes measured. Results of another GPU are refused.
func TestShardsOfGPU(t *testing.T) {
	lib, _ := fake.Rig(t, fake.Build)
	t.Setenv("SLUICE_CUDA", lib)
	dir := t.TempDir()
	shards := filepath.Join(dir, "shards")
	call := func(args ...string) (int, string, string) {
		var out, log bytes.Buffer
		code := realMain(args, &out, &log)
		return code, out.String(), log.String()
	}
	ask := []string{"bench", "gpu", "--networks", "tiny", "--config", "tiny", "--build", dir, "-n", "2", "--parts", "golden,costs", "--resume", shards, "--shard"}
	for _, some := range []string{"2/2", "1/2"} {
		if code, _, log := call(append(ask, some)...); code != cli.OK {
			t.Fatalf("exit code %d: %s", code, log)
		}
	}
	var docs []cudaBenchDoc
	code, text, log := call("merge", shards, "--out", filepath.Join(dir, "merged"), "--json")
	if err := json.Unmarshal([]byte(text), &docs); code != cli.OK || err != nil {
		t.Fatalf("exit code %d, %v: %s", code, err, log)
	}
	if len(docs) != 2 || !slices.Equal(docs[0].Ended, []string{"golden"}) || !slices.Equal(docs[1].Ended, []string{"costs"}) || len(docs[1].Rows) == 0 || docs[1].Label != "simulated" {
		t.Errorf("merged: %s", text)
	}
	if code, _, log := call("bench", "gpu", "a.sluice", "--shard", "0/2", "--resume", filepath.Join(dir, "more")); code != cli.Usage || !strings.Contains(log, "--networks in place of bundles") {
		t.Errorf("exit code %d: %s", code, log)
	}
	q, err := shard.Asked(shards)
	if err != nil {
		t.Fatal(err)
	}
	name, content, err := shard.Find(shards, q, 1)
	if err != nil {
		t.Fatal(err)
	}
	r, err := shard.Decode(name, content, q)
	if err != nil {
		t.Fatal(err)
	}
	r.Made["GPU"] = "another"
	if err := os.Remove(filepath.Join(shards, name)); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Write(shards); err != nil {
		t.Fatal(err)
	}
	if code, _, log := call("merge", shards, "--out", filepath.Join(dir, "again")); code != cli.Input || !strings.Contains(log, " is another") {
		t.Errorf("exit code %d: %s", code, log)
	}
}

// TestCUDA serves and profiles with the fake driver: golden's results, and no output says "measured".
func TestCUDA(t *testing.T) {
	lib, h := fake.Rig(t, fake.Build)
	t.Setenv("SLUICE_CUDA", lib)
	dir := t.TempDir()
	var out, log bytes.Buffer
	args := []string{"run", "--device", "cuda", "--config", "tiny", "--network", "tiny", "-n", "12", "--policy", "serial,fluid", "--build", dir, "--out", dir, "--rate", "20/s", "--slo", "10s", "--json"}
	if code := realMain(args, &out, &log); code != cli.OK {
		t.Fatalf("exit code %d: %s", code, log.String())
	}
	var doc runDoc
	if err := json.Unmarshal(out.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	if doc.Alone != nil || doc.Service != nil || doc.BatchGain != nil || doc.RateMultiple != nil {
		t.Errorf("without a profile it gives the NPU's figures: %+v, %v", doc.tableDoc, doc.RateMultiple)
	}
	if doc.Label != "simulated" || doc.Clock != "measured" || len(doc.Runs) != 2 {
		t.Errorf("label %s, clock %s, %d runs", doc.Label, doc.Clock, len(doc.Runs))
	}
	for _, r := range doc.Runs {
		if r.Requests != 12 || r.Reference == nil || r.Reference.Results != 0 || r.Cycles != nil {
			t.Errorf("%s: %d requests, reference %+v, cycles %v", r.Policy, r.Requests, r.Reference, r.Cycles)
		}
	}
	log.Reset()
	if code := realMain([]string{"run", "--device", "cuda", "--config", "tiny", "--network", "tiny"}, &out, &log); code != cli.Usage || !strings.Contains(log.String(), "--rate N/s and --slo TIME") {
		t.Errorf("multiples of the NPU's figures: exit code %d, %s", code, log.String())
	}
	profiled(t, dir)
	out.Reset()
	log.Reset()
	h.Slow(1) // makes kernels last long enough to be stopped
	at := filepath.Join(dir, "gpu")
	gpu := []string{"bench", "gpu", "--networks", "tiny", "--config", "tiny", "--build", dir, "--out", at, "-n", "2", "--batches", "1", "--json", "--disb", "10ms", "--shrink", "32", "--workloads", "A", "--seeb", "10ms"}
	if code := realMain(gpu, &out, &log); code != cli.OK {
		t.Fatalf("bench gpu: exit code %d: %s", code, log.String())
	}
	var measured cudaBenchDoc
	if err := json.Unmarshal(out.Bytes(), &measured); err != nil {
		t.Fatal(err)
	}
	if measured.Label != "simulated" || !measured.Facts.Fake || measured.N != 2 || len(measured.Rows) < 50 {
		t.Errorf("bench gpu: label %s, %+v, n %d, %d rows", measured.Label, measured.Facts, measured.N, len(measured.Rows))
	}
	if measured.Foretold != nil || measured.Published != nil ||
		!slices.ContainsFunc(measured.Rows, func(r bench.Row) bool { return r.Part == bench.DISB && r.Key == "A reef throughput" }) {
		t.Errorf("bench gpu --disb: foretold %v, published %v", measured.Foretold, measured.Published)
	}
	if len(measured.Missing) > 0 || !slices.ContainsFunc(measured.Rows, func(r bench.Row) bool { return r.Part == bench.SEEB && r.Key == "seeb late" }) {
		t.Errorf("bench gpu --seeb: nothing is there of %v", measured.Missing)
	}
	if !slices.ContainsFunc(measured.Rows, func(r bench.Row) bool { return r.Part == bench.Clocks && r.Key == "disb vgg19 before" && r.N > 1 }) {
		t.Error("bench gpu --disb: nobody looks at the GPU's pace")
	}
	in, err := os.Open(filepath.Join(at, bench.RawFile))
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	raw, err := bench.Read(bench.RawFile, in)
	if err != nil || !reflect.DeepEqual(raw.Rows(), measured.Rows) {
		t.Errorf("bench gpu: the runs that it keeps are not those of its figures: %v", err)
	}
	reread(t, at, measured.Rows)
	if _, err := os.Stat(filepath.Join(at, "params.yaml")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("bench gpu writes parameters of what is no GPU: %v", err)
	}
	spoiled(t, h, dir)
	log.Reset()
	for want, args := range map[string][]string{
		"-n 0: expected 1..100000":          {"-n", "0"},
		"--batches 33: expected 1..32":      {"--batches", "33"},
		"--batches 1: duplicate":            {"--batches", "1,8,1"},
		"--queued 65: expected 1..64":       {"--queued", "65"},
		"--queued 4: duplicate":             {"--queued", "4,1,4"},
		"--queued and --modes are the part": {"--parts", "kills", "--queued", "4"},
		"--modes streams: expected of":      {"--modes", "streams"},
		"--parts kills: duplicate":          {"--parts", "kills,kills"},
		"--parts all: expected of":          {"--parts", "all"},
		"--batches are the part latency's":  {"--parts", "padding", "--batches", "32"},
		"--parts: none is given":            {"--parts", ""},
		"--batches: none is given":          {"--batches", ""},
		"--workloads: none is given":        {"--disb", "1s", "--workloads", ""},
		"--workloads A: duplicate":          {"--disb", "1s", "--workloads", "A,A"},
		"--workloads F: expected of A, B":   {"--disb", "1s", "--workloads", "F"},
		"are DISB's: expected with --disb":  {"--workloads", "A"},
		"are DISB's: expected with":         {"--shrink", "2"},
		"--seeb 2m0s: expected up to 1m":    {"--seeb", "2m"},
	} {
		log.Reset()
		if code := realMain(append([]string{"bench", "gpu", "--networks", "nothing"}, args...), &out, &log); code != cli.Usage || !strings.Contains(log.String(), want) {
			t.Errorf("bench gpu %v: exit code %d, %s", args, code, log.String())
		}
	}
	t.Setenv("SLUICE_CUDA", filepath.Join(dir, "none.so"))
	for _, command := range [][]string{
		args[:len(args)-1],
		{"profile", "--device", "cuda", "--config", "tiny", "--network", "tiny", "--build", dir},
		{"bench", "gpu", "--networks", "nothing", "--out", dir}, // rejected before anything is compiled
	} {
		log.Reset()
		if code := realMain(command, &out, &log); code != cli.Device || !strings.Contains(log.String(), "no CUDA driver") || !strings.Contains(log.String(), "NVIDIA's driver package") ||
			!strings.Contains(log.String(), "SLUICE_CUDA is "+filepath.Join(dir, "none.so")) {
			t.Errorf("%v without a driver: exit code %d, %s", command, code, log.String())
		}
	}
}

// Flags without effect beside bundles are rejected; a folder set in the environment is for other commands too and is
// accepted.
func TestIdleFlags(t *testing.T) {
	t.Setenv("SLUICE_BUILD", "/b")
	for want, c := range map[string]benchCUDACmd{
		"--config beside bundles": {Bundles: []string{"a"}, Config: "mid", Build: "build"},
		"--build beside bundles":  {Bundles: []string{"a"}, Build: "/nonexistent"},
		"--networks: none":        {Nets: []string{}, Build: "build"},
		"--batches are":           {Parts: []string{bench.Padding}, Batches: []int{1}},
	} {
		if err := c.idle(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	for _, c := range []benchCUDACmd{
		{Bundles: []string{"a"}, Build: "build"},
		{Bundles: []string{"a"}, Build: "/b"},
		{Bundles: []string{"a"}, Nets: []string{"n"}, Config: "mid", Build: "/c"},
		{Nets: []string{"n"}, Config: "c", Build: "/c"},
		{Parts: []string{bench.Latency}, Batches: []int{1}},
		{Batches: []int{1}},
	} {
		if err := c.idle(); err != nil {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// If no stop has hit a launch, the result proves nothing and is a failure.
func TestMissed(t *testing.T) {
	hit, none := bench.Restores{How: "killed", Tried: 9, Hit: 1, Restored: 1}, bench.Restores{How: "drained", Network: "n", Tried: 9}
	if err := missed([]bench.Restores{hit}); err != nil {
		t.Error(err)
	}
	var c *cli.Error
	if err := missed([]bench.Restores{hit, none}); !errors.As(err, &c) || c.Code != cli.Check || !strings.Contains(err.Error(), "n drained: 9 tried, 0 stopped") || !strings.Contains(err.Error(), "nothing is shown") || strings.Contains(err.Error(), "killed") {
		t.Errorf("%v", err)
	}
}

// A deliberate error that goes unnoticed makes the measuring command fail. Reading its runs again only reports it,
// since the other results are valid.
func TestBlind(t *testing.T) {
	seen, unseen := bench.Restores{How: "boolean", Spoilt: 1, InWrong: 1}, bench.Restores{How: "short", Network: "n", Tried: 9, Hit: 7, Restored: 7}
	if err := blind([]bench.Restores{seen}); err != nil {
		t.Error(err)
	}
	var c *cli.Error
	if err := blind([]bench.Restores{seen, unseen}); !errors.As(err, &c) || c.Code != cli.Check || !strings.Contains(err.Error(), "n short: 9 tried, 7 made blocks") || strings.Contains(err.Error(), "boolean") {
		t.Errorf("%v", err)
	}
	raw := bench.Raw{Facts: cuda.Facts{GPU: "g", SMs: 8}, Made: bench.Made{Parts: []string{bench.Kills}}}
	for what, n := range map[string]int64{"short tried": 9, "short hit": 7, "short first wrong exit": 0, "short first wrong output": 0, "short last stopped in": 3} {
		raw.Series = append(raw.Series, bench.Series{Part: bench.Kills, Key: what, Unit: "kills", Runs: []int64{n}})
	}
	dir := t.TempDir()
	var text, out, log bytes.Buffer
	if err := errors.Join(raw.Write(&text), os.WriteFile(filepath.Join(dir, bench.RawFile), text.Bytes(), 0o600)); err != nil {
		t.Fatal(err)
	}
	if code := realMain([]string{"bench", "gpu", "--read", dir}, &out, &log); code != cli.OK || !strings.Contains(out.String(), "0 launches wrong: it was not seen, so that restores show nothing\n") {
		t.Errorf("--read: exit code %d, %s%s", code, out.String(), log.String())
	}
	// An interrupted part may have missed it. A run that is read twice counts once.
	raw.Made.Parts = nil
	text.Reset()
	if err := errors.Join(raw.Write(&text), os.WriteFile(filepath.Join(dir, bench.RawFile), text.Bytes(), 0o600)); err != nil {
		t.Fatal(err)
	}
	out.Reset()
	if code := realMain([]string{"bench", "gpu", "--read", dir + "," + dir + "/"}, &out, &log); code != cli.OK || !strings.Contains(out.String(), "0 launches wrong: it was broken off before it was seen\n") ||
		strings.Count(out.String(), "a break that is to be seen") != 1 || !strings.Contains(log.String(), "the same runs are read once") {
		t.Errorf("--read: exit code %d, %s%s", code, out.String(), log.String())
	}
}

// Of several files of one call, the one with all runs is read, in any order, and from a folder its journal if that
// has more. If none has all runs, all are read.
func TestReadTorn(t *testing.T) {
	runs := func(n int) []int64 { return []int64{11, 12, 13, 14}[:n] }
	raw := bench.Raw{Facts: cuda.Facts{GPU: "g", SMs: 8}}
	dir := t.TempDir()
	write := func(folder, name string, series ...bench.Series) string {
		t.Helper()
		raw.Series = series
		var text bytes.Buffer
		err := raw.Write(&text)
		if name == bench.JournalFile {
			text.Reset()
			err = (&bench.Journal{W: &text}).Add(&raw)
		}
		folder = filepath.Join(dir, folder)
		if err := errors.Join(err, os.MkdirAll(folder, 0o700), os.WriteFile(filepath.Join(folder, name), text.Bytes(), 0o600)); err != nil {
			t.Fatal(err)
		}
		return folder
	}
	launch := func(n int) bench.Series {
		return bench.Series{Part: bench.Costs, Key: "launch", Unit: "ns", Runs: runs(n)}
	}
	event := func(n int) bench.Series {
		return bench.Series{Part: bench.Costs, Key: "event", Unit: "ns", Runs: runs(n)}
	}
	whole, less, none := write("whole", bench.RawFile, launch(4), event(3)), write("less", bench.RawFile, launch(2)), write("none", bench.RawFile)
	other := write("other", bench.RawFile, event(4))
	both := write("both", bench.RawFile, launch(1))
	write("both", bench.JournalFile, launch(4), event(3))
	spoilt := write("spoilt", bench.JournalFile, launch(4), event(3))
	if err := os.WriteFile(filepath.Join(spoilt, bench.RawFile), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		read, want []string
		code       int
	}{
		{[]string{less, whole}, []string{whole}, cli.OK},
		{[]string{whole, less}, []string{whole}, cli.OK},
		{[]string{none, less, whole, less}, []string{whole}, cli.OK},
		{[]string{less, other, none}, []string{less, other}, cli.OK},
		{[]string{less, other, whole}, []string{other, whole}, cli.OK},
		{[]string{both}, []string{both}, cli.OK},
		{[]string{less, both, whole}, []string{both}, cli.OK},
		{[]string{spoilt}, []string{spoilt}, cli.Input}, // what could be read, and the error
	} {
		var text, out, log bytes.Buffer
		code := realMain(append([]string{"bench", "gpu", "--read"}, strings.Join(c.read, ",")), &text, &log)
		var from []string
		for line := range strings.Lines(text.String()) {
			if strings.HasPrefix(line, dir) {
				from = append(from, strings.TrimSpace(line))
			}
		}
		var docs []cudaBenchDoc
		if again := realMain([]string{"bench", "gpu", "--json", "--read", strings.Join(c.read, ",")}, &out, &log); code != c.code || again != code || !slices.Equal(from, c.want) {
			t.Errorf("--read %v: exit codes %d, %d, figures of %v, expected %v: %s", c.read, code, again, from, c.want, log.String())
		}
		if err := json.Unmarshal(out.Bytes(), &docs); err != nil || len(docs) != len(c.want) {
			t.Fatalf("--read %v: %d documents, %v", c.read, len(docs), err)
		}
		for i, at := range c.want {
			n := map[string]int{less: 2, other: 4}[at]
			if n == 0 {
				n = 7
			}
			got := 0
			for _, r := range docs[i].Rows {
				got += r.N
			}
			if got != n {
				t.Errorf("--read %v: %d runs of %s, expected %d", c.read, got, at, n)
			}
		}
	}
}

// From a truncated archive --read shows the complete lines, as from a folder. If there are none, or a path has no
// runs, it says what was expected and which folders have runs.
func TestReadElsewhere(t *testing.T) {
	raw := bench.Raw{Facts: cuda.Facts{GPU: "g", SMs: 8}}
	for i := range 3000 { // of more than one block, so that some are whole
		raw.Series = append(raw.Series, bench.Series{Part: bench.Costs, Key: fmt.Sprint("launch ", i), Unit: "ns", Runs: []int64{int64(i) * 7919}})
	}
	dir := t.TempDir()
	one, file := filepath.Join(dir, "one"), filepath.Join(dir, "one.tgz")
	var text, packed bytes.Buffer
	if err := errors.Join(raw.Write(&text), os.Mkdir(one, 0o700), os.WriteFile(filepath.Join(one, bench.RawFile), text.Bytes(), 0o600), pack(&packed, one)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path, says string
		size, code int
	}{
		{file, "the file of runs is cut off: its complete lines are shown", packed.Len() * 3 / 4, cli.OK},
		{file, "the archive is cut off before its first complete line of runs: copy it again", 40, cli.Input},
		{file, "the archive is cut off before its first complete line of runs: copy it again", 150, cli.Input},
		{dir, "expected a folder that bench gpu --out wrote, with runs.csv.gz or, of a call that was broken off, runs.csv, or its archive (.tgz); there are runs in " + one + "\n", 600, cli.Input},
		{filepath.Join(one, bench.RawFile), "expected a folder that bench gpu --out wrote", 600, cli.Input},
		{filepath.Join(dir, "none"), "no such file", 600, cli.Input},
	} {
		if err := os.WriteFile(file, packed.Bytes()[:c.size], 0o600); err != nil {
			t.Fatal(err)
		}
		var out, log bytes.Buffer
		if code := realMain([]string{"bench", "gpu", "--read", c.path}, &out, &log); code != c.code || !strings.Contains(out.String()+log.String(), c.says) {
			t.Errorf("--read %s of %d bytes: exit code %d, %.300s%.500s, expected %q", c.path, c.size, code, out.String(), log.String(), c.says)
		}
	}
}

// The bench's figures do not depend on the ranges of a network, so it does not warn of those from noise.
func TestBenchGPUNoise(t *testing.T) {
	design, err := configs.Load("tiny")
	if err != nil {
		t.Fatal(err)
	}
	b, err := (&recipe.Recipe{Network: "tiny", Seed: 1}).Make(design)
	if err != nil {
		t.Fatal(err)
	}
	b.Meta["calibration"] = "noise"
	file := filepath.Join(t.TempDir(), "tiny.sluice")
	if info, err := recipe.Of(b); err != nil || !info.Missing || bundle.WriteFile(file, b) != nil {
		t.Fatalf("%+v, %v", info, err)
	}
	var log bytes.Buffer
	e := &cli.Env{Ctx: t.Context(), Log: slog.New(slog.NewTextHandler(&log, nil))}
	if nets, err := (&benchCUDACmd{Bundles: []string{file}}).nets(e); err != nil || len(nets) != 1 || log.Len() > 0 {
		t.Errorf("%d networks, %v: %s", len(nets), err, log.String())
	}
}

// The printed results have no figures without runs, and nothing published beside shrunk networks.
func TestBenchGPUText(t *testing.T) {
	print := func(shrink int, rows ...bench.Row) string {
		t.Helper()
		var out bytes.Buffer
		told, err := disb.Foretold("NVIDIA H200", shrink)
		if err != nil {
			t.Fatal(err)
		}
		doc := &cudaBenchDoc{Shrink: shrink, Foretold: told, Published: published(shrink), Rows: rows}
		if err := doc.print(&out); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	of := bench.Row{Part: bench.DISB, Key: "A reef rt", Unit: "of rt-only", N: 1, Median: 1.5}
	if text := print(1, of); !strings.Contains(text, " 1.032 ") || !strings.Contains(text, " 1.005") || !strings.Contains(text, "H200, DISB in runs of 10ms, seed 1") || strings.Contains(text, "shrunk") {
		t.Errorf("of their own size: %s", text)
	}
	if text := print(32, of); strings.Contains(text, " 1.005") || !strings.Contains(text, "shrunk by 32") {
		t.Errorf("shrunk: %s", text)
	}
	p99 := 1.
	for says, of := range map[bool]bench.Row{true: {N: 999}, false: {N: 1000, P99: &p99}} {
		if text := print(1, of); strings.Contains(text, "p99 from 1000") != says {
			t.Errorf("of %d runs: %s", of.N, text)
		}
	}
	none := bench.Row{Part: bench.Kills, Key: "killed stopped in", Unit: "kernel"}
	line := ""
	for x := range strings.Lines(print(1, none)) {
		if strings.Contains(x, none.Key) {
			line = x
		}
	}
	if f := strings.Fields(line); !slices.Equal(f, []string{"kills", "killed", "stopped", "in", "kernel", "0"}) {
		t.Errorf("of no runs: %q", line)
	}
	if text, err := json.Marshal(none); err != nil || strings.Contains(string(text), "median") {
		t.Errorf("of no runs: %s, %v", text, err)
	}
}

// spoiled makes stopped launches continue with wrong data: this must be reported and counted, and is a failure.
func spoiled(t *testing.T, h *fake.Handles, dir string) {
	t.Helper()
	h.Slow(1)
	h.Spoil(1)
	defer h.Slow(0)
	defer h.Spoil(0)
	packed := filepath.Join(dir, "packed.tgz")
	args := []string{"bench", "gpu", "--networks", "tiny", "--config", "tiny", "--build", dir, "--out", packed, "-n", "4", "--parts", "kills"}
	var out, log bytes.Buffer
	if code := realMain(args, &out, &log); code != cli.Check || !strings.Contains(log.String(), "show wrong results: tiny killed: ") ||
		!strings.Contains(out.String(), "kills: tiny killed: ") || !strings.Contains(out.String(), "the first at exit ") || !strings.Contains(out.String(), "kills: tiny drained: ") {
		t.Errorf("bench gpu where restores are wrong: exit code %d, %s%s", code, out.String(), log.String())
	}
	if err := os.RemoveAll(filepath.Join(dir, "packed")); err != nil { // the archive alone, as from another machine
		t.Fatal(err)
	}
	out.Reset()
	if code := realMain([]string{"bench", "gpu", "--json", "--read", packed}, &out, &log); code != cli.Check {
		t.Errorf("bench gpu --read of an archive: exit code %d, %s", code, log.String())
	}
	var docs []cudaBenchDoc
	if err := json.Unmarshal(out.Bytes(), &docs); err != nil || len(docs) != 1 {
		t.Fatalf("bench gpu --read of an archive: %v, %d documents", err, len(docs))
	}
	doc := &docs[0]
	if !slices.Contains(doc.Missing, bench.DISB) || slices.Contains(doc.Missing, bench.Kills) {
		t.Errorf("bench gpu --parts kills: it says that nothing is there of %v", doc.Missing)
	}
	if len(doc.Restores) != 4 || len(doc.Controls) != 2 || doc.Controls[0].Unseen() || doc.Controls[1].Unseen() || doc.Restores[0].Spoilt == 0 || doc.Restores[0].First == nil || doc.Restores[1].Spoilt != 0 || doc.Restores[1].Restored == 0 {
		t.Errorf("bench gpu where restores are wrong: %+v", doc.Restores)
	}
}

// reread computes the results of saved runs again: they must be equal.
func reread(t *testing.T, dir string, rows []bench.Row) {
	t.Helper()
	var out, log bytes.Buffer
	var docs []cudaBenchDoc
	code := realMain([]string{"bench", "gpu", "--read", dir, "--json"}, &out, &log)
	if err := json.Unmarshal(out.Bytes(), &docs); code != cli.OK || err != nil || len(docs) != 1 {
		t.Fatalf("bench gpu --read: exit code %d, %v, %s", code, err, log.String())
	}
	if d := docs[0]; !reflect.DeepEqual(d.Rows, rows) || d.Shrink != 32 || d.Published != nil || !slices.Contains(d.Ended, bench.DISB) || d.Label != "simulated" {
		t.Errorf("bench gpu --read: %d rows of %d, shrink %d, ended %v", len(d.Rows), len(rows), d.Shrink, d.Ended)
	}
	out.Reset()
	if code := realMain([]string{"bench", "gpu", "--json", "--read", t.TempDir(), "--read", dir}, &out, &log); code != cli.Input || json.Unmarshal(out.Bytes(), &docs) != nil || len(docs) != 1 {
		t.Errorf("bench gpu --read of a folder without runs, and of one with: exit code %d, %d documents", code, len(docs))
	}
}

// profiled measures a table, which policies then use; a table of anything else is rejected.
func profiled(t *testing.T, dir string) {
	t.Helper()
	what := []string{"--device", "cuda", "--config", "tiny", "--network", "tiny", "--build", dir}
	var out, log bytes.Buffer
	at := filepath.Join(dir, "profile")
	if code := realMain(append([]string{"profile", "--runs", "2", "--units", "1,3", "--out", at}, what...), &out, &log); code != cli.OK {
		t.Fatalf("profile: exit code %d: %s", code, log.String())
	}
	for _, want := range []string{"on 3 units", "medians of 2 runs on cuda (simulated)", "sluice run --profile reads it (not its partitions"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("profile says nothing of %q: %s", want, out.String())
		}
	}
	file := filepath.Join(at, "summary.json")
	part := filepath.Join(dir, "part")
	out.Reset()
	if code := realMain(append([]string{"profile", "--runs", "1", "--max-batch", "1", "--out", part}, what...), &out, &log); code != cli.OK ||
		!strings.Contains(out.String(), "wants all batches, without --max-batch") {
		t.Errorf("a part of a profile: exit code %d: %s%s", code, out.String(), log.String())
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var doc profileDoc
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	if doc.Law != nil || bytes.Contains(text, []byte("against_table")) {
		t.Errorf("it compares a GPU with the NPU's table: %+v", doc.Law)
	}
	if doc.Label != "simulated" || doc.Runs != 2 || len(doc.Units) != 2*len(doc.Entries) || len(doc.Entries) == 0 {
		t.Errorf("label %s, %d runs, %d entries, %d by units", doc.Label, doc.Runs, len(doc.Entries), len(doc.Units))
	}
	for i := range doc.Entries { // no machine is that slow
		doc.Entries[i].P50, doc.Entries[i].P99 = 7_000_000, 7_000_000
	}
	write := func(change func(*profileDoc)) {
		t.Helper()
		one := doc
		one.Entries = slices.Clone(doc.Entries)
		change(&one)
		text, err := json.Marshal(&one)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run := append([]string{"run", "--profile", file, "-n", "4", "--policy", "serial", "--rate", "0.5", "--slo", "20x", "--out", dir, "--json"}, what...)
	write(func(*profileDoc) {})
	out.Reset()
	log.Reset()
	if code := realMain(run, &out, &log); code != cli.OK {
		t.Fatalf("run --profile: exit code %d: %s%s", code, log.String(), out.String())
	}
	var served runDoc
	if err := json.Unmarshal(out.Bytes(), &served); err != nil {
		t.Fatal(err)
	}
	bundles, err := filepath.Glob(filepath.Join(dir, "bundles", "tiny-tiny-*.sluice"))
	if err != nil || len(bundles) != 1 {
		t.Fatal(bundles, err)
	}
	model := filepath.Join(t.TempDir(), "tiny.sluice")
	if text, err := os.ReadFile(bundles[0]); err != nil || os.WriteFile(model, text, 0o600) != nil {
		t.Fatal(err)
	}
	c := serveCmd{Models: []string{model}, Device: "cuda", Profile: []string{file}}
	_, stop := ready(t, &c)
	if err := stop(); err != nil {
		t.Error(err)
	}
	b, err := bundle.ReadFile(model)
	if err != nil {
		t.Fatal(err)
	}
	if table, err := c.profiled(t.Context(), b); err != nil || len(table) != len(doc.Entries) || table[0].P50 != 7_000_000 {
		t.Errorf("serve --profile reads %+v, %v", table, err)
	}
	for _, files := range [][]string{nil, {file}} { // the bundle's own table is the NPU's
		c := serveCmd{Device: "cuda", Profile: files}
		o, err := c.open(t.Context(), b)
		if err != nil {
			t.Fatal(err)
		}
		if o.Timely != (files != nil) {
			t.Errorf("serve with profiles %v: timely %v", files, o.Timely)
		}
		if err := o.Device.Close(); err != nil {
			t.Error(err)
		}
	}
	b.Network.Exits[0].Name += "-"
	if _, err := c.profiled(t.Context(), b); err == nil || !strings.Contains(err.Error(), "it is of bundle") {
		t.Errorf("serve --profile of another bundle: %v", err)
	}
	if served.Alone == nil || *served.Alone != 7_000_000 || served.RateMultiple == nil || served.SLO != 140_000_000 || served.Bundle != doc.Bundle || served.Profile != file {
		t.Errorf("alone %v ns, SLO %d ns, bundle %s, profile %q", served.tableDoc, served.SLO, served.Bundle, served.Profile)
	}
	run = slices.DeleteFunc(run, func(s string) bool { return s == "--json" })
	for want, change := range map[string]func(*profileDoc){
		"without --max-batch": func(d *profileDoc) {
			d.Entries = slices.DeleteFunc(d.Entries, func(x bundle.LatencyEntry) bool { return x.Batch > 2 })
		},
		`on device "soft"`:       func(d *profileDoc) { d.Entries[2].Device = "soft" },
		"its times are measured": func(d *profileDoc) { d.Label = "measured" },
		"it cannot be": func(d *profileDoc) {
			for i := range d.Entries {
				if x := &d.Entries[i]; x.First == 0 && x.Last == 1 {
					x.P50, x.P99 = 1, 1
				}
			}
		},
		"schema":                func(d *profileDoc) { d.Schema = "sluice-run/1" },
		"of bundle":             func(d *profileDoc) { d.Bundle = "another" },
		"of network":            func(d *profileDoc) { d.Entries[1].Network = "another" },
		"has no entry":          func(d *profileDoc) { d.Entries = nil },
		"p50 0 ns":              func(d *profileDoc) { d.Entries[0].P50 = 0 },
		"duplicate":             func(d *profileDoc) { d.Entries = append(d.Entries, d.Entries[0]) },
		"latency table of tiny": func(d *profileDoc) { d.Entries = d.Entries[1:] },
	} {
		write(change)
		log.Reset()
		if code := realMain(run, &out, &log); code != cli.Input || !strings.Contains(log.String(), want) || !strings.Contains(log.String(), file) {
			t.Errorf("%s: exit code %d, %s", want, code, log.String())
		}
	}
	if err := os.WriteFile(file, text[:len(text)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	log.Reset()
	if code := realMain(run, &out, &log); code != cli.Input || !strings.Contains(log.String(), "summary.json of sluice profile is expected") {
		t.Errorf("half a file: exit code %d, %s", code, log.String())
	}
	for _, command := range [][]string{append([]string{"profile", "--gpu", "7"}, what...), append(run, "--gpu", "7"), {"bench", "gpu", "--gpu", "7", "--networks", "nothing", "--out", filepath.Join(dir, "none")}} {
		log.Reset()
		write(func(*profileDoc) {})
		if code := realMain(command, &out, &log); code != cli.Device || !strings.Contains(log.String(), "GPU 7: 1 found, counted from 0 (") {
			t.Errorf("%v: exit code %d, %s", command, code, log.String())
		}
	}
	for want, args := range map[string][]string{
		"expected 1..":                                      append([]string{"profile", "--units", "99"}, what...),
		"--units is read by --device cuda, hip":             {"profile", "--units", "1", "--device", "soft", "--config", "tiny", "--network", "tiny", "--build", dir},
		"--profile is read by --device cuda, hip, soft":     {"run", "--profile", file, "--device", "cosim"},
		"--max-batch -1":                                    {"profile", "--max-batch=-1"},
		"--gpu is read by --device cuda, hip, not by soft":  {"run", "--gpu", "1", "--device", "soft"},
		"--gpu is read by --device cuda, hip, not by cosim": {"profile", "--gpu", "0"},
	} {
		log.Reset()
		if code := realMain(args, &out, &log); code != cli.Usage || !strings.Contains(log.String(), want) {
			t.Errorf("%v: exit code %d, %s", args, code, log.String())
		}
	}
}

// TestMasks serves on stream masks if requested, and says what is missing for them.
func TestMasks(t *testing.T) {
	lib, h := fake.Rig(t, fake.Build)
	nvml, err := fake.BuildNVML(fake.Dir())
	if err != nil {
		t.Fatal(err)
	}
	h.GPUs(1, 16)
	defer h.GPUs(1, 132)
	dir := t.TempDir()
	t.Setenv("SLUICE_CUDA", lib)
	t.Setenv("SLUICE_NVML", nvml)
	file := filepath.Join(dir, "offsets")
	if err := os.WriteFile(file, []byte("999.0.1: 0x1c4\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, log bytes.Buffer
	for _, c := range []struct {
		masks string
		code  int
		says  string
	}{
		{"known", cli.Device, `where driver "999.0.1" keeps them is not known`},
		{filepath.Join(dir, "none"), cli.Device, "known, or a file of offsets, is expected"},
		{file, cli.OK, "on 8 units"},
	} {
		t.Setenv("SLUICE_MASKS", c.masks)
		out.Reset()
		log.Reset()
		run := []string{"profile", "--device", "cuda", "--config", "tiny", "--network", "tiny", "--build", dir, "--out", dir, "--runs", "1", "--max-batch", "1", "--units", "8"}
		if code := realMain(run, &out, &log); code != c.code || !strings.Contains(out.String()+log.String(), c.says) {
			t.Errorf("%s: exit code %d, %s%s", c.masks, code, out.String(), log.String())
		}
		if c.code == cli.OK {
			continue
		}
		log.Reset()
		if code := realMain([]string{"bench", "gpu", "--networks", "tiny", "--config", "tiny", "--build", dir, "--out", dir}, &out, &log); code != c.code || !strings.Contains(log.String(), c.says) {
			t.Errorf("bench gpu, %s: exit code %d, %s", c.masks, code, log.String())
		}
	}
}

// TestHIP serves with the fake AMD runtime.
func TestHIP(t *testing.T) {
	lib, _ := fake.Rig(t, fake.BuildHIP)
	object, err := fake.Kernels(fake.Dir(), "gfx906", "-O0")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	var out, log bytes.Buffer
	run := []string{"run", "--device", "hip", "--config", "tiny", "--network", "tiny", "-n", "4", "--policy", "serial", "--build", dir, "--out", dir, "--rate", "20/s", "--slo", "10s"}
	t.Setenv("SLUICE_HIP", lib)
	if code := realMain(run, &out, &log); code != cli.Device || !strings.Contains(log.String(), "SLUICE_HIP_KERNELS") {
		t.Errorf("without kernels: exit code %d, %s", code, log.String())
	}
	t.Setenv("SLUICE_HIP_KERNELS", object)
	log.Reset()
	if code := realMain(run, &out, &log); code != cli.OK {
		t.Fatalf("exit code %d: %s", code, log.String())
	}
	if !strings.Contains(out.String(), "tiny on hip (tiny, simulated), clock: measured; 4 requests at 20/s, seed") || strings.Contains(out.String(), "alone takes") {
		t.Errorf("it says %s", out.String())
	}
	t.Setenv("SLUICE_HIP", filepath.Join(dir, "none.so"))
	log.Reset()
	if code := realMain(run, &out, &log); code != cli.Device || !strings.Contains(log.String(), "ROCm") {
		t.Errorf("without a runtime: exit code %d, %s", code, log.String())
	}
}

// TestBenchGPUOut: a folder with runs is left unchanged; a folder that cannot be written is rejected before the GPU
// is searched for; and if writing fails at the end, the results are printed.
func TestBenchGPUOut(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("SLUICE_CUDA", filepath.Join(dir, "none.so"))
	full, file := filepath.Join(dir, "full"), filepath.Join(dir, "file")
	if err := os.Mkdir(full, 0o700); err != nil {
		t.Fatal(err)
	}
	kept := filepath.Join(full, bench.RawFile)
	for _, name := range []string{kept, file} {
		if err := os.WriteFile(name, []byte("kept"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	fresh := filepath.Join(dir, "a", "b")
	for _, c := range []struct {
		out, want string
		code      int
	}{
		{full, "name another folder", cli.Usage},
		{file, "--out " + file, cli.Usage},
		{filepath.Join(file, "below"), "--out " + file, cli.Usage},
		{fresh, "no CUDA driver", cli.Device},
		{fresh, "no CUDA driver", cli.Device}, // without measurements nothing can be overwritten
	} {
		var out, log bytes.Buffer
		if code := realMain([]string{"bench", "gpu", "--out", c.out}, &out, &log); code != c.code || !strings.Contains(log.String(), c.want) {
			t.Errorf("--out %s: exit code %d, %s", c.out, code, log.String())
		}
	}
	if text, err := os.ReadFile(kept); err != nil || string(text) != "kept" {
		t.Errorf("runs that were there are %q, %v", text, err)
	}
	if left, err := os.ReadDir(fresh); err != nil || len(left) != 0 {
		t.Errorf("trying a folder leaves %v, %v", left, err)
	}

	lib, h := fake.Rig(t, fake.Build)
	h.Slow(1)
	defer h.Slow(0)
	t.Setenv("SLUICE_CUDA", lib)
	gone := filepath.Join(dir, "gone")
	log := &spoiler{at: "compiling tiny", do: func() {
		if err := errors.Join(os.Remove(gone), os.WriteFile(gone, nil, 0o600)); err != nil {
			t.Error(err)
		}
	}}
	var out bytes.Buffer
	args := []string{"bench", "gpu", "--networks", "tiny", "--config", "tiny", "--build", filepath.Join(dir, "build"), "--out", gone, "-n", "1", "--parts", "costs"}
	if code := realMain(args, &out, log); code == cli.OK || !strings.Contains(log.String(), "write "+filepath.Join(gone, bench.RawFile)) || !strings.Contains(out.String(), "costs") {
		t.Errorf("writing fails: exit code %d, %s%s", code, out.String(), log.String())
	}
	// Where the file of runs alone cannot be written, the journal still has them.
	half := filepath.Join(dir, "half")
	args[slices.Index(args, gone)] = half
	log = &spoiler{at: "compiling tiny", do: func() {
		if err := os.MkdirAll(filepath.Join(half, bench.RawFile, "taken"), 0o700); err != nil {
			t.Error(err)
		}
	}}
	if code := realMain(args, &out, log); code == cli.OK || !strings.Contains(log.String(), "write "+filepath.Join(half, bench.RawFile)) {
		t.Errorf("the file of runs cannot be written: exit code %d, %s", code, log.String())
	}
	text, err := os.ReadFile(filepath.Join(half, bench.JournalFile))
	if raw, e := bench.ReadJournal(bench.JournalFile, bytes.NewReader(text)); err != nil || e != nil || len(raw.Series) == 0 {
		t.Errorf("the journal has gone with it: %v, %v", err, e)
	}
}

// spoiler is a log writer that causes an event at a given message.
type spoiler struct {
	bytes.Buffer
	at string
	do func()
}

// Write implements io.Writer.
func (s *spoiler) Write(p []byte) (int, error) {
	if s.do != nil && bytes.Contains(p, []byte(s.at)) {
		s.do()
		s.do = nil
	}
	return s.Buffer.Write(p)
}

// TestBenchGPUCancelled: a cancellation takes effect before the next network is compiled.
func TestBenchGPUCancelled(t *testing.T) {
	lib, _ := fake.Rig(t, fake.Build)
	t.Setenv("SLUICE_CUDA", lib)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	log := &spoiler{at: "compiling tiny", do: stop}
	c := benchCUDACmd{Nets: []string{"tiny", "fashion"}, Config: "tiny", Build: t.TempDir(), N: 1, Shrink: 1, Out: t.TempDir()}
	e := &cli.Env{Ctx: ctx, Log: slog.New(slog.NewTextHandler(log, nil)), Stdout: io.Discard}
	if err := c.Run(e); !errors.Is(err, context.Canceled) || strings.Contains(log.String(), "fashion") {
		t.Errorf("%v: %s", err, log.String())
	}
}

// The defaults of sluice bench gpu are there; make test-verify compiles them.
func TestBenchGPUDefaults(t *testing.T) {
	e := &cli.Env{Ctx: t.Context(), Log: slog.New(slog.DiscardHandler)}
	stop := errors.New("before it is compiled")
	for _, name := range benchNets {
		if _, err := (&what{Config: benchConfig, Network: name, Build: t.TempDir()}).prepare(e, func(int) error { return stop }); !errors.Is(err, stop) {
			t.Errorf("%s for %s: %v", name, benchConfig, err)
		}
	}
}
