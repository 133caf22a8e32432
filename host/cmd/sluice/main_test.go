package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode"

	"github.com/alecthomas/kong"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/sluice-npu/sluice/dse/bundle"
	"github.com/sluice-npu/sluice/dse/recipe"
	"github.com/sluice-npu/sluice/dse/recipe/recipetest"
	"github.com/sluice-npu/sluice/dse/zoo"
	"github.com/sluice-npu/sluice/host/cli"
	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/engine"
	"github.com/sluice-npu/sluice/host/experiments"
	edge "github.com/sluice-npu/sluice/host/experiments/jellyfish"
	"github.com/sluice-npu/sluice/host/experiments/reef"
	"github.com/sluice-npu/sluice/host/experiments/strait"
	"github.com/sluice-npu/sluice/host/kit"
	"github.com/sluice-npu/sluice/host/load"
	"github.com/sluice-npu/sluice/host/npu"
	"github.com/sluice-npu/sluice/host/sched"
	"github.com/sluice-npu/sluice/host/soft"
	"github.com/sluice-npu/sluice/hw/configs"
	"github.com/sluice-npu/sluice/sim/verify"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"sluice": main, "stubborn": stubborn})
}

// The commands as users see them. All scripts share one folder of bundles.
func TestScripts(t *testing.T) {
	build := t.TempDir()
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			e.Setenv("SLUICE_BUILD", build)
			e.Setenv("ROOT", root)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"jsonkeys": jsonKeys, "adds": addsUp},
	})
}

// jsonKeys FILE KEY...: the document has these keys; a.b goes into an object, a[] into every element.
func jsonKeys(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: jsonkeys FILE KEY...")
	}
	var doc any
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &doc))
	for _, path := range args[1:] {
		at := []any{doc}
		for step := range strings.SplitSeq(path, ".") {
			key, each := strings.CutSuffix(step, "[]")
			var next []any
			for _, v := range at {
				m, _ := v.(map[string]any)
				x, ok := m[key]
				if !ok {
					ts.Fatalf("%s has no %s (at %s)", args[0], path, key)
				}
				if !each {
					next = append(next, x)
					continue
				}
				l, ok := x.([]any)
				if !ok || len(l) == 0 {
					ts.Fatalf("%s: %s is no array with elements", args[0], path)
				}
				next = append(next, l...)
			}
			at = next
		}
	}
}

// addsUp FILE: the endings of every run add up to its requests.
func addsUp(ts *testscript.TestScript, _ bool, args []string) {
	var doc runDoc
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &struct {
		Runs *[]policyDoc `json:"runs"`
	}{&doc.Runs}))
	if len(doc.Runs) == 0 {
		ts.Fatalf("no run")
	}
	for _, r := range doc.Runs {
		if n := r.OnTime + r.Late + r.Dropped + r.Refused + r.Cancelled + r.Errors; n != r.Requests || n == 0 || int64(len(r.Results)) != n {
			ts.Fatalf("%s: %d endings, %d results, %d requests", r.Policy, n, len(r.Results), r.Requests)
		}
	}
}

// The same seed gives the same document, byte for byte.
func TestRunIsReproducible(t *testing.T) {
	var first []byte
	build := t.TempDir()
	for range 2 {
		var out, log bytes.Buffer
		code := realMain([]string{
			"run", "--device", "soft", "--config", "tiny", "--network", "tiny", "--build", build, "--out", t.TempDir(), "-n", "60", "--seed", "9", "--rate", "1.2", "--json",
		}, &out, &log)
		if code != 0 {
			t.Fatalf("exit code %d: %s", code, log.String())
		}
		text := bytes.Replace(out.Bytes(), []byte(`"bundle_cached": true`), []byte(`"bundle_cached": false`), 1)
		if first != nil && !bytes.Equal(first, text) {
			t.Error("two runs of one seed differ")
		}
		first = text
	}
}

// Soft computes the exits that the policy sees; a device that only replays the table must give the same exits,
// results and order of actions, with or without memo.
func TestSoftWithAndWithoutMemo(t *testing.T) {
	w := what{Config: "tiny", Network: "tiny", Data: "/usr/share/datasets/fashion-mnist", Build: t.TempDir()}
	e := &cli.Env{Ctx: context.Background(), Stdout: &bytes.Buffer{}, Stderr: &bytes.Buffer{}, Log: quiet()}
	p, err := w.prepare(e)
	if err != nil {
		t.Fatal(err)
	}
	s, _, err := p.setup(e, &w, &soft.Memo{}, 40)
	if err != nil {
		t.Fatal(err)
	}
	for _, policy := range []string{"serial", "fluid"} {
		var all []*engine.Result
		for _, memo := range []*soft.Memo{nil, {}} {
			dev, err := w.openDevice(e.Ctx, "soft", p, memo)
			if err != nil {
				t.Fatal(err)
			}
			res, err := s.Run(e.Ctx, dev, experiments.Point{
				Policy: policy, Rate: 1.1e9 / s.Service(experiments.Theta{0.8}), SLO: 5 * s.Table.Alone(), Theta: experiments.Theta{0.8}, Seed: 3, N: 40,
			}, nil)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, res)
		}
		if a, r := engine.DiffSteps(all[0].Steps, all[1].Steps), engine.DiffResults(all[0], all[1]); a+r != 0 {
			t.Errorf("%s: %d actions and %d results differ", policy, a, r)
		}
	}
}

// A start that the hardware's watchdog ends counts as a hang, and the request is still served.
func TestTheHardwaresWatchdogIsAHang(t *testing.T) {
	w := what{Config: "tiny", Network: "tiny", Data: "/usr/share/datasets/fashion-mnist", Build: t.TempDir()}
	e := testEnv()
	p, err := w.prepare(e)
	if err != nil {
		t.Fatal(err)
	}
	s, _, err := p.setup(e, &w, &soft.Memo{}, 8)
	if err != nil {
		t.Fatal(err)
	}
	bus, err := openBus(e.Ctx, p.design, "tiny", "tiny", npu.CosimOpts{})
	if err != nil {
		t.Fatal(err)
	}
	dev, err := openDriver(bus, "cosim", p.design, 32)
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	if err := dev.Load(e.Ctx, p.bundle); err != nil {
		t.Fatal(err)
	}
	if err := bus.AddFault(npu.Fault{Port: npu.AnyPort, Dir: npu.FaultRead, Kind: npu.FaultNever, First: 100, Count: 1}); err != nil {
		t.Fatal(err)
	}
	res, err := s.Run(e.Ctx, dev, experiments.Point{
		Policy: "serial", Rate: 0.5e9 / s.Service(experiments.Theta{0.8}), SLO: 1e12, Theta: experiments.Theta{0.8}, Seed: 3, N: 8, Clock: engine.Measured, Keep: engine.Records,
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if sum := res.Summary(); res.Hangs != 1 || res.Faults != 1 || sum.OnTime != 8 {
		t.Errorf("%d hangs of %d faults, %d of 8 on time", res.Hangs, res.Faults, sum.OnTime)
	}
}

// With the table's clock every policy gives the same schedule and results on the RTL as on soft, at a load with real
// decisions.
func TestSchedulesAgreeOnSoftAndCosim(t *testing.T) {
	const n = 60
	w := what{Config: "tiny", Network: "tiny", Data: "/usr/share/datasets/fashion-mnist", Build: t.TempDir()}
	e := testEnv()
	p, err := w.prepare(e)
	if err != nil {
		t.Fatal(err)
	}
	s, _, err := p.setup(e, &w, &soft.Memo{}, n)
	if err != nil {
		t.Fatal(err)
	}
	exits := s.Table.Segments()
	// With a free accuracy budget, the thresholds depend only on the queue.
	levels := []sched.Level{{Thetas: slices.Repeat([]float32{0.3}, exits), Loss: make([]float64, exits)}}
	for _, policy := range sched.Names() {
		var all []*engine.Result
		for _, name := range []string{"soft", "cosim"} {
			dev, err := w.openDevice(e.Ctx, name, p, nil)
			if err != nil {
				t.Fatal(err)
			}
			theta := experiments.Theta{0.8}
			res, err := s.Run(e.Ctx, dev, experiments.Point{
				Policy: policy, Rate: 1.4e9 / s.Service(theta), SLO: 6 * s.Table.Alone(), Theta: theta, Seed: 3, N: n, Levels: levels, Loss: 0.01,
			}, nil)
			if err := errors.Join(err, dev.Close()); err != nil {
				t.Fatal(err)
			}
			all = append(all, res)
		}
		if a, r := engine.DiffSteps(all[0].Steps, all[1].Steps), engine.DiffResults(all[0], all[1]); a+r != 0 {
			t.Errorf("%s: of %d actions and %d results, %d and %d differ", policy, len(all[0].Steps), n, a, r)
		}
		seen := map[string]int{}
		for _, step := range all[1].Steps {
			seen[step.Kind]++
		}
		t.Logf("%-13s %v", policy, seen)
		for kind, who := range map[string]string{
			"preempt": "lazy lazy-idle fluid fluid+ fluid+last fluid+theta fluid+refuse", "merge": "lazy lazy-idle fluid fluid+ fluid+last fluid+theta fluid+refuse",
			"drop": "clockwork fluid+refuse", "theta": "fluid+theta",
		} {
			if slices.Contains(strings.Fields(who), policy) != (seen[kind] > 0) {
				t.Errorf("%s does %q %d times", policy, kind, seen[kind])
			}
		}
	}
}

func TestFlags(t *testing.T) {
	var r rateFlag
	for text, want := range map[string]float64{"0.9": 900, "250/s": 250, "1": 1000} {
		if err := r.UnmarshalText([]byte(text)); err != nil || r.at(1000) != want {
			t.Errorf("rate %s: %g, %v; want %g", text, r.at(1000), err, want)
		}
	}
	var s sloFlag
	for text, want := range map[string]int64{"5x": 500, "20ms": 20_000_000, "1.5x": 150} {
		s = sloFlag{}
		if err := s.UnmarshalText([]byte(text)); err != nil || s.at(100) != want {
			t.Errorf("SLO %s: %d, %v; want %d", text, s.at(100), err, want)
		}
	}
	for _, text := range []string{"", "0", "-1", "NaN", "x", "1e99", "/s", "Inf"} {
		if r.UnmarshalText([]byte(text)) == nil {
			t.Errorf("rate %q is accepted", text)
		}
		if s.UnmarshalText([]byte(text)) == nil {
			t.Errorf("SLO %q is accepted", text)
		}
	}
	var th thetaFlag
	for _, text := range []string{"", "x", "-0.1", "3", "NaN"} {
		if th.UnmarshalText([]byte(text)) == nil {
			t.Errorf("theta %q is accepted", text)
		}
	}
	if err := th.UnmarshalText([]byte("0.1, 0.2,0.3")); err != nil || !slices.Equal(th.theta, []float32{0.1, 0.2, 0.3}) || th.fits(3) != nil || th.fits(4) != nil || th.fits(2) == nil || th.fits(5) == nil {
		t.Errorf("%v, %v", th.theta, err)
	}
}

// Both halves contain all classes, whether images are sorted by class or alternate; no image is in both.
func TestHalves(t *testing.T) {
	const images, classes = 2000, 10
	for name, class := range map[string]func(i int) int{
		"sorted":   func(i int) int { return i * classes / images },
		"by turns": func(i int) int { return i % classes },
	} {
		tuned, held := halves(images, images/2, 1)
		seen := map[int]bool{}
		for _, half := range [][]int{tuned, held} {
			count := make([]int, classes)
			for _, i := range half {
				count[class(i)]++
				if seen[i] {
					t.Errorf("%s: image %d is in both", name, i)
				}
				seen[i] = true
			}
			if len(half) != images/2 || slices.Min(count) < 70 || slices.Max(count) > 130 {
				t.Errorf("%s: %d images, of the classes %v", name, len(half), count)
			}
		}
	}
	a, _ := halves(images, images/2, 1)
	b, _ := halves(images, images/2, 2)
	if slices.Equal(a, b) {
		t.Error("the seed changes nothing")
	}
}

// Errors on the command line are reported before any work: nothing is written, not even a bundle.
func TestFlagsComeFirst(t *testing.T) {
	for _, bad := range [][]string{
		{"--rate", "fast"}, {"--rate", "1e9/s"}, {"--slo", "soon"}, {"--theta", "0.5,x"}, {"--theta", "0.1,0.2,0.3,0.4,0.5,0.6"},
	} {
		build, out := filepath.Join(t.TempDir(), "build"), filepath.Join(t.TempDir(), "out")
		args := append([]string{"run", "--device", "soft", "--config", "tiny", "--network", "tiny", "--build", build, "--out", out}, bad...)
		var log bytes.Buffer
		if code := realMain(args, &bytes.Buffer{}, &log); code != cli.Usage {
			t.Errorf("%v: exit code %d, want %d: %s", bad, code, cli.Usage, log.String())
		}
		for _, dir := range []string{build, out} {
			if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%v: there is %s", bad, dir)
			}
		}
	}
	// Options that a bundle was made with cannot be given again, neither the default nor another value.
	for _, flag := range []string{
		"--network=fashion", "--config=run", "--mean=0.5", "--std=0.5", "--calibrate=photos", "--exits=exits.yaml", "--classes=names", "--input-side=8",
		"--fit=crop", "--resize=9", "--input-range=1",
	} {
		name, _, _ := strings.Cut(flag, "=")
		for _, command := range []string{"run --device=soft", "profile --device=soft", "tune-theta", "kit", "bench rates"} {
			var log bytes.Buffer
			args := append(strings.Fields(command), "x.sluice", "--out", t.TempDir(), flag)
			if code := realMain(args, &bytes.Buffer{}, &log); code != cli.Usage || !strings.Contains(log.String(), name+" is read by compiling a network, not by a BUNDLE") {
				t.Errorf("%v: exit code %d, want %d: %s", args, code, cli.Usage, log.String())
			}
		}
	}
	// An SLO below the time of one request alone is rejected once there is a table, before any image is read.
	var log bytes.Buffer
	code := realMain([]string{"run", "--device", "soft", "--config", "tiny", "--network", "tiny", "--build", t.TempDir(), "--slo", "1ns", "-n", "400000", "--out", t.TempDir()}, &bytes.Buffer{}, &log)
	if code != cli.Input || !strings.Contains(log.String(), "shorter than one request alone") {
		t.Errorf("exit code %d: %s", code, log.String())
	}
}

// A user's bundle is accepted wherever a network is: thresholds, rates, a board's kit.
func TestOwnBundle(t *testing.T) {
	dir := t.TempDir()
	if err := recipetest.Home(dir); err != nil {
		t.Fatal(err)
	}
	d, err := configs.Load("tiny")
	if err != nil {
		t.Fatal(err)
	}
	photos := filepath.Join(dir, "photos")
	r := recipe.Recipe{Network: filepath.Join(dir, "own.onnx"), Seed: 1, Flags: recipe.Flags{Calibrate: photos}}
	b, err := r.Make(d)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "own.sluice")
	if err := bundle.WriteFile(file, b); err != nil {
		t.Fatal(err)
	}
	hash, err := b.Hash()
	if err != nil {
		t.Fatal(err)
	}
	build := filepath.Join(dir, "build") // nothing is created there
	call := func(want int, says string, args ...string) {
		t.Helper()
		var out, log bytes.Buffer
		if code := realMain(append(args, "--build", build), &out, &log); code != want || !strings.Contains(out.String()+log.String(), says) {
			t.Errorf("%v: exit code %d, want %d with %q: %s%s", args, code, want, says, out.String(), log.String())
		}
	}
	call(cli.OK, "6 images, loss at most", "tune-theta", file, "--data", photos, "--n", "10", "--out", filepath.Join(dir, "theta"))
	flat := filepath.Join(photos, "class0") // pictures without class folders
	call(cli.Usage, "--labels names them", "tune-theta", file, "--data", flat, "--n", "10", "--out", filepath.Join(dir, "theta"))
	call(cli.OK, "own on soft (tiny), 40 requests", "bench", "rates", file, "--data", photos, "--n", "40", "--rates", "0.7", "--seeds", "1", "--out", filepath.Join(dir, "rates"))
	call(cli.Usage, "name some with --data", "bench", "rates", file, "--out", filepath.Join(dir, "rates"))
	call(cli.OK, "own for tiny, 5 images", "kit", file, "--data", photos, "--n", "5", "--out", filepath.Join(dir, "kit"))
	k, err := kit.Read(filepath.Join(dir, "kit"))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := k.Bundle.Hash(); err != nil || got != hash || len(k.Inputs) != 5 || !slices.Equal(k.Labels[:1], []int{0}) {
		t.Errorf("a kit of bundle %016x, expected %016x, with %d images of classes %v: %v", got, hash, len(k.Inputs), k.Labels, err)
	}
	if _, err := os.Stat(build); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("something was compiled: %v", err)
	}
}

// stubborn is a command that does not stop when its context ends.
func stubborn() {
	ctx, stop := interruptible()
	defer stop()
	fmt.Println("ready")
	<-ctx.Done()
	fmt.Println("first")
	time.Sleep(time.Minute)
}

// The first Ctrl-C asks the command to stop, the second one kills it.
func TestSecondInterrupt(t *testing.T) {
	cmd := exec.Command("stubborn")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for _, want := range []string{"ready", "first"} {
		if !lines.Scan() || lines.Text() != want {
			t.Fatalf("%q, want %q", lines.Text(), want)
		}
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
	}
	again := time.NewTicker(100 * time.Millisecond) // repeated, since the second one may come too early
	defer again.Stop()
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		for {
			select {
			case <-again.C:
				_ = cmd.Process.Signal(os.Interrupt)
			case <-ended:
				return
			}
		}
	}()
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGINT {
		t.Errorf("it ended with %v", err)
	}
}

func TestRunCodes(t *testing.T) {
	for err, want := range map[error]int{
		engine.ErrPolicy: cli.Fault, engine.ErrStuck: cli.Fault, engine.ErrDevice: cli.Device, sched.ErrTable: cli.Input,
		load.ErrLoad: cli.Input, engine.ErrConfig: cli.Input, os.ErrInvalid: cli.Device,
	} {
		if got := runCode(fmt.Errorf("run: %w", err)); got != want {
			t.Errorf("%v: exit code %d, want %d", err, got, want)
		}
	}
}

// verify must notice a wrong device; its message names the seed and the place.
func TestVerifyDocProblems(t *testing.T) {
	d := &verifyDoc{}
	if err := d.problem("layers", fmt.Errorf("seed 7: %w", verify.ErrMismatch)); err != nil || d.Mismatches != 1 || !strings.Contains(d.Problems[0], "seed 7") {
		t.Errorf("%v, %+v", err, d)
	}
	if err := d.problem("layers", os.ErrInvalid); err == nil || d.Mismatches != 1 {
		t.Errorf("an error of the device counts as a mismatch: %v", err)
	}
}

// Help names every policy that --policy accepts, whichever package defines it.
func TestHelpNamesPolicies(t *testing.T) {
	var out bytes.Buffer
	if code := realMain([]string{"run", "--help"}, &out, io.Discard); code != cli.OK {
		t.Fatalf("exit code %d", code)
	}
	words := strings.FieldsFunc(out.String(), func(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune(",.;:()", r) })
	for _, all := range [][]string{sched.Names(), reef.Systems(), strait.Systems()} {
		for _, p := range all {
			if !slices.Contains(words, p) {
				t.Errorf("policy %s is not in run --help", p)
			}
		}
	}
	for _, s := range edge.Systems() {
		if !slices.Contains(words, s.Name) {
			t.Errorf("policy %s is not in run --help", s.Name)
		}
	}
}

func testEnv() *cli.Env {
	return &cli.Env{Ctx: context.Background(), Stdout: &bytes.Buffer{}, Stderr: &bytes.Buffer{}, Log: quiet()}
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func TestExitCodes(t *testing.T) {
	build, empty := t.TempDir(), filepath.Join(t.TempDir(), "empty.onnx")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SLUICE_COSIM", "")
	soft := []string{"--device", "soft", "--config", "tiny", "--network", "tiny", "-n", "4", "--build", build, "--out", t.TempDir()}
	for _, c := range []struct {
		want int
		args []string
	}{
		{cli.OK, append([]string{"run"}, soft...)},
		{cli.OK, []string{"--help"}},
		{cli.Usage, []string{"run", "--nonsense"}},
		{cli.Usage, append([]string{"run", "--policy", "x"}, soft...)},
		{cli.Usage, append([]string{"run", "--theta", "x"}, soft...)},
		{cli.Input, append([]string{"run", "--slo", "1ns"}, soft...)},
		{cli.Input, append([]string{"run", "--network", empty}, soft[:4]...)},
		{cli.Input, []string{"inspect", empty}},
		{cli.Tool, append([]string{"run", "--data", "nowhere"}, soft...)},
		{cli.Input, append([]string{"run", "--data", t.TempDir()}, soft...)},
		{cli.Tool, []string{"doctor", "--data", "nowhere"}},
	} {
		var out, log bytes.Buffer
		if got := realMain(c.args, &out, &log); got != c.want {
			t.Errorf("%v: exit code %d, want %d: %s", c.args, got, c.want, log.String())
		}
	}
	t.Setenv("SLUICE_COSIM", "/bin/false")
	args := append([]string{"run", "--device", "cosim"}, soft[2:]...)
	if got := realMain(args, &bytes.Buffer{}, &bytes.Buffer{}); got != cli.Device {
		t.Errorf("a simulator that ends at once: exit code %d, want %d", got, cli.Device)
	}
}

func TestInputsAreOnTheNetworksScale(t *testing.T) {
	b := &bundle.Bundle{Network: bundle.Network{InFrac: 14}}
	got := inputs(b, &zoo.Images{Pixels: [][]float32{{0, 0.5, 1, 1.0 / 3, 9, -9}}})
	if want := []int16{0, 8192, 16384, 5461, 32767, -32768}; !slices.Equal(got[0], want) {
		t.Errorf("%v, want %v", got[0], want)
	}
}

// Accuracy is over the requests with a result; the float network is evaluated on the same ones.
func TestDescribe(t *testing.T) {
	x := func(class int, conf float32) []device.ExitResult {
		return []device.ExitResult{{Class: class, Confidence: conf}, {Exit: 1, Class: 4, Confidence: 1}}
	}
	s := &experiments.Setup{Inputs: make([][]int16, 3)}
	im := &zoo.Images{Labels: []int{3, 4, 5}}
	res := &engine.Result{Samples: make([]int64, 2), Records: []engine.Record{
		{ID: 1, Exit: 0, Class: 3, Ending: engine.OnTime}, {ID: 2, Exit: 0, Class: 7, Ending: engine.Late}, {ID: 3, Exit: -1, Class: -1, Ending: engine.Cancelled},
	}}
	d := describe(s, im, [][]device.ExitResult{x(3, 0.9), x(0, 0.1), x(5, 0.9)}, experiments.Theta{0.5}, res)
	if *d.Accuracy != 0.5 || *d.AccuracyFloat != 1 || len(d.Results) != 3 || d.Exits[0] != 2 {
		t.Errorf("accuracy %g, float %g, %+v", *d.Accuracy, *d.AccuracyFloat, d)
	}
}

// Any flag that would be ignored is rejected, and the message names the command that uses it.
func TestFlagsThatNothingReads(t *testing.T) {
	var c commands
	k, err := kong.New(&c, policyNames(), kong.Vars{"version": ""})
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string][]string{"bundle": {"--device=soft"}, "gpu-sim": {"--device=gpu-sim:mi50", "--workload=w.json"}, "zoo": {"--zoo=synthetic"}}
	devices := map[string][]string{}
	for _, d := range []string{"cosim", "cuda", "hip", "hls", "soft", "uio"} {
		devices[d] = []string{"--device=" + d}
	}
	refused := 0
	for _, command := range k.Model.Children {
		if command.Name != "run" {
			continue
		}
		for _, f := range command.Flags {
			for tag, choices := range map[string]map[string][]string{"serves": kinds, "device": devices} {
				if f.Tag.Get(tag) == "" {
					continue
				}
				readers := strings.Split(f.Tag.Get(tag), ",")
				for _, r := range readers {
					if choices[r] == nil {
						t.Errorf("--%s: the tag %s names %q, which is none", f.Name, tag, r)
					}
				}
				for name, args := range choices {
					if slices.Contains(readers, name) || f.Name == "device" && name != "zoo" {
						continue
					}
					refused++
					given := "--" + f.Name
					if !f.IsBool() {
						given += "=" + cmp.Or(f.Default, map[string]string{"time": "1s"}[f.Name], "1")
					}
					if f.Enum != "" {
						given = "--" + f.Name + "=" + cmp.Or(f.Default, "measured")
					}
					var log bytes.Buffer
					if code := realMain(slices.Concat([]string{"run"}, args, []string{given}), io.Discard, &log); code != cli.Usage || !strings.Contains(log.String(), "--"+f.Name+" is read by ") {
						t.Errorf("run %v %s: exit code %d: %s", args, given, code, log.String())
					}
				}
			}
		}
	}
	if refused < 50 {
		t.Errorf("%d pairs only", refused)
	}
	for _, args := range [][]string{kinds["gpu-sim"], kinds["zoo"]} { // by name, since a flag without its tag was not checked above
		for _, given := range []string{"--admit", "--no-admit"} {
			var log bytes.Buffer
			if code := realMain(slices.Concat([]string{"run"}, args, []string{given}), io.Discard, &log); code != cli.Usage || !strings.Contains(log.String(), "--admit is read by ") {
				t.Errorf("run %v %s: exit code %d: %s", args, given, code, log.String())
			}
		}
	}
}
