// Package hls_test tests the C-simulation of the HLS kernel: errors must be noticed, and a changed source must be
// rebuilt.
package hls_test

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-npu/sluice/dse/randnet"
	"github.com/sluice-npu/sluice/dse/testvec"
	"github.com/sluice-npu/sluice/hls"
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
	"github.com/sluice-npu/sluice/sim/vectors"
)

type broken struct{ name, file, old, new, want string }

// breaks are deliberate errors in the kernel. All but the first change results; the first can only be seen with
// streams of limited depth.
var breaks = []broken{
	{
		"weights before biases", "read.hpp", "biases:\n  for (int b = 0; b < bias_beats; b++) {", "biases:\n  for (int b = l.gemm ? bias_beats : 0; b < bias_beats; b++) {",
		"deadlock",
	},
	{"a stream that is too short", "npu.cpp", "SLUICE_STAGE(finish(l, biases, sums, residuals, outs));", "SLUICE_STAGE(finish(l, biases, sums, residuals, outs); outs.read());", "deadlock"},
	{"rounding", "write.hpp", "static_cast<s64>(1) << (shift - 1);", "(static_cast<s64>(1) << (shift - 1)) - 1;", "expected"},
	{"an unmasked lane", "read.hpp", "const int lo = col < 0 ? -col : 0;", "const int lo = 0;", "expected"},
	{"the tail of a run", "write.hpp", "word + i < words)", "word + i <= words)", "expected"},
	{"a segment too far", "write.hpp", "at < 0 ? 0 : least(at,", "at < 0 ? 0 : least(at + 1,", "expected"},
	{"a product that is also added", "write.hpp", "const bool adds = l.residual && !(POST && l.product);", "const bool adds = l.residual;", "expected"},
	{"one pixel's first group", "read.hpp", "line = ch == 0 ? 0 : line + 1;", "line = 0;", "expected"},
	{"a depthwise tap", "compute.hpp", "held[word][i])", "held[word & ~1][i])", "expected"},
	{"halves of PEs", "compute.hpp", "const acc_t alone = l.half ? line[c & 1][half_own]", "const acc_t alone = l.half ? line[0][half_own]", "expected"},
}

// requests are errors at the port for results: an answer that is not awaited, and a request whose length differs from
// its loop's.
var requests = []broken{
	{"an answer too few", "write.hpp", "answers:\n  for (int i = 0; i < open; i++) {", "answers:\n  for (int i = 1; i < open; i++) {", "requests are open at the end"},
	{"a request of another length", "write.hpp", "gmem.write_request(first, beats);", "gmem.write_request(first, beats + 1);", "burst_maxi: "},
}

// breaks8 are errors in parts that only int8 has.
var breaks8 = []broken{
	{"a factor of the next channel", "write.hpp", "p * GROUP_WORDS + BIAS_WORDS * (j + 1) - 1]", "p * GROUP_WORDS + (BIAS_WORDS * (j + 1) + 1) % GROUP_WORDS]", "expected"},
	{"padding of zero", "read.hpp", "row.x[i] = in ? v : word_t(l.in_zero);", "row.x[i] = in ? v : word_t(0);", "expected"},
	{"a pool's code of zero", "compute.hpp", "static_cast<s64>(row.x[i]) - l.in_zero;", "static_cast<s64>(row.x[i]);", "expected"},
	{"channels of a pair swapped", "compute.hpp", "const int outer = (pe >> 1) & 1, inner = pe & 1;", "const int outer = (pe >> 1) & 1, inner = ~pe & 1;", "expected"},
	{"a depthwise byte", "compute.hpp", "byte_of(v.w[from], i % 2)", "byte_of(v.w[from], 0)", "expected"},
	{"a residual's addend", "write.hpp", "first + second + operand[3]", "first + second", "expected"},
	{"the output's code of zero behind a curve", "write.hpp", "clamp(POST && l.curve ? y : y + l.out_zero, l)", "clamp(y + l.out_zero, l)", "expected"},
}

func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func run(t *testing.T, dir string, env []string, name string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// networks writes random networks for a configuration.
func networks(t *testing.T, config string, n int) []string {
	t.Helper()
	return written(t, t.TempDir(), config, n)
}

func written(t *testing.T, out, config string, n int) (files []string) {
	t.Helper()
	d, err := configs.Load(config)
	if err != nil {
		t.Fatal(err)
	}
	o := randnet.Built()
	o.MaxMACs = 200_000
	all, err := testvec.Random(out, d, o, testvec.Layout{Limit: testvec.StartLimit}, 1, n)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		files = append(files, f.File)
	}
	return files
}

// TestWrite writes networks with the definitions of the tree that it runs in. TestOneSource calls it in its copy.
func TestWrite(t *testing.T) {
	out := os.Getenv("SLUICE_HLS_VECTORS")
	if out == "" {
		t.Skip("SLUICE_HLS_VECTORS names no folder: TestOneSource does")
	}
	written(t, out, "tiny", 16)
}

// play returns the kernel's output for the vectors, and its exit code; it stops at the first failure.
func play(t *testing.T, dir, src, config string, files []string) (string, int) {
	t.Helper()
	env := []string{"SLUICE_HLS=" + src, "SLUICE_HLS_OUT=" + filepath.Join(t.TempDir(), "built")}
	binary, err := run(t, dir, env, filepath.Join(dir, "hls", "build.sh"), config)
	if err != nil {
		t.Fatalf("%v: %s", err, binary)
	}
	return simulate(t, dir, last(binary), files)
}

// last returns the last line of a build's output: the path of the process.
func last(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

// simulate returns a simulator's output for the vectors, and its exit code; it stops at the first failure.
func simulate(t *testing.T, dir, binary string, files []string) (string, int) {
	t.Helper()
	dram := filepath.Join(t.TempDir(), "dram")
	if err := os.WriteFile(dram, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(dram, 32<<20); err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		text, err := run(t, dir, nil, binary, "--dram", dram, "--play", f)
		if err != nil {
			var exit *exec.ExitError
			if !errors.As(err, &exit) {
				t.Fatal(err)
			}
			return text, exit.ExitCode()
		}
	}
	return "", 0
}

// TestBreaks: C-simulation notices every break, and reports nothing without one.
func TestBreaks(t *testing.T) {
	all := !testing.Short() && os.Getenv("SLUICE_ALL") != "" // weekly
	for _, c := range []struct {
		config   string
		networks int
		list     []broken
		few      []broken
	}{
		{"tinyx", 16, slices.Concat(breaks, requests), []broken{breaks[1], requests[0]}},
		{eight(t), 40, breaks8, nil},
	} {
		list := c.few
		if all {
			list = c.list
		}
		if len(list) == 0 {
			continue
		}
		dir := root(t)
		files := networks(t, c.config, c.networks)
		if text, code := play(t, dir, "hls/src", c.config, files); code != 0 {
			t.Fatalf("%s: the kernel as it is: exit %d: %s", c.config, code, text)
		}
		for _, b := range list {
			t.Run(b.name, func(t *testing.T) {
				said, code := play(t, dir, changed(t, b.file, b.old, b.new), c.config, files)
				if code == 0 || !strings.Contains(said, b.want) {
					t.Errorf("exit %d, %q; want %q", code, said, b.want)
				}
			})
		}
	}
}

// eight writes a file with tinyx in int8, where a chain needs four multipliers or more.
func eight(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root(t), "hw", "configs", "tinyx.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "eight.yaml")
	of8 := strings.NewReplacer("name: tinyx\n", "name: eight\ntype: int8\n", "TP: 3\n", "TP: 4\n").Replace(string(text))
	if err := os.WriteFile(file, []byte(of8), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestShortStream: if weights are sent before the biases, streams of the kernel's depth fill up while finish waits
// for the biases. That is a deadlock in hardware, and is reported here. With streams of unlimited depth, as in the
// vendor's C-simulation, the same kernel passes every vector.
func TestShortStream(t *testing.T) {
	dir, src := root(t), t.TempDir()
	if err := os.CopyFS(src, os.DirFS(filepath.Join(dir, "hls", "src"))); err != nil {
		t.Fatal(err)
	}
	change := func(file string, edit func(string) string) {
		t.Helper()
		path := filepath.Join(src, file)
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		out := edit(string(text))
		if out == string(text) {
			t.Fatalf("%s: nothing to change", file)
		}
		if err := os.WriteFile(path, []byte(out), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	change("read.hpp", func(text string) string {
		before, rest, ok := strings.Cut(text, "biases:\n  for (int b = 0;")
		loop, after, ok2 := strings.Cut(rest, "  if (l.pool) return;\n")
		head, tail, ok3 := strings.Cut(after, "}\n\n// feed_weights cuts")
		if !ok || !ok2 || !ok3 {
			return text
		}
		head = strings.Replace(head, "while (more) {", "while (!l.pool && more) {", 1)
		return before + head + "biases:\n  for (int b = 0;" + loop + "}\n\n// feed_weights cuts" + tail
	})
	files := networks(t, "tiny", 16)
	if said, code := play(t, dir, src, "tiny", files); code != 6 || !strings.Contains(said, "deadlock") ||
		!strings.Contains(said, "finish") || !strings.Contains(said, "biases is not empty") || !strings.Contains(said, "weights is not full") {
		t.Errorf("streams as deep as they are: exit %d: %s", code, said)
	}
	change("params.hpp", func(text string) string {
		return regexp.MustCompile(`constexpr int BEATS_DEPTH = \d+;`).ReplaceAllString(text, "constexpr int BEATS_DEPTH = 1 << 20;")
	})
	if said, code := play(t, dir, src, "tiny", files); code != 0 {
		t.Errorf("a stream that never fills: exit %d: %s", code, said)
	}
}

// TestBuildFails: building a kernel that does not compile fails, also the second time, and also if an older build has
// left all its files.
func TestBuildFails(t *testing.T) {
	dir, src, out := root(t), t.TempDir(), filepath.Join(t.TempDir(), "built")
	if err := os.CopyFS(src, os.DirFS(filepath.Join(dir, "hls", "src"))); err != nil {
		t.Fatal(err)
	}
	if said, err := run(t, dir, nil, filepath.Join(dir, "hls", "build.sh"), "tiny"); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	if err := os.CopyFS(out, os.DirFS(filepath.Join(dir, "build", "cosim", "tiny-hls"))); err != nil {
		t.Fatal(err)
	}
	for _, f := range []string{"hash", "npu.hash"} {
		if err := os.WriteFile(filepath.Join(out, f), []byte("older\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(src, "npu.cpp")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append(text, "static int broken = missing;\n"...), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, call := range []string{"first", "second"} {
		said, err := run(t, dir, []string{"SLUICE_HLS=" + src, "SLUICE_HLS_OUT=" + out}, filepath.Join(dir, "hls", "build.sh"), "tiny")
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.Contains(said, "npu.cpp") || !strings.Contains(said, "missing") {
			t.Errorf("%s call: %v: %s", call, err, said)
		}
		for _, f := range []string{"hash", "npu.hash"} {
			if text, err := os.ReadFile(filepath.Join(out, f)); err != nil || string(text) != "older\n" {
				t.Errorf("%s call: %s is %q, %v", call, f, text, err)
			}
		}
	}
}

// TestBehind4GiB: a tensor whose rows continue at offsets of 33 bits leaves its slot, as in the RTL (run_gen's and
// act_loader's benches). No slot of the vectors is that large.
func TestBehind4GiB(t *testing.T) {
	const program = `
#include "npu.hpp"
#include "layer.hpp"
// the last offset that fits 32 bits, and one row more; a single row, which fits
int main() {
  const npu::u32 stride = 0xFFFFFFC0, last = 0xFFFF0000, row_bytes = 0x10000;
  npu::u32 at = 1;
  const bool two = npu::rows_leave(last, row_bytes, 0, 2, false, 0, 1, 32768, 4, stride, at);
  npu::u32 none = 1;
  const bool one = npu::rows_leave(last, row_bytes, 0, 1, false, 0, 1, 32768, 4, stride, none);
  return (two && at == 0 ? 0 : 1) | (one ? 2 : 0);
}`
	if said, err := compiled(t, "tiny", filepath.Join(root(t), "hls", "src"), program); err != nil {
		t.Errorf("%v (1: the second row is in the slot, 2: the first is not) %s", err, said)
	}
}

// compiled runs a program beside the kernel's source for a configuration.
func compiled(t *testing.T, config, src, program string) (string, error) {
	t.Helper()
	dir, out := root(t), t.TempDir()
	d, err := configs.Load(config)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"sluice_design.hpp": string(d.CPPHeader(1)), "program.cpp": program} {
		if err := os.WriteFile(filepath.Join(out, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	binary := filepath.Join(out, "program")
	args := []string{
		"-std=c++14", "-Wno-unknown-pragmas", "-Wno-unused-label", "-I" + out, "-I" + src, "-Ihls/include", "-Ihls/standin",
		"-Ihls/standin/blocks", "-Ihls/csim", "-Isim/include", filepath.Join(out, "program.cpp"), "-o", binary,
	}
	if said, err := run(t, dir, nil, "g++", args...); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	return run(t, dir, nil, binary)
}

// TestPacked: two channels of int8 share a multiplier. The results are exact at the extremes of weights and elements, and
// wrong with one more product per segment.
func TestPacked(t *testing.T) {
	const program = `
#include "compute.hpp"
#include <cstdio>
int main() {
  using namespace npu;
  static pes_t pes;
  static bank_t bank;
  const layer_t l = layer_t();
  const int ends[] = {-127, -1, 0, 1, 127}, elements[] = {-128, -1, 0, 1, 127};
  int wrong = 0;
  for (int even : ends)
    for (int odd : ends)
      for (int x : elements) {
        vec_t v;
        for (int i = 0; i < VEC; i++) v.w[i] = odd * 256 + (even & 255);
        for (int c = 0; c < CHAINS; c++) hold(l, v, c, pes);
        row_t row;
        for (int i = 0; i < NB; i++) row.x[i] = x;
        step(l, row, pes, 0, true, bank);
        for (int pe = 0; pe < T_C; pe++) wrong += bank[0][pe][0] != T_P * x * (pe % 2 ? odd : even);
      }
  std::printf("%d wrong\n", wrong);
  return wrong != 0;
}`
	src := filepath.Join(root(t), "hls", "src")
	if said, err := compiled(t, "v13-int8", src, program); err != nil {
		t.Errorf("%v: %s", err, said)
	}
	more := changed(t, "params.hpp", "constexpr int SEGMENT = 4;", "constexpr int SEGMENT = 5;")
	if said, err := compiled(t, "v13-int8", more, program); err == nil {
		t.Errorf("with five products a segment: %s", said)
	}
}

// TestRoundEven: ties, which are rare in random networks, and extremes of 16 bits are rounded as by golden. Rounding half
// away from zero is noticed.
func TestRoundEven(t *testing.T) {
	var cases strings.Builder
	for n := range uint8(abi.ShiftMax + 1) {
		for k := int64(-5); k <= 5; k++ {
			for _, x := range []int64{k << max(n, 1) >> 1, k<<max(n, 1)>>1 + 1, (32767 + k) << n} {
				if x >= -1<<48 && x < 1<<48 {
					fmt.Fprintf(&cases, "{%d, %d, %d},\n", x, n, min(max(abi.RoundEven(x, n), -32768), 32767))
				}
			}
		}
	}
	program := `
#include "write.hpp"
const struct { long long x; int n; int y; } cases[] = {` + cases.String() + `};
int main() {
  for (const auto &c : cases)
    if (npu::round_even(c.x, c.n) != c.y) return 1;
  return 0;
}`
	if said, err := compiled(t, "v13-int8", filepath.Join(root(t), "hls", "src"), program); err != nil {
		t.Errorf("%v: %s", err, said)
	}
	away := changed(t, "write.hpp", "(static_cast<s64>(1) << (shift - 1)) - 1 + ((x >> shift) & 1);", "static_cast<s64>(1) << (shift - 1);")
	if said, err := compiled(t, "v13-int8", away, program); err == nil {
		t.Errorf("half away from zero: %s", said)
	}
}

// changed returns a copy of the kernel's source in which a text, which must occur once, is replaced.
func changed(t *testing.T, file, old, with string) string {
	t.Helper()
	src := t.TempDir()
	if err := os.CopyFS(src, hls.Source()); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(src, file)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Count(string(text), old) != 1 {
		t.Fatalf("%s: %q is there %d times", file, old, strings.Count(string(text), old))
	}
	if err := os.WriteFile(path, []byte(strings.Replace(string(text), old, with, 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	return src
}

// numbers lists the integers of 8 and more that may be written in the kernel, by file.
var numbers = map[string]map[string]string{
	"layer.hpp": {"20": "MAX_TRIPS, a bound for synthesis"},
	"npu.cpp":   {"32": "a descriptor's word", "31": "a descriptor's word"},
	"params.hpp": {
		"8": "bits of a byte, AXI_BYTES, COUNT_BITS", "17": "PACK_SHIFT, which hw proves", "127": "largest weight of int8", "128": "largest element of int8", "16": "least T_R, DSP, AXI_BYTES, depths, GROUP_BITS", "32": "an FBCB entry is a word",
		"64": "depth of a stream",
	},
	"write.hpp": {"32": "a bias", "31": "a bias"},
}

// TestClamp: with swapped bounds, which the bundle's validator rejects but every kernel accepts, golden, this kernel
// and the RTL compute the same.
func TestClamp(t *testing.T) {
	dir, out := root(t), t.TempDir()
	d, err := configs.Load("tiny")
	if err != nil {
		t.Fatal(err)
	}
	o := randnet.Built()
	o.MaxMACs = 20000
	var files []string
	for seed := range uint64(8) {
		net, err := randnet.New(seed+1, d, o)
		if err != nil {
			t.Fatal(err)
		}
		rng := rand.New(rand.NewPCG(seed, 1))
		for i := range net.Bundle.Layers {
			l := &net.Bundle.Layers[i]
			l.ClampHi = int16(rng.IntN(1<<12) - 1<<11)
			l.ClampLo = l.ClampHi + 1 + int16(rng.IntN(1<<10))
		}
		if err := net.Bundle.Validate(); err == nil || !strings.Contains(err.Error(), "clamp from") {
			t.Fatalf("the validator: %v", err)
		}
		records, err := testvec.FromBundle(net.Bundle, rng, 1+int(seed), testvec.Layout{Limit: testvec.StartLimit})
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, filepath.Join(out, strconv.FormatUint(seed, 10)+".vec"))
		if err := vectors.WriteFile(files[seed], records); err != nil {
			t.Fatal(err)
		}
	}
	for _, build := range []string{"hls/build.sh", "sim/build.sh"} {
		text, err := run(t, dir, nil, filepath.Join(dir, build), "tiny")
		if err != nil {
			t.Fatalf("%s: %v: %s", build, err, text)
		}
		if text, code := simulate(t, dir, last(text), files); code != 0 {
			t.Errorf("%s tiny: exit %d: %s", build, code, text)
		}
	}
}

// TestNumbers: widths, offsets, codes and limits are never written in the kernel as numbers; only the numbers in the
// list above are allowed.
func TestNumbers(t *testing.T) {
	number := regexp.MustCompile(`\b(?:0[xX][0-9a-fA-F]+|[0-9]+)[uUlL]*\b`)
	beside := regexp.MustCompile(`//.*|"[^"]*"|\bu?int(?:8|16|32|64)_t\b|to_u?int64\b`)
	width := regexp.MustCompile(`ap_u?int<\s*([0-9]+)\s*>`)
	fsys := hls.Source()
	files, err := fs.Glob(fsys, "*")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		text, err := fs.ReadFile(fsys, f)
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(string(text), "\n") {
			if strings.HasPrefix(strings.TrimSpace(line), "#pragma HLS interface") {
				line = strings.NewReplacer("num_read_outstanding=16", "", "num_write_outstanding=16", "").Replace(line)
			}
			if g := width.FindStringSubmatch(line); g != nil && g[1] != "1" {
				t.Errorf("%s:%d: a width as a number: expected a name of hw/abi: %s", f, i+1, strings.TrimSpace(line))
			}
			for _, n := range number.FindAllString(beside.ReplaceAllString(line, ""), -1) {
				v, err := strconv.ParseUint(strings.TrimRight(n, "uUlL"), 0, 64)
				if err != nil || v >= 8 && numbers[f][n] == "" {
					t.Errorf("%s:%d: the number %s: expected a name of hw/abi or hw/configs, or a reason in numbers (hls_test.go): %s", f, i+1, n, strings.TrimSpace(line))
				}
			}
		}
	}
}

// TestOneSource: registers, descriptor and FBCB are defined in hw/abi/abi.yaml, sizes in hw/configs. This test
// changes both in a copy (fields and registers moved, a constant, a size) and generates everything anew. The kernel
// must still compute the same as golden, so no definition is repeated in hls.
func TestOneSource(t *testing.T) {
	from, dir := root(t), t.TempDir()
	for _, name := range []string{"go.mod", "go.sum", "boards", "bitstreams", "dse", "host", "hls", "hw", "sim"} {
		info, err := os.Stat(filepath.Join(from, name))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(dir, name)
		if info.IsDir() {
			err = os.CopyFS(to, os.DirFS(filepath.Join(from, name)))
		} else {
			err = os.Link(filepath.Join(from, name), to)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	edit := func(file string, pairs ...string) {
		path := filepath.Join(dir, file)
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		out := string(text)
		for i := 0; i < len(pairs); i += 2 {
			if strings.Count(out, pairs[i]) != 1 {
				t.Fatalf("%s: %q is there %d times", file, pairs[i], strings.Count(out, pairs[i]))
			}
			out = strings.Replace(out, pairs[i], pairs[i+1], 1)
		}
		if err := os.WriteFile(path, []byte(out), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	edit("hw/abi/abi.yaml",
		"name: DESC_MAGIC,  value: 0xD5", "name: DESC_MAGIC,  value: 0x6A",
		"{name: KEEP_IN,   lsb: 7,", "{name: ON_CHIP,   lsb: 7,",
		"{name: ON_CHIP,   lsb: 9,", "{name: KEEP_IN,   lsb: 9,",
		"{name: IN_H,       word: 4,", "{name: OUT_H,      word: 4,",
		"{name: OUT_H,      word: 6,", "{name: IN_H,       word: 6,",
		"{name: SLOT_STRIDE,   offset: 0x078", "{name: WATCHDOG,      offset: 0x078",
		"{name: WATCHDOG,      offset: 0x080", "{name: SLOT_STRIDE,   offset: 0x080",
		"{name: MAX_POOL, value: 1", "{name: AVG_POOL, value: 1",
		"{name: AVG_POOL, value: 2", "{name: MAX_POOL, value: 2",
	)
	edit("hw/configs/tiny.yaml", "TP: 3", "TP: 4", "TC: 4", "TC: 8", "abuf_words: 256", "abuf_words: 128")
	if text, err := run(t, dir, nil, "go", "run", "./hw/abi/gen"); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	rtl, err := filepath.Glob(filepath.Join(dir, "hw", "rtl", "*.sv"))
	if err != nil {
		t.Fatal(err)
	}
	lint := append([]string{"--lint-only", "--top-module", "npu_top", filepath.Join(dir, "hw", "rtl", "abi_pkg.sv")},
		slices.DeleteFunc(rtl, func(f string) bool { return strings.HasSuffix(f, "abi_pkg.sv") })...)
	if text, err := run(t, dir, nil, "verilator", lint...); err != nil {
		t.Fatalf("verilator (package verilator): %v: %s", err, text)
	}
	// numbers that hw/rtl repeats (elaboration stops if a width differs)
	edit("hw/abi/abi.yaml",
		// widths
		"bits: 6, count: 8, doc: slot of batch position", "bits: 5, count: 8, doc: slot of batch position",
		"bits: 7, doc: slots there are", "bits: 6, doc: slots there are",
		"{name: B_ACT, lsb: 0, bits: 4,", "{name: B_ACT, lsb: 0, bits: 5,",
		"{name: LAYER, lsb: 8,  bits: 8,", "{name: LAYER, lsb: 8,  bits: 9,",
		"{name: PORT,  lsb: 16, bits: 4,", "{name: PORT,  lsb: 17, bits: 4,",
		// codes and limits
		"{name: K_ONE,       value: 0,", "{name: K_ONE,       value: 1,",
		"{name: K_HALF,      value: 1,", "{name: K_HALF,      value: 0,",
		"{name: SHIFT_MAX,   value: 47,", "{name: SHIFT_MAX,   value: 46,",
	)
	if text, err := run(t, dir, nil, "go", "run", "./hw/abi/gen"); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	// codes and limits are not part of a hash: a test compares hw/rtl's numbers with them and names the differences
	text, err := run(t, dir, nil, "go", "test", "-vet=off", "-count", "1", "-run", "^TestLimits$", "./hw/abi")
	for _, name := range []string{"K_ONE is 1", "K_HALF is 0", "SHIFT_MAX is 46"} {
		if err == nil || !strings.Contains(text, "hw/abi/abi.yaml's limit "+name) {
			t.Errorf("hw/rtl beside a source whose %s: %v: %s", name, err, text)
		}
	}
	out := t.TempDir()
	if text, err := run(t, dir, []string{"SLUICE_HLS_VECTORS=" + out}, "go", "test", "-vet=off", "-count", "1", "-run", "^TestWrite$", "./hls"); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	files, err := filepath.Glob(filepath.Join(out, "*.vec"))
	if err != nil || len(files) != 16 {
		t.Fatalf("%d vectors, %v", len(files), err)
	}
	if text, code := play(t, dir, "hls/src", "tiny", files); code != 0 {
		t.Fatalf("exit %d: %s", code, text)
	}
	// and the kernel of the unchanged source rejects these vectors: they are for another interface
	if text, code := play(t, from, "hls/src", "tiny", files); code == 0 || !strings.Contains(text, "register") {
		t.Fatalf("the true source's kernel: exit %d: %s", code, text)
	}
}
