package main

import (
	"cmp"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-npu/sluice/boards"
	"github.com/sluice-npu/sluice/host/cli"
	"github.com/sluice-npu/sluice/hw/configs"

	"github.com/alecthomas/kong"
)

// small is a part of the space that is fast to search.
var small = []string{"--network", "tiny", "--board", "zc706", "--tp", "3..6", "--tc", "4..32"}

func TestSweepCommand(t *testing.T) {
	out := filepath.Join(t.TempDir(), "sweep.json")
	code, stdout, stderr := call(append([]string{"sweep", "--json", "--out", out}, small...)...)
	if code != cli.OK {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	doc := checkDoc(t, stdout, "seed", "label", "schema", "version", "space", "evaluated", "cpu_s", "best", "cycles_band", "pareto", "published_rank")
	best, _ := doc["best"].(map[string]any)
	for _, key := range []string{"TR", "TP", "TC", "mapping"} {
		if best[key] == nil {
			t.Errorf("best.%s is missing", key)
		}
	}
	if m, _ := best["mapping"].([]any); len(m) == 0 {
		t.Error("best.mapping is empty")
	}
	if space, evaluated := doc["space"].(float64), doc["evaluated"].(float64); space < evaluated || evaluated < 1 {
		t.Errorf("%g mappings, %g evaluated", space, evaluated)
	}
	code, text, _ := call(append([]string{"sweep", "--finalists", "1", "--weights", "1,0,0,0,0,0,0,0"}, small...)...)
	if code != cli.OK || !strings.Contains(text, "optimal in this space") || !strings.Contains(text, "estimated") || !strings.Contains(text, "by the machine:") ||
		strings.Count(text, "zc706-r512-p6-c32") != 2 {
		t.Errorf("exit code %d, %q", code, text)
	}
	for want, args := range map[string][]string{"say how many": {"--count"}, "in the repository's root": {"--finalists", "1", "--count"}} {
		if code, _, stderr := call(append(append([]string{"sweep"}, args...), small...)...); code == cli.OK || !strings.Contains(stderr, want) {
			t.Errorf("%v: exit code %d, %q", args, code, stderr)
		}
	}

	// the result is exported in the form that simulation and bitstream builds need
	dir := filepath.Join(t.TempDir(), "export")
	code, stdout, stderr = call("export", "--board", "zc706", "--sweep", out, "--name", "found", "--out", dir, "--json")
	if code != cli.OK {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	exported := checkDoc(t, stdout, "seed", "label", "schema", "version", "layers", "infeasible", "design_hash", "verilator", "resources")
	d, err := configs.Load(filepath.Join(dir, "found.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if float64(d.TR) != best["TR"] || float64(d.TP) != best["TP"] || float64(d.TC) != best["TC"] || d.Name != "found" {
		t.Errorf("exported <%d, %d, %d> %q, found %v", d.TR, d.TP, d.TC, d.Name, best)
	}
	var design configs.Design
	text2, err := json.Marshal(exported["design"])
	if err != nil || json.Unmarshal(text2, &design) != nil || design != d {
		t.Errorf("the document has another design: %s", text2)
	}
	if _, err := boards.Load(filepath.Join(dir, "found.board.yaml")); err != nil {
		t.Error(err)
	}
	spaced := filepath.Join(t.TempDir(), "my own")
	want := "sim/build.sh '" + filepath.Join(spaced, "found.yaml") + "' --stub\n"
	if code, stdout, stderr = call("export", "--board", "zc706", "--sweep", out, "--name", "found", "--out", spaced); code != cli.OK || !strings.Contains(stdout, want) {
		t.Errorf("exit code %d, expected %q: %s%s", code, want, stdout, stderr)
	}
	code, stdout, stderr = call("explain", "--network", "tiny", "--config", filepath.Join(dir, "found.yaml"), "--images", "2", "--json")
	if code != cli.OK {
		t.Errorf("explain of what was exported: exit code %d: %s%s", code, stdout, stderr)
	}
}

func TestSweepGoodput(t *testing.T) {
	args := append([]string{"sweep", "--json", "--objective", "goodput", "--rate", "2000", "--slo", "2", "--n", "60", "--tr", "64..128"}, small...)
	code, stdout, stderr := call(append(args, "--exit-rate", "0.5", "--exit-rate", "0.5")...)
	if code != cli.OK {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	doc := checkDoc(t, stdout, "best")
	if v := doc["best"].(map[string]any)["value"].(float64); !(v > 0 && v < 4000) {
		t.Errorf("%g requests in time a second of 2000", v)
	}
}

func TestPaperCommand(t *testing.T) {
	code, stdout, stderr := call("sweep", "--json", "--law", "paper", "--network", "resnet50", "--backbone", "--board", "zc706", "--bytes-per-cycle", "15.3")
	if code != cli.OK {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	doc := checkDoc(t, stdout, "space", "evaluated", "cpu_s", "best", "pareto", "published_rank")
	best := doc["best"].(map[string]any)
	if best["TR"] != 4652.0 || best["TP"] != 7.0 || best["TC"] != 128.0 {
		t.Errorf("best %v %v %v", best["TR"], best["TP"], best["TC"])
	}
	if doc["cycles_band"] != nil {
		t.Error("the paper's law has the band of ours")
	}
	if ranks, _ := doc["published_rank"].([]any); len(ranks) != 1 {
		t.Errorf("ranks at %d bandwidths", len(ranks))
	}
	code, stdout, _ = call("sweep", "--law", "paper", "--network", "tiny", "--board", "zcu104")
	if code != cli.OK || !strings.Contains(stdout, "contradicts its own design point") || !strings.Contains(stdout, "\n30 bytes/cycle: ") || !strings.Contains(stdout, "\n45 bytes/cycle: ") {
		t.Errorf("exit code %d, %q", code, stdout)
	}
}

func TestAblateCompare(t *testing.T) {
	code, stdout, stderr := call("ablate", "--json", "--network", "tiny", "--board", "zc706", "--config", "run")
	if code != cli.OK {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	if rows, _ := checkDoc(t, stdout, "rows", "label")["rows"].([]any); len(rows) != 13 {
		t.Errorf("%d rows", len(rows))
	}
	if code, stdout, _ = call("ablate", "--network", "tiny", "--board", "zc706", "--config", "run"); code != cli.OK || !strings.Contains(stdout, "Fluid+Stackable, paper law") {
		t.Errorf("exit code %d, %q", code, stdout)
	}
	code, stdout, stderr = call("compare", "--json", "--network", "tiny", "--a", "run", "--b", "mid", "--batch", "4")
	if code != cli.OK {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	layers, _ := checkDoc(t, stdout, "layers", "infeasible", "a", "b")["layers"].([]any)
	if len(layers) == 0 {
		t.Fatal("no layers")
	}
	for _, key := range []string{"name", "bound", "util", "advice", "a", "b"} {
		if l, _ := layers[0].(map[string]any); l[key] == nil {
			t.Errorf("layers[].%s is missing", key)
		}
	}
	code, stdout, _ = call("compare", "--json", "--network", "tiny", "--a", "run", "--b", "run", "--mapping-b", "basic")
	doc := checkDoc(t, stdout, "a", "b")
	if a, b := doc["a"].(map[string]any)["cycles"].(float64), doc["b"].(map[string]any)["cycles"].(float64); code != cli.OK || a > b {
		t.Errorf("all mappings take %g cycles, the plainest %g", a, b)
	}
	// a design that cannot run the network
	code, stdout, _ = call("compare", "--json", "--network", "resnet50", "--a", "zc706", "--b", "tiny")
	if why, _ := checkDoc(t, stdout)["infeasible"].([]any); code != cli.Check || len(why) != 1 || !strings.Contains(why[0].(string), "infeasible:") {
		t.Errorf("exit code %d, infeasible %v", code, why)
	}
}

// Invalid input yields the exit code of its kind and a message.
func TestSearchRefuses(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	board, err := os.ReadFile("../../../boards/zc706/board.yaml")
	if err != nil {
		t.Fatal(err)
	}
	swap := func(name, from, to string) string {
		return file(name, strings.Replace(string(board), from, to, 1))
	}
	const nan = "NaN"
	sweep := func(more ...string) []string { return append(append([]string{"sweep"}, small...), more...) }
	on := func(board string, more ...string) []string {
		return append([]string{"sweep", "--network", "tiny", "--tp", "3..6", "--tc", "4..32", "--board", board}, more...)
	}
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{sweep("--weights", "1,1,1,1,1,1,1,"+nan), cli.Usage, "bad objective weights"},
		{sweep("--weights", "1,1"), cli.Usage, "bad objective weights"},
		{sweep("--weights=-1,1,1,1,1,1,1,1"), cli.Usage, "bad objective weights"},
		{sweep("--weights", "0,0,0,0,0,0,0,0"), cli.Usage, "bad objective weights"},
		{sweep("--tp", "0..4"), cli.Usage, "bad grid"},
		{sweep("--tp", "x"), cli.Usage, "bad grid"},
		{sweep("--tr=-4..64"), cli.Usage, "bad grid"},
		{sweep("--bytes-per-cycle=-1"), cli.Usage, "--bytes-per-cycle"},
		{sweep("--bytes-per-cycle", nan), cli.Usage, "--bytes-per-cycle"},
		{sweep("--workers=-1"), cli.Usage, "workers"},
		{sweep("--margin", "1"), cli.Usage, "the margin is 1"},
		{sweep("--clock-margin", nan), cli.Usage, "--clock-margin"},
		{sweep("--max-lut=-5"), cli.Usage, "a limit of -5"},
		{sweep("--max-latency", nan), cli.Usage, "--max-latency"},
		{sweep("--max-latency", "0.001"), cli.Check, "is as fast as it must be"},
		{sweep("--max-latency", "1e-9"), cli.Check, "is as fast as it must be"},
		{sweep("--tp", "9..4"), cli.Usage, "T_P is 9..4, must be LO..HI in 2..30"},
		{sweep("--max-lut", "1000"), cli.Check, "no design fits the board"},
		{sweep("--ports", "8"), cli.Usage, "--ports"},
		{sweep("--port-bytes", "16"), cli.Usage, "--port-bytes"},
		{sweep("--clock", "0"), cli.Usage, "bad grid"},
		{sweep("--abuf", "100"), cli.Usage, "ABUF_WORDS"},
		{sweep("--w-load", "3"), cli.Check, "no design fits the board"},
		{sweep("--objective", "latency", "--exit-rate", "0.7,0.7"), cli.Usage, "not 1"},
		{sweep("--bytes-per-cycle", "8", "--bandwidth", "8,15"), cli.Usage, "--bandwidth: one of them"},
		{sweep("--clock=-150"), cli.Usage, "the axis clock has -150, must be more than 0, at most 1000"},
		{sweep("--bandwidth", "1e6"), cli.Usage, "the axis bandwidth has 1e+06, must be more than 0, at most 1024"},
		{sweep("--formed"), cli.Usage, "--formed is read by --law paper, not by rtl"},
		{sweep("--input-side", "-3"), cli.Usage, "-3"},
		{sweep("--exits", file("exits.yaml", "exits: [nowhere]\n")), cli.Input, "nowhere"},
		{[]string{"compare", "--network", "tiny", "--a", "run", "--b", "run", "--exits", file("none.yaml", "")}, cli.Input, "none is named"},
		{[]string{"report", "--network", "tiny", "--board", "zc706", "--out", dir, "--objective", "latency", "--weights", "1,1,1,1,1,1,1,1"}, cli.Usage, "--weights is read by --objective gops, gops-per-dsp"},
		{[]string{"ablate", "--network", "tiny", "--board", "kv260", "--config", "run", "--own"}, cli.Usage, "--own"},
		{sweep("--with", "nothing=1"), cli.Input, "no network"},
		{sweep("--with", "fashion=0"), cli.Usage, "share"},
		{sweep("--finalists=-1"), cli.Usage, "--finalists is -1, must be 0 or more"},
		{sweep("--ring", "512,512"), cli.Usage, "the axis ring has 512 twice"},
		{sweep("--law", "paper", "--with", "fashion=1"), cli.Usage, "--with is read by --law rtl"},
		{sweep("--objective", "rate", "--rate-step", "0"), cli.Usage, "--rate-step"},
		{sweep("--objective", "rate", "--max-violations", "1"), cli.Usage, "--max-violations"},
		{sweep("--objective", "rate", "--seeds", "1,1"), cli.Usage, "--seeds"},
		{sweep("--objective", "cheapest", "--rate", "90000", "--slo", "0.05"), cli.Check, "holds what is asked"},
		{sweep("--objective", "cheapest", "--cost", "gold"), cli.Usage, ""},
		{sweep("--objective", "fame"), cli.Usage, ""},
		{sweep("--objective", "goodput", "--rate", "0"), cli.Usage, "bad arrival process"},
		{sweep("--objective", "goodput", "--slo", nan), cli.Usage, "bad arrival process"},
		{sweep("--objective", "goodput", "--exit-rate", "0.5"), cli.Usage, "bad arrival process"},
		{sweep("--objective", "goodput", "--exit-rate", "0.5", "--exit-rate", "0.4"), cli.Usage, "not 1"},
		{sweep("--objective", "goodput", "--policy", "hope"), cli.Usage, "hope"},
		{sweep("--resume", file("state.json", "{")), cli.Input, "cannot resume"},
		{sweep("--law", "paper", "--objective", "latency"), cli.Usage, "the paper's law"},
		{on("vc707"), cli.Input, "bad board"},
		{on(swap("dsp.yaml", "dsp: 900", "dsp: 0")), cli.Input, "dsp.yaml: bad board: dsp: expected 1..20000, found 0"},
		{on(swap("fast.yaml", "[15.3, 22, 24, 28]", "[1e6]")), cli.Input, "fast.yaml: bad board: dram.bytes_per_cycle: expected more than 0, at most 64"},
		{on(swap("neg.yaml", "bram36: 545", "bram36: -5")), cli.Input, "bad board"},
		{on(swap("key.yaml", "lut: 218600\n", "")), cli.Input, `key "lut" is missing`},
		{on(swap("poor.yaml", "bram36: 545", "bram36: 2")), cli.Check, "of which the ring of 16384 beats is 30 and 0"},
		{on(swap("few.yaml", "dsp: 900", "dsp: 12")), cli.Check, "no design fits the board"},
		{[]string{"sweep", "--network", "nothing", "--board", "zc706"}, cli.Input, "no network"},
		{[]string{"export", "--board", "zc706", "--point", "1024,7", "--out", dir}, cli.Usage, `--point "1024,7": expected TR,TP,TC`},
		{[]string{"export", "--board", "zc706", "--point", "1024,0,7", "--out", dir}, cli.Usage, `--point "1024,0,7": "0" is no number in 1..65536`},
		{[]string{"export", "--point", "1024,7,128", "--out", dir}, cli.Usage, "--board says on which board"},
		{[]string{"vectors", "--config", "tiny", "--n", "0", "--out", dir}, cli.Usage, "--n is 0"},
		{[]string{"vectors", "--config", "tiny", "--points", "9", "--out", dir}, cli.Usage, "--points has 9"},
		{[]string{"export", "--sweep", "any", "--template", "run", "--out", dir}, cli.Usage, "--template, --bytes-per-cycle and --margin go with --point"},
		{[]string{"sweep", "--network", "resnet50", "--board", "pynq-z2", "--tr", "64..64", "--tp", "4..4", "--tc", "24..24"}, cli.Check, `<64, 4, 24>: layer "/trunk.0/stem/stem.0/Conv": layer does not fit the design: one output row: a tile of 1 x 1 x 112 takes 112 accumulator rows (k = 1), T_R = 64`},
		{[]string{"export", "--board", "zc706", "--point", "4652,7,128", "--out", dir}, cli.Check, "infeasible:"},
		{[]string{"export", "--board", "zc706", "--point", "1024,7,128", "--margin", "0.2", "--out", dir}, cli.Check, "infeasible:"},
		{[]string{"export", "--board", "zc706", "--point", "1024,7,128", "--margin", "1", "--out", dir}, cli.Usage, "the margin is 1"},
		{[]string{"export", "--board", "zc706", "--point", "65536,16,512", "--out", dir}, cli.Check, "infeasible:"},
		{[]string{"export", "--board", "zc706", "--sweep", file("half.json", `{"schema":"sluice-dse-state/1","complete":false}`), "--out", dir}, cli.Input, "no finished sweep"},
		{[]string{"export", "--board", "zc706", "--point", "1024,7,128", "--name", "zc706", "--out", dir}, cli.Usage, "--name zc706 is a configuration of hw/configs"},
		{[]string{"export", "--board", "zc706", "--point", "64,4,8", "--name", "Q!", "--out", dir}, cli.Usage, "--name: "},
		{[]string{"export", "--board", "zc706", "--out", dir}, cli.Usage, ""},
		{[]string{"compare", "--network", "tiny", "--a", "run", "--b", "nothing"}, cli.Input, "nothing"},
		{[]string{"compare", "--network", "tiny", "--a", "run", "--b", "run", "--batch", "9"}, cli.Usage, "--batch"},
		{[]string{"ablate", "--network", "tiny", "--board", "zc706", "--bytes-per-cycle", "-2"}, cli.Usage, "--bytes-per-cycle"},
	} {
		code, out, errs := call(c.args...)
		if code != c.code || !strings.Contains(errs, c.says) {
			t.Errorf("dse %s: exit code %d, want %d; it says %s%s", strings.Join(c.args, " "), code, c.code, errs, out)
		}
	}
}

// Any flag that the objective ignores is rejected, and the message names the objectives that use it.
func TestFlagsThatNothingReads(t *testing.T) {
	c := commands{}
	k, err := kong.New(&c, kong.Vars{"boards": ""})
	if err != nil {
		t.Fatal(err)
	}
	objectives := []string{"gops", "latency", "throughput", "gops-per-dsp", "goodput", "rate", "cheapest"}
	refused := 0
	for _, cmd := range k.Model.Children {
		if cmd.Name != "sweep" {
			continue
		}
		for _, f := range cmd.Flags {
			readers := f.Tag.Get("objective")
			if readers == "" {
				continue
			}
			for _, r := range strings.Split(readers, ",") {
				if kind, _, _ := strings.Cut(r, " by "); !slices.Contains(objectives, kind) {
					t.Errorf("--%s is read by %q, which is no objective", f.Name, r)
				}
			}
			given := []string{"--" + f.Name}
			if !f.IsBool() {
				given = append(given, cmp.Or(f.Default, "1,1,1,1,1,1,1,1"))
			}
			for _, o := range objectives {
				if slices.ContainsFunc(strings.Split(readers, ","), func(r string) bool { return r == o }) {
					continue
				}
				refused++
				code, _, stderr := call(slices.Concat([]string{"sweep", "--objective", o}, given, small)...)
				if code != cli.Usage || !strings.Contains(stderr, "--"+f.Name+" is read by --objective "+strings.ReplaceAll(readers, ",", ", ")) {
					t.Errorf("--objective %s --%s: exit code %d: %s", o, f.Name, code, stderr)
				}
			}
		}
	}
	if refused < 30 {
		t.Errorf("%d pairs only", refused)
	}
}

// 64 shards of a space, on a user's own board, yield the result of a single process, except for the number of skipped
// designs.
func TestShardsOfSweep(t *testing.T) {
	dir := t.TempDir()
	board, shards := filepath.Join(dir, "my.yaml"), filepath.Join(dir, "shards")
	text, err := os.ReadFile("../../../boards/zc706/board.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(board, text, 0o600); err != nil {
		t.Fatal(err)
	}
	ask := []string{"sweep", "--network", "tiny", "--board", board, "--tp", "4..7", "--tc", "16..40", "--tr", "64..128", "--max-dsp=500"}
	read := func(args ...string) map[string]any {
		code, stdout, stderr := call(args...)
		var doc map[string]any
		if err := json.Unmarshal([]byte(stdout), &doc); code != cli.OK || err != nil {
			t.Fatalf("exit code %d, %v: %s", code, err, stderr)
		}
		if doc["evaluated"].(float64) == 0 || doc["grid"].(map[string]any)["searched"].(float64) == 0 {
			t.Errorf("%v: %v", doc["evaluated"], doc["grid"])
		}
		for _, of := range []string{"evaluated", "cpu_s", "evaluations_per_s"} {
			delete(doc, of)
		}
		delete(doc["grid"].(map[string]any), "searched")
		return doc
	}
	want := read(append(ask, "--json")...)
	for _, some := range []string{"40-64/64", "1-39/64"} {
		if code, stdout, stderr := call(append(ask, "--shard", some, "--resume", shards)...); code != cli.OK || stdout != "" {
			t.Fatalf("exit code %d: %s%s", code, stdout, stderr)
		}
	}
	if got := read("merge", shards, "--json"); !reflect.DeepEqual(got, want) {
		t.Errorf("%v\nof one process:\n%v", got, want)
	}
	if err := os.WriteFile(board, append(text, "# another\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := call(append(ask, "--shard", "1/64", "--resume", shards)...); code != cli.Input || !strings.Contains(stderr, "results of another question: it has --board=input:") {
		t.Errorf("another board: exit code %d: %s", code, stderr)
	}
}

// Layers, or segments, timed by two processes equal those of one process byte for byte.
func TestShardsOfValidate(t *testing.T) {
	for _, more := range [][]string{{"--n", "8"}, {"--starts", "--random", "18"}} {
		dir := t.TempDir()
		one, merged, shards := filepath.Join(dir, "one.json"), filepath.Join(dir, "merged.json"), filepath.Join(dir, "shards")
		ask := append([]string{"validate", "--full", "--config", "run", "--network", "tiny", "--bandwidth", "8", "--batch", "3"}, more...)
		ask = slices.Clip(ask)
		for _, args := range [][]string{
			append(ask, "--out", one), append(ask, "--shard", "2/2", "--resume", shards), append(ask, "--shard", "1/2", "--resume", shards), {"merge", shards, "--out", merged},
		} {
			if code, _, stderr := call(args...); code != cli.OK {
				t.Fatalf("%v: exit code %d: %s", args, code, stderr)
			}
		}
		want, err := os.ReadFile(one)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(merged); err != nil || string(got) != string(want) {
			t.Errorf("%v: %v: %s\nof one process:\n%s", more, err, got, want)
		}
	}
}

// A board's reference design has a rank among designs at its own memory and clock, and none where the space lacks these.
func TestReferenceOfTheSpace(t *testing.T) {
	for axis, want := range map[string]bool{"--bandwidth=15.3": true, "--bandwidth=4,15.3": true, "--bandwidth=4": false, "--clock=100": false} {
		code, stdout, stderr := call("sweep", "--network", "tiny", "--board", "zc706", "--tr", "1024", "--tp", "7..7", "--tc", "128..128", axis)
		if got := strings.Contains(stdout, "zc706 <1024, 7, 128>: rank "); code != cli.OK || got != want {
			t.Errorf("%s: code %d, a rank of the reference %v, expected %v\n%s%s", axis, code, got, want, stdout, stderr)
		}
	}
}
