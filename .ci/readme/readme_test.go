package readme

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/sluice-npu/sluice/dse/recipe/recipetest"
)

// nightly runs the long commands too (make weekly: hours), and outputs (make nightly).
var nightly = flag.Bool("nightly", false, "run the READMEs' long commands too")

// TestMain builds both programs where make build does: below the repository's root, where they find its builds.
func TestMain(m *testing.M) { os.Exit(run(m)) }

var (
	root string // the repository's root
	bin  string // folder of the two programs
)

func run(m *testing.M) int {
	flag.Parse()
	var err error
	if root, err = filepath.Abs("../.."); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	bin = filepath.Join(root, "bin") // what make build has built is not linked again
	build := exec.Command("go", "build", "-o", bin+"/", "./host/cmd/sluice", "./dse/cmd/dse")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "go build: %v: %s\n", err, out)
		return 1
	}
	return m.Run()
}

// A user's own network on the user's own board, with the README's commands: compile, evaluate, search, export,
// simulate, serve on soft and on the RTL, classify; and the errors of each step.
func TestStranger(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			e.Setenv("PATH", bin+":"+os.Getenv("PATH"))
			e.Setenv("ROOT", root)
			e.Setenv("HOME", os.Getenv("HOME")) // for the Go caches in sim/build.sh
			e.Setenv("GOFLAGS", "-mod=mod")
			return recipetest.Home(e.WorkDir)
		},
		Cmds:      map[string]func(*testscript.TestScript, bool, []string){"samehash": sameHash},
		Condition: func(string) (bool, error) { return *nightly, nil }, // long
	})
}

// samehash FILE...: all documents name the same bundle.
func sameHash(ts *testscript.TestScript, neg bool, files []string) {
	first := ""
	for _, file := range files {
		_, text, ok := strings.Cut(ts.ReadFile(file), `"bundle_hash": "`)
		hash, _, end := strings.Cut(text, `"`)
		if !ok || !end || len(hash) != 16 {
			ts.Fatalf("%s names no bundle", file)
		}
		if first == "" {
			first = hash
		}
		if (hash == first) == neg && file != files[0] {
			ts.Fatalf("%s: bundle %s, %s: %s", files[0], first, file, hash)
		}
	}
}

// make nightly and make weekly must run what commands.txt leaves to them: every test here with a long part.
func TestNightlyRuns(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []string{"TestCommandsRun", "TestOutputsShown", "TestStranger"} {
		found := false
		for line := range strings.Lines(string(text)) {
			if !strings.HasPrefix(line, "\t@.ci/once ") || !strings.Contains(line, "go test ./.ci/readme ") || !strings.Contains(line, "-args -nightly") || !strings.Contains(line, " -timeout ") {
				continue
			}
			_, names, _ := strings.Cut(line, "-run ")
			names, _, _ = strings.Cut(names, " -args")
			for name := range strings.SplitSeq(strings.Trim(names, "'"), "|") {
				found = found || strings.Contains(test, name)
			}
		}
		if !found {
			t.Errorf("neither make nightly nor make weekly runs %s -nightly", test)
		}
	}
}

// Ways to run a command of a README.
const (
	classRun     = "run"     // in make test
	classNightly = "nightly" // in make weekly: commands that commands.txt does not list
	classMake    = "make"    // by make, under the command's name, as make test and make nightly do
	classGiven   = "given"   // needs something that only a reader has: only its flags are checked
)

// plan reads the class of each command.
func plan(t *testing.T) map[string]string {
	t.Helper()
	f, err := os.Open("commands.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	out := map[string]string{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		line := lines.Text()
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		class, rest, ok := strings.Cut(line, " ")
		switch class {
		case classRun, classMake, classGiven:
		default:
			ok = false
		}
		rest = strings.TrimSpace(rest)
		if _, twice := out[rest]; !ok || twice {
			t.Errorf("commands.txt: %q: expected run, make or given, and a file: command that is there once", line)
		}
		out[rest] = class
	}
	return out
}

// Commands of the two programs that commands.txt leaves to make must be in the Makefile. There they may have more
// flags (a seed, a folder).
func TestMakeRuns(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	var lines []map[string]bool
	for line := range strings.Lines(string(text)) {
		// the commands of a part follow each other
		for command := range strings.SplitSeq(strings.Trim(line, "'\n"), ";") {
			words := map[string]bool{}
			for _, word := range strings.Fields(command) {
				words[strings.TrimPrefix(strings.TrimPrefix(word, "@"), "bin/")] = true
			}
			lines = append(lines, words)
		}
	}
	for key, class := range plan(t) {
		_, command, _ := strings.Cut(key, ": ")
		words := strings.Fields(strings.TrimPrefix(command, "bin/"))
		if class != classMake || words[0] != "sluice" && words[0] != "dse" {
			continue
		}
		if !slices.ContainsFunc(lines, func(line map[string]bool) bool {
			return !slices.ContainsFunc(words, func(word string) bool { return !line[word] })
		}) {
			t.Errorf("commands.txt: the Makefile does not run %q", key)
		}
	}
}

// all returns the commands of every README under version control, and of the files that stand for parts of one.
func all(t *testing.T) []Command {
	t.Helper()
	list := exec.Command("git", "ls-files", "*README.md", "hw/REFERENCE.md", "hw/INT8.md", "host/gpu/cuda/MEASURED.md", "host/gpu/cuda/RUNBOOK.md")
	list.Dir = root
	names, err := list.Output()
	if err != nil {
		t.Fatalf("git ls-files: %v", err)
	}
	var out []Command
	for name := range strings.FieldsSeq(string(names)) {
		f, err := os.Open(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		some, err := Commands(name, f)
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
		out = append(out, some...)
	}
	return out
}

// Every README command of the two programs uses only existing flags.
func TestFlagsAreKnown(t *testing.T) {
	known := plan(t)
	seen := map[string]bool{}
	for _, c := range all(t) {
		key := c.File + ": " + c.Text
		seen[key] = true
		for part := range strings.SplitSeq(strings.NewReplacer(" && ", "; ", " | ", "; ").Replace(c.Text), "; ") {
			program, rest, _ := strings.Cut(part, " ")
			if name := strings.TrimPrefix(program, "bin/"); name == "sluice" || name == "dse" {
				t.Run(key, func(t *testing.T) { parses(t, name, rest) })
			}
		}
	}
	for key := range known {
		// the list may be out of date because of another's change to a README: whoever sees this updates it
		if !seen[key] && *nightly {
			t.Errorf("commands.txt: no README has %q", key)
		}
	}
}

// parses asks for help with the command's flags: an unknown flag ends with a usage error.
func parses(t *testing.T, program, args string) {
	cmd := exec.Command("sh", "-c", filepath.Join(bin, program)+" "+args+" --help")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%s %s: %v: %s", program, args, err, out)
	}
}

// The commands run unchanged, in the order of their README, in a clone of the repository with its builds, and print
// what a transcript shows.
func TestCommandsRun(t *testing.T) {
	known := plan(t)
	clone := t.TempDir()
	sh := func(ctx context.Context, dir, line string) (string, time.Duration, error) {
		cmd := exec.CommandContext(ctx, "bash", "-c", line)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "PATH="+filepath.Join(clone, "bin")+":"+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		return string(out), cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), err
	}
	// Tracked files, as in this working tree; builds stay where they are.
	set := fmt.Sprintf(`set -e; cd %q; git ls-files -z -co --exclude-standard | tar --null -T - --ignore-failed-read -cf - | tar -xf - -C %q
		mkdir -p build; ln -s %q %q; mkdir %q; cp %q/* %q/; cd %q; git init -q; git add -A >/dev/null`,
		root, clone, filepath.Join(root, "build"), filepath.Join(clone, "build"), filepath.Join(clone, "bin"), bin, filepath.Join(clone, "bin"), clone)
	if out, _, err := sh(t.Context(), root, set); err != nil {
		t.Fatalf("clone: %v: %s", err, out)
	}
	if err := recipetest.Home(clone); err != nil { // the reader's files
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(clone, "own.onnx"), filepath.Join(clone, "my.onnx")); err != nil {
		t.Fatal(err)
	}
	ran := map[string]bool{} // a command in two READMEs runs once, unless a transcript shows its output
	for _, c := range all(t) {
		class := cmp.Or(known[c.File+": "+c.Text], classNightly)
		if class != classRun && !(class == classNightly && *nightly) {
			continue
		}
		text := strings.TrimPrefix(c.Text, "bin/")
		if class == classNightly && ran[text] && c.Shown == nil {
			continue
		}
		t.Run(c.File+": "+c.Text, func(t *testing.T) {
			dir := clone
			if strings.HasPrefix(c.Text, "venv/") || strings.HasPrefix(c.Text, "exports/") || strings.HasPrefix(c.Text, "python3 ") {
				dir = filepath.Join(clone, filepath.Dir(c.File))
			}
			began := time.Now()
			out, cpu, err := sh(t.Context(), dir, c.Text)
			if err != nil {
				t.Errorf("%s:%d: %s: %v\n%s", c.File, c.Line, c.Text, err, out)
			} else if line := Missing(c.Shown, out); line != "" {
				t.Errorf("%s:%d shows %q, which %s does not print:\n%s", c.File, c.Line, line, c.Text, out)
			}
			ran[text] = !t.Failed()
			t.Logf("%s took %s, %s of CPU time", c.Text, time.Since(began).Round(time.Second), cpu.Round(time.Second))
		})
	}
}

// The README shows the main job's output; nightly it must be what the command prints now.
func TestOutputsShown(t *testing.T) {
	const begins = "fashion on cosim (run, simulated)"
	f, err := os.Open(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	all, err := Blocks(f)
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(all, func(b []string) bool { return strings.HasPrefix(b[0], begins) })
	if at < 0 {
		t.Fatalf("README.md shows no output that begins with %q", begins)
	}
	if !*nightly {
		return
	}
	cmd := exec.Command("bash", "-c", "sim/build.sh run >&2 && "+bin+"/sluice run --device cosim --config run --network fashion --n 256 --seed 1 --out "+t.TempDir())
	cmd.Dir = root
	got, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	if line := Missing(all[at], string(got)); line != "" {
		t.Errorf("README.md shows %q, which is not printed:\n%s", line, got)
	}
}

func TestBlocks(t *testing.T) {
	got, err := Blocks(strings.NewReader("text\n    a 1\n\n      b  2\ntext\n\n    c\n"))
	if err != nil || fmt.Sprintf("%q", got) != `[["a 1" "  b  2"] ["c"]]` {
		t.Errorf("%q, %v", got, err)
	}
	for want, block := range map[string][]string{"": {"a 1", "b 2"}, "b 3": {"a 1", "b 3"}, "a 1": {"b 2", "a 1"}} {
		if line := Missing(block, "a   1\nx\n  b 2\n"); line != want {
			t.Errorf("%q: %q is missing, want %q", block, line, want)
		}
	}
}

func TestCommands(t *testing.T) {
	text := "text\n    make run   # the main job\n    sluice profile    sluice doctor\n    bin/dse a \\\n      --b c  # d\n    no command\n  bin/dse too little\n" +
		"    $ seq 2  # two lines\n    1\n\n    2\n    $ X=1 true\ntext\n    make test\n    1\n"
	got, err := Commands("README.md", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	want := []Command{
		{"README.md", 2, "make run", nil},
		{"README.md", 3, "sluice profile", nil},
		{"README.md", 3, "sluice doctor", nil},
		{"README.md", 4, "bin/dse a --b c", nil},
		{"README.md", 8, "seq 2", []string{"1", "2"}},
		{"README.md", 12, "X=1 true", nil},
		{"README.md", 14, "make test", nil},
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", got, want)
	}
}
