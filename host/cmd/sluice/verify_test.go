package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/sluice-npu/sluice/dse/recipe/recipetest"
	"github.com/sluice-npu/sluice/host/cli"
	"github.com/sluice-npu/sluice/host/npu"
	"github.com/sluice-npu/sluice/host/shard"
	"github.com/sluice-npu/sluice/hw/configs"
)

func TestServedConfiguration(t *testing.T) {
	for list, want := range map[string]string{"tiny": "tiny", "v5,run": "run", "v5,v7": ""} {
		designs, err := loadDesigns(list)
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := served(designs); got != want || ok != (want != "") {
			t.Errorf("%s: %q, %v; want %q", list, got, ok, want)
		}
	}
	small, err := configs.Load("tiny")
	if err != nil {
		t.Fatal(err)
	}
	small = small.Typed("int8")
	text, err := yaml.Marshal(small)
	if err != nil {
		t.Fatal(err)
	}
	eight := filepath.Join(t.TempDir(), "tiny-int8.yaml")
	if err := os.WriteFile(eight, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := loadDesigns("tiny," + eight); err == nil || !strings.Contains(err.Error(), "TP: expected 4..30, found 3") {
		t.Errorf("a design of int8 that its RTL is too narrow for: %v", err)
	}
	for _, list := range []string{"", "tiny,", "tiny,nonsense", "tiny,tiny"} {
		if _, err := loadDesigns(list); err == nil {
			t.Errorf("%q is accepted", list)
		}
	}
}

// Doctor asks the simulator that it finds: one of another design is rejected.
func TestDoctorAsksTheSimulator(t *testing.T) {
	path, err := npu.FindCosim("tiny")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("SLUICE_COSIM", path)
	for config, want := range map[string]string{"tiny": "ok       simulator      " + path, "v5": "build it anew with sim/build.sh v5"} {
		var out, log bytes.Buffer
		realMain([]string{"doctor", "--config", config}, &out, &log)
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s: expected %q in\n%s%s", config, want, out.String(), log.String())
		}
	}
}

// --checked accepts a configuration by its name and as in --config; the error about a missing build names the file of
// --config.
func TestConfigurationByFile(t *testing.T) {
	text, err := os.ReadFile("../../../hw/configs/tiny.yaml")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name, old, new string) string {
		file := filepath.Join(dir, name+".yaml")
		if err := os.WriteFile(file, []byte(strings.NewReplacer("name: tiny", "name: "+name, old, new).Replace(string(text))), 0o644); err != nil {
			t.Fatal(err)
		}
		return file
	}
	mine, twin := write("mine9", "n_axi: 1", "n_axi: 2"), write("tiny", "n_axi: 1", "n_axi: 2")
	config := "v5, " + mine
	designs, err := loadDesigns(config)
	if err != nil {
		t.Fatal(err)
	}
	for list, want := range map[string]int{"": 0, "mine9": 1, mine: 1, "v5, " + mine: 2, "v5": 1, "mine": -1, "v5,": -1, "tiny": -1} {
		got, err := checkedOf(list, config, designs)
		if (err != nil) != (want < 0) || err == nil && (len(got) != want || got["mine9"] != strings.Contains(list, "mine9")) {
			t.Errorf("--checked %q: %v, %v", list, got, err)
		}
	}
	t.Setenv("SLUICE_COSIM", "")
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"faults", "--config", mine, "--checked", mine}, cli.Tool, "build it with SLUICE_CHECK=1 sim/build.sh " + mine + " ("},
		{[]string{"faults", "--config", twin, "--checked", "tiny"}, cli.Input, "name: expected one of its own"},
	} {
		var out, log bytes.Buffer
		if code := realMain(append(c.args, "--n", "1", "--out", t.TempDir()), &out, &log); code != c.code || !strings.Contains(log.String(), c.want) {
			t.Errorf("%v: exit code %d, expected %d and %q in\n%s", c.args, code, c.code, c.want, &log)
		}
	}
}

// Verify looks for Python before it computes anything.
func TestVerifyLooksForPythonFirst(t *testing.T) {
	var out, log bytes.Buffer
	args := []string{"verify", "--device", "soft", "--config", "tiny", "--network", "tiny", "--python", "nowhere", "--build", t.TempDir(), "--out", t.TempDir()}
	if code := realMain(args, &out, &log); code != cli.Tool || !strings.Contains(log.String(), "make setup") || strings.Contains(log.String(), "reference") {
		t.Errorf("exit code %d: %s", code, log.String())
	}
}

// Options with which no check would run are rejected.
func TestVerifyOfNothing(t *testing.T) {
	none := []string{"--n", "0", "--images", "0", "--oracle", "0", "--orders", "0"}
	for _, c := range []struct {
		args []string
		want string
	}{
		{none, "are all 0"},
		{append([]string{"--device", "soft", "--faults", "9"}, none...), "need --device cosim"},
		{append([]string{"--device", "hls", "--stub", "9"}, none...), "need --device cosim"},
		{[]string{"--device", "soft", "--config", "tiny,mid", "--n", "0"}, "nothing would be checked"},
		{[]string{"--config", "tiny,mid", "--n", "0", "--oracle", "0"}, "nothing would be checked"},
	} {
		var out, log bytes.Buffer
		args := append([]string{"verify", "--config", "tiny", "--out", t.TempDir()}, c.args...)
		if code := realMain(args, &out, &log); code != cli.Usage || !strings.Contains(log.String(), c.want) {
			t.Errorf("%v: exit code %d, expected %d and %q in\n%s", args, code, cli.Usage, c.want, &log)
		}
	}
}

// On a device that cannot fail no error code can be covered, and the message says so.
func TestRequireCoverage(t *testing.T) {
	var out, log bytes.Buffer
	args := []string{"verify", "--device", "soft", "--config", "tiny,v5", "-n", "30", "--seed", "5", "--out", t.TempDir()}
	if code := realMain(args, &out, &log); code != cli.OK {
		t.Fatalf("exit code %d: %s", code, log.String())
	}
	if !strings.Contains(out.String(), "0 mismatches, seed 5") {
		t.Errorf("%s", out.String())
	}
	if code := realMain(append(args, "--require-coverage"), &out, &log); code != cli.Check || !strings.Contains(log.String(), "not covered: ") ||
		!strings.Contains(log.String(), "error/WATCHDOG") {
		t.Errorf("exit code %d, want %d: %s", code, cli.Check, log.String())
	}
}

func TestSegmentsOnSoft(t *testing.T) {
	var out, log bytes.Buffer
	args := []string{"verify", "--device", "soft", "--config", "mid", "--network", "mobilenetv2", "--segments", "1", "--input", "32", "--out", t.TempDir()}
	if code := realMain(args, &out, &log); code != cli.OK || !strings.Contains(out.String(), "segment 0 = golden") {
		t.Fatalf("exit code %d: %s%s", code, out.String(), log.String())
	}
	// only the first segments, on an input that is too small for later ones
	out.Reset()
	args[6], args[10] = "inceptionv3", "64"
	if code := realMain(args, &out, &log); code != cli.OK || !strings.Contains(out.String(), "segment 0 = golden") {
		t.Fatalf("%v: exit code %d: %s%s", args, code, out.String(), log.String())
	}
	// another network: its exits by their names, its input side by the general flag
	dir := t.TempDir()
	if err := recipetest.Home(dir); err != nil {
		t.Fatal(err)
	}
	exits := filepath.Join(dir, "exits.yaml")
	if err := os.WriteFile(exits, []byte("exits: [late]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out.Reset()
	own := []string{"verify", "--device", "soft", "--config", "tiny", "--network", filepath.Join(dir, "own.onnx"), "--segments=-1", "--exits", exits, "--input-side", "16", "--out", dir}
	if code := realMain(own, &out, &log); code != cli.OK || !strings.Contains(out.String(), "segment 0 = golden") || strings.Contains(out.String(), "segment 1") {
		t.Errorf("exit code %d: %s%s", code, out.String(), log.String())
	}
	for want, bad := range map[int][]string{
		cli.Usage: {"verify", "--input", "32"},
		cli.Input: {"verify", "--config", "mid", "--network", "mobilenetv2", "--segments", "9"},
	} {
		if code := realMain(bad, &out, &log); code != want {
			t.Errorf("%v: exit code %d, want %d", bad, code, want)
		}
	}
	if !strings.Contains(log.String(), "--segments 9: mobilenetv2 has ") {
		t.Errorf("%s", log.String())
	}
	log.Reset()
	if code := realMain([]string{"verify", "--config", "mid", "--network", "mobilenetv2", "--segments", "99", "--input", "8"}, &out, &log); code != cli.Input || !strings.Contains(log.String(), "--segments 99: ") {
		t.Errorf("exit code %d: %s", code, log.String())
	}
	for _, flag := range []string{"--checked=tiny", "--stub=1", "--faults=1", "--require-coverage"} {
		log.Reset()
		if code := realMain([]string{"verify", "--device", "soft", "--config", "tiny", "--segments", "1", flag}, &out, &log); code != cli.Usage || !strings.Contains(log.String(), "do not go with --segments") {
			t.Errorf("%s: exit code %d: %s", flag, code, log.String())
		}
	}
	// an oracle without labels is rejected, since alone it checks nothing
	log.Reset()
	if code := realMain([]string{
		"verify", "--device", "soft", "--config", "tiny", "--network", filepath.Join(dir, "own.onnx"), "--exits", exits,
		"--input-side", "16", "--noise", "--n", "0", "--images", "0", "--orders", "0", "--oracle", "4", "--build", dir, "--out", dir,
	}, &out, &log); code != cli.Input ||
		!strings.Contains(log.String(), "no labelled images") {
		t.Errorf("exit code %d: %s", code, log.String())
	}
}

func TestFaultsCommand(t *testing.T) {
	var out, log bytes.Buffer
	dir := t.TempDir()
	if code := realMain([]string{"faults", "--config", "tiny", "--n", "3", "--kind", "batch", "--seed", "8", "--out", dir}, &out, &log); code != cli.OK {
		t.Fatalf("exit code %d: %s", code, log.String())
	}
	if !strings.Contains(out.String(), "BATCH_RANGE 3") || !strings.Contains(out.String(), "0 violations, seed 8") {
		t.Errorf("%s", out.String())
	}
	for _, args := range [][]string{{"--n", "0"}, {"--kind", "nonsense"}, {"--config", "tiny,tiny"}} {
		if code := realMain(append([]string{"faults", "--out", dir}, args...), &out, &log); code != cli.Usage {
			t.Errorf("%v: exit code %d, want %d", args, code, cli.Usage)
		}
	}
	if !strings.Contains(log.String(), "there are: ") || !strings.Contains(log.String(), "batch range") {
		t.Errorf("no kinds to choose from: %s", log.String())
	}
}

// 64 shards of random layers, run in any order, yield the document of one process, byte for byte. merge refuses flags
// of another question.
func TestShardsOfVerify(t *testing.T) {
	dir, shards := t.TempDir(), filepath.Join(t.TempDir(), "shards")
	call := func(args ...string) (int, string) {
		var out, log bytes.Buffer
		code := realMain(args, &out, &log)
		return code, log.String()
	}
	ask := []string{"verify", "--device", "soft", "--config", "tiny,v5", "--network=tiny", "--images", "0", "--oracle", "0", "--orders", "0", "-n", "1024", "--seed", "3"}
	one, merged := filepath.Join(dir, "one"), filepath.Join(dir, "merged")
	for _, args := range [][]string{{"--out", one}, {"--shard", "33-64/64", "--resume", shards}, {"--shard", "2-32/64", "--resume", shards}} {
		if code, log := call(append(ask, args...)...); code != cli.OK {
			t.Fatalf("%v: exit code %d: %s", args, code, log)
		}
	}
	if code, log := call("merge", shards, "--out", merged); code != cli.Input || !strings.Contains(log, "missing results: of 64 shards 1") {
		t.Errorf("without shard 1: exit code %d: %s", code, log)
	}
	if code, log := call(append(ask, "--shard", "1/64", "--resume", shards)...); code != cli.OK {
		t.Fatalf("exit code %d: %s", code, log)
	}
	if code, log := call(append(ask, "--theta", "0.5", "--shard", "1/64", "--resume", shards)...); code != cli.Input || !strings.Contains(log, "it lacks --theta=0.5") {
		t.Errorf("another question in the folder: exit code %d: %s", code, log)
	}
	if code, log := call("merge", shards, "--out", merged); code != cli.OK {
		t.Fatalf("exit code %d: %s", code, log)
	}
	var texts [2][]byte
	for i, dir := range []string{one, merged} {
		var err error
		if texts[i], err = os.ReadFile(filepath.Join(dir, "summary.json")); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(texts[0], texts[1]) {
		t.Errorf("merged:\n%s\nof one process:\n%s", texts[1], texts[0])
	}
}

// The random layers run through the driver alone, as on a board; here on the Verilated NPU. Merge shows the figures of
// these layers beside the simulator's.
func TestVerifyOnBoard(t *testing.T) {
	dir := t.TempDir()
	board, simulator := filepath.Join(dir, "board"), filepath.Join(dir, "simulator")
	call := func(args ...string) (int, string, string) {
		var out, log bytes.Buffer
		code := realMain(args, &out, &log)
		return code, out.String(), log.String()
	}
	ask := []string{"verify", "--config", "tiny", "--images", "0", "--oracle", "0", "--orders", "0", "-n", "32", "--out", filepath.Join(dir, "out")}
	uio := append(slices.Clip(ask), "--device", "uio", "--label", "simulated", "--clock-mhz", "150")
	if code, _, log := call(append(ask, "--device", "cosim", "--shard", "1-2/2", "--resume", simulator)...); code != cli.OK {
		t.Fatalf("exit code %d: %s", code, log)
	}
	if code, _, log := call(append(uio, "--shard", "0/2", "--resume", board)...); code != cli.OK {
		t.Fatalf("exit code %d: %s", code, log)
	}
	q, err := shard.Asked(board)
	if err != nil {
		t.Fatal(err)
	}
	run, _, err := shard.Begin(board, *q, shard.Range{First: 1, Last: 2, N: 2})
	if err != nil {
		t.Fatal(err)
	}
	designs, err := loadDesigns("tiny,v5")
	if err != nil {
		t.Fatal(err)
	}
	c := &verifyCmd{Device: "uio", N: 32, finds: func(ctx context.Context, slots int) (*npu.Driver, error) {
		bus, err := openBus(ctx, designs[0], "tiny", "tiny", npu.CosimOpts{})
		if err != nil {
			return nil, err
		}
		return openDriver(bus, "cosim", designs[0], slots)
	}}
	c.Seed = 1
	e := &cli.Env{Ctx: t.Context(), Stderr: io.Discard}
	if _, _, err := c.bench(e, designs[1], nil); err == nil || cli.CodeOf(err) != cli.Input || !strings.Contains(err.Error(), "the board has the design") {
		t.Errorf("a board with another design: %v", err)
	}
	doc := &verifyDoc{}
	doc.Coverage.Bins = c.table(designs[:1], nil)
	if err := c.layers(e, run, designs[:1], nil, doc); err != nil {
		t.Fatal(err)
	}
	if _, err := run.Finish(); err != nil {
		t.Fatal(err)
	}
	code, text, log := call("merge", simulator, "--beside", board, "--json")
	var both struct {
		Figures []struct {
			Name   string
			Values [2]any
			Equal  bool
		}
	}
	if err := json.Unmarshal([]byte(text), &both); code != cli.OK || err != nil {
		t.Fatalf("exit code %d, %v: %s", code, err, log)
	}
	seen := map[string]int{}
	for i, f := range both.Figures {
		seen[f.Name] = i + 1
	}
	for name, want := range map[string][2]any{
		"asked --device": {"cosim", "uio"}, "/device": {"cosim", "uio"}, "/mismatches": {0.0, 0.0}, "/layers": {float64(doc.Layers), float64(doc.Layers)},
		"/coverage/layers/bytes_compared": {float64(doc.Coverage.Layers.Bytes), float64(doc.Coverage.Layers.Bytes)},
	} {
		if i := seen[name]; i == 0 || both.Figures[i-1].Values != want || both.Figures[i-1].Equal != (want[0] == want[1]) {
			t.Errorf("%s: expected %v in %s", name, want, text)
		}
	}
	if i := seen["/coverage/layer_cycles"]; i == 0 || both.Figures[i-1].Values[0] == 0.0 || both.Figures[i-1].Values[1] != float64(doc.Coverage.Cycles) || doc.Coverage.Cycles == 0 {
		t.Errorf("cycles: %d in %s", doc.Coverage.Cycles, text)
	}
	if code, text, log := call("merge", simulator, "--beside", board); code != cli.OK || !strings.Contains(text, "uio") || !strings.Contains(text, "differ") || !strings.Contains(text, "/mismatches") {
		t.Errorf("exit code %d: %s%s", code, text, log)
	}
	for _, bad := range [][]string{
		append(ask, "--label", "measured"), append(ask, "--device", "uio"), append(uio, "--images", "1"), append(uio, "--segments", "1"), append(uio, "--config", "tiny,v5"),
		{"merge", simulator, "--beside", board, "--out", dir},
	} {
		if code, _, log := call(bad...); code != cli.Usage {
			t.Errorf("%v: exit code %d: %s", bad, code, log)
		}
	}
}
