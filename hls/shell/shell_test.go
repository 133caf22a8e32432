// Package shell_test plays vectors on npu_top with the HLS kernel instead of npu_core. The shell connects hw's
// registers, FBCB, interrupt and ports to the kernel. A stand-in for the RTL that Vitis exports runs the kernel's C++.
package shell_test

import (
	"fmt"
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
	"github.com/sluice-npu/sluice/host/npu"
	"github.com/sluice-npu/sluice/hw/abi"
	"github.com/sluice-npu/sluice/hw/configs"
	"github.com/sluice-npu/sluice/sim/vectors"
)

func command(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = "../.."
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v: %s", name, err, out)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return lines[len(lines)-1]
}

var cyclesRE = regexp.MustCompile(`, (\d+) cycles: ok`)

// play returns the cycles of a file, or the process' error message.
func play(t *testing.T, binary string, size int64, file string, args ...string) (cycles uint64, said string) {
	t.Helper()
	dram := filepath.Join(t.TempDir(), "dram")
	if err := os.WriteFile(dram, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(dram, size); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(filepath.Join("../..", binary), append([]string{"--dram", dram, "--base", "0", "--play", file}, args...)...).CombinedOutput()
	g := cyclesRE.FindStringSubmatch(string(out))
	if err != nil || g == nil {
		return 0, fmt.Sprintf("%v: %s", err, out)
	}
	cycles, err = strconv.ParseUint(g[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return cycles, ""
}

func networks(t *testing.T, config string, n int) (files []string) {
	t.Helper()
	d, err := configs.Load(config)
	if err != nil {
		t.Fatal(err)
	}
	o := randnet.Built()
	o.MaxMACs = 20000
	all, err := testvec.Random(t.TempDir(), d, o, testvec.Layout{Limit: testvec.StartLimit}, 1, n)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		files = append(files, f.File)
	}
	return files
}

const memory = 1 << 20 // more than the stand-in reads

// ends expects a start to end with an error.
func ends(at []vectors.Record, code, layer uint32) []vectors.Record {
	return append(at,
		vectors.Run{MaxCycles: 100_000, ExpectIRQ: true},
		vectors.RegExpect{Off: abi.RegError, Mask: abi.RegErrorCodeMask | abi.RegErrorLayerMask | abi.RegErrorPortMask, Val: code<<abi.RegErrorCodeLSB | layer<<abi.RegErrorLayerLSB},
		vectors.RegExpect{Off: abi.RegIRQStatus, Mask: 3, Val: abi.RegIRQStatusErrorMask},
		vectors.RegExpect{Off: abi.RegStatus, Mask: abi.RegStatusBusyMask, Val: 0},
		vectors.RegWrite{Off: abi.RegIRQStatus, Val: 3})
}

// reset is a file whose first start is ended by a soft reset after the given number of cycles; the starts after it
// run normally.
func reset(t *testing.T, name string, records []vectors.Record, start int, after uint64) string {
	t.Helper()
	r := slices.Clone(records[:start+1])
	r = append(r, vectors.Run{MaxCycles: after}, vectors.RegExpect{Off: abi.RegStatus, Mask: abi.RegStatusBusyMask, Val: abi.RegStatusBusyMask},
		vectors.RegWrite{Off: abi.RegCtrl, Val: abi.RegCtrlSoftResetMask})
	r = ends(r, uint32(abi.ErrSoftReset), 0)
	return write(t, name, append(r, records[start:]...))
}

func write(t *testing.T, name string, records []vectors.Record) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := vectors.WriteFile(file, records); err != nil {
		t.Fatal(err)
	}
	return file
}

// One memory port shared by all four ports of the kernel, with vectors of several layers per start.
func TestShell(t *testing.T) {
	binary := command(t, "hls/shell/build.sh", "tiny")
	bus, err := npu.OpenCosim(t.Context(), npu.CosimOpts{Binary: filepath.Join("../..", binary)})
	if err != nil {
		t.Fatal(err)
	}
	defer bus.Close()
	if got := bus.Info().Kind; got != npu.CosimShell {
		t.Errorf("it calls itself %q, expected %q: checks of counters go by that", got, npu.CosimShell)
	}
	files := networks(t, "tiny", 4)
	for _, f := range files {
		if _, said := play(t, binary, memory, f); said != "" {
			t.Errorf("%s: %s", filepath.Base(f), said)
		}
	}
	records, err := vectors.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	start := slices.Index(records, vectors.Record(vectors.RegWrite{Off: abi.RegCtrl, Val: abi.RegCtrlStartMask}))
	if start < 0 {
		t.Fatal("no start")
	}
	// soft resets while the FBCB is read, memory is read, results are written: the start ends with SOFT_RESET, and
	// the next start is correct
	whole, said := play(t, binary, memory, files[0])
	if said != "" {
		t.Fatal(said)
	}
	moments := []uint64{100, 2500, 2600, 50_000}
	for at := whole - 520; at < whole-400; at += 4 { // covers a burst of results and its answer, in steps shorter than its data
		moments = append(moments, at)
	}
	for _, after := range moments {
		if _, said := play(t, binary, memory, reset(t, "reset.vec", records, start, after)); said != "" {
			t.Errorf("a soft reset after %d cycles: %s", after, said)
		}
	}
	// the same while memory accepts a beat only every eight cycles, so that offered beats must wait unchanged
	// (axi_offers_checker)
	slow := []string{"--bandwidth", "1"}
	waiting, err := vectors.ReadFile(files[2])
	if err != nil {
		t.Fatal(err)
	}
	at := slices.Index(waiting, vectors.Record(vectors.RegWrite{Off: abi.RegCtrl, Val: abi.RegCtrlStartMask}))
	whole, said = play(t, binary, memory, files[2], slow...)
	if said != "" || at < 0 {
		t.Fatal(at, said)
	}
	for after := whole - 4500; after < whole-600; after += 97 {
		r := slices.Clone(waiting[:at+1])
		r = append(r, vectors.Run{MaxCycles: after}, vectors.RegExpect{Off: abi.RegStatus, Mask: abi.RegStatusBusyMask, Val: abi.RegStatusBusyMask},
			vectors.RegWrite{Off: abi.RegCtrl, Val: abi.RegCtrlSoftResetMask})
		r = ends(r, uint32(abi.ErrSoftReset), 0)
		if _, said := play(t, binary, memory, write(t, "slow.vec", r), slow...); said != "" {
			t.Errorf("memory is slow, a soft reset after %d cycles: %s", after, said)
		}
	}
	// a kernel that never ends: the watchdog ends the start; it does not end a kernel that is working
	t.Setenv("SLUICE_STANDIN_HANGS", "1")
	hung := slices.Clone(records[:start])
	hung = append(hung, vectors.RegWrite{Off: abi.RegWatchdog, Val: 2000}, records[start])
	if _, said := play(t, binary, memory, write(t, "hung.vec", ends500(hung, abi.ErrWatchdog))); said != "" {
		t.Errorf("a kernel that never ends: %s", said)
	}
	os.Unsetenv("SLUICE_STANDIN_HANGS")
	watched := slices.Clone(records[:start])
	watched = append(watched, vectors.RegWrite{Off: abi.RegWatchdog, Val: 2000})
	if _, said := play(t, binary, memory, write(t, "watched.vec", append(watched, records[start:]...))); said != "" {
		t.Errorf("a watchdog that has nothing to say: %s", said)
	}
	// an error of the kernel, with its layer
	r := slices.Clone(records[:start])
	r = append(r, vectors.RegWrite{Off: abi.RegBatch, Val: 0}, records[start])
	if _, said := play(t, binary, memory, write(t, "batch.vec", ends500(r, abi.ErrBatchRange))); said != "" {
		t.Errorf("no samples: %s", said)
	}
	// memory that ends inside the area that the stand-in reads: a bus error ends the start, although the kernel ignores it
	r = slices.Clone(records[:start+1])
	if _, said := play(t, binary, 256<<10, write(t, "bus.vec", ends500(r, abi.ErrReadDECERR))); said != "" {
		t.Errorf("memory that ends: %s", said)
	}
}

// TestPorts: the kernel's four ports on one, two, three and four memory ports of 8 and of 16 bytes. One
// configuration; all of them if SLUICE_ALL is set.
func TestPorts(t *testing.T) {
	names, n := []string{"v7"}, 2
	if os.Getenv("SLUICE_ALL") != "" {
		names, n = []string{"v5", "v7", "v8", "v13"}, 8
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			binary := command(t, "hls/shell/build.sh", name)
			for i, f := range networks(t, name, n) {
				whole, said := play(t, binary, memory, f)
				if said != "" {
					t.Fatalf("%s: %s", filepath.Base(f), said)
				}
				slow := []string{"--bandwidth", "1"}
				if _, said := play(t, binary, memory, f, slow...); said != "" {
					t.Errorf("%s, memory is slow: %s", filepath.Base(f), said)
				}
				if i > 0 {
					continue
				}
				records, err := vectors.ReadFile(f)
				if err != nil {
					t.Fatal(err)
				}
				start := slices.Index(records, vectors.Record(vectors.RegWrite{Off: abi.RegCtrl, Val: abi.RegCtrlStartMask}))
				if start < 0 {
					t.Fatal("no start")
				}
				for _, after := range []uint64{100, 2600, 50_000, whole - 480} {
					if _, said := play(t, binary, memory, reset(t, "reset.vec", records, start, after)); said != "" {
						t.Errorf("a soft reset after %d cycles: %s", after, said)
					}
				}
			}
		})
	}
}

// ends500 is ends for a start that first runs completely.
func ends500(r []vectors.Record, code abi.ErrCode) []vectors.Record {
	all := ends(r, uint32(code), 0)
	for i, x := range all {
		if run, ok := x.(vectors.Run); ok {
			run.MaxCycles = 2_000_000
			all[i] = run
		}
	}
	return all
}

// Lint of the shell for every number of memory ports; a folder without the kernel is rejected.
func TestLint(t *testing.T) {
	for n := 1; n <= 4; n++ {
		cmd := exec.Command("verilator", "--lint-only", "-Wall", "-Wno-PINCONNECTEMPTY", "--top-module", "npu_core", fmt.Sprintf("-GN_AXI=%d", n),
			"../../hw/rtl/abi_pkg.sv", "npu_core.sv", "sluice_npu.sv", "axi_offers_checker.sv")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("verilator (package verilator), %d ports: %v: %s", n, err, out)
		}
	}
	// an export is found in its own folder and in the flow's folder, of either tool; it reads its tables from there
	for _, sub := range []string{".", "npu/solution/syn/verilog", "work/hls/syn/verilog"} {
		flow := t.TempDir()
		if err := os.MkdirAll(filepath.Join(flow, sub), 0o755); err != nil {
			t.Fatal(err)
		}
		text := "module sluice_npu;\n  reg [7:0] m[0:3];\n  initial $readmemh(\"./table.dat\", m);\nendmodule\n"
		if err := os.WriteFile(filepath.Join(flow, sub, "sluice_npu.v"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("./build.sh", "tiny", "--rtl", flow)
		cmd.Env = append(os.Environ(), "SLUICE_SHELL_LIST=1")
		out, err := cmd.CombinedOutput()
		list := strings.Split(strings.TrimSpace(string(out)), "\n")
		if err != nil {
			t.Fatalf("%s: %v: %s", sub, err, out)
		}
		got, err := os.ReadFile(list[len(list)-1])
		if want := `$readmemh("` + filepath.Join(flow, sub, "table.dat") + `", m)`; err != nil || !strings.Contains(string(got), want) {
			t.Errorf("%s: %v: %s, want %s", sub, err, got, want)
		}
	}
	cmd := exec.Command("./build.sh", "tiny", "--rtl", t.TempDir())
	if out, err := cmd.CombinedOutput(); err == nil || cmd.ProcessState.ExitCode() != 3 || !strings.Contains(string(out), "module sluice_npu") {
		t.Errorf("%v: %s", err, out)
	}
}
