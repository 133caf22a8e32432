package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/dse/mapping"
	"github.com/sluice-npu/sluice/dse/onnx/onnxpb"
	"github.com/sluice-npu/sluice/dse/recipe/recipetest"
	"github.com/sluice-npu/sluice/host/cli"
	"github.com/sluice-npu/sluice/hw/configs"

	"google.golang.org/protobuf/proto"
)

func call(args ...string) (code int, stdout, stderr string) {
	var out, err bytes.Buffer
	code = run(args, &out, &err)
	return code, out.String(), err.String()
}

func TestExitCodes(t *testing.T) {
	t.Setenv("SLUICE_COSIM", "nowhere")
	small := filepath.Join(t.TempDir(), "small.yaml")
	text, err := os.ReadFile("../../../hw/configs/tiny.yaml")
	if err != nil {
		t.Fatal(err)
	}
	// Half the activation buffer holds 128 elements: an input row with its neighbours does not fit.
	text = bytes.Replace(text, []byte("abuf_words: 256"), []byte("abuf_words: 16"), 1)
	if err := os.WriteFile(small, text, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want int
	}{
		{[]string{"--help"}, cli.OK},
		{[]string{"compile", "--help"}, cli.OK},
		{[]string{}, cli.OK},
		{[]string{"sweep"}, cli.Usage},
		{[]string{"compile", "--network", "tiny"}, cli.Usage},
		{[]string{"explain", "--network", "nothing", "--config", "run"}, cli.Input},
		{[]string{"explain", "--network", "tiny", "--config", "run", "--images", "2", "--trace"}, cli.Usage},
		{[]string{"explain", "--network", "tiny", "--config", "run", "--images", "2", "--trace", "--layer", "none"}, cli.Usage},
		{[]string{"explain", "--network", "tiny", "--config", "run", "--trace", "--layer", "none", "--json"}, cli.Usage},
		{[]string{"explain", "--network", "tiny", "--config", "run", "--alone"}, cli.Usage},
		{[]string{"explain", "--network", "tiny", "--config", "run", "--trace", "--layer", "none", "--out", small}, cli.Usage},
		{[]string{"explain", "--network", "missing.onnx", "--config", "run"}, cli.Input},
		{[]string{"explain", "--network", "tiny", "--config", "nothing"}, cli.Input},
		{[]string{"explain", "--network", "tiny", "--config", "run", "--batch", "9"}, cli.Usage},
		{[]string{"explain", "--network", "tiny", "--config", "run", "--data", "/nonexistent"}, cli.Tool},
		{[]string{"explain", "--network", "tiny", "--config", small}, cli.Check},
		{[]string{"compile", "--network", "tiny", "--config", "run", "--labels", "folders", "--out", small}, cli.Usage},
		{[]string{"compile", "--network", "tiny", "--config", "run", "--calibrate", t.TempDir(), "--out", small}, cli.Input},
		{[]string{"compile", "--network", "tiny", "--config", "run", "--type", "int4", "--out", small}, cli.Usage},
		{[]string{"evaluate", "--network", "tiny", "--config", "run"}, cli.Usage},
		{[]string{"evaluate", "--network", "tiny", "--config", "run", "--evaluate", small, "--mix", "1"}, cli.Usage},
		{[]string{"evaluate", "--network", "tiny", "--config", "run", "--evaluate", small, "--type", "int8", "--mix", "101"}, cli.Usage},
		{[]string{"evaluate", "--network", "tiny", "--config", "run", "--images", "2", "--evaluate", t.TempDir()}, cli.Input},
		{[]string{"bench-npu", "--law", "--full"}, cli.Usage},
		{[]string{"bench-npu", "--law", "--machine"}, cli.Usage},
		{[]string{"bench-npu", "--machine", "--full"}, cli.Usage},
		{[]string{"bench-npu", "--law", "--clock", "-1"}, cli.Usage},
		{[]string{"bench-npu", "--law", "--clock", "NaN"}, cli.Usage},
		{[]string{"bench-npu", "--law", "--clock", "0"}, cli.Usage},
		{[]string{"bench-npu", "--law", "--network", "tiny", "--bandwidth", "8,NaN"}, cli.Usage},
		{[]string{"bench-npu", "--network", "tiny", "--config", "run", "--batch", "1"}, cli.Tool}, // as below
		{[]string{"validate", "--config", "run", "--share", "NaN"}, cli.Usage},
		{[]string{"sweep", "--network", "tiny", "--board", "zc706", "--finalists", "1", "--count", "--mapping", "basic"}, cli.Usage},
		{[]string{"validate", "--network", "tiny", "--config", "v5", "--n", "1"}, cli.Tool}, // SLUICE_COSIM names no file
	} {
		if code, out, err := call(c.args...); code != c.want {
			t.Errorf("dse %s: exit code %d, want %d\n%s%s", strings.Join(c.args, " "), code, c.want, out, err)
		}
	}
}

func TestCompile(t *testing.T) {
	out := filepath.Join(t.TempDir(), "tiny.sluice")
	code, stdout, stderr := call("compile", "--network", "tiny", "--config", "run", "--out", out, "--json", "--images", "8")
	if code != cli.OK {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	b, err := bundle.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	if b.Network.Name != "tiny" || b.Design.Name != "run" || len(b.Network.Exits) != 2 {
		t.Errorf("network %q on %q with %d exits", b.Network.Name, b.Design.Name, len(b.Network.Exits))
	}
	doc := checkDoc(t, stdout, "seed", "label", "schema", "version", "abi_hash", "bundle_hash", "exits", "layers")
	s, err := b.Summarize()
	if err != nil || doc["bundle_hash"] != s.BundleHash {
		t.Errorf("bundle_hash is %v, the bundle's %s (%v)", doc["bundle_hash"], s.BundleHash, err)
	}
	if file, err := os.ReadFile(out + ".json"); err != nil || string(file) != stdout {
		t.Errorf("the figures in the file differ from those printed (%v)", err)
	}
}

// An int8 bundle is for the int8 configuration. It is evaluated in int16 too, and its exits are compared with the
// network's.
func TestCompileInt8(t *testing.T) {
	dir := t.TempDir()
	out, images := filepath.Join(dir, "tiny.sluice"), filepath.Join(dir, "images")
	if err := os.Mkdir(images, 0o755); err != nil {
		t.Fatal(err)
	}
	m := image.NewGray(image.Rect(0, 0, 28, 28))
	for i := range m.Pix {
		m.Pix[i] = byte(7 * i)
	}
	var file bytes.Buffer
	if err := png.Encode(&file, m); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(images, "a.png"), file.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := call("compile", "--network", "tiny", "--config", "run", "--type", "int8", "--out", out, "--images", "8", "--evaluate", images, "--onnxruntime", "no")
	if code != cli.OK {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	b, err := bundle.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	if b.Design.Name != "run-int8" || !b.Design.Int8() || b.Network.Type() != "int8" {
		t.Errorf("a bundle of %s on %q", b.Network.Type(), b.Design.Name)
	}
	for _, want := range []string{"on run-int8 <256, 8, 32>", " int8 ", " int16 ", "int8: 100.0 % of the MACs"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("%q is missing in\n%s", want, stdout)
		}
	}
	// the same design as a configuration: commands that the law supports work, and unbuilt parts are rejected
	text, err := os.ReadFile("../../../hw/configs/run.yaml")
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(dir, "run8.yaml")
	if err := os.WriteFile(config, []byte(strings.Replace(string(text), "name: run\n", "name: run8\ntype: int8\n", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, stdout, stderr := call("evaluate", "--network", "tiny", "--config", config, "--images", "8", "--evaluate", images, "--onnxruntime", "no"); code != cli.OK || !strings.Contains(stdout, " int8 ") {
		t.Errorf("exit code %d, expected rows of int8: %s%s", code, stdout, stderr)
	}
	long := filepath.Join("..", "..", "..", "hw", "configs", "int8", "v30-int8.yaml") // a chain longer than any in int16
	if code, stdout, stderr := call("compile", "--network", "tiny", "--config", long, "--out", out, "--images", "8", "--evaluate", images, "--onnxruntime", "no"); code != cli.OK || !strings.Contains(stdout, " int16 ") {
		t.Errorf("exit code %d, expected rows of int16: %s%s", code, stdout, stderr)
	}
	point := filepath.Join(dir, "point")
	for _, c := range []struct {
		want string
		args []string
	}{
		{"int8: 100.0 % of the MACs", []string{"explain", "--network", "tiny", "--config", config}},
		{"not counted on this design at this memory", []string{"explain", "--network", "tiny", "--config", config}},
		{"cycles: its ", []string{"compare", "--network", "tiny", "--a", "run-int8", "--b", "run"}},
		{"<512, 16, 8> of int8", []string{"sweep", "--network", "tiny", "--board", "zc706", "--type", "int8,int16", "--tp", "15..17", "--tc", "8", "--tr", "512"}},
		{"other runs (whole NPUs: 1; small designs are farther off), none of them of int8, whose LUT and FF have no band", []string{"sweep", "--network", "tiny", "--board", "zc706", "--type", "int8,int16", "--tp", "15..17", "--tc", "8", "--tr", "512"}},
		{"sim/build.sh " + point, []string{"export", "--board", "zc706", "--point", "256,8,32", "--template", config, "--out", point}},
		{"run8", []string{"bench-npu", "--network", "tiny", "--law", "--config", config}},
	} {
		code, stdout, stderr := call(c.args...)
		if code != cli.OK || !strings.Contains(stdout, c.want) || strings.Contains(stdout, "synth.sh") {
			t.Errorf("dse %s: exit code %d, expected %q: %s%s", c.args[0], code, c.want, stdout, stderr)
		}
	}
	for _, c := range []struct {
		want string
		args []string
	}{
		{"tiny-int8: TP: expected 4..30, found 3", []string{"explain", "--network", "tiny", "--config", "tiny-int8"}},
		{"tiny-int8: TP: expected 4..30, found 3", []string{"validate", "--config", "tiny-int8", "--starts"}},
		{"tiny-int8: TP: expected 4..30, found 3", []string{"bench-npu", "--network", "tiny", "--config", "tiny-int8", "--law"}},
		{"tiny: TP: expected 4..30, found 3", []string{"compile", "--network", "tiny", "--config", "tiny", "--type", "int8", "--out", out}},
		{"TP: expected 4..30, found 2", []string{"export", "--board", "zc706", "--point", "256,2,32", "--template", config, "--out", point + "2"}},
		{"T_P is 2..3, of int8 there are 4..30", []string{"sweep", "--network", "tiny", "--board", "zc706", "--type", "int16,int8", "--tp", "2..3"}},
		{"T_P is 17..20, of int16 there are 2..16", []string{"sweep", "--network", "tiny", "--board", "zc706", "--tp", "17..20"}},
	} {
		if code, stdout, stderr := call(c.args...); code == cli.OK || !strings.Contains(stderr, c.want) {
			t.Errorf("dse %s: exit code %d: %s%s, expected %q", c.args[0], code, stdout, stderr, c.want)
		}
	}
}

// Another clock keeps the DRAM's GB/s and ns. At half the clock the array waits less for memory, so it is slower by
// less than the clock.
func TestBenchAtAClock(t *testing.T) {
	t.Setenv("SLUICE_COSIM", "nowhere")
	type row struct {
		Clock  float64 `json:"clock_mhz"`
		Bytes  float64 `json:"bytes_per_cycle"`
		GBps   float64 `json:"dram_gb_per_s"`
		NS     float64 `json:"dram_latency_ns"`
		Batch  int     `json:"batch"`
		Cycles *int64  `json:"cycles"`
		Law    int64   `json:"law_cycles"`
		Frames float64 `json:"frames_per_s"`
	}
	at := func(clock string) []row {
		t.Helper()
		code, stdout, stderr := call("bench-npu", "--json", "--law", "--network", "tiny", "--config", "run", "--batch", "1,8", "--bandwidth", "1,8", "--clock", clock)
		var doc struct {
			Label string `json:"label"`
			Rows  []row  `json:"rows"`
		}
		if err := json.Unmarshal([]byte(stdout), &doc); code != cli.OK || err != nil || doc.Label != "estimated" || len(doc.Rows) != 4 {
			t.Fatalf("exit code %d, %v, %+v: %s", code, err, doc, stderr)
		}
		return doc.Rows
	}
	fast, slow := at("150"), at("75") // run is at 150 MHz
	for i, f := range fast {
		s := slow[i]
		if f.Clock != 150 || s.Clock != 75 || f.Bytes != []float64{1, 1, 8, 8}[i] || s.Bytes != 2*f.Bytes || s.GBps != f.GBps || s.NS != f.NS || f.GBps != 0.15*f.Bytes || f.Cycles != nil {
			t.Errorf("%+v, %+v", f, s)
		}
		if want := f.Clock * 1e6 * float64(f.Batch) / float64(f.Law); math.Abs(f.Frames/want-1) > 1e-9 {
			t.Errorf("%g frames/s, expected %g", f.Frames, want)
		}
		if s.Law >= f.Law || s.Frames >= f.Frames || 2*s.Frames <= f.Frames {
			t.Errorf("at half the clock %+v after %+v", s, f)
		}
	}
}

// bench-npu --machine needs no build either. It prints the machine's cycles next to the law's and never as counted, and
// computes frames/s from them. tiny has no exit heads within its segments, so explain --machine has the same cycles for
// the backbone's starts.
func TestBenchByMachine(t *testing.T) {
	t.Setenv("SLUICE_COSIM", "nowhere")
	for _, config := range []string{"run", "run-int8"} {
		code, stdout, stderr := call("bench-npu", "--json", "--machine", "--network", "tiny", "--config", config, "--batch", "1,5")
		var doc struct {
			Label string   `json:"label"`
			Rows  []npuRow `json:"rows"`
		}
		if err := json.Unmarshal([]byte(stdout), &doc); code != cli.OK || err != nil || doc.Label != "estimated" || len(doc.Rows) != 2 {
			t.Fatalf("exit code %d, %v, %+v: %s", code, err, doc, stderr)
		}
		for _, r := range doc.Rows {
			if r.Cycles != 0 || r.Machine == 0 || r.Machine == r.Law || r.Stalls.Weights+r.Stalls.Activations == 0 {
				t.Errorf("%s: %+v", config, r)
			}
			if want := 1e6 * r.ClockMHz * float64(r.Batch) / float64(r.Machine); math.Abs(r.Frames/want-1) > 1e-9 {
				t.Errorf("%s: %g frames/s, expected %g", config, r.Frames, want)
			}
		}
	}
}

// A file that cannot be read does not prevent the others from being examined; the exit code is that of the error.
func TestOperatorsGoesOn(t *testing.T) {
	dir := t.TempDir()
	if err := recipetest.Home(dir); err != nil {
		t.Fatal(err)
	}
	own, gone := filepath.Join(dir, "own.onnx"), filepath.Join(dir, "gone.onnx")
	code, stdout, stderr := call("operators", gone, own)
	if code != cli.Input || !strings.Contains(stdout, own+": all of its operators") || !strings.Contains(stdout, gone+": could not") || !strings.Contains(stderr, gone) {
		t.Errorf("exit code %d: %s%s", code, stdout, stderr)
	}
	code, stdout, _ = call("operators", "--json", gone, own)
	nets, _ := checkDoc(t, stdout, "networks")["networks"].([]any)
	if code != cli.Input || len(nets) != 2 || nets[0].(map[string]any)["error"] == nil || nets[1].(map[string]any)["error"] != nil {
		t.Errorf("exit code %d: %s", code, stdout)
	}
}

// In a folder all models are examined, at any depth, and no other files.
func TestOperatorsOfAFolder(t *testing.T) {
	dir := t.TempDir()
	if code, _, stderr := call("operators", dir); code != cli.Usage || !strings.Contains(stderr, dir) {
		t.Errorf("an empty folder: exit code %d: %s", code, stderr)
	}
	deep := filepath.Join(dir, "a", "b")
	if err := os.MkdirAll(deep, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, at := range []string{dir, deep} {
		if err := recipetest.Home(at); err != nil {
			t.Fatal(err)
		}
	}
	code, stdout, stderr := call("operators", dir)
	if code != cli.OK || !strings.Contains(stdout, filepath.Join(deep, "own.onnx")+": all of its") || !strings.Contains(stdout, "2 of 2 networks") {
		t.Errorf("exit code %d: %s%s", code, stdout, stderr)
	}
	// missing operators, by the number of networks that need them
	for i, ops := range [][]string{{"Sin"}, {"Sin", "Cos"}, {"Cos", "Sin"}, {"Lone", "Flatten"}} {
		var nodes []*onnxpb.NodeProto
		in := "x"
		for _, op := range ops {
			nodes = append(nodes, ownNode(op, op, []string{in}, nil, nil))
			in = op
		}
		model := ownModel(t, []int64{0, 3}, nil, nodes...)
		if err := os.Rename(model, filepath.Join(deep, fmt.Sprintf("%d.onnx", i))); err != nil {
			t.Fatal(err)
		}
	}
	code, stdout, stderr = call("operators", dir)
	if code != cli.Check || !strings.Contains(stdout, "2 of 6 networks consist of supported operators\n  Sin: 3 need it, 1 of them nothing else\n  Cos: 2 need it, 0 of them nothing else\n  Lone: 1 need it, 0 of them nothing else, 1 nothing else that could be looked at\n") {
		t.Errorf("exit code %d: %s%s", code, stdout, stderr)
	}
}

// A folder's file with an input of open size is examined at a default size, which is printed; given alone it is
// rejected.
func TestOperatorsOfOpenSize(t *testing.T) {
	model := ownModel(t, []int64{0, 3, 0, 0}, nil, ownNode("GlobalAveragePool", "mean", []string{"x"}, nil, nil), ownNode("Flatten", "y", []string{"mean"}, nil, nil))
	code, stdout, stderr := call("operators", filepath.Dir(model))
	if code != cli.OK || !strings.Contains(stdout, model+" at 224 x 224: all of its operators") {
		t.Errorf("a folder: exit code %d: %s%s", code, stdout, stderr)
	}
	code, stdout, stderr = call("operators", "--json", "--input-side", "32", filepath.Dir(model))
	if nets, _ := checkDoc(t, stdout, "networks")["networks"].([]any); code != cli.OK || len(nets) != 1 || nets[0].(map[string]any)["input_side"] != nil {
		t.Errorf("a folder with a side: exit code %d: %s%s", code, stdout, stderr)
	}
	if code, _, stderr = call("operators", model); code != cli.Input || !strings.Contains(stderr, "--input-side") {
		t.Errorf("alone: exit code %d: %s", code, stderr)
	}
}

// No input file is overwritten, for any form of its path.
func TestCompileKeepsItsInputs(t *testing.T) {
	dir := t.TempDir()
	if err := recipetest.Home(dir); err != nil {
		t.Fatal(err)
	}
	in := func(name string) string { return filepath.Join(dir, name) }
	for name, text := range map[string]string{"exits.yaml": "exits: [late]\n", "names.json": "a\nb\nc\nd\n"} {
		if err := os.WriteFile(in(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(in("own.onnx"), in("link")); err != nil {
		t.Fatal(err)
	}
	for out, lost := range map[string]string{
		in("own.onnx"): "own.onnx", in("photos") + "/../own.onnx": "own.onnx", in("link"): "own.onnx", in("exits.yaml"): "exits.yaml", in("names"): "names.json",
		in("photos/class2/1.png"): "photos/class2/1.png",
	} {
		before, err := os.ReadFile(in(lost))
		if err != nil {
			t.Fatal(err)
		}
		code, _, stderr := call("compile", "--network", in("own.onnx"), "--config", "tiny", "--calibrate", in("photos"), "--exits", in("exits.yaml"), "--classes", in("names.json"), "--out", out)
		after, err := os.ReadFile(in(lost))
		if code != cli.Usage || !strings.Contains(stderr, "which is read") || err != nil || !bytes.Equal(before, after) {
			t.Errorf("--out %s: exit code %d, %s is kept %v: %s", out, code, lost, bytes.Equal(before, after), stderr)
		}
	}
	if code, _, stderr := call("compile", "--network", in("own.onnx"), "--config", "tiny", "--calibrate", in("photos"), "--out", in("photos")); code != cli.Usage || !strings.Contains(stderr, "is a folder") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	// its own earlier output is not an input, and the folder is created
	for range 2 {
		if code, _, stderr := call("compile", "--network", in("own.onnx"), "--config", "tiny", "--calibrate", in("photos"), "--out", in("new/folder/own.sluice")); code != cli.OK {
			t.Errorf("exit code %d: %s", code, stderr)
		}
	}
}

func TestExplain(t *testing.T) {
	code, stdout, stderr := call("explain", "--network", "tiny", "--config", "zc706", "--batch", "4", "--json", "--images", "8", "--machine")
	if code != cli.OK {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	doc := checkDoc(t, stdout, "seed", "label", "schema", "version", "layers", "infeasible")
	layers, _ := doc["layers"].([]any)
	if len(layers) < 8 {
		t.Fatalf("%d layers", len(layers))
	}
	for _, key := range []string{"name", "bound", "util", "advice"} {
		if l, _ := layers[0].(map[string]any); l[key] == nil {
			t.Errorf("layers[].%s is missing", key)
		}
	}
	// the machine on the bundle, and on a search's result for the design
	d, err := configs.Load("zc706")
	if err != nil {
		t.Fatal(err)
	}
	w, err := (&target{Network: "tiny"}).workload()
	if err != nil {
		t.Fatal(err)
	}
	if n, err := machineCycles(t.Context(), w, d, 4, mapping.RTL()); err != nil || doc["machine_cycles"] != float64(n) {
		t.Errorf("explain --machine: %v cycles, of the lowered network %d: %v", doc["machine_cycles"], n, err)
	} else if basic, err := machineCycles(t.Context(), w, d, 4, mapping.Basic()); err != nil || basic <= n {
		t.Errorf("with one mapping alone %d cycles, with all %d: %v", basic, n, err)
	}
	if code, stdout, _ = call("explain", "--network", "tiny", "--config", "run", "--images", "8"); code != cli.OK || !regexp.MustCompile(` ms, [1-9][0-9.]+ frames/s, 0\.\d+ of peak, array busy `).MatchString(stdout) {
		t.Errorf("exit code %d, text %q", code, stdout)
	}
	// The share of the peak includes the network's own MACs only, as in compare for the same design. The zeros of a
	// depthwise layer keep the array busy but are not included.
	own := depthwise(t)
	code, stdout, stderr = call("explain", "--network", own, "--config", "zc706", "--batch", "4", "--json")
	if code != cli.OK {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	doc = checkDoc(t, stdout, "util", "peak_share")
	named := 0
	for _, l := range doc["layers"].([]any) {
		if l := l.(map[string]any); strings.HasPrefix(l["advice"].(string), "a depthwise unit (depthwise: true): ") {
			named++
		}
	}
	if named != 1 {
		t.Errorf("the depthwise unit is the advice of %d layers, expected one", named)
	}
	code, stdout, stderr = call("compare", "--network", own, "--a", "zc706", "--b", "zc706", "--batch", "4", "--json")
	if code != cli.OK {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	a, _ := checkDoc(t, stdout, "a")["a"].(map[string]any)
	share, _ := doc["peak_share"].(float64)
	busy, _ := doc["util"].(float64)
	if share <= 0 || share != a["util"] || doc["cycles"] != a["cycles"] || doc["ns"] != a["ns"] || busy <= share {
		t.Errorf("explain: %v of peak, array busy %v, %v cycles; compare: %v, %v cycles", share, busy, doc["cycles"], a["util"], a["cycles"])
	}
}

// depthwise returns the file of a network whose second convolution is depthwise.
func depthwise(t *testing.T) string {
	t.Helper()
	content, err := recipetest.Network()
	if err != nil {
		t.Fatal(err)
	}
	var m onnxpb.ModelProto
	if err := proto.Unmarshal(content, &m); err != nil {
		t.Fatal(err)
	}
	for _, w := range m.Graph.Initializer {
		switch w.GetName() {
		case "w2":
			w.Dims, w.FloatData = []int64{6, 1, 3, 3}, w.FloatData[:54]
		case "h2":
			w.Dims, w.FloatData = []int64{6, 4}, w.FloatData[:24]
		}
	}
	for _, n := range m.Graph.Node {
		if n.GetName() == "c2" {
			n.Attribute = append(n.Attribute, &onnxpb.AttributeProto{
				Name: proto.String("group"), Type: onnxpb.AttributeProto_INT.Enum(), I: proto.Int64(6),
			})
		}
	}
	if content, err = proto.Marshal(&m); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "depthwise.onnx")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func checkDoc(t *testing.T, text string, keys ...string) map[string]any {
	t.Helper()
	var doc map[string]any
	if err := json.Unmarshal([]byte(text), &doc); err != nil {
		t.Fatalf("no JSON: %v\n%s", err, text)
	}
	for _, k := range keys {
		if doc[k] == nil {
			t.Errorf("key %q is missing", k)
		}
	}
	return doc
}
