package cuda_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-npu/sluice/host/device"
	"github.com/sluice-npu/sluice/host/gpu/cuda"
	"github.com/sluice-npu/sluice/host/gpu/cuda/driver"
	"github.com/sluice-npu/sluice/host/gpu/cuda/fake"
	"github.com/sluice-npu/sluice/host/gpu/cuda/kernels"
)

// Masks of CUs separate the streams of any sets of units, in the steps of each generation. A mask that would hang a queue
// is never used.
func TestCUMasks(t *testing.T) {
	_, h := of(t, driver.HIP)
	defer func() { h.GPUs(1, 60); h.Capability(90) }()
	for _, c := range []struct {
		capability, cus    int
		units, each, alike int
	}{
		{90, 60, 60, 1, 1}, // MI50
		{90, 64, 64, 1, 1},
		{103, 40, 20, 2, 2}, // RDNA: whole pairs
		{110, 33, 16, 2, 2}, // an odd last CU belongs to the last pair
		{94, 38, 4, 8, 1},   // consecutive bits belong to different dies: each die gets one of eight neighbours
		{94, 304, 38, 8, 1},
	} {
		t.Run(fmt.Sprintf("gfx%d with %d CUs", c.capability, c.cus), func(t *testing.T) {
			h.Capability(c.capability)
			h.GPUs(1, c.cus)
			r := start(t, hip(t))
			info := r.d.Info()
			if info.Name != "hip" || info.Units != c.units || info.Neighbours || info.Label != "simulated" {
				t.Fatalf("%+v: %+v", c, info)
			}
			var odd, even device.Units
			for i := range c.units {
				if i%2 == 0 {
					even[i/64] |= 1 << (i % 64)
				} else {
					odd[i/64] |= 1 << (i % 64)
				}
			}
			seen := map[int]int{}
			for _, u := range []device.Units{odd, even} {
				w, err := r.d.Probe(u)
				if err != nil {
					t.Fatal(err)
				}
				if len(w.SMs) != w.Want && c.cus%c.each == 0 {
					t.Errorf("%+v: units %v ran on %d CUs, expected %d", c, u, len(w.SMs), w.Want)
				}
				for _, cu := range w.SMs {
					seen[cu]++
				}
			}
			for cu := range (c.cus + c.alike - 1) / c.alike {
				if seen[cu] != 1 {
					t.Errorf("%+v: CU %d is in %d partitions of two", c, cu, seen[cu])
				}
			}
			if _, err := r.d.Probe(device.UnitRange(c.units, 1)); !errors.Is(err, device.ErrRequest) {
				t.Errorf("%+v: a unit beyond: %v", c, err)
			}
		})
	}
}

// A mask that would hang is rejected before the runtime sees it.
func TestBadMasks(t *testing.T) {
	path, h := of(t, driver.HIP)
	lib, err := driver.Open(driver.HIP, path)
	if err != nil {
		t.Fatal(err)
	}
	runtime.LockOSThread() // whose the context is
	defer runtime.UnlockOSThread()
	if err := lib.SetCurrent(1); err != nil {
		t.Fatal(err)
	}
	h.Log(1)
	for _, c := range []struct {
		mask    []uint32
		n, step int
	}{
		{[]uint32{0, 0}, 60, 1},       // none
		{[]uint32{1}, 60, 1},          // too short
		{[]uint32{1, 0, 0}, 60, 1},    // too long
		{nil, 60, 1},                  // not there
		{[]uint32{0, 1 << 28}, 60, 1}, // beyond
		{[]uint32{1, 0}, 40, 2},       // half a pair
		{[]uint32{6, 0}, 40, 2},       // halves of two
		{[]uint32{0x7f, 0}, 64, 8},    // a die without a CU
		{[]uint32{1}, 8, 0},           // no step
	} {
		if s, err := lib.NewMaskedStream(c.mask, c.n, c.step); !errors.Is(err, driver.ErrMask) || s != 0 {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if calls := h.Calls(); len(calls) != 0 {
		t.Errorf("the runtime saw %v", calls)
	}
	h.Log(0)
	s, err := lib.NewMaskedStream([]uint32{3, 0}, 40, 2)
	if err != nil {
		t.Fatal(err)
	}
	if err := lib.FreeStream(s); err != nil || h.Open() != 0 || len(h.Faults()) != 0 {
		t.Errorf("%v, %d open, %v", err, h.Open(), h.Faults())
	}
	if _, err := driver.Open(driver.HIP, filepath.Join(t.TempDir(), "libamdhip64.so")); !errors.Is(err, driver.ErrMissing) || !strings.Contains(err.Error(), "ROCm") {
		t.Errorf("no runtime: %v", err)
	}
	if _, err := cuda.New(cuda.Config{API: driver.HIP, Library: path}); err == nil || !strings.Contains(err.Error(), "hipErrorInvalidKernelFile") {
		t.Errorf("PTX on AMD's: %v", err)
	}
}

// Objects are compiled with Debian's tools, with -cuda.every for each generation and optimised. They contain the hash of
// their sources, and other files are rejected.
func TestObject(t *testing.T) {
	archs, level := []string{"gfx906"}, "-O0"
	if *everyCall {
		archs, level = append(archs, "gfx90a", "gfx1030"), "-O3"
	}
	for _, arch := range archs {
		at, err := fake.Kernels(fake.Dir(), arch, level)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := kernels.Object(at); err != nil {
			t.Errorf("%s: %v", arch, err)
		}
	}
	at, err := fake.Kernels(fake.Dir(), "gfx906", "-O0")
	if err != nil {
		t.Fatal(err)
	}
	good, err := os.ReadFile(at)
	if err != nil {
		t.Fatal(err)
	}
	change := func(from, to string) []byte {
		if !bytes.Contains(good, []byte(from)) {
			t.Fatalf("the object has no %q", from)
		}
		return bytes.ReplaceAll(good, []byte(from), []byte(to))
	}
	machine := slices.Clone(good)
	machine[18] = 62
	for what, image := range map[string][]byte{
		"is expected":            []byte(kernels.PTX),
		"EM_X86_64":              machine,
		"no kernel sluice_layer": change("sluice_layer.kd", "sluice_later.kd"),
		"of what it was made":    change("sluice_sources", "sluice_sourcez"),
		"run host/gpu/cuda":      change(kernels.SourcesAMD()[:40], strings.Repeat("0", 40)),
	} {
		file := filepath.Join(t.TempDir(), "kernels.co")
		if err := os.WriteFile(file, image, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := kernels.Object(file); err == nil || !strings.Contains(err.Error(), what) || !strings.Contains(err.Error(), file) {
			t.Errorf("expected %q: %v", what, err)
		}
	}
	if _, err := kernels.Object(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}
