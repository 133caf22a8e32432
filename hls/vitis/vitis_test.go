// Package vitis_test checks the flows for the vendor's tools against the tools' guides; no such tool has run them.
package vitis_test

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sluice-npu/sluice/dse/randnet"
	"github.com/sluice-npu/sluice/dse/testvec"
	"github.com/sluice-npu/sluice/hw/configs"
)

var update = flag.Bool("update", false, "write the golden records anew")

const root = "../.."

func prepare(t *testing.T, config string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "flow")
	text, err := exec.Command("./flow.sh", config, "--part", "xc7z045ffg900-2", "--out", out, "--prepare").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return out
}

// tcl runs a script on the stand-in and returns the recorded calls and the errors.
func tcl(t *testing.T, dir, script string, args ...string) (record, refused string) {
	t.Helper()
	if _, err := exec.LookPath("tclsh"); err != nil {
		t.Fatal("tclsh is missing: install the package tcl")
	}
	out := filepath.Join(t.TempDir(), "record")
	cmd := exec.Command("tclsh", append([]string{root + "/hw/vivado/standin.tcl", "allowed.txt", out, script, dir, "xc7z045ffg900-2", "6.667"}, args...)...)
	cmd.Env = append(os.Environ(), "SLUICE_STANDIN_MAP="+dir+" FOLDER")
	said, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Sprintf("%v: %s", err, said)
	}
	text, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	return string(text), ""
}

var steps = []string{"csim", "csynth", "cosim", "export"}

func TestTcl(t *testing.T) {
	dir := prepare(t, "tiny")
	record, refused := tcl(t, dir, filepath.Join(dir, "npu.tcl"), steps...)
	if refused != "" {
		t.Fatal(refused)
	}
	golden := "testdata/npu.tcl.golden"
	if *update {
		if err := os.WriteFile(golden, []byte(record), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if record != string(want) {
		t.Errorf("the flow says\n%s\nand said\n%s(go test ./hls/vitis -update)", record, want)
	}
}

// The stand-in rejects what the tool would reject.
func TestTclBreaks(t *testing.T) {
	dir := prepare(t, "tiny")
	text, err := os.ReadFile("npu.tcl")
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range []struct{ old, new, want string }{
		{"csynth_design", "csynth_desing", "there is no command csynth_desing"},
		{"-flow_target vivado", "-target vivado", "there is no option -target"},
		{"set_part $part\n", "", "no set_part before it"},
		{"$folder/src/npu.cpp", "$folder/src/nup.cpp", "there is no file"},
		{"open_solution -reset -flow_target vivado solution", "", "no open_solution before it"},
		{"set_top sluice_npu", "set_top", "expected 1..1 operands"},
		{"-rtl verilog -argv", "-rtl -argv", "lacks its value"},
	} {
		if strings.Count(string(text), b.old) < 1 {
			t.Fatalf("%q is not in npu.tcl", b.old)
		}
		script := filepath.Join(t.TempDir(), "broken.tcl")
		if err := os.WriteFile(script, []byte(strings.Replace(string(text), b.old, b.new, 1)), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, refused := tcl(t, dir, script, steps...); !strings.Contains(refused, b.want) {
			t.Errorf("%q: %q, want %q", b.new, refused, b.want)
		}
	}
}

// keys checks a configuration file against the list.
func keys(t *testing.T, text string) error {
	t.Helper()
	list, err := os.ReadFile("keys.txt")
	if err != nil {
		t.Fatal(err)
	}
	allowed := map[string]*regexp.Regexp{}
	for line := range strings.SplitSeq(string(list), "\n") {
		if line == "" || line[0] == '#' {
			continue
		}
		f := strings.Fields(line)
		allowed[strings.Join(f[:len(f)-1], " ")] = regexp.MustCompile("^(?:" + f[len(f)-1] + ")$")
	}
	section := ""
	for i, line := range strings.Split(text, "\n") {
		if line == "" {
			continue
		}
		if line[0] == '[' {
			section = line + " "
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		re := allowed[section+key]
		switch {
		case !ok:
			return fmt.Errorf("line %d: no key=value: %q", i+1, line)
		case re == nil:
			return fmt.Errorf("line %d: there is no key %s%s", i+1, section, key)
		case !re.MatchString(value):
			return fmt.Errorf("line %d: %s cannot be %q", i+1, key, value)
		}
	}
	return nil
}

func TestConfig(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(prepare(t, "tiny"), "npu.cfg"))
	if err != nil {
		t.Fatal(err)
	}
	if err := keys(t, string(text)); err != nil {
		t.Error(err)
	}
	for old, want := range map[string]string{"syn.top=": "no key [hls] sin.top", "clock=": "clock cannot be"} {
		broken := strings.Replace(string(text), old, map[string]string{"syn.top=": "sin.top=", "clock=": "clock=x"}[old], 1)
		if err := keys(t, broken); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// The vendor's test bench passes, and can fail. Its ports have separate memories, as in the vendor's co-simulation:
// with one start per layer every network passes; with one start for all layers a later layer reads stale data.
func TestBench(t *testing.T) {
	dir := prepare(t, "tiny")
	binary := filepath.Join(dir, "tb")
	abs := func(p string) string {
		a, err := filepath.Abs(filepath.Join(root, p))
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	build := exec.Command("g++", "-std=c++17", "-O1", "-pthread", "-Wno-unknown-pragmas", "-DSLUICE_THREADS", "-Isrc", "-Iinclude",
		"-I"+abs("hls/standin"), "-I"+abs("hls/standin/blocks"), "-I"+abs("hls/csim"), "src/npu.cpp", "tb.cpp", "-o", binary)
	build.Dir = dir
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	const n = 12
	o := randnet.Built()
	o.MaxMACs = 20_000
	play := func(config string, apart bool) (said []string) {
		d, err := configs.Load(config)
		if err != nil {
			t.Fatal(err)
		}
		files, err := testvec.Random(t.TempDir(), d, o, testvec.Layout{Limit: testvec.StartLimit, Apart: apart}, 1, n)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			text, err := exec.Command(binary, f.File).CombinedOutput()
			if err == nil && !strings.Contains(string(text), "ok") {
				t.Errorf("seed %d: %s", f.Seed, text)
			}
			if err == nil {
				text = nil
			}
			said = append(said, string(text))
		}
		return said
	}
	if text, err := exec.Command(binary, filepath.Join(dir, "a.vec")).CombinedOutput(); err != nil || !strings.Contains(string(text), "ok") {
		t.Errorf("the flow's own vector: %v: %s", err, text)
	}
	for i, said := range play("tiny", true) {
		if said != "" {
			t.Errorf("a start for every layer, seed %d: %s", i+1, said)
		}
	}
	stale := 0
	for i, said := range play("tiny", false) {
		if said != "" {
			stale++
			if !strings.Contains(said, "memory at") || !strings.Contains(said, "dse vectors --apart") {
				t.Errorf("a start for every segment, seed %d: %s", i+1, said)
			}
		}
	}
	if stale < n/2 {
		t.Errorf("a start for every segment: %d of %d networks see that ports have a memory each; expected most", stale, n)
	}
	for i, said := range play("v7", true) {
		if !strings.Contains(said, "register") {
			t.Errorf("another design's vectors, seed %d: %q", i+1, said)
		}
	}
}

// Without the tools the flow names what is missing.
func TestNoTool(t *testing.T) {
	for _, tool := range []string{"vitis_hls", "vitis-run"} {
		if _, err := exec.LookPath(tool); err == nil {
			return
		}
	}
	cmd := exec.Command("./flow.sh", "tiny", "--part", "xc7z045ffg900-2", "--out", t.TempDir(), "csim")
	text, err := cmd.CombinedOutput()
	if err == nil || cmd.ProcessState.ExitCode() != 5 || !strings.Contains(string(text), "vitis_hls") {
		t.Errorf("%v: %s", err, text)
	}
}

// Files that are not the flow's are not deleted, and a board that does not exist is named.
func TestRefuses(t *testing.T) {
	other := t.TempDir()
	kept := filepath.Join(other, "kept")
	if err := os.WriteFile(kept, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	tiny, err := os.ReadFile(root + "/hw/configs/tiny.yaml")
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(t.TempDir(), "odd.yaml")
	odd := regexp.MustCompile(`(?m)^board:.*\n`).ReplaceAllString(string(tiny), "") + "\nboard: nowhere\n"
	odd = strings.Replace(odd, "name: tiny", "name: odd", 1)
	if err := os.WriteFile(config, []byte(odd), 0o644); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{
		"expected no folder, an empty one": {"tiny", "--part", "xc7z045ffg900-2", "--out", other, "--prepare"},
		"no boards/nowhere/board.yaml":     {config, "--out", t.TempDir(), "--prepare"},
	} {
		cmd := exec.Command("./flow.sh", args...)
		text, err := cmd.CombinedOutput()
		if err == nil || cmd.ProcessState.ExitCode() != 3 || !strings.Contains(string(text), want) {
			t.Errorf("%v: %v: %s", args, err, text)
		}
	}
	if _, err := os.Stat(kept); err != nil {
		t.Error(err)
	}
}

// The steps can be run one by one. A step uses the synthesis of an earlier call, with either tool, and fails without
// one. A part may have any speed grade.
func TestStepByStep(t *testing.T) {
	dir := t.TempDir()
	standin := `#!/usr/bin/env bash
echo "${*: -1} $*" >>calls
[[ " $* " != *" csynth "* ]] || { mkdir -p npu/solution/syn/verilog && echo "module sluice_npu; endmodule" >npu/solution/syn/verilog/sluice_npu.v; }
`
	if err := os.WriteFile(filepath.Join(dir, "vitis_hls"), []byte(standin), 0o755); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "flow")
	rtl := filepath.Join(out, "npu", "solution", "syn", "verilog", "sluice_npu.v")
	run := func(args ...string) (string, int) {
		cmd := exec.Command("./flow.sh", append([]string{"tiny", "--part", "xck26-sfvc784-2LV-c", "--out", out}, args...)...)
		cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
		said, err := cmd.CombinedOutput()
		if err != nil && cmd.ProcessState == nil {
			t.Fatal(err)
		}
		return string(said), cmd.ProcessState.ExitCode()
	}
	if said, code := run("export"); code != 2 || !strings.Contains(said, "export: expected csynth before it") {
		t.Errorf("export alone: exit %d: %s", code, said)
	}
	for _, step := range []string{"csynth", "csim", "--prepare", "cosim", "export"} {
		if said, code := run(step); code != 0 {
			t.Errorf("%s: exit %d: %s", step, code, said)
		}
		if _, err := os.Stat(rtl); err != nil {
			t.Errorf("behind %s: %v", step, err)
		}
	}
	text, err := os.ReadFile(filepath.Join(out, "npu.cfg"))
	if err != nil {
		t.Fatal(err)
	}
	if err := keys(t, string(text)); err != nil {
		t.Error(err)
	}
	for step, reset := range map[string]bool{"csynth": true, "csim": false} {
		record, refused := tcl(t, out, filepath.Join(out, "npu.tcl"), step)
		if refused != "" || strings.Contains(record, "-reset\n") || strings.Contains(record, "open_project -reset") != reset {
			t.Errorf("%s: %s\n%s", step, refused, record)
		}
	}
}

// Paths are relative to the user's folder. A file whose name is not the design's is rejected, by build.sh and by the
// flow.
func TestPaths(t *testing.T) {
	top, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(top, "hls", "configs", "zc706-hls.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	here := t.TempDir()
	for _, f := range []string{"zc706-hls.yaml", "other.yaml"} {
		if err := os.WriteFile(filepath.Join(here, f), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	run := func(args ...string) (string, int) {
		cmd := exec.Command(filepath.Join(top, "hls", args[0]), args[1:]...)
		cmd.Dir = here
		out, err := cmd.CombinedOutput()
		if err != nil && cmd.ProcessState == nil {
			t.Fatal(err)
		}
		return string(out), cmd.ProcessState.ExitCode()
	}
	if said, code := run("vitis/flow.sh", "zc706-hls.yaml", "--out", "flow", "--prepare"); code != 0 {
		t.Errorf("exit %d: %s", code, said)
	}
	if _, err := os.Stat(filepath.Join(here, "flow", "npu.cfg")); err != nil {
		t.Error(err)
	}
	for _, args := range [][]string{{"vitis/flow.sh", "other.yaml", "--prepare"}, {"build.sh", "./other.yaml"}} {
		said, code := run(args...)
		if code == 0 || !strings.Contains(said, "other.yaml: name: expected \"other\", as the file is called, found \"zc706-hls\"") {
			t.Errorf("%v: exit %d: %s", args, code, said)
		}
	}
}

// Bambu is called with options of its command line, if it is on PATH; otherwise the script says that it is missing.
// Bambu has never run here: the stand-in accepts only the options of its guide.
func TestBambu(t *testing.T) {
	dir := t.TempDir()
	standin := `#!/usr/bin/env bash
[[ -f $1 ]] || { echo "no file $1"; exit 3; }
for a in "${@:2}"; do
  case $a in
    --top-fname=sluice_npu | -std=c++14 | -O2 | --clock-period=6.667 | --generate-interface=INFER) ;;
    -I*) [[ -d ${a#-I} ]] || { echo "no folder ${a#-I}"; exit 3; } ;;
    *) echo "unrecognised option $a"; exit 3 ;;
  esac
done
[[ -z ${BAMBU_FAILS:-} ]] || { echo "internal error"; exit 7; }
echo "module sluice_npu; endmodule" >sluice_npu.v
`
	if err := os.WriteFile(filepath.Join(dir, "bambu"), []byte(standin), 0o755); err != nil {
		t.Fatal(err)
	}
	run := func(path string, env ...string) (string, int) {
		cmd := exec.Command(root + "/hls/bambu.sh")
		cmd.Env = append(append(os.Environ(), "PATH="+path), env...)
		out, err := cmd.CombinedOutput()
		if err != nil && cmd.ProcessState == nil {
			t.Fatal(err)
		}
		return string(out), cmd.ProcessState.ExitCode()
	}
	if said, code := run(dir + ":" + os.Getenv("PATH")); code != 0 || !strings.HasSuffix(strings.TrimSpace(said), "tiny/sluice_npu.v") {
		t.Errorf("exit %d: %s", code, said)
	}
	if said, code := run(dir+":"+os.Getenv("PATH"), "BAMBU_FAILS=1"); code != 7 || !strings.Contains(said, "internal error") {
		t.Errorf("a failure: exit %d: %s", code, said)
	}
	if _, err := exec.LookPath("bambu"); err != nil {
		if said, code := run(os.Getenv("PATH")); code != 5 || !strings.Contains(said, "bambu is missing") {
			t.Errorf("without it: exit %d: %s", code, said)
		}
	}
}
